//! The buffers of the types that columns at rest have (format.md §3).

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

/// How a node's elements lie in its files.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffers {
    /// Only a validity bitmap, if any: structs and fixed-size lists.
    None,
    /// `values`, tightly packed; `missing` is what lies under a NULL.
    Fixed { width: usize, missing: Vec<u8> },
    /// `values`, a bit each.
    Bitmap,
    /// `offsets` (i64) and `heap`.
    Variable,
    /// `offsets` into the only child, i64 or i32 each.
    Offsets { width: usize },
}

/// The quiet NaN whose lower word is 1954, which R reads as NA, and everybody else as NaN.
const MISSING_DOUBLE: u64 = 0x7FF8_0000_0000_07A2;

impl Buffers {
    /// The buffers of a type; `None` of one that no column at rest has. Those of a dictionary are its codes.
    pub fn of_type(data_type: &DataType) -> Option<Self> {
        let fixed = |missing: &[u8]| Self::Fixed { width: missing.len(), missing: missing.to_vec() };
        Some(match data_type {
            DataType::Boolean => Self::Bitmap,
            DataType::Int8 => fixed(&i8::MIN.to_le_bytes()),
            DataType::Int16 => fixed(&i16::MIN.to_le_bytes()),
            DataType::Int32 | DataType::Date32 | DataType::Decimal32(_, _) => fixed(&i32::MIN.to_le_bytes()),
            DataType::Int64
            | DataType::Decimal64(_, _)
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_) => fixed(&i64::MIN.to_le_bytes()),
            DataType::UInt8 => fixed(&[0; 1]),
            DataType::UInt16 => fixed(&[0; 2]),
            DataType::UInt32 => fixed(&[0; 4]),
            DataType::UInt64 => fixed(&[0; 8]),
            DataType::Float32 => fixed(&f32::NAN.to_le_bytes()),
            DataType::Float64 => fixed(&MISSING_DOUBLE.to_le_bytes()),
            DataType::Decimal128(_, _) => fixed(&i128::MIN.to_le_bytes()),
            DataType::Decimal256(_, _) => {
                let mut minimum = [0; 32];
                minimum[31] = 0x80;
                fixed(&minimum)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => fixed(&[0; 16]),
            DataType::FixedSizeBinary(bytes) => fixed(&vec![0; *bytes as usize]),
            DataType::Dictionary(key, _) => match key.as_ref() {
                DataType::Int8 => fixed(&(-1_i8).to_le_bytes()),
                DataType::Int16 => fixed(&(-1_i16).to_le_bytes()),
                _ => fixed(&(-1_i32).to_le_bytes()),
            },
            DataType::LargeUtf8 | DataType::LargeBinary => Self::Variable,
            DataType::LargeList(_) => Self::Offsets { width: 8 },
            DataType::Map(_, _) => Self::Offsets { width: 4 },
            DataType::Struct(_) | DataType::FixedSizeList(_, _) => Self::None,
            _ => return None,
        })
    }
}
