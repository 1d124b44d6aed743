//! What stands at a name, for looking at it: nothing is changed, nothing is held, so it may be over when it is told.

use std::ffi::OsStr;

use super::link::{self, Spot, is_owner_gone};
use super::{bakery, counter, dirlock, queue, semaphore};
use crate::base::{LinkText, Name, Owner, Result};
use crate::sys::observe::{Observed, Sight, Watched};
use crate::sys::{Awaited, Kind, Stat, World};

/// An object as it was seen.
pub struct Surveyed {
    pub kind: ObjectKind,
    pub state: State,
    /// What its waiters listen to.
    pub awaited: Vec<Listened>,
    /// When the lock was made, in nanoseconds of the file system's clock.
    /// Not the 128 bits of a `Stat`: this stands on the heap, and bash 4.4's malloc aligns to 8 bytes.
    pub since: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Mutex,
    WeakMutex,
    LockDirectory,
    Bakery,
    Semaphore,
    Queue,
}

pub enum State {
    Held(Holder),
    /// A bakery without anybody inside.
    Open {
        waiting: usize,
    },
    Inside {
        holder: Holder,
        waiting: usize,
    },
    Tokens(i64),
    Items(i64),
    /// It is there but cannot be read.
    Unreadable(String),
}

pub struct Holder {
    pub by: LinkText,
    pub verdict: Verdict,
}

/// Why a lock is stale or not. Only one of these is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Somebody keeps the mark.
    Marked,
    /// The mark is lost, its holder lives.
    HolderLives,
    /// Made without a mark, or in another form: never stale.
    Unmarked,
    /// On a file system whose marks cannot be judged from here.
    Unjudged,
    Stale,
}

/// One name that waiters listen to: by its waiting line, by a watch on it.
pub struct Listened {
    pub line: Vec<u8>,
    pub inode: Option<Watched>,
}

impl Surveyed {
    /// Does this process wait for it?
    pub fn is_awaited_by(&self, observed: &Observed, sight: &Sight) -> bool {
        self.awaited.iter().any(|listened| {
            listened.inode.is_some_and(|inode| observed.is_watched_by(sight, inode))
                || sight.lines.contains(&listened.line)
        })
    }

    /// Who has it, for kinds that somebody has.
    pub fn holder(&self) -> Option<&Holder> {
        match &self.state {
            State::Held(holder) | State::Inside { holder, .. } => Some(holder),
            _ => None,
        }
    }

    /// Is it, seen at two moments, in the same hands?
    pub fn has_same_holder(&self, other: &Surveyed) -> bool {
        let holder = |seen: &Surveyed| seen.holder().map(|holder| holder.by.clone());
        self.kind == other.kind && holder(self) == holder(other)
    }
}

/// Looks at `name` in `parent`; `None` if it is nothing of ours.
pub fn survey<W: World>(world: &W, parent: &W::Dir, name: &Name) -> Result<Option<Surveyed>> {
    let Ok(stat) = world.stat_at(parent, name.last()) else { return Ok(None) };
    match stat.kind {
        Kind::Link => survey_link(world, parent, name, stat),
        Kind::Directory => survey_directory(world, parent, name, stat),
        _ => Ok(None),
    }
}

fn survey_link<W: World>(world: &W, parent: &W::Dir, name: &Name, stat: Stat) -> Result<Option<Surveyed>> {
    let Some(held) = link::read(world, parent, Spot::of(name))? else { return Ok(None) };
    let kind = match held.by {
        LinkText::Ours(_) => ObjectKind::Mutex,
        LinkText::Plain(_) => ObjectKind::WeakMutex,
        LinkText::Foreign => return Ok(None),
    };
    let verdict = judge(world, parent, &held.by);
    Ok(Some(Surveyed {
        kind,
        state: State::Held(Holder { by: held.by, verdict }),
        awaited: vec![listen(world, parent, name.last(), Awaited::Removal)],
        since: i64::try_from(stat.modified).ok(),
    }))
}

fn survey_directory<W: World>(world: &W, parent: &W::Dir, name: &Name, stat: Stat) -> Result<Option<Surveyed>> {
    let Ok(dir) = world.open_dir_at(parent, name.last()) else { return Ok(None) };
    let has = |part: &str| world.stat_at(&dir, OsStr::new(part)).is_ok();
    if has(counter::COUNTER) {
        return Ok(Some(survey_semaphore(world, name, dir, ObjectKind::Semaphore, State::Tokens)));
    }
    if has(queue::SEM) && has(queue::DATA) {
        let inner = Name::of_directory(name.inside(queue::SEM).as_os_str().as_encoded_bytes())?;
        let Ok(sem) = world.open_dir_at(&dir, OsStr::new(queue::SEM)) else { return Ok(None) };
        return Ok(Some(survey_semaphore(world, &inner, sem, ObjectKind::Queue, State::Items)));
    }
    if let Some(owner) = dirlock::owner(world, parent, name)? {
        let by = LinkText::Ours(owner);
        let verdict = judge(world, parent, &by);
        return Ok(Some(Surveyed {
            kind: ObjectKind::LockDirectory,
            state: State::Held(Holder { by, verdict }),
            awaited: vec![listen(world, parent, name.last(), Awaited::Removal)],
            since: i64::try_from(stat.modified).ok(),
        }));
    }
    survey_bakery(world, name, &dir)
}

fn survey_semaphore<W: World>(
    world: &W,
    name: &Name,
    dir: W::Dir,
    kind: ObjectKind,
    state: impl FnOnce(i64) -> State,
) -> Surveyed {
    let awaited = vec![listen(world, &dir, OsStr::new(semaphore::WAITLOCK), Awaited::Removal)];
    let value = counter::Counter::open(world, name, &dir).and_then(|counter| counter.read());
    let state = value.map_or_else(|error| State::Unreadable(error.to_string()), state);
    Surveyed { kind, state, awaited, since: None }
}

fn survey_bakery<W: World>(world: &W, name: &Name, dir: &W::Dir) -> Result<Option<Surveyed>> {
    let mut customers = bakery::customers(world, name, dir)?;
    if customers.is_empty() {
        return Ok(None);
    }
    customers.retain(|customer| !is_owner_gone(world, dir, &customer.owner));
    let inside = customers.iter().find(|customer| customer.is_served).map(|customer| {
        let by = LinkText::Ours(customer.owner);
        Holder { verdict: judge(world, dir, &by), by }
    });
    let waiting = customers.len() - usize::from(inside.is_some());
    let awaited = customers
        .iter()
        .flat_map(|customer| {
            [Awaited::Removal, Awaited::Change].map(|awaited| listen(world, dir, &customer.file, awaited))
        })
        .collect();
    let state = match inside {
        Some(holder) => State::Inside { holder, waiting },
        None => State::Open { waiting },
    };
    Ok(Some(Surveyed { kind: ObjectKind::Bakery, state, awaited, since: None }))
}

fn listen<W: World>(world: &W, dir: &W::Dir, name: &OsStr, awaited: Awaited) -> Listened {
    let inode = world.stat_at(dir, name).ok().map(|stat| Watched { device: stat.device, inode: stat.inode });
    Listened { line: world.line_name(dir, name, awaited), inode }
}

fn judge<W: World>(world: &W, dir: &W::Dir, by: &LinkText) -> Verdict {
    match by {
        LinkText::Ours(owner) if owner.has_mark() => judge_owner(world, dir, owner),
        _ => Verdict::Unmarked,
    }
}

fn judge_owner<W: World>(world: &W, dir: &W::Dir, owner: &Owner) -> Verdict {
    match () {
        () if !world.can_mark(dir) => Verdict::Unjudged,
        () if world.is_marked(dir, owner.nonce) => Verdict::Marked,
        () if !is_owner_gone(world, dir, owner) => Verdict::HolderLives,
        () => Verdict::Stale,
    }
}
