//! The arrays of an index, whose bytes may come from a file.

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

/// Takes the numbers of an array of an index.
///
/// # Errors
/// `Corrupt` when the bytes are no whole numbers, or do not lie as numbers do.
pub(crate) fn typed<T: ArrowNativeType>(array: &Buffer) -> Result<ScalarBuffer<T>> {
    let width = size_of::<T>();
    let is_aligned = array.is_empty() || array.as_ptr().addr().is_multiple_of(align_of::<T>());
    if !array.len().is_multiple_of(width) || !is_aligned {
        return Err(Error::corrupt("an array of an index is no array"));
    }
    match array.is_empty() {
        true => Ok(Vec::new().into()),
        false => Ok(ScalarBuffer::new(array.clone(), 0, array.len() / width)),
    }
}
