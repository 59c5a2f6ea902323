//! Fields of structures behind a dot, of whatever has some: `(s).f`, `l[1].f`, `t.user.city`, and `x.f` in
//! `lambda x : x.f`. The planner knows them behind names alone, and those that are no key words.

use crate::call::call;
use crate::identifier::fold;
use crate::names::name_unnamed;
use crate::walk::walk_mut;
use sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArguments, Ident, Select, Statement, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Writes fields behind dots as calls, and chains of names as names.
pub fn rewrite(statement: &mut Statement) {
    let _done = walk_mut(statement, &mut Fields { lambdas: Vec::new() });
}

/// The names of the parameters of the lambdas around what is visited.
struct Fields {
    lambdas: Vec<Vec<String>>,
}

impl VisitorMut for Fields {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_unnamed(&mut select.projection, last_field);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            self.lambdas.push(lambda.params.iter().map(|parameter| fold(&parameter.name)).collect());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(_) = expr {
            self.lambdas.pop();
        }
        if let Expr::CompoundIdentifier(names) = expr
            && let [first, fields @ ..] = names.as_slice()
            && self.lambdas.iter().flatten().any(|parameter| *parameter == fold(first))
        {
            *expr = fields.iter().fold(Expr::Identifier(first.clone()), field_of);
        }
        if let Expr::CompoundFieldAccess { root, access_chain } = expr
            && access_chain.iter().any(|access| matches!(access, AccessExpr::Dot(_)))
            && let Some(written) = written(root, access_chain)
        {
            *expr = written;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name of the field that an expression ends with, which is its column's.
fn last_field(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. } => match access_chain.last()? {
            AccessExpr::Dot(field) => name_of(field),
            AccessExpr::Subscript(_) => None,
        },
        _ => None,
    }
}

/// Returns the name behind a dot. Some key words are calls without arguments elsewhere.
fn name_of(field: &Expr) -> Option<Ident> {
    match field {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::Function(Function { name, args: FunctionArguments::None, .. }) => match name.0.as_slice() {
            [part] => part.as_ident().cloned(),
            _ => None,
        },
        _ => None,
    }
}

/// Returns what a chain of subscripts and fields is written as; `None` where it has something else.
fn written(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let mut value = root.clone();
    let mut names = match root {
        Expr::Identifier(name) => vec![name.clone()],
        Expr::CompoundIdentifier(names) => names.clone(),
        _ => Vec::new(),
    };
    for access in chain {
        match access {
            AccessExpr::Dot(field) => {
                let name = name_of(field)?;
                if names.is_empty() {
                    value = field_of(value, &name);
                } else {
                    names.push(name);
                    value = Expr::CompoundIdentifier(names.clone());
                }
            }
            AccessExpr::Subscript(_) => {
                names.clear();
                match &mut value {
                    Expr::CompoundFieldAccess { access_chain, .. } => access_chain.push(access.clone()),
                    _ => {
                        let root = Box::new(value);
                        value = Expr::CompoundFieldAccess { root, access_chain: vec![access.clone()] };
                    }
                }
            }
        }
    }
    Some(value)
}

fn field_of(value: Expr, name: &Ident) -> Expr {
    call("get_field", vec![value, Expr::value(Value::SingleQuotedString(fold(name)))])
}

#[cfg(test)]
mod tests {
    use super::rewrite;
    use crate::parse::{Extension, parse};
    use datafusion_sql::parser::Statement as DfStatement;

    #[test]
    fn fields_are_calls_and_names_are_names() {
        for (sql, meant) in [
            ("SELECT (s).f FROM t", "SELECT get_field((s), 'f') AS f FROM t"),
            ("SELECT l[1].f.g AS x FROM t", "SELECT get_field(get_field(l[1], 'f'), 'g') AS x FROM t"),
            ("SELECT (l[1]).f[2] AS x FROM t", "SELECT get_field((l[1]), 'f')[2] AS x FROM t"),
            ("SELECT e.user.city AS x FROM t AS e", "SELECT e.user.city AS x FROM t AS e"),
            ("SELECT a.b FROM t", "SELECT a.b FROM t"),
            (
                "SELECT list_filter(l, lambda x : X.a.b > x.c + t.x) FROM t",
                "SELECT list_filter(l, lambda x : get_field(get_field(X, 'a'), 'b') > get_field(x, 'c') + t.x) FROM t",
            ),
            (
                "SELECT list_transform(l, lambda x : x.a), x.a FROM x",
                "SELECT list_transform(l, lambda x : get_field(x, 'a')), x.a FROM x",
            ),
        ] {
            let DfStatement::Statement(mut statement) = parse(sql, &Extension::NONE).unwrap() else {
                panic!()
            };
            rewrite(&mut statement);
            assert_eq!(statement.to_string(), meant, "{sql}");
        }
    }
}
