//! Numbers in other forms than digits: `0x1F`, `0o17`, `0b11` and `1_000` (ISO/IEC 9075-2:2023, 5.3).

use crate::lexer::{TokenKind, tokens};
use hypostyle_types::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// Returns a text with the digits of its numbers alone.
///
/// # Errors
/// `Arithmetic` (22003) for an integer of more than 128 bits.
pub fn in_digits(sql: &str) -> Result<Cow<'_, str>> {
    if !sql.as_bytes().windows(3).any(may_be_within) {
        return Ok(sql.into());
    }
    let mut text = String::new();
    let mut copied = 0;
    for token in tokens(sql).filter(|token| token.kind == TokenKind::Number) {
        if let Some(digits) = digits_of(token.text)? {
            text.push_str(&sql[copied..token.start]);
            text.push_str(&digits);
            copied = token.end();
        }
    }
    if copied == 0 {
        return Ok(sql.into());
    }
    text.push_str(&sql[copied..]);
    Ok(text.into())
}

/// Says whether three bytes may be those of such a number: most texts have none, and are not read.
fn may_be_within(part: &[u8]) -> bool {
    match part {
        [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', _] => true,
        [before, b'_', after] => before.is_ascii_hexdigit() && after.is_ascii_hexdigit(),
        _ => false,
    }
}

/// Returns the digits of a number; `None` if it is written in them, or is no number.
fn digits_of(number: &str) -> Result<Option<String>> {
    let radix = match number.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0o" | "0O") => 8,
        Some("0b" | "0B") => 2,
        _ => return Ok(without_underscores(number)),
    };
    // An underscore may stand before each digit, the first one, too.
    let digits = &number[2..];
    let plain = without_underscores(&format!("0{digits}")).unwrap_or_else(|| digits.to_string());
    if digits.is_empty() || !plain.chars().all(|digit| digit.is_digit(radix)) {
        return Ok(None);
    }
    let value = u128::from_str_radix(&plain, radix).map_err(|_| {
        Error::new(ErrorKind::InvalidInput, format!("the number {number} has more than 128 bits"))
            .with_sqlstate("22003")
    })?;
    Ok(Some(value.to_string()))
}

/// Returns a number without the underscores between its digits, if it has some and no others.
fn without_underscores(number: &str) -> Option<String> {
    let bytes = number.as_bytes();
    let is_between = |at: usize| {
        let is_digit =
            |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(|byte| byte.is_ascii_hexdigit());
        is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))
    };
    let mut underscores = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').peekable();
    underscores.peek()?;
    underscores.all(|(at, _)| is_between(at)).then(|| number.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::in_digits;

    #[test]
    fn numbers_are_written_in_digits() {
        for (sql, digits) in [
            ("SELECT 0x1F, 0XfF, 0o17, 0b11, 0x_1F", "SELECT 31, 255, 15, 3, 31"),
            ("SELECT 1_000, 1_000.000_1, 1_0e1_0", "SELECT 1000, 1000.0001, 10e10"),
            (
                "SELECT '0x10', \"0x10\", x0x10, t1_000 /* 1_000 */",
                "SELECT '0x10', \"0x10\", x0x10, t1_000 /* 1_000 */",
            ),
            ("SELECT 1__0, 1_, 0xZ, 0x, 0b2", "SELECT 1__0, 1_, 0xZ, 0x, 0b2"),
            ("SELECT 0xffffffffffffffffffffffffffffffff", "SELECT 340282366920938463463374607431768211455"),
        ] {
            assert_eq!(in_digits(sql).unwrap(), digits, "{sql}");
        }
        assert_eq!(in_digits("SELECT 0x1ffffffffffffffffffffffffffffffff").unwrap_err().sqlstate(), "22003");
    }
}
