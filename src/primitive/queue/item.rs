//! An item as a line of `data`: the base64 of the item and one newline, without line breaks, then the line's newline.
//!
//! - *encode*: as a peer's `base64 -w 0 <<< "$item"` does.
//! - *decode*: strips exactly one newline; a missing one is accepted. Anything else than base64 with its padding is no
//!   item.
//!
//! Sizes come from arguments and files, so memory is asked for, never taken for granted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::make_room;
use crate::sys::{Errno, Sys};

/// The lines of `items`, one after the other.
pub fn encode(items: &[impl AsRef<[u8]>]) -> Sys<Vec<u8>> {
    let length = items.iter().try_fold(0usize, |sum, item| sum.checked_add(line_length(item.as_ref().len())?));
    let mut lines = with_room(length.ok_or(Errno::ENOMEM)?)?;
    for item in items {
        encode_line(item.as_ref(), &mut lines);
    }
    Ok(lines)
}

/// Three bytes become four; the item's newline and the line's come on top.
fn line_length(item: usize) -> Option<usize> {
    (item / 3 + 1).checked_mul(4)?.checked_add(1)
}

fn encode_line(item: &[u8], lines: &mut Vec<u8>) {
    // The newline joins the last group, so that nothing is copied but that.
    let (groups, rest) = item.split_at(item.len() - item.len() % 3);
    let mut last = [b'\n'; 3];
    last[..rest.len()].copy_from_slice(rest);

    append_encoded(groups, lines);
    append_encoded(&last[..=rest.len()], lines);
    lines.push(b'\n');
}

fn append_encoded(bytes: &[u8], lines: &mut Vec<u8>) {
    let start = lines.len();
    lines.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut lines[start..]);
    debug_assert_eq!(written, Ok(lines.len() - start));
}

/// The item of a line without its newline; `None` if it is not base64.
pub fn decode(line: &[u8]) -> Sys<Option<Vec<u8>>> {
    let estimate = base64::decoded_len_estimate(line.len());
    let mut item = with_room(estimate)?;
    item.resize(estimate, 0);
    let Ok(length) = STANDARD.decode_slice(line, &mut item) else { return Ok(None) };
    item.truncate(length);
    if item.last() == Some(&b'\n') {
        item.pop();
    }
    Ok(Some(item))
}

/// An empty vector that has room for `length` elements.
pub fn with_room<T>(length: usize) -> Sys<Vec<T>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
    Ok(vector)
}

/// `push` that can say no.
pub fn push<T>(vector: &mut Vec<T>, value: T) -> Sys<()> {
    make_room(vector, 1).map_err(|_| Errno::ENOMEM)?;
    vector.push(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_those_of_a_peer() {
        // What `base64 -w 0 <<< "$item"` prints.
        for (item, line) in [
            ("", "Cg==\n"),
            ("a", "YQo=\n"),
            ("ab", "YWIK\n"),
            ("abc", "YWJjCg==\n"),
            ("\n", "Cgo=\n"),
            ("-n", "LW4K\n"),
            ("two\nlines\n", "dHdvCmxpbmVzCgo=\n"),
        ] {
            assert_eq!(encode(&[item]).unwrap(), line.as_bytes(), "{item:?}");
        }
    }

    #[test]
    fn one_newline_is_stripped_or_missing() {
        assert_eq!(decode(b"YQo="), Ok(Some(b"a".to_vec())));
        assert_eq!(decode(b"YQ=="), Ok(Some(b"a".to_vec())));
        assert_eq!(decode(b"YQoK"), Ok(Some(b"a\n".to_vec())));
        assert_eq!(decode(b"Cg=="), Ok(Some(Vec::new())));
    }

    #[test]
    fn what_is_not_base64_is_no_item() {
        for line in ["YQo", "Y", "YQ=", "YQo=YQo=", " YQo=", "YQo=\r", "#Qo=", "YQ\0=", "YR==", "Y-_="] {
            assert_eq!(decode(line.as_bytes()), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn a_length_beyond_memory_is_an_error() {
        assert_eq!(line_length(usize::MAX), None);
        assert_eq!(with_room::<u8>(usize::MAX), Err(Errno::ENOMEM));
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(items: Vec<Vec<u8>>) {
            let lines = encode(&items).unwrap();
            prop_assert_eq!(lines.len(), lines.capacity());
            let lines = lines.split_inclusive(|&byte| byte == b'\n');
            let decoded: Vec<Vec<u8>> = lines.map(|line| decode(&line[..line.len() - 1]).unwrap().unwrap()).collect();
            prop_assert_eq!(decoded, items);
        }

        #[test]
        fn no_line_upsets_the_decoder(line: Vec<u8>) {
            let _ = decode(&line);
        }
    }
}
