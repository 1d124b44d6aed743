//! The queue in the simulated world: a process dies before each of its steps (a write's pages are steps), or each of its
//! calls goes wrong once, and then another process goes on. Tests named as in the list of schedules that broke drafts.
//!
//! *always*: `data` is consumed bytes, at most one line half consumed, live lines, at most one torn tail; nothing is
//! delivered that was not put. *afterwards*: what may be lost is what the dead process had taken, in order; tokens and items
//! are equal; nothing is left over.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::base::Time;
use crate::sys::Rule;
use crate::world::{Fault, Kernel, Machine, Node, Options, Sim};

const DATA_PATH: &str = "/q/data";
/// Encoded 8,336 bytes: over two page boundaries wherever it begins.
const LONG: usize = 6_250;

fn name() -> Name {
    Name::of_directory(b"/q").unwrap()
}

fn item(letter: u8, length: usize) -> Vec<u8> {
    vec![letter; length]
}

fn bytes(kernel: &Kernel, path: &str) -> Vec<u8> {
    let inode = kernel.files.resolve(Path::new(path)).unwrap();
    kernel.files.bytes(inode).to_vec()
}

/// A machine with a queue that holds `items` behind so many consumed bytes.
struct Bench {
    machine: Arc<Machine>,
    /// Lives throughout.
    first: Sim,
}

impl Bench {
    fn new(consumed: usize, items: &[Vec<u8>], omitted: Option<Rule>) -> Bench {
        let machine = Machine::alone(Options { omitted, ..Options::default() });
        let first = machine.script();
        assert_eq!(init(&first, &name()), Ok(Created::Made));
        let bench = Bench { machine, first };
        if !items.is_empty() {
            assert_eq!(put(&bench.first, &name(), items, &mut Notes::new()), Ok(Waited::Done(())));
            let data = [vec![0; consumed], bench.data()].concat();
            bench.set_data(&data);
        }
        bench
    }

    fn data(&self) -> Vec<u8> {
        bytes(&self.machine.kernel(), DATA_PATH)
    }

    fn set_data(&self, data: &[u8]) {
        let mut kernel = self.machine.kernel();
        let inode = kernel.files.resolve(Path::new(DATA_PATH)).unwrap();
        *kernel.files.bytes_mut(inode) = data.to_vec();
    }

    fn set_counter(&self, value: i64) {
        let mut kernel = self.machine.kernel();
        let inode = kernel.files.resolve(Path::new("/q/sem/counter")).unwrap();
        *kernel.files.bytes_mut(inode) = format!("{value}\n").into_bytes();
        let sem = kernel.files.resolve(Path::new("/q/sem")).unwrap();
        let now = kernel.now;
        if value > 0 {
            let _ = kernel.files.remove(sem, "waitlock".as_ref(), false, now);
        }
    }

    /// Everything that can be had within ten seconds after the last item, as a new process sees it.
    fn drain(&self, notes: &mut Notes) -> Vec<Vec<u8>> {
        let sim = self.machine.script();
        let mut all = Vec::new();
        loop {
            let deadline = Deadline::At(sim.now().after(Duration::from_secs(10)));
            match get(&sim, &name(), 4, deadline, notes).unwrap() {
                Waited::Done(items) => all.extend(items),
                Waited::TimedOut => return all,
                Waited::Interrupted => panic!("nobody signalled"),
            }
        }
    }

    /// Empty, in step, and nothing that a destroy would not know.
    fn check_at_rest(&self) {
        assert_eq!(self.data(), b"", "{self}");
        assert_eq!(bytes(&self.machine.kernel(), "/q/sem/counter"), b"0\n");
        let names: Vec<String> = self.machine.kernel().files.tree().into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, ["/q", "/q/data", "/q/sem", "/q/sem/counter", "/q/sem/owner", "/q/sem/waitlock"]);
    }

    fn always_well_formed(&self) {
        self.machine.always(|kernel| {
            let Ok(inode) = kernel.files.resolve(Path::new(DATA_PATH)) else { return };
            if let Node::File(data) = &kernel.files.entry(inode).node {
                check_form(data);
            }
        });
    }
}

/// What happened, for a failing test.
impl std::fmt::Display for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.machine.steps().join("\n"))
    }
}

/// NULs, then at most one line of `#` and a rest, then lines; what follows the last newline is a put's.
fn check_form(data: &[u8]) {
    let live = &data[data.iter().position(|&byte| byte != 0).unwrap_or(data.len())..];
    for (index, line) in live.split(|&byte| byte == b'\n').enumerate() {
        let line = if index == 0 { &line[line.iter().take_while(|&&byte| byte == b'#').count()..] } else { line };
        assert!(
            line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)),
            "not of the form: {}",
            live.escape_ascii()
        );
    }
}

type Act = fn(&Sim) -> Result<Waited<usize>>;

fn get_upto(sim: &Sim, most: usize) -> Result<Waited<usize>> {
    Ok(match get(sim, &name(), most, Deadline::At(Time(0)), &mut Notes::new())? {
        Waited::Done(items) => Waited::Done(items.len()),
        Waited::TimedOut => Waited::TimedOut,
        Waited::Interrupted => Waited::Interrupted,
    })
}

fn put_some(sim: &Sim, items: &[Vec<u8>]) -> Result<Waited<usize>> {
    put(sim, &name(), items, &mut Notes::new()).map(|_| Waited::Done(items.len()))
}

/// Lets `act` die before each of its steps, and the one that repairs before each of its, and looks at what is left.
fn crash_everywhere(consumed: usize, items: &[Vec<u8>], act: Act, check: impl Fn(bool, &[Vec<u8>], &Bench)) {
    let visited = Cell::new(0);
    for k in 0.. {
        let mut has_died = false;
        for repairer in 0.. {
            let bench = Bench::new(consumed, items, None);
            bench.always_well_formed();
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

/// Lets each call of `act` go wrong in each way, and looks at what it said and what is left.
fn fail_everywhere(consumed: usize, items: &[Vec<u8>], act: Act, check: impl Fn(Result<usize>, &[Vec<u8>], &Bench)) {
    let troubles = {
        let bench = Bench::new(consumed, items, None);
        let victim = bench.machine.script();
        act(&victim).unwrap();
        let kernel = bench.machine.kernel();
        kernel.processes[victim.who()].troubles.clone()
    };
    assert!(troubles.len() > 10);
    for (call, kinds) in troubles.iter().enumerate() {
        for &trouble in *kinds {
            let bench = Bench::new(consumed, items, None);
            bench.always_well_formed();
            let victim = bench.machine.script();
            bench.machine.kernel().fault = Some(Fault { who: victim.who(), call, trouble });
            let said = match act(&victim) {
                Ok(Waited::Done(count)) => Ok(count),
                Ok(_) => Ok(0),
                Err(error) => Err(error),
            };
            bench.machine.kernel().kill(victim.who());
            let left = bench.drain(&mut Notes::new());
            check(said, &left, &bench);
            bench.check_at_rest();
        }
    }
}

fn small() -> Vec<Vec<u8>> {
    [b'a', b'b', b'c'].map(|letter| item(letter, 30)).to_vec()
}

fn long() -> Vec<Vec<u8>> {
    vec![item(b'a', 30), item(b'b', LONG), item(b'c', 30), item(b'd', LONG), item(b'e', 30)]
}

/// `left` is `items` without the first few.
fn lost_at_most(items: &[Vec<u8>], left: &[Vec<u8>], most: usize, bench: &Bench) {
    assert!(items.ends_with(left), "not the last ones: {bench}");
    assert!(items.len() - left.len() <= most, "{} lost: {bench}", items.len() - left.len());
}

/// A consumer's death loses at most what it had taken. The consumed part ends so that lines lie across page boundaries.
#[test]
fn page_cut() {
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

/// Dying half way leaves the items before the live ones, or not at all.
#[test]
fn put_back_in_place() {
    let back = [vec![item(b'z', LONG)], long()].concat();
    let act: Act = |sim| put_back(sim, &name(), &[item(b'z', LONG)], &mut Notes::new()).map(|()| Waited::Done(1));
    crash_everywhere(4000, &long(), act, |has_died, left, bench| {
        assert!(left == back || (has_died && left == long()), "{bench}");
    });
}

/// Every call goes wrong once: with an error nothing has changed; without, it has happened.
#[test]
fn full_disk() {
    for consumed in [0, 4000] {
        let gets: [(Act, usize); 3] =
            [(|sim| get_upto(sim, 1), 1), (|sim| get_upto(sim, 2), 2), (|sim| get_upto(sim, 9), 5)];
        for (act, most) in gets {
            fail_everywhere(consumed, &long(), act, |said, left, bench| {
                let taken = said.unwrap_or(0);
                assert!(taken <= most);
                assert_eq!(left, &long()[taken..], "{bench}");
            });
        }
        fail_everywhere(
            consumed,
            &small(),
            |sim| put_some(sim, &long()),
            |said, left, bench| {
                let all = [small(), long()].concat();
                assert_eq!(left, if said.is_ok() { &all[..] } else { &all[..3] }, "{bench}");
            },
        );
        let act: Act = |sim| put_back(sim, &name(), &small(), &mut Notes::new()).map(|()| Waited::Done(3));
        fail_everywhere(consumed, &long(), act, |said, left, bench| {
            let all = [small(), long()].concat();
            assert_eq!(left, if said.is_ok() { &all[..] } else { &all[3..] }, "{bench}");
        });
    }
}
