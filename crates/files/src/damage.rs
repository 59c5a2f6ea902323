//! Files that are damaged: libraries that decode them may panic instead of saying so.

use hypostyle_types::{Error, Result};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Returns an error for a file that is not what its name or its reader says.
pub fn not_that_format(path: &Path, format: &str, error: &dyn Display) -> Error {
    Error::invalid_input(format!("\"{}\" is not a readable {format} file: {error}", path.display()))
}

/// Returns what is decoded of a file; an error where that panics.
///
/// # Errors
/// Those of `decode`; `InvalidInput` for a panic.
pub fn unless_damaged<T>(path: &Path, format: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(not_that_format(path, format, &"it is damaged")))
}
