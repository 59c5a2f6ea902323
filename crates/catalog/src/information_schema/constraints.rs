//! Constraints, including NOT NULL, which the standard lists among the CHECKs.

use crate::information_schema::{InformationSchema, yes};
use crate::pg_catalog::rows::{Row, row};
use datafusion::sql::sqlparser::ast::Expr;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_sql::walk::expressions;
use hypostyle_storage::{Catalog, ConstraintEntry, ConstraintRule, Deferral, TableEntry};
use hypostyle_types::ColumnId;
use std::ops::ControlFlow;

/// A constraint with what it is of.
struct Found<'a> {
    database: &'a str,
    catalog: &'a Catalog,
    table: &'a TableEntry,
    entry: &'a ConstraintEntry,
}

impl Found<'_> {
    /// Returns the columns that name it.
    fn named(&self) -> Row {
        named(self.database, &self.table.schema, &self.entry.name)
    }

    /// Returns the table of a foreign key's other side.
    fn referred(&self) -> Option<&TableEntry> {
        let ConstraintRule::ForeignKey { table, .. } = &self.entry.rule else { return None };
        self.catalog.tables.iter().find(|known| known.id == *table).map(AsRef::as_ref)
    }
}

fn named(database: &str, schema: &str, name: &str) -> Row {
    row! { constraint_catalog: database, constraint_schema: schema, constraint_name: name }
}

fn of_table(database: &str, table: &TableEntry) -> Row {
    row! { table_catalog: database, table_schema: table.schema.as_str(), table_name: table.name.as_str() }
}

fn column_name(table: &TableEntry, id: ColumnId) -> &str {
    table.columns.iter().find(|column| column.id == id).map_or("?", |column| column.name.as_str())
}

/// Returns the columns that a condition reads.
fn read_columns<'a>(table: &'a TableEntry, condition: &str) -> Vec<&'a str> {
    let Ok(expr) = parse_as_written(condition) else { return Vec::new() };
    let mut found = Vec::new();
    let _all: ControlFlow<()> = expressions(&expr, &mut |part| {
        let name = match part {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        let column = name.and_then(|name| table.column(&name.value));
        if let Some(column) = column.filter(|column| !found.contains(&column.name.as_str())) {
            found.push(&column.name);
        }
        ControlFlow::Continue(())
    });
    found
}

impl InformationSchema {
    /// Returns a row, or several, of each constraint that has a name.
    fn of_constraints(&self, rows: impl Fn(&Found<'_>) -> Vec<Row>) -> Vec<Row> {
        let mut all = Vec::new();
        for database in self.scope.databases.read().iter() {
            let catalog = database.snapshot.catalog();
            for table in &catalog.tables {
                let found = |entry| Found { database: &database.name, catalog, table, entry };
                all.extend(table.constraints.iter().flat_map(|entry| rows(&found(entry))));
            }
        }
        all
    }

    /// Returns a row of each column that takes no NULL: of its database, its table, the
    /// constraint's name, and its own.
    fn of_not_null(&self, row: impl Fn(&str, &TableEntry, String, &str) -> Row) -> Vec<Row> {
        let mut all = Vec::new();
        for database in self.scope.databases.read().iter() {
            for table in &database.snapshot.catalog().tables {
                for column in table.columns.iter().filter(|column| !column.nullable) {
                    let number = crate::pg_catalog::attribute_number(column.id);
                    let name = format!("{}_{number}_not_null", table.id);
                    all.push(row(&database.name, table, name, &column.name));
                }
            }
        }
        all
    }

    pub(super) fn table_constraints(&self) -> Vec<Row> {
        let mut all = self.of_constraints(|found| {
            let mut row = found.named();
            row.extend(of_table(found.database, found.table));
            row.extend(row! {
                constraint_type: match found.entry.rule {
                    ConstraintRule::PrimaryKey { .. } => "PRIMARY KEY",
                    ConstraintRule::Unique { .. } => "UNIQUE",
                    ConstraintRule::Check { .. } => "CHECK",
                    ConstraintRule::ForeignKey { .. } => "FOREIGN KEY",
                },
                is_deferrable: yes(found.entry.deferral != Deferral::Never),
                initially_deferred: yes(found.entry.deferral == Deferral::AtFirst), enforced: "YES",
            });
            if matches!(found.entry.rule, ConstraintRule::Unique { .. }) {
                row.extend(row! { nulls_distinct: yes(true) });
            }
            vec![row]
        });
        all.extend(self.of_not_null(|database, table, name, _| {
            let mut row = named(database, &table.schema, &name);
            row.extend(of_table(database, table));
            row.extend(row! {
                constraint_type: "CHECK", is_deferrable: "NO", initially_deferred: "NO", enforced: "YES",
            });
            row
        }));
        all
    }

    pub(super) fn check_constraints(&self) -> Vec<Row> {
        let mut all = self.of_constraints(|found| {
            let ConstraintRule::Check { sql } = &found.entry.rule else { return Vec::new() };
            let mut row = found.named();
            row.extend(row! { check_clause: format!("(({sql}))") });
            vec![row]
        });
        all.extend(self.of_not_null(|database, table, name, column| {
            let mut row = named(database, &table.schema, &name);
            row.extend(
                row! { check_clause: format!("{} IS NOT NULL", crate::pg_catalog::quote_name(column)) },
            );
            row
        }));
        all
    }

    pub(super) fn referential_constraints(&self) -> Vec<Row> {
        self.of_constraints(|found| {
            let ConstraintRule::ForeignKey { referred, on_delete, on_update, .. } = &found.entry.rule else {
                return Vec::new();
            };
            let mut row = found.named();
            row.extend(row! { match_option: "NONE", update_rule: on_update.sql(), delete_rule: on_delete.sql() });
            let keys = found.referred().into_iter().flat_map(|table| {
                let is_it = |entry: &&ConstraintEntry| entry.rule.key() == Some(referred.as_slice());
                table.constraints.iter().find(is_it).map(|key| (table, key))
            });
            for (table, key) in keys {
                row.extend(row! {
                    unique_constraint_catalog: found.database, unique_constraint_schema: table.schema.as_str(),
                    unique_constraint_name: key.name.as_str(),
                });
            }
            vec![row]
        })
    }

    pub(super) fn key_column_usage(&self) -> Vec<Row> {
        self.of_constraints(|found| {
            let (columns, is_reference) = match &found.entry.rule {
                ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => {
                    (columns, false)
                }
                ConstraintRule::ForeignKey { columns, .. } => (columns, true),
                ConstraintRule::Check { .. } => return Vec::new(),
            };
            let each = columns.iter().zip(1_i64..).map(|(column, position)| {
                let mut row = found.named();
                row.extend(of_table(found.database, found.table));
                row.extend(
                    row! { column_name: column_name(found.table, *column), ordinal_position: position },
                );
                if is_reference {
                    row.extend(row! { position_in_unique_constraint: position });
                }
                row
            });
            each.collect()
        })
    }

    pub(super) fn constraint_column_usage(&self) -> Vec<Row> {
        self.of_constraints(|found| {
            let (table, columns) = match &found.entry.rule {
                ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => {
                    (found.table, columns.iter().map(|id| column_name(found.table, *id)).collect())
                }
                ConstraintRule::Check { sql } => (found.table, read_columns(found.table, sql)),
                ConstraintRule::ForeignKey { referred, .. } => {
                    let Some(table) = found.referred() else { return Vec::new() };
                    (table, referred.iter().map(|id| column_name(table, *id)).collect())
                }
            };
            let each = columns.into_iter().map(|column: &str| {
                let mut row = of_table(found.database, table);
                row.extend(row! { column_name: column });
                row.extend(found.named());
                row
            });
            each.collect()
        })
    }

    pub(super) fn constraint_table_usage(&self) -> Vec<Row> {
        self.of_constraints(|found| {
            let table = match &found.entry.rule {
                ConstraintRule::Check { .. } => return Vec::new(),
                ConstraintRule::ForeignKey { .. } => found.referred(),
                _ => Some(found.table),
            };
            let each = table.into_iter().map(|table| {
                let mut row = of_table(found.database, table);
                row.extend(found.named());
                row
            });
            each.collect()
        })
    }
}
