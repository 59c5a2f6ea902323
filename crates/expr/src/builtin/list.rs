//! Lists: sums that are exact, their lengths, and lists by other lists; structures and maps as lists.

use crate::arguments::refused;
use crate::builtin::number::wrong;
use crate::builtin::written::{Described, Kind};
use crate::cast::cast as cast_as_sql;
use crate::value_keys::comparable;
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, DynComparator, Int64Array, Int64Builder, LargeListArray,
    LargeStringArray, ListBuilder, MapArray, StringBuilder, StructArray, make_comparator, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Fields, Int64Type,
};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["array_sum_exact"], &[Kind::List], sum_type, sums),
    Described::new(&["len"], &[Kind::Any], |_| Ok(DataType::Int64), lengths),
    Described::new(&["list_where", "array_where"], &[Kind::List, Kind::List], same_list, |args, _| {
        by_other(args, |wanted, row_of_other| {
            let wanted = cast(wanted, &DataType::Boolean)?;
            let wanted = wanted.as_boolean();
            let is_wanted = |at: &usize| wanted.is_valid(*at) && wanted.value(*at);
            let start = row_of_other.start;
            Ok(row_of_other.filter(is_wanted).map(|at| Some(at - start)).collect())
        })
    }),
    Described::new(&["list_select", "array_select"], &[Kind::List, Kind::List], same_list, |args, _| {
        by_other(args, |places, row_of_other| {
            let places = cast(places, &DataType::Int64)?;
            let places = places.as_primitive::<Int64Type>();
            let place = |at: usize| places.is_valid(at).then(|| usize::try_from(places.value(at) - 1).ok());
            Ok(row_of_other.map(|at| place(at).flatten()).collect())
        })
    }),
    Described::new(
        &["struct_keys"],
        &[Kind::Any],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
        |args, rows| {
            let DataType::Struct(fields) = args[0].data_type() else {
                return Err(refused("struct_keys() is of a structure"));
            };
            let mut lists = ListBuilder::new(StringBuilder::new());
            for row in 0..rows {
                let names = fields.iter().map(|field| Some(field.name().as_str()));
                lists.append_option(args[0].is_valid(row).then_some(names));
            }
            Ok(Arc::new(lists.finish()))
        },
    ),
    Described::new(&["list_string_agg"], &[Kind::List, Kind::Text], |_| Ok(DataType::LargeUtf8), joined)
        .optional(1),
    Described::new(&["map_from_entries"], &[Kind::List], map_type, maps),
    Described::new(&["trim_array"], &[Kind::List, Kind::Integer], same_list, trimmed),
    // The length of what array_fill() gives.
    Described::new(&["only_dimension"], &[Kind::List], |_| Ok(DataType::Int64), only_dimensions),
    Described::new(
        &["list_grade_up", "array_grade_up", "grade_up"],
        &[Kind::List, Kind::Text, Kind::Text],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)))),
        graded,
    )
    .optional(2),
];

/// The places, from 1, of the elements of lists in their order. Where nothing else is said, NULL is the
/// greatest one.
fn graded(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let mut graded = ListBuilder::new(Int64Builder::new());
    if args[0].data_type().is_null() {
        (0..rows).for_each(|_| graded.append_null());
        return Ok(Arc::new(graded.finish()));
    }
    let lists = wide(&args[0])?;
    let elements = match lists.values().data_type().is_null() {
        true => cast(lists.values(), &DataType::Boolean)?,
        false => comparable(lists.values())?,
    };
    let mut orders: HashMap<(bool, bool), DynComparator> = HashMap::new();
    for row in 0..rows {
        if args.iter().any(|values| values.is_null(row)) {
            graded.append_null();
            continue;
        }
        let said = |place: usize| {
            args.get(place).map(|words| words.as_string::<i32>().value(row).to_ascii_uppercase())
        };
        let unknown = |word: &str| Err(refused(format!("list_grade_up() knows no order '{word}'")));
        let descending = match said(1).as_deref() {
            None | Some("ASC") => false,
            Some("DESC") => true,
            Some(other) => return unknown(other),
        };
        let nulls_first = match said(2).as_deref() {
            None => descending,
            Some("NULLS FIRST") => true,
            Some("NULLS LAST") => false,
            Some(other) => return unknown(other),
        };
        let compared = match orders.entry((descending, nulls_first)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(other) => {
                let options = SortOptions { descending, nulls_first };
                other.insert(make_comparator(&elements, &elements, options)?)
            }
        };
        let start = lists.value_offsets()[row] as usize;
        let mut places: Vec<usize> = (start..lists.value_offsets()[row + 1] as usize).collect();
        places.sort_by(|one, other| compared(*one, *other));
        graded.append_value(places.into_iter().map(|place| Some((place - start + 1) as i64)));
    }
    Ok(Arc::new(graded.finish()))
}

/// The elements of lists that are not NULL as texts, with a text between them, which is a comma where
/// none is given.
fn joined(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    if args[0].data_type().is_null() {
        return Ok(new_null_array(&DataType::LargeUtf8, rows));
    }
    let lists = wide(&args[0])?;
    let texts = cast_as_sql(lists.values(), &Field::new("", DataType::LargeUtf8, true), false)?;
    let texts = texts.as_string::<i64>();
    let between = args.get(1).map(|between| cast(between, &DataType::LargeUtf8)).transpose()?;
    let between = between.as_ref().map(|between| between.as_string::<i64>());
    let text = |row: usize| {
        let places = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        let elements: Vec<&str> =
            places.filter(|place| texts.is_valid(*place)).map(|place| texts.value(place)).collect();
        let between = match between {
            Some(between) if between.is_null(row) => "",
            Some(between) => between.value(row),
            None => ",",
        };
        (lists.is_valid(row) && !elements.is_empty()).then(|| elements.join(between))
    };
    Ok(Arc::new((0..rows).map(text).collect::<LargeStringArray>()))
}

fn same_list(types: &[DataType]) -> Result<DataType> {
    match &types[0] {
        DataType::FixedSizeList(field, _) => Ok(DataType::LargeList(field.clone())),
        other => Ok(other.clone()),
    }
}

fn wide(lists: &ArrayRef) -> Result<LargeListArray> {
    match lists.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Ok(cast(lists, &DataType::LargeList(field.clone()))?.as_list::<i64>().clone())
        }
        _ => Err(refused("a list was expected")),
    }
}

/// Elements of lists: those at the places, from 0, that a function finds by another list's elements in
/// a range. A place that a list does not have gives NULL.
fn by_other(
    args: &[ArrayRef],
    find: impl Fn(&ArrayRef, Range<usize>) -> Result<Vec<Option<usize>>>,
) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|of| of.data_type().clone()).collect();
    let gives = same_list(&types)?;
    if types.iter().any(DataType::is_null) {
        return Ok(new_null_array(&gives, args[0].len()));
    }
    let (lists, others) = (wide(&args[0])?, wide(&args[1])?);
    let nulls = NullBuffer::union(lists.nulls(), others.nulls());
    let (mut taken, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        let before = taken.len();
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            let (start, length) = (lists.value_offsets()[row], lists.value_length(row));
            let range = others.value_offsets()[row] as usize..others.value_offsets()[row + 1] as usize;
            for place in find(others.values(), range)? {
                let place = place.and_then(|place| i64::try_from(place).ok()).filter(|place| *place < length);
                taken.push(place.map(|place| start + place));
            }
        }
        lengths.push(taken.len() - before);
    }
    let elements = take(lists.values(), &Int64Array::from(taken), None)?;
    let field = match lists.data_type() {
        DataType::LargeList(field) => Arc::new(field.as_ref().clone().with_nullable(true)),
        _ => return Err(refused("a list was expected")),
    };
    let made = LargeListArray::try_new(field, OffsetBuffer::from_lengths(lengths), elements, nulls)?;
    Ok(cast(&made, &gives)?)
}

/// Lists without so many elements at their ends.
fn trimmed(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let gives = same_list(&[args[0].data_type().clone()])?;
    if gives.is_null() {
        return Ok(new_null_array(&gives, rows));
    }
    let (lists, counts) = (wide(&args[0])?, args[1].as_primitive::<Int64Type>());
    let (mut taken, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
    let nulls = NullBuffer::union(lists.nulls(), counts.nulls());
    for row in 0..rows {
        let is_some = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let (start, length) = (lists.value_offsets()[row], lists.value_length(row));
        let left = match counts.value(row) {
            _ if !is_some => 0,
            count if (0..=length).contains(&count) => length - count,
            _ => {
                return Err(wrong(
                    "2202E",
                    format!("number of elements to trim must be between 0 and {length}"),
                ));
            }
        };
        taken.extend(start..start + left);
        lengths.push(usize::try_from(left).unwrap_or_default());
    }
    let elements = take(lists.values(), &Int64Array::from(taken), None)?;
    let DataType::LargeList(field) = lists.data_type() else { return Err(refused("a list was expected")) };
    let made = LargeListArray::try_new(field.clone(), OffsetBuffer::from_lengths(lengths), elements, nulls)?;
    Ok(cast(&made, &gives)?)
}

/// Returns the one element that each list has.
fn only_dimensions(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    if args[0].data_type().is_null() {
        return Ok(new_null_array(&DataType::Int64, rows));
    }
    let lists = wide(&args[0])?;
    let numbers = cast(lists.values(), &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let dimension = |row: usize| {
        let place = lists.value_offsets()[row] as usize;
        match lists.value_length(row) {
            _ if lists.is_null(row) => Ok(None),
            1 if numbers.is_null(place) => Err(wrong("22004", "dimension values cannot be null")),
            1 => Ok(Some(numbers.value(place))),
            _ => Err(external(Error::unsupported("array_fill() makes lists of one dimension"))),
        }
    };
    Ok(Arc::new((0..rows).map(dimension).collect::<Result<Int64Array>>()?))
}

fn entries(of: &DataType) -> Result<(&DataType, &FieldRef)> {
    match element(of) {
        Some(DataType::Struct(fields)) if fields.len() == 2 => Ok((fields[0].data_type(), &fields[1])),
        _ => Err(refused("map_from_entries() is of a list of structures, each a key and a value")),
    }
}

fn map_type(types: &[DataType]) -> Result<DataType> {
    let (key, value) = entries(&types[0])?;
    let value = value.as_ref().clone().with_name("value").with_nullable(true);
    let fields = Fields::from(vec![Field::new("key", key.clone(), false), value]);
    Ok(DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false))
}

fn maps(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let gives = map_type(&[args[0].data_type().clone()])?;
    let lists = wide(&args[0])?;
    let (DataType::Map(field, _), Some(structure)) = (&gives, lists.values().as_struct_opt()) else {
        return Err(refused("map_from_entries() is of a list of structures"));
    };
    let length = |row: usize| if lists.is_valid(row) { lists.value_length(row) as usize } else { 0 };
    let range = |row: usize| (0..length(row)).map(move |at| at as i64);
    let taken: Int64Array = (0..rows)
        .flat_map(|row| range(row).map(move |at| (row, at)))
        .map(|(row, at)| lists.value_offsets()[row] + at)
        .collect();
    let columns = structure.columns().iter().map(|column| take(column, &taken, None));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    if columns[0].null_count() > 0 {
        return Err(refused("a key of a map is NULL"));
    }
    let DataType::Struct(fields) = field.data_type() else { return Err(refused("a map has entries")) };
    let offsets = OffsetBuffer::from_lengths((0..rows).map(length));
    let unique = make_comparator(&columns[0], &columns[0], SortOptions::default())?;
    for row in 0..rows {
        let mut places: Vec<usize> = (offsets[row] as usize..offsets[row + 1] as usize).collect();
        places.sort_by(|one, other| unique(*one, *other));
        if places.windows(2).any(|pair| unique(pair[0], pair[1]).is_eq()) {
            return Err(refused("a key is in a map twice"));
        }
    }
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, lists.nulls().cloned(), false)?))
}

/// Returns the elements of lists, or the characters of texts.
fn lengths(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let of = &args[0];
    let item = |field: &FieldRef| DataType::LargeList(field.clone());
    let lengths: Int64Array = match of.data_type() {
        DataType::Null => Int64Array::new_null(rows),
        data_type if data_type.is_string() => {
            let texts = cast(of, &DataType::Utf8View)?;
            texts.as_string_view().iter().map(|text| text.map(|text| text.chars().count() as i64)).collect()
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            let lists = cast(of, &item(field))?;
            let lists = lists.as_list::<i64>();
            (0..rows).map(|row| lists.is_valid(row).then(|| lists.value_length(row))).collect()
        }
        _ => return Err(refused("len() is of a list or a text")),
    };
    Ok(Arc::new(lengths))
}

fn element(of: &DataType) -> Option<&DataType> {
    match of {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// Returns BIGINT for integers, and the widest DECIMAL of their scale for DECIMALs.
fn sum_type(types: &[DataType]) -> Result<DataType> {
    Ok(match types.first().and_then(element) {
        Some(
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale),
        ) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
        Some(of) if of.is_integer() => DataType::Int64,
        _ => return Err(refused("list_sum() is of a list of numbers")),
    })
}

fn sums(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let lists = &args[0];
    let gives = sum_type(&[lists.data_type().clone()])?;
    let out_of_range = || {
        let error = Error::invalid_input(format!(
            "list_sum(): the sum is out of range of {}",
            hypostyle_error::type_name::type_name(&gives)
        ));
        external(error.with_sqlstate("22003"))
    };
    let scale = if let DataType::Decimal128(_, scale) = gives { scale } else { 0 };
    let wide = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale);
    let item = DataType::LargeList(Arc::new(arrow::datatypes::Field::new("item", wide, true)));
    let lists = cast(lists, &item)?;
    let lists = lists.as_list::<i64>();
    let elements = lists.values().as_primitive::<Decimal128Type>();
    let sums = (0..lists.len()).map(|row| {
        if lists.is_null(row) {
            return Ok(None);
        }
        let (start, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
        let values = (start..end).filter(|at| elements.is_valid(*at)).map(|at| elements.value(at));
        let mut sum = None;
        for value in values {
            sum = Some(sum.unwrap_or(0_i128).checked_add(value).ok_or_else(out_of_range)?);
        }
        Ok(sum)
    });
    let sums = sums.collect::<Result<Vec<Option<i128>>>>()?;
    if gives == DataType::Int64 {
        let sums = sums.into_iter().map(|sum| sum.map(|sum| i64::try_from(sum).map_err(|_| out_of_range())));
        return Ok(Arc::new(sums.map(Option::transpose).collect::<Result<Int64Array>>()?));
    }
    let sums = Decimal128Array::from(sums).with_precision_and_scale(DECIMAL128_MAX_PRECISION, scale)?;
    sums.validate_decimal_precision(DECIMAL128_MAX_PRECISION).map_err(|_| out_of_range())?;
    Ok(Arc::new(sums))
}
