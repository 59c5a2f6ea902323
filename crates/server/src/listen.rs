//! Sockets that clients come to, and the end of it all.

use crate::accept::{ACCEPT_INTERVAL, STACK_BYTES};
use crate::arrivals::Peer;
use crate::http;
use crate::server::Server;
use crate::session;
use crate::shown::Shown;
use hypostyle_transport::{Pool, Socket, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::Permissions;
use std::io::ErrorKind as IoErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The time between two looks whether all sessions have ended.
const STOP_INTERVAL: Duration = Duration::from_millis(2);

/// What was interrupted has so long to say so.
const END_TIME: Duration = Duration::from_secs(2);

/// Where to listen.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    pub tcp: Option<SocketAddr>,
    pub unix: Option<PathBuf>,
    /// Permissions of the Unix socket, of which those to write let connect; else what the process's
    /// mask leaves.
    pub unix_mode: Option<u32>,
    /// The address for PostgreSQL's clients.
    pub postgres: Option<SocketAddr>,
    /// The address for `/metrics` and `/health`.
    pub http: Option<SocketAddr>,
}

/// A server that accepts clients until it is stopped.
pub struct Listening {
    server: Arc<Server>,
    accepting: Vec<JoinHandle<()>>,
    /// The addresses that were bound, also where port 0 was asked for.
    pub tcp: Option<SocketAddr>,
    pub postgres: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
    _socket_file: Option<SocketFile>,
    /// The runtime of the protocols whose sockets are served asynchronously, if there are any.
    runtime: Option<Runtime>,
}

/// Removed when the server ends.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// Opens the sockets and serves who comes.
///
/// # Errors
/// `Denied` when whoever reaches an address could do everything; `Busy` when it is taken; `Io`.
pub fn listen(server: &Arc<Server>, addresses: &Addresses) -> Result<Listening> {
    for address in [addresses.tcp, addresses.postgres].into_iter().flatten() {
        server.check_address(address)?;
    }
    warn_of_what_is_open(server, addresses);
    let pool = Pool::new()?;
    let mut listeners = Vec::new();
    let mut tcp = None;
    if let Some(address) = addresses.tcp {
        let listener = bind(address)?;
        tcp = listener.local_addr().ok();
        listeners.push(Listener::Tcp(listener));
    }
    let mut socket_file = None;
    if let Some(path) = &addresses.unix {
        listeners.push(Listener::Unix(bind_unix(path, addresses.unix_mode)?));
        socket_file = Some(SocketFile(path.clone()));
    }
    let is_asynchronous = addresses.postgres.is_some() || addresses.http.is_some();
    let runtime = is_asynchronous.then(runtime).transpose()?;
    let (postgres, http) = if let Some(runtime) = &runtime {
        let _entered = runtime.enter();
        let postgres = addresses.postgres.map(bind_async).transpose()?;
        let http = addresses.http.map(bind_async).transpose()?;
        let bound = |listener: &Option<tokio::net::TcpListener>| listener.as_ref()?.local_addr().ok();
        let addresses = (bound(&postgres), bound(&http));
        if let Some(listener) = postgres {
            runtime.spawn(server.clone().serve_postgres(listener));
        }
        if let Some(listener) = http {
            runtime.spawn(http::serve(server.clone(), listener));
        }
        addresses
    } else {
        (None, None)
    };
    let mut accepting = Vec::new();
    for listener in listeners {
        let (server, pool) = (server.clone(), pool.clone());
        accepting.push(thread("hypostyle-accept", move || accept(&server, &pool, &listener))?);
    }
    let server = server.clone();
    Ok(Listening { server, accepting, tcp, postgres, http, _socket_file: socket_file, runtime })
}

impl Listening {
    /// Stops accepting, and waits for the sessions, as long as the limits say.
    pub fn stop(self) {
        self.server.stop();
        for thread in self.accepting {
            // A thread that panicked has said so.
            let _panicked = thread.join();
        }
        let deadline = Instant::now() + self.server.limits.stop_time + END_TIME;
        while self.server.sessions() > 0 && Instant::now() < deadline {
            std::thread::sleep(STOP_INTERVAL);
        }
        self.runtime.into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Says what others can do who reach the server's sockets, where that may not be meant.
fn warn_of_what_is_open(server: &Server, addresses: &Addresses) {
    let has_users = server.users.read().is_some();
    for address in [addresses.tcp, addresses.postgres].into_iter().flatten() {
        if !address.ip().is_loopback() && server.tls().is_none() {
            tracing::warn!(
                %address,
                "what goes over the network is not encrypted; give --tls-cert FILE and --tls-key FILE"
            );
        }
        if !has_users {
            tracing::warn!(
                %address,
                "there are no users: whoever has a process on this machine may do everything; give --users FILE"
            );
        }
    }
    if let Some(path) = addresses.unix.as_ref().filter(|_| !has_users)
        && addresses.unix_mode.is_some_and(|mode| mode & 0o002 != 0)
    {
        let path = path.display();
        tracing::warn!(
            %path,
            "there are no users: every user of this machine may do everything; give --users FILE, or --unix-mode 660"
        );
    }
    if let Some(address) = addresses.http.filter(|address| !address.ip().is_loopback()) {
        tracing::warn!(%address, "whoever reaches this address sees how much the server has to do");
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Listener {
    fn accept(&self) -> std::io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                Socket::tcp(stream).map_err(std::io::Error::other)
            }
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

fn accept(server: &Arc<Server>, pool: &Arc<Pool>, listener: &Listener) {
    while !server.is_stopping() {
        let stopped = PollFd::new(&server.stopped, PollFlags::IN);
        if poll(&mut [PollFd::new(listener, PollFlags::IN), stopped], None).is_err() {
            continue;
        }
        match listener.accept() {
            Ok(socket) => welcome(server, pool, socket),
            Err(error) if error.kind() == IoErrorKind::WouldBlock => {}
            Err(error) => {
                // No descriptors are left, mostly; those who are here will go.
                tracing::error!(%error, "a client could not be accepted");
                std::thread::sleep(ACCEPT_INTERVAL);
            }
        }
    }
}

fn welcome(server: &Arc<Server>, pool: &Arc<Pool>, socket: Socket) {
    let peer = match &socket {
        Socket::Tcp(stream) => {
            stream.peer_addr().map_or(Peer::User(None), |peer| Peer::of_address(peer.ip()))
        }
        Socket::Unix(_) => Peer::User(socket.peer_user()),
    };
    let Some(arrival) = server.arrive(&server.arriving, peer) else {
        let error = Error::new(ErrorKind::Busy, "too many clients come at a time; try again later")
            .with_sqlstate("53300");
        let transaction = wire::Transaction::None;
        let frame = wire::Failure { query: 0, error, fatal: true, transaction }.frame();
        // Fits into the buffer of a new socket: nobody is waited for.
        let _gone = Transport::new(socket).send(&frame, &mut || Err(Error::internal("a new socket is full")));
        return;
    };
    let (server, pool) = (server.clone(), pool.clone());
    let serve = move || {
        if let Err(error) = session::serve(&server, &pool, socket, arrival) {
            tracing::warn!(error = %Shown(&error), "a connection broke off");
        }
    };
    if let Err(error) = thread("hypostyle-session", serve) {
        tracing::error!(%error, "a client could not be served");
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map_err(|error| Error::from_io(&error, "cannot start a thread"))
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let bind = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(|error| cannot_listen(&error, &address.to_string()))
}

fn bind_unix(path: &Path, mode: Option<u32>) -> Result<UnixListener> {
    let bind = || {
        let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
        // What a server that was killed has left behind.
        if is_socket && UnixStream::connect(path).is_err() {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        if let Some(mode) = mode {
            std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(|error| cannot_listen(&error, &path.display().to_string()))
}

fn cannot_listen(error: &std::io::Error, address: &str) -> Error {
    if error.kind() == IoErrorKind::AddrInUse {
        return Error::new(ErrorKind::Busy, format!("{address} is in use; another server may run"));
    }
    Error::from_io(error, format_args!("cannot listen on {address}"))
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("hypostyle-network")
        .enable_all()
        .build()
        .map_err(|error| Error::from_io(&error, "cannot start the network's threads"))
}

fn bind_async(address: SocketAddr) -> Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(bind(address)?)
        .map_err(|error| cannot_listen(&error, &address.to_string()))
}
