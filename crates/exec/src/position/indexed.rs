//! Which indexes may find rows, as plans and EXPLAIN see it.

use super::build::indexed_key;
use super::flow::{Expression, Flow, Join, Kind, Step, Universe};
use super::index::{ROWS_MIN, declared, keys_of, large_table};
use super::reference::{Reference, is_short};
use crate::scan::{PlainScan, ScanExec};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::filter::FilterExec;
use hypostyle_storage::{DeclaredIndex, TableData, TableKeys};
use hypostyle_types::{ColumnId, Result};

/// Columns of a table that a plan compares with constants.
#[derive(Default)]
struct Bounded(Vec<(ColumnId, Operator)>);

impl Bounded {
    /// Adds a condition, if it compares a column with a constant; `id` says which column it is.
    fn add(&mut self, condition: &Expression, id: impl Fn(&Expression) -> Option<ColumnId>) {
        let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return };
        let column = match (binary.left().is::<Literal>(), binary.right().is::<Literal>()) {
            (false, true) => id(binary.left()),
            (true, false) => id(binary.right()),
            _ => None,
        };
        let column = column.filter(|_| binary.op().supports_propagation());
        self.0.extend(column.map(|column| (column, *binary.op())));
    }

    /// Returns the keys that have values.
    fn keys<'a>(&self, table: &'a TableData) -> impl Iterator<Item = &'a [ColumnId]> {
        keys_of(table).filter(|key| key.iter().all(|column| self.0.contains(&(*column, Operator::Eq))))
    }

    /// Returns the columns with an order that have bounds.
    fn orders(&self, table: &TableData) -> impl Iterator<Item = ColumnId> {
        let columns = declared(table, DeclaredIndex::Order).flatten().copied();
        columns.filter(|column| self.0.iter().any(|(known, _)| known == column))
    }
}

/// Tells whether a filter gives values to all columns of a table's key, or bounds to one that has an
/// order, so that an index may find its rows.
pub(super) fn may_find(filter: &FilterExec) -> bool {
    let scan = filter.input().downcast_ref::<ScanExec>().and_then(ScanExec::plain);
    let Some(PlainScan { table, projection, .. }) = scan else { return false };
    if table.positions() < ROWS_MIN {
        return false;
    }
    let id = |side: &Expression| {
        let place = projection.get(side.downcast_ref::<Column>()?.index())?;
        Some(table.columns().get(*place)?.entry().id)
    };
    let mut bounded = Bounded::default();
    split_conjunction(filter.predicate()).into_iter().for_each(|condition| bounded.add(condition, id));
    bounded.keys(table).next().is_some() || bounded.orders(table).next().is_some()
}

/// Returns what EXPLAIN says of the indexes that may find rows of a flow's table.
pub(super) fn describe(universe: &Universe, flow: &Flow) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let Some(source) = large_table(universe, flow) else { return Ok(found) };
    let (table, snapshot) = (&source.table, &source.snapshot);
    let id = |side: &Expression| {
        let column = universe.columns.get(side.downcast_ref::<Column>()?.index())?;
        let column = Some(column).filter(|column| column.slot == flow.slot)?;
        Some(source.table.columns().get(column.column)?.entry().id)
    };
    let mut bounded = Bounded::default();
    for step in &flow.steps {
        match step {
            Step::Filter(condition) => bounded.add(condition, id),
            Step::Join(join) => {
                if let Some(reference) = Reference::of(universe, &join.keys).filter(|it| it.slot == flow.slot)
                    && matches!(join.kind, Kind::Inner | Kind::Semi)
                    && let Some(index) = reference.reverse_index()?
                {
                    found.push(format!("reverse index ({})", index.describe()));
                }
            }
        }
    }
    for key in bounded.keys(&source.table) {
        found
            .extend(snapshot.key_index(table, key)?.map(|index| format!("key index ({})", index.describe())));
    }
    for column in bounded.orders(&source.table) {
        let index = snapshot.order_index(table, column)?;
        found.extend(index.map(|index| format!("order index ({})", index.describe())));
    }
    for (column, _) in &bounded.0 {
        let imprint = snapshot.imprint(table, *column);
        found.extend(imprint.map(|imprint| format!("imprint ({})", imprint.describe())));
    }
    Ok(found)
}

/// Returns what EXPLAIN says of the index that finds the partners of a join's rows.
pub(super) fn describe_join(universe: &Universe, join: &Join) -> Result<Option<String>> {
    if let Some(reference) = Reference::of(universe, &join.keys).filter(|_| !join.nulls_equal)
        && !is_short(universe, &join.keys)
        && let Some(index) = reference.join_index()?
    {
        return Ok(Some(format!("join index ({})", index.describe())));
    }
    let Some((source, columns)) = indexed_key(universe, join) else { return Ok(None) };
    let index = source.snapshot.key_index(&source.table, &columns)?;
    Ok(index.filter(TableKeys::is_unique).map(|index| format!("key index ({})", index.describe())))
}
