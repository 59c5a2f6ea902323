//! Tells who starts and ends nodes, one after the other, whether a node should get clients and whether the
//! next one may be ended; and has another node coordinate before this one ends.

use crate::door::Door;
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::peers::unexpected;
use hypostyle_placement::NodeId;
use hypostyle_placement::catalog::{Catalog, NodeState};
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked how many clients a node still has.
const LOOK: Duration = Duration::from_millis(200);

/// How long nodes are asked to take over. After that, they replace who coordinates by themselves.
const PATIENCE: Duration = Duration::from_secs(5);

impl Node {
    /// Checks that clients may be sent to the node: it is part of its cluster, and is to stay.
    ///
    /// # Errors
    /// `Busy` (57P03) that says why not.
    pub fn check_ready(&self) -> Result<()> {
        self.ready_by().map(drop)
    }

    /// Checks what [`Self::check_ready`] does, and that all replicas of the node are in sync. It asks the
    /// others first if the node was away: by what it knew then, they may seem to be.
    ///
    /// # Errors
    /// `Busy` (57P03) that says why not; `Connection` if no majority of the nodes is there to ask.
    pub fn check_in_sync(&self) -> Result<()> {
        if self.catalog().is_some() && self.doubt.is_there() {
            self.learn_after_absence()?;
        }
        let catalog = self.ready_by()?;
        let fragments = catalog.tables.iter().flat_map(|table| &table.fragments);
        let own: Vec<bool> =
            fragments.filter_map(|fragment| fragment.replica(self.id())).map(|own| own.in_sync).collect();
        match own.iter().filter(|in_sync| !**in_sync).count() {
            0 => Ok(()),
            behind => Err(not_yet(format!("{behind} of its {} replicas are not in sync", own.len()))),
        }
    }

    /// Returns the catalog by which the node is ready.
    fn ready_by(&self) -> Result<Arc<Catalog>> {
        let Some(catalog) = self.catalog() else {
            return Err(not_yet("it is not part of a cluster yet".into()));
        };
        match catalog.node(self.id()).map(|own| own.state) {
            Some(NodeState::Active) => Ok(catalog),
            Some(NodeState::Draining) => Err(not_yet("its replicas are moved away".into())),
            Some(NodeState::Lost) => Err(not_yet("it counts as lost".into())),
            None => Err(not_yet("it has left the cluster".into())),
        }
    }

    /// Says what lets the node's clients in, once.
    pub fn set_door(&self, door: Arc<dyn Door>) {
        let _already = self.door.set(door);
    }

    /// Has another node let no new clients in, and not coordinate, because it is about to end, and waits
    /// until its clients are gone. If who waits may not proceed, the node still lets no new ones in.
    ///
    /// # Errors
    /// Those of the node, and of `proceed`; `InvalidInput` for this node, which has the client who waits.
    pub fn drain_clients(&self, id: NodeId, proceed: &dyn Fn() -> Result<()>) -> Result<()> {
        if id == self.id() {
            return Err(Error::invalid_input(format!(
                "node \"{}\" cannot wait until you are gone: connect to another node, and run it there",
                self.name()
            )));
        }
        let mut before = None;
        loop {
            let Reply::Draining { clients } = self.ask(id, Request::Drain, None)? else {
                return Err(unexpected("another message"));
            };
            if before.replace(clients) != Some(clients) {
                tracing::info!(node = %id, clients, "a node drains, and has clients");
            }
            if clients == 0 {
                return Ok(());
            }
            proceed()?;
            thread::sleep(LOOK);
        }
    }

    /// Lets no new clients in.
    pub(crate) fn drain_here(&self) -> Result<Reply> {
        let none =
            || Error::unsupported(format!("node \"{}\" is no server that lets clients in", self.name()));
        let door = self.door.get().ok_or_else(none)?;
        door.close();
        self.hand_over()?;
        Ok(Reply::Draining { clients: door.clients() as u64 })
    }

    /// Has another node coordinate, if this one does: it is about to end, and nobody has to miss it first.
    ///
    /// # Errors
    /// Those of the last node that was asked, if none has taken over.
    pub fn hand_over(&self) -> Result<()> {
        let Some(catalog) = self.catalog().filter(|_| self.coordinates()) else { return Ok(()) };
        let others = catalog.nodes.iter();
        let others = others.filter(|member| member.id != self.id() && member.state == NodeState::Active);
        let (since, mut failed) = (Instant::now(), None);
        for member in others {
            match self.ask(member.id, Request::TakeOver, None) {
                Ok(Reply::TookOver) => return Ok(()),
                Ok(_) => failed = Some(unexpected("another message")),
                Err(error) => failed = Some(error),
            }
            if since.elapsed() > PATIENCE {
                break;
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

fn not_yet(why: String) -> Error {
    Error::new(ErrorKind::Busy, format!("the node is not ready: {why}")).with_sqlstate("57P03")
}
