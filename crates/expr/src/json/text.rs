//! Parts of JSON texts. They are found in the text itself, so that numbers keep their digits and
//! objects the order of their members.

use hypostyle_types::check_json_text;
use std::borrow::Cow;

/// What a JSON value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

/// Values within each other that are looked through; deeper ones are taken as they are written.
pub(super) const DEPTH_MAX: usize = 512;

/// The largest exponent of a number that is written without it.
const EXPONENT_MAX: i64 = 1000;

/// Returns what a text is by its first character.
pub(super) fn kind(text: &str) -> Option<Kind> {
    Some(match text.trim_start().bytes().next()? {
        b'{' => Kind::Object,
        b'[' => Kind::Array,
        b'"' => Kind::Text,
        b't' | b'f' => Kind::Boolean,
        b'n' => Kind::Null,
        _ => Kind::Number,
    })
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns the place behind a text in quotes that begins at a place.
fn end_of_text(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the place behind a value that begins at a place.
fn end_of_value(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => end_of_text(bytes, start),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, start);
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = end_of_text(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let rest = &bytes[start..];
            let ends = |byte: &u8| is_blank(*byte) || matches!(byte, b',' | b'}' | b']' | b':');
            let length = rest.iter().position(ends).unwrap_or(rest.len());
            (length > 0).then_some(start + length)
        }
    }
}

/// The elements of an array, or the members of an object: their names in quotes, and their values.
pub struct Parts<'a> {
    text: &'a str,
    at: usize,
    has_names: bool,
}

impl<'a> Parts<'a> {
    fn pass(&mut self, also: u8) {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| is_blank(*byte) || *byte == also) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Option<&'a str> {
        let end = end_of_value(self.text.as_bytes(), self.at)?;
        let value = self.text.get(self.at..end)?;
        self.at = end;
        Some(value)
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.pass(b',');
        if matches!(self.text.as_bytes().get(self.at)?, b'}' | b']') {
            return None;
        }
        let mut name = "";
        if self.has_names {
            name = self.value().filter(|name| name.starts_with('"'))?;
            self.pass(b':');
        }
        Some((name, self.value()?))
    }
}

/// Returns the members of an object, their names in quotes; none of anything else.
pub fn members(text: &str) -> Parts<'_> {
    let text = text.trim();
    let at = if kind(text) == Some(Kind::Object) { 1 } else { text.len() };
    Parts { text, at, has_names: true }
}

/// Returns the elements of an array; none of anything else.
pub fn elements(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim();
    let at = if kind(text) == Some(Kind::Array) { 1 } else { text.len() };
    Parts { text, at, has_names: false }.map(|(_, value)| value)
}

/// Returns the elements of a text that is an array in JSON, without those that are null; `None` for any
/// other text.
pub(crate) fn array_elements(text: &str) -> Option<Vec<Option<String>>> {
    let is_array = kind(text) == Some(Kind::Array) && check_json_text(text).is_ok();
    let some = |value: &str| (kind(value) != Some(Kind::Null)).then(|| value.to_string());
    is_array.then(|| elements(text).map(some).collect())
}

/// Returns the member of a name; the last one of several, as in PostgreSQL.
pub(super) fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    members(text).filter(|(own, _)| is_named(own, name)).last().map(|(_, value)| value)
}

fn is_named(own: &str, name: &str) -> bool {
    match own.contains('\\') {
        true => unquoted(own) == name,
        false => own.len() == name.len() + 2 && own.get(1..own.len() - 1) == Some(name),
    }
}

/// Returns the element at a place; a negative place counts from the end.
pub(super) fn element(text: &str, place: i64) -> Option<&str> {
    let place = match usize::try_from(place) {
        Ok(place) => place,
        Err(_) => elements(text).count().checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?,
    };
    elements(text).nth(place)
}

/// Returns what a text in quotes says.
pub fn unquoted(text: &str) -> Cow<'_, str> {
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    match bare.contains('\\') {
        true => serde_json::from_str::<String>(text)
            .ok()
            .or_else(|| decoded(bare))
            .map_or(Cow::Borrowed(bare), Cow::Owned),
        false => Cow::Borrowed(bare),
    }
}

/// Returns what a text says that has surrogates without their halves, which are no characters: U+FFFD stands
/// for them. `None` for a text that is no JSON.
fn decoded(bare: &str) -> Option<String> {
    let unit = |rest: &str| u16::from_str_radix(rest.get(..4)?, 16).ok();
    let mut out = String::with_capacity(bare.len());
    let mut rest = bare;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let escape = after.chars().next()?;
        rest = after.get(escape.len_utf8()..)?;
        match escape {
            '"' | '\\' | '/' => out.push(escape),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let first = unit(rest)?;
                rest = &rest[4..];
                let second = rest.strip_prefix("\\u").and_then(unit);
                let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
                let is_pair = (0xD800..0xDC00).contains(&first) && pair.is_some();
                if is_pair {
                    rest = &rest[6..];
                }
                let alone = char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.push(pair.filter(|_| is_pair).unwrap_or(alone));
            }
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

/// Writes a text in quotes.
pub fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Returns a value as `->>` shows it: texts without quotes, and nothing for null.
pub(super) fn shown(text: &str) -> Option<Cow<'_, str>> {
    match kind(text)? {
        Kind::Null => None,
        Kind::Text => Some(unquoted(text.trim())),
        _ => Some(Cow::Borrowed(text)),
    }
}

/// Writes a value without blanks between its parts.
pub fn compact(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => end_of_text(bytes, at).unwrap_or(bytes.len()),
            blank if is_blank(blank) => {
                at += 1;
                continue;
            }
            _ => {
                let plain = bytes[at..].iter().position(|byte| is_blank(*byte) || *byte == b'"');
                plain.map_or(bytes.len(), |length| at + length)
            }
        };
        out.push_str(text.get(at..end).unwrap_or_default());
        at = end;
    }
}

/// Writes a value as JSONB: members in the order of their names' lengths and bytes, the last one of each
/// name, numbers without exponents, and blanks behind `:` and `,`, as in PostgreSQL. Equal values are equal
/// texts, so that a fraction has no zeros at its end, which PostgreSQL keeps.
pub(super) fn normal(text: &str, out: &mut String) {
    write_normal(text.trim(), 0, shortest, out);
}

/// Returns JSON as JSONB writes it: equal values are equal texts.
pub fn normalised(text: &str) -> String {
    let mut out = String::new();
    normal(text, &mut out);
    out
}

/// How a number is written.
type Number = fn(&str) -> Cow<'_, str>;

fn write_normal(text: &str, depth: usize, number: Number, out: &mut String) {
    match kind(text) {
        _ if depth > DEPTH_MAX => out.push_str(text),
        Some(Kind::Object) => {
            let members = sorted_members(text);
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push_str(", ");
                }
                quote(name, out);
                out.push_str(": ");
                write_normal(value, depth + 1, number, out);
            }
            out.push('}');
        }
        Some(Kind::Array) => {
            out.push('[');
            for (place, value) in elements(text).enumerate() {
                if place > 0 {
                    out.push_str(", ");
                }
                write_normal(value, depth + 1, number, out);
            }
            out.push(']');
        }
        Some(Kind::Text) => quote(&unquoted(text), out),
        Some(Kind::Number) => out.push_str(&number(text)),
        _ => out.push_str(text),
    }
}

/// Returns the members of an object in the order of their names' lengths and bytes, the last one of each
/// name.
pub(super) fn sorted_members(text: &str) -> Vec<(Cow<'_, str>, &str)> {
    let mut all: Vec<_> = members(text).map(|(name, value)| (unquoted(name), value)).collect();
    all.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
    all.reverse();
    all.dedup_by(|(a, _), (b, _)| a == b);
    all.reverse();
    all
}

/// Returns a number without an exponent.
fn number(text: &str) -> Cow<'_, str> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    // There is no negative zero.
    let all = digits.split(['e', 'E']).next().unwrap_or(digits);
    let sign = if all.bytes().any(|digit| matches!(digit, b'1'..=b'9')) { sign } else { "" };
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else {
        return Cow::Owned(format!("{sign}{digits}"));
    };
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent).parse::<i64>();
    let is_written_out = |exponent: &i64| (-EXPONENT_MAX..=EXPONENT_MAX).contains(exponent);
    let Some(exponent) = exponent.ok().filter(is_written_out) else {
        return Cow::Borrowed(text);
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let point = whole.len() as i64 + exponent;
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
    let all = format!("{}{whole}{fraction}", zeros(1 - point));
    let point = usize::try_from(point).unwrap_or_default().max(1);
    let all = format!("{all}{}", zeros(point as i64 - all.len() as i64));
    let (whole, fraction) = all.split_at(point);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let dot = if fraction.is_empty() { "" } else { "." };
    Cow::Owned(format!("{sign}{whole}{dot}{fraction}"))
}

/// Writes a value with each of its parts on a line of its own.
pub(super) fn pretty(text: &str, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", depth));
    };
    let text = text.trim();
    let is_object = kind(text) == Some(Kind::Object);
    let parts: Vec<(&str, &str)> = match kind(text) {
        Some(Kind::Object) => members(text).collect(),
        Some(Kind::Array) => elements(text).map(|value| ("", value)).collect(),
        _ => Vec::new(),
    };
    if parts.is_empty() || depth > DEPTH_MAX {
        compact(text, out);
        return;
    }
    out.push(if is_object { '{' } else { '[' });
    for (place, (name, value)) in parts.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        line(depth + 1, out);
        if is_object {
            out.push_str(name);
            out.push_str(": ");
        }
        pretty(value, depth + 1, out);
    }
    line(depth, out);
    out.push(if is_object { '}' } else { ']' });
}

/// Says whether two values are equal, whatever the order of members. Numbers have the same digits.
pub(super) fn is_equal(one: &str, other: &str) -> bool {
    let (mut first, mut second) = (String::new(), String::new());
    write_normal(one.trim(), 0, number, &mut first);
    write_normal(other.trim(), 0, number, &mut second);
    first == second
}

/// Says whether a value, or one within it, contains another one, as in DuckDB: an object those
/// members, an array those elements.
pub(super) fn contains(within: &str, sought: &str) -> bool {
    contains_at(within.trim(), sought.trim(), 0)
}

fn contains_at(within: &str, sought: &str, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    let is_there = match (kind(within), kind(sought)) {
        (Some(Kind::Object), Some(Kind::Object)) => members(sought).all(|(name, value)| {
            member(within, &unquoted(name)).is_some_and(|own| contains_at(own, value, depth + 1))
        }),
        (Some(Kind::Array), Some(Kind::Array)) => {
            elements(sought).all(|value| elements(within).any(|own| contains_at(own, value, depth + 1)))
        }
        (one, other) => one == other && is_equal(within, sought),
    };
    is_there
        || elements(within).any(|own| contains_at(own, sought, depth + 1))
        || members(within).any(|(_, own)| contains_at(own, sought, depth + 1))
}

/// Says whether a value contains another one by PostgreSQL's `@>`: objects and arrays do so level by
/// level, and an array contains a plain value that is one of its elements.
pub(crate) fn includes(within: &str, sought: &str) -> bool {
    let is_plain = |of| !matches!(of, Some(Kind::Object | Kind::Array));
    match (kind(within), kind(sought)) {
        (Some(Kind::Array), of) if is_plain(of) => elements(within).any(|own| is_same(own, sought)),
        _ => includes_at(within.trim(), sought.trim(), 0),
    }
}

fn includes_at(within: &str, sought: &str, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    match (kind(within), kind(sought)) {
        (Some(Kind::Object), Some(Kind::Object)) => members(sought).all(|(name, value)| {
            member(within, &unquoted(name)).is_some_and(|own| includes_at(own, value, depth + 1))
        }),
        (Some(Kind::Array), Some(Kind::Array)) => {
            elements(sought).all(|value| elements(within).any(|own| includes_at(own, value, depth + 1)))
        }
        (one, other) => one == other && is_same(within, sought),
    }
}

/// [`is_equal`], and numbers are compared by value: 1 is 1.0.
fn is_same(one: &str, other: &str) -> bool {
    match (kind(one), kind(other)) {
        (Some(Kind::Number), Some(Kind::Number)) => shortest(one.trim()) == shortest(other.trim()),
        _ => is_equal(one, other),
    }
}

/// Returns a number without an exponent, and without the zeros at the end of its fraction.
fn shortest(text: &str) -> Cow<'_, str> {
    let number = number(text);
    match number.contains('.') && !number.contains(['e', 'E']) {
        true => Cow::Owned(number.trim_end_matches('0').trim_end_matches('.').to_string()),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&str, &mut String), text: &str) -> String {
        let mut out = String::new();
        write(text, &mut out);
        out
    }

    #[test]
    fn surrogates_alone_are_no_characters() {
        for (text, said) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""a\ude00\n\u0041""#, "a\u{fffd}\nA"),
            (r#""\ud83d\ud83d\ude00x""#, "\u{fffd}\u{1f600}x"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\ud83d\x""#, r"\ud83d\x"),
            (r#""\ud83d\u12""#, r"\ud83d\u12"),
        ] {
            assert_eq!(unquoted(text), said, "{text}");
        }
    }

    #[test]
    fn parts_are_found_in_the_text() {
        let text = r#" { "a" : [1, {"b":"x,]}"}] , "é\n":null,"a":-1.50e2 } "#;
        assert_eq!(member(text, "a"), Some("-1.50e2"));
        assert_eq!(member(text, "é\n"), Some("null"));
        assert_eq!(member(text, "b"), None);
        let list = r#"[1, "a\"]", [2,3] ,{}]"#;
        assert_eq!(elements(list).collect::<Vec<_>>(), ["1", r#""a\"]""#, "[2,3]", "{}"]);
        assert_eq!(element(list, -2), Some("[2,3]"));
        assert_eq!(element(list, 4), None);
        assert_eq!(element(list, i64::MIN), None);
        assert_eq!(shown(r#""a\u0041\"""#).as_deref(), Some("aA\""));
        assert_eq!(shown(" null"), None);
    }

    #[test]
    fn damaged_texts_have_fewer_parts() {
        for text in [
            "{", "[", "[1,", "{\"a\"", "{\"a\":", "{\"a\":}", "[\"a", "[}", "\\", "\"\\", "", "{a:1}", "[\\é",
        ] {
            let _all = (members(text).count(), elements(text).count(), shown(text));
            let _written = (written(compact, text), written(normal, text));
            assert!(member(text, "a").is_none(), "{text}");
        }
    }

    #[test]
    fn values_are_written_alike() {
        for (text, expected) in [
            (r#"{"b":1, "a":[ 1.0,"\u0041"], "b":2,"aa":{}}"#, r#"{"a": [1, "A"], "b": 2, "aa": {}}"#),
            ("1.0", "1"),
            ("-0.0", "0"),
            ("1.50", "1.5"),
            ("100.0e-1", "10"),
            ("1000", "1000"),
            ("0.0001e4", "1"),
            ("1e2", "100"),
            ("1.25e1", "12.5"),
            ("-12.5E-3", "-0.0125"),
            ("-0", "0"),
            ("1e-1", "0.1"),
            ("1e99999", "1e99999"),
            ("1e-9223372036854775808", "1e-9223372036854775808"),
            ("1e9223372036854775807", "1e9223372036854775807"),
            (" [ ] ", "[]"),
        ] {
            assert_eq!(written(normal, text), expected, "{text}");
        }
        assert_eq!(written(compact, "{ \"a b\" : [ 1 , \" \\\" \" ] }"), "{\"a b\":[1,\" \\\" \"]}");
    }

    #[test]
    fn equal_numbers_are_equal_texts() {
        for alike in
            [&["1", "1.0", "1.00", "10e-1", "0.1e1", "1E0"][..], &["0", "-0", "0.0", "-0.00", "0e5", "-0E5"]]
        {
            for text in alike {
                assert_eq!(written(normal, text), alike[0], "{text}");
                assert_eq!(written(normal, &format!("[{text}]")), format!("[{}]", alike[0]), "{text}");
            }
        }
        for (one, other) in [("1", "1.01"), ("10", "1"), ("0.1", "0.01"), ("-1", "1")] {
            assert_ne!(written(normal, one), written(normal, other));
        }
    }

    #[test]
    fn elements_of_an_array_are_json() {
        let some = |text: &str| Some(text.to_string());
        let found = array_elements(r#" ["x", {"a":[1]}, null, "null", 1.50] "#);
        assert_eq!(
            found,
            Some(vec![some("\"x\""), some("{\"a\":[1]}"), None, some("\"null\""), some("1.50")])
        );
        assert_eq!(array_elements("[]"), Some(Vec::new()));
        for text in ["{1,2}", "[1,", "[a]", "1", "", "{\"a\":1}"] {
            assert_eq!(array_elements(text), None, "{text}");
        }
    }

    #[test]
    fn values_contain_others() {
        for (within, sought, anywhere, at_once) in [
            ("[1]", "1", true, true),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, true, true),
            (r#"[{"a":{"b":1}}]"#, r#"{"b":1}"#, true, false),
            ("[1,2,3]", "[3,1]", true, true),
            (r#"{"a":[1]}"#, "1", true, false),
            (r#"{"a":1}"#, "\"a\"", false, false),
            (r#"{"a":null}"#, "null", true, false),
            (r#"{"a":[1, 100]}"#, r#"{"a":[1.0, 1e2]}"#, false, true),
            ("[0.1]", "1.0e-1", false, true),
            ("10", "1", false, false),
            ("-0.0", "0", false, true),
        ] {
            assert_eq!(contains(within, sought), anywhere, "{within} {sought}");
            assert_eq!(includes(within, sought), at_once, "{within} {sought}");
        }
    }
}
