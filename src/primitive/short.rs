//! The internal short lock: `countlock` of a semaphore, `mutex` of a queue. A mutex held for microseconds, by a process
//! that runs nothing else meanwhile: the mark stays on the handle that took it, no signal is handled, and the holder
//! removes the link without the guard, since nobody else may.
//!
//! Peers hold it too, with a plain number; one that dies with it blocks everyone until a person intervenes, and the
//! message says so.

use std::cell::RefCell;
use std::time::Duration;

use super::link::{self, Held, Made, Spot};
use super::wait::{Try, Waited, wait_for};
use crate::base::{Deadline, Error, LinkText, Result, Time};
use crate::sys::{Awaited, World};

/// Even a single try may wait so long for a short lock: it is no answer to its question.
const GRACE: Duration = Duration::from_secs(1);
/// A peer needs milliseconds; a plain link seen unchanged for so long is a dead peer's.
const PATIENCE: Duration = Duration::from_secs(10);

/// The short lock, held. Dropping it removes the link; if that fails it is stale as soon as the handle is closed
/// ([`link::is_let_go`]).
pub struct Short<'a, W: World> {
    world: &'a W,
    dir: &'a W::Dir,
    spot: Spot<'a>,
    /// The holder before us died in its critical section: repair what it may have left half done.
    pub took_over: bool,
    _critical: W::Critical,
}

impl<W: World> Drop for Short<'_, W> {
    fn drop(&mut self) {
        let _ = self.world.unlink(self.dir, self.spot.last());
    }
}

/// Takes the short lock at `spot` in `dir`. `Busy` when the deadline and the grace are over.
pub fn lock<'a, W: World>(
    world: &'a W,
    dir: &'a W::Dir,
    spot: Spot<'a>,
    deadline: Deadline,
) -> Result<Try<Short<'a, W>>> {
    let start = world.now();
    let deadline = match deadline {
        Deadline::Never => Deadline::Never,
        Deadline::At(time) => Deadline::At(time.max(start.after(GRACE))),
    };
    let obstacle = RefCell::new(Obstacle { link: None, since: start });
    let waited = wait_for(
        world,
        deadline,
        || {
            let critical = world.critical();
            let make = || link::make(world, dir, spot, link::is_let_go);
            let made = match make()? {
                Made::Busy(_) if world.is_gone_soon(dir, spot.last()) => make()?,
                made => made,
            };
            let took_over = match made {
                Made::Fresh { .. } => false,
                Made::TookOver { .. } => true,
                Made::Busy(held) => {
                    obstacle.borrow_mut().look(held, world.now(), spot)?;
                    return Ok(Try::Busy);
                }
            };
            Ok(Try::Done(Short { world, dir, spot, took_over, _critical: critical }))
        },
        |waiter| {
            let holder = obstacle.borrow().link.as_ref().and_then(|held| held.holder(world));
            Ok(world.arm(waiter, dir, spot.last(), Awaited::Removal, holder))
        },
    )?;
    Ok(match waited {
        Waited::Done(short) => Try::Done(short),
        Waited::TimedOut => Try::Busy,
        Waited::Interrupted => Try::Interrupted,
    })
}

/// The link in the way, and since when it has been the same.
struct Obstacle {
    link: Option<Held>,
    since: Time,
}

impl Obstacle {
    /// An error if the same plain link has been there for longer than any living peer holds it.
    fn look(&mut self, link: Option<Held>, now: Time, spot: Spot) -> Result<()> {
        if self.link != link {
            *self = Obstacle { link, since: now };
        }
        match &self.link {
            Some(held) if matches!(held.by, LinkText::Plain(_)) && now.since(self.since) >= PATIENCE => {
                let (who, seconds) = (held.describe(), PATIENCE.as_secs());
                let what =
                    format!("locked by {who} for more than {seconds} s; if it is dead, remove this link by hand");
                Err(Error::damaged(spot.path(), what))
            }
            _ => Ok(()),
        }
    }
}
