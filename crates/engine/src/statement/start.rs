//! Starts queries: by the route that was chosen, or in the first form of a logical plan that can be
//! planned.

use crate::session::outcome::Outcome;
use crate::statement::key_lookup::Indexes;
use crate::statement::result::{Purpose, as_planned};
use crate::statement::route::{Route, with_route, with_shown_names};
use crate::statement::stored_plan::{StoredPlan, stored_result};
use arrow::datatypes::Schema;
use datafusion::common::format::ExplainFormat;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Explain, LogicalPlan, PlanType, StringifiedPlan};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use hypostyle_cluster::distribute::distribute;
use hypostyle_cluster::stages::in_stages;
use hypostyle_error::from_datafusion;
use hypostyle_exec::total::with_total;
use hypostyle_exec::transfer::{SessionTransfer, with_transfer};
use hypostyle_expr::meter::Meter;
use hypostyle_expr::work::Work;
use hypostyle_plan::join_order::in_order;
use hypostyle_plan::later_form;
use hypostyle_plan::subquery_shape::must_be_unnested;
use hypostyle_plan::unnest::{Extent, has_subqueries, nested_apart, nests_deep, unnest};
use hypostyle_types::{Error, Result};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Starts a query, of which the optimized plan may be known. Returns that plan, too, where one was
/// made.
pub(super) async fn start(
    state: &SessionState,
    plan: LogicalPlan,
    optimized: Option<LogicalPlan>,
    purpose: Purpose,
    threads: usize,
) -> Result<(Outcome, Option<LogicalPlan>)> {
    let planned = Arc::new(plan.schema().as_arrow().clone());
    let mut route = Route::choose(state, &plan, optimized, &planned, Indexes::Wished)?;
    if !route.is_short() {
        // A caller that began this without the engine's threads leaves the rest to them.
        tokio::task::yield_now().await;
    }
    if matches!(route, Route::Indexed) {
        route = Route::choose(state, &plan, None, &planned, Indexes::Built)?;
    }
    let form = match route {
        Route::Stored(stored) => return Ok((Outcome::Stored(stored.open(threads)?), None)),
        Route::Direct(direct) => {
            let physical = purpose.plan(direct.plan)?;
            let schema = physical.schema();
            let batches = collect(physical, task_context(state)).await.map_err(from_datafusion)?;
            let outcome = Outcome::Batches { schema, batches, rows_affected: None };
            return Ok((as_planned(outcome, &planned)?, None));
        }
        Route::Kept(optimized) => plan_optimized(state, *optimized, &planned).await,
        Route::Indexed | Route::Planned => {
            plan_some_form(state, plan, &planned).await.map(|(_, planned)| planned)
        }
    };
    let (outcome, optimized) = form.map_err(from_datafusion)?.run(state, purpose, threads)?;
    Ok((as_planned(outcome, &planned)?, optimized))
}

/// Starts an EXPLAIN, which tells the route of its query behind the plans, where these are text.
pub(super) async fn start_explain(state: &SessionState, explain: Explain, threads: usize) -> Result<Outcome> {
    let schema = explain.plan.schema().as_arrow();
    let is_text = matches!(explain.explain_format, ExplainFormat::Indent | ExplainFormat::Tree);
    // A query without one has an error, of which the plans tell.
    let route = match is_text {
        true => Route::choose(state, &explain.plan, None, schema, Indexes::Known).ok(),
        false => None,
    };
    let route = route.map(|route| route.text());
    let explain = LogicalPlan::Explain(explain);
    let (outcome, _) = start(state, explain, None, Purpose::Work, threads).await?;
    let outcome = with_shown_names(outcome);
    Ok(match route {
        Some(route) => with_route(outcome, route),
        None => outcome,
    })
}

/// Returns what running a plan needs that was made here; the state's own would have copies of all
/// functions.
pub(super) fn task_context(state: &SessionState) -> Arc<TaskContext> {
    let (config, runtime) = (state.config().clone(), state.runtime_env().clone());
    let id = state.session_id().to_string();
    Arc::new(TaskContext::new(
        None,
        id,
        config,
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        runtime,
    ))
}

/// Returns the query with its subqueries unnested, if it can be planned in no other way.
pub(super) async fn unnest_if_needed(state: &SessionState, plan: LogicalPlan) -> LogicalPlan {
    if !has_subqueries(&plan) {
        return plan;
    }
    let schema = plan.schema().as_arrow().clone();
    plan_some_form(state, plan.clone(), &schema).await.map_or(plan, |(form, _)| form)
}

/// Returns the query in the first of its forms that can be planned: as it is, with those subqueries
/// unnested that DataFusion makes no joins of, and with all of them. An EXPLAIN is that of the form.
async fn plan_some_form(
    state: &SessionState,
    plan: LogicalPlan,
    schema: &Schema,
) -> datafusion::error::Result<(LogicalPlan, Planned)> {
    if !has_subqueries(&plan) {
        return plan_query(state, &plan, schema).await.map(|planned| (plan, planned));
    }
    let (explain, plan) = match plan {
        LogicalPlan::Explain(explain) => (Some(explain.clone()), Arc::unwrap_or_clone(explain.plan)),
        query => (None, query),
    };
    let asked_of = |form: LogicalPlan| match &explain {
        Some(explain) => LogicalPlan::Explain(Explain { plan: Arc::new(form), ..explain.clone() }),
        None => form,
    };
    let mut refused: Option<Refused> = None;
    let nests_deep = nests_deep(&plan);
    if !nests_deep && !must_be_unnested(&plan) {
        let form = asked_of(plan.clone());
        match plan_form(state, &form, schema).await {
            Ok(planned) => return Ok((form, planned)),
            Err(error) => refused = Some(Refused::new(&form, error)),
        }
    }
    let extents = if nests_deep { &[Extent::All][..] } else { &[Extent::Needed, Extent::All] };
    for extent in extents {
        let form = unnest(state, plan.clone(), *extent);
        let form = if nests_deep { form.and_then(|form| nested_apart(state, form)) } else { form };
        let why = match form.map(asked_of) {
            Ok(form) => match plan_form(state, &form, schema).await {
                Ok(planned) => {
                    if refused.is_some() {
                        later_form::count();
                    }
                    return Ok((form, planned));
                }
                Err(error) => Refused::new(&form, error),
            },
            Err(error) => Refused { error, may_be_of_subqueries: true },
        };
        // This is the reason why it cannot be done, if subqueries were what was refused.
        if refused.as_ref().is_none_or(|before| before.may_be_of_subqueries) {
            refused = Some(why);
        }
    }
    if explain.is_some() {
        // It shows how far planning gets.
        let form = asked_of(plan);
        return plan_query(state, &form, schema).await.map(|planned| (form, planned));
    }
    let none = || DataFusionError::Internal("a query without a form".into());
    Err(refused.map_or_else(none, |refused| refused.error))
}

/// Why a form of a query is not planned.
struct Refused {
    error: DataFusionError,
    may_be_of_subqueries: bool,
}

impl Refused {
    /// DataFusion has no kind of error of its own for subqueries that it cannot plan: these are among what
    /// it has only words for, where a form has some.
    fn new(form: &LogicalPlan, error: DataFusionError) -> Self {
        use DataFusionError::{Internal, NotImplemented, Plan};
        let is_of_words = matches!(error.find_root(), Plan(_) | NotImplemented(_) | Internal(_));
        Self { may_be_of_subqueries: is_of_words && has_subqueries(form), error }
    }
}

/// Plans one form of several. An EXPLAIN that would show an error is one.
async fn plan_form(
    state: &SessionState,
    form: &LogicalPlan,
    schema: &Schema,
) -> datafusion::error::Result<Planned> {
    let planned = plan_query(state, form, schema).await?;
    if let LogicalPlan::Explain(explain) = &planned.optimized
        && !explain.logical_optimization_succeeded
    {
        let error = explain.stringified_plans.last().map_or("", |plan| plan.plan.as_str());
        return Err(DataFusionError::Plan(error.to_string()));
    }
    if let Runs::Physical { plan, .. } = &planned.runs
        && let Some(explain) = (plan.as_ref() as &dyn Any).downcast_ref::<ExplainExec>()
        && let Some(error) = explain.stringified_plans().iter().find(|plan| is_error(plan))
    {
        return Err(DataFusionError::Plan(error.plan.to_string()));
    }
    Ok(planned)
}

/// Says whether a part of an EXPLAIN is why there is no plan.
fn is_error(plan: &StringifiedPlan) -> bool {
    matches!(plan.plan_type, PlanType::PhysicalPlanError)
}

/// A query that is planned.
struct Planned {
    optimized: LogicalPlan,
    runs: Runs,
}

enum Runs {
    Stored(StoredPlan),
    Physical { plan: Arc<dyn ExecutionPlan>, is_over_nodes: bool },
}

impl Planned {
    fn run(
        self,
        state: &SessionState,
        purpose: Purpose,
        threads: usize,
    ) -> Result<(Outcome, Option<LogicalPlan>)> {
        let outcome = match self.runs {
            Runs::Stored(stored) => Outcome::Stored(stored.open(threads)?),
            Runs::Physical { plan, is_over_nodes } => {
                let physical = purpose.plan(plan)?;
                let schema = physical.schema();
                // A copy of all functions, which only plans that are sent may need, takes a tenth of the time
                // of a small query.
                let context = if is_over_nodes { state.task_ctx() } else { task_context(state) };
                let meter = context.session_config().get_extension::<Meter>();
                let meter = meter.ok_or_else(|| Error::internal("a session has no meter"))?;
                let stream =
                    Work::rows(&meter, || execute_stream(physical, context)).map_err(from_datafusion)?;
                Outcome::Stream { schema, stream }
            }
        };
        Ok((outcome, Some(self.optimized)))
    }
}

async fn plan_query(
    state: &SessionState,
    plan: &LogicalPlan,
    schema: &Schema,
) -> datafusion::error::Result<Planned> {
    plan_optimized(state, in_order(optimized(state, plan)?, state)?, schema).await
}

/// Optimizes a query, or that of an EXPLAIN. DataFusion writes the plan behind each of its rules into an
/// EXPLAIN, which takes longer than the rules do; only EXPLAIN VERBOSE shows it. Of a query that is not
/// optimized, EXPLAIN shows how far that came.
fn optimized(state: &SessionState, plan: &LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    if let LogicalPlan::Explain(explain) = plan
        && !explain.verbose
        && let Ok(inner) = state.optimize(&explain.plan)
    {
        let (plan, logical_optimization_succeeded) = (Arc::new(inner), true);
        return Ok(LogicalPlan::Explain(Explain { plan, logical_optimization_succeeded, ..explain.clone() }));
    }
    state.optimize(plan)
}

async fn plan_optimized(
    state: &SessionState,
    plan: LogicalPlan,
    schema: &Schema,
) -> datafusion::error::Result<Planned> {
    // What is kept is distributed by the catalog of whoever runs it.
    let over_nodes = distribute(&plan, state)?;
    let distributed = over_nodes.as_ref().unwrap_or(&plan);
    let runs = match stored_result(distributed, schema) {
        Some(stored) => Runs::Stored(stored),
        None => {
            let mut physical = state.query_planner().create_physical_plan(distributed, state).await?;
            if over_nodes.is_some() {
                physical = in_stages(distributed, physical, state).await?;
            }
            let plan = with_total(match state.config().get_extension::<SessionTransfer>() {
                Some(transfer) => with_transfer(physical, &transfer.0, analyzes_stored(distributed))?,
                None => physical,
            });
            Runs::Physical { plan, is_over_nodes: over_nodes.is_some() }
        }
    };
    Ok(Planned { optimized: plan, runs })
}

/// Says whether it is an EXPLAIN ANALYZE of nothing but stored columns.
fn analyzes_stored(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Analyze(analyze) = plan else { return false };
    stored_result(&analyze.input, analyze.input.schema().as_arrow()).is_some()
}
