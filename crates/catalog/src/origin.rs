//! The origins of a result's columns. PostgreSQL's clients get the table and the number of a column
//! that is a table's column, unchanged. For a column of the catalogs they get the type that it has
//! there.

use crate::pg_catalog::{attribute_number, catalog_column, tables_from};
use crate::scope::Scope;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan, TableScan};
use hypostyle_exec::scan::StoredTable;
use hypostyle_storage::{Snapshot, TableData};
use std::sync::Arc;

/// A column of a table, by the numbers that PostgreSQL's catalogs have for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub table: u32,
    pub column: i16,
    /// The number of its type, where that is not the one of its values' type.
    pub type_oid: Option<u32>,
}

/// Returns the origins of a plan's columns. The plan is one as written: later ones have other
/// columns in between.
pub fn origins(plan: &LogicalPlan, scope: &Scope) -> Vec<Option<Origin>> {
    (0..plan.schema().fields().len()).map(|place| origin(plan, place, scope)).collect()
}

/// Returns those of a whole table.
pub fn origins_of_table(table: &TableData, snapshot: &Arc<Snapshot>, scope: &Scope) -> Vec<Option<Origin>> {
    (0..table.columns().len()).map(|place| of_table(table, snapshot, place, scope)).collect()
}

fn origin(mut plan: &LogicalPlan, mut place: usize, scope: &Scope) -> Option<Origin> {
    loop {
        (plan, place) = match plan {
            LogicalPlan::TableScan(scan) => return of_scan(scan, place, scope),
            LogicalPlan::Projection(projection) => {
                (&projection.input, picked(projection.expr.get(place)?, &projection.input)?)
            }
            LogicalPlan::Aggregate(aggregate) => {
                // With grouping sets, columns become NULL.
                (&aggregate.input, picked(aggregate.group_expr.get(place)?, &aggregate.input)?)
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => {
                (&distinct.input, picked(distinct.select_expr.get(place)?, &distinct.input)?)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => (input, place),
            LogicalPlan::SubqueryAlias(alias) => (&alias.input, place),
            LogicalPlan::Filter(filter) => (&filter.input, place),
            LogicalPlan::Sort(sort) => (&sort.input, place),
            LogicalPlan::Limit(limit) => (&limit.input, place),
            LogicalPlan::Window(window) if place < window.input.schema().fields().len() => {
                (&window.input, place)
            }
            LogicalPlan::Join(join) => {
                let left = join.left.schema().fields().len();
                match join.join_type {
                    JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (&join.right, place),
                    _ if place < left => (&join.left, place),
                    _ => (&join.right, place - left),
                }
            }
            _ => return None,
        };
        if place >= plan.schema().fields().len() {
            return None;
        }
    }
}

/// Returns the place of the column that an expression is.
fn picked(expr: &Expr, input: &LogicalPlan) -> Option<usize> {
    match expr {
        Expr::Column(column) => input.schema().maybe_index_of_column(column),
        Expr::Alias(alias) => picked(&alias.expr, input),
        _ => None,
    }
}

fn of_scan(scan: &TableScan, place: usize, scope: &Scope) -> Option<Origin> {
    let place = match &scan.projection {
        Some(projection) => *projection.get(place)?,
        None => place,
    };
    let provider = source_as_provider(&scan.source).ok()?;
    match (provider.as_ref() as &dyn std::any::Any).downcast_ref::<StoredTable>() {
        Some(table) => of_table(table.data(), table.snapshot(), place, scope),
        None => catalog_column(&scan.table_name, place),
    }
}

fn of_table(table: &TableData, snapshot: &Arc<Snapshot>, place: usize, scope: &Scope) -> Option<Origin> {
    let table_oid = tables_from(snapshot, scope)? + table.entry().id.0 as i64;
    let column = attribute_number(table.columns().get(place)?.entry().id);
    Some(Origin {
        table: u32::try_from(table_oid).ok()?,
        column: i16::try_from(column).ok()?,
        type_oid: None,
    })
}
