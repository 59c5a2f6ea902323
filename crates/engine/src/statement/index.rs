//! CREATE INDEX and DROP INDEX, for programs that were written for other databases. Scans skip
//! blocks by the synopses of each column, so an index has no effect unless it is that of a key.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::DONE;
use crate::statement::write::refuse;
use crate::statement::{parse, parse_query};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, ObjectName, Statement};
use hypostyle_sql::identifier::last_of;
use hypostyle_types::{Error, ErrorKind, Result};

impl Session {
    /// Looks whether there are the table and the columns of an index. A unique one becomes a UNIQUE
    /// constraint.
    pub(super) fn create_index(&self, index: &CreateIndex) -> Result<Outcome> {
        let keys: Vec<String> = index.columns.iter().map(|key| key.column.expr.to_string()).collect();
        let condition = index.predicate.as_ref().map_or(String::new(), |test| format!(" WHERE {test}"));
        let table = &index.table_name;
        let query = parse_query(&format!("SELECT {} FROM {table}{condition}", keys.join(", ")))?;
        let query = DfStatement::Statement(Box::new(Statement::Query(Box::new(query))));
        self.plan(query, &Parameters::None)?;
        if !index.unique {
            return Ok(DONE);
        }
        refuse(index.predicate.is_some(), "CREATE UNIQUE INDEX with WHERE")?;
        refuse(index.nulls_distinct == Some(false), "CREATE UNIQUE INDEX with NULLS NOT DISTINCT")?;
        let are_columns = index.columns.iter().all(|key| matches!(key.column.expr, Expr::Identifier(_)));
        refuse(!are_columns, "CREATE UNIQUE INDEX of expressions")?;
        let name = match &index.name {
            Some(name) if index.if_not_exists && self.constraint_table(name)?.is_some() => return Ok(DONE),
            Some(name) => format!("CONSTRAINT {} ", hypostyle_sql::identifier::quoted(&last_of(name)?)),
            None => String::new(),
        };
        self.alter_by_text(&format!("ALTER TABLE {table} ADD {name}UNIQUE ({})", keys.join(", ")))
    }

    /// Drops the UNIQUE constraints of these names; other indexes there are none.
    pub(super) fn drop_indexes(&self, names: &[ObjectName]) -> Result<Outcome> {
        for name in names {
            if let Some(table) = self.constraint_table(name)? {
                let name = hypostyle_sql::identifier::quoted(&last_of(name)?);
                self.alter_by_text(&format!("ALTER TABLE {table} DROP CONSTRAINT {name}"))?;
            }
        }
        Ok(DONE)
    }

    /// Returns the table, in quotes, that has a UNIQUE constraint of a name.
    fn constraint_table(&self, name: &ObjectName) -> Result<Option<String>> {
        let found = self.resolve(name)?;
        let snapshot = self.snapshot_of(&found.database)?;
        let tables = snapshot.catalog().tables.iter().filter(|table| table.schema == found.schema);
        let mut having = tables.filter(|table| {
            table.constraints.iter().any(|constraint| {
                constraint.name == found.name
                    && matches!(constraint.rule, hypostyle_storage::ConstraintRule::Unique { .. })
            })
        });
        let table = having.next();
        if having.next().is_some() {
            let why = format!(
                "several tables have a constraint \"{}\"; use ALTER TABLE … DROP CONSTRAINT",
                found.name
            );
            return Err(Error::new(ErrorKind::InvalidInput, why).with_sqlstate("42725"));
        }
        Ok(table.map(|table| {
            [&found.database, &found.schema, &table.name]
                .map(|part| hypostyle_sql::identifier::quoted(part))
                .join(".")
        }))
    }

    fn alter_by_text(&self, sql: &str) -> Result<Outcome> {
        match parse(sql)? {
            DfStatement::Statement(statement) => match *statement {
                Statement::AlterTable(alter) => self.alter_table(alter),
                _ => Err(Error::internal("not an ALTER TABLE")),
            },
            _ => Err(Error::internal("not an ALTER TABLE")),
        }
    }
}
