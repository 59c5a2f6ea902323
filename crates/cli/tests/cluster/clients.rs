//! Clients that append batches, update and read them, and check each answer.

use crate::nodes::{Nodes, is_open, numbers};
use crate::random::Random;
use hypostyle::{Connection, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest time that a statement may take on a node that runs.
const LIMIT: Duration = Duration::from_secs(12);

/// The rows of a batch, whose keys are counted from 0, and the sum of their keys.
const BATCH: i64 = 100;
const KEYS: i64 = BATCH * (BATCH - 1) / 2;

/// The sum of the weights of a batch: ten times the squares of the digits.
const WEIGHTS: i64 = 2850;

/// The rows of the table that never changes.
const BIG: i64 = 60_000;

/// What makes the tables, on the node that coordinates.
pub const TABLES: [&str; 5] = [
    "CREATE TABLE t (batch BIGINT, k BIGINT, p VARCHAR) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2",
    "CREATE TABLE d (k BIGINT, w BIGINT) REPLICATED",
    "INSERT INTO d SELECT v, v * v FROM generate_series(0, 9) AS r (v)",
    "CREATE TABLE big (v BIGINT, p VARCHAR) PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS REPLICAS 2",
    "INSERT INTO big SELECT v, md5(CAST(v AS VARCHAR)) FROM generate_series(1, 60000) AS r (v)",
];

/// Counts each batch where the rows are.
const COUNTED: &str =
    "SELECT batch, count(*), sum(t.k), sum(d.w) FROM t JOIN d ON t.k % 10 = d.k GROUP BY batch";

/// Brings all rows here.
const ALL: &str = "SELECT batch, k, (k % 10) * (k % 10), length(p) FROM t";

/// What the clients of a campaign have done, and what they have seen.
pub struct Clients<'a> {
    pub nodes: &'a Nodes,
    /// The node that coordinates, as far as this is known.
    pub coordinator: AtomicUsize,
    pub is_over: AtomicBool,
    next: AtomicI64,
    pub acknowledged: Mutex<BTreeSet<i64>>,
    /// Batches that were refused: none of their rows may be there.
    pub refused: Mutex<BTreeMap<i64, String>>,
    /// The batches of each answer.
    seen: Mutex<BTreeSet<Vec<i64>>>,
    /// What was answered with an error, and how often.
    errors: Mutex<BTreeMap<String, usize>>,
    answered: AtomicUsize,
    updated: AtomicUsize,
    slowest: Mutex<(Duration, String)>,
}

impl<'a> Clients<'a> {
    pub fn new(nodes: &'a Nodes) -> Self {
        Self {
            nodes,
            coordinator: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            next: AtomicI64::new(1),
            acknowledged: Mutex::default(),
            refused: Mutex::default(),
            seen: Mutex::default(),
            errors: Mutex::default(),
            answered: AtomicUsize::new(0),
            updated: AtomicUsize::new(0),
            slowest: Mutex::default(),
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst)
    }

    /// Does something on a node, which must end in time unless the node is stopped.
    pub fn timed<T>(&self, node: usize, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let (since, stopped) = (Instant::now(), self.nodes.stopped(node));
        let result = work();
        let took = since.elapsed().saturating_sub(self.nodes.stopped(node) - stopped);
        let outcome = result.as_ref().err().map_or_else(|| "done".into(), Error::to_string);
        let text = format!("{what} on {}: {outcome}", crate::nodes::name(node));
        assert!(took < LIMIT, "{text}, after {took:?}");
        let mut slowest = self.slowest.lock().unwrap();
        if took > slowest.0 {
            *slowest = (took, text);
        }
        result
    }

    fn note(&self, what: &str, error: &Error) {
        let text = format!("{what}: [{} {:?}] {}", error.sqlstate(), error.kind(), error.message());
        *self.errors.lock().unwrap().entry(text).or_default() += 1;
    }

    /// Appends batches, one after the other.
    pub fn append(&self) {
        while self.goes_on() {
            let batch = self.next.fetch_add(1, Ordering::SeqCst);
            let sql = format!(
                "INSERT INTO t SELECT {batch}, v, md5(CAST(v AS VARCHAR)) FROM generate_series(0, 99) AS r (v)"
            );
            self.append_batch(batch, &sql);
            sleep(Duration::from_millis(20));
        }
    }

    fn append_batch(&self, batch: i64, sql: &str) {
        let mut node = self.coordinator.load(Ordering::SeqCst);
        loop {
            let opened = self.nodes.connect(node);
            let appended =
                self.timed(node, "INSERT", || opened.as_ref().map_err(Clone::clone)?.execute(sql).map(drop));
            match appended {
                Ok(()) => {
                    self.acknowledged.lock().unwrap().insert(batch);
                    if let Ok(connection) = &opened {
                        self.read_own(node, connection, batch);
                    }
                    return;
                }
                // Nothing was sent.
                Err(_) if opened.is_err() && self.goes_on() => sleep(Duration::from_millis(50)),
                Err(error) if error.sqlstate() == "25006" && self.goes_on() => {
                    self.note("INSERT", &error);
                }
                Err(error) => {
                    self.note("INSERT", &error);
                    if !is_open(&error) {
                        self.refused.lock().unwrap().insert(batch, error.to_string());
                    }
                    return;
                }
            }
            node = (node + 1) % self.nodes.count();
        }
    }

    /// Updates batches whose rows all get the key of another one of them, so that most move to another
    /// fragment, and all sums stay.
    pub fn update(&self, mut random: Random) {
        while self.goes_on() {
            sleep(Duration::from_millis(50));
            let node = self.coordinator.load(Ordering::SeqCst);
            let batch = 1 + random.below(self.next.load(Ordering::SeqCst) as u64) as i64;
            let is_there = self.acknowledged.lock().unwrap().contains(&batch);
            let Ok(connection) = self.nodes.connect(node) else { continue };
            let sql = format!("UPDATE t SET k = {BATCH} - 1 - k WHERE batch = {batch}");
            match self.timed(node, "UPDATE", || connection.execute(&sql)?.rows_affected().map_or(Ok(0), Ok)) {
                Ok(rows) if is_there => {
                    assert_eq!(rows, BATCH as u64, "updated rows of batch {batch}");
                    self.updated.fetch_add(1, Ordering::SeqCst);
                }
                Ok(rows) => assert!(rows == 0 || rows == BATCH as u64, "{rows} of batch {batch} are updated"),
                // Others append or update, too, and another node may coordinate by now.
                Err(error) if ["40001", "25006"].contains(&error.sqlstate()) => self.note("UPDATE", &error),
                Err(error) => self.check_error("UPDATE", &error),
            }
        }
    }

    /// Who has appended a batch sees it at once on the node that has acknowledged it.
    fn read_own(&self, node: usize, connection: &Connection, batch: i64) {
        let sql = format!("SELECT count(*), sum(k) FROM t WHERE batch = {batch}");
        match self.timed(node, "a batch of one's own", || numbers(connection, &sql)) {
            Ok(rows) => assert_eq!(rows, [[BATCH, KEYS]], "batch {batch} right after it was appended"),
            Err(error) => self.check_error("a batch of one's own", &error),
        }
    }

    /// Queries nodes by turns.
    pub fn read(&self, mut random: Random) {
        while self.goes_on() {
            let node = random.node(self.nodes.count());
            let Ok(connection) = self.nodes.connect(node) else {
                sleep(Duration::from_millis(50));
                continue;
            };
            let (what, result) = match random.below(3) {
                0 => ("big", self.read_big(node, &connection)),
                1 => ("all rows", self.batches_of_rows(node, &connection).map(|seen| self.saw(seen))),
                _ => ("counts", self.batches(node, &connection).map(|seen| self.saw(seen))),
            };
            match result {
                Ok(()) => drop(self.answered.fetch_add(1, Ordering::SeqCst)),
                Err(error) => self.check_error(what, &error),
            }
        }
    }

    fn saw(&self, batches: Vec<i64>) {
        self.seen.lock().unwrap().insert(batches);
    }

    /// A query that fails does so because nodes are away, and says so.
    fn check_error(&self, what: &str, error: &Error) {
        self.note(what, error);
        assert!(is_open(error) || error.sqlstate() == "58030", "{what}: [{}] {error}", error.sqlstate());
    }

    /// Returns the batches of the table, which are whole.
    pub fn batches(&self, node: usize, connection: &Connection) -> Result<Vec<i64>> {
        let mut rows = self.timed(node, COUNTED, || numbers(connection, COUNTED))?;
        rows.sort();
        for row in &rows {
            assert_eq!(
                row[1..],
                [BATCH, KEYS, WEIGHTS],
                "a batch, its rows, keys and weights on node {node}: {row:?}"
            );
        }
        Ok(rows.into_iter().map(|row| row[0]).collect())
    }

    fn batches_of_rows(&self, node: usize, connection: &Connection) -> Result<Vec<i64>> {
        let mut counted = BTreeMap::<i64, [i64; 3]>::new();
        for row in self.timed(node, ALL, || numbers(connection, ALL))? {
            assert_eq!(row[3], 32, "the length of a text of batch {}", row[0]);
            let sums = counted.entry(row[0]).or_default();
            *sums = [sums[0] + 1, sums[1] + row[1], sums[2] + row[2]];
        }
        for (batch, sums) in &counted {
            assert_eq!(*sums, [BATCH, KEYS, WEIGHTS], "batch {batch}, all rows from node {node}");
        }
        Ok(counted.into_keys().collect())
    }

    fn read_big(&self, node: usize, connection: &Connection) -> Result<()> {
        let sql = "SELECT v, length(p) FROM big";
        let rows = self.timed(node, sql, || numbers(connection, sql))?;
        let sums = rows.iter().fold([0, 0], |sums, row| [sums[0] + row[0], sums[1] + row[1]]);
        let expected = (BIG, [BIG * (BIG + 1) / 2, BIG * 32]);
        assert_eq!((rows.len() as i64, sums), expected, "big from node {node}");
        Ok(())
    }

    /// Checks that every answer is of one history: of two of them, one has all batches of the other.
    pub fn check_history(&self, last: &[i64]) {
        let mut seen: Vec<Vec<i64>> = self.seen.lock().unwrap().iter().cloned().collect();
        seen.push(last.into());
        seen.sort_by_key(Vec::len);
        for pair in seen.windows(2) {
            let lacking: Vec<&i64> =
                pair[0].iter().filter(|batch| pair[1].binary_search(batch).is_err()).collect();
            assert!(lacking.is_empty(), "batches {lacking:?} were seen, and later ones without them");
        }
    }

    pub fn report(&self) {
        let appended = self.acknowledged.lock().unwrap().len();
        let slowest = self.slowest.lock().unwrap();
        let (answered, updated) = (self.answered.load(Ordering::SeqCst), self.updated.load(Ordering::SeqCst));
        println!("{answered} queries answered, {appended} batches appended, {updated} updated");
        println!("slowest: {:?}, {}", slowest.0, slowest.1);
        for (text, count) in self.errors.lock().unwrap().iter() {
            println!("{count} × {text}");
        }
    }
}
