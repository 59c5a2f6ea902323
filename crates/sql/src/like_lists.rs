//! `x LIKE ANY (list)`, `x NOT ILIKE ALL (list)` and the like, as a function of the list, the text and what
//! is asked: the planner compares with one pattern.

use crate::call::call;
use sqlparser::ast::{Array, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};

/// The function that stands for them.
pub const LIKE_LIST: &str = "like_list";

/// What is asked of the patterns of a list.
struct Asked {
    is_all: bool,
    list: Expr,
}

/// Says whether an expression compares with the patterns of a list.
pub fn is_one(expr: &Expr) -> bool {
    parts(expr).is_some_and(|(any, pattern)| asked(any, pattern).is_some())
}

/// Returns the call that stands for an expression; `None` where it compares with one pattern.
pub fn rewritten(expr: &Expr) -> Option<Expr> {
    let (any, pattern) = parts(expr)?;
    let Asked { is_all, list } = asked(any, pattern)?;
    let (text, negated, word) = match expr {
        Expr::Like { expr, negated, .. } => (expr, *negated, "like"),
        Expr::ILike { expr, negated, .. } => (expr, *negated, "ilike"),
        _ => return None,
    };
    let not = if negated { "not " } else { "" };
    let of = if is_all { "all" } else { "any" };
    let how = Expr::value(Value::SingleQuotedString(format!("{not}{word} {of}")));
    Some(call(LIKE_LIST, vec![list, text.as_ref().clone(), how]))
}

/// Returns whether ANY is said, and the pattern.
fn parts(expr: &Expr) -> Option<(bool, &Expr)> {
    match expr {
        Expr::Like { any, pattern, escape_char: None, .. }
        | Expr::ILike { any, pattern, escape_char: None, .. } => Some((*any, pattern.as_ref())),
        _ => None,
    }
}

fn asked(any: bool, pattern: &Expr) -> Option<Asked> {
    let listed = |elem: Vec<Expr>| Expr::Array(Array { elem, named: true });
    match pattern {
        Expr::Nested(list) if any && is_list(list) => {
            Some(Asked { is_all: false, list: list.as_ref().clone() })
        }
        Expr::Nested(one) if any => Some(Asked { is_all: false, list: listed(vec![one.as_ref().clone()]) }),
        Expr::Tuple(patterns) if any => Some(Asked { is_all: false, list: listed(patterns.clone()) }),
        // The parser takes ALL (…) and SOME (…) for calls.
        Expr::Function(function) if !any => {
            let name = function.name.to_string();
            let is_all = name.eq_ignore_ascii_case("all");
            let FunctionArguments::List(arguments) = &function.args else { return None };
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = arguments.args.as_slice() else {
                return None;
            };
            let is_quantified = is_all || name.eq_ignore_ascii_case("some");
            (is_quantified && is_list(list)).then(|| Asked { is_all, list: list.clone() })
        }
        _ => None,
    }
}

/// Says whether an expression may be a list: a text as it is written is a pattern.
fn is_list(expr: &Expr) -> bool {
    !matches!(expr, Expr::Value(_) | Expr::Subquery(_))
}

#[cfg(test)]
mod tests {
    use super::rewritten;
    use crate::reading::parse_as_written;

    #[test]
    fn lists_of_patterns_are_arguments() {
        for (written, meant) in [
            ("x LIKE ANY (ARRAY['a%', y])", "like_list(ARRAY['a%', y], x, 'like any')"),
            ("x NOT ILIKE ANY (l)", "like_list(l, x, 'not ilike any')"),
            ("x LIKE ANY ('a%', 'b')", "like_list(ARRAY['a%', 'b'], x, 'like any')"),
            ("x NOT LIKE ALL (l)", "like_list(l, x, 'not like all')"),
        ] {
            let found = rewritten(&parse_as_written(written).unwrap()).map(|found| found.to_string());
            assert_eq!(found.as_deref(), Some(meant), "{written}");
        }
        for plain in ["x LIKE 'a'", "x LIKE all_of(y)", "x LIKE (y)", "x = 1"] {
            assert!(rewritten(&parse_as_written(plain).unwrap()).is_none(), "{plain}");
        }
    }
}
