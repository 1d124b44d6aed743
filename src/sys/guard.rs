//! The guard: exclusive `flock` on a directory. Judging a lock and removing it is one step for all who use it.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use super::dir::Dir;
use super::{Errno, Sys};

/// Any program may flock a directory, for as long as it likes.
const PATIENCE: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Given back when dropped, explicitly: the handle may be parked or inherited afterwards and must not take it along.
#[derive(Debug)]
pub struct Guard<'d>(&'d Dir);

impl<'d> Guard<'d> {
    pub fn try_take(dir: &'d Dir) -> Option<Guard<'d>> {
        take(dir).ok()
    }

    pub fn take(dir: &'d Dir) -> Option<Guard<'d>> {
        match take(dir) {
            Err(Errno::EWOULDBLOCK) => take_slow(dir),
            taken => taken.ok(),
        }
    }
}

impl Guard<'_> {
    /// The last copy of the handle is closed next, which gives it back.
    pub fn leave_to_closing(self) {
        std::mem::forget(self);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Cannot fail for what was locked.
        let _ = flock(self.0, libc::LOCK_UN);
    }
}

fn take(dir: &Dir) -> Sys<Guard<'_>> {
    if !dir.is_readable() {
        return Err(Errno::EBADF);
    }
    flock(dir, libc::LOCK_EX | libc::LOCK_NB).map(|()| Guard(dir))
}

#[cold]
#[expect(clippy::disallowed_methods, reason = "milliseconds, and seldom: not worth an interruption")]
fn take_slow(dir: &Dir) -> Option<Guard<'_>> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    while start.elapsed() < PATIENCE {
        std::thread::sleep(pause);
        match take(dir) {
            Err(Errno::EWOULDBLOCK) => pause = (2 * pause).min(LONGEST_PAUSE),
            taken => return taken.ok(),
        }
    }
    None
}

fn flock(dir: &Dir, operation: libc::c_int) -> Sys<()> {
    // SAFETY: an open descriptor, for the time of the call.
    Errno::result(unsafe { libc::flock(dir.as_fd().as_raw_fd(), operation) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn one_at_a_time_and_back_when_dropped_though_the_handle_lives() {
        for scratch in Scratch::each() {
            let open = || Dir::open(&scratch.path("")).unwrap();
            let (one, two) = (open(), open());
            let guard = Guard::try_take(&one);
            assert!(guard.is_some());
            assert!(Guard::try_take(&two).is_none());
            // A copy of the description, as a fork or parking makes.
            let copy = one.as_fd().try_clone_to_owned().unwrap();
            drop(guard);
            assert!(Guard::try_take(&two).is_some());
            drop(copy);
        }
    }

    #[test]
    fn waiting_for_it_ends() {
        let scratch = Scratch::on_disk();
        let open = || Dir::open(&scratch.path("")).unwrap();
        let (one, two) = (open(), open());
        let _squatter = Guard::try_take(&one).unwrap();
        let start = Instant::now();
        assert!(Guard::take(&two).is_none());
        assert!(start.elapsed() >= PATIENCE);
    }

    #[test]
    fn what_is_given_back_in_time_is_taken() {
        let scratch = Scratch::on_disk();
        let (one, two) = (Dir::open(&scratch.path("")).unwrap(), Dir::open(&scratch.path("")).unwrap());
        std::thread::scope(|scope| {
            let (sender, taken) = std::sync::mpsc::channel();
            scope.spawn(move || {
                let guard = Guard::try_take(&one).unwrap();
                sender.send(()).unwrap();
                std::thread::sleep(5 * FIRST_PAUSE);
                drop(guard);
            });
            taken.recv().unwrap();
            assert!(Guard::take(&two).is_some());
        });
    }
}
