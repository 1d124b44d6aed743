//! Reading and writing so that a signal is noticed and a closed pipe is an error, not the end of the shell.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, major};
use nix::sys::time::TimeSpec;

use super::ffi;
use crate::command::Moved;
use crate::sys::{Blocked, Errno, Sys, spared};

/// The longest sleep; then the shell may look at its signals.
const RECHECK: TimeSpec = TimeSpec::new(1, 0);
/// Before the next try with what was ready and did not take anything.
const NAP: TimeSpec = TimeSpec::new(0, 1_000_000);
/// A pipe that is ready takes so much at once without blocking, if nobody else is faster.
const PIECE: usize = libc::PIPE_BUF;

/// Is standard input one?
pub fn is_terminal() -> bool {
    // SAFETY: asks about a number only.
    unsafe { libc::isatty(libc::STDIN_FILENO) == 1 }
}

/// Writes some of `bytes` to standard output.
pub fn write(bytes: &[u8], is_pending: impl Fn() -> bool) -> Sys<Moved> {
    // What echo and printf have left in the buffer comes first. Its error is theirs.
    // SAFETY: bash's stdio; it prints through the same.
    unsafe { libc::fflush(ffi::stdout) };
    // SAFETY: the number stands for whatever is open there now; if nothing is, EBADF.
    let output = unsafe { BorrowedFd::borrow_raw(libc::STDOUT_FILENO) };
    let output = Output::of(output);
    when_ready(output.standard, PollFlags::POLLOUT, is_pending, |blocked| output.write(blocked, bytes))
}

/// Standard output, and how to write to it: that it is ready may be over when we come, since others write to it, too, and
/// a terminal that is ready need not have room for all. Its description is shared with them, so it stays as it is.
struct Output<'a> {
    standard: BorrowedFd<'a>,
    how: How,
}

enum How {
    /// A file, or what does not block.
    AsItIs,
    /// A description of our own that does not block.
    Through(OwnedFd),
    Socket,
    /// Blocks, so signals must be able to end it.
    Blocking,
}

impl Output<'_> {
    fn of(standard: BorrowedFd<'_>) -> Output<'_> {
        let how = match (fstat(standard), fcntl(standard, FcntlArg::F_GETFL)) {
            (Ok(stat), Ok(flags)) => How::of(&stat, OFlag::from_bits_truncate(flags)),
            // It is closed, and so is the error.
            _ => How::AsItIs,
        };
        Output { standard, how }
    }

    fn write(&self, blocked: &Blocked, bytes: &[u8]) -> Sys<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        spared(|_| match &self.how {
            How::AsItIs => nix::unistd::write(self.standard, bytes),
            How::Through(own) => nix::unistd::write(own, bytes),
            How::Socket => send(self.standard.as_raw_fd(), piece, MsgFlags::MSG_DONTWAIT),
            How::Blocking => blocked.open(|| nix::unistd::write(self.standard, piece)),
        })
    }
}

impl How {
    fn of(stat: &FileStat, flags: OFlag) -> How {
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        let is_written = flags & OFlag::O_ACCMODE != OFlag::O_RDONLY;
        if kind == SFlag::S_IFREG || flags.contains(OFlag::O_NONBLOCK) || !is_written {
            How::AsItIs
        } else if kind == SFlag::S_IFSOCK {
            How::Socket
        } else if kind == SFlag::S_IFIFO || (kind == SFlag::S_IFCHR && is_pseudo_terminal(stat)) {
            open_again(stat).map_or(How::Blocking, How::Through)
        } else {
            // Opening other devices may do things.
            How::Blocking
        }
    }
}

/// The end that programs have. The other one, and names like /dev/tty, are something else each time they are opened.
fn is_pseudo_terminal(stat: &FileStat) -> bool {
    (136..=143).contains(&major(stat.st_rdev))
}

/// `None` where that is not allowed, as after a change of the user, or nobody reads.
fn open_again(stat: &FileStat) -> Option<OwnedFd> {
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let own = open(c"/proc/self/fd/1", flags, Mode::empty()).ok()?;
    let same = fstat(&own).is_ok_and(|own| (own.st_dev, own.st_ino) == (stat.st_dev, stat.st_ino));
    same.then_some(own)
}

/// Reads from `file` or standard input.
pub fn read(file: Option<&OwnedFd>, buffer: &mut [u8], is_pending: impl Fn() -> bool) -> Sys<Moved> {
    if file.is_none() {
        give_back_read_ahead();
    }
    // SAFETY: as above.
    let input = file.map_or_else(|| unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }, AsFd::as_fd);
    // Others may read from it, too, and be faster.
    when_ready(input, PollFlags::POLLIN, is_pending, |blocked| blocked.open(|| nix::unistd::read(input, buffer)))
}

/// A script that comes from standard input is shared with us, as with `read`.
fn give_back_read_ahead() {
    // SAFETY: plain variables of bash, and calls that only seek.
    unsafe {
        if ffi::interactive == 0 && ffi::default_buffered_input >= 0 && ffi::fd_is_bash_input(libc::STDIN_FILENO) != 0 {
            ffi::sync_buffered_stream(ffi::default_buffered_input);
        }
    }
}

/// All of it, as far as it goes; there is nobody left to hear of an error.
pub fn write_error(mut bytes: &[u8]) {
    // SAFETY: as above.
    let errors = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    while !bytes.is_empty() {
        match spared(|blocked| blocked.open(|| nix::unistd::write(errors, bytes))) {
            Ok(count) if count > 0 => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            _ => return,
        }
    }
}

/// Does not wait for the writer of a FIFO; reading does, and can be interrupted.
pub fn open_for_reading(path: &OsStr) -> Sys<OwnedFd> {
    open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_NONBLOCK, Mode::empty())
}

/// Signals are looked at, and stay blocked but while sleeping: none comes between.
fn when_ready(
    file: BorrowedFd<'_>,
    wanted: PollFlags,
    is_pending: impl Fn() -> bool,
    mut act: impl FnMut(&Blocked) -> Sys<usize>,
) -> Sys<Moved> {
    loop {
        let blocked = Blocked::all();
        if is_pending() {
            return Ok(Moved::Interrupted);
        }
        match blocked.poll(&mut [PollFd::new(file, wanted)], RECHECK) {
            // A signal that nobody traps, or the time to look again.
            Err(Errno::EINTR) | Ok(0) => continue,
            Err(errno) => return Err(errno),
            Ok(_) => {}
        }
        match act(&blocked) {
            // Somebody else was faster, or there is room for less than a character.
            Err(Errno::EAGAIN) => _ = blocked.poll(&mut [], NAP),
            Err(Errno::EINTR) => {}
            moved => return moved.map(Moved::Bytes),
        }
    }
}
