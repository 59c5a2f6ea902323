//! HAVING without GROUP BY and without aggregates, which DataFusion refuses: all rows are one
//! group.

use sqlparser::ast::{Expr, GroupByExpr, Query, Select, Statement, Visit, VisitMut, Visitor, VisitorMut};
use std::ops::ControlFlow;

/// Says GROUP BY GROUPING SETS (()) where HAVING means it.
pub fn rewrite(statement: &mut Statement) {
    let _done = statement.visit(&mut Having);
}

struct Having;

impl VisitorMut for Having {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, with) if keys.is_empty() && with.is_empty());
        if let Some(having) = &select.having
            && is_ungrouped
            && having.visit(&mut Calls::default()).is_continue()
            && select.projection.visit(&mut Calls::default()).is_continue()
        {
            select.group_by = GroupByExpr::Expressions(vec![Expr::GroupingSets(vec![vec![]])], vec![]);
        }
        ControlFlow::Continue(())
    }
}

/// Breaks at a call, which may be an aggregate's, outside of subqueries.
#[derive(Default)]
struct Calls {
    queries: usize,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(_) if self.queries == 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
