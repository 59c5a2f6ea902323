//! Expressions that pipelines evaluate: those whose values are not much larger than what they read.
//!
//! A pipeline puts the expressions of all projections between its operators into each other, and
//! evaluates them for thousands of rows at once. Operators evaluate each on its own, cut batches
//! where an expression repeats long constants, and ask for memory where a function makes much of
//! little (`pieces`, `expr::amplifier`). What would need that is left to them.

use super::flow::{Expression, Flow};
use crate::pieces::is_long;
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::expressions::{CaseExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

/// The parts of an expression, at most: what projections use twice counts twice.
const PARTS_MAX: usize = 400;

/// Functions whose texts are no longer than the ones they are given.
const SHORTENING: [&str; 14] = [
    "substr",
    "substring",
    "left",
    "right",
    "lower",
    "upper",
    "btrim",
    "trim",
    "ltrim",
    "rtrim",
    "split_part",
    "coalesce",
    "nullif",
    "one_nan",
];

/// Tells whether a pipeline may evaluate all of some expressions.
pub(super) fn are_modest(flow: &Flow, others: &[Expression], schema: &Schema) -> bool {
    let mut modest = others.iter().all(|expression| is_modest(expression, schema));
    flow.visit(&mut |expression| modest = modest && is_modest(expression, schema));
    modest
}

/// Tells whether an expression has few parts, none of which gives values longer than it reads.
pub(super) fn is_modest(expression: &Expression, schema: &Schema) -> bool {
    let mut parts = 0;
    is_small(expression, &mut parts) && is_short(expression, schema)
}

/// Counts the parts of an expression; false when there are too many.
pub(super) fn is_small(expression: &Expression, parts: &mut usize) -> bool {
    *parts += 1;
    *parts <= PARTS_MAX && expression.children().into_iter().all(|part| is_small(part, parts))
}

fn is_short(expression: &Expression, schema: &Schema) -> bool {
    if let Some(literal) = expression.downcast_ref::<Literal>() {
        return !is_long(literal.value());
    }
    let Ok(data_type) = expression.data_type(schema) else { return false };
    let is_fixed = data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null);
    let own = is_fixed
        || expression.is::<Column>()
        || expression.is::<CaseExpr>()
        || expression.is::<CastExpr>()
        || expression
            .downcast_ref::<ScalarFunctionExpr>()
            .is_some_and(|call| SHORTENING.contains(&call.fun().name()));
    own && expression.children().into_iter().all(|part: &Arc<dyn PhysicalExpr>| is_short(part, schema))
}
