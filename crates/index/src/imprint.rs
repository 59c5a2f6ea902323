//! Which values runs of rows have, roughly (Sidirourgos and Kersten, SIGMOD 2013).

use crate::array::typed;
use crate::column::{Column, KeyType};
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

/// Rows that have a mask together.
pub const IMPRINT_ROWS: u32 = 2048;

/// A mask has a bit for each bin.
const BINS: usize = 64;

/// Rows whose values the borders are chosen by.
const SAMPLE_ROWS: usize = 4096;

/// Masks that tell for each run of rows which bins its values are in. The bins divide the values of a
/// sample evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Imprint {
    key_type: KeyType,
    rows: u32,
    /// The least word of each bin but the first.
    borders: ScalarBuffer<i64>,
    masks: ScalarBuffer<u64>,
}

impl Imprint {
    /// Builds the imprint of a column; `None` for one whose type has none, or with more rows than
    /// 32 bits can count.
    pub fn build(array: &ArrayRef) -> Option<Self> {
        Self::build_unless(array, &mut || Ok(())).ok().flatten()
    }

    /// [`Self::build`], which asks now and then whether to go on.
    ///
    /// # Errors
    /// Those of `proceed`.
    pub fn build_unless(array: &ArrayRef, proceed: &mut dyn FnMut() -> Result<()>) -> Result<Option<Self>> {
        let Some(column) = Column::of(array) else { return Ok(None) };
        let Ok(rows) = u32::try_from(column.rows()) else { return Ok(None) };
        let is_valid = |row: usize| column.nulls().is_none_or(|nulls| nulls.is_valid(row));
        let step = column.rows().div_ceil(SAMPLE_ROWS).max(1);
        let sampled = (0..column.rows()).step_by(step).filter(|row| is_valid(*row));
        let mut sample: Vec<i64> = sampled.map(|row| column.ordered_word(row)).collect();
        sample.sort_unstable();
        sample.dedup();
        // Of few values each has a bin of its own.
        let bins = sample.len().clamp(1, BINS);
        let borders: Vec<i64> = (1..bins).map(|bin| sample[bin * sample.len() / bins]).collect();
        let mut masks: Vec<u64> = Vec::new();
        for first in (0..column.rows()).step_by(IMPRINT_ROWS as usize) {
            proceed()?;
            let end = column.rows().min(first + IMPRINT_ROWS as usize);
            let valid = (first..end).filter(|row| is_valid(*row));
            masks.push(valid.fold(0, |mask, row| mask | 1 << bin_of(&borders, column.ordered_word(row))));
        }
        Ok(Some(Self { key_type: column.key_type(), rows, borders: borders.into(), masks: masks.into() }))
    }

    /// Returns how many rows the imprint covers.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the type of its values.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Returns the bytes of its arrays.
    pub fn bytes(&self) -> u64 {
        (self.borders.inner().len() + self.masks.inner().len()) as u64
    }

    /// Returns the mask of the bins that have values between two, which count as within; `None`
    /// stands for no bound. Each is an array of one value.
    ///
    /// # Errors
    /// `Internal` for values of another type than the column's.
    pub fn range(&self, low: Option<&ArrayRef>, high: Option<&ArrayRef>) -> Result<u64> {
        let bin = |value: &ArrayRef| Ok::<_, Error>(self.bins(value)?.first().copied());
        // No value is less or greater than NULL.
        let low = low.map_or(Ok(Some(0)), bin)?;
        let high = high.map_or(Ok(Some(BINS - 1)), bin)?;
        Ok(match (low, high) {
            (Some(low), Some(high)) if low <= high => (u64::MAX >> (BINS - 1 - high)) & (u64::MAX << low),
            _ => 0,
        })
    }

    /// Returns the mask of the bins that have one of some values.
    ///
    /// # Errors
    /// As [`Self::range`].
    pub fn values(&self, values: &ArrayRef) -> Result<u64> {
        Ok(self.bins(values)?.into_iter().fold(0, |mask, bin| mask | 1 << bin))
    }

    /// Tells for each run of `rows` rows whether it may have a value of the bins of a mask. What is
    /// not covered may.
    pub fn may_have(&self, mask: u64, rows: u32) -> BooleanBuffer {
        let runs = rows.div_ceil(IMPRINT_ROWS) as usize;
        // Of the last run some rows may have come since.
        let whole = match rows <= self.rows {
            true => runs,
            false => (self.rows / IMPRINT_ROWS) as usize,
        };
        BooleanBuffer::collect_bool(runs, |run| run >= whole || self.masks[run] & mask != 0)
    }

    fn bins(&self, values: &ArrayRef) -> Result<Vec<usize>> {
        let column = Column::of(values).filter(|column| column.key_type() == self.key_type);
        let column = column.ok_or_else(|| {
            let (given, own) = (values.data_type(), self.key_type);
            Error::internal(format!("values of the type {given} are looked for in an imprint of {own:?}"))
        })?;
        let is_valid = |row: &usize| column.nulls().is_none_or(|nulls| nulls.is_valid(*row));
        Ok((0..column.rows())
            .filter(is_valid)
            .map(|row| bin_of(&self.borders, column.ordered_word(row)))
            .collect())
    }

    pub(crate) fn arrays(&self) -> Vec<Buffer> {
        vec![self.borders.inner().clone(), self.masks.inner().clone()]
    }

    /// # Errors
    /// `Corrupt` when the borders do not ascend, or there are other than one mask for each run.
    pub(crate) fn decode(key_type: KeyType, rows: u32, arrays: &[Buffer]) -> Result<Self> {
        let damaged = || Error::corrupt("an imprint whose borders or masks are none");
        let [borders, masks] = arrays else { return Err(damaged()) };
        let (borders, masks) = (typed::<i64>(borders)?, typed::<u64>(masks)?);
        let is_sound = borders.len() < BINS
            && borders.is_sorted_by(|one, other| one < other)
            && masks.len() == rows.div_ceil(IMPRINT_ROWS) as usize;
        match is_sound {
            true => Ok(Self { key_type, rows, borders, masks }),
            false => Err(damaged()),
        }
    }
}

fn bin_of(borders: &[i64], word: i64) -> usize {
    borders.partition_point(|border| *border <= word)
}
