//! Queries find rows by indexes that they leave behind, and give the same rows as without: after
//! changes of which indexes know nothing, with index files that are lost or damaged, and in another
//! process's place.

use hypostyle::{Connection, Database, OpenOptions};
use std::path::Path;

/// Parts with a key, suppliers' offers with a key of two columns, and items that refer to both: most
/// parts and days lie scattered, moments in runs. (Without ORDER BY, threads may insert their rows in
/// turns, and the runs lie elsewhere each time.)
const TABLES: [&str; 8] = [
    "CREATE TABLE part (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, size INTEGER)",
    "INSERT INTO part SELECT v, 'part ' || v, v % 100 FROM generate_series(1, 10000) AS g (v)",
    "CREATE TABLE offer (part BIGINT, supplier INTEGER, cost INTEGER, PRIMARY KEY (part, supplier))",
    "INSERT INTO offer SELECT 1 + v % 10000, v / 10000, v % 777 FROM generate_series(0, 39999) AS g (v)",
    "CREATE TABLE item (id BIGINT, part BIGINT, supplier INTEGER, day DATE, moment INTEGER, name VARCHAR, tag VARCHAR)",
    "INSERT INTO item SELECT v, CASE WHEN v % 97 = 0 THEN NULL ELSE 1 + v * 7919 % 10007 END, v % 5, \
     DATE '2020-01-01' + (v * 31 % 1000)::INTEGER, CASE WHEN v % 40000 < 2000 THEN v % 10 ELSE 1000 + v % 1000 END, \
     'part ' || (v % 12000), 'tag ' || (v * 17 % 70001) FROM generate_series(0, 149999) AS g (v) ORDER BY v",
    "CREATE ORDER INDEX item_day ON item (day)",
    "CREATE INDEX item_tag ON item (tag)",
];

/// Queries, with what EXPLAIN ANALYZE says of the index that finds their rows.
const QUERIES: [(&str, &str); 12] = [
    (
        "SELECT count(*), sum(i.id), min(tag), max(p.name) FROM item AS i JOIN part AS p ON i.part = p.id \
         WHERE p.name IN ('part 17', 'part 4711', 'part 10003', 'other')",
        "item by reverse index",
    ),
    (
        "SELECT i.id, p.name FROM item AS i JOIN part AS p ON i.part = p.id WHERE p.name = 'part 4711' AND i.id > 9",
        "item by reverse index",
    ),
    (
        "SELECT count(*), sum(id) FROM item WHERE part IN (SELECT id FROM part WHERE name = 'part 99')",
        "item by reverse index",
    ),
    (
        "SELECT id, name FROM part AS p WHERE name LIKE 'part 77_' AND EXISTS (SELECT * FROM item AS i WHERE i.part = p.id AND i.moment > 1100)",
        "item by reverse index",
    ),
    (
        "SELECT id, name FROM part AS p WHERE name LIKE 'part 77_' AND NOT EXISTS (SELECT * FROM item AS i WHERE i.part = p.id AND i.moment > 1100)",
        "item by reverse index",
    ),
    (
        "SELECT count(*), sum(o.cost), sum(i.id) FROM item AS i JOIN offer AS o ON i.part = o.part AND i.supplier = o.supplier WHERE o.cost < 300",
        "by join index",
    ),
    (
        "SELECT count(*), sum(o.cost) FROM item AS i LEFT JOIN offer AS o ON i.part = o.part AND i.supplier = o.supplier",
        "by join index",
    ),
    (
        "SELECT count(*), sum(i.id) FROM item AS i WHERE i.moment = 3 OR EXISTS \
         (SELECT * FROM offer AS o WHERE i.part = o.part AND i.supplier = o.supplier AND o.cost < 300)",
        "mark join offer by join index",
    ),
    ("SELECT id, part, tag FROM item WHERE day = DATE '2021-03-04'", "item by order index"),
    (
        "SELECT count(*), sum(id) FROM item WHERE day > DATE '2022-09-20' AND id % 2 = 0",
        "item by order index",
    ),
    ("SELECT id, moment FROM item WHERE tag = 'tag 4711'", "item by key index"),
    ("SELECT count(*), sum(id), min(tag) FROM item WHERE moment BETWEEN 3 AND 4", ""),
];

/// Changes after which all queries are compared.
const CHANGES: [&str; 13] = [
    "DELETE FROM item WHERE id % 1000 = 7",
    "DELETE FROM part WHERE id IN (17, 99, 771)",
    "INSERT INTO part VALUES (99, 'part 99', 1), (10003, 'part 10003', 2)",
    "UPDATE part SET id = 20000 WHERE id = 4711",
    "UPDATE item SET part = 4711 WHERE id = 5",
    "INSERT INTO part VALUES (4711, 'part 4711', 5)",
    "UPDATE item SET day = DATE '2021-03-04', tag = 'tag 4711', moment = 4 WHERE id BETWEEN 100 AND 120",
    "INSERT INTO item VALUES (200000, 4711, 1, DATE '2021-03-04', 3, 'part 5', 'tag 4711'), (200001, 99, 2, DATE '2023-01-01', 3, 'part 5', 'other')",
    "DELETE FROM offer WHERE part = 300; INSERT INTO offer VALUES (300, 1, 5), (10005, 4, 6)",
    "INSERT INTO item SELECT id + 1000000, part, supplier, day, moment, name, tag FROM item WHERE id < 30000",
    "VACUUM item",
    "DELETE FROM item WHERE id BETWEEN 20000 AND 90000",
    "TRUNCATE part",
];

fn open(path: &Path) -> Connection {
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    Database::open(path, options).unwrap().connect().unwrap()
}

/// Returns the rows of a query, in order.
fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let batches = connection.execute(sql).and_then(|result| result.record_batches()).unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines.sort_unstable();
    lines
}

fn compare(connection: &Connection, when: &str) {
    for (sql, _) in QUERIES {
        connection.execute("SET position_pipelines = off").unwrap();
        let expected = rows(connection, sql);
        connection.execute("SET position_pipelines = on").unwrap();
        // The second run wishes for the index again, and the third one surely has it.
        for run in 0..3 {
            assert_eq!(rows(connection, sql), expected, "run {run} after {when}: {sql}");
        }
    }
}

fn assert_indexes_are_used(connection: &Connection) {
    for (sql, index) in QUERIES {
        let plan = rows(connection, &format!("EXPLAIN ANALYZE {sql}")).concat();
        assert!(plan.contains(index), "{sql}: {plan}");
    }
}

#[test]
fn rows_that_indexes_find_are_those_of_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("i.hypo");
    let connection = open(&path);
    TABLES.iter().for_each(|sql| drop(connection.execute(sql).unwrap()));
    compare(&connection, "nothing");
    assert_indexes_are_used(&connection);
    let kinds = rows(&connection, "SHOW INDEXES").concat();
    for kind in ["key", "join", "reverse", "imprint", "order"] {
        assert!(kinds.contains(kind), "{kinds}");
    }
    for change in CHANGES {
        let run = |sql: &str| drop(connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")));
        match change.starts_with("VACUUM") {
            true => run(change),
            false => {
                run("BEGIN");
                run(change);
                compare(&connection, &format!("{change}, in its transaction"));
                run("COMMIT");
            }
        }
        compare(&connection, change);
    }
}

#[test]
fn explain_tells_that_a_key_finds_the_rows() {
    let directory = tempfile::tempdir().unwrap();
    let connection = open(&directory.path().join("r.hypo"));
    for sql in [
        "CREATE TABLE keyed (id BIGINT, v INTEGER)",
        "INSERT INTO keyed SELECT v, v % 100 FROM generate_series(1, 150000) AS g (v)",
        "CREATE INDEX keyed_id ON keyed (id)",
    ] {
        connection.execute(sql).unwrap();
    }
    let route = |sql: &str| {
        let plan = rows(&connection, &format!("EXPLAIN {sql}"));
        let found = plan.into_iter().find(|line| line.starts_with("| route"));
        found.unwrap_or_else(|| panic!("{sql} has no route"))
    };
    let by_key = "SELECT v FROM keyed WHERE id = 77";
    for _ in 0..3 {
        assert_eq!(rows(&connection, by_key).len(), 5);
    }
    assert!(route(by_key).contains("rows of a key, not optimized"), "{}", route(by_key));
    let others = [("SELECT v FROM keyed", "stored columns"), ("SELECT max(v) FROM keyed", "planned")];
    for (sql, told) in others {
        assert!(route(sql).contains(told), "{}", route(sql));
    }
}

/// Returns the files of all indexes.
fn files(path: &Path) -> Vec<std::path::PathBuf> {
    let tables = std::fs::read_dir(path.join("indexes")).unwrap();
    tables
        .flat_map(|table| std::fs::read_dir(table.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect()
}

#[test]
fn lost_and_damaged_indexes_cost_time_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("i.hypo");
    let connection = open(&path);
    TABLES.iter().for_each(|sql| drop(connection.execute(sql).unwrap()));
    compare(&connection, "nothing");
    drop(connection);
    // Another process finds them there.
    let connection = open(&path);
    assert_indexes_are_used(&connection);
    drop(connection);
    for (place, file) in files(&path).iter().enumerate() {
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        match place % 3 {
            0 => std::fs::remove_file(file).unwrap(),
            1 => std::fs::write(file, &bytes[..middle]).unwrap(),
            _ => {
                bytes[middle] ^= 1;
                std::fs::write(file, &bytes).unwrap();
            }
        }
    }
    let connection = open(&path);
    compare(&connection, "damage");
    assert_indexes_are_used(&connection);
    // Mapped files are not read again: who has them open goes on.
    files(&path).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    compare(&connection, "loss");
}

#[test]
fn no_index_is_made_when_none_is_wanted() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection.execute("SET automatic_indexes = off").unwrap();
    TABLES[..6].iter().for_each(|sql| drop(connection.execute(sql).unwrap()));
    compare(&connection, "nothing");
    let indexes = rows(&connection, "SHOW INDEXES").concat();
    assert!(!["reverse", "join", "imprint"].iter().any(|kind| indexes.contains(kind)), "{indexes}");
}
