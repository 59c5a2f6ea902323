//! The ADBC driver: databases in this process and on a server, for all programs that use ADBC.
//!
//! It is a thin layer over the façade crate `hypostyle`. The files `database`, `connection` and
//! `statement` have what ADBC calls so, in terms of the traits of `adbc_core`. All unsafe code is in
//! `export`, the C side, and in `imported`, which takes Arrow data of the program's. Results are the
//! database's own Arrow arrays, passed on as they come. `bindings/c` is the shared library that
//! exports the entry points.

mod cancel;
mod column;
mod connection;
mod constraint;
mod database;
mod driver;
mod error;
mod export;
pub mod imported;
mod info;
mod ingest;
mod nested;
mod objects;
mod option;
mod partition;
mod pattern;
mod postgres;
mod query;
mod reader;
mod session;
mod statement;
mod statistics;

pub use connection::Connection;
pub use database::Database;
pub use driver::Driver;
pub use export::{AdbcDriverHypostyleInit, AdbcDriverInit};
pub use statement::Statement;
