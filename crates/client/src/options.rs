//! What a program says of its connections, appends and waits.

use crate::progress::Progress;
use crate::traffic::Traffic;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use hypostyle_types::Result;
use std::sync::Arc;
use std::time::Duration;

const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Asked about every 50 ms during a wait; `false` interrupts the statement.
pub type Hook = Arc<dyn Fn(&Progress) -> bool + Send + Sync>;

/// Rows that the program has under a name.
#[derive(Clone, Debug)]
pub struct Table {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// Asked for names that no table of the server has.
pub type Resolver = Arc<dyn Fn(&str) -> Option<Result<Table>> + Send + Sync>;

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name and version of the program, for the server's lists and logs.
    pub client: String,
    /// Take descriptors where the server is on this machine.
    pub descriptors: bool,
    /// The time for connecting, from the first packet to the end of the login.
    pub connect_time: Duration,
    /// A server that sends nothing for so long while its answer is awaited, or takes nothing for so
    /// long, is given up as unreachable, and a connection that breaks is not resumed. A server is
    /// bound to send something every two seconds during calls only.
    pub silence: Option<Duration>,
    /// Counts what the connection carries, together with others that have the same.
    pub traffic: Arc<Traffic>,
}

impl Default for Options {
    fn default() -> Self {
        let client = format!("hypostyle {}", env!("CARGO_PKG_VERSION"));
        Self { client, descriptors: true, connect_time: CONNECT_TIME, silence: None, traffic: Arc::default() }
    }
}

/// How an append treats its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendOptions {
    /// Create the table from the data's schema when it does not exist.
    pub create: bool,
    /// Match columns by name, and give missing ones their default; else by position.
    pub by_name: bool,
}
