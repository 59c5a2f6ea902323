//! Lists of IN beside each other. DataFusion makes one list of two for the same value, as if there were no
//! NULL: `a IN (1, 2) AND a IN (3, 4)` is false for it where `a` is NULL, and
//! `a IN (1, 2) AND a NOT IN (2, NULL)` is true for 1. Those that lose something in this way are kept apart
//! while expressions are simplified.

use crate::walk::{contains, has_expression, map_expressions};
use arrow::datatypes::DataType;
use datafusion::common::plan_datafusion_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, InList, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use hypostyle_sql::operators::ANY_EQUAL;
use std::sync::{Arc, LazyLock};

const NAME: &str = "kept_apart";

/// How many expressions are looked at for the lists of one.
const PARTS_MAX: usize = 1_000;

/// How many pairs of values are compared. Longer lists are kept apart.
const PAIRS_MAX: usize = 10_000;

static APART: LazyLock<ScalarUDF> =
    LazyLock::new(|| ScalarUDF::from(KeptApart { signature: Signature::any(1, Volatility::Immutable) }));

/// The rule that simplifies expressions, without the lists that it would make wrong.
#[derive(Debug)]
pub struct ListsStay(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for ListsStay {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_expression(&plan, loses) {
            return self.0.rewrite(plan, config);
        }
        let apart = map_expressions(plan, |expr| Ok(with_one_apart(expr)))?;
        let simplified = self.0.rewrite(apart.data, config)?;
        simplified.map_data(|plan| Ok(map_expressions(plan, |expr| Ok(beside_again(expr)))?.data))
    }
}

/// Returns an expression as it is simplified, without such lists.
///
/// # Errors
/// Those of the simplifier.
pub fn simplified(simplifier: &ExprSimplifier, expr: Expr) -> Result<Expr> {
    if !contains(&expr, loses) {
        return simplifier.simplify(expr);
    }
    let apart = expr.transform_up(|expr| Ok(with_one_apart(expr)))?;
    Ok(simplifier.simplify(apart.data)?.transform_up(|expr| Ok(beside_again(expr)))?.data)
}

fn with_one_apart(expr: Expr) -> Transformed<Expr> {
    if !loses(&expr) {
        return Transformed::no(expr);
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let right = Box::new(APART.call(vec![*right]));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        other => Transformed::no(other),
    }
}

fn beside_again(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == NAME && args.len() == 1 => {
            Transformed::yes(args.remove(0))
        }
        other => Transformed::no(other),
    }
}

/// Says whether two lists stand beside each other that are not what DataFusion makes of them.
fn loses(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return false };
    if !matches!(op, Operator::And | Operator::Or) {
        return false;
    }
    let mut parts = PARTS_MAX;
    // In a long chain, what is on the right is short.
    let Some(right) = List::of(right, &mut parts) else { return false };
    let Some(left) = List::of(left, &mut parts) else { return false };
    if left.of != right.of || is_union(*op, &left, &right) {
        return false;
    }
    let pairs = left.values.len().saturating_mul(right.values.len());
    let is_exact = left.is_exact() && right.is_exact() && pairs <= PAIRS_MAX && !left.of.is_volatile();
    !is_exact || left.merged(*op, right).is_some_and(|list| list.values.is_empty())
}

/// Says whether the values of both lists belong to the one that stands for them. It loses nothing.
fn is_union(op: Operator, left: &List<'_>, right: &List<'_>) -> bool {
    left.is_negated == right.is_negated && left.is_negated == (op == Operator::And)
}

/// What DataFusion takes for a list, or makes one of.
struct List<'a> {
    of: &'a Expr,
    values: Vec<&'a Expr>,
    is_negated: bool,
    /// What is compared is cast, which DataFusion may take to the values meanwhile.
    is_cast: bool,
}

impl<'a> List<'a> {
    fn of(expr: &'a Expr, parts: &mut usize) -> Option<Self> {
        *parts = parts.checked_sub(1)?;
        match expr {
            Expr::InList(InList { expr, list, negated }) => {
                let (of, is_cast) = uncast(expr);
                Some(Self { of, values: list.iter().collect(), is_negated: *negated, is_cast })
            }
            Expr::Not(inner) => {
                let list = Self::of(inner, parts)?;
                Some(Self { is_negated: !list.is_negated, ..list })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                let ((of, is_cast), value) = match (uncast(left), uncast(right)) {
                    (of @ (Expr::Column(_), _), _) => (of, right.as_ref()),
                    (_, of @ (Expr::Column(_), _)) => (of, left.as_ref()),
                    _ => return None,
                };
                let list = Self { of, values: vec![value], is_negated: false, is_cast };
                (!value.any_column_refs()).then_some(list)
            }
            // They become lists while they are simplified.
            Expr::ScalarFunction(ScalarFunction { func, args })
                if [ANY_EQUAL, "array_has"].contains(&func.name())
                    && let [list, of] = args.as_slice()
                    && !list.any_column_refs() =>
            {
                Some(Self { of: uncast(of).0, values: vec![list], is_negated: false, is_cast: true })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let of_right = Self::of(right, parts);
                if of_right.is_none() && right.any_column_refs() {
                    return None;
                }
                match (Self::of(left, parts), of_right) {
                    (Some(left), Some(right)) => left.merged(*op, right),
                    // What is constant may be left out, as in `(a, 1) IN ((2, 1), (3, 1))`.
                    (Some(list), None) => Some(Self { is_cast: true, ..list }),
                    (None, Some(list)) if !left.any_column_refs() => Some(Self { is_cast: true, ..list }),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the list that DataFusion makes of two.
    fn merged(self, op: Operator, other: Self) -> Option<Self> {
        if self.of != other.of {
            return None;
        }
        let Self { of, mut values, is_negated, is_cast } = self;
        let is_cast = is_cast || other.is_cast;
        match (op, is_negated, other.is_negated) {
            (Operator::And, true, true) | (Operator::Or, false, false) => values.extend(other.values),
            (Operator::And, false, false) | (Operator::Or, true, true) => {
                values.retain(|value| other.values.contains(value));
            }
            (Operator::And, false, true) => values.retain(|value| !other.values.contains(value)),
            (Operator::And, true, false) => {
                return other.merged(op, Self { of, values, is_negated, is_cast });
            }
            // NOT around it makes it one of AND.
            (Operator::Or, ..) => {
                let turned = |list: Self| Self { is_negated: !list.is_negated, ..list };
                let this = Self { of, values, is_negated: !is_negated, is_cast };
                return this.merged(Operator::And, turned(other)).map(turned);
            }
            _ => return None,
        }
        Some(Self { of, values, is_negated, is_cast })
    }

    /// Says whether its values are known as they will be compared, and none is NULL.
    fn is_exact(&self) -> bool {
        !self.is_cast
            && self.values.iter().all(|value| matches!(value, Expr::Literal(value, _) if !value.is_null()))
    }
}

/// Returns what is cast, and whether anything is.
fn uncast(mut expr: &Expr) -> (&Expr, bool) {
    let mut is_cast = false;
    while let Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) = expr {
        (expr, is_cast) = (inner, true);
    }
    (expr, is_cast)
}

/// A condition that is no list beside others. No plan has it that is run.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeptApart {
    signature: Signature,
}

impl ScalarUDFImpl for KeptApart {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| plan_datafusion_err!("{NAME} is of one condition"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::{col, lit};

    fn list(values: &[i32], is_negated: bool) -> Expr {
        col("a").in_list(values.iter().map(|value| lit(*value)).collect(), is_negated)
    }

    #[test]
    fn lists_lose_a_null_where_nothing_is_left_or_one_is_among_them() {
        let or_null = |expr: Expr| match expr {
            Expr::InList(mut of) => {
                of.list.push(lit(ScalarValue::Int32(None)));
                Expr::InList(of)
            }
            other => other,
        };
        let one_of = |left: i32, right: i32| col("a").eq(lit(left)).or(lit(right).eq(col("a")));
        for (expr, expected) in [
            (list(&[1, 2], false).and(list(&[3, 4], false)), true),
            (list(&[1, 2], false).and(list(&[2, 4], false)), false),
            (list(&[1, 2], true).or(list(&[3, 4], true)), true),
            (list(&[1, 2], true).or(list(&[2], true)), false),
            (list(&[1, 2], false).and(list(&[2, 1, 3], true)), true),
            (list(&[1, 2], true).and(list(&[2, 1], false)), true),
            (list(&[1, 2], true).and(list(&[2, 3], false)), false),
            (list(&[1, 2], false).and(or_null(list(&[2], true))), true),
            (or_null(list(&[1, 2], true)).or(list(&[2], true)), true),
            (or_null(list(&[1, 2], true)).and(list(&[2], true)), false),
            (or_null(list(&[1, 2], false)).or(list(&[2], false)), false),
            (one_of(1, 2).and(one_of(3, 4)), true),
            (one_of(1, 2).and(one_of(2, 4)), false),
            (list(&[1, 2], false).and(!list(&[1, 2], false)), true),
            (list(&[1, 2, 3], false).and(list(&[2, 3], false)).and(list(&[1], false)), true),
            (list(&[1, 2, 3], false).or(list(&[1, 2], true)), true),
            (list(&[1, 2], false).or(list(&[1, 2, 3], true)), false),
            (or_null(list(&[1, 2], false)).or(list(&[2], true)), true),
            (one_of(1, 2).and(lit(true)).and(or_null(list(&[1], true))), true),
            (one_of(1, 2).and(lit(true)).or(or_null(list(&[1], false))), false),
            (list(&[1, 2], false).and(col("b").eq(lit(3))), false),
            (list(&[1, 2], false).and(col("b").in_list(vec![lit(3)], false)), false),
        ] {
            assert_eq!(loses(&expr), expected, "{expr}");
            let apart = with_one_apart(expr.clone());
            assert_eq!(apart.transformed, expected, "{expr}");
            let again = apart.data.transform_up(|expr| Ok(beside_again(expr))).unwrap();
            assert_eq!(again.data, expr);
        }
    }
}
