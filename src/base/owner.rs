//! The text of a lock's link: who holds it, in a form whose value as an arithmetic expression is the script's `$$`.

use std::fmt;

/// What a process knows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// A hash of boot id and pid namespace: process numbers mean something only there.
    pub place: u32,
    /// `$BASHPID`.
    pub pid: u32,
    /// Start time of `pid` in clock ticks since boot, 0 if unknown.
    pub start: u64,
    /// `$$`.
    pub script: u32,
    /// Start time of `script`, 0 if it was not alive when the plugin loaded.
    pub script_start: u64,
}

/// `PLACE,NONCE,HOLDER,HOLDER_START,SCRIPT_START,SCRIPT`, all decimal. The script comes last, since that is the value of
/// a comma expression, and the articles compare the link with `$$` arithmetically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub place: u32,
    /// Where in the directory the mark is; 0 = no mark, never stale.
    pub nonce: u32,
    pub holder: u32,
    pub holder_start: u64,
    pub script_start: u64,
    pub script: u32,
}

impl Owner {
    pub fn new(process: &Process, nonce: u32) -> Owner {
        Owner {
            place: process.place,
            nonce,
            holder: process.pid,
            holder_start: process.start,
            script_start: process.script_start,
            script: process.script,
        }
    }

    /// Does it belong to the script of this process? `holds_nonce` decides where no start time can tell scripts apart.
    pub fn is_owned_by(&self, process: &Process, holds_nonce: impl FnOnce(u32) -> bool) -> bool {
        self.place == process.place
            && self.script == process.script
            && self.script_start == process.script_start
            && (self.script_start != 0 || (self.nonce != 0 && holds_nonce(self.nonce)))
    }

    /// The holder's number, where it means something to this process.
    pub fn holder_here(&self, process: &Process) -> Option<u32> {
        (self.place == process.place).then_some(self.holder)
    }

    /// For messages.
    pub fn describe(&self) -> String {
        format!("process {} of script {}", self.holder, self.script)
    }

    pub fn has_mark(&self) -> bool {
        self.nonce != 0
    }

    fn parse(text: &[u8]) -> Option<Owner> {
        let mut parts = text.split(|&byte| byte == b',').map(parse_decimal);
        let mut next = || parts.next().flatten();
        let owner = Owner {
            place: u32::try_from(next()?).ok()?,
            nonce: u32::try_from(next()?).ok().filter(|&nonce| nonce <= i32::MAX as u32)?,
            holder: u32::try_from(next()?).ok()?,
            holder_start: next()?,
            script_start: next()?,
            script: u32::try_from(next()?).ok()?,
        };
        parts.next().is_none().then_some(owner)
    }
}

impl fmt::Display for Owner {
    /// By hand: it is done for each lock, and the formatter would take a fifth of our own part of that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner { place, nonce, holder, holder_start, script_start, script } = *self;
        let numbers = [place.into(), nonce.into(), holder.into(), holder_start, script_start, script.into()];
        let mut room = [b','; 6 * LONGEST_DECIMAL + 5];
        let mut start = room.len();
        for (index, number) in numbers.into_iter().enumerate().rev() {
            start = write_decimal(&mut room[..start], number);
            // The comma before it is there already.
            start -= usize::from(index > 0);
        }
        f.write_str(std::str::from_utf8(&room[start..]).map_err(|_| fmt::Error)?)
    }
}

const LONGEST_DECIMAL: usize = 20;

/// Writes at the end of `room`; where it begins.
fn write_decimal(room: &mut [u8], mut number: u64) -> usize {
    let mut start = room.len();
    loop {
        start -= 1;
        room[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return start;
        }
    }
}

/// What a link says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkText {
    /// Our form.
    Ours(Owner),
    /// One decimal number: a peer's `$$`, a weak mutex.
    Plain(u64),
    /// Anything else: somebody's, busy, never ours.
    Foreign,
}

impl LinkText {
    pub fn parse(text: &[u8]) -> LinkText {
        Owner::parse(text)
            .map(LinkText::Ours)
            .or_else(|| parse_decimal(text).map(LinkText::Plain))
            .unwrap_or(LinkText::Foreign)
    }
}

/// Plain decimal digits without leading zeros, signs or spaces.
pub fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || (text.len() > 1 && text[0] == b'0') {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ME: Process = Process { place: 7, pid: 11, start: 300, script: 10, script_start: 200 };

    #[test]
    fn the_longest_usual_text_has_59_bytes() {
        let owner = Owner {
            place: u32::MAX,
            nonce: i32::MAX as u32,
            holder: 4_194_304,
            holder_start: 9_999_999_999,
            script_start: 9_999_999_999,
            script: 4_194_304,
        };
        assert_eq!(owner.to_string().len(), 59);
    }

    #[test]
    fn only_the_exact_form_is_ours() {
        assert!(matches!(LinkText::parse(b"1,2,3,4,5,6"), LinkText::Ours(_)));
        assert_eq!(LinkText::parse(b"4711"), LinkText::Plain(4711));
        for text in [
            "",
            " 12",
            "012",
            "1,2,3,4,5",
            "1,2,3,4,5,6,7",
            "1,02,3,4,5,6",
            "1,2147483648,3,4,5,6",
            "host-32",
            "a[$(touch x)]",
            "-1",
            "1,2,3,4,5,6\n",
            "18446744073709551616",
            "4294967296,2,3,4,5,6",
        ] {
            assert_eq!(LinkText::parse(text.as_bytes()), LinkText::Foreign, "{text:?}");
        }
    }

    #[test]
    fn a_script_is_place_number_and_start() {
        let owner = Owner::new(&ME, 5);
        assert!(owner.is_owned_by(&Process { pid: 99, start: 1, ..ME }, |_| false), "a subshell of it");
        assert!(!owner.is_owned_by(&Process { place: 8, ..ME }, |_| true), "another container");
        assert!(!owner.is_owned_by(&Process { script_start: 201, ..ME }, |_| true), "a reused number");
    }

    #[test]
    fn without_a_start_time_only_the_nonce_tells() {
        let me = Process { script_start: 0, ..ME };
        assert!(Owner::new(&me, 5).is_owned_by(&me, |nonce| nonce == 5));
        assert!(!Owner::new(&me, 6).is_owned_by(&me, |nonce| nonce == 5));
        assert!(!Owner::new(&me, 0).is_owned_by(&me, |_| true));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(place: u32, nonce in 0..=i32::MAX as u32, holder: u32, holder_start: u64, script_start: u64, script: u32) {
            let owner = Owner { place, nonce, holder, holder_start, script_start, script };
            prop_assert_eq!(LinkText::parse(owner.to_string().as_bytes()), LinkText::Ours(owner));
        }

        #[test]
        fn no_bytes_upset_the_parser(text: Vec<u8>) {
            match LinkText::parse(&text) {
                LinkText::Ours(owner) => prop_assert_eq!(owner.to_string().into_bytes(), text),
                LinkText::Plain(number) => prop_assert_eq!(number.to_string().into_bytes(), text),
                LinkText::Foreign => {}
            }
        }
    }
}
