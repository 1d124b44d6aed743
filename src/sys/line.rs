//! The waiting line: of all who wait for one object on this host only the first two watch it, so a release wakes two.
//!
//! It is an abstract Unix socket named after the object. Who can bind the name is the *front*; the others connect and
//! sleep *behind* it. While it has nothing else to do the front accepts the oldest connection and sends it a copy of the
//! listening socket: the *deputy*, who watches the object, too. A front that leaves, for whatever reason, closes that
//! connection, and the deputy is the front; the connections that are still to be accepted are its. So leaving costs a
//! waiter that has just acquired two calls of `close`, and as the release has woken the deputy they do not have to. Nothing
//! is on disk.
//!
//! - A front that is killed leaves so, too. When its deputy is killed with it the socket is dropped: everybody wakes once,
//!   one of them binds.
//! - Who gave up has closed its end: a deputy is replaced, others are skipped.
//! - The name is bound but nobody listens (a front stopped in between), the backlog is full, the message brings no
//!   socket: *alone*, with a watch of one's own, until the next look.
//! - A front that is stopped (Ctrl-Z) is passed by its deputy; both of them, or a squatter of the name, stop the line. Those
//!   behind still look every second. A process that has twice found the object free then, without being called, waits alone
//!   for a while.
//!
//! A line is never the reason for a decision, only for the time of looking. One that joins two objects (a collision of
//! hashes) or splits the waiters of one (network namespaces) is slower, not wrong.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    connect, getsockopt, listen, recv, recvmsg, sendmsg, socket, sockopt,
};
use nix::sys::stat::fstat;

use super::dir::Dir;
use super::hash::fnv1a;
use super::{Awaited, Errno, Sys, clock};
use crate::base::Time;

/// How the names of all lines begin.
pub const NAMES: &str = "interlock/";
/// How many parts the name of a line has; those behind add one.
pub const PARTS: usize = 5;
/// Who waits and gives up again and again leaves its connections here until the front leaves: not too many to skip.
const BACKLOG: i32 = 1024;
/// Fronts die seldom. A squatter of the name who accepts and closes would keep us busy for nothing.
const PATIENCE: u32 = 8;
/// The most descriptors that one message can carry: with room for all none is lost sight of.
const MOST_DESCRIPTORS: usize = 253;

/// For so long a process waits alone after a front that did not call it.
const DISTRUST: Duration = Duration::from_secs(10);

/// What a process knows of the fronts of lines: the last that seemed to be stopped.
#[derive(Debug, Default)]
pub struct Fronts {
    stopped: Cell<Option<(Object, Time)>>,
    /// In whose line the last wait ended without a call. Once is chance: where many wait, one of them always happens to look
    /// before the front does, and if it then watched alone they would soon all wake for each release.
    missed: Cell<Option<Object>>,
}

/// A waiter's place in the line of one object.
#[derive(Debug, Default)]
pub struct Line {
    fronts: Rc<Fronts>,
    /// Nobody called: the time was over.
    has_woken_by_itself: bool,
    place: Place,
    object: Option<Object>,
    /// How often the front was lost.
    losses: u32,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Alone,
    Front(Front),
    /// With the connection to the front; a deputy has the listening socket, too.
    Behind(OwnedFd, Option<OwnedFd>),
}

#[derive(Debug)]
struct Front {
    listening: OwnedFd,
    /// The connection to the deputy.
    deputy: Option<OwnedFd>,
    /// No descriptor is left to accept another one: until it leaves nobody is listened to.
    is_deaf: bool,
}

/// What all its waiters call it: the directory's device and inode, the name, the kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Object {
    device: u64,
    inode: u64,
    name: u64,
    awaited: Awaited,
}

impl Fronts {
    fn is_stopped(&self, object: Object) -> bool {
        self.stopped.get().is_some_and(|(known, since)| known == object && clock::now().since(since) < DISTRUST)
    }
}

impl Line {
    pub fn new(fronts: Rc<Fronts>) -> Line {
        let mut line = Line::default();
        line.fronts = fronts;
        line
    }

    /// A place in the line of this object if there is one, but not in front.
    pub fn behind(fronts: Rc<Fronts>, dir: &Dir, name: &OsStr, awaited: Awaited) -> Option<Line> {
        let object = Object::new(dir, name, awaited).ok().filter(|&object| !fronts.is_stopped(object))?;
        let own = new_socket().ok()?;
        stand_behind(&own, object).ok()?;
        let mut line = Line::new(fronts);
        (line.place, line.object) = (Place::Behind(own, None), Some(object));
        Some(line)
    }

    /// Takes a place in the line of this object, or keeps the one it has. Do others watch the object for us?
    pub fn join(&mut self, dir: &Dir, name: &OsStr, awaited: Awaited) -> bool {
        let object = Object::new(dir, name, awaited).ok();
        if self.object != object {
            self.leave();
            self.object = object;
        }
        // The socket may have come while we were looking elsewhere.
        self.hear();
        if let (Place::Alone, Some(object)) = (&self.place, self.object)
            && self.losses < PATIENCE
            && !self.fronts.is_stopped(object)
        {
            self.place = Place::find(object).unwrap_or_default();
        }
        matches!(self.place, Place::Behind(_, None))
    }

    pub fn is_behind(&self) -> bool {
        matches!(self.place, Place::Behind(..))
    }

    /// What becomes readable when [`Line::hear`] is to be called.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.place {
            Place::Behind(connection, _) => Some(connection.as_fd()),
            Place::Front(front) => front.socket(),
            Place::Alone => None,
        }
    }

    /// Is there news: that we are to watch from now on, as deputy or in front, or no front any more? The front sees to its
    /// deputy.
    pub fn hear(&mut self) -> bool {
        let (connection, listening) = match &mut self.place {
            Place::Alone => return false,
            Place::Front(front) => {
                front.see_to_deputy();
                return false;
            }
            Place::Behind(connection, listening) => (connection, listening),
        };
        let was_deputy = listening.is_some();
        loop {
            match receive(connection) {
                Ok(received) => *listening = Some(received),
                Err(Errno::EAGAIN) => return listening.is_some() && !was_deputy,
                // The front has left, or is lost.
                Err(_) => break,
            }
        }
        self.place = listening.take().map_or_else(
            || {
                self.losses += 1;
                Place::Alone
            },
            |listening| Place::Front(Front::new(listening)),
        );
        true
    }

    pub fn has_woken(&mut self, by_itself: bool) {
        self.has_woken_by_itself = by_itself;
    }

    /// What is closed here makes the deputy the front.
    pub fn leave(&mut self) {
        // If it has just become our turn there may be no deputy yet.
        while self.hear() {}
        self.place = Place::Alone;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let is_missed = self.is_behind() && !self.hear() && self.has_woken_by_itself;
        let missed = self.object.filter(|_| is_missed);
        if let (Some(object), true) = (missed, self.fronts.missed.replace(missed) == missed) {
            self.fronts.stopped.set(Some((object, clock::now())));
        }
        self.leave();
    }
}

impl Place {
    fn find(object: Object) -> Sys<Place> {
        let address = object.address()?;
        let own = new_socket()?;
        // Twice, for a front that leaves between the two.
        for _ in 0..2 {
            match bind(own.as_raw_fd(), &address) {
                Ok(()) => {
                    listen(&own, Backlog::new(BACKLOG)?)?;
                    return Ok(Place::Front(Front::new(own)));
                }
                Err(Errno::EADDRINUSE) => {}
                Err(errno) => return Err(errno),
            }
            match stand_behind(&own, object) {
                Ok(()) => return Ok(Place::Behind(own, None)),
                Err(Errno::ECONNREFUSED) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::ECONNREFUSED)
    }
}

impl Front {
    fn new(listening: OwnedFd) -> Front {
        Front { listening, deputy: None, is_deaf: false }
    }

    /// A deputy that is gone, or one to be had.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        let socket = self.deputy.as_ref().unwrap_or(&self.listening);
        (!self.is_deaf).then_some(socket.as_fd())
    }

    /// Makes the first behind that still waits the deputy, if there is none.
    fn see_to_deputy(&mut self) {
        if self.deputy.as_ref().is_some_and(is_there) {
            return;
        }
        self.deputy = None;
        while self.deputy.is_none() {
            match accept4(self.listening.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
                Ok(connection) => {
                    // SAFETY: a fresh descriptor that nobody else knows of.
                    let connection = unsafe { OwnedFd::from_raw_fd(connection) };
                    // Refused if it has given up.
                    self.deputy = send(&connection, &self.listening).is_ok().then_some(connection);
                }
                Err(errno) => {
                    self.is_deaf = errno != Errno::EAGAIN;
                    return;
                }
            }
        }
    }
}

fn new_socket() -> Sys<OwnedFd> {
    socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
}

fn stand_behind(own: &OwnedFd, object: Object) -> Sys<()> {
    connect(own.as_raw_fd(), &object.address()?)?;
    // For onlookers, who see the names of sockets and nothing else. Without one it works as well.
    let _ = object.address_behind(own.as_raw_fd()).and_then(|address| bind(own.as_raw_fd(), &address));
    Ok(())
}

impl Object {
    fn new(dir: &Dir, name: &OsStr, awaited: Awaited) -> Sys<Object> {
        let stat = fstat(dir)?;
        let name = fnv1a(name.as_bytes().iter().copied());
        Ok(Object { device: stat.st_dev, inode: stat.st_ino, name, awaited })
    }

    fn line_name(&self) -> String {
        let Object { device, inode, name, awaited } = self;
        let awaited = match awaited {
            Awaited::Removal => "removal",
            Awaited::Change => "change",
        };
        format!("{NAMES}{device:x}/{inode:x}/{name:x}/{awaited}")
    }

    fn address(&self) -> Sys<UnixAddr> {
        UnixAddr::new_abstract(self.line_name().as_bytes())
    }

    fn address_behind(&self, socket: i32) -> Sys<UnixAddr> {
        UnixAddr::new_abstract(format!("{}/{}.{socket}", self.line_name(), std::process::id()).as_bytes())
    }
}

/// What the front's socket is called; the names of those behind begin so.
pub fn line_name(dir: &Dir, name: &OsStr, awaited: Awaited) -> Sys<String> {
    Object::new(dir, name, awaited).map(|object| object.line_name())
}

/// Who stands behind says nothing: what can be read is its end.
fn is_there(connection: &OwnedFd) -> bool {
    matches!(recv(connection.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT), Err(Errno::EAGAIN))
}

fn send(connection: &OwnedFd, listening: &OwnedFd) -> Sys<()> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let rights = [listening.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&rights)];
    sendmsg::<UnixAddr>(connection.as_raw_fd(), &[IoSlice::new(b".")], &message, flags, None).map(drop)
}

/// EAGAIN while there is nothing; any other error if the front is lost.
fn receive(connection: &OwnedFd) -> Sys<OwnedFd> {
    let (mut byte, mut room) = ([0], cmsg_space!([libc::c_int; MOST_DESCRIPTORS]));
    let mut parts = [IoSliceMut::new(&mut byte)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<UnixAddr>(connection.as_raw_fd(), &mut parts, Some(&mut room), flags)?;
    let mut received = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: fresh descriptors that the system has just put into this process.
            received.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    // Anybody may have bound the name and sent anything.
    let is_listening = |fd: &OwnedFd| getsockopt(fd, sockopt::AcceptConn).unwrap_or(false);
    received.into_iter().find(is_listening).ok_or(Errno::ECONNRESET)
}

#[cfg(test)]
mod tests;
