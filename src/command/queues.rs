//! queue_*.

use super::deliver::Delivery;
use super::input::Reading;
use super::line::quoted;
use super::words::{number, usage};
use super::{Carried, Context, Moved, Outcome, Shell, Target, created, outcome};
use crate::base::{Error, Result};
use crate::primitive::queue;
use crate::primitive::wait::Waited;
use crate::sys::{Errno, World};

/// The commands of a `queue_foreach`, made one by one.
pub struct Foreach {
    items: std::vec::IntoIter<Vec<u8>>,
    /// COMMAND and its arguments; the item goes between.
    command: Vec<Vec<u8>>,
}

impl Foreach {
    /// As a line for the shell, every word quoted.
    pub fn next_command(&mut self) -> Result<Option<Vec<u8>>> {
        match (self.items.next(), self.command.split_first()) {
            (Some(item), Some((command, arguments))) => {
                quoted([command, &item].into_iter().chain(arguments).map(Vec::as_slice)).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl<W: World, S: Shell> Context<'_, W, S> {
    pub(super) fn queue_init(&mut self) -> Result<Outcome> {
        queue::init(self.world, &self.directory()?).map(created)
    }

    pub(super) fn queue_put(&mut self) -> Result<Outcome> {
        match (self.words.value(b'f'), &self.words.operands[1..]) {
            (None, []) => Err(usage(self.builtin, "missing argument")),
            (Some(_), [_, ..]) => Err(usage(self.builtin, "-f takes no further items")),
            (Some(path), []) => self.put_file(path),
            (None, items) => queue::put(self.world, &self.directory()?, items, &mut self.notes).map(outcome),
        }
    }

    fn put_file(&mut self, path: &[u8]) -> Result<Outcome> {
        let name = self.directory()?;
        let mut reading = match std::mem::take(&mut self.call.carried) {
            Carried::Reading(reading) => reading,
            _ => {
                // A queue that is not there should be told before all of the input is eaten.
                self.world.open_dir(name.path()).map_err(|errno| Error::system(name.path(), errno))?;
                Reading::open(self.shell, path)?
            }
        };
        let end = match reading.read(self.shell)? {
            Moved::Interrupted => Outcome::Interrupted,
            Moved::Bytes(_) => queue::put(self.world, &name, &[reading.item()], &mut self.notes).map(outcome)?,
        };
        if end == Outcome::Interrupted {
            self.call.carried = Carried::Reading(reading);
        }
        Ok(end)
    }

    pub(super) fn queue_get(&mut self) -> Result<Outcome> {
        let (name, deadline, max) = (self.directory()?, self.deadline(None)?, self.max()?);
        let target = self.any_target()?;
        let delivery = match self.carried_delivery() {
            Some(delivery) => Ok(Waited::Done(delivery)),
            None => match queue::get(self.world, &name, max, deadline, &mut self.notes) {
                Ok(Waited::Done(items)) => Ok(Waited::Done(Delivery::of(items, Some(name)))),
                Ok(Waited::TimedOut) => Ok(Waited::TimedOut),
                Ok(Waited::Interrupted) => Ok(Waited::Interrupted),
                Err(error) => Err(error),
            },
        };
        self.end_with(delivery, target)
    }

    /// `-a ARRAY` and `-n MAX` go together; otherwise it is one item.
    fn max(&self) -> Result<usize> {
        match (self.words.has(b'a'), self.words.value(b'n')) {
            (false, None) => Ok(1),
            (true, Some(text)) => match number(self.builtin, text, "MAX")? {
                0 => Err(usage(self.builtin, "MAX must be at least 1")),
                max => Ok(usize::try_from(max).unwrap_or(usize::MAX)),
            },
            _ => Err(usage(self.builtin, "-a and -n go together")),
        }
    }

    pub(super) fn queue_peek(&mut self) -> Result<Outcome> {
        let (name, target) = (self.directory()?, self.any_target()?);
        let delivery = match (self.carried_delivery(), target) {
            (Some(delivery), _) => Ok(Waited::Done(delivery)),
            (None, Some(Target::Array(_))) => queue::snapshot(self.world, &name, &mut self.notes).map(peeked),
            (None, _) => queue::peek(self.world, &name, &mut self.notes).map(|end| {
                peeked(match end {
                    Waited::Done(item) => Waited::Done(item.into_iter().collect()),
                    Waited::TimedOut => Waited::TimedOut,
                    Waited::Interrupted => Waited::Interrupted,
                })
            }),
        };
        self.end_with(delivery, target)
    }

    fn end_with(&mut self, delivery: Result<Waited<Delivery>>, target: Option<Target<'_>>) -> Result<Outcome> {
        let end = match delivery {
            Ok(Waited::Done(delivery)) => self.deliver(delivery, target),
            Ok(Waited::TimedOut) => Ok(Outcome::No),
            Ok(Waited::Interrupted) => Ok(Outcome::Interrupted),
            Err(error) => Err(error),
        };
        self.unset_unless_done(target, end)
    }

    pub(super) fn queue_len(&mut self) -> Result<Outcome> {
        let (name, target) = (self.directory()?, self.scalar_target()?);
        let length = queue::len(self.world, &name, &mut self.notes);
        self.deliver_number(length, target)
    }

    pub(super) fn queue_foreach(&mut self) -> Result<Outcome> {
        let name = self.directory()?;
        let memory = || Error::system(name.path(), Errno::ENOMEM);
        let command = copy(&self.words.operands[1..]).ok_or_else(memory)?;
        Ok(match queue::snapshot(self.world, &name, &mut self.notes)? {
            Waited::Done(items) => {
                if items.iter().any(|item| item.contains(&0)) {
                    return Err(Error::damaged(name.path(), "an item with a NUL byte does not fit into an argument"));
                }
                self.call.carried = Carried::Foreach(Foreach { items: items.into_iter(), command });
                Outcome::Evaluate { is_shell_code: self.is_shell_code(self.words.operands[1]) }
            }
            Waited::TimedOut => Outcome::No,
            Waited::Interrupted => Outcome::Interrupted,
        })
    }

    pub(super) fn queue_destroy(&mut self) -> Result<Outcome> {
        queue::destroy(self.world, &self.directory()?, self.words.has(b'f')).map(outcome)
    }
}

/// Nothing there is an honest no.
fn peeked(end: Waited<Vec<Vec<u8>>>) -> Waited<Delivery> {
    match end {
        Waited::Done(items) if items.is_empty() => Waited::TimedOut,
        Waited::Done(items) => Waited::Done(Delivery::of(items, None)),
        Waited::TimedOut => Waited::TimedOut,
        Waited::Interrupted => Waited::Interrupted,
    }
}

/// Owned items; `None` if there is not enough memory.
fn copy(items: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let mut copies = Vec::new();
    copies.try_reserve_exact(items.len()).ok()?;
    for item in items {
        let mut copy = Vec::new();
        copy.try_reserve_exact(item.len()).ok()?;
        copy.extend_from_slice(item);
        copies.push(copy);
    }
    Some(copies)
}
