//! The planner of physical plans.

use crate::common_subplan::{self, SameTable};
use crate::computed_once::SharedParts;
use crate::explained;
use crate::kept_errors::KeptErrors;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner};
use std::fmt;
use std::sync::Arc;

/// DataFusion's planner of physical plans, which knows the nodes of this crate.
pub struct Planner {
    /// Tells which tables are one.
    pub is_same: SameTable,
    /// The planners of nodes that this crate does not know.
    pub others: Vec<Arc<dyn ExtensionPlanner + Send + Sync>>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = common_subplan::computed_once(plan.clone(), self.is_same)?;
        let mut planners = self.others.clone();
        planners.push(Arc::new(SharedParts));
        planners.push(Arc::new(KeptErrors));
        let planner = DefaultPhysicalPlanner::with_extension_planners(planners);
        explained::create_physical_plan(&planner, &plan, session).await
    }
}
