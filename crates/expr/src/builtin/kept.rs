//! Aggregates of groups that need all values of a group: these lie in few arrays, with the group of
//! each, and are brought together in the end.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use std::ops::Range;
use std::sync::Arc;

/// Returns the result of a group of its values, none of which is NULL.
pub(super) type OfGroup = Box<dyn Fn(ArrayRef) -> Result<ScalarValue> + Send>;

/// All values of groups that are not NULL.
pub(super) struct Kept {
    of: DataType,
    gives: DataType,
    of_group: OfGroup,
    values: Vec<ArrayRef>,
    /// The group of each value.
    groups: Vec<u32>,
    count: usize,
    bytes: usize,
}

impl Kept {
    pub fn new(of: DataType, gives: DataType, of_group: OfGroup) -> Self {
        Self { of, gives, of_group, values: Vec::new(), groups: Vec::new(), count: 0, bytes: 0 }
    }

    /// Keeps the values at some places.
    fn keep(&mut self, values: &ArrayRef, places: Vec<u32>) -> Result<()> {
        if places.is_empty() || values.data_type().is_null() {
            self.groups.truncate(self.values.iter().map(|values| values.len()).sum());
            return Ok(());
        }
        let kept = match places.len() == values.len() {
            true => values.clone(),
            false => take(values, &UInt32Array::from(places), None)?,
        };
        self.bytes += kept.to_data().get_slice_memory_size().unwrap_or_default();
        self.values.push(kept);
        Ok(())
    }

    /// Returns the values of the first groups, group by group, and where those of each lie; the other
    /// groups stay.
    fn taken(&mut self, emit_to: EmitTo) -> Result<(ArrayRef, Vec<Range<usize>>)> {
        let given = match emit_to {
            EmitTo::All => self.count,
            EmitTo::First(groups) => groups.min(self.count),
        };
        let parts: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
        let all = if parts.is_empty() { new_empty_array(&self.of) } else { concat(&parts)? };
        let mut sizes = vec![0_usize; given];
        let (mut stay, mut of_others) = (Vec::new(), Vec::new());
        for (place, group) in (0..).zip(&self.groups) {
            match sizes.get_mut(*group as usize) {
                Some(size) => *size += 1,
                None => {
                    stay.push(place);
                    of_others.push(*group - given as u32);
                }
            }
        }
        let mut ends = Vec::with_capacity(given);
        let mut start = 0;
        for size in &sizes {
            ends.push(start);
            start += size;
        }
        let mut places = vec![0_u32; start];
        for (place, group) in (0..).zip(&self.groups) {
            if let Some(end) = ends.get_mut(*group as usize) {
                places[*end] = place;
                *end += 1;
            }
        }
        let ranges = sizes.iter().zip(&ends).map(|(size, end)| end - size..*end).collect();
        let found = take(&all, &UInt32Array::from(places), None)?;
        self.values =
            if stay.is_empty() { Vec::new() } else { vec![take(&all, &UInt32Array::from(stay), None)?] };
        self.bytes = self.values.iter().map(|values| values.get_array_memory_size()).sum();
        self.groups = of_others;
        self.count -= given;
        Ok((found, ranges))
    }
}

/// Returns what tells whether the value of a row is kept.
fn kept(values: &ArrayRef, filter: Option<&BooleanArray>) -> impl Fn(usize) -> bool {
    let nulls = values.logical_nulls();
    move |row| {
        nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
            && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
    }
}

impl GroupsAccumulator for Kept {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.count = groups;
        let values = values.first().ok_or_else(|| internal_datafusion_err!("values are of one column"))?;
        let is_kept = kept(values, filter);
        let mut places = Vec::with_capacity(group_indices.len());
        for (row, group) in group_indices.iter().enumerate().filter(|(row, _)| is_kept(*row)) {
            places.push(row as u32);
            self.groups.push(*group as u32);
        }
        self.keep(values, places)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (values, ranges) = self.taken(emit_to)?;
        if ranges.is_empty() {
            return Ok(new_empty_array(&self.gives));
        }
        let results = ranges.into_iter().map(|range| (self.of_group)(values.slice(range.start, range.len())));
        ScalarValue::iter_to_array(results.collect::<Result<Vec<_>>>()?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (values, ranges) = self.taken(emit_to)?;
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        let offsets = OffsetBuffer::from_lengths(ranges.iter().map(|range| range.len()));
        Ok(vec![Arc::new(ListArray::try_new(field, offsets, values, None)?)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.count = groups;
        let lists = states.first().and_then(|lists| lists.as_list_opt::<i32>());
        let lists = lists.ok_or_else(|| internal_datafusion_err!("the state of kept values is a list"))?;
        let mut places = Vec::new();
        for (row, group) in group_indices.iter().enumerate().filter(|(row, _)| lists.is_valid(*row)) {
            let (start, end) = (lists.value_offsets()[row] as u32, lists.value_offsets()[row + 1] as u32);
            places.extend(start..end);
            self.groups.extend(std::iter::repeat_n(*group as u32, (end - start) as usize));
        }
        self.keep(lists.values(), places)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values.first().ok_or_else(|| internal_datafusion_err!("values are of one column"))?;
        let is_kept = kept(values, filter);
        let places: UInt32Array = (0..values.len() as u32).filter(|row| is_kept(*row as usize)).collect();
        let offsets = OffsetBuffer::from_lengths((0..values.len()).map(|row| usize::from(is_kept(row))));
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        Ok(vec![Arc::new(ListArray::try_new(field, offsets, take(values, &places, None)?, None)?)])
    }

    fn size(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<u32>()
    }
}
