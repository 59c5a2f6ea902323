//! Physical rules that look at one operator after the other, from the leaves up.

/// Makes a rule of a type, by what a function makes of each operator of a plan.
macro_rules! node_rule {
    ($rule:ty: $name:literal, $each:path) => {
        impl datafusion::physical_optimizer::PhysicalOptimizerRule for $rule {
            fn optimize(
                &self,
                plan: std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>,
                config: &datafusion::common::config::ConfigOptions,
            ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
                use datafusion::common::tree_node::{TransformedResult, TreeNode};
                plan.transform_up(|node| $each(node, config)).data()
            }

            fn name(&self) -> &'static str {
                $name
            }

            fn schema_check(&self) -> bool {
                true
            }
        }
    };
}

pub(crate) use node_rule;
