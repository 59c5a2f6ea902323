//! Functions that take JSON apart.

use super::call::{Argument, Call, Described, Gives, Kind, Paths, Texts, integers, is_json};
use super::path::{self, Step};
use super::text::{self, elements, members, shown, unquoted};
use crate::arguments::refused;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, LargeStringArray, ListArray, StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_sql::json_path::{JSON, TEXT};
use hypostyle_types::check_json_text;

use std::sync::Arc;

const OF_ONE: &[Kind] = &[Kind::Json];
const WITH_PATH: &[Kind] = &[Kind::Json, Kind::Path];
const WITH_TEXT: &[Kind] = &[Kind::Json, Kind::Text];
const OF_TWO: &[Kind] = &[Kind::Json, Kind::Json];

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["json_part"], WITH_PATH, Gives::Json, |call| values(call, by_operator)),
    Described::new(&["json_part_text"], WITH_PATH, Gives::Text, |call| texts(call, by_operator)),
    Described::new(&[JSON], WITH_PATH, Gives::Json, |call| values(call, by_list)),
    Described::new(&[TEXT], WITH_PATH, Gives::Text, |call| texts(call, by_list)),
    Described::new(
        &["json_get", "json_get_json", "json_extract_path", "jsonb_extract_path"],
        WITH_PATH,
        Gives::Json,
        |call| values(call, by_steps),
    )
    .optional(1)
    .more(),
    Described::new(
        &["json_as_text", "json_extract_path_text", "jsonb_extract_path_text"],
        WITH_PATH,
        Gives::Text,
        |call| texts(call, by_steps),
    )
    .optional(1)
    .more(),
    Described::new(&["json_get_str"], WITH_PATH, Gives::Text, strings).optional(1).more(),
    Described::new(&["json_get_int"], WITH_PATH, Gives::Integer, |call| {
        let found = by_steps(call)?;
        integers(
            (0..call.rows).map(|row| Ok(found.get(row).and_then(|value| value.trim().parse::<i64>().ok()))),
        )
    })
    .optional(1)
    .more(),
    Described::new(&["json_get_float"], WITH_PATH, Gives::Double, |call| {
        let found = by_steps(call)?;
        let number = |row| found.get(row).filter(|value| text::kind(value) == Some(text::Kind::Number));
        let numbers =
            (0..call.rows).map(|row| number(row).and_then(|value| value.trim().parse::<f64>().ok()));
        Ok(Arc::new(numbers.collect::<Float64Array>()))
    })
    .optional(1)
    .more(),
    Described::new(&["json_get_bool"], WITH_PATH, Gives::Boolean, |call| {
        let found = by_steps(call)?;
        let truths =
            (0..call.rows).map(|row| found.get(row).and_then(|value| value.trim().parse::<bool>().ok()));
        Ok(Arc::new(truths.collect::<BooleanArray>()))
    })
    .optional(1)
    .more(),
    Described::new(
        &["json_extract", "json_extract_json", "jsonb_extract"],
        WITH_PATH,
        Gives::JsonAtPath,
        |call| extracted(call, |value| Some(value.to_string())),
    ),
    Described::new(&["json_extract_string", "json_extract_text"], WITH_PATH, Gives::TextAtPath, |call| {
        extracted(call, |value| shown(value).map(Into::into))
    }),
    Described::new(&["json_value"], WITH_PATH, Gives::Json, |call| {
        let found = by_path(call)?;
        let is_plain = |value: &&str| {
            use text::Kind::{Boolean, Number, Text};
            matches!(text::kind(value), Some(Boolean | Number | Text))
        };
        let values = (0..call.rows).map(|row| found.get(row).filter(is_plain));
        Ok(Arc::new(values.collect::<LargeStringArray>()))
    }),
    Described::new(&["json_exists"], WITH_PATH, Gives::Boolean, |call| {
        let (values, paths) = (call.json(0)?, call.paths(1)?);
        truths(call, |row| Some(!path::all_at(values.get(row)?, paths.get(row)?).is_empty()))
    }),
    Described::new(&["json_type"], WITH_PATH, Gives::TextAtPath, |call| {
        extracted(call, |value| Some(type_of(value).to_string()))
    })
    .optional(1),
    Described::new(&["json_typeof", "jsonb_typeof"], OF_ONE, Gives::Text, |call| {
        let values = call.json(0)?;
        let kinds = (0..call.rows).map(|row| values.get(row).and_then(kind));
        Ok(Arc::new(kinds.collect::<StringArray>()))
    }),
    Described::new(&["json_valid"], &[Kind::Text], Gives::Boolean, |call| {
        let values = call.texts(0)?;
        truths(call, |row| values.get(row).map(|text| check_json_text(text).is_ok()))
    }),
    Described::new(&["json_array_length", "jsonb_array_length"], WITH_PATH, Gives::Integer, |call| {
        length(call, false)
    })
    .optional(1),
    Described::new(&["json_length", "json_len"], WITH_PATH, Gives::Integer, |call| length(call, true))
        .optional(1),
    Described::new(&["json_keys"], WITH_PATH, Gives::Texts, |call| {
        let found = by_path(call)?;
        lists(call, |row| {
            Ok(found.get(row).map(|of| members(of).map(|(name, _)| Some(unquoted(name).into())).collect()))
        })
    })
    .optional(1),
    Described::new(&["json_keys_of_object"], OF_ONE, Gives::Texts, |call| {
        let values = call.json(0)?;
        lists(call, |row| match values.get(row) {
            Some(of) if text::kind(of) != Some(text::Kind::Object) => {
                let what = kind(of).unwrap_or_default();
                Err(refused(format!("json_object_keys() is of an object, not of a JSON {what}")))
            }
            of => Ok(of.map(|of| members(of).map(|(name, _)| Some(unquoted(name).into())).collect())),
        })
    }),
    // These are the lists of the functions of PostgreSQL that give rows.
    Described::new(&["json_get_array"], WITH_PATH, Gives::Jsons, |call| {
        let found = by_steps(call)?;
        let all = |of| elements(of).map(|value| Some(value.to_string())).collect();
        let is_array = |of: &&str| text::kind(of) == Some(text::Kind::Array);
        lists(call, |row| Ok(found.get(row).filter(is_array).map(all)))
    })
    .optional(1)
    .more(),
    Described::new(&["json_elements"], OF_ONE, Gives::Jsons, |call| {
        of_array(call, |value| Some(value.to_string()))
    }),
    Described::new(&["json_elements_text"], OF_ONE, Gives::Texts, |call| {
        of_array(call, |value| shown(value).map(Into::into))
    }),
    Described::new(&["json_names"], OF_ONE, Gives::Texts, |call| {
        parts(call, |name, _| Some(unquoted(name).into()))
    }),
    Described::new(&["json_values"], OF_ONE, Gives::Jsons, |call| {
        parts(call, |_, value| Some(value.to_string()))
    }),
    Described::new(&["json_values_text"], OF_ONE, Gives::Texts, |call| {
        parts(call, |_, value| shown(value).map(Into::into))
    }),
    Described::new(&["json_contains"], OF_TWO, Gives::Boolean, |call| compared(call, text::contains)),
    Described::new(&["json_includes"], OF_TWO, Gives::Boolean, |call| compared(call, text::includes)),
    Described::new(&["json_has_key", "jsonb_exists"], WITH_TEXT, Gives::Boolean, |call| {
        let (values, names) = (call.json(0)?, call.texts(1)?);
        truths(call, |row| Some(has_key(values.get(row)?, names.get(row)?)))
    }),
    Described::new(&["json_has_any_key", "jsonb_exists_any"], WITH_PATH, Gives::Boolean, |call| {
        keys(call, |of, names| names.iter().any(|name| has_key(of, name)))
    }),
    Described::new(&["json_has_all_keys", "jsonb_exists_all"], WITH_PATH, Gives::Boolean, |call| {
        keys(call, |of, names| names.iter().all(|name| has_key(of, name)))
    }),
    Described::new(&["json_structure"], OF_ONE, Gives::Json, |call| {
        let values = call.json(0)?;
        call.written(|row, out| {
            let Some(value) = values.get(row) else { return Ok(false) };
            Structure::of(value.trim(), 0).write(out);
            Ok(true)
        })
    }),
];

/// Returns what a JSON text is, as PostgreSQL calls it.
fn kind(text: &str) -> Option<&'static str> {
    Some(match text::kind(text)? {
        text::Kind::Object => "object",
        text::Kind::Array => "array",
        text::Kind::Text => "string",
        text::Kind::Boolean => "boolean",
        text::Kind::Null => "null",
        text::Kind::Number => "number",
    })
}

/// Returns what a JSON text is, as DuckDB calls it.
fn type_of(text: &str) -> &'static str {
    match text::kind(text) {
        Some(text::Kind::Object) => "OBJECT",
        Some(text::Kind::Array) => "ARRAY",
        Some(text::Kind::Text) => "VARCHAR",
        Some(text::Kind::Boolean) => "BOOLEAN",
        None | Some(text::Kind::Null) => "NULL",
        Some(text::Kind::Number) => match text.trim() {
            number if number.parse::<u64>().is_ok() => "UBIGINT",
            number if number.parse::<i64>().is_ok() => "BIGINT",
            _ => "DOUBLE",
        },
    }
}

/// The way to a value in each row.
enum Way {
    Whole,
    /// A name or a path, as `->` takes it.
    Named(Texts),
    /// Paths, one after the other.
    Along(Vec<Paths>),
}

/// What is found in the first argument of a call.
struct Finder {
    values: Texts,
    way: Way,
}

impl Finder {
    fn get(&self, row: usize) -> Option<&str> {
        let value = self.values.get(row)?;
        match &self.way {
            Way::Whole => Some(value),
            Way::Named(names) => path::by_operator(value, names.get(row)?),
            Way::Along(paths) => {
                paths.iter().try_fold(value, |value, paths| path::at(value, paths.get(row)?))
            }
        }
    }
}

fn by_operator(call: &Call<'_>) -> Result<Finder> {
    let way = match call.args[1].values.data_type() {
        of if of.is_string() || of.is_null() => Way::Named(call.texts(1)?),
        of if of.is_nested() => return by_list(call),
        _ => Way::Along(vec![call.paths(1)?]),
    };
    Ok(Finder { values: call.json(0)?, way })
}

/// A list of steps, or its text, as `#>` takes it.
fn by_list(call: &Call<'_>) -> Result<Finder> {
    let argument = &call.args[1];
    if is_json(&argument.field) {
        return Err(refused("a path into JSON is a list of texts, as in data #>> '{a,0,b}'"));
    }
    let paths = match argument.values.data_type() {
        of if of.is_nested() => {
            let lists = cast(&argument.values, &DataType::new_list(DataType::Utf8, true))?;
            let steps = |list: Option<ArrayRef>| -> Option<Vec<Step>> {
                list?.as_string::<i32>().iter().map(|step| Some(Step::Either(step?.to_string()))).collect()
            };
            lists.as_list::<i32>().iter().map(steps).collect()
        }
        of if of.is_integer() => return Err(refused("a path into JSON is a list of texts, as in '{a,0,b}'")),
        _ => call.texts(1)?.values.iter().map(|text| path::of_list(text?)).collect(),
    };
    let paths = Paths { paths, is_one: argument.is_one };
    Ok(Finder { values: call.json(0)?, way: Way::Along(vec![paths]) })
}

/// Names and places, one after the other.
fn by_steps(call: &Call<'_>) -> Result<Finder> {
    let step = |(place, argument): (usize, &Argument)| match argument.values.data_type() {
        of if of.is_string() || of.is_null() => {
            let texts = call.texts(place)?;
            let steps = texts.values.iter().map(|text| Some(vec![Step::Either(text?.to_string())]));
            Ok(Paths { paths: steps.collect(), is_one: texts.is_one })
        }
        _ => call.paths(place),
    };
    let paths = call.args.iter().enumerate().skip(1).map(step).collect::<Result<_>>()?;
    Ok(Finder { values: call.json(0)?, way: Way::Along(paths) })
}

/// A path of DuckDB's functions, or the whole value where there is none.
fn by_path(call: &Call<'_>) -> Result<Finder> {
    let way = match call.args.len() {
        1 => Way::Whole,
        _ => Way::Along(vec![call.paths(1)?]),
    };
    Ok(Finder { values: call.json(0)?, way })
}

type Ways = fn(&Call<'_>) -> Result<Finder>;

fn values(call: &Call<'_>, ways: Ways) -> Result<ArrayRef> {
    let found = ways(call)?;
    Ok(Arc::new((0..call.rows).map(|row| found.get(row)).collect::<LargeStringArray>()))
}

fn texts(call: &Call<'_>, ways: Ways) -> Result<ArrayRef> {
    let found = ways(call)?;
    let texts = (0..call.rows).map(|row| found.get(row).and_then(shown));
    Ok(Arc::new(texts.collect::<LargeStringArray>()))
}

/// Texts, and nothing of anything else.
fn strings(call: &Call<'_>) -> Result<ArrayRef> {
    let found = by_steps(call)?;
    let text =
        |row| found.get(row).filter(|value| text::kind(value) == Some(text::Kind::Text)).and_then(shown);
    Ok(Arc::new((0..call.rows).map(text).collect::<LargeStringArray>()))
}

fn truths(call: &Call<'_>, truth: impl Fn(usize) -> Option<bool>) -> Result<ArrayRef> {
    Ok(Arc::new((0..call.rows).map(truth).collect::<BooleanArray>()))
}

/// Returns lists of texts, with the elements that the function gives.
fn lists(call: &Call<'_>, list: impl Fn(usize) -> Result<Option<Vec<Option<String>>>>) -> Result<ArrayRef> {
    let lists = (0..call.rows).map(list).collect::<Result<Vec<_>>>()?;
    let nulls: NullBuffer = lists.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.as_ref().map_or(0, Vec::len)));
    let elements: LargeStringArray = lists.into_iter().flatten().flatten().collect();
    let field = match call.gives.data_type() {
        DataType::List(field) => field.clone(),
        _ => Arc::new(Field::new_list_field(DataType::LargeUtf8, true)),
    };
    let elements = cast(&elements, field.data_type())?;
    Ok(Arc::new(ListArray::try_new(field, offsets, elements, Some(nulls))?))
}

/// What is at a path; a list where there may be several.
fn extracted(call: &Call<'_>, of: impl Fn(&str) -> Option<String>) -> Result<ArrayRef> {
    if !call.gives.data_type().is_nested() {
        let found = by_path(call)?;
        if let Way::Along(paths) = &found.way
            && paths
                .iter()
                .flat_map(|paths| paths.paths.iter().flatten())
                .any(|path| path::is_of_several(path))
        {
            return Err(refused(format!("{}(): a path with wildcards has to be a constant", call.name)));
        }
        let values = (0..call.rows).map(|row| found.get(row).and_then(&of));
        return Ok(Arc::new(values.collect::<LargeStringArray>()));
    }
    let values = call.json(0)?;
    if !call.args[1].values.data_type().is_nested() {
        let paths = call.paths(1)?;
        return lists(call, |row| {
            let (Some(value), Some(path)) = (values.get(row), paths.get(row)) else { return Ok(None) };
            Ok(Some(path::all_at(value, path).into_iter().map(&of).collect()))
        });
    }
    let given = cast(&call.args[1].values, &DataType::new_list(DataType::Utf8, true))?;
    let given = given.as_list::<i32>();
    lists(call, |row| {
        let place = call.args[1].at(row);
        let (Some(value), true) = (values.get(row), given.is_valid(place)) else { return Ok(None) };
        let paths = given.value(place);
        let one = |path: Option<&str>| match path.map(path::read).transpose().map_err(external)? {
            Some(path) if path::is_of_several(&path) => {
                Err(refused(format!("{}(): a path in a list has no wildcards", call.name)))
            }
            path => Ok(path.and_then(|path| path::at(value, &path)).and_then(&of)),
        };
        paths.as_string::<i32>().iter().map(one).collect::<Result<_>>().map(Some)
    })
}

/// The elements of an array, and perhaps the members of an object.
fn length(call: &Call<'_>, of_objects: bool) -> Result<ArrayRef> {
    let found = by_path(call)?;
    integers((0..call.rows).map(|row| {
        let Some(value) = found.get(row) else { return Ok(None) };
        Ok(match text::kind(value) {
            Some(text::Kind::Array) => Some(elements(value).count() as i64),
            Some(text::Kind::Object) if of_objects => Some(members(value).count() as i64),
            _ if of_objects => None,
            _ => {
                let what = kind(value).unwrap_or_default();
                return Err(refused(format!(
                    "{}() is of an array, not of a JSON {what}; json_length() counts members, too",
                    call.name
                )));
            }
        })
    }))
}

fn of_array(call: &Call<'_>, of: impl Fn(&str) -> Option<String>) -> Result<ArrayRef> {
    let values = call.json(0)?;
    lists(call, |row| match values.get(row) {
        Some(value) if text::kind(value) != Some(text::Kind::Array) => {
            let what = kind(value).unwrap_or_default();
            Err(refused(format!("json_array_elements() is of an array, not of a JSON {what}")))
        }
        value => Ok(value.map(|value| elements(value).map(&of).collect())),
    })
}

/// The members of an object, or the elements of an array with their places as names.
fn parts(call: &Call<'_>, of: impl Fn(&str, &str) -> Option<String>) -> Result<ArrayRef> {
    let values = call.json(0)?;
    lists(call, |row| {
        let Some(value) = values.get(row) else { return Ok(None) };
        Ok(Some(match text::kind(value) {
            Some(text::Kind::Array) => {
                elements(value).enumerate().map(|(place, part)| of(&place.to_string(), part)).collect()
            }
            _ => members(value).map(|(name, part)| of(name, part)).collect(),
        }))
    })
}

fn compared(call: &Call<'_>, compare: fn(&str, &str) -> bool) -> Result<ArrayRef> {
    let (within, sought) = (call.json(0)?, call.json(1)?);
    truths(call, |row| Some(compare(within.get(row)?, sought.get(row)?)))
}

/// Whether an object has a member, or an array a text, of a name.
fn has_key(of: &str, name: &str) -> bool {
    let is_it = |value: &str| text::kind(value) == Some(text::Kind::Text) && unquoted(value) == name;
    text::member(of, name).is_some() || elements(of).any(is_it) || is_it(of.trim())
}

fn keys(call: &Call<'_>, holds: impl Fn(&str, &[String]) -> bool) -> Result<ArrayRef> {
    let found = by_list(call)?;
    let Way::Along(lists) = &found.way else { return truths(call, |_| None) };
    truths(call, |row| {
        let value = found.values.get(row)?;
        let names = lists.first()?.get(row)?.iter().filter_map(|step| match step {
            Step::Either(name) => Some(name.clone()),
            _ => None,
        });
        Some(holds(value, &names.collect::<Vec<_>>()))
    })
}

/// Values within each other whose structure is told.
const DEPTH_MAX: usize = 128;

/// The structure of a value, as `json_structure` shows it.
#[derive(Clone, PartialEq, Eq)]
enum Structure {
    Plain(&'static str),
    List(Box<Structure>),
    Members(Vec<(String, Structure)>),
}

impl Structure {
    fn of(text: &str, depth: usize) -> Self {
        match text::kind(text) {
            _ if depth > DEPTH_MAX => Self::Plain("JSON"),
            Some(text::Kind::Array) => {
                let parts = elements(text).map(|value| Self::of(value, depth + 1));
                Self::List(Box::new(parts.reduce(Self::merged).unwrap_or(Self::Plain("NULL"))))
            }
            Some(text::Kind::Object) => {
                let one = |(name, value)| Self::of_member(unquoted(name).into(), Self::of(value, depth + 1));
                members(text).map(one).reduce(Self::merged).unwrap_or(Self::Plain("JSON"))
            }
            _ => Self::Plain(type_of(text)),
        }
    }

    fn of_member(name: String, of: Self) -> Self {
        Self::Members(vec![(name, of)])
    }

    /// Returns the structure of both values.
    fn merged(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Plain("NULL"), one) | (one, Self::Plain("NULL")) => one,
            (Self::Plain("BIGINT"), Self::Plain("UBIGINT"))
            | (Self::Plain("UBIGINT"), Self::Plain("BIGINT")) => Self::Plain("BIGINT"),
            (Self::Plain("DOUBLE"), Self::Plain("BIGINT" | "UBIGINT"))
            | (Self::Plain("BIGINT" | "UBIGINT"), Self::Plain("DOUBLE")) => Self::Plain("DOUBLE"),
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.merged(*other))),
            (Self::Members(mut all), Self::Members(more)) => {
                for (name, of) in more {
                    match all.iter_mut().find(|(own, _)| *own == name) {
                        Some((_, own)) => *own = own.clone().merged(of),
                        None => all.push((name, of)),
                    }
                }
                Self::Members(all)
            }
            _ => Self::Plain("JSON"),
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Plain(name) => text::quote(name, out),
            Self::List(of) => {
                out.push('[');
                of.write(out);
                out.push(']');
            }
            Self::Members(members) => {
                out.push('{');
                for (place, (name, of)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    text::quote(name, out);
                    out.push(':');
                    of.write(out);
                }
                out.push('}');
            }
        }
    }
}
