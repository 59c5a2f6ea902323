//! Runs `tests/sql/*.slt`, each file in memory, on disk, and over a server's sockets, with plans that are
//! kept, and with and without position pipelines.

use crate::served::Served;
use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hypostyle::{ColumnDescription, Connection, Database, Error, LogicalType, OpenOptions};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// A connection, and how often it runs each query.
pub struct Session(pub Connection, pub usize);

/// What a query does, if it has other rows each time that it runs.
const DIFFERS: [&str; 13] = [
    "nextval",
    "setval",
    "random",
    "uuid",
    "now",
    "current_t",
    "lock",
    "try",
    "set_config",
    "sleep",
    " into ",
    "update ",
    "delete ",
];

impl Session {
    /// Runs a query as often as it is to be run, the last time for its rows.
    fn repeat(&self, sql: &str) -> Result<(), Error> {
        let text = sql.trim_start().to_lowercase();
        let is_query = text.starts_with("select") || text.starts_with("with") || text.starts_with("values");
        if !is_query || DIFFERS.iter().any(|differs| text.contains(differs)) {
            return Ok(());
        }
        for _ in 1..self.1 {
            let result = self.0.execute(sql)?;
            while result.is_query() && result.next_batch()?.is_some() {}
        }
        Ok(())
    }
}

impl DB for Session {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        self.repeat(sql)?;
        let result = self.0.execute(sql)?;
        if !result.is_query() {
            return Ok(DBOutput::StatementComplete(result.rows_affected().unwrap_or(0)));
        }
        let columns = result.columns();
        let types = vec![DefaultColumnType::Text; columns.len()];
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch()? {
            let shown: Vec<ArrayRef> =
                batch.columns().iter().zip(columns).map(|(array, column)| shown(array, column)).collect();
            let formatters = shown
                .iter()
                .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| Error::internal(error.to_string()))?;
            for row in 0..batch.num_rows() {
                let text = |formatter: &ArrayFormatter<'_>| match formatter.value(row).to_string() {
                    empty if empty.is_empty() => "(empty)".to_string(),
                    text => text,
                };
                rows.push(formatters.iter().map(text).collect());
            }
        }
        Ok(DBOutput::Rows { types, rows })
    }

    fn engine_name(&self) -> &str {
        "hypostyle"
    }

    fn error_sql_state(error: &Error) -> Option<String> {
        Some(error.sqlstate().to_string())
    }
}

/// Returns UUIDs as text: Arrow's own text has no hyphens.
fn shown(array: &ArrayRef, column: &ColumnDescription) -> ArrayRef {
    if column.logical_type != LogicalType::Uuid {
        return array.clone();
    }
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| Uuid::from_slice(bytes).unwrap().to_string());
    match array.as_fixed_size_binary_opt() {
        Some(uuids) => Arc::new(uuids.iter().map(text).collect::<StringArray>()),
        None => array.clone(),
    }
}

pub fn scripts() -> Vec<PathBuf> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "slt"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Runs all files, each with connections to a new place of its own and with each query run several times,
/// and fails with the first difference of each file.
fn run_all<P>(times: usize, new: impl Fn() -> P, connect: impl Fn(&P) -> hypostyle::Result<Connection>) {
    let differences: Vec<String> = scripts()
        .iter()
        .filter_map(|file| {
            let place = new();
            let mut runner = Runner::new(|| async { Ok(Session(connect(&place)?, times)) });
            runner.run_file(file).err().map(|error| error.display(false).to_string())
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn with_pipelines(mode: &str, connection: Connection) -> hypostyle::Result<Connection> {
    connection.execute(&format!("SET position_pipelines = {mode}"))?;
    Ok(connection)
}

// Where the tables lie, how a session reaches them and how its queries run have nothing to do with each
// other: each of these is tried, but not each with each.

#[test]
fn scripts_pass_in_memory() {
    run_all(1, || Database::in_memory(OpenOptions::default()).unwrap(), Database::connect);
}

/// The second time that a query runs its plan is kept, and the third time it is used.
#[test]
fn scripts_pass_on_disk_and_with_plans_that_are_kept() {
    let new = || {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("t.hypo"), OpenOptions::default()).unwrap();
        (database, directory)
    };
    run_all(3, new, |(database, _)| database.connect());
}

/// Runs position pipelines and the operators that they stand for, and compares their rows.
#[test]
fn scripts_pass_over_a_unix_socket_and_with_pipelines_verified() {
    run_all(1, Served::in_memory, |served| with_pipelines("verify", served.connect_unix()?));
}

/// Runs the operators that position pipelines stand for, and no pipelines.
#[test]
fn scripts_pass_over_tcp_and_without_pipelines() {
    run_all(1, Served::in_memory, |served| with_pipelines("off", served.connect_tcp()?));
}
