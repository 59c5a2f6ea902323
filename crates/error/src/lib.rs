//! Turns DataFusion's and Arrow's errors into Hypostyle's, with a kind, a SQLSTATE and a message.
//!
//! They are known by their kinds, and by what they were made from (`cause`). Some can be told apart only by
//! their texts; these are in `words` and nowhere else.

#![forbid(unsafe_code)]

mod cause;
pub mod column_name;
pub mod complexity;
mod culprit;
mod full_disk;
pub mod message;
pub mod missing_table;
mod saying;
pub mod type_name;
mod words;

use crate::column_name::unmarked_name;
use crate::complexity::{NESTED_TOO_DEEPLY, too_complex};
use crate::culprit::Unknown;
use crate::full_disk::full_disk;
use crate::message::plain;
use crate::missing_table::MissingTable;
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use datafusion_common::{Column, SchemaError, Span};
use hypostyle_types::{Error, ErrorKind, did_you_mean};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Span as Place;
use std::io;

pub use crate::words::{bad_pattern, with_nearest_function, with_pattern};

/// Returns an error of our own on its way through DataFusion.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the kind and message of an error that came up through DataFusion; one of our own comes
/// back whole.
pub fn from_datafusion(error: DataFusionError) -> Error {
    let told = of_datafusion(&error);
    // What our own errors say has the SQLSTATE that they were made with, whatever they quote.
    if cause::own(&error).is_some() { told } else { words::with_state(told) }
}

fn of_datafusion(error: &DataFusionError) -> Error {
    let of = |kind| Error::new(kind, plain(&error.strip_backtrace()));
    if let Some(full) = full_disk(error) {
        return full;
    }
    match error {
        DataFusionError::Context(_, inner) => of_datafusion(inner),
        DataFusionError::Diagnostic(diagnostic, inner) => with_place(of_datafusion(inner), diagnostic.span),
        DataFusionError::Shared(inner) => of_datafusion(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => of_datafusion(&errors[0]),
        DataFusionError::External(inner) => external_error(inner.as_ref()),
        DataFusionError::SQL(inner, _) if matches!(**inner, ParserError::RecursionLimitExceeded) => {
            too_complex(NESTED_TOO_DEEPLY)
        }
        DataFusionError::SQL(inner, _) => words::syntax_error(&inner.to_string()),
        DataFusionError::SchemaError(inner, _) => schema_error(inner),
        DataFusionError::Plan(message) => words::plan_error(message),
        DataFusionError::NotImplemented(message) => words::not_implemented(message),
        DataFusionError::ResourcesExhausted(message) => words::out_of_memory(message),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::IoError(inner) => {
            own_or_panic(error).unwrap_or_else(|| Error::from_io(inner, "cannot read or write"))
        }
        DataFusionError::Execution(message) => words::execution_error(message),
        DataFusionError::ParquetError(_) => {
            own_or_panic(error).unwrap_or_else(|| of(ErrorKind::InvalidInput))
        }
        DataFusionError::Configuration(_) => of(ErrorKind::InvalidInput),
        DataFusionError::ExecutionJoin(_) => {
            cause::panicked(error).unwrap_or_else(|| of(ErrorKind::Internal))
        }
        DataFusionError::ObjectStore(_) => store_error(error),
        DataFusionError::Internal(message) => words::internal_error(message),
        _ => of(ErrorKind::Internal),
    }
}

fn external_error(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    if let Some(own) = error.downcast_ref::<Error>() {
        return own.clone();
    }
    if let Some(nested) = error.downcast_ref::<DataFusionError>() {
        return of_datafusion(nested);
    }
    if let Some(missing) = error.downcast_ref::<MissingTable>() {
        return missing.error();
    }
    cause::panicked(error).unwrap_or_else(|| Error::invalid_input(plain(&error.to_string())))
}

/// Returns the error of ours that one was made from, or that of a task that has panicked.
fn own_or_panic(error: &DataFusionError) -> Option<Error> {
    cause::own(error).cloned().or_else(|| cause::panicked(error))
}

/// Returns the error of a store of files, which is one of a file or of the task that used it.
fn store_error(error: &DataFusionError) -> Error {
    if let Some(known) = own_or_panic(error) {
        return known;
    }
    let of_file: Option<&io::Error> = cause::find(error);
    let kind = match of_file.is_some_and(|error| error.kind() == io::ErrorKind::NotFound) {
        true => ErrorKind::NotFound,
        false => ErrorKind::Io,
    };
    Error::new(kind, plain(&error.strip_backtrace()))
}

/// Returns a number of things, as in a sentence.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the error that a statement has got another number of values than it has parameters.
pub fn wrong_parameters(statement: &str, parameters: usize, given: usize) -> Error {
    let were = if given == 1 { "was" } else { "were" };
    let (parameters, given) = (counted(parameters, "parameter"), counted(given, "value"));
    Error::invalid_input(format!("{statement} has {parameters}, but {given} {were} given"))
        .with_sqlstate("07001")
}

fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => {
            if let Some(own) = inner.downcast_ref::<Error>() {
                return own.clone();
            }
            if let Some(nested) = inner.downcast_ref::<DataFusionError>() {
                return of_datafusion(nested);
            }
            Error::invalid_input(inner.to_string())
        }
        ArrowError::DivideByZero => Error::invalid_input("division by zero").with_sqlstate("22012"),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => words::cast_error(message),
        ArrowError::NotYetImplemented(message) => Error::unsupported(format!("not supported: {message}")),
        ArrowError::MemoryError(message) => Error::new(ErrorKind::OutOfMemory, message.clone()),
        ArrowError::IoError(message, inner) => match cause::own(inner) {
            Some(own) => own.clone(),
            None => Error::new(ErrorKind::Io, message.clone()),
        },
        other => words::kernel_error(other),
    }
}

/// Returns the error at a place, unless its place is known.
fn with_place(error: Error, span: Option<Span>) -> Error {
    let Some(span) = span.filter(|_| error.position().is_none()) else { return error };
    let mut mark = error.mark().cloned().unwrap_or_default();
    mark.line_and_column = mark.line_and_column.or(Some((span.start.line, span.start.column)));
    error.marked(mark)
}

fn schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let table = field.relation.as_ref().map(|table| table.table());
            unknown_column(&Unknown::new(&field.name, table, field.spans().first(), valid_fields.clone()))
        }
        SchemaError::AmbiguousReference { field } => {
            with_place(several_columns(unmarked_name(&field.name)), field.spans().first())
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => {
            let (table, name) = (unmarked_name(qualifier.table()), unmarked_name(name));
            let message = format!("column \"{name}\" of \"{table}\" is there twice; give one an alias");
            Error::new(ErrorKind::Syntax, message).with_sqlstate("42712").about(name)
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            let name = unmarked_name(name);
            let message = format!("column \"{name}\" is there twice; give one an alias");
            Error::new(ErrorKind::Syntax, message).with_sqlstate("42701").about(name)
        }
    }
}

/// Returns the error that a name means columns of several relations.
fn several_columns(name: &str) -> Error {
    let message = format!("column \"{name}\" is in several tables; write whose it is");
    Error::new(ErrorKind::Syntax, message).with_sqlstate("42702").about(name)
}

/// Returns the error that a name at a place means columns of several relations.
pub fn ambiguous_column(name: &str, place: Place) -> Error {
    placed(several_columns(name), place)
}

/// Returns the error that no column has the name at a place, or several have it but for capitals, where there
/// are others.
pub fn no_column(name: &str, table: Option<&str>, place: Place, known: Vec<Column>) -> Error {
    unknown_column(&Unknown::new(name, table, Span::try_from_sqlparser_span(place), known))
}

/// Returns an error at the place of what it is about, unless its place is known.
pub fn placed(error: Error, place: Place) -> Error {
    with_place(error, Span::try_from_sqlparser_span(place))
}

/// Returns what is told of the columns that there are.
fn suggestion(unknown: &Unknown, names: &[&str]) -> String {
    let there_are = |names: &[&str]| match names.is_empty() || names.len() > 20 {
        true => String::new(),
        false => {
            // A name may be empty.
            let shown = names.iter().map(|name| if name.is_empty() { "\"\"" } else { *name });
            format!("; there are {}", shown.collect::<Vec<_>>().join(", "))
        }
    };
    // Of a table that FROM does not name, a column of the same name is no help without its own table.
    let qualified = unknown.qualified();
    if !qualified.is_empty() {
        if unknown.table.as_deref().is_some_and(|table| names.contains(&table)) {
            return "; a column has that name, and no such field".into();
        }
        let is_same =
            |name: &&String| name.rsplit_once('.').is_some_and(|(_, column)| column == unknown.name);
        let mut same = qualified.iter().filter(is_same);
        return match (same.next(), same.next()) {
            (Some(only), None) => format!("; did you mean {only}?"),
            _ => there_are(&qualified.iter().map(String::as_str).collect::<Vec<_>>()),
        };
    }
    match did_you_mean(&unknown.name, names.iter().copied()) {
        empty if empty.is_empty() => there_are(names),
        found => found,
    }
}

/// Returns the error that a column is not there, or is one of several.
fn unknown_column(unknown: &Unknown) -> Error {
    let names = unknown.known(None);
    let is_one_of = |name: &&&str| **name != unmarked_name(name) && unmarked_name(name) == unknown.name;
    let alike = unknown.alike();
    let error = if names.iter().any(|name| is_one_of(&name)) {
        let message = format!(
            "column \"{}\" is one of several of that name; give them aliases that differ",
            unknown.name
        );
        Error::new(ErrorKind::Syntax, message).with_sqlstate("42702")
    } else if alike.len() > 1 {
        let alike: Vec<String> = alike.iter().map(|name| format!("\"{name}\"")).collect();
        let message =
            format!("column \"{}\" may be {}: write it in double quotes", unknown.name, alike.join(" or "));
        Error::new(ErrorKind::Syntax, message).with_sqlstate("42702")
    } else {
        let mut names: Vec<&str> = names.into_iter().map(unmarked_name).collect();
        names.dedup();
        let suggestion = suggestion(unknown, &names);
        let table = unknown.table.as_deref().map(unmarked_name);
        let table = table.map_or(String::new(), |table| format!(" in \"{table}\""));
        let message = format!("no column \"{}\"{table}{suggestion}", unknown.name);
        Error::new(ErrorKind::UnknownName, message).with_sqlstate("42703")
    };
    with_place(error.about(&unknown.name), unknown.span)
}
