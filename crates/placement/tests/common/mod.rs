//! What several tests need: nodes, and clusters of them.

#![allow(dead_code, reason = "each test binary uses a part")]

use hypostyle_placement::NodeId;
use hypostyle_placement::catalog::{Catalog, Change, Node, NodeState};
use uuid::Uuid;

pub fn id(number: usize) -> NodeId {
    NodeId(Uuid::from_u128(number as u128 + 1))
}

pub fn node(number: usize) -> Node {
    Node {
        id: id(number),
        name: format!("n{number}"),
        address: format!("host{number}:4953"),
        state: NodeState::Active,
    }
}

pub fn ids(count: usize) -> Vec<NodeId> {
    (0..count).map(id).collect()
}

/// Returns a cluster of some nodes without a table.
pub fn cluster(nodes: usize) -> Catalog {
    let catalog = Catalog::new(Uuid::from_u128(99), node(0)).unwrap();
    (1..nodes).fold(catalog, |catalog, number| catalog.apply(&Change::AddNode(node(number))).unwrap())
}
