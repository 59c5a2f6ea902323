//! The first few rows of an order.

use super::{KERNEL, Order, SortKey, sort};
use crate::rows::for_each;
use crate::value::{Value, Values, fixed, nulls};
use crate::{Error, Result, Rows};
use arrow_array::Array;

/// Rows that are looked at together: if none of them can be among the first, none is looked at alone.
const BLOCK: usize = 512;
/// Candidates that are collected beyond the first ones before they are sorted.
const SPARE: usize = 1024;

/// Finds the first few rows of an order without sorting the others. Rows whose keys are equal are ordered
/// by position, so that the result does not depend on how rows were shared out to threads.
pub struct Top<'a> {
    keys: &'a [SortKey],
    order: Order<'a>,
    limit: usize,
    candidates: Vec<u32>,
    /// The last row that is among the first, as soon as there are enough.
    last: Option<u32>,
}

impl<'a> Top<'a> {
    /// Finds the first `limit` rows by some keys.
    pub fn new(keys: &'a [SortKey], limit: usize) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there is no key" });
        }
        Ok(Self { keys, order: Order::new(keys)?, limit, candidates: Vec::new(), last: None })
    }

    /// Returns the most rows that are kept at a time.
    pub fn rows_max(&self) -> usize {
        2 * self.limit + SPARE
    }

    /// Returns whether a row is before another one.
    fn is_before(&self, one: u32, other: u32) -> bool {
        self.order.compare(one, other).then(one.cmp(&other)).is_lt()
    }

    /// Looks at some rows. Takes time in proportion to the rows, most of it for those that become
    /// candidates.
    pub fn push(&mut self, rows: Rows<'_>) -> Result<()> {
        for key in self.keys {
            rows.check(key.array.len())?;
        }
        if self.limit == 0 {
            return Ok(());
        }
        for start in (0..rows.len()).step_by(BLOCK) {
            let block = rows.part(start..rows.len().min(start + BLOCK));
            match self.last {
                Some(last) if !self.may_precede(block, last)? => {}
                last => {
                    for row in block.iter() {
                        if last.is_none_or(|last| self.is_before(row, last)) {
                            self.candidates.push(row);
                        }
                    }
                    if self.candidates.len() >= self.rows_max() - BLOCK {
                        self.shrink()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether one of the rows may be before a row, by their first key.
    fn may_precede(&self, rows: Rows<'_>, last: u32) -> Result<bool> {
        fn any<T: Value>(values: &[T], rows: Rows<'_>, last: u32, descending: bool, ties: bool) -> bool {
            let last = values[last as usize].word();
            match (descending, ties) {
                (false, false) => any_word(values, rows, |word| word < last),
                (false, true) => any_word(values, rows, |word| word <= last),
                (true, false) => any_word(values, rows, |word| word > last),
                (true, true) => any_word(values, rows, |word| word >= last),
            }
        }
        let SortKey { array, descending, nulls_first } = &self.keys[0];
        if let Some(nulls) = nulls(array) {
            if nulls.is_null(last as usize) {
                return Ok(true);
            }
            if *nulls_first && rows.iter().any(|row| nulls.is_null(row as usize)) {
                return Ok(true);
            }
        }
        // Of rows that are equal to the last one those may be before it that have other keys, or are at
        // smaller positions.
        let ties = match rows {
            Rows::Range(start, _) => self.keys.len() > 1 || start < last,
            Rows::List(_) => true,
        };
        Ok(
            fixed!(Values::of(KERNEL, array)?, values => any(values, rows, last, *descending, ties), _ => true),
        )
    }

    fn shrink(&mut self) -> Result<()> {
        self.candidates.sort_unstable();
        self.candidates = sort(self.keys, Rows::List(&self.candidates))?;
        self.candidates.truncate(self.limit);
        if self.candidates.len() == self.limit {
            self.last = self.candidates.last().copied();
        }
        Ok(())
    }

    /// Takes over the rows of another thread, which has the same keys.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        self.push(Rows::List(&other.candidates))
    }

    /// Returns the first rows in their order; there are fewer than the limit only if there are no more.
    pub fn finish(mut self) -> Result<Vec<u32>> {
        self.shrink()?;
        Ok(self.candidates)
    }
}

/// Returns whether a test holds for the word of one of the rows, without a branch for each.
#[inline(always)]
fn any_word<T: Value>(values: &[T], rows: Rows<'_>, test: impl Fn(T::Word) -> bool) -> bool {
    let mut any = false;
    for_each(values, rows, |_, value| any |= test(value.word()));
    any
}
