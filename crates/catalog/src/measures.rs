//! What the planner is told of tables, to put joins in order.

use arrow::array::UInt64Array;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::TableScan;
use hypostyle_cluster::table::PartitionedTable;
use hypostyle_exec::scan::StoredTable;
use hypostyle_foreign::ForeignTable;
use hypostyle_plan::join_order::{ColumnMeasure, Measures};
use hypostyle_storage::{Bound, ColumnData, ConstraintRule, TableData};
use hypostyle_types::LogicalType;
use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

pub fn measures() -> Measures {
    Measures { rows, column }
}

fn table(scan: &TableScan) -> Option<Arc<TableData>> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = (provider.as_ref() as &dyn Any).downcast_ref::<StoredTable>()?;
    Some(table.data().clone())
}

fn rows(scan: &TableScan) -> Option<u64> {
    let provider = source_as_provider(&scan.source).ok()?;
    let provider = provider.as_ref() as &dyn Any;
    if let Some(foreign) = provider.downcast_ref::<ForeignTable>() {
        return foreign.rows();
    }
    let partitioned = provider.downcast_ref::<PartitionedTable>();
    partitioned.map_or_else(|| table(scan).map(|table| table.rows()), PartitionedTable::rows)
}

fn column(scan: &TableScan, place: usize) -> Option<ColumnMeasure> {
    let provider = source_as_provider(&scan.source).ok()?;
    if let Some(partitioned) = (provider.as_ref() as &dyn Any).downcast_ref::<PartitionedTable>() {
        return of_fragment(partitioned, scan.source.schema().fields().get(place)?.name());
    }
    let table = table(scan)?;
    let column = table.columns().get(place)?;
    // What is known of the files says little of rows that only the log has.
    let range = range(column).filter(|_| is_in_files(&table, column));
    let nulls = column.null_count() as f64;
    Some(ColumnMeasure { distinct: distinct(&table, place, range), nulls, range })
}

/// Returns what is known of a column of a table over several nodes, by one of the fragments that this node
/// has: its rows are chosen without regard to the values of most columns.
fn of_fragment(table: &PartitionedTable, name: &str) -> Option<ColumnMeasure> {
    let rows = table.rows()? as f64;
    let (_snapshot, fragment) = table.own_fragment()?;
    let column = fragment.column(name).ok()?;
    let range = range(column);
    let counted = column.distinct_count().map(|count| count as f64);
    let fewest = [counted, possible(column, range)].into_iter().flatten().reduce(f64::min);
    let nulls = column.null_count() as f64 / column.rows().max(1) as f64 * rows;
    Some(ColumnMeasure { distinct: fewest.filter(|values| *values < rows), nulls, range })
}

/// Says whether most rows of a table are in its files.
fn is_in_files(table: &TableData, column: &ColumnData) -> bool {
    2 * column.rows() >= table.rows()
}

/// Returns how many values a column has, or the most that it can have, if these are fewer than the
/// rows.
fn distinct(table: &TableData, place: usize, range: Option<(f64, f64)>) -> Option<f64> {
    let column = table.columns().get(place)?;
    let rows = table.rows() as f64;
    let entry = column.entry();
    let is_unique = table.entry().constraints.iter().any(|constraint| match &constraint.rule {
        ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => {
            columns.as_slice() == [entry.id]
        }
        _ => false,
    });
    if is_unique {
        return Some(rows);
    }
    let dictionary = column.distinct_count().filter(|_| is_in_files(table, column));
    let counted = dictionary.map(|count| count as f64).or_else(|| counted(table, place));
    let possible = possible(column, range);
    let fewest = [counted, possible].into_iter().flatten().reduce(f64::min);
    fewest.filter(|values| *values < rows || rows <= COUNTED_ROWS as f64)
}

/// Returns how many values a column can have between its least and its greatest one, if they are whole
/// numbers.
fn possible(column: &ColumnData, range: Option<(f64, f64)>) -> Option<f64> {
    let is_whole = matches!(
        column.entry().logical_type,
        LogicalType::TinyInt
            | LogicalType::SmallInt
            | LogicalType::Integer
            | LogicalType::BigInt
            | LogicalType::UTinyInt
            | LogicalType::USmallInt
            | LogicalType::UInteger
            | LogicalType::UBigInt
            | LogicalType::Date
            | LogicalType::Boolean
    );
    range.filter(|_| is_whole).map(|(least, greatest)| greatest - least + 1.0)
}

/// Rows whose values are counted by looking at them. Most tables of so few rows have them in the log
/// alone, where there is neither a dictionary nor a least and a greatest value.
const COUNTED_ROWS: u64 = 4096;

/// Counts the values of a column of few rows.
fn counted(table: &TableData, place: usize) -> Option<f64> {
    if table.positions() > COUNTED_ROWS {
        return None;
    }
    let positions: UInt64Array = (0..table.positions()).collect();
    let array = table.rows_at(&[place], &positions, 1).ok()?.pop()?;
    let mut hashes = vec![0; array.len()];
    let hashes = create_hashes([&array], &RandomState::default(), &mut hashes).ok()?;
    Some(hashes.iter().collect::<HashSet<_>>().len() as f64)
}

/// Returns the least and the greatest value of a column of numbers or points in time.
fn range(column: &ColumnData) -> Option<(f64, f64)> {
    let scale = match &column.entry().logical_type {
        LogicalType::Decimal { scale, .. } => 10f64.powi(i32::from(*scale)),
        _ => 1.0,
    };
    let mut range: Option<(f64, f64)> = None;
    for synopsis in column.synopses().ok()? {
        let (low, high) = match &synopsis.bounds {
            Some((Bound::Integer(low), Bound::Integer(high))) => (*low as f64, *high as f64),
            Some((Bound::Float(low), Bound::Float(high))) => (*low, *high),
            Some(_) => return None,
            None => continue,
        };
        range = Some(range.map_or((low, high), |(least, greatest)| (least.min(low), greatest.max(high))));
    }
    range.map(|(least, greatest)| (least / scale, greatest / scale))
}
