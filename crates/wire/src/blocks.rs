//! Frame of reference and delta: blocks of 1024 packed elements (protocol.md §11.2, encodings 2 and 3).
//!
//! Bases are what a block's elements, or their differences, are at least; all blocks share one scale, the
//! common divisor of what is left. A scale divides exactly, so that dividing is a shift and a product.

use crate::source::Source;
use crate::word::{BLOCK, Word, words};
use arrow_buffer::Buffer;
use hypostyle_types::{Error, Result};

/// Elements that are looked at for a common divisor.
const SCALE_SAMPLE: usize = 64;

/// How the elements of an array are packed.
pub(crate) struct Blocks<T> {
    bases: Vec<T>,
    widths: Vec<u8>,
    /// The value before the first element of each block; only of a delta.
    starts: Option<Vec<T>>,
    scale: Divisor<T>,
}

/// Divides what it divides without a rest.
#[derive(Clone, Copy)]
struct Divisor<T> {
    scale: T,
    shift: usize,
    /// The inverse of the odd part, modulo 2^bits.
    inverse: T,
}

impl<T: Word> Divisor<T> {
    fn new(scale: T) -> Self {
        let shift = scale.trailing_zeros() as usize;
        let odd = scale >> shift;
        // Newton's step doubles the bits that are right; an odd number is its own inverse in three.
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.times(T::from_u64(2).minus(odd.times(inverse)));
        }
        Self { scale, shift, inverse }
    }

    fn divide(self, number: T) -> T {
        (number >> self.shift).times(self.inverse)
    }

    /// Whether all `values` differ from the first by multiples.
    fn divides_all(self, values: &[T]) -> bool {
        let first = values[0];
        let limit = T::from_u64((u64::MAX >> (64 - 8 * T::BYTES)) / (self.scale >> self.shift).pattern());
        let low = (T::from_u64(1) << self.shift).minus(T::from_u64(1));
        let (mut rest, mut most) = (T::from_u64(0), T::from_u64(0));
        for value in values {
            let (up, down) = (value.minus(first), first.minus(*value));
            let difference = up.min(down);
            rest = rest | (difference & low);
            most = most.max(self.divide(difference));
        }
        rest == T::from_u64(0) && most <= limit
    }
}

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The greatest number that divides the distances of all elements.
fn find_scale<T: Word>(values: &[T], sign: T) -> Divisor<T> {
    let one = Divisor::new(T::from_u64(1));
    let step = (values.len() / SCALE_SAMPLE).max(1);
    let first = values[0] ^ sign;
    let mut found = 0;
    for value in values.iter().step_by(step) {
        let value = *value ^ sign;
        found = common_divisor(found, value.max(first).minus(value.min(first)).pattern());
        if found == 1 {
            return one;
        }
    }
    // Half of the numbers would not be told apart from negative ones.
    if found <= 1 || T::from_u64(found) >= T::SIGN {
        return one;
    }
    let divisor = Divisor::new(T::from_u64(found));
    if divisor.divides_all(values) { divisor } else { one }
}

/// The least and the greatest, in the order of `sign`.
pub(crate) fn bounds<T: Word>(values: impl Iterator<Item = T>, sign: T) -> (T, T) {
    let least = T::from_u64(0).minus(T::from_u64(1));
    let (low, high) = values.fold((least, T::from_u64(0)), |(low, high), value| {
        let value = value ^ sign;
        (low.min(value), high.max(value))
    });
    (low ^ sign, high ^ sign)
}

#[expect(clippy::cast_possible_truncation, reason = "no width is above 64")]
fn round(width: usize, rounded: bool) -> u8 {
    (match (width, rounded) {
        (0, _) | (_, false) => width,
        (_, true) => width.next_power_of_two().max(8),
    }) as u8
}

impl<T: Word> Blocks<T> {
    /// Returns the blocks of the elements. `sign` is that of signed types, else 0.
    pub fn of_values(values: &[T], sign: T, rounded: bool) -> Self {
        let scale = find_scale(values, sign);
        let (bases, widths) = values
            .chunks(BLOCK)
            .map(|block| {
                let (low, high) = bounds(block.iter().copied(), sign);
                (low, round(scale.divide(high.minus(low)).width(), rounded))
            })
            .unzip();
        Self { bases, widths, starts: None, scale }
    }

    /// Returns the blocks of the elements' differences.
    pub fn of_differences(values: &[T], rounded: bool) -> Self {
        let ((bases, widths), starts) = values
            .chunks(BLOCK)
            .map(|block| {
                let differences = block.iter().zip(&block[1..]).map(|(before, after)| after.minus(*before));
                let (low, high) = bounds(differences, T::SIGN);
                let (low, range) =
                    if block.len() > 1 { (low, high.minus(low)) } else { (T::from_u64(0), T::from_u64(0)) };
                ((low, round(range.width(), rounded)), block[0].minus(low))
            })
            .unzip();
        Self { bases, widths, starts: Some(starts), scale: Divisor::new(T::from_u64(1)) }
    }

    pub fn scale(&self) -> i64 {
        self.scale.scale.pattern() as i64
    }

    pub fn is_delta(&self) -> bool {
        self.starts.is_some()
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> usize {
        let packed: usize = self.widths.iter().map(|width| usize::from(*width) * BLOCK / 8).sum();
        header_bytes(self.bases.len(), self.is_delta()) + packed
    }

    /// Bits of an element, on the average.
    pub fn width(&self) -> usize {
        let sum: usize = self.widths.iter().map(|width| usize::from(*width)).sum();
        sum.div_ceil(self.widths.len().max(1))
    }

    /// The buffer.
    pub fn pack(&self, values: &[T], signed: bool) -> Buffer {
        let mut header = Vec::with_capacity(header_bytes(self.bases.len(), self.is_delta()));
        for base in &self.bases {
            // A difference is signed, whatever its elements are.
            header.extend_from_slice(&base.extended(signed || self.is_delta()).to_le_bytes());
        }
        for start in self.starts.iter().flatten() {
            header.extend_from_slice(&start.extended(signed).to_le_bytes());
        }
        header.extend_from_slice(&self.widths);
        header.resize(header.len().next_multiple_of(8), 0);
        let mut packed: Vec<T> = Vec::with_capacity(self.bytes() / T::BYTES);
        packed.extend(header.chunks_exact(T::BYTES).map(T::from_bytes));
        let mut scratch = [T::from_u64(0); BLOCK];
        for (index, block) in values.chunks(BLOCK).enumerate() {
            let width = usize::from(self.widths[index]);
            if width == 0 {
                continue;
            }
            self.reduce(index, block, &mut scratch);
            let start = packed.len();
            packed.resize(start + T::packed_words(width), T::from_u64(0));
            T::pack_block(width, &scratch, &mut packed[start..]);
        }
        packed.into()
    }

    /// What is packed of a block.
    fn reduce(&self, index: usize, block: &[T], reduced: &mut [T; BLOCK]) {
        let base = self.bases[index];
        if self.is_delta() {
            reduced[0] = T::from_u64(0);
            for (reduced, pair) in reduced[1..].iter_mut().zip(block.windows(2)) {
                *reduced = pair[1].minus(pair[0]).minus(base);
            }
        } else if self.scale.scale == T::from_u64(1) {
            reduced.iter_mut().zip(block).for_each(|(reduced, value)| *reduced = value.minus(base));
        } else {
            let scale = self.scale;
            reduced
                .iter_mut()
                .zip(block)
                .for_each(|(reduced, value)| *reduced = scale.divide(value.minus(base)));
        }
        reduced[block.len()..].fill(T::from_u64(0));
    }
}

fn header_bytes(blocks: usize, delta: bool) -> usize {
    blocks * if delta { 16 } else { 8 } + blocks.next_multiple_of(8)
}

/// Appends `count` elements to `out`.
pub(crate) fn decode_blocks<T: Word>(
    source: &mut Source<'_>,
    delta: bool,
    count: usize,
    out: &mut Vec<T>,
) -> Result<()> {
    let scale = source.head().i64()?;
    if scale < 1 {
        return Err(Error::protocol(format!("{scale} cannot be a scale")));
    }
    let scale = T::from_u64(scale as u64);
    let blocks = count.div_ceil(BLOCK);
    let header = header_bytes(blocks, delta);
    let buffer = source.buffer_within(header + blocks * BLOCK * T::BYTES)?;
    let cut = || Error::protocol("a buffer of blocks is shorter or longer than its widths say");
    if buffer.len() < header {
        return Err(cut());
    }
    let number = |index: usize| T::from_u64(u64::from_bytes(&buffer[index * 8..index * 8 + 8]));
    let widths = &buffer[if delta { blocks * 16 } else { blocks * 8 }..][..blocks];
    let packed_words = widths.iter().try_fold(0, |sum, width| match usize::from(*width) {
        width if width > 8 * T::BYTES => Err(Error::protocol(format!("{width} bits of {} bytes", T::BYTES))),
        width => Ok(sum + T::packed_words(width)),
    })?;
    if buffer.len() != header + packed_words * T::BYTES {
        return Err(cut());
    }
    let packed = words::<T>(buffer.slice(header));
    let mut packed: &[T] = &packed;
    let mut scratch = [T::from_u64(0); BLOCK];
    out.reserve(count);
    for (block, width) in widths.iter().enumerate() {
        let (here, rest) = packed.split_at(T::packed_words(usize::from(*width)));
        packed = rest;
        T::unpack_block(usize::from(*width), here, &mut scratch);
        let base = number(block);
        let scratch = &scratch[..(count - block * BLOCK).min(BLOCK)];
        if delta {
            let mut sum = number(blocks + block);
            out.extend(scratch.iter().map(|value| {
                sum = sum.plus(base).plus(value.times(scale));
                sum
            }));
        } else if scale == T::from_u64(1) {
            out.extend(scratch.iter().map(|value| value.plus(base)));
        } else {
            out.extend(scratch.iter().map(|value| value.times(scale).plus(base)));
        }
    }
    Ok(())
}
