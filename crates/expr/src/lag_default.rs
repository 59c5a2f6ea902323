//! `lag` and `lead` with a default or an offset that is not constant, which DataFusion refuses, or with a
//! default of a wider type than the value, which it would cut. A second call, of a value that is never
//! NULL, identifies the rows for which there is no other row, and these get the default. With an offset
//! that is NULL, which DataFusion takes for 1, there is no row, and no default.

use crate::common_type::digits;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Window, lit, when};
use std::sync::Arc;

/// Computes such defaults behind a node's windows.
pub fn with_defaults(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(Window { input, window_expr, schema }) = &plan else {
        return Ok(Transformed::no(plan));
    };
    let of = input.schema();
    if !window_expr.iter().any(|call| shifted(call, of).is_some() || is_nowhere(call)) {
        return Ok(Transformed::no(plan));
    }
    let mut columns = schema.columns();
    let names = columns.split_off(input.schema().fields().len());
    let mut outputs: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
    let mut calls = Vec::new();
    for (number, (call, name)) in window_expr.iter().zip(names).enumerate() {
        if is_nowhere(call) {
            let null = ScalarValue::try_from(&call.get_type(of)?)?;
            outputs.push(lit(null).alias_qualified(name.relation, name.name));
            continue;
        }
        let Some((function, default)) = shifted(call, of) else {
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
        let is_missing = match function.params.args.get(1).filter(|offset| !is_constant(offset)) {
            Some(offset) => there.is_null().and(offset.clone().is_not_null()),
            None => there.is_null(),
        };
        let output = when(is_missing, default.clone()).otherwise(value)?;
        outputs.push(output.alias_qualified(name.relation, name.name));
    }
    let below = match calls.is_empty() {
        true => input.clone(),
        false => Arc::new(LogicalPlan::Window(Window::try_new(calls, input.clone())?)),
    };
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(outputs, below)?)))
}

/// Returns a call of `lag` or `lead`.
fn shift(call: &Expr) -> Option<&WindowFunction> {
    match call {
        Expr::WindowFunction(function) if matches!(function.fun.name(), "lag" | "lead") => Some(function),
        Expr::Alias(alias) => shift(&alias.expr),
        _ => None,
    }
}

/// Tells whether a call has an offset that is NULL.
fn is_nowhere(call: &Expr) -> bool {
    fn is_null(of: &Expr) -> bool {
        match of {
            Expr::Literal(value, _) => value.is_null(),
            Expr::Cast(cast) => is_null(&cast.expr),
            _ => false,
        }
    }
    shift(call).and_then(|function| function.params.args.get(1)).is_some_and(is_null)
}

/// Says whether an expression has one value for all rows.
fn is_constant(expr: &Expr) -> bool {
    !expr.any_column_refs() && !expr.is_volatile() && !expr.contains_outer()
}

/// Returns a call of `lag` or `lead`, and its default, where that or the offset depends on the row, or the
/// default is of a wider type.
fn shifted<'a>(call: &'a Expr, schema: &DFSchema) -> Option<(&'a WindowFunction, &'a Expr)> {
    let function = shift(call)?;
    let [value, offset, default] = function.params.args.as_slice() else { return None };
    let is_wider = match (value.get_type(schema), default.get_type(schema)) {
        (Ok(value), Ok(of_default)) => {
            value.is_integer() && (of_default.is_decimal() || of_default.is_floating())
                || value.is_integer() && of_default.is_integer() && is_longer(default, &of_default, &value)
                || value.is_decimal() && of_default.is_floating()
                || has_more_places(&of_default, &value)
                || value == DataType::Date32 && matches!(of_default, DataType::Timestamp(..))
        }
        _ => false,
    };
    (is_wider || !is_constant(default) || !is_constant(offset)).then_some((function, default))
}

/// Says whether a DECIMAL has more places than another one.
fn has_more_places(of: &DataType, other: &DataType) -> bool {
    let places = |of: &DataType| digits(of).filter(|_| of.is_decimal()).map(|(_, scale)| scale);
    matches!((places(of), places(other)), (Some(scale), Some(others)) if scale > others)
}

/// Says whether an integer has a type with more values than another one. A number as it is written has
/// the other type, too, where it fits.
fn is_longer(integer: &Expr, of: &DataType, other: &DataType) -> bool {
    let fits = matches!(integer, Expr::Literal(number, _) if number.cast_to(other).is_ok());
    of.primitive_width() > other.primitive_width() && !fits
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
