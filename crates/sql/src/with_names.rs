//! The names that WITH defines, as far as the parts of a query can read them.

use crate::identifier::fold;
use crate::walk::walk_mut;
use sqlparser::ast::{Query, VisitorMut, With};
use std::ops::ControlFlow;

/// The names that can be read, of each query around, and their definitions, which are out of the queries
/// until these end.
#[derive(Default)]
pub(crate) struct WithNames {
    known: Vec<Vec<String>>,
    taken: Vec<Option<With>>,
}

impl WithNames {
    pub fn has(&self, name: &str) -> bool {
        self.known.iter().flatten().any(|known| known == name)
    }
}

/// A visitor that tells such names from others.
pub(crate) trait KnowsWith: VisitorMut + Sized {
    fn with_names(&mut self) -> &mut WithNames;

    /// Begins a query, and walks through the definitions that it has.
    fn enter(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let mut with = query.with.take();
        let is_recursive = with.as_ref().is_some_and(|with| with.recursive);
        let tables = with.iter().flat_map(|with| &with.cte_tables);
        let names: Vec<String> = tables.map(|table| fold(&table.alias.name)).collect();
        self.with_names().known.push(if is_recursive { names.clone() } else { Vec::new() });
        // A query can read the names that are defined before its own.
        for (table, name) in with.iter_mut().flat_map(|with| &mut with.cte_tables).zip(names) {
            walk_mut(&mut table.query, self)?;
            if let Some(known) = self.with_names().known.last_mut().filter(|_| !is_recursive) {
                known.push(name);
            }
        }
        self.with_names().taken.push(with);
        ControlFlow::Continue(())
    }

    /// Ends a query, which gets its definitions back.
    fn leave(&mut self, query: &mut Query) {
        let names = self.with_names();
        query.with = names.taken.pop().flatten();
        names.known.pop();
    }
}
