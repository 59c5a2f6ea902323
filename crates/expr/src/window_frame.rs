//! Frames of windows that are told by values: RANGE. DataFusion knows some types of keys only, and of
//! texts it would subtract others.

use crate::interval::{INTERVAL, lengths};
use arrow::array::AsArray;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, WindowFunctionParams};
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrameBound, WindowFrameUnits};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::Error;

/// Makes frames of values what DataFusion knows: where they have no distances they are those of groups
/// of equal values, distances of intervals are lengths, as their keys are, and exact numbers get a type in
/// which they are compared with what lies beyond their own.
pub fn of_values(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    let WindowFunctionParams { order_by, window_frame, .. } = &mut call.params;
    let Some(key) = order_by.first_mut() else { return Ok(Transformed::no(expression)) };
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
        (false, of) if of.is_integer() || of.is_decimal() => {
            let Some(wide) = with_room(of, &mut distances) else { return Ok(Transformed::no(expression)) };
            key.expr = Expr::Cast(Cast::new(Box::new(std::mem::take(&mut key.expr)), wide));
        }
        (false, of) if is_date(of) => {
            distances.iter_mut().try_for_each(|by| make_days(of, by))?;
        }
        (false, of) if of.is_numeric() || of.is_null() => return Ok(Transformed::no(expression)),
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

/// Makes a number between dates one of days, as in `d + 1`. DataFusion takes it for months. Between points
/// in time it says nothing.
fn make_days(of: &DataType, by: &mut ScalarValue) -> Result<()> {
    let Some(scale) = scale_of(by) else { return Ok(()) };
    match by {
        ScalarValue::Utf8(Some(text)) if scale == 0 && *of == DataType::Date32 => {
            *text = format!("{text} days");
            Ok(())
        }
        _ => {
            let message = format!(
                "RANGE with a number over values of type {} is not supported: write an interval",
                type_name(of)
            );
            Err(external(Error::unsupported(message)))
        }
    }
}

/// Returns the type of a key whose sums with distances have room in it, `None` if the key is of it or a
/// distance is no number as it is written. DataFusion takes a distance that is too large for the type of the
/// key for none, and a sum that is too large for the end of the partition, with NULLs.
fn with_room(of: &DataType, distances: &mut [&mut ScalarValue]) -> Option<DataType> {
    let (digits, scale) = match of {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => (i16::from(*digits), i16::from(*scale)),
        // The longest integer has so many digits.
        _ => (20, 0),
    };
    let scales: Option<Vec<i16>> = distances.iter().map(|by| scale_of(by)).collect();
    let wanted = scales?.into_iter().fold(scale, i16::max);
    let most = match digits - scale + wanted {
        ..=36 => DECIMAL128_MAX_PRECISION,
        37..=74 => DECIMAL256_MAX_PRECISION,
        _ => return None,
    };
    let scale = i8::try_from(wanted).ok()?;
    // What is farther away than any two values reaches them all.
    let longest = usize::try_from(i16::from(most) - wanted - 1).ok()?;
    for by in distances {
        if let ScalarValue::Utf8(Some(text)) = by
            && text.split('.').next().is_some_and(|whole| whole.trim_start_matches('0').len() > longest)
        {
            *text = format!("1{}", "0".repeat(longest));
        }
    }
    let wide = match most {
        DECIMAL128_MAX_PRECISION => DataType::Decimal128(most, scale),
        _ => DataType::Decimal256(most, scale),
    };
    (*of != wide).then_some(wide)
}

/// Returns how many digits a distance has behind its point.
fn scale_of(by: &ScalarValue) -> Option<i16> {
    let ScalarValue::Utf8(Some(text)) = by else { return None };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = [whole, part].iter().all(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    (are_digits && !whole.is_empty()).then_some(part.len()).and_then(|scale| i16::try_from(scale).ok())
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
