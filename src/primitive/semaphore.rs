//! The counting semaphore.
//!
//! On disk: a directory with `counter`, `countlock` (a short lock), `waitlock` (a link, at rest present exactly when the
//! counter is 0) and `owner` (a link, the creator). Our `waitlock` and `owner` carry NONCE 0: they tell who, and are
//! never stale. A peer's waiter claims the next token by making `waitlock`, a plain number, before it counts down; a
//! peer's poster removes it after it has released `countlock`, maybe much later.
//!
//! All our steps happen under `countlock`:
//! - *give n*: counter ≤ 0 and `waitlock` not ours: rename ours over it. Write counter + n. Positive: remove `waitlock`.
//! - *take n*: see the table. - *heal*: after a takeover, remove our `waitlock` beside a positive counter.
//!
//! | counter | `waitlock` | meaning | who changes it next | take |
//! |---|---|---|---|---|
//! | ≤ 0 | ours or plain | no token | a post | no |
//! | ≤ 0 | none | a peer's late removal, a crash | anybody | make it; no |
//! | ≥ 1 | none | tokens | anybody | all but the last at once; for the last make it first |
//! | ≥ 1 | plain | a peer has claimed one, or has yet to open | that peer | all but the last |
//! | ≥ 1 | ours | a crash between two steps | whoever sees it | all |
//!
//! Invariant: tokens taken by ours ≤ initial value + tokens posted. Negative counters are the peers' and count as 0.
//! After a crash: `countlock` is stale and its taker heals. A plain `waitlock` beside tokens, unchanged for 3 s, was
//! left by a dead peer and is removed by a waiter.

use std::time::Duration;

use super::Created;
use super::counter::{COUNTER, Counter};
use super::hidden::{Hidden, exists};
use super::link::{self, Held, Spot, is_part_or_remains};
use super::mutex::open_parent;
use super::short;
use super::wait::{Try, Waited, wait_in_turn};
use crate::base::{Deadline, Error, LinkText, Name, Owner, Result, Time};
use crate::sys::{Armed, Awaited, Errno, Rule, Stat, World};

const COUNTLOCK: &str = "countlock";
pub const WAITLOCK: &str = "waitlock";
const OWNER: &str = "owner";

/// All that a semaphore's directory may hold.
pub const PARTS: [&str; 4] = [COUNTER, COUNTLOCK, WAITLOCK, OWNER];

/// A living peer needs milliseconds between claiming a token and counting down.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn init<W: World>(world: &W, name: &Name, value: u64) -> Result<Created> {
    let parent = open_parent(world, name)?;
    if exists(world, &parent, name)? {
        return Ok(Created::Exists);
    }
    let hidden = Hidden::prepare(world, &parent, name)?;
    fill(world, name, &hidden.open()?, value)?;
    hidden.publish()
}

/// Puts the parts of a new semaphore into an empty directory that nobody else sees.
pub fn fill<W: World>(world: &W, name: &Name, dir: &W::Dir, value: u64) -> Result<()> {
    let value = i64::try_from(value).map_err(|_| Error::system(name.path(), Errno::EOVERFLOW))?;
    Counter::create(world, name, dir, value)?;
    make_link(world, name, dir, OWNER)?;
    if value == 0 { make_link(world, name, dir, WAITLOCK) } else { Ok(()) }
}

pub fn wait<W: World>(world: &W, name: &Name, deadline: Deadline) -> Result<Waited<()>> {
    let (mut claim, mut is_waiting) = (None, false);
    let queue_up = || world.queue_up(|| world.open_dir(name.path()), WAITLOCK.as_ref());
    wait_in_turn(
        world,
        deadline,
        queue_up,
        || {
            let semaphore = Semaphore::open(world, name)?;
            // Waiters must not keep the disk, or whoever gets a token, busy.
            if std::mem::replace(&mut is_waiting, true) && semaphore.is_closed() {
                return Ok(Try::Busy);
            }
            semaphore.with_count(deadline, |count| {
                let taken = count.take(1)? == 1 || (count.heal_old_claim(&mut claim)? && count.take(1)? == 1);
                Ok(if taken { Try::Done(()) } else { Try::Busy })
            })
        },
        |waiter| Ok(Semaphore::open(world, name)?.arm(waiter)),
    )
}

/// Adds `count` tokens; all of them or, on an error, none.
pub fn post<W: World>(world: &W, name: &Name, count: u64) -> Result<Waited<()>> {
    post_until(world, name, count, Deadline::Never)
}

/// The same, but not waiting for ever for a peer that holds the counter.
pub fn post_until<W: World>(world: &W, name: &Name, count: u64, deadline: Deadline) -> Result<Waited<()>> {
    Semaphore::open(world, name)?.with_count(deadline, |counted| counted.give(count).map(Try::Done)).map(Waited::from)
}

/// The counter as it is; a peer's race can make it negative.
pub fn peek<W: World>(world: &W, name: &Name) -> Result<Waited<i64>> {
    let semaphore = Semaphore::open(world, name)?;
    match semaphore.counter.read() {
        Ok(value) => Ok(Waited::Done(value)),
        // A peer truncates before it writes; under the lock that is over.
        Err(_) => semaphore.with_count(Deadline::Never, |count| Ok(Try::Done(count.value))).map(Waited::from),
    }
}

/// Removes the semaphore if it is the script's own, with `force` anybody's. Waiters end with an error.
pub fn destroy<W: World>(world: &W, name: &Name, force: bool) -> Result<Waited<()>> {
    let parent = open_parent(world, name)?;
    let dir = world.open_dir_at(&parent, name.last()).map_err(|errno| Error::system(name.path(), errno))?;
    check_is_semaphore(world, name, &dir)?;
    let countlock = Spot::inside(name, COUNTLOCK);
    let short = match short::lock(world, &dir, countlock, Deadline::Never)? {
        Try::Done(short) => short,
        Try::Busy => return Ok(Waited::TimedOut),
        Try::Interrupted => return Ok(Waited::Interrupted),
    };
    if !force {
        check_owner(world, name, &dir)?;
    }
    check_only_parts(world, name, &dir, &PARTS)?;
    let hidden = Hidden::withdraw(world, &parent, name)?;
    // The link goes before its directory does.
    drop(short);
    drop(hidden);
    Ok(Waited::Done(()))
}

/// Nothing is ever created in a directory that is something else.
pub fn check_is_semaphore<W: World>(world: &W, name: &Name, dir: &W::Dir) -> Result<()> {
    match world.stat_at(dir, COUNTER.as_ref()) {
        Ok(_) => Ok(()),
        Err(Errno::ENOENT) => Err(Error::damaged(name.path(), "not a semaphore")),
        Err(errno) => Err(Error::system(name.path(), errno)),
    }
}

/// The creator's script, or anybody where an old object does not say.
pub fn check_owner<W: World>(world: &W, name: &Name, dir: &W::Dir) -> Result<()> {
    let spot = Spot::inside(name, OWNER);
    let Some(owner) = link::read(world, dir, spot)? else { return Ok(()) };
    match owner.by {
        LinkText::Ours(ours) if ours.is_owned_by(&world.process(), |nonce| world.holds(nonce)) => Ok(()),
        _ => Err(Error::NotOwner { path: name.path().to_owned(), whose: format!("created by {}", owner.describe()) }),
    }
}

/// Refuses a directory that holds anything but `parts` and remains.
pub fn check_only_parts<W: World>(world: &W, name: &Name, dir: &W::Dir, parts: &[&str]) -> Result<()> {
    let present = world.list(dir).map_err(|errno| Error::system(name.path(), errno))?;
    match present.iter().find(|entry| !is_part_or_remains(entry, parts)) {
        None => Ok(()),
        Some(entry) => {
            Err(Error::damaged(name.path(), format!("holds {}, which is not ours; nothing removed", entry.display())))
        }
    }
}

fn make_link<W: World>(world: &W, name: &Name, dir: &W::Dir, part: &'static str) -> Result<()> {
    world.symlink(&signature(world), dir, part.as_ref()).map_err(|errno| Spot::inside(name, part).error(errno))
}

/// Our form without a mark: tells who, and is never stale.
fn signature<W: World>(world: &W) -> String {
    let nonce = if world.keeps(Rule::GateWithoutMark) { 0 } else { 1 };
    Owner::new(&world.process(), nonce).to_string()
}

/// An opened semaphore. It is opened for each try, so that one which is destroyed meanwhile is noticed.
pub struct Semaphore<'a, W: World> {
    world: &'a W,
    name: &'a Name,
    dir: W::Dir,
    counter: Counter<'a, W>,
}

impl<'a, W: World> Semaphore<'a, W> {
    pub fn open(world: &'a W, name: &'a Name) -> Result<Self> {
        let dir = world.open_dir(name.path()).map_err(|errno| Error::system(name.path(), errno))?;
        Semaphore::with_dir(world, name, dir)
    }

    /// `name` is for messages.
    pub fn with_dir(world: &'a W, name: &'a Name, dir: W::Dir) -> Result<Self> {
        let counter = Counter::open(world, name, &dir)?;
        Ok(Semaphore { world, name, dir, counter })
    }

    /// Does one thing under `countlock`.
    pub fn with_count<T>(
        &self,
        deadline: Deadline,
        act: impl FnOnce(&mut Count<'_, W>) -> Result<Try<T>>,
    ) -> Result<Try<T>> {
        let short = match short::lock(self.world, &self.dir, Spot::inside(self.name, COUNTLOCK), deadline)? {
            Try::Done(short) => short,
            Try::Busy => return Ok(Try::Busy),
            Try::Interrupted => return Ok(Try::Interrupted),
        };
        let mut count = Count { semaphore: self, value: self.counter.read()? };
        if short.took_over {
            count.heal_after_crash()?;
        }
        act(&mut count)
    }

    /// Certainly no token and nothing to heal, found without the lock: a waiter need not ask again.
    pub fn is_closed(&self) -> bool {
        let look = |part: &str| self.world.stat_at(&self.dir, part.as_ref());
        matches!(self.counter.read(), Ok(..=0)) && look(WAITLOCK).is_ok() && look(COUNTLOCK) == Err(Errno::ENOENT)
    }

    /// Listens for the next token.
    pub fn arm(&self, waiter: &mut W::Waiter) -> Armed {
        self.world.arm(waiter, &self.dir, WAITLOCK.as_ref(), Awaited::Removal, None)
    }
}

/// A peer's claim on a token, since when nothing has moved.
pub struct Claim {
    link: Held,
    counter: Stat,
    since: Time,
}

/// The counter while `countlock` is held.
pub struct Count<'s, W: World> {
    semaphore: &'s Semaphore<'s, W>,
    pub value: i64,
}

impl<W: World> Count<'_, W> {
    /// Takes up to `most` tokens and tells how many.
    pub fn take(&mut self, most: u64) -> Result<u64> {
        if self.value <= 0 {
            self.close_gate()?;
            return Ok(0);
        }
        let available = self.value.unsigned_abs();
        let mut taken = available.min(most);
        let takes_all = taken == available;
        if takes_all && !self.close_gate()? {
            taken -= 1;
        }
        if taken > 0 {
            let result = self.change(self.value - taken as i64);
            if takes_all && result.is_err() {
                self.open_gate()?;
            }
            result?;
        }
        Ok(taken)
    }

    /// Adds tokens and lets waiters know.
    pub fn give(&mut self, tokens: u64) -> Result<()> {
        let sum = i64::try_from(tokens).ok().and_then(|tokens| self.value.checked_add(tokens));
        let sum = sum.ok_or_else(|| self.spot(COUNTER).error(Errno::EOVERFLOW))?;
        if self.value > 0 {
            return self.change(sum);
        }
        // Should we die after writing, ours is known for a crash's remains; a plain one would be a peer's claim.
        if self.world().keeps(Rule::GateReplacedFirst)
            && !matches!(self.gate()?, Some(Held { by: LinkText::Ours(_), .. }))
        {
            link::replace(self.world(), self.dir(), self.spot(WAITLOCK), &signature(self.world()), 0)?;
        }
        self.change(sum)?;
        if sum > 0 {
            // The tokens are given. A gate that cannot be opened now is healed by whoever waits at it.
            let _ = self.open_gate();
        }
        Ok(())
    }

    /// The holder of `countlock` died: our gate beside tokens is what it left.
    fn heal_after_crash(&mut self) -> Result<()> {
        match self.gate()? {
            Some(Held { by: LinkText::Ours(_), .. }) if self.value > 0 => self.open_gate(),
            _ => Ok(()),
        }
    }

    /// Removes a peer's claim on the last token when it has not moved for too long. `seen` carries what was there at the
    /// last look.
    #[cold]
    pub fn heal_old_claim(&mut self, seen: &mut Option<Claim>) -> Result<bool> {
        let link = if self.value > 0 { self.gate()? } else { None };
        let Some(link) = link else {
            *seen = None;
            return Ok(false);
        };
        let counter = self.semaphore.counter.stat()?;
        let now = self.world().now();
        let since = match seen {
            Some(claim) if claim.link == link && claim.counter == counter => claim.since,
            _ => now,
        };
        *seen = Some(Claim { link, counter, since });
        if now.since(since) < PATIENCE {
            return Ok(false);
        }
        self.open_gate().map(|()| true)
    }

    /// Of the counter, for *changed or not*.
    pub fn stat(&self) -> Result<Stat> {
        self.semaphore.counter.stat()
    }

    /// Sees that `waitlock` is there. False if it is a peer's claim.
    fn close_gate(&self) -> Result<bool> {
        match self.world().symlink(&signature(self.world()), self.dir(), WAITLOCK.as_ref()) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(matches!(self.gate()?, Some(Held { by: LinkText::Ours(_), .. }))),
            Err(errno) => Err(self.spot(WAITLOCK).error(errno)),
        }
    }

    fn open_gate(&self) -> Result<()> {
        match self.world().unlink(self.dir(), WAITLOCK.as_ref()) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(self.spot(WAITLOCK).error(errno)),
        }
    }

    fn gate(&self) -> Result<Option<Held>> {
        link::read(self.world(), self.dir(), self.spot(WAITLOCK))
    }

    fn change(&mut self, value: i64) -> Result<()> {
        self.semaphore.counter.change(self.value, value)?;
        self.value = value;
        Ok(())
    }

    fn spot(&self, part: &'static str) -> Spot<'_> {
        Spot::inside(self.semaphore.name, part)
    }

    fn world(&self) -> &W {
        self.semaphore.world
    }

    fn dir(&self) -> &W::Dir {
        &self.semaphore.dir
    }
}
