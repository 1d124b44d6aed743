//! Object directories appear complete and disappear at once: they are made, and taken apart, under a hidden name.
//!
//! On disk: `.interlock-NONCE` beside the object, with the mark NONCE on the directory that both stand in.
//!
//! - *prepare*: sweep what dead processes left, set a mark, make the hidden directory. The caller fills it.
//! - *publish*: rename it to the object's name, which must not exist. - *discard*: remove it.
//! - *withdraw*: set a mark, rename the object to the hidden name; the caller then discards it.
//!
//! Invariant: nobody sees an object that is half made or half gone under its own name.
//! After a crash: a hidden directory without a mark, which whoever prepares the next one removes. Where there are no
//! marks the name is `.interlock-0-NUMBER` and stays, since nobody can tell whether its maker lives.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::Created;
use super::link::{Spot, set_mark};
use crate::base::{Error, Name, Result, parse_decimal};
use crate::sys::{Errno, Kind, Sys, World};

const PREFIX: &str = ".interlock-";
/// Objects are at most so deep: a queue holds a semaphore.
const DEPTH: usize = 2;

/// A directory under its hidden name. Without publishing it is removed when dropped.
pub struct Hidden<'a, W: World> {
    world: &'a W,
    parent: &'a W::Dir,
    object: &'a Name,
    hidden: OsString,
    /// The mark's number, 0 where there are no marks.
    pub nonce: u32,
    is_published: bool,
}

impl<'a, W: World> Hidden<'a, W> {
    /// Makes an empty hidden directory for `object`, which stands in `parent`.
    pub fn prepare(world: &'a W, parent: &'a W::Dir, object: &'a Name) -> Result<Self> {
        sweep(world, parent);
        let hidden = Hidden::name(world, parent, object)?;
        world.make_dir(parent, &hidden.hidden).map_err(|errno| Error::system(object.path(), errno))?;
        Ok(hidden)
    }

    /// Takes `object` away from its name in one step. Dropping the result removes it.
    pub fn withdraw(world: &'a W, parent: &'a W::Dir, object: &'a Name) -> Result<Self> {
        let hidden = Hidden::name(world, parent, object)?;
        world
            .rename(parent, object.last(), parent, &hidden.hidden)
            .map_err(|errno| Error::system(object.path(), errno))?;
        Ok(hidden)
    }

    fn name(world: &'a W, parent: &'a W::Dir, object: &'a Name) -> Result<Self> {
        let nonce = set_mark(world, parent, Spot::of(object))?;
        let hidden = match nonce {
            0 => format!("{PREFIX}0-{}", world.random()),
            nonce => format!("{PREFIX}{nonce}"),
        };
        Ok(Hidden { world, parent, object, hidden: hidden.into(), nonce, is_published: false })
    }

    pub fn open(&self) -> Result<W::Dir> {
        self.world.open_dir_at(self.parent, &self.hidden).map_err(|errno| self.error(errno))
    }

    /// Gives the object its name, unless something has it.
    pub fn publish(self) -> Result<Created> {
        self.publish_by(|world, parent, hidden, last| match world.rename_exclusive(parent, hidden, parent, last) {
            // This replaces an empty directory at most, and no semaphore or queue is one.
            Err(Errno::EINVAL | Errno::ENOSYS) => world.rename(parent, hidden, parent, last),
            renamed => renamed,
        })
    }

    /// The same where an empty directory of that name is somebody's lock. EINVAL or ENOSYS if that cannot be had.
    pub fn publish_exclusively(self) -> Result<Created> {
        self.publish_by(|world, parent, hidden, last| world.rename_exclusive(parent, hidden, parent, last))
    }

    fn publish_by(mut self, rename: impl FnOnce(&W, &W::Dir, &OsStr, &OsStr) -> Sys<()>) -> Result<Created> {
        match rename(self.world, self.parent, &self.hidden, self.object.last()) {
            Ok(()) => {
                self.is_published = true;
                Ok(Created::Made)
            }
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => Ok(Created::Exists),
            Err(errno) => Err(self.error(errno)),
        }
    }

    fn error(&self, errno: Errno) -> Error {
        Error::system(self.object.path(), errno)
    }
}

impl<W: World> Drop for Hidden<'_, W> {
    fn drop(&mut self) {
        if !self.is_published {
            // A waiter that still has the directory open can put its lock into it once more. What cannot be removed now is
            // swept later.
            let _ = (0..3).find(|_| remove_tree(self.world, self.parent, &self.hidden, DEPTH).is_ok());
        }
    }
}

/// Is there anything of this name? Asked first, since an object that exists is an honest no even where nothing can be made.
pub fn exists<W: World>(world: &W, parent: &W::Dir, object: &Name) -> Result<bool> {
    match world.stat_at(parent, object.last()) {
        Ok(_) => Ok(true),
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(Error::system(object.path(), errno)),
    }
}

/// Removes the hidden directories of dead processes. It is nobody's task to report what cannot be removed.
fn sweep<W: World>(world: &W, parent: &W::Dir) {
    if !world.can_mark(parent) {
        return;
    }
    for name in world.list(parent).unwrap_or_default() {
        if is_abandoned(world, parent, &name) {
            let _ = remove_tree(world, parent, &name, DEPTH);
        }
    }
}

fn is_abandoned<W: World>(world: &W, parent: &W::Dir, name: &OsStr) -> bool {
    let nonce = name.as_bytes().strip_prefix(PREFIX.as_bytes()).and_then(parse_decimal);
    match nonce.and_then(|nonce| u32::try_from(nonce).ok()) {
        None | Some(0) => false,
        Some(nonce) => !world.is_marked(parent, nonce),
    }
}

pub fn remove_tree<W: World>(world: &W, parent: &W::Dir, name: &OsStr, depth: usize) -> Sys<()> {
    if world.stat_at(parent, name)?.kind != Kind::Directory {
        return world.unlink(parent, name);
    }
    if depth == 0 {
        return Err(Errno::ENOTEMPTY);
    }
    let dir = world.open_dir_at(parent, name)?;
    for part in world.list(&dir)? {
        match remove_tree(world, &dir, &part, depth - 1) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    world.remove_dir(parent, name)
}
