//! What the program around the engine knows of other systems: how to connect, and how to run
//! statements there.

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use hypostyle_types::Result;
use std::sync::Arc;

/// Says whether anybody still waits for what a statement gives. It is asked about every 50 ms, on the
/// thread that waits for the server. After a `false` the statement is cancelled there.
pub type Wanted = Arc<dyn Fn() -> bool + Send + Sync>;

/// Opens connections to databases of another system. All calls block.
pub trait Dialer: Send + Sync {
    /// Says whether a text is the address of such a database, and no path.
    fn takes(&self, address: &str) -> bool;

    /// Returns the address without its password.
    ///
    /// # Errors
    /// `InvalidInput`, `Unsupported` with the part that is wrong.
    fn shown(&self, address: &str) -> Result<String>;

    /// Connects.
    ///
    /// # Errors
    /// Those of [`Self::shown`]; `Connection` when no server answers; `Denied` when the login fails.
    fn dial(&self, address: &str) -> Result<Box<dyn Connection>>;
}

/// A session with a server, which runs one statement at a time.
pub trait Connection: Send + Sync {
    /// Runs the statements of a text, and returns the rows of the last one while they come.
    ///
    /// # Errors
    /// Those of the server; `Interrupted` when nobody waits any more; `Connection`.
    fn query(&self, sql: &str, wanted: &Wanted) -> Result<Box<dyn Rows>>;

    /// Returns the columns of a query without running it.
    ///
    /// # Errors
    /// Those of the server.
    fn describe(&self, sql: &str, wanted: &Wanted) -> Result<SchemaRef>;

    /// Appends all rows to a table, whose name is as in SQL, and returns their number. Their columns
    /// go to those of their names if `by_name`, else to those of their places. If `create`, a table
    /// that is not there is made for them.
    ///
    /// # Errors
    /// Those of the server and of `rows`. Nothing is appended then.
    fn append(
        &self,
        table: &str,
        rows: Box<dyn RecordBatchReader + Send>,
        create: bool,
        by_name: bool,
        wanted: &Wanted,
    ) -> Result<u64>;
}

/// The rows of a statement while they come.
pub trait Rows: Send {
    /// Returns the next rows, or `None` after the last.
    ///
    /// # Errors
    /// Those of [`Connection::query`]; `InvalidInput` for a value that no type of ours has.
    fn next(&mut self) -> Result<Option<RecordBatch>>;
}
