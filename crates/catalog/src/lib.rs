//! Resolves names in a session, and provides the catalogs that it reads: the databases' own for the
//! planner, `information_schema` and `pg_catalog` for clients.
//!
//! The crate does not know how statements run.

#![forbid(unsafe_code)]

pub mod databases;
mod foreign;
pub mod given;
pub mod information_schema;
pub mod kept;
pub mod measures;
mod of_cluster;
pub mod origin;
pub mod pg_catalog;
pub mod planning_error;
pub mod portable;
pub mod primary_key;
pub mod scope;
pub mod sequence;
pub mod sequence_default;
