//! Files as tables: CSV, JSON, Parquet and Arrow IPC, in queries and in COPY.
//!
//! Text files are cut into chunks of whole records, which several threads parse in file order with
//! Arrow's own parsers (`chunk`, `csv`, `json`). DataFusion scans Parquet and Arrow files; COPY
//! reads them row group by row group. Every error names the file, the line or row, the column, the
//! value and the expected type.

#![forbid(unsafe_code)]

mod arrow_lengths;
mod chunk;
mod combined;
mod convert;
mod copy_from;
mod copy_to;
mod csv;
mod function;
mod json;
mod option;
pub mod ordered;
mod path;
mod reject;
mod sink;
mod table;
mod target;
#[cfg(test)]
mod test_directory;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;

pub use copy_from::read_for_copy;
pub use copy_to::write;
pub use function::{register, table_from_path};
pub use option::{Pair, ReadOptions, WriteOptions, take_format};
pub use reject::Rejected;
