//! What guards a subquery: conditions of CASE before the result that it is in, and sides of AND and OR
//! before its own. A correlated subquery becomes a join, which is computed for all rows. One that may fail is
//! computed for those rows only that get to it; and one without FROM becomes the expression that it stands
//! for, which is guarded as any other.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Case, Cast, Exists, InSubquery, ScalarFunction};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, EmptyRelation, Expr, ExprSchemable, LogicalPlan, Operator, Subquery, lit,
};
use hypostyle_error::external;
use hypostyle_expr::arithmetic::operator_of;
use hypostyle_expr::truth::divides_or_reads;
use hypostyle_expr::walk::{any_node, contains, has_expression, schema_below};
use hypostyle_types::{Error, ErrorKind};

/// Conditions that guard one place. Without some of them, more rows get there.
const GUARDS_MAX: usize = 32;

/// Conditions that are true of the rows that get to a place in an expression.
#[derive(Clone, Debug, Default)]
pub struct Guards(Vec<Expr>);

impl Guards {
    /// Adds a condition on the rows, if it is the same each time that it is computed.
    pub fn add(&mut self, condition: Expr) {
        let is_other = |part: &Expr| {
            part.is_volatile_node()
                || matches!(
                    part,
                    Expr::ScalarSubquery(_)
                        | Expr::Exists(_)
                        | Expr::InSubquery(_)
                        | Expr::SetComparison(_)
                        | Expr::OuterReferenceColumn(..)
                        | Expr::LambdaVariable(_)
                        | Expr::AggregateFunction(_)
                        | Expr::WindowFunction(_)
                )
        };
        if self.0.len() < GUARDS_MAX && !contains(&condition, is_other) {
            self.0.push(condition);
        }
    }

    /// Returns the condition on the rows for which a subquery is computed, if it may fail for others.
    pub fn condition(&self, subquery: &LogicalPlan, is_value: bool) -> Option<Expr> {
        conjunction(self.0.iter().cloned()).filter(|_| may_fail(subquery, is_value))
    }

    /// Returns a value for the rows that get to the place, which is NULL for others if it may fail.
    pub fn value(&self, value: Expr) -> Expr {
        match conjunction(self.0.iter().cloned()).filter(|_| contains(&value, computes)) {
            Some(condition) => {
                Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(value))], None))
            }
            None => value,
        }
    }
}

/// Says whether an expression has a subquery that may fail, or what is sought in one.
pub fn is_at_risk(expr: &Expr) -> bool {
    contains(expr, |part| match part {
        Expr::ScalarSubquery(value) => may_fail(&value.subquery, true),
        Expr::Exists(exists) => may_fail(&exists.subquery.subquery, false),
        Expr::InSubquery(test) => contains(&test.expr, computes) || may_fail(&test.subquery.subquery, false),
        _ => false,
    })
}

/// Says whether an expression, apart from those within it, computes what may be an error.
fn computes(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(
            op,
            Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
        ),
        other => matches!(other, Expr::Cast(_) | Expr::ScalarFunction(_) | Expr::Negative(_)),
    }
}

/// Says whether a subquery may be an error for a row: by what it computes, or because it gives several rows
/// where one is due.
fn may_fail(subquery: &LogicalPlan, is_value: bool) -> bool {
    is_value && subquery.max_rows().is_none_or(|rows| rows > 1)
        || any_node(subquery, |node| has_expression(node, computes))
}

/// The name of the aggregate that makes one value of the only row.
pub(crate) const SINGLE_VALUE: &str = "single_value";

/// Returns the error of a subquery that stands for one value.
pub(crate) fn several_rows() -> DataFusionError {
    let message = "a subquery that stands for one value gives more than one row";
    external(Error::new(ErrorKind::InvalidInput, message).with_sqlstate("21000"))
}

/// Says whether a subquery that depends on no row may be an error.
pub(crate) fn may_be_error(subquery: &LogicalPlan) -> bool {
    let gives_rows = subquery.max_rows().is_none_or(|rows| rows > 1) || may_give_rows(subquery);
    gives_rows
        || any_node(subquery, |node| {
            let schema = schema_below(node);
            has_expression(node, |part| match part {
                Expr::Cast(Cast { expr, field }) => {
                    !expr.get_type(&schema).is_ok_and(|from| has_all_values(field.data_type(), &from))
                }
                other => computes(other),
            })
        })
}

/// Says whether a type has the values of another one, as that which DataFusion casts both sides to.
fn has_all_values(to: &DataType, from: &DataType) -> bool {
    let is_whole =
        from.is_signed_integer() || matches!(from, DataType::UInt8 | DataType::UInt16 | DataType::UInt32);
    from == to
        || from.is_null()
        || to.is_string()
        || is_whole && matches!(to, DataType::Int64 | DataType::Float64)
        || *from == DataType::Float32 && *to == DataType::Float64
}

/// Says whether a subquery has what makes one value of several rows.
fn may_give_rows(subquery: &LogicalPlan) -> bool {
    let is_single =
        |part: &Expr| matches!(part, Expr::AggregateFunction(call) if call.func.name() == SINGLE_VALUE);
    any_node(subquery, |node| match node {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.input.max_rows().is_none_or(|rows| rows > 1) && has_expression(node, is_single)
        }
        _ => false,
    })
}

/// Says whether a subquery divides by what may be zero, or reads texts.
pub(crate) fn divides(subquery: &LogicalPlan) -> bool {
    any_node(subquery, |node| {
        let schema = schema_below(node);
        has_expression(node, |part| divides_or_reads(part, &schema) || divides_by_zero(part))
    })
}

fn divides_by_zero(part: &Expr) -> bool {
    let divisor = match part {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => right.as_ref(),
        Expr::ScalarFunction(ScalarFunction { func, args }) => match (operator_of(func), args.as_slice()) {
            (Some(Operator::Divide | Operator::Modulo), [_, divisor]) => divisor,
            (None, [_, divisor]) if matches!(func.name(), "mod" | "div") => divisor,
            _ => return false,
        },
        _ => return false,
    };
    match divisor {
        Expr::Literal(value, _) => ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value),
        _ => false,
    }
}

/// Says whether a CASE, an AND or an OR of a node has a subquery that divides or casts outer columns: a join
/// that DataFusion makes of it may do so for all rows. Conditions that must all be true are below that join.
pub fn guards_division(node: &LogicalPlan) -> bool {
    if let LogicalPlan::Filter(filter) = node {
        return split_conjunction(&filter.predicate).into_iter().any(has_guarded_division);
    }
    let mut found = false;
    let visited = node.apply_expressions(|expr| {
        found |= has_guarded_division(expr);
        Ok(TreeNodeRecursion::Continue)
    });
    found && visited.is_ok()
}

fn has_guarded_division(expr: &Expr) -> bool {
    let is_guard = |part: &Expr| match part {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::And | Operator::Or),
        other => matches!(other, Expr::Case(_)),
    };
    contains(expr, has_division) && contains(expr, |part| is_guard(part) && contains(part, has_division))
}

/// Says whether an expression, apart from those within it, is a subquery that divides or casts outer columns,
/// or one in which such a value is sought.
fn has_division(expr: &Expr) -> bool {
    let divides = |part: &Expr| match part {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Divide | Operator::Modulo),
        Expr::ScalarFunction(call) => matches!(call.func.name(), "cast" | "mod" | "div"),
        other => matches!(other, Expr::Cast(_)),
    };
    let of_subquery = |Subquery { subquery, outer_ref_columns, .. }: &Subquery| {
        !outer_ref_columns.is_empty()
            && any_node(subquery, |node| has_expression(node, |part| divides(part) && part.contains_outer()))
    };
    match expr {
        Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => of_subquery(subquery),
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
            of_subquery(subquery) || contains(expr, |part| divides(part) && part.any_column_refs())
        }
        _ => false,
    }
}

/// Returns the value of a subquery without FROM in terms of the rows around it; `None` for another.
///
/// # Errors
/// Those of DataFusion.
pub fn value_of_row(subquery: &LogicalPlan, schema: &DFSchema) -> Result<Option<Expr>> {
    let LogicalPlan::Projection(projection) = subquery else { return Ok(None) };
    let ([value], Some(conditions)) = (projection.expr.as_slice(), conditions_of_row(&projection.input))
    else {
        return Ok(None);
    };
    let value = match value {
        Expr::Alias(alias) if alias.metadata.is_none() => alias.expr.as_ref(),
        other => other,
    };
    let Some(value) = of_rows(value.clone(), schema)? else { return Ok(None) };
    let Some(condition) = conjunction(conditions) else { return Ok(Some(value)) };
    let Some(condition) = of_rows(condition, schema)? else { return Ok(None) };
    // CASE would forget what a field says of a type.
    if !value.to_field(schema).is_ok_and(|(_, field)| field.metadata().is_empty()) {
        return Ok(None);
    }
    let branch = (Box::new(condition), Box::new(value));
    Ok(Some(Expr::Case(Case::new(None, vec![branch], None))))
}

/// Returns whether a subquery without FROM gives a row, in terms of the rows around it; `None` for another.
///
/// # Errors
/// Those of DataFusion.
pub fn truth_of_row(subquery: &LogicalPlan, schema: &DFSchema) -> Result<Option<Expr>> {
    let LogicalPlan::Projection(projection) = subquery else { return Ok(None) };
    let Some(conditions) = conditions_of_row(&projection.input) else { return Ok(None) };
    match conjunction(conditions) {
        Some(condition) => Ok(of_rows(condition, schema)?.map(Expr::is_true)),
        None => Ok(Some(lit(true))),
    }
}

/// Returns the conditions on the one row of a plan that reads no table.
fn conditions_of_row(plan: &LogicalPlan) -> Option<Vec<Expr>> {
    match plan {
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) => Some(Vec::new()),
        LogicalPlan::Filter(filter) => {
            let mut conditions = conditions_of_row(&filter.input)?;
            conditions.push(filter.predicate.clone());
            Some(conditions)
        }
        _ => None,
    }
}

/// Returns an expression of outer columns with these as columns of the rows around, if all of them are.
fn of_rows(expr: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_other = |part: &Expr| match part {
        Expr::OuterReferenceColumn(_, column) => !schema.has_column(column),
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        other => other.is_volatile_node() || matches!(other, Expr::Column(_) | Expr::Unnest(_)),
    };
    if contains(&expr, is_other) {
        return Ok(None);
    }
    let own = expr.transform(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::no(other),
        })
    });
    Ok(Some(own?.data))
}
