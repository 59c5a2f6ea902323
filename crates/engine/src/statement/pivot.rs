//! PIVOT by the values that there are, and UNPIVOT of `COLUMNS(…)`: the relation is asked for them before
//! the statement is planned, which then names them.

use crate::session::Parameters;
use crate::statement::queries::Queries;
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement, Value};
use hypostyle_sql::Statement as SqlStatement;
use hypostyle_sql::definitions::first_select;
use hypostyle_sql::names::told_name;
use hypostyle_sql::parse::explained;
use hypostyle_sql::pivot::{Asked, asked, fill};
use hypostyle_sql::walk::expressions;
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;

/// Returns what the first one of a statement wants to know, as a query of its own.
fn wanted(tree: &Statement) -> Option<Asked> {
    first_select(tree, |select, around| {
        asked(select).map(|asked| match asked {
            Asked::Values(query) => Asked::Values(around.defined(query)),
            Asked::Names(query) => Asked::Names(around.defined(query)),
        })
    })
}

fn has_parameters(query: &Query) -> bool {
    let all = expressions(query, &mut |expr| match expr {
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    all.is_break()
}

/// Writes out what a statement says of values and columns that it does not name, and says whether there
/// was something.
pub(super) fn write_pivots_out(queries: &dyn Queries, statement: &mut SqlStatement) -> Result<bool> {
    match statement {
        SqlStatement::Tree(tree) => explained(tree).map_or(Ok(false), |tree| write_out(queries, tree)),
        SqlStatement::Explain(_, explained) => write_pivots_out(queries, explained),
        SqlStatement::CopyTo(copy) => write_query_out(queries, &mut copy.query),
        SqlStatement::Summarize(query) => write_query_out(queries, query),
        _ => Ok(false),
    }
}

fn write_query_out(queries: &dyn Queries, query: &mut Box<Query>) -> Result<bool> {
    let mut tree = Statement::Query(query.clone());
    let changed = write_out(queries, &mut tree)?;
    if let Statement::Query(written) = tree {
        *query = written;
    }
    Ok(changed)
}

fn write_out(queries: &dyn Queries, tree: &mut Statement) -> Result<bool> {
    let mut changed = false;
    while let Some(wanted) = wanted(tree) {
        if matches!(tree, Statement::CreateView(_) | Statement::Prepare { .. }) {
            return Err(Error::unsupported(
                "a view and a prepared statement have the same columns each time: write the values of PIVOT \
                 behind IN, and the columns of UNPIVOT by their names",
            ));
        }
        if let Asked::Values(query) = &wanted
            && has_parameters(query)
        {
            return Err(Error::unsupported(
                "a relation with parameters is not asked for the values that a PIVOT makes columns of: write \
                 these behind IN",
            ));
        }
        let found = match wanted {
            Asked::Values(query) => texts_of(queries, query)?,
            Asked::Names(query) => columns_to_pivot(queries, query)?,
        };
        fill(tree, found)?;
        changed = true;
    }
    Ok(changed)
}

fn texts_of(queries: &dyn Queries, query: Query) -> Result<Vec<String>> {
    let (_, batches) = queries.rows(query, &Parameters::None)?;
    let mut found = Vec::new();
    for batch in &batches {
        let texts = cast(batch.column(0), &DataType::Utf8);
        let texts = texts.map_err(|error| Error::internal(error.to_string()))?;
        found.extend(texts.as_string::<i32>().iter().flatten().map(str::to_string));
    }
    Ok(found)
}

fn columns_to_pivot(queries: &dyn Queries, query: Query) -> Result<Vec<String>> {
    let plan = queries.plan(query, &Parameters::None)?;
    Ok(plan.schema().fields().iter().map(|field| told_name(field.name()).to_string()).collect())
}
