//! The queue: byte strings, first in first out, any number of producers and consumers, scripts of peers among them.
//!
//! On disk: a directory with `mutex` (a short lock), `sem/` (a semaphore, one token for each item) and `data` (one item a
//! line, see [`data`] and [`item`]). Beside them, at times: `rejected` (lines that were no base64) and `data.new`.
//!
//! *Every operation*: lock `mutex`, then `sem/countlock`; mend the tail of `data`; after a takeover of `mutex` finish what
//! was being consumed and post the tokens that are missing. Both locks are had before anything changes, so nothing waits half
//! way. Peers take one of them at a time.
//! - *put*: append all lines in one write; give as many tokens; if that fails truncate to the length before.
//! - *get*: take up to MAX tokens; take as many lines off the head as one region ([`region`]); what cannot be taken is
//!   given back. No token: unlock, wait for one, again. Lines that are no items go to `rejected`; one that had come without
//!   a token has used up an item's, which is given back ([`missing`]).
//! - *put back*: the lines before the head by `data.new` and rename ([`rewrite`]); give the tokens.
//!
//! | items | tokens | meaning | who changes it |
//! |---|---|---|---|
//! | n | n | at rest | put, get |
//! | more | fewer | a peer is between append and post, or between its token and its item; or a crash | that peer; a takeover at once, a waiter after 3 s ([`missing`]) |
//! | fewer | more | damage cut off, or posted twice beside a slow peer | a get drops tokens without an item |
//!
//! Invariants: what was put and not taken stands in `data`, in order; a consumer's death loses at most what it had
//! taken. After a crash: `mutex` is stale, and its taker repairs.

mod data;
mod destroy;
mod item;
mod missing;
mod region;
mod rejected;
mod rewrite;

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

pub use self::data::DATA;
use self::data::Data;
pub use self::destroy::destroy;
use self::missing::{Patience, post_missing, repay};
use super::Created;
use super::hidden::{Hidden, exists};
use super::link::Spot;
use super::mutex::open_parent;
use super::semaphore::{self, Count, Semaphore};
use super::short;
use super::wait::{Try, Waited, wait_for};
use crate::base::{Deadline, Error, Name, Result};
use crate::sys::{Access, Errno, Stat, World};

const MUTEX: &str = "mutex";
pub const SEM: &str = "sem";

/// How long putting back insists, signals or not: what is put back is in nobody else's hands.
const INSIST: Duration = Duration::from_secs(1);

/// What the user has to know once although the operation went on: damage cut off, a line that was no item.
pub type Notes = Vec<Error>;

pub fn init<W: World>(world: &W, name: &Name) -> Result<Created> {
    let parent = open_parent(world, name)?;
    if exists(world, &parent, name)? {
        return Ok(Created::Exists);
    }
    let error = |errno| Error::system(name.path(), errno);
    let hidden = Hidden::prepare(world, &parent, name)?;
    let dir = hidden.open()?;
    world.open_file(&dir, DATA.as_ref(), Access::CreateNew).map_err(error)?;
    world.make_dir(&dir, SEM.as_ref()).map_err(error)?;
    semaphore::fill(world, name, &world.open_dir_at(&dir, SEM.as_ref()).map_err(error)?, 0)?;
    hidden.publish()
}

/// Appends the items in their order, all of them or, on an error, none.
pub fn put<W: World>(world: &W, name: &Name, items: &[impl AsRef<[u8]>], notes: &mut Notes) -> Result<Waited<()>> {
    let lines = encode(name, items)?;
    locked(world, name, Deadline::Never, notes, |open| {
        let before = open.data.length();
        open.data.append(&lines)?;
        open.count.give(items.len() as u64).inspect_err(|_| open.data.undo_append(before))?;
        Ok(Try::Done(()))
    })
    .map(Waited::from)
}

/// Takes up to `most` items, at least one.
pub fn get<W: World>(
    world: &W,
    name: &Name,
    most: usize,
    deadline: Deadline,
    notes: &mut Notes,
) -> Result<Waited<Vec<Vec<u8>>>> {
    let sem = semaphore_of(name)?;
    let mut patience = Patience::default();
    let mut is_waiting = false;
    wait_for(
        world,
        deadline,
        || {
            let look_first = std::mem::replace(&mut is_waiting, true);
            locked_unless(look_first, world, name, deadline, notes, |open| open.take(most as u64, &mut patience))
        },
        |waiter| Ok(open_semaphore(world, name, &sem, &open_queue(world, name)?)?.arm(waiter)),
    )
}

/// Puts items that were taken and could not be delivered before the head.
pub fn put_back<W: World>(world: &W, name: &Name, items: &[impl AsRef<[u8]>], notes: &mut Notes) -> Result<()> {
    let lines = encode(name, items)?;
    let start = world.now();
    loop {
        let end = locked(world, name, Deadline::Never, notes, |open| {
            open.data.put_before_head(&lines)?;
            // They are safe now. Without tokens a waiter posts them later.
            let _ = open.count.give(items.len() as u64);
            Ok(Try::Done(()))
        })?;
        match end {
            Try::Done(()) => return Ok(()),
            _ if world.now().since(start) < INSIST => {}
            _ => return Err(Error::system(name.inside(MUTEX), Errno::EINTR)),
        }
    }
}

/// The first item, which stays where it is.
pub fn peek<W: World>(world: &W, name: &Name, notes: &mut Notes) -> Result<Waited<Option<Vec<u8>>>> {
    locked(world, name, Deadline::Never, notes, |open| open.first_item().map(Try::Done)).map(Waited::from)
}

/// How many items can be taken.
pub fn len<W: World>(world: &W, name: &Name, notes: &mut Notes) -> Result<Waited<u64>> {
    locked(world, name, Deadline::Never, notes, |open| Ok(Try::Done(open.count.value.max(0).unsigned_abs())))
        .map(Waited::from)
}

/// All items as they are now.
pub fn snapshot<W: World>(world: &W, name: &Name, notes: &mut Notes) -> Result<Waited<Vec<Vec<u8>>>> {
    let error = |errno| Error::system(name.inside(DATA), errno);
    let region = match locked(world, name, Deadline::Never, notes, |open| open.data.read_head(u64::MAX).map(Try::Done))?
    {
        Try::Done(region) => region,
        Try::Busy => return Ok(Waited::TimedOut),
        Try::Interrupted => return Ok(Waited::Interrupted),
    };
    let mut items = Vec::new();
    for (_, line) in region.items() {
        if let Some(item) = item::decode(line).map_err(error)? {
            item::push(&mut items, item).map_err(error)?;
        }
    }
    Ok(Waited::Done(items))
}

fn encode(name: &Name, items: &[impl AsRef<[u8]>]) -> Result<Vec<u8>> {
    item::encode(items).map_err(|errno| Error::system(name.path(), errno))
}

fn semaphore_of(name: &Name) -> Result<Name> {
    Name::of_directory(name.inside(SEM).as_os_str().as_bytes())
}

fn open_queue<W: World>(world: &W, name: &Name) -> Result<W::Dir> {
    world.open_dir(name.path()).map_err(|errno| Error::system(name.path(), errno))
}

/// From the queue's directory: the path of `sem` may be too long.
fn open_semaphore<'a, W: World>(
    world: &'a W,
    name: &Name,
    sem_name: &'a Name,
    dir: &W::Dir,
) -> Result<Semaphore<'a, W>> {
    let sem_dir = world.open_dir_at(dir, SEM.as_ref()).map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENOTDIR => Error::damaged(name.path(), "not a queue"),
        errno => Error::system(sem_name.path(), errno),
    })?;
    Semaphore::with_dir(world, sem_name, sem_dir)
}

/// The queue while both locks are held.
struct Open<'o, 's, W: World> {
    data: Data<'o, W>,
    count: &'o mut Count<'s, W>,
    notes: &'o mut Notes,
}

/// Does one thing to the queue under both locks.
fn locked<W: World, T>(
    world: &W,
    name: &Name,
    deadline: Deadline,
    notes: &mut Notes,
    act: impl FnOnce(&mut Open<'_, '_, W>) -> Result<Try<T>>,
) -> Result<Try<T>> {
    locked_unless(false, world, name, deadline, notes, act)
}

/// The same, but with `look_first` busy at once if the locks would be taken for nothing: waiters must not keep the disk
/// and each other busy.
fn locked_unless<W: World, T>(
    look_first: bool,
    world: &W,
    name: &Name,
    deadline: Deadline,
    notes: &mut Notes,
    act: impl FnOnce(&mut Open<'_, '_, W>) -> Result<Try<T>>,
) -> Result<Try<T>> {
    let dir = open_queue(world, name)?;
    // Before the lock: nothing is created in a directory that is no queue.
    let sem_name = semaphore_of(name)?;
    let semaphore = open_semaphore(world, name, &sem_name, &dir)?;
    if look_first && is_idle(world, &dir, &semaphore) {
        return Ok(Try::Busy);
    }
    let mutex = match short::lock(world, &dir, Spot::inside(name, MUTEX), deadline)? {
        Try::Done(short) => short,
        Try::Busy => return Ok(Try::Busy),
        Try::Interrupted => return Ok(Try::Interrupted),
    };
    let end = semaphore.with_count(deadline, |count| {
        let mut data = Data::open(world, name, &dir, notes)?;
        if mutex.took_over {
            data.remove_new();
            post_missing(&mut data, count)?;
        }
        act(&mut Open { data, count, notes })
    });
    match end {
        Err(Error::System { errno: Errno::EINTR, .. }) => Ok(Try::Interrupted),
        end => end,
    }
}

/// Certainly no item, no token and nothing to repair.
fn is_idle<W: World>(world: &W, dir: &W::Dir, semaphore: &Semaphore<'_, W>) -> bool {
    let has_data = |stat: Stat| stat.length > 0;
    world.stat_at(dir, MUTEX.as_ref()) == Err(Errno::ENOENT)
        && !world.stat_at(dir, DATA.as_ref()).is_ok_and(has_data)
        && semaphore.is_closed()
}

impl<W: World> Open<'_, '_, W> {
    fn take(&mut self, most: u64, patience: &mut Patience) -> Result<Try<Vec<Vec<u8>>>> {
        let mut lines_left = None;
        loop {
            let mut tokens = self.count.take(most)?;
            if tokens == 0 && patience.helps(&mut self.data, self.count)? {
                tokens = self.count.take(most)?;
            }
            if tokens == 0 {
                return Ok(Try::Busy);
            }
            let taken = self.take_items(tokens).inspect_err(|_| {
                // If even that fails, the items are there and a waiter posts them.
                let _ = self.count.give(tokens);
            })?;
            let mut end = if taken.left > 0 { self.count.give(taken.left) } else { Ok(()) };
            if end.is_ok() && taken.rejected > 0 {
                end = repay(&mut self.data, self.count, &mut lines_left, taken.consumed, taken.rejected);
            }
            // What is taken is delivered; what is left without a token, a waiter posts.
            if !taken.items.is_empty() {
                return Ok(Try::Done(taken.items));
            }
            end?;
            if !taken.has_rejected {
                // Tokens without items are of no use to anybody.
                self.count.take(u64::MAX)?;
                return Ok(Try::Busy);
            }
        }
    }

    fn take_items(&mut self, tokens: u64) -> Result<Taken> {
        let region = self.data.read_head(tokens)?;
        let error = |errno| Error::system(self.data.queue.inside(DATA), errno);
        // Nothing is asked of memory any more once something is consumed.
        let (mut items, mut lines) = (Vec::new(), Vec::new());
        for (start, line) in region.items() {
            let item = item::decode(line).map_err(error)?;
            item::push(&mut lines, (start, item.is_some())).map_err(error)?;
            if let Some(item) = item {
                item::push(&mut items, item).map_err(error)?;
            }
        }
        if lines.is_empty() {
            return Ok(Taken::default());
        }
        let has_rejected = items.len() < lines.len();
        if has_rejected {
            self.data.reject(&region, self.notes)?;
        }
        let consumed = self.data.consume(&region)?;
        let taken = lines.partition_point(|&(start, _)| consumed.includes(start));
        items.truncate(lines[..taken].iter().filter(|(_, is_item)| *is_item).count());
        let rejected = (taken - items.len()) as u64;
        Ok(Taken { items, consumed: taken as u64, rejected, left: (lines.len() - taken) as u64, has_rejected })
    }

    fn first_item(&mut self) -> Result<Option<Vec<u8>>> {
        let mut most = 1;
        loop {
            let region = self.data.read_head(most)?;
            let mut lines = 0;
            for (_, line) in region.items() {
                lines += 1;
                if let Some(item) = item::decode(line).map_err(|errno| self.data.error(errno))? {
                    return Ok(Some(item));
                }
            }
            if lines < most {
                return Ok(None);
            }
            // Lines that are no items stand before it; the next get moves them away.
            most *= 2;
        }
    }
}

#[derive(Default)]
struct Taken {
    items: Vec<Vec<u8>>,
    /// Lines, and how many of them were no items.
    consumed: u64,
    rejected: u64,
    /// Lines that could not be taken and are still live.
    left: u64,
    has_rejected: bool,
}

#[cfg(test)]
mod tests;
