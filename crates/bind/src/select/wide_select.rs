//! Plans `SELECT` of very many columns in a time that grows with their number. For each item of a
//! list, DataFusion's planner writes the names of all items before it, in case one of them unnests
//! something. It does not do so below DISTINCT ON. So lists that may be wide are planned below a
//! DISTINCT ON that is known again and taken out.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan, Projection};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Distinct as SqlDistinct, Expr as SqlExpr, GroupByExpr, Query, Select, SelectItem, SetExpr, Value,
    VisitorMut,
};
use hypostyle_sql::walk::{expressions, walk_mut};
use std::ops::ControlFlow;

/// Shorter lists without `*` are planned as they are.
const WIDE: usize = 256;

/// What tells such a DISTINCT ON from one that somebody has written.
const MARK: &str = "hypostyle: the whole list";

/// Returns a statement with lists that may be wide below a DISTINCT ON; `None` if it has none.
pub fn marked(statement: &DfStatement) -> Option<DfStatement> {
    let DfStatement::Statement(statement) = statement else { return None };
    let mut statement = statement.clone();
    let mut marks = Marks { count: 0 };
    let is_whole = walk_mut(statement.as_mut(), &mut marks).is_continue();
    (is_whole && marks.count > 0).then_some(DfStatement::Statement(statement))
}

struct Marks {
    count: usize,
}

impl VisitorMut for Marks {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if query.with.as_ref().is_some_and(|with| with.recursive) {
            return ControlFlow::Break(());
        }
        // What a query is ordered by is looked up in its list.
        if query.order_by.is_none() {
            self.mark(&mut query.body);
        }
        ControlFlow::Continue(())
    }
}

impl Marks {
    fn mark(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) if is_plain(select) => {
                let mark = SqlExpr::value(Value::SingleQuotedString(MARK.into()));
                select.distinct = Some(SqlDistinct::On(vec![mark]));
                self.count += 1;
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.mark(left);
                self.mark(right);
            }
            _ => {}
        }
    }
}

/// Says whether a query only selects a list, which may be wide and unnests nothing.
fn is_plain(select: &Select) -> bool {
    let is_star =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let may_be_wide = select.projection.len() >= WIDE || select.projection.iter().any(is_star);
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, sets) if keys.is_empty() && sets.is_empty());
    let selects = select.distinct.is_none() && select.having.is_none() && select.qualify.is_none();
    may_be_wide && is_ungrouped && selects && !select.projection.iter().any(unnests)
}

fn unnests(item: &SelectItem) -> bool {
    let found = expressions(item, &mut |expr| match expr {
        SqlExpr::Function(call) if call.name.to_string().eq_ignore_ascii_case("unnest") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Returns a plan without the DISTINCT ON that [`marked`] has put into its statement.
///
/// # Errors
/// When a list unnests something after all.
pub fn unmarked(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|plan| {
        let LogicalPlan::Distinct(Distinct::On(DistinctOn { on_expr, .. })) = &plan else {
            return Ok(Transformed::no(plan));
        };
        if !matches!(on_expr.as_slice(), [Expr::Literal(value, _)] if is_mark(value)) {
            return Ok(Transformed::no(plan));
        }
        let LogicalPlan::Distinct(Distinct::On(list)) = plan else { return Ok(Transformed::no(plan)) };
        for item in &list.select_expr {
            if item.exists(|part| Ok(matches!(part, Expr::Unnest(_))))? {
                return plan_err!("a list unnests something");
            }
        }
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(list.select_expr, list.input)?)))
    })?;
    Ok(plan.data)
}

fn is_mark(value: &ScalarValue) -> bool {
    value.try_as_str().flatten() == Some(MARK)
}

#[cfg(test)]
mod tests {
    use super::{marked, unmarked};
    use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch};
    use arrow::datatypes::Int64Type;
    use datafusion::logical_expr::LogicalPlan;
    use datafusion::prelude::SessionContext;
    use futures::executor::block_on;
    use std::sync::Arc;

    async fn plans(sql: &str) -> (Option<LogicalPlan>, LogicalPlan) {
        let context = SessionContext::new();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let list: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(2)])]));
        for (name, second) in [("t", list), ("u", number.clone())] {
            let columns = [("column1", number.clone()), ("column2", second)];
            context.register_batch(name, RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        }
        let state = context.state();
        let statement = state.sql_to_statement(sql, &state.config_options().sql_parser.dialect).unwrap();
        let plan = match marked(&statement) {
            Some(statement) => Some(unmarked(state.statement_to_plan(statement).await.unwrap()).unwrap()),
            None => None,
        };
        (plan, state.statement_to_plan(statement).await.unwrap())
    }

    #[test]
    fn plans_are_what_they_would_be() {
        let wide: Vec<String> = (0..300).map(|number| format!("column1 + {number}")).collect();
        let wide = format!("SELECT {} FROM t", wide.join(", "));
        for sql in [
            "SELECT * FROM t",
            "SELECT t.*, column1 + 1 AS x FROM t WHERE column1 > 0 LIMIT 5",
            "SELECT * FROM t JOIN u USING (column1)",
            "SELECT * FROM (SELECT * FROM t) AS s, (SELECT u.* FROM u) AS r WHERE s.column1 = r.column2",
            "WITH a AS (SELECT * FROM t), b AS (SELECT *, 1 AS one FROM a) SELECT * FROM b",
            "SELECT column1, column2 FROM u UNION ALL SELECT * FROM u",
            "SELECT column1 FROM t WHERE EXISTS (SELECT * FROM u WHERE u.column1 = t.column1)",
            "SELECT *, row_number() OVER (ORDER BY column1) FROM u",
            "SELECT (SELECT * FROM (SELECT max(column1) FROM u) AS m) FROM t",
            "SELECT * FROM (SELECT * FROM u ORDER BY column2) AS s",
            wide.as_str(),
        ] {
            let (with_mark, without) = block_on(plans(sql));
            let with_mark = with_mark.unwrap_or_else(|| panic!("no list was marked: {sql}"));
            assert_eq!(
                with_mark.display_indent_schema().to_string(),
                without.display_indent_schema().to_string()
            );
            assert_eq!(with_mark.schema(), without.schema(), "{sql}");
        }
        for sql in [
            "SELECT column1 FROM t",
            "SELECT *, unnest(column2) FROM t",
            "SELECT DISTINCT * FROM t",
            "SELECT * FROM u ORDER BY column2",
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
        ] {
            assert!(block_on(plans(sql)).0.is_none(), "{sql}");
        }
    }
}
