//! Converts bytes to structs and back, exactly as docs/format.md (version 1) defines them.
//!
//! This crate does no I/O. Every decoder takes untrusted bytes and returns an error of kind
//! `Corrupt` or `Version`, never a panic.

#![forbid(unsafe_code)]
// Bytes come from outside: whatever they are is an error at worst.
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod block;
mod catalog;
mod frame;
mod sequence;
mod shared;
mod superblock;

pub use block::{BLOCK_RECORD_BYTES, BlockRecord};
pub use catalog::{
    Catalog, Change, ColumnEntry, ColumnGeneration, Commit, ConstraintEntry, ConstraintRule, DeclaredIndex,
    Deferral, DeletedEntry, Encoding, GenerationEntry, Identity, IndexEntry, MacroEntry, NodeEntry,
    ReferentialAction, SchemaEntry, StoredQuery, TableEntry, ViewEntry,
};
pub use frame::{FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, Frame, FrameKind, LogReader, encode_frame};
pub use sequence::{SequenceEntry, SequenceOwner, SequenceState};
pub use shared::{SHARED_BYTES, Shared};
pub use superblock::{FORMAT_VERSION, SUPERBLOCK_BYTES, Superblock};

/// The name of the schema that always exists.
pub const SCHEMA_MAIN: &str = "main";

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, offset))
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

/// The caller has checked that `bytes` reaches that far.
#[expect(clippy::indexing_slicing, reason = "the places are those of structures whose length is checked")]
fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}
