//! The tree of nodes of a type, and the buffers of each node (format.md §3).

use arrow_schema::DataType;
use hypostyle_format::Encoding;
pub(crate) use hypostyle_mapped::Buffers;
use hypostyle_types::{BLOCK_ROWS, LogicalType};

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
    let Some(buffers) = Buffers::of_type(data_type) else {
        unreachable!("LogicalType::arrow_type never gives {data_type}");
    };
    let bounds = bounds_of(data_type);
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

/// What the minimum and maximum of a block of a type are made of. Of a dictionary the strings' bounds are
/// its writer's.
fn bounds_of(data_type: &DataType) -> BoundsKind {
    match data_type {
        DataType::Boolean => BoundsKind::Boolean,
        DataType::Float32 | DataType::Float64 => BoundsKind::Float,
        DataType::LargeUtf8 | DataType::LargeBinary => BoundsKind::Bytes,
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Date32
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _) => BoundsKind::Integer,
        _ => BoundsKind::None,
    }
}
