//! Starts queries: by the route that was chosen, or planned in the form that their subqueries ask for.

use crate::session::outcome::Outcome;
use crate::statement::key_lookup::Indexes;
use crate::statement::result::{Purpose, as_planned};
use crate::statement::route::{Route, with_route, with_shown_names};
use crate::statement::stored_plan::{StoredPlan, stored_result};
use arrow::datatypes::Schema;
use datafusion::common::format::ExplainFormat;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Explain, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use hypostyle_cluster::distribute::distribute;
use hypostyle_cluster::stages::in_stages;
use hypostyle_error::from_datafusion;
use hypostyle_exec::total::with_total;
use hypostyle_exec::transfer::{SessionTransfer, with_transfer};
use hypostyle_expr::meter::Meter;
use hypostyle_expr::work::Work;
use hypostyle_plan::join_order::in_order;
use hypostyle_plan::subquery_form::in_chosen_form;
use hypostyle_types::{Error, Result};
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
        Route::Indexed | Route::Planned => plan_form(state, plan, &planned).await,
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

/// Plans a query, or that of an EXPLAIN, in the form that is chosen for its subqueries.
async fn plan_form(
    state: &SessionState,
    plan: LogicalPlan,
    schema: &Schema,
) -> datafusion::error::Result<Planned> {
    let form = match plan {
        LogicalPlan::Explain(explain) => {
            let query = in_chosen_form(state, Arc::unwrap_or_clone(explain.plan))?;
            LogicalPlan::Explain(Explain { plan: Arc::new(query), ..explain })
        }
        query => in_chosen_form(state, query)?,
    };
    plan_optimized(state, in_order(optimized(state, &form)?, state)?, schema).await
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
