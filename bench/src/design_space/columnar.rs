//! A format with column after column within a chunk, as the chapter proposes, and a choice of
//! codecs for integers and strings.
//!
//! A message has the number of rows, and for each column its length in bytes and its bytes.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use hypostyle_wire::{Reader, rows_that_fit};

use super::Result;
use super::columns::{Column, ColumnBuilder, builders, columns, to_batch};
use super::format::Serializer;
use super::integers::Integers;
use super::text::Strings;

#[derive(Clone, Copy)]
pub struct ColumnWise {
    pub integers: Integers,
    pub strings: Strings,
}

impl ColumnWise {
    /// The chapter's own choice for columns of mixed kinds.
    pub const CHAPTER: Self = Self { integers: Integers::Plain, strings: Strings::NulTerminated };
}

impl Serializer for ColumnWise {
    fn write(&self, chunk: &RecordBatch, message: &mut Vec<u8>) -> Result<()> {
        message.extend_from_slice(&u32::try_from(chunk.num_rows())?.to_le_bytes());
        for column in columns(chunk)? {
            let length_at = message.len();
            message.extend_from_slice(&[0; 4]);
            match &column {
                Column::Four(values) => self.integers.write(values, message),
                Column::Eight(values) => self.integers.write(values, message),
                Column::Text(text) => self.strings.write(text, message)?,
            }
            let length = u32::try_from(message.len() - length_at - 4)?;
            message[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }

    fn read(&self, message: &[u8], schema: &SchemaRef) -> Result<RecordBatch> {
        let mut reader = Reader::new(message);
        let rows = reader.u32()? as usize;
        let mut builders = builders(schema, rows)?;
        for builder in &mut builders {
            let bytes = reader.bytes()?;
            match builder {
                ColumnBuilder::Four(values) => self.integers.read(bytes, rows, values)?,
                ColumnBuilder::Eight(values) => self.integers.read(bytes, rows, values)?,
                ColumnBuilder::Text(text) => self.strings.read(bytes, rows, text)?,
            }
        }
        reader.end()?;
        to_batch(schema, builders)
    }

    fn chunk_rows(&self, batch: &RecordBatch, start: usize, chunk_bytes: usize) -> usize {
        let rows = rows_that_fit(batch, start, chunk_bytes);
        match self.strings {
            // Padding is part of a message, even if it is compressed later.
            Strings::Fixed(width) => rows.min(chunk_bytes / fixed_row_bytes(batch, width).max(1)).max(1),
            _ => rows,
        }
    }
}

/// Returns the bytes of a row whose strings all have one width.
fn fixed_row_bytes(batch: &RecordBatch, width: usize) -> usize {
    let schema = batch.schema();
    let bytes = schema.fields().iter().map(|field| match field.data_type() {
        DataType::LargeUtf8 => width,
        other => other.primitive_width().unwrap_or(0),
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design_space::lineitem;

    #[test]
    fn chunks_come_back_and_cut_ones_are_refused() {
        let batch = lineitem(0.001).unwrap().slice(3, 2500);
        for integers in Integers::ALL {
            for strings in [Strings::NulTerminated, Strings::VarintPrefix, Strings::Fixed(44)] {
                let format = ColumnWise { integers, strings };
                let mut message = Vec::new();
                format.write(&batch, &mut message).unwrap();
                assert_eq!(
                    format.read(&message, &batch.schema()).unwrap(),
                    batch,
                    "{integers:?}, {strings:?}"
                );
                assert!(format.read(&message[..message.len() - 1], &batch.schema()).is_err());
            }
        }
    }

    #[test]
    fn padding_counts_as_bytes_of_a_chunk() {
        let comment = lineitem(0.001).unwrap().project(&[15]).unwrap();
        let wide = ColumnWise { integers: Integers::Plain, strings: Strings::Fixed(1000) };
        assert_eq!(wide.chunk_rows(&comment, 0, 100_000), 100);
        assert_eq!(wide.chunk_rows(&comment, 0, 10), 1);
        assert!(ColumnWise::CHAPTER.chunk_rows(&comment, 0, 100_000) > 1000);
    }
}
