//! COLUMNS(…) in an item of SELECT: which columns it stands for, and an item for each of these.

use arrow::array::StringArray;
use arrow::compute::regexp_is_match_scalar;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, OneOrManyWithParens, SelectItem,
    UnaryOperator, Value, WildcardAdditionalOptions,
};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::{expressions, expressions_mut};
use hypostyle_types::{Error, ErrorKind};
use std::ops::ControlFlow;

/// A condition of a name, and what it calls this.
pub type Condition = (Ident, Expr);

/// The columns that COLUMNS(…) stands for.
pub enum Wanted {
    Wildcard(Box<WildcardAdditionalOptions>),
    /// Columns whose names match a regular expression, or do not.
    Like(String),
    Unlike(String),
    /// Columns of these names, in their order.
    Named(Vec<String>),
    /// Columns for whose names a condition holds.
    Meant(Box<Condition>),
}

/// Returns the COLUMNS(…) in an item.
pub fn columns_in(item: &SelectItem) -> Option<Wanted> {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return None };
    let mut found = None;
    let _done = expressions(expr, &mut |expr| {
        found = found.take().or_else(|| wanted(expr));
        ControlFlow::<()>::Continue(())
    });
    found
}

fn wanted(expr: &Expr) -> Option<Wanted> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return None };
    if !function.name.to_string().eq_ignore_ascii_case("columns") {
        return None;
    }
    match argument {
        FunctionArgExpr::Wildcard => Some(Wanted::Wildcard(Box::default())),
        FunctionArgExpr::WildcardWithOptions(options) => Some(Wanted::Wildcard(Box::new(options.clone()))),
        FunctionArgExpr::Expr(Expr::UnaryOp { op: UnaryOperator::Not, expr }) => {
            text_of(expr).map(|pattern| Wanted::Unlike(pattern.into()))
        }
        FunctionArgExpr::Expr(Expr::Lambda(lambda)) => match &lambda.params {
            OneOrManyWithParens::One(parameter) => {
                Some(Wanted::Meant(Box::new((parameter.name.clone(), lambda.body.as_ref().clone()))))
            }
            OneOrManyWithParens::Many(_) => None,
        },
        FunctionArgExpr::Expr(Expr::Array(names)) => names
            .elem
            .iter()
            .map(|name| text_of(name).map(String::from))
            .collect::<Option<_>>()
            .map(Wanted::Named),
        FunctionArgExpr::Expr(expr) => text_of(expr).map(|pattern| Wanted::Like(pattern.into())),
        _ => None,
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => text_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the columns whose names match a regular expression, or do not.
fn matching<'a>(
    names: &[&'a String],
    pattern: &str,
    wanted: bool,
) -> hypostyle_types::Result<Vec<&'a String>> {
    let texts = StringArray::from_iter_values(names);
    let matches = regexp_is_match_scalar(&texts, pattern, None).map_err(|error| {
        Error::invalid_input(format!("COLUMNS('{pattern}') has no regular expression: {error}"))
            .with_sqlstate("2201B")
    })?;
    let found = names.iter().enumerate().filter(|(place, _)| matches.value(*place) == wanted);
    Ok(found.map(|(_, name)| *name).collect())
}

/// Returns the column of a name, or the one that differs from it in capitals.
fn named<'a>(names: &[&'a String], wanted: &str) -> hypostyle_types::Result<&'a String> {
    let same = names.iter().find(|name| name.as_str() == wanted);
    let found = same.or_else(|| names.iter().find(|name| name.eq_ignore_ascii_case(wanted)));
    found.copied().ok_or_else(|| {
        let error =
            Error::new(ErrorKind::UnknownName, format!("no column \"{wanted}\", which COLUMNS names"));
        error.with_sqlstate("42703").about(wanted)
    })
}

/// Returns an item for each of some columns.
///
/// # Errors
/// `UnknownName` (42703) where there is none, or a name is that of none; `InvalidInput` for a pattern that is
/// none.
pub fn for_each_column(
    item: &SelectItem,
    which: &Wanted,
    names: &[&String],
    chosen: &[String],
) -> hypostyle_types::Result<Vec<SelectItem>> {
    let names = match which {
        Wanted::Wildcard(_) => names.to_vec(),
        Wanted::Like(pattern) => matching(names, pattern, true)?,
        Wanted::Unlike(pattern) => matching(names, pattern, false)?,
        Wanted::Meant(_) => names.iter().copied().filter(|name| chosen.contains(name)).collect(),
        Wanted::Named(wanted) => {
            let found = wanted.iter().map(|name| named(names, name));
            let found = found.collect::<hypostyle_types::Result<Vec<_>>>()?;
            names.iter().copied().filter(|name| found.contains(name)).collect()
        }
    };
    let of_column = |name: &&String| {
        let column = Ident::with_quote('"', name.as_str());
        let (mut expr, alias) = match item {
            // A name that it got from its text is no name of its own.
            SelectItem::ExprWithAlias { expr, alias } if alias.value != expr.to_string() => {
                (expr.clone(), alias.clone())
            }
            SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => {
                (expr.clone(), column.clone())
            }
            _ => return item.clone(),
        };
        let value = replacement(which, name).unwrap_or(Expr::Identifier(column));
        let _done = expressions_mut(&mut expr, &mut |expr| {
            if wanted(expr).is_some() {
                *expr = value.clone();
            }
            ControlFlow::<()>::Continue(())
        });
        SelectItem::ExprWithAlias { expr, alias }
    };
    let items: Vec<SelectItem> = names.iter().map(of_column).collect();
    match items.is_empty() {
        true => Err(Error::invalid_input("COLUMNS(…) stands for no column")
            .with_sqlstate("42703")
            .about("columns")),
        false => Ok(items),
    }
}

/// Returns the value that REPLACE within COLUMNS(…) gives a column.
fn replacement(which: &Wanted, name: &str) -> Option<Expr> {
    let Wanted::Wildcard(options) = which else { return None };
    let replaced = options.opt_replace.as_ref()?.items.iter().find(|item| fold(&item.column_name) == name)?;
    Some(Expr::Nested(Box::new(replaced.expr.clone())))
}
