//! *_run: a command between locking and unlocking.
//!
//! The lock is given back when the shell leaves the call, on whichever way; see [`super::abandon`].

use std::time::Duration;

use super::line::quoted;
use super::words::{number, usage};
use super::{Action, Carried, Context, Outcome, Shell};
use crate::base::{Deadline, Name, Result, Timeout};
use crate::primitive::wait::Waited;
use crate::primitive::{bakery, dirlock, mutex, semaphore};
use crate::sys::World;

/// How long giving a token back insists; nobody else can give it back.
const INSIST: Duration = Duration::from_secs(5);

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

    pub fn release<W: World>(&self, world: &W) -> Result<()> {
        match self.held {
            Held::Mutex => mutex::unlock(world, &self.name, false).map(|_| ()),
            Held::LockDirectory => dirlock::unlock(world, &self.name, false).map(|_| ()),
            Held::Bakery => bakery::unlock(world, &self.name, false).map(|_| ()),
            Held::Token => {
                let deadline = Deadline::At(world.now().after(INSIST));
                semaphore::post_until(world, &self.name, 1, deadline).map(|_| ())
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
        Ok(Outcome::Run { is_function: self.shell.is_function(self.words.operands[1]) })
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
