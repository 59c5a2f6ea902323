//! The interface for C, in one shared library with the ADBC driver.
//!
//! `include/hypostyle.h` describes each function: what it takes, gives and owns. The functions here
//! check what C has passed, and call the façade crate `hypostyle`. `handle` has what C holds,
//! `layout` the structs that both sides know, and `call` the way of a call: panics and forks end in
//! errors.
//!
//! The functions are `unsafe` as all of C is: their arguments are those of the header.

#![allow(clippy::missing_safety_doc, reason = "the header says what the functions take")]

mod appending;
mod call;
mod connecting;
mod failure;
mod handle;
mod imported;
mod layout;
mod results;
mod rows;
mod statements;
mod text;
mod value;
mod values;

/// Limits statements by the memory that this library has allocated.
#[global_allocator]
static ALLOCATOR: hypostyle_memory::Counting = hypostyle_memory::Counting;

pub use hypostyle_adbc::{AdbcDriverHypostyleInit, AdbcDriverInit};
