//! Letting others go first, now and then.
//!
//! Who gives something back and wants it again at once is always quicker than those who sleep: they would wait until it
//! tires. So who has just given something back asks, at most once in a while, whether there is a waiting line, and stands
//! behind. In between it may barge, since handing over at each turn would be several times slower.

use std::cell::Cell;
use std::time::Duration;

use super::clock;
use crate::base::Time;

/// Time for a waiter to wake up. Who comes later than that takes nothing away from it.
const JUST: Duration = Duration::from_millis(1);
/// How long one process may barge. Asking costs a fifth of a lock and unlock.
const TURN: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub struct Courtesy {
    gave_back: Cell<Time>,
    asked: Cell<Time>,
}

impl Courtesy {
    pub fn note_giving_back(&self) {
        self.gave_back.set(clock::now());
    }

    pub fn is_due(&self) -> bool {
        self.is_due_at(clock::now())
    }

    fn is_due_at(&self, now: Time) -> bool {
        let is_due = now.since(self.gave_back.get()) < JUST && now.since(self.asked.get()) >= TURN;
        if is_due {
            self.asked.set(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_giving_back_and_once_in_a_while() {
        let courtesy = Courtesy::default();
        let start = Time(1 << 40);
        assert!(!courtesy.is_due_at(start), "a first lock");
        courtesy.gave_back.set(start);
        assert!(courtesy.is_due_at(start) && !courtesy.is_due_at(start));
        courtesy.gave_back.set(start.after(TURN / 2));
        assert!(!courtesy.is_due_at(start.after(TURN / 2)), "it may barge for a while");
        assert!(courtesy.is_due_at(start.after(TURN)));
        assert!(!courtesy.is_due_at(start.after(3 * TURN)), "the waiters have had their time");
    }
}
