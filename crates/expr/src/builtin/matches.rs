//! All that a regular expression finds in a text, as in DuckDB.

use crate::builtin::{Described, Kind, refused};
use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::Error;
use regex::{Regex, RegexBuilder};
use std::sync::Arc;

/// The text, the pattern, the group of it that is wanted, and options.
pub(super) const FUNCTIONS: &[Described] = &[Described::new(
    &["regexp_extract_all"],
    &[Kind::Text, Kind::Text, Kind::Integer, Kind::Text],
    |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
    extracted,
)
.optional(2)];

fn extracted(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (texts, patterns) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
    let groups = args.get(2).map(|groups| groups.as_primitive::<Int64Type>());
    let options = args.get(3).map(|options| options.as_string::<i32>());
    let mut lists = ListBuilder::new(StringBuilder::new());
    let mut last: Option<(&str, &str, Regex)> = None;
    for row in 0..rows {
        if args.iter().any(|argument| argument.is_null(row)) {
            lists.append_null();
            continue;
        }
        let (pattern, options) = (patterns.value(row), options.map_or("", |options| options.value(row)));
        if last.as_ref().is_none_or(|(known, of, _)| (*known, *of) != (pattern, options)) {
            last = Some((pattern, options, compiled(pattern, options)?));
        }
        let Some((_, _, regex)) = &last else { continue };
        let group = groups.map_or(0, |groups| groups.value(row));
        let there = regex.captures_len();
        let group = usize::try_from(group).ok().filter(|group| *group < there).ok_or_else(|| {
            refused(format!(
                "regexp_extract_all(): the pattern has no group {group}; its last is {}",
                there - 1
            ))
        })?;
        extract(texts.value(row), regex, group, lists.values());
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// Appends what a group of each match is, NULL where it is not part of the match. An empty match may
/// follow another one at once.
fn extract(text: &str, regex: &Regex, group: usize, found: &mut StringBuilder) {
    let mut at = 0;
    while at <= text.len()
        && let Some(captures) = regex.captures_at(text, at)
        && let Some(all) = captures.get(0)
    {
        found.append_option(captures.get(group).map(|part| part.as_str()));
        let next = text[all.end()..].chars().next().map_or(1, char::len_utf8);
        at = if all.is_empty() { all.end() + next } else { all.end() };
    }
}

fn compiled(pattern: &str, options: &str) -> Result<Regex> {
    let mut literal = false;
    let (mut insensitive, mut dot_matches_newline) = (false, false);
    for option in options.chars() {
        match option {
            'c' => insensitive = false,
            'i' => insensitive = true,
            'l' => literal = true,
            'm' | 'n' | 'p' => dot_matches_newline = false,
            's' => dot_matches_newline = true,
            other => return Err(refused(format!("regexp_extract_all() has no option {other:?}"))),
        }
    }
    let pattern = if literal { regex::escape(pattern) } else { pattern.to_string() };
    let mut builder = RegexBuilder::new(&pattern);
    let built = builder.case_insensitive(insensitive).dot_matches_new_line(dot_matches_newline).build();
    built.map_err(|error| external(Error::invalid_input(error.to_string()).with_sqlstate("2201B")))
}
