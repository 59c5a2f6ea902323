//! Keys of set operations whose columns are not all named: ORDER BY may name those of the result. The planner
//! would add others to those sides that have them, and panics where only some do.

use crate::scope::{ASKED_MAX, Scope, first_query};
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::Statement;
use hypostyle_error::external;
use hypostyle_sql::names::told_name;
use hypostyle_sql::set_orders::{check_keys, wants_names};

/// Looks whether ORDER BY of set operations names columns of their results.
///
/// # Errors
/// `UnknownName` for one that is none.
pub async fn check(scope: Scope<'_>, statement: &Statement) -> Result<()> {
    let mut done = 0;
    for _ in 0..ASKED_MAX {
        let mut number = 0;
        let found = first_query(statement, |query, context| {
            number += usize::from(wants_names(query));
            (wants_names(query) && number > done).then(|| {
                let mut all = query.clone();
                (all.order_by, all.limit_clause, all.fetch) = (None, None, None);
                (number, query.clone(), context.defined(all))
            })
        });
        let Some((number, query, all)) = found else { return Ok(()) };
        done = number;
        // A query that is none by itself, because it uses outer columns, is left to the planner.
        if let Ok(schema) = scope.schema_as_it_is(all).await {
            let names: Vec<String> =
                schema.fields().iter().map(|field| told_name(field.name()).to_string()).collect();
            check_keys(&query, &names).map_err(external)?;
        }
    }
    Ok(())
}
