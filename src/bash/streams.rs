//! Reading and writing so that a signal is noticed and a closed pipe is an error, not the end of the shell.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::sys::time::TimeSpec;

use super::ffi;
use crate::command::Moved;
use crate::sys::{Blocked, Errno, Sys};

/// The longest sleep; then the shell may look at its signals.
const RECHECK: TimeSpec = TimeSpec::new(1, 0);
/// A pipe that is ready takes so much at once without blocking.
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
    let is_file =
        fstat(output).is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG);
    let piece = if is_file { bytes } else { &bytes[..bytes.len().min(PIECE)] };
    when_ready(output, PollFlags::POLLOUT, is_pending, || {
        let was_pending = is_sigpipe_pending();
        nix::unistd::write(output, piece).inspect_err(|&errno| {
            if errno == Errno::EPIPE && !was_pending {
                eat_sigpipe();
            }
        })
    })
}

/// Reads from `file` or standard input.
pub fn read(file: Option<&OwnedFd>, buffer: &mut [u8], is_pending: impl Fn() -> bool) -> Sys<Moved> {
    if file.is_none() {
        give_back_read_ahead();
    }
    // SAFETY: as above.
    let input = file.map_or_else(|| unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }, AsFd::as_fd);
    when_ready(input, PollFlags::POLLIN, is_pending, || nix::unistd::read(input, buffer))
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
        match nix::unistd::write(errors, bytes) {
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
    mut act: impl FnMut() -> Sys<usize>,
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
        match act() {
            // Somebody else was faster at a non-blocking file.
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            moved => return moved.map(Moved::Bytes),
        }
    }
}

fn is_sigpipe_pending() -> bool {
    let mut pending = SigSet::empty();
    // SAFETY: a valid place for the answer.
    unsafe { libc::sigpending(std::ptr::from_mut(&mut pending).cast()) == 0 && pending.contains(Signal::SIGPIPE) }
}

/// Takes away the SIGPIPE that the failed write has raised.
fn eat_sigpipe() {
    let mut sigpipe = SigSet::empty();
    sigpipe.add(Signal::SIGPIPE);
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid arguments; the signal is blocked.
    unsafe { libc::sigtimedwait(sigpipe.as_ref(), std::ptr::null_mut(), &now) };
}
