//! `t.*` for a table that is written with its schema, `FROM main.t`. DataFusion knows it only by
//! its whole name.

use crate::walk::{Part, walk_mut};
use sqlparser::ast::{
    ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, VisitorMut,
};
use std::ops::ControlFlow;

pub fn rewrite(part: &mut impl Part) {
    let _done: ControlFlow<()> = walk_mut(part, &mut Wildcards);
}

struct Wildcards;

impl VisitorMut for Wildcards {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let factors = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let tables: Vec<&TableFactor> = factors.collect();
        let mut whole_names = Vec::new();
        for item in &select.projection {
            let of = match item {
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _)
                    if name.0.len() == 1 =>
                {
                    the_only(&tables, last(name))
                }
                _ => None,
            };
            whole_names.push(of.and_then(without_alias));
        }
        for (item, whole) in select.projection.iter_mut().zip(whole_names) {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let Some(whole) = whole
            {
                *name = whole;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the table that a query calls by that name, if there is one and no other.
fn the_only<'a>(tables: &[&'a TableFactor], name: Option<&str>) -> Option<&'a TableFactor> {
    let is_called = |table: &&&TableFactor| match table {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.value.as_str()) == name
        }
        TableFactor::Table { name: of, .. } => last(of) == name,
        _ => false,
    };
    let mut called = tables.iter().filter(is_called);
    called.next().copied().filter(|_| called.next().is_none())
}

/// Returns the name without what is in front of it.
fn last(name: &ObjectName) -> Option<&str> {
    Some(name.0.last()?.as_ident()?.value.as_str())
}

/// Returns the name of a table that has a schema in front of it, and no other name.
fn without_alias(factor: &TableFactor) -> Option<ObjectName> {
    match factor {
        TableFactor::Table { name, alias: None, args: None, .. } if name.0.len() > 1 => Some(name.clone()),
        _ => None,
    }
}
