//! Turns DataFusion's and Arrow's errors into Hypostyle's, with a kind, a SQLSTATE and a message.
//!
//! Some errors of other libraries can be told apart only by their messages. The phrases that
//! identify them are here and nowhere else.

#![forbid(unsafe_code)]

pub mod column_name;
pub mod complexity;
pub mod culprit;
mod full_disk;
pub mod message;
pub mod missing_table;
mod state;
pub mod type_name;

use crate::column_name::{unmarked_name, unmarked_text};
use crate::complexity::{NESTED_TOO_DEEPLY, too_complex};
use crate::culprit::{Culprit, Unknown, culprit};
use crate::full_disk::full_disk;
use crate::message::{is_of_types, plain};
use crate::missing_table::MissingTable;
use crate::type_name::type_name;
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use datafusion_common::{SchemaError, Span};
use hypostyle_types::{Error, ErrorKind, Mark, did_you_mean, nearest};
use sqlparser::parser::ParserError;

/// The setting that bounds them.
pub const LIMIT_NAME: &str = "temp_directory_limit";

/// The message of DataFusion about a window function where none is allowed, such as in WHERE.
const OF_WINDOW: &str = "does not support logical expression WindowFunction";

/// The message of DataFusion about an alias that names another number of columns than there are.
const OF_ALIASES: &str = "names given as column alias";

/// The messages of DataFusion about a function that there is not, up to its name, and up to another one.
const OF_FUNCTION: &str = "Invalid function '";
const SUGGESTED: &str = "\nDid you mean '";

/// Returns an error of our own on its way through DataFusion.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the kind and message of an error that came up through DataFusion; one of our own comes
/// back whole.
pub fn from_datafusion(error: DataFusionError) -> Error {
    state::with_state(of_datafusion(&error))
}

fn of_datafusion(error: &DataFusionError) -> Error {
    let of = |kind| Error::new(kind, plain(&error.strip_backtrace()));
    if let Some(full) = full_disk(error) {
        return full;
    }
    match error {
        DataFusionError::Context(_, inner) => of_datafusion(inner),
        DataFusionError::Diagnostic(diagnostic, inner) => at(of_datafusion(inner), diagnostic.span),
        DataFusionError::Shared(inner) => of_datafusion(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => of_datafusion(&errors[0]),
        DataFusionError::External(inner) => external_error(inner.as_ref()),
        DataFusionError::SQL(inner, _) if matches!(**inner, ParserError::RecursionLimitExceeded) => {
            too_complex(NESTED_TOO_DEEPLY)
        }
        DataFusionError::SQL(inner, _) => syntax_error(&inner.to_string()),
        DataFusionError::SchemaError(inner, _) => schema_error(inner, error),
        DataFusionError::Plan(message) => plan_error(message),
        DataFusionError::NotImplemented(message) if message.contains(OF_WINDOW) => {
            let message =
                "a window function cannot be here; filter by it with QUALIFY, or in a query around it";
            Error::new(ErrorKind::Syntax, message).with_sqlstate("42P20")
        }
        DataFusionError::NotImplemented(message) if message.starts_with(state::OF_TYPE) => {
            let name = message.trim_start_matches(state::OF_TYPE).trim();
            Error::new(ErrorKind::UnknownName, format!("no type {name}")).with_sqlstate("42704")
        }
        DataFusionError::NotImplemented(message) => not_implemented(message),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::IoError(inner) => Error::from_io(inner, "cannot read or write"),
        DataFusionError::Execution(message) => execution_error(message),
        DataFusionError::ParquetError(inner) => match own_within(inner.as_ref()) {
            Some(own) => own.clone(),
            None => of(ErrorKind::InvalidInput),
        },
        DataFusionError::Configuration(_) => of(ErrorKind::InvalidInput),
        DataFusionError::ExecutionJoin(inner) => {
            panic_of(&inner.to_string()).unwrap_or_else(|| of(ErrorKind::Internal))
        }
        DataFusionError::ObjectStore(inner) => match inner.as_ref() {
            missing if missing.to_string().contains("not found") => of(ErrorKind::NotFound),
            other => panic_of(&other.to_string()).unwrap_or_else(|| of(ErrorKind::Io)),
        },
        DataFusionError::Internal(message) => internal_error(message),
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
    let said = error.to_string();
    panic_of(&said).unwrap_or_else(|| Error::invalid_input(plain(&said)))
}

/// Returns an error of our own that another library's error has as its cause.
fn own_within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(own) = found.downcast_ref() {
            return Some(own);
        }
        cause = found.source();
    }
    None
}

/// Returns the error for a task that has panicked, of which tokio tells the number.
fn panic_of(text: &str) -> Option<Error> {
    let (_, task) = text.split_once("task ")?;
    let (number, what) = task.split_once(" panicked")?;
    let is_told = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_told.then(|| Error::internal(format!("the query panicked{what}; please report it")))
}

/// Says whether planning failed for what a statement says.
pub fn is_about_the_text(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::Diagnostic(..) | DataFusionError::SchemaError(..) | DataFusionError::Plan(_) => true,
        DataFusionError::Context(_, inner) => is_about_the_text(inner),
        DataFusionError::Shared(inner) => is_about_the_text(inner),
        DataFusionError::Collection(errors) => errors.first().is_some_and(is_about_the_text),
        _ => false,
    }
}

/// Says whether DataFusion may have refused a plan for the names that a statement gives: because two
/// expressions have one, or an alias has too few. Most of these errors have no kind of their own.
pub fn may_be_of_names(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(inner, _) => matches!(
            inner.as_ref(),
            SchemaError::DuplicateUnqualifiedField { .. } | SchemaError::DuplicateQualifiedField { .. }
        ),
        DataFusionError::Plan(_) => true,
        _ => false,
    }
}

/// What DataFusion says of aggregates in WHERE, of whichever query they are.
const IN_WHERE: &str = "Aggregate functions are not allowed in the WHERE clause";

fn says_of_groups(message: &str) -> bool {
    ["must be in GROUP BY", "must appear in the GROUP BY"].iter().any(|words| message.contains(words))
}

/// Has an error of a function that there is not tell the nearest of those that there are. DataFusion takes
/// the first of equally near ones, and keeps them in hash maps: each session would tell another one.
pub fn with_nearest_function<'a>(
    error: DataFusionError,
    known: impl Iterator<Item = &'a str>,
) -> DataFusionError {
    match error {
        DataFusionError::Context(context, inner) => {
            DataFusionError::Context(context, Box::new(with_nearest_function(*inner, known)))
        }
        DataFusionError::Diagnostic(diagnostic, inner) => {
            DataFusionError::Diagnostic(diagnostic, Box::new(with_nearest_function(*inner, known)))
        }
        DataFusionError::Plan(message) => DataFusionError::Plan(match between(&message, OF_FUNCTION, "'") {
            Some(name) => {
                let suggestion =
                    nearest(name, known).map_or(String::new(), |near| format!("{SUGGESTED}{near}'?"));
                format!("{OF_FUNCTION}{name}'.{suggestion}")
            }
            None => message,
        }),
        other => other,
    }
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
                return of_datafusion(nested);
            }
            Error::invalid_input(inner.to_string())
        }
        ArrowError::DivideByZero => Error::invalid_input("division by zero").with_sqlstate("22012"),
        ArrowError::ArithmeticOverflow(message) => {
            let of = message.trim_start_matches("Overflow happened on: ");
            Error::invalid_input(format!("overflow: {of}")).with_sqlstate("22003")
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => cast_error(message),
        // This error is about decimals with more digits than their type has.
        ArrowError::InvalidArgumentError(message) if message.contains(" to store in a Decimal") => {
            Error::invalid_input(state::of_digits(message)).with_sqlstate("22003")
        }
        ArrowError::ComputeError(message) if message.starts_with("Regular expression did not compile") => {
            bad_pattern(message)
        }
        ArrowError::ComputeError(message) | ArrowError::InvalidArgumentError(message) => {
            Error::invalid_input(message.clone())
        }
        ArrowError::NotYetImplemented(message) => Error::unsupported(format!("not supported: {message}")),
        ArrowError::MemoryError(message) => Error::new(ErrorKind::OutOfMemory, message.clone()),
        ArrowError::IoError(message, _) => Error::new(ErrorKind::Io, message.clone()),
        other => Error::invalid_input(other.to_string()),
    }
}

/// Returns the error (2201B) of a regular expression, by what the library says of it: several lines,
/// of which one is the pattern and the last says what is wrong.
pub fn bad_pattern(said: &str) -> Error {
    let said = said.replace("\\n", "\n");
    let line_behind = |mark: &str| said.rsplit_once(mark).and_then(|(_, rest)| rest.lines().next());
    let why = line_behind("error: ").unwrap_or("it is too large when it is compiled");
    let message = match said.split_once("regex parse error:\n").and_then(|(_, rest)| rest.lines().next()) {
        Some(pattern) => format!("'{}' is no regular expression: {why}", pattern.trim()),
        None => format!("a text is no regular expression: {why}"),
    };
    Error::invalid_input(message).with_sqlstate("2201B")
}

/// Returns the error at a place, unless its place is known.
fn at(error: Error, span: Option<Span>) -> Error {
    let Some(span) = span.filter(|_| error.position().is_none()) else { return error };
    let mut mark = error.mark().cloned().unwrap_or_default();
    mark.line_and_column = mark.line_and_column.or(Some((span.start.line, span.start.column)));
    error.marked(mark)
}

/// Returns the place that a part of a syntax tree has, where a message shows one.
fn place_in(message: &str) -> Option<(u64, u64)> {
    let (line, column) = between(message, "Location(", ")")?.split_once(',')?;
    Some((line.trim().parse().ok()?, column.trim().parse().ok()?)).filter(|(line, _)| *line > 0)
}

/// Returns what the parser expected, and where it found something else.
fn syntax_error(message: &str) -> Error {
    let message = message
        .trim_start_matches("sql parser error: ")
        .trim_start_matches("ParserError(\"")
        .trim_end_matches("\")");
    let (message, place) = match message.rsplit_once(" at Line: ") {
        Some((before, place)) => {
            let place = place.split_once(", Column: ");
            let place =
                place.and_then(|(line, column)| Some((line.parse().ok()?, column.trim().parse().ok()?)));
            (before, place)
        }
        None => (message, None),
    };
    let found = message.rsplit_once("found: ").map(|(_, found)| found);
    let word = match found {
        Some("EOF") => Some(String::new()),
        found => found.map(str::to_string),
    };
    let message = match message.strip_suffix("found: EOF") {
        Some(expected) => format!("{expected}found: the end"),
        None => message.to_string(),
    };
    Error::new(ErrorKind::Syntax, plain(&message)).marked(Mark { word, line_and_column: place })
}

/// Returns what users do wrong and DataFusion takes for mistakes of its own.
fn internal_error(message: &str) -> Error {
    const OF_TYPES: [&str; 4] =
        ["Failed to coerce", "Cannot coerce", "coerce types", "Unsupported data type"];
    const OF_UNNEST: &str = "unnest on struct can only be applied at the root level";
    const OF_VALUES: [&str; 3] = ["invalid stride", "got invalid", "must be"];
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if let Some(error) = of_other_types(message) {
        return error;
    }
    match message {
        _ if message.contains(OF_UNNEST) => Error::unsupported(
            "UNNEST of a structure stands by itself in a SELECT list, not within another expression; unnest the \
             list in a subquery in FROM",
        ),
        _ if has(&OF_TYPES) => Error::new(ErrorKind::Syntax, plain(message)).with_sqlstate("42804"),
        _ if has(&OF_VALUES) => Error::invalid_input(plain(message)),
        _ => Error::internal(plain(message)),
    }
}

fn schema_error(error: &SchemaError, whole: &DataFusionError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, .. } => match culprit(whole) {
            Some(Culprit::Unknown(unknown)) => unknown_column(&unknown),
            _ => Error::new(ErrorKind::UnknownName, format!("no column \"{}\"", unmarked_name(&field.name))),
        },
        SchemaError::AmbiguousReference { field } => {
            let name = unmarked_name(&field.name);
            let message = format!("column \"{name}\" is in several tables; write whose it is");
            let error = Error::new(ErrorKind::Syntax, message).with_sqlstate("42702");
            at(error.about(name), field.spans().first())
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
        let suggestion = match did_you_mean(&unknown.name, names.iter().copied()) {
            empty if empty.is_empty() && !names.is_empty() && names.len() <= 20 => {
                format!("; there are {}", names.join(", "))
            }
            found => found,
        };
        let table = unknown.table.as_deref().map(unmarked_name);
        let table = table.map_or(String::new(), |table| format!(" in \"{table}\""));
        let message = format!("no column \"{}\"{table}{suggestion}", unknown.name);
        Error::new(ErrorKind::UnknownName, message).with_sqlstate("42703")
    };
    at(error.about(&unknown.name), unknown.span)
}

/// Returns what stands between two texts.
fn between<'a>(message: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(message.split_once(before)?.1.split_once(after)?.0)
}

/// Returns the SQL name of a type that Arrow has displayed.
fn shown_type(shown: &str) -> String {
    shown.parse().map_or_else(|_| shown.to_string(), |data_type| type_name(&data_type))
}

/// Returns the error of what DataFusion lacks: of a cast, that there is none.
fn not_implemented(message: &str) -> Error {
    if let Some((from, to)) =
        message.strip_prefix("Unsupported CAST from ").and_then(|types| types.rsplit_once(" to "))
    {
        let message = format!("cannot cast {} to {}", shown_type(from), shown_type(to));
        return Error::invalid_input(message).with_sqlstate("42846");
    }
    let place = Mark { word: None, line_and_column: place_in(message) };
    let message = plain(message);
    let told = match message.strip_prefix("Unsupported SQL statement: ") {
        Some(statement) => format!("{statement} is not supported"),
        None => format!("not supported: {message}"),
    };
    Error::unsupported(told).marked(place)
}

fn cast_error(message: &str) -> Error {
    let of = |message: String, sqlstate| Error::invalid_input(message).with_sqlstate(sqlstate);
    if let Some((value, shown)) =
        message.strip_prefix("Can't cast value ").and_then(|rest| rest.split_once(" to type "))
    {
        return of(format!("{value} is out of range of {}", shown_type(shown)), "22003");
    }
    if let Some((text, shown)) = ["Cannot cast string '", "Cannot cast value '"]
        .iter()
        .find_map(|beginning| message.strip_prefix(beginning)?.rsplit_once("' to value of "))
    {
        let shown = shown_type(shown.trim_end_matches(" type"));
        return match text.trim().parse::<i128>() {
            Ok(_) if shown != "BOOLEAN" => of(format!("{text} is out of range of {shown}"), "22003"),
            _ => of(format!("'{text}' is not of type {shown}"), "22P02"),
        };
    }
    // What it names is a DECIMAL's digits without the point.
    if let Some((shown, _)) =
        message.strip_prefix("Cannot cast to ").and_then(|rest| rest.split_once(". Overflowing on "))
    {
        return of(format!("a number is out of range of {}", shown_type(shown)), "22003");
    }
    if let Some((value, shown)) =
        message.strip_prefix("value of ").and_then(|rest| rest.split_once(" is out of range "))
    {
        return of(format!("{value} is out of range of {}", shown_type(shown)), "22003");
    }
    let is_of_time = ["Error parsing timestamp", "Invalid input syntax for type interval"];
    let sqlstate =
        if is_of_time.iter().any(|beginning| message.starts_with(beginning)) { "22007" } else { "22018" };
    of(plain(message), sqlstate)
}

fn execution_error(message: &str) -> Error {
    if message.contains("Scalar subquery returned more than one row") {
        let message = "a subquery that stands for one value gives more than one row";
        return Error::invalid_input(message).with_sqlstate("21000");
    }
    if message.starts_with("Cannot access field at argument ")
        && let Some(shown) = between(message, ": type ", " is not Struct")
    {
        let message = format!("values of type {} have no fields", shown_type(shown));
        return Error::new(ErrorKind::Syntax, message).with_sqlstate("42809");
    }
    if message.contains("cannot take square root of a negative number") {
        return Error::invalid_input(plain(message)).with_sqlstate("2201F");
    }
    Error::invalid_input(plain(message))
}

/// Returns the error that a function does not take the types of its arguments, where DataFusion finds that
/// out in a plan, as in keys of windows and of ORDER BY.
fn of_other_types(message: &str) -> Option<Error> {
    const SAID: [&str; 3] = [" failed to match any signature", " requires ", " expects "];
    let (name, said) = match message.strip_prefix("Failed to coerce arguments to satisfy a call to '") {
        Some(rest) => (rest.split_once('\'')?.0, true),
        None => {
            let (name, rest) = message.strip_prefix("Function '")?.split_once('\'')?;
            (name, SAID.iter().any(|said| rest.starts_with(said)))
        }
    };
    let taken = between(message, "but received ", " (DataType").map(plain);
    let told = match taken {
        Some(types) => format!("no function {name}() takes {types}"),
        None => format!("no function {name}() takes arguments of these types"),
    };
    said.then(|| Error::new(ErrorKind::Syntax, told).with_sqlstate("42883").about(name))
}

/// Returns the error that no function has the name, or takes the types.
fn function_error(message: &str) -> Option<Error> {
    let of = |kind, message: String| Some(Error::new(kind, message).with_sqlstate("42883"));
    if let Some(name) = between(message, OF_FUNCTION, "'") {
        if state::WINDOW_FUNCTIONS.contains(&name.to_ascii_lowercase().as_str()) {
            let message = format!("\"{name}\" is a window function: write {name}(…) OVER (…)");
            let error = Error::new(ErrorKind::Syntax, message).with_sqlstate("42809");
            return Some(error.about(name));
        }
        // DataFusion always suggests a name, however different it is.
        let suggestion = did_you_mean(name, between(message, SUGGESTED, "'"));
        return of(ErrorKind::UnknownName, format!("no function \"{name}\"{suggestion}"))
            .map(|error| error.about(name));
    }
    let call = between(message, "No function matches the given name and argument types '", "'. You might")?;
    let (name, types) = call.strip_suffix(')')?.split_once('(')?;
    let types = plain(types);
    let candidates = message.split_once("Candidate functions:").map_or("", |(_, candidates)| candidates);
    let candidates: Vec<&str> =
        candidates.lines().map(str::trim).filter(|one| !one.is_empty() && is_of_types(one)).collect();
    let candidates = match candidates.is_empty() {
        true => String::new(),
        false => format!("; there are {}", plain(&candidates.join(", "))),
    };
    of(ErrorKind::Syntax, format!("no function {name}({types}){candidates}")).map(|error| error.about(name))
}

fn plan_error(message: &str) -> Error {
    if let Some(error) = function_error(message).or_else(|| of_other_types(message)) {
        return error;
    }
    if message.contains(IN_WHERE) {
        let message =
            "aggregates are not allowed in WHERE; write HAVING, or compute them in a subquery in FROM";
        return Error::new(ErrorKind::Syntax, message).with_sqlstate("42803");
    }
    if message.contains(OF_ALIASES)
        && let Some(columns) = between(message, "contains ", " columns").and_then(|count| count.parse().ok())
        && let Some(names) = between(message, "but only ", " names").and_then(|count| count.parse().ok())
    {
        let (columns, names) = (counted(columns, "column"), counted(names, "name"));
        let message = format!("an alias gives {names} to a table of {columns}");
        return Error::new(ErrorKind::Syntax, message).with_sqlstate("42P10");
    }
    if let Some(rest) = message.strip_prefix("Inconsistent data length across values list: got ")
        && let Some((given, rest)) = rest.split_once(" values in row ")
        && let Some((row, expected)) = rest.split_once(" but expected ")
        && let (Ok(given), Ok(row), Ok(expected)) = (given.parse(), row.parse::<usize>(), expected.parse())
    {
        let (given, expected) = (counted(given, "value"), counted(expected, "column"));
        let message = format!("row {} of VALUES has {given} for {expected}", row + 1);
        return Error::new(ErrorKind::Syntax, message);
    }
    let unknown = ["not found", "No table named", "does not exist"];
    let kind = if unknown.iter().any(|words| message.contains(words)) {
        ErrorKind::UnknownName
    } else {
        ErrorKind::Syntax
    };
    if says_of_groups(message)
        && let Some(column) = between(message, "column \"", "\"")
    {
        let column = unmarked_text(column);
        let name = column.rsplit('.').next().unwrap_or(&column);
        let message = format!("column \"{column}\" must be in GROUP BY or within an aggregate function");
        return Error::new(ErrorKind::Syntax, message).with_sqlstate("42803").about(name);
    }
    const OF_TYPES: [&str; 3] = ["Cannot coerce", "Failed to coerce", "have incompatible types"];
    match OF_TYPES.iter().any(|words| message.contains(words)) {
        true => Error::new(kind, plain(message)).with_sqlstate("42804"),
        false => Error::new(kind, plain(message)),
    }
}
