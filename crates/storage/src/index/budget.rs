//! What is worth its bytes: which wishes are heard, and which index goes when there are too many.

use super::file;
use super::name::{Identity, IndexKind, IndexSpec};
use super::registry::Indexes;
use crate::snapshot::Snapshot;
use crate::table::TableData;
use hypostyle_types::{Result, TableId};

/// The indexes of a table take at most this part of the bytes of its columns.
const BUDGET_SHARE: u64 = 5;

/// The wish that has an index built.
const WISHES: u64 = 2;

/// One more wish is needed for a reverse index with each so many rows. It takes about fifteen times as
/// long to build as a scan that it saves, so that a query is not made to wait for it in vain.
const REVERSE_ROWS_PER_WISH: u64 = 4 << 20;

/// An index is built anew when this part of the rows that it covers have come since, and more than
/// an extension finds in no time.
const BEHIND_SHARE: u64 = 8;
const BEHIND_ROWS: u64 = 4096;

impl Indexes {
    pub(super) fn wish(&self, spec: &IndexSpec, snapshot: &Snapshot) -> bool {
        let Some(table) = snapshot.table_by_id(spec.table).filter(|table| !table.is_uncommitted()) else {
            return false;
        };
        let Some(identity) = Identity::of(spec, snapshot.catalog()) else { return false };
        let is_declared = self.is_declared(spec, table);
        if !is_declared && !self.is_automatic() {
            return false;
        }
        let rows = table.rows_in_files();
        let is_served = match self.entry(spec, snapshot) {
            Some(entry) => !is_behind(entry.rows(), rows),
            None => self.covers_more(&identity, table),
        };
        let needed = match &spec.kind {
            _ if is_declared => 1,
            IndexKind::Reverse(_) => WISHES + rows / REVERSE_ROWS_PER_WISH,
            _ => WISHES,
        };
        !is_served && self.wishes.lock().count(spec, rows, needed)
    }

    /// Tells whether an index was asked for: by the definition of its table, or in this process.
    pub(super) fn is_declared(&self, spec: &IndexSpec, table: &TableData) -> bool {
        spec.is_declared_by(table.entry()) || self.wishes.lock().is_declared(spec)
    }

    /// Makes room for an index of so many bytes. False when it is larger than the budget, or what is
    /// there is worth more; that becomes worth less with each index that it keeps out.
    pub(super) fn make_room(&self, identity: &Identity, table: &TableData, bytes: u64) -> Result<bool> {
        let spec = &identity.spec;
        if self.is_exempt(spec, table) {
            return Ok(true);
        }
        let budget = table.columns().iter().map(|column| column.bytes()).sum::<u64>() / BUDGET_SHARE;
        let refuse = || {
            self.wishes.lock().refuse(spec, table.rows_in_files());
            Ok(false)
        };
        if bytes > budget {
            return refuse();
        }
        let mut others = self.automatic(table);
        others.retain(|(other, ..)| other.spec != *spec);
        let mut taken: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        // The least used first, and of these the largest.
        others.sort_by_key(|(_, bytes, uses)| (*uses, std::cmp::Reverse(*bytes)));
        let wishes = self.wishes.lock().of(spec);
        let mut evicted = Vec::new();
        for (other, bytes_of_other, uses) in others {
            if taken + bytes <= budget {
                break;
            }
            if uses > wishes {
                self.age(spec.table);
                return refuse();
            }
            taken -= bytes_of_other;
            evicted.push(other);
        }
        for other in evicted {
            self.entries.lock().remove(&other);
            if self.has_files() && !self.is_read_only {
                self.store.remove(&other.path())?;
            }
        }
        Ok(true)
    }

    /// Tells whether an index is kept whatever it is worth: each new row would be compared with all
    /// others without that of a constraint.
    fn is_exempt(&self, spec: &IndexSpec, table: &TableData) -> bool {
        self.is_declared(spec, table) || spec.is_of_constraint(table.entry())
    }

    /// Lists the indexes of a table that may go, with their bytes and uses.
    fn automatic(&self, table: &TableData) -> Vec<(Identity, u64, u64)> {
        let entries = self.entries.lock().clone();
        let id = table.entry().id;
        let of_table = entries.iter().filter(|(identity, _)| identity.spec.table == id);
        let mut found: Vec<_> =
            of_table.map(|(identity, entry)| (identity.clone(), entry.bytes(), entry.uses())).collect();
        if self.has_files() {
            let files = file::of_table(&self.store, id).unwrap_or_else(|error| {
                tracing::warn!(%error, "the indexes of a table cannot be counted");
                Vec::new()
            });
            // Who uses them is another process; it has them mapped, and loses nothing but the next time.
            let others = files.into_iter().filter(|(identity, _)| !entries.contains_key(identity));
            found.extend(others.map(|(identity, bytes)| (identity, bytes, 0)));
        }
        found.retain(|(identity, ..)| !self.is_exempt(&identity.spec, table));
        found
    }

    /// Halves what indexes of a table were used.
    fn age(&self, table: TableId) {
        let entries = self.entries.lock();
        let of_table = entries.iter().filter(|(identity, _)| identity.spec.table == table);
        of_table.for_each(|(_, entry)| entry.age());
    }
}

/// Tells whether an index over some of the rows leaves too many to its extension.
pub(super) fn is_behind(covered: u64, rows: u64) -> bool {
    let later = rows.saturating_sub(covered);
    later > BEHIND_ROWS && later > covered / BEHIND_SHARE
}
