//! One column: its tree of nodes, its files, its writer and its reader.

mod bounds;
mod checksum;
mod convert;
mod dictionary;
mod extended;
mod files;
mod layout;
mod node_writer;
mod reader;
mod shape;
mod structure;
mod views;
mod window;
mod writer;
mod writers;

pub use bounds::{BlockSynopsis, Bound};
pub use convert::convert;
pub use hypostyle_mapped::{BufferFile, DictionaryFiles, NodeFiles};
pub use reader::ColumnData;
pub use views::view_rows;
pub use window::in_window;

pub(crate) use files::GenerationFiles;
pub(crate) use layout::node_count;
pub(crate) use shape::{check_shape, committed_files, committed_files_of_column};
pub(crate) use writer::ColumnWriter;
pub(crate) use writers::{files_of, finish_columns, open_columns, sync_columns};
