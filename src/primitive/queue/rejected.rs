//! Lines that are not base64: they go to the file `rejected` for a person to look at, and the queue goes on.
//!
//! They are appended there before they are consumed, so a crash between writes one twice rather than losing it.

use super::data::{DATA, Data, write_all};
use super::item::decode;
use super::region::Region;
use crate::base::{Error, Result};
use crate::sys::{Access, Errno, Kind, Sys, World};

pub const REJECTED: &str = "rejected";

impl<W: World> Data<'_, W> {
    /// Copies the lines of the region that are no items.
    #[cold]
    pub fn reject(&self, region: &Region, notes: &mut Vec<Error>) -> Result<()> {
        for (_, line) in region.items() {
            if decode(line).map_err(|errno| self.error(errno))?.is_some() {
                continue;
            }
            self.append_rejected(line).map_err(|errno| Error::system(self.queue.inside(REJECTED), errno))?;
            let what = "a line that is not base64, moved to the file rejected";
            notes.push(Error::damaged(self.queue.inside(DATA), what));
        }
        Ok(())
    }

    fn append_rejected(&self, line: &[u8]) -> Sys<()> {
        let file = self.world.open_file(self.dir, REJECTED.as_ref(), Access::Create)?;
        let stat = self.world.stat(&file)?;
        if stat.kind != Kind::File {
            return Err(Errno::EEXIST);
        }
        for (start, bytes) in [(stat.length, line), (stat.length + line.len() as u64, b"\n")] {
            if let (_, Some(errno)) = write_all(self.world, &file, start, bytes) {
                let _ = self.world.truncate(&file, stat.length);
                return Err(errno);
            }
        }
        Ok(())
    }
}
