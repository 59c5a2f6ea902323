//! The primary keys of tables that a plan scans.

use crate::pg_catalog::primary_key;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::TableScan;
use hypostyle_exec::scan::StoredTable;
use hypostyle_storage::ConstraintRule;

/// The places of the columns of a table's primary key.
pub fn key_of(scan: &TableScan) -> Option<Vec<usize>> {
    let provider = source_as_provider(&scan.source).ok()?;
    let Some(table) = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<StoredTable>() else {
        return primary_key(&scan.table_name);
    };
    let entry = table.data().entry();
    let key = entry.constraints.iter().find_map(|constraint| match &constraint.rule {
        ConstraintRule::PrimaryKey { columns } => Some(columns),
        _ => None,
    })?;
    key.iter().map(|id| entry.columns.iter().position(|column| column.id == *id)).collect()
}
