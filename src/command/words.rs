//! The words of a call: options, held against the table, then operands. Values are any bytes.

use super::table::{Builtin, Opt};
use crate::base::{Error, Result, Timeout};

/// What the words ask for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    Help,
    Call(Words<'a>),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Words<'a> {
    options: Vec<(u8, &'a [u8])>,
    pub operands: &'a [&'a [u8]],
}

/// Options come before the operands, `--` ends them, and everything after the first operand is data. `-v VAR`, `-vVAR`
/// and bundles (`-cf`) are as everywhere.
pub fn parse<'a>(builtin: &Builtin, words: &'a [&'a [u8]]) -> Result<Asked<'a>> {
    let mut options: Vec<(u8, &[u8])> = Vec::new();
    let mut rest = words;
    while let [word, after @ ..] = rest {
        let word: &'a [u8] = word;
        match word {
            b"--help" => return Ok(Asked::Help),
            b"--" => {
                rest = after;
                break;
            }
            [b'-', b'-', long @ ..] => {
                let named = |option: &&Opt| option.long.is_some_and(|name| name.as_bytes() == long);
                let option =
                    builtin.options.iter().find(named).ok_or_else(|| wrong(builtin, word, "invalid option"))?;
                options.push((option.letter, &[]));
                rest = after;
            }
            [b'-', letters @ ..] if !letters.is_empty() => {
                rest = bundle(builtin, letters, after, &mut options)?;
            }
            _ => break,
        }
    }
    if rest.len() < builtin.operands.least {
        return Err(usage(builtin, "missing argument"));
    }
    if rest.len() > builtin.operands.most {
        return Err(wrong(builtin, rest[builtin.operands.most], "one argument too many"));
    }
    Ok(Asked::Call(Words { options, operands: rest }))
}

/// The letters of one word; the value of the last may be the next word. Returns the words after.
fn bundle<'a>(
    builtin: &Builtin,
    mut letters: &'a [u8],
    after: &'a [&'a [u8]],
    options: &mut Vec<(u8, &'a [u8])>,
) -> Result<&'a [&'a [u8]]> {
    while let [letter, more @ ..] = letters {
        let shown = [b'-', *letter];
        let Some(option) = builtin.options.iter().find(|option| option.letter == *letter) else {
            return Err(wrong(builtin, &shown, "invalid option"));
        };
        if option.value.is_none() {
            options.push((*letter, &[]));
            letters = more;
        } else if !more.is_empty() {
            options.push((*letter, more));
            return Ok(after);
        } else if let [value, after @ ..] = after {
            options.push((*letter, value));
            return Ok(after);
        } else {
            return Err(wrong(builtin, &shown, "option requires an argument"));
        }
    }
    Ok(after)
}

impl<'a> Words<'a> {
    pub fn has(&self, letter: u8) -> bool {
        self.value(letter).is_some()
    }

    /// The last one counts.
    pub fn value(&self, letter: u8) -> Option<&'a [u8]> {
        self.options.iter().rev().find(|(given, _)| *given == letter).map(|(_, value)| *value)
    }

    pub fn timeout(&self, builtin: &Builtin) -> Result<Timeout> {
        match self.operands.get(1) {
            None => Ok(Timeout::Never),
            Some(text) => Timeout::parse(text).ok_or_else(|| wrong(builtin, text, "invalid timeout")),
        }
    }
}

/// The decimal value of a COUNT, VALUE or MAX: digits only, no sign, at most what a counter holds.
pub fn number(builtin: &Builtin, text: &[u8], what: &str) -> Result<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let value = text.iter().try_fold(0u64, |sum, byte| {
        sum.checked_mul(10)?.checked_add(u64::from(byte.wrapping_sub(b'0'))).filter(|&sum| sum <= i64::MAX as u64)
    });
    match value {
        _ if !digits => Err(wrong(builtin, text, &format!("invalid {what}"))),
        Some(value) => Ok(value),
        None => Err(wrong(builtin, text, &format!("{what} too large"))),
    }
}

/// `-x: invalid option; usage: mutex_lock [-c] NAME [TIMEOUT]`, one harmless line.
pub fn usage(builtin: &Builtin, wrong: &str) -> Error {
    Error::Usage(format!("{wrong}; usage: {}", builtin.usage()))
}

fn wrong(builtin: &Builtin, word: &[u8], what: &str) -> Error {
    usage(builtin, &format!("{}: {what}", printable(word)))
}

/// A word in a message: control characters masked, and not a page of it.
pub fn printable(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    let mut shown: String = text.chars().take(100).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(100).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    fn asked(name: &str, words: &[&str]) -> std::result::Result<String, String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        match parse(find(name), &words) {
            Ok(Asked::Help) => Ok("help".into()),
            Ok(Asked::Call(words)) => {
                let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let options =
                    words.options.iter().map(|(letter, value)| format!("{}={}", *letter as char, show(value)));
                Ok(options.chain(words.operands.iter().map(|word| show(word))).collect::<Vec<_>>().join("|"))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn options_come_before_the_name_and_the_rest_is_data() {
        for (name, words, expected) in [
            ("mutex_lock", &["-c", "m", "5"][..], "c=|m|5"),
            ("mutex_lock", &["m", "-1"], "m|-1"),
            ("mutex_lock", &["--", "-c"], "-c"),
            ("mutex_lock", &["-"], "-"),
            ("mutex_lock", &["-cc", ""], "c=|c=|"),
            ("queue_put", &["q", "-n", "--", "--help"], "q|-n|--|--help"),
            ("queue_put", &["-f", "-", "q"], "f=-|q"),
            ("queue_get", &["-vx", "q"], "v=x|q"),
            ("queue_get", &["-v", "x", "-v", "--", "q"], "v=x|v=--|q"),
            ("queue_get", &["-a", "x", "-n", "3", "--", "-q", "0"], "a=x|n=3|-q|0"),
            ("mutex_lock", &["-c", "--help", "m"], "help"),
        ] {
            assert_eq!(asked(name, words).as_deref(), Ok(expected), "{name} {words:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_one_line_with_the_usage() {
        for (name, words, expected) in [
            ("mutex_lock", &["-x", "m"][..], "-x: invalid option; usage: mutex_lock [-c] NAME [TIMEOUT]"),
            ("mutex_lock", &["-cx", "m"], "-x: invalid option; usage: mutex_lock [-c] NAME [TIMEOUT]"),
            ("mutex_lock", &["--force", "m"], "--force: invalid option; usage: mutex_lock [-c] NAME [TIMEOUT]"),
            ("mutex_lock", &[], "missing argument; usage: mutex_lock [-c] NAME [TIMEOUT]"),
            ("mutex_lock", &["m", "1", "a\nb"], "a?b: one argument too many; usage: mutex_lock [-c] NAME [TIMEOUT]"),
            ("sem_peek", &["-v"], "-v: option requires an argument; usage: sem_peek [-v VAR] NAME"),
        ] {
            assert_eq!(asked(name, words), Err(expected.into()), "{name} {words:?}");
        }
    }

    #[test]
    fn numbers_are_digits_that_fit() {
        let sem_post = find("sem_post");
        assert_eq!(number(sem_post, b"0", "COUNT"), Ok(0));
        assert_eq!(number(sem_post, b"9223372036854775807", "COUNT"), Ok(i64::MAX as u64));
        for text in ["", "-1", "+1", "1.0", " 1", "x", "9223372036854775808", "99999999999999999999999", "a[$(x)]"] {
            assert!(matches!(number(sem_post, text.as_bytes(), "COUNT"), Err(Error::Usage(_))), "{text:?}");
        }
    }
}
