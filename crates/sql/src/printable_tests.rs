//! Whatever is printed is read as the same tree: of all statements of tests/sql, and of random ones.

use crate::parse::{Extension, parse, parse_as_written, parse_stored};
use crate::walk::{Part, taken, walk_mut};
use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::{
    BinaryOperator, ColumnOption, CreateTable, Expr, Query, Statement, TableConstraint, UnaryOperator, Value,
    ValueWithSpan, VisitorMut,
};
use std::fmt::Display;
use std::ops::ControlFlow;

/// Returns the statements of a script of sqllogictest.
fn statements_of(script: &str) -> impl Iterator<Item = String> {
    script.split("\n\n").filter_map(|block| {
        let mut lines = block.lines().skip_while(|line| {
            line.is_empty() || ["#", "skipif", "onlyif"].iter().any(|word| line.starts_with(word))
        });
        let head = lines.next()?;
        (head.starts_with("statement ok") || head.starts_with("query"))
            .then(|| lines.take_while(|line| *line != "----").collect::<Vec<_>>().join("\n"))
    })
}

/// Returns the tree of a statement of which parts are printed; `None` of others.
fn tree(sql: &str) -> Option<Statement> {
    let DfStatement::Statement(statement) = parse(sql, &Extension::NONE).ok()? else { return None };
    matches!(
        *statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
    )
    .then_some(*statement)
}

/// Reads what a statement is printed as, which must be the same: its passes find nothing to rewrite any more.
#[track_caller]
fn check(sql: &str) -> bool {
    // Of an INSERT only its query is printed, and OVERRIDING is a mark of the tree.
    let Some(once) = tree(sql).filter(|_| !sql.contains("OVERRIDING")) else { return false };
    let text = once.to_string();
    let Some(twice) = tree(&text) else { panic!("{sql}\n  is printed as\n{text}\n  which cannot be read") };
    is_same(sql, plain(once), &text, plain(twice));
    true
}

#[track_caller]
fn is_same<T: PartialEq + Display>(sql: &str, once: T, text: &str, twice: T) {
    assert!(twice == once, "{sql}\n  is printed as\n{text}\n  and read as\n{twice}\n  in place of\n{once}");
}

/// Returns a part of a tree without what may be written in several ways: parentheses, the sign of a number,
/// the marks around a text, and the order in which AND and OR are taken together.
fn plain<P: Part>(mut part: P) -> P {
    let _done = walk_mut(&mut part, &mut Plain);
    part
}

struct Plain;

impl VisitorMut for Plain {
    type Break = ();

    fn post_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::DollarQuotedString(text) = &mut value.value {
            value.value = Value::SingleQuotedString(std::mem::take(&mut text.value));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        *expr = match taken(expr) {
            Expr::Nested(inner) => *inner,
            Expr::Value(ValueWithSpan { value: Value::Number(number, long), .. })
                if number.starts_with('-') =>
            {
                let number = Expr::value(Value::Number(number[1..].into(), long));
                Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) }
            }
            Expr::BinaryOp { left, op, right } if matches!(op, BinaryOperator::And | BinaryOperator::Or) => {
                let mut terms = Vec::new();
                take_terms(*right, &op, &mut terms);
                let joined = |left, right| Expr::BinaryOp {
                    left: Box::new(left),
                    op: op.clone(),
                    right: Box::new(right),
                };
                terms.into_iter().fold(*left, joined)
            }
            other => other,
        };
        ControlFlow::Continue(())
    }
}

fn take_terms(expr: Expr, of: &BinaryOperator, terms: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op, right } if op == *of => {
            take_terms(*left, of, terms);
            terms.push(*right);
        }
        other => terms.push(other),
    }
}

/// Calls a function for each statement of the scripts; how many it has counted.
fn of_scripts(mut each: impl FnMut(&str) -> usize) -> usize {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sql");
    let mut counted = 0;
    for entry in std::fs::read_dir(scripts).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "slt") {
            let script = std::fs::read_to_string(&path).unwrap();
            counted += statements_of(&script).map(|sql| each(&sql)).sum::<usize>();
        }
    }
    counted
}

#[test]
fn statements_of_scripts_are_printed_as_they_are_read() {
    let checked = of_scripts(|sql| usize::from(check(sql)));
    assert!(checked > 2700, "only {checked} statements were found");
}

/// Views, defaults, generated columns and checks are stored as what they are printed as, which no pass sees
/// any more.
#[test]
fn definitions_of_scripts_are_printed_as_they_are_read() {
    let mut views = 0;
    let expressions = of_scripts(|sql| match parse(sql, &Extension::NONE) {
        Ok(DfStatement::Statement(statement)) => match *statement {
            Statement::CreateView(view) => {
                views += 1;
                check_view(sql, *view.query);
                0
            }
            Statement::CreateTable(table) => {
                expressions_of(table).map(|expr| check_expression(sql, expr)).sum()
            }
            _ => 0,
        },
        _ => 0,
    });
    assert!(views > 20 && expressions > 30, "only {views} views and {expressions} expressions were found");
}

#[track_caller]
fn check_view(sql: &str, query: Query) {
    let text = query.to_string();
    let Ok(DfStatement::Statement(read)) = parse_stored(&text) else {
        panic!("{sql}\n  is stored as\n{text}\n  which cannot be read")
    };
    is_same(sql, plain(Statement::Query(Box::new(query))), &text, plain(*read));
    // Whoever restores a view from a script of definitions has the passes run.
    check(&text);
}

#[track_caller]
fn check_expression(sql: &str, expr: Expr) -> usize {
    let text = expr.to_string();
    match parse_as_written(&text) {
        Ok(read) => is_same(sql, plain(expr), &text, plain(read)),
        Err(error) => panic!("{sql}\n  is stored as\n{text}\n  which cannot be read: {error}"),
    }
    1
}

/// Returns the expressions that a table's definition stores.
fn expressions_of(table: CreateTable) -> impl Iterator<Item = Expr> {
    let options = table.columns.into_iter().flat_map(|column| column.options);
    let of_columns = options.filter_map(|option| match option.option {
        ColumnOption::Default(expr) => Some(expr),
        ColumnOption::Generated { generation_expr, .. } => generation_expr,
        ColumnOption::Check(check) => Some(*check.expr),
        _ => None,
    });
    let of_table = table.constraints.into_iter().filter_map(|constraint| match constraint {
        TableConstraint::Check(check) => Some(*check.expr),
        _ => None,
    });
    of_columns.chain(of_table)
}

#[test]
fn what_passes_make_is_printed_as_it_is_read() {
    for sql in [
        "SELECT s || '\\''--' FROM t",
        "SELECT s || $$\\'--$$, $a$\\$a$ FROM t",
        "SELECT * FROM generate_series(1, 10000) AS g (n) TABLESAMPLE BERNOULLI (10)",
        "SELECT * FROM generate_series(1, 10000) TABLESAMPLE BERNOULLI (10)",
        "SELECT * FROM generate_series(1, length('abc')) AS g TABLESAMPLE (10 ROWS) REPEATABLE (3)",
        "SELECT * FROM a.t TABLESAMPLE SYSTEM (2.5) REPEATABLE (1) WHERE x",
        "SELECT * FROM (SELECT a FROM t TABLESAMPLE (3 ROWS)) AS s TABLESAMPLE (2 ROWS)",
        "SELECT make_interval(1, days => 2 + a), list_aggregate(l, 'string_agg', ', ') FROM t",
    ] {
        assert!(check(sql), "{sql}");
    }
}

#[test]
fn texts_never_become_code() {
    for text in [
        "\n 5 or true --",
        "''",
        "a''b",
        "\\' or true --",
        "\\",
        "\\\\'",
        "' or ''='",
        "$q0$",
        "$q0$'' $q1",
        "/* */",
        "\\'' ; drop table t; --",
    ] {
        let literal = format!("'{}'", text.replace('\'', "''"));
        let name = format!("\"{}\"", text.replace('"', "\"\""));
        for sql in [
            format!("DELETE FROM t WHERE i = - -5 AND s = {literal}"),
            format!("DELETE FROM t WHERE s LIKE {literal} OR DATE {literal} < d"),
            format!("UPDATE t SET s = {literal} WHERE - + - - i = 1 RETURNING {{{literal}: s}} AS {name}"),
            format!(
                "SELECT {literal}, {name}, lower({literal}), {literal}::json -> {literal} FROM t AS {name}"
            ),
            format!("WITH {name} ({name}) AS (SELECT {literal}) SELECT x.{name} FROM {name} AS x"),
        ] {
            check(&sql);
        }
        assert!(check(&format!("DELETE FROM t WHERE i = - -5 AND s = {literal}")), "{literal}");
    }
    for name in ["a\\\"\"b", "\\\"\" or true --", "\"\"\"\"", "`a`", "a`b"] {
        assert!(check(&format!("DELETE FROM t WHERE \"{name}\" = 1")), "{name}");
        assert!(check(&format!("SELECT 1 AS \"{name}\" FROM t AS \"{name}\" GROUP BY \"{name}\"")), "{name}");
    }
    let none = parse("SELECT 1 AS \"a\"\"\"\"b``c\"", &Extension::NONE).unwrap_err();
    assert!(none.to_string().contains("quotation marks of both kinds"), "{none}");
}

/// Operands.
const LEAVES: &[&str] = &[
    "a",
    "b",
    "t.c",
    "\"d e\"",
    "1",
    "2.5",
    "'x'",
    "'it''s'",
    "'\\'''",
    "'--'",
    "NULL",
    "true",
    "$1",
    "DATE '2024-01-01'",
    "INTERVAL '1' DAY",
    "INTERVAL '1 day'",
    "f(a)",
    "now()",
    "'{\"k\": 1}'",
    "ARRAY[1, 2]",
    "{'k': 1}",
    "(SELECT 1)",
];

/// Operators between operands.
const OPERATORS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "||",
    "&",
    "|",
    "#",
    "<<",
    ">>",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "->",
    "->>",
    "#>>",
    "@>",
    "<@",
    "&&",
    "~",
    "!~",
    "~~",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "LIKE",
    "NOT LIKE",
    "ILIKE",
    "AT TIME ZONE",
    "SIMILAR TO",
];

/// A generator of random numbers (Steele and others, SplitMix64).
struct Random(u64);

impl Random {
    fn number_below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    fn choice<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.number_below(choices.len())]
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.choice(LEAVES).to_string();
        }
        let operand = |random: &mut Self| {
            let inner = random.expression(depth - 1);
            if random.number_below(4) == 0 { format!("({inner})") } else { inner }
        };
        match self.number_below(16) {
            0..=6 => {
                let op = self.choice(OPERATORS);
                let (left, right) = (operand(self), operand(self));
                format!("{left} {op} {right}")
            }
            7 | 8 => format!("{} {}", self.choice(&["-", "+", "~", "NOT"]), operand(self)),
            9 => format!(
                "{} {}",
                operand(self),
                self.choice(&["IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE"])
            ),
            10 => format!("{} BETWEEN {} AND {}", operand(self), operand(self), operand(self)),
            11 => format!("{} IN ({}, {})", operand(self), operand(self), operand(self)),
            12 => format!("{}::{}", operand(self), self.choice(&["INTEGER", "TEXT", "DOUBLE"])),
            13 => format!("CASE WHEN {} THEN {} ELSE {} END", operand(self), operand(self), operand(self)),
            14 => format!("({})[{}]", operand(self), operand(self)),
            _ => format!("g({}, {})", operand(self), operand(self)),
        }
    }
}

#[test]
fn random_statements_are_printed_as_they_are_read() {
    let mut random = Random(20_261_127);
    let mut checked = 0;
    for _ in 0..4000 {
        let depth = 1 + random.number_below(4);
        let expression = random.expression(depth);
        checked += usize::from(check(&format!("DELETE FROM t WHERE {expression}")));
        let other = random.expression(2);
        checked += usize::from(check(&format!("SELECT {other} AS x, {expression} FROM t ORDER BY {other}")));
    }
    assert!(checked > 4000, "only {checked} statements could be read");
}
