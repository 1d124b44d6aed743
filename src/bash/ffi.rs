//! All that Rust calls or reads in bash, in entry.c, and libc's stdio. `symbols.txt` has the versions.
//!
//! bash's structures are not touched, but for the head of SHELL_VAR, which is the same from 4.4 to 5.3. In particular not
//! ARRAY, ARRAY_ELEMENT, HASH_TABLE, VAR_CONTEXT and COMMAND: their layout or meaning moved.

use std::ffi::{c_char, c_int, c_void};

/// The head of `struct variable`, variables.h.
#[repr(C)]
pub struct ShellVar {
    pub name: *mut c_char,
    pub value: *mut c_char,
    pub exportstr: *mut c_char,
    pub dynamic_value: Option<unsafe extern "C" fn(*mut ShellVar) -> *mut ShellVar>,
    pub assign_func: Option<unsafe extern "C" fn(*mut ShellVar, *mut c_char, isize, *mut c_char) -> *mut ShellVar>,
    pub attributes: c_int,
    pub context: c_int,
}

// variables.h
pub const ATT_READONLY: c_int = 0x0002;
pub const ATT_ARRAY: c_int = 0x0004;
pub const ATT_INTEGER: c_int = 0x0010;
pub const ATT_ASSOC: c_int = 0x0040;
pub const ATT_NAMEREF: c_int = 0x0800;
pub const ATT_INVISIBLE: c_int = 0x1000;
pub const ATT_NOASSIGN: c_int = 0x4000;

unsafe extern "C" {
    // int legal_identifier (const char *);
    pub fn legal_identifier(name: *const c_char) -> c_int;
    // SHELL_VAR *find_variable (const char *);
    pub fn find_variable(name: *const c_char) -> *mut ShellVar;
    // SHELL_VAR *find_function (const char *);
    pub fn find_function(name: *const c_char) -> *mut ShellVar;
    // SHELL_VAR *find_variable_noref (const char *);
    pub fn find_variable_noref(name: *const c_char) -> *mut ShellVar;
    // SHELL_VAR *find_variable_last_nameref (const char *, int);
    pub fn find_variable_last_nameref(name: *const c_char, vflags: c_int) -> *mut ShellVar;
    // SHELL_VAR *bind_variable (const char *, char *, int);
    pub fn bind_variable(name: *const c_char, value: *mut c_char, flags: c_int) -> *mut ShellVar;
    // int unbind_variable (const char *);
    pub fn unbind_variable(name: *const c_char) -> c_int;
    // void stupidly_hack_special_variables (char *);
    pub fn stupidly_hack_special_variables(name: *mut c_char);
    // SHELL_VAR *find_or_make_array_variable (char *, int);
    pub fn find_or_make_array_variable(name: *mut c_char, flags: c_int) -> *mut ShellVar;
    // void array_flush (ARRAY *);
    pub fn array_flush(array: *mut c_void);
    // SHELL_VAR *bind_array_element (SHELL_VAR *, arrayind_t, char *, int);
    pub fn bind_array_element(
        entry: *mut ShellVar,
        index: libc::intmax_t,
        value: *mut c_char,
        flags: c_int,
    ) -> *mut ShellVar;
    // void builtin_error (const char *, ...);
    pub fn builtin_error(format: *const c_char, ...);

    // char *dollar_vars[10]; $0 to $9
    pub static mut dollar_vars: [*mut c_char; 10];
    // int interactive;
    pub static mut interactive: c_int;
    // int default_buffered_input; the descriptor that a script is read from
    pub static mut default_buffered_input: c_int;
    // int fd_is_bash_input (int);
    pub fn fd_is_bash_input(fd: c_int) -> c_int;
    // int sync_buffered_stream (int); gives back what was read ahead
    pub fn sync_buffered_stream(fd: c_int) -> c_int;

    // entry.c
    pub fn interlock_has_news(call: *const super::Head) -> c_int;

    // stdio.h
    pub static mut stdout: *mut libc::FILE;
}
