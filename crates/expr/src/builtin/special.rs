//! Functions of numbers that the standard library lacks: the gamma and the error function, angles in
//! degrees, and the neighbours of numbers.

use crate::builtin::number::wrong;
use crate::builtin::written::{Described, Kind};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::error::{DataFusionError, Result};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};
use std::sync::Arc;

/// A function of one number.
const ONE: &[Kind] = &[Kind::Double];

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["gamma"], ONE, double, |args, _| each(args, |x| within(x, gamma(x)))),
    Described::new(&["lgamma"], ONE, double, |args, _| each(args, |x| within(x, log_gamma(x)))),
    Described::new(&["erf"], ONE, double, |args, _| each(args, |x| Ok(erf(x)))),
    Described::new(&["erfc"], ONE, double, |args, _| each(args, |x| Ok(erfc(x)))),
    Described::new(&["sind"], ONE, double, |args, _| each(args, |x| finite(x).map(sine))),
    Described::new(&["cosd"], ONE, double, |args, _| each(args, |x| finite(x).map(cosine))),
    Described::new(&["tand"], ONE, double, |args, _| {
        each(args, |x| finite(x).map(|x| quotient(sine(x), cosine(x))))
    }),
    Described::new(&["cotd"], ONE, double, |args, _| {
        each(args, |x| finite(x).map(|x| quotient(cosine(x), sine(x))))
    }),
    Described::new(&["asind"], ONE, double, |args, _| each(args, |x| ratio(x).map(arc_sine))),
    Described::new(&["acosd"], ONE, double, |args, _| each(args, |x| ratio(x).map(arc_cosine))),
    Described::new(&["atand"], ONE, double, |args, _| each(args, |x| Ok(x.atan().to_degrees()))),
    Described::new(&["atan2d"], &[Kind::Double, Kind::Double], double, |args, _| {
        Ok(pairs(args, |y, x| y.atan2(x).to_degrees()))
    }),
    Described::new(
        &["signbit"],
        ONE,
        |_| Ok(DataType::Boolean),
        |args, _| {
            let values = args[0].as_primitive::<Float64Type>().iter();
            let signs = values.map(|value| value.map(|value| value.is_sign_negative()));
            Ok(Arc::new(signs.collect::<BooleanArray>()))
        },
    ),
    Described::new(&["nextafter"], &[Kind::Double, Kind::Double], double, |args, _| {
        Ok(pairs(args, |of, towards| match of.partial_cmp(&towards) {
            Some(std::cmp::Ordering::Less) => of.next_up(),
            Some(std::cmp::Ordering::Greater) => of.next_down(),
            Some(std::cmp::Ordering::Equal) => towards,
            None => f64::NAN,
        }))
    }),
];

fn double(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Float64)
}

fn each(args: &[ArrayRef], of: impl Fn(f64) -> Result<f64>) -> Result<ArrayRef> {
    let values = args[0].as_primitive::<Float64Type>().iter();
    let results = values.map(|value| value.map(&of).transpose());
    Ok(Arc::new(results.collect::<Result<Float64Array>>()?))
}

fn pairs(args: &[ArrayRef], of: impl Fn(f64, f64) -> f64) -> ArrayRef {
    let [left, right] = [0, 1].map(|place| args[place].as_primitive::<Float64Type>().iter());
    let results = left.zip(right).map(|(left, right)| Some(of(left?, right?)));
    Arc::new(results.collect::<Float64Array>())
}

/// Returns a result that is a number, or is none because the argument was none.
fn within(of: f64, result: f64) -> Result<f64> {
    let is_given = of.is_nan() || of.is_infinite() && !result.is_nan();
    if result.is_finite() || is_given {
        return Ok(result);
    }
    Err(wrong("22003", format!("the gamma function of {of} is out of range of DOUBLE")))
}

fn out_of_range(of: f64) -> DataFusionError {
    wrong("22003", format!("input is out of range: {of}"))
}

fn finite(of: f64) -> Result<f64> {
    if of.is_infinite() { Err(out_of_range(of)) } else { Ok(of) }
}

fn ratio(of: f64) -> Result<f64> {
    if of.abs() > 1.0 { Err(out_of_range(of)) } else { Ok(of) }
}

/// Arguments from here on have a series that ends early.
const FAR: f64 = 13.0;

/// The gamma function of greater numbers is greater than any DOUBLE.
const GAMMA_MAX: f64 = 171.7;

/// What is left of the logarithm of the gamma function behind Stirling's formula, from [`FAR`] on.
fn remainder(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
        -3617.0 / 122_400.0,
    ];
    let square = (x * x).recip();
    TERMS.iter().rev().fold(0.0, |sum, term| sum * square + term) / x
}

/// Returns the gamma function of a number of 0.5 and more.
fn gamma_above(of: f64) -> f64 {
    if of > GAMMA_MAX {
        return f64::INFINITY;
    }
    if of.fract() == 0.0 {
        return (2..of as u32).fold(1.0, |product, factor| product * f64::from(factor));
    }
    let (mut x, mut product) = (of, 1.0);
    while x < FAR {
        product *= x;
        x += 1.0;
    }
    // The power alone would be too large.
    let half = x.powf((x - 0.5) / 2.0);
    (2.0 * PI).sqrt() * half * (-x).exp() * half * remainder(x).exp() / product
}

/// Returns the sine of so many half turns.
fn sine_of_half_turns(x: f64) -> f64 {
    let whole = x.round();
    let sine = (PI * (x - whole)).sin();
    if whole % 2.0 == 0.0 { sine } else { -sine }
}

/// Returns the gamma function: NaN for whole numbers below 1 and the least infinity.
fn gamma(x: f64) -> f64 {
    match x {
        x if x.is_nan() || x == f64::NEG_INFINITY || (x <= 0.0 && x.fract() == 0.0) => f64::NAN,
        x if x < 0.5 => PI / sine_of_half_turns(x) / gamma_above(1.0 - x),
        x => gamma_above(x),
    }
}

/// Returns the logarithm of the absolute value of the gamma function.
fn log_gamma(x: f64) -> f64 {
    match x {
        x if x.is_nan() => x,
        x if x.is_infinite() || (x <= 0.0 && x.fract() == 0.0) => f64::INFINITY,
        x if x < 0.5 => (PI / sine_of_half_turns(x).abs()).ln() - log_gamma(1.0 - x),
        x if x < FAR => gamma_above(x).ln(),
        x => (x - 0.5) * (x.ln() - 1.0) - 0.5 + 0.5 * (LN_2 + PI.ln()) + remainder(x),
    }
}

/// The error function of such numbers and greater ones is computed from what it lacks of 1.
const LARGE: f64 = 1.5;

fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() >= LARGE {
        return (1.0 - tail(x.abs())).copysign(x);
    }
    let (mut sum, mut term, mut place) = (x, x, 0_u32);
    loop {
        place += 1;
        term *= 2.0 * x * x / f64::from(2 * place + 1);
        let more = sum + term;
        if more == sum {
            return FRAC_2_SQRT_PI * (-x * x).exp() * sum;
        }
        sum = more;
    }
}

fn erfc(x: f64) -> f64 {
    match x {
        x if x >= LARGE => tail(x),
        x => 1.0 - erf(x),
    }
}

/// Returns what the error function of a number of [`LARGE`] and more lacks of 1, by a continued fraction.
fn tail(x: f64) -> f64 {
    const DEPTH: u32 = 120;
    // Nothing is left of it there.
    if x > 28.0 {
        return 0.0;
    }
    let fraction = (1..=DEPTH).rev().fold(x, |fraction, place| x + f64::from(place) / 2.0 / fraction);
    // The square of a few digits is exact, and the rest is small.
    let short = (x * 16.0).trunc() / 16.0;
    let power = (-short * short).exp() * ((short - x) * (short + x)).exp();
    power * FRAC_2_SQRT_PI / 2.0 / fraction
}

/// Returns the sine of an angle in degrees, which is exact where it has few digits.
fn sine(degrees: f64) -> f64 {
    let angle = degrees % 360.0;
    let angle = if angle < 0.0 { angle + 360.0 } else { angle };
    let (angle, sign) = if angle > 180.0 { (360.0 - angle, -1.0) } else { (angle, 1.0) };
    let angle = if angle > 90.0 { 180.0 - angle } else { angle };
    sign * of_quadrant(angle)
}

fn cosine(degrees: f64) -> f64 {
    let angle = degrees.abs() % 360.0;
    let angle = if angle > 180.0 { 360.0 - angle } else { angle };
    if angle > 90.0 { -of_quadrant(angle - 90.0) } else { of_quadrant(90.0 - angle) }
}

/// Returns the sine of an angle from 0 to 90 degrees.
fn of_quadrant(degrees: f64) -> f64 {
    match degrees {
        0.0 => 0.0,
        30.0 => 0.5,
        90.0 => 1.0,
        // The sine and the cosine of half a right angle are the same.
        45.0 => 0.5_f64.sqrt(),
        other => other.to_radians().sin(),
    }
}

/// Returns a quotient that is infinite where the divisor is zero, and that is no negative zero.
fn quotient(of: f64, by: f64) -> f64 {
    if by == 0.0 { f64::INFINITY.copysign(of) } else { of / by + 0.0 }
}

/// Returns the angle in degrees whose sine it is.
fn arc_sine(x: f64) -> f64 {
    match x.abs() {
        0.5 => 30.0_f64.copysign(x),
        1.0 => 90.0_f64.copysign(x),
        _ => x.asin().to_degrees(),
    }
}

fn arc_cosine(x: f64) -> f64 {
    match x.abs() {
        0.0 | 0.5 | 1.0 => 90.0 - arc_sine(x),
        _ => x.acos().to_degrees(),
    }
}

#[cfg(test)]
mod tests {
    use super::{erf, erfc, gamma, log_gamma};

    fn check(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-13 * expected.abs(), "{found} is not {expected}");
    }

    #[test]
    fn gamma_functions_are_exact_to_13_digits() {
        for (x, expected) in [
            (5.0, 24.0),
            (0.5, 1.772_453_850_905_516),
            (-1.5, 2.363_271_801_207_354_4),
            (5.5, 52.342_777_784_553_52),
            (171.6, 1.585_896_909_667_256_3e308),
        ] {
            check(gamma(x), expected);
            check(log_gamma(x), expected.abs().ln());
        }
        check(log_gamma(100.0), 359.134_205_369_575_4);
        check(log_gamma(1e300), 6.897_755_278_982_137e302);
        assert_eq!((log_gamma(1.0), log_gamma(2.0)), (0.0, 0.0));
        assert!(gamma(0.0).is_nan() && gamma(-3.0).is_nan() && gamma(f64::NAN).is_nan());
        assert_eq!(gamma(172.0), f64::INFINITY);
    }

    #[test]
    fn the_error_function_is_exact_to_13_digits() {
        for (x, expected) in [(0.1, 0.112_462_916_018_284_9), (1.0, 0.842_700_792_949_714_9)] {
            check(erf(x), expected);
            check(erf(-x), -expected);
        }
        for (x, expected) in [
            (1.0, 0.157_299_207_050_285_13),
            (2.0, 0.004_677_734_981_047_265),
            (10.0, 2.088_487_583_762_545e-45),
        ] {
            check(erfc(x), expected);
        }
        assert_eq!((erf(f64::INFINITY), erfc(f64::INFINITY), erfc(f64::NEG_INFINITY)), (1.0, 0.0, 2.0));
    }
}
