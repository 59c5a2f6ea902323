//! Values on their way to the client, in text or in PostgreSQL's binary format.
//!
//! An array is first brought into the one shape that its PostgreSQL type has here, whatever type of
//! ours it is of and however it lies; that copies nothing where it has that shape already.

use crate::calendar::{EPOCH_DAYS, EPOCH_MICROSECONDS, put_date, put_time, put_timestamp};
use crate::column::Column;
use crate::document::Document;
use crate::style::{IntervalStyle, Style, put_escaped_bytes};
use crate::types as pg;
use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    LargeBinaryArray, LargeListArray, StringViewArray, UInt32Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DecimalType, Field, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, UInt32Type,
};
use arrow::temporal_conversions::as_datetime_with_timezone;
use bytes::{BufMut, BytesMut};
use hypostyle_types::{Error, IntervalText, Result, recurring};
use std::fmt::Write;
use std::sync::Arc;

const NANOSECONDS: i64 = 1000;

/// Sign of a numeric.
const NUMERIC_NEGATIVE: u16 = 0x4000;

/// Some rows of a column, ready to be written.
pub struct Cells {
    array: ArrayRef,
    pub(crate) values: Values,
}

pub(crate) enum Values {
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    /// The number of an object.
    Oid(UInt32Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Numeric128(Decimal128Array),
    Numeric256(Decimal256Array),
    Text(StringViewArray),
    /// Bytes, and whether they are written as characters.
    Bytes(LargeBinaryArray, bool),
    Uuid(FixedSizeBinaryArray),
    Date(arrow::array::Date32Array),
    Time(arrow::array::Time64MicrosecondArray),
    /// Instants, with the zone that they are shown in.
    Timestamp(arrow::array::TimestampMicrosecondArray, Option<Tz>),
    Interval(IntervalMonthDayNanoArray, IntervalStyle),
    /// Texts that are JSON.
    Json(StringViewArray),
    /// What PostgreSQL lacks, as JSON.
    Document(Document),
    List {
        lists: LargeListArray,
        elements: Box<Cells>,
        oid: u32,
        is_vector: bool,
    },
}

impl Cells {
    /// `style` is the session's.
    ///
    /// # Errors
    /// `InvalidInput` for a value that PostgreSQL's type does not hold.
    pub fn new(array: &ArrayRef, column: &Column, style: Style) -> Result<Self> {
        match column.shown.is_array {
            true => {
                let shape = DataType::LargeList(Arc::new(Field::new("item", element_type(array)?, true)));
                let lists = convert(array, &shape, column)?;
                let scalar =
                    Column { shown: pg::Shown { is_array: false, ..column.shown }, ..column.clone() };
                let own = own_elements(lists.as_list())?;
                let elements = Self::new(own.values(), &scalar, style)?;
                let values = Values::List {
                    lists: own,
                    elements: Box::new(elements),
                    oid: column.shown.scalar.oid,
                    is_vector: column.is_vector,
                };
                Ok(Self { array: lists, values })
            }
            false => Self::scalars(array, column, style),
        }
    }

    fn scalars(array: &ArrayRef, column: &Column, style: Style) -> Result<Self> {
        let scalar = column.shown.scalar;
        if scalar == pg::JSON && !is_text(array.data_type()) {
            let document = Document::new(array, column, style)?;
            return Ok(Self { array: array.clone(), values: Values::Document(document) });
        }
        let shape = match scalar.oid {
            oid if oid == pg::BOOL.oid => DataType::Boolean,
            oid if oid == pg::INT2.oid => DataType::Int16,
            oid if oid == pg::INT4.oid => DataType::Int32,
            oid if oid == pg::INT8.oid => DataType::Int64,
            oid if oid == pg::OID.oid || oid == pg::XID.oid => DataType::UInt32,
            oid if oid == pg::FLOAT4.oid => DataType::Float32,
            oid if oid == pg::FLOAT8.oid => DataType::Float64,
            oid if oid == pg::NUMERIC.oid => match array.data_type() {
                wide @ DataType::Decimal256(_, _) => wide.clone(),
                DataType::Decimal32(precision, scale)
                | DataType::Decimal64(precision, scale)
                | DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
                _ => DataType::Decimal128(20, 0),
            },
            oid if oid == pg::BYTEA.oid => DataType::LargeBinary,
            oid if oid == pg::UUID.oid => DataType::FixedSizeBinary(16),
            oid if oid == pg::DATE.oid => DataType::Date32,
            oid if oid == pg::TIME.oid => DataType::Time64(TimeUnit::Microsecond),
            oid if oid == pg::TIMESTAMP.oid => DataType::Timestamp(TimeUnit::Microsecond, None),
            oid if oid == pg::TIMESTAMPTZ.oid => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            oid if oid == pg::INTERVAL.oid => DataType::Interval(IntervalUnit::MonthDayNano),
            _ => DataType::Utf8View,
        };
        let array = convert(array, &shape, column)?;
        let values = match &shape {
            DataType::Boolean => Values::Bool(array.as_boolean().clone()),
            DataType::Int16 => Values::Int2(array.as_primitive::<Int16Type>().clone()),
            DataType::Int32 => Values::Int4(array.as_primitive::<Int32Type>().clone()),
            DataType::Int64 => Values::Int8(array.as_primitive::<Int64Type>().clone()),
            DataType::UInt32 => Values::Oid(array.as_primitive::<UInt32Type>().clone()),
            DataType::Float32 => Values::Float4(array.as_primitive::<Float32Type>().clone()),
            DataType::Float64 => Values::Float8(array.as_primitive::<Float64Type>().clone()),
            DataType::Decimal128(_, _) => Values::Numeric128(array.as_primitive::<Decimal128Type>().clone()),
            DataType::Decimal256(_, _) => Values::Numeric256(array.as_primitive::<Decimal256Type>().clone()),
            DataType::LargeBinary => Values::Bytes(array.as_binary().clone(), style.escapes_bytes),
            DataType::FixedSizeBinary(_) => Values::Uuid(array.as_fixed_size_binary().clone()),
            DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().clone()),
            DataType::Time64(_) => Values::Time(array.as_primitive::<Time64MicrosecondType>().clone()),
            DataType::Timestamp(_, of_zone) => Values::Timestamp(
                array.as_primitive::<TimestampMicrosecondType>().clone(),
                of_zone.is_some().then_some(style.zone),
            ),
            DataType::Interval(_) => {
                let intervals = array.as_primitive::<IntervalMonthDayNanoType>().clone();
                Values::Interval(intervals, style.intervals)
            }
            _ if matches!(scalar.name, "json" | "jsonb") => Values::Json(array.as_string_view().clone()),
            _ => Values::Text(array.as_string_view().clone()),
        };
        Ok(Self { array, values })
    }

    /// Looks whether the values are those that an array has, which was to be another type's.
    ///
    /// # Errors
    /// 0A000 when one has changed.
    pub fn check_exact(&self, array: &ArrayRef, column: &Column) -> Result<()> {
        let back = cast(&self.array, array.data_type());
        if back.is_ok_and(|back| back.as_ref() == array.as_ref()) {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "column \"{}\" was described as {}, and a value of it is none; prepare the statement again, with the types of \
             its parameters, or cast the column",
            column.name, column.shown.scalar.sql
        )))
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    /// The value with its length before it, as rows have it.
    pub fn put(&self, row: usize, binary: bool, out: &mut BytesMut) {
        if self.is_null(row) {
            out.put_i32(-1);
            return;
        }
        let start = out.len();
        out.put_u32(0);
        match binary {
            true => self.binary(row, out),
            false => self.text(row, out),
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The value, which is not NULL, as text.
    pub fn text(&self, row: usize, out: &mut BytesMut) {
        match &self.values {
            Values::Bool(array) => out.put_u8(if array.value(row) { b't' } else { b'f' }),
            Values::Int2(array) => put_display(out, array.value(row)),
            Values::Int4(array) => put_display(out, array.value(row)),
            Values::Int8(array) => put_display(out, array.value(row)),
            Values::Oid(array) => put_display(out, array.value(row)),
            Values::Float4(array) => {
                let value = array.value(row);
                put_float(out, f64::from(value), &format!("{value:e}"), 6);
            }
            Values::Float8(array) => {
                let value = array.value(row);
                put_float(out, value, &format!("{value:e}"), 15);
            }
            Values::Numeric128(array) => out.put_slice(array.value_as_string(row).as_bytes()),
            Values::Numeric256(array) => out.put_slice(array.value_as_string(row).as_bytes()),
            Values::Text(array) => out.put_slice(array.value(row).as_bytes()),
            Values::Json(array) => out.put_slice(array.value(row).as_bytes()),
            Values::Document(document) => document.put(row, out),
            Values::Bytes(array, true) => put_escaped_bytes(out, array.value(row)),
            Values::Bytes(array, false) => {
                out.put_slice(b"\\x");
                put_hexadecimal(out, array.value(row));
            }
            Values::Uuid(array) => {
                let bytes = array.value(row);
                let mut rest = bytes;
                for (index, length) in [4, 2, 2, 2, 6].into_iter().enumerate() {
                    if index > 0 {
                        out.put_u8(b'-');
                    }
                    let (part, after) = rest.split_at(length.min(rest.len()));
                    put_hexadecimal(out, part);
                    rest = after;
                }
            }
            Values::Date(array) => put_date(out, array.value(row)),
            Values::Time(array) => put_time(out, array.value(row)),
            Values::Timestamp(array, zone) => {
                let value = array.value(row);
                put_timestamp(out, value, zone.map(|zone| offset(value, zone)));
            }
            Values::Interval(array, style) => {
                let value = array.value(row);
                let nanoseconds = value.nanoseconds / NANOSECONDS * NANOSECONDS;
                style.put(out, &IntervalText { months: value.months, days: value.days, nanoseconds });
            }
            Values::List { lists, elements, is_vector: true, .. } => {
                let range = range(lists, row);
                for index in range.clone() {
                    if index > range.start {
                        out.put_u8(b' ');
                    }
                    elements.text(index, out);
                }
            }
            Values::List { lists, elements, .. } => {
                out.put_u8(b'{');
                let range = range(lists, row);
                let mut element = BytesMut::new();
                for index in range.clone() {
                    if index > range.start {
                        out.put_u8(b',');
                    }
                    if elements.is_null(index) {
                        out.put_slice(b"NULL");
                        continue;
                    }
                    element.clear();
                    elements.text(index, &mut element);
                    put_element(out, &element);
                }
                out.put_u8(b'}');
            }
        }
    }

    /// The value, which is not NULL, in PostgreSQL's binary format.
    pub fn binary(&self, row: usize, out: &mut BytesMut) {
        match &self.values {
            Values::Bool(array) => out.put_u8(u8::from(array.value(row))),
            Values::Int2(array) => out.put_i16(array.value(row)),
            Values::Int4(array) => out.put_i32(array.value(row)),
            Values::Int8(array) => out.put_i64(array.value(row)),
            Values::Oid(array) => out.put_u32(array.value(row)),
            Values::Float4(array) => out.put_f32(array.value(row)),
            Values::Float8(array) => out.put_f64(array.value(row)),
            Values::Numeric128(array) => {
                put_numeric(
                    out,
                    &Decimal128Type::format_decimal(array.value(row), array.precision(), array.scale()),
                );
            }
            Values::Numeric256(array) => {
                put_numeric(
                    out,
                    &Decimal256Type::format_decimal(array.value(row), array.precision(), array.scale()),
                );
            }
            Values::Bytes(array, _) => out.put_slice(array.value(row)),
            Values::Uuid(array) => out.put_slice(array.value(row)),
            Values::Date(array) => out.put_i32(array.value(row).saturating_sub(EPOCH_DAYS)),
            Values::Time(array) => out.put_i64(array.value(row)),
            Values::Timestamp(array, _) => out.put_i64(array.value(row).saturating_sub(EPOCH_MICROSECONDS)),
            Values::Interval(array, _) => {
                let value = array.value(row);
                out.put_i64(value.nanoseconds / NANOSECONDS);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Values::List { lists, elements, oid, .. } => {
                let range = range(lists, row);
                let has_null = range.clone().any(|index| elements.is_null(index));
                out.put_i32(i32::from(!range.is_empty()));
                out.put_i32(i32::from(has_null));
                out.put_u32(*oid);
                if !range.is_empty() {
                    out.put_i32(range.len() as i32);
                    // PostgreSQL counts from 1.
                    out.put_i32(1);
                }
                range.for_each(|index| elements.put(index, true, out));
            }
            Values::Text(_) | Values::Json(_) | Values::Document(_) => self.text(row, out),
        }
    }
}

/// Arrow's cast; its NULLs for values that do not fit would be lies.
fn convert(array: &ArrayRef, shape: &DataType, column: &Column) -> Result<ArrayRef> {
    if array.data_type() == shape {
        return Ok(array.clone());
    }
    let wrong = |why: String| Error::invalid_input(format!("column \"{}\": {why}", column.name));
    let converted = cast(array, shape).map_err(|error| wrong(error.to_string()))?;
    if converted.logical_null_count() != array.logical_null_count() {
        let kind = column.shown.scalar.sql;
        return Err(wrong(format!("a value is out of the range of {kind}")).with_sqlstate("22003"));
    }
    Ok(converted)
}

fn element_type(array: &ArrayRef) -> Result<DataType> {
    match array.data_type() {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => Ok(field.data_type().clone()),
        other => Err(Error::internal(format!("an array of PostgreSQL made from {other}"))),
    }
}

/// Returns lists over the elements that they have: a slice has those of the whole.
pub(crate) fn own_elements(lists: &LargeListArray) -> Result<LargeListArray> {
    let (element, offsets, elements, nulls) = lists.clone().into_parts();
    let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
    let own = elements.slice(start as usize, (end - start) as usize);
    let offsets = OffsetBuffer::new(offsets.iter().map(|offset| offset - start).collect());
    LargeListArray::try_new(element, offsets, own, nulls)
        .map_err(|error| Error::internal(format!("lists that are none: {error}")))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null),
    }
}

pub(crate) fn range(lists: &LargeListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// Seconds that a zone is ahead of UTC at an instant.
pub(crate) fn offset(microseconds: i64, zone: Tz) -> i64 {
    let known = recurring(microseconds.div_euclid(1_000_000)) * 1_000_000;
    as_datetime_with_timezone::<TimestampMicrosecondType>(known, zone)
        .map_or(0, |time| (time.naive_local() - time.naive_utc()).num_seconds())
}

fn put_display(out: &mut BytesMut, value: impl std::fmt::Display) {
    // A buffer in memory takes everything.
    let _never_fails = write!(out, "{value}");
}

fn put_hexadecimal(out: &mut BytesMut, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.put_u8(DIGITS[usize::from(byte >> 4)]);
        out.put_u8(DIGITS[usize::from(byte & 15)]);
    }
}

/// The shortest digits that are the number, with an exponent where PostgreSQL has one.
fn put_float(out: &mut BytesMut, value: f64, scientific: &str, digits: i32) {
    if value.is_nan() {
        return out.put_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.put_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        return put_display(out, format_args!("{mantissa}e{sign}{:02}", exponent.abs()));
    }
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let significant: String = mantissa.chars().filter(|c| *c != '.').collect();
    out.put_slice(sign.as_bytes());
    let whole = (exponent + 1).max(0) as usize;
    match whole {
        0 => {
            put_display(out, format_args!("0.{}{significant}", "0".repeat((-exponent - 1) as usize)));
        }
        _ if significant.len() <= whole => {
            put_display(out, format_args!("{significant}{}", "0".repeat(whole - significant.len())));
        }
        _ => put_display(out, format_args!("{}.{}", &significant[..whole], &significant[whole..])),
    }
}

/// A decimal number as groups of four digits, the first with its weight.
fn put_numeric(out: &mut BytesMut, text: &str) {
    let (sign, text) = text.strip_prefix('-').map_or((0, text), |rest| (NUMERIC_NEGATIVE, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let scale = fraction.len();
    let padded = format!(
        "{}{whole}{fraction}{}",
        "0".repeat((4 - whole.len() % 4) % 4),
        "0".repeat((4 - scale % 4) % 4)
    );
    let mut groups: Vec<u16> = padded
        .as_bytes()
        .chunks(4)
        .map(|digits| digits.iter().fold(0, |group, digit| group * 10 + u16::from(digit - b'0')))
        .collect();
    let mut weight = whole.len().div_ceil(4) as i16 - 1;
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight -= zeros as i16;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.put_u16(groups.len() as u16);
    out.put_i16(weight);
    out.put_u16(if groups.is_empty() { 0 } else { sign });
    out.put_u16(scale as u16);
    groups.into_iter().for_each(|group| out.put_u16(group));
}

/// An element of an array's text, in quotes where it could be taken for something else.
fn put_element(out: &mut BytesMut, text: &[u8]) {
    let special = |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace();
    if !text.is_empty() && !text.iter().any(special) && !text.eq_ignore_ascii_case(b"null") {
        return out.put_slice(text);
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ListArray, StringArray, TimestampNanosecondArray, UInt64Array};
    use hypostyle_types::LogicalType;

    fn cells(array: impl Array + 'static) -> Cells {
        let field = Field::new("c", array.data_type().clone(), true);
        let column = Column::new("c", &LogicalType::from_arrow(&field).unwrap());
        let style = Style::from("UTC".parse::<Tz>().unwrap());
        Cells::new(&(Arc::new(array) as ArrayRef), &column, style).unwrap()
    }

    fn text(cells: &Cells, row: usize) -> String {
        let mut out = BytesMut::new();
        cells.text(row, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn binary(cells: &Cells, row: usize) -> Vec<u8> {
        let mut out = BytesMut::new();
        cells.binary(row, &mut out);
        out.to_vec()
    }

    #[test]
    fn floats_are_written_as_postgresql_writes_them() {
        let values =
            [0.0, -0.0, 1.0, 1.5, -1e-5, 1e-4, 1e14, 1e15, 123456.789, f64::NAN, f64::NEG_INFINITY, 1e300];
        let shown = [
            "0",
            "-0",
            "1",
            "1.5",
            "-1e-05",
            "0.0001",
            "100000000000000",
            "1e+15",
            "123456.789",
            "NaN",
            "-Infinity",
            "1e+300",
        ];
        let cells = cells(Float64Array::from(values.to_vec()));
        for (row, shown) in shown.into_iter().enumerate() {
            assert_eq!(text(&cells, row), shown);
        }
    }

    #[test]
    fn numerics_have_groups_of_four_digits() {
        let values =
            Decimal128Array::from(vec![0, 12345, -10_000_001, 1]).with_precision_and_scale(18, 3).unwrap();
        let cells = cells(values);
        assert_eq!(text(&cells, 2), "-10000.001");
        assert_eq!(binary(&cells, 0), [0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(binary(&cells, 1), [0, 2, 0, 0, 0, 0, 0, 3, 0, 12, 0x0d, 0x7a]);
        assert_eq!(binary(&cells, 2), [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0, 0, 0, 10]);
        assert_eq!(binary(&cells, 3), [0, 1, 0xff, 0xff, 0, 0, 0, 3, 0, 10]);
        let wide = self::cells(UInt64Array::from(vec![u64::MAX]));
        assert_eq!(text(&wide, 0), "18446744073709551615");
    }

    #[test]
    fn arrays_quote_what_could_be_mistaken() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        let cells = cells(lists);
        assert_eq!(text(&cells, 0), "{1,NULL}");
        assert!(cells.is_null(1));
        assert_eq!(text(&cells, 2), "{}");
        assert_eq!(binary(&cells, 2), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23]);
        let lists = [vec![Some(1)], vec![Some(2), Some(3)], vec![Some(4)]].map(Some);
        let slice = ListArray::from_iter_primitive::<Int32Type, _, _>(lists).slice(1, 1);
        assert_eq!(text(&self::cells(slice), 0), "{2,3}");
        let mut out = BytesMut::new();
        for element in ["a", "", "null", "a b", "a\"b\\"] {
            put_element(&mut out, element.as_bytes());
            out.put_u8(b'|');
        }
        assert_eq!(out, "a|\"\"|\"null\"|\"a b\"|\"a\\\"b\\\\\"|");
    }

    #[test]
    fn documents_are_elements_of_arrays() {
        let texts = StringArray::from(vec![r#"{"a": 1}"#, "null", "[1, 2]", "7"]);
        let field = Arc::new(LogicalType::Json.arrow_field("item", true));
        let values = arrow::compute::cast(&texts, field.data_type()).unwrap();
        let lists = LargeListArray::new(field, OffsetBuffer::from_lengths([3, 1]), values, None);
        let of = LogicalType::List { element: Box::new(LogicalType::Json) };
        let style = Style::from("UTC".parse::<Tz>().unwrap());
        let cells = Cells::new(&(Arc::new(lists) as ArrayRef), &Column::new("c", &of), style).unwrap();
        assert_eq!(text(&cells, 0), r#"{"{\"a\": 1}","null","[1, 2]"}"#);
        assert_eq!(text(&cells, 1), "{7}");
        let header = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 114, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, b'7'];
        assert_eq!(binary(&cells, 1), header);
    }

    #[test]
    fn nanoseconds_are_cut() {
        let cells = cells(TimestampNanosecondArray::from(vec![1_234_567]).with_timezone("UTC"));
        assert_eq!(text(&cells, 0), "1970-01-01 00:00:00.001234+00");
    }
}
