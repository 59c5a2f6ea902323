//! Numbers of SQL/JSON, which have the digits that are written, as PostgreSQL's NUMERIC.

use super::parse::Operator;
use crate::json::text::normalised;
use arrow::datatypes::i256;
use std::cmp::Ordering;

/// A number: its digits, and how many of them are behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    digits: i128,
    scale: u32,
}

/// The digits that a number may have.
const DIGITS_MAX: usize = 38;
const SCALE_MAX: u32 = 38;

/// Why a number is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    DividedByZero,
    OutOfRange,
}

fn power(of_ten: u32) -> Option<i128> {
    10_i128.checked_pow(of_ten)
}

impl Number {
    /// Reads a number of JSON without an exponent; `None` for one of more digits.
    pub fn read(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}");
        if digits.len() > DIGITS_MAX {
            return None;
        }
        Some(Self { digits: digits.parse().ok()?, scale: u32::try_from(fraction.len()).ok()? })
    }

    pub fn of_integer(digits: i128) -> Self {
        Self { digits, scale: 0 }
    }

    /// Returns the number as JSON, without zeros at the end of its fraction.
    pub fn written(self) -> String {
        let scale = self.scale as usize;
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if self.digits < 0 { "-" } else { "" };
        let point = if scale > 0 { "." } else { "" };
        normalised(&format!("{sign}{whole}{point}{fraction}"))
    }

    pub fn negated(self) -> Self {
        Self { digits: self.digits.saturating_neg(), ..self }
    }

    pub fn absolute(self) -> Self {
        Self { digits: self.digits.saturating_abs(), ..self }
    }

    fn unit(self) -> i128 {
        power(self.scale).unwrap_or(1)
    }

    pub fn floor(self) -> Self {
        Self::of_integer(self.digits.div_euclid(self.unit()))
    }

    pub fn ceiling(self) -> Self {
        Self::of_integer(-self.digits.saturating_neg().div_euclid(self.unit()))
    }

    /// Returns the whole number without the fraction.
    pub fn truncated(self) -> i128 {
        self.digits / self.unit()
    }

    /// Returns the nearest whole number; halves are rounded away from zero.
    pub fn rounded(self) -> i128 {
        let (whole, rest, unit) = (self.digits / self.unit(), self.digits % self.unit(), self.unit());
        let is_half = rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) && rest != 0;
        whole + if is_half { rest.signum() } else { 0 }
    }

    /// Returns the digits with so many of them behind the point.
    fn of_scale(self, scale: u32) -> Option<i128> {
        self.digits.checked_mul(power(scale.checked_sub(self.scale)?)?)
    }

    pub fn computed(self, operator: Operator, other: Self) -> Result<Self, Wrong> {
        let scale = self.scale.max(other.scale);
        let alike = || Some((self.of_scale(scale)?, other.of_scale(scale)?));
        let found = match operator {
            Operator::Divided | Operator::Modulo if other.digits == 0 => return Err(Wrong::DividedByZero),
            Operator::Plus => alike().and_then(|(left, right)| left.checked_add(right)),
            Operator::Minus => alike().and_then(|(left, right)| left.checked_sub(right)),
            Operator::Modulo => alike().and_then(|(left, right)| left.checked_rem(right)),
            Operator::Times => {
                let digits = self.digits.checked_mul(other.digits).ok_or(Wrong::OutOfRange)?;
                let scale = self.scale + other.scale;
                return if scale > SCALE_MAX { Err(Wrong::OutOfRange) } else { Ok(Self { digits, scale }) };
            }
            Operator::Divided => return self.divided(other).ok_or(Wrong::OutOfRange),
        };
        Ok(Self { digits: found.ok_or(Wrong::OutOfRange)?, scale })
    }

    /// Returns the power of 10,000 that a number begins with, and how many of it there are.
    fn greatest_place(self) -> (i64, i64) {
        if self.digits == 0 {
            return (0, 0);
        }
        let digits = self.digits.unsigned_abs().to_string();
        let exponent = digits.len() as i64 - i64::from(self.scale) - 1;
        let place = exponent.div_euclid(4);
        let count = (exponent - 4 * place + 1) as usize;
        let first = digits.bytes().chain(std::iter::repeat(b'0')).take(count);
        (place, first.fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    /// Returns a quotient with as many digits as PostgreSQL gives it: 16 that count, or more.
    fn divided(self, by: Self) -> Option<Self> {
        let ((place, first), (place_of_divisor, first_of_divisor)) =
            (self.greatest_place(), by.greatest_place());
        let place = place - place_of_divisor - i64::from(first <= first_of_divisor);
        let scale = (16 - 4 * place).max(i64::from(self.scale)).max(i64::from(by.scale)).clamp(0, 1000);
        let scale = u32::try_from(scale).ok().filter(|scale| *scale <= SCALE_MAX)?;
        let shift = i256::from_i128(10).checked_pow((scale + by.scale).checked_sub(self.scale)?)?;
        let dividend = i256::from_i128(self.digits).checked_mul(shift)?;
        let divisor = i256::from_i128(by.digits);
        let quotient = dividend.checked_div(divisor)?.to_i128()?;
        let rest = dividend.checked_rem(divisor)?.to_i128()?;
        let is_half = rest != 0 && rest.unsigned_abs() >= by.digits.unsigned_abs().div_ceil(2);
        let sign = if (self.digits < 0) == (by.digits < 0) { 1 } else { -1 };
        let digits = quotient.checked_add(if is_half { sign } else { 0 })?;
        Some(Self { digits, scale })
    }
}

/// Compares numbers of JSON as they are written without exponents, however many digits they have.
pub(super) fn compared(one: &str, other: &str) -> Ordering {
    if one.contains(['e', 'E']) || other.contains(['e', 'E']) {
        let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
        return number(one).total_cmp(&number(other));
    }
    let parts = |text: &str| match text.strip_prefix('-') {
        Some(digits) => (true, digits.to_string()),
        None => (false, text.to_string()),
    };
    let ((is_negative, one), (is_other_negative, other)) = (parts(one), parts(other));
    match (is_negative, is_other_negative) {
        (false, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, false) => compared_digits(&one, &other),
        (true, true) => compared_digits(&other, &one),
    }
}

/// Compares numbers without signs, zeros before them and zeros at the end of their fractions.
fn compared_digits(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| -> (usize, String, String) {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        (whole.len(), whole.to_string(), fraction.to_string())
    };
    parts(one).cmp(&parts(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::read(text).unwrap()
    }

    #[test]
    fn numbers_have_their_digits() {
        for (left, operator, right, expected) in [
            ("0.1", Operator::Plus, "0.2", "0.3"),
            ("1", Operator::Minus, "1.5", "-0.5"),
            ("1.5", Operator::Times, "-2", "-3"),
            ("5", Operator::Divided, "2", "2.5"),
            ("1", Operator::Divided, "3", "0.33333333333333333333"),
            ("2", Operator::Divided, "3", "0.66666666666666666667"),
            ("-2", Operator::Divided, "3", "-0.66666666666666666667"),
            ("10", Operator::Divided, "3", "3.3333333333333333"),
            ("-7", Operator::Modulo, "3", "-1"),
            ("7.5", Operator::Modulo, "2", "1.5"),
        ] {
            let found = number(left).computed(operator, number(right)).map(Number::written);
            assert_eq!(found.as_deref(), Ok(expected), "{left} {operator:?} {right}");
        }
        assert_eq!(number("1").computed(Operator::Divided, number("0.0")), Err(Wrong::DividedByZero));
        let large = number("99999999999999999999999999999999999999");
        assert_eq!(large.computed(Operator::Times, large), Err(Wrong::OutOfRange));
        assert_eq!(Number::read("123456789012345678901234567890123456789"), None);
    }

    #[test]
    fn numbers_are_rounded() {
        for (text, floor, ceiling, rounded) in
            [("1.5", "1", "2", 2), ("-1.5", "-2", "-1", -2), ("-0.4", "-1", "0", 0), ("3", "3", "3", 3)]
        {
            let of = number(text);
            assert_eq!(
                (of.floor().written(), of.ceiling().written()),
                (floor.into(), ceiling.into()),
                "{text}"
            );
            assert_eq!(of.rounded(), rounded, "{text}");
        }
    }

    #[test]
    fn numbers_of_any_length_are_compared() {
        let long = "9".repeat(60);
        for (one, other, expected) in [
            ("1", "2", Ordering::Less),
            ("10", "9", Ordering::Greater),
            ("-10", "-9", Ordering::Less),
            ("0.5", "0.45", Ordering::Greater),
            (&*long, "1", Ordering::Greater),
            ("0", "-1", Ordering::Greater),
            ("2.5", "2.5", Ordering::Equal),
        ] {
            assert_eq!(compared(one, other), expected, "{one} {other}");
        }
    }
}
