//! `t.*` where the table is written with its schema, `FROM main.t`: DataFusion knows it by its whole name only.

use datafusion::sql::sqlparser::ast::{
    ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement, TableFactor, VisitMut,
    VisitorMut,
};
use std::ops::ControlFlow;

pub(super) fn rewrite(statement: &mut Statement) {
    let _done: ControlFlow<()> = statement.visit(&mut Wildcards);
}

struct Wildcards;

impl VisitorMut for Wildcards {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let factors = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let named: Vec<ObjectName> = factors.filter_map(without_alias).collect();
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && name.0.len() == 1
                && let Some(whole) = named.iter().find(|whole| last(whole) == last(name))
            {
                *name = whole.clone();
            }
        }
        ControlFlow::Continue(())
    }
}

/// The name without what is in front of it.
fn last(name: &ObjectName) -> Option<&str> {
    Some(name.0.last()?.as_ident()?.value.as_str())
}

/// The name of a table that has a schema in front of it, and no other name.
fn without_alias(factor: &TableFactor) -> Option<ObjectName> {
    match factor {
        TableFactor::Table { name, alias: None, args: None, .. } if name.0.len() > 1 => Some(name.clone()),
        _ => None,
    }
}
