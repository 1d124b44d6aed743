//! Assigning to variables without evaluating anything: bash's own way runs arithmetic, follows references to subscripts
//! and jumps out on errors.

use std::ffi::{CStr, CString, c_int};

use super::ffi::*;
use crate::base::{Error, Result};
use crate::command::Target;
use crate::sys::Errno;

/// Why a target cannot be assigned plainly; `None` if it can.
pub fn refuses(target: Target<'_>) -> Option<&'static str> {
    const NOT_A_NAME: &str = "not a valid variable name";
    let Ok(name) = CString::new(target.name()) else { return Some(NOT_A_NAME) };
    // SAFETY: a C string that is only read.
    if unsafe { legal_identifier(name.as_ptr()) } == 0 {
        return Some(NOT_A_NAME);
    }
    if leads_astray(&name) {
        return Some("a reference to no plain variable");
    }
    // SAFETY: a C string that is only read.
    let variable = unsafe { find_variable(name.as_ptr()).as_ref() }?;
    let has = |attribute: c_int| variable.attributes & attribute != 0;
    let is_special = match target {
        // SECONDS, RANDOM and their like compute; elements of FUNCNAME or DIRSTACK may be set.
        Target::Scalar(_) => variable.assign_func.is_some() && !has(ATT_ARRAY),
        Target::Array(_) => variable.assign_func.is_some() || variable.dynamic_value.is_some(),
    };
    if has(ATT_READONLY) {
        Some("readonly variable")
    } else if has(ATT_NOASSIGN) {
        Some("cannot be assigned")
    } else if has(ATT_INTEGER) {
        Some("an integer variable would evaluate its value")
    } else if has(ATT_ASSOC) {
        Some("associative array")
    } else if is_special {
        Some("a special variable of the shell")
    } else {
        None
    }
}

fn is_reference(variable: &ShellVar) -> bool {
    variable.attributes & ATT_NAMEREF != 0
}

/// A reference without a target would be given one by an assignment; one to `a[$(command)]` would run it.
fn leads_astray(name: &CStr) -> bool {
    // SAFETY: a C string that is only read; bash answers NULL or a living variable.
    let (first, last) =
        unsafe { (find_variable_noref(name.as_ptr()).as_ref(), find_variable_last_nameref(name.as_ptr(), 0).as_ref()) };
    if let Some(first) = first
        && is_reference(first)
        && (first.value.is_null() || first.attributes & ATT_INVISIBLE != 0)
    {
        return true;
    }
    match last {
        // SAFETY: the value of a reference is a C string.
        Some(last) if is_reference(last) => last.value.is_null() || unsafe { legal_identifier(last.value) } == 0,
        _ => false,
    }
}

/// The value of a plain variable.
pub fn get(name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: a C string that is only read; the value of a variable without attributes is NULL or a C string, copied.
    unsafe {
        let variable = find_variable(name.as_ptr()).as_ref()?;
        let is_plain = variable.attributes & (ATT_ARRAY | ATT_ASSOC | ATT_NAMEREF) == 0 && !variable.value.is_null();
        is_plain.then(|| CStr::from_ptr(variable.value).to_bytes().to_vec())
    }
}

/// Sets a variable that was not refused.
pub fn set(name: &[u8], value: &[u8]) -> Result<()> {
    let (name, value) = (c_string(name)?, c_string(value)?);
    try_memory(value.count_bytes()).map_err(|()| no_memory())?;
    // SAFETY: C strings; bash copies the value and keeps neither. Nothing is evaluated and nothing jumps, since integer,
    // readonly and subscripted targets are refused.
    let variable = unsafe { bind_variable(name.as_ptr(), value.as_ptr().cast_mut(), 0) };
    if variable.is_null() {
        return Err(failed(&name));
    }
    // SAFETY: as above. IFS, PATH and their like take effect.
    unsafe { stupidly_hack_special_variables(name.as_ptr().cast_mut()) };
    Ok(())
}

/// Makes an array that was not refused of exactly these values. It is not unset first: a caller's local would be lost.
pub fn set_array(name: &[u8], values: &[Vec<u8>]) -> Result<()> {
    let name = c_string(name)?;
    // SAFETY: a C string that is not kept; 1: as indexed array.
    let array = unsafe { find_or_make_array_variable(name.as_ptr().cast_mut(), 1) };
    // SAFETY: NULL or a living variable.
    match unsafe { array.as_ref() } {
        Some(found) if found.attributes & ATT_ARRAY != 0 && found.attributes & ATT_ASSOC == 0 => {
            // SAFETY: the value of an indexed array is an ARRAY.
            unsafe { array_flush(found.value.cast()) };
        }
        _ => return Err(failed(&name)),
    }
    for (index, value) in (0..).zip(values) {
        let value = c_string(value)?;
        try_memory(value.count_bytes()).map_err(|()| no_memory())?;
        // SAFETY: a living array variable, and bash copies the value.
        unsafe { bind_array_element(array, index, value.as_ptr().cast_mut(), 0) };
    }
    Ok(())
}

/// What a reference leads to is unset, and the reference stays. bash's own function takes the reference for its target
/// where that is not set, or has the same name: then nothing is unset.
pub fn unset(name: &[u8]) {
    let Ok(name) = CString::new(name) else { return };
    // SAFETY: a C string that is only read; bash answers NULL or a living variable.
    let (first, last) =
        unsafe { (find_variable_noref(name.as_ptr()).as_ref(), find_variable_last_nameref(name.as_ptr(), 0).as_ref()) };
    let target = match (first, last) {
        // SAFETY: the value of a reference is a C string, since the target was not refused; copied.
        (_, Some(last)) if is_reference(last) => unsafe { CStr::from_ptr(last.value) }.to_owned(),
        (Some(first), None) if is_reference(first) => return,
        _ => name,
    };
    // SAFETY: a C string that is not kept.
    unsafe { unbind_variable(target.as_ptr()) };
}

/// bash ends the shell when it has no memory for a copy. A trial before takes the risk out of all but the last bytes.
pub fn try_memory(length: usize) -> std::result::Result<(), ()> {
    const OF_ITS_OWN: usize = 4096;
    let mut trial = Vec::<u8>::new();
    trial.try_reserve_exact(length.saturating_add(OF_ITS_OWN)).map_err(|_| ())?;
    // Otherwise the optimiser knows that it is not needed.
    std::hint::black_box(&trial);
    Ok(())
}

fn no_memory() -> Error {
    Error::system("variable", Errno::ENOMEM)
}

/// Without running out of memory: items may be large.
fn c_string(bytes: &[u8]) -> Result<CString> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len() + 1).map_err(|_| no_memory())?;
    copy.extend_from_slice(bytes);
    CString::new(copy).map_err(|_| Error::damaged("variable", "a NUL byte does not fit"))
}

fn failed(name: &CStr) -> Error {
    Error::damaged(name.to_string_lossy().as_ref(), "cannot be assigned")
}
