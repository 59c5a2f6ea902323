//! Calls by another name of a function, such as `row` for `struct`. DataFusion gives each one a name, in
//! which stands the call and once more its name: nested ones had names, and took time to plan, that double
//! with each level. Deep within others they are called by the function's own name.

use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Function, Ident, ObjectNamePart, Query, VisitorMut};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::{Part, walk_mut};
use std::ops::ControlFlow;

/// So many calls within each other keep the names by which they are called, as columns and groups do.
const KEPT: usize = 4;

/// Writes the own names of functions into calls that are deep within others.
pub fn rewrite_in(part: &mut impl Part, state: &SessionState) {
    let _done = walk_mut(part, &mut Calls { state, depth: 0, counted: Vec::new(), outer: Vec::new() });
}

struct Calls<'s> {
    state: &'s SessionState,
    /// Calls by other names around.
    depth: usize,
    /// Whether each of the expressions around is such a call.
    counted: Vec<bool>,
    /// The depth of each query around.
    outer: Vec<usize>,
}

impl Calls<'_> {
    /// Returns the own name of a function that is called by another one.
    fn own_name(&self, function: &Function) -> Option<String> {
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
        let name = fold(name);
        let state = self.state;
        let own = match state.scalar_functions().get(name.as_str()) {
            Some(found) => found.name(),
            None => state.higher_order_functions().get(name.as_str())?.name(),
        };
        (own != name.as_str()).then(|| own.to_string())
    }
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.outer.push(std::mem::take(&mut self.depth));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth = self.outer.pop().unwrap_or_default();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let mut is_counted = false;
        if let Expr::Function(function) = expr
            && let Some(own) = self.own_name(function)
        {
            is_counted = self.depth < KEPT;
            if !is_counted {
                function.name.0 = vec![ObjectNamePart::Identifier(Ident::with_quote('"', own))];
            }
        }
        self.depth += usize::from(is_counted);
        self.counted.push(is_counted);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(self.counted.pop().unwrap_or_default());
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;
    use hypostyle_sql::parse::parse_as_written;

    #[test]
    fn only_calls_deep_within_others_have_their_own_names() {
        let state = SessionContext::new().state();
        for (sql, expected) in [
            (
                "row(row(row(row(row(row(1)), pow(2, 3))))) + row(1)",
                "row(row(row(row(\"struct\"(\"struct\"(1)), \"power\"(2, 3))))) + row(1)",
            ),
            ("abs(abs(abs(abs(abs(abs(1))))))", "abs(abs(abs(abs(abs(abs(1))))))"),
            ("row(row(row(row((SELECT row(1))))))", "row(row(row(row((SELECT row(1))))))"),
        ] {
            let mut expr = parse_as_written(sql).unwrap();
            rewrite_in(&mut expr, &state);
            assert_eq!(expr.to_string(), expected, "{sql}");
        }
    }
}
