//! Aggregates as arrays over dense ids.
//!
//! An id names a group, or a row of another table: then the fold is a column of that table, which
//! later operators read like any other. Each thread folds into states of its own, which are merged
//! at the end.
//!
//! | fold | of | gives |
//! |---|---|---|
//! | [`exists`] | rows | whether there is one |
//! | [`count`] | rows, or values that are not NULL | how many |
//! | [`sum`] | integers, decimals, floats | their sum in a type of the caller's choice |
//! | [`minimum`], [`maximum`] | all types with an order | the least or greatest value |
//! | [`first`] | rows | the least position |
//!
//! `avg` is a sum and a count.

mod extreme;
mod sum;

use crate::{Column, Error, NO_POSITION, Result, Rows};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, UInt32Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use std::any::Any;
use std::ops::AddAssign;
use std::sync::Arc;

pub use extreme::{maximum, minimum};
pub use sum::sum;
pub(crate) use sum::{SumKind, exact_array, float_array, for_each_exact};

const KERNEL: &str = "fold";

/// The ids of some rows.
#[derive(Clone, Copy, Debug)]
pub enum Ids<'a> {
    /// All rows have the same one.
    One {
        /// The id.
        id: u32,
        /// How many rows have it.
        rows: usize,
    },
    /// Each row has its own.
    Each(&'a [u32]),
}

impl Ids<'_> {
    /// Returns of how many rows these are the ids.
    pub fn len(&self) -> usize {
        match self {
            Ids::One { rows, .. } => *rows,
            Ids::Each(ids) => ids.len(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ids, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let (one, rows, each) = match *self {
            Ids::One { id, rows } => (id, rows, [].as_slice()),
            Ids::Each(ids) => (0, 0, ids),
        };
        std::iter::repeat_n(one, rows).chain(each.iter().copied())
    }

    /// Fails if there is an id without a state.
    fn check(&self, groups: usize) -> Result<()> {
        let last = match self {
            Ids::One { id, .. } => *id,
            Ids::Each(ids) => ids.iter().fold(0, |last, id| last.max(*id)),
        };
        match self.is_empty() || (last as usize) < groups {
            true => Ok(()),
            false => Err(Error::PositionOutOfRange { position: last, rows: groups }),
        }
    }

    fn part(&self, places: std::ops::Range<usize>) -> Self {
        match *self {
            Ids::One { id, .. } => Ids::One { id, rows: places.len() },
            Ids::Each(ids) => Ids::Each(&ids[places]),
        }
    }
}

/// The states of one aggregate, one for each id.
pub trait Fold: Any + Send {
    /// Makes states for ids below a number; there are never fewer than before.
    fn grow(&mut self, groups: usize);

    /// Combines rows into the states of their ids. Those whose value is NULL do not count.
    ///
    /// Takes time in proportion to the rows. Fails if an id has no state, and where the column is
    /// not what the fold was made for; states are not to be used after an error.
    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()>;

    /// Combines the states of another thread, in the order of their ids, into the states of other
    /// ids.
    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()>;

    /// Returns the results, one for each id.
    fn finish(&self) -> Result<ArrayRef>;

    /// Returns the bytes that the states take.
    fn bytes(&self) -> usize;
}

/// Combines rows of a column into states. Where all have one id, positions that follow each other
/// are read as ranges, as in tables of which few rows were deleted.
///
/// Fails as [`Fold::fold`] does.
pub fn fold_column(fold: &mut dyn Fold, ids: Ids<'_>, column: Column<'_>) -> Result<()> {
    match ids {
        Ids::One { id, rows } if rows == column.rows.len() && column.array.data_type().is_primitive() => {
            column.rows.runs().try_for_each(|rows| {
                fold.fold(Ids::One { id, rows: rows.len() }, Some(Column { rows, ..column }))
            })
        }
        _ => fold.fold(ids, Some(column)),
    }
}

/// Fails unless the inputs of a fold go together.
fn check(ids: Ids<'_>, column: Option<Column<'_>>, groups: usize) -> Result<()> {
    ids.check(groups)?;
    match column {
        Some(column) if column.rows.len() != ids.len() => {
            Err(Error::Inputs { kernel: KERNEL, reason: "there is not one id for each row" })
        }
        Some(column) => column.rows.check(column.array.len()),
        None => Ok(()),
    }
}

/// Returns the states of another thread, which must be of the same kind.
fn same_kind<'a, T: Fold>(other: &'a dyn Fold, ids: Ids<'_>, groups: impl Fn(&T) -> usize) -> Result<&'a T> {
    match (other as &dyn Any).downcast_ref::<T>() {
        Some(other) if groups(other) == ids.len() => Ok(other),
        Some(_) => Err(Error::Inputs { kernel: KERNEL, reason: "there is not one id for each state" }),
        None => Err(Error::Inputs { kernel: KERNEL, reason: "states of different folds cannot be merged" }),
    }
}

const NO_COLUMN: Error = Error::Inputs { kernel: KERNEL, reason: "the fold needs a column" };

/// How many sums few groups have each, so that an addition need not wait for the one before it.
const LANES: usize = 4;
/// How many groups are few: their sums fit into the first level of the cache.
const FEW: usize = 256;

/// A sum for each id.
struct Sums<T> {
    /// The sums of few groups.
    few: Vec<[T; LANES]>,
    /// The sums of many groups.
    many: Vec<T>,
}

impl<T: Copy + Default + AddAssign> Sums<T> {
    fn new() -> Self {
        Self { few: Vec::new(), many: Vec::new() }
    }

    fn len(&self) -> usize {
        self.few.len().max(self.many.len())
    }

    fn bytes(&self) -> usize {
        (self.few.capacity() * LANES + self.many.capacity()) * size_of::<T>()
    }

    fn grow(&mut self, groups: usize) {
        if groups > FEW {
            if self.many.is_empty() {
                self.many = (0..self.few.len()).map(|id| self.get(id)).collect();
                self.few = Vec::new();
            }
            self.many.resize(groups.max(self.many.len()), T::default());
        } else if self.many.is_empty() {
            self.few.resize(groups.max(self.few.len()), [T::default(); LANES]);
        }
    }

    fn get(&self, id: usize) -> T {
        match self.few.get(id) {
            None => self.many[id],
            Some(lanes) => {
                let mut sum = lanes[0];
                lanes[1..].iter().for_each(|lane| sum += *lane);
                sum
            }
        }
    }

    fn add(&mut self, id: usize, value: T) {
        match self.few.get_mut(id) {
            Some(lanes) => lanes[0] += value,
            None => self.many[id] += value,
        }
    }

    /// Adds the value of each row to the sum of its id.
    #[inline(always)]
    fn add_each<V: Copy>(&mut self, ids: Ids<'_>, values: &[V], rows: Rows<'_>, number: impl Fn(V) -> T) {
        match rows {
            Rows::Range(start, end) => {
                self.add_items(ids, &values[start as usize..end as usize], |value| number(*value));
            }
            Rows::List(positions) => {
                self.add_items(ids, positions, |position| number(values[*position as usize]))
            }
        }
    }

    /// Adds the number of each item to the sum of its id; there is an item for each id.
    #[inline(always)]
    fn add_items<I>(&mut self, ids: Ids<'_>, items: &[I], number: impl Fn(&I) -> T) {
        match ids {
            Ids::One { id, .. } => {
                let mut lanes = [T::default(); LANES];
                let (fours, rest) = items.as_chunks::<LANES>();
                for four in fours {
                    lanes.iter_mut().zip(four).for_each(|(lane, item)| *lane += number(item));
                }
                lanes.iter_mut().zip(rest).for_each(|(lane, item)| *lane += number(item));
                lanes.into_iter().for_each(|lane| self.add(id as usize, lane));
            }
            Ids::Each(ids) if self.many.is_empty() => {
                let few = self.few.as_mut_slice();
                let (id_fours, id_rest) = ids.as_chunks::<LANES>();
                let (fours, rest) = items.as_chunks::<LANES>();
                for (ids, four) in id_fours.iter().zip(fours) {
                    for lane in 0..LANES {
                        few[ids[lane] as usize][lane] += number(&four[lane]);
                    }
                }
                for (lane, (id, item)) in id_rest.iter().zip(rest).enumerate() {
                    few[*id as usize][lane] += number(item);
                }
            }
            Ids::Each(ids) => {
                for (id, item) in ids.iter().zip(items) {
                    self.many[*id as usize] += number(item);
                }
            }
        }
    }
}

/// Makes a fold that counts rows; with a column, those that are not NULL.
pub fn count() -> Box<dyn Fold> {
    Box::new(Count { counts: Sums::new() })
}

struct Count {
    counts: Sums<i64>,
}

impl Fold for Count {
    fn grow(&mut self, groups: usize) {
        self.counts.grow(groups);
    }

    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()> {
        check(ids, column, self.counts.len())?;
        let logical = column.and_then(|column| column.array.logical_nulls());
        match (column, logical, ids) {
            (Some(column), Some(nulls), _) => {
                for (id, row) in ids.iter().zip(column.rows.iter()) {
                    self.counts.add(id as usize, i64::from(nulls.is_valid(row as usize)));
                }
            }
            (_, _, Ids::One { id, rows }) => self.counts.add(id as usize, rows as i64),
            (_, _, Ids::Each(each)) => self.counts.add_items(ids, each, |_| 1),
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()> {
        let other = same_kind::<Self>(other, ids, |other| other.counts.len())?;
        ids.check(self.counts.len())?;
        ids.iter().enumerate().for_each(|(place, id)| self.counts.add(id as usize, other.counts.get(place)));
        Ok(())
    }

    fn finish(&self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values((0..self.counts.len()).map(|id| self.counts.get(id)))))
    }

    fn bytes(&self) -> usize {
        self.counts.bytes()
    }
}

/// Makes a fold that says which ids have a row; with a column, a row that is not NULL.
pub fn exists() -> Box<dyn Fold> {
    Box::new(Seen(Vec::new()))
}

/// A byte for each id: 1 if it has had a row.
struct Seen(Vec<u8>);

impl Seen {
    fn mark(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) {
        match (column.and_then(|column| column.array.logical_nulls()).zip(column), ids) {
            (Some((nulls, column)), _) => {
                for (id, row) in ids.iter().zip(column.rows.iter()) {
                    self.0[id as usize] |= u8::from(nulls.is_valid(row as usize));
                }
            }
            (None, Ids::One { rows: 0, .. }) => {}
            (None, _) => {
                let ids = if let Ids::One { id, .. } = ids { Ids::One { id, rows: 1 } } else { ids };
                ids.iter().for_each(|id| self.0[id as usize] = 1);
            }
        }
    }

    fn merge(&mut self, other: &Self, ids: Ids<'_>) {
        other.0.iter().zip(ids.iter()).for_each(|(seen, id)| self.0[id as usize] |= seen);
    }

    /// Returns the NULLs of results that need a row.
    fn nulls(&self) -> NullBuffer {
        NullBuffer::new(BooleanBuffer::collect_bool(self.0.len(), |id| self.0[id] != 0))
    }
}

impl Fold for Seen {
    fn grow(&mut self, groups: usize) {
        self.0.resize(groups.max(self.0.len()), 0);
    }

    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()> {
        check(ids, column, self.0.len())?;
        self.mark(ids, column);
        Ok(())
    }

    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()> {
        let other = same_kind::<Self>(other, ids, |other| other.0.len())?;
        ids.check(self.0.len())?;
        self.merge(other, ids);
        Ok(())
    }

    fn finish(&self) -> Result<ArrayRef> {
        Ok(Arc::new(BooleanArray::new(self.nulls().into_inner(), None)))
    }

    fn bytes(&self) -> usize {
        self.0.capacity()
    }
}

/// Makes a fold that finds the least position of the rows of each id, in the column's table; NULL
/// where there is none. What depends on the group alone is read there in the end.
pub fn first() -> Box<dyn Fold> {
    Box::new(First(Vec::new()))
}

struct First(Vec<u32>);

impl Fold for First {
    fn grow(&mut self, groups: usize) {
        self.0.resize(groups.max(self.0.len()), NO_POSITION);
    }

    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()> {
        check(ids, column, self.0.len())?;
        for (id, row) in ids.iter().zip(column.ok_or(NO_COLUMN)?.rows.iter()) {
            let least = &mut self.0[id as usize];
            *least = row.min(*least);
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()> {
        let other = same_kind::<Self>(other, ids, |other| other.0.len())?;
        ids.check(self.0.len())?;
        for (id, row) in ids.iter().zip(&other.0) {
            let least = &mut self.0[id as usize];
            *least = (*row).min(*least);
        }
        Ok(())
    }

    fn finish(&self) -> Result<ArrayRef> {
        let known = |position: &u32| (*position != NO_POSITION).then_some(*position);
        Ok(Arc::new(self.0.iter().map(known).collect::<UInt32Array>()))
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * 4
    }
}

#[cfg(test)]
mod tests;
