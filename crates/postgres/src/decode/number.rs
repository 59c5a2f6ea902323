//! Numbers of any length: groups of four decimal digits, of which the first has a weight.

use crate::message::Cursor;
use arrow_buffer::i256;
use hypostyle_types::{Error, Result};

/// The digits of a group.
const GROUP_DIGITS: i32 = 4;

/// What stands in place of a sign.
const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;

/// A number as it comes.
struct Number<'a> {
    groups: &'a [u8],
    weight: i32,
    sign: u16,
    /// The digits that are shown behind the point.
    scale: u16,
}

impl<'a> Number<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor(bytes);
        let (count, weight, sign, scale) = (cursor.u16()?, cursor.i16()?, cursor.u16()?, cursor.u16()?);
        let number = Self { groups: cursor.0, weight: i32::from(weight), sign, scale };
        let is_known = matches!(sign, POSITIVE | NEGATIVE | NAN | INFINITY | MINUS_INFINITY);
        let is_whole = number.groups.len() == 2 * usize::from(count);
        match is_known && is_whole && scale < 0x4000 && number.groups().all(|group| group < 10_000) {
            true => Ok(number),
            false => Err(Error::protocol("a number is in a form that it cannot have")),
        }
    }

    fn groups(&self) -> impl DoubleEndedIterator<Item = u16> + ExactSizeIterator {
        self.groups.as_chunks::<2>().0.iter().map(|group| u16::from_be_bytes(*group))
    }

    /// Returns the name of a number that is none, or infinite.
    fn special(&self) -> Option<&'static str> {
        match self.sign {
            NAN => Some("NaN"),
            INFINITY => Some("Infinity"),
            MINUS_INFINITY => Some("-Infinity"),
            _ => None,
        }
    }
}

/// Arithmetic that the two widths of decimals have in common. Every step says if it overflows.
trait Wide: Copy + PartialOrd {
    fn of(value: u16) -> Self;
    fn times(self, factor: Self) -> Option<Self>;
    fn plus(self, addend: Self) -> Option<Self>;
    fn negated(self) -> Self;
}

impl Wide for i128 {
    fn of(value: u16) -> Self {
        value.into()
    }

    fn times(self, factor: Self) -> Option<Self> {
        self.checked_mul(factor)
    }

    fn plus(self, addend: Self) -> Option<Self> {
        self.checked_add(addend)
    }

    fn negated(self) -> Self {
        -self
    }
}

impl Wide for i256 {
    fn of(value: u16) -> Self {
        Self::from_i128(value.into())
    }

    fn times(self, factor: Self) -> Option<Self> {
        self.checked_mul(factor)
    }

    fn plus(self, addend: Self) -> Option<Self> {
        self.checked_add(addend)
    }

    fn negated(self) -> Self {
        self.wrapping_neg()
    }
}

/// Returns a power of ten.
fn power<T: Wide>(exponent: i32) -> Option<T> {
    let ten = T::of(10);
    (0..exponent).try_fold(T::of(1), |power, _| power.times(ten))
}

/// Returns the number in units of its last digit. No step is larger than the result.
fn scaled<T: Wide>(number: &Number<'_>, scale: i32) -> Option<T> {
    let mut value = T::of(0);
    let mut last = 0;
    for (exponent, group) in
        (0..).map(|index| GROUP_DIGITS * (number.weight - index) + scale).zip(number.groups())
    {
        last = exponent;
        match exponent {
            0.. => value = value.times(T::of(10_000))?.plus(T::of(group))?,
            -3..0 => {
                // Some digits of the group are behind the last one that there is room for.
                let cut = 10_u16.pow(exponent.unsigned_abs());
                if group % cut != 0 {
                    return None;
                }
                value = value.times(power(GROUP_DIGITS + exponent)?)?.plus(T::of(group / cut))?;
            }
            _ if group != 0 => return None,
            _ => {}
        }
    }
    if last > 0 && value > T::of(0) {
        value = value.times(power(last)?)?;
    }
    Some(if number.sign == NEGATIVE { value.negated() } else { value })
}

fn decimal<T: Wide>(bytes: &[u8], precision: u8, scale: i8) -> Result<T> {
    let number = Number::read(bytes)?;
    if number.special().is_some() {
        return Err(unfit(bytes, precision, scale));
    }
    let value = scaled::<T>(&number, scale.into()).filter(|value| {
        let size = if *value < T::of(0) { value.negated() } else { *value };
        power::<T>(precision.into()).is_none_or(|limit| size < limit)
    });
    value.ok_or_else(|| unfit(bytes, precision, scale))
}

/// Returns a decimal of at most 38 digits.
pub fn decimal128(bytes: &[u8], precision: u8, scale: i8) -> Result<i128> {
    decimal(bytes, precision, scale)
}

/// Returns a decimal of at most 76 digits.
pub fn decimal256(bytes: &[u8], precision: u8, scale: i8) -> Result<i256> {
    decimal(bytes, precision, scale)
}

/// Returns the error for a number that no decimal of that precision is.
pub fn unfit(bytes: &[u8], precision: u8, scale: i8) -> Error {
    let mut text = Vec::new();
    if let Err(error) = put_text(bytes, &mut text) {
        return error;
    }
    let shown: String = String::from_utf8_lossy(&text).chars().take(80).collect();
    let hint = match shown.as_str() {
        "NaN" | "Infinity" | "-Infinity" => {
            "replace it in the query with nullif, or cast the column to double precision or text"
        }
        _ => "cast the column to text in the query",
    };
    Error::invalid_input(format!("{shown} is no DECIMAL({precision},{scale}); {hint}")).with_sqlstate("22003")
}

/// Writes the number as the server writes it.
pub fn put_text(bytes: &[u8], to: &mut Vec<u8>) -> Result<()> {
    let number = Number::read(bytes)?;
    if let Some(name) = number.special() {
        to.extend_from_slice(name.as_bytes());
        return Ok(());
    }
    if number.sign == NEGATIVE {
        to.push(b'-');
    }
    let group = |index: i32| -> u16 {
        let place = usize::try_from(index).ok().filter(|place| *place < number.groups.len() / 2);
        place
            .and_then(|place| number.groups.get(2 * place..2 * place + 2))
            .map_or(0, |group| group.iter().fold(0, |value, byte| value << 8 | u16::from(*byte)))
    };
    if number.weight < 0 {
        to.push(b'0');
    }
    for index in 0..=number.weight {
        match index {
            0 => to.extend_from_slice(group(0).to_string().as_bytes()),
            _ => to.extend_from_slice(format!("{:04}", group(index)).as_bytes()),
        }
    }
    if number.scale > 0 {
        to.push(b'.');
        let end = to.len() + usize::from(number.scale);
        let mut index = number.weight + 1;
        // Before the first group there are zeros only.
        if index < 0 {
            let zeros = usize::try_from(-index * GROUP_DIGITS).unwrap_or_default();
            to.resize(to.len() + zeros.min(usize::from(number.scale)), b'0');
            index = 0;
        }
        while to.len() < end {
            to.extend_from_slice(format!("{:04}", group(index)).as_bytes());
            index += 1;
        }
        to.truncate(end);
    }
    Ok(())
}

/// Returns the nearest number of double precision.
pub fn double(bytes: &[u8]) -> Result<f64> {
    let mut text = Vec::new();
    put_text(bytes, &mut text)?;
    let text = std::str::from_utf8(&text).unwrap_or_default();
    text.parse().map_err(|_| Error::protocol("a number is in a form that it cannot have"))
}
