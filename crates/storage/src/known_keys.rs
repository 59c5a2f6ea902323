//! The keys of a table's rows as numbers, kept from one check of a constraint to the next: a statement that
//! adds a row does not read those that were there before.
//!
//! They only show that a key is new. Where they do not, a query decides: different keys may, very rarely,
//! have the same number, and rows that are no more leave theirs behind. Those that a transaction has
//! deleted are among them, because they may come back.

use crate::snapshot::Snapshot;
use crate::table::TableData;
use hashbrown::{HashMap, HashSet};
use hypostyle_types::{ColumnId, Error, Generation, Result, TableId, Version};
use std::ops::Range;

/// The keys of more rows than this are not kept.
pub(crate) const ROWS_MAX: u64 = 1 << 22;

/// All keys that a database keeps between transactions.
const KEPT_MAX: usize = 1 << 20;

/// A table, and columns that no two rows have the same values of.
pub(crate) type KeyOf = (TableId, Vec<ColumnId>);

/// Numbers of the keys of the rows from one position to another.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    pub rows: Range<u64>,
    /// The columns' own: another one has other rows.
    generations: Vec<Generation>,
    /// The last version that is known to have these rows.
    pub version: Version,
    pub numbers: HashSet<u64>,
    /// A new row's was among them, which rows may have left that are no more.
    pub is_repeated: bool,
    /// Rows whose keys were read.
    #[cfg(test)]
    pub read: u64,
}

/// Keys that were known at the end of a transaction, for the next one.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys(HashMap<KeyOf, KnownKeys>);

impl KnownKeys {
    pub fn new(table: &TableData, key: &[ColumnId], first: u64, version: Version) -> Result<Self> {
        Ok(Self {
            rows: first..first,
            generations: generations(table, key)?,
            version,
            numbers: HashSet::new(),
            is_repeated: false,
            #[cfg(test)]
            read: 0,
        })
    }

    /// Tells whether they are of the rows of a table from a position on, as far as they go.
    pub fn are_from(&self, first: u64, table: &TableData, key: &[ColumnId]) -> Result<bool> {
        let are_of_rows = self.rows.start <= first && first <= self.rows.end;
        let are_few = self.numbers.len() as u64 <= ROWS_MAX;
        Ok(are_of_rows && are_few && self.generations == generations(table, key)?)
    }

    /// Forgets how many rows there were behind a position.
    pub fn end_at(&mut self, position: u64) {
        self.rows.end = self.rows.end.min(position);
    }
}

impl KeptKeys {
    /// Returns those of rows that are where they were in a snapshot, too.
    pub fn take(&mut self, key: &KeyOf, snapshot: &Snapshot) -> Option<KnownKeys> {
        let known = self.0.get(key)?;
        if known.version > snapshot.version() {
            // A later transaction may want them.
            return None;
        }
        let known = self.0.remove(key)?;
        let table = snapshot.table_by_id(key.0)?;
        let rows = table.beyond_files();
        let is_same = rows.moved <= known.version
            && rows.shifts.since(known.version).is_some_and(<[_]>::is_empty)
            && known.rows.end <= table.positions();
        is_same.then_some(known)
    }

    pub fn put(&mut self, key: KeyOf, known: KnownKeys) {
        let all: usize = self.0.values().map(|other| other.numbers.len()).sum();
        if all + known.numbers.len() > KEPT_MAX {
            self.0.clear();
        }
        if known.numbers.len() <= KEPT_MAX {
            self.0.insert(key, known);
        }
    }
}

fn generations(table: &TableData, key: &[ColumnId]) -> Result<Vec<Generation>> {
    let places = places(table, key)?.into_iter();
    Ok(places.map(|place| table.entry().columns[place].generation.number).collect())
}

pub(crate) fn places(table: &TableData, key: &[ColumnId]) -> Result<Vec<usize>> {
    let columns = &table.entry().columns;
    let place = |id: &ColumnId| columns.iter().position(|column| column.id == *id);
    let places: Option<Vec<usize>> = key.iter().map(place).collect();
    places.ok_or_else(|| Error::internal("a key of a column that its table has not"))
}
