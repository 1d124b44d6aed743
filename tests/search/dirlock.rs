//! The lock directory in all schedules, next to scripts that only know mkdir and rmdir.

use std::path::Path;

use interlock::base::{Deadline, Error, Name, Result};
use interlock::primitive::dirlock;
use interlock::primitive::mutex::Unlocked;
use interlock::primitive::wait::Waited;
use interlock::sys::{Access, Errno, Inherit, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::scenes::{Lock, seconds};
use crate::world::{Deviation, Sim};

fn name() -> Name {
    Name::of_directory(b"/d").unwrap()
}

fn search(name: &str) -> Search {
    Search::all(name).options(everything_changes)
}

struct Dirlock;

impl Lock for Dirlock {
    fn call_lock(sim: &Sim, deadline: Deadline, inherit: Inherit) -> Result<Waited<()>> {
        dirlock::lock(sim, &name(), b"program", deadline, inherit)
    }

    fn call_unlock(sim: &Sim) -> Result<Unlocked> {
        dirlock::unlock(sim, &name(), false)
    }

    fn longest_wait(sim: &Sim) -> Deadline {
        seconds(sim, 60)
    }
}

/// A script of the articles.
fn mkdir_and_rmdir(sim: &Sim) {
    let root = sim.open_dir(Path::new("/")).unwrap();
    while sim.make_dir(&root, "d".as_ref()) == Err(Errno::EEXIST) {
        sim.nap();
    }
    sim.critical_section();
    assert_eq!(sim.remove_dir(&root, "d".as_ref()), Ok(()));
    sim.add("served", 1);
}

#[test]
fn two_processes() {
    search("dirlock, 2 processes")
        .holds(|scene| Dirlock::race(scene, 2))
        .saw("rename_exclusive d: EEXIST")
        .saw("awake : Event");
}

#[test]
fn three_processes() {
    search("dirlock, 3 processes")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(|scene| Dirlock::race(scene, 3))
        .saw("awake : Event");
}

fn race_with_a_plain_script(scene: &mut Scene) {
    scene.script(Dirlock::lock_and_unlock);
    scene.script(mkdir_and_rmdir);
    scene.at_rest(|sim| {
        assert_eq!(sim.add("served", 0), 2);
        Dirlock::nothing_is_left(sim);
    });
}

#[test]
fn with_a_plain_script() {
    search("dirlock and mkdir").holds(race_with_a_plain_script).saw("make_dir d: EEXIST");
}

/// A plain rename replaces a plain script's empty directory.
#[test]
fn plain_rename() {
    search("dirlock, plain-rename")
        .options(|options| options.deviation = Some(Deviation::PlainRename))
        .is_caught("two are inside", race_with_a_plain_script);
}

#[test]
fn where_renaming_exclusively_is_unsupported() {
    for scene in [race_with_a_plain_script, |scene: &mut Scene| Dirlock::race(scene, 2)] {
        search("dirlock, no renameat2")
            .options(|options| options.can_rename_exclusively = false)
            .preemptions(if is_deep() { u32::MAX } else { 3 })
            .holds(scene)
            .saw("make_dir d: ok");
    }
}

/// Another program keeps a flock on the directory for ever: slower, but they exclude and are served.
#[test]
fn without_the_guard() {
    search("dirlock, guard squatted").preemptions(3).holds(|scene| {
        scene.before(|sim| {
            let squatted = sim.open_dir(Path::new("/")).unwrap();
            std::mem::forget(sim.try_guard(&squatted));
            std::mem::forget(squatted);
        });
        scene.script(Dirlock::lock_and_unlock);
        scene.script(Dirlock::lock_and_unlock);
        scene.at_rest(|sim| {
            assert_eq!(sim.add("served", 0), 2);
            assert_eq!(sim.machine().kernel().files.tree().len(), 0);
        });
    });
}

// Crashes.

#[test]
fn one_of_two_is_killed() {
    search("dirlock, 2 processes, 1 killed")
        .preemptions(if is_deep() { u32::MAX } else { 2 })
        .holds(|scene| Dirlock::race_with_kills(scene, 2, &[1]))
        .saw("rename owner: ok")
        .saw("make_dir .interlock-*: EEXIST");
}

#[test]
fn of_three_some_are_killed() {
    search("dirlock, 3 processes, 1 killed")
        .preemptions(if is_deep() { 2 } else { 0 })
        .holds(|scene| Dirlock::race_with_kills(scene, 3, &[1]))
        .saw("rename owner: ok");
    if is_deep() {
        search("dirlock, 3 processes, 2 killed")
            .preemptions(1)
            .holds(|scene| Dirlock::race_with_kills(scene, 3, &[1, 2]));
    }
}

#[test]
fn takers_of_a_stale_lock_are_killed() {
    search("dirlock, stale, 2 takers, 1 killed").preemptions(if is_deep() { 4 } else { 1 }).holds(|scene| {
        Dirlock::stale_lock(scene);
        Dirlock::race_with_kills(scene, 2, &[2]);
    });
}

fn killed_unlocking(scene: &mut Scene, unlock: fn(&Sim)) {
    let victim = scene.script(move |sim| {
        Dirlock::lock(sim);
        unlock(sim);
    });
    scene.kill(victim);
    scene.at_rest(|sim| {
        assert!(Dirlock::lock_until(sim, seconds(sim, 5)), "nobody can lock any more");
        assert_eq!(dirlock::unlock(sim, &name(), false), Ok(Unlocked::Removed), "nobody can unlock any more");
    });
}

/// Dies between removing `owner` and `rmdir`.
#[test]
fn bare() {
    search("dirlock, bare").holds(|scene| killed_unlocking(scene, Dirlock::unlock));
    search("dirlock, bare, taken apart in sight").is_caught("nobody can lock", |scene| {
        killed_unlocking(scene, |sim| {
            let root = sim.open_dir("/".as_ref()).unwrap();
            let dir = sim.open_dir_at(&root, "d".as_ref()).unwrap();
            sim.unlink(&dir, "owner".as_ref()).unwrap();
            sim.remove_dir(&root, "d".as_ref()).unwrap();
        });
    });
}

/// The new owner file is prepared inside the judged directory.
#[test]
fn owner_inside() {
    search("dirlock, owner-inside").holds(|scene| {
        Dirlock::stale_lock(scene);
        killed_unlocking(scene, Dirlock::unlock);
    });
    search("dirlock, owner-inside, prepared there").is_caught("nobody can unlock", |scene| {
        Dirlock::stale_lock(scene);
        let taker = scene.script(|sim| {
            let dir = sim.open_dir("/d".as_ref()).unwrap();
            sim.open_file(&dir, "owner.new".as_ref(), Access::CreateNew).unwrap();
            sim.rename(&dir, "owner.new".as_ref(), &dir, "owner".as_ref()).unwrap();
        });
        scene.kill(taker);
        scene.at_rest(|sim| {
            Dirlock::lock_until(sim, Deadline::At(sim.now()));
            let end = dirlock::unlock(sim, &name(), false);
            assert!(!matches!(end, Err(Error::Damaged { .. })), "nobody can unlock any more");
        });
    });
}

// Faults.

#[test]
fn every_call_fails_once() {
    let scene = |scene: &mut Scene| {
        Dirlock::stale_lock(scene);
        scene.script(|sim| {
            for _ in 0..2 {
                // `owner` could not be read.
                Dirlock::lock_and_unlock_with_a_fault(sim, |error| {
                    matches!(error, Error::System { .. } | Error::NotOwner { .. })
                });
            }
        });
        scene.script(Dirlock::lock_and_unlock);
        scene.at_rest(Dirlock::is_recovered);
    };
    search("dirlock, 1 fault").preemptions(if is_deep() { 2 } else { 0 }).faults(2, scene);
}

// Deadlines and signals.

#[test]
fn a_deadline_comes() {
    search("dirlock, deadline")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(Dirlock::deadline_scene)
        .saw("awake : Deadline");
}

#[test]
fn a_signal_comes() {
    search("dirlock, signal")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(|scene| {
            scene.script(Dirlock::lock_and_unlock);
            let waiter = scene.script(|sim| {
                while dirlock::lock(sim, &name(), b"", Deadline::Never, Inherit::Programs) != Ok(Waited::Done(())) {
                    sim.take_signal();
                }
                sim.critical_section();
                Dirlock::unlock(sim);
            });
            scene.signal(waiter);
            scene.at_rest(Dirlock::nothing_is_left);
        })
        .saw("awake : Interrupted");
}

// The schedules that broke earlier drafts.

/// Judged stale, stopped; another breaks and locks; the first takes the fresh lock.
#[test]
fn two_breakers() {
    search("dirlock, two-breakers")
        .preemptions(if is_deep() { u32::MAX } else { 3 })
        .holds(Dirlock::two_breakers_scene)
        .saw("rename owner: ok")
        .saw("try_guard : false");
    search("dirlock, two-breakers, no guard")
        .preemptions(2)
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("two are inside", Dirlock::two_breakers_scene);
}

/// Unlock reads its own lock and is stopped; a subshell unlocks; a third locks; the first removes the third's.
#[test]
fn double_unlock() {
    let bounded = |name| search(name).preemptions(if is_deep() { 4 } else { 2 });
    bounded("dirlock, double-unlock").holds(Dirlock::double_unlock_scene);
    bounded("dirlock, double-unlock, no guard")
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("", Dirlock::double_unlock_scene);
}

#[test]
fn self_robbery() {
    search("dirlock, self-robbery").preemptions(if is_deep() { 4 } else { 2 }).holds(Dirlock::self_robbery_scene);
}
