//! The functions that C calls. `include/hypostyle_encoder.h` says what they take and give.

#![allow(clippy::missing_safety_doc, reason = "the header says what the functions take")]

use crate::encoder::Encoder;
use crate::layout::{Array, Failure, Field, Options, Room};
use crate::numeric::Misfit;
use hypostyle_types::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An encoder as C holds it.
pub struct Handle {
    encoder: Encoder,
    /// A panic has left it in an unknown state.
    is_broken: bool,
}

/// Runs work, and makes an error of a panic.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::internal(format!("a panic in the encoder: {text}")))
    })
}

/// Gives true, or writes the error and gives false.
///
/// # Safety
/// `failure` is a place for an error.
unsafe fn status(done: Result<()>, failure: *mut Failure) -> bool {
    match done {
        Ok(()) => true,
        Err(error) => {
            // SAFETY: the caller promises that it is a place.
            unsafe { failure.write(Failure::new(&error)) };
            false
        }
    }
}

/// Runs work with an encoder that is whole.
///
/// # Safety
/// `handle` was given by [`hypostyle_encoder_open`], `failure` is a place for an error.
unsafe fn with(
    handle: *mut Handle,
    failure: *mut Failure,
    work: impl FnOnce(&mut Encoder) -> Result<()>,
) -> bool {
    // SAFETY: the caller promises it, and C calls from one thread.
    let handle = unsafe { &mut *handle };
    let done = match std::mem::replace(&mut handle.is_broken, true) {
        true => Err(Error::internal("the encoder has failed before")),
        false => caught(|| {
            let done = work(&mut handle.encoder);
            handle.is_broken = false;
            done
        }),
    };
    // SAFETY: as the caller's.
    unsafe { status(done, failure) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hypostyle_encoder_protocol() -> u32 {
    hypostyle_wire::VERSION.into()
}

#[unsafe(no_mangle)]
pub extern "C" fn hypostyle_encoder_codecs() -> u32 {
    hypostyle_wire::COMPRESSIONS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_open(
    fields: *const Field,
    count: usize,
    options: *const Options,
    out: *mut *mut Handle,
    arrays: *mut *mut Array,
    room: *mut Room,
    failure: *mut Failure,
) -> bool {
    let done = caught(|| {
        // SAFETY: the header says what the pointers point to.
        unsafe {
            let fields = if count == 0 { &[] } else { std::slice::from_raw_parts(fields, count) };
            let encoder = Encoder::open(fields, &*options)?;
            arrays.write(encoder.arrays());
            room.write(encoder.room());
            out.write(Box::into_raw(Box::new(Handle { encoder, is_broken: false })));
        }
        Ok(())
    });
    // SAFETY: as the header says.
    unsafe { status(done, failure) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_reserve(
    handle: *mut Handle,
    field: usize,
    elements: usize,
    bytes: usize,
    failure: *mut Failure,
) -> bool {
    // SAFETY: as the header says.
    unsafe { with(handle, failure, |encoder| encoder.reserve(field, elements, bytes)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_decimal(
    handle: *mut Handle,
    field: usize,
    numeric: *const u8,
    length: usize,
) -> i32 {
    let written = caught(|| {
        // SAFETY: as the header says.
        let (handle, bytes) = unsafe { (&mut *handle, std::slice::from_raw_parts(numeric, length)) };
        Ok(handle.encoder.decimal(field, bytes))
    });
    match written {
        Ok(Ok(())) => 0,
        Ok(Err(misfit)) => misfit as i32,
        Err(_) => Misfit::Damaged as i32,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_flush(
    handle: *mut Handle,
    rows: usize,
    failure: *mut Failure,
) -> bool {
    // SAFETY: as the header says.
    unsafe { with(handle, failure, |encoder| encoder.flush(rows)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_frame(
    handle: *mut Handle,
    data: *mut *const u8,
    length: *mut usize,
    failure: *mut Failure,
) -> bool {
    // SAFETY: as the header says.
    unsafe {
        with(handle, failure, |encoder| {
            let frame = encoder.frame()?;
            length.write(frame.map_or(0, <[u8]>::len));
            data.write(frame.map_or(std::ptr::null(), <[u8]>::as_ptr));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_told(
    handle: *mut Handle,
    has_waited: bool,
    failure: *mut Failure,
) -> bool {
    // SAFETY: as the header says.
    unsafe {
        with(handle, failure, |encoder| {
            encoder.told(Some(has_waited));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_pass(
    handle: *mut Handle,
    raw: *mut u64,
    failure: *mut Failure,
) -> bool {
    // SAFETY: as the header says.
    unsafe {
        with(handle, failure, |encoder| {
            raw.write(encoder.pass());
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_relay(
    handle: *mut Handle,
    frame: *const u8,
    length: usize,
    raw: u64,
    rows: *mut u64,
    failure: *mut Failure,
) -> bool {
    // SAFETY: as the header says.
    unsafe {
        with(handle, failure, |encoder| {
            rows.write(encoder.relay(std::slice::from_raw_parts(frame, length), raw)?);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_end(
    handle: *mut Handle,
    affected: u64,
    in_transaction: bool,
    failure: *mut Failure,
) -> bool {
    // SAFETY: as the header says.
    unsafe {
        with(handle, failure, |encoder| {
            encoder.end(affected, in_transaction);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_encoder_free(handle: *mut Handle) {
    if handle.is_null() {
        return;
    }
    // SAFETY: it was given by hypostyle_encoder_open, and is not used again.
    let handle = unsafe { Box::from_raw(handle) };
    // What panics while it is freed is left behind.
    let _left_behind = catch_unwind(AssertUnwindSafe(move || drop(handle)));
}
