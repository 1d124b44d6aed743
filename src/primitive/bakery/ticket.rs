//! A participant's own place: drawn in the doorway, given up when dropped, kept by entering.

use std::ffi::{OsStr, OsString};

use super::{participants, record};
use crate::base::{Error, Name, Owner, Result};
use crate::primitive::link::{Spot, set_mark};
use crate::sys::{Access, Errno, World};

pub struct Ticket<'a, W: World> {
    pub world: &'a W,
    pub name: &'a Name,
    pub dir: &'a W::Dir,
    pub file_name: OsString,
    nonce: u32,
    file: W::File,
    number: u64,
    is_entered: bool,
}

impl<'a, W: World> Ticket<'a, W> {
    /// The doorway.
    pub fn draw(world: &'a W, name: &'a Name, dir: &'a W::Dir) -> Result<Self> {
        let error = |errno| Error::system(name.path(), errno);
        // Nobody is held up by a doorway for longer than it takes.
        let _critical = world.critical();
        let nonce = set_mark(world, dir, Spot::of(name))?;
        let mut file_name = Owner::new(&world.process(), nonce).to_string();
        if nonce == 0 {
            // Without a mark this tells calls apart.
            file_name = format!("{file_name}-{}", world.random());
        }
        let file_name = OsString::from(file_name);
        let file = world.open_file(dir, &file_name, Access::Create).map_err(error)?;
        let mut ticket = Ticket { world, name, dir, file_name, nonce, file, number: 0, is_entered: false };
        record::write_entering(world, &ticket.file, true).map_err(error)?;
        ticket.number = ticket.largest_of_others()?.checked_add(1).ok_or_else(|| error(Errno::EOVERFLOW))?;
        record::write_number(world, &ticket.file, ticket.number).map_err(error)?;
        record::write_entering(world, &ticket.file, false).map_err(error)?;
        Ok(ticket)
    }

    fn largest_of_others(&self) -> Result<u64> {
        let mut largest = 0;
        for other in participants(self.world, self.name, self.dir)? {
            if other.file == self.file_name {
                continue;
            }
            let number = record::read_number(self.world, self.dir, &other.file)
                .map_err(|errno| Error::system(self.name.path(), errno))?;
            // Whether the others are dead is found out when they stand in the line.
            if number > largest && !other.is_removed_if_gone(self.world, self.dir) {
                largest = number;
            }
        }
        Ok(largest)
    }

    pub fn comes_after(&self, number: u64, file: &OsStr) -> bool {
        (number, file) < (self.number, self.file_name.as_os_str())
    }

    /// The name and the NONCE of the ticket that is now inside.
    pub fn enter(mut self) -> Result<(OsString, u32)> {
        match self.world.stat_at(self.dir, &self.file_name) {
            Ok(_) => {}
            // With it went our place: others have not seen us.
            Err(Errno::ENOENT) => return Err(Error::damaged(self.name.path(), "our ticket was removed")),
            Err(errno) => return Err(self.error(errno)),
        }
        // From here on the script may end the turn.
        record::write_served(self.world, &self.file).map_err(|errno| self.error(errno))?;
        self.is_entered = true;
        Ok((std::mem::take(&mut self.file_name), self.nonce))
    }

    fn error(&self, errno: Errno) -> Error {
        Error::system(self.name.path(), errno)
    }
}

impl<W: World> Drop for Ticket<'_, W> {
    fn drop(&mut self) {
        if !self.is_entered {
            // A file that cannot be removed counts no longer once its mark is gone.
            let _ = self.world.unlink(self.dir, &self.file_name);
        }
    }
}
