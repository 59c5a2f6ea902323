//! Parts of a statement that writes, in the query that finds its rows: the tables of FROM, USING and MERGE,
//! the values of SET, the items of RETURNING. Each part has been rewritten when its statement was read. Here
//! it is rewritten what only a SELECT has, which these parts become last.

use crate::build::select_where;
use crate::walk::Part;
use crate::{clauses, refused, windows};
use hypostyle_types::Result;
use sqlparser::ast::{Expr, Query, SelectItem, TableWithJoins};

/// Rewrites such a query, or the statement that it is, as one that is read.
///
/// # Errors
/// Those of [`refused::check`] and [`windows::rewrite`].
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    refused::check(part)?;
    windows::rewrite(part)?;
    clauses::rewrite(part);
    Ok(())
}

/// Returns a query of such parts.
///
/// # Errors
/// Those of [`rewrite`].
pub fn query(items: Vec<SelectItem>, from: Vec<TableWithJoins>, condition: Option<Expr>) -> Result<Query> {
    let mut query = select_where(items, from, condition);
    rewrite(&mut query)?;
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse, parse_query};
    use datafusion_sql::parser::Statement as DfStatement;
    use sqlparser::ast::{Delete, Statement};

    /// Returns what a DELETE returns of the rows of USING that it finds.
    fn found(sql: &str) -> Result<Query> {
        let DfStatement::Statement(statement) = parse(sql, &Extension::NONE)? else { panic!("{sql}") };
        let Statement::Delete(Delete { using, selection, returning, .. }) = *statement else {
            panic!("{sql}")
        };
        query(returning.unwrap(), using.unwrap(), selection)
    }

    #[test]
    fn what_is_found_is_what_a_query_finds() {
        for (items, from, condition) in [
            ("a", "b", "TRUE"),
            ("a, k", "b JOIN c USING (k)", "k = 1"),
            ("k AS x", "b FULL JOIN c USING (k)", "k IS NULL"),
            ("*", "b LEFT JOIN c USING (k), d", "(SELECT k FROM e JOIN f USING (k)) = k"),
            ("b.*, c.*", "s.b, c", "b.x = c.x"),
            ("b.x", "b SEMI JOIN c ON b.x = c.x", "(b.x, b.y) IN (SELECT 1, 2)"),
            ("b.x", "b ANTI JOIN (c JOIN d ON c.y = d.y) ON b.x = c.x", "(b.x, b.y) <> (1, 2)"),
            ("b.x AS x", "b", "row_number() OVER (PARTITION BY b.x) = 1"),
            ("b.x AS x", "b", "b.x = - -5 AND s = '\n5 or true --' AND r = $$it's$$"),
        ] {
            let sql = format!("SELECT {items} FROM {from} WHERE {condition}");
            let read = parse_query(&sql, &Extension::NONE).unwrap();
            let sql = format!("DELETE FROM t USING {from} WHERE {condition} RETURNING {items}");
            assert_eq!(found(&sql).unwrap(), read, "{sql}");
        }
    }

    #[test]
    fn what_no_query_may_have_is_refused() {
        for (from, condition, sqlstate) in
            [("b JOIN c", "TRUE", "42601"), ("b", "sum(1) OVER (w ORDER BY x) = 1", "42704")]
        {
            let sql = format!("DELETE FROM t USING {from} WHERE {condition} RETURNING 1");
            assert_eq!(found(&sql).unwrap_err().sqlstate(), sqlstate, "{sql}");
        }
    }
}
