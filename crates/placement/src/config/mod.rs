//! The file `cluster.toml`: what a node has to know before it knows the cluster.

mod file;
mod text;

pub use file::{Config, Peer, Tls, check_address};
