//! Errors as C sees them.

use crate::call::answer;
use crate::handle::{Handle, Kind};
use crate::text::c_text;
use hypostyle::{Error, ErrorKind};
use std::ffi::{CString, c_char};
use std::ptr;

/// `hypostyle_error`.
pub struct Failure {
    error: Error,
    message: CString,
    detail: Option<CString>,
    sqlstate: CString,
}

impl Kind for Failure {
    const MAGIC: u64 = 0x4859_504f_0000_0001;
    const NAME: &'static str = "error";
}

impl Failure {
    pub fn new(error: Error) -> Self {
        let (message, sqlstate) = (c_text(error.message()), c_text(error.sqlstate()));
        let detail = error.detail().map(c_text);
        Self { error, message, detail, sqlstate }
    }
}

/// Returns the status of an error: 1 and the number of its kind in docs/protocol.md §8.
pub fn status(error: &Error) -> i32 {
    match error.kind() {
        ErrorKind::Syntax => 1,
        ErrorKind::UnknownName => 2,
        ErrorKind::InvalidInput => 3,
        ErrorKind::Constraint => 4,
        ErrorKind::AlreadyExists => 5,
        ErrorKind::NotFound => 6,
        ErrorKind::Io => 7,
        ErrorKind::DiskFull => 8,
        ErrorKind::Corrupt => 9,
        ErrorKind::Version => 10,
        ErrorKind::Busy => 11,
        ErrorKind::ReadOnly => 12,
        ErrorKind::Conflict => 13,
        ErrorKind::Interrupted => 14,
        ErrorKind::OutOfMemory => 15,
        ErrorKind::Unsupported => 16,
        ErrorKind::Closed => 17,
        ErrorKind::Denied => 19,
        ErrorKind::Connection => 20,
        ErrorKind::TransactionState => 21,
        _ => 18,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn hypostyle_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn hypostyle_abi() -> i32 {
    1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_error_status(error: *const Handle<Failure>) -> i32 {
    // SAFETY: the header says what it is.
    answer(0, || unsafe { Handle::peek(error) }.map(|failure| status(&failure.error)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_error_sqlstate(error: *const Handle<Failure>) -> *const c_char {
    // SAFETY: the header says what it is.
    answer(c"00000".as_ptr(), || unsafe { Handle::peek(error) }.map(|failure| failure.sqlstate.as_ptr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_error_message(error: *const Handle<Failure>) -> *const c_char {
    // SAFETY: the header says what it is.
    answer(c"".as_ptr(), || unsafe { Handle::peek(error) }.map(|failure| failure.message.as_ptr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_error_detail(error: *const Handle<Failure>) -> *const c_char {
    answer(ptr::null(), || {
        // SAFETY: the header says what it is.
        unsafe { Handle::peek(error) }
            .and_then(|failure| failure.detail.as_ref())
            .map(|detail| detail.as_ptr())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_error_position(error: *const Handle<Failure>) -> u64 {
    answer(0, || {
        // SAFETY: the header says what it is.
        unsafe { Handle::peek(error) }.and_then(|failure| failure.error.position()).map(|place| place as u64)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_error_free(error: *mut *mut Handle<Failure>) {
    // SAFETY: the header says what it is.
    unsafe { Handle::free(error) };
}
