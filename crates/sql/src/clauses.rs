//! Rewrites clauses and operators of DuckDB and PostgreSQL that DataFusion does not know to others
//! that it knows: SEMI and ANTI JOIN, ORDER BY ALL, INTERVAL of an expression, `//` and `~`, ORDER
//! BY within any_value(), and the columns of series.

use crate::identifier::fold;
use crate::names::{name_as_written, width};
use crate::walk::{Part, taken, walk_mut};
use sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, Interval, JoinOperator, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator,
    Value, VisitorMut,
};
use sqlparser::tokenizer::Token;
use std::ops::ControlFlow;

/// The words and operators of such statements.
pub const WORDS: [&str; 7] = ["SEMI", "ANTI", "ALL", "INTERVAL", "ANY_VALUE", "RANGE", "GENERATE_SERIES"];

pub fn is_operator(token: &Token) -> bool {
    matches!(token, Token::DuckIntDiv | Token::Tilde)
}

/// Puts the forms that are known in the place of the others.
pub fn rewrite(part: &mut impl Part) {
    let _done = walk_mut(part, &mut Shapes);
}

struct Shapes;

impl VisitorMut for Shapes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(options) = orders_by_all(query)
            && let Some(count) = width(&query.body, &|_| true)
        {
            order_by_all(query, count, options);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut sqlparser::ast::Select) -> ControlFlow<()> {
        name_as_written(&mut select.projection, is_rewritten);
        select.from.iter_mut().for_each(joins);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => joins(table_with_joins),
            TableFactor::Table { name, alias: alias @ None, args: Some(_), .. }
            | TableFactor::Function { name, alias: alias @ None, .. } => {
                if let [ObjectNamePart::Identifier(name)] = name.0.as_slice()
                    && matches!(fold(name).as_str(), "range" | "generate_series")
                {
                    let name = Ident::new(fold(name));
                    let columns = vec![TableAliasColumnDef { name: name.clone(), data_type: None }];
                    *alias = Some(TableAlias { explicit: true, name, columns, at: None });
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Interval(interval) => {
                if let Some(meant) = scaled(interval) {
                    *expr = meant;
                }
            }
            // Integers are divided as integers in both cases.
            Expr::BinaryOp { op: op @ BinaryOperator::DuckIntegerDivide, .. } => *op = BinaryOperator::Divide,
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
                let all = Expr::value(Value::Number("-1".into(), false));
                let (left, right) = (Box::new(Expr::Nested(Box::new(taken(inner)))), Box::new(all));
                let flipped = Expr::BinaryOp { left, op: BinaryOperator::PGBitwiseXor, right };
                *expr = Expr::Nested(Box::new(flipped));
            }
            Expr::Function(function) => first_of_order(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_rewritten(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(interval) => scaled(&mut interval.clone()).is_some(),
        Expr::BinaryOp { op: BinaryOperator::DuckIntegerDivide, .. }
        | Expr::UnaryOp { op: UnaryOperator::BitwiseNot, .. } => true,
        Expr::Function(function) => {
            let mut other = function.clone();
            first_of_order(&mut other);
            other != *function
        }
        _ => false,
    }
}

fn joins(tables: &mut TableWithJoins) {
    for join in &mut tables.joins {
        join.join_operator = match std::mem::replace(&mut join.join_operator, JoinOperator::CrossApply) {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            other => other,
        };
    }
}

/// Returns an interval of as many of a unit as an expression says.
fn scaled(interval: &mut Interval) -> Option<Expr> {
    let unit = interval.leading_field.clone()?;
    let is_written = match interval.value.as_ref() {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::UnaryOp { expr, .. } => matches!(expr.as_ref(), Expr::Value(_)),
        Expr::Nested(inner) => matches!(inner.as_ref(), Expr::Interval(_)),
        _ => false,
    };
    if is_written || interval.last_field.is_some() {
        return None;
    }
    let one = Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString("1".into()))),
        leading_field: Some(singular(unit)),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    };
    let left = Box::new(Expr::Nested(Box::new(taken(&mut interval.value))));
    let right = Box::new(Expr::Interval(one));
    Some(Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Multiply, right })))
}

fn singular(unit: DateTimeField) -> DateTimeField {
    match unit {
        DateTimeField::Years => DateTimeField::Year,
        DateTimeField::Months => DateTimeField::Month,
        DateTimeField::Weeks => DateTimeField::Week(None),
        DateTimeField::Days => DateTimeField::Day,
        DateTimeField::Hours => DateTimeField::Hour,
        DateTimeField::Minutes => DateTimeField::Minute,
        DateTimeField::Seconds => DateTimeField::Second,
        other => other,
    }
}

/// Rewrites `any_value(x ORDER BY …)` as the first value that is not NULL; DataFusion takes any.
fn first_of_order(function: &mut Function) {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice() else { return };
    let FunctionArguments::List(list) = &function.args else { return };
    let orders = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice() else { return };
    if !orders || function.over.is_some() || fold(name) != "any_value" {
        return;
    }
    let known = Expr::IsNotNull(Box::new(Expr::Nested(Box::new(value.clone()))));
    let known = match function.filter.take() {
        Some(filter) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(filter)),
            op: BinaryOperator::And,
            right: Box::new(known),
        },
        None => known,
    };
    function.filter = Some(Box::new(known));
    *name = Ident::new("first_value");
}

/// Returns how a query is ordered by all of its columns, if it is.
fn orders_by_all(query: &Query) -> Option<OrderByOptions> {
    match &query.order_by.as_ref()?.kind {
        OrderByKind::All(options) => Some(*options),
        OrderByKind::Expressions(keys) => match keys.as_slice() {
            [OrderByExpr { expr: Expr::Identifier(name), options, with_fill: None }]
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") =>
            {
                Some(*options)
            }
            _ => None,
        },
    }
}

/// Orders a query by so many columns.
fn order_by_all(query: &mut Query, count: usize, options: OrderByOptions) {
    let key = |number: usize| OrderByExpr {
        expr: Expr::value(Value::Number(number.to_string(), false)),
        options,
        with_fill: None,
    };
    let kind = OrderByKind::Expressions((1..=count).map(key).collect());
    query.order_by = Some(OrderBy { kind, interpolate: None });
}
