//! How large a statement becomes when each name of WITH is replaced by its query. Names that are read
//! twice by the next one double with every level, and so does the time of whoever walks the plan.

use crate::identifier::fold;
use crate::walk::walk;
use hypostyle_error::complexity::too_complex;
use hypostyle_types::Result;
use sqlparser::ast::{Query, Statement, TableFactor, Visitor};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Relations that a statement may read when all names are replaced; planning so many takes less than
/// a second.
const RELATIONS_MAX: u64 = 20_000;

/// Looks at the common table expressions of a statement.
///
/// # Errors
/// `Syntax` (54001) for a statement that becomes too large.
pub fn check(statement: &Statement) -> Result<()> {
    let mut sizes = Sizes { queries: vec![Size::default()] };
    match walk(statement, &mut sizes) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(too_complex(format!(
            "with all that its common table expressions read, it reads more than {RELATIONS_MAX} relations; store some \
             of them in a table"
        ))),
    }
}

/// A query, as far as it has been visited.
#[derive(Default)]
struct Size {
    relations: u64,
    /// The sizes of what its WITH names.
    named: HashMap<String, u64>,
    /// The names whose queries follow, by the addresses of these.
    names: HashMap<*const Query, String>,
}

struct Sizes {
    queries: Vec<Size>,
}

impl Sizes {
    fn add(&mut self, relations: u64) -> ControlFlow<()> {
        let Some(query) = self.queries.last_mut() else { return ControlFlow::Continue(()) };
        query.relations = query.relations.saturating_add(relations);
        match query.relations > RELATIONS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Sizes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let names = tables.map(|table| (&raw const *table.query, fold(&table.alias.name))).collect();
        self.queries.push(Size { names, ..Size::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let size = self.queries.pop().map_or(0, |query| query.relations);
        let around = self.queries.last_mut();
        if let Some(around) = around
            && let Some(name) = around.names.remove(&(&raw const *query))
        {
            around.named.insert(name, size);
            return ControlFlow::Continue(());
        }
        self.add(size)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let named = match name.0.as_slice() {
            [part] => part.as_ident().map(fold),
            _ => None,
        };
        let size = named.and_then(|name| self.queries.iter().rev().find_map(|query| query.named.get(&name)));
        let size = size.copied().unwrap_or(0);
        self.add(size.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse};

    fn chain(levels: usize, of_each: &str) -> String {
        let level = |level: usize| {
            let before = format!("c{}", level - 1);
            format!(", c{level} AS ({})", of_each.replace("{}", &before))
        };
        let levels: String = (1..=levels).map(level).collect();
        format!("WITH c0 AS (SELECT 1 AS x){levels} SELECT 1")
    }

    #[test]
    fn chains_of_names_are_counted_before_they_are_planned() {
        for (of_each, few, many) in [
            ("SELECT a.x FROM {} AS a, {} AS b", 12, 16),
            ("SELECT x FROM {} WHERE x IN (SELECT x FROM {})", 12, 30),
            ("SELECT x FROM {} UNION ALL SELECT x FROM {}", 12, 60),
            ("WITH d AS (SELECT * FROM {}) SELECT d.x FROM d, d AS e, d AS f", 8, 60),
        ] {
            assert!(parse(&chain(few, of_each), &Extension::NONE).is_ok(), "{few} of {of_each}");
            let error = parse(&chain(many, of_each), &Extension::NONE).unwrap_err();
            assert_eq!(error.sqlstate(), "54001", "{many} of {of_each}");
        }
        assert!(parse(&chain(500, "SELECT x FROM {}"), &Extension::NONE).is_ok());
    }
}
