//! The catalog of a cluster, and its bytes.

use crate::id::{Epoch, FragmentId, Life, NodeId, StatementId, Term, Token};
use crate::partition::Partitioning;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The version of the catalog's bytes that this release writes.
pub const CATALOG_FORMAT: u32 = 1;

/// How many finished statements a table keeps, so that a client can repeat one.
pub const STATEMENTS_KEPT: usize = 64;

/// A published state of a cluster. It never changes: a change makes the next one
/// ([`Catalog::apply`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// The version of the bytes.
    pub format: u32,
    /// The cluster, so that a node of another one is noticed.
    pub cluster: Uuid,
    /// The number of this state.
    pub epoch: Epoch,
    /// The term of the coordinator that made this state.
    pub term: Term,
    /// The node that coordinates writes.
    pub coordinator: NodeId,
    /// The number that the next table gets.
    pub next_table_id: TableId,
    /// The nodes, in the order in which they were added.
    pub nodes: Vec<Node>,
    /// The tables that are partitioned or replicated.
    pub tables: Vec<Table>,
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The UUID of its database.
    pub id: NodeId,
    /// Its name, which no other node has.
    pub name: String,
    /// Where it listens: `host:port`, which no other node has.
    pub address: String,
    /// Whether it gets replicas, and keeps them.
    pub state: NodeState,
}

/// Says what a node is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It is used for everything.
    Active,
    /// It has replicas, which are moved away, and gets no new ones.
    Draining,
    /// It is used for nothing until it is back.
    Lost,
}

/// A table whose rows are on several nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The number of the table.
    pub id: TableId,
    /// The schema of the table.
    pub schema: String,
    /// The name of the table, which no other of its schema has.
    pub name: String,
    /// The statement that makes the table, without rows, in a node's own database.
    pub definition: String,
    /// What the statement does not say.
    #[serde(default, skip_serializing_if = "Additions::is_empty")]
    pub additions: Additions,
    /// The columns that it was given since, if it was altered.
    #[serde(default)]
    pub layout: Layout,
    /// The distribution of its rows.
    pub partitioning: Partitioning,
    /// The number of replicas that each fragment should have; of a replicated table it has no
    /// meaning and is 1.
    pub replicas: u32,
    /// The token of the last writer that has begun.
    pub token: Token,
    /// The other tables that its foreign keys refer to, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refers: Vec<TableId>,
    /// The fragments, by their numbers.
    pub fragments: Vec<Fragment>,
    /// The last statements that were published, the earliest first.
    pub finished: Vec<Finished>,
    /// The columns that have given out values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counter>,
}

/// What CREATE TABLE does not say of a table: its indexes and its comments, and what is said of the sequence
/// that it stands for. An earlier release does not know this, and refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Additions {
    /// The indexes that were declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// The comment on the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The comments on columns, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, String>,
    /// The comments on constraints, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub constraints: BTreeMap<String, String>,
    /// The first value of the sequence that the table stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The column that this sequence goes with: whoever drops it drops the sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

/// A column that a sequence goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The table.
    pub table: TableId,
    /// The number of the column.
    pub column: u32,
}

/// An index of a table, which each node has of each of its fragments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// The names of its columns, in their order.
    pub columns: Vec<String>,
    /// Says that it has the rows in the order of its column. Others find rows by their values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
}

/// The values of a column that counts from 1. Nodes give them out, in ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// The number of the column.
    pub column: u32,
    /// The last value that a node has taken.
    pub last: u64,
    /// The epoch in which somebody has said from where to count. What nodes have taken before and not given
    /// out is given out no more.
    pub since: Epoch,
}

/// The columns of a table, and since when it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The epoch in which the table was altered the last time; 0 if it never was.
    pub altered: Epoch,
    /// The columns, in the order of the definition. A table that was never altered has none here: its
    /// columns have the numbers from 0 on.
    pub columns: Vec<Column>,
    /// The number that the next column gets.
    pub next: u32,
}

/// A column of a table that was altered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its number, which no other column of the table has ever had.
    pub number: u32,
    /// Its value in the rows that were there before it: an Arrow IPC stream of one row, as Base64.
    /// Columns that the table was made with have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filling: Option<String>,
    /// How values of its earlier types have become those of its own, one after the other: a node that was
    /// away has some of these. An earlier release does not know this, and refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conversions: Vec<Conversion>,
}

/// Another type that a column was given. With it, it has another number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversion {
    /// The number that it had before.
    pub from: u32,
    /// The type that its values were cast to.
    pub to: LogicalType,
}

/// A part of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragment {
    /// The rows that were appended and published, and not deleted since. The replicas have them in this
    /// order.
    pub rows: u64,
    /// How many rows were deleted since the table was made. Where it differs, the places of rows do.
    #[serde(default)]
    pub deleted: u64,
    /// The replicas, the preferred one first. One of them is in sync, unless the fragment is lost.
    pub replicas: Vec<Replica>,
    /// Says that somebody has removed the last node that had all rows. Nothing reads the fragment,
    /// and nothing appends to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// The rows of a fragment on one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replica {
    /// The node.
    pub node: NodeId,
    /// The life of the replica. Messages to an earlier one are refused.
    pub life: Life,
    /// How many positions of the node's table a reader scans. Some of them may be of rows that are
    /// deleted, or whose append was never published.
    pub positions: u64,
    /// How many of the fragment's rows these positions have, which are its first ones.
    pub rows: u64,
    /// Says that it has all rows of the fragment and takes part in appends.
    pub in_sync: bool,
}

/// A statement that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// The statement.
    pub statement: StatementId,
    /// The token of its writer.
    pub token: Token,
    /// The rows that it has appended to all fragments.
    pub rows: u64,
}

impl Catalog {
    /// Returns the catalog of a new cluster, which consists of the node that coordinates it.
    ///
    /// # Errors
    /// `InvalidInput` if the node has no usable name or address.
    pub fn new(cluster: Uuid, coordinator: Node) -> Result<Self> {
        let catalog = Self {
            format: CATALOG_FORMAT,
            cluster,
            epoch: Epoch(1),
            term: Term(1),
            coordinator: coordinator.id,
            next_table_id: TableId(1),
            nodes: vec![coordinator],
            tables: Vec::new(),
        };
        catalog.check()?;
        Ok(catalog)
    }

    /// Returns the bytes that are stored and sent.
    ///
    /// # Errors
    /// `Internal`: no catalog causes it.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("the cluster's catalog: {error}")))
    }

    /// Reads the bytes of a catalog, from whomever they are, and checks what they say.
    ///
    /// # Errors
    /// `Version` when a newer release wrote it, `Corrupt` when it is no catalog or contradicts
    /// itself.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let corrupt =
            |error: &dyn std::fmt::Display| Error::corrupt(format!("the cluster's catalog: {error}"));
        let Format { format } = serde_json::from_slice(bytes).map_err(|error| corrupt(&error))?;
        if format != CATALOG_FORMAT {
            return Err(Error::new(
                ErrorKind::Version,
                format!(
                    "the cluster's catalog has format {format}, and this release reads format {CATALOG_FORMAT}: \
                     upgrade this node"
                ),
            ));
        }
        let catalog: Self = serde_json::from_slice(bytes).map_err(|error| corrupt(&error))?;
        catalog.check().map_err(|error| corrupt(&error.message()))?;
        Ok(catalog)
    }

    /// Returns a node of the cluster.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns what a node is called: its name, or its number if it has left.
    pub fn node_name(&self, id: NodeId) -> String {
        self.node(id).map_or_else(|| id.to_string(), |node| node.name.clone())
    }

    /// Returns the node of a name.
    ///
    /// # Errors
    /// `UnknownName` (42704).
    pub fn node_named(&self, name: &str) -> Result<&Node> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            let hint = hypostyle_types::did_you_mean(name, names);
            Error::new(ErrorKind::UnknownName, format!("there is no node \"{name}\"{hint}"))
                .with_sqlstate("42704")
        })
    }

    /// Returns a table of the cluster.
    pub fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// Returns the table of a name.
    pub fn table_named(&self, schema: &str, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.schema == schema && table.name == name)
    }

    /// Returns the other tables whose foreign keys refer to a table.
    pub fn referring(&self, id: TableId) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(move |table| table.id != id && table.refers.contains(&id))
    }

    /// Returns a fragment of a table.
    pub fn fragment(&self, id: FragmentId) -> Option<&Fragment> {
        self.table(id.table)?.fragment(id.number)
    }

    /// Returns a replica of a fragment.
    pub fn replica(&self, id: FragmentId, node: NodeId) -> Option<&Replica> {
        self.fragment(id)?.replica(node)
    }

    /// Returns the nodes that can get replicas, in their order.
    pub fn active_nodes(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|node| node.state == NodeState::Active).map(|node| node.id).collect()
    }

    /// Tells whether a node is lost, or not known at all.
    pub fn is_lost(&self, id: NodeId) -> bool {
        self.node(id).is_none_or(|node| node.state == NodeState::Lost)
    }
}

impl Column {
    /// Returns a column that the table was made with.
    pub fn new(number: u32) -> Self {
        Self { number, filling: None, conversions: Vec::new() }
    }

    /// Says whether this is the column of a number, which it may have had before it was given another type.
    pub fn is(&self, number: u32) -> bool {
        self.number == number || self.conversions.iter().any(|conversion| conversion.from == number)
    }
}

impl Additions {
    /// Says whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns how many bytes its texts have.
    pub fn bytes(&self) -> usize {
        let indexes = self.indexes.iter().flat_map(|index| index.columns.iter().chain([&index.name]));
        let comments = self.columns.iter().chain(&self.constraints).flat_map(|(name, text)| [name, text]);
        indexes.chain(comments).chain(&self.comment).map(String::len).sum()
    }
}

impl Layout {
    /// Returns the number of the column at a place of the definition.
    pub fn number(&self, place: usize) -> Option<u32> {
        match self.columns.is_empty() {
            true => u32::try_from(place).ok(),
            false => self.columns.get(place).map(|column| column.number),
        }
    }
}

impl Table {
    /// Returns the values of a column that it has given out, if it has.
    pub fn counter(&self, column: u32) -> Option<Counter> {
        self.counters.iter().find(|counter| counter.column == column).copied()
    }

    /// Returns a fragment.
    pub fn fragment(&self, number: u32) -> Option<&Fragment> {
        usize::try_from(number).ok().and_then(|number| self.fragments.get(number))
    }

    /// Returns the fragments with what identifies them.
    pub fn numbered(&self) -> impl Iterator<Item = (FragmentId, &Fragment)> {
        let table = self.id;
        (0..).zip(&self.fragments).map(move |(number, fragment)| (FragmentId { table, number }, fragment))
    }

    /// Returns the rows of all fragments, those included that were deleted: round robin continues from
    /// there.
    pub fn rows_ever(&self) -> u64 {
        self.fragments.iter().fold(0, |rows, fragment| rows.saturating_add(fragment.rows_ever()))
    }

    /// Returns the rows of all fragments. The check of a catalog has seen that they can be counted.
    pub fn rows(&self) -> u64 {
        self.fragments.iter().fold(0, |rows, fragment| rows.saturating_add(fragment.rows))
    }

    /// Returns what became of a statement, if it is one of the last that were published.
    pub fn finished(&self, statement: StatementId) -> Option<&Finished> {
        self.finished.iter().find(|finished| finished.statement == statement)
    }
}

impl Fragment {
    /// Returns the rows that it has, and those that were deleted: it grows with each new row.
    pub fn rows_ever(&self) -> u64 {
        self.rows.saturating_add(self.deleted)
    }

    /// Returns the replica on a node.
    pub fn replica(&self, node: NodeId) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.node == node)
    }

    /// Returns the replicas that can be read at this epoch, the preferred one first.
    pub fn in_sync(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.iter().filter(|replica| replica.in_sync)
    }
}
