//! Orders of positions.
//!
//! The keys of each row are packed into one word, as many bits as the values in question span, with
//! the row's place below. Words are sorted by radix. What does not fit into a word, as the rest of
//! strings, is compared only among rows whose words are equal. So numbers, dates, decimals,
//! booleans and codes are hardly ever compared, and strings seldom.

mod field;
mod first;
mod merge;
mod radix;
mod top;

use crate::rows::common_rows;
use crate::share::filled;
use crate::value::{Comparator, comparator};
use crate::{Check, Column, Error, Result, Rows, Work};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use field::{Field, Packed};
use std::cmp::Ordering;

pub use first::Firsts;
pub use top::{Found, Top, first_with_ties};

const KERNEL: &str = "order";

/// What rows are sorted by.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The values; those of all keys have the same positions.
    pub array: ArrayRef,
    /// Whether greater values come first.
    pub descending: bool,
    /// Whether NULLs come before all values.
    pub nulls_first: bool,
}

/// Returns rows in the order of some keys; rows whose keys are equal stay in the order in which
/// they came.
///
/// Takes time in proportion to the rows where the keys fit into a word, and 40 bytes of memory for
/// each at most, with 8 for each key of strings. These are compared where those of their bytes are equal
/// that come first after what all have in common.
pub fn sort(keys: &[SortKey], rows: Rows<'_>) -> Result<Vec<u32>> {
    sort_with(keys, rows, &Work::ALONE)
}

/// Sorts as [`sort`] does, on several threads, and so that it can be ended.
pub fn sort_with(keys: &[SortKey], rows: Rows<'_>, work: &Work<'_>) -> Result<Vec<u32>> {
    let columns: Vec<Column<'_>> =
        keys.iter().map(|key| Column { array: key.array.as_ref(), rows }).collect();
    common_rows(KERNEL, &columns)?;
    if u32::try_from(rows.len()).is_err() {
        return Err(Error::TooMany("the rows to sort"));
    }
    if keys.is_empty() {
        return Ok(rows.iter().collect());
    }
    let mut fields = Vec::with_capacity(keys.len());
    for key in keys {
        fields.push(Field::new(key, rows, work)?);
    }
    let order = Order::new(keys)?;
    let compare = |one: &u32, other: &u32| order.compare(rows.at(*one), rows.at(*other));
    let packed = Packed::new(&fields, rows.len(), work)?;
    drop(fields);
    let places = match packed {
        Packed { words: field::Words::Narrow(words), bits, exact } => {
            radix::sort(words, bits, exact, compare, work)?
        }
        Packed { words: field::Words::Wide(words), bits, exact } => {
            radix::sort(words, bits, exact, compare, work)?
        }
    };
    match rows {
        Rows::Range(0, _) => Ok(places),
        _ => filled(places.len(), work, |range, positions| {
            let places = &places[range];
            positions.iter_mut().zip(places).for_each(|(position, place)| *position = rows.at(*place));
            Ok(())
        }),
    }
}

/// Compares rows by keys.
pub(crate) struct Order<'a> {
    keys: Vec<KeyOrder<'a>>,
}

struct KeyOrder<'a> {
    values: Comparator<'a>,
    nulls: Option<NullBuffer>,
    descending: bool,
    nulls_first: bool,
}

impl KeyOrder<'_> {
    fn compare(&self, one: usize, other: usize) -> Ordering {
        let is_null = |row| self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match (is_null(one), is_null(other)) {
            (false, false) if self.descending => (self.values)(other, one),
            (false, false) => (self.values)(one, other),
            (one, other) if self.nulls_first => other.cmp(&one),
            (one, other) => one.cmp(&other),
        }
    }
}

impl<'a> Order<'a> {
    pub fn new(keys: &'a [SortKey]) -> Result<Self> {
        let keys = keys.iter().map(|key| {
            Ok(KeyOrder {
                values: comparator(KERNEL, &key.array, &key.array)?,
                nulls: key.array.logical_nulls().filter(|nulls| nulls.null_count() > 0),
                descending: key.descending,
                nulls_first: key.nulls_first,
            })
        });
        Ok(Self { keys: keys.collect::<Result<_>>()? })
    }

    pub fn compare(&self, one: u32, other: u32) -> Ordering {
        let (one, other) = (one as usize, other as usize);
        self.keys
            .iter()
            .map(|key| key.compare(one, other))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

#[cfg(test)]
mod tests;
