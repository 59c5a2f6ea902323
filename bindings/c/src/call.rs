//! The way of a call: it gives a status, fills the slot for an error, and lets no panic through.

use crate::failure::{Failure, status};
use crate::handle::{Handle, Kind};
use crate::layout::Sized32;
use crate::text::misuse;
use hypostyle::Result;

/// The slot for an error.
pub type Slot = *mut *mut Handle<Failure>;

/// Runs a call.
///
/// # Safety
/// `slot` is NULL or a place for an error.
pub unsafe fn call(slot: Slot, work: impl FnOnce() -> Result<()>) -> i32 {
    let done = hypostyle::caught(work);
    let (code, error) = match done {
        Ok(()) => (0, std::ptr::null_mut()),
        Err(error) => (status(&error), Handle::give(Failure::new(error))),
    };
    match slot.is_null() {
        // SAFETY: the caller promises that it is a place, at whatever address.
        false => unsafe { slot.write_unaligned(error) },
        true => {
            let mut error = error;
            // SAFETY: it is NULL, or was made above.
            unsafe { Handle::free(&raw mut error) };
        }
    }
    code
}

/// Answers a question that has no errors; a panic gives the default.
pub fn answer<T>(default: T, work: impl FnOnce() -> Option<T>) -> T {
    hypostyle::caught(|| Ok(work())).ok().flatten().unwrap_or(default)
}

/// Gives a value to the caller.
///
/// # Safety
/// `out` is NULL or a place for a value.
pub unsafe fn give<T>(out: *mut T, value: T, what: &str) -> Result<()> {
    check_place(out, what)?;
    // SAFETY: the caller promises that it is a place; it need not be initialized.
    unsafe { out.write(value) };
    Ok(())
}

/// Checks that there is a place for a value before work is done for it.
pub fn check_place<T>(out: *const T, what: &str) -> Result<()> {
    match out.is_null() {
        true => Err(misuse(format!("the place for {what} is NULL"))),
        false if !out.is_aligned() => Err(misuse(format!("the place for {what} has no address of its type"))),
        false => Ok(()),
    }
}

/// Gives a handle to the caller.
///
/// # Safety
/// `out` is NULL or a place for a handle.
pub unsafe fn give_handle<T: Kind>(out: *mut *mut Handle<T>, value: T) -> Result<()> {
    check_place(out, T::NAME)?;
    // SAFETY: it is a place.
    unsafe { out.write(Handle::give(value)) };
    Ok(())
}

/// Checks that a struct of the caller's is as large as it has to be.
///
/// # Safety
/// `pointer` is NULL or points to a struct whose size is set.
pub unsafe fn check_struct<T: Sized32>(pointer: *const T) -> Result<()> {
    if pointer.is_null() {
        return Err(misuse(format!("the {} is NULL", T::NAME)));
    }
    if !pointer.is_aligned() {
        return Err(misuse(format!("the {} has no address of its type", T::NAME)));
    }
    // SAFETY: the caller promises it, and the size is what all of them begin with.
    let size = unsafe { pointer.cast::<u32>().read() };
    match size as usize >= size_of::<T>() {
        true => Ok(()),
        false => Err(misuse(format!(
            "the size of the {name} is {size}; set it to sizeof({name}), which is {}",
            size_of::<T>(),
            name = T::NAME
        ))),
    }
}

/// Reads a struct of the caller's.
///
/// # Safety
/// `pointer` is NULL or points to a struct whose size is set.
pub unsafe fn read_struct<T: Sized32>(pointer: *const T) -> Result<T> {
    // SAFETY: the caller promises this, and its size was checked.
    unsafe { check_struct(pointer).map(|()| pointer.read()) }
}

/// Writes a struct of the caller's, except for its size.
///
/// # Safety
/// `pointer` is NULL or points to a struct whose size is set.
pub unsafe fn write_struct<T: Sized32>(pointer: *mut T, value: T) -> Result<()> {
    // SAFETY: the caller promises this; the size is read and written back.
    unsafe {
        check_struct(pointer)?;
        let size = pointer.cast::<u32>().read();
        pointer.write(value);
        pointer.cast::<u32>().write(size);
    }
    Ok(())
}
