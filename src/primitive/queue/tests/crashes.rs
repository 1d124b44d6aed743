//! A process dies before each of its steps, and so does the one that repairs; a write's pages are steps. Tests are named
//! as in the list of schedules that broke drafts; those of a variant that lacks the rule must be caught.
//!
//! *always*: `data` is consumed bytes, at most one line half consumed, live lines, at most one torn tail; and whenever
//! `mutex` is free, whole lines only and as many tokens. *afterwards*: lost is at most what the dead process had taken,
//! in order; tokens and items are equal; nothing is left over.

use std::cell::Cell;
use std::time::Duration;

use super::bench::{Act, Bench, DATA_PATH, LONG, across, get_upto, item, long, name, put_some, small};
use crate::base::{Deadline, Error, Result};
use crate::primitive::queue::data::{Data, PAGE};
use crate::primitive::queue::{Notes, get, len, put_back};
use crate::primitive::wait::Waited;
use crate::sys::{Errno, Rule, World};
use crate::world::{Deviation, Machine, Options};

/// Lets `act` die before each of its steps, and the one that repairs before each of its, and looks at what is left.
fn crash_everywhere(consumed: usize, items: &[Vec<u8>], act: Act, check: impl Fn(bool, &[Vec<u8>], &Bench)) {
    crash_everywhere_without(None, consumed, items, act, check);
}

fn crash_everywhere_without(
    omitted: Option<Rule>,
    consumed: usize,
    items: &[Vec<u8>],
    act: Act,
    check: impl Fn(bool, &[Vec<u8>], &Bench),
) {
    let visited = Cell::new(0);
    for k in 0.. {
        let mut has_died = false;
        for repairer in 0.. {
            let bench = Bench::new(consumed, items, omitted);
            bench.always_whole();
            let (victim, second) = (bench.machine.script(), bench.machine.script());
            bench.machine.crash_at(victim.who(), k);
            has_died = bench.machine.run(|| act(&victim)).is_none();
            bench.machine.kernel().kill(victim.who());
            bench.machine.crash_at(second.who(), repairer);
            let repaired = bench.machine.run(|| len(&second, &name(), &mut Notes::new()).unwrap());
            let left = bench.drain(&mut Notes::new());
            check(has_died, &left, &bench);
            bench.check_at_rest();
            visited.set(visited.get() + 1);
            if repaired.is_some() {
                break;
            }
        }
        if !has_died {
            break;
        }
    }
    assert!(visited.get() > 100, "only {} crashes", visited.get());
}

/// `left` is `items` without the first few.
fn lost_at_most(items: &[Vec<u8>], left: &[Vec<u8>], most: usize, bench: &Bench) {
    assert!(items.ends_with(left), "not the last ones: {bench}");
    assert!(items.len() - left.len() <= most, "{} lost: {bench}", items.len() - left.len());
}

fn get_across_dies(omitted: Option<Rule>) {
    let act: Act = |sim| get_upto(sim, 1);
    crash_everywhere_without(omitted, 4000, &across(), act, |_, left, bench| lost_at_most(&across(), left, 1, bench));
}

/// A consumer's death loses at most what it had taken. The consumed part ends so that lines lie across page boundaries.
#[test]
fn page_cut() {
    get_across_dies(None);
    for consumed in [0, 4000, 4094] {
        crash_everywhere(
            consumed,
            &small(),
            |sim| get_upto(sim, 1),
            |_, left, bench| lost_at_most(&small(), left, 1, bench),
        );
    }
    crash_everywhere(4000, &long(), |sim| get_upto(sim, 2), |_, left, bench| lost_at_most(&long(), left, 2, bench));
    crash_everywhere(0, &long(), |sim| get_upto(sim, 9), |_, left, bench| lost_at_most(&long(), left, 5, bench));
}

#[test]
#[should_panic(expected = "not the last ones")]
fn page_cut_without_hashes() {
    get_across_dies(Some(Rule::HashesBeforeNuls));
}

#[test]
#[should_panic(expected = "not of the form")]
fn backwards() {
    get_across_dies(Some(Rule::FrontToBack));
}

#[test]
#[should_panic(expected = "not the last ones")]
fn finish_by_nul() {
    get_across_dies(Some(Rule::RemainsLikeLines));
}

/// A producer's death leaves whole items of a put or none, and all that was acknowledged.
#[test]
fn a_dying_producer() {
    let all = [small(), long()].concat();
    let act: Act = |sim| put_some(sim, &long());
    crash_everywhere(4000, &small(), act, |has_died, left, bench| {
        assert!(all.starts_with(left) && left.len() >= 3, "{bench}");
        assert!(has_died || left.len() == all.len(), "{bench}");
    });
    crash_everywhere(
        0,
        &[],
        |sim| put_some(sim, &small()),
        |has_died, left, bench| {
            assert!(small().starts_with(left), "{bench}");
            assert!(has_died || left.len() == 3, "{bench}");
        },
    );
}

fn put_back_dies(omitted: Option<Rule>) {
    let back = [across(), small()].concat();
    let act: Act = |sim| put_back(sim, &name(), &across(), &mut Notes::new()).map(|()| Waited::Done(2));
    crash_everywhere_without(omitted, 4160, &small(), act, |has_died, left, bench| {
        assert!(left == back || (has_died && left == small()), "{bench}");
    });
}

/// Dying half way leaves the items before the live ones, or not at all.
#[test]
fn put_back_by_rename() {
    put_back_dies(None);
    let back = [vec![item(b'z', LONG)], long()].concat();
    let act: Act = |sim| put_back(sim, &name(), &[item(b'z', LONG)], &mut Notes::new()).map(|()| Waited::Done(1));
    crash_everywhere(4000, &long(), act, |has_died, left, bench| {
        assert!(left == back || (has_died && left == long()), "{bench}");
    });
}

#[test]
#[should_panic(expected = "not of the form")]
fn put_back_in_place() {
    put_back_dies(Some(Rule::PutBackByRename));
}

/// A put dies half way, ours takes over for a get, then a peer appends.
fn peer_after_takeover(omitted: Option<Rule>) {
    for k in 0.. {
        let bench = Bench::new(0, &small(), omitted);
        let (victim, second) = (bench.machine.script(), bench.machine.script());
        bench.machine.crash_at(victim.who(), k);
        let has_died = bench.machine.run(|| put_some(&victim, &long())).is_none();
        bench.machine.kernel().kill(victim.who());
        assert_eq!(get_upto(&second, 1), Ok(Waited::Done(1)));
        bench.set_data(&[bench.data(), b"cGVlcgo=\n".to_vec()].concat());
        bench.add_to_counter(1);
        let left = bench.drain(&mut Notes::new());
        assert_eq!(left.last().map(Vec::as_slice), Some(&b"peer"[..]), "the peer's item is gone");
        let all = [small(), long()].concat();
        assert!(all[1..].starts_with(&left[..left.len() - 1]), "{bench}");
        bench.check_at_rest();
        if !has_died {
            break;
        }
    }
}

#[test]
fn get_takes_over_put() {
    peer_after_takeover(None);
}

#[test]
#[should_panic(expected = "the peer's item is gone")]
fn get_takes_over_put_and_leaves_the_tail() {
    peer_after_takeover(Some(Rule::TailFirst));
}

/// A takeover in two steps would let a peer in before the repair.
#[test]
#[should_panic(expected = "free with a torn tail")]
fn peer_before_repair() {
    for k in 0.. {
        let deviation = Some(Deviation::RenameInTwoSteps);
        let bench = Bench::on(Machine::alone(Options { deviation, ..Options::default() }), 0, &small());
        let (victim, second) = (bench.machine.script(), bench.machine.script());
        bench.machine.crash_at(victim.who(), k);
        let has_died = bench.machine.run(|| put_some(&victim, &long())).is_none();
        bench.machine.kernel().kill(victim.who());
        bench.always_whole();
        let _ = get_upto(&second, 1);
        assert!(has_died, "not noticed");
    }
}

fn zeroed(omitted: Option<Rule>) -> (Vec<Vec<u8>>, Notes) {
    let items: Vec<Vec<u8>> = (0..20).map(|number| item(b'a' + number, 30)).collect();
    let bench = Bench::new(0, &items, omitted);
    bench.set_data(&[bench.data(), vec![0; 400]].concat());
    let mut notes = Notes::new();
    let left = bench.drain(&mut notes);
    (left, notes)
}

/// 20 items and 400 NULs: all are delivered, and the damage is told once.
#[test]
fn zeroed_tail() {
    let (left, notes) = zeroed(None);
    assert_eq!(left.len(), 20);
    let what = "damaged: 400 bytes behind the last whole item, cut off";
    assert_eq!(notes, [Error::damaged(DATA_PATH, what)]);
}

/// Looking for the head block by block and looking at everything before a truncation has saved the items, but nobody is
/// told.
#[test]
fn zeroed_tail_without_a_look_at_it() {
    let (left, notes) = zeroed(Some(Rule::TailFirst));
    assert_eq!((left.len(), notes), (20, Notes::new()));
}

/// A peer has a token and is slow on its way to the mutex, while ours waits. Is it posted again?
fn beside_a_slow_peer(omitted: Option<Rule>) -> Vec<u8> {
    let bench = Bench::new(0, &small()[..1], omitted);
    bench.add_to_counter(-1);
    let two_seconds = Deadline::At(bench.first.now().after(Duration::from_secs(2)));
    let _ = get(&bench.first, &name(), 1, two_seconds, &mut Notes::new());
    bench.data()
}

#[test]
fn hasty_repost() {
    assert_ne!(beside_a_slow_peer(None), b"", "the peer finds its item");
    assert_eq!(beside_a_slow_peer(Some(Rule::Patience)), b"", "it finds nothing");
}

/// A producer that is no more has left an item without a token: a waiter posts it after three seconds.
#[test]
fn an_item_without_a_token_is_posted_in_the_end() {
    let bench = Bench::new(0, &small(), None);
    bench.add_to_counter(-3);
    let start = bench.first.now();
    assert_eq!(bench.drain(&mut Notes::new()), small());
    let took = bench.first.now().since(start);
    assert!((3..15).contains(&took.as_secs()), "{took:?}");
    bench.check_at_rest();
}

/// What the rules forbid, for the variants that must be caught.
impl<W: World> Data<'_, W> {
    pub fn paint_backwards(&mut self, start: u64, length: usize, paint: &[u8]) -> (usize, Option<Errno>) {
        let page = PAGE as u64;
        let end = start + length as u64;
        for index in (start / page..=(end - 1) / page).rev() {
            let (from, to) = ((index * page).max(start), ((index + 1) * page).min(end));
            if let (_, Some(errno)) = self.write(from, &paint[..(to - from) as usize]) {
                return (0, Some(errno));
            }
        }
        (length, None)
    }

    pub fn put_in_place(&mut self, lines: &[u8], head: u64) -> Result<()> {
        let (_, failure) = self.write(head - lines.len() as u64, lines);
        failure.map_or(Ok(()), |errno| Err(self.error(errno)))
    }
}
