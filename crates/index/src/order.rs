//! Rows in the order of a column.

use crate::array::typed;
use crate::column::{Column, KeyType};
use crate::{NO_ROW, Visible};
use arrow_array::ArrayRef;
use arrow_buffer::{Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// So many values are sorted in less than a tenth of a second.
const SORTED_AT_ONCE: usize = 1 << 20;

/// The rows of a column that are not NULL, in the order of their values, and those with the same
/// value in the order of their positions.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderIndex {
    key_type: KeyType,
    rows: u32,
    ids: ScalarBuffer<u32>,
}

impl OrderIndex {
    /// Sorts the rows of a column; `None` for one of a type that has no order here, or with more
    /// rows than 32 bits can count.
    pub fn build(array: &ArrayRef) -> Option<Self> {
        Self::build_unless(array, &mut || Ok(())).ok().flatten()
    }

    /// Builds the order of a column as [`Self::build`] does, unless `proceed`, which is asked now and then,
    /// ends it.
    ///
    /// # Errors
    /// Those of `proceed`.
    pub fn build_unless(array: &ArrayRef, proceed: &mut dyn FnMut() -> Result<()>) -> Result<Option<Self>> {
        let Some(column) = Column::of(array) else { return Ok(None) };
        let rows = u32::try_from(column.rows()).ok().filter(|rows| *rows < NO_ROW);
        let Some(rows) = rows else { return Ok(None) };
        let is_valid = |row: &u32| column.nulls().is_none_or(|nulls| nulls.is_valid(*row as usize));
        // The words of most values tell their order, so that few are compared where they lie.
        let words = (0..rows).filter(is_valid).map(|row| (column.ordered_word(row as usize), row));
        let mut sorted: Vec<(i64, u32)> = words.collect();
        match column.words() {
            Some(_) => sort_unless(&mut sorted, SORTED_AT_ONCE, &Ord::cmp, proceed)?,
            None => {
                let compare = |one: &(i64, u32), other: &(i64, u32)| {
                    let values = || column.compare(one.1 as usize, &column, other.1 as usize);
                    one.0.cmp(&other.0).then_with(values).then(one.1.cmp(&other.1))
                };
                sort_unless(&mut sorted, SORTED_AT_ONCE, &compare, proceed)?;
            }
        }
        let ids: Vec<u32> = sorted.into_iter().map(|(_, row)| row).collect();
        Ok(Some(Self { key_type: column.key_type(), rows, ids: ids.into() }))
    }

    /// Returns how many rows the index covers.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the type of the column.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Returns the bytes of its array.
    pub fn bytes(&self) -> u64 {
        self.ids.inner().len() as u64
    }

    pub(crate) fn arrays(&self) -> Vec<Buffer> {
        vec![self.ids.inner().clone()]
    }

    /// # Errors
    /// `Corrupt` when it has a row that is not there.
    pub(crate) fn decode(key_type: KeyType, rows: u32, arrays: &[Buffer]) -> Result<Self> {
        let damaged = || Error::corrupt("an order index with a row that is not there");
        let [ids] = arrays else { return Err(damaged()) };
        let ids = typed::<u32>(ids)?;
        let is_sound = ids.len() <= rows as usize && ids.iter().all(|id| *id < rows);
        if is_sound { Ok(Self { key_type, rows, ids }) } else { Err(damaged()) }
    }
}

/// An order index with its column, and the rows that have come since, each part of which is sorted
/// by itself.
#[derive(Clone, Debug)]
pub struct OrderLookup {
    /// The position that each begins at stands before it.
    parts: Vec<(u32, Arc<OrderIndex>, Column)>,
    key_type: KeyType,
    rows: u32,
}

impl OrderLookup {
    /// Takes an index and its column, which may have more rows than it covers.
    ///
    /// # Errors
    /// `Internal` when the column is another than that which the index was built over.
    pub fn new(index: Arc<OrderIndex>, array: &ArrayRef) -> Result<Self> {
        let mut lookup = Self { parts: Vec::new(), key_type: index.key_type, rows: 0 };
        lookup.extend(index, array)?;
        Ok(lookup)
    }

    /// Adds rows that follow those that are covered so far, sorted by themselves.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn extend(&mut self, index: Arc<OrderIndex>, array: &ArrayRef) -> Result<()> {
        let column = Column::of(array).filter(|column| {
            column.key_type() == self.key_type
                && index.key_type == self.key_type
                && column.rows() >= index.rows as usize
        });
        let column = column.ok_or_else(|| Error::internal("an order index is not of this column"))?;
        let rows = self.rows.checked_add(index.rows).filter(|rows| *rows < NO_ROW);
        let rows = rows.ok_or_else(|| Error::internal("an order index of too many rows"))?;
        self.parts.push((self.rows, index, column));
        self.rows = rows;
        Ok(())
    }

    /// Returns how many rows are covered.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Appends the visible rows whose values lie between two bounds, each an array of one value.
    /// Rows of one part are in order.
    ///
    /// # Errors
    /// `Internal` when a bound is of another type than the column, or there are visible rows that
    /// are not covered.
    pub fn range(
        &self,
        low: Bound<&ArrayRef>,
        high: Bound<&ArrayRef>,
        visible: &Visible,
        found: &mut Vec<u32>,
    ) -> Result<()> {
        if visible.end() > self.rows {
            return Err(Error::internal(format!(
                "{} rows are visible, of which an order index covers {}",
                visible.end(),
                self.rows
            )));
        }
        self.between(low, high, |first, rows| {
            let rows = rows.iter().map(|row| first + row);
            found.extend(rows.filter(|row| visible.is_visible(*row)));
        })
    }

    /// Returns how many rows have values between two bounds, whether anybody sees them or not.
    ///
    /// # Errors
    /// `Internal` when a bound is of another type than the column.
    pub fn count(&self, low: Bound<&ArrayRef>, high: Bound<&ArrayRef>) -> Result<usize> {
        let mut count = 0;
        self.between(low, high, |_, rows| count += rows.len())?;
        Ok(count)
    }

    /// Gives a function the rows of each part whose values lie between two bounds, and the position
    /// that the part begins at.
    fn between(
        &self,
        low: Bound<&ArrayRef>,
        high: Bound<&ArrayRef>,
        mut function: impl FnMut(u32, &[u32]),
    ) -> Result<()> {
        let (low, high) = (self.bound(low)?, self.bound(high)?);
        let (Some(low), Some(high)) = (low, high) else { return Ok(()) };
        for (first, index, column) in &self.parts {
            let is_less =
                |row: &u32, bound: &Column, or_equal: bool| match column.compare(*row as usize, bound, 0) {
                    Ordering::Less => true,
                    Ordering::Equal => or_equal,
                    Ordering::Greater => false,
                };
            let begin = match &low {
                Bound::Included(low) => index.ids.partition_point(|row| is_less(row, low, false)),
                Bound::Excluded(low) => index.ids.partition_point(|row| is_less(row, low, true)),
                Bound::Unbounded => 0,
            };
            let end = match &high {
                Bound::Included(high) => index.ids.partition_point(|row| is_less(row, high, true)),
                Bound::Excluded(high) => index.ids.partition_point(|row| is_less(row, high, false)),
                Bound::Unbounded => index.ids.len(),
            };
            function(*first, index.ids.get(begin..end).unwrap_or_default());
        }
        Ok(())
    }

    /// Takes a bound; `None` for NULL, which nothing is less or greater than.
    fn bound(&self, bound: Bound<&ArrayRef>) -> Result<Option<Bound<Column>>> {
        let take = |array: &ArrayRef| {
            let column =
                Column::of(array).filter(|column| column.key_type() == self.key_type && column.rows() == 1);
            let column = column.ok_or_else(|| {
                let (given, own) = (array.data_type(), self.key_type);
                Error::internal(format!("a bound of the type {given} for an order index of {own:?}"))
            })?;
            Ok::<_, Error>(Some(column).filter(|column| column.nulls().is_none()))
        };
        Ok(match bound {
            Bound::Included(array) => take(array)?.map(Bound::Included),
            Bound::Excluded(array) => take(array)?.map(Bound::Excluded),
            Bound::Unbounded => Some(Bound::Unbounded),
        })
    }
}

/// Sorts values, and asks between pieces of them whether to go on: each is put where it belongs first.
fn sort_unless<T>(
    values: &mut [T],
    at_once: usize,
    compare: &impl Fn(&T, &T) -> Ordering,
    proceed: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    proceed()?;
    if values.len() <= at_once {
        values.sort_unstable_by(compare);
        return Ok(());
    }
    let middle = values.len() / 2;
    let (lower, _, higher) = values.select_nth_unstable_by(middle, compare);
    sort_unless(lower, at_once, compare, proceed)?;
    sort_unless(higher, at_once, compare, proceed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_types::ErrorKind;

    #[test]
    fn pieces_are_sorted_as_a_whole() {
        let values: Vec<u64> =
            (0..5000).map(|value: u64| value.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 700).collect();
        let mut expected = values.clone();
        expected.sort_unstable();
        for at_once in [1, 2, 7, 4999, 5000] {
            let (mut sorted, mut asked) = (values.clone(), 0);
            let mut proceed = || {
                asked += 1;
                Ok(())
            };
            sort_unless(&mut sorted, at_once, &Ord::cmp, &mut proceed).unwrap();
            assert_eq!(sorted, expected, "{at_once}");
            assert!(asked >= 5000 / (2 * at_once), "{at_once}: {asked}");
        }
        let mut stop = || Err(Error::new(ErrorKind::Interrupted, "no"));
        assert!(sort_unless(&mut values.clone(), 10, &Ord::cmp, &mut stop).is_err());
    }
}
