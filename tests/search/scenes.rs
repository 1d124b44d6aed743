//! What the searches share: the time of a scene, and the scenes that are the same for every lock.

use std::time::Duration;

use interlock::base::{Deadline, Error, Result, Time};
use interlock::primitive::mutex::Unlocked;
use interlock::primitive::wait::Waited;
use interlock::sys::{Inherit, World};

use crate::explore::Scene;
use crate::world::{START, Sim, Who};

pub fn seconds(sim: &Sim, seconds: u64) -> Deadline {
    Deadline::At(sim.now().after(Duration::from_secs(seconds)))
}

pub fn no_time_has_passed(sim: &Sim) {
    assert_eq!(sim.now(), Time(START), "a wake-up was lost and the re-check had to help");
}

/// A lock under test: one object of one primitive.
pub trait Lock: 'static {
    // What each of them says.

    fn call_lock(sim: &Sim, deadline: Deadline, inherit: Inherit) -> Result<Waited<()>>;

    fn call_unlock(sim: &Sim) -> Result<Unlocked>;

    /// No wait that has an end takes so long.
    fn longest_wait(sim: &Sim) -> Deadline;

    // What some of them say otherwise.

    /// What holds in each race, and what is there before.
    fn prepare(_: &mut Scene) {}

    fn nothing_is_left(sim: &Sim) {
        let kernel = sim.machine().kernel();
        assert_eq!(kernel.files.tree().len(), 0, "left behind: {:?}", kernel.files.tree());
        assert!(kernel.opens.is_empty(), "descriptors left: {:?}", kernel.opens);
    }

    /// Whatever was left, the next one to lock and unlock is served at once and clears it away.
    fn is_recovered(sim: &Sim) {
        assert!(Self::try_lock(sim), "not recovered");
        Self::unlock(sim);
        Self::nothing_is_left(sim);
    }

    // The same for all: the calls of a process.

    fn lock_until(sim: &Sim, deadline: Deadline) -> bool {
        match Self::call_lock(sim, deadline, Inherit::Programs) {
            Ok(Waited::Done(())) => true,
            Ok(Waited::TimedOut) => false,
            other => panic!("lock: {other:?}"),
        }
    }

    fn lock(sim: &Sim) {
        assert!(Self::lock_until(sim, Self::longest_wait(sim)), "not served");
    }

    fn try_lock(sim: &Sim) -> bool {
        Self::lock_until(sim, Deadline::At(sim.now()))
    }

    fn unlock(sim: &Sim) {
        assert_eq!(Self::call_unlock(sim), Ok(Unlocked::Removed));
    }

    fn lock_and_unlock(sim: &Sim) {
        Self::lock(sim);
        sim.critical_section();
        Self::unlock(sim);
        sim.add("served", 1);
    }

    fn unlock_if_ours(sim: &Sim) {
        match Self::call_unlock(sim) {
            Ok(Unlocked::Removed) => drop(sim.add("removed", 1)),
            Ok(Unlocked::NotLocked) | Err(Error::NotOwner { .. }) => {}
            other => panic!("unlock: {other:?}"),
        }
    }

    /// One call of the operating system fails; the next call of ours works. `is_expected`: with that unlocking may fail.
    fn lock_and_unlock_with_a_fault(sim: &Sim, is_expected: fn(&Error) -> bool) {
        match Self::call_lock(sim, Deadline::Never, Inherit::Nobody) {
            Ok(Waited::Done(())) => {}
            Err(Error::System { .. }) => Self::lock(sim),
            other => panic!("lock: {other:?}"),
        }
        sim.critical_section();
        match Self::call_unlock(sim) {
            Ok(Unlocked::Removed) => {}
            Err(error) if is_expected(&error) => Self::unlock(sim),
            other => panic!("unlock: {other:?}"),
        }
    }

    // The same for all: scenes.

    /// A script that died with the lock.
    fn stale_lock(scene: &mut Scene) {
        scene.before(|sim| {
            let dead = sim.machine().script();
            Self::lock(&dead);
            sim.kill(dead.who());
        });
    }

    /// *eventually* all are served, and nothing is left.
    fn all_are_served(scene: &mut Scene, processes: usize) {
        (0..processes).for_each(|_| drop(scene.script(Self::lock_and_unlock)));
        scene.at_rest(move |sim| {
            assert_eq!(sim.add("served", 0), processes as i64);
            Self::nothing_is_left(sim);
        });
    }

    /// *always* one is inside; *sometimes* one finds the lock taken, sleeps and is woken (see `saw`); *eventually* all are
    /// served, without the re-check, and nothing is left.
    fn race(scene: &mut Scene, processes: usize) {
        Self::prepare(scene);
        scene.at_rest(no_time_has_passed);
        Self::all_are_served(scene, processes);
    }

    /// The killed one holds nothing any more, and what it left does not stop the others.
    fn race_with_kills(scene: &mut Scene, processes: usize, victims: &[Who]) {
        Self::prepare(scene);
        (0..processes).for_each(|_| drop(scene.script(Self::lock_and_unlock)));
        victims.iter().for_each(|&victim| scene.kill(victim));
        let dead = victims.len();
        scene.at_rest(move |sim| {
            assert!(sim.add("served", 0) >= (processes - dead) as i64);
            assert!(sim.now() <= Time(START).after(Duration::from_secs(dead as u64)), "slow to recover");
            Self::is_recovered(sim);
        });
    }

    /// One waits for a second while the other sleeps inside, and time may pass at any moment.
    fn deadline_scene(scene: &mut Scene) {
        Self::prepare(scene);
        scene.script(|sim| {
            Self::lock(sim);
            sim.enter();
            sim.nap();
            sim.leave();
            Self::unlock(sim);
        });
        scene.script(|sim| {
            if Self::lock_until(sim, seconds(sim, 1)) {
                sim.critical_section();
                Self::unlock(sim);
            }
        });
        scene.slow(1);
        scene.at_rest(Self::nothing_is_left);
    }

    /// Judged stale, stopped; another breaks and locks; the first goes on.
    fn two_breakers_scene(scene: &mut Scene) {
        Self::stale_lock(scene);
        Self::race(scene, 2);
    }

    /// The script and its subshell unlock, a third locks.
    fn double_unlock_scene(scene: &mut Scene) {
        Self::prepare(scene);
        let parent = scene.script(|sim| {
            Self::lock(sim);
            sim.fork(2);
            Self::unlock_if_ours(sim);
        });
        scene.subshell(parent, Self::unlock_if_ours);
        scene.script(Self::lock_and_unlock);
        scene.at_rest(|sim| {
            assert_eq!(sim.add("removed", 0), 1);
            assert_eq!(sim.add("served", 0), 1);
            Self::nothing_is_left(sim);
        });
    }

    /// The holder has gone, its subshell lives, and both the subshell and a stranger try.
    fn self_robbery_scene(scene: &mut Scene) {
        let parent = scene.script(|sim| {
            Self::lock(sim);
            sim.fork(2);
        });
        scene.subshell(parent, |sim| {
            assert!(!Self::try_lock(sim), "robbed itself");
            Self::unlock(sim);
        });
        scene.script(Self::lock_and_unlock);
        scene.at_rest(Self::nothing_is_left);
    }
}
