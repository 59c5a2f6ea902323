//! Window functions over sorted positions.
//!
//! Rows are sorted by the keys of PARTITION BY, then by those of ORDER BY
//! ([`order`](crate::order)). All results are in the sorted order; [`scattered`] brings them back
//! into another. What a function picks from other rows, as `lag` and minima of frames do, it gives as
//! positions, so that only values that are wanted are read, by
//! [`gather_or_null`](crate::gather::gather_or_null).
//!
//! An aggregate over whole partitions is a [`fold`](crate::fold) over [`Runs::ids`]. Other frames are
//! [`Frames`]: with RANGE, which is SQL's default, they end with the last peer of a row.

use crate::fold::{SumKind, exact_array, float_array, for_each_exact};
use crate::rows::for_each;
use crate::value::{Value, Values, comparator, fixed, nulls};
use crate::{Column, Error, NO_POSITION, Result, Rows, Selection, selection};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

mod frame;

pub use frame::{Bound, Frames};

const KERNEL: &str = "window";

/// Consecutive rows that belong together: partitions, or the peers in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Where each run begins, and where the last one ends.
    starts: Vec<u32>,
}

impl Runs {
    /// Cuts sorted rows where the value of a key changes; where `within` is given, also where its
    /// runs begin. NULL is one value, and so is NaN.
    pub fn new(keys: &[ArrayRef], sorted: &[u32], within: Option<&Runs>) -> Result<Self> {
        let rows = sorted.len();
        if within.is_some_and(|within| within.rows() != rows) {
            return Err(Error::Inputs { kernel: KERNEL, reason: "the runs are of other rows" });
        }
        if u32::try_from(rows).is_err() {
            return Err(Error::TooMany("the rows of a window"));
        }
        let mut begins = vec![0; rows];
        for key in keys {
            Rows::List(sorted).check(key.len())?;
            mark_changes(key, sorted, &mut begins)?;
        }
        let outer = within.map_or([].as_slice(), |within| &within.starts[..within.len()]);
        outer.iter().for_each(|start| begins[*start as usize] = 1);
        if let Some(first) = begins.first_mut() {
            *first = 1;
        }
        let mut starts = match selection::select(&begins, Rows::Range(0, rows as u32)) {
            Selection::Range(start, end) => (start..end).collect(),
            Selection::List(starts) => starts,
        };
        starts.push(rows as u32);
        Ok(Self { starts })
    }

    /// Returns how many runs there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many rows all runs have together.
    pub fn rows(&self) -> usize {
        self.starts.last().map_or(0, |end| *end as usize)
    }

    /// Returns the places of each run's rows.
    pub fn iter(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.starts.windows(2).map(|ends| ends[0] as usize..ends[1] as usize)
    }

    /// Returns the number of each row's run.
    pub fn ids(&self) -> Vec<u32> {
        self.spread(|run, _| run as u32)
    }

    /// Returns the place of the last row of each row's run.
    pub fn last_places(&self) -> Vec<u32> {
        self.spread(|_, places| places.end as u32 - 1)
    }

    /// Returns how many rows each row's run has.
    fn sizes(&self) -> Vec<u32> {
        self.spread(|_, places| places.len() as u32)
    }

    /// Returns a value for each row, which all rows of a run have.
    fn spread<T: Clone>(&self, value: impl Fn(usize, std::ops::Range<usize>) -> T) -> Vec<T> {
        let mut spread = Vec::with_capacity(self.rows());
        for (run, places) in self.iter().enumerate() {
            let rows = places.len();
            spread.extend(std::iter::repeat_n(value(run, places), rows));
        }
        spread
    }
}

/// Marks the rows at which a key differs from that of the row before.
fn mark_changes(key: &ArrayRef, sorted: &[u32], begins: &mut [u8]) -> Result<()> {
    fn changes<T: Value>(values: &[T], sorted: &[u32], begins: &mut [u8]) {
        let mut last = sorted.first().map(|row| values[*row as usize].word());
        for_each(values, Rows::List(sorted), |place, value| {
            let word = Some(value.word());
            begins[place] |= u8::from(word != last);
            last = word;
        });
    }
    let Some(nulls) = key.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        return fixed!(Values::of(KERNEL, key)?, values => {
            changes(values, sorted, begins);
            Ok(())
        }, _ => {
            let compare = comparator(KERNEL, key, key)?;
            for (place, rows) in sorted.windows(2).enumerate() {
                let is_equal = rows[0] == rows[1] || compare(rows[0] as usize, rows[1] as usize).is_eq();
                begins[place + 1] |= u8::from(!is_equal);
            }
            Ok(())
        });
    };
    let compare = comparator(KERNEL, key, key)?;
    for (place, rows) in sorted.windows(2).enumerate() {
        let (one, other) = (rows[0] as usize, rows[1] as usize);
        let is_equal = match (nulls.is_null(one), nulls.is_null(other)) {
            (false, false) => compare(one, other).is_eq(),
            (one, other) => one == other,
        };
        begins[place + 1] |= u8::from(!is_equal);
    }
    Ok(())
}

/// Returns the number of the bucket of each row, from 1: the rows of a partition are shared out to
/// so many buckets, the first of which have one row more if they do not come out even.
pub fn ntile(partitions: &Runs, buckets: u64) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(partitions.rows());
    let buckets = buckets.max(1);
    for places in partitions.iter() {
        let rows = places.len() as u64;
        let (base, larger) = (rows / buckets, rows % buckets);
        let in_larger = larger * (base + 1);
        numbers.extend((0..rows).map(|row| match row < in_larger {
            true => row / (base + 1) + 1,
            false => larger + (row - in_larger) / base + 1,
        }));
    }
    numbers
}

/// Returns the number of each row in its partition, from 1.
pub fn row_number(partitions: &Runs) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(partitions.rows());
    for places in partitions.iter() {
        numbers.extend(1..=places.len() as u64);
    }
    numbers
}

/// Returns one more than how many rows of its partition are before a row and its peers. Peers are
/// runs within the partitions.
pub fn rank(partitions: &Runs, peers: &Runs) -> Vec<u64> {
    ranks(partitions, peers, |start, peers, _| peers as u64 - start as u64 + 1)
}

/// Returns how many runs of peers of its partition are not behind a row.
pub fn dense_rank(partitions: &Runs, peers: &Runs) -> Vec<u64> {
    ranks(partitions, peers, |_, _, number| number)
}

/// Returns the share of the other rows of its partition that are before a row and its peers.
pub fn percent_rank(partitions: &Runs, peers: &Runs) -> Vec<f64> {
    let sizes = partitions.sizes();
    let share = |(rank, rows): (u64, u32)| (rank - 1) as f64 / (f64::from(rows) - 1.0).max(1.0);
    rank(partitions, peers).into_iter().zip(sizes).map(share).collect()
}

/// Returns the share of the rows of its partition that are not behind a row and its peers.
pub fn cume_dist(partitions: &Runs, peers: &Runs) -> Vec<f64> {
    let last = peers.last_places().into_iter();
    let begins = partitions.spread(|_, places| places.start as u32);
    let rows = last.zip(begins).map(|(last, begin)| f64::from(last + 1 - begin));
    rows.zip(partitions.sizes()).map(|(rows, all)| rows / f64::from(all)).collect()
}

/// Returns a number for each row from the place at which its partition begins, the one at which its
/// peers begin, and their number among the runs of peers of the partition.
fn ranks(partitions: &Runs, peers: &Runs, rank: impl Fn(u32, u32, u64) -> u64) -> Vec<u64> {
    let mut ranks = Vec::with_capacity(peers.rows());
    let mut next = partitions.starts.iter().copied().peekable();
    let (mut start, mut number) = (0, 0);
    for places in peers.iter() {
        let begin = places.start as u32;
        while let Some(partition) = next.next_if(|partition| *partition <= begin) {
            (start, number) = (partition, 0);
        }
        number += 1;
        ranks.extend(std::iter::repeat_n(rank(start, begin, number), places.len()));
    }
    ranks
}

/// Returns the position of the row that is `offset` rows before each row in its partition, or
/// behind it if the offset is negative; [`NO_POSITION`] where there is none.
pub fn lag(sorted: &[u32], partitions: &Runs, offset: i64) -> Result<Vec<u32>> {
    check(sorted, partitions)?;
    let mut found = Vec::with_capacity(sorted.len());
    for places in partitions.iter() {
        let rows = &sorted[places];
        let distance = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX).min(rows.len());
        let none = std::iter::repeat_n(NO_POSITION, distance);
        if offset >= 0 {
            found.extend(none);
            found.extend_from_slice(&rows[..rows.len() - distance]);
        } else {
            found.extend_from_slice(&rows[distance..]);
            found.extend(none);
        }
    }
    Ok(found)
}

/// Returns the sum of the values of the rows of its partition that are not behind a row, in a type
/// as for [`sum`](crate::fold::sum); NULL as long as there is none.
pub fn running_sum(
    array: &dyn Array,
    sorted: &[u32],
    partitions: &Runs,
    result: &DataType,
) -> Result<ArrayRef> {
    check(sorted, partitions)?;
    let column = Column::new(array, Rows::List(sorted))?;
    let kind = SumKind::new(array.data_type(), result)?;
    let nulls = running_nulls(column, partitions);
    match kind {
        SumKind::Exact => {
            let mut sums = vec![0_i128; sorted.len()];
            for_each_exact(column, |place, value| sums[place] = value)?;
            let mut overflow = false;
            for places in partitions.iter() {
                let mut sum = 0_i128;
                for value in &mut sums[places] {
                    let (next, is_over) = sum.overflowing_add(*value);
                    overflow |= is_over;
                    sum = next;
                    *value = sum;
                }
            }
            if overflow {
                return Err(Error::Overflow(result.clone()));
            }
            exact_array(result, sums.into_iter().map(Ok), nulls)
        }
        SumKind::Float => {
            let mut sums = vec![0.0; sorted.len()];
            match Values::of(KERNEL, array)? {
                Values::F32(values) => {
                    for_each(values, column.rows, |place, value| sums[place] = value.into())
                }
                Values::F64(values) => for_each(values, column.rows, |place, value| sums[place] = value),
                _ => {
                    return Err(Error::UnsupportedType {
                        kernel: KERNEL,
                        data_type: array.data_type().clone(),
                    });
                }
            }
            let is_null =
                |row: u32| crate::value::nulls(array).is_some_and(|nulls| nulls.is_null(row as usize));
            for places in partitions.iter() {
                let mut sum = 0.0;
                for (value, row) in sums[places.clone()].iter_mut().zip(&sorted[places]) {
                    if !is_null(*row) {
                        sum += *value;
                    }
                    *value = sum;
                }
            }
            Ok(float_array(result, sums.into_iter(), nulls))
        }
    }
}

/// Returns which rows have a value that is not NULL among those of their partition that are not
/// behind.
fn running_nulls(column: Column<'_>, partitions: &Runs) -> Option<NullBuffer> {
    let nulls = nulls(column.array)?;
    let mut valid: Vec<bool> = column.rows.iter().map(|row| nulls.is_valid(row as usize)).collect();
    for places in partitions.iter() {
        let mut seen = false;
        for valid in &mut valid[places] {
            seen |= *valid;
            *valid = seen;
        }
    }
    Some(NullBuffer::new(BooleanBuffer::from(valid)))
}

/// Returns results, which are in the sorted order, in the order of positions: of the positions of
/// all rows of a table, each once.
pub fn scattered<T: Copy + Default>(results: &[T], sorted: &[u32]) -> Result<Vec<T>> {
    if results.len() != sorted.len() {
        return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one result for each row" });
    }
    Rows::List(sorted).check(sorted.len())?;
    let mut scattered = vec![T::default(); sorted.len()];
    for (result, position) in results.iter().zip(sorted) {
        scattered[*position as usize] = *result;
    }
    Ok(scattered)
}

fn check(sorted: &[u32], partitions: &Runs) -> Result<()> {
    match partitions.rows() == sorted.len() {
        true => Ok(()),
        false => Err(Error::Inputs { kernel: KERNEL, reason: "the partitions are of other rows" }),
    }
}

#[cfg(test)]
mod tests;
