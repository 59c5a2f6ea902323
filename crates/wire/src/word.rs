//! Integers of 1, 2, 4 and 8 bytes as bit patterns, and their packing (protocol.md §11.2).
//!
//! Widths are only known when a chunk comes; the packing wants them when it is compiled. A `match` with an
//! arm for each width stands between the two, and with it everything is safe.

use crate::values::Values;
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use fastlanes::BitPacking;
use std::hash::Hash;

/// Elements that are packed together.
pub(crate) const BLOCK: usize = 1024;

// Values go out as they lie in memory.
const _: () =
    assert!(cfg!(target_endian = "little"), "the protocol is little endian, and so must the machine be");

pub(crate) trait Word: ArrowNativeType + BitPacking + Ord + Hash {
    const BYTES: usize;
    /// The bit that is the sign of signed integers.
    const SIGN: Self;

    fn from_u64(number: u64) -> Self;
    fn pattern(self) -> u64;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Bits that are needed.
    fn width(self) -> usize;
    fn pack_block(width: usize, block: &[Self; BLOCK], packed: &mut [Self]);
    fn unpack_block(width: usize, packed: &[Self], block: &mut [Self; BLOCK]);
    fn from_bytes(bytes: &[u8]) -> Self;
    /// The words of a column that has some of this width.
    fn words_of(values: &Values) -> Option<&Vec<Self>>;

    /// Words of a block with this width.
    fn packed_words(width: usize) -> usize {
        width * BLOCK / (8 * Self::BYTES)
    }

    /// The pattern as the `i64` that the head has.
    fn extended(self, signed: bool) -> i64 {
        let number = self.pattern();
        if signed && self >= Self::SIGN {
            let unused = 64 - 8 * Self::BYTES;
            ((number << unused) as i64) >> unused
        } else {
            number as i64
        }
    }
}

macro_rules! word {
    ($type:ty, $bytes:literal, $variant:ident: $($width:literal)*) => {
        impl Word for $type {
            const BYTES: usize = $bytes;
            const SIGN: Self = 1 << (8 * $bytes - 1);

            #[allow(clippy::cast_possible_truncation, reason = "the number is of a word of this width")]
            fn from_u64(number: u64) -> Self {
                number as Self
            }

            fn pattern(self) -> u64 {
                u64::from(self)
            }

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn width(self) -> usize {
                (Self::BITS - self.leading_zeros()) as usize
            }

            fn pack_block(width: usize, block: &[Self; BLOCK], packed: &mut [Self]) {
                match width {
                    0 => {}
                    $($width => {
                        let packed = packed.try_into().expect("the words of a block");
                        Self::pack::<$width, { $width * BLOCK / (8 * $bytes) }>(block, packed);
                    })*
                    _ => unreachable!("a width is at most that of the type"),
                }
            }

            fn unpack_block(width: usize, packed: &[Self], block: &mut [Self; BLOCK]) {
                match width {
                    0 => block.fill(0),
                    $($width => {
                        let packed = packed.try_into().expect("the words of a block");
                        Self::unpack::<$width, { $width * BLOCK / (8 * $bytes) }>(packed, block);
                    })*
                    _ => unreachable!("a width is at most that of the type"),
                }
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the bytes of a word"))
            }

            fn words_of(values: &Values) -> Option<&Vec<Self>> {
                match values {
                    Values::$variant(words) => Some(words),
                    _ => None,
                }
            }
        }
    };
}

word!(u8, 1, One: 1 2 3 4 5 6 7 8);
word!(u16, 2, Two: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
word!(u32, 4, Four: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
word!(u64, 8, Eight: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);

/// A buffer's words: the buffer itself where it is aligned, else a copy.
pub(crate) fn words<T: Word>(buffer: Buffer) -> ScalarBuffer<T> {
    let length = buffer.len() / T::BYTES;
    if buffer.as_ptr().align_offset(T::BYTES) == 0 {
        return ScalarBuffer::new(buffer, 0, length);
    }
    buffer.chunks_exact(T::BYTES).map(T::from_bytes).collect::<Vec<T>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastlanes::FL_ORDER;

    /// The order as protocol.md §11.2 tells it.
    fn packed_by_the_book<T: Word>(width: usize, block: &[T; BLOCK]) -> Vec<T> {
        let bits = 8 * T::BYTES;
        let lanes = BLOCK / bits;
        let mut packed = vec![0u64; T::packed_words(width)];
        for lane in 0..lanes {
            for row in 0..bits {
                let element = block[FL_ORDER[row / 8] * 16 + (row % 8) * 128 + lane].pattern();
                for bit in 0..width {
                    let at = row * width + bit;
                    packed[at / bits * lanes + lane] |= (element >> bit & 1) << (at % bits);
                }
            }
        }
        packed.into_iter().map(T::from_u64).collect()
    }

    fn check<T: Word>() {
        for width in 0..=8 * T::BYTES {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let block: [T; BLOCK] = std::array::from_fn(|index| {
                T::from_u64((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
            });
            let mut packed = vec![T::from_u64(0); T::packed_words(width)];
            T::pack_block(width, &block, &mut packed);
            assert_eq!(packed, packed_by_the_book(width, &block), "width {width}");
            let mut unpacked = [T::from_u64(7); BLOCK];
            T::unpack_block(width, &packed, &mut unpacked);
            assert_eq!(unpacked, block, "width {width}");
        }
    }

    #[test]
    fn packing_is_that_of_the_specification() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }

    #[test]
    fn words_of_buffers_that_are_not_aligned_are_copied() {
        let buffer = Buffer::from(vec![9u8, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(words::<u32>(buffer.slice(1)).as_ref(), [1, 2]);
    }

    #[test]
    fn signs_are_kept() {
        assert_eq!(0xffu8.extended(true), -1);
        assert_eq!(0xffu8.extended(false), 255);
        assert_eq!(u32::from_u64((-5i64) as u64).extended(true), -5);
        assert_eq!(u64::MAX.extended(true), -1);
    }
}
