//! The real world, on nix and libc. One per process, made when the plugin is loaded, for one thread.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::fcntl::{RenameFlags, renameat, renameat2};
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, getcwd, symlinkat, unlinkat};

use super::courtesy::Courtesy;
use super::dir::{self, Dir};
use super::guard::Guard;
use super::line::{Fronts, Line};
use super::mark::{self, Parking};
use super::observe::Observed;
use super::process::Identity;
use super::random::Random;
use super::signals::Blocked;
use super::wait::{Sleep, Waiter};
use super::watch::{Hurry, Watches};
use super::{Access, Armed, Awaited, Inherit, Stat, Sys, Wake, World, clock, files, line, moment};
use crate::base::{Deadline, Process, Time};

#[derive(Debug)]
pub struct Local {
    identity: Identity,
    random: Random,
    parking: Parking,
    watches: Rc<Watches>,
    fronts: Rc<Fronts>,
    courtesy: Courtesy,
    pending: fn() -> bool,
}

impl Local {
    /// `script` is `$$`. Its start time is read here, so that all subshells know the same: make it early.
    pub fn new(script: u32) -> Local {
        Local {
            identity: Identity::new(script),
            random: Random::default(),
            parking: Parking::default(),
            watches: Rc::default(),
            fronts: Rc::default(),
            courtesy: Courtesy::default(),
            pending: || false,
        }
    }

    /// `pending` says whether a signal waits to be looked at. It is asked with all signals blocked, before each sleep.
    pub fn with_pending(self, pending: fn() -> bool) -> Local {
        Local { pending, ..self }
    }
}

impl World for Local {
    type Dir = Dir;
    type File = OwnedFd;
    type Guard<'d> = Guard<'d>;
    type Waiter = Waiter;
    type Critical = Blocked;

    fn process(&self) -> Process {
        self.identity.process()
    }

    fn is_alive(&self, pid: u32, start: u64) -> bool {
        self.identity.is_alive(pid, start)
    }

    fn now(&self) -> Time {
        clock::now()
    }

    fn random(&self) -> u64 {
        self.random.draw(self.identity.process().pid)
    }

    fn critical(&self) -> Blocked {
        Blocked::all()
    }

    fn current_dir(&self) -> Sys<PathBuf> {
        getcwd()
    }

    fn open_dir(&self, path: &Path) -> Sys<Dir> {
        Dir::open(path)
    }

    fn open_dir_at(&self, dir: &Dir, name: &OsStr) -> Sys<Dir> {
        dir.open_at(name)
    }

    fn make_dir(&self, dir: &Dir, name: &OsStr) -> Sys<()> {
        mkdirat(dir, name, Mode::from_bits_truncate(0o777))
    }

    fn remove_dir(&self, dir: &Dir, name: &OsStr) -> Sys<()> {
        unlinkat(dir, name, UnlinkatFlags::RemoveDir)
    }

    fn list(&self, dir: &Dir) -> Sys<Vec<OsString>> {
        dir.list()
    }

    fn stat_dir(&self, dir: &Dir) -> Sys<Stat> {
        Ok(fstat(dir)?.into())
    }

    fn symlink(&self, text: &str, dir: &Dir, name: &OsStr) -> Sys<()> {
        symlinkat(text, dir, name)
    }

    fn read_link(&self, dir: &Dir, name: &OsStr) -> Sys<Vec<u8>> {
        dir::read_link(dir, name)
    }

    fn unlink(&self, dir: &Dir, name: &OsStr) -> Sys<()> {
        unlinkat(dir, name, UnlinkatFlags::NoRemoveDir).inspect(|()| self.courtesy.note_giving_back())
    }

    fn rename(&self, from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> Sys<()> {
        renameat(from, old, to, new)
    }

    fn rename_exclusive(&self, from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> Sys<()> {
        renameat2(from, old, to, new, RenameFlags::RENAME_NOREPLACE)
    }

    fn stat_at(&self, dir: &Dir, name: &OsStr) -> Sys<Stat> {
        dir.stat_at(name)
    }

    fn open_file(&self, dir: &Dir, name: &OsStr, access: Access) -> Sys<OwnedFd> {
        files::open(dir, name, access)
    }

    fn stat(&self, file: &OwnedFd) -> Sys<Stat> {
        Ok(fstat(file)?.into())
    }

    fn read_at(&self, file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> Sys<usize> {
        files::read_at(file, offset, buffer)
    }

    fn write_at(&self, file: &OwnedFd, offset: u64, bytes: &[u8]) -> Sys<usize> {
        files::write_at(file, offset, bytes)
    }

    fn truncate(&self, file: &OwnedFd, length: u64) -> Sys<()> {
        files::truncate(file, length)
    }

    fn copy_mode(&self, from: &OwnedFd, to: &OwnedFd) -> Sys<()> {
        files::copy_mode(from, to)
    }

    fn can_mark(&self, dir: &Dir) -> bool {
        dir.can_mark()
    }

    fn mark(&self, dir: &Dir, nonce: u32) -> Sys<()> {
        mark::set(dir, nonce)
    }

    fn is_marked(&self, dir: &Dir, nonce: u32) -> bool {
        mark::is_set(dir, nonce)
    }

    fn park(&self, dir: Dir, name: &OsStr, nonce: u32, inherit: Inherit) {
        self.watches.tidy();
        self.parking.park(dir, name, nonce, inherit);
    }

    fn unpark(&self, nonce: u32) {
        self.parking.unpark(nonce);
        self.watches.tidy();
    }

    fn holds(&self, nonce: u32) -> bool {
        self.parking.holds(nonce)
    }

    fn try_guard<'d>(&self, dir: &'d Dir) -> Option<Guard<'d>> {
        Guard::try_take(dir)
    }

    fn guard<'d>(&self, dir: &'d Dir) -> Option<Guard<'d>> {
        Guard::take(dir)
    }

    fn close_with(&self, guard: Guard<'_>) {
        guard.leave_to_closing();
    }

    fn waiter(&self) -> Waiter {
        Waiter::new(self.watches.clone(), Line::new(self.fronts.clone()))
    }

    fn queue_up(&self, open: impl FnOnce() -> Sys<Dir>, name: &OsStr) -> Option<Waiter> {
        if !self.courtesy.is_due() {
            return None;
        }
        let line = Line::behind(self.fronts.clone(), &open().ok()?, name, Awaited::Removal)?;
        Some(Waiter::new(self.watches.clone(), line))
    }

    fn is_gone_soon(&self, dir: &Dir, name: &OsStr) -> bool {
        moment::is_gone_soon(dir, name)
    }

    fn arm(&self, waiter: &mut Waiter, dir: &Dir, name: &OsStr, awaited: Awaited, holder: Option<u32>) -> Armed {
        waiter.arm(dir, name, awaited, holder, || self.process())
    }

    fn sleep(&self, waiter: &mut Waiter, deadline: Deadline) -> Wake {
        waiter.sleep(deadline, &Sleep { pending: self.pending, random: &|| self.random() })
    }

    fn is_interrupted(&self) -> bool {
        let _ = Blocked::all().poll(&mut [], TimeSpec::new(0, 0));
        (self.pending)()
    }

    fn observe(&self) -> Observed {
        Observed::take()
    }

    fn line_name(&self, dir: &Dir, name: &OsStr, awaited: Awaited) -> Vec<u8> {
        line::line_name(dir, name, awaited).map(String::into_bytes).unwrap_or_default()
    }

    fn hears_events(&self, dir: &Dir) -> bool {
        dir.is_local()
            && self.watches.add(dir, OsStr::new("."), Awaited::Removal, Hurry::First, &self.process()).is_ok()
    }
}
