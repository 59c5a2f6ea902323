//! Which subqueries DataFusion makes joins of, and the right ones: it is known by their shapes, before they
//! are planned.

use crate::outer_references::{has_distant_references, is_dependent, is_lateral};
use crate::subquery_guards::guards_division;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::create_col_from_scalar_expr;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Filter, Limit, LogicalPlan, Operator, Projection,
    SkipType, Sort, Subquery, SubqueryAlias,
};
use hypostyle_expr::walk::{any_node, contains, has_expression, map_expressions};
use std::collections::HashSet;
use std::sync::Arc;

/// Says whether DataFusion makes no join of a subquery of the plan, would panic on it, take other columns
/// for those that it names, other rows for those that it counts, or false for what is not known, or divide
/// by what a condition keeps from it.
pub(crate) fn must_be_unnested(plan: &LogicalPlan) -> bool {
    let is_odd = |expr: &Expr, node: &LogicalPlan| match expr {
        Expr::ScalarSubquery(value) => {
            let subquery = &value.subquery;
            is_renamed(subquery)
                || mixes_rows(below_aggregate(subquery))
                || may_give_rows(value)
                || is_out_of_reach(subquery, false)
                || has_distant_references(subquery)
        }
        Expr::Exists(Exists { subquery: Subquery { subquery, .. }, .. }) => {
            is_odd_test(subquery, true) || has_distant_references(subquery)
        }
        Expr::InSubquery(test) => {
            let subquery = &test.subquery.subquery;
            is_odd_test(subquery, false)
                || has_distant_references(subquery)
                || seeks_subquery(test)
                || match node.inputs().as_slice() {
                    [rows] => casts_a_key(test, rows.schema()),
                    _ => casts_a_key(test, node.schema()),
                }
        }
        _ => false,
    };
    any_node(plan, |node| {
        let loses = match node {
            LogicalPlan::Filter(filter) => loses_unknown(filter) || takes_columns_twice(filter),
            // A filter above may take over an IN.
            LogicalPlan::Projection(projection) => projection.expr.iter().any(has_test),
            LogicalPlan::Aggregate(_) => {
                has_expression(node, |expr| is_test(expr) || is_dependent_value(expr))
            }
            // Values are computed below it.
            LogicalPlan::Sort(_) => has_expression(node, is_test),
            _ => false,
        };
        loses || is_lateral(node) || has_expression(node, |expr| is_odd(expr, node)) || guards_division(node)
    })
}

/// Says whether DataFusion would make no semi join or anti join of a subquery, or one of other columns or
/// rows.
pub fn is_odd_test(subquery: &LogicalPlan, is_exists: bool) -> bool {
    is_renamed(subquery) || mixes_rows(subquery) || is_out_of_reach(subquery, is_exists)
}

/// Says whether what an IN seeks is computed by a subquery that becomes a join, too. DataFusion makes the
/// join of the IN first, and finds no subqueries in its condition any more.
pub fn seeks_subquery(test: &InSubquery) -> bool {
    contains(&test.expr, |part| is_test(part) || is_dependent_value(part))
}

/// Says whether what an IN finds gets another type, and is a column by which rows are selected for outer
/// values. DataFusion needs both then, and calls both alike.
pub fn casts_a_key(test: &InSubquery, rows: &DFSchema) -> bool {
    let Subquery { subquery, outer_ref_columns, .. } = &test.subquery;
    if outer_ref_columns.is_empty() {
        return false;
    }
    let found = subquery.schema().field(0);
    let are_alike = test.expr.get_type(rows).is_ok_and(|of| of == *found.data_type());
    let is_key = |condition: &Expr| {
        condition.contains_outer()
            && condition.column_refs().into_iter().any(|column| column.name == *found.name())
    };
    let selects = |node: &LogicalPlan| match node {
        LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate).into_iter().any(is_key),
        _ => false,
    };
    !are_alike && subquery.exists(|node| Ok(selects(node))).unwrap_or(true)
}

/// Says whether DataFusion refuses a correlated subquery that stands for a value, because it may give
/// several rows.
fn may_give_rows(value: &Subquery) -> bool {
    let mut inner: &LogicalPlan = &value.subquery;
    while let LogicalPlan::Projection(Projection { input, .. })
    | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) = inner
    {
        inner = input.as_ref();
    }
    if let LogicalPlan::Filter(filter) = inner
        && matches!(filter.input.as_ref(), LogicalPlan::Aggregate(_))
    {
        inner = filter.input.as_ref();
    }
    let gives_rows = match inner {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.aggr_expr.is_empty() || groups_by_more_than_keys(aggregate, &value.subquery)
        }
        _ => value.subquery.max_rows().is_none_or(|rows| rows > 1),
    };
    gives_rows && !value.outer_ref_columns.is_empty()
}

/// Says whether what a subquery aggregates has groups by other columns than those that are compared with
/// outer ones.
fn groups_by_more_than_keys(aggregate: &Aggregate, subquery: &LogicalPlan) -> bool {
    if aggregate.group_expr.is_empty() {
        return false;
    }
    let mut keys: HashSet<Column> = HashSet::new();
    let visited = subquery.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let conditions = split_conjunction(&filter.predicate).into_iter();
            for condition in conditions.filter(|condition| condition.contains_outer()) {
                keys.extend(condition.column_refs().into_iter().cloned());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let mut columns = aggregate.group_expr.iter().flat_map(Expr::column_refs);
    visited.is_err() || !columns.all(|column| keys.contains(column))
}

/// Says whether outer columns are where DataFusion takes none out of a subquery. It takes the conditions of
/// filters that are not below a join, a union, an order, a limit (but for EXISTS), or what is chosen or
/// aggregated, unless they say what a column is equal to.
fn is_out_of_reach(subquery: &LogicalPlan, is_exists: bool) -> bool {
    let is_here = match subquery {
        // What is LATERAL within it becomes a join before.
        LogicalPlan::Subquery(_) => return false,
        LogicalPlan::Filter(_) => false,
        LogicalPlan::Union(_) | LogicalPlan::Sort(_) | LogicalPlan::Extension(_) => depends(subquery),
        LogicalPlan::Limit(_) => !is_exists && depends(subquery),
        LogicalPlan::Distinct(Distinct::On(on)) => {
            subquery.contains_outer_reference() || selects_by_more_than_keys(&on.input)
        }
        LogicalPlan::Join(join) => {
            // What is LATERAL becomes a join before.
            let depends = |side: &LogicalPlan| !matches!(side, LogicalPlan::Subquery(_)) && depends(side);
            subquery.contains_outer_reference() || depends(&join.left) || depends(&join.right)
        }
        LogicalPlan::Aggregate(aggregate) if !aggregate.aggr_expr.is_empty() => {
            subquery.contains_outer_reference() || selects_by_more_than_keys(&aggregate.input)
        }
        other => other.contains_outer_reference(),
    };
    is_here || subquery.inputs().into_iter().any(|input| is_out_of_reach(input, is_exists))
}

fn depends(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// Says whether rows are selected by outer columns in other ways than by what a column is equal to.
fn selects_by_more_than_keys(plan: &LogicalPlan) -> bool {
    let is_column = |expr: &Expr| match expr {
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Column(_)),
        other => matches!(other, Expr::Column(_)),
    };
    let is_key = |condition: &Expr| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            is_column(left) && !right.any_column_refs() || is_column(right) && !left.any_column_refs()
        }
        _ => false,
    };
    let is_here = match plan {
        LogicalPlan::Subquery(_) => return false,
        LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate)
            .into_iter()
            .any(|condition| condition.contains_outer() && !is_key(condition)),
        _ => false,
    };
    is_here || plan.inputs().into_iter().any(selects_by_more_than_keys)
}

/// Says whether what a subquery gives for outer values hangs on all rows that they select: there is a row
/// of none, a row is numbered among them, or the first ones are left out. DataFusion selects the rows
/// above that.
fn mixes_rows(subquery: &LogicalPlan) -> bool {
    let mixes = |node: &LogicalPlan| match node {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Window(_) => true,
        LogicalPlan::Limit(limit) => !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0))),
        _ => false,
    };
    is_dependent(subquery) && subquery.exists(|node| Ok(mixes(node))).unwrap_or(true)
}

/// Returns what a subquery aggregates, which DataFusion can do for outer values; itself where it is no
/// aggregate.
fn below_aggregate(subquery: &LogicalPlan) -> &LogicalPlan {
    match subquery {
        LogicalPlan::Aggregate(aggregate) => &aggregate.input,
        LogicalPlan::Projection(projection) => below_aggregate(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => below_aggregate(&alias.input),
        other => other,
    }
}

/// Says whether an expression is an EXISTS or an IN.
pub fn is_test(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery(_) | Expr::Exists(_))
}

fn has_test(expr: &Expr) -> bool {
    contains(expr, is_test)
}

fn is_dependent_value(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(value) if !value.outer_ref_columns.is_empty())
}

/// Says whether what a filter lets pass hangs on an IN that is false or not known. DataFusion makes
/// columns of those that are no joins by themselves, which are false where it is not known.
fn loses_unknown(filter: &Filter) -> bool {
    let schema = filter.input.schema();
    split_conjunction(&filter.predicate).into_iter().any(|condition| {
        match tested(condition) {
            // Such an anti join takes NULLs for the sought value, or does not see them.
            (Expr::InSubquery(test), denied) => is_odd_anti(test, denied, schema),
            _ => !passes_if_true(condition, schema),
        }
    })
}

/// Returns what a condition tests, and whether it denies it.
pub fn tested(condition: &Expr) -> (&Expr, bool) {
    match condition {
        Expr::Not(inner) => (inner.as_ref(), true),
        other => (other, false),
    }
}

/// Says whether an anti join for a condition would have another key than the value that is sought,
/// or none; or would take no notice of its NULLs, since the columns that it is made of have none.
pub fn is_odd_anti(test: &InSubquery, denied: bool, schema: &DFSchema) -> bool {
    if test.negated == denied {
        return false;
    }
    let columns = test.expr.column_refs();
    let has_nulls =
        columns.iter().any(|column| schema.field_from_column(column).is_ok_and(|field| field.is_nullable()));
    // What is computed may turn out to be one, as `coalesce(1, x)`.
    let is_constant = !matches!(test.expr.as_ref(), Expr::Column(_));
    let makes_nulls = !has_nulls && test.expr.nullable(schema).unwrap_or(true);
    is_constant || makes_nulls || !test.subquery.outer_ref_columns.is_empty()
}

/// Says whether DataFusion would take a column of an IN for two. Of one that is a part of a condition it
/// looks for all columns that it compares among those of the subquery: by the name that the subquery has,
/// and by names within what it gives, which are found there if they name no table.
fn takes_columns_twice(filter: &Filter) -> bool {
    let schema = filter.input.schema();
    split_conjunction(&filter.predicate).into_iter().any(|condition| {
        let is_part = !is_test(tested(condition).0);
        is_part
            && contains(condition, |expr| matches!(expr, Expr::InSubquery(test) if gives_twice(test, schema)))
    })
}

/// The table of what an IN finds.
const FOUND: &str = "__found";

/// Returns the plan in which the subquery of each IN names the column that it gives. DataFusion asks its
/// first node for it, and VALUES and some others tell none: `a IN (VALUES (1), (2))` was refused.
///
/// # Errors
/// Those of DataFusion.
pub fn with_columns_found(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_nameless = |test: &InSubquery| !names_its_column(&test.subquery.subquery);
    let is_one = |expr: &Expr| matches!(expr, Expr::InSubquery(test) if is_nameless(test));
    if !any_node(&plan, |node| has_expression(node, is_one)) {
        return Ok(plan);
    }
    let named = plan.transform_up_with_subqueries(|node| {
        map_expressions(node, |expr| match expr {
            Expr::InSubquery(test) if is_nameless(&test) => {
                let InSubquery { expr, subquery: Subquery { subquery, outer_ref_columns, spans }, negated } =
                    test;
                let column = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
                let subquery =
                    Arc::new(LogicalPlan::Projection(Projection::try_new(vec![column], subquery)?));
                let subquery = Subquery { subquery, outer_ref_columns, spans };
                Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
            }
            other => Ok(Transformed::no(other)),
        })
    });
    Ok(named?.data)
}

/// Says whether the column that DataFusion takes for the first one that a subquery gives is that one.
fn names_its_column(subquery: &LogicalPlan) -> bool {
    let Ok(Some(given)) = subquery.head_output_expr() else { return false };
    let named = create_col_from_scalar_expr(&given, FOUND.to_string());
    let first = subquery.schema().fields().first();
    named.is_ok_and(|named| first.is_some_and(|first| *first.name() == named.name))
}

/// Returns the plan in which such columns are of a table, unless the subquery of the IN depends on rows
/// around it.
///
/// # Errors
/// Those of DataFusion.
pub fn with_tables_found(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_one =
        |node: &LogicalPlan| matches!(node, LogicalPlan::Filter(filter) if takes_columns_twice(filter));
    if !any_node(&plan, is_one) {
        return Ok(plan);
    }
    let named = plan.transform_up_with_subqueries(|node| {
        let schema = match &node {
            LogicalPlan::Filter(filter) if takes_columns_twice(filter) => filter.input.schema().clone(),
            _ => return Ok(Transformed::no(node)),
        };
        map_expressions(node, |expr| match expr {
            Expr::InSubquery(test)
                if test.subquery.outer_ref_columns.is_empty() && gives_twice(&test, &schema) =>
            {
                let InSubquery { expr, subquery: Subquery { subquery, outer_ref_columns, spans }, negated } =
                    test;
                let table = SubqueryAlias::try_new(subquery, FOUND)?;
                let subquery = Arc::new(LogicalPlan::SubqueryAlias(table));
                let subquery = Subquery { subquery, outer_ref_columns, spans };
                Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
            }
            other => Ok(Transformed::no(other)),
        })
    });
    Ok(named?.data)
}

/// Says whether a column that the subquery of an IN gives would be found by two names.
fn gives_twice(test: &InSubquery, schema: &DFSchema) -> bool {
    let subquery = test.subquery.subquery.as_ref();
    let Some((table, field)) = subquery.schema().iter().next() else { return false };
    let is_cast = !test.expr.get_type(schema).is_ok_and(|sought| sought == *field.data_type());
    let is_computed = matches!(subquery, LogicalPlan::Projection(_));
    // It is cast in a projection above, unless it is one.
    is_cast && !is_computed && table.is_none()
        || gives_nameless(subquery, field.name(), !test.subquery.outer_ref_columns.is_empty())
}

/// Says whether what a subquery gives as a column is, or is computed of, one of the same name and of no
/// table; or of any such, where others are added to what it gives.
fn gives_nameless(subquery: &LogicalPlan, name: &str, is_correlated: bool) -> bool {
    match subquery {
        LogicalPlan::Projection(projection) => {
            let columns = projection.expr.first().map(Expr::column_refs).unwrap_or_default();
            columns
                .into_iter()
                .any(|column| column.relation.is_none() && (is_correlated || column.name == name))
        }
        LogicalPlan::Sort(Sort { input, .. }) | LogicalPlan::Limit(Limit { input, .. }) => {
            gives_nameless(input, name, is_correlated)
        }
        other => other.schema().iter().next().is_some_and(|(table, _)| table.is_none()),
    }
}

/// Says whether an IN may be neither true nor false.
fn may_be_unknown(test: &InSubquery, schema: &DFSchema) -> bool {
    let given = test.subquery.subquery.schema().fields().first().is_none_or(|field| field.is_nullable());
    given || test.expr.nullable(schema).unwrap_or(true)
}

/// Says whether each IN of a condition can only make it true by being true, or is always known.
fn passes_if_true(condition: &Expr, schema: &DFSchema) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            passes_if_true(left, schema) && passes_if_true(right, schema)
        }
        Expr::InSubquery(test) if !test.negated => true,
        other => !other
            .exists(|expr| Ok(matches!(expr, Expr::InSubquery(test) if may_be_unknown(test, schema))))
            .unwrap_or(true),
    }
}

/// Says whether a table within a subquery depends on the rows around it: DataFusion loses sight of
/// the table's columns when it has given them other names.
fn is_renamed(subquery: &LogicalPlan) -> bool {
    let depends = |node: &LogicalPlan| matches!(node, LogicalPlan::SubqueryAlias(alias) if !alias.input.all_out_ref_exprs().is_empty());
    subquery.exists(|node| Ok(depends(node))).unwrap_or(false) || has_namesakes(subquery)
}

/// Says whether columns of one name, of different tables, are compared with outer ones or given:
/// DataFusion puts them all under one alias.
fn has_namesakes(subquery: &LogicalPlan) -> bool {
    let mut needed: HashSet<Column> = subquery.schema().columns().into_iter().collect();
    let mut correlated = false;
    let visited = subquery.apply(|node| {
        for expr in node.expressions() {
            for condition in split_conjunction(&expr).into_iter().filter(|expr| expr.contains_outer()) {
                correlated = true;
                needed.extend(condition.column_refs().into_iter().cloned());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let mut names = HashSet::new();
    visited.is_err() || correlated && !needed.iter().all(|column| names.insert(column.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::{is_dependent_value, is_test, must_be_unnested, with_columns_found, with_tables_found};
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::execution::SessionState;
    use datafusion::logical_expr::{Expr, LogicalPlan};
    use datafusion::prelude::SessionContext;
    use futures::executor::block_on;
    use hypostyle_expr::walk::{any_node, has_expression};
    use std::sync::Arc;

    /// Returns the plan of a statement as DataFusion makes it, and what optimizes it.
    fn planned(sql: &str) -> (SessionState, LogicalPlan) {
        let context = SessionContext::new();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        for name in ["t", "u"] {
            let columns = [("a", number.clone()), ("b", number.clone())];
            context.register_batch(name, RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        }
        let state = context.state();
        let plan = block_on(state.create_logical_plan(sql)).unwrap();
        (state, plan)
    }

    /// Returns whether subqueries of a statement are unnested here, and whether DataFusion refuses them or
    /// leaves them in its plan.
    fn is_ours_and_refused(sql: &str) -> (bool, bool) {
        let (state, plan) = planned(sql);
        let is_left = |expr: &Expr| is_test(expr) || is_dependent_value(expr);
        let refused = match state.optimize(&plan) {
            Ok(optimized) => any_node(&optimized, |node| has_expression(node, is_left)),
            Err(_) => true,
        };
        (must_be_unnested(&plan), refused)
    }

    #[test]
    fn what_an_in_finds_is_of_a_table() {
        for found in ["max(b) FROM t", "a FROM t UNION SELECT b + 1 FROM t", "DISTINCT b AS c FROM t"] {
            let sql = format!("SELECT a FROM t WHERE a IN (SELECT {found}) OR b = 2");
            let (state, plan) = planned(&sql);
            assert!(must_be_unnested(&plan), "{sql}");
            let plan = with_tables_found(plan).unwrap();
            assert!(!must_be_unnested(&plan), "{sql}");
            let optimized = state.optimize(&plan).unwrap();
            assert!(!any_node(&optimized, |node| has_expression(node, is_test)), "{sql}");
        }
    }

    #[test]
    fn what_an_in_finds_is_a_column_with_a_name() {
        for test in [
            "a IN (VALUES (1), (2))",
            "a NOT IN (VALUES (1), (2))",
            "a IN (VALUES (1), (2) ORDER BY 1)",
            "a IN (VALUES (1), (2)) OR b = 2",
        ] {
            let sql = format!("SELECT a FROM t WHERE {test}");
            let (state, plan) = planned(&sql);
            assert!(state.optimize(&plan).is_err(), "{sql}");
            let plan = with_columns_found(plan).and_then(with_tables_found).unwrap();
            assert!(!must_be_unnested(&plan), "{sql}");
            let optimized = state.optimize(&plan).unwrap();
            assert!(!any_node(&optimized, |node| has_expression(node, is_test)), "{sql}");
        }
        let (_, plan) =
            planned("SELECT a FROM t WHERE a IN (SELECT max(b) + 1 FROM u) AND b IN (SELECT a FROM u)");
        assert_eq!(with_columns_found(plan.clone()).unwrap(), plan);
    }

    #[test]
    fn what_datafusion_makes_no_join_of_is_known_by_its_shape() {
        // DataFusion leaves the first subquery in the condition of a join, and finds out when it runs.
        let sought = "SELECT a FROM t WHERE (SELECT max(u.b) FROM u WHERE u.a = t.a) IN (SELECT b FROM u)";
        assert_eq!(is_ours_and_refused(sought), (true, false));
        for sql in [
            "SELECT a FROM t WHERE (a IN (SELECT b FROM u)) IN (SELECT b > 1 FROM u)",
            "SELECT a, (SELECT b FROM u WHERE u.a = t.a) FROM t",
            "SELECT a, (SELECT count(*) FROM u WHERE u.b > t.b) FROM t",
            "SELECT a FROM t WHERE b > (SELECT max(u.b + t.a) FROM u)",
            "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FROM t",
            "SELECT a FROM t WHERE EXISTS (SELECT a FROM u WHERE u.a = t.a UNION ALL SELECT b FROM u WHERE u.b = t.b)",
            "SELECT a FROM t WHERE a IN (SELECT b FROM u WHERE u.a = t.a LIMIT 3)",
            "SELECT a FROM t WHERE 2.5::DOUBLE IN (SELECT b FROM u WHERE u.b + 1 = t.a)",
            "SELECT max((SELECT sum(u.b) FROM u WHERE u.a = t.a)) FROM t",
            "SELECT a FROM t WHERE a IN (SELECT max(b) FROM u) OR b = 2",
            "SELECT a FROM t WHERE a IN (SELECT a FROM t UNION SELECT b FROM u) OR b = 2",
            "SELECT a FROM t WHERE a IN (SELECT DISTINCT b AS c FROM u) OR b = 2",
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a ORDER BY u.b)",
            "SELECT a, (SELECT sum(u.b) FROM u WHERE u.a = t.a GROUP BY u.b) FROM t",
            "SELECT a, (SELECT u.b FROM u WHERE u.a = t.a GROUP BY u.b) FROM t",
            "SELECT a FROM t WHERE a IN (SELECT DISTINCT ON (u.a) u.a FROM u WHERE u.b < t.b ORDER BY u.a)",
        ] {
            assert_eq!(is_ours_and_refused(sql), (true, true), "{sql}");
        }
        for sql in [
            "SELECT a, (SELECT sum(u.b) FROM u WHERE u.a = t.a) FROM t",
            "SELECT a FROM t WHERE b < (SELECT 0.2 * avg(u.b) FROM u WHERE u.a = t.a)",
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.b <> t.b)",
            "SELECT a FROM t WHERE a IN (SELECT u.a FROM u WHERE u.b > t.b)",
            "SELECT a FROM t WHERE a IN (SELECT u.a FROM u)",
            "SELECT a FROM t WHERE a IN (SELECT u.a FROM u) OR b = 2",
            "SELECT a FROM t WHERE a IN (SELECT DISTINCT b FROM u) OR b = 2",
            "SELECT a FROM t WHERE a IN (SELECT max(b) AS c FROM u) OR b = 2",
            "SELECT a FROM t WHERE a IN (SELECT b AS c FROM u LIMIT 3) OR b = 2",
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 FROM u AS x WHERE x.b = u.b))",
            "SELECT a, (SELECT max(u.b) FROM u) FROM t",
            "SELECT a, (SELECT sum(u.b) FROM u WHERE u.a = t.a GROUP BY u.a) FROM t",
        ] {
            assert_eq!(is_ours_and_refused(sql), (false, false), "{sql}");
        }
    }

    #[test]
    fn what_divides_only_where_a_condition_lets_it_is_not_left_to_datafusion() {
        for sql in [
            "SELECT CASE WHEN b <> 0 THEN (SELECT max(u.b) FROM u WHERE u.a = 10 / t.b) END FROM t",
            "SELECT a FROM t WHERE b = 0 OR EXISTS (SELECT 1 FROM u WHERE u.a = 10 / t.b)",
            "SELECT a FROM t WHERE b = 0 OR 10 / b IN (SELECT u.a FROM u)",
        ] {
            assert!(must_be_unnested(&planned(sql).1), "{sql}");
        }
        for sql in [
            "SELECT CASE WHEN b <> 0 THEN (SELECT max(u.b) FROM u WHERE u.a = t.b) END FROM t",
            "SELECT a FROM t WHERE b <> 0 AND EXISTS (SELECT 1 FROM u WHERE u.a = 10 / t.b)",
            "SELECT a FROM t WHERE b <> 0 AND 10 / b IN (SELECT u.a FROM u)",
        ] {
            assert!(!must_be_unnested(&planned(sql).1), "{sql}");
        }
    }

    /// Some of these are refused later only, when no table has such a column.
    #[test]
    fn subqueries_that_refer_to_rows_further_out_or_from_below_a_join_are_known() {
        for sql in [
            "SELECT a FROM t WHERE EXISTS (SELECT u.b FROM u WHERE u.a = t.a INTERSECT SELECT x.a + 1 FROM u AS x)",
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 FROM u AS x WHERE x.b = t.b))",
            "SELECT a, (SELECT sum(u.b) FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 FROM u AS x WHERE x.b + t.b > u.b)) FROM t",
            "SELECT a FROM t WHERE a IN (SELECT u.a FROM u WHERE u.b = (SELECT max(x.b) FROM u AS x WHERE x.a = t.a))",
        ] {
            assert!(must_be_unnested(&planned(sql).1), "{sql}");
        }
    }
}
