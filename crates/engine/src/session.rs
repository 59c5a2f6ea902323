//! Engines and sessions: the runtime, the memory, and how a blocking caller waits.
//!
//! A session runs one statement at a time, on the thread that calls it; DataFusion's work runs on
//! the engine's own threads, but for small queries, which take less time than to wake one. While it waits, the caller's thread calls the poll hook every
//! [`POLL_INTERVAL`], so that a program can show progress or ask for an interrupt, and Python can
//! look at its signals. There is no global state: an engine owns its runtime and its memory pool.

use crate::advisory::{self, Locks, SessionLocks};
use crate::catalog::{Databases, SEARCH, TableResolver};
use crate::chain::Chains;
use crate::error::from_datafusion;
use crate::file;
use crate::function::Clock;
use crate::identity::Identity;
use crate::in_order::InOrder;
use crate::memory::{Held, QueryPool};
use crate::meter::{Ledger, Meter};
use crate::origin::Origin;
use crate::pg_catalog::settings::Settings;
use crate::pieces::InPieces;
use crate::planner::Planners;
use crate::pushdown::physical_rules;
use crate::scope::{Named, OWN_DATABASE, Scope, TEMPORARY};
use crate::sequence::Sequences;
use crate::spill::SpillFiles;
use crate::statement::{Attempt, Explicit, Prepared, Remembered, TypeNames};
use crate::transfer::{SessionTransfer, Transfer};
use crate::unaliased::Unaliased;
use crate::yielding::Yielding;
use crate::{
    aggregate, amplifier, any_equal, builtin, function, interval, json_path, operand, ranking, rules, shared,
    text_function, time_zone, truth,
};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{Future, FutureExt, StreamExt};
use hypostyle_storage::{Budget, ColumnData, Database, Patience, Patient, SCHEMA_MAIN, Snapshot, Verify};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;

/// Of a statement's text in SHOW SESSIONS.
const STATEMENT_BYTES_SHOWN: usize = 1024;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Batches that may wait between the engine's threads and the caller's.
const BATCHES_IN_FLIGHT: usize = 4;

/// Stack of a worker thread: expressions recurse as deep as the gate lets statements nest. What is not used takes no memory.
const STACK_BYTES: usize = 64 << 20;

/// Rows of a join's smaller side that one of a single thread would collect, those that any does, and what a row takes where only
/// bytes are known.
const COLLECTED_ROWS: usize = 16 << 20;
const COLLECTED_ROWS_MIN: usize = 128 << 10;
const COLLECTED_ROW_BYTES: usize = 64;

/// The setting of how long the locks of other processes are waited for.
pub(crate) const LOCK_TIMEOUT: &str = "lock_timeout";

#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub threads: usize,
    /// Bytes that operators may hold before they spill or fail.
    pub memory_limit: u64,
    /// The same of one statement; all of them when absent.
    pub query_memory_limit: Option<u64>,
    /// Where operators spill; the system's temporary directory when absent.
    pub temp_directory: Option<PathBuf>,
    /// Bytes that spilled rows may take; half of what is free when absent.
    pub temp_directory_limit: Option<u64>,
    /// ATTACH takes databases on network file systems, too.
    pub allow_network_filesystem: bool,
    /// When columns of attached databases are verified that are handed out as they lie.
    pub verify: Verify,
}

/// What a poll hook answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    Continue,
    Interrupt,
}

/// How far the running statement is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub rows_done: u64,
    pub rows_total: Option<u64>,
    pub elapsed: Duration,
}

impl Progress {
    /// Between 0 and 1, where the total is known.
    pub fn fraction(&self) -> Option<f64> {
        let total = self.rows_total.filter(|total| *total > 0)?;
        Some((self.rows_done as f64 / total as f64).min(1.0))
    }
}

/// Rows that scans and appends have gone through, and are to go through.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub done: AtomicU64,
    pub total: AtomicU64,
}

/// The worker threads. They are not waited for at the end: an operator that computes for long sees
/// only between two batches that nobody wants its rows any more.
struct Workers {
    runtime: Option<Runtime>,
    process: u32,
}

impl Workers {
    fn spawn<F: Future<Output: Send> + Send + 'static>(&self, future: F) -> Result<JoinHandle<F::Output>> {
        let runtime =
            self.runtime.as_ref().ok_or_else(|| Error::internal("the worker threads have ended"))?;
        Ok(runtime.spawn(future))
    }

    fn handle(&self) -> Result<Handle> {
        let runtime = self.runtime.as_ref();
        runtime
            .map(|runtime| runtime.handle().clone())
            .ok_or_else(|| Error::internal("the worker threads have ended"))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        match self.runtime.take() {
            Some(runtime) if self.process == std::process::id() => runtime.shutdown_background(),
            // In a child of `fork()` the threads do not exist, and would be waited for in vain.
            other => std::mem::forget(other),
        }
    }
}

/// Databases that ATTACH has opened, for all sessions of an engine.
#[derive(Default)]
pub(crate) struct Attached {
    pub databases: Vec<(String, Arc<Database>)>,
    /// How often they have changed.
    pub changes: u64,
}

/// A database with the threads and memory to query it.
pub struct Engine {
    database: Arc<Database>,
    pub(crate) attached: RwLock<Attached>,
    runtime: Workers,
    planners: Planners,
    environment: RwLock<Arc<RuntimeEnv>>,
    ledger: Arc<Ledger>,
    options: RwLock<EngineOptions>,
    sessions: Mutex<Vec<Weak<Session>>>,
    sessions_opened: AtomicU64,
    pub(crate) advisory_locks: Arc<Locks>,
}

/// What a session does now.
pub(crate) struct Activity {
    pub session: u64,
    pub identity: Identity,
    pub state: &'static str,
    /// The statement that runs, or the one that ran last.
    pub statement: Option<String>,
    pub elapsed: Duration,
    pub rows_done: u64,
}

impl Engine {
    pub fn new(database: Arc<Database>, options: EngineOptions) -> Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("hypostyle")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()
            .map_err(|error| Error::from_io(&error, "cannot start the worker threads"))?;
        let environment = RwLock::new(environment(&options)?);
        let runtime = Workers { runtime: Some(runtime), process: std::process::id() };
        Ok(Arc::new(Self {
            database,
            attached: RwLock::default(),
            runtime,
            planners: Planners::default(),
            environment,
            ledger: Ledger::new(options.memory_limit),
            options: RwLock::new(options),
            sessions: Mutex::default(),
            sessions_opened: AtomicU64::new(0),
            advisory_locks: Arc::default(),
        }))
    }

    /// Its sessions, oldest first.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions().into_iter().find(|session| session.id == id)
    }

    pub(crate) fn activities(&self) -> Vec<Activity> {
        self.sessions().iter().map(|session| session.activity()).collect()
    }

    /// Ends the use of its databases; snapshots and results stay readable.
    pub fn close(&self) {
        self.database.close();
        self.attached.read().databases.iter().for_each(|(_, database)| database.close());
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    pub fn options(&self) -> EngineOptions {
        self.options.read().clone()
    }

    /// The memory and disk of a new session.
    fn environment(&self) -> Arc<RuntimeEnv> {
        let shared = self.environment.read().clone();
        let Some(limit) = self.options.read().query_memory_limit else { return shared };
        let pool = QueryPool::new(shared.memory_pool.clone(), limit);
        Arc::new(RuntimeEnv { memory_pool: Arc::new(pool), ..RuntimeEnv::clone(&shared) })
    }

    /// Sessions opened after this have the new limits; the one that changes them takes them at once.
    pub(crate) fn set_options(&self, options: EngineOptions) -> Result<()> {
        *self.environment.write() = environment(&options)?;
        self.ledger.set_limit(options.memory_limit);
        *self.options.write() = options;
        Ok(())
    }
}

fn environment(options: &EngineOptions) -> Result<Arc<RuntimeEnv>> {
    let pool = FairSpillPool::new(usize::try_from(options.memory_limit).unwrap_or(usize::MAX));
    let consumers_shown = NonZeroUsize::MIN.saturating_add(4);
    let files = SpillFiles::within(options.temp_directory.clone(), options.temp_directory_limit);
    let disk = DiskManagerBuilder::default().with_temp_file_factory(files);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(TrackConsumersPool::new(pool, consumers_shown)))
        .with_disk_manager_builder(disk)
        .build_arc()
        .map_err(from_datafusion)
}

/// Stored columns as a result: nothing was computed, nothing is copied.
#[derive(Debug)]
pub struct StoredResult {
    /// The result's names, with the columns behind them.
    pub columns: Vec<(String, Arc<ColumnData>)>,
    pub offset: u64,
    pub rows: u64,
    /// Keeps the columns' files.
    pub snapshot: Arc<Snapshot>,
}

/// What a statement gives.
pub enum Outcome {
    Stored(StoredResult),
    Stream { schema: SchemaRef, stream: SendableRecordBatchStream },
    Batches { schema: SchemaRef, batches: Vec<RecordBatch> },
    Done { rows_affected: Option<u64> },
}

impl Outcome {
    /// One batch as a whole result.
    pub(crate) fn batch(batch: RecordBatch) -> Self {
        Self::Batches { schema: batch.schema(), batches: vec![batch] }
    }
}

/// The rows of a statement, computed as they are asked for.
pub struct Rows {
    stream: Arc<tokio::sync::Mutex<SendableRecordBatchStream>>,
    /// In which the statement was run.
    transaction: Option<u64>,
}

/// Called by the thread that waits for a statement, every 50 ms.
pub type PollHook = Arc<dyn Fn(&Progress) -> Poll + Send + Sync>;

/// A call of a session that is running. Between calls a session keeps no files of old versions, but for
/// those of its transaction and its results.
pub(crate) struct Running<'a> {
    session: &'a Session,
    _one_at_a_time: MutexGuard<'a, ()>,
    _patience: Patient,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.session.end_if_killed();
        self.session.scope.unpin();
        self.session.settle_temporary();
    }
}

/// One conversation with a database.
pub struct Session {
    this: Weak<Self>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) context: SessionContext,
    pub(crate) scope: Arc<Scope>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) sequences: Arc<Sequences>,
    /// Statements that are not parsed again.
    pub(crate) remembered: Mutex<Remembered>,
    pub(crate) prepared: Mutex<HashMap<String, Prepared>>,
    pub(crate) attempt: Mutex<Option<Attempt>>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) locks: Arc<SessionLocks>,
    /// The transaction that BEGIN began.
    pub(crate) transaction: Mutex<Option<Explicit>>,
    pub(crate) transactions_begun: AtomicU64,
    /// The changes of the engine's attached databases that `scope` has.
    attached_changes: AtomicU64,
    pub(crate) meter: Arc<Meter>,
    killed: AtomicBool,
    poll: RwLock<Option<PollHook>>,
    /// The state of an earlier statement, as good as a new copy of the context's.
    pub(crate) spare_state: Mutex<Option<SessionState>>,
    /// The memory of the temporary tables.
    pub(crate) temporary: OnceLock<Arc<Held>>,
    running: Mutex<()>,
    /// Calls that wait for rows of results.
    fetches: AtomicUsize,
    started: Mutex<Instant>,
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    /// The beginning of the last statement's text.
    statement: Mutex<String>,
    /// Of the columns of the last statement's result, for a client of PostgreSQL's protocol.
    pub(crate) origins: Mutex<Vec<Option<Origin>>>,
    clock: Arc<Clock>,
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

/// Plans for so many threads. The smaller side of a join is collected by one of them, unless so many rows are hashed sooner by
/// all, who must share out the rows of both sides for it (docs/decisions/0010).
fn share_work(options: &mut ConfigOptions, threads: usize) {
    let threads = threads.max(1);
    options.execution.target_partitions = threads;
    let rows = (COLLECTED_ROWS / (threads * threads)).max(COLLECTED_ROWS_MIN);
    options.optimizer.hash_join_single_partition_threshold_rows = rows;
    options.optimizer.hash_join_single_partition_threshold = rows * COLLECTED_ROW_BYTES;
}

impl Session {
    pub fn new(engine: Arc<Engine>, identity: Identity) -> Result<Arc<Self>> {
        let counters = Arc::new(Counters::default());
        let settings = Arc::new(Settings::default());
        let meter = Meter::new(&engine.ledger);
        if !identity.user.is_empty() {
            settings.force("session_authorization", &identity.user);
        }
        if !identity.privileges.machine {
            settings.force("is_superuser", "off");
        }
        let snapshot = Arc::new(engine.database.snapshot()?.unpinned());
        let scope = Scope::new(engine.database.clone(), snapshot);
        let mut config = SessionConfig::new()
            // Our catalog has one of its own.
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(SEARCH, SEARCH)
            .with_extension(counters.clone())
            .with_extension(meter.clone())
            .with_extension(Arc::new(identity.privileges))
            .with_extension(settings.clone());
        share_work(config.options_mut(), engine.options().threads);
        config.options_mut().sql_parser.map_string_types_to_utf8view = true;
        // What TIMESTAMP WITH TIME ZONE means where no zone is given.
        config.options_mut().execution.time_zone = Some("UTC".into());
        config.options_mut().execution.parquet.pushdown_filters = false;
        // It takes memory for as many groups as LIMIT says, before there is one.
        config.options_mut().optimizer.enable_topk_aggregation = false;
        // An array of 4 bytes for each number between the least and the greatest key of a join's build side is quicker
        // to look into than a hash table, also while 19 of 20 are missing: a seventh less work for TPC-H's 22 queries.
        config.options_mut().execution.perfect_hash_join_min_key_density = 0.05;
        // The optimizer may find out that a CASE is never NULL, which the operators do not see: `CASE WHEN a > b THEN a ELSE 4 END`.
        config.options_mut().execution.skip_physical_aggregate_schema_check = true;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_catalog_list(Arc::new(Databases(scope.clone())))
            .with_runtime_env(engine.environment())
            // Before those of DataFusion, which look for types of operands.
            .with_expr_planners(vec![Arc::new(Chains)])
            .with_default_features()
            .with_analyzer_rules(rules::analyzer_rules(&meter))
            .with_optimizer_rules(rules::optimizer_rules())
            .with_type_planner(Arc::new(TypeNames))
            .with_query_planner(Arc::new(shared::Planner))
            .with_physical_optimizer_rules(rules::watched_physical(physical_rules()))
            .with_physical_optimizer_rule(Arc::new(InOrder))
            .with_physical_optimizer_rule(Arc::new(InPieces))
            .with_physical_optimizer_rule(Arc::new(Yielding))
            .build();
        let mut context = SessionContext::new_with_state(state);
        // Before those of JSON.
        context.register_expr_planner(Arc::new(Unaliased)).map_err(from_datafusion)?;
        datafusion_functions_json::register_all(&mut context).map_err(from_datafusion)?;
        file::register(&context)?;
        for function in aggregate::functions() {
            context.register_udaf(function);
        }
        context.register_udf(operand::function());
        context.register_udf(time_zone::function());
        context.register_expr_planner(Arc::new(interval::Scaling)).map_err(from_datafusion)?;
        context.register_expr_planner(Arc::new(truth::Truths)).map_err(from_datafusion)?;
        let clock = Arc::default();
        function::register(&context, &clock);
        text_function::register(&context);
        ranking::register(&context);
        any_equal::register(&context);
        json_path::register(&context);
        scope.bind(context.state_weak_ref());
        crate::pg_catalog::register(&context, &scope, &settings);
        builtin::register(&context, &meter);
        amplifier::register(&context, &meter);
        let sequences = Sequences::new(scope.clone(), &context, identity.privileges);
        let id = engine.sessions_opened.fetch_add(1, Ordering::Relaxed) + 1;
        let locks = SessionLocks::new(&engine, id, &scope, &identity);
        advisory::register(&context, &locks);
        let session = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            engine,
            context,
            scope,
            counters,
            sequences,
            remembered: Mutex::default(),
            prepared: Mutex::default(),
            attempt: Mutex::default(),
            settings,
            locks,
            transaction: Mutex::default(),
            transactions_begun: AtomicU64::new(0),
            attached_changes: AtomicU64::new(0),
            meter,
            killed: AtomicBool::new(false),
            poll: RwLock::new(None),
            temporary: OnceLock::new(),
            running: Mutex::new(()),
            fetches: AtomicUsize::new(0),
            spare_state: Mutex::new(None),
            started: Mutex::new(Instant::now()),
            id,
            identity,
            statement: Mutex::default(),
            origins: Mutex::default(),
            clock,
            added_settings: RwLock::default(),
        });
        let mut sessions = session.engine.sessions.lock();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(&session));
        drop(sessions);
        Ok(session)
    }

    /// Of times that are written without one.
    pub(crate) fn time_zone(&self) -> Arc<str> {
        let state = self.context.state_ref();
        let state = state.read();
        state.config_options().execution.time_zone.as_deref().unwrap_or("UTC").into()
    }

    /// Its number in the engine.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Ends the running statement and the transaction, and lets none begin.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.interrupt();
        // A statement that runs does the same when it ends.
        if let Some(_idle) = self.running.try_lock() {
            self.end_if_killed();
        }
    }

    fn end_if_killed(&self) {
        if self.is_killed() {
            *self.transaction.lock() = None;
        }
    }

    /// Whether KILL has ended the session.
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

    /// Notes what runs, for SHOW SESSIONS.
    pub(crate) fn note_statement(&self, sql: &str) {
        let mut statement = self.statement.lock();
        statement.clear();
        let end = sql.floor_char_boundary(STATEMENT_BYTES_SHOWN);
        statement.push_str(&sql[..end]);
    }

    fn activity(&self) -> Activity {
        let statement = self.statement.lock().clone();
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
            statement: Some(statement).filter(|statement| !statement.is_empty()),
            elapsed: self.started.lock().elapsed(),
            rows_done: self.counters.done.load(Ordering::Relaxed),
        }
    }

    /// Adds a setting for SET and SHOW that means something only to the program around the engine.
    pub fn define_setting(&self, name: &'static str, value: &str, check: SettingCheck) {
        self.added_settings.write().insert(name, AddedSetting { value: value.into(), check });
    }

    /// The value of a setting that was added.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.added_settings.read().get(name).map(|setting| setting.value.clone())
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The settings that clients of PostgreSQL know.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The origins of the columns of the last statement's result, for a client of PostgreSQL's protocol.
    pub fn take_origins(&self) -> Vec<Option<Origin>> {
        std::mem::take(&mut self.origins.lock())
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

    /// Whether something has asked for the running statement, or the last one, to end.
    pub fn is_interrupted(&self) -> bool {
        self.meter.interrupted.load(Ordering::Acquire)
    }

    /// Begins a call of the session, which runs one at a time.
    pub(crate) fn enter(&self) -> Running<'_> {
        let _one_at_a_time = self.running.lock();
        Running { session: self, _one_at_a_time, _patience: self.patience().hold() }
    }

    /// How long statements wait for the locks of other processes.
    fn patience(&self) -> Patience {
        let session = self.this.clone();
        Patience::of(self.settings.time(LOCK_TIMEOUT))
            .unless(move || session.upgrade().map_or(Ok(()), |session| session.check_interrupt()))
    }

    /// Begins a statement: forgets old interrupts and counts, and takes the newest snapshots.
    pub(crate) fn start(&self) -> Result<()> {
        self.start_counting()?;
        self.refresh()
    }

    fn start_counting(&self) -> Result<()> {
        self.check_killed()?;
        self.scope.held.lock().clear();
        self.meter.begin();
        self.clock.set(self.transaction.lock().as_ref().map(|explicit| explicit.begun));
        self.counters.done.store(0, Ordering::Relaxed);
        self.counters.total.store(0, Ordering::Relaxed);
        *self.started.lock() = Instant::now();
        Ok(())
    }

    /// Goes on with a result that was left open: older interrupts are forgotten, and its time begins anew.
    ///
    /// # Errors
    /// `Closed` after KILL.
    pub fn go_on(&self) -> Result<()> {
        self.check_killed()?;
        self.meter.interrupted.store(false, Ordering::Release);
        *self.started.lock() = Instant::now();
        Ok(())
    }

    /// [`Self::start`] for a statement that reads no rows.
    pub(crate) fn start_unpinned(&self) -> Result<()> {
        if self.is_in_transaction() {
            return self.start();
        }
        self.start_counting()?;
        self.scope.read_only.store(false, Ordering::Relaxed);
        self.take_attached()?;
        for named in self.scope.databases.write().iter_mut() {
            named.snapshot = named.database.unpinned_snapshot()?;
        }
        Ok(())
    }

    /// Shows the session what has been committed, or what its transaction sees.
    pub(crate) fn refresh(&self) -> Result<()> {
        let mut transaction = self.transaction.lock();
        let read_only = transaction.as_ref().is_some_and(|explicit| explicit.read_only);
        self.scope.read_only.store(read_only, Ordering::Relaxed);
        if transaction.is_none() {
            self.take_attached()?;
        }
        for named in self.scope.databases.write().iter_mut() {
            named.snapshot = match transaction.as_mut().and_then(|explicit| explicit.of(&named.name)) {
                Some(transaction) => transaction.snapshot()?,
                None => named.database.snapshot()?,
            };
        }
        Ok(())
    }

    /// Tells what memory the temporary tables take by now.
    fn settle_temporary(&self) {
        let Some(memory) = self.temporary.get() else { return };
        let database = self.scope.database(TEMPORARY);
        if let Ok(bytes) = database.and_then(|named| named.database.memory_bytes()) {
            memory.settle(bytes);
        }
    }

    /// Takes over what sessions have attached and detached.
    fn take_attached(&self) -> Result<()> {
        let attached = self.engine.attached.read();
        if self.attached_changes.load(Ordering::Relaxed) == attached.changes {
            return Ok(());
        }
        let named = |(name, database): &(String, Arc<Database>)| {
            Ok(Named {
                name: name.clone(),
                database: database.clone(),
                snapshot: database.unpinned_snapshot()?,
            })
        };
        let now = attached.databases.iter().map(named).collect::<Result<Vec<_>>>()?;
        {
            let mut databases = self.scope.databases.write();
            databases.retain(|named| [OWN_DATABASE, TEMPORARY].contains(&named.name.as_str()));
            databases.extend(now);
        }
        if self.scope.current_database().is_err() {
            self.scope.set_current(OWN_DATABASE, SCHEMA_MAIN);
        }
        self.attached_changes.store(attached.changes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes over changed limits.
    pub(crate) fn take_environment(&self) {
        let environment = self.engine.environment();
        let state = self.context.state_ref();
        let mut state = state.write();
        let mut builder = SessionStateBuilder::new_from_existing(state.clone()).with_runtime_env(environment);
        if let Some(config) = builder.config() {
            share_work(config.options_mut(), self.engine.options().threads);
        }
        *state = builder.build();
        *self.spare_state.lock() = None;
    }

    /// Calls the poll hook and honours interrupts; for loops on the caller's thread.
    pub fn check_interrupt(&self) -> Result<()> {
        let total = self.counters.total.load(Ordering::Relaxed);
        let progress = Progress {
            rows_done: self.counters.done.load(Ordering::Relaxed),
            rows_total: (total > 0).then_some(total),
            elapsed: self.started.lock().elapsed(),
        };
        let hook = self.poll.read().clone();
        if hook.is_some_and(|hook| hook(&progress) == Poll::Interrupt) {
            self.interrupt();
        }
        if self.is_interrupted() {
            return Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted"));
        }
        Ok(())
    }

    /// Receives with the poll hook running; `None` when the sender is gone.
    fn receive<T>(&self, receiver: &Receiver<T>) -> Result<Option<T>> {
        loop {
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(value) => return Ok(Some(value)),
                Err(RecvTimeoutError::Timeout) => self.check_interrupt()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Runs a future on the engine's threads and waits for it.
    ///
    /// # Errors
    /// The future's; `Interrupted`; `Internal` when it panics.
    pub fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = sync_channel(1);
        let task = self.engine.runtime.spawn(self.meter.charged(async move {
            // The receiver is gone when the caller was interrupted: nobody wants the value.
            let _unwanted = sender.send(future.await);
        }))?;
        match self.receive(&receiver) {
            Ok(Some(result)) => result,
            Ok(None) => Err(Error::internal("the query panicked; please report it")),
            Err(interrupted) => {
                task.abort();
                Err(interrupted)
            }
        }
    }

    /// Runs a future that plans on a thread of its own and waits for it. What the future leaves to the engine's threads goes on there.
    ///
    /// # Errors
    /// The future's; `Interrupted`; `Busy` (53000) when too many plans were given up and go on; `Internal` when it panics.
    pub(crate) fn wait_apart<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let future = self.meter.charged(future);
        let planned =
            self.engine.planners.start(self.engine.runtime.handle()?, &self.identity.user, future)?;
        match self.receive(&planned.receiver) {
            Ok(Some(result)) => result,
            Ok(None) => Err(Error::internal("the query panicked; please report it")),
            Err(interrupted) => {
                self.engine.planners.give_up(planned);
                Err(interrupted)
            }
        }
    }

    /// Runs a future on this thread as far as it goes without waiting, and the rest apart from it.
    pub(crate) fn wait_here<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut future = Box::pin(future);
        let first = catch_unwind(AssertUnwindSafe(|| self.meter.charge(|| (&mut future).now_or_never())));
        match first {
            Ok(Some(result)) => result,
            Ok(None) => self.wait_apart(future),
            Err(_) => Err(Error::internal("the query panicked; please report it")),
        }
    }

    /// Drives a stream on the engine's threads and hands each batch to `each` on this one.
    pub(crate) fn for_each(
        &self,
        mut stream: SendableRecordBatchStream,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let (sender, receiver) = sync_channel(BATCHES_IN_FLIGHT);
        let meter = self.meter.clone();
        let task = self.engine.runtime.spawn(self.meter.charged(async move {
            while let Some(batch) = stream.next().await {
                let batch = batch.map(Some).map_err(from_datafusion);
                let batch = batch.and_then(|batch| meter.check().map(|()| batch));
                if tokio::task::block_in_place(|| sender.send(batch)).is_err() {
                    return;
                }
            }
            let _unwanted = tokio::task::block_in_place(|| sender.send(Ok(None)));
        }))?;
        let result = loop {
            match self.receive(&receiver) {
                Ok(Some(Ok(Some(batch)))) => {
                    if let Err(error) = each(batch) {
                        break Err(error);
                    }
                }
                // The end is said, so that a panic is not taken for it.
                Ok(Some(Ok(None))) => break Ok(()),
                Ok(Some(Err(error))) | Err(error) => break Err(error),
                Ok(None) => break Err(Error::internal("the query panicked; please report it")),
            }
        };
        if result.is_err() {
            task.abort();
        }
        result
    }

    /// The rows of a statement that has just been started.
    pub fn rows(&self, stream: SendableRecordBatchStream) -> Rows {
        let transaction = self.transaction.lock().as_ref().map(|explicit| explicit.number);
        Rows { stream: Arc::new(tokio::sync::Mutex::new(stream)), transaction }
    }

    /// Waits for the next rows. An error aborts the transaction that they are of, if it is still open.
    pub fn next_batch(&self, rows: &Rows) -> Result<Option<RecordBatch>> {
        // Who computes them are threads, which a child of fork() does not have.
        self.engine.database.check_process()?;
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let stream = rows.stream.clone();
        let meter = self.meter.clone();
        let next = self.wait(async move {
            let batch = stream.lock().await.next().await.transpose().map_err(from_datafusion)?;
            meter.check()?;
            batch.iter().for_each(|batch| meter.hand_over(batch));
            Ok(batch)
        });
        self.fetches.fetch_sub(1, Ordering::Relaxed);
        next.inspect_err(|error| {
            if let Some(explicit) = self.transaction.lock().as_mut()
                && rows.transaction == Some(explicit.number)
            {
                explicit.abort(error.message());
            }
        })
    }

    /// Drives a stream to its end.
    pub fn collect(&self, stream: SendableRecordBatchStream) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        self.for_each(stream, |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok(batches)
    }

    /// The SQL types of a result's columns, as (name, type, nullable).
    pub fn describe(outcome: &Outcome) -> Result<Vec<(String, LogicalType, bool)>> {
        match outcome {
            Outcome::Stored(stored) => Ok(stored
                .columns
                .iter()
                .map(|(name, column)| {
                    (name.clone(), column.entry().logical_type.clone(), column.entry().nullable)
                })
                .collect()),
            Outcome::Stream { schema, .. } | Outcome::Batches { schema, .. } => schema
                .fields()
                .iter()
                .map(|field| Ok((field.name().clone(), LogicalType::from_arrow(field)?, field.is_nullable())))
                .collect(),
            Outcome::Done { .. } => Ok(Vec::new()),
        }
    }
}

impl StoredResult {
    /// The Arrow schema of the columns at rest.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<_> =
            self.columns.iter().map(|(name, column)| column.field().with_name(name)).collect();
        Arc::new(Schema::new(fields))
    }

    /// Called before some columns are handed out as they lie, for others to read: they are verified
    /// now, or soon, as the database was opened. `proceed` is asked before each block that is.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block; those of `proceed`.
    pub fn hand_out(&self, columns: Range<usize>, mut proceed: impl FnMut() -> Result<()>) -> Result<()> {
        let rows = self.offset..self.offset + self.rows;
        self.columns[columns]
            .iter()
            .try_for_each(|(_, column)| self.snapshot.hand_out(column, rows.clone(), &mut proceed))
    }

    /// Checks the checksums and the structure of rows of the result, for those who read them here: a mapping is handed
    /// over unread.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_rows(&self, rows: Range<u64>) -> Result<()> {
        (0..self.columns.len()).try_for_each(|column| self.verify_column(column, rows.clone()))
    }

    /// [`Self::verify_rows`] of one column.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_column(&self, column: usize, rows: Range<u64>) -> Result<()> {
        let rows = self.offset + rows.start..self.offset + rows.end.min(self.rows);
        self.columns[column].1.verify_rows(rows)
    }
}

/// Values for the placeholders of a statement.
#[derive(Clone, Debug, Default)]
pub enum Parameters {
    #[default]
    None,
    /// For `?` and `$1`.
    Positional(Vec<ScalarValue>),
    /// For `$name`.
    Named(Vec<(String, ScalarValue)>),
}

impl Parameters {
    /// A UUID as a value of a statement: in plans UUIDs are text.
    pub fn uuid(bytes: [u8; 16]) -> ScalarValue {
        ScalarValue::Utf8(Some(uuid::Uuid::from_bytes(bytes).hyphenated().to_string()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Positional(values) => values.is_empty(),
            Self::Named(values) => values.is_empty(),
        }
    }
}
