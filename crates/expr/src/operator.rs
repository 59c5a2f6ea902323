//! Common methods of the physical operators here, within their `impl ExecutionPlan`, and of rules.

/// What a physical rule that is around another one, its field `0`, says of itself: the same.
#[macro_export]
macro_rules! around_rule {
    () => {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn schema_check(&self) -> bool {
            self.0.schema_check()
        }
    };
}

/// The methods of an operator that has no expressions and that other inputs do not change.
#[macro_export]
macro_rules! no_expressions {
    () => {
        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            use datafusion::physical_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
            self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            )
                -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

/// The methods of an operator without inputs.
#[macro_export]
macro_rules! no_inputs {
    () => {
        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            _: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Ok(self)
        }
    };
}

/// The methods of such an operator with one field `input`, of which `with_input` makes the same one
/// over another input.
#[macro_export]
macro_rules! one_input {
    () => {
        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.input]
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            mut children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            match (children.pop(), children.is_empty()) {
                (Some(input), true) => Ok(std::sync::Arc::new(self.with_input(input))),
                _ => datafusion::common::internal_err!("{} has one input", self.name()),
            }
        }

        $crate::no_expressions!();
    };
}
