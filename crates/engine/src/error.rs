//! DataFusion's errors as Hypostyle's.

use crate::scan::POSITION;
use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use hypostyle_types::{Error, ErrorKind, did_you_mean};
use std::collections::HashSet;

/// The kind and message of an error that came up through DataFusion; one of our own comes back whole.
pub fn from_datafusion(error: DataFusionError) -> Error {
    let text = || error.strip_backtrace();
    let of = |kind| Error::new(kind, text());
    match &error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => inner_of(inner),
        DataFusionError::Shared(inner) => inner_of(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => inner_of(&errors[0]),
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(own) => own.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(nested) => inner_of(nested),
                None => of(ErrorKind::InvalidInput),
            },
        },
        DataFusionError::SQL(inner, _) => Error::new(ErrorKind::Syntax, syntax_message(&inner.to_string())),
        DataFusionError::SchemaError(inner, _) => schema_error(inner),
        DataFusionError::Plan(message) => plan_error(message),
        DataFusionError::NotImplemented(message) => Error::unsupported(format!("not supported: {message}")),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::IoError(inner) => Error::from_io(inner, "cannot read or write"),
        DataFusionError::Execution(_) | DataFusionError::ParquetError(_) => of(ErrorKind::InvalidInput),
        DataFusionError::ObjectStore(inner) => match inner.as_ref() {
            missing if missing.to_string().contains("not found") => of(ErrorKind::NotFound),
            _ => of(ErrorKind::Io),
        },
        DataFusionError::Configuration(_) => of(ErrorKind::InvalidInput),
        _ => of(ErrorKind::Internal),
    }
}

/// `from_datafusion` of an error that is only lent: the variants that matter are read by reference.
fn inner_of(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => inner_of(inner),
        DataFusionError::Shared(inner) => inner_of(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => inner_of(&errors[0]),
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(own) => own.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(nested) => inner_of(nested),
                None => Error::invalid_input(inner.to_string()),
            },
        },
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::SchemaError(inner, _) => schema_error(inner),
        DataFusionError::Plan(message) => plan_error(message),
        DataFusionError::NotImplemented(message) => Error::unsupported(format!("not supported: {message}")),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
        DataFusionError::SQL(inner, _) => Error::new(ErrorKind::Syntax, syntax_message(&inner.to_string())),
        DataFusionError::Internal(message) => Error::internal(message.clone()),
        other => Error::invalid_input(other.strip_backtrace()),
    }
}

/// So many of something, as in a sentence.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// That a statement has got another number of values than it has parameters.
pub(crate) fn wrong_parameters(statement: &str, parameters: usize, given: usize) -> Error {
    let were = if given == 1 { "was" } else { "were" };
    let (parameters, given) = (counted(parameters, "parameter"), counted(given, "value"));
    Error::invalid_input(format!("{statement} has {parameters}, but {given} {were} given"))
        .with_sqlstate("07001")
}

fn out_of_memory(message: &str) -> Error {
    let raise = if message.contains("query_memory_limit") { "" } else { "; raise memory_limit" };
    Error::new(ErrorKind::OutOfMemory, format!("{message}{raise} or make the query smaller"))
}

fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => {
            if let Some(own) = inner.downcast_ref::<Error>() {
                return own.clone();
            }
            if let Some(nested) = inner.downcast_ref::<DataFusionError>() {
                return inner_of(nested);
            }
            Error::invalid_input(inner.to_string())
        }
        ArrowError::DivideByZero => Error::invalid_input("division by zero").with_sqlstate("22012"),
        ArrowError::ArithmeticOverflow(message) => {
            Error::invalid_input(format!("overflow: {message}")).with_sqlstate("22003")
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => {
            Error::invalid_input(message.clone()).with_sqlstate("22018")
        }
        ArrowError::NotYetImplemented(message) => Error::unsupported(format!("not supported: {message}")),
        ArrowError::MemoryError(message) => Error::new(ErrorKind::OutOfMemory, message.clone()),
        ArrowError::IoError(message, _) => Error::new(ErrorKind::Io, message.clone()),
        other => Error::invalid_input(other.to_string()),
    }
}

fn syntax_message(message: &str) -> String {
    message
        .trim_start_matches("sql parser error: ")
        .trim_start_matches("ParserError(\"")
        .trim_end_matches("\")")
        .into()
}

fn schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            // What ORDER BY may name is both in the result and in the table.
            let mut seen = HashSet::new();
            let names = valid_fields.iter().map(|valid| valid.name.as_str());
            let names: Vec<&str> = names.filter(|name| *name != POSITION && seen.insert(*name)).collect();
            let suggestion = match did_you_mean(&field.name, names.iter().copied()) {
                empty if empty.is_empty() && !names.is_empty() && names.len() <= 20 => {
                    format!("; there are {}", names.join(", "))
                }
                found => found,
            };
            let table = match &field.relation {
                Some(relation) => format!(" in \"{}\"", relation.table()),
                None => String::new(),
            };
            Error::new(ErrorKind::UnknownName, format!("no column \"{}\"{table}{suggestion}", field.name))
                .with_sqlstate("42703")
        }
        other => Error::new(ErrorKind::Syntax, other.to_string()),
    }
}

fn plan_error(message: &str) -> Error {
    let unknown = ["not found", "Invalid function", "No table named", "does not exist"];
    let kind = if unknown.iter().any(|words| message.contains(words)) {
        ErrorKind::UnknownName
    } else {
        ErrorKind::Syntax
    };
    Error::new(kind, message)
}
