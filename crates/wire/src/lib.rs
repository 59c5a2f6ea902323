//! What crosses the wire: frames, messages and chunks of docs/protocol.md.
//!
//! Knows bytes and Arrow arrays; no sockets, no engine. Everything that decodes takes bytes nobody has looked
//! at and answers with `08P01` where they cannot be right: it never panics, and takes no more memory than the
//! receiver has said it accepts.

#![forbid(unsafe_code)]
// Bytes come from outside: whatever they are is an error at worst.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

// The tests' batches are shared with those outside of this crate, which know it by its name.
#[cfg(test)]
extern crate self as hypostyle_wire;

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

mod blocks;
mod builder;
mod choice;
mod codec;
mod columns;
mod compression;
mod cursor;
mod decode;
mod dictionary;
mod encode;
mod encode_job;
mod error;
mod floats;
mod frame;
mod integers;
mod message;
mod row;
mod schema;
mod sink;
mod size;
mod source;
mod stream_decoder;
mod stream_encoder;
mod symbols;
mod text;
mod text_decode;
mod values;
mod word;

pub use builder::ColumnBuilder;
pub use choice::{Full, OnLink};
pub use codec::{COMPRESSIONS, Codec};
pub use columns::{
    FileNode, FilePiece, Region, read_file_nodes, read_file_pieces, write_file_nodes, write_file_pieces,
};
pub use cursor::{Reader, Writer};
pub use encode_job::{EncodeJob, Encoded, EncodedFrame};
pub use frame::{DESCRIPTORS_MAX, FRAME_HEADER_BYTES, FrameHeader, FrameType, PREFACE_BYTES, Preface};
pub use message::{
    Answer, Append, Ask, Call, Cancel, Capabilities, Chosen, ChunkHeader, Credit, Describe, Description,
    DictionaryHeader, Done, Elsewhere, End, Failure, Gives, Hello, Note, Parameters, Place, Progress, Query,
    QueryKind, Received, Reply, ResultHeader, Role, TableEntry, Times, Transaction, Welcome,
    check_call_bytes,
};
pub use row::{decode_row, encode_row};
pub use schema::{FIELDS_MAX, canonical_field, canonical_schema, read_schema, write_schema};
pub use size::rows_that_fit;
pub use stream_decoder::{DecodeJob, StreamDecoder, stream_checksum};
pub use stream_encoder::{StreamEncoder, StreamEnd};

/// The version of the protocol that this crate speaks.
pub const VERSION: u16 = 1;

/// The longest body before `Welcome`.
pub const HANDSHAKE_BYTES_MAX: u32 = 64 << 10;

/// The longest body that is accepted unless set otherwise.
pub const FRAME_BYTES_MAX: u32 = 256 << 20;

/// Bytes of a chunk before compression unless the client asks for another number: the optimum of the
/// chapter's Table 3.3.
pub const CHUNK_BYTES: u32 = 1 << 20;

/// The longest chunk that a client may ask for.
pub const CHUNK_BYTES_MAX: u32 = 16 << 20;

/// The longest request or reply of a call (§13).
pub const CALL_BYTES_MAX: usize = 64 << 20;

/// Stands for "not known" where a number of rows or bytes is.
pub const UNKNOWN: u64 = u64::MAX;
