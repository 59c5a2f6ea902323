//! `text GLOB pattern`, as in DuckDB: `*` stands for any text, `?` for any letter, `[a-z]` and `[!a-z]` for one
//! of some letters and for one of the others, and a backslash before a letter for this letter.

use crate::builtin::{Described, Kind};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    // The text, and the pattern.
    Described::new(&["glob_match"], &[Kind::Text, Kind::Text], |_| Ok(DataType::Boolean), matched),
];

/// What stands in a pattern.
#[derive(Debug, PartialEq, Eq)]
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
    fn is(&self, letter: char) -> bool {
        match self {
            Self::AnyText | Self::AnyLetter => true,
            Self::Letter(known) => *known == letter,
            Self::OneOf { ranges, is_denied } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&letter)) != *is_denied
            }
        }
    }
}

fn matched(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (texts, patterns) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
    let mut last: Option<(&str, Vec<Part>)> = None;
    let mut letters: Vec<char> = Vec::new();
    let mut found = Vec::with_capacity(rows);
    for row in 0..rows {
        if texts.is_null(row) || patterns.is_null(row) {
            found.push(None);
            continue;
        }
        let pattern = patterns.value(row);
        if last.as_ref().is_none_or(|(known, _)| *known != pattern) {
            last = Some((pattern, parts_of(pattern)));
        }
        letters.clear();
        letters.extend(texts.value(row).chars());
        found.push(last.as_ref().map(|(_, parts)| is_like(&letters, parts)));
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

/// Says whether a text is like a pattern. What does not fit is tried again with one more letter for the last
/// `*` before it, which is enough: those before it have what they need.
fn is_like(text: &[char], parts: &[Part]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(place) {
            Some(Part::AnyText) => {
                place += 1;
                last = Some((place, at));
            }
            Some(part) if part.is(text[at]) => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((behind, taken)) = &mut last else { return false };
                *taken += 1;
                (place, at) = (*behind, *taken);
            }
        }
    }
    parts[place..].iter().all(|part| *part == Part::AnyText)
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

/// Returns what stands between brackets of which the first one is before a place, and where that ends. Without
/// an end, it is no letter.
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
    use super::{is_like, parts_of};

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
            ("a", "[a", false),
            ("[a", "[a", false),
            ("*", "\\*", true),
            ("a", "\\*", false),
            ("\\", "\\", true),
        ] {
            let letters: Vec<char> = text.chars().collect();
            assert_eq!(is_like(&letters, &parts_of(pattern)), expected, "{text} GLOB {pattern}");
        }
    }
}
