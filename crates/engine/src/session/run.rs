//! What belongs to one statement, and ends with it.

use hypostyle_catalog::pg_catalog::Origin;
use hypostyle_cluster::change::{Looked, Values};
use hypostyle_exec::memory::Held;
use hypostyle_placement::catalog::Restarted;
use hypostyle_placement::{Epoch, StatementId};
use hypostyle_types::TableId;
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The bytes of a statement's text in SHOW SESSIONS.
const TEXT_BYTES_SHOWN: usize = 1024;

/// The statement that a session runs, or has run last. A text of several statements is one: each of them
/// has a name, and what it changes, of its own.
pub(crate) struct Run {
    /// The beginning of its text.
    text: String,
    started: Instant,
    /// The origins of the columns of its result, for a client of PostgreSQL's protocol.
    pub origins: Vec<Option<Origin>>,
    /// What the client has called it: one that it sends again changes nothing if it was published.
    name: Option<StatementId>,
    /// Whether it is one of a transaction, which reads one state.
    is_of_transaction: bool,
    /// What the coordinator has said to be published since the statement began, if it runs by itself on
    /// another node, and was tried.
    told: Option<Epoch>,
    /// What its transaction has done to tables of the cluster, while it changes or checks that.
    pub cluster: ClusterChanges,
}

/// What a transaction has done to tables of the cluster, and has found in them, until it is published.
#[derive(Debug, Default)]
pub(crate) struct ClusterChanges {
    /// The rows that it deletes, by their places.
    pub deleted: BTreeMap<TableId, RoaringTreemap>,
    /// The new values of these rows, of tables whose rows keep the others, and the memory for them.
    pub values: BTreeMap<TableId, (Values, Held)>,
    /// The tables to which nobody may add rows until it is published: it has looked whether there are some
    /// with keys of its own, or that do not fit.
    pub free_keys: BTreeSet<TableId>,
    /// What it has looked for in other tables, beside each table that it changes: these have to stay as they
    /// are until it is published.
    pub looked: BTreeSet<(TableId, Looked)>,
    /// The tables of which it has locked rows, and the fragments of these; all, where they are not known.
    pub locked: BTreeMap<TableId, Option<BTreeSet<u32>>>,
    /// The columns that count anew when it is published, beside the table whose rows it deletes.
    pub restarts: BTreeMap<TableId, Vec<Restarted>>,
    /// Whether it has looked for rows to change. If it has found none, nothing is published, so that a
    /// majority is asked whether there were none.
    pub has_looked: bool,
}

impl ClusterChanges {
    /// Deletes rows of a table, by their places.
    pub fn delete(&mut self, table: TableId, places: RoaringTreemap) {
        if !places.is_empty() {
            *self.deleted.entry(table).or_default() |= places;
        }
    }

    /// Has columns count anew with what becomes of a table's rows, be there none.
    pub fn restart(&mut self, table: TableId, restarts: Vec<Restarted>) {
        self.deleted.entry(table).or_default();
        self.restarts.insert(table, restarts);
    }

    /// Returns the places of the rows of a table that are deleted.
    pub fn deleted_of(&self, table: TableId) -> RoaringTreemap {
        self.deleted.get(&table).cloned().unwrap_or_default()
    }

    /// Notes that the published rows of a table were looked at: whether one has a key of new ones, or whether
    /// all of them fit. None may be added until the statement is published.
    pub fn note_free_keys(&mut self, table: TableId) {
        self.free_keys.insert(table);
    }

    /// Notes that rows of some fragments of a table are locked; of all, if it is not known of which. None of
    /// them may be changed by others until the transaction is published.
    pub fn note_locked(&mut self, table: TableId, fragments: Option<BTreeSet<u32>>) {
        match fragments {
            None => drop(self.locked.insert(table, None)),
            Some(fragments) if fragments.is_empty() => {}
            Some(fragments) => {
                let known = self.locked.entry(table).or_insert_with(|| Some(BTreeSet::new()));
                known.iter_mut().for_each(|known| known.extend(&fragments));
            }
        }
    }

    /// Notes that a statement which changes a table has looked into another one for a foreign key. What it
    /// has found there may not change until the statement is published.
    pub fn note_looked(&mut self, table: TableId, looked: Looked) {
        self.looked.insert((table, looked));
    }
}

impl Default for Run {
    fn default() -> Self {
        Self {
            text: String::new(),
            started: Instant::now(),
            origins: Vec::new(),
            name: None,
            is_of_transaction: false,
            told: None,
            cluster: ClusterChanges::default(),
        }
    }
}

impl Run {
    /// Begins the next one: nothing of the one before is left.
    pub fn begin(&mut self, text: &str) {
        // Its memory is taken again.
        let mut shown = std::mem::take(&mut self.text);
        shown.clear();
        shown.push_str(&text[..text.floor_char_boundary(TEXT_BYTES_SHOWN)]);
        *self = Self { text: shown, ..Self::default() };
    }

    /// Has its time begin now.
    pub fn restart(&mut self) {
        self.started = Instant::now();
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the beginning of its text, once there was one.
    pub fn text(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|text| !text.is_empty())
    }

    /// Gives one of its statements the name that the client has set for it.
    pub fn identify(&mut self, name: Option<Uuid>, is_of_transaction: bool) {
        self.name = name.map(StatementId);
        self.is_of_transaction = is_of_transaction;
        self.told = None;
    }

    /// Returns the name by which its changes are published: the client's, or a new one.
    pub fn published_name(&self) -> StatementId {
        self.name.unwrap_or_else(|| StatementId(Uuid::new_v4()))
    }

    /// Returns the name by which it is known whether it was published before. A statement of a transaction
    /// is not published by its own name.
    pub fn repeated_name(&self) -> Option<StatementId> {
        self.name.filter(|_| !self.is_of_transaction)
    }

    /// Notes what the coordinator has said to be published.
    pub fn note_told(&mut self, epoch: Epoch) {
        self.told = Some(epoch);
    }

    /// Says whether it may read this state of the cluster without asking the coordinator. A statement of a
    /// transaction reads the state of its beginning; what was published when another one began was also when
    /// it was tried for the first time.
    pub fn may_read(&self, seen: Epoch) -> bool {
        self.is_of_transaction || self.told.is_some_and(|told| told <= seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_statement_is_left_to_the_next() {
        let mut run = Run::default();
        assert_eq!(run.text(), None);
        run.begin("SELECT 1");
        run.identify(Some(Uuid::from_u128(7)), false);
        run.note_told(Epoch(3));
        run.origins.push(None);
        run.cluster.free_keys.insert(TableId(1));
        run.cluster.deleted.entry(TableId(1)).or_default().insert(5);
        assert_eq!((run.text(), run.published_name()), (Some("SELECT 1"), StatementId(Uuid::from_u128(7))));
        run.begin("SELECT 2");
        assert_eq!((run.text(), run.repeated_name()), (Some("SELECT 2"), None));
        assert!(run.origins.is_empty() && !run.may_read(Epoch(3)));
        assert!(run.cluster.deleted.is_empty() && run.cluster.free_keys.is_empty());
    }

    #[test]
    fn rows_of_a_table_are_deleted_together() {
        let mut changes = ClusterChanges::default();
        changes.delete(TableId(1), RoaringTreemap::new());
        assert!(changes.deleted.is_empty());
        changes.delete(TableId(1), RoaringTreemap::from_iter([3_u64, 5]));
        changes.delete(TableId(1), RoaringTreemap::from_iter([5_u64, 7]));
        assert_eq!(changes.deleted_of(TableId(1)), RoaringTreemap::from_iter([3_u64, 5, 7]));
        assert!(changes.deleted_of(TableId(2)).is_empty());
    }

    #[test]
    fn a_table_without_rows_is_published_if_its_columns_count_anew() {
        let mut changes = ClusterChanges::default();
        changes.restart(TableId(1), vec![Restarted { table: TableId(1), column: 0, last: 0 }]);
        assert!(changes.deleted.contains_key(&TableId(1)) && changes.deleted_of(TableId(1)).is_empty());
        assert_eq!(changes.restarts[&TableId(1)].len(), 1);
    }

    #[test]
    fn long_texts_are_shown_to_the_end_of_a_character() {
        let mut run = Run::default();
        run.begin(&format!("x{}", "ü".repeat(TEXT_BYTES_SHOWN)));
        assert_eq!(run.text().map(str::len), Some(TEXT_BYTES_SHOWN - 1));
    }

    #[test]
    fn only_a_statement_by_itself_is_known_by_its_name() {
        let mut run = Run::default();
        let name = Uuid::from_u128(7);
        run.identify(Some(name), false);
        assert_eq!(run.repeated_name(), Some(StatementId(name)));
        run.identify(Some(name), true);
        assert_eq!((run.repeated_name(), run.published_name()), (None, StatementId(name)));
        run.identify(None, false);
        assert_ne!(run.published_name(), run.published_name());
    }

    #[test]
    fn a_state_is_read_that_is_as_new_as_the_coordinators() {
        let mut run = Run::default();
        run.identify(None, false);
        assert!(!run.may_read(Epoch(4)));
        run.note_told(Epoch(4));
        assert!(!run.may_read(Epoch(3)) && run.may_read(Epoch(4)) && run.may_read(Epoch(5)));
        // Another statement asks anew, and one of a transaction never.
        run.identify(None, false);
        assert!(!run.may_read(Epoch(5)));
        run.identify(None, true);
        assert!(run.may_read(Epoch(0)));
    }
}
