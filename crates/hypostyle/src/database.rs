//! Opening and closing databases.

use crate::Connection;
use hypostyle_engine::{Engine, EngineOptions, Identity, system_memory};
use hypostyle_storage::{OpenMode, Patience, StorageOptions, Verify};
use hypostyle_types::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Share of the RAM that queries may hold unless told otherwise.
const MEMORY_SHARE: f64 = 0.8;

#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub read_only: bool,
    /// Threads that run queries; as many as the machine has cores when absent.
    pub threads: Option<usize>,
    /// Bytes that queries may hold before they spill or fail; 80 % of the RAM when absent.
    pub memory_limit: Option<u64>,
    /// Bytes that one query may hold of them; all when absent.
    pub query_memory_limit: Option<u64>,
    /// Where queries spill; the system's temporary directory when absent.
    pub temp_directory: Option<PathBuf>,
    /// Open a database on a network file system, whose locks and mappings cannot be relied on.
    pub allow_network_filesystem: bool,
    /// How long opening waits for the locks of other processes, and who may end that before.
    pub patience: Option<Patience>,
    /// When columns are verified that are handed out as they lie.
    pub verify: Verify,
}

/// An open database; clones are handles of the same one.
#[derive(Clone)]
pub struct Database {
    engine: Arc<RwLock<Option<Arc<Engine>>>>,
    path: Option<PathBuf>,
}

impl Database {
    /// Opens a directory; one that is missing or empty becomes a new database, unless read-only.
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` when it is not a database, `Version`, `Corrupt`, `Io`; `Unsupported` on a
    /// network file system; `Busy` when another process has a lock of it for too long.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let mode = if options.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        if let Some(text) = path.as_ref().to_str().filter(|text| text.contains("://")) {
            return Err(Error::invalid_input(format!(
                "\"{text}\" is no path; a server's address is hypostyle://user@host:port/ or hypostyle+unix:///path"
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

    /// A new database in memory; the same code over memory files. It goes with its last handle.
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
        Ok(Self { engine: Arc::new(RwLock::new(Some(engine))), path })
    }

    /// A connection: its own settings and prepared statements.
    pub fn connect(&self) -> Result<Connection> {
        Connection::embedded(self.clone(), Identity::default())
    }

    /// A connection for somebody else, who may do only what `identity` says.
    pub fn connect_as(&self, identity: Identity) -> Result<Connection> {
        Connection::embedded(self.clone(), identity)
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Closes the database for all handles and connections; it waits for nothing, and what is running goes on
    /// to its end. Results that have been handed out live on.
    pub fn close(&self) -> Result<()> {
        if let Some(engine) = self.engine.write().take() {
            engine.close();
        }
        Ok(())
    }

    pub(crate) fn engine(&self) -> Result<Arc<Engine>> {
        self.engine
            .read()
            .clone()
            .ok_or_else(|| Error::new(ErrorKind::Closed, "the database is closed; open it again"))
    }
}
