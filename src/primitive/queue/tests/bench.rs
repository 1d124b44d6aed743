//! A queue in the simulated world, and what is always true of its data.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Deadline, Name, Result, Time};
use crate::primitive::Created;
use crate::primitive::queue::{MUTEX, Notes, get, init, put, semaphore_of};
use crate::primitive::semaphore;
use crate::primitive::wait::Waited;
use crate::sys::{Rule, World};
use crate::world::{Kernel, Machine, Options, Sim};

pub const DATA_PATH: &str = "/q/data";
/// Encoded 8,336 bytes: over two page boundaries wherever it begins.
pub const LONG: usize = 6_250;

pub fn name() -> Name {
    Name::of_directory(b"/q").unwrap()
}

pub fn item(letter: u8, length: usize) -> Vec<u8> {
    vec![letter; length]
}

pub fn bytes(kernel: &Kernel, path: &str) -> Vec<u8> {
    let inode = kernel.files.resolve(Path::new(path)).unwrap();
    kernel.files.bytes(inode).to_vec()
}

/// A machine with a queue that holds `items` behind so many consumed bytes.
pub struct Bench {
    pub machine: Arc<Machine>,
    /// Lives throughout.
    pub first: Sim,
}

impl Bench {
    pub fn new(consumed: usize, items: &[Vec<u8>], omitted: Option<Rule>) -> Bench {
        Bench::on(Machine::alone(Options { omitted, ..Options::default() }), consumed, items)
    }

    pub fn on(machine: Arc<Machine>, consumed: usize, items: &[Vec<u8>]) -> Bench {
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

    pub fn data(&self) -> Vec<u8> {
        bytes(&self.machine.kernel(), DATA_PATH)
    }

    pub fn set_data(&self, data: &[u8]) {
        let mut kernel = self.machine.kernel();
        let inode = kernel.files.resolve(Path::new(DATA_PATH)).unwrap();
        *kernel.files.bytes_mut(inode) = data.to_vec();
    }

    /// As a peer posts or waits.
    pub fn add_to_counter(&self, tokens: i64) {
        let sem = semaphore_of(&name()).unwrap();
        if tokens > 0 {
            assert_eq!(semaphore::post(&self.first, &sem, tokens.unsigned_abs()), Ok(Waited::Done(())));
        }
        for _ in tokens..0 {
            assert_eq!(semaphore::wait(&self.first, &sem, Deadline::Never), Ok(Waited::Done(())));
        }
    }

    /// Everything that can be had within ten seconds after the last item, as a new process sees it.
    pub fn drain(&self, notes: &mut Notes) -> Vec<Vec<u8>> {
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
    pub fn check_at_rest(&self) {
        assert_eq!(self.data(), b"", "{self}");
        assert_eq!(bytes(&self.machine.kernel(), "/q/sem/counter"), b"0\n");
        let names: Vec<String> = self.machine.kernel().files.tree().into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, ["/q", "/q/data", "/q/sem", "/q/sem/counter", "/q/sem/owner", "/q/sem/waitlock"]);
    }

    pub fn always_well_formed(&self) {
        self.machine.always(|kernel| check_form(&bytes(kernel, DATA_PATH)));
    }

    /// And, where nothing fails, whole whenever anybody may take it.
    pub fn always_whole(&self) {
        self.machine.always(|kernel| {
            let data = bytes(kernel, DATA_PATH);
            check_form(&data);
            let queue = kernel.files.resolve(Path::new("/q")).unwrap();
            if kernel.files.look_up(queue, MUTEX.as_ref()).is_err() {
                let lines = data.iter().filter(|&&byte| byte == b'\n').count();
                assert!(data.last().is_none_or(|&last| last == b'\n'), "free with a torn tail");
                assert!(!data.contains(&b'#'), "free with remains");
                assert_eq!(bytes(kernel, "/q/sem/counter"), format!("{lines}\n").into_bytes(), "free and out of step");
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
pub fn check_form(data: &[u8]) {
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

pub type Act = fn(&Sim) -> Result<Waited<usize>>;

pub fn get_upto(sim: &Sim, most: usize) -> Result<Waited<usize>> {
    Ok(match get(sim, &name(), most, Deadline::At(Time(0)), &mut Notes::new())? {
        Waited::Done(items) => Waited::Done(items.len()),
        Waited::TimedOut => Waited::TimedOut,
        Waited::Interrupted => Waited::Interrupted,
    })
}

pub fn put_some(sim: &Sim, items: &[Vec<u8>]) -> Result<Waited<usize>> {
    put(sim, &name(), items, &mut Notes::new()).map(|_| Waited::Done(items.len()))
}

pub fn small() -> Vec<Vec<u8>> {
    [b'a', b'b', b'c'].map(|letter| item(letter, 30)).to_vec()
}

pub fn long() -> Vec<Vec<u8>> {
    vec![item(b'a', 30), item(b'b', LONG), item(b'c', 30), item(b'd', LONG), item(b'e', 30)]
}

/// The first one's line begins at offset 4,000 and is cut at 4,096: a multiple of four before its end.
pub fn across() -> Vec<Vec<u8>> {
    vec![item(b'a', 100), item(b'b', 30)]
}
