//! Databases of other systems as tables of ours: what a query asks of them, in their own SQL.
//!
//! The only such system is PostgreSQL. This crate writes its SQL and holds its snapshots, and speaks
//! no protocol: the program around the engine gives a [`Dialer`], whose connections do. A statement
//! reads all tables of a database in one snapshot ([`Reading`]). A [`ForeignTable`] asks for the
//! columns and the rows that the query needs, by several connections where the table is large.

#![forbid(unsafe_code)]

mod attached;
mod column;
mod connections;
mod database;
mod filter;
mod literal;
mod reading;
mod relation;
mod scan;
mod server;
mod table;
#[cfg(test)]
mod tests;

pub use attached::AttachedDatabase;
pub use connections::ForeignConnections;
pub use database::ForeignDatabase;
pub use reading::Reading;
pub use relation::Name;
pub use server::{Connection, Dialer, Rows, Wanted};
pub use table::ForeignTable;
