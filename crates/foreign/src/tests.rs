//! Statements over a server that only keeps what it is asked.

use crate::attached::AttachedDatabase;
use crate::connections::ForeignConnections;
use crate::database::ForeignDatabase;
use crate::relation::Name;
use crate::server::{Connection, Dialer, Rows, Wanted};
use crate::table::ForeignTable;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::{TableProviderFilterPushDown, col, lit};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::executor::block_on;
use hypostyle_expr::setting::Setting;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a server was asked, with the number of the connection.
#[derive(Default)]
struct Server {
    asked: Mutex<Vec<(usize, String)>>,
    connections: AtomicUsize,
    /// Connections up to this number are lost.
    lost: AtomicUsize,
}

impl Server {
    fn asked(&self, what: &str) -> Vec<usize> {
        let asked = self.asked.lock();
        asked.iter().filter(|(_, sql)| sql.contains(what)).map(|(connection, _)| *connection).collect()
    }
}

struct FakeDialer(Arc<Server>);

impl Dialer for FakeDialer {
    fn takes(&self, _: &str) -> bool {
        true
    }

    fn shown(&self, address: &str) -> Result<String> {
        Ok(address.replace(":secret", ""))
    }

    fn dial(&self, _: &str) -> Result<Box<dyn Connection>> {
        let number = self.0.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Box::new(FakeConnection { server: self.0.clone(), number }))
    }
}

struct FakeConnection {
    server: Arc<Server>,
    number: usize,
}

struct FakeRows(Option<RecordBatch>);

impl Rows for FakeRows {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        Ok(self.0.take())
    }
}

/// Returns one row of texts.
fn row(values: &[&str]) -> RecordBatch {
    let columns = values
        .iter()
        .enumerate()
        .map(|(place, value)| (format!("c{place}"), Arc::new(StringArray::from(vec![*value])) as ArrayRef));
    RecordBatch::try_from_iter(columns).unwrap()
}

impl Connection for FakeConnection {
    fn query(&self, sql: &str, _: &Wanted) -> Result<Box<dyn Rows>> {
        if self.number <= self.server.lost.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Connection, "the server is gone"));
        }
        self.server.asked.lock().push((self.number, sql.to_string()));
        let rows = match sql {
            sql if sql.contains("pg_export_snapshot") => Some(row(&["00000003-1"])),
            sql if sql.contains("'nosuch'") => None,
            sql if sql.contains("pg_class") => Some(row(&["16384", "1e+06", "8192", "150000", "UTF8"])),
            sql if sql.contains("pg_attribute") => Some(row(&["a", "b", "int8", ""])),
            _ => None,
        };
        Ok(Box::new(FakeRows(rows)))
    }

    fn describe(&self, _: &str, _: &Wanted) -> Result<SchemaRef> {
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::LargeUtf8, true)];
        Ok(Arc::new(Schema::new(fields)))
    }

    fn append(
        &self,
        table: &str,
        rows: Box<dyn RecordBatchReader + Send>,
        _: bool,
        _: bool,
        wanted: &Wanted,
    ) -> Result<u64> {
        self.query(&format!("append to {table}"), wanted)?;
        Ok(rows.map(|batch| batch.map_or(0, |batch| batch.num_rows() as u64)).sum())
    }
}

fn attached(is_read_only: bool) -> (Arc<Server>, AttachedDatabase) {
    let server = Arc::new(Server::default());
    let dialer = Arc::new(FakeDialer(server.clone()));
    let database = ForeignDatabase::open(dialer, "pg", "postgresql://ada:secret@x/", is_read_only).unwrap();
    (server, AttachedDatabase::new(database))
}

fn wanted() -> Wanted {
    Arc::new(|| true)
}

fn find(attached: &AttachedDatabase, name: &str) -> Option<ForeignTable> {
    let name = Name { schema: "public".into(), name: name.into() };
    ForeignTable::find(attached, &name, &wanted()).unwrap()
}

/// Waits until a number of transactions were ended.
fn await_ends(server: &Server, count: usize) {
    for _ in 0..1000 {
        if server.asked("ROLLBACK").len() == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("transactions were not ended: {:?}", server.asked.lock());
}

#[test]
fn a_statement_has_one_snapshot_and_the_next_one_another() {
    let (server, attached) = attached(false);
    let table = find(&attached, "t").unwrap();
    let again = find(&attached, "t").unwrap();
    assert!(find(&attached, "nosuch").is_none());
    assert!(find(&attached, "nosuch").is_none());
    assert_eq!(server.asked("pg_export_snapshot"), [1]);
    assert_eq!(server.asked("pg_class"), [1, 1]);
    let reading = attached.reading(&wanted()).unwrap();
    let scans = [reading.connection(&wanted()).unwrap(), reading.connection(&wanted()).unwrap()];
    assert_eq!(server.asked("READ ONLY; SET TRANSACTION SNAPSHOT '00000003-1'; SELECT"), [2, 3]);
    // Before anything is asked that has operators, pg_catalog is the first to be searched for them.
    assert_eq!(server.asked("READ ONLY; SELECT pg_catalog.set_config('search_path'"), [1]);
    assert_eq!(server.asked("set_config('search_path'"), [1, 2, 3]);
    let database = attached.database().clone();
    scans.into_iter().for_each(|connection| database.give_back(connection));
    // Rows that are still read keep the snapshot.
    attached.end_reading();
    drop((reading, again));
    assert_eq!(server.asked("ROLLBACK"), [2, 3]);
    drop(table);
    await_ends(&server, 3);
    find(&attached, "t").unwrap();
    assert_eq!(server.asked("pg_export_snapshot").len(), 2);
    assert_eq!(server.connections.load(Ordering::Relaxed), 3);
}

#[test]
fn lost_connections_are_replaced() {
    let (server, attached) = attached(false);
    server.lost.store(1, Ordering::Relaxed);
    find(&attached, "t").unwrap();
    assert_eq!(server.asked("pg_export_snapshot"), [2]);
    attached.end_reading();
    await_ends(&server, 1);
    server.lost.store(100, Ordering::Relaxed);
    let error = attached.reading(&wanted()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.message().contains("database \"pg\""), "{error}");
    attached.database().close();
    assert_eq!(attached.reading(&wanted()).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn scans_leave_to_the_server_what_means_the_same_there() {
    let (_, attached) = attached(false);
    let table = find(&attached, "t").unwrap();
    let (pushed, stays) = (col("a").gt(lit(5_i64)), col("b").eq(lit("x")));
    let support = table.supports_filters_pushdown(&[&pushed, &stays]).unwrap();
    // The server tells nothing of the column b.
    assert_eq!(support, [TableProviderFilterPushDown::Exact, TableProviderFilterPushDown::Unsupported]);
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3));
    let state = context.state();
    let scan = |projection: Vec<usize>, filters: &[_], limit| {
        let plan = block_on(table.scan(&state, Some(&projection), filters, limit)).unwrap();
        let text = displayable(plan.as_ref()).indent(false).to_string();
        (plan.output_partitioning().partition_count(), text)
    };
    let (partitions, text) = scan(vec![1], std::slice::from_ref(&pushed), None);
    let query = "query=SELECT \"b\" FROM \"public\".\"t\" WHERE (\"a\" > '5'::pg_catalog.int8)";
    assert_eq!(partitions, 3);
    assert!(text.contains("ForeignScanExec: database=pg, partitions=3, ") && text.contains(query), "{text}");
    let (partitions, text) = scan(vec![0], &[], Some(7));
    assert_eq!(partitions, 1);
    assert!(text.contains("SELECT \"a\" FROM \"public\".\"t\" LIMIT 7"), "{text}");
    // What became of a filter that was promised is applied here.
    let (_, text) = scan(vec![0], &[pushed, stays], Some(7));
    assert!(text.contains("FilterExec") && text.contains("WHERE (\"a\" > '5'") && !text.contains("LIMIT"));
}

#[test]
fn statements_share_the_connections_of_a_database() {
    let (_, attached) = attached(false);
    let table = find(&attached, "t").unwrap();
    let plan = |most: &str, limit| {
        let mut config = SessionConfig::new().with_target_partitions(4);
        let most: ForeignConnections = most.parse().unwrap();
        config.options_mut().extensions.insert(Setting(most));
        let state = SessionContext::new_with_config(config).state();
        block_on(table.scan(&state, Some(&vec![0]), &[], limit)).unwrap()
    };
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    // The table has pages for four connections.
    let first = plan("5", None);
    assert_eq!(partitions(&first), 4);
    let second = plan("5", None);
    assert_eq!(partitions(&second), 1);
    // None is left, and none is waited for.
    let third = plan("5", None);
    assert_eq!(partitions(&third), 1);
    drop(first);
    assert_eq!(partitions(&plan("5", None)), 3);
    assert_eq!(partitions(&plan("5", Some(7))), 1);
    assert_eq!(partitions(&plan("1", None)), 1);
    drop((second, third));
    assert_eq!(partitions(&plan("3", None)), 3);
    // Of two tables of a statement each has its share.
    find(&attached, "u").unwrap();
    assert_eq!(partitions(&plan("6", None)), 3);
    assert_eq!(*attached.database().leased.lock(), 0);
}

#[test]
fn rows_are_appended_in_one_transaction_unless_the_database_is_to_be_read_only() {
    let rows = || -> Box<dyn RecordBatchReader + Send> {
        let batch = row(&["x"]);
        let schema = batch.schema();
        Box::new(arrow::array::RecordBatchIterator::new([Ok(batch)], schema))
    };
    let name = Name { schema: "s".into(), name: "t\"".into() };
    let (server, writable) = attached(false);
    assert_eq!(writable.database().append(&name, rows(), false, true, &wanted()).unwrap(), 1);
    let asked: Vec<String> = server.asked.lock().iter().map(|(_, sql)| sql.clone()).collect();
    assert_eq!(asked, ["BEGIN", "append to \"s\".\"t\"\"\"", "COMMIT", "ROLLBACK"]);
    let (server, read_only) = attached(true);
    let error = read_only.database().append(&name, rows(), false, true, &wanted()).unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::ReadOnly, "25006"));
    assert!(server.asked.lock().is_empty());
    assert_eq!(read_only.database().shown(), "postgresql://ada@x/");
}
