//! Columns, catalog, log, transactions and recovery: everything of a database but its SQL.
//!
//! A column is a file, a snapshot is a length, a result is a mapping. [`Database`] publishes
//! immutable [`Snapshot`]s, to other processes, too; a [`Transaction`] stages changes and publishes the
//! next one at commit. Readers take no lock while they read.
//!
//! Knows neither SQL nor DataFusion. Bytes on disk are those of docs/format.md, what is promised is in
//! docs/transactions.md.

// Bytes come from outside: whatever they are is an error at worst.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod backup;
mod check;
mod column;
mod database;
mod gather;
mod index;
mod known_keys;
mod live;
mod names;
mod origin;
mod parallel;
mod readers;
mod rows;
mod sequence;
mod snapshot;
mod table;
mod text;
mod transaction;
mod verify;

pub use backup::{BackupProgress, check_new_backup};
pub use check::{CheckProgress, Damage};
pub use column::{
    BlockSynopsis, Bound, BufferFile, ColumnData, DictionaryFiles, NodeFiles, convert, in_window, view_rows,
};
pub use database::{Budget, Database, OpenMode, QUIET, StorageOptions, Synchronous};
pub use hypostyle_format::{
    Catalog, ColumnEntry, ConstraintEntry, ConstraintRule, DeclaredIndex, Deferral, Encoding, Identity,
    IndexEntry, MacroEntry, ReferentialAction, SCHEMA_MAIN, SequenceEntry, SequenceOwner, SequenceState,
    StoredQuery, TableEntry, ViewEntry,
};
pub use hypostyle_index::{IMPRINT_ROWS, NO_ROW};
pub use hypostyle_io::{Held as Patient, Patience, fork, memory_of_groups};
pub use index::{
    IndexInfo, IndexKind, IndexSpec, ReferredKey, TableImprint, TableJoin, TableKeys, TableOrder,
    TableReverse,
};
pub use live::{LivePiece, LivePlace};
pub use rows::{Rows, Tail};
pub use sequence::unknown_sequence;
pub use snapshot::{Definitions, Snapshot};
pub use table::{TableData, accept, unknown_column, unknown_table};
pub use text::check_text;
pub use transaction::{Changed, NewColumn, Savepoint, Transaction};
pub use verify::Verify;
