//! Values as they are written: numbers keep their digits, and objects the order of their members.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Float32Type, Float64Type, Int64Type};
use hypostyle_expr::json::{compact, quote};
use hypostyle_types::LogicalType;
use serde::de::{Error as _, IgnoredAny};
use std::borrow::Cow;
use std::collections::HashMap;

/// The depth of a position in brackets and strings.
#[derive(Default)]
pub struct Nesting {
    pub depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Says whether the position is in no bracket and in no string.
    pub fn outside(&self) -> bool {
        self.depth == 0 && !self.in_string
    }

    /// Goes behind a byte.
    pub fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// A value as it is written, without blanks around it.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// Takes the value that a text is.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn of(text: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice::<IgnoredAny>(text)?;
        Self::of_json(text)
    }

    /// Takes a value that is known to be JSON.
    ///
    /// # Errors
    /// When it is no UTF-8.
    pub fn of_json(text: &'a [u8]) -> serde_json::Result<Self> {
        let text = std::str::from_utf8(text).map_err(serde_json::Error::custom)?;
        Ok(Self(text.trim_ascii()))
    }

    pub fn get(self) -> &'a str {
        self.0
    }

    /// Returns the elements of an array or the members of an object, if it is one.
    fn parts(self, open: char, close: char) -> Option<Vec<&'a str>> {
        let inner = self.0.strip_prefix(open)?.strip_suffix(close)?;
        Some(if inner.trim_ascii().is_empty() { Vec::new() } else { split(inner, b',') })
    }

    pub fn elements(self) -> Option<Vec<Self>> {
        let elements = self.parts('[', ']')?;
        Some(elements.into_iter().map(|text| Self(text.trim_ascii())).collect())
    }
}

/// Splits the inside of a value that is JSON, but for what is deeper and within texts.
fn split(text: &str, at: u8) -> Vec<&str> {
    let (mut nesting, mut start, mut parts) = (Nesting::default(), 0, Vec::new());
    for (index, byte) in text.bytes().enumerate() {
        if byte == at && nesting.outside() {
            parts.push(&text[start..index]);
            start = index + 1;
        }
        nesting.step(byte);
    }
    parts.push(&text[start..]);
    parts
}

/// The members of an object: their names in quotes, and their values.
pub struct Members<'a>(Vec<(Raw<'a>, Raw<'a>)>);

impl<'a> Members<'a> {
    /// Returns the members, if the value is an object.
    pub fn of(value: Raw<'a>) -> Option<Self> {
        let member = |text| match split(text, b':').as_slice() {
            [name, value] => Some((Raw(name.trim_ascii()), Raw(value.trim_ascii()))),
            _ => None,
        };
        value.parts('{', '}')?.into_iter().map(member).collect::<Option<_>>().map(Self)
    }

    /// Returns the names, in quotes, and the values.
    pub fn pairs(&self) -> impl Iterator<Item = (Raw<'a>, Raw<'a>)> {
        self.0.iter().copied()
    }

    /// Returns the value of a name; the last one of several.
    pub fn get(&self, name: &str) -> Option<Raw<'a>> {
        let is_named = |own: Raw<'_>| unquoted(own).is_ok_and(|own| own == name);
        self.0.iter().rev().find(|(own, _)| is_named(*own)).map(|(_, value)| *value)
    }
}

/// Returns what a text in quotes says.
///
/// # Errors
/// When it is no text in quotes.
pub fn unquoted(text: Raw<'_>) -> serde_json::Result<Cow<'_, str>> {
    let bare = text.get().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match bare.filter(|bare| !bare.contains('\\')) {
        Some(bare) => Ok(Cow::Borrowed(bare)),
        None => serde_json::from_str::<String>(text.get()).map(Cow::Owned),
    }
}

fn is_json(field: &Field) -> bool {
    LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Json)
}

/// The places of JSON in a value.
#[derive(Debug)]
pub enum Place {
    Nowhere,
    Whole,
    Elements(Box<Place>),
    /// JSON is in the members of these names.
    Members(HashMap<String, Place>),
    /// JSON is in all members.
    Values(Box<Place>),
}

static NOWHERE: Place = Place::Nowhere;

impl Place {
    /// Returns where there is JSON in values of a field.
    pub fn of(field: &Field) -> Self {
        let within = |field: &Field, wrap: fn(Box<Self>) -> Self| match Self::of(field) {
            Self::Nowhere => Self::Nowhere,
            place => wrap(Box::new(place)),
        };
        match field.data_type() {
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                within(element, Self::Elements)
            }
            DataType::Struct(fields) => Self::of_members(fields),
            DataType::Map(entries, _) => {
                value_of(entries).map_or(Self::Nowhere, |value| within(value, Self::Values))
            }
            _ if is_json(field) => Self::Whole,
            _ => Self::Nowhere,
        }
    }

    /// Returns where there is JSON in an object of such members.
    pub fn of_members(fields: &Fields) -> Self {
        let members = fields.iter().map(|field| (field.name().clone(), Self::of(field)));
        let members: HashMap<_, _> = members.filter(|(_, place)| !matches!(place, Self::Nowhere)).collect();
        if members.is_empty() { Self::Nowhere } else { Self::Members(members) }
    }

    /// Writes a value with its JSON as texts, which is how Arrow reads it.
    ///
    /// # Errors
    /// When a name is no text.
    pub fn write(&self, value: Raw<'_>, out: &mut String) -> serde_json::Result<()> {
        let text = value.get();
        if let Self::Elements(place) = self
            && let Some(elements) = value.elements()
        {
            out.push('[');
            for (number, element) in elements.into_iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                place.write(element, out)?;
            }
            out.push(']');
            return Ok(());
        }
        if let Self::Members(_) | Self::Values(_) = self
            && let Some(members) = Members::of(value)
        {
            out.push('{');
            for (number, (name, value)) in members.0.into_iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                out.push_str(name.get());
                out.push(':');
                self.member(name)?.write(value, out)?;
            }
            out.push('}');
            return Ok(());
        }
        match self {
            Self::Whole if text != "null" => {
                let mut compacted = String::with_capacity(text.len());
                compact(text, &mut compacted);
                quote(&compacted, out);
            }
            _ => out.push_str(text),
        }
        Ok(())
    }

    fn member(&self, name: Raw<'_>) -> serde_json::Result<&Self> {
        Ok(match self {
            Self::Members(members) => members.get(&*unquoted(name)?).unwrap_or(&NOWHERE),
            Self::Values(place) => place,
            _ => &NOWHERE,
        })
    }
}

/// Returns the field of a map's values.
fn value_of(entries: &Field) -> Option<&Field> {
    match entries.data_type() {
        DataType::Struct(pair) => pair.get(1).map(AsRef::as_ref),
        _ => None,
    }
}

/// Says whether some values may be made of numbers that their type has not: Arrow reads those as the
/// ends of the type.
pub fn has_ends(values: &dyn Array) -> bool {
    match values.data_type() {
        DataType::Float32 => values.as_primitive::<Float32Type>().values().iter().any(|of| of.is_infinite()),
        DataType::Float64 => values.as_primitive::<Float64Type>().values().iter().any(|of| of.is_infinite()),
        DataType::Timestamp(..) => cast(values, &DataType::Int64).is_ok_and(|values| {
            let values = values.as_primitive::<Int64Type>().values();
            values.iter().any(|of| matches!(*of, i64::MIN | i64::MAX))
        }),
        DataType::List(_) => has_ends(values.as_list::<i32>().values()),
        DataType::LargeList(_) => has_ends(values.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => has_ends(values.as_fixed_size_list().values()),
        DataType::Struct(_) => values.as_struct().columns().iter().any(|values| has_ends(values)),
        DataType::Map(..) => has_ends(values.as_map().values()),
        _ => false,
    }
}

/// Says whether a value has a number that its type has not.
pub fn is_beyond(value: Raw<'_>, field: &Field) -> bool {
    let text = value.get();
    match field.data_type() {
        DataType::Float32 => text.parse::<f32>().is_ok_and(f32::is_infinite),
        DataType::Float64 => text.parse::<f64>().is_ok_and(f64::is_infinite),
        DataType::Timestamp(..) => {
            text.parse::<i64>().is_err() && text.parse::<f64>().is_ok_and(|of| of.abs() >= i64::MAX as f64)
        }
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            let elements = value.elements();
            elements.is_some_and(|all| all.into_iter().any(|value| is_beyond(value, element)))
        }
        DataType::Struct(fields) => are_beyond(value, fields),
        DataType::Map(entries, _) => match (Members::of(value), value_of(entries)) {
            (Some(members), Some(field)) => members.0.iter().any(|(_, value)| is_beyond(*value, field)),
            _ => false,
        },
        _ => false,
    }
}

/// Says whether an object has a number that the type of its member has not.
pub fn are_beyond(object: Raw<'_>, fields: &Fields) -> bool {
    Members::of(object).is_some_and(|members| {
        fields.iter().any(|field| members.get(field.name()).is_some_and(|value| is_beyond(value, field)))
    })
}

/// The whole number that stands for all that DECIMAL(38,0) has and BIGINT has not, where only types matter:
/// the parser takes the digits of no larger one.
const WIDE: &str = "18446744073709551615";

/// Digits of a DECIMAL.
const DECIMAL_DIGITS: usize = 38;

/// Digits of the least whole number that BIGINT may lack.
const WIDE_DIGITS: usize = 19;

/// Says whether a record may have whole numbers that BIGINT has not.
pub fn may_have_wide_integers(record: &[u8]) -> bool {
    let digits = record.chunk_by(|one, next| one.is_ascii_digit() && next.is_ascii_digit());
    digits.map(<[u8]>::len).any(|length| length >= WIDE_DIGITS)
}

/// Returns a record of whose types the parser finds those of all numbers: in the place of those that
/// DECIMAL(38,0) has and BIGINT has not stands one of them, and in quotes are those that only text keeps,
/// longer whole numbers and those beyond DOUBLE.
pub fn with_wide_numbers(record: &[u8]) -> Vec<u8> {
    let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let (mut nesting, mut out) = (Nesting::default(), Vec::with_capacity(record.len()));
    for token in record.chunk_by(|one, next| is_of_number(one) && is_of_number(next)) {
        let number = std::str::from_utf8(token).ok().filter(|_| !nesting.in_string);
        match number.and_then(wide) {
            Some(Wide::Decimal) => out.extend_from_slice(WIDE.as_bytes()),
            Some(Wide::Text) => {
                out.push(b'"');
                out.extend_from_slice(token);
                out.push(b'"');
            }
            None => out.extend_from_slice(token),
        }
        token.iter().for_each(|byte| nesting.step(*byte));
    }
    out
}

/// The types of numbers that are wider than BIGINT and DOUBLE.
enum Wide {
    Decimal,
    Text,
}

fn wide(number: &str) -> Option<Wide> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole = digits.len() >= WIDE_DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    match is_whole {
        true if number.parse::<i64>().is_ok() => None,
        true if digits.len() <= DECIMAL_DIGITS => Some(Wide::Decimal),
        true => Some(Wide::Text),
        false => number.parse::<f64>().is_ok_and(f64::is_infinite).then_some(Wide::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(name: &str) -> Field {
        LogicalType::Json.arrow_field(name, true)
    }

    #[test]
    fn json_becomes_text_and_keeps_its_digits() {
        let inner = DataType::Struct(Fields::from(vec![json("j"), Field::new("n", DataType::Int64, true)]));
        let fields = Fields::from(vec![
            json("k"),
            Field::new("o", inner, true),
            Field::new("l", DataType::List(json("item").into()), true),
            Field::new("d", DataType::Float64, true),
        ]);
        let place = Place::of_members(&fields);
        let written = |text: &str| {
            let mut out = String::new();
            place.write(Raw::of(text.as_bytes()).unwrap(), &mut out).unwrap();
            out
        };
        assert_eq!(written("{\"k\": 12345678901234567890123}"), "{\"k\":\"12345678901234567890123\"}");
        assert_eq!(written("{\"k\":null,\"d\":1e400}"), "{\"k\":null,\"d\":1e400}");
        assert_eq!(
            written("{\"k\": {\"z\" : 1, \"a\": \" \"}}"),
            "{\"k\":\"{\\\"z\\\":1,\\\"a\\\":\\\" \\\"}\"}"
        );
        assert_eq!(
            written("{\"\\u006f\":{\"n\":1,\"j\":[1.50]},\"l\":[1, \"x\"]}"),
            "{\"\\u006f\":{\"n\":1,\"j\":\"[1.50]\"},\"l\":[\"1\",\"\\\"x\\\"\"]}"
        );
        assert_eq!(written("12"), "12");
        let plain = Fields::from(vec![Field::new("a", DataType::Int64, true)]);
        assert!(matches!(Place::of_members(&plain), Place::Nowhere));
    }

    #[test]
    fn numbers_that_a_type_has_not_are_told_from_texts() {
        let is_beyond = |text: &str, of: DataType| {
            is_beyond(Raw::of(text.as_bytes()).unwrap(), &Field::new("a", of, true))
        };
        let list = DataType::List(Field::new("item", DataType::Float64, true).into());
        assert!(is_beyond("1e400", DataType::Float64) && is_beyond("-1e39", DataType::Float32));
        assert!(is_beyond("[1,1e400]", list));
        assert!(!is_beyond("1e30", DataType::Date32));
        assert!(!is_beyond("\"inf\"", DataType::Float64) && !is_beyond("1e308", DataType::Float64));
        let text = b"{\"1e400\":\"-1e400\",\"a\":[-1e400,true,1e40]}";
        let quoted = "{\"1e400\":\"-1e400\",\"a\":[\"-1e400\",true,1e40]}";
        assert_eq!(String::from_utf8(with_wide_numbers(text)).unwrap(), quoted);
    }

    #[test]
    fn whole_numbers_beyond_bigint_stand_for_their_type() {
        let long = "1".repeat(39);
        for (number, expected) in [
            ("9223372036854775807", "9223372036854775807".to_string()),
            ("-9223372036854775808", "-9223372036854775808".to_string()),
            ("9223372036854775808", WIDE.to_string()),
            ("-9223372036854775809", WIDE.to_string()),
            (&long[..38], WIDE.to_string()),
            (long.as_str(), format!("\"{long}\"")),
            ("1234567890123456789012.5", "1234567890123456789012.5".to_string()),
            ("\"9223372036854775808\"", "\"9223372036854775808\"".to_string()),
        ] {
            let written = |number: &str| format!("{{\"a\":[{number}, 1]}}");
            let made = String::from_utf8(with_wide_numbers(written(number).as_bytes())).unwrap();
            assert_eq!(made, written(&expected));
            assert!(
                made == written(number) || may_have_wide_integers(written(number).as_bytes()),
                "{number}"
            );
        }
        assert!(!may_have_wide_integers(b"{\"a\":123456789012345678,\"b\":1}"));
    }
}
