//! For tests: running something in a forked child.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe, write};

/// A child process that is ended and reaped when dropped.
pub struct Forked {
    pub pid: Pid,
    output: Option<OwnedFd>,
}

impl Forked {
    /// A child has a copy of every descriptor of its parent, those of other tests included. [`without_forks`] keeps it
    /// from those that must be closed when they are closed.
    pub fn start(work: impl FnOnce() -> String) -> Forked {
        Forked::start_among(&without_forks(), work)
    }

    /// The test harness has other threads, whose locks a child may find taken for ever: it should do little but system
    /// calls. (The allocator of glibc is safe after fork.)
    pub fn start_among(_: &WithoutForks, work: impl FnOnce() -> String) -> Forked {
        let (reader, writer) = pipe().unwrap();
        // SAFETY: see above; the child leaves by `_exit` whatever happens and never returns into the harness.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => Forked { pid: child, output: Some(reader) },
            ForkResult::Child => {
                drop(reader);
                let status = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
                    Ok(text) => i32::from(write(&writer, text.as_bytes()).is_err()),
                    Err(_) => 101,
                };
                // SAFETY: ends the process, runs no handlers.
                unsafe { libc::_exit(status) }
            }
        }
    }

    /// What it returned.
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        std::fs::File::from(self.output.take().unwrap()).read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.pid, nix::sys::signal::Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

pub type WithoutForks = MutexGuard<'static, ()>;

/// While it lives other tests fork no children.
pub fn without_forks() -> WithoutForks {
    static FORKING: Mutex<()> = Mutex::new(());
    FORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn in_child(work: impl FnOnce() -> String) -> String {
    Forked::start(work).finish()
}
