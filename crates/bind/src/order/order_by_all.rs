//! ORDER BY ALL of columns that are not named: by as many keys as the query gives columns.

use crate::scope::{ASKED_MAX, Scope, first_query};
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::{Query, Statement, VisitorMut};
use hypostyle_error::complexity::too_complex;
use hypostyle_error::external;
use hypostyle_sql::clauses::{order_by_all, orders_by_all};
use hypostyle_sql::walk::walk_mut;
use std::ops::ControlFlow;

/// Writes the keys out.
///
/// # Errors
/// Those of binding what is asked for its columns; too many queries with ORDER BY ALL.
pub async fn rewrite(scope: Scope<'_>, statement: &mut Statement) -> Result<()> {
    for _ in 0..ASKED_MAX {
        let found = first_query(statement, |query, context| {
            orders_by_all(query)?;
            let mut all = query.clone();
            (all.order_by, all.limit_clause, all.fetch) = (None, None, None);
            Some(context.defined(all))
        });
        let Some(all) = found else { return Ok(()) };
        let count = scope.schema_of(all).await?.fields().len();
        let _done = walk_mut(statement, &mut Ordering(count));
    }
    Err(external(too_complex(format!("it has more than {ASKED_MAX} queries with ORDER BY ALL"))))
}

/// Orders the first such query by so many columns.
struct Ordering(usize);

impl VisitorMut for Ordering {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        match orders_by_all(query) {
            Some(options) => {
                order_by_all(query, self.0, options);
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    }
}
