//! A participant's record: `E NNNNNNNNNNNNNNNNNNNN S` and a newline, decimal, each field written alone and in place.
//!
//! A reader may meet a write half done. Then the number it reads is any value, as the algorithm allows; what is not a
//! number counts as 0, and so does the empty file of a participant that has not begun. *Entering* is one byte and is
//! never torn. It is read first, and only if it is 0 the number, by a second read: one read of both lets two in.

use std::ffi::OsStr;

use crate::sys::{Access, Errno, Sys, World};

const ENTERING: u64 = 0;
const NUMBER: u64 = 2;
const DIGITS: usize = 20;
const SERVED: u64 = NUMBER + DIGITS as u64 + 1;

/// What a participant's record says to one who waits.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has left.
    Gone,
    /// It is in its doorway.
    Entering,
    /// It is past its doorway; 0 = it has not begun.
    Number(u64),
}

pub fn write_entering<W: World>(world: &W, file: &W::File, entering: bool) -> Sys<()> {
    write(world, file, ENTERING, if entering { b"1 " } else { b"0 " })
}

pub fn write_number<W: World>(world: &W, file: &W::File, number: u64) -> Sys<()> {
    write(world, file, NUMBER, format!("{number:0DIGITS$} 0\n").as_bytes())
}

pub fn write_served<W: World>(world: &W, file: &W::File) -> Sys<()> {
    write(world, file, SERVED, b"1\n")
}

fn write<W: World>(world: &W, file: &W::File, offset: u64, bytes: &[u8]) -> Sys<()> {
    match world.write_at(file, offset, bytes)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(Errno::ENOSPC),
    }
}

pub fn look<W: World>(world: &W, dir: &W::Dir, name: &OsStr) -> Sys<Seen> {
    let Some(file) = open(world, dir, name)? else { return Ok(Seen::Gone) };
    if read_flag(world, &file, ENTERING)? {
        return Ok(Seen::Entering);
    }
    number_of(world, &file).map(Seen::Number)
}

/// The number alone, for drawing a larger one.
pub fn read_number<W: World>(world: &W, dir: &W::Dir, name: &OsStr) -> Sys<u64> {
    open(world, dir, name)?.map_or(Ok(0), |file| number_of(world, &file))
}

/// Is its owner inside?
pub fn is_served<W: World>(world: &W, dir: &W::Dir, name: &OsStr) -> Sys<bool> {
    open(world, dir, name)?.map_or(Ok(false), |file| read_flag(world, &file, SERVED))
}

fn open<W: World>(world: &W, dir: &W::Dir, name: &OsStr) -> Sys<Option<W::File>> {
    match world.open_file(dir, name, Access::Read) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn read_flag<W: World>(world: &W, file: &W::File, offset: u64) -> Sys<bool> {
    let mut flag = [0];
    Ok(world.read_at(file, offset, &mut flag)? == 1 && flag == *b"1")
}

fn number_of<W: World>(world: &W, file: &W::File) -> Sys<u64> {
    let mut digits = [0; DIGITS];
    let length = world.read_at(file, NUMBER, &mut digits)?;
    Ok(parse_number(&digits[..length]))
}

fn parse_number(digits: &[u8]) -> u64 {
    let value = (digits.len() == DIGITS).then(|| std::str::from_utf8(digits).ok()).flatten();
    value.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_a_number_is_zero() {
        assert_eq!(parse_number(b"00000000000000000042"), 42);
        assert_eq!(parse_number(b"18446744073709551615"), u64::MAX);
        for text in
            [&b""[..], b"42", b"99999999999999999999", b"+0000000000000000042", b"0000000000\0\0\0\0\0\0\0\0\0\0"]
        {
            assert_eq!(parse_number(text), 0, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_parser(text: Vec<u8>) {
            parse_number(&text);
        }
    }
}
