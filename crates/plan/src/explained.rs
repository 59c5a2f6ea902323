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

/// Returns the physical plan of a query, or of an EXPLAIN, for which DataFusion makes none where it shows the
/// logical one alone.
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
        && !session.config_options().explain.logical_plan_only
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
    let shown = displayable(physical)
        .set_show_statistics(explain.show_statistics.unwrap_or(options.show_statistics))
        .set_show_schema(options.show_schema)
        .indent(false)
        .to_string();
    texts.push(StringifiedPlan::new(PlanType::FinalPhysicalPlan, shown));
    ExplainExec::new(explain.schema.inner().clone(), texts, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use async_trait::async_trait;
    use datafusion::catalog::TableProvider;
    use datafusion::datasource::provider_as_source;
    use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableType};
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::executor::block_on;
    use std::any::Any;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts how often it is planned to be read.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl TableProvider for Counting {
        fn schema(&self) -> SchemaRef {
            Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]))
        }

        fn table_type(&self) -> TableType {
            TableType::Base
        }

        async fn scan(
            &self,
            _: &dyn Session,
            _: Option<&Vec<usize>>,
            _: &[Expr],
            _: Option<usize>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new(EmptyExec::new(self.schema())))
        }
    }

    #[test]
    fn plans_that_are_not_shown_are_not_made() {
        for (setting, made, has_logical, has_physical) in [
            ("datafusion.explain.show_schema", 1, true, true),
            ("datafusion.explain.physical_plan_only", 1, false, true),
            ("datafusion.explain.logical_plan_only", 0, true, false),
        ] {
            let state = SessionContext::new_with_config(SessionConfig::new().set_bool(setting, true)).state();
            let table = Arc::new(Counting::default());
            let scan = LogicalPlanBuilder::scan("t", provider_as_source(table.clone()), None).unwrap();
            let LogicalPlan::Explain(explain) = scan.explain(false, false).unwrap().build().unwrap() else {
                panic!("no EXPLAIN")
            };
            let plan = LogicalPlan::Explain(Explain { logical_optimization_succeeded: true, ..explain });
            let planner = DefaultPhysicalPlanner::default();
            let planned = block_on(create_physical_plan(&planner, &plan, &state)).unwrap();
            let shown = (planned.as_ref() as &dyn Any).downcast_ref::<ExplainExec>().unwrap();
            let shows = |of: &PlanType| shown.stringified_plans().iter().any(|plan| plan.plan_type == *of);
            assert_eq!(table.0.load(Ordering::Relaxed), made, "{setting}");
            assert_eq!(shows(&PlanType::FinalLogicalPlan), has_logical, "{setting}");
            assert_eq!(shows(&PlanType::FinalPhysicalPlan), has_physical, "{setting}");
        }
    }
}
