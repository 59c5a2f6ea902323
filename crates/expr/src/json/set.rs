//! JSON with another value at a path of DuckDB's, or without one: `json_set` and its like. What is missing
//! on the way is made.

use super::call::{Call, Described, Gives, Kind, Texts};
use super::change::{array, object};
use super::path::{Step, is_of_several};
use super::text::{Kind as Of, compact, elements, kind, member, members, quote, unquoted};
use super::write::texts;
use crate::arguments::refused;
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::Result;
use std::borrow::Cow;
use std::sync::Arc;

const OF_VALUE: &[Kind] = &[Kind::Json, Kind::Path, Kind::Any];

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["json_set"], OF_VALUE, Gives::Json, |call| changed(call, Change::Set)),
    Described::new(&["json_insert"], OF_VALUE, Gives::Json, |call| changed(call, Change::Insert)),
    Described::new(&["json_replace"], OF_VALUE, Gives::Json, |call| changed(call, Change::Replace)),
    Described::new(&["json_remove"], &[Kind::Json, Kind::Path], Gives::Json, |call| {
        changed(call, Change::Remove)
    }),
];

/// The most steps of a path, each of which may make a value within another.
const STEPS_MAX: usize = 512;

/// What becomes of the value at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Set,
    /// It is set only where there is none.
    Insert,
    /// It is set only where there is one.
    Replace,
    Remove,
}

/// Returns the new values: a text is JSON, and other values become JSON.
fn new_values(call: &Call<'_>) -> Result<Option<Texts>> {
    let Some(argument) = call.args.get(2) else { return Ok(None) };
    let of = argument.values.data_type();
    if of.is_string() || of.is_null() {
        return call.json(2).map(Some);
    }
    let written: ArrayRef = Arc::new(texts(&argument.values, &argument.field, call.zone)?);
    let values = cast(&written, &DataType::Utf8View)?;
    Ok(Some(Texts { values: values.as_string_view().clone(), is_one: argument.is_one }))
}

fn changed(call: &Call<'_>, change: Change) -> Result<ArrayRef> {
    if call.args[1].values.data_type().is_nested() {
        return Err(refused(format!("{}() takes one path", call.name)));
    }
    let (values, paths, new) = (call.json(0)?, call.paths(1)?, new_values(call)?);
    call.written(|row, out| {
        let (Some(value), Some(path)) = (values.get(row), paths.get(row)) else { return Ok(false) };
        let new = match &new {
            Some(new) => match new.get(row) {
                Some(new) => new,
                None => return Ok(false),
            },
            None => "",
        };
        if is_of_several(path) || path.len() > STEPS_MAX {
            let message =
                format!("{}() takes a path of {STEPS_MAX} steps at most, without wildcards", call.name);
            return Err(refused(message));
        }
        let found = at(Some(value.trim()), path, new, change);
        if let Some(found) = &found {
            compact(found, out);
        }
        Ok(found.is_some())
    })
}

/// Returns what is at the place of a value; `None` where nothing is.
fn at<'a>(value: Option<&'a str>, steps: &[Step], new: &'a str, change: Change) -> Option<Cow<'a, str>> {
    let is_of_old = matches!(change, Change::Replace | Change::Remove);
    let Some((step, rest)) = steps.split_first() else {
        return match value {
            None if is_of_old => None,
            Some(_) if change == Change::Remove => None,
            Some(value) if change == Change::Insert => Some(Cow::Borrowed(value)),
            _ => Some(Cow::Borrowed(new)),
        };
    };
    if value.is_none() && is_of_old {
        return None;
    }
    let of = value.unwrap_or(if matches!(step, Step::Place(_)) { "[]" } else { "{}" });
    let found = match (step, kind(of)) {
        (Step::Name(name) | Step::Either(name), Some(Of::Object)) => {
            Some(in_object(of, name, rest, new, change))
        }
        (Step::Place(place), Some(Of::Array)) => in_array(of, *place, rest, new, change),
        (Step::Either(place), Some(Of::Array)) => {
            place.trim().parse().ok().and_then(|place| in_array(of, place, rest, new, change))
        }
        _ => None,
    };
    // What cannot be followed stays as it is.
    found.map(Cow::Owned).or(value.map(Cow::Borrowed))
}

fn in_object(of: &str, name: &str, rest: &[Step], new: &str, change: Change) -> String {
    let mut new = at(member(of, name), rest, new, change);
    let mut parts: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for (own, value) in members(of) {
        match unquoted(own) == name {
            // Of several of one name, one is left.
            true => parts.extend(new.take().map(|new| (Cow::Borrowed(own), new))),
            false => parts.push((Cow::Borrowed(own), Cow::Borrowed(value))),
        }
    }
    if let Some(new) = new {
        let mut own = String::new();
        quote(name, &mut own);
        parts.push((Cow::Owned(own), new));
    }
    let mut out = String::new();
    object(parts, &mut out);
    out
}

/// Returns an array with another element at a place, which may be that behind the last one.
fn in_array(of: &str, place: i64, rest: &[Step], new: &str, change: Change) -> Option<String> {
    let mut all: Vec<Cow<'_, str>> = elements(of).map(Cow::Borrowed).collect();
    let length = i64::try_from(all.len()).ok()?;
    if place == i64::MAX || place == length {
        all.push(at(None, rest, new, change)?);
    } else {
        let place = if place < 0 { place.saturating_add(length) } else { place };
        let place = usize::try_from(place).ok()?;
        match at(Some(elements(of).nth(place)?), rest, new, change) {
            Some(new) => all[place] = new,
            None => drop(all.remove(place)),
        }
    }
    let mut out = String::new();
    array(all, &mut out);
    Some(out)
}
