//! The Rust half of the PostgreSQL extension: rows in columns become frames of docs/protocol.md.
//!
//! `include/hypostyle_encoder.h` describes each function. The C half writes values into buffers that this
//! library has given it, and sends the frames that come back. C calls this library and is never called by
//! it, so no error of PostgreSQL jumps across a Rust frame; panics end in error structs (`abi`).
//!
//! `layout` has the structs that both sides know, `schema` makes Arrow's types of C's, `node` has the
//! buffers, `numeric` reads PostgreSQL's numbers, and `encoder` makes chunks.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]
#![cfg_attr(test, allow(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod abi;
mod buffer;
mod encoder;
mod layout;
mod node;
mod numeric;
mod schema;

pub use abi::*;
pub use layout::{Array, Failure, Field, Options, Room};
