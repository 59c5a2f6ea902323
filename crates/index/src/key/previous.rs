//! The earlier positions of keys whose rows were updated.

use crate::NO_ROW;
use crate::array::typed;
use arrow_buffer::{Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

/// Pairs of positions of the same key: the first of them ascend, and each second one is less than
/// its first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Previous {
    later: ScalarBuffer<u32>,
    earlier: ScalarBuffer<u32>,
}

impl Previous {
    pub fn of(mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        let (later, earlier): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
        Self { later: later.into(), earlier: earlier.into() }
    }

    pub fn is_empty(&self) -> bool {
        self.later.is_empty()
    }

    /// Returns the position before this one of the same key.
    pub fn before(&self, position: u32) -> u32 {
        self.later.binary_search(&position).map_or(NO_ROW, |pair| self.earlier[pair])
    }

    pub fn arrays(&self) -> [Buffer; 2] {
        [self.later.inner().clone(), self.earlier.inner().clone()]
    }

    /// # Errors
    /// `Corrupt` when they are no pairs of positions among so many rows.
    pub fn decode(later: &Buffer, earlier: &Buffer, rows: u32) -> Result<Self> {
        let (later, earlier) = (typed::<u32>(later)?, typed::<u32>(earlier)?);
        let is_sound = later.len() == earlier.len()
            && later.is_sorted_by(|one, other| one < other)
            && later.last().is_none_or(|last| *last < rows)
            && later.iter().zip(&earlier).all(|(later, earlier)| earlier < later);
        match is_sound {
            true => Ok(Self { later, earlier }),
            false => Err(Error::corrupt("an index whose earlier positions are none")),
        }
    }
}
