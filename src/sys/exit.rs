//! Ending without a delay. The end of a process closes its inotify instance, and so waits until the kernel has let go of
//! the last watch: 7 ms and more after a lock that was waited for.
//!
//! An exit handler spares it that: the instance goes into the queue of a socket that is in its own queue, where nobody can
//! reach it. The kernel's collector closes it when we are gone (Linux 6.10 and later; before, it does so on our time, as
//! without). A process that is killed, or turned into another by exec, waits as ever.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg, socketpair};
use nix::sys::stat::fstat;
use nix::unistd::getpid;

use super::Sys;

/// The instance, which file that is, and whose. A forked child has a copy of all this, and leaves its parent's alone.
static INSTANCE: AtomicI32 = AtomicI32::new(NONE);
static INODE: AtomicU64 = AtomicU64::new(0);
static OWNER: AtomicU32 = AtomicU32::new(0);
const NONE: RawFd = -1;

/// From now on the end of this process does not wait for this descriptor.
pub fn remember(instance: BorrowedFd) {
    static REGISTERED: Once = Once::new();
    // Should it fail the end takes longer, and that is all.
    // SAFETY: a function of this library, which is never unloaded.
    REGISTERED.call_once(|| _ = unsafe { libc::atexit(at_exit) });
    INODE.store(inode(instance), Relaxed);
    OWNER.store(own_number(), Relaxed);
    INSTANCE.store(instance.as_raw_fd(), Relaxed);
}

/// It is about to be closed.
pub fn forget() {
    INSTANCE.store(NONE, Relaxed);
}

extern "C" fn at_exit() {
    let number = INSTANCE.swap(NONE, Relaxed);
    if number == NONE || OWNER.load(Relaxed) != own_number() {
        return;
    }
    // SAFETY: not -1. Should a script have closed it, the only use made of it is the question which file it is.
    if inode(unsafe { BorrowedFd::borrow_raw(number) }) == INODE.load(Relaxed) {
        // SAFETY: open and ours; no builtin runs any more that could use it.
        let _ = leave_behind(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

fn leave_behind(instance: OwnedFd) -> Sys<()> {
    let (outer, inner) = socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_CLOEXEC)?;
    let rights = [inner.as_raw_fd(), instance.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&rights)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(outer.as_raw_fd(), &[IoSlice::new(b".")], &message, flags, None)?;
    drop((inner, instance));
    // The end of this one makes the collector look.
    drop(outer);
    Ok(())
}

/// 0 if it is closed.
fn inode(fd: BorrowedFd) -> u64 {
    fstat(fd).map_or(0, |stat| stat.st_ino)
}

fn own_number() -> u32 {
    getpid().as_raw().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    #[test]
    fn what_is_left_behind_is_closed_by_the_system() {
        let (mut reader, writer) = pipe().unwrap();
        leave_behind(writer.into()).unwrap();
        // The end comes when the last writer is closed.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
