//! Rows of a table that refer to rows of another one by its key.

use super::build::differ;
use super::execution::Execution;
use super::flow::{Expression, Join, TableSource, Universe};
use super::index::{REFERRED_ROWS_MIN, ROWS_MIN, columns_of, is_few, unique_keys, wish};
use super::stop::{Stopped, stored};
use datafusion::physical_expr::expressions::Column;
use hypostyle_storage::{IndexKind, IndexSpec, ReferredKey, TableJoin, TableReverse};
use hypostyle_types::{ColumnId, Result};
use std::sync::Arc;

/// Columns of a table that may refer to a key of another one of the same snapshot.
pub(super) struct Reference<'a> {
    pub slot: usize,
    pub table: &'a TableSource,
    pub columns: Vec<ColumnId>,
    pub referred_slot: usize,
    pub referred: &'a TableSource,
    pub key: ReferredKey,
}

impl<'a> Reference<'a> {
    /// Takes pairs of a column that refers and the one that it refers to; `None` for keys of another
    /// kind.
    pub fn of(universe: &'a Universe, keys: &[(Expression, Expression)]) -> Option<Self> {
        let (slot, columns) = columns_of(universe, keys.iter().map(|(own, _)| own))?;
        let (referred_slot, key) = columns_of(universe, keys.iter().map(|(_, key)| key))?;
        let (table, referred) = (universe.table(slot)?, universe.table(referred_slot)?);
        let key = ReferredKey { table: referred.table.entry().id, columns: key };
        let is_same = Arc::ptr_eq(&table.snapshot, &referred.snapshot);
        let is_sound = is_same && !universe.outer.contains(&slot);
        is_sound.then_some(Self { slot, table, columns, referred_slot, referred, key })
    }

    fn spec(&self, kind: fn(ReferredKey) -> IndexKind) -> IndexSpec {
        let table = self.table.table.entry().id;
        IndexSpec { table, columns: self.columns.clone(), kind: kind(self.key.clone()) }
    }

    /// Tells whether the key has an index already.
    pub fn is_indexed(&self) -> Stopped<bool> {
        let index = stored(self.referred.snapshot.key_index(&self.referred.table, &self.key.columns))?;
        Ok(index.is_some_and(|index| index.is_unique()))
    }

    /// Returns the index of the rows that refer to each row of the key, if there is one.
    pub fn reverse_index(&self) -> Result<Option<TableReverse>> {
        let (table, referred) = (&self.table.table, &self.referred.table);
        self.table.snapshot.reverse_index(table, &self.columns, referred, &self.key.columns)
    }

    /// Returns the index of the row that each row refers to, if there is one.
    pub fn join_index(&self) -> Result<Option<TableJoin>> {
        let (table, referred) = (&self.table.table, &self.referred.table);
        self.table.snapshot.join_index(table, &self.columns, referred, &self.key.columns)
    }

    /// Tells whether the key is one, and has an index; one is wished for.
    fn has_key(&self, execution: &Execution) -> Stopped<bool> {
        Ok(unique_keys(execution, self.referred, &self.key.columns)?.is_some())
    }
}

/// Returns the index of the rows of a slot that refer to a key, of which so many rows are wanted, if they
/// are few.
pub(super) fn reverse_index(
    execution: &Execution,
    slot: usize,
    keys: &[(Expression, Expression)],
    wanted: usize,
) -> Stopped<Option<TableReverse>> {
    let Some(reference) = Reference::of(execution.universe(), keys) else { return Ok(None) };
    let rows = reference.referred.table.positions();
    if reference.slot != slot || rows < REFERRED_ROWS_MIN || !is_few(wanted, rows) || differ(execution, keys)?
    {
        return Ok(None);
    }
    if !reference.has_key(execution)? {
        return Ok(None);
    }
    let spec = reference.spec(IndexKind::Reverse);
    wish(execution, reference.table, &spec)?;
    stored(reference.reverse_index())
}

/// The index of the rows that a join's keys refer to.
pub(super) struct Referred {
    pub index: TableJoin,
    /// The slot of the other table, and how many rows that has.
    pub slot: usize,
    pub rows: usize,
}

/// Returns the index of the rows that a join's keys refer to, where looking them up by key takes long:
/// of texts, or of several columns.
pub(super) fn join_index(execution: &Execution, join: &Join) -> Stopped<Option<Referred>> {
    let universe = execution.universe();
    let Some(reference) = Reference::of(universe, &join.keys) else { return Ok(None) };
    let rows = reference.referred.table.positions();
    if is_short(universe, &join.keys)
        || reference.table.table.positions() < ROWS_MIN
        || rows < REFERRED_ROWS_MIN
        || universe.outer.contains(&reference.referred_slot)
        || !reference.has_key(execution)?
    {
        return Ok(None);
    }
    let slot = reference.referred_slot;
    let spec = reference.spec(IndexKind::Join);
    wish(execution, reference.table, &spec)?;
    Ok(stored(reference.join_index())?.map(|index| Referred { index, slot, rows: rows as usize }))
}

/// Tells whether keys are one integer, which is looked up in no time.
pub(super) fn is_short(universe: &Universe, keys: &[(Expression, Expression)]) -> bool {
    let [(_, key)] = keys else { return false };
    let column = key.downcast_ref::<Column>().and_then(|column| universe.columns.get(column.index()));
    column
        .is_some_and(|column| column.field.data_type().is_integer() || column.field.data_type().is_temporal())
}
