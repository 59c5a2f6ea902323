//! How many bytes replicas have: each node knows it of its own, and tells those who ask.

use crate::message::{Reply, Request};
use crate::node::Node;
use crate::state;
use hypostyle_placement::FragmentId;
use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::layout::Bytes;
use hypostyle_types::{Result, TableId};
use std::time::{Duration, Instant};

/// How long nodes are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

impl Node {
    /// Returns how many bytes the replicas of all tables have, or of one: of those nodes that tell it soon.
    ///
    /// # Errors
    /// Those of this node.
    pub fn bytes_of_replicas(&self, catalog: &Catalog, only: Option<TableId>) -> Result<Bytes> {
        let heard = self.ask_others(catalog, &Request::Weigh { table: only })?;
        let own = self.own_bytes(only)?;
        let mut bytes: Bytes = own.into_iter().map(|(id, bytes)| ((id, self.id()), bytes)).collect();
        let end = Instant::now() + PATIENCE;
        // It ends, too, when all have answered.
        while let Ok(reply) = heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
            match reply {
                Ok(Reply::Weighed { node, fragments }) => {
                    bytes.extend(fragments.into_iter().map(|(id, bytes)| ((id, node), bytes)));
                }
                Ok(_) => return Err(crate::peers::unexpected("a message")),
                // One of an earlier release does not know it.
                Err(error) => {
                    tracing::debug!(%error, "a node does not tell how many bytes its replicas have")
                }
            }
        }
        Ok(bytes)
    }

    /// Returns how many bytes this node's replicas have of all tables, or of one.
    pub(crate) fn own_bytes(&self, only: Option<TableId>) -> Result<Vec<(FragmentId, u64)>> {
        let snapshot = self.database().unpinned_snapshot()?;
        let fragments = state::fragments(&snapshot).filter(|id| only.is_none_or(|table| table == id.table));
        Ok(fragments.filter_map(|id| Some((id, state::fragment(&snapshot, id)?.bytes()))).collect())
    }
}
