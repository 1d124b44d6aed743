//! Waiting: an event plus a capped re-check, never one alone.
//!
//! Try, arm, try again, sleep. The second try answers a release between the first try and the arming. At the deadline
//! one last try decides, so a wait that gives up has found the object taken when its time was over.

use crate::base::{Deadline, Result};
use crate::sys::{Armed, Wake, World};

/// The end of one try.
#[derive(Debug, PartialEq, Eq)]
pub enum Try<T> {
    Done(T),
    /// Honest no: somebody else has it.
    Busy,
    /// A signal came while the try itself had to wait.
    Interrupted,
}

/// The end of a wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited<T> {
    Done(T),
    TimedOut,
    /// A signal wants bash. Nothing is held; wait again with the same deadline.
    Interrupted,
}

impl<T> From<Try<T>> for Waited<T> {
    fn from(end: Try<T>) -> Self {
        match end {
            Try::Done(value) => Waited::Done(value),
            Try::Busy => Waited::TimedOut,
            Try::Interrupted => Waited::Interrupted,
        }
    }
}

/// Tries until it is done. `arm` tells the waiter what to listen to.
pub fn wait_for<W: World, T>(
    world: &W,
    deadline: Deadline,
    attempt: impl FnMut() -> Result<Try<T>>,
    arm: impl FnMut(&mut W::Waiter) -> Result<Armed>,
) -> Result<Waited<T>> {
    wait_in_turn(world, deadline, || None, attempt, arm)
}

/// As [`wait_for`], but who has to `queue_up` behind others sleeps before its first try.
pub fn wait_in_turn<W: World, T>(
    world: &W,
    deadline: Deadline,
    queue_up: impl FnOnce() -> Option<W::Waiter>,
    mut attempt: impl FnMut() -> Result<Try<T>>,
    mut arm: impl FnMut(&mut W::Waiter) -> Result<Armed>,
) -> Result<Waited<T>> {
    // Nobody looks at the clock who waits for ever.
    let has_passed = || deadline != Deadline::Never && deadline.has_passed(world.now());
    let mut waiter = if has_passed() { None } else { queue_up() };
    if let Some(waiter) = &mut waiter
        && world.sleep(waiter, deadline) == Wake::Interrupted
    {
        return Ok(Waited::Interrupted);
    }
    loop {
        let is_last = has_passed();
        match attempt()? {
            Try::Done(value) => return Ok(Waited::Done(value)),
            Try::Interrupted => return Ok(Waited::Interrupted),
            Try::Busy => {}
        }
        if is_last {
            return Ok(Waited::TimedOut);
        }
        let waiter = waiter.get_or_insert_with(|| world.waiter());
        if arm(waiter)? == Armed::Gone {
            continue;
        }
        match attempt()? {
            Try::Done(value) => return Ok(Waited::Done(value)),
            Try::Interrupted => return Ok(Waited::Interrupted),
            Try::Busy => {}
        }
        if world.sleep(waiter, deadline) == Wake::Interrupted {
            return Ok(Waited::Interrupted);
        }
    }
}
