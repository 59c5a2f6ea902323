//! ASOF JOIN, which finds for each row the row of another relation that is the nearest by a comparison,
//! among those with equal keys (DuckDB). A mark in the condition, or among the columns behind USING, says
//! which join is one. It becomes a join with those rows that are the last ones before, or the first ones
//! behind: each row knows the next one.

use crate::build;
use crate::call::call;
use crate::identifier::fold;
use crate::phrases::{is_word, next};
use crate::replaced_tokens::blank;
use crate::walk::{Part, checked, done, expressions, expressions_mut, taken, walk_mut};
use hypostyle_error::complexity::too_complex;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    OrderByExpr, OrderByOptions, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitorMut,
    WildcardAdditionalOptions, WindowSpec, WindowType,
};
use sqlparser::tokenizer::Token;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The name of no column, which is the first condition of such a join, or its first column.
const MARK: &str = "asof join";

/// Those of a statement, at most.
const JOINS_MAX: usize = 1000;

/// The column that has the compared value of the next row.
const NEXT: &str = "asof next";

/// What the names of columns behind USING begin with, of the right side, where a statement names them.
const OF_RIGHT: &str = "asof right ";

/// Names of relations and of columns of theirs.
type Names = HashSet<(String, String)>;

/// Returns the tokens in words that are known; `None` where they are known already.
///
/// # Errors
/// `Unsupported` for RIGHT and FULL; `Syntax` (54001) for too many.
pub fn known(tokens: &[Token]) -> Result<Option<Vec<Token>>> {
    if !tokens.iter().any(|token| is_word(Some(token), &["ASOF"])) {
        return Ok(None);
    }
    let mut known = tokens.to_vec();
    let mut count = 0;
    for place in (0..tokens.len()).rev().filter(|place| is_word(tokens.get(*place), &["ASOF"])) {
        let Some(kind) = next(&known, place) else { continue };
        if is_word(known.get(kind), &["RIGHT", "FULL"]) {
            return Err(Error::unsupported("ASOF RIGHT JOIN and ASOF FULL JOIN are not supported"));
        }
        let mut join = Some(kind);
        while let Some(at) = join.filter(|at| is_word(known.get(*at), &["LEFT", "INNER", "OUTER"])) {
            join = next(&known, at);
        }
        let Some(join) = join.filter(|join| is_word(known.get(*join), &["JOIN"])) else { continue };
        let condition = condition_of(&known, join);
        let mark = || Token::make_word(MARK, Some('"'));
        let (at, marks) = match known.get(condition) {
            word if is_word(word, &["ON"]) => {
                let and = Token::make_word("AND", None);
                (condition, vec![blank(), mark(), blank(), and, blank()])
            }
            word if is_word(word, &["USING"]) => {
                let open = next(&known, condition).filter(|open| known[*open] == Token::LParen);
                let Some(open) = open else { continue };
                (open, vec![mark(), Token::Comma, blank()])
            }
            _ => continue,
        };
        count += 1;
        if count > JOINS_MAX {
            return Err(too_complex(format!("it has more than {JOINS_MAX} ASOF JOINs")));
        }
        drop(known.splice(at + 1..at + 1, marks));
        known[place] = blank();
    }
    Ok((count > 0).then_some(known))
}

/// Returns the place of the ON or the USING of a join, or of what follows without one.
fn condition_of(tokens: &[Token], join: usize) -> usize {
    const BEHIND: [&str; 9] =
        ["ON", "USING", "MATCH_CONDITION", "JOIN", "WHERE", "GROUP", "ORDER", "LIMIT", "UNION"];
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(join + 1) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return place,
            },
            token if depth == 0 && is_word(Some(token), &BEHIND) => return place,
            _ => {}
        }
    }
    tokens.len()
}

/// Writes such joins as what they mean.
///
/// # Errors
/// `Syntax` for a condition that is not equalities and one comparison; `Unsupported` for names without their
/// tables in it.
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    checked(walk_mut(part, &mut Joins::default()))
}

#[derive(Default)]
struct Joins {
    /// What the queries around name in their order, from the outside in.
    ordered: Vec<Names>,
}

impl VisitorMut for Joins {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.ordered.push(names_in(&query.order_by));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.ordered.pop();
        if let SetExpr::Select(select) = query.body.as_ref() {
            let hidden = hidden_in(select);
            if !hidden.is_empty() {
                let _done = expressions_mut(&mut query.order_by, &mut |expr| renamed(expr, &hidden));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let mut named = names_in(select);
        named.extend(self.ordered.last().into_iter().flatten().cloned());
        done(select.from.iter_mut().try_for_each(|tables| rewrite_joins(tables, &named)))?;
        name_right(select);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                done(rewrite_joins(table_with_joins, &Names::new()))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns the columns that a part names with their relations.
fn names_in(part: &impl Part) -> Names {
    let mut names = Names::new();
    let _all = expressions(part, &mut |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [relation, column, ..] = parts.as_slice()
        {
            names.insert((fold(relation), fold(column)));
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

/// Returns the columns behind USING that joins of a SELECT have of their right sides.
fn hidden_in(select: &Select) -> Names {
    let mut hidden = Names::new();
    for join in select.from.iter().flat_map(|tables| &tables.joins) {
        let TableFactor::Derived { lateral: true, subquery, alias: Some(alias), .. } = &join.relation else {
            continue;
        };
        let SetExpr::Select(of_right) = subquery.body.as_ref() else { continue };
        let names = of_right.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.value.strip_prefix(OF_RIGHT),
            _ => None,
        });
        hidden.extend(names.map(|name| (fold(&alias.name), name.to_string())));
    }
    hidden
}

/// Names the columns behind USING of right sides as they are called there, and leaves them out of `*`.
fn name_right(select: &mut Select) {
    let hidden = hidden_in(select);
    if hidden.is_empty() {
        return;
    }
    let from = std::mem::take(&mut select.from);
    let written: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let _done = expressions_mut(select, &mut |expr| renamed(expr, &hidden));
    select.from = from;
    for (item, written) in select.projection.iter_mut().zip(written) {
        match item {
            SelectItem::UnnamedExpr(expr) if expr.to_string() != written => {
                let alias = match &*expr {
                    Expr::CompoundIdentifier(parts) if parts.len() == 2 => {
                        build::name(parts[1].value.strip_prefix(OF_RIGHT).unwrap_or_default())
                    }
                    _ => build::name(&written),
                };
                *item = SelectItem::ExprWithAlias { expr: taken(expr), alias };
            }
            SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                leave_out(options, hidden.iter().map(|(_, column)| format!("{OF_RIGHT}{column}")));
            }
            _ => {}
        }
    }
}

fn renamed(expr: &mut Expr, hidden: &Names) -> ControlFlow<()> {
    if let Expr::CompoundIdentifier(parts) = expr
        && let [relation, column, ..] = parts.as_mut_slice()
        && hidden.contains(&(fold(relation), fold(column)))
    {
        *column = build::name(&format!("{OF_RIGHT}{}", fold(column)));
    }
    ControlFlow::Continue(())
}

/// Leaves columns out of what a `*` stands for.
pub(crate) fn leave_out(options: &mut WildcardAdditionalOptions, columns: impl Iterator<Item = String>) {
    let mut excluded = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    excluded.extend(columns.map(|column| ObjectName::from(build::name(&column))));
    options.opt_exclude = Some(ExcludeSelectItem::Multiple(excluded));
}

/// Rewrites the joins of an item of FROM, of whose columns some are named.
fn rewrite_joins(tables: &mut TableWithJoins, named: &Names) -> Result<()> {
    let TableWithJoins { relation, joins } = tables;
    for (place, join) in joins.iter_mut().enumerate() {
        let (constraint, is_left) = match &join.join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, false),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, true),
            _ => continue,
        };
        match constraint {
            JoinConstraint::On(condition) => {
                let mut conditions = Vec::new();
                all_of(condition, &mut conditions);
                if conditions.first().is_some_and(is_mark) {
                    conditions.remove(0);
                    *join = nearest(&join.relation, conditions, is_left, Vec::new(), named)?;
                } else if has_mark(condition) {
                    return Err(wrong());
                }
            }
            JoinConstraint::Using(columns) => {
                let Some(columns) = marked(columns) else { continue };
                let conditions = conditions_of(relation, place == 0, &join.relation, &columns)?;
                *join = nearest(&join.relation, conditions, is_left, columns, named)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_mark(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name) if is_marking(name))
}

fn is_marking(name: &Ident) -> bool {
    name.quote_style.is_some() && name.value == MARK
}

/// Returns the columns of USING behind the mark; `None` without one.
fn marked(columns: &[ObjectName]) -> Option<Vec<Ident>> {
    let columns = columns.iter().map(|column| column.0.last()?.as_ident().cloned());
    let columns = columns.collect::<Option<Vec<_>>>()?;
    columns.split_first().and_then(|(mark, columns)| is_marking(mark).then(|| columns.to_vec()))
}

/// Returns what USING means: the last column of the left side is not less than that of the right one, and all
/// others are equal.
///
/// # Errors
/// `Unsupported` where the left side is no single relation with a name: it is not known here which of
/// several has a column.
fn conditions_of(
    left: &TableFactor,
    is_alone: bool,
    right: &TableFactor,
    columns: &[Ident],
) -> Result<Vec<Expr>> {
    let (Some(left), Some(right)) = (name_of(left).filter(|_| is_alone), name_of(right)) else {
        return Err(Error::unsupported(
            "ASOF JOIN … USING is of two relations with names; write the comparison behind ON",
        ));
    };
    let of =
        |relation: &Ident, column: &Ident| Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
    let conditions = columns.iter().enumerate().map(|(place, column)| {
        let op = if place + 1 == columns.len() { BinaryOperator::GtEq } else { BinaryOperator::Eq };
        build::binary(of(&left, column), op, of(&right, column))
    });
    Ok(conditions.collect())
}

/// Takes a conjunction apart.
fn all_of(condition: &Expr, into: &mut Vec<Expr>) {
    match condition {
        Expr::Nested(inner) => all_of(inner, into),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            all_of(left, into);
            all_of(right, into);
        }
        other => into.push(other.clone()),
    }
}

fn has_mark(condition: &Expr) -> bool {
    let all = expressions(condition, &mut |expr| match is_mark(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    all.is_break()
}

fn wrong() -> Error {
    Error::new(
        ErrorKind::Syntax,
        "the condition of an ASOF JOIN is equalities and one comparison (>=, >, <= or <), joined by AND, each of a \
         value of one side with one of the other",
    )
}

/// Returns the join with the nearest row, without the columns that are those of the left side. Of these it
/// has those that are named as columns of the relation, under names of their own.
fn nearest(
    relation: &TableFactor,
    conditions: Vec<Expr>,
    is_left: bool,
    merged: Vec<Ident>,
    named: &Names,
) -> Result<Join> {
    let Some(name) = name_of(relation) else {
        return Err(Error::unsupported(
            "an ASOF JOIN with a relation without a name is not supported; write AS",
        ));
    };
    let mut keys = Vec::new();
    let mut compared = None;
    for condition in &conditions {
        let Expr::BinaryOp { left, op, right } = condition else { return Err(wrong()) };
        let (own, other, op) = match (is_of(left, &name)?, is_of(right, &name)?) {
            (false, true) => (right, left, op.clone()),
            (true, false) => (left, right, turned(op)),
            _ => return Err(wrong()),
        };
        match op {
            BinaryOperator::Eq => keys.push(own.as_ref().clone()),
            BinaryOperator::Gt | BinaryOperator::GtEq | BinaryOperator::Lt | BinaryOperator::LtEq
                if compared.is_none() =>
            {
                compared = Some((own.as_ref().clone(), other.as_ref().clone(), op));
            }
            _ => return Err(wrong()),
        }
    }
    let Some((own, other, op)) = compared else { return Err(wrong()) };
    // Not met by the row that is the next one.
    let (is_ascending, beyond) = match op {
        BinaryOperator::GtEq => (true, BinaryOperator::Lt),
        BinaryOperator::Gt => (true, BinaryOperator::LtEq),
        BinaryOperator::LtEq => (false, BinaryOperator::Gt),
        _ => (false, BinaryOperator::GtEq),
    };
    let following = || Expr::CompoundIdentifier(vec![name.clone(), build::name(NEXT)]);
    let is_last = build::any_of([build::binary(other, beyond, following()), build::is_null(following())]);
    let rows = with_next(relation, keys, own, is_ascending);
    let is_named = |column: &&Ident| named.contains(&(fold(&name), fold(column)));
    let of_right = |column: &Ident| {
        let value = Expr::CompoundIdentifier(vec![name.clone(), column.clone()]);
        build::item_named(value, &format!("{OF_RIGHT}{}", fold(column)))
    };
    let of_right: Vec<SelectItem> = merged.iter().filter(is_named).map(of_right).collect();
    let excluded = std::iter::once(build::name(NEXT)).chain(merged).map(ObjectName::from);
    let opt_exclude = Some(ExcludeSelectItem::Multiple(excluded.collect()));
    let own_columns = SelectItem::Wildcard(WildcardAdditionalOptions {
        opt_exclude,
        ..WildcardAdditionalOptions::default()
    });
    let from = vec![build::alone(build::derived(rows, name.clone()))];
    let items = std::iter::once(own_columns).chain(of_right).collect();
    let query = build::select_where(items, from, build::all_of(conditions.into_iter().chain(is_last)));
    let relation = TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query),
        alias: Some(build::called(name, Vec::new())),
        sample: None,
    };
    let join_operator = match is_left {
        true => JoinOperator::LeftOuter(JoinConstraint::On(build::truth(true))),
        false => JoinOperator::CrossJoin(JoinConstraint::None),
    };
    Ok(Join { relation, global: false, join_operator })
}

/// Returns the rows of a relation with the value of the next one among those of the same keys.
fn with_next(relation: &TableFactor, keys: Vec<Expr>, value: Expr, is_ascending: bool) -> Query {
    let mut next = call("lead", vec![value.clone()]);
    if let Expr::Function(function) = &mut next {
        let options = OrderByOptions { asc: Some(is_ascending), ..OrderByOptions::default() };
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: keys,
            order_by: vec![OrderByExpr { expr: value, options, with_fill: None }],
            window_frame: None,
        }));
    }
    let items = vec![build::every_column(), build::item_named(next, NEXT)];
    build::select(items, vec![relation.clone()])
}

/// Returns the name by which columns of a relation are called.
pub(crate) fn name_of(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    }
}

/// Returns the comparison with its sides exchanged.
fn turned(op: &BinaryOperator) -> BinaryOperator {
    match op {
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        other => other.clone(),
    }
}

/// Says whether an expression is of columns of a relation, or of none of them.
fn is_of(expr: &Expr, name: &Ident) -> Result<bool> {
    let (mut own, mut others) = (false, false);
    let all = expressions(expr, &mut |part| {
        match part {
            Expr::Identifier(column) => return ControlFlow::Break(column.value.clone()),
            Expr::CompoundIdentifier(parts) => match parts.first() {
                Some(first) if fold(first) == fold(name) => own = true,
                _ => others = true,
            },
            _ => {}
        }
        ControlFlow::Continue(())
    });
    if let ControlFlow::Break(column) = all {
        return Err(Error::unsupported(format!(
            "the column \"{column}\" in the condition of an ASOF JOIN needs the name of its table before it"
        )));
    }
    if own && others { Err(wrong()) } else { Ok(own) }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse_query};

    fn read(sql: &str) -> Result<String, hypostyle_types::Error> {
        parse_query(sql, &Extension::NONE).map(|query| query.to_string())
    }

    #[test]
    fn the_nearest_row_is_the_one_whose_next_is_beyond() {
        for (sql, meant) in [
            (
                "SELECT * FROM t ASOF JOIN u ON t.k = u.k AND t.ts >= u.ts",
                "SELECT * FROM t CROSS JOIN LATERAL (SELECT * EXCLUDE (\"asof next\") FROM (SELECT *, \
                 lead(u.ts) OVER (PARTITION BY u.k ORDER BY u.ts ASC) AS \"asof next\" FROM u) AS u WHERE t.k = u.k \
                 AND t.ts >= u.ts AND (t.ts < u.\"asof next\" OR u.\"asof next\" IS NULL)) AS u",
            ),
            (
                "SELECT * FROM t ASOF LEFT JOIN s.u AS v ON v.ts > t.ts",
                "SELECT * FROM t LEFT OUTER JOIN LATERAL (SELECT * EXCLUDE (\"asof next\") FROM (SELECT *, \
                 lead(v.ts) OVER (ORDER BY v.ts DESC) AS \"asof next\" FROM s.u AS v) AS v WHERE v.ts > t.ts \
                 AND (t.ts >= v.\"asof next\" OR v.\"asof next\" IS NULL)) AS v ON true",
            ),
            (
                "SELECT * FROM t ASOF JOIN u USING (k, ts)",
                "SELECT * FROM t CROSS JOIN LATERAL (SELECT * EXCLUDE (\"asof next\", k, ts) FROM (SELECT *, \
                 lead(u.ts) OVER (PARTITION BY u.k ORDER BY u.ts ASC) AS \"asof next\" FROM u) AS u WHERE t.k = u.k \
                 AND t.ts >= u.ts AND (t.ts < u.\"asof next\" OR u.\"asof next\" IS NULL)) AS u",
            ),
            (
                "SELECT * FROM t AS a ASOF LEFT JOIN u AS b USING (ts)",
                "SELECT * FROM t AS a LEFT OUTER JOIN LATERAL (SELECT * EXCLUDE (\"asof next\", ts) FROM (SELECT *, \
                 lead(b.ts) OVER (ORDER BY b.ts ASC) AS \"asof next\" FROM u AS b) AS b WHERE a.ts >= b.ts \
                 AND (a.ts < b.\"asof next\" OR b.\"asof next\" IS NULL)) AS b ON true",
            ),
            (
                "SELECT *, b.ts FROM t AS a ASOF LEFT JOIN u AS b USING (ts) ORDER BY b.ts",
                "SELECT * EXCLUDE (\"asof right ts\"), b.\"asof right ts\" AS \"ts\" FROM t AS a LEFT OUTER JOIN LATERAL \
                 (SELECT * EXCLUDE (\"asof next\", ts), b.ts AS \"asof right ts\" FROM (SELECT *, \
                 lead(b.ts) OVER (ORDER BY b.ts ASC) AS \"asof next\" FROM u AS b) AS b WHERE a.ts >= b.ts \
                 AND (a.ts < b.\"asof next\" OR b.\"asof next\" IS NULL)) AS b ON true ORDER BY b.\"asof right ts\"",
            ),
        ] {
            assert_eq!(read(sql).unwrap(), read(meant).unwrap(), "{sql}");
        }
    }

    #[test]
    fn other_conditions_are_refused() {
        for (sql, state) in [
            ("SELECT * FROM t ASOF JOIN u ON t.k = u.k", "42601"),
            ("SELECT * FROM t ASOF JOIN u ON t.a >= u.a AND t.b >= u.b", "42601"),
            ("SELECT * FROM t ASOF JOIN u ON t.a >= u.a OR t.b = u.b", "42601"),
            ("SELECT * FROM t ASOF JOIN u ON t.a <> u.a AND t.b >= u.b", "42601"),
            ("SELECT * FROM t ASOF JOIN u ON a >= u.a", "0A000"),
            ("SELECT * FROM t, s CROSS JOIN r ASOF JOIN u USING (a)", "0A000"),
            ("SELECT * FROM (SELECT 1 AS a) ASOF JOIN u USING (a)", "0A000"),
            ("SELECT * FROM t ASOF FULL JOIN u ON t.a >= u.a", "0A000"),
        ] {
            assert_eq!(read(sql).unwrap_err().sqlstate(), state, "{sql}");
        }
        assert!(read("SELECT asof FROM t").is_ok());
        let many = vec!["(SELECT 1 FROM t ASOF JOIN u ON t.a >= u.a)"; super::JOINS_MAX + 1].join(", ");
        assert_eq!(read(&format!("SELECT {many}")).unwrap_err().sqlstate(), "54001");
    }
}
