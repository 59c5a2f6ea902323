//! Rows by the indexes of keys, where a query would read whole tables: the checks of constraints
//! look up the keys of new rows, and a query for the rows of one key reads these alone.
//!
//! Few new rows are compared with those that no index covers by numbers of their keys, which are kept
//! for the next statement. An index, or such a number, only shows that a constraint is kept. Where it
//! does not, the query of the constraint decides, and finds the row for the error.

use arrow::array::{Array, ArrayRef, UInt64Array};
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::logical_expr::{Expr, Operator};
use hypostyle_error::from_datafusion;
use hypostyle_exec::scan::StoredTable;
use hypostyle_storage::{
    Changed, ConstraintRule, DeclaredIndex, IndexSpec, NO_ROW, Snapshot, TableData, TableKeys, Transaction,
    convert,
};
use hypostyle_types::{BLOCK_ROWS, ColumnId, Error, Result, TableId};
use std::collections::BTreeMap;
use std::ops::Range;

/// A table with fewer rows in its files is read sooner than an index over it is built.
const ROWS_MIN: u64 = BLOCK_ROWS;

/// Rows whose keys are looked up together.
const PIECE_ROWS: u64 = BLOCK_ROWS;

/// A query reads more committed rows than these, which will have an index, sooner than their keys get
/// numbers.
const NUMBERED_ROWS_MAX: u64 = 4 * BLOCK_ROWS;

/// The keys of more new rows than these are compared by a query, which can spill.
const COMPARED_ROWS_MAX: u64 = 1 << 20;

/// More rows of one key than these are worth a plan.
const FOUND_ROWS_MAX: usize = 8192;

/// Asked now and then, and may end the work with its error.
pub(super) type Proceed<'a> = &'a dyn Fn() -> Result<()>;

/// What an index shows of the new rows of a table.
pub(super) enum Shown {
    /// They keep the constraint.
    Kept,
    /// They keep it unless two of the rows from a position on have the same key.
    KeptBefore(u64),
    Nothing,
}

fn may_have_index(table: &TableData) -> bool {
    table.rows_in_files() >= ROWS_MIN && !table.is_uncommitted()
}

/// Returns the index of a key for a snapshot, if there is one; builds it when it was wished for
/// often enough.
fn keys_of(
    snapshot: &Snapshot,
    table: &TableData,
    columns: &[ColumnId],
    proceed: Proceed<'_>,
) -> Result<Option<TableKeys>> {
    if !may_have_index(table) {
        return Ok(None);
    }
    let spec = IndexSpec::key(table.entry().id, columns);
    if snapshot.wish_index(&spec) {
        snapshot.build_index(&spec, proceed)?;
    }
    snapshot.key_index(table, columns)
}

/// Returns the state of a table that an index may cover: that which a transaction sees, or that
/// before it where it has written to the files of the table. Rows keep their positions, and some
/// columns their values.
fn with_index<'a>(
    writer: &'a Transaction,
    snapshot: &'a Snapshot,
    table: &'a TableData,
    columns: &[ColumnId],
) -> Option<(&'a Snapshot, &'a TableData)> {
    if !table.is_uncommitted() {
        return Some((snapshot, table));
    }
    let base = writer.base();
    let before = base.table_by_id(table.entry().id)?.as_ref();
    let generation = |table: &TableData, id: ColumnId| {
        table.entry().column_by_id(id).map(|column| column.generation.number)
    };
    let is_same = |id: &ColumnId| generation(before, *id) == generation(table, *id);
    columns.iter().all(is_same).then_some((base.as_ref(), before))
}

/// Says what indexes show of the rows of a table from the position of the first new one on.
pub(super) fn shown_by_index(
    writer: &mut Transaction,
    snapshot: &Snapshot,
    table: &TableData,
    rule: &ConstraintRule,
    first: u64,
    proceed: Proceed<'_>,
) -> Result<Shown> {
    match rule {
        ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => {
            shown_of_key(writer, snapshot, table, columns, first, proceed)
        }
        ConstraintRule::ForeignKey { columns, table: other, referred, .. } => {
            let other = snapshot.table_by_id(*other);
            let all_refer = match other {
                Some(other) => {
                    let key = (other.as_ref(), referred.as_slice());
                    all_refer(writer, snapshot, table, columns, key, first, proceed)?
                }
                None => false,
            };
            Ok(if all_refer { Shown::Kept } else { Shown::Nothing })
        }
        ConstraintRule::Check { .. } => Ok(Shown::Nothing),
    }
}

fn shown_of_key(
    writer: &mut Transaction,
    snapshot: &Snapshot,
    table: &TableData,
    key: &[ColumnId],
    first: u64,
    proceed: Proceed<'_>,
) -> Result<Shown> {
    let new = table.positions().saturating_sub(first);
    if new == 0 {
        return Ok(Shown::Kept);
    }
    let keys = match with_index(writer, snapshot, table, key) {
        Some((of, indexed)) => {
            let end = first.min(indexed.positions());
            keys_of(of, indexed, key, proceed)?.map(|keys| (keys.before(end), end))
        }
        None => None,
    };
    let end = keys.as_ref().map_or(0, |(_, end)| *end);
    if let Some((keys, _)) = &keys {
        for positions in pieces(table, first..table.positions()) {
            proceed()?;
            let columns = columns_at(table, key, &positions)?;
            let is_there = |row: &u32| *row != NO_ROW && !table.deleted().contains(u64::from(*row));
            if !keys.accepts(&columns) || keys.find(&columns)?.iter().any(is_there) {
                return Ok(Shown::Nothing);
            }
        }
        if table.positions() - end == 1 {
            return Ok(Shown::Kept);
        }
    }
    // Many rows at once are sooner compared all together.
    let are_many = new > PIECE_ROWS;
    let is_large = keys.is_none() && may_have_index(table) && table.positions() > NUMBERED_ROWS_MAX;
    if !are_many && !is_large && writer.shows_new_keys(table, key, end, first, proceed)? {
        return Ok(Shown::Kept);
    }
    if table.positions() - end > COMPARED_ROWS_MAX || (are_many || is_large) && keys.is_none() {
        return Ok(Shown::KeptBefore(end));
    }
    let all = pieces(table, end..table.positions()).flat_map(|piece| piece.values().to_vec());
    let all = UInt64Array::from_iter_values(all);
    let are_distinct = snapshot.are_distinct(&columns_at(table, key, &all)?);
    Ok(if are_distinct == Some(true) { Shown::Kept } else { Shown::KeptBefore(end) })
}

/// Says whether an index shows that the rows from a position on refer to rows that are there.
fn all_refer(
    writer: &Transaction,
    snapshot: &Snapshot,
    table: &TableData,
    columns: &[ColumnId],
    (other, referred): (&TableData, &[ColumnId]),
    first: u64,
    proceed: Proceed<'_>,
) -> Result<bool> {
    let Some((of, indexed)) = with_index(writer, snapshot, other, referred) else { return Ok(false) };
    let Some(keys) = keys_of(of, indexed, referred, proceed)? else { return Ok(false) };
    for positions in pieces(table, first..table.positions()) {
        proceed()?;
        let columns = columns_at(table, columns, &positions)?;
        if !keys.accepts(&columns) {
            return Ok(false);
        }
        let is_null = |row: usize| columns.iter().any(|column| column.is_null(row));
        let is_there = |row: u32| row != NO_ROW && !other.deleted().contains(u64::from(row));
        let found = keys.find(&columns)?;
        if !found.iter().enumerate().all(|(row, position)| is_there(*position) || is_null(row)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Says whether a lookup shows that no row of a table refers by a foreign key to a row that a
/// statement has deleted or given another key.
pub(super) fn none_refers(
    snapshot: &Snapshot,
    id: TableId,
    rule: &ConstraintRule,
    changed: &BTreeMap<TableId, Changed>,
    proceed: Proceed<'_>,
) -> Result<bool> {
    let ConstraintRule::ForeignKey { columns, table: other, referred, .. } = rule else {
        return Ok(false);
    };
    let removed = changed.get(other).map(|changed| &changed.removed);
    let removed = removed.filter(|removed| removed.len() <= PIECE_ROWS);
    let (Some(table), Some(other), Some(removed)) =
        (snapshot.table_by_id(id), snapshot.table_by_id(*other), removed)
    else {
        return Ok(false);
    };
    let gone = columns_at(other, referred, &UInt64Array::from_iter_values(removed))?;
    match keys_of(snapshot, table, columns, proceed)? {
        Some(keys) => Ok(keys.accepts(&gone) && keys.find(&gone)?.iter().all(|row| *row == NO_ROW)),
        None => Ok(snapshot.has_row_of(table, columns, &gone, proceed)? == Some(false)),
    }
}

/// Returns the positions of the rows that are not deleted, in pieces.
fn pieces(table: &TableData, rows: Range<u64>) -> impl Iterator<Item = UInt64Array> {
    let starts = rows.clone().step_by(PIECE_ROWS as usize);
    let piece = move |start: u64| {
        let piece = start..rows.end.min(start + PIECE_ROWS);
        match table.deleted().range_cardinality(piece.clone()) {
            0 => UInt64Array::from_iter_values(piece),
            _ => UInt64Array::from_iter_values(piece.filter(|row| !table.deleted().contains(*row))),
        }
    };
    starts.map(piece).filter(|piece| !piece.is_empty())
}

/// Returns columns of the rows at some positions, as they are stored but without dictionaries.
fn columns_at(table: &TableData, columns: &[ColumnId], positions: &UInt64Array) -> Result<Vec<ArrayRef>> {
    table.rows_at(&places(table, columns)?, positions, 1)
}

/// Returns the values that a column has in the rows of a table from a position on.
pub(super) fn values_from(table: &TableData, column: ColumnId, first: u64) -> Result<Vec<ScalarValue>> {
    let mut values = Vec::new();
    for piece in pieces(table, first..table.positions()) {
        for array in columns_at(table, &[column], &piece)? {
            for row in 0..array.len() {
                values.push(ScalarValue::try_from_array(&array, row).map_err(from_datafusion)?);
            }
        }
    }
    Ok(values)
}

fn places(table: &TableData, columns: &[ColumnId]) -> Result<Vec<usize>> {
    let place = |id: &ColumnId| {
        let place = table.columns().iter().position(|column| column.entry().id == *id);
        place.ok_or_else(|| Error::internal("a key of a column that its table has not"))
    };
    columns.iter().map(place).collect()
}

/// Returns the keys of a table that may have an index: those of its constraints, and those that
/// somebody has declared.
fn keys_with_index(table: &TableData) -> impl Iterator<Item = &[ColumnId]> {
    let entry = table.entry();
    let declared = entry.indexes.iter().filter(|index| index.kind == DeclaredIndex::Key);
    let keys = entry.constraints.iter().filter_map(|constraint| constraint.rule.key());
    keys.chain(declared.map(|index| index.columns.as_slice()))
}

/// The indexes by which a query may find its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexes {
    /// Those that there are: nobody wishes for others.
    Known,
    /// One that is to be built is a reason to ask again, where that may take its time.
    Wished,
    /// One that is to be built is built first.
    Built,
}

/// The rows of a key.
pub(super) enum Found {
    Rows(Vec<Range<u64>>),
    /// An index is to be built first, which takes time.
    Later,
    Nothing,
}

/// Returns where the rows are whose columns at some places have these values, if all columns of a key are
/// among them and an index finds them. `proceed` is asked while one is built.
pub(super) fn rows_by_key(
    table: &StoredTable,
    values: &[(usize, ScalarValue)],
    indexes: Indexes,
    proceed: Proceed<'_>,
) -> Result<Found> {
    let data = table.data();
    let value_of = |id: &ColumnId| {
        let place = data.columns().iter().position(|column| column.entry().id == *id)?;
        let (_, value) = values.iter().find(|(of, _)| *of == place)?;
        stored_value(data, place, value)
    };
    let found = keys_with_index(data).find_map(|key| {
        let values: Option<Vec<ArrayRef>> = key.iter().map(value_of).collect();
        Some((key, values?))
    });
    let Some((key, values)) = found else { return Ok(Found::Nothing) };
    let snapshot = table.snapshot();
    if !may_have_index(data) {
        return Ok(Found::Nothing);
    }
    let spec = IndexSpec::key(data.entry().id, key);
    if indexes != Indexes::Known && snapshot.wish_index(&spec) {
        if indexes == Indexes::Wished {
            return Ok(Found::Later);
        }
        snapshot.build_index(&spec, proceed)?;
    }
    let index = snapshot.key_index(data, key)?;
    let Some(index) = index.filter(|index| index.accepts(&values)) else { return Ok(Found::Nothing) };
    let rows = index.find_all(&values)?;
    if rows.len() > FOUND_ROWS_MAX {
        return Ok(Found::Nothing);
    }
    Ok(Found::Rows(rows.into_iter().map(|row| u64::from(row)..u64::from(row) + 1).collect()))
}

/// Returns the place of a column and the value that a conjunct says it has.
pub(super) fn value_of_column(conjunct: &Expr, input: &DFSchemaRef) -> Option<(usize, ScalarValue)> {
    let Expr::BinaryExpr(binary) = conjunct else { return None };
    match (binary.left.as_ref(), binary.op, binary.right.as_ref()) {
        (Expr::Column(column), Operator::Eq, Expr::Literal(value, _)) if !value.is_null() => {
            let place = input.maybe_index_of_column(column)?;
            (value.data_type() == *input.field(place).data_type()).then(|| (place, value.clone()))
        }
        _ => None,
    }
}

/// Returns a value in the form in which a column stores it; `None` for one that it cannot have.
fn stored_value(table: &TableData, place: usize, value: &ScalarValue) -> Option<ArrayRef> {
    let column = table.columns().get(place)?.entry();
    convert(&value.to_array().ok()?, &column.name, &column.logical_type, 0).ok()
}
