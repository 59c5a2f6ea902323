//! Sums of one column and several constants: `sum(x + 1), sum(x + 2)` are computed from `sum(x)`
//! and `count(x)`, which are computed once. This is done only if no overflow is added: the column
//! is narrower than BIGINT, and so are the constants.

use crate::arithmetic::{checked, operands};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count;
use datafusion::logical_expr::expr::{AggregateFunction, Cast};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, Operator, Projection, binary_expr, lit,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashMap;
use std::sync::Arc;

/// The rule of the optimizer.
#[derive(Debug)]
pub struct ShiftedSums;

/// `sum(x + constant)`.
struct Shifted {
    /// `x` as a BIGINT.
    of: Expr,
    by: i64,
}

impl OptimizerRule for ShiftedSums {
    fn name(&self) -> &str {
        "shifted_sums"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(Transformed::no(plan)) };
        let schema = aggregate.input.schema();
        let mut sums: Vec<Option<Shifted>> =
            aggregate.aggr_expr.iter().map(|expr| shifted(expr, schema)).collect();
        let shared = |of: &Expr| sums.iter().flatten().filter(|sum| sum.of == *of).count() > 1;
        let lone: Vec<bool> =
            sums.iter().map(|sum| sum.as_ref().is_some_and(|sum| !shared(&sum.of))).collect();
        sums.iter_mut().zip(lone).filter(|(_, is_lone)| *is_lone).for_each(|(sum, _)| *sum = None);
        match sums.iter().any(Option::is_some) {
            true => made_of_shared(aggregate, &sums).map(Transformed::yes),
            false => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
        }
    }
}

fn made_of_shared(aggregate: Aggregate, sums: &[Option<Shifted>]) -> Result<LogicalPlan> {
    let mut computed: Vec<Expr> = Vec::new();
    let mut places_of = HashMap::new();
    // A count of a cast expression has the name of one without a cast.
    let mut place = |expr: Expr, is_own: bool| {
        if !is_own {
            computed.push(expr);
            return computed.len() - 1;
        }
        *places_of.entry(expr).or_insert_with_key(|expr| {
            computed.push(expr.clone().alias(format!("__shared_{}", computed.len())));
            computed.len() - 1
        })
    };
    let mut places = Vec::new();
    for (expr, sum) in aggregate.aggr_expr.iter().zip(sums) {
        places.push(match (sum, expr.clone().unalias()) {
            (Some(Shifted { of, by }), Expr::AggregateFunction(mut call)) => {
                call.params.args = vec![of.clone()];
                let sum = place(Expr::AggregateFunction(call), true);
                (sum, Some((place(count(of.clone()), true), *by)))
            }
            _ => (place(expr.clone(), false), None),
        });
    }
    let own = aggregate.schema.clone();
    let groups = own.fields().len() - aggregate.aggr_expr.len();
    let shared = Aggregate::try_new(aggregate.input, aggregate.group_expr, computed)?;
    let schema = shared.schema.clone();
    let column = |place: usize| Expr::Column(Column::from(schema.qualified_field(groups + place)));
    let mut items: Vec<Expr> =
        (0..groups).map(|place| Expr::Column(Column::from(schema.qualified_field(place)))).collect();
    for (index, (sum, shift)) in places.into_iter().enumerate() {
        let (qualifier, field) = own.qualified_field(groups + index);
        let Some((count, by)) = shift else {
            items.push(column(sum));
            continue;
        };
        let product = checked(binary_expr(lit(by), Operator::Multiply, column(count)), &schema)?.data;
        let total = checked(binary_expr(column(sum), Operator::Plus, product), &schema)?.data;
        items.push(total.alias_qualified(qualifier.cloned(), field.name()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(items, Arc::new(LogicalPlan::Aggregate(shared)))?))
}

/// Returns the sum that an aggregate is, if it is one of a narrow integer and a constant.
fn shifted(expr: &Expr, schema: &DFSchema) -> Option<Shifted> {
    let expr = match expr {
        Expr::Alias(alias) => alias.expr.as_ref(),
        other => other,
    };
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else { return None };
    let is_plain = params.filter.is_none() && params.order_by.is_empty() && !params.distinct;
    let [arg] = params.args.as_slice() else { return None };
    if func.name() != "sum" || !is_plain {
        return None;
    }
    let (of, by) = match operands(arg)? {
        (Operator::Plus, [of, by]) if constant(by).is_some() => (of, constant(by)?),
        (Operator::Plus, [by, of]) => (of, constant(by)?),
        (Operator::Minus, [of, by]) => (of, -constant(by)?),
        _ => return None,
    };
    let Expr::Cast(Cast { expr: narrow, field }) = of else { return None };
    let is_narrow = matches!(
        narrow.get_type(schema).ok()?,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16
    );
    (is_narrow && *field.data_type() == DataType::Int64 && !of.is_volatile())
        .then(|| Shifted { of: of.clone(), by })
}

/// Returns a constant that is no wider than the column.
fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => i32::try_from(*value).ok().map(i64::from),
        _ => None,
    }
}
