//! Arrow arrays of a caller into arrays of a column's type: exactly, or not at all.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type,
    Time64MicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, LargeListArray,
    LargeStringArray, MapArray, OffsetSizeTrait, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use arrow_select::nullif::nullif;
use hypostyle_position::nan::one;
use hypostyle_types::{
    DAY_MICROSECONDS, Error, LogicalType, Result, StructField, check_json_text, parse_uuid,
};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

type ArrowResult<T> = std::result::Result<T, ArrowError>;

/// Converts `array` for the column `name` of type `target`; `first_row` numbers its rows in messages.
/// Dictionary arrays of strings are left as they are for VARCHAR.
///
/// # Errors
/// `InvalidInput` naming the column, row and value when the types do not fit or a value is lost.
pub fn convert(array: &ArrayRef, name: &str, target: &LogicalType, first_row: u64) -> Result<ArrayRef> {
    let row = |index: usize| first_row + index as u64;
    // A text may say that NaN has a sign, and programs and processors give it others; it is looked for by its
    // bits.
    let converted = one(convert_rows(array, name, target, &row)?);
    without_hidden_text(&converted).map_err(does_not_fit(name))
}

/// The same values without text under NULLs. Nobody has looked whether that is UTF-8, and who reads
/// the file, or the log, takes all text in it for such.
fn without_hidden_text(array: &ArrayRef) -> ArrowResult<ArrayRef> {
    Ok(match array.data_type() {
        DataType::LargeUtf8 => {
            let strings = array.as_string::<i64>();
            let offsets = strings.value_offsets();
            let hides = |nulls: &NullBuffer| {
                (0..nulls.len()).any(|row| nulls.is_null(row) && offsets[row] != offsets[row + 1])
            };
            match strings.nulls().filter(|nulls| nulls.null_count() > 0) {
                Some(nulls) if hides(nulls) => Arc::new(strings.iter().collect::<LargeStringArray>()),
                _ => array.clone(),
            }
        }
        data_type if !has_text(data_type) => array.clone(),
        DataType::LargeList(field) => {
            let list = array.as_list::<i64>();
            let values = without_hidden_text(list.values())?;
            Arc::new(LargeListArray::try_new(
                field.clone(),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?)
        }
        DataType::FixedSizeList(field, length) => {
            let list = array.as_fixed_size_list();
            let values = without_hidden_text(list.values())?;
            let nulls = list.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new_with_length(
                field.clone(),
                *length,
                values,
                nulls,
                list.len(),
            )?)
        }
        DataType::Struct(fields) => {
            let members = array.as_struct();
            let columns = members.columns().iter().map(without_hidden_text).collect::<ArrowResult<_>>()?;
            let nulls = members.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, members.len())?)
        }
        DataType::Map(entries, ordered) => {
            let map = array.as_map();
            let pairs: ArrayRef = Arc::new(map.entries().clone());
            let pairs = without_hidden_text(&pairs)?.as_struct().clone();
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(entries.clone(), offsets, pairs, nulls, *ordered)?)
        }
        _ => array.clone(),
    })
}

fn has_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::LargeUtf8 => true,
        DataType::LargeList(child) | DataType::FixedSizeList(child, _) | DataType::Map(child, _) => {
            has_text(child.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_text(field.data_type())),
        _ => false,
    }
}

/// [`convert`] of values, or of the elements and fields of values, whose row is told by their place.
fn convert_rows(
    array: &ArrayRef,
    name: &str,
    target: &LogicalType,
    row: &dyn Fn(usize) -> u64,
) -> Result<ArrayRef> {
    let wanted = target.arrow_type();
    let source = array.data_type();
    let value_type = match source {
        DataType::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    if is_text(value_type) && *target == LogicalType::Varchar && source != value_type {
        return Ok(array.clone());
    }
    if !fits(value_type, target) {
        return Err(Error::invalid_input(format!(
            "column \"{name}\" is {target}, but the data is {source}; convert it first"
        ))
        .with_sqlstate("42804"));
    }
    if *target == LogicalType::Uuid && is_text(value_type) {
        return parse_uuids(array, name, row);
    }
    if value_type.is_nested() && source != value_type {
        let values = plain(array).map_err(does_not_fit(name))?;
        return convert_rows(&values, name, target, row);
    }
    let converted = match (target, &wanted) {
        _ if source == &wanted => array.clone(),
        _ if source.is_null() => cast_exactly(array, name, &wanted, target, row)?,
        (LogicalType::List { element } | LogicalType::Array { element, .. }, _) => {
            convert_elements(array, name, &wanted, element, row)?
        }
        (LogicalType::Struct { fields }, DataType::Struct(wanted)) => {
            convert_fields(array.as_struct(), name, (wanted, fields), row)?
        }
        (LogicalType::Map { key, value }, DataType::Map(entries, _)) => {
            convert_entries(array.as_map(), name, (entries, [key, value]), row)?
        }
        _ => cast_exactly(array, name, &wanted, target, row)?,
    };
    match target {
        LogicalType::Json => check_json(&converted, name, row)?,
        LogicalType::Time => check_times(&converted, name, row)?,
        LogicalType::Decimal { precision, scale } => {
            let beyond = match wanted {
                DataType::Decimal32(..) => beyond_digits::<Decimal32Type>(&converted, *precision, *scale),
                DataType::Decimal64(..) => beyond_digits::<Decimal64Type>(&converted, *precision, *scale),
                DataType::Decimal128(..) => beyond_digits::<Decimal128Type>(&converted, *precision, *scale),
                _ => beyond_digits::<Decimal256Type>(&converted, *precision, *scale),
            };
            if let Some((index, number)) = beyond {
                let message = format!("{}: {number} does not fit {target}", in_row(name, row(index)));
                return Err(Error::invalid_input(message).with_sqlstate("22003"));
            }
        }
        _ => {}
    }
    Ok(converted)
}

/// Why converted elements and fields do not make an array: the lengths of lists, or a NULL where none may be.
fn does_not_fit(name: &str) -> impl Fn(ArrowError) -> Error {
    move |error| Error::invalid_input(format!("column \"{name}\": {error}"))
}

/// Elements that are no dictionary's.
fn plain(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    match values.data_type() {
        DataType::Dictionary(_, plain) => cast(values, plain),
        _ => Ok(values.clone()),
    }
}

/// The row of an element, by the offsets of the lists.
fn row_by<T: OffsetSizeTrait>(offsets: &OffsetBuffer<T>, row: &dyn Fn(usize) -> u64, element: usize) -> u64 {
    row(offsets.partition_point(|offset| offset.as_usize() <= element).saturating_sub(1))
}

fn convert_elements(
    array: &ArrayRef,
    name: &str,
    wanted: &DataType,
    element: &LogicalType,
    row: &dyn Fn(usize) -> u64,
) -> Result<ArrayRef> {
    let failed = does_not_fit(name);
    let (
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _),
        DataType::LargeList(field) | DataType::FixedSizeList(field, _),
    ) = (array.data_type(), wanted)
    else {
        return Err(Error::internal("a list that is none"));
    };
    let list = cast(array, &DataType::LargeList(item.clone())).map_err(&failed)?;
    let list = list.as_list::<i64>();
    let elements = plain(list.values()).map_err(&failed)?;
    let elements = convert_rows(&elements, name, element, &|place| row_by(list.offsets(), row, place))?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    let list = LargeListArray::try_new(field.clone(), offsets, elements, nulls).map_err(&failed)?;
    // Lists of another length than an ARRAY's are refused.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&list, wanted, &options).map_err(&failed)
}

/// Fields are found by their names, in any order.
fn convert_fields(
    array: &StructArray,
    name: &str,
    (wanted, fields): (&Fields, &[StructField]),
    row: &dyn Fn(usize) -> u64,
) -> Result<ArrayRef> {
    let failed = does_not_fit(name);
    let places = places_by_name(array.fields());
    let convert_field = |field: &StructField| {
        let place = places.get(field.name.as_str()).copied();
        let values = array.column(place.ok_or_else(|| Error::internal("a missing field"))?);
        let values = plain(values).and_then(|values| under(array.nulls(), &values)).map_err(&failed)?;
        convert_rows(&values, name, &field.logical_type, row)
    };
    let columns = fields.iter().map(convert_field).collect::<Result<_>>()?;
    let nulls = array.nulls().cloned();
    let array = StructArray::try_new_with_length(wanted.clone(), columns, nulls, array.len());
    Ok(Arc::new(array.map_err(&failed)?))
}

/// The first field of each name. There may be thousands.
fn places_by_name(fields: &Fields) -> HashMap<&str, usize> {
    let mut places = HashMap::with_capacity(fields.len());
    for (place, field) in fields.iter().enumerate() {
        places.entry(field.name().as_str()).or_insert(place);
    }
    places
}

/// The values of a field, NULL where the whole is: what lies there is no value.
fn under(nulls: Option<&NullBuffer>, values: &ArrayRef) -> ArrowResult<ArrayRef> {
    match nulls.filter(|_| !values.data_type().is_null()) {
        Some(nulls) => nullif(values, &BooleanArray::new(!nulls.inner(), None)),
        None => Ok(values.clone()),
    }
}

fn convert_entries(
    array: &MapArray,
    name: &str,
    (wanted, types): (&FieldRef, [&LogicalType; 2]),
    row: &dyn Fn(usize) -> u64,
) -> Result<ArrayRef> {
    let failed = does_not_fit(name);
    let DataType::Struct(fields) = wanted.data_type() else {
        return Err(Error::internal("a map without entries"));
    };
    let convert_part = |(values, of): (&ArrayRef, &LogicalType)| {
        let values = plain(values).map_err(&failed)?;
        convert_rows(&values, name, of, &|place| row_by(array.offsets(), row, place))
    };
    let parts = [array.keys(), array.values()].into_iter().zip(types);
    let parts = parts.map(convert_part).collect::<Result<_>>()?;
    let entries = StructArray::try_new(fields.clone(), parts, None).map_err(&failed)?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    let map = MapArray::try_new(wanted.clone(), offsets, entries, nulls, false);
    Ok(Arc::new(map.map_err(&failed)?))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
    )
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// Whether values of an Arrow type may become values of the SQL type.
fn fits(source: &DataType, target: &LogicalType) -> bool {
    use LogicalType::*;
    if *source == DataType::Null || *source == target.arrow_type() {
        return true;
    }
    if let DataType::Dictionary(_, values) = source {
        return fits(values, target);
    }
    match target {
        Boolean => *source == DataType::Boolean,
        TinyInt
        | SmallInt
        | Integer
        | BigInt
        | UTinyInt
        | USmallInt
        | UInteger
        | UBigInt
        | Float
        | Double
        | Decimal { .. } => is_number(source),
        // pandas has no dates: they are the midnights that they begin with.
        Date => matches!(source, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None)),
        Time => matches!(source, DataType::Time32(_) | DataType::Time64(_)),
        Timestamp { .. } => {
            matches!(source, DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64)
        }
        Interval => matches!(source, DataType::Interval(_) | DataType::Duration(_)),
        Duration { .. } => matches!(source, DataType::Duration(_)),
        Varchar | Json => is_text(source),
        Uuid => is_text(source) || *source == DataType::FixedSizeBinary(16),
        Blob => is_binary(source),
        FixedBinary { .. } => is_binary(source),
        List { element } | Array { element, .. } => match source {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => fits(item.data_type(), element),
            _ => false,
        },
        Struct { fields } => match source {
            DataType::Struct(members) => {
                let places = places_by_name(members);
                let member =
                    |field: &StructField| places.get(field.name.as_str()).map(|place| &members[*place]);
                members.len() == fields.len()
                    && fields.iter().all(|field| {
                        member(field).is_some_and(|member| fits(member.data_type(), &field.logical_type))
                    })
            }
            _ => false,
        },
        Map { key, value } => match source {
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(members) if members.len() == 2 => {
                    fits(members[0].data_type(), key) && fits(members[1].data_type(), value)
                }
                _ => false,
            },
            _ => false,
        },
    }
}

fn cast_exactly(
    array: &ArrayRef,
    name: &str,
    wanted: &DataType,
    target: &LogicalType,
    row: &dyn Fn(usize) -> u64,
) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let unusable =
        |error| Error::invalid_input(format!("column \"{name}\": cannot convert to {target}: {error}"));
    let converted = cast_with_options(array, wanted, &options).map_err(unusable)?;
    let lost = if converted.null_count() != array.logical_null_count() {
        (0..array.len()).find(|row| converted.is_null(*row) && !is_null(array, *row))
    } else if (array.data_type(), wanted) == (&DataType::Float64, &DataType::Float32) {
        // A FLOAT has fewer digits; but it must not become infinite.
        let (before, after) = (array.as_primitive::<Float64Type>(), converted.as_primitive::<Float32Type>());
        let is_lost = |row: &usize| {
            after.value(*row).is_infinite() && before.value(*row).is_finite() && before.is_valid(*row)
        };
        (0..array.len()).find(is_lost)
    } else if loses_quietly(array.data_type(), wanted) {
        let back = cast_with_options(&converted, array.data_type(), &options).map_err(unusable)?;
        first_difference(array, &back)
    } else {
        None
    };
    match lost {
        None => Ok(converted),
        Some(index) => Err(Error::invalid_input(format!(
            "column \"{name}\", row {}: {} does not fit {target}",
            row(index),
            display(array, index)
        ))
        .with_sqlstate("22003")),
    }
}

fn is_null(array: &ArrayRef, row: usize) -> bool {
    array.logical_nulls().is_some_and(|nulls| nulls.is_null(row))
}

/// Casts that arrow carries out by dropping digits instead of failing. A float becomes a DECIMAL by
/// rounding, as in SQL: that is not a loss.
fn loses_quietly(from: &DataType, to: &DataType) -> bool {
    let decimal_scale = |data_type: &DataType| match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    };
    let unit = |data_type: &DataType| match data_type {
        DataType::Timestamp(unit, _)
        | DataType::Duration(unit)
        | DataType::Time64(unit)
        | DataType::Time32(unit) => Some(*unit),
        _ => None,
    };
    match (decimal_scale(from), decimal_scale(to)) {
        (Some(from), Some(to)) => return to < from,
        (Some(from), None) => return from > 0 && to.is_integer(),
        _ => {}
    }
    if let (Some(from), Some(to)) = (unit(from), unit(to)) {
        return from > to;
    }
    let is_instant = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..) | DataType::Date64);
    (from.is_floating() && to.is_integer()) || (is_instant(from) && *to == DataType::Date32)
}

fn first_difference(before: &ArrayRef, after: &ArrayRef) -> Option<usize> {
    if before.to_data() == after.to_data() {
        return None;
    }
    let differs = |row: usize| -> bool {
        match before.data_type() {
            DataType::Float32 => {
                before.as_primitive::<Float32Type>().value(row)
                    != after.as_primitive::<Float32Type>().value(row)
            }
            DataType::Float64 => {
                before.as_primitive::<Float64Type>().value(row)
                    != after.as_primitive::<Float64Type>().value(row)
            }
            DataType::Decimal128(_, _) => {
                before.as_primitive::<Decimal128Type>().value(row)
                    != after.as_primitive::<Decimal128Type>().value(row)
            }
            _ => before.slice(row, 1).to_data() != after.slice(row, 1).to_data(),
        }
    };
    (0..before.len()).find(|row| !is_null(before, *row) && differs(*row))
}

fn display(array: &ArrayRef, row: usize) -> String {
    match ArrayFormatter::try_new(array.as_ref(), &FormatOptions::default()) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => "the value".to_string(),
    }
}

fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    cast_with_options(array, &DataType::LargeUtf8, &CastOptions::default())
        .map_err(|error| Error::invalid_input(format!("cannot read the text: {error}")))
}

fn in_row(column: &str, row: u64) -> String {
    format!("column \"{column}\", row {row}")
}

fn parse_uuids(array: &ArrayRef, name: &str, row: &dyn Fn(usize) -> u64) -> Result<ArrayRef> {
    let texts = texts(array)?;
    let mut parsed = Vec::with_capacity(texts.len());
    for (index, text) in texts.as_string::<i64>().iter().enumerate() {
        let uuid = text.map(parse_uuid).transpose();
        let uuid = uuid.map_err(|error| error.context(in_row(name, row(index))))?;
        parsed.push(uuid.map(Uuid::into_bytes));
    }
    let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(parsed.into_iter(), 16)
        .map_err(|error| Error::internal(format!("cannot build UUIDs: {error}")))?;
    Ok(Arc::new(array))
}

/// Returns the place of a number that has more digits than a DECIMAL, and the number: arrays may hold any
/// number of their width.
fn beyond_digits<T: DecimalType>(array: &ArrayRef, precision: u8, scale: i8) -> Option<(usize, String)> {
    let numbers = array.as_primitive::<T>();
    let fits = |number: T::Native| T::is_valid_decimal_precision(number, precision);
    // NULLs are not left out at first, so that there is no branch for each number.
    if numbers.values().iter().fold(true, |all, number| all & fits(*number)) {
        return None;
    }
    let index = (0..numbers.len()).find(|index| numbers.is_valid(*index) && !fits(numbers.value(*index)))?;
    // With the precision of the array, Arrow leaves out the last digits.
    Some((index, T::format_decimal(numbers.value(index), u8::MAX, scale)))
}

/// A time is within a day.
fn check_times(array: &ArrayRef, name: &str, row: &dyn Fn(usize) -> u64) -> Result<()> {
    let times = array.as_primitive::<Time64MicrosecondType>().iter();
    match times.enumerate().find(|(_, time)| time.is_some_and(|time| !(0..DAY_MICROSECONDS).contains(&time)))
    {
        None => Ok(()),
        Some((index, time)) => Err(Error::invalid_input(format!(
            "column \"{name}\", row {}: {} µs after midnight are no TIME of a day",
            row(index),
            time.unwrap_or_default()
        ))
        .with_sqlstate("22008")),
    }
}

fn check_json(array: &ArrayRef, name: &str, row: &dyn Fn(usize) -> u64) -> Result<()> {
    for (index, text) in array.as_string::<i64>().iter().enumerate() {
        if let Some(text) = text {
            check_json_text(text).map_err(|error| error.context(in_row(name, row(index))))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Float64Builder, ListBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::{
        Decimal32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray, StringArray,
        Time64MicrosecondArray,
    };
    use arrow_schema::Field;

    fn message(array: ArrayRef, target: &LogicalType) -> String {
        convert(&array, "x", target, 100).unwrap_err().message().to_string()
    }

    fn lists(rows: &[&[f64]]) -> ArrayRef {
        let mut lists = ListBuilder::new(Float64Builder::new());
        for row in rows {
            lists.values().append_slice(row);
            lists.append(true);
        }
        Arc::new(lists.finish())
    }

    #[test]
    fn text_under_nulls_is_not_stored_at_any_depth() {
        let nulls = || Some(NullBuffer::from(vec![true, false, true]));
        let offsets = || OffsetBuffer::<i64>::new(vec![0, 1, 3, 4].into());
        // SAFETY: nobody reads the bytes under the NULL but the function under test, which must not
        // either.
        let strings: ArrayRef =
            Arc::new(unsafe { LargeStringArray::new_unchecked(offsets(), b"a\xff\xffb".into(), nulls()) });
        let field = |name: &str, nullable| Arc::new(Field::new(name, DataType::LargeUtf8, nullable));
        let lists = || OffsetBuffer::<i64>::new(vec![0, 2, 3].into());
        let list = LargeListArray::new(field("item", true), lists(), strings.clone(), None);
        let array = FixedSizeListArray::new(field("item", true), 3, strings.clone(), None);
        let members: Fields = vec![field("a", true)].into();
        let members = StructArray::new(members, vec![strings.clone()], None);
        let keys: ArrayRef = Arc::new(LargeStringArray::from(vec!["x", "y", "z"]));
        let pairs: Fields = vec![field("key", false), field("value", true)].into();
        let pairs = StructArray::new(pairs, vec![keys, strings.clone()], None);
        let entries = Arc::new(Field::new("entries", pairs.data_type().clone(), false));
        let map = MapArray::new(entries, OffsetBuffer::new(vec![0, 1, 3].into()), pairs, None, false);
        let text = || LogicalType::Varchar.into();
        let fields = vec![StructField { name: "a".into(), logical_type: LogicalType::Varchar }];
        let cases: [(ArrayRef, LogicalType); 5] = [
            (strings, LogicalType::Varchar),
            (Arc::new(list), LogicalType::List { element: text() }),
            (Arc::new(array), LogicalType::Array { element: text(), length: 3 }),
            (Arc::new(members), LogicalType::Struct { fields }),
            (Arc::new(map), LogicalType::Map { key: text(), value: text() }),
        ];
        for (array, target) in cases {
            assert!(array.to_data().validate_full().is_err(), "{target}");
            let stored = convert(&array, "x", &target, 0).unwrap();
            stored.to_data().validate_full().unwrap();
            assert_eq!(stored.len(), array.len(), "{target}");
        }
    }

    #[test]
    fn nothing_is_lost_within_lists() {
        let target = LogicalType::List { element: LogicalType::Integer.into() };
        let whole = convert(&lists(&[&[1.0, 2.0], &[], &[3.0]]), "x", &target, 0).unwrap();
        assert_eq!(whole.data_type(), &target.arrow_type());
        assert_eq!(whole.as_list::<i64>().values().as_primitive::<Int32Type>().values(), &[1, 2, 3]);
        let lost = lists(&[&[1.0, 2.0], &[], &[3.0, 1.6]]);
        assert_eq!(message(lost.clone(), &target), "column \"x\", row 102: 1.6 does not fit INTEGER");
        let tail = lost.slice(1, 2);
        assert_eq!(message(tail, &target), "column \"x\", row 101: 1.6 does not fit INTEGER");
    }

    #[test]
    fn nans_within_values_are_one() {
        let target = LogicalType::List { element: LogicalType::Double.into() };
        let DataType::LargeList(field) = target.arrow_type() else { panic!("{target} is a list") };
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0, -f64::NAN]));
        let list = LargeListArray::new(field, OffsetBuffer::new(vec![0, 2].into()), numbers, None);
        let list: ArrayRef = Arc::new(list);
        let stored = convert(&list, "x", &target, 0).unwrap();
        let stored = stored.as_list::<i64>().values().as_primitive::<Float64Type>().value(1);
        assert_eq!(stored.to_bits(), f64::NAN.to_bits());
    }

    #[test]
    fn fields_are_found_by_name_and_keep_their_values() {
        let field = |name: &str, logical_type| StructField { name: name.into(), logical_type };
        let target = LogicalType::Struct {
            fields: vec![field("a", LogicalType::Integer), field("b", LogicalType::Varchar)],
        };
        let structure = |names: [&str; 2], numbers: Vec<f64>, nulls: Option<Vec<bool>>| -> ArrayRef {
            let text = StringArray::from(vec!["t"; numbers.len()]);
            let fields = vec![
                Arc::new(Field::new(names[1], DataType::Utf8, true)),
                Arc::new(Field::new(names[0], DataType::Float64, true)),
            ];
            let columns: Vec<ArrayRef> = vec![Arc::new(text), Arc::new(Float64Array::from(numbers))];
            Arc::new(StructArray::new(fields.into(), columns, nulls.map(NullBuffer::from)))
        };
        let found = convert(&structure(["a", "b"], vec![7.0], None), "x", &target, 0).unwrap();
        assert_eq!(found.as_struct().column(0).as_primitive::<Int32Type>().values(), &[7]);
        assert!(message(structure(["c", "b"], vec![7.0], None), &target).contains("convert it first"));
        assert!(message(structure(["a", "b"], vec![7.5], None), &target).contains("7.5 does not fit"));
        let hidden = structure(["a", "b"], vec![1.0, 7.5], Some(vec![true, false]));
        assert!(convert(&hidden, "x", &target, 0).is_ok(), "what lies under a NULL is no value");
    }

    #[test]
    fn very_many_fields_are_found_by_name() {
        let names = || (0..50_000).map(|place| format!("k{place}"));
        let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let given: Fields = names().rev().map(|name| Field::new(name, DataType::Int64, true)).collect();
        let given: ArrayRef = Arc::new(StructArray::new(given, vec![one; 50_000], None));
        let fields = names().map(|name| StructField { name, logical_type: LogicalType::Integer });
        let target = LogicalType::Struct { fields: fields.collect() };
        assert_eq!(convert(&given, "x", &target, 0).unwrap().data_type(), &target.arrow_type());
    }

    #[test]
    fn elements_of_dictionaries_become_plain() {
        let values: DictionaryArray<Int32Type> = vec!["a", "b", "a"].into_iter().collect();
        let offsets = OffsetBuffer::from_lengths([2, 1]);
        let item = Arc::new(Field::new("item", values.data_type().clone(), true));
        let list: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(values), None));
        let target = LogicalType::List { element: LogicalType::Varchar.into() };
        assert_eq!(convert(&list, "x", &target, 0).unwrap().data_type(), &target.arrow_type());
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let large: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 1e300]));
        assert_eq!(message(large, &LogicalType::Float), "column \"x\", row 101: 1e300 does not fit FLOAT");
        let infinite: ArrayRef = Arc::new(Float64Array::from(vec![f64::INFINITY]));
        assert!(convert(&infinite, "x", &LogicalType::Float, 0).is_ok());
        let late: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![0, 86_400_000_000]));
        assert!(message(late, &LogicalType::Time).starts_with("column \"x\", row 101: 86400000000 µs"));
        let wide: ArrayRef = Arc::new(Int64Array::from_iter_values([1_i64 << 40]));
        assert!(message(wide, &LogicalType::Integer).contains("does not fit INTEGER"));
    }

    #[test]
    fn numbers_of_more_digits_than_a_decimal_are_refused() {
        for (precision, most) in [(5, 99_999), (38, 10_i128.pow(38) - 1)] {
            let decimal = LogicalType::Decimal { precision, scale: 2 };
            let array = |numbers: Vec<Option<i128>>| -> ArrayRef {
                let numbers = Decimal128Array::from(numbers);
                Arc::new(numbers.with_precision_and_scale(38, 2).unwrap())
            };
            let fits = array(vec![Some(most), None, Some(-most)]);
            assert!(convert(&fits, "x", &decimal, 0).is_ok(), "{precision}");
            for number in [most + 1, -most - 1] {
                let error = convert(&array(vec![Some(0), Some(number)]), "x", &decimal, 0).unwrap_err();
                assert!(error.message().contains("column \"x\", row"), "{precision}: {error}");
            }
        }
        // An array may say that it has as few digits, and what is under a NULL is no number.
        let narrow = |valid| -> ArrayRef {
            let nulls = NullBuffer::from(vec![true, valid]);
            let numbers = Decimal32Array::new(vec![1, 100_000].into(), Some(nulls));
            Arc::new(numbers.with_precision_and_scale(5, 2).unwrap())
        };
        let decimal = LogicalType::Decimal { precision: 5, scale: 2 };
        assert!(convert(&narrow(false), "x", &decimal, 0).is_ok());
        let error = convert(&narrow(true), "x", &decimal, 100).unwrap_err();
        assert_eq!(error.message(), "column \"x\", row 101: 1000.00 does not fit DECIMAL(5,2)");
        assert_eq!(error.sqlstate(), "22003");
    }
}
