//! Row numbers and ranks as BIGINT, as in PostgreSQL and DuckDB. DataFusion's are unsigned, so that
//! a difference of two of them may be out of range.

use crate::row_numbers::place_below_one;
use crate::wrapped::as_within;
use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{Expr, LimitEffect, PartitionEvaluator, WindowUDF, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::ops::Range;
use std::sync::Arc;

const FUNCTIONS: [&str; 4] = ["row_number", "rank", "dense_rank", "ntile"];

pub(crate) fn register(context: &SessionContext) {
    for name in FUNCTIONS {
        if let Ok(inner) = context.udwf(name) {
            context.register_udwf(WindowUDF::from(Signed { inner }));
        }
    }
}

/// Refuses places below 1 in a window, which are counted from the end by DataFusion, and by nobody
/// else, and place 0 in a group.
pub fn place_in_window(expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::WindowFunction(call) = &expression
        && call.fun.name() == "nth_value"
        && let Some(Expr::Literal(place, _)) = call.params.args.get(1)
        && let Ok(ScalarValue::Int64(Some(..1))) = place.cast_to(&DataType::Int64)
    {
        return Err(place_below_one());
    }
    if let Expr::AggregateFunction(call) = &expression
        && call.func.name() == "nth_value"
        && let Some(Expr::Literal(place, _)) = call.params.args.get(1)
        && let Ok(ScalarValue::Int64(Some(0))) = place.cast_to(&DataType::Int64)
    {
        let message = "nth_value() counts from 1, or from the end with places below 0: there is no place 0";
        return Err(external(Error::invalid_input(message).with_sqlstate("22016")));
    }
    Ok(Transformed::no(expression))
}

/// One of [`FUNCTIONS`], with signed results.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signed {
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for Signed {
    as_within!(name, aliases, signature, coerce_types, sort_options, reverse_expr);

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(SignedEvaluator(self.inner.partition_evaluator_factory(args)?)))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.inner.field(args)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(DataType::Int64)))
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct SignedEvaluator(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for SignedEvaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, index: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(index, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all(values, rows)?, &DataType::Int64)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)?.cast_to(&DataType::Int64)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all_with_rank(rows, ranks)?, &DataType::Int64)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}
