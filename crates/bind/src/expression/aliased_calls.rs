//! Calls by another name of a function, such as `row` for `struct`. DataFusion gives each one a name, in
//! which stands the call and once more its name: nested ones had names, and took time to plan, that double
//! with each level. Deep within others they are called by the function's own name.
//! And CASE whose results are texts as they are written and others, of which DataFusion takes the type of the
//! first one: its planner is to give them their common type.

use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, ObjectNamePart, Query, Value, VisitorMut,
};
use hypostyle_expr::truth::OF_ONE_TYPE;
use hypostyle_sql::build::null;
use hypostyle_sql::doubles::Doubles;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::{Part, walk_mut};
use std::ops::ControlFlow;

/// So many calls within each other keep the names by which they are called, as columns and groups do.
const KEPT: usize = 4;

/// Writes the own names of functions into calls that are deep within others and, so that there is one walk
/// for all, DOUBLEs as casts, and asks for the common type of the results of CASE.
pub fn rewrite_in(part: &mut impl Part, state: &SessionState) {
    let _done = walk_mut(part, &mut Calls { state, around: Vec::new(), numbers: Doubles });
}

struct Calls<'s> {
    state: &'s SessionState,
    /// The calls by other names around what is within each query and expression around.
    around: Vec<usize>,
    numbers: Doubles,
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
        self.around.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let mut around = self.around.last().copied().unwrap_or_default();
        if let Expr::Function(function) = expr
            && let Some(own) = self.own_name(function)
        {
            if around < KEPT {
                around += 1;
            } else {
                function.name.0 = vec![ObjectNamePart::Identifier(Ident::with_quote('"', own))];
            }
        }
        self.around.push(around);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.around.pop();
        if is_of_texts_and_others(expr) {
            let case = Box::new(std::mem::replace(expr, null()));
            let op = BinaryOperator::Custom(OF_ONE_TYPE.into());
            *expr = Expr::BinaryOp { left: case, op, right: Box::new(null()) };
        }
        self.numbers.post_visit_expr(expr)
    }
}

/// Says whether an expression is a CASE of which some results, and not all, are texts as they are written.
fn is_of_texts_and_others(expr: &Expr) -> bool {
    let Expr::Case { conditions, else_result, .. } = expr else { return false };
    let results = || conditions.iter().map(|when| &when.result).chain(else_result.as_deref());
    results().any(is_text) && results().any(is_other)
}

/// Says whether an expression is neither a text as it is written nor NULL.
fn is_other(expr: &Expr) -> bool {
    !is_text(expr) && !matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(within) => is_text(within),
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_)
                | Value::DollarQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::UnicodeStringLiteral(_)
        ),
        _ => false,
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
            ("row(1e5) + row(2)", "row(CAST('1e5' AS DOUBLE PRECISION)) + row(2)"),
        ] {
            let mut expr = parse_as_written(sql).unwrap();
            rewrite_in(&mut expr, &state);
            assert_eq!(expr.to_string(), expected, "{sql}");
        }
    }
}
