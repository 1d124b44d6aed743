//! mutex_*, wmutex_*, dirlock_* and bakery_*.

use super::{Context, Outcome, Shell, outcome};
use crate::base::{Name, Result, Timeout};
use crate::primitive::mutex::{self, Unlocked};
use crate::primitive::{bakery, dirlock, wmutex};
use crate::sys::{Inherit, World};

impl<W: World, S: Shell> Context<'_, W, S> {
    pub(super) fn mutex_lock(&mut self, timeout: Option<Timeout>) -> Result<Outcome> {
        let (name, deadline) = (self.link()?, self.deadline(timeout)?);
        mutex::lock(self.world, &name, deadline, self.inherit()).map(outcome)
    }

    pub(super) fn mutex_unlock(&mut self) -> Result<Outcome> {
        mutex::unlock(self.world, &self.link()?, self.words.has(b'f')).map(unlocked)
    }

    pub(super) fn wmutex_lock(&mut self, timeout: Option<Timeout>) -> Result<Outcome> {
        let (name, deadline) = (self.link()?, self.deadline(timeout)?);
        wmutex::lock(self.world, &name, deadline).map(outcome)
    }

    pub(super) fn wmutex_unlock(&mut self) -> Result<Outcome> {
        wmutex::unlock(self.world, &self.link()?).map(unlocked)
    }

    pub(super) fn dirlock_lock(&mut self, timeout: Option<Timeout>) -> Result<Outcome> {
        let (name, deadline) = (self.directory()?, self.deadline(timeout)?);
        dirlock::lock(self.world, &name, &self.shell.program(), deadline, self.inherit()).map(outcome)
    }

    pub(super) fn dirlock_unlock(&mut self) -> Result<Outcome> {
        dirlock::unlock(self.world, &self.directory()?, self.words.has(b'f')).map(unlocked)
    }

    pub(super) fn bakery_lock(&mut self, timeout: Option<Timeout>) -> Result<Outcome> {
        let (name, deadline) = (self.directory()?, self.deadline(timeout)?);
        bakery::lock(self.world, &name, deadline).map(outcome)
    }

    pub(super) fn bakery_unlock(&mut self) -> Result<Outcome> {
        bakery::unlock(self.world, &self.directory()?, false).map(unlocked)
    }

    pub(super) fn inherit(&self) -> Inherit {
        if self.words.has(b'c') { Inherit::Nobody } else { Inherit::Programs }
    }

    pub(super) fn link(&self) -> Result<Name> {
        Name::of_link(self.words.operands[0]).map(|name| self.call.place.find(self.world, name))
    }
}

fn unlocked(end: Unlocked) -> Outcome {
    match end {
        Unlocked::Removed => Outcome::Done,
        Unlocked::NotLocked => Outcome::No,
    }
}
