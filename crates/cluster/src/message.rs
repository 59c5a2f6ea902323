//! What nodes ask each other. The bytes are JSON: requests are small, and plans are Base64 within.

use crate::change::Seen;
use crate::rows::RowReader;
use arrow::array::{Array, AsArray, LargeBinaryArray, RecordBatch, RecordBatchIterator};
use arrow::datatypes::{DataType, Field, Schema};
use hypostyle_placement::append;
use hypostyle_placement::catalog::{Catalog, Change, Counter, Difference, Node, Replica, Table};
use hypostyle_placement::term::{Answer, Ask, Place, Stored};
use hypostyle_placement::{Epoch, FragmentId, Life, NodeId, StatementId, Term};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

/// A message with more bytes travels as rows: a call has a limit of 64 MiB, and catalogs have none.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The bytes of one row of such a message.
const PIECE_BYTES: usize = 1 << 20;

/// The name of the column that they are in.
const PIECES: &str = "__message";

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

    /// Says that the request is in the rows that follow.
    #[must_use]
    pub fn in_rows(&self) -> Self {
        Self { cluster: self.cluster, to: self.to, request: Request::InRows }
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
    /// A coordinator's message that a catalog is to be stored, told by what differs from one that the node
    /// has. An earlier release does not know this.
    Store(Box<StoreDifference>),
    /// The request is in the rows that follow: it has more bytes than a call may have.
    InRows,
    /// Do you miss the coordinator, too? An earlier release does not know this.
    Missed(NodeId),
    /// Coordinate the cluster in my place: I am about to end. An earlier release does not know this.
    TakeOver,
    /// Let no new clients in, have another node coordinate, and tell how many clients there are: you are
    /// about to end. An earlier release does not know this.
    Drain,
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
    /// Delete rows of fragments of one table, and append them again, in one transaction. The values that they
    /// get in some columns follow as rows; the others stay. An earlier release does not know this.
    Update {
        /// What is deleted and appended, and where.
        requests: Vec<append::Request>,
        /// The epoch in which the table was altered the last time.
        altered: Epoch,
        /// The places of the columns.
        columns: Vec<usize>,
    },
    /// Send the rows of a fragment, without the first ones.
    Read {
        /// The fragment, and the positions that are read.
        piece: Piece,
        /// The rows that are left out, counted without deleted ones.
        first: u64,
    },
    /// Do you have the rows of these replicas? An earlier release does not know this.
    Have(Vec<Piece>),
    /// Run a part of a query.
    Run(Box<Task>),
    /// Take a step of a backup of the cluster.
    Backup(Backup),
    /// Coordinate a statement that another node has computed: what it appends and deletes follows as rows. An
    /// earlier release does not know this.
    Write {
        /// The table.
        table: TableId,
        /// The statement.
        statement: StatementId,
        /// How the table was when the statement was computed.
        seen: Seen,
        /// Whether places of deleted rows are among the rows.
        deletes: bool,
    },
    /// Coordinate a statement that gives rows other values in some columns: as [`Request::Write`], but only
    /// these values follow. An earlier release does not know this.
    WriteValues {
        /// The table.
        table: TableId,
        /// The statement.
        statement: StatementId,
        /// How the table was when the statement was computed.
        seen: Seen,
        /// The places of the columns.
        columns: Vec<usize>,
    },
    /// Coordinate a statement that changes several tables, as [`Request::Write`] of one: all, or none. An
    /// earlier release does not know this.
    WriteAll {
        /// The statement.
        statement: StatementId,
        /// The tables, in the order in which what they get follows.
        tables: Vec<OneOfTables>,
    },
    /// Take values of a column that counts, which nobody gets again. An earlier release does not know this.
    Count {
        /// The table.
        table: TableId,
        /// The number of the column.
        column: u32,
        /// The last value before them, if it is said.
        after: Option<u64>,
        /// How many are taken.
        count: u64,
    },
    /// Create, alter or drop a table, as another node has found that it can be. An earlier release does not
    /// know this.
    Define(Box<Change>),
    /// How many bytes do your replicas have, of all tables or of one? An earlier release does not know this.
    Weigh {
        /// The table.
        table: Option<TableId>,
    },
    /// Run a task of a query's stage until its rows are taken, but no longer than somebody waits for the rows
    /// of the answer: at its end, these tell what it has measured. An earlier release does not know this.
    Stage(Box<StageTask>),
    /// Send the rows that such a task has for another one. An earlier release does not know this.
    Rows(Box<TaskRows>),
}

/// What a node does for a backup of its cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backup {
    /// Look whether a backup can be written into a directory, and leave little to the snapshot.
    Prepare {
        /// A directory that is not there yet.
        directory: String,
    },
    /// Take a snapshot, which has to be of this state of the catalog.
    Keep {
        /// The number of the backup.
        id: Uuid,
        /// The term of the coordinator that has published the state.
        term: Term,
        /// The number of the state.
        epoch: Epoch,
    },
    /// Write the snapshot into a directory.
    Write {
        /// The number of the backup.
        id: Uuid,
        /// The directory that was prepared.
        directory: String,
    },
    /// Drop the snapshot, or end writing it.
    Forget {
        /// The number of the backup.
        id: Uuid,
    },
}

/// A task of a stage, of all queries of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskName {
    /// The query.
    pub query: Uuid,
    /// The number of its stage.
    pub stage: usize,
    /// The number of the task within the stage.
    pub task: usize,
}

/// What a node runs as a task of a stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageTask {
    /// Which one it is.
    pub name: TaskName,
    /// How many tasks the stage has.
    pub tasks: usize,
    /// The plan, as bytes, whose leaves name the nodes that they read ([`Task`]).
    #[serde(with = "base64_text")]
    pub plan: Vec<u8>,
    /// Settings of the session that decide about rows.
    pub settings: Vec<(String, String)>,
    /// How the node that asks shares rows out, as a sample of it: a task on a node that does it otherwise
    /// would lose rows, and is refused.
    pub sample: u64,
}

/// The rows of one partition of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRows {
    /// The task.
    pub name: TaskName,
    /// The number of the partition.
    pub partition: usize,
    /// What its rows are shared out by; `None` if they are not.
    pub by: Option<SharedOut>,
}

/// How the rows of a task are shared out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedOut {
    /// The names and places of the columns that are hashed; none if all rows go to each task that takes them.
    pub columns: Vec<(String, usize)>,
    /// How many partitions there are.
    pub partitions: usize,
}

/// One of several tables that a statement changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OneOfTables {
    /// The table.
    pub table: TableId,
    /// How it was when the statement was computed.
    pub seen: Seen,
    /// How many columns its new rows have.
    pub columns: usize,
}

/// Asks a node to store a catalog, as [`Ask::Store`] does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreDifference {
    /// Who coordinates.
    pub owner: NodeId,
    /// The term of the coordinator.
    pub term: Term,
    /// The number of the catalog.
    pub epoch: Epoch,
    /// The place of the other catalog.
    pub base: Place,
    /// What makes the catalog of that one.
    pub difference: Difference,
}

impl StoreDifference {
    /// Returns what makes one stored catalog of another; `None` if only all of it does.
    pub fn between(owner: NodeId, before: &Stored<Catalog>, after: &Stored<Catalog>) -> Option<Self> {
        let difference = Difference::between(&before.content, &after.content)?;
        Some(Self { owner, term: after.term, epoch: after.epoch, base: before.place(), difference })
    }

    /// Returns the message with all of the catalog, for a node that has some; `None` if it has none of the
    /// two that it takes.
    ///
    /// # Errors
    /// `Corrupt` if the message contradicts what the node has.
    pub fn with<'a>(
        &self,
        known: impl Iterator<Item = &'a Stored<Catalog>> + Clone,
    ) -> Result<Option<Ask<Catalog>>> {
        let find = |place: Place| known.clone().find(|stored| stored.place() == place);
        let content = match (find((self.term, self.epoch)), find(self.base)) {
            (Some(same), _) => same.content.clone(),
            (None, Some(base)) => base.content.clone().with(&self.difference)?,
            (None, None) => return Ok(None),
        };
        if content.epoch != self.epoch {
            return Err(Error::corrupt("a change of the cluster's catalog makes another one than it says"));
        }
        let stored = Stored { term: self.term, epoch: self.epoch, content };
        Ok(Some(Ask::Store { owner: self.owner, stored }))
    }
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
        /// The last term in which the node has promised to take messages. An earlier release does not tell
        /// it.
        #[serde(default)]
        promised: Term,
        /// The place of the catalog that the node has stored, published or not. An earlier release does not
        /// tell it.
        #[serde(default)]
        stored: Option<Place>,
        /// Which process the node is, of all that ever were it. An earlier release does not tell it.
        #[serde(default)]
        run: Option<Uuid>,
        /// The clients of the node, if it is served. An earlier release does not tell it.
        #[serde(default)]
        clients: Option<u64>,
    },
    /// The answer to [`Request::Missed`].
    Missed {
        /// Whether the node has not heard of the coordinator for a while.
        missed: bool,
        /// The term of the coordinator that the node knows.
        term: Term,
    },
    /// The answer to [`Request::TakeOver`]: the node coordinates.
    TookOver,
    /// The answer to [`Request::Drain`].
    Draining {
        /// The clients that are left.
        clients: u64,
    },
    /// The answer to [`Request::Ask`]; some need none.
    Answer(Option<Box<Answer<Catalog>>>),
    /// The answer to [`Request::Store`] of a node that has neither the catalog nor the other one.
    OtherBase,
    /// The answer to [`Request::Catalog`].
    Catalog(Option<Box<Stored<Catalog>>>),
    /// The answer to [`Request::Have`].
    Has {
        /// The first fragment whose rows the node lacks.
        lacking: Option<FragmentId>,
    },
    /// The answer to [`Request::Append`].
    Appended(append::Reply),
    /// The answers to [`Request::AppendAll`], in the order of its requests.
    AppendedAll(Vec<append::Reply>),
    /// The answer to [`Request::Backup`].
    BackedUp,
    /// The answer to [`Request::Count`].
    Counted {
        /// The column, with the last of the values.
        counter: Counter,
        /// A state of the catalog that has it.
        epoch: Epoch,
    },
    /// The answer to [`Request::Weigh`].
    Weighed {
        /// The node.
        node: NodeId,
        /// The bytes of its replicas, with the rows that nobody sees.
        fragments: Vec<(FragmentId, u64)>,
    },
    /// The answer to [`Request::Write`] and [`Request::Define`]: it is published.
    Published {
        /// The rows that were appended.
        rows: u64,
        /// A state of the catalog that has it.
        epoch: Epoch,
    },
}

/// A part of a query for one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The plan, as bytes, whose scans name tables of the cluster.
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

/// Returns the rows in which a long message travels.
///
/// # Errors
/// `Internal`, which no message leads to.
pub fn to_rows(bytes: &[u8]) -> Result<RowReader> {
    let schema = Arc::new(Schema::new(vec![Field::new(PIECES, DataType::LargeBinary, false)]));
    let batch = |piece: &[u8]| {
        RecordBatch::try_new(schema.clone(), vec![Arc::new(LargeBinaryArray::from(vec![piece]))])
            .map_err(|error| Error::internal(format!("cannot write a message to a node: {error}")))
    };
    let batches = bytes.chunks(PIECE_BYTES).map(batch).collect::<Result<Vec<_>>>()?;
    Ok(Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)))
}

/// Says whether rows are a message.
pub fn is_in_rows(schema: &Schema) -> bool {
    schema.fields().iter().map(|field| field.name()).eq([PIECES])
}

/// Adds the bytes of some rows to a message.
///
/// # Errors
/// `Connection` (08P01) for rows of something else.
pub fn add_rows(message: &mut Vec<u8>, rows: &RecordBatch) -> Result<()> {
    let wrong = || {
        Error::new(ErrorKind::Connection, "a node sent other rows than those of a message")
            .with_sqlstate("08P01")
    };
    let column = rows.columns().first().filter(|_| is_in_rows(&rows.schema())).ok_or_else(wrong)?;
    let column = arrow::compute::cast(column, &DataType::LargeBinary).map_err(|_| wrong())?;
    if column.null_count() > 0 {
        return Err(wrong());
    }
    column.as_binary::<i64>().iter().flatten().for_each(|piece| message.extend_from_slice(piece));
    Ok(())
}

/// Returns the request that is in rows.
///
/// # Errors
/// `Connection` if they break off, or are none (08P01).
pub fn request_in(rows: Option<RowReader>) -> Result<Addressed> {
    let mut bytes = Vec::new();
    for batch in rows.into_iter().flatten() {
        let batch = batch
            .map_err(|error| Error::new(ErrorKind::Connection, format!("the rows of a message: {error}")))?;
        add_rows(&mut bytes, &batch)?;
    }
    decode_addressed(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_placement::catalog::{Change, NodeState};

    fn catalog() -> Catalog {
        let node = Node {
            id: NodeId(Uuid::from_u128(1)),
            name: "n1".into(),
            address: "h1:1".into(),
            state: NodeState::Active,
        };
        Catalog::new(Uuid::from_u128(9), node).unwrap()
    }

    fn stored(content: Catalog) -> Stored<Catalog> {
        Stored { term: content.term, epoch: content.epoch, content }
    }

    #[test]
    fn long_messages_travel_as_rows() {
        let asked = Addressed {
            cluster: Uuid::from_u128(9),
            to: None,
            request: Request::Backup(Backup::Prepare { directory: "x".repeat(3 * PIECE_BYTES) }),
        };
        let bytes = encode(&asked).unwrap();
        let rows = to_rows(&bytes).unwrap();
        assert!(is_in_rows(&rows.schema()));
        let found = request_in(Some(rows)).unwrap();
        assert_eq!(encode(&found).unwrap(), bytes);
        assert!(matches!(asked.in_rows().request, Request::InRows));
        for rows in [None, Some(to_rows(b"").unwrap()), Some(to_rows(b"{}").unwrap())] {
            assert_eq!(request_in(rows).unwrap_err().sqlstate(), "08P01");
        }
    }

    #[test]
    fn a_difference_is_for_who_has_its_base_or_what_it_makes() {
        let first = stored(catalog());
        let promote = Change::Promote { coordinator: NodeId(Uuid::from_u128(1)), term: Term(2) };
        let second = stored(first.content.apply(&promote).unwrap());
        let owner = second.content.coordinator;
        let told = StoreDifference::between(owner, &first, &second).unwrap();
        let told: StoreDifference = decode(&encode(&told).unwrap()).unwrap();
        let ask = Ask::Store { owner, stored: second.clone() };
        for known in [&first, &second] {
            assert_eq!(told.with([known].into_iter()).unwrap().as_ref(), Some(&ask));
        }
        // The epoch alone does not say which one it is.
        let other = Stored { term: Term(7), ..first };
        assert_eq!(told.with([&other].into_iter()).unwrap(), None);
        assert_eq!(told.with(std::iter::empty()).unwrap(), None);
    }
}
