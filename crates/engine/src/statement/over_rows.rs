//! Functions of several rows where a statement gives each row values of its own.

use crate::statement::completion::Compiler;
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Function, ObjectNamePart, Query, SelectItem, Visitor};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::{Part, walk};
use hypostyle_types::{Error, ErrorKind, Result};
use std::ops::ControlFlow;

impl Compiler<'_> {
    /// Looks at the values that a statement writes to each of several rows.
    ///
    /// # Errors
    /// `Syntax` (42803) for an aggregate outside of subqueries.
    pub(super) fn check_values(&self, values: &(impl Part + ?Sized)) -> Result<()> {
        self.refuse_over_rows(values, false, |_| {
            "an aggregate is not a value of each row; write it as a subquery: (SELECT …)".into()
        })
    }

    /// Looks at what RETURNING asks for.
    ///
    /// # Errors
    /// `Syntax` (42803) for an aggregate or a window function outside of subqueries.
    pub(super) fn check_returned(&self, items: &[SelectItem]) -> Result<()> {
        self.refuse_over_rows(items, true, |function| {
            format!("RETURNING gives a row for each row, and {function} is of several; write a subquery")
        })
    }

    fn refuse_over_rows(
        &self,
        part: &(impl Part + ?Sized),
        with_windows: bool,
        message: impl FnOnce(Function) -> String,
    ) -> Result<()> {
        let state = self.context.state_ref();
        let state = state.read();
        match walk(part, &mut OverRows { state: &state, with_windows, depth: 0 }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(function) => {
                Err(Error::new(ErrorKind::Syntax, message(function)).with_sqlstate("42803"))
            }
        }
    }
}

/// Finds aggregates outside of subqueries, and window functions where they are sought, too.
struct OverRows<'a> {
    state: &'a SessionState,
    with_windows: bool,
    /// The depth of subqueries.
    depth: usize,
}

impl OverRows<'_> {
    fn is_sought(&self, function: &Function) -> bool {
        if function.over.is_some() {
            return self.with_windows;
        }
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
        let name = fold(name);
        // The planner takes a function of one row first.
        self.state.aggregate_functions().contains_key(&name)
            && !self.state.scalar_functions().contains_key(&name)
    }
}

impl Visitor for OverRows<'_> {
    type Break = Function;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Function> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Function> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Function> {
        match expr {
            Expr::Function(function) if self.depth == 0 && self.is_sought(function) => {
                ControlFlow::Break(function.clone())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
