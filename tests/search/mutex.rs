//! The mutex and the weak mutex in all schedules. The tests named after a schedule of old come with the world in which
//! the rule that answers it does not hold, and there it must be caught.

use std::path::Path;
use std::time::Duration;

use interlock::base::{Deadline, Error, Name, Time};
use interlock::primitive::mutex::{self, Unlocked};
use interlock::primitive::wait::Waited;
use interlock::primitive::wmutex;
use interlock::sys::{Inherit, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::world::{Deviation, Kernel, Node, Peer, START, Sim, Who};

fn named(path: &str) -> Name {
    Name::of_link(path.as_bytes()).unwrap()
}

fn lock_until(sim: &Sim, path: &str, deadline: Deadline) -> bool {
    match mutex::lock(sim, &named(path), deadline, Inherit::Programs) {
        Ok(Waited::Done(())) => true,
        Ok(Waited::TimedOut) => false,
        other => panic!("lock: {other:?}"),
    }
}

fn lock(sim: &Sim) {
    assert!(lock_until(sim, "/m", Deadline::Never));
}

fn try_lock(sim: &Sim) -> bool {
    lock_until(sim, "/m", Deadline::At(sim.now()))
}

fn unlock(sim: &Sim) {
    assert_eq!(mutex::unlock(sim, &named("/m"), false), Ok(Unlocked::Removed));
}

fn seconds(sim: &Sim, seconds: u64) -> Deadline {
    Deadline::At(sim.now().after(Duration::from_secs(seconds)))
}

fn lock_and_unlock(sim: &Sim) {
    lock(sim);
    sim.critical_section();
    unlock(sim);
    sim.add("served", 1);
}

/// *always*: whoever is inside has its link there; whoever removes or replaces a link has read that very link.
fn judged_before_removed(kernel: &Kernel) {
    for (who, process) in kernel.processes.iter().enumerate() {
        assert!(!process.removed_unread, "process {who} removed another link than it has read");
    }
}

fn nothing_is_left(sim: &Sim) {
    let kernel = sim.machine().kernel();
    assert_eq!(kernel.files.tree().len(), 0, "left behind: {:?}", kernel.files.tree());
    assert!(kernel.opens.is_empty(), "descriptors left: {:?}", kernel.opens);
}

fn no_time_has_passed(sim: &Sim) {
    assert_eq!(sim.now(), Time(START), "a wake-up was lost and the re-check had to help");
}

/// A script that died with the lock.
fn stale_lock(scene: &mut Scene) {
    scene.before(|sim| {
        let dead = sim.machine().script();
        lock(&dead);
        sim.kill(dead.who());
    });
}

/// *always* one is inside; *sometimes* one finds the lock taken, sleeps and is woken; *eventually* all are served,
/// without the re-check, and nothing is left.
fn race(scene: &mut Scene, processes: usize) {
    scene.always(judged_before_removed);
    (0..processes).for_each(|_| {
        scene.script(lock_and_unlock);
    });
    scene.at_rest(move |sim| {
        no_time_has_passed(sim);
        assert_eq!(sim.add("served", 0), processes as i64);
        nothing_is_left(sim);
    });
}

#[test]
fn two_processes() {
    Search::all("mutex, 2 processes").holds(|scene| race(scene, 2)).saw("symlink m: EEXIST").saw("awake : Event");
}

#[test]
fn three_processes() {
    let search = Search::all("mutex, 3 processes");
    let search = if is_deep() { search } else { search.preemptions(3) };
    search.holds(|scene| race(scene, 3)).saw("awake : Event");
}

#[test]
fn five_processes_at_random() {
    let many = if is_deep() { 300_000 } else { 10_000 };
    Search::all("mutex, 5 processes, random").random(many).holds(|scene| race(scene, 5));
    Search::all("mutex, 5 processes, PCT").pct(many).holds(|scene| race(scene, 5));
}

/// With all events lost the re-check makes progress.
#[test]
fn without_events() {
    Search::all("mutex, 2 processes, no events")
        .options(|options| options.has_events = false)
        .holds(|scene| {
            scene.script(lock_and_unlock);
            scene.script(lock_and_unlock);
            scene.at_rest(|sim| {
                assert_eq!(sim.add("served", 0), 2);
                assert!(sim.now() <= Time(START).after(Duration::from_secs(1)));
                nothing_is_left(sim);
            });
        })
        .saw("awake : Recheck");
}

/// A watch that begins after the last try misses the release in between.
#[test]
fn watch_after_the_last_try() {
    Search::all("mutex, late watch")
        .options(|options| options.deviation = Some(Deviation::LateWatch))
        .is_caught("a wake-up was lost", |scene| race(scene, 2));
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
        scene.script(lock_and_unlock);
        scene.script(lock_and_unlock);
        scene.at_rest(nothing_is_left);
    });
}

// Crashes.

/// The killed one holds nothing any more, and what it left does not stop the others.
fn race_with_kills(scene: &mut Scene, processes: usize, victims: &[Who]) {
    scene.always(judged_before_removed);
    (0..processes).for_each(|_| {
        scene.script(lock_and_unlock);
    });
    victims.iter().for_each(|&victim| scene.kill(victim));
    let dead = victims.len();
    scene.at_rest(move |sim| {
        assert!(sim.add("served", 0) >= (processes - dead) as i64);
        assert!(sim.now() <= Time(START).after(Duration::from_secs(dead as u64)), "slow to recover");
        assert!(try_lock(sim), "not recovered");
        unlock(sim);
        let kernel = sim.machine().kernel();
        let left = kernel.files.tree();
        // A taker that died between making its link and renaming it, and nobody has taken over since.
        let is_swept_later = |(path, _): &(String, &Node)| path == "/.interlock";
        assert!(left.iter().all(is_swept_later) && left.len() <= 1, "left behind: {left:?}");
    });
}

#[test]
fn one_of_two_is_killed() {
    Search::all("mutex, 2 processes, 1 killed")
        .holds(|scene| race_with_kills(scene, 2, &[1]))
        .saw("rename m: ok")
        .saw("awake : Event");
}

/// The one that recovers dies, too.
#[test]
fn two_of_three_are_killed() {
    let search = Search::all("mutex, 3 processes, 2 killed");
    let search = search.preemptions(if is_deep() { 2 } else { 0 });
    search.holds(|scene| race_with_kills(scene, 3, &[1, 2])).saw("rename m: ok");
}

#[test]
fn takers_of_a_stale_lock_are_killed() {
    Search::all("mutex, stale, 2 takers, 1 killed")
        .preemptions(if is_deep() { 6 } else { 3 })
        .holds(|scene| {
            stale_lock(scene);
            race_with_kills(scene, 2, &[2]);
        })
        .saw("symlink .interlock: EEXIST");
}

// Faults.

/// No false success, nothing left, and later calls work, whatever goes wrong once.
#[test]
fn every_call_fails_once() {
    let scene = |scene: &mut Scene| {
        stale_lock(scene);
        scene.script(|sim| {
            sim.pause("begin");
            match mutex::lock(sim, &named("/m"), Deadline::Never, Inherit::Nobody) {
                Ok(Waited::Done(())) => {}
                Err(Error::System { .. }) => lock(sim),
                other => panic!("lock: {other:?}"),
            }
            sim.critical_section();
            match mutex::unlock(sim, &named("/m"), false) {
                Ok(Unlocked::Removed) => {}
                Err(Error::System { .. }) => unlock(sim),
                other => panic!("unlock: {other:?}"),
            }
        });
        scene.script(lock_and_unlock);
        scene.at_rest(|sim| {
            assert!(sim.now() <= Time(START).after(Duration::from_secs(2)));
            assert!(try_lock(sim));
            unlock(sim);
        });
        scene.at_rest(nothing_is_left);
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
                lock(sim);
                sim.critical_section();
                sim.nap();
                unlock(sim);
            });
            scene.script(|sim| {
                if lock_until(sim, "/m", seconds(sim, 1)) {
                    sim.critical_section();
                    unlock(sim);
                    sim.add("in time", 1);
                } else {
                    sim.add("too late", 1);
                }
            });
            scene.slow(1);
            scene.at_rest(nothing_is_left);
        })
        .saw("awake : Deadline");
}

/// A signal while waiting: nothing is held, and the wait can be taken up again.
#[test]
fn a_signal_comes() {
    Search::all("mutex, signal")
        .holds(|scene| {
            scene.script(lock_and_unlock);
            let waiter = scene.script(|sim| {
                loop {
                    match mutex::lock(sim, &named("/m"), Deadline::Never, Inherit::Programs) {
                        Ok(Waited::Done(())) => break,
                        Ok(Waited::Interrupted) => sim.take_signal(),
                        other => panic!("lock: {other:?}"),
                    }
                }
                sim.critical_section();
                unlock(sim);
            });
            scene.signal(waiter);
            scene.at_rest(nothing_is_left);
        })
        .saw("awake : Interrupted");
}

// The schedules that broke earlier drafts.

fn two_breakers_scene(scene: &mut Scene) {
    stale_lock(scene);
    race(scene, 2);
}

/// Judged stale, stopped; another breaks and locks; the first removes the fresh link.
#[test]
fn two_breakers() {
    Search::all("mutex, two-breakers").holds(two_breakers_scene).saw("try_guard : false").saw("rename m: ok");
    Search::all("mutex, two-breakers, no guard")
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("removed another link", two_breakers_scene);
}

/// The script and its subshell unlock, a third locks.
fn double_unlock_scene(scene: &mut Scene) {
    scene.always(judged_before_removed);
    let unlock_once = |sim: &Sim| match mutex::unlock(sim, &named("/m"), false) {
        Ok(Unlocked::Removed) => drop(sim.add("removed", 1)),
        Ok(Unlocked::NotLocked) | Err(Error::NotOwner { .. }) => {}
        other => panic!("unlock: {other:?}"),
    };
    let parent = scene.script(move |sim| {
        lock(sim);
        sim.fork(2);
        unlock_once(sim);
    });
    scene.subshell(parent, unlock_once);
    scene.script(lock_and_unlock);
    scene.at_rest(|sim| {
        assert_eq!(sim.add("removed", 0), 1);
        nothing_is_left(sim);
    });
}

/// Unlock reads its own link and is stopped; a subshell unlocks; a third locks; the first removes the third's.
#[test]
fn double_unlock() {
    Search::all("mutex, double-unlock").holds(double_unlock_scene);
    Search::all("mutex, double-unlock, no guard")
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("removed another link", double_unlock_scene);
}

/// The same with somebody who removes by force, and with one who removes a stale lock.
fn removal_scene(scene: &mut Scene, force: bool) {
    stale_lock(scene);
    scene.always(judged_before_removed);
    scene.script(move |sim| match mutex::unlock(sim, &named("/m"), force) {
        Ok(_) | Err(Error::NotOwner { .. }) => {}
        other => panic!("unlock: {other:?}"),
    });
    scene.script(|sim| {
        lock(sim);
        // By force it may be taken away at any time.
        match mutex::unlock(sim, &named("/m"), false) {
            Ok(_) => {}
            other => panic!("unlock: {other:?}"),
        }
    });
    scene.at_rest(nothing_is_left);
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
        lock(sim);
        sim.enter();
        sim.exec_closing_all();
        sim.nap();
        sim.leave();
    });
    scene.script(|sim| {
        if lock_until(sim, "/m", seconds(sim, 3)) {
            sim.critical_section();
            unlock(sim);
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

/// The holder has gone, its subshell lives, and both the subshell and a stranger try.
fn self_robbery_scene(scene: &mut Scene) {
    let parent = scene.script(|sim| {
        lock(sim);
        sim.fork(2);
    });
    scene.subshell(parent, |sim| {
        assert!(!try_lock(sim), "robbed itself");
        unlock(sim);
    });
    scene.script(lock_and_unlock);
    scene.at_rest(nothing_is_left);
}

/// Probing through the parked or inherited descriptor sees no mark.
#[test]
fn self_robbery() {
    Search::all("mutex, self-robbery").holds(self_robbery_scene);
    Search::all("mutex, self-robbery, blind to own marks")
        .options(|options| options.deviation = Some(Deviation::BlindToOwnMarks))
        .is_caught("robbed itself", self_robbery_scene);
}

/// The directory is taken away and made anew while the lock in it is being removed.
fn swapped_directory_scene(scene: &mut Scene) {
    scene.always(judged_before_removed);
    scene.before(|sim| {
        let root = sim.open_dir(Path::new("/")).unwrap();
        sim.make_dir(&root, "d".as_ref()).unwrap();
        sim.make_dir(&root, "new".as_ref()).unwrap();
        assert!(lock_until(&sim.machine().script(), "/new/m", Deadline::Never));
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
        lock(sim);
        sim.critical_section();
        unlock(sim);
    });
    scene.before(|sim| {
        let mut kernel = sim.machine().kernel();
        kernel.processes[client].host = 1;
        kernel.processes[client].identity.place = 8;
    });
    scene.script(lock_and_unlock);
    scene.at_rest(nothing_is_left);
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

fn weak(path: &str) -> Name {
    named(path)
}

/// *always* one is inside; *eventually* all are served, without the re-check.
#[test]
fn weak_three_processes() {
    Search::all("weak mutex, 3 processes")
        .preemptions(if is_deep() { u32::MAX } else { 3 })
        .holds(|scene| {
            for _ in 0..3 {
                scene.script(|sim| {
                    assert_eq!(wmutex::lock(sim, &weak("/w"), Deadline::Never), Ok(Waited::Done(())));
                    sim.critical_section();
                    assert_eq!(wmutex::unlock(sim, &weak("/w")), Ok(Unlocked::Removed));
                    sim.add("served", 1);
                });
            }
            scene.at_rest(|sim| {
                no_time_has_passed(sim);
                assert_eq!(sim.add("served", 0), 3);
                nothing_is_left(sim);
            });
        })
        .saw("awake : Event");
}

/// A gate: shut by one, passed once per opening, and shut although its maker is dead.
#[test]
fn weak_as_a_gate() {
    Search::all("weak mutex, gate")
        .holds(|scene| {
            scene.before(|sim| {
                let maker = sim.machine().script();
                assert_eq!(wmutex::lock(&maker, &weak("/w"), Deadline::Never), Ok(Waited::Done(())));
                sim.kill(maker.who());
            });
            for _ in 0..2 {
                scene.script(|sim| {
                    if wmutex::lock(sim, &weak("/w"), seconds(sim, 1)) == Ok(Waited::Done(())) {
                        sim.add("passed", 1);
                    }
                });
            }
            scene.script(|sim| assert_eq!(wmutex::unlock(sim, &weak("/w")), Ok(Unlocked::Removed)));
            scene.at_rest(|sim| assert_eq!(sim.add("passed", 0), 1));
        })
        .saw("awake : Deadline");
}
