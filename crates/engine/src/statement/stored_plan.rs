//! Plans that only pick, rename and cut stored columns: nothing has to run for them.

use crate::session::outcome::StoredResult;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use hypostyle_exec::scan::StoredTable;
use hypostyle_storage::{Snapshot, TableData};
use hypostyle_types::Result;
use std::sync::Arc;

/// A result that only picks, renames and cuts the columns of a table.
pub(crate) struct StoredPlan {
    pub table: Arc<TableData>,
    snapshot: Arc<Snapshot>,
    /// Names, with the places of the columns in the table.
    pub columns: Vec<(String, usize)>,
    offset: u64,
    rows: u64,
}

impl StoredPlan {
    pub fn whole(table: &Arc<TableData>, snapshot: &Arc<Snapshot>) -> Self {
        let columns = table.entry().columns.iter().zip(0..);
        Self {
            columns: columns.map(|(column, index)| (column.name.clone(), index)).collect(),
            offset: 0,
            rows: table.rows(),
            table: table.clone(),
            snapshot: snapshot.clone(),
        }
    }

    /// Returns the columns as they lie, without the deleted rows between them.
    pub fn open(self, threads: usize) -> Result<StoredResult> {
        let Self { table, snapshot, columns, offset, rows } = self;
        StoredResult::open(&table, snapshot, columns, offset..offset + rows, threads)
    }
}

/// Returns the stored columns that an optimized plan amounts to, if it only picks, renames and
/// cuts.
pub(crate) fn stored_result(plan: &LogicalPlan, schema: &Schema) -> Option<StoredPlan> {
    let mut found = stored(plan)?;
    // The optimizer may drop an outermost rename; the names are those of the plan as written.
    if found.columns.len() != schema.fields().len() || found.columns.is_empty() {
        return None;
    }
    for ((name, _), field) in found.columns.iter_mut().zip(schema.fields()) {
        name.clone_from(field.name());
    }
    Some(found)
}

fn stored(plan: &LogicalPlan) -> Option<StoredPlan> {
    match plan {
        LogicalPlan::TableScan(scan) => stored_scan(scan),
        LogicalPlan::SubqueryAlias(alias) => stored(&alias.input),
        LogicalPlan::Projection(projection) => {
            let input = stored(&projection.input)?;
            let columns = projection
                .expr
                .iter()
                .map(|expr| {
                    let column = stored_column(expr)?;
                    let index = projection.input.schema().maybe_index_of_column(column)?;
                    let (_, place) = input.columns.get(index)?;
                    Some((expr.schema_name().to_string(), *place))
                })
                .collect::<Option<_>>()?;
            Some(StoredPlan { columns, ..input })
        }
        LogicalPlan::Limit(limit) => {
            let mut input = stored(&limit.input)?;
            let skip = literal(limit.skip.as_deref(), 0)?.min(input.rows);
            let fetch = literal(limit.fetch.as_deref(), u64::MAX)?;
            input.offset += skip;
            input.rows = (input.rows - skip).min(fetch);
            Some(input)
        }
        _ => None,
    }
}

fn stored_column(expr: &Expr) -> Option<&datafusion::common::Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => stored_column(&alias.expr),
        _ => None,
    }
}

fn literal(expr: Option<&Expr>, absent: u64) -> Option<u64> {
    match expr {
        None => Some(absent),
        Some(Expr::Literal(ScalarValue::Int64(Some(value)), _)) => u64::try_from(*value).ok(),
        Some(Expr::Literal(ScalarValue::UInt64(Some(value)), _)) => Some(*value),
        Some(_) => None,
    }
}

fn stored_scan(scan: &TableScan) -> Option<StoredPlan> {
    if !scan.filters.is_empty() {
        return None;
    }
    let provider = source_as_provider(&scan.source).ok()?;
    let table = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<StoredTable>()?;
    let mut found = StoredPlan::whole(table.data(), table.snapshot());
    if let Some(projection) = &scan.projection {
        let columns = projection.iter().map(|index| found.columns.get(*index).cloned());
        found.columns = columns.collect::<Option<_>>()?;
    } else if scan.source.schema().fields().len() != found.columns.len() {
        // The scan includes positions.
        return None;
    }
    if let Some(fetch) = scan.fetch {
        found.rows = found.rows.min(fetch as u64);
    }
    Some(found)
}
