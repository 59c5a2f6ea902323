//! Aggregates of the moments of numbers, or of pairs of numbers: variances, covariances and linear
//! regression. DataFusion's round the mean after each value, and take a value that is no number, or
//! infinite, for one without a distance from itself.

use crate::sliding_numbers::{MOMENTS, Moments, Part, of_moments};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// What an aggregate makes of the moments of its values.
type Outcome = fn(&Moments) -> Option<f64>;

/// Returns the columns of a state.
pub fn state_fields(name: &str) -> Vec<FieldRef> {
    let names = ["count", "sum", "sum2", "squares", "squares2", "products"];
    let field = |part| Arc::new(Field::new(format_state_name(name, part), DataType::Float64, true));
    names.into_iter().map(field).collect()
}

/// Returns the accumulator of an aggregate, which gives a type; `None` for others.
pub fn accumulator(name: &str, gives: &DataType) -> Option<Box<dyn Accumulator>> {
    let outcome = of_moments(name)?;
    Some(Box::new(OfValues { total: Moments::NONE, outcome, gives: gives.clone() }))
}

/// Returns the accumulator of groups of an aggregate, which gives a type; `None` for others.
pub fn groups(name: &str, gives: &DataType) -> Option<Box<dyn GroupsAccumulator>> {
    let outcome = of_moments(name)?;
    Some(Box::new(OfGroups { groups: Vec::new(), outcome, gives: gives.clone() }))
}

fn doubles(values: &[ArrayRef]) -> Result<Vec<Float64Array>> {
    let double = |values: &ArrayRef| -> Result<Float64Array> {
        Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
    };
    values.iter().map(double).collect()
}

/// Calls a function with the row and the moments of each pair of values that are not NULL.
fn for_each(values: &[ArrayRef], mut function: impl FnMut(usize, Moments)) -> Result<()> {
    match doubles(values)?.as_slice() {
        [values] => {
            let known = values.iter().enumerate().filter_map(|(row, value)| Some((row, value?)));
            known.for_each(|(row, value)| function(row, Moments::of(value, 0.0)));
        }
        [first, second] => {
            let pairs = first.iter().zip(second).enumerate();
            let known = pairs.filter_map(|(row, (first, second))| Some((row, first?, second?)));
            known.for_each(|(row, first, second)| function(row, Moments::of(first, second)));
        }
        _ => return Err(internal_datafusion_err!("moments are of one or two columns")),
    }
    Ok(())
}

/// Calls a function with the row and the moments of each state.
fn for_each_state(states: &[ArrayRef], mut function: impl FnMut(usize, Moments)) -> Result<()> {
    let states = doubles(states)?;
    if states.len() != MOMENTS {
        return Err(internal_datafusion_err!("the state of moments has {MOMENTS} columns"));
    }
    for row in (0..states[0].len()).filter(|row| states[0].is_valid(*row)) {
        let mut state = [0.0; MOMENTS];
        state.iter_mut().zip(&states).for_each(|(number, column)| *number = column.value(row));
        function(row, Moments::of_state(state));
    }
    Ok(())
}

#[derive(Debug)]
struct OfValues {
    total: Moments,
    outcome: Outcome,
    gives: DataType,
}

impl Accumulator for OfValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(values, |_, of| self.total = self.total.joined(of))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64((self.outcome)(&self.total)).cast_to(&self.gives)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.total.state().into_iter().map(ScalarValue::from).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for_each_state(states, |_, of| self.total = self.total.joined(of))
    }
}

struct OfGroups {
    groups: Vec<Moments>,
    outcome: Outcome,
    gives: DataType,
}

impl OfGroups {
    fn add(&mut self, group: usize, of: Moments) {
        self.groups[group] = self.groups[group].joined(of);
    }
}

impl GroupsAccumulator for OfGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.groups.resize(groups, Moments::NONE);
        let passes = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for_each(values, |row, of| {
            if passes(row) {
                self.add(group_indices[row], of);
            }
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let results: Float64Array = groups.iter().map(self.outcome).collect();
        Ok(cast(&results, &self.gives)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states: Vec<_> = emit_to.take_needed(&mut self.groups).iter().map(Moments::state).collect();
        let column = |place: usize| {
            let column = Float64Array::from_iter_values(states.iter().map(|state| state[place]));
            Arc::new(column) as ArrayRef
        };
        Ok((0..MOMENTS).map(column).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.groups.resize(groups, Moments::NONE);
        for_each_state(states, |row, of| self.add(group_indices[row], of))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let mut made = Self { groups: Vec::new(), outcome: self.outcome, gives: self.gives.clone() };
        made.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        made.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Moments>()
    }
}
