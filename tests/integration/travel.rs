//! Plans that have been to another session, encoded as nodes of a cluster encode them, have the rows
//! of those that stay.

use crate::sql::{Session as Script, scripts};
use crate::tpch::sorted_rows;
use arrow::array::RecordBatchReader;
use hypostyle::cluster::travel::{Counts, Journeys};
use hypostyle::node::{CallAnswer, Calls, Session};
use hypostyle::{Connection, Database, Identity, OpenOptions, Result, tpch};
use sqllogictest::Runner;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Has the plans of each session travel that calls: only who answers calls is given the session.
struct Begins(Arc<Journeys>);

impl Calls for Begins {
    fn call(
        &self,
        session: &Session,
        _: &[u8],
        _: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer> {
        let receiver = Session::new(session.engine().clone(), Identity::default())?;
        session.send_plans(&receiver, &self.0)?;
        Ok(CallAnswer::Reply(Vec::new()))
    }
}

/// Returns a new database, whose connections have their plans travel once they have called.
fn database(journeys: &Arc<Journeys>) -> Database {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    database.set_calls(Arc::new(Begins(journeys.clone()))).unwrap();
    database
}

fn connect(database: &Database) -> Result<Connection> {
    let connection = database.connect()?;
    connection.call(b"", None)?;
    Ok(connection)
}

/// Operators whose rows are of one node or one statement: what is above them travels.
const SOURCES: [&str; 7] = [
    // Read by several operators.
    "ComputedOnceExec",
    // Of Parquet files.
    "DataSourceExec",
    // Subqueries whose errors are kept.
    "KeptErrorExec",
    // Of generate_series.
    "LazyMemoryExec",
    "ScanExec",
    // Of CSV, JSON and Arrow files.
    "StreamingTableExec",
    // The last step of a recursive query.
    "WorkTableExec",
];

/// What plans have that stay where they are.
const STAYED: [&str; 21] = [
    // Over scalar subqueries that an operator above it computes.
    "ComputedOnceExec",
    // COPY and EXPORT.
    "DataSinkExec",
    // Over scalar subqueries, too.
    "KeptErrorExec",
    "RecursiveQueryExec",
    // DataFusion's messages do not tell these.
    "a window function with FILTER or IGNORE NULLS",
    // These read the catalogs and the settings of their session.
    "the function current_setting()",
    "the function format()",
    "the function format_type()",
    "the function has_column_privilege()",
    "the function has_sequence_privilege()",
    "the function has_table_privilege()",
    "the function lastval()",
    "the function nextval()",
    "the function obj_description()",
    "the function parse_ident()",
    "the function pg_get_constraintdef()",
    "the function pg_typeof()",
    "the function regclass_out()",
    "the function regnamespace_out()",
    "the function regproc_in()",
    "the function typeof()",
];

/// Returns what an error says cannot be sent.
fn subject(error: &str) -> &str {
    let error = error.trim_start_matches("not supported: ");
    let ends = [" stays on its node", " cannot be sent to another node"];
    ends.iter().find_map(|end| error.split_once(end)).map_or(error, |(subject, _)| subject)
}

/// Plans of statements that write are those of the rows that are written.
#[test]
fn plans_of_scripts_travel() {
    let journeys: Arc<Journeys> = Arc::default();
    let mut differences = Vec::new();
    for file in scripts() {
        let database = database(&journeys);
        let mut runner = Runner::new(|| async { Ok(Script(connect(&database)?, 1)) });
        if let Err(error) = runner.run_file(&file) {
            differences.push(error.display(false).to_string());
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let Counts { arrived, operators, sources, stayed } = journeys.counts();
    assert!(sources.keys().eq(SOURCES.iter()), "{sources:#?}");
    let subjects: BTreeSet<&str> = stayed.keys().map(|error| subject(error)).collect();
    assert!(subjects.iter().eq(STAYED.iter()), "{stayed:#?}");
    let stayed: usize = stayed.values().sum();
    assert!(arrived > 2000 && stayed < 200, "{arrived} plans have arrived, {stayed} have stayed");
    assert!(operators.len() > 15, "{operators:#?}");
}

#[test]
fn plans_of_benchmarks_travel() {
    let tpch: Vec<&str> = (1..=22).map(|number| tpch::query(number).unwrap()).collect();
    let ssb: Vec<&str> = tpch::ssb::QUERIES.iter().map(|(_, sql)| *sql).collect();
    assert_eq!(ssb.len(), 13);
    for (call, queries) in [("CALL tpch_generate(sf => 0.01)", tpch), ("CALL ssb_generate(sf => 0.01)", ssb)]
    {
        let journeys: Arc<Journeys> = Arc::default();
        let database = database(&journeys);
        let (plain, connection) = (database.connect().unwrap(), connect(&database).unwrap());
        plain.execute(call).unwrap();
        for sql in queries {
            let before = journeys.counts();
            let rows = sorted_rows(&connection, sql).unwrap();
            assert_eq!(rows, sorted_rows(&plain, sql).unwrap(), "{sql}");
            let Counts { arrived, stayed, .. } = journeys.counts();
            assert!(arrived > before.arrived && stayed.is_empty(), "{stayed:?}: {sql}");
        }
    }
}
