//! The values of partition keys: what they are, whatever array they lie in.

use arrow_buffer::i256;
use hypostyle_types::LogicalType;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// What the values of a key column are. SQL compares values of one kind; those of two kinds are
/// never the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Integers of all widths, and decimals.
    Exact,
    /// Floating-point numbers.
    Float,
    /// Truth values.
    Boolean,
    /// Days.
    Date,
    /// Times of a day.
    Time,
    /// Timestamps without a time zone.
    Timestamp,
    /// Timestamps with a time zone, whichever it is.
    Instant,
    /// Exact lengths of time.
    Duration,
    /// Text, compared by its bytes.
    Text,
    /// Bytes, of fixed length or not.
    Bytes,
    /// UUIDs, as bytes or as text.
    Uuid,
}

impl Kind {
    /// Returns the kind of a column's values; `None` for types that are no partition keys:
    /// intervals, whose equal values have many forms, JSON, and nested types.
    pub fn of(logical_type: &LogicalType) -> Option<Self> {
        Some(match logical_type {
            LogicalType::TinyInt
            | LogicalType::SmallInt
            | LogicalType::Integer
            | LogicalType::BigInt
            | LogicalType::UTinyInt
            | LogicalType::USmallInt
            | LogicalType::UInteger
            | LogicalType::UBigInt
            | LogicalType::Decimal { .. } => Self::Exact,
            LogicalType::Float | LogicalType::Double => Self::Float,
            LogicalType::Boolean => Self::Boolean,
            LogicalType::Date => Self::Date,
            LogicalType::Time => Self::Time,
            LogicalType::Timestamp { time_zone: None, .. } => Self::Timestamp,
            LogicalType::Timestamp { time_zone: Some(_), .. } => Self::Instant,
            LogicalType::Duration { .. } => Self::Duration,
            LogicalType::Varchar => Self::Text,
            LogicalType::Blob | LogicalType::FixedBinary { .. } => Self::Bytes,
            LogicalType::Uuid => Self::Uuid,
            LogicalType::Interval
            | LogicalType::Json
            | LogicalType::List { .. }
            | LogicalType::Array { .. }
            | LogicalType::Struct { .. }
            | LogicalType::Map { .. } => return None,
        })
    }
}

/// One value of a key, borrowed from where it lies. Equal values have one form: see the functions
/// that make them.
#[derive(Clone, Copy, Debug)]
pub enum Datum<'a> {
    /// No value.
    Null,
    /// A whole number of 64 bits.
    Integer(i64),
    /// Another exact number: the unscaled number, and the digits after the point.
    Exact(i256, u8),
    /// A number with neither a negative zero nor more than one NaN.
    Float(f64),
    /// A truth value.
    Boolean(bool),
    /// Days since 1970-01-01.
    Date(i64),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Nanoseconds since 1970-01-01.
    Timestamp(i128),
    /// Nanoseconds since 1970-01-01 UTC.
    Instant(i128),
    /// Nanoseconds.
    Duration(i128),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A UUID, its first byte the highest.
    Uuid(u128),
}

const TEN: i256 = i256::from_i128(10);

impl Datum<'_> {
    /// Returns the exact number of unscaled digits with `scale` of them after the point, without
    /// zeros at its end.
    pub fn exact(mut unscaled: i256, mut scale: u8) -> Self {
        while scale > 0 {
            let (Some(shorter), Some(digit)) = (unscaled.checked_div(TEN), unscaled.checked_rem(TEN)) else {
                break;
            };
            if digit != i256::ZERO {
                break;
            }
            (unscaled, scale) = (shorter, scale - 1);
        }
        let whole = if scale == 0 { unscaled.to_i128().and_then(|n| i64::try_from(n).ok()) } else { None };
        whole.map_or(Self::Exact(unscaled, scale), Self::Integer)
    }

    /// Returns the exact number that a 128-bit decimal is; most need no wider arithmetic.
    pub fn decimal(mut unscaled: i128, mut scale: u8) -> Self {
        while scale > 0 && unscaled % 10 == 0 {
            (unscaled, scale) = (unscaled / 10, scale - 1);
        }
        match i64::try_from(unscaled) {
            Ok(whole) if scale == 0 => Self::Integer(whole),
            _ => Self::Exact(i256::from_i128(unscaled), scale),
        }
    }

    /// Returns the floating-point number in the one form that its equals have.
    pub fn float(number: f64) -> Self {
        // Adding a zero makes −0.0 positive.
        Self::Float(if number.is_nan() { f64::NAN } else { number + 0.0 })
    }

    /// Tells whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Compares two values of one kind as ORDER BY does: NaN after all numbers, text by its bytes.
    /// `None` for NULL, and for values of two kinds.
    pub fn compare(&self, other: &Datum<'_>) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Integer(a), Datum::Integer(b)) => a.cmp(b),
            (Self::Integer(a), Datum::Exact(b, scale)) => {
                compare_exact((i256::from_i128((*a).into()), 0), (*b, *scale))
            }
            (Self::Exact(a, scale), Datum::Integer(b)) => {
                compare_exact((*a, *scale), (i256::from_i128((*b).into()), 0))
            }
            (Self::Exact(a, of_a), Datum::Exact(b, of_b)) => compare_exact((*a, *of_a), (*b, *of_b)),
            // NaN is the positive one, which the total order has at its end.
            (Self::Float(a), Datum::Float(b)) => a.total_cmp(b),
            (Self::Boolean(a), Datum::Boolean(b)) => a.cmp(b),
            (Self::Date(a), Datum::Date(b)) | (Self::Time(a), Datum::Time(b)) => a.cmp(b),
            (Self::Timestamp(a), Datum::Timestamp(b))
            | (Self::Instant(a), Datum::Instant(b))
            | (Self::Duration(a), Datum::Duration(b)) => a.cmp(b),
            (Self::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
            (Self::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
            _ => return None,
        })
    }

    /// Returns the value as one of its own; `None` for NULL.
    pub fn to_value(&self) -> Option<Value> {
        Some(match *self {
            Self::Null => return None,
            Self::Integer(number) => Value::Integer(number),
            Self::Exact(unscaled, scale) => Value::Exact { unscaled, scale },
            Self::Float(number) => Value::Float(number.to_bits()),
            Self::Boolean(truth) => Value::Boolean(truth),
            Self::Date(days) => Value::Date(days),
            Self::Time(nanoseconds) => Value::Time(nanoseconds),
            Self::Timestamp(nanoseconds) => Value::Timestamp(nanoseconds),
            Self::Instant(nanoseconds) => Value::Instant(nanoseconds),
            Self::Duration(nanoseconds) => Value::Duration(nanoseconds),
            Self::Text(text) => Value::Text(text.into()),
            Self::Bytes(bytes) => Value::Bytes(bytes.into()),
            Self::Uuid(number) => Value::Uuid(number),
        })
    }
}

/// Compares by the whole parts, then by the fractions, which fit when they have equally many
/// digits.
fn compare_exact(a: (i256, u8), b: (i256, u8)) -> Ordering {
    let parts = |(unscaled, scale): (i256, u8)| {
        let power = TEN.checked_pow(scale.into()).unwrap_or(i256::MAX);
        let whole = unscaled.checked_div(power).unwrap_or(i256::ZERO);
        (whole, unscaled.checked_rem(power).unwrap_or(i256::ZERO))
    };
    let ((whole_a, rest_a), (whole_b, rest_b)) = (parts(a), parts(b));
    let scale = a.1.max(b.1);
    let aligned =
        |rest: i256, own: u8| rest.wrapping_mul(TEN.checked_pow(u32::from(scale - own)).unwrap_or(i256::ONE));
    whole_a.cmp(&whole_b).then_with(|| aligned(rest_a, a.1).cmp(&aligned(rest_b, b.1)))
}

/// One value of a key that is kept: a bound of a range, or a constant of a query. Never NULL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A whole number of 64 bits.
    Integer(#[serde(with = "in_text")] i64),
    /// Another exact number, without zeros at the end of its fraction.
    Exact {
        /// All digits.
        #[serde(with = "in_text")]
        unscaled: i256,
        /// How many of them are after the point: at most 76.
        scale: u8,
    },
    /// The bits of a floating-point number.
    Float(#[serde(with = "in_text")] u64),
    /// A truth value.
    Boolean(bool),
    /// Days since 1970-01-01.
    Date(#[serde(with = "in_text")] i64),
    /// Nanoseconds since midnight.
    Time(#[serde(with = "in_text")] i64),
    /// Nanoseconds since 1970-01-01.
    Timestamp(#[serde(with = "in_text")] i128),
    /// Nanoseconds since 1970-01-01 UTC.
    Instant(#[serde(with = "in_text")] i128),
    /// Nanoseconds.
    Duration(#[serde(with = "in_text")] i128),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A UUID, its first byte the highest.
    Uuid(#[serde(with = "in_text")] u128),
}

impl Value {
    /// Returns the value as one that is compared and hashed. It has the form of its equals, also if
    /// the bytes of a catalog had another one.
    pub fn datum(&self) -> Datum<'_> {
        match self {
            Self::Integer(number) => Datum::Integer(*number),
            Self::Exact { unscaled, scale } => Datum::exact(*unscaled, *scale),
            Self::Float(bits) => Datum::float(f64::from_bits(*bits)),
            Self::Boolean(truth) => Datum::Boolean(*truth),
            Self::Date(days) => Datum::Date(*days),
            Self::Time(nanoseconds) => Datum::Time(*nanoseconds),
            Self::Timestamp(nanoseconds) => Datum::Timestamp(*nanoseconds),
            Self::Instant(nanoseconds) => Datum::Instant(*nanoseconds),
            Self::Duration(nanoseconds) => Datum::Duration(*nanoseconds),
            Self::Text(text) => Datum::Text(text),
            Self::Bytes(bytes) => Datum::Bytes(bytes),
            Self::Uuid(number) => Datum::Uuid(*number),
        }
    }

    /// Returns the kind of the value.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Integer(_) | Self::Exact { .. } => Kind::Exact,
            Self::Float(_) => Kind::Float,
            Self::Boolean(_) => Kind::Boolean,
            Self::Date(_) => Kind::Date,
            Self::Time(_) => Kind::Time,
            Self::Timestamp(_) => Kind::Timestamp,
            Self::Instant(_) => Kind::Instant,
            Self::Duration(_) => Kind::Duration,
            Self::Text(_) => Kind::Text,
            Self::Bytes(_) => Kind::Bytes,
            Self::Uuid(_) => Kind::Uuid,
        }
    }
}

/// The characters of a value that an error shows.
const SHOWN_CHARACTERS: usize = 60;

impl fmt::Display for Datum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(number) | Self::Date(number) | Self::Time(number) => number.fmt(f),
            Self::Exact(unscaled, scale) => write_exact(f, *unscaled, *scale),
            Self::Float(number) => number.fmt(f),
            Self::Boolean(truth) => truth.fmt(f),
            Self::Timestamp(number) | Self::Instant(number) | Self::Duration(number) => number.fmt(f),
            Self::Text(text) => write!(f, "'{}'", text.chars().take(SHOWN_CHARACTERS).collect::<String>()),
            Self::Bytes(bytes) => {
                f.write_str("'\\x")?;
                bytes.iter().take(SHOWN_CHARACTERS / 2).try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
            Self::Uuid(number) => write!(f, "'{}'", uuid::Uuid::from_u128(*number)),
        }?;
        match self {
            Self::Date(_) => f.write_str(" days since 1970-01-01"),
            Self::Time(_) => f.write_str(" ns since midnight"),
            Self::Timestamp(_) | Self::Instant(_) => f.write_str(" ns since 1970-01-01"),
            Self::Duration(_) => f.write_str(" ns"),
            _ => Ok(()),
        }
    }
}

fn write_exact(f: &mut fmt::Formatter<'_>, unscaled: i256, scale: u8) -> fmt::Result {
    let text = unscaled.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let digits = format!("{digits:0>width$}", width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    write!(f, "{sign}{whole}{}{fraction}", if scale > 0 { "." } else { "" })
}

/// Keeps numbers as text: not every JSON reader keeps those beyond 2^53 exact.
mod in_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<T: Display, S: Serializer>(number: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::custom(format_args!("{text:?} is no number")))
    }
}
