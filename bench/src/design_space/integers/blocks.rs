//! Bit packing, frame of reference and delta. Each block has its width, its base, and its packed
//! bits.

use super::super::Result;
use super::packing::{BLOCK, fill, pack, unpack, width_of};
use super::word::{Word, take_byte, take_one};

fn write_block<T: Word>(block: &[T; BLOCK], out: &mut Vec<u8>) {
    let width = width_of(block);
    out.push(width as u8);
    pack(block, width, out);
}

fn read_block<T: Word>(rest: &mut &[u8], block: &mut [T; BLOCK]) -> Result<()> {
    let width = usize::from(take_byte(rest)?);
    unpack(rest, width, block)
}

/// Returns the number of integers of each block.
fn lengths(count: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(BLOCK).map(move |start| BLOCK.min(count - start))
}

/// Returns the smallest value, as signed integers.
pub fn base_of<T: Word>(values: &[T]) -> T {
    values.iter().map(|value| value.ordered()).min().map_or(T::ZERO, T::ordered)
}

pub fn write_packed<T: Word>(values: &[T], out: &mut Vec<u8>) {
    let mut block = [T::ZERO; BLOCK];
    for values in values.chunks(BLOCK) {
        fill(values.iter().copied(), &mut block);
        write_block(&block, out);
    }
}

pub fn read_packed<T: Word>(rest: &mut &[u8], count: usize, values: &mut Vec<T>) -> Result<()> {
    let mut block = [T::ZERO; BLOCK];
    for length in lengths(count) {
        read_block(rest, &mut block)?;
        values.extend_from_slice(&block[..length]);
    }
    Ok(())
}

pub fn write_reference<T: Word>(values: &[T], out: &mut Vec<u8>) {
    let mut block = [T::ZERO; BLOCK];
    for values in values.chunks(BLOCK) {
        let base = base_of(values);
        base.put(out);
        fill(values.iter().map(|value| value.minus(base)), &mut block);
        write_block(&block, out);
    }
}

pub fn read_reference<T: Word>(rest: &mut &[u8], count: usize, values: &mut Vec<T>) -> Result<()> {
    let mut block = [T::ZERO; BLOCK];
    for length in lengths(count) {
        let base: T = take_one(rest)?;
        read_block(rest, &mut block)?;
        values.extend(block[..length].iter().map(|value| value.plus(base)));
    }
    Ok(())
}

/// Writes differences. The first difference of a column is that to 0.
pub fn write_delta<T: Word>(values: &[T], out: &mut Vec<u8>) {
    let mut block = [T::ZERO; BLOCK];
    let mut before = T::ZERO;
    for values in values.chunks(BLOCK) {
        let differences = values.iter().map(|value| {
            let difference = value.minus(before).zigzag();
            before = *value;
            difference
        });
        fill(differences, &mut block);
        write_block(&block, out);
    }
}

pub fn read_delta<T: Word>(rest: &mut &[u8], count: usize, values: &mut Vec<T>) -> Result<()> {
    let mut block = [T::ZERO; BLOCK];
    let mut before = T::ZERO;
    for length in lengths(count) {
        read_block(rest, &mut block)?;
        values.extend(block[..length].iter().map(|difference| {
            before = before.plus(difference.undo_zigzag());
            before
        }));
    }
    Ok(())
}
