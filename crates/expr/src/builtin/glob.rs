//! `text GLOB pattern`, as in DuckDB: `*` stands for any text, `?` for any letter, `[a-z]` and `[!a-z]` for
//! one of some letters and for one of the others, and a backslash before a letter for this letter.

use crate::builtin::written::{Described, Kind};
use crate::regular::{Last, Regular};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use regex::Regex;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    // The text, and the pattern.
    Described::new(&["glob_match"], &[Kind::Text, Kind::Text], |_| Ok(DataType::Boolean), matched),
];

/// What stands in a pattern.
enum Part {
    AnyText,
    AnyLetter,
    Letter(char),
    /// One of the letters between some, or one of the others.
    OneOf {
        ranges: Vec<(char, char)>,
        is_denied: bool,
    },
}

impl Part {
    /// Returns the part as one of a regular expression.
    fn written(&self) -> String {
        let number = |letter: char| format!("\\x{{{:X}}}", u32::from(letter));
        match self {
            Self::AnyText => ".*".to_string(),
            Self::AnyLetter => ".".to_string(),
            Self::Letter(letter) => number(*letter),
            Self::OneOf { ranges, is_denied } => {
                let ranges = ranges.iter().filter(|(low, high)| low <= high);
                let ranges: String =
                    ranges.map(|(low, high)| format!("{}-{}", number(*low), number(*high))).collect();
                match (ranges.is_empty(), *is_denied) {
                    (true, true) => ".".to_string(),
                    (true, false) => "[a&&b]".to_string(),
                    (false, true) => format!("[^{ranges}]"),
                    (false, false) => format!("[{ranges}]"),
                }
            }
        }
    }
}

fn matched(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (texts, patterns) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
    let mut last = Last::default();
    let mut found = Vec::with_capacity(rows);
    for row in 0..rows {
        if texts.is_null(row) || patterns.is_null(row) {
            found.push(None);
            continue;
        }
        let pattern = patterns.value(row);
        let regex = last.regex(pattern, "", || expression_of(pattern))?;
        found.push(Some(regex.is_match(texts.value(row))));
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

/// Returns the regular expression that a pattern means: its library bounds what a pattern costs.
fn expression_of(pattern: &str) -> Result<Arc<Regex>> {
    let parts: String = parts_of(pattern).iter().map(Part::written).collect();
    Regular { pattern: format!("\\A{parts}\\z"), dot_is_any: true, ..Regular::default() }.compiled()
}

fn parts_of(pattern: &str) -> Vec<Part> {
    let letters: Vec<char> = pattern.chars().collect();
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < letters.len() {
        let letter = letters[at];
        at += 1;
        parts.push(match letter {
            '*' => Part::AnyText,
            '?' => Part::AnyLetter,
            '\\' if at < letters.len() => {
                at += 1;
                Part::Letter(letters[at - 1])
            }
            '[' => {
                let (part, end) = one_of(&letters, at);
                at = end;
                part
            }
            other => Part::Letter(other),
        });
    }
    parts
}

/// Returns what stands between brackets of which the first one is before a place, and where that ends.
/// Without an end, it is no letter.
fn one_of(letters: &[char], begin: usize) -> (Part, usize) {
    let is_denied = matches!(letters.get(begin), Some('!' | '^'));
    let first = begin + usize::from(is_denied);
    let (mut ranges, mut at) = (Vec::new(), first);
    while let Some(low) = letters.get(at).copied() {
        if low == ']' && at > first {
            return (Part::OneOf { ranges, is_denied }, at + 1);
        }
        match letters.get(at + 1..at + 3) {
            Some(['-', high]) if *high != ']' => {
                ranges.push((low, *high));
                at += 3;
            }
            _ => {
                ranges.push((low, low));
                at += 1;
            }
        }
    }
    (Part::OneOf { ranges: Vec::new(), is_denied: false }, letters.len())
}

#[cfg(test)]
mod tests {
    use super::expression_of;

    #[test]
    fn texts_are_like_patterns() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("abc", "a*", true),
            ("abc", "*c", true),
            ("abc", "a?c", true),
            ("abc", "a", false),
            ("abcabd", "*ab?", true),
            ("abcabd", "*ab*d*", true),
            ("mississippi", "m*iss*ip*", true),
            ("mississippi", "m*iss*x*", false),
            ("ä\nb", "?*b", true),
            ("A", "a", false),
            ("b", "[a-c]", true),
            ("b", "[!a-c]", false),
            ("x", "[^a-c]", true),
            ("-", "[a-]", true),
            ("]", "[]]", true),
            ("b", "[c-a]", false),
            ("b", "[!c-a]", true),
            ("^", "[a^-]", true),
            ("a", "[a", false),
            ("[a", "[a", false),
            ("*", "\\*", true),
            ("a", "\\*", false),
            ("\\", "\\", true),
        ] {
            assert_eq!(expression_of(pattern).unwrap().is_match(text), expected, "{text} GLOB {pattern}");
        }
    }
}
