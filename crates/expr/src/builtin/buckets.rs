//! Values among others that are in order: the buckets of a histogram, and bars that show how far one is.

use crate::arguments::refused;
use crate::builtin::number::wrong;
use crate::builtin::written::{Described, Kind};
use crate::nested_type::element;
use crate::value_keys::nested_keys;
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, MapArray, StringArray, StructArray,
    UInt32Array, make_comparator, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, SortOptions, cast, cast_with_options, concat, sort, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    // What width_bucket() of a value and a list is.
    Described::new(&["place_among"], &[Kind::Any, Kind::Any], |_| Ok(DataType::Int64), places),
    // Two lists: of values, and of the upper bounds of buckets.
    Described::new(&["histogram_of_bins"], &[Kind::Any, Kind::Any], map_type, |args, rows| {
        histograms(args, rows, true)
    }),
    Described::new(&["histogram_of_values"], &[Kind::Any, Kind::Any], map_type, |args, rows| {
        histograms(args, rows, false)
    }),
    // A list of values, and how many of those that it has most often are wanted.
    Described::new(
        &["most_frequent"],
        &[Kind::List, Kind::Integer],
        |types| {
            let of = element_type(types.first().unwrap_or(&DataType::Null))?;
            Ok(DataType::List(Arc::new(Field::new_list_field(of, true))))
        },
        most_frequent,
    ),
    Described::new(
        &["bar"],
        &[Kind::Double, Kind::Double, Kind::Double, Kind::Double],
        |_| Ok(DataType::Utf8),
        bars,
    )
    .optional(1),
];

/// Returns the type of what a list has in it.
fn element_type(of: &DataType) -> Result<DataType> {
    match element(of) {
        Some(field) => Ok(field.data_type().clone()),
        None if of.is_null() => Ok(DataType::Null),
        None => Err(refused("a list was expected")),
    }
}

/// Returns the type that values of two types are compared in.
fn common(one: &DataType, other: &DataType) -> Result<DataType> {
    if one == other {
        return Ok(one.clone());
    }
    type_union_coercion(one, other).ok_or_else(|| refused("the values and the bounds are of two types"))
}

/// Returns values of another type, with one zero.
fn comparable(values: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let values = cast_with_options(values, of, &strict)?;
    if *of == DataType::Float64 {
        let values: Float64Array = values.as_primitive::<Float64Type>().unary(|value| value + 0.0);
        return Ok(Arc::new(values));
    }
    Ok(values)
}

/// Returns lists with offsets of 32 bits, of elements of a type.
fn lists_of(values: &ArrayRef, of: &DataType) -> Result<ListArray> {
    let field = Arc::new(Field::new_list_field(of.clone(), true));
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(values, &DataType::List(field), &strict)?.as_list::<i32>().clone())
}

/// How many bounds of a list, which is in order, a value is not below, as in PostgreSQL.
fn places(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let of = element_type(args[1].data_type())?;
    if args.iter().any(|of| of.data_type().is_null()) {
        return Ok(new_null_array(&DataType::Int64, rows));
    }
    let of = common(args[0].data_type(), &of)?;
    let values = comparable(&args[0], &of)?;
    let lists = lists_of(&args[1], &of)?;
    let bounds = comparable(lists.values(), &of)?;
    let order = make_comparator(&values, &bounds, SortOptions::default())?;
    let offsets = lists.value_offsets();
    let place = |row: usize| {
        if values.is_null(row) || lists.is_null(row) {
            return Ok(None);
        }
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        if (start..end).any(|place| bounds.is_null(place)) {
            return Err(wrong("22004", "thresholds array must not contain NULLs"));
        }
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match order(row, middle) {
                Ordering::Less => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(Some((low - start) as i64))
    };
    Ok(Arc::new((0..rows).map(place).collect::<Result<Int64Array>>()?))
}

fn map_type(types: &[DataType]) -> Result<DataType> {
    let key = element_type(types.first().unwrap_or(&DataType::Null))?;
    let bins = element_type(types.get(1).unwrap_or(&DataType::Null))?;
    let key = if key.is_null() { bins } else { key };
    let pair = Fields::from(vec![Field::new("key", key, false), Field::new("value", DataType::Int64, true)]);
    Ok(DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false))
}

/// Returns the key that values have that are in no bucket; `None` where the type has none.
fn beyond(of: &DataType) -> Option<ArrayRef> {
    let text = match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "",
        DataType::Int8 => "127",
        DataType::Int16 => "32767",
        DataType::Int32 => "2147483647",
        DataType::Int64 => "9223372036854775807",
        DataType::UInt8 => "255",
        DataType::UInt16 => "65535",
        DataType::UInt32 => "4294967295",
        DataType::UInt64 => "18446744073709551615",
        DataType::Float32 | DataType::Float64 => "inf",
        _ => return None,
    };
    cast(&StringArray::from(vec![text]), of).ok()
}

/// The histograms of lists of values: how many are up to each bound, or equal to it. Those that are in no
/// bucket are counted under the greatest value.
fn histograms(args: &[ArrayRef], rows: usize, are_bounds: bool) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|of| of.data_type().clone()).collect();
    let gives = map_type(&types)?;
    let DataType::Map(entries, _) = &gives else { return Err(no_map()) };
    let DataType::Struct(pair) = entries.data_type() else { return Err(no_map()) };
    if types.iter().any(DataType::is_null) {
        return Ok(new_null_array(&gives, rows));
    }
    let key = pair[0].data_type();
    let (lists, bins) = (lists_of(&args[0], key)?, lists_of(&args[1], key)?);
    let (mut keys, mut counts, mut lengths, mut known) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let values = if lists.is_null(row) { None } else { Some(comparable(&lists.value(row), key)?) };
        let values = values.filter(|values| values.null_count() < values.len());
        let Some(values) = values else {
            lengths.push(0);
            known.push(false);
            continue;
        };
        let (of_row, found) = histogram(&values, &bins.value(row), bins.is_null(row), are_bounds)?;
        lengths.push(found.len());
        known.push(true);
        keys.push(of_row);
        counts.extend(found);
    }
    let parts: Vec<&dyn Array> = keys.iter().map(AsRef::as_ref).collect();
    let keys = if parts.is_empty() { new_null_array(key, 0) } else { concat(&parts)? };
    map(entries, pair, (keys, counts), lengths, known)
}

fn no_map() -> DataFusionError {
    refused("a histogram is of a list of values and a list of bounds")
}

fn map(
    entries: &FieldRef,
    pair: &Fields,
    (keys, counts): (ArrayRef, Vec<i64>),
    lengths: Vec<usize>,
    known: Vec<bool>,
) -> Result<ArrayRef> {
    let columns: Vec<ArrayRef> = vec![keys, Arc::new(Int64Array::from(counts))];
    let pairs = StructArray::try_new(pair.clone(), columns, None)?;
    let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), Some(NullBuffer::from(known)));
    Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, pairs, nulls, false)?))
}

/// Returns the buckets and how many values each has.
fn histogram(
    values: &ArrayRef,
    bins: &ArrayRef,
    has_no_bins: bool,
    are_bounds: bool,
) -> Result<(ArrayRef, Vec<i64>)> {
    if has_no_bins || bins.null_count() > 0 {
        return Err(refused("the bins of a histogram are a list without NULL"));
    }
    let key = values.data_type();
    let sorted = sort(&comparable(bins, key)?, None)?;
    let alike = make_comparator(&sorted, &sorted, SortOptions::default())?;
    let distinct = (0..sorted.len()).filter(|place| *place == 0 || alike(place - 1, *place).is_ne());
    let bounds = take(&sorted, &UInt32Array::from_iter_values(distinct.map(|place| place as u32)), None)?;
    let order = make_comparator(values, &bounds, SortOptions::default())?;
    let mut counts = vec![0_i64; bounds.len()];
    let mut others = 0_i64;
    for place in (0..values.len()).filter(|place| values.is_valid(*place)) {
        let (mut low, mut high) = (0, bounds.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match order(place, middle) {
                Ordering::Greater => low = middle + 1,
                _ => high = middle,
            }
        }
        match counts.get_mut(low) {
            Some(count) if are_bounds || order(place, low).is_eq() => *count += 1,
            _ => others += 1,
        }
    }
    match beyond(key).filter(|_| others > 0) {
        Some(beyond) => {
            // The last bound may be the greatest value itself.
            let is_last = !bounds.is_empty()
                && make_comparator(&bounds, &beyond, SortOptions::default())?(bounds.len() - 1, 0).is_eq();
            if is_last && let Some(last) = counts.last_mut() {
                *last += others;
                return Ok((bounds, counts));
            }
            counts.push(others);
            Ok((concat(&[bounds.as_ref(), beyond.as_ref()])?, counts))
        }
        None => Ok((bounds, counts)),
    }
}

/// The most values that approx_top_k() gives.
const FREQUENT_MAX: i64 = 1_000_000;

/// The values of each list that it has most often; of those that it has as often, the one that came first.
fn most_frequent(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let of = element_type(args[0].data_type())?;
    let field = Arc::new(Field::new_list_field(of.clone(), true));
    let counts = args[1].as_primitive::<Int64Type>();
    if let Some(wrong) = counts.iter().flatten().find(|count| !(1..=FREQUENT_MAX).contains(count)) {
        return Err(refused(format!("approx_top_k() gives from 1 to {FREQUENT_MAX} values, not {wrong}")));
    }
    if args[0].data_type().is_null() || of.is_null() {
        return Ok(new_null_array(&DataType::List(field), rows));
    }
    let lists = lists_of(&args[0], &of)?;
    let keys = nested_keys(lists.values())?;
    let (mut taken, mut lengths, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let places = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        let places = places.filter(|place| lists.is_valid(row) && lists.values().is_valid(*place));
        let mut found: HashMap<&[u8], (i64, usize)> = HashMap::new();
        for place in places {
            found.entry(keys.value(place)).or_insert((0, place)).0 += 1;
        }
        let mut found: Vec<(i64, usize)> = found.into_values().collect();
        found.sort_by_key(|(count, place)| (-count, *place));
        let wanted = if counts.is_valid(row) { counts.value(row) as usize } else { 0 };
        let before = taken.len();
        taken.extend(found.iter().take(wanted).map(|(_, place)| *place as u32));
        lengths.push(taken.len() - before);
        known.push(counts.is_valid(row) && !found.is_empty());
    }
    let values = take(lists.values(), &UInt32Array::from(taken), None)?;
    let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), Some(NullBuffer::from(known)));
    Ok(Arc::new(ListArray::try_new(field, offsets, values, nulls)?))
}

/// The width of a bar where none is given, and the greatest one.
const WIDTH: f64 = 80.0;
const WIDTH_MAX: f64 = 1000.0;

/// How wide a value is between a least and a greatest one, in eighths of characters.
fn bars(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let number = |place: usize, row: usize| {
        let Some(values) = args.get(place) else { return Some(WIDTH) };
        let values = values.as_primitive::<Float64Type>();
        values.is_valid(row).then(|| values.value(row))
    };
    let of_row = |row: usize| match (number(0, row), number(1, row), number(2, row), number(3, row)) {
        (Some(x), Some(least), Some(greatest), Some(width)) => bar(x, least, greatest, width).map(Some),
        _ => Ok(None),
    };
    Ok(Arc::new((0..rows).map(of_row).collect::<Result<StringArray>>()?))
}

fn bar(x: f64, least: f64, greatest: f64, width: f64) -> Result<String> {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if !(1.0..=WIDTH_MAX).contains(&width) {
        return Err(wrong("22003", format!("the width of a bar is from 1 to {WIDTH_MAX}, not {width}")));
    }
    let share = match () {
        () if x.is_nan() || least.is_nan() || greatest.is_nan() || x <= least => 0.0,
        () if x >= greatest => width,
        () => width * (x - least) / (greatest - least),
    };
    if !share.is_finite() {
        return Err(wrong("22003", "the width of a bar is no number"));
    }
    let eighths = (share * 8.0) as usize;
    let mut text = "█".repeat(eighths / 8);
    let mut count = eighths / 8;
    if !eighths.is_multiple_of(8) {
        text.push(PARTS[eighths % 8]);
        count += 1;
    }
    text.extend(std::iter::repeat_n(' ', (width as usize).saturating_sub(count)));
    Ok(text)
}
