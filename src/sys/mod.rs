//! The seam: everything outside that an algorithm may touch. Each method is one step that others see as a whole, so a
//! search that interleaves, faults or stops at these steps covers what a real kernel can do to us.
//!
//! [`Local`] is the real thing. The simulated world of the tests is the other implementation.

mod clock;
mod courtesy;
mod descriptor;
mod dir;
mod exit;
mod files;
mod fork;
#[cfg(test)]
mod forked;
mod guard;
mod hash;
mod line;
mod list;
mod local;
mod mark;
mod moment;
pub mod observe;
mod process;
mod random;
mod rule;
#[cfg(test)]
pub(crate) mod scratch;
mod signals;
mod wait;
mod watch;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use nix::errno::Errno;

use crate::base::{Deadline, Process, Time};
pub use local::Local;
use observe::Observed;
pub use rule::Rule;
#[cfg(test)]
pub use scratch::Scratch;
pub use signals::{Blocked, spared};

pub type Sys<T> = std::result::Result<T, Errno>;

/// Who keeps a parked mark besides the process that locked and its subshells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherit {
    /// Programs started while the lock is held keep it, too.
    Programs,
    /// Close-on-exec (`-c`).
    Nobody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Read and write what is there.
    Update,
    /// Read and write; make it if it is missing.
    Create,
    /// Read and write; it must not be there yet.
    CreateNew,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Link,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub kind: Kind,
    pub device: u64,
    pub inode: u64,
    pub length: u64,
    /// Nanoseconds of the file system's clock; good for *changed or not*, for nothing else.
    pub modified: i128,
}

impl Stat {
    /// Two that have the same are one inode.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// Which change of an awaited object ends a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// It is removed, renamed or replaced.
    Removal,
    /// That, or its content is written.
    Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Armed {
    /// From here on no event is missed.
    Ready,
    /// The object is not there (any more): no reason to sleep.
    Gone,
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The awaited object changed, its holder died, or it is our turn to look.
    Event,
    /// Nothing was heard for the re-check period.
    Recheck,
    /// The deadline has come.
    Deadline,
    /// bash has a signal to look at.
    Interrupted,
}

pub trait World {
    /// An opened directory. All steps of one operation on an object go through one, so that a directory which is
    /// replaced meanwhile cannot mix two objects. Dropping it takes off the marks set through it.
    type Dir;
    type File;
    /// Exclusive `flock` on a directory, given back when dropped.
    type Guard<'d>
    where
        Self: 'd;
    /// The place of a process in a wait: watch, holder's death, waiting line.
    type Waiter;
    /// While it lives no signal is handled but inside [`World::sleep`], which sleeps with the signals that were allowed
    /// before the outermost one. For internal critical sections, microseconds long.
    type Critical;

    // Who and when.

    fn process(&self) -> Process;
    /// Is `pid` still the living process that started at `start`? A zombie is dead; what cannot be read is life.
    fn is_alive(&self, pid: u32, start: u64) -> bool;
    fn now(&self) -> Time;
    fn random(&self) -> u64;
    fn critical(&self) -> Self::Critical;
    /// Always true but in a world that searches for what a protocol without the rule would do.
    fn keeps(&self, _rule: Rule) -> bool {
        true
    }

    // Directories.

    /// Where relative paths begin.
    fn current_dir(&self) -> Sys<PathBuf>;
    /// Follows links: the user chose the path.
    fn open_dir(&self, path: &Path) -> Sys<Self::Dir>;
    /// Does not follow a link in the last component. `.` opens the directory a second time, for marks of its own.
    fn open_dir_at(&self, dir: &Self::Dir, name: &OsStr) -> Sys<Self::Dir>;
    /// Makes it with the umask.
    fn make_dir(&self, dir: &Self::Dir, name: &OsStr) -> Sys<()>;
    fn remove_dir(&self, dir: &Self::Dir, name: &OsStr) -> Sys<()>;
    /// All names but `.` and `..`, in no order.
    fn list(&self, dir: &Self::Dir) -> Sys<Vec<OsString>>;
    fn stat_dir(&self, dir: &Self::Dir) -> Sys<Stat>;

    // Names in a directory.

    fn symlink(&self, text: &str, dir: &Self::Dir, name: &OsStr) -> Sys<()>;
    /// EINVAL if it is not a link.
    fn read_link(&self, dir: &Self::Dir, name: &OsStr) -> Sys<Vec<u8>>;
    fn unlink(&self, dir: &Self::Dir, name: &OsStr) -> Sys<()>;
    fn rename(&self, from: &Self::Dir, old: &OsStr, to: &Self::Dir, new: &OsStr) -> Sys<()>;
    /// EEXIST if `new` is there; EINVAL or ENOSYS where the file system cannot.
    fn rename_exclusive(&self, from: &Self::Dir, old: &OsStr, to: &Self::Dir, new: &OsStr) -> Sys<()>;
    /// Does not follow links.
    fn stat_at(&self, dir: &Self::Dir, name: &OsStr) -> Sys<Stat>;

    // Files.

    /// Never follows a link, never blocks on a FIFO.
    fn open_file(&self, dir: &Self::Dir, name: &OsStr, access: Access) -> Sys<Self::File>;
    fn stat(&self, file: &Self::File) -> Sys<Stat>;
    /// May read less than asked; 0 is the end.
    fn read_at(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> Sys<usize>;
    /// May write less than asked.
    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> Sys<usize>;
    fn truncate(&self, file: &Self::File, length: u64) -> Sys<()>;
    /// Gives `to` the mode and the group of `from`.
    fn copy_mode(&self, from: &Self::File, to: &Self::File) -> Sys<()>;

    // Marks and the guard.

    /// Can marks be set and seen here: readable, on a known local file system?
    fn can_mark(&self, dir: &Self::Dir) -> bool;
    /// Sets the mark through `dir`, to last until that is dropped or, parked, until [`World::unpark`].
    fn mark(&self, dir: &Self::Dir, nonce: u32) -> Sys<()>;
    /// Does anybody hold the mark? Not seen are marks set through `dir` itself. What cannot be found out is *yes*.
    fn is_marked(&self, dir: &Self::Dir, nonce: u32) -> bool;
    /// Keeps the mark set through `dir` for the lock `name` beyond this call.
    fn park(&self, dir: Self::Dir, name: &OsStr, nonce: u32, inherit: Inherit);
    /// Drops the parked mark of a removed lock; nothing if this process has none.
    fn unpark(&self, nonce: u32);
    /// Is there a parked mark of this number in this process or one it was forked from?
    fn holds(&self, nonce: u32) -> bool;
    /// Hardly waits for it: milliseconds at most.
    fn try_guard<'d>(&self, dir: &'d Self::Dir) -> Option<Self::Guard<'d>>;
    /// Gives it back with its directory, which is to be closed at once and has not been handed on: a call less.
    fn close_with(&self, guard: Self::Guard<'_>) {
        drop(guard);
    }
    /// Waits for the guard, at most a second: any program may flock a directory.
    fn guard<'d>(&self, dir: &'d Self::Dir) -> Option<Self::Guard<'d>>;

    // Waiting.

    fn waiter(&self) -> Self::Waiter;
    /// A place behind those who wait for the removal of `name`, if there are any, for a process that has just given
    /// something back and otherwise would take it again and again before they wake up.
    fn queue_up(&self, _open: impl FnOnce() -> Sys<Self::Dir>, _name: &OsStr) -> Option<Self::Waiter> {
        None
    }
    /// Gives whoever holds a short lock a moment to remove it, since that is less than a sleep takes. Is it gone?
    fn is_gone_soon(&self, _dir: &Self::Dir, _name: &OsStr) -> bool {
        false
    }
    /// From here on `waiter` hears of `awaited` changes of `name` and of the death of `holder`.
    fn arm(
        &self,
        waiter: &mut Self::Waiter,
        dir: &Self::Dir,
        name: &OsStr,
        awaited: Awaited,
        holder: Option<u32>,
    ) -> Armed;
    /// Sleeps until something is heard, for a re-check period (at most 1 s) at the longest.
    fn sleep(&self, waiter: &mut Self::Waiter, deadline: Deadline) -> Wake;

    /// Lets signals in for a moment of a critical section that lasts. Is there one for bash to look at?
    fn is_interrupted(&self) -> bool {
        false
    }

    // For looking at things, not for deciding anything. Worlds without onlookers need none of it.

    /// What the kernel shows of holders and waiters.
    fn observe(&self) -> Observed {
        Observed::default()
    }
    /// The name of the waiting line for `awaited` changes of `name`.
    fn line_name(&self, _dir: &Self::Dir, _name: &OsStr, _awaited: Awaited) -> Vec<u8> {
        Vec::new()
    }
    /// Can changes in this directory be heard of, so that waiting is not only looking again?
    fn hears_events(&self, _dir: &Self::Dir) -> bool {
        false
    }
}
