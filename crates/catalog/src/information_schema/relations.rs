//! Schemas, tables, views, sequences, and their columns.

use crate::information_schema::{InformationSchema, of_type, yes};
use crate::pg_catalog::PG_CATALOG;
use crate::pg_catalog::rows::{Row, row};
use crate::pg_catalog::standard::INFORMATION_SCHEMA;
use datafusion::catalog::SchemaProvider;
use datafusion::error::Result;
use hypostyle_storage::{Catalog, ColumnEntry, Identity, SequenceEntry, TableEntry};
use hypostyle_types::LogicalType;

/// A table or a view.
pub(super) struct Named {
    pub database: String,
    pub schema: String,
    pub name: String,
    pub kind: Kind,
    comment: Option<String>,
}

pub(super) enum Kind {
    Table,
    Temporary,
    /// A view, with its query.
    View(String),
}

impl Named {
    fn row(&self) -> Row {
        row! {
            table_catalog: self.database.as_str(), table_schema: self.schema.as_str(), table_name: self.name.as_str(),
        }
    }

    pub fn is_view(&self) -> bool {
        matches!(self.kind, Kind::View(_))
    }
}

impl InformationSchema {
    pub(super) fn character_sets(&self) -> Vec<Row> {
        let (database, _) = self.scope.current();
        vec![row! {
            character_set_name: "UTF8", character_repertoire: "UCS", form_of_use: "UTF8",
            default_collate_catalog: database, default_collate_schema: PG_CATALOG, default_collate_name: "C",
        }]
    }

    pub(super) fn schemata(&self) -> Result<Vec<Row>> {
        let user = self.user()?;
        let mut rows = Vec::new();
        for database in self.scope.databases.read().iter() {
            let own = database.snapshot.catalog().schemas.iter().map(|schema| schema.name.as_str());
            rows.extend(own.chain([INFORMATION_SCHEMA, PG_CATALOG]).map(|schema| {
                row! { catalog_name: database.name.as_str(), schema_name: schema, schema_owner: user.as_str() }
            }));
        }
        Ok(rows)
    }

    /// Returns the tables and views that there are, but for those of the system.
    pub(super) fn named(&self) -> Vec<Named> {
        let mut all = Vec::new();
        for database in self.scope.databases.read().iter() {
            let catalog = database.snapshot.catalog();
            let is_temporary = database.name == crate::scope::TEMPORARY;
            // The standard has no materialized views.
            let tables = catalog.tables.iter().filter(|table| table.query.is_none());
            all.extend(tables.map(|table| Named {
                database: database.name.clone(),
                schema: table.schema.clone(),
                name: table.name.clone(),
                kind: if is_temporary { Kind::Temporary } else { Kind::Table },
                comment: table.comment.clone(),
            }));
            all.extend(catalog.views.iter().map(|view| Named {
                database: database.name.clone(),
                schema: view.schema.clone(),
                name: view.name.clone(),
                kind: Kind::View(view.sql.clone()),
                comment: view.comment.clone(),
            }));
        }
        all
    }

    pub(super) fn tables(&self) -> Vec<Row> {
        let mut all = self.named();
        for database in self.databases.catalog_names() {
            all.extend(self.table_names().into_iter().map(|name| Named {
                database: database.clone(),
                schema: INFORMATION_SCHEMA.into(),
                name,
                kind: Kind::View(String::new()),
                comment: None,
            }));
        }
        let each = all.into_iter().map(|named| {
            let mut row = named.row();
            row.extend(row! {
                table_type: match named.kind {
                    Kind::Table => "BASE TABLE",
                    Kind::Temporary => "LOCAL TEMPORARY",
                    Kind::View(_) => "VIEW",
                },
                is_insertable_into: yes(!named.is_view()), is_typed: "NO",
            });
            if matches!(named.kind, Kind::Temporary) {
                row.extend(row! { commit_action: "PRESERVE" });
            }
            if let Some(comment) = named.comment {
                row.extend(row! { table_comment: comment });
            }
            row
        });
        each.collect()
    }

    pub(super) fn views(&self) -> Vec<Row> {
        let each = self.named().into_iter().filter_map(|named| {
            let Kind::View(sql) = &named.kind else { return None };
            let mut row = named.row();
            row.extend(row! {
                view_definition: format!("{};", sql.trim_end_matches(';')), check_option: "NONE", is_updatable: "NO",
                is_insertable_into: "NO", is_trigger_updatable: "NO", is_trigger_deletable: "NO",
                is_trigger_insertable_into: "NO", definition: sql.as_str(),
            });
            Some(row)
        });
        each.collect()
    }

    pub(super) fn sequences(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for database in self.scope.databases.read().iter() {
            rows.extend(database.snapshot.catalog().sequences.iter().map(|sequence| {
                let mut row = of_type(&database.name, "", &LogicalType::BigInt);
                row.retain(|(name, _)| !name.starts_with("udt_") && *name != "dtd_identifier");
                row.extend(row! {
                    sequence_catalog: database.name.as_str(), sequence_schema: sequence.schema.as_str(),
                    sequence_name: sequence.name.as_str(), start_value: sequence.start.to_string(),
                    minimum_value: sequence.min.to_string(), maximum_value: sequence.max.to_string(),
                    increment: sequence.increment.to_string(), cycle_option: yes(sequence.cycle),
                });
                row
            }));
        }
        rows
    }

    /// Returns the columns of tables and of those views that can be planned.
    pub(super) async fn columns(&self) -> Result<Vec<Row>> {
        let databases = self.scope.databases.read().clone();
        let mut rows = Vec::new();
        for database in &databases {
            let catalog = database.snapshot.catalog();
            for table in catalog.tables.iter().filter(|table| table.query.is_none()) {
                let columns = table.columns.iter().zip(1_i64..);
                rows.extend(columns.map(|(column, position)| {
                    let mut row = column_row(&database.name, &table.schema, &table.name, position);
                    row.extend(of_column(&database.name, position, &column.name, &column.logical_type));
                    row.extend(of_table_column(catalog, table, column));
                    row
                }));
            }
            for view in &catalog.views {
                let schemas = self.databases.catalog(&database.name);
                let Some(schema) = schemas.and_then(|schemas| schemas.schema(&view.schema)) else { continue };
                // A view over a dropped object has no columns to show.
                let Ok(Some(provider)) = schema.table(&view.name).await else { continue };
                for (field, position) in provider.schema().fields().iter().zip(1_i64..) {
                    let logical_type =
                        LogicalType::from_arrow(field).map_err(crate::information_schema::external)?;
                    let mut row = column_row(&database.name, &view.schema, &view.name, position);
                    row.extend(of_column(&database.name, position, field.name(), &logical_type));
                    row.extend(row! {
                        is_nullable: yes(field.is_nullable()), is_identity: "NO", is_generated: "NEVER",
                        is_updatable: "NO",
                    });
                    rows.push(row);
                }
            }
        }
        Ok(rows)
    }

    /// Returns what the arrays are made of that columns of tables are.
    pub(super) fn element_types(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for database in self.scope.databases.read().iter() {
            for table in &database.snapshot.catalog().tables {
                for (column, position) in table.columns.iter().zip(1_i64..) {
                    let (LogicalType::List { element } | LogicalType::Array { element, .. }) =
                        &column.logical_type
                    else {
                        continue;
                    };
                    // Values that are shown as JSON are no arrays in PostgreSQL.
                    if !hypostyle_pgtypes::types::shown(&column.logical_type).is_array {
                        continue;
                    }
                    let mut row = of_type(&database.name, &format!("a{position}"), element);
                    row.retain(|(name, _)| {
                        matches!(
                            *name,
                            "data_type" | "udt_catalog" | "udt_schema" | "udt_name" | "dtd_identifier"
                        )
                    });
                    row.extend(row! {
                        object_catalog: database.name.as_str(), object_schema: table.schema.as_str(),
                        object_name: table.name.as_str(), object_type: "TABLE",
                        collection_type_identifier: position.to_string(),
                    });
                    rows.push(row);
                }
            }
        }
        rows
    }
}

fn column_row(database: &str, schema: &str, table: &str, position: i64) -> Row {
    row! { table_catalog: database, table_schema: schema, table_name: table, ordinal_position: position }
}

/// Returns what is told of any column.
fn of_column(database: &str, position: i64, name: &str, logical_type: &LogicalType) -> Row {
    let mut row = of_type(database, &position.to_string(), logical_type);
    row.extend(row! {
        column_name: name, is_self_referencing: "NO", identity_cycle: "NO", column_type: logical_type.to_string(),
    });
    row
}

/// Returns what is told of a table's column besides.
fn of_table_column(catalog: &Catalog, table: &TableEntry, column: &ColumnEntry) -> Row {
    let is_generated = column.generated.is_some();
    let mut row = row! {
        is_nullable: yes(column.nullable), is_identity: yes(column.identity.is_some()),
        is_generated: if is_generated { "ALWAYS" } else { "NEVER" }, is_updatable: yes(!is_generated),
    };
    if let Some(default) = &column.default {
        row.extend(row! { column_default: default.as_str() });
    }
    if let Some(generated) = &column.generated {
        row.extend(row! { generation_expression: generated.as_str() });
    }
    if let Some(comment) = &column.comment {
        row.extend(row! { column_comment: comment.as_str() });
    }
    if let Some(identity) = column.identity {
        let generation = match identity {
            Identity::Always => "ALWAYS",
            Identity::ByDefault => "BY DEFAULT",
        };
        row.extend(row! { identity_generation: generation });
        row.extend(owned(catalog, table, column).map_or_else(Row::new, of_sequence));
    }
    row
}

/// Returns the sequence that a column owns.
fn owned<'a>(catalog: &'a Catalog, table: &TableEntry, column: &ColumnEntry) -> Option<&'a SequenceEntry> {
    let is_owner = |sequence: &&SequenceEntry| {
        sequence.owner.is_some_and(|owner| owner.table == table.id && owner.column == column.id)
    };
    catalog.sequences.iter().find(is_owner)
}

fn of_sequence(sequence: &SequenceEntry) -> Row {
    row! {
        identity_start: sequence.start.to_string(), identity_increment: sequence.increment.to_string(),
        identity_maximum: sequence.max.to_string(), identity_minimum: sequence.min.to_string(),
        identity_cycle: yes(sequence.cycle),
    }
}
