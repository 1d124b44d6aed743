//! A place in a wait: an event plus a capped re-check, never one alone.
//!
//! Only the first two of the waiting line listen to events, the second to a later one, so that the first is woken first; who
//! stands behind them sleeps until it is its turn.
//! Events are a watch on the awaited inode and the end of its holder. Where a watch cannot be had (a file system that
//! others change too, no inotify instance left, no `/proc`) the re-checks come sooner: silently slower, never wrong.
//!
//! No wake-up is lost: with all signals blocked bash is asked whether it has one to look at, then `ppoll` sleeps with the
//! signals as they were.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::time::TimeSpec;

use super::clock;
use super::dir::Dir;
use super::line::Line;
use super::process::open_pidfd;
use super::signals::Blocked;
use super::watch::{Hurry, Watch, Watches};
use super::{Armed, Awaited, Errno, Stat, Wake};
use crate::base::{Deadline, Process, Time};

/// The longest sleep without looking.
const RECHECK: Duration = Duration::from_secs(1);
/// The first one where no event can be had.
const FIRST_RECHECK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct Waiter {
    line: Line,
    watches: Rc<Watches>,
    watch: Option<Watch>,
    /// Of the holder, until it has ended.
    holder: Option<OwnedFd>,
    /// The holder whose end was heard. A zombie would be heard again and again.
    ended: Option<u32>,
    armed_for: Option<u32>,
    /// Without a watch: what was there, and how long to sleep until looking again.
    seen: Option<Stat>,
    pause: Duration,
}

/// What a sleep needs to know of the rest of the process.
pub struct Sleep<'a> {
    /// Has bash a signal to look at?
    pub pending: fn() -> bool,
    pub random: &'a dyn Fn() -> u64,
}

impl Waiter {
    pub fn new(watches: Rc<Watches>, line: Line) -> Waiter {
        Waiter {
            line,
            watches,
            watch: None,
            holder: None,
            ended: None,
            armed_for: None,
            seen: None,
            pause: FIRST_RECHECK,
        }
    }

    pub fn arm(
        &mut self,
        dir: &Dir,
        name: &OsStr,
        awaited: Awaited,
        holder: Option<u32>,
        process: impl FnOnce() -> Process,
    ) -> Armed {
        if self.line.join(dir, name, awaited) {
            (self.watch, self.holder) = (None, None);
            return Armed::Ready;
        }
        self.watches.listen();
        self.holder = holder.filter(|&pid| self.ended != Some(pid)).and_then(|pid| open_pidfd(pid).ok());
        self.armed_for = holder;
        // The new watch before the old one goes: for the same inode they are one.
        let hurry = if self.line.is_behind() { Hurry::Second } else { Hurry::First };
        let watch = dir.is_local().then(|| self.watches.add(dir, name, awaited, hurry, &process()).ok()).flatten();
        self.watch = watch;
        if self.watch.is_some() {
            return Armed::Ready;
        }
        match dir.stat_at(name) {
            // Also how a missing /proc looks to the watch, hence the question here.
            Err(Errno::ENOENT) => Armed::Gone,
            seen => {
                self.look_sooner_after_change(seen.ok());
                Armed::Ready
            }
        }
    }

    /// A lock that changes hands is worth looking at sooner than one that is just held.
    fn look_sooner_after_change(&mut self, now: Option<Stat>) {
        if self.seen != now {
            self.pause = FIRST_RECHECK;
        }
        self.seen = now;
    }

    pub fn sleep(&mut self, deadline: Deadline, of: &Sleep) -> Wake {
        let until = clock::now().after(self.next_pause((of.random)()));
        let wake = match self.sleep_until(deadline.or_at(until), of.pending) {
            // A signal that came with the end of the time is bash's first.
            Wake::Recheck | Wake::Event if (of.pending)() => Wake::Interrupted,
            Wake::Recheck if deadline.has_passed(clock::now()) => Wake::Deadline,
            wake => wake,
        };
        self.line.has_woken(wake == Wake::Recheck);
        wake
    }

    /// With something to be heard nearly the longest, without one growing; not the same for everybody, lest all look at once.
    fn next_pause(&mut self, random: u64) -> Duration {
        let pause = if self.watch.is_some() || self.line.is_behind() { RECHECK } else { self.pause };
        self.pause = (self.pause * 3 / 2).min(RECHECK);
        // Between three quarters and all of it.
        pause - (pause / 4).mul_f64(random as f64 / u64::MAX as f64)
    }

    fn sleep_until(&mut self, until: Time, pending: fn() -> bool) -> Wake {
        loop {
            // Another wait of this process may have read what concerns us.
            if self.watch.as_ref().is_some_and(Watch::has_changed) {
                return Wake::Event;
            }
            let left = until.since(clock::now());
            if left.is_zero() {
                return Wake::Recheck;
            }
            let blocked = Blocked::all();
            if pending() {
                return Wake::Interrupted;
            }
            let heard = self.poll(&blocked, left);
            drop(blocked);
            if heard.holder {
                self.holder = None;
                self.ended = self.armed_for;
            }
            if heard.watches {
                self.watches.note_unread();
            }
            if heard.watches || heard.holder || (heard.line && self.line.hear()) {
                return Wake::Event;
            }
            if pending() {
                return Wake::Interrupted;
            }
        }
    }

    /// Sleeps for `left`, until there is something to be read, or a signal.
    fn poll(&self, blocked: &Blocked, left: Duration) -> Heard {
        self.watches.with_fd(|watches| {
            let holder = self.holder.as_ref().map(OwnedFd::as_fd);
            let watches = watches.filter(|_| self.watch.is_some());
            let sources = [holder, self.line.socket(), watches];
            let mut fds: Vec<_> = sources.iter().flatten().map(|&fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            // Its error is a signal's: there are no others with these arguments, and then nothing is ready.
            let _ = blocked.poll(&mut fds, TimeSpec::from_duration(left));
            let mut fds = fds.iter();
            let [holder, line, watches] = sources
                .map(|source| source.and_then(|_| fds.next()).is_some_and(|polled| polled.any().unwrap_or(true)));
            Heard { holder, line, watches }
        })
    }
}

/// Who has something to say after a sleep.
struct Heard {
    holder: bool,
    line: bool,
    watches: bool,
}

#[cfg(test)]
mod tests;
