//! A server in this process, for the tests that use sockets.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use hypostyle::client::{Address, Options};
use hypostyle::{Connection, Database, OpenOptions, Result};
use hypostyle_server::{Addresses, Limits, Listening, Server, Tls, Users, listen};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time that running statements have to end when a server stops.
pub const STOP_TIME: Duration = Duration::from_secs(1);

/// The limit for operations that take milliseconds on an idle machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub struct Served {
    pub database: Database,
    server: Weak<Server>,
    listening: Option<Listening>,
    pub tcp: SocketAddr,
    pub http: SocketAddr,
    pub postgres: SocketAddr,
    pub unix: PathBuf,
    /// The directory, which is dropped last.
    pub directory: TempDir,
}

/// The options that differ from those of the usual server.
#[derive(Default)]
pub struct Setup {
    pub on_disk: bool,
    /// The database, if it is there already.
    pub database: Option<Database>,
    pub users: Option<Users>,
    pub limits: Option<Limits>,
    pub certificate: Option<(String, String)>,
    /// The authority that signs the clients' certificates.
    pub client_authority: Option<String>,
    /// The authority that signs those of other nodes, which have to show them.
    pub node_authority: Option<String>,
}

impl Served {
    pub fn in_memory() -> Self {
        Self::new(Setup::default())
    }

    pub fn on_disk() -> Self {
        Self::new(Setup { on_disk: true, ..Setup::default() })
    }

    pub fn new(setup: Setup) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = match (setup.database, setup.on_disk) {
            (Some(database), _) => Ok(database),
            (None, true) => Database::open(directory.path().join("t.hypo"), OpenOptions::default()),
            (None, false) => Database::in_memory(OpenOptions::default()),
        }
        .unwrap();
        let written = |name: &str, certificate: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, certificate).unwrap();
            path
        };
        let clients = setup.client_authority.map(|certificate| written("clients.crt", certificate));
        let nodes = setup.node_authority.map(|certificate| written("nodes.crt", certificate));
        let tls = setup.certificate.map(|(certificate, key)| {
            let paths = ["server.crt", "server.key"].map(|name| directory.path().join(name));
            std::fs::write(&paths[0], certificate).unwrap();
            std::fs::write(&paths[1], key).unwrap();
            Tls::of_node(&paths[0], &paths[1], clients.as_deref(), nodes.as_deref()).unwrap()
        });
        let limits = setup.limits.unwrap_or(Limits { stop_time: STOP_TIME, ..Limits::default() });
        let server = Server::new(database.clone(), setup.users, limits, tls).unwrap();
        let unix = directory.path().join("socket");
        let any_port: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let addresses = Addresses {
            tcp: Some(any_port),
            unix: Some(unix.clone()),
            unix_mode: None,
            http: Some(any_port),
            postgres: Some(any_port),
        };
        let listening = listen(&server, &addresses).unwrap();
        let (tcp, http) = (listening.tcp.unwrap(), listening.http.unwrap());
        let postgres = listening.postgres.unwrap();
        let server = Arc::downgrade(&server);
        Self { database, server, listening: Some(listening), tcp, http, postgres, unix, directory }
    }

    pub fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.stop();
        }
    }

    /// Lets no new clients in.
    pub fn drain(&self) {
        self.server.upgrade().unwrap().drain();
    }

    /// Has the node of the database let clients in by the server.
    pub fn give_door(&self) {
        self.database.node().unwrap().set_door(self.server.upgrade().unwrap().door());
    }

    /// Lets other nodes in by any of some passwords, or by their certificates alone.
    pub fn admit_nodes(&self, passwords: &[&str], certificate_suffices: bool) {
        let server = self.server.upgrade().unwrap();
        server.admit_nodes(passwords.iter().copied(), certificate_suffices).unwrap();
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.server.upgrade().map_or(0, |server| server.sessions())
    }

    /// Returns the number of connections that the server has not closed; TCP only.
    pub fn sockets(&self) -> usize {
        let ports = [self.tcp, self.postgres, self.http].map(|address| address.port());
        let text = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let of_server = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = fields[1].rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
            // Listening and orphaned sockets are not counted.
            port.is_some_and(|port| ports.contains(&port)) && fields[3] != "0A" && fields[9] != "0"
        };
        text.lines().skip(1).filter(of_server).count()
    }

    /// Returns how many statements run that have these words.
    pub fn running(&self, words: &str) -> usize {
        let connection = self.database.connect().unwrap();
        let shown = connection.execute("SHOW SESSIONS").unwrap().record_batches().unwrap();
        let of_batch = shown.iter().map(|batch| {
            let text = |name| cast(batch.column_by_name(name).unwrap(), &DataType::Utf8).unwrap();
            let (states, statements) = (text("state"), text("statement"));
            let sessions = states.as_string::<i32>().iter().zip(statements.as_string::<i32>());
            sessions
                .filter(|(state, statement)| {
                    *state == Some("active") && statement.is_some_and(|statement| statement.contains(words))
                })
                .count()
        });
        of_batch.sum()
    }

    /// Waits until a statement runs that has these words.
    pub fn await_statement(&self, words: &str) {
        until("the statement does not run", || self.running(words) > 0);
    }

    /// Waits until nothing of any client is left.
    pub fn await_nobody(&self) {
        until("clients have left something behind", || self.sessions() == 0 && self.sockets() == 0);
    }

    pub fn connect_tcp(&self) -> Result<Connection> {
        self.connect(&format!("hypostyle://{}/", self.tcp), true)
    }

    pub fn connect_unix(&self) -> Result<Connection> {
        self.connect(&format!("hypostyle+unix://{}", self.unix.display()), true)
    }

    /// Connects to the Unix socket, without descriptors.
    pub fn connect_unix_for_chunks(&self) -> Result<Connection> {
        self.connect(&format!("hypostyle+unix://{}", self.unix.display()), false)
    }

    pub fn connect(&self, address: &str, descriptors: bool) -> Result<Connection> {
        Connection::to_server(&Address::parse(address)?, Options { descriptors, ..Options::default() })
    }
}

/// Waits for a condition.
pub fn until(otherwise: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "{otherwise}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Checks after every test with a server that no thread or task of it is left: each of them has the
/// server, and ends with what it has open.
impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        if thread::panicking() {
            return;
        }
        until("a session's thread or task has not ended", || self.server.strong_count() == 0);
        until("a connection was not closed", || self.sockets() == 0);
    }
}
