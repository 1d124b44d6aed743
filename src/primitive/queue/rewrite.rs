//! Writing `data` anew as `data.new` and renaming it, for what cannot be done in place: giving back the space of what is
//! consumed, and putting items before the head.
//!
//! The rename is the only step that others see. After a crash before it: a `data.new`, which the next
//! taker of `mutex` removes.

use super::data::{DATA, Data, PAGE, write_all};
use super::item::with_room;
use crate::base::Result;
use crate::sys::{Access, Errno, Sys, World};

pub const DATA_NEW: &str = "data.new";

/// Less than this is not worth a copy.
const COMPACT: u64 = 1 << 20;
const CHUNK: usize = 16 * PAGE;

impl<W: World> Data<'_, W> {
    /// Gives back the space of what is consumed when that is large and most of the file, so that every byte is copied
    /// about once. The consumed bytes ended at `before` and now end at `head`. If it fails it is tried again after as
    /// many bytes.
    pub(super) fn compact(&mut self, before: u64, head: u64) {
        let live = self.length.saturating_sub(head);
        let is_due = live > 0 && head > live && head / COMPACT > before / COMPACT;
        if is_due && matches!(self.first_live_before(head), Ok(None)) {
            let _ = self.rewrite(&[], head);
        }
    }

    /// Puts lines before the first live one.
    pub fn put_before_head(&mut self, lines: &[u8]) -> Result<()> {
        let head = self.finish_remains()?;
        #[cfg(test)]
        if !self.world.keeps(crate::sys::Rule::PutBackByRename) {
            return self.put_in_place(lines, head);
        }
        self.rewrite(lines, head).map_err(|errno| self.error(errno))
    }

    /// Removes what a rewriter that died has left.
    pub fn remove_new(&self) {
        let _ = self.world.unlink(self.dir, DATA_NEW.as_ref());
    }

    /// Makes the data `front` and what stands from `start` on. This handle is of the old file then.
    fn rewrite(&self, front: &[u8], start: u64) -> Sys<()> {
        let new = self.create_new()?;
        self.fill_new(&new, front, start)
            .and_then(|()| self.world.rename(self.dir, DATA_NEW.as_ref(), self.dir, DATA.as_ref()))
            .inspect_err(|_| self.remove_new())
    }

    fn create_new(&self) -> Sys<W::File> {
        let create = || self.world.open_file(self.dir, DATA_NEW.as_ref(), Access::CreateNew);
        match create() {
            Err(Errno::EEXIST) => self.world.unlink(self.dir, DATA_NEW.as_ref()).and_then(|()| create()),
            created => created,
        }
    }

    fn fill_new(&self, new: &W::File, front: &[u8], start: u64) -> Sys<()> {
        self.world.copy_mode(&self.file, new)?;
        let put = |at, bytes: &[u8]| write_all(self.world, new, at, bytes).1.map_or(Ok(()), Err);
        put(0, front)?;
        let mut chunk = with_room(CHUNK)?;
        chunk.resize(CHUNK, 0);
        let mut next = start;
        while next < self.length {
            let most = (self.length - next).min(CHUNK as u64) as usize;
            match self.world.read_at(&self.file, next, &mut chunk[..most])? {
                0 => return Err(Errno::EIO),
                read => {
                    put(front.len() as u64 + next - start, &chunk[..read])?;
                    next += read as u64;
                }
            }
        }
        Ok(())
    }
}
