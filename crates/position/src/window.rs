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

use crate::rows::for_each;
use crate::share::{PIECE_ROWS, filled, share};
use crate::value::{Value, Values, comparator, fixed};
use crate::{Error, NO_POSITION, Result, Rows, Selection, Work, selection};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

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
    pub fn new(keys: &[ArrayRef], sorted: &[u32], within: Option<&Runs>, work: &Work<'_>) -> Result<Self> {
        let rows = sorted.len();
        if within.is_some_and(|within| within.rows() != rows) {
            return Err(Error::Inputs { kernel: KERNEL, reason: "the runs are of other rows" });
        }
        if u32::try_from(rows).is_err() {
            return Err(Error::TooMany("the rows of a window"));
        }
        keys.iter().try_for_each(|key| Rows::List(sorted).check(key.len()))?;
        let nulls: Vec<_> = keys.iter().map(|key| key.logical_nulls()).collect();
        let mut begins = filled(rows, work, |places, begins| {
            // The first row is compared with the one before it.
            let before = places.start.saturating_sub(1);
            let sorted = &sorted[before..places.end];
            let skipped = places.start - before;
            for (key, nulls) in keys.iter().zip(&nulls) {
                let nulls = nulls.as_ref().filter(|nulls| nulls.null_count() > 0);
                mark_changes(key, nulls, sorted, begins, skipped)?;
            }
            Ok(())
        })?;
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
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.windows(2).map(|ends| ends[0] as usize..ends[1] as usize)
    }

    /// Returns the number of each row's run.
    pub fn ids(&self, work: &Work<'_>) -> Result<Vec<u32>> {
        self.spread(work, |run, _| run as u32)
    }

    /// Returns the place of the last row of each row's run.
    pub fn last_places(&self, work: &Work<'_>) -> Result<Vec<u32>> {
        self.spread(work, |_, places| places.end as u32 - 1)
    }

    /// Returns the number of the run that the row at a place is in.
    fn run_of(&self, place: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= place).saturating_sub(1)
    }

    /// Returns the places of a run's rows.
    fn places(&self, run: usize) -> Range<usize> {
        self.starts[run] as usize..self.starts[run + 1] as usize
    }

    /// Returns the runs that have some of the rows at a range of places: their numbers, all of their
    /// places, and how many of the range's rows they have.
    fn over(&self, places: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
        let first = self.run_of(places.start);
        (first..self.len()).map_while(move |run| {
            let own = self.places(run);
            let rows = own.end.min(places.end).checked_sub(own.start.max(places.start))?;
            (rows > 0).then_some((run, own, rows))
        })
    }

    /// Returns a value for each row, which all rows of a run have.
    fn spread<T: Copy + Default + Send>(
        &self,
        work: &Work<'_>,
        value: impl Fn(usize, Range<usize>) -> T + Sync,
    ) -> Result<Vec<T>> {
        filled(self.rows(), work, |places, mut values| {
            for (run, own, rows) in self.over(places) {
                let (of_run, rest) = values.split_at_mut(rows);
                of_run.fill(value(run, own));
                values = rest;
            }
            Ok(())
        })
    }
}

/// Marks the rows at which a key differs from that of the row before. There is no mark for so many of
/// the first rows, with which others are only compared.
fn mark_changes(
    key: &ArrayRef,
    nulls: Option<&NullBuffer>,
    sorted: &[u32],
    begins: &mut [u8],
    skipped: usize,
) -> Result<()> {
    fn changes<T: Value>(values: &[T], sorted: &[u32], begins: &mut [u8], skipped: usize) {
        let Some(first) = sorted.first() else { return };
        let mut last = values[*first as usize].word();
        for_each(values, Rows::List(&sorted[skipped..]), |place, value| {
            let word = value.word();
            begins[place] |= u8::from(word != last);
            last = word;
        });
    }
    let mut compared = |is_equal: &dyn Fn(usize, usize) -> bool| {
        for (place, rows) in sorted.windows(2).enumerate() {
            let is_equal = is_equal(rows[0] as usize, rows[1] as usize);
            begins[place + 1 - skipped] |= u8::from(!is_equal);
        }
    };
    if let Some(nulls) = nulls {
        let compare = comparator(KERNEL, key, key)?;
        compared(&|one, other| match (nulls.is_null(one), nulls.is_null(other)) {
            (false, false) => compare(one, other).is_eq(),
            (one, other) => one == other,
        });
        return Ok(());
    }
    fixed!(Values::of(KERNEL, key)?, values => changes(values, sorted, begins, skipped), _ => {
        let compare = comparator(KERNEL, key, key)?;
        compared(&|one, other| one == other || compare(one, other).is_eq());
    });
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
pub fn rank(partitions: &Runs, peers: &Runs, work: &Work<'_>) -> Result<Vec<u64>> {
    of_peers(partitions, peers, work, |partition, peers, _| (peers.start - partition.start) as u64 + 1)
}

/// Returns how many runs of peers of its partition are not behind a row.
pub fn dense_rank(partitions: &Runs, peers: &Runs, work: &Work<'_>) -> Result<Vec<u64>> {
    of_peers(partitions, peers, work, |_, _, number| number)
}

/// Returns the share of the other rows of its partition that are before a row and its peers.
pub fn percent_rank(partitions: &Runs, peers: &Runs, work: &Work<'_>) -> Result<Vec<f64>> {
    of_peers(partitions, peers, work, |partition, peers, _| {
        (peers.start - partition.start) as f64 / (partition.len() as f64 - 1.0).max(1.0)
    })
}

/// Returns the share of the rows of its partition that are not behind a row and its peers.
pub fn cume_dist(partitions: &Runs, peers: &Runs, work: &Work<'_>) -> Result<Vec<f64>> {
    of_peers(partitions, peers, work, |partition, peers, _| {
        (peers.end - partition.start) as f64 / partition.len() as f64
    })
}

/// Returns a number for each row from the places of its partition, those of its peers, and their number
/// among the runs of peers of the partition, from 1.
fn of_peers<T: Copy + Default + Send>(
    partitions: &Runs,
    peers: &Runs,
    work: &Work<'_>,
    number: impl Fn(Range<usize>, Range<usize>, u64) -> T + Sync,
) -> Result<Vec<T>> {
    filled(peers.rows(), work, |places, mut values| {
        let mut partition = 0..0;
        let mut first = 0;
        for (run, own, rows) in peers.over(places) {
            if own.start >= partition.end {
                partition = partitions.places(partitions.run_of(own.start));
                first = peers.run_of(partition.start);
            }
            let (of_run, rest) = values.split_at_mut(rows);
            of_run.fill(number(partition.clone(), own, (run - first) as u64 + 1));
            values = rest;
        }
        Ok(())
    })
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

/// Returns results, which are in the sorted order, in the order of positions: of the positions of
/// all rows of a table, each once.
pub fn scattered(results: &[u32], sorted: &[u32], work: &Work<'_>) -> Result<Vec<u32>> {
    if results.len() != sorted.len() {
        return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one result for each row" });
    }
    Rows::List(sorted).check(sorted.len())?;
    let scattered: Vec<AtomicU32> = sorted.iter().map(|_| AtomicU32::new(0)).collect();
    let parts = results.chunks(PIECE_ROWS).zip(sorted.chunks(PIECE_ROWS));
    share(parts.collect(), work.threads, |(results, sorted)| {
        (work.go_on)()?;
        for (result, position) in results.iter().zip(sorted) {
            scattered[*position as usize].store(*result, Ordering::Relaxed);
        }
        Ok(())
    })?;
    Ok(scattered.into_iter().map(AtomicU32::into_inner).collect())
}

fn check(sorted: &[u32], partitions: &Runs) -> Result<()> {
    match partitions.rows() == sorted.len() {
        true => Ok(()),
        false => Err(Error::Inputs { kernel: KERNEL, reason: "the partitions are of other rows" }),
    }
}

#[cfg(test)]
mod tests;
