//! The table that a statement writes to, and the rows of it that a query has found.

use crate::session::given_value::is_default;
use crate::statement::refusal::refuse_given;
use arrow::array::UInt64Array;
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, SelectItem, TableFactor};
use hypostyle_catalog::given::{Given, Relation};
use hypostyle_catalog::scope::{Name, Scope};
use hypostyle_catalog::sequence_default::default_of;
use hypostyle_error::column_name::POSITION;
use hypostyle_sql::build;
use hypostyle_sql::identifier::last_of;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_storage::{ColumnEntry, Snapshot, TableData, unknown_column};
use hypostyle_types::{ColumnId, Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of a table that a query has found to be changed.
#[derive(Default)]
pub(super) struct ChangedRows {
    pub positions: RoaringTreemap,
    /// Values that the query gave beside the positions, each row once.
    pub rows: Vec<RecordBatch>,
    /// The positions of those rows.
    pub places: Vec<UInt64Array>,
    /// Rows that the query gave, those of one position counted each time.
    pub found: u64,
}

/// A table that a statement writes to.
pub(super) struct Target {
    pub id: TableId,
    pub database: String,
    pub schema: String,
    pub name: String,
    /// The name in the statement.
    pub alias: String,
    pub data: Arc<TableData>,
    /// The table with the positions of its rows.
    positions: Given,
    /// The table is one of the cluster: this database has none of its rows.
    pub is_of_cluster: bool,
    /// SQL text of what rows get that have no value for a column.
    defaults: Vec<Option<String>>,
}

impl Target {
    pub fn new(
        scope: &Arc<Scope>,
        database: &str,
        snapshot: &Snapshot,
        data: &Arc<TableData>,
        alias: &str,
    ) -> Self {
        let (catalog, table) = (snapshot.catalog(), data.entry());
        let default = |column| default_of(database, catalog, table, column);
        let named = Name::new(database, &table.schema, &table.name);
        let is_of_cluster = scope.cluster_table(&named).is_some();
        Self {
            id: table.id,
            database: database.into(),
            schema: table.schema.clone(),
            name: table.name.clone(),
            alias: alias.into(),
            // The types in which rows come from other nodes.
            data: if is_of_cluster { data.with_views() } else { data.clone() },
            is_of_cluster,
            positions: scope.give(Relation::Positions { table: named, first: 0 }),
            defaults: table.columns.iter().map(default).collect(),
        }
    }

    /// Returns the table as an item of FROM, with the positions of its rows.
    pub fn source(&self) -> TableFactor {
        self.positions.factor(Some(build::name(&self.alias)))
    }

    /// Returns the same without them.
    pub fn without_positions(&self) -> TableFactor {
        let parts = [&self.database, &self.schema, &self.name].map(|part| build::name(part));
        build::table(Vec::from(parts), Some(build::name(&self.alias)))
    }

    /// Returns the table for a query whose plan is shown.
    pub fn shown_only(self) -> Self {
        Self { positions: self.positions.shown_only(), ..self }
    }

    pub fn columns(&self) -> &[ColumnEntry] {
        &self.data.entry().columns
    }

    pub fn position(&self) -> Expr {
        self.column_of_row(POSITION)
    }

    /// Returns the value that a row has in a column.
    pub fn column_of_row(&self, name: &str) -> Expr {
        build::column_of(&self.alias, name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns().iter().map(|column| column.name.as_str())
    }

    /// Returns all columns as items of SELECT.
    pub fn own_columns(&self) -> impl Iterator<Item = SelectItem> {
        self.names().map(move |name| build::item(self.column_of_row(name)))
    }

    /// Returns the columns at some places, and those that are computed from others.
    pub fn assigned_with_generated(&self, places: impl Iterator<Item = usize>) -> BTreeSet<ColumnId> {
        let columns = self.columns();
        let generated = columns.iter().filter(|column| column.generated.is_some());
        places.map(|place| columns[place].id).chain(generated.map(|column| column.id)).collect()
    }

    /// Returns the place of a column.
    pub fn column(&self, name: &str) -> Result<usize> {
        let table = self.data.entry();
        let meant = table.column_meant(name).ok_or_else(|| unknown_column(table, name))?;
        self.columns()
            .iter()
            .position(|column| column.id == meant.id)
            .ok_or_else(|| Error::internal("a column is found but not there"))
    }

    /// Returns the places of columns that an INSERT gives values.
    ///
    /// # Errors
    /// `UnknownName`; `Syntax` for a column that is named twice.
    pub fn given_columns(&self, names: &[ObjectName]) -> Result<Vec<usize>> {
        let mut places = Vec::with_capacity(names.len());
        for name in names {
            let name = last_of(name)?;
            let place = self.column(&name)?;
            if places.contains(&place) {
                let message = format!("column \"{name}\" is named twice");
                return Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42701"));
            }
            places.push(place);
        }
        Ok(places)
    }
}

/// Returns the value of a column: the given one, or the column's default. A generated column is computed
/// later.
pub(super) fn value_or_default(target: &Target, column: usize, value: Option<&Expr>) -> Result<Expr> {
    match value.filter(|value| !is_default(value)) {
        Some(value) => {
            refuse_given(&target.name, &target.columns()[column])?;
            Ok(value.clone())
        }
        None => target.defaults[column].as_deref().map_or_else(|| Ok(build::null()), parse_as_written),
    }
}
