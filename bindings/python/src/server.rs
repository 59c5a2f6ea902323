//! A server in the Python process, which serves an open database to others.

use crate::error::{invalid_input, to_exception};
use crate::inherited::Owned;
use hypostyle::Database;
use hypostyle_server::{Addresses, Limits, Listening, Users, listen};
use hypostyle_sync::Mutex;
use pyo3::prelude::*;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// A served database; the server stops when it is dropped.
#[pyclass(frozen, module = "hypostyle._native")]
pub struct Server {
    listening: Owned<Mutex<Option<Listening>>>,
    addresses: Vec<String>,
}

pub fn serve(
    py: Python<'_>,
    database: &Database,
    tcp: Option<String>,
    unix: Option<PathBuf>,
    users: Option<PathBuf>,
) -> PyResult<Server> {
    let tcp = tcp.map(|address| resolve(py, &address)).transpose()?;
    if tcp.is_none() && unix.is_none() {
        return Err(invalid_input(py, "give listen=\"host:port\", unix=\"path\", or both"));
    }
    let start = || {
        let users = users.as_deref().map(Users::read).transpose()?;
        let server = hypostyle_server::Server::new(database.clone(), users, Limits::default(), None)?;
        listen(&server, &Addresses { tcp, unix: unix.clone(), ..Addresses::default() })
    };
    let listening = py.detach(start).map_err(|error| to_exception(py, error))?;
    let mut addresses = Vec::new();
    addresses.extend(listening.tcp.map(|address| format!("hypostyle://{address}/")));
    addresses.extend(unix.map(|path| format!("hypostyle+unix://{}", path.display())));
    Ok(Server { listening: Owned::new(Mutex::new(Some(listening))), addresses })
}

fn resolve(py: Python<'_>, address: &str) -> PyResult<SocketAddr> {
    let found = address.to_socket_addrs().map_err(|error| error.to_string());
    found
        .and_then(|mut found| found.next().ok_or_else(|| "no such host".into()))
        .map_err(|error| invalid_input(py, format!("listen is \"host:port\", not \"{address}\" ({error})")))
}

#[pymethods]
impl Server {
    /// Returns the addresses at which clients connect.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    /// Ends all sessions, and waits for their end. A child of `fork()` has none.
    fn stop(&self, py: Python<'_>) {
        if self.listening.is_inherited() {
            return;
        }
        if let Some(listening) = self.listening.lock().take() {
            py.detach(|| listening.stop());
        }
    }
}
