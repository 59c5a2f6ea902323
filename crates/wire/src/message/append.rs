//! Appends (protocol.md §5).

use super::field::{Field, body, fields};
use crate::cursor::{Reader, Writer};
use crate::schema::{read_schema, write_schema};
use arrow_schema::SchemaRef;
use hypostyle_types::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    pub query: u32,
    pub create: bool,
    pub by_name: bool,
    pub table: String,
    pub schema: SchemaRef,
}

impl Field for Append {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u8(u8::from(self.create) | u8::from(self.by_name) << 1).text(&self.table);
        write_schema(to, &self.schema);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (query, flags) = (from.u32()?, from.u8()?);
        if flags > 3 {
            return Err(Error::protocol(format!("flags {flags} of an append are not of version 1")));
        }
        Ok(Self {
            query,
            create: flags & 1 != 0,
            by_name: flags & 2 != 0,
            table: from.text()?.into(),
            schema: read_schema(from)?,
        })
    }
}

body!(Append, Append);

fields! {
    /// What a stream must have been.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct End {
        pub query: u32,
        pub rows: u64,
        pub checksum: u64,
    }
}

body!(End, End);
