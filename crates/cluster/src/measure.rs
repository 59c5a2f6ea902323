//! What a node measures: of the other nodes that it asks, and of itself.

use crate::message::Request;
use crate::node::Node;
pub use crate::peers::PeerMeasure;
use hypostyle_placement::{Epoch, Term};
use hypostyle_sync::Mutex;
use std::collections::BTreeMap;

/// What a node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMeasure {
    /// The state of the catalog that it reads.
    pub epoch: Epoch,
    /// The term of the coordinator that has published it.
    pub term: Term,
    /// Whether it is that coordinator.
    pub coordinates: bool,
    /// The replicas that it has.
    pub replicas: u64,
    /// Those of them that are not in sync.
    pub replicas_behind: u64,
}

/// What other nodes have asked a node for.
#[derive(Debug, Default)]
pub struct Served(Mutex<BTreeMap<&'static str, u64>>);

/// The kinds of requests.
const KINDS: [&str; 7] = ["append", "backup", "catalog", "identify", "read", "task", "write"];

impl Served {
    /// Counts a request of another node.
    pub fn count(&self, request: &Request) {
        let kind = match request {
            Request::Append { .. } | Request::AppendAll { .. } | Request::Update { .. } => "append",
            Request::Ask { .. }
            | Request::Store { .. }
            | Request::Catalog { .. }
            | Request::TakeOver
            | Request::Drain
            | Request::InRows => "catalog",
            Request::Backup { .. } => "backup",
            Request::Identify | Request::Missed(_) | Request::Weigh { .. } | Request::Have(_) => "identify",
            Request::Read { .. } => "read",
            Request::Run { .. } | Request::Stage(_) | Request::Rows(_) => "task",
            Request::Write { .. }
            | Request::WriteValues { .. }
            | Request::WriteAll { .. }
            | Request::Count { .. }
            | Request::Define(_) => "write",
        };
        *self.0.lock().entry(kind).or_default() += 1;
    }

    /// Returns how often each kind of requests has come.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.lock();
        KINDS.map(|kind| (kind, counts.get(kind).copied().unwrap_or(0))).into()
    }
}

impl Node {
    /// Returns what the node tells of itself; `None` until it is part of a cluster.
    pub fn measure(&self) -> Option<NodeMeasure> {
        let catalog = self.catalog()?;
        let fragments = catalog.tables.iter().flat_map(|table| &table.fragments);
        let own = fragments.filter_map(|fragment| fragment.replica(self.id()));
        let (replicas, replicas_behind) =
            own.fold((0, 0), |(all, behind), replica| (all + 1, behind + u64::from(!replica.in_sync)));
        Some(NodeMeasure {
            epoch: catalog.epoch,
            term: catalog.term,
            coordinates: self.coordinates(),
            replicas,
            replicas_behind,
        })
    }

    /// Returns what the node has measured of each other node of its cluster.
    pub fn peer_measures(&self) -> Vec<PeerMeasure> {
        let Some(catalog) = self.catalog() else { return Vec::new() };
        let mut known: BTreeMap<String, PeerMeasure> =
            self.peers.measures().into_iter().map(|measure| (measure.peer.clone(), measure)).collect();
        let others = catalog.nodes.iter().filter(|node| node.id != self.id());
        let measure = |node: &hypostyle_placement::catalog::Node| {
            let none = || PeerMeasure { peer: node.name.clone(), ..PeerMeasure::default() };
            known.remove(&node.name).unwrap_or_else(none)
        };
        others.map(measure).collect()
    }
}
