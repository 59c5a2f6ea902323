//! Clients that append batches, update and read them, alter their table, and check each answer.

use crate::nodes::{Nodes, is_open, numbers};
use crate::random::Random;
use hypostyle::{Connection, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// The longest time that a statement may take on a node that runs. It should be 10 s: the slowest one of
/// some 900 faults took 8.8 s, with three campaigns on two cores. The rest is for slower machines.
const LIMIT: Duration = Duration::from_secs(20);

/// How many statements that change a table may begin until one is not sent again under its name: the
/// cluster knows the names of the last 64 that were published.
const NAMES: usize = 60;

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

/// What came of a statement that changes the table.
enum Outcome {
    /// It was done, on a node.
    Done { node: usize, connection: Connection, rows: u64 },
    /// It has changed nothing.
    Refused(Error),
    /// Nobody knows.
    Open(Error),
}

/// What the clients of a campaign have done, and what they have seen.
pub struct Clients<'a> {
    pub nodes: &'a Nodes,
    /// The node that coordinates, as far as this is known.
    pub coordinator: AtomicUsize,
    pub is_over: AtomicBool,
    next: AtomicI64,
    /// How many statements have begun that change the table.
    begun: AtomicUsize,
    pub acknowledged: Mutex<BTreeSet<i64>>,
    /// Batches that were refused: none of their rows may be there.
    pub refused: Mutex<BTreeMap<i64, String>>,
    /// The batches of each answer.
    seen: Mutex<BTreeSet<Vec<i64>>>,
    /// What was answered with an error, and how often.
    errors: Mutex<BTreeMap<String, usize>>,
    answered: AtomicUsize,
    updated: AtomicUsize,
    altered: AtomicUsize,
    /// Statements that were sent again under their name, and those of them that then had an outcome.
    again: AtomicUsize,
    settled: AtomicUsize,
    slowest: Mutex<(Duration, String)>,
    /// Whether disks are full: a node may have no room for a column that others have.
    has_full_disks: bool,
}

impl<'a> Clients<'a> {
    pub fn new(nodes: &'a Nodes, has_full_disks: bool) -> Self {
        Self {
            nodes,
            has_full_disks,
            coordinator: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            next: AtomicI64::new(1),
            begun: AtomicUsize::new(0),
            acknowledged: Mutex::default(),
            refused: Mutex::default(),
            seen: Mutex::default(),
            errors: Mutex::default(),
            answered: AtomicUsize::new(0),
            updated: AtomicUsize::new(0),
            altered: AtomicUsize::new(0),
            again: AtomicUsize::new(0),
            settled: AtomicUsize::new(0),
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

    /// Appends batches, one after the other. Statements with names are sent again until it is known what
    /// came of them.
    pub fn append(&self, mut random: Random, are_named: bool) {
        while self.goes_on() {
            let batch = self.next.fetch_add(1, Ordering::SeqCst);
            let sql = format!(
                "INSERT INTO t (batch, k, p) SELECT {batch}, v, md5(CAST(v AS VARCHAR)) FROM generate_series(0, 99) AS r (v)"
            );
            let name = are_named.then(|| random.uuid());
            let written = match name.is_some() && random.below(8) == 0 {
                true => self.write_twice(&sql, name.as_deref()),
                false => self.write("INSERT", &sql, name.as_deref()),
            };
            match written {
                Outcome::Done { node, connection, rows } => {
                    assert_eq!(rows, BATCH as u64, "appended rows of batch {batch}");
                    self.acknowledged.lock().unwrap().insert(batch);
                    self.read_own(node, &connection, batch);
                }
                Outcome::Refused(error) => {
                    self.refused.lock().unwrap().insert(batch, error.to_string());
                }
                Outcome::Open(_) => {}
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Sends a statement twice at the same time, as a client does that has given the first one up.
    fn write_twice(&self, sql: &str, name: Option<&str>) -> Outcome {
        let (one, other) = thread::scope(|scope| {
            let other = scope.spawn(|| self.write("INSERT", sql, name));
            (self.write("INSERT", sql, name), other.join().unwrap())
        });
        match (one, other) {
            (done @ Outcome::Done { .. }, _) | (_, done @ Outcome::Done { .. }) => done,
            (open @ Outcome::Open(_), _) | (_, open) => open,
        }
    }

    /// Runs a statement that changes the table, on the node that coordinates or, every other time, on the
    /// next one. If it has a name, it is sent again for as long as nobody knows what came of it.
    fn write(&self, what: &str, sql: &str, name: Option<&str>) -> Outcome {
        let (mut open, first) = (None, self.begun());
        let coordinator = self.coordinator.load(Ordering::SeqCst);
        let mut node = (coordinator + usize::from(first % 2 == 1)) % self.nodes.count();
        loop {
            let opened = self.nodes.connect(node);
            let written = self.timed(node, what, || self.send(opened.as_ref(), sql, name));
            let error = match written {
                Ok(rows) => {
                    self.settled.fetch_add(usize::from(open.is_some()), Ordering::SeqCst);
                    return Outcome::Done { node, connection: opened.unwrap(), rows };
                }
                Err(error) => error,
            };
            let is_sent = opened.is_ok();
            if is_sent {
                self.note(what, &error);
            }
            // These say that nothing was changed.
            let is_refused = !is_sent || ["25006", "57P03"].contains(&error.sqlstate());
            let is_elsewhere = !is_sent || error.sqlstate() == "25006";
            let may_go_on = is_refused || (is_open(&error) && name.is_some());
            if !is_refused && is_open(&error) {
                open = Some(error.clone());
            }
            let is_known = open.is_none() || self.begun() - first <= NAMES;
            if !may_go_on || !is_known || !self.goes_on() {
                return open.map_or(Outcome::Refused(error), Outcome::Open);
            }
            self.again.fetch_add(usize::from(open.is_some()), Ordering::SeqCst);
            if error.sqlstate() != "25006" {
                sleep(Duration::from_millis(50));
            }
            if is_elsewhere {
                node = (node + 1) % self.nodes.count();
            }
        }
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Returns the number of rows that a statement has changed.
    fn send(&self, opened: Result<&Connection, &Error>, sql: &str, name: Option<&str>) -> Result<u64> {
        let connection = opened.map_err(Clone::clone)?;
        if let Some(name) = name {
            connection.execute(&format!("SET statement_id = '{name}'"))?;
        }
        self.begun.fetch_add(1, Ordering::SeqCst);
        Ok(connection.execute(sql)?.rows_affected().unwrap_or(0))
    }

    /// Updates batches whose rows all get the key of another one of them, so that most move to another
    /// fragment, and all sums stay.
    pub fn update(&self, mut random: Random) {
        while self.goes_on() {
            sleep(Duration::from_millis(50));
            let batch = 1 + random.below(self.next.load(Ordering::SeqCst) as u64) as i64;
            let is_there = self.acknowledged.lock().unwrap().contains(&batch);
            let sql = format!("UPDATE t SET k = {BATCH} - 1 - k WHERE batch = {batch}");
            match self.write("UPDATE", &sql, Some(&random.uuid())) {
                // Another node may not know yet that the batch is there.
                Outcome::Done { node, rows, .. }
                    if is_there && node == self.coordinator.load(Ordering::SeqCst) =>
                {
                    assert_eq!(rows, BATCH as u64, "updated rows of batch {batch}");
                    self.updated.fetch_add(1, Ordering::SeqCst);
                }
                Outcome::Done { rows, .. } => {
                    assert!(rows == 0 || rows == BATCH as u64, "{rows} of batch {batch} are updated");
                }
                // Others append, update or alter, too.
                Outcome::Refused(error) if error.sqlstate() == "40001" || is_of_term(&error) => {}
                Outcome::Refused(error) | Outcome::Open(error) => self.check_error("UPDATE", &error),
            }
        }
    }

    /// Adds a column and drops it again, each time with another value in all rows.
    pub fn alter(&self, mut random: Random) {
        for value in 1.. {
            sleep(Duration::from_millis(500 + random.below(1500)));
            if !self.goes_on() {
                return;
            }
            let add = format!("ALTER TABLE t ADD COLUMN x BIGINT DEFAULT {value}");
            for sql in ["ALTER TABLE t DROP COLUMN IF EXISTS x", &add] {
                match self.write("ALTER", sql, None) {
                    Outcome::Done { node, connection, .. } if sql == add => {
                        self.read_column(node, &connection, value);
                        self.altered.fetch_add(1, Ordering::SeqCst);
                    }
                    Outcome::Done { .. } => {}
                    // Others append or update. One that nobody waits for any more may have added it.
                    Outcome::Refused(error) if ["40001", "42701"].contains(&error.sqlstate()) => break,
                    Outcome::Refused(error) if is_of_term(&error) => break,
                    Outcome::Refused(error) | Outcome::Open(error) => {
                        self.check_error("ALTER", &error);
                        break;
                    }
                }
            }
        }
    }

    /// Who has added a column sees its value in all rows, of which others append more.
    fn read_column(&self, node: usize, connection: &Connection, value: i64) {
        let sql = format!("SELECT count(*) FROM t WHERE x IS DISTINCT FROM {value}");
        match self.timed(node, "a new column", || numbers(connection, &sql)) {
            Ok(rows) => assert_eq!(rows, [[0]], "rows without {value}, the value of a column that was added"),
            Err(error) if self.has_full_disks && error.sqlstate() == "42703" => {
                self.note("a new column", &error);
            }
            Err(error) => self.check_error("a new column", &error),
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
            let (what, result) = match random.below(4) {
                0 => ("big", self.read_big(node, &connection)),
                1 => ("all rows", self.batches_of_rows(node, &connection).map(|seen| self.saw(seen))),
                2 => ("stages", self.batches_in_stages(node, &connection).map(|seen| self.saw(seen))),
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

    /// A statement that fails does so because nodes are away, or columns are others meanwhile, and says so.
    fn check_error(&self, what: &str, error: &Error) {
        self.note(what, error);
        // 40001: rows of its snapshot were moved meanwhile.
        let is_expected = is_open(error)
            || ["58030", "55000", "40001"].contains(&error.sqlstate())
            || (self.has_full_disks && error.sqlstate() == "53100");
        assert!(is_expected, "{what}: [{}] {error}", error.sqlstate());
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

    /// Does what [`Self::batches`] says, with the groups shared out among the nodes.
    fn batches_in_stages(&self, node: usize, connection: &Connection) -> Result<Vec<i64>> {
        self.timed(node, "a setting", || connection.execute("SET stages = on").map(drop))?;
        self.batches(node, connection)
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
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        let (answered, updated, altered) = (of(&self.answered), of(&self.updated), of(&self.altered));
        println!("{answered} queries answered, {appended} batches appended, {updated} updated");
        println!(
            "{altered} columns added, {} statements sent again, {} settled",
            of(&self.again),
            of(&self.settled)
        );
        println!("slowest: {:?}, {}", slowest.0, slowest.1);
        for (text, count) in self.errors.lock().unwrap().iter() {
            println!("{count} × {text}");
        }
    }
}

/// Says whether a node has refused because it does not coordinate.
fn is_of_term(error: &Error) -> bool {
    error.sqlstate() == "25006"
}
