//! What a node tells users of its cluster: the rows of SHOW CLUSTER and SHOW FRAGMENTS, and of the
//! relations of the schema `hypostyle_cluster`.

use crate::measure::PeerMeasure;
use crate::node::Node;
use crate::repair::Health;
use crate::state::SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use hypostyle_placement::FragmentId;
use hypostyle_placement::catalog::{Catalog, Finished, Fragment, NodeState, Replica, Table};
use hypostyle_placement::layout::Bytes;
use hypostyle_placement::partition::Partitioning;
use hypostyle_types::{Error, Result, TableId};
use std::sync::Arc;

/// Returns a relation of the schema; `None` where there is none of that name.
///
/// # Errors
/// `Internal`, which no catalog leads to.
pub fn relation(node: &Node, catalog: &Catalog, name: &str) -> Result<Option<RecordBatch>> {
    match name {
        "node" => nodes(node, catalog).map(Some),
        "fragment" => fragments(catalog).map(Some),
        "replica" => batch(replicas(&of_replicas(catalog, None), catalog)).map(Some),
        "statement" => statements(catalog).map(Some),
        "peer" => peers(node).map(Some),
        _ => Ok(None),
    }
}

/// Returns the nodes. Whether one answers, and why it is not up to date, is known on the node that
/// coordinates.
///
/// # Errors
/// As [`relation`].
pub fn nodes(node: &Node, catalog: &Catalog) -> Result<RecordBatch> {
    let nodes = &catalog.nodes;
    let all = tables(catalog).flat_map(|table| &table.fragments);
    let count = |of: &hypostyle_placement::catalog::Node| {
        all.clone().filter(|fragment| fragment.replica(of.id).is_some()).count() as u64
    };
    let health = node.health();
    let health: Vec<Option<&Health>> = nodes.iter().map(|node| health.get(&node.id)).collect();
    batch([
        ("node", text(nodes.iter().map(|node| node.name.as_str()))),
        ("address", text(nodes.iter().map(|node| node.address.as_str()))),
        ("state", text(nodes.iter().map(|node| state(node.state)))),
        ("coordinator", truths(nodes.iter().map(|node| Some(node.id == catalog.coordinator)))),
        ("replicas", numbers(nodes.iter().map(count))),
        ("epoch", numbers(nodes.iter().map(|_| catalog.epoch.0))),
        ("term", numbers(nodes.iter().map(|_| catalog.term.0))),
        ("id", text(nodes.iter().map(|node| node.id.to_string()))),
        ("reachable", truths(health.iter().map(|health| health.map(|health| health.is_reachable)))),
        (
            "problem",
            Arc::new(StringArray::from_iter(
                health.iter().map(|health| health.and_then(|health| health.problem.as_deref())),
            )),
        ),
        (
            "clients",
            Arc::new(UInt64Array::from_iter(health.iter().map(|health| health.and_then(|of| of.clients)))),
        ),
    ])
}

fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Active => "active",
        NodeState::Draining => "draining",
        NodeState::Lost => "lost",
    }
}

/// Returns the tables that users have made; others stand for sequences.
fn tables(catalog: &Catalog) -> impl Iterator<Item = &Table> + Clone {
    catalog.tables.iter().filter(|table| table.schema != SCHEMA)
}

/// A replica, with what it is of, and its place among those of the fragment.
type OfReplica<'a> = (&'a Table, FragmentId, &'a Fragment, usize, &'a Replica);

/// Returns the replicas of all fragments, or of those of one table, with the bytes that nodes have told.
///
/// # Errors
/// As [`relation`].
pub fn weighed_replicas(catalog: &Catalog, only: Option<TableId>, told: &Bytes) -> Result<RecordBatch> {
    let rows = of_replicas(catalog, only);
    let bytes = rows.iter().map(|row| told.get(&(row.1, row.4.node)).copied());
    let bytes: ArrayRef = Arc::new(UInt64Array::from_iter(bytes));
    batch(replicas(&rows, catalog).into_iter().chain([("bytes", bytes)]))
}

fn of_replicas(catalog: &Catalog, only: Option<TableId>) -> Vec<OfReplica<'_>> {
    let tables = tables(catalog).filter(|table| only.is_none_or(|id| id == table.id));
    let of_fragment = |(table, id, fragment)| {
        let replicas: &Fragment = fragment;
        replicas
            .replicas
            .iter()
            .enumerate()
            .map(move |(place, replica)| (table, id, fragment, place, replica))
    };
    tables.flat_map(numbered).flat_map(of_fragment).collect()
}

fn replicas(rows: &[OfReplica<'_>], catalog: &Catalog) -> [(&'static str, ArrayRef); 9] {
    [
        ("schema", text(rows.iter().map(|row| row.0.schema.as_str()))),
        ("table", text(rows.iter().map(|row| row.0.name.as_str()))),
        ("fragment", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.1.number)))),
        ("node", text(rows.iter().map(|row| catalog.node_name(row.4.node)))),
        ("preferred", truths(rows.iter().map(|row| Some(row.3 == 0)))),
        ("in_sync", truths(rows.iter().map(|row| Some(row.4.in_sync)))),
        ("rows", numbers(rows.iter().map(|row| row.4.rows))),
        ("positions", numbers(rows.iter().map(|row| row.4.positions))),
        ("lost", truths(rows.iter().map(|row| Some(row.2.lost)))),
    ]
}

fn fragments(catalog: &Catalog) -> Result<RecordBatch> {
    let rows: Vec<(&Table, FragmentId, &Fragment)> = tables(catalog).flat_map(numbered).collect();
    let in_sync = |fragment: &Fragment| fragment.in_sync().count() as u64;
    batch([
        ("schema", text(rows.iter().map(|row| row.0.schema.as_str()))),
        ("table", text(rows.iter().map(|row| row.0.name.as_str()))),
        ("fragment", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.1.number)))),
        ("partitioned_by", text(rows.iter().map(|row| scheme(&row.0.partitioning)))),
        ("rows", numbers(rows.iter().map(|row| row.2.rows))),
        ("deleted", numbers(rows.iter().map(|row| row.2.deleted))),
        ("replicas", numbers(rows.iter().map(|row| row.2.replicas.len() as u64))),
        ("in_sync", numbers(rows.iter().map(|row| in_sync(row.2)))),
        ("lost", truths(rows.iter().map(|row| Some(row.2.lost)))),
    ])
}

fn scheme(partitioning: &Partitioning) -> &'static str {
    match partitioning {
        Partitioning::Hash { .. } => "hash",
        Partitioning::Range { .. } => "range",
        Partitioning::RoundRobin { .. } => "round robin",
        Partitioning::Replicated => "replicated",
    }
}

/// Returns the last statements that were published.
fn statements(catalog: &Catalog) -> Result<RecordBatch> {
    let of_table = |table| {
        let finished: &Table = table;
        finished.finished.iter().map(move |finished| (table, finished))
    };
    let rows: Vec<(&Table, &Finished)> = catalog.tables.iter().flat_map(of_table).collect();
    batch([
        ("schema", text(rows.iter().map(|row| row.0.schema.as_str()))),
        ("table", text(rows.iter().map(|row| row.0.name.as_str()))),
        ("id", text(rows.iter().map(|row| row.1.statement.to_string()))),
        ("token", numbers(rows.iter().map(|row| row.1.token.0))),
        ("rows", numbers(rows.iter().map(|row| row.1.rows))),
    ])
}

/// Returns what this node has measured of each other one.
fn peers(node: &Node) -> Result<RecordBatch> {
    let peers = node.peer_measures();
    let counts = |of: fn(&PeerMeasure) -> u64| numbers(peers.iter().map(of));
    let waited = peers.iter().map(|peer| peer.waited.as_secs_f64());
    batch([
        ("peer", text(peers.iter().map(|peer| peer.peer.as_str()))),
        ("reachable", truths(peers.iter().map(|peer| peer.reachable))),
        ("requests", counts(|peer| peer.requests)),
        ("unreachable", counts(|peer| peer.unreachable)),
        ("failed", counts(|peer| peer.failed)),
        ("bytes_sent", counts(|peer| peer.bytes_sent)),
        ("bytes_received", counts(|peer| peer.bytes_received)),
        ("rows_received", counts(|peer| peer.rows_received)),
        ("seconds_waited", Arc::new(Float64Array::from_iter_values(waited))),
        ("idle_connections", counts(|peer| peer.idle_connections)),
    ])
}

fn numbered(table: &Table) -> impl Iterator<Item = (&Table, FragmentId, &Fragment)> {
    table.numbered().map(move |(id, fragment)| (table, id, fragment))
}

fn text<T: AsRef<str>>(values: impl Iterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn truths(values: impl Iterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(BooleanArray::from_iter(values))
}

fn batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> Result<RecordBatch> {
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns)
        .map_err(|error| Error::internal(format!("cannot list what the cluster has: {error}")))
}
