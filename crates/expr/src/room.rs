//! Aggregates that keep values, and ask for room before they copy them.
//!
//! DataFusion reserves what an accumulator has grown by when it has grown, and nothing for what it
//! makes of its values in the end: a list, a sorted copy, the state for another accumulator. A set
//! that grows takes three times its size for a moment.

use crate::meter::{Meter, Room, SMALL_BYTES};
use crate::portable::{Decoder, Encoded, Functions, Portable};
use crate::sliding_texts::Texts;
use crate::wrapped::as_within;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, EmitTo, Expr,
    GroupsAccumulator, ReversedUDAF, SetMonotonicity, StatisticsArgs, WindowFunctionDefinition,
};
use hypostyle_error::external;
use hypostyle_types::Error;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const DIGEST: &str = "approx_percentile_cont";
const DIGEST_WITH_WEIGHT: &str = "approx_percentile_cont_with_weight";

/// The centroids that these may keep: they take their memory at once, for each group.
const CENTROIDS_MAX: u64 = 10_000;

/// The functions that keep all values, or as many as they are told; others do so if they are DISTINCT.
const KEEPING: [&str; 13] = [
    DIGEST,
    DIGEST_WITH_WEIGHT,
    "array_agg",
    "histogram",
    "median",
    "mode",
    "mode_first",
    "mode_last",
    "nth_value",
    "percentile_cont",
    "quantile_disc",
    "quantile_disc_desc",
    "string_agg",
];

/// Aggregates whose results have all values that came.
const GROWING: [&str; 2] = ["array_agg", "string_agg"];

/// More than any process has.
const COPIES_MAX: u64 = 1 << 48;

/// A set that has so many bytes for each value that came since it last grew has room for more.
const BYTES_OF_VALUE: u64 = 40;

/// Takes an aggregate that asks for one that keeps values.
pub fn asking(expr: Expr, meter: &Arc<Meter>) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(mut call)
            if (call.params.distinct || KEEPING.contains(&call.func.name())) && !is_asking(&call.func) =>
        {
            let (inner, meter) = (call.func, meter.clone());
            call.func = Arc::new(AggregateUDF::from(Asking { inner, meter, is_repeated: false }));
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::WindowFunction(mut call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function)
                if (call.params.distinct || KEEPING.contains(&function.name())) && !is_asking(function) =>
            {
                let (inner, meter) = (function.clone(), meter.clone());
                let is_repeated = GROWING.contains(&function.name());
                let asking = AggregateUDF::from(Asking { inner, meter, is_repeated });
                call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(asking));
                Transformed::yes(Expr::WindowFunction(call))
            }
            _ => Transformed::no(Expr::WindowFunction(call)),
        },
        other => Transformed::no(other),
    }
}

fn is_asking(function: &AggregateUDF) -> bool {
    function.inner().is::<Asking>()
}

#[derive(Debug)]
pub(crate) struct Asking {
    inner: Arc<AggregateUDF>,
    meter: Arc<Meter>,
    /// A window may repeat the result for all rows that came, in their order.
    is_repeated: bool,
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
    fn copies(&self) -> Copies {
        Copies { name: self.name().to_string(), meter: self.meter.clone() }
    }

    /// Returns how the size of a list is known; its rows are kept with so many keys of an order.
    fn measured(&self, is_distinct: bool, keys: usize) -> Option<Measured> {
        let row_bytes =
            if keys == 0 { 0 } else { (keys + 1) * size_of::<ScalarValue>() + size_of::<Vec<ScalarValue>>() };
        (self.name() == "array_agg" && !is_distinct).then(|| Measured { row_bytes, ..Measured::default() })
    }

    /// Says whether it sorts its values by itself, whatever order its rows come in.
    fn sorts(&self) -> bool {
        self.name() == "string_agg"
    }

    /// Checks the number of centroids that it is told to keep.
    fn check_centroids(&self, args: &AccumulatorArgs<'_>) -> Result<()> {
        let place = match self.name() {
            DIGEST => 2,
            DIGEST_WITH_WEIGHT => 3,
            _ => return Ok(()),
        };
        let Some(centroids) = args.exprs.get(place) else { return Ok(()) };
        let told = centroids.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty())));
        let Ok(ColumnarValue::Scalar(told)) = told else { return Ok(()) };
        match told.cast_to(&DataType::UInt64) {
            Ok(ScalarValue::UInt64(Some(told))) if told > CENTROIDS_MAX => {
                let message =
                    format!("{}() keeps {CENTROIDS_MAX} centroids at most, and not {told}", self.name());
                Err(external(Error::invalid_input(message).with_sqlstate("22023")))
            }
            _ => Ok(()),
        }
    }

    fn around(&self, inner: AggregateUDF) -> Self {
        Self { inner: Arc::new(inner), meter: self.meter.clone(), is_repeated: self.is_repeated }
    }
}

impl Portable for Asking {
    type Function = AggregateUDF;

    const TAG: &'static str = "asking";

    /// The function within, and whether its result is repeated.
    type Parameters = (Encoded, bool);

    fn parameters(&self, functions: &Functions) -> Result<Self::Parameters> {
        Ok((functions.describe(self.inner.as_ref())?, self.is_repeated))
    }

    fn from_parameters((inner, is_repeated): Self::Parameters, decoder: &Decoder<'_>) -> Result<Self> {
        Ok(Self { inner: decoder.function(inner)?, meter: decoder.meter().clone(), is_repeated })
    }
}

impl AggregateUDFImpl for Asking {
    as_within!(name, aliases, signature, coerce_types, return_type);

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

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.check_centroids(&args)?;
        let measured = self.measured(args.is_distinct, args.order_bys.len());
        let (is_set, is_repeated) = (args.is_distinct, self.is_repeated);
        // A set is sorted in the end. DataFusion turns its order around where rows come in the other one,
        // which a list of all rows takes back.
        let is_turned = is_set && args.is_reversed && GROWING.contains(&self.name());
        let keys: Vec<_> =
            args.order_bys.iter().map(|key| if is_turned { key.reverse() } else { key.clone() }).collect();
        let is_reversed = args.is_reversed && !is_turned;
        let inner = self.inner.accumulator(AccumulatorArgs { order_bys: &keys, is_reversed, ..args })?;
        let asking = AskingAccumulator::new(inner, self.copies());
        Ok(Box::new(AskingAccumulator { is_set, measured, is_repeated, ..asking }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.check_centroids(&args)?;
        let joins_texts = self.name() == "string_agg" && !args.is_distinct && args.order_bys.is_empty();
        let inner: Box<dyn Accumulator> = match joins_texts {
            true => Box::<Texts>::default(),
            false => self.inner.create_sliding_accumulator(args)?,
        };
        let asking = AskingAccumulator::new(inner, self.copies());
        Ok(Box::new(AskingAccumulator { is_sliding: true, ..asking }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.check_centroids(&args)?;
        let measured = self.measured(args.is_distinct, args.order_bys.len());
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(Box::new(AskingGroupsAccumulator { inner, copies: self.copies(), measured }))
    }

    fn with_beneficial_ordering(self: Arc<Self>, is: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = match self.sorts() {
            true => Some(self.inner.as_ref().clone()),
            false => self.inner.as_ref().clone().with_beneficial_ordering(is)?,
        };
        Ok(ordered.map(|ordered| Arc::new(self.around(ordered)) as _))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.sorts() {
            // Two of them may have other orders.
            true => AggregateOrderSensitivity::SoftRequirement,
            false => self.inner.order_sensitivity(),
        }
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
        // What a window gives in the order of its rows would come in the other one.
        if self.is_repeated {
            return ReversedUDAF::NotSupported;
        }
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
    /// Checks that the statement may go on. A window asks for a result for each row, and only the
    /// function sees that a batch of them takes seconds.
    fn check(&self) -> Result<()> {
        self.meter.check().map_err(external)
    }

    /// Keeps room for a copy of what has a size.
    fn room(&self, bytes: usize) -> Result<Option<Room<'_>>> {
        let bytes = bytes as u64;
        match bytes < SMALL_BYTES {
            true => Ok(None),
            false => self.meter.room(bytes, &self.name).map(Some).map_err(external),
        }
    }
}

/// The size of what keeps all that comes. It is measured after a share of what came before, because
/// that takes time for each part that is kept; in between, what has come is added.
#[derive(Debug, Default)]
struct Measured {
    bytes: usize,
    /// How often something has come, and when the size is measured next.
    updates: usize,
    next: usize,
    /// What a row takes besides its values.
    row_bytes: usize,
}

impl Measured {
    fn add(&mut self, values: &[ArrayRef], measure: impl FnOnce() -> usize) {
        self.updates += 1;
        if self.updates > self.next {
            self.next = self.updates + self.updates / 4;
            self.bytes = measure();
            return;
        }
        let bytes = |values: &ArrayRef| values.to_data().get_slice_memory_size().unwrap_or_default();
        let rows = values.first().map_or(0, |values| values.len());
        self.bytes += values.iter().map(bytes).sum::<usize>() + rows * self.row_bytes;
    }
}

fn grown(measured: &mut Option<Measured>, values: &[ArrayRef], measure: impl FnOnce() -> usize) {
    if let Some(measured) = measured {
        measured.add(values, measure);
    }
}

/// Measures what is left when groups are given out.
fn given_out(measured: &mut Option<Measured>, measure: impl FnOnce() -> usize) {
    if let Some(measured) = measured {
        *measured = Measured { bytes: measure(), row_bytes: measured.row_bytes, ..Measured::default() };
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
    measured: Option<Measured>,
    is_repeated: bool,
    /// The rows that came.
    all_rows: u64,
    /// Rows leave its frame again: it has as many values as the bounds say, and each row's result has
    /// all of them, so nothing is measured.
    is_sliding: bool,
}

impl AskingAccumulator {
    fn new(inner: Box<dyn Accumulator>, copies: Copies) -> Self {
        let (bytes, rows, all_rows) = (0, 0, 0);
        let (is_set, is_repeated, is_sliding) = (false, false, false);
        Self { inner, copies, is_set, bytes, rows, measured: None, is_repeated, all_rows, is_sliding }
    }

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
        self.all_rows += values.first().map_or(0, |values| values.len() as u64);
        let growth = self.growth(values);
        let _room = self.copies.room(growth)?;
        self.inner.update_batch(values)?;
        grown(&mut self.measured, values, || self.inner.size());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let bytes: usize = states.iter().map(|state| state.get_array_memory_size()).sum();
        let _room = self.copies.room(if self.is_set { 3 * bytes } else { bytes })?;
        self.inner.merge_batch(states)?;
        grown(&mut self.measured, states, || self.inner.size());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.copies.check()?;
        if self.is_sliding {
            return self.inner.evaluate();
        }
        let _room = self.copies.room(self.inner.size())?;
        let value = self.inner.evaluate()?;
        if self.is_repeated {
            let bytes = (value.size() as u64).saturating_mul(self.all_rows).min(COPIES_MAX);
            let _copies = self.copies.room(bytes as usize)?;
        }
        Ok(value)
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
        self.measured.as_ref().map_or_else(|| self.inner.size(), |measured| measured.bytes)
    }
}

struct AskingGroupsAccumulator {
    inner: Box<dyn GroupsAccumulator>,
    copies: Copies,
    measured: Option<Measured>,
}

impl GroupsAccumulator for AskingGroupsAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, count)?;
        grown(&mut self.measured, values, || self.inner.size());
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let bytes = if matches!(emit_to, EmitTo::All) { self.inner.size() } else { 0 };
        let _room = self.copies.room(bytes)?;
        let given = self.inner.evaluate(emit_to)?;
        given_out(&mut self.measured, || self.inner.size());
        Ok(given)
    }

    /// Gives the state of groups, which may be spilled because there is no room.
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let given = self.inner.state(emit_to)?;
        given_out(&mut self.measured, || self.inner.size());
        Ok(given)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, count)?;
        grown(&mut self.measured, values, || self.inner.size());
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.measured.as_ref().map_or_else(|| self.inner.size(), |measured| measured.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    #[test]
    fn a_size_is_measured_seldom_and_known_all_the_same() {
        let values = vec![Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef];
        let (mut measured, mut kept, mut measures) = (Measured::default(), 0_usize, 0_usize);
        for _ in 0..10_000 {
            kept += 800;
            measured.add(&values, || {
                measures += 1;
                kept
            });
            assert_eq!(measured.bytes, kept);
        }
        assert!(measures < 60, "{measures}");
    }
}
