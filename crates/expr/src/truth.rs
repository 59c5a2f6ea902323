//! Texts as they are written beside a BOOLEAN, an interval or a list, which are of its type then, as in
//! PostgreSQL: `is_sold = 'f'`. DataFusion finds no common type for the two. And CASE of a BOOLEAN, whose
//! conditions guard its results, and AND and OR, whose left sides guard the right ones.

use crate::arithmetic::operator_of;
use crate::common_type::{of_compared, takes_one_type};
use crate::comparison::{is_text, operands};
use crate::interval::INTERVAL;
use crate::walk::{contains, has_expression, named, schema_below};
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Cast, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The operator that asks for the common type of the results of a CASE, its left operand.
pub const OF_ONE_TYPE: &str = "of_one_type";

/// Plans comparisons of a BOOLEAN, an interval or a list with a text, and CASE of a text and others, whose
/// types are asked for before a plan is rewritten.
#[derive(Debug)]
pub struct Truths;

impl ExprPlanner for Truths {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{And, Custom, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, Spaceship};
        let RawBinaryExpr { op, mut left, mut right } = expr;
        match &op {
            And | Or => {
                read_texts(vec![&mut left, &mut right], schema, |of| *of == DataType::Boolean);
            }
            Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship => {
                read_texts(vec![&mut left, &mut right], schema, takes_no_text);
            }
            Custom(name) if name == OF_ONE_TYPE => {
                read_results(&mut left, schema);
                return Ok(PlannerResult::Planned(left));
            }
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Gives the texts among the results of a CASE the type of the others, if these are numbers, or all of one
/// type that a text can show.
fn read_results(case: &mut Expr, schema: &DFSchema) {
    let Expr::Case(Case { when_then_expr, else_expr, .. }) = case else { return };
    let results = when_then_expr.iter_mut().map(|(_, result)| result).chain(else_expr);
    let mut results: Vec<&mut Expr> = results.map(Box::as_mut).collect();
    if read_numbers(&mut results, schema) {
        return;
    }
    let given = results.iter().filter(|result| !is_text(result));
    let mut types = given.filter_map(|result| result.get_type(schema).ok()).filter(|of| !of.is_null());
    let Some(first) = types.next() else { return };
    let is_point = matches!(first, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_));
    if (is_point || takes_no_text(&first)) && types.all(|of| of == first) {
        read_texts(results, schema, |of| *of == first);
    }
}

/// The same of what else compares, of the results of a CASE, of what is sought in a subquery, and of the rows
/// that a window reaches.
pub fn beside_texts(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed =
        operands(&mut expression).is_some_and(|compared| read_texts(compared, schema, takes_no_text));
    changed |= match &mut expression {
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter_mut().map(|(_, result)| result).chain(else_expr);
            let mut results: Vec<&mut Expr> = results.map(Box::as_mut).collect();
            read_numbers(&mut results, schema) || read_texts(results, schema, takes_no_text)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. }) if is_text(expr.as_ref()) => {
            let found = subquery.subquery.schema().fields().first().map(|field| field.data_type().clone());
            let found = found.filter(takes_no_text);
            let is_read = found.is_some();
            if let Some(of) = found {
                **expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr.as_mut())), of));
            }
            is_read
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if takes_one_type(func.name()) => {
            args.iter().any(is_text) && exact_texts(args, schema)
        }
        Expr::WindowFunction(call) if matches!(call.fun.name(), "lag" | "lead") => {
            match call.params.args.as_mut_slice() {
                [value, _, default] if is_text(default) => {
                    let is_exact = exact_texts_of(&mut [&mut *value, &mut *default], schema);
                    read_texts(vec![value, default], schema, |of| takes_no_text(of) || of.is_binary())
                        || is_exact
                }
                _ => false,
            }
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expression, changed))
}

/// Makes DECIMALs that have all their digits of texts beside DECIMALs; whether there were any.
fn exact_texts(values: &mut [Expr], schema: &DFSchema) -> bool {
    exact_texts_of(&mut values.iter_mut().collect::<Vec<_>>(), schema)
}

fn exact_texts_of(values: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types = values.iter().map(|value| value.get_type(schema).unwrap_or(DataType::Null));
    let mut types: Vec<DataType> = types.collect();
    of_compared(values, &mut types)
}

/// Says whether DataFusion finds no common type for one and a text.
pub(crate) fn takes_no_text(of: &DataType) -> bool {
    matches!(of, DataType::Boolean | DataType::List(_) | DataType::LargeList(_)) || *of == INTERVAL
}

/// Says whether a text as it is written beside values of a type in a list is one of these. Beside a DECIMAL
/// it has digits of its own.
pub(crate) fn reads_text(of: &DataType) -> bool {
    let is_number = of.is_integer() || of.is_floating();
    is_number || of.is_temporal() || of.is_binary() || takes_no_text(of)
}

/// Gives the texts among the elements of a list the type of the others.
pub(crate) fn read_elements(elements: &mut [Expr], schema: &DFSchema) {
    if !elements.iter().any(is_text) || exact_texts(elements, schema) {
        return;
    }
    let mut elements: Vec<&mut Expr> = elements.iter_mut().collect();
    if !read_numbers(&mut elements, schema) {
        let is_read = |of: &DataType| takes_no_text(of) || of.is_temporal() || of.is_binary();
        read_texts(elements, schema, is_read);
    }
}

/// Makes numbers of the texts among values that are numbers else; whether there were any. Beside a DECIMAL
/// they have all their digits.
fn read_numbers(values: &mut [&mut Expr], schema: &DFSchema) -> bool {
    if !values.iter().any(|value| is_text(value)) {
        return false;
    }
    let Some(of) = common_number(values, schema) else { return false };
    exact_texts_of(values, schema);
    for text in values.iter_mut().filter(|value| is_text(value)) {
        **text = Expr::Cast(Cast::new(Box::new(std::mem::take(*text)), of.clone()));
    }
    true
}

/// Returns the type of the values that are no texts, if all of these are numbers.
fn common_number(values: &[&mut Expr], schema: &DFSchema) -> Option<DataType> {
    let others = values.iter().filter(|value| !is_text(value));
    let types: Vec<DataType> = others.filter_map(|value| value.get_type(schema).ok()).collect();
    common_of_numbers(&types)
}

/// Returns the common type of numbers and NULLs; `None` where all are NULL, or one is something else.
pub(crate) fn common_of_numbers(types: &[DataType]) -> Option<DataType> {
    let mut types = types.iter().filter(|of| !of.is_null());
    let first = types.next().filter(|of| of.is_numeric())?;
    types.try_fold(first.clone(), |common, of| match of.is_numeric() {
        true => type_union_coercion(&common, of),
        false => None,
    })
}

/// Gives the texts among expressions of one type that of another one of them, if it is such a type; whether
/// there were any.
fn read_texts(mut alike: Vec<&mut Expr>, schema: &DFSchema, is_read: impl Fn(&DataType) -> bool) -> bool {
    if !alike.iter().any(|expr| is_text(expr)) {
        return false;
    }
    let given = alike.iter().filter(|expr| !is_text(expr));
    let Some(of) = given.filter_map(|expr| expr.get_type(schema).ok()).find(is_read) else { return false };
    for expr in alike.iter_mut().filter(|expr| is_text(expr)) {
        **expr = Expr::Cast(Cast::new(Box::new(std::mem::take(*expr)), of.clone()));
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
    if !is_boolean || !is_guard || contains(&expression, is_joined) {
        return Ok(Transformed::no(expression));
    }
    let Expr::Case(case) = expression else { return Ok(Transformed::no(expression)) };
    Ok(Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case })))
}

/// Returns a node whose ANDs and ORs compute an operand that divides, or reads texts, only for rows for which
/// those left of it leave the result open, as PostgreSQL does: `b = 0 OR a / b > 2`. The operands of a
/// condition's own AND stay: joins and scans take them one by one, from the left.
pub fn left_first(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let connects = |part: &Expr| connective(part).is_some();
    if matches!(plan, LogicalPlan::TableScan(_)) || !has_expression(&plan, connects) {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan);
    let preserver = NamePreserver::new(&plan);
    let has_conjuncts = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    plan.map_expressions(|expr| {
        named(&preserver, expr, &mut |expr: Expr| {
            if !contains(&expr, |part| divides_or_reads(part, &schema)) {
                return Ok(Transformed::no(expr));
            }
            if !has_conjuncts || connective(&expr) != Some(Operator::And) {
                return expr.transform_down(|part| in_order(part, &schema));
            }
            let (conjuncts, is_changed) = each_in_order(operands_of(expr, Operator::And), &schema)?;
            Ok(Transformed::new_transformed(connected(conjuncts, Operator::And), is_changed))
        })
    })
}

fn connective(expr: &Expr) -> Option<Operator> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => Some(*op),
        _ => None,
    }
}

/// Returns all that an operator connects, in its order.
fn operands_of(expr: Expr, connective: Operator) -> Vec<Expr> {
    let (mut left, mut operands) = (vec![expr], Vec::new());
    while let Some(expr) = left.pop() {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left: first, op, right }) if op == connective => {
                left.push(*right);
                left.push(*first);
            }
            operand => operands.push(operand),
        }
    }
    operands
}

/// Returns operands in their order, connected to a tree that is no deeper than it must be.
fn connected(mut operands: Vec<Expr>, op: Operator) -> Expr {
    while operands.len() > 1 {
        let mut rest = operands.into_iter();
        let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary_expr(left, op, right),
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop().unwrap_or_else(|| lit(op == Operator::And))
}

/// Returns operands that are rewritten apart, and whether any was.
fn each_in_order(operands: Vec<Expr>, schema: &DFSchema) -> Result<(Vec<Expr>, bool)> {
    let (mut all, mut is_changed) = (Vec::with_capacity(operands.len()), false);
    for operand in operands {
        let operand = operand.transform_down(|part| in_order(part, schema))?;
        is_changed |= operand.transformed;
        all.push(operand.data);
    }
    Ok((all, is_changed))
}

fn in_order(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(op) = connective(&expr) else { return Ok(Transformed::no(expr)) };
    if contains(&expr, is_joined) {
        return Ok(Transformed::no(expr));
    }
    let (operands, is_changed) = each_in_order(operands_of(expr, op), schema)?;
    let divides = |operand: &Expr| contains(operand, |part| divides_or_reads(part, schema));
    let last = operands.iter().rposition(divides).unwrap_or_default();
    // What is computed a second time must have the same value then, and be no subquery, and not be such a
    // CASE: those within each other would double their size each time.
    let is_case = |part: &Expr| matches!(part, Expr::Case(_));
    let is_subquery = |part: &Expr| matches!(part, Expr::ScalarSubquery(_));
    let is_once = |operand: &Expr| {
        operand.is_volatile()
            || contains(operand, is_subquery)
            || contains(operand, is_case) && divides(operand)
    };
    if last == 0 || operands.iter().take(last).any(is_once) {
        return Ok(Transformed::new(connected(operands, op), is_changed, TreeNodeRecursion::Jump));
    }
    let mut guards = operands;
    let behind = guards.split_off(last + 1);
    let guarded = guards.split_off(last);
    let mut all = vec![one_by_one(guards, guarded, op, &divides)];
    all.extend(behind);
    Ok(Transformed::new(connected(all, op), true, TreeNodeRecursion::Jump))
}

/// Returns AND or OR of operands, each of which guards those behind it, the last ones that are guarded.
fn one_by_one(guards: Vec<Expr>, guarded: Vec<Expr>, op: Operator, divides: &dyn Fn(&Expr) -> bool) -> Expr {
    let mut groups: Vec<Vec<Expr>> = Vec::new();
    for guard in guards {
        match groups.last_mut() {
            Some(group) if !divides(&guard) && !group.first().is_some_and(divides) => group.push(guard),
            _ => groups.push(vec![guard]),
        }
    }
    let conditions: Vec<Expr> = groups.into_iter().map(|group| connected(group, op)).collect();
    let decided = |condition: &Expr| match op {
        Operator::And => (Box::new(Expr::Not(Box::new(condition.clone()))), Box::new(lit(false))),
        _ => (Box::new(condition.clone()), Box::new(lit(true))),
    };
    let when_then_expr = conditions.iter().map(decided).collect();
    let rest = connected(guarded.into_iter().chain(conditions).collect(), op);
    Expr::Case(Case { expr: Some(Box::new(lit(true))), when_then_expr, else_expr: Some(Box::new(rest)) })
}

/// Says whether an expression is planned as a join. A subquery that stands for a value and depends on no row
/// is computed by itself.
fn is_joined(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        other => matches!(other, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)),
    }
}

/// The name of the function that gives the value of a subquery, or raises the error that was kept in its
/// place.
pub const ASKED: &str = "asked";

/// Says whether an expression, apart from those within it, divides by what may be zero, or reads what may not
/// be of its type; or is a subquery that may have failed.
pub fn divides_or_reads(expr: &Expr, schema: &DFSchema) -> bool {
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let is_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_string());
    let reads = |value: &Expr| !is_constant(value) && is_text(value) && !is_text(expr);
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            !is_constant(right)
        }
        Expr::Cast(Cast { expr: value, .. }) => reads(value),
        Expr::ScalarFunction(ScalarFunction { func, args }) => match args.as_slice() {
            [value] => func.name() == ASKED || func.name() == "cast" && reads(value),
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
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_) => false,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Divide | Operator::Modulo),
        Expr::Cast(Cast { expr, field }) => {
            expr.get_type(schema).is_ok_and(|from| from.is_string())
                || !matches!(field.data_type(), DataType::Int64 | DataType::Float64 | DataType::Boolean)
        }
        _ => true,
    }
}
