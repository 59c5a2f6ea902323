//! Floats that were decimals once (protocol.md §11.3).

use crate::integers::{NoColumns, decode_array, decode_nested, encode_integers};
use crate::sink::Sink;
use crate::source::Source;
use crate::word::Word;
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

pub(crate) const DECIMAL: u8 = 8;

/// The powers of ten that doubles hold exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Digits after the point that are tried: more do not leave one before it.
const EXPONENT_MAX: usize = 15;

const SAMPLE: usize = 64;

/// Shorter arrays are plain.
const ENCODE_MIN: usize = 64;

pub(crate) trait Float: ArrowNativeType {
    type Integer: Word;

    /// The integer, and whether `self` is that, divided.
    fn scaled(self, power: f64) -> (Self::Integer, bool);
    fn divided(integer: Self::Integer, power: f64) -> Self;
}

/// Rounds doubles to integers when they are less than 2^51, without a branch: what is added pushes out
/// all bits behind the point.
const ROUND: f64 = 6_755_399_441_055_744.0;

fn round(number: f64) -> (i64, bool) {
    let integer = (number + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i64;
    (integer, number.abs() < 2_251_799_813_685_248.0)
}

impl Float for f64 {
    type Integer = u64;

    fn scaled(self, power: f64) -> (u64, bool) {
        let (integer, fits) = round(self * power);
        (integer as u64, fits && (integer as f64 / power).to_bits() == self.to_bits())
    }

    fn divided(integer: u64, power: f64) -> Self {
        integer as i64 as Self / power
    }
}

impl Float for f32 {
    type Integer = u32;

    #[expect(clippy::cast_possible_truncation, reason = "what does not fit is seen")]
    fn scaled(self, power: f64) -> (u32, bool) {
        let (integer, fits) = round(f64::from(self) * power);
        let narrow = integer as i32;
        let same = Self::divided(narrow as u32, power).to_bits() == self.to_bits();
        (narrow as u32, fits && i64::from(narrow) == integer && same)
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest number, as the encoder did")]
    fn divided(integer: u32, power: f64) -> Self {
        (f64::from(integer as i32) / power) as Self
    }
}

/// Writes an array unless it is best plain, and says whether it did.
#[expect(
    clippy::cast_possible_truncation,
    reason = "chunks have fewer than 2^32 rows, and there are few exponents"
)]
pub(crate) fn encode_decimals<F: Float>(
    sink: &mut Sink,
    values: &[F],
    nulls: Option<&NullBuffer>,
) -> Result<bool> {
    let Some(exponent) = find_exponent(values, nulls) else { return Ok(false) };
    let power = POWERS[exponent];
    let mut integers = Vec::with_capacity(values.len());
    let (mut positions, mut exceptions) = (Vec::new(), Vec::new());
    let mut before = F::Integer::from_u64(0);
    for (position, value) in values.iter().enumerate() {
        let (integer, exact) = value.scaled(power);
        if exact {
            before = integer;
        } else if nulls.is_none_or(|nulls| nulls.is_valid(position)) {
            positions.push(position as u32);
            exceptions.push(*value);
        }
        integers.push(before);
    }
    if positions.len() > values.len() / 8 {
        return Ok(false);
    }
    sink.array(DECIMAL, nulls)?;
    sink.head.u8(exponent as u8);
    encode_integers(sink, &integers.into(), true, None, Vec::new)?;
    sink.head.u32(positions.len() as u32);
    sink.buffer(positions.into())?;
    sink.buffer(exceptions.into())?;
    Ok(true)
}

/// The least exponent with which nearly all of a sample are integers.
fn find_exponent<F: Float>(values: &[F], nulls: Option<&NullBuffer>) -> Option<usize> {
    if values.len() < ENCODE_MIN {
        return None;
    }
    let step = values.len() / SAMPLE;
    let sample: Vec<F> = (0..values.len())
        .step_by(step)
        .filter(|index| nulls.is_none_or(|nulls| nulls.is_valid(*index)))
        .map(|index| values[index])
        .collect();
    let exact = |exponent: &usize| {
        let inexact = sample.iter().filter(|value| !value.scaled(POWERS[*exponent]).1).count();
        inexact <= sample.len() / 16
    };
    (0..=EXPONENT_MAX).find(exact)
}

/// The array's values.
pub(crate) fn decode_decimals<F: Float>(source: &mut Source<'_>, count: usize) -> Result<Vec<F>> {
    let exponent = source.head().u8()?;
    let power = POWERS.get(usize::from(exponent)).copied();
    let power = power.ok_or_else(|| Error::protocol(format!("{exponent} is too great an exponent")))?;
    let integers: Vec<F::Integer> = decode_nested(source, count)?;
    source.claim(count, size_of::<F>())?;
    let mut values: Vec<F> = integers.into_iter().map(|integer| F::divided(integer, power)).collect();
    let exceptions = source.head().u32()? as usize;
    if exceptions > count {
        return Err(Error::protocol(format!("{exceptions} exceptions cannot be in {count} elements")));
    }
    let positions = decode_plain::<u32>(source, exceptions)?;
    let replaced = decode_plain::<F::Integer>(source, exceptions)?;
    let replaced: ScalarBuffer<F> = replaced.into();
    for (position, value) in ScalarBuffer::<u32>::from(positions).iter().zip(replaced.iter()) {
        let slot = values.get_mut(*position as usize);
        *slot.ok_or_else(|| Error::protocol(format!("an exception is at {position} of {count}")))? = *value;
    }
    Ok(values)
}

fn decode_plain<T: Word>(source: &mut Source<'_>, count: usize) -> Result<Buffer> {
    decode_array::<T>(source, crate::integers::PLAIN, count, &NoColumns)
}
