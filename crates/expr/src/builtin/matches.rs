//! What a regular expression finds in a text, and the parts of a text between.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use crate::pattern::{as_replacement, check_pattern};
use crate::regular::{Last, Regular};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, ilike, like, not};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::error::Result;
use regex::{Captures, Regex};
use std::sync::Arc;

/// LIKE with patterns that differ from row to row.
pub(crate) const LIKE_EACH: &str = "like_each";

/// `regexp_replace` from some place on.
pub(super) const REPLACED_FROM: &str = "regexp_replace_from";

pub(super) const FUNCTIONS: &[Described] = &[
    // The text, the pattern, the group of it that is wanted, and options.
    Described::new(
        &["regexp_extract_all"],
        &[Kind::Text, Kind::Text, Kind::Integer, Kind::Text],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
        extracted,
    )
    .optional(2),
    Described::new(
        &["regexp_split_to_array", "string_split_regex", "str_split_regex"],
        &[Kind::Text, Kind::Text, Kind::Text],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
        split,
    )
    .optional(1),
    // The groups of the first match, or all of it where there is no group; and PostgreSQL's options.
    Described::new(
        &["regexp_match"],
        &[Kind::Text, Kind::Text, Kind::Text],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
        first_match,
    )
    .optional(1),
    // The first argument is a structure whose fields have the names of the groups.
    Described::new(
        &["named_groups"],
        &[Kind::Any, Kind::Text, Kind::Text, Kind::Text],
        |types| groups_type(&types[0]),
        named_groups,
    )
    .optional(1),
    // The first group of the match, or all of it where there is no group.
    Described::new(
        &["substring_of_pattern"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            let part = |regex: &Regex, text: &str, _: usize| {
                let captures = regex.captures(text)?;
                captures.get(usize::from(captures.len() > 1)).map(|part| part.as_str().to_string())
            };
            matched(args, rows, None, "substring", part)
        },
    ),
    // The text, the pattern, where to begin, which match, options, and the group that is wanted.
    Described::new(
        &["regexp_substr"],
        &[Kind::Text, Kind::Text, Kind::Integer, Kind::Integer, Kind::Text, Kind::Integer],
        |_| Ok(DataType::Utf8),
        substring,
    )
    .optional(4),
    // The text, the pattern, where to begin, which match, whether the place behind it is wanted, options, and
    // the group that is wanted.
    Described::new(
        &["regexp_instr"],
        &[Kind::Text, Kind::Text, Kind::Integer, Kind::Integer, Kind::Integer, Kind::Text, Kind::Integer],
        |_| Ok(DataType::Int64),
        places,
    )
    .optional(5),
    // What regexp_replace() is with where to begin, which match, or 0 for all of them, and options.
    Described::new(
        &[REPLACED_FROM],
        &[Kind::Text, Kind::Text, Kind::Text, Kind::Integer, Kind::Integer, Kind::Text],
        |_| Ok(DataType::Utf8),
        replaced,
    )
    .optional(2),
    // The patterns, the text, and what is asked of them, as in `not like any`.
    Described::new(&["like_list"], &[Kind::List, Kind::Text, Kind::Text], |_| Ok(DataType::Boolean), liked),
    // A pattern, the text, and what is asked of them.
    Described::new(
        &[LIKE_EACH],
        &[Kind::Text, Kind::Text, Kind::Text],
        |_| Ok(DataType::Boolean),
        liked_each,
    ),
    Described::new(
        &["regexp_full_match"],
        &[Kind::Text, Kind::Text, Kind::Text],
        |_| Ok(DataType::Boolean),
        |args, rows| {
            let is_all = |regex: &Regex, text: &str, _: usize| {
                Some(regex.find_iter(text).any(|found| found.len() == text.len()))
            };
            Ok(Arc::new(
                found_in(args, rows, (args.len() > 2).then_some(2), "regexp_full_match", is_all)?
                    .into_iter()
                    .collect::<BooleanArray>(),
            ))
        },
    )
    .optional(1),
];

/// Reads a pattern with its options, for the function of a name.
type Compile = fn(&str, &str, &str) -> Result<Arc<Regex>>;

/// The patterns of rows, of which many follow one another that are the same.
struct Patterns<'a> {
    patterns: &'a StringArray,
    options: Option<&'a StringArray>,
    name: &'a str,
    compile: Compile,
    last: Last<'a>,
}

impl<'a> Patterns<'a> {
    /// The second argument is the pattern, and the one at `options`, where it is given, are its options.
    fn new(args: &'a [ArrayRef], options: Option<usize>, name: &'a str, compile: Compile) -> Self {
        let options = options.and_then(|place| args.get(place)).map(|options| options.as_string::<i32>());
        Self { patterns: args[1].as_string::<i32>(), options, name, compile, last: Last::default() }
    }

    /// Returns what the pattern of a row is read as.
    fn regex(&mut self, row: usize) -> Result<&Regex> {
        let pattern = self.patterns.value(row);
        let options = self.options.map_or("", |options| options.value(row));
        let (name, compile) = (self.name, self.compile);
        self.last.regex(pattern, options, || compile(pattern, options, name))
    }
}

/// Returns what is found of each text; nothing where an argument is NULL.
fn found_in<T>(
    args: &[ArrayRef],
    rows: usize,
    options: Option<usize>,
    name: &str,
    find: impl Fn(&Regex, &str, usize) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let texts = args[0].as_string::<i32>();
    let mut patterns = Patterns::new(args, options, name, compiled);
    let mut found = Vec::with_capacity(rows);
    for row in 0..rows {
        found.push(match args.iter().any(|argument| argument.is_null(row)) {
            true => None,
            false => find(patterns.regex(row)?, texts.value(row), row),
        });
    }
    Ok(found)
}

fn matched(
    args: &[ArrayRef],
    rows: usize,
    options: Option<usize>,
    name: &str,
    find: impl Fn(&Regex, &str, usize) -> Option<String>,
) -> Result<ArrayRef> {
    Ok(Arc::new(found_in(args, rows, options, name, find)?.into_iter().collect::<StringArray>()))
}

/// The parts of a text between the matches. An empty match splits only between two characters.
fn split(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let parts = |regex: &Regex, text: &str, _: usize| {
        let (mut parts, mut start) = (Vec::new(), 0);
        for found in regex.find_iter(text) {
            let is_at_end = found.start() == start || found.end() == text.len();
            if !(found.is_empty() && is_at_end) {
                parts.push(text[start..found.start()].to_string());
                start = found.end();
            }
        }
        parts.push(text[start..].to_string());
        Some(parts)
    };
    let mut lists = ListBuilder::new(StringBuilder::new());
    for parts in found_in(args, rows, (args.len() > 2).then_some(2), "regexp_split_to_array", parts)? {
        lists.append_option(parts.map(|parts| parts.into_iter().map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}

/// Says whether each text is like its own pattern. What is asked is the same for all.
fn liked_each(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let asked = args[2].as_string::<i32>();
    let asked = if rows > 0 && asked.is_valid(0) { asked.value(0) } else { "like" };
    let is_like = match asked.contains("ilike") {
        true => ilike(&args[1], &args[0])?,
        false => like(&args[1], &args[0])?,
    };
    Ok(Arc::new(if asked.starts_with("not ") { not(&is_like)? } else { is_like }))
}

/// Says whether texts are like any of the patterns of a list, or like all of them.
fn liked(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let of_texts = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    let is_of_texts = match args[0].data_type() {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            of.data_type().is_string() || of.data_type().is_null()
        }
        _ => true,
    };
    if !is_of_texts {
        return Err(refused("LIKE with ANY or ALL takes a list of texts"));
    }
    let lists = cast(&args[0], &of_texts)?;
    let lists = lists.as_list::<i32>();
    let (texts, asked) = (args[1].as_string::<i32>(), args[2].as_string::<i32>());
    let mut found = Vec::with_capacity(rows);
    while found.len() < rows {
        let first = found.len();
        if lists.is_null(first) || asked.is_null(first) {
            found.push(None);
            continue;
        }
        let patterns = lists.value(first);
        let patterns = patterns.as_string::<i32>();
        let is_same = |row: usize| {
            !lists.is_null(row)
                && !asked.is_null(row)
                && asked.value(row) == asked.value(first)
                && lists.value(row).as_string::<i32>() == patterns
        };
        let end = (first + 1..rows).find(|row| !is_same(*row)).unwrap_or(rows);
        found.extend(liked_by(patterns, asked.value(first), &texts.slice(first, end - first))?);
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

/// Says whether texts are like the patterns of one list: each pattern is read once for all of them.
fn liked_by(patterns: &StringArray, asked: &str, texts: &StringArray) -> Result<Vec<Option<bool>>> {
    let (is_all, is_negated) = (asked.ends_with("all"), asked.starts_with("not "));
    if patterns.is_empty() {
        return Ok(vec![Some(is_all); texts.len()]);
    }
    let mut decided = vec![false; texts.len()];
    for pattern in patterns.iter().flatten() {
        check_pattern(pattern)?;
        let pattern = StringArray::new_scalar(pattern);
        let is_like = match asked.contains("ilike") {
            true => ilike(texts, &pattern)?,
            false => like(texts, &pattern)?,
        };
        // Who asks for any looks for true, and who asks for all for false.
        for (decided, is) in decided.iter_mut().zip(&is_like) {
            *decided |= is.is_some_and(|is| (is != is_negated) != is_all);
        }
    }
    let is_open = patterns.null_count() > 0;
    let told = |(row, decided): (usize, bool)| match decided {
        _ if texts.is_null(row) => None,
        true => Some(!is_all),
        false => (!is_open).then_some(is_all),
    };
    Ok(decided.into_iter().enumerate().map(told).collect())
}

/// The groups of the first match; one that is not part of the match is NULL.
fn first_match(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let texts = args[0].as_string::<i32>();
    let mut patterns = Patterns::new(args, Some(2), "regexp_match", compiled_with_options);
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        if args.iter().any(|argument| argument.is_null(row)) {
            lists.append_null();
            continue;
        }
        let Some(captures) = patterns.regex(row)?.captures(texts.value(row)) else {
            lists.append_null();
            continue;
        };
        for group in captures.iter().skip(usize::from(captures.len() > 1)) {
            lists.values().append_option(group.map(|part| part.as_str()));
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn groups_type(names: &DataType) -> Result<DataType> {
    let DataType::Struct(names) = names else {
        return Err(refused("the names of groups are fields of a structure"));
    };
    for (place, name) in names.iter().enumerate() {
        if names.iter().take(place).any(|other| other.name().eq_ignore_ascii_case(name.name())) {
            return Err(refused(format!("regexp_extract() has the name '{}' twice", name.name())));
        }
    }
    Ok(DataType::Struct(names.iter().map(|name| Field::new(name.name(), DataType::Utf8, true)).collect()))
}

/// The groups of the first match, each as a field: empty where there is no match, or where it is not part of
/// the match.
fn named_groups(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let DataType::Struct(fields) = groups_type(args[0].data_type())? else {
        return Err(refused("the names of groups are fields of a structure"));
    };
    let wanted = fields.len();
    let groups = |regex: &Regex, text: &str, _: usize| {
        let there = regex.captures_len() - 1;
        if wanted > there {
            let message =
                format!("regexp_extract(): {wanted} names are given, and the pattern has {there} groups");
            return Some(Err(refused(message)));
        }
        let captures = regex.captures(text);
        let group = |place: usize| {
            let part = captures.as_ref().and_then(|captures| captures.get(place + 1));
            part.map_or_else(String::new, |part| part.as_str().to_string())
        };
        Some(Ok((0..wanted).map(group).collect::<Vec<String>>()))
    };
    let found = found_in(&args[1..], rows, (args.len() > 3).then_some(2), "regexp_extract", groups)?;
    let found = found.into_iter().map(Option::transpose).collect::<Result<Vec<_>>>()?;
    let column = |place: usize| -> ArrayRef {
        let values = found.iter().map(|groups| groups.as_ref().map(|groups| groups[place].as_str()));
        Arc::new(values.collect::<StringArray>())
    };
    let nulls = NullBuffer::from(found.iter().map(Option::is_some).collect::<Vec<bool>>());
    let columns = (0..wanted).map(column).collect();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, Some(nulls), rows)?))
}

fn substring(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    for row in 0..rows {
        let (start, nth, group) = (number(args, 2, row, 1), number(args, 3, row, 1), number(args, 5, row, 0));
        let is_null = args.iter().any(|argument| argument.is_null(row));
        if !is_null && (start < 1 || nth < 1 || group < 0) {
            return Err(refused(
                "regexp_substr(): where to begin and which match are 1 or more, the group 0 or more",
            ));
        }
    }
    let part = |regex: &Regex, text: &str, row: usize| {
        let start = place_of(text, number(args, 2, row, 1))?;
        let nth = usize::try_from(number(args, 3, row, 1) - 1).ok()?;
        let captures = matches_from(regex, text, start).nth(nth)?;
        captures.get(usize::try_from(number(args, 5, row, 0)).ok()?).map(|part| part.as_str().to_string())
    };
    matched(args, rows, (args.len() > 4).then_some(4), "regexp_substr", part)
}

/// Returns the number in an argument, or a default where it is not given.
fn number(args: &[ArrayRef], place: usize, row: usize, default: i64) -> i64 {
    args.get(place).map_or(default, |numbers| numbers.as_primitive::<Int64Type>().value(row))
}

/// Returns the place behind so many characters; `None` behind the end of the text.
pub(crate) fn place_of(text: &str, character: i64) -> Option<usize> {
    let skipped = usize::try_from(character.checked_sub(1)?).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(skipped)
}

/// Returns the matches from a place on. An empty match may follow another one at once.
fn matches_from<'t>(regex: &Regex, text: &'t str, start: usize) -> impl Iterator<Item = Captures<'t>> {
    let mut at = start;
    std::iter::from_fn(move || {
        let captures = if at <= text.len() { regex.captures_at(text, at)? } else { return None };
        let all = captures.get(0)?;
        let next = text[all.end()..].chars().next().map_or(1, char::len_utf8);
        at = if all.is_empty() { all.end() + next } else { all.end() };
        Some(captures)
    })
}

/// The places of matches, or of a group of them; 0 where there is none.
fn places(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    for row in (0..rows).filter(|row| !args.iter().any(|argument| argument.is_null(*row))) {
        let of = |place: usize, default: i64| number(args, place, row, default);
        if of(2, 1) < 1 || of(3, 1) < 1 || !(0..=1).contains(&of(4, 0)) || of(6, 0) < 0 {
            return Err(refused(
                "regexp_instr(): where to begin and which match are 1 or more, the option of the end is 0 or 1, and the \
                 group 0 or more",
            ));
        }
    }
    let place = |regex: &Regex, text: &str, row: usize| {
        let place = || {
            let start = place_of(text, number(args, 2, row, 1))?;
            let nth = usize::try_from(number(args, 3, row, 1) - 1).ok()?;
            let captures = matches_from(regex, text, start).nth(nth)?;
            let part = captures.get(usize::try_from(number(args, 6, row, 0)).ok()?)?;
            let at = if number(args, 4, row, 0) == 1 { part.end() } else { part.start() };
            Some(text[..at].chars().count() as i64 + 1)
        };
        Some(place().unwrap_or(0))
    };
    let mut patterns = Patterns::new(args, Some(5), "regexp_instr", compiled_with_options);
    let texts = args[0].as_string::<i32>();
    let mut found: Vec<Option<i64>> = Vec::with_capacity(rows);
    for row in 0..rows {
        found.push(match args.iter().any(|argument| argument.is_null(row)) {
            true => None,
            false => place(patterns.regex(row)?, texts.value(row), row),
        });
    }
    Ok(Arc::new(Int64Array::from(found)))
}

/// The texts with another one in the place of a match, or of all of them.
fn replaced(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (texts, with) = (args[0].as_string::<i32>(), args[2].as_string::<i32>());
    let mut patterns = Patterns::new(args, Some(5), "regexp_replace", compiled_for_several);
    let mut found: Vec<Option<String>> = Vec::with_capacity(rows);
    for row in 0..rows {
        if args.iter().any(|argument| argument.is_null(row)) {
            found.push(None);
            continue;
        }
        let (first, nth) = (number(args, 3, row, 1), number(args, 4, row, 1));
        if first < 1 || nth < 0 {
            return Err(refused("regexp_replace(): where to begin is 1 or more, and which match 0 or more"));
        }
        let text = texts.value(row);
        let regex = patterns.regex(row)?;
        let with = as_replacement(with.value(row));
        found.push(Some(match place_of(text, first) {
            Some(start) => replaced_from(regex, text, &with, start, nth),
            None => text.to_string(),
        }));
    }
    Ok(Arc::new(found.into_iter().collect::<StringArray>()))
}

fn replaced_from(regex: &Regex, text: &str, with: &str, start: usize, nth: i64) -> String {
    let (mut out, mut copied) = (String::new(), 0);
    for (captures, count) in matches_from(regex, text, start).zip(1_i64..) {
        if nth > 0 && count != nth {
            continue;
        }
        if let Some(all) = captures.get(0) {
            out.push_str(&text[copied..all.start()]);
            captures.expand(with, &mut out);
            copied = all.end();
        }
        if nth > 0 {
            break;
        }
    }
    out.push_str(&text[copied..]);
    out
}

fn extracted(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let texts = args[0].as_string::<i32>();
    let groups = args.get(2).map(|groups| groups.as_primitive::<Int64Type>());
    let mut patterns = Patterns::new(args, Some(3), "regexp_extract_all", compiled);
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        if args.iter().any(|argument| argument.is_null(row)) {
            lists.append_null();
            continue;
        }
        let regex = patterns.regex(row)?;
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

fn compiled(pattern: &str, options: &str, name: &str) -> Result<Arc<Regex>> {
    let mut literal = false;
    let (mut insensitive, mut dot_matches_newline) = (false, false);
    for option in options.chars() {
        match option {
            'c' => insensitive = false,
            'g' => {}
            'i' => insensitive = true,
            'l' => literal = true,
            'm' | 'n' | 'p' => dot_matches_newline = false,
            's' => dot_matches_newline = true,
            other => return Err(refused(format!("{name}() has no option {other:?}"))),
        }
    }
    let pattern = if literal { regex::escape(pattern) } else { pattern.to_string() };
    let regular = Regular { pattern, is_insensitive: insensitive, ..Regular::default() };
    Regular { dot_is_any: dot_matches_newline, ..regular }.compiled()
}

/// The same, where `g` is known, and says nothing.
fn compiled_for_several(pattern: &str, options: &str, name: &str) -> Result<Arc<Regex>> {
    compiled_with_options(pattern, &options.replace('g', ""), name)
}

/// Reads the options of PostgreSQL. Without one, a dot is no new line, as everywhere here.
fn compiled_with_options(pattern: &str, options: &str, name: &str) -> Result<Arc<Regex>> {
    let (mut is_literal, mut is_insensitive, mut is_spaced) = (false, false, false);
    let (mut has_lines, mut dot_is_any) = (false, false);
    for option in options.chars() {
        match option {
            'c' => is_insensitive = false,
            'i' => is_insensitive = true,
            'm' | 'n' => (has_lines, dot_is_any) = (true, false),
            'p' => (has_lines, dot_is_any) = (false, false),
            's' => (has_lines, dot_is_any) = (false, true),
            'w' => (has_lines, dot_is_any) = (true, true),
            't' => is_spaced = false,
            'x' => is_spaced = true,
            'q' => is_literal = true,
            'g' => return Err(refused(format!("{name}() finds one match, and has no option 'g'"))),
            other => return Err(refused(format!("{name}() has no option {other:?}"))),
        }
    }
    let pattern = if is_literal { regex::escape(pattern) } else { pattern.to_string() };
    let is_spaced = is_spaced && !is_literal;
    Regular { pattern, is_insensitive, has_lines, dot_is_any, is_spaced }.compiled()
}
