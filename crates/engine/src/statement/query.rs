//! Runs queries, from a parsed statement to stored columns or to a stream; and INSERT, which reads
//! one.

use crate::session::outcome::DONE;
use crate::session::plan_cache::{FoundPlan, Lookup, PlanKey};
use crate::session::{Outcome, Parameters, Session};
use crate::statement::dialect::as_statement;
use crate::statement::given_rows::given_table;
use crate::statement::given_types::{give_types, without_own_casts};
use crate::statement::insert::{has_structure, name_first_columns, prepare, refuse_foreign, take_conflict};
use crate::statement::materialized::refuse_materialized;
use crate::statement::merge::Changes;
use crate::statement::named_parameters::numbered;
use crate::statement::names::Names;
use crate::statement::parameters::name_by_query;
use crate::statement::planned_parameters::write_values;
use crate::statement::result::{Purpose, for_caller};
use crate::statement::returning::Returning;
use crate::statement::start::{start, start_explain};
use crate::statement::stored_plan::StoredPlan;
use crate::statement::target::Target;
use crate::statement::versions::{Did, with_versions};
use crate::statement::writer::Dml;
use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::FieldRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ParamValues, TableReference};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    DdlStatement, DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, Statement as PlanStatement, WriteOp,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ObjectName, Query, SetExpr, Statement, TableFactor, TableObject, TableWithJoins, Visitor,
};
use hypostyle_bind::expression::logical_types::said_again;
use hypostyle_bind::values::nullable_values::with_nullable_values;
use hypostyle_bind::{asks_for_columns, bind_statement, in_own_forms};
use hypostyle_catalog::databases::{Databases, check_populated};
use hypostyle_catalog::given::Relation;
use hypostyle_catalog::origin::{origins, origins_of_table};
use hypostyle_catalog::pg_catalog::in_order;
use hypostyle_catalog::planning_error::planning_error;
use hypostyle_catalog::scope::{Name, Scope};
use hypostyle_error::from_datafusion;
use hypostyle_error::type_name::type_name;
use hypostyle_expr::cast::dimensions;
use hypostyle_expr::said::in_plans;
use hypostyle_expr::walk::any_node;
use hypostyle_sql::build;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::insert_clauses::{is_by_name, take_overriding};
use hypostyle_sql::plain::{has_inner_values, only_table};
use hypostyle_sql::same_named_tables::refuse_alike;
use hypostyle_sql::walk::walk;
use hypostyle_storage::{Snapshot, TableData, Transaction, unknown_table};
use hypostyle_types::{Error, LogicalType, Result};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// A query for so many expressions of one table, or of none, is planned in less time than it takes
/// to wake another thread.
const ITEMS_MAX: usize = 16;
const EXPRESSIONS_MAX: usize = 100;

/// Functions that make much of little, or take long for what they are given: they are not computed
/// by a caller's thread, which could not be interrupted.
const LONG_FUNCTIONS: [&str; 15] = [
    "repeat",
    "lpad",
    "rpad",
    "space",
    "range",
    "generate_series",
    "array_repeat",
    "list_repeat",
    "array_resize",
    "list_resize",
    "levenshtein",
    "replace",
    "regexp_replace",
    "translate",
    "overlay",
];

impl Session {
    /// Plans a statement and starts it.
    pub(crate) fn query(&self, statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        self.query_for(Purpose::Work, statement, parameters)
    }

    /// Returns [`Self::query`] for whoever asked the session: columns that are only picked keep
    /// their stored types.
    pub(crate) fn query_for_result(
        &self,
        statement: DfStatement,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        self.query_for(Purpose::Result, statement, parameters)
    }

    fn query_for(
        &self,
        purpose: Purpose,
        statement: DfStatement,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let (outcome, state) = self.plan_and_start(self.take_state(), purpose, statement, parameters)?;
        *self.spare_state.lock() = Some(state);
        Ok(outcome)
    }

    /// Returns the state for a statement: that of an earlier one, whose copy costs more than a
    /// small query.
    pub(super) fn take_state(&self) -> SessionState {
        let Some(mut state) = self.spare_state.lock().take() else { return self.context.state() };
        state.mark_start_execution();
        state
    }

    /// Returns the whole of a table or view.
    pub fn table(&self, name: &str) -> Result<Outcome> {
        let _running = self.enter();
        self.run.lock().begin(&format!("table {name}"));
        self.start()?;
        let Name { database, schema, name: relation } =
            self.scope.resolve(&hypostyle_sql::identifier::split_name(name), None)?;
        if self.scope.foreign(&database).is_some() {
            return self.whole_relation([&database, &schema, &relation]);
        }
        let snapshot = self.scope.database(&database)?.snapshot;
        let full = Name::new(&database, &schema, &relation);
        let is_of_cluster = self.scope.cluster_table(&full).is_some();
        if let Some(table) = snapshot.table(&schema, &relation).filter(|_| !is_of_cluster) {
            check_populated(table.entry())?;
            let threads = self.engine.options().threads;
            return Ok(Outcome::Stored(StoredPlan::whole(table, &snapshot).open(threads)?));
        }
        if snapshot.catalog().view(&schema, &relation).is_none() && !is_of_cluster {
            return Err(unknown_table(snapshot.catalog(), name));
        }
        self.whole_relation([&database, &schema, &relation])
    }

    /// Returns all rows of a table or view of three names.
    fn whole_relation(&self, names: [&str; 3]) -> Result<Outcome> {
        let table = build::table(Vec::from(names.map(build::name)), None);
        let all = as_statement(build::all_rows(table));
        self.query_for_result(all, &Parameters::None).and_then(for_caller)
    }

    /// Returns `SELECT * FROM table` and nothing else, which need not be planned: for hundreds of
    /// columns planning takes longer than all else.
    pub(crate) fn whole_table(&self, query: &Query) -> Result<Option<Outcome>> {
        let Some(name) = only_table(query) else { return Ok(None) };
        let Some((table, snapshot)) = self.table_of(name) else { return Ok(None) };
        if self.settings.is_wire() {
            let origins = origins_of_table(&table, &snapshot, &self.scope);
            self.run.lock().origins = origins;
        }
        let plan = StoredPlan::whole(&table, &snapshot);
        plan.open(self.engine.options().threads).map(|stored| Some(Outcome::Stored(stored)))
    }

    pub(crate) fn plan(&self, statement: DfStatement, parameters: &Parameters) -> Result<LogicalPlan> {
        let planning = self.planning(self.take_state(), Purpose::Work, statement, parameters)?;
        let planned = async move { planning.plan().await.map(|planned| (planned.plan, planned.state)) };
        let (plan, state) = self.wait_apart(planned)?;
        *self.spare_state.lock() = Some(state);
        Ok(plan)
    }

    fn planning(
        &self,
        state: SessionState,
        purpose: Purpose,
        statement: DfStatement,
        parameters: &Parameters,
    ) -> Result<Planning> {
        let mut statement = statement;
        let mut has_own_casts = false;
        if let DfStatement::Statement(statement) = &mut statement {
            refuse_alike(statement)?;
            write_values(statement, parameters);
            has_own_casts = !parameters.is_empty() && give_types(statement, parameters);
        }
        let values = parameters.planned();
        let lookup = match &statement {
            DfStatement::Statement(query)
                if purpose == Purpose::Result && matches!(query.as_ref(), Statement::Query(_)) =>
            {
                let is_wire = self.settings.is_wire();
                self.plans.lock().look_up(query, &state, &self.scope, is_wire)
            }
            _ => Lookup::Nothing,
        };
        let snapshot = self.scope.current_database()?.snapshot;
        Ok(Planning { state, statement, values, has_own_casts, lookup, snapshot })
    }

    /// Plans and starts a query whose names are those of a database's definitions.
    pub(crate) fn query_from(&self, database: &str, statement: DfStatement) -> Result<Outcome> {
        let mut state = self.context.state();
        state.register_catalog_list(Arc::new(Databases::for_definitions_of(self.scope.clone(), database)));
        self.plan_and_start(state, Purpose::Work, statement, &Parameters::None).map(|(outcome, _)| outcome)
    }

    /// Plans and starts a query in one step, because a thread that waits for another one more often
    /// costs more than a small query. A query that may be small is begun on this thread, and moves
    /// to the engine's threads when it is not.
    fn plan_and_start(
        &self,
        state: SessionState,
        purpose: Purpose,
        statement: DfStatement,
        parameters: &Parameters,
    ) -> Result<(Outcome, SessionState)> {
        let may_be_small = self.names().may_be_small(&statement);
        let planning = self.planning(state, purpose, statement, parameters)?;
        let (plans, own_scope) = (self.plans.clone(), self.scope.clone());
        let (context, threads) = (self.context.clone(), self.engine.options().threads);
        let of_wire = purpose == Purpose::Result && self.settings.is_wire();
        let (scope, found) = (of_wire.then(|| self.scope.clone()), Arc::new(OnceLock::new()));
        let finds = found.clone();
        let started = async move {
            let PlannedStatement { plan, state, optimized, keep } = planning.plan().await?;
            refuse_inner_writes(&plan)?;
            if let Some(scope) = scope {
                let _once = finds.set(origins(&plan, &scope));
            }
            let outcome = match plan {
                LogicalPlan::Statement(_) => {
                    // SET and RESET of DataFusion's own settings, which it keeps in the session.
                    plans.lock().clear();
                    let _nothing = context.execute_logical_plan(plan).await.map_err(from_datafusion)?;
                    Ok(DONE)
                }
                LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_)) => {
                    Err(Error::unsupported("SELECT … INTO is not supported; write CREATE TABLE … AS SELECT"))
                }
                LogicalPlan::Ddl(other) => {
                    Err(Error::unsupported(format!("{} is not supported", other.name())))
                }
                LogicalPlan::Dml(_) => {
                    Err(Error::unsupported("this statement writes in a way that is not supported"))
                }
                LogicalPlan::Copy(_) => Err(Error::unsupported("write it as COPY … TO 'file' (FORMAT …)")),
                LogicalPlan::Explain(explain) => start_explain(&state, explain, threads).await,
                query => {
                    let started = start(&state, query, optimized, purpose, threads).await;
                    started.map(|(outcome, optimized)| {
                        if let Some((key, written)) = keep {
                            let pool = &state.runtime_env().memory_pool;
                            plans.lock().keep(key, &written, optimized.as_ref(), &own_scope, pool);
                        }
                        outcome
                    })
                }
            };
            Ok((outcome?, state))
        };
        let started = if may_be_small { self.wait_here(started) } else { self.wait_apart(started) };
        if let Some(found) = found.get() {
            self.run.lock().origins.clone_from(found);
        }
        started
    }

    /// Returns a stored table by its name.
    pub(super) fn table_of(&self, name: &ObjectName) -> Option<(Arc<TableData>, Arc<Snapshot>)> {
        self.names().table_of(name)
    }

    pub(super) fn start_query(&self, plan: LogicalPlan, purpose: Purpose) -> Result<Outcome> {
        let (state, threads) = (self.take_state(), self.engine.options().threads);
        let (outcome, state) = self.wait_apart(async move {
            let (outcome, _) = start(&state, plan, None, purpose, threads).await?;
            Ok((outcome, state))
        })?;
        *self.spare_state.lock() = Some(state);
        Ok(outcome)
    }

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

    pub(crate) fn each_batch(
        &self,
        outcome: Outcome,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        match outcome {
            Outcome::Stream { stream, .. } => self.for_each(stream, each),
            other => self.collect_rows(other)?.1.into_iter().try_for_each(|batch| {
                each(batch)?;
                self.check_interrupt()
            }),
        }
    }
}

impl Names<'_> {
    /// Says whether a query is for a few short expressions of one stored table, or of none.
    pub(super) fn may_be_small(&self, statement: &DfStatement) -> bool {
        let DfStatement::Statement(statement) = statement else { return false };
        let Statement::Query(query) = statement.as_ref() else { return false };
        let SetExpr::Select(select) = query.body.as_ref() else { return false };
        let is_stored = |table: &TableWithJoins| match &table.relation {
            TableFactor::Table { name, args: None, .. } => {
                table.joins.is_empty() && (self.table_of(name).is_some() || is_given_table(self.scope, name))
            }
            _ => false,
        };
        query.with.is_none()
            && select.projection.len() <= ITEMS_MAX
            && select.from.len() <= 1
            && select.from.iter().all(is_stored)
            && walk(query, &mut Short::default()).is_continue()
            && !asks_for_columns(statement)
    }
}

impl Dml<'_> {
    /// Runs INSERT into a table of a database that is open here.
    fn insert_rows(&self, mut statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        let (mut target, mut returning, mut conflict) = (None, None, None);
        if let DfStatement::Statement(inner) = &mut statement
            && let datafusion::sql::sqlparser::ast::Statement::Insert(insert) = inner.as_mut()
            && let TableObject::TableName(name) = &insert.table
        {
            let overriding = take_overriding(&mut insert.partitioned);
            let is_by_name = is_by_name(insert.partitioned.as_deref());
            if is_by_name {
                insert.partitioned = None;
            }
            refuse_foreign(insert)?;
            // The planner does not know the alias, and does not plan the clauses that use it.
            let alias = insert.table_alias.take().map(|alias| fold(&alias.alias));
            let found = self.databases.names().target(name, alias)?;
            refuse_materialized(found.data.entry())?;
            if is_by_name {
                name_by_query(self.queries, insert)?;
            }
            name_first_columns(&found, insert);
            conflict = take_conflict(&found, insert)?;
            prepare(&found, insert, overriding)?;
            returning = insert.returning.take().map(|items| Returning::of_target(&found, items));
            target = Some(found);
        }
        // The planner finds the types of numbered parameters only.
        let numbered = numbered(&mut statement, parameters)?;
        let dml = self.plan_insert(statement, numbered.as_ref().unwrap_or(parameters), target.as_ref())?;
        if !matches!(dml.op, WriteOp::Insert(_)) {
            return Err(Error::unsupported(format!("{} is not supported", dml.op)));
        }
        let table_name = self.databases.scope.resolve(&parts(&dml.table_name), None)?;
        let name = &table_name.name;
        let given = with_nullable_values(dml.input.as_ref().clone()).map_err(from_datafusion)?;
        let outcome = self.queries.start_plan(given, Purpose::Work)?;
        refuse_more_dimensions(&dml, name, &outcome)?;
        let Some(target) = &target else {
            let written = self
                .databases
                .write(&table_name.database, |writer| self.write_rows(writer, &table_name, outcome, Ok));
            return written.map(|rows| Outcome::Done { rows_affected: Some(rows) });
        };
        let has_versions = returning.as_ref().is_some_and(Returning::has_versions);
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

    /// Plans an INSERT. A query that contains VALUES is planned by itself, because DataFusion takes
    /// all VALUES of an INSERT for rows of its table. So is a query that gives text for UUIDs
    /// within other values, or structures, which DataFusion does not cast.
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
            own = insert.source.as_mut().filter(|source| !cast.is_empty() || has_inner_values(source));
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

impl Names<'_> {
    /// Returns a stored table by its name.
    pub(super) fn table_of(&self, name: &ObjectName) -> Option<(Arc<TableData>, Arc<Snapshot>)> {
        let parts = name.0.iter().map(|part| part.as_ident().map(fold)).collect::<Option<Vec<_>>>()?;
        let found = self.scope.resolve(&parts, None).ok()?;
        if self.scope.cluster_table(&found).is_some() {
            return None;
        }
        let snapshot = self.scope.database(&found.database).ok()?.snapshot;
        let table = snapshot.table(&found.schema, &found.name)?.clone();
        (!table.entry().is_unpopulated()).then_some((table, snapshot))
    }
}

/// Returns the settings of a session, one or all.
pub(super) fn name_value(rows: Vec<(String, String)>) -> Result<Outcome> {
    let (names, values): (Vec<String>, Vec<String>) = rows.into_iter().unzip();
    let columns: [(&str, ArrayRef); 2] =
        [("name", Arc::new(StringArray::from(names))), ("value", Arc::new(StringArray::from(values)))];
    RecordBatch::try_from_iter(columns)
        .map(Outcome::batch)
        .map_err(|error| Error::internal(format!("cannot list settings: {error}")))
}

/// Says whether a name is that of a stored table with the positions of its rows.
fn is_given_table(scope: &Scope, name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    let given = part.as_ident().and_then(|name| scope.given(&name.value));
    matches!(given, Some(Relation::Positions { table, .. }) if scope.cluster_table(&table).is_none())
}

/// Breaks at a query within a query, at functions that may take long, and when there are too many
/// expressions.
#[derive(Default)]
struct Short {
    queries: usize,
    expressions: usize,
}

impl Visitor for Short {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        if self.queries > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<()> {
        self.expressions += 1;
        let takes_long = match expr {
            SqlExpr::Function(call) => {
                let name = call.name.0.last().and_then(|name| name.as_ident());
                name.is_some_and(|name| {
                    LONG_FUNCTIONS.iter().any(|long| name.value.eq_ignore_ascii_case(long))
                })
            }
            _ => false,
        };
        if takes_long || self.expressions > EXPRESSIONS_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Refuses statements that write within EXPLAIN ANALYZE or a query. DataFusion would run them past
/// transactions and the rights of the session.
pub(super) fn refuse_inner_writes(plan: &LogicalPlan) -> Result<()> {
    let writes = |node: &LogicalPlan| {
        !std::ptr::eq(node, plan)
            && matches!(
                node,
                LogicalPlan::Copy(_) | LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Statement(_)
            )
    };
    match any_node(plan, writes) {
        true => Err(Error::unsupported("a statement that writes is not supported within another statement")),
        false => Ok(()),
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

/// A statement with all that planning it needs.
struct Planning {
    state: SessionState,
    statement: DfStatement,
    values: Option<ParamValues>,
    /// Some parameters have been cast to the types of their values.
    has_own_casts: bool,
    lookup: Lookup,
    /// The snapshot, for suggestions of names.
    snapshot: Arc<Snapshot>,
}

/// A statement that is planned.
struct PlannedStatement {
    plan: LogicalPlan,
    state: SessionState,
    /// The same optimized, where it was kept.
    optimized: Option<LogicalPlan>,
    /// The plan to keep: as it is before parameters have their values.
    keep: Option<(PlanKey, LogicalPlan)>,
}

impl Planning {
    async fn plan(self) -> Result<PlannedStatement> {
        let Self { state, statement, values, has_own_casts, lookup, snapshot } = self;
        let (plan, optimized, keep) = match lookup {
            Lookup::Found(found) => {
                let FoundPlan { written, optimized } = *found;
                (written, optimized, None)
            }
            wanted => {
                let plan = bind_statement(&state, statement).await;
                let plan = plan.map_err(|error| planning_error(error, &snapshot))?;
                let keep = match wanted {
                    Lookup::Wanted(key) => Some((*key, plan.clone())),
                    _ => None,
                };
                (plan, None, keep)
            }
        };
        let plan = match values {
            Some(values) => {
                let says = says_more(&values);
                let plan = if has_own_casts { without_own_casts(plan, &values) } else { Ok(plan) };
                let plan = plan.and_then(|plan| plan.with_param_values(values));
                plan.and_then(|plan| if says { said_again(plan) } else { Ok(plan) })
                    .map_err(from_datafusion)?
            }
            None => plan,
        };
        if let Some(missing) = first_placeholder(&plan)
            && !matches!(plan, LogicalPlan::Statement(PlanStatement::Prepare(_)))
        {
            return Err(Error::invalid_input(format!("no value was given for the parameter {missing}"))
                .with_sqlstate("07001"));
        }
        let plan = in_own_forms(plan).and_then(in_order).map_err(from_datafusion)?;
        Ok(PlannedStatement { plan, state, optimized, keep })
    }
}

/// Says whether some values of parameters are more than their types in plans say.
fn says_more(values: &ParamValues) -> bool {
    match values {
        ParamValues::List(values) => values.iter().any(|value| value.metadata.is_some()),
        ParamValues::Map(values) => values.values().any(|value| value.metadata.is_some()),
    }
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

fn first_placeholder(plan: &LogicalPlan) -> Option<String> {
    let names: Result<_, DataFusionError> = plan.get_parameter_names();
    names.ok()?.into_iter().min()
}
