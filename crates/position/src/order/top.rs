//! The first few rows of an order.

use super::{KERNEL, Order, SortKey, sort};
use crate::rows::for_each;
use crate::value::{Value, Values, fixed, nulls};
use crate::{Error, Result, Rows};
use arrow_array::Array;
use arrow_buffer::NullBuffer;

/// Rows that are looked at together: if none of them can be among the first, none is looked at
/// alone.
const BLOCK: usize = 2048;
/// Candidates beyond twice the limit that are collected before they are sorted.
const SPARE: usize = 64;

/// Finds the first few rows of an order without sorting the others. Rows whose keys are equal are
/// ordered by position, so that the result does not depend on how rows were shared out to threads.
pub struct Top<'a> {
    keys: &'a [SortKey],
    order: Order<'a>,
    limit: usize,
    candidates: Vec<u32>,
    /// The last row that is among the first, as soon as there are enough.
    last: Option<u32>,
}

/// What has been found of the first rows before all have been looked at.
#[derive(Clone, Debug, Default)]
pub struct Found {
    candidates: Vec<u32>,
    last: Option<u32>,
}

impl Found {
    /// Returns the last row that is among the first, as soon as there are enough.
    pub fn last(&self) -> Option<u32> {
        self.last
    }

    /// Returns the bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.candidates.capacity() * size_of::<u32>()
    }
}

impl<'a> Top<'a> {
    /// Finds the first `limit` rows by some keys.
    pub fn new(keys: &'a [SortKey], limit: usize) -> Result<Self> {
        Self::resume(keys, limit, Found::default())
    }

    /// Goes on with what has been found by the same keys and limit.
    pub fn resume(keys: &'a [SortKey], limit: usize, found: Found) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there is no key" });
        }
        let Found { candidates, last } = found;
        Ok(Self { keys, order: Order::new(keys)?, limit, candidates, last })
    }

    /// Returns what has been found so far.
    pub fn pause(self) -> Found {
        Found { candidates: self.candidates, last: self.last }
    }

    /// Returns the most rows that are kept at a time.
    pub fn rows_max(&self) -> usize {
        2 * self.limit + SPARE + BLOCK
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
        let mut near = Vec::new();
        for start in (0..rows.len()).step_by(BLOCK) {
            let block = rows.part(start..rows.len().min(start + BLOCK));
            match self.last {
                None => self.candidates.extend(block.iter()),
                Some(last) => {
                    self.near(block, last, &mut near)?;
                    for row in near.drain(..) {
                        if self.is_before(row, last) {
                            self.candidates.push(row);
                        }
                    }
                }
            }
            if self.candidates.len() >= 2 * self.limit + SPARE {
                self.shrink()?;
            }
        }
        Ok(())
    }

    /// Adds the rows that may be before a row by their first key.
    fn near(&self, rows: Rows<'_>, last: u32, near: &mut Vec<u32>) -> Result<()> {
        let SortKey { array, descending, nulls_first } = &self.keys[0];
        let nulls = nulls(array);
        if nulls.is_some_and(|nulls| nulls.is_null(last as usize)) {
            near.extend(rows.iter());
            return Ok(());
        }
        // Of rows that are equal to the last one those may be before it that have other keys, or
        // are at smaller positions.
        let ties = match rows {
            Rows::Range(start, _) => self.keys.len() > 1 || start < last,
            Rows::List(_) => true,
        };
        let nulls = nulls.map(|nulls| (nulls, *nulls_first));
        fixed!(Values::of(KERNEL, array)?, values => near_by_word(values, rows, last, (*descending, ties), nulls, near), other => match other {
            Values::Bytes(bytes) => {
                let last = bytes.get(last as usize);
                near.extend(rows.iter().filter(|row| match nulls {
                    Some((nulls, nulls_first)) if nulls.is_null(*row as usize) => nulls_first,
                    _ if *descending => bytes.get(*row as usize) >= last,
                    _ => bytes.get(*row as usize) <= last,
                }));
            }
            _ => near.extend(rows.iter()),
        });
        Ok(())
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
    pub fn merge(&mut self, other: Found) -> Result<()> {
        self.push(Rows::List(&other.candidates))
    }

    /// Returns the first rows in their order; there are fewer than the limit only if there are no
    /// more.
    pub fn finish(mut self) -> Result<Vec<u32>> {
        self.shrink()?;
        Ok(self.candidates)
    }
}

/// Returns the first rows in the order of some keys, and all others whose keys are those of the last one,
/// in ascending order. `rows` ascend.
///
/// # Errors
/// [`Error::Inputs`] without a key; [`Error::UnsupportedType`] for a key of another type.
pub fn first_with_ties(keys: &[SortKey], limit: usize, rows: Rows<'_>) -> Result<Vec<u32>> {
    let mut top = Top::new(keys, limit)?;
    top.push(rows)?;
    let first = top.finish()?;
    if first.len() < limit {
        return Ok(rows.iter().collect());
    }
    let Some(last) = first.last().copied() else { return Ok(Vec::new()) };
    let order = Order::new(keys)?;
    Ok(rows.iter().filter(|row| order.compare(*row, last).is_le()).collect())
}

/// Adds the rows whose word precedes that of a row, or with `ties` equals it; also NULLs if they
/// come first.
fn near_by_word<T: Value>(
    values: &[T],
    rows: Rows<'_>,
    last: u32,
    (descending, ties): (bool, bool),
    nulls: Option<(&NullBuffer, bool)>,
    near: &mut Vec<u32>,
) {
    let last = values[last as usize].word();
    match (descending, ties) {
        (false, false) => near_by_test(values, rows, nulls, near, |word| word < last),
        (false, true) => near_by_test(values, rows, nulls, near, |word| word <= last),
        (true, false) => near_by_test(values, rows, nulls, near, |word| word > last),
        (true, true) => near_by_test(values, rows, nulls, near, |word| word >= last),
    }
}

#[inline(always)]
fn near_by_test<T: Value>(
    values: &[T],
    rows: Rows<'_>,
    nulls: Option<(&NullBuffer, bool)>,
    near: &mut Vec<u32>,
    test: impl Fn(T::Word) -> bool,
) {
    let with_nulls = nulls.is_some_and(|(_, nulls_first)| nulls_first);
    let mut any = with_nulls;
    // Without a branch for each row, because as a rule there is none.
    for_each(values, rows, |_, value| any |= test(value.word()));
    if any {
        near.extend(rows.iter().filter(|row| match nulls {
            Some((nulls, nulls_first)) if nulls.is_null(*row as usize) => nulls_first,
            _ => test(values[*row as usize].word()),
        }));
    }
}
