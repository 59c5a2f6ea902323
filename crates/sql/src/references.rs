//! The names of columns in a part of a statement.

use crate::walk::walk_mut;
use sqlparser::ast::{Expr, Ident, Query, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Returns the same of any part of a statement. A name is given with the table before it.
pub fn names_in(part: &mut impl VisitMut, each: &mut impl FnMut(&Ident, Option<&Ident>) -> Option<Expr>) {
    let _done = walk_mut(part, &mut Names { each, depth: 0 });
}

struct Names<'a, F> {
    each: &'a mut F,
    depth: usize,
}

impl<F: FnMut(&Ident, Option<&Ident>) -> Option<Expr>> VisitorMut for Names<'_, F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
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
