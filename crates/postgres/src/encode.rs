//! Arrow arrays in the forms of a server's types, for parameters and for COPY.

use crate::nested;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, GenericListArray, LargeStringArray, OffsetSizeTrait};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use bytes::{BufMut, BytesMut};
use hypostyle_pgtypes::calendar::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use hypostyle_pgtypes::types::{self as pg, PostgresType, Shown};
use hypostyle_pgtypes::{Cells, Column, IntervalStyle, Style};
use hypostyle_types::{DAY_MICROSECONDS, Error, LogicalType, Result};

/// The bytes of a UUID.
const UUID_BYTES: i32 = 16;

/// The least number that a REAL rounds to infinity: 2^128 - 2^103.
const REAL_END: f64 = 3.402_823_567_797_336_6e38;

/// Nanoseconds of a microsecond.
const NANOSECONDS: i64 = 1_000;

/// The version of JSON's binary form.
const JSONB_VERSION: u8 = 1;

/// The signs of a number in binary.
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;

/// The most digits behind the point that a number has.
const SCALE_MAX: usize = 16_383;

/// The zeros that an exponent may stand for.
const EXPONENT_MAX: i64 = 131_072;

/// The type that values are to have on the server, and the form in which they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The type whose binary form is written here, and whether the target is an array of it; `None` for
    /// texts that the server reads.
    binary: Option<(PostgresType, bool)>,
}

impl Target {
    /// Returns the target for values of an Arrow type in a place of the server's type `oid`. The server
    /// reads texts for other types than texts by itself, as it reads constants.
    pub fn new(oid: u32, values: &DataType) -> Self {
        let is_written = |of: &(PostgresType, bool)| {
            // Arrays of arrays are texts; documents have lists of any depth.
            let is_deep = of.1 && nested::are_deep(values);
            !is_deep && (!are_texts(values) || takes_texts(*of, values))
        };
        Self { binary: written(oid).filter(is_written) }
    }

    pub fn is_binary(self) -> bool {
        self.binary.is_some()
    }
}

/// Returns the type of the values, and whether they are arrays of it, if their binary form is written
/// here.
fn written(oid: u32) -> Option<(PostgresType, bool)> {
    let (scalar, is_array) = pg::by_oid(oid)?;
    let is_known = matches!(
        scalar.name,
        "bool"
            | "int2"
            | "int4"
            | "int8"
            | "oid"
            | "float4"
            | "float8"
            | "text"
            | "varchar"
            | "bpchar"
            | "name"
            | "bytea"
            | "date"
            | "time"
            | "timestamp"
            | "timestamptz"
            | "interval"
            | "uuid"
            | "json"
    );
    let is_scalar_only = matches!(scalar.name, "jsonb" | "numeric") && !is_array;
    (is_known || is_scalar_only).then_some((scalar, is_array))
}

/// Says whether values, or the elements of lists, are texts.
fn are_texts(values: &DataType) -> bool {
    match values {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => are_texts(values),
        list => element(list).is_some_and(are_texts),
    }
}

fn element(values: &DataType) -> Option<&DataType> {
    nested::element(values).map(|field| field.data_type())
}

/// Says whether a type, or an array of it, takes texts, or lists of them, as they are.
fn takes_texts((scalar, is_array): (PostgresType, bool), values: &DataType) -> bool {
    let is_text =
        matches!(scalar.name, "text" | "varchar" | "bpchar" | "name" | "json" | "jsonb" | "numeric");
    is_text && (!is_array || element(values).is_some())
}

/// Returns the type with which a parameter of an Arrow type is declared; 0 leaves it to the server.
pub fn declared(field: &Field) -> u32 {
    // A value of a parameter has no name of its type: 16 bytes are those of a UUID.
    if field.data_type() == &DataType::FixedSizeBinary(UUID_BYTES) {
        return pg::UUID.oid;
    }
    match LogicalType::from_arrow(field) {
        Ok(LogicalType::Varchar | LogicalType::Json) | Err(_) => 0,
        Ok(logical_type) => pg::shown(&logical_type).oid(),
    }
}

/// Returns the type that the values of a parameter would have as constants of SQL, where they are declared
/// with another: a whole number is an integer unless it is too large for one.
pub fn as_constants(values: &ArrayRef, declared: u32) -> u32 {
    let narrow = if declared == pg::INT8.oid {
        pg::INT4.oid
    } else if declared == pg::INT8.array {
        pg::INT4.array
    } else {
        return declared;
    };
    let numbers = elements(values).unwrap_or_else(|| values.clone());
    // A number that does not fit becomes NULL.
    let fit = cast(&numbers, &DataType::Int32).is_ok_and(|cast| cast.null_count() == numbers.null_count());
    if fit { narrow } else { declared }
}

/// Values ready to be written in a target's form.
pub struct Encoded {
    form: Form,
}

enum Form {
    Cells(Box<Cells>),
    /// The same with the version of JSON before it.
    Jsonb(Box<Cells>),
    /// Numbers as text.
    Numeric(LargeStringArray),
    /// Composite types, and arrays with more than plain values within, which the server reads.
    Literals(LargeStringArray),
}

impl Encoded {
    /// Brings an array into the form of a target. `name` is the column's or parameter's.
    ///
    /// # Errors
    /// `InvalidInput` for a value that the target does not hold.
    pub fn new(array: &ArrayRef, name: &str, target: Target) -> Result<Self> {
        let (scalar, is_array) =
            target.binary.unwrap_or_else(|| (pg::TEXT, element(array.data_type()).is_some()));
        // A NULL is sent as one, of whatever type.
        let is_array = is_array && array.data_type() != &DataType::Null;
        let wrong = |why: String| Error::invalid_input(format!("column \"{name}\": {why}"));
        if !target.is_binary() && nested::are_nested(array.data_type()) {
            return Ok(Self { form: Form::Literals(nested::literals(array, name)?) });
        }
        if scalar == pg::NUMERIC && !is_array {
            let texts = cast(array, &DataType::LargeUtf8).map_err(|error| wrong(error.to_string()))?;
            let texts = texts.as_string::<i64>().clone();
            return Ok(Self { form: Form::Numeric(texts) });
        }
        let is_jsonb = scalar.name == "jsonb";
        let scalar = if is_jsonb { pg::JSON } else { scalar };
        check_loss(array, scalar).map_err(wrong)?;
        let shown = Shown { scalar, is_array, modifier: -1 };
        let column = Column {
            name: name.into(),
            shown,
            oid: shown.oid(),
            bytes: shown.bytes(),
            modifier: -1,
            table: 0,
            number: 0,
            is_vector: false,
        };
        let zone = "UTC".parse().map_err(|_| Error::internal("there is no UTC"))?;
        let style = Style { zone, intervals: IntervalStyle::Postgres, escapes_bytes: false };
        let cells = Box::new(Cells::new(array, &column, style)?);
        let form = if is_jsonb { Form::Jsonb(cells) } else { Form::Cells(cells) };
        Ok(Self { form })
    }

    pub fn is_null(&self, row: usize) -> bool {
        match &self.form {
            Form::Cells(cells) | Form::Jsonb(cells) => cells.is_null(row),
            Form::Numeric(texts) | Form::Literals(texts) => texts.is_null(row),
        }
    }

    /// Writes a value in binary with its length before it.
    ///
    /// # Errors
    /// `InvalidInput` for a text that is no number.
    pub fn put(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        let start = out.len();
        out.put_u32(0);
        match &self.form {
            Form::Cells(cells) => cells.binary(row, out),
            Form::Jsonb(cells) => {
                out.put_u8(JSONB_VERSION);
                cells.binary(row, out);
            }
            Form::Numeric(texts) => put_numeric(texts.value(row), out)?,
            Form::Literals(texts) => out.put_slice(texts.value(row).as_bytes()),
        }
        put_length(start, out);
        Ok(())
    }

    /// Writes a value, which is not NULL, as text.
    pub fn put_text(&self, row: usize, out: &mut BytesMut) {
        match &self.form {
            Form::Cells(cells) | Form::Jsonb(cells) => cells.text(row, out),
            Form::Numeric(texts) | Form::Literals(texts) => out.put_slice(texts.value(row).as_bytes()),
        }
    }
}

/// Writes the length of a value in front of it.
pub fn put_length(start: usize, out: &mut BytesMut) {
    let length = u32::try_from(out.len().saturating_sub(start + 4)).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Refuses values that a cast would change without a word.
fn check_loss(array: &ArrayRef, scalar: PostgresType) -> Result<(), String> {
    if let Some(elements) = elements(array) {
        return check_loss(&elements, scalar);
    }
    let is_float = matches!(array.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64);
    let is_decimal = array.data_type().is_decimal();
    if (is_float || is_decimal) && matches!(scalar.name, "int2" | "int4" | "int8" | "oid") {
        let whole = cast(array, &DataType::Int64).and_then(|whole| cast(&whole, array.data_type()));
        let is_same = whole.is_ok_and(|whole| whole.as_ref() == array.as_ref());
        return if is_same {
            Ok(())
        } else {
            Err(format!("a value is not a whole number of {}", scalar.sql))
        };
    }
    // These would become infinite.
    let is_beyond = match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            days.iter().flatten().any(|days| days <= i32::MIN + EPOCH_DAYS)
        }
        DataType::Float64 if scalar.name == "float4" => {
            let numbers = array.as_primitive::<Float64Type>();
            numbers.iter().flatten().any(|number| number.is_finite() && number.abs() >= REAL_END)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let times = array.as_primitive::<TimestampMicrosecondType>();
            times.iter().flatten().any(|time| time <= i64::MIN + EPOCH_MICROSECONDS)
        }
        _ => false,
    };
    if is_beyond { Err(format!("a value is out of the range of {}", scalar.sql)) } else { Ok(()) }
}

/// Refuses values that a column would cut. Parameters are cut by the server's types, as its constants are: a
/// program's clock may have nanoseconds.
///
/// # Errors
/// `InvalidInput`.
pub fn check_whole(array: &ArrayRef, name: &str, target: Target) -> Result<()> {
    let Some((scalar, _)) = target.binary else { return Ok(()) };
    let elements = elements(array);
    match is_cut(elements.as_ref().unwrap_or(array), scalar) {
        true => Err(Error::invalid_input(format!("column \"{name}\": a value is finer than {}", scalar.sql))),
        false => Ok(()),
    }
}

/// Says whether values have parts that a type of days, or of microseconds, has not.
fn is_cut(array: &ArrayRef, scalar: PostgresType) -> bool {
    if let DataType::Interval(IntervalUnit::MonthDayNano) = array.data_type() {
        let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
        return scalar.name == "interval"
            && intervals.iter().flatten().any(|interval| interval.nanoseconds % NANOSECONDS != 0);
    }
    let Some(step) = step(array.data_type(), scalar) else { return false };
    let counts = cast(array, &DataType::Int64);
    counts.is_ok_and(|counts| {
        counts.as_primitive::<Int64Type>().iter().flatten().any(|count| count % step != 0)
    })
}

/// Returns how many units of an Arrow type a unit of the server's type is, where it is more than one.
fn step(values: &DataType, scalar: PostgresType) -> Option<i64> {
    let a_day = |unit: &TimeUnit| match unit {
        TimeUnit::Second => DAY_MICROSECONDS / 1_000_000,
        TimeUnit::Millisecond => DAY_MICROSECONDS / 1_000,
        TimeUnit::Microsecond => DAY_MICROSECONDS,
        TimeUnit::Nanosecond => DAY_MICROSECONDS * NANOSECONDS,
    };
    match (values, scalar.name) {
        (DataType::Timestamp(TimeUnit::Nanosecond, _), "timestamp" | "timestamptz")
        | (DataType::Time64(TimeUnit::Nanosecond), "time")
        | (DataType::Duration(TimeUnit::Nanosecond), "interval") => Some(NANOSECONDS),
        (DataType::Date64, "date") => Some(a_day(&TimeUnit::Millisecond)),
        // The day of an instant depends on where it is looked at.
        (DataType::Timestamp(unit, None), "date") => Some(a_day(unit)),
        _ => None,
    }
}

/// Returns the elements of the lists of an array, if they are lists.
fn elements(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => Some(between(array.as_list::<i32>())),
        DataType::LargeList(_) => Some(between(array.as_list::<i64>())),
        DataType::FixedSizeList(_, _) => Some(array.as_fixed_size_list().values().clone()),
        _ => None,
    }
}

/// Returns the elements between the begin of the first list and the end of the last one: those of a slice
/// are a part of all.
fn between<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrayRef {
    let offsets = lists.value_offsets();
    let place = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
    let (start, end) = (place(offsets.first()), place(offsets.last()));
    lists.values().slice(start, end - start)
}

/// Writes a number from its text, such as `-12.50`, `1e20` or `NaN`.
fn put_numeric(text: &str, out: &mut BytesMut) -> Result<()> {
    let wrong = || Error::invalid_input(format!("\"{text}\" is not a number")).with_sqlstate("22P02");
    let trimmed = text.trim();
    let special = match trimmed.to_ascii_lowercase().as_str() {
        "nan" => Some(NAN),
        "inf" | "infinity" | "+inf" | "+infinity" => Some(INFINITY),
        "-inf" | "-infinity" => Some(MINUS_INFINITY),
        _ => None,
    };
    if let Some(sign) = special {
        [0, 0, sign, 0].into_iter().for_each(|part| out.put_u16(part));
        return Ok(());
    }
    let (is_negative, unsigned) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| wrong())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let is_exponent = (-EXPONENT_MAX..=EXPONENT_MAX).contains(&exponent);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) || !is_exponent {
        return Err(wrong());
    }
    let point = whole.len() as i64 + exponent;
    let scale = usize::try_from((fraction.len() as i64 - exponent).max(0)).unwrap_or_default();
    put_digits(&digits, point, scale.min(SCALE_MAX), is_negative, out).ok_or_else(wrong)
}

/// Writes decimal digits, of which `point` are before the point, as groups of four.
fn put_digits(digits: &[u8], point: i64, scale: usize, is_negative: bool, out: &mut BytesMut) -> Option<()> {
    // The first group begins at a multiple of four digits from the point.
    let lead = usize::try_from((-point).rem_euclid(4)).ok()?;
    let mut padded = vec![b'0'; lead];
    padded.extend_from_slice(digits);
    while padded.len() % 4 != 0 {
        padded.push(b'0');
    }
    let mut groups: Vec<u16> = padded
        .chunks(4)
        .map(|group| group.iter().fold(0, |value, digit| value * 10 + u16::from(digit.wrapping_sub(b'0'))))
        .collect();
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let weight = (point + lead as i64) / 4 - 1 - zeros as i64;
    let weight = if groups.is_empty() { 0 } else { i16::try_from(weight).ok()? };
    out.put_u16(u16::try_from(groups.len()).ok()?);
    out.put_i16(weight);
    out.put_u16(if is_negative && !groups.is_empty() { NEGATIVE } else { 0 });
    out.put_u16(u16::try_from(scale).ok()?);
    groups.into_iter().for_each(|group| out.put_u16(group));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{
        Date32Array, Date64Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, NullArray,
        StringArray, Time64NanosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    };
    use arrow_buffer::IntervalMonthDayNano;
    use std::sync::Arc;

    fn binary(array: impl Array + 'static, oid: u32) -> Result<Vec<u8>> {
        let target = Target::new(oid, array.data_type());
        let encoded = Encoded::new(&(Arc::new(array) as ArrayRef), "c", target)?;
        let mut out = BytesMut::new();
        encoded.put(0, &mut out)?;
        Ok(out.to_vec())
    }

    #[test]
    fn numbers_are_read_back_as_they_were() {
        for (text, shown) in [
            ("0", "0"),
            ("-0.00", "0.00"),
            ("1", "1"),
            ("-12.50", "-12.50"),
            ("10000", "10000"),
            ("123456789.000012345", "123456789.000012345"),
            ("0.00001", "0.00001"),
            ("1e20", "100000000000000000000"),
            ("1.5E-7", "0.00000015"),
            ("+1.25e2", "125"),
            ("12.5e1", "125"),
            (".5", "0.5"),
            ("5.", "5"),
            ("NaN", "NaN"),
            ("-inf", "-Infinity"),
        ] {
            let bytes = binary(StringArray::from(vec![text]), pg::NUMERIC.oid).unwrap();
            let mut read = Vec::new();
            crate::decode::number::put_text(&bytes[4..], &mut read).unwrap();
            assert_eq!(String::from_utf8(read).unwrap(), shown, "{text}");
        }
        let least = format!("1e{}", i64::MIN);
        for text in ["", "-", ".", "a", "1e", "1e999999", "1_0", "0x1", &least] {
            assert!(binary(StringArray::from(vec![text]), pg::NUMERIC.oid).is_err(), "{text}");
        }
    }

    #[test]
    fn times_that_a_column_would_cut_are_refused() {
        const DAY: i64 = 86_400_000;
        let check = |array: ArrayRef, oid: u32| {
            let target = Target::new(oid, array.data_type());
            assert!(Encoded::new(&array, "c", target).is_ok());
            check_whole(&array, "c", target)
        };
        let interval = |nanoseconds: i64| {
            let interval = IntervalMonthDayNano::new(1, 2, nanoseconds);
            Arc::new(IntervalMonthDayNanoArray::from(vec![interval])) as ArrayRef
        };
        let timestamp = |time: i64| Arc::new(TimestampNanosecondArray::from(vec![time])) as ArrayRef;
        let time = |time: i64| Arc::new(Time64NanosecondArray::from(vec![time])) as ArrayRef;
        let day = |time: i64| Arc::new(Date64Array::from(vec![time])) as ArrayRef;
        let instant = |time: i64| Arc::new(TimestampMillisecondArray::from(vec![time])) as ArrayRef;
        for (cut, whole, oid) in [
            (timestamp(1_001), timestamp(1_000), pg::TIMESTAMP.oid),
            (time(1_001), time(1_000), pg::TIME.oid),
            (interval(5), interval(5_000), pg::INTERVAL.oid),
            (day(DAY + 1), day(DAY), pg::DATE.oid),
            (instant(1 - DAY), instant(-DAY), pg::DATE.oid),
        ] {
            assert!(check(cut, oid).unwrap_err().message().contains("finer than"));
            check(whole, oid).unwrap();
        }
    }

    #[test]
    fn values_that_would_change_are_refused() {
        assert!(binary(Float64Array::from(vec![1.5]), pg::INT4.oid).is_err());
        assert_eq!(binary(Float64Array::from(vec![2.0]), pg::INT4.oid).unwrap(), [0, 0, 0, 4, 0, 0, 0, 2]);
        assert!(binary(Int64Array::from(vec![1 << 40]), pg::INT4.oid).is_err());
        assert!(binary(Date32Array::from(vec![i32::MIN]), pg::DATE.oid).is_err());
        assert!(binary(Float64Array::from(vec![1e300]), pg::FLOAT4.oid).is_err());
        assert!(binary(Float64Array::from(vec![f64::INFINITY]), pg::FLOAT4.oid).is_ok());
        assert_eq!(binary(StringArray::from(vec!["{}"]), 3802).unwrap(), [0, 0, 0, 3, 1, b'{', b'}']);
        assert_eq!(binary(Int64Array::from(vec![None]), pg::INT4.oid).unwrap(), [255; 4]);
        let lists = |last: f64| {
            let elements = vec![Some(vec![Some(1.0), None]), Some(vec![Some(last)])];
            ListArray::from_iter_primitive::<Float64Type, _, _>(elements)
        };
        assert!(binary(lists(2.0), pg::INT4.array).is_ok());
        assert!(binary(lists(2.5), pg::INT4.array).is_err());
        // Only the rows of a slice count.
        assert!(binary(lists(2.5).slice(0, 1), pg::INT4.array).is_ok());
        assert!(binary(lists(2.5).slice(1, 1), pg::INT4.array).is_err());
    }

    #[test]
    fn parameters_are_declared_with_their_types() {
        let of = |data_type| declared(&Field::new("", data_type, true));
        assert_eq!(of(DataType::Int64), pg::INT8.oid);
        assert_eq!(of(DataType::FixedSizeBinary(16)), pg::UUID.oid);
        assert_eq!(of(DataType::LargeBinary), pg::BYTEA.oid);
        assert_eq!(of(DataType::LargeUtf8), 0);
    }

    #[test]
    fn whole_numbers_are_integers_as_constants_are() {
        let number = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let list = |value| {
            let elements = vec![Some(vec![Some(1), None, Some(value)])];
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(elements)) as ArrayRef
        };
        let (most, more) = (i64::from(i32::MAX), i64::from(i32::MAX) + 1);
        for (values, declared, constant) in [
            (number(Some(most)), pg::INT8.oid, pg::INT4.oid),
            (number(None), pg::INT8.oid, pg::INT4.oid),
            (number(Some(more)), pg::INT8.oid, pg::INT8.oid),
            (number(Some(1)), pg::NUMERIC.oid, pg::NUMERIC.oid),
            (list(most), pg::INT8.array, pg::INT4.array),
            (list(more), pg::INT8.array, pg::INT8.array),
        ] {
            assert_eq!(as_constants(&values, declared), constant, "{values:?}");
        }
    }

    #[test]
    fn the_server_reads_texts_for_other_types() {
        let elements = vec![Some(vec![Some(1), None])];
        let numbers = ListArray::from_iter_primitive::<Int32Type, _, _>(elements).data_type().clone();
        let texts = DataType::new_large_list(DataType::Utf8, true);
        let deep = DataType::new_large_list(numbers.clone(), true);
        let codes = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        for (oid, values, is_binary) in [
            (pg::TEXT.oid, &DataType::Utf8, true),
            (pg::TEXT.oid, &texts, true),
            (pg::TEXT.array, &texts, true),
            (pg::TEXT.array, &DataType::Utf8, false),
            (pg::NUMERIC.oid, &DataType::LargeUtf8, true),
            (pg::JSON.oid, &DataType::Utf8, true),
            (pg::JSON.array, &DataType::Utf8, false),
            (pg::INT4.oid, &DataType::Utf8View, false),
            (pg::INT4.oid, &codes, false),
            (pg::INT4.oid, &DataType::Int64, true),
            (pg::INT4.oid, &DataType::Null, true),
            (pg::INT4.array, &DataType::Utf8, false),
            (pg::INT4.array, &texts, false),
            (pg::INT4.array, &numbers, true),
            (pg::INT4.array, &deep, false),
            (pg::JSON.oid, &deep, true),
            (869, &deep, false),
            (pg::DATE.oid, &DataType::Utf8, false),
            (869, &DataType::Utf8, false),
            (869, &DataType::Int64, false),
        ] {
            assert_eq!(Target::new(oid, values).is_binary(), is_binary, "{oid} {values}");
        }
        let encoded = |text: &str, oid| {
            let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
            let encoded = Encoded::new(&array, "c", Target::new(oid, array.data_type())).unwrap();
            let mut out = BytesMut::new();
            encoded.put_text(0, &mut out);
            String::from_utf8(out.to_vec()).unwrap()
        };
        assert_eq!(encoded("{1,2}", pg::INT4.array), "{1,2}");
        assert_eq!(encoded("3.1.2024", pg::DATE.oid), "3.1.2024");
    }

    #[test]
    fn nulls_without_a_type_are_nulls_of_any() {
        let array: ArrayRef = Arc::new(NullArray::new(2));
        for oid in [pg::INT4.oid, pg::INT4.array, pg::DATE.array, pg::NUMERIC.oid, pg::NUMERIC.array] {
            let encoded = Encoded::new(&array, "c", Target::new(oid, array.data_type())).unwrap();
            let mut out = BytesMut::new();
            encoded.put(1, &mut out).unwrap();
            assert_eq!((encoded.is_null(0), out.as_ref()), (true, (-1i32).to_be_bytes().as_slice()), "{oid}");
        }
    }
}
