//! The names of columns in a part of a statement, but not those in its subqueries, which are looked up
//! there first.

use crate::row_values::is_of_rows;
use crate::walk::{Part, walk_mut};
use sqlparser::ast::{Expr, Ident, Query, VisitorMut};
use std::ops::ControlFlow;

/// Returns the same of any part of a statement. A name is given with the table before it.
pub fn names_in(part: &mut impl Part, each: &mut impl FnMut(&Ident, Option<&Ident>) -> Option<Expr>) {
    let _done = walk_mut(part, &mut Names { each, depth: 0, hidden: Vec::new() });
}

struct Names<'a, F> {
    each: &'a mut F,
    /// The queries around that have tables of their own.
    depth: usize,
    /// Says of each query around whether it is such a one.
    hidden: Vec<bool>,
}

impl<F: FnMut(&Ident, Option<&Ident>) -> Option<Expr>> VisitorMut for Names<'_, F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_hidden = !is_of_rows(query);
        self.depth += usize::from(is_hidden);
        self.hidden.push(is_hidden);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= usize::from(self.hidden.pop().unwrap_or_default());
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Identifier(name) => {
                if let Some(other) = (self.each)(name, None) {
                    *expr = other;
                }
            }
            Expr::CompoundIdentifier(parts) => {
                if let [.., table, name] = parts.as_mut_slice()
                    && let Some(Expr::Identifier(other)) = (self.each)(name, Some(&*table))
                {
                    *name = other;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
