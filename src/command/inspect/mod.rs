//! `interlock VERB`: for looking at objects, and for the one thing a person may have to do by hand.
//!
//! Holders and waiters are what the kernel shows at this moment. What may not be seen is said to be unknown.

mod chain;
pub(super) mod list;
mod tell;

use super::words::{printable, usage};
use super::{Action, Carried, Context, Moved, Outcome, Shell, VERBS, deliver, man};
use crate::base::{Error, Name, Result};
use crate::primitive::mutex::{Unlocked, open_parent, unlock};
use crate::primitive::survey::{ObjectKind, Surveyed, survey};
use crate::primitive::{bakery, dirlock, wmutex};
use crate::sys::World;
use crate::sys::observe::Observed;

impl<W: World, S: Shell> Context<'_, W, S> {
    pub(super) fn interlock(&mut self) -> Result<Outcome> {
        let (verb, words) = (self.words.operands[0], &self.words.operands[1..]);
        match VERBS.iter().find(|row| row.name.as_bytes().strip_prefix(b"interlock ") == Some(verb)) {
            Some(row) => super::run(self.world, self.shell, self.call, row, words),
            None => Err(usage(self.builtin, &format!("{}: no such verb", printable(verb)))),
        }
    }

    pub(super) fn inspect(&mut self) -> Result<Outcome> {
        // What is left to be printed after an interruption is not made anew.
        let text = match self.carried_delivery() {
            Some(delivery) => return self.deliver(delivery, None),
            None => match self.builtin.action {
                Action::InspectList => match self.list()? {
                    Some(text) => text,
                    None => return Ok(Outcome::Interrupted),
                },
                Action::InspectStat => tell::tell(self.world, &self.directory()?, &self.look()?).into(),
                Action::InspectWhy => chain::chain(self.world, &self.directory()?)?.into(),
                Action::InspectBreak => return self.break_lock(),
                Action::Man => man::page().into(),
                _ => self.version()?.into(),
            },
        };
        deliver::print(self.shell, self.call, text)
    }

    /// `None` if a signal came.
    fn list(&mut self) -> Result<Option<Vec<u8>>> {
        let mut walk = match std::mem::take(&mut self.call.carried) {
            Carried::Listing(walk) => walk,
            _ => list::Walk::new(self.world, &self.words)?,
        };
        if walk.go_on(self.world, || self.shell.has_news())? {
            return Ok(Some(walk.text(&self.words)));
        }
        self.call.carried = Carried::Listing(walk);
        Ok(None)
    }

    fn look(&self) -> Result<Seen> {
        look_at(self.world, &self.directory()?)
    }

    /// Shows whose it is, asks at a terminal, removes it.
    fn break_lock(&mut self) -> Result<Outcome> {
        let (name, seen) = (self.directory()?, self.look()?);
        if seen.object.holder().is_none() {
            return Err(Error::Usage(format!("{}: not a lock", printable(self.words.operands[0]))));
        }
        if !self.words.has(b'y') {
            if !self.shell.is_terminal() {
                return Err(usage(self.builtin, "not at a terminal: say -y"));
            }
            let text = tell::tell(self.world, &name, &seen);
            self.shell.rescue(format!("{text}Break it? [y/N] ").as_bytes());
            match self.answer()? {
                None => return Ok(Outcome::Interrupted),
                Some(false) => return Ok(Outcome::No),
                Some(true) => {}
            }
            // The answer was about the holder that was shown. Whether it is still locked is seen by who removes it.
            if self.look().is_ok_and(|now| !now.object.has_same_holder(&seen.object)) {
                self.shell.rescue(b"It has changed hands meanwhile: not removed\n");
                return Ok(Outcome::No);
            }
        }
        let end = match seen.object.kind {
            ObjectKind::WeakMutex => wmutex::unlock(self.world, &name),
            ObjectKind::LockDirectory => dirlock::unlock(self.world, &name, true),
            ObjectKind::Bakery => bakery::unlock(self.world, &name, true),
            _ => unlock(self.world, &name, true),
        }?;
        Ok(if end == Unlocked::Removed { Outcome::Done } else { Outcome::No })
    }

    /// The first letter of a line from the terminal; `None` if a signal came.
    fn answer(&mut self) -> Result<Option<bool>> {
        // The longest line of a terminal: what is left of it would be the shell's next command.
        let mut line = [0; 4096];
        let moved = self.shell.read(None, &mut line).map_err(|errno| Error::system("standard input", errno))?;
        Ok(match moved {
            Moved::Bytes(count) => Some(count > 0 && matches!(line[0], b'y' | b'Y')),
            Moved::Interrupted => None,
        })
    }

    fn version(&mut self) -> Result<String> {
        let directory = self.words.operands.first().copied().unwrap_or(b".");
        let name = Name::of_directory(&[directory, b"/."].concat())?;
        let dir = open_parent(self.world, &name)?;
        let waits = if self.world.hears_events(&dir) {
            "by inotify events, and looks again every second"
        } else {
            "without events, looking again after 10 ms, growing to a second"
        };
        let marks = if self.world.can_mark(&dir) {
            "marked: a dead holder's lock is taken over"
        } else {
            "unmarked, since marks cannot be judged here: never taken over"
        };
        let (bash, shown) = (self.shell.version(), printable(directory));
        let versions = format!("interlock {}\nbash {}\n", env!("CARGO_PKG_VERSION"), String::from_utf8_lossy(&bash));
        Ok(format!("{versions}{shown}: waits {waits}\n{shown}: locks are {marks}\n"))
    }
}

/// An object and the processes of this moment.
struct Seen {
    object: Surveyed,
    observed: Observed,
}

fn look_at<W: World>(world: &W, name: &Name) -> Result<Seen> {
    let parent = open_parent(world, name)?;
    match survey(world, &parent, name)? {
        Some(object) => Ok(Seen { object, observed: world.observe() }),
        None => match world.stat_at(&parent, name.last()) {
            Err(errno) => Err(Error::system(name.path(), errno)),
            Ok(_) => Err(Error::damaged(name.path(), "none of interlock's objects")),
        },
    }
}

fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Mutex => "mutex",
        ObjectKind::WeakMutex => "wmutex",
        ObjectKind::LockDirectory => "dirlock",
        ObjectKind::Bakery => "bakery",
        ObjectKind::Semaphore => "sem",
        ObjectKind::Queue => "queue",
    }
}
