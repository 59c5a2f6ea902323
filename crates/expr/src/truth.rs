//! Texts as they are written beside a BOOLEAN, which are BOOLEANs then, as in PostgreSQL:
//! `is_sold = 'f'`. DataFusion finds no common type for the two. And CASE of a BOOLEAN, whose conditions
//! guard its results.

use crate::arithmetic::operator_of;
use crate::comparison::{is_text, operands};
use crate::walk::contains;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, binary_expr, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans comparisons of a BOOLEAN with a text, whose types are asked for before a plan is
/// rewritten.
#[derive(Debug)]
pub struct Truths;

impl ExprPlanner for Truths {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, Spaceship};
        let RawBinaryExpr { op, mut left, mut right } = expr;
        if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship | And | Or) {
            read_texts(vec![&mut left, &mut right], schema);
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The same of what else compares, and of the results of a CASE.
pub fn beside_texts(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = operands(&mut expression).is_some_and(|compared| read_texts(compared, schema));
    if let Expr::Case(Case { when_then_expr, else_expr, .. }) = &mut expression {
        let results = when_then_expr.iter_mut().map(|(_, result)| result).chain(else_expr);
        changed |= read_texts(results.map(Box::as_mut).collect(), schema);
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Reads the texts among expressions of one type as BOOLEANs, if another one of them is a BOOLEAN;
/// whether there were any.
fn read_texts(mut alike: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let is_boolean =
        |expr: &Expr| !is_text(expr) && expr.get_type(schema).is_ok_and(|of| of == DataType::Boolean);
    if !alike.iter().any(|expr| is_text(expr)) || !alike.iter().any(|expr| is_boolean(expr)) {
        return false;
    }
    for expr in alike.iter_mut().filter(|expr| is_text(expr)) {
        **expr = Expr::Cast(Cast::new(Box::new(std::mem::take(*expr)), DataType::Boolean));
    }
    true
}

/// Returns a CASE of a BOOLEAN as one of `true`, whose branches are those of its conditions. DataFusion makes
/// AND and OR of the other one, which compute what a condition has ruled out: it divided by zero in
/// `CASE WHEN b <> 0 THEN a / b > 1 END`. What cannot fail stays.
pub fn guarded(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Case(Case { expr: None, when_then_expr, else_expr }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let first = when_then_expr.first().map(|(condition, _)| condition.as_ref());
    let mut results = when_then_expr.iter().map(|(_, result)| result.as_ref()).chain(else_expr.as_deref());
    let is_boolean = results.clone().any(|of| of.get_type(schema).is_ok_and(|of| of == DataType::Boolean));
    let mut later = when_then_expr.iter().skip(1).map(|(condition, _)| condition.as_ref());
    let fails = |of: &Expr| contains(of, |part| may_fail(part, schema));
    let is_guard = first.is_some_and(Expr::is_volatile) || results.any(fails) || later.any(fails);
    if !is_boolean || !is_guard || contains(&expression, is_subquery) {
        return Ok(Transformed::no(expression));
    }
    let Expr::Case(case) = expression else { return Ok(Transformed::no(expression)) };
    Ok(Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case })))
}

/// Returns an OR whose right side divides, or reads texts, as one that computes this side only where the left
/// one is not true, as PostgreSQL does: `b = 0 OR a / b > 2`.
pub fn left_first(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let is_guarded = |side: &Expr| contains(side, |part| divides_or_reads(part, schema));
    if !is_guarded(right) || is_guarded(left) || left.is_volatile() || contains(&expression, is_subquery) {
        return Ok(Transformed::no(expression));
    }
    let rest = binary_expr(right.as_ref().clone(), Operator::Or, left.as_ref().clone());
    let when_then_expr = vec![(left.clone(), Box::new(lit(true)))];
    let expr = Some(Box::new(lit(true)));
    Ok(Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr: Some(Box::new(rest)) })))
}

/// Says whether an expression is planned as a join.
fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_))
}

/// Says whether an expression, apart from those within it, divides by what may be zero, or reads what may not
/// be of its type.
fn divides_or_reads(expr: &Expr, schema: &DFSchema) -> bool {
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let is_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_string());
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            !is_constant(right)
        }
        Expr::Cast(Cast { expr, .. }) => !is_constant(expr) && is_text(expr),
        Expr::ScalarFunction(ScalarFunction { func, args }) => match args.as_slice() {
            [value] => func.name() == "cast" && !is_constant(value) && is_text(value),
            [_, divisor] => {
                let divides = matches!(operator_of(func), Some(Operator::Divide | Operator::Modulo));
                (divides || matches!(func.name(), "mod" | "div")) && !is_constant(divisor)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Says whether an expression, apart from those within it, may be an error or have a value of its own each
/// time. Comparisons and what connects them cannot, nor casts to types that have all values.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Alias(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Column(_)
        | Expr::InList(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotNull(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsUnknown(_)
        | Expr::Like(_)
        | Expr::Literal(..)
        | Expr::Not(_)
        | Expr::OuterReferenceColumn(..) => false,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Divide | Operator::Modulo),
        Expr::Cast(Cast { expr, field }) => {
            expr.get_type(schema).is_ok_and(|from| from.is_string())
                || !matches!(field.data_type(), DataType::Int64 | DataType::Float64 | DataType::Boolean)
        }
        _ => true,
    }
}
