//! The rows of a morsel that pass.
//!
//! A condition leaves a byte for each row, 1 where it is true. Bytes are combined without branches,
//! by vector instructions; only the outcome of all conditions becomes positions.

use crate::Rows;

/// The places of the set bits of a byte, ascending; zeros fill the rest.
const PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut found) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                places[byte][found] = bit as u8;
                found += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

/// Positions that a filter has let pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All positions from the first up to, and without, the second.
    Range(u32, u32),
    /// The positions of a list, in the order in which they came.
    List(Vec<u32>),
}

impl Selection {
    /// Returns the positions as kernels read them.
    pub fn rows(&self) -> Rows<'_> {
        match self {
            Selection::Range(start, end) => Rows::Range(*start, *end),
            Selection::List(positions) => Rows::List(positions),
        }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Rows<'_>> for Selection {
    fn from(rows: Rows<'_>) -> Self {
        match rows {
            Rows::Range(start, end) => Selection::Range(start, end),
            Rows::List(positions) => Selection::List(positions.to_vec()),
        }
    }
}

/// Returns how many bytes of a mask are 1.
pub fn count(mask: &[u8]) -> usize {
    // Sums of at most 255 bytes fit into a byte.
    mask.chunks(255).map(|part| usize::from(part.iter().sum::<u8>())).sum()
}

/// Returns the rows whose byte in a mask of zeros and ones is 1. A mask has a byte for each row.
pub fn select(mask: &[u8], rows: Rows<'_>) -> Selection {
    let ones = count(mask);
    match rows {
        _ if ones == rows.len() => rows.into(),
        Rows::Range(start, _) => Selection::List(positions(mask, ones, start)),
        Rows::List(list) => {
            // One slot more, because the last write may be that of a row which is not kept.
            let mut kept = vec![0; ones + 1];
            let mut next = 0;
            for (byte, position) in mask.iter().zip(list) {
                kept[next] = *position;
                next += *byte as usize;
            }
            kept.truncate(ones);
            Selection::List(kept)
        }
    }
}

/// Returns the places of the ones of a mask, counted from a start; eight rows at a time.
fn positions(mask: &[u8], ones: usize, start: u32) -> Vec<u32> {
    let mut listed = Listed::new(ones);
    let (eights, rest) = mask.as_chunks::<8>();
    for (group, bytes) in eights.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        // Moves the lowest bit of each byte into the highest byte.
        let bits = word.wrapping_mul(0x0102_0408_1020_4080) >> 56;
        listed.add(bits as u8, start + group as u32 * 8);
    }
    for (place, byte) in rest.iter().enumerate() {
        listed.add(*byte, start + (eights.len() * 8 + place) as u32);
    }
    listed.positions()
}

/// A list of positions that grows by eight rows at a time.
pub(crate) struct Listed {
    /// Room for eight more than there will be, because eight are written at a time.
    positions: Vec<u32>,
    len: usize,
}

impl Listed {
    /// Makes an empty list that will have so many positions.
    pub fn new(len: usize) -> Self {
        Self { positions: vec![0; len + 8], len: 0 }
    }

    /// Adds those of eight positions, from the first on, whose bit is set.
    #[inline]
    pub fn add(&mut self, bits: u8, first: u32) {
        if bits != 0 {
            let places = PLACES[bits as usize].map(|place| first + u32::from(place));
            self.positions[self.len..self.len + 8].copy_from_slice(&places);
            self.len += bits.count_ones() as usize;
        }
    }

    /// Returns the positions.
    pub fn positions(mut self) -> Vec<u32> {
        self.positions.truncate(self.len);
        self.positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masks_become_positions(mask in prop::collection::vec(0..2_u8, 0..700), start in 0..1_000_u32) {
            let end = start + mask.len() as u32;
            let passed: Vec<u32> = (start..end).zip(&mask).filter(|(_, byte)| **byte == 1).map(|(p, _)| p).collect();
            prop_assert_eq!(count(&mask), passed.len());
            let range = select(&mask, Rows::Range(start, end));
            prop_assert_eq!(range.rows().iter().collect::<Vec<_>>(), passed.clone());
            let list: Vec<u32> = (start..end).rev().collect();
            let reversed: Vec<u8> = mask.iter().rev().copied().collect();
            let kept = select(&reversed, Rows::List(&list));
            prop_assert_eq!(kept.rows().iter().collect::<Vec<_>>(), passed.into_iter().rev().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_passes_whole_stays_a_range() {
        assert_eq!(select(&[1; 9], Rows::Range(4, 13)), Selection::Range(4, 13));
        assert_eq!(select(&[], Rows::Range(4, 4)), Selection::Range(4, 4));
        assert_eq!(select(&[0; 3], Rows::Range(4, 7)), Selection::List(vec![]));
    }
}
