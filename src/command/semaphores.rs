//! sem_*.

use super::words::number;
use super::{Context, Outcome, Shell, created, outcome};
use crate::base::{Result, Timeout};
use crate::primitive::semaphore;
use crate::sys::World;

impl<W: World, S: Shell> Context<'_, W, S> {
    pub(super) fn sem_init(&mut self) -> Result<Outcome> {
        let value = self.count(0, "VALUE")?;
        semaphore::init(self.world, &self.directory()?, value).map(created)
    }

    pub(super) fn sem_wait(&mut self, timeout: Option<Timeout>) -> Result<Outcome> {
        let (name, deadline) = (self.directory()?, self.deadline(timeout)?);
        semaphore::wait(self.world, &name, deadline).map(outcome)
    }

    pub(super) fn sem_post(&mut self) -> Result<Outcome> {
        let count = self.count(1, "COUNT")?;
        semaphore::post(self.world, &self.directory()?, count).map(outcome)
    }

    pub(super) fn sem_peek(&mut self) -> Result<Outcome> {
        let (name, target) = (self.directory()?, self.scalar_target()?);
        let peeked = semaphore::peek(self.world, &name);
        self.deliver_number(peeked, target)
    }

    pub(super) fn sem_destroy(&mut self) -> Result<Outcome> {
        semaphore::destroy(self.world, &self.directory()?, self.words.has(b'f')).map(outcome)
    }

    fn count(&self, missing: u64, what: &str) -> Result<u64> {
        self.words.operands.get(1).map_or(Ok(missing), |text| number(self.builtin, text, what))
    }
}
