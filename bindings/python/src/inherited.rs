//! What a child of `fork()` inherits. Its threads, locks and sockets are the parent's, so the child
//! neither uses nor ends it.

use hypostyle::{Error, ErrorKind};
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A value of the process that made it. In a child of that process it stays as it is for ever.
pub struct Owned<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Owned<T> {
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: std::process::id() }
    }

    pub fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// # Errors
    /// `Closed` in a child of `fork()`.
    pub fn check(&self) -> Result<(), Error> {
        match self.is_inherited() {
            true => Err(Error::new(
                ErrorKind::Closed,
                "the database was opened before fork(); open it again in the child process",
            )),
            false => Ok(()),
        }
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.is_inherited() {
            // SAFETY: the value is dropped once, here, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
