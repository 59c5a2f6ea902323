//! The words by which errors of other libraries are known: DataFusion, Arrow and the parser have one kind for
//! many errors, without a source, and only their texts tell these apart. Each such text is here and nowhere
//! else. What they decide is the SQLSTATE and the sentence that a user gets, never how a statement is planned
//! or run. The tests below and `tests/sql/sqlstates.slt` fail when a library changes its words.

use crate::column_name::unmarked_text;
use crate::message::{is_of_types, plain};
use crate::type_name::type_name;
use crate::{counted, external};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use hypostyle_types::{Error, ErrorKind, Mark, did_you_mean, nearest};

/// The message of DataFusion about a window function where none is allowed, such as in WHERE.
const OF_WINDOW: &str = "does not support logical expression WindowFunction";

/// The message of DataFusion about an alias that names another number of columns than there are.
const OF_ALIASES: &str = "names given as column alias";

/// The messages of DataFusion about a function that there is not, up to its name, and up to another one.
const OF_FUNCTION: &str = "Invalid function '";
const SUGGESTED: &str = "\nDid you mean '";

/// What the library of regular expressions says of a text that is none.
const OF_PATTERN: &str = "regex parse error";

/// What DataFusion says of aggregates in WHERE, of whichever query they are.
const IN_WHERE: &str = "Aggregate functions are not allowed in the WHERE clause";

/// What DataFusion says of a type that it does not know, before its name.
const OF_TYPE: &str = "Unsupported SQL type ";

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
const STATES: [(&str, &str); 49] = [
    ("LIMIT must be >= 0", "2201W"),
    ("OFFSET must be >=0", "2201X"),
    ("Order by column out of bounds", "42P10"),
    ("Cannot find column with position ", "42P10"),
    ("must appear in select list", "42P10"),
    ("Order by index starts at 1", "42P10"),
    ("DISTINCT ON expressions must match ", "42P10"),
    ("ORDER BY expressions must appear in argument list", "42P10"),
    ("cannot be larger than end bound", "42P20"),
    ("RANGE requires exactly one ORDER BY column", "42P20"),
    ("GROUPS requires an ORDER BY clause", "42P20"),
    (" is defined multiple times", "42P20"),
    ("cannot contain window function calls", "42803"),
    ("\" specified more than once", "42712"),
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

/// What DataFusion says of operands that an operator does not have, before them and behind them.
const OF_OPERATORS: [(&str, &str); 6] = [
    ("Cannot coerce arithmetic expression ", " to valid types"),
    ("Cannot infer common argument type for comparison operation ", ""),
    ("Cannot infer common argument type for regex operation ", ""),
    ("Cannot infer common argument type for operation ", ""),
    ("Cannot infer common string type for string concat operation ", ""),
    ("There isn't a common type to coerce ", " expression"),
];

/// What other databases have and DataFusion has no plan for, by how its message begins, and what is written
/// instead.
const INSTEAD: [(&str, &str); 5] = [
    ("TOP", "TOP is not supported; write LIMIT behind the query"),
    ("MINUS ", "MINUS is not supported; write EXCEPT"),
    ("Unsupported ast node in sqltorel: RLike", "RLIKE and REGEXP are not supported; write a ~ 'pattern'"),
    ("Unsupported ast node in sqltorel: Convert", "CONVERT is not supported; write CAST(a AS type)"),
    ("Unsupported ast node in sqltorel: ", "this kind of expression is not supported"),
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

/// Returns the error of what DataFusion has no plan for.
pub fn not_implemented(message: &str) -> Error {
    if message.contains(OF_WINDOW) {
        let message = "a window function cannot be here; filter by it with QUALIFY, or in a query around it";
        return Error::new(ErrorKind::Syntax, message).with_sqlstate("42P20");
    }
    if let Some(name) = message.strip_prefix(OF_TYPE) {
        let message = format!("no type {}", name.trim());
        return Error::new(ErrorKind::UnknownName, message).with_sqlstate("42704");
    }
    if let Some((from, to)) =
        message.strip_prefix("Unsupported CAST from ").and_then(|types| types.rsplit_once(" to "))
    {
        let message = format!("cannot cast {} to {}", shown_type(from), shown_type(to));
        return Error::invalid_input(message).with_sqlstate("42846");
    }
    let place = Mark { word: None, line_and_column: place_in(message) };
    let instead = INSTEAD.iter().find(|(beginning, _)| message.starts_with(beginning));
    if let Some((_, instead)) = instead {
        return Error::unsupported(*instead).marked(place);
    }
    let message = plain(message);
    let told = match message.strip_prefix("Unsupported SQL statement: ") {
        Some(statement) => format!("{statement} is not supported"),
        None => format!("not supported: {message}"),
    };
    Error::unsupported(told).marked(place)
}

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

/// Returns the error of memory that is exhausted, with the limit to raise unless it is the query's own.
pub fn out_of_memory(message: &str) -> Error {
    let raise = if message.contains("query_memory_limit") { "" } else { "; raise memory_limit" };
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

/// Returns what users do wrong and DataFusion takes for mistakes of its own.
pub fn internal_error(message: &str) -> Error {
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

/// Returns what stands between two texts.
fn between<'a>(message: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(message.split_once(before)?.1.split_once(after)?.0)
}

/// Returns the SQL name of a type that Arrow has displayed.
fn shown_type(shown: &str) -> String {
    shown.parse().map_or_else(|_| shown.to_string(), |data_type| type_name(&data_type))
}

/// Returns the error of a cast, a comparison or a text that is no value of a type.
pub fn cast_error(message: &str) -> Error {
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
        let shown = match shown.trim_end_matches(" type") {
            // Arrow shows the digits that it has where none are given, not those of the type.
            decimal if decimal.starts_with("Decimal") => "DECIMAL".to_string(),
            shown => shown_type(shown),
        };
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

/// Returns the error of a value, at which a plan has stopped.
pub fn execution_error(message: &str) -> Error {
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

/// Returns the name of a table that the planner does not find, without the schemas where it has looked.
pub fn unresolved_table(error: &DataFusionError) -> Option<String> {
    let DataFusionError::Plan(message) = error.find_root() else { return None };
    let name = message.strip_prefix("table '")?.strip_suffix("' not found")?;
    name.rsplit('.').next().map(str::to_string)
}

/// Returns the error that no function has the name, or takes the types.
fn function_error(message: &str) -> Option<Error> {
    let of = |kind, message: String| Some(Error::new(kind, message).with_sqlstate("42883"));
    if let Some(name) = between(message, OF_FUNCTION, "'") {
        if WINDOW_FUNCTIONS.contains(&name.to_ascii_lowercase().as_str()) {
            let message = format!("\"{name}\" is a window function: write {name}(…) OVER (…)");
            let error = Error::new(ErrorKind::Syntax, message).with_sqlstate("42809");
            return Some(error.about(name));
        }
        // DataFusion always suggests a name, however different it is.
        let suggestion = did_you_mean(name, between(message, SUGGESTED, "'"));
        return of(ErrorKind::UnknownName, format!("no function \"{name}\"{suggestion}"))
            .map(|error| error.about(name));
    }
    if let Some(name) = between(message, "table function '", "' not found") {
        let suggestion = did_you_mean(name, IN_FROM);
        return of(ErrorKind::UnknownName, format!("no function \"{name}\" that gives rows{suggestion}"))
            .map(|error| error.about(name));
    }
    let call = between(message, "No function matches the given name and argument types '", "'. You might")?;
    let (name, types) = call.strip_suffix(')')?.split_once('(')?;
    let types = plain(types);
    if let Some(message) = sign_error(name, &types) {
        return of(ErrorKind::Syntax, message);
    }
    let candidates = message.split_once("Candidate functions:").map_or("", |(_, candidates)| candidates);
    let candidates: Vec<&str> =
        candidates.lines().map(str::trim).filter(|one| !one.is_empty() && is_of_types(one)).collect();
    let candidates = match candidates.is_empty() {
        true => String::new(),
        false => format!("; there are {}", plain(&candidates.join(", "))),
    };
    of(ErrorKind::Syntax, format!("no function {name}({types}){candidates}")).map(|error| error.about(name))
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

/// Returns the error (42883) of an operator that does not take its operands.
fn operator_error(message: &str) -> Option<Error> {
    let operands = OF_OPERATORS.iter().find_map(|(before, behind)| {
        let rest = message.split_once(before)?.1;
        if behind.is_empty() { Some(rest) } else { Some(rest.split_once(behind)?.0) }
    })?;
    let operands = plain(operands);
    // That of LIKE stands behind both.
    let named = operands.rsplit_once(" in ").and_then(|(both, operator)| {
        let (left, right) = both.split_once(" and ")?;
        Some(format!("{left} {operator} {right}"))
    });
    let message = format!("no operator {}; a cast may help", named.unwrap_or(operands));
    Some(Error::new(ErrorKind::Syntax, message).with_sqlstate("42883"))
}

/// Returns the error of a part of a query that has another type, or number of columns, than it has to.
fn shape_error(message: &str) -> Option<Error> {
    let of = |message: String, sqlstate| Some(Error::new(ErrorKind::Syntax, message).with_sqlstate(sqlstate));
    let condition = ["non-boolean predicate '", "condition must be boolean type, but got "];
    if condition.iter().any(|words| message.contains(words)) {
        let shown = message.rsplit_once(" returning ").or_else(|| message.rsplit_once(" but got "))?.1;
        return of(format!("a condition is a BOOLEAN, not a {}", shown_type(shown.trim())), "42804");
    }
    if let Some(field) = between(message, "Field ", " not found in struct") {
        let error = Error::new(ErrorKind::UnknownName, format!("no field \"{field}\" in the structure"));
        return Some(error.with_sqlstate("42703").about(field));
    }
    if message.contains("Too many columns! The subquery should only return one column") {
        return of("the subquery stands for one value and has more than one column".into(), "42601");
    }
    if let Some(place) = between(message, "Order by column out of bounds, specified: ", ",") {
        return of(format!("ORDER BY position {place} is not in the SELECT list"), "42P10");
    }
    if let Some(place) = between(message, "Cannot find column with position ", " in SELECT clause") {
        return of(format!("GROUP BY position {place} is not in the SELECT list"), "42P10");
    }
    if let Some(name) = between(message, "variable [\"", "\"") {
        return of(format!("no variable \"{name}\"; parameters are written ?, $1 or $name"), "42704");
    }
    None
}

/// Returns the error of a statement that the planner refuses.
pub fn plan_error(message: &str) -> Error {
    let known = [function_error, operator_error, of_other_types, shape_error];
    if let Some(error) = known.into_iter().find_map(|known: fn(&str) -> Option<Error>| known(message)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_datafusion;
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
    fn digits_are_those_of_a_decimal() {
        let message =
            "12345678901.00 is too large to store in a Decimal128 of precision 9. Max is 9999999.99";
        assert_eq!(of_digits(message), "12345678901.00 is too large for a DECIMAL of 9 digits");
        assert_eq!(of_digits("other"), "other");
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
                "Order by column out of bounds, specified: 5, max: 1",
                "ORDER BY position 5 is not in the SELECT list",
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
