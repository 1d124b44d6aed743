//! The mutex: owned, recovering from crashes, not fair.
//!
//! On disk: one link, see [`super::link`].
//!
//! - *lock*: make the link, or take it over; park the mark. Busy: wait for the link's removal or its holder's death.
//! - *unlock*: under the guard read the link; if it is our script's, or stale, remove it; then drop the mark.
//!
//! Invariant: at most one process has returned from a successful lock without the link having been removed since.
//! After a crash: the mark is gone with the last process that had it, the link is stale, the next locker takes it over.

use super::link::{self, Held, Made, Spot};
use super::wait::{Try, Waited, wait_in_turn};
use crate::base::{Deadline, Error, LinkText, Name, Result};
use crate::sys::{Armed, Awaited, Inherit, World};

/// The end of an unlock that was allowed.
#[derive(Debug, PartialEq, Eq)]
pub enum Unlocked {
    Removed,
    /// There was no lock: an honest no.
    NotLocked,
}

pub fn lock<W: World>(world: &W, name: &Name, deadline: Deadline, inherit: Inherit) -> Result<Waited<()>> {
    let queue_up = || world.queue_up(|| world.open_dir(name.parent()), name.last());
    wait_in_turn(world, deadline, queue_up, || try_lock(world, name, inherit), |waiter| arm(world, name, waiter))
}

fn try_lock<W: World>(world: &W, name: &Name, inherit: Inherit) -> Result<Try<()>> {
    let dir = open_parent(world, name)?;
    match link::make(world, &dir, Spot::of(name), link::is_stale)? {
        Made::Fresh { nonce } | Made::TookOver { nonce } => {
            if nonce != 0 {
                world.park(dir, name.last(), nonce, inherit);
            }
            Ok(Try::Done(()))
        }
        Made::Busy(_) => Ok(Try::Busy),
    }
}

/// Listens to the link's removal and its holder's death.
pub fn arm<W: World>(world: &W, name: &Name, waiter: &mut W::Waiter) -> Result<Armed> {
    let dir = open_parent(world, name)?;
    let holder = link::read(world, &dir, Spot::of(name))?.and_then(|held| held.holder(world));
    Ok(world.arm(waiter, &dir, name.last(), Awaited::Removal, holder))
}

pub fn open_parent<W: World>(world: &W, name: &Name) -> Result<W::Dir> {
    world.open_dir(name.parent()).map_err(|errno| Error::system(name.path(), errno))
}

/// Removes the script's own lock, or a stale one; with `force` anybody's.
pub fn unlock<W: World>(world: &W, name: &Name, force: bool) -> Result<Unlocked> {
    let dir = open_parent(world, name)?;
    let guard = world.guard(&dir);
    let Some(held) = link::read(world, &dir, Spot::of(name))? else {
        return Ok(Unlocked::NotLocked);
    };
    let may_remove = match held.by {
        LinkText::Ours(owner) => {
            force
                || owner.is_owned_by(&world.process(), |nonce| world.holds(nonce))
                // Without the guard a taker may be just about to replace it.
                || (guard.is_some() && link::is_stale(world, &dir, &held))
        }
        LinkText::Plain(_) => force,
        LinkText::Foreign if force => {
            return Err(Error::damaged(name.path(), "not a lock: a link with other text; not removed"));
        }
        LinkText::Foreign => false,
    };
    if !may_remove {
        return Err(not_owner(name, &held));
    }
    world.unlink(&dir, name.last()).map_err(|errno| Error::system(name.path(), errno))?;
    if let LinkText::Ours(owner) = held.by {
        world.unpark(owner.nonce);
    }
    if let Some(guard) = guard {
        world.close_with(guard);
    }
    Ok(Unlocked::Removed)
}

fn not_owner(name: &Name, held: &Held) -> Error {
    Error::NotOwner { path: name.path().to_owned(), whose: format!("locked by {}", held.describe()) }
}
