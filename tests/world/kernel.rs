//! The kernel of the simulated world: processes, open files with their marks and flocks, watches, time.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;

use interlock::base::{Process as Identity, Time};
use interlock::sys::{Awaited, Errno};

use super::files::{Files, Inode};

/// Which process, in order of creation.
pub type Who = usize;
/// Numbers are handed out per process, so that they depend on nothing but that process' own history.
pub type Handle = u64;

/// When the simulated time begins.
pub const START: u64 = 1_000_000_000;

/// How the world deviates from what the protocols rely on. Each is a rule taken away; the searches must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deviation {
    /// The guard excludes nobody.
    NoGuard,
    /// A process that lost its mark counts as dead.
    MarkIsEverything,
    /// The watch begins with the sleep, after the last try.
    LateWatch,
    /// A rename over something is a removal and then a creation.
    RenameInTwoSteps,
    /// A process does not see marks that it, or whom it was forked from, has set.
    BlindToOwnMarks,
    /// A directory handle is a path, looked up anew at each step.
    DirectoryByPath,
    /// Marks are trusted where other hosts' marks cannot be seen.
    MarksAcrossHosts,
    /// A rename that must not replace anything replaces an empty directory.
    PlainRename,
    /// A reader of a bakery's record has copied the number before it looks at the flag, as one torn read of both can.
    NumberBeforeFlag,
    /// Nobody shows that it is entering the bakery.
    NoEntering,
    /// A wait that a signal ends leaves behind what it should give up.
    LeftAtSignal,
}

#[derive(Debug, Clone)]
pub struct Options {
    /// Are changes of watched objects told?
    pub has_events: bool,
    pub deviation: Option<Deviation>,
    /// The rule that the primitives themselves leave out.
    pub omitted: Option<interlock::sys::Rule>,
    /// Marks can be set and seen.
    pub can_mark: bool,
    /// No directory comes or goes in the race. Then nobody can see when one is opened, so that no other order of these
    /// steps has to be searched.
    pub directories_stay: bool,
    /// The same for files.
    pub files_stay: bool,
    /// The file system can rename without replacing.
    pub can_rename_exclusively: bool,
    /// A ticket's number reads as this while it is being written.
    pub torn_number: Option<u64>,
    /// After so much simulated time nothing is expected to happen any more.
    pub horizon: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            has_events: true,
            deviation: None,
            omitted: None,
            can_mark: true,
            directories_stay: true,
            files_stay: true,
            can_rename_exclusively: true,
            torn_number: None,
            horizon: 120_000_000_000,
        }
    }
}

/// An open file description.
#[derive(Debug, Clone, Hash)]
pub struct Open {
    pub inode: Inode,
    pub marks: BTreeSet<u32>,
    /// Processes that have a descriptor of it.
    pub by: BTreeSet<Who>,
    pub host: u32,
    /// For [`Deviation::NumberBeforeFlag`].
    pub early: Option<Vec<u8>>,
    /// For [`Deviation::DirectoryByPath`].
    pub path: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// A subshell not yet forked.
    Unborn,
    Running,
    /// Until an event of this waiter, at the latest until then.
    Asleep {
        waiter: Handle,
        until: u64,
    },
    AwaitsGuard {
        dir: Inode,
        until: u64,
    },
    /// Killed or gone; of no effect any more.
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Watch {
    pub inode: Inode,
    pub content: bool,
}

#[derive(Debug, Clone, Default, Hash)]
pub struct Watcher {
    pub watch: Option<Watch>,
    pub holder: Option<u32>,
    pub is_heard: bool,
}

#[derive(Debug, Clone, Hash)]
pub struct Parked {
    pub handle: Handle,
    pub name: OsString,
    pub nonce: u32,
    pub by_programs: bool,
}

/// The call of a process that is to go wrong, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub who: Who,
    /// Counted from 0 among the calls that can go wrong.
    pub call: usize,
    pub trouble: Trouble,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Fails(Errno),
    /// Writes or reads only half.
    Short,
    /// Somebody unknown holds the guard.
    Refused,
}

#[derive(Debug)]
pub struct Process {
    pub identity: Identity,
    pub host: u32,
    pub state: State,
    /// The killer and the clock: not of the world, not waited for.
    pub is_helper: bool,
    /// Stands before a step: here it may be interleaved. Otherwise it runs on to its next step.
    pub at_step: bool,
    pub parked: Vec<Parked>,
    pub watchers: BTreeMap<Handle, Watcher>,
    /// What bash has to look at.
    pub has_signal: bool,
    /// A digest of all that it was told: its local state.
    pub history: u64,
    pub steps: usize,
    /// What could go wrong at each of its calls.
    pub troubles: Vec<&'static [Trouble]>,
    pub handles: Handle,
    pub randoms: u64,
    /// What the test notes of its life.
    pub notes: Vec<String>,
    /// Has acquired, and not yet released.
    pub is_inside: bool,
    /// The link it read last.
    pub read: Option<Inode>,
    /// It has removed or replaced another link than the one it read last.
    pub removed_unread: bool,
}

pub struct Kernel {
    pub options: Options,
    pub files: Files,
    pub opens: BTreeMap<Handle, Open>,
    pub flocks: BTreeMap<Inode, Who>,
    pub processes: Vec<Process>,
    pub now: u64,
    /// What the test itself keeps count of.
    pub board: BTreeMap<&'static str, i64>,
    /// What a check of every step has to remember.
    pub facts: RefCell<BTreeSet<(&'static str, Inode, Inode)>>,
    pub fault: Option<Fault>,
    pub has_faulted: bool,
    /// Where processes were killed: who, after how many steps.
    pub crashes: Vec<(Who, usize)>,
}

impl Kernel {
    pub fn new(options: Options) -> Kernel {
        Kernel {
            options,
            files: Files::default(),
            opens: BTreeMap::new(),
            flocks: BTreeMap::new(),
            processes: Vec::new(),
            now: START,
            board: BTreeMap::new(),
            facts: RefCell::default(),
            fault: None,
            has_faulted: false,
            crashes: Vec::new(),
        }
    }

    /// A process that was started by exec: a script of its own.
    pub fn add_script(&mut self) -> Who {
        let pid = 100 + self.processes.len() as u32;
        let start = 1000 + u64::from(pid);
        self.add(Identity { place: 7, pid, start, script: pid, script_start: start }, 0, State::Running, false)
    }

    /// A process that `parent` forks later.
    pub fn add_subshell(&mut self, parent: Who) -> Who {
        let pid = 100 + self.processes.len() as u32;
        let of_parent = self.processes[parent].identity;
        let host = self.processes[parent].host;
        self.add(Identity { pid, start: 1000 + u64::from(pid), ..of_parent }, host, State::Unborn, false)
    }

    pub fn add_helper(&mut self) -> Who {
        let pid = 100 + self.processes.len() as u32;
        self.add(Identity { place: 0, pid, start: 1, script: pid, script_start: 1 }, 0, State::Running, true)
    }

    fn add(&mut self, identity: Identity, host: u32, state: State, is_helper: bool) -> Who {
        self.processes.push(Process {
            identity,
            host,
            state,
            is_helper,
            at_step: false,
            parked: Vec::new(),
            watchers: BTreeMap::new(),
            has_signal: false,
            history: 0,
            steps: 0,
            troubles: Vec::new(),
            handles: 0,
            randoms: 0,
            notes: Vec::new(),
            is_inside: false,
            read: None,
            removed_unread: false,
        });
        self.processes.len() - 1
    }

    pub fn fresh_handle(&mut self, who: Who) -> Handle {
        let process = &mut self.processes[who];
        process.handles += 1;
        ((who as u64 + 1) << 32) | process.handles
    }

    /// Evenly spread and different in every process, yet the same in every run.
    pub fn fresh_random(&mut self, who: Who) -> u64 {
        let process = &mut self.processes[who];
        process.randoms += 1;
        let mut x = ((who as u64 + 1) << 32 | process.randoms).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 32;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^ (x >> 32)
    }

    // Open files.

    pub fn open(&mut self, who: Who, inode: Inode, path: Option<std::path::PathBuf>) -> Handle {
        let handle = self.fresh_handle(who);
        let host = self.processes[who].host;
        self.opens
            .insert(handle, Open { inode, marks: BTreeSet::new(), by: BTreeSet::from([who]), host, early: None, path });
        handle
    }

    /// What a directory handle stands for.
    pub fn inode(&self, handle: Handle) -> Result<Inode, Errno> {
        let open = &self.opens[&handle];
        match &open.path {
            Some(path) if self.options.deviation == Some(Deviation::DirectoryByPath) => self.files.resolve(path),
            _ => Ok(open.inode),
        }
    }

    /// Closes the descriptor of one process; marks go with the last one.
    pub fn close(&mut self, who: Who, handle: Handle) {
        if let Some(open) = self.opens.get_mut(&handle) {
            open.by.remove(&who);
            if open.by.is_empty() {
                self.opens.remove(&handle);
                self.forget_unlinked();
            }
        }
    }

    /// Frees inodes without name and without descriptor.
    pub fn forget_unlinked(&mut self) {
        let opens = &self.opens;
        self.files.entries.retain(|inode, entry| entry.is_linked || opens.values().any(|open| open.inode == *inode));
    }

    // Life and death.

    pub fn fork(&mut self, parent: Who, child: Who) {
        assert_eq!(self.processes[child].state, State::Unborn);
        let parked = self.processes[parent].parked.clone();
        for mark in &parked {
            self.opens.get_mut(&mark.handle).expect("a parked handle is open").by.insert(child);
        }
        self.processes[child].parked = parked;
        self.processes[child].state = State::Running;
    }

    /// The process runs a program that closes all descriptors, and lives on.
    pub fn close_parked(&mut self, who: Who) {
        for mark in std::mem::take(&mut self.processes[who].parked) {
            self.close(who, mark.handle);
        }
    }

    /// The process stops for ever and its descriptors are closed.
    pub fn kill(&mut self, victim: Who) {
        if self.processes[victim].state == State::Dead {
            return;
        }
        let process = &mut self.processes[victim];
        process.state = State::Dead;
        process.at_step = false;
        process.is_inside = false;
        process.parked.clear();
        process.watchers.clear();
        let pid = process.identity.pid;
        for open in self.opens.values_mut() {
            open.by.remove(&victim);
        }
        self.opens.retain(|_, open| !open.by.is_empty());
        self.forget_unlinked();
        let freed: Vec<Inode> =
            self.flocks.iter().filter(|(_, holder)| **holder == victim).map(|(dir, _)| *dir).collect();
        for dir in freed {
            self.release_guard(dir);
        }
        self.tell(|watcher| watcher.holder == Some(pid));
        self.settle();
    }

    pub fn is_alive(&self, pid: u32, start: u64) -> bool {
        self.processes.iter().any(|process| {
            process.identity.pid == pid
                && process.identity.start == start
                && !matches!(process.state, State::Dead | State::Unborn)
        })
    }

    /// Notes whether the process knew what it takes away. Our own temporaries need no look.
    pub fn takes_away(&mut self, who: Who, name: &OsStr, inode: Inode) {
        let process = &mut self.processes[who];
        process.removed_unread |= process.read != Some(inode) && !name.as_bytes().starts_with(b".interlock");
    }

    // Guard.

    pub fn take_guard(&mut self, who: Who, dir: Inode) -> bool {
        if self.options.deviation == Some(Deviation::NoGuard) {
            return true;
        }
        if self.flocks.contains_key(&dir) {
            return false;
        }
        self.flocks.insert(dir, who);
        true
    }

    pub fn release_guard(&mut self, dir: Inode) {
        self.flocks.remove(&dir);
        for process in &mut self.processes {
            if matches!(process.state, State::AwaitsGuard { dir: awaited, .. } if awaited == dir) {
                process.state = State::Running;
            }
        }
    }

    // Events and time.

    /// The inode lost its name, got another, or (`is_removal` false) its content was written.
    pub fn changed(&mut self, inode: Inode, is_removal: bool) {
        if self.options.has_events {
            self.tell(|watcher| watcher.watch.is_some_and(|w| w.inode == inode && (is_removal || w.content)));
        }
    }

    fn tell(&mut self, concerns: impl Fn(&Watcher) -> bool) {
        for process in &mut self.processes {
            for (handle, watcher) in &mut process.watchers {
                if concerns(watcher) {
                    watcher.is_heard = true;
                    if matches!(process.state, State::Asleep { waiter, .. } if waiter == *handle) {
                        process.state = State::Running;
                    }
                }
            }
        }
    }

    pub fn watch(&mut self, who: Who, waiter: Handle, inode: Inode, awaited: Awaited, holder: Option<u32>) {
        let watcher = Watcher {
            watch: Some(Watch { inode, content: awaited == Awaited::Change }),
            holder: holder.filter(|_| self.options.has_events),
            is_heard: false,
        };
        self.processes[who].watchers.insert(waiter, watcher);
    }

    /// When nobody can do anything, time passes until somebody wakes.
    pub fn settle(&mut self) {
        let is_busy = |process: &Process| !process.is_helper && process.state == State::Running;
        if !self.processes.iter().any(is_busy) {
            self.pass_time();
        }
    }

    /// Time passes until the next sleeper wakes. False if nobody sleeps.
    pub fn pass_time(&mut self) -> bool {
        let wakes_at = |process: &Process| match process.state {
            State::Asleep { until, .. } | State::AwaitsGuard { until, .. } => Some(until),
            _ => None,
        };
        let Some(next) = self.processes.iter().filter_map(wakes_at).min() else {
            return false;
        };
        self.now = self.now.max(next);
        assert!(self.now < self.options.horizon, "no progress: they wait and wait");
        for process in &mut self.processes {
            if wakes_at(process).is_some_and(|until| until <= self.now) {
                process.state = State::Running;
            }
        }
        true
    }

    pub fn time(&self) -> Time {
        Time(self.now)
    }

    /// Equal fingerprints: everything that can happen from here on is equal.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.files, &self.opens, &self.flocks, self.now, &self.board, self.has_faulted).hash(&mut hasher);
        self.facts.borrow().hash(&mut hasher);
        for process in &self.processes {
            let Process { state, parked, watchers, has_signal, history, is_inside, read, removed_unread, .. } = process;
            (state, parked, watchers, has_signal, history, is_inside, read, removed_unread).hash(&mut hasher);
        }
        hasher.finish()
    }
}
