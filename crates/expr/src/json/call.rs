//! Calls of the functions of JSON: how a function is written down, and its arguments.

use super::path::{self, Step};
use crate::arguments::{ArgumentKind, Common};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, LargeStringArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::{LogicalType, check_json_text};
use std::sync::Arc;

/// What an argument has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    /// A value of type JSON, or its text.
    Json,
    Text,
    /// A name, a place, a path, or a list of these.
    Path,
    Boolean,
}

impl ArgumentKind for Kind {
    const ANY: Self = Self::Any;

    fn coerced(self, of: &DataType) -> Option<DataType> {
        // Texts keep their types, by which their fields keep what they say of them.
        let as_one = |kind: Common| kind.coerced(of, None);
        match self {
            Self::Any => as_one(Common::Any),
            Self::Json | Self::Text => as_one(Common::Text),
            Self::Path => [Common::Text, Common::Integer, Common::List].into_iter().find_map(as_one),
            Self::Boolean => as_one(Common::Boolean),
        }
    }

    fn described(self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Json => "JSON",
            Self::Text => "a text",
            Self::Path => "a path",
            Self::Boolean => "a boolean",
        }
    }
}

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    Json,
    Jsons,
    Text,
    Texts,
    Integer,
    Double,
    Boolean,
    /// JSON; a list of it where the path, which is the second argument, is a list or has wildcards.
    JsonAtPath,
    /// The same as text.
    TextAtPath,
}

/// A function as it is written down.
pub(super) type Described = crate::described::Described<Kind, Gives, fn(&Call<'_>) -> Result<ArrayRef>>;

/// An argument of a call: one value for all rows, or one for each.
pub(super) struct Argument {
    pub(super) values: ArrayRef,
    pub(super) field: FieldRef,
    pub(super) is_one: bool,
}

impl Argument {
    pub(super) fn at(&self, row: usize) -> usize {
        if self.is_one { 0 } else { row }
    }
}

/// The arguments of a function, and the number of its rows.
pub(super) struct Call<'a> {
    pub(super) name: &'static str,
    pub(super) args: &'a [Argument],
    pub(super) rows: usize,
    pub(super) gives: &'a Field,
    /// The session's time zone.
    pub(super) zone: &'a str,
}

/// The texts of an argument.
pub(super) struct Texts {
    pub(super) values: StringViewArray,
    pub(super) is_one: bool,
}

impl Texts {
    pub(super) fn get(&self, row: usize) -> Option<&str> {
        let at = if self.is_one { 0 } else { row };
        self.values.is_valid(at).then(|| self.values.value(at))
    }
}

impl Call<'_> {
    pub(super) fn texts(&self, place: usize) -> Result<Texts> {
        let argument = &self.args[place];
        let values = cast(&argument.values, &DataType::Utf8View)?;
        Ok(Texts { values: values.as_string_view().clone(), is_one: argument.is_one })
    }

    /// Returns texts that are JSON.
    pub(super) fn json(&self, place: usize) -> Result<Texts> {
        let texts = self.texts(place)?;
        if !is_json(&self.args[place].field) {
            texts.values.iter().flatten().try_for_each(check_json_text).map_err(external)?;
        }
        Ok(texts)
    }

    /// Returns JSON, or NULL, of each row.
    pub(super) fn written(
        &self,
        mut write: impl FnMut(usize, &mut String) -> Result<bool>,
    ) -> Result<ArrayRef> {
        let mut text = String::new();
        let texts = (0..self.rows).map(|row| {
            text.clear();
            Ok(write(row, &mut text)?.then(|| text.clone()))
        });
        Ok(Arc::new(texts.collect::<Result<LargeStringArray>>()?))
    }

    /// Returns paths that are read as DuckDB's.
    pub(super) fn paths(&self, place: usize) -> Result<Paths> {
        let argument = &self.args[place];
        let of = argument.values.data_type();
        let paths = match of {
            of if of.is_string() || of.is_null() => {
                let texts = cast(&argument.values, &DataType::Utf8View)?;
                let read = |text: Option<&str>| text.map(path::read).transpose().map_err(external);
                texts.as_string_view().iter().map(read).collect::<Result<_>>()?
            }
            _ => {
                let places = cast(&argument.values, &DataType::Int64)?;
                let step = |place: i64| vec![Step::Place(place)];
                places.as_primitive::<Int64Type>().iter().map(|place| place.map(step)).collect()
            }
        };
        Ok(Paths { paths, is_one: argument.is_one })
    }
}

/// The paths of an argument.
pub(super) struct Paths {
    pub(super) paths: Vec<Option<Vec<Step>>>,
    pub(super) is_one: bool,
}

impl Paths {
    pub(super) fn get(&self, row: usize) -> Option<&[Step]> {
        self.paths.get(if self.is_one { 0 } else { row })?.as_deref()
    }
}

/// Says whether a field is of type JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    !field.metadata().is_empty() && LogicalType::from_arrow(field).is_ok_and(|of| of == LogicalType::Json)
}

/// Returns a field of type JSON.
pub(crate) fn json_field(name: &str) -> Field {
    LogicalType::Json.arrow_field(name, true)
}

/// Returns numbers of rows.
pub(super) fn integers(values: impl Iterator<Item = Result<Option<i64>>>) -> Result<ArrayRef> {
    Ok(Arc::new(values.collect::<Result<Int64Array>>()?))
}
