//! bash as the host: the only code that names a symbol of it.
//!
//! bash finds `NAME_struct` and calls the entry of entry.c, which calls the steps below. A step owns what it opens and
//! drops it before it returns, no Rust frame is ever under a jump of bash's, and a trap may call any builtin between two
//! steps of another.

mod ffi;
mod streams;
mod variables;

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use std::{panic, ptr};

use bash_builtins::Args;
use bash_builtins::ffi::{BashBuiltin, WordList, flags};

use crate::base::{Error, Result, Time};
use crate::command::{self, Builtin, Call, Moved, Outcome, Shell, TABLE, Target};
use crate::sys::{Errno, Local, Sys, World};

/// What a step returns besides a status; see entry.c.
const INTERRUPTED: c_int = -1;
const EVALUATE: c_int = -2;
const RUN: c_int = -3;

/// A call, from its first step until bash has left it for good. C sees the head.
#[repr(C)]
struct Record {
    head: Head,
    builtin: &'static Builtin,
    call: Call,
    /// By pointer, so that nothing that is reached from loading names a symbol of bash's.
    has_news: unsafe extern "C" fn(*const Head) -> c_int,
    /// When the present step began, if a signal was left unserved before.
    stepped: Time,
}

/// `struct call` of entry.c.
#[repr(C)]
pub struct Head {
    seen_terminating: c_int,
    seen_interrupt: c_int,
    seen_trapped: c_int,
    outer_loop_level: c_int,
    runs_shell_code: c_int,
    has_suspended_errexit: c_int,
    runner: libc::pid_t,
    outer: *mut Head,
    outer_top_level: *mut c_void,
}

impl Head {
    /// Is there a signal that bash has left unserved?
    fn has_left_some(&self) -> bool {
        (self.seen_terminating | self.seen_interrupt | self.seen_trapped) != 0
    }
}

// The malloc of bash 4.4 and 5.0 gives no more.
const _: () = assert!(align_of::<Record>() <= 8 && align_of::<Local>() <= 8);

thread_local! {
    /// bash has one thread. Never dropped: its destructors would run when bash is half gone.
    static WORLD: Cell<Option<&'static Local>> = const { Cell::new(None) };
    /// The call whose step is running.
    static CURRENT: Cell<*const Record> = const { Cell::new(ptr::null()) };
}

/// From the constructor in entry.c, with `$$`.
#[unsafe(no_mangle)]
extern "C" fn interlock_loaded(script: c_int) {
    panic::set_hook(Box::new(|_| {}));
    let _ = catch_unwind(|| {
        let local = Local::new(script.unsigned_abs()).with_pending(is_pending);
        WORLD.set(Some(Box::leak(Box::new(local))));
    });
}

fn world() -> &'static Local {
    WORLD.get().expect("made when the plugin was loaded")
}

/// Has bash something to look at? Also true from time to time if it has left a signal unserved, since then a new one of
/// the same kind cannot be told from it.
fn is_pending() -> bool {
    // SAFETY: the record of the running step, see `interlock_step`.
    let Some(record) = (unsafe { CURRENT.get().as_ref() }) else { return false };
    // SAFETY: entry.c only reads the head.
    (unsafe { (record.has_news)(&record.head) } != 0)
        || (record.head.has_left_some() && world().now().since(record.stepped) >= Duration::from_secs(1))
}

#[unsafe(no_mangle)]
extern "C" fn interlock_begin(index: c_int) -> *mut Record {
    Box::into_raw(Box::new(Record {
        head: Head {
            seen_terminating: 0,
            seen_interrupt: 0,
            seen_trapped: 0,
            outer_loop_level: -1,
            runs_shell_code: 0,
            has_suspended_errexit: 0,
            runner: 0,
            outer: ptr::null_mut(),
            outer_top_level: ptr::null_mut(),
        },
        builtin: &TABLE[index as usize],
        call: Call::default(),
        has_news: ffi::interlock_has_news,
        stepped: Time(0),
    }))
}

/// One step: the status, or INTERRUPTED, EVALUATE or RUN.
///
/// # Safety
///
/// `record` is from [`interlock_begin`] and not ended; `words` is the list that bash has called the builtin with.
#[unsafe(no_mangle)]
unsafe extern "C" fn interlock_step(record: *mut Record, words: *const WordList) -> c_int {
    CURRENT.set(record);
    let end = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: valid as promised, and used by nobody else during the step but for reading its head.
        let (builtin, call) = unsafe {
            if (*record).head.has_left_some() {
                (*record).stepped = world().now();
            }
            ((*record).builtin, &mut (*record).call)
        };
        // SAFETY: bash's own list, which outlives the step.
        unsafe { with_words(words, |words| command::run(world(), &mut Bash, call, builtin, words)) }
    }));
    CURRENT.set(ptr::null());
    let evaluated = |what, is_shell_code| {
        // SAFETY: valid as promised.
        unsafe { (*record).head.runs_shell_code = c_int::from(is_shell_code) };
        what
    };
    match end {
        Ok(Ok(Outcome::Done)) => 0,
        Ok(Ok(Outcome::No)) => 1,
        Ok(Ok(Outcome::Interrupted)) => INTERRUPTED,
        Ok(Ok(Outcome::Evaluate { is_shell_code })) => evaluated(EVALUATE, is_shell_code),
        Ok(Ok(Outcome::Run { is_shell_code })) => evaluated(RUN, is_shell_code),
        Ok(Ok(Outcome::Status(status))) => c_int::from(status),
        Ok(Err(error)) => {
            Bash.warn(&error.message());
            c_int::from(error.status())
        }
        Err(panic) => {
            let what = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Bash.warn(format!("internal error: {}", what.unwrap_or("unknown")).as_bytes());
            3
        }
    }
}

/// # Safety
///
/// `words` is a list of bash's.
unsafe fn with_words<T>(words: *const WordList, work: impl FnOnce(&[&[u8]]) -> T) -> T {
    // SAFETY: as promised.
    let mut args = unsafe { Args::new(words) };
    let words: Vec<&[u8]> = args.raw_arguments().map(CStr::to_bytes).collect();
    work(&words)
}

/// A `break` in a trap ends the call instead of the next step.
///
/// # Safety
///
/// As for [`interlock_step`].
#[unsafe(no_mangle)]
unsafe extern "C" fn interlock_broken_off(record: *mut Record, words: *const WordList) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: valid as promised, and used by nobody else now.
        let (builtin, call) = unsafe { ((*record).builtin, &mut (*record).call) };
        // SAFETY: bash's own list, which outlives the call.
        unsafe { with_words(words, |words| command::broken_off(world(), &mut Bash, call, builtin, words)) }
    }));
}

/// After EVALUATE and RUN: 1 and the next command, for bash to free; 0 after the last; -1 after an error, which is told.
///
/// # Safety
///
/// `record` is from [`interlock_begin`] and not ended, `command` a place for the command.
#[unsafe(no_mangle)]
unsafe extern "C" fn interlock_command(record: *mut Record, command: *mut *mut c_char) -> c_int {
    let next = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: valid as promised, and used by nobody else now.
        let Some(line) = unsafe { (*record).call.next_command() }? else { return Ok(None) };
        check_memory(line.len())?;
        // SAFETY: NULL, or a fresh place for the line and its NUL, of the allocator that bash frees with: bash's or
        // libc's, both calls find the same.
        unsafe {
            let copy: *mut c_char = libc::malloc(line.len() + 1).cast();
            if !copy.is_null() {
                ptr::copy_nonoverlapping(line.as_ptr(), copy.cast(), line.len());
                *copy.add(line.len()) = 0;
            }
            Ok(Some(copy))
        }
    }));
    match next {
        Ok(Ok(None)) => 0,
        Ok(Ok(Some(line))) if !line.is_null() => {
            // SAFETY: valid as promised.
            unsafe { *command = line };
            1
        }
        Ok(Err(error)) => {
            Bash.warn(&Error::message(&error));
            -1
        }
        _ => {
            Bash.warn(b"internal error: no command");
            -1
        }
    }
}

/// bash ends the shell when it has no memory for the copies it makes of a long line: about a dozen.
fn check_memory(length: usize) -> Result<()> {
    const COPIES: usize = 16;
    variables::try_memory(length.saturating_mul(COPIES)).map_err(|()| Error::system("command", Errno::ENOMEM))
}

/// After the command of a *_run: gives back what it was run with. 0, or 3 after an error, which is told.
///
/// # Safety
///
/// `record` is from [`interlock_begin`] and not ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn interlock_finish(record: *mut Record) -> c_int {
    // SAFETY: as promised.
    unsafe { settle(record, command::abandon) }
}

/// bash is about to die inside of the call; should it not, the call goes on. As [`interlock_finish`].
///
/// # Safety
///
/// `record` is from [`interlock_begin`] and not ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn interlock_give_back(record: *mut Record) -> c_int {
    // SAFETY: as promised.
    unsafe { settle(record, command::give_back) }
}

/// # Safety
///
/// `record` is from [`interlock_begin`] and not ended.
unsafe fn settle(record: *mut Record, work: fn(&Local, &mut Call) -> Result<()>) -> c_int {
    // SAFETY: valid as promised, and used by nobody else now.
    match catch_unwind(AssertUnwindSafe(|| work(world(), unsafe { &mut (*record).call }))) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            Bash.warn(&error.message());
            3
        }
        Err(_) => 3,
    }
}

/// bash leaves the call by a jump, and is maybe half gone: no symbol of bash's is used here. Does nothing the second time.
///
/// # Safety
///
/// `record` is from [`interlock_begin`] and not ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn interlock_abandon(record: *mut Record) {
    // SAFETY: valid as promised, and used by nobody else now.
    if let Ok(Err(error)) = catch_unwind(AssertUnwindSafe(|| command::abandon(world(), unsafe { &mut (*record).call })))
    {
        streams::write_error(&[b"interlock: ", error.message().as_slice(), b"\n"].concat());
    }
}

/// Frees what [`interlock_begin`] has made.
///
/// # Safety
///
/// `record` is from [`interlock_begin`], not ended, and not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn interlock_end(record: *mut Record) {
    // SAFETY: made by Box, given back once.
    drop(unsafe { Box::from_raw(record) });
}

/// This shell.
struct Bash;

impl Shell for Bash {
    fn refuses(&self, target: Target<'_>) -> Option<&'static str> {
        variables::refuses(target)
    }

    fn assign(&mut self, target: Target<'_>, values: &[Vec<u8>]) -> Result<()> {
        match target {
            Target::Scalar(name) => variables::set(name, &values[0]),
            Target::Array(name) => variables::set_array(name, values),
        }
    }

    fn unset(&mut self, target: Target<'_>) {
        variables::unset(target.name());
    }

    fn write(&mut self, bytes: &[u8]) -> Sys<Moved> {
        streams::write(bytes, is_pending)
    }

    fn open(&mut self, path: &OsStr) -> Sys<OwnedFd> {
        streams::open_for_reading(path)
    }

    fn read(&mut self, file: Option<&OwnedFd>, buffer: &mut [u8]) -> Sys<Moved> {
        streams::read(file, buffer, is_pending)
    }

    fn has_news(&self) -> bool {
        is_pending()
    }

    fn is_terminal(&self) -> bool {
        streams::is_terminal()
    }

    fn version(&self) -> Vec<u8> {
        variables::get(c"BASH_VERSION").unwrap_or_default()
    }

    fn is_function(&self, name: &[u8]) -> bool {
        // SAFETY: a C string that is only read.
        CString::new(name).is_ok_and(|name| unsafe { !ffi::find_function(name.as_ptr()).is_null() })
    }

    fn program(&self) -> Vec<u8> {
        // SAFETY: NULL or a C string, copied at once.
        unsafe {
            let name = ffi::dollar_vars[0];
            if name.is_null() { Vec::new() } else { CStr::from_ptr(name).to_bytes().to_vec() }
        }
    }

    fn warn(&mut self, line: &[u8]) {
        let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != 0).collect();
        if let Ok(line) = CString::new(line) {
            // SAFETY: the format takes one C string.
            unsafe { ffi::builtin_error(c"%s".as_ptr(), line.as_ptr()) };
        }
    }

    fn rescue(&mut self, item: &[u8]) {
        streams::write_error(item);
    }
}

/// What bash looks up by name. It writes into the structure, so it is mutable.
macro_rules! builtin {
    ($structure:ident, $entry:ident, $name:literal, $usage:literal, $help:literal) => {
        const _: () = {
            unsafe extern "C" {
                safe fn $entry(words: *const WordList) -> c_int;
            }
            // bash uses the first string only; the array ends in NULL.
            struct Help([*const c_char; 2]);
            // SAFETY: constant.
            unsafe impl Sync for Help {}
            static HELP: Help = Help([$help.as_ptr(), ptr::null()]);
            #[unsafe(no_mangle)]
            static mut $structure: BashBuiltin = BashBuiltin {
                name: $name.as_ptr(),
                function: $entry,
                flags: flags::BUILTIN_ENABLED,
                long_doc: HELP.0.as_ptr(),
                short_doc: $usage.as_ptr(),
                handle: ptr::null(),
            };
        };
    };
}

include!(concat!(env!("OUT_DIR"), "/structures.rs"));
