//! What all connections of a server share.

use crate::pgwire::cancel::Cancels;
use crate::users::Users;
use hypostyle::{Connection, Database, Result};
use hypostyle_wire::Role;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;

/// What a client may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, of all protocols together.
    pub clients: usize,
    /// A statement that runs longer is interrupted.
    pub statement_time: Option<Duration>,
    /// A session that says nothing for so long is ended.
    pub idle_time: Option<Duration>,
    /// Bytes that the operators of one statement may hold.
    pub query_memory: Option<u64>,
}

/// Who a session belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub role: Role,
    /// Name and version of the client's program.
    pub client: String,
    /// Address of the peer, or its process where it is on this machine.
    pub peer: String,
}

/// A server's database and the rules of its use.
pub struct Server {
    pub(crate) database: Database,
    /// `None`: whoever can connect may do everything.
    pub(crate) users: RwLock<Option<Users>>,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// The sessions of PostgreSQL's clients, who may interrupt them.
    pub(crate) cancels: Cancels,
}

impl Server {
    pub fn new(
        database: Database,
        users: Option<Users>,
        limits: Limits,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Arc<Self> {
        Arc::new(Self { database, users: RwLock::new(users), limits, tls, cancels: Cancels::default() })
    }

    /// Opens a session for somebody who has been let in.
    pub(crate) fn open(&self, identity: &Identity) -> Result<Connection> {
        let _ = identity;
        self.database.connect()
    }
}
