use std::os::unix::fs::symlink;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::pthread::pthread_kill;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise, sigaction};
use nix::sys::wait::{WaitPidFlag, waitpid};

use super::*;
use crate::sys::forked::{Forked, in_child, without_forks};
use crate::sys::scratch::Scratch;
use crate::sys::{Local, World};

struct Ground {
    scratch: Scratch,
    world: Local,
    dir: Dir,
}

impl Ground {
    fn new() -> Ground {
        let scratch = Scratch::on_disk();
        let dir = Dir::open(&scratch.path("")).unwrap();
        symlink("1", scratch.path("m")).unwrap();
        Ground { scratch, world: Local::new(std::process::id()), dir }
    }

    fn armed(&self, holder: Option<u32>) -> Waiter {
        let mut waiter = self.world.waiter();
        assert_eq!(self.arm(&mut waiter, holder), Armed::Ready);
        waiter
    }

    fn arm(&self, waiter: &mut Waiter, holder: Option<u32>) -> Armed {
        self.world.arm(waiter, &self.dir, OsStr::new("m"), Awaited::Removal, holder)
    }

    fn remove(&self) {
        std::fs::remove_file(self.scratch.path("m")).unwrap();
    }

    fn after(&self, millis: u64) -> Deadline {
        Deadline::At(self.world.now().after(Duration::from_millis(millis)))
    }
}

#[test]
fn removal_between_arming_and_sleeping_is_heard() {
    let ground = Ground::new();
    let mut waiter = ground.armed(None);
    ground.remove();
    assert_eq!(ground.world.sleep(&mut waiter, Deadline::Never), Wake::Event);
    assert_eq!(ground.arm(&mut waiter, None), Armed::Gone);
}

#[test]
fn nothing_happens_until_the_deadline_or_the_look_again() {
    let ground = Ground::new();
    let mut waiter = ground.armed(None);
    assert_eq!(ground.world.sleep(&mut waiter, ground.after(5)), Wake::Deadline);
    assert_eq!(ground.world.sleep(&mut waiter, ground.after(0)), Wake::Deadline);
    let start = ground.world.now();
    assert_eq!(ground.world.sleep(&mut waiter, Deadline::Never), Wake::Recheck);
    assert!(ground.world.now().since(start) >= RECHECK * 3 / 4);
}

#[test]
fn the_end_of_the_holder_is_heard_once() {
    let ground = Ground::new();
    let holder = Forked::start(|| {
        loop {
            nix::unistd::pause();
        }
    });
    let pid = holder.pid.as_raw().unsigned_abs();
    let mut waiter = ground.armed(Some(pid));
    assert_eq!(ground.world.sleep(&mut waiter, ground.after(5)), Wake::Deadline);
    nix::sys::signal::kill(holder.pid, Signal::SIGKILL).unwrap();
    assert_eq!(ground.world.sleep(&mut waiter, Deadline::Never), Wake::Event);
    // Not reaped yet: a zombie. What it started may keep its mark for long.
    assert_eq!(ground.arm(&mut waiter, Some(pid)), Armed::Ready);
    assert_eq!(ground.world.sleep(&mut waiter, ground.after(5)), Wake::Deadline);
}

#[test]
fn without_events_it_looks_sooner_and_ever_more_seldom() {
    let ground = Ground::new();
    let woken = in_child(|| {
        // No descriptor is left for an inotify instance.
        setrlimit(Resource::RLIMIT_NOFILE, 0, 0).unwrap();
        let mut waiter = ground.armed(None);
        ground.remove();
        let woken = ground.world.sleep(&mut waiter, Deadline::Never);
        let gone = ground.arm(&mut waiter, None);
        format!("{woken:?} {gone:?}")
    });
    assert_eq!(woken, "Recheck Gone");
    let mut waiter = ground.world.waiter();
    let pauses: Vec<_> = (0..20).map(|_| waiter.next_pause(0)).collect();
    assert_eq!((pauses[0], pauses[19]), (FIRST_RECHECK, RECHECK));
    assert!(pauses.is_sorted());
    assert_eq!(waiter.next_pause(u64::MAX), RECHECK * 3 / 4);
}

#[test]
fn a_changed_object_is_worth_looking_sooner() {
    let ground = Ground::new();
    let mut waiter = ground.world.waiter();
    let now = || ground.dir.stat_at(OsStr::new("m")).ok();
    waiter.look_sooner_after_change(now());
    waiter.next_pause(0);
    let grown = waiter.next_pause(0);
    waiter.look_sooner_after_change(now());
    assert!(waiter.next_pause(0) > grown);
    ground.remove();
    symlink("2", ground.scratch.path("m")).unwrap();
    waiter.look_sooner_after_change(now());
    assert_eq!(waiter.next_pause(0), FIRST_RECHECK);
}

/// Takes the link by making it; gives it back at once. How often did something wake us?
fn take_and_give_back(ground: &Ground, say_that_we_wait: impl FnOnce()) -> u32 {
    let mut waiter = ground.armed(None);
    let mut say_that_we_wait = Some(say_that_we_wait);
    let mut events = 0;
    while symlink("1", ground.scratch.path("m")).is_err() {
        if let Some(say) = say_that_we_wait.take() {
            say();
        }
        events += u32::from(ground.world.sleep(&mut waiter, Deadline::Never) == Wake::Event);
        ground.arm(&mut waiter, None);
    }
    drop(waiter);
    ground.remove();
    events
}

#[test]
fn one_release_wakes_two_of_many() {
    const MANY: u32 = 12;
    let (alone, ground) = (without_forks(), Ground::new());
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let start = || {
        let say = || assert_eq!(nix::unistd::write(&writer, b"."), Ok(1));
        let waiting = Forked::start_among(&alone, || take_and_give_back(&ground, say).to_string());
        assert_eq!(nix::unistd::read(&reader, &mut [0]), Ok(1));
        waiting
    };
    let waiting: Vec<_> = (0..MANY).map(|_| start()).collect();
    ground.remove();
    let events: u32 = waiting.into_iter().map(|waiting| waiting.finish().parse::<u32>().unwrap()).sum();
    // Each is woken to be the deputy, by the release as the deputy, to stand in front, and by the release. If each release
    // woke all, it would be half their square.
    assert!(events <= 4 * MANY, "{events}");
}

#[test]
fn a_stopped_front_keeps_its_deputy_from_nothing() {
    let (alone, ground) = (without_forks(), Ground::new());
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let front = Forked::start_among(&alone, || {
        let mut waiter = ground.armed(None);
        nix::unistd::write(&writer, b".").unwrap();
        loop {
            ground.world.sleep(&mut waiter, Deadline::Never);
        }
    });
    nix::unistd::read(&reader, &mut [0]).unwrap();
    let mut deputy = ground.armed(None);
    assert_eq!(ground.world.sleep(&mut deputy, Deadline::Never), Wake::Event, "made the deputy");
    assert_eq!(ground.arm(&mut deputy, None), Armed::Ready);
    kill(front.pid, Signal::SIGSTOP).unwrap();
    waitpid(front.pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    ground.remove();
    assert_eq!(ground.world.sleep(&mut deputy, Deadline::Never), Wake::Event);
    assert!(deputy.line.is_behind());
}

static PENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    PENDING.store(true, Ordering::SeqCst);
}

extern "C" fn ignore(_: libc::c_int) {}

fn handle(signal: Signal, handler: extern "C" fn(libc::c_int)) {
    let action = SigAction::new(SigHandler::Handler(handler), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handlers store a flag at most; each signal is used by one test.
    unsafe { sigaction(signal, &action) }.unwrap();
}

#[test]
fn who_has_just_given_something_back_waits_until_those_before_it_have_had_it() {
    let ground = Ground::new();
    let queue_up = || ground.world.queue_up(|| Dir::open(&ground.scratch.path("")), OsStr::new("m"));
    let front = ground.armed(None);
    assert!(queue_up().is_none(), "nothing was given back");
    ground.world.unlink(&ground.dir, OsStr::new("m")).unwrap();
    let mut waiter = queue_up().expect("within a millisecond");
    assert_eq!(ground.world.sleep(&mut waiter, ground.after(5)), Wake::Deadline);
    drop(front);
    assert_eq!(ground.world.sleep(&mut waiter, Deadline::Never), Wake::Event);
    assert_eq!(ground.arm(&mut waiter, None), Armed::Gone);
}

#[test]
fn a_signal_between_the_last_look_and_the_sleep_is_not_lost() {
    handle(Signal::SIGWINCH, note);
    let Ground { scratch: _scratch, world, dir } = Ground::new();
    let world = world.with_pending(|| {
        let was = PENDING.load(Ordering::SeqCst);
        if !was {
            // It comes right after this look, and to this thread.
            raise(Signal::SIGWINCH).unwrap();
        }
        was
    });
    let mut waiter = world.waiter();
    world.arm(&mut waiter, &dir, OsStr::new("m"), Awaited::Removal, None);
    let start = world.now();
    assert_eq!(world.sleep(&mut waiter, Deadline::Never), Wake::Interrupted);
    assert!(world.now().since(start) < RECHECK / 2, "found only by looking again");
    assert_eq!(world.sleep(&mut waiter, Deadline::Never), Wake::Interrupted, "still to be looked at");
}

#[test]
fn a_signal_with_nothing_to_look_at_does_not_end_the_sleep() {
    handle(Signal::SIGIO, ignore);
    let sleeper = std::thread::spawn(|| {
        let ground = Ground::new();
        let mut waiter = ground.armed(None);
        ground.world.sleep(&mut waiter, ground.after(50))
    });
    while !sleeper.is_finished() {
        // SAFETY of the handle: not joined yet.
        let _ = pthread_kill(sleeper.as_pthread_t(), Signal::SIGIO);
        std::thread::yield_now();
    }
    assert_eq!(sleeper.join().unwrap(), Wake::Deadline);
}
