//! `to_number(text, pattern)`, whose result has the digits that its pattern has places for.

use crate::call::call;
use sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Value};

/// Digits of a DECIMAL.
const DIGITS_MAX: usize = 38;

/// Returns the number in a text: a DECIMAL of a constant pattern's digits, or else a DOUBLE.
pub fn read(text: &Expr, pattern: &Expr) -> Expr {
    let constant = match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(pattern) => Some(digits(pattern)),
            _ => None,
        },
        _ => None,
    };
    let data_type = match constant {
        Some((before, behind)) if (1..=DIGITS_MAX).contains(&(before + behind)) => {
            let (precision, scale) = (before + behind, i64::try_from(behind).unwrap_or_default());
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision as u64, scale))
        }
        _ => DataType::Double(ExactNumberInfo::None),
    };
    let expr = Box::new(call("number_by_pattern", vec![text.clone(), pattern.clone()]));
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// Returns the digits of a pattern before and behind its point.
fn digits(pattern: &str) -> (usize, usize) {
    let (mut before, mut behind, mut is_behind, mut is_quoted) = (0, 0, false, false);
    for character in pattern.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '.' | 'D' | 'd' => is_behind = true,
            '0' | '9' if is_behind => behind += 1,
            '0' | '9' => before += 1,
            _ => {}
        }
    }
    (before, behind)
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn digits_are_places() {
        for (pattern, counted) in
            [("99G999D9S", (5, 1)), ("FM9.999999MI", (1, 6)), ("\"9.9\"09", (2, 0)), ("", (0, 0))]
        {
            assert_eq!(digits(pattern), counted, "{pattern}");
        }
    }
}
