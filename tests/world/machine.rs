//! The machine that runs the simulated world: one step at a time, with a point before each where a search may let
//! another process go first.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fmt::{self, Debug, Write};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use interlock::sys::{Armed, Errno, Sys, Wake};

use super::kernel::{Kernel, Options, State, Trouble, Who};

/// The payload of the unwinding of a killed process.
pub struct Killed;

/// How often each step ended how: `symlink countlock: EEXIST` → 17. What a search has *sometimes* seen.
pub type Tally = BTreeMap<String, u64>;

pub type Always = Box<dyn Fn(&Kernel) + Send + Sync>;

pub struct Machine {
    kernel: Mutex<Kernel>,
    /// Under shuttle: other processes may run before each step. Otherwise they run when the test calls them.
    is_raced: AtomicBool,
    is_abandoned: AtomicBool,
    always: Mutex<Option<Always>>,
    tally: Mutex<Tally>,
    /// The steps in words, if wanted.
    trace: Option<Mutex<Vec<String>>>,
    /// (who, k): dies instead of doing its k-th step.
    crash: Mutex<Option<(Who, usize)>>,
}

impl Machine {
    /// For tests that call one process after the other. A sleeper sleeps until its re-check.
    pub fn alone(options: Options) -> Arc<Machine> {
        Machine::new(options, true)
    }

    pub fn new(options: Options, is_traced: bool) -> Arc<Machine> {
        Arc::new(Machine {
            kernel: Mutex::new(Kernel::new(options)),
            is_raced: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            always: Mutex::default(),
            tally: Mutex::default(),
            trace: is_traced.then(Mutex::default),
            crash: Mutex::default(),
        })
    }

    /// From here on processes are shuttle's threads, until the race is over.
    pub fn race(&self, is_raced: bool) {
        self.is_raced.store(is_raced, Relaxed);
    }

    pub fn is_raced(&self) -> bool {
        self.is_raced.load(Relaxed)
    }

    /// Nobody wants to know how it ends: all processes leave.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Relaxed);
        for process in &mut self.kernel().processes {
            process.state = State::Dead;
            process.at_step = false;
        }
    }

    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Relaxed)
    }

    pub fn kernel(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new script, driven by the test itself.
    pub fn script(self: &Arc<Self>) -> super::Sim {
        let mut kernel = self.kernel();
        let who = kernel.add_script();
        kernel.processes[who].is_helper = true;
        drop(kernel);
        super::Sim::new(self.clone(), who)
    }

    /// A subshell, forked at once.
    pub fn subshell(self: &Arc<Self>, parent: &super::Sim) -> super::Sim {
        let mut kernel = self.kernel();
        let child = kernel.add_subshell(parent.who());
        kernel.fork(parent.who(), child);
        drop(kernel);
        super::Sim::new(self.clone(), child)
    }

    /// Checked after every step.
    pub fn always(&self, check: impl Fn(&Kernel) + Send + Sync + 'static) {
        *self.always.lock().unwrap() = Some(Box::new(check));
    }

    /// The process will die instead of doing its k-th step from now (0 is the next).
    pub fn crash_at(&self, who: Who, k: usize) {
        let done = self.kernel().processes[who].steps;
        *self.crash.lock().unwrap() = Some((who, done + k));
    }

    /// Runs a piece of a process' life; `None` if it was killed in it.
    pub fn run<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<Killed>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }

    pub fn steps(&self) -> Vec<String> {
        self.trace.as_ref().map_or_else(Vec::new, |trace| trace.lock().unwrap().clone())
    }

    pub fn take_tally(&self) -> Tally {
        std::mem::take(&mut *self.tally.lock().unwrap())
    }

    /// The point before a step, where others may go first and where a killed process ends.
    pub fn come_to_step(&self, who: Who, is_visible: bool) {
        {
            let mut kernel = self.kernel();
            let steps = kernel.processes[who].steps;
            if *self.crash.lock().unwrap() == Some((who, steps)) {
                kernel.crashes.push((who, steps));
                kernel.kill(who);
            }
            if !is_visible && kernel.processes[who].state != State::Dead {
                return;
            }
            kernel.processes[who].at_step = kernel.processes[who].state != State::Dead;
        }
        self.give_way(who);
    }

    /// Blocked until the kernel wakes it.
    pub fn block(&self, who: Who) {
        self.kernel().processes[who].at_step = true;
        if !self.is_raced() {
            let mut kernel = self.kernel();
            while kernel.processes[who].state != State::Running {
                kernel.pass_time();
            }
        }
        self.give_way(who);
        // To have been woken is progress, though nothing was asked.
        self.kernel().remember(who, &"woken");
    }

    fn give_way(&self, who: Who) {
        if self.is_raced() {
            shuttle::thread::yield_now();
        }
        let mut kernel = self.kernel();
        kernel.processes[who].at_step = false;
        if kernel.processes[who].state == State::Dead {
            drop(kernel);
            resume_unwind(Box::new(Killed));
        }
    }

    /// Notes what a step answered: for the local state of the process, the tally and the list of steps.
    pub fn record<T: Answer>(
        &self,
        kernel: &mut Kernel,
        who: Who,
        op: &str,
        name: &OsStr,
        detail: fmt::Arguments<'_>,
        answer: &T,
    ) {
        kernel.processes[who].steps += 1;
        kernel.remember(who, answer);
        let mut line = String::with_capacity(48);
        let plain = Plain(name);
        let _ = write!(line, "{op} {plain}: ");
        answer.brief(&mut line);
        {
            let mut tally = self.tally.lock().unwrap();
            match tally.get_mut(&line) {
                Some(count) => *count += 1,
                None => {
                    tally.insert(line, 1);
                }
            }
        }
        if self.trace.is_some() {
            let time = kernel.now as f64 / 1e9;
            let name = name.to_string_lossy();
            self.say(format!("{time:9.3} s  process {who}  {op} {name}{detail} → {answer:?}"));
        }
        if let Some(always) = &*self.always.lock().unwrap() {
            always(kernel);
        }
    }

    pub fn say(&self, line: String) {
        if let Some(trace) = &self.trace {
            trace.lock().unwrap().push(line);
        }
    }
}

impl Kernel {
    /// What a process is told is its local state: it does nothing but depending on that.
    pub fn remember(&mut self, who: Who, answer: &impl Debug) {
        struct Into(DefaultHasher);
        impl Write for Into {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let process = &mut self.processes[who];
        let mut into = Into(DefaultHasher::new());
        process.history.hash(&mut into.0);
        let _ = write!(into, "{answer:?}");
        process.history = into.0.finish();
    }

    /// The fault that is planned for this call.
    pub fn trouble(&mut self, who: Who, troubles: &'static [Trouble]) -> Option<Trouble> {
        if troubles.is_empty() {
            return None;
        }
        let process = &mut self.processes[who];
        process.troubles.push(troubles);
        let call = process.troubles.len() - 1;
        let fault = self.fault.filter(|fault| fault.who == who && fault.call == call)?;
        self.has_faulted = true;
        Some(fault.trouble)
    }
}

/// A name without the numbers that differ from run to run.
struct Plain<'a>(&'a OsStr);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.to_str().unwrap_or("*");
        match name.find(|c: char| c.is_ascii_digit()) {
            Some(digit) => write!(f, "{}*", &name[..digit]),
            None => f.write_str(name),
        }
    }
}

/// What a step can answer.
pub trait Answer: Debug {
    /// To a process that is being unwound: it is dead, and hears nothing that matters.
    fn nothing() -> Self;
    fn failed(errno: Errno) -> Self;
    fn brief(&self, line: &mut String);
}

impl<T: Debug> Answer for Sys<T> {
    fn nothing() -> Self {
        Err(Errno::EIO)
    }

    fn failed(errno: Errno) -> Self {
        Err(errno)
    }

    fn brief(&self, line: &mut String) {
        match self {
            Ok(_) => line.push_str("ok"),
            Err(errno) => {
                let _ = write!(line, "{errno:?}");
            }
        }
    }
}

macro_rules! answer {
    ($($type:ty = $nothing:expr),*) => {
        $(impl Answer for $type {
            fn nothing() -> Self {
                $nothing
            }

            fn failed(_: Errno) -> Self {
                $nothing
            }

            fn brief(&self, line: &mut String) {
                let _ = write!(line, "{self:?}");
            }
        })*
    };
}

answer!(bool = false, () = (), Armed = Armed::Gone, Option<Wake> = None, Wake = Wake::Recheck);
