//! Functions over frames: for each row some of the neighbouring rows of its partition.

use super::{KERNEL, Runs};
use crate::fold::{SumKind, exact_array, float_array, for_each_exact};
use crate::rows::for_each;
use crate::share::filled;
use crate::value::{Value, Values, comparator, fixed};
use crate::{Column, Error, NO_POSITION, Result, Rows, Work};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, Int64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

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

/// What is added up.
struct Of<'a> {
    column: Column<'a>,
    partitions: &'a Runs,
    result: &'a DataType,
    work: &'a Work<'a>,
}

/// The numbers in which exact values are added.
trait Number: ArrowNativeTypeOp + TryFrom<i128> + Into<i128> {
    fn array(sums: Vec<Self>, result: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        exact_array(result, sums.into_iter().map(|sum| Ok(sum.into())), nulls)
    }
}

impl Number for i64 {
    fn array(sums: Vec<Self>, result: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        match result {
            DataType::Int64 => Ok(Arc::new(Int64Array::new(sums.into(), nulls))),
            _ => exact_array(result, sums.into_iter().map(|sum| Ok(sum.into())), nulls),
        }
    }
}

impl Number for i128 {}

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
    pub fn new(partitions: &Runs, peers: &Runs, start: Bound, end: Bound, work: &Work<'_>) -> Result<Self> {
        let rows = partitions.rows();
        if peers.rows() != rows {
            return Err(Error::Inputs { kernel: KERNEL, reason: "the peers are of other rows" });
        }
        let find = |bound: Bound, behind: usize| {
            filled(rows, work, |places, found| {
                let (mut partition, first) = (0..0, places.start);
                let mut place = first;
                for (_, own, rows) in peers.over(places) {
                    if own.start >= partition.end {
                        partition = partitions.places(partitions.run_of(own.start));
                    }
                    if own.start < partition.start || own.end > partition.end {
                        let reason = "peers are of several partitions";
                        return Err(Error::Inputs { kernel: KERNEL, reason });
                    }
                    let ends = |run: &Range<usize>| [run.start, run.end][behind] as u32;
                    for found in &mut found[place - first..][..rows] {
                        *found = match bound {
                            Bound::Partition => ends(&partition),
                            Bound::Peers => ends(&own),
                            Bound::Row(offset) => {
                                let place = (place + behind) as i128 + i128::from(offset);
                                place.clamp(partition.start as i128, partition.end as i128) as u32
                            }
                        };
                        place += 1;
                    }
                }
                Ok(())
            })
        };
        Ok(Self { starts: find(start, 0)?, ends: find(end, 1)?, from_partition: start == Bound::Partition })
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
        self.part(0..self.len())
    }

    /// Returns the frames of the rows at some places.
    fn part(&self, places: Range<usize>) -> impl Iterator<Item = (u32, u32)> {
        let frames = self.starts[places.clone()].iter().zip(&self.ends[places]);
        frames.map(|(start, end)| (*start, *end.max(start)))
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
        work: &Work<'_>,
    ) -> Result<ArrayRef> {
        self.check(sorted)?;
        super::check(sorted, partitions)?;
        let of = Of { column: Column::new(array, Rows::List(sorted))?, partitions, result, work };
        if SumKind::new(array.data_type(), result)? == SumKind::Float {
            return self.float_sum(&of);
        }
        // Most sums fit into 64 bits, which take half of the time.
        match self.exact_sum::<i64>(&of) {
            Err(Error::Overflow(_)) => self.exact_sum::<i128>(&of),
            other => other,
        }
    }

    fn exact_sum<N: Number>(&self, of: &Of<'_>) -> Result<ArrayRef> {
        let Of { column, partitions, result, work } = of;
        let overflow = || Error::Overflow((*result).clone());
        let mut sums = filled(column.rows.len(), work, |places, values: &mut [N]| {
            let mut fits = true;
            let part = Column { array: column.array, rows: column.rows.part(places) };
            for_each_exact(part, |place, value| match N::try_from(value) {
                Ok(value) => values[place] = value,
                Err(_) => fits = false,
            })?;
            if fits { Ok(()) } else { Err(overflow()) }
        })?;
        // Up to each row of its partition.
        for places in partitions.iter() {
            let mut sum = N::default();
            for value in &mut sums[places] {
                sum = sum.add_checked(*value).map_err(|_| overflow())?;
                *value = sum;
            }
        }
        let totals = filled(sums.len(), work, |places, mut totals: &mut [N]| {
            let mut frames = self.part(places.clone());
            for (_, partition, rows) in partitions.over(places) {
                let up_to = |place: u32| match place as usize > partition.start {
                    true => sums[place as usize - 1],
                    false => N::default(),
                };
                let (own, rest) = totals.split_at_mut(rows);
                for (total, (start, end)) in own.iter_mut().zip(&mut frames) {
                    *total = up_to(end).sub_checked(up_to(start)).map_err(|_| overflow())?;
                }
                totals = rest;
            }
            Ok(())
        })?;
        N::array(totals, result, self.without_values(column)?)
    }

    fn float_sum(&self, of: &Of<'_>) -> Result<ArrayRef> {
        let Of { column, partitions, result, work } = of;
        let unsupported =
            || Error::UnsupportedType { kernel: KERNEL, data_type: column.array.data_type().clone() };
        if !self.from_partition {
            return Err(unsupported());
        }
        let nulls = column.array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let mut sums = filled(column.rows.len(), work, |places, sums: &mut [f64]| {
            let rows = column.rows.part(places);
            match Values::of(KERNEL, column.array)? {
                Values::F32(values) => for_each(values, rows, |place, value| sums[place] = value.into()),
                Values::F64(values) => for_each(values, rows, |place, value| sums[place] = value),
                _ => return Err(unsupported()),
            }
            if let Some(nulls) = &nulls {
                for (sum, row) in sums.iter_mut().zip(rows.iter()) {
                    // Adding it changes nothing.
                    *sum = if nulls.is_null(row as usize) { -0.0 } else { *sum };
                }
            }
            Ok(())
        })?;
        for places in partitions.iter() {
            let mut sum = 0.0;
            for value in &mut sums[places] {
                sum += *value;
                *value = sum;
            }
        }
        let last = |(start, end): (u32, u32)| if start < end { sums[end as usize - 1] } else { 0.0 };
        Ok(float_array(result, self.iter().map(last), self.without_values(column)?))
    }

    /// Returns which frames have no value; `None` if all have one.
    fn without_values(&self, column: &Column<'_>) -> Result<Option<NullBuffer>> {
        let nulls = match column.rows {
            Rows::List(sorted) if column.array.is_nullable() => {
                let counts = self.count(column.array, sorted)?;
                NullBuffer::new(BooleanBuffer::collect_bool(counts.len(), |place| counts[place] > 0))
            }
            _ if self.starts.iter().zip(&self.ends).all(|(start, end)| start < end) => return Ok(None),
            _ => {
                let has_rows = |place| self.starts[place] < self.ends[place];
                NullBuffer::new(BooleanBuffer::collect_bool(self.len(), has_rows))
            }
        };
        Ok(Some(nulls).filter(|nulls| nulls.null_count() > 0))
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
