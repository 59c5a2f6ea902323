//! The SQLSTATEs of errors that DataFusion has only words for, and better words for some.

use hypostyle_types::{Error, ErrorKind};

/// What DataFusion says of a type that it does not know, before its name.
pub const OF_TYPE: &str = "Unsupported SQL type ";

/// Functions that are known only with OVER.
pub const WINDOW_FUNCTIONS: [&str; 11] = [
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

/// Words of messages, and the SQLSTATEs of these errors.
const STATES: [(&str, &str); 48] = [
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
    ("field position must not be zero", "22023"),
    ("Unsupported date_trunc granularity", "22023"),
    ("Date part '", "22023"),
    (" does not support: Time", "0A000"),
    ("invalid Unicode scalar value: -", "22023"),
    ("invalid Unicode scalar value: ", "54000"),
    ("negative count not allowed", "22011"),
    ("overlay start position must be at least 1", "22011"),
    ("regex parse error", "2201B"),
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
        let message =
            format!("no value was given for the parameter ${}", name.trim().trim_start_matches('$'));
        return Error::invalid_input(message).with_sqlstate("07001");
    }
    match STATES.iter().find(|(words, _)| error.message().contains(words)) {
        Some((_, sqlstate)) => error.with_sqlstate(sqlstate),
        None => error,
    }
}

/// Returns what is said of a number that has too many digits, in words of SQL.
pub fn of_digits(message: &str) -> String {
    let parts = || {
        let (value, rest) = message.split_once(" is too ")?;
        let (size, rest) = rest.split_once(" to store in a Decimal")?;
        let digits = rest.split_once("precision ")?.1;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        Some(format!("{value} is too {size} for a DECIMAL of {} digits", &digits[..end]))
    };
    parts().unwrap_or_else(|| message.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_states() {
        let state = |message: &str| with_state(Error::new(ErrorKind::Syntax, message)).sqlstate().to_string();
        assert_eq!(state("LIMIT must be >= 0, '-1' was provided"), "2201W");
        assert_eq!(state("Cannot coerce arithmetic expression BOOLEAN + BIGINT to valid types"), "42883");
        assert_eq!(state("No value found for placeholder with name $x"), "07001");
        assert_eq!(state("Int32Array overflow on abs(-2147483648)"), "22003");
        assert_eq!(state("invalid Unicode scalar value: -1"), "22023");
        assert_eq!(state("invalid Unicode scalar value: 99999999"), "54000");
        assert_eq!(state("WITH query name \"x\" specified more than once"), "42712");
        assert_eq!(state("The window w is defined multiple times!"), "42P20");
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
}
