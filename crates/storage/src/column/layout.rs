//! The tree of nodes of a type, and the buffers of each node (format.md §3).

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use hypostyle_format::Encoding;
use hypostyle_types::{BLOCK_ROWS, LogicalType};

/// How a node's elements lie in its files.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Buffers {
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

/// What the minimum and maximum of a block are made of (format.md §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundsKind {
    None,
    Boolean,
    Integer,
    Float,
    Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub data_type: DataType,
    pub buffers: Buffers,
    pub bounds: BoundsKind,
    /// Indexes of the children in the preorder list.
    pub children: Vec<usize>,
}

/// The quiet NaN whose lower word is 1954, which R reads as NA, and everybody else as NaN.
const MISSING_DOUBLE: u64 = 0x7FF8_0000_0000_07A2;

/// Full blocks in `length` elements.
pub(crate) fn sealed_blocks(length: u64) -> u64 {
    length / BLOCK_ROWS
}

/// The Arrow type of a column's array for an encoding.
pub(crate) fn arrow_type_at_rest(logical_type: &LogicalType, encoding: Encoding) -> DataType {
    let value = logical_type.arrow_type();
    let dictionary = |key: DataType| DataType::Dictionary(Box::new(key), Box::new(value.clone()));
    match encoding {
        Encoding::Plain => value,
        Encoding::DictionaryI8 => dictionary(DataType::Int8),
        Encoding::DictionaryI16 => dictionary(DataType::Int16),
        Encoding::DictionaryI32 => dictionary(DataType::Int32),
    }
}

pub(crate) fn node_count(logical_type: &LogicalType) -> usize {
    nodes(&logical_type.arrow_type()).len()
}

/// The nodes of a type in preorder.
pub(crate) fn nodes(data_type: &DataType) -> Vec<Node> {
    let mut list = Vec::new();
    add(data_type, &mut list);
    list
}

fn add(data_type: &DataType, list: &mut Vec<Node>) -> usize {
    let index = list.len();
    let (buffers, bounds) = describe(data_type);
    list.push(Node { data_type: data_type.clone(), buffers, bounds, children: Vec::new() });
    let children: Vec<&DataType> = match data_type {
        DataType::LargeList(element) | DataType::FixedSizeList(element, _) => vec![element.data_type()],
        DataType::Map(entries, _) => vec![entries.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => Vec::new(),
    };
    for child in children {
        let child = add(child, list);
        list[index].children.push(child);
    }
    index
}

fn describe(data_type: &DataType) -> (Buffers, BoundsKind) {
    use BoundsKind as Bounds;
    let fixed =
        |missing: &[u8], bounds| (Buffers::Fixed { width: missing.len(), missing: missing.to_vec() }, bounds);
    match data_type {
        DataType::Boolean => (Buffers::Bitmap, Bounds::Boolean),
        DataType::Int8 => fixed(&i8::MIN.to_le_bytes(), Bounds::Integer),
        DataType::Int16 => fixed(&i16::MIN.to_le_bytes(), Bounds::Integer),
        DataType::Int32 | DataType::Date32 | DataType::Decimal32(_, _) => {
            fixed(&i32::MIN.to_le_bytes(), Bounds::Integer)
        }
        DataType::Int64
        | DataType::Decimal64(_, _)
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => fixed(&i64::MIN.to_le_bytes(), Bounds::Integer),
        DataType::UInt8 => fixed(&[0; 1], Bounds::Integer),
        DataType::UInt16 => fixed(&[0; 2], Bounds::Integer),
        DataType::UInt32 => fixed(&[0; 4], Bounds::Integer),
        DataType::UInt64 => fixed(&[0; 8], Bounds::Integer),
        DataType::Float32 => fixed(&f32::NAN.to_le_bytes(), Bounds::Float),
        DataType::Float64 => fixed(&MISSING_DOUBLE.to_le_bytes(), Bounds::Float),
        DataType::Decimal128(_, _) => fixed(&i128::MIN.to_le_bytes(), Bounds::Integer),
        DataType::Decimal256(_, _) => {
            let mut minimum = [0; 32];
            minimum[31] = 0x80;
            fixed(&minimum, Bounds::None)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => fixed(&[0; 16], Bounds::None),
        DataType::FixedSizeBinary(bytes) => fixed(&vec![0; *bytes as usize], Bounds::None),
        // The codes of a dictionary; the strings' bounds are the dictionary writer's.
        DataType::Dictionary(key, _) => match key.as_ref() {
            DataType::Int8 => fixed(&(-1_i8).to_le_bytes(), Bounds::None),
            DataType::Int16 => fixed(&(-1_i16).to_le_bytes(), Bounds::None),
            _ => fixed(&(-1_i32).to_le_bytes(), Bounds::None),
        },
        DataType::LargeUtf8 | DataType::LargeBinary => (Buffers::Variable, Bounds::Bytes),
        DataType::LargeList(_) => (Buffers::Offsets { width: 8 }, Bounds::None),
        DataType::Map(_, _) => (Buffers::Offsets { width: 4 }, Bounds::None),
        DataType::Struct(_) | DataType::FixedSizeList(_, _) => (Buffers::None, Bounds::None),
        other => unreachable!("LogicalType::arrow_type never gives {other}"),
    }
}
