//! What a transaction has changed and not committed yet, and the commit that comes of it.

use super::conflict::{
    Fate, check_altered, check_definition, check_unchanged, conflict, lost_key, moved_deletions,
    new_reference,
};
use crate::rows::{Tail, decode_rows, encode_positions, encode_rows, positions_before};
use crate::sequence::OwnSequences;
use crate::snapshot::{Definitions, Snapshot};
use crate::table::TableData;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use hypostyle_format::{Catalog, Change, ColumnGeneration, Commit, TableEntry};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Staged {
    /// The base's, with the changes of definitions.
    pub catalog: Arc<Catalog>,
    /// Changes of definitions, in order.
    pub changes: Vec<Change>,
    pub tables: BTreeMap<TableId, StagedTable>,
    pub sequences: OwnSequences,
    /// Other ones with each change of them; `None`: those of the base. A savepoint has its own again.
    pub definitions: Option<Arc<Definitions>>,
}

/// Rows and deletions of one table. Positions are those that the transaction sees: the base's rows,
/// then its own, first those in the column files.
#[derive(Clone, Debug, Default)]
pub(super) struct StagedTable {
    pub in_files: Option<InFiles>,
    pub rows: Tail,
    pub bytes: usize,
    pub deleted: RoaringTreemap,
}

/// Own rows in the column files.
#[derive(Clone, Debug)]
pub(super) struct InFiles {
    /// The table with them.
    pub entry: Arc<TableEntry>,
    /// Rows in the files before.
    pub before: u64,
    /// Rows of the log that come first.
    pub absorbed: u64,
    /// Own rows behind them.
    pub rows: u64,
    /// The definition or all files have changed, too.
    pub replaced: Option<Replaced>,
    /// A change among those of definitions tells of `absorbed` already.
    pub renamed: bool,
}

impl InFiles {
    /// The rows that the next change is to tell of.
    pub fn untold(&self) -> u64 {
        if self.renamed { 0 } else { self.absorbed }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replaced {
    Altered,
    /// Only rows that are not deleted are in the files.
    Compacted,
}

/// Rows as the log will have them, and as it is read: they are nobody else's then, and no longer
/// than needed.
pub(super) struct Inserted {
    bytes: Vec<u8>,
    rows: RecordBatch,
}

impl Staged {
    /// Applies a change to the definitions, which are no longer those that they were.
    pub fn define(&mut self, change: &Change) -> Result<()> {
        Arc::make_mut(&mut self.catalog).apply_change(change)?;
        self.definitions = Some(Arc::default());
        Ok(())
    }

    pub fn encode_rows(&self, base: &Snapshot) -> Result<BTreeMap<TableId, Vec<Inserted>>> {
        let tables = self.tables.iter();
        let encoded = tables.map(|(id, staged)| {
            let own_start = base.table_by_id(*id).map_or(0, |before| before.positions());
            Ok((*id, staged.encode_rows(own_start)?))
        });
        encoded.collect()
    }

    /// The commit of these changes on top of the latest state, and the rows of its inserts.
    ///
    /// # Errors
    /// `Conflict` when they do not fit it.
    pub fn against(
        &self,
        base: &Snapshot,
        latest: &Snapshot,
        mut inserts: BTreeMap<TableId, Vec<Inserted>>,
    ) -> Result<(Commit, Vec<RecordBatch>)> {
        let mut inserted = Vec::new();
        let mut commit = Commit { changes: self.changes.clone(), ..Commit::default() };
        let mut catalog = latest.shared_catalog().clone();
        for change in &self.changes {
            check_definition(change, base.catalog(), latest.catalog(), |id| fate(id, base, latest))?;
            Arc::make_mut(&mut catalog).apply_change(change).map_err(|error| {
                match latest.version() > base.version() {
                    true => Error::new(
                        ErrorKind::Conflict,
                        format!(
                            "{}, since a transaction that committed first; roll back and try again",
                            error.message()
                        ),
                    ),
                    false => error,
                }
            })?;
        }
        commit.changes.extend(self.sequences.changes(&self.catalog));
        for (id, staged) in &self.tables {
            staged.against(*id, base.table_by_id(*id), latest.table_by_id(*id), base, &mut commit)?;
            if staged.removes_rows()
                && let Some(name) = base.table_by_id(*id).map(|table| &table.entry().name)
                && let Some(constraint) = new_reference(*id, base.catalog(), latest.catalog())
            {
                return Err(conflict(name, &format!("was referred to in a new constraint \"{constraint}\"")));
            }
            for Inserted { bytes, rows } in inserts.remove(id).unwrap_or_default() {
                let (id, count) = (*id, rows.num_rows() as u64);
                commit.changes.push(Change::Insert { id, rows: count, bytes: bytes.len() as u64 });
                commit.attachments.push(bytes);
                inserted.push(rows);
            }
        }
        // Another transaction may have dropped a key, or declared a foreign key that refers to one
        // which is dropped here.
        let later = commit.changes.iter().skip(self.changes.len());
        for change in later.filter(|change| matches!(change, Change::ReplaceTable { .. })) {
            Arc::make_mut(&mut catalog).apply_change(change)?;
        }
        if !Arc::ptr_eq(&catalog, latest.shared_catalog())
            && let Some((table, constraint)) = lost_key(latest.catalog(), &catalog)
        {
            return Err(conflict(table, &format!("lost the key that constraint \"{constraint}\" refers to")));
        }
        Ok((commit, inserted))
    }
}

impl StagedTable {
    /// Own rows, the deleted ones included.
    pub fn own_rows(&self) -> u64 {
        self.in_files.as_ref().map_or(0, |in_files| in_files.rows) + self.rows.rows()
    }

    /// Rows that others may refer to are deleted, updated, or replaced by others.
    fn removes_rows(&self) -> bool {
        let replaced = self.in_files.as_ref().and_then(|in_files| in_files.replaced);
        !self.deleted.is_empty() || replaced == Some(Replaced::Altered)
    }

    fn against(
        &self,
        id: TableId,
        before: Option<&Arc<TableData>>,
        now: Option<&Arc<TableData>>,
        base: &Snapshot,
        commit: &mut Commit,
    ) -> Result<()> {
        let own_start = before.map_or(0, |before| before.positions());
        if let Some(before) = before {
            let name = &before.entry().name;
            let Some(now) = now else { return Err(conflict(name, "was dropped")) };
            let beyond = now.beyond_files();
            let deleted = positions_before(&self.deleted, own_start);
            if beyond.moved > base.version() {
                check_altered(before.entry(), now.entry(), !deleted.is_empty())?;
            }
            let shifts = beyond.shifts.since(base.version());
            let deleted = moved_deletions(name, deleted, before.rows_in_files(), shifts, now.deleted())?;
            push_delete(commit, id, &deleted)?;
        }
        if let Some(in_files) = &self.in_files {
            let in_files_before = now.map_or(0, |now| now.rows_in_files());
            if in_files_before != in_files.before {
                return Err(Error::internal("a table's files have grown under the append lock"));
            }
            let entry = &in_files.entry;
            let generations = entry
                .columns
                .iter()
                .map(|column| ColumnGeneration { column: column.id, generation: column.generation.clone() });
            commit.changes.push(match in_files.replaced {
                None => Change::Append {
                    id,
                    rows: entry.rows,
                    absorbed: in_files.absorbed,
                    generations: generations.collect(),
                },
                Some(how) => {
                    if let Some(before) = before {
                        let fate = Fate::of(before, now.map(Arc::as_ref), base.version());
                        check_unchanged(&before.entry().name, fate)?;
                    }
                    let (table, absorbed) = (entry.as_ref().clone(), in_files.untold());
                    Change::ReplaceTable { table, absorbed, compacted: how == Replaced::Compacted }
                }
            });
            let (first, count) = (in_files.before + in_files.absorbed, in_files.rows);
            let deleted = self.own_deleted(own_start, count).map(|index| index + first).collect();
            push_delete(commit, id, &deleted)?;
        }
        Ok(())
    }

    /// Deleted rows of `count` own ones, the first of which has the position `start`.
    fn own_deleted(&self, start: u64, count: u64) -> impl Iterator<Item = u64> {
        let deleted = self.deleted.iter().skip_while(move |position| *position < start);
        deleted.map(move |position| position - start).take_while(move |index| *index < count)
    }

    /// Own rows that wait in memory, without those that are deleted.
    fn encode_rows(&self, own_start: u64) -> Result<Vec<Inserted>> {
        let mut first = own_start + self.in_files.as_ref().map_or(0, |in_files| in_files.rows);
        let mut encoded = Vec::new();
        for batch in self.rows.batches() {
            let rows = batch.num_rows() as u64;
            let kept = if self.deleted.range_cardinality(first..first + rows) == 0 {
                batch.clone()
            } else {
                let keep: BooleanArray =
                    (first..first + rows).map(|row| Some(!self.deleted.contains(row))).collect();
                filter_record_batch(batch, &keep)
                    .map_err(|error| Error::internal(format!("cannot filter staged rows: {error}")))?
            };
            first += rows;
            if kept.num_rows() > 0 {
                let bytes = encode_rows(&kept)?;
                let rows = decode_rows(&bytes, &kept.schema(), kept.num_rows() as u64)?;
                encoded.push(Inserted { bytes, rows });
            }
        }
        Ok(encoded)
    }
}

/// What has become of a table since a transaction's base.
pub(super) fn fate(id: TableId, base: &Snapshot, latest: &Snapshot) -> Fate {
    let now = latest.table_by_id(id).map(Arc::as_ref);
    base.table_by_id(id).map_or(Fate::Unchanged, |before| Fate::of(before, now, base.version()))
}

fn push_delete(commit: &mut Commit, id: TableId, positions: &RoaringTreemap) -> Result<()> {
    if !positions.is_empty() {
        let bytes = encode_positions(positions)?;
        commit.changes.push(Change::Delete { id, rows: positions.len(), bytes: bytes.len() as u64 });
        commit.attachments.push(bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int32Array;
    use arrow_schema::{DataType, Field, Schema};

    fn batch(rows: std::ops::Range<i32>) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("0", DataType::Int32, true)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int32Array::from_iter_values(rows))]).unwrap()
    }

    fn staged(batches: &[RecordBatch], deleted: &[u64]) -> StagedTable {
        let mut rows = Tail::default();
        batches.iter().for_each(|batch| rows.push(batch.clone()).unwrap());
        StagedTable { rows, deleted: deleted.iter().copied().collect(), ..StagedTable::default() }
    }

    #[test]
    fn own_deleted_rows_are_counted_from_the_first_own_one() {
        let table = staged(&[], &[0, 9, 10, 12, 13, 20]);
        assert_eq!(table.own_deleted(10, 3).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(table.own_deleted(10, 0).count(), 0);
        assert_eq!(table.own_deleted(21, 5).count(), 0);
    }

    #[test]
    fn rows_for_the_log_are_those_that_are_not_deleted() {
        let encoded = |deleted: &[u64]| {
            let inserted = staged(&[batch(0..6), batch(6..8)], deleted).encode_rows(100).unwrap();
            inserted.into_iter().map(|inserted| inserted.rows).collect::<Vec<_>>()
        };
        assert_eq!(encoded(&[3]), [batch(0..6), batch(6..8)]);
        assert_eq!(encoded(&[104, 105, 106, 107]), [batch(0..4)]);
        assert!(encoded(&(100..108).collect::<Vec<_>>()).is_empty());
    }

    #[test]
    fn deleting_or_altering_takes_rows_away_that_others_may_refer_to() {
        assert!(!staged(&[batch(0..2)], &[]).removes_rows());
        assert!(staged(&[], &[1]).removes_rows());
    }
}
