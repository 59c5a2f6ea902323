//! Judges a history of transactions: does snapshot isolation allow it (docs/transactions.md)?
//!
//! Every row that was ever written has an id of its own, so that what a transaction has read tells
//! which commits it has seen. Versions are one sequence: the state at each of them follows from the
//! commits, and whatever a transaction has read is compared with the state at the version it began at.
//! Where keys and references are declared, every one of these states must keep them. A conflict must
//! have a reason.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A row as it was written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    pub key: u64,
    pub id: u64,
    pub count: u64,
    /// The key of another row.
    pub refers: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// All rows of the table.
    Read(BTreeSet<Row>),
    Insert(Row),
    Delete(Row),
    /// Undoes the writes of the steps from `to` on.
    RollBack {
        to: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The transaction is committed as this version.
    Committed(u64),
    /// The conflict is with this version at the latest.
    Conflict(u64),
    /// A conflict, as it is not known where rows went that the log had.
    Moved,
    Abandoned,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transaction {
    /// The newest version that anybody had been acknowledged before it began.
    pub acknowledged: u64,
    /// The version it reads.
    pub begin: u64,
    pub steps: Vec<Step>,
    /// The amount by which its writes raise the sum of all counts.
    pub increments: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rows of a transaction that did not commit, or that it replaced before it did.
    DirtyRead,
    /// A row read before is another, or gone.
    NonRepeatableRead,
    /// A row that was not there before.
    Phantom,
    /// Two overlapping transactions have replaced the same row, or an increment is missing.
    LostUpdate,
    /// A commit is seen, but one before it is not.
    LongFork,
    /// A part of a commit is seen.
    FracturedRead,
    /// A state of another version than the one the transaction began at.
    WrongVersion,
    /// The transaction does not see what had been acknowledged before it began.
    StaleRead,
    /// The transaction does not see its own writes.
    OwnWrites,
    /// Two commits have the same version, or one has a version from before it began.
    VersionOrder,
    /// Two rows have the same key.
    DuplicateKey,
    /// A row refers to a key that no row has.
    DanglingReference,
    /// No overlapping transaction has changed the same row or touched the same key.
    NeedlessConflict,
}

#[derive(Debug)]
pub struct Anomaly {
    pub kind: Kind,
    evidence: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{:?}: {}", self.kind, self.evidence)
    }
}

fn anomaly(kind: Kind, evidence: impl fmt::Debug) -> Result<(), Anomaly> {
    Err(Anomaly { kind, evidence: format!("{evidence:?}") })
}

/// What a transaction has changed up to some step.
#[derive(Clone, Debug, Default)]
struct Changes {
    inserted: BTreeSet<Row>,
    deleted: BTreeSet<Row>,
}

impl Changes {
    /// Returns the states before each step, and after the last.
    fn along(steps: &[Step]) -> Vec<Self> {
        let mut along = vec![Self::default()];
        for (index, step) in steps.iter().enumerate() {
            let mut now = along[index].clone();
            match step {
                Step::Read(_) => {}
                Step::Insert(row) => drop(now.inserted.insert(*row)),
                Step::Delete(row) if now.inserted.remove(row) => {}
                Step::Delete(row) => drop(now.deleted.insert(*row)),
                Step::RollBack { to } => now = along[*to].clone(),
            }
            along.push(now);
        }
        along
    }

    fn apply(&self, state: &BTreeSet<Row>) -> BTreeSet<Row> {
        &(state - &self.deleted) | &self.inserted
    }

    /// Whether another transaction may be in conflict with this one.
    fn meets(&self, other: &Self) -> bool {
        let keys = |rows: &BTreeSet<Row>| -> BTreeSet<u64> { rows.iter().map(|row| row.key).collect() };
        let references =
            |rows: &BTreeSet<Row>| -> BTreeSet<u64> { rows.iter().filter_map(|row| row.refers).collect() };
        !self.deleted.is_disjoint(&other.deleted)
            || !keys(&self.inserted).is_disjoint(&keys(&other.inserted))
            || !references(&self.inserted).is_disjoint(&keys(&other.deleted))
            || !keys(&self.deleted).is_disjoint(&references(&other.inserted))
    }
}

/// What constraints say of a state.
fn check_constraints(state: &BTreeSet<Row>, by: &Transaction) -> Result<(), Anomaly> {
    let mut keys = BTreeSet::new();
    for row in state {
        if !keys.insert(row.key) {
            anomaly(Kind::DuplicateKey, (row, by))?;
        }
    }
    match state.iter().find(|row| row.refers.is_some_and(|key| !keys.contains(&key))) {
        Some(row) => anomaly(Kind::DanglingReference, (row, by)),
        None => Ok(()),
    }
}

/// The states that the commits of a history lead to.
#[derive(Default)]
struct States {
    /// The states by version; a version that is missing has the state of the one before.
    states: BTreeMap<u64, BTreeSet<Row>>,
    /// The versions that committed rows are from.
    versions: BTreeMap<Row, u64>,
    /// What each commit has changed.
    changes: BTreeMap<u64, Changes>,
}

impl States {
    fn at(&self, version: u64) -> BTreeSet<Row> {
        self.states.range(..=version).next_back().map_or_else(BTreeSet::new, |(_, state)| state.clone())
    }
}

/// Checks a history that begins with an empty table, whose keys and references are declared or not.
///
/// # Errors
/// The first anomaly.
pub fn check(history: &[Transaction], is_constrained: bool) -> Result<(), Anomaly> {
    let states = check_commits(history, is_constrained)?;
    for transaction in history {
        if transaction.begin < transaction.acknowledged {
            return anomaly(Kind::StaleRead, transaction);
        }
        check_reads(transaction, &states)?;
    }
    let committed = history.iter().filter(|transaction| matches!(transaction.outcome, Outcome::Committed(_)));
    let increments: u64 = committed.map(|transaction| transaction.increments).sum();
    let counted: u64 = states.at(u64::MAX).iter().map(|row| row.count).sum();
    if counted != increments {
        return anomaly(Kind::LostUpdate, format!("{increments} increments, of which {counted} are counted"));
    }
    check_conflicts(history, &states)
}

fn check_conflicts(history: &[Transaction], states: &States) -> Result<(), Anomaly> {
    for transaction in history {
        if let Outcome::Conflict(end) = transaction.outcome {
            let own = Changes::along(&transaction.steps).pop().unwrap_or_default();
            let mut others = states.changes.range(transaction.begin + 1..=end.max(transaction.begin + 1));
            if !others.any(|(_, other)| own.meets(other)) {
                anomaly(Kind::NeedlessConflict, transaction)?;
            }
        }
    }
    Ok(())
}

fn check_commits(history: &[Transaction], is_constrained: bool) -> Result<States, Anomaly> {
    let mut commits = BTreeMap::new();
    for transaction in history {
        if let Outcome::Committed(version) = transaction.outcome
            && (version <= transaction.begin || commits.insert(version, transaction).is_some())
        {
            anomaly(Kind::VersionOrder, transaction)?;
        }
    }
    let mut states = States::default();
    for (version, transaction) in commits {
        let changes = Changes::along(&transaction.steps).pop().unwrap_or_default();
        let before = states.at(version);
        // What was there when the transaction began, but is no longer, another has replaced meanwhile.
        let lost: Vec<&Row> = (changes.deleted.difference(&before))
            .filter(|row| states.at(transaction.begin).contains(row))
            .collect();
        if !lost.is_empty() {
            anomaly(Kind::LostUpdate, (lost, transaction))?;
        }
        states.versions.extend(changes.inserted.iter().map(|row| (*row, version)));
        let state = changes.apply(&before);
        if is_constrained {
            check_constraints(&state, transaction)?;
        }
        states.states.insert(version, state);
        states.changes.insert(version, changes);
    }
    Ok(states)
}

fn check_reads(transaction: &Transaction, states: &States) -> Result<(), Anomaly> {
    let begin = states.at(transaction.begin);
    let along = Changes::along(&transaction.steps);
    let mut has_read = false;
    for (step, own) in transaction.steps.iter().zip(&along) {
        let Step::Read(seen) = step else { continue };
        let expected = own.apply(&begin);
        if *seen != expected {
            let (extra, missing) = (seen - &expected, &expected - seen);
            let kind = judge(own, &extra, &missing, seen, states, has_read);
            return anomaly(kind, (("extra", extra), ("missing", missing), transaction));
        }
        has_read = true;
    }
    Ok(())
}

/// Names what is wrong with a read.
fn judge(
    own: &Changes,
    extra: &BTreeSet<Row>,
    missing: &BTreeSet<Row>,
    seen: &BTreeSet<Row>,
    states: &States,
    has_read: bool,
) -> Kind {
    if !missing.is_disjoint(&own.inserted) || !extra.is_disjoint(&own.deleted) {
        return Kind::OwnWrites;
    }
    if extra.iter().any(|row| !states.versions.contains_key(row)) {
        return Kind::DirtyRead;
    }
    if has_read {
        return if missing.is_empty() { Kind::Phantom } else { Kind::NonRepeatableRead };
    }
    if states.states.values().any(|state| own.apply(state) == *seen) || seen.is_empty() {
        return Kind::WrongVersion;
    }
    let versions_of = |rows: &BTreeSet<Row>| -> BTreeSet<u64> {
        rows.iter().filter_map(|row| states.versions.get(row).copied()).collect()
    };
    if versions_of(seen).is_disjoint(&versions_of(missing)) { Kind::LongFork } else { Kind::FracturedRead }
}

/// The checker finds every anomaly in a history that has it, and none in one that does not.
mod tests {
    use super::*;

    fn row(key: u64, id: u64) -> Row {
        Row { key, id, count: 0, refers: None }
    }

    fn read(ids: &[(u64, u64)]) -> Step {
        Step::Read(ids.iter().map(|(key, id)| row(*key, *id)).collect())
    }

    fn replace(key: u64, old: u64, new: u64) -> [Step; 2] {
        [Step::Delete(row(key, old)), Step::Insert(row(key, new))]
    }

    fn transaction(begin: u64, outcome: Outcome, steps: impl IntoIterator<Item = Step>) -> Transaction {
        let steps = steps.into_iter().collect();
        Transaction { acknowledged: begin, begin, steps, increments: 0, outcome }
    }

    fn committed(begin: u64, version: u64, steps: impl IntoIterator<Item = Step>) -> Transaction {
        transaction(begin, Outcome::Committed(version), steps)
    }

    fn reader(begin: u64, steps: impl IntoIterator<Item = Step>) -> Transaction {
        transaction(begin, Outcome::Abandoned, steps)
    }

    /// Keys 1 and 2 with rows of the ids 1 and 2, at version 1.
    fn initial() -> Transaction {
        committed(0, 1, [Step::Insert(row(1, 1)), Step::Insert(row(2, 2))])
    }

    #[track_caller]
    fn assert_found(kind: Option<Kind>, rest: impl IntoIterator<Item = Transaction>) {
        let history: Vec<Transaction> = [initial()].into_iter().chain(rest).collect();
        assert_eq!(check(&history, true).err().map(|anomaly| anomaly.kind), kind);
    }

    fn conflict(begin: u64, end: u64, steps: impl IntoIterator<Item = Step>) -> Transaction {
        transaction(begin, Outcome::Conflict(end), steps)
    }

    #[test]
    fn an_innocent_history_passes() {
        assert_found(
            None,
            [
                committed(1, 3, replace(1, 1, 10)),
                // Write skew is allowed, and so are conflicts.
                committed(1, 5, [read(&[(1, 1), (2, 2)])].into_iter().chain(replace(2, 2, 20))),
                conflict(1, 3, replace(1, 1, 11)),
                reader(3, [read(&[(1, 10), (2, 2)]), read(&[(1, 10), (2, 2)])]),
                reader(4, [Step::Insert(row(3, 3)), read(&[(1, 10), (2, 2), (3, 3)])]),
                reader(
                    5,
                    [
                        Step::Delete(row(1, 10)),
                        read(&[(2, 20)]),
                        Step::RollBack { to: 0 },
                        read(&[(1, 10), (2, 20)]),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn dirty_reads_are_found() {
        let seen = || reader(1, [read(&[(1, 10), (2, 2)])]);
        assert_found(Some(Kind::DirtyRead), [reader(1, replace(1, 1, 10)), seen()]);
        assert_found(Some(Kind::DirtyRead), [conflict(1, 1, replace(1, 1, 10)), seen()]);
        let undone = replace(1, 1, 10).into_iter().chain([Step::RollBack { to: 0 }]);
        assert_found(Some(Kind::DirtyRead), [committed(1, 2, undone), seen()]);
        let intermediate = replace(1, 1, 10).into_iter().chain(replace(1, 10, 11));
        assert_found(Some(Kind::DirtyRead), [committed(1, 2, intermediate), seen()]);
    }

    #[test]
    fn reads_that_do_not_repeat_are_found() {
        let first = || read(&[(1, 1), (2, 2)]);
        let replaced = || committed(1, 2, replace(1, 1, 10));
        let changed = reader(1, [first(), read(&[(1, 10), (2, 2)])]);
        assert_found(Some(Kind::NonRepeatableRead), [replaced(), changed]);
        let deleted = committed(1, 2, [Step::Delete(row(2, 2))]);
        assert_found(Some(Kind::NonRepeatableRead), [deleted, reader(1, [first(), read(&[(1, 1)])])]);
        let inserted = committed(1, 2, [Step::Insert(row(3, 3))]);
        let phantom = reader(1, [first(), read(&[(1, 1), (2, 2), (3, 3)])]);
        assert_found(Some(Kind::Phantom), [inserted, phantom]);
    }

    #[test]
    fn lost_updates_are_found() {
        let both = [committed(1, 2, replace(1, 1, 10)), committed(1, 3, replace(1, 1, 11))];
        assert_found(Some(Kind::LostUpdate), both);
        let uncounted = Transaction { increments: 1, ..committed(1, 2, replace(1, 1, 10)) };
        assert_found(Some(Kind::LostUpdate), [uncounted]);
    }

    #[test]
    fn states_that_never_were_are_found() {
        let one = || committed(1, 2, replace(1, 1, 10));
        let other = || committed(1, 3, replace(2, 2, 20));
        let fork =
            [one(), other(), reader(2, [read(&[(1, 10), (2, 2)])]), reader(3, [read(&[(1, 1), (2, 20)])])];
        assert_found(Some(Kind::LongFork), fork);
        let both = committed(1, 2, replace(1, 1, 10).into_iter().chain(replace(2, 2, 20)));
        assert_found(Some(Kind::FracturedRead), [both, reader(2, [read(&[(1, 10), (2, 2)])])]);
        assert_found(Some(Kind::WrongVersion), [one(), reader(2, [read(&[(1, 1), (2, 2)])])]);
        assert_found(Some(Kind::WrongVersion), [one(), reader(1, [read(&[(1, 10), (2, 2)])])]);
    }

    #[test]
    fn versions_out_of_order_are_found() {
        let stale = Transaction { acknowledged: 2, ..reader(1, []) };
        assert_found(Some(Kind::StaleRead), [committed(1, 2, replace(1, 1, 10)), stale]);
        assert_found(Some(Kind::VersionOrder), [committed(1, 1, replace(1, 1, 10))]);
        let twice = [committed(1, 2, replace(1, 1, 10)), committed(1, 2, replace(2, 2, 20))];
        assert_found(Some(Kind::VersionOrder), twice);
    }

    #[test]
    fn broken_constraints_are_found() {
        let new = |key, id| committed(1, id, [Step::Insert(row(key, id))]);
        assert_found(Some(Kind::DuplicateKey), [new(3, 2), new(3, 3)]);
        assert_found(None, [new(3, 2), new(4, 3)]);
        let child = |key| Step::Insert(Row { refers: Some(key), ..row(9, 9) });
        assert_found(Some(Kind::DanglingReference), [gone_at(2), committed(1, 3, [child(2)])]);
        assert_found(Some(Kind::DanglingReference), [committed(1, 2, [child(2)]), gone_at(3)]);
        assert_found(None, [gone_at(2), committed(1, 3, [child(1)])]);
        let unconstrained = [initial(), new(3, 2), new(3, 3)];
        assert!(check(&unconstrained, false).is_ok());
    }

    fn gone_at(version: u64) -> Transaction {
        committed(1, version, [Step::Delete(row(2, 2))])
    }

    #[test]
    fn conflicts_without_a_reason_are_found() {
        let one = || committed(1, 2, replace(1, 1, 10));
        assert_found(None, [one(), conflict(1, 2, replace(1, 1, 11))]);
        assert_found(Some(Kind::NeedlessConflict), [one(), conflict(1, 2, replace(2, 2, 11))]);
        assert_found(Some(Kind::NeedlessConflict), [one(), conflict(2, 2, replace(1, 10, 11))]);
        let new = |key| Step::Insert(row(key, 50));
        assert_found(None, [committed(1, 2, [new(5)]), conflict(1, 2, [Step::Insert(row(5, 51))])]);
        let needless = [committed(1, 2, [new(5)]), conflict(1, 2, [Step::Insert(row(6, 51))])];
        assert_found(Some(Kind::NeedlessConflict), needless);
        let child = || Step::Insert(Row { refers: Some(2), ..row(9, 9) });
        assert_found(None, [gone_at(2), conflict(1, 2, [child()])]);
        assert_found(None, [committed(1, 2, [child()]), conflict(1, 2, [Step::Delete(row(2, 2))])]);
    }

    #[test]
    fn a_transaction_that_misses_its_own_writes_is_found() {
        let steps = || [Step::Delete(row(1, 1)), Step::Insert(row(3, 3))].into_iter();
        assert_found(Some(Kind::OwnWrites), [reader(1, steps().chain([read(&[(2, 2)])]))]);
        let seen = read(&[(1, 1), (2, 2), (3, 3)]);
        assert_found(Some(Kind::OwnWrites), [reader(1, steps().chain([seen]))]);
    }
}
