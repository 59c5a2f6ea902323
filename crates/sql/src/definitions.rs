//! The definitions of WITH around a SELECT, with which it is a query of its own.

use crate::walk::walk;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{Cte, Query, Select, Statement, Visitor, With};
use std::ops::ControlFlow;

/// The definitions around a SELECT: those by WITH of the queries around, and how many of them have been
/// passed, which may be named.
#[derive(Default)]
pub struct Definitions {
    around: Vec<(Option<With>, usize)>,
}

impl Definitions {
    /// Returns a query with the definitions around it in front of its own.
    pub fn defined(&self, mut query: Query) -> Query {
        let mut named: Vec<Cte> = Vec::new();
        let mut recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        for (with, passed) in &self.around {
            for one in with.iter().flat_map(|with| &with.cte_tables[..*passed]) {
                named.retain(|other| other.alias.name != one.alias.name);
                named.push(one.clone());
            }
            recursive |= with.as_ref().is_some_and(|with| with.recursive);
        }
        for one in query.with.iter().flat_map(|with| &with.cte_tables) {
            named.retain(|other| other.alias.name != one.alias.name);
            named.push(one.clone());
        }
        let with = With { with_token: AttachedToken::empty(), recursive, cte_tables: named };
        query.with = Some(with).filter(|with| !with.cte_tables.is_empty());
        query
    }
}

/// Returns what the first SELECT gives, from the inside out, that gives something.
pub fn first_select<B>(
    statement: &Statement,
    of_select: impl FnMut(&Select, &Definitions) -> Option<B>,
) -> Option<B> {
    walk(statement, &mut Around { definitions: Definitions::default(), of_select }).break_value()
}

/// Goes through the SELECTs of a statement with what is around them.
struct Around<S> {
    definitions: Definitions,
    of_select: S,
}

impl<B, S: FnMut(&Select, &Definitions) -> Option<B>> Visitor for Around<S> {
    type Break = B;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<B> {
        self.definitions.around.push((query.with.clone(), 0));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.definitions.around.pop();
        // The definitions of WITH come first in a query.
        if let Some((Some(with), passed)) = self.definitions.around.last_mut() {
            *passed = with.cte_tables.len().min(*passed + 1);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<B> {
        (self.of_select)(select, &self.definitions).map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

#[cfg(test)]
mod tests {
    use super::first_select;
    use crate::build;
    use crate::parse::{Extension, parse};
    use datafusion_sql::parser::Statement as DfStatement;

    #[test]
    fn a_select_has_the_definitions_before_it() {
        let sql = "WITH a AS (SELECT 1), b AS (SELECT x FROM a) SELECT * FROM b";
        let DfStatement::Statement(statement) = parse(sql, &Extension::NONE).unwrap() else { panic!() };
        let mut found = Vec::new();
        let _none: Option<()> = first_select(&statement, |_, around| {
            let names = around.defined(build::select(Vec::new(), Vec::new())).with;
            found.push(names.map_or(0, |with| with.cte_tables.len()));
            None
        });
        assert_eq!(found, [0, 1, 2]);
    }
}
