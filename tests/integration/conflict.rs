//! Transactions on tables with keys and references do not conflict if they touch different keys,
//! however they overlap in time.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use hypostyle::{Connection, Database, ErrorKind, OpenOptions};
use std::sync::Barrier;

const WRITERS: i64 = 8;
const ROUNDS: i64 = 12;

fn number(connection: &Connection, sql: &str) -> i64 {
    let batches = connection.execute(sql).unwrap().record_batches().unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn shop() -> Database {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    let connection = database.connect().unwrap();
    for sql in [
        "CREATE TABLE item (id BIGINT PRIMARY KEY, code BIGINT UNIQUE, n BIGINT NOT NULL CHECK (n >= 0))",
        "CREATE TABLE sale (id BIGINT PRIMARY KEY, item BIGINT REFERENCES item ON DELETE CASCADE, n BIGINT)",
        "INSERT INTO item SELECT value, value * 10, 0 FROM generate_series(0, 63) AS g (value)",
    ] {
        connection.execute(sql).unwrap();
    }
    database
}

/// Lets each writer run statements in transactions that overlap in time; every one must commit.
fn overlapping(database: &Database, statements: impl Fn(i64, i64) -> Vec<String> + Sync) {
    let barrier = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let connection = database.connect().unwrap();
            let (barrier, statements) = (&barrier, &statements);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    connection.execute("BEGIN").unwrap();
                    barrier.wait();
                    for sql in statements(writer, round) {
                        connection.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
                    }
                    barrier.wait();
                    connection.execute("COMMIT").unwrap();
                    barrier.wait();
                }
            });
        }
    });
}

#[test]
fn updates_of_different_rows_all_commit() {
    let database = shop();
    overlapping(&database, |writer, _| vec![format!("UPDATE item SET n = n + 1 WHERE id = {writer}")]);
    let connection = database.connect().unwrap();
    assert_eq!(number(&connection, "SELECT sum(n)::BIGINT FROM item"), WRITERS * ROUNDS);
    assert_eq!(number(&connection, "SELECT count(*) FROM item"), 64);
}

#[test]
fn different_keys_all_commit() {
    let database = shop();
    overlapping(&database, |writer, round| {
        let (id, own) = (1000 + writer * ROUNDS + round, 8 + writer);
        vec![
            format!("INSERT INTO item VALUES ({id}, {id}, 0)"),
            // All refer to rows that others update, and that stay.
            format!("INSERT INTO sale VALUES ({id}, {round}, 1), (-{id}, {id}, 1)"),
            format!("UPDATE item SET n = n + 1, code = {} WHERE id = {own}", own * 10_000 + round),
            format!("INSERT INTO item VALUES ({own}, 0, 1) ON CONFLICT (id) DO UPDATE SET n = item.n + 1"),
            format!("UPDATE sale SET n = n + 1 WHERE item = {id}"),
            format!("DELETE FROM item WHERE id = {id}"),
        ]
    });
    let connection = database.connect().unwrap();
    assert_eq!(number(&connection, "SELECT sum(n)::BIGINT FROM item"), 2 * WRITERS * ROUNDS);
    assert_eq!(number(&connection, "SELECT count(*) FROM sale"), WRITERS * ROUNDS);
    assert_eq!(number(&connection, "SELECT count(DISTINCT code) FROM item"), 64);
}

/// Says whether the second of two overlapping transactions commits.
fn both_commit(first: &str, second: &str) -> bool {
    let database = shop();
    let (one, other) = (database.connect().unwrap(), database.connect().unwrap());
    one.execute("INSERT INTO sale VALUES (1, 1, 0), (2, 2, 0)").unwrap();
    for (connection, sql) in [(&one, first), (&other, second)] {
        connection.execute("BEGIN").unwrap();
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    one.execute("COMMIT").unwrap();
    let result = other.execute("COMMIT");
    let twice = "SELECT count(*) - count(DISTINCT id) + count(code) - count(DISTINCT code) FROM item";
    assert_eq!(number(&one, twice), 0, "{first}; {second}");
    let orphans = "SELECT count(*) FROM sale WHERE item NOT IN (SELECT id FROM item)";
    assert_eq!(number(&one, orphans), 0, "{first}; {second}");
    match result {
        Ok(_) => true,
        Err(error) => {
            assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Conflict, "40001"), "{error}");
            false
        }
    }
}

#[test]
fn what_touches_the_same_key_is_a_conflict() {
    for (first, second) in [
        ("INSERT INTO item VALUES (99, 1, 0)", "INSERT INTO item VALUES (99, 2, 0)"),
        ("INSERT INTO item VALUES (98, 1, 0)", "INSERT INTO item VALUES (99, 1, 0)"),
        ("INSERT INTO item VALUES (98, 1, 0)", "UPDATE item SET code = 1 WHERE id = 5"),
        ("UPDATE item SET code = 1 WHERE id = 4", "UPDATE item SET code = 1 WHERE id = 5"),
        ("UPDATE item SET n = 1 WHERE id = 4", "UPDATE item SET n = 2 WHERE id = 4"),
        ("DELETE FROM item WHERE id = 3", "INSERT INTO sale VALUES (3, 3, 0)"),
        ("INSERT INTO sale VALUES (3, 3, 0)", "DELETE FROM item WHERE id = 3"),
        ("UPDATE item SET id = 99 WHERE id = 3", "INSERT INTO sale VALUES (3, 3, 0)"),
        ("UPDATE sale SET item = 3 WHERE id = 2", "DELETE FROM item WHERE id = 3"),
        // The change is made by ON DELETE CASCADE.
        ("DELETE FROM item WHERE id = 1", "UPDATE sale SET n = 9 WHERE id = 1"),
        ("DELETE FROM item WHERE id = 1", "INSERT INTO sale VALUES (9, 1, 0)"),
        ("TRUNCATE item CASCADE", "INSERT INTO sale VALUES (9, 5, 0)"),
    ] {
        assert!(!both_commit(first, second), "{first}; {second}");
    }
    for (first, second) in [
        ("INSERT INTO item VALUES (98, 1, 0)", "INSERT INTO item VALUES (99, 2, 0)"),
        ("INSERT INTO item VALUES (98, NULL, 0)", "INSERT INTO item VALUES (99, NULL, 0)"),
        ("UPDATE item SET n = 1 WHERE id = 3", "INSERT INTO sale VALUES (3, 3, 0)"),
        ("INSERT INTO sale VALUES (3, 3, 0)", "UPDATE item SET n = 1 WHERE id = 3"),
        ("DELETE FROM item WHERE id = 3", "INSERT INTO sale VALUES (3, 4, 0)"),
        ("DELETE FROM item WHERE id = 1", "DELETE FROM item WHERE id = 2"),
        ("INSERT INTO sale VALUES (3, 3, 0)", "INSERT INTO sale VALUES (4, 3, 0)"),
        ("DELETE FROM item WHERE id = 3", "INSERT INTO sale VALUES (3, NULL, 0)"),
    ] {
        assert!(both_commit(first, second), "{first}; {second}");
    }
}

#[test]
fn a_conflict_of_two_updates_says_so() {
    let database = shop();
    let (one, other) = (database.connect().unwrap(), database.connect().unwrap());
    for connection in [&one, &other] {
        connection.execute("BEGIN; UPDATE item SET n = n + 1 WHERE id = 4").unwrap();
    }
    one.execute("COMMIT").unwrap();
    let error = other.execute("COMMIT").map(drop).unwrap_err();
    assert!(error.message().contains("updated"), "{error}");
}

#[test]
fn declaring_a_reference_excludes_changes_of_what_is_referred_to() {
    let database = shop();
    let (one, other) = (database.connect().unwrap(), database.connect().unwrap());
    one.execute("CREATE TABLE late (item BIGINT)").unwrap();
    one.execute("INSERT INTO late VALUES (7)").unwrap();
    one.execute("BEGIN").unwrap();
    one.execute("ALTER TABLE late ADD FOREIGN KEY (item) REFERENCES item").unwrap();
    other.execute("DELETE FROM item WHERE id = 7").unwrap();
    let error = one.execute("COMMIT").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}
