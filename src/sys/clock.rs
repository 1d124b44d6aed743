//! The monotonic clock, which nobody sets.

use nix::time::{ClockId, clock_gettime};

use crate::base::Time;

pub fn now() -> Time {
    // Cannot fail for this clock; a kernel without it would have deadlines pass at once.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Time(u64::MAX), |time| {
        Time(time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_forward_in_nanoseconds() {
        let (start, std_start) = (now(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(2));
        let (passed, at_most) = (now().since(start), std_start.elapsed());
        assert!(passed.as_millis() >= 2 && passed <= at_most + std::time::Duration::from_millis(2));
    }
}
