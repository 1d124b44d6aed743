use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::sys::process::Identity;
use crate::sys::scratch::Scratch;

impl Watch {
    fn is_heard(&self) -> bool {
        self.watches.note_unread();
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
        let process = self.identity.process();
        patiently(|| self.watches.add(&self.dir, OsStr::new(name), awaited, Hurry::First, &process))
    }
}

/// A user has 128 inotify instances, and others may be using them up at the moment.
fn patiently<T>(mut attempt: impl FnMut() -> Sys<T>) -> Sys<T> {
    for _ in 0..3000 {
        match attempt() {
            Err(Errno::EMFILE) => std::thread::sleep(std::time::Duration::from_millis(20)),
            end => return end,
        }
    }
    attempt()
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
    let heard = crate::sys::forked::in_child(|| {
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
