//! Bitmaps over the positions of a table.

use crate::selection::Listed;
use crate::{Error, Result, Rows, Selection, selection};

/// A bit for each position of a table. Threads fill bitmaps of their own, which are then united.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Bits behind the last position are unset.
    words: Vec<u64>,
    rows: usize,
}

impl Bits {
    /// Makes a bitmap of unset bits: one bit of memory for each row.
    pub fn new(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], rows }
    }

    /// Returns the bytes that a bitmap over so many rows takes.
    pub fn bytes_for(rows: usize) -> usize {
        rows.div_ceil(64) * 8
    }

    /// Returns the number of positions.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns how many bits are set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the bit of a position is set; positions that the table does not have are
    /// unset, and so is [`NO_POSITION`](crate::NO_POSITION).
    #[inline]
    pub fn test(&self, position: u32) -> bool {
        self.words.get(position as usize / 64).is_some_and(|word| word >> (position % 64) & 1 != 0)
    }

    /// Returns for each word of 64 bits how many bits are set before it, of which [`Self::rank`] makes use.
    pub fn ranks(&self) -> Vec<u32> {
        let mut sum = 0;
        let before = |word: &u64| {
            let before = sum;
            sum += word.count_ones();
            before
        };
        self.words.iter().map(before).collect()
    }

    /// Returns how many bits are set before that of a position, which the table must have; `ranks` are
    /// those of this bitmap.
    #[inline]
    pub fn rank(&self, ranks: &[u32], position: u32) -> u32 {
        let word = position as usize / 64;
        ranks[word] + (self.words[word] & ((1 << (position % 64)) - 1)).count_ones()
    }

    /// Sets the bits of some positions, or fails before the first if the table lacks one of them.
    pub fn set(&mut self, rows: Rows<'_>) -> Result<()> {
        rows.check(self.rows)?;
        match rows {
            Rows::Range(start, end) if start < end => self.set_range(start as usize, end as usize),
            Rows::Range(..) => {}
            Rows::List(positions) => {
                for position in positions {
                    self.words[*position as usize / 64] |= 1 << (position % 64);
                }
            }
        }
        Ok(())
    }

    fn set_range(&mut self, start: usize, end: usize) {
        let (first, last) = (start / 64, (end - 1) / 64);
        let head = u64::MAX << (start % 64);
        let tail = u64::MAX >> (63 - (end - 1) % 64);
        if first == last {
            self.words[first] |= head & tail;
        } else {
            self.words[first] |= head;
            self.words[first + 1..last].fill(u64::MAX);
            self.words[last] |= tail;
        }
    }

    /// Unites with the bitmap of another thread.
    pub fn or(&mut self, other: &Self) -> Result<()> {
        self.combine(other, |one, other| one | other)
    }

    /// Keeps the bits that another bitmap has, too.
    pub fn and(&mut self, other: &Self) -> Result<()> {
        self.combine(other, |one, other| one & other)
    }

    /// Unsets the bits that another bitmap has.
    pub fn and_not(&mut self, other: &Self) -> Result<()> {
        self.combine(other, |one, other| one & !other)
    }

    /// Sets what was unset, and unsets what was set.
    pub fn not(&mut self) {
        for word in &mut self.words {
            *word = !*word;
        }
        if let Some(last) = self.words.last_mut()
            && !self.rows.is_multiple_of(64)
        {
            *last &= u64::MAX >> (64 - self.rows % 64);
        }
    }

    fn combine(&mut self, other: &Self, function: impl Fn(u64, u64) -> u64) -> Result<()> {
        if self.rows != other.rows {
            return Err(Error::Inputs { kernel: "bits", reason: "the bitmaps are of different tables" });
        }
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word = function(*word, *other);
        }
        Ok(())
    }

    /// Unsets the bytes of a mask whose position's bit is unset. The mask has a byte, 0 or 1, for
    /// each row.
    pub fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        match rows {
            Rows::Range(start, end) => {
                for (byte, position) in mask.iter_mut().zip(start..end) {
                    *byte &= u8::from(self.test(position));
                }
            }
            Rows::List(positions) => {
                for (byte, position) in mask.iter_mut().zip(positions) {
                    *byte &= u8::from(self.test(*position));
                }
            }
        }
    }

    /// Returns the rows whose position's bit is set.
    pub fn select(&self, rows: Rows<'_>) -> Selection {
        if let Rows::Range(start, end) = rows {
            let firsts = || (start..end).step_by(64);
            let ones = firsts().map(|first| self.word(first, end).count_ones() as usize).sum();
            if ones == rows.len() {
                return rows.into();
            }
            let mut listed = Listed::new(ones);
            for first in firsts() {
                for (eight, bits) in (0..).step_by(8).zip(self.word(first, end).to_le_bytes()) {
                    listed.add(bits, first + eight);
                }
            }
            return Selection::List(listed.positions());
        }
        let mut mask = vec![1; rows.len()];
        self.mask(rows, &mut mask);
        selection::select(&mask, rows)
    }

    /// Returns the bits of 64 positions from the first on; those from `end` on are unset.
    fn word(&self, first: u32, end: u32) -> u64 {
        let (word, shift) = (first as usize / 64, first % 64);
        let word_at = |word: usize| self.words.get(word).copied().unwrap_or(0);
        let bits = match shift {
            0 => word_at(word),
            _ => word_at(word) >> shift | word_at(word + 1) << (64 - shift),
        };
        match end - first {
            left @ 0..64 => bits & ((1 << left) - 1),
            _ => bits,
        }
    }

    /// Returns the set positions in ascending order.
    pub fn positions(&self) -> Vec<u32> {
        let mut positions = Vec::with_capacity(self.count());
        for (place, word) in self.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                positions.push((place * 64) as u32 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bits(rows: usize, positions: &BTreeSet<u32>) -> Bits {
        let mut bits = Bits::new(rows);
        bits.set(Rows::List(&positions.iter().copied().collect::<Vec<_>>())).unwrap();
        bits
    }

    fn set(bits: &Bits) -> BTreeSet<u32> {
        bits.positions().into_iter().collect()
    }

    proptest! {
        #[test]
        fn bitmaps_are_sets(
            rows in 1..300_usize,
            one in prop::collection::btree_set(0..300_u32, 0..80),
            other in prop::collection::btree_set(0..300_u32, 0..80),
            range in (0..300_u32, 0..300_u32),
        ) {
            let limit = |set: BTreeSet<u32>| set.into_iter().filter(|p| (*p as usize) < rows).collect::<BTreeSet<_>>();
            let (one, other) = (limit(one), limit(other));
            let (first, second) = (bits(rows, &one), bits(rows, &other));
            prop_assert_eq!(set(&first), one.clone());
            prop_assert_eq!(first.count(), one.len());
            let ranks = first.ranks();
            for position in 0..rows as u32 {
                prop_assert_eq!(first.rank(&ranks, position) as usize, one.range(..position).count());
            }
            let check = |combine: fn(&mut Bits, &Bits) -> Result<()>| {
                let mut combined = first.clone();
                combine(&mut combined, &second).unwrap();
                set(&combined)
            };
            prop_assert_eq!(check(Bits::or), &one | &other);
            prop_assert_eq!(check(Bits::and), &one & &other);
            prop_assert_eq!(check(Bits::and_not), &one - &other);
            let mut inverted = first.clone();
            inverted.not();
            prop_assert_eq!(set(&inverted), &(0..rows as u32).collect() - &one);
            let limit = |position: u32| position.min(rows as u32);
            let (start, end) = (limit(range.0.min(range.1)), limit(range.0.max(range.1)));
            let mut ranged = first.clone();
            ranged.set(Rows::Range(start, end)).unwrap();
            prop_assert_eq!(set(&ranged), &one | &(start..end).collect());
            let chosen = |rows: Rows<'_>| first.select(rows).rows().iter().collect::<Vec<_>>();
            // A range may go beyond the table.
            for end in [end, end + 100] {
                let expected: Vec<u32> = one.iter().copied().filter(|p| (start..end).contains(p)).collect();
                prop_assert_eq!(chosen(Rows::Range(start, end)), expected.clone());
                let list: Vec<u32> = (start..end).collect();
                prop_assert_eq!(chosen(Rows::List(&list)), expected);
            }
            prop_assert_eq!(chosen(Rows::Range(end, start)), Vec::<u32>::new());
            let mut all = Bits::new(rows);
            all.not();
            prop_assert_eq!(all.select(Rows::Range(start, end)), Selection::Range(start, end));
        }
    }

    #[test]
    fn positions_behind_the_table_are_unset() {
        let mut bits = Bits::new(64);
        bits.not();
        assert!(bits.test(63) && !bits.test(64) && !bits.test(crate::NO_POSITION));
        assert!(bits.set(Rows::List(&[64])).is_err());
        assert!(bits.or(&Bits::new(65)).is_err());
    }
}
