//! The embedded analytical database.
//!
//! ```
//! # fn main() -> hypostyle::Result<()> {
//! let database = hypostyle::Database::in_memory(hypostyle::OpenOptions::default())?;
//! let connection = database.connect()?;
//! connection.execute("CREATE TABLE t AS SELECT 1 AS a")?;
//! assert_eq!(connection.execute("SELECT * FROM t")?.row_count()?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! The crate is a façade over `hypostyle-engine`. It blocks, has one error type, and has no global
//! state. A process may open many databases, and every handle may be used from any thread.

#![forbid(unsafe_code)]

mod appender;
mod arrow_structs;
mod attached;
mod bound;
mod cancel;
mod connection;
mod database;
mod driver_session;
mod embedded;
mod foreign;
mod placeholder;
mod remote;
mod result;
mod server_address;
mod statement;
mod values;

pub use appender::{AppendValue, Appender};
pub use arrow;
pub use arrow_structs::{
    check_arrow_array, check_arrow_buffers, check_arrow_schema, export_arrow_stream, sound_arrow_rows,
};
pub use cancel::{CancelMark, RunningCalls};
pub use connection::{
    AppendOptions, CallAnswer, ColumnDescription, Connection, PollHook, StatementDescription,
    TableDescription, TableKind,
};
pub use database::{Database, OpenOptions};
pub use datafusion::common::ScalarValue;
pub use driver_session::{DriverSession, caught, panicked};
pub use hypostyle_client as client;
pub use hypostyle_client::Progress;
pub use hypostyle_cluster as cluster;
pub use hypostyle_engine::kind::StatementKind;
pub use hypostyle_engine::{
    ExternalTable, Held, Identity, Meaning, Parameters, Poll, Privileges, SettingCheck, StoredPieces,
    TableResolver, TakeMemory, Transfer, TransferTrial, interval_texts, parse_bytes, split_statements,
    statement_is_complete, texts_of_far_years,
};
pub use hypostyle_engine::{is_own_setting, kind, lexer, postgres, tpch};
pub use hypostyle_storage::{BufferFile, DictionaryFiles, LivePlace, NodeFiles, Patience, Verify};
pub use hypostyle_types::{Error, ErrorKind, LogicalType, Result, StructField, TimeUnit, calendar};
pub use result::{QueryResult, StoredFiles};
pub use server_address::ServerAddress;
pub use statement::{Executed, Statement, StatementParameter, StatementRows};
pub use values::{ColumnBound, ColumnStatistics, ColumnValues};

/// What [`Database::set_calls`] takes: the node of a cluster, in terms of the engine.
pub mod node {
    pub use hypostyle_engine::{CallAnswer, Calls, Outcome, Session};
}
