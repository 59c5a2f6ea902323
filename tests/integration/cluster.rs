//! A cluster of nodes in one process: the same rows as from one database, whatever is where.

mod alter;
mod backup;
mod changes;
mod failover;
mod fetch;
mod foreign;
mod forwarded;
mod fresh;
mod identity;
mod indexes;
mod kept;
mod keys;
mod lost;
mod many;
mod metrics;
mod moved;
mod pruned;
mod references;
mod reserved;
mod space;
mod spread;
mod stages;
mod told;
mod transactions;
mod updated;
mod weighed;
mod written;

use crate::alone;
use crate::tpch::sorted_rows;
use arrow::record_batch::RecordBatchIterator;
use hypostyle::cluster::message::{self, Addressed, Piece};
use hypostyle::cluster::node::Node;
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{
    AppendOptions, Connection, Database, Error, ErrorKind, OpenOptions, Result, TableDescription, TableKind,
    tpch,
};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

/// Connections between the nodes of one process.
#[derive(Default)]
struct Wires {
    nodes: Mutex<HashMap<String, Weak<Node>>>,
    /// Nodes that nobody reaches.
    cut: Mutex<HashSet<String>>,
}

impl Peers for Wires {
    fn call(
        &self,
        node: &hypostyle::cluster::Member,
        request: &Addressed,
        rows: Option<RowReader>,
    ) -> Result<Answer> {
        let unreachable =
            || Error::new(ErrorKind::Connection, format!("{} is not there", node.address)).unreachable();
        if self.cut.lock().unwrap().contains(&node.address) {
            return Err(unreachable());
        }
        let peer =
            self.nodes.lock().unwrap().get(&node.address).and_then(Weak::upgrade).ok_or_else(unreachable)?;
        let request = message::decode_addressed(&message::encode(request)?)?;
        Ok(match peer.answer(request, rows)? {
            Answer::Reply(reply) => Answer::Reply(message::decode(&message::encode(&reply)?)?),
            rows => rows,
        })
    }
}

/// Nodes of one process.
struct Cluster {
    wires: Arc<Wires>,
    databases: Vec<Database>,
    nodes: Vec<Arc<Node>>,
}

impl Cluster {
    fn new(count: usize) -> Self {
        Self::reached_by(count, |wires| wires.clone())
    }

    /// Makes a cluster whose nodes reach each other in some way.
    fn reached_by(count: usize, peers: impl Fn(&Arc<Wires>) -> Arc<dyn Peers>) -> Self {
        let wires = Arc::new(Wires::default());
        let peers = peers(&wires);
        let (mut databases, mut nodes) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let database =
                Database::in_memory(OpenOptions { threads: Some(2), ..OpenOptions::default() }).unwrap();
            let address = format!("h{number}:1");
            let node = database.join_cluster(&format!("n{number}"), &address, peers.clone()).unwrap();
            wires.nodes.lock().unwrap().insert(address, Arc::downgrade(&node));
            databases.push(database);
            nodes.push(node);
        }
        nodes[0].found_cluster().unwrap();
        let cluster = Self { wires, databases, nodes };
        for number in 2..=count {
            cluster
                .on(0)
                .execute(&format!("ALTER CLUSTER ADD NODE n{number} ADDRESS 'h{number}:1'"))
                .unwrap();
        }
        cluster
    }

    fn on(&self, node: usize) -> Connection {
        self.databases[node].connect().unwrap()
    }

    fn cut(&self, node: usize) {
        self.wires.cut.lock().unwrap().insert(self.nodes[node].address().into());
    }

    fn mend(&self, node: usize) {
        self.wires.cut.lock().unwrap().remove(self.nodes[node].address());
    }
}

/// Returns the error of a statement.
fn failure(connection: &Connection, sql: &str) -> Error {
    match connection.execute(sql) {
        Ok(_) => panic!("{sql} did not fail"),
        Err(error) => error,
    }
}

/// Copies the rows of a table.
fn copy(from: &Connection, to: &Connection, table: &str) {
    let batches = from.execute(&format!("SELECT * FROM {table}")).unwrap().record_batches().unwrap();
    let schema = batches[0].schema();
    let data = Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema));
    to.append(table, data, AppendOptions::default()).unwrap();
}

/// Makes a table of the cluster with the columns of one that is not.
fn like(from: &Connection, to: &Connection, table: &str, distribution: &str) {
    let columns = from.execute(&format!("SELECT * FROM {table} LIMIT 0")).unwrap();
    let columns = columns.columns().iter().map(|column| format!("{} {}", column.name, column.logical_type));
    let columns = columns.collect::<Vec<_>>().join(", ");
    to.execute(&format!("CREATE TABLE {table} ({columns}) {distribution}")).unwrap();
    copy(from, to, table);
}

#[test]
fn the_star_schema_has_the_rows_of_one_node() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    one.execute("CALL ssb_generate(sf => 0.02)").unwrap();
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    for table in ["date", "supplier", "customer", "part"] {
        like(&one, &coordinator, table, "REPLICATED");
    }
    like(&one, &coordinator, "lineorder", "PARTITION BY HASH (lo_orderkey) INTO 6 FRAGMENTS REPLICAS 2");
    let check = |node: usize| {
        let connection = cluster.on(node);
        for (name, sql) in tpch::ssb::QUERIES {
            assert_eq!(
                sorted_rows(&connection, sql).unwrap(),
                sorted_rows(&one, sql).unwrap(),
                "{name} on node {}",
                node + 1
            );
        }
    };
    (0..3).for_each(check);
    cluster.cut(1);
    check(0);
    check(2);
    cluster.mend(1);
    cluster.nodes[0].look_after();
    check(1);
}

/// The columns of each table of a benchmark that are added up.
const GENERATED: [(&str, [(&str, &str); 3]); 2] = [
    (
        "CALL ssb_generate(sf => 0.01)",
        [
            ("lineorder", "count(*), sum(lo_revenue), sum(lo_orderkey), count(DISTINCT lo_orderkey)"),
            ("customer", "count(*), sum(c_custkey), max(c_name)"),
            ("part", "count(*), sum(p_partkey), max(p_name)"),
        ],
    ),
    (
        "CALL tpch_generate(sf => 0.01)",
        [
            ("lineitem", "count(*), sum(l_quantity), sum(l_orderkey), count(DISTINCT l_orderkey)"),
            ("partsupp", "count(*), sum(ps_supplycost), max(ps_comment)"),
            ("part", "count(*), sum(p_partkey), max(p_name)"),
        ],
    ),
];

#[test]
fn benchmarks_are_generated_over_the_nodes() {
    for (call, tables) in GENERATED {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let rows = one.execute(call).unwrap().rows_affected();
        let cluster = Cluster::new(3);
        assert_eq!(cluster.on(1).execute(call).unwrap().rows_affected(), rows);
        for (table, columns) in tables {
            let sql = format!("SELECT {columns} FROM {table}");
            let expected = sorted_rows(&one, &sql).unwrap();
            assert_eq!(on_each(&cluster, &sql), vec![expected; 3], "{sql}");
        }
        let error = cluster.on(0).execute(call).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        if call.contains("ssb") {
            for (name, sql) in tpch::ssb::QUERIES {
                let expected = sorted_rows(&one, sql).unwrap();
                assert_eq!(on_each(&cluster, sql), vec![expected; 3], "{name}");
            }
        }
    }
}

#[test]
fn a_coordinator_that_is_drained_has_no_rows_and_joins_none() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    one.execute("CALL ssb_generate(sf => 0.01)").unwrap();
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    coordinator.execute("ALTER CLUSTER DRAIN NODE n1").unwrap();
    coordinator.execute("CALL ssb_generate(sf => 0.01)").unwrap();
    for (name, sql) in tpch::ssb::QUERIES {
        assert_eq!(sorted_rows(&coordinator, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{name}");
        let plan = sorted_rows(&coordinator, &format!("EXPLAIN {sql}")).unwrap().join("\n");
        let gathers: Vec<&str> = plan.lines().filter(|line| line.contains("GatherExec")).collect();
        let [gather] = gathers.as_slice() else { panic!("{name} reads nodes more than once:\n{plan}") };
        assert!(gather.contains("n2: ") && !gather.contains("n1: "), "{name}: {gather}");
    }
    // What cannot travel reads replicated tables from a node that has them.
    let apart = "SELECT count(*) FROM date JOIN lineorder ON d_datekey = lo_orderdate AND random() < 2";
    assert_eq!(sorted_rows(&coordinator, apart).unwrap(), sorted_rows(&one, apart).unwrap());
    assert_eq!(sorted_rows(&coordinator, "SELECT count(*) FROM date").unwrap(), ["2556"]);
}

#[test]
fn a_benchmark_fills_empty_tables_or_makes_none() {
    let cluster = Cluster::new(2);
    let coordinator = cluster.on(0);
    let orders = "CREATE TABLE lineorder (lo_orderkey BIGINT) PARTITION BY ROUND ROBIN INTO 3 FRAGMENTS";
    coordinator.execute(orders).unwrap();
    let error = coordinator.execute("CALL ssb_generate(sf => 0.001)").err().unwrap();
    assert!(error.message().contains("other columns"), "{error}");
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'main'";
    assert_eq!(on_each(&cluster, tables), vec![vec!["1"]; 2]);
    coordinator.execute("DROP TABLE lineorder").unwrap();
    coordinator.execute("CALL ssb_generate(sf => 0.001)").unwrap();
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    one.execute("CALL ssb_generate(sf => 0.001)").unwrap();
    // The same again, in tables that are distributed otherwise.
    let again = Cluster::new(2);
    let columns_of = |one: &Connection| {
        let columns = one.execute("SELECT * FROM lineorder LIMIT 0").unwrap();
        let columns = columns.columns().iter().map(|c| format!("{} {}", c.name, c.logical_type));
        columns.collect::<Vec<_>>().join(", ")
    };
    let distributed = "PARTITION BY ROUND ROBIN INTO 3 FRAGMENTS";
    again.on(0).execute(&format!("CREATE TABLE lineorder ({}) {distributed}", columns_of(&one))).unwrap();
    again.on(0).execute("CALL ssb_generate(sf => 0.001)").unwrap();
    let sum = "SELECT count(*), sum(lo_revenue), sum(lo_orderkey) FROM lineorder";
    let expected = sorted_rows(&one, sum).unwrap();
    assert_eq!(on_each(&cluster, sum), vec![expected.clone(); 2]);
    assert_eq!(on_each(&again, sum), vec![expected; 2]);
}

#[test]
fn all_of_tpch_has_the_rows_of_one_node() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    one.execute("CALL tpch_generate(sf => 0.01)").unwrap();
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    for table in ["region", "nation", "supplier", "customer"] {
        like(&one, &coordinator, table, "REPLICATED");
    }
    like(&one, &coordinator, "part", "PARTITION BY ROUND ROBIN INTO 5 FRAGMENTS");
    like(
        &one,
        &coordinator,
        "partsupp",
        "PARTITION BY RANGE (ps_suppkey) (VALUES LESS THAN (10), VALUES LESS THAN (11), VALUES LESS THAN (MAXVALUE)) REPLICAS 3",
    );
    like(&one, &coordinator, "orders", "PARTITION BY HASH (o_orderkey) INTO 7 FRAGMENTS REPLICAS 2");
    like(&one, &coordinator, "lineitem", "PARTITION BY HASH (l_orderkey) INTO 7 FRAGMENTS REPLICAS 2");
    for (node, stages) in [(0, "off"), (1, "on"), (2, "auto")] {
        let connection = cluster.on(node);
        connection.execute(&format!("SET stages = {stages}")).unwrap();
        for number in 1..=22 {
            let sql = tpch::query(number).unwrap();
            let found = sorted_rows(&connection, sql);
            assert_eq!(
                found.as_ref().map_err(Error::message),
                sorted_rows(&one, sql).as_ref().map_err(Error::message),
                "query {number} on node {}, stages {stages}",
                node + 1
            );
        }
    }
}

/// Runs scripts on one database, and their queries on a cluster, too, of which the tables have the
/// same rows.
struct Twins {
    one: Connection,
    other: Connection,
    /// What the tables of the cluster have; nothing for those that a cluster cannot have.
    copied: HashMap<String, Option<Vec<String>>>,
    made: usize,
    found: Arc<Mutex<Found>>,
}

#[derive(Default)]
struct Found {
    compared: usize,
    differences: Vec<String>,
}

/// Words of queries that may have other rows here: those that depend on the order of rows or on the
/// time, those about other databases and about definitions, which the cluster's tables lack, and those of
/// variables that were set by queries of tables.
const APART: [&str; 36] = [
    "positional join",
    "limit",
    "offset",
    "fetch",
    "first_value",
    "last_value",
    "nth_value",
    "array_agg",
    "string_agg",
    "list(",
    "any_value",
    "row_number",
    "random",
    "uuid",
    "now",
    "current_",
    "lock",
    "nextval",
    "sleep",
    "lag(",
    "lead(",
    "over",
    "mode(",
    "pg_",
    "distinct on",
    "information_schema",
    "main.",
    "shop.",
    "temp.",
    "copy.",
    "hypostyle.",
    "moving",
    "lastval",
    "table_info",
    "duckdb_",
    "getvariable",
];

/// Says whether an error is about what tables of the cluster have not: names of other schemas, and
/// keys that columns depend on.
fn is_apart(error: &Error) -> bool {
    ["42P01", "42803", "25P02"].contains(&error.sqlstate())
}

impl Twins {
    fn is_query(sql: &str) -> bool {
        let text = sql.trim_start().to_lowercase();
        ["select", "with", "values", "from"].iter().any(|word| text.starts_with(word))
            && ![" into ", "update ", "delete ", "insert "].iter().any(|word| text.contains(word))
    }

    fn after(&mut self, sql: &str) {
        let text = sql.to_lowercase();
        if !Self::is_query(sql) {
            let words = text.replace("or replace ", "").replace("temporary ", "temp ");
            if [
                "create view",
                "drop view",
                "set ",
                "reset ",
                "create schema",
                "create function",
                "create temp function",
                "drop function",
                "create temp macro",
                "drop macro",
            ]
            .iter()
            .any(|word| words.trim_start().starts_with(word))
            {
                let _refused = self.other.execute(sql);
            }
            return;
        }
        // An error would end the script's transaction.
        if self.one.is_in_transaction() {
            return;
        }
        if APART.iter().any(|word| text.contains(word)) || !self.copy_tables(&text) {
            return;
        }
        let (expected, found) = (sorted_rows(&self.one, sql), sorted_rows(&self.other, sql));
        let mut log = self.found.lock().unwrap();
        log.compared += 1;
        let same = match (&expected, &found) {
            (Ok(expected), Ok(found)) => expected == found,
            (Err(expected), Err(found)) => expected.sqlstate() == found.sqlstate() || is_apart(found),
            (Err(error), _) | (_, Err(error)) => is_apart(error),
        };
        if !same {
            log.differences.push(format!("{sql}\n  one: {expected:?}\n  cluster: {found:?}"));
        }
    }

    /// Copies the tables that a query may name; false if a cluster cannot have one of them.
    fn copy_tables(&mut self, query: &str) -> bool {
        let tables = self.one.tables().unwrap();
        let is_table = |table: &TableDescription| matches!(table.kind, TableKind::Table);
        let is_named = |table: &TableDescription| query.contains(&table.name.to_lowercase());
        // The cluster's view of that name may be an older one.
        if tables.iter().any(|table| !is_table(table) && is_named(table)) {
            return false;
        }
        for table in tables.iter().filter(|table| is_table(table)) {
            let name = &table.name;
            if tables.iter().filter(|other| other.name == *name).count() > 1 {
                return false;
            }
            if table.schema != "main" || !is_named(table) {
                continue;
            }
            let quoted = format!("\"{}\"", name.replace('"', "\"\""));
            let Ok(rows) = sorted_rows(&self.one, &format!("SELECT * FROM {quoted}")) else { return false };
            if self.copied.get(name).is_some_and(|known| known.as_ref() == Some(&rows)) {
                continue;
            }
            let _missing = self.other.execute(&format!("DROP TABLE {quoted}"));
            self.copied.insert(name.clone(), None);
            if self.try_copy(&quoted).is_err() {
                return false;
            }
            self.copied.insert(name.clone(), Some(rows));
        }
        true
    }

    fn try_copy(&mut self, table: &str) -> Result<()> {
        let rows = self.one.execute(&format!("SELECT * FROM {table}"))?;
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let columns =
            rows.columns().iter().map(|column| format!("{} {}", quoted(&column.name), column.logical_type));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let first = quoted(&rows.columns()[0].name);
        self.made += 1;
        let by_hash = format!("PARTITION BY HASH ({first}) INTO 3 FRAGMENTS REPLICAS 2");
        let ways = [
            "PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS",
            &by_hash,
            "REPLICATED",
            "PARTITION BY ROUND ROBIN INTO 2 FRAGMENTS REPLICAS 2",
        ];
        let mut made =
            self.other.execute(&format!("CREATE TABLE {table} ({columns}) {}", ways[self.made % 4]));
        if made.is_err() {
            made = self.other.execute(&format!("CREATE TABLE {table} ({columns}) {}", ways[0]));
        }
        made?;
        let batches = rows.record_batches()?;
        let Some(first) = batches.first() else { return Ok(()) };
        let data = Box::new(RecordBatchIterator::new(batches.clone().into_iter().map(Ok), first.schema()));
        self.other.append(table, data, AppendOptions::default())?;
        Ok(())
    }
}

impl sqllogictest::DB for Twins {
    type Error = Error;
    type ColumnType = sqllogictest::DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<sqllogictest::DBOutput<Self::ColumnType>> {
        if Self::is_query(sql) {
            self.after(sql);
        }
        let output = crate::sql::Session(self.one.clone(), 1).run(sql);
        if output.is_ok() && !Self::is_query(sql) {
            self.after(sql);
        }
        output
    }

    fn engine_name(&self) -> &str {
        "hypostyle"
    }

    fn error_sql_state(error: &Error) -> Option<String> {
        Some(error.sqlstate().to_string())
    }
}

#[test]
fn nodes_that_nobody_has_open_keep_no_files() {
    alone::run("cluster::dropped_nodes");
}

#[test]
#[ignore = "run by nodes_that_nobody_has_open_keep_no_files in a process of its own, whose files it counts"]
fn dropped_nodes() {
    let files = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let links = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("memfd:hypostyle")).count()
    };
    for closes in [false, true] {
        let cluster = Cluster::new(3);
        let connection = cluster.on(1);
        connection
            .execute("CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
            .unwrap();
        connection.execute("INSERT INTO t SELECT v, v FROM generate_series(1, 600) AS r (v)").unwrap();
        assert_eq!(on_each(&cluster, "SELECT count(*), max(n) FROM t"), vec![vec!["600|600"]; 3]);
        assert!(files() > 0);
        if closes {
            cluster.databases.iter().for_each(|database| database.close().unwrap());
        }
        drop((connection, cluster));
        // Threads that ask other nodes end a moment later.
        let since = std::time::Instant::now();
        while files() > 0 {
            assert!(since.elapsed().as_secs() < 30, "{} files are left, closes: {closes}", files());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn queries_of_scripts_have_the_rows_of_one_node() {
    alone::run("cluster::scripts_over_nodes");
}

#[test]
#[ignore = "run by queries_of_scripts_have_the_rows_of_one_node in a process of its own, for its many files"]
fn scripts_over_nodes() {
    compare_scripts("SET stages = auto");
}

#[test]
fn queries_of_scripts_have_the_rows_of_one_node_in_stages() {
    alone::run("cluster::scripts_in_stages");
}

#[test]
#[ignore = "run by queries_of_scripts_have_the_rows_of_one_node_in_stages in a process of its own, for its many files"]
fn scripts_in_stages() {
    compare_scripts("SET stages = on");
}

/// Runs all scripts on one database, and their queries on a cluster that is set up so.
fn compare_scripts(setting: &str) {
    let found: Arc<Mutex<Found>> = Arc::default();
    for file in crate::sql::scripts() {
        // Macros are of the database of one node, and here only tables are copied, not what transactions
        // define.
        if file.ends_with("stored_macros.slt") {
            continue;
        }
        let database = Database::in_memory(OpenOptions::default()).unwrap();
        let cluster = Cluster::new(3);
        let mut runner = sqllogictest::Runner::new(|| async {
            let (one, other) = (database.connect()?, cluster.on(0));
            other.execute(setting)?;
            Ok(Twins { one, other, copied: HashMap::new(), made: 0, found: found.clone() })
        });
        runner.run_file(&file).unwrap_or_else(|error| panic!("{}", error.display(false)));
    }
    let found = found.lock().unwrap();
    assert!(found.compared > 700, "only {} queries were compared", found.compared);
    assert!(
        found.differences.is_empty(),
        "{} of {}:\n{}",
        found.differences.len(),
        found.compared,
        found.differences.join("\n")
    );
}

/// Returns the rows of a table on each node.
fn on_each(cluster: &Cluster, sql: &str) -> Vec<Vec<String>> {
    (0..cluster.nodes.len()).map(|node| sorted_rows(&cluster.on(node), sql).unwrap()).collect()
}

#[test]
fn appends_reach_all_replicas_or_none_and_the_lost_ones_later() {
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v VARCHAR) PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2")
        .unwrap();
    let inserted = coordinator
        .execute("INSERT INTO t SELECT v, 'a' || v FROM generate_series(1, 1000) AS r (v)")
        .unwrap();
    assert_eq!(inserted.rows_affected(), Some(1000));
    let count = "SELECT count(*), sum(k), count(DISTINCT v) FROM t";
    assert_eq!(on_each(&cluster, count), vec![vec!["1000|500500|1000"]; 3]);
    // A bad row leaves nothing behind.
    let error = coordinator.execute("INSERT INTO t SELECT CASE v WHEN 500 THEN CAST('x' AS BIGINT) ELSE v END, '' FROM generate_series(1, 1000) AS r (v)").err().unwrap();
    assert_eq!(error.sqlstate(), "22P02");
    assert_eq!(on_each(&cluster, count), vec![vec!["1000|500500|1000"]; 3]);
    // A node that is away misses an append, and nobody reads it until it has caught up.
    cluster.cut(2);
    coordinator.execute("INSERT INTO t VALUES (1001, 'b'), (1002, 'c')").unwrap();
    assert_eq!(sorted_rows(&coordinator, count).unwrap(), ["1002|502503|1002"]);
    let out_of_sync = "SELECT count(*) FROM t";
    assert_eq!(sorted_rows(&cluster.on(2), out_of_sync).unwrap(), ["1000"]);
    cluster.mend(2);
    cluster.nodes[0].look_after();
    let fragments = coordinator.execute("SHOW FRAGMENTS FROM t").unwrap().record_batches().unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&fragments).unwrap().to_string();
    assert!(!shown.contains("false | false"), "{shown}");
    for node in 0..2 {
        cluster.cut(node);
    }
    // Each fragment is on two of the three nodes: one alone has not all.
    let error = sorted_rows(&cluster.on(2), count).unwrap_err();
    assert_eq!(error.sqlstate(), "58030");
    cluster.mend(0);
    cluster.mend(1);
    assert_eq!(on_each(&cluster, count), vec![vec!["1002|502503|1002"]; 3]);
}

#[test]
fn a_lost_coordinator_is_replaced() {
    let cluster = Cluster::new(3);
    cluster
        .on(0)
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY ROUND ROBIN INTO 3 FRAGMENTS REPLICAS 2")
        .unwrap();
    cluster.on(0).execute("INSERT INTO t SELECT v FROM generate_series(1, 100) AS r (v)").unwrap();
    cluster.cut(0);
    let error = failure(&cluster.on(1), "INSERT INTO t VALUES (0)");
    assert_eq!((error.sqlstate(), error.message().contains("n1")), ("57P03", true));
    assert_eq!(sorted_rows(&cluster.on(1), "SELECT count(*) FROM t").unwrap(), ["100"]);
    cluster.on(1).execute("ALTER CLUSTER PROMOTE n2").unwrap();
    cluster.on(1).execute("INSERT INTO t VALUES (101)").unwrap();
    assert_eq!(sorted_rows(&cluster.on(2), "SELECT count(*) FROM t").unwrap(), ["101"]);
    // The one before comes back, is refused, and has the other one do it.
    cluster.mend(0);
    cluster.on(0).execute("INSERT INTO t VALUES (102)").unwrap();
    cluster.nodes[1].look_after();
    assert_eq!(on_each(&cluster, "SELECT count(*), max(k) FROM t"), vec![vec!["102|102"]; 3]);
    assert!(!cluster.nodes[0].coordinates());
}

#[test]
fn nodes_are_drained_added_and_dropped_while_queries_go_on() {
    let cluster = Cluster::new(4);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v VARCHAR) PARTITION BY HASH (k) INTO 8 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("CREATE TABLE d (k BIGINT) REPLICATED").unwrap();
    coordinator.execute("INSERT INTO t SELECT v, 'x' FROM generate_series(1, 5000) AS r (v)").unwrap();
    coordinator.execute("INSERT INTO d SELECT v FROM generate_series(1, 50) AS r (v)").unwrap();
    let query = "SELECT count(*), sum(t.k) FROM t JOIN d ON t.k % 50 + 1 = d.k";
    let expected = vec!["5000|12502500".to_string()];
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ends, cluster, expected) = (&ends, &cluster, &expected);
        let reader = scope.spawn(move || {
            let mut read = 0;
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(sorted_rows(&cluster.on(1), query).unwrap(), *expected);
                read += 1;
            }
            read
        });
        coordinator.execute("ALTER CLUSTER DRAIN NODE n4").unwrap();
        coordinator.execute("ALTER CLUSTER DROP NODE n4").unwrap();
        coordinator.execute("ALTER CLUSTER REBALANCE").unwrap();
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    cluster.cut(3);
    for node in 0..3 {
        assert_eq!(sorted_rows(&cluster.on(node), query).unwrap(), expected);
    }
}

#[test]
fn what_a_cluster_cannot_do_is_refused_and_changes_nothing() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE own (a BIGINT)").unwrap();
    connection
        .execute("CREATE TABLE t (a BIGINT, b VARCHAR DEFAULT 'x') PARTITION BY HASH (a) INTO 4 FRAGMENTS")
        .unwrap();
    connection.execute("INSERT INTO t (a) VALUES (1), (2), (NULL)").unwrap();
    // A text is no sequence, whatever it says.
    connection.execute("CREATE TABLE word (a BIGINT, b VARCHAR DEFAULT 'nextval') REPLICATED").unwrap();
    connection.execute("DROP TABLE word").unwrap();
    let refused = [
        ("UPDATE t SET b = 'y', b = 'z'", "42601"),
        ("UPDATE t SET b = upper(x)", "42703"),
        ("UPDATE t SET a = 1 / (a - 2)", "22012"),
        ("ALTER TABLE t ADD COLUMN c INTEGER UNIQUE", "0A000"),
        ("ALTER TABLE t ALTER COLUMN a TYPE VARCHAR", "0A000"),
        ("DROP TABLE t, own", "0A000"),
        ("TRUNCATE t, own", "0A000"),
        ("CREATE TABLE k (LIKE t)", "0A000"),
        ("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", "0A000"),
        ("UPDATE t SET b = 'y' RETURNING old.b", "0A000"),
        ("CREATE TABLE k (a BIGINT PRIMARY KEY) PARTITION BY ROUND ROBIN INTO 2 FRAGMENTS", "0A000"),
        ("CREATE TABLE k (a BIGINT REFERENCES t (a)) REPLICATED", "42830"),
        ("CREATE TABLE k (a BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5)) REPLICATED", "0A000"),
        ("CREATE TABLE k (a BIGINT DEFAULT nextval('s')) REPLICATED", "0A000"),
        ("CREATE TABLE k (a JSON) PARTITION BY HASH (a) INTO 2 FRAGMENTS", "0A000"),
        ("CREATE TABLE k (a BIGINT) PARTITION BY HASH (b) INTO 2 FRAGMENTS", "42703"),
        ("CREATE TABLE k (a BIGINT) PARTITION BY HASH (a) INTO 2 FRAGMENTS REPLICAS 3", "22023"),
        (
            "CREATE TABLE k (a BIGINT) PARTITION BY RANGE (a) (VALUES LESS THAN (5), VALUES LESS THAN (3))",
            "22000",
        ),
        ("CREATE TABLE k (a BIGINT) PARTITION BY RANGE (a) (VALUES LESS THAN ('x'))", "22P02"),
        ("CREATE TABLE t (a BIGINT) REPLICATED", "42P07"),
        ("INSERT INTO hypostyle_cluster.t1_f0 VALUES (7, 'x')", "42501"),
        ("DELETE FROM hypostyle_cluster.state", "42501"),
        ("DROP TABLE hypostyle_cluster.t1_f0", "42501"),
        ("VACUUM hypostyle_cluster.t1_f0", "42501"),
        ("ALTER CLUSTER ADD NODE n9 ADDRESS 'nowhere:1'", "08006"),
        ("ALTER CLUSTER DROP NODE n7", "42704"),
        ("ALTER CLUSTER DROP NODE n1", "55006"),
    ];
    let found = refused.map(|(sql, _)| {
        let error = connection.execute(sql).err();
        (sql, error.map(|error| error.sqlstate().to_string()))
    });
    assert_eq!(found, refused.map(|(sql, state)| (sql, Some(state.to_string()))));
    for sql in ["ALTER TABLE t RENAME TO u", "DROP TABLE t", "CREATE TABLE k (a BIGINT) REPLICATED"] {
        connection.execute("BEGIN").unwrap();
        let error = connection.execute(sql).err().unwrap_or_else(|| panic!("{sql} is not refused"));
        assert_eq!(error.sqlstate(), "0A000", "{sql}: {error}");
        connection.execute("ROLLBACK").unwrap();
    }
    connection.execute("VACUUM").unwrap();
    connection.execute("CHECK DATABASE").unwrap();
    let shown = [
        (
            "SELECT node, state, coordinator, replicas FROM hypostyle_cluster.node",
            vec!["n1|active|true|2", "n2|active|false|2"],
        ),
        (
            "SELECT \"table\", partitioned_by, count(*), sum(rows), sum(deleted) FROM hypostyle_cluster.fragment GROUP BY ALL",
            vec!["t|hash|4|3|0"],
        ),
        (
            "SELECT node, count(*), bool_and(in_sync) FROM hypostyle_cluster.replica WHERE schema = 'main' GROUP BY node",
            vec!["n1|2|true", "n2|2|true"],
        ),
        ("SELECT \"table\", rows FROM hypostyle_cluster.statement", vec!["t|3"]),
    ];
    for (sql, rows) in shown {
        assert_eq!(on_each(&cluster, sql), vec![rows; 2], "{sql}");
    }
    assert_eq!(on_each(&cluster, "SELECT a, b FROM t"), vec![vec!["1|x", "2|x", "|x"]; 2]);
    connection.execute("DROP TABLE t").unwrap();
    for node in 0..2 {
        assert_eq!(cluster.on(node).execute("SELECT * FROM t").err().unwrap().sqlstate(), "42P01");
        let fragments = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 't1_f%'";
        assert_eq!(sorted_rows(&cluster.on(node), fragments).unwrap(), ["0"]);
    }
}

#[test]
fn whole_tables_views_and_files_have_the_rows_of_all_fragments() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t PARTITION BY ROUND ROBIN INTO 5 FRAGMENTS AS SELECT v AS k, v % 3 AS g FROM generate_series(1, 20) AS r (v)").unwrap();
    assert_eq!(connection.table("t").unwrap().row_count().unwrap(), 20);
    let listed = connection.tables().unwrap();
    assert_eq!(
        listed.iter().map(|table| (table.name.as_str(), table.row_count)).collect::<Vec<_>>(),
        [("t", Some(20))]
    );
    assert_eq!(connection.execute("SHOW TABLES").unwrap().row_count().unwrap(), 1);
    assert_eq!(connection.execute("SELECT * FROM t").unwrap().row_count().unwrap(), 20);
    connection.execute("CREATE VIEW w AS SELECT g, count(*) AS n FROM t GROUP BY g").unwrap();
    assert_eq!(sorted_rows(&connection, "SELECT * FROM w").unwrap(), ["0|6", "1|7", "2|7"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    connection.execute(&format!("COPY t TO '{}'", file.display())).unwrap();
    connection
        .execute("CREATE TABLE u (k BIGINT, g BIGINT) PARTITION BY HASH (g) INTO 2 FRAGMENTS REPLICAS 2")
        .unwrap();
    connection.execute(&format!("COPY u FROM '{}'", file.display())).unwrap();
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(k) FROM u"), vec![vec!["20|210"]; 3]);
    assert_eq!(
        sorted_rows(&connection, "SELECT count(*) FROM t JOIN u ON t.k = u.k AND t.g = u.g").unwrap(),
        ["20"]
    );
    // The same statement again is another append.
    connection.execute("INSERT INTO u SELECT * FROM u").unwrap();
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(k) FROM u"), vec![vec!["40|420"]; 3]);
}

#[test]
fn rows_of_many_batches_are_shared_out_on_all_threads() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    let counts = "SELECT rows, count(*) FROM hypostyle_cluster.fragment GROUP BY rows";
    for distribution in [
        "ROUND ROBIN INTO 4 FRAGMENTS",
        "HASH (k) INTO 5 FRAGMENTS REPLICAS 2",
        "RANGE (k) (VALUES LESS THAN (1000), VALUES LESS THAN (MAXVALUE))",
    ] {
        connection
            .execute(&format!("CREATE TABLE t (k BIGINT, v VARCHAR) PARTITION BY {distribution}"))
            .unwrap();
        // Batches have 65,536 rows at most.
        let rows = "INSERT INTO t SELECT v, v || '' FROM generate_series(1, 400000) AS r (v)";
        connection.execute(rows).unwrap();
        let read =
            "SELECT count(*), sum(k), count(DISTINCT k), sum(CAST(k = CAST(v AS BIGINT) AS INTEGER)) FROM t";
        assert_eq!(on_each(&cluster, read), vec![vec!["400000|80000200000|400000|400000"]; 3]);
        if distribution.starts_with("ROUND ROBIN") {
            assert_eq!(sorted_rows(&connection, counts).unwrap(), ["100000|4"]);
            // The turns go on where they were.
            connection.execute("INSERT INTO t VALUES (0, ''), (0, ''), (0, '')").unwrap();
            assert_eq!(sorted_rows(&connection, counts).unwrap(), ["100000|1", "100001|3"]);
        }
        connection.execute("DROP TABLE t").unwrap();
    }
}

#[test]
fn a_reader_of_an_earlier_epoch_never_gets_fewer_rows() {
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT v FROM generate_series(1, 600) AS r (v)").unwrap();
    let before = cluster.nodes[0].catalog().unwrap();
    for change in ["DRAIN NODE n2", "DROP NODE n2", "ADD NODE n2 ADDRESS 'h2:1'", "REBALANCE"] {
        coordinator.execute(&format!("ALTER CLUSTER {change}")).unwrap();
    }
    let mut refused = 0;
    for (fragment, entry) in before.tables[0].numbered() {
        for replica in &entry.replicas {
            let node = cluster.nodes.iter().find(|node| node.id() == replica.node).unwrap();
            let piece = Piece::of(&before.tables[0], fragment, replica);
            let snapshot = node.database().snapshot().unwrap();
            match node.fragment(&snapshot, piece) {
                Ok((_, rows)) => assert_eq!(rows.rows(), replica.rows, "{fragment} on {}", node.name()),
                Err(error) => {
                    assert_eq!(error.sqlstate(), "55000", "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0, "no replica was made again");
}

#[test]
fn a_term_that_nobody_has_begun_keeps_no_node_away() {
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 2")
        .unwrap();
    // The third node wants to coordinate, and reaches nobody.
    cluster.cut(0);
    cluster.cut(1);
    cluster.on(2).execute("ALTER CLUSTER PROMOTE n3").err().unwrap();
    cluster.mend(0);
    cluster.mend(1);
    for number in 1..=3 {
        let sql = format!("INSERT INTO t SELECT v FROM generate_series(1, {number}00) AS r (v)");
        // A machine with much to do may take longer than a change waits.
        while let Err(error) = coordinator.execute(&sql) {
            assert_eq!(error.sqlstate(), "57P03", "{error}");
        }
        cluster.nodes[0].look_after();
        cluster.nodes[0].look_after();
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["600"]; 3]);
    let in_sync = coordinator.execute("SHOW FRAGMENTS FROM t").unwrap().record_batches().unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&in_sync).unwrap().to_string();
    assert_eq!(shown.matches("| true    |").count(), 6, "{shown}");
}
