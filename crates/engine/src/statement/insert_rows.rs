//! INSERT of what a query gives, or VALUES that need a plan: the rows are appended as they come.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::given_rows::given_table;
use crate::statement::insert::{has_structure, name_first_columns, prepare, refuse_foreign, take_conflict};
use crate::statement::materialized::refuse_materialized;
use crate::statement::merge::Changes;
use crate::statement::named_parameters::numbered;
use crate::statement::parameters::name_by_query;
use crate::statement::result::Purpose;
use crate::statement::returning::Returning;
use crate::statement::target::Target;
use crate::statement::versions::{Did, with_versions};
use crate::statement::writer::Dml;
use arrow::datatypes::FieldRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, WriteOp};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Insert, OnConflict, SetExpr, Statement, TableObject};
use hypostyle_bind::values::nullable_values::with_nullable_values;
use hypostyle_catalog::scope::Name;
use hypostyle_error::from_datafusion;
use hypostyle_error::type_name::type_name;
use hypostyle_expr::cast::dimensions;
use hypostyle_expr::said::in_plans;
use hypostyle_sql::build;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::insert_clauses::{is_by_name, take_overriding};
use hypostyle_storage::{Transaction, unknown_table};
use hypostyle_types::{Error, LogicalType, Result};
use std::sync::Arc;

impl Session {
    /// Runs INSERT INTO … VALUES / SELECT: appends the rows that DataFusion plans, in one
    /// transaction.
    pub(crate) fn insert(&self, statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        if let DfStatement::Statement(inner) = &statement
            && let Statement::Insert(insert) = inner.as_ref()
            && let TableObject::TableName(name) = &insert.table
            && let Ok(table) = self.names().resolve(name)
            && let Some(attached) = self.scope.foreign(&table.database)
        {
            return self.insert_into_foreign(&attached, &table, insert, parameters);
        }
        self.dml().insert_rows(statement, parameters)
    }
}

/// The table of an INSERT, and its clauses that the planner does not plan.
struct InsertInto {
    target: Target,
    returning: Option<Returning>,
    conflict: Option<OnConflict>,
}

impl Dml<'_> {
    /// Runs INSERT into a table of a database that is open here.
    fn insert_rows(&self, mut statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        let mut into = None;
        if let DfStatement::Statement(inner) = &mut statement
            && let Statement::Insert(insert) = inner.as_mut()
        {
            into = self.take_clauses(insert)?;
        }
        // The planner finds the types of numbered parameters only.
        let numbered = numbered(&mut statement, parameters)?;
        let known = into.as_ref().map(|into| &into.target);
        let dml = self.plan_insert(statement, numbered.as_ref().unwrap_or(parameters), known)?;
        if !matches!(dml.op, WriteOp::Insert(_)) {
            return Err(Error::unsupported(format!("{} is not supported", dml.op)));
        }
        let table_name = self.databases.scope.resolve(&parts(&dml.table_name), None)?;
        let name = &table_name.name;
        let given = with_nullable_values(dml.input.as_ref().clone()).map_err(from_datafusion)?;
        let outcome = self.queries.start_plan(given, Purpose::Work)?;
        refuse_more_dimensions(&dml, name, &outcome)?;
        let Some(InsertInto { target, returning, conflict }) = into else {
            let written = self
                .databases
                .write(&table_name.database, |writer| self.write_rows(writer, &table_name, outcome, Ok));
            return written.map(|rows| Outcome::Done { rows_affected: Some(rows) });
        };
        let (target, has_versions) = (&target, returning.as_ref().is_some_and(Returning::has_versions));
        if let Some(conflict) = &conflict {
            let (_, batches) = self.queries.collected(outcome)?;
            let rows = self.writer.as_rows_of(target, batches)?;
            let changes = match rows.iter().all(|rows| rows.num_rows() == 0) {
                true => Changes::default(),
                false => self.writer.on_conflict(target, conflict, rows, parameters)?,
            };
            return self.write_returning(target, returning, parameters, |writer| {
                self.writer.modify(writer, target.id, &changes.modification)?;
                let rows = match has_versions {
                    true => self.writer.versions_of(target, &changes.modification)?,
                    false => changes.modification.rows(),
                };
                Ok((rows, changes.count))
            });
        }
        let mut generation = self.writer.generation(target)?;
        let (mut returned, keeps) = (Vec::new(), returning.is_some());
        self.write_returning(target, returning, parameters, |writer| {
            let count = self.write_rows(writer, &table_name, outcome, |batch| {
                let rows = match &mut generation {
                    Some(generation) => generation.complete(&batch)?,
                    None => batch,
                };
                if keeps {
                    let rows = self.writer.in_types_of(target, &rows)?;
                    returned.push(if has_versions {
                        with_versions(target, &rows, Did::Insert)?
                    } else {
                        rows
                    });
                }
                Ok(rows)
            })?;
            Ok((returned, count))
        })
    }

    /// Takes the clauses from an INSERT that the planner does not plan; `None` where it names no table.
    fn take_clauses(&self, insert: &mut Insert) -> Result<Option<InsertInto>> {
        let TableObject::TableName(name) = &insert.table else { return Ok(None) };
        let overriding = take_overriding(&mut insert.partitioned);
        let is_by_name = is_by_name(insert.partitioned.as_deref());
        if is_by_name {
            insert.partitioned = None;
        }
        refuse_foreign(insert)?;
        // The planner does not know the alias, and does not plan the clauses that use it.
        let alias = insert.table_alias.take().map(|alias| fold(&alias.alias));
        let target = self.databases.names().target(name, alias)?;
        refuse_materialized(target.data.entry())?;
        if is_by_name {
            name_by_query(self.queries, insert)?;
        }
        name_first_columns(&target, insert);
        let conflict = take_conflict(&target, insert)?;
        prepare(&target, insert, overriding)?;
        let returning = insert.returning.take().map(|items| Returning::of_target(&target, items));
        Ok(Some(InsertInto { target, returning, conflict }))
    }

    /// Plans an INSERT. A query that gives text for UUIDs within other values, or structures, which
    /// DataFusion does not cast, is planned by itself.
    fn plan_insert(
        &self,
        mut statement: DfStatement,
        parameters: &Parameters,
        target: Option<&Target>,
    ) -> Result<DmlStatement> {
        let mut own = None;
        let mut cast: Vec<(usize, FieldRef)> = Vec::new();
        if let DfStatement::Statement(inner) = &mut statement
            && let Statement::Insert(insert) = inner.as_mut()
        {
            if let Some(target) = target {
                let columns = &target.data.entry().columns;
                let named = target.given_columns(&insert.columns)?;
                let given = if named.is_empty() { (0..columns.len()).collect() } else { named };
                let given = given.into_iter().map(|place| &columns[place].logical_type).enumerate();
                let is_values = insert
                    .source
                    .as_ref()
                    .is_some_and(|source| matches!(source.body.as_ref(), SetExpr::Values(_)));
                let is_cast = |of: &LogicalType| {
                    *of != LogicalType::Uuid && contains_uuids(of) || !is_values && has_structure(of)
                };
                let given = given.filter(|(_, of)| is_cast(of));
                cast =
                    given.map(|(index, of)| (index, Arc::new(in_plans(&of.arrow_field("", true))))).collect();
            }
            own = insert.source.as_mut().filter(|_| !cast.is_empty());
        }
        let Some(source) = own else { return dml(self.queries.plan_statement(statement, parameters)?) };
        let query = Statement::Query(source.clone());
        let query = self.queries.plan_statement(DfStatement::Statement(Box::new(query)), parameters)?;
        let query = in_types(query, &cast).map_err(from_datafusion)?;
        let rows = Arc::new(query.schema().as_arrow().clone());
        // The query in the plan of the INSERT.
        let selected = given_table(self.databases.scope, "selected", rows, Vec::new())?;
        **source = build::all_rows(selected.factor(None));
        let mut insert = dml(self.queries.plan_statement(statement, &Parameters::None)?)?;
        let in_place = |plan: LogicalPlan| match &plan {
            LogicalPlan::TableScan(scan) if scan.table_name.table() == selected.name() => {
                let query =
                    LogicalPlanBuilder::from(query.clone()).alias(scan.table_name.clone())?.build()?;
                Ok(Transformed::yes(query))
            }
            _ => Ok(Transformed::no(plan)),
        };
        let input = Arc::unwrap_or_clone(insert.input).transform_down(in_place).map_err(from_datafusion)?;
        insert.input = Arc::new(input.data);
        Ok(insert)
    }

    /// Appends to a table what `rows_of` makes of an outcome's batches.
    fn write_rows(
        &self,
        writer: &mut Transaction,
        Name { schema, name, .. }: &Name,
        outcome: Outcome,
        mut rows_of: impl FnMut(RecordBatch) -> Result<RecordBatch>,
    ) -> Result<u64> {
        let Some(id) = writer.catalog().table(schema, name).map(|table| table.id) else {
            return Err(unknown_table(writer.catalog(), name));
        };
        let mut rows = 0;
        self.queries.each_of(outcome, &mut |batch| {
            rows += batch.num_rows() as u64;
            writer.append(id, &rows_of(batch)?)
        })?;
        Ok(rows)
    }
}

fn dml(plan: LogicalPlan) -> Result<DmlStatement> {
    match plan {
        LogicalPlan::Dml(dml) => Ok(dml),
        _ => Err(Error::internal("an INSERT that is not planned as one")),
    }
}

fn contains_uuids(of: &LogicalType) -> bool {
    match of {
        LogicalType::Uuid => true,
        LogicalType::List { element } | LogicalType::Array { element, .. } => contains_uuids(element),
        LogicalType::Struct { fields } => fields.iter().any(|field| contains_uuids(&field.logical_type)),
        _ => false,
    }
}

/// Returns a query with some of its columns cast.
fn in_types(query: LogicalPlan, wanted: &[(usize, FieldRef)]) -> datafusion::error::Result<LogicalPlan> {
    if wanted.is_empty() {
        return Ok(query);
    }
    let columns = query.schema().columns().into_iter().enumerate();
    let columns: Vec<Expr> = columns
        .map(|(index, column)| {
            let name = column.name.clone();
            match wanted.iter().find(|(place, _)| *place == index) {
                Some((_, field)) => {
                    let expr = Box::new(Expr::Column(column));
                    Expr::Cast(Cast { expr, field: field.clone() }).alias(name)
                }
                None => Expr::Column(column),
            }
        })
        .collect();
    LogicalPlanBuilder::from(query).project(columns)?.build()
}

fn parts(table: &TableReference) -> Vec<String> {
    let parts = [table.catalog(), table.schema(), Some(table.table())];
    parts.into_iter().flatten().map(str::to_string).collect()
}

/// Refuses lists of more dimensions than their column has: that of a text in VALUES may be one.
///
/// # Errors
/// `InvalidInput` (22P02) with the column.
fn refuse_more_dimensions(dml: &DmlStatement, table: &str, given: &Outcome) -> Result<()> {
    let (Outcome::Stream { schema, .. } | Outcome::Batches { schema, .. }) = given else { return Ok(()) };
    let target = dml.target.schema();
    let deeper = schema.fields().iter().find_map(|field| {
        let (_, column) = target.column_with_name(field.name())?;
        let wanted = dimensions(column.data_type());
        (wanted > 0 && dimensions(field.data_type()) > wanted).then_some(column)
    });
    let Some(column) = deeper else { return Ok(()) };
    let (name, of) = (column.name(), type_name(column.data_type()));
    let message = format!("column \"{name}\" of table \"{table}\" is {of}, and a list of lists was given");
    Err(Error::invalid_input(message).with_sqlstate("22P02"))
}
