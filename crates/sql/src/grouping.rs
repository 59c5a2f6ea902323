//! Counts the grouping sets of a query: CUBE has one for each choice of its keys, and several of
//! them multiply.

use crate::walk::walk;
use hypostyle_error::complexity::too_complex;
use hypostyle_types::Result;
use sqlparser::ast::{Expr, GroupByExpr, GroupByWithModifier, Select, Statement, Visitor};
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
    use crate::parse::{Extension, parse};

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
}
