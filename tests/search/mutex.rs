//! The mutex in all schedules.

use interlock::base::{Deadline, Error, Name};
use interlock::primitive::mutex::{self, Unlocked};
use interlock::primitive::wait::Waited;
use interlock::sys::{Inherit, World};

use crate::explore::{Scene, Search};
use crate::world::{Deviation, Kernel, Node, Sim};

fn name() -> Name {
    Name::of_link(b"/m").unwrap()
}

fn lock(sim: &Sim) -> bool {
    lock_until(sim, Deadline::Never)
}

fn lock_until(sim: &Sim, deadline: Deadline) -> bool {
    match mutex::lock(sim, &name(), deadline, Inherit::Programs) {
        Ok(Waited::Done(())) => true,
        Ok(Waited::TimedOut) => false,
        other => panic!("lock: {other:?}"),
    }
}

/// Inside the section that must exclude.
fn critical_section(sim: &Sim) {
    assert_eq!(sim.add("inside", 1), 1, "two are inside");
    sim.pause("inside");
    sim.add("inside", -1);
}

fn lock_and_unlock(sim: &Sim) {
    assert!(lock(sim));
    critical_section(sim);
    assert_eq!(mutex::unlock(sim, &name(), false), Ok(Unlocked::Removed));
    sim.add("served", 1);
}

fn nothing_is_left(kernel: &Kernel) {
    assert_eq!(kernel.files.tree().len(), 0, "left behind: {:?}", kernel.files.tree());
    assert!(kernel.opens.is_empty(), "descriptors left: {:?}", kernel.opens);
}

/// *always* one is inside; *sometimes* one finds the lock taken, sleeps and is woken; *eventually* all are served and
/// nothing is left.
#[test]
fn two_lock_and_unlock() {
    Search::all("mutex, two processes")
        .holds(|scene: &mut Scene| {
            scene.script(lock_and_unlock);
            scene.script(lock_and_unlock);
            scene.at_rest(|kernel| {
                assert_eq!(kernel.board["served"], 2);
                nothing_is_left(kernel);
            });
        })
        .saw("symlink m: EEXIST")
        .saw("awake : Event");
}
