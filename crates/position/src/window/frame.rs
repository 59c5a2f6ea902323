//! Functions over frames: for each row some of the neighbouring rows of its partition.

use super::{KERNEL, Runs, running_sum};
use crate::fold::{SumKind, exact_array, for_each_exact};
use crate::gather::gather_or_null;
use crate::value::{Value, Values, comparator, fixed};
use crate::{Column, Error, NO_POSITION, Result, Rows};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use std::collections::VecDeque;

/// Where a frame begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Where the partition does.
    Partition,
    /// Where the peers of the row do.
    Peers,
    /// So many rows behind the row, or before it if the number is negative.
    Row(i64),
}

/// The frame of each row, by places among the sorted rows. Frames of one partition begin and end in
/// the order of their rows.
#[derive(Clone, Debug)]
pub struct Frames {
    starts: Vec<u32>,
    /// The places behind the last ones.
    ends: Vec<u32>,
    from_partition: bool,
}

impl Frames {
    /// Finds the frames of all rows. Peers are runs within the partitions.
    pub fn new(partitions: &Runs, peers: &Runs, start: Bound, end: Bound) -> Result<Self> {
        let rows = partitions.rows();
        if peers.rows() != rows {
            return Err(Error::Inputs { kernel: KERNEL, reason: "the peers are of other rows" });
        }
        let (mut starts, mut ends) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut of_peers = peers.iter().peekable();
        for partition in partitions.iter() {
            let within = |place: usize, offset: i64| {
                let place = place as i128 + i128::from(offset);
                place.clamp(partition.start as i128, partition.end as i128) as u32
            };
            while let Some(own) = of_peers.next_if(|own| own.end <= partition.end) {
                for place in own.clone() {
                    starts.push(match start {
                        Bound::Partition => partition.start as u32,
                        Bound::Peers => own.start as u32,
                        Bound::Row(offset) => within(place, offset),
                    });
                    ends.push(match end {
                        Bound::Partition => partition.end as u32,
                        Bound::Peers => own.end as u32,
                        Bound::Row(offset) => within(place + 1, offset),
                    });
                }
            }
        }
        if starts.len() != rows {
            return Err(Error::Inputs { kernel: KERNEL, reason: "peers are of several partitions" });
        }
        Ok(Self { starts, ends, from_partition: start == Bound::Partition })
    }

    /// Returns how many rows there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.starts.iter().zip(&self.ends).map(|(start, end)| (*start, *end.max(start)))
    }

    /// Returns the position of the row that is `number` rows behind the first one of each frame;
    /// [`NO_POSITION`] where there is none.
    pub fn from_first(&self, sorted: &[u32], number: u64) -> Result<Vec<u32>> {
        self.check(sorted)?;
        let nth = |(start, end): (u32, u32)| match u64::from(end - start) > number {
            true => sorted[start as usize + number as usize],
            false => NO_POSITION,
        };
        Ok(self.iter().map(nth).collect())
    }

    /// Returns the position of the last row of each frame; [`NO_POSITION`] where there is none.
    pub fn last(&self, sorted: &[u32]) -> Result<Vec<u32>> {
        self.check(sorted)?;
        let last = |(start, end): (u32, u32)| match start < end {
            true => sorted[end as usize - 1],
            false => NO_POSITION,
        };
        Ok(self.iter().map(last).collect())
    }

    /// Returns how many rows each frame has.
    pub fn sizes(&self) -> Vec<i64> {
        self.iter().map(|(start, end)| i64::from(end - start)).collect()
    }

    /// Returns how many rows of each frame have a value that is not NULL.
    pub fn count(&self, array: &dyn Array, sorted: &[u32]) -> Result<Vec<i64>> {
        self.check(sorted)?;
        Rows::List(sorted).check(array.len())?;
        let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Ok(self.sizes());
        };
        let mut counts = Vec::with_capacity(sorted.len() + 1);
        let mut count = 0;
        counts.push(count);
        for row in sorted {
            count += i64::from(nulls.is_valid(*row as usize));
            counts.push(count);
        }
        Ok(self.iter().map(|(start, end)| counts[end as usize] - counts[start as usize]).collect())
    }

    /// Returns the sum of the values of each frame, in a type as for [`sum`](crate::fold::sum);
    /// NULL where there is none. Floating-point numbers are added in order, so that their frames
    /// must begin with the partition.
    pub fn sum(
        &self,
        array: &dyn Array,
        sorted: &[u32],
        partitions: &Runs,
        result: &DataType,
    ) -> Result<ArrayRef> {
        self.check(sorted)?;
        super::check(sorted, partitions)?;
        if SumKind::new(array.data_type(), result)? == SumKind::Float {
            if !self.from_partition {
                return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() });
            }
            let sums = running_sum(array, sorted, partitions, result)?;
            let last = |(start, end): (u32, u32)| if start < end { end - 1 } else { NO_POSITION };
            return gather_or_null(&sums, &self.iter().map(last).collect::<Vec<_>>());
        }
        let column = Column::new(array, Rows::List(sorted))?;
        let mut sums = vec![0_i128; sorted.len() + 1];
        for_each_exact(column, |place, value| sums[place + 1] = value)?;
        let mut overflow = false;
        // Up to each row of its partition; what is before the first one is subtracted as zero.
        for places in partitions.iter() {
            let mut sum = 0_i128;
            for value in &mut sums[places.start + 1..places.end + 1] {
                let (next, is_over) = sum.overflowing_add(*value);
                overflow |= is_over;
                sum = next;
                *value = sum;
            }
        }
        if overflow {
            return Err(Error::Overflow(result.clone()));
        }
        let begins =
            partitions.iter().flat_map(|places| std::iter::repeat_n(places.start as u32, places.len()));
        let sum = |((start, end), begin): ((u32, u32), u32)| {
            let up_to = |place: u32| if place > begin { sums[place as usize] } else { 0 };
            up_to(end).checked_sub(up_to(start)).ok_or_else(|| Error::Overflow(result.clone()))
        };
        let counts = self.count(array, sorted)?;
        let nulls = NullBuffer::from_iter(counts.iter().map(|count| *count > 0));
        exact_array(
            result,
            self.iter().zip(begins).map(sum),
            Some(nulls).filter(|nulls| nulls.null_count() > 0),
        )
    }

    /// Returns the position of the least value, or with `greatest` of the greatest one, of each
    /// frame; the first of equal ones, and [`NO_POSITION`] where all are NULL.
    pub fn extreme(&self, array: &dyn Array, sorted: &[u32], greatest: bool) -> Result<Vec<u32>> {
        fn typed<T: Value>(
            frames: &Frames,
            values: &[T],
            nulls: Option<&NullBuffer>,
            sorted: &[u32],
            greatest: bool,
        ) -> Vec<u32> {
            frames.extremes(nulls, sorted, |one, other| {
                let (one, other) = (values[one as usize].word(), values[other as usize].word());
                if greatest { one > other } else { one < other }
            })
        }
        self.check(sorted)?;
        Rows::List(sorted).check(array.len())?;
        let nulls = array.logical_nulls();
        let nulls = nulls.as_ref();
        fixed!(Values::of(KERNEL, array)?, values => Ok(typed(self, values, nulls, sorted, greatest)), _ => {
            let compare = comparator(KERNEL, array, array)?;
            Ok(self.extremes(nulls, sorted, |one, other| {
                let order = compare(one as usize, other as usize);
                if greatest { order.is_gt() } else { order.is_lt() }
            }))
        })
    }

    fn extremes(
        &self,
        nulls: Option<&NullBuffer>,
        sorted: &[u32],
        better: impl Fn(u32, u32) -> bool,
    ) -> Vec<u32> {
        let mut found = Vec::with_capacity(sorted.len());
        // Places whose values may yet be the best of a frame: each is better than all behind it.
        let mut best: VecDeque<u32> = VecDeque::new();
        let mut next = 0;
        for (start, end) in self.iter() {
            next = next.max(start);
            while next < end {
                let row = sorted[next as usize];
                if nulls.is_none_or(|nulls| nulls.is_valid(row as usize)) {
                    while best.back().is_some_and(|place| better(row, sorted[*place as usize])) {
                        best.pop_back();
                    }
                    best.push_back(next);
                }
                next += 1;
            }
            while best.front().is_some_and(|place| *place < start) {
                best.pop_front();
            }
            found.push(best.front().map_or(NO_POSITION, |place| sorted[*place as usize]));
        }
        found
    }

    fn check(&self, sorted: &[u32]) -> Result<()> {
        match self.len() == sorted.len() {
            true => Ok(()),
            false => Err(Error::Inputs { kernel: KERNEL, reason: "the frames are of other rows" }),
        }
    }
}
