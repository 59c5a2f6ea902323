//! Functions in plans that are sent to other nodes of a cluster.
//!
//! A name does not say which function is meant: some of ours have the names of DataFusion's and
//! compute by other rules, and others have parameters that no argument shows. So a function is
//! encoded as one of these:
//!
//! * the name of a function that every session registers (`registry::register_all`), or of one that
//!   DataFusion has, if it is equal to that one;
//! * a tag for its type, with its parameters ([`Portable`]).
//!
//! Anything else is refused when it is encoded, also a function that has the name of a registered
//! one and is another. Functions that belong to one session say so themselves ([`Entry::refused`]).
//!
//! The encoding is a text in JSON. It comes from the network: any bytes give a function or an error.

mod data_type;
mod encoded;
mod entry;
mod kind;

pub(crate) use data_type::PortableField;
pub use encoded::{Decoder, Encoded, Functions};
pub use entry::{Entry, Portable, Table};
pub use kind::Kind;

use datafusion::error::DataFusionError;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::fmt::Display;

/// Returns the error for a function that stays on its node.
fn stays(name: &str, noun: &str, why: impl Display) -> DataFusionError {
    external(Error::unsupported(format!("the {noun} {name}() cannot be sent to another node: {why}")))
}

/// Returns the error for bytes that encode no function.
pub(crate) fn malformed(why: impl Display) -> DataFusionError {
    external(Error::protocol(format!("a function in a plan from another node cannot be decoded: {why}")))
}
