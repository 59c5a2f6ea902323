//! Sessions: one conversation with a database each.
//!
//! A session runs one statement at a time, on the thread that calls it. DataFusion's work runs on the
//! engine's own threads, except small queries, which take less time than to wake a thread. While it
//! waits, the caller's thread calls the poll hook, so that a program can show progress or ask for an
//! interrupt, and Python can look at its signals. There is no global state: an engine owns its runtime
//! and its memory pool.

mod advisory;
mod calls;
pub(crate) mod cluster;
mod engine;
pub(crate) mod given_value;
pub(crate) mod kept;
pub(crate) mod keyed_query;
pub(crate) mod outcome;
mod parameters;
pub(crate) mod plan_cache;
pub(crate) mod portable;
mod run;
mod sent;
mod snapshot;
mod state;
pub(crate) mod statement_cache;
mod temporary;
#[cfg(test)]
pub(crate) mod test_options;
pub(crate) mod transaction;
mod wait;
mod workers;

pub(crate) use advisory::may_lock;
pub use calls::{CallAnswer, Calls};
pub(crate) use engine::{Activity, checked_threads};
pub use engine::{Engine, EngineOptions};
pub use outcome::{Described, DescribedColumn, Gives, Outcome, StoredPieces, StoredResult};
pub use parameters::Parameters;
pub(crate) use parameters::{as_text, planned};
pub(crate) use run::{ClusterChanges, Run};
use state::context;
pub(crate) use state::take_environment;
pub(crate) use wait::Waits;
pub use wait::{Poll, PollHook, Progress, Rows};

use advisory::SessionLocks;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use hypostyle_catalog::pg_catalog::Origin;
use hypostyle_catalog::pg_catalog::settings::Settings;
use hypostyle_catalog::scope::{Scope, TableResolver};
use hypostyle_catalog::sequence::Sequences;
use hypostyle_cluster::node::Host;
use hypostyle_exec::counters::Counters;
use hypostyle_exec::memory::Held;
use hypostyle_exec::transfer::{SessionTransfer, Transfer};
use hypostyle_expr::function::Clock;
use hypostyle_expr::meter::Meter;
use hypostyle_sql::defined_macros::Macros;
use hypostyle_storage::{Budget, MacroEntry};
use hypostyle_sync::{Mutex, RwLock};
use hypostyle_types::{Error, ErrorKind, Identity, LogicalType, Result};
use kept::{Attempt, Prepared};
use plan_cache::Plans;
use statement_cache::{LastRead, Remembered};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use transaction::Explicit;
use uuid::Uuid;

/// The setting of how long the locks of other processes are waited for.
pub(crate) const LOCK_TIMEOUT: &str = "lock_timeout";

/// One conversation with a database.
pub struct Session {
    this: Weak<Self>,
    pub(crate) engine: Arc<Engine>,
    /// What works for the node that the database is, kept by sessions other than its own.
    _host: Option<Arc<dyn Host>>,
    /// The session is the node's own: what it defines is in its own database only.
    pub(crate) is_of_node: bool,
    pub(crate) context: SessionContext,
    pub(crate) scope: Arc<Scope>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) sequences: Arc<Sequences>,
    /// Statements that are not parsed again.
    pub(crate) remembered: Mutex<Remembered>,
    pub(crate) last_read: Mutex<Option<LastRead>>,
    pub(crate) plans: Arc<Mutex<Plans>>,
    pub(crate) prepared: Mutex<HashMap<String, Prepared>>,
    pub(crate) attempt: Mutex<Option<Attempt>>,
    pub(crate) macros: Mutex<Macros>,
    /// The macros of the database, with what they were read from.
    pub(crate) stored_macros: Mutex<(Vec<MacroEntry>, Arc<Macros>)>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) locks: Arc<SessionLocks>,
    /// The transaction that BEGIN began.
    pub(crate) transaction: Mutex<Option<Explicit>>,
    /// The statement that runs, or ran last.
    pub(crate) run: Mutex<Run>,
    /// What the client has called the next statement that changes tables of the cluster.
    pub(crate) next_name: Mutex<Option<Uuid>>,
    /// Whether the last statement that gave rows other values has failed: whole rows are sent then.
    pub(crate) sends_whole_rows: AtomicBool,
    /// How many replicas of each fragment have to have what a statement changes in tables of the cluster.
    pub(crate) synced_replicas: AtomicU32,
    pub(crate) transactions_begun: AtomicU64,
    /// The changes of the engine's attached databases that `scope` has.
    attached_changes: AtomicU64,
    pub(crate) meter: Arc<Meter>,
    killed: AtomicBool,
    /// Its connection is closed: nothing is computed any more.
    ended: AtomicBool,
    poll: RwLock<Option<PollHook>>,
    /// The state of an earlier statement, as good as a new copy of the context's.
    pub(crate) spare_state: Mutex<Option<SessionState>>,
    /// The memory of the temporary tables.
    pub(crate) temporary: OnceLock<Arc<Held>>,
    running: Mutex<()>,
    /// Calls that wait for rows of results.
    fetches: AtomicUsize,
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    pub(crate) clock: Arc<Clock>,
    /// Settings that the program around the engine has added.
    pub(crate) added_settings: RwLock<BTreeMap<&'static str, AddedSetting>>,
}

/// A setting that means nothing to the engine: its value, and what checks a new one.
pub(crate) struct AddedSetting {
    pub value: String,
    pub check: SettingCheck,
}

/// Gives a value as it is kept and shown, or says why it cannot be.
pub type SettingCheck = fn(&str) -> Result<String>;

/// Returns the settings of a new session: what they tell is who has opened it.
fn settings_of(identity: &Identity) -> Settings {
    let settings = Settings::default();
    if !identity.user.is_empty() {
        settings.force("session_authorization", &identity.user);
    }
    if !identity.privileges.machine {
        settings.force("is_superuser", "off");
    }
    settings
}

impl Session {
    pub fn new(engine: Arc<Engine>, identity: Identity) -> Result<Arc<Self>> {
        Self::begun(engine, identity, false)
    }

    fn begun(engine: Arc<Engine>, identity: Identity, is_of_node: bool) -> Result<Arc<Self>> {
        let counters = Arc::new(Counters::default());
        let settings = Arc::new(settings_of(&identity));
        let meter = Meter::new(&engine.ledger);
        let snapshot = Arc::new(engine.database.snapshot()?.unpinned());
        let scope = Scope::new(engine.database.clone(), snapshot);
        let clock = Arc::default();
        let context = context(&engine, &identity, &scope, &counters, &meter, &settings, &clock)?;
        let state = context.state_weak_ref();
        scope.bind(move || state.upgrade().map(|state| state.read().clone()));
        let sequences = Sequences::new(scope.clone(), &context, identity.privileges);
        // A node that begins opens its own session before the engine knows the node.
        if is_of_node || engine.node().is_some() {
            let state = context.state_ref();
            let functions = portable::functions(state.read().config_options(), &meter)?;
            state.write().config_mut().set_extension(Arc::new(functions));
        }
        let host = engine.host().filter(|_| !is_of_node);
        let id = engine.sessions_opened.fetch_add(1, Ordering::Relaxed) + 1;
        let locks = SessionLocks::new(&engine, id, &scope, &identity);
        advisory::register(&context, &locks);
        let session = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            engine,
            _host: host,
            is_of_node,
            context,
            scope,
            counters,
            sequences,
            remembered: Mutex::default(),
            last_read: Mutex::default(),
            plans: Arc::default(),
            prepared: Mutex::default(),
            attempt: Mutex::default(),
            macros: Mutex::default(),
            stored_macros: Mutex::default(),
            settings,
            locks,
            sends_whole_rows: AtomicBool::new(false),
            synced_replicas: AtomicU32::new(1),
            transaction: Mutex::default(),
            run: Mutex::default(),
            next_name: Mutex::default(),
            transactions_begun: AtomicU64::new(0),
            attached_changes: AtomicU64::new(0),
            meter,
            killed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            poll: RwLock::new(None),
            temporary: OnceLock::new(),
            running: Mutex::new(()),
            fetches: AtomicUsize::new(0),
            spare_state: Mutex::new(None),
            id,
            identity,
            clock,
            added_settings: RwLock::default(),
        });
        let own = session.this.clone();
        session
            .settings
            .ask_engine(move |name| own.upgrade().and_then(|session| session.setter().own_setting(name)));
        let mut sessions = session.engine.sessions.lock();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(&session));
        drop(sessions);
        Ok(session)
    }

    /// Its number in the engine.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns a handle of the session.
    ///
    /// # Errors
    /// `Internal` while it is being dropped, when no statement runs.
    pub(crate) fn handle(&self) -> Result<Arc<Self>> {
        self.this.upgrade().ok_or_else(|| Error::internal("the session has ended"))
    }

    /// Ends the running statement and the transaction, and lets none begin.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.interrupt();
        // A running statement does the same when it ends.
        if let Some(_idle) = self.running.try_lock() {
            self.end_if_killed();
        }
    }

    fn end_if_killed(&self) {
        if self.is_killed() {
            *self.transaction.lock() = None;
        }
    }

    /// Says whether KILL has ended the session.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// # Errors
    /// `Closed` after KILL.
    pub(crate) fn check_killed(&self) -> Result<()> {
        match self.is_killed() {
            true => {
                Err(Error::new(ErrorKind::Closed, "the session was ended by KILL").with_sqlstate("57P01"))
            }
            false => Ok(()),
        }
    }

    fn activity(&self) -> Activity {
        let (statement, elapsed) = {
            let run = self.run.lock();
            (run.text().map(str::to_string), run.elapsed())
        };
        let state = match (
            self.running.is_locked() || self.fetches.load(Ordering::Relaxed) > 0,
            self.transaction.try_lock().is_none_or(|open| open.is_some()),
        ) {
            (true, _) => "active",
            (false, true) => "idle in transaction",
            (false, false) => "idle",
        };
        Activity {
            session: self.id,
            identity: self.identity.clone(),
            state,
            statement,
            elapsed,
            rows_done: self.counters.done.load(Ordering::Relaxed),
        }
    }

    /// Adds a setting for SET and SHOW that means something only to the program around the engine.
    pub fn define_setting(&self, name: &'static str, value: &str, check: SettingCheck) {
        self.added_settings.write().insert(name, AddedSetting { value: value.into(), check });
    }

    /// Returns the value of a setting that was added.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.added_settings.read().get(name).map(|setting| setting.value.clone())
    }

    /// Returns the SQL types of a result's columns, as (name, type, nullable).
    pub fn describe(outcome: &Outcome) -> Result<Vec<(String, LogicalType, bool)>> {
        match outcome {
            Outcome::Stored(stored) => Ok(stored
                .entries()
                .map(|(name, entry)| (name.to_string(), entry.logical_type.clone(), entry.nullable))
                .collect()),
            Outcome::Stream { schema, .. } | Outcome::Batches { schema, .. } => schema
                .fields()
                .iter()
                .map(|field| Ok((field.name().clone(), LogicalType::from_arrow(field)?, field.is_nullable())))
                .collect(),
            Outcome::Done { .. } => Ok(Vec::new()),
        }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the settings that clients of PostgreSQL know.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Returns the origins of the columns of the last statement's result, for a client of
    /// PostgreSQL's protocol.
    pub fn take_origins(&self) -> Vec<Option<Origin>> {
        std::mem::take(&mut self.run.lock().origins)
    }

    /// Takes memory of the session's for what the program around the engine keeps for it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn hold(&self, what: &str, bytes: u64) -> Result<Held> {
        let held = Held::new(what, &self.context.runtime_env().memory_pool);
        held.take(bytes)?;
        Ok(held)
    }

    pub fn set_poll(&self, poll: Option<PollHook>) {
        *self.poll.write() = poll;
    }

    /// Has EXPLAIN ANALYZE show what it would cost to send the result.
    pub fn set_transfer(&self, transfer: Arc<dyn Transfer>) {
        let state = self.context.state_ref();
        state.write().config_mut().set_extension(Arc::new(SessionTransfer(transfer)));
        *self.spare_state.lock() = None;
    }

    pub fn set_table_resolver(&self, resolver: Option<TableResolver>) {
        *self.scope.resolver.write() = resolver;
    }

    /// Makes the running statement, or the fetch of its rows, fail with `Interrupted`.
    pub fn interrupt(&self) {
        self.meter.interrupted.store(true, Ordering::Release);
    }

    /// Ends the session: what runs fails with `Closed`, and so do results that are not complete.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.interrupt();
    }

    /// # Errors
    /// `Closed` after [`Self::end`].
    pub(crate) fn check_not_ended(&self) -> Result<()> {
        match self.ended.load(Ordering::Acquire) {
            true => Err(Error::new(
                ErrorKind::Closed,
                "the connection was closed before the statement, or its result, was complete; connect again",
            )),
            false => Ok(()),
        }
    }

    /// Says whether something has asked for the running statement, or the last one, to end.
    pub fn is_interrupted(&self) -> bool {
        self.meter.interrupted.load(Ordering::Acquire)
    }
}
