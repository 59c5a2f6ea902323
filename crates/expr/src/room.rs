//! Aggregates that keep values, and ask for room before they copy them.
//!
//! DataFusion reserves what an accumulator has grown by when it has grown, and nothing for what it
//! makes of its values in the end: a list, a sorted copy, the state for another accumulator. A set
//! that grows takes three times its size for a moment.

use crate::meter::{Meter, Room, SMALL_BYTES};
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};
use hypostyle_error::external;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The functions that keep all values; others do so if they are DISTINCT.
const KEEPING: [&str; 8] = [
    "array_agg",
    "histogram",
    "median",
    "mode",
    "nth_value",
    "percentile_cont",
    "quantile_disc",
    "string_agg",
];

/// A set that has so many bytes for each value that came since it last grew has room for more.
const BYTES_OF_VALUE: u64 = 40;

/// Takes an aggregate that asks for one that keeps values.
pub fn asking(expr: Expr, meter: &Arc<Meter>) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(mut call)
            if (call.params.distinct || KEEPING.contains(&call.func.name())) && !is_asking(&call.func) =>
        {
            call.func = Arc::new(AggregateUDF::from(Asking { inner: call.func, meter: meter.clone() }));
            Transformed::yes(Expr::AggregateFunction(call))
        }
        other => Transformed::no(other),
    }
}

fn is_asking(function: &AggregateUDF) -> bool {
    function.inner().is::<Asking>()
}

#[derive(Debug)]
struct Asking {
    inner: Arc<AggregateUDF>,
    meter: Arc<Meter>,
}

impl PartialEq for Asking {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Asking {}

impl Hash for Asking {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Asking {
    fn over(&self, inner: Box<dyn Accumulator>, is_distinct: bool) -> Box<dyn Accumulator> {
        let copies = Copies { name: self.name().to_string(), meter: self.meter.clone() };
        Box::new(AskingAccumulator { inner, copies, is_set: is_distinct, bytes: 0, rows: 0 })
    }

    fn around(&self, inner: AggregateUDF) -> Self {
        Self { inner: Arc::new(inner), meter: self.meter.clone() }
    }
}

impl AggregateUDFImpl for Asking {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let is_distinct = args.is_distinct;
        Ok(self.over(self.inner.accumulator(args)?, is_distinct))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let copies = Copies { name: self.name().to_string(), meter: self.meter.clone() };
        Ok(Box::new(AskingGroupsAccumulator { inner: self.inner.create_groups_accumulator(args)?, copies }))
    }

    fn with_beneficial_ordering(self: Arc<Self>, is: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = self.inner.as_ref().clone().with_beneficial_ordering(is)?;
        Ok(ordered.map(|ordered| Arc::new(self.around(ordered)) as _))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: datafusion::logical_expr::Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.inner.simplify_expr_op_literal(function, argument, operator, literal, argument_is_left)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(reversed) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(self.around(reversed.as_ref().clone()))))
            }
            other => other,
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn default_value(&self, of: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(of)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(of)
    }
}

/// Who asks for room, and whom.
#[derive(Debug)]
struct Copies {
    name: String,
    meter: Arc<Meter>,
}

impl Copies {
    /// Keeps room for a copy of what has a size.
    fn room(&self, bytes: usize) -> Result<Option<Room<'_>>> {
        let bytes = bytes as u64;
        match bytes < SMALL_BYTES {
            true => Ok(None),
            false => self.meter.room(bytes, &self.name).map(Some).map_err(external),
        }
    }
}

#[derive(Debug)]
struct AskingAccumulator {
    inner: Box<dyn Accumulator>,
    copies: Copies,
    is_set: bool,
    /// The size of the set after it has last grown.
    bytes: u64,
    /// The rows that came since.
    rows: u64,
}

impl AskingAccumulator {
    /// Returns what a set will take that the values which come may make grow to twice its size.
    fn growth(&mut self, values: &[ArrayRef]) -> usize {
        let rows = values.first().map_or(0, |values| values.len() as u64);
        self.rows += rows;
        if !self.is_set || self.rows.saturating_mul(BYTES_OF_VALUE) < self.bytes.max(SMALL_BYTES) {
            return 0;
        }
        let bytes = self.inner.size() as u64;
        if 2 * bytes >= 3 * self.bytes {
            (self.bytes, self.rows) = (bytes, rows);
            return 0;
        }
        2 * self.inner.size()
    }
}

impl Accumulator for AskingAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let growth = self.growth(values);
        let _room = self.copies.room(growth)?;
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let bytes: usize = states.iter().map(|state| state.get_array_memory_size()).sum();
        let _room = self.copies.room(if self.is_set { 3 * bytes } else { bytes })?;
        self.inner.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let _room = self.copies.room(self.inner.size())?;
        self.inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let _room = self.copies.room(self.inner.size())?;
        self.inner.state()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

struct AskingGroupsAccumulator {
    inner: Box<dyn GroupsAccumulator>,
    copies: Copies,
}

impl GroupsAccumulator for AskingGroupsAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let bytes = if matches!(emit_to, EmitTo::All) { self.inner.size() } else { 0 };
        let _room = self.copies.room(bytes)?;
        self.inner.evaluate(emit_to)
    }

    /// Gives the state of groups, which may be spilled because there is no room.
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
