//! Joins and groups in stages of more rows than the nodes have memory for.

use crate::nodes::{Nodes, name, numbers};
use crate::{unite, until};
use hypostyle::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The rows of each of two tables, and of a statement that fills them.
const ROWS: i64 = 20_000_000;
const PIECE: i64 = 5_000_000;

/// The sum of the last three digits of all keys.
const DIGITS: i64 = ROWS / 1000 * 499_500;

/// Each row has one partner, which may be on any node.
const JOINED: &str = "SELECT count(*), sum(one.v + other.v) FROM one JOIN other ON one.g = other.g";

/// Each row is a group.
const GROUPED: &str = "SELECT count(*), sum(s) FROM (SELECT g, sum(v) AS s FROM one GROUP BY g) AS r";

/// What a node may take beside its `memory_limit`: what it keeps of its catalog and of its tables, buffers of
/// connections, and stacks.
const BESIDE: u64 = 384 << 20;

fn patient(nodes: &Nodes, node: usize) -> Connection {
    let connection = nodes.connect(node).unwrap();
    connection.set_poll(None);
    connection
}

/// Runs a query, and returns what came of it with the most memory of its own that each node had meanwhile.
fn watched(nodes: &Nodes, sql: &str) -> (hypostyle::Result<Vec<Vec<i64>>>, Vec<u64>) {
    let connection = patient(nodes, 0);
    connection.execute("SET stages = on").unwrap();
    let plan = connection.execute(&format!("EXPLAIN {sql}")).unwrap().record_batches().unwrap();
    assert!(format!("{plan:?}").contains("StagesExec"), "{plan:?}");
    let is_over = AtomicBool::new(false);
    let most: Vec<AtomicU64> = (0..nodes.count()).map(|_| AtomicU64::new(0)).collect();
    let since = Instant::now();
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                for (node, most) in most.iter().enumerate() {
                    most.fetch_max(nodes.own_memory(node), Ordering::SeqCst);
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        let found = numbers(&connection, sql);
        is_over.store(true, Ordering::SeqCst);
        found
    });
    let most: Vec<u64> = most.into_iter().map(AtomicU64::into_inner).collect();
    println!("{:?}: {sql}: {found:?}, memory of nodes {most:?}", since.elapsed());
    (found, most)
}

#[test]
#[ignore = "takes minutes"]
fn rows_that_fit_into_no_node_meet_within_its_memory() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-large");
    let nodes = Nodes::start(&directory, 3, false, false);
    unite(&nodes).unwrap();
    let coordinator = patient(&nodes, 0);
    for (table, factor) in [("one", 48_271), ("other", 7)] {
        let made = "(id BIGINT, g BIGINT, v BIGINT) PARTITION BY HASH (id) INTO 12 FRAGMENTS";
        coordinator.execute(&format!("CREATE TABLE {table} {made}")).unwrap();
        for first in (1..=ROWS).step_by(usize::try_from(PIECE).unwrap()) {
            // The keys are those of all rows in another order, with gaps.
            let rows = format!(
                "SELECT x, x * {factor} % {ROWS} * 1000003, x % 1000 FROM generate_series({first}, {}) AS r (x)",
                first + PIECE - 1
            );
            coordinator.execute(&format!("INSERT INTO {table} {rows}")).unwrap();
        }
    }
    drop(coordinator);
    // What was needed to fill the tables is gone.
    (0..3).for_each(|node| nodes.kill(node));
    (0..3).for_each(|node| nodes.begin(node));
    (0..3).for_each(|node| nodes.wait(node));
    until(Duration::from_secs(60), "all nodes read the tables", || {
        (0..3).all(|node| {
            numbers(&patient(&nodes, node), "SELECT count(*) FROM one").is_ok_and(|rows| rows == [[ROWS]])
        })
    });
    let limit = |bytes: &str| {
        for node in 0..3 {
            patient(&nodes, node).execute(&format!("SET memory_limit = '{bytes}'")).unwrap();
        }
    };
    let expected = [(JOINED, [ROWS, 2 * DIGITS]), (GROUPED, [ROWS, DIGITS])];
    limit("64MB");
    for (sql, rows) in expected {
        let (found, most) = watched(&nodes, sql);
        match found {
            Ok(found) => assert_eq!(found, [rows], "{sql}"),
            // The table of hashes of a join does not spill.
            Err(error) => assert_eq!(error.sqlstate(), "53200", "{sql}: {error}"),
        }
        for (node, bytes) in most.into_iter().enumerate() {
            assert!(bytes < (64 << 20) + BESIDE, "{}: {bytes} bytes for {sql}", name(node));
        }
    }
    // All that a query has taken is free again, also behind one that has failed.
    limit("2GB");
    for (sql, rows) in expected {
        assert_eq!(watched(&nodes, sql).0.unwrap(), [rows], "{sql}");
    }
    drop(nodes);
    std::fs::remove_dir_all(directory).unwrap();
}
