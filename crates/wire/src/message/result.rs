//! What a statement is answered: its rows' types, and how it ended (protocol.md §4).

use super::field::{Field, body, fields};
use crate::codec::{LZ4, NONE, ZSTD};
use crate::cursor::{Reader, Writer};
use arrow_schema::SchemaRef;
use hypostyle_types::{Error, Result};
use std::time::Duration;

fields! {
    #[derive(Clone, Debug, PartialEq)]
    pub struct ResultHeader {
        pub query: u32,
        /// Whether rows come.
        pub is_query: bool,
        pub rows: Option<u64>,
        pub bytes: Option<u64>,
        pub schema: SchemaRef,
    }
}

body!(ResultHeader, Result);

/// Whether the session has a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transaction {
    #[default]
    None,
    Open,
    /// It refuses work until it is rolled back.
    Failed,
}

impl Field for Transaction {
    fn write(&self, to: &mut Writer) {
        to.u8(match self {
            Self::None => 0,
            Self::Open => 1,
            Self::Failed => 2,
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        match from.u8()? {
            0 => Ok(Self::None),
            1 => Ok(Self::Open),
            2 => Ok(Self::Failed),
            other => Err(Error::protocol(format!("there is no transaction state {other}"))),
        }
    }
}

fields! {
    /// Where the time of a statement went on the server.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Times {
        /// The time until the first row.
        pub execute: Duration,
        pub encode: Duration,
        /// The time in the socket.
        pub send: Duration,
        /// The time of waiting for credit.
        pub wait: Duration,
    }
}

fields! {
    /// How often a column was encoded so.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Chosen {
        pub column: u32,
        pub encoding: u8,
        pub compression: u8,
        pub chunks: u64,
    }
}

impl Chosen {
    /// The encoding's name in protocol.md §11, and the compression's: `frame of reference`, `fsst +
    /// zstd`.
    pub fn codec(&self) -> String {
        const ENCODINGS: [&str; 10] = [
            "plain",
            "offsets",
            "frame of reference",
            "delta",
            "constant",
            "runs",
            "difference",
            "dictionary",
            "decimal",
            "fsst",
        ];
        let encoding = ENCODINGS.get(usize::from(self.encoding)).copied().unwrap_or("unknown");
        match self.compression {
            NONE => encoding.to_string(),
            LZ4 => format!("{encoding} + lz4"),
            ZSTD => format!("{encoding} + zstd"),
            _ => format!("{encoding} + unknown"),
        }
    }
}

/// Bytes of one of the list.
const CHOSEN_BYTES: usize = 14;

impl Field for Vec<Chosen> {
    fn write(&self, to: &mut Writer) {
        to.list(self.iter(), |to, chosen| chosen.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.list(CHOSEN_BYTES, usize::MAX, Field::read)
    }
}

fields! {
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Done {
        pub query: u32,
        pub rows: u64,
        pub checksum: u64,
        pub affected: Option<u64>,
        pub transaction: Transaction,
        pub times: Times,
        /// Bytes of the chunks before and after codecs.
        pub raw: u64,
        pub sent: u64,
        pub chosen: Vec<Chosen>,
    }
}

body!(Done, Done);
