//! Restricts how filters move down a physical plan: those of FilterExec, and those that joins,
//! aggregates and TopK create while they run.
//!
//! DataFusion 55 takes a column of such a filter for the first one of its name in the schema below.
//! A join of two tables with an `id` each has two. So no filter goes past a node with two columns
//! of one name.

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use hypostyle_expr::around_rule;
use std::collections::HashSet;
use std::sync::Arc;

/// A rule that pushes filters down, except past nodes with two columns of one name.
#[derive(Debug)]
pub struct WhereNamesDiffer(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for WhereNamesDiffer {
    around_rule!();

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.children().into_iter().all(names_differ) {
            return self.0.optimize(plan, config);
        }
        let children = plan.children().into_iter().map(|child| self.optimize(child.clone(), config));
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }
}

/// Says whether the columns of a node, and those of each below it, have names of their own.
fn names_differ(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut names = HashSet::new();
    plan.schema().fields().iter().all(|field| names.insert(field.name().clone()))
        && plan.children().into_iter().all(names_differ)
}
