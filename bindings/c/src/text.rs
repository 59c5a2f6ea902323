//! Texts that come from C, and texts that C is given.

use hypostyle::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char};

/// `HYPOSTYLE_NUL`.
const NUL_ENDS_IT: usize = usize::MAX;

/// No process has more addresses.
const ADDRESSES: u64 = 1 << 47;

/// Returns the error for an argument that no program should pass.
pub fn misuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_sqlstate("HY009")
}

/// Reads bytes of the caller's.
///
/// # Safety
/// `pointer` is NULL or points to `length` bytes.
pub unsafe fn bytes<'a>(pointer: *const u8, length: usize, what: &str) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(misuse(format!("{what} is NULL, but has a length of {length}")));
    }
    if length as u64 > ADDRESSES || isize::try_from(length).is_err() {
        return Err(misuse(format!("the length of {what}, {length}, is more than there can be")));
    }
    // SAFETY: the caller promises this, and the length is one that memory may have.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}

/// Reads a text of the caller's.
///
/// # Errors
/// `InvalidInput` for NULL and for bytes that are not UTF-8.
///
/// # Safety
/// `pointer` is NULL or points to `length` bytes; `HYPOSTYLE_NUL` says that NUL ends them.
pub unsafe fn text<'a>(pointer: *const c_char, length: usize, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(misuse(format!("{what} is NULL")));
    }
    let bytes = match length {
        // SAFETY: the caller promises that NUL ends it.
        NUL_ENDS_IT => unsafe { CStr::from_ptr(pointer) }.to_bytes(),
        // SAFETY: the caller promises this.
        _ => unsafe { bytes(pointer.cast(), length, what) }?,
    };
    std::str::from_utf8(bytes)
        .map_err(|error| Error::invalid_input(format!("{what} is not UTF-8: {error}")).with_sqlstate("22021"))
}

/// Reads a text that NUL ends; NULL is none.
///
/// # Safety
/// `pointer` is NULL or points to bytes that NUL ends.
pub unsafe fn optional<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>> {
    match pointer.is_null() {
        true => Ok(None),
        // SAFETY: the caller promises this.
        false => unsafe { text(pointer, NUL_ENDS_IT, what) }.map(Some),
    }
}

/// Returns a text for C. A NUL within it would end it.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}
