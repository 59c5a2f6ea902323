//! Bit packing of 1024 integers in lanes, a layout that the compiler turns into vector
//! instructions. Neighbours lie in neighbouring words, as in FastLanes, but without its order of
//! rows.

use super::super::Result;
use super::word::{Word, put_many, take};

pub const BLOCK: usize = 1024;

/// Packs the lowest `width` bits of each integer; no other bits are set.
pub fn pack<T: Word>(block: &[T; BLOCK], width: usize, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let lanes = BLOCK / T::BITS;
    let mut words = [T::ZERO; BLOCK];
    for (row, values) in block.chunks_exact(lanes).enumerate() {
        let (word, shift) = (row * width / T::BITS * lanes, row * width % T::BITS);
        let low = &mut words[word..word + lanes];
        low.iter_mut().zip(values).for_each(|(word, value)| *word |= *value << shift);
        if shift + width > T::BITS {
            let high = &mut words[word + lanes..word + 2 * lanes];
            high.iter_mut().zip(values).for_each(|(word, value)| *word |= *value >> (T::BITS - shift));
        }
    }
    put_many(&words[..width * lanes], out);
}

pub fn unpack<T: Word>(rest: &mut &[u8], width: usize, block: &mut [T; BLOCK]) -> Result<()> {
    if width > T::BITS {
        return Err(format!("{width} bits of {}", T::BITS).into());
    }
    if width == 0 {
        block.fill(T::ZERO);
        return Ok(());
    }
    let lanes = BLOCK / T::BITS;
    let packed = take(rest, width * BLOCK / 8)?;
    let mut words = [T::ZERO; BLOCK];
    words.iter_mut().zip(packed.chunks_exact(T::BYTES)).for_each(|(word, bytes)| *word = T::of(bytes));
    for (row, values) in block.chunks_exact_mut(lanes).enumerate() {
        let (word, shift) = (row * width / T::BITS * lanes, row * width % T::BITS);
        // Bits above the width are shifted out.
        let unused = T::BITS - width;
        let low = &words[word..word + lanes];
        if shift + width <= T::BITS {
            let left = unused - shift;
            values.iter_mut().zip(low).for_each(|(value, low)| *value = (*low << left) >> unused);
        } else {
            let high = &words[word + lanes..word + 2 * lanes];
            let (right, left) = (shift, T::BITS - shift);
            values.iter_mut().zip(low.iter().zip(high)).for_each(|(value, (low, high))| {
                *value = (((*low >> right) | (*high << left)) << unused) >> unused
            });
        }
    }
    Ok(())
}

/// Fills a block with up to 1024 integers, and with zeros behind them.
pub fn fill<T: Word>(values: impl Iterator<Item = T>, block: &mut [T; BLOCK]) {
    let mut filled = 0;
    for (slot, value) in block.iter_mut().zip(values) {
        *slot = value;
        filled += 1;
    }
    block[filled..].fill(T::ZERO);
}

/// Returns the number of bits that the widest integer needs.
pub fn width_of<T: Word>(block: &[T]) -> usize {
    block.iter().fold(T::ZERO, |all, value| all | *value).width()
}
