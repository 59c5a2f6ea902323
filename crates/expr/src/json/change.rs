//! Functions that change JSON. What they leave is written as it was.

use super::call::{Call, Described, Gives, Kind, Texts};
use super::path::Step;
use super::text::{self, Kind as Of, elements, member, members, normal, normalised, quote, unquoted};
use crate::arguments::refused;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

const OF_TWO: &[Kind] = &[Kind::Json, Kind::Json];
const LAX_AT_PATH: &[Kind] = &[Kind::Json, Kind::Path, Kind::Json, Kind::Boolean, Kind::Text];
const AT_PATH: &[Kind] = &[Kind::Json, Kind::Path, Kind::Json, Kind::Boolean];
const STRIPPED: &[Kind] = &[Kind::Json, Kind::Boolean];

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["json_merge_patch", "json_patch"], OF_TWO, Gives::Json, |call| {
        let values = (0..call.args.len()).map(|place| call.json(place)).collect::<Result<Vec<_>>>()?;
        call.written(|row, out| {
            let Some(all) = values.iter().map(|of| of.get(row)).collect::<Option<Vec<_>>>() else {
                return Ok(false);
            };
            let mut all = all.into_iter();
            let first = all.next().unwrap_or("null").to_string();
            out.push_str(&all.fold(first, |of, patch| patched(Some(&of), patch, 0)));
            Ok(true)
        })
    })
    .more(),
    // The members that are null are left out, and the elements that are, if they are to be, too.
    Described::new(&["json_strip_nulls"], STRIPPED, Gives::Json, |call| stripped(call, str::to_string))
        .optional(1),
    Described::new(&["jsonb_strip_nulls"], STRIPPED, Gives::Json, |call| stripped(call, normalised))
        .optional(1),
    Described::new(&["jsonb_set"], AT_PATH, Gives::Json, |call| {
        changed(call, |old, new, is_wanted| match (old, is_wanted) {
            (None, false) => Change::Keep,
            _ => Change::Replace(new),
        })
    })
    .optional(1),
    Described::new(&["jsonb_set_lax"], LAX_AT_PATH, Gives::Json, set_lax).optional(2),
    Described::new(&["jsonb_insert"], AT_PATH, Gives::Json, |call| {
        changed(call, |old, new, is_behind| match old {
            None => Change::Replace(new),
            Some(_) => Change::Insert(new, is_behind),
        })
    })
    .optional(1),
    Described::new(
        &["json_delete_path", "jsonb_delete_path"],
        &[Kind::Json, Kind::Path],
        Gives::Json,
        |call| changed(call, |_, _, _| Change::Remove),
    ),
    Described::new(&["json_delete", "jsonb_delete"], &[Kind::Json, Kind::Path], Gives::Json, removed),
    Described::new(&["json_joined", "jsonb_concat"], OF_TWO, Gives::Json, |call| {
        let (first, second) = (call.json(0)?, call.json(1)?);
        call.written(|row, out| {
            let (Some(first), Some(second)) = (first.get(row), second.get(row)) else { return Ok(false) };
            let mut joined = String::new();
            join(first, second, &mut joined);
            normal(&joined, out);
            Ok(true)
        })
    }),
];

/// Objects within each other that are changed.
const DEPTH_MAX: usize = 512;

/// Writes an object of members; the name of each is in quotes.
pub(super) fn object<'a>(members: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>, out: &mut String) {
    out.push('{');
    for (place, (name, value)) in members.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push_str(&name);
        out.push(':');
        out.push_str(&value);
    }
    out.push('}');
}

pub(super) fn array<'a>(values: impl IntoIterator<Item = Cow<'a, str>>, out: &mut String) {
    out.push('[');
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push_str(&value);
    }
    out.push(']');
}

/// Merges a patch into a value (RFC 7396).
fn patched(of: Option<&str>, patch: &str, depth: usize) -> String {
    if text::kind(patch) != Some(Of::Object) || depth > DEPTH_MAX {
        return patch.trim().to_string();
    }
    let own: Vec<(&str, &str)> = of.map(|of| members(of).collect()).unwrap_or_default();
    let name_of = |name: &str| unquoted(name).into_owned();
    // Of members of the same name the last one counts.
    let changes: HashMap<String, &str> = members(patch).map(|(name, value)| (name_of(name), value)).collect();
    let known: HashSet<String> = own.iter().map(|(name, _)| name_of(name)).collect();
    let kept = own.iter().filter_map(|(name, value)| match changes.get(&name_of(name)).copied() {
        None => Some((Cow::Borrowed(*name), Cow::Borrowed(*value))),
        Some(change) if text::kind(change) == Some(Of::Null) => None,
        Some(change) => Some((Cow::Borrowed(*name), Cow::Owned(patched(Some(value), change, depth + 1)))),
    });
    let is_new =
        |(name, value): &(&str, &str)| text::kind(value) != Some(Of::Null) && !known.contains(&name_of(name));
    let new = members(patch).filter(is_new);
    let new = new.map(|(name, value)| (Cow::Borrowed(name), Cow::Owned(patched(None, value, depth + 1))));
    let mut out = String::new();
    object(kept.chain(new), &mut out);
    out
}

/// Returns what gives a truth of each row; a default where there is no such argument, and nothing for NULL.
fn flags(call: &Call<'_>, place: usize) -> Result<impl Fn(usize, bool) -> Option<bool>> {
    let values = match call.args.get(place) {
        Some(argument) => Some((cast(&argument.values, &DataType::Boolean)?, argument.is_one)),
        None => None,
    };
    Ok(move |row: usize, default: bool| {
        let Some((values, is_one)) = &values else { return Some(default) };
        let (values, at) = (values.as_boolean(), if *is_one { 0 } else { row });
        values.is_valid(at).then(|| values.value(at))
    })
}

fn stripped(call: &Call<'_>, written: fn(&str) -> String) -> Result<ArrayRef> {
    let (values, of_arrays) = (call.json(0)?, flags(call, 1)?);
    let mut left = String::new();
    call.written(|row, out| {
        let (Some(value), Some(of_arrays)) = (values.get(row), of_arrays(row, false)) else {
            return Ok(false);
        };
        left.clear();
        without_nulls(value.trim(), of_arrays, 0, &mut left);
        out.push_str(&written(&left));
        Ok(true)
    })
}

/// Leaves out the members that are null, and perhaps the elements of arrays.
fn without_nulls(of: &str, of_arrays: bool, depth: usize, out: &mut String) {
    let inner = |value: &str| {
        let mut inner = String::new();
        without_nulls(value, of_arrays, depth + 1, &mut inner);
        Cow::Owned(inner)
    };
    let is_some = |value: &str| text::kind(value) != Some(Of::Null);
    match text::kind(of) {
        _ if depth > DEPTH_MAX => out.push_str(of),
        Some(Of::Object) => {
            let kept = members(of).filter(|(_, value)| is_some(value));
            object(kept.map(|(name, value)| (Cow::Borrowed(name), inner(value))), out);
        }
        Some(Of::Array) => {
            array(elements(of).filter(|value| !of_arrays || is_some(value)).map(inner), out);
        }
        _ => out.push_str(of),
    }
}

/// What becomes of the value at a path.
enum Change<'a> {
    Keep,
    Replace(&'a str),
    /// Puts another element before it, or behind it.
    Insert(&'a str, bool),
    Remove,
}

/// Changes the value at a path: a list of names and places. The result is JSONB.
fn changed(
    call: &Call<'_>,
    change: impl for<'a> Fn(Option<&str>, &'a str, bool) -> Change<'a>,
) -> Result<ArrayRef> {
    let values = call.json(0)?;
    let new: Option<Texts> = (call.args.len() > 2).then(|| call.json(2)).transpose()?;
    let flags = call.args.get(3).map(|argument| cast(&argument.values, &DataType::Boolean)).transpose()?;
    let paths = steps(call)?;
    let is_default_set = call.name == "jsonb_set";
    call.written(|row, out| {
        let (Some(value), Some(path)) = (values.get(row), paths[call.args[1].at(row)].as_deref()) else {
            return Ok(false);
        };
        let new = match &new {
            Some(new) => match new.get(row) {
                Some(new) => new,
                None => return Ok(false),
            },
            None => "",
        };
        let flag = match (&flags, call.args.get(3)) {
            (Some(flags), Some(argument)) if flags.is_null(argument.at(row)) => return Ok(false),
            (Some(flags), Some(argument)) => flags.as_boolean().value(argument.at(row)),
            _ => is_default_set,
        };
        let mut text = String::new();
        at_path(value.trim(), path, &|old| change(old, new, flag), &mut text)?;
        normal(&text, out);
        Ok(true)
    })
}

/// [`changed`] as `jsonb_set` does it, where a new value that is NULL is null, takes the old one away, or is
/// what the last argument says.
fn set_lax(call: &Call<'_>) -> Result<ArrayRef> {
    let (values, new, paths) = (call.json(0)?, call.json(2)?, steps(call)?);
    let creates = flags(call, 3)?;
    let treatments = if call.args.len() > 4 { Some(call.texts(4)?) } else { None };
    call.written(|row, out| {
        let (Some(value), Some(path), Some(creates)) =
            (values.get(row), paths[call.args[1].at(row)].as_deref(), creates(row, true))
        else {
            return Ok(false);
        };
        let treatment = match &treatments {
            Some(treatments) => treatments.get(row).unwrap_or_default(),
            None => "use_json_null",
        };
        let replaced = |new: &str, out: &mut String| {
            let change = |old: Option<&str>| match (old, creates) {
                (None, false) => Change::Keep,
                _ => Change::Replace(new),
            };
            at_path(value.trim(), path, &change, out)
        };
        let mut text = String::new();
        match (new.get(row), treatment) {
            (Some(new), _) => replaced(new, &mut text)?,
            (None, "use_json_null") => replaced("null", &mut text)?,
            (None, "return_target") => text.push_str(value),
            (None, "delete_key") => at_path(value.trim(), path, &|_| Change::Remove, &mut text)?,
            (None, "raise_exception") => {
                let error = Error::invalid_input("JSON value must not be null").with_sqlstate("22004");
                return Err(external(error));
            }
            _ => {
                return Err(refused(
                    "jsonb_set_lax() ends in raise_exception, use_json_null, delete_key or return_target",
                ));
            }
        }
        normal(&text, out);
        Ok(true)
    })
}

/// Returns the steps of each path.
fn steps(call: &Call<'_>) -> Result<Vec<Option<Vec<String>>>> {
    let values = &call.args[1].values;
    if values.data_type().is_nested() {
        let lists = cast(values, &DataType::new_list(DataType::Utf8, true))?;
        let steps = |list: Option<ArrayRef>| -> Option<Vec<String>> {
            list?.as_string::<i32>().iter().map(|step| step.map(str::to_string)).collect()
        };
        return Ok(lists.as_list::<i32>().iter().map(steps).collect());
    }
    let steps = |text: Option<&str>| -> Option<Vec<String>> {
        super::path::of_list(text?)?
            .into_iter()
            .map(|step| match step {
                Step::Either(name) => Some(name),
                _ => None,
            })
            .collect()
    };
    let texts = call.texts(1)?;
    Ok(texts.values.iter().map(steps).collect())
}

fn at_path<'c>(
    value: &str,
    path: &[String],
    change: &dyn Fn(Option<&str>) -> Change<'c>,
    out: &mut String,
) -> Result<()> {
    let Some((step, rest)) = path.split_first() else {
        out.push_str(value);
        return Ok(());
    };
    match text::kind(value) {
        Some(Of::Object) => at_member(value, step, rest, change, out),
        Some(Of::Array) => at_element(value, step, rest, change, out),
        _ => {
            out.push_str(value);
            Ok(())
        }
    }
}

fn at_member<'c>(
    value: &str,
    step: &str,
    rest: &[String],
    change: &dyn Fn(Option<&str>) -> Change<'c>,
    out: &mut String,
) -> Result<()> {
    let old = member(value, step);
    let others = members(value).filter(|(name, _)| unquoted(name) != step);
    let others = others.map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)));
    let new = match (rest.is_empty(), old) {
        (false, None) => None,
        (false, Some(old)) => {
            let mut inner = String::new();
            at_path(old, rest, change, &mut inner)?;
            Some(Cow::Owned(inner))
        }
        (true, old) => match change(old) {
            Change::Keep => old.map(Cow::Borrowed),
            Change::Replace(new) => Some(Cow::Borrowed(new)),
            Change::Insert(..) => return Err(refused(format!("the object has a member \"{step}\" already"))),
            Change::Remove => None,
        },
    };
    let mut name = String::new();
    quote(step, &mut name);
    object(others.chain(new.map(|new| (Cow::Owned(name), new))), out);
    Ok(())
}

fn at_element<'c>(
    value: &str,
    step: &str,
    rest: &[String],
    change: &dyn Fn(Option<&str>) -> Change<'c>,
    out: &mut String,
) -> Result<()> {
    let mut all: Vec<Cow<'_, str>> = elements(value).map(Cow::Borrowed).collect();
    let wanted = step
        .trim()
        .parse::<i64>()
        .map_err(|_| refused(format!("'{step}' is no place in a JSON array; write a number")))?;
    let length = all.len() as i64;
    let place = if wanted < 0 { wanted.saturating_add(length) } else { wanted };
    let found = usize::try_from(place).ok().filter(|place| *place < all.len());
    match (found, rest.is_empty()) {
        (Some(place), false) => {
            let mut inner = String::new();
            at_path(&all[place], rest, change, &mut inner)?;
            all[place] = Cow::Owned(inner);
        }
        (Some(place), true) => match change(Some(&all[place])) {
            Change::Keep => {}
            Change::Replace(new) => all[place] = Cow::Borrowed(new),
            Change::Insert(new, is_behind) => all.insert(place + usize::from(is_behind), Cow::Borrowed(new)),
            Change::Remove => _ = all.remove(place),
        },
        (None, true) => {
            if let Change::Replace(new) = change(None) {
                all.insert(if place < 0 { 0 } else { all.len() }, Cow::Borrowed(new));
            }
        }
        (None, false) => {}
    }
    array(all, out);
    Ok(())
}

/// Leaves out members, or texts, of names, or the element at a place.
fn removed(call: &Call<'_>) -> Result<ArrayRef> {
    let values = call.json(0)?;
    let argument = &call.args[1];
    let of = argument.values.data_type();
    if of.is_integer() {
        let places = argument.values.as_primitive::<arrow::datatypes::Int64Type>().clone();
        return call.written(|row, out| {
            let (Some(value), at) = (values.get(row), argument.at(row)) else { return Ok(false) };
            if places.is_null(at) {
                return Ok(false);
            }
            if text::kind(value) != Some(Of::Array) {
                return Err(refused("an element is removed by its place from a JSON array"));
            }
            let mut text = String::new();
            at_path(value.trim(), &[places.value(at).to_string()], &|_| Change::Remove, &mut text)?;
            normal(&text, out);
            Ok(true)
        });
    }
    let names: Vec<Option<Vec<String>>> = match of.is_nested() {
        true => steps(call)?,
        false => call.texts(1)?.values.iter().map(|name| Some(vec![name?.to_string()])).collect(),
    };
    call.written(|row, out| {
        let (Some(value), Some(names)) = (values.get(row), &names[argument.at(row)]) else {
            return Ok(false);
        };
        let has = |text: &str| names.iter().any(|name| unquoted(text) == name.as_str());
        let mut text = String::new();
        match text::kind(value) {
            Some(Of::Object) => {
                let kept = members(value).filter(|(name, _)| !has(name));
                object(kept.map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))), &mut text);
            }
            Some(Of::Array) => {
                let is_kept = |value: &&str| text::kind(value) != Some(Of::Text) || !has(value);
                array(elements(value).filter(is_kept).map(Cow::Borrowed), &mut text);
            }
            _ => return Err(refused("members are removed from a JSON object or array")),
        }
        normal(&text, out);
        Ok(true)
    })
}

/// Joins two objects, or two arrays, or what becomes arrays of one element.
fn join(first: &str, second: &str, out: &mut String) {
    let own = |(name, value): (&'_ str, &'_ str)| (name.to_string(), value.to_string());
    match (text::kind(first), text::kind(second)) {
        (Some(Of::Object), Some(Of::Object)) => {
            let all = members(first).chain(members(second)).map(own);
            object(all.map(|(name, value)| (Cow::Owned(name), Cow::Owned(value))), out);
        }
        (one, other) => {
            let parts = |text: &str, of: Option<Of>| -> Vec<Cow<'static, str>> {
                match of {
                    Some(Of::Array) => elements(text).map(|value| Cow::Owned(value.to_string())).collect(),
                    _ => vec![Cow::Owned(text.to_string())],
                }
            };
            array(parts(first, one).into_iter().chain(parts(second, other)), out);
        }
    }
}
