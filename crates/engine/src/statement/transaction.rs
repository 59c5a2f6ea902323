//! BEGIN, COMMIT, ROLLBACK and savepoints, and how a statement that writes finds its transaction
//! (docs/transactions.md).

use crate::session::outcome::DONE;
use crate::session::transaction::{Deferrals, Explicit, NamedSavepoint};
use crate::session::{ClusterChanges, Outcome, Session};
use crate::statement::queries::Queries;
use datafusion::sql::sqlparser::ast::{
    Ident, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use hypostyle_catalog::scope::{Named, OWN_DATABASE, TEMPORARY};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::kind::Kind;
use hypostyle_storage::Transaction;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Times that a statement outside a transaction is tried again after a conflict: for about two
/// seconds, if another one writes the table all that time.
pub(super) const ATTEMPTS: usize = 60;

/// One that has taken so long is not tried again: each attempt may wait for nodes of a cluster.
const TRIED_AGAIN: Duration = Duration::from_secs(3);

/// The first ones are tried again at once: most conflicts are over by then.
const ATTEMPTS_AT_ONCE: usize = 3;

/// Says whether a transaction is to be read-only, if its modes say so.
fn read_only(modes: &[TransactionMode]) -> Result<Option<bool>> {
    let mut read_only = None;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => read_only = Some(*mode == TransactionAccessMode::ReadOnly),
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return Err(Error::unsupported(
                    "transactions are not serializable: they have snapshot isolation, which is stronger than \
                     REPEATABLE READ and lets only write skew happen; leave the level out",
                ));
            }
            // Snapshot isolation satisfies each of them.
            TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(read_only)
}

fn no_transaction(what: &str) -> Error {
    Error::new(ErrorKind::TransactionState, format!("{what}: no transaction is open; BEGIN opens one"))
        .with_sqlstate("25P01")
}

impl Session {
    /// Says whether BEGIN has opened a transaction that is not over.
    pub fn is_in_transaction(&self) -> bool {
        self.transaction.lock().is_some()
    }

    /// Says whether an error has aborted the open transaction.
    pub fn is_transaction_failed(&self) -> bool {
        self.transaction.lock().as_ref().is_some_and(|explicit| explicit.aborted.is_some())
    }

    /// Runs one statement with the newest snapshot: in the open transaction, which an error aborts,
    /// or by itself, again after a conflict.
    pub(crate) fn in_transaction<T>(&self, sql: &str, run: impl FnMut() -> Result<T>) -> Result<T> {
        self.in_transaction_from(|| self.start().map(drop), sql, ATTEMPTS, run)
    }

    /// Runs [`Self::in_transaction`] of what cannot be tried again.
    pub(super) fn in_transaction_once<T>(&self, sql: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut run = Some(run);
        let mut once = || match run.take() {
            Some(run) => run(),
            None => Err(Error::internal("a statement that runs once was tried again")),
        };
        self.in_transaction_from(|| self.start().map(drop), sql, 1, &mut once)
    }

    /// Runs [`Self::in_transaction`] with a snapshot of the caller's choice.
    pub(super) fn in_transaction_from<T>(
        &self,
        start: impl Fn() -> Result<()>,
        sql: &str,
        attempts: usize,
        mut run: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let explicit = match self.transaction.lock().as_ref() {
            Some(Explicit { aborted: Some(error), .. }) if !Kind::read(sql).ends_transaction() => {
                return Err(Error::new(
                    ErrorKind::TransactionState,
                    format!(
                        "the transaction was aborted by an error; roll it back first (the error: {error})"
                    ),
                )
                .with_sqlstate("25P02"));
            }
            Some(_) => true,
            None => false,
        };
        self.name_statement(sql, explicit);
        let since = Instant::now();
        for attempt in 1.. {
            start()?;
            match run() {
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        && !explicit
                        && attempt < attempts
                        && since.elapsed() < TRIED_AGAIN =>
                {
                    wait_after_conflict(self, attempt)?;
                }
                Err(error) => {
                    if explicit && let Some(explicit) = self.transaction.lock().as_mut() {
                        explicit.aborted.get_or_insert_with(|| error.message().to_string());
                    }
                    return Err(error);
                }
                Ok(value) => return Ok(value),
            }
        }
        Err(Error::internal("a statement was tried for ever"))
    }

    /// Changes a database: in the open transaction, or in one of its own that reads what the
    /// statement reads.
    pub(crate) fn write<T>(
        &self,
        database: &str,
        change: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        if database != TEMPORARY {
            self.identity.privileges.check_write()?;
        }
        let change = |transaction: &mut Transaction, deferrals: Option<&mut Deferrals>| {
            let value = change(transaction)?;
            self.checks().check_constraints(transaction, deferrals)?;
            Ok(value)
        };
        let explicit = self.transaction.lock().take();
        let Some(mut explicit) = explicit else {
            self.in_cluster().forget_cluster_changes();
            let result = self.write_alone(database, |transaction| change(transaction, None));
            // Also what a statement that failed would have deleted.
            self.in_cluster().forget_cluster_changes();
            return result;
        };
        let mut deferrals = std::mem::take(&mut explicit.deferrals);
        let result = self.in_cluster().with_changes_of(&mut explicit, |explicit| {
            let transaction = explicit.of_written(database)?;
            let (before, deleted) = (transaction.savepoint()?, self.in_cluster().deleted_in_cluster());
            let result = change(transaction, Some(&mut deferrals)).and_then(|value| {
                self.in_cluster().check_cluster_changes(transaction)?;
                Ok(value)
            });
            if result.is_err() {
                transaction.roll_back_to(&before);
                self.in_cluster().set_deleted_in_cluster(deleted);
            }
            result
        });
        explicit.deferrals = deferrals;
        *self.transaction.lock() = Some(explicit);
        self.refresh()?;
        result
    }

    /// Changes a database in a transaction of this statement, and commits it.
    fn write_alone<T>(
        &self,
        database: &str,
        change: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let Named { database, snapshot, .. } = self.scope.database(database)?;
        let mut transaction = database.begin_at(snapshot, self.engine.options().threads)?;
        let value = change(&mut transaction)?;
        if !self.publish(&mut transaction)? {
            transaction.commit()?;
        }
        Ok(value)
    }

    /// Makes the open transaction one of a database that was added to the session, too.
    pub(super) fn add_to_transaction(&self, named: &Named) -> Result<()> {
        let mut transaction = self.transaction.lock();
        let Some(explicit) = transaction.as_mut() else { return Ok(()) };
        explicit.add(&named.name, begin_in(named, self.engine.threads())?)
    }

    pub(super) fn begin(&self, modes: &[TransactionMode]) -> Result<Outcome> {
        let read_only = read_only(modes)?.unwrap_or_default();
        if self.is_in_transaction() {
            return Err(Error::new(
                ErrorKind::TransactionState,
                "a transaction is open already; end it with COMMIT or ROLLBACK, or use SAVEPOINT",
            )
            .with_sqlstate("25001"));
        }
        self.in_cluster().forget_cluster_changes();
        let databases = self.scope.databases.read().clone();
        let begin = |named: &Named| Ok((named.name.clone(), begin_in(named, self.engine.threads())?));
        let transactions = databases.iter().map(begin).collect::<Result<_>>()?;
        let number = self.transactions_begun.fetch_add(1, Ordering::Relaxed);
        let begun = chrono::Utc::now().timestamp_micros();
        let explicit = Explicit {
            number,
            transactions,
            read_only,
            begun,
            savepoints: Vec::new(),
            aborted: None,
            deferrals: Deferrals::default(),
            cluster: ClusterChanges::default(),
            local_settings: Vec::new(),
        };
        *self.transaction.lock() = Some(explicit);
        Ok(DONE)
    }

    /// Runs SET TRANSACTION, which may make the open transaction read-only for its next statements.
    pub(super) fn set_transaction(&self, modes: &[TransactionMode]) -> Result<Outcome> {
        let wanted = read_only(modes)?;
        let mut transaction = self.transaction.lock();
        let explicit = transaction.as_mut().ok_or_else(|| no_transaction("SET TRANSACTION"))?;
        if explicit.read_only && wanted == Some(false) {
            return Err(Error::invalid_input(
                "the transaction is read-only, and stays so; begin another one",
            )
            .with_sqlstate("25001"));
        }
        explicit.read_only = wanted.unwrap_or(explicit.read_only);
        Ok(DONE)
    }

    pub(super) fn commit(&self, chain: bool) -> Result<Outcome> {
        let mut explicit = self.transaction.lock().take().ok_or_else(|| no_transaction("COMMIT"))?;
        let (read_only, local) = (explicit.read_only, std::mem::take(&mut explicit.local_settings));
        let committed = self.commit_changes(explicit);
        self.setter().take_back(local)?;
        committed?;
        self.chain(chain, read_only)
    }

    fn commit_changes(&self, mut explicit: Explicit) -> Result<()> {
        if let Some(error) = explicit.aborted.clone() {
            self.abandon(explicit)?;
            return Err(Error::new(
                ErrorKind::TransactionState,
                format!("the transaction was rolled back, because an error had aborted it: {error}"),
            )
            .with_sqlstate("25P02"));
        }
        let published = self.in_cluster().with_changes_of(&mut explicit, |explicit| {
            self.checks().check_deferred(explicit, true)?;
            explicit.part(OWN_DATABASE).map_or(Ok(false), |transaction| self.publish(transaction))
        });
        self.in_cluster().forget_cluster_changes();
        match published {
            Ok(true) => explicit.transactions.retain(|(name, _)| name != OWN_DATABASE),
            Ok(false) => {}
            Err(error) => {
                self.abandon(explicit)?;
                return Err(error);
            }
        }
        explicit.commit()?;
        self.refresh()
    }

    /// Ends a transaction without its changes, once nobody here sees them any more.
    fn abandon(&self, explicit: Explicit) -> Result<()> {
        self.in_cluster().forget_cluster_changes();
        self.forget_name();
        let refreshed = self.refresh();
        drop(explicit);
        refreshed
    }

    pub(super) fn roll_back(&self, chain: bool, savepoint: Option<Ident>) -> Result<Outcome> {
        let Some(name) = savepoint else {
            let mut explicit = self.transaction.lock().take().ok_or_else(|| no_transaction("ROLLBACK"))?;
            let (read_only, local) = (explicit.read_only, std::mem::take(&mut explicit.local_settings));
            let abandoned = self.abandon(explicit);
            self.setter().take_back(local)?;
            abandoned?;
            return self.chain(chain, read_only);
        };
        let mut local = Vec::new();
        let done = self.at_savepoint(&name, |explicit, position| {
            explicit.savepoints.truncate(position + 1);
            let settings = explicit.savepoints[position].local_settings.min(explicit.local_settings.len());
            local = explicit.local_settings.split_off(settings);
            let savepoints = std::mem::take(&mut explicit.savepoints[position].databases);
            explicit.roll_back_to(&savepoints);
            explicit.savepoints[position].databases = savepoints;
            explicit.cluster.deleted = explicit.savepoints[position].deleted_in_cluster.clone();
            self.scope.note_deleted(&explicit.cluster.deleted);
            explicit.aborted = None;
        })?;
        self.setter().take_back(local)?;
        Ok(done)
    }

    /// Begins the next transaction at once, for AND CHAIN.
    fn chain(&self, chain: bool, read_only: bool) -> Result<Outcome> {
        if !chain {
            return Ok(DONE);
        }
        let mode = if read_only { TransactionAccessMode::ReadOnly } else { TransactionAccessMode::ReadWrite };
        self.begin(&[TransactionMode::AccessMode(mode)])
    }

    pub(super) fn savepoint(&self, name: &Ident) -> Result<Outcome> {
        let mut transaction = self.transaction.lock();
        let explicit = transaction.as_mut().ok_or_else(|| no_transaction("SAVEPOINT"))?;
        let (databases, deleted_in_cluster) = (explicit.savepoint()?, explicit.cluster.deleted.clone());
        let local_settings = explicit.local_settings.len();
        let name = fold(name);
        explicit.savepoints.push(NamedSavepoint { name, databases, deleted_in_cluster, local_settings });
        Ok(DONE)
    }

    pub(super) fn release_savepoint(&self, name: &Ident) -> Result<Outcome> {
        self.at_savepoint(name, |explicit, position| explicit.savepoints.truncate(position))
    }

    fn at_savepoint(&self, name: &Ident, change: impl FnOnce(&mut Explicit, usize)) -> Result<Outcome> {
        {
            let name = fold(name);
            let mut transaction = self.transaction.lock();
            let explicit = transaction.as_mut().ok_or_else(|| no_transaction("SAVEPOINT"))?;
            let position = explicit.savepoints.iter().rposition(|found| found.name == name);
            let position = position.ok_or_else(|| {
                let names = explicit.savepoints.iter().map(|found| found.name.as_str());
                let suggestion = hypostyle_types::did_you_mean(&name, names);
                Error::new(ErrorKind::UnknownName, format!("no savepoint \"{name}\"{suggestion}"))
                    .with_sqlstate("3B001")
            })?;
            change(explicit, position);
        }
        self.refresh()?;
        Ok(DONE)
    }
}

/// Waits the longer, the oftener there has been a conflict.
fn wait_after_conflict(queries: &dyn Queries, attempt: usize) -> Result<()> {
    queries.proceed()?;
    if attempt > ATTEMPTS_AT_ONCE {
        std::thread::sleep(Duration::from_millis(attempt as u64));
    }
    Ok(())
}

fn begin_in(named: &Named, threads: usize) -> Result<Transaction> {
    Ok(named.database.begin_at(named.snapshot.clone(), threads)?.of_statements())
}
