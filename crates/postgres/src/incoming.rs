//! The rows of a result while they come, by whichever messages.

use crate::columns::Columns;
use crate::decode::{Copy, Rows};
use crate::message::Cursor;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use hypostyle_types::{Error, Result};

/// The rows of a result while they come.
pub enum Incoming {
    /// The rows of the extended protocol.
    Rows(Rows),
    /// The data of COPY in binary.
    Copy(Copy, Rows),
    /// The frames of the extension.
    Columns(Columns),
}

impl Incoming {
    pub fn schema(&self) -> SchemaRef {
        match self {
            Self::Rows(rows) | Self::Copy(_, rows) => rows.schema(),
            Self::Columns(columns) => columns.schema(),
        }
    }

    /// Takes a message. Returns a batch when one is full.
    ///
    /// # Errors
    /// `InvalidInput` for a value that no type of ours has; `Connection` for bytes that are no rows.
    pub fn take(&mut self, kind: u8, body: &[u8]) -> Result<Option<RecordBatch>> {
        match (kind, &mut *self) {
            (b'D', Self::Rows(rows)) => rows.row(&mut Cursor(body))?,
            (b'd', Self::Copy(copy, rows)) => copy.take(body, rows)?,
            (b'c', Self::Copy(copy, _)) => copy.end()?,
            (b'd', Self::Columns(columns)) => return columns.take(body),
            (b'c', Self::Columns(columns)) => columns.end()?,
            (b'C', _) => {}
            (other, _) => {
                return Err(Error::protocol(format!("a message {:?} among rows", char::from(other))));
            }
        }
        match self {
            Self::Rows(rows) | Self::Copy(_, rows) if rows.is_full() => rows.finish().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the rows that are left at the end.
    ///
    /// # Errors
    /// `InvalidInput` for text that is not UTF-8.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Rows(rows) | Self::Copy(_, rows) if !rows.is_empty() => rows.finish().map(Some),
            _ => Ok(None),
        }
    }

    /// Says whether no rows have come that were not returned.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Rows(rows) | Self::Copy(_, rows) => rows.is_empty(),
            Self::Columns(_) => true,
        }
    }
}
