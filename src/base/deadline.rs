//! Monotonic time. A timeout becomes a deadline once, where it enters; nothing below computes with durations of the user.

use std::time::Duration;

/// Monotonic nanoseconds since an arbitrary start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    pub fn after(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long from `earlier` until this; zero if it is not later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The TIMEOUT argument as the user wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    Never,
    Once,
    Within(Duration),
}

impl Timeout {
    /// Seconds: omitted or negative waits for ever, `0` or the empty string tries once, decimals are allowed.
    /// `None` for everything else (`5s`, `1e3`, `nan`, ` 1`).
    pub fn parse(text: &[u8]) -> Option<Timeout> {
        if text.is_empty() {
            return Some(Timeout::Once);
        }
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (whole, fraction) = match digits.iter().position(|&byte| byte == b'.') {
            Some(dot) => (&digits[..dot], &digits[dot + 1..]),
            None => (digits, &digits[..0]),
        };
        let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        // Absurdly long waits are for ever, never an overflow.
        let seconds =
            whole.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        let nanos =
            (0..9).fold(0u32, |sum, place| sum * 10 + fraction.get(place).map_or(0, |digit| u32::from(digit - b'0')));
        // What is below a nanosecond still is a wait, not a single try.
        let below = fraction.iter().skip(9).any(|&digit| digit != b'0');
        let span = Duration::new(seconds, nanos + u32::from(below && nanos < 999_999_999));
        Some(match (negative, span.is_zero()) {
            (_, true) => Timeout::Once,
            (true, false) => Timeout::Never,
            (false, false) => Timeout::Within(span),
        })
    }

    pub fn from(self, start: Time) -> Deadline {
        match self {
            Timeout::Never => Deadline::Never,
            Timeout::Once => Deadline::At(start),
            Timeout::Within(span) => Deadline::At(start.after(span)),
        }
    }
}

/// The moment at which a wait gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    Never,
    At(Time),
}

impl Deadline {
    pub fn has_passed(self, now: Time) -> bool {
        matches!(self, Deadline::At(time) if time <= now)
    }

    /// The earlier of the deadline and `time`.
    pub fn or_at(self, time: Time) -> Time {
        match self {
            Deadline::Never => time,
            Deadline::At(at) => at.min(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_timeout() {
        let within = |millis| Some(Timeout::Within(Duration::from_millis(millis)));
        for (text, expected) in [
            ("", Some(Timeout::Once)),
            ("0", Some(Timeout::Once)),
            ("0.000", Some(Timeout::Once)),
            ("-0", Some(Timeout::Once)),
            ("-1", Some(Timeout::Never)),
            ("-0.5", Some(Timeout::Never)),
            ("5", within(5000)),
            ("0.25", within(250)),
            (".5", within(500)),
            ("1.", within(1000)),
            ("007", within(7000)),
            ("5s", None),
            ("1e3", None),
            ("nan", None),
            ("inf", None),
            (" 1", None),
            ("1 ", None),
            (".", None),
            ("-", None),
            ("--1", None),
            ("0x10", None),
            ("1.5.2", None),
            ("a[$(touch x)]", None),
        ] {
            assert_eq!(Timeout::parse(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_huge_timeout_is_a_far_deadline_not_an_overflow() {
        let huge = Timeout::parse(b"99999999999999999999999999.9").unwrap();
        assert_eq!(huge.from(Time(5)), Deadline::At(Time(u64::MAX)));
    }

    #[test]
    fn less_than_a_nanosecond_is_not_a_single_try() {
        assert_eq!(Timeout::parse(b"0.0000000001"), Some(Timeout::Within(Duration::from_nanos(1))));
    }
}
