//! The narrowest type that holds every text seen in a column.

use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{NaiveDate, NaiveTime, Utc};
use std::ops::BitAndAssign;
use std::sync::Arc;

/// A set of types, as bits; the lowest bit that is left is the narrowest type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    types: u8,
    seen: bool,
}

const BOOLEAN: u8 = 1;
const INTEGER: u8 = 1 << 1;
const WIDE_INTEGER: u8 = 1 << 2;
const FLOAT: u8 = 1 << 3;
const DATE: u8 = 1 << 4;
const TIME: u8 = 1 << 5;
const TIMESTAMP: u8 = 1 << 6;
const INSTANT: u8 = 1 << 7;

impl Default for Guess {
    fn default() -> Self {
        Self { types: u8::MAX, seen: false }
    }
}

impl BitAndAssign for Guess {
    fn bitand_assign(&mut self, other: Self) {
        self.types &= other.types;
        self.seen |= other.seen;
    }
}

impl Guess {
    /// Returns the types that one text can be read as.
    pub fn of(text: &str) -> Self {
        Self { types: types_of(text), seen: true }
    }

    pub fn is_text(self) -> bool {
        !self.seen || self.types == 0
    }

    pub fn data_type(self) -> DataType {
        if self.is_text() {
            return DataType::Utf8View;
        }
        match 1 << self.types.trailing_zeros() {
            BOOLEAN => DataType::Boolean,
            INTEGER => DataType::Int64,
            WIDE_INTEGER => DataType::Decimal128(38, 0),
            FLOAT => DataType::Float64,
            DATE => DataType::Date32,
            TIME => DataType::Time64(TimeUnit::Microsecond),
            TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        }
    }
}

fn types_of(text: &str) -> u8 {
    match text.as_bytes() {
        [b'0'..=b'9' | b'-' | b'.', ..] => number(text) | moment(text),
        [b't' | b'T' | b'f' | b'F', ..] => {
            let boolean = text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
            if boolean { BOOLEAN } else { 0 }
        }
        _ if ["nan", "inf"].iter().any(|word| text.eq_ignore_ascii_case(word)) => FLOAT,
        _ => 0,
    }
}

fn number(text: &str) -> u8 {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // A number that starts with zeros is an identifier: a postcode, a telephone number.
    if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
        return 0;
    }
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return match (text.parse::<i64>(), digits.len()) {
            (Ok(_), _) => INTEGER | WIDE_INTEGER | FLOAT,
            (_, ..=38) => WIDE_INTEGER | FLOAT,
            _ => FLOAT,
        };
    }
    let spelt = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if (spelt || digits.eq_ignore_ascii_case("inf")) && text.parse::<f64>().is_ok() { FLOAT } else { 0 }
}

fn moment(text: &str) -> u8 {
    let Some((date, rest)) = text.split_at_checked(10) else { return time(text) };
    let is_date = date.as_bytes()[4] == b'-' && NaiveDate::parse_from_str(date, "%Y-%m-%d").is_ok();
    match rest.as_bytes() {
        _ if !is_date => time(text),
        [] => DATE | TIMESTAMP | INSTANT,
        [b' ' | b'T', ..] if string_to_datetime(&Utc, text).is_ok() => {
            let with_zone = rest.contains(['Z', 'z', '+', '-']);
            if with_zone { INSTANT } else { TIMESTAMP | INSTANT }
        }
        _ => 0,
    }
}

fn time(text: &str) -> u8 {
    let shape = text.len() >= 8 && text.as_bytes()[2] == b':';
    if shape && NaiveTime::parse_from_str(text, "%H:%M:%S%.f").is_ok() { TIME } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(texts: &[&str]) -> DataType {
        let mut guess = Guess::default();
        texts.iter().for_each(|text| guess &= Guess::of(text));
        guess.data_type()
    }

    #[test]
    fn the_narrowest_common_type_is_chosen() {
        let micros = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
        for (texts, data_type) in [
            (&["true", "False"][..], DataType::Boolean),
            (&["1", "-20", "0"], DataType::Int64),
            (&["1", "12345678901234567890"], DataType::Decimal128(38, 0)),
            (&["1", "2.5", "-1e9", ".5", "nan"], DataType::Float64),
            (&["2024-02-29", "1999-12-31"], DataType::Date32),
            (&["2024-02-29", "1999-12-31 23:59:59.5"], micros(None)),
            (&["2024-02-29T10:00:00Z", "1999-12-31 23:59:59+01:00"], micros(Some("UTC"))),
            (&["10:11:12", "23:00:00.25"], DataType::Time64(TimeUnit::Microsecond)),
            (&["007", "1"], DataType::Utf8View),
            (&["2024-02-30"], DataType::Utf8View),
            (&["1", "x"], DataType::Utf8View),
            (&["1-2", "555-1234"], DataType::Utf8View),
            (&["true", "1"], DataType::Utf8View),
            (&["ünïcödé über"], DataType::Utf8View),
            (&[], DataType::Utf8View),
        ] {
            assert_eq!(type_of(texts), data_type, "{texts:?}");
        }
    }
}
