//! Tables that a statement reads and that are not there. DataFusion has no kind of error of its own for
//! them: the statement tells which tables it reads, and the catalog whether it has them.

use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectNamePart, Statement, TableFactor, Visitor};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::walk;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Returns the name of a table that is not there, as written.
pub async fn first_missing(state: &SessionState, statement: &DfStatement) -> Option<String> {
    let calls = calls(statement)?;
    for table in state.resolve_table_references(statement).ok()? {
        if calls.contains(table.table()) {
            continue;
        }
        let is_there = match state.schema_for_ref(table.clone()) {
            Ok(schema) => !matches!(schema.table(table.table()).await, Ok(None)),
            Err(_) => false,
        };
        if !is_there {
            return Some(table.to_string());
        }
    }
    None
}

/// Returns the functions that a query or an INSERT reads from, whose names stand where those of tables do.
fn calls(statement: &DfStatement) -> Option<HashSet<String>> {
    match statement {
        DfStatement::Statement(statement)
            if matches!(**statement, Statement::Query(_) | Statement::Insert(_)) =>
        {
            let mut calls = Calls(HashSet::new());
            let _all = walk(statement.as_ref(), &mut calls);
            Some(calls.0)
        }
        DfStatement::Explain(explain) => calls(&explain.statement),
        _ => None,
    }
}

struct Calls(HashSet<String>);

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(_), .. } = factor {
            self.0.extend(name.0.last().and_then(ObjectNamePart::as_ident).map(fold));
        }
        ControlFlow::Continue(())
    }
}
