//! What nodes ask each other. The bytes are JSON: requests are small, and plans are Base64 within.

use crate::backup::Backup;
use hypostyle_placement::append;
use hypostyle_placement::catalog::{Catalog, Node, Replica, Table};
use hypostyle_placement::term::{Answer, Ask, Stored};
use hypostyle_placement::{Epoch, FragmentId, Life, NodeId, Term};
use hypostyle_types::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A request, and whom it is for. An address can come to be that of another database: of another node, of
/// another cluster, or of a copy. So nobody is believed for an address: who is asked answers nothing
/// that is for somebody else, and who asks looks who answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Addressed {
    /// The cluster of the node that asks.
    pub cluster: Uuid,
    /// The node that is asked; `None` for whichever one has the address, which may only be asked who it
    /// is.
    pub to: Option<NodeId>,
    /// What it is asked.
    pub request: Request,
}

impl Addressed {
    /// Addresses a request to a node of a cluster.
    pub fn new(cluster: Uuid, to: &Node, request: Request) -> Self {
        Self { cluster, to: Some(to.id), request }
    }

    /// Asks whichever node has an address who it is.
    pub fn to_anybody(cluster: Uuid) -> Self {
        Self { cluster, to: None, request: Request::Identify }
    }

    /// Asks the node that is meant who it is.
    #[must_use]
    pub fn introduction(&self) -> Self {
        Self { cluster: self.cluster, to: self.to, request: Request::Identify }
    }
}

/// A request of one node to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Who are you, and which cluster are you of?
    Identify,
    /// A coordinator's message about catalogs.
    Ask(Box<Ask<Catalog>>),
    /// Which published catalog do you know, if it is later than this one?
    Catalog {
        /// The state that is known.
        after: Epoch,
    },
    /// Append the rows that follow to a fragment.
    Append {
        /// What is appended, and where.
        request: append::Request,
        /// The epoch in which the table was altered the last time.
        altered: Epoch,
    },
    /// Append the rows that follow to fragments of one table, in one transaction: first those of the first
    /// request. An earlier release does not know this.
    AppendAll {
        /// What is appended, and where.
        requests: Vec<append::Request>,
        /// The epoch in which the table was altered the last time.
        altered: Epoch,
    },
    /// Send the rows of a fragment, without the first ones.
    Read {
        /// The fragment, and the positions that are read.
        piece: Piece,
        /// The rows that are left out, counted without deleted ones.
        first: u64,
    },
    /// Run a part of a query.
    Run(Box<Task>),
    /// Take a step of a backup of the cluster.
    Backup(Backup),
}

/// The answer to a request that has no rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The answer to [`Request::Identify`].
    Identity {
        /// The node.
        node: NodeId,
        /// Its cluster, if it has one.
        cluster: Option<Uuid>,
        /// The state of the catalog that it reads.
        epoch: Epoch,
        /// The term of the coordinator that has published it.
        term: Term,
    },
    /// The answer to [`Request::Ask`]; some need none.
    Answer(Option<Box<Answer<Catalog>>>),
    /// The answer to [`Request::Catalog`].
    Catalog(Option<Box<Stored<Catalog>>>),
    /// The answer to [`Request::Append`].
    Appended(append::Reply),
    /// The answers to [`Request::AppendAll`], in the order of its requests.
    AppendedAll(Vec<append::Reply>),
    /// The answer to [`Request::Backup`].
    BackedUp,
}

/// A part of a query for one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The plan ([`crate::codec`]), whose scans name tables of the cluster.
    #[serde(with = "base64_text")]
    pub plan: Vec<u8>,
    /// The state of the catalog that the positions are of.
    pub epoch: Epoch,
    /// The fragments of the partitioned tables, each with the part of the plan's result that it
    /// makes. Those of several tables belong together when their rows meet only each other.
    pub parts: Vec<Vec<Piece>>,
    /// The fragments of replicated tables.
    pub replicated: Vec<Piece>,
    /// Settings of the session that decide about rows.
    pub settings: Vec<(String, String)>,
}

/// Bytes within JSON.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A fragment, and how much of a node's replica a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The fragment.
    pub fragment: FragmentId,
    /// The positions of the node's replica.
    pub positions: u64,
    /// The rows within them.
    pub rows: u64,
    /// The life of the node's replica. One that was dropped and made again since has other rows, also
    /// if they are as many.
    pub life: Life,
    /// The epoch in which the table was altered the last time: readers know the columns since then.
    pub altered: Epoch,
}

impl Piece {
    /// Returns how much readers of a catalog see of a replica.
    pub fn of(table: &Table, fragment: FragmentId, replica: &Replica) -> Self {
        let Replica { positions, rows, life, .. } = *replica;
        Self { fragment, positions, rows, life, altered: table.layout.altered }
    }
}

/// Returns the bytes of a request or a reply.
///
/// # Errors
/// `Internal`, which no value leads to.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(message)
        .map_err(|error| Error::internal(format!("cannot write a message to a node: {error}")))
}

/// Returns a request with whom it is for.
///
/// # Errors
/// `Connection` (08P01) if the bytes are none; `Version` if the node that asks runs an earlier release, which
/// does not say whom it means.
pub fn decode_addressed(bytes: &[u8]) -> Result<Addressed> {
    decode(bytes).map_err(|error| match is_bare(bytes) {
        true => Error::new(
            ErrorKind::Version,
            "the node that asks does not say which node of which cluster it means: upgrade all nodes of the cluster to \
             the same release",
        ),
        false => error,
    })
}

/// Says whether bytes are a request as earlier releases send it.
fn is_bare(bytes: &[u8]) -> bool {
    match serde_json::from_slice(bytes) {
        Ok(serde_json::Value::String(name)) => name == "identify",
        Ok(serde_json::Value::Object(fields)) => {
            ["ask", "append", "read", "run", "backup"].iter().any(|name| fields.contains_key(*name))
        }
        _ => false,
    }
}

/// Returns a request or a reply.
///
/// # Errors
/// `Connection` (08P01) if the bytes are none.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::new(ErrorKind::Connection, format!("a node sent what is no message: {error}"))
            .with_sqlstate("08P01")
    })
}
