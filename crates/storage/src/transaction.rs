//! One writing transaction: staged changes, appended rows, commit.
//!
//! Rows go straight past the committed lengths of the column files, so a bulk append is written
//! once. Until the commit frame is durable no reader looks there; a transaction that is dropped
//! leaves bytes that the next one overwrites.

use crate::column::{ColumnWriter, GenerationFiles, node_count};
use crate::database::{Database, Snapshot, Writer};
use crate::table::accept;
use arrow_array::{ArrayRef, RecordBatch};
use hypostyle_format::{
    Catalog, Change, ColumnEntry, ColumnGeneration, Commit, Encoding, GenerationEntry, NodeEntry,
    SchemaEntry, TableEntry, ViewEntry,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, Generation, LogicalType, Result, TableId, did_you_mean};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows converted and encoded at a time: bounds the memory of an append.
const APPEND_ROWS: usize = 256 * 1024;

/// Cells below which more threads cost more than they bring.
const PARALLEL_CELLS_MIN: usize = 64 * 1024;

/// A column of a table to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewColumn {
    pub name: String,
    pub logical_type: LogicalType,
    pub nullable: bool,
    /// SQL text.
    pub default: Option<String>,
}

/// Changes that become visible together, or not at all.
pub struct WriteTransaction<'a> {
    database: &'a Arc<Database>,
    writer: MutexGuard<'a, Writer>,
    catalog: Catalog,
    changes: Vec<Change>,
    appends: BTreeMap<TableId, TableAppend>,
    threads: usize,
}

struct TableAppend {
    entry: TableEntry,
    rows: u64,
    columns: Vec<ColumnWriter>,
    new_directory: bool,
}

impl<'a> WriteTransaction<'a> {
    pub(crate) fn new(database: &'a Arc<Database>, writer: MutexGuard<'a, Writer>, threads: usize) -> Self {
        let catalog = database.snapshot().catalog().clone();
        Self {
            database,
            writer,
            catalog,
            changes: Vec::new(),
            appends: BTreeMap::new(),
            threads: threads.max(1),
        }
    }

    /// The catalog with this transaction's changes, but for appended rows.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn change(&mut self, change: Change) -> Result<()> {
        self.catalog.apply_change(&change)?;
        self.changes.push(change);
        Ok(())
    }

    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        self.change(Change::CreateSchema(SchemaEntry { name: name.into() }))
    }

    pub fn drop_schema(&mut self, name: &str) -> Result<()> {
        self.change(Change::DropSchema(SchemaEntry { name: name.into() }))
    }

    pub fn create_table(&mut self, schema: &str, name: &str, columns: Vec<NewColumn>) -> Result<TableId> {
        let id = self.catalog.next_table_id;
        let columns: Vec<ColumnEntry> = columns
            .into_iter()
            .zip(0..)
            .map(|(column, number)| ColumnEntry {
                id: ColumnId(number),
                name: column.name,
                generation: GenerationEntry {
                    number: Generation(0),
                    encoding: Encoding::Plain,
                    nodes: vec![NodeEntry::default(); node_count(&column.logical_type)],
                },
                logical_type: column.logical_type,
                nullable: column.nullable,
                default: column.default,
            })
            .collect();
        let next_column_id = ColumnId(columns.len() as u32);
        let table =
            TableEntry { id, schema: schema.into(), name: name.into(), rows: 0, next_column_id, columns };
        self.change(Change::CreateTable { table })?;
        Ok(id)
    }

    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        self.appends.remove(&id);
        self.change(Change::DropTable { id })
    }

    pub fn create_view(&mut self, view: ViewEntry) -> Result<()> {
        self.change(Change::CreateView { view })
    }

    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<()> {
        self.change(Change::DropView { schema: schema.into(), name: name.into() })
    }

    /// Appends rows; the batch's columns are the table's, in order.
    ///
    /// # Errors
    /// `InvalidInput` or `Constraint` naming column, row and value; `DiskFull`, `Io`. The transaction
    /// must then be dropped.
    pub fn append(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        self.open_append(table)?;
        let threads = self.threads;
        let Some(append) = self.appends.get_mut(&table) else {
            return Err(Error::internal("an append without a table"));
        };
        if batch.num_columns() != append.columns.len() {
            return Err(Error::invalid_input(format!(
                "table \"{}\" has {} columns, but the data has {}",
                append.entry.name,
                append.columns.len(),
                batch.num_columns()
            )));
        }
        for start in (0..batch.num_rows()).step_by(APPEND_ROWS) {
            append.append(&batch.slice(start, APPEND_ROWS.min(batch.num_rows() - start)), threads)?;
        }
        Ok(())
    }

    fn open_append(&mut self, table: TableId) -> Result<()> {
        if self.appends.contains_key(&table) {
            return Ok(());
        }
        let Some(entry) = self.catalog.tables.iter().find(|entry| entry.id == table) else {
            return Err(Error::new(ErrorKind::UnknownName, format!("no table with id {table}")));
        };
        let store = self.database.store();
        let snapshot = self.database.snapshot();
        let published = snapshot.table_by_id(table);
        let new_directory = published.is_none_or(|table| table.rows() == 0);
        if new_directory {
            store.create_directory(&format!("columns/{table}"))?;
        }
        let columns = entry
            .columns
            .iter()
            .map(|column| {
                // A handle of its own: what the writer abandons is not what the snapshot holds.
                let files = GenerationFiles::new(store.clone(), table, column.id, column.generation.number);
                ColumnWriter::open(column, files)
                    .map_err(|error| error.context(format!("column \"{}\"", column.name)))
            })
            .collect::<Result<_>>()?;
        let append = TableAppend { entry: entry.clone(), rows: entry.rows, columns, new_directory };
        self.appends.insert(table, append);
        Ok(())
    }

    /// Makes everything durable, then visible.
    ///
    /// # Errors
    /// `DiskFull` or `Io`; nothing of the transaction is then visible, now or after reopening.
    pub fn commit(mut self) -> Result<Arc<Snapshot>> {
        for (id, mut append) in std::mem::take(&mut self.appends) {
            let generations = append.finish(self.threads)?;
            if append.new_directory {
                self.database.store().sync_directory("columns")?;
            }
            self.database.store().sync_directory(&format!("columns/{id}"))?;
            self.change(Change::Append { id, rows: append.rows, generations })?;
        }
        if self.changes.is_empty() {
            return Ok(self.database.snapshot());
        }
        self.catalog.version = self.catalog.version.next();
        let frame = Commit { changes: self.changes }.encode(self.catalog.version)?;
        self.database.publish(&mut self.writer, &frame, self.catalog)
    }
}

impl TableAppend {
    fn append(&mut self, batch: &RecordBatch, threads: usize) -> Result<()> {
        let (table, first_row) = (&self.entry.name, self.rows - self.entry.rows);
        let work: Vec<(&mut ColumnWriter, &ColumnEntry, &ArrayRef)> = self
            .columns
            .iter_mut()
            .zip(&self.entry.columns)
            .zip(batch.columns())
            .map(|((writer, column), array)| (writer, column, array))
            .collect();
        let threads = if batch.num_rows() * work.len() < PARALLEL_CELLS_MIN { 1 } else { threads };
        in_parallel(work, threads, |(writer, column, array)| {
            writer.append(&accept(array, column, table, first_row)?)
        })?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn finish(&mut self, threads: usize) -> Result<Vec<ColumnGeneration>> {
        let mut generations = Vec::with_capacity(self.columns.len());
        for (writer, column) in self.columns.iter_mut().zip(&self.entry.columns) {
            let generation = writer.finish()?;
            generations.push(ColumnGeneration { column: column.id, generation });
        }
        // A device takes several syncs at once better than one after the other.
        in_parallel(self.columns.iter().collect(), threads.max(4), ColumnWriter::sync)?;
        Ok(generations)
    }
}

/// Runs `task` over the items on up to `threads` threads; the first error in item order wins.
fn in_parallel<T: Send>(items: Vec<T>, threads: usize, task: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().try_for_each(task);
    }
    let workers = threads.min(items.len());
    let queue = Mutex::new(items.into_iter().enumerate());
    let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().next();
                    let Some((index, item)) = next else { return };
                    if let Err(error) = task(item) {
                        let mut failure = failure.lock();
                        if failure.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                            *failure = Some((index, error));
                        }
                    }
                }
            });
        }
    });
    failure.into_inner().map_or(Ok(()), |(_, error)| Err(error))
}

/// The error for a table that does not exist.
pub fn unknown_table(catalog: &Catalog, name: &str) -> Error {
    let names = catalog.tables.iter().map(|table| table.name.as_str());
    let names = names.chain(catalog.views.iter().map(|view| view.name.as_str()));
    Error::new(ErrorKind::UnknownName, format!("no table or view \"{name}\"{}", did_you_mean(name, names)))
}
