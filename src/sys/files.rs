//! Regular files: opening without surprises, and the steps on an open one.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::sys::uio::{pread, pwrite};
use nix::unistd::{Gid, fchown, ftruncate};

use super::dir::Dir;
use super::{Access, Errno, Sys, spared};

/// Never follows a link, never blocks on a FIFO, never makes a terminal ours.
pub fn open(dir: &Dir, name: &OsStr, access: Access) -> Sys<OwnedFd> {
    let how = match access {
        Access::Read => OFlag::O_RDONLY,
        Access::Update => OFlag::O_RDWR,
        Access::Create => OFlag::O_RDWR | OFlag::O_CREAT,
        Access::CreateNew => OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL,
    };
    let always = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    again(|| openat(dir, name, how | always, Mode::from_bits_truncate(0o666)))
}

pub fn read_at(file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> Sys<usize> {
    let offset = position(offset)?;
    again(|| pread(file, buffer, offset))
}

pub fn write_at(file: &OwnedFd, offset: u64, bytes: &[u8]) -> Sys<usize> {
    let offset = position(offset)?;
    spared(|_| again(|| pwrite(file, bytes, offset)))
}

pub fn truncate(file: &OwnedFd, length: u64) -> Sys<()> {
    let length = position(length)?;
    again(|| ftruncate(file, length))
}

/// The group first: giving a file away clears bits of its mode.
pub fn copy_mode(from: &OwnedFd, to: &OwnedFd) -> Sys<()> {
    let (model, copy) = (fstat(from)?, fstat(to)?);
    if model.st_gid != copy.st_gid {
        fchown(to, None, Some(Gid::from_raw(model.st_gid)))?;
    }
    fchmod(to, Mode::from_bits_truncate(model.st_mode & 0o7777))
}

fn position(offset: u64) -> Sys<i64> {
    i64::try_from(offset).map_err(|_| Errno::EFBIG)
}

/// Disks do not return early on a signal; file systems in user space may.
fn again<T>(mut step: impl FnMut() -> Sys<T>) -> Sys<T> {
    loop {
        match step() {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    use super::super::scratch::Scratch;
    use super::*;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn a_planted_link_is_not_followed_and_its_victim_unharmed() {
        let scratch = Scratch::on_disk();
        std::fs::write(scratch.path("victim"), "v").unwrap();
        symlink("victim", scratch.path("l")).unwrap();
        let dir = Dir::open(&scratch.path("")).unwrap();
        for access in [Access::Read, Access::Update, Access::Create] {
            assert_eq!(open(&dir, name("l"), access).unwrap_err(), Errno::ELOOP, "{access:?}");
        }
        assert_eq!(open(&dir, name("l"), Access::CreateNew).unwrap_err(), Errno::EEXIST);
        assert_eq!(std::fs::read(scratch.path("victim")).unwrap(), b"v");
    }

    #[test]
    fn a_fifo_does_not_block() {
        let scratch = Scratch::on_disk();
        nix::unistd::mkfifo(&scratch.path("p"), Mode::S_IRWXU).unwrap();
        let dir = Dir::open(&scratch.path("")).unwrap();
        let fifo = open(&dir, name("p"), Access::Read).unwrap();
        assert_eq!(read_at(&fifo, 0, &mut [0; 4]).unwrap_err(), Errno::ESPIPE);
    }

    #[test]
    fn each_access_makes_what_it_says() {
        for scratch in Scratch::each() {
            let dir = Dir::open(&scratch.path("")).unwrap();
            assert_eq!(open(&dir, name("f"), Access::Update).unwrap_err(), Errno::ENOENT);
            let file = open(&dir, name("f"), Access::CreateNew).unwrap();
            assert_eq!(open(&dir, name("f"), Access::CreateNew).unwrap_err(), Errno::EEXIST);
            assert_eq!(write_at(&file, 2, b"xyz").unwrap(), 3);
            let same = open(&dir, name("f"), Access::Create).unwrap();
            let mut bytes = [9; 8];
            assert_eq!(read_at(&same, 0, &mut bytes).unwrap(), 5);
            assert_eq!(&bytes[..5], b"\0\0xyz");
            truncate(&same, 1).unwrap();
            assert_eq!(read_at(&file, 1, &mut bytes).unwrap(), 0);
        }
    }

    #[test]
    fn the_copy_gets_mode_and_group() {
        let scratch = Scratch::on_disk();
        let dir = Dir::open(&scratch.path("")).unwrap();
        let from = open(&dir, name("from"), Access::CreateNew).unwrap();
        std::fs::set_permissions(scratch.path("from"), std::fs::Permissions::from_mode(0o2664)).unwrap();
        let to = open(&dir, name("to"), Access::CreateNew).unwrap();
        copy_mode(&from, &to).unwrap();
        let of = |path: &Path| {
            let meta = std::fs::metadata(path).unwrap();
            (meta.mode(), meta.gid())
        };
        assert_eq!(of(&scratch.path("from")), of(&scratch.path("to")));
    }
}
