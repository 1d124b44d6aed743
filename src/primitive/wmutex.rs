//! The weak mutex: no owner, never stale, anyone may unlock. A gate, or a lock that must outlive its script.
//!
//! On disk: a link whose text is the locker's `$BASHPID`, plain.
//!
//! - *lock*: create the link. - *unlock*: under the guard, remove it if it is a link at all.
//!
//! Invariant: one creation succeeds per removal. After a crash: the lock stays, which is the point.

use super::link::{self, Spot};
use super::mutex::{Unlocked, arm, open_parent};
use super::wait::{Try, Waited, wait_for};
use crate::base::{Deadline, Error, Name, Result};
use crate::sys::{Errno, World};

pub fn lock<W: World>(world: &W, name: &Name, deadline: Deadline) -> Result<Waited<()>> {
    wait_for(world, deadline, || try_lock(world, name), |waiter| arm(world, name, waiter))
}

fn try_lock<W: World>(world: &W, name: &Name) -> Result<Try<()>> {
    let dir = open_parent(world, name)?;
    match world.symlink(&world.process().pid.to_string(), &dir, name.last()) {
        Ok(()) => Ok(Try::Done(())),
        // Only a link is a lock; something else would be waited for in vain.
        Err(Errno::EEXIST) => link::read(world, &dir, Spot::of(name)).map(|_| Try::Busy),
        Err(errno) => Err(Error::system(name.path(), errno)),
    }
}

pub fn unlock<W: World>(world: &W, name: &Name) -> Result<Unlocked> {
    let dir = open_parent(world, name)?;
    let _guard = world.guard(&dir);
    if link::read(world, &dir, Spot::of(name))?.is_none() {
        return Ok(Unlocked::NotLocked);
    }
    match world.unlink(&dir, name.last()) {
        Ok(()) => Ok(Unlocked::Removed),
        Err(Errno::ENOENT) => Ok(Unlocked::NotLocked),
        Err(errno) => Err(Error::system(name.path(), errno)),
    }
}
