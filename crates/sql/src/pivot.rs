//! PIVOT and UNPIVOT of a relation as the queries that they stand for: aggregates with FILTER over the groups
//! that all other columns make, and the rows of lists. Neither is a form that DataFusion plans.
//!
//! A PIVOT that names no values, and an UNPIVOT by `COLUMNS(…)`, wait until somebody has asked the relation
//! for them ([`asked`], [`fill`]).

use crate::build;
use crate::call::call;
use crate::identifier::fold;
use crate::walk::{Part, checked, expressions, parts_of, walk_mut};
use hypostyle_error::complexity::too_complex;
use hypostyle_types::{Error, Result};
use sqlparser::ast::{
    DataType, Distinct, ExcludeSelectItem, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, NullInclusion, ObjectName, ObjectNamePart, PivotValueSource,
    Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, UnaryOperator, Value, VisitorMut,
    WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

/// The call among the aggregates of a PIVOT that has the expressions of its GROUP BY.
pub const GROUPS: &str = "pivot_groups";

/// The calls that have the values of each column, where there are several; `*` for those that there are.
pub const VALUES: &str = "pivot_values";

/// Columns that a PIVOT may make.
const COLUMNS_MAX: usize = 2000;

/// Parts of the expressions that stand for these columns, and the bytes of their texts.
const PARTS_MAX: usize = 200_000;
const BYTES_MAX: usize = 8 << 20;

/// Relations that are pivoted again, each of which is a subquery of the next.
const LEVELS_MAX: usize = 32;

/// Writes each PIVOT and UNPIVOT as the query that it stands for, if it says all of itself.
///
/// # Errors
/// `Unsupported` for the forms of other systems; `InvalidInput` (54011) for too many columns; `Syntax`
/// (54001) for too many of them behind each other.
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    checked(walk_mut(part, &mut Pivots { depth: 0 }))
}

struct Pivots {
    /// How many of them are around.
    depth: usize,
}

fn is_one(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Pivot { .. } | TableFactor::Unpivot { .. })
}

impl VisitorMut for Pivots {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.depth += usize::from(is_one(factor));
        match self.depth > LEVELS_MAX {
            true => ControlFlow::Break(too_complex("too many PIVOTs and UNPIVOTs stand behind each other")),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.depth -= usize::from(is_one(factor));
        match meant(factor) {
            Ok(Some(meant)) => {
                *factor = meant;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// What is to be asked before a PIVOT or an UNPIVOT says all of itself.
pub enum Asked {
    /// The texts of one column, in their order.
    Values(Query),
    /// The names of the columns.
    Names(Query),
}

/// Returns what the first one in FROM wants to know.
pub fn asked(select: &Select) -> Option<Asked> {
    let factor = relations(&select.from).find_map(first_waiting)?;
    match factor {
        TableFactor::Pivot { table, value_column, value_source, .. } => {
            let column = value_column.get(waiting_place(value_source)?)?;
            Some(Asked::Values(values_of(column.clone(), table.as_ref().clone())))
        }
        TableFactor::Unpivot { table, columns, .. } => {
            let items = columns.iter().map(|column| build::item(column.expr.clone())).collect();
            Some(Asked::Names(build::select(items, vec![table.as_ref().clone()])))
        }
        _ => None,
    }
}

/// Tells the first one of a statement, from the inside out, what it has asked for.
///
/// # Errors
/// Those of [`rewrite`]; `Syntax` (54001) for too long texts.
pub fn fill(part: &mut impl Part, found: Vec<String>) -> Result<()> {
    if found.iter().map(String::len).sum::<usize>() > BYTES_MAX {
        return Err(too_complex("the values of a PIVOT are too long to be the names of columns"));
    }
    match walk_mut(part, &mut Filling(found)) {
        ControlFlow::Break(result) => result,
        ControlFlow::Continue(()) => Err(Error::internal("no PIVOT has asked for values")),
    }
}

struct Filling(Vec<String>);

impl VisitorMut for Filling {
    type Break = Result<()>;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Result<()>> {
        for tables in &mut select.from {
            if let Some(factor) = waiting_in(tables) {
                told(factor, &self.0);
                return ControlFlow::Break(meant(factor).map(|meant| {
                    if let Some(meant) = meant {
                        *factor = meant;
                    }
                }));
            }
        }
        ControlFlow::Continue(())
    }
}

fn relations(from: &[TableWithJoins]) -> impl Iterator<Item = &TableFactor> {
    from.iter().flat_map(|tables| {
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
    })
}

/// Returns the innermost one of a relation that waits for an answer.
fn first_waiting(factor: &TableFactor) -> Option<&TableFactor> {
    match factor {
        TableFactor::Pivot { table, value_source, .. } => {
            first_waiting(table).or_else(|| waiting_place(value_source).map(|_| factor))
        }
        TableFactor::Unpivot { table, columns, .. } => {
            first_waiting(table).or_else(|| columns.iter().any(is_of_columns).then_some(factor))
        }
        TableFactor::NestedJoin { table_with_joins, .. } => {
            relations(std::slice::from_ref(table_with_joins.as_ref())).find_map(first_waiting)
        }
        _ => None,
    }
}

fn waiting_in(tables: &mut TableWithJoins) -> Option<&mut TableFactor> {
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    std::iter::once(&mut tables.relation)
        .chain(joined)
        .find(|factor| first_waiting(factor).is_some())
        .and_then(first_waiting_mut)
}

fn first_waiting_mut(factor: &mut TableFactor) -> Option<&mut TableFactor> {
    let is_within = match factor {
        TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => {
            first_waiting(table).is_some()
        }
        _ => false,
    };
    if !is_within && !matches!(factor, TableFactor::NestedJoin { .. }) {
        return Some(factor);
    }
    match factor {
        TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => first_waiting_mut(table),
        TableFactor::NestedJoin { table_with_joins, .. } => waiting_in(table_with_joins),
        _ => None,
    }
}

/// Returns the place of the first column whose values are not given.
fn waiting_place(source: &PivotValueSource) -> Option<usize> {
    match source {
        PivotValueSource::Any(order) => order.is_empty().then_some(0),
        PivotValueSource::List(values) => values.iter().position(|value| {
            values_in(&value.expr)
                .is_some_and(|values| matches!(values, [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]))
        }),
        PivotValueSource::Subquery(_) => None,
    }
}

/// Returns the arguments of a call by a name without quotes.
fn arguments<'a>(expr: &'a Expr, of: &str) -> Option<&'a [FunctionArg]> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] if fold(name) == of => Some(list.args.as_slice()),
        _ => None,
    }
}

fn values_in(expr: &Expr) -> Option<&[FunctionArg]> {
    arguments(expr, VALUES)
}

fn is_of_columns(column: &ExprWithAlias) -> bool {
    arguments(&column.expr, "columns").is_some()
}

/// Returns a query for the texts of what a column has, in its order. Values that are equal may have several:
/// a month is as long as 30 days, and 0 is -0.
fn values_of(column: Expr, table: TableFactor) -> Query {
    let text = build::cast(column.clone(), DataType::Text);
    let items = vec![build::item_named(text, "text"), build::item_named(column, "value")];
    let mut distinct = build::select(items, vec![table]);
    if let SetExpr::Select(select) = distinct.body.as_mut() {
        select.distinct = Some(Distinct::Distinct);
    }
    let (text, value) = (build::column("text"), build::column("value"));
    let from = vec![build::alone(build::derived(distinct, build::name("found")))];
    let texts =
        build::select_where(vec![build::item(text.clone())], from, Some(build::is_known(value.clone())));
    build::limited(build::ordered(texts, vec![value, text]), COLUMNS_MAX as u64 + 1)
}

/// Writes what has been found into the one that has asked for it.
fn told(factor: &mut TableFactor, found: &[String]) {
    match factor {
        TableFactor::Pivot { value_column, value_source, .. } => {
            let Some(place) = waiting_place(value_source) else { return };
            if let Some(column) = value_column.get_mut(place) {
                let of = std::mem::replace(column, build::null());
                *column = build::cast(of, DataType::Text);
            }
            let texts = found.iter().map(|text| build::text(text));
            if let PivotValueSource::List(lists) = value_source {
                if let Some(list) = lists.get_mut(place) {
                    list.expr = call(VALUES, texts.collect());
                }
            } else {
                let values = texts.map(|expr| ExprWithAlias { expr, alias: None });
                *value_source = PivotValueSource::List(values.collect());
            }
        }
        TableFactor::Unpivot { columns, .. } => {
            let named = |name: &String| ExprWithAlias { expr: build::column(name), alias: None };
            *columns = found.iter().map(named).collect();
        }
        _ => {}
    }
}

/// Returns the query that a PIVOT or an UNPIVOT stands for; `None` where it is to be asked for.
fn meant(factor: &TableFactor) -> Result<Option<TableFactor>> {
    let (query, alias) = match factor {
        TableFactor::Pivot { alias, .. } => (pivoted(factor)?, alias),
        TableFactor::Unpivot { alias, .. } => (unpivoted(factor)?, alias),
        _ => return Ok(None),
    };
    Ok(query.map(|query| TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: alias.clone(),
        sample: None,
    }))
}

/// A column that a PIVOT makes, for each aggregate: its name, and which rows it has.
type Cell = (String, Option<Expr>);

fn pivoted(factor: &TableFactor) -> Result<Option<Query>> {
    let TableFactor::Pivot {
        table, aggregate_functions, value_column, value_source, default_on_null, ..
    } = factor
    else {
        return Ok(None);
    };
    if default_on_null.is_some() {
        return Err(Error::unsupported(
            "PIVOT … DEFAULT ON NULL is not supported; write coalesce() around the columns",
        ));
    }
    let Some(lists) = lists(value_column.len(), value_source)? else { return Ok(None) };
    let is_groups = |of: &&ExprWithAlias| arguments(&of.expr, GROUPS).is_some();
    let groups = aggregate_functions.iter().find(is_groups).map(|of| groups_of(&of.expr)).transpose()?;
    let aggregates: Vec<&ExprWithAlias> = aggregate_functions.iter().filter(|of| !is_groups(of)).collect();
    let cells = cells(value_column, &lists)?;
    check_copies(aggregates.iter().map(|of| &of.expr).chain(value_column), cells.len())?;
    let mut items: Vec<SelectItem> = match &groups {
        Some(groups) => groups.iter().cloned().map(build::item).collect(),
        None => {
            let used = value_column.iter().chain(aggregates.iter().map(|of| &of.expr));
            vec![all_but(table, used)]
        }
    };
    for (name, condition) in &cells {
        for aggregate in &aggregates {
            let name = match (&aggregate.alias, aggregates.len()) {
                (None, 1) => name.clone(),
                (Some(alias), _) => format!("{name}_{}", fold(alias)),
                (None, _) => format!("{name}_{}", aggregate.expr),
            };
            items.push(build::item_named(filtered(&aggregate.expr, condition.as_ref()), &name));
        }
    }
    let mut query = build::select(items, vec![table.as_ref().clone()]);
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.group_by = match groups {
            Some(groups) => GroupByExpr::Expressions(groups, Vec::new()),
            None => GroupByExpr::All(Vec::new()),
        };
    }
    Ok(Some(query))
}

/// Refuses expressions that would become too much, before they are written for each of some columns.
fn check_copies<'a>(written: impl Iterator<Item = &'a Expr>, columns: usize) -> Result<()> {
    let (mut parts, mut bytes) = (0_usize, 0_usize);
    for expr in written {
        parts += parts_of(expr);
        bytes += expr.to_string().len();
    }
    let is_too_much = |of_one: usize, most: usize| columns.saturating_mul(of_one) > most;
    match columns > 1 && (is_too_much(parts, PARTS_MAX) || is_too_much(bytes, BYTES_MAX)) {
        true => Err(too_complex("the aggregates of a PIVOT are too long for so many values")),
        false => Ok(()),
    }
}

/// Returns the values of each column; `None` where they are to be asked for.
fn lists(columns: usize, source: &PivotValueSource) -> Result<Option<Vec<Vec<ExprWithAlias>>>> {
    let refused = |what: &str| {
        Err(Error::unsupported(format!("{what} is not supported; write the values of PIVOT out")))
    };
    let values = match source {
        PivotValueSource::Any(order) if order.is_empty() => return Ok(None),
        PivotValueSource::Any(_) => return refused("IN (ANY ORDER BY …)"),
        PivotValueSource::Subquery(_) => return refused("a subquery among the values of PIVOT"),
        PivotValueSource::List(values) => values,
    };
    if columns == 1 && !values.iter().any(|value| values_in(&value.expr).is_some()) {
        return Ok(Some(vec![values.clone()]));
    }
    let mut lists = Vec::with_capacity(columns);
    for value in values {
        let Some(given) = values_in(&value.expr) else {
            return refused("a list of values for several columns of PIVOT");
        };
        let mut list = Vec::with_capacity(given.len());
        for argument in given {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    list.push(ExprWithAlias { expr: expr.clone(), alias: None });
                }
                _ => return Ok(None),
            }
        }
        lists.push(list);
    }
    match lists.len() == columns {
        true => Ok(Some(lists)),
        false => refused("a list of values for several columns of PIVOT"),
    }
}

fn groups_of(groups: &Expr) -> Result<Vec<Expr>> {
    let keys = arguments(groups, GROUPS).unwrap_or_default().iter().map(|key| match key {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => Ok(key.clone()),
        other => {
            Err(Error::unsupported(format!("GROUP BY {other} of a PIVOT is not supported; name its columns")))
        }
    });
    keys.collect()
}

/// Returns all pairs of the values of the columns.
fn cells(columns: &[Expr], lists: &[Vec<ExprWithAlias>]) -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = vec![(String::new(), None)];
    for (column, list) in columns.iter().zip(lists) {
        if cells.len().saturating_mul(list.len()) > COLUMNS_MAX {
            let message = format!(
                "a PIVOT makes {COLUMNS_MAX} columns at most; write the values that are wanted behind IN"
            );
            return Err(Error::invalid_input(message).with_sqlstate("54011"));
        }
        let mut longer = Vec::with_capacity(cells.len() * list.len());
        for (name, condition) in &cells {
            for value in list {
                let own = value.alias.as_ref().map_or_else(|| name_of(&value.expr), fold);
                let name = if condition.is_some() { format!("{name}_{own}") } else { own };
                let all = condition.clone().into_iter().chain([has_value(column, &value.expr)]);
                longer.push((name, build::all_of(all)));
            }
        }
        cells = longer;
    }
    Ok(cells)
}

/// Returns the condition that a column has a value.
fn has_value(column: &Expr, value: &Expr) -> Expr {
    match value {
        Expr::Value(value) if value.value == Value::Null => build::is_null(column.clone()),
        _ => build::equal(column.clone(), value.clone()),
    }
}

/// Returns the name of the column for a value.
fn name_of(value: &Expr) -> String {
    match value {
        Expr::Nested(inner) => name_of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", name_of(expr)),
        Expr::TypedString(typed) => text_of(&typed.value.value),
        Expr::Value(value) => text_of(&value.value),
        other => other.to_string(),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::SingleQuotedString(text) => text.clone(),
        Value::DollarQuotedString(text) => text.value.clone(),
        other => other.to_string(),
    }
}

/// Returns an aggregate of the rows that meet a condition, beside one of its own.
fn filtered(aggregate: &Expr, condition: Option<&Expr>) -> Expr {
    let mut aggregate = aggregate.clone();
    if let Expr::Function(function) = &mut aggregate {
        let own = function.filter.take().map(|own| *own);
        function.filter = build::all_of(condition.cloned().into_iter().chain(own)).map(Box::new);
    }
    aggregate
}

/// Returns all columns of a relation but those that some expressions name.
fn all_but<'a>(table: &TableFactor, used: impl Iterator<Item = &'a Expr>) -> SelectItem {
    let called = name_of_relation(table);
    let mut names: Vec<Ident> = Vec::new();
    for expr in used {
        let _all = expressions(expr, &mut |part| {
            let name = match part {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                    [first, second, ..] if called.as_ref() == Some(&fold(first)) => Some(second),
                    parts => parts.first(),
                },
                _ => None,
            };
            if let Some(name) = name.filter(|name| names.iter().all(|other| fold(other) != fold(name))) {
                names.push(name.clone());
            }
            ControlFlow::<()>::Continue(())
        });
    }
    let names: Vec<ObjectName> = names.into_iter().map(ObjectName::from).collect();
    let opt_exclude = (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names));
    SelectItem::Wildcard(WildcardAdditionalOptions { opt_exclude, ..WildcardAdditionalOptions::default() })
}

fn name_of_relation(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(fold(&alias.name))
        }
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).map(fold),
        _ => None,
    }
}

fn unpivoted(factor: &TableFactor) -> Result<Option<Query>> {
    let TableFactor::Unpivot { table, value, name, columns, null_inclusion, .. } = factor else {
        return Ok(None);
    };
    if columns.iter().any(is_of_columns) {
        return Ok(None);
    }
    let Expr::Identifier(value) = value else {
        return Err(Error::unsupported(format!(
            "UNPIVOT of {value} is not supported; name one column for the values"
        )));
    };
    let mut names = Vec::with_capacity(columns.len());
    for ExprWithAlias { expr, alias } in columns {
        let own = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        let Some(own) = own else {
            return Err(Error::unsupported(format!("UNPIVOT of {expr} is not supported; name columns")));
        };
        names.push(build::text(&fold(alias.as_ref().unwrap_or(own))));
    }
    let values: Vec<Expr> = columns.iter().map(|column| column.expr.clone()).collect();
    let unnested = |list: Vec<Expr>| call("unnest", vec![call("make_array", list)]);
    let items = vec![
        all_but(table, values.iter()),
        SelectItem::ExprWithAlias { expr: unnested(names), alias: name.clone() },
        SelectItem::ExprWithAlias { expr: unnested(values.clone()), alias: value.clone() },
    ];
    let rows = build::select(items, vec![table.as_ref().clone()]);
    if matches!(null_inclusion, Some(NullInclusion::IncludeNulls)) {
        return Ok(Some(rows));
    }
    let from = vec![build::alone(build::derived(rows, build::name("unpivoted")))];
    let known = build::is_known(Expr::Identifier(value.clone()));
    Ok(Some(build::select_where(vec![build::every_column()], from, Some(known))))
}

#[cfg(test)]
mod tests {
    use super::{Asked, BYTES_MAX, asked, fill};
    use crate::build;
    use crate::names::first_select;
    use crate::parse::{Extension, parse_query};
    use sqlparser::ast::Statement;

    fn read(sql: &str) -> String {
        parse_query(sql, &Extension::NONE).unwrap().to_string()
    }

    #[test]
    fn each_stands_for_a_query() {
        for (sql, meant) in [
            (
                "FROM t PIVOT (sum(x) FOR c IN ('a', 'b' AS z))",
                "SELECT * FROM (SELECT * EXCLUDE (c, x), sum(x) FILTER (WHERE c = 'a') AS \"a\", \
                 sum(x) FILTER (WHERE c = 'b') AS \"z\" FROM t GROUP BY ALL)",
            ),
            (
                "PIVOT t ON c IN (1), d IN (-2, NULL) USING sum(x) AS s, max(x) GROUP BY y",
                "SELECT * FROM (SELECT y, \
                 sum(x) FILTER (WHERE c = 1 AND d = -2) AS \"1_-2_s\", max(x) FILTER (WHERE c = 1 AND d = -2) AS \"1_-2_max(x)\", \
                 sum(x) FILTER (WHERE c = 1 AND d IS NULL) AS \"1_NULL_s\", \
                 max(x) FILTER (WHERE c = 1 AND d IS NULL) AS \"1_NULL_max(x)\" FROM t GROUP BY y)",
            ),
            (
                "FROM t UNPIVOT (v FOR n IN (a, b AS c))",
                "SELECT * FROM (SELECT * FROM (SELECT * EXCLUDE (a, b), unnest(make_array('a', 'c')) AS n, \
                 unnest(make_array(a, b)) AS v FROM t) AS \"unpivoted\" WHERE v IS NOT NULL)",
            ),
        ] {
            assert_eq!(read(sql), read(meant), "{sql}");
        }
    }

    #[test]
    fn what_is_not_said_is_asked_for() {
        let mut query = parse_query("PIVOT t ON c USING sum(x)", &Extension::NONE).unwrap();
        let wanted = first_select(&mut query.body).and_then(|select| asked(select));
        assert!(matches!(wanted, Some(Asked::Values(_))));
        let mut statement = Statement::Query(Box::new(query));
        fill(&mut statement, vec!["p".into()]).unwrap();
        let shown = read(
            "SELECT * FROM (SELECT * EXCLUDE (c, x), sum(x) FILTER (WHERE CAST(c AS TEXT) = 'p') AS \"p\" FROM t GROUP BY ALL)",
        );
        assert_eq!(statement.to_string(), shown);
        let mut query =
            parse_query("UNPIVOT t ON COLUMNS('x') INTO NAME n VALUE v", &Extension::NONE).unwrap();
        let wanted = first_select(&mut query.body).and_then(|select| asked(select));
        assert!(matches!(wanted, Some(Asked::Names(_))));
        let mut other = Statement::Query(Box::new(build::select(Vec::new(), Vec::new())));
        assert!(fill(&mut other, Vec::new()).is_err());
        let long = vec!["x".repeat(BYTES_MAX / 2 + 1); 2];
        assert_eq!(fill(&mut other, long).unwrap_err().sqlstate(), "54001");
    }

    #[test]
    fn forms_of_other_systems_are_refused() {
        for sql in [
            "FROM t PIVOT (sum(x) FOR c IN (ANY ORDER BY c))",
            "FROM t PIVOT (sum(x) FOR c IN (SELECT c FROM t))",
            "FROM t PIVOT (sum(x) FOR c IN (1) DEFAULT ON NULL (0))",
            "FROM t PIVOT (sum(x) FOR (c, d) IN ((1, 2)))",
            "FROM t UNPIVOT (v FOR n IN (a + 1))",
        ] {
            assert_eq!(parse_query(sql, &Extension::NONE).unwrap_err().sqlstate(), "0A000", "{sql}");
        }
        let long = "x".repeat(BYTES_MAX / 2);
        for (values, is_read) in [("1", true), ("1, 2, 3", false)] {
            let sql = format!("FROM t PIVOT (string_agg(x, '{long}') FOR c IN ({values}))");
            assert_eq!(parse_query(&sql, &Extension::NONE).is_ok(), is_read, "{values}");
        }
        let many = format!("FROM t {}", "UNPIVOT (v FOR n IN (a)) ".repeat(40));
        assert_eq!(parse_query(&many, &Extension::NONE).unwrap_err().sqlstate(), "54001");
    }
}
