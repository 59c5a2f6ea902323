//! LATERAL items of FROM, as a node of their own. DataFusion creates that node, a subquery among
//! the inputs of a join, only for items that name columns of the tables beside them outside of
//! their own subqueries. Other dependent items within a join would be taken for a part of a
//! subquery around both.

use datafusion::common::Spans;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Join, LogicalPlan, Subquery};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{TableFactor, Visitor};
use hypostyle_plan::unnest::{references, references_beside};
use hypostyle_sql::walk::walk;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Says whether a statement has tables that may depend on those beside them: LATERAL, and calls of
/// functions.
pub fn has_lateral(statement: &DfStatement) -> bool {
    match statement {
        DfStatement::Statement(statement) => walk(statement, &mut Lateral).is_break(),
        DfStatement::Explain(explain) => has_lateral(&explain.statement),
        _ => false,
    }
}

/// Breaks at a table that may depend on those beside it.
struct Lateral;

impl Visitor for Lateral {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Derived { lateral: true, .. }
            | TableFactor::Function { .. }
            | TableFactor::TableFunction { .. }
            | TableFactor::UNNEST { .. }
            | TableFactor::Table { args: Some(_), .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns the plan with such a node around each right side of a join that depends on the left one.
///
/// # Errors
/// Those of DataFusion.
pub fn marked(plan: LogicalPlan) -> Result<LogicalPlan> {
    let marked = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Join(join) = node else { return Ok(Transformed::no(node)) };
        let all = references(&join.right, join.left.schema()).len();
        if references_beside(&join.right, join.left.schema()).len() == all {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let subquery = Subquery {
            outer_ref_columns: join.right.all_out_ref_exprs(),
            subquery: join.right,
            spans: Spans::new(),
        };
        let right = Arc::new(LogicalPlan::Subquery(subquery));
        Ok(Transformed::yes(LogicalPlan::Join(Join { right, ..join })))
    });
    Ok(marked?.data)
}
