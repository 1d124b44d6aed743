//! The lock directory in all schedules, next to scripts that only know mkdir and rmdir.

use std::path::Path;
use std::time::Duration;

use interlock::base::{Deadline, Error, Name, Time};
use interlock::primitive::dirlock;
use interlock::primitive::mutex::Unlocked;
use interlock::primitive::wait::Waited;
use interlock::sys::{Access, Errno, Inherit, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::world::{Deviation, START, Sim, Who};

fn name() -> Name {
    Name::of_directory(b"/d").unwrap()
}

fn search(name: &str) -> Search {
    Search::all(name).options(everything_changes)
}

fn lock_until(sim: &Sim, deadline: Deadline) -> bool {
    match dirlock::lock(sim, &name(), b"program", deadline, Inherit::Programs) {
        Ok(Waited::Done(())) => true,
        Ok(Waited::TimedOut) => false,
        other => panic!("lock: {other:?}"),
    }
}

/// No wait that has an end takes so long.
fn lock(sim: &Sim) {
    assert!(lock_until(sim, seconds(sim, 60)), "not served");
}

fn try_lock(sim: &Sim) -> bool {
    lock_until(sim, Deadline::At(sim.now()))
}

fn unlock(sim: &Sim) {
    assert_eq!(dirlock::unlock(sim, &name(), false), Ok(Unlocked::Removed));
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

fn nothing_is_left(sim: &Sim) {
    let kernel = sim.machine().kernel();
    assert_eq!(kernel.files.tree().len(), 0, "left behind: {:?}", kernel.files.tree());
    assert!(kernel.opens.is_empty(), "descriptors left: {:?}", kernel.opens);
}

/// Whatever was left, the next one to lock and unlock is served at once and clears it away.
fn is_recovered(sim: &Sim) {
    assert!(try_lock(sim), "not recovered");
    unlock(sim);
    nothing_is_left(sim);
}

/// A script that died with the lock.
fn stale_lock(scene: &mut Scene) {
    scene.before(|sim| {
        let dead = sim.machine().script();
        lock(&dead);
        sim.kill(dead.who());
    });
}

/// *always* one is inside; *eventually* all are served, without the re-check, and nothing is left.
fn race(scene: &mut Scene, processes: usize) {
    (0..processes).for_each(|_| drop(scene.script(lock_and_unlock)));
    scene.at_rest(move |sim| {
        assert_eq!(sim.now(), Time(START), "a wake-up was lost and the re-check had to help");
        assert_eq!(sim.add("served", 0), processes as i64);
        nothing_is_left(sim);
    });
}

#[test]
fn two_processes() {
    search("dirlock, 2 processes").holds(|scene| race(scene, 2)).saw("rename_exclusive d: EEXIST").saw("awake : Event");
}

#[test]
fn three_processes() {
    search("dirlock, 3 processes")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(|scene| race(scene, 3))
        .saw("awake : Event");
}

fn race_with_a_plain_script(scene: &mut Scene) {
    scene.script(lock_and_unlock);
    scene.script(mkdir_and_rmdir);
    scene.at_rest(|sim| {
        assert_eq!(sim.add("served", 0), 2);
        nothing_is_left(sim);
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
    for scene in [race_with_a_plain_script, |scene: &mut Scene| race(scene, 2)] {
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
        scene.script(lock_and_unlock);
        scene.script(lock_and_unlock);
        scene.at_rest(|sim| {
            assert_eq!(sim.add("served", 0), 2);
            assert_eq!(sim.machine().kernel().files.tree().len(), 0);
        });
    });
}

// Crashes.

fn race_with_kills(scene: &mut Scene, processes: usize, victims: &[Who]) {
    (0..processes).for_each(|_| drop(scene.script(lock_and_unlock)));
    victims.iter().for_each(|&victim| scene.kill(victim));
    let dead = victims.len();
    scene.at_rest(move |sim| {
        assert!(sim.add("served", 0) >= (processes - dead) as i64);
        assert!(sim.now() <= Time(START).after(Duration::from_secs(dead as u64)), "slow to recover");
        is_recovered(sim);
    });
}

#[test]
fn one_of_two_is_killed() {
    search("dirlock, 2 processes, 1 killed")
        .preemptions(if is_deep() { u32::MAX } else { 2 })
        .holds(|scene| race_with_kills(scene, 2, &[1]))
        .saw("rename owner: ok")
        .saw("make_dir .interlock-*: EEXIST");
}

#[test]
fn of_three_some_are_killed() {
    search("dirlock, 3 processes, 1 killed")
        .preemptions(if is_deep() { 2 } else { 0 })
        .holds(|scene| race_with_kills(scene, 3, &[1]))
        .saw("rename owner: ok");
    if is_deep() {
        search("dirlock, 3 processes, 2 killed").preemptions(1).holds(|scene| race_with_kills(scene, 3, &[1, 2]));
    }
}

#[test]
fn takers_of_a_stale_lock_are_killed() {
    search("dirlock, stale, 2 takers, 1 killed").preemptions(if is_deep() { 4 } else { 1 }).holds(|scene| {
        stale_lock(scene);
        race_with_kills(scene, 2, &[2]);
    });
}

fn killed_unlocking(scene: &mut Scene, unlock: fn(&Sim)) {
    let victim = scene.script(move |sim| {
        lock(sim);
        unlock(sim);
    });
    scene.kill(victim);
    scene.at_rest(|sim| {
        let deadline = Deadline::At(sim.now().after(Duration::from_secs(5)));
        assert!(lock_until(sim, deadline), "nobody can lock any more");
        assert_eq!(dirlock::unlock(sim, &name(), false), Ok(Unlocked::Removed), "nobody can unlock any more");
    });
}

/// Dies between removing `owner` and `rmdir`.
#[test]
fn bare() {
    search("dirlock, bare").holds(|scene| killed_unlocking(scene, unlock));
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
        stale_lock(scene);
        killed_unlocking(scene, unlock);
    });
    search("dirlock, owner-inside, prepared there").is_caught("nobody can unlock", |scene| {
        stale_lock(scene);
        let taker = scene.script(|sim| {
            let dir = sim.open_dir("/d".as_ref()).unwrap();
            sim.open_file(&dir, "owner.new".as_ref(), Access::CreateNew).unwrap();
            sim.rename(&dir, "owner.new".as_ref(), &dir, "owner".as_ref()).unwrap();
        });
        scene.kill(taker);
        scene.at_rest(|sim| {
            lock_until(sim, Deadline::At(sim.now()));
            let end = dirlock::unlock(sim, &name(), false);
            assert!(!matches!(end, Err(Error::Damaged { .. })), "nobody can unlock any more");
        });
    });
}

// Faults.

#[test]
fn every_call_fails_once() {
    let scene = |scene: &mut Scene| {
        stale_lock(scene);
        scene.script(|sim| {
            for _ in 0..2 {
                match dirlock::lock(sim, &name(), b"program", Deadline::Never, Inherit::Nobody) {
                    Ok(Waited::Done(())) => {}
                    Err(Error::System { .. }) => lock(sim),
                    other => panic!("lock: {other:?}"),
                }
                sim.critical_section();
                match dirlock::unlock(sim, &name(), false) {
                    Ok(Unlocked::Removed) => {}
                    // `owner` could not be read.
                    Err(Error::System { .. } | Error::NotOwner { .. }) => unlock(sim),
                    other => panic!("unlock: {other:?}"),
                }
            }
        });
        scene.script(lock_and_unlock);
        scene.at_rest(is_recovered);
    };
    search("dirlock, 1 fault").preemptions(if is_deep() { 2 } else { 0 }).faults(2, scene);
}

// Deadlines and signals.

#[test]
fn a_deadline_comes() {
    search("dirlock, deadline")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(|scene| {
            scene.script(|sim| {
                lock(sim);
                sim.enter();
                sim.nap();
                sim.leave();
                unlock(sim);
            });
            scene.script(|sim| {
                if lock_until(sim, seconds(sim, 1)) {
                    sim.critical_section();
                    unlock(sim);
                }
            });
            scene.slow(1);
            scene.at_rest(nothing_is_left);
        })
        .saw("awake : Deadline");
}

#[test]
fn a_signal_comes() {
    search("dirlock, signal")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(|scene| {
            scene.script(lock_and_unlock);
            let waiter = scene.script(|sim| {
                while dirlock::lock(sim, &name(), b"", Deadline::Never, Inherit::Programs) != Ok(Waited::Done(())) {
                    sim.take_signal();
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

/// Judged stale, stopped; another breaks and locks; the first takes the fresh lock.
#[test]
fn two_breakers() {
    search("dirlock, two-breakers")
        .preemptions(if is_deep() { u32::MAX } else { 3 })
        .holds(two_breakers_scene)
        .saw("rename owner: ok")
        .saw("try_guard : false");
    search("dirlock, two-breakers, no guard")
        .preemptions(2)
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("two are inside", two_breakers_scene);
}

/// The script and its subshell unlock, a third locks.
fn double_unlock_scene(scene: &mut Scene) {
    let unlock_once = |sim: &Sim| match dirlock::unlock(sim, &name(), false) {
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
        assert_eq!(sim.add("served", 0), 1);
        nothing_is_left(sim);
    });
}

/// Unlock reads its own lock and is stopped; a subshell unlocks; a third locks; the first removes the third's.
#[test]
fn double_unlock() {
    let bounded = |name| search(name).preemptions(if is_deep() { 4 } else { 2 });
    bounded("dirlock, double-unlock").holds(double_unlock_scene);
    bounded("dirlock, double-unlock, no guard")
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("", double_unlock_scene);
}

/// The holder has gone, its subshell lives, and both the subshell and a stranger try.
#[test]
fn self_robbery() {
    search("dirlock, self-robbery").preemptions(if is_deep() { 4 } else { 2 }).holds(|scene| {
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
    });
}
