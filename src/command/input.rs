//! The whole of a file or of standard input as one item, any bytes. Reading stops at signals and goes on after them; what
//! has been read waits in the [`Call`](super::Call).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use super::{Moved, Shell};
use crate::base::{Error, Result, make_room};
use crate::sys::Errno;

const PIECE: usize = 64 * 1024;

/// An input and what has come of it.
pub struct Reading {
    /// `None`: standard input.
    file: Option<OwnedFd>,
    path: Vec<u8>,
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Reading {
    /// `-` is standard input.
    pub fn open<S: Shell>(shell: &mut S, path: &[u8]) -> Result<Reading> {
        let file = match path {
            b"-" => None,
            _ => Some(
                shell.open(OsStr::from_bytes(path)).map_err(|errno| Error::system(OsStr::from_bytes(path), errno))?,
            ),
        };
        Ok(Reading { file, path: path.to_vec(), bytes: Vec::new(), has_ended: false })
    }

    /// To the end, or until a signal; again after the end does nothing.
    pub fn read<S: Shell>(&mut self, shell: &mut S) -> Result<Moved> {
        while !self.has_ended {
            // Not enough memory for the item is an error of this call, not the end of the shell.
            make_room(&mut self.bytes, PIECE).map_err(|_| self.error(Errno::ENOMEM))?;
            let length = self.bytes.len();
            self.bytes.resize(length + PIECE, 0);
            let moved = shell.read(self.file.as_ref(), &mut self.bytes[length..]);
            let read = if let Ok(Moved::Bytes(count)) = moved { count } else { 0 };
            self.bytes.truncate(length + read);
            match moved.map_err(|errno| self.error(errno))? {
                Moved::Bytes(0) => self.has_ended = true,
                Moved::Bytes(_) => {}
                Moved::Interrupted => return Ok(Moved::Interrupted),
            }
        }
        Ok(Moved::Bytes(self.bytes.len()))
    }

    pub fn item(&self) -> &[u8] {
        &self.bytes
    }

    fn error(&self, errno: Errno) -> Error {
        match self.file {
            Some(_) => Error::system(OsStr::from_bytes(&self.path), errno),
            None => Error::system("standard input", errno),
        }
    }
}
