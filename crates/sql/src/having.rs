//! HAVING without GROUP BY and without aggregates, and GROUP BY (), which DataFusion refuses: all
//! rows are one group.

use crate::walk::{Part, Within, expressions_by_depth, walk_mut};
use sqlparser::ast::{Expr, GroupByExpr, Select, Statement, VisitorMut};
use std::ops::ControlFlow;

/// Says GROUP BY GROUPING SETS (()) where HAVING or GROUP BY () means it.
pub fn rewrite(statement: &mut Statement) {
    let _done = walk_mut(statement, &mut Having);
}

struct Having;

impl VisitorMut for Having {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let one_group = || GroupByExpr::Expressions(vec![Expr::GroupingSets(vec![vec![]])], vec![]);
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by
            && keys.iter().any(is_of_nothing)
        {
            keys.retain(|key| !is_of_nothing(key));
            if keys.is_empty() {
                select.group_by = one_group();
            }
            return ControlFlow::Continue(());
        }
        let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, with) if keys.is_empty() && with.is_empty());
        if let Some(having) = &select.having
            && is_ungrouped
            && !has_calls(having)
            && !has_calls(&select.projection)
        {
            select.group_by = one_group();
        }
        ControlFlow::Continue(())
    }
}

/// Whether a key of GROUP BY is `()`.
fn is_of_nothing(key: &Expr) -> bool {
    matches!(key, Expr::Tuple(values) if values.is_empty())
}

/// Whether there is a call, which may be an aggregate's, outside of subqueries.
fn has_calls(part: &impl Part) -> bool {
    let mut is_call = |expr: &Expr, depth: usize| match expr {
        Expr::Function(_) if depth == 0 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(Within::Seen),
    };
    expressions_by_depth(part, &mut is_call).is_break()
}
