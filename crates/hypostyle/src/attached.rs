//! Databases of PostgreSQL that ATTACH names, as the engine uses them.

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use hypostyle_engine::foreign::{Connection, Dialer, Rows, Wanted};
use hypostyle_postgres::{Address, AppendOptions, Hook, Options, QueryResult};
use hypostyle_types::Result;
use std::sync::Arc;

/// Connects to PostgreSQL.
pub(crate) struct PostgresDialer;

impl Dialer for PostgresDialer {
    fn takes(&self, address: &str) -> bool {
        Address::is_address(address)
    }

    fn shown(&self, address: &str) -> Result<String> {
        Address::parse(address).map(|address| address.to_string())
    }

    fn dial(&self, address: &str) -> Result<Box<dyn Connection>> {
        let address = Address::parse(address)?;
        let connection = hypostyle_postgres::Connection::connect(&address, Options::default())?;
        Ok(Box::new(PostgresConnection(connection)))
    }
}

struct PostgresConnection(hypostyle_postgres::Connection);

impl PostgresConnection {
    /// Has the statements that follow cancelled when nobody waits for them any more.
    fn watch(&self, wanted: &Wanted) {
        let wanted = wanted.clone();
        let hook: Hook = Arc::new(move |_| wanted());
        self.0.set_hook(Some(hook));
    }
}

impl Connection for PostgresConnection {
    fn query(&self, sql: &str, wanted: &Wanted) -> Result<Box<dyn Rows>> {
        self.watch(wanted);
        Ok(Box::new(PostgresRows(self.0.execute(sql, None)?)))
    }

    fn describe(&self, sql: &str, wanted: &Wanted) -> Result<SchemaRef> {
        self.watch(wanted);
        self.0.describe(sql).map(|description| description.columns)
    }

    fn append(
        &self,
        table: &str,
        rows: Box<dyn RecordBatchReader + Send>,
        create: bool,
        by_name: bool,
        wanted: &Wanted,
    ) -> Result<u64> {
        self.watch(wanted);
        self.0.append(table, rows, AppendOptions { create, by_name })
    }
}

struct PostgresRows(QueryResult);

impl Rows for PostgresRows {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.0.next_batch()
    }
}
