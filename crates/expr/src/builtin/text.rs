//! Functions that build a text by a pattern, and of the parts of texts and paths.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use crate::pattern::{WHOLE_PATTERN, check_pattern};
use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::error::Result;
use std::sync::Arc;

/// The largest width or precision in a pattern.
pub const WIDTH_MAX: usize = 1 << 20;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["printf"], &[Kind::Text, Kind::Any], |_| Ok(DataType::Utf8), printed).optional(1).more(),
    // A pattern of LIKE, which is none where it ends in its escape character.
    Described::new(
        &[WHOLE_PATTERN],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| {
            args[0].as_string::<i32>().iter().flatten().try_for_each(check_pattern)?;
            Ok(args[0].clone())
        },
    ),
    // A character, and some, by their places, as those of lists.
    Described::new(
        &["text_element"],
        &[Kind::Text, Kind::Integer],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            let (texts, places) = (args[0].as_string::<i32>(), args[1].as_primitive::<Int64Type>());
            let part = |row: usize| {
                let is_some = texts.is_valid(row) && places.is_valid(row);
                is_some.then(|| part_of(texts.value(row), places.value(row), places.value(row)))
            };
            Ok(Arc::new((0..rows).map(part).collect::<StringArray>()))
        },
    ),
    Described::new(
        &["text_slice"],
        &[Kind::Text, Kind::Integer, Kind::Integer],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            let last = args[2].as_primitive::<Int64Type>();
            let texts = args[0].as_string::<i32>();
            let first = args[1].as_primitive::<Int64Type>();
            let part = |row: usize| {
                let is_some = args.iter().all(|values| values.is_valid(row));
                is_some.then(|| part_of(texts.value(row), first.value(row), last.value(row)))
            };
            Ok(Arc::new((0..rows).map(part).collect::<StringArray>()))
        },
    ),
    // The parts of a text between separators. An empty separator is between all characters.
    Described::new(
        &["string_split", "str_split", "split"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
        |args, _| {
            let (texts, separators) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
            let mut lists = ListBuilder::new(StringBuilder::new());
            for (text, separator) in texts.iter().zip(separators) {
                let parts = text.map(|text| match separator {
                    Some("") if !text.is_empty() => characters(text).map(Some).collect(),
                    None | Some("") => vec![Some(text)],
                    Some(separator) => text.split(separator).map(Some).collect::<Vec<_>>(),
                });
                lists.append_option(parts);
            }
            Ok(Arc::new(lists.finish()))
        },
    ),
    // The path, whether the name loses what is behind its last point, and what separates its parts.
    Described::new(
        &["parse_filename"],
        &[Kind::Text, Kind::Any, Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            parts_of_paths(args, rows, |path, separators, is_trimmed| {
                let name = path.rsplit(separators).next().unwrap_or(path);
                match name.rfind('.').filter(|_| is_trimmed) {
                    Some(point) => &name[..point],
                    None => name,
                }
            })
        },
    )
    .optional(2),
    Described::new(
        &["parse_dirname"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            parts_of_paths(args, rows, |path, separators, _| {
                path.find(separators).map_or("", |end| &path[..end.max(1)])
            })
        },
    )
    .optional(1),
    Described::new(
        &["parse_dirpath"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            parts_of_paths(args, rows, |path, separators, _| {
                match path.rfind(separators) {
                    // The path of the root alone.
                    Some(0) if path.len() == 1 => path,
                    end => &path[..end.unwrap_or(0)],
                }
            })
        },
    )
    .optional(1),
    Described::new(
        &["parse_path"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
        |args, rows| {
            let mut lists = ListBuilder::new(StringBuilder::new());
            each_path(args, rows, |path, separators, _| {
                let parts = path.map(|path| {
                    // What a path begins with is a part of it.
                    let root = path.starts_with(separators).then(|| &path[..1]);
                    let names = path.split(separators).filter(|name| !name.is_empty());
                    root.into_iter().chain(names).map(Some).collect::<Vec<_>>()
                });
                lists.append_option(parts);
            })?;
            Ok(Arc::new(lists.finish()))
        },
    )
    .optional(1),
];

/// Returns the characters from one place to another; negative places count from the end.
fn part_of(text: &str, first: i64, last: i64) -> String {
    let length = text.chars().count() as i64;
    let place = |place: i64| if place < 0 { place.saturating_add(length + 1) } else { place };
    let (first, last) = (place(first).max(1), place(last));
    let skipped = usize::try_from(first - 1).unwrap_or_default();
    let taken = usize::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or_default();
    text.chars().skip(skipped).take(taken).collect()
}

fn characters(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(start, character)| &text[start..start + character.len_utf8()])
}

/// Returns what separates the parts of a path, by its name.
fn separators(name: &str) -> Result<&'static [char]> {
    match name {
        "both_slash" => Ok(&['/', '\\']),
        "system" | "forward_slash" => Ok(&['/']),
        "backslash" => Ok(&['\\']),
        _ => Err(refused(format!(
            "'{name}' is no separator of paths; write 'system', 'both_slash', 'forward_slash' or 'backslash'"
        ))),
    }
}

/// Calls a function with each path that is not NULL, what separates its parts, and whether its name is
/// trimmed; without a path where an argument is NULL.
fn each_path<'a>(
    args: &'a [ArrayRef],
    rows: usize,
    mut with: impl FnMut(Option<&'a str>, &'static [char], bool),
) -> Result<()> {
    let nulls: Vec<Option<NullBuffer>> = args.iter().map(|values| values.logical_nulls()).collect();
    let paths = args[0].as_string::<i32>();
    let options = &args[1..];
    let words = options.iter().find(|values| values.data_type().is_string());
    let words = words.map(|values| cast(values, &DataType::Utf8)).transpose()?;
    let words = words.as_ref().map(|values| values.as_string::<i32>());
    let trimmed = options.iter().find_map(|values| values.as_boolean_opt());
    let is_option = |of: &DataType| of.is_string() || of.is_null() || *of == DataType::Boolean;
    if !options.iter().all(|values| is_option(values.data_type())) {
        return Err(refused("an option of a path is true, false or the name of a separator"));
    }
    for row in 0..rows {
        if nulls.iter().flatten().any(|nulls| nulls.is_null(row)) {
            with(None, &[], false);
            continue;
        }
        let separators = separators(words.map_or("both_slash", |words| words.value(row)))?;
        with(Some(paths.value(row)), separators, trimmed.is_some_and(|trimmed| trimmed.value(row)));
    }
    Ok(())
}

fn parts_of_paths(
    args: &[ArrayRef],
    rows: usize,
    part: impl for<'a> Fn(&'a str, &'static [char], bool) -> &'a str,
) -> Result<ArrayRef> {
    let mut parts = Vec::with_capacity(rows);
    each_path(args, rows, |path, separators, is_trimmed| {
        parts.push(path.map(|path| part(path, separators, is_trimmed)));
    })?;
    Ok(Arc::new(StringArray::from(parts)))
}

/// A specifier of printf, as `%-8.2f`.
struct Specifier {
    left: bool,
    plus: bool,
    blank: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    kind: char,
}

impl Specifier {
    /// Reads the text behind `%`. Also returns the text behind the specifier.
    fn read(text: &str) -> Result<(Self, &str)> {
        let flags = text.find(|c: char| !"-+ 0#".contains(c)).unwrap_or(text.len());
        let (flags, rest) = text.split_at(flags);
        let number = |text: &str| -> (Option<usize>, usize) {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            (text[..end].parse().ok(), end)
        };
        let (width, end) = number(rest);
        let rest = &rest[end..];
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(rest) => {
                let (precision, end) = number(rest);
                (Some(precision.unwrap_or(0)), &rest[end..])
            }
            None => (None, rest),
        };
        let rest = rest.trim_start_matches(['l', 'h', 'z']);
        let kind = rest.chars().next().ok_or_else(|| refused("a pattern of printf() ends behind its %"))?;
        let width = width.unwrap_or(0);
        if width > WIDTH_MAX || precision.is_some_and(|precision| precision > 1000) {
            return Err(refused(format!("a width in printf() is at most {WIDTH_MAX}, a precision 1000")));
        }
        let has = |flag: char| flags.contains(flag);
        let specifier = Self {
            left: has('-'),
            plus: has('+'),
            blank: has(' '),
            zero: has('0'),
            alternate: has('#'),
            width,
            precision,
            kind,
        };
        Ok((specifier, &rest[kind.len_utf8()..]))
    }

    fn write(&self, values: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
        let shown = match self.kind {
            's' => {
                let text = text_at(values, row)?;
                match self.precision {
                    Some(precision) => text.chars().take(precision).collect(),
                    None => text,
                }
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' => {
                let number = cast(&values.slice(row, 1), &DataType::Int64).ok();
                let number = number.filter(|number| number.is_valid(0));
                let number = number.ok_or_else(|| self.misfit(values))?.as_primitive::<Int64Type>().value(0);
                let prefix = |prefix: &'static str| if self.alternate { prefix } else { "" };
                match self.kind {
                    'x' => format!("{}{number:x}", prefix("0x")),
                    'X' => format!("{}{number:X}", prefix("0X")),
                    'o' => format!("{}{number:o}", prefix("0")),
                    'c' => {
                        let character = u32::try_from(number).ok().and_then(char::from_u32);
                        character.ok_or_else(|| self.misfit(values))?.to_string()
                    }
                    _ => self.signed(number < 0, number.unsigned_abs().to_string()),
                }
            }
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
                let number = cast(&values.slice(row, 1), &DataType::Float64).ok();
                let number = number.filter(|number| number.is_valid(0));
                let number = number.ok_or_else(|| self.misfit(values))?;
                let number = number.as_primitive::<Float64Type>().value(0);
                let shown = self.float(number.abs());
                let shown = if self.kind.is_ascii_uppercase() { shown.to_ascii_uppercase() } else { shown };
                self.signed(number.is_sign_negative() && !number.is_nan(), shown)
            }
            other => return Err(refused(format!("printf() has no specifier %{other}"))),
        };
        let missing = self.width.saturating_sub(shown.chars().count());
        match (self.left, self.zero && !"sc".contains(self.kind)) {
            (true, _) => {
                out.push_str(&shown);
                out.extend(std::iter::repeat_n(' ', missing));
            }
            (false, true) => {
                let sign = shown.len() - shown.trim_start_matches(['-', '+', ' ']).len();
                out.push_str(&shown[..sign]);
                out.extend(std::iter::repeat_n('0', missing));
                out.push_str(&shown[sign..]);
            }
            (false, false) => {
                out.extend(std::iter::repeat_n(' ', missing));
                out.push_str(&shown);
            }
        }
        Ok(())
    }

    /// Returns that of numbers with so many digits, with an exponent where that is shorter.
    fn of_digits(digits: usize) -> Self {
        Self {
            left: false,
            plus: false,
            blank: false,
            zero: false,
            alternate: false,
            width: 0,
            precision: Some(digits),
            kind: 'g',
        }
    }

    fn signed(&self, is_negative: bool, shown: String) -> String {
        let sign = match (is_negative, self.plus, self.blank) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        format!("{sign}{shown}")
    }

    /// Returns a number without its sign.
    fn float(&self, number: f64) -> String {
        if !number.is_finite() {
            return if number.is_nan() { "nan".into() } else { "inf".into() };
        }
        let precision = self.precision.unwrap_or(6);
        match self.kind.to_ascii_lowercase() {
            'f' => format!("{number:.precision$}"),
            'e' => exponential(number, precision),
            _ => {
                let digits = precision.max(1);
                let exponent = exponent_of(&exponential(number, digits - 1));
                let shown = match usize::try_from(exponent) {
                    Ok(exponent) if exponent >= digits => exponential(number, digits - 1),
                    Ok(exponent) => format!("{number:.*}", digits - 1 - exponent),
                    Err(_) if exponent < -4 => exponential(number, digits - 1),
                    Err(_) => format!("{number:.*}", digits - 1 + exponent.unsigned_abs() as usize),
                };
                if self.alternate { shown } else { without_zeros(&shown) }
            }
        }
    }

    fn misfit(&self, values: &ArrayRef) -> datafusion::error::DataFusionError {
        let of = hypostyle_error::type_name::type_name(values.data_type());
        refused(format!("printf(): %{} is no specifier of a {of}", self.kind))
    }
}

/// Formats a number as C does: the exponent has a sign and at least two digits.
fn exponential(number: f64, precision: usize) -> String {
    let shown = format!("{number:.precision$e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn exponent_of(shown: &str) -> i32 {
    shown.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Removes the zeros at the end of a fraction.
fn without_zeros(shown: &str) -> String {
    let (mantissa, exponent) = match shown.find('e') {
        Some(at) => shown.split_at(at),
        None => (shown, ""),
    };
    if !mantissa.contains('.') {
        return shown.to_string();
    }
    format!("{}{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
}

fn text_at(values: &ArrayRef, row: usize) -> Result<String> {
    let text = crate::cast::cast(&values.slice(row, 1), &Field::new("", DataType::Utf8, true), false)?;
    Ok(text.as_string::<i32>().value(0).to_string())
}

/// Returns what C's printf writes; NULL where an argument is.
fn printed(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let patterns = args[0].as_string::<i32>();
    let print = |row: usize| -> Result<Option<String>> {
        if args.iter().any(|values| values.is_null(row) || values.data_type().is_null()) {
            return Ok(None);
        }
        let (mut out, mut rest, mut place) = (String::new(), patterns.value(row), 1);
        while let Some((before, behind)) = rest.split_once('%') {
            out.push_str(before);
            if let Some(behind) = behind.strip_prefix('%') {
                out.push('%');
                rest = behind;
                continue;
            }
            let (specifier, behind) = Specifier::read(behind)?;
            let values = args.get(place).ok_or_else(|| refused("printf() has too few arguments"))?;
            specifier.write(values, row, &mut out)?;
            (place, rest) = (place + 1, behind);
        }
        out.push_str(rest);
        Ok(Some(out))
    };
    Ok(Arc::new((0..rows).map(print).collect::<Result<StringArray>>()?))
}

/// Returns `format` of DuckDB, with `{}`, places (`{1}`) and, of numbers, `{:.2f}`, `{:,}` and
/// `{:05d}`; the first argument is the pattern.
///
/// # Errors
/// 22023 for a pattern that has something else, or places that are not given.
pub fn braces(arguments: &[Option<String>]) -> hypostyle_types::Result<String> {
    use hypostyle_types::Error;
    let wrong = |message: &str| Error::invalid_input(message).with_sqlstate("22023");
    let pattern = arguments.first().and_then(Option::as_deref).unwrap_or_default();
    let (mut out, mut rest, mut next) = (String::new(), pattern, 1);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if behind.starts_with(&rest[at..=at]) {
            out.push_str(&rest[at..=at]);
            rest = &behind[1..];
            continue;
        }
        let end = behind.find('}').filter(|_| rest[at..].starts_with('{'));
        let end = end.ok_or_else(|| wrong("a pattern of format() has a brace without the other one"))?;
        let (place, options) = behind[..end].split_once(':').unwrap_or((&behind[..end], ""));
        let place = match place {
            "" => next,
            number => number
                .parse::<usize>()
                .map_err(|_| wrong("a place in format() is a number"))?
                .saturating_add(1),
        };
        next = place.saturating_add(1);
        let value = arguments.get(place).ok_or_else(|| wrong("too few arguments for format()"))?;
        out.push_str(&in_braces(value.as_deref().unwrap_or_default(), options).ok_or_else(|| {
            wrong(&format!("format() knows {{}}, {{:.2f}}, {{:,}}, {{:05d}} and {{:x}}, not {{:{options}}}"))
        })?);
        rest = &behind[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// What a pattern in braces says about a value, `[[fill]align][+][0][width][,][.precision][kind]`.
fn in_braces(value: &str, options: &str) -> Option<String> {
    if options.is_empty() {
        return Some(value.to_string());
    }
    let (options, kind) = match options.strip_suffix(['d', 'f', 's', 'x', 'X', 'o', 'b', 'e', 'E']) {
        Some(rest) => (rest, options.chars().last()),
        None => (options, None),
    };
    let (options, groups) = match options.strip_suffix(',') {
        Some(rest) => (rest, true),
        None => (options, false),
    };
    let (options, precision) = match options.split_once('.') {
        Some((width, precision)) => (width, Some(precision.parse::<usize>().ok().filter(|of| *of <= 1000)?)),
        None => (options, None),
    };
    let is_number = kind != Some('s') && value.parse::<f64>().is_ok();
    let mut shown = shown_as(value, kind, precision, is_number)?;
    if groups {
        let end = shown.find('.').unwrap_or(shown.len());
        let start = usize::from(shown.starts_with('-'));
        let mut at = end;
        while at > start + 3 {
            at -= 3;
            shown.insert(at, ',');
        }
    }
    let (fill, side, width) = aligned(options);
    let has_plus = width.starts_with('+') && is_number && !shown.starts_with('-');
    let width = width.strip_prefix('+').unwrap_or(width);
    if has_plus {
        shown.insert(0, '+');
    }
    if width.is_empty() {
        return Some(shown);
    }
    let has_zeros = side.is_none() && width.starts_with('0');
    let width: usize = width.parse().ok().filter(|width| *width <= WIDTH_MAX)?;
    let missing = width.saturating_sub(shown.chars().count());
    let padding = |fill: char, count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    if has_zeros {
        // The sign is before the zeros.
        let sign = shown.len() - shown.trim_start_matches(['-', '+']).len();
        shown.insert_str(sign, &padding('0', missing));
        return Some(shown);
    }
    Some(match side.unwrap_or(if is_number { '>' } else { '<' }) {
        '<' => shown + &padding(fill, missing),
        '^' => padding(fill, missing / 2) + &shown + &padding(fill, missing - missing / 2),
        _ => padding(fill, missing) + &shown,
    })
}

/// Returns what fills a value up to its width, on which side the value is, and what is behind that.
fn aligned(options: &str) -> (char, Option<char>, &str) {
    let mut letters = options.char_indices();
    match (letters.next(), letters.next()) {
        (Some((_, fill)), Some((at, side @ ('<' | '>' | '^')))) => (fill, Some(side), &options[at + 1..]),
        (Some((_, side @ ('<' | '>' | '^'))), _) => (' ', Some(side), &options[1..]),
        _ => (' ', None, options),
    }
}

/// Returns a value by the letter of a pattern; `None` where that is not one of such values.
fn shown_as(value: &str, kind: Option<char>, precision: Option<usize>, is_number: bool) -> Option<String> {
    let number = || value.parse::<f64>().ok();
    let sign = |number: f64| if number.is_sign_negative() && !number.is_nan() { "-" } else { "" };
    Some(match (kind, precision) {
        (Some('f'), Some(precision)) if is_number => format!("{:.precision$}", number()?),
        // The precision is that of all digits.
        (None, Some(precision)) if is_number => {
            let number = number()?;
            format!("{}{}", sign(number), Specifier::of_digits(precision).float(number.abs()))
        }
        (Some('s') | None, Some(precision)) => value.chars().take(precision).collect(),
        (Some('f'), None) => format!("{:.6}", number()?),
        (Some(letter @ ('e' | 'E')), precision) => {
            let number = number().filter(|number| number.is_finite())?;
            let shown = format!("{}{}", sign(number), exponential(number.abs(), precision.unwrap_or(6)));
            if letter == 'E' { shown.to_ascii_uppercase() } else { shown }
        }
        (Some('d'), None) => value.parse::<i128>().ok()?.to_string(),
        (Some(letter @ ('x' | 'X' | 'o' | 'b')), None) => {
            let number = value.parse::<i128>().ok()?;
            let (sign, size) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
            match letter {
                'x' => format!("{sign}{size:x}"),
                'X' => format!("{sign}{size:X}"),
                'o' => format!("{sign}{size:o}"),
                _ => format!("{sign}{size:b}"),
            }
        }
        (Some('s') | None, None) => value.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::braces;

    #[test]
    fn braces_are_filled_as_in_duckdb() {
        for (arguments, expected) in [
            (vec!["{} x", "1"], Some("1 x")),
            (vec!["{1} {0}", "a", "b"], Some("b a")),
            (vec!["{{}} {}", "a"], Some("{} a")),
            (vec!["{:.2f}", "3.14159"], Some("3.14")),
            (vec!["{:.2}", "0.00023"], Some("0.00023")),
            (vec!["{:.2}", "-3.14159"], Some("-3.1")),
            (vec!["{:.2}", "1234567"], Some("1.2e+06")),
            (vec!["{:.3}", "abcdef"], Some("abc")),
            (vec!["{:,}", "1234567"], Some("1,234,567")),
            (vec!["{:05d}", "-42"], Some("-0042")),
            (vec!["{:>5}|{:<5}|", "a", "b"], Some("    a|b    |")),
            (vec!["{:^9}|{:*^9}|", "ab", "ab"], Some("   ab    |***ab****|")),
            (vec!["{:*>5}", "7"], Some("****7")),
            (vec!["{:x} {:X} {:o} {:b}", "-255", "255", "8", "5"], Some("-ff FF 10 101")),
            (vec!["{:08b} {:08x}", "5", "-255"], Some("00000101 -00000ff")),
            (vec!["{:+d} {:+d} {:+05d} {:+.1f}", "5", "-5", "5", "2.75"], Some("+5 -5 +0005 +2.8")),
            (
                vec!["{:e} {:.2e} {:E}", "12345.678", "-0.00012", "12345.678"],
                Some("1.234568e+04 -1.20e-04 1.234568E+04"),
            ),
            (vec!["{:<15e}|{:15e}|", "1.5", "1.5"], Some("1.500000e+00   |   1.500000e+00|")),
            (vec!["{:x}", "2.5"], None),
            (vec!["{:e}", "a"], None),
            (vec!["{}"], None),
            (vec!["{", "a"], None),
            (vec!["{:q}", "a"], None),
        ] {
            let arguments: Vec<Option<String>> =
                arguments.iter().map(|argument| Some(argument.to_string())).collect();
            assert_eq!(braces(&arguments).ok().as_deref(), expected, "{arguments:?}");
        }
    }
}
