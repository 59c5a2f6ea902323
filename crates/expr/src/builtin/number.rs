//! Numbers: rounding to more digits than a DOUBLE has, quotients, buckets, and numbers of arguments.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray,
    new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, i256,
};
use datafusion::error::{DataFusionError, Result};
use hypostyle_error::external;
use hypostyle_sql::samples::{PERCENT_OF_ROWS, ROWS_OF_LIMIT, ROWS_OF_OFFSET, ROWS_WITH_TIES};
use hypostyle_types::Error;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["round_double"], &[Kind::Double, Kind::Integer], |_| Ok(DataType::Float64), rounded),
    // What LIMIT with a percentage is: of the percentage alone where it is written, then of all rows, too.
    Described::new(&[PERCENT_OF_ROWS], &[Kind::Double, Kind::Integer], |_| Ok(DataType::Int64), shares)
        .optional(1),
    Described::new(
        &[ROWS_OF_LIMIT],
        &[Kind::Integer],
        |_| Ok(DataType::Int64),
        |args, _| counts_of_rows(&args[0], "LIMIT", "2201W"),
    ),
    Described::new(
        &[ROWS_OF_OFFSET],
        &[Kind::Integer],
        |_| Ok(DataType::Int64),
        |args, _| counts_of_rows(&args[0], "OFFSET", "2201X"),
    ),
    Described::new(
        &[ROWS_WITH_TIES],
        &[Kind::Integer],
        |_| Ok(DataType::Int64),
        |args, _| counts_of_rows(&args[0], "FETCH FIRST", "2201W"),
    ),
    // How many values max(x, n) and the like give.
    Described::new(
        &["number_of_values"],
        &[Kind::Integer],
        |_| Ok(DataType::Int64),
        |args, _| match args[0].as_primitive::<Int64Type>().iter().all(|number| number > Some(0)) {
            true => Ok(args[0].clone()),
            false => Err(refused("a number of values is greater than 0")),
        },
    ),
    Described::new(
        &["round_even"],
        &[Kind::Double, Kind::Integer],
        |_| Ok(DataType::Float64),
        rounded_to_even,
    )
    .optional(1),
    Described::new(&["hex_of_integer"], &[Kind::Any], |_| Ok(DataType::Utf8), hexadecimal),
    Described::new(&["div"], &[Kind::Any, Kind::Any], quotient_type, quotients),
    Described::new(
        &["width_bucket"],
        &[Kind::Double, Kind::Double, Kind::Double, Kind::Integer],
        |_| Ok(DataType::Int64),
        buckets,
    ),
    Described::new(
        &["bit_count"],
        &[Kind::Any],
        |_| Ok(DataType::Int64),
        |args, _| {
            if args[0].data_type().is_binary() {
                let bytes = cast(&args[0], &DataType::LargeBinary)?;
                let ones = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
                let counts = bytes.as_binary::<i64>().iter().map(|bytes| bytes.map(ones));
                return Ok(Arc::new(counts.collect::<Int64Array>()));
            }
            let bits = |value: i128, width: u32| {
                i64::from(value.count_ones() - (128 - width) * u32::from(value < 0))
            };
            let width = args[0].data_type().primitive_width().unwrap_or(8) as u32 * 8;
            let values = integers_of(&args[0], "bit_count")?;
            Ok(Arc::new(
                values.into_iter().map(|value| value.map(|of| bits(of, width))).collect::<Int64Array>(),
            ))
        },
    ),
    Described::new(
        &["isinf"],
        &[Kind::Double],
        |_| Ok(DataType::Boolean),
        |args, _| {
            let values = args[0].as_primitive::<Float64Type>().iter();
            Ok(Arc::new(values.map(|value| value.map(f64::is_infinite)).collect::<BooleanArray>()))
        },
    ),
    Described::new(
        &["factorial"],
        &[Kind::Integer],
        |_| Ok(DataType::Decimal128(38, 0)),
        |args, _| {
            let factorial = |of: i64| match of {
                0..=33 => Ok((1..=i128::from(of)).product::<i128>()),
                of if of < 0 => {
                    Err(wrong("22003", format!("a negative number such as {of} has no factorial")))
                }
                of => Err(wrong("22003", format!("the factorial of {of} has more than 38 digits"))),
            };
            let values = args[0].as_primitive::<Int64Type>().iter();
            let values =
                values.map(|value| value.map(factorial).transpose()).collect::<Result<Decimal128Array>>()?;
            Ok(Arc::new(values.with_precision_and_scale(38, 0)?))
        },
    ),
    // Places behind the point: those of the type, and those that a number needs.
    Described::new(
        &["scale"],
        &[Kind::Any],
        |_| Ok(DataType::Int64),
        |args, rows| {
            let scale = scale_of(&args[0], "scale")?;
            let scales = (0..rows).map(|row| args[0].is_valid(row).then(|| i64::from(scale)));
            Ok(Arc::new(if args[0].data_type().is_null() {
                Int64Array::new_null(rows)
            } else {
                scales.collect::<Int64Array>()
            }))
        },
    ),
    Described::new(
        &["min_scale"],
        &[Kind::Any],
        |_| Ok(DataType::Int64),
        |args, _| {
            let scale = scale_of(&args[0], "min_scale")?;
            let numbers = cast(&args[0], &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))?;
            let ten = i256::from_i128(10);
            let needed = |mut number: i256| {
                let mut places = scale.max(0);
                while places > 0 && number.wrapping_rem(ten) == i256::ZERO {
                    (number, places) = (number.wrapping_div(ten), places - 1);
                }
                i64::from(places)
            };
            let numbers = numbers.as_primitive::<Decimal256Type>().iter();
            Ok(Arc::new(numbers.map(|number| number.map(needed)).collect::<Int64Array>()))
        },
    ),
    // It fails, but for NULL.
    Described::new(
        &["error"],
        &[Kind::Text],
        |_| Ok(DataType::Null),
        |args, rows| match args[0].as_string::<i32>().iter().flatten().next() {
            Some(message) => Err(wrong("P0001", message)),
            None => Ok(new_null_array(&DataType::Null, rows)),
        },
    ),
    // A variable that there is stands for itself before anything is planned.
    Described::new(
        &["getvariable"],
        &[Kind::Text],
        |_| Ok(DataType::Null),
        |_, rows| Ok(new_null_array(&DataType::Null, rows)),
    ),
    Described::new(
        &["num_nulls"],
        &[Kind::Any],
        |_| Ok(DataType::Int64),
        |args, rows| Ok(counted(args, rows, true)),
    )
    .more(),
    Described::new(
        &["num_nonnulls"],
        &[Kind::Any],
        |_| Ok(DataType::Int64),
        |args, rows| Ok(counted(args, rows, false)),
    )
    .more(),
];

/// So many percent of numbers of rows, rounded down; all of them where the percentage is NULL.
fn shares(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [percentages, counts] = args else {
        return Err(refused(format!("{PERCENT_OF_ROWS}() stands for a percentage in LIMIT of a query")));
    };
    let (percentages, counts) =
        (percentages.as_primitive::<Float64Type>(), counts.as_primitive::<Int64Type>());
    let share = |row: usize| {
        let count = counts.is_valid(row).then(|| counts.value(row));
        if percentages.is_null(row) {
            return Ok(count);
        }
        let percentage = percentages.value(row);
        if !(0.0..=100.0).contains(&percentage) {
            let message = format!("LIMIT has 0 to 100 percent of the rows, not {percentage}");
            return Err(external(Error::invalid_input(message).with_sqlstate("2201W")));
        }
        Ok(count.map(|count| (percentage * count as f64 / 100.0).floor() as i64))
    };
    Ok(Arc::new((0..rows).map(share).collect::<Result<Int64Array>>()?))
}

/// Returns the numbers of rows that a clause has, which are not negative.
fn counts_of_rows(counts: &ArrayRef, clause: &str, sqlstate: &'static str) -> Result<ArrayRef> {
    match counts.as_primitive::<Int64Type>().iter().flatten().find(|count| *count < 0) {
        Some(count) => Err(wrong(sqlstate, format!("{clause} must not be negative, as {count} is"))),
        None => Ok(counts.clone()),
    }
}

/// Returns how many arguments of each row are NULL, or are not.
fn counted(args: &[ArrayRef], rows: usize, are_null: bool) -> ArrayRef {
    let nulls: Vec<Option<NullBuffer>> = args.iter().map(|values| values.logical_nulls()).collect();
    let count = |row: usize| {
        let is_null = |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        nulls.iter().filter(|nulls| is_null(nulls) == are_null).count() as i64
    };
    Arc::new(Int64Array::from_iter_values((0..rows).map(count)))
}

/// Returns an error of a value, with its code.
pub(super) fn wrong(sqlstate: &'static str, message: impl Into<String>) -> DataFusionError {
    external(Error::invalid_input(message.into()).with_sqlstate(sqlstate))
}

/// Returns integers of any type.
fn integers_of(values: &ArrayRef, name: &str) -> Result<Vec<Option<i128>>> {
    if !values.data_type().is_integer() && !values.data_type().is_null() {
        return Err(refused(format!("{name}() is of an integer")));
    }
    let values = cast(values, &DataType::Decimal128(38, 0))?;
    Ok(values.as_primitive::<Decimal128Type>().iter().collect())
}

/// Returns how many places exact numbers have behind the point.
fn scale_of(values: &ArrayRef, name: &str) -> Result<i8> {
    match values.data_type() {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Ok(*scale),
        of if of.is_integer() || of.is_null() => Ok(0),
        _ => Err(refused(format!("{name}() is of a DECIMAL or an integer"))),
    }
}

/// The quotient of integers is a BIGINT, that of DECIMALs a DECIMAL, and that of others a DOUBLE.
fn quotient_type(types: &[DataType]) -> Result<DataType> {
    let is_exact = |of: &DataType| of.is_integer() || of.is_decimal() || of.is_null();
    Ok(match types {
        types if types.iter().all(|of| of.is_integer() || of.is_null()) => DataType::Int64,
        types if types.iter().all(is_exact) => DataType::Decimal128(38, 0),
        types if types.iter().all(|of| of.is_numeric() || of.is_null()) => DataType::Float64,
        _ => return Err(refused("div() is of two numbers")),
    })
}

/// Quotients without their fractions.
fn quotients(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|of| of.data_type().clone()).collect();
    let gives = quotient_type(&types)?;
    if gives == DataType::Float64 {
        let doubles = args.iter().map(|of| cast(of, &gives)).collect::<std::result::Result<Vec<_>, _>>()?;
        let [left, right] = [0, 1].map(|place| doubles[place].as_primitive::<Float64Type>().iter());
        let quotients = left.zip(right).map(|pair| match pair {
            (Some(_), Some(0.0)) => Err(wrong("22012", "division by zero")),
            (Some(left), Some(right)) => Ok(Some((left / right).trunc())),
            _ => Ok(None),
        });
        return Ok(Arc::new(quotients.collect::<Result<Float64Array>>()?));
    }
    let scale = types.iter().filter_map(|of| match of {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    });
    let wide = DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale.max().unwrap_or(0));
    let values = args.iter().map(|of| cast(of, &wide)).collect::<std::result::Result<Vec<_>, _>>()?;
    let [left, right] = [0, 1].map(|place| values[place].as_primitive::<Decimal256Type>());
    let quotient = |row: usize| {
        if left.is_null(row) || right.is_null(row) {
            return Ok(None);
        }
        if right.value(row) == i256::ZERO {
            return Err(wrong("22012", "division by zero"));
        }
        let quotient = left.value(row).checked_div(right.value(row)).and_then(i256::to_i128);
        quotient.map(Some).ok_or_else(|| wrong("22003", "div(): the quotient has more than 38 digits"))
    };
    let quotients = (0..rows).map(quotient).collect::<Result<Decimal128Array>>()?;
    let quotients = quotients.with_precision_and_scale(38, 0)?;
    quotients
        .validate_decimal_precision(38)
        .map_err(|_| wrong("22003", "div(): the quotient has more than 38 digits"))?;
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(&quotients, &gives, &strict)?)
}

/// The number of the bucket that a value lies in, of some of one size between two bounds, as in
/// PostgreSQL: 0 before the first one, and one more than there are behind the last.
fn buckets(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [value, low, high] = [0, 1, 2].map(|place| args[place].as_primitive::<Float64Type>());
    let counts = args[3].as_primitive::<Int64Type>();
    let bucket = |row: usize| {
        if args.iter().any(|of| of.is_null(row)) {
            return Ok(None);
        }
        let (value, low, high, count) =
            (value.value(row), low.value(row), high.value(row), counts.value(row));
        let refused = |message: String| Err(wrong("2201G", message));
        match () {
            () if count <= 0 => refused(format!("width_bucket() has 1 bucket or more, not {count}")),
            () if value.is_nan() || low.is_nan() || high.is_nan() => {
                refused("width_bucket() is of numbers, and NaN is none".to_string())
            }
            () if !low.is_finite() || !high.is_finite() => {
                refused("the bounds of width_bucket() are finite".to_string())
            }
            () if low == high => refused(format!("the bounds of width_bucket() are both {low}")),
            () => {
                let (before, behind) = match low < high {
                    true => (value < low, value >= high),
                    false => (value > low, value <= high),
                };
                let place = || ((value - low) / (high - low) * count as f64).floor() as i64;
                Ok(Some(if before {
                    0
                } else if behind {
                    count.saturating_add(1)
                } else {
                    place().min(count - 1) + 1
                }))
            }
        }
    };
    Ok(Arc::new((0..rows).map(bucket).collect::<Result<Int64Array>>()?))
}

/// Rounds a number to places behind the point, or before it. A number without so many places is
/// unchanged.
fn rounded(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let places = args[1].as_primitive::<Int64Type>().iter();
    let values = args[0].as_primitive::<Float64Type>().iter().zip(places);
    let rounded = values.map(|(value, places)| {
        let (value, places) = (value?, places?);
        let factor = 10_f64.powi(i32::try_from(places.unsigned_abs()).unwrap_or(i32::MAX));
        let rounded = match places >= 0 {
            true => (value * factor).round() / factor,
            false if factor.is_infinite() => 0.0,
            false => (value / factor).round() * factor,
        };
        Some(if rounded.is_finite() || places < 0 { rounded } else { value })
    });
    Ok(Arc::new(rounded.collect::<Float64Array>()))
}

/// The digits of 32 bits, which are those of an INTEGER.
fn hexadecimal(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let values = cast(&args[0], &DataType::Int64)?;
    let values = values.as_primitive::<Int64Type>().iter();
    let texts = values.map(|value| value.map(|value| format!("{:x}", value as u32)));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// Rounded to a whole number, or to places behind the point or before it, halves to the even digit.
fn rounded_to_even(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let values = args[0].as_primitive::<Float64Type>();
    let Some(places) = args.get(1) else {
        return Ok(Arc::new(values.unary::<_, Float64Type>(f64::round_ties_even)));
    };
    let pairs = values.iter().zip(places.as_primitive::<Int64Type>());
    let rounded = pairs.map(|(value, places)| Some(even_digit(value?, places?)));
    Ok(Arc::new(rounded.collect::<Float64Array>()))
}

/// Returns a number with so many places. One without so many is unchanged.
fn even_digit(value: f64, places: i64) -> f64 {
    let factor = 10_f64.powi(i32::try_from(places.unsigned_abs()).unwrap_or(i32::MAX));
    let rounded = match places >= 0 {
        true => (value * factor).round_ties_even() / factor,
        false if factor.is_infinite() => 0.0,
        false => (value / factor).round_ties_even() * factor,
    };
    if rounded.is_finite() || places < 0 { rounded } else { value }
}
