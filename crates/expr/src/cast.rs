//! CAST by SQL's rules. Arrow's cast truncates 1.5 to 1, reads dates as numbers of days, and turns
//! a number that a FLOAT cannot hold into infinity. It reads only one of the forms of times and
//! intervals, and knows no UUIDs and no JSON. These casts are made here, in plans and of new rows,
//! also for elements and fields.

use crate::cast_target::{CastTarget, as_cast, portable_cast};
use crate::comparison::operands;
use crate::json::text::{array_elements, normalised};
use crate::nested_type::{element, is_list};
use crate::structures::{is_row, places};
use crate::types::JSONB;
use crate::{byte_text, time_text};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, Float32Array,
    Float64Array, IntervalMonthDayNanoArray, LargeBinaryArray, LargeListArray, MapArray, StringArray,
    StringViewArray, StructArray, UInt64Array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field, FieldRef, Float32Type, Float64Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType,
};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Values, Volatility,
};
use hypostyle_error::type_name::type_name;
use hypostyle_sql::interval_text;
use hypostyle_sql::text_list::{is_array_of_arrays, split_elements};
use hypostyle_types::{DAY_MICROSECONDS, Error, IntervalText, LogicalType, check_json_text, parse_uuid};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use uuid::Uuid;

/// Casts that are not Arrow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// Casts numbers with a fraction to whole ones. DECIMALs become the nearest, with halves away
    /// from zero. Floating-point numbers become the nearest, with halves to the even one (as in
    /// PostgreSQL and DuckDB).
    Rounded,
    /// Casts DECIMALs to the nearest FLOAT, or with more digits than a DOUBLE has to the nearest one:
    /// Arrow rounds them twice.
    Nearest,
    /// Casts DOUBLE to FLOAT, which must not become infinite.
    Narrowed,
    /// Casts floating-point numbers to the DECIMALs that they show: Arrow multiplies them, and so has other
    /// digits behind the first 16.
    Shown,
    /// Casts floating-point numbers to text, with exponents as PostgreSQL and DuckDB write them.
    FloatText,
    /// Casts DECIMALs to those of fewer places. DataFusion would move such a cast to the constant that the
    /// value is compared with, where others are rounded to the same one, too.
    FewerPlaces,
    /// Casts text to a time or a DECIMAL, in PostgreSQL's forms too.
    Read,
    /// Casts text to a DOUBLE or a FLOAT, which is infinite only if the text says so.
    Float,
    /// Casts text to an interval.
    Interval,
    /// Casts text to a time of day, which ends before midnight.
    Time,
    /// Casts points in time to those of a coarser unit, to the nearest: Arrow cuts them.
    Coarser,
    /// Casts text to a UUID, which is text in plans and bytes within other types.
    Uuid,
    /// Casts a UUID's bytes to text.
    UuidText,
    /// Casts dates, points in time and times of day to text, as PostgreSQL writes them (ISO 8601 with a
    /// space, and years that have more than four digits, or are before the first one, in its own form).
    TimeText,
    /// Casts intervals to text, as PostgreSQL writes them.
    IntervalText,
    /// Casts text to JSON, which must be valid.
    Json,
    /// Casts text to a list, in PostgreSQL's form or DuckDB's.
    Listed,
    /// Casts lists, structures and maps to text, as DuckDB writes them.
    NestedText,
    /// Casts text to a BLOB, in the forms of PostgreSQL and DuckDB.
    Bytes,
    /// Casts lists, structures and maps to others with different elements, fields and entries.
    Nested,
    /// Refuses casts between points in time and numbers, of numbers to UUIDs and bytes, and of what is no
    /// list to lists, of which Arrow makes one with a single element, cut off or in its own words.
    Refused,
}

/// Returns how many places behind the point a DECIMAL has.
fn decimal_places(of: &DataType) -> Option<i8> {
    match of {
        DataType::Decimal32(_, places)
        | DataType::Decimal64(_, places)
        | DataType::Decimal128(_, places)
        | DataType::Decimal256(_, places) => Some(*places),
        _ => None,
    }
}

fn is_time(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Interval(_)
    )
}

fn is_number(of: &DataType) -> bool {
    of.is_numeric() || *of == DataType::Boolean
}

/// Says whether values of a type are neither lists nor texts, which may be written ones.
fn is_single(of: &DataType) -> bool {
    let is_row = matches!(of, DataType::Struct(_) | DataType::Map(..) | DataType::FixedSizeBinary(_));
    is_number(of) || is_time(of) || is_binary(of) || is_row
}

/// Returns the cast to a type that is stored as another one, which its field says.
fn by_meaning(from: &DataType, to: &Field) -> Option<Special> {
    if to.metadata().is_empty() {
        return None;
    }
    match LogicalType::from_arrow(to).ok()? {
        LogicalType::Uuid if from.is_string() => Some(Special::Uuid),
        LogicalType::Uuid if is_number(from) || is_time(from) || is_binary(from) || is_list(from) => {
            Some(Special::Refused)
        }
        LogicalType::Json if from.is_string() => Some(Special::Json),
        _ => None,
    }
}

fn special(from: &DataType, to: &Field) -> Option<Special> {
    if let Some(found) = by_meaning(from, to) {
        return Some(found);
    }
    match (from, to.data_type()) {
        (DataType::Float32 | DataType::Float64, to) if to.is_integer() => Some(Special::Rounded),
        (from, to) if from.is_decimal() && to.is_integer() => Some(Special::Rounded),
        (DataType::Float64, DataType::Float32) => Some(Special::Narrowed),
        (DataType::Float32 | DataType::Float64, to) if to.is_decimal() => Some(Special::Shown),
        (DataType::Float32 | DataType::Float64, to) if to.is_string() => Some(Special::FloatText),
        (DataType::Decimal128(EXACT_DIGITS.., _), DataType::Float64) => Some(Special::Nearest),
        (DataType::Decimal128(..), DataType::Float32) => Some(Special::Nearest),
        (from, to) if decimal_places(from).zip(decimal_places(to)).is_some_and(|(from, to)| to < from) => {
            Some(Special::FewerPlaces)
        }
        (from, DataType::Timestamp(..) | DataType::Date32) if from.is_string() => Some(Special::Read),
        (from, DataType::Interval(IntervalUnit::MonthDayNano)) if from.is_string() => Some(Special::Interval),
        (from, to) if from.is_string() && to.is_decimal() => Some(Special::Read),
        (from, DataType::Float32 | DataType::Float64) if from.is_string() => Some(Special::Float),
        (from, to) if from.is_string() && is_list(to) => Some(Special::Listed),
        (from, to) if is_single(from) && is_list(to) => Some(Special::Refused),
        (from, to) if is_number(from) && is_binary(to) => Some(Special::Refused),
        (from, to) if from.is_nested() && to.is_string() => Some(Special::NestedText),
        (from, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) if from.is_string() => {
            Some(Special::Bytes)
        }
        (from, DataType::Time64(_)) if from.is_string() => Some(Special::Time),
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) if is_coarser(to, from) => {
            Some(Special::Coarser)
        }
        (from, DataType::FixedSizeBinary(16)) if from.is_string() => Some(Special::Uuid),
        (DataType::FixedSizeBinary(16), to) if to.is_string() => Some(Special::UuidText),
        (DataType::Date32 | DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_), to)
            if to.is_string() =>
        {
            Some(Special::TimeText)
        }
        (DataType::Interval(_) | DataType::Duration(_), to) if to.is_string() => Some(Special::IntervalText),
        (from, to) if is_time(from) && is_number(to) || is_number(from) && is_time(to) => {
            Some(Special::Refused)
        }
        (from, to) if from != to && is_list(from) && is_list(to) => Some(Special::Nested),
        (DataType::Struct(own), DataType::Struct(wanted)) if own != wanted => Some(Special::Nested),
        (DataType::Map(own, _), DataType::Map(wanted, _)) if own != wanted => Some(Special::Nested),
        _ => None,
    }
}

fn is_coarser(of: &TimeUnit, than: &TimeUnit) -> bool {
    let digits = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    digits(of) < digits(than)
}

/// A DECIMAL of so many digits may be one that a DOUBLE does not have.
const EXACT_DIGITS: u8 = 16;

/// Texts of no more bytes have no more digits than 256 bits.
const DECIMAL_TEXT_MAX: usize = 76;

type ArrowResult<T> = std::result::Result<T, ArrowError>;

/// Returns the values in another type; `safe` makes NULLs of those that it does not have.
///
/// # Errors
/// `CastError` or `ParseError` for a value that the type does not have, `ExternalError` for types
/// that are not cast.
pub fn cast(values: &ArrayRef, to: &Field, safe: bool) -> ArrowResult<ArrayRef> {
    let (options, wanted) = (CastOptions { safe, ..CastOptions::default() }, to.data_type());
    if let DataType::Dictionary(_, plain) = values.data_type() {
        return cast(&arrow::compute::cast(values, plain)?, to, safe);
    }
    match special(values.data_type(), to) {
        None | Some(Special::FewerPlaces) => cast_with_options(values, wanted, &options),
        Some(Special::Rounded) => cast_with_options(&rounded(values)?, wanted, &options),
        Some(Special::Narrowed) => narrowed(values, safe),
        Some(Special::Shown) => decimals_of_floats(values, wanted, &options),
        Some(Special::FloatText) => arrow::compute::cast(&float_texts(values)?, wanted),
        Some(Special::Nearest) if *wanted == DataType::Float32 => nearest_floats(values),
        Some(Special::Nearest) => nearest(values),
        Some(Special::Refused) => Err(external(cannot_cast(values.data_type(), to))),
        Some(Special::Nested) => nested(values, to, safe, &|values, to| cast(values, to, safe)),
        Some(Special::Uuid) => uuids(values, wanted, safe),
        Some(Special::UuidText) => {
            let text = values.as_fixed_size_binary().iter().map(|bytes| {
                bytes.and_then(|bytes| Uuid::from_slice(bytes).ok()).map(|uuid| uuid.hyphenated().to_string())
            });
            cast_with_options(&text.collect::<StringViewArray>(), wanted, &options)
        }
        Some(Special::Listed) => listed(values, wanted, safe),
        Some(Special::Bytes) => {
            let bytes = parsed(values, safe, byte_text::read)?;
            arrow::compute::cast(&bytes.into_iter().collect::<LargeBinaryArray>(), wanted)
        }
        Some(Special::TimeText) => arrow::compute::cast(&time_text::written(values)?, wanted),
        Some(Special::IntervalText) => arrow::compute::cast(&interval_texts(values)?, wanted),
        Some(Special::NestedText) => arrow::compute::cast(&nested_texts(values)?, wanted),
        Some(Special::Json) => json(values, to, safe),
        Some(Special::Float) => floats(values, wanted, &options),
        Some(Special::Interval) => {
            let intervals = parsed(values, safe, interval_text::read)?;
            Ok(Arc::new(intervals.into_iter().collect::<IntervalMonthDayNanoArray>()))
        }
        Some(Special::Time) => cast_with_options(&time_text::read_times(values, safe)?, wanted, &options),
        Some(Special::Coarser) => time_text::rounded(values, wanted),
        Some(Special::Read) if wanted.is_decimal() => decimals(values, wanted, &options),
        Some(Special::Read) => time_text::read(values, wanted, safe),
    }
}

/// Dates and points in time as a cast to text writes them, if there are some of years that Arrow writes in
/// another form ([`has_far_years`]).
///
/// # Errors
/// Those of Arrow's kernels.
pub fn texts_of_far_years(values: &dyn Array) -> ArrowResult<Option<StringViewArray>> {
    has_far_years(values).then(|| time_text::written(&values.slice(0, values.len()))).transpose()
}

/// Says whether there are dates or points in time of years that Arrow writes with a sign, those before the
/// year 1 and from 10000, or of a day next to them, which a zone may make one of theirs.
pub fn has_far_years(values: &dyn Array) -> bool {
    const USUAL: Range<i32> = -719_161..2_932_896;
    let usual = |unit: &TimeUnit| {
        let day = time_text::in_second(unit) * (DAY_MICROSECONDS / 1_000_000);
        i64::from(USUAL.start) * day..i64::from(USUAL.end) * day
    };
    match values.data_type() {
        DataType::Date32 => has_beyond::<Date32Type>(values, &USUAL),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => has_beyond::<TimestampSecondType>(values, &usual(unit)),
            TimeUnit::Millisecond => has_beyond::<TimestampMillisecondType>(values, &usual(unit)),
            TimeUnit::Microsecond => has_beyond::<TimestampMicrosecondType>(values, &usual(unit)),
            // 64 bits of them end with the year 2262.
            TimeUnit::Nanosecond => false,
        },
        _ => false,
    }
}

fn has_beyond<T: ArrowPrimitiveType>(values: &dyn Array, usual: &Range<T::Native>) -> bool {
    let values = values.as_primitive::<T>();
    let is_far = |value: &T::Native| !usual.contains(value);
    // NULLs are not left out at first, so that there is no branch for each value.
    values.values().iter().fold(false, |any, value| any | is_far(value))
        && values.iter().flatten().any(|value| is_far(&value))
}

/// Intervals, and differences of points in time, in PostgreSQL's style: `1 day 02:00:00`.
///
/// # Errors
/// `CastError` for values that are neither.
pub fn interval_texts(values: &dyn Array) -> std::result::Result<StringViewArray, ArrowError> {
    if let DataType::Duration(unit) = values.data_type() {
        let second = match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        };
        let day = DAY_MICROSECONDS / 1_000_000 * second;
        let ticks = arrow::compute::cast(values, &DataType::Int64)?;
        let text = |ticks: i64| IntervalText {
            months: 0,
            days: i32::try_from(ticks / day).unwrap_or(if ticks < 0 { i32::MIN } else { i32::MAX }),
            nanoseconds: ticks % day * (1_000_000_000 / second),
        };
        let ticks = ticks.as_primitive::<Int64Type>().iter();
        return Ok(ticks.map(|ticks| ticks.map(|ticks| text(ticks).to_string())).collect());
    }
    let intervals = arrow::compute::cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let text = |IntervalMonthDayNano { months, days, nanoseconds }| {
        IntervalText { months, days, nanoseconds }.to_string()
    };
    Ok(intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|value| value.map(text)).collect())
}

/// Reads DECIMALs. Arrow reads most texts, but no exponents; and of more digits than 256 bits have it makes
/// an error, or another number.
fn decimals(values: &ArrayRef, wanted: &DataType, options: &CastOptions<'_>) -> ArrowResult<ArrayRef> {
    let texts = texts(values)?;
    let all = || texts.as_string_view().iter();
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    if all().flatten().all(|text| text.len() <= DECIMAL_TEXT_MAX)
        && let Ok(read) = cast_with_options(&texts, wanted, &strict)
    {
        return Ok(read);
    }
    let (precision, scale) = match wanted {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        _ => return cast_with_options(&texts, wanted, options),
    };
    let plain = parsed(&texts, options.safe, |text| match decimal_text(text, precision, scale) {
        Digits::Kept(plain) => Ok(plain),
        Digits::TooMany => {
            let message = format!("{text} is out of range of {}", type_name(wanted));
            Err(Error::invalid_input(message).with_sqlstate("22003"))
        }
        // It is told what this is.
        Digits::NoNumber => Ok(text.to_string()),
    })?;
    cast_with_options(&plain.into_iter().collect::<StringArray>(), wanted, options)
}

/// A number without an exponent.
#[derive(Debug, PartialEq, Eq)]
enum Digits {
    /// It has the digits that decide on a DECIMAL: one behind the last one rounds it.
    Kept(String),
    TooMany,
    NoNumber,
}

fn decimal_text(text: &str, precision: u8, scale: i8) -> Digits {
    let (mantissa, exponent) = text.trim().split_once(['e', 'E']).unwrap_or((text.trim(), "0"));
    let (sign, number) = match mantissa.strip_prefix(['-', '+']) {
        Some(number) => (&mantissa[..1], number),
        None => ("", mantissa),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all = format!("{whole}{fraction}");
    let is_number = !all.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
    let Some(exponent) = exponent.parse::<i64>().ok().filter(|_| is_number) else { return Digits::NoNumber };
    let digits = all.trim_start_matches('0');
    // How many digits there are before the point; below 0, how many zeros behind it.
    let before = exponent.saturating_add(whole.len() as i64 - (all.len() - digits.len()) as i64);
    if digits.is_empty() || before < -i64::from(scale) {
        return Digits::Kept("0".into());
    }
    if before > i64::from(precision) - i64::from(scale) {
        return Digits::TooMany;
    }
    let (zeros, before) = ((-before).max(0) as usize, before.max(0) as usize);
    let digits = format!("{}{digits:0<before$}", "0".repeat(zeros));
    let (whole, fraction) = digits.split_at(before);
    let kept = fraction.len().min(usize::try_from(scale).unwrap_or_default() + 1);
    Digits::Kept(format!("{sign}{whole}.{}", &fraction[..kept]))
}

/// Reads floating-point numbers. A number that is too large is none that is infinite.
fn floats(values: &ArrayRef, wanted: &DataType, options: &CastOptions<'_>) -> ArrowResult<ArrayRef> {
    let read = cast_with_options(values, wanted, options)?;
    let doubles = arrow::compute::cast(&read, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    if doubles.iter().flatten().all(|value| !value.is_infinite()) {
        return Ok(read);
    }
    let texts = texts(values)?;
    let texts = texts.as_string_view();
    let is_too_large = |row: usize| {
        let says_so = || texts.value(row).contains(['i', 'I']);
        doubles.is_valid(row) && doubles.value(row).is_infinite() && !says_so()
    };
    let too_large: Vec<bool> = (0..read.len()).map(is_too_large).collect();
    match too_large.iter().position(|is_so| *is_so) {
        None => Ok(read),
        Some(_) if options.safe => arrow::compute::nullif(&read, &BooleanArray::from(too_large)),
        Some(row) => {
            let message = format!("'{}' is out of range of {}", texts.value(row), type_name(wanted));
            Err(external(Error::invalid_input(message).with_sqlstate("22003")))
        }
    }
}

/// Returns floating-point numbers as the DECIMALs that they show: 0.1 is no tenth, nor is a product of it.
/// Whole numbers keep all of their digits.
fn decimals_of_floats(
    values: &ArrayRef,
    wanted: &DataType,
    options: &CastOptions<'_>,
) -> ArrowResult<ArrayRef> {
    const WHOLE_MAX: f64 = 1e38;
    let is_float = *values.data_type() == DataType::Float32;
    let doubles = arrow::compute::cast(values, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let power = 10_f64.powi(i32::from(decimal_places(wanted).unwrap_or_default()));
    // The product of such a number is not so far from what is shown that it could be rounded to another one.
    let sure_max = if is_float { 4096.0 } else { 1_099_511_627_776.0 };
    let is_sure = |value: f64| {
        let product = value * power;
        product.abs() < sure_max && (product - product.floor() - 0.5).abs() > 1.0 / 1024.0
    };
    if doubles.iter().flatten().all(is_sure) {
        return cast_with_options(values, wanted, options);
    }
    let text = |value: f64| match value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        true => Ok(Some((value as i128).to_string())),
        false if value.is_finite() && is_float => Ok(Some((value as f32).to_string())),
        false if value.is_finite() => Ok(Some(value.to_string())),
        false if options.safe => Ok(None),
        false => {
            let message = format!("{value} is out of range of {}", type_name(wanted));
            Err(external(Error::invalid_input(message).with_sqlstate("22003")))
        }
    };
    let texts = doubles.iter().map(|value| value.map_or(Ok(None), text));
    let texts: ArrayRef = Arc::new(texts.collect::<ArrowResult<StringArray>>()?);
    decimals(&texts, wanted, options)
}

/// The texts of floating-point numbers. Arrow writes `1e16` and `0.00001`.
fn float_texts(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    let texts = texts(values)?;
    let own = texts.as_string_view();
    match own.iter().flatten().any(|text| with_exponent(text).is_some()) {
        true => {
            let texts =
                own.iter().map(|text| text.map(|text| with_exponent(text).unwrap_or_else(|| text.into())));
            Ok(Arc::new(texts.collect::<StringViewArray>()))
        }
        false => Ok(texts),
    }
}

/// Returns a number with an exponent of two digits or more, and its sign: `1e+16`, and `1.5e-05` for
/// 0.000015; `None` if it is written as it is.
fn with_exponent(text: &str) -> Option<String> {
    let (sign, number) = text.strip_prefix('-').map_or(("", text), |number| ("-", number));
    if let Some((digits, exponent)) = number.split_once('e') {
        let exponent = exponent.parse::<i32>().ok()?;
        let of = if exponent < 0 { '-' } else { '+' };
        return Some(format!("{sign}{digits}e{of}{:02}", exponent.unsigned_abs()));
    }
    let fraction = number.strip_prefix("0.").filter(|fraction| fraction.starts_with("0000"))?;
    let digits = fraction.trim_start_matches('0');
    let (first, others) = digits.split_at_checked(1)?;
    let point = if others.is_empty() { "" } else { "." };
    Some(format!("{sign}{first}{point}{others}e-{:02}", fraction.len() - digits.len() + 1))
}

fn external(error: Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

fn texts(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    arrow::compute::cast(values, &DataType::Utf8View)
}

fn listed(values: &ArrayRef, wanted: &DataType, safe: bool) -> ArrowResult<ArrayRef> {
    let (DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _)) =
        wanted
    else {
        return arrow::compute::cast(values, wanted);
    };
    // Other elements do not read lists, but any text is one.
    let of = LogicalType::from_arrow(element).ok();
    let (is_of_texts, is_of_json) = (of == Some(LogicalType::Varchar), of == Some(LogicalType::Json));
    let elements_of = |text: &str| {
        // The texts in an array of JSON keep their quotes.
        if is_of_json && let Some(elements) = array_elements(text) {
            return Ok(elements);
        }
        let elements = split_elements(text).filter(|_| !(is_of_texts && is_array_of_arrays(text)));
        elements.ok_or_else(|| {
            let what = if is_of_texts { "no list of texts" } else { "no list" };
            Error::invalid_input(format!("'{text}' is {what}; write it as {{1,2}} or [1, 2]"))
                .with_sqlstate("22P02")
        })
    };
    let lists = parsed(values, safe, elements_of)?;
    let nulls: NullBuffer = lists.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.as_ref().map_or(0, Vec::len)));
    let elements: ArrayRef = Arc::new(lists.into_iter().flatten().flatten().collect::<StringArray>());
    let elements = match cast(&elements, element, safe) {
        Ok(elements) => elements,
        Err(error) if element.data_type().is_nested() => return Err(error),
        Err(error) => return Err(list_of_lists(values, wanted).unwrap_or(error)),
    };
    let lists = LargeListArray::try_new(element.clone(), offsets, elements, Some(nulls))?;
    cast_with_options(&lists, wanted, &CastOptions { safe, ..CastOptions::default() })
}

/// Returns the error for the first text that is a list of lists, which a type of lists of values does not
/// take; `None` where there is no such text.
fn list_of_lists(values: &ArrayRef, wanted: &DataType) -> Option<ArrowError> {
    let is_one = |text: &&str| {
        let mut letters = text.chars().filter(|letter| !letter.is_whitespace());
        matches!((letters.next(), letters.next()), (Some('{' | '['), Some('{' | '[')))
    };
    let texts = texts(values).ok()?;
    let text = texts.as_string_view().iter().flatten().find(is_one)?;
    let name = type_name(wanted);
    let message =
        format!("'{text}' is a list of lists, and {name} takes a list of values; {name}[] takes it");
    Some(external(Error::invalid_input(message).with_sqlstate("22P02")))
}

/// The texts of lists, `[1, NULL, 'a, b']`, which can be read again, of structures, `{'a': 1}`, of those
/// whose fields have no names, `(1, x)`, and of maps, `{a=1}`.
fn nested_texts(values: &ArrayRef) -> ArrowResult<StringArray> {
    let joined = |parts: Vec<Cow<'_, str>>| parts.join(", ");
    let text: Box<dyn Fn(usize) -> String> = match values.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            let lists = lists_of(values, field)?;
            let elements = PartTexts::of(lists.values())?;
            Box::new(move |row| {
                let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
                format!("[{}]", joined(range.map(|place| elements.get(place)).collect()))
            })
        }
        DataType::Struct(fields) => {
            let columns = values.as_struct().columns().iter().map(PartTexts::of);
            let columns = columns.collect::<ArrowResult<Vec<_>>>()?;
            if !is_row(fields) || fields.is_empty() {
                let names: Vec<String> = fields.iter().map(|field| quoted(field.name())).collect();
                Box::new(move |row| {
                    let parts = names.iter().zip(&columns);
                    let parts = parts.map(|(name, column)| format!("{name}: {}", column.get(row)).into());
                    format!("{{{}}}", joined(parts.collect()))
                })
            } else {
                Box::new(move |row| {
                    format!("({})", joined(columns.iter().map(|column| column.get(row)).collect()))
                })
            }
        }
        DataType::Map(..) => {
            let maps = map_of(values)?;
            let (keys, entries) = (PartTexts::of(maps.keys())?, PartTexts::of(maps.values())?);
            Box::new(move |row| {
                let range = maps.value_offsets()[row] as usize..maps.value_offsets()[row + 1] as usize;
                let parts = range.map(|place| format!("{}={}", keys.get(place), entries.get(place)).into());
                format!("{{{}}}", joined(parts.collect()))
            })
        }
        other => return Err(ArrowError::CastError(format!("{other} has no parts"))),
    };
    Ok((0..values.len()).map(|row| values.is_valid(row).then(|| text(row))).collect())
}

/// The texts of what lists, structures and maps are made of.
struct PartTexts {
    texts: ArrayRef,
    is_nested: bool,
}

impl PartTexts {
    fn of(values: &ArrayRef) -> ArrowResult<Self> {
        let texts = cast(values, &Field::new("", DataType::LargeUtf8, true), false)?;
        Ok(Self { texts, is_nested: values.data_type().is_nested() })
    }

    fn get(&self, place: usize) -> Cow<'_, str> {
        let texts = self.texts.as_string::<i64>();
        match texts.is_valid(place) {
            true if self.is_nested => Cow::Borrowed(texts.value(place)),
            true => element_text(texts.value(place)),
            false => Cow::Borrowed("NULL"),
        }
    }
}

/// An element as it is written in a list: in quotes if it could be taken for something else.
fn element_text(text: &str) -> Cow<'_, str> {
    let is_special = |character: char| "'\",[](){}:=\\".contains(character);
    let is_plain = !text.is_empty()
        && text.trim() == text
        && !text.eq_ignore_ascii_case("null")
        && !text.contains(is_special);
    match is_plain {
        true => text.into(),
        false => quoted(text).into(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Returns each text as something else, or NULL where it is none and that is `safe`.
fn parsed<T>(
    values: &ArrayRef,
    safe: bool,
    parse: impl Fn(&str) -> hypostyle_types::Result<T>,
) -> ArrowResult<Vec<Option<T>>> {
    let parse = |text: Option<&str>| match text.map(&parse) {
        None => Ok(None),
        Some(Err(_)) if safe => Ok(None),
        Some(parsed) => parsed.map(Some).map_err(external),
    };
    texts(values)?.as_string_view().iter().map(parse).collect()
}

fn uuids(values: &ArrayRef, wanted: &DataType, safe: bool) -> ArrowResult<ArrayRef> {
    let uuids = parsed(values, safe, parse_uuid)?.into_iter();
    if *wanted == DataType::FixedSizeBinary(16) {
        let uuids = uuids.map(|uuid| uuid.map(Uuid::into_bytes));
        return Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16)?));
    }
    let text = uuids.map(|uuid| uuid.map(|uuid| uuid.hyphenated().to_string()));
    arrow::compute::cast(&text.collect::<StringViewArray>(), wanted)
}

fn json(values: &ArrayRef, to: &Field, safe: bool) -> ArrowResult<ArrayRef> {
    let is_normal = to.metadata().contains_key(JSONB);
    let valid = |text: &str| {
        check_json_text(text)?;
        Ok(if is_normal { normalised(text) } else { text.to_string() })
    };
    let text: StringViewArray = parsed(values, safe, valid)?.into_iter().collect();
    arrow::compute::cast(&text, to.data_type())
}

fn narrowed(values: &ArrayRef, safe: bool) -> ArrowResult<ArrayRef> {
    let narrow = |value: f64| match value as f32 {
        narrow if narrow.is_infinite() && value.is_finite() => {
            let error = Error::invalid_input(format!("{value:e} is out of range of FLOAT"));
            if safe { Ok(None) } else { Err(external(error.with_sqlstate("22003"))) }
        }
        narrow => Ok(Some(narrow)),
    };
    let values = values.as_primitive::<Float64Type>().iter();
    let values: Float32Array =
        values.map(|value| value.map_or(Ok(None), narrow)).collect::<ArrowResult<_>>()?;
    Ok(Arc::new(values))
}

/// A DECIMAL of few digits as the nearest DOUBLE: a quotient of two numbers that DOUBLEs have is
/// rounded once.
pub fn exact_double(value: i128, scale: i8) -> Option<f64> {
    has_few_digits(value, scale).then(|| value as f64 / 10_f64.powi(i32::from(scale)))
}

/// A DECIMAL as the nearest DOUBLE.
pub fn nearest_double(value: i128, scale: i8) -> f64 {
    exact_double(value, scale).unwrap_or_else(|| {
        let nearest = format!("{value}e{}", -i32::from(scale)).parse();
        nearest.unwrap_or_else(|_| value as f64 / 10_f64.powi(i32::from(scale)))
    })
}

fn has_few_digits(value: i128, scale: i8) -> bool {
    const WHOLE_MAX: u128 = 1 << 53;
    (0..=22).contains(&scale) && value.unsigned_abs() <= WHOLE_MAX
}

/// DECIMALs as the nearest FLOATs: those of the nearest DOUBLEs, but where such a one lies in the
/// middle of two FLOATs.
fn nearest_floats(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    const DROPPED: u64 = (1 << 29) - 1;
    const MIDDLE: u64 = 1 << 28;
    let decimals = values.as_primitive::<Decimal128Type>();
    let doubles = nearest(values)?;
    let doubles = doubles.as_primitive::<Float64Type>().iter().enumerate();
    let floats = doubles.map(|(row, double)| {
        let double = double?;
        let is_sure = double.to_bits() & DROPPED != MIDDLE && double.abs() >= f64::from(f32::MIN_POSITIVE);
        match is_sure || double == 0.0 {
            true => Some(double as f32),
            false => decimals.value_as_string(row).parse().ok(),
        }
    });
    Ok(Arc::new(floats.collect::<Float32Array>()))
}

fn nearest(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    let decimals = values.as_primitive::<Decimal128Type>();
    let doubles = arrow::compute::cast(values, &DataType::Float64)?;
    let has_few = |value: i128| has_few_digits(value, decimals.scale());
    if decimals.iter().flatten().all(has_few) {
        return Ok(doubles);
    }
    let doubles = doubles.as_primitive::<Float64Type>().iter().zip(decimals).enumerate();
    let doubles = doubles.map(|(row, (double, decimal))| match decimal {
        Some(decimal) if !has_few(decimal) => decimals.value_as_string(row).parse().ok().or(double),
        _ => double,
    });
    Ok(Arc::new(doubles.collect::<Float64Array>()))
}

/// Lists, structures and maps with what is within them cast, each by a function.
///
/// # Errors
/// Those of the function and of Arrow's kernels.
pub(crate) fn nested(
    values: &ArrayRef,
    to: &Field,
    safe: bool,
    cast: &dyn Fn(&ArrayRef, &Field) -> ArrowResult<ArrayRef>,
) -> ArrowResult<ArrayRef> {
    match (values.data_type(), to.data_type()) {
        (DataType::Struct(given), DataType::Struct(fields)) => {
            let own = values.as_struct();
            let places =
                places(given, fields).ok_or_else(|| external(cannot_cast(values.data_type(), to)))?;
            let columns = places.into_iter().zip(fields).map(|(place, field)| match place {
                Some(place) => cast(&shown(own, own.column(place))?, field),
                None => Ok(new_null_array(field.data_type(), own.len())),
            });
            let columns = columns.collect::<ArrowResult<_>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                own.nulls().cloned(),
                own.len(),
            )?))
        }
        (DataType::FixedSizeList(_, own), DataType::FixedSizeList(element, length)) if own == length => {
            let list = values.as_fixed_size_list();
            let elements = cast(list.values(), element)?;
            Ok(Arc::new(FixedSizeListArray::try_new(
                element.clone(),
                *length,
                elements,
                list.nulls().cloned(),
            )?))
        }
        (
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _),
        ) => {
            let list = lists_of(values, item)?;
            let elements = cast(list.values(), element)?;
            let list = LargeListArray::try_new(
                element.clone(),
                list.offsets().clone(),
                elements,
                list.nulls().cloned(),
            )?;
            let options = CastOptions { safe, ..CastOptions::default() };
            cast_with_options(&list, to.data_type(), &options)
        }
        (DataType::Map(..), DataType::Map(entries, is_sorted))
            if let DataType::Struct(fields) = entries.data_type()
                && let [key, value] = fields.as_ref() =>
        {
            let maps = map_of(values)?;
            let columns = vec![cast(maps.keys(), key)?, cast(maps.values(), value)?];
            let own = StructArray::try_new(fields.clone(), columns, None)?;
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, own, nulls, *is_sorted)?))
        }
        (_, wanted) => arrow::compute::cast(values, wanted),
    }
}

/// Returns lists of any kind over the elements that they have: there may be others, those of other rows or
/// under NULL, which may have no cast.
///
/// # Errors
/// Those of Arrow's kernels.
pub(crate) fn lists_of(values: &ArrayRef, element: &FieldRef) -> ArrowResult<LargeListArray> {
    let lists = arrow::compute::cast(values, &DataType::LargeList(element.clone()))?;
    let list = lists.as_list::<i64>();
    let hides = |row: usize| list.is_null(row) && list.value_length(row) > 0;
    if list.null_count() > 0 && (0..list.len()).any(hides) {
        let rows: UInt64Array = (0..list.len()).map(|row| list.is_valid(row).then_some(row as u64)).collect();
        return Ok(take(&lists, &rows, None)?.as_list::<i64>().clone());
    }
    let (element, offsets, elements, nulls) = list.clone().into_parts();
    let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
    let own = elements.slice(start as usize, (end - start) as usize);
    let offsets = OffsetBuffer::new(offsets.iter().map(|offset| offset - start).collect());
    LargeListArray::try_new(element, offsets, own, nulls)
}

/// Returns maps over the entries that they have.
///
/// # Errors
/// Those of Arrow's kernels.
pub(crate) fn map_of(values: &ArrayRef) -> ArrowResult<MapArray> {
    let (field, offsets, entries, nulls, is_sorted) = values.as_map().clone().into_parts();
    let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
    let own = entries.slice(start as usize, (end - start) as usize);
    let offsets = OffsetBuffer::new(offsets.iter().map(|offset| offset - start).collect());
    MapArray::try_new(field, offsets, own, nulls, is_sorted)
}

/// Returns the values of a field, without those under a structure that is NULL.
fn shown(structures: &StructArray, column: &ArrayRef) -> ArrowResult<ArrayRef> {
    match structures.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => arrow::compute::nullif(column, &BooleanArray::new(!nulls.inner(), None)),
        None => Ok(column.clone()),
    }
}

fn rounded(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    match values.data_type() {
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Ok(Arc::new(values.unary::<_, Float32Type>(f32::round_ties_even)))
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Ok(Arc::new(values.unary::<_, Float64Type>(f64::round_ties_even)))
        }
        DataType::Decimal256(precision, 1..) => {
            arrow::compute::cast(values, &DataType::Decimal256(*precision, 0))
        }
        DataType::Decimal32(precision, 1..)
        | DataType::Decimal64(precision, 1..)
        | DataType::Decimal128(precision, 1..) => {
            arrow::compute::cast(values, &DataType::Decimal128(*precision, 0))
        }
        _ => Ok(values.clone()),
    }
}

fn cannot_cast(from: &DataType, to: &Field) -> Error {
    let hint = match (from, to.data_type()) {
        (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..), to) if to.is_numeric() => {
            "; write EXTRACT(EPOCH FROM …), or subtract two of them"
        }
        (from, DataType::Timestamp(..)) if from.is_numeric() => "; write to_timestamp(seconds)",
        (DataType::Struct(_), DataType::Struct(_)) => "; they have no field in common",
        _ => "",
    };
    let wanted = LogicalType::from_arrow(to).map_or_else(|_| type_name(to.data_type()), |of| of.to_string());
    Error::invalid_input(format!("cannot cast {} to {wanted}{hint}", type_name(from))).with_sqlstate("42846")
}

/// Returns a value in another type.
///
/// # Errors
/// As [`cast`].
pub fn cast_scalar(value: &ScalarValue, to: &Field) -> Result<ScalarValue> {
    match special(&value.data_type(), to) {
        None => value.cast_to(to.data_type()),
        Some(_) => only_value(&cast(&value.to_array()?, to, false)?),
    }
}

/// Returns the value of an array of one; a list with what its field says of the elements, which
/// DataFusion drops.
pub(crate) fn only_value(values: &ArrayRef) -> Result<ScalarValue> {
    Ok(match values.data_type() {
        DataType::List(_) => ScalarValue::List(Arc::new(values.as_list().clone())),
        DataType::LargeList(_) => ScalarValue::LargeList(Arc::new(values.as_list().clone())),
        DataType::FixedSizeList(..) => {
            ScalarValue::FixedSizeList(Arc::new(values.as_fixed_size_list().clone()))
        }
        _ => ScalarValue::try_from_array(values, 0)?,
    })
}

/// Casts of lists of lists, and of their texts in braces, to a type of lists: an array of PostgreSQL
/// has as many dimensions as its value.
pub fn of_dimensions(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (expr, field) = match &mut expression {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => (expr, field),
        _ => return Ok(Transformed::no(expression)),
    };
    let wanted = dimensions(field.data_type());
    if wanted != 1 || matches!(field.data_type(), DataType::FixedSizeList(..)) {
        return Ok(Transformed::no(expression));
    }
    let has = match expr.as_ref() {
        Expr::Literal(value, _) if let Some(Some(text)) = value.try_as_str() => {
            text.chars().filter(|letter| !letter.is_whitespace()).take_while(|letter| *letter == '{').count()
        }
        other => other.get_type(schema).map_or(0, |of| dimensions(&of)),
    };
    if has <= wanted {
        return Ok(Transformed::no(expression));
    }
    let list = |of: DataType, _| DataType::List(Arc::new(Field::new_list_field(of, true)));
    let data_type = (wanted..has).fold(field.data_type().clone(), list);
    *field = Arc::new(field.as_ref().clone().with_data_type(data_type));
    Ok(Transformed::yes(expression))
}

/// Gives VALUES the types that such casts have got: DataFusion keeps those that it has found before.
pub fn values_of_dimensions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Values(of) if has_other_dimensions(&of) => {
            let mut rows = of.values;
            for value in rows.iter_mut().flatten() {
                // It is NULL of the type that was found before.
                if matches!(value, Expr::Literal(literal, _) if literal.is_null()) {
                    *value = Expr::Literal(ScalarValue::Null, None);
                }
            }
            Ok(Transformed::yes(LogicalPlanBuilder::values(rows)?.build()?))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn has_other_dimensions(of: &Values) -> bool {
    let known: Vec<usize> = of.schema.fields().iter().map(|field| dimensions(field.data_type())).collect();
    let found = |value: &Expr| value.get_type(&of.schema).map_or(0, |found| dimensions(&found));
    known.iter().any(|known| *known > 0)
        && of.values.iter().any(|row| row.iter().zip(&known).any(|(value, known)| found(value) > *known))
}

/// Returns how deep lists lie within each other in a type: 0 for one that is no list.
pub fn dimensions(of: &DataType) -> usize {
    match of {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            1 + dimensions(field.data_type())
        }
        _ => 0,
    }
}

/// Casts that are not Arrow's, after the types are coerced; of literals at once.
///
/// # Errors
/// `InvalidInput` (42846) for types that are not cast.
pub fn as_in_sql(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (expr, field, safe) = match &expression {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        _ => return Ok(Transformed::no(expression)),
    };
    // Planning refuses an expression whose type cannot be determined.
    let Ok(from) = expr.get_type(schema) else { return Ok(Transformed::no(expression)) };
    if is_binary(field.data_type()) && from.is_string() && is_uuid(expr, schema) {
        // The bytes of a UUID are not those of its text.
        let bytes = Expr::Cast(Cast::new(expr.clone(), DataType::FixedSizeBinary(16)));
        let bytes = as_in_sql(bytes, schema)?.data;
        return Ok(Transformed::yes(Expr::Cast(Cast::new(Box::new(bytes), field.data_type().clone()))));
    }
    match special(&from, field) {
        // The optimizer may move a cast to the other side of a comparison, where a failed cast is a
        // value, too.
        None if safe && from != *field.data_type() => {}
        None => return Ok(Transformed::no(expression)),
        Some(Special::Refused) => {
            return Err(DataFusionError::External(Box::new(cannot_cast(&from, field))));
        }
        Some(_) => {}
    }
    if let Expr::Literal(value, metadata) = expr.as_ref()
        && field.metadata().is_empty()
        && let Ok(value) = cast_scalar(value, field)
    {
        return Ok(Transformed::yes(Expr::Literal(value, metadata.clone())));
    }
    Ok(Transformed::yes(called(expr, field, safe)))
}

/// Returns a cast as a function, which the optimizer leaves where it is.
fn called(of: &Expr, to: &FieldRef, safe: bool) -> Expr {
    let function = ScalarUDF::from(SqlCast::new(CastTarget::new(to.clone(), safe)));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![of.clone()]))
}

/// The elements that `array_to_string` joins, as texts: DataFusion writes times, intervals and floating-point
/// numbers as Arrow does.
pub fn joined_as_texts(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(call) = &mut expression
        && call.func.name() == "array_to_string"
        && let Some(list) = call.args.first_mut()
        && let Some(wanted) = list.get_type(schema).ok().as_ref().and_then(list_of_texts)
    {
        *list = Expr::Cast(Cast::new(Box::new(std::mem::take(list)), wanted));
        return Ok(Transformed::yes(expression));
    }
    Ok(Transformed::no(expression))
}

/// Returns a type of lists with texts in the place of elements that DataFusion writes otherwise than a cast;
/// `None` where there are no such.
fn list_of_texts(of: &DataType) -> Option<DataType> {
    let inner = match element(of)?.data_type() {
        inner if is_list(inner) => list_of_texts(inner)?,
        inner if inner.is_floating() || is_time(inner) || inner.is_nested() => DataType::Utf8,
        _ => return None,
    };
    Some(DataType::List(Arc::new(Field::new_list_field(inner, true))))
}

/// Casts of numbers to types that have not all of them, as they are written, where they are compared with
/// constants. The optimizer would cast the constants instead, and so refuse no number.
pub fn of_compared(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(compared) = operands(&mut expression) else { return Ok(Transformed::no(expression)) };
    if !compared.iter().any(|side| is_constant(side)) {
        return Ok(Transformed::no(expression));
    }
    let mut changed = false;
    for side in compared {
        if let Expr::Cast(Cast { expr, field }) = &*side
            && !is_constant(expr)
            && expr.get_type(schema).is_ok_and(|from| may_not_fit(&from, field.data_type()))
        {
            *side = called(expr, field, false);
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Says whether an operand is a constant, or is one when the statement runs.
fn is_constant(operand: &Expr) -> bool {
    match operand {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::ScalarFunction(call) => !call.args.is_empty() && call.args.iter().all(is_constant),
        _ => false,
    }
}

/// Says whether an integer type, or one of DECIMALs, has numbers that another one has not.
fn may_not_fit(from: &DataType, to: &DataType) -> bool {
    match (of_integers(from), of_integers(to)) {
        (Some((least, greatest)), Some((to_least, to_greatest))) => {
            least < to_least || greatest > to_greatest
        }
        _ => digits_before_point(from).zip(digits_before_point(to)).is_some_and(|(from, to)| to < from),
    }
}

/// Returns the least and the greatest number of a type of integers.
fn of_integers(of: &DataType) -> Option<(i128, i128)> {
    let bits = of.primitive_width().filter(|_| of.is_integer())? * 8;
    Some(match of.is_unsigned_integer() {
        true => (0, (1 << bits) - 1),
        false => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    })
}

/// Returns the largest number of digits that numbers of a type have before the point.
fn digits_before_point(of: &DataType) -> Option<i16> {
    match of {
        DataType::Decimal32(precision, places)
        | DataType::Decimal64(precision, places)
        | DataType::Decimal128(precision, places)
        | DataType::Decimal256(precision, places) => Some(i16::from(*precision) - i16::from(*places)),
        of => of_integers(of).map(|(_, greatest)| greatest.to_string().len() as i16),
    }
}

fn is_binary(of: &DataType) -> bool {
    matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Says whether an expression is of type UUID, which is text in plans.
pub(crate) fn is_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    let is = |field: &Field| matches!(LogicalType::from_arrow(field), Ok(LogicalType::Uuid));
    expr.to_field(schema).is_ok_and(|(_, field)| !field.metadata().is_empty() && is(field.as_ref()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SqlCast {
    to: CastTarget,
    signature: Signature,
}

impl SqlCast {
    fn new(to: CastTarget) -> Self {
        Self { to, signature: Signature::any(1, Volatility::Immutable) }
    }
}

portable_cast!(SqlCast: "cast");

impl ScalarUDFImpl for SqlCast {
    fn name(&self) -> &str {
        if self.to.is_safe() { "try_cast" } else { "cast" }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [of] => Ok(self.to.schema_name(self.name(), of)),
            _ => Err(plan_datafusion_err!("a cast is of one value")),
        }
    }

    as_cast!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (to, safe) = (self.to.field(), self.to.is_safe());
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(cast(values, to, safe)?)),
            [ColumnarValue::Scalar(value)] => {
                let value = cast(&value.to_array()?, to, safe)?;
                Ok(ColumnarValue::Scalar(only_value(&value)?))
            }
            _ => Err(plan_datafusion_err!("a cast is of one value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Int64Array};
    use arrow::buffer::ScalarBuffer;
    use arrow::datatypes::Int32Type;

    #[test]
    fn years_are_far_before_the_first_and_from_10000() {
        for (days, shown) in [
            (-719_163, Some("0001-12-31 BC")),
            (-719_162, Some("0001-01-01")),
            (-719_161, None),
            (0, None),
            (2_932_895, None),
            (2_932_896, Some("9999-12-31")),
            (2_932_897, Some("10000-01-01")),
        ] {
            let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), None, Some(days)]));
            let texts = texts_of_far_years(&dates).unwrap();
            assert_eq!(has_far_years(&dates), shown.is_some(), "{days}");
            assert_eq!(texts.as_ref().map(|texts| texts.value(2)), shown);
            for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond] {
                let second = i64::from(days) * 86_400 + if days < 0 { 86_399 } else { 0 };
                let ticks = Int64Array::from(vec![None, Some(second * time_text::in_second(&unit))]);
                let moments = arrow::compute::cast(&ticks, &DataType::Timestamp(unit, None)).unwrap();
                assert_eq!(has_far_years(&moments), shown.is_some(), "{days} {unit:?}");
            }
        }
    }

    #[test]
    fn values_of_other_rows_and_under_nulls_are_not_cast() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "1", "2", "y"]));
        let item = |of: DataType| Arc::new(Field::new("item", of, true));
        let integer = |of: DataType| Field::new("", of, true);
        let strict = |values: ArrayRef, to: DataType| cast(&values, &integer(to), false);
        let list = |nulls: Option<NullBuffer>| {
            let offsets = OffsetBuffer::from_lengths([1, 2, 1]);
            LargeListArray::new(item(DataType::Utf8), offsets, texts.clone(), nulls)
        };
        let to = DataType::LargeList(item(DataType::Int32));
        assert!(strict(Arc::new(list(None)), to.clone()).is_err());
        for own in [list(None).slice(1, 1), list(Some(vec![false, true, false].into()))] {
            let row = own.len() / 2;
            let numbers = strict(Arc::new(own), to.clone()).unwrap();
            assert_eq!(numbers.as_list::<i64>().value(row).as_primitive::<Int32Type>().values(), &[1, 2]);
        }
        let fields = vec![Field::new("a", DataType::Utf8, true)];
        let nulls = Some(vec![false, true, true, false].into());
        let rows: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![texts.clone()], nulls));
        let to = DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into());
        let numbers = strict(rows, to).unwrap();
        assert_eq!(numbers.null_count(), 2);
        assert_eq!(numbers.as_struct().column(0).as_primitive::<Int32Type>().value(2), 2);
        let entries = |of: DataType| {
            let fields = vec![Field::new("key", DataType::Utf8, false), Field::new("value", of, true)];
            Arc::new(Field::new("entries", DataType::Struct(fields.into()), false))
        };
        let DataType::Struct(fields) = entries(DataType::Utf8).data_type().clone() else { unreachable!() };
        let pairs = StructArray::new(fields, vec![texts.clone(), texts.clone()], None);
        let offsets = OffsetBuffer::from_lengths([1, 2, 1]);
        let maps = MapArray::new(entries(DataType::Utf8), offsets, pairs, None, false).slice(1, 1);
        let numbers = strict(Arc::new(maps.clone()), DataType::Map(entries(DataType::Int32), false)).unwrap();
        assert_eq!(numbers.as_map().value(0).column(1).as_primitive::<Int32Type>().values(), &[1, 2]);
        let shown = strict(Arc::new(maps), DataType::Utf8).unwrap();
        assert_eq!(shown.as_string::<i32>().value(0), "{1=1, 2=2}");
    }

    #[test]
    fn exponents_have_a_sign_and_two_digits() {
        for (text, written) in [
            ("1e16", Some("1e+16")),
            ("-1.5e300", Some("-1.5e+300")),
            ("1e-7", Some("1e-07")),
            ("2.5e-324", Some("2.5e-324")),
            ("0.00001", Some("1e-05")),
            ("-0.000012", Some("-1.2e-05")),
            ("0.000001", Some("1e-06")),
            ("0.0001", None),
            ("0.0", None),
            ("-0.0", None),
            ("100.0001", None),
            ("NaN", None),
            ("inf", None),
        ] {
            assert_eq!(with_exponent(text).as_deref(), written, "{text}");
        }
    }

    #[test]
    fn floats_become_the_decimals_that_they_show() {
        let doubles: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(0.1), None, Some(1e15), Some(-1.005), Some(0.25)]));
        let field = |precision, places| Field::new("", DataType::Decimal128(precision, places), true);
        let shown = |values: &ArrayRef, to: &Field| {
            let decimals = cast(values, to, false).unwrap();
            let decimals = decimals.as_primitive::<Decimal128Type>();
            let rows = 0..decimals.len();
            rows.filter(|row| decimals.is_valid(*row))
                .map(|row| decimals.value_as_string(row))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&doubles, &field(20, 2)), ["0.10", "1000000000000000.00", "-1.01", "0.25"]);
        assert_eq!(
            shown(&doubles, &field(38, 20)),
            [
                "0.10000000000000000000",
                "1000000000000000.00000000000000000000",
                "-1.00500000000000000000",
                "0.25000000000000000000",
            ]
        );
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.1, 16_777_216.0]));
        assert_eq!(shown(&floats, &field(20, 10)), ["0.1000000000", "16777216.0000000000"]);
        let large: ArrayRef = Arc::new(Float64Array::from(vec![9_223_372_036_854_775_808.0]));
        assert_eq!(shown(&large, &field(38, 1)), ["9223372036854775808.0"]);
        let none: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY, 1.5]));
        assert!(cast(&none, &field(10, 1), false).is_err());
        assert_eq!(shown(&cast(&none, &field(10, 1), true).unwrap(), &field(10, 1)), ["1.5"]);
    }

    #[test]
    fn decimals_have_the_digits_that_decide() {
        let some = |plain: &str| Digits::Kept(plain.to_string());
        let nines = "9".repeat(60);
        let [long, fits] = [format!("{nines}.55"), format!("{nines}.5")];
        for (text, scale, plain) in [
            ("1e2", 2, some("100.")),
            (" -1.25E-1 ", 2, some("-.125")),
            ("+.5e1", 2, some("+5.")),
            ("0012.3456", 2, some("12.345")),
            ("1e-3", 2, some(".001")),
            ("9e-4", 2, some("0")),
            ("5e-2", 1, some(".05")),
            ("1.", 0, some("1.")),
            ("0.000e5", 2, some("0")),
            ("1e-999999999999", 2, some("0")),
            (long.as_str(), 0, some(&fits)),
            (long.as_str(), 17, Digits::TooMany),
            ("1e999999999999", 2, Digits::TooMany),
            ("1e", 2, Digits::NoNumber),
            ("", 2, Digits::NoNumber),
            (".", 2, Digits::NoNumber),
            ("1-5", 2, Digits::NoNumber),
            ("1e5.0", 2, Digits::NoNumber),
            ("1e1e1", 2, Digits::NoNumber),
        ] {
            assert_eq!(decimal_text(text, 76, scale), plain, "{text}");
        }
    }

    #[test]
    fn what_lies_under_nulls_is_of_no_year() {
        let days: ScalarBuffer<i32> = vec![i32::MAX, 0, i32::MIN].into();
        let dates = |valid: [bool; 3]| Date32Array::new(days.clone(), Some(valid.to_vec().into()));
        assert!(!has_far_years(&dates([false, true, false])));
        assert!(has_far_years(&dates([false, true, true])));
        assert!(!has_far_years(&dates([true, true, true]).slice(1, 1)));
        let ends = Int64Array::from(vec![i64::MIN, i64::MAX]);
        let ends = arrow::compute::cast(&ends, &DataType::Timestamp(TimeUnit::Nanosecond, None)).unwrap();
        assert!(!has_far_years(&ends));
    }
}
