//! Plans what DataFusion runs as a whole, as the writers of files, over the nodes of a cluster and in stages.

use super::plan::in_stages;
use crate::distribute::{distribute, reads_nodes};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// Returns a session that plans a query, and whatever is above it, over the nodes of its tables; as it is if
/// these are none of a cluster.
///
/// # Errors
/// Those of DataFusion.
pub fn over_nodes(state: SessionState, query: &LogicalPlan) -> Result<SessionState> {
    if !reads_nodes(query)? {
        return Ok(state);
    }
    let planner = Arc::new(OverNodes(state.query_planner().clone()));
    let id = state.session_id().to_string();
    let builder = SessionStateBuilder::new_from_existing(state).with_session_id(id);
    Ok(builder.with_query_planner(planner).build())
}

/// Plans as another planner, but over nodes.
#[derive(Debug)]
struct OverNodes(Arc<dyn QueryPlanner + Send + Sync>);

#[async_trait]
impl QueryPlanner for OverNodes {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = session.as_any().downcast_ref::<SessionState>();
        let distributed = state.map(|state| distribute(plan, state)).transpose()?.flatten();
        let (Some(state), Some(distributed)) = (state, distributed) else {
            return self.0.create_physical_plan(plan, session).await;
        };
        let physical = self.0.create_physical_plan(&distributed, session).await?;
        in_stages(&distributed, physical, state).await
    }
}
