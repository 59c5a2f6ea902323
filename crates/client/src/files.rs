//! Columns in files that came with a chunk (protocol.md §10.5).
//!
//! The `unsafe` code of this crate is here, as in the storage: it assembles arrays over mappings
//! without reading every value. That makes the cost of a result O(columns) instead of O(rows).
//! Descriptors are accepted only from a server that runs as our own user or as root (`login`).

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, make_array, new_empty_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, SchemaRef};
use hypostyle_io::File;
use hypostyle_mapped::{BufferFile, DictionaryFiles, NodeFiles, extended};
use hypostyle_types::{Error, Result, to_usize};
use hypostyle_wire::{ChunkHeader, FileNode, FilePiece, Region, read_file_nodes, read_file_pieces};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::slice::Iter;
use std::sync::OnceLock;

/// A result that is a mapping of the server's column files.
#[derive(Debug)]
pub struct MappedColumns {
    schema: SchemaRef,
    files: Vec<File>,
    columns: Vec<Vec<FileNode>>,
    /// The columns of which rows were read here.
    read: Vec<OnceLock<Read>>,
    pub skip: usize,
    pub rows: usize,
}

/// A verified column, and whether the values of its dictionary were verified.
#[derive(Debug)]
struct Read {
    data: ArrayData,
    dictionary: OnceLock<()>,
}

/// A description of what is wrong with rows.
type Flaw = &'static str;

impl MappedColumns {
    /// # Errors
    /// `08P01` when the head does not fit the schema, or names files that have not come.
    pub fn new(schema: SchemaRef, header: &ChunkHeader, descriptors: Vec<OwnedFd>) -> Result<Self> {
        Self::over(schema, &header.head, header.skip, header.rows, descriptors)
    }

    /// Returns the columns of a result that is pieces of them, with other rows behind each.
    ///
    /// # Errors
    /// `08P01` as of [`Self::new`], and when the pieces are not in the files.
    pub fn in_pieces(
        schema: SchemaRef,
        header: &ChunkHeader,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(Self, Vec<FilePiece>)> {
        let (pieces, nodes) = read_file_pieces(&header.head)?;
        if pieces.iter().map(|piece| piece.rows).sum::<u64>() != header.rows {
            return Err(Error::protocol("the pieces of a result have other rows than it says"));
        }
        let end = pieces.iter().map(|piece| piece.start + piece.rows).max().unwrap_or_default();
        Ok((Self::over(schema, nodes, 0, end, descriptors)?, pieces))
    }

    fn over(
        schema: SchemaRef,
        nodes: &[u8],
        skip: u64,
        rows: u64,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self> {
        let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref()).collect();
        let columns = read_file_nodes(nodes, &fields, descriptors.len())?;
        let end = skip.checked_add(rows);
        let reaches =
            |nodes: &Vec<FileNode>| nodes.first().zip(end).is_some_and(|(node, end)| node.elements >= end);
        if !columns.iter().all(reaches) {
            return Err(Error::protocol("a column's files have fewer rows than the result"));
        }
        let name =
            |(index, descriptor)| File::from_descriptor(descriptor, &format!("file {index} of the result"));
        let files = descriptors.into_iter().enumerate().map(name).collect();
        let (skip, rows) = (to_usize(skip), to_usize(rows));
        let read = columns.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { schema, files, columns, read, skip, rows })
    }

    /// Checks that rows of a column are valid for its type, for callers that read them here: files
    /// that the server has not verified yet may be damaged. The server checks the checksums.
    ///
    /// # Errors
    /// `Corrupt`, naming the column.
    #[expect(clippy::indexing_slicing, reason = "the caller names a column")]
    pub fn verify(&self, index: usize, rows: Range<usize>) -> Result<()> {
        let field = self.schema.field(index);
        let rows = self.skip + rows.start..self.skip + rows.end.min(self.rows);
        if rows.is_empty() || field.data_type().is_primitive() {
            return Ok(());
        }
        let read = match self.read[index].get() {
            Some(read) => read,
            None => {
                let data = self.read(field.data_type(), &mut self.columns[index].iter(), false)?;
                self.read[index].get_or_init(|| Read { data, dictionary: OnceLock::new() })
            }
        };
        let verified = check(&read.data, rows.clone()).and_then(|()| match read.data.data_type() {
            DataType::Dictionary(..) if read.dictionary.get().is_none() => {
                let values = &read.data.child_data()[0];
                check(values, 0..values.len()).map(|()| *read.dictionary.get_or_init(|| ()))
            }
            _ => Ok(()),
        });
        verified.map_err(|flaw| {
            let (name, last) = (field.name(), rows.end - 1);
            Error::corrupt(format!(
                "column \"{name}\": rows {} to {last} of the server's files are damaged: {flaw}",
                rows.start
            ))
        })
    }

    /// A column over mappings of its own, which are copy-on-write when `private`. O(1) in the rows.
    #[expect(clippy::indexing_slicing, reason = "the caller names a column")]
    pub fn column(&self, index: usize, private: bool) -> Result<ArrayRef> {
        let data_type = self.schema.field(index).data_type();
        if self.rows == 0 {
            return Ok(new_empty_array(data_type));
        }
        let mut nodes = self.columns[index].iter();
        let data = self.read(data_type, &mut nodes, private)?;
        Ok(make_array(data).slice(self.skip, self.rows))
    }

    /// Says whether the rows up to `end` are all rows of the files.
    pub fn ends_at(&self, end: u64) -> bool {
        self.columns.iter().all(|nodes| nodes.first().is_some_and(|node| node.elements == end))
    }

    /// A column with other rows behind those of the files, which are all of its rows ([`extended`]). Returns
    /// `None` where that would copy the column.
    ///
    /// # Errors
    /// `Corrupt`, naming the column, when its dictionary is damaged.
    #[expect(clippy::indexing_slicing, reason = "the caller names a column")]
    pub fn column_with(&self, index: usize, behind: &ArrayRef, private: bool) -> Result<Option<ArrayRef>> {
        let (data_type, nodes) = (self.schema.field(index).data_type(), &self.columns[index]);
        let stored = match data_type {
            // The values that its codes have by now.
            DataType::Dictionary(..) => Some(make_array(self.read(data_type, &mut nodes.iter(), private)?)),
            _ => None,
        };
        let values = stored.as_ref().and_then(|stored| stored.as_any_dictionary_opt());
        match values {
            Some(_) => self.verify(index, 0..1)?,
            None => self.check_ends(data_type, &mut nodes.iter())?,
        }
        let nodes: Vec<NodeFiles> = nodes.iter().map(|node| self.node_files(node)).collect();
        extended(data_type, &nodes, values.map(|dictionary| dictionary.values()), behind, private)
    }

    /// Looks at the last offset of each node, as [`Self::read`] does, and maps nothing for it.
    #[expect(clippy::indexing_slicing, reason = "`read_file_nodes` has counted the buffers")]
    fn check_ends(&self, data_type: &DataType, nodes: &mut Iter<'_, FileNode>) -> Result<()> {
        let node = nodes.next().ok_or_else(|| Error::protocol("an array has no files"))?;
        let elements_of_child = nodes.as_slice().first().map_or(0, |child| child.elements);
        let last = |width: u64| self.last_of(&node.buffers[0], width);
        match data_type {
            DataType::LargeUtf8 | DataType::LargeBinary => {
                check_last_offset(last(8)?, node.buffers[1].length)?
            }
            DataType::LargeList(_) => check_last_offset(last(8)?, elements_of_child)?,
            DataType::Map(..) => check_last_offset(last(4)?, elements_of_child)?,
            _ => {}
        }
        match data_type {
            DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                self.check_ends(element.data_type(), nodes)
            }
            DataType::Map(entries, _) => self.check_ends(entries.data_type(), nodes),
            DataType::Struct(members) => {
                members.iter().try_for_each(|member| self.check_ends(member.data_type(), nodes))
            }
            _ => Ok(()),
        }
    }

    /// Reads the last number of a buffer, of so many bytes.
    #[expect(clippy::indexing_slicing, reason = "a number has four or eight bytes")]
    fn last_of(&self, region: &Region, width: u64) -> Result<i128> {
        let file = self.files.get(usize::from(region.descriptor)).filter(|_| region.length >= width);
        let file = file.ok_or_else(|| Error::protocol("a buffer of offsets is empty"))?;
        let mut bytes = [0; 8];
        file.read_at(region.length - width, &mut bytes[..to_usize(width)])?;
        let [first, second, third, fourth, ..] = bytes;
        Ok(match width {
            4 => i32::from_le_bytes([first, second, third, fourth]).into(),
            _ => i64::from_le_bytes(bytes).into(),
        })
    }

    fn node_files(&self, node: &FileNode) -> NodeFiles {
        let buffer = |region: &Region| BufferFile {
            file: self.files.get(usize::from(region.descriptor)).filter(|_| region.length > 0).cloned(),
            length: region.length,
        };
        NodeFiles {
            elements: node.elements,
            nulls: node.nulls,
            validity: node.validity.as_ref().map(buffer),
            buffers: node.buffers.iter().map(buffer).collect(),
            dictionary: node.dictionary.as_ref().map(|(values, offsets, heap)| DictionaryFiles {
                values: *values,
                offsets: buffer(offsets),
                heap: buffer(heap),
            }),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`read_file_nodes` has seen that the file has come")]
    fn map(&self, region: &Region, private: bool) -> Result<Buffer> {
        if region.length == 0 {
            return Ok(Buffer::from(Vec::<u8>::new()));
        }
        let file = &self.files[usize::from(region.descriptor)];
        let mapping = if private { file.map_private(region.length)? } else { file.map(region.length)? };
        Ok(Buffer::from(bytes::Bytes::from_owner(mapping)))
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`read_file_nodes` has counted the buffers and their elements"
    )]
    fn read(&self, data_type: &DataType, nodes: &mut Iter<'_, FileNode>, private: bool) -> Result<ArrayData> {
        let node = nodes.next().ok_or_else(|| Error::protocol("an array has no files"))?;
        let length = to_usize(node.elements);
        let mut builder = ArrayDataBuilder::new(data_type.clone()).len(length);
        if let Some(mask) = &node.validity {
            let bits = BooleanBuffer::new(self.map(mask, private)?, 0, length);
            // SAFETY: the server counted while it wrote the bits. A wrong count misleads but reads
            // no foreign memory.
            let nulls = unsafe { NullBuffer::new_unchecked(bits, to_usize(node.nulls)) };
            builder = builder.nulls(Some(nulls));
        }
        let buffers =
            node.buffers.iter().map(|region| self.map(region, private)).collect::<Result<Vec<_>>>()?;
        match data_type {
            DataType::LargeUtf8 | DataType::LargeBinary => {
                check_last_offset(buffers[0].typed_data::<i64>()[length].into(), node.buffers[1].length)?;
            }
            DataType::LargeList(_) => {
                let child = nodes.as_slice().first().map_or(0, |child| child.elements);
                check_last_offset(buffers[0].typed_data::<i64>()[length].into(), child)?;
            }
            DataType::Map(..) => {
                let child = nodes.as_slice().first().map_or(0, |child| child.elements);
                check_last_offset(buffers[0].typed_data::<i32>()[length].into(), child)?;
            }
            _ => {}
        }
        builder = builder.buffers(buffers);
        match data_type {
            DataType::Dictionary(_, values) => {
                let Some((count, offsets, heap)) = &node.dictionary else {
                    return Err(Error::protocol("a dictionary column has no dictionary"));
                };
                let (offsets, count) = (self.map(offsets, private)?, to_usize(*count));
                check_last_offset(offsets.typed_data::<i64>()[count].into(), heap.length)?;
                let heap = self.map(heap, private)?;
                let values = ArrayDataBuilder::new(values.as_ref().clone()).len(count);
                // SAFETY: as below.
                builder = builder
                    .add_child_data(unsafe { values.add_buffer(offsets).add_buffer(heap).build_unchecked() });
            }
            DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                builder = builder.add_child_data(self.read(element.data_type(), nodes, private)?);
            }
            DataType::Map(entries, _) => {
                builder = builder.add_child_data(self.read(entries.data_type(), nodes, private)?);
            }
            DataType::Struct(members) => {
                for member in members {
                    builder = builder.add_child_data(self.read(member.data_type(), nodes, private)?);
                }
            }
            _ => {}
        }
        // SAFETY: `read_file_nodes` has checked that the buffers have the lengths that the type and
        // the elements need, and mapping them has checked that the files are as long. They begin on
        // a page, so they are aligned. Offsets ascend, text is UTF-8 and codes are below the number
        // of values, because the server's storage wrote them from valid arrays. Rows that are read
        // here are verified first (`verify`). For rows that others read, the server is one that
        // could as well have written into this process.
        Ok(unsafe { builder.build_unchecked() })
    }
}

/// Looks at some elements, and at those within them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the buffers are as long as the rows demand, and offsets ascend within what they point into"
)]
fn check(data: &ArrayData, rows: Range<usize>) -> std::result::Result<(), Flaw> {
    let buffer = |index: usize| &data.buffers()[index];
    match data.data_type() {
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let offsets = &buffer(0).typed_data::<i64>()[rows.start..=rows.end];
            let within = ascending(offsets, buffer(1).len())?;
            if *data.data_type() == DataType::LargeBinary {
                return Ok(());
            }
            let (first, bytes) = (within.start, &buffer(1)[within]);
            let text = std::str::from_utf8(bytes).map_err(|_| "text is not UTF-8")?;
            let begins = |offset: &i64| text.is_char_boundary(*offset as usize - first);
            offsets.iter().all(begins).then_some(()).ok_or("text is not UTF-8")
        }
        DataType::LargeList(_) => {
            let child = &data.child_data()[0];
            check(child, ascending(&buffer(0).typed_data::<i64>()[rows.start..=rows.end], child.len())?)
        }
        DataType::Map(..) => {
            let child = &data.child_data()[0];
            let offsets = &buffer(0).typed_data::<i32>()[rows.start..=rows.end];
            let offsets: Vec<i64> = offsets.iter().map(|offset| (*offset).into()).collect();
            check(child, ascending(&offsets, child.len())?)
        }
        DataType::FixedSizeList(_, length) => {
            let length = *length as usize;
            check(&data.child_data()[0], rows.start * length..rows.end * length)
        }
        DataType::Struct(_) => data.child_data().iter().try_for_each(|child| check(child, rows.clone())),
        DataType::Dictionary(key, _) => {
            let distinct = data.child_data()[0].len();
            let has_value = |row: usize| {
                let code = match key.as_ref() {
                    DataType::Int8 => buffer(0).typed_data::<i8>()[row].into(),
                    DataType::Int16 => buffer(0).typed_data::<i16>()[row].into(),
                    _ => buffer(0).typed_data::<i32>()[row],
                };
                usize::try_from(code).is_ok_and(|code| code < distinct) || data.is_null(row)
            };
            rows.into_iter().all(has_value).then_some(()).ok_or("a code has no value")
        }
        _ => Ok(()),
    }
}

/// Checks that offsets ascend, and returns the range that they span.
fn ascending(offsets: &[i64], end: usize) -> std::result::Result<Range<usize>, Flaw> {
    let place = |offset: Option<&i64>| offset.and_then(|offset| usize::try_from(*offset).ok());
    match (place(offsets.first()), place(offsets.last())) {
        (Some(first), Some(last)) if last <= end && offsets.is_sorted() => Ok(first..last),
        _ => Err("offsets do not ascend, or leave what they point into"),
    }
}

fn check_last_offset(last: i128, end: u64) -> Result<()> {
    if last != i128::from(end) {
        return Err(Error::protocol(format!("the last offset of a file is {last} where {end} must be")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{Field, Schema};
    use hypostyle_wire::{Place, write_file_nodes, write_file_pieces};
    use std::sync::Arc;

    /// Returns a column of texts over memory files.
    fn texts(offsets: &[i64], heap: &[u8]) -> MappedColumns {
        let file = |bytes: &[u8]| File::sealed(File::unsealed().unwrap(), &[bytes]).unwrap();
        let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let region = |bytes: &[u8], descriptor| Region { length: bytes.len() as u64, descriptor };
        let node = FileNode {
            elements: offsets.len() as u64 - 1,
            nulls: 0,
            validity: None,
            buffers: vec![region(&bytes, 0), region(heap, 1)],
            dictionary: None,
        };
        let head = write_file_nodes([&node].into_iter());
        let (rows, place) = (node.elements, Place::Columns);
        let header = ChunkHeader { query: 1, place, number: 0, rows, checksum: 0, skip: 0, head };
        let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::LargeUtf8, false)]));
        MappedColumns::new(schema, &header, vec![file(&bytes), file(heap)]).unwrap()
    }

    #[test]
    fn rows_that_are_read_here_are_what_their_type_says() {
        texts(&[0, 1, 3, 4], "a\u{e9}b".as_bytes()).verify(0, 0..3).unwrap();
        for (offsets, heap) in [
            (&[0, 5, 3, 4][..], &b"abcd"[..]),
            (&[0, 1 << 40, 3, 4], b"abcd"),
            (&[-1, 1, 3, 4], b"abcd"),
            (&[0, 1, 3, 4], b"a\xff\xffb"),
            (&[0, 2, 3, 4], "a\u{e9}b".as_bytes()),
        ] {
            let columns = texts(offsets, heap);
            let error = columns.verify(0, 0..3).unwrap_err();
            assert_eq!(error.kind(), hypostyle_types::ErrorKind::Corrupt, "{offsets:?}: {error}");
            assert!(error.message().contains("column \"s\""), "{error}");
            columns.verify(0, 3..3).unwrap();
        }
        // Rows without damage can be read.
        texts(&[0, 5, 3, 4], b"abcd").verify(0, 2..3).unwrap();
    }

    /// Returns the schema and the node of a column of four integers in one file.
    fn four_integers() -> (SchemaRef, FileNode) {
        let node = FileNode {
            elements: 4,
            nulls: 0,
            validity: None,
            buffers: vec![Region { length: 16, descriptor: 0 }],
            dictionary: None,
        };
        (Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)])), node)
    }

    #[test]
    fn files_must_have_the_rows_of_the_result() {
        let (schema, node) = four_integers();
        let take = |skip, rows| {
            let head = write_file_nodes([&node].into_iter());
            let header =
                ChunkHeader { query: 1, place: Place::Columns, number: 0, rows, checksum: 0, skip, head };
            let file = File::sealed(File::unsealed().unwrap(), &[[7; 16].as_slice()]).unwrap();
            MappedColumns::new(schema.clone(), &header, vec![file])
        };
        assert_eq!(take(1, 3).unwrap().column(0, false).unwrap().len(), 3);
        for (skip, rows) in [(2, 3), (u64::MAX, 1), (u64::MAX, u64::MAX), (0, 5)] {
            assert_eq!(take(skip, rows).unwrap_err().sqlstate(), "08P01", "{skip} {rows}");
        }
    }

    #[test]
    fn pieces_lie_in_the_files() {
        let (schema, node) = four_integers();
        let take = |pieces: &[(u64, u64, u64)], rows| {
            let piece = |(start, rows, others): &(u64, u64, u64)| FilePiece {
                start: *start,
                rows: *rows,
                others: *others,
            };
            let pieces: Vec<FilePiece> = pieces.iter().map(piece).collect();
            let head = write_file_pieces(&pieces, &write_file_nodes([&node].into_iter()));
            let header =
                ChunkHeader { query: 1, place: Place::Pieces, number: 0, rows, checksum: 0, skip: 0, head };
            let file = File::sealed(File::unsealed().unwrap(), &[[7; 16].as_slice()]).unwrap();
            MappedColumns::in_pieces(schema.clone(), &header, vec![file])
        };
        let (mapped, pieces) = take(&[(0, 1, 5), (2, 2, 0)], 3).unwrap();
        assert_eq!((mapped.column(0, false).unwrap().len(), pieces.len()), (4, 2));
        assert!(take(&[], 0).is_ok());
        for (pieces, rows) in [(&[(0, 1, 5), (2, 3, 0)][..], 4), (&[(4, 1, 0)], 1), (&[(0, 2, 0)], 3)] {
            assert_eq!(take(pieces, rows).unwrap_err().sqlstate(), "08P01", "{pieces:?}");
        }
    }
}
