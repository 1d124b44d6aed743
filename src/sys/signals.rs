//! Keeping signals away for a moment, and sleeping without missing one.

use std::cell::Cell;

use nix::poll::{PollFd, ppoll};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::time::TimeSpec;

use super::Sys;

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
    use crate::sys::Errno;
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, Signal, raise, sigaction};
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
}
