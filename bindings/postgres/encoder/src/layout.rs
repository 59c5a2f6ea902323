//! The structs that C knows, too (`include/hypostyle_encoder.h`).

use hypostyle_types::Error;
use std::ffi::c_char;

/// The bytes of an error's message, with the zero that ends it.
const MESSAGE_BYTES: usize = 512;

/// A field of a result: a column, or what is within its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Field {
    /// The name in UTF-8.
    pub name: *const c_char,
    pub name_length: usize,
    /// The names of an enumeration's values in their order, each ended by a zero.
    pub labels: *const *const c_char,
    pub label_count: u32,
    /// How many of the fields that follow are directly within this one.
    pub members: u32,
    /// The number of the type in docs/protocol.md §9.
    pub kind: u8,
    /// The digits of a DECIMAL.
    pub precision: u8,
    pub scale: u8,
}

/// How a result is sent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    /// The name of a codec, ended by a zero; or NULL for one that is chosen by measurement.
    pub codec: *const c_char,
    /// What the receiver can undo, as `Hello.codecs`.
    pub codecs: u32,
    /// Bytes of a chunk before compression; 0 leaves it to this library.
    pub chunk_bytes: u32,
    /// The longest body of a frame that the receiver accepts.
    pub frame_bytes: u32,
    /// Whether the receiver is on this machine.
    pub is_local: bool,
}

/// When a chunk is full.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// Bytes of a row without those of texts and of the elements of lists.
    pub row_bytes: usize,
    pub rows: usize,
    pub bytes: usize,
}

/// The buffers of a field's values. The C half writes behind what is there and counts it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// The elements that are there, and those that have room.
    pub length: usize,
    pub capacity: usize,
    /// How many of them are NULL.
    pub nulls: usize,
    /// Values of a fixed width (of a BOOLEAN one byte); of texts and lists `i64` ends, behind a first 0.
    pub values: *mut u8,
    /// A bit for each element, least significant first; all are 1, and a NULL's is to be cleared.
    pub validity: *mut u8,
    /// The bytes of all texts.
    pub bytes: *mut u8,
    pub bytes_length: usize,
    pub bytes_capacity: usize,
    /// The bytes of a value; 0 of a struct.
    pub width: usize,
}

/// What went wrong, if anything did.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Failure {
    pub sqlstate: [c_char; 6],
    pub message: [c_char; MESSAGE_BYTES],
}

impl Failure {
    /// Returns the error as C reads it; a message that is too long is cut between two characters.
    pub fn new(error: &Error) -> Self {
        let mut failure = Self { sqlstate: [0; 6], message: [0; MESSAGE_BYTES] };
        put(&mut failure.sqlstate, error.sqlstate());
        put(&mut failure.message, error.message());
        failure
    }
}

/// Writes a text that a zero ends.
#[expect(clippy::cast_possible_wrap, reason = "characters of C have a sign on some machines")]
fn put(to: &mut [c_char], text: &str) {
    let end = text.floor_char_boundary(to.len() - 1);
    for (to, byte) in to.iter_mut().zip(text[..end].bytes()) {
        *to = byte as c_char;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Failure::new(&Error::invalid_input("é".repeat(400)));
        // SAFETY: a zero ends both texts.
        let (state, message) =
            unsafe { (CStr::from_ptr(failure.sqlstate.as_ptr()), CStr::from_ptr(failure.message.as_ptr())) };
        assert_eq!(state.to_str().unwrap(), "22000");
        assert_eq!(message.to_str().unwrap(), "é".repeat(255));
    }
}
