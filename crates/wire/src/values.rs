//! The values of a column that is being put together, as plain as their type lets them be.

use arrow_array::ArrayRef;

/// Values of one width, strings, or arrays of anything else.
#[derive(Debug)]
pub(crate) enum Values {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
    Text { offsets: Vec<i64>, bytes: Vec<u8> },
    Pieces(Vec<ArrayRef>),
}

impl Values {
    /// Bytes that an element takes beside those of its string.
    pub fn width(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
            Self::Four(_) => 4,
            _ => 8,
        }
    }
}
