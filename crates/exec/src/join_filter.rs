//! Filters of joins that end with their statement. A join evaluates its filter over batch after batch of
//! pairs before it returns, for as long as none of them passes: for hours, if both sides are large. An
//! interrupted task is dropped only when it returns.

use crate::node_rule::node_rule;
use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use hypostyle_error::external;
use hypostyle_expr::work;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Has the filters of all joins check, at each batch of pairs, that their statement may continue.
#[derive(Debug)]
pub struct JoinFilters;

node_rule!(JoinFilters: "JoinFilters", with_checks);

/// Has the filter of a join check that its statement may continue.
fn with_checks(
    plan: Arc<dyn ExecutionPlan>,
    _: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match with_checked_filter(&plan)? {
        Some(checked) => Transformed::yes(checked),
        None => Transformed::no(plan),
    })
}

/// Returns a join with its filter checked; `None` for other operators, and joins without a filter.
fn with_checked_filter(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return join
            .filter()
            .map(|filter| join.builder().with_filter(Some(checked(filter))).build_exec())
            .transpose();
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(None) };
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(checked(filter))).build()?;
        return Ok(Some(Arc::new(join)));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(None) };
        let join = SortMergeJoinExec::try_new(
            join.left().clone(),
            join.right().clone(),
            join.on().to_vec(),
            Some(checked(filter)),
            join.join_type(),
            join.sort_options().to_vec(),
            join.null_equality(),
        )?;
        return Ok(Some(Arc::new(join)));
    }
    Ok(None)
}

fn checked(filter: &JoinFilter) -> JoinFilter {
    let expression = Arc::new(CheckedExpr(filter.expression().clone()));
    JoinFilter::new(expression, filter.column_indices().to_vec(), filter.schema().clone())
}

/// An expression before each of whose evaluations the limits of the statement are checked.
#[derive(Debug)]
struct CheckedExpr(Arc<dyn PhysicalExpr>);

impl PartialEq for CheckedExpr {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Eq for CheckedExpr {}

impl Hash for CheckedExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for CheckedExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for CheckedExpr {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(schema)
    }

    fn evaluate(&self, pairs: &RecordBatch) -> Result<ColumnarValue> {
        work::check().map_err(external)?;
        self.0.evaluate(pairs)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self(children.swap_remove(0))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}
