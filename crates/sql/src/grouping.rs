//! Grouping sets. They are counted: CUBE has one for each choice of its keys, and several of them
//! multiply. Lists among their keys become sets, and constants columns.

use crate::build;
use crate::walk::{expressions, expressions_mut, walk, walk_mut};
use hypostyle_error::complexity::too_complex;
use hypostyle_types::Result;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, GroupByWithModifier, Ident, Select,
    SelectItem, Statement, TableWithJoins, Value, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// The largest number of grouping sets, as in PostgreSQL.
const SETS_MAX: usize = 4096;

/// # Errors
/// `Syntax` (54001) when a query of the statement groups by too many sets.
pub fn check_sets(statement: &Statement) -> Result<()> {
    match walk(statement, &mut Sets) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(too_complex(format!(
            "it groups by more than {SETS_MAX} sets of keys; name those that are wanted in GROUPING SETS"
        ))),
    }
}

/// Makes columns of constants among the keys of grouping sets, as `ROLLUP ('…'::UUID)`: the planner computes
/// constants beforehand, and knows a key no more whose type is then said otherwise.
pub fn columns_of_constants(statement: &mut Statement) {
    let _done: ControlFlow<()> = walk_mut(statement, &mut Constants);
}

/// The relation of the constants of a query.
const CONSTANTS: &str = "__constants";

struct Constants;

impl VisitorMut for Constants {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return ControlFlow::Continue(()) };
        let has_name =
            |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
        // A wildcard would have the columns, too.
        if !select.projection.iter().all(has_name) {
            return ControlFlow::Continue(());
        }
        let mut known: Vec<Expr> = Vec::new();
        for key in keys {
            if let Expr::Cube(sets) | Expr::Rollup(sets) | Expr::GroupingSets(sets) = key {
                let keys = sets.iter().flatten().map(|key| meant(key, &select.projection));
                for key in keys.filter(|key| is_constant(key)) {
                    if !known.contains(key) {
                        known.push(key.clone());
                    }
                }
            }
        }
        let Some(constants) = relation_of(&known) else { return ControlFlow::Continue(()) };
        select.from.push(constants);
        for item in &mut select.projection {
            let written = item.clone();
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
                continue;
            };
            by_columns(expr, &known);
            if let (SelectItem::UnnamedExpr(expr), true) = (&*item, *item != written) {
                // The column has the name that was written.
                let alias = Ident::with_quote('"', written.to_string());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.iter_mut().for_each(|key| by_columns(key, &known));
        }
        select.having.iter_mut().for_each(|having| by_columns(having, &known));
        ControlFlow::Continue(())
    }
}

/// Returns what a key stands for: the item at its place, if it is a number, or itself.
fn meant<'a>(key: &'a Expr, items: &'a [SelectItem]) -> &'a Expr {
    let Expr::Value(value) = key else { return key };
    let Value::Number(number, _) = &value.value else { return key };
    let place = number.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
    match place.and_then(|place| items.get(place)) {
        Some(SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) => item,
        _ => key,
    }
}

/// Says whether a key is a value that is computed of no columns, as a cast of a text.
fn is_constant(key: &Expr) -> bool {
    let is_simple = |expr: &Expr| {
        matches!(
            expr,
            Expr::Cast { .. }
                | Expr::TypedString(_)
                | Expr::Value(_)
                | Expr::Nested(_)
                | Expr::UnaryOp { .. }
        )
    };
    let all = expressions(key, &mut |expr| match is_simple(expr) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    !matches!(key, Expr::Value(_)) && all.is_continue()
}

/// Returns a relation of one row with the constants, if there are some.
fn relation_of(constants: &[Expr]) -> Option<TableWithJoins> {
    if constants.is_empty() {
        return None;
    }
    let column = |(place, constant): (usize, &Expr)| SelectItem::ExprWithAlias {
        expr: constant.clone(),
        alias: Ident::new(format!("__key_{place}")),
    };
    let columns = build::select(constants.iter().enumerate().map(column).collect(), Vec::new());
    Some(TableWithJoins { relation: build::derived(columns, Ident::new(CONSTANTS)), joins: Vec::new() })
}

/// Writes the column of each constant in its stead.
fn by_columns(expr: &mut Expr, constants: &[Expr]) {
    let _done = expressions_mut(expr, &mut |expr| {
        if let Some(place) = constants.iter().position(|constant| *constant == *expr) {
            let column = Ident::new(format!("__key_{place}"));
            *expr = Expr::CompoundIdentifier(vec![Ident::new(CONSTANTS), column]);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Puts the keys of a list in parentheses beside the others: `GROUP BY (a, b), c` has three keys, as
/// has `GROUP BY a, b, c` (ISO/IEC 9075-2, 7.13). In ROLLUP and CUBE such a list is one key, which the
/// planner does not know: they become the sets that they stand for. So do ROLLUP and CUBE among grouping
/// sets, which the parser takes for functions.
pub fn write_lists_out(statement: &mut Statement) {
    let _done: ControlFlow<()> = walk_mut(statement, &mut Lists);
}

struct Lists;

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by
            && keys.iter().any(|key| {
                matches!(key, Expr::Tuple(_) | Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_))
            })
        {
            let written = std::mem::take(keys);
            *keys = written.into_iter().flat_map(keys_of).map(sets_of).collect();
        }
        ControlFlow::Continue(())
    }
}

fn keys_of(key: Expr) -> Vec<Expr> {
    match key {
        Expr::Tuple(keys) if !keys.is_empty() => keys.into_iter().flat_map(keys_of).collect(),
        other => vec![other],
    }
}

/// Returns ROLLUP and CUBE of lists as their grouping sets, unless these are too many.
fn sets_of(key: Expr) -> Expr {
    match key {
        Expr::Rollup(lists) if has_list(&lists) => {
            let counts = (0..=lists.len()).rev();
            Expr::GroupingSets(counts.map(|count| keys_in(lists.iter().take(count))).collect())
        }
        Expr::Cube(lists) if has_list(&lists) && cube(lists.len()) <= SETS_MAX => {
            let chosen = |choice: usize| {
                let lists = lists.iter().enumerate().filter(|(place, _)| (choice >> place) & 1 == 1);
                keys_in(lists.map(|(_, list)| list))
            };
            Expr::GroupingSets((0..cube(lists.len())).rev().map(chosen).collect())
        }
        Expr::GroupingSets(sets) => Expr::GroupingSets(sets.into_iter().flat_map(sets_within).collect()),
        other => other,
    }
}

/// Returns the sets that ROLLUP or CUBE stands for among others, or the set itself.
fn sets_within(set: Vec<Expr>) -> Vec<Vec<Expr>> {
    let Some((is_cube, lists)) = call_of_sets(&set) else { return vec![set] };
    let choices: Vec<usize> = match is_cube {
        true if cube(lists.len()) <= SETS_MAX => (0..cube(lists.len())).rev().collect(),
        false if lists.len() < SETS_MAX => (0..=lists.len()).rev().collect(),
        _ => return vec![set],
    };
    let is_chosen = |choice: usize, place: usize| match is_cube {
        true => place < usize::BITS as usize && (choice >> place) & 1 == 1,
        false => place < choice,
    };
    let chosen = |choice: usize| {
        let lists = lists.iter().enumerate().filter(|(place, _)| is_chosen(choice, *place));
        keys_in(lists.map(|(_, list)| list))
    };
    choices.into_iter().map(chosen).collect()
}

/// Returns the lists of keys of ROLLUP or CUBE that is alone in a set, and whether it is CUBE.
fn call_of_sets(set: &[Expr]) -> Option<(bool, Vec<Vec<Expr>>)> {
    let [Expr::Function(call)] = set else { return None };
    let [name] = call.name.0.as_slice() else { return None };
    let name = name.as_ident().filter(|name| name.quote_style.is_none())?;
    let is_cube = name.value.eq_ignore_ascii_case("cube");
    if !is_cube && !name.value.eq_ignore_ascii_case("rollup") {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let keys = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(keys))) => Some(keys.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Nested(key))) => Some(vec![key.as_ref().clone()]),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => Some(vec![key.clone()]),
        _ => None,
    };
    let lists: Option<Vec<Vec<Expr>>> = list.args.iter().map(keys).collect();
    lists.map(|lists| (is_cube, lists))
}

fn has_list(lists: &[Vec<Expr>]) -> bool {
    lists.iter().any(|list| list.len() != 1)
}

/// Returns the keys of some lists, each once.
fn keys_in<'a>(lists: impl Iterator<Item = &'a Vec<Expr>>) -> Vec<Expr> {
    let mut keys = Vec::new();
    for key in lists.flatten() {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

struct Sets;

impl Visitor for Sets {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let (keys, modifiers): (&[Expr], _) = match &select.group_by {
            GroupByExpr::Expressions(keys, modifiers) => (keys, modifiers),
            GroupByExpr::All(modifiers) => (&[], modifiers),
        };
        let of_modifier = |modifier: &GroupByWithModifier| match modifier {
            GroupByWithModifier::Cube => cube(keys.len()),
            GroupByWithModifier::Rollup => keys.len() + 1,
            GroupByWithModifier::GroupingSets(sets) => of_key(sets),
            GroupByWithModifier::Totals => 2,
        };
        let sets = modifiers.iter().map(of_modifier).fold(product(keys), usize::saturating_mul);
        match sets > SETS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Sets that keys beside each other make.
fn product(keys: &[Expr]) -> usize {
    keys.iter().map(of_key).fold(1, usize::saturating_mul)
}

fn of_key(key: &Expr) -> usize {
    match key {
        Expr::Cube(keys) => cube(keys.len()),
        Expr::Rollup(keys) => keys.len() + 1,
        Expr::GroupingSets(sets) => sets.iter().map(|keys| product(keys)).fold(0, usize::saturating_add),
        _ => 1,
    }
}

fn cube(keys: usize) -> usize {
    1_usize.checked_shl(u32::try_from(keys).unwrap_or(u32::MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse, parse_query};

    #[test]
    fn sets_are_counted_before_they_are_made() {
        let keys = |count: usize| (0..count).map(|key| format!("k{key}")).collect::<Vec<_>>().join(", ");
        for (group, is_few) in [
            (keys(100), true),
            (format!("CUBE ({})", keys(12)), true),
            (format!("CUBE ({})", keys(13)), false),
            (format!("CUBE ({})", keys(70)), false),
            (format!("ROLLUP ({})", keys(100)), true),
            (format!("ROLLUP ({0}), ROLLUP ({0})", keys(70)), false),
            (format!("GROUPING SETS ({})", vec!["(k1)"; 4096].join(", ")), true),
            (format!("GROUPING SETS ({})", vec!["(k1)"; 4097].join(", ")), false),
        ] {
            for sql in [
                format!("SELECT 1 FROM t GROUP BY {group}"),
                format!("SELECT (SELECT 1 FROM t GROUP BY {group})"),
            ] {
                match parse(&sql, &Extension::NONE) {
                    Ok(_) => assert!(is_few, "{sql}"),
                    Err(error) => assert_eq!((error.sqlstate(), is_few), ("54001", false), "{sql}: {error}"),
                }
            }
        }
    }

    #[test]
    fn lists_in_rollup_and_cube_are_one_key() {
        for (written, meant) in [
            ("ROLLUP ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), ())"),
            ("CUBE ((a, b), (c))", "GROUPING SETS ((a, b, c), (c), (a, b), ())"),
            ("d, ROLLUP ((a, b))", "d, GROUPING SETS ((a, b), ())"),
            ("ROLLUP (a, b)", "ROLLUP (a, b)"),
            (
                "GROUPING SETS (ROLLUP (a, b), c, CUBE ((a, b), c))",
                "GROUPING SETS ((a, b), (a), (), (c), (a, b, c), (c), (a, b), ())",
            ),
        ] {
            let group = |keys: &str| {
                parse_query(&format!("SELECT 1 FROM t GROUP BY {keys}"), &Extension::NONE)
                    .unwrap()
                    .to_string()
            };
            assert_eq!(group(written), group(meant));
        }
    }

    #[test]
    fn constants_among_keys_are_columns() {
        let query = |sql: &str| parse_query(sql, &Extension::NONE).unwrap().to_string();
        let written =
            query("SELECT DATE '2020-01-01' AS d, count(*) FROM t GROUP BY ROLLUP (DATE '2020-01-01', a)");
        assert!(written.contains("__constants.__key_0 AS d"), "{written}");
        assert!(written.contains("ROLLUP (__constants.__key_0, a)"), "{written}");
        let by_place = query("SELECT DATE '2020-01-01' AS d, count(*) FROM t GROUP BY ROLLUP (1, a)");
        assert!(by_place.contains("__constants.__key_0 AS d"), "{by_place}");
        for sql in
            ["SELECT a FROM t GROUP BY ROLLUP (a, b + 1)", "SELECT DATE '2020-01-01' FROM t GROUP BY 1"]
        {
            assert!(!query(sql).contains("__constants"), "{sql}");
        }
    }
}
