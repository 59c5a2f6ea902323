//! Connections to the other nodes of a cluster.

use crate::connection::CallAnswer;
use crate::{Connection, QueryResult};
use arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use hypostyle_client::{Address, Options};
use hypostyle_cluster::Member;
use hypostyle_cluster::message::{self, Request};
use hypostyle_cluster::peers::{Answer, Peers, RowReader};
use hypostyle_types::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// How long a node may take to let another one in.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// How long a node may be silent while it works for another one.
const SILENCE: Duration = Duration::from_secs(6);

/// Connections to one node that wait for the next request.
const IDLE_MAX: usize = 16;

/// Batches that wait for who reads them.
const BATCHES_WAITING: usize = 2;

/// Other nodes of a cluster, as servers that this process is a client of.
///
/// ```
/// # use hypostyle::{Database, OpenOptions, RemotePeers};
/// # use std::sync::Arc;
/// let database = Database::in_memory(OpenOptions::default())?;
/// let peers = RemotePeers::new("cluster", Some("secret".into()), None);
/// let node = database.join_cluster("n1", "127.0.0.1:4953", Arc::new(peers))?;
/// assert_eq!(node.name(), "n1");
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub struct RemotePeers {
    /// The user that nodes are, and how it proves that.
    user: String,
    password: Option<String>,
    certificates: Option<Certificates>,
    idle: Arc<Idle>,
}

/// The certificate files of a node, in PEM.
///
/// ```
/// # use hypostyle::{Certificates, RemotePeers};
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
        let mut idle = self.0.lock();
        let of_node = idle.entry(address.into()).or_default();
        if of_node.len() < IDLE_MAX {
            of_node.push(connection);
        }
    }

    fn forget(&self, address: &str) {
        self.0.lock().remove(address);
    }
}

impl RemotePeers {
    /// Reaches nodes as a user with a password, and inside TLS if there are certificates.
    pub fn new(user: &str, password: Option<String>, certificates: Option<Certificates>) -> Self {
        Self { user: user.into(), password, certificates, idle: Arc::default() }
    }

    fn connect(&self, address: &str) -> Result<Connection> {
        let mut address = Address::parse(&format!("hypostyle://{}@{address}/", self.user))?;
        address.password.clone_from(&self.password);
        if let Some(files) = &self.certificates {
            address.tls = hypostyle_client::Tls::On;
            address.tls_ca = Some(files.authorities.clone());
            address.tls_cert = Some(files.certificate.clone());
            address.tls_key = Some(files.key.clone());
        }
        let client = format!("hypostyle node {}", env!("CARGO_PKG_VERSION"));
        let options =
            Options { client, descriptors: false, connect_time: CONNECT_TIME, silence: Some(SILENCE) };
        Connection::to_server(&address, options)
    }
}

impl Peers for RemotePeers {
    fn call(&self, node: &Member, request: &Request, rows: Option<RowReader>) -> Result<Answer> {
        let (bytes, address) = (message::encode(request)?, &node.address);
        let named = |error: Error| error.context(format!("node \"{}\" at {address}", node.name));
        let Some(connection) = self.idle.take(address) else {
            let connection = self.connect(address).map_err(named)?;
            let answer = connection.call(&bytes, rows).map_err(named)?;
            return self.answer(address, connection, answer);
        };
        let may_repeat = rows.is_none();
        match connection.call(&bytes, rows) {
            Ok(answer) => self.answer(address, connection, answer),
            Err(error) if error.is_unreachable() => {
                // The node may have been started again since.
                self.idle.forget(address);
                if !may_repeat {
                    return Err(named(error));
                }
                let connection = self.connect(address).map_err(named)?;
                let answer = connection.call(&bytes, None).map_err(named)?;
                self.answer(address, connection, answer)
            }
            Err(error) => {
                self.idle.put(address, connection);
                Err(named(error))
            }
        }
    }
}

impl RemotePeers {
    fn answer(&self, address: &str, connection: Connection, answer: CallAnswer) -> Result<Answer> {
        match answer {
            CallAnswer::Reply(reply) => {
                self.idle.put(address, connection);
                message::decode(&reply).map(Answer::Reply)
            }
            CallAnswer::Rows(result) => {
                let (idle, address) = (self.idle.clone(), address.to_string());
                streamed(result, move || idle.put(&address, connection)).map(Answer::Rows)
            }
        }
    }
}

/// Returns the rows of a result as a stream, which a thread of its own reads. `ended` is called when
/// all are read.
fn streamed(result: QueryResult, ended: impl FnOnce() + Send + 'static) -> Result<SendableRecordBatchStream> {
    let schema = result.schema();
    let (sender, receiver) = channel(BATCHES_WAITING);
    thread::Builder::new()
        .name("hypostyle-rows".into())
        .spawn(move || {
            if read(&result, &sender) {
                drop(result);
                ended();
            }
        })
        .map_err(|error| Error::from_io(&error, "cannot read the rows of a node"))?;
    let rows = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// Reads rows until there are no more, or nobody wants them; true if all are read.
fn read(result: &QueryResult, sender: &Sender<std::result::Result<RecordBatch, DataFusionError>>) -> bool {
    loop {
        let (batch, is_last) = match result.next_unread() {
            Ok(Some(batch)) => (Ok(batch), false),
            Ok(None) => return true,
            Err(error) => (Err(DataFusionError::External(Box::new(error))), true),
        };
        if sender.blocking_send(batch).is_err() || is_last {
            return false;
        }
    }
}
