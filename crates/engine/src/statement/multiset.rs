//! EXCEPT ALL and INTERSECT ALL are refused: DataFusion answers them as if equal rows were one.

use datafusion::sql::sqlparser::ast::{
    Query, SetExpr, SetOperator, SetQuantifier, Statement, Visit, Visitor,
};
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;

struct Multisets;

impl Visitor for Multisets {
    type Break = SetOperator;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SetOperator> {
        find(&query.body)
    }
}

fn find(body: &SetExpr) -> ControlFlow<SetOperator> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else {
        return ControlFlow::Continue(());
    };
    let is_multiset = matches!(op, SetOperator::Except | SetOperator::Intersect)
        && matches!(set_quantifier, SetQuantifier::All);
    if is_multiset {
        return ControlFlow::Break(*op);
    }
    find(left)?;
    find(right)
}

pub(crate) fn refuse_multisets(statement: &Statement) -> Result<()> {
    match statement.visit(&mut Multisets) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(op) => Err(Error::unsupported(format!(
            "{op} ALL is not supported; number equal rows with row_number() and use {op}"
        ))),
    }
}
