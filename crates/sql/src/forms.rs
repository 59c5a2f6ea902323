//! Rewrites forms of queries that DataFusion does not know, or ignores, to forms that it knows:
//! `FROM t` alone, FETCH FIRST, TABLESAMPLE, AT TIME ZONE and powers.

use crate::call::call;
use crate::identifier::fold;
use crate::macros::expanded;
use crate::names::name_as_written;
use crate::operators::ANY_EQUAL;
use crate::plain::constraint_of;
use crate::samples::{PERCENT_OF_ROWS, ROWS_OF_LIMIT, ROWS_OF_OFFSET, ROWS_WITH_TIES, SAMPLED_ROW};
use crate::walk::{checked, done, expressions, expressions_mut, taken, walk, walk_mut};
use crate::{build, calls, clauses, like_lists, lists, overlaps};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Array, BinaryOperator, CastKind, DataType, ExcludeSelectItem, Expr, Fetch, Function, Join,
    JoinConstraint, LimitClause, NormalizationForm, ObjectName, ObjectNamePart, Query, Select, SelectFlavor,
    SelectItem, Statement, TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleMethod,
    TableSampleUnit, TableWithJoins, UnaryOperator, Value, Visitor, VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

/// The name of a function that users never call: it gives its first argument, which the second one tells from
/// others.
pub const OPERAND: &str = "__operand";

/// Puts the forms that are known in the place of the others.
///
/// # Errors
/// `Unsupported` for a sample or a FETCH that cannot be had.
pub fn rewrite(statement: &mut Statement) -> Result<()> {
    checked(walk_mut(statement, &mut Forms::default()))
}

#[derive(Default)]
struct Forms {
    /// Volatile calls that have been told apart.
    told_apart: usize,
}

impl VisitorMut for Forms {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(fetch) = query.fetch.take()
            && let Err(error) = limit(query, fetch)
        {
            return ControlFlow::Break(error);
        }
        if let Err(error) = numbers_of_rows(query) {
            return ControlFlow::Break(error);
        }
        count_by_calls(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        name_as_written(&mut select.projection, |expr| is_json(expr) || is_rewritten(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let Some(query) = merging_join(factor) {
            *factor = query;
        }
        // DataFusion takes the name of a function in FROM as it is written.
        if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor
            && let [ObjectNamePart::Identifier(name)] = name.0.as_mut_slice()
            && name.quote_style.is_none()
        {
            name.value = fold(name);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        // A list in the place of a function has no sample.
        let sample = taken_sample(factor);
        done(lists::rewrite(factor).and_then(|()| match sample {
            Some(sample) => take_sample(factor, &sample),
            None => Ok(()),
        }))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(meant) = overlaps::called(expr) {
            *expr = meant;
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::CompoundFieldAccess { access_chain, .. } => {
                access_chain.iter_mut().for_each(|access| _ = lists::close(access));
                ControlFlow::Continue(())
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let (timestamp, zone) = (taken(timestamp), taken(time_zone));
                *expr = call("timezone", vec![zone, timestamp]);
                ControlFlow::Continue(())
            }
            // DataFusion plans what is in ARRAY[…] without the names of WITH and of the queries around.
            Expr::Array(array) if has_names(array) => {
                *expr = call("make_array", std::mem::take(&mut array.elem));
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor | BinaryOperator::PGExp, right } => {
                *expr = call("power", vec![taken(left), taken(right)]);
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: BinaryOperator::AtArrow, right } => {
                *expr = call("array_has_all", vec![taken(left), taken(right)]);
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: BinaryOperator::ArrowAt, right } => {
                *expr = call("array_has_all", vec![taken(right), taken(left)]);
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGOverlap, right } => {
                *expr = call("array_has_any", vec![taken(left), taken(right)]);
                ControlFlow::Continue(())
            }
            Expr::UnaryOp {
                op: op @ (UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot | UnaryOperator::PGAbs),
                expr: of,
            } => {
                let function = match op {
                    UnaryOperator::PGSquareRoot => "sqrt",
                    UnaryOperator::PGCubeRoot => "cbrt",
                    _ => "abs",
                };
                *expr = call(function, vec![taken(of)]);
                ControlFlow::Continue(())
            }
            Expr::IsNormalized { expr: of, form, negated } => {
                let form = form.take().unwrap_or(NormalizationForm::NFC);
                let is_normal = call("is_normalized", vec![taken(of), build::text(&form.to_string())]);
                *expr = if *negated { build::not(is_normal) } else { is_normal };
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
                *expr = call("starts_with", vec![taken(left), taken(right)]);
                ControlFlow::Continue(())
            }
            Expr::IsTrue(inner) => {
                *expr = told(inner, true, true);
                ControlFlow::Continue(())
            }
            Expr::IsNotTrue(inner) => {
                *expr = told(inner, true, false);
                ControlFlow::Continue(())
            }
            Expr::IsFalse(inner) => {
                *expr = told(inner, false, true);
                ControlFlow::Continue(())
            }
            Expr::IsNotFalse(inner) => {
                *expr = told(inner, false, false);
                ControlFlow::Continue(())
            }
            Expr::IsNotDistinctFrom(left, right) if is_text(left) || is_text(right) => {
                *expr = alike(left, right);
                ControlFlow::Continue(())
            }
            Expr::IsDistinctFrom(left, right) if is_text(left) || is_text(right) => {
                let alike = Box::new(Expr::Nested(Box::new(alike(left, right))));
                *expr = Expr::UnaryOp { op: UnaryOperator::Not, expr: alike };
                ControlFlow::Continue(())
            }
            Expr::Function(function) => {
                tell_apart(function, &mut self.told_apart);
                calls::leave_out_places(function);
                match expanded(function).or_else(|| calls::rewritten(function)) {
                    Some(meant) => *expr = meant,
                    None => calls::rename(function),
                }
                ControlFlow::Continue(())
            }
            // If both are parameters, or NULL, nothing says that they are texts.
            Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right }
                if has_no_type(left) && has_no_type(right) =>
            {
                let expr = Box::new(taken(left));
                let kind = CastKind::DoubleColon;
                **left = Expr::Cast { kind, expr, data_type: DataType::Text, array: false, format: None };
                ControlFlow::Continue(())
            }
            Expr::Like { escape_char: Some(escape), .. } | Expr::ILike { escape_char: Some(escape), .. }
                if escape.value == Value::Null =>
            {
                let (kind, expr_of) = (CastKind::Cast, Box::new(Expr::Value(Value::Null.into())));
                let data_type = DataType::Boolean;
                *expr = Expr::Cast { kind, expr: expr_of, data_type, array: false, format: None };
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Says whether what is in ARRAY[…] names a column, or has a query.
fn has_names(array: &Array) -> bool {
    struct Names;
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk(&array.elem, &mut Names).is_break()
}

/// Functions that give something else each time.
const VOLATILE: [&str; 9] = [
    "array_sample",
    "array_shuffle",
    "gen_random_uuid",
    "random",
    "random_between",
    "random_normal",
    "uuid",
    "uuidv4",
    "uuidv7",
];

fn is_call_of(expr: &Expr, name: &str) -> bool {
    let Expr::Function(function) = expr else { return false };
    matches!(function.name.0.as_slice(), [ObjectNamePart::Identifier(of)] if of.value.eq_ignore_ascii_case(name))
}

fn has_operand(arguments: &sqlparser::ast::FunctionArguments) -> bool {
    let is_operand = |expr: &Expr| match is_call_of(expr, OPERAND) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    expressions(arguments, &mut |expr| is_operand(expr)).is_break()
}

/// Aggregates over windows that are written alike are computed once, which volatile calls in them
/// are not to be.
fn tell_apart(function: &mut Function, made: &mut usize) {
    // Those of a statement that is read again have been told apart.
    if function.over.is_none() || has_operand(&function.args) {
        return;
    }
    let is_volatile = |expr: &Expr| VOLATILE.iter().any(|name| is_call_of(expr, name));
    let _done = expressions_mut(&mut function.args, &mut |expr| {
        if is_volatile(expr) {
            *made += 1;
            let number = Expr::Value(Value::SingleQuotedString(made.to_string()).into());
            *expr = call(OPERAND, vec![taken(expr), number]);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Rewrites `x = ANY (list)`, `x <> ALL (list)` and `x LIKE ANY (list)` as functions that handle NULLs.
pub fn rewrite_any(statement: &mut Statement) {
    let _done = expressions_mut(statement, &mut |expr| {
        use BinaryOperator::{Eq, NotEq};
        if let Some(call) = like_lists::rewritten(expr) {
            *expr = call;
            return ControlFlow::Continue(());
        }
        if let Expr::AnyOp { left, compare_op, right, .. } = expr
            && let Some(compare_op) = denied(compare_op)
            && !matches!(right.as_ref(), Expr::Subquery(_))
        {
            // What DataFusion makes of ANY is false where an element is NULL, but not what it makes
            // of ALL.
            let (left, right) = (Box::new(taken(left)), Box::new(taken(right)));
            let all = Expr::Nested(Box::new(Expr::AllOp { left, compare_op, right }));
            *expr = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(all) };
            return ControlFlow::<()>::Continue(());
        }
        let (left, right, denied) = match expr {
            Expr::AnyOp { left, compare_op: Eq, right, .. } => (left, right, false),
            Expr::AllOp { left, compare_op: NotEq, right } => (left, right, true),
            _ => return ControlFlow::<()>::Continue(()),
        };
        if !matches!(right.as_ref(), Expr::Subquery(_)) {
            let found = call(ANY_EQUAL, vec![taken(right), taken(left)]);
            *expr = match denied {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
                false => found,
            };
        }
        ControlFlow::Continue(())
    });
}

/// The comparison that is true where another one than `=` is false.
fn denied(comparison: &BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    Some(match comparison {
        NotEq => Eq,
        Lt => GtEq,
        LtEq => Gt,
        Gt => LtEq,
        GtEq => Lt,
        _ => return None,
    })
}

/// Returns `x IS TRUE` and the like. DataFusion takes these for NULL in some places and not in
/// others.
fn told(inner: &mut Expr, truth: bool, is: bool) -> Expr {
    let (left, right) =
        (Box::new(Expr::Nested(Box::new(taken(inner)))), Box::new(Expr::value(Value::Boolean(truth))));
    match is {
        true => Expr::IsNotDistinctFrom(left, right),
        false => Expr::IsDistinctFrom(left, right),
    }
}

/// `x IS NOT DISTINCT FROM y` as an operator: DataFusion asks whoever plans these what a text
/// beside a BOOLEAN is.
fn alike(left: &mut Expr, right: &mut Expr) -> Expr {
    let (left, right) = (Box::new(taken(left)), Box::new(taken(right)));
    Expr::BinaryOp { left, op: BinaryOperator::Spaceship, right }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_rewritten(expr: &Expr) -> bool {
    use BinaryOperator::{ArrowAt, AtArrow, PGOverlap, PGStartsWith};
    if let Expr::BinaryOp { op: ArrowAt | AtArrow | PGOverlap | PGStartsWith, .. } | Expr::AnyOp { .. } = expr
    {
        return true;
    }
    if let Expr::Array(array) = expr {
        return has_names(array);
    }
    if let Expr::Function(function) = expr {
        return expanded(function).is_some()
            || calls::rewritten(function).is_some()
            || calls::leave_out_places(&mut function.clone());
    }
    if let Expr::CompoundFieldAccess { access_chain, .. } = expr
        && access_chain.clone().iter_mut().any(lists::close)
    {
        return true;
    }
    if overlaps::called(expr).is_some() || like_lists::is_one(expr) {
        return true;
    }
    matches!(
        expr,
        Expr::AtTimeZone { .. }
            | Expr::IsNormalized { .. }
            | Expr::AnyOp { .. }
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::AllOp { .. }
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::BinaryOp { op: BinaryOperator::BitwiseXor | BinaryOperator::PGExp, .. }
            | Expr::BinaryOp { op: BinaryOperator::HashLongArrow, .. }
            | Expr::UnaryOp {
                op: UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot | UnaryOperator::PGAbs,
                ..
            }
    ) || matches!(expr, Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } if has_no_type(left) && has_no_type(right))
}

fn has_no_type(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_) | Value::Null))
}

fn is_json(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Arrow | BinaryOperator::HashArrow, .. } => true,
        Expr::Nested(inner) => is_json(inner),
        _ => false,
    }
}

/// Returns `(a JOIN b USING (k)) AS j` as a query of this alias, in which the merged columns are one each:
/// DataFusion leaves those of both tables to `j`.
fn merging_join(factor: &mut TableFactor) -> Option<TableFactor> {
    let TableFactor::NestedJoin { table_with_joins, alias } = factor else { return None };
    if !merges_in(table_with_joins) {
        return None;
    }
    let alias = Some(alias.take()?);
    let query =
        build::select_where(vec![build::every_column()], vec![table_with_joins.as_ref().clone()], None);
    Some(TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None })
}

/// Says whether one of some joins, also in parentheses, merges columns.
fn merges_in(tables: &TableWithJoins) -> bool {
    let mut relations =
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
    tables.joins.iter().any(merges)
        || relations.any(|relation| match relation {
            TableFactor::NestedJoin { table_with_joins, alias: None } => merges_in(table_with_joins),
            _ => false,
        })
}

/// Says whether a join is NATURAL or has USING.
fn merges(join: &Join) -> bool {
    let constraint = constraint_of(&join.join_operator);
    matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
}

/// Rewrites FETCH FIRST n ROWS ONLY (ISO/IEC 9075-2, 7.17) as LIMIT n, and WITH TIES as a call in the place
/// of the number.
fn limit(query: &mut Query, Fetch { with_ties, percent, quantity }: Fetch) -> Result<()> {
    if percent {
        return Err(Error::unsupported("FETCH … PERCENT is not supported; write LIMIT 10 PERCENT"));
    }
    if with_ties && query.order_by.is_none() {
        return Err(Error::new(
            ErrorKind::Syntax,
            "WITH TIES needs ORDER BY, which says which rows are equal",
        ));
    }
    let rows = quantity.unwrap_or_else(|| Expr::Value(Value::Number("1".into(), false).into()));
    let rows = match with_ties {
        true => call(ROWS_WITH_TIES, vec![build::cast(rows, DataType::BigInt(None))]),
        false => rows,
    };
    match &mut query.limit_clause {
        None => {
            let (limit, limit_by) = (Some(rows), Vec::new());
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => return Err(Error::new(ErrorKind::Syntax, "a query has LIMIT or FETCH FIRST, not both")),
    }
    Ok(())
}

/// Returns the numbers of LIMIT and of OFFSET.
fn limits(query: &mut Query) -> (Option<&mut Expr>, Option<&mut Expr>) {
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            (limit.as_mut(), offset.as_mut().map(|offset| &mut offset.value))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        None => (None, None),
    }
}

/// Takes texts as they are written, in LIMIT and OFFSET, for the numbers that they show (PostgreSQL).
fn numbers_of_rows(query: &mut Query) -> Result<()> {
    let (limit, offset) = limits(query);
    for rows in [limit, offset].into_iter().flatten() {
        let Expr::Value(value) = rows else { continue };
        let Value::SingleQuotedString(text) = &value.value else { continue };
        let number: u64 = text.trim().parse().map_err(|_| {
            let message = format!("LIMIT and OFFSET have numbers of rows, and '{text}' is none");
            Error::invalid_input(message).with_sqlstate("22P02")
        })?;
        *rows = build::number(number);
    }
    Ok(())
}

/// Makes numbers of rows that a subquery has, in LIMIT and OFFSET, calls of functions.
fn count_by_calls(query: &mut Query) {
    let (limit, offset) = limits(query);
    for (rows, name) in [(limit, ROWS_OF_LIMIT), (offset, ROWS_OF_OFFSET)] {
        if let Some(rows) = rows.filter(|rows| has_subquery(rows)) {
            let number = std::mem::replace(rows, build::null());
            *rows = call(name, vec![build::cast(number, DataType::BigInt(None))]);
        }
    }
}

/// Whether a number of rows is computed by a subquery, and no call stands for it yet.
fn has_subquery(rows: &Expr) -> bool {
    let is_call = matches!(rows, Expr::Function(function)
        if [PERCENT_OF_ROWS, ROWS_OF_LIMIT, ROWS_OF_OFFSET].contains(&function.name.to_string().as_str()));
    let mut has_one = |part: &Expr| match part {
        Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    !is_call && expressions(rows, &mut has_one).is_break()
}

fn taken_sample(factor: &mut TableFactor) -> Option<Box<TableSample>> {
    let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) = factor else {
        return None;
    };
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        sample.take()?;
    Some(sample)
}

/// Rewrites a sample as a filter, which each row passes with the given probability (ISO/IEC 9075-2, 7.6,
/// BERNOULLI), or as so many rows in an order by chance; with a seed, what is left to chance is the same
/// for the same rows.
fn take_sample(factor: &mut TableFactor, sample: &TableSample) -> Result<()> {
    let sampled = Sampled::read(sample)?;
    let last = |name: &ObjectName| name.0.last()?.as_ident().cloned();
    let alias = match &mut *factor {
        TableFactor::Table { name, alias, .. } => alias.take().or_else(|| {
            last(name).map(|name| TableAlias { explicit: true, name, columns: Vec::new(), at: None })
        }),
        TableFactor::Derived { alias, .. } | TableFactor::UNNEST { alias, .. } => alias.clone(),
        _ => None,
    };
    if let TableFactor::Table { .. } = factor {
        // Without the name that the query gives it, a function is called as if it had never had one.
        clauses::rewrite(factor);
        lists::rewrite(factor)?;
    }
    let subquery = Box::new(sampled.query_of(factor.clone()));
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}

/// What a sample has of the rows.
enum Share {
    Rows(u64),
    /// A percentage from 0 to 100.
    Percent(f64),
}

struct Sampled {
    share: Share,
    /// What makes it the same rows each time.
    seed: Option<String>,
}

impl Sampled {
    /// Reads a sample.
    fn read(sample: &TableSample) -> Result<Self> {
        let refused = || {
            Error::unsupported(format!(
                "{sample} is not supported: write TABLESAMPLE BERNOULLI (percentage) or TABLESAMPLE (number ROWS), and \
                 REPEATABLE (number) behind it for the same rows each time"
            ))
        };
        let number = |value: &Value| match value {
            Value::Number(number, _) => Some(number.clone()),
            _ => None,
        };
        let quantity = sample.quantity.as_ref().ok_or_else(refused)?;
        let Expr::Value(value) = &quantity.value else { return Err(refused()) };
        let value = number(&value.value).ok_or_else(refused)?;
        if sample.bucket.is_some() || sample.offset.is_some() {
            return Err(refused());
        }
        let seed = sample.seed.as_ref().map(|seed| number(&seed.value.value).ok_or_else(refused));
        let share = match (&sample.name, &quantity.unit) {
            // A number alone is one of rows, as in DuckDB.
            (None, None | Some(TableSampleUnit::Rows)) => Share::Rows(value.parse().map_err(|_| refused())?),
            (
                None | Some(TableSampleMethod::Bernoulli | TableSampleMethod::System),
                None | Some(TableSampleUnit::Percent),
            ) => Share::Percent(value.parse().map_err(|_| refused())?),
            _ => return Err(refused()),
        };
        match share {
            Share::Percent(percent) if !(0.0..=100.0).contains(&percent) => {
                let message = format!("a sample has 0 to 100 percent of the rows, not {percent}");
                Err(Error::invalid_input(message).with_sqlstate("2202H"))
            }
            share => Ok(Self { share, seed: seed.transpose()? }),
        }
    }

    /// Returns a query for the sample of a relation.
    ///
    /// Each row has, with a seed, a place that comes of its values, and of which of the rows with these
    /// values it is: in whatever order the rows are read, whatever their columns are called, and in
    /// whichever zone a session shows them, the sample has the same ones.
    fn query_of(&self, relation: TableFactor) -> Query {
        let chance = || call("random", Vec::new());
        match (&self.seed, &self.share) {
            (None, Share::Rows(rows)) => {
                build::limited(build::ordered(build::all_rows(relation), vec![chance()]), *rows)
            }
            (None, Share::Percent(percent)) => {
                let end = Expr::value(Value::Number(format!("{percent:?}"), false));
                let place = build::binary(chance(), BinaryOperator::Multiply, build::number(100));
                let is_before = build::binary(place, BinaryOperator::Lt, end);
                let from = vec![build::alone(relation)];
                build::select_where(vec![build::every_column()], from, Some(is_before))
            }
            (Some(seed), Share::Rows(rows)) => {
                let placed = build::select(vec![all_but_place()], vec![placed(relation, seed)]);
                build::limited(build::ordered(placed, vec![build::column(PLACE)]), *rows)
            }
            (Some(seed), Share::Percent(percent)) => {
                let end = build::text(&places_end(*percent));
                let is_before = build::binary(build::column(PLACE), BinaryOperator::Lt, end);
                let from = vec![build::alone(placed(relation, seed))];
                build::select_where(vec![all_but_place()], from, Some(is_before))
            }
        }
    }
}

/// What a row of a sample with a seed is called, and its place, which is 32 digits to the base of 16.
const ROW: &str = "__sampled";
const PLACE: &str = "__place";

/// Returns the rows of a relation with their places.
fn placed(relation: TableFactor, seed: &str) -> TableFactor {
    let values = call("md5", vec![call(SAMPLED_ROW, vec![build::column(ROW)])]);
    let number = build::cast(build::row_number(vec![values.clone()], Vec::new()), DataType::Text);
    let parts = vec![build::text(&format!("{seed} ")), number, build::text(" "), values];
    let place = build::item_named(call("md5", vec![call("concat", parts)]), PLACE);
    let rows = build::derived(build::all_rows(relation), build::name(ROW));
    build::derived(build::select(vec![build::every_column(), place], vec![rows]), build::name(ROW))
}

fn all_but_place() -> SelectItem {
    let place = ExcludeSelectItem::Multiple(vec![build::name(PLACE).into()]);
    SelectItem::Wildcard(WildcardAdditionalOptions { opt_exclude: Some(place), ..Default::default() })
}

/// Returns the first digits of the place before which so many percent of all places are.
fn places_end(percent: f64) -> String {
    if percent >= 100.0 {
        // Behind all digits.
        return "g".to_string();
    }
    format!("{:013x}", (percent / 100.0 * 16_f64.powi(13)) as u64)
}
