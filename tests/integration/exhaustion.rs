//! No statement of any user takes more memory than the server may have. It fails, and the
//! statements of others continue.
//!
//! Each group runs in a process of its own, so that its own memory is measured.

use crate::alone;
use hypostyle::{Connection, Database, Error, Identity, OpenOptions, Poll, Privileges};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMIT: u64 = 512_000_000;

/// The memory that a process of this binary may take beyond twice the limit (docs/decisions/0012):
/// its code, threads and a database.
const FIXED: u64 = 256 << 20;

/// Statements that would run long are ended after this time.
const TIME: Duration = Duration::from_secs(4);

/// Those that have to be refused have longer, however busy the machine is.
const TIME_TO_REFUSE: Duration = Duration::from_secs(120);

/// Returns the peak resident memory of the process, in bytes.
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// A database with a memory limit, a user who may only read, and another client that runs queries
/// all the time.
struct Exhausted {
    reader: Connection,
    database: Database,
    others: Option<std::thread::JoinHandle<u64>>,
    is_done: Arc<AtomicBool>,
}

impl Exhausted {
    fn new() -> Self {
        assert!(hypostyle_memory::total().is_some(), "this program counts what it allocates");
        let options = OpenOptions { memory_limit: Some(LIMIT), threads: Some(2), ..OpenOptions::default() };
        let database = Database::in_memory(options).unwrap();
        let owner = database.connect().unwrap();
        owner
            .execute("CREATE TABLE t AS SELECT i, i::text AS s FROM generate_series(1, 100000) AS g(i)")
            .unwrap();
        let identity = Identity { privileges: Privileges::READ, ..Identity::default() };
        let reader = database.connect_as(identity).unwrap();
        let is_done = Arc::new(AtomicBool::new(false));
        let seen = is_done.clone();
        let others = std::thread::spawn(move || {
            let mut answers = 0;
            while !seen.load(Ordering::Relaxed) {
                let result = owner.execute("SELECT sum(i), max(s) FROM t WHERE i % 7 = 3");
                assert_eq!(result.and_then(|result| result.row_count()).unwrap(), 1);
                answers += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            answers
        });
        Self { reader, database, others: Some(others), is_done }
    }

    /// Runs a statement for a time and reads its rows as they come.
    fn run(&self, sql: &str, time: Duration) -> Result<u64, Error> {
        let begun = Instant::now();
        self.reader.set_poll(Some(Arc::new(move |_| match begun.elapsed() > time {
            true => Poll::Interrupt,
            false => Poll::Continue,
        })));
        let counted = self.reader.execute(sql).and_then(|result| result.row_count());
        let shown: String = sql.chars().take(100).collect();
        let outcome = match &counted {
            Ok(rows) => format!("{rows} rows"),
            Err(error) => format!("{} {error}", error.sqlstate()),
        };
        let outcome: String = outcome.chars().take(200).collect();
        println!("{:>6} ms {:>5} MB {shown}: {outcome}", begun.elapsed().as_millis(), most_resident() >> 20);
        counted
    }

    /// Checks that each statement is refused because of its memory.
    fn refuses(&self, statements: &[&str]) {
        for sql in statements {
            let error = self.run(sql, TIME_TO_REFUSE).err();
            let error = error.unwrap_or_else(|| panic!("there was memory for {sql}"));
            assert!(["53200", "54000"].contains(&error.sqlstate()), "{sql}: {} {error}", error.sqlstate());
        }
        self.still_answers();
    }

    /// Checks that each statement succeeds, is refused or is ended, whichever comes first.
    fn bears(&self, statements: &[&str]) {
        for sql in statements {
            if let Err(error) = self.run(sql, TIME) {
                assert!(
                    ["53200", "54000", "57014"].contains(&error.sqlstate()),
                    "{sql}: {} {error}",
                    error.sqlstate()
                );
            }
        }
        self.still_answers();
    }

    /// Checks that the same session and new ones are usable, and that no memory stays taken.
    fn still_answers(&self) {
        self.reader.set_poll(None);
        for connection in [&self.reader, &self.database.connect().unwrap()] {
            let result = connection.execute("SELECT count(DISTINCT s) FROM t").unwrap();
            assert_eq!(result.row_count().unwrap(), 1);
        }
        let most = most_resident();
        assert!(most < 2 * LIMIT + FIXED, "the process took {} MB", most >> 20);
    }
}

impl Drop for Exhausted {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Relaxed);
        let answers = self.others.take().map(|others| others.join().expect("others' queries went on"));
        assert!(std::thread::panicking() || answers > Some(10), "others had {answers:?} answers");
    }
}

#[test]
fn functions_that_make_much_of_little() {
    alone::run("exhaustion::functions");
}

#[test]
#[ignore = "run by functions_that_make_much_of_little in a process of its own"]
fn functions() {
    let exhausted = Exhausted::new();
    // It is computed for a few rows at a time.
    exhausted.bears(&[
        "SELECT length(repeat(s, 100000)) FROM t",
        "SELECT count(*) FROM t WHERE repeat(s, 100) ~ '(\\w+\\s*){20,200}x'",
        "SELECT strpos(repeat('a', 10000000), repeat('a', 5000000) || 'b')",
        "SELECT max(length(printf('%+1000000d', i))) FROM t",
        "SELECT list_reduce(list_transform(range(0, 100000), x -> 'abc'), (a, b) -> a || b)",
    ]);
    exhausted.refuses(&[
        "SELECT unnest(range(0, 1000000000))",
        "SELECT len(list_transform(range(0, 400000), x -> repeat('z', 10000)))",
        "SELECT len(list_transform(range(0, 50000), x -> repeat('z', 10000))) FROM t",
        "SELECT array_to_string(range(0, 300000000), ',')",
        "SELECT list_string_agg(list_transform(range(0, 100000), x -> 'a'), repeat('x', 100000))",
        "SELECT encode(repeat('a', 1000000000), 'hex')",
        "SELECT concat(repeat('x', 1000000000), repeat('x', 1000000000), repeat('x', 1000000000))",
        "SELECT length(lpad('x', 1000000000, 'yz'))",
        "SELECT length(rpad(s, 1000000000)) FROM t",
        "SELECT array_repeat(1, 1000000000)",
        "SELECT array_repeat(array_repeat('abcdefgh', 100000), 100000)",
        "SELECT array_resize([1], 1000000000, 7)",
        "SELECT generate_series(0, 1000000000)",
        "SELECT range(TIMESTAMP '1970-01-01', TIMESTAMP '2270-01-01', INTERVAL '1 second')",
        "SELECT range(DATE '1970-01-01', DATE '2270-01-01', INTERVAL '1 month -30 days')",
        "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000000)))",
        "SELECT length(regexp_replace(repeat('a', 1000000), '(.)', repeat('\\1', 1000), 'g'))",
        "SELECT length(array_to_string(array_repeat(repeat('x', 1000000), 60), repeat('y', 1000000)))",
        "SELECT string_to_array(repeat(',', 60000000), ',')",
        "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
        "SELECT levenshtein(repeat(s, 5000), repeat('b', 50000)) FROM t",
        "SELECT regexp_replace(repeat('ab', 20000000), '(a|b)*c', 'x')",
        "SELECT repeat('a', 1000000) ~ repeat('(a|b)*', 100000)",
        "SELECT regexp_like(repeat(s, 50000), repeat('(a|b)*', 20000)) FROM t",
        "SELECT repeat('ab ', 1000000) ~ '(\\w+\\s*){20,200}x'",
    ]);
}

#[test]
fn texts_that_are_joined_again_and_again() {
    alone::run("exhaustion::joined");
}

#[test]
#[ignore = "run by texts_that_are_joined_again_and_again in a process of its own"]
fn joined() {
    let doubled = |query: &str, by: &str| {
        (0..20).fold(query.to_string(), |query, _| format!("SELECT {by} AS a FROM ({query}) AS q"))
    };
    let exhausted = Exhausted::new();
    let begun = ["SELECT s AS a FROM t", "SELECT random()::text AS a", "SELECT 'text' AS a"];
    for begun in begun {
        exhausted.refuses(&[&doubled(begun, "a || a || a || a"), &doubled(begun, "concat(a, a, a, a)")]);
        exhausted.bears(&[
            &doubled(begun, "replace(a, 'e', 'ee') || a || a || a"),
            &doubled(begun, "a || ',' || a || a"),
        ]);
    }
    exhausted.refuses(&[&doubled("SELECT [i] AS a FROM t", "array_concat(a, a, a, a)")]);
    exhausted.refuses(&[&doubled("SELECT [i] AS a FROM t", "a || a || a || a")]);
}

#[test]
fn rows_that_are_made_of_lists_and_constants() {
    alone::run("exhaustion::rows");
}

#[test]
#[ignore = "run by rows_that_are_made_of_lists_and_constants in a process of its own"]
fn rows() {
    Exhausted::new().bears(&[
        "SELECT count(*) FROM (SELECT unnest(range(0, 100000)) FROM generate_series(1, 100000))",
        "SELECT count(*) FROM (SELECT unnest(range(0, 100000)), unnest(range(i, 2 * i)) FROM t)",
        "SELECT count(*) FROM (SELECT unnest(range(0, 5000000)), repeat('x', 50000000))",
        "SELECT count(*) FROM (SELECT unnest(range(0, 5000000)) AS u, repeat(i::text, 5000000) AS r FROM t) WHERE u < 0",
        "SELECT max(length(r)) FROM (SELECT repeat('x', 50000000) AS r, i FROM t) WHERE length(r) > i",
        "SELECT max(length(c)) FROM (SELECT CASE WHEN i % 2 = 0 THEN repeat('x', 50000000) ELSE s END AS c FROM t)",
        "SELECT count(*) FROM (SELECT unnest(unnest(array_repeat(range(0, 1000), 1000))) FROM t)",
        "SELECT count(*) FROM (SELECT repeat('x', 50000000)::blob AS b) AS a, generate_series(1, 1000000) AS g(i) WHERE octet_length(b) < i",
        "SELECT count(*) FROM (SELECT repeat(i::text, 10000000)::blob AS b, i FROM t WHERE i < 4) AS a JOIN t ON t.i % 4 = a.i WHERE octet_length(b) < t.i",
        "SELECT max(length(f)) FROM (SELECT first_value(v) OVER (ORDER BY i) AS f, i FROM (SELECT i, CASE WHEN i = 1 THEN repeat('x', 50000000) ELSE s END AS v FROM t))",
        "SELECT max(length(f)) FROM (SELECT max(v) OVER () AS f, i FROM (SELECT i, CASE WHEN i = 1 THEN repeat('x', 50000000) ELSE s END AS v FROM t))",
        "SELECT max(length(concat(s, repeat('x', 50000)))) FROM t",
    ]);
}

#[test]
fn operators_that_keep_what_they_read() {
    alone::run("exhaustion::operators");
}

#[test]
#[ignore = "run by operators_that_keep_what_they_read in a process of its own"]
fn operators() {
    let exhausted = Exhausted::new();
    exhausted.refuses(&[
        "SELECT sum(i) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM generate_series(1, 300000000) AS g(i)",
    ]);
    exhausted.bears(&[
        "SELECT array_agg(i) FROM generate_series(1, 300000000) AS g(i)",
        "SELECT length(string_agg(i::text, ',')) FROM generate_series(1, 300000000) AS g(i)",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r CROSS JOIN generate_series(1, 1000)) SELECT max(i) FROM r",
        "SELECT count(*) FROM generate_series(1, 100000000) AS a(i), generate_series(1, 100000000) AS b(j)",
        "SELECT max(l) FROM (SELECT lag(i, 50000000) OVER (ORDER BY i) AS l FROM generate_series(1, 300000000) AS g(i))",
        "SELECT count(*) FROM (SELECT DISTINCT i, i::text FROM generate_series(1, 300000000) AS g(i))",
        "SELECT count(DISTINCT i) FROM generate_series(1, 300000000) AS g(i)",
        "SELECT approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY i), median(i) FROM generate_series(1, 300000000) AS g(i)",
        "SELECT * FROM generate_series(1, 300000000) AS g(i) ORDER BY i::text DESC LIMIT 10000000",
    ]);
    let keys: Vec<String> = (1..=12).map(|key| format!("i + {key}")).collect();
    let sets =
        format!("SELECT count(*) FROM (SELECT count(*) FROM t GROUP BY CUBE ({})) AS q", keys.join(", "));
    exhausted.bears(&[&sets]);
}

#[test]
fn windows_that_repeat_a_result() {
    alone::run("exhaustion::windows");
}

#[test]
#[ignore = "run by windows_that_repeat_a_result in a process of its own"]
fn windows() {
    let exhausted = Exhausted::new();
    exhausted.refuses(&[
        "SELECT string_agg(s, ',') OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM t",
        "SELECT string_agg(s, ',') OVER () FROM t",
        "SELECT array_agg(i) OVER () FROM t",
    ]);
    // Constants are repeated for all rows that are kept.
    exhausted.bears(&[
        "SELECT max(length(a)) FROM (SELECT lag(repeat('z', 1000000)) OVER (ORDER BY i) AS a FROM t)",
        "SELECT max(length(a)) FROM (SELECT max(repeat('z', 1000000)) OVER () AS a FROM t)",
    ]);
    // The others are to have their time.
    exhausted.bears(&["SELECT max(i % 7) FROM generate_series(1, 30000000000) AS g(i)"]);
}

#[test]
fn texts_that_are_long_to_plan() {
    alone::run("exhaustion::planned");
}

#[test]
#[ignore = "run by texts_that_are_long_to_plan in a process of its own"]
fn planned() {
    let exhausted = Exhausted::new();
    exhausted.refuses(&[&format!("VALUES {}(1)", "(1),".repeat(2_500_000))]);
    // There are as many as fit.
    exhausted.bears(&[&format!("VALUES {}(1)", "(1),".repeat(20_000))]);
    exhausted.bears(&[&format!("SELECT {}1", "1,".repeat(2_000))]);
    exhausted.bears(&[&format!("SELECT i IN ({}1) FROM t", "i + 1,".repeat(5_000))]);
    for function in ["coalesce", "ifnull"] {
        let sql = format!("SELECT {}i{} FROM t", format!("{function}(").repeat(20), ", 1)".repeat(20));
        assert_eq!(exhausted.run(&sql, TIME_TO_REFUSE).unwrap_err().sqlstate(), "54001");
    }
    exhausted.still_answers();
}
