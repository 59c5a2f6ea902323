//! `(begin, end) OVERLAPS (begin, end)` (ISO/IEC 9075-2, 8.14), where an end may be the length of
//! the period, and a period's ends may be in any order.

use crate::arithmetic::type_of;
use crate::interval::INTERVAL;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    binary_expr,
};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::overlaps::NAME;
use hypostyle_types::Error;
use std::sync::Arc;

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The ends of periods of which the lengths are given.
pub fn with_ends(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &mut expression else {
        return Ok(Transformed::no(expression));
    };
    if func.name() != NAME {
        return Ok(Transformed::no(expression));
    }
    let mut changed = false;
    for period in args.chunks_exact_mut(2) {
        if type_of(&period[1], schema)? == INTERVAL {
            let begin = match type_of(&period[0], schema)? {
                DataType::Timestamp(..) => period[0].clone(),
                _ => Expr::Cast(Cast::new(Box::new(period[0].clone()), TIMESTAMP)),
            };
            period[1] = binary_expr(begin, Operator::Plus, std::mem::take(&mut period[1]));
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Returns the function that the operator is.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(Overlaps { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Overlaps {
    signature: Signature,
}

impl ScalarUDFImpl for Overlaps {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Points in time have a zone where one of them has, and times of day are alone. Lengths are so until
    /// they become ends.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_length = |(place, of): (usize, &DataType)| place % 2 == 1 && *of == INTERVAL;
        let ends = types.iter().enumerate().filter(|of| !is_length(*of)).map(|(_, of)| of);
        let common = common(ends)?;
        let of_each = |(place, of)| if is_length((place, of)) { INTERVAL } else { common.clone() };
        Ok(types.iter().enumerate().map(of_each).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [one, one_end, other, other_end] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("OVERLAPS is of two periods"));
        };
        let number = |value: &ColumnarValue| -> Result<ArrayRef> {
            Ok(cast(&value.to_array(args.number_rows)?, &DataType::Int64)?)
        };
        let ends = [number(one)?, number(one_end)?, number(other)?, number(other_end)?];
        let ends = ends.each_ref().map(|ends| ends.as_primitive::<Int64Type>());
        let at = |row: usize| ends.map(|ends| ends.is_valid(row).then(|| ends.value(row)));
        let found: BooleanArray = (0..args.number_rows)
            .map(|row| {
                let [one, one_end, other, other_end] = at(row);
                overlap(period(one, one_end)?, period(other, other_end)?)
            })
            .collect();
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

/// Returns a period from its earlier end to the later one, if that is known; `None` where neither end
/// is known.
fn period(begin: Option<i64>, end: Option<i64>) -> Option<(i64, Option<i64>)> {
    match (begin, end) {
        (Some(begin), Some(end)) => Some((begin.min(end), Some(begin.max(end)))),
        (Some(known), None) | (None, Some(known)) => Some((known, None)),
        (None, None) => None,
    }
}

/// Says whether two periods have a point in common; a period without a length is its point.
fn overlap(one: (i64, Option<i64>), other: (i64, Option<i64>)) -> Option<bool> {
    let (earlier, later) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    match earlier.1 {
        None => None,
        Some(_) if earlier.0 == later.0 => later.1.map(|_| true),
        Some(end) if later.0 < end => Some(true),
        Some(_) => later.1.map(|_| false),
    }
}

/// Returns the type of all ends.
fn common<'a>(ends: impl Iterator<Item = &'a DataType> + Clone) -> Result<DataType> {
    let is_open = |of: &DataType| of.is_null() || of.is_string();
    let of_times = |of: &DataType| is_open(of) || matches!(of, DataType::Time64(_));
    let of_points = |of: &DataType| is_open(of) || matches!(of, DataType::Date32 | DataType::Timestamp(..));
    if ends.clone().all(of_points) {
        let zone = ends.clone().find_map(|of| match of {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        });
        return Ok(DataType::Timestamp(TimeUnit::Microsecond, zone));
    }
    if ends.clone().all(of_times) {
        return Ok(DataType::Time64(TimeUnit::Microsecond));
    }
    let other = ends.clone().find(|of| !of_points(of)).map(type_name).unwrap_or_default();
    let message = format!("OVERLAPS is of periods between points in time, not {other}");
    Err(external(Error::invalid_input(message).with_sqlstate("42883")))
}
