//! Queries whose rows have to meet on other nodes than theirs.

use super::metrics::{metric, nodes};
use super::{Cluster, Wires, failure};
use crate::tpch::sorted_rows;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{Connection, Database, ErrorKind, OpenOptions, Poll, Progress, Result};
use std::cell::OnceCell;
use std::sync::{Arc, Mutex, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Joins and groups by other keys than those that tables are partitioned by, and what is made of these.
const QUERIES: [&str; 12] = [
    "SELECT count(*), sum(a.v), sum(b.v) FROM a JOIN b ON a.v = b.v",
    "SELECT a.k, b.k FROM a JOIN b ON a.v = b.v WHERE a.k % 7 = 0",
    "SELECT a.k, b.k FROM a LEFT JOIN b ON a.v = b.v AND b.k % 2 = 0",
    "SELECT a.k, b.k FROM a FULL JOIN b ON a.v = b.v AND b.k > 1900",
    "SELECT v, count(*), sum(k), avg(k), min(t), max(t) FROM a GROUP BY v",
    "SELECT t, count(DISTINCT v) FROM a GROUP BY t HAVING count(*) > 1",
    "SELECT DISTINCT t, v FROM a",
    "SELECT v, t FROM a INTERSECT SELECT v, t FROM b",
    "SELECT v, t FROM a EXCEPT SELECT v, t FROM b",
    "SELECT k FROM a WHERE v IN (SELECT v FROM b WHERE k < 300)",
    "SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.v = a.v)",
    "SELECT a.t, sum(b.k) AS s FROM a JOIN b ON a.v = b.v GROUP BY a.t ORDER BY s DESC, a.t",
];

/// Makes two tables of which few values of `v` are NULL, and `t` is a text.
fn fill(connection: &Connection, distribution: &str) {
    for (table, factor) in [("a", 7), ("b", 11)] {
        let made = format!("CREATE TABLE {table} (k BIGINT, v BIGINT, t VARCHAR) {distribution}");
        connection.execute(&made).unwrap();
        let rows = format!(
            "INSERT INTO {table} SELECT x, CASE WHEN x % 97 = 0 THEN NULL ELSE x * {factor} % 1501 END, \
             'a text of the number ' || x % 53 FROM generate_series(1, 2000) AS r (x)"
        );
        connection.execute(&rows).unwrap();
    }
}

fn one_node() -> Connection {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    fill(&one, "");
    one
}

#[test]
fn rows_meet_on_all_nodes() {
    let (one, cluster) = (one_node(), Cluster::new(3));
    fill(&cluster.on(0), "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    for node in 0..3 {
        let connection = cluster.on(node);
        connection.execute("SET stages = on").unwrap();
        for sql in QUERIES {
            let expected = sorted_rows(&one, sql).unwrap();
            assert_eq!(sorted_rows(&connection, sql).unwrap(), expected, "{sql} on node {}", node + 1);
        }
    }
    // They do so in stages, and do not run without them after all.
    let connection = cluster.on(1);
    connection.execute("SET stages = on").unwrap();
    for sql in [QUERIES[0], QUERIES[4]] {
        let plan = sorted_rows(&connection, &format!("EXPLAIN {sql}")).unwrap().join("\n");
        assert!(plan.contains("StagesExec") && plan.contains("NetworkShuffleExec"), "{sql}: {plan}");
        let ran = sorted_rows(&connection, &format!("EXPLAIN ANALYZE {sql}")).unwrap().join("\n");
        assert!(ran.contains("StagesExec") && !ran.contains("without_stages"), "{sql}: {ran}");
    }
    // Few bytes are sooner joined where they were asked for.
    for setting in ["auto", "off"] {
        connection.execute(&format!("SET stages = {setting}")).unwrap();
        let plan = sorted_rows(&connection, &format!("EXPLAIN {}", QUERIES[0])).unwrap().join("\n");
        assert!(!plan.contains("StagesExec"), "{plan}");
        assert_eq!(plan.contains("without stages: it needs only about"), setting == "auto", "{plan}");
    }
    let error = failure(&connection, "SET stages = many");
    assert!(error.message().contains("stages is auto, on or off, not 'many'"), "{error}");
}

#[test]
fn many_groups_are_shared_out_and_few_are_not() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(1);
    let made = "CREATE TABLE m PARTITION BY HASH (k) INTO 6 FRAGMENTS AS SELECT x AS k, x * 7919 % 1000003 AS many, \
                x % 10 AS few, 'a text of the number ' || x AS t FROM generate_series(1, 1200000) AS r (x)";
    connection.execute(made).unwrap();
    for (keys, in_stages) in
        [("many", true), ("t", true), ("many, few", true), ("few", false), ("few, few + 1", false)]
    {
        // Fewer than 64 MB would come to the node that is asked.
        let sql =
            format!("SELECT count(*), max(s) FROM (SELECT {keys}, sum(k) AS s FROM m GROUP BY {keys}) AS g");
        let plan = sorted_rows(&connection, &format!("EXPLAIN {sql}")).unwrap().join("\n");
        assert_eq!(plan.contains("StagesExec"), in_stages, "{keys}: {plan}");
        // It says what was expected.
        let because = if in_stages { " of this one without stages" } else { "without stages: it needs" };
        assert!(plan.contains(because) && plan.contains(" ms"), "{keys}: {plan}");
    }
    // The node knows by a fragment of its own that the condition leaves most rows.
    let sql =
        "EXPLAIN SELECT count(*), max(s) FROM (SELECT t, sum(k) AS s FROM m WHERE few < 8 GROUP BY t) AS g";
    let plan = sorted_rows(&connection, sql).unwrap().join("\n");
    assert!(plan.contains("StagesExec"), "{plan}");
    // All of these rows would come to the node that is asked anyway.
    let plan = sorted_rows(&connection, "EXPLAIN SELECT many, few, t FROM m ORDER BY k").unwrap().join("\n");
    assert!(!plan.contains("StagesExec"), "{plan}");
}

/// Makes two tables that are placed together, whose keys have other names.
fn fill_together(connection: &Connection, distribution: impl Fn(&str) -> String) {
    let of_orders = format!("CREATE TABLE orders (o BIGINT, s VARCHAR) {}", distribution("o"));
    let of_items = format!(
        "CREATE TABLE items (i BIGINT, g BIGINT, p DECIMAL(12, 2), d DECIMAL(12, 2)) {}",
        distribution("i")
    );
    for sql in [
        of_orders.as_str(),
        of_items.as_str(),
        "INSERT INTO orders SELECT x, CASE WHEN x % 3 = 0 THEN 'f' ELSE 'o' END FROM generate_series(1, 300) AS r (x)",
        "INSERT INTO items SELECT x % 300, x % 11, x % 1000, CAST(0.05 AS DECIMAL(12, 2)) \
         FROM generate_series(1, 2000) AS r (x)",
    ] {
        connection.execute(sql).unwrap();
    }
}

#[test]
fn what_is_placed_together_is_computed_where_it_is() {
    let (one, cluster) = (Database::in_memory(OpenOptions::default()).unwrap(), Cluster::new(3));
    let (one, connection) = (one.connect().unwrap(), cluster.on(1));
    fill_together(&one, |_| String::new());
    fill_together(&connection, |key| format!("PARTITION BY HASH ({key}) INTO 6 FRAGMENTS"));
    let with_others = "s = 'f' AND EXISTS (SELECT 1 FROM items AS m WHERE m.i = items.i AND m.g <> items.g)";
    for sql in [
        // The key that is left behind the join is that of either table.
        format!("SELECT items.i, items.g FROM orders JOIN items ON o = i WHERE {with_others}"),
        format!("SELECT items.i, items.g FROM items JOIN orders ON i = o WHERE {with_others}"),
        "SELECT o, count(*) FROM items JOIN orders ON i = o GROUP BY o".to_string(),
        "SELECT i, count(*) FROM orders JOIN items ON o = i GROUP BY i".to_string(),
        // The rule that checks products gives these sums other names.
        "SELECT g, sum(p * (1 - d)), avg(p) FROM items GROUP BY g".to_string(),
        "SELECT g, sum(p * (1 - d)) FROM items GROUP BY g".to_string(),
    ] {
        let plan = sorted_rows(&connection, &format!("EXPLAIN {sql}")).unwrap().join("\n");
        let parts: Vec<&str> = plan.lines().filter(|line| line.contains("GatherExec")).collect();
        assert_eq!(parts.len(), 1, "{sql}: {plan}");
        let is_grouped = parts.iter().all(|part| part.contains("AggregateExec"));
        assert_eq!(is_grouped, sql.contains("GROUP BY"), "{sql}: {plan}");
        assert_eq!(sorted_rows(&connection, &sql).unwrap(), sorted_rows(&one, &sql).unwrap(), "{sql}");
    }
}

#[test]
fn what_needs_all_rows_in_one_place_has_them() {
    let (one, cluster) = (one_node(), Cluster::new(3));
    fill(&cluster.on(0), "PARTITION BY ROUND ROBIN INTO 5 FRAGMENTS REPLICAS 2");
    let connection = cluster.on(2);
    connection.execute("SET stages = on").unwrap();
    for sql in [
        "SELECT k FROM a WHERE v NOT IN (SELECT v FROM b WHERE v IS NOT NULL)",
        "SELECT k FROM a WHERE v NOT IN (SELECT v FROM b)",
        "SELECT count(*) FROM a UNION ALL SELECT DISTINCT v FROM b",
        "SELECT a.k, b.k FROM a JOIN b ON a.v + b.v = 3000",
        "SELECT v, count(*) FROM a GROUP BY v ORDER BY v LIMIT 10",
        "SELECT a.v, b.v FROM a JOIN b ON a.v = b.v ORDER BY a.v, b.v LIMIT 7",
        "SELECT k, sum(v) OVER (PARTITION BY t ORDER BY k) FROM a",
        "SELECT count(*) FROM a WHERE v > (SELECT avg(v) FROM b)",
        "SELECT count(*) FROM (SELECT v FROM a GROUP BY v) AS x CROSS JOIN (SELECT t FROM b GROUP BY t) AS y",
        "WITH g AS (SELECT v, count(*) AS n FROM a GROUP BY v) SELECT x.v, y.n FROM g AS x JOIN g AS y ON x.v = y.n",
    ] {
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
    }
}

#[test]
fn whatever_needs_rows_together_runs_in_stages() {
    let (one, cluster) = (one_node(), Cluster::new(3));
    fill(&cluster.on(0), "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    let connection = cluster.on(0);
    connection.execute("SET stages = on").unwrap();
    for sql in [
        "SELECT a.k, b.k FROM a LEFT JOIN b ON a.v = b.v",
        "SELECT t, count(DISTINCT v) FROM a GROUP BY t",
        "SELECT DISTINCT t, v FROM a",
        "SELECT v, t FROM a UNION SELECT v, t FROM b",
        "SELECT v, t FROM a INTERSECT SELECT v, t FROM b",
        "SELECT v, t FROM a EXCEPT SELECT v, t FROM b",
        "SELECT k, sum(v) OVER (PARTITION BY t ORDER BY k) FROM a",
        "SELECT v, count(*) AS n FROM a GROUP BY v ORDER BY n DESC, v",
    ] {
        let plan = sorted_rows(&connection, &format!("EXPLAIN {sql}")).unwrap().join("\n");
        assert!(plan.contains("StagesExec"), "{sql}: {plan}");
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
    }
}

#[test]
fn equal_floats_meet_wherever_they_are() {
    let (one, cluster) = (Database::in_memory(OpenOptions::default()).unwrap(), Cluster::new(3));
    let (one, connection) = (one.connect().unwrap(), cluster.on(1));
    for (of, distribution) in [(&one, ""), (&connection, "PARTITION BY HASH (k) INTO 6 FRAGMENTS")] {
        of.execute(&format!("CREATE TABLE f (k BIGINT, x DOUBLE) {distribution}")).unwrap();
        let rows = "INSERT INTO f SELECT n, CASE n % 5 WHEN 0 THEN CAST('nan' AS DOUBLE) WHEN 1 THEN CAST('0' AS \
                    DOUBLE) WHEN 2 THEN CAST('-0' AS DOUBLE) WHEN 3 THEN NULL ELSE CAST(n % 17 AS DOUBLE) END \
                    FROM generate_series(1, 500) AS r (n)";
        of.execute(rows).unwrap();
    }
    connection.execute("SET stages = on").unwrap();
    for sql in [
        "SELECT count(*) AS n FROM f GROUP BY x",
        "SELECT count(*) AS n FROM f GROUP BY x * CAST('inf' AS DOUBLE)",
        "SELECT count(*) AS n FROM f AS a JOIN f AS b ON a.x = b.x",
        "SELECT a.k FROM f AS a LEFT JOIN f AS b ON a.x = b.x AND b.k < 20 WHERE b.k IS NULL",
    ] {
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
    }
}

#[test]
fn replicated_tables_meet_rows_that_are_shared_out() {
    let (one, cluster) = (one_node(), Cluster::new(3));
    fill(&cluster.on(0), "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    for (of, distribution) in [(&one, ""), (&cluster.on(0), "REPLICATED")] {
        of.execute(&format!("CREATE TABLE d (v BIGINT, name VARCHAR) {distribution}")).unwrap();
        let rows = "INSERT INTO d SELECT x * 3, 'name ' || x % 7 FROM generate_series(1, 700) AS r (x)";
        of.execute(rows).unwrap();
    }
    let connection = cluster.on(1);
    connection.execute("SET stages = on").unwrap();
    let grouped = "(SELECT v, count(*) AS n FROM a GROUP BY v) AS g";
    for (sql, in_stages) in [
        (format!("SELECT d.name, sum(g.n) FROM {grouped} JOIN d ON g.v = d.v GROUP BY d.name"), true),
        (format!("SELECT d.name, g.n FROM d LEFT JOIN {grouped} ON g.v = d.v"), false),
        (format!("SELECT d.v FROM d WHERE NOT EXISTS (SELECT 1 FROM {grouped} WHERE g.v = d.v)"), false),
        (format!("SELECT g.v FROM {grouped} WHERE g.n > (SELECT min(d.v) FROM d)"), false),
        (format!("SELECT v FROM d UNION ALL SELECT v FROM {grouped}"), false),
    ] {
        let plan = sorted_rows(&connection, &format!("EXPLAIN {sql}")).unwrap().join("\n");
        // Some of the others run so, too, if their sides allow it.
        assert!(plan.contains("StagesExec") || !in_stages, "{sql}: {plan}");
        assert_eq!(sorted_rows(&connection, &sql).unwrap(), sorted_rows(&one, &sql).unwrap(), "{sql}");
    }
}

#[test]
fn what_is_no_table_of_the_cluster_is_read_where_it_was_asked_for() {
    let (one, cluster) = (one_node(), Cluster::new(3));
    fill(&cluster.on(0), "PARTITION BY HASH (k) INTO 6 FRAGMENTS");
    let connection = cluster.on(0);
    connection.execute("SET stages = on").unwrap();
    for on in [&one, &connection] {
        on.execute("CREATE TEMPORARY TABLE own (v BIGINT, c VARCHAR)").unwrap();
        on.execute("INSERT INTO own VALUES (7, 'p'), (14, 'q'), (21, 'p'), (8, NULL)").unwrap();
    }
    let sql = "SELECT own.c, count(*) FROM a JOIN own ON a.v = own.v GROUP BY own.c";
    let plan = sorted_rows(&connection, &format!("EXPLAIN {sql}")).unwrap().join("\n");
    assert!(!plan.contains("StagesExec"), "{plan}");
    assert!(plan.contains("which is not of the cluster, stays on its node"), "{plan}");
    assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap());
    // These go with the parts.
    let sql = "SELECT x.c, count(*) FROM a JOIN (VALUES (7, 'p'), (14, 'q'), (21, 'p')) AS x (v, c) ON a.v = x.v \
               GROUP BY x.c";
    assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap());
}

#[test]
fn a_query_in_stages_goes_on_without_a_lost_node() {
    let (one, cluster) = (one_node(), Cluster::new(3));
    fill(&cluster.on(0), "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    let connection = cluster.on(0);
    connection.execute("SET stages = on").unwrap();
    cluster.cut(2);
    for sql in QUERIES {
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
    }
    cluster.mend(2);
    for sql in QUERIES {
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
    }
}

#[test]
fn errors_of_queries_in_stages_are_those_of_one_node() {
    let (one, cluster) = (one_node(), Cluster::new(2));
    fill(&cluster.on(0), "PARTITION BY HASH (k) INTO 4 FRAGMENTS");
    let connection = cluster.on(0);
    connection.execute("SET stages = on").unwrap();
    let sql = "SELECT a.k, CAST(a.t || b.t AS BIGINT) FROM a JOIN b ON a.v = b.v";
    let failure = |on: &Connection| sorted_rows(on, sql).unwrap_err().sqlstate().to_string();
    assert_eq!(failure(&connection), failure(&one));
}

#[test]
fn rows_meet_over_the_network() {
    let one = one_node();
    let (served, _nodes) = nodes(3);
    let connection = served[0].database.connect().unwrap();
    fill(&connection, "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    connection.execute("SET stages = on").unwrap();
    for sql in QUERIES {
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
    }
    for sql in [QUERIES[0], QUERIES[4]] {
        let ran = sorted_rows(&connection, &format!("EXPLAIN ANALYZE {sql}")).unwrap().join("\n");
        assert!(ran.contains("StagesExec") && !ran.contains("without_stages"), "{sql}: {ran}");
        // Each task tells what it has measured.
        assert!(ran.contains("stage 1=[") && !ran.contains("ended early"), "{sql}: {ran}");
        for node in ["n1", "n2", "n3"] {
            assert!(ran.contains(&format!("{node}: rows=")), "{sql}: {ran}");
        }
        assert!(ran.contains("operators=[") && ran.contains("PartExec output_rows="), "{sql}: {ran}");
        let total = |name: &str| ran.contains(&format!("{name}=")) && !ran.contains(&format!("{name}=0,"));
        assert!(total("sent_rows") && total("sent_bytes"), "{sql}: {ran}");
    }
}

#[test]
fn tasks_use_the_connections_of_those_before_them() {
    let (served, _nodes) = nodes(3);
    let connection = served[0].database.connect().unwrap();
    fill(&connection, "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    connection.execute("SET stages = on").unwrap();
    let run = || (0..5).for_each(|_| drop(sorted_rows(&connection, QUERIES[0]).unwrap()));
    // Each new connection begins with the question who is there.
    let begun = || metric(&served[1], "served_total{request=\"identify\"}");
    run();
    let before = begun();
    run();
    // Each query has a task of three stages on the node.
    assert!(begun() - before < 15.0, "{} connections", begun() - before);
}

/// Notes the tasks that other nodes are asked for, and whether somebody still wants them.
struct Watching {
    wires: Arc<Wires>,
    tasks: Mutex<Vec<Weak<()>>>,
}

impl Watching {
    fn cluster() -> (Cluster, Arc<Self>) {
        let made = OnceCell::new();
        let cluster = Cluster::reached_by(3, |wires| {
            let peers = Arc::new(Self { wires: wires.clone(), tasks: Mutex::default() });
            made.get_or_init(|| peers).clone()
        });
        (cluster, made.into_inner().unwrap())
    }

    /// Returns how many tasks were asked for since the last time, after all of them have ended.
    fn ended(&self) -> usize {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        let since = Instant::now();
        while tasks.iter().any(|task| task.strong_count() > 0) {
            assert!(since.elapsed() < Duration::from_secs(2), "a task goes on without its query");
            sleep(Duration::from_millis(10));
        }
        tasks.len()
    }
}

impl Peers for Watching {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        self.wires.call(node, request, rows)
    }

    fn call_while(&self, node: &Member, request: &Addressed, wanted: Weak<()>) -> Result<Answer> {
        if matches!(request.request, Request::Stage(_)) {
            self.tasks.lock().unwrap().push(wanted);
        }
        self.wires.call(node, request, None)
    }
}

/// Nodes that ask as one of another release would, which hashes keys otherwise.
struct OfAnotherRelease(Arc<Wires>);

impl Peers for OfAnotherRelease {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        self.0.call(node, request, rows)
    }

    fn call_while(&self, node: &Member, request: &Addressed, _: Weak<()>) -> Result<Answer> {
        let mut request = request.clone();
        if let Request::Stage(task) = &mut request.request {
            task.sample = task.sample.wrapping_add(1);
        }
        self.0.call(node, &request, None)
    }
}

#[test]
fn nodes_that_share_rows_out_otherwise_run_no_stages() {
    let (one, cluster) =
        (one_node(), Cluster::reached_by(3, |wires| Arc::new(OfAnotherRelease(wires.clone()))));
    fill(&cluster.on(0), "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    let connection = cluster.on(0);
    connection.execute("SET stages = on").unwrap();
    for sql in [QUERIES[0], QUERIES[4]] {
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
        let ran = sorted_rows(&connection, &format!("EXPLAIN ANALYZE {sql}")).unwrap().join("\n");
        assert!(ran.contains("without_stages"), "{sql}: {ran}");
    }
}

#[test]
fn tasks_end_with_their_query() {
    let (cluster, watching) = Watching::cluster();
    let connection = cluster.on(0);
    fill(&connection, "PARTITION BY HASH (k) INTO 6 FRAGMENTS");
    connection.execute("SET stages = on").unwrap();
    sorted_rows(&connection, QUERIES[0]).unwrap();
    // One stage for each table, and one for the join, on two other nodes.
    assert!(watching.ended() >= 6);
    let endless = "SELECT count(*) FROM a JOIN b ON a.v % 2 = b.v % 2 JOIN a AS c ON c.v % 2 = b.v % 2 \
                   WHERE (a.k + b.k + c.k) % 7919 = -1";
    let since = Instant::now();
    connection.set_poll(Some(Arc::new(move |_: &Progress| match since.elapsed() > Duration::from_secs(1) {
        true => Poll::Interrupt,
        false => Poll::Continue,
    })));
    let error = sorted_rows(&connection, endless).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(watching.ended() > 0);
    connection.set_poll(None);
    assert_eq!(sorted_rows(&connection, "SELECT count(*) FROM a").unwrap(), ["2000"]);
    // Nor does one go on whose rows nobody reads any more.
    let rows = connection.execute("SELECT a.k, b.k FROM a JOIN b ON a.v % 20 = b.v % 20").unwrap();
    assert!(rows.next_batch().unwrap().is_some());
    drop(rows);
    assert!(watching.ended() > 0);
}

/// Makes two tables of which each row of one has 400 partners in the other.
fn fill_with_partners(connection: &Connection) {
    for table in ["p", "q"] {
        let made = "(k BIGINT, g BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2";
        connection.execute(&format!("CREATE TABLE {table} {made}")).unwrap();
        let rows = format!("INSERT INTO {table} SELECT x, x % 100 FROM generate_series(1, 40000) AS r (x)");
        connection.execute(&rows).unwrap();
    }
}

#[test]
fn a_node_that_is_lost_after_the_first_row_fails_the_query() {
    let (mut served, _nodes) = nodes(3);
    let connection = served[0].database.connect().unwrap();
    fill_with_partners(&connection);
    connection.execute("SET stages = on").unwrap();
    let rows = connection.execute("SELECT p.k, q.k FROM p JOIN q ON p.g = q.g").unwrap();
    assert!(rows.next_batch().unwrap().is_some());
    served[2].stop();
    let error = loop {
        match rows.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the rows of a lost node are missing"),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Connection, "08006"), "{error}");
    assert!(error.message().contains("run the query again"), "{error}");
    drop(rows);
    // Others have the rows, too.
    let again = "SELECT count(*) FROM p JOIN q ON p.g = q.g";
    assert_eq!(sorted_rows(&connection, again).unwrap(), ["16000000"]);
}

#[test]
fn tasks_take_no_more_memory_than_their_node_has() {
    let cluster = Cluster::new(3);
    let made = "(k BIGINT, v BIGINT, t VARCHAR) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2";
    cluster.on(0).execute(&format!("CREATE TABLE m {made}")).unwrap();
    let rows = "INSERT INTO m SELECT x, x * 7, 'a text of the number ' || x FROM generate_series(1, 400000) AS r (x)";
    cluster.on(0).execute(rows).unwrap();
    let sql = "SELECT count(*), sum(n) FROM (SELECT v, count(*) AS n, min(t) AS t FROM m GROUP BY v) AS g \
               WHERE t IS NOT NULL";
    let limit = |limit: &str| {
        for node in 0..3 {
            cluster.on(node).execute(&format!("SET memory_limit = '{limit}'")).unwrap();
        }
        let connection = cluster.on(0);
        connection.execute("SET stages = on").unwrap();
        connection
    };
    let connection = limit("4MB");
    match sorted_rows(&connection, sql) {
        Ok(rows) => assert_eq!(rows, ["400000|400000"]),
        Err(error) => assert_eq!(error.sqlstate(), "53200", "{error}"),
    }
    // It does not fit: tasks spill, or the query runs without stages, or fails as well.
    match sorted_rows(&connection, &format!("EXPLAIN ANALYZE {sql}")) {
        Ok(ran) => {
            let ran = ran.join("\n");
            // A task tells it behind the bytes that it has sent; among measures there is a comma.
            let mut spills = ran.match_indices(" spilled_bytes=");
            let has_spilled = spills.any(|(at, _)| ran[..at].ends_with(|c: char| c.is_ascii_digit()));
            assert!(has_spilled || ran.contains("without_stages"), "{ran}");
        }
        Err(error) => assert_eq!(error.sqlstate(), "53200", "{error}"),
    }
    let connection = limit("1GB");
    assert_eq!(sorted_rows(&connection, sql).unwrap(), ["400000|400000"]);
}

#[test]
fn statements_that_write_run_their_queries_in_stages() {
    let (one, (cluster, watching)) = (one_node(), Watching::cluster());
    let connection = cluster.on(0);
    fill(&connection, "PARTITION BY HASH (k) INTO 6 FRAGMENTS");
    connection.execute("SET stages = on").unwrap();
    connection.execute("CREATE TABLE r (v BIGINT, n BIGINT) PARTITION BY HASH (v) INTO 3 FRAGMENTS").unwrap();
    let query = "SELECT a.v AS v, count(*) AS n FROM a JOIN b ON a.v = b.v GROUP BY a.v";
    let expected = sorted_rows(&one, query).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let [csv, parquet] = ["r.csv", "r.parquet"].map(|name| directory.path().join(name).display().to_string());
    for (statement, table) in [
        (format!("INSERT INTO r {query}"), "r".to_string()),
        (format!("CREATE TABLE s PARTITION BY HASH (v) INTO 3 FRAGMENTS AS {query}"), "s".to_string()),
        (format!("CREATE TABLE own AS {query}"), "own".to_string()),
        (format!("COPY ({query}) TO '{csv}'"), format!("'{csv}'")),
        (format!("COPY ({query}) TO '{parquet}'"), format!("'{parquet}'")),
    ] {
        watching.ended();
        connection.execute(&statement).unwrap();
        assert!(watching.ended() > 0, "{statement} runs without stages");
        let rows = sorted_rows(&connection, &format!("SELECT v, n FROM {table}")).unwrap();
        assert_eq!(rows, expected, "{statement}");
    }
    // The rows are written in the order of the query.
    connection.execute(&format!("COPY ({query} ORDER BY n DESC, v LIMIT 20) TO '{csv}'")).unwrap();
    let text = std::fs::read_to_string(&csv).unwrap();
    let lines: Vec<String> = text.lines().skip(1).map(|line| line.replace(',', "|")).collect();
    assert_eq!(lines.len(), 20);
    let again = format!("SELECT * FROM ({query} ORDER BY n DESC, v LIMIT 20) AS x");
    let mut sorted = lines.clone();
    sorted.sort();
    assert_eq!(sorted, sorted_rows(&one, &again).unwrap());
    let counts: Vec<i64> = lines.iter().filter_map(|line| line.split('|').nth(1)?.parse().ok()).collect();
    assert!(counts.len() == 20 && counts.is_sorted_by(|one, next| one >= next), "{lines:?}");
}

#[test]
fn small_sides_of_joins_go_to_all_nodes() {
    let (one, cluster) = (one_node(), Cluster::new(3));
    let connection = cluster.on(0);
    fill(&connection, "PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2");
    connection.execute("SET stages = on").unwrap();
    for (on, distribution) in [(&one, ""), (&connection, "PARTITION BY HASH (n) INTO 6 FRAGMENTS REPLICAS 2")]
    {
        on.execute(&format!("CREATE TABLE c (v BIGINT, n VARCHAR) {distribution}")).unwrap();
        let rows = "INSERT INTO c SELECT CASE WHEN x = 4 THEN NULL ELSE x * 7 END, 'c' || x % 3 \
                    FROM generate_series(1, 10) AS r (x)";
        on.execute(rows).unwrap();
    }
    let run = |sql: &str| {
        assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{sql}");
        sorted_rows(&connection, &format!("EXPLAIN ANALYZE {sql}")).unwrap().join("\n")
    };
    for sql in [
        "SELECT c.n, count(*) FROM a JOIN c ON a.v = c.v GROUP BY c.n",
        "SELECT a.k, c.n FROM c JOIN a ON a.v = c.v",
        "SELECT a.k, c.n FROM a LEFT JOIN c ON a.v = c.v",
        "SELECT a.k FROM a WHERE a.v IN (SELECT v FROM c)",
        "SELECT a.k FROM a WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.v = a.v)",
        "SELECT c.n, count(*), sum(b.k) FROM a JOIN b ON a.v = b.v JOIN c ON c.v = b.v GROUP BY c.n",
    ] {
        let ran = run(sql);
        assert!(ran.contains("NetworkBroadcastExec") && !ran.contains("without_stages"), "{sql}: {ran}");
    }
    // Each node would give the rows of the small side that have no partner.
    for sql in
        ["SELECT a.k, c.n FROM c LEFT JOIN a ON a.v = c.v", "SELECT a.k, c.n FROM c FULL JOIN a ON a.v = c.v"]
    {
        let ran = run(sql);
        assert!(!ran.contains("NetworkBroadcastExec"), "{sql}: {ran}");
    }
    // Two sides of one size are shared out.
    assert!(!run(QUERIES[0]).contains("NetworkBroadcastExec"));
}
