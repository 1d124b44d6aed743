//! Lamport's bakery: first come, first served, by reads and writes of one's own record alone.
//!
//! Source: L. Lamport, "A New Solution of Dijkstra's Concurrent Programming Problem", CACM 17(8), 1974.
//!
//! On disk: a directory with one file per call, named by the caller's identity and NONCE, holding a [`record`]
//! (entering, number, served) that only that caller writes, in place. The mark of that NONCE is on the directory.
//!
//! - *doorway*: entering = 1; number = 1 + the largest number read; write number; in a second write entering = 0.
//! - *wait*: for every other participant that was there when the doorway was left: while it is entering, and while its
//!   number is not 0 and (number, name) comes before ours. After a wait both are read again. Who comes later has seen
//!   our number and draws a larger one, so it need not be looked at.
//! - *enter*: served = 1. - *unlock*: remove the script's served file.
//!
//! A participant without mark and life counts as number 0, and whoever meets its file removes it: the name has the
//! NONCE and never comes again. A waiter sleeps on the one participant just before it, so a release wakes one.
//!
//! Invariant: of two participants past their doorways the one with the smaller (number, name) enters first.
//! After a crash: a file without a mark. A participant that is stopped in its doorway stops all: inherent.

mod record;

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use self::record::Seen;
use super::link::{Spot, is_owner_gone, set_mark};
use super::mutex::{Unlocked, open_parent};
use super::wait::{Try, Waited, wait_for};
use crate::base::{Deadline, Error, LinkText, Name, Owner, Result};
use crate::sys::{Access, Armed, Awaited, Errno, Inherit, World};

pub fn lock<W: World>(world: &W, name: &Name, deadline: Deadline) -> Result<Waited<()>> {
    let dir = open_or_make(world, name)?;
    let ticket = Ticket::draw(world, name, &dir)?;
    let line = RefCell::new(Line::before(&ticket)?);
    let waited = wait_for(
        world,
        deadline,
        || Ok(if line.borrow_mut().advance(&ticket)? { Try::Done(()) } else { Try::Busy }),
        |waiter| Ok(line.borrow().arm(world, &dir, waiter)),
    )?;
    if waited == Waited::Done(()) {
        let (file_name, nonce) = ticket.enter()?;
        if nonce != 0 {
            world.park(dir, &file_name, nonce, Inherit::Programs);
        }
    }
    // Otherwise the ticket is given up here: before a trap runs, and when the time is over.
    Ok(waited)
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

/// Ends the script's turn.
pub fn unlock<W: World>(world: &W, name: &Name) -> Result<Unlocked> {
    let dir = world.open_dir(name.path()).map_err(|errno| Error::system(name.path(), errno))?;
    let process = world.process();
    let mut served_other = None;
    for other in participants(world, name, &dir)? {
        let is_served = record::is_served(world, &dir, &other.file);
        if !is_served.map_err(|errno| Error::system(name.path(), errno))? {
            continue;
        }
        if other.owner.is_owned_by(&process, |nonce| world.holds(nonce)) {
            return match world.unlink(&dir, &other.file) {
                Ok(()) => {
                    world.unpark(other.owner.nonce);
                    Ok(Unlocked::Removed)
                }
                Err(Errno::ENOENT) => Ok(Unlocked::NotLocked),
                Err(errno) => Err(Error::system(name.path(), errno)),
            };
        }
        if !other.is_gone(world, &dir) {
            served_other = Some(other.owner);
        }
    }
    match served_other {
        Some(owner) => {
            Err(Error::NotOwner { path: name.path().to_owned(), whose: format!("locked by {}", owner.describe()) })
        }
        None => Ok(Unlocked::NotLocked),
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
}

fn participants<W: World>(world: &W, name: &Name, dir: &W::Dir) -> Result<Vec<Participant>> {
    let names = world.list(dir).map_err(|errno| Error::system(name.path(), errno))?;
    Ok(names.into_iter().filter_map(Participant::parse).collect())
}

/// Our own place in the line. Dropping it gives it up.
struct Ticket<'a, W: World> {
    world: &'a W,
    name: &'a Name,
    dir: &'a W::Dir,
    file_name: OsString,
    nonce: u32,
    file: W::File,
    number: u64,
    is_entered: bool,
}

impl<'a, W: World> Ticket<'a, W> {
    /// The doorway.
    fn draw(world: &'a W, name: &'a Name, dir: &'a W::Dir) -> Result<Self> {
        let error = |errno| Error::system(name.path(), errno);
        let nonce = set_mark(world, dir, Spot::of(name))?;
        let mut file_name = Owner::new(&world.process(), nonce).to_string();
        if nonce == 0 {
            file_name = format!("{file_name}-{}", world.random());
        }
        let file_name = OsString::from(file_name);
        let file = world.open_file(dir, &file_name, Access::Create).map_err(error)?;
        let mut ticket = Ticket { world, name, dir, file_name, nonce, file, number: 0, is_entered: false };
        // Nobody is held up by a doorway for longer than it takes.
        let _critical = world.critical();
        record::write_entering(world, &ticket.file, true).map_err(error)?;
        let mut largest = 0;
        for other in participants(world, name, dir)? {
            if other.file != ticket.file_name && !other.is_gone(world, dir) {
                largest = largest.max(record::read_number(world, dir, &other.file).map_err(error)?);
            }
        }
        ticket.number = largest.checked_add(1).ok_or_else(|| error(Errno::EOVERFLOW))?;
        record::write_number(world, &ticket.file, ticket.number).map_err(error)?;
        record::write_entering(world, &ticket.file, false).map_err(error)?;
        Ok(ticket)
    }

    fn comes_after(&self, number: u64, file: &OsStr) -> bool {
        (number, file) < (self.number, self.file_name.as_os_str())
    }

    fn enter(mut self) -> Result<(OsString, u32)> {
        record::write_served(self.world, &self.file).map_err(|errno| Error::system(self.name.path(), errno))?;
        self.is_entered = true;
        Ok((std::mem::take(&mut self.file_name), self.nonce))
    }
}

impl<W: World> Drop for Ticket<'_, W> {
    fn drop(&mut self) {
        if !self.is_entered {
            // A file that cannot be removed counts no longer once its mark is gone.
            let _ = self.world.unlink(self.dir, &self.file_name);
        }
    }
}

/// Those who may come before us.
struct Line {
    before: Vec<Participant>,
    /// The one to sleep on, and for what.
    awaited: Option<(OsString, Awaited, Option<u32>)>,
}

impl Line {
    fn before<W: World>(ticket: &Ticket<W>) -> Result<Line> {
        let mut before = participants(ticket.world, ticket.name, ticket.dir)?;
        before.retain(|other| other.file != ticket.file_name);
        Ok(Line { before, awaited: None })
    }

    /// Strikes out who has left or comes after us; true when nobody is before us.
    fn advance<W: World>(&mut self, ticket: &Ticket<W>) -> Result<bool> {
        let Ticket { world, dir, .. } = *ticket;
        let mut in_doorway = None;
        let mut last = None;
        let mut failed = None;
        self.before.retain(|other| {
            if other.is_gone(world, dir) {
                // Somebody else may be quicker.
                let _ = world.unlink(dir, &other.file);
                return false;
            }
            match record::look(world, dir, &other.file) {
                Ok(Seen::Gone) => false,
                Ok(Seen::Entering) => {
                    in_doorway = Some((other.file.clone(), other.owner));
                    true
                }
                Ok(Seen::Number(number)) if number != 0 && ticket.comes_after(number, &other.file) => {
                    if last.as_ref().is_none_or(|(most, file, _)| (*most, file) < (number, &other.file)) {
                        last = Some((number, other.file.clone(), other.owner));
                    }
                    true
                }
                Ok(Seen::Number(_)) => false,
                Err(errno) => {
                    failed = Some(errno);
                    true
                }
            }
        });
        if let Some(errno) = failed {
            return Err(Error::system(ticket.name.path(), errno));
        }
        let holder = |owner: Owner| owner.holder_here(&world.process());
        self.awaited = match (in_doorway, last) {
            (Some((file, owner)), _) => Some((file, Awaited::Change, holder(owner))),
            (None, Some((_, file, owner))) => Some((file, Awaited::Removal, holder(owner))),
            (None, None) => None,
        };
        Ok(self.before.is_empty())
    }

    fn arm<W: World>(&self, world: &W, dir: &W::Dir, waiter: &mut W::Waiter) -> Armed {
        match &self.awaited {
            Some((file, awaited, holder)) => world.arm(waiter, dir, file, *awaited, *holder),
            None => Armed::Gone,
        }
    }
}
