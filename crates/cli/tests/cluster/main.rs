//! A cluster of real processes that are killed, stopped, drained, promoted and cut off from each other
//! while clients append, update, alter and read. Each answer is right for some published state, comes in
//! time, and no acknowledged row is lost or doubled.

mod clients;
#[path = "../common/mod.rs"]
mod common;
mod large;
mod links;
mod many;
mod nodes;
mod random;

use clients::{Clients, TABLES};
use hypostyle::Result;
use hypostyle::arrow::array::AsArray;
use hypostyle::arrow::compute::cast;
use hypostyle::arrow::datatypes::{DataType, Float64Type};
use nodes::{Nodes, name, numbers};
use random::{Random, rounds, seeds};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time in which everything is in order again when all nodes are there.
const HEAL: Duration = Duration::from_secs(60);

/// The time in which a coordinator is replaced (docs/cluster.md).
const REPLACED: Duration = Duration::from_secs(30);

/// No file of a node with a full disk is longer, unless it was before.
const FULL: u64 = 4096;

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillWorker,
    KillCoordinator,
    Stop,
    Promote,
    /// The coordinator dies, another node is promoted, and the one before comes back.
    Replace,
    /// A node is drained, dropped and added again, and another is killed or stopped meanwhile.
    Move,
    /// All that a node and the others send to each other is lost for some time.
    Isolate,
    /// All that a node sends to the others is lost, or all that they send to it.
    OneWay,
    /// The connections of a node to the others are reset, and new ones for some time.
    Cut,
    /// The coordinator is isolated, and another node is promoted. Both believe that they coordinate.
    Depose,
    /// No file of a node grows any more, for some time.
    FullDisk,
    /// A node that does not coordinate ends, and begins with the files that it had some time before.
    OldFiles,
}

const FAULTS: [Fault; 8] = [
    Fault::KillWorker,
    Fault::KillWorker,
    Fault::KillCoordinator,
    Fault::Stop,
    Fault::Stop,
    Fault::Promote,
    Fault::Replace,
    Fault::Replace,
];

const LINK_FAULTS: [Fault; 8] = [
    Fault::Isolate,
    Fault::Isolate,
    Fault::OneWay,
    Fault::OneWay,
    Fault::Cut,
    Fault::Cut,
    Fault::Depose,
    Fault::KillCoordinator,
];

const MOVES: [Fault; 5] = [Fault::Move, Fault::KillWorker, Fault::Move, Fault::Stop, Fault::Move];

const DISK_FAULTS: [Fault; 5] =
    [Fault::FullDisk, Fault::FullDisk, Fault::KillWorker, Fault::FullDisk, Fault::Stop];

/// Nobody else begins to coordinate meanwhile: a node with old files has forgotten what it has promised
/// (docs/cluster.md).
const FILE_FAULTS: [Fault; 5] =
    [Fault::OldFiles, Fault::KillWorker, Fault::OldFiles, Fault::Stop, Fault::OldFiles];

/// How often each fault comes in a round of many.
const PASSES: usize = 2;

/// `make test-long` has 20 rounds, and promises 1,000 faults.
const _: () = {
    let kinds = FAULTS.len() + LINK_FAULTS.len() + MOVES.len() + DISK_FAULTS.len() + FILE_FAULTS.len();
    assert!(20 * PASSES * kinds >= 1000);
};

/// The faults of all campaigns of this process.
static FAULTS_INJECTED: AtomicUsize = AtomicUsize::new(0);

/// Ends the clients, also when a check fails.
struct End<'a, 'b>(&'a Clients<'b>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

#[test]
fn failures_lose_nothing_and_nobody_waits_for_them() {
    campaign(&FAULTS, "cluster-campaign", false);
}

#[test]
fn links_that_fail_lose_nothing_and_nobody_waits_for_them() {
    campaign(&LINK_FAULTS, "cluster-links", true);
}

#[test]
fn rows_are_moved_while_nodes_fail() {
    campaign(&MOVES, "cluster-moves", false);
}

#[test]
fn full_disks_lose_nothing_and_nobody_waits_for_them() {
    campaign(&DISK_FAULTS, "cluster-disks", false);
}

#[test]
fn old_files_lose_nothing_and_nobody_waits_for_them() {
    // One such fault is tried by a_node_with_files_of_before_gives_no_rows_of_before.
    if rounds() > 1 {
        campaign(&FILE_FAULTS, "cluster-old-files", false);
    }
}

/// How a coordinator is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Killed,
    Stopped,
    /// All that it and the others send to each other is lost.
    Isolated,
}

impl Loss {
    fn begin(self, nodes: &Nodes, node: usize) {
        match self {
            Self::Killed => nodes.kill(node),
            Self::Stopped => nodes.signal(node, Signal::STOP),
            Self::Isolated => isolate(nodes, node, [true; 2]),
        }
    }

    fn end(self, nodes: &Nodes, node: usize) {
        match self {
            Self::Killed => {
                nodes.begin(node);
                nodes.wait(node);
            }
            Self::Stopped => nodes.signal(node, Signal::CONT),
            Self::Isolated => isolate(nodes, node, [false; 2]),
        }
    }
}

/// Waits until something is so.
fn until(time: Duration, what: &str, is_so: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < time, "{what}: not within {time:?}");
        thread::sleep(Duration::from_millis(100));
    }
    since.elapsed()
}

/// Returns how many replicas are not in sync, as a node knows it.
fn behind(nodes: &Nodes, node: usize) -> Result<usize> {
    let shown = nodes.connect(node)?.execute("SHOW FRAGMENTS")?.record_batches()?;
    let in_sync = shown.iter().filter_map(|batch| batch.column_by_name("in_sync"));
    Ok(in_sync.map(|column| column.as_boolean().false_count()).sum())
}

#[test]
fn a_coordinator_that_is_lost_is_replaced() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-failover");
    let nodes = Nodes::start(&directory, 3, true, true);
    unite(&nodes).unwrap();
    nodes.run(0, "CREATE TABLE kept (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 3").unwrap();
    let mut written = 0;
    let mut write = |node: usize| {
        let since = Instant::now();
        while let Err(error) = nodes.run(node, &format!("INSERT INTO kept VALUES ({written})")) {
            // These say that nothing was changed.
            assert!(["57P03", "40001", "25006"].contains(&error.sqlstate()), "{error}");
            assert!(since.elapsed() < HEAL, "{error}");
            thread::sleep(Duration::from_millis(200));
        }
        written += 1;
    };
    for loss in [Loss::Killed, Loss::Stopped, Loss::Isolated, Loss::Killed] {
        (0..3).for_each(&mut write);
        let lost = nodes.coordinator(0).unwrap();
        // Otherwise it may have the only rows of a fragment.
        until(HEAL, "the replicas are in sync", || behind(&nodes, lost).is_ok_and(|behind| behind == 0));
        let (other, third) = ((lost + 1) % 3, (lost + 2) % 3);
        loss.begin(&nodes, lost);
        let is_replaced = || nodes.coordinator(other).is_some_and(|coordinator| coordinator != lost);
        let took = until(REPLACED, &format!("{loss:?}: the coordinator is replaced"), is_replaced);
        println!("{loss:?}: replaced after {took:?}");
        [other, third].into_iter().for_each(&mut write);
        loss.end(&nodes, lost);
        let is_told = || nodes.coordinator(lost).is_some_and(|coordinator| coordinator != lost);
        until(HEAL, &format!("{loss:?}: the one before knows it"), is_told);
        write(lost);
    }
    for node in 0..3 {
        let count = "SELECT count(*), count(DISTINCT k), max(k) FROM kept";
        let found = numbers(&nodes.connect(node).unwrap(), count).unwrap();
        assert_eq!(found, [[written, written, written - 1]], "{}", name(node));
    }
    drop(nodes);
    std::fs::remove_dir_all(directory).unwrap();
}

/// Returns how many requests of other nodes a node has worked for since half a second and longer.
fn served(nodes: &Nodes, node: usize) -> Result<usize> {
    let shown = nodes.connect(node)?.execute("SHOW SESSIONS")?.record_batches()?;
    let of_batch = shown.iter().map(|batch| {
        let text = |name: &str| cast(batch.column_by_name(name).unwrap(), &DataType::Utf8).unwrap();
        let (states, statements) = (text("state"), text("statement"));
        let seconds = batch.column_by_name("seconds").unwrap().as_primitive::<Float64Type>();
        let sessions = states.as_string::<i32>().iter().zip(statements.as_string::<i32>()).zip(seconds);
        let works = |((state, statement), seconds): &((Option<&str>, Option<&str>), Option<f64>)| {
            let is_call = statement.is_some_and(|statement| statement.starts_with("call of "));
            *state == Some("active") && is_call && seconds.is_some_and(|seconds| seconds > 0.5)
        };
        sessions.filter(works).count()
    });
    Ok(of_batch.sum())
}

/// The time in which nothing is left of a query whose node was killed: the others notice it at once.
const ENDED: Duration = Duration::from_secs(10);

#[test]
fn nothing_is_left_of_the_queries_of_a_node_that_was_killed() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-asked");
    let nodes = Nodes::start(&directory, 3, false, false);
    unite(&nodes).unwrap();
    for sql in [
        "CREATE TABLE p (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2",
        "INSERT INTO p SELECT x FROM generate_series(1, 3000) AS r (x)",
        "CREATE TABLE whole (k BIGINT) REPLICATED",
        "INSERT INTO whole SELECT k FROM p",
    ] {
        nodes.run(0, sql).unwrap();
    }
    // No row of it ever comes; in stages, rows of both nodes meet on them.
    let endless = |table: &str| {
        format!(
            "SELECT count(*) FROM p JOIN {table} AS one ON p.k % 2 = one.k % 2 JOIN {table} AS other \
             ON one.k % 2 = other.k % 2 WHERE (p.k + one.k + other.k) % 7919 = -1"
        )
    };
    // The node that is asked does not coordinate, so that the others are served meanwhile.
    for (stages, table) in [("off", "whole"), ("on", "p")] {
        let asked = nodes.connect(2).unwrap();
        asked.execute(&format!("SET stages = {stages}")).unwrap();
        let query = endless(table);
        thread::scope(|scope| {
            scope.spawn(move || {
                drop(asked.execute(&query).and_then(|rows| rows.record_batches()).unwrap_err())
            });
            for other in 0..2 {
                until(HEAL, "a query runs on all nodes", || {
                    served(&nodes, other).is_ok_and(|count| count > 0)
                });
            }
            nodes.kill(2);
            for other in 0..2 {
                let what = format!("stages {stages}: {} ends its work for a killed node", name(other));
                until(ENDED, &what, || served(&nodes, other).is_ok_and(|count| count == 0));
            }
            // The client looks for its session there.
            nodes.begin(2);
            nodes.wait(2);
        });
    }
    let whole = nodes.connect(2).unwrap();
    whole.execute("SET stages = on").unwrap();
    let count = "SELECT count(*) FROM p JOIN p AS one ON p.k % 1000 = one.k % 1000";
    let since = Instant::now();
    loop {
        match numbers(&whole, count) {
            Ok(rows) => break assert_eq!(rows, [[9000]]),
            Err(error) => assert!(since.elapsed() < HEAL, "{error}"),
        }
        thread::sleep(Duration::from_millis(200));
    }
    drop(nodes);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_node_with_files_of_before_gives_no_rows_of_before() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-files");
    let nodes = Nodes::start(&directory, 3, false, false);
    unite(&nodes).unwrap();
    let sum = "SELECT count(*), sum(k), sum(v) FROM kept";
    for sql in [
        "CREATE TABLE kept (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2",
        "INSERT INTO kept SELECT x, 1 FROM generate_series(1, 3000) AS r (x)",
    ] {
        nodes.run(0, sql).unwrap();
    }
    nodes.kill(2);
    let restore = nodes.keep_files(2);
    nodes.begin(2);
    nodes.wait(2);
    let expected = [[2999, 3001 * 1500 - 7, 2 * 2999]];
    // The node has these rows, and then it has not.
    for sql in ["UPDATE kept SET v = 2", "DELETE FROM kept WHERE k = 7"] {
        let since = Instant::now();
        while let Err(error) = nodes.run(0, sql) {
            assert!(since.elapsed() < HEAL, "{sql}: {error}");
            thread::sleep(Duration::from_millis(200));
        }
    }
    let answer = |node: usize| numbers(&nodes.connect(node)?, sum);
    until(HEAL, "all nodes have the rows", || {
        (0..3).all(|node| answer(node).is_ok_and(|rows| rows == expected))
    });
    nodes.kill(2);
    restore();
    nodes.begin(2);
    nodes.wait(2);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(10) {
        for node in 0..3 {
            match answer(node) {
                Ok(rows) => assert_eq!(rows, expected, "{}", name(node)),
                Err(error) => assert!(["58030", "55000", "08006"].contains(&error.sqlstate()), "{error}"),
            }
        }
        assert_eq!(answer(0).unwrap(), expected, "the other replicas are there");
    }
    drop(nodes);
    std::fs::remove_dir_all(directory).unwrap();
}

/// Loses what a node sends to the others, and what they send to it, or does not.
fn isolate(nodes: &Nodes, node: usize, [sends, gets]: [bool; 2]) {
    for other in (0..nodes.count()).filter(|other| *other != node) {
        nodes.links().lose(node, other, sends);
        nodes.links().lose(other, node, gets);
    }
}

fn campaign(faults: &[Fault], name: &str, by_links: bool) {
    for seed in seeds() {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Who coordinates is said by the campaign.
        let nodes = Nodes::start(&directory, 3, by_links, false);
        unite(&nodes).unwrap();
        let clients = Clients::new(&nodes, faults.iter().any(|fault| matches!(fault, Fault::FullDisk)));
        thread::scope(|scope| {
            let clients = &clients;
            let _end = End(clients);
            for stream in 1..=2 {
                scope.spawn(move || clients.append(Random::new(seed, stream + 10), stream == 1));
                scope.spawn(move || clients.read(Random::new(seed, stream)));
            }
            scope.spawn(move || clients.update(Random::new(seed, 3)));
            scope.spawn(move || clients.alter(Random::new(seed, 4)));
            let mut random = Random::new(seed, 0);
            let mut faults = faults.repeat(if rounds() > 1 { PASSES } else { 1 });
            random.shuffle(&mut faults);
            for fault in faults {
                clients.inject(fault, &mut random);
                thread::sleep(Duration::from_millis(300 + random.below(700)));
            }
        });
        clients.report();
        clients.check();
        println!("{name}: {} faults by now", FAULTS_INJECTED.load(Ordering::SeqCst));
        drop(nodes);
        std::fs::remove_dir_all(directory).unwrap();
    }
}

/// Makes nodes a cluster with tables.
fn unite(nodes: &Nodes) -> Result<()> {
    let first = nodes.connect(0)?;
    first.execute(&format!("ALTER CLUSTER PROMOTE {}", name(0)))?;
    for node in 1..nodes.count() {
        first.execute(&format!("ALTER CLUSTER ADD NODE {} ADDRESS '{}'", name(node), nodes.address(node)))?;
    }
    TABLES.iter().try_for_each(|sql| first.execute(sql).map(drop))
}

/// A time for which others wait for a silent node, or for which they give it up.
fn some_time(random: &mut Random) -> Duration {
    let longest = if random.below(4) == 0 { 7000 } else { 1500 };
    Duration::from_millis(1000 + random.below(longest))
}

impl Clients<'_> {
    fn coordinator(&self) -> usize {
        self.coordinator.load(Ordering::SeqCst)
    }

    /// Returns a node that does not coordinate.
    fn worker(&self, random: &mut Random) -> usize {
        (self.coordinator() + 1 + random.node(self.nodes.count() - 1)) % self.nodes.count()
    }

    fn inject(&self, fault: Fault, random: &mut Random) {
        println!("fault {}: {fault:?}", FAULTS_INJECTED.fetch_add(1, Ordering::SeqCst) + 1);
        match fault {
            Fault::KillWorker => self.kill(self.worker(random), random),
            Fault::KillCoordinator => self.kill(self.coordinator(), random),
            Fault::Stop => self.stop(random),
            Fault::Promote => self.promote(self.worker(random)),
            Fault::Replace => {
                let (before, next) = (self.coordinator(), self.worker(random));
                self.nodes.kill(before);
                self.promote(next);
                thread::sleep(Duration::from_millis(random.below(1000)));
                self.nodes.begin(before);
                self.nodes.wait(before);
            }
            Fault::Move => self.move_rows(random),
            Fault::Isolate => self.isolate(random.node(self.nodes.count()), [true; 2], random, || {}),
            Fault::OneWay => {
                let sends = random.below(2) == 0;
                self.isolate(random.node(self.nodes.count()), [sends, !sends], random, || {});
            }
            Fault::Cut => self.cut(random),
            Fault::Depose => {
                let next = self.worker(random);
                self.isolate(self.coordinator(), [true; 2], random, || self.promote(next));
            }
            Fault::FullDisk => {
                let node = random.node(self.nodes.count());
                self.nodes.limit_files(node, Some(FULL));
                thread::sleep(some_time(random));
                self.nodes.limit_files(node, None);
            }
            Fault::OldFiles => self.give_old_files(random),
        }
    }

    /// Gives a node the files that it had before, while it does not run.
    fn give_old_files(&self, random: &mut Random) {
        let node = self.worker(random);
        self.nodes.kill(node);
        let restore = self.nodes.keep_files(node);
        self.nodes.begin(node);
        self.nodes.wait(node);
        thread::sleep(some_time(random));
        self.nodes.kill(node);
        restore();
        self.nodes.begin(node);
        self.nodes.wait(node);
    }

    fn kill(&self, node: usize, random: &mut Random) {
        self.nodes.kill(node);
        thread::sleep(Duration::from_millis(random.below(1500)));
        self.nodes.begin(node);
        self.nodes.wait(node);
    }

    fn stop(&self, random: &mut Random) {
        self.nodes.stop(random.node(self.nodes.count()), some_time(random));
    }

    /// Loses what a node sends to the others, or they to it, while something is done, and for some time.
    fn isolate(&self, node: usize, [sends, gets]: [bool; 2], random: &mut Random, work: impl FnOnce()) {
        isolate(self.nodes, node, [sends, gets]);
        work();
        thread::sleep(some_time(random));
        isolate(self.nodes, node, [false; 2]);
    }

    /// Resets the connections of a node to one other node, or to all.
    fn cut(&self, random: &mut Random) {
        let (node, count) = (random.node(self.nodes.count()), self.nodes.count());
        let others = 1 + random.node(count - 1);
        let cut = |is_cut| {
            (1..=others).for_each(|step| self.nodes.links().cut(node, (node + step) % count, is_cut));
        };
        cut(true);
        thread::sleep(Duration::from_millis(random.below(1500)));
        cut(false);
    }

    /// Makes a node the coordinator, which succeeds as long as a majority is there.
    fn promote(&self, node: usize) {
        let sql = format!("ALTER CLUSTER PROMOTE {}", name(node));
        self.timed(node, "PROMOTE", || self.nodes.run(node, &sql)).unwrap();
        self.coordinator.store(node, Ordering::SeqCst);
    }

    fn move_rows(&self, random: &mut Random) {
        let node = self.worker(random);
        thread::scope(|scope| {
            scope.spawn(|| self.until_done(&format!("ALTER CLUSTER DRAIN NODE {}", name(node))));
            thread::sleep(Duration::from_millis(random.below(500)));
            match random.below(2) {
                0 => self.kill(random.node(self.nodes.count()), random),
                _ => self.stop(random),
            }
        });
        self.until_done(&format!("ALTER CLUSTER DROP NODE {}", name(node)));
        let address = self.nodes.address(node);
        self.until_done(&format!("ALTER CLUSTER ADD NODE {} ADDRESS '{address}'", name(node)));
        self.until_done("ALTER CLUSTER REBALANCE");
    }

    /// Repeats a statement until it succeeds.
    fn until_done(&self, sql: &str) {
        let since = Instant::now();
        while let Err(error) = self.nodes.run(self.coordinator(), sql) {
            assert!(since.elapsed() < HEAL, "{sql}: {error}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Checks that all is in order when all nodes are there, and when any one is away.
    fn check(&self) {
        let since = Instant::now();
        while let Some(why) = self.disorder() {
            assert!(since.elapsed() < HEAL, "{why}");
            thread::sleep(Duration::from_millis(200));
        }
        let count = self.nodes.count();
        let on = |node: usize| self.batches_at_last(node);
        let last = on(0);
        self.check_history(&last);
        let lacking = |batch: &&i64| last.binary_search(batch).is_err();
        let acknowledged = self.acknowledged.lock().unwrap();
        let lost: Vec<&i64> = acknowledged.iter().filter(lacking).collect();
        assert!(lost.is_empty(), "acknowledged batches {lost:?} are lost");
        let refused = self.refused.lock().unwrap();
        let there: Vec<_> = refused.iter().filter(|(batch, _)| !lacking(batch)).collect();
        assert!(there.is_empty(), "batches are there that were refused: {there:?}");
        self.await_health(None);
        for away in 0..count {
            self.nodes.kill(away);
            if away != self.coordinator() {
                self.await_health(Some(away));
            }
            for node in (0..count).filter(|node| *node != away) {
                assert_eq!(on(node), last, "node {node} without node {away}");
            }
            self.nodes.begin(away);
            self.nodes.wait(away);
            assert_eq!(on(away), last, "node {away}");
        }
    }

    /// Returns the batches of the table once a node knows who is there.
    fn batches_at_last(&self, node: usize) -> Vec<i64> {
        let since = Instant::now();
        loop {
            match self.nodes.connect(node).and_then(|connection| self.batches(node, &connection)) {
                Ok(batches) => return batches,
                Err(error) => assert!(since.elapsed() < HEAL, "{}: {error}", name(node)),
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns what the coordinator says of each node, by name: whether it is reachable, and what is wrong.
    fn problems(&self) -> Result<BTreeMap<String, (bool, Option<String>)>> {
        let shown =
            self.nodes.connect(self.coordinator())?.execute("SHOW CLUSTER")?.record_batches()?.remove(0);
        let text = |name: &str| cast(shown.column_by_name(name).unwrap(), &DataType::Utf8).unwrap();
        let (names, problems) = (text("node"), text("problem"));
        let reachable = shown.column_by_name("reachable").unwrap().as_boolean().iter();
        let health = reachable.zip(problems.as_string::<i32>());
        let health = health.map(|(is, why)| (is == Some(true), why.map(String::from)));
        Ok(names.as_string::<i32>().iter().map(|name| name.unwrap().to_string()).zip(health).collect())
    }

    /// Waits until the coordinator says that all nodes are there, but for this one.
    fn await_health(&self, away: Option<usize>) {
        let since = Instant::now();
        let away = away.map(name);
        loop {
            let found = self.problems().unwrap();
            if found.iter().all(|(node, (is_there, why))| {
                let is_away = Some(node.as_str()) == away.as_deref();
                *is_there != is_away && why.is_some() == is_away
            }) {
                return;
            }
            assert!(since.elapsed() < HEAL, "without {away:?}: {found:?}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Says what is not in order yet.
    fn disorder(&self) -> Option<String> {
        let behind = match behind(self.nodes, self.coordinator()) {
            Ok(behind) => behind,
            Err(error) => return Some(error.to_string()),
        };
        if behind > 0 {
            return Some(format!("{behind} replicas are not in sync: {:?}", self.problems()));
        }
        let epochs: Result<Vec<u64>> = (0..self.nodes.count()).map(|node| self.nodes.epoch(node)).collect();
        match epochs {
            Ok(epochs) if epochs.iter().all(|epoch| *epoch == epochs[0]) => None,
            Ok(epochs) => Some(format!("the nodes know the epochs {epochs:?}")),
            Err(error) => Some(error.to_string()),
        }
    }
}
