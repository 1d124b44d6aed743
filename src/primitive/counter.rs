//! The number in a semaphore's `counter`: decimal and a newline.
//!
//! It is overwritten in place by one small write, never truncated first: no reader sees it empty, no kill leaves it so,
//! and a full disk has room for it. Where the new text is shorter, the rest is cut off afterwards; until then there are
//! newlines too many, which every reader strips.

use crate::base::{Error, Name, Result, parse_decimal};
use crate::sys::{Access, Errno, Stat, World};

pub const COUNTER: &str = "counter";

/// No number needs more.
const LONGEST: usize = 32;

/// An opened counter. Its value is read and written while `countlock` is held.
pub struct Counter<'a, W: World> {
    world: &'a W,
    semaphore: &'a Name,
    file: W::File,
}

impl<'a, W: World> Counter<'a, W> {
    pub fn open(world: &'a W, semaphore: &'a Name, dir: &W::Dir) -> Result<Self> {
        match world.open_file(dir, COUNTER.as_ref(), Access::Update) {
            Ok(file) => Ok(Counter { world, semaphore, file }),
            Err(errno) => Err(Error::system(semaphore.inside(COUNTER), errno)),
        }
    }

    pub fn create(world: &'a W, semaphore: &'a Name, dir: &W::Dir, value: i64) -> Result<()> {
        let error = |errno| Error::system(semaphore.path(), errno);
        let file = world.open_file(dir, COUNTER.as_ref(), Access::CreateNew).map_err(error)?;
        write_whole(world, &file, &text_of(value)).map_err(error)
    }

    pub fn read(&self) -> Result<i64> {
        let mut buffer = [0; LONGEST];
        let length = self.world.read_at(&self.file, 0, &mut buffer).map_err(|errno| self.error(errno))?;
        match (length, parse(&buffer[..length])) {
            (LONGEST, _) | (1.., None) => Err(self.damaged("is not a number")),
            (0, _) => Err(self.damaged("is empty")),
            (_, Some(value)) => Ok(value),
        }
    }

    /// Changes the value from `old`, or leaves it as it was.
    pub fn change(&self, old: i64, new: i64) -> Result<()> {
        let (before, after) = (text_of(old), text_of(new));
        if let Err(errno) = write_whole(self.world, &self.file, &after) {
            // A part may be there; the old text fits where it stood.
            let _ = write_whole(self.world, &self.file, &before);
            return Err(self.error(errno));
        }
        if after.len() < before.len() {
            // Too many newlines are no damage.
            let _ = self.world.truncate(&self.file, after.len() as u64);
        }
        Ok(())
    }

    /// For *changed or not*.
    pub fn stat(&self) -> Result<Stat> {
        self.world.stat(&self.file).map_err(|errno| self.error(errno))
    }

    fn error(&self, errno: Errno) -> Error {
        Error::system(self.semaphore.inside(COUNTER), errno)
    }

    fn damaged(&self, what: &str) -> Error {
        Error::damaged(self.semaphore.inside(COUNTER), format!("damaged: the counter {what}"))
    }
}

fn text_of(value: i64) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// A peer's race can leave a negative number; a newline may be missing, or be there more than once.
fn parse(text: &[u8]) -> Option<i64> {
    let end = text.iter().rposition(|&byte| byte != b'\n').map_or(0, |last| last + 1);
    match &text[..end] {
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(parse_decimal(digits)?),
        digits => i64::try_from(parse_decimal(digits)?).ok(),
    }
}

/// A short write of a few bytes inside a page is a failure without a number.
fn write_whole<W: World>(world: &W, file: &W::File, bytes: &[u8]) -> std::result::Result<(), Errno> {
    match world.write_at(file, 0, bytes)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(Errno::ENOSPC),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_forms_of_a_counter() {
        for (text, value) in [
            ("0\n", Some(0)),
            ("12", Some(12)),
            ("9\n\n", Some(9)),
            ("-1\n", Some(-1)),
            ("9223372036854775807\n", Some(i64::MAX)),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text:?}");
        }
        for text in
            ["", "\n", "-", "01\n", "1 \n", "+1\n", "1\n2\n", "0x1\n", "9223372036854775808\n", "\0", "a[$(touch x)]"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: i64) {
            prop_assert_eq!(parse(&text_of(value)), Some(value));
        }

        #[test]
        fn no_bytes_upset_the_parser(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
