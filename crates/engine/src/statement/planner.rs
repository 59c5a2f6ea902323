//! Plans queries and starts them: a statement's tree becomes a plan, or one that was kept is found again, and
//! the plan becomes an outcome.

use crate::session::outcome::DONE;
use crate::session::plan_cache::{FoundPlan, Lookup, PlanKey, Plans};
use crate::session::{Outcome, Parameters, Run, Session, Waits};
use crate::statement::dialect::as_statement;
use crate::statement::given_types::{give_types, without_own_casts};
use crate::statement::names::Names;
use crate::statement::planned_parameters::write_values;
use crate::statement::result::{Purpose, for_caller};
use crate::statement::start::{start, start_explain};
use crate::statement::stored_plan::StoredPlan;
use datafusion::common::ParamValues;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ObjectName, Query, SetExpr, Statement, TableFactor, TableWithJoins, Visitor,
};
use hypostyle_bind::expression::logical_types::said_again;
use hypostyle_bind::{bind_statement, in_own_forms};
use hypostyle_catalog::databases::Databases;
use hypostyle_catalog::given::Relation;
use hypostyle_catalog::origin::{origins, origins_of_table};
use hypostyle_catalog::pg_catalog::in_order;
use hypostyle_catalog::planning_error::planning_error;
use hypostyle_catalog::scope::Scope;
use hypostyle_error::from_datafusion;
use hypostyle_expr::walk::any_node;
use hypostyle_sql::build;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::plain::only_table;
use hypostyle_sql::walk::walk;
use hypostyle_storage::{Snapshot, TableData};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
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

/// What plans the queries of a session, and starts them: the functions and settings that it plans with, what
/// their names stand for, and the plans that were kept. It writes nothing, and begins no transaction.
pub(super) struct Planner<'a, W> {
    /// Waits for what is planned, and for what runs.
    pub waits: &'a W,
    pub context: &'a SessionContext,
    pub scope: &'a Arc<Scope>,
    /// The state of an earlier statement, as good as a new copy of the context's.
    pub spare: &'a Mutex<Option<SessionState>>,
    pub plans: &'a Arc<Mutex<Plans>>,
    /// The statement that runs, which is told where the columns of its result are from.
    pub run: &'a Mutex<Run>,
    /// The threads that read what is stored.
    pub threads: usize,
    /// The session speaks PostgreSQL's protocol.
    pub is_wire: bool,
}

impl Session {
    pub(super) fn planner(&self) -> Planner<'_, Self> {
        Planner {
            waits: self,
            context: &self.context,
            scope: &self.scope,
            spare: &self.spare_state,
            plans: &self.plans,
            run: &self.run,
            threads: self.engine.threads(),
            is_wire: self.settings.is_wire(),
        }
    }
}

impl<W: Waits> Planner<'_, W> {
    pub fn names(&self) -> Names<'_> {
        Names { scope: self.scope }
    }

    /// Plans a statement and starts it.
    pub fn query(&self, statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        self.query_for(Purpose::Work, statement, parameters)
    }

    /// Returns [`Self::query`] for whoever asked the session: columns that are only picked keep
    /// their stored types.
    pub fn query_for_result(&self, statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        self.query_for(Purpose::Result, statement, parameters)
    }

    fn query_for(
        &self,
        purpose: Purpose,
        statement: DfStatement,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let (outcome, state) = self.plan_and_start(self.take_state(), purpose, statement, parameters)?;
        *self.spare.lock() = Some(state);
        Ok(outcome)
    }

    /// Returns the state for a statement: that of an earlier one, whose copy costs more than a
    /// small query.
    pub fn take_state(&self) -> SessionState {
        let Some(mut state) = self.spare.lock().take() else { return self.context.state() };
        state.mark_start_execution();
        state
    }

    /// Returns all rows of a table or view of three names.
    pub fn whole_relation(&self, names: [&str; 3]) -> Result<Outcome> {
        let table = build::table(Vec::from(names.map(build::name)), None);
        let all = as_statement(build::all_rows(table));
        self.query_for_result(all, &Parameters::None).and_then(for_caller)
    }

    /// Returns `SELECT * FROM table` and nothing else, which need not be planned: for hundreds of
    /// columns planning takes longer than all else.
    pub fn whole_table(&self, query: &Query) -> Result<Option<Outcome>> {
        let Some(name) = only_table(query) else { return Ok(None) };
        let Some((table, snapshot)) = self.names().table_of(name) else { return Ok(None) };
        if self.is_wire {
            let origins = origins_of_table(&table, &snapshot, self.scope);
            self.run.lock().origins = origins;
        }
        let plan = StoredPlan::whole(&table, &snapshot);
        plan.open(self.threads).map(|stored| Some(Outcome::Stored(stored)))
    }

    pub fn plan(&self, statement: DfStatement, parameters: &Parameters) -> Result<LogicalPlan> {
        let planning = self.planning(self.take_state(), Purpose::Work, statement, parameters)?;
        let planned = async move { planning.plan().await.map(|planned| (planned.plan, planned.state)) };
        let (plan, state) = self.waits.wait_apart(planned)?;
        *self.spare.lock() = Some(state);
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
            write_values(statement, parameters);
            has_own_casts = !parameters.is_empty() && give_types(statement, parameters);
        }
        let values = parameters.planned();
        let lookup = match &statement {
            DfStatement::Statement(query)
                if purpose == Purpose::Result && matches!(query.as_ref(), Statement::Query(_)) =>
            {
                self.plans.lock().look_up(query, &state, self.scope, self.is_wire)
            }
            _ => Lookup::Nothing,
        };
        let snapshot = self.scope.current_database()?.snapshot;
        Ok(Planning { state, statement, values, has_own_casts, lookup, snapshot })
    }

    /// Plans and starts a query whose names are those of a database's definitions.
    pub fn query_from(&self, database: &str, statement: DfStatement) -> Result<Outcome> {
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
        let (context, threads) = (self.context.clone(), self.threads);
        let of_wire = purpose == Purpose::Result && self.is_wire;
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
        let started =
            if may_be_small { self.waits.wait_here(started) } else { self.waits.wait_apart(started) };
        if let Some(found) = found.get() {
            self.run.lock().origins.clone_from(found);
        }
        started
    }

    pub fn start_query(&self, plan: LogicalPlan, purpose: Purpose) -> Result<Outcome> {
        let (state, threads) = (self.take_state(), self.threads);
        let (outcome, state) = self.waits.wait_apart(async move {
            let (outcome, _) = start(&state, plan, None, purpose, threads).await?;
            Ok((outcome, state))
        })?;
        *self.spare.lock() = Some(state);
        Ok(outcome)
    }

    /// Returns the plan of a statement whose parameters have no values.
    pub fn plan_as_written(&self, statement: Statement) -> Result<LogicalPlan> {
        let state = self.context.state();
        let statement = DfStatement::Statement(Box::new(statement));
        let snapshot = self.scope.current_database()?.snapshot;
        let may_be_small = self.names().may_be_small(&statement);
        let planned = async move {
            bind_statement(&state, statement).await.map_err(|error| planning_error(error, &snapshot))
        };
        if may_be_small { self.waits.wait_here(planned) } else { self.waits.wait_apart(planned) }
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
    }

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

fn first_placeholder(plan: &LogicalPlan) -> Option<String> {
    let names: Result<_, DataFusionError> = plan.get_parameter_names();
    names.ok()?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::dialect::parse;
    use crate::statement::queries::Transactions;
    use crate::statement::test_queries::{Alone, numbers, table_of_numbers};
    use std::cell::RefCell;

    /// Where something would have been waited for. Nothing is planned, and nothing runs.
    #[derive(Default)]
    struct Asked(RefCell<Vec<&'static str>>);

    impl Waits for Asked {
        fn wait_apart<T: Send + 'static>(
            &self,
            _: impl Future<Output = Result<T>> + Send + 'static,
        ) -> Result<T> {
            self.0.borrow_mut().push("apart");
            Err(Error::interrupted())
        }

        fn wait_here<T: Send + 'static>(
            &self,
            _: impl Future<Output = Result<T>> + Send + 'static,
        ) -> Result<T> {
            self.0.borrow_mut().push("here");
            Err(Error::interrupted())
        }
    }

    fn with_table() -> Alone {
        let alone = Alone::new();
        let database = alone.scope.current_database().unwrap().name;
        let made = (&alone as &dyn Transactions).write(&database, |writer| {
            let id = table_of_numbers(writer, "t", &["i"], |_| {});
            writer.append(id, &numbers(&[("i", &[1, 2, 3])], &[]))
        });
        made.unwrap();
        alone
    }

    #[test]
    fn what_may_be_small_is_planned_by_its_caller() {
        let alone = with_table();
        for (sql, place) in [
            ("SELECT 1 + 2", "here"),
            ("SELECT i + 1 FROM t WHERE i > 1", "here"),
            ("SELECT i FROM nowhere", "apart"),
            ("SELECT a.i FROM t AS a, t AS b", "apart"),
            ("SELECT (SELECT 1)", "apart"),
            ("WITH w AS (SELECT 1) SELECT * FROM w", "apart"),
            ("SELECT repeat('a', 1000)", "apart"),
            ("SELECT 1 UNION ALL SELECT 2", "apart"),
        ] {
            let asked = Asked::default();
            let planner = alone.planner(&asked, false);
            assert!(planner.query(parse(sql).unwrap(), &Parameters::None).is_err());
            assert_eq!(asked.0.take(), [place], "{sql}");
        }
    }

    #[test]
    fn a_state_is_used_again_unless_its_statement_fails() {
        let (alone, asked) = (Alone::new(), Asked::default());
        let planner = alone.planner(&asked, false);
        *planner.spare.lock() = Some(planner.take_state());
        assert!(planner.query(parse("SELECT 1").unwrap(), &Parameters::None).is_err());
        // Whoever was interrupted may still be at it.
        assert!(planner.spare.lock().is_none());
    }

    #[test]
    fn a_whole_table_is_not_planned() {
        let (alone, asked) = (with_table(), Asked::default());
        let planner = alone.planner(&asked, false);
        let whole = |sql: &str| {
            let DfStatement::Statement(statement) = parse(sql).unwrap() else { panic!("{sql}") };
            let Statement::Query(query) = *statement else { panic!("{sql}") };
            planner.whole_table(&query).unwrap()
        };
        let Some(Outcome::Stored(stored)) = whole("SELECT * FROM t") else { panic!("it is planned") };
        assert_eq!(stored.rows(), 3);
        for sql in ["SELECT i FROM t", "SELECT * FROM t WHERE i = 1", "SELECT * FROM nowhere"] {
            assert!(whole(sql).is_none(), "{sql}");
        }
        assert!(asked.0.take().is_empty());
    }

    #[test]
    fn what_writes_within_a_query_is_refused() {
        let read = LogicalPlan::default();
        assert!(refuse_inner_writes(&read).is_ok());
        let write =
            LogicalPlan::Statement(PlanStatement::ResetVariable(datafusion::logical_expr::ResetVariable {
                variable: "a.b".into(),
            }));
        // The statement itself may write; others refuse it where they should.
        assert!(refuse_inner_writes(&write).is_ok());
        let within = datafusion::logical_expr::LogicalPlanBuilder::from(write).alias("w").unwrap();
        let refused = refuse_inner_writes(&within.build().unwrap()).unwrap_err();
        assert!(refused.message().contains("within another statement"));
    }
}
