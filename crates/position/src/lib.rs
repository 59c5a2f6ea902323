//! Kernels of the physical layer: plain functions and small types over Arrow arrays.
//!
//! Operators above exchange *positions*, 32-bit numbers of a table's rows, and read values only
//! where they need them ([`Rows`], [`Column`]). The way of a morsel through a query:
//!
//! 1. [`condition`] leaves a byte for each row, [`selection`] makes positions of them; [`bits`]
//!    tests positions against a bitmap.
//! 2. [`join`] finds the partners of rows by a hash table. Where an index has them, it is a
//!    [`gather`]. Where a table would be larger than the cache, rows go through a [`partition`]
//!    first.
//! 3. [`group`] gives each row the dense id of its group, and [`fold`] combines values into an
//!    array over these ids; an id may as well be a position of another table.
//! 4. [`order`] sorts positions or finds the first few; [`window`] computes over sorted ones.
//! 5. [`gather`] fetches the values that are wanted in the end.
//!
//! [`nan`] makes one NaN of all.
//!
//! Kernels read values as they lie in memory: decimals as integers, dictionaries as codes. Equality
//! and order are PostgreSQL's. Threads have states of their own, which are merged. The crate knows
//! neither DataFusion nor storage nor SQL; what it has no loop for is an
//! [`Error::UnsupportedType`], and the caller's to do otherwise. Memory that grows with the input
//! is announced by `bytes` functions.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bits;
pub mod condition;
mod error;
pub mod fold;
pub mod gather;
pub mod group;
pub mod join;
mod key;
pub mod nan;
pub mod order;
pub mod partition;
mod rows;
pub mod selection;
mod share;
#[cfg(test)]
mod testing;
mod value;
pub mod window;

pub use bits::Bits;
pub use error::{Error, Result};
pub use rows::{Column, Rows};
pub use selection::Selection;
pub use share::{Check, Work};

/// Stands for a position where there is none: the partner of a row that has none.
pub const NO_POSITION: u32 = u32::MAX;
