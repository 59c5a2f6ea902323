//! The server: sockets, sessions, authentication, and two protocols, our own (docs/protocol.md) and
//! PostgreSQL's.

#![forbid(unsafe_code)]

mod accept;
mod arrivals;
mod attempts;
mod http;
mod listen;
mod metrics;
mod of_cluster;
mod pgwire;
mod resume;
mod server;
mod session;
mod shared;
mod shown;
mod tls;
mod users;

pub use hypostyle_wire::Role;
pub use listen::{Addresses, Listening, listen};
pub use server::{Identity, Limits, NODES_USER, RESULT_CODEC, Server};
pub use tls::Tls;
pub use users::{User, Users};
