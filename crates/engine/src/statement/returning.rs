//! RETURNING: a query over the rows that a statement leaves or removes, over the rows of FROM or USING that
//! were joined with them, and over both versions of these rows (`versions`).

use crate::session::{Outcome, Parameters};
use crate::statement::dialect::{extension, name_columns_for};
use crate::statement::given_rows::given_table;
use crate::statement::names::Names;
use crate::statement::refusal::refuse;
use crate::statement::result::Purpose;
use crate::statement::target::Target;
use crate::statement::versions::{Meaning, Versions, fields_of, relation_names};
use crate::statement::writer::{Dml, Writer};
use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, JoinOperator, SelectItem, Statement, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};
use hypostyle_catalog::given::Given;
use hypostyle_error::column_name::unmarked_name;
use hypostyle_error::from_datafusion;
use hypostyle_exec::scan::StoredTable;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::plain::alias_of;
use hypostyle_sql::{build, selected};
use hypostyle_storage::Transaction;
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// The name of the rows that RETURNING reads in place of joined tables, and of those with both versions.
const RETURNED: &str = "__returned";
const VERSIONS: &str = "__versions";

pub(super) struct Returning {
    items: Vec<SelectItem>,
    joined: Option<Joined>,
    /// The versions that it names.
    versions: Option<Versions>,
}

/// A target with the tables of FROM or USING.
struct Joined {
    /// All of them as items of FROM.
    from: Vec<TableWithJoins>,
    /// Their plan, which names the columns: the target's first.
    plan: Arc<LogicalPlan>,
    /// The number of the target's columns.
    columns: usize,
    /// The rows with both versions, which are the last item of FROM, and the number of their columns.
    versions: Option<(Given, usize)>,
}

impl Returning {
    pub fn of_target(target: &Target, items: Vec<SelectItem>) -> Self {
        Self { versions: versions_in(target, &[], &items), items, joined: None }
    }

    /// Says whether the rows have their versions behind.
    pub fn has_versions(&self) -> bool {
        self.versions.is_some()
    }

    /// Returns the columns that are asked for as they are; `None` if something else is, too, which takes a
    /// query.
    fn columns(&self, target: &Target) -> Option<Columns> {
        let columns = target.columns();
        let mut found = Columns::default();
        for item in &self.items {
            let (expr, alias) = match item {
                SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                    found.places.extend(0..columns.len());
                    found.names.extend(columns.iter().map(|column| column.name.clone()));
                    continue;
                }
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
                _ => return None,
            };
            let SqlExpr::Identifier(name) = expr else { return None };
            let folded = fold(name);
            found.places.push(columns.iter().position(|column| column.name == folded)?);
            found.names.push(alias.map_or(folded, fold));
        }
        Some(found)
    }

    /// Returns the columns of the other tables, as items of SELECT.
    pub fn others(&self) -> Vec<SelectItem> {
        let Some(joined) = &self.joined else { return Vec::new() };
        let versions = joined.versions.as_ref().map_or(0, |(_, columns)| *columns);
        let others = joined.plan.schema().fields().len() - versions;
        let columns = joined.plan.schema().iter().enumerate().take(others).skip(joined.columns);
        let mut relations = joined.from.iter().skip(1).flat_map(relations_with_columns);
        let mut items = Vec::new();
        let (mut last, mut written) = (None, Vec::new());
        for (number, (qualifier, field)) in columns {
            // Columns of a relation stand beside each other, and relations in the order of FROM.
            if last != Some(qualifier) {
                (last, written) =
                    (Some(qualifier), relations.next().map_or_else(Vec::new, name_before_columns));
            }
            let name = build::name(unmarked_name(field.name()));
            let column = match written.is_empty() {
                true => SqlExpr::Identifier(name),
                false => SqlExpr::CompoundIdentifier(written.iter().cloned().chain([name]).collect()),
            };
            items.push(build::item_named(column, &name_of(number)));
        }
        items
    }
}

/// Returns the relations of an item of FROM that have columns in its rows.
fn relations_with_columns(item: &TableWithJoins) -> Vec<&TableFactor> {
    use JoinOperator::{Anti, LeftAnti, LeftSemi, Semi};
    let joins = item.joins.iter();
    let joined =
        joins.filter(|join| !matches!(join.join_operator, Semi(_) | LeftSemi(_) | Anti(_) | LeftAnti(_)));
    let factors = std::iter::once(&item.relation).chain(joined.map(|join| &join.relation));
    fn within(factor: &TableFactor) -> Vec<&TableFactor> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                relations_with_columns(table_with_joins)
            }
            other => vec![other],
        }
    }
    factors.flat_map(within).collect()
}

/// Returns what stands before the names of a relation's columns: its alias, or its own name.
fn name_before_columns(factor: &TableFactor) -> Vec<Ident> {
    match (alias_of(factor), factor) {
        (Some(alias), _) => vec![alias.name.clone()],
        (None, TableFactor::Table { name, args: None, .. }) => {
            name.0.iter().filter_map(|part| part.as_ident().cloned()).collect()
        }
        (None, TableFactor::Table { name, .. } | TableFactor::Function { name, .. }) => {
            name.0.last().and_then(|part| part.as_ident().cloned()).into_iter().collect()
        }
        (None, TableFactor::UNNEST { .. }) => vec![build::name("unnest")],
        _ => Vec::new(),
    }
}

/// Columns of a table, under the names that a result has for them.
#[derive(Default)]
struct Columns {
    places: Vec<usize>,
    names: Vec<String>,
}

impl Columns {
    fn outcome(&self, schema: &Schema, rows: &[RecordBatch]) -> arrow::error::Result<Outcome> {
        let fields = self.places.iter().zip(&self.names);
        let fields: Vec<Field> =
            fields.map(|(place, name)| schema.field(*place).clone().with_name(name)).collect();
        let schema = Arc::new(Schema::new(fields));
        let columns = |rows: &RecordBatch| {
            let columns = self.places.iter().map(|place| rows.column(*place).clone());
            RecordBatch::try_new(schema.clone(), columns.collect())
        };
        let batches = rows.iter().map(columns).collect::<arrow::error::Result<_>>()?;
        Ok(Outcome::Batches { schema, batches, rows_affected: None })
    }
}

/// Returns the versions that items of RETURNING name, where neither a relation nor a column has their names.
fn versions_in(target: &Target, others: &[TableWithJoins], items: &[SelectItem]) -> Option<Versions> {
    let mut taken = relation_names(others);
    taken.push(target.alias.clone());
    taken.extend(target.names().map(String::from));
    Versions::named_in(&taken, items)
}

/// Returns what a column of [`Joined`] is called where all of them are of one table.
fn name_of(column: usize) -> String {
    format!("__column{column}")
}

fn cannot_return(error: &arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot return the rows: {error}"))
}

impl Joined {
    /// Returns the plan of the tables with rows in their place.
    fn rows(&self, rows: &[RecordBatch]) -> Result<LogicalPlan> {
        let schema = self.plan.schema();
        let field = |(number, field): (usize, &Arc<Field>)| {
            field.as_ref().clone().with_name(name_of(number)).with_nullable(true)
        };
        let fields: Vec<Field> = schema.fields().iter().enumerate().map(field).collect();
        let given = Arc::new(Schema::new(fields));
        let in_types = |rows: &RecordBatch| {
            let columns = rows.columns().iter().zip(given.fields());
            let columns = columns.map(|(values, field)| cast(values, field.data_type()));
            RecordBatch::try_new(given.clone(), columns.collect::<arrow::error::Result<_>>()?)
        };
        let rows: Vec<RecordBatch> = rows
            .iter()
            .map(in_types)
            .collect::<arrow::error::Result<_>>()
            .map_err(|error| cannot_return(&error))?;
        let named = schema.iter().enumerate().map(|(number, (qualifier, field))| {
            let column = Expr::Column(Column::new(Some(RETURNED), name_of(number)));
            column.alias_qualified(qualifier.cloned(), field.name())
        });
        let plan = || {
            let table = provider_as_source(Arc::new(MemTable::try_new(given.clone(), vec![rows])?));
            LogicalPlanBuilder::scan(RETURNED, table, None)?.project(named.collect::<Vec<_>>())?.build()
        };
        plan().map_err(from_datafusion)
    }
}

impl Dml<'_> {
    /// Writes to a table, and computes what RETURNING asks for before that is committed: what fails
    /// there undoes it. `change` gives the rows, in the engine's types and the table's order, with
    /// the others' columns behind, then those of the versions if they are named, and their number.
    pub(super) fn write_returning(
        &self,
        target: &Target,
        returning: Option<Returning>,
        parameters: &Parameters,
        change: impl FnOnce(&mut Transaction) -> Result<(Vec<RecordBatch>, u64)>,
    ) -> Result<Outcome> {
        if let Some(returning) = &returning {
            self.writer.compiler.check_returned(&returning.items)?;
            refuse(
                returning.has_versions() && target.is_of_cluster,
                "old and new in RETURNING from a table of the cluster",
            )?;
        }
        self.databases.write(&target.database, |writer| {
            let (rows, count) = change(writer)?;
            let Some(returning) = returning else { return Ok(Outcome::Done { rows_affected: Some(count) }) };
            let outcome = match &returning.joined {
                Some(joined) => self.joined_rows(target, (&returning, joined), &rows, parameters),
                None => self.target_rows(target, &returning, rows, parameters),
            };
            let (schema, batches) = self.queries.collected(outcome?)?;
            Ok(Outcome::Batches { schema, batches, rows_affected: Some(count) })
        })
    }

    fn target_rows(
        &self,
        target: &Target,
        returning: &Returning,
        rows: Vec<RecordBatch>,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let mut schema = self.databases.names().schema_of_rows(target)?;
        if returning.has_versions() {
            let own = schema.fields().iter().map(|field| field.as_ref().clone());
            schema = Arc::new(Schema::new(own.chain(fields_of(target, schema.fields())).collect::<Vec<_>>()));
        }
        let rows = rows
            .into_iter()
            .map(|rows| RecordBatch::try_new(schema.clone(), rows.columns().to_vec()))
            .collect::<arrow::error::Result<Vec<_>>>()
            .map_err(|error| cannot_return(&error))?;
        if let Some(columns) = returning.columns(target) {
            return columns.outcome(&schema, &rows).map_err(|error| cannot_return(&error));
        }
        let given = given_table(self.databases.scope, "returned", schema, rows)?;
        let from = build::alone(given.factor(Some(build::name(&target.alias))));
        let mut query = build::select_where(returning.items.clone(), vec![from], None);
        if let Some(versions) = &returning.versions {
            name_columns_for(&mut query, self.is_wire);
            let meaning = Meaning::Columns { target, relation: &target.alias, is_own: true };
            versions.write(&mut query, &meaning)?;
        }
        let mut statement = Statement::Query(Box::new(query));
        extension(self.is_wire).write(&mut statement);
        selected::rewrite(&mut statement)?;
        self.queries.result(statement, parameters)
    }

    /// Runs a query that is planned over the tables themselves, whose names it knows, and reads the
    /// rows in their place.
    fn joined_rows(
        &self,
        target: &Target,
        (returning, joined): (&Returning, &Joined),
        rows: &[RecordBatch],
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let mut query = selected::query(returning.items.clone(), joined.from.clone(), None)?;
        name_columns_for(&mut query, self.is_wire);
        if let Some(versions) = &returning.versions {
            let meaning = Meaning::Columns { target, relation: VERSIONS, is_own: false };
            versions.write(&mut query, &meaning)?;
            // All columns of a version have been put in.
            name_columns_for(&mut query, self.is_wire);
        }
        let plan = self.queries.plan(query, parameters)?;
        let rows = joined.rows(rows)?;
        let plan = plan.transform_down(|node| match node == *joined.plan {
            true => Ok(Transformed::new(rows.clone(), true, TreeNodeRecursion::Stop)),
            false => Ok(Transformed::no(node)),
        });
        let plan = plan.map_err(from_datafusion)?;
        if !plan.transformed {
            return Err(Error::internal("RETURNING is not planned over the tables that it names"));
        }
        self.queries.start_plan(plan.data, Purpose::Result)
    }
}

impl Writer<'_> {
    /// Returns the RETURNING of a statement that may read other tables beside its target.
    pub(super) fn returning(
        &self,
        target: &Target,
        others: &[TableWithJoins],
        items: Option<Vec<SelectItem>>,
        parameters: &Parameters,
    ) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        if others.is_empty() {
            return Ok(Some(Returning::of_target(target, items)));
        }
        let from = std::iter::once(build::alone(target.without_positions())).chain(others.iter().cloned());
        let mut from: Vec<TableWithJoins> = from.collect();
        let versions = versions_in(target, others, &items);
        let given = match versions {
            Some(_) => Some(self.names().given_versions(target)?),
            None => None,
        };
        from.extend(given.iter().map(|(given, _)| build::alone(given.factor(Some(build::name(VERSIONS))))));
        let all = selected::query(vec![build::every_column()], from.clone(), None)?;
        let plan = self.queries.plan(all, parameters)?;
        // Columns of one name are told apart below those that are shown.
        let mut tables = Arc::new(plan);
        while let LogicalPlan::Projection(all) = tables.as_ref() {
            tables = all.input.clone();
        }
        let columns = target.data.entry().columns.len();
        let joined = Some(Joined { from, plan: tables, columns, versions: given });
        Ok(Some(Returning { items, joined, versions }))
    }
}

impl Names<'_> {
    /// Returns a relation of the versions of a table's rows, which has none yet, and how many columns it has.
    fn given_versions(&self, target: &Target) -> Result<(Given, usize)> {
        let fields = fields_of(target, self.schema_of_rows(target)?.fields());
        let columns = fields.len();
        let given = given_table(self.scope, "versions", Arc::new(Schema::new(fields)), Vec::new())?;
        Ok((given, columns))
    }

    /// Returns the schema of a table's rows, in the engine's types.
    fn schema_of_rows(&self, target: &Target) -> Result<SchemaRef> {
        let snapshot = self.scope.database(&target.database)?.snapshot;
        Ok(StoredTable::new(target.data.clone(), snapshot, Default::default()).schema())
    }
}
