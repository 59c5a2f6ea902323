//! Keeps what runs above the stages, on the node that was asked, within its memory, and ends it when nobody
//! wants its rows. Tasks have the same rules for their plans, once these have arrived (`worker`).

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use datafusion_distributed::NetworkBoundaryExt;
use hypostyle_exec::optimizer::rules_of_received_plans;
use hypostyle_expr::{no_expressions, no_inputs};
use std::fmt;
use std::sync::Arc;

/// Puts the operators into stages that keep what is above them within its memory.
///
/// # Errors
/// Those of the rules.
pub(super) fn bounded(
    stages: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let heads: Vec<Arc<dyn ExecutionPlan>> = stages.children().into_iter().cloned().collect();
    let heads = heads.into_iter().map(|head| above_stages(head, options)).collect::<Result<Vec<_>>>()?;
    stages.replace_children(heads, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Puts the operators into a plan that keep it within its memory.
///
/// # Errors
/// Those of the rules.
pub(super) fn within_memory(
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    rules_of_received_plans().iter().try_fold(plan, |plan, rule| rule.optimize(plan, options))
}

/// Does so above the stages that give rows to a plan: what they send has none of these operators.
fn above_stages(head: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let hidden = |node: Arc<dyn ExecutionPlan>| match node.is_network_boundary() {
        true => Ok(Transformed::yes(Arc::new(HiddenExec(node)) as Arc<dyn ExecutionPlan>)),
        false => Ok(Transformed::no(node)),
    };
    let shown = |node: Arc<dyn ExecutionPlan>| match node.downcast_ref::<HiddenExec>() {
        Some(hidden) => Ok(Transformed::yes(hidden.0.clone())),
        None => Ok(Transformed::no(node)),
    };
    within_memory(head.transform_down(hidden).data()?, options)?.transform_up(shown).data()
}

/// Stands for the rows of a stage, below which rules do not look.
#[derive(Debug)]
struct HiddenExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for HiddenExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenExec")
    }
}

impl ExecutionPlan for HiddenExec {
    fn name(&self) -> &'static str {
        "HiddenExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    no_inputs!();

    no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::Partitioning;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::displayable;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::joins::CrossJoinExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion_distributed::NetworkShuffleExec;

    fn cross(left: Arc<dyn ExecutionPlan>, right: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(CrossJoinExec::new(left, right))
    }

    fn rows() -> Arc<dyn ExecutionPlan> {
        Arc::new(EmptyExec::new(Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))))
    }

    #[test]
    fn what_is_above_stages_yields_and_they_stay_as_they_are() {
        let stage = || -> Arc<dyn ExecutionPlan> {
            let by = Partitioning::Hash(vec![Arc::new(Column::new("n", 0))], 2);
            let shared = Arc::new(RepartitionExec::try_new(cross(rows(), rows()), by).unwrap());
            let shuffled = Arc::new(NetworkShuffleExec::try_new(shared, 2).unwrap());
            Arc::new(CoalescePartitionsExec::new(shuffled))
        };
        let head = above_stages(cross(stage(), stage()), &ConfigOptions::new()).unwrap();
        let text = displayable(head.as_ref()).indent(false).to_string();
        let count = |what: &str| text.matches(what).count();
        assert_eq!(
            (count("YieldExec"), count("NetworkShuffleExec"), count("HiddenExec")),
            (1, 2, 0),
            "{text}"
        );
        assert_eq!(count("CrossJoinExec"), 3, "{text}");
        let all = within_memory(cross(rows(), rows()), &ConfigOptions::new()).unwrap();
        assert!(displayable(all.as_ref()).indent(false).to_string().contains("YieldExec"));
    }
}
