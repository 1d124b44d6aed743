//! The mutex and the weak mutex in all schedules. The tests named after a schedule of old come with the world in which
//! the rule that answers it does not hold, and there it must be caught.

use std::path::Path;
use std::time::Duration;

use interlock::base::{Deadline, Error, Name, Result, Time};
use interlock::primitive::mutex::{self, Unlocked};
use interlock::primitive::wait::Waited;
use interlock::primitive::wmutex;
use interlock::sys::{Inherit, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::scenes::{Lock, seconds};
use crate::world::{Deviation, Kernel, Node, Peer, START, Sim};

fn named(path: &str) -> Name {
    Name::of_link(path.as_bytes()).unwrap()
}

struct Mutex;

impl Lock for Mutex {
    fn call_lock(sim: &Sim, deadline: Deadline, inherit: Inherit) -> Result<Waited<()>> {
        mutex::lock(sim, &named("/m"), deadline, inherit)
    }

    fn call_unlock(sim: &Sim) -> Result<Unlocked> {
        mutex::unlock(sim, &named("/m"), false)
    }

    fn longest_wait(_: &Sim) -> Deadline {
        Deadline::Never
    }

    fn prepare(scene: &mut Scene) {
        scene.always(judged_before_removed);
    }

    fn is_recovered(sim: &Sim) {
        assert!(Self::try_lock(sim), "not recovered");
        Self::unlock(sim);
        let kernel = sim.machine().kernel();
        let left = kernel.files.tree();
        // A taker that died between making its link and renaming it, and nobody has taken over since.
        let is_swept_later = |(path, _): &(String, &Node)| path == "/.interlock";
        assert!(left.iter().all(is_swept_later) && left.len() <= 1, "left behind: {left:?}");
    }
}

struct WeakMutex;

impl Lock for WeakMutex {
    fn call_lock(sim: &Sim, deadline: Deadline, _: Inherit) -> Result<Waited<()>> {
        wmutex::lock(sim, &named("/w"), deadline)
    }

    fn call_unlock(sim: &Sim) -> Result<Unlocked> {
        wmutex::unlock(sim, &named("/w"))
    }

    fn longest_wait(_: &Sim) -> Deadline {
        Deadline::Never
    }
}

/// *always*: whoever is inside has its link there; whoever removes or replaces a link has read that very link.
fn judged_before_removed(kernel: &Kernel) {
    for (who, process) in kernel.processes.iter().enumerate() {
        assert!(!process.removed_unread, "process {who} removed another link than it has read");
    }
}

#[test]
fn two_processes() {
    Search::all("mutex, 2 processes")
        .holds(|scene| Mutex::race(scene, 2))
        .saw("symlink m: EEXIST")
        .saw("awake : Event");
}

#[test]
fn three_processes() {
    let search = Search::all("mutex, 3 processes");
    let search = if is_deep() { search } else { search.preemptions(3) };
    search.holds(|scene| Mutex::race(scene, 3)).saw("awake : Event");
}

#[test]
fn five_processes_at_random() {
    let many = if is_deep() { 300_000 } else { 10_000 };
    Search::all("mutex, 5 processes, random").random(many).holds(|scene| Mutex::race(scene, 5));
    Search::all("mutex, 5 processes, PCT").pct(many).holds(|scene| Mutex::race(scene, 5));
}

/// With all events lost the re-check makes progress.
#[test]
fn without_events() {
    Search::all("mutex, 2 processes, no events")
        .options(|options| options.has_events = false)
        .holds(|scene| {
            Mutex::all_are_served(scene, 2);
            scene.at_rest(|sim| assert!(sim.now() <= Time(START).after(Duration::from_secs(1))));
        })
        .saw("awake : Recheck");
}

/// A watch that begins after the last try misses the release in between.
#[test]
fn watch_after_the_last_try() {
    Search::all("mutex, late watch")
        .options(|options| options.deviation = Some(Deviation::LateWatch))
        .is_caught("a wake-up was lost", |scene| Mutex::race(scene, 2));
}

/// The articles' functions lock and unlock the same mutex.
#[test]
fn next_to_a_peer() {
    Search::all("mutex, a peer and 2 of ours").preemptions(if is_deep() { 4 } else { 2 }).holds(|scene| {
        scene.script(|sim| {
            let peer = Peer::at(sim, "/");
            assert!(peer.mutex_lock("m", 30));
            sim.critical_section();
            peer.mutex_unlock("m");
        });
        scene.script(Mutex::lock_and_unlock);
        scene.script(Mutex::lock_and_unlock);
        scene.at_rest(Mutex::nothing_is_left);
    });
}

// Crashes.

#[test]
fn one_of_two_is_killed() {
    Search::all("mutex, 2 processes, 1 killed")
        .holds(|scene| Mutex::race_with_kills(scene, 2, &[1]))
        .saw("rename m: ok")
        .saw("awake : Event");
}

/// The one that recovers dies, too.
#[test]
fn two_of_three_are_killed() {
    let search = Search::all("mutex, 3 processes, 2 killed");
    let search = search.preemptions(if is_deep() { 2 } else { 0 });
    search.holds(|scene| Mutex::race_with_kills(scene, 3, &[1, 2])).saw("rename m: ok");
}

#[test]
fn takers_of_a_stale_lock_are_killed() {
    Search::all("mutex, stale, 2 takers, 1 killed")
        .preemptions(if is_deep() { 6 } else { 3 })
        .holds(|scene| {
            Mutex::stale_lock(scene);
            Mutex::race_with_kills(scene, 2, &[2]);
        })
        .saw("symlink .interlock: EEXIST");
}

// Faults.

/// No false success, nothing left, and later calls work, whatever goes wrong once.
#[test]
fn every_call_fails_once() {
    let scene = |scene: &mut Scene| {
        Mutex::stale_lock(scene);
        scene.script(|sim| {
            sim.pause("begin");
            Mutex::lock_and_unlock_with_a_fault(sim, |error| matches!(error, Error::System { .. }));
        });
        scene.script(Mutex::lock_and_unlock);
        scene.at_rest(|sim| {
            assert!(sim.now() <= Time(START).after(Duration::from_secs(2)));
            assert!(Mutex::try_lock(sim));
            Mutex::unlock(sim);
        });
        scene.at_rest(Mutex::nothing_is_left);
    };
    Search::all("mutex, 1 fault").preemptions(if is_deep() { 3 } else { 1 }).faults(2, scene);
}

// Deadlines and signals.

/// At the deadline the lock is ours or nothing is left of the attempt.
#[test]
fn a_deadline_comes() {
    Search::all("mutex, deadline")
        .holds(|scene| {
            scene.script(|sim| {
                Mutex::lock(sim);
                sim.critical_section();
                sim.nap();
                Mutex::unlock(sim);
            });
            scene.script(|sim| {
                if Mutex::lock_until(sim, seconds(sim, 1)) {
                    sim.critical_section();
                    Mutex::unlock(sim);
                    sim.add("in time", 1);
                } else {
                    sim.add("too late", 1);
                }
            });
            scene.slow(1);
            scene.at_rest(Mutex::nothing_is_left);
        })
        .saw("awake : Deadline");
}

/// A signal while waiting: nothing is held, and the wait can be taken up again.
#[test]
fn a_signal_comes() {
    Search::all("mutex, signal")
        .holds(|scene| {
            scene.script(Mutex::lock_and_unlock);
            let waiter = scene.script(|sim| {
                loop {
                    match mutex::lock(sim, &named("/m"), Deadline::Never, Inherit::Programs) {
                        Ok(Waited::Done(())) => break,
                        Ok(Waited::Interrupted) => sim.take_signal(),
                        other => panic!("lock: {other:?}"),
                    }
                }
                sim.critical_section();
                Mutex::unlock(sim);
            });
            scene.signal(waiter);
            scene.at_rest(Mutex::nothing_is_left);
        })
        .saw("awake : Interrupted");
}

// The schedules that broke earlier drafts.

/// Judged stale, stopped; another breaks and locks; the first removes the fresh link.
#[test]
fn two_breakers() {
    Search::all("mutex, two-breakers").holds(Mutex::two_breakers_scene).saw("try_guard : false").saw("rename m: ok");
    Search::all("mutex, two-breakers, no guard")
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("removed another link", Mutex::two_breakers_scene);
}

/// Unlock reads its own link and is stopped; a subshell unlocks; a third locks; the first removes the third's.
#[test]
fn double_unlock() {
    Search::all("mutex, double-unlock").holds(Mutex::double_unlock_scene);
    Search::all("mutex, double-unlock, no guard")
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("removed another link", Mutex::double_unlock_scene);
}

/// The same with somebody who removes by force, and with one who removes a stale lock.
fn removal_scene(scene: &mut Scene, force: bool) {
    Mutex::stale_lock(scene);
    scene.always(judged_before_removed);
    scene.script(move |sim| match mutex::unlock(sim, &named("/m"), force) {
        Ok(_) | Err(Error::NotOwner { .. }) => {}
        other => panic!("unlock: {other:?}"),
    });
    scene.script(|sim| {
        Mutex::lock(sim);
        // By force it may be taken away at any time.
        match mutex::unlock(sim, &named("/m"), false) {
            Ok(_) => {}
            other => panic!("unlock: {other:?}"),
        }
    });
    scene.at_rest(Mutex::nothing_is_left);
}

#[test]
fn double_unlock_by_force_or_by_a_breaker() {
    for force in [true, false] {
        Search::all("mutex, removal of a stale lock").holds(move |scene| removal_scene(scene, force));
        Search::all("mutex, removal of a stale lock, no guard")
            .options(|options| options.deviation = Some(Deviation::NoGuard))
            .is_caught("removed another link", move |scene| removal_scene(scene, force));
    }
}

/// The holder lives, but its descriptors are closed.
fn mark_closed_scene(scene: &mut Scene) {
    scene.script(|sim| {
        Mutex::lock(sim);
        sim.enter();
        sim.exec_closing_all();
        sim.nap();
        sim.leave();
    });
    scene.script(|sim| {
        if Mutex::lock_until(sim, seconds(sim, 3)) {
            sim.critical_section();
            Mutex::unlock(sim);
        }
    });
}

/// The living holder exec'ed a program that closes all descriptors: not stale.
#[test]
fn mark_closed() {
    Search::all("mutex, mark-closed").holds(mark_closed_scene).saw("is_alive : true");
    Search::all("mutex, mark-closed, the mark is all")
        .options(|options| options.deviation = Some(Deviation::MarkIsEverything))
        .is_caught("two are inside", mark_closed_scene);
}

/// Probing through the parked or inherited descriptor sees no mark.
#[test]
fn self_robbery() {
    Search::all("mutex, self-robbery").holds(Mutex::self_robbery_scene);
    Search::all("mutex, self-robbery, blind to own marks")
        .options(|options| options.deviation = Some(Deviation::BlindToOwnMarks))
        .is_caught("robbed itself", Mutex::self_robbery_scene);
}

/// The directory is taken away and made anew while the lock in it is being removed.
fn swapped_directory_scene(scene: &mut Scene) {
    scene.always(judged_before_removed);
    scene.before(|sim| {
        let root = sim.open_dir(Path::new("/")).unwrap();
        sim.make_dir(&root, "d".as_ref()).unwrap();
        sim.make_dir(&root, "new".as_ref()).unwrap();
        let owner = sim.machine().script();
        let end = mutex::lock(&owner, &named("/new/m"), Deadline::Never, Inherit::Programs);
        assert_eq!(end, Ok(Waited::Done(())));
    });
    scene.script(|sim| {
        // The directory may be missing for a moment.
        let _ = mutex::lock(sim, &named("/d/m"), Deadline::At(sim.now()), Inherit::Programs);
        let _ = mutex::unlock(sim, &named("/d/m"), false);
    });
    scene.script(|sim| {
        let root = sim.open_dir(Path::new("/")).unwrap();
        let _ = sim.rename(&root, "d".as_ref(), &root, "old".as_ref());
        let _ = sim.rename(&root, "new".as_ref(), &root, "d".as_ref());
    });
}

#[test]
fn swapped_directory() {
    let search = |name| Search::all(name).options(everything_changes);
    search("mutex, swapped-directory").holds(swapped_directory_scene);
    search("mutex, swapped-directory, by path")
        .options(|options| options.deviation = Some(Deviation::DirectoryByPath))
        .is_caught("removed another link", swapped_directory_scene);
}

/// One of the two is a client of the file server, the other works on the server.
fn other_kernel_scene(scene: &mut Scene) {
    let client = scene.script(|sim| {
        Mutex::lock(sim);
        sim.critical_section();
        Mutex::unlock(sim);
    });
    scene.before(|sim| {
        let mut kernel = sim.machine().kernel();
        kernel.processes[client].host = 1;
        kernel.processes[client].identity.place = 8;
    });
    scene.script(Mutex::lock_and_unlock);
    scene.at_rest(Mutex::nothing_is_left);
}

/// A network client's lock judged on the server.
#[test]
fn other_kernel() {
    Search::all("mutex, other-kernel").options(|options| options.can_mark = false).holds(other_kernel_scene);
    Search::all("mutex, other-kernel, marks trusted")
        .options(|options| {
            options.can_mark = false;
            options.deviation = Some(Deviation::MarksAcrossHosts);
        })
        .is_caught("two are inside", other_kernel_scene);
}

// The weak mutex.

/// *always* one is inside; *eventually* all are served, without the re-check.
#[test]
fn weak_three_processes() {
    Search::all("weak mutex, 3 processes")
        .preemptions(if is_deep() { u32::MAX } else { 3 })
        .holds(|scene| WeakMutex::race(scene, 3))
        .saw("awake : Event");
}

/// A gate: shut by one, passed once per opening, and shut although its maker is dead.
#[test]
fn weak_as_a_gate() {
    Search::all("weak mutex, gate")
        .holds(|scene| {
            WeakMutex::stale_lock(scene);
            for _ in 0..2 {
                scene.script(|sim| {
                    if WeakMutex::lock_until(sim, seconds(sim, 1)) {
                        sim.add("passed", 1);
                    }
                });
            }
            scene.script(WeakMutex::unlock);
            scene.at_rest(|sim| assert_eq!(sim.add("passed", 0), 1));
        })
        .saw("awake : Deadline");
}
