//! *_run: a command between locking and unlocking.
//!
//! The lock is given back when the shell leaves the call, on whichever way; see [`super::abandon`].

use std::time::Duration;

use super::line::quoted;
use super::place::Place;
use super::words::{number, usage};
use super::{Action, Carried, Context, Outcome, Shell, TABLE};
use crate::base::{Deadline, Error, Name, Result, Timeout};
use crate::primitive::wait::Waited;
use crate::primitive::{bakery, dirlock, mutex, semaphore};
use crate::sys::World;

/// How long giving a token back insists; nobody else can give it back.
const INSIST: Duration = Duration::from_secs(5);

/// Builtins of bash that run commands which are not theirs.
const EVALUATING: [&str; 5] = ["eval", ".", "source", "command", "builtin"];

/// A command that runs while something is held.
pub struct Running {
    held: Held,
    name: Name,
    command: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum Held {
    Mutex,
    LockDirectory,
    Bakery,
    Token,
}

impl Running {
    /// As a line for the shell, every word quoted; once.
    pub fn command(&mut self) -> Option<Vec<u8>> {
        self.command.take()
    }

    pub fn release<W: World>(self, world: &W, place: &Place) -> Result<()> {
        let name = place.find(world, self.name);
        match self.held {
            Held::Mutex => mutex::unlock(world, &name, false).map(|_| ()),
            Held::LockDirectory => dirlock::unlock(world, &name, false).map(|_| ()),
            Held::Bakery => bakery::unlock(world, &name, false).map(|_| ()),
            Held::Token => {
                let deadline = Deadline::At(world.now().after(INSIST));
                match semaphore::post_until(world, &name, 1, deadline)? {
                    Waited::Done(()) => Ok(()),
                    Waited::TimedOut | Waited::Interrupted => {
                        Err(Error::damaged(name.path(), "the token is lost: busy"))
                    }
                }
            }
        }
    }
}

impl<W: World, S: Shell> Context<'_, W, S> {
    pub(super) fn run_holding(&mut self) -> Result<Outcome> {
        let timeout = self.words.value(b't').map_or(Ok(Timeout::Never), |text| {
            Timeout::parse(text).ok_or_else(|| usage(self.builtin, "-t: invalid timeout"))
        })?;
        let deadline = timeout.from(self.start);
        let refusal = match self.words.value(b'E').map(|text| number(self.builtin, text, "STATUS")).transpose()? {
            None => Outcome::No,
            Some(status) => {
                Outcome::Status(u8::try_from(status).map_err(|_| usage(self.builtin, "-E: STATUS is 0 to 255"))?)
            }
        };
        let command = quoted(self.words.operands[1..].iter().copied())?;
        let (held, name, waited) = self.acquire(deadline)?;
        match waited {
            Waited::Done(()) => {}
            Waited::TimedOut => return Ok(refusal),
            Waited::Interrupted => return Ok(Outcome::Interrupted),
        }
        self.call.carried = Carried::Running(Running { held, name, command: Some(command) });
        Ok(Outcome::Run { is_shell_code: self.is_shell_code(self.words.operands[1]) })
    }

    /// Does the shell run commands that are not ours to see when it runs this one? Then `set -e` stays on, for them.
    pub(super) fn is_shell_code(&self, command: &[u8]) -> bool {
        let evaluates = |name: &&str| name.as_bytes() == command;
        self.shell.is_function(command)
            || EVALUATING.iter().any(evaluates)
            || TABLE.iter().any(|builtin| evaluates(&builtin.name) && builtin.synopsis.contains("COMMAND"))
    }

    fn acquire(&mut self, deadline: Deadline) -> Result<(Held, Name, Waited<()>)> {
        Ok(match self.builtin.action {
            Action::MutexRun => {
                let name = self.link()?;
                let waited = mutex::lock(self.world, &name, deadline, self.inherit())?;
                (Held::Mutex, name, waited)
            }
            Action::DirlockRun => {
                let name = self.directory()?;
                let waited = dirlock::lock(self.world, &name, &self.shell.program(), deadline, self.inherit())?;
                (Held::LockDirectory, name, waited)
            }
            Action::BakeryRun => {
                let name = self.directory()?;
                let waited = bakery::lock(self.world, &name, deadline)?;
                (Held::Bakery, name, waited)
            }
            _ => {
                let name = self.directory()?;
                self.make_slots(&name)?;
                let waited = semaphore::wait(self.world, &name, deadline)?;
                (Held::Token, name, waited)
            }
        })
    }

    /// `-n SLOTS`: whoever comes first makes the semaphore; one that exists stays as it is.
    fn make_slots(&self, name: &Name) -> Result<()> {
        let Some(text) = self.words.value(b'n') else { return Ok(()) };
        match number(self.builtin, text, "SLOTS")? {
            0 => Err(usage(self.builtin, "-n: SLOTS must be at least 1")),
            slots => semaphore::init(self.world, name, slots).map(|_| ()),
        }
    }
}
