//! The link that is a lock: making it with a mark, judging it, taking it over, removing it.
//!
//! On disk: a symbolic link whose text is an [`Owner`] (or a peer's plain number, or anything). Our mark is a byte lock
//! that the kernel keeps on the directory at offset NONCE while the holder or what it started lives.
//!
//! - *make*: set the mark, then create the link. The link is never visible without its mark.
//! - *stale*: our form, a NONCE, the mark is gone, and the holder is not still the process it was.
//! - *take over*: under the guard, the same text and still stale: set the own mark, make the own link beside as
//!   `.interlock`, rename it over the stale one. One step removes and acquires.
//! - *remove*: under the guard, after reading the text again.
//!
//! Invariant: whoever removes or replaces a link that is not its own holds the guard from before the reading that
//! justifies it until after the change; the own link is removed by nobody else but `-f`.
//! After a crash: without a link, nothing. With it, a stale lock. `.interlock` is swept by the next takeover;
//! where it is another user's and may not be removed, `.interlock-NONCE` serves, see [`super::hidden`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::base::{Error, LinkText, Name, Owner, Result};
use crate::sys::{Errno, Sys, World};

const TEMPORARY: &str = ".interlock";
/// How [`marked_name`]s begin.
pub const MARKED: &str = ".interlock-";

/// Where a link stands: an object itself, or a named part inside one. The directory handle goes beside it.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    object: &'a Name,
    part: Option<&'static str>,
}

impl<'a> Spot<'a> {
    pub fn of(object: &'a Name) -> Self {
        Spot { object, part: None }
    }

    pub fn inside(object: &'a Name, part: &'static str) -> Self {
        Spot { object, part: Some(part) }
    }

    pub fn last(&self) -> &'a OsStr {
        self.part.map_or(self.object.last(), OsStr::new)
    }

    /// For messages.
    pub fn path(&self) -> PathBuf {
        self.part.map_or_else(|| self.object.path().to_owned(), |part| self.object.inside(part))
    }

    pub fn error(&self, errno: Errno) -> Error {
        Error::system(self.path(), errno)
    }
}

/// What became of an attempt to make or take a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Made {
    /// There was none; now ours. The mark of this NONCE lasts as long as the directory handle.
    Fresh { nonce: u32 },
    /// It was a dead holder's; now ours, and what it protects may be half done.
    TookOver { nonce: u32 },
    /// Somebody has it; `None` if it was released between our try and our look.
    Busy(Option<Held>),
}

/// Somebody's link, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    text: Vec<u8>,
    pub by: LinkText,
}

impl Held {
    fn parse(text: Vec<u8>) -> Held {
        let by = LinkText::parse(&text);
        Held { text, by }
    }

    /// Whom to listen to for an early end.
    pub fn holder<W: World>(&self, world: &W) -> Option<u32> {
        match self.by {
            LinkText::Ours(owner) => owner.holder_here(&world.process()),
            _ => None,
        }
    }

    /// For messages.
    pub fn describe(&self) -> String {
        match &self.by {
            LinkText::Ours(owner) => owner.describe(),
            LinkText::Plain(number) => format!("process {number}"),
            LinkText::Foreign => "another program".into(),
        }
    }
}

/// Reads the link; `None` if there is none.
pub fn read<W: World>(world: &W, dir: &W::Dir, spot: Spot) -> Result<Option<Held>> {
    match world.read_link(dir, spot.last()) {
        Ok(text) => Ok(Some(Held::parse(text))),
        Err(Errno::ENOENT) => Ok(None),
        // How the system says that something is not a link.
        Err(Errno::EINVAL) => Err(Error::damaged(spot.path(), "not a lock: exists and is not a symbolic link")),
        Err(errno) => Err(spot.error(errno)),
    }
}

/// Nobody holds it any more, provably.
pub fn is_stale<W: World>(world: &W, dir: &W::Dir, held: &Held) -> bool {
    matches!(&held.by, LinkText::Ours(owner) if is_owner_gone(world, dir, owner))
}

/// The mark on `dir` is gone and so is the holder. It may have lost its mark and live on: `exec` of a program that closes
/// all descriptors.
pub fn is_owner_gone<W: World>(world: &W, dir: &W::Dir, owner: &Owner) -> bool {
    is_mark_gone(world, dir, owner)
        && !owner.holder_here(&world.process()).is_some_and(|holder| world.is_alive(holder, owner.holder_start))
}

fn is_mark_gone<W: World>(world: &W, dir: &W::Dir, owner: &Owner) -> bool {
    owner.has_mark() && world.can_mark(dir) && !world.is_marked(dir, owner.nonce)
}

/// Stale, said of a lock whose holder runs nothing else while it holds it: without its mark it has let go, though it may
/// live and could not remove the link.
pub fn is_let_go<W: World>(world: &W, dir: &W::Dir, held: &Held) -> bool {
    matches!(&held.by, LinkText::Ours(owner) if is_mark_gone(world, dir, owner))
}

/// [`is_stale`] or [`is_let_go`].
pub type Judge<W> = fn(&W, &<W as World>::Dir, &Held) -> bool;

/// Makes the link, or takes it over if it is stale.
pub fn make<W: World>(world: &W, dir: &W::Dir, spot: Spot, is_stale: Judge<W>) -> Result<Made> {
    let nonce = set_mark(world, dir, spot)?;
    let text = Owner::new(&world.process(), nonce).to_string();
    match world.symlink(&text, dir, spot.last()) {
        Ok(()) => Ok(Made::Fresh { nonce }),
        Err(Errno::EEXIST) => match read(world, dir, spot)? {
            Some(held) if is_stale(world, dir, &held) => take_over(world, dir, spot, is_stale, held, nonce, &text),
            held => Ok(Made::Busy(held)),
        },
        Err(errno) => Err(spot.error(errno)),
    }
}

/// A fresh NONCE with its mark set, or 0 where marks cannot be seen by all.
pub fn set_mark<W: World>(world: &W, dir: &W::Dir, spot: Spot) -> Result<u32> {
    if !world.can_mark(dir) {
        return Ok(0);
    }
    let nonce = fresh_nonce(world);
    world.mark(dir, nonce).map_err(|errno| spot.error(errno))?;
    Ok(nonce)
}

/// 31 bits, not 0.
fn fresh_nonce<W: World>(world: &W) -> u32 {
    // The top bits of the product with 2^31 - 1 choose evenly among that many values.
    let scaled = (u128::from(world.random()) * u128::from(i32::MAX as u32)) >> 64;
    1 + scaled as u32
}

#[cold]
fn take_over<W: World>(
    world: &W,
    dir: &W::Dir,
    spot: Spot,
    is_stale: Judge<W>,
    seen: Held,
    nonce: u32,
    text: &str,
) -> Result<Made> {
    let Some(_guard) = world.try_guard(dir) else {
        return Ok(Made::Busy(Some(seen)));
    };
    match read(world, dir, spot)? {
        Some(now) if now == seen && is_stale(world, dir, &now) => {}
        now => return Ok(Made::Busy(now)),
    }
    replace(world, dir, spot, text, nonce)?;
    Ok(Made::TookOver { nonce })
}

/// Puts a link of this text in the place of what is there, in one step. The caller excludes others from `.interlock`, and
/// has set the mark `nonce` on `dir`, if it is not 0.
pub fn replace<W: World>(world: &W, dir: &W::Dir, spot: Spot, text: &str, nonce: u32) -> Result<()> {
    let replaced = make_beside(world, dir, text, nonce).and_then(|temporary| {
        world.rename(dir, &temporary, dir, spot.last()).inspect_err(|_| {
            // The rename's own reason is what is told.
            let _ = world.unlink(dir, &temporary);
        })
    });
    replaced.map_err(|errno| spot.error(errno))
}

/// Makes a link of this text under a name that nobody looks at.
fn make_beside<W: World>(world: &W, dir: &W::Dir, text: &str, nonce: u32) -> Sys<OsString> {
    let temporary = OsString::from(TEMPORARY);
    let made = match world.symlink(text, dir, &temporary) {
        // Remains of a process that died here.
        Err(Errno::EEXIST) => world.unlink(dir, &temporary).and_then(|()| world.symlink(text, dir, &temporary)),
        made => made,
    };
    match made {
        // Another user's, in a sticky directory.
        Err(Errno::EPERM | Errno::EACCES) if nonce != 0 => {
            let own = marked_name(nonce);
            world.symlink(text, dir, &own).map(|()| own)
        }
        made => made.map(|()| temporary),
    }
}

/// Is it one of these parts of an object, or what a process that died there may have left?
pub fn is_part_or_remains(name: &OsStr, parts: &[&str]) -> bool {
    name == TEMPORARY || name.as_bytes().starts_with(MARKED.as_bytes()) || parts.iter().any(|part| name == *part)
}

/// A name that nobody else uses while the mark NONCE is on the directory; then remains, see [`super::hidden::sweep`].
pub fn marked_name(nonce: u32) -> OsString {
    format!("{MARKED}{nonce}").into()
}
