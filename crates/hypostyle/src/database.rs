//! Opens and closes databases.

use crate::Connection;
use crate::attached::PostgresDialer;
use hypostyle_cluster::node::{Host, Node};
use hypostyle_cluster::peers::Peers;
use hypostyle_engine::{Calls, Engine, EngineOptions, Identity, system_memory};
use hypostyle_storage::{OpenMode, Patience, StorageOptions, Verify};
use hypostyle_sync::{Mutex, RwLock};
use hypostyle_types::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The share of the RAM that queries may hold by default.
const MEMORY_SHARE: f64 = 0.8;

/// The options with which a database is opened.
///
/// ```
/// use hypostyle::{Database, OpenOptions};
///
/// let options = OpenOptions { threads: Some(2), memory_limit: Some(256 << 20), ..OpenOptions::default() };
/// let connection = Database::in_memory(options)?.connect()?;
/// assert_eq!(connection.execute("SHOW threads")?.row_count()?, 1);
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub read_only: bool,
    /// The number of threads that run queries; by default the number of cores.
    pub threads: Option<usize>,
    /// The bytes that queries may hold before they spill or fail; by default 80 % of the RAM.
    pub memory_limit: Option<u64>,
    /// The bytes of them that one query may hold; by default all.
    pub query_memory_limit: Option<u64>,
    /// The directory in which queries spill; by default the system's temporary directory.
    pub temp_directory: Option<PathBuf>,
    /// Opens a database also on a network file system, whose locks and mappings cannot be relied
    /// on.
    pub allow_network_filesystem: bool,
    /// How long opening may wait for the locks of other processes, and who may end the wait
    /// earlier.
    pub patience: Option<Patience>,
    /// When columns are verified that are handed out unread.
    pub verify: Verify,
}

/// An open database; clones are handles of the same database.
///
/// ```
/// use hypostyle::{Database, ErrorKind, OpenOptions};
///
/// let path = std::env::temp_dir().join(format!("hypostyle-{}", std::process::id()));
/// let database = Database::open(&path, OpenOptions::default())?;
/// database.connect()?.execute("CREATE TABLE t AS SELECT 1 AS a")?;
/// database.close()?;
/// assert_eq!(database.connect().err().map(|error| error.kind()), Some(ErrorKind::Closed));
///
/// let database = Database::open(&path, OpenOptions { read_only: true, ..OpenOptions::default() })?;
/// assert_eq!(database.connect()?.table("t")?.row_count()?, 1);
/// # drop(database);
/// # std::fs::remove_dir_all(&path).expect("the directory was made here");
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    engine: Arc<RwLock<Option<Arc<Engine>>>>,
    /// What works for the node that the database is, if it is one.
    host: Arc<Mutex<Option<Arc<dyn Host>>>>,
    path: Option<PathBuf>,
}

impl Database {
    /// Opens a directory. A missing or empty one becomes a new database, unless it is opened
    /// read-only.
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` when it is not a database, `Version`, `Corrupt`, `Io`;
    /// `Unsupported` on a network file system; `Busy` when another process has one of its locks for
    /// too long.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let mode = if options.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        if let Some(scheme) = path.as_ref().to_str().and_then(scheme_of) {
            // What follows may have a password in it.
            return Err(Error::invalid_input(format!(
                "\"{scheme}:…\" is no path; a server's address is hypostyle://user@host:port/ or \
                 hypostyle+unix:///path"
            )));
        }
        let path = std::path::absolute(path.as_ref()).map_err(|error| {
            Error::from_io(&error, format_args!("cannot open \"{}\"", path.as_ref().display()))
        })?;
        let storage = StorageOptions {
            allow_network_filesystem: options.allow_network_filesystem,
            patience: options.patience.clone(),
            verify: options.verify,
            ..StorageOptions::from(mode)
        };
        Self::over(hypostyle_storage::Database::open(&path, storage)?, Some(path), options)
    }

    /// Creates a new database in memory, with the same code over memory files. It ends with its
    /// last handle.
    pub fn in_memory(options: OpenOptions) -> Result<Self> {
        Self::over(hypostyle_storage::Database::in_memory()?, None, options)
    }

    fn over(
        database: Arc<hypostyle_storage::Database>,
        path: Option<PathBuf>,
        options: OpenOptions,
    ) -> Result<Self> {
        if options.threads == Some(0) {
            return Err(Error::invalid_input("threads must be at least 1"));
        }
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let engine = EngineOptions {
            threads: options.threads.unwrap_or_else(cores),
            memory_limit: options.memory_limit.unwrap_or((system_memory() as f64 * MEMORY_SHARE) as u64),
            query_memory_limit: options.query_memory_limit,
            temp_directory: options.temp_directory,
            temp_directory_limit: None,
            allow_network_filesystem: options.allow_network_filesystem,
            verify: options.verify,
        };
        let engine = Engine::new(database, engine)?;
        engine.set_dialer(Arc::new(PostgresDialer))?;
        Ok(Self { engine: Arc::new(RwLock::new(Some(engine))), host: Arc::default(), path })
    }

    /// Opens a connection with its own settings and prepared statements.
    pub fn connect(&self) -> Result<Connection> {
        Connection::embedded(self.clone(), Identity::default())
    }

    /// Opens a connection for another user, who may do only what `identity` allows.
    pub fn connect_as(&self, identity: Identity) -> Result<Connection> {
        Connection::embedded(self.clone(), identity)
    }

    /// Has calls of other nodes of a cluster answered ([`Connection::call`]).
    ///
    /// # Errors
    /// `Internal` the second time; `Closed`.
    pub fn set_calls(&self, calls: Arc<dyn Calls>) -> Result<()> {
        self.engine()?.set_calls(calls)
    }

    /// Makes the database a node of a cluster, which reaches others by `peers`. Connections that are
    /// opened from then on know the cluster's tables (docs/cluster.md).
    ///
    /// # Errors
    /// Those of the database; `Closed`.
    pub fn join_cluster(&self, name: &str, address: &str, peers: Arc<dyn Peers>) -> Result<Arc<Node>> {
        let (node, host) = self.engine()?.join_cluster(name, address, peers)?;
        *self.host.lock() = Some(host);
        Ok(node)
    }

    /// Returns the node of a cluster that the database is; `None` also once it is closed.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.engine().ok()?.node().cloned()
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Closes the database for all handles and connections. It waits for nothing, and running
    /// statements continue to their end. Results that have been handed out stay valid.
    pub fn close(&self) -> Result<()> {
        if let Some(engine) = self.engine.write().take() {
            engine.close();
        }
        // Sessions of connections keep it until they end.
        let _host = self.host.lock().take();
        Ok(())
    }

    pub(crate) fn engine(&self) -> Result<Arc<Engine>> {
        self.engine
            .read()
            .clone()
            .ok_or_else(|| Error::new(ErrorKind::Closed, "the database is closed; open it again"))
    }
}

/// The schemes of servers' addresses.
const SCHEMES: [&str; 4] = ["hypostyle", "hypostyle+unix", "postgresql", "postgres"];

/// Returns the scheme of what is an address, or is meant to be one, and no path.
fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    (text.contains("://") || SCHEMES.contains(&scheme)).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_as_an_address_is_no_path_and_not_shown() {
        for text in [
            "hypostyle:ada:s3cr:t%@/#?x@h/",
            "hypostyle:/ada:s3cr:t%@/#?x@h/",
            "postgres:ada:s3cr:t%@/#?x@h/db",
            "mysql://ada:s3cr:t%@/#?x@h/db",
        ] {
            let Err(error) = Database::open(text, OpenOptions::default()) else {
                panic!("{text} is no path");
            };
            assert!(error.message().contains("is no path"), "{error}");
            assert!(!error.message().contains("s3cr") && !error.message().contains("#?x"), "{error}");
        }
    }
}
