//! The bakery in all schedules.

use std::time::Duration;

use interlock::base::{Deadline, Error, Name, Time};
use interlock::primitive::bakery;
use interlock::primitive::mutex::Unlocked;
use interlock::primitive::wait::Waited;
use interlock::sys::World;

use crate::explore::{Scene, Search, is_deep};
use crate::world::{Deviation, START, Sim, Who};

fn name() -> Name {
    Name::of_directory(b"/b").unwrap()
}

fn search(name: &str) -> Search {
    Search::all(name).options(|options| options.files_stay = false)
}

/// Waits again after each signal, as a trap without a jump does.
fn lock(sim: &Sim) {
    loop {
        match bakery::lock(sim, &name(), Deadline::Never) {
            Ok(Waited::Done(())) => return,
            Ok(Waited::Interrupted) => sim.take_signal(),
            other => panic!("lock: {other:?}"),
        }
    }
}

fn unlock(sim: &Sim) {
    assert_eq!(bakery::unlock(sim, &name(), false), Ok(Unlocked::Removed));
}

fn lock_and_unlock(sim: &Sim) {
    lock(sim);
    sim.critical_section();
    unlock(sim);
    sim.add("served", 1);
}

fn open_shop(scene: &mut Scene) {
    scene.before(|sim| {
        let root = sim.open_dir("/".as_ref()).unwrap();
        sim.make_dir(&root, "b".as_ref()).unwrap();
    });
}

fn only_the_shop_is_left(sim: &Sim) {
    let kernel = sim.machine().kernel();
    assert_eq!(kernel.files.tree().len(), 1, "left behind: {:?}", kernel.files.tree());
}

/// *always* one is inside; *eventually* all are served, without the re-check, and no ticket is left.
fn race(scene: &mut Scene, processes: usize) {
    open_shop(scene);
    (0..processes).for_each(|_| drop(scene.script(lock_and_unlock)));
    scene.at_rest(move |sim| {
        assert_eq!(sim.now(), Time(START), "a wake-up was lost and the re-check had to help");
        assert_eq!(sim.add("served", 0), processes as i64);
        only_the_shop_is_left(sim);
    });
}

#[test]
fn two_processes() {
    search("bakery, 2 processes")
        .preemptions(if is_deep() { u32::MAX } else { 4 })
        .holds(|scene| race(scene, 2))
        .saw("awake : Event");
}

#[test]
fn three_processes() {
    search("bakery, 3 processes").preemptions(if is_deep() { 3 } else { 1 }).holds(|scene| race(scene, 3));
    let many = if is_deep() { 100_000 } else { 2_000 };
    search("bakery, 4 processes, random").random(many).holds(|scene| race(scene, 4));
    search("bakery, 4 processes, PCT").pct(many).holds(|scene| race(scene, 4));
}

/// The killed one stands in nobody's way, wherever it was.
fn race_with_kills(scene: &mut Scene, processes: usize, victims: &[Who]) {
    open_shop(scene);
    (0..processes).for_each(|_| drop(scene.script(lock_and_unlock)));
    victims.iter().for_each(|&victim| scene.kill(victim));
    let dead = victims.len();
    scene.at_rest(move |sim| {
        assert!(sim.add("served", 0) >= (processes - dead) as i64);
        assert!(sim.now() <= Time(START).after(Duration::from_secs(dead as u64)), "slow to recover");
        lock(sim);
        unlock(sim);
    });
}

#[test]
fn one_of_two_is_killed() {
    search("bakery, 2 processes, 1 killed")
        .preemptions(if is_deep() { 3 } else { 1 })
        .holds(|scene| race_with_kills(scene, 2, &[1]));
}

#[test]
fn two_of_three_are_killed() {
    let search = search("bakery, 3 processes, 2 killed");
    let search = if is_deep() { search.preemptions(0) } else { search.random(5_000) };
    search.holds(|scene| race_with_kills(scene, 3, &[1, 2]));
}

/// No false success, and later calls work, whatever goes wrong once.
#[test]
fn every_call_fails_once() {
    let scene = |scene: &mut Scene| {
        open_shop(scene);
        scene.script(|sim| {
            sim.pause("begin");
            match bakery::lock(sim, &name(), Deadline::Never) {
                Ok(Waited::Done(())) => {}
                Err(Error::System { .. }) => lock(sim),
                other => panic!("lock: {other:?}"),
            }
            sim.critical_section();
            match bakery::unlock(sim, &name(), false) {
                Ok(Unlocked::Removed) => {}
                Err(Error::System { .. }) => unlock(sim),
                other => panic!("unlock: {other:?}"),
            }
        });
        scene.script(lock_and_unlock);
        scene.at_rest(|sim| {
            lock(sim);
            unlock(sim);
        });
    };
    search("bakery, 1 fault").preemptions(if is_deep() { 1 } else { 0 }).faults(1, scene);
}

/// At the deadline the turn is ours, or no ticket is left.
#[test]
fn a_deadline_comes() {
    search("bakery, deadline").preemptions(if is_deep() { 4 } else { 2 }).holds(|scene| {
        open_shop(scene);
        scene.script(|sim| {
            lock(sim);
            sim.enter();
            sim.nap();
            sim.nap();
            sim.leave();
            unlock(sim);
        });
        scene.script(|sim| {
            let deadline = Deadline::At(sim.now().after(Duration::from_secs(1)));
            match bakery::lock(sim, &name(), deadline) {
                Ok(Waited::Done(())) => {
                    sim.critical_section();
                    unlock(sim);
                }
                Ok(Waited::TimedOut) => {}
                other => panic!("lock: {other:?}"),
            }
        });
        scene.at_rest(only_the_shop_is_left);
    });
}

// The schedules that broke earlier drafts.

/// Entering new, number old, in one torn read; or a reader that copies the number before it looks whether somebody is
/// entering: two inside.
#[test]
fn one_record_and_number_first() {
    search("bakery, number before flag")
        .preemptions(3)
        .options(|options| options.deviation = Some(Deviation::NumberBeforeFlag))
        .is_caught("two are inside", |scene| race(scene, 2));
}

/// The article's own example of why the flag is needed.
#[test]
fn no_entering() {
    search("bakery, no-entering")
        .preemptions(3)
        .options(|options| options.deviation = Some(Deviation::NoEntering))
        .is_caught("two are inside", |scene| race(scene, 2));
}

/// The first is interrupted while waiting, returns from there and lives on.
fn jump_scene(scene: &mut Scene) {
    open_shop(scene);
    scene.script(lock_and_unlock);
    let jumper = scene.script(|sim| {
        match bakery::lock(sim, &name(), Deadline::Never) {
            Ok(Waited::Done(())) => {
                sim.critical_section();
                unlock(sim);
            }
            // A trap's `return`: it is not called again.
            Ok(Waited::Interrupted) => sim.take_signal(),
            other => panic!("lock: {other:?}"),
        }
        (0..30).for_each(|_| sim.nap());
    });
    scene.script(|sim| {
        lock_and_unlock(sim);
        assert!(sim.now() <= Time(START).after(Duration::from_secs(2)), "waited for one that is not there any more");
    });
    scene.signal(jumper);
}

/// A trap's `return` or Ctrl-C leaves the ticket of a living process: everybody behind waits for ever.
#[test]
fn jump_with_ticket() {
    let few = if is_deep() { 2 } else { 0 };
    search("bakery, jump-with-ticket").preemptions(few).holds(jump_scene);
    search("bakery, jump-with-ticket, left behind")
        .preemptions(0)
        .options(|options| options.deviation = Some(Deviation::LeftAtSignal))
        .is_caught("waited for one", jump_scene);
}

/// A trap that runs while waiting calls `bakery_lock` on the same directory.
fn nested_scene(scene: &mut Scene) {
    open_shop(scene);
    scene.script(lock_and_unlock);
    let trapped = scene.script(|sim| {
        loop {
            match bakery::lock(sim, &name(), Deadline::Never) {
                Ok(Waited::Done(())) => break,
                Ok(Waited::Interrupted) => {
                    sim.take_signal();
                    lock_and_unlock(sim);
                }
                other => panic!("lock: {other:?}"),
            }
        }
        sim.critical_section();
        unlock(sim);
    });
    scene.signal(trapped);
}

#[test]
fn nested() {
    search("bakery, nested").preemptions(if is_deep() { 3 } else { 1 }).holds(nested_scene);
    search("bakery, nested, left behind")
        .preemptions(2)
        .options(|options| options.deviation = Some(Deviation::LeftAtSignal))
        .is_caught("no progress", nested_scene);
}
