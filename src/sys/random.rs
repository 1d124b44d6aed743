//! Numbers that no other process draws at the same time: for NONCEs and for jitter, not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use super::clock;

/// Keyed once from the system's randomness. A forked child has the same key and count, and therefore its number and the
/// time go in.
#[derive(Debug, Default)]
pub struct Random {
    key: RandomState,
    count: Cell<u64>,
}

impl Random {
    pub fn draw(&self, pid: u32) -> u64 {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        self.key.hash_one((pid, clock::now().0, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_draws_its_own() {
        let random = Random::default();
        let child = super::super::forked::in_child(|| random.draw(2).to_string());
        assert_ne!(child, random.draw(1).to_string());
        assert_ne!(random.draw(1), random.draw(1));
    }
}
