//! Taking lines off the head: reading them as one region, and consuming that in place.
//!
//! - *read*: finish what a dead consumer left, then read whole lines up to a number of items.
//! - *consume*: the region's bytes become NUL. If it ends the file: truncate to 0, one step. If it lies inside a page:
//!   one write of NULs, one step. Else two passes from front to back: `#` over all but the last newline, then NUL over
//!   everything. A kill in the first leaves `#…` and the rest of a line; in the second NULs and `#…`, or the newline alone.
//! - *finish*: the same over such a line, all `#` first: with NUL at once a kill would leave the rest of a line, and that
//!   may well decode to something.
//!
//! Invariant: a line is consumed from the first byte written over it; before, it is live. A line that is empty or begins
//! with `#` is no item; no producer writes one.

use super::data::{DATA, Data, PAGE, position};
use super::item::with_room;
use crate::base::{Error, Result, make_room};
use crate::sys::{Errno, Rule, World};

/// What the passes write from: small enough to lie around, large enough to make the number of writes no matter.
const PAINT: usize = 4 * PAGE;
static NULS: [u8; PAINT] = [0; PAINT];
static HASHES: [u8; PAINT] = [b'#'; PAINT];

/// Whole lines at the head of the data, read and still live.
pub struct Region {
    start: u64,
    bytes: Vec<u8>,
}

impl Region {
    /// The lines that are items, each with where it begins in the region.
    pub fn items(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut next = 0;
        self.bytes.split_inclusive(|&byte| byte == b'\n').filter_map(move |line| {
            let start = next;
            next += line.len();
            as_item(&line[..line.len() - 1]).map(|item| (start, item))
        })
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Zeroed bytes before a line are as good as consumed ones: the search for the head cannot tell them apart.
fn as_item(line: &[u8]) -> Option<&[u8]> {
    let line = &line[position(line, |byte| byte != 0).unwrap_or(line.len())..];
    (!line.is_empty() && line[0] != b'#').then_some(line)
}

/// How much of a region is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumed {
    All,
    /// The `#` pass failed here.
    UpTo(usize),
}

impl Consumed {
    /// Is the line that begins at `start` consumed? One right behind the `#` has become a part of their line.
    pub fn includes(self, start: usize) -> bool {
        match self {
            Consumed::All => true,
            Consumed::UpTo(end) => start <= end,
        }
    }
}

impl<W: World> Data<'_, W> {
    /// The lines at the head with `most` items in them; fewer only if there are no more.
    pub fn read_head(&mut self, most: u64) -> Result<Region> {
        let mut region = Region { start: self.finish_remains()?, bytes: Vec::new() };
        let (mut items, mut end) = (0, 0);
        while items < most && self.read_on(&mut region)? {
            while let Some(length) = position(&region.bytes[end..], |byte| byte == b'\n') {
                items += u64::from(as_item(&region.bytes[end..end + length]).is_some());
                end += length + 1;
                if items == most {
                    break;
                }
            }
        }
        region.bytes.truncate(end);
        Ok(region)
    }

    /// Reads as much again as there is, so that a long line is not looked at often. False at the end of the file.
    fn read_on(&mut self, region: &mut Region) -> Result<bool> {
        let have = region.bytes.len();
        let next = region.end();
        if next >= self.length {
            return Ok(false);
        }
        if have == 0 {
            region.bytes = with_room(PAGE).map_err(|errno| self.error(errno))?;
            // The search for the head has just read this block.
            region.bytes.extend_from_slice(self.rest_of_block(next)?);
        } else {
            let more = (self.length - next).min(have.max(PAGE) as u64) as usize;
            make_room(&mut region.bytes, more).map_err(|_| self.error(Errno::ENOMEM))?;
            region.bytes.resize(have + more, 0);
            let read = self.read(next, &mut region.bytes[have..])?;
            region.bytes.truncate(have + read);
        }
        Ok(region.bytes.len() > have)
    }

    /// The offset of the first live line. What a dead consumer left before it is consumed first.
    pub(super) fn finish_remains(&mut self) -> Result<u64> {
        loop {
            let head = self.find_head()?;
            if head == self.length || !matches!(self.rest_of_block(head)?.first(), Some(b'#' | b'\n')) {
                return Ok(head);
            }
            let end = self.end_of_line(head)?;
            if let (_, Some(errno)) = self.erase(head, end, Rule::RemainsLikeLines)? {
                return Err(self.error(errno));
            }
        }
    }

    /// The offset behind the newline of the line at `start`.
    fn end_of_line(&mut self, start: u64) -> Result<u64> {
        let mut next = start;
        while next < self.length {
            let block = self.rest_of_block(next)?;
            match position(block, |byte| byte == b'\n') {
                Some(newline) => return Ok(next + newline as u64 + 1),
                None if block.is_empty() => break,
                None => next += block.len() as u64,
            }
        }
        // The tail was mended: somebody shortens the file without the mutex.
        Err(Error::damaged(self.queue.inside(DATA), "damaged: changes while it is locked"))
    }

    /// Consumes a region. On an error all of it is still live.
    pub fn consume(&mut self, region: &Region) -> Result<Consumed> {
        match self.erase(region.start, region.end(), Rule::HashesBeforeNuls)? {
            (0, Some(errno)) => Err(self.error(errno)),
            (written, Some(_)) if written < region.bytes.len() => Ok(Consumed::UpTo(written)),
            // A failure in the second pass: nothing is live any more, and whoever comes next finishes it.
            (_, Some(_)) => Ok(Consumed::All),
            (_, None) => {
                self.compact(region.start, region.end());
                Ok(Consumed::All)
            }
        }
    }

    /// Makes whole lines at the head disappear. Tells how many of their bytes are consumed, and what went wrong.
    fn erase(&mut self, start: u64, end: u64, hashes: Rule) -> Result<(usize, Option<Errno>)> {
        let length = (end - start) as usize;
        if end == self.length && self.first_live_before(start)?.is_none() && self.truncate(0).is_ok() {
            return Ok((length, None));
        }
        if start / PAGE as u64 == (end - 1) / PAGE as u64 {
            return self.erase_inside_page(start, length);
        }
        if self.world.keeps(hashes)
            && let (written, Some(errno)) = self.paint(start, length - 1, &HASHES)
        {
            return Ok((written, Some(errno)));
        }
        Ok((length, self.paint(start, length, &NULS).1))
    }

    fn erase_inside_page(&mut self, start: u64, length: usize) -> Result<(usize, Option<Errno>)> {
        let mut before = [0; PAGE];
        let before = &mut before[..length];
        before.copy_from_slice(&self.rest_of_block(start)?[..length]);
        let (written, failure) = self.paint(start, length, &NULS);
        if failure.is_some() {
            // No kernel writes a part of a page; should one do, the rest of a line must not be taken for a line.
            let _ = self.write(start, &before[..written]);
        }
        Ok((if failure.is_some() { 0 } else { length }, failure))
    }

    fn paint(&mut self, start: u64, length: usize, paint: &[u8; PAINT]) -> (usize, Option<Errno>) {
        #[cfg(test)]
        if !self.world.keeps(Rule::FrontToBack) {
            return self.paint_backwards(start, length, paint);
        }
        let mut written = 0;
        while written < length {
            let some = (length - written).min(PAINT);
            let (more, failure) = self.write(start + written as u64, &paint[..some]);
            written += more;
            if failure.is_some() {
                return (written, failure);
            }
        }
        (written, None)
    }
}
