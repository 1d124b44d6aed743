//! Those who may come before us. Whoever has once left it does not come back.

use std::ffi::OsString;

use super::ticket::Ticket;
use super::{Participant, participants, record};
use crate::base::{Error, Result};
use crate::primitive::bakery::record::Seen;
use crate::primitive::wait::Try;
use crate::sys::{Armed, Awaited, World};

pub struct Line<'t, 'a, W: World> {
    ticket: &'t Ticket<'a, W>,
    /// Not looked at yet, or in the doorway.
    unknown: Vec<Participant>,
    /// In order of their numbers.
    before: Vec<(u64, Participant)>,
    /// The one to sleep on, and for what.
    awaited: Option<(OsString, Awaited, Option<u32>)>,
}

/// Where one participant stands.
enum Place {
    Doorway,
    Before(u64),
    /// Behind us, gone or dead: no longer of interest.
    Elsewhere,
}

impl<'t, 'a, W: World> Line<'t, 'a, W> {
    pub fn all_others(ticket: &'t Ticket<'a, W>) -> Result<Self> {
        let mut unknown = participants(ticket.world, ticket.name, ticket.dir)?;
        unknown.retain(|other| other.file != ticket.file_name);
        Ok(Line { ticket, unknown, before: Vec::new(), awaited: None })
    }

    /// Done when everybody's place is known.
    pub fn look_around(&mut self) -> Result<Try<()>> {
        while let Some(other) = self.unknown.pop() {
            match self.place_of(&other)? {
                Place::Elsewhere => {}
                Place::Before(number) => self.before.push((number, other)),
                Place::Doorway => {
                    self.awaits(&other, Awaited::Change);
                    self.unknown.push(other);
                    return Ok(Try::Busy);
                }
            }
        }
        self.before.sort_by(|(one, left), (other, right)| (one, &left.file).cmp(&(other, &right.file)));
        Ok(Try::Done(()))
    }

    /// Done when nobody is before us.
    pub fn advance(&mut self) -> Result<Try<()>> {
        while let Some((_, last)) = self.before.pop() {
            let awaited = match self.place_of(&last)? {
                Place::Elsewhere => continue,
                Place::Before(_) => Awaited::Removal,
                Place::Doorway => Awaited::Change,
            };
            self.awaits(&last, awaited);
            self.before.push((0, last));
            return Ok(Try::Busy);
        }
        Ok(Try::Done(()))
    }

    fn place_of(&self, other: &Participant) -> Result<Place> {
        let Ticket { world, dir, name, .. } = *self.ticket;
        let place = match record::look(world, dir, &other.file).map_err(|errno| Error::system(name.path(), errno))? {
            Seen::Gone => return Ok(Place::Elsewhere),
            Seen::Entering => Place::Doorway,
            Seen::Number(0) => Place::Elsewhere,
            Seen::Number(number) if self.ticket.comes_after(number, &other.file) => Place::Before(number),
            Seen::Number(_) => return Ok(Place::Elsewhere),
        };
        Ok(if other.is_removed_if_gone(world, dir) { Place::Elsewhere } else { place })
    }

    fn awaits(&mut self, other: &Participant, what: Awaited) {
        let holder = other.owner.holder_here(&self.ticket.world.process());
        self.awaited = Some((other.file.clone(), what, holder));
    }

    /// Listens to the awaited one. One that has left its doorway before that is not heard any more, and the next try
    /// would go on to another one, which nobody listens to.
    pub fn arm(&self, waiter: &mut W::Waiter) -> Result<Armed> {
        let Some((file, what, holder)) = &self.awaited else { return Ok(Armed::Gone) };
        let Ticket { world, dir, name, .. } = *self.ticket;
        let armed = world.arm(waiter, dir, file, *what, *holder);
        if armed == Armed::Ready && *what == Awaited::Change {
            let seen = record::look(world, dir, file).map_err(|errno| Error::system(name.path(), errno))?;
            return Ok(if seen == Seen::Entering { Armed::Ready } else { Armed::Gone });
        }
        Ok(armed)
    }
}
