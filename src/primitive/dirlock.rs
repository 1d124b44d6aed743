//! The lock directory: excludes scripts that only know `mkdir` and `rmdir`, and recovers from crashes among ours.
//!
//! On disk: a directory with one file `owner`: the identity line, then the program's name. A directory without that
//! file belongs to a plain script and is never stale. The mark is on the directory that the lock stands in.
//!
//! - *lock*: under the guard, set the mark, prepare a hidden directory with `owner` inside, publish it under the lock's
//!   name, which must not exist (never a plain rename: that replaces a plain script's empty directory).
//! - *take over*: under the guard, the same `owner` and still stale: prepare a new `owner` in a hidden directory, rename
//!   it into the descriptor of the directory that was judged.
//! - *unlock*: under the guard, read `owner` again, rename the directory to its hidden name, then take it apart.
//!
//! Without the guard (another program keeps it for a second) locking is the same under another hidden name, there is no
//! takeover, and unlocking leaves a stale lock alone and gives back what it finds it took from somebody else.
//!
//! Invariant: our directory is never visible without its `owner`, coming or going.
//! After a crash: a stale lock or hidden remains, see [`super::hidden`]. Where the file system cannot rename without
//! replacing, the lock is made by `mkdir` and `owner` follows: a crash between the two leaves a bare directory, which a
//! person must remove.

use std::ffi::OsStr;

use super::Created;
use super::hidden::{Hidden, exists, remove_tree, stands_at, sweep};
use super::link::{Spot, is_owner_gone, set_mark};
use super::mutex::{Unlocked, open_parent};
use super::wait::{Try, Waited, wait_in_turn};
use crate::base::{Deadline, Error, LinkText, Name, Owner, Result};
use crate::sys::{Access, Armed, Awaited, Errno, Inherit, Sys, World};

const OWNER: &str = "owner";
/// The identity line and the longest program name that is kept.
const LONGEST: usize = 512;

pub fn lock<W: World>(
    world: &W,
    name: &Name,
    program: &[u8],
    deadline: Deadline,
    inherit: Inherit,
) -> Result<Waited<()>> {
    let queue_up = || world.queue_up(|| world.open_dir(name.parent()), name.last());
    let attempt = || try_lock(world, name, program, inherit);
    wait_in_turn(world, deadline, queue_up, attempt, |waiter| arm(world, name, waiter))
}

fn try_lock<W: World>(world: &W, name: &Name, program: &[u8], inherit: Inherit) -> Result<Try<()>> {
    let parent = open_parent(world, name)?;
    let nonce = match look(world, &parent, name)? {
        None => make(world, &parent, name, program)?,
        Some(there) if there.is_stale(world, &parent) => take_over(world, &parent, name, program, &there)?,
        Some(_) => None,
    };
    let Some(nonce) = nonce else { return Ok(Try::Busy) };
    if nonce != 0 {
        world.park(parent, name.last(), nonce, inherit);
    }
    Ok(Try::Done(()))
}

/// The NONCE of the lock we made, `None` if somebody was quicker.
fn make<W: World>(world: &W, parent: &W::Dir, name: &Name, program: &[u8]) -> Result<Option<u32>> {
    let guard = match world.try_guard(parent) {
        None => {
            let guard = world.guard(parent);
            // Whoever had it may have come for the same lock.
            if exists(world, parent, name)? {
                return Ok(None);
            }
            guard
        }
        guard => guard,
    };
    let _critical = world.critical();
    let nonce = set_mark(world, parent, Spot::of(name))?;
    let hidden = Hidden::prepare_with(world, parent, name, guard)?;
    let dir = hidden.open()?;
    write_owner(world, &dir, &text_of(world, nonce, program), name)?;
    match hidden.publish_exclusively() {
        Ok(Created::Made) => Ok(Some(nonce)),
        Ok(Created::Exists) => Ok(None),
        Err(Error::System { errno: Errno::EINVAL | Errno::ENOSYS, .. }) => {
            make_in_sight(world, parent, name, program, nonce)
        }
        Err(error) => Err(error),
    }
}

/// For file systems that cannot rename without replacing: the smallest window there is.
#[cold]
fn make_in_sight<W: World>(world: &W, parent: &W::Dir, name: &Name, program: &[u8], nonce: u32) -> Result<Option<u32>> {
    match world.make_dir(parent, name.last()) {
        Ok(()) => {}
        Err(Errno::EEXIST) => return Ok(None),
        Err(errno) => return Err(Error::system(name.path(), errno)),
    }
    let written = world
        .open_dir_at(parent, name.last())
        .map_err(|errno| Error::system(name.path(), errno))
        .and_then(|dir| write_owner(world, &dir, &text_of(world, nonce, program), name));
    match written {
        Ok(()) => Ok(Some(nonce)),
        Err(error) => {
            let _ = remove_tree(world, parent, name.last(), 1);
            Err(error)
        }
    }
}

#[cold]
fn take_over<W: World>(
    world: &W,
    parent: &W::Dir,
    name: &Name,
    program: &[u8],
    seen: &LockDir<W>,
) -> Result<Option<u32>> {
    let Some(guard) = world.try_guard(parent) else { return Ok(None) };
    let judged = match look(world, parent, name)? {
        Some(judged) if judged.says == seen.says && judged.is_stale(world, parent) => judged,
        _ => return Ok(None),
    };
    let _critical = world.critical();
    // Where one process was killed others may have been.
    sweep(world, parent);
    let nonce = set_mark(world, parent, Spot::of(name))?;
    let hidden = Hidden::prepare_with(world, parent, name, Some(guard))?;
    let dir = hidden.open()?;
    write_owner(world, &dir, &text_of(world, nonce, program), name)?;
    let owner = OsStr::new(OWNER);
    world.rename(&dir, owner, &judged.dir, owner).map_err(|errno| Error::system(name.path(), errno))?;
    // By force and without the guard it may have been taken away meanwhile; then nothing was won. What cannot be found
    // out has not happened: an error here would leave a lock that its living holder does not know of.
    let is_lost = stands_at(world, parent, name.last(), &judged.dir) == Ok(false);
    Ok((!is_lost).then_some(nonce))
}

fn arm<W: World>(world: &W, name: &Name, waiter: &mut W::Waiter) -> Result<Armed> {
    let parent = open_parent(world, name)?;
    let holder = look(world, &parent, name)?
        .and_then(|there| there.owner())
        .and_then(|owner| owner.holder_here(&world.process()));
    Ok(world.arm(waiter, &parent, name.last(), Awaited::Removal, holder))
}

/// Removes the script's own lock directory, or a stale one; with `force` anybody's, and a plain script's bare one.
pub fn unlock<W: World>(world: &W, name: &Name, force: bool) -> Result<Unlocked> {
    let parent = open_parent(world, name)?;
    let guard = world.guard(&parent);
    let is_guarded = guard.is_some();
    let Some(there) = look(world, &parent, name)? else { return Ok(Unlocked::NotLocked) };
    if !(force || there.is_owned_by_script(world) || is_guarded && there.is_stale(world, &parent)) {
        return Err(Error::NotOwner { path: name.path().to_owned(), whose: there.describe() });
    }
    if !force && !is_guarded && there.is_stale(world, &parent) {
        // A taker may be just about to make it its own.
        return Err(Error::system(name.path(), Errno::EWOULDBLOCK));
    }
    there.check_is_lock(world, name)?;
    let _critical = world.critical();
    let hidden = Hidden::withdraw_with(world, &parent, name, guard)?;
    // Without the guard another subshell may have unlocked it, and somebody else locked, since it was read.
    if !force && !is_guarded && hidden.is(&there.dir) == Ok(false) {
        hidden.put_back();
        return Ok(Unlocked::NotLocked);
    }
    // What fails here is tried again when `hidden` is dropped.
    let _ = world.unlink(&there.dir, OWNER.as_ref());
    drop(hidden);
    if let Some(owner) = there.owner() {
        world.unpark(owner.nonce);
    }
    Ok(Unlocked::Removed)
}

/// Whose lock directory it is; `None` if it is none of ours.
pub fn owner<W: World>(world: &W, parent: &W::Dir, name: &Name) -> Result<Option<Owner>> {
    Ok(look(world, parent, name)?.and_then(|there| there.owner()))
}

/// A directory that stands at the lock's name, as it was read.
struct LockDir<W: World> {
    dir: W::Dir,
    says: Says,
}

#[derive(Debug, PartialEq, Eq)]
enum Says {
    /// The content of `owner`.
    Text(Vec<u8>),
    /// There is no such file: a plain script's directory.
    Nothing,
    /// A link, a directory or another thing has that name.
    NoFile,
    /// It may not be read: another user's.
    Secret,
}

/// What stands at the name; `None` if nothing does.
fn look<W: World>(world: &W, parent: &W::Dir, name: &Name) -> Result<Option<LockDir<W>>> {
    let error = |errno| Error::system(name.path(), errno);
    let dir = match world.open_dir_at(parent, name.last()) {
        Ok(dir) => dir,
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ENOTDIR | Errno::ELOOP) => {
            return Err(Error::damaged(name.path(), "not a lock: exists and is not a directory"));
        }
        Err(errno) => return Err(error(errno)),
    };
    let says = read_owner(world, &dir).map_err(error)?;
    Ok(Some(LockDir { dir, says }))
}

fn read_owner<W: World>(world: &W, dir: &W::Dir) -> Sys<Says> {
    let mut text = vec![0; LONGEST];
    match world.open_file(dir, OWNER.as_ref(), Access::Read).and_then(|file| world.read_at(&file, 0, &mut text)) {
        Ok(length) => {
            text.truncate(length);
            Ok(Says::Text(text))
        }
        Err(Errno::ENOENT) => Ok(Says::Nothing),
        Err(Errno::ELOOP | Errno::ENXIO | Errno::EISDIR | Errno::EINVAL | Errno::ESPIPE) => Ok(Says::NoFile),
        Err(Errno::EACCES | Errno::EPERM) => Ok(Says::Secret),
        Err(errno) => Err(errno),
    }
}

impl<W: World> LockDir<W> {
    fn owner(&self) -> Option<Owner> {
        let Says::Text(text) = &self.says else { return None };
        match LinkText::parse(text.split(|&byte| byte == b'\n').next()?) {
            LinkText::Ours(owner) => Some(owner),
            _ => None,
        }
    }

    fn is_stale(&self, world: &W, parent: &W::Dir) -> bool {
        self.owner().is_some_and(|owner| is_owner_gone(world, parent, &owner))
    }

    fn is_owned_by_script(&self, world: &W) -> bool {
        self.owner().is_some_and(|owner| owner.is_owned_by(&world.process(), |nonce| world.holds(nonce)))
    }

    fn describe(&self) -> String {
        match (self.owner(), &self.says) {
            (Some(owner), _) => format!("locked by {}", owner.describe()),
            (None, Says::Secret) => "locked by another user".into(),
            (None, _) => "locked by another program, without an owner".into(),
        }
    }

    /// Refuses to take a directory apart that holds somebody's files, be one of them called `owner`.
    fn check_is_lock(&self, world: &W, name: &Name) -> Result<()> {
        let is_ours = match &self.says {
            // Whoever made it was killed before writing, where a lock is made in sight.
            Says::Text(text) => text.is_empty() || self.owner().is_some(),
            Says::Nothing => true,
            Says::NoFile | Says::Secret => false,
        };
        if !is_ours {
            return Err(Error::damaged(name.path(), "its file owner is not ours or may not be read; nothing removed"));
        }
        super::semaphore::check_only_parts(world, name, &self.dir, &[OWNER])
    }
}

fn text_of<W: World>(world: &W, nonce: u32, program: &[u8]) -> Vec<u8> {
    let mut text = format!("{}\n", Owner::new(&world.process(), nonce)).into_bytes();
    text.extend(program.iter().take(LONGEST / 2).map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }));
    text.push(b'\n');
    text
}

fn write_owner<W: World>(world: &W, dir: &W::Dir, text: &[u8], name: &Name) -> Result<()> {
    let owner = OsStr::new(OWNER);
    let made = world.open_file(dir, owner, Access::CreateNew);
    let written = made.and_then(|file| match world.write_at(&file, 0, text)? {
        written if written == text.len() => Ok(()),
        _ => Err(Errno::ENOSPC),
    });
    written.map_err(|errno| {
        let _ = world.unlink(dir, owner);
        Error::system(name.path(), errno)
    })
}
