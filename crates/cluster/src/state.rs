//! What a node stores about its cluster in its own database.

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use hypostyle_placement::{FragmentId, Life};
use hypostyle_storage::{NewColumn, Snapshot, TableData, Transaction};
use hypostyle_types::{Error, LogicalType, Result, TableId};
use roaring::RoaringTreemap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::sync::Arc;

/// The schema of what a node has of its cluster. Statements cannot change it.
pub const SCHEMA: &str = "hypostyle_cluster";

/// The table with one row for each thing that is known: its name, and its value as JSON.
const STATE: &str = "state";

/// The name of what the node has stored of the catalog.
pub const VOTER: &str = "voter";

/// Rows that are read at a time.
const READ_ROWS: usize = 64 * 1024;

/// Returns the name of the table that has a node's rows of a fragment.
pub fn fragment_table(fragment: FragmentId) -> String {
    format!("t{}_f{}", fragment.table, fragment.number)
}

/// Returns the name of the table that says which of these rows are deleted: for readers of how many
/// positions, and which. Earlier readers still see them.
fn deletions_table(fragment: FragmentId) -> String {
    format!("{}_deleted", fragment_table(fragment))
}

/// Returns the fragment whose rows a table has.
fn fragment_of(table: &str) -> Option<FragmentId> {
    let (table, number) = table.strip_prefix('t')?.split_once("_f")?;
    Some(FragmentId { table: TableId(table.parse().ok()?), number: number.parse().ok()? })
}

/// Returns the fragments that a database has rows of.
pub fn fragments(snapshot: &Snapshot) -> impl Iterator<Item = FragmentId> + '_ {
    let tables = snapshot.catalog().tables.iter().filter(|table| table.schema == SCHEMA);
    tables.filter_map(|table| fragment_of(&table.name))
}

/// Returns the names of what is in the schema and is not the node's: it was made before this was refused.
pub fn strangers(snapshot: &Snapshot) -> Result<Vec<String>> {
    let stored = snapshot.table(SCHEMA, STATE).map(entries).transpose()?.unwrap_or_default();
    let is_replica = |name: &str| {
        let fragment = fragment_of(name.strip_suffix("_deleted").unwrap_or(name));
        fragment.is_some_and(|fragment| stored.iter().any(|(_, known, _)| *known == replica(fragment)))
    };
    let catalog = snapshot.catalog();
    let tables = catalog.tables.iter().filter(|table| table.schema == SCHEMA).map(|table| &table.name);
    let tables = tables.filter(|name| *name != STATE && !is_replica(name));
    let views = catalog.views.iter().filter(|view| view.schema == SCHEMA).map(|view| &view.name);
    let sequences = catalog.sequences.iter().filter(|of| of.schema == SCHEMA).map(|of| &of.name);
    Ok(tables.chain(views).chain(sequences).cloned().collect())
}

/// Returns the name of what is stored about a node's replica of a fragment.
pub fn replica(fragment: FragmentId) -> String {
    format!("replica {}", fragment_table(fragment))
}

/// Returns a value that is stored.
pub fn load<T: DeserializeOwned>(snapshot: &Snapshot, name: &str) -> Result<Option<T>> {
    let Some(table) = snapshot.table(SCHEMA, STATE) else { return Ok(None) };
    let found = entries(table)?.into_iter().find(|(_, found, _)| found == name);
    let Some((_, _, text)) = found else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        Error::corrupt(format!("what is stored about the cluster as '{name}' cannot be read: {error}"))
    })
}

/// Stores a value in a transaction, in the place of the one before.
pub fn store(transaction: &mut Transaction, name: &str, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::internal(format!("cannot write what is stored as '{name}': {error}")))?;
    let id = ensure(transaction)?;
    forget(transaction, name)?;
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, false),
    ]);
    let columns: Vec<Arc<dyn Array>> =
        vec![Arc::new(StringArray::from(vec![name])), Arc::new(StringArray::from(vec![text]))];
    let row = RecordBatch::try_new(Arc::new(schema), columns)
        .map_err(|error| Error::internal(format!("cannot store '{name}': {error}")))?;
    transaction.append(id, &row)
}

/// Forgets a value in a transaction.
pub fn forget(transaction: &mut Transaction, name: &str) -> Result<()> {
    let snapshot = transaction.snapshot()?;
    let Some(table) = snapshot.table(SCHEMA, STATE) else { return Ok(()) };
    let found = entries(table)?.into_iter().filter(|(_, found, _)| found == name);
    let positions = found.map(|(position, _, _)| position).collect();
    transaction.delete(table.entry().id, &positions).map(|_| ())
}

/// Makes the schema and the table, if they are missing.
fn ensure(transaction: &mut Transaction) -> Result<TableId> {
    if !transaction.catalog().has_schema(SCHEMA) {
        transaction.create_schema(SCHEMA)?;
    }
    if let Some(table) = transaction.catalog().table(SCHEMA, STATE) {
        return Ok(table.id);
    }
    let columns = ["name", "value"].map(|name| NewColumn::new(name, LogicalType::Varchar, false));
    transaction.create_table(SCHEMA, STATE, columns.into())
}

/// Returns position, name and value of each row that is there.
fn entries(table: &Arc<TableData>) -> Result<Vec<(u64, String, String)>> {
    let positions = positions_of(table, 0..table.positions());
    let columns = table.rows_at(&[0, 1], &positions, 1)?;
    let [names, values] = columns.as_slice() else { return Err(Error::internal("rows of two columns")) };
    let (names, values) = (text(names)?, text(values)?);
    let rows = positions.values().iter().enumerate();
    Ok(rows
        .map(|(row, position)| (*position, names.value(row).to_string(), values.value(row).to_string()))
        .collect())
}

/// Returns those positions of a range whose rows are not deleted.
pub fn positions_of(table: &TableData, range: Range<u64>) -> UInt64Array {
    let deleted = table.deleted();
    range.filter(|position| !deleted.contains(*position)).collect()
}

fn text(values: &ArrayRef) -> Result<StringArray> {
    let text = arrow::compute::cast(values, &DataType::Utf8)
        .map_err(|error| Error::internal(format!("what is stored about the cluster is no text: {error}")))?;
    Ok(text.as_string::<i32>().clone())
}

/// Makes the table of a fragment like another one, if it is missing, for a life of the replica.
pub fn ensure_fragment(
    transaction: &mut Transaction,
    fragment: FragmentId,
    like: &TableData,
    life: Life,
) -> Result<TableId> {
    if !transaction.catalog().has_schema(SCHEMA) {
        transaction.create_schema(SCHEMA)?;
    }
    let name = fragment_table(fragment);
    if let Some(table) = transaction.catalog().table(SCHEMA, &name) {
        return Ok(table.id);
    }
    let columns = like.entry().columns.iter();
    let columns =
        columns.map(|column| NewColumn::new(&column.name, column.logical_type.clone(), column.nullable));
    let columns = columns.collect();
    let id = transaction.create_table(SCHEMA, &name, columns)?;
    transaction.alter_table(id, |table| {
        table.comment = Some(format!("{LIFE}{life}"));
        Ok(())
    })?;
    Ok(id)
}

/// What stands before the life of the replica in which its table was made, as a comment of the table.
const LIFE: &str = "life ";

/// Returns the life of the replica in which the table of a fragment was made; those of before had other
/// rows. A table that an earlier release has made does not tell: it may have the rows of any.
pub fn made_in_life(table: &TableData) -> Life {
    let comment = table.entry().comment.as_deref().and_then(|comment| comment.strip_prefix(LIFE));
    comment.and_then(|life| life.parse().ok()).map_or(Life(0), Life)
}

/// Returns the rows of a fragment that a node has, if it has any.
pub fn fragment(snapshot: &Snapshot, fragment: FragmentId) -> Option<Arc<TableData>> {
    snapshot.table(SCHEMA, &fragment_table(fragment)).cloned()
}

/// Returns the positions of a fragment's rows that are deleted for readers of so many positions.
///
/// # Errors
/// `Corrupt` for what is no list of positions.
fn deletions(snapshot: &Snapshot, fragment: FragmentId, positions: u64) -> Result<RoaringTreemap> {
    let mut deleted = RoaringTreemap::new();
    let Some(table) = snapshot.table(SCHEMA, &deletions_table(fragment)) else { return Ok(deleted) };
    let rows = positions_of(table, 0..table.positions());
    let columns = table.rows_at(&[0, 1], &rows, 1)?;
    let [since, lists] = columns.as_slice() else { return Err(Error::internal("rows of two columns")) };
    let lists = arrow::compute::cast(lists, &DataType::LargeBinary)
        .map_err(|error| Error::internal(format!("deleted rows of fragment {fragment}: {error}")))?;
    let entries = since.as_primitive::<UInt64Type>().values().iter().zip(lists.as_binary::<i64>());
    for (_, list) in entries.filter(|(since, _)| **since <= positions) {
        let list = RoaringTreemap::deserialize_from(list.unwrap_or_default())
            .map_err(|error| Error::corrupt(format!("deleted rows of fragment {fragment}: {error}")))?;
        deleted |= list;
    }
    Ok(deleted)
}

/// Returns the rows of a fragment that readers of so many positions see.
///
/// # Errors
/// Those of [`deletions`].
pub fn seen(
    snapshot: &Snapshot,
    table: &Arc<TableData>,
    fragment: FragmentId,
    positions: u64,
) -> Result<Arc<TableData>> {
    Ok(table.first_positions(positions).without(&deletions(snapshot, fragment, positions)?))
}

/// Notes in a transaction that rows of a fragment are deleted for readers of so many positions.
pub fn note_deletions(
    transaction: &mut Transaction,
    fragment: FragmentId,
    positions: u64,
    deleted: &RoaringTreemap,
) -> Result<()> {
    let name = deletions_table(fragment);
    let id = match transaction.catalog().table(SCHEMA, &name) {
        Some(table) => table.id,
        None => {
            let columns = vec![
                NewColumn::new("positions", LogicalType::UBigInt, false),
                NewColumn::new("deleted", LogicalType::Blob, false),
            ];
            transaction.create_table(SCHEMA, &name, columns)?
        }
    };
    let mut bytes = Vec::with_capacity(deleted.serialized_size());
    deleted
        .serialize_into(&mut bytes)
        .map_err(|error| Error::internal(format!("cannot write down deleted rows: {error}")))?;
    let row = RecordBatch::try_from_iter([
        ("positions", Arc::new(UInt64Array::from(vec![positions])) as ArrayRef),
        ("deleted", Arc::new(LargeBinaryArray::from(vec![bytes.as_slice()])) as ArrayRef),
    ]);
    let row = row.map_err(|error| Error::internal(format!("cannot write down deleted rows: {error}")))?;
    transaction.append(id, &row)
}

/// Forgets in a transaction which rows of a fragment are deleted for readers of more positions.
pub fn forget_deletions(transaction: &mut Transaction, fragment: FragmentId, positions: u64) -> Result<()> {
    let snapshot = transaction.snapshot()?;
    let Some(table) = snapshot.table(SCHEMA, &deletions_table(fragment)) else { return Ok(()) };
    let rows = positions_of(table, 0..table.positions());
    let columns = table.rows_at(&[0], &rows, 1)?;
    let [since] = columns.as_slice() else { return Err(Error::internal("rows of one column")) };
    let entries = since.as_primitive::<UInt64Type>().values().iter().zip(rows.values());
    let later = entries.filter(|(since, _)| **since > positions).map(|(_, row)| *row);
    transaction.delete(table.entry().id, &later.collect()).map(drop)
}

/// Drops in a transaction what a node has of a fragment.
pub fn drop_fragment(transaction: &mut Transaction, fragment: FragmentId) -> Result<()> {
    for name in [fragment_table(fragment), deletions_table(fragment)] {
        let found = transaction.catalog().table(SCHEMA, &name).map(|table| table.id);
        if let Some(table) = found {
            transaction.drop_table(table)?;
        }
    }
    forget(transaction, &replica(fragment))
}

/// Returns rows of a table as batches, made as they are asked for.
pub fn batches(
    table: Arc<TableData>,
    range: Range<u64>,
    threads: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + Send {
    let starts = (range.start..range.end).step_by(READ_ROWS);
    starts.map(move |start| {
        let end = range.end.min(start + READ_ROWS as u64);
        let columns: Vec<usize> = (0..table.columns().len()).collect();
        let values = table.rows_at(&columns, &positions_of(&table, start..end), threads)?;
        let named = table.columns().iter().zip(values);
        let named = named.map(|(column, values)| (column.entry().name.clone(), values, true));
        RecordBatch::try_from_iter_with_nullable(named)
            .map_err(|error| Error::internal(format!("cannot read rows: {error}")))
    })
}
