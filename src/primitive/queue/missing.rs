//! Items without a token: counting them and posting what is missing.
//!
//! A producer that dies between its append and its post leaves such items. If it was ours, its `mutex` is stale and
//! whoever takes it over posts at once. A dead peer, and an error while repairing, leave no such sign: then a waiter posts, after it
//! has seen for 3 s that neither data nor counter change. A peer takes a token some milliseconds before the item, so
//! posting at once would hand that item out twice, the second time as nothing.
//!
//! A line that is no item and came without a token uses up an item's when it is rejected. Among ours the lines that are
//! left tell; next to a peer in flight it may have had a token, and one too many is posted for it, not more.

use std::time::Duration;

use super::data::{Data, PAGE};
use crate::base::{Result, Time};
use crate::primitive::semaphore::{Claim, Count};
use crate::sys::{Rule, Stat, World};

/// A living peer needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Makes the tokens as many as the items, if they are fewer.
pub fn post_missing<W: World>(data: &mut Data<'_, W>, count: &mut Count<'_, W>) -> Result<()> {
    let items = i64::try_from(data.count_items()?).unwrap_or(i64::MAX);
    match u64::try_from(items.saturating_sub(count.value)) {
        Ok(missing) if missing > 0 => count.give(missing),
        _ => Ok(()),
    }
}

/// Gives tokens back for lines that were rejected, as far as items are without. The lines are counted once in a call:
/// `left` knows how many were left the last time.
#[cold]
pub fn repay<W: World>(
    data: &mut Data<'_, W>,
    count: &mut Count<'_, W>,
    left: &mut Option<u64>,
    consumed: u64,
    rejected: u64,
) -> Result<()> {
    let lines = match *left {
        Some(lines) => lines.saturating_sub(consumed),
        None => data.count_items()?,
    };
    *left = Some(lines);
    match lines.saturating_sub(count.value.max(0).unsigned_abs()).min(rejected) {
        0 => Ok(()),
        missing => count.give(missing),
    }
}

/// What a waiter saw when it last found items but no token.
#[derive(Default)]
pub struct Patience {
    claim: Option<Claim>,
    seen: Option<Seen>,
}

struct Seen {
    data: Stat,
    counter: Stat,
    since: Time,
}

impl Patience {
    /// There is no token. Is it time to help, and did that make one?
    #[cold]
    pub fn helps<W: World>(&mut self, data: &mut Data<'_, W>, count: &mut Count<'_, W>) -> Result<bool> {
        if count.heal_old_claim(&mut self.claim)? {
            return Ok(true);
        }
        if data.is_empty() {
            self.seen = None;
            return Ok(false);
        }
        let (now, counter) = (data.world.now(), count.stat()?);
        let since = match &self.seen {
            Some(seen) if seen.data == data.stat && seen.counter == counter => seen.since,
            _ => now,
        };
        self.seen = Some(Seen { data: data.stat, counter, since });
        if now.since(since) < PATIENCE && data.world.keeps(Rule::Patience) {
            return Ok(false);
        }
        self.seen = None;
        let before = count.value;
        post_missing(data, count)?;
        Ok(count.value > before)
    }
}

impl<W: World> Data<'_, W> {
    /// Reads all that is live.
    fn count_items(&mut self) -> Result<u64> {
        let head = self.finish_remains()?;
        let (mut items, mut line) = (0, Line::Blank);
        for index in head / PAGE as u64..self.length.div_ceil(PAGE as u64) {
            for &byte in self.block(index)? {
                line = match (byte, line) {
                    (b'\n', ended) => {
                        items += u64::from(ended == Line::Item);
                        Line::Blank
                    }
                    (0, Line::Blank) => Line::Blank,
                    (b'#', Line::Blank) => Line::Remains,
                    (_, Line::Blank) => Line::Item,
                    (_, inside) => inside,
                }
            }
        }
        Ok(items)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Blank,
    Remains,
    Item,
}
