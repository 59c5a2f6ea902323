//! Rows that the engine's own queries read as relations: those that a statement has computed, or stored
//! ones. A query may read them as long as what is returned here is there.

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::MemTable;
use hypostyle_catalog::given::{Given, Relation};
use hypostyle_catalog::scope::{Name, Scope};
use hypostyle_error::column_name::POSITION;
use hypostyle_error::from_datafusion;
use hypostyle_storage::{TableEntry, Transaction};
use hypostyle_types::{Error, Result};
use roaring::RoaringTreemap;
use std::sync::Arc;

/// Gives queries some rows as a table with these columns.
pub(super) fn given_table(
    scope: &Arc<Scope>,
    role: &'static str,
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
) -> Result<Given> {
    let table = MemTable::try_new(schema, vec![rows]).map_err(from_datafusion)?;
    Ok(scope.give(Relation::Rows { role, rows: Arc::new(table) }))
}

/// Gives queries some rows as a table, without columns if there are none.
pub(super) fn given_rows(scope: &Arc<Scope>, role: &'static str, rows: Vec<RecordBatch>) -> Result<Given> {
    let schema = rows.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
    given_table(scope, role, schema, rows)
}

/// Gives queries the rows of a table from a position on, with their positions.
pub(super) fn rows_from(scope: &Arc<Scope>, database: &str, table: &TableEntry, first: u64) -> Given {
    let table = Name::new(database, &table.schema, &table.name);
    scope.give(Relation::Positions { table, first })
}

/// Gives queries the published rows of a table of the cluster, with their places; those at some places, if
/// these are told: the nodes read no others then.
pub(super) fn published_rows(
    scope: &Arc<Scope>,
    writer: &Transaction,
    table: &TableEntry,
    places: Option<RoaringTreemap>,
) -> Result<Given> {
    let table = Name::new(&scope.name_of(writer.database())?, &table.schema, &table.name);
    Ok(scope.give(Relation::Published { table, places: places.map(Arc::new) }))
}

/// Returns rows of positions and other values.
pub(super) fn positions_and(positions: UInt64Array, values: Vec<(String, ArrayRef)>) -> Result<RecordBatch> {
    let positions = (POSITION.to_string(), Arc::new(positions) as ArrayRef, false);
    let values = values.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(std::iter::once(positions).chain(values))
        .map_err(|error| Error::internal(format!("cannot list the changed rows: {error}")))
}
