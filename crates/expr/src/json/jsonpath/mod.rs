//! Paths of SQL/JSON, as PostgreSQL has them: `jsonb_path_query` and its like.

mod lexer;
mod number;
mod parse;
mod run;

use super::call::{Call, Described, Gives, Kind, Texts};
use super::text::{Kind as Of, kind, normalised};
use crate::arguments::refused;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeStringArray, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::error::{DataFusionError, Result};
use hypostyle_error::external;
use hypostyle_types::Error;
use parse::Path;
use run::{Failure, Item, Run};
use std::cell::Cell;
use std::sync::Arc;

/// A value, a path, an object of variables, and whether a value that is not as the path wants it is none
/// instead of an error.
const WITH_PATH: &[Kind] = &[Kind::Json, Kind::Text, Kind::Json, Kind::Boolean];

const JUST_PATH: &[Kind] = &[Kind::Json, Kind::Text];

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["jsonb_path_exists", "jsonb_path_exists_tz"], WITH_PATH, Gives::Boolean, |call| {
        let truths = each_row(call, |asked| match asked.run().exists() {
            Ok(exists) => Ok(Some(exists)),
            Err(failure) => asked.failed(failure).map(|()| None),
        });
        Ok(Arc::new(truths?.into_iter().collect::<BooleanArray>()))
    })
    .optional(2),
    Described::new(&["jsonb_path_match", "jsonb_path_match_tz"], WITH_PATH, Gives::Boolean, |call| {
        Ok(Arc::new(each_row(call, matched)?.into_iter().collect::<BooleanArray>()))
    })
    .optional(2),
    Described::new(
        &["jsonb_path_query_array", "jsonb_path_query_array_tz"],
        WITH_PATH,
        Gives::Json,
        |call| {
            let arrays = each_row(call, |asked| {
                let found = asked.all()?;
                Ok(Some(format!("[{}]", found.join(", "))))
            });
            Ok(Arc::new(arrays?.into_iter().collect::<LargeStringArray>()))
        },
    )
    .optional(2),
    Described::new(
        &["jsonb_path_query_first", "jsonb_path_query_first_tz"],
        WITH_PATH,
        Gives::Json,
        |call| {
            let first = each_row(call, |asked| Ok(asked.all()?.into_iter().next().map(Item::into_owned)));
            Ok(Arc::new(first?.into_iter().collect::<LargeStringArray>()))
        },
    )
    .optional(2),
    // NULL where there is none, or more than one.
    Described::new(&["json_query"], JUST_PATH, Gives::Json, |call| {
        let found = each_row(call, |asked| {
            let found = match asked.run().all() {
                (found, None) => found,
                (_, Some(Failure::OfValue(_))) => return Ok(None),
                (_, Some(Failure::Other(error))) => return Err(external(error)),
            };
            Ok(match found.as_slice() {
                [one] => Some(one.to_string()),
                _ => None,
            })
        });
        Ok(Arc::new(found?.into_iter().collect::<LargeStringArray>()))
    }),
    // The values that jsonb_path_query() gives as rows.
    Described::new(&["jsonb_path_list"], WITH_PATH, Gives::Jsons, lists).optional(2),
];

/// What the values of a batch may cost, in bytes that are looked at, and for each byte of a value.
const BUDGET: u64 = 1 << 30;
const BUDGET_PER_BYTE: u64 = 64;

/// What is asked of one row.
struct Asked<'a> {
    path: &'a Path,
    value: &'a str,
    variables: &'a str,
    is_silent: bool,
    budget: &'a Cell<u64>,
}

impl<'a> Asked<'a> {
    fn run(&self) -> Run<'a> {
        Run::new(self.path, self.value, self.variables, self.budget)
    }

    /// Returns the error, if it is one.
    fn failed(&self, failure: Failure) -> Result<()> {
        match failure {
            Failure::OfValue(_) if self.is_silent => Ok(()),
            Failure::OfValue(error) | Failure::Other(error) => Err(external(error)),
        }
    }

    fn all(&self) -> Result<Vec<Item<'a>>> {
        let (found, failure) = self.run().all();
        failure.map(|failure| self.failed(failure)).transpose()?;
        Ok(found)
    }
}

/// The path that was read last, with its text.
type Known = Option<(String, Path)>;

/// Calls a function for each row without a NULL.
fn each_row<T>(
    call: &Call<'_>,
    of: impl for<'a> Fn(&Asked<'a>) -> Result<Option<T>>,
) -> Result<Vec<Option<T>>> {
    let (values, paths) = (call.json(0)?, call.texts(1)?);
    let variables = if call.args.len() > 2 { Some(call.json(2)?) } else { None };
    let silent = call.args.get(3).map(|argument| cast(&argument.values, &DataType::Boolean)).transpose()?;
    let is_silent = |row: usize| match (&silent, call.args.get(3)) {
        (Some(silent), Some(argument)) => {
            let silent = silent.as_boolean();
            let at = argument.at(row);
            silent.is_valid(at).then(|| silent.value(at))
        }
        _ => Some(false),
    };
    let bytes = (0..values.values.len()).filter_map(|row| values.get(row)).map(|value| value.len() as u64);
    let budget = Cell::new(BUDGET.saturating_add(bytes.sum::<u64>().saturating_mul(BUDGET_PER_BYTE)));
    let mut known: Known = None;
    let mut found = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let variables = variables_of(variables.as_ref(), row);
        let (Some(value), Some(path), Some(variables), Some(is_silent)) =
            (values.get(row), paths.get(row), variables, is_silent(row))
        else {
            found.push(None);
            continue;
        };
        if kind(variables) != Some(Of::Object) {
            return Err(refused("the variables of a jsonpath are the members of an object"));
        }
        let path = path_of(&mut known, path)?;
        let (value, variables) = (normalised(value), normalised(variables));
        found.push(of(&Asked { path, value: &value, variables: &variables, is_silent, budget: &budget })?);
    }
    Ok(found)
}

/// Returns the object of variables, which is empty if there is no such argument.
fn variables_of(variables: Option<&Texts>, row: usize) -> Option<&str> {
    match variables {
        Some(variables) => variables.get(row),
        None => Some("{}"),
    }
}

fn path_of<'a>(known: &'a mut Known, path: &str) -> Result<&'a Path> {
    if known.as_ref().is_none_or(|(text, _)| text != path) {
        *known = Some((path.to_string(), parse::read(path).map_err(external)?));
    }
    known.as_ref().map(|(_, path)| path).ok_or_else(|| DataFusionError::Internal("a path is read".into()))
}

/// Returns the one truth that is found.
fn matched(asked: &Asked<'_>) -> Result<Option<bool>> {
    let (found, failure) = asked.run().all();
    if let Some(failure) = failure {
        return asked.failed(failure).map(|()| None);
    }
    match found.as_slice() {
        [item] if item == "true" => Ok(Some(true)),
        [item] if item == "false" => Ok(Some(false)),
        [item] if item == "null" => Ok(None),
        _ if asked.is_silent => Ok(None),
        _ => Err(external(Error::invalid_input("single boolean result is expected").with_sqlstate("22038"))),
    }
}

fn lists(call: &Call<'_>) -> Result<ArrayRef> {
    let found = each_row(call, |asked| {
        let found = asked.all()?;
        Ok(Some(found.into_iter().map(Item::into_owned).collect::<Vec<String>>()))
    })?;
    let nulls: NullBuffer = found.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::from_lengths(found.iter().map(|list| list.as_ref().map_or(0, Vec::len)));
    let elements: LargeStringArray = found.into_iter().flatten().flatten().map(Some).collect();
    let field = match call.gives.data_type() {
        DataType::List(field) => field.clone(),
        _ => Arc::new(Field::new_list_field(DataType::LargeUtf8, true)),
    };
    let elements = cast(&elements, field.data_type())?;
    Ok(Arc::new(ListArray::try_new(field, offsets, elements, Some(nulls))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, value: &str) -> Vec<String> {
        let path = parse::read(path).unwrap();
        let (value, budget) = (normalised(value), Cell::new(BUDGET));
        let (found, failure) = Run::new(&path, &value, "{}", &budget).all();
        assert!(failure.is_none());
        found.into_iter().map(Item::into_owned).collect()
    }

    #[test]
    fn paths_lead_to_values() {
        let value = r#"{"a": [1, {"b": "x"}, [2]], "c d": null}"#;
        for (path, expected) in [
            ("$.a[*].b", "\"x\""),
            ("lax $.a[1 to last]", "{\"b\": \"x\"}; [2]"),
            ("$.\"c d\"", "null"),
            ("$.\"c\\u0020d\" == null", "true"),
            ("$.a.size() * -2 + 1", "-5"),
            ("$.a[*] ? (@ < 3 || @.b starts with \"x\")", "1; {\"b\": \"x\"}; 2"),
            ("strict $.** ? (@.type() == \"number\") /* all */", "1; 2"),
            ("$.** ? (@.type() == \"number\")", "1; 1; 2; 2"),
            ("$.a[last - 1]", "{\"b\": \"x\"}"),
            ("$.nothing", ""),
            ("exists($.a[*] ? (@ == 1)) && !($.a[0] == 7)", "true"),
            ("!($.a == 7)", "null"),
            ("\"\\x41\\u{42}\"", "\"AB\""),
        ] {
            assert_eq!(found(path, value).join("; "), expected, "{path}");
        }
    }

    /// Leaves out, repeats and changes letters of paths.
    #[test]
    fn no_text_makes_reading_panic() {
        const LETTERS: &[u8] = b"$@.*[](){}?!<>=&|+-/%\"\\ax1_, \xc3";
        let paths =
            ["strict $.a[1 to last].b ? (@ like_regex \"^x\" flag \"i\")", "$.**{1 to 2}.abs() + .5e1"];
        let mut number = 1_u64;
        let mut random = |below: usize| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) as usize % below
        };
        for round in 0..20_000 {
            let mut bytes = paths[round % paths.len()].as_bytes().to_vec();
            for _ in 0..=random(4) {
                let place = random(bytes.len());
                match random(3) {
                    0 => bytes[place] = LETTERS[random(LETTERS.len())],
                    1 => bytes.truncate(place.max(1)),
                    _ => bytes.extend_from_within(place..),
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            if let Ok(path) = parse::read(&text) {
                let budget = Cell::new(1 << 20);
                let _found = Run::new(&path, "{\"a\": [-1, {\"b\": \"xy\"}]}", "{}", &budget).all();
            }
        }
    }
}
