//! A condition means the same rows in SELECT, DELETE and UPDATE, though these are planned from texts
//! that are printed. Random conditions; `HYPOSTYLE_TEST_SEED` repeats a run.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use hypostyle::{Connection, Database, OpenOptions};

const CONDITIONS: usize = 400;
const ROWS: i64 = 60;

/// A generator of random numbers (Steele and others, SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    fn of(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.below(choices.len())]
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.of(&["k", "n", "1", "2", "3", "-1", "NULL"]).to_string();
        }
        let (left, right) = (self.number(depth - 1), self.number(depth - 1));
        match self.below(12) {
            0..=6 => format!("{left} {} {right}", self.of(&["+", "-", "*", "%", "^", "&", "|", "#"])),
            7 => format!("- {left}"),
            8 => format!("- - {left}"),
            9 => format!("~ {left}"),
            10 => format!("({left})"),
            _ => format!("CASE WHEN {} THEN {left} ELSE {right} END", self.condition(0)),
        }
    }

    fn text(&mut self) -> &'static str {
        self.of(&["s", "'a'", "'it''s'", "'\\'''", "''''''", "'\n5 or true --'", "s || '\\''--'"])
    }

    fn condition(&mut self, depth: usize) -> String {
        let numbers = self.below(2) + 1;
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 | 1 => {
                let op = self.of(&["=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                format!("{} {op} {}", self.number(numbers), self.number(numbers))
            }
            2 => format!("{} BETWEEN {} AND {}", self.number(1), self.number(1), self.number(1)),
            3 => format!("{} IN ({}, {}, 2)", self.number(1), self.number(1), self.number(1)),
            4 => format!("{} {} {}", self.text(), self.of(&["=", "<>", "LIKE", "NOT LIKE"]), self.text()),
            5 | 6 => {
                format!(
                    "{} {} {}",
                    self.condition(depth - 1),
                    self.of(&["AND", "OR"]),
                    self.condition(depth - 1)
                )
            }
            7 => format!("NOT {}", self.condition(depth - 1)),
            _ => {
                format!("{} {}", self.condition(depth - 1), self.of(&["IS NULL", "IS TRUE", "IS NOT FALSE"]))
            }
        }
    }
}

fn counted(connection: &Connection, sql: &str) -> Option<i64> {
    let batches = connection.execute(sql).and_then(|result| result.record_batches()).ok()?;
    batches
        .iter()
        .find(|batch| batch.num_rows() > 0)
        .map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0))
}

/// Returns how many rows UPDATE has changed, and how many DELETE has left.
fn changed(connection: &Connection, condition: &str) -> Option<(Option<i64>, Option<i64>)> {
    connection.execute("BEGIN").unwrap();
    let (mut found, mut is_done) = ((None, None), true);
    for statement in ["UPDATE t SET mark = 1 WHERE", "DELETE FROM u WHERE"] {
        if let Err(error) = connection.execute(&format!("{statement} {condition}")) {
            assert!(!error.sqlstate().starts_with("42"), "{condition}: {error}");
            is_done = false;
            break;
        }
    }
    if is_done {
        found.0 = counted(connection, "SELECT count(*) FROM t WHERE mark = 1");
        found.1 = counted(connection, "SELECT count(*) FROM u");
    }
    connection.execute("ROLLBACK").unwrap();
    is_done.then_some(found)
}

#[test]
fn a_condition_means_the_same_rows_everywhere() {
    let seed =
        std::env::var("HYPOSTYLE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_127);
    println!("HYPOSTYLE_TEST_SEED={seed}");
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    for statement in [
        "CREATE TABLE t (k INTEGER, n INTEGER, s VARCHAR, mark INTEGER)",
        "INSERT INTO t SELECT i % 7 - 3, nullif(i % 5, 4), CASE i % 4 WHEN 0 THEN 'a' WHEN 1 THEN '\\''' \
         WHEN 2 THEN '''''' END, 0 FROM range(60) AS r (i)",
        "CREATE TABLE u AS SELECT * FROM t",
    ] {
        connection.execute(statement).unwrap();
    }
    let mut random = Random(seed);
    let mut compared = 0;
    for _ in 0..CONDITIONS {
        let condition = random.condition(2);
        let Some(expected) = counted(&connection, &format!("SELECT count(*) FROM t WHERE {condition}"))
        else {
            continue;
        };
        // A value that cannot be computed is met in one of them alone, where another condition decides.
        let Some((updated, left)) = changed(&connection, &condition) else { continue };
        assert_eq!((updated, left), (Some(expected), Some(ROWS - expected)), "{condition}");
        compared += 1;
    }
    assert!(compared > CONDITIONS / 2, "only {compared} conditions could be compared");
}
