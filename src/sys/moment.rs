//! Looking again for a moment before going to sleep: who holds a short lock has it for less than a sleep takes.

use std::ffi::OsStr;
use std::time::Duration;

use super::dir::Dir;
use super::{Errno, clock};

/// What a running process needs at most for a few changes of a directory, on disk too.
const MOMENT: Duration = Duration::from_micros(50);

/// Is the name removed within a moment?
pub fn is_gone_soon(dir: &Dir, name: &OsStr) -> bool {
    let end = clock::now().after(MOMENT);
    loop {
        if dir.stat_at(name) == Err(Errno::ENOENT) {
            return true;
        }
        if clock::now() >= end {
            return false;
        }
        // On a single core the other one can go on only so.
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn it_ends_whether_the_name_goes_or_not() {
        for scratch in Scratch::each() {
            fs::write(scratch.path("lock"), "").unwrap();
            let dir = Dir::open(&scratch.path("")).unwrap();
            assert!(!is_gone_soon(&dir, OsStr::new("lock")));
            fs::remove_file(scratch.path("lock")).unwrap();
            assert!(is_gone_soon(&dir, OsStr::new("lock")));
        }
    }
}
