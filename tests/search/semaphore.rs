//! The semaphore in all schedules, alone and next to the articles' functions.

use std::time::Duration;

use interlock::base::{Deadline, Error, Name, Time};
use interlock::primitive::wait::Waited;
use interlock::primitive::{Created, mutex, semaphore};
use interlock::sys::{Inherit, Rule, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::scenes::{no_time_has_passed, seconds};
use crate::world::{Deviation, Node, Peer, START, Sim};

fn name() -> Name {
    Name::of_directory(b"/s").unwrap()
}

/// Noted before it is done: from then on somebody may be admitted.
fn post(sim: &Sim) {
    sim.add("begun", 1);
    assert_eq!(semaphore::post(sim, &name(), 1), Ok(Waited::Done(())));
    sim.add("posted", 1);
}

/// Waits at most so long.
fn wait(sim: &Sim, deadline: Deadline) -> bool {
    match semaphore::wait(sim, &name(), deadline) {
        Ok(Waited::Done(())) => admitted(sim),
        Ok(Waited::TimedOut) => return false,
        other => panic!("wait: {other:?}"),
    }
    true
}

/// *always*: tokens given ≤ tokens there were at first + tokens posted.
fn admitted(sim: &Sim) {
    let admitted = sim.add("admitted", 1);
    assert!(admitted <= sim.add("initial", 0) + sim.add("begun", 0), "more have passed than were posted");
}

fn peer_post(sim: &Sim) {
    sim.add("begun", 1);
    Peer::at(sim, "/s").sem_post();
    sim.add("posted", 1);
}

fn peer_wait(sim: &Sim, sleeps: u32) {
    if Peer::at(sim, "/s").sem_wait(sleeps) {
        admitted(sim);
    }
}

fn init(scene: &mut Scene, value: u64) {
    scene.before(|sim| {
        assert_eq!(semaphore::init(sim, &name(), value), Ok(Created::Made));
        sim.add("initial", value as i64);
    });
}

fn counter(sim: &Sim) -> i64 {
    match semaphore::peek(sim, &name()) {
        Ok(Waited::Done(value)) => value,
        other => panic!("peek: {other:?}"),
    }
}

/// At rest the gate is shut exactly when there is no token, and nothing else is there.
fn gate_fits_the_counter(sim: &Sim) {
    let counter = counter(sim);
    let kernel = sim.machine().kernel();
    let names: Vec<_> = kernel.files.tree().into_iter().map(|(path, _)| path).collect();
    let is_shut = names.iter().any(|path| path == "/s/waitlock");
    assert_eq!(is_shut, counter <= 0, "gate and counter {counter} do not fit");
    for path in names {
        assert!(["/s", "/s/counter", "/s/owner", "/s/waitlock"].contains(&&*path), "left behind: {path}");
    }
}

/// Every token is accounted for; up to `lost` were taken by waiters that died with them, up to `unsure` posted by
/// posters that died over it.
fn tokens_are_exact(sim: &Sim, lost: i64) {
    let known = counter(sim) + sim.add("admitted", 0);
    let initial = sim.add("initial", 0);
    assert!(known <= initial + sim.add("begun", 0), "a token too many");
    assert!(known + lost >= initial + sim.add("posted", 0), "a token is lost");
}

/// As many posts as waits: *eventually* all are admitted, without the re-check.
fn exact(scene: &mut Scene, value: u64, posts: usize, waits: usize) {
    init(scene, value);
    (0..posts).for_each(|_| {
        scene.script(post);
    });
    for _ in 0..waits {
        scene.script(|sim| {
            wait(sim, Deadline::Never);
        });
    }
    scene.at_rest(|sim| {
        no_time_has_passed(sim);
        tokens_are_exact(sim, 0);
        gate_fits_the_counter(sim);
    });
}

#[test]
fn one_post_one_wait() {
    Search::all("semaphore, 1 post, 1 wait").holds(|scene| exact(scene, 0, 1, 1)).saw("awake : Event");
}

#[test]
fn two_waits_one_token_one_post() {
    Search::all("semaphore, 1 token, 1 post, 2 waits")
        .preemptions(if is_deep() { 6 } else { 3 })
        .holds(|scene| exact(scene, 1, 1, 2))
        .saw("symlink waitlock: EEXIST")
        .saw("unlink waitlock: ok");
}

#[test]
fn two_posts_two_waits() {
    Search::all("semaphore, 2 posts, 2 waits")
        .preemptions(if is_deep() { 2 } else { 1 })
        .holds(|scene| exact(scene, 0, 2, 2));
}

#[test]
fn many_at_random() {
    let many = if is_deep() { 100_000 } else { 3_000 };
    Search::all("semaphore, 3 posts, 4 waits, random").random(many).holds(|scene| exact(scene, 1, 3, 4));
    Search::all("semaphore, 3 posts, 4 waits, PCT").pct(many).holds(|scene| exact(scene, 1, 3, 4));
}

/// More waits than tokens, and a deadline: nobody too many, nothing left of those that gave up.
#[test]
fn a_deadline_comes() {
    Search::all("semaphore, deadline").preemptions(if is_deep() { 2 } else { 0 }).holds(|scene| {
        init(scene, 0);
        scene.script(post);
        for _ in 0..2 {
            scene.script(|sim| {
                if !wait(sim, seconds(sim, 1)) {
                    sim.add("too late", 1);
                }
            });
        }
        scene.slow(1);
        scene.at_rest(|sim| {
            assert!(sim.add("too late", 0) >= 1);
            tokens_are_exact(sim, 0);
            gate_fits_the_counter(sim);
        });
    });
}

/// With all events lost the re-check makes progress.
#[test]
fn without_events() {
    Search::all("semaphore, no events")
        .preemptions(if is_deep() { 3 } else { 2 })
        .options(|options| options.has_events = false)
        .holds(|scene| {
            init(scene, 0);
            scene.script(post);
            scene.script(|sim| {
                wait(sim, Deadline::Never);
            });
            scene.at_rest(|sim| {
                // A period for the gate, and one for each time that `countlock` was taken just then.
                assert!(sim.now() <= Time(START).after(Duration::from_secs(4)));
                tokens_are_exact(sim, 0);
                gate_fits_the_counter(sim);
            });
        })
        .saw("awake : Recheck");
}

// Crashes.

/// Whoever dies, the next operation finds and leaves a sound semaphore, and every token is accounted for.
fn recovers(scene: &mut Scene, lost: i64) {
    scene.at_rest(move |sim| {
        post(sim);
        gate_fits_the_counter(sim);
        tokens_are_exact(sim, lost);
        (0..counter(sim)).for_each(|_| assert!(wait(sim, Deadline::At(sim.now())), "a token nobody can take"));
        assert!(!wait(sim, Deadline::At(sim.now())));
        gate_fits_the_counter(sim);
    });
}

#[test]
fn a_poster_is_killed() {
    Search::all("semaphore, poster killed")
        .preemptions(if is_deep() { 4 } else { 2 })
        .holds(|scene| {
            init(scene, 0);
            let poster = scene.script(post);
            scene.script(|sim| {
                wait(sim, seconds(sim, 5));
            });
            scene.kill(poster);
            recovers(scene, 0);
        })
        .saw("rename countlock: ok");
}

#[test]
fn a_waiter_is_killed() {
    Search::all("semaphore, waiter killed").preemptions(if is_deep() { 4 } else { 1 }).holds(|scene| {
        init(scene, 1);
        let waiter = scene.script(|sim| {
            wait(sim, seconds(sim, 5));
        });
        scene.script(|sim| {
            wait(sim, seconds(sim, 5));
        });
        scene.script(post);
        scene.kill(waiter);
        recovers(scene, 1);
    });
}

/// A post dies, then whoever takes `countlock` over dies.
fn two_die(scene: &mut Scene) {
    init(scene, 0);
    let first = scene.script(post);
    let second = scene.script(post);
    scene.kill(first);
    scene.kill(second);
    recovers(scene, 0);
}

/// A post writes the counter and dies; the breaker removes `countlock` and dies; a third finds a free lock and heals
/// nothing. Hence a takeover is one rename.
#[test]
fn taker_dies_before_heal() {
    Search::all("semaphore, taker-dies-before-heal")
        .preemptions(if is_deep() { 3 } else { 0 })
        .holds(two_die)
        .saw("rename countlock: ok");
    Search::all("semaphore, taker-dies-before-heal, removal and creation")
        .preemptions(0)
        .options(|options| options.deviation = Some(Deviation::RenameInTwoSteps))
        .is_caught("do not fit", two_die);
}

fn plain_gate_scene(scene: &mut Scene) {
    scene.before(|sim| Peer::sem_init(sim, "/s", 0));
    let poster = scene.script(post);
    scene.kill(poster);
    recovers(scene, 0);
}

/// A plain `waitlock`, our post dies after the counter write: closed for ever beside a token.
#[test]
fn plain_gate() {
    Search::all("semaphore, plain-gate").holds(plain_gate_scene);
    Search::all("semaphore, plain-gate, gate not replaced")
        .options(|options| options.omitted = Some(Rule::GateReplacedFirst))
        .is_caught("do not fit", plain_gate_scene);
}

fn gate_as_mutex_scene(scene: &mut Scene) {
    scene.before(|sim| {
        let maker = sim.machine().script();
        assert_eq!(semaphore::init(&maker, &name(), 0), Ok(Created::Made));
        sim.kill(maker.who());
    });
    scene.script(|sim| {
        for part in ["/s/waitlock", "/s/owner"] {
            let link = Name::of_link(part.as_bytes()).unwrap();
            let stolen = mutex::lock(sim, &link, Deadline::At(sim.now()), Inherit::Nobody);
            assert_eq!(stolen, Ok(Waited::TimedOut), "{part} stolen");
            let removed = mutex::unlock(sim, &link, false);
            assert!(matches!(removed, Err(Error::NotOwner { .. })), "{part} stolen");
        }
    });
}

/// A `waitlock` or `owner` that looks stale is stolen. Hence NONCE 0.
#[test]
fn gate_as_mutex() {
    Search::all("semaphore, gate-as-mutex").holds(gate_as_mutex_scene);
    Search::all("semaphore, gate-as-mutex, gate with a mark")
        .options(|options| options.omitted = Some(Rule::GateWithoutMark))
        .is_caught("stolen", gate_as_mutex_scene);
}

// Faults.

/// No false success: a post that failed gave nothing, one that succeeded gave one; a wait likewise.
#[test]
fn every_call_fails_once() {
    let scene = |is_poster: bool| {
        move |scene: &mut Scene| {
            init(scene, 1);
            scene.script(move |sim| {
                sim.pause("begin");
                if is_poster {
                    match semaphore::post(sim, &name(), 1) {
                        Ok(Waited::Done(())) => drop((sim.add("begun", 1), sim.add("posted", 1))),
                        Err(Error::System { .. } | Error::Damaged { .. }) => {}
                        other => panic!("post: {other:?}"),
                    }
                } else {
                    match semaphore::wait(sim, &name(), Deadline::Never) {
                        Ok(Waited::Done(())) => admitted(sim),
                        Err(Error::System { .. } | Error::Damaged { .. }) => {}
                        other => panic!("wait: {other:?}"),
                    }
                }
            });
            scene.at_rest(|sim| {
                tokens_are_exact(sim, 0);
                post(sim);
                gate_fits_the_counter(sim);
                tokens_are_exact(sim, 0);
            });
        }
    };
    Search::all("semaphore, post with 1 fault").faults(1, scene(true));
    Search::all("semaphore, wait with 1 fault").faults(1, scene(false));
}

// Peers.

/// The articles' own: a poster is delayed between releasing `countlock` and removing `waitlock`; another posts; two
/// pass; the delayed step removes `waitlock`; a third passes after two posts.
#[test]
fn late_poster() {
    let posts_and_waits = |scene: &mut Scene, ours: bool| {
        scene.before(|sim| Peer::sem_init(sim, "/s", 0));
        for _ in 0..2 {
            scene.script(if ours { post } else { peer_post });
        }
        for _ in 0..3 {
            scene.script(move |sim| if ours { _ = wait(sim, seconds(sim, 1)) } else { peer_wait(sim, 1) });
        }
    };
    Search::all("semaphore, late-poster, the articles' alone")
        .preemptions(2)
        .is_caught("more have passed", move |scene| posts_and_waits(scene, false));
    Search::all("semaphore, late-poster, ours, random")
        .random(if is_deep() { 100_000 } else { 2_000 })
        .holds(move |scene| posts_and_waits(scene, true));
}

/// Peers post, late as they are; ours wait.
#[test]
fn peers_post() {
    Search::all("semaphore, 2 peers post, 2 of ours wait").preemptions(if is_deep() { 3 } else { 1 }).holds(|scene| {
        init(scene, 0);
        scene.script(peer_post);
        scene.script(peer_post);
        for _ in 0..2 {
            scene.script(|sim| assert!(wait(sim, seconds(sim, 30)), "a token was posted, but not found"));
        }
        scene.at_rest(|sim| tokens_are_exact(sim, 0));
    });
}

/// Ours post, peers wait, and one of ours.
#[test]
fn peers_wait() {
    Search::all("semaphore, 2 of ours post, 1 peer and 1 of ours wait")
        .preemptions(if is_deep() { 3 } else { 1 })
        .holds(|scene| {
            init(scene, 0);
            scene.script(post);
            scene.script(post);
            scene.script(|sim| peer_wait(sim, 30));
            scene.script(|sim| assert!(wait(sim, seconds(sim, 30)), "a token was posted, but not found"));
            scene.at_rest(|sim| {
                assert_eq!(sim.add("admitted", 0), 2);
                tokens_are_exact(sim, 0);
                gate_fits_the_counter(sim);
            });
        });
}

/// A peer dies with its claim on the last token: after 3 s without a movement a waiter of ours removes it.
#[test]
fn a_peer_dies_with_its_claim() {
    Search::all("semaphore, peer waiter killed").preemptions(if is_deep() { 4 } else { 2 }).holds(|scene| {
        init(scene, 1);
        scene.script(|sim| {
            if Peer::at(sim, "/s").mutex_lock("waitlock", 0) {
                sim.pause("stopped with its claim");
            }
        });
        scene.script(|sim| assert!(wait(sim, seconds(sim, 8)), "a dead peer's token was not found"));
        scene.at_rest(|sim| assert!(sim.now() <= Time(START).after(Duration::from_secs(5))));
    });
}

// Making and destroying.

/// *always*: exactly one makes it, and it is whole when it appears; who dies over it leaves nothing that is not swept.
#[test]
fn two_make_it() {
    Search::all("semaphore, 2 inits, 1 killed")
        .options(everything_changes)
        .preemptions(if is_deep() { 3 } else { 1 })
        .holds(|scene| {
            let make = |sim: &Sim| match semaphore::init(sim, &name(), 3) {
                Ok(Created::Made) => {
                    assert_eq!(sim.add("made", 1), 1, "made twice");
                    assert_eq!(counter(sim), 3);
                }
                Ok(Created::Exists) => assert_eq!(counter(sim), 3),
                other => panic!("init: {other:?}"),
            };
            let first = scene.script(make);
            scene.script(make);
            scene.kill(first);
            scene.at_rest(|sim| {
                assert_eq!(counter(sim), 3);
                let other = Name::of_directory(b"/t").unwrap();
                assert_eq!(semaphore::init(sim, &other, 0), Ok(Created::Made));
                let kernel = sim.machine().kernel();
                let hidden = kernel.files.tree().into_iter().find(|(path, _)| path.contains("/.interlock"));
                assert!(hidden.is_none(), "not swept: {hidden:?}");
            });
        });
}

/// A waiter of a semaphore that is destroyed ends with an error, and nothing of it is left.
#[test]
fn destroyed_while_waited_for() {
    Search::all("semaphore, destroyed").options(everything_changes).preemptions(if is_deep() { 4 } else { 2 }).holds(
        |scene| {
            init(scene, 0);
            scene.script(|sim| {
                let end = semaphore::wait(sim, &name(), Deadline::Never);
                assert!(matches!(end, Err(Error::System { .. })), "wait: {end:?}");
            });
            scene.script(|sim| assert_eq!(semaphore::destroy(sim, &name(), true), Ok(Waited::Done(()))));
            scene.at_rest(|sim| {
                assert!(sim.now() <= Time(START).after(Duration::from_secs(2)));
                let kernel = sim.machine().kernel();
                let tree: Vec<(String, &Node)> = kernel.files.tree();
                assert!(tree.is_empty(), "left behind: {tree:?}");
            });
        },
    );
}
