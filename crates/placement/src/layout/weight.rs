//! What fragments weigh: how many bytes their rows have, as far as nodes have told it.

use crate::catalog::{Replica, Table};
use crate::id::{FragmentId, NodeId};
use std::collections::BTreeMap;

/// The bytes that replicas have on their nodes, with the rows that nobody sees. The catalog does not know
/// them: nodes are asked, and those that are away or run an earlier release tell none.
pub type Bytes = BTreeMap<(FragmentId, NodeId), u64>;

/// The bytes of a row, if nothing is known of its table.
pub(super) const ROW_BYTES: u64 = 64;

/// Returns the bytes of the rows of each fragment. One of which no node has told any has as many bytes for a
/// row as the others together.
pub(super) fn weights(table: &Table, bytes: &Bytes) -> Vec<u64> {
    let told = table.numbered().map(|(id, fragment)| {
        let of_replica = |replica: &Replica| Some(of_rows(replica, *bytes.get(&(id, replica.node))?));
        (fragment.rows, fragment.in_sync().filter_map(of_replica).max())
    });
    let told: Vec<(u64, Option<u64>)> = told.collect();
    let known = told.iter().filter_map(|(rows, bytes)| Some((*rows, (*bytes)?)));
    let (rows, bytes) = known.fold((0_u128, 0_u128), |(rows, bytes), (more, theirs)| {
        (rows + u128::from(more), bytes + u128::from(theirs))
    });
    let of_row = bytes.checked_div(rows).map_or(ROW_BYTES, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
    told.into_iter().map(|(rows, bytes)| bytes.unwrap_or_else(|| rows.saturating_mul(of_row))).collect()
}

/// Returns the part of a replica's bytes that its rows have, which alone are copied.
fn of_rows(replica: &Replica, bytes: u64) -> u64 {
    let all = u128::from(bytes) * u128::from(replica.rows);
    let part = all.checked_div(u128::from(replica.positions)).unwrap_or_default();
    u64::try_from(part).unwrap_or(u64::MAX)
}
