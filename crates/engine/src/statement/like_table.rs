//! CREATE TABLE … (LIKE …): a table with the columns of another one, and what is asked for besides.

use crate::session::Outcome;
use crate::session::outcome::DONE;
use crate::statement::backup::create_table;
use crate::statement::ddl::{DeclaredColumn, new_column};
use crate::statement::declared_constraint::Declared;
use crate::statement::definer::Ddl;
use crate::statement::dialect::parse;
use crate::statement::sequence::{create_table_of, uses_some};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ColumnDef, ColumnOption, Statement, TableConstraint};
use hypostyle_catalog::scope::Name;
use hypostyle_sql::statement::{CreateLike, LikePart};
use hypostyle_storage::{TableEntry, unknown_table};
use hypostyle_types::{Error, Result};

impl Ddl<'_> {
    /// Creates a table like another one: with its columns, their types and NOT NULL, and with the parts that
    /// are included. Foreign keys are none of them (PostgreSQL).
    ///
    /// # Errors
    /// `UnknownName` if there is no such table; `Unsupported` for a view, for a table of the cluster, and for
    /// a default that is a sequence's of another database.
    pub(super) fn create_like(&self, like: CreateLike) -> Result<Outcome> {
        let CreateLike { or_replace, temporary, if_not_exists, name, source, including } = like;
        let Name { database, schema, name } = self.resolve_new(&name, temporary)?;
        if if_not_exists && self.databases.names().snapshot_of(&database)?.table(&schema, &name).is_some() {
            return Ok(DONE);
        }
        let source = self.databases.names().resolve(&source)?;
        if self.databases.scope.cluster_table(&source).is_some() {
            return Err(Error::unsupported(format!(
                "LIKE of a table of the cluster is not supported; SHOW CREATE TABLE {} tells its columns",
                source.name
            )));
        }
        let snapshot = self.databases.names().snapshot_of(&source.database)?;
        let catalog = snapshot.catalog();
        let Some(table) = catalog.table(&source.schema, &source.name) else {
            return Err(match catalog.view(&source.schema, &source.name) {
                Some(_) => Error::unsupported(format!(
                    "\"{0}\" is a view: write CREATE TABLE … AS SELECT * FROM {0} LIMIT 0",
                    source.name
                )),
                None => unknown_table(catalog, &source.name),
            });
        };
        let (columns, constraints) = parts_of(&create_table(table, catalog), &including)?;
        let (mut declared, mut serials) = (Vec::new(), Vec::new());
        for column in &columns {
            let DeclaredColumn { column, sequence, .. } = new_column(column)?;
            serials.extend(sequence.map(|clauses| (column.name.clone(), clauses)));
            declared.push(column);
        }
        self.definer.compiler.check_columns(&declared)?;
        let of_sequence = declared.iter().find(|column| column.default.as_deref().is_some_and(uses_some));
        if let Some(column) = of_sequence.filter(|_| source.database != database) {
            return Err(Error::unsupported(format!(
                "the default of column \"{}\" takes values of a sequence of database \"{}\", which tables of \"{database}\" \
                 cannot have; leave INCLUDING DEFAULTS out, and say the default by ALTER COLUMN",
                column.name, source.database
            )));
        }
        let constraints = constraints.iter().map(Declared::of_table).collect::<Result<Vec<_>>>()?;
        let comments = including.contains(&LikePart::Comments).then(|| table.clone());
        self.databases.write(&database, |writer| {
            self.definer.drop_existing(writer, or_replace, &schema, &name)?;
            let id = create_table_of(writer, &schema, &name, declared, &serials)?;
            self.definer.add_constraints(writer, id, &constraints)?;
            if let Some(source) = comments.filter(|source| has_comments(source)) {
                writer.alter_table(id, |table| {
                    comment_alike(table, &source);
                    Ok(())
                })?;
            }
            Ok(DONE)
        })
    }
}

/// Returns what a definition says of columns, and the constraints that are not the columns' own: all that a
/// table like it has.
fn parts_of(definition: &str, including: &[LikePart]) -> Result<(Vec<ColumnDef>, Vec<TableConstraint>)> {
    let wrong = || Error::internal("a table that is not defined by CREATE TABLE");
    let DfStatement::Statement(statement) = parse(definition)? else { return Err(wrong()) };
    let Statement::CreateTable(mut create) = *statement else { return Err(wrong()) };
    let has = |part: LikePart| including.contains(&part);
    for column in &mut create.columns {
        column.options.retain(|option| match &option.option {
            ColumnOption::Default(_) => has(LikePart::Defaults),
            ColumnOption::Generated { generation_expr: Some(_), .. } => has(LikePart::Generated),
            ColumnOption::Generated { .. } => has(LikePart::Identity),
            _ => true,
        });
    }
    create.constraints.retain_mut(|constraint| match constraint {
        // Keys get names of their own, as in PostgreSQL.
        TableConstraint::PrimaryKey(key) => {
            key.name = None;
            has(LikePart::Indexes)
        }
        TableConstraint::Unique(key) => {
            key.name = None;
            has(LikePart::Indexes)
        }
        TableConstraint::Check(_) => has(LikePart::Constraints),
        _ => false,
    });
    Ok((create.columns, create.constraints))
}

/// Says whether columns or constraints of a table have comments.
fn has_comments(table: &TableEntry) -> bool {
    table.columns.iter().any(|column| column.comment.is_some())
        || table.constraints.iter().any(|constraint| constraint.comment.is_some())
}

/// Gives columns and constraints the comments of those that are called so in another table.
fn comment_alike(table: &mut TableEntry, source: &TableEntry) {
    for column in &mut table.columns {
        column.comment = source.column(&column.name).and_then(|of| of.comment.clone());
    }
    for constraint in &mut table.constraints {
        let mut alike = source.constraints.iter().filter(|of| of.name == constraint.name);
        constraint.comment = alike.next().and_then(|of| of.comment.clone());
    }
}
