//! What a cluster knows about itself: its nodes, tables, fragments and replicas.

mod change;
mod check;
mod difference;
mod entry;
mod publish;

pub use change::{Altered, Change, NewTable, Referred};
pub use check::NODES_MAX;
pub use difference::Difference;
pub use entry::{
    Additions, CATALOG_FORMAT, Catalog, Column, Conversion, Counter, Finished, Fragment, Index, Layout, Node,
    NodeState, Owner, Replica, STATEMENTS_KEPT, Table,
};
pub(crate) use publish::positions_of;
#[cfg(test)]
pub(crate) use publish::publish;
pub use publish::{Appended, Copied, Found, Publication, Restarted, Written};
