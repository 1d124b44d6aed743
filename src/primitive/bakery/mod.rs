//! Lamport's bakery: first come, first served, by reads and writes of one's own record alone.
//!
//! Source: L. Lamport, "A New Solution of Dijkstra's Concurrent Programming Problem", CACM 17(8), 1974.
//!
//! On disk: a directory with one file per call, named by the caller's identity and NONCE, holding a [`record`]
//! (entering, number, served) that only that caller writes, in place. The mark of that NONCE is on the directory.
//!
//! - *doorway*: entering = 1; number = 1 + the largest number read; write number; in a second write entering = 0.
//! - *look around*: every other participant that is there now is waited for while it is entering, then put into the line
//!   before us if its number is not 0 and (number, name) is less than ours. Who comes later has seen our number and draws
//!   a larger one, so it need not be looked at.
//! - *wait*: for the last in the line before us, until it has left; then for the one before it. Each time entering and
//!   number are read again. - *enter*: served = 1. - *unlock*: remove the script's served file.
//!
//! A participant without mark and life counts as number 0, and whoever meets its file removes it: the name has the
//! NONCE and never comes again. A waiter sleeps on the one participant just before it, so a release wakes one.
//!
//! Invariant: of two participants past their doorways the one with the smaller (number, name) enters first.
//! After a crash: a file without a mark. A participant that is stopped in its doorway stops all: inherent. So is that
//! reads must see what others have written: participants of several hosts need a file system that promises it, and NFS
//! does not.

mod line;
mod record;
mod ticket;

use std::cell::RefCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use self::line::Line;
use self::ticket::Ticket;
use super::link::is_owner_gone;
use super::mutex::{Unlocked, open_parent};
use super::wait::{Waited, wait_for};
use crate::base::{Deadline, Error, LinkText, Name, Owner, Result};
use crate::sys::{Errno, Inherit, World};

/// Even a single try waits so long for others to leave their doorways, which takes them microseconds: that two stand
/// there together is no answer to its question, and they would both give up.
const GRACE: Duration = Duration::from_secs(1);

pub fn lock<W: World>(world: &W, name: &Name, deadline: Deadline) -> Result<Waited<()>> {
    let dir = open_or_make(world, name)?;
    let ticket = Ticket::draw(world, name, &dir)?;
    let waited = await_turn(world, &ticket, deadline)?;
    if waited == Waited::Done(()) {
        let (file_name, nonce) = ticket.enter()?;
        if nonce != 0 {
            world.park(dir, &file_name, nonce, Inherit::Programs);
        }
    }
    // Otherwise the ticket is given up here: before a trap runs, and when the time is over.
    Ok(waited)
}

fn await_turn<W: World>(world: &W, ticket: &Ticket<W>, deadline: Deadline) -> Result<Waited<()>> {
    let line = RefCell::new(Line::all_others(ticket)?);
    let grace = match deadline {
        Deadline::Never => Deadline::Never,
        Deadline::At(time) => Deadline::At(time.max(world.now().after(GRACE))),
    };
    let looked_around = wait_for(world, grace, || line.borrow_mut().look_around(), |waiter| line.borrow().arm(waiter))?;
    match looked_around {
        Waited::Done(()) => {
            wait_for(world, deadline, || line.borrow_mut().advance(), |waiter| line.borrow().arm(waiter))
        }
        other => Ok(other),
    }
}

/// The first customer opens the shop.
fn open_or_make<W: World>(world: &W, name: &Name) -> Result<W::Dir> {
    let error = |errno| Error::system(name.path(), errno);
    match world.open_dir(name.path()) {
        Err(Errno::ENOENT) => match world.make_dir(&open_parent(world, name)?, name.last()) {
            Ok(()) | Err(Errno::EEXIST) => world.open_dir(name.path()).map_err(error),
            Err(errno) => Err(error(errno)),
        },
        opened => opened.map_err(error),
    }
}

/// Ends the script's turn, with `force` anybody's.
pub fn unlock<W: World>(world: &W, name: &Name, force: bool) -> Result<Unlocked> {
    let error = |errno| Error::system(name.path(), errno);
    let dir = match world.open_dir(name.path()) {
        // Nobody is in a shop that has not been opened.
        Err(Errno::ENOENT) => return open_parent(world, name).map(|_| Unlocked::NotLocked),
        opened => opened.map_err(error)?,
    };
    let (own, others) = participants(world, name, &dir)?
        .into_iter()
        .partition::<Vec<_>, _>(|one| force || one.owner.is_owned_by(&world.process(), |nonce| world.holds(nonce)));
    // The ticket that this process has entered with, or one it was forked from, is known without reading.
    if let Some(held) = own.iter().find(|one| one.owner.has_mark() && world.holds(one.owner.nonce)) {
        return remove(world, name, &dir, held);
    }
    let is_served = |one: &&Participant| record::is_served(world, &dir, &one.file).unwrap_or(false);
    // One alive at most; a dead subshell's counts as unlocked, but goes, too.
    let mut end = Unlocked::NotLocked;
    for served in own.iter().filter(is_served) {
        if remove(world, name, &dir, served)? == Unlocked::Removed {
            end = Unlocked::Removed;
        }
    }
    if end == Unlocked::NotLocked
        && let Some(other) = others.iter().filter(is_served).find(|one| !one.is_gone(world, &dir))
    {
        let whose = format!("locked by {}", other.owner.describe());
        return Err(Error::NotOwner { path: name.path().to_owned(), whose });
    }
    Ok(end)
}

fn remove<W: World>(world: &W, name: &Name, dir: &W::Dir, served: &Participant) -> Result<Unlocked> {
    match world.unlink(dir, &served.file) {
        Ok(()) => {
            world.unpark(served.owner.nonce);
            Ok(Unlocked::Removed)
        }
        // Another subshell was quicker.
        Err(Errno::ENOENT) => Ok(Unlocked::NotLocked),
        Err(errno) => Err(Error::system(name.path(), errno)),
    }
}

/// One call of somebody's.
struct Participant {
    file: OsString,
    owner: Owner,
}

impl Participant {
    /// Any other file in the directory is nobody.
    fn parse(file: OsString) -> Option<Participant> {
        let text = file.as_bytes();
        // Without a mark the number behind the dash tells calls apart.
        let end = text.iter().position(|&byte| byte == b'-').unwrap_or(text.len());
        match LinkText::parse(&text[..end]) {
            LinkText::Ours(owner) => Some(Participant { file, owner }),
            _ => None,
        }
    }

    fn is_gone<W: World>(&self, world: &W, dir: &W::Dir) -> bool {
        is_owner_gone(world, dir, &self.owner)
    }

    fn is_removed_if_gone<W: World>(&self, world: &W, dir: &W::Dir) -> bool {
        let is_gone = self.is_gone(world, dir);
        if is_gone {
            // Somebody else may be quicker.
            let _ = world.unlink(dir, &self.file);
        }
        is_gone
    }
}

fn participants<W: World>(world: &W, name: &Name, dir: &W::Dir) -> Result<Vec<Participant>> {
    let names = world.list(dir).map_err(|errno| Error::system(name.path(), errno))?;
    Ok(names.into_iter().filter_map(Participant::parse).collect())
}

/// A living or dead customer, for onlookers.
pub struct Customer {
    pub file: OsString,
    pub owner: Owner,
    pub is_served: bool,
}

pub fn customers<W: World>(world: &W, name: &Name, dir: &W::Dir) -> Result<Vec<Customer>> {
    let customer = |Participant { file, owner }| {
        let is_served = record::is_served(world, dir, &file).unwrap_or(false);
        Customer { file, owner, is_served }
    };
    Ok(participants(world, name, dir)?.into_iter().map(customer).collect())
}
