//! Columns of UNION, INTERSECT and EXCEPT behind the first branch, whose names nobody sees. DataFusion calls
//! what such a branch computes as the first one calls its columns, and refuses the branch where another one
//! of its columns has that name: `SELECT a, b FROM t UNION SELECT 0, a FROM t`.

use crate::derived_names::is_one_column;
use crate::walk::walk_mut;
use hypostyle_error::column_name::ONE_OF;
use sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, SetExpr, SetQuantifier, Statement, VisitorMut};
use std::ops::ControlFlow;

/// Gives what such branches compute names of their own; whether there is any.
pub fn name_computed(statement: &mut Statement) -> bool {
    let mut naming = Naming { changed: false };
    let _done = walk_mut(statement, &mut naming);
    naming.changed
}

struct Naming {
    changed: bool,
}

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut body = query.body.as_mut();
        while let SetExpr::SetOperation { left, right, set_quantifier, .. } = body {
            if !is_by_name(*set_quantifier) {
                self.name_each(right);
            }
            body = left.as_mut();
        }
        ControlFlow::Continue(())
    }
}

impl Naming {
    fn name_each(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.name(select),
            SetExpr::SetOperation { left, right, set_quantifier, .. } if !is_by_name(*set_quantifier) => {
                self.name_each(left);
                self.name_each(right);
            }
            SetExpr::Query(query) => self.name_each(&mut query.body),
            _ => {}
        }
    }

    fn name(&mut self, select: &mut Select) {
        for (place, item) in select.projection.iter_mut().enumerate() {
            if is_one_column(item)
                && let SelectItem::UnnamedExpr(expr) = item
                && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            {
                let alias = Ident::with_quote('"', format!("{expr}{ONE_OF}{place}"));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                self.changed = true;
            }
        }
    }
}

/// Says whether columns belong together by their names, which then are seen.
fn is_by_name(quantifier: SetQuantifier) -> bool {
    matches!(quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse};
    use datafusion_sql::parser::Statement as DfStatement;

    fn named(sql: &str) -> String {
        let DfStatement::Statement(mut statement) = parse(sql, &Extension::NONE).unwrap() else {
            panic!("not a query")
        };
        let _any = name_computed(&mut statement);
        statement.to_string().replace(ONE_OF, "#")
    }

    #[test]
    fn later_branches_have_names_of_their_own() {
        for (sql, expected) in [
            (
                "SELECT a, 1 FROM t UNION SELECT 0, a FROM t",
                r#"SELECT a, 1 FROM t UNION SELECT 0 AS "0#0", a FROM t"#,
            ),
            (
                "SELECT a, 1 FROM t EXCEPT SELECT a, b + 1 FROM t UNION ALL SELECT abs(b), 2 AS c FROM t",
                r#"SELECT a, 1 FROM t EXCEPT SELECT a, b + 1 AS "b + 1#1" FROM t UNION ALL SELECT abs(b) AS "abs(b)#0", 2 AS c FROM t"#,
            ),
            (
                "SELECT a FROM t UNION ALL BY NAME SELECT 1 FROM t",
                "SELECT a FROM t UNION ALL BY NAME SELECT 1 FROM t",
            ),
            (
                "SELECT a, 1 FROM t UNION SELECT t.b, a FROM t",
                "SELECT a, 1 FROM t UNION SELECT t.b, a FROM t",
            ),
        ] {
            assert_eq!(named(sql), expected, "{sql}");
        }
    }
}
