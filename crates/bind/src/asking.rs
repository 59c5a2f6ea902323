//! Whether a statement says something that depends on the columns of relations, which are asked for before it
//! is planned. One walk tells it of all steps that ask: most statements need none of them.

use crate::from::natural_join;
use crate::order::order_keys;
use crate::select::named_columns;
use datafusion::sql::sqlparser::ast::{Query, Select, Statement, Visitor};
use hypostyle_sql::clauses::orders_by_all;
use hypostyle_sql::set_orders::wants_names;
use hypostyle_sql::walk::walk;
use std::ops::ControlFlow;

/// Says whether other queries are bound for a statement within its binding.
pub fn asks_for_columns(statement: &Statement) -> bool {
    walk(statement, &mut Any).is_break()
}

struct Any;

impl Visitor for Any {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        match orders_by_all(query).is_some() || wants_names(query) || order_keys::is_needed_by(query) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match natural_join::is_in(select) || named_columns::is_asked(select) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::asks_for_columns;
    use datafusion::sql::parser::Statement as DfStatement;
    use hypostyle_sql::parse::{Extension, parse};

    #[test]
    fn statements_ask_whose_meaning_depends_on_columns() {
        let asks = |sql: &str| {
            let DfStatement::Statement(statement) = parse(sql, &Extension::NONE).unwrap() else {
                panic!("{sql}")
            };
            asks_for_columns(&statement)
        };
        for sql in [
            "SELECT * FROM t NATURAL JOIN u",
            "SELECT * FROM (t NATURAL JOIN u) JOIN v ON true",
            "SELECT 1 WHERE EXISTS (SELECT * FROM t NATURAL LEFT JOIN u)",
            "SELECT COLUMNS('a') FROM t",
            "SELECT * FROM t ORDER BY ALL",
            "SELECT * FROM t UNION SELECT * FROM u ORDER BY a",
            "SELECT -a AS a FROM t ORDER BY a + 1",
            "INSERT INTO u SELECT a AS b FROM t ORDER BY t.b",
        ] {
            assert!(asks(sql), "{sql}");
        }
        for sql in [
            "SELECT a, b + 1 AS c FROM t JOIN u ON t.a = u.a WHERE a > 1 ORDER BY c, a",
            "SELECT a FROM (t JOIN u ON t.a = u.a) ORDER BY a + 1",
            "WITH x AS (SELECT 1 AS a) SELECT sum(a) FROM x GROUP BY a",
            "UPDATE t SET a = 1 WHERE b = 2",
        ] {
            assert!(!asks(sql), "{sql}");
        }
    }
}
