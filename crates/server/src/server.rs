//! What all connections of a server share.

use crate::arrivals::{Arrival, Arrivals, Peer};
use crate::attempts::Attempts;
use crate::metrics::Metrics;
use crate::pgwire::cancel::Cancels;
use crate::resume::Resumable;
use crate::shared::Shared;
use crate::shown::{Shown, program};
use crate::tls::Tls;
use crate::users::{SALT_BYTES, Users, random};
use hypostyle::{Connection, Database, Privileges};
use hypostyle_auth::scram::ITERATIONS;
use hypostyle_auth::scram::{self, Verifier};
use hypostyle_sync::{Mutex, RwLock};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::{Capabilities, Codec, Role};
use rustix::event::EventfdFlags;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The setting of a session that forces a codec.
pub const RESULT_CODEC: &str = "result_codec";

const KEY_BYTES: usize = 16;

/// The time for everything up to the end of the authentication, and for the first byte of it.
pub(crate) const LOGIN_TIME: Duration = Duration::from_secs(10);
pub(crate) const FIRST_BYTE_TIME: Duration = Duration::from_secs(3);

/// The time before the answer to a wrong password.
pub(crate) const REFUSAL_TIME: Duration = Duration::from_millis(250);

/// Where it is logged who was let in, and who was not.
const AUDIT: &str = "audit";

/// The user that other nodes of the cluster are.
pub const NODES_USER: &str = "cluster";

/// Longer names of users are refused.
const USER_BYTES_MAX: usize = 256;

/// What clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, of all protocols together. Other nodes of the cluster have as many beside them.
    pub clients: usize,
    /// The most clients of one address, or of one user of this machine.
    pub clients_of_peer: Option<usize>,
    /// A statement that runs longer is interrupted.
    pub statement_time: Option<Duration>,
    /// A session that says nothing for so long is ended.
    pub idle_time: Option<Duration>,
    /// The same of one that has a transaction open.
    pub idle_transaction_time: Option<Duration>,
    /// A session whose client has begun a message, and sends nothing more of it for so long, is ended.
    pub message_time: Duration,
    /// What runs when the server is told to stop has so long to end before it is interrupted.
    pub stop_time: Duration,
    /// A session whose TCP connection broke is kept for so long; zero turns resuming off.
    pub resume_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 256,
            clients_of_peer: None,
            statement_time: None,
            idle_time: None,
            idle_transaction_time: None,
            message_time: Duration::from_secs(60),
            stop_time: Duration::from_secs(10),
            resume_time: Duration::from_secs(30),
        }
    }
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

impl Identity {
    /// What a client says of itself has its place in lists and logs.
    pub(crate) fn new(user: String, role: Role, client: &str, peer: String) -> Self {
        Self { user, role, client: program(client), peer }
    }

    /// Says whether it is another node of the cluster.
    pub(crate) fn is_of_node(&self) -> bool {
        self.role == Role::Cluster || self.user == NODES_USER
    }
}

/// A user's name as a client has said it, on one line: no user has one with anything else in it.
///
/// # Errors
/// `28000` for one that is too long for any user.
pub(crate) fn user_name(said: &str) -> Result<String> {
    match said.len() <= USER_BYTES_MAX {
        true => Ok(Shown(said).to_string()),
        false => {
            let message = format!("a user's name has at most {USER_BYTES_MAX} bytes");
            Err(Error::new(ErrorKind::Denied, message).with_sqlstate("28000"))
        }
    }
}

/// A client that was let in.
pub(crate) struct Guest {
    pub identity: Identity,
    pub connection: Connection,
    pub capabilities: Capabilities,
    pub codecs: u32,
    pub frame_bytes_max: u32,
    pub session: u64,
    pub key: Vec<u8>,
    /// The client is on this machine, and nothing forwards the connection.
    pub is_direct: bool,
    /// The client's process is one that may open the database's files itself: they show more than
    /// what is committed and not deleted.
    pub may_open_files: bool,
    pub _place: Place,
}

/// A server's database and the rules of its use.
pub struct Server {
    pub(crate) database: Database,
    /// `None`: whoever can connect may do everything.
    pub(crate) users: RwLock<Option<Users>>,
    /// What the password of other nodes of the cluster is checked with.
    nodes: OnceLock<OfNodes>,
    pub(crate) limits: Limits,
    tls: RwLock<Option<Tls>>,
    pub(crate) metrics: Metrics,
    /// Whether the database answers, and whether the next node may be ended.
    pub(crate) health: Shared,
    pub(crate) in_sync: Shared,
    /// The sessions of clients, and of other nodes of the cluster, which keep their connections for the next
    /// request: neither keep the others out.
    open: AtomicUsize,
    open_of_nodes: AtomicUsize,
    open_of_peers: Mutex<HashMap<Peer, usize>>,
    /// The arrivals of our own clients, and of PostgreSQL's: neither keep the others out.
    pub(crate) arriving: Arrivals,
    pub(crate) postgres_arriving: Arrivals,
    /// Connections to `/metrics` and `/health`.
    pub(crate) http_arriving: Arrivals,
    /// A client has found no place.
    crowded: AtomicBool,
    /// No new clients are let in.
    draining: AtomicBool,
    stopping: OnceLock<Instant>,
    /// Readable once the server stops, for threads that wait for sockets.
    pub(crate) stopped: OwnedFd,
    /// Passwords that were wrong.
    pub(crate) attempts: Attempts,
    /// The sessions of PostgreSQL's clients, who may interrupt them.
    pub(crate) cancels: Cancels,
    /// The sessions of our own clients, who may come back to them.
    pub(crate) resumable: Resumable,
}

/// What the passwords of other nodes are checked with.
struct OfNodes {
    /// There are several while one is changed.
    passwords: Vec<Verifier>,
    /// What one without a password is checked with, if its certificate is enough.
    without: Option<Verifier>,
}

/// A place among the clients or among the other nodes, given back when it is dropped.
pub(crate) struct Place {
    server: Arc<Server>,
    peer: Peer,
    is_of_node: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_of_node {
            let mut of_peers = self.server.open_of_peers.lock();
            if let Some(open) = of_peers.get_mut(&self.peer) {
                *open -= 1;
                if *open == 0 {
                    of_peers.remove(&self.peer);
                }
            }
        }
        self.server.taken(self.is_of_node).fetch_sub(1, Ordering::AcqRel);
        self.server.metrics.sessions(self.is_of_node).dec();
    }
}

impl Server {
    pub fn new(
        database: Database,
        users: Option<Users>,
        limits: Limits,
        tls: Option<Tls>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            metrics: Metrics::new(database.clone()),
            database,
            users: RwLock::new(users),
            nodes: OnceLock::new(),
            limits,
            tls: RwLock::new(tls),
            health: Shared::default(),
            in_sync: Shared::default(),
            open: AtomicUsize::new(0),
            open_of_nodes: AtomicUsize::new(0),
            open_of_peers: Mutex::default(),
            arriving: Arrivals::default(),
            postgres_arriving: Arrivals::default(),
            http_arriving: Arrivals::default(),
            crowded: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            stopping: OnceLock::new(),
            stopped: rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
                .map_err(|error| Error::from_io(&error.into(), "cannot start a server"))?,
            attempts: Attempts::default(),
            cancels: Cancels::default(),
            resumable: Resumable::default(),
        }))
    }

    /// Lets other nodes of the cluster call this one, as the user `cluster` with any of these passwords:
    /// there are several while one is changed. While they get their first one, or give it up, those that have
    /// shown the certificate of a node need none.
    ///
    /// # Errors
    /// `Internal` the second time, and without chance.
    pub fn admit_nodes<'a>(
        &self,
        passwords: impl IntoIterator<Item = &'a str>,
        certificate_suffices: bool,
    ) -> Result<()> {
        let salt = random(SALT_BYTES)?;
        let verifier = |password: &str| Verifier::new(password, salt.clone(), ITERATIONS);
        let passwords = passwords.into_iter().map(verifier).collect();
        let without = certificate_suffices.then(|| verifier(""));
        self.nodes
            .set(OfNodes { passwords, without })
            .map_err(|_| Error::internal("other nodes are admitted already"))
    }

    /// Says whether other nodes have a password; else their certificates say who they are, if they have to
    /// show some.
    pub(crate) fn nodes_have_a_password(&self) -> bool {
        self.nodes.get().is_some_and(|nodes| !nodes.passwords.is_empty())
    }

    /// Returns what the further passwords of a user are checked with, beside [`Self::credentials`], and what
    /// none is, of somebody who has shown the certificate of a node.
    pub(crate) fn further_credentials(&self, user: &str, is_node: bool) -> impl Iterator<Item = &Verifier> {
        let nodes = self.nodes.get().filter(|_| user == NODES_USER);
        let without = nodes.and_then(|nodes| nodes.without.as_ref()).filter(|_| is_node);
        nodes.into_iter().flat_map(|nodes| nodes.passwords.iter().skip(1)).chain(without)
    }

    /// Other users from now on; sessions that are open stay.
    pub fn set_users(&self, users: Users) {
        *self.users.write() = Some(users);
    }

    /// Another certificate for who connects from now on.
    pub fn set_tls(&self, tls: Tls) {
        *self.tls.write() = Some(tls);
    }

    /// What clients have to encrypt with.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.read().clone()
    }

    /// Lets no new clients in, ends those that are idle outside a transaction, and is not ready any more.
    /// Other nodes of the cluster are answered as before.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Says whether the server lets no new clients in, because it drains or stops.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.is_stopping()
    }

    /// Says whether the session of a client is to end between statements.
    pub(crate) fn is_over(&self, is_in_transaction: bool) -> bool {
        self.is_stopping() || (self.is_draining() && !is_in_transaction)
    }

    /// Lets nobody in any more, and ends who is idle; what runs has as long as the limits say.
    pub fn stop(&self) {
        let _first = self.stopping.set(Instant::now());
        // The counter of an event never is full of ones.
        let _woken = rustix::io::write(&self.stopped, &1_u64.to_ne_bytes());
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get().is_some()
    }

    /// Whether what runs has had its time to end.
    pub(crate) fn must_end(&self) -> bool {
        self.stopping.get().is_some_and(|since| since.elapsed() > self.limits.stop_time)
    }

    /// # Errors
    /// `Denied` when anybody in the network could do everything.
    pub(crate) fn check_address(&self, address: SocketAddr) -> Result<()> {
        if self.users.read().is_none() && !address.ip().is_loopback() {
            return Err(Error::new(
                ErrorKind::Denied,
                format!(
                    "{address} can be reached from the network, and there are no users; give --users FILE"
                ),
            ));
        }
        Ok(())
    }

    /// A connection that has to say who it is; `None` when too many are doing that.
    pub(crate) fn arrive(&self, arrivals: &Arrivals, peer: Peer) -> Option<Arrival> {
        let arrival = arrivals.begin(peer);
        if arrival.is_none() {
            self.metrics.refused.inc();
        }
        arrival
    }

    /// The places that are taken by clients, or by other nodes.
    fn taken(&self, is_of_node: bool) -> &AtomicUsize {
        if is_of_node { &self.open_of_nodes } else { &self.open }
    }

    /// A place for one more client, or for another node.
    ///
    /// # Errors
    /// `Busy` when all are taken.
    pub(crate) fn enter(self: &Arc<Self>, peer: Peer, is_of_node: bool) -> Result<Place> {
        let mut of_peers = self.open_of_peers.lock();
        let of_peer = of_peers.get(&peer).copied().unwrap_or(0);
        if let Some(limit) = self.limits.clients_of_peer.filter(|limit| !is_of_node && of_peer >= *limit) {
            let message =
                format!("all {limit} places for clients from one place are taken; close some connections");
            return Err(Error::new(ErrorKind::Busy, message).with_sqlstate("53300"));
        }
        let entered = self.taken(is_of_node).fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < self.limits.clients).then_some(open + 1)
        });
        match entered {
            Ok(_) => {
                self.metrics.accepted.inc();
                self.metrics.sessions(is_of_node).inc();
                if !is_of_node {
                    of_peers.insert(peer, of_peer + 1);
                }
                Ok(Place { server: self.clone(), peer, is_of_node })
            }
            Err(_) => {
                self.crowded.store(true, Ordering::Release);
                let (places, whose) =
                    (self.limits.clients, if is_of_node { "other nodes" } else { "clients" });
                let message = format!("all {places} places for {whose} are taken; try again later");
                Err(Error::new(ErrorKind::Busy, message).with_sqlstate("53300"))
            }
        }
    }

    /// Whether a client has found no place since the last one was given up for it.
    pub(crate) fn wants_place(&self) -> bool {
        self.crowded.swap(false, Ordering::AcqRel)
            && [&self.open, &self.open_of_nodes]
                .iter()
                .any(|open| open.load(Ordering::Acquire) >= self.limits.clients)
    }

    /// Sessions of clients that may be open at a time, and so many of other nodes.
    pub fn clients_max(&self) -> usize {
        self.limits.clients
    }

    /// Sessions of clients that are open now.
    pub(crate) fn clients(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Sessions that are open now.
    pub fn sessions(&self) -> usize {
        self.open.load(Ordering::Acquire) + self.open_of_nodes.load(Ordering::Acquire)
    }

    /// A connection to the database for somebody who has been let in.
    pub(crate) fn connect(&self, identity: &Identity) -> Result<Connection> {
        if self.is_stopping() {
            return Err(Error::new(ErrorKind::Closed, "the server is stopping").with_sqlstate("57P03"));
        }
        if self.is_draining() && !identity.is_of_node() {
            let message = "the server lets no new clients in: it is about to end";
            return Err(Error::new(ErrorKind::Closed, message).with_sqlstate("57P03"));
        }
        let privileges = match identity.role {
            Role::Read => Privileges::READ,
            // A node's calls may have to write.
            Role::Write | Role::Cluster => Privileges::WRITE,
            Role::Admin => Privileges::ALL,
        };
        let connection = self.database.connect_as(hypostyle::Identity {
            user: identity.user.clone(),
            client: identity.client.clone(),
            peer: identity.peer.clone(),
            privileges,
        })?;
        connection.define_setting(RESULT_CODEC, &Codec::default().to_string(), |value| {
            Ok(value.parse::<Codec>()?.to_string())
        })?;
        Ok(connection)
    }

    pub(crate) fn open(
        self: &Arc<Self>,
        identity: Identity,
        capabilities: Capabilities,
        codecs: u32,
        frame_bytes_max: u32,
        is_direct: bool,
        peer: Peer,
    ) -> Result<Guest> {
        let place = self.enter(peer, identity.is_of_node())?;
        let connection = self.connect(&identity)?;
        let session = connection.id();
        Ok(Guest {
            identity,
            connection,
            capabilities,
            codecs,
            frame_bytes_max,
            session,
            key: random(KEY_BYTES)?,
            is_direct,
            may_open_files: false,
            _place: place,
        })
    }

    /// What a password is checked with, and the role of who has it; `None` where everybody is let
    /// in. Nobody has a user that there is not, but it is asked with the same salt each time, so
    /// that it cannot be told from one that there is.
    pub(crate) fn credentials(&self, user: &str) -> Option<(Option<Role>, Verifier)> {
        if user == NODES_USER
            && let Some([verifier, ..]) = self.nodes.get().map(|nodes| nodes.passwords.as_slice())
        {
            return Some((Some(Role::Cluster), verifier.clone()));
        }
        let users = self.users.read();
        let users = users.as_ref()?;
        Some(match users.get(user) {
            Some(found) => (Some(found.role), found.verifier.clone()),
            None => (None, users.decoy(user)),
        })
    }
}

/// How somebody has said who it is, for the audit's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Everybody is let in.
    Trust,
    /// The process at the other end of a Unix socket is the server's own user's.
    SameUser,
    Scram,
    /// Bound to the server's certificate.
    ScramPlus,
    /// Another node of the cluster has shown its own.
    Certificate,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::SameUser => "same user",
            Self::Scram => "scram-sha-256",
            Self::ScramPlus => "scram-sha-256-plus",
            Self::Certificate => "certificate",
        }
    }

    pub fn of_mechanism(mechanism: &str) -> Self {
        if mechanism == scram::MECHANISM_PLUS { Self::ScramPlus } else { Self::Scram }
    }
}

/// Somebody who wants to be let in.
pub(crate) struct Login<'a> {
    pub protocol: &'static str,
    pub user: &'a str,
    pub peer: &'a str,
}

impl Login<'_> {
    pub fn allowed(&self, method: Method, role: Role) {
        let Self { protocol, user, peer } = self;
        let (method, role) = (method.name(), role.name());
        tracing::info!(target: AUDIT, protocol, user, peer, method, role, "login");
    }

    pub fn refused(&self, reason: &Error) {
        let Self { protocol, user, peer } = self;
        tracing::warn!(target: AUDIT, protocol, user, peer, reason = %Shown(reason), "login refused");
    }
}
