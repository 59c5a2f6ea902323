//! The words by which errors of other libraries are known: DataFusion, Arrow and the parser have one kind for
//! many errors, without a source, and only their texts tell these apart. Each such text is here and nowhere
//! else: a table for each kind, whose rows are read once and in their order. What they decide is the SQLSTATE
//! and the sentence that a user gets, never how a statement is planned or run. The tests below and
//! `tests/sql/sqlstates.slt` fail when a library changes its words.

use crate::message::{is_of_types, plain};
use crate::saying::{Saying, Sentence, made, read, same, told};
use crate::type_name::type_name;
use crate::{counted, external};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use hypostyle_types::{Error, ErrorKind, Mark, did_you_mean, nearest};
use std::collections::HashSet;

/// The messages of DataFusion about a function that there is not, up to its name, and up to another one.
const OF_FUNCTION: &str = "Invalid function '";
const SUGGESTED: &str = "\nDid you mean '";

/// What the library of regular expressions says of a text that is none.
const OF_PATTERN: &str = "regex parse error";

/// Functions that are known only with OVER.
const WINDOW_FUNCTIONS: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Functions in FROM, one of which a misspelt one may mean.
const IN_FROM: [&str; 10] = [
    "generate_series",
    "range",
    "read_arrow",
    "read_blob",
    "read_csv",
    "read_json",
    "read_parquet",
    "read_text",
    "sniff_csv",
    "unnest",
];

/// Words of messages, and the SQLSTATEs of these errors.
const STATES: [(&str, &str); 43] = [
    ("LIMIT must be >= 0", "2201W"),
    ("OFFSET must be >=0", "2201X"),
    ("ORDER BY expressions must appear in argument list", "42P10"),
    ("cannot be larger than end bound", "42P20"),
    ("RANGE requires exactly one ORDER BY column", "42P20"),
    ("GROUPS requires an ORDER BY clause", "42P20"),
    ("cannot contain window function calls", "42803"),
    ("Expected LIMIT to be an integer", "42804"),
    ("Incompatible inputs for Union", "42804"),
    ("Cannot automatically convert ", "42804"),
    ("Cannot get result type for decimal operation ", "22003"),
    ("Aggregate function calls cannot be nested", "42803"),
    ("Window function calls cannot be nested", "42P20"),
    ("Cannot coerce arithmetic expression ", "42883"),
    ("There isn't a common type to coerce ", "42883"),
    ("Cannot infer common argument type for comparison operation ", "42883"),
    ("Cannot infer common string type for string concat operation ", "42883"),
    ("Cannot get result type for temporal operation ", "42883"),
    ("Unary operator '-' only supports ", "42883"),
    ("unnest() can only be applied to ", "42883"),
    ("Unary operator 'NOT' requires a boolean", "42804"),
    ("Cannot infer common argument type for logical boolean operation ", "42804"),
    // Arguments of functions.
    ("overflow on abs(", "22003"),
    ("Signed integer overflow in ", "22003"),
    ("Percentile value must be between ", "22003"),
    ("Encountered non UTF-8 data", "22021"),
    ("Encountered non-UTF-8 data", "22021"),
    ("field position must not be zero", "22023"),
    ("Unsupported date_trunc granularity", "22023"),
    ("Date part '", "22023"),
    (" does not support: Time", "0A000"),
    ("invalid Unicode scalar value: -", "22023"),
    ("invalid Unicode scalar value: ", "54000"),
    ("negative count not allowed", "22011"),
    ("overlay start position must be at least 1", "22011"),
    (OF_PATTERN, "2201B"),
    ("requires start to be 1-based", "22023"),
    ("step can't be 0 for function ", "22023"),
    ("NTILE requires a positive integer", "22014"),
    ("Hour value '", "22008"),
    ("Minute value '", "22008"),
    ("Second value '", "22008"),
    ("Timestamp out of range", "22008"),
];

/// What DataFusion says of a parameter without a value, before its name.
const OF_PARAMETERS: [&str; 2] =
    ["No value found for placeholder with name ", "No value found for placeholder with id "];

/// Returns an error with the SQLSTATE that its words have, unless it has one of its own.
pub fn with_state(error: Error) -> Error {
    let is_plain = error.sqlstate() == error.kind().sqlstate() || error.sqlstate() == "42804";
    if !is_plain
        || !matches!(error.kind(), ErrorKind::Syntax | ErrorKind::InvalidInput | ErrorKind::UnknownName)
    {
        return error;
    }
    let missing = OF_PARAMETERS.iter().find_map(|words| error.message().split_once(words));
    if let Some((_, name)) = missing {
        let name = name.trim().trim_start_matches('$');
        let sign = if name.starts_with([':', '?']) { "" } else { "$" };
        let message = format!("no value was given for the parameter {sign}{name}");
        return Error::invalid_input(message).with_sqlstate("07001");
    }
    match STATES.iter().find(|(words, _)| error.message().contains(words)) {
        Some((_, sqlstate)) => error.with_sqlstate(sqlstate),
        None => error,
    }
}

/// Returns what is said of a number that has too many digits, in words of SQL.
fn of_digits(message: &str) -> String {
    let parts = || {
        let (value, rest) = message.split_once(" is too ")?;
        let (size, rest) = rest.split_once(" to store in a Decimal")?;
        let digits = rest.split_once("precision ")?.1;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        Some(format!("{value} is too {size} for a DECIMAL of {} digits", &digits[..end]))
    };
    parts().unwrap_or_else(|| message.to_string())
}

/// What DataFusion has no plan for, and what other databases have, with what is written instead.
const NOT_IMPLEMENTED: &[Saying] = &[
    told(
        "does not support logical expression WindowFunction",
        ErrorKind::Syntax,
        "42P20",
        "a window function cannot be here; filter by it with QUALIFY, or in a query around it",
    ),
    made(
        "^Aggregate can not be used as a sliding accumulator because `retract_batch` is not implemented: {}({}",
        ErrorKind::Unsupported,
        "0A000",
        no_sliding,
    ),
    made("^Unsupported SQL type {}", ErrorKind::UnknownName, "42704", no_type),
    made("^Unsupported CAST from {}", ErrorKind::InvalidInput, "42846", no_cast),
    told(
        "^Unsupported ast node in sqltorel: RLike",
        ErrorKind::Unsupported,
        "0A000",
        "RLIKE and REGEXP are not supported; write a ~ 'pattern'",
    ),
    told(
        "^Unsupported ast node in sqltorel: Convert",
        ErrorKind::Unsupported,
        "0A000",
        "CONVERT is not supported; write CAST(a AS type)",
    ),
    told(
        "^Unsupported ast node in sqltorel: ",
        ErrorKind::Unsupported,
        "0A000",
        "this kind of expression is not supported",
    ),
];

fn no_sliding(parts: &[&str]) -> Option<Sentence> {
    let [name, _] = parts else { return None };
    Some(Sentence::new(format!(
        "{name}() is not supported over a frame that rows leave again; begin it with UNBOUNDED PRECEDING"
    )))
}

fn no_type(parts: &[&str]) -> Option<Sentence> {
    let [name] = parts else { return None };
    Some(Sentence::new(format!("no type {}", name.trim())))
}

fn no_cast(parts: &[&str]) -> Option<Sentence> {
    let (from, to) = parts.first()?.rsplit_once(" to ")?;
    Some(Sentence::new(format!("cannot cast {} to {}", shown_type(from), shown_type(to))))
}

/// Returns the error of what DataFusion has no plan for.
pub fn not_implemented(message: &str) -> Error {
    let place = Mark { word: None, line_and_column: place_in(message) };
    if let Some(error) = read(NOT_IMPLEMENTED, message) {
        return if error.kind() == ErrorKind::Unsupported { error.marked(place) } else { error };
    }
    let message = plain(message);
    let told = match message.strip_prefix("Unsupported SQL statement: ") {
        Some(statement) => format!("{statement} is not supported"),
        None => format!("not supported: {message}"),
    };
    Error::unsupported(told).marked(place)
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

/// What is told of a library's operator that needs memory, by a part of its name.
const CONSUMERS: [(&str, &str); 6] = [
    ("Join", "a join"),
    ("Window", "a window function"),
    ("TopK", "ORDER BY with LIMIT"),
    ("Sort", "a sort"),
    ("Aggregate", "GROUP BY or an aggregate"),
    ("Recursive", "a recursive query"),
];

/// Returns what needs memory. What we have named ourselves begins with a small letter.
fn consumer(name: &str) -> &str {
    if !name.starts_with(|first: char| first.is_ascii_uppercase()) {
        return name;
    }
    CONSUMERS.iter().find(|(part, _)| name.contains(part)).map_or("an operator", |(_, told)| *told)
}

/// Returns what the pool of memory says, without its names of operators, others' among them.
fn of_pool(message: &str) -> Option<String> {
    let (_, allocation) = message.rsplit_once("Failed to allocate additional ")?;
    let (wanted, pool) = allocation.split_once(" already allocated for this reservation - ")?;
    let (bytes, held) = wanted.split_once(" for ")?;
    let (name, _) = held.rsplit_once(" with ")?;
    let (left, _) = pool.split_once(" remain ")?;
    Some(format!("memory is exhausted: {} needs {bytes} more, and {left} are left", consumer(name)))
}

/// Returns what is said of a query that has its share of the memory.
fn of_share(message: &str) -> Option<String> {
    let (name, rest) = message.split_once(" needs ")?;
    Some(format!("{} needs {rest}", consumer(name)))
}

/// Returns the error of memory that is exhausted, with the limit to raise unless it is the query's own.
pub fn out_of_memory(message: &str) -> Error {
    let raise = if message.contains("query_memory_limit") { "" } else { "; raise memory_limit" };
    let told = of_pool(message).or_else(|| of_share(message));
    let message = told.as_deref().unwrap_or(message);
    Error::new(ErrorKind::OutOfMemory, format!("{message}{raise} or make the query smaller"))
}

/// Returns the error of values that Arrow's kernels refuse.
pub fn kernel_error(error: &ArrowError) -> Error {
    match error {
        ArrowError::ArithmeticOverflow(message) => {
            let of = message.trim_start_matches("Overflow happened on: ");
            Error::invalid_input(format!("overflow: {of}")).with_sqlstate("22003")
        }
        // This error is about decimals with more digits than their type has.
        ArrowError::InvalidArgumentError(message) if message.contains(" to store in a Decimal") => {
            Error::invalid_input(of_digits(message)).with_sqlstate("22003")
        }
        ArrowError::ComputeError(message) if message.starts_with("Regular expression did not compile") => {
            bad_pattern(message)
        }
        ArrowError::ComputeError(message) | ArrowError::InvalidArgumentError(message) => {
            Error::invalid_input(message.clone())
        }
        other => Error::invalid_input(other.to_string()),
    }
}

/// Returns DataFusion's error of a function of patterns as [`bad_pattern`], if it is about the pattern.
pub fn with_pattern(error: DataFusionError) -> DataFusionError {
    let said = error.to_string();
    if said.contains(OF_PATTERN) { external(bad_pattern(&said)) } else { error }
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

/// Returns the place that a part of a syntax tree has, where a message shows one.
fn place_in(message: &str) -> Option<(u64, u64)> {
    let (line, column) = between(message, "Location(", ")")?.split_once(',')?;
    Some((line.trim().parse().ok()?, column.trim().parse().ok()?)).filter(|(line, _)| *line > 0)
}

/// Returns what the parser expected, and where it found something else.
pub fn syntax_error(message: &str) -> Error {
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
        None => match message.strip_prefix("No infix parser for token ") {
            Some(token) => unknown_operator(token),
            // Drivers of other databases write their parameters so.
            None if message == "Expected: an expression, found: %" => {
                format!("{message}; parameters are written ?, $1 or $name")
            }
            None => message.to_string(),
        },
    };
    Error::new(ErrorKind::Syntax, plain(&message)).marked(Mark { word, line_and_column: place })
}

/// Returns what is said of a word that stands where an operator would.
fn unknown_operator(token: &str) -> String {
    match between(token, "value: \"", "\"") {
        Some(word) if word.eq_ignore_ascii_case("div") => {
            format!("no operator {word}; whole numbers have //")
        }
        Some(word) => format!("no operator {word}"),
        None => "no operator is where one is expected".to_string(),
    }
}

/// What DataFusion says of functions that do not take the types of their arguments.
const COERCED: Saying = made(
    "^Failed to coerce arguments to satisfy a call to '{}'{}",
    ErrorKind::Syntax,
    "42883",
    arguments_of_other_types,
);
const REFUSED: Saying = made("^Function '{}'{}", ErrorKind::Syntax, "42883", arguments_refused);

/// What users do wrong and DataFusion takes for mistakes of its own.
const INTERNAL: &[Saying] = &[
    COERCED,
    REFUSED,
    same("Failed to coerce", ErrorKind::Syntax, "42804"),
    same("Cannot coerce", ErrorKind::Syntax, "42804"),
    same("coerce types", ErrorKind::Syntax, "42804"),
    same("Unsupported data type", ErrorKind::Syntax, "42804"),
    same("invalid stride", ErrorKind::InvalidInput, "22000"),
    same("got invalid", ErrorKind::InvalidInput, "22000"),
    same("must be", ErrorKind::InvalidInput, "22000"),
];

/// Returns what users do wrong and DataFusion takes for mistakes of its own.
pub fn internal_error(message: &str) -> Error {
    read(INTERNAL, message).unwrap_or_else(|| Error::internal(plain(message)))
}

/// Returns what stands between two texts.
fn between<'a>(message: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(message.split_once(before)?.1.split_once(after)?.0)
}

/// Returns the SQL name of a type that Arrow has displayed.
fn shown_type(shown: &str) -> String {
    shown.parse().map_or_else(|_| shown.to_string(), |data_type| type_name(&data_type))
}

/// What Arrow says of casts, of comparisons and of texts that are no values of a type.
const CASTS: &[Saying] = &[
    made("^Can't cast value {} to type {}", ErrorKind::InvalidInput, "22003", value_out_of_range),
    made("^Cannot cast string '{}", ErrorKind::InvalidInput, "22003", number_out_of_range),
    made("^Cannot cast value '{}", ErrorKind::InvalidInput, "22003", number_out_of_range),
    made("^Cannot cast string '{}", ErrorKind::InvalidInput, "22P02", text_of_no_value),
    made("^Cannot cast value '{}", ErrorKind::InvalidInput, "22P02", text_of_no_value),
    made("^Cannot cast to {}. Overflowing on ", ErrorKind::InvalidInput, "22003", digits_out_of_range),
    made("^value of {} is out of range {}", ErrorKind::InvalidInput, "22003", value_out_of_range),
    same("^Error parsing timestamp", ErrorKind::InvalidInput, "22007"),
    same("^Invalid input syntax for type interval", ErrorKind::InvalidInput, "22007"),
];

fn value_out_of_range(parts: &[&str]) -> Option<Sentence> {
    let [value, shown] = parts else { return None };
    Some(Sentence::new(format!("{value} is out of range of {}", shown_type(shown))))
}

/// Returns the text that is cast, and the name of the type that it is to be of.
fn cast_text<'a>(parts: &[&'a str]) -> Option<(&'a str, String)> {
    let (text, shown) = parts.first()?.rsplit_once("' to value of ")?;
    let shown = match shown.trim_end_matches(" type") {
        // Arrow shows the digits that it has where none are given, not those of the type.
        decimal if decimal.starts_with("Decimal") => "DECIMAL".to_string(),
        shown => shown_type(shown),
    };
    Some((text, shown))
}

fn number_out_of_range(parts: &[&str]) -> Option<Sentence> {
    let (text, shown) = cast_text(parts)?;
    let is_number = shown != "BOOLEAN" && text.trim().parse::<i128>().is_ok();
    is_number.then(|| Sentence::new(format!("{text} is out of range of {shown}")))
}

fn text_of_no_value(parts: &[&str]) -> Option<Sentence> {
    let (text, shown) = cast_text(parts)?;
    Some(Sentence::new(format!("'{text}' is not of type {shown}")))
}

/// What is named is a DECIMAL's digits without the point.
fn digits_out_of_range(parts: &[&str]) -> Option<Sentence> {
    let [shown] = parts else { return None };
    Some(Sentence::new(format!("a number is out of range of {}", shown_type(shown))))
}

/// Returns the error of a cast, a comparison or a text that is no value of a type.
pub fn cast_error(message: &str) -> Error {
    read(CASTS, message).unwrap_or_else(|| Error::invalid_input(plain(message)).with_sqlstate("22018"))
}

/// What is said of values at which a plan stops.
const EXECUTION: &[Saying] = &[
    told(
        "Scalar subquery returned more than one row",
        ErrorKind::InvalidInput,
        "21000",
        "a subquery that stands for one value gives more than one row",
    ),
    made("^Cannot access field at argument {}: type {} is not Struct", ErrorKind::Syntax, "42809", no_fields),
    same("cannot take square root of a negative number", ErrorKind::InvalidInput, "2201F"),
    made(
        "^Function '{}' user-defined coercion failed with: {}",
        ErrorKind::Syntax,
        "42883",
        arguments_not_coerced,
    ),
];

fn no_fields(parts: &[&str]) -> Option<Sentence> {
    let [_, shown] = parts else { return None };
    Some(Sentence::new(format!("values of type {} have no fields", shown_type(shown))))
}

/// Returns the error of a value, at which a plan has stopped.
pub fn execution_error(message: &str) -> Error {
    read(EXECUTION, message).unwrap_or_else(|| Error::invalid_input(plain(message)))
}

fn arguments_of_other_types(parts: &[&str]) -> Option<Sentence> {
    let [name, rest] = parts else { return None };
    // Types that have others within them are not told as SQL writes them.
    let types = between(rest, "but received ", " (DataType").map(plain).filter(|types| !types.contains('"'));
    let told = match types {
        Some(types) => format!("no function {name}() takes {types}"),
        None => format!("no function {name}() takes arguments of these types"),
    };
    Some(Sentence::new(told).about(name))
}

/// Returns what a function says of its arguments. DataFusion asks it several times, as below IS NULL and
/// CASE, and wraps what it says each time.
fn arguments_not_coerced(parts: &[&str]) -> Option<Sentence> {
    const KINDS: [&str; 4] =
        ["External error: ", "Execution error: ", "Error during planning: ", "Internal error: "];
    let [name, rest] = parts else { return None };
    let said = rest.rsplit(" user-defined coercion failed with: ").next()?;
    let said = KINDS.iter().find_map(|kind| said.strip_prefix(kind)).unwrap_or(said);
    match said.contains("Function '") || said == "Coercion failed" || said.starts_with("Failed to coerce") {
        true => arguments_of_other_types(parts),
        false => Some(Sentence::new(plain(said)).about(name)),
    }
}

/// Returns the same, where DataFusion finds that out in a plan, as in keys of windows and of ORDER BY.
fn arguments_refused(parts: &[&str]) -> Option<Sentence> {
    const SAID: [&str; 3] = [" failed to match any signature", " requires ", " expects "];
    let is_of_types = SAID.iter().any(|said| parts.last().is_some_and(|rest| rest.starts_with(said)));
    if is_of_types { arguments_of_other_types(parts) } else { None }
}

/// What DataFusion says of statements that it refuses.
const PLAN: &[Saying] = &[
    made("Invalid function '{}'", ErrorKind::Syntax, "42809", window_function),
    made("Invalid function '{}'{}", ErrorKind::UnknownName, "42883", no_function),
    made("table function '{}' not found", ErrorKind::UnknownName, "42883", no_function_in_from),
    made(
        "No function matches the given name and argument types '{}'. You might{}",
        ErrorKind::Syntax,
        "42883",
        no_function_of_types,
    ),
    made("Cannot coerce arithmetic expression {} to valid types", ErrorKind::Syntax, "42883", no_operator),
    made("Cannot get result type for arithmetic operation {}: {}", ErrorKind::Syntax, "42883", no_operator),
    made(
        "Cannot infer common argument type for comparison operation {}",
        ErrorKind::Syntax,
        "42883",
        no_operator,
    ),
    made("Cannot infer common argument type for regex operation {}", ErrorKind::Syntax, "42883", no_operator),
    made("Cannot infer common argument type for operation {}", ErrorKind::Syntax, "42883", no_operator),
    made(
        "Cannot infer common string type for string concat operation {}",
        ErrorKind::Syntax,
        "42883",
        no_operator,
    ),
    made("There isn't a common type to coerce {} expression", ErrorKind::Syntax, "42883", no_operator),
    COERCED,
    REFUSED,
    made("non-boolean predicate '{}", ErrorKind::Syntax, "42804", no_condition),
    made("condition must be boolean type, but got {}", ErrorKind::Syntax, "42804", no_condition),
    made("Field {} not found in struct", ErrorKind::UnknownName, "42703", no_field),
    told(
        "to grouping function is not in grouping columns",
        ErrorKind::Syntax,
        "42803",
        "the arguments of grouping() are expressions of GROUP BY",
    ),
    made("variable [\"{}\"", ErrorKind::Syntax, "42704", no_variable),
    made(
        "^Inconsistent data length across values list: got {} values in row {} but expected {}",
        ErrorKind::Syntax,
        "42601",
        uneven_values,
    ),
    told(
        "Failed to parse placeholder id",
        ErrorKind::Syntax,
        "42P02",
        "the number of a parameter is too large",
    ),
    same("Cannot coerce", ErrorKind::Syntax, "42804"),
    same("Failed to coerce", ErrorKind::Syntax, "42804"),
    same("have incompatible types", ErrorKind::Syntax, "42804"),
    same("not found", ErrorKind::UnknownName, "42P01"),
    same("No table named", ErrorKind::UnknownName, "42P01"),
    same("does not exist", ErrorKind::UnknownName, "42P01"),
];

fn window_function(parts: &[&str]) -> Option<Sentence> {
    let [name] = parts else { return None };
    let is_one = WINDOW_FUNCTIONS.contains(&name.to_ascii_lowercase().as_str());
    is_one.then(|| {
        Sentence::new(format!("\"{name}\" is a window function: write {name}(…) OVER (…)")).about(name)
    })
}

fn no_function(parts: &[&str]) -> Option<Sentence> {
    let [name, rest] = parts else { return None };
    // DataFusion always suggests a name, however different it is.
    let suggestion = did_you_mean(name, between(rest, SUGGESTED, "'"));
    Some(Sentence::new(format!("no function \"{name}\"{suggestion}")).about(name))
}

fn no_function_in_from(parts: &[&str]) -> Option<Sentence> {
    let [name] = parts else { return None };
    let suggestion = did_you_mean(name, IN_FROM);
    Some(Sentence::new(format!("no function \"{name}\" that gives rows{suggestion}")).about(name))
}

fn no_function_of_types(parts: &[&str]) -> Option<Sentence> {
    let [call, rest] = parts else { return None };
    let (name, types) = call.strip_suffix(')')?.split_once('(')?;
    let types = plain(types);
    if let Some(message) = sign_error(name, &types) {
        return Some(Sentence::new(message));
    }
    let candidates = rest.split_once("Candidate functions:").map_or("", |(_, candidates)| candidates);
    let candidates = candidates.lines().map(str::trim).filter(|one| !one.is_empty() && is_of_types(one));
    let mut candidates: Vec<String> = candidates.map(|one| of_kinds(&plain(one))).collect();
    // Types of Arrow that are one of SQL's stand there several times.
    let mut known = HashSet::new();
    candidates.retain(|one| known.insert(one.clone()));
    let candidates = match candidates.is_empty() {
        true => String::new(),
        false => format!("; there are {}", candidates.join(", ")),
    };
    Some(Sentence::new(format!("no function {name}({types}){candidates}")).about(name))
}

/// Returns the signature of a function with SQL's names for kinds of types.
fn of_kinds(signature: &str) -> String {
    const KINDS: [(&str, &str); 9] = [
        ("String", "VARCHAR"),
        ("Binary", "BLOB"),
        ("Boolean", "BOOLEAN"),
        ("Decimal", "DECIMAL"),
        ("Date", "DATE"),
        ("Time", "TIME"),
        ("Timestamp", "TIMESTAMP"),
        ("Interval", "INTERVAL"),
        ("Duration", "DURATION"),
    ];
    let Some((name, types)) = signature.strip_suffix(')').and_then(|signature| signature.split_once('('))
    else {
        return signature.to_string();
    };
    let kind = |of: &str| KINDS.iter().find(|(kind, _)| *kind == of).map_or(of, |(_, own)| *own).to_string();
    let types: Vec<String> = types.split(", ").map(kind).collect();
    format!("{name}({})", types.join(", "))
}

/// Returns what is said of the types of operands that a function has for the sign between them, which nobody
/// calls by its name.
fn sign_error(name: &str, types: &str) -> Option<String> {
    let (first, second) = types.split_once(", ")?;
    match name {
        "any_equal" => Some(format!("no operator {second} = ANY ({first}): ANY takes a list or a subquery")),
        "array_element" if !types.contains(['[', '(']) => {
            Some(format!("values of type {first} have no elements"))
        }
        _ => None,
    }
}

fn no_operator(parts: &[&str]) -> Option<Sentence> {
    let operands = plain(parts.first()?);
    // That of LIKE stands behind both.
    let named = operands.rsplit_once(" in ").and_then(|(both, operator)| {
        let (left, right) = both.split_once(" and ")?;
        Some(format!("{left} {operator} {right}"))
    });
    Some(Sentence::new(format!("no operator {}; a cast may help", named.unwrap_or(operands))))
}

fn no_condition(parts: &[&str]) -> Option<Sentence> {
    let shown = parts.first()?;
    let shown = shown.rsplit_once(" returning ").map_or(*shown, |(_, shown)| shown);
    let kind = match shown.trim() {
        list if list.starts_with("List(") || list.starts_with("LargeList(") => "list".to_string(),
        structure if structure.starts_with("Struct(") => "structure".to_string(),
        map if map.starts_with("Map(") => "map".to_string(),
        other => shown_type(other),
    };
    Some(Sentence::new(format!("a condition is a BOOLEAN, not a {kind}")))
}

fn no_field(parts: &[&str]) -> Option<Sentence> {
    let [field] = parts else { return None };
    Some(Sentence::new(format!("no field \"{field}\" in the structure")).about(field))
}

fn no_variable(parts: &[&str]) -> Option<Sentence> {
    let [name] = parts else { return None };
    Some(Sentence::new(format!("no variable \"{name}\"; parameters are written ?, $1 or $name")))
}

fn uneven_values(parts: &[&str]) -> Option<Sentence> {
    let [given, row, expected] = parts else { return None };
    let (given, expected) =
        (counted(given.parse().ok()?, "value"), counted(expected.parse().ok()?, "column"));
    let row = row.parse::<usize>().ok()? + 1;
    Some(Sentence::new(format!("row {row} of VALUES has {given} for {expected}")))
}

/// Returns the error of a statement that the planner refuses.
pub fn plan_error(message: &str) -> Error {
    read(PLAN, message).unwrap_or_else(|| Error::new(ErrorKind::Syntax, plain(message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_datafusion;
    use crate::saying::{Telling, parts};
    use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, StringArray};
    use arrow::compute::kernels::numeric::add;
    use arrow::compute::{CastOptions, cast_with_options, regexp_is_match_scalar};
    use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
    use datafusion_common::{ParamValues, ScalarValue};
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;
    use std::sync::Arc;

    /// Returns the SQLSTATE that an error gets.
    fn state_of(error: impl Into<DataFusionError>) -> String {
        from_datafusion(error.into()).sqlstate().to_string()
    }

    #[test]
    fn casts_say_what_is_expected_of_them() {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let refused = |values: ArrayRef, to: DataType| {
            from_datafusion(cast_with_options(&values, &to, &strict).unwrap_err().into())
        };
        let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![300]));
        for (values, to, state, message) in [
            (text("x"), DataType::Int32, "22P02", "'x' is not of type INTEGER"),
            (text("9999999999"), DataType::Int32, "22003", "9999999999 is out of range of INTEGER"),
            (text("perhaps"), DataType::Boolean, "22P02", "'perhaps' is not of type BOOLEAN"),
            (text("abc"), DataType::Decimal128(4, 2), "22P02", "'abc' is not of type DECIMAL"),
            (wide, DataType::Int8, "22003", "300 is out of range of TINYINT"),
        ] {
            let told = refused(values, to);
            assert_eq!((told.sqlstate(), told.message()), (state, message));
        }
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(refused(text("soon"), moment).sqlstate(), "22007");
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        assert_eq!(refused(text("1 centurys"), interval).sqlstate(), "22007");
    }

    #[test]
    fn kernels_say_what_is_expected_of_them() {
        let wide = Decimal128Array::from(vec![12345]).with_precision_and_scale(38, 0).unwrap();
        let told = from_datafusion(wide.validate_decimal_precision(2).unwrap_err().into());
        assert_eq!(told.sqlstate(), "22003");
        assert!(told.message().ends_with("is too large for a DECIMAL of 2 digits"), "{told}");
        let (most, one) = (Int32Array::from(vec![i32::MAX]), Int32Array::from(vec![1]));
        let told = from_datafusion(add(&most, &one).unwrap_err().into());
        assert!(told.sqlstate() == "22003" && told.message().starts_with("overflow: 2147483647"), "{told}");
        let texts = StringArray::from(vec!["a"]);
        assert_eq!(state_of(regexp_is_match_scalar(&texts, "(", None).unwrap_err()), "2201B");
    }

    #[test]
    fn parameters_and_the_parser_say_what_is_expected_of_them() {
        let of_place = ParamValues::from(Vec::<ScalarValue>::new());
        assert_eq!(state_of(of_place.get_placeholders_with_values("$1").unwrap_err()), "07001");
        let of_name = ParamValues::from(Vec::<(String, ScalarValue)>::new());
        assert_eq!(state_of(of_name.get_placeholders_with_values("$x").unwrap_err()), "07001");
        let refused = |sql: &str| {
            let error = Parser::parse_sql(&GenericDialect {}, sql).unwrap_err();
            from_datafusion(DataFusionError::SQL(Box::new(error), None))
        };
        let told = refused("SELECT 1 +");
        assert!(told.message().ends_with("found: the end"), "{told}");
        let told = refused("SELECT 1 + )");
        let mark = Mark { word: Some(")".into()), line_and_column: Some((1, 12)) };
        assert_eq!(told.mark(), Some(&mark), "{told}");
    }

    /// A row that takes every message of one behind it would leave nothing to that.
    #[test]
    fn no_row_of_a_table_hides_another() {
        for table in [PLAN, INTERNAL, EXECUTION, NOT_IMPLEMENTED, CASTS] {
            for (place, row) in table.iter().enumerate() {
                let message = row.said.trim_start_matches('^').replace("{}", "1");
                assert!(parts(&message, row.said).is_some(), "{message}");
                for before in &table[..place] {
                    let may_leave_it = matches!(before.told, Telling::Made(_));
                    assert!(
                        may_leave_it || parts(&message, before.said).is_none(),
                        "{message}: {}",
                        before.said
                    );
                }
            }
        }
    }

    #[test]
    fn a_function_that_is_not_there_is_told_before_its_arguments() {
        let told = plan_error(
            "Function 'sum' requires a number. No function matches the given name and argument types 'sum(Utf8)'. \
             You might need to add explicit type casts.\n\tCandidate functions:\n\tsum(Float64)",
        );
        assert_eq!(told.message(), "no function sum(VARCHAR); there are sum(DOUBLE)");
        let told = plan_error(
            "No function matches the given name and argument types 'f(Utf8)'. You might need to add explicit type \
             casts.\n\tCandidate functions:\n\tf(Decimal)\n\tf(Int64, String)\n\tf(Decimal)\n\tf()",
        );
        assert_eq!(told.message(), "no function f(VARCHAR); there are f(DECIMAL), f(BIGINT, VARCHAR), f()");
        let told = plan_error("Function 'sum' requires a number, but received Utf8 (DataType: Utf8)");
        assert_eq!((told.message(), told.sqlstate()), ("no function sum() takes VARCHAR", "42883"));
        let within = "Map(non-null Struct(\"key\": non-null String, \"value\": Int64))";
        let told =
            plan_error(&format!("Function 'f' requires a number, but received {within} (DataType: Map)"));
        assert_eq!(told.message(), "no function f() takes arguments of these types");
        let told = plan_error("Invalid function 'lag'.\nDid you mean 'log'?");
        assert_eq!((told.kind(), told.sqlstate()), (ErrorKind::Syntax, "42809"));
        let told = plan_error("Invalid function 'lug'.\nDid you mean 'log'?");
        assert_eq!(told.message(), "no function \"lug\"; did you mean \"log\"?");
        let told = plan_error("a thing does not exist");
        assert_eq!((told.kind(), told.sqlstate()), (ErrorKind::UnknownName, "42P01"));
    }

    #[test]
    fn a_function_that_refuses_its_arguments_says_why() {
        for (said, told) in [
            ("External error: f(): argument 1 is JSON, not BIGINT", "f(): argument 1 is JSON, not BIGINT"),
            (
                "Execution error: Function 'f' user-defined coercion failed with: Execution error: f function \
                 requires 1 arguments, got 3",
                "f function requires 1 arguments, got 3",
            ),
            ("Internal error: Expected a Map type, got Int64.", "Expected a Map type, got BIGINT."),
            (
                "Error during planning: Failed to coerce arguments to satisfy a call to 'f' function: coercion \
                 from Int64 to the signature ArraySignature(array) failed",
                "no function f() takes arguments of these types",
            ),
        ] {
            let error = execution_error(&format!("Function 'f' user-defined coercion failed with: {said}"));
            assert_eq!((error.message(), error.sqlstate()), (told, "42883"), "{said}");
        }
    }

    #[test]
    fn words_have_states() {
        let state = |message: &str| with_state(Error::new(ErrorKind::Syntax, message)).sqlstate().to_string();
        assert_eq!(state("LIMIT must be >= 0, '-1' was provided"), "2201W");
        assert_eq!(state("Cannot coerce arithmetic expression BOOLEAN + BIGINT to valid types"), "42883");
        assert_eq!(state("No value found for placeholder with name $x"), "07001");
        assert_eq!(state("Int32Array overflow on abs(-2147483648)"), "22003");
        assert_eq!(state("invalid Unicode scalar value: -1"), "22023");
        assert_eq!(state("invalid Unicode scalar value: 99999999"), "54000");
        assert_eq!(state("anything else"), "42601");
        let own = Error::new(ErrorKind::Syntax, "LIMIT must be >= 0").with_sqlstate("42702");
        assert_eq!(with_state(own).sqlstate(), "42702");
    }

    #[test]
    fn operators_that_need_memory_are_told_in_words_of_sql() {
        let pool = |name: &str| {
            format!(
                "Additional allocation failed for {name} with top memory consumers (across reservations) as:\n  \
                 {name}#819619(can spill: false) consumed 50.0 B, peak 70.0 B.\nError: Failed to allocate additional \
                 150.0 B for {name} with 0.0 B already allocated for this reservation - 5.0 B remain available for \
                 the total memory pool: fair(pool_size: 100.0 B)"
            )
        };
        let left = "needs 150.0 B more, and 5.0 B are left; raise memory_limit or make the query smaller";
        for (name, told) in [
            ("TopK[0]", "ORDER BY with LIMIT"),
            ("SortMergeJoinStream[1]", "a join"),
            ("ExternalSorterMerge[1]", "a sort"),
            ("GroupedHashAggregateStream[0] (sum(x) with y)", "GROUP BY or an aggregate"),
            ("NewExec[3]", "an operator"),
            ("rows of \"TopK[0] with t\"", "rows of \"TopK[0] with t\""),
        ] {
            assert_eq!(out_of_memory(&pool(name)).message(), format!("memory is exhausted: {told} {left}"));
        }
        let share = "TopK[0] needs 9 bytes more than the 8 that the statement has, and it may have 10; raise \
                     query_memory_limit";
        let told = out_of_memory(share);
        assert!(told.message().starts_with("ORDER BY with LIMIT needs 9 bytes more"), "{told}");
        assert!(!told.message().contains("raise memory_limit"), "{told}");
    }

    #[test]
    fn digits_are_those_of_a_decimal() {
        let message =
            "12345678901.00 is too large to store in a Decimal128 of precision 9. Max is 9999999.99";
        assert_eq!(of_digits(message), "12345678901.00 is too large for a DECIMAL of 9 digits");
        assert_eq!(of_digits("other"), "other");
    }

    #[test]
    fn arguments_that_a_function_does_not_take_are_told_of_wherever_it_stands() {
        let said = |rest: &str| {
            let error =
                execution_error(&format!("Function 'substr' user-defined coercion failed with: {rest}"));
            assert_eq!(error.sqlstate(), "42883");
            error.message().to_string()
        };
        for (rest, expected) in [
            (
                "Internal error: Function 'substr' failed to match any signature, errors: Error during planning: \
                 Function 'substr' requires BIGINT, but received Utf8 (DataType: Utf8).",
                "no function substr() takes VARCHAR",
            ),
            ("Internal error: Coercion failed", "no function substr() takes arguments of these types"),
            ("Error during planning: it takes no BIGINT", "it takes no BIGINT"),
        ] {
            assert_eq!(said(rest), expected);
        }
    }

    #[test]
    fn what_is_not_supported_over_a_frame_is_said_without_names_of_functions_within() {
        let message = "Aggregate can not be used as a sliding accumulator because `retract_batch` is not implemented: \
                       any_value(t.l) PARTITION BY [t.b]";
        let error = not_implemented(message);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.message().starts_with("any_value() is not supported over a frame"),
            "{}",
            error.message()
        );
    }

    #[test]
    fn what_nobody_has_written_is_said_as_it_is_written() {
        let said = |message: &str| plan_error(message).message().to_string();
        for (message, expected) in [
            (
                "Cannot coerce arithmetic expression Utf8 + Int64 to valid types",
                "no operator VARCHAR + BIGINT; a cast may help",
            ),
            (
                "Cannot get result type for arithmetic operation Utf8 - Utf8: Invalid argument error: Invalid arithmetic \
                 operation: Utf8 - Utf8",
                "no operator VARCHAR - VARCHAR; a cast may help",
            ),
            (
                "There isn't a common type to coerce Int32 and Utf8 in LIKE expression",
                "no operator INTEGER LIKE VARCHAR; a cast may help",
            ),
            (
                "Cannot infer common string type for string concat operation Int64 || Int64",
                "no operator BIGINT || BIGINT; a cast may help",
            ),
            (
                "Cannot create filter with non-boolean predicate 't.n' returning Int16",
                "a condition is a BOOLEAN, not a SMALLINT",
            ),
            (
                "condition must be boolean type, but got List(Field { data_type: Int64, nullable: true })",
                "a condition is a BOOLEAN, not a list",
            ),
            (
                "Argument t.a to grouping function is not in grouping columns t.b",
                "the arguments of grouping() are expressions of GROUP BY",
            ),
        ] {
            assert_eq!(said(message), expected);
        }
        assert_eq!(
            sign_error("array_element", "INTEGER, BIGINT").as_deref(),
            Some("values of type INTEGER have no elements")
        );
        assert_eq!(sign_error("array_element", "INTEGER[], VARCHAR"), None);
        let unknown = plan_error("table function 'read_cvs' not found");
        assert_eq!((unknown.kind(), unknown.sqlstate()), (ErrorKind::UnknownName, "42883"));
        assert_eq!(unknown.message(), "no function \"read_cvs\" that gives rows; did you mean \"read_csv\"?");
        let unsupported = not_implemented("Unsupported ast node in sqltorel: RLike { negated: false }");
        assert!(unsupported.message().ends_with("write a ~ 'pattern'"), "{}", unsupported.message());
    }
}
