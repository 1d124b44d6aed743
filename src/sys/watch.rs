//! One inotify instance per process, made at the first wait and kept for the next one.
//!
//! Closing an instance waits until the kernel has let go of its last watch: some 7 ms after a removal, 20 ms on a busy
//! machine, nothing when that is long past (for the end of a process see [`super::exit`]). Users have few instances (128),
//! so one that has been idle for long enough is closed in passing.
//!
//! The event queue belongs to the open file, so a forked child shares it with its parent: it must not read there, and
//! makes its own. Closing its inherited descriptor costs nothing while the parent has it.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use nix::NixPath;
use nix::sys::inotify::{InitFlags, Inotify};
use nix::unistd::read;

use super::descriptor::Kept;
use super::dir::Dir;
use super::{Awaited, Errno, Inherit, Sys, clock, exit};
use crate::base::{Process, Time};

/// Closing an instance whose last watch went so long ago costs nothing.
const IDLE: Duration = Duration::from_millis(100);

/// The watches of this process. Several waits may be under way: one for an object, one for the short lock inside it.
#[derive(Debug, Default)]
pub struct Watches {
    instance: RefCell<Option<Instance>>,
    made: Cell<u64>,
}

#[derive(Debug)]
struct Instance {
    fd: Kept,
    /// Which of the process's instances: a script may have closed one.
    serial: u64,
    /// Whose it is: pid and start time.
    owner: (u32, u64),
    watched: Vec<Watched>,
    /// Watches that nobody uses any more, to be removed unless the kernel already has.
    retired: Vec<i32>,
    /// There is something to read, for when there is time.
    is_unread: bool,
    /// When the last watch was removed.
    idle_since: Time,
}

#[derive(Debug)]
struct Watched {
    number: i32,
    /// Two waits for the same inode share its number.
    users: u32,
    /// Counted, since who reads the queue reads it for all.
    events: u64,
    /// The kernel has removed it, with the inode.
    is_gone: bool,
}

/// A removal is told twice: the number of links has changed, then the inode is gone. Whoever watches only for the second is
/// not woken before the others, and not at all while somebody has the inode open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hurry {
    First,
    Second,
}

/// A watch, removed when dropped.
#[derive(Debug)]
pub struct Watch {
    watches: Rc<Watches>,
    serial: u64,
    number: i32,
    seen: u64,
}

impl Watches {
    /// Watches the inode that has this name now; a link itself, not where it points.
    pub fn add(
        self: &Rc<Self>,
        dir: &Dir,
        name: &OsStr,
        awaited: Awaited,
        hurry: Hurry,
        process: &Process,
    ) -> Sys<Watch> {
        let owner = (process.pid, process.start);
        let mut instance = self.instance.borrow_mut();
        if let Some(ours) = instance.as_mut().filter(|instance| instance.owner == owner) {
            match ours.add(dir, name, awaited, hurry) {
                // The script has closed it.
                Err(Errno::EBADF) => {}
                added => return Ok(self.watch(ours, added?)),
            }
        }
        *instance = None;
        self.made.set(self.made.get() + 1);
        let ours = instance.insert(Instance::new(self.made.get(), owner)?);
        let number = ours.add(dir, name, awaited, hurry)?;
        Ok(self.watch(ours, number))
    }

    fn watch(self: &Rc<Self>, instance: &Instance, number: i32) -> Watch {
        Watch { watches: self.clone(), serial: instance.serial, number, seen: instance.events(number) }
    }

    /// Closes an instance that has been idle for so long that it costs nothing. To be called now and then.
    pub fn tidy(&self) {
        let mut instance = self.instance.borrow_mut();
        let is_idle =
            |instance: &Instance| instance.watched.is_empty() && clock::now().since(instance.idle_since) >= IDLE;
        if instance.as_ref().is_some_and(is_idle) {
            exit::forget();
            *instance = None;
        }
    }

    fn with<T>(&self, watch: &Watch, work: impl FnOnce(&mut Instance) -> T) -> Option<T> {
        let mut instance = self.instance.borrow_mut();
        instance.as_mut().filter(|instance| instance.serial == watch.serial).map(work)
    }

    /// Something is queued. It is read by [`Watches::listen`], later: who has been woken is in a hurry.
    pub fn note_unread(&self) {
        if let Some(instance) = self.instance.borrow_mut().as_mut() {
            instance.is_unread = true;
        }
    }

    /// Reads what is queued, for all waits of this process.
    pub fn listen(&self) {
        if let Some(instance) = self.instance.borrow_mut().as_mut() {
            instance.catch_up();
        }
    }

    /// For polling; `None` if the script has closed it.
    pub fn with_fd<T>(&self, use_it: impl FnOnce(Option<BorrowedFd>) -> T) -> T {
        let instance = self.instance.borrow();
        use_it(instance.as_ref().and_then(|instance| instance.fd.get()))
    }
}

impl Watch {
    /// Has anything happened to the inode since it was watched, as far as [`Watches::listen`] has heard?
    pub fn has_changed(&self) -> bool {
        self.watches.with(self, |instance| instance.events(self.number) != self.seen).unwrap_or(true)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.with(self, |instance| instance.remove(self.number));
    }
}

impl Instance {
    fn new(serial: u64, owner: (u32, u64)) -> Sys<Instance> {
        let fd: OwnedFd = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?.into();
        let fd = Kept::new(fd, Inherit::Nobody);
        fd.get().inspect(|&fd| exit::remember(fd));
        Ok(Instance {
            fd,
            serial,
            owner,
            watched: Vec::new(),
            retired: Vec::new(),
            is_unread: false,
            idle_since: clock::now(),
        })
    }

    fn add(&mut self, dir: &Dir, name: &OsStr, awaited: Awaited, hurry: Hurry) -> Sys<i32> {
        let mut events = libc::IN_DONT_FOLLOW | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;
        if hurry == Hurry::First {
            events |= libc::IN_ATTRIB;
        }
        if awaited == Awaited::Change {
            events |= libc::IN_MODIFY | libc::IN_CLOSE_WRITE;
        }
        // Another wait may watch the same inode for other events.
        events |= libc::IN_MASK_ADD;
        // There is no call that takes a directory's descriptor.
        let path = Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string()).join(name);
        let number = add_watch(self.fd.get().ok_or(Errno::EBADF)?, &path, events)?;
        match self.watched.iter_mut().find(|watched| watched.number == number) {
            Some(watched) => watched.users += 1,
            None => self.watched.push(Watched { number, users: 1, events: 0, is_gone: false }),
        }
        Ok(number)
    }

    fn events(&self, number: i32) -> u64 {
        self.watched.iter().find(|watched| watched.number == number).map_or(0, |watched| watched.events)
    }

    fn remove(&mut self, number: i32) {
        let Some(place) = self.watched.iter().position(|watched| watched.number == number) else {
            return;
        };
        self.watched[place].users -= 1;
        if self.watched[place].users > 0 {
            return;
        }
        self.idle_since = clock::now();
        if !self.watched.swap_remove(place).is_gone {
            self.retired.push(number);
        }
        if !self.is_unread {
            self.remove_retired();
        }
    }

    fn catch_up(&mut self) {
        if self.is_unread {
            self.is_unread = false;
            self.drain();
            self.remove_retired();
        }
    }

    fn remove_retired(&mut self) {
        let watched = &self.watched;
        // The same inode may be watched again.
        self.retired.retain(|&number| !watched.iter().any(|watched| watched.number == number));
        if let Some(fd) = self.fd.get().filter(|_| !self.retired.is_empty()) {
            for &number in &self.retired {
                // SAFETY: an open inotify descriptor and a number; the number of a watch that is gone is refused.
                unsafe { libc::inotify_rm_watch(fd.as_raw_fd(), number) };
            }
        }
        self.retired.clear();
    }

    /// Reads what is queued and counts it for whom it concerns. Numbers are not reused, so what a removed watch has left
    /// behind concerns nobody.
    fn drain(&mut self) {
        let mut room = [0u8; 4096];
        while let Some(Ok(length)) = self.fd.get().map(|fd| read(fd, &mut room)) {
            for (number, mask) in events(&room[..length]) {
                // -1: events were lost, so everything may have happened.
                for watched in self.watched.iter_mut().filter(|watched| number == watched.number || number == -1) {
                    watched.events += 1;
                    watched.is_gone |= mask & libc::IN_IGNORED != 0;
                }
                if mask & libc::IN_IGNORED != 0 {
                    self.retired.retain(|&retired| retired != number);
                }
            }
            // The next event would have fitted.
            if length + EVENT_LENGTH <= room.len() {
                return;
            }
        }
    }
}

fn add_watch(instance: BorrowedFd, path: &Path, events: u32) -> Sys<i32> {
    // SAFETY: an open inotify descriptor and a terminated string, for the time of the call.
    let number =
        path.with_nix_path(|path| unsafe { libc::inotify_add_watch(instance.as_raw_fd(), path.as_ptr(), events) })?;
    Errno::result(number)
}

const EVENT_LENGTH: usize = size_of::<libc::inotify_event>();

/// The watch numbers and masks in a sequence of `inotify_event`: number, mask, cookie, length of the name, each four
/// bytes, and the name.
fn events(mut bytes: &[u8]) -> impl Iterator<Item = (i32, u32)> {
    std::iter::from_fn(move || {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let (number, mask, name) = (word(0)?, word(4)?, word(12)?);
        bytes = bytes.get(EVENT_LENGTH + usize::try_from(name).ok()?..).unwrap_or_default();
        Some((number.cast_signed(), mask))
    })
}

#[cfg(test)]
mod tests;
