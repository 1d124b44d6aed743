//! The queue in all schedules, alone and next to the articles' functions.
//!
//! *always*: no item twice; per producer in order; acknowledged and not taken is there, but for what a killed consumer had
//! taken. *at rest*: as many tokens as items, gate and counter fit, nothing is left over.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interlock::base::{Deadline, Error, Name, Time};
use interlock::primitive::wait::Waited;
use interlock::primitive::{Created, queue};
use interlock::sys::{Access, Rule, World};

use crate::explore::{Scene, Search, everything_changes, is_deep};
use crate::scenes::{no_time_has_passed, seconds};
use crate::world::{Deviation, Node, Options, Peer, START, Sim};

/// So many consumed bytes that the first line lies across the end of a page.
const FIRST_ACROSS: usize = 4090;
/// So many that the second does.
const SECOND_ACROSS: usize = 4085;

fn name() -> Name {
    Name::of_directory(b"/q").unwrap()
}

fn init(scene: &mut Scene, consumed: usize) {
    scene.before(|sim| {
        assert_eq!(queue::init(sim, &name()), Ok(Created::Made));
        if consumed > 0 {
            put(sim, &["first"]);
            let dir = sim.open_dir("/q".as_ref()).unwrap();
            let data = sim.open_file(&dir, "data".as_ref(), Access::Update).unwrap();
            let mut line = [0; 9];
            assert_eq!(sim.read_at(&data, 0, &mut line), Ok(line.len()));
            let moved = [&vec![0; consumed][..], &line].concat();
            assert_eq!(sim.write_at(&data, 0, &moved), Ok(moved.len()));
        }
    });
}

/// A producer's items are named in their order: `a1`, `a2` …
fn put(sim: &Sim, items: &[&str]) {
    items.iter().for_each(|item| sim.note(format!("begun {item}")));
    assert_eq!(queue::put(sim, &name(), items, &mut Vec::new()), Ok(Waited::Done(())));
    items.iter().for_each(|item| sim.note(format!("put {item}")));
}

fn got(sim: &Sim, items: Vec<Vec<u8>>) -> usize {
    items.iter().for_each(|item| sim.note(format!("got {}", String::from_utf8_lossy(item))));
    items.len()
}

/// How many were got; 0 at the deadline.
fn get(sim: &Sim, most: usize, deadline: Deadline) -> usize {
    match queue::get(sim, &name(), most, deadline, &mut Vec::new()) {
        Ok(Waited::Done(items)) => got(sim, items),
        Ok(Waited::TimedOut) => 0,
        other => panic!("get: {other:?}"),
    }
}

fn peer_put(sim: &Sim, item: &str, sleeps: u32) {
    sim.note(format!("begun {item}"));
    let line = STANDARD.encode(format!("{item}\n"));
    if Peer::at(sim, "/q").queue_put(&Peer::at(sim, "/q/sem"), line.as_bytes(), sleeps) {
        sim.note(format!("put {item}"));
    }
}

fn peer_get(sim: &Sim, sleeps: u32) {
    let Some(line) = Peer::at(sim, "/q").queue_get(&Peer::at(sim, "/q/sem"), sleeps) else { return };
    assert!(!line.is_empty(), "a peer has got an empty item");
    let item = STANDARD.decode(&line).unwrap_or_else(|_| panic!("a peer has got {}", line.escape_ascii()));
    got(sim, vec![item.strip_suffix(b"\n").unwrap_or(&item).to_vec()]);
}

fn notes(sim: &Sim, what: &str) -> Vec<Vec<String>> {
    let kernel = sim.machine().kernel();
    let of = |notes: &[String]| notes.iter().filter_map(|note| note.strip_prefix(what)).map(str::to_owned).collect();
    kernel.processes.iter().map(|process| of(&process.notes)).collect()
}

/// Takes what is left, and checks that everything is accounted for. `lost`: taken by consumers that were killed.
fn all_is_accounted_for(sim: &Sim, lost: usize) {
    let mut dropped = Vec::new();
    let left = match queue::get(sim, &name(), 100, Deadline::At(sim.now()), &mut dropped) {
        Ok(Waited::Done(items)) => items.into_iter().map(|item| String::from_utf8(item).unwrap()).collect(),
        Ok(Waited::TimedOut) => Vec::new(),
        other => panic!("get: {other:?}"),
    };
    let mut delivered = notes(sim, "got ");
    delivered.push(left);
    let (begun, put) = (notes(sim, "begun ").concat(), notes(sim, "put ").concat());
    for line in &delivered {
        let mut last = BTreeMap::new();
        for item in line {
            let (producer, number) = item.split_at(1);
            let before = last.insert(producer, number);
            assert!(before.is_none_or(|before| before < number), "out of order: {delivered:?}");
        }
    }
    let mut all = delivered.concat();
    all.sort();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "twice: {all:?}");
    assert!(all.iter().all(|item| begun.contains(item)), "never put: {all:?}");
    let missing: Vec<_> = put.iter().filter(|item| !all.contains(item)).collect();
    assert!(missing.len() <= lost, "lost: {missing:?}");
}

/// Tokens and items are equal, the gate fits, and nothing else is there.
fn at_rest(sim: &Sim) {
    let tokens = match queue::len(sim, &name(), &mut Vec::new()) {
        Ok(Waited::Done(tokens)) => tokens as usize,
        other => panic!("len: {other:?}"),
    };
    let items = match queue::snapshot(sim, &name(), &mut Vec::new()) {
        Ok(Waited::Done(items)) => items.len(),
        other => panic!("snapshot: {other:?}"),
    };
    assert_eq!(tokens, items, "tokens and items differ");
    let kernel = sim.machine().kernel();
    let names: Vec<_> = kernel.files.tree().into_iter().map(|(path, _)| path).collect();
    assert_eq!(names.iter().any(|path| path == "/q/sem/waitlock"), tokens == 0, "gate and counter do not fit");
    let known = ["/q", "/q/data", "/q/sem", "/q/sem/counter", "/q/sem/owner", "/q/sem/waitlock"];
    let unknown: Vec<_> = names.iter().filter(|path| !known.contains(&path.as_str())).collect();
    assert!(unknown.is_empty(), "left behind: {unknown:?}");
}

/// *eventually* as many items as are asked for are delivered, without the re-check.
fn exact(scene: &mut Scene, producers: &'static [&'static [&'static str]], consumers: &'static [usize]) {
    init(scene, 0);
    for items in producers {
        scene.script(move |sim| put(sim, items));
    }
    for &wanted in consumers {
        scene.script(move |sim| {
            let mut missing = wanted;
            while missing > 0 {
                missing -= get(sim, missing, Deadline::Never);
            }
        });
    }
    scene.at_rest(|sim| {
        no_time_has_passed(sim);
        at_rest(sim);
        all_is_accounted_for(sim, 0);
    });
}

#[test]
fn one_put_one_get() {
    Search::all("queue, 1 put, 1 get")
        .preemptions(if is_deep() { u32::MAX } else { 4 })
        .holds(|scene| exact(scene, &[&["a1"]], &[1]))
        .saw("awake : Event");
}

#[test]
fn two_producers_one_consumer() {
    Search::all("queue, 2 puts of 2 and 1, 1 consumer")
        .preemptions(if is_deep() { 3 } else { 2 })
        .holds(|scene| exact(scene, &[&["a1", "a2"], &["b1"]], &[3]));
}

#[test]
fn one_producer_two_consumers() {
    Search::all("queue, 1 put of 2, 2 consumers")
        .preemptions(if is_deep() { 3 } else { 2 })
        .holds(|scene| exact(scene, &[&["a1", "a2"]], &[1, 1]));
}

#[test]
fn many_at_random() {
    let many = if is_deep() { 50_000 } else { 4_000 };
    let scene = |scene: &mut Scene| exact(scene, &[&["a1", "a2"], &["b1"], &["c1", "c2", "c3"]], &[2, 3, 1]);
    Search::all("queue, 3 producers, 3 consumers, random").random(many).holds(scene);
    Search::all("queue, 3 producers, 3 consumers, PCT").pct(many).holds(scene);
}

/// With all events lost the re-check makes progress.
#[test]
fn without_events() {
    Search::all("queue, no events")
        .preemptions(if is_deep() { 3 } else { 2 })
        .options(|options| options.has_events = false)
        .holds(|scene| {
            init(scene, 0);
            scene.script(|sim| put(sim, &["a1"]));
            scene.script(|sim| assert_eq!(get(sim, 1, Deadline::Never), 1));
            scene.at_rest(|sim| {
                assert!(sim.now() <= Time(START).after(Duration::from_secs(4)));
                at_rest(sim);
            });
        })
        .saw("awake : Recheck");
}

// Crashes.

/// The next put works, and of what was put at most `lost` items are missing.
fn recovers(scene: &mut Scene, lost: usize) {
    scene.at_rest(move |sim| {
        put(sim, &["z1"]);
        at_rest(sim);
        all_is_accounted_for(sim, lost);
    });
}

#[test]
fn a_producer_is_killed() {
    for consumed in [0, SECOND_ACROSS] {
        Search::all("queue, producer killed").preemptions(if is_deep() { 3 } else { 1 }).holds(move |scene| {
            init(scene, consumed);
            let producer = scene.script(|sim| put(sim, &["a1", "a2"]));
            scene.script(|sim| drop(get(sim, 1, seconds(sim, 5))));
            scene.kill(producer);
            recovers(scene, 0);
        });
    }
}

#[test]
fn a_consumer_is_killed() {
    for consumed in [0, FIRST_ACROSS] {
        Search::all("queue, consumer killed").preemptions(if is_deep() { 3 } else { 1 }).holds(move |scene| {
            init(scene, consumed);
            scene.before(|sim| put(sim, &["a1", "a2"]));
            let consumer = scene.script(|sim| drop(get(sim, 1, seconds(sim, 5))));
            scene.script(|sim| drop(get(sim, 1, seconds(sim, 5))));
            scene.kill(consumer);
            recovers(scene, 1);
        });
    }
}

/// The one that repairs is killed, too.
#[test]
fn a_producer_and_a_consumer_are_killed() {
    Search::all("queue, producer and consumer killed").preemptions(if is_deep() { 1 } else { 0 }).holds(|scene| {
        init(scene, FIRST_ACROSS);
        let producer = scene.script(|sim| put(sim, &["a1"]));
        let consumer = scene.script(|sim| drop(get(sim, 1, seconds(sim, 5))));
        scene.kill(producer);
        scene.kill(consumer);
        recovers(scene, 1);
    });
}

// Faults.

/// No false success; after an error what is there is as before, and later calls work.
#[test]
fn every_call_fails_once() {
    let scene = |is_producer: bool| {
        move |scene: &mut Scene| {
            init(scene, FIRST_ACROSS);
            scene.script(move |sim| {
                sim.pause("begin");
                let end = if is_producer {
                    sim.note("begun a1");
                    queue::put(sim, &name(), &["a1"], &mut Vec::new()).map(|end| {
                        assert_eq!(end, Waited::Done(()));
                        sim.note("put a1");
                    })
                } else {
                    queue::get(sim, &name(), 1, Deadline::Never, &mut Vec::new()).map(|end| match end {
                        Waited::Done(items) => drop(got(sim, items)),
                        other => panic!("get: {other:?}"),
                    })
                };
                assert!(matches!(end, Ok(()) | Err(Error::System { .. } | Error::Damaged { .. })), "{end:?}");
                sim.note(if end.is_ok() { "worked" } else { "failed" });
            });
            scene.at_rest(move |sim| {
                put(sim, &["z1"]);
                // What could not even be undone is mended by a waiter after 3 s.
                let _ = get(sim, 1, seconds(sim, 8));
                let _ = get(sim, 2, seconds(sim, 8));
                at_rest(sim);
                if is_producer && !notes(sim, "failed").concat().is_empty() {
                    assert!(!notes(sim, "got ").concat().contains(&"a1".into()), "failed, but was put");
                }
                all_is_accounted_for(sim, 0);
            });
        }
    };
    Search::all("queue, put with 1 fault").faults(1, scene(true));
    Search::all("queue, get with 1 fault").faults(1, scene(false));
}

// Peers.

fn files_change(options: &mut Options) {
    options.files_stay = false;
}

#[test]
fn a_peer_puts() {
    Search::all("queue, a peer and one of ours put, 2 of ours get")
        .options(files_change)
        .preemptions(if is_deep() { 2 } else { 1 })
        .holds(|scene| {
            init(scene, 0);
            scene.script(|sim| peer_put(sim, "p1", 30));
            scene.script(|sim| put(sim, &["a1"]));
            for _ in 0..2 {
                scene.script(|sim| assert_eq!(get(sim, 1, seconds(sim, 30)), 1));
            }
            scene.at_rest(|sim| all_is_accounted_for(sim, 0));
        });
}

/// `sed -i` replaces `data` while ours put and get.
#[test]
fn a_peer_gets() {
    Search::all("queue, ours put 2, a peer and one of ours get")
        .options(files_change)
        .preemptions(if is_deep() { 2 } else { 1 })
        .holds(|scene| {
            init(scene, FIRST_ACROSS);
            scene.script(|sim| put(sim, &["a1"]));
            scene.script(|sim| put(sim, &["b1"]));
            scene.script(|sim| peer_get(sim, 30));
            scene.script(|sim| assert_eq!(get(sim, 1, seconds(sim, 30)), 1));
            scene.at_rest(|sim| {
                at_rest(sim);
                all_is_accounted_for(sim, 0);
            });
        });
}

/// A put dies after half a line.
fn torn_line_scene(scene: &mut Scene) {
    init(scene, SECOND_ACROSS);
    let dying = scene.script(|sim| put(sim, &["a1"]));
    // Takes over from the dead one.
    scene.script(|sim| drop(get(sim, 1, seconds(sim, 1))));
    // A peer cannot break the lock of a dead process of ours; it gives up if none of ours comes.
    scene.script(|sim| peer_put(sim, "p1", 2));
    scene.kill(dying);
    scene.at_rest(|sim| {
        put(sim, &["z1"]);
        all_is_accounted_for(sim, 0);
    });
}

fn torn_line(name: &str) -> Search {
    Search::all(name).options(files_change).preemptions(if is_deep() { 1 } else { 0 })
}

/// The breaker removes the dead producer's `mutex`; a peer wins the free one and appends to the half line.
#[test]
fn peer_before_repair() {
    torn_line("queue, peer-before-repair").holds(torn_line_scene);
    torn_line("queue, peer-before-repair, removal and creation")
        .preemptions(1)
        .options(|options| options.deviation = Some(Deviation::RenameInTwoSteps))
        .is_caught("lost: ", torn_line_scene);
}

/// The repair counts the items but leaves the torn tail for a peer's append.
#[test]
fn get_takes_over_put() {
    torn_line("queue, get-takes-over-put").holds(torn_line_scene);
    torn_line("queue, get-takes-over-put, tail not looked at")
        .options(|options| options.omitted = Some(Rule::TailFirst))
        .is_caught("lost: ", torn_line_scene);
}

/// A peer holds a token for some milliseconds on its way to `mutex`.
fn hasty_repost_scene(scene: &mut Scene) {
    init(scene, 0);
    scene.before(|sim| put(sim, &["a1"]));
    scene.script(|sim| peer_get(sim, 0));
    scene.script(|sim| drop(get(sim, 1, seconds(sim, 1))));
    scene.slow(1);
}

/// Two looks 10 ms apart post it again; the peer gets an empty item with status 0.
#[test]
fn hasty_repost() {
    Search::all("queue, hasty-repost").options(files_change).preemptions(2).holds(hasty_repost_scene);
    Search::all("queue, hasty-repost, no patience")
        .options(files_change)
        .options(|options| options.omitted = Some(Rule::Patience))
        .preemptions(2)
        .is_caught("empty item", hasty_repost_scene);
}

// Making and destroying.

/// A consumer of a queue that is destroyed ends with an error, and nothing of it is left.
#[test]
fn destroyed_while_waited_for() {
    Search::all("queue, destroyed").options(everything_changes).preemptions(if is_deep() { 3 } else { 1 }).holds(
        |scene| {
            init(scene, 0);
            scene.script(|sim| {
                let end = queue::get(sim, &name(), 1, Deadline::Never, &mut Vec::new());
                assert!(matches!(end, Err(Error::System { .. } | Error::Damaged { .. })), "get: {end:?}");
            });
            scene.script(|sim| assert_eq!(queue::destroy(sim, &name(), true), Ok(Waited::Done(()))));
            scene.at_rest(|sim| {
                assert!(sim.now() <= Time(START).after(Duration::from_secs(2)));
                let kernel = sim.machine().kernel();
                let tree: Vec<(String, &Node)> = kernel.files.tree();
                assert!(tree.is_empty(), "left behind: {tree:?}");
            });
        },
    );
}
