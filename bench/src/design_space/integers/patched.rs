//! PFOR (Zukowski, Héman, Nes & Boncz, ICDE 2006), as far as it matters here: a frame of reference
//! whose width is that of most integers. Wider integers are stored behind the block, with their
//! positions.

use super::super::Result;
use super::blocks::base_of;
use super::packing::{BLOCK, fill, pack, unpack};
use super::word::{Word, take, take_byte, take_one};

/// The bytes of a position among the exceptions.
const POSITION_BYTES: usize = size_of::<u16>();

pub fn write<T: Word>(values: &[T], out: &mut Vec<u8>) {
    let mut block = [T::ZERO; BLOCK];
    for values in values.chunks(BLOCK) {
        let base = base_of(values);
        fill(values.iter().map(|value| value.minus(base)), &mut block);
        let width = best_width(&block);
        let exceptions: Vec<(u16, T)> = block
            .iter_mut()
            .enumerate()
            .filter(|(_, value)| value.width() > width)
            .map(|(position, value)| (position as u16, std::mem::replace(value, T::ZERO)))
            .collect();
        base.put(out);
        out.push(width as u8);
        out.extend_from_slice(&(exceptions.len() as u16).to_le_bytes());
        pack(&block, width, out);
        for (position, value) in exceptions {
            out.extend_from_slice(&position.to_le_bytes());
            value.put(out);
        }
    }
}

/// Returns the width that makes packed bits and exceptions smallest together.
fn best_width<T: Word>(block: &[T; BLOCK]) -> usize {
    let mut by_width = [0usize; 65];
    block.iter().for_each(|value| by_width[value.width()] += 1);
    let mut wider = BLOCK;
    let bytes = (0..=T::BITS).map(|width| {
        wider -= by_width[width];
        (width * BLOCK / 8 + wider * (POSITION_BYTES + T::BYTES), width)
    });
    bytes.min().map_or(T::BITS, |(_, width)| width)
}

pub fn read<T: Word>(rest: &mut &[u8], count: usize, values: &mut Vec<T>) -> Result<()> {
    let mut block = [T::ZERO; BLOCK];
    for start in (0..count).step_by(BLOCK) {
        let length = BLOCK.min(count - start);
        let base: T = take_one(rest)?;
        let width = usize::from(take_byte(rest)?);
        let exceptions = read_u16(rest)?;
        unpack(rest, width, &mut block)?;
        for _ in 0..exceptions {
            let position = usize::from(read_u16(rest)?);
            let slot = block.get_mut(position).ok_or("an exception is not of its block")?;
            *slot = take_one(rest)?;
        }
        values.extend(block[..length].iter().map(|value| value.plus(base)));
    }
    Ok(())
}

fn read_u16(rest: &mut &[u8]) -> Result<u16> {
    let bytes = take(rest, POSITION_BYTES)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}
