//! One inotify instance per process, made at the first wait and kept: closing one that ever had a watch costs some 7 ms.
//!
//! The event queue belongs to the open file, so a forked child shares it with its parent: it must not read there, and
//! makes its own. Closing its inherited descriptor costs nothing while the parent has it.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use nix::NixPath;
use nix::sys::inotify::{InitFlags, Inotify};
use nix::unistd::read;

use super::descriptor::Kept;
use super::dir::Dir;
use super::{Awaited, Errno, Inherit, Sys};
use crate::base::Process;

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
}

#[derive(Debug)]
struct Watched {
    number: i32,
    /// Two waits for the same inode share its number.
    users: u32,
    /// Counted, since who reads the queue reads it for all.
    events: u64,
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
        if !instance.as_ref().is_some_and(|instance| instance.owner == owner && instance.fd.get().is_some()) {
            *instance = None;
            self.made.set(self.made.get() + 1);
            *instance = Some(Instance::new(self.made.get(), owner)?);
        }
        let instance = instance.as_mut().ok_or(Errno::EBADF)?;
        let number = instance.add(dir, name, awaited)?;
        Ok(Watch { watches: self.clone(), serial: instance.serial, number, seen: instance.events(number) })
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
        Ok(Instance { fd: Kept::new(fd, Inherit::Nobody), serial, owner, watched: Vec::new() })
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
            None => self.watched.push(Watched { number, users: 1, events: 0 }),
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
        if self.watched[place].users == 0 {
            self.watched.swap_remove(place);
            if let Some(fd) = self.fd.get() {
                // Refused when the inode is gone and the watch with it.
                // SAFETY: an open inotify descriptor and a number; a wrong number is refused.
                unsafe { libc::inotify_rm_watch(fd.as_raw_fd(), number) };
            }
        }
    }

    /// Reads what is queued and counts it for whom it concerns. Numbers are not reused, so what a removed watch has left
    /// behind concerns nobody.
    fn drain(&mut self) {
        let mut room = [0u8; 4096];
        while let Some(Ok(length)) = self.fd.get().map(|fd| read(fd, &mut room)) {
            for number in event_numbers(&room[..length]) {
                // -1: events were lost, so everything may have happened.
                for watched in self.watched.iter_mut().filter(|watched| number == watched.number || number == -1) {
                    watched.events += 1;
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

/// The watch numbers of a sequence of `inotify_event`: number, mask, cookie, length of the name, each four bytes, the name.
fn event_numbers(mut events: &[u8]) -> impl Iterator<Item = i32> {
    let word = |at: usize, events: &[u8]| events.get(at..at + 4)?.try_into().ok().map(i32::from_ne_bytes);
    std::iter::from_fn(move || {
        let (number, name) = (word(0, events)?, word(12, events)?);
        events = events.get(EVENT_LENGTH + usize::try_from(name).ok()?..).unwrap_or_default();
        Some(number)
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
}
