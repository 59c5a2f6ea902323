//! Forms that the parser takes though SQL has no meaning for them, or another one: they are errors
//! here, and not left out in silence.

use crate::identifier::fold;
use crate::names::width;
use crate::phrases::{is_word, last_before, next};
use crate::plain::alias_of;
use crate::walk::{Part, checked, done, walk};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, JoinConstraint,
    JoinOperator, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, SetOperator,
    SetQuantifier, TableAlias, TableFactor, TableWithJoins, UnaryOperator, Value, Visitor,
};
use sqlparser::tokenizer::Token;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Words without which a statement has none of these forms.
pub const WORDS: [&str; 13] = [
    "JOIN",
    "TOP",
    "MINUS",
    "RECURSIVE",
    "COUNT",
    "NAME",
    "ORDER",
    "ARRAY",
    "TRIM",
    "ESCAPE",
    "STRUCT_PACK",
    "NAMED_STRUCT",
    "OVER",
];

/// Functions that give the value of a row of a window, and how many arguments they have.
const OF_ROWS: [(&str, usize); 3] = [("first_value", 1), ("last_value", 1), ("nth_value", 2)];

/// Words before JOIN that say which rows belong together; the parser takes them for an alias.
const KINDS_OF_JOINS: [&str; 2] = ["POSITIONAL", "ASOF"];

/// Aggregates by their names, which a recursive step cannot have.
const AGGREGATES: [&str; 22] = [
    "any_value",
    "approx_distinct",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "json_agg",
    "list",
    "max",
    "median",
    "min",
    "mode",
    "stddev",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
];

/// Looks through a statement.
///
/// # Errors
/// `Syntax` for a join without a condition; `Unsupported` and `Syntax` (42P19) for clauses of
/// recursive queries that they cannot have.
pub fn check(part: &impl Part) -> Result<()> {
    checked(walk(part, &mut Forms))
}

/// Looks for what the parser reads a part of, and nothing plans.
///
/// # Errors
/// `Unsupported` that says what there is instead.
pub fn check_tokens(tokens: &[Token]) -> Result<()> {
    let is_call = |place: usize| {
        is_word(tokens.get(place), &["JSON_TABLE"])
            && next(tokens, place).is_some_and(|open| tokens[open] == Token::LParen)
            // A table may be called so where it is made, written to and referred to.
            && last_before(tokens, place).is_some_and(|word| {
                tokens[word] == Token::Comma || is_word(tokens.get(word), &["FROM", "JOIN", "LATERAL"])
            })
    };
    match (0..tokens.len()).any(is_call) {
        false => Ok(()),
        true => Err(Error::unsupported(
            "JSON_TABLE is not supported: json_array_elements(doc) gives a row for each element, and e ->> 'a' or \
             json_extract_string(e, '$.a') a member, as in SELECT CAST(e ->> 'a' AS INTEGER) AS a FROM \
             (SELECT json_array_elements(doc) AS e FROM t) AS x",
        )),
    }
}

/// Says whether the word at a place is POSITIONAL before JOIN, and neither a relation nor an alias behind AS.
pub(crate) fn is_positional_join(tokens: &[Token], place: usize) -> bool {
    is_word(tokens.get(place), &["POSITIONAL"])
        && next(tokens, place).is_some_and(|join| is_word(tokens.get(join), &["JOIN"]))
        && last_before(tokens, place).is_some_and(|relation| match &tokens[relation] {
            Token::RParen | Token::SingleQuotedString(_) => true,
            word @ Token::Word(_) => {
                !is_word(Some(word), &["AS", "FROM", "JOIN", "LATERAL", "USING", "UPDATE"])
            }
            _ => false,
        })
}

struct Forms;

impl Visitor for Forms {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(function) if is_name(&function.name, "count") => done(check_count(function)),
            Expr::Function(function)
                if is_name(&function.name, "struct_pack") || is_name(&function.name, "named_struct") =>
            {
                done(check_fields(function))
            }
            Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
                if is_name(name, "array") =>
            {
                done(check_columns(query, 1))
            }
            Expr::Function(function) if function.over.is_some() => done(check_values(function)),
            Expr::Trim { trim_characters: Some(characters), .. } if characters.len() > 1 => {
                let message = format!(
                    "trim() has a text and the characters to cut off, not {} arguments",
                    characters.len() + 1
                );
                ControlFlow::Break(Error::new(ErrorKind::Syntax, message).with_sqlstate("42883"))
            }
            Expr::Like { escape_char: Some(escape), .. }
            | Expr::ILike { escape_char: Some(escape), .. }
            | Expr::SimilarTo { escape_char: Some(escape), .. } => done(check_escape(&escape.value)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        done(check_keys(query).and_then(|()| check_order(query)).and_then(|()| check_operators(query)))?;
        let Some(with) = query.with.as_ref().filter(|with| with.recursive) else {
            return ControlFlow::Continue(());
        };
        for table in &with.cte_tables {
            done(check_recursive(&fold(&table.alias.name), &table.query))?;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        done(check_clauses(select).and_then(|()| select.from.iter().try_for_each(check_joins)))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => done(check_joins(table_with_joins)),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Looks whether a SELECT has clauses of other systems, for which there are others here.
fn check_clauses(select: &Select) -> Result<()> {
    if select.top.is_some() {
        return Err(Error::unsupported("TOP is not supported; write LIMIT behind the query"));
    }
    if select.into.is_some() {
        let message = "SELECT … INTO is not supported; write CREATE TABLE … AS SELECT";
        return Err(Error::unsupported(message));
    }
    Ok(())
}

/// Looks whether a query has the name that another system has for EXCEPT.
fn check_operators(query: &Query) -> Result<()> {
    let mut bodies = vec![query.body.as_ref()];
    while let Some(body) = bodies.pop() {
        if let SetExpr::SetOperation { op, left, right, .. } = body {
            if *op == SetOperator::Minus {
                return Err(Error::unsupported("MINUS is not supported; write EXCEPT"));
            }
            bodies.extend([left.as_ref(), right.as_ref()]);
        }
    }
    Ok(())
}

/// Looks whether COUNT has one argument.
fn check_count(function: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let is_distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
    match list.args.len() {
        0 | 1 => Ok(()),
        _ if is_distinct => Ok(()),
        count => {
            let message = format!("count() has one argument, not {count}; count(*) counts rows");
            Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42883"))
        }
    }
}

/// Looks whether a function that gives the value of a row of a window has its arguments. DataFusion takes
/// any number of them, and reads the first one.
fn check_values(function: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let called = OF_ROWS.iter().find(|(name, _)| is_name(&function.name, name));
    let Some((name, wanted)) = called else { return Ok(()) };
    let arguments = if *wanted == 1 { "one argument" } else { "two arguments" };
    match list.args.len() {
        given if given == *wanted => Ok(()),
        given => {
            let message = format!("{name}() has {arguments}, not {given}");
            Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42883"))
        }
    }
}

/// Looks whether a structure has each field once.
fn check_fields(function: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let is_of_pairs = is_name(&function.name, "named_struct");
    let name_of = |(place, argument): (usize, &FunctionArg)| match argument {
        FunctionArg::Named { name, .. } => Some(name.value.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) if is_of_pairs && place % 2 == 0 => {
            value.value.clone().into_string()
        }
        _ => None,
    };
    let mut seen = HashSet::new();
    let mut names = list.args.iter().enumerate().filter_map(name_of);
    match names.find(|name| !seen.insert(name.clone())) {
        Some(name) => {
            let message = format!("a structure has a field '{name}' once");
            Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42701"))
        }
        None => Ok(()),
    }
}

/// Looks whether ESCAPE is one character, or none, as it is written.
fn check_escape(escape: &Value) -> Result<()> {
    match escape {
        Value::Null => Ok(()),
        Value::SingleQuotedString(text) if text.chars().nth(1).is_none() => Ok(()),
        Value::SingleQuotedString(text) => Err(Error::invalid_input(format!(
            "invalid escape string '{text}': ESCAPE is one character, or '' for none"
        ))
        .with_sqlstate("22025")),
        other => Err(Error::unsupported(format!(
            "ESCAPE {other} is not supported; write a character between quotes"
        ))),
    }
}

/// Looks whether a subquery gives so many columns, as far as it says so.
///
/// # Errors
/// `Syntax` naming both numbers.
pub fn check_columns(query: &Query, wanted: usize) -> Result<()> {
    // These may stand for several.
    let is_one = |expr: &Expr| match expr {
        Expr::Function(function) => !is_name(&function.name, "columns") && !is_name(&function.name, "unnest"),
        _ => true,
    };
    match width(&query.body, &is_one) {
        Some(given) if given != wanted => {
            let columns =
                |count: usize| if count == 1 { "1 column".into() } else { format!("{count} columns") };
            let message = format!(
                "the subquery gives {}, and {} wanted",
                columns(given),
                match wanted {
                    1 => "1 is".to_string(),
                    wanted => format!("{wanted} are"),
                }
            );
            Err(Error::new(ErrorKind::Syntax, message))
        }
        _ => Ok(()),
    }
}

/// Looks whether a query is sorted by a constant, which says nothing. A whole number is the place of a
/// column.
fn check_keys(query: &Query) -> Result<()> {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else { return Ok(()) };
    keys.iter().try_for_each(|key| check_key(&key.expr))
}

fn check_key(key: &Expr) -> Result<()> {
    let wrong = |state, why: &str| {
        Err(Error::new(ErrorKind::Syntax, format!("ORDER BY {key}: {why}")).with_sqlstate(state))
    };
    match key {
        Expr::Nested(inner) => check_key(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) if number.bytes().all(|digit| digit.is_ascii_digit()) => Ok(()),
            Value::Number(..)
            | Value::SingleQuotedString(_)
            | Value::DollarQuotedString(_)
            | Value::Boolean(_) => {
                wrong("42601", "a constant sorts nothing; write a column, or its place from 1")
            }
            _ => Ok(()),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(expr.as_ref(), Expr::Value(value) if matches!(value.value, Value::Number(..))) => {
            wrong("42P10", "the places of columns begin with 1")
        }
        _ => Ok(()),
    }
}

/// Looks at the order of a union whose columns are matched by name: its columns are no table's.
fn check_order(query: &Query) -> Result<()> {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    let SetExpr::SetOperation { set_quantifier: AllByName | ByName | DistinctByName, .. } =
        query.body.as_ref()
    else {
        return Ok(());
    };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else { return Ok(()) };
    match keys.iter().find(|key| matches!(key.expr, Expr::CompoundIdentifier(_))) {
        Some(key) => Err(Error::new(
            ErrorKind::Syntax,
            format!(
                "ORDER BY {}: the columns of a UNION BY NAME belong to no table; write the name alone",
                key.expr
            ),
        )
        .with_sqlstate("42P01")),
        None => Ok(()),
    }
}

fn check_joins(tables: &TableWithJoins) -> Result<()> {
    let mut before = &tables.relation;
    for join in &tables.joins {
        if let Some(kind) = alias_of(before).and_then(kind_of_join) {
            return Err(Error::unsupported(format!("{kind} JOIN is not supported")));
        }
        if lacks_condition(&join.join_operator) {
            return Err(Error::new(
                ErrorKind::Syntax,
                format!(
                    "JOIN {} has no ON and no USING; write CROSS JOIN for all pairs of rows",
                    join.relation
                ),
            ));
        }
        before = &join.relation;
    }
    Ok(())
}

fn kind_of_join(alias: &TableAlias) -> Option<&'static str> {
    let is_alone = !alias.explicit && alias.columns.is_empty() && alias.name.quote_style.is_none();
    KINDS_OF_JOINS.into_iter().find(|kind| is_alone && alias.name.value.eq_ignore_ascii_case(kind))
}

fn lacks_condition(join: &JoinOperator) -> bool {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => matches!(constraint, JoinConstraint::None),
        _ => false,
    }
}

/// Looks at a query of WITH RECURSIVE, if it reads itself.
///
/// # Errors
/// `Unsupported` and `Syntax` (42P19) for clauses that it cannot have.
pub(crate) fn check_recursive(name: &str, query: &Query) -> Result<()> {
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_ref() else {
        return Ok(());
    };
    if !reads(right.as_ref(), name) {
        return Ok(());
    }
    if reads(left.as_ref(), name) {
        let message =
            format!("the recursive query \"{name}\" may be read by the last one of its parts alone");
        return Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42P19"));
    }
    let clauses = [
        ("ORDER BY", query.order_by.is_some()),
        ("LIMIT or OFFSET", query.limit_clause.is_some() || query.fetch.is_some()),
        ("FOR UPDATE or FOR SHARE", !query.locks.is_empty()),
    ];
    if let Some((clause, _)) = clauses.into_iter().find(|(_, is_there)| *is_there) {
        return Err(Error::unsupported(format!(
            "{clause} in the recursive query \"{name}\" is not supported; write it in the query that reads \"{name}\""
        )));
    }
    check_step(name, right)
}

/// Looks at the step of a recursive query.
fn check_step(name: &str, step: &SetExpr) -> Result<()> {
    let SetExpr::Select(select) = step else { return Ok(()) };
    let wrong = |why: String| Error::new(ErrorKind::Syntax, why).with_sqlstate("42P19");
    let is_in_from = select.from.iter().any(|tables| {
        is_called(&tables.relation, name) || tables.joins.iter().any(|join| is_called(&join.relation, name))
    });
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let aggregate = items.chain(&select.having).find_map(aggregate_in);
    if let Some(aggregate) = aggregate.filter(|_| is_in_from) {
        return Err(wrong(format!(
            "the step of the recursive query \"{name}\" has the aggregate {aggregate}; compute it in the query that \
             reads \"{name}\""
        )));
    }
    for tables in &select.from {
        let mut is_before = is_called(&tables.relation, name);
        for join in &tables.joins {
            let is_joined = is_called(&join.relation, name);
            let is_nullable = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => is_joined,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => is_before,
                JoinOperator::FullOuter(_) => is_joined || is_before,
                _ => false,
            };
            if is_nullable {
                return Err(wrong(format!(
                    "the recursive query \"{name}\" may not be read by its own step where an outer join adds NULLs"
                )));
            }
            is_before |= is_joined;
        }
    }
    Ok(())
}

fn is_called(factor: &TableFactor, name: &str) -> bool {
    matches!(factor, TableFactor::Table { name: called, args: None, .. } if is_name(called, name))
}

fn is_name(called: &ObjectName, name: &str) -> bool {
    matches!(called.0.as_slice(), [part] if part.as_ident().is_some_and(|part| fold(part) == name))
}

/// Says whether a query names a table so, and has no WITH of its own that does.
fn reads(query: &SetExpr, name: &str) -> bool {
    struct Reads<'a> {
        name: &'a str,
        /// Queries around that call something else so.
        hiding: usize,
    }
    impl Reads<'_> {
        fn hides(&self, query: &Query) -> bool {
            let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
            tables.any(|table| fold(&table.alias.name) == self.name)
        }
    }
    impl Visitor for Reads<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.hiding += usize::from(self.hides(query));
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.hiding -= usize::from(self.hides(query));
            ControlFlow::Continue(())
        }

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            match self.hiding == 0 && is_name(relation, self.name) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    walk(query, &mut Reads { name, hiding: 0 }).is_break()
}

/// Returns the name of an aggregate in an expression, but not in its subqueries, nor over a window.
fn aggregate_in(expr: &Expr) -> Option<String> {
    struct Aggregates {
        depth: usize,
    }
    impl Visitor for Aggregates {
        type Break = String;

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
            match expr {
                Expr::Function(Function { name, over: None, .. })
                    if self.depth == 0 && AGGREGATES.iter().any(|known| is_name(name, known)) =>
                {
                    ControlFlow::Break(format!("{name}()"))
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk(expr, &mut Aggregates { depth: 0 }).break_value()
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse};

    #[test]
    fn what_has_no_meaning_is_refused() {
        for (sql, state) in [
            ("SELECT * FROM a JOIN b", "42601"),
            ("SELECT * FROM a LEFT JOIN b", "42601"),
            ("SELECT * FROM (a JOIN b) CROSS JOIN c", "42601"),
            ("SELECT (SELECT 1 FROM a FULL JOIN b)", "42601"),
            ("SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$'))", "0A000"),
            (
                "SELECT x.* FROM t, json_table (j, '$' COLUMNS (NESTED PATH '$.b[*]' COLUMNS (b INT PATH '$'))) AS x",
                "0A000",
            ),
            ("SELECT TOP 5 a FROM t", "0A000"),
            ("SELECT a INTO u FROM t", "0A000"),
            ("SELECT 1 MINUS SELECT 2", "0A000"),
            ("SELECT count(1, 2)", "42883"),
            ("SELECT first_value() OVER ()", "42883"),
            ("SELECT last_value(a, 1) OVER w FROM t WINDOW w AS (ORDER BY a)", "42883"),
            ("SELECT nth_value(a) OVER () FROM t", "42883"),
            ("SELECT trim('a', 'b', 'c')", "42883"),
            ("SELECT array(SELECT 1, 2)", "42601"),
            ("SELECT array(VALUES (1, 2) UNION SELECT 3, 4)", "42601"),
            ("SELECT 'a' LIKE 'a' ESCAPE 'xx'", "22025"),
            ("SELECT a NOT ILIKE b ESCAPE 'xx' FROM t", "22025"),
            ("SELECT a SIMILAR TO 'b' ESCAPE 'xx' FROM t", "22025"),
            ("SELECT a LIKE 'b' ESCAPE 1 FROM t", "0A000"),
            ("SELECT a LIKE 'b' ESCAPE $1 FROM t", "0A000"),
            ("SELECT a FROM t ORDER BY 'a'", "42601"),
            ("SELECT a FROM t UNION SELECT 1 ORDER BY (1.5)", "42601"),
            ("SELECT a FROM t ORDER BY a, true", "42601"),
            ("SELECT a FROM t ORDER BY -1", "42P10"),
            ("SELECT (1, 2) IN (SELECT 1, 2, 3)", "42601"),
            ("SELECT (1, 2) IN (SELECT 1)", "42601"),
            ("SELECT (1, 2) = (SELECT 1, 2, 3)", "42601"),
            ("SELECT struct_pack(i := 3, j := 4, i := 5)", "42701"),
            ("SELECT named_struct('i', 3, 'i', 4)", "42701"),
            ("SELECT 1 AS x UNION ALL BY NAME SELECT 2 AS y ORDER BY t.x", "42P01"),
            (
                "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t LIMIT 1) SELECT * FROM t",
                "0A000",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t OFFSET 1) SELECT * FROM t",
                "0A000",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 x UNION SELECT x + 1 FROM t ORDER BY 1) SELECT * FROM t",
                "0A000",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t UNION ALL SELECT x + 2 FROM t) SELECT * FROM t",
                "42P19",
            ),
            ("WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT count(*) FROM t) SELECT * FROM t", "42P19"),
            ("WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT 1 + MAX(x) FROM t) SELECT * FROM t", "42P19"),
            (
                "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT a.x FROM a LEFT JOIN t ON true) SELECT * FROM t",
                "42P19",
            ),
        ] {
            match parse(sql, &Extension::NONE) {
                Err(error) => assert_eq!(error.sqlstate(), state, "{sql}: {error}"),
                Ok(read) => panic!("{sql} is read as {read}"),
            }
        }
    }

    #[test]
    fn what_has_a_meaning_is_not() {
        for sql in [
            "SELECT * FROM a CROSS JOIN b",
            "SELECT * FROM a NATURAL JOIN b",
            "SELECT trim('a', 'b'), trim(both from 'a'), trim(from 'a'), trim(leading 'x' from 'a'), trim('a')",
            "SELECT array(SELECT * FROM t), array(SELECT COLUMNS('a') FROM t), array(SELECT 1 ORDER BY 2)",
            "SELECT a LIKE b ESCAPE '', a ILIKE b ESCAPE 'ö', a SIMILAR TO 'b' ESCAPE '#', a LIKE b ESCAPE NULL FROM t",
            "SELECT a, sum(a) OVER (ORDER BY 'a'), string_agg(a, '' ORDER BY 'b') FROM t ORDER BY 1, NULL, a || 'b'",
            "SELECT (1, 2) IN (SELECT * FROM t), (1, 2) IN (SELECT 1, 2), (1, 2) = (SELECT 1, 2)",
            "SELECT * FROM a, b JOIN c USING (x)",
            "SELECT json_table FROM t",
            "CREATE TABLE json_table (a INTEGER)",
            "INSERT INTO json_table (a) VALUES (1)",
            "SELECT * FROM a positional, b",
            "SELECT * FROM positional JOIN b ON true",
            "SELECT * FROM a, positional JOIN b ON true",
            "SELECT * FROM a AS positional JOIN b ON true",
            "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t WHERE x < 3) SELECT * FROM t LIMIT 1",
            "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT 2 LIMIT 1) SELECT * FROM t",
            "WITH RECURSIVE t AS (SELECT x FROM (WITH t AS (SELECT 1 x) SELECT * FROM t) q UNION ALL SELECT x + 1 FROM t) SELECT * FROM t",
            "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + sum(x) OVER () FROM t WHERE x < 3) SELECT * FROM t",
            "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + (SELECT max(y) FROM u) FROM t WHERE x < 3) SELECT * FROM t",
            "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT t.x FROM t LEFT JOIN a ON true) SELECT * FROM t",
        ] {
            parse(sql, &Extension::NONE).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
}
