//! Tables over several nodes: the catalog that nodes agree on, appends to all replicas of their
//! fragments, and queries of which parts run where the rows are.
//!
//! | module | does |
//! |---|---|
//! | [`node`] | one node: what it has stored of the cluster, and its answers to other nodes |
//! | [`message`] | what nodes ask each other |
//! | [`peers`] | how a node reaches others |
//! | `rows` | rows on their way |
//! | `write` | writes the rows of statements, and of other replicas, to the fragments of a node |
//! | [`forward`] | has the coordinator publish what a statement of another node changes |
//! | `admit` | adds nodes to the cluster, and refuses copies of them |
//! | `heard` | what other nodes have said that they keep |
//! | `ahead` | writers that begin before they are there |
//! | `helpers` | threads that are kept for what is sent to other nodes |
//! | [`coordinate`] | changes the catalog, and tables, on the node that coordinates |
//! | [`change`] | what a statement changes in a table: rows to delete, by their places, and new ones |
//! | `count` | gives out values of columns that count |
//! | `ranges` | such values that a node has, and has not given out |
//! | `share` | shares the rows of a statement out among fragments, and reads them as they are sent |
//! | [`backup`] | backs up all nodes, as they are at one moment |
//! | [`door`] | what lets the clients of a node in |
//! | `ready` | whether a node should get clients, and what it does before it ends |
//! | [`repair`] | moves replicas, and brings back those that were away |
//! | [`fit`] | makes the database of a node fit a catalog |
//! | `history` | what a node stores of catalogs, as changes of each other |
//! | `health` | what the node that coordinates knows of the others |
//! | `watch` | what a node has heard of the coordinator |
//! | `failover` | replaces a coordinator that a majority of the nodes has missed |
//! | `doubt` | whether a node may have missed something |
//! | `fresh` | learns what a node has missed, before it is read |
//! | [`shown`] | what users are told of the cluster |
//! | [`measure`] | what a node measures of others and of itself |
//! | [`table`] | tables as DataFusion sees them, and the scan that stands for their fragments |
//! | [`distribute`] | finds the parts of a logical plan that run on the nodes |
//! | [`gather`] | the operator that has such a part run, and collects its rows |
//! | `part` | such parts within the stages of a query |
//! | [`partitions`] | the parts of a query's rows that are read by themselves, for other engines |
//! | [`stages`] | runs what is above such parts on all nodes, where rows have to move between them |
//! | `groups` | how many groups such a part may have |
//! | `prune` | the fragments that such a part needs |
//! | [`fetch`] | the operator that fetches columns of the few rows that are left of a part's |
//! | [`codec`] | physical plans as bytes |
//! | `converter` | what DataFusion's messages do not tell of them |
//! | [`task`] | runs a part on a node |
//! | `weigh` | how many bytes replicas have |
//! | `tell` | brings a node catalogs, by what differs from the last one |
//! | [`travel`] | plans that travel within one process, for tests of what can be sent |
//!
//! What is decided without I/O is in the crate `hypostyle-placement` (docs/cluster.md).

#![forbid(unsafe_code)]
// What other nodes send is an error at worst.
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod admit;
mod ahead;
pub mod backup;
pub mod change;
pub mod codec;
mod converter;
pub mod coordinate;
mod count;
pub mod distribute;
pub mod door;
mod doubt;
mod failover;
pub mod fetch;
pub mod fit;
pub mod forward;
mod fresh;
pub mod gather;
mod groups;
mod health;
mod heard;
mod helpers;
mod history;
pub mod measure;
pub mod message;
pub mod node;
mod part;
pub mod partitions;
pub mod peers;
mod prune;
mod ranges;
mod ready;
pub mod repair;
mod rows;
mod share;
pub mod shown;
pub mod stages;
mod state;
pub mod table;
pub mod task;
mod tell;
pub mod travel;
mod watch;
mod weigh;
mod write;

pub use hypostyle_placement::catalog::Node as Member;
