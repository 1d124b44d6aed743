//! Opened directories, and what may be done to their names.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::NixPath;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::sys::statfs::fstatfs;

use super::list::list;
use super::{Errno, Kind, Stat, Sys};

/// File systems of this kernel alone: nobody elsewhere changes them, locks and events on them are seen by all. What is
/// not listed counts as remote: no takeover there, and waiting by looking again.
const LOCAL: [u32; 16] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683E, // btrfs
    0x0102_1994, // tmpfs, devtmpfs
    0x8584_58F6, // ramfs
    0x794C_7630, // overlayfs
    0xF2F5_2010, // f2fs
    0x2FC1_2FC1, // zfs
    0xCA45_1A4E, // bcachefs
    0x3153_464A, // jfs
    0x5265_4973, // reiserfs
    0x2405_1905, // ubifs
    0x0000_72B6, // jffs2
    0x0000_3434, // nilfs
    0x7366_746E, // ntfs3
    0x0000_2468, // minix v2
];

/// An opened directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// Otherwise it is an `O_PATH` descriptor: good for names, not for locks and lists.
    is_readable: bool,
    /// Asked once per handle. Device numbers are no key for remembering longer: they are reused.
    is_local: Cell<Option<bool>>,
}

impl Dir {
    pub fn open(path: &Path) -> Sys<Dir> {
        Dir::open_with(AT_FDCWD, path, OFlag::empty())
    }

    /// Does not follow a link.
    pub fn open_at(&self, name: &OsStr) -> Sys<Dir> {
        Dir::open_with(self.as_fd(), name, OFlag::O_NOFOLLOW)
    }

    fn open_with<P: NixPath + ?Sized>(at: BorrowedFd, path: &P, flags: OFlag) -> Sys<Dir> {
        let flags = flags | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let (fd, is_readable) = match openat(at, path, flags | OFlag::O_RDONLY, Mode::empty()) {
            // One may be allowed to use names in it, and not to read it.
            Err(Errno::EACCES) => (openat(at, path, flags | OFlag::O_PATH, Mode::empty())?, false),
            opened => (opened?, true),
        };
        Ok(Dir { fd, is_readable, is_local: Cell::new(None) })
    }

    pub fn can_mark(&self) -> bool {
        self.is_readable && self.is_local()
    }

    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    pub fn is_local(&self) -> bool {
        self.is_local.get().unwrap_or_else(|| {
            // The type is 32 bits wide in a signed word of any size.
            let is_local = fstatfs(self).is_ok_and(|fs| LOCAL.contains(&(fs.filesystem_type().0 as u32)));
            self.is_local.set(Some(is_local));
            is_local
        })
    }

    pub fn list(&self) -> Sys<Vec<OsString>> {
        list(self.as_fd())
    }

    pub fn stat_at(&self, name: &OsStr) -> Sys<Stat> {
        Ok(Stat::from(fstatat(self, name, AtFlags::AT_SYMLINK_NOFOLLOW)?))
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<FileStat> for Stat {
    fn from(stat: FileStat) -> Stat {
        let kind = match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Directory,
            SFlag::S_IFLNK => Kind::Link,
            _ => Kind::Other,
        };
        Stat {
            kind,
            device: stat.st_dev,
            inode: stat.st_ino,
            length: u64::try_from(stat.st_size).unwrap_or(0),
            modified: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
        }
    }
}

/// The text of a link.
pub fn read_link(dir: impl AsFd, name: &OsStr) -> Sys<Vec<u8>> {
    // A lock's text fits; what does not is somebody else's.
    let mut room = [MaybeUninit::<u8>::uninit(); 128];
    let length = read_link_into(dir.as_fd(), name, &mut room)?;
    if length < room.len() {
        // SAFETY: the system has written the first `length` bytes, and any bytes are bytes.
        return Ok(unsafe { std::slice::from_raw_parts(room.as_ptr().cast::<u8>(), length) }.to_vec());
    }
    Ok(nix::fcntl::readlinkat(dir, name)?.into_vec())
}

fn read_link_into(dir: BorrowedFd, name: &OsStr, room: &mut [MaybeUninit<u8>]) -> Sys<usize> {
    // SAFETY: an open directory, a terminated string, and a buffer that is writable for its whole length.
    let length = name.with_nix_path(|name| unsafe {
        libc::readlinkat(dir.as_raw_fd(), name.as_ptr(), room.as_mut_ptr().cast(), room.len())
    })?;
    Errno::result(length).map(|length| length.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::scratch::Scratch;
    use super::*;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn directories_only_and_links_only_where_the_user_chose_them() {
        let scratch = Scratch::on_disk();
        std::fs::create_dir(scratch.path("d")).unwrap();
        std::fs::write(scratch.path("f"), "").unwrap();
        symlink("d", scratch.path("l")).unwrap();
        let dir = Dir::open(&scratch.path("")).unwrap();
        assert!(Dir::open(&scratch.path("l")).is_ok());
        assert!(dir.open_at(name("d")).is_ok());
        assert_eq!(dir.open_at(name("l")).unwrap_err(), Errno::ENOTDIR);
        assert_eq!(dir.open_at(name("f")).unwrap_err(), Errno::ENOTDIR);
        assert_eq!(Dir::open(&scratch.path("none")).unwrap_err(), Errno::ENOENT);
        assert_eq!(Dir::open(&scratch.path("f")).unwrap_err(), Errno::ENOTDIR);
    }

    #[test]
    fn a_link_of_any_length_is_read_whole() {
        let scratch = Scratch::on_disk();
        let dir = Dir::open(&scratch.path("")).unwrap();
        for length in [1, 59, 127, 128, 129, 4000] {
            let text = "x".repeat(length);
            symlink(&text, scratch.path("l")).unwrap();
            assert_eq!(read_link(&dir, name("l")).unwrap(), text.as_bytes(), "{length}");
            std::fs::remove_file(scratch.path("l")).unwrap();
        }
        assert_eq!(read_link(&dir, name("l")).unwrap_err(), Errno::ENOENT);
        assert_eq!(read_link(&dir, name("")).unwrap_err(), Errno::ENOENT);
        std::fs::write(scratch.path("l"), "").unwrap();
        assert_eq!(read_link(&dir, name("l")).unwrap_err(), Errno::EINVAL);
    }

    #[test]
    fn the_kind_of_file_system_decides() {
        assert!(Dir::open(Path::new("/dev/shm")).unwrap().can_mark());
        assert!(!Dir::open(Path::new("/proc")).unwrap().can_mark());
    }

    #[test]
    fn an_unreadable_directory_serves_for_names() {
        // Root reads everything; then there is nothing to see here.
        if nix::unistd::geteuid().is_root() {
            return;
        }
        let scratch = Scratch::on_disk();
        std::fs::create_dir(scratch.path("d")).unwrap();
        symlink("1", scratch.path("d/l")).unwrap();
        std::fs::set_permissions(scratch.path("d"), std::fs::Permissions::from_mode(0o300)).unwrap();
        let dir = Dir::open(&scratch.path("d")).unwrap();
        assert!(!dir.can_mark());
        assert_eq!(read_link(&dir, name("l")).unwrap(), b"1");
    }
}
