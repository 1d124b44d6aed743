//! Who we are and who still lives: process numbers, start times, and the place where they mean something.

use std::cell::Cell;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getpid, read};

use super::fork::ForkWitness;
use super::hash::fnv1a;
use super::{Errno, Sys};
use crate::base::Process;

/// What the processes of one script share, and what this process remembers of itself.
#[derive(Debug)]
pub struct Identity {
    /// `None` if it cannot be found out: then no number can be judged.
    place: Option<u32>,
    script: u32,
    script_start: u64,
    /// Pid and start time, as long as the witness knows of no fork.
    own: Cell<(u32, u64)>,
    witness: ForkWitness,
}

impl Identity {
    pub fn new(script: u32) -> Identity {
        let witness = ForkWitness::new();
        let mut identity = Identity { place: place(), script, script_start: 0, own: Cell::new((0, 0)), witness };
        identity.script_start = identity.start_of_script();
        identity
    }

    /// 0 unless `$$` still is the shell that we come from: it may have died, and its number be another's.
    fn start_of_script(&self) -> u64 {
        let me = self.process();
        if me.pid == me.script {
            return me.start;
        }
        match status_of(me.script) {
            Some(script) if is_proc_ours() && script.is_alive() && script.start <= me.start => script.start,
            _ => 0,
        }
    }

    pub fn process(&self) -> Process {
        if !self.witness.is_same_process() {
            self.own.set((std::process::id(), own_start()));
            self.witness.swear();
        }
        let (pid, start) = self.own.get();
        Process { place: self.place.unwrap_or(0), pid, start, script: self.script, script_start: self.script_start }
    }

    pub fn is_alive(&self, pid: u32, start: u64) -> bool {
        self.place.is_none() || is_alive(pid, start)
    }
}

fn is_alive(pid: u32, start: u64) -> bool {
    if !exists(pid) {
        return false;
    }
    if !is_proc_ours() {
        // The start time cannot be known, but a zombie can.
        return !open_pidfd(pid).is_ok_and(|pidfd| has_ended(pidfd.as_fd()));
    }
    match status_of(pid) {
        Some(status) => status.is_alive() && (start == 0 || status.start == start),
        // Gone between the two questions, or hidden from us.
        None => exists(pid),
    }
}

/// Also true for a zombie, and for what belongs to others.
fn exists(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| pid > 0 && kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

/// `/proc` may be that of another pid namespace, or nothing.
fn is_proc_ours() -> bool {
    fs::read_link("/proc/self").is_ok_and(|own| own == Path::new(&getpid().to_string()))
}

/// A descriptor that becomes readable when the process ends.
pub fn open_pidfd(pid: u32) -> Sys<OwnedFd> {
    let pid = i32::try_from(pid).map_err(|_| Errno::ESRCH)?;
    // SAFETY: plain numbers; close-on-exec is always set.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0 as libc::c_long) })?;
    // SAFETY: a fresh descriptor, and descriptors fit.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn has_ended(pidfd: BorrowedFd) -> bool {
    poll(&mut [PollFd::new(pidfd, PollFlags::POLLIN)], PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// From `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    state: u8,
    /// Clock ticks since boot.
    start: u64,
}

impl Status {
    fn read(path: &str) -> Option<Status> {
        let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
        // Some fifty numbers and a name of at most 64 bytes.
        let mut text = [0; 2048];
        let length = read(&file, &mut text).ok()?;
        Status::parse(&text[..length])
    }

    /// The name, second, is in parentheses and may hold anything, parentheses and spaces too.
    fn parse(text: &[u8]) -> Option<Status> {
        let end_of_name = text.iter().rposition(|&byte| byte == b')')?;
        let mut fields = std::str::from_utf8(&text[end_of_name + 1..]).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        // State is the third field, the start time the 22nd.
        let start = fields.nth(18)?.parse().ok()?;
        Some(Status { state, start })
    }

    fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn status_of(pid: u32) -> Option<Status> {
    Status::read(&format!("/proc/{pid}/stat"))
}

/// 0 if unknown. `/proc/self` is this process whatever namespace `/proc` shows.
fn own_start() -> u64 {
    Status::read("/proc/self/stat").map_or(0, |status| status.start)
}

/// The hash of boot and pid namespace. It is written to disk and compared by processes of other builds: 64-bit FNV-1a,
/// its halves combined by xor, over the boot id as `/proc` prints it, without the newline, then the inode of the
/// namespace, eight bytes, little-endian.
fn place() -> Option<u32> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    let hash = fnv1a(boot.trim_ascii_end().iter().copied().chain(namespace.to_le_bytes()));
    Some((hash >> 32 ^ hash) as u32)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn start_sleeper() -> Child {
        Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn a_name_may_look_like_fields() {
        let text = b"12 (a) S 1 (b)) R 1 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 2703360 3 4";
        assert_eq!(Status::parse(text), Some(Status { state: b'R', start: 98765 }));
        for broken in ["", "12 (a", "12 (a) R 1 2", "12 (a) "] {
            assert_eq!(Status::parse(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn a_process_knows_itself() {
        let identity = Identity::new(std::process::id());
        let me = identity.process();
        assert_eq!((me.pid, me.script), (std::process::id(), std::process::id()));
        assert!(me.start > 0 && me.place > 0);
        assert_eq!(me.start, me.script_start);
        assert_eq!(identity.process(), me);
        assert!(identity.is_alive(me.pid, me.start));
    }

    #[test]
    fn a_script_that_is_dead_or_younger_has_no_start() {
        let mut child = start_sleeper();
        // Ticks are 10 ms long and processes may share one; this test process is older by more or the same.
        let identity = Identity::new(child.id());
        let started = status_of(child.id()).unwrap().start;
        assert!(identity.script_start == 0 || started == identity.process().start);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Identity::new(child.id()).script_start, 0);
    }

    #[test]
    fn life_is_number_and_start_and_not_a_zombie() {
        let identity = Identity::new(std::process::id());
        let mut child = start_sleeper();
        let start = status_of(child.id()).unwrap().start;
        assert!(identity.is_alive(child.id(), start));
        assert!(identity.is_alive(child.id(), 0), "a start that was not known is no evidence");
        assert!(!identity.is_alive(child.id(), start + 1), "the number was reused");
        let pidfd = open_pidfd(child.id()).unwrap();
        assert!(!has_ended(pidfd.as_fd()));
        child.kill().unwrap();
        poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        assert!(has_ended(pidfd.as_fd()));
        assert!(!identity.is_alive(child.id(), start), "a zombie");
        child.wait().unwrap();
        assert!(!identity.is_alive(child.id(), start));
        assert!(!identity.is_alive(0, 0) && !identity.is_alive(u32::MAX, 0));
    }

    #[test]
    fn a_forked_child_is_another() {
        let identity = Identity::new(std::process::id());
        let before = identity.process();
        let after = super::super::forked::in_child(|| identity.process().pid.to_string());
        assert_ne!(after, before.pid.to_string());
    }
}
