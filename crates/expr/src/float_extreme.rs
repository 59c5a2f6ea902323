//! `min` and `max` of floating-point numbers: there is one NaN, which is greater than all numbers,
//! as in comparisons and in the order of rows. DataFusion's give what the order of rows makes of it.

use crate::portable::{Decoder, Functions, Portable};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, ExprSchemable, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, Volatility, WindowFunctionDefinition,
};
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

/// Takes these functions for DataFusion's where they are of floating-point numbers.
pub fn in_plan(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> =
        LazyLock::new(|| [false, true].map(|greatest| Arc::new(FloatExtreme::new(greatest).into())));
    let of = |name: &str, args: &[Expr]| {
        let is_float = matches!(args, [of] if of.get_type(schema).is_ok_and(|of| is_float(&of)));
        match name {
            "min" if is_float => Some(FUNCTIONS[0].clone()),
            "max" if is_float => Some(FUNCTIONS[1].clone()),
            _ => None,
        }
    };
    let function = match &expression {
        Expr::AggregateFunction(call) if !call.func.inner().is::<FloatExtreme>() => {
            of(call.func.name(), &call.params.args)
        }
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) if !function.inner().is::<FloatExtreme>() => {
                of(function.name(), &call.params.args)
            }
            _ => None,
        },
        _ => None,
    };
    let Some(function) = function else { return Ok(Transformed::no(expression)) };
    match &mut expression {
        Expr::AggregateFunction(call) => call.func = function,
        Expr::WindowFunction(call) => call.fun = WindowFunctionDefinition::AggregateUDF(function),
        _ => {}
    }
    Ok(Transformed::yes(expression))
}

fn is_float(of: &DataType) -> bool {
    matches!(of, DataType::Float32 | DataType::Float64)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FloatExtreme {
    greatest: bool,
    signature: Signature,
}

impl FloatExtreme {
    fn new(greatest: bool) -> Self {
        Self { greatest, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl Portable for FloatExtreme {
    type Function = AggregateUDF;

    const TAG: &'static str = "float_extreme";

    /// Whether the greatest is chosen.
    type Parameters = bool;

    fn parameters(&self, _: &Functions) -> Result<bool> {
        Ok(self.greatest)
    }

    fn from_parameters(greatest: bool, _: &Decoder<'_>) -> Result<Self> {
        Ok(Self::new(greatest))
    }
}

impl AggregateUDFImpl for FloatExtreme {
    fn name(&self) -> &str {
        if self.greatest { "max" } else { "min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [of] if is_float(of) => Ok(types.to_vec()),
            _ => Err(plan_datafusion_err!("this {}() is of a floating-point number", self.name())),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| plan_datafusion_err!("{}() of nothing", self.name()))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let gives = args.return_field.data_type().clone();
        Ok(Box::new(Extreme { greatest: self.greatest, gives, best: None }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let gives = args.return_field.data_type().clone();
        Ok(Box::new(Moving { greatest: self.greatest, gives, best: VecDeque::new(), first: 0, next: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[{}]", args.name, self.name());
        Ok(vec![Arc::new(Field::new(name, args.return_type().clone(), true))])
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let gives = args.return_field.data_type().clone();
        Ok(Box::new(Groups { greatest: self.greatest, gives, best: Vec::new() }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        let inner = if self.greatest { max_udaf() } else { min_udaf() };
        inner.inner().value_from_stats(args)
    }

    fn set_monotonicity(&self, _: &DataType) -> SetMonotonicity {
        if self.greatest { SetMonotonicity::Increasing } else { SetMonotonicity::Decreasing }
    }
}

/// Tells whether a value takes the place of another one. The order of rows does not matter: of the
/// two zeros −0.0 is the lesser one.
fn is_better(value: f64, than: f64, greatest: bool) -> bool {
    let order = value.total_cmp(&than);
    if greatest { order.is_gt() } else { order.is_lt() }
}

/// Returns the values as DOUBLEs, which hold each REAL.
fn doubles(values: &[ArrayRef]) -> Result<Float64Array> {
    let values = values.first().ok_or_else(|| plan_datafusion_err!("an extreme is of one column"))?;
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// There is one NaN: its sign says nothing.
fn one(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

#[derive(Debug)]
struct Extreme {
    greatest: bool,
    gives: DataType,
    best: Option<f64>,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in doubles(values)?.iter().flatten().map(one) {
            if self.best.is_none_or(|best| is_better(value, best, self.greatest)) {
                self.best = Some(value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64(self.best).cast_to(&self.gives)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The values of a frame that may yet be the extreme one, the best first, and their numbers.
#[derive(Debug)]
struct Moving {
    greatest: bool,
    gives: DataType,
    best: VecDeque<(f64, u64)>,
    /// The number of the oldest value of the frame, and that of the next one.
    first: u64,
    next: u64,
}

impl Accumulator for Moving {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in doubles(values)?.iter().flatten().map(one) {
            while self.best.back().is_some_and(|(last, _)| !is_better(*last, value, self.greatest)) {
                self.best.pop_back();
            }
            self.best.push_back((value, self.next));
            self.next += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let left = values.first().map_or(0, |values| values.len() - values.null_count());
        self.first += left as u64;
        while self.best.front().is_some_and(|(_, number)| *number < self.first) {
            self.best.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64(self.best.front().map(|(value, _)| *value)).cast_to(&self.gives)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.best.capacity() * size_of::<(f64, u64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The extreme value of each group.
struct Groups {
    greatest: bool,
    gives: DataType,
    best: Vec<Option<f64>>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.best.resize(groups, None);
        let passes = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, (value, group)) in doubles(values)?.iter().zip(group_indices).enumerate() {
            let Some(value) = value.map(one).filter(|_| passes(row)) else { continue };
            let best = &mut self.best[*group];
            if best.is_none_or(|best| is_better(value, best, self.greatest)) {
                *best = Some(value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let best: Float64Array = emit_to.take_needed(&mut self.best).into_iter().collect();
        Ok(cast(&best, &self.gives)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.update_batch(states, group_indices, None, groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = doubles(values)?;
        let passed = filter.map(|filter| filter.iter().map(|passes| passes == Some(true)).collect());
        let nulls = NullBuffer::union(values.nulls(), passed.as_ref());
        let values = Float64Array::new(values.values().clone(), nulls);
        Ok(vec![cast(&values, &self.gives)?])
    }

    fn size(&self) -> usize {
        self.best.capacity() * size_of::<Option<f64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extreme(accumulator: &mut dyn Accumulator) -> Option<u64> {
        match accumulator.evaluate().unwrap() {
            ScalarValue::Float64(value) => value.map(f64::to_bits),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_have_the_extremes_of_their_rows() {
        let values = [
            Some(7.0),
            None,
            Some(-f64::NAN),
            Some(3.0),
            Some(0.0),
            Some(-0.0),
            None,
            Some(f64::NEG_INFINITY),
            Some(f64::NAN),
            Some(1.0),
        ];
        for greatest in [false, true] {
            for width in 1..=values.len() {
                let gives = DataType::Float64;
                let mut moving = Moving { greatest, gives, best: VecDeque::new(), first: 0, next: 0 };
                for end in 1..=values.len() {
                    let column = |place: usize| Arc::new(Float64Array::from(vec![values[place]])) as ArrayRef;
                    moving.update_batch(&[column(end - 1)]).unwrap();
                    if end > width {
                        moving.retract_batch(&[column(end - width - 1)]).unwrap();
                    }
                    let frame = &values[end.saturating_sub(width)..end];
                    let known = frame.iter().flatten().map(|value| one(*value));
                    let expected = match greatest {
                        true => known.max_by(f64::total_cmp),
                        false => known.min_by(f64::total_cmp),
                    };
                    assert_eq!(extreme(&mut moving), expected.map(f64::to_bits), "{width} rows up to {end}");
                    let mut whole = Extreme { greatest, gives: DataType::Float64, best: None };
                    whole.update_batch(&[Arc::new(Float64Array::from(frame.to_vec()))]).unwrap();
                    assert_eq!(extreme(&mut whole), expected.map(f64::to_bits));
                }
            }
        }
    }
}
