//! Delivery of results: to a variable, an array or standard output; and back to the queue if that fails, so that
//! nothing is lost.
//!
//! A target is checked before the call does anything and again right before delivery: a trap during a wait may have
//! changed it. A failed call leaves it unset. Writing to a pipe may be interrupted by a signal; the rest waits in the
//! [`Call`](super::Call), and if the shell does not come back the item goes to the head of the queue, from where it is
//! delivered whole once more.

use std::borrow::Cow;

use super::place::Place;
use super::words::{printable, usage};
use super::{Call, Carried, Context, Moved, Outcome, Shell, Target};
use crate::base::{Error, Name, Result};
use crate::primitive::queue;
use crate::primitive::wait::Waited;
use crate::sys::{Errno, World};

/// A pipe takes so much in one piece.
const PIPE_BUF: usize = 4096;

/// Items on their way out.
pub struct Delivery {
    items: Vec<Vec<u8>>,
    /// What a line ends with.
    end: u8,
    /// How much of the line is written: the first item and its end.
    written: usize,
    /// The queue they were taken from; `None` if nothing was taken.
    taken_from: Option<Name>,
}

impl Delivery {
    pub fn of(items: Vec<Vec<u8>>, taken_from: Option<Name>) -> Delivery {
        Delivery { items, end: b'\n', written: 0, taken_from }
    }

    /// From where the call began.
    pub fn at<W: World>(mut self, world: &W, place: &Place) -> Delivery {
        self.taken_from = self.taken_from.map(|queue| place.find(world, queue));
        self
    }

    /// Undoes the taking. Gives the items back with the error if they could not be put back.
    pub fn put_back<W: World>(
        self,
        world: &W,
        notes: &mut queue::Notes,
    ) -> std::result::Result<(), (Vec<Vec<u8>>, Error)> {
        let Some(queue) = self.taken_from else { return Ok(()) };
        queue::put_back(world, &queue, &self.items, notes).map_err(|error| (self.items, error))
    }
}

/// What is left of the line. In one piece if it is small, so that lines of several writers do not mix in a pipe; without
/// copying if it is large.
fn rest_of_line(item: &[u8], end: u8, written: usize) -> Cow<'_, [u8]> {
    match item.get(written..) {
        Some(rest) if rest.len() < PIPE_BUF => Cow::Owned([rest, &[end]].concat()),
        Some(rest) => Cow::Borrowed(rest),
        None => Cow::Borrowed(&[]),
    }
}

/// Writes the first item and its end to standard output.
fn write_line<S: Shell>(shell: &mut S, delivery: &mut Delivery) -> Result<Moved> {
    let failed = |errno| Error::system("standard output", errno);
    let Some(item) = delivery.items.first() else { return Ok(Moved::Bytes(0)) };
    loop {
        let rest = rest_of_line(item, delivery.end, delivery.written);
        if rest.is_empty() {
            return Ok(Moved::Bytes(delivery.written));
        }
        match shell.write(&rest).map_err(failed)? {
            Moved::Bytes(0) => return Err(failed(Errno::EIO)),
            Moved::Bytes(count) => delivery.written += count,
            Moved::Interrupted => return Ok(Moved::Interrupted),
        }
    }
}

/// A text of lines, or of records with another end, to standard output, all of it.
pub fn print<S: Shell>(shell: &mut S, call: &mut Call, mut text: Vec<u8>) -> Result<Outcome> {
    let mut delivery = match std::mem::take(&mut call.carried) {
        Carried::Delivering(delivery) => delivery,
        // The last one's end is written as that of an item is.
        _ => match text.pop() {
            Some(end) => Delivery { end, ..Delivery::of(vec![text], None) },
            None => return Ok(Outcome::Done),
        },
    };
    match write_line(shell, &mut delivery)? {
        Moved::Bytes(_) => Ok(Outcome::Done),
        Moved::Interrupted => {
            call.carried = Carried::Delivering(delivery);
            Ok(Outcome::Interrupted)
        }
    }
}

impl<'a, W: World, S: Shell> Context<'a, W, S> {
    /// The value of `-v`, if given and fit to be assigned.
    pub(super) fn scalar_target(&self) -> Result<Option<Target<'a>>> {
        self.checked(self.words.value(b'v').map(Target::Scalar))
    }

    pub(super) fn any_target(&self) -> Result<Option<Target<'a>>> {
        match (self.words.value(b'v'), self.words.value(b'a')) {
            (Some(_), Some(_)) => Err(usage(self.builtin, "-v and -a exclude each other")),
            (scalar, array) => self.checked(scalar.map(Target::Scalar).or(array.map(Target::Array))),
        }
    }

    fn checked(&self, target: Option<Target<'a>>) -> Result<Option<Target<'a>>> {
        match target.and_then(|target| Some((target, self.shell.refuses(target)?))) {
            None => Ok(target),
            Some((target, why)) => Err(Error::Usage(format!("{}: {why}", printable(target.name())))),
        }
    }

    /// Leaves `target` unset if the call has failed.
    pub(super) fn unset_unless_done(&mut self, target: Option<Target<'_>>, end: Result<Outcome>) -> Result<Outcome> {
        if let (Some(target), Ok(Outcome::No) | Err(_)) = (target, &end)
            && self.shell.refuses(target).is_none()
        {
            self.shell.unset(target);
        }
        end
    }

    pub(super) fn deliver_number<T: ToString>(
        &mut self,
        end: Result<Waited<T>>,
        target: Option<Target<'_>>,
    ) -> Result<Outcome> {
        let end = match end {
            Ok(Waited::Done(number)) => self.deliver(Delivery::of(vec![number.to_string().into_bytes()], None), target),
            Ok(Waited::TimedOut) => Ok(Outcome::No),
            Ok(Waited::Interrupted) => Ok(Outcome::Interrupted),
            Err(error) => Err(error),
        };
        self.unset_unless_done(target, end)
    }

    /// Goes on with a delivery that was interrupted.
    pub(super) fn carried_delivery(&mut self) -> Option<Delivery> {
        match std::mem::take(&mut self.call.carried) {
            Carried::Delivering(delivery) => Some(delivery.at(self.world, &self.call.place)),
            other => {
                self.call.carried = other;
                None
            }
        }
    }

    pub(super) fn deliver(&mut self, mut delivery: Delivery, target: Option<Target<'_>>) -> Result<Outcome> {
        let end = match target {
            Some(target) => self.assign(&delivery.items, target).map(|()| Moved::Bytes(0)),
            None => write_line(self.shell, &mut delivery),
        };
        match end {
            Ok(Moved::Bytes(_)) => Ok(Outcome::Done),
            Ok(Moved::Interrupted) => {
                self.call.carried = Carried::Delivering(delivery);
                Ok(Outcome::Interrupted)
            }
            Err(error) => {
                self.return_items(delivery);
                Err(error)
            }
        }
    }

    fn assign(&mut self, items: &[Vec<u8>], target: Target<'_>) -> Result<()> {
        let failed = |why: &str| Err(Error::damaged(printable(target.name()), why));
        if let Some(why) = self.shell.refuses(target) {
            return failed(why);
        }
        if items.iter().any(|item| item.contains(&0)) {
            return failed("an item with a NUL byte does not fit into a variable");
        }
        self.shell.assign(target, items)
    }

    /// The last resort is standard error.
    #[cold]
    fn return_items(&mut self, delivery: Delivery) {
        if let Err((items, error)) = delivery.put_back(self.world, &mut self.notes) {
            self.shell.warn(&error.message());
            for item in items {
                self.shell.rescue(&item);
            }
        }
    }
}
