//! The plan of an EXPLAIN. DataFusion writes down the physical plan behind each of its rules, which takes
//! longer than the rules do, and shows them in EXPLAIN VERBOSE alone.

use crate::estimates;
use datafusion::catalog::Session;
use datafusion::common::format::ExplainFormat;
use datafusion::error::Result;
use datafusion::logical_expr::{Explain, LogicalPlan, PlanType, StringifiedPlan, ToStringifiedPlan};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::physical_planner::DefaultPhysicalPlanner;
use std::sync::Arc;

/// Returns the physical plan of a query, or of an EXPLAIN.
///
/// # Errors
/// Those of planning it. An EXPLAIN in text shows how far planning came instead.
pub async fn create_physical_plan(
    planner: &DefaultPhysicalPlanner,
    plan: &LogicalPlan,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let LogicalPlan::Explain(explain) = plan
        && shows_last_plans(explain)
        && let Ok(physical) = estimates::create_physical_plan(planner, &explain.plan, session).await
    {
        return Ok(Arc::new(last_plans(explain, physical.as_ref(), session)));
    }
    estimates::create_physical_plan(planner, plan, session).await
}

/// Says whether an EXPLAIN shows the plans behind all rules and no others, as text.
fn shows_last_plans(explain: &Explain) -> bool {
    let is_text = matches!(explain.explain_format, ExplainFormat::Indent);
    is_text && !explain.verbose && explain.logical_optimization_succeeded
}

fn last_plans(explain: &Explain, physical: &dyn ExecutionPlan, session: &dyn Session) -> ExplainExec {
    let options = &session.config_options().explain;
    let mut texts = Vec::new();
    if !options.physical_plan_only {
        texts.push(explain.plan.to_stringified(PlanType::FinalLogicalPlan));
    }
    if !options.logical_plan_only {
        let shown = displayable(physical)
            .set_show_statistics(explain.show_statistics.unwrap_or(options.show_statistics))
            .set_show_schema(options.show_schema)
            .indent(false)
            .to_string();
        texts.push(StringifiedPlan::new(PlanType::FinalPhysicalPlan, shown));
    }
    ExplainExec::new(explain.schema.inner().clone(), texts, false)
}
