//! Queries over a small catalog: the plans that they become, the names of their columns, and what is refused.

use super::bind_query;
use super::frame::{Meant, Seen, meant};
use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, lit};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{Ident, Query, Statement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::executor::block_on;
use hypostyle_error::column_name::{unmarked_name, unmarked_text};
use hypostyle_error::from_datafusion;
use std::sync::Arc;

/// Returns a session with the tables `t (a, b)`, `u (b, c)`, `l (k, items)` and `s (id, point)`.
fn session() -> SessionState {
    let context = SessionContext::new();
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(2)])]));
    let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
    let point: ArrayRef =
        Arc::new(StructArray::from(vec![(field("x"), number.clone()), (field("y"), number.clone())]));
    for (table, columns) in [
        ("t", [("a", number.clone()), ("b", number.clone())]),
        ("u", [("b", number.clone()), ("c", number.clone())]),
        ("l", [("k", number.clone()), ("items", list)]),
        ("s", [("id", number), ("point", point)]),
    ] {
        context.register_batch(table, RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    }
    context.state()
}

/// Returns a query as it is written: no pass has rewritten it.
fn written(sql: &str) -> Query {
    let mut statements =
        Parser::parse_sql(&GenericDialect {}, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match statements.pop() {
        Some(Statement::Query(query)) => *query,
        other => panic!("{sql} is no query: {other:?}"),
    }
}

fn bound(state: &SessionState, sql: &str) -> Result<LogicalPlan> {
    block_on(bind_query(state, &written(sql)))
}

/// Compares the plans of queries with what is expected, in which nodes stand in lines.
fn are_bound(cases: &[(&str, &[&str])]) {
    let state = session();
    for (sql, lines) in cases {
        let plan = bound(&state, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(unmarked_text(&plan.display_indent().to_string()), lines.join("\n"), "{sql}");
    }
}

/// Queries, and the plans that they become.
const RELATIONS: &[(&str, &[&str])] = &[
    (
        "SELECT a, b + 1 AS x FROM t WHERE a > 1",
        &["Projection: t.a, t.b + Int64(1) AS x", "  Filter: t.a > Int64(1)", "    TableScan: t"],
    ),
    ("SELECT 1 AS one", &["Projection: Int64(1) AS one", "  EmptyRelation: rows=1"]),
    (
        "SELECT * FROM t JOIN u USING (b)",
        &["Projection: t.b, t.a, u.c", "  Inner Join: t.b = u.b", "    TableScan: t", "    TableScan: u"],
    ),
    (
        "SELECT * FROM t NATURAL LEFT JOIN u",
        &["Projection: t.b, t.a, u.c", "  Left Join: t.b = u.b", "    TableScan: t", "    TableScan: u"],
    ),
    (
        "SELECT b FROM t FULL JOIN u USING (b)",
        &[
            "Projection: coalesce(t.b, u.b) AS b",
            "  Full Join: t.b = u.b",
            "    TableScan: t",
            "    TableScan: u",
        ],
    ),
    (
        "SELECT b, t.a, u.b AS other FROM t RIGHT JOIN u USING (b)",
        &[
            "Projection: u.b, t.a, u.b AS other",
            "  Right Join: t.b = u.b",
            "    TableScan: t",
            "    TableScan: u",
        ],
    ),
    (
        "SELECT j.c FROM (t JOIN u ON t.b = u.b) AS j",
        &[
            "Projection: j.c",
            "  SubqueryAlias: j",
            "    Projection: t.a, t.b, u.b AS b, u.c",
            "      Inner Join:  Filter: t.b = u.b",
            "        TableScan: t",
            "        TableScan: u",
        ],
    ),
    (
        "SELECT x FROM t AS r (x)",
        &["Projection: r.x", "  SubqueryAlias: r", "    Projection: t.a AS x, t.b", "      TableScan: t"],
    ),
    (
        "SELECT a FROM (SELECT a FROM t)",
        &["Projection: derived.a", "  SubqueryAlias: derived", "    Projection: t.a", "      TableScan: t"],
    ),
    (
        "SELECT t.a, r.x FROM t, LATERAL (SELECT t.a + 1 AS x) AS r",
        &[
            "Projection: t.a, r.x",
            "  Cross Join:",
            "    TableScan: t",
            "    SubqueryAlias: r",
            "      Subquery:",
            "        Projection: outer_ref(t.a) + Int64(1) AS x",
            "          EmptyRelation: rows=1",
        ],
    ),
    (
        "SELECT column1 FROM (VALUES (1), (2)) AS v",
        &["Projection: v.column1", "  SubqueryAlias: v", "    Values: (Int64(1)), (Int64(2))"],
    ),
];

#[test]
fn relations_and_joins() {
    are_bound(RELATIONS);
}

/// Queries, and the plans that they become.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "SELECT a, sum(b) AS s FROM t GROUP BY a HAVING sum(b) > 1 ORDER BY s",
        &[
            "Sort: s ASC NULLS LAST",
            "  Projection: t.a, sum(t.b) AS s",
            "    Filter: sum(t.b) > Int64(1)",
            "      Aggregate: groupBy=[[t.a]], aggr=[[sum(t.b)]]",
            "        TableScan: t",
        ],
    ),
    (
        "SELECT a + 1 AS k, count(*) AS n FROM t GROUP BY k",
        &[
            "Projection: t.a + Int64(1) AS k, count(Int64(1)) AS n",
            "  Aggregate: groupBy=[[t.a + Int64(1)]], aggr=[[count(Int64(1))]]",
            "    TableScan: t",
        ],
    ),
    (
        "SELECT b, a, max(b) AS m FROM t GROUP BY 2, 1",
        &[
            "Projection: t.b, t.a, max(t.b) AS m",
            "  Aggregate: groupBy=[[t.a, t.b]], aggr=[[max(t.b)]]",
            "    TableScan: t",
        ],
    ),
    (
        "SELECT a, sum(b) AS s FROM t GROUP BY ROLLUP (a)",
        &[
            "Projection: t.a, sum(t.b) AS s",
            "  Aggregate: groupBy=[[ROLLUP (t.a)]], aggr=[[sum(t.b)]]",
            "    TableScan: t",
        ],
    ),
    (
        "SELECT a FROM t ORDER BY b DESC, a",
        &[
            "Projection: t.a",
            "  Sort: t.b DESC NULLS FIRST, t.a ASC NULLS LAST",
            "    Projection: t.a, t.b",
            "      TableScan: t",
        ],
    ),
    (
        "SELECT -a AS a FROM t ORDER BY a + 0",
        &[
            "Projection: a",
            "  Sort: key ASC NULLS LAST",
            "    Projection: (- t.a) AS a, t.a + Int64(0) AS key",
            "      TableScan: t",
        ],
    ),
    (
        "SELECT DISTINCT a FROM t ORDER BY 1 LIMIT 5 OFFSET 1",
        &[
            "Limit: skip=1, fetch=5",
            "  Sort: t.a ASC NULLS LAST",
            "    Distinct:",
            "      Projection: t.a",
            "        TableScan: t",
        ],
    ),
    (
        "SELECT DISTINCT ON (b) a FROM t ORDER BY b, a",
        &[
            "DistinctOn: on_expr=[[t.b]], select_expr=[[t.a]], sort_expr=[[t.b ASC NULLS LAST, t.a ASC NULLS LAST]]",
            "  TableScan: t",
        ],
    ),
    (
        "SELECT k, unnest(items) AS i FROM l",
        &[
            "Projection: l.k, unnest AS i",
            "  Unnest: lists[unnest|depth=1] structs[]",
            "    Projection: l.k, l.items, l.items AS unnest",
            "      TableScan: l",
        ],
    ),
];

#[test]
fn groups_windows_and_orders() {
    are_bound(GROUPS);
    let state = session();
    let named = "SELECT a, sum(b) OVER w AS s FROM t WINDOW w AS (PARTITION BY a) QUALIFY s > 1";
    let plan = bound(&state, named).unwrap().display_indent().to_string();
    assert!(plan.contains("WindowAggr: windowExpr=[[sum(t.b) PARTITION BY [t.a]"), "{plan}");
    assert!(plan.contains("Filter: sum(t.b) PARTITION BY [t.a]"), "{plan}");
}

/// Queries, and the plans that they become.
const SUBQUERIES: &[(&str, &[&str])] = &[
    (
        "SELECT a, (SELECT max(c) FROM u WHERE u.b = t.b) AS m FROM t",
        &[
            "Projection: t.a, (<subquery>) AS m",
            "  Subquery:",
            "    Projection: max(u.c) AS max(c)",
            "      Aggregate: groupBy=[[]], aggr=[[max(u.c)]]",
            "        Filter: u.b = outer_ref(t.b)",
            "          TableScan: u",
            "  TableScan: t",
        ],
    ),
    (
        "SELECT a FROM t WHERE EXISTS (SELECT 1 AS one FROM u WHERE u.b = t.b)",
        &[
            "Projection: t.a",
            "  Filter: EXISTS (<subquery>)",
            "    Subquery:",
            "      Projection: Int64(1) AS one",
            "        Filter: u.b = outer_ref(t.b)",
            "          TableScan: u",
            "    TableScan: t",
        ],
    ),
    (
        "SELECT a FROM t WHERE a + 1 NOT IN (SELECT c FROM u)",
        &[
            "Projection: t.a",
            "  Filter: t.a + Int64(1) NOT IN (<subquery>)",
            "    Subquery:",
            "      Projection: u.c",
            "        TableScan: u",
            "    TableScan: t",
        ],
    ),
    (
        "SELECT (SELECT max(t.a) + 1 AS n) AS m FROM t GROUP BY b",
        &[
            "Projection: (<subquery>) AS m",
            "  Subquery:",
            "    Projection: outer_ref(aggregate) + Int64(1) AS n",
            "      EmptyRelation: rows=1",
            "  Aggregate: groupBy=[[t.b]], aggr=[[max(t.a) AS aggregate]]",
            "    TableScan: t",
        ],
    ),
    (
        "WITH w AS (SELECT a FROM t) SELECT x.a FROM w AS x, w",
        &[
            "Projection: x.a",
            "  Cross Join:",
            "    SubqueryAlias: x",
            "      SubqueryAlias: w",
            "        Projection: t.a",
            "          TableScan: t",
            "    SubqueryAlias: w",
            "      Projection: t.a",
            "        TableScan: t",
        ],
    ),
];

#[test]
fn subqueries_and_definitions() {
    are_bound(SUBQUERIES);
    let state = session();
    let numbers =
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r";
    let plan = bound(&state, numbers).unwrap().display_indent().to_string();
    assert!(plan.contains("RecursiveQuery: is_distinct=false"), "{plan}");
    let hidden =
        "WITH t AS (SELECT 1 AS a) SELECT (WITH t AS (SELECT 2 AS z) SELECT z FROM t) AS z, a FROM t";
    assert!(bound(&state, hidden).is_ok());
}

#[test]
fn columns_have_the_names_that_are_written() {
    let state = session();
    for (sql, names) in [
        ("SELECT * FROM t NATURAL JOIN u", vec!["b", "a", "c"]),
        ("SELECT a, a, b AS a FROM t", vec!["a", "a", "a"]),
        ("SELECT * FROM (SELECT a, a FROM t) AS r", vec!["a", "a"]),
        ("SELECT * FROM t, u", vec!["a", "b", "b", "c"]),
        ("SELECT u.*, t.a FROM t, u", vec!["b", "c", "a"]),
        ("SELECT * EXCLUDE (a) FROM t", vec!["b"]),
        ("SELECT a + 1, CAST(a AS TEXT), max(b) FROM t GROUP BY a", vec!["a + 1", "a", "max(b)"]),
        ("SELECT point.x, s.point.y FROM s", vec!["x", "y"]),
        ("SELECT point.* FROM s", vec!["x", "y"]),
        ("SELECT t FROM t", vec!["t"]),
        ("SELECT A, \"b\" FROM T", vec!["a", "b"]),
        ("SELECT a AS x, x + 1 AS y FROM t WHERE x > 1", vec!["x", "y"]),
        ("SELECT a FROM t UNION SELECT c FROM u ORDER BY a", vec!["a"]),
        ("SELECT a, b FROM t UNION ALL SELECT 1, 1", vec!["a", "b"]),
        ("SELECT a FROM t EXCEPT ALL SELECT b FROM u", vec!["a"]),
        ("VALUES (1, 2)", vec!["column1", "column2"]),
        ("SELECT count(*), count(*) FROM t", vec!["count(*)", "count(*)"]),
        ("SELECT ARRAY(SELECT c FROM u WHERE u.b = t.b ORDER BY c DESC) AS list FROM t", vec!["list"]),
        (
            "SELECT r.n FROM t LEFT JOIN LATERAL (SELECT max(c) AS n FROM u WHERE u.b = t.b) AS r ON true",
            vec!["n"],
        ),
        ("SELECT a FROM t GROUP BY ALL ORDER BY ALL", vec!["a"]),
    ] {
        let plan = bound(&state, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let found: Vec<&str> =
            plan.schema().fields().iter().map(|field| unmarked_name(field.name())).collect();
        assert_eq!(found, names, "{sql}");
    }
}

#[test]
fn what_means_nothing_is_refused_where_it_stands() {
    let state = session();
    for (sql, sqlstate) in [
        ("SELECT x FROM t", "42703"),
        ("SELECT t.x FROM t", "42703"),
        ("SELECT a.x FROM t", "42703"),
        ("SELECT b FROM t, u", "42702"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT nothing.* FROM t", "42P01"),
        ("SELECT * EXCLUDE (z) FROM t", "42703"),
        ("SELECT 1 FROM t, t", "42712"),
        ("SELECT * FROM t AS r (x, y, z)", "42P10"),
        ("SELECT * FROM t JOIN u USING (a)", "42703"),
        ("WITH w AS (SELECT 1), w AS (SELECT 2) SELECT 1", "42712"),
        ("SELECT a, sum(b) FROM t", "42803"),
        ("SELECT a FROM t GROUP BY a HAVING b > 1", "42803"),
        ("SELECT a FROM t WHERE sum(b) > 1", "42803"),
        ("SELECT (SELECT max(u.c) + t.b FROM u) FROM t GROUP BY a", "42803"),
        ("SELECT a FROM t WHERE a IN (SELECT max(t.b) FROM u)", "42803"),
        ("SELECT a FROM t WHERE row_number() OVER () = 1", "42P20"),
        ("SELECT sum(a) OVER w FROM t", "42704"),
        ("SELECT a FROM t ORDER BY 2", "42P10"),
        ("SELECT a FROM t GROUP BY 2", "42P10"),
        ("SELECT DISTINCT a FROM t ORDER BY b", "42P10"),
        ("SELECT DISTINCT ON (b) a FROM t ORDER BY a", "42P10"),
        ("SELECT a FROM t UNION SELECT b, c FROM u", "42601"),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER BY t.a", "42P01"),
        ("SELECT (SELECT a, b FROM t)", "42601"),
        ("VALUES (1, 2), (3)", "42601"),
        ("SELECT *", "42601"),
    ] {
        let error = match bound(&state, sql) {
            Ok(plan) => panic!("{sql} is bound: {}", plan.display_indent()),
            Err(error) => from_datafusion(error),
        };
        assert_eq!(error.sqlstate(), sqlstate, "{sql}: {}", error.message());
    }
    let error = from_datafusion(bound(&state, "SELECT\n  x FROM t").unwrap_err());
    assert_eq!(error.mark().and_then(|mark| mark.line_and_column), Some((2, 3)));
    assert_eq!(error.message(), "no column \"x\"; there are a, b");
}

#[test]
fn names_without_quotes_mean_columns_in_other_capitals() {
    let seen = |name: &str| Seen {
        name: name.to_string(),
        expr: lit(1),
        field: Arc::new(Field::new(name, DataType::Int32, true)),
    };
    let columns = ["a", "A", "Only", "x", "x", "Up", "uP"].map(seen);
    let found = |name: Ident| match meant(&columns, &name) {
        Meant::Nothing => "nothing".to_string(),
        Meant::Column(seen) => seen.name.clone(),
        Meant::Several => "several".to_string(),
        Meant::Alike => "alike".to_string(),
    };
    for (name, expected) in
        [("A", "a"), ("ONLY", "Only"), ("x", "several"), ("up", "alike"), ("Up", "Up"), ("y", "nothing")]
    {
        assert_eq!(found(Ident::new(name)), expected, "{name}");
    }
    assert_eq!(found(Ident::with_quote('"', "A")), "A");
    assert_eq!(found(Ident::with_quote('"', "ONLY")), "nothing");
}

/// An error of a session is told as one of ours.
#[test]
fn errors_of_functions_are_those_of_before() {
    let state = session();
    let error: DataFusionError = bound(&state, "SELECT no_such_function(a) FROM t").unwrap_err();
    assert_eq!(from_datafusion(error).sqlstate(), "42883");
}
