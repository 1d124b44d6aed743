//! Why an operation failed. The honest *no* (busy, timed out, empty, not locked) is not an error: it is a result.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The call itself is wrong; found before anything was done. Status 2.
    Usage(String),
    /// Somebody else's object: unlock or destroy refused. Status 2.
    NotOwner { path: PathBuf, whose: String },
    /// The operating system said no. Status 3.
    System { path: PathBuf, errno: Errno },
    /// The object is there but not what it should be. Status 3.
    Damaged { path: PathBuf, what: String },
}

impl Error {
    pub fn system(path: impl AsRef<Path>, errno: Errno) -> Self {
        Error::System { path: path.as_ref().to_owned(), errno }
    }

    pub fn damaged(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Error::Damaged { path: path.as_ref().to_owned(), what: what.into() }
    }

    pub fn status(&self) -> u8 {
        match self {
            Error::Usage(_) | Error::NotOwner { .. } => 2,
            Error::System { .. } | Error::Damaged { .. } => 3,
        }
    }

    /// The message after `script: line 7: mutex_lock: `: the names' bytes as they are, but one harmless line.
    pub fn message(&self) -> Vec<u8> {
        let (path, text) = match self {
            Error::Usage(text) => return harmless(text.as_bytes()),
            Error::NotOwner { path, whose } => (path, format!("not the owner: {whose}")),
            Error::System { path, errno } => (path, reason(*errno)),
            Error::Damaged { path, what } => (path, what.clone()),
        };
        harmless(&[path.as_os_str().as_bytes(), b": ", text.as_bytes()].concat())
    }
}

/// A name may hold a newline or an escape sequence. UTF-8 writes the second set of control characters as C2 80 to C2 9F.
fn harmless(line: &[u8]) -> Vec<u8> {
    let is_control = |at: usize| match line[at] {
        0xc2 => line.get(at + 1).is_some_and(|next| (0x80..0xa0).contains(next)),
        0x80..0xa0 => at > 0 && line[at - 1] == 0xc2,
        byte => byte.is_ascii_control(),
    };
    (0..line.len()).map(|at| if is_control(at) { b'?' } else { line[at] }).collect()
}

/// The system's own words, as bash and every other program says them.
fn reason(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.rsplit_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.message()))
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_in_a_name_keeps_the_message_one_line() {
        let error = Error::system("/tmp/a\nb\x1b[31m", Errno::EACCES);
        assert_eq!(error.message(), b"/tmp/a?b?[31m: Permission denied");
        assert_eq!(error.status(), 3);
    }

    #[test]
    fn no_text_brings_control_characters_into_a_message() {
        let text = "\x1b]0;x\x07\n\u{9b}1m\u{e9}";
        for (error, message) in [
            (Error::Usage(text.into()), "?]0;x????1m\u{e9}".to_owned()),
            (Error::damaged("d", format!("holds {text}")), "d: holds ?]0;x????1m\u{e9}".to_owned()),
            (Error::damaged(text, "x"), "?]0;x????1m\u{e9}: x".to_owned()),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn reasons_are_said_as_everybody_says_them() {
        for (errno, words) in [
            (Errno::ELOOP, "Too many levels of symbolic links"),
            (Errno::EBADF, "Bad file descriptor"),
            (Errno::ENOSPC, "No space left on device"),
        ] {
            assert_eq!(Error::system("x", errno).message(), format!("x: {words}").as_bytes());
        }
    }
}
