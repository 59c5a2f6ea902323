//! A server of this process, for the tests that go through sockets.

use hypostyle::client::{Address, Options};
use hypostyle::{Connection, Database, OpenOptions, Result};
use hypostyle_server::{Addresses, Limits, Listening, Server, Users, listen};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// What runs when a server stops has so long to end.
pub const STOP_TIME: Duration = Duration::from_secs(1);

pub struct Served {
    pub database: Database,
    listening: Option<Listening>,
    pub tcp: SocketAddr,
    pub http: SocketAddr,
    pub postgres: SocketAddr,
    pub unix: PathBuf,
    /// Goes last.
    pub directory: TempDir,
}

/// What makes a server another one than the usual.
#[derive(Default)]
pub struct Setup {
    pub on_disk: bool,
    pub users: Option<Users>,
    pub limits: Option<Limits>,
    pub certificate: Option<(String, String)>,
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
        let database = match setup.on_disk {
            true => Database::open(directory.path().join("t.hypo"), OpenOptions::default()),
            false => Database::in_memory(OpenOptions::default()),
        }
        .unwrap();
        let tls = setup.certificate.map(|(certificate, key)| {
            let paths = ["server.crt", "server.key"].map(|name| directory.path().join(name));
            std::fs::write(&paths[0], certificate).unwrap();
            std::fs::write(&paths[1], key).unwrap();
            hypostyle_server::server_config(&paths[0], &paths[1]).unwrap()
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
        Self { database, listening: Some(listening), tcp, http, postgres, unix, directory }
    }

    pub fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.stop();
        }
    }

    pub fn connect_tcp(&self) -> Result<Connection> {
        self.connect(&format!("hypostyle://{}/", self.tcp), true)
    }

    pub fn connect_unix(&self) -> Result<Connection> {
        self.connect(&format!("hypostyle+unix://{}", self.unix.display()), true)
    }

    /// On the Unix socket, without descriptors.
    pub fn connect_unix_for_chunks(&self) -> Result<Connection> {
        self.connect(&format!("hypostyle+unix://{}", self.unix.display()), false)
    }

    pub fn connect(&self, address: &str, descriptors: bool) -> Result<Connection> {
        Connection::to_server(&Address::parse(address)?, Options { descriptors, ..Options::default() })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}
