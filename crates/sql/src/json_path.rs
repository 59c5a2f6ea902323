//! Rewrites computed paths into JSON to calls of functions.

use crate::call::call;
use sqlparser::ast::Expr;

pub const JSON: &str = "json_at_path";
pub const TEXT: &str = "json_text_at_path";

/// Returns what is at a path, as text or as JSON.
pub fn at_path(json: Expr, path: Expr, as_text: bool) -> Expr {
    call(if as_text { TEXT } else { JSON }, vec![json, path])
}
