//! What statements that change databases have in common.

use crate::statement::names::Names;
use crate::statement::queries::Transactions;
use hypostyle_catalog::scope::Scope;
use hypostyle_storage::Transaction;
use hypostyle_types::Result;
use std::sync::Arc;

/// The databases of a statement: what names stand for in them, and the transactions that change them.
#[derive(Clone, Copy)]
pub(super) struct InDatabases<'a> {
    pub scope: &'a Arc<Scope>,
    pub transactions: &'a dyn Transactions,
}

impl<'a> InDatabases<'a> {
    pub fn names(&self) -> Names<'a> {
        Names { scope: self.scope }
    }

    /// Changes a database: in the open transaction, or in one of its own.
    pub fn write<T>(&self, database: &str, change: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transactions.write(database, change)
    }

    pub fn is_in_transaction(&self) -> bool {
        self.transactions.is_open()
    }

    /// Shows the statement what has been committed by now, or what its transaction sees.
    pub fn refresh(&self) -> Result<()> {
        self.transactions.renew()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::test_queries::{Alone, table_of_numbers};
    use hypostyle_storage::SCHEMA_MAIN;
    use hypostyle_types::Error;

    #[test]
    fn a_change_shows_once_it_is_made_and_nothing_of_one_that_fails() {
        let alone = Alone::new();
        let databases = InDatabases { scope: &alone.scope, transactions: &alone };
        let name = alone.scope.current_database().unwrap().name;
        let has = |table: &str| {
            let snapshot = alone.scope.current_database().unwrap().snapshot;
            snapshot.catalog().table(SCHEMA_MAIN, table).is_some()
        };
        let made = databases.write(&name, |writer| Ok(table_of_numbers(writer, "t", &["i"], |_| {})));
        assert!(made.is_ok() && has("t"));
        let failed: Result<()> = databases.write(&name, |writer| {
            table_of_numbers(writer, "u", &["i"], |_| {});
            Err(Error::invalid_input("no"))
        });
        assert_eq!(failed.unwrap_err().message(), "no");
        databases.refresh().unwrap();
        assert!(has("t") && !has("u"));
        assert!(!databases.is_in_transaction());
    }
}
