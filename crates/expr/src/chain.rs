//! Long chains of operators, each as one call. DataFusion derives the type and the name of an
//! operator from those of its operands, repeatedly, and these from theirs. So the time to plan a
//! chain would grow with the square of its length, or its cube. A call of all operands is one level
//! deep.
//!
//! The operands are combined one after the other as the operators would do it, by their types and
//! kernels.

use crate::amplifier::{join_operands, joined_all};
use crate::arithmetic::{computed, result_type};
use crate::portable::{Decoder, Functions, Portable, malformed};
use crate::wanted::check_wanted;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use hypostyle_error::complexity::too_complex;
use hypostyle_error::external;
use std::sync::Arc;

/// The number of nested operators that become a call.
const OPERATORS_MIN: usize = 16;

/// The number of other operators that may be nested.
const LEVELS_MAX: usize = 400;

/// Plans operators that are in a row with many others.
#[derive(Debug)]
pub struct Chains;

impl ExprPlanner for Chains {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        check_wanted()?;
        let RawBinaryExpr { op, left, right } = expr;
        let planned = match &op {
            BinaryOperator::Plus => chained(Operator::Plus, left, right, schema),
            BinaryOperator::Minus => chained(Operator::Minus, left, right, schema),
            BinaryOperator::Multiply => chained(Operator::Multiply, left, right, schema),
            BinaryOperator::Divide => chained(Operator::Divide, left, right, schema),
            BinaryOperator::Modulo => chained(Operator::Modulo, left, right, schema),
            BinaryOperator::StringConcat => joined(left, right, schema),
            _ => Planned::Operands(left, right),
        };
        match planned {
            Planned::Call(call) => Ok(PlannerResult::Planned(call)),
            Planned::Operands(left, _) if levels(&left) > LEVELS_MAX => Err(external(too_complex(format!(
                "it has more than {LEVELS_MAX} operators in a row that are not all of numbers or texts; compute some of them in a \
                 query in between"
            )))),
            Planned::Operands(left, right) => Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        }
    }
}

/// Returns how many calls and operators are within each other on the left, as far as it matters.
fn levels(expr: &Expr) -> usize {
    fn first(expr: &Expr) -> Option<&Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, .. }) => Some(left),
            Expr::ScalarFunction(call) => call.args.first(),
            Expr::Cast(cast) => Some(&cast.expr),
            _ => None,
        }
    }
    std::iter::successors(Some(expr), |expr| first(expr)).take(LEVELS_MAX + 2).count() - 1
}

/// The result of planning an operator: a call, or its operands unchanged.
enum Planned {
    Call(Expr),
    Operands(Expr, Expr),
}

/// An operator, and which of its operands has the operators before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Step {
    operator: Operator,
    is_left: bool,
}

fn chained(operator: Operator, left: Expr, right: Expr, schema: &DFSchema) -> Planned {
    let lengths = [length(&left, true), length(&right, false)];
    let is_left = lengths[0] >= lengths[1];
    if lengths[0].max(lengths[1]) + 1 < OPERATORS_MIN {
        return Planned::Operands(left, right);
    }
    let (before, operand) = if is_left { (&left, &right) } else { (&right, &left) };
    let is_new = chain_of(before).is_none();
    if !is_number(operand, schema) || is_new && !operands(before, is_left).all(|expr| is_number(expr, schema))
    {
        return Planned::Operands(left, right);
    }
    let (before, operand) = if is_left { (left, right) } else { (right, left) };
    let (mut steps, mut args) = taken_apart(before, is_left);
    steps.push(Step { operator, is_left });
    args.push(operand);
    let function = Arc::new(ScalarUDF::from(Chain::new(steps)));
    Planned::Call(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)))
}

/// Returns the chain that an expression is a call of.
fn chain_of(expr: &Expr) -> Option<&Chain> {
    let Expr::ScalarFunction(call) = expr else { return None };
    call.func.inner().downcast_ref::<Chain>()
}

/// Returns the operator of two numbers that an expression is, with the operand that has those
/// before it, and the other one.
fn step_of(expr: &Expr, is_left: bool) -> Option<(Operator, &Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    OPERATORS.contains(op).then_some(if is_left { (*op, left, right) } else { (*op, right, left) })
}

/// Returns how many operators are within each other, on the left or on the right; at least so many
/// of a chain.
fn length(expr: &Expr, is_left: bool) -> usize {
    if let Some(chain) = chain_of(expr) {
        return OPERATORS_MIN.max(chain.steps.len());
    }
    std::iter::successors(step_of(expr, is_left), |(_, before, _)| step_of(before, is_left)).count()
}

/// Returns the operands of operators within each other.
fn operands(expr: &Expr, is_left: bool) -> impl Iterator<Item = &Expr> {
    let mut next = Some(expr);
    std::iter::from_fn(move || {
        let expr = next?;
        match step_of(expr, is_left) {
            Some((_, before, operand)) => {
                next = Some(before);
                Some(operand)
            }
            None => next.take(),
        }
    })
}

fn is_number(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| of.is_numeric())
}

/// Returns the steps and the operands of a chain, or of operators within each other.
fn taken_apart(expr: Expr, is_left: bool) -> (Vec<Step>, Vec<Expr>) {
    if let Some(steps) = chain_of(&expr).map(|chain| chain.steps.clone())
        && let Expr::ScalarFunction(call) = expr
    {
        return (steps, call.args);
    }
    let (mut steps, mut args, mut expr) = (Vec::new(), Vec::new(), expr);
    while step_of(&expr, is_left).is_some()
        && let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr
    {
        let (before, operand) = if is_left { (left, right) } else { (right, left) };
        steps.push(Step { operator: op, is_left });
        args.push(*operand);
        expr = *before;
    }
    args.push(expr);
    steps.reverse();
    args.reverse();
    (steps, args)
}

/// Returns `||` of texts in a row.
fn joined(left: Expr, right: Expr, schema: &DFSchema) -> Planned {
    if join_operands(&left).is_some()
        && let Expr::ScalarFunction(mut call) = left
    {
        return match as_text(&right, schema) {
            Some(text) => {
                call.args.push(text);
                Planned::Call(Expr::ScalarFunction(call))
            }
            None => Planned::Operands(Expr::ScalarFunction(call), right),
        };
    }
    let mut operands = vec![&right];
    let mut first = &left;
    while let Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) = first {
        operands.push(right.as_ref());
        first = left;
    }
    if operands.len() < OPERATORS_MIN {
        return Planned::Operands(left, right);
    }
    operands.push(first);
    let has_text = operands.iter().rev().take(2).any(|expr| is_text(expr, schema));
    let texts: Option<Vec<Expr>> = operands.into_iter().rev().map(|expr| as_text(expr, schema)).collect();
    match texts.filter(|_| has_text) {
        Some(texts) => Planned::Call(joined_all(texts)),
        None => Planned::Operands(left, right),
    }
}

fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| of.is_string())
}

/// Returns an operand of `||` as the text that it is beside another one; `None` where it is joined
/// in another way.
fn as_text(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    if is_text(expr, schema) {
        return Some(expr.clone());
    }
    let of = expr.get_type(schema).ok()?;
    let is_plain = of.is_numeric() || matches!(of, DataType::Boolean | DataType::Null);
    let (_, wanted) =
        BinaryTypeCoercer::new(&DataType::LargeUtf8, &Operator::StringConcat, &of).get_input_types().ok()?;
    is_plain.then(|| Expr::Cast(Cast::new(Box::new(expr.clone()), wanted)))
}

/// Operators of numbers, one after the other: the first argument is that of the first step, and
/// each step has one more.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    steps: Vec<Step>,
    signature: Signature,
}

impl Chain {
    fn new(steps: Vec<Step>) -> Self {
        Self { steps, signature: Signature::variadic_any(Volatility::Immutable) }
    }

    /// Returns the steps with their operands, and the first one.
    fn with_operands<'a, T>(
        &'a self,
        args: &'a [T],
    ) -> Result<(&'a T, impl Iterator<Item = (&'a Step, &'a T)>)> {
        match args.split_first() {
            Some((first, rest)) if rest.len() == self.steps.len() => Ok((first, self.steps.iter().zip(rest))),
            _ => Err(plan_datafusion_err!("a chain of operators has one operand more than operators")),
        }
    }
}

/// The operators of steps.
const OPERATORS: [Operator; 5] =
    [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo];

impl Portable for Chain {
    type Function = ScalarUDF;

    const TAG: &'static str = "chain";

    /// Each step's operator as SQL has it, and whether its left operand has the operators before it.
    type Parameters = Vec<(String, bool)>;

    fn parameters(&self, _: &Functions) -> Result<Self::Parameters> {
        Ok(self.steps.iter().map(|Step { operator, is_left }| (operator.to_string(), *is_left)).collect())
    }

    fn from_parameters(steps: Self::Parameters, _: &Decoder<'_>) -> Result<Self> {
        let step = |(sign, is_left): (String, bool)| {
            let operator = OPERATORS.into_iter().find(|operator| operator.to_string() == sign);
            let operator = operator.ok_or_else(|| malformed(format!("a chain has no operator {sign:?}")))?;
            Ok(Step { operator, is_left })
        };
        Ok(Self::new(steps.into_iter().map(step).collect::<Result<_>>()?))
    }
}

impl ScalarUDFImpl for Chain {
    fn name(&self) -> &str {
        "chain"
    }

    /// Returns the name of the operators.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let (first, rest) = self.with_operands(args)?;
        let (mut before, mut after) = (Vec::new(), String::new());
        for (Step { operator, is_left }, operand) in rest {
            match is_left {
                true => after += &format!(" {operator} {}", operand.schema_name()),
                // The left operand is the result of everything before it.
                false => before.push(format!("{} {operator} ", operand.schema_name())),
            }
        }
        before.reverse();
        Ok(format!("{}{}{after}", before.concat(), first.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (first, rest) = self.with_operands(types)?;
        let mut known: Vec<(Step, DataType, DataType, DataType)> = Vec::new();
        let mut found = first.clone();
        for (step, of) in rest {
            let same = |(of_step, before, operand, _): &&(Step, DataType, DataType, DataType)| {
                of_step == step && *before == found && operand == of
            };
            let next = match known.iter().find(same) {
                Some((.., next)) => next.clone(),
                None => {
                    let next =
                        step.ordered(|left, right| result_type(step.operator, left, right), &found, of)?;
                    known.push((*step, found, of.clone(), next.clone()));
                    next
                }
            };
            found = next;
        }
        Ok(found)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (first, rest) = self.with_operands(&args.args)?;
        let mut value = first.clone();
        for (step, operand) in rest {
            value = step.ordered(|left, right| computed(step.operator, left, right), &value, operand)?;
        }
        Ok(value)
    }
}

impl Step {
    /// Gives operands to whoever takes the left one first.
    fn ordered<T, R>(&self, take: impl FnOnce(&T, &T) -> R, before: &T, operand: &T) -> R {
        if self.is_left { take(before, operand) } else { take(operand, before) }
    }
}
