//! The names in a directory. By the system call itself: nix takes an error in the middle for the end of the list, and then
//! a bakery's customer would not see who is inside.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::{Errno, Sys};

/// `struct linux_dirent64`: inode and offset of 8 bytes each, the record's length of 2, a type of 1, the name and a NUL.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

pub fn list(dir: BorrowedFd) -> Sys<Vec<OsString>> {
    // A description of its own, so that nobody's position in the directory is moved.
    let dir = openat(dir, ".", OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut names = Vec::new();
    let mut records = vec![0; 32 * 1024];
    loop {
        // SAFETY: an open directory, and a buffer that is writable for its whole length.
        let length =
            unsafe { libc::syscall(libc::SYS_getdents64, dir.as_raw_fd(), records.as_mut_ptr(), records.len()) };
        match Errno::result(length) {
            // Removed meanwhile: nothing is in it.
            Ok(0) | Err(Errno::ENOENT) => return Ok(names),
            Ok(length) => names.extend(names_of(&records[..length.unsigned_abs() as usize])),
            Err(errno) => return Err(errno),
        }
    }
}

fn names_of(mut records: &[u8]) -> impl Iterator<Item = OsString> {
    std::iter::from_fn(move || {
        let length = records.get(LENGTH_AT..NAME_AT - 1)?;
        let (record, rest) = records.split_at_checked(usize::from(u16::from_ne_bytes([length[0], length[1]])))?;
        records = rest;
        record.get(NAME_AT..)?.split(|&byte| byte == 0).next()
    })
    .filter(|name| !matches!(*name, b"." | b".."))
    .map(|name| OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn all_names_and_twice_the_same() {
        let scratch = Scratch::on_disk();
        // More than one call brings.
        let mut made: Vec<OsString> = (0..1000).map(|number| format!(".{number:050}").into()).collect();
        made.push("x".repeat(255).into());
        for name in &made {
            std::fs::write(scratch.path("").join(name), "").unwrap();
        }
        made.sort();
        let dir = std::fs::File::open(scratch.path("")).unwrap();
        for _ in 0..2 {
            let mut names = list(dir.as_fd()).unwrap();
            names.sort();
            assert_eq!(names, made);
        }
    }

    #[test]
    fn a_removed_directory_is_empty_and_a_file_is_none() {
        let scratch = Scratch::on_disk();
        std::fs::create_dir(scratch.path("d")).unwrap();
        let dir = std::fs::File::open(scratch.path("d")).unwrap();
        std::fs::remove_dir(scratch.path("d")).unwrap();
        assert_eq!(list(dir.as_fd()), Ok(Vec::new()));
        std::fs::write(scratch.path("f"), "").unwrap();
        let file = std::fs::File::open(scratch.path("f")).unwrap();
        assert_eq!(list(file.as_fd()), Err(Errno::ENOTDIR));
    }
}
