//! The guard: exclusive `flock` on a directory. Judging a lock and removing it is one step for all who use it.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use super::dir::Dir;
use super::{Errno, Sys};

/// Any program may flock a directory, for as long as it likes.
const PATIENCE: Duration = Duration::from_secs(1);
/// Enough for those who judge or remove a lock here, several of them.
const HASTE: Duration = Duration::from_millis(7);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Given back when dropped, explicitly: the handle may be parked or inherited afterwards and must not take it along.
#[derive(Debug)]
pub struct Guard<'d>(&'d Dir);

impl<'d> Guard<'d> {
    /// Without waiting longer than for an honest holder: who does not get it comes again only after the re-check period.
    pub fn try_take(dir: &'d Dir) -> Option<Guard<'d>> {
        take_within(HASTE, dir)
    }

    pub fn take(dir: &'d Dir) -> Option<Guard<'d>> {
        take_within(PATIENCE, dir)
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

fn take_within(patience: Duration, dir: &Dir) -> Option<Guard<'_>> {
    match take(dir) {
        Err(Errno::EWOULDBLOCK) => take_slow(patience, dir),
        taken => taken.ok(),
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
fn take_slow(patience: Duration, dir: &Dir) -> Option<Guard<'_>> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    while start.elapsed() < patience {
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

    /// A waiter at a dead holder's lock slept for a second when another lock in the directory changed hands at that moment.
    #[test]
    fn a_guard_that_is_given_back_soon_is_waited_for() {
        let scratch = Scratch::on_disk();
        let open = || Dir::open(&scratch.path("")).unwrap();
        let late = open();
        let has_waited_for_it = || {
            std::thread::scope(|scope| {
                let (early, (sender, taken)) = (open(), std::sync::mpsc::channel());
                scope.spawn(move || {
                    let guard = take(&early).unwrap();
                    sender.send(()).unwrap();
                    std::thread::sleep(FIRST_PAUSE);
                    drop(guard);
                });
                taken.recv().unwrap();
                take(&late).is_err() && Guard::try_take(&late).is_some()
            })
        };
        // Not each time: the machine may be busy.
        let count = (0..100).filter(|_| has_waited_for_it()).count();
        assert!(count >= 10, "{count}");
    }
}
