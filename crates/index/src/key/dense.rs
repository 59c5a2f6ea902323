//! Keys of a small domain: an array has the position of each value.

use super::previous::Previous;
use crate::NO_ROW;
use crate::array::typed;
use crate::column::Word;
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

/// The newest position of each value from the least on, or [`NO_ROW`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dense {
    least: i64,
    positions: ScalarBuffer<u32>,
    pub previous: Previous,
}

impl Dense {
    /// Builds the index of keys that lie in a domain of so many values from the least on.
    pub fn build<T: Word>(keys: &[T], valid: Option<&NullBuffer>, least: i64, domain: usize) -> Self {
        let mut positions = vec![NO_ROW; domain];
        let mut pairs = Vec::new();
        for (row, key) in (0..).zip(keys) {
            if valid.is_some_and(|valid| valid.is_null(row as usize)) {
                continue;
            }
            let slot = &mut positions[key.word().wrapping_sub(least) as usize];
            let before = std::mem::replace(slot, row);
            if before != NO_ROW {
                pairs.push((row, before));
            }
        }
        Self { least, positions: positions.into(), previous: Previous::of(pairs) }
    }

    #[inline]
    pub fn find(&self, key: i64) -> u32 {
        let value = usize::try_from(key.wrapping_sub(self.least) as u64);
        value.ok().and_then(|value| self.positions.get(value)).copied().unwrap_or(NO_ROW)
    }

    pub fn least(&self) -> i64 {
        self.least
    }

    pub fn arrays(&self) -> Vec<Buffer> {
        let [later, earlier] = self.previous.arrays();
        vec![self.positions.inner().clone(), later, earlier]
    }

    /// # Errors
    /// `Corrupt` when a position is not one of so many rows.
    pub fn decode(least: i64, rows: u32, arrays: &[Buffer]) -> Result<Self> {
        let damaged = || Error::corrupt("a dense index with a row that is not there");
        let [positions, later, earlier] = arrays else { return Err(damaged()) };
        let positions = typed::<u32>(positions)?;
        if !positions.iter().all(|position| *position < rows || *position == NO_ROW) {
            return Err(damaged());
        }
        Ok(Self { least, positions, previous: Previous::decode(later, earlier, rows)? })
    }
}
