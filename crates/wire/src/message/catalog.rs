//! The tables and views of a catalog (protocol.md §4.4).

use super::field::Field;
use crate::cursor::{Reader, Writer};
use crate::frame::{FrameHeader, FrameType};
use crate::schema::{read_counted_schema, write_schema};
use arrow_schema::SchemaRef;
use hypostyle_types::{Error, Result};

/// A table or view of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    pub schema: String,
    pub name: String,
    pub is_view: bool,
    /// The number of rows, for tables.
    pub rows: Option<u64>,
    pub columns: SchemaRef,
}

/// Tables of a catalog, with all their fields (§13).
const CATALOG_FIELDS_MAX: usize = 1 << 20;

/// The bytes of a table without names and columns.
const TABLE_BYTES_MIN: usize = 21;

impl TableEntry {
    pub fn list_frame(query: u32, tables: &[Self]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(query).list(tables.iter(), |to, table| {
            to.text(&table.schema).text(&table.name).u8(u8::from(table.is_view));
            table.rows.write(to);
            write_schema(to, &table.columns);
        });
        FrameHeader::frame(FrameType::Tables, writer)
    }

    /// The query's number and the tables.
    ///
    /// # Errors
    /// `54000` when they are too many to be held.
    pub fn decode_list(body: &[u8]) -> Result<(u32, Vec<Self>)> {
        let mut reader = Reader::new(body);
        let query = reader.u32()?;
        let mut found = 0;
        let tables = reader.list(TABLE_BYTES_MIN, usize::MAX, |from| {
            let (schema, name) = (from.text()?.into(), from.text()?.into());
            let (is_view, rows) = (from.flag()?, Field::read(from)?);
            let (columns, fields) = read_counted_schema(from)?;
            found += 1 + fields;
            if found > CATALOG_FIELDS_MAX {
                let message = format!(
                    "the catalog has more than {CATALOG_FIELDS_MAX} tables and columns; query information_schema"
                );
                return Err(Error::invalid_input(message).with_sqlstate("54000"));
            }
            Ok(Self { schema, name, is_view, rows, columns })
        })?;
        reader.end()?;
        Ok((query, tables))
    }
}
