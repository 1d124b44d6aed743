//! Keeping signals away for a moment, and sleeping or blocking without being deaf to them.

use std::cell::Cell;

use nix::poll::{PollFd, ppoll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::time::TimeSpec;

use super::{Errno, Sys};

thread_local! {
    /// The signals that were blocked before the outermost critical section of this thread.
    static BEFORE: Cell<Option<SigSet>> = const { Cell::new(None) };
}

/// While it lives no signal is handled.
#[derive(Debug)]
pub struct Blocked {
    is_outermost: bool,
}

impl Blocked {
    pub fn all() -> Blocked {
        let is_outermost = BEFORE.get().is_none();
        if is_outermost {
            let mut before = SigSet::empty();
            // Cannot fail with these arguments.
            let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before));
            BEFORE.set(Some(before));
        }
        Blocked { is_outermost }
    }

    /// Polls with the signals as they were before the outermost section: one that is pending, or comes, ends it with
    /// EINTR. A section that has to wait for somebody must not be deaf to Ctrl-C.
    pub fn poll(&self, fds: &mut [PollFd], timeout: TimeSpec) -> Sys<i32> {
        ppoll(fds, Some(timeout), BEFORE.get())
    }

    /// A system call that may block, with the signals as they were before the outermost section, but for those that only
    /// repeat an error. One that comes right before the call does not end it: where that matters, poll.
    pub fn open<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut open = BEFORE.get().unwrap_or(SigSet::all());
        open.add(Signal::SIGPIPE);
        open.add(Signal::SIGXFSZ);
        // Cannot fail with these arguments.
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&open), None);
        let end = call();
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
        end
    }
}

/// Writes so that a closed pipe or the file size limit is an error only, not also a signal that ends the shell.
pub fn spared<T>(write: impl FnOnce(&Blocked) -> Sys<T>) -> Sys<T> {
    let blocked = Blocked::all();
    write(&blocked).inspect_err(|errno| match errno {
        Errno::EPIPE => take_away(Signal::SIGPIPE),
        Errno::EFBIG => take_away(Signal::SIGXFSZ),
        _ => {}
    })
}

/// A signal that is blocked and, if it has come at all, pending.
#[cold]
fn take_away(signal: Signal) {
    let mut one = SigSet::empty();
    one.add(signal);
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid arguments.
    unsafe { libc::sigtimedwait(one.as_ref(), std::ptr::null_mut(), &now) };
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = self.is_outermost.then(|| BEFORE.take()).flatten() {
            let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, raise, sigaction};
    use std::sync::atomic::{AtomicU32, Ordering};

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handle(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_signal_that_came_before_the_poll_ends_it() {
        let action = SigAction::new(SigHandler::Handler(handle), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler only counts; no other test uses this signal.
        unsafe { sigaction(Signal::SIGURG, &action) }.unwrap();
        let blocked = Blocked::all();
        let inner = Blocked::all();
        // To this thread.
        raise(Signal::SIGURG).unwrap();
        drop(inner);
        assert_eq!(HANDLED.load(Ordering::Relaxed), 0, "the inner section must not open the outer one");
        let inner = Blocked::all();
        let polled = inner.poll(&mut [], TimeSpec::new(60, 0));
        assert_eq!((polled, HANDLED.load(Ordering::Relaxed)), (Err(Errno::EINTR), 1), "not deaf, not even inside");
        drop(inner);
        raise(Signal::SIGURG).unwrap();
        assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
        drop(blocked);
        assert_eq!(HANDLED.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_write_beyond_the_file_size_limit_is_an_error_only() {
        use super::super::{forked, scratch::Scratch};
        use nix::sys::resource::{Resource, setrlimit};
        let scratch = Scratch::on_disk();
        let file = std::fs::File::create(scratch.path("f")).unwrap();
        // The limit is the whole process's.
        let ends = forked::in_child(|| {
            setrlimit(Resource::RLIMIT_FSIZE, 4, 4).unwrap();
            let ends = [b"12345", b"67890"].map(|bytes| spared(|_| nix::unistd::write(&file, bytes)));
            format!("{ends:?}")
        });
        assert_eq!(ends, "[Ok(4), Err(EFBIG)]");
    }

    #[test]
    fn a_call_in_the_open_is_ended_by_a_signal_but_not_by_that_of_a_closed_pipe() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let blocked = Blocked::all();
        assert_eq!(blocked.open(|| spared(|_| nix::unistd::write(&writer, b"x"))), Err(Errno::EPIPE));
        let is_blocked = |signal| SigSet::thread_get_mask().unwrap().contains(signal);
        assert_eq!(blocked.open(|| [Signal::SIGTERM, Signal::SIGPIPE].map(is_blocked)), [false, true]);
        assert!(is_blocked(Signal::SIGTERM));
    }
}
