//! The open transaction of a session (docs/transactions.md).

use super::run::ClusterChanges;
use hypostyle_catalog::scope::{SearchPath, TEMPORARY};
use hypostyle_storage::{Catalog, ConstraintEntry, ConstraintRule, Deferral, Savepoint, Transaction};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, HashMap};

/// The transaction that BEGIN began.
pub(crate) struct Explicit {
    /// The number among the transactions of its session.
    pub number: u64,
    /// The transactions of each database, by its name.
    pub transactions: Vec<(String, Transaction)>,
    pub read_only: bool,
    /// The time in microseconds since 1970.
    pub begun: i64,
    pub savepoints: Vec<NamedSavepoint>,
    /// The message of the error that aborted it.
    pub aborted: Option<String>,
    pub deferrals: Deferrals,
    /// What its statements have done to tables of the cluster; that of the running one is in `Run`.
    pub cluster: ClusterChanges,
    /// What SET LOCAL has set, in the order in which it did.
    pub local_settings: Vec<LocalSetting>,
}

/// A setting that is another one until its transaction ends.
pub(crate) struct LocalSetting {
    pub name: String,
    pub before: Before,
}

/// What a setting was before SET LOCAL.
#[derive(Clone)]
pub(crate) enum Before {
    /// The value; `None` if there was none.
    Value(Option<String>),
    /// The schemas that are searched, and how they were written.
    SearchPath(SearchPath, Option<String>),
}

/// A savepoint of a transaction.
pub(crate) struct NamedSavepoint {
    pub name: String,
    /// The savepoints of each database.
    pub databases: Vec<Savepoint>,
    /// The rows of tables of the cluster that were deleted before.
    pub deleted_in_cluster: BTreeMap<TableId, RoaringTreemap>,
    /// The number of settings that SET LOCAL had set before.
    pub local_settings: usize,
}

impl Explicit {
    /// Returns the part of it in one database.
    pub fn part(&mut self, database: &str) -> Option<&mut Transaction> {
        self.transactions.iter_mut().find(|(name, _)| name == database).map(|(_, transaction)| transaction)
    }

    /// Returns the part of it in a database that is to be written.
    ///
    /// # Errors
    /// `ReadOnly`; `Unsupported` when another database has been written: nothing could commit to
    /// both at once.
    pub fn of_written(&mut self, database: &str) -> Result<&mut Transaction> {
        if self.read_only && database != TEMPORARY {
            return Err(Error::new(ErrorKind::ReadOnly, "the transaction is read-only; it cannot write"));
        }
        let written = |name: &str, transaction: &Transaction| {
            ![database, TEMPORARY].contains(&name) && !transaction.is_empty()
        };
        if database != TEMPORARY
            && let Some((other, _)) = self.transactions.iter().find(|(name, other)| written(name, other))
        {
            return Err(Error::unsupported(format!(
                "the transaction has written to the database \"{other}\", and cannot write to \"{database}\", too: \
                 commit first"
            ))
            .with_sqlstate("25000"));
        }
        self.part(database).ok_or_else(|| Error::internal("a transaction without one of its databases"))
    }

    /// Adds a database that was attached after BEGIN.
    pub fn add(&mut self, database: &str, mut transaction: Transaction) -> Result<()> {
        for savepoint in &mut self.savepoints {
            savepoint.databases.push(transaction.savepoint()?);
        }
        self.transactions.push((database.into(), transaction));
        Ok(())
    }

    pub fn abort(&mut self, why: &str) {
        self.aborted.get_or_insert_with(|| why.to_string());
    }

    pub fn savepoint(&mut self) -> Result<Vec<Savepoint>> {
        self.transactions.iter_mut().map(|(_, transaction)| transaction.savepoint()).collect()
    }

    pub fn roll_back_to(&mut self, savepoints: &[Savepoint]) {
        for ((_, transaction), savepoint) in self.transactions.iter_mut().zip(savepoints) {
            transaction.roll_back_to(savepoint);
        }
    }

    /// Commits what was written: the session's own tables last, which nobody else can be in
    /// conflict about.
    pub fn commit(mut self) -> Result<()> {
        self.transactions.retain(|(_, transaction)| !transaction.is_empty());
        self.transactions.sort_by_key(|(name, _)| name == TEMPORARY);
        self.transactions.into_iter().try_for_each(|(_, transaction)| transaction.commit().map(drop))
    }
}

/// The constraint of a table of a database.
type ConstraintName = (String, TableId, String);

/// The pending checks of a transaction, and when it wants them to be made.
#[derive(Debug, Default)]
pub(crate) struct Deferrals {
    /// The pending checks, each with the first row to check, or for all rows.
    pub pending: BTreeMap<ConstraintName, Option<u64>>,
    /// Says whether SET CONSTRAINTS ALL has deferred constraints.
    pub all: Option<bool>,
    /// The same by their names.
    pub named: HashMap<String, bool>,
}

impl Deferrals {
    /// Says whether the transaction checks a constraint when it commits.
    pub fn is_deferred(&self, constraint: &ConstraintEntry) -> bool {
        let at_first = match constraint.deferral {
            Deferral::Never => return false,
            Deferral::Possible => false,
            Deferral::AtFirst => true,
        };
        self.named.get(&constraint.name).copied().or(self.all).unwrap_or(at_first)
    }

    /// Notes what is to be checked later; false for what is not.
    pub fn put_off(
        &mut self,
        catalog: &Catalog,
        database: &str,
        id: TableId,
        constraint: &ConstraintEntry,
        first: Option<u64>,
    ) -> bool {
        // A key that is gone with its table does not come back.
        let has_key = match &constraint.rule {
            ConstraintRule::ForeignKey { table, .. } => catalog.table_by_id(*table).is_some(),
            _ => true,
        };
        if !has_key || !self.is_deferred(constraint) {
            return false;
        }
        let pending = self.pending.entry((database.into(), id, constraint.name.clone())).or_insert(first);
        *pending = pending.zip(first).map(|(one, other)| one.min(other));
        true
    }
}
