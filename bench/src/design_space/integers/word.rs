//! Integers of 4 and 8 bytes as bit patterns. Arithmetic is modulo their width.

use std::ops::{BitOr, BitOrAssign, BitXor, Shl, Shr};

use arrow::datatypes::{ArrowNativeType, ToByteSlice};

use super::super::Result;

pub trait Word:
    ArrowNativeType
    + Ord
    + BitOr<Output = Self>
    + BitOrAssign
    + BitXor<Output = Self>
    + Shl<usize, Output = Self>
    + Shr<usize, Output = Self>
{
    const BITS: usize;
    const BYTES: usize = Self::BITS / 8;
    const ZERO: Self;

    fn to_u64(self) -> u64;
    /// Converts a number; only the lowest bits count.
    fn from_u64(number: u64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn put(self, out: &mut Vec<u8>);
    fn of(bytes: &[u8]) -> Self;

    /// Returns the number of bits that are needed.
    fn width(self) -> usize;

    /// Returns a number that is small for numbers near 0 on either side.
    fn zigzag(self) -> Self;
    fn undo_zigzag(self) -> Self;

    /// Returns a pattern in the order of the signed integers. Applying it twice gives the original.
    fn ordered(self) -> Self {
        self ^ (Self::from_u64(1) << (Self::BITS - 1))
    }
}

macro_rules! word {
    ($word:ty, $signed:ty) => {
        impl Word for $word {
            const BITS: usize = <$word>::BITS as usize;
            const ZERO: Self = 0;

            fn to_u64(self) -> u64 {
                u64::from(self)
            }

            fn from_u64(number: u64) -> Self {
                number as Self
            }

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn of(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as a word has"))
            }

            fn width(self) -> usize {
                (<$word>::BITS - self.leading_zeros()) as usize
            }

            fn zigzag(self) -> Self {
                let signed = self as $signed;
                ((signed << 1) ^ (signed >> (<$word>::BITS - 1))) as $word
            }

            fn undo_zigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }
        }
    };
}

word!(u32, i32);
word!(u64, i64);

/// Writes words as they lie in memory. The machine is little endian, as `hypostyle-wire` requires.
pub fn put_many<T: Word>(values: &[T], out: &mut Vec<u8>) {
    out.extend_from_slice(values.to_byte_slice());
}

/// Takes bytes off the front of the rest.
pub fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(count).ok_or("integers are cut")?;
    *rest = behind;
    Ok(taken)
}

pub fn take_one<T: Word>(rest: &mut &[u8]) -> Result<T> {
    take(rest, T::BYTES).map(T::of)
}

pub fn take_many<T: Word>(rest: &mut &[u8], count: usize, values: &mut Vec<T>) -> Result<()> {
    values.extend(take(rest, count * T::BYTES)?.chunks_exact(T::BYTES).map(T::of));
    Ok(())
}

pub fn take_byte(rest: &mut &[u8]) -> Result<u8> {
    take(rest, 1).map(|bytes| bytes[0])
}
