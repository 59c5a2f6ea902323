//! Looking up in an index for one reader. What is found is always a row that he sees: he may see fewer than
//! the snapshot, as he does of a table of a cluster, whose rows are deleted for later readers only.

use super::entry::Entry;
use super::entry::{arrays, arrays_unless, rows_in_files, tail_arrays};
use super::name::{IndexKind, IndexSpec, ReferredKey};
use super::registry::Indexes;
use crate::snapshot::Snapshot;
use crate::table::TableData;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use hypostyle_index::{
    Imprint, Index, JoinLookup, KeyIndex, KeyLookup, NO_ROW, OrderLookup, ReverseLookup, Visible,
};
use hypostyle_types::{BLOCK_ROWS, ColumnId, Result};
use std::ops::Bound;
use std::sync::Arc;

/// The rows of a table by a unique key.
#[derive(Clone, Debug)]
pub struct TableKeys {
    lookup: KeyLookup,
    visible: Visible,
    entry: Arc<Entry>,
}

/// The rows of another table that the rows of a table refer to.
#[derive(Clone, Debug)]
pub struct TableJoin {
    lookup: JoinLookup,
    /// The rows of the table that is referred to.
    visible: Visible,
    entry: Arc<Entry>,
}

/// The rows of a table that refer to rows of another.
#[derive(Clone, Debug)]
pub struct TableReverse {
    lookup: ReverseLookup,
    visible: Visible,
    entry: Arc<Entry>,
}

/// The runs of a table's rows that may have a value.
#[derive(Clone, Debug)]
pub struct TableImprint {
    imprint: Arc<Imprint>,
    rows: u32,
    entry: Arc<Entry>,
}

/// The rows of a table in the order of a column.
#[derive(Clone, Debug)]
pub struct TableOrder {
    lookup: OrderLookup,
    visible: Visible,
    entry: Arc<Entry>,
}

/// What EXPLAIN says of an index: how it finds what it finds, its bytes, and where it lies.
fn describe(entry: &Entry) -> String {
    let bytes = match entry.bytes() {
        bytes @ 0..1000 => format!("{bytes} B"),
        bytes @ 1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        bytes => format!("{:.1} MB", bytes as f64 / 1e6),
    };
    let place = if entry.is_stored() { "stored" } else { "in memory" };
    format!("{}, {bytes}, {place}", entry.stored().index.kind().1)
}

macro_rules! described {
    ($($lookup:ident),*) => {
        $(impl $lookup {
            /// Returns what EXPLAIN says of the index: how it finds, its bytes, and where it lies.
            pub fn describe(&self) -> String {
                describe(&self.entry)
            }
        })*
    };
}

described!(TableKeys, TableJoin, TableReverse, TableImprint, TableOrder);

impl TableKeys {
    /// Returns the position of the row of each key, which the snapshot sees; [`NO_ROW`] where there
    /// is none, or a part of the key is NULL.
    ///
    /// [`NO_ROW`]: hypostyle_index::NO_ROW
    ///
    /// # Errors
    /// `Internal` when the keys are of other types than the columns.
    pub fn find(&self, keys: &[ArrayRef]) -> Result<Vec<u32>> {
        let mut found = Vec::with_capacity(keys.first().map_or(0, |column| column.len()));
        self.lookup.find(keys, &self.visible, &mut found)?;
        Ok(found)
    }

    /// Returns the positions of all rows that have one key, which the snapshot sees, in order.
    ///
    /// # Errors
    /// As [`Self::find`]; `Internal` for other than one key.
    pub fn find_all(&self, key: &[ArrayRef]) -> Result<Vec<u32>> {
        self.lookup.find_all(key, &self.visible)
    }

    /// Returns the same without the rows from a position on.
    pub fn before(&self, position: u64) -> Self {
        let end = u32::try_from(position).unwrap_or(NO_ROW);
        Self { visible: self.visible.until(end), ..self.clone() }
    }

    /// Tells whether keys of these types can be looked up.
    pub fn accepts(&self, keys: &[ArrayRef]) -> bool {
        self.lookup.accepts(keys)
    }

    /// Tells whether no two rows have the same key, deleted rows included: what has it not declared
    /// is a key all the same.
    pub fn is_unique(&self) -> bool {
        self.lookup.is_unique()
    }
}

impl TableJoin {
    /// Returns the position that each row of the table refers to, without a copy; `None` when some
    /// have to be looked up, as [`Self::follow`] does.
    pub fn all(&self) -> Option<&[u32]> {
        self.lookup.all(&self.visible)
    }

    /// Returns the position of the row that each of some rows refers to, which the snapshot sees.
    ///
    /// # Errors
    /// `Internal` for rows that are not there.
    pub fn follow(&self, rows: &[u32]) -> Result<Vec<u32>> {
        let mut found = Vec::with_capacity(rows.len());
        self.lookup.follow(rows, &self.visible, &mut found)?;
        Ok(found)
    }
}

impl TableReverse {
    /// Returns the rows that refer to each of some rows, which the snapshot sees, and the place of
    /// the row that each refers to.
    ///
    /// # Errors
    /// Those of the lookup.
    pub fn expand(&self, referred: &[u32]) -> Result<(Vec<u32>, Vec<u32>)> {
        let (mut places, mut found) = (Vec::new(), Vec::new());
        self.lookup.expand(referred, &self.visible, &mut places, &mut found)?;
        Ok((places, found))
    }
}

impl TableImprint {
    /// Tells for each run of `IMPRINT_ROWS` rows whether it may have a value between two bounds,
    /// each an array of one value, that count as within.
    ///
    /// # Errors
    /// `Internal` for values of another type than the column's.
    pub fn may_have_between(&self, low: Option<&ArrayRef>, high: Option<&ArrayRef>) -> Result<BooleanBuffer> {
        let mask = self.imprint.range(low, high)?;
        Ok(self.imprint.may_have(mask, self.rows))
    }

    /// Tells for each run of `IMPRINT_ROWS` rows whether it may have one of some values.
    ///
    /// # Errors
    /// As [`Self::may_have_between`].
    pub fn may_have(&self, values: &ArrayRef) -> Result<BooleanBuffer> {
        let mask = self.imprint.values(values)?;
        Ok(self.imprint.may_have(mask, self.rows))
    }
}

impl TableOrder {
    /// Returns the rows that the snapshot sees whose values lie between two bounds, each an array
    /// of one value.
    ///
    /// # Errors
    /// `Internal` for a bound of another type than the column.
    pub fn range(&self, low: Bound<&ArrayRef>, high: Bound<&ArrayRef>) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        self.lookup.range(low, high, &self.visible, &mut found)?;
        Ok(found)
    }

    /// Returns how many rows have values between two bounds, also deleted ones.
    ///
    /// # Errors
    /// As [`Self::range`].
    pub fn count(&self, low: Bound<&ArrayRef>, high: Bound<&ArrayRef>) -> Result<usize> {
        self.lookup.count(low, high)
    }
}

/// What is there of an index for one reader.
struct Found<'a> {
    indexes: &'a Indexes,
    entry: Arc<Entry>,
    visible: Visible,
}

impl Snapshot {
    /// Tells whether no two rows of some columns have the same key, but for those with a NULL in it;
    /// `None` for columns that cannot be a key.
    pub fn are_distinct(&self, columns: &[ArrayRef]) -> Option<bool> {
        KeyIndex::build(columns, self.registry()?.seed).map(|index| index.is_unique())
    }

    /// Tells whether a row of a table that this snapshot sees has one of some keys, by looking at all
    /// rows; `None` for keys that must be hashed, which takes longer than a join. `proceed` is asked
    /// now and then whether to go on.
    ///
    /// # Errors
    /// `Corrupt` when rows are damaged; those of `proceed`.
    pub fn has_row_of(
        &self,
        table: &TableData,
        columns: &[ColumnId],
        keys: &[ArrayRef],
        mut proceed: impl FnMut() -> Result<()>,
    ) -> Result<Option<bool>> {
        let index = KeyIndex::build(keys, 0).filter(|index| index.seed().is_none());
        let Some(index) = index else { return Ok(None) };
        let wanted = Visible::before(index.rows());
        let lookup = KeyLookup::new(index.into(), keys)?;
        let stored = arrays_unless(table, columns, 0..table.rows_in_files(), &mut proceed)?;
        let piece = |first: u64| {
            let rows = BLOCK_ROWS.min(table.rows_in_files() - first);
            stored.iter().map(|array| array.slice(first as usize, rows as usize)).collect::<Vec<_>>()
        };
        let in_files = (0..table.rows_in_files()).step_by(BLOCK_ROWS as usize).map(piece);
        let (mut first, mut found) = (0, Vec::new());
        for piece in in_files.chain(tail_arrays(table, columns)?) {
            proceed()?;
            if !lookup.accepts(&piece) {
                return Ok(None);
            }
            found.clear();
            lookup.find(&piece, &wanted, &mut found)?;
            let mut rows = (first..).zip(&found).filter(|(_, key)| **key != NO_ROW);
            if rows.any(|(row, _)| !table.deleted().contains(row)) {
                return Ok(Some(true));
            }
            first += found.len() as u64;
        }
        Ok(Some(false))
    }

    /// Returns the index of a key, if there is one. The table is one of this snapshot, perhaps without some
    /// rows: these are not found.
    ///
    /// # Errors
    /// `Corrupt` when later rows, which are read for it, are damaged.
    pub fn key_index(&self, table: &TableData, columns: &[ColumnId]) -> Result<Option<TableKeys>> {
        let spec = IndexSpec::key(table.entry().id, columns);
        let Some(found) = self.find_index(&spec, table) else { return Ok(None) };
        let lookup = found.entry.keys(table, columns, found.indexes.seed)?;
        Ok(Some(TableKeys { lookup, visible: found.visible, entry: found.entry }))
    }

    /// Returns the index of the rows of another table that columns refer to by its key, if there is one.
    ///
    /// # Errors
    /// As [`Self::key_index`].
    pub fn join_index(
        &self,
        table: &TableData,
        columns: &[ColumnId],
        referred: &TableData,
        key: &[ColumnId],
    ) -> Result<Option<TableJoin>> {
        let kind = IndexKind::Join(ReferredKey { table: referred.entry().id, columns: key.to_vec() });
        let spec = IndexSpec { table: table.entry().id, columns: columns.to_vec(), kind };
        let Some(found) = self.find_index(&spec, table) else { return Ok(None) };
        let Index::Join(index) = &found.entry.stored().index else { return Ok(None) };
        let Some(keys) = self.key_index(referred, key)? else { return Ok(None) };
        let mut pieces = vec![arrays(table, columns, 0..0)?];
        pieces.extend(tail_arrays(table, columns)?);
        let lookup = JoinLookup::new(index.clone(), &pieces, keys.lookup)?;
        if lookup.all(&keys.visible).is_none() {
            // The keys of some rows will be read.
            arrays(table, columns, 0..table.rows_in_files())?;
        }
        Ok(Some(TableJoin { lookup, visible: keys.visible, entry: found.entry }))
    }

    /// Returns the index of the rows that refer to rows of another table by its key, if there is one that
    /// tells all of them.
    ///
    /// # Errors
    /// As [`Self::key_index`].
    pub fn reverse_index(
        &self,
        table: &TableData,
        columns: &[ColumnId],
        referred: &TableData,
        key: &[ColumnId],
    ) -> Result<Option<TableReverse>> {
        let kind = IndexKind::Reverse(ReferredKey { table: referred.entry().id, columns: key.to_vec() });
        let spec = IndexSpec { table: table.entry().id, columns: columns.to_vec(), kind };
        let Some(found) = self.find_index(&spec, table) else { return Ok(None) };
        let Index::Reverse(index) = &found.entry.stored().index else { return Ok(None) };
        let Some(keys) = self.key_index(referred, key)? else { return Ok(None) };
        let Some(mut lookup) = ReverseLookup::new(index.clone(), &keys.lookup, &keys.visible) else {
            return Ok(None);
        };
        let (covered, rows) = (u64::from(index.rows()), table.rows_in_files());
        let later = arrays(table, columns, covered..rows)?;
        let later: Vec<_> =
            later.iter().map(|array| array.slice(covered as usize, (rows - covered) as usize)).collect();
        for piece in [later].into_iter().chain(tail_arrays(table, columns)?) {
            if !keys.lookup.accepts(&piece) {
                return Ok(None);
            }
            let mut referred = Vec::new();
            keys.lookup.find(&piece, &keys.visible, &mut referred)?;
            lookup.extend(&referred);
        }
        Ok(Some(TableReverse { lookup, visible: found.visible, entry: found.entry }))
    }

    /// Returns the imprint of a column, if there is one.
    pub fn imprint(&self, table: &TableData, column: ColumnId) -> Option<TableImprint> {
        let spec = IndexSpec { table: table.entry().id, columns: vec![column], kind: IndexKind::Imprint };
        let found = self.find_index(&spec, table)?;
        let Index::Imprint(imprint) = &found.entry.stored().index else { return None };
        let rows = found.visible.end();
        Some(TableImprint { imprint: imprint.clone(), rows, entry: found.entry })
    }

    /// Returns the order of a column, if there is one.
    ///
    /// # Errors
    /// As [`Self::key_index`].
    pub fn order_index(&self, table: &TableData, column: ColumnId) -> Result<Option<TableOrder>> {
        let spec = IndexSpec { table: table.entry().id, columns: vec![column], kind: IndexKind::Order };
        let Some(found) = self.find_index(&spec, table) else { return Ok(None) };
        let lookup = found.entry.order(table, column)?;
        Ok(Some(TableOrder { lookup, visible: found.visible, entry: found.entry }))
    }

    /// Returns an index that is there for the rows of this snapshot, and counts its use; what it finds is
    /// what a reader of the table sees.
    fn find_index(&self, spec: &IndexSpec, table: &TableData) -> Option<Found<'_>> {
        let indexes = self.registry()?;
        let entry = indexes.entry(spec, self)?;
        let visible = table.visible()?.clone();
        rows_in_files(table).ok()?;
        entry.count_use();
        Some(Found { indexes, entry, visible })
    }
}
