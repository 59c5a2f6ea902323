//! Adds nodes to the cluster, and refuses databases that are copies of its nodes: whoever has the files of
//! before has forgotten rows that were acknowledged, and what it has promised to coordinators.

use crate::coordinate::{MAJORITY, start_thread};
use crate::heard::Kept;
use crate::message::{Addressed, Piece, Reply, Request};
use crate::node::Node;
use crate::peers::{Answer, is_behind, is_unreachable, not_here, unexpected};
use hypostyle_placement::catalog::{Catalog, Change, Node as Member, NodeState};
use hypostyle_placement::{Epoch, NodeId};
use hypostyle_sql::identifier::quoted;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The seconds after which a node looks again whether another process is the same node.
const ALONE: u64 = 5;

/// How long a node that begins waits before it looks again.
const AGAIN: Duration = Duration::from_millis(250);

impl Node {
    /// Adds a node, which must be there. One of the cluster that was drained is used again. One that is found
    /// at another address by now has moved with its database.
    ///
    /// # Errors
    /// `Connection` if it is not; `Conflict` if it is part of another cluster, or a copy of a node; those of
    /// [`Self::change`].
    pub fn add_node(&self, name: &str, address: &str) -> Result<Arc<Catalog>> {
        self.check_coordinates()?;
        self.ask_again()?;
        let unknown = Member {
            id: NodeId(Uuid::nil()),
            name: name.into(),
            address: address.into(),
            state: NodeState::Active,
        };
        let (own, heard) = (self.known_catalog()?, self.heard.all());
        let answer = self.peers.call(&unknown, &Addressed::to_anybody(own.cluster), None)?.reply()?;
        let Reply::Identity { node, cluster, promised, stored, .. } = answer else {
            return Err(unexpected("a message"));
        };
        if cluster.is_some_and(|cluster| cluster != own.cluster) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("the node at {address} is part of another cluster already"),
            ));
        }
        let Some(known) = own.node(node).filter(|known| known.name == name) else {
            return self.change(Change::AddNode(Member { id: node, ..unknown }));
        };
        if known.address == address {
            return self.change(match known.state {
                NodeState::Draining => Change::SetNodeState { node, state: NodeState::Active },
                NodeState::Active | NodeState::Lost => Change::AddNode(Member { id: node, ..unknown }),
            });
        }
        self.check_gone(known, own.cluster)?;
        let found = Member { address: address.into(), ..known.clone() };
        if cluster.is_none() {
            return Err(old_copy(&found, "it was made before the node was part of the cluster"));
        }
        let (kept, heard) = (Kept { promised, stored }, heard.get(&node).copied().unwrap_or_default());
        if kept.forgets(heard) {
            return Err(old_copy(&found, "the node has stored later states of the cluster since"));
        }
        self.check_rows(&own, &found)?;
        self.change(Change::MoveNode { node, address: address.into() })
    }

    /// Checks that a node does not answer any more where it was, if it is found at another address.
    ///
    /// # Errors
    /// `Conflict` (55000) if it does: one of the two would be a copy.
    fn check_gone(&self, known: &Member, cluster: Uuid) -> Result<()> {
        let answer = self.peers.call(known, &Addressed::to_anybody(cluster), None);
        match answer.and_then(Answer::reply) {
            Ok(Reply::Identity { node, .. }) if node == known.id => Err(not_here(format!(
                "node \"{}\" answers at {} as well: end it there before, because one of the two is a copy",
                known.name, known.address
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the database of a node has the rows that the catalog says: those of its replicas that are
    /// in sync. They were written before they were published, so only a copy of before lacks some. Whoever
    /// coordinates may not have heard of the node before, but knows these.
    ///
    /// # Errors
    /// `Conflict` (55000) if it lacks some; those of reaching it.
    fn check_rows(&self, own: &Catalog, found: &Member) -> Result<()> {
        let ask = |request| self.peers.call(found, &Addressed::new(own.cluster, found, request), None);
        let Reply::Catalog(known) = ask(Request::Catalog { after: Epoch(0) })?.reply()? else {
            return Err(unexpected("a message"));
        };
        let lacks = |table: &str| old_copy(found, &format!("it lacks rows of table \"{table}\""));
        let mut pieces = Vec::new();
        for table in &own.tables {
            // The node has the columns that it knew, if it was away when the table was altered.
            let theirs = known.as_ref().and_then(|known| known.content.table(table.id));
            for (fragment, entry) in table.numbered().filter(|(_, entry)| !entry.lost) {
                let replica = entry.replica(found.id);
                let Some(replica) = replica.filter(|own| own.in_sync && own.positions > 0) else { continue };
                let altered = theirs.ok_or_else(|| lacks(&table.name))?.layout.altered;
                pieces.push(Piece { altered, ..Piece::of(table, fragment, replica) });
            }
        }
        let lacking = match ask(Request::Have(pieces.clone())).and_then(Answer::reply) {
            Ok(Reply::Has { lacking }) => lacking,
            Ok(_) => return Err(unexpected("a message")),
            // An earlier release is asked for the rows behind the last ones of each fragment: there are none.
            Err(error) if error.sqlstate() == "08P01" => {
                let read = |piece: &Piece| Request::Read { piece: *piece, first: piece.rows };
                let failed = |piece: &Piece| {
                    let error = ask(read(piece)).and_then(Answer::rows).err()?;
                    Some((piece.fragment, error))
                };
                match pieces.iter().find_map(failed) {
                    Some((fragment, error)) if is_behind(&error) => Some(fragment),
                    Some((_, error)) => return Err(error),
                    None => None,
                }
            }
            Err(error) => return Err(error),
        };
        let table = lacking.and_then(|fragment| own.table(fragment.table));
        table.map_or(Ok(()), |table| Err(lacks(&table.name)))
    }

    /// Checks that no other process is this node where the cluster finds it: one of the two databases is a
    /// copy of the other, and both together could coordinate in one term. As long as there is one, this one
    /// coordinates nothing.
    ///
    /// # Errors
    /// `Conflict` (55000) if there is one.
    pub fn check_alone(&self) -> Result<()> {
        let Some(catalog) = self.catalog() else { return Ok(()) };
        let Some(own) = catalog.node(self.id()) else { return Ok(()) };
        let is_copy = match self.call(own, Request::Identify, None).and_then(Answer::reply) {
            Ok(Reply::Identity { run: Some(run), promised, stored, .. }) => {
                let is_another = run != self.run();
                if is_another {
                    self.heard.note(self.id(), Kept { promised, stored });
                }
                is_another
            }
            // Nobody knows, if the other one has been cut off.
            _ => self.is_copy.load(Ordering::Acquire),
        };
        self.is_copy.store(is_copy, Ordering::Release);
        self.check_no_copy()
    }

    /// Asks again whether another process is this node, if there was one the last time: somebody wants this
    /// one to coordinate, and so says that the other one has ended. That it does not answer is no proof: the
    /// silence counts together with that word, and only if this database has forgotten nothing that is known.
    ///
    /// # Errors
    /// `Conflict` (55000) if the other one answers, or this one has forgotten something, or may have.
    pub(crate) fn ask_again(&self) -> Result<()> {
        if !self.is_copy.load(Ordering::Acquire) {
            return Ok(());
        }
        let catalog = self.known_catalog()?;
        let Some(own) = catalog.node(self.id()) else { return self.check_no_copy() };
        match self.call(own, Request::Identify, None).and_then(Answer::reply) {
            Err(error) if is_unreachable(&error) => {}
            _ => return self.check_alone(),
        }
        self.check_remembers(&catalog, &Member { address: self.address().into(), ..own.clone() })?;
        tracing::warn!(
            node = self.name(),
            "this node may coordinate again: somebody says that the other one has ended"
        );
        self.is_copy.store(false, Ordering::Release);
        Ok(())
    }

    /// Checks that this database keeps what another process was heard to keep that is this node, and what all
    /// other nodes keep: any of them may have been in a majority with that process. One that is lost by the
    /// catalog may, too: it has a vote, and may have been promised a term by that process which the others
    /// hear of later (a test of `crates/placement/src/term/model.rs` shows what comes of it). Of two nodes,
    /// whoever is asked for a majority is the only other one, and tells the coordinator itself.
    ///
    /// # Errors
    /// `Conflict` (55000) if it keeps less, or a node does not answer.
    fn check_remembers(&self, catalog: &Catalog, found: &Member) -> Result<()> {
        let kept = self.kept();
        if kept.forgets(self.heard.of(self.id())) {
            return Err(old_copy(found, "the other one has promised or stored more than it"));
        }
        let others = catalog.nodes.len().saturating_sub(1);
        if others < 2 {
            return Ok(());
        }
        let heard = self.ask_others(catalog, &Request::Identify)?;
        let end = Instant::now() + MAJORITY;
        let mut silent: BTreeSet<NodeId> = catalog.nodes.iter().map(|member| member.id).collect();
        silent.remove(&self.id());
        while !silent.is_empty()
            && let Ok(answer) = heard.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            let Ok(Reply::Identity { node, promised, stored, .. }) = answer else { continue };
            if kept.forgets(Kept { promised, stored }) {
                return Err(old_copy(found, "other nodes have promised or stored more than it"));
            }
            silent.remove(&node);
        }
        match silent.is_empty() {
            true => Ok(()),
            false => Err(not_here(unsure(catalog, found, &silent))),
        }
    }

    /// Does what [`Self::check_alone`] says for a node that begins: the process that was it before may take a
    /// while to end.
    ///
    /// # Errors
    /// As [`Self::check_alone`], after some patience.
    pub fn begin_alone(&self, patience: Duration) -> Result<()> {
        let since = Instant::now();
        loop {
            match self.check_alone() {
                Err(error) if since.elapsed() < patience => {
                    tracing::warn!(%error, "the other process is waited for");
                    // It has promised nothing yet, whether or not the other one is reached next.
                    self.is_copy.store(false, Ordering::Release);
                    thread::sleep(AGAIN);
                }
                done => return done,
            }
        }
    }

    /// Refuses what only one process may do that is this node, if there was another one the last time.
    ///
    /// # Errors
    /// As [`Self::check_alone`].
    pub(crate) fn check_no_copy(&self) -> Result<()> {
        if !self.is_copy.load(Ordering::Acquire) {
            return Ok(());
        }
        let catalog = self.catalog();
        let own = catalog.as_ref().and_then(|catalog| catalog.node(self.id()));
        Err(not_here(format!(
            "node \"{}\" runs at {} already, with another database: one of the two is a copy, and would break what the \
             other has promised",
            self.name(),
            own.map_or("another address", |own| own.address.as_str())
        )))
    }

    /// Asks a node of the catalog for the state that it reads, and how many clients it has. One that has
    /// forgotten what it has said before is told of in the log.
    ///
    /// # Errors
    /// Those of reaching it.
    pub(crate) fn state_of(&self, node: NodeId) -> Result<(Epoch, Option<u64>)> {
        let heard = self.heard.of(node);
        match self.ask(node, Request::Identify, None)? {
            Reply::Identity { epoch, promised, stored, clients, .. } => {
                let kept = Kept { promised, stored };
                if kept.forgets(heard) {
                    tracing::error!(
                        %node,
                        "a node of the cluster has the files of an earlier time: it has forgotten what it has promised. \
                         Drop it, and add an empty one"
                    );
                }
                self.heard.note(node, kept);
                Ok((epoch, clients))
            }
            _ => Err(unexpected("a message")),
        }
    }
}

/// Looks from time to time whether another process is the same node, for as long as a node is open.
///
/// # Errors
/// `Io` if no thread can be started.
pub(crate) fn keep_alone(node: Weak<Node>) -> Result<()> {
    start_thread("hypostyle-alone", move || {
        for second in 1_u64.. {
            thread::sleep(Duration::from_secs(1));
            let Some(node) = node.upgrade() else { return };
            if second.is_multiple_of(ALONE)
                && let Err(error) = node.check_alone()
            {
                tracing::error!(%error, "this node coordinates nothing");
            }
        }
    })
}

/// Returns why a database is not taken for a node as long as some others do not say what they know of it, and
/// what somebody can do: the others, if they are a majority, take it for a node that has moved.
fn unsure(catalog: &Catalog, found: &Member, silent: &BTreeSet<NodeId>) -> String {
    let named = |member: &Member| match member.state {
        NodeState::Lost => format!("\"{}\" (lost)", member.name),
        NodeState::Active | NodeState::Draining => format!("\"{}\"", member.name),
    };
    let away = catalog.nodes.iter().filter(|member| silent.contains(&member.id));
    let away: Vec<String> = away.map(named).collect();
    let there = catalog.nodes.len().saturating_sub(silent.len() + 1);
    let or_moved = match there > catalog.nodes.len() / 2 {
        true => format!(
            ", or say ALTER CLUSTER ADD NODE {} ADDRESS '{}' on the node that coordinates",
            quoted(&found.name),
            found.address
        ),
        false => String::new(),
    };
    format!(
        "another process was node \"{}\" at {}: this one coordinates only once all other nodes have said that it has \
         forgotten nothing, and one of them does not answer: {}. Start it{or_moved}",
        found.name,
        catalog.node(found.id).map_or("?", |own| own.address.as_str()),
        away.join(", ")
    )
}

/// Returns the error for a database that is no node of the cluster any more.
fn old_copy(found: &Member, why: &str) -> Error {
    not_here(format!(
        "the database at {} is an old copy of node \"{}\": {why}. Give the node its own files, or drop it and add an \
         empty one",
        found.address, found.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_nodes_that_are_away_is_told_what_to_do() {
        let member = |number: u128, state| Member {
            id: NodeId(Uuid::from_u128(number)),
            name: format!("n{number}"),
            address: format!("h{number}:1"),
            state,
        };
        let mut catalog = Catalog::new(Uuid::from_u128(9), member(1, NodeState::Active)).unwrap();
        catalog.nodes.extend([2, 3, 4].map(|number| member(number, NodeState::Active)));
        catalog.nodes.push(member(5, NodeState::Lost));
        let found = Member { address: "elsewhere:1".into(), ..member(2, NodeState::Active) };
        let of = |numbers: &[u128]| -> BTreeSet<NodeId> {
            numbers.iter().map(|number| NodeId(Uuid::from_u128(*number))).collect()
        };
        let said = unsure(&catalog, &found, &of(&[5]));
        assert!(
            said.contains("node \"n2\" at h2:1") && said.contains("does not answer: \"n5\" (lost). Start")
        );
        assert!(said.ends_with(
            "say ALTER CLUSTER ADD NODE \"n2\" ADDRESS 'elsewhere:1' on the node that coordinates"
        ));
        // The others are no majority.
        let said = unsure(&catalog, &found, &of(&[4, 5]));
        assert!(said.ends_with("does not answer: \"n4\", \"n5\" (lost). Start it"), "{said}");
    }
}
