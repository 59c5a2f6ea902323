//! A table of as many fragments as there may be, with a replica of each on all nodes, which have disks.

use crate::nodes::{Nodes, name, numbers};
use crate::{behind, unite, until};
use hypostyle::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

const ROWS: i64 = 200_000;

const SUM: &str = "SELECT count(*), sum(k), sum(n) FROM many";

/// The time that a node has to catch up: what it has missed is copied fragment by fragment.
const CAUGHT_UP: Duration = Duration::from_secs(300);

/// Runs a statement for as long as it takes, and shows how long that was.
fn run(connection: &Connection, sql: &str) {
    let since = Instant::now();
    if let Err(error) = connection.execute(sql) {
        panic!("{sql}: {error}");
    }
    println!("{:?}: {sql}", since.elapsed());
}

/// Connects to a node, whose statements may take long.
fn patient(nodes: &Nodes, node: usize) -> Connection {
    let connection = nodes.connect(node).unwrap();
    connection.set_poll(None);
    connection
}

/// Returns what the rows of all statements add up to.
fn expected() -> Vec<i64> {
    let kept = (1..=ROWS).filter(|k| k % 64 != 1);
    let updated = |k: i64| if k % 64 == 0 { 2 } else { 1 };
    vec![kept.clone().count() as i64, kept.clone().sum(), kept.map(updated).sum()]
}

#[test]
#[ignore = "takes minutes"]
fn as_many_fragments_as_there_may_be_are_loaded_on_disk() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-many");
    let nodes = Nodes::start(&directory, 3, false, false);
    unite(&nodes).unwrap();
    let in_sync =
        || until(CAUGHT_UP, "all replicas are in sync", || behind(&nodes, 0).is_ok_and(|count| count == 0));
    let on_all = |wanted: &[i64]| {
        for node in 0..nodes.count() {
            assert_eq!(numbers(&patient(&nodes, node), SUM).unwrap(), [wanted], "{}", name(node));
        }
    };
    let coordinator = patient(&nodes, 0);
    run(
        &coordinator,
        "CREATE TABLE many (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 4096 FRAGMENTS REPLICAS 3",
    );
    for first in [1, ROWS / 2 + 1] {
        let rows = format!("SELECT x, 1 FROM generate_series({first}, {}) AS r (x)", first + ROWS / 2 - 1);
        run(&coordinator, &format!("INSERT INTO many {rows}"));
    }
    run(&coordinator, "UPDATE many SET n = 2 WHERE k % 64 = 0");
    run(&coordinator, "DELETE FROM many WHERE k % 64 = 1");
    let replicas = "SELECT count(*) FROM hypostyle_cluster.replica WHERE \"table\" = 'many' AND in_sync";
    in_sync();
    assert_eq!(numbers(&coordinator, replicas).unwrap(), [[3 * 4096]]);
    let mut wanted = expected();
    on_all(&wanted);
    // A node that was away gets what it has missed, and no more.
    nodes.kill(2);
    run(&coordinator, "UPDATE many SET n = n + 1 WHERE k IN (2, 3, 5)");
    wanted[2] += 3;
    nodes.begin(2);
    nodes.wait(2);
    in_sync();
    on_all(&wanted);
    // All of them begin with what they have.
    drop(coordinator);
    (0..3).for_each(|node| nodes.kill(node));
    (0..3).for_each(|node| nodes.begin(node));
    (0..3).for_each(|node| nodes.wait(node));
    in_sync();
    on_all(&wanted);
    run(&patient(&nodes, 1), "INSERT INTO many VALUES (0, 7)");
    wanted[0] += 1;
    wanted[2] += 7;
    on_all(&wanted);
    run(&patient(&nodes, 1), "DROP TABLE many");
    drop(nodes);
    std::fs::remove_dir_all(directory).unwrap();
}
