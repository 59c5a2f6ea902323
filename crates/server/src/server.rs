//! What all connections of a server share.

use crate::metrics::Metrics;
use crate::pgwire::cancel::Cancels;
use crate::resume::Resumable;
use crate::users::{SALT_BYTES, Users, random};
use hypostyle::{Connection, Database, Privileges};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::scram::{ITERATIONS, Verifier};
use hypostyle_wire::{Capabilities, Codec, Role};
use parking_lot::RwLock;
use rustix::event::EventfdFlags;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The setting of a session that forces a codec.
pub const RESULT_CODEC: &str = "result_codec";

const KEY_BYTES: usize = 16;

/// Connections of one protocol that say who they are at a time, beside those that have: also of clients who come back to their session.
const ARRIVING_MAX: usize = 256;

/// For everything up to the end of the authentication.
pub(crate) const LOGIN_TIME: Duration = Duration::from_secs(10);

/// After a wrong password.
pub(crate) const REFUSAL_TIME: Duration = Duration::from_millis(250);

/// What clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, of all protocols together.
    pub clients: usize,
    /// A statement that runs longer is interrupted.
    pub statement_time: Option<Duration>,
    /// A session that says nothing for so long is ended.
    pub idle_time: Option<Duration>,
    /// What runs when the server is told to stop has so long to end before it is interrupted.
    pub stop_time: Duration,
    /// A session whose TCP connection broke is kept for so long; zero turns resuming off.
    pub resume_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 256,
            statement_time: None,
            idle_time: None,
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
    pub _place: Place,
}

/// A server's database and the rules of its use.
pub struct Server {
    pub(crate) database: Database,
    /// `None`: whoever can connect may do everything.
    pub(crate) users: RwLock<Option<Users>>,
    pub(crate) limits: Limits,
    tls: RwLock<Option<Arc<rustls::ServerConfig>>>,
    pub(crate) metrics: Metrics,
    open: AtomicUsize,
    /// Of our own clients, and of PostgreSQL's: neither keep the others out.
    pub(crate) arriving: Arrivals,
    pub(crate) postgres_arriving: Arrivals,
    /// A client has found no place.
    crowded: AtomicBool,
    stopping: OnceLock<Instant>,
    /// Readable once the server stops, for threads that wait for sockets.
    pub(crate) stopped: OwnedFd,
    decoy_key: Vec<u8>,
    /// The sessions of PostgreSQL's clients, who may interrupt them.
    pub(crate) cancels: Cancels,
    /// The sessions of our own clients, who may come back to them.
    pub(crate) resumable: Resumable,
}

/// A place among the clients, given back when it is dropped.
pub(crate) struct Place(Arc<Server>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.metrics.sessions.dec();
    }
}

/// Connections that have not said who they are.
#[derive(Default)]
pub(crate) struct Arrivals(Arc<AtomicUsize>);

impl Arrivals {
    /// One more; `None` when there are too many.
    pub fn begin(&self) -> Option<Arrival> {
        let arrived = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |arriving| {
            (arriving < ARRIVING_MAX).then_some(arriving + 1)
        });
        arrived.is_ok().then(|| Arrival(self.0.clone()))
    }
}

/// Given back when the connection has said who it is, or is gone.
pub(crate) struct Arrival(Arc<AtomicUsize>);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    pub fn new(
        database: Database,
        users: Option<Users>,
        limits: Limits,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            database,
            users: RwLock::new(users),
            limits,
            tls: RwLock::new(tls),
            metrics: Metrics::new(),
            open: AtomicUsize::new(0),
            arriving: Arrivals::default(),
            postgres_arriving: Arrivals::default(),
            crowded: AtomicBool::new(false),
            stopping: OnceLock::new(),
            stopped: rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
                .map_err(|error| Error::from_io(&error.into(), "cannot start a server"))?,
            decoy_key: random(KEY_BYTES)?,
            cancels: Cancels::default(),
            resumable: Resumable::default(),
        }))
    }

    /// Other users from now on; sessions that are open stay.
    pub fn set_users(&self, users: Users) {
        *self.users.write() = Some(users);
    }

    /// Another certificate for who connects from now on.
    pub fn set_tls(&self, tls: Arc<rustls::ServerConfig>) {
        *self.tls.write() = Some(tls);
    }

    /// What clients have to encrypt with.
    pub(crate) fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.tls.read().clone()
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
    pub(crate) fn arrive(&self, arrivals: &Arrivals) -> Option<Arrival> {
        let arrival = arrivals.begin();
        if arrival.is_none() {
            self.metrics.refused.inc();
        }
        arrival
    }

    /// A place for one more client.
    ///
    /// # Errors
    /// `Busy` when all are taken.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Place> {
        let entered = self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < self.limits.clients).then_some(open + 1)
        });
        match entered {
            Ok(_) => {
                self.metrics.accepted.inc();
                self.metrics.sessions.inc();
                Ok(Place(self.clone()))
            }
            Err(_) => {
                self.crowded.store(true, Ordering::Release);
                let message =
                    format!("all {} places for clients are taken; try again later", self.limits.clients);
                Err(Error::new(ErrorKind::Busy, message).with_sqlstate("53300"))
            }
        }
    }

    /// Whether a client has found no place since the last one was given up for it.
    pub(crate) fn wants_place(&self) -> bool {
        self.crowded.swap(false, Ordering::AcqRel) && self.sessions() >= self.limits.clients
    }

    /// Sessions that are open now.
    pub fn sessions(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// A connection to the database for somebody who has been let in.
    pub(crate) fn connect(&self, identity: &Identity) -> Result<Connection> {
        if self.is_stopping() {
            return Err(Error::new(ErrorKind::Closed, "the server is stopping").with_sqlstate("57P03"));
        }
        let privileges = match identity.role {
            Role::Read => Privileges::READ,
            Role::Write => Privileges::WRITE,
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
    ) -> Result<Guest> {
        let place = self.enter()?;
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
            _place: place,
        })
    }

    /// What a password is checked with, and the role of who has it; `None` where everybody is let in. Nobody has a user that there
    /// is not, but the same salt each time, so that it cannot be told from one that there is.
    pub(crate) fn credentials(&self, user: &str) -> Option<(Option<Role>, Verifier)> {
        let users = self.users.read();
        let Some(found) = users.as_ref()?.get(user) else {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.decoy_key);
            let salt = ring::hmac::sign(&key, user.as_bytes()).as_ref()[..SALT_BYTES].to_vec();
            let decoy = Verifier { iterations: ITERATIONS, salt, stored_key: [0; 32], server_key: [0; 32] };
            return Some((None, decoy));
        };
        Some((Some(found.role), found.verifier.clone()))
    }
}
