//! Columns, catalog, log and recovery: everything of a database but its SQL.
//!
//! A column is a file, a snapshot is a length, a result is a mapping. [`Database`] publishes
//! immutable [`Snapshot`]s; a [`WriteTransaction`] appends past the published lengths and publishes
//! the next one at commit. Readers take no lock while they read.
//!
//! Knows neither SQL nor DataFusion. Bytes on disk are those of docs/format.md.

mod check;
mod column;
mod database;
mod table;
mod transaction;

pub use check::{CheckProgress, Damage};
pub use column::{BlockSynopsis, Bound, ColumnData, convert};
pub use database::{Database, OpenMode, Snapshot};
pub use hypostyle_format::{Catalog, ColumnEntry, Encoding, SCHEMA_MAIN, TableEntry, ViewEntry};
pub use table::TableData;
pub use transaction::{NewColumn, WriteTransaction, unknown_table};
