//! Destroying a queue: only what a queue contains is ever removed.
//!
//! - Look at everything in it: the parts, our temporaries, `rejected`, what a killed `sed -i` of a peer left. Anything
//!   else: refuse, nothing is removed. - Lock `mutex`, look again. - Rename the directory to a hidden name, one step, then take
//!   it apart.
//!
//! After a crash: the queue is there as before, with a stale `mutex`, or it is gone and its hidden directory is swept by
//! whoever makes the next object beside it. Waiters end with an error.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::data::DATA;
use super::rejected::REJECTED;
use super::rewrite::DATA_NEW;
use super::{MUTEX, SEM, semaphore_of};
use crate::base::{Deadline, Error, Name, Result};
use crate::primitive::hidden::Hidden;
use crate::primitive::link::{Spot, is_part_or_remains};
use crate::primitive::mutex::open_parent;
use crate::primitive::semaphore::{self, check_owner};
use crate::primitive::short;
use crate::primitive::wait::{Try, Waited};
use crate::sys::{Errno, Kind, World};

/// Removes the queue if it is the script's own, with `force` anybody's.
pub fn destroy<W: World>(world: &W, name: &Name, force: bool) -> Result<Waited<()>> {
    let parent = open_parent(world, name)?;
    let dir = world.open_dir_at(&parent, name.last()).map_err(|errno| Error::system(name.path(), errno))?;
    check(world, name, &dir, force)?;
    let mutex = match short::lock(world, &dir, Spot::inside(name, MUTEX), Deadline::Never)? {
        Try::Done(short) => short,
        Try::Busy => return Ok(Waited::TimedOut),
        Try::Interrupted => return Ok(Waited::Interrupted),
    };
    check(world, name, &dir, force)?;
    let hidden = Hidden::withdraw(world, &parent, name)?;
    // The link goes before its directory does.
    drop(mutex);
    drop(hidden);
    Ok(Waited::Done(()))
}

/// Is it a queue, ours to remove, and nothing but a queue?
fn check<W: World>(world: &W, name: &Name, dir: &W::Dir, force: bool) -> Result<()> {
    let sem_name = semaphore_of(name)?;
    let sem = world.open_dir_at(dir, SEM.as_ref()).map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENOTDIR => Error::damaged(name.path(), "not a queue"),
        errno => Error::system(sem_name.path(), errno),
    })?;
    semaphore::check_is_semaphore(world, &sem_name, &sem)?;
    if !force {
        check_owner(world, &sem_name, &sem)?;
    }
    check_parts(world, name, dir, is_part)?;
    check_parts(world, &sem_name, &sem, |entry, kind| {
        kind != Kind::Directory && is_part_or_remains(entry, &semaphore::PARTS)
    })
}

fn check_parts<W: World>(world: &W, name: &Name, dir: &W::Dir, is_part: impl Fn(&OsStr, Kind) -> bool) -> Result<()> {
    let error = |errno| Error::system(name.path(), errno);
    for entry in world.list(dir).map_err(error)? {
        let kind = match world.stat_at(dir, &entry) {
            Ok(stat) => stat.kind,
            // A lock or a temporary that was there a moment ago.
            Err(Errno::ENOENT) => continue,
            Err(errno) => return Err(error(errno)),
        };
        if !is_part(&entry, kind) {
            let what = format!("holds {}, which is no part of a queue; nothing removed", entry.display());
            return Err(Error::damaged(name.path(), what));
        }
    }
    Ok(())
}

fn is_part(entry: &OsStr, kind: Kind) -> bool {
    match kind {
        Kind::Directory => entry == SEM,
        _ => is_part_or_remains(entry, &[DATA, DATA_NEW, MUTEX, REJECTED]) || is_seds(entry),
    }
}

/// The `sedXXXXXX` of a peer that was killed in `sed -i`.
fn is_seds(entry: &OsStr) -> bool {
    let suffix = entry.as_bytes().strip_prefix(b"sed");
    suffix.is_some_and(|suffix| suffix.len() == 6 && suffix.iter().all(u8::is_ascii_alphanumeric))
}
