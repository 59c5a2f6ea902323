//! Finds the range of a list of ascending bounds that a value is in.

use super::array::{Visitor, read};
use super::value::{Datum, Kind, Value};
use arrow_array::{Array, ArrayRef};
use hypostyle_types::{Error, ErrorKind, Result};
use std::cmp::Ordering;

/// Bounds that ranges end before, in ascending order.
pub(super) struct Ranges<'a> {
    pub(super) bounds: &'a [Value],
    /// Says that another range follows the last bound: the values that nothing else has, and NULL.
    pub(super) has_rest: bool,
}

impl Ranges<'_> {
    /// Returns how many bounds are not greater than a value: the number of its range, if there is
    /// one. NULL is greater than all, as ORDER BY has it.
    pub(super) fn position(&self, datum: Datum<'_>) -> usize {
        self.bounds.partition_point(|bound| bound.datum().compare(&datum) != Some(Ordering::Greater))
    }

    /// Returns the number of the range that a value is in.
    ///
    /// # Errors
    /// `Constraint` (23514) if it is in none.
    fn locate(&self, datum: Datum<'_>) -> Result<u32> {
        self.number(self.position(datum)).ok_or_else(|| self.outside(datum))
    }

    fn number(&self, position: usize) -> Option<u32> {
        let exists = position < self.bounds.len() || self.has_rest;
        u32::try_from(position).ok().filter(|_| exists)
    }

    fn outside(&self, datum: Datum<'_>) -> Error {
        let last = self.bounds.last().map_or_else(String::new, |bound| bound.datum().to_string());
        let message = format!(
            "no fragment has rows with the partition key {datum}: the last one ends before {last}, \
             and none ends at MAXVALUE"
        );
        Error::new(ErrorKind::Constraint, message).with_sqlstate("23514")
    }

    /// Returns the bounds as whole numbers, if all are: these are compared faster.
    fn integers(&self) -> Option<Vec<i64>> {
        let whole = |bound: &Value| if let Value::Integer(number) = bound { Some(*number) } else { None };
        self.bounds.iter().map(whole).collect()
    }

    /// Returns the number of each row's range.
    ///
    /// # Errors
    /// `Constraint` (23514) naming the first value that is in none; those of [`read`].
    pub(super) fn locate_rows(&self, column: &ArrayRef, kind: Kind) -> Result<Vec<u32>> {
        let mut locations =
            Locations { ranges: self, integers: self.integers(), numbers: Vec::with_capacity(column.len()) };
        read(column, kind, &mut locations)?;
        Ok(locations.numbers)
    }
}

struct Locations<'a> {
    ranges: &'a Ranges<'a>,
    integers: Option<Vec<i64>>,
    numbers: Vec<u32>,
}

impl Visitor for Locations<'_> {
    fn visit<'a>(&mut self, rows: usize, at: impl Fn(usize) -> Result<Datum<'a>>) -> Result<()> {
        for row in 0..rows {
            let datum = at(row)?;
            let number = match (&self.integers, datum) {
                (Some(bounds), Datum::Integer(value)) => {
                    let position = bounds.partition_point(|&bound| bound <= value);
                    self.ranges.number(position).ok_or_else(|| self.ranges.outside(datum))?
                }
                _ => self.ranges.locate(datum)?,
            };
            self.numbers.push(number);
        }
        Ok(())
    }
}
