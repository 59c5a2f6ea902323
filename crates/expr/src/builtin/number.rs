//! Numbers: rounding to more digits than a DOUBLE has, and numbers as text by PostgreSQL's
//! patterns.

use crate::builtin::{Described, Kind, refused};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Float64Type, Int64Type};
use datafusion::error::Result;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["round_double"], &[Kind::Double, Kind::Integer], |_| Ok(DataType::Float64), rounded),
    Described::new(&["round_even"], &[Kind::Double], |_| Ok(DataType::Float64), rounded_to_even),
    Described::new(&["hex_of_integer"], &[Kind::Any], |_| Ok(DataType::Utf8), hexadecimal),
    Described::new(&["number_to_char"], &[Kind::Any, Kind::Text], |_| Ok(DataType::Utf8), shown),
];

/// Rounds a number to places behind the point, or before it. A number without so many places is
/// unchanged.
fn rounded(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let places = args[1].as_primitive::<Int64Type>().iter();
    let values = args[0].as_primitive::<Float64Type>().iter().zip(places);
    let rounded = values.map(|(value, places)| {
        let (value, places) = (value?, places?);
        let factor = 10_f64.powi(i32::try_from(places.unsigned_abs()).unwrap_or(i32::MAX));
        let rounded = match places >= 0 {
            true => (value * factor).round() / factor,
            false if factor.is_infinite() => 0.0,
            false => (value / factor).round() * factor,
        };
        Some(if rounded.is_finite() || places < 0 { rounded } else { value })
    });
    Ok(Arc::new(rounded.collect::<Float64Array>()))
}

/// The digits of 32 bits, which are those of an INTEGER.
fn hexadecimal(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let values = cast(&args[0], &DataType::Int64)?;
    let values = values.as_primitive::<Int64Type>().iter();
    let texts = values.map(|value| value.map(|value| format!("{:x}", value as u32)));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// Rounded to a whole number, halves to the even one, as in PostgreSQL.
fn rounded_to_even(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let values = args[0].as_primitive::<Float64Type>();
    Ok(Arc::new(values.unary::<_, Float64Type>(f64::round_ties_even)))
}

/// A place of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nine,
    Zero,
    Point,
    Group,
    Literal(char),
}

/// The place of a number's sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// `-` before the number.
    Minus,
    /// `+` or `-` before it.
    Leading,
    /// `+` or `-` behind it.
    Trailing,
    /// `-` behind it.
    MinusBehind,
    /// Angle brackets around it.
    Brackets,
}

/// A pattern such as `FM9,990.99`.
struct Pattern {
    places: Vec<Place>,
    bare: bool,
    sign: Sign,
}

impl Pattern {
    fn read(pattern: &str) -> Result<Self> {
        let (mut places, mut bare, mut sign) = (Vec::new(), false, Sign::Minus);
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            let is =
                |known: &str| rest.get(..known.len()).is_some_and(|text| text.eq_ignore_ascii_case(known));
            let has_digits = places.iter().any(|place| matches!(place, Place::Nine | Place::Zero));
            let mut length = first.len_utf8();
            match first {
                '9' => places.push(Place::Nine),
                '0' => places.push(Place::Zero),
                '.' | 'D' | 'd' => places.push(Place::Point),
                ',' | 'G' | 'g' => places.push(Place::Group),
                'S' | 's' => sign = if has_digits { Sign::Trailing } else { Sign::Leading },
                _ if is("FM") => (bare, length) = (true, 2),
                _ if is("MI") => (sign, length) = (Sign::MinusBehind, 2),
                _ if is("PR") => (sign, length) = (Sign::Brackets, 2),
                '"' => {
                    let (quoted, _) = rest[1..].split_once('"').unwrap_or((&rest[1..], ""));
                    places.extend(quoted.chars().map(Place::Literal));
                    length = (quoted.len() + 2).min(rest.len());
                }
                letter if letter.is_ascii_alphabetic() => {
                    return Err(refused(format!(
                        "to_char() of a number knows 9, 0, D, G, S, MI, PR, FM and texts in quotes, not \"{rest}\""
                    )));
                }
                other => places.push(Place::Literal(other)),
            }
            rest = &rest[length..];
        }
        if places.iter().filter(|place| **place == Place::Point).count() > 1 {
            return Err(refused("a pattern of to_char() has one decimal point"));
        }
        Ok(Self { places, bare, sign })
    }

    /// Returns the digits behind the point.
    fn scale(&self) -> usize {
        let behind = self.places.iter().skip_while(|place| **place != Place::Point);
        behind.filter(|place| matches!(place, Place::Nine | Place::Zero)).count()
    }

    /// Returns a number by its digits, which are rounded to the pattern's.
    fn shown(&self, is_negative: bool, digits: &str) -> String {
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.trim_start_matches('0');
        let is_negative = is_negative && digits.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
        let is_digit = |place: &Place| matches!(place, Place::Nine | Place::Zero);
        let before: Vec<Place> =
            self.places.iter().copied().take_while(|place| *place != Place::Point).filter(is_digit).collect();
        let places = before.len();
        let fits = whole.len() <= places;
        // This is the last digit behind the point that is shown.
        let needed = fraction.trim_end_matches('0').len();
        let behind =
            self.places.iter().skip_while(|place| **place != Place::Point).filter(|place| is_digit(place));
        let last_zero =
            behind.enumerate().filter(|(_, place)| **place == Place::Zero).map(|(at, _)| at + 1).max();
        let last = if self.bare { needed.max(last_zero.unwrap_or(0)) } else { usize::MAX };
        // This is the first digit that is shown.
        let zero = before.iter().position(|place| *place == Place::Zero).unwrap_or(places);
        let is_alone = self.scale() == 0 || last == 0;
        let least = if is_alone { places.saturating_sub(1) } else { places };
        let first = (places - whole.len().min(places)).min(zero).min(least);
        let digit_at = |place: usize| {
            let from_end = places - place;
            let digit = whole.len().checked_sub(from_end).and_then(|at| whole[at..].chars().next());
            digit.unwrap_or('0')
        };
        let (mut blanks, mut text) = (0, String::new());
        let (mut place, mut behind_point, mut decimal) = (0, false, 0);
        for part in &self.places {
            match part {
                Place::Literal(literal) => text.push(*literal),
                Place::Point => {
                    behind_point = true;
                    text.push('.');
                }
                Place::Group if place <= first && !behind_point => blanks += 1,
                Place::Group => text.push(','),
                _ if !fits && (!behind_point || decimal < last) => {
                    decimal += usize::from(behind_point);
                    text.push('#');
                }
                _ if behind_point => {
                    if decimal < last {
                        text.push(fraction[decimal.min(fraction.len())..].chars().next().unwrap_or('0'));
                    }
                    decimal += 1;
                }
                _ => {
                    if place >= first {
                        text.push(digit_at(place));
                    } else {
                        blanks += 1;
                    }
                    place += 1;
                }
            }
        }
        self.signed(is_negative, blanks, &text)
    }

    fn signed(&self, is_negative: bool, blanks: usize, text: &str) -> String {
        let blank = if self.bare { "" } else { " " };
        let (before, behind) = match (self.sign, is_negative) {
            (Sign::Minus, true) => ("-", ""),
            (Sign::Minus, false) => (blank, ""),
            (Sign::Leading, true) => ("-", ""),
            (Sign::Leading, false) => ("+", ""),
            (Sign::Trailing, true) | (Sign::MinusBehind, true) => ("", "-"),
            (Sign::Trailing, false) => ("", "+"),
            (Sign::MinusBehind, false) => ("", blank),
            (Sign::Brackets, true) => ("<", ">"),
            (Sign::Brackets, false) => (blank, blank),
        };
        let blanks = if self.bare { 0 } else { blanks };
        format!("{}{before}{text}{behind}", " ".repeat(blanks))
    }
}

fn shown(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let is_exact = !args[0].data_type().is_floating();
    let (values, patterns) = (&args[0], args[1].as_string::<i32>());
    let doubles = if is_exact { None } else { Some(cast(values, &DataType::Float64)?) };
    let mut read: Option<(&str, Pattern, Option<ArrayRef>)> = None;
    let texts = (0..values.len()).map(|row| {
        if values.is_null(row) || patterns.is_null(row) {
            return Ok(None);
        }
        let text = patterns.value(row);
        if read.as_ref().is_none_or(|(of, ..)| *of != text) {
            let pattern = Pattern::read(text)?;
            let scale = i8::try_from(pattern.scale()).unwrap_or(i8::MAX).min(60);
            let decimal = DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale);
            let decimals = match is_exact {
                true => Some(cast(&cast(values, &decimal)?, &DataType::Utf8)?),
                false => None,
            };
            read = Some((text, pattern, decimals));
        }
        let Some((_, pattern, decimals)) = &read else { return Ok(None) };
        let digits = match (decimals, &doubles) {
            (Some(decimals), _) => decimals.as_string::<i32>().value(row).to_string(),
            (None, Some(doubles)) => {
                let value = doubles.as_primitive::<Float64Type>().value(row);
                if !value.is_finite() {
                    return Ok(Some(value.to_string()));
                }
                format!("{value:.*}", pattern.scale())
            }
            (None, None) => return Ok(None),
        };
        let absolute = digits.strip_prefix('-');
        Ok(Some(pattern.shown(absolute.is_some(), absolute.unwrap_or(&digits))))
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn numbers_are_shown_as_in_postgresql() {
        for (pattern, digits, shown) in [
            ("999", "125", " 125"),
            ("999", "-125", "-125"),
            ("999", "0", "   0"),
            ("99.99", "-0.10", "  -.10"),
            ("0.9", "0.1", " 0.1"),
            ("9990999.9", "12.0", "    0012.0"),
            ("FM9990999.9", "12.0", "0012."),
            ("999", "1234", " ###"),
            ("9,999", "1485", " 1,485"),
            ("9,999", "485", "   485"),
            ("FM9,999,999", "1234567", "1,234,567"),
            ("999MI", "-485", "485-"),
            ("999MI", "485", "485 "),
            ("999PR", "-485", "<485>"),
            ("S999", "5", "  +5"),
            ("999S", "-5", "  5-"),
            ("FM999.99", "3.10", "3.1"),
            ("FM999.990", "148.500", "148.500"),
            ("FM999.999", "0.000", "0."),
            ("FM999.999", "0.500", ".5"),
            ("FM99.90", "0.00", ".00"),
            ("999\" m\"", "485", " 485 m"),
        ] {
            let read = Pattern::read(pattern).unwrap();
            let absolute = digits.strip_prefix('-');
            let found = read.shown(absolute.is_some(), absolute.unwrap_or(digits));
            assert_eq!(found, shown, "{pattern} of {digits}");
        }
        assert!(Pattern::read("99RN").is_err());
    }
}
