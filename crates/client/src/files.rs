//! Columns that lie in files which came with a chunk (protocol.md §10.5).
//!
//! The `unsafe` of this crate is here, as in the storage: assembling arrays over mappings without looking at every
//! value, which is what makes a result cost O(columns) instead of O(rows). Descriptors are taken only from a server
//! that runs as our own user or as root (`login`).

use arrow_array::{ArrayRef, make_array, new_empty_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, SchemaRef};
use hypostyle_io::File;
use hypostyle_types::{Error, Result};
use hypostyle_wire::{ChunkHeader, FileNode, Region, read_file_nodes};
use std::os::fd::OwnedFd;
use std::slice::Iter;

/// A result that is a mapping of the server's column files.
#[derive(Debug)]
pub struct MappedColumns {
    schema: SchemaRef,
    files: Vec<File>,
    columns: Vec<Vec<FileNode>>,
    pub skip: usize,
    pub rows: usize,
}

impl MappedColumns {
    /// # Errors
    /// `08P01` when the head does not fit the schema, or names files that have not come.
    pub fn new(schema: SchemaRef, header: &ChunkHeader, descriptors: Vec<OwnedFd>) -> Result<Self> {
        let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref()).collect();
        let columns = read_file_nodes(&header.head, &fields, descriptors.len())?;
        let end = header.skip.checked_add(header.rows);
        let reaches =
            |nodes: &Vec<FileNode>| nodes.first().zip(end).is_some_and(|(node, end)| node.elements >= end);
        if !columns.iter().all(reaches) {
            return Err(Error::protocol("a column's files have fewer rows than the result"));
        }
        let name =
            |(index, descriptor)| File::from_descriptor(descriptor, &format!("file {index} of the result"));
        let files = descriptors.into_iter().enumerate().map(name).collect();
        let (skip, rows) = (header.skip as usize, header.rows as usize);
        Ok(Self { schema, files, columns, skip, rows })
    }

    /// A column over mappings of its own, which are copy-on-write when `private`. O(1) in the rows.
    pub fn column(&self, index: usize, private: bool) -> Result<ArrayRef> {
        let data_type = self.schema.field(index).data_type();
        if self.rows == 0 {
            return Ok(new_empty_array(data_type));
        }
        let mut nodes = self.columns[index].iter();
        let data = self.read(data_type, &mut nodes, private)?;
        Ok(make_array(data).slice(self.skip, self.rows))
    }

    fn map(&self, region: &Region, private: bool) -> Result<Buffer> {
        if region.length == 0 {
            return Ok(Buffer::from(Vec::<u8>::new()));
        }
        let file = &self.files[usize::from(region.descriptor)];
        let mapping = if private { file.map_private(region.length)? } else { file.map(region.length)? };
        Ok(Buffer::from(bytes::Bytes::from_owner(mapping)))
    }

    fn read(&self, data_type: &DataType, nodes: &mut Iter<'_, FileNode>, private: bool) -> Result<ArrayData> {
        let node = nodes.next().ok_or_else(|| Error::protocol("an array has no files"))?;
        let length = node.elements as usize;
        let mut builder = ArrayDataBuilder::new(data_type.clone()).len(length);
        if let Some(mask) = &node.validity {
            let bits = BooleanBuffer::new(self.map(mask, private)?, 0, length);
            // SAFETY: the count is the server's, which counted while it wrote the bits; a wrong one misleads but reads
            // no foreign memory.
            let nulls = unsafe { NullBuffer::new_unchecked(bits, node.nulls as usize) };
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
                let (offsets, count) = (self.map(offsets, private)?, *count as usize);
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
        // SAFETY: `read_file_nodes` has checked that the buffers have the lengths that the type and the elements demand, and
        // mapping them that the files are as long; they begin on a page, so they are aligned. Offsets ascend, text is UTF-8 and codes
        // are below the number of values because the server's storage wrote them from valid arrays; the server is one
        // that could as well have written into this process.
        Ok(unsafe { builder.build_unchecked() })
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
    use hypostyle_wire::{Place, write_file_nodes};
    use std::sync::Arc;

    #[test]
    fn files_must_have_the_rows_of_the_result() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
        let node = FileNode {
            elements: 4,
            nulls: 0,
            validity: None,
            buffers: vec![Region { length: 16, descriptor: 0 }],
            dictionary: None,
        };
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
}
