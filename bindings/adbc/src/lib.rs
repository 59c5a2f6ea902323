//! The ADBC driver: databases in this process and on a server for everything that speaks ADBC.
//!
//! A thin layer over the façade crate `hypostyle`: what ADBC calls a database, a connection and a statement is kept in the file of that
//! name, in terms of the traits of `adbc_core`; `export` is the C side, and has all that is unsafe. Results are the database's own
//! Arrow arrays, handed on as they come.

mod cancel;
mod column;
mod connection;
mod constraint;
mod database;
mod driver;
mod error;
mod export;
mod info;
mod ingest;
mod nested;
mod objects;
mod option;
mod parameters;
mod pattern;
mod query;
mod reader;
mod session;
mod statement;
mod statistics;

/// Statements are held to what this driver has allocated.
#[global_allocator]
static ALLOCATOR: hypostyle_memory::Counting = hypostyle_memory::Counting;

pub use connection::Connection;
pub use database::Database;
pub use driver::Driver;
pub use export::{AdbcDriverHypostyleInit, AdbcDriverInit};
pub use statement::Statement;
