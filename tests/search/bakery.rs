//! Lamport's bakery in all schedules: exclusion, progress, first come first served; with crashes and torn reads.

use std::path::Path;

use interlock::base::{Deadline, Error, Name, Result};
use interlock::primitive::bakery;
use interlock::primitive::mutex::Unlocked;
use interlock::primitive::wait::Waited;
use interlock::sys::{Inherit, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::scenes::{Lock, seconds};
use crate::world::{Deviation, Kernel, Node, Sim, State};

fn name() -> Name {
    Name::of_directory(b"/b").unwrap()
}

/// Directories and files come and go, too.
fn search(name: &str) -> Search {
    Search::all(name).options(|options| options.files_stay = false)
}

struct Bakery;

impl Lock for Bakery {
    fn call_lock(sim: &Sim, deadline: Deadline, _: Inherit) -> Result<Waited<()>> {
        bakery::lock(sim, &name(), deadline)
    }

    fn call_unlock(sim: &Sim) -> Result<Unlocked> {
        bakery::unlock(sim, &name(), false)
    }

    fn longest_wait(sim: &Sim) -> Deadline {
        seconds(sim, 5)
    }

    /// The shop is open, so that its making is not searched again and again.
    fn prepare(scene: &mut Scene) {
        scene.before(|sim| {
            let root = sim.open_dir(Path::new("/")).unwrap();
            sim.make_dir(&root, "b".as_ref()).unwrap();
        });
        scene.always(first_come_first_served);
    }

    /// But the shop.
    fn nothing_is_left(sim: &Sim) {
        let kernel = sim.machine().kernel();
        let left = kernel.files.tree();
        assert!(left.iter().all(|(path, _)| path == "/b"), "left behind: {left:?}");
        assert!(kernel.opens.is_empty(), "descriptors left: {:?}", kernel.opens);
    }
}

/// *always*: who has left the doorway before another came to it enters first, if it lives and does not give up.
fn first_come_first_served(kernel: &Kernel) {
    let Ok(shop) = kernel.files.resolve(Path::new("/b")) else { return };
    let tickets = kernel.files.names(shop).unwrap();
    let mut facts = kernel.facts.borrow_mut();
    for (name, &ticket) in tickets {
        let Node::File(record) = &kernel.files.entry(ticket).node else { continue };
        let is_entering = record.first() == Some(&b'1');
        let has_number =
            record.get(2..22).is_some_and(|digits| digits.iter().any(|digit| (b'1'..=b'9').contains(digit)));
        let is_served = record.get(23) == Some(&b'1');
        if is_entering && facts.insert(("began", ticket, 0)) {
            let done: Vec<_> = facts.iter().filter(|fact| fact.0 == "done").map(|fact| fact.1).collect();
            facts.extend(done.into_iter().map(|earlier| ("before", earlier, ticket)));
        }
        if !is_entering && has_number {
            facts.insert(("done", ticket, 0));
        }
        if is_served && facts.insert(("served", ticket, 0)) {
            for (waiting, &other) in tickets {
                let was_before = facts.contains(&("before", other, ticket)) && !facts.contains(&("served", other, 0));
                assert!(!was_before || is_dead(kernel, waiting), "{name:?} was served before {waiting:?}");
            }
        }
    }
}

fn is_dead(kernel: &Kernel, ticket: &std::ffi::OsStr) -> bool {
    let holder = ticket.to_str().and_then(|name| name.split(',').nth(2)).and_then(|pid| pid.parse().ok());
    !kernel.processes.iter().any(|one| Some(one.identity.pid) == holder && one.state != State::Dead)
}

#[test]
fn two_customers() {
    search("bakery, 2 customers").holds(|scene| Bakery::race(scene, 2)).saw("awake : Event");
}

#[test]
fn three_customers() {
    search("bakery, 3 customers")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(|scene| Bakery::race(scene, 3))
        .saw("awake : Event");
}

/// While a number is being written it reads as any value.
#[test]
fn torn_numbers() {
    for torn in [0, 1, 1_000_000] {
        let torn_search = || search("bakery, torn numbers").options(|options| options.torn_number = Some(torn));
        torn_search().preemptions(if is_deep() { u32::MAX } else { 3 }).holds(|scene| Bakery::race(scene, 2));
        torn_search().preemptions(if is_deep() { 3 } else { 1 }).holds(|scene| Bakery::race(scene, 3));
    }
}

/// Where marks cannot be seen by all.
#[test]
fn without_marks() {
    search("bakery, 2 customers, no marks")
        .options(|options| options.can_mark = false)
        .preemptions(if is_deep() { u32::MAX } else { 3 })
        .holds(|scene| Bakery::race(scene, 2));
}

#[test]
fn without_events() {
    search("bakery, 2 customers, no events")
        .options(|options| options.has_events = false)
        .preemptions(if is_deep() { u32::MAX } else { 3 })
        .holds(|scene| {
            Bakery::prepare(scene);
            Bakery::all_are_served(scene, 2);
        })
        .saw("awake : Recheck");
}

/// Who comes first opens the shop.
#[test]
fn two_first_customers() {
    search("bakery, 2 first customers")
        .options(everything_changes)
        .preemptions(3)
        .holds(|scene| {
            Bakery::all_are_served(scene, 2);
        })
        .saw("make_dir b: EEXIST");
}

/// Of two that try once at the same time one enters.
#[test]
fn two_try_once() {
    search("bakery, 2 try once").preemptions(if is_deep() { u32::MAX } else { 3 }).holds(|scene| {
        Bakery::prepare(scene);
        for _ in 0..2 {
            scene.script(|sim| {
                if Bakery::try_lock(sim) {
                    sim.add("entered", 1);
                    sim.critical_section();
                    Bakery::unlock(sim);
                }
            });
        }
        scene.at_rest(|sim| {
            assert!(sim.add("entered", 0) > 0, "both gave up");
            Bakery::nothing_is_left(sim);
        });
    });
}

// Crashes.

#[test]
fn one_of_two_is_killed() {
    search("bakery, 2 customers, 1 killed")
        .preemptions(if is_deep() { u32::MAX } else { 2 })
        .holds(|scene| Bakery::race_with_kills(scene, 2, &[1]))
        .saw("awake : Event");
}

#[test]
fn of_three_some_are_killed() {
    search("bakery, 3 customers, 1 killed")
        .preemptions(if is_deep() { 2 } else { 0 })
        .holds(|scene| Bakery::race_with_kills(scene, 3, &[1]));
    if is_deep() {
        search("bakery, 3 customers, 2 killed")
            .preemptions(1)
            .holds(|scene| Bakery::race_with_kills(scene, 3, &[1, 2]));
    }
}

/// A dead customer's half-written number is no number.
#[test]
fn one_is_killed_while_writing() {
    search("bakery, torn numbers, 1 of 2 killed")
        .options(|options| options.torn_number = Some(1))
        .preemptions(if is_deep() { u32::MAX } else { 1 })
        .holds(|scene| Bakery::race_with_kills(scene, 2, &[1]));
}

// Faults.

#[test]
fn every_call_fails_once() {
    let scene = |scene: &mut Scene| {
        Bakery::prepare(scene);
        scene.script(|sim| {
            Bakery::lock_and_unlock_with_a_fault(sim, |error| matches!(error, Error::System { .. }));
        });
        scene.script(Bakery::lock_and_unlock);
        scene.at_rest(Bakery::is_recovered);
    };
    search("bakery, 1 fault").preemptions(if is_deep() { 2 } else { 0 }).faults(1, scene);
}

// Deadlines and signals.

#[test]
fn a_deadline_comes() {
    search("bakery, deadline")
        .preemptions(if is_deep() { u32::MAX } else { 2 })
        .holds(Bakery::deadline_scene)
        .saw("awake : Deadline");
}

/// A trap's `return` or Ctrl-C: the call does not go on, and its process lives.
fn jump_scene(scene: &mut Scene) {
    Bakery::prepare(scene);
    scene.script(Bakery::lock_and_unlock);
    let jumper = scene.script(|sim| match bakery::lock(sim, &name(), Deadline::Never) {
        Ok(Waited::Done(())) => {
            sim.critical_section();
            Bakery::unlock(sim);
        }
        Ok(Waited::Interrupted) => {
            sim.take_signal();
            (0..8).for_each(|_| sim.nap());
        }
        other => panic!("lock: {other:?}"),
    });
    scene.signal(jumper);
    scene.script(Bakery::lock_and_unlock);
    scene.at_rest(|sim| assert_eq!(sim.add("served", 0), 2));
}

/// The ticket of a living process that has left: everybody behind waits for ever.
#[test]
fn jump_with_ticket() {
    search("bakery, jump-with-ticket").preemptions(if is_deep() { 2 } else { 0 }).holds(jump_scene);
    search("bakery, jump-with-ticket, ticket kept")
        .preemptions(1)
        .options(|options| options.deviation = Some(Deviation::LeftAtSignal))
        .is_caught("not served", jump_scene);
}

/// A trap calls `bakery_lock` on the same directory.
fn nested_scene(scene: &mut Scene) {
    Bakery::prepare(scene);
    scene.script(Bakery::lock_and_unlock);
    let waiter = scene.script(|sim| {
        while bakery::lock(sim, &name(), Deadline::Never) == Ok(Waited::Interrupted) {
            sim.take_signal();
            Bakery::lock_and_unlock(sim);
        }
        sim.critical_section();
        Bakery::unlock(sim);
    });
    scene.signal(waiter);
    scene.at_rest(Bakery::nothing_is_left);
}

#[test]
fn nested() {
    search("bakery, nested").preemptions(if is_deep() { 4 } else { 1 }).holds(nested_scene).saw("awake : Interrupted");
    search("bakery, nested, ticket kept")
        .preemptions(1)
        .options(|options| options.deviation = Some(Deviation::LeftAtSignal))
        .is_caught("not served", nested_scene);
}

// Subshells.

/// The parent locks, its subshell and itself unlock, somebody else waits.
#[test]
fn double_unlock() {
    search("bakery, double-unlock").preemptions(if is_deep() { 4 } else { 2 }).holds(Bakery::double_unlock_scene);
}

/// A subshell enters and dies there; the script unlocks, while another is on its way in.
#[test]
fn a_dead_subshell_was_inside() {
    search("bakery, dead subshell").preemptions(if is_deep() { 4 } else { 2 }).holds(|scene| {
        Bakery::prepare(scene);
        let parent = scene.script(|sim| {
            sim.fork(2);
            match bakery::unlock(sim, &name(), false) {
                Ok(_) | Err(Error::NotOwner { .. }) => {}
                other => panic!("unlock: {other:?}"),
            }
        });
        scene.subshell(parent, Bakery::lock);
        scene.script(Bakery::lock_and_unlock);
        scene.at_rest(Bakery::is_recovered);
    });
}

// What the algorithm rests on, taken away.

fn is_caught(name: &str, deviation: Deviation) {
    search(name)
        .options(|options| options.deviation = Some(deviation))
        .is_caught("two are inside", |scene| Bakery::race(scene, 2));
}

/// The article's own example: two compute the same number, and the one with priority is interrupted before writing it.
#[test]
fn no_entering() {
    is_caught("bakery, no-entering", Deviation::NoEntering);
}

/// A reader that has copied the number before it looks at the flag, as one torn read of both can.
#[test]
fn one_record_and_number_first() {
    is_caught("bakery, one-record, number-first", Deviation::NumberBeforeFlag);
}
