//! `lag` and `lead` with a default that is not constant, which DataFusion refuses. A second call,
//! of a value that is never NULL, identifies the rows for which there is no other row, and these
//! get the default.

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Window, lit, when};
use std::sync::Arc;

/// Computes such defaults behind a node's windows.
pub fn with_defaults(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(Window { input, window_expr, schema }) = &plan else {
        return Ok(Transformed::no(plan));
    };
    if !window_expr.iter().any(|call| shifted(call).is_some()) {
        return Ok(Transformed::no(plan));
    }
    let mut columns = schema.columns();
    let names = columns.split_off(input.schema().fields().len());
    let mut outputs: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
    let mut calls = Vec::new();
    for (number, (call, name)) in window_expr.iter().zip(names).enumerate() {
        let Some((function, default)) = shifted(call) else {
            calls.push(call.clone());
            outputs.push(Expr::Column(name));
            continue;
        };
        let [value, mut there] = ["value", "there"].map(|what| format!("__{what}_{number}"));
        let of_value = without_default(function, None);
        let of_row = without_default(function, Some(there_is_one(function)?));
        // One call must not be there twice.
        match of_value == of_row {
            true => there.clone_from(&value),
            false => calls.push(of_row.alias(&there)),
        }
        calls.push(of_value.alias(&value));
        let [value, there] = [value, there].map(|name| Expr::Column(Column::from_name(name)));
        let output = when(there.is_null(), default.clone()).otherwise(value)?;
        outputs.push(output.alias_qualified(name.relation, name.name));
    }
    let windows = LogicalPlan::Window(Window::try_new(calls, input.clone())?);
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(windows))?)))
}

/// Returns a call of `lag` or `lead`, and its default, where that depends on the row.
fn shifted(call: &Expr) -> Option<(&WindowFunction, &Expr)> {
    let function = match call {
        Expr::WindowFunction(function) => function.as_ref(),
        Expr::Alias(alias) => return shifted(&alias.expr),
        _ => return None,
    };
    let default = function.params.args.get(2)?;
    let is_constant = !default.any_column_refs() && !default.is_volatile() && !default.contains_outer();
    (matches!(function.fun.name(), "lag" | "lead") && !is_constant).then_some((function, default))
}

/// Returns a value that is not NULL for each row that may be the one that is sought.
fn there_is_one(function: &WindowFunction) -> Result<Expr> {
    match function.params.null_treatment {
        Some(NullTreatment::IgnoreNulls) => {
            when(function.params.args[0].clone().is_not_null(), lit(THERE)).end()
        }
        _ => Ok(lit(THERE)),
    }
}

/// The value of a row that is there, of a type that hardly any value has: where the value itself turns
/// out to be this constant, both calls would be one.
const THERE: u8 = 1;

/// Returns the call of another value, or of its own.
fn without_default(function: &WindowFunction, value: Option<Expr>) -> Expr {
    let mut function = function.clone();
    function.params.args.truncate(2);
    if let Some(value) = value {
        function.params.args[0] = value;
    }
    Expr::from(function)
}
