//! The host as commands see it: variables, standard output, input. bash is one; the tests have a smaller one.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use crate::base::Result;
use crate::sys::Sys;

/// A variable that a result goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    Scalar(&'a [u8]),
    Array(&'a [u8]),
}

impl<'a> Target<'a> {
    pub fn name(&self) -> &'a [u8] {
        match self {
            Target::Scalar(name) | Target::Array(name) => name,
        }
    }
}

/// What came of reading or writing some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// So many; 0 when reading is the end.
    Bytes(usize),
    /// None: the shell has a signal to look at first.
    Interrupted,
}

pub trait Shell {
    /// Can it be assigned without evaluating anything, without an error and without side effects? Says why not.
    fn refuses(&self, target: Target<'_>) -> Option<&'static str>;
    /// Assigns a target that is not refused. A value must not contain NUL.
    fn assign(&mut self, target: Target<'_>, values: &[Vec<u8>]) -> Result<()>;
    /// Unsets a target that is not refused.
    fn unset(&mut self, target: Target<'_>);
    /// Writes some of `bytes` to standard output, after what the shell itself has printed.
    fn write(&mut self, bytes: &[u8]) -> Sys<Moved>;
    fn open(&mut self, path: &OsStr) -> Sys<OwnedFd>;
    /// Reads from `file`, from standard input if it is `None`.
    fn read(&mut self, file: Option<&OwnedFd>, buffer: &mut [u8]) -> Sys<Moved>;
    /// Is there a signal to look at first?
    fn has_news(&self) -> bool;
    /// Is there somebody to ask?
    fn is_terminal(&self) -> bool;
    /// Its own.
    fn version(&self) -> Vec<u8>;
    /// Would this command word call a function?
    fn is_function(&self, name: &[u8]) -> bool;
    /// `$0`.
    fn program(&self) -> Vec<u8>;
    /// One line on standard error, in the shell's form.
    fn warn(&mut self, line: &[u8]);
    /// An item that has no other place left, to standard error as it is.
    fn rescue(&mut self, item: &[u8]);
}
