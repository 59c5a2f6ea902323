//! The changes by which appends become visible. They compare what the writer has seen with what the
//! catalog has: the writer's token, and the positions of the replicas.

use super::entry::{Catalog, Finished, Fragment, STATEMENTS_KEPT, Table};
use crate::id::{FragmentId, Life, NodeId, StatementId, Token};
use crate::rules::Rules;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use serde::{Deserialize, Serialize};

/// Publishes what a statement has done to the fragments of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// The table.
    pub table: TableId,
    /// The token of the writer.
    pub token: Token,
    /// The statement, whose result is kept.
    pub statement: StatementId,
    /// The fragments that have got or lost rows.
    pub fragments: Vec<Appended>,
    /// What the statement has found in tables that foreign keys connect with this one. An earlier release
    /// does not know this, and refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Found>,
    /// The columns that count anew, of this table and others. An earlier release does not know this, and
    /// refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restarted>,
}

/// Says that a column counts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restarted {
    /// The table.
    pub table: TableId,
    /// The number of the column.
    pub column: u32,
    /// The last value before those that are given out next.
    pub last: u64,
}

/// What a statement has found in a table for a foreign key, or its transaction has locked. If others have
/// changed that since, the statement is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The table.
    pub table: TableId,
    /// How many rows each fragment had ever had, if none refers to a key that is gone; else there are none
    /// here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<u64>,
    /// How many rows of each fragment were ever deleted, if keys are there that new rows refer to, or rows
    /// are locked; else there are none here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<u64>,
    /// Says that rows of the statement have to do with those of fragments of equal numbers alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// The fragments of rows that are locked, which alone count. What is found for a foreign key names none,
    /// and counts for all. An earlier release does not know this, and refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<u32>,
}

impl Found {
    /// Returns what is found in a table of which nothing is known yet.
    pub fn nothing(table: TableId) -> Self {
        Self { table, rows: Vec::new(), deleted: Vec::new(), together: false, fragments: Vec::new() }
    }

    /// Checks that the table is as it was found, for a statement that changes some fragments; of any, if it
    /// does not say which.
    pub(super) fn check(&self, catalog: &Catalog, changed: Option<&[Appended]>) -> Result<()> {
        let table = catalog.table(self.table);
        let table = table.ok_or_else(|| conflict(format!("table {} was dropped meanwhile", self.table)))?;
        // Rows that are gone since referred to nothing, and new keys are in nobody's way.
        let changed = changed.filter(|_| self.together);
        let is_meant = |number: u32| {
            changed.is_none_or(|changed| changed.iter().any(|fragment| fragment.number == number))
                && (self.fragments.is_empty() || self.fragments.contains(&number))
        };
        let is_same = is_as_found(&self.rows, table, is_meant, Fragment::rows_ever)
            && is_as_found(&self.deleted, table, is_meant, |fragment| fragment.deleted);
        match is_same {
            true => Ok(()),
            false => Err(conflict(format!(
                "another statement has changed rows of table \"{}\", to which a foreign key leads or which are locked, \
                 since this one read them",
                table.name
            ))),
        }
    }
}

/// Says whether the fragments of a table that are meant still have some numbers, if these are known.
fn is_as_found(
    numbers: &[u64],
    table: &Table,
    is_meant: impl Fn(u32) -> bool,
    of: impl Fn(&Fragment) -> u64,
) -> bool {
    let mut fragments = (0..).zip(numbers.iter().zip(&table.fragments));
    numbers.is_empty()
        || (numbers.len() == table.fragments.len()
            && fragments.all(|(number, (seen, fragment))| !is_meant(number) || *seen == of(fragment)))
}

/// Checks that tables are as a statement has found them, and that it knows all tables which refer to rows
/// that it deletes.
///
/// # Errors
/// `Conflict` if they are not.
pub(super) fn check_found(catalog: &Catalog, publication: &Publication) -> Result<()> {
    publication.found.iter().try_for_each(|found| found.check(catalog, Some(&publication.fragments)))?;
    if publication.fragments.iter().all(|fragment| fragment.deletes == 0) {
        return Ok(());
    }
    // Who has locked rows of a table need not know that these refer to others.
    let is_for_keys = |found: &&Found| found.fragments.is_empty();
    let is_known =
        |table: &Table| publication.found.iter().filter(is_for_keys).any(|found| found.table == table.id);
    match catalog.referring(publication.table).find(|table| !is_known(table)) {
        Some(other) => Err(conflict(format!("table \"{}\" refers to the table since", other.name))),
        None => Ok(()),
    }
}

/// What a statement has written to a fragment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Appended {
    /// The number of the fragment.
    pub number: u32,
    /// The new rows.
    pub rows: u64,
    /// The rows that are deleted.
    pub deletes: u64,
    /// All replicas that were in sync when the append began.
    pub replicas: Vec<Written>,
}

/// What an append has written to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The node.
    pub node: NodeId,
    /// The life of the replica.
    pub life: Life,
    /// The positions that it had.
    pub base: u64,
    /// The positions that it has now; `None` if it has not answered. It is out of sync then.
    pub positions: Option<u64>,
}

/// Says that a replica which was out of sync has got more rows of its fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// The fragment.
    pub fragment: FragmentId,
    /// The node of the replica.
    pub node: NodeId,
    /// The life of the replica.
    pub life: Life,
    /// The positions that it had.
    pub base: u64,
    /// The positions that it has now.
    pub positions: u64,
    /// The rows that it has now.
    pub rows: u64,
    /// The token of the writer as which the last rows were copied: the replica is in sync then.
    pub join: Option<Token>,
}

pub(super) fn conflict(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Conflict, message)
}

/// Refuses a writer after which another one has begun.
fn check_token(table: &Table, token: Token) -> Result<()> {
    if table.token != token {
        return Err(conflict(format!(
            "another writer of table \"{}\" has begun: its token is {}, and this one's is {token}",
            table.name, table.token
        )));
    }
    Ok(())
}

/// Returns the catalog with an append.
///
/// # Errors
/// `Conflict` if another writer has begun, if the statement is published already, or if the
/// replicas that are in sync are not those, in that state, which the append began with.
/// `Io` if no replica of a fragment has the rows.
pub(crate) fn publish(catalog: &Catalog, publication: &Publication, rules: Rules) -> Result<Catalog> {
    let mut next = catalog.following()?;
    let life = next.life();
    let table = next.table_mut(publication.table)?;
    if rules.compare_and_set {
        check_token(table, publication.token)?;
        if table.finished(publication.statement).is_some() {
            return Err(conflict(format!("statement {} is published already", publication.statement)));
        }
    }
    let mut rows = 0_u64;
    for appended in &publication.fragments {
        let number = usize::try_from(appended.number).unwrap_or(usize::MAX);
        let fragment =
            table.fragments.get_mut(number).ok_or_else(|| Error::invalid_input("no such fragment"))?;
        publish_fragment(fragment, appended, (life, rules)).map_err(|error| {
            error.context(format_args!("fragment {} of table \"{}\"", appended.number, table.name))
        })?;
        rows = rows.saturating_add(appended.rows);
    }
    table.finished.push(Finished { statement: publication.statement, token: publication.token, rows });
    let surplus = table.finished.len().saturating_sub(STATEMENTS_KEPT);
    table.finished.drain(..surplus);
    for Restarted { table, column, last } in &publication.restarts {
        next.count(*table, *column, Some(*last), 0)?;
    }
    if rules.compare_and_set {
        next.check()?;
    }
    Ok(next)
}

/// Returns how many positions a replica has more after a statement. Readers know deleted rows by the
/// positions that they scan, so that deletes alone make one, of a row that nobody sees.
pub(crate) fn positions_of(rows: u64, deletes: u64) -> Option<u64> {
    rows.checked_add(u64::from(rows == 0 && deletes > 0))
}

fn publish_fragment(
    fragment: &mut Fragment,
    appended: &Appended,
    (life, rules): (Life, Rules),
) -> Result<()> {
    let overflow = || Error::invalid_input("more rows than can be counted");
    let kept = fragment
        .rows
        .checked_sub(appended.deletes)
        .ok_or_else(|| Error::invalid_input("more rows are deleted than there are"))?;
    let rows = kept.checked_add(appended.rows).ok_or_else(overflow)?;
    if rules.compare_and_set && !is_as_seen(fragment, appended) {
        return Err(conflict("its replicas have changed since the statement began"));
    }
    if appended.replicas.iter().all(|written| written.positions.is_none()) {
        return Err(Error::new(ErrorKind::Io, "no replica has got the rows"));
    }
    for written in &appended.replicas {
        let Some(replica) = fragment.replicas.iter_mut().find(|replica| replica.node == written.node) else {
            continue;
        };
        match written.positions {
            Some(positions) => {
                let more = positions_of(appended.rows, appended.deletes).ok_or_else(overflow)?;
                let least = written.base.checked_add(more).ok_or_else(overflow)?;
                if positions < least {
                    return Err(Error::invalid_input(format!(
                        "node {} says that it has {positions} positions after {} new ones behind position {}",
                        written.node, more, written.base
                    )));
                }
                (replica.positions, replica.rows) = (positions, rows);
            }
            None => replica.in_sync = false,
        }
    }
    fragment.rows = rows;
    if appended.deletes > 0 {
        fragment.deleted = fragment.deleted.checked_add(appended.deletes).ok_or_else(overflow)?;
        // What they have are not the first rows any more: they begin anew, and so does who copies.
        for replica in fragment.replicas.iter_mut().filter(|replica| !replica.in_sync) {
            (replica.positions, replica.rows, replica.life) = (0, 0, life);
        }
    }
    Ok(())
}

/// Tells whether the replicas in sync are those, with the positions, that an append began with.
fn is_as_seen(fragment: &Fragment, appended: &Appended) -> bool {
    let mut seen: Vec<_> = appended.replicas.iter().map(|w| (w.node, w.life, w.base)).collect();
    let mut found: Vec<_> = fragment.in_sync().map(|r| (r.node, r.life, r.positions)).collect();
    seen.sort_unstable();
    found.sort_unstable();
    seen == found
}

/// Returns the catalog with the new rows of a replica that catches up.
///
/// # Errors
/// `Conflict` if the replica is in sync or another life of it has begun, if another writer has
/// begun, or if the fragment has got more rows meanwhile. `InvalidInput` for numbers that cannot
/// be.
pub(super) fn copied(catalog: &Catalog, copied: &Copied) -> Result<Catalog> {
    let mut next = catalog.following()?;
    let table = next.table_mut(copied.fragment.table)?;
    if let Some(token) = copied.join {
        check_token(table, token)?;
    }
    let fragment = next.fragment_mut(copied.fragment)?;
    let rows = fragment.rows;
    let replica = fragment
        .replicas
        .iter_mut()
        .find(|replica| replica.node == copied.node)
        .ok_or_else(|| conflict("the replica was dropped"))?;
    if replica.in_sync || replica.life != copied.life || replica.positions != copied.base {
        return Err(conflict(format!("the replica on node {} has changed since", copied.node)));
    }
    if copied.join.is_some() && copied.rows != rows {
        return Err(conflict(format!("the fragment has {rows} rows by now, the replica {}", copied.rows)));
    }
    if copied.rows < replica.rows || copied.positions < copied.base {
        return Err(Error::invalid_input("a replica that catches up has fewer rows than before"));
    }
    (replica.positions, replica.rows) = (copied.positions, copied.rows);
    replica.in_sync = copied.join.is_some();
    next.check()?;
    Ok(next)
}
