//! A node of a cluster as a client of the others: connections to them, and who lets them in.

#![forbid(unsafe_code)]

use arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use hypostyle::{CallAnswer, Connection, Poll, PollHook, QueryResult};
use hypostyle_client::{Address, Options, Progress, Traffic};
use hypostyle_cluster::Member;
use hypostyle_cluster::measure::PeerMeasure;
use hypostyle_cluster::message::{self, Addressed};
use hypostyle_cluster::peers::{Answer, Peers, RowReader, check_introduced, not_here};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Sender, channel};

/// How long a node may take to let another one in.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// How long a node may be silent while it works for another one.
const SILENCE: Duration = Duration::from_secs(4);

/// How often it is tried whether a silent node answers again, how long each other time, because
/// what was lost is not sent again at once, and for how long in all.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
const PROBE_TIME: Duration = Duration::from_secs(1);
const PROBED: Duration = Duration::from_secs(600);

/// A connection that breaks within this time was broken before: its node has ended since.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Connections to one node that wait for the next request, and those to all nodes: each node has as many from
/// the others, which take places for clients.
const IDLE_MAX: usize = 16;
const IDLE_ALL: usize = 64;

/// Batches that wait for who reads them.
const BATCHES_WAITING: usize = 2;

/// Batches of a node that are read before a thread is started for the others.
const READ_AHEAD: usize = 2;

/// Other nodes of a cluster, as servers that this process is a client of.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # use hypostyle_node::RemotePeers;
/// # use std::sync::Arc;
/// let database = Database::in_memory(OpenOptions::default())?;
/// let peers = RemotePeers::new("cluster", Some("secret".into()), None);
/// let node = database.join_cluster("n1", "127.0.0.1:4953", Arc::new(peers))?;
/// assert_eq!(node.name(), "n1");
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub struct RemotePeers {
    access: Arc<Access>,
    /// Where nodes are, by their names, if not where the catalog says.
    places: HashMap<String, String>,
    idle: Arc<Idle>,
    /// What is measured of each node, by its name.
    measured: Mutex<BTreeMap<String, Arc<Measured>>>,
}

/// The certificate files of a node, in PEM.
///
/// ```
/// # use hypostyle_node::{Certificates, RemotePeers};
/// let files = Certificates {
///     certificate: "node.pem".into(),
///     key: "node.key".into(),
///     authorities: "authorities.pem".into(),
/// };
/// let peers = RemotePeers::new("cluster", None, Some(files));
/// ```
#[derive(Clone, Debug)]
pub struct Certificates {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authorities: PathBuf,
}

/// Connections that no request uses, by the addresses of their nodes.
#[derive(Default)]
struct Idle(Mutex<HashMap<String, Vec<Connection>>>);

impl Idle {
    fn take(&self, address: &str) -> Option<Connection> {
        self.0.lock().get_mut(address)?.pop()
    }

    fn put(&self, address: &str, connection: Connection) {
        connection.set_poll(None);
        let mut idle = self.0.lock();
        let most = idle_of_each(idle.len());
        let of_node = idle.entry(address.into()).or_default();
        if of_node.len() < most {
            of_node.push(connection);
        }
    }

    fn forget(&self, address: &str) {
        self.0.lock().remove(address);
    }

    fn count(&self, address: &str) -> usize {
        self.0.lock().get(address).map_or(0, Vec::len)
    }
}

/// Returns how many connections to each of some nodes wait for the next request.
fn idle_of_each(nodes: usize) -> usize {
    (IDLE_ALL / nodes.max(1)).clamp(1, IDLE_MAX)
}

/// What is measured of one node.
struct Measured {
    access: Arc<Access>,
    /// What is measured here; [`Traffic`] and [`Idle`] know the rest.
    measure: Mutex<PeerMeasure>,
    /// Where the node was asked the last time.
    address: Mutex<String>,
    contact: Mutex<Contact>,
    traffic: Arc<Traffic>,
}

/// Whether a node is left alone: a circuit breaker. A node that was silent for too long is not asked again
/// until it answers somebody who tries, be it with a refusal: statements that need it do not wait for it
/// one after the other, nor several times.
#[derive(Default)]
struct Contact {
    /// When the node has answered the last time.
    heard: Option<Instant>,
    /// The address where it was silent since.
    silent: Option<String>,
}

impl Contact {
    fn hear(&mut self) {
        *self = Self { heard: Some(Instant::now()), silent: None };
    }

    /// Notes that a wait was in vain, unless somebody else has had an answer meanwhile. Says whether
    /// nobody tries yet whether the node is there again.
    fn give_up(&mut self, address: &str, since: Instant) -> bool {
        if since.elapsed() < CONNECT_TIME || self.heard.is_some_and(|when| when >= since) {
            return false;
        }
        self.silent.replace(address.into()).is_none_or(|before| before != address)
    }

    /// Fails if the node is left alone.
    fn check(&self, address: &str) -> Result<()> {
        match self.is_silent(address) {
            true => Err(Error::new(ErrorKind::Connection, "it was silent, and has not come back since")
                .with_sqlstate("08006")
                .unreachable()),
            false => Ok(()),
        }
    }

    fn is_silent(&self, address: &str) -> bool {
        self.silent.as_deref() == Some(address)
    }

    /// Has the node asked again.
    fn come_back(&mut self, address: &str) {
        if self.is_silent(address) {
            self.silent = None;
        }
    }
}

impl Measured {
    fn new(access: Arc<Access>) -> Arc<Self> {
        Arc::new(Self {
            access,
            measure: Mutex::default(),
            address: Mutex::default(),
            contact: Mutex::default(),
            traffic: Arc::default(),
        })
    }

    /// Tries on a thread whether a silent node answers, until it does.
    fn probe(self: &Arc<Self>, address: String) {
        let (measured, end) = (Arc::downgrade(self), Instant::now() + PROBED);
        let silent = address.clone();
        let work = move || {
            for time in [PROBE_TIME, CONNECT_TIME].into_iter().cycle() {
                thread::sleep(PROBE_INTERVAL);
                let Some(measured) = measured.upgrade() else { return };
                if !measured.contact.lock().is_silent(&silent) {
                    return;
                }
                let found = measured.access.connect(&silent, time, measured.traffic.clone());
                let is_silent = found.is_err_and(|error| error.is_unreachable());
                if !is_silent || Instant::now() > end {
                    return measured.contact.lock().come_back(&silent);
                }
            }
        };
        if thread::Builder::new().name("hypostyle-probe".into()).spawn(work).is_err() {
            self.contact.lock().come_back(&address);
        }
    }

    /// Waits for the node, and notes how long, and what it comes to.
    fn wait<T>(self: &Arc<Self>, answer: impl FnOnce() -> Result<T>) -> Result<T> {
        let since = Instant::now();
        let answer = answer();
        let mut measure = self.measure.lock();
        measure.waited += since.elapsed();
        match &answer {
            Ok(_) => {
                measure.reachable = Some(true);
                self.contact.lock().hear();
            }
            // Nobody waits for it any more.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.is_unreachable() => {
                measure.unreachable += 1;
                measure.reachable = Some(false);
                let address = self.address.lock().clone();
                if self.contact.lock().give_up(&address, since) {
                    self.probe(address);
                }
            }
            Err(_) => {
                measure.failed += 1;
                measure.reachable = Some(true);
                self.contact.lock().hear();
            }
        }
        answer
    }

    /// Waits for the next rows of the node.
    fn next(self: &Arc<Self>, rows: &QueryResult) -> Result<Option<RecordBatch>> {
        let next = self.wait(|| rows.next_unread())?;
        if let Some(batch) = &next {
            self.measure.lock().rows_received += batch.num_rows() as u64;
        }
        Ok(next)
    }

    fn measure(&self, idle: &Idle) -> PeerMeasure {
        let address = self.address.lock().clone();
        PeerMeasure {
            bytes_sent: self.traffic.sent(),
            bytes_received: self.traffic.received(),
            idle_connections: idle.count(&address) as u64,
            ..self.measure.lock().clone()
        }
    }
}

impl RemotePeers {
    /// Reaches nodes as a user with a password, and inside TLS if there are certificates.
    pub fn new(user: &str, password: Option<String>, certificates: Option<Certificates>) -> Self {
        let access = Arc::new(Access { user: user.into(), password, certificates, by_certificate: false });
        Self { access, places: HashMap::new(), idle: Arc::default(), measured: Mutex::default() }
    }

    /// Says that nodes which know no password are right ones, too, if they have shown their certificates.
    /// Some do not have one yet, or have given it up.
    pub fn by_certificate(self, suffices: bool) -> Self {
        let Access { user, password, certificates, .. } = &*self.access;
        let (user, password, certificates) = (user.clone(), password.clone(), certificates.clone());
        let access = Arc::new(Access { user, password, certificates, by_certificate: suffices });
        Self { access, ..self }
    }

    /// Says where some nodes are, by their names, whatever the catalog of the cluster says: they may have
    /// moved, so many of them that it cannot be told.
    pub fn found_at(self, places: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { places: places.into_iter().collect(), ..self }
    }

    /// Returns what is measured of a node, which is asked once more.
    fn measured(&self, node: &Member) -> Arc<Measured> {
        let mut all = self.measured.lock();
        let measured =
            all.entry(node.name.clone()).or_insert_with(|| Measured::new(self.access.clone())).clone();
        drop(all);
        let mut measure = measured.measure.lock();
        measure.peer.clone_from(&node.name);
        measure.requests += 1;
        drop(measure);
        measured.address.lock().clone_from(&node.address);
        measured
    }
}

/// Who nodes are to each other, and how they prove that.
struct Access {
    user: String,
    password: Option<String>,
    certificates: Option<Certificates>,
    /// Whether a node that has no password is a right one by its certificate.
    by_certificate: bool,
}

impl Access {
    fn connect(&self, address: &str, connect_time: Duration, traffic: Arc<Traffic>) -> Result<Connection> {
        let connect = |password| self.connect_by(password, address, connect_time, traffic.clone());
        match connect(self.password.clone()) {
            // It has not proved that it knows the password. Who has no certificate is refused again.
            Err(error) if self.by_certificate && self.password.is_some() && error.sqlstate() == "28000" => {
                connect(None)
            }
            connected => connected,
        }
    }

    fn connect_by(
        &self,
        password: Option<String>,
        address: &str,
        connect_time: Duration,
        traffic: Arc<Traffic>,
    ) -> Result<Connection> {
        let mut address = Address::parse(&format!("hypostyle://{}@{address}/", self.user))?;
        address.password = password;
        if let Some(files) = &self.certificates {
            address.tls = hypostyle_client::Tls::On;
            address.tls_ca = Some(files.authorities.clone());
            address.tls_cert = Some(files.certificate.clone());
            address.tls_key = Some(files.key.clone());
        }
        let client = format!("hypostyle node {}", env!("CARGO_PKG_VERSION"));
        let options = Options { client, descriptors: false, connect_time, silence: Some(SILENCE), traffic };
        Connection::to_server(&address, options)
    }
}

/// A request on its way to an address.
struct Sent<'a> {
    address: &'a str,
    request: &'a Addressed,
    bytes: Vec<u8>,
}

impl Sent<'_> {
    /// Checks that a new connection leads to the node that is meant, before that is asked anything else.
    fn check_peer(&self, connection: &Connection) -> Result<()> {
        if self.request.to.is_none() {
            return Ok(());
        }
        let answer = connection.call(&message::encode(&self.request.introduction())?, None);
        let answer = answer.map_err(|error| match error.sqlstate() {
            "08P01" => not_here(format!(
                "it does not say which node it is: upgrade all nodes of the cluster to the same release ({error})"
            )),
            _ => error,
        });
        match answer? {
            CallAnswer::Reply(reply) => check_introduced(self.request, &message::decode(&reply)?),
            CallAnswer::Rows(_) => {
                Err(Error::new(ErrorKind::Connection, "a node says with rows who it is")
                    .with_sqlstate("08P01"))
            }
        }
    }
}

impl Peers for RemotePeers {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        self.ask(node, request, rows, None)
    }

    fn call_while(&self, node: &Member, request: &Addressed, wanted: Weak<()>) -> Result<Answer> {
        let hook = move |_: &Progress| match wanted.strong_count() {
            0 => Poll::Interrupt,
            _ => Poll::Continue,
        };
        self.ask(node, request, None, Some(Arc::new(hook)))
    }

    fn measures(&self) -> Vec<PeerMeasure> {
        let measured: Vec<Arc<Measured>> = self.measured.lock().values().cloned().collect();
        measured.iter().map(|measured| measured.measure(&self.idle)).collect()
    }
}

impl RemotePeers {
    /// Asks a node, and measures how long it takes to answer.
    fn ask(
        &self,
        node: &Member,
        request: &Addressed,
        rows: Option<RowReader>,
        hook: Option<PollHook>,
    ) -> Result<Answer> {
        // Whoever asks who is at an address means that one.
        let place = request.to.and_then(|_| self.places.get(&node.name));
        let moved = place.map(|address| Member { address: address.clone(), ..node.clone() });
        let node = moved.as_ref().unwrap_or(node);
        let (mut bytes, mut rows) = (message::encode(request)?, rows);
        if bytes.len() > message::MESSAGE_BYTES_MAX && rows.is_none() {
            rows = Some(message::to_rows(&bytes)?);
            bytes = message::encode(&request.in_rows())?;
        }
        let sent = Sent { address: &node.address, request, bytes };
        let measured = self.measured(node);
        let (connection, answer) = measured.wait(|| {
            let named = |error: Error| error.context(format!("node \"{}\" at {}", node.name, node.address));
            measured.contact.lock().check(&node.address).map_err(named)?;
            self.send(&sent, rows, hook, &measured.traffic).map_err(named)
        })?;
        self.answer(&node.address, connection, answer, measured)
    }

    /// Sends a request over a connection that is there, if it still works. One that an error has come
    /// from is not used again.
    fn send(
        &self,
        sent: &Sent<'_>,
        mut rows: Option<RowReader>,
        hook: Option<PollHook>,
        traffic: &Arc<Traffic>,
    ) -> Result<(Connection, CallAnswer)> {
        let Sent { address, ref bytes, .. } = *sent;
        if let Some(connection) = self.idle.take(address) {
            let (since, may_repeat) = (Instant::now(), rows.is_none());
            connection.set_poll(hook.clone());
            match connection.call(bytes, rows.take()) {
                Ok(answer) => return Ok((connection, answer)),
                // The node was started again since, or is about to end.
                Err(error) if is_over(&error) && since.elapsed() < AT_ONCE => {
                    self.idle.forget(address);
                    if !may_repeat {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let connection = self.access.connect(address, CONNECT_TIME, traffic.clone())?;
        connection.set_poll(hook);
        sent.check_peer(&connection)?;
        let answer = connection.call(bytes, rows)?;
        Ok((connection, answer))
    }

    fn answer(
        &self,
        address: &str,
        connection: Connection,
        answer: CallAnswer,
        measured: Arc<Measured>,
    ) -> Result<Answer> {
        match answer {
            CallAnswer::Reply(reply) => {
                self.idle.put(address, connection);
                answered(&reply)
            }
            CallAnswer::Rows(result) if message::is_in_rows(&result.schema()) => {
                let mut bytes = Vec::new();
                while let Some(batch) = measured.next(&result)? {
                    message::add_rows(&mut bytes, &batch)?;
                }
                drop(result);
                self.idle.put(address, connection);
                answered(&bytes)
            }
            CallAnswer::Rows(result) => {
                let (idle, address) = (self.idle.clone(), address.to_string());
                streamed(result, measured, move || idle.put(&address, connection)).map(Answer::Rows)
            }
        }
    }
}

/// Returns what a node has answered. If that cannot be read, it is as if no answer had come (08006): the node
/// has done something, and is not one of another release, which refuses what it does not know.
fn answered(reply: &[u8]) -> Result<Answer> {
    message::decode(reply).map(Answer::Reply).map_err(|error| error.with_sqlstate("08006"))
}

/// Returns the rows of a result as a stream; what is not there at once, a thread reads. `ended` is called
/// when all are read.
fn streamed(
    result: QueryResult,
    measured: Arc<Measured>,
    ended: impl FnOnce() + Send + 'static,
) -> Result<SendableRecordBatchStream> {
    let schema = result.schema();
    // Most results are so short that they need no thread.
    let mut ahead = Vec::with_capacity(READ_AHEAD);
    while ahead.len() < READ_AHEAD {
        let next = Read::next(&result, &measured);
        let (is_last, is_all) = (next.is_last(), matches!(next, Read::All));
        ahead.push(next);
        if is_last {
            drop(result);
            if is_all {
                ended();
            }
            let rows = stream::iter(ahead.into_iter().filter_map(Read::into_item));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
    }
    let (sender, receiver) = channel(BATCHES_WAITING);
    thread::Builder::new()
        .name("hypostyle-rows".into())
        .spawn(move || {
            if read(&result, &measured, &sender) {
                drop(result);
                ended();
            }
        })
        .map_err(|error| Error::from_io(&error, "cannot read the rows of a node"))?;
    let rows = stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        let read = receiver.recv().await.unwrap_or_else(|| Read::Failed(broken_off()));
        let goes_on = !read.is_last();
        read.into_item().map(|item| (item, goes_on.then_some(receiver)))
    });
    let rows = stream::iter(ahead.into_iter().filter_map(Read::into_item)).chain(rows);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// What a thread has read of the rows of a node. Rows that end without the last of these are not all.
enum Read {
    Batch(RecordBatch),
    Failed(Error),
    All,
}

impl Read {
    fn next(result: &QueryResult, measured: &Arc<Measured>) -> Self {
        match measured.next(result) {
            Ok(Some(batch)) => Self::Batch(batch),
            Ok(None) => Self::All,
            Err(error) => Self::Failed(error),
        }
    }

    fn is_last(&self) -> bool {
        !matches!(self, Self::Batch(_))
    }

    fn into_item(self) -> Option<datafusion::error::Result<RecordBatch>> {
        match self {
            Self::Batch(batch) => Some(Ok(batch)),
            Self::Failed(error) => Some(Err(DataFusionError::External(Box::new(error)))),
            Self::All => None,
        }
    }
}

/// Reads rows until there are no more, or nobody wants them; true if all are read.
fn read(result: &QueryResult, measured: &Arc<Measured>, sender: &Sender<Read>) -> bool {
    loop {
        let next = Read::next(result, measured);
        let (is_last, is_all) = (next.is_last(), matches!(next, Read::All));
        if sender.blocking_send(next).is_err() || is_last {
            return is_all;
        }
    }
}

fn broken_off() -> Error {
    Error::internal("nobody reads the rows of a node any more")
}

/// Says whether a connection is of no use after an error.
fn is_over(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Connection | ErrorKind::Closed) || error.sqlstate() == "57P01"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_silent_node_is_waited_for_once_until_it_comes_back() {
        let mut contact = Contact::default();
        let long_ago = Instant::now() - CONNECT_TIME;
        assert!(!contact.give_up("a:1", Instant::now()), "a refusal is no silence");
        contact.check("a:1").unwrap();
        assert!(contact.give_up("a:1", long_ago));
        assert!(!contact.give_up("a:1", long_ago), "somebody tries already");
        assert!(contact.check("a:1").unwrap_err().is_unreachable());
        contact.check("a:2").unwrap();
        contact.come_back("a:2");
        contact.check("a:1").unwrap_err();
        contact.come_back("a:1");
        contact.check("a:1").unwrap();
        contact.hear();
        assert!(!contact.give_up("a:1", long_ago), "somebody else was answered meanwhile");
    }

    #[test]
    fn what_cannot_be_read_is_no_answer() {
        let reply = message::encode(&message::Reply::BackedUp).unwrap();
        assert!(matches!(answered(&reply), Ok(Answer::Reply(message::Reply::BackedUp))));
        let error = answered(&reply[1..]).err().unwrap();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Connection, "08006"), "{error}");
    }

    #[test]
    fn connections_that_wait_leave_places_for_clients() {
        assert_eq!([0, 1, 2, 4].map(idle_of_each), [IDLE_MAX; 4]);
        assert_eq!([7, 16, 64, 1000].map(idle_of_each), [9, 4, 1, 1]);
    }

    #[test]
    fn who_asks_a_silent_node_again_does_not_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let access = Arc::new(Access {
            user: "cluster".into(),
            password: None,
            certificates: None,
            by_certificate: false,
        });
        let measured = Measured::new(access.clone());
        measured.address.lock().clone_from(&address);
        let ask = || {
            let since = Instant::now();
            let answer = measured.wait(|| {
                measured.contact.lock().check(&address)?;
                access.connect(&address, CONNECT_TIME, Arc::default())
            });
            let error = answer.map(drop).unwrap_err();
            assert!(error.is_unreachable(), "{error}");
            since.elapsed()
        };
        assert!(ask() >= CONNECT_TIME);
        let mut asked = 1;
        // A busy machine may take as long without a wait, but not each time.
        let mut is_quick = || {
            (0..5).any(|_| {
                asked += 1;
                ask() < CONNECT_TIME / 2
            })
        };
        assert!(is_quick());
        // The node is gone now: it refuses at once, and so does everybody who tries.
        drop(listener);
        assert!(is_quick());
        assert_eq!(measured.measure.lock().unreachable, asked);
    }
}
