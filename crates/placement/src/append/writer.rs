//! The coordinator's side of an append: begin, send, publish.

use super::message::{Effect, Outcome, Refusal, Reply, Request, Source};
use crate::catalog::{Appended, Catalog, Change, Fragment, Publication, Written};
use crate::id::{FragmentId, Life, NodeId, StatementId, Term, Token};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::collections::BTreeMap;

/// What a statement does to a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// The number of new rows.
    pub rows: u64,
    /// The number of rows that are deleted.
    pub deletes: u64,
    /// [`crate::catalog::Fragment::deleted`] when these were found.
    pub seen: u64,
    /// [`crate::catalog::Fragment::rows_ever`] when no row was found there that has a key of the new ones;
    /// `None` if there are no keys.
    pub free: Option<u64>,
}

impl Part {
    /// Makes a part of new rows alone.
    pub fn of_rows(rows: u64) -> Self {
        Self { rows, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 && self.deletes == 0
    }

    /// Says what others have done to the fragment since that stands against what was found there.
    fn differs_from(&self, fragment: Option<&Fragment>) -> Option<&'static str> {
        if self.deletes > 0 && fragment.map(|fragment| fragment.deleted) != Some(self.seen) {
            return Some("changed or deleted");
        }
        // Rows that are gone since have no keys that are in the way.
        let is_other = self.free.is_some() && fragment.map(Fragment::rows_ever) != self.free;
        (self.rows > 0 && is_other).then_some("added")
    }
}

/// One attempt of a statement that appends rows to a table, or deletes some: an update does both. After
/// [`Effect::Finish`] it does nothing more; another attempt of the same statement is another writer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    table: TableId,
    statement: StatementId,
    /// What becomes of each fragment whose rows change.
    parts: BTreeMap<u32, Part>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Beginning,
    Writing { term: Term, token: Token, targets: Vec<Target> },
    Publishing { token: Token },
    Finished,
}

/// A replica that gets rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    fragment: u32,
    node: NodeId,
    life: Life,
    base: u64,
    state: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    Waiting,
    Written(u64),
    Failed,
}

impl Append {
    /// Begins an append, unless the statement is published already: then its result is returned.
    /// `parts` says what becomes of each fragment.
    ///
    /// # Errors
    /// `UnknownName` if there is no such table, `InvalidInput` if it has no such fragment, `Io`
    /// (58030) if a fragment is lost.
    pub fn begin(
        catalog: &Catalog,
        table: TableId,
        statement: StatementId,
        parts: BTreeMap<u32, Part>,
    ) -> Result<(Option<Self>, Effect)> {
        let unknown =
            || Error::new(ErrorKind::UnknownName, format!("there is no table {table} in the cluster"));
        let entry = catalog.table(table).ok_or_else(unknown)?;
        if let Some(finished) = entry.finished(statement) {
            return Ok((None, Effect::Finish(Ok(finished.rows))));
        }
        for &number in parts.keys() {
            let none = || Error::invalid_input(format!("table \"{}\" has no fragment {number}", entry.name));
            if entry.fragment(number).ok_or_else(none)?.lost {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("fragment {number} of table \"{}\" is lost: its nodes were dropped", entry.name),
                ));
            }
        }
        let parts = parts.into_iter().filter(|(_, part)| !part.is_empty()).collect();
        let append = Self { table, statement, parts, phase: Phase::Beginning };
        Ok((Some(append), Effect::Commit(Change::Begin { table, statement: Some(statement) })))
    }

    /// Goes on with the catalog that [`Change::Begin`] has made, or with why it has not.
    pub fn begun(&mut self, catalog: Result<&Catalog>) -> Vec<Effect> {
        let found = catalog.and_then(|catalog| {
            let gone = || Error::new(ErrorKind::Conflict, "the table was dropped");
            Ok((catalog.term, catalog.table(self.table).ok_or_else(gone)?))
        });
        let (term, table) = match found {
            Ok(found) if self.phase == Phase::Beginning => found,
            Ok(_) => return Vec::new(),
            Err(error) => return self.finish(Err(error)),
        };
        let mut targets = Vec::new();
        for (&fragment, part) in &self.parts {
            let found = table.fragment(fragment);
            if let Some(what) = part.differs_from(found) {
                let why = format!(
                    "another statement has {what} rows of table \"{}\" since this one read them",
                    table.name
                );
                return self.finish(Err(Error::new(ErrorKind::Conflict, why)));
            }
            for replica in found.into_iter().flat_map(|fragment| fragment.in_sync()) {
                targets.push(Target {
                    fragment,
                    node: replica.node,
                    life: replica.life,
                    base: replica.positions,
                    state: Progress::Waiting,
                });
            }
        }
        self.phase = Phase::Writing { term, token: table.token, targets };
        let requests: Vec<Effect> = self.waiting().into_iter().map(Effect::Send).collect();
        // Without rows there is nobody to wait for.
        if requests.is_empty() { self.settle() } else { requests }
    }

    /// Returns the requests that are not answered yet: a node sends them again from time to time.
    pub fn waiting(&self) -> Vec<Request> {
        let Phase::Writing { term, token, targets } = &self.phase else { return Vec::new() };
        let unanswered = targets.iter().filter(|target| target.state == Progress::Waiting);
        unanswered
            .map(|target| Request {
                term: *term,
                fragment: FragmentId { table: self.table, number: target.fragment },
                node: target.node,
                life: target.life,
                token: *token,
                base: target.base,
                rows: self.part(target.fragment).rows,
                deletes: self.part(target.fragment).deletes,
                source: Source::Statement(self.statement),
            })
            .collect()
    }

    /// Takes an answer. Those of other writers, and repeated ones, change nothing.
    pub fn receive(&mut self, reply: &Reply) -> Vec<Effect> {
        let table = self.table;
        let Phase::Writing { token, targets, .. } = &mut self.phase else { return Vec::new() };
        let is_meant = |target: &&mut Target| {
            target.state == Progress::Waiting
                && (FragmentId { table, number: target.fragment }, target.node, target.life)
                    == (reply.fragment, reply.node, reply.life)
        };
        let Some(target) = targets.iter_mut().find(is_meant).filter(|_| reply.token == *token) else {
            return Vec::new();
        };
        target.state = match reply.outcome {
            Outcome::Written { positions } => Progress::Written(positions),
            Outcome::Refused(Refusal::Token(_)) => {
                return self.finish(Err(overtaken("another writer of the table has begun")));
            }
            Outcome::Refused(Refusal::Term(term)) => {
                return self.finish(Err(overtaken(&format!("a coordinator of term {term} has begun"))));
            }
            Outcome::Refused(_) => Progress::Failed,
        };
        self.settle()
    }

    /// Gives up a replica that has not answered: its node is silent, or its connection is broken.
    /// It may have written the rows nevertheless.
    pub fn give_up(&mut self, node: NodeId, fragment: Option<u32>) -> Vec<Effect> {
        let Phase::Writing { targets, .. } = &mut self.phase else { return Vec::new() };
        for target in targets {
            let is_meant = target.node == node && fragment.is_none_or(|number| number == target.fragment);
            if is_meant && target.state == Progress::Waiting {
                target.state = Progress::Failed;
            }
        }
        self.settle()
    }

    /// Finishes with what came of [`Change::Publish`].
    pub fn published(&mut self, catalog: Result<&Catalog>) -> Vec<Effect> {
        let Phase::Publishing { .. } = self.phase else { return Vec::new() };
        let rows = self.parts.values().map(|part| part.rows).sum();
        self.finish(catalog.map(|_| rows))
    }

    /// Finishes when nobody knows whether [`Change::Publish`] was stored, because the coordinator
    /// was deposed meanwhile. The client repeats the statement and gets its result, or a new
    /// attempt.
    pub fn unknown(&mut self) -> Vec<Effect> {
        self.finish(Err(Error::new(
            ErrorKind::Connection,
            format!("nobody knows whether statement {} was committed: repeat it", self.statement),
        )
        .with_sqlstate("08007")))
    }

    /// Returns the token of the writer, once it has one.
    pub fn token(&self) -> Option<Token> {
        match self.phase {
            Phase::Writing { token, .. } | Phase::Publishing { token } => Some(token),
            Phase::Beginning | Phase::Finished => None,
        }
    }

    fn part(&self, fragment: u32) -> Part {
        self.parts.get(&fragment).copied().unwrap_or_default()
    }

    fn finish(&mut self, result: Result<u64>) -> Vec<Effect> {
        self.phase = Phase::Finished;
        vec![Effect::Finish(result)]
    }

    /// Publishes when no replica is waited for, if each fragment has one with the rows.
    fn settle(&mut self) -> Vec<Effect> {
        let Phase::Writing { token, targets, .. } = &self.phase else { return Vec::new() };
        if targets.iter().any(|target| target.state == Progress::Waiting) {
            return Vec::new();
        }
        let (token, mut fragments) = (*token, Vec::new());
        for (&number, &Part { rows, deletes, .. }) in &self.parts {
            let replicas: Vec<Written> =
                targets.iter().filter(|target| target.fragment == number).map(Target::written).collect();
            if replicas.iter().all(|written| written.positions.is_none()) {
                let nodes: Vec<String> = replicas.iter().map(|written| written.node.to_string()).collect();
                return self.finish(Err(Error::new(
                    ErrorKind::Io,
                    format!(
                        "no node has written the rows of fragment {number} of table {}: asked were {}",
                        self.table,
                        nodes.join(", ")
                    ),
                )));
            }
            fragments.push(Appended { number, rows, deletes, replicas });
        }
        self.phase = Phase::Publishing { token };
        let (table, statement) = (self.table, self.statement);
        // Whoever has the statement says what else it has found and done.
        let (found, restarts) = (Vec::new(), Vec::new());
        let publication = Publication { table, token, statement, fragments, found, restarts };
        vec![Effect::Commit(Change::Publish(publication))]
    }
}

impl Target {
    fn written(&self) -> Written {
        let positions = match self.state {
            Progress::Written(positions) => Some(positions),
            Progress::Waiting | Progress::Failed => None,
        };
        Written { node: self.node, life: self.life, base: self.base, positions }
    }
}

fn overtaken(why: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("nothing was changed: {why}"))
}
