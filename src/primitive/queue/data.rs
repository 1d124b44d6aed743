//! The file `data`: opening it, mending its tail, finding its head, appending.
//!
//! On disk, at any moment: consumed bytes, which are NUL; at most one line half consumed, which begins with `#` or has
//! only its newline left; live lines. base64 has none of these bytes, so the head is where the NULs end.
//!
//! | last byte | meaning | what the next operation does |
//! |---|---|---|
//! | none | empty | |
//! | newline | whole lines | |
//! | NUL, nothing but NULs before it | all consumed, died before the truncation | truncates to 0 |
//! | NUL behind a line | the machine crashed, the tail was zeroed | cuts behind the last newline and tells |
//! | other | a put died in its write, or damage | the same |
//!
//! All of it happens under `mutex`, and the file is opened for one operation only: a peer's `sed -i` replaces it. A kill
//! cuts a write at a page boundary and leaves a prefix of it; inside a page it is all or nothing.

use crate::base::{Error, Name, Result};
use crate::sys::{Access, Errno, Kind, Rule, Stat, World};

pub const DATA: &str = "data";

/// The smallest page of any Linux; a larger one only makes a write cut less often.
pub const PAGE: usize = 4096;

/// Blocks that are read in milliseconds.
const BREATH: u64 = 4096;

pub struct Data<'a, W: World> {
    pub(super) world: &'a W,
    pub(super) dir: &'a W::Dir,
    pub(super) queue: &'a Name,
    pub(super) file: W::File,
    /// As it was opened.
    pub stat: Stat,
    pub(super) length: u64,
    block: Block,
}

/// The block read last. Most queues fit into one.
struct Block {
    index: Option<u64>,
    length: usize,
    bytes: [u8; PAGE],
}

impl<'a, W: World> Data<'a, W> {
    /// Opens the data of `queue`, whose directory is `dir`, and cuts what stands behind the last whole line.
    pub fn open(world: &'a W, queue: &'a Name, dir: &'a W::Dir, notes: &mut Vec<Error>) -> Result<Self> {
        let error = |errno| Error::system(queue.inside(DATA), errno);
        let file = match world.open_file(dir, DATA.as_ref(), Access::Update) {
            // A peer's queue has none before its first item.
            Err(Errno::ENOENT) => world.open_file(dir, DATA.as_ref(), Access::Create),
            opened => opened,
        }
        .map_err(error)?;
        let stat = world.stat(&file).map_err(error)?;
        if stat.kind != Kind::File {
            return Err(Error::damaged(queue.inside(DATA), "not a file"));
        }
        let block = Block { index: None, length: 0, bytes: [0; PAGE] };
        let mut data = Data { world, dir, queue, file, stat, length: stat.length, block };
        data.mend_tail(notes)?;
        Ok(data)
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends whole lines, all of them or none.
    pub fn append(&mut self, lines: &[u8]) -> Result<()> {
        let before = self.length;
        let (written, failure) = self.write(before, lines);
        self.length += written as u64;
        match failure {
            None => Ok(()),
            Some(errno) => {
                self.undo_append(before);
                Err(self.error(errno))
            }
        }
    }

    /// Takes off again what was appended since the length was `before`.
    pub fn undo_append(&mut self, before: u64) {
        if self.world.keeps(Rule::AppendUndone) {
            // What cannot be cut off now is half a line, cut by the next operation, or whole ones, posted by a waiter.
            let _ = self.truncate(before);
        }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    fn mend_tail(&mut self, notes: &mut Vec<Error>) -> Result<()> {
        if self.is_empty() || !self.world.keeps(Rule::TailFirst) {
            return Ok(());
        }
        match self.block((self.length - 1) / PAGE as u64)?.last() {
            Some(b'\n') => Ok(()),
            _ => self.cut_tail(notes),
        }
    }

    #[cold]
    fn cut_tail(&mut self, notes: &mut Vec<Error>) -> Result<()> {
        let (end, is_damage) = self.end_of_last_line()?;
        let cut = self.length - end;
        self.truncate(end)?;
        if is_damage {
            let what = format!("damaged: {cut} bytes behind the last whole item, cut off");
            notes.push(Error::damaged(self.queue.inside(DATA), what));
        }
        Ok(())
    }

    /// The offset behind the last newline, 0 if there is none; and whether anything in the file is not consumed. A tail that
    /// a crash has zeroed may be of any length, so signals can end this.
    fn end_of_last_line(&mut self) -> Result<(u64, bool)> {
        let mut has_live = false;
        for index in (0..self.blocks()).rev() {
            let block = self.block(index)?;
            if let Some(newline) = block.iter().rposition(|&byte| byte == b'\n') {
                return Ok((offset(index, newline) + 1, true));
            }
            has_live |= position(block, |byte| byte != 0).is_some();
            if index % BREATH == BREATH - 1 && self.world.is_interrupted() {
                return Err(self.error(Errno::EINTR));
            }
        }
        Ok((0, has_live))
    }

    /// The first byte that is not consumed; the length if there is none. Its cost grows with the logarithm of what was
    /// consumed, not with what is queued.
    ///
    /// NULs in the middle, which only damage can put there, may lead the search too far. Less than a block of them cannot;
    /// whole pages, which a crash of the machine zeroes, end at one, and then everything before is looked at. For the
    /// rest, whoever destroys what lies before the head asks [`Data::first_live_before`], so nothing is lost.
    pub(super) fn find_head(&mut self) -> Result<u64> {
        let head = self.search_head()?;
        if head > 0 && head % PAGE as u64 == 0 {
            return Ok(self.first_live_before(head)?.unwrap_or(head));
        }
        Ok(head)
    }

    fn search_head(&mut self) -> Result<u64> {
        if self.is_empty() {
            return Ok(0);
        }
        let last = self.blocks() - 1;
        // All blocks before `low` seem consumed. First in growing steps up to one that is not, then between the two.
        let (mut low, mut high, mut step) = (0, 0, 1);
        while self.first_live_in(high)?.is_none() {
            if high == last {
                return Ok(self.length);
            }
            low = high + 1;
            high = last.min(high + step);
            step *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_live_in(middle)? {
                Some(_) => high = middle,
                None => low = middle + 1,
            }
        }
        Ok(self.first_live_in(high)?.unwrap_or(self.length))
    }

    /// Is everything before `end` really consumed? Reads it all, so it is asked once for many bytes consumed.
    pub(super) fn first_live_before(&mut self, end: u64) -> Result<Option<u64>> {
        for index in 0..end.div_ceil(PAGE as u64) {
            if let Some(live) = self.first_live_in(index)? {
                return Ok(Some(live).filter(|&live| live < end));
            }
        }
        Ok(None)
    }

    fn first_live_in(&mut self, index: u64) -> Result<Option<u64>> {
        Ok(position(self.block(index)?, |byte| byte != 0).map(|place| offset(index, place)))
    }

    fn blocks(&self) -> u64 {
        self.length.div_ceil(PAGE as u64)
    }

    /// The block of this number, shorter only at the end of the file.
    pub(super) fn block(&mut self, index: u64) -> Result<&[u8]> {
        if self.block.index != Some(index) {
            self.block.index = None;
            let start = index * PAGE as u64;
            let most = self.length.saturating_sub(start).min(PAGE as u64) as usize;
            let filled = fill(self.world, &self.file, start, &mut self.block.bytes[..most]);
            self.block.length = filled.map_err(|errno| self.error(errno))?;
            self.block.index = Some(index);
        }
        Ok(&self.block.bytes[..self.block.length])
    }

    /// What the block of this offset holds from there on.
    pub(super) fn rest_of_block(&mut self, start: u64) -> Result<&[u8]> {
        let block = self.block(start / PAGE as u64)?;
        Ok(block.get((start % PAGE as u64) as usize..).unwrap_or_default())
    }

    /// Reads on at `start` until the buffer is full or the file ends.
    pub(super) fn read(&self, start: u64, buffer: &mut [u8]) -> Result<usize> {
        fill(self.world, &self.file, start, buffer).map_err(|errno| self.error(errno))
    }

    /// Writes all of it, or tells how much and why not more.
    pub(super) fn write(&mut self, start: u64, bytes: &[u8]) -> (usize, Option<Errno>) {
        self.block.index = None;
        write_all(self.world, &self.file, start, bytes)
    }

    pub(super) fn truncate(&mut self, length: u64) -> Result<()> {
        self.block.index = None;
        self.world.truncate(&self.file, length).map_err(|errno| self.error(errno))?;
        self.length = length;
        Ok(())
    }

    pub(super) fn error(&self, errno: Errno) -> Error {
        Error::system(self.queue.inside(DATA), errno)
    }
}

fn offset(block: u64, place: usize) -> u64 {
    block * PAGE as u64 + place as u64
}

/// `Iterator::position` that looks at many bytes at once.
pub fn position(bytes: &[u8], is_sought: impl Fn(u8) -> bool) -> Option<usize> {
    const STRIDE: usize = 64;
    let has_one = |stride: &[u8]| stride.iter().fold(false, |found, &byte| found | is_sought(byte));
    let stride = bytes.chunks(STRIDE).position(has_one)? * STRIDE;
    bytes[stride..].iter().position(|&byte| is_sought(byte)).map(|place| stride + place)
}

pub fn fill<W: World>(world: &W, file: &W::File, start: u64, buffer: &mut [u8]) -> std::result::Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match world.read_at(file, start + filled as u64, &mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// One write, as a rule: the kernel takes 2 GiB at once.
pub fn write_all<W: World>(world: &W, file: &W::File, start: u64, bytes: &[u8]) -> (usize, Option<Errno>) {
    let mut written = 0;
    while written < bytes.len() {
        match world.write_at(file, start + written as u64, &bytes[written..]) {
            Ok(0) => return (written, Some(Errno::ENOSPC)),
            Ok(more) => written += more,
            Err(errno) => return (written, Some(errno)),
        }
    }
    (written, None)
}
