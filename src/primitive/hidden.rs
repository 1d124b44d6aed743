//! Object directories appear complete and disappear at once: they are made, and taken apart, under a hidden name.
//!
//! On disk: `.interlock-0` beside the object, for whoever has the guard of the directory that both stand in. Who cannot
//! have it uses `.interlock-NONCE`, with the mark NONCE on that directory.
//!
//! - *prepare*: make the hidden directory. The caller fills it. - *withdraw*: rename the object to the hidden name.
//! - *publish*: rename it to the object's name, which must not exist. - *discard*: remove it.
//!
//! Invariants: nobody sees an object that is half made or half gone under its own name. What stands at `.interlock-0`
//! when the guard is had was left by a dead process.
//! After a crash: such a directory, removed by the next to use the name: nobody needs to list a large directory for it.
//! One with a NONCE and no mark, possible where another program kept the guard for a second, goes with the next takeover
//! or the next such case. Where there is neither guard nor mark the name is `.interlock-0-NUMBER` and stays, since nobody
//! can tell whether its maker lives.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::Created;
use super::link::{MARKED, Spot, marked_name, set_mark};
use crate::base::{Error, Name, Result, parse_decimal};
use crate::sys::{Errno, Kind, Sys, World};

const UNDER_GUARD: &str = ".interlock-0";
/// Objects are at most so deep: a queue holds a semaphore.
const DEPTH: usize = 2;

/// A directory under its hidden name. Without publishing it is removed when dropped.
pub struct Hidden<'a, W: World> {
    world: &'a W,
    parent: &'a W::Dir,
    object: &'a Name,
    hidden: OsString,
    is_published: bool,
    /// Given back last.
    _guard: Option<W::Guard<'a>>,
}

impl<'a, W: World> Hidden<'a, W> {
    /// Makes an empty hidden directory for `object`, which stands in `parent`.
    pub fn prepare(world: &'a W, parent: &'a W::Dir, object: &'a Name) -> Result<Self> {
        Hidden::prepare_with(world, parent, object, world.guard(parent))
    }

    pub fn prepare_with(
        world: &'a W,
        parent: &'a W::Dir,
        object: &'a Name,
        guard: Option<W::Guard<'a>>,
    ) -> Result<Self> {
        Hidden::at_hidden_name(world, parent, object, guard, |hidden| world.make_dir(parent, hidden))
    }

    /// Takes `object` away from its name in one step. Dropping the result removes it.
    pub fn withdraw(world: &'a W, parent: &'a W::Dir, object: &'a Name) -> Result<Self> {
        Hidden::withdraw_with(world, parent, object, world.try_guard(parent))
    }

    pub fn withdraw_with(
        world: &'a W,
        parent: &'a W::Dir,
        object: &'a Name,
        guard: Option<W::Guard<'a>>,
    ) -> Result<Self> {
        Hidden::at_hidden_name(world, parent, object, guard, |hidden| {
            world.rename(parent, object.last(), parent, hidden)
        })
    }

    fn at_hidden_name(
        world: &'a W,
        parent: &'a W::Dir,
        object: &'a Name,
        guard: Option<W::Guard<'a>>,
        put: impl Fn(&OsStr) -> Sys<()>,
    ) -> Result<Self> {
        let hidden = match &guard {
            Some(_) => put_under_guard(world, parent, &put),
            None => Err(Errno::EWOULDBLOCK),
        };
        let hidden = match hidden {
            Ok(()) => UNDER_GUARD.into(),
            // Or what is there is not ours to remove: another user's in a sticky directory.
            Err(Errno::EWOULDBLOCK | Errno::EPERM | Errno::EACCES) => {
                sweep(world, parent);
                let hidden = own_name(world, parent, object)?;
                put(&hidden).map_err(|errno| Error::system(object.path(), errno))?;
                hidden
            }
            Err(errno) => return Err(Error::system(object.path(), errno)),
        };
        Ok(Hidden { world, parent, object, hidden, is_published: false, _guard: guard })
    }

    /// The hidden directory itself.
    pub fn open(&self) -> Result<W::Dir> {
        self.world.open_dir_at(self.parent, &self.hidden).map_err(|errno| self.error(errno))
    }

    /// Is it the directory that was opened as `dir`?
    pub fn is(&self, dir: &W::Dir) -> Sys<bool> {
        stands_at(self.world, self.parent, &self.hidden, dir)
    }

    /// Gives the object its name back, if the name is still free.
    pub fn put_back(mut self) {
        let restored = self.world.rename_exclusive(self.parent, &self.hidden, self.parent, self.object.last());
        self.is_published = restored.is_ok();
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
            let Hidden { world, parent, hidden, .. } = self;
            if world.remove_dir(parent, hidden).is_err() {
                // A waiter that still has the directory open can put its lock into it once more. What cannot be removed
                // now is so later.
                let _ = (0..3).find(|_| remove_tree(*world, parent, hidden, DEPTH).is_ok());
            }
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

/// Is it the opened directory that has this name?
pub fn stands_at<W: World>(world: &W, parent: &W::Dir, name: &OsStr, dir: &W::Dir) -> Sys<bool> {
    match world.stat_at(parent, name) {
        Ok(named) => Ok(named.identity() == world.stat_dir(dir)?.identity()),
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn put_under_guard<W: World>(world: &W, parent: &W::Dir, put: impl Fn(&OsStr) -> Sys<()>) -> Sys<()> {
    match put(UNDER_GUARD.as_ref()) {
        // Remains of a process that died here.
        Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {
            remove_tree(world, parent, UNDER_GUARD.as_ref(), DEPTH).map_err(|_| Errno::EWOULDBLOCK)?;
            put(UNDER_GUARD.as_ref())
        }
        put => put,
    }
}

/// A name that nobody else uses.
#[cold]
fn own_name<W: World>(world: &W, parent: &W::Dir, object: &Name) -> Result<OsString> {
    Ok(match set_mark(world, parent, Spot::of(object))? {
        0 => format!("{UNDER_GUARD}-{}", world.random()).into(),
        nonce => marked_name(nonce),
    })
}

/// Removes the hidden directories of dead processes. It is nobody's task to report what cannot be removed.
#[cold]
pub fn sweep<W: World>(world: &W, parent: &W::Dir) {
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
    let nonce = name.as_bytes().strip_prefix(MARKED.as_bytes()).and_then(parse_decimal);
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
