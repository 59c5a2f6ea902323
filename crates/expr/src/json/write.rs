//! Values as JSON. One rule holds wherever JSON is made: a value of type JSON stays what it is, also
//! within lists and structures, and all other texts are texts.

use super::call::{Call, Described, Gives, Kind, is_json};
use super::text::{self, compact, normal, quote};
use crate::arguments::refused;
use crate::cast::{cast as cast_as_sql, lists_of, map_of};
use arrow::array::{Array, ArrayRef, AsArray, LargeListArray, LargeStringArray, LargeStringBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use hypostyle_sql::text_list::split_elements;
use std::ops::Range;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["to_json", "row_to_json", "array_to_json", "json_quote", "json_from_scalar"],
        &[Kind::Any],
        Gives::Json,
        |call| {
            let writer = Writer::of_argument(call, 0)?;
            call.written(|row, out| Ok(writer.write_some(call.args[0].at(row), out)))
        },
    ),
    Described::new(&["to_jsonb"], &[Kind::Any], Gives::Json, |call| {
        let writer = Writer::of_argument(call, 0)?;
        let mut text = String::new();
        call.written(|row, out| {
            text.clear();
            let is_some = writer.write_some(call.args[0].at(row), &mut text);
            normal(&text, out);
            Ok(is_some)
        })
    }),
    Described::new(&["json_build_object"], &[Kind::Any], Gives::Json, |call| call.written(members(call)?))
        .optional(1)
        .more(),
    Described::new(&["jsonb_build_object"], &[Kind::Any], Gives::Json, |call| {
        normalised(call, members(call)?)
    })
    .optional(1)
    .more(),
    Described::new(&["json_object"], &[Kind::Any], Gives::Json, |call| match texts_of_lists(call)? {
        Some(text) => call.written(|_, out| {
            out.push_str(&text);
            Ok(true)
        }),
        None => call.written(members(call)?),
    })
    .optional(1)
    .more(),
    Described::new(&["jsonb_object"], &[Kind::Any], Gives::Json, |call| match texts_of_lists(call)? {
        Some(text) => call.written(|_, out| {
            normal(&text, out);
            Ok(true)
        }),
        None => normalised(call, members(call)?),
    })
    .optional(1)
    .more(),
    Described::new(&["json_build_array", "json_array"], &[Kind::Any], Gives::Json, |call| {
        call.written(elements(call)?)
    })
    .optional(1)
    .more(),
    Described::new(&["jsonb_build_array"], &[Kind::Any], Gives::Json, |call| {
        normalised(call, elements(call)?)
    })
    .optional(1)
    .more(),
    // Lists of values that are JSON, which aggregates make.
    Described::new(&["json_of_list"], &[Kind::Any], Gives::Json, |call| call.written(of_list(call)?)),
    Described::new(&["jsonb_of_list"], &[Kind::Any], Gives::Json, |call| normalised(call, of_list(call)?)),
    // Lists of structures, each a name and a value that is JSON.
    Described::new(&["json_of_pairs"], &[Kind::Any], Gives::Json, |call| call.written(pairs(call)?)),
    Described::new(&["jsonb_of_pairs"], &[Kind::Any], Gives::Json, |call| normalised(call, pairs(call)?)),
    Described::new(&["json"], &[Kind::Json], Gives::Json, |call| changed(call, compact)),
    Described::new(&["json_pretty", "jsonb_pretty"], &[Kind::Json], Gives::Text, |call| {
        changed(call, |value, out| text::pretty(value, 0, out))
    }),
];

/// Returns values as `to_json` does in a session of this time zone, without blanks and line ends between
/// their parts.
///
/// # Errors
/// When a type has no text.
pub fn texts(values: &ArrayRef, field: &Field, zone: &str) -> Result<LargeStringArray> {
    let writer = Writer::new(values, field, zone)?;
    let mut builder = LargeStringBuilder::with_capacity(values.len(), values.len() * 16);
    let (mut text, mut compacted) = (String::new(), String::new());
    for row in 0..values.len() {
        text.clear();
        compacted.clear();
        let is_some = writer.write_some(row, &mut text);
        compact(&text, &mut compacted);
        builder.append_option(is_some.then_some(compacted.as_str()));
    }
    Ok(builder.finish())
}

/// Each value in another form.
fn changed(call: &Call<'_>, write: fn(&str, &mut String)) -> Result<ArrayRef> {
    let values = call.json(0)?;
    call.written(|row, out| {
        let Some(value) = values.get(row) else { return Ok(false) };
        write(value, out);
        Ok(true)
    })
}

/// What is written, as JSONB.
fn normalised(
    call: &Call<'_>,
    mut write: impl FnMut(usize, &mut String) -> Result<bool>,
) -> Result<ArrayRef> {
    let mut text = String::new();
    call.written(|row, out| {
        text.clear();
        let is_some = write(row, &mut text)?;
        normal(&text, out);
        Ok(is_some)
    })
}

fn writers(call: &Call<'_>, places: impl Iterator<Item = usize>) -> Result<Vec<Writer>> {
    places.map(|place| Writer::of_argument(call, place)).collect()
}

fn names(values: &ArrayRef) -> Result<LargeStringArray> {
    let names = cast_as_sql(values, &Field::new("", DataType::LargeUtf8, true), false)?;
    Ok(names.as_string::<i64>().clone())
}

/// Writes an object of an argument for a name, and one for its value.
fn members(call: &Call<'_>) -> Result<impl FnMut(usize, &mut String) -> Result<bool>> {
    if call.args.len() % 2 == 1 {
        return Err(refused(format!("{}() takes pairs of a name and a value", call.name)));
    }
    let names_of = call.args.iter().step_by(2).map(|of| names(&of.values)).collect::<Result<Vec<_>>>()?;
    let values = writers(call, (1..call.args.len()).step_by(2))?;
    Ok(move |row: usize, out: &mut String| {
        out.push('{');
        for (place, (names, values)) in names_of.iter().zip(&values).enumerate() {
            let at = call.args[place * 2].at(row);
            if names.is_null(at) {
                return Err(refused(format!("a name in {}() is NULL", call.name)));
            }
            if place > 0 {
                out.push_str(", ");
            }
            quote(names.value(at), out);
            out.push_str(" : ");
            values.write(call.args[place * 2 + 1].at(row), out);
        }
        out.push('}');
        Ok(true)
    })
}

/// Writes an array of all arguments.
fn elements(call: &Call<'_>) -> Result<impl FnMut(usize, &mut String) -> Result<bool>> {
    let values = writers(call, 0..call.args.len())?;
    Ok(move |row: usize, out: &mut String| {
        out.push('[');
        for (place, (values, of)) in values.iter().zip(call.args).enumerate() {
            if place > 0 {
                out.push_str(", ");
            }
            values.write(of.at(row), out);
        }
        out.push(']');
        Ok(true)
    })
}

/// Writes an array of a list's elements; NULL for a list that is.
fn of_list(call: &Call<'_>) -> Result<impl FnMut(usize, &mut String) -> Result<bool>> {
    let writer = match &call.args[0].values {
        values if values.data_type().is_null() => Writer::Nothing,
        values => {
            let lists = wide(values)?;
            let elements = Box::new(Writer::of_json(lists.values())?);
            Writer::List { lists, elements }
        }
    };
    Ok(move |row: usize, out: &mut String| Ok(writer.write_some(call.args[0].at(row), out)))
}

/// Writes an object of a list of pairs; NULL for a list that is.
fn pairs(call: &Call<'_>) -> Result<impl FnMut(usize, &mut String) -> Result<bool>> {
    let (list, of) = match &call.args[0].values {
        values if values.data_type().is_null() => (None, None),
        values => {
            let list = wide(values)?;
            let structure = list.values().as_struct_opt().filter(|of| of.num_columns() == 2);
            let structure = structure.ok_or_else(|| refused("a list of names and values was expected"))?;
            let names = names(structure.column(0))?;
            let pairs = (names, Writer::of_json(structure.column(1))?);
            (Some(list), Some(pairs))
        }
    };
    Ok(move |row: usize, out: &mut String| {
        let (Some(list), Some((names, values)), at) = (&list, &of, call.args[0].at(row)) else {
            return Ok(false);
        };
        if list.is_null(at) {
            return Ok(false);
        }
        let members = list.value_offsets()[at] as usize..list.value_offsets()[at + 1] as usize;
        if members.clone().any(|member| names.is_null(member)) {
            return Err(refused("a name of a JSON object is NULL"));
        }
        write_object(members, names, values, out);
        Ok(true)
    })
}

/// Writes an object of names and values at the same places.
fn write_object(members: Range<usize>, names: &LargeStringArray, values: &Writer, out: &mut String) {
    out.push('{');
    for (place, member) in members.enumerate() {
        if place > 0 {
            out.push(',');
        }
        quote(names.value(member), out);
        out.push(':');
        values.write(member, out);
    }
    out.push('}');
}

/// Returns the object of two lists of texts, or of one with names and values in turn, as in
/// PostgreSQL; `None` for other arguments.
fn texts_of_lists(call: &Call<'_>) -> Result<Option<String>> {
    let list = |place: usize| -> Option<Vec<Option<String>>> {
        let argument = call.args.get(place).filter(|of| of.is_one)?;
        match argument.values.data_type() {
            of if of.is_string() => {
                let texts = cast(&argument.values, &DataType::Utf8).ok()?;
                let text = texts.as_string::<i32>();
                let text = text.is_valid(0).then(|| text.value(0)).filter(|text| text.starts_with('{'))?;
                split_elements(text)
            }
            DataType::List(_) | DataType::LargeList(_) => {
                let list = wide(&argument.values).ok().filter(|list| list.is_valid(0))?;
                Some(names(&list.value(0)).ok()?.iter().map(|of| of.map(str::to_string)).collect())
            }
            _ => None,
        }
    };
    let (keys, values) = match (call.args.len(), list(0), list(1)) {
        (1, Some(all), _) if all.len() % 2 == 0 => {
            let (keys, values): (Vec<_>, Vec<_>) =
                all.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
            let plain =
                |of: Vec<(usize, Option<String>)>| of.into_iter().map(|(_, of)| of).collect::<Vec<_>>();
            (plain(keys), plain(values))
        }
        (1, Some(_), _) => {
            return Err(refused(format!("{}(): a list has names and values in turn", call.name)));
        }
        (2, Some(keys), Some(values)) if keys.len() == values.len() => (keys, values),
        (2, Some(_), Some(_)) => {
            return Err(refused(format!("{}(): there are as many values as names", call.name)));
        }
        _ => return Ok(None),
    };
    let mut out = "{".to_string();
    for (place, (key, value)) in keys.iter().zip(&values).enumerate() {
        let key = key.as_deref().ok_or_else(|| refused(format!("a name in {}() is NULL", call.name)))?;
        if place > 0 {
            out.push_str(", ");
        }
        quote(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => quote(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(Some(out))
}

fn wide(values: &ArrayRef) -> Result<LargeListArray> {
    let (DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _)) =
        values.data_type()
    else {
        return Err(refused("a list was expected"));
    };
    Ok(lists_of(values, field)?)
}

/// How a value's text becomes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// It is JSON.
    Bare,
    /// A number if it is finite, else a text, as in PostgreSQL.
    Number,
    Quoted,
    /// A point in time, in ISO 8601's form.
    Moment,
}

/// Values that are written as JSON.
enum Writer {
    Nothing,
    Plain {
        texts: LargeStringArray,
        form: Form,
    },
    List {
        lists: LargeListArray,
        elements: Box<Writer>,
    },
    /// The names are in quotes.
    Structure {
        nulls: Option<NullBuffer>,
        fields: Vec<(String, Writer)>,
    },
    Map {
        nulls: Option<NullBuffer>,
        offsets: Vec<i32>,
        names: LargeStringArray,
        values: Box<Writer>,
    },
}

impl Writer {
    fn of_argument(call: &Call<'_>, place: usize) -> Result<Self> {
        let argument = &call.args[place];
        Self::new(&argument.values, &argument.field, call.zone)
    }

    /// Values that are JSON, whatever their field says.
    fn of_json(values: &ArrayRef) -> Result<Self> {
        match values.data_type() {
            DataType::Null => Ok(Self::Nothing),
            _ => Ok(Self::Plain { texts: names(values)?, form: Form::Bare }),
        }
    }

    fn new(values: &ArrayRef, field: &Field, zone: &str) -> Result<Self> {
        Ok(match values.data_type() {
            DataType::Null => Self::Nothing,
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                let lists = wide(values)?;
                let elements = Box::new(Self::new(lists.values(), of, zone)?);
                Self::List { lists, elements }
            }
            DataType::Struct(fields) => {
                let columns = values.as_struct().columns().iter();
                let fields = columns.zip(fields).map(|(column, field)| {
                    let mut name = String::new();
                    quote(field.name(), &mut name);
                    Ok((name, Self::new(column, field, zone)?))
                });
                Self::Structure { nulls: values.nulls().cloned(), fields: fields.collect::<Result<_>>()? }
            }
            DataType::Map(..) => {
                let map = map_of(values)?;
                let of = map.entries().fields()[1].clone();
                Self::Map {
                    nulls: map.nulls().cloned(),
                    offsets: map.value_offsets().to_vec(),
                    names: names(map.keys())?,
                    values: Box::new(Self::new(map.values(), &of, zone)?),
                }
            }
            DataType::Dictionary(_, of) => Self::new(&cast(values, of)?, field, zone)?,
            DataType::Timestamp(unit, Some(_)) => {
                let here = cast(values, &DataType::Timestamp(*unit, Some(zone.into())))?;
                Self::Plain { texts: names(&here)?, form: Form::Moment }
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let bytes = cast(values, &DataType::LargeBinary)?;
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                let texts = bytes.as_binary::<i64>().iter().map(|of| of.map(|of| format!("\\x{}", hex(of))));
                Self::Plain { texts: texts.collect(), form: Form::Quoted }
            }
            of => {
                let form = match of {
                    DataType::Boolean => Form::Bare,
                    of if of.is_numeric() => Form::Number,
                    DataType::Timestamp(..) => Form::Moment,
                    _ if is_json(field) => Form::Bare,
                    _ => Form::Quoted,
                };
                Self::Plain { texts: names(values)?, form }
            }
        })
    }

    /// Writes a value, if it is none that is NULL.
    fn write_some(&self, row: usize, out: &mut String) -> bool {
        let is_null = match self {
            Self::Nothing => true,
            Self::Plain { texts, .. } => texts.is_null(row),
            Self::List { lists, .. } => lists.is_null(row),
            Self::Structure { nulls, .. } | Self::Map { nulls, .. } => {
                nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
            }
        };
        if !is_null {
            self.write(row, out);
        }
        !is_null
    }

    fn write(&self, row: usize, out: &mut String) {
        match self {
            Self::Plain { texts, form } if texts.is_valid(row) => plain(texts.value(row), *form, out),
            Self::List { lists, elements } if lists.is_valid(row) => {
                out.push('[');
                let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
                for (place, at) in range.enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    elements.write(at, out);
                }
                out.push(']');
            }
            Self::Structure { nulls, fields } if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => {
                out.push('{');
                for (place, (name, values)) in fields.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push(':');
                    values.write(row, out);
                }
                out.push('}');
            }
            Self::Map { nulls, offsets, names, values }
                if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) =>
            {
                write_object(offsets[row] as usize..offsets[row + 1] as usize, names, values, out);
            }
            _ => out.push_str("null"),
        }
    }
}

fn plain(text: &str, form: Form, out: &mut String) {
    match form {
        Form::Bare => out.push_str(text),
        Form::Number
            if text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) =>
        {
            out.push_str(text);
        }
        Form::Number => quote(not_finite(text), out),
        Form::Moment => quote(&iso(text), out),
        Form::Quoted => quote(text, out),
    }
}

/// Returns PostgreSQL's word for a floating-point number that is none of JSON's, of our text for it.
fn not_finite(text: &str) -> &str {
    match text {
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        other => other,
    }
}

/// Returns the text of a point in time in ISO 8601's form, which has a T before the time, and minutes in
/// each offset.
fn iso(text: &str) -> String {
    let (moment, era) = text.strip_suffix(" BC").map_or((text, ""), |moment| (moment, " BC"));
    let mut iso = moment.replacen(' ', "T", 1);
    if matches!(iso.as_bytes().iter().rev().nth(2), Some(b'+' | b'-')) {
        iso.push_str(":00");
    }
    iso + era
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, ListArray, TimestampMicrosecondArray};
    use arrow::datatypes::Float64Type;
    use std::sync::Arc;

    fn written(values: ArrayRef, zone: &str) -> Vec<String> {
        let field = Field::new("a", values.data_type().clone(), true);
        let texts = texts(&values, &field, zone).unwrap();
        texts.iter().map(|text| text.unwrap_or("NULL").to_string()).collect()
    }

    #[test]
    fn numbers_that_json_lacks_are_texts() {
        let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5, -0.0];
        let expected = ["\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "1.5", "-0.0"];
        assert_eq!(written(Arc::new(Float64Array::from_iter_values(all)), "UTC"), expected);
        let narrow = all.iter().map(|value| *value as f32);
        assert_eq!(written(Arc::new(Float32Array::from_iter_values(narrow)), "UTC"), expected);
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(all.map(Some)), None]);
        let expected = [format!("[{}]", expected.join(",")), "NULL".to_string()];
        assert_eq!(written(Arc::new(list), "UTC"), expected);
    }

    #[test]
    fn points_in_time_are_in_the_zone_of_the_session() {
        let moments = || TimestampMicrosecondArray::from(vec![Some(1_720_000_000_500_000), None]);
        for (zone, expected) in [
            ("UTC", "\"2024-07-03T09:46:40.5+00:00\""),
            ("Europe/Berlin", "\"2024-07-03T11:46:40.5+02:00\""),
            ("Asia/Kolkata", "\"2024-07-03T15:16:40.5+05:30\""),
            ("America/New_York", "\"2024-07-03T05:46:40.5-04:00\""),
        ] {
            let zoned = written(Arc::new(moments().with_timezone("UTC")), zone);
            assert_eq!(zoned, [expected, "NULL"], "{zone}");
            let plain = written(Arc::new(moments()), zone);
            assert_eq!(plain, ["\"2024-07-03T09:46:40.5\"", "NULL"], "{zone}");
        }
    }
}
