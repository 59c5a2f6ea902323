//! Minimum and maximum of a block: gathering, encoding, reading (format.md §4).

use super::layout::BoundsKind;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use hypostyle_format::BlockRecord;

const PREFIX_BYTES: usize = 16;

/// An end of a block's value range.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Integer(i128),
    Float(f64),
    /// A prefix of the value; `exact` when it is the whole value.
    Bytes {
        prefix: Vec<u8>,
        exact: bool,
    },
}

/// What is known of a block without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSynopsis {
    pub rows: u32,
    pub nulls: u32,
    /// Minimum and maximum over the values that are neither NULL nor NaN.
    pub bounds: Option<(Bound, Bound)>,
    pub has_nan: bool,
}

/// Gathers the bounds of the block being written.
#[derive(Clone, Debug)]
pub(crate) enum BoundsBuilder {
    None,
    Integer(Option<(i128, i128)>),
    Float { range: Option<(f64, f64)>, has_nan: bool },
    Bytes(Option<(Prefix, Prefix)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prefix {
    bytes: [u8; PREFIX_BYTES],
    truncated: bool,
}

impl Prefix {
    fn of(value: &[u8]) -> Self {
        let mut bytes = [0; PREFIX_BYTES];
        let length = value.len().min(PREFIX_BYTES);
        bytes[..length].copy_from_slice(&value[..length]);
        // A value that ends in a zero byte cannot be told from the padding.
        let truncated = value.len() > PREFIX_BYTES || value.last() == Some(&0);
        Self { bytes, truncated }
    }

    fn bound(self) -> Bound {
        let end = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Bound::Bytes { prefix: self.bytes[..end].to_vec(), exact: !self.truncated }
    }
}

impl BoundsBuilder {
    pub fn new(kind: BoundsKind) -> Self {
        match kind {
            BoundsKind::None => Self::None,
            BoundsKind::Boolean | BoundsKind::Integer => Self::Integer(None),
            BoundsKind::Float => Self::Float { range: None, has_nan: false },
            BoundsKind::Bytes => Self::Bytes(None),
        }
    }

    /// Takes up where an unsealed block's record left off.
    pub fn resume(kind: BoundsKind, record: &BlockRecord) -> Self {
        let mut builder = Self::new(kind);
        match &mut builder {
            Self::None => {}
            Self::Integer(range) => {
                *range =
                    record.bounds.map(|(low, high)| (i128::from_le_bytes(low), i128::from_le_bytes(high)));
            }
            Self::Float { range, has_nan } => {
                *range = record.bounds.map(|(low, high)| (float(&low), float(&high)));
                *has_nan = record.has_nan;
            }
            Self::Bytes(range) => {
                *range = record.bounds.map(|(low, high)| {
                    (
                        Prefix { bytes: low, truncated: record.minimum_truncated },
                        Prefix { bytes: high, truncated: record.maximum_truncated },
                    )
                });
            }
        }
        builder
    }

    pub fn add(&mut self, array: &ArrayRef) {
        match self {
            Self::None => {}
            Self::Integer(range) => add_range(range, integer_range(array)),
            Self::Float { range, has_nan } => {
                let (found, nan) = match array.data_type() {
                    DataType::Float32 => float_range(array.as_primitive::<Float32Type>()),
                    _ => float_range(array.as_primitive::<Float64Type>()),
                };
                *has_nan |= nan;
                add_range(range, found);
            }
            Self::Bytes(_) => match array.data_type() {
                DataType::LargeUtf8 => {
                    let strings = array.as_string::<i64>();
                    strings.iter().flatten().for_each(|value| self.add_bytes(value.as_bytes()));
                }
                DataType::LargeBinary => {
                    array.as_binary::<i64>().iter().flatten().for_each(|value| self.add_bytes(value));
                }
                // Codes: the dictionary writer adds the strings behind them.
                _ => {}
            },
        }
    }

    /// Adds one string or blob.
    #[inline]
    pub fn add_bytes(&mut self, value: &[u8]) {
        let Self::Bytes(range) = self else { return };
        let prefix = Prefix::of(value);
        match range {
            None => *range = Some((prefix, prefix)),
            Some((low, high)) => {
                if prefix.bytes < low.bytes {
                    *low = prefix;
                } else if prefix.bytes == low.bytes {
                    low.truncated |= prefix.truncated;
                }
                if prefix.bytes > high.bytes {
                    *high = prefix;
                } else if prefix.bytes == high.bytes {
                    high.truncated |= prefix.truncated;
                }
            }
        }
    }

    /// Puts the bounds into a record.
    pub fn fill(&self, record: &mut BlockRecord) {
        match self {
            Self::None => {}
            Self::Integer(range) => {
                record.bounds = range.map(|(low, high)| (low.to_le_bytes(), high.to_le_bytes()));
            }
            Self::Float { range, has_nan } => {
                record.bounds = range.map(|(low, high)| (float_bytes(low), float_bytes(high)));
                record.has_nan = *has_nan;
            }
            Self::Bytes(range) => {
                record.bounds = range.map(|(low, high)| (low.bytes, high.bytes));
                if let Some((low, high)) = range {
                    record.minimum_truncated = low.truncated;
                    record.maximum_truncated = high.truncated;
                }
            }
        }
    }
}

impl BlockSynopsis {
    pub(crate) fn read(kind: BoundsKind, record: &BlockRecord) -> Self {
        let bounds = record.bounds.and_then(|(low, high)| match kind {
            BoundsKind::None => None,
            BoundsKind::Boolean | BoundsKind::Integer => {
                Some((Bound::Integer(i128::from_le_bytes(low)), Bound::Integer(i128::from_le_bytes(high))))
            }
            BoundsKind::Float => Some((Bound::Float(float(&low)), Bound::Float(float(&high)))),
            BoundsKind::Bytes => Some((
                Prefix { bytes: low, truncated: record.minimum_truncated }.bound(),
                Prefix { bytes: high, truncated: record.maximum_truncated }.bound(),
            )),
        });
        Self { rows: record.elements, nulls: record.nulls, bounds, has_nan: record.has_nan }
    }
}

fn float(bytes: &[u8; 16]) -> f64 {
    let mut half = [0; 8];
    half.copy_from_slice(&bytes[..8]);
    f64::from_le_bytes(half)
}

fn float_bytes(value: f64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn add_range<T: PartialOrd + Copy>(range: &mut Option<(T, T)>, found: Option<(T, T)>) {
    let Some((low, high)) = found else { return };
    match range {
        None => *range = found,
        Some((least, most)) => {
            if low < *least {
                *least = low;
            }
            if high > *most {
                *most = high;
            }
        }
    }
}

fn integer_range(array: &ArrayRef) -> Option<(i128, i128)> {
    fn range<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<(i128, i128)>
    where
        T::Native: Ord + Copy + Into<i128>,
    {
        let (low, high) = native_range(array.as_primitive::<T>())?;
        Some((low.into(), high.into()))
    }
    match array.data_type() {
        DataType::Boolean => {
            let booleans = array.as_boolean();
            let valid = (booleans.len() - booleans.null_count()) as i128;
            let set = booleans.true_count() as i128;
            (valid > 0).then_some((i128::from(set == valid), i128::from(set > 0)))
        }
        DataType::Int8 => range::<Int8Type>(array),
        DataType::Int16 => range::<Int16Type>(array),
        DataType::Int32 => range::<Int32Type>(array),
        DataType::Int64 => range::<Int64Type>(array),
        DataType::UInt8 => range::<UInt8Type>(array),
        DataType::UInt16 => range::<UInt16Type>(array),
        DataType::UInt32 => range::<UInt32Type>(array),
        DataType::UInt64 => range::<UInt64Type>(array),
        DataType::Date32 => range::<Date32Type>(array),
        DataType::Decimal32(_, _) => range::<Decimal32Type>(array),
        DataType::Decimal64(_, _) => range::<Decimal64Type>(array),
        DataType::Decimal128(_, _) => range::<Decimal128Type>(array),
        DataType::Time64(_) => range::<Time64MicrosecondType>(array),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => range::<TimestampSecondType>(array),
            TimeUnit::Millisecond => range::<TimestampMillisecondType>(array),
            TimeUnit::Microsecond => range::<TimestampMicrosecondType>(array),
            TimeUnit::Nanosecond => range::<TimestampNanosecondType>(array),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => range::<DurationSecondType>(array),
            TimeUnit::Millisecond => range::<DurationMillisecondType>(array),
            TimeUnit::Microsecond => range::<DurationMicrosecondType>(array),
            TimeUnit::Nanosecond => range::<DurationNanosecondType>(array),
        },
        _ => None,
    }
}

fn native_range<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Option<(T::Native, T::Native)>
where
    T::Native: Ord + Copy,
{
    if array.null_count() > 0 {
        let mut values = array.iter().flatten();
        let first = values.next()?;
        return Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))));
    }
    let first = *array.values().first()?;
    // Two loops over one value each: both become SIMD.
    let low = array.values().iter().fold(first, |low, value| low.min(*value));
    let high = array.values().iter().fold(first, |high, value| high.max(*value));
    Some((low, high))
}

fn float_range<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> (Option<(f64, f64)>, bool)
where
    T::Native: Into<f64>,
{
    let (mut low, mut high, mut nan, mut some) = (f64::INFINITY, f64::NEG_INFINITY, false, false);
    let mut add = |value: f64| {
        nan |= value.is_nan();
        some |= !value.is_nan();
        low = if value < low { value } else { low };
        high = if value > high { value } else { high };
    };
    if array.null_count() == 0 {
        array.values().iter().for_each(|value| add((*value).into()));
    } else {
        array.iter().flatten().for_each(|value| add(value.into()));
    }
    (some.then_some((low, high)), nan)
}
