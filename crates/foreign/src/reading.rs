//! The snapshot in which a statement reads all tables of another system's database.
//!
//! One connection, the leader, holds the snapshot and the descriptions of tables. Each scan has
//! connections of its own, whose transactions take the leader's snapshot over
//! (`pg_export_snapshot`). So a scan can end, fail or be cancelled without the others.
//!
//! The leader locks the tables that it has described, as all readers do: nothing can change their
//! columns or move their rows to other pages until the statement ends. A session that waits to do that
//! would let no further reader in. The statement would then wait for itself, which the server cannot
//! see. So connections wait for locks no longer than [`LOCK_SECONDS`].

use crate::connections::{ForeignConnections, Lease, share};
use crate::database::ForeignDatabase;
use crate::literal::quoted_text;
use crate::relation::{Name, Relation, relation, texts};
use crate::server::{Connection, Wanted};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The seconds after which a connection waits for a lock no longer.
const LOCK_SECONDS: u32 = 10;

const BEGIN: &str = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Gives the snapshot a name. Its connection is idle while others read, which is no reason to end it: it
/// does not outlast the statement. The setting is known from PostgreSQL 9.6 on.
const EXPORT: &str = "SELECT pg_catalog.pg_export_snapshot(), \
    CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 90600 \
    THEN pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true) END";

/// Takes `pg_catalog` out of the search path of the transaction, but for its first place: it is searched
/// first then. Else whoever may create operators in a schema that is searched before would say what the
/// conditions of statements mean there, and run code with the rights of this user. It has no operator itself.
const OPERATORS: &str = "SELECT pg_catalog.set_config('search_path', pg_catalog.regexp_replace(\
    pg_catalog.current_setting('search_path'), ',[[:space:]]*\"?pg_catalog\"?[[:space:]]*(?=,|$)', '', 'gi'), true)";

/// The rows of a database as one statement sees them.
pub struct Reading {
    database: Arc<ForeignDatabase>,
    snapshot: String,
    state: Mutex<State>,
}

struct State {
    leader: Option<Box<dyn Connection>>,
    /// What was asked for: planning asks for the same table again and again.
    relations: HashMap<Name, Result<Option<Arc<Relation>>>>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("database", &self.database)
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

impl Reading {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// Those of the server.
    pub fn begin(database: Arc<ForeignDatabase>, wanted: &Wanted) -> Result<Arc<Self>> {
        let leader = database.begin(&format!("{BEGIN}; {OPERATORS}; {}", lock_timeout()), wanted)?;
        let exported = texts(leader.as_ref(), EXPORT, wanted);
        let exported = exported.map_err(|error| database.of_server(error))?;
        let snapshot = exported.into_iter().flatten().next().flatten();
        let snapshot = snapshot.ok_or_else(|| Error::protocol("the server gives its snapshot no name"))?;
        let state = Mutex::new(State { leader: Some(leader), relations: HashMap::new() });
        Ok(Arc::new(Self { database, snapshot, state }))
    }

    pub(crate) fn database(&self) -> &ForeignDatabase {
        &self.database
    }

    /// Returns a table or view; `None` if there is none of that name.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn relation(&self, name: &Name, wanted: &Wanted) -> Result<Option<Arc<Relation>>> {
        let mut state = self.state.lock();
        let State { leader, relations } = &mut *state;
        if let Some(known) = relations.get(name) {
            return known.clone();
        }
        let leader = leader.as_ref().ok_or_else(|| Error::internal("a snapshot without its connection"))?;
        let found = relation(leader.as_ref(), name, wanted)
            .map(|found| found.map(Arc::new))
            .map_err(|error| self.database.of_server(error));
        relations.insert(name.clone(), found.clone());
        found
    }

    /// Takes connections for a scan of a table, as many as are wanted and the table's share of those that
    /// may read the database.
    pub(crate) fn lease(&self, relation: &Relation, wanted: usize, most: ForeignConnections) -> Lease {
        let state = self.state.lock();
        let known = state.relations.values().filter_map(|known| known.as_ref().ok()?.as_ref());
        let all_pages = known.map(|known| known.pages).fold(0, u64::saturating_add);
        drop(state);
        Lease::new(self.database.clone(), wanted.min(share(most, relation.pages, all_pages)), most)
    }

    /// Returns a connection that reads the snapshot.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn connection(&self, wanted: &Wanted) -> Result<Box<dyn Connection>> {
        let snapshot = quoted_text(&self.snapshot);
        let begin = format!("{BEGIN}; SET TRANSACTION SNAPSHOT {snapshot}; {OPERATORS}; {}", lock_timeout());
        self.database.begin(&begin, wanted)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let Some(leader) = self.state.get_mut().leader.take() else { return };
        let database = self.database.clone();
        // Whoever drops the last row must not wait for a server. Without a thread the connection is
        // closed.
        let ending = std::thread::Builder::new().name("hypostyle end".into());
        drop(ending.spawn(move || database.give_back(leader)));
    }
}

fn lock_timeout() -> String {
    format!("SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
}
