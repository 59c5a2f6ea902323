//! Brings a replica that is out of sync nearer to the others, and in the end into the set of those
//! in sync. One round begins a new life of the replica, so that nothing of before reaches it, and
//! copies the rows that it lacks.

use super::message::{Effect, Outcome, Reply, Request, Source};
use crate::catalog::{Catalog, Change, Copied};
use crate::id::{FragmentId, Life, NodeId};
use hypostyle_types::{Error, ErrorKind, Result};

/// One round of copying. Rounds that do not join let appends go on meanwhile. A round that joins is
/// a writer of the table, and so the only one; the rows that it copies should be few.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CatchUp {
    fragment: FragmentId,
    node: NodeId,
    joins: bool,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Restarting,
    Beginning { life: Life },
    Copying { request: Request, rows: u64 },
    Publishing,
    Finished,
}

impl CatchUp {
    /// Begins a round.
    ///
    /// # Errors
    /// `UnknownName` if there is no such replica, `InvalidInput` if it is in sync.
    pub fn begin(
        catalog: &Catalog,
        fragment: FragmentId,
        node: NodeId,
        joins: bool,
    ) -> Result<(Self, Effect)> {
        let missing = || {
            Error::new(ErrorKind::UnknownName, format!("there is no replica on node {node} of {fragment}"))
        };
        if catalog.replica(fragment, node).ok_or_else(missing)?.in_sync {
            return Err(Error::invalid_input(format!("the replica on node {node} of {fragment} is in sync")));
        }
        let change = Change::RestartReplica(fragment, node);
        Ok((Self { fragment, node, joins, phase: Phase::Restarting }, Effect::Commit(change)))
    }

    /// Goes on with the catalog that the last [`Effect::Commit`] has made, or with why it has not.
    pub fn committed(&mut self, catalog: Result<&Catalog>) -> Vec<Effect> {
        let catalog = match catalog {
            Ok(catalog) => catalog,
            Err(error) => return self.finish(Err(error)),
        };
        match self.phase {
            Phase::Restarting => match catalog.replica(self.fragment, self.node).map(|r| r.life) {
                Some(life) if self.joins => {
                    self.phase = Phase::Beginning { life };
                    let table = self.fragment.table;
                    vec![Effect::Commit(Change::Begin { table, statement: None })]
                }
                Some(life) => self.copy(catalog, life),
                None => self.finish(Err(gone())),
            },
            Phase::Beginning { life } => self.copy(catalog, life),
            Phase::Publishing => {
                let rows = catalog.replica(self.fragment, self.node).map_or(0, |replica| replica.rows);
                self.finish(Ok(rows))
            }
            Phase::Copying { .. } | Phase::Finished => Vec::new(),
        }
    }

    /// Asks for the rows, in the life that this round has begun. If another round has begun another
    /// one, that round goes on: two in one life would delete each other's rows.
    fn copy(&mut self, catalog: &Catalog, life: Life) -> Vec<Effect> {
        match self.request(catalog, life) {
            Ok((request, rows)) => {
                self.phase = Phase::Copying { request, rows };
                vec![Effect::Send(request)]
            }
            Err(error) => self.finish(Err(error)),
        }
    }

    /// Returns the request for the rows that the replica lacks at this epoch, and how many it has
    /// then.
    fn request(&self, catalog: &Catalog, life: Life) -> Result<(Request, u64)> {
        let unreadable =
            || Error::new(ErrorKind::Io, format!("{} is on no node that is there", self.fragment));
        let fragment = catalog.fragment(self.fragment).ok_or_else(gone)?;
        let replica = fragment.replica(self.node).filter(|replica| replica.life == life).ok_or_else(gone)?;
        let source =
            fragment.in_sync().find(|source| !catalog.is_lost(source.node)).ok_or_else(unreadable)?;
        let request = Request {
            term: catalog.term,
            fragment: self.fragment,
            node: self.node,
            life,
            token: catalog.table(self.fragment.table).ok_or_else(gone)?.token,
            base: replica.positions,
            rows: fragment.rows.saturating_sub(replica.rows),
            deletes: 0,
            source: Source::Replica {
                node: source.node,
                life: source.life,
                first: replica.rows,
                positions: source.positions,
            },
        };
        Ok((request, fragment.rows))
    }

    /// Returns the request if it is not answered yet: a node sends it again from time to time.
    pub fn waiting(&self) -> Option<Request> {
        if let Phase::Copying { request, .. } = &self.phase { Some(*request) } else { None }
    }

    /// Takes an answer. Those to other requests, and repeated ones, change nothing.
    pub fn receive(&mut self, reply: &Reply) -> Vec<Effect> {
        let Phase::Copying { request, rows } = self.phase else { return Vec::new() };
        let asked = (request.fragment, request.node, request.life, request.token);
        if asked != (reply.fragment, reply.node, reply.life, reply.token) {
            return Vec::new();
        }
        match reply.outcome {
            Outcome::Written { positions } => {
                self.phase = Phase::Publishing;
                vec![Effect::Commit(Change::Copied(Copied {
                    fragment: self.fragment,
                    node: self.node,
                    life: request.life,
                    base: request.base,
                    positions,
                    rows,
                    join: self.joins.then_some(request.token),
                }))]
            }
            Outcome::Refused(refusal) => {
                let message =
                    format!("node {} has not caught up with {}: {refusal:?}", self.node, self.fragment);
                self.finish(Err(Error::new(ErrorKind::Conflict, message)))
            }
        }
    }

    /// Gives the round up, because a node is silent.
    pub fn give_up(&mut self) -> Vec<Effect> {
        let message = format!("node {} has not caught up with {}: no answer", self.node, self.fragment);
        self.finish(Err(Error::new(ErrorKind::Io, message)))
    }

    fn finish(&mut self, result: Result<u64>) -> Vec<Effect> {
        self.phase = Phase::Finished;
        vec![Effect::Finish(result)]
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Conflict, "the replica was dropped, or another round has begun for it")
}
