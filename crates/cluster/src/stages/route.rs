//! The nodes that the tasks of a query's stages run on.

use super::channel::url_of;
use crate::part::PartExec;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DistributedLeafExec, RouteTasksEvent, RouteTasksEventResponse, RouteTasksHandler,
};
use hypostyle_placement::NodeId;
use std::sync::Arc;
use url::Url;

/// Has tasks run where they read, and others on one node after the other.
pub(super) struct Routes(pub Arc<Vec<NodeId>>);

impl RouteTasksHandler for Routes {
    fn handle(&self, event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
        Some(self.urls(event.plan, event.task_count).map(RouteTasksEventResponse::new))
    }
}

impl Routes {
    fn urls(&self, plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Vec<Url>> {
        let homes = homes(plan, tasks)?;
        let mut others = self.0.iter().copied().cycle();
        (0..tasks)
            .map(|task| {
                let other = others.next();
                let node = homes.get(task).copied().flatten().or(other);
                url_of(node.ok_or_else(|| DataFusionError::Internal("a query on no nodes".into()))?)
            })
            .collect()
    }
}

/// Returns the node that each of some tasks reads, if the stage reads tables. The stages below it are on
/// their nodes already, and no part of the plan.
fn homes(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Vec<Option<NodeId>>> {
    let mut homes = Vec::new();
    plan.apply(|node| {
        let leaf = node.downcast_ref::<DistributedLeafExec>();
        let Some(leaf) = leaf.filter(|leaf| leaf.variants().len() == tasks) else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let home = |part: &Arc<dyn ExecutionPlan>| part.downcast_ref::<PartExec>().and_then(PartExec::home);
        homes = leaf.variants().iter().map(home).collect();
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(homes)
}
