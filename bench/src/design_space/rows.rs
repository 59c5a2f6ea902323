//! A format with row after row, as in most protocols (the chapter's Tables 3.4 and 3.5): integers
//! at their width, strings with a NUL behind each.

use std::ffi::CStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hypostyle_wire::Reader;

use super::Result;
use super::columns::{Column, ColumnBuilder, builders, columns, to_batch};
use super::format::Serializer;

pub struct RowWise;

impl Serializer for RowWise {
    fn write(&self, chunk: &RecordBatch, message: &mut Vec<u8>) -> Result<()> {
        let columns = columns(chunk)?;
        message.extend_from_slice(&u32::try_from(chunk.num_rows())?.to_le_bytes());
        for row in 0..chunk.num_rows() {
            for column in &columns {
                match column {
                    Column::Four(values) => message.extend_from_slice(&values[row].to_le_bytes()),
                    Column::Eight(values) => message.extend_from_slice(&values[row].to_le_bytes()),
                    Column::Text(text) => {
                        message.extend_from_slice(text.value(row).as_bytes());
                        message.push(0);
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&self, message: &[u8], schema: &SchemaRef) -> Result<RecordBatch> {
        let mut reader = Reader::new(message);
        let rows = reader.u32()? as usize;
        let mut rest = reader.rest();
        let mut builders = builders(schema, rows)?;
        for _ in 0..rows {
            for builder in &mut builders {
                match builder {
                    ColumnBuilder::Four(values) => values.push(u32::from_le_bytes(word(&mut rest)?)),
                    ColumnBuilder::Eight(values) => values.push(u64::from_le_bytes(word(&mut rest)?)),
                    ColumnBuilder::Text(text) => {
                        let value = CStr::from_bytes_until_nul(rest)?.to_bytes();
                        text.push(value);
                        rest = &rest[value.len() + 1..];
                    }
                }
            }
        }
        to_batch(schema, builders)
    }
}

fn word<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (word, behind) = rest.split_first_chunk().ok_or("a row is cut")?;
    *rest = behind;
    Ok(*word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design_space::lineitem;

    #[test]
    fn rows_come_back_and_cut_ones_are_refused() {
        let batch = lineitem(0.001).unwrap().slice(3, 1000);
        let mut message = Vec::new();
        RowWise.write(&batch, &mut message).unwrap();
        assert_eq!(RowWise.read(&message, &batch.schema()).unwrap(), batch);
        assert!(RowWise.read(&message[..message.len() - 1], &batch.schema()).is_err());
    }
}
