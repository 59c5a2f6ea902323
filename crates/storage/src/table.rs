//! A table of a snapshot.

use crate::column::{ColumnData, GenerationFiles, convert};
use crate::live::Live;
use crate::rows::Rows;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::concat::concat;
use hypostyle_format::{Catalog, TableEntry};
use hypostyle_index::{NO_ROW, Visible};
use hypostyle_io::Store;
use hypostyle_types::{Error, ErrorKind, Result, Version, did_you_mean};
use roaring::RoaringTreemap;
use std::sync::{Arc, OnceLock};

/// A table as one snapshot sees it: rows in column files, then rows that only the log has, but for
/// those that are deleted. A row's position counts through both.
#[derive(Debug)]
pub struct TableData {
    entry: Arc<TableEntry>,
    columns: Vec<Arc<ColumnData>>,
    rows: Rows,
    /// The rows that are not deleted, for lookups in indexes; made at first use.
    visible: OnceLock<Option<Visible>>,
    /// The columns with the rows of the log; made at first use.
    extended: Vec<OnceLock<Option<ArrayRef>>>,
    /// How its rows are handed out.
    pub(crate) live: Live,
    /// Readers see texts as views, whatever rows there are.
    as_views: bool,
}

impl TableData {
    /// `previous` is the same table in the snapshot before: what has not changed is shared with it.
    pub(crate) fn new(
        store: &Arc<Store>,
        entry: &Arc<TableEntry>,
        rows: &Rows,
        previous: Option<&Self>,
    ) -> Self {
        let live = previous.map_or_else(Live::default, |previous| previous.live.handed_on());
        if let Some(previous) = previous.filter(|previous| Arc::ptr_eq(&previous.entry, entry)) {
            return Self { live, ..Self::of(entry, previous.columns.clone(), rows) };
        }
        let columns: Vec<_> = entry
            .columns
            .iter()
            .map(|column| {
                let before = previous
                    .and_then(|table| table.columns.iter().find(|before| before.entry().id == column.id));
                let same_generation =
                    before.filter(|before| before.entry().generation.number == column.generation.number);
                match (before, same_generation) {
                    (Some(before), _) if before.entry() == column => before.clone(),
                    (_, Some(before)) => Arc::new(ColumnData::grown(before, column.clone())),
                    (_, None) => {
                        let number = column.generation.number;
                        let files = GenerationFiles::new(store.clone(), entry.id, column.id, number);
                        Arc::new(ColumnData::new(column.clone(), files))
                    }
                }
            })
            .collect();
        Self { live, ..Self::of(entry, columns, rows) }
    }

    fn of(entry: &Arc<TableEntry>, columns: Vec<Arc<ColumnData>>, rows: &Rows) -> Self {
        let extended = columns.iter().map(|_| OnceLock::new()).collect();
        Self {
            entry: entry.clone(),
            columns,
            rows: rows.clone(),
            visible: OnceLock::new(),
            extended,
            live: Live::default(),
            as_views: false,
        }
    }

    /// Returns the same rows, whose texts readers see as views: tables of a cluster have one type on
    /// all nodes, whatever rows they have there.
    pub fn with_views(&self) -> Arc<Self> {
        Arc::new(Self { as_views: true, ..Self::of(&self.entry, self.columns.clone(), &self.rows) })
    }

    /// Says whether readers see texts as views: leaving out rows then moves no bytes.
    pub fn is_viewed(&self) -> bool {
        self.as_views || !self.rows.deleted.is_empty()
    }

    pub(crate) fn same(&self, entry: &Arc<TableEntry>, rows: &Rows) -> bool {
        (Arc::ptr_eq(&self.entry, entry) || self.entry == *entry) && self.rows.same(rows)
    }

    /// Whether nothing was committed to the table since its state in an earlier version. A
    /// checkpoint is no change: rows keep their positions when they move from the log to the files.
    pub(crate) fn is_unchanged_since(&self, before: &Self, version: Version) -> bool {
        self.rows.moved <= version
            && self.positions() == before.positions()
            && (Arc::ptr_eq(&self.rows.deleted, &before.rows.deleted)
                || self.rows.deleted == before.rows.deleted)
    }

    /// Returns the table as it was when it had so many positions: the rows behind them are left out
    /// like deleted ones.
    pub fn first_positions(self: &Arc<Self>, positions: u64) -> Arc<Self> {
        let mut behind = RoaringTreemap::new();
        behind.insert_range(positions..self.positions().max(positions));
        self.without(&behind)
    }

    /// Returns the table without some rows, which are left out like deleted ones.
    pub fn without(self: &Arc<Self>, positions: &RoaringTreemap) -> Arc<Self> {
        if positions.is_empty() {
            return self.clone();
        }
        let mut rows = self.rows.clone();
        *Arc::make_mut(&mut rows.deleted) |= positions;
        rows.deleted_file = None;
        Arc::new(Self::of(&self.entry, self.columns.clone(), &rows))
    }

    pub fn entry(&self) -> &TableEntry {
        &self.entry
    }

    /// Returns the definition as this and other states of the table share it.
    pub fn shared_entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// What the column files do not tell.
    pub fn beyond_files(&self) -> &Rows {
        &self.rows
    }

    /// Rows in the column files, the deleted ones included.
    pub fn rows_in_files(&self) -> u64 {
        self.entry.rows
    }

    /// One more than the last position.
    pub fn positions(&self) -> u64 {
        self.entry.rows + self.rows.tail.rows()
    }

    /// Positions of the deleted rows.
    pub fn deleted(&self) -> &RoaringTreemap {
        &self.rows.deleted
    }

    /// Rows that are not deleted.
    pub fn rows(&self) -> u64 {
        self.positions() - self.rows.deleted.len()
    }

    /// The rows that this snapshot sees, for lookups in indexes; `None` when they are more than
    /// indexes count.
    pub(crate) fn visible(&self) -> Option<&Visible> {
        let make = || {
            let end = u32::try_from(self.positions()).ok().filter(|end| *end < NO_ROW)?;
            let Some(last) = self.deleted().max() else { return Some(Visible::before(end)) };
            let mut deleted = BooleanBufferBuilder::new(last as usize + 1);
            deleted.append_n(last as usize + 1, false);
            self.deleted().iter().for_each(|row| deleted.set_bit(row as usize, true));
            Some(Visible::without(end, deleted.finish()))
        };
        self.visible.get_or_init(make).as_ref()
    }

    /// Bytes of all rows, the deleted ones included: of those in the column files, and of those that only the
    /// log has.
    pub fn bytes(&self) -> u64 {
        let in_files: u64 = self.columns.iter().map(|column| column.bytes()).sum();
        let arrays = self.rows.tail.batches().iter().flat_map(|batch| batch.columns());
        let bytes = arrays.map(|array| array.to_data().get_slice_memory_size().unwrap_or_default() as u64);
        in_files.saturating_add(bytes.sum())
    }

    /// Whether the column files are the table, and can be handed out.
    pub fn is_in_files(&self) -> bool {
        self.rows.tail.rows() == 0 && self.rows.deleted.is_empty() && !self.is_uncommitted()
    }

    /// Whether the column files have rows of a transaction that may still be rolled back: what is
    /// read of them is copied, as their bytes may be overwritten then.
    pub fn is_uncommitted(&self) -> bool {
        self.rows.uncommitted.is_some()
    }

    /// # Errors
    /// `TransactionState` when the transaction that has written such rows was rolled back.
    pub fn check_not_rolled_back(&self) -> Result<()> {
        match &self.rows.uncommitted {
            Some(rows) if rows.is_rolled_back() => Err(Error::new(
                ErrorKind::TransactionState,
                format!("what was read of table \"{}\" has been rolled back meanwhile", self.entry.name),
            )
            .with_sqlstate("40000")),
            _ => Ok(()),
        }
    }

    pub fn columns(&self) -> &[Arc<ColumnData>] {
        &self.columns
    }

    /// Returns all rows of a column as one array, those of the log behind those of the files
    /// ([`ColumnData::array_with`]). Returns `None` where that would copy the column.
    ///
    /// # Errors
    /// `Corrupt` when a file is shorter than the catalog promises.
    pub fn whole_column(&self, index: usize) -> Result<Option<ArrayRef>> {
        let (Some(column), Some(extended)) = (self.columns.get(index), self.extended.get(index)) else {
            return Err(Error::internal(format!("table \"{}\" has no column {index}", self.entry.name)));
        };
        let stored = column.array()?;
        if self.rows.tail.rows() == 0 {
            return Ok(Some(stored));
        }
        if let Some(extended) = extended.get() {
            return Ok(extended.clone());
        }
        let made = column.array_with(&self.tail_column(index)?)?;
        Ok(extended.get_or_init(|| made).clone())
    }

    /// Returns the rows of a column that only the log has.
    pub(crate) fn tail_column(&self, index: usize) -> Result<ArrayRef> {
        let batches = self.rows.tail.batches();
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        match parts.as_slice() {
            [_] => Ok(batches[0].column(index).clone()),
            parts => concat(parts)
                .map_err(|error| Error::internal(format!("cannot join rows of the log: {error}"))),
        }
    }

    /// The column of a name, with a suggestion in the error when there is none.
    pub fn column(&self, name: &str) -> Result<&Arc<ColumnData>> {
        let found = self.columns.iter().find(|column| column.entry().name == name);
        found.ok_or_else(|| unknown_column(&self.entry, name))
    }
}

/// What names of files end in, which without quotes are tables in a schema.
const FILES: [&str; 7] = ["arrow", "csv", "json", "jsonl", "ndjson", "parquet", "tsv"];

/// The error for a table that does not exist.
pub fn unknown_table(catalog: &Catalog, name: &str) -> Error {
    let tables = catalog.tables.iter().map(|table| (table.schema.as_str(), table.name.as_str()));
    let all = tables.chain(catalog.views.iter().map(|view| (view.schema.as_str(), view.name.as_str())));
    let elsewhere = all.clone().find(|(_, known)| *known == name);
    let last = name.rsplit('.').next().unwrap_or(name);
    let suggestion = match elsewhere {
        Some((schema, known)) => format!("; did you mean \"{schema}\".\"{known}\"?"),
        None => match did_you_mean(name, all.map(|(_, known)| known)) {
            none if none.is_empty() && FILES.contains(&last) => {
                format!("; a file stands in quotes: '{name}'")
            }
            found => found,
        },
    };
    Error::new(ErrorKind::UnknownName, format!("no table or view \"{name}\"{suggestion}")).about(last)
}

/// The error for a column that a table has not, with the nearest that it has.
pub fn unknown_column(table: &TableEntry, name: &str) -> Error {
    let known = table.columns.iter().map(|column| column.name.as_str());
    Error::new(
        ErrorKind::UnknownName,
        format!("table \"{}\" has no column \"{name}\"{}", table.name, did_you_mean(name, known)),
    )
    .with_sqlstate("42703")
    .about(name)
}

/// Converts one column's array and checks NOT NULL.
///
/// # Errors
/// Those of the conversion; `Constraint` (23502) for a NULL in a column that has none.
pub fn accept(
    array: &arrow_array::ArrayRef,
    column: &hypostyle_format::ColumnEntry,
    table: &str,
    first_row: u64,
) -> Result<arrow_array::ArrayRef> {
    let converted = convert(array, &column.name, &column.logical_type, first_row)?;
    if !column.nullable
        && let Some(nulls) = converted.logical_nulls()
        && let Some(row) = nulls.iter().position(|valid| !valid)
    {
        return Err(Error::new(
            ErrorKind::Constraint,
            format!(
                "column \"{}\" of table \"{table}\" is NOT NULL, but row {} is NULL",
                column.name,
                first_row + row as u64 + 1
            ),
        )
        .with_sqlstate("23502"));
    }
    Ok(converted)
}
