//! Rewrites DataFusion's messages for users of SQL: without its syntax trees, and with SQL's names
//! of types.

use crate::column_name::unmarked_text;
use crate::type_name::type_name;
use arrow::datatypes::DataType;

/// The first parts of names that only DataFusion's programmers know, in messages that show parts of
/// a syntax tree.
const TREES: [&str; 7] =
    ["span: ", "{ value: ", "ObjectName(", "quote_style: ", "ValueWithSpan", "WindowFunction(", "Field { "];

/// The first parts of types that Arrow displays.
const TYPES: [&str; 35] = [
    "Boolean",
    "LargeUtf8",
    "Utf8View",
    "Utf8",
    "LargeBinary",
    "BinaryView",
    "FixedSizeBinary",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float16",
    "Float32",
    "Float64",
    "Date32",
    "Date64",
    "Time32",
    "Time64",
    "Timestamp",
    "Interval",
    "Duration",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Decimal256",
    "LargeList",
    "FixedSizeList",
    "ListView",
    "List",
    "Struct",
    "Map",
];

/// The texts behind a message of DataFusion that are no part of it.
const ENDINGS: [&str; 3] =
    ["This issue was likely caused by a bug", "Please help us to resolve this", "\n\nbacktrace: "];

/// Words for what a function takes that are no types.
const SIGNATURES: [&str; 12] = [
    "UserDefined",
    "Coercible",
    "Variadic",
    "Uniform",
    "Exact(",
    "Any(",
    "OneOf",
    "TypeSignature",
    "Nullary",
    "ArraySignature",
    "Numeric(",
    "Comparable(",
];

/// Returns the message as a person can read it.
pub fn plain(message: &str) -> String {
    let message = ENDINGS
        .iter()
        .fold(message, |message, ending| message.split_once(ending).map_or(message, |(before, _)| before));
    let message = without_tree(message);
    let message = with_types(message.trim_end());
    unmarked_text(&message.replace("DataFusion", "Hypostyle"))
}

/// Returns the message up to the syntax tree that it shows.
fn without_tree(message: &str) -> String {
    let Some(tree) = TREES.iter().filter_map(|mark| message.find(mark)).min() else {
        return message.to_string();
    };
    // The tree begins with the name before the outermost bracket around it.
    let mut open = Vec::new();
    for (place, character) in message[..tree].char_indices() {
        match character {
            '(' | '{' | '[' => open.push(place),
            ')' | '}' | ']' => {
                open.pop();
            }
            _ => {}
        }
    }
    let begins = message[..open.first().copied().unwrap_or(tree)].trim_end();
    let begins = begins.trim_end_matches(|last: char| last.is_ascii_alphanumeric() || last == '_').len();
    let before = message[..begins].trim_end_matches([' ', ':', ',', '(', '[', '{', '\'', '"', '`']);
    let before = before.trim_end_matches(" got").trim_end_matches(',');
    match before.is_empty() {
        true => "a part of the statement is not supported".to_string(),
        false => before.to_string(),
    }
}

/// Returns the message with the names that types have in SQL.
fn with_types(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let is_within = before.is_alphanumeric() || before == '_';
        if !is_within && let Some((data_type, length)) = type_at(rest) {
            text.push_str(&type_name(&data_type));
            rest = &rest[length..];
            before = ')';
            continue;
        }
        text.push(first);
        before = first;
        rest = &rest[first.len_utf8()..];
    }
    text
}

/// Returns the type that a text begins with, and the length of its name.
fn type_at(text: &str) -> Option<(DataType, usize)> {
    let name = TYPES.iter().find(|name| text.starts_with(**name))?;
    let after = &text[name.len()..];
    if after.starts_with(|next: char| next.is_alphanumeric() || next == '_') {
        return None;
    }
    let length = name.len() + if after.starts_with('(') { parenthesis(after)? } else { 0 };
    text[..length].parse().ok().map(|data_type| (data_type, length))
}

/// Returns the length of what is in the parentheses that a text begins with, with them.
fn parenthesis(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(place + 1);
        }
    }
    None
}

/// Says whether what a function takes is told in types.
pub fn is_of_types(signature: &str) -> bool {
    !SIGNATURES.iter().any(|word| signature.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{is_of_types, plain};

    #[test]
    fn messages_have_neither_trees_nor_names_of_arrow() {
        let cases = [
            (
                "Unsupported JOIN operator Semi(On(BinaryOp { left: CompoundIdentifier([Ident { value: \"a\", span: Span(Location(1,64)..Location(1,65)) }]) }))",
                "Unsupported JOIN operator",
            ),
            (
                "Unsupported interval argument. Expected string literal or number, got: Nested(BinaryOp { left: Value(ValueWithSpan { value: Number(\"1\", false), span: Span(Location(1,18)..Location(1,19)) }) })",
                "Unsupported interval argument. Expected string literal or number",
            ),
            (
                "Cannot coerce arithmetic expression Utf8 + Interval(MonthDayNano) to valid types",
                "Cannot coerce arithmetic expression VARCHAR + INTERVAL to valid types",
            ),
            ("no List here, nor Utf8x", "no List here, nor Utf8x"),
            (
                "wrong.\nThis issue was likely caused by a bug in DataFusion's code. Please help us to resolve this",
                "wrong.",
            ),
            ("Timestamp(µs, \"UTC\") and Decimal128(10, 2)", "TIMESTAMP WITH TIME ZONE and DECIMAL(10,2)"),
        ];
        for (message, shown) in cases {
            assert_eq!(plain(message), shown);
        }
    }

    #[test]
    fn signatures_are_of_types_or_not() {
        assert!(is_of_types("f(BIGINT, VARCHAR)"));
        assert!(!is_of_types("min(UserDefined)"));
    }
}
