//! BACKUP CLUSTER: what nodes are opened from their backups as they were at one moment.

use super::{Cluster, Wires, on_each};
use crate::served::{Served, Setup};
use crate::server::users;
use crate::tpch::sorted_rows;
use hypostyle::cluster::Member;
use hypostyle::cluster::backup::Backup;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::node::Node;
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{Connection, Database, Error, ErrorKind, OpenOptions, Poll, Progress, Result};
use hypostyle_node::RemotePeers;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const NODES: usize = 3;

/// Opens the databases of nodes, each in the directory of its name.
pub(super) fn open(directory: &Path, wires: &Arc<Wires>, peers: &Arc<dyn Peers>) -> Cluster {
    open_nodes(directory, wires, peers, NODES)
}

fn open_nodes(directory: &Path, wires: &Arc<Wires>, peers: &Arc<dyn Peers>, count: usize) -> Cluster {
    let (mut databases, mut nodes) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
        let database = Database::open(directory.join(format!("n{number}")), options).unwrap();
        let address = format!("h{number}:1");
        let node = database.join_cluster(&format!("n{number}"), &address, peers.clone()).unwrap();
        wires.nodes.lock().unwrap().insert(address, Arc::downgrade(&node));
        databases.push(database);
        nodes.push(node);
    }
    Cluster { wires: wires.clone(), databases, nodes }
}

fn reopened(directory: &Path) -> Cluster {
    let wires = Arc::new(Wires::default());
    let peers: Arc<dyn Peers> = wires.clone();
    open(directory, &wires, &peers)
}

/// Makes a cluster of three nodes, each of which is a directory.
pub(super) fn new_on_disk(directory: &Path) -> Cluster {
    let cluster = reopened(directory);
    unite(&cluster);
    cluster
}

/// Makes a cluster of so many nodes, each of which is a directory.
pub(super) fn several_on_disk(directory: &Path, count: usize) -> Cluster {
    let wires = Arc::new(Wires::default());
    let peers: Arc<dyn Peers> = wires.clone();
    let cluster = open_nodes(directory, &wires, &peers, count);
    unite(&cluster);
    cluster
}

/// Makes the nodes a cluster.
fn unite(cluster: &Cluster) {
    cluster.nodes[0].found_cluster().unwrap();
    for number in 2..=cluster.nodes.len() {
        let add = format!("ALTER CLUSTER ADD NODE n{number} ADDRESS 'h{number}:1'");
        cluster.on(0).execute(&add).unwrap();
    }
}

fn back_up(cluster: &Cluster, directory: &Path) -> Result<()> {
    cluster.on(0).execute(&format!("BACKUP CLUSTER TO '{}'", directory.display())).map(drop)
}

/// Tables that get the same batches one after the other: their numbers, and sums of zero.
const IN_TURN: [(&str, &str); 3] = [
    ("twice", "PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2"),
    ("once", "PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS"),
    ("everywhere", "REPLICATED"),
];

const BATCH: u64 = 7;

fn append_in_turn(connection: &Connection, batch: u64) {
    for (table, _) in IN_TURN {
        let rows =
            format!("SELECT {batch} * 100 + i, {batch}, i - 4 FROM generate_series(1, {BATCH}) AS r (i)");
        connection.execute(&format!("INSERT INTO {table} {rows}")).unwrap();
    }
}

fn make_tables(connection: &Connection) {
    for (table, distribution) in IN_TURN {
        let columns = "(k BIGINT, batch BIGINT, v BIGINT)";
        connection.execute(&format!("CREATE TABLE {table} {columns} {distribution}")).unwrap();
    }
    for (table, distribution) in [
        ("updated", "PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2"),
        ("deleted", "PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2"),
    ] {
        connection.execute(&format!("CREATE TABLE {table} (k BIGINT, n BIGINT) {distribution}")).unwrap();
        let rows = "SELECT i, CASE WHEN i % 5 = 0 THEN i / 5 ELSE i / 5 + 1 END FROM generate_series(1, 2000) AS r (i)";
        connection.execute(&format!("INSERT INTO {table} {rows}")).unwrap();
    }
    connection.execute("UPDATE updated SET n = 0").unwrap();
}

/// Returns the only row of a query as numbers.
fn numbers(connection: &Connection, sql: &str) -> Vec<i64> {
    let rows = sorted_rows(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows[0].split('|').map(|number| number.parse().unwrap_or(0)).collect()
}

/// Checks that the rows are those of one moment between two statements. Returns the last batch.
fn check(connection: &Connection) -> u64 {
    let mut last = Vec::new();
    for (table, _) in IN_TURN {
        let sql = format!("SELECT count(*), sum(v), max(batch), count(DISTINCT batch) FROM {table}");
        let found = numbers(connection, &sql);
        assert_eq!(
            (found[0], found[1], found[3]),
            (found[2] * BATCH as i64, 0, found[2]),
            "{table}: {found:?}"
        );
        last.push(found[2]);
    }
    assert!(last[0] >= last[1] && last[1] >= last[2] && last[2] >= last[0] - 1, "{last:?}");
    let updated = numbers(connection, "SELECT count(*), min(n), max(n) FROM updated");
    assert_eq!((updated[0], updated[1]), (2000, updated[2]));
    let deleted = numbers(connection, "SELECT count(*), max(n) - min(n) + 1, count(DISTINCT n) FROM deleted");
    assert_eq!((deleted[0], deleted[1]), (deleted[2] * 5, deleted[2]), "{deleted:?}");
    last[0] as u64
}

/// Runs statements until nobody wants more.
fn repeat(cluster: &Cluster, ends: &AtomicBool, work: impl Fn(&Connection, u64)) {
    let connection = cluster.on(0);
    for number in 1.. {
        if ends.load(Ordering::SeqCst) {
            return;
        }
        work(&connection, number);
    }
}

/// Ends the others also when this thread fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_backup_is_of_one_published_state() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = reopened(directory.path());
    unite(&cluster);
    make_tables(&cluster.on(0));
    // More happens in the time of the test.
    (0..NODES).for_each(|node| drop(cluster.on(node).execute("PRAGMA synchronous = normal").unwrap()));
    let ends = AtomicBool::new(false);
    let backups: Vec<_> = (1..=4).map(|number| directory.path().join(format!("backup {number}"))).collect();
    thread::scope(|scope| {
        let (cluster, ends) = (&cluster, &ends);
        scope.spawn(move || repeat(cluster, ends, append_in_turn));
        scope.spawn(move || {
            repeat(cluster, ends, |on, _| drop(on.execute("UPDATE updated SET n = n + 1").unwrap()));
        });
        scope.spawn(move || {
            let delete = |on: &Connection, n| match n {
                ..390 => drop(on.execute(&format!("DELETE FROM deleted WHERE n = {n}")).unwrap()),
                _ => thread::sleep(Duration::from_millis(10)),
            };
            repeat(cluster, ends, delete);
        });
        let _end = End(ends);
        for backup in &backups {
            thread::sleep(Duration::from_millis(300));
            back_up(cluster, backup).unwrap();
        }
        thread::sleep(Duration::from_millis(300));
    });
    let mut last = vec![0];
    for backup in &backups {
        last.push(check_restored(&reopened(backup)));
    }
    last.push(check(&cluster.on(0)));
    assert!(last.is_sorted() && last[0] < last[5], "{last:?}");
}

/// Checks nodes that were opened from a backup. Returns the last batch that they had.
fn check_restored(restored: &Cluster) -> u64 {
    let known = restored.nodes.iter().map(|node| node.catalog().unwrap()).collect::<Vec<_>>();
    assert!(known.iter().all(|catalog| **catalog == *known[0]));
    for node in 0..NODES {
        restored.on(node).execute("CHECK DATABASE").unwrap();
    }
    let last: Vec<u64> = (0..NODES).map(|node| check(&restored.on(node))).collect();
    assert_eq!(last, [last[0]; NODES]);
    // Whichever replica is read.
    let all = ["twice", "everywhere", "updated", "deleted"].map(|table| format!("SELECT * FROM {table}"));
    let expected = all.each_ref().map(|sql| sorted_rows(&restored.on(0), sql).unwrap());
    for away in 1..NODES {
        restored.cut(away);
        let found = all.each_ref().map(|sql| sorted_rows(&restored.on(0), sql).unwrap());
        assert!(found == expected, "other rows without node {}", away + 1);
        restored.mend(away);
    }
    // Changes go on, over what was never published.
    let writer = restored.on(0);
    append_in_turn(&writer, last[0] + 1);
    if numbers(&writer, "SELECT max(batch) FROM everywhere") == [last[0] as i64 + 1] {
        writer.execute("UPDATE updated SET n = n + 1").unwrap();
        writer.execute("DELETE FROM deleted WHERE n = (SELECT min(n) FROM deleted)").unwrap();
    }
    restored.nodes[0].look_after();
    let count = on_each(restored, "SELECT count(*) FROM twice");
    assert_eq!(count, vec![vec![((last[0] + 1) * BATCH).to_string()]; NODES]);
    assert_eq!(on_each(restored, "SELECT count(DISTINCT n) FROM updated"), vec![vec!["1"]; NODES]);
    last[0]
}

#[test]
fn a_backup_that_cannot_be_made_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(NODES);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS").unwrap();
    connection.execute("INSERT INTO t VALUES (1), (2), (3)").unwrap();
    let target = directory.path().join("backup");
    let statement = format!("BACKUP CLUSTER TO '{}'", target.display());
    let refused = |connection: &Connection, sqlstate: &str, words: &[&str]| {
        let error = connection.execute(&statement).err().unwrap();
        assert_eq!(error.sqlstate(), sqlstate, "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
        assert!(!target.join("n1").exists());
    };
    refused(&cluster.on(1), "25006", &["n1"]);
    connection.execute("BEGIN").unwrap();
    refused(&connection, "25001", &["BACKUP CLUSTER"]);
    connection.execute("ROLLBACK").unwrap();
    cluster.cut(2);
    refused(&connection, "08006", &["n3", "not there"]);
    cluster.mend(2);
    std::fs::create_dir_all(target.join("n2")).unwrap();
    refused(&connection, "22000", &["node \"n2\"", "exists already"]);
    std::fs::remove_dir(target.join("n2")).unwrap();
    connection.set_poll(Some(Arc::new(|_: &Progress| Poll::Interrupt)));
    refused(&connection, "57014", &[]);
    connection.set_poll(None);
    // A name that leads elsewhere.
    connection.execute("ALTER CLUSTER DROP NODE n3").unwrap();
    connection.execute("ALTER CLUSTER ADD NODE \"../n3\" ADDRESS 'h3:1'").unwrap();
    refused(&connection, "22000", &["../n3"]);
    connection.execute("ALTER CLUSTER DROP NODE \"../n3\"").unwrap();
    connection.execute(&statement).unwrap();
    let mut made: Vec<_> =
        std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    made.sort();
    assert_eq!(made, ["n1", "n2"]);
    let one = Database::open(target.join("n2"), OpenOptions::default()).unwrap();
    assert_eq!(sorted_rows(&one.connect().unwrap(), "CHECK DATABASE").unwrap().len(), 0);
}

/// What happens to the third node when it is to write its backup.
const WORKS: usize = 0;
const IS_SLOW: usize = 1;
const IS_LOST: usize = 2;
const FAILS: usize = 3;

struct Faulty {
    wires: Arc<Wires>,
    fault: AtomicUsize,
    /// The node was asked to write.
    begun: AtomicBool,
}

impl Peers for Faulty {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        let (asked, address) = (&request.request, node.address.as_str());
        if let (Request::Backup(Backup::Write { directory, .. }), "h3:1") = (asked, address) {
            // The others are done by then.
            thread::sleep(Duration::from_millis(500));
            self.begun.store(true, Ordering::SeqCst);
            match self.fault.load(Ordering::SeqCst) {
                IS_SLOW => thread::sleep(Duration::from_millis(1500)),
                IS_LOST => return Err(Error::new(ErrorKind::Connection, "it is gone").unreachable()),
                FAILS => std::fs::create_dir(directory).unwrap(),
                _ => {}
            }
        }
        self.wires.call(node, request, rows)
    }
}

#[test]
fn a_backup_that_fails_says_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let wires = Arc::new(Wires::default());
    let faulty = Arc::new(Faulty {
        wires: wires.clone(),
        fault: AtomicUsize::new(WORKS),
        begun: AtomicBool::new(false),
    });
    let peers: Arc<dyn Peers> = faulty.clone();
    let cluster = open(directory.path(), &wires, &peers);
    unite(&cluster);
    let connection = cluster.on(0);
    connection
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 2")
        .unwrap();
    connection.execute("INSERT INTO t SELECT v FROM generate_series(1, 900) AS r (v)").unwrap();
    let hook = faulty.clone();
    connection.set_poll(Some(Arc::new(move |_: &Progress| {
        match hook.begun.load(Ordering::SeqCst) && hook.fault.load(Ordering::SeqCst) == IS_SLOW {
            true => Poll::Interrupt,
            false => Poll::Continue,
        }
    })));
    for (fault, sqlstate, words) in [
        (IS_SLOW, "57014", ["complete, but of no use alone: ", "/n1\" of node \"n1\", "]),
        (IS_LOST, "08006", ["node \"n3\" at h3:1: it is gone; complete", "; unknown: "]),
        (FAILS, "22000", ["node \"n3\" at h3:1: cannot back up", "exists already"]),
    ] {
        faulty.fault.store(fault, Ordering::SeqCst);
        faulty.begun.store(false, Ordering::SeqCst);
        let target = directory.path().join(format!("backup {fault}"));
        let error = connection.execute(&format!("BACKUP CLUSTER TO '{}'", target.display())).err().unwrap();
        assert_eq!(error.sqlstate(), sqlstate, "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
        assert_eq!(error.message().contains("/n3\" of"), fault == IS_LOST, "{error}");
        for (node, is_there) in [("n1", true), ("n2", true), ("n3", fault == FAILS)] {
            assert_eq!(target.join(node).exists(), is_there, "{node}");
        }
    }
    faulty.fault.store(WORKS, Ordering::SeqCst);
    let target = directory.path().join("backup");
    back_up(&cluster, &target).unwrap();
    assert_eq!(
        on_each(&reopened(&target), "SELECT count(*), sum(k) FROM t"),
        vec![vec!["900|405450"]; NODES]
    );
}

/// Nodes of which the second one is promoted when the third one is to take its snapshot, or has.
struct Promoting {
    wires: Arc<Wires>,
    is_before: bool,
}

impl Promoting {
    fn promote(&self) {
        let node = self.wires.nodes.lock().unwrap()["h2:1"].upgrade().unwrap();
        if !node.coordinates() {
            node.promote().unwrap();
        }
    }
}

impl Peers for Promoting {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        let promotes =
            node.address == "h3:1" && matches!(request.request, Request::Backup(Backup::Keep { .. }));
        if promotes && self.is_before {
            self.promote();
        }
        let answer = self.wires.call(node, request, rows);
        if promotes && !self.is_before {
            self.promote();
        }
        answer
    }
}

#[test]
fn another_coordinator_ends_a_backup() {
    for is_before in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let wires = Arc::new(Wires::default());
        let peers: Arc<dyn Peers> = Arc::new(Promoting { wires: wires.clone(), is_before });
        let cluster = open(directory.path(), &wires, &peers);
        unite(&cluster);
        let target = directory.path().join("backup");
        let error = back_up(&cluster, &target).unwrap_err();
        assert_eq!((error.sqlstate(), target.exists()), ("25006", false), "{error}");
        cluster.on(1).execute(&format!("BACKUP CLUSTER TO '{}'", target.display())).unwrap();
        let known = cluster.nodes[1].catalog().unwrap();
        assert!(reopened(&target).nodes.iter().all(|node| node.catalog().unwrap() == known));
    }
}

#[test]
fn nodes_that_are_served_are_backed_up() {
    let serve = |number: usize| {
        let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
        let peers = RemotePeers::new("node", Some("n".into()), None);
        let (name, address) = (format!("n{number}"), served.tcp.to_string());
        let node = served.database.join_cluster(&name, &address, Arc::new(peers)).unwrap();
        (served, node)
    };
    let (mut served, nodes): (Vec<Served>, Vec<_>) = (1..=NODES).map(serve).unzip();
    nodes[0].found_cluster().unwrap();
    let connection = served[0].database.connect().unwrap();
    for node in &nodes[1..] {
        let add = format!("ALTER CLUSTER ADD NODE {} ADDRESS '{}'", node.name(), node.address());
        connection.execute(&add).unwrap();
    }
    connection.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS").unwrap();
    connection.execute("INSERT INTO t SELECT v FROM generate_series(1, 6000) AS r (v)").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let target = |number: usize| directory.path().join(format!("backup {number}"));
    let back_up = |number| connection.execute(&format!("BACKUP CLUSTER TO '{}'", target(number).display()));
    back_up(1).unwrap();
    let rows = |number: usize| {
        let database = Database::open(target(1).join(format!("n{number}")), OpenOptions::default()).unwrap();
        let stored = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'hypostyle_cluster' AND table_name LIKE 't%'";
        sorted_rows(&database.connect().unwrap(), stored).unwrap().len()
    };
    assert_eq!((1..=NODES).map(rows).sum::<usize>(), 6);
    served[1].stop();
    let error = back_up(2).err().unwrap();
    assert!(error.message().starts_with("node \"n2\" at "), "{error}");
    assert!(!target(2).exists());
}

/// Serves the nodes of a backup, each of which is told where the others are, and nothing else is.
fn served_elsewhere(backup: &Path) -> (Vec<Served>, Vec<Arc<Node>>) {
    let serve = |number: usize| {
        let database = Database::open(backup.join(format!("n{number}")), OpenOptions::default()).unwrap();
        Served::new(Setup { users: Some(users()), database: Some(database), ..Setup::default() })
    };
    let served: Vec<Served> = (1..=NODES).map(serve).collect();
    let place = |(number, served): (usize, &Served)| (format!("n{}", number + 1), served.tcp.to_string());
    let places: Vec<(String, String)> = served.iter().enumerate().map(place).collect();
    let join = |(served, (name, address)): (&Served, &(String, String))| {
        let others = places.iter().filter(|(other, _)| other != name).cloned();
        let peers = RemotePeers::new("node", Some("n".into()), None).found_at(others);
        served.database.join_cluster(name, address, Arc::new(peers)).unwrap()
    };
    let nodes = served.iter().zip(&places).map(join).collect();
    (served, nodes)
}

#[test]
fn a_backup_is_restored_at_other_addresses_and_into_other_numbers_of_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let backup = directory.path().join("backup");
    let (made, members) = super::metrics::nodes(NODES);
    let connection = made[0].database.connect().unwrap();
    connection.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS").unwrap();
    connection.execute("INSERT INTO t SELECT v FROM generate_series(1, 6000) AS r (v)").unwrap();
    connection.execute(&format!("BACKUP CLUSTER TO '{}'", backup.display())).unwrap();
    drop((connection, members, made));
    let (mut served, nodes) = served_elsewhere(&backup);
    let coordinator = served[0].database.connect().unwrap();
    let check = |connection: &Connection| {
        assert_eq!(sorted_rows(connection, "SELECT count(*), sum(k) FROM t").unwrap(), ["6000|18003000"]);
    };
    check(&coordinator);
    for node in &nodes {
        let (name, address) = (node.name(), node.address());
        coordinator.execute(&format!("ALTER CLUSTER ADD NODE {name} ADDRESS '{address}'")).unwrap();
    }
    let mut addresses: Vec<&str> = nodes.iter().map(|node| node.address()).collect();
    addresses.sort_unstable();
    let fourth = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let (peers, address) = (RemotePeers::new("node", Some("n".into()), None), fourth.tcp.to_string());
    let _n4 = fourth.database.join_cluster("n4", &address, Arc::new(peers)).unwrap();
    coordinator.execute(&format!("ALTER CLUSTER ADD NODE n4 ADDRESS '{address}'")).unwrap();
    // It finds the others by the catalog.
    let fourth = fourth.database.connect().unwrap();
    let others = "SELECT address FROM hypostyle_cluster.node WHERE node <> 'n4'";
    assert_eq!(sorted_rows(&fourth, others).unwrap(), addresses);
    check(&fourth);
    coordinator.execute("ALTER CLUSTER REBALANCE").unwrap();
    let own = "SELECT count(*) > 0 FROM hypostyle_cluster.replica WHERE node = 'n4'";
    assert_eq!(sorted_rows(&coordinator, own).unwrap(), ["true"]);
    for node in ["n3", "n2"] {
        coordinator.execute(&format!("ALTER CLUSTER DRAIN NODE {node}")).unwrap();
        coordinator.execute(&format!("ALTER CLUSTER DROP NODE {node}")).unwrap();
    }
    served.iter_mut().skip(1).for_each(Served::stop);
    check(&coordinator);
    check(&fourth);
}

#[test]
fn an_export_has_the_tables_of_all_nodes_and_nothing_that_one_keeps() {
    let directory = tempfile::tempdir().unwrap();
    let exported = directory.path().join("exported");
    let cluster = Cluster::new(NODES);
    let connection = cluster.on(1);
    for sql in [
        "CREATE TABLE t (k BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n BIGINT) \
         PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2",
        "CREATE SEQUENCE s START 5 OWNED BY t.n REPLICATED",
        "ALTER TABLE t ALTER COLUMN n SET DEFAULT nextval('s')",
        "INSERT INTO t (n) VALUES (10), (11), (12)",
        "INSERT INTO t DEFAULT VALUES",
        "CREATE TABLE own (a BIGINT)",
        &format!("EXPORT DATABASE '{}'", exported.display()),
    ] {
        connection.execute(sql).unwrap();
    }
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    let one = database.connect().unwrap();
    one.execute(&format!("IMPORT DATABASE '{}'", exported.display())).unwrap();
    assert_eq!(sorted_rows(&one, "SELECT k, n FROM t").unwrap(), ["1|10", "2|11", "3|12", "4|5"]);
    // Both count behind what nodes have taken.
    one.execute("INSERT INTO t DEFAULT VALUES").unwrap();
    assert_eq!(sorted_rows(&one, "SELECT k, n FROM t WHERE k > 4").unwrap(), ["257|261"]);
    let tables = "SELECT table_schema, table_name FROM information_schema.tables \
                  WHERE table_schema IN ('main', 'hypostyle_cluster')";
    assert_eq!(sorted_rows(&one, tables).unwrap(), ["main|own", "main|t"]);
    one.execute("DROP TABLE t").unwrap();
    assert_eq!(one.execute("SELECT nextval('s')").err().unwrap().sqlstate(), "42P01");
}
