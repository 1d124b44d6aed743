//! The lock directory in all schedules, next to plain `mkdir` scripts, too.

use std::time::Duration;

use interlock::base::{Deadline, Error, Name, Time};
use interlock::primitive::dirlock;
use interlock::primitive::mutex::Unlocked;
use interlock::primitive::wait::Waited;
use interlock::sys::{Access, Inherit, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::world::{Deviation, Peer, START, Sim, Who};

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

fn lock(sim: &Sim) {
    assert!(lock_until(sim, Deadline::Never));
}

fn unlock(sim: &Sim) {
    assert_eq!(dirlock::unlock(sim, &name(), false), Ok(Unlocked::Removed));
}

fn lock_and_unlock(sim: &Sim) {
    lock(sim);
    sim.critical_section();
    unlock(sim);
    sim.add("served", 1);
}

fn nothing_is_left(sim: &Sim) {
    let kernel = sim.machine().kernel();
    assert_eq!(kernel.files.tree().len(), 0, "left behind: {:?}", kernel.files.tree());
}

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
    search("lock directory, 2 processes")
        .preemptions(if is_deep() { 5 } else { 2 })
        .holds(|scene| race(scene, 2))
        .saw("awake : Event");
}

#[test]
fn three_processes() {
    search("lock directory, 3 processes").preemptions(if is_deep() { 2 } else { 1 }).holds(|scene| race(scene, 3));
    let many = if is_deep() { 50_000 } else { 1_000 };
    search("lock directory, 3 processes, random").random(many).holds(|scene| race(scene, 3));
}

/// The killed one holds nothing any more, and what it left does not stop the others.
fn race_with_kills(scene: &mut Scene, processes: usize, victims: &[Who]) {
    (0..processes).for_each(|_| drop(scene.script(lock_and_unlock)));
    victims.iter().for_each(|&victim| scene.kill(victim));
    let dead = victims.len();
    scene.at_rest(move |sim| {
        assert!(sim.add("served", 0) >= (processes - dead) as i64);
        assert!(sim.now() <= Time(START).after(Duration::from_secs(2 * dead as u64)), "slow to recover");
        assert!(lock_until(sim, Deadline::At(sim.now())), "not recovered");
        unlock(sim);
    });
    scene.at_rest(nothing_is_left);
}

#[test]
fn one_of_two_is_killed() {
    search("lock directory, 2 processes, 1 killed")
        .preemptions(if is_deep() { 3 } else { 1 })
        .holds(|scene| race_with_kills(scene, 2, &[1]));
}

#[test]
fn takers_of_a_stale_lock_are_killed() {
    search("lock directory, stale, 2 takers, both killed").preemptions(if is_deep() { 2 } else { 0 }).holds(|scene| {
        stale_lock(scene);
        race_with_kills(scene, 2, &[2, 3]);
    });
}

/// No false success, nothing left, and later calls work, whatever goes wrong once.
#[test]
fn every_call_fails_once() {
    let scene = |scene: &mut Scene| {
        stale_lock(scene);
        scene.script(|sim| {
            sim.pause("begin");
            match dirlock::lock(sim, &name(), b"program", Deadline::Never, Inherit::Nobody) {
                Ok(Waited::Done(())) => {}
                Err(Error::System { .. }) => lock(sim),
                other => panic!("lock: {other:?}"),
            }
            sim.critical_section();
            match dirlock::unlock(sim, &name(), false) {
                Ok(Unlocked::Removed) => {}
                // An `owner` that may not be read is another user's.
                Err(Error::System { .. } | Error::NotOwner { .. }) => unlock(sim),
                other => panic!("unlock: {other:?}"),
            }
        });
        scene.at_rest(|sim| {
            assert!(lock_until(sim, Deadline::At(sim.now())), "not recovered");
            unlock(sim);
        });
        scene.at_rest(nothing_is_left);
    };
    search("lock directory, 1 fault").faults(2, scene);
}

/// A plain script and ours.
fn with_a_plain_script(scene: &mut Scene) {
    scene.script(|sim| {
        let peer = Peer::at(sim, "/");
        assert!(peer.mkdir("d", 30));
        sim.critical_section();
        assert!(peer.rmdir("d"), "its directory was taken away");
    });
    scene.script(lock_and_unlock);
    scene.at_rest(nothing_is_left);
}

/// `rename` replaces a plain script's empty directory.
#[test]
fn plain_rename() {
    search("lock directory, plain-rename").holds(with_a_plain_script);
    search("lock directory, plain-rename, replacing")
        .options(|options| options.deviation = Some(Deviation::PlainRename))
        .is_caught("two are inside", with_a_plain_script);
}

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
    scene.script(|sim| {
        lock(sim);
        sim.critical_section();
        assert_eq!(dirlock::unlock(sim, &name(), false), Ok(Unlocked::Removed), "its lock was taken away");
    });
    scene.at_rest(|sim| assert_eq!(sim.add("removed", 0), 1));
}

/// The script and its subshell unlock, a third locks.
#[test]
fn double_unlock() {
    search("lock directory, double-unlock").preemptions(if is_deep() { 3 } else { 2 }).holds(double_unlock_scene);
    search("lock directory, double-unlock, no guard")
        .preemptions(2)
        .options(|options| options.deviation = Some(Deviation::NoGuard))
        .is_caught("its lock was taken away", double_unlock_scene);
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
    search("lock directory, bare").holds(|scene| killed_unlocking(scene, unlock));
    search("lock directory, bare, taken apart in sight").is_caught("nobody can lock", |scene| {
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
    search("lock directory, owner-inside").holds(|scene| {
        stale_lock(scene);
        killed_unlocking(scene, unlock);
    });
    search("lock directory, owner-inside, prepared there").is_caught("nobody can unlock", |scene| {
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
