//! Heads of chunks that lie in files of stored columns (protocol.md §10.5, places 2 and 3).

use crate::cursor::{Reader, Writer};
use arrow_schema::{DataType, Field};
use hypostyle_types::{Error, Result};

/// A buffer: the first bytes of a file that came with the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub length: u64,
    /// Index among the frame's descriptors; means nothing when the length is 0.
    pub descriptor: u16,
}

/// One array of a column, without its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNode {
    pub elements: u64,
    pub nulls: u64,
    pub validity: Option<Region>,
    pub buffers: Vec<Region>,
    /// Number of values, their offsets, their bytes.
    pub dictionary: Option<(u64, Region, Region)>,
}

/// Rows of a result that follow each other: some of the files, then some of the chunks behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilePiece {
    /// The first of its rows in the files.
    pub start: u64,
    pub rows: u64,
    /// The rows of the chunks.
    pub others: u64,
}

/// Elements of an array: more than the largest file holds, and small enough to multiply by every width.
const ELEMENTS_MAX: u64 = 1 << 44;

/// What a piece takes in a head, and how many there may be.
const PIECE_BYTES: usize = 24;
const PIECES_MAX: usize = 1 << 24;

pub fn write_file_nodes<'a>(nodes: impl Iterator<Item = &'a FileNode>) -> Vec<u8> {
    let mut to = Writer::default();
    let region = |to: &mut Writer, region: &Region| {
        to.u64(region.length);
        if region.length > 0 {
            to.u16(region.descriptor);
        }
    };
    for node in nodes {
        to.u64(node.elements).u64(node.nulls).u8(u8::from(node.validity.is_some()));
        node.validity.iter().chain(&node.buffers).for_each(|each| region(&mut to, each));
        if let Some((values, offsets, heap)) = &node.dictionary {
            to.u64(*values);
            region(&mut to, offsets);
            region(&mut to, heap);
        }
    }
    to.finish()
}

/// The head of a chunk of place 3: the pieces, before the arrays of each column.
pub fn write_file_pieces(pieces: &[FilePiece], nodes: &[u8]) -> Vec<u8> {
    let mut to = Writer::default();
    to.list(pieces.iter(), |to, piece| {
        to.u64(piece.start).u64(piece.rows).u64(piece.others);
    });
    to.raw(nodes);
    to.finish()
}

/// The pieces of a head, and what is behind them ([`read_file_nodes`]).
///
/// # Errors
/// `08P01` when the head is cut, or the pieces have more rows than there can be.
pub fn read_file_pieces(head: &[u8]) -> Result<(Vec<FilePiece>, &[u8])> {
    let mut from = Reader::new(head);
    let pieces = from.list(PIECE_BYTES, PIECES_MAX, |from| {
        let (start, rows, others) = (from.u64()?, from.u64()?, from.u64()?);
        let sum = start.checked_add(rows).and_then(|end| end.checked_add(others));
        if sum.is_none_or(|sum| sum > ELEMENTS_MAX) {
            return Err(Error::protocol("a piece of a result has more rows than files can have"));
        }
        Ok(FilePiece { start, rows, others })
    })?;
    let all = pieces.iter().try_fold(0_u64, |sum, piece| sum.checked_add(piece.rows + piece.others));
    match all.is_some_and(|all| all <= ELEMENTS_MAX) {
        true => Ok((pieces, from.rest())),
        false => Err(Error::protocol("a result has more rows than files can have")),
    }
}

/// The arrays of each column, parents before children, with as many buffers as their types have and
/// of the lengths that these demand.
///
/// # Errors
/// `08P01` when the head is not that of the fields, or names a descriptor beyond `descriptors`.
pub fn read_file_nodes(head: &[u8], fields: &[&Field], descriptors: usize) -> Result<Vec<Vec<FileNode>>> {
    let mut from = Reader::new(head);
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let mut nodes = Vec::new();
        read_node(&mut from, field.data_type(), descriptors, &mut nodes)?;
        columns.push(nodes);
    }
    from.end()?;
    Ok(columns)
}

fn read_node(
    from: &mut Reader<'_>,
    data_type: &DataType,
    descriptors: usize,
    nodes: &mut Vec<FileNode>,
) -> Result<u64> {
    let region = |from: &mut Reader<'_>| -> Result<Region> {
        let length = from.u64()?;
        let descriptor = if length > 0 { from.u16()? } else { 0 };
        if length > 0 && usize::from(descriptor) >= descriptors {
            return Err(Error::protocol(format!("there is no descriptor {descriptor} among {descriptors}")));
        }
        Ok(Region { length, descriptor })
    };
    let (elements, nulls) = (from.u64()?, from.u64()?);
    if elements > ELEMENTS_MAX || nulls > elements {
        return Err(Error::protocol(format!("an array cannot have {elements} elements and {nulls} NULLs")));
    }
    let validity = if from.flag()? { Some(region(from)?) } else { None };
    let shape = Shape::of(data_type)?;
    let buffers = (0..shape.buffers()).map(|_| region(from)).collect::<Result<Vec<_>>>()?;
    let dictionary = match data_type {
        DataType::Dictionary(..) => Some((from.u64()?, region(from)?, region(from)?)),
        _ => None,
    };
    let fits = validity.is_none_or(|mask| mask.length == elements.div_ceil(8))
        && shape.fits(elements, &buffers)
        && dictionary
            .is_none_or(|(values, offsets, _)| values <= ELEMENTS_MAX && offsets.length == (values + 1) * 8);
    if !fits {
        return Err(Error::protocol(format!(
            "the files of a {data_type} array are not those of {elements} elements"
        )));
    }
    nodes.push(FileNode { elements, nulls, validity, buffers, dictionary });
    let (children, exact): (Vec<&DataType>, Option<u64>) = match data_type {
        DataType::LargeList(element) => (vec![element.data_type()], None),
        DataType::Map(entries, _) => (vec![entries.data_type()], None),
        DataType::FixedSizeList(element, length) => {
            // Neither is above 2^44 and 2^31; a product that is above 2^64 is that of no file.
            let exact = elements.saturating_mul(u64::from(length.unsigned_abs()));
            (vec![element.data_type()], Some(exact))
        }
        DataType::Struct(fields) => (fields.iter().map(|field| field.data_type()).collect(), Some(elements)),
        _ => (Vec::new(), None),
    };
    for child in children {
        let found = read_node(from, child, descriptors, nodes)?;
        if exact.is_some_and(|exact| exact != found) {
            return Err(Error::protocol(format!("a child of a {data_type} array has {found} elements")));
        }
    }
    Ok(elements)
}

/// Which buffers a type has.
enum Shape {
    None,
    Bits,
    Fixed(u64),
    Variable,
    Offsets(u64),
}

impl Shape {
    fn of(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Boolean => Self::Bits,
            DataType::LargeUtf8 | DataType::LargeBinary => Self::Variable,
            DataType::LargeList(_) => Self::Offsets(8),
            DataType::Map(..) => Self::Offsets(4),
            DataType::Struct(_) | DataType::FixedSizeList(..) => Self::None,
            DataType::FixedSizeBinary(width) => Self::Fixed(u64::from(width.unsigned_abs())),
            DataType::Dictionary(key, _) => Self::Fixed(key.primitive_width().unwrap_or(0) as u64),
            other => match other.primitive_width() {
                Some(width) => Self::Fixed(width as u64),
                None => return Err(Error::protocol(format!("no column at rest has the type {other}"))),
            },
        })
    }

    fn buffers(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Bits | Self::Fixed(_) | Self::Offsets(_) => 1,
            Self::Variable => 2,
        }
    }

    fn fits(&self, elements: u64, buffers: &[Region]) -> bool {
        let first = buffers.first().map_or(0, |region| region.length);
        match self {
            Self::None => true,
            Self::Bits => first == elements.div_ceil(8),
            Self::Fixed(width) => elements.checked_mul(*width) == Some(first),
            Self::Variable => first == (elements + 1) * 8,
            Self::Offsets(width) => first == (elements + 1) * width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn region(length: u64, descriptor: u16) -> Region {
        Region { length, descriptor }
    }

    fn plain(elements: u64, buffers: Vec<Region>) -> FileNode {
        FileNode { elements, nulls: 0, validity: None, buffers, dictionary: None }
    }

    #[test]
    fn pieces_come_back_and_those_of_too_many_rows_are_refused() {
        let piece = |start, rows, others| FilePiece { start, rows, others };
        let pieces = [piece(0, 5, 0), piece(7, 100, 3), piece(0, 0, 9)];
        let head = write_file_pieces(&pieces, b"nodes");
        assert_eq!(read_file_pieces(&head).unwrap(), (pieces.to_vec(), &b"nodes"[..]));
        for length in 0..head.len() - 5 {
            assert!(read_file_pieces(&head[..length]).is_err(), "{length}");
        }
        for false_one in [piece(u64::MAX, 1, 0), piece(0, u64::MAX, 1), piece(1 << 44, 1, 0)] {
            assert!(read_file_pieces(&write_file_pieces(&[false_one], b"")).is_err(), "{false_one:?}");
        }
        let many = vec![piece(0, 1 << 43, 0); 3];
        assert!(read_file_pieces(&write_file_pieces(&many, b"")).is_err());
    }

    #[test]
    fn nodes_come_back_and_false_ones_are_refused() {
        let element = Arc::new(Field::new("item", DataType::Int32, true));
        let codes = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8));
        let fields = [
            Field::new("a", DataType::LargeList(element), true),
            Field::new("b", codes, true),
            Field::new("c", DataType::LargeUtf8, true),
        ];
        let fields: Vec<&Field> = fields.iter().collect();
        let mask = FileNode { nulls: 1, validity: Some(region(1, 5)), ..plain(2, vec![region(24, 0)]) };
        let coded =
            FileNode { dictionary: Some((1, region(16, 3), region(2, 4))), ..plain(2, vec![region(2, 2)]) };
        let columns = vec![
            vec![mask, plain(5, vec![region(20, 1)])],
            vec![coded],
            vec![plain(2, vec![region(24, 6), region(0, 0)])],
        ];
        let head = write_file_nodes(columns.iter().flatten());
        assert_eq!(read_file_nodes(&head, &fields, 7).unwrap(), columns);
        assert!(read_file_nodes(&head, &fields, 6).unwrap_err().message().contains("descriptor 6"));
        for length in 0..head.len() {
            assert!(read_file_nodes(&head[..length], &fields, 7).is_err());
        }
        for elements in [3, u64::MAX, 1 << 45] {
            let false_node = FileNode { elements, ..columns[2][0].clone() };
            let head = write_file_nodes(columns[..2].iter().flatten().chain([&false_node]));
            assert!(read_file_nodes(&head, &fields, 7).is_err());
        }
    }
}
