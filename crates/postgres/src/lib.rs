//! A client for any PostgreSQL: statements to a server, results from it as Arrow arrays.
//!
//! This crate links neither libpq nor a query engine. Calls block, and handles may be used from any
//! thread, one statement at a time. Rows come by COPY in binary where that is possible, and by the
//! extended protocol elsewhere, and are decoded into batches of bounded size while they come.

#![forbid(unsafe_code)]
// Bytes come from outside: whatever they are is an error at worst.
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod address;
mod append;
mod cancel;
mod columns;
mod connection;
mod decode;
mod describe;
mod encode;
mod failure;
mod incoming;
mod link;
mod login;
mod md5;
mod message;
mod nested;
mod options;
mod query;
mod result;
mod statement;
mod stream;
mod tls;
mod types;

pub use address::{
    Address, ChannelBinding, Environment, Host, KeepAlive, Method, Methods, Numeric, Place, Roots, Target,
    Tls, TlsMode, Transfer,
};
pub use connection::Connection;
pub use failure::Notice;
pub use hypostyle_client::{
    AppendOptions, Description, Gives, Hook, Meter, Progress, Running, TableEntry, Transaction,
};
pub use options::Options;
pub use result::QueryResult;
pub use types::TYPE_KEY;

use hypostyle_types::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};

/// Returns random bytes.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::internal("the system gives no random bytes"))?;
    Ok(bytes)
}
