//! What is estimated of conditions while a query is planned. DataFusion finds the bounds of columns behind a
//! filter by calculating with them: it casts those before it, and those behind it back. Where a value that is
//! cast back is another one, they become wider than they were, and where a cast does not keep the order, the
//! lower one is above the upper one. Then it gives the query up: for `ts::DATE <= d`, and for
//! `a::TEXT = b::TEXT`. An estimate is not worth a query: nothing is estimated of conditions with such casts.

use arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Alias, Cast};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, binary_expr, lit,
};
use datafusion::physical_expr::intervals::utils::{is_datatype_supported, is_operator_supported};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use hypostyle_expr::walk::{any_node, contains};
use std::sync::Arc;

/// Returns the physical plan of a query, without estimates of conditions where these would fail.
///
/// # Errors
/// Those of planning it.
pub async fn create_physical_plan(
    planner: &DefaultPhysicalPlanner,
    plan: &LogicalPlan,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !any_node(plan, |node| matches!(node, LogicalPlan::Filter(filter) if loses_bounds(filter))) {
        return planner.create_physical_plan(plan, session).await;
    }
    let plain = without_estimates(plan.clone())?.data;
    planner.create_physical_plan(&plain, session).await
}

/// Writes one part of each such condition in a form of which DataFusion estimates nothing, nor of what is
/// beside it. A row passes if it is true.
fn without_estimates(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Filter(filter) = node else { return Ok(Transformed::no(node)) };
        if !loses_bounds(&filter) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let mut parts = split_conjunction_owned(filter.predicate.clone());
        let schema = filter.input.schema();
        if let Some(part) = parts.iter_mut().find(|part| has_loose_cast(part, schema)) {
            *part = binary_expr(std::mem::take(part), Operator::IsNotDistinctFrom, lit(true));
        }
        let predicate = conjunction(parts).unwrap_or(filter.predicate);
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
    })
}

/// Says whether DataFusion finds bounds of columns behind a filter that may not be those of their values.
fn loses_bounds(filter: &Filter) -> bool {
    let schema = filter.input.schema();
    has_loose_cast(&filter.predicate, schema) && is_estimated(&filter.predicate, schema)
}

fn has_loose_cast(condition: &Expr, schema: &DFSchema) -> bool {
    contains(condition, |part| match part {
        Expr::Cast(Cast { expr, field }) => {
            expr.get_type(schema).is_ok_and(|from| !keeps_bounds(&from, field.data_type()))
        }
        _ => false,
    })
}

/// Says whether DataFusion calculates with the bounds of all that a condition is of.
fn is_estimated(condition: &Expr, schema: &DFSchema) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            is_operator_supported(op) && is_estimated(left, schema) && is_estimated(right, schema)
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            [expr, low, high].into_iter().all(|part| is_estimated(part, schema))
        }
        Expr::Alias(Alias { expr, .. }) | Expr::Cast(Cast { expr, .. }) | Expr::Negative(expr) => {
            is_estimated(expr, schema)
        }
        Expr::Column(_) | Expr::Literal(..) => {
            condition.get_type(schema).is_ok_and(|of| is_datatype_supported(&of))
        }
        _ => false,
    }
}

/// Says whether a cast keeps the order of values, and each is the same when it is cast back.
fn keeps_bounds(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Float32, Float64, Timestamp};
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if from.is_integer() && to.is_integer() => {
            let (from_bits, to_bits) = (bits(from), bits(to));
            match (from.is_signed_integer(), to.is_signed_integer()) {
                (true, false) => false,
                (false, true) => from_bits < to_bits,
                _ => from_bits <= to_bits,
            }
        }
        (from, to) if from.is_integer() && to.is_decimal() => true,
        (from, Float64) if from.is_integer() => bits(from) <= 32,
        (from, Float32) if from.is_integer() => bits(from) <= 16,
        (Float32, Float64) | (Date32, Timestamp(_, None)) => true,
        (Timestamp(from, zone), Timestamp(to, other)) => from <= to && zone.is_some() == other.is_some(),
        _ => false,
    }
}

fn bits(of: &DataType) -> usize {
    of.primitive_width().unwrap_or_default() * 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema, TimeUnit};
    use datafusion::logical_expr::{cast, col, table_scan};

    #[test]
    fn nothing_is_estimated_of_casts_that_lose_bounds() {
        let point = DataType::Timestamp(TimeUnit::Microsecond, None);
        let fields = [("a", DataType::Int32), ("ts", point), ("d", DataType::Date32)];
        let fields = fields.map(|(name, of)| Field::new(name, of, true));
        let scan = table_scan(Some("t"), &Schema::new(fields.to_vec()), None).unwrap();
        let filtered = |condition: Expr| scan.clone().filter(condition).unwrap().build().unwrap();
        let day = cast(col("ts"), DataType::Date32).lt_eq(col("d"));
        let plain = without_estimates(filtered(col("a").gt(lit(1)).and(day))).unwrap();
        assert!(plain.transformed);
        let LogicalPlan::Filter(filter) = &plain.data else { panic!("no filter") };
        let expected = col("t.a").gt(lit(1)).and(binary_expr(
            cast(col("t.ts"), DataType::Date32).lt_eq(col("t.d")),
            Operator::IsNotDistinctFrom,
            lit(true),
        ));
        assert_eq!(filter.predicate, expected);
        for condition in [
            cast(col("a"), DataType::Int64).lt(lit(5_i64)).and(col("d").gt(col("d"))),
            // It estimates nothing of these anyway.
            cast(col("ts"), DataType::Date32).lt_eq(col("d")).and(col("a").is_not_null()),
            cast(col("a"), DataType::Utf8).eq(lit("5")),
        ] {
            assert!(!without_estimates(filtered(condition)).unwrap().transformed);
        }
    }

    #[test]
    fn bounds_are_kept_where_each_value_is_the_same_cast_back() {
        use DataType::{
            Boolean, Date32, Decimal128, Float32, Float64, Int16, Int32, Int64, UInt32, UInt64, Utf8View,
        };
        let point = |unit: TimeUnit| DataType::Timestamp(unit, None);
        let in_zone = |zone: &str| DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()));
        for (from, to, is_kept) in [
            (Int32, Int64, true),
            (Int64, Int32, false),
            (UInt32, Int64, true),
            (UInt64, Int64, false),
            (Int32, UInt64, false),
            (Int32, Float64, true),
            (Int32, Float32, false),
            (Int16, Float32, true),
            (Int64, Float64, false),
            (Float32, Float64, true),
            (Int64, Decimal128(20, 0), true),
            (Int32, Utf8View, false),
            (Int32, Boolean, false),
            (Date32, point(TimeUnit::Microsecond), true),
            (point(TimeUnit::Microsecond), Date32, false),
            (point(TimeUnit::Second), point(TimeUnit::Microsecond), true),
            (point(TimeUnit::Nanosecond), point(TimeUnit::Microsecond), false),
            (in_zone("UTC"), in_zone("Europe/Berlin"), true),
            (in_zone("Europe/Berlin"), point(TimeUnit::Microsecond), false),
        ] {
            assert_eq!(keeps_bounds(&from, &to), is_kept, "{from} to {to}");
        }
    }
}
