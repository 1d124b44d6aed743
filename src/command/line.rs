//! Words as a line that the shell evaluates to exactly these words.

use crate::base::{Error, Result};
use crate::sys::Errno;

/// Single quotes keep everything but themselves.
pub fn quoted<'a>(words: impl Iterator<Item = &'a [u8]> + Clone) -> Result<Vec<u8>> {
    let length = words.clone().flatten().map(|&byte| if byte == b'\'' { 4 } else { 1 }).sum::<usize>();
    let mut line = Vec::new();
    let room = line.try_reserve_exact(length + 3 * words.clone().count());
    room.map_err(|_| Error::system("command", Errno::ENOMEM))?;
    for word in words {
        line.push(b'\'');
        for &byte in word {
            match byte {
                b'\'' => line.extend_from_slice(br"'\''"),
                _ => line.push(byte),
            }
        }
        line.extend_from_slice(b"' ");
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_kept_and_the_room_is_exact() {
        for (words, expected) in [
            (&["f"][..], &b"'f' "[..]),
            (&["f", "", "it's $(x)\n"], b"'f' '' 'it'\\''s $(x)\n' "),
            (&["'", "''"], b"''\\''' ''\\'''\\''' "),
        ] {
            let line = quoted(words.iter().map(|word| word.as_bytes())).unwrap();
            assert_eq!(line, expected);
            assert_eq!(line.capacity(), line.len());
        }
    }
}
