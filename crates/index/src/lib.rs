//! Indexes over Arrow arrays: plain data that finds rows without reading all of them.
//!
//! | index | finds |
//! |---|---|
//! | [`KeyIndex`] | the position of a unique key |
//! | [`JoinIndex`] | the row that each row refers to by a key |
//! | [`ReverseIndex`] | the rows that refer to a row |
//! | [`Imprint`] | the runs of rows that may have a value of a range |
//! | [`OrderIndex`] | rows in the order of a column, and by it ranges of values |
//!
//! An index covers the first rows of a table and outlives the snapshot that it was built from, so
//! it has rows that are deleted by now, or that an older snapshot does not see yet. So what an
//! index finds is got only through a lookup ([`KeyLookup`], [`JoinLookup`], [`ReverseLookup`],
//! [`OrderLookup`]), which asks for the rows that are [`Visible`] and refuses to answer unless it
//! covers all of these: rows past the index's coverage are in extensions that live in memory.
//!
//! [`Index::encode`] and [`Stored::decode`] turn indexes to bytes and back (docs/format.md §10);
//! decoding checks the checksum and the structure, and shares the bytes that it is given.
//!
//! Knows neither plans nor SQL, and neither files nor catalogs.

#![forbid(unsafe_code)]

mod array;
mod bytes;
mod column;
mod imprint;
mod join;
mod key;
mod order;
mod reverse;
mod visible;

pub use bytes::{Content, Covered, Encoded, Index, Stored};
pub use column::KeyType;
pub use imprint::{IMPRINT_ROWS, Imprint};
pub use join::{JoinIndex, JoinLookup};
pub use key::{KeyExtension, KeyIndex, KeyLookup};
pub use order::{OrderIndex, OrderLookup};
pub use reverse::{ReverseIndex, ReverseLookup};
pub use visible::{NO_ROW, Visible};
