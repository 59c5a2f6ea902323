//! Statements about a cluster, in a database that is part of none.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::dialect::extension;
use hypostyle_sql::cluster::ClusterStatement;
use hypostyle_types::{Error, Result};

impl Session {
    /// Reads a statement of the caller's; `None` where it is not about a cluster.
    pub(super) fn cluster_statement(&self, sql: &str) -> Result<Option<ClusterStatement>> {
        ClusterStatement::of(sql, extension(self.settings.is_wire()))
    }

    /// Runs a statement about the cluster that the database is part of.
    pub(super) fn execute_on_cluster(&self, _: &ClusterStatement, _: &Parameters) -> Result<Outcome> {
        Err(Error::unsupported(
            "this database is not part of a cluster: start it with `hypostyle serve --cluster cluster.toml`",
        ))
    }
}
