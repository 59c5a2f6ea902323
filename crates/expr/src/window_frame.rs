//! Frames of windows that are told by values: RANGE. DataFusion knows some types of keys only, and of
//! texts it would subtract others.

use crate::interval::{INTERVAL, lengths};
use arrow::array::AsArray;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrameBound, WindowFrameUnits};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::Error;

/// Makes frames of values what DataFusion knows: where they have no distances they are those of groups
/// of equal values, and distances of intervals are lengths, as their keys are.
pub fn of_values(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    let WindowFunctionParams { order_by, window_frame, .. } = &mut call.params;
    let Some(key) = order_by.first() else { return Ok(Transformed::no(expression)) };
    let Ok(of) = key.expr.get_type(schema) else { return Ok(Transformed::no(expression)) };
    if window_frame.units != WindowFrameUnits::Range {
        return Ok(Transformed::no(expression));
    }
    let mut distances: Vec<&mut ScalarValue> = [&mut window_frame.start_bound, &mut window_frame.end_bound]
        .into_iter()
        .filter_map(|bound| match bound {
            WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => Some(by),
            WindowFrameBound::CurrentRow => None,
        })
        .filter(|by| !by.is_null())
        .collect();
    let is_time = matches!(of, DataType::Time32(_) | DataType::Time64(_));
    let has_groups = is_time || of.is_binary();
    match (distances.is_empty(), &of) {
        (true, _) if has_groups => window_frame.units = WindowFrameUnits::Groups,
        (true, _) => return Ok(Transformed::no(expression)),
        (false, of) if *of == INTERVAL => {
            distances.iter_mut().try_for_each(|by| make_length(by))?;
        }
        (false, of) if of.is_numeric() || of.is_null() || is_date(of) => {
            return Ok(Transformed::no(expression));
        }
        (false, of) => {
            let message = format!(
                "RANGE with a distance over values of type {} is not supported: use ROWS or GROUPS",
                type_name(of)
            );
            return Err(external(Error::unsupported(message)));
        }
    }
    Ok(Transformed::yes(expression))
}

fn is_date(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

/// Makes an interval, which may be a text, its length.
fn make_length(by: &mut ScalarValue) -> Result<()> {
    let interval = match &*by {
        ScalarValue::Utf8(Some(text)) => ScalarValue::try_from_string(text.clone(), &INTERVAL)?,
        other => other.cast_to(&INTERVAL)?,
    };
    let length = lengths(interval.to_array()?.as_primitive())?;
    *by = ScalarValue::try_from_array(&length, 0)?;
    Ok(())
}
