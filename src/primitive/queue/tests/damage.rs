//! Damage anywhere in `data`: bytes overwritten, zeroed, cut off, inserted. Never a panic, never a wait, never more memory
//! than the file has bytes; every line that is an item is delivered, once, in order; everything else is in `rejected`.

use proptest::prelude::*;
use std::path::Path;

use super::bench::{Bench, bytes, item, name};
use crate::base::{Deadline, Time};
use crate::primitive::queue::data::PAGE;
use crate::primitive::queue::{Notes, get, item as code, peek, snapshot};
use crate::primitive::wait::Waited;

/// One hit.
#[derive(Debug, Clone)]
enum Damage {
    Overwritten(usize, Vec<u8>),
    Zeroed(usize, usize),
    CutOff(usize),
    Inserted(usize, Vec<u8>),
    Removed(usize, usize),
}

fn damage(longest: usize) -> impl Strategy<Value = Damage> {
    let bytes = || prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'#'), Just(0)], 1..40);
    prop_oneof![
        (any::<usize>(), bytes()).prop_map(|(at, bytes)| Damage::Overwritten(at, bytes)),
        (any::<usize>(), 1..longest).prop_map(|(at, length)| Damage::Zeroed(at, length)),
        any::<usize>().prop_map(Damage::CutOff),
        (any::<usize>(), bytes()).prop_map(|(at, bytes)| Damage::Inserted(at, bytes)),
        (any::<usize>(), 1..longest).prop_map(|(at, length)| Damage::Removed(at, length)),
    ]
}

impl Damage {
    fn strike(&self, data: &mut Vec<u8>) {
        let place = |at: &usize| at % (data.len() + 1);
        match self {
            Damage::Overwritten(at, bytes) => {
                let at = place(at);
                let end = data.len().min(at + bytes.len());
                data[at..end].copy_from_slice(&bytes[..end - at]);
            }
            Damage::Zeroed(at, length) => {
                let at = place(at);
                let end = data.len().min(at + length);
                data[at..end].fill(0);
            }
            Damage::CutOff(at) => data.truncate(place(at)),
            Damage::Inserted(at, bytes) => {
                let at = place(at);
                data.splice(at..at, bytes.iter().copied());
            }
            Damage::Removed(at, length) => {
                let at = place(at);
                let end = data.len().min(at + length);
                data.drain(at..end);
            }
        }
    }
}

/// A queue's data, one line after the other: the items in it, and the lines that are none.
fn read_simply(data: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut items, mut others) = (Vec::new(), Vec::new());
    for line in data.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        let start = line.iter().position(|&byte| byte != 0).unwrap_or(0);
        match (&line[start..line.len() - 1], code::decode(&line[start..line.len() - 1]).unwrap()) {
            ([] | [b'#', ..], _) => {}
            (_, Some(item)) => items.push(item),
            (line, None) => others.push(line.to_vec()),
        }
    }
    (items, others)
}

/// Gets everything, in batches.
fn get_all(bench: &Bench, most: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Waited::Done(items) = get(&bench.first, &name(), most, Deadline::At(Time(0)), &mut Notes::new()).unwrap()
    {
        assert!((1..=most).contains(&items.len()));
        all.extend(items);
    }
    all
}

fn rejected(bench: &Bench) -> Vec<Vec<u8>> {
    let kernel = bench.machine.kernel();
    let Ok(inode) = kernel.files.resolve(Path::new("/q/rejected")) else { return Vec::new() };
    kernel
        .files
        .bytes(inode)
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| line[..line.len() - 1].to_vec())
        .collect()
}

fn with_data(data: &[u8]) -> Bench {
    let bench = Bench::new(0, &[], None);
    bench.set_data(data);
    bench.add_to_counter(data.len() as i64 + 1);
    bench
}

fn data_of(consumed: usize, lengths: &[usize]) -> Vec<u8> {
    let items: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(n, &length)| item(b'!' + n as u8, length)).collect();
    [vec![0; consumed], code::encode(&items).unwrap()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Shorter than a page, what is zeroed cannot mislead the search for the head.
    #[test]
    fn whole_items_come_out_in_order(
        consumed in prop_oneof![Just(0usize), 1..200usize, 4000..9000usize],
        lengths in prop::collection::vec(prop_oneof![0..60usize, Just(5000usize)], 0..12),
        hits in prop::collection::vec(damage(1300), 0..4),
        most in 1..5usize,
    ) {
        let mut data = data_of(consumed, &lengths);
        hits.iter().for_each(|hit| hit.strike(&mut data));
        let (items, others) = read_simply(&data);
        let bench = with_data(&data);
        let seen = snapshot(&bench.first, &name(), &mut Notes::new());
        prop_assert_eq!(seen, Ok(Waited::Done(items.clone())));
        let first = peek(&bench.first, &name(), &mut Notes::new());
        prop_assert_eq!(first, Ok(Waited::Done(items.first().cloned())));
        prop_assert_eq!(get_all(&bench, most), items);
        prop_assert_eq!(rejected(&bench), others);
        prop_assert_eq!(bench.data(), b"");
    }

    /// Nor can whole pages, which is what a crash of the machine zeroes.
    #[test]
    fn zeroed_pages_do_not_mislead(
        consumed in 0..20_000usize,
        lengths in prop::collection::vec(0..3000usize, 0..12),
        pages in prop::collection::vec((any::<usize>(), 1..4usize), 1..3),
        most in 1..5usize,
    ) {
        let mut data = data_of(consumed, &lengths);
        for (page, count) in pages {
            let from = page % (data.len() / PAGE + 1) * PAGE;
            let to = data.len().min(from + count * PAGE);
            data[from..to].fill(0);
        }
        let (items, others) = read_simply(&data);
        let bench = with_data(&data);
        prop_assert_eq!(get_all(&bench, most), items);
        prop_assert_eq!(rejected(&bench), others);
    }

    /// Other long runs of NULs can: then items may come late, but none that is whole is lost.
    #[test]
    fn zeroed_runs_lose_nothing_else(
        consumed in 0..20_000usize,
        lengths in prop::collection::vec(0..3000usize, 0..12),
        hits in prop::collection::vec(damage(12_000), 1..4),
    ) {
        let mut data = data_of(consumed, &lengths);
        hits.iter().for_each(|hit| hit.strike(&mut data));
        let (items, _) = read_simply(&data);
        let bench = with_data(&data);
        // A head that was misled to the end looks like an empty queue once; a waiter's look posts again.
        let all: Vec<_> = (0..4)
            .flat_map(|_| {
                bench.add_to_counter(data.len() as i64);
                get_all(&bench, 3)
            })
            .collect();
        for item in &items {
            prop_assert!(all.contains(item));
        }
    }

    /// Lines that are no items delay none, whether they have come with a token or without, and leave none behind.
    #[test]
    fn each_item_keeps_its_token(
        lines in prop::collection::vec((0..3u8, prop_oneof![0..60usize, Just(3000usize)]), 0..20),
        most in 1..5usize,
    ) {
        let (mut data, mut items, mut tokens) = (Vec::new(), Vec::new(), 0);
        for (kind, length) in lines {
            if kind == 0 {
                items.push(item(b'a' + items.len() as u8, length));
                data.extend(code::encode(&items[items.len() - 1..]).unwrap());
            } else {
                data.extend([vec![b'*'; length.max(1)], b"\n".to_vec()].concat());
            }
            tokens += i64::from(kind < 2);
        }
        let bench = Bench::new(0, &[], None);
        bench.set_data(&data);
        bench.add_to_counter(tokens);
        prop_assert_eq!(get_all(&bench, most), items);
        prop_assert_eq!(bytes(&bench.machine.kernel(), "/q/sem/counter"), b"0\n");
    }

    #[test]
    fn no_bytes_upset_it(data in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'#'), Just(0), Just(b'A')], 0..600)) {
        let (items, others) = read_simply(&data);
        let bench = with_data(&data);
        prop_assert_eq!(get_all(&bench, 2), items);
        prop_assert_eq!(rejected(&bench), others);
    }
}
