//! The server: sockets, sessions, authentication, and two protocols, our own (docs/protocol.md) and PostgreSQL's.

#![forbid(unsafe_code)]

mod pgwire;
mod server;
mod users;

pub use server::{Identity, Limits, Server};
pub use users::{User, Users};
