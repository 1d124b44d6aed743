//! One inotify instance per process, made at the first wait and kept for the next one.
//!
//! Closing an instance, at exit too, waits until the kernel has let go of its last watch: some 7 ms after a removal, 20 ms
//! on a busy machine, nothing when that is long past. Users have few instances (128), so one that has been idle for long
//! enough is closed in passing.
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
use super::{Awaited, Errno, Inherit, Sys, clock};
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
    pub fn add(self: &Rc<Self>, dir: &Dir, name: &OsStr, awaited: Awaited, process: &Process) -> Sys<Watch> {
        let owner = (process.pid, process.start);
        let mut instance = self.instance.borrow_mut();
        if let Some(ours) = instance.as_mut().filter(|instance| instance.owner == owner) {
            match ours.add(dir, name, awaited) {
                // The script has closed it.
                Err(Errno::EBADF) => {}
                added => return Ok(self.watch(ours, added?)),
            }
        }
        *instance = None;
        self.made.set(self.made.get() + 1);
        let ours = instance.insert(Instance::new(self.made.get(), owner)?);
        let number = ours.add(dir, name, awaited)?;
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
            *instance = None;
        }
    }

    fn with<T>(&self, watch: &Watch, work: impl FnOnce(&mut Instance) -> T) -> Option<T> {
        let mut instance = self.instance.borrow_mut();
        instance.as_mut().filter(|instance| instance.serial == watch.serial).map(work)
    }

    /// Reads what is queued, for all waits of this process.
    pub fn listen(&self) {
        if let Some(instance) = self.instance.borrow_mut().as_mut() {
            instance.drain();
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
        Ok(Instance {
            fd: Kept::new(fd, Inherit::Nobody),
            serial,
            owner,
            watched: Vec::new(),
            idle_since: clock::now(),
        })
    }

    fn add(&mut self, dir: &Dir, name: &OsStr, awaited: Awaited) -> Sys<i32> {
        let mut events = libc::IN_DONT_FOLLOW | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_ATTRIB;
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
        let watched = self.watched.swap_remove(place);
        if let Some(fd) = self.fd.get().filter(|_| !watched.is_gone) {
            // SAFETY: an open inotify descriptor and a number; the number of a watch that is gone is refused.
            unsafe { libc::inotify_rm_watch(fd.as_raw_fd(), number) };
        }
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
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::process::Identity;
    use super::super::scratch::Scratch;
    use super::*;

    impl Watch {
        fn is_heard(&self) -> bool {
            self.watches.listen();
            self.has_changed()
        }
    }

    struct Ground {
        scratch: Scratch,
        dir: Dir,
        watches: Rc<Watches>,
        identity: Identity,
    }

    impl Ground {
        fn new(scratch: Scratch) -> Ground {
            let dir = Dir::open(&scratch.path("")).unwrap();
            Ground { scratch, dir, watches: Rc::default(), identity: Identity::new(std::process::id()) }
        }

        fn each() -> impl Iterator<Item = Ground> {
            Scratch::each().into_iter().map(Ground::new)
        }

        fn watch(&self, name: &str, awaited: Awaited) -> Sys<Watch> {
            self.watches.add(&self.dir, OsStr::new(name), awaited, &self.identity.process())
        }
    }

    #[test]
    fn a_link_is_watched_itself() {
        for ground in Ground::each() {
            symlink("nowhere", ground.scratch.path("l")).unwrap();
            let watch = ground.watch("l", Awaited::Removal).unwrap();
            assert!(!watch.is_heard());
            fs::remove_file(ground.scratch.path("l")).unwrap();
            assert!(watch.is_heard());
            assert_eq!(ground.watch("l", Awaited::Removal).unwrap_err(), Errno::ENOENT);
        }
    }

    #[test]
    fn renaming_over_it_and_away_is_heard() {
        for ground in Ground::each() {
            for (from, to) in [("new", "l"), ("l", "elsewhere")] {
                symlink("1", ground.scratch.path("l")).ok();
                symlink("2", ground.scratch.path("new")).ok();
                let watch = ground.watch("l", Awaited::Removal).unwrap();
                fs::rename(ground.scratch.path(from), ground.scratch.path(to)).unwrap();
                assert!(watch.is_heard(), "{from} {to}");
            }
        }
    }

    #[test]
    fn writing_is_a_change_and_no_removal() {
        for ground in Ground::each() {
            fs::write(ground.scratch.path("f"), "1").unwrap();
            let removal = ground.watch("f", Awaited::Removal).unwrap();
            fs::write(ground.scratch.path("f"), "2").unwrap();
            assert!(!removal.is_heard());
            let change = ground.watch("f", Awaited::Change).unwrap();
            fs::write(ground.scratch.path("f"), "3").unwrap();
            assert!(change.is_heard());
        }
    }

    #[test]
    fn what_one_wait_reads_the_other_still_hears() {
        let ground = Ground::new(Scratch::in_memory());
        for name in ["outer", "inner"] {
            symlink("1", ground.scratch.path(name)).unwrap();
        }
        let outer = ground.watch("outer", Awaited::Removal).unwrap();
        let again = ground.watch("outer", Awaited::Removal).unwrap();
        let inner = ground.watch("inner", Awaited::Removal).unwrap();
        fs::remove_file(ground.scratch.path("outer")).unwrap();
        assert!(!inner.is_heard());
        drop(again);
        assert!(outer.is_heard());
    }

    #[test]
    fn a_removed_watch_is_silent_for_the_next() {
        let ground = Ground::new(Scratch::in_memory());
        symlink("1", ground.scratch.path("l")).unwrap();
        drop(ground.watch("l", Awaited::Removal).unwrap());
        fs::remove_file(ground.scratch.path("l")).unwrap();
        symlink("2", ground.scratch.path("l")).unwrap();
        assert!(!ground.watch("l", Awaited::Removal).unwrap().is_heard());
    }

    #[test]
    fn a_forked_child_hears_by_its_own_instance_and_takes_nothing_from_its_parent() {
        let ground = Ground::new(Scratch::in_memory());
        for name in ["parent", "child"] {
            symlink("1", ground.scratch.path(name)).unwrap();
        }
        let watch = ground.watch("parent", Awaited::Removal).unwrap();
        let heard = super::super::forked::in_child(|| {
            let watch = ground.watch("child", Awaited::Removal).unwrap();
            for name in ["parent", "child"] {
                fs::remove_file(ground.scratch.path(name)).unwrap();
            }
            watch.is_heard().to_string()
        });
        assert_eq!(heard, "true");
        assert!(watch.is_heard());
    }

    #[test]
    fn a_script_that_closes_the_instance_costs_only_the_watch() {
        let ground = Ground::new(Scratch::in_memory());
        symlink("1", ground.scratch.path("l")).unwrap();
        let lost = ground.watch("l", Awaited::Removal).unwrap();
        let number = ground.watches.with_fd(|fd| fd.unwrap().as_raw_fd());
        // SAFETY: what a script does; the number is looked at before its next use.
        assert_eq!(unsafe { libc::close(number) }, 0);
        let watch = ground.watch("l", Awaited::Removal).unwrap();
        drop(lost);
        fs::remove_file(ground.scratch.path("l")).unwrap();
        assert!(watch.is_heard());
    }

    #[test]
    fn an_instance_is_closed_in_passing_when_it_has_been_idle() {
        let ground = Ground::new(Scratch::in_memory());
        let is_open = || ground.watches.with_fd(|fd| fd.is_some());
        symlink("1", ground.scratch.path("l")).unwrap();
        let watch = ground.watch("l", Awaited::Removal).unwrap();
        let make_idle = || ground.watches.instance.borrow_mut().as_mut().unwrap().idle_since = Time(0);
        make_idle();
        ground.watches.tidy();
        assert!(is_open(), "in use");
        drop(watch);
        ground.watches.tidy();
        assert!(is_open(), "just used");
        make_idle();
        ground.watches.tidy();
        assert!(!is_open());
        assert!(ground.watch("l", Awaited::Removal).is_ok());
    }
}
