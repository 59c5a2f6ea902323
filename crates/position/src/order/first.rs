//! The first row of each group in an order.

use super::{KERNEL, Order, SortKey};
use crate::fold::Ids;
use crate::rows::for_each;
use crate::value::{Value, Values, Word, fixed};
use crate::{Error, NO_POSITION, Result, Rows};
use arrow_array::Array;
use std::cmp::Ordering;

/// Finds the first row of each group by some keys, without sorting. Of rows whose keys are equal the
/// one at the smallest position is the first, so that the result does not depend on how rows were
/// shared out to threads.
#[derive(Clone, Debug, Default)]
pub struct Firsts {
    /// The first row of each group; [`NO_POSITION`] where there is none.
    rows: Vec<u32>,
    /// The words of these rows. A row with a smaller word is before one with a larger word.
    words: Vec<u64>,
    tied: bool,
}

impl Firsts {
    /// Makes room for groups.
    pub fn grow(&mut self, groups: usize) {
        if groups > self.rows.len() {
            self.rows.resize(groups, NO_POSITION);
            self.words.resize(groups, u64::MAX);
        }
    }

    /// Returns the bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>() + self.words.capacity() * size_of::<u64>()
    }

    /// Returns the first row of each group; [`NO_POSITION`] where there is none.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns whether two rows of a group may have had the same keys.
    pub fn tied(&self) -> bool {
        self.tied
    }

    /// Looks at rows, whose groups are less than what there is room for.
    pub fn push(&mut self, keys: &[SortKey], rows: Rows<'_>, ids: Ids<'_>) -> Result<()> {
        if rows.len() != ids.len() {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one group for each row" });
        }
        for key in keys {
            rows.check(key.array.len())?;
        }
        let order = Order::new(keys)?;
        let words = match keys.first() {
            Some(key) => words(key, rows)?,
            None => vec![0; rows.len()],
        };
        for ((row, id), word) in rows.iter().zip(ids.iter()).zip(words) {
            let id = id as usize;
            let best = &mut self.words[id];
            if word > *best {
                continue;
            }
            let first = &mut self.rows[id];
            if word == *best && *first != NO_POSITION {
                let compared = order.compare(row, *first);
                self.tied |= compared == Ordering::Equal && row != *first;
                if compared.then(row.cmp(first)) != Ordering::Less {
                    continue;
                }
            }
            (*first, *best) = (row, word);
        }
        Ok(())
    }

    /// Takes over the rows of another thread, whose groups have these ids here.
    pub fn merge(&mut self, keys: &[SortKey], other: &Self, ids: &[u32]) -> Result<()> {
        self.tied |= other.tied;
        let known = other.rows.iter().zip(ids).filter(|(row, _)| **row != NO_POSITION);
        let (rows, ids): (Vec<u32>, Vec<u32>) = known.map(|(row, id)| (*row, *id)).unzip();
        self.push(keys, Rows::List(&rows), Ids::Each(&ids))
    }
}

/// Returns a word for each row: one with a smaller word is before one with a larger word.
fn words(key: &SortKey, rows: Rows<'_>) -> Result<Vec<u64>> {
    fn of<T: Value>(values: &[T], rows: Rows<'_>, words: &mut [u64], descending: bool) {
        let turn = if descending { u64::MAX } else { 0 };
        // What is too far from the middle for 64 bits is as far as they reach.
        let middle = if T::BITS > u64::BITS { (1_u128 << (T::BITS - 1)) - (1 << 63) } else { 0 };
        for_each(values, rows, |place, value| {
            let word = value.word().wide().saturating_sub(middle);
            words[place] = word.min(u128::from(u64::MAX)) as u64 ^ turn;
        });
    }
    let mut words = vec![0; rows.len()];
    fixed!(Values::of(KERNEL, &key.array)?, values => of(values, rows, &mut words, key.descending), other => {
        if let Values::Bytes(bytes) = other {
            let turn = if key.descending { u64::MAX } else { 0 };
            for (word, row) in words.iter_mut().zip(rows.iter()) {
                let bytes = bytes.get(row as usize);
                let mut first = [0; 8];
                let length = bytes.len().min(8);
                first[..length].copy_from_slice(&bytes[..length]);
                *word = u64::from_be_bytes(first) ^ turn;
            }
        }
    });
    if let Some(nulls) = key.array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        // Rows that have no words are all compared.
        let has_words =
            !matches!(Values::of(KERNEL, &key.array)?, Values::Boolean(_) | Values::Dictionary(_));
        let null = if key.nulls_first || !has_words { 0 } else { u64::MAX };
        for (word, row) in words.iter_mut().zip(rows.iter()) {
            if nulls.is_null(row as usize) {
                *word = null;
            }
        }
    }
    Ok(words)
}
