//! PostgreSQL's numeric as it lies in memory, into scaled integers.
//!
//! No header of PostgreSQL describes these bytes to others, but they are those of tables on disk, which
//! have been the same since version 9.1. They begin with a `u16` in the machine's order:
//!
//! * The two highest bits 11: not a number, or an infinity (the two bits below them tell).
//! * 10: short. Bit 13 is the sign, bits 7 to 12 the shown scale, bit 6 the sign of the weight, and bits
//!   0 to 5 the weight's lowest ones.
//! * 00 and 01: long, positive and negative; a second `i16` is the weight.
//!
//! Digits to the base of 10,000 follow as `i16`s, the first of which counts 10,000 to the power of the
//! weight.

use arrow_buffer::i256;

/// Why a number is no DECIMAL of a precision and scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Misfit {
    NotANumber = 1,
    Infinite = 2,
    /// It has more digits before the point, or behind it, than the type.
    Digits = 3,
    /// The bytes are no number.
    Damaged = 4,
}

/// Decimal digits of one digit to the base of 10,000.
const DIGITS: i32 = 4;
const BASE: i16 = 10_000;
const TENS: [i16; 4] = [1, 10, 100, 1000];

/// Sign, weight and digits.
struct Parts<'a> {
    is_negative: bool,
    weight: i32,
    digits: &'a [u8],
}

fn parts(bytes: &[u8]) -> Result<Parts<'_>, Misfit> {
    let (header, rest) = bytes.split_first_chunk::<2>().ok_or(Misfit::Damaged)?;
    let header = u16::from_ne_bytes(*header);
    match header >> 14 {
        0b11 if header & 0x3000 == 0 => Err(Misfit::NotANumber),
        0b11 => Err(Misfit::Infinite),
        0b10 => {
            let low = i32::from(header & 0x3f);
            let weight = if header & 0x40 == 0 { low } else { low - 0x40 };
            Ok(Parts { is_negative: header & 0x2000 != 0, weight, digits: rest })
        }
        sign => {
            let (weight, digits) = rest.split_first_chunk::<2>().ok_or(Misfit::Damaged)?;
            Ok(Parts { is_negative: sign == 1, weight: i32::from(i16::from_ne_bytes(*weight)), digits })
        }
    }
}

/// An integer that holds scaled numbers.
pub(crate) trait Scaled: Copy {
    const ZERO: Self;
    /// The decimal digits that always fit.
    const DIGITS_MAX: i32;

    /// Returns `self · by + plus`.
    fn times(self, by: i16, plus: i16) -> Option<Self>;
    fn negated(self) -> Self;
    /// Whether it has at most so many decimal digits.
    fn has_digits(self, precision: u8) -> bool;
}

macro_rules! scaled {
    ($type:ty, $digits:literal) => {
        impl Scaled for $type {
            const ZERO: Self = 0;
            const DIGITS_MAX: i32 = $digits;

            fn times(self, by: i16, plus: i16) -> Option<Self> {
                self.checked_mul(by.into())?.checked_add(plus.into())
            }

            fn negated(self) -> Self {
                -self
            }

            fn has_digits(self, precision: u8) -> bool {
                /// Powers of ten, as many as the type has.
                const ENDS: [$type; $digits + 1] = {
                    let mut ends = [1; $digits + 1];
                    let mut power = 1;
                    while power < ends.len() {
                        ends[power] = ends[power - 1] * 10;
                        power += 1;
                    }
                    ends
                };
                ENDS.get(usize::from(precision)).is_none_or(|end| self < *end)
            }
        }
    };
}

scaled!(i64, 18);
scaled!(i128, 38);

impl Scaled for i256 {
    const ZERO: Self = Self::ZERO;
    const DIGITS_MAX: i32 = 76;

    fn times(self, by: i16, plus: i16) -> Option<Self> {
        let wide = |number: i16| Self::from_i128(number.into());
        self.checked_mul(wide(by))?.checked_add(wide(plus))
    }

    fn negated(self) -> Self {
        self.wrapping_neg()
    }

    fn has_digits(self, precision: u8) -> bool {
        Self::from_i128(10).checked_pow(precision.into()).is_none_or(|end| self < end)
    }
}

/// Returns the number times 10 to the power of `scale`.
///
/// # Errors
/// When that is no integer of at most `precision` digits: nothing is ever rounded.
pub(crate) fn scaled<T: Scaled>(bytes: &[u8], precision: u8, scale: u8) -> Result<T, Misfit> {
    let Parts { is_negative, weight, digits } = parts(bytes)?;
    if digits.len() % 2 != 0 {
        return Err(Misfit::Damaged);
    }
    let mut number = T::ZERO;
    // The power of ten of the last digit that was added, in units of the result.
    let mut power = (weight + 1) * DIGITS + i32::from(scale);
    for digit in digits.chunks_exact(2) {
        let digit = i16::from_ne_bytes([digit[0], digit[1]]);
        if !(0..BASE).contains(&digit) {
            return Err(Misfit::Damaged);
        }
        power -= DIGITS;
        number = match power {
            0.. => number.times(BASE, digit),
            -3..0 => {
                // A part of the digit lies behind the last place.
                let beyond = TENS[power.unsigned_abs() as usize];
                if digit % beyond != 0 {
                    return Err(Misfit::Digits);
                }
                number.times(BASE / beyond, digit / beyond)
            }
            _ if digit == 0 => Some(number),
            _ => return Err(Misfit::Digits),
        }
        .ok_or(Misfit::Digits)?;
    }
    if digits.is_empty() {
        return Ok(T::ZERO);
    }
    let mut zeros = power.max(0);
    if zeros > T::DIGITS_MAX {
        return Err(Misfit::Digits);
    }
    while zeros > 0 {
        let step = zeros.min(3);
        number = number.times(TENS[step as usize], 0).ok_or(Misfit::Digits)?;
        zeros -= step;
    }
    match number.has_digits(precision) {
        true if is_negative => Ok(number.negated()),
        true => Ok(number),
        false => Err(Misfit::Digits),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A number as PostgreSQL has it in memory, short where it can be.
    pub(crate) fn numeric(text: &str, long: bool) -> Vec<u8> {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let padded = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
        let groups = padded.len() / 4;
        let all = format!("{padded}{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
        let mut digits: Vec<i16> = all
            .as_bytes()
            .chunks(4)
            .map(|four| std::str::from_utf8(four).unwrap().parse().unwrap())
            .collect();
        let mut weight = groups as i32 - 1;
        while digits.first() == Some(&0) {
            digits.remove(0);
            weight -= 1;
        }
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            weight = 0;
        }
        let scale = fraction.len() as u16;
        let mut bytes = Vec::new();
        if long {
            bytes.extend((u16::from(is_negative) << 14 | scale).to_ne_bytes());
            bytes.extend((weight as i16).to_ne_bytes());
        } else {
            let weight = (weight as u16) & 0x7f;
            let header = 0x8000 | u16::from(is_negative) << 13 | scale << 7 | weight;
            bytes.extend(header.to_ne_bytes());
        }
        digits.into_iter().for_each(|digit| bytes.extend(digit.to_ne_bytes()));
        bytes
    }

    #[test]
    fn numbers_are_scaled_and_never_rounded() {
        for (text, precision, scale, scaled_to) in [
            ("0", 5, 2, Some("0")),
            ("0.00", 5, 2, Some("0")),
            ("1", 5, 2, Some("100")),
            ("-1.5", 5, 2, Some("-150")),
            ("999.99", 5, 2, Some("99999")),
            ("1000", 5, 2, None),
            ("1.234", 5, 2, None),
            ("1.23", 5, 2, Some("123")),
            ("0.00001", 10, 5, Some("1")),
            ("0.00001", 10, 4, None),
            ("0.12345678", 18, 8, Some("12345678")),
            ("-123456789012345678", 18, 0, Some("-123456789012345678")),
            ("1234567890123456789", 18, 0, None),
            ("100000000", 18, 0, Some("100000000")),
            ("0.0000000000000001", 18, 16, Some("1")),
            ("10000000000000000000000000000000000000", 38, 0, Some("10000000000000000000000000000000000000")),
            ("99999999999999999999999999999999999999", 38, 0, Some("99999999999999999999999999999999999999")),
            (
                "999999999999999999999999999999999999.99",
                38,
                2,
                Some("99999999999999999999999999999999999999"),
            ),
            ("100000000000000000000000000000000000000", 38, 0, None),
        ] {
            for long in [false, true] {
                let bytes = numeric(text, long);
                let expected = scaled_to.map(str::to_string).ok_or(Misfit::Digits);
                let narrow = scaled::<i64>(&bytes, precision, scale).map(|number| number.to_string());
                let wide = scaled::<i128>(&bytes, precision, scale).map(|number| number.to_string());
                let widest = scaled::<i256>(&bytes, precision, scale).map(|number| number.to_string());
                if precision <= 18 {
                    assert_eq!(narrow, expected, "{text}");
                }
                assert_eq!(wide, expected, "{text}");
                assert_eq!(widest, expected, "{text}");
            }
        }
        let most = "9".repeat(76);
        assert_eq!(scaled::<i256>(&numeric(&most, true), 76, 0).unwrap().to_string(), most);
        assert_eq!(
            scaled::<i256>(&numeric(&format!("1{}", "0".repeat(76)), true), 76, 0),
            Err(Misfit::Digits)
        );
    }

    #[test]
    fn what_is_no_number_is_told_apart() {
        let header = |header: u16| scaled::<i64>(&header.to_ne_bytes(), 18, 0);
        assert_eq!(header(0xc000), Err(Misfit::NotANumber));
        assert_eq!(header(0xd000), Err(Misfit::Infinite));
        assert_eq!(header(0xf000), Err(Misfit::Infinite));
        assert_eq!(header(0x8000), Ok(0));
        assert_eq!(header(0x0000), Err(Misfit::Damaged));
        assert_eq!(scaled::<i64>(&[], 18, 0), Err(Misfit::Damaged));
    }

    #[test]
    fn any_bytes_are_a_number_or_an_error() {
        let mut state = 7_u64;
        for round in 0..200_000 {
            let bytes: Vec<u8> = (0..round % 23)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8 & if state & 3 == 0 { 0x27 } else { 0xff }
                })
                .collect();
            let (narrow, wide) = (scaled::<i64>(&bytes, 18, 4), scaled::<i128>(&bytes, 18, 4));
            assert_eq!(narrow.map(i128::from).ok(), wide.ok(), "{bytes:?}");
            assert_eq!(wide.map(i256::from_i128).ok(), scaled::<i256>(&bytes, 18, 4).ok(), "{bytes:?}");
        }
    }
}
