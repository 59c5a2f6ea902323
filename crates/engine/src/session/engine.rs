//! Engines: the runtime, the memory and the databases that sessions share.

use super::Session;
use super::advisory::Locks;
use super::calls::Calls;
use super::cluster::ClusterNode;
use super::workers::Workers;
use crate::planner::Planners;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use hypostyle_cluster::node::{Host, Node};
use hypostyle_cluster::peers::Peers;
use hypostyle_error::from_datafusion;
use hypostyle_exec::memory::QueryPool;
use hypostyle_exec::spill::SpillFiles;
use hypostyle_expr::meter::Ledger;
use hypostyle_foreign::{Dialer, ForeignDatabase};
use hypostyle_storage::{Database, QUIET, Verify};
use hypostyle_sync::{Mutex, RwLock};
use hypostyle_types::{Error, Identity, Result};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub threads: usize,
    /// Bytes that operators may hold before they spill or fail.
    pub memory_limit: u64,
    /// The same of one statement; all of them when absent.
    pub query_memory_limit: Option<u64>,
    /// The directory in which operators spill; by default the system's temporary directory.
    pub temp_directory: Option<PathBuf>,
    /// Bytes that spilled rows may take; half of what is free when absent.
    pub temp_directory_limit: Option<u64>,
    /// ATTACH takes databases on network file systems, too.
    pub allow_network_filesystem: bool,
    /// When columns of attached databases are verified that are handed out unread.
    pub verify: Verify,
}

/// More threads than machines have: each has a part of its own in every plan.
const THREADS_MAX: usize = 4_096;

pub(crate) fn checked_threads(threads: usize) -> Result<usize> {
    match threads <= THREADS_MAX {
        true => Ok(threads),
        false => {
            Err(Error::invalid_input(format!("threads is a number of 1 to {THREADS_MAX}, not '{threads}'")))
        }
    }
}

/// Databases that ATTACH has opened, for all sessions of an engine.
#[derive(Default)]
pub(crate) struct Attached {
    pub databases: Vec<(String, Arc<Database>)>,
    /// Those of other systems.
    pub foreign: Vec<Arc<ForeignDatabase>>,
    /// The number of changes.
    pub changes: u64,
}

impl Attached {
    /// Says whether a database has that name.
    pub fn has(&self, name: &str) -> bool {
        self.databases.iter().any(|(other, _)| other == name)
            || self.foreign.iter().any(|database| database.name() == name)
    }
}

/// A database with the threads and memory to query it.
pub struct Engine {
    pub(super) database: Arc<Database>,
    pub(crate) attached: RwLock<Attached>,
    pub(super) runtime: Workers,
    pub(super) planners: Planners,
    environment: RwLock<Arc<RuntimeEnv>>,
    pub(super) ledger: Arc<Ledger>,
    options: RwLock<EngineOptions>,
    pub(super) sessions: Mutex<Vec<Weak<Session>>>,
    pub(super) sessions_opened: AtomicU64,
    pub(crate) advisory_locks: Arc<Locks>,
    /// What answers the calls of other nodes.
    pub(super) calls: OnceLock<Arc<dyn Calls>>,
    /// What connects to databases of other systems.
    dialer: OnceLock<Arc<dyn Dialer>>,
    /// The node of a cluster that the database is.
    node: OnceLock<ClusterNode>,
}

/// The present activity of a session.
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
        let runtime = Workers::start(checked_threads(options.threads)?.max(1))?;
        let environment = RwLock::new(environment(&options)?);
        database.set_upkeep(database.path().map(|_| QUIET));
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
            calls: OnceLock::new(),
            dialer: OnceLock::new(),
            node: OnceLock::new(),
        }))
    }

    /// Makes the database a node of a cluster, once: sessions opened from then on know its tables. The node
    /// works as long as what is returned with it is kept, or one of these sessions.
    ///
    /// # Errors
    /// Those of the node.
    pub fn join_cluster(
        self: &Arc<Self>,
        name: &str,
        address: &str,
        peers: Arc<dyn Peers>,
    ) -> Result<(Arc<Node>, Arc<dyn Host>)> {
        let threads = self.options().threads;
        let node = Node::open(name, address, self.database.clone(), threads, peers)?;
        let (new, host) = ClusterNode::new(self, node)?;
        let joined = self.node.get_or_init(|| new);
        Ok((joined.node.clone(), joined.host.upgrade().unwrap_or(host)))
    }

    /// Returns the node of a cluster that the database is.
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.node.get().map(|joined| &joined.node)
    }

    /// Returns what works for that node, as long as somebody has the database open.
    pub(super) fn host(&self) -> Option<Arc<dyn Host>> {
        self.node.get()?.host.upgrade()
    }

    /// Has ATTACH take addresses of databases of other systems, which are refused until then.
    ///
    /// # Errors
    /// `Internal` the second time.
    pub fn set_dialer(&self, dialer: Arc<dyn Dialer>) -> Result<()> {
        let set = self.dialer.set(dialer);
        set.map_err(|_| Error::internal("databases of other systems are connected to already"))
    }

    /// Returns what connects to the database of an address, if it is that of another system's.
    pub(crate) fn dialer(&self, address: &str) -> Option<Arc<dyn Dialer>> {
        self.dialer.get().filter(|dialer| dialer.takes(address)).cloned()
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
        let attached = self.attached.read();
        attached.databases.iter().for_each(|(_, database)| database.close());
        attached.foreign.iter().for_each(|database| database.close());
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    pub fn options(&self) -> EngineOptions {
        self.options.read().clone()
    }

    /// Returns how many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.options.read().threads
    }

    /// Returns the memory and disk of a new session.
    pub(super) fn environment(&self) -> Arc<RuntimeEnv> {
        let shared = self.environment.read().clone();
        let Some(limit) = self.options.read().query_memory_limit else { return shared };
        let pool = QueryPool::new(shared.memory_pool.clone(), limit);
        Arc::new(RuntimeEnv { memory_pool: Arc::new(pool), ..RuntimeEnv::clone(&shared) })
    }

    /// Returns the memory and disk that all sessions share which are opened from now on.
    pub(super) fn shared_environment(&self) -> Arc<RuntimeEnv> {
        self.environment.read().clone()
    }

    /// Sessions opened after this have the new limits; the one that changes them takes them at
    /// once.
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
