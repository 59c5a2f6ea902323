//! Names of columns that nobody has named, and whose expressions are written in another way before they are
//! bound: the texts that were written, of results and of queries in FROM and WITH.

use crate::macros::expanded;
use crate::names::name_as_written;
use crate::parse::Text;
use crate::walk::{expressions, walk_mut};
use sqlparser::ast::{Expr, Function, Query, Select, SetExpr, Statement, TableFactor, VisitorMut};
use std::ops::ControlFlow;

/// Names columns of a result, of a table that is made of one, and of such queries, whose expressions the
/// passes write in another way, by what is written. The words tell whether there may be such queries, so that
/// most statements are not walked through for their names.
pub fn keep_written(text: &Text<'_>, statement: &mut Statement) {
    match statement {
        Statement::Query(query) => each_select(&mut query.body, name_rewritten),
        Statement::CreateTable(create) => {
            create.query.iter_mut().for_each(|query| each_select(&mut query.body, name_rewritten));
        }
        _ => {}
    }
    if text.may_have_inner_select() {
        let _done = walk_mut(statement, &mut Names);
    }
}

/// Names the columns of each SELECT in FROM or WITH.
struct Names;

impl VisitorMut for Names {
    type Break = ();

    // A query is named before what is within it: otherwise its names would have those within it, each of them
    // twice.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if table.alias.columns.is_empty() {
                each_select(&mut table.query.body, name_rewritten);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias, .. } = factor
            && alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        {
            each_select(&mut subquery.body, name_rewritten);
        }
        ControlFlow::Continue(())
    }
}

fn each_select(body: &mut SetExpr, each: fn(&mut Select)) {
    match body {
        SetExpr::Select(select) => each(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, each);
            each_select(right, each);
        }
        SetExpr::Query(query) => each_select(&mut query.body, each),
        _ => {}
    }
}

fn name_rewritten(select: &mut Select) {
    name_as_written(&mut select.projection, is_rewritten);
}

/// Says whether an expression has an interval, a collation, or a call that stands for something else, and is
/// one column.
fn is_rewritten(expr: &Expr) -> bool {
    let (mut is_one, mut some) = (true, false);
    let _all = expressions(expr, &mut |expr| {
        match expr {
            Expr::Interval(_) | Expr::Collate { .. } => some = true,
            Expr::Function(function) => {
                is_one &= !gives_several(function);
                some |= expanded(function).is_some();
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    is_one && some
}

/// Says whether it is a call that may become several columns.
fn gives_several(function: &Function) -> bool {
    let name = function.name.to_string();
    ["columns", "unnest"].iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse};
    use datafusion_sql::parser::Statement as DfStatement;

    #[test]
    fn what_the_passes_write_in_another_way_is_called_as_it_was_written() {
        const KEEPING: Extension = Extension { as_written: keep_written, ..Extension::NONE };
        let DfStatement::Statement(statement) =
            parse("SELECT d + INTERVAL '1 day', a COLLATE NOCASE = 'x', d FROM t", &KEEPING).unwrap()
        else {
            panic!("not a query")
        };
        let written = statement.to_string();
        assert!(written.contains(r#" AS "d + INTERVAL '1 day'", "#), "{written}");
        assert!(written.contains(r#" AS "a COLLATE NOCASE = 'x'", d FROM t"#), "{written}");
        for sql in [
            "WITH x AS (SELECT d + INTERVAL '1 day' FROM t) FROM x",
            "SELECT * FROM (SELECT d + INTERVAL '1 day' FROM t)",
            "INSERT INTO u SELECT * FROM (SELECT d + INTERVAL '1 day' FROM t)",
        ] {
            let written = parse(sql, &KEEPING).unwrap().to_string();
            assert!(written.contains(r#" AS "d + INTERVAL '1 day'" FROM t"#), "{written}");
        }
    }
}
