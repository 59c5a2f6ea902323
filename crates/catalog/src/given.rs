//! Relations that the engine gives its own queries, such as the rows that a statement has computed.
//!
//! Their names are made with a key of the session's, so that no statement can know one of them. The
//! same relation has the same name each time, by which the plan of a query over it is found again.

use crate::scope::{Name, Scope};
use datafusion::catalog::TableProvider;
use datafusion::sql::sqlparser::ast::{Ident, TableFactor};
use hypostyle_sql::build;
use hypostyle_sync::RwLock;
use roaring::RoaringTreemap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one of these names stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    /// Rows in memory, told from others of the same statement by their role in it.
    Rows { role: &'static str, rows: Arc<dyn TableProvider> },
    /// The rows of a stored table from a position on, each with its position as the last column.
    Positions { table: Name, first: u64 },
    /// The same of the rows that the open transaction has appended to a table of the cluster.
    Staged { table: Name, first: u64 },
    /// The rows of a table of the cluster that others see, with their places as the last column: also those
    /// that the open transaction has deleted. All of them, or those at some places.
    Published { table: Name, places: Option<Arc<RoaringTreemap>> },
}

impl Hash for Relation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Rows { role, .. } => role.hash(state),
            Self::Positions { table, first } => (table, first).hash(state),
            Self::Staged { table, first } => ("staged", table, first).hash(state),
            Self::Published { table, places } => ("published", table, places.is_some()).hash(state),
        }
    }
}

/// The relations that are given now.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    key: RandomState,
    shown: AtomicU64,
    given: RwLock<Vec<Arc<Named>>>,
}

#[derive(Debug)]
struct Named {
    name: String,
    relation: Relation,
}

/// A relation that queries find under its name, as long as this lives.
#[derive(Debug)]
pub struct Given {
    scope: Arc<Scope>,
    named: Arc<Named>,
}

impl Given {
    /// Returns the same relation under a name that a plan may show: none has it again.
    #[must_use]
    pub fn shown_only(&self) -> Self {
        let number = self.scope.relations.shown.fetch_add(1, Ordering::Relaxed);
        self.scope.give_as(self.named.relation.clone(), Some(number))
    }

    /// Returns the relation as a part of FROM, which may be called otherwise.
    pub fn factor(&self, alias: Option<Ident>) -> TableFactor {
        build::table(build::name(self.name()), alias)
    }

    /// Returns the name, which is no text of SQL.
    pub fn name(&self) -> &str {
        &self.named.name
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.scope.relations.given.write().retain(|named| !Arc::ptr_eq(named, &self.named));
    }
}

impl Scope {
    /// Gives queries a relation.
    pub fn give(self: &Arc<Self>, relation: Relation) -> Given {
        self.give_as(relation, None)
    }

    fn give_as(self: &Arc<Self>, relation: Relation, shown: Option<u64>) -> Given {
        let what = match &relation {
            Relation::Rows { role, .. } => role,
            Relation::Positions { table, .. }
            | Relation::Staged { table, .. }
            | Relation::Published { table, .. } => table.name.as_str(),
        };
        let name = format!("{what}:{:016x}", self.relations.key.hash_one((shown, &relation)));
        let named = Arc::new(Named { name, relation });
        self.relations.given.write().push(named.clone());
        Given { scope: self.clone(), named }
    }

    /// Returns the relation that was given last under a name.
    pub fn given(&self, name: &str) -> Option<Relation> {
        let given = self.relations.given.read();
        given.iter().rev().find(|named| named.name == name).map(|named| named.relation.clone())
    }
}
