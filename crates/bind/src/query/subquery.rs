//! Subqueries in expressions: for one value, EXISTS, IN, ANY, ALL and ARRAY, bound where they stand. And the
//! aggregates in them that are of the rows around.

use crate::query::expression::{self, Names, Slots, call};
use crate::query::refusal::{internal, refused, unsupported};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Spans};
use datafusion::error::Result;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as SqlExpr, Query};
use std::sync::Arc;

/// A subquery with what it gives in an expression.
type Bound = (Expr, FieldRef);

/// Binds an expression that is a subquery, or compares with one; `None` for any other.
///
/// # Errors
/// Those of the subquery; `Syntax` (42601) where it has too many columns.
pub fn bind(expr: &SqlExpr, names: &Names<'_>) -> Result<Option<Bound>> {
    let bound = match expr {
        SqlExpr::Subquery(query) => scalar(query, names)?,
        SqlExpr::Exists { subquery, negated } => {
            let subquery = subquery_of(subquery, names)?;
            (Expr::Exists(Exists { subquery, negated: *negated }), truth(false))
        }
        SqlExpr::InSubquery { expr, subquery, negated } => {
            let (expr, subquery) = compared(expr, subquery, names)?;
            (Expr::InSubquery(InSubquery::new(expr, subquery, *negated)), truth(true))
        }
        SqlExpr::AnyOp { left, compare_op, right, .. } => {
            let Some(query) = query_in(right) else { return Ok(None) };
            (quantified(left, compare_op, query, SetQuantifier::Any, names)?, truth(true))
        }
        SqlExpr::AllOp { left, compare_op, right } => {
            let Some(query) = query_in(right) else { return Ok(None) };
            (quantified(left, compare_op, query, SetQuantifier::All, names)?, truth(true))
        }
        _ => return Ok(None),
    };
    Ok(Some(bound))
}

fn truth(nullable: bool) -> FieldRef {
    Arc::new(Field::new("truth", DataType::Boolean, nullable))
}

fn query_in(expr: &SqlExpr) -> Option<&Query> {
    match expr {
        SqlExpr::Nested(inner) => query_in(inner),
        SqlExpr::Subquery(query) => Some(query),
        _ => None,
    }
}

/// Binds a subquery.
fn subquery_of(query: &Query, names: &Names<'_>) -> Result<Subquery> {
    let plan = names.scope.rows(query)?.plan;
    Ok(Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan),
        spans: Spans::new(),
    })
}

/// Binds a subquery of one column.
fn of_one_column(query: &Query, names: &Names<'_>) -> Result<Subquery> {
    let subquery = subquery_of(query, names)?;
    match subquery.subquery.schema().fields().len() {
        1 => Ok(subquery),
        _ => Err(refused("42601", "the subquery stands for one value and has more than one column")),
    }
}

fn scalar(query: &Query, names: &Names<'_>) -> Result<Bound> {
    let subquery = of_one_column(query, names)?;
    // It may have no row.
    let field = subquery.subquery.schema().field(0).as_ref().clone().with_nullable(true);
    Ok((Expr::ScalarSubquery(subquery), Arc::new(field)))
}

/// Binds what is compared with the rows of a subquery, and this.
fn compared(expr: &SqlExpr, query: &Query, names: &Names<'_>) -> Result<(Box<Expr>, Subquery)> {
    Ok((Box::new(expression::bind(expr, names)?), of_one_column(query, names)?))
}

fn quantified(
    left: &SqlExpr,
    operator: &BinaryOperator,
    query: &Query,
    quantifier: SetQuantifier,
    names: &Names<'_>,
) -> Result<Expr> {
    let operator = match operator {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::PGRegexMatch => Operator::RegexMatch,
        BinaryOperator::PGRegexIMatch => Operator::RegexIMatch,
        BinaryOperator::PGRegexNotMatch => Operator::RegexNotMatch,
        BinaryOperator::PGRegexNotIMatch => Operator::RegexNotIMatch,
        BinaryOperator::PGLikeMatch => Operator::LikeMatch,
        BinaryOperator::PGILikeMatch => Operator::ILikeMatch,
        BinaryOperator::PGNotLikeMatch => Operator::NotLikeMatch,
        BinaryOperator::PGNotILikeMatch => Operator::NotILikeMatch,
        other => return Err(unsupported(format!("the operator {other} before ANY or ALL of a subquery"))),
    };
    let (expr, subquery) = compared(left, query, names)?;
    Ok(Expr::SetComparison(SetComparison::new(expr, subquery, operator, quantifier)))
}

/// Binds `ARRAY(SELECT …)`: a list of the values in the order of their query, which is empty without a row.
///
/// # Errors
/// Those of the subquery.
pub fn array(query: &Query, names: &Names<'_>) -> Result<Bound> {
    let Subquery { subquery, outer_ref_columns, spans } = of_one_column(query, names)?;
    let state = names.scope.tables.state;
    let function = state.aggregate_functions().get("array_agg");
    let function = function.ok_or_else(|| internal("no function array_agg"))?.clone();
    let plan = Arc::unwrap_or_clone(subquery);
    let value = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let (plan, list) = match query.order_by {
        None => (plan, function.call(vec![value])),
        Some(_) => {
            let name = names.scope.tables.new_name("row");
            let numbered = LogicalPlanBuilder::from(plan).window([row_number().alias(&name)])?.build()?;
            let order = Expr::Column(Column::from_name(name)).sort(true, false);
            (numbered, function.call(vec![value]).order_by(vec![order]).build()?)
        }
    };
    let plan = LogicalPlanBuilder::from(plan).aggregate(Vec::<Expr>::new(), vec![list])?.build()?;
    let list = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let list = call(state, "coalesce", vec![list, call(state, "make_array", Vec::new())?])?;
    let plan = LogicalPlanBuilder::from(plan).project([list.alias("array")])?.build()?;
    let field = plan.schema().field(0).clone();
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
    Ok((Expr::ScalarSubquery(subquery), field))
}

/// Returns an expression with those aggregates as columns of the rows around that name columns of these
/// alone: they are aggregates of these rows (ISO/IEC 9075-2, 6.9), and are computed with their groups.
///
/// # Errors
/// `Syntax` (42803) where the rows around have no groups.
pub fn with_aggregates_around(planned: Expr, slots: &Slots<'_>) -> Result<Expr> {
    let moved = planned.transform_down(|expr| {
        let depth = match &expr {
            Expr::AggregateFunction(_) => depth_of(&expr, slots)?,
            _ => None,
        };
        match depth {
            Some(depth) => {
                Ok(Transformed::new(moved_out(expr, depth, slots)?, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(expr)),
        }
    });
    moved.data()
}

/// Returns the number of the nearest frame whose columns a call names, if that is one around.
fn depth_of(call: &Expr, slots: &Slots<'_>) -> Result<Option<usize>> {
    let mut nearest: Option<usize> = None;
    call.apply(|part| {
        if let Some(slot) = slots.slot_of(part)
            && let Some(depth) = slot.nearest
        {
            nearest = Some(nearest.map_or(depth, |other| other.min(depth)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(nearest.filter(|depth| *depth > 0))
}

/// Has the frame of a depth compute an aggregate, and returns its column.
fn moved_out(aggregate: Expr, depth: usize, slots: &Slots<'_>) -> Result<Expr> {
    let frame = slots.frame(depth).filter(|frame| frame.may_group.get());
    let frame = frame.ok_or_else(|| {
        let message = "an aggregate names only columns of the query around its subquery, which has no groups here; \
                       compute it in a subquery in FROM";
        refused("42803", message)
    })?;
    let own = slots.filled(aggregate, depth)?;
    let (_, field) = own.to_field(frame.plan.schema())?;
    let mut aggregates = frame.aggregates.borrow_mut();
    let name = match aggregates.iter().find(|(known, _)| *known == own) {
        Some((_, name)) => name.clone(),
        None => {
            let name = slots.names.scope.tables.new_name("aggregate");
            aggregates.push((own, name.clone()));
            name
        }
    };
    let field = Arc::new(field.as_ref().clone().with_name(&name));
    Ok(Expr::OuterReferenceColumn(field, Column::new_unqualified(name)))
}

/// Calls a function for each subquery of an expression, but not for those within these.
///
/// # Errors
/// Those of the function.
pub fn each_subquery(expr: &Expr, each: &mut dyn FnMut(&LogicalPlan) -> Result<()>) -> Result<()> {
    expr.apply(|part| {
        match part {
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })
            | Expr::SetComparison(SetComparison { subquery, .. }) => each(&subquery.subquery)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}
