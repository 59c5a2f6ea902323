//! Files as tables: CSV, JSON, Parquet and Arrow IPC, in queries and in COPY.
//!
//! Text files are cut into chunks of whole records, which several threads parse in file order
//! (`chunk`, `csv`, `json`). DataFusion scans Parquet files, whose footers and pages are checked
//! before; Arrow files are decoded batch by batch, COPY reads Parquet row group by row group. Every
//! error names the file, the line or row, the column, the value and the expected type.

#![forbid(unsafe_code)]

mod arrow_lengths;
mod arrow_table;
mod chunk;
#[cfg(test)]
mod column_tests;
mod combined;
mod convert;
mod copy_from;
mod copy_to;
mod csv;
mod damage;
mod encoding;
mod file_column;
mod float_bounds;
mod function;
mod input;
mod json;
mod known_files;
mod nested;
mod option;
pub mod ordered;
mod parquet_footer;
mod parquet_reader;
mod parquet_source;
mod parquet_table;
mod path;
#[cfg(test)]
mod pipe_tests;
mod raw;
mod reject;
mod room;
mod rows;
mod sink;
mod table;
mod target;
#[cfg(test)]
mod test_arguments;
#[cfg(test)]
mod test_directory;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
pub mod uuid_column;
mod whole_file;
#[cfg(test)]
mod write_tests;

pub use copy_from::read_for_copy;
pub use copy_to::write;
pub use function::{reader_of, register, table_from_path};
pub use option::{Pair, ReadOptions, WriteOptions, take_format};
pub use reject::Rejected;
