//! Descriptors that stay open between calls, inside a shell whose script opens, closes and reuses numbers as it likes.

use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::fstat;

use super::Inherit;

/// Above the numbers that bash and scripts choose, below the usual limit of 1024.
const HIGH: RawFd = 512;
/// Where `ulimit -n` forbids even half of itself: above what scripts name in redirections.
const LOW: RawFd = 10;

/// A descriptor kept at a high number. What the number stands for may have been changed behind our back: it is looked
/// at before each use, and closed only if it still is ours.
#[derive(Debug)]
pub struct Kept {
    number: RawFd,
    device: u64,
    inode: u64,
}

impl Kept {
    pub fn new(fd: OwnedFd, inherit: Inherit) -> Kept {
        let fd = raise(fd, inherit);
        // Without a number to compare with it is never trusted, which is the safe side.
        let (device, inode) = fstat(&fd).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino));
        Kept { number: fd.into_raw_fd(), device, inode }
    }

    /// The descriptor, if the script has left it alone.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the number is not -1. Should it be closed or another file, the only use made of it is the question
        // which file it is, and it is handed out only if that is the one we opened.
        let fd = unsafe { BorrowedFd::borrow_raw(self.number) };
        let stat = fstat(fd).ok()?;
        ((stat.st_dev, stat.st_ino) == (self.device, self.inode)).then_some(fd)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: open, the file that we opened, and nobody else in this process closes it on our behalf: `new` took
            // it out of its owner, and this is the end of the only `Kept` with this number.
            drop(unsafe { OwnedFd::from_raw_fd(self.number) });
        }
    }
}

/// Moves a descriptor to a high number; where there is none left, it stays where it is.
fn raise(fd: OwnedFd, inherit: Inherit) -> OwnedFd {
    let duplicate = |least| {
        let copy = fcntl(
            &fd,
            match inherit {
                Inherit::Programs => FcntlArg::F_DUPFD(least),
                Inherit::Nobody => FcntlArg::F_DUPFD_CLOEXEC(least),
            },
        );
        // SAFETY: a fresh descriptor that nobody else knows of.
        copy.map(|number| unsafe { OwnedFd::from_raw_fd(number) })
    };
    duplicate(HIGH).or_else(|_| duplicate(half_the_limit())).or_else(|_| duplicate(LOW)).unwrap_or_else(|_| {
        if inherit == Inherit::Programs {
            // Cannot fail for an open descriptor.
            let _ = fcntl(&fd, FcntlArg::F_SETFD(FdFlag::empty()));
        }
        fd
    })
}

fn half_the_limit() -> RawFd {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    RawFd::try_from(soft / 2).unwrap_or(HIGH)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    fn open(path: &str) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    fn flags(fd: BorrowedFd) -> FdFlag {
        FdFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFD).unwrap())
    }

    #[test]
    fn kept_high_and_inherited_as_asked() {
        let ours = Kept::new(open("/"), Inherit::Programs);
        assert!(ours.number >= HIGH);
        assert!(!flags(ours.get().unwrap()).contains(FdFlag::FD_CLOEXEC));
        let hidden = Kept::new(open("/"), Inherit::Nobody);
        assert!(flags(hidden.get().unwrap()).contains(FdFlag::FD_CLOEXEC));
    }

    #[test]
    fn a_number_that_the_script_reused_is_neither_trusted_nor_closed() {
        let ours = Kept::new(open("/"), Inherit::Nobody);
        let number = ours.number;
        // What `exec 512<file` does.
        let foreign = open("/proc/self/comm");
        // SAFETY: numbers only; what is replaced is looked at before its next use.
        assert_eq!(unsafe { libc::dup2(foreign.as_raw_fd(), number) }, number);
        assert!(ours.get().is_none());
        drop(ours);
        // SAFETY: opened by the dup2 above; nobody else closes it.
        let mut still_open = File::from(unsafe { OwnedFd::from_raw_fd(number) });
        assert!(still_open.read(&mut [0; 8]).unwrap() > 0);
    }
}
