//! What C holds: boxes that know their kind and their process.

use crate::text::misuse;
use hypostyle::{Error, ErrorKind, Result};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A kind of handle.
pub trait Kind: Send + Sync {
    /// Tells a handle of this kind from other memory.
    const MAGIC: u64;
    /// Its name in messages.
    const NAME: &'static str;
}

/// A value that C holds. Its threads, locks and sockets are of the process that made it.
#[repr(C)]
pub struct Handle<T: Kind> {
    magic: u64,
    process: u32,
    value: ManuallyDrop<T>,
}

impl<T: Kind> Handle<T> {
    /// Gives a value to C.
    pub fn give(value: T) -> *mut Self {
        let handle = Self { magic: T::MAGIC, process: std::process::id(), value: ManuallyDrop::new(value) };
        Box::into_raw(Box::new(handle))
    }

    /// Returns a handle's value, whatever the process.
    ///
    /// # Errors
    /// `InvalidInput` (HY009) for NULL and for what is no such handle.
    ///
    /// # Safety
    /// `handle` is NULL or points to a handle that is not freed while the value is used.
    unsafe fn look<'a>(handle: *const Self) -> Result<&'a Self> {
        if handle.is_null() {
            return Err(misuse(format!("the {} is NULL", T::NAME)));
        }
        // SAFETY: the caller promises this; the number is looked at before anything else.
        let is_one = handle.is_aligned() && unsafe { (&raw const (*handle).magic).read() } == T::MAGIC;
        match is_one {
            // SAFETY: as above.
            true => Ok(unsafe { &*handle }),
            false => Err(misuse(format!("this is no {}, or it was freed", T::NAME))),
        }
    }

    /// Returns the value of a handle.
    ///
    /// # Errors
    /// Those of looking; `Closed` in a child of `fork()`.
    ///
    /// # Safety
    /// `handle` is NULL or points to a handle that is not freed while the value is used.
    pub unsafe fn get<'a>(handle: *const Self) -> Result<&'a T> {
        // SAFETY: the caller promises this.
        let handle = unsafe { Self::look(handle) }?;
        match handle.process == std::process::id() {
            true => Ok(&handle.value),
            false => Err(Error::new(
                ErrorKind::Closed,
                "the database was opened before fork(); open it again in the child process",
            )),
        }
    }

    /// Returns the value of a handle for reading what any process may read.
    ///
    /// # Safety
    /// As for [`Self::get`].
    pub unsafe fn peek<'a>(handle: *const Self) -> Option<&'a T> {
        // SAFETY: the caller promises this.
        unsafe { Self::look(handle) }.ok().map(|handle| &*handle.value)
    }

    /// Frees a handle and forgets it. In a child of `fork()` it stays as it is.
    ///
    /// # Safety
    /// `place` is NULL, or points to NULL or to a handle that nobody uses.
    pub unsafe fn free(place: *mut *mut Self) {
        if place.is_null() || !place.is_aligned() {
            return;
        }
        // SAFETY: the caller promises that it is a place.
        let handle = unsafe { place.replace(std::ptr::null_mut()) };
        // SAFETY: the caller promises this.
        let Ok(known) = (unsafe { Self::look(handle) }) else { return };
        if known.process != std::process::id() {
            return;
        }
        // A panic there is one of the database that nobody can receive.
        let _gone = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: `give` has made it, and nobody else has it.
            let mut handle = unsafe { Box::from_raw(handle) };
            handle.magic = 0;
            // SAFETY: the value is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut handle.value) };
        }));
    }
}
