//! The indexes of keys change no answer: statements on a database that has them end as on one whose
//! checks and queries read the tables.

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches;
use hypostyle::{Connection, Database, OpenOptions};
use std::time::SystemTime;

const STEPS: u64 = 250;

/// More than a block, so that there are indexes.
const ROWS: u64 = 66_000;

/// A small generator of pseudo-random numbers (splitmix64), so that a seed repeats a run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A row that is there, or was, or may come.
    fn row(&mut self) -> u64 {
        match self.below(4) {
            0 => ROWS - 40 + self.below(80),
            1 => self.below(60),
            _ => self.below(ROWS + ROWS / 20),
        }
    }

    fn code(&mut self) -> String {
        if self.one_in(6) { "NULL".into() } else { format!("'code {}'", self.row()) }
    }

    fn item(&mut self) -> String {
        if self.one_in(8) { "NULL".into() } else { self.row().to_string() }
    }
}

fn tables(connection: &Connection) {
    for sql in [
        "PRAGMA synchronous = off".to_string(),
        "CREATE TABLE item (id BIGINT PRIMARY KEY, code VARCHAR UNIQUE, part INTEGER, UNIQUE (part, code))"
            .into(),
        "CREATE TABLE sale (id INTEGER PRIMARY KEY, item INTEGER REFERENCES item, n INTEGER)".into(),
        // Keys in no order, some of them NULL.
        format!(
            "INSERT INTO item SELECT value * 7919 % {ROWS}, CASE WHEN value % 50 > 0 THEN 'code ' || value END, value % 9 \
             FROM generate_series(0, {}) AS g (value)",
            ROWS - 1
        ),
        format!(
            "INSERT INTO sale SELECT value, CASE WHEN value % 40 > 0 THEN value / 3 END, 1 \
             FROM generate_series(0, {}) AS g (value)",
            ROWS - 1
        ),
        "CREATE INDEX sale_item ON sale (item)".into(),
    ] {
        connection.execute(&sql).unwrap();
    }
}

fn statement(random: &mut Random) -> String {
    let (one, other) = (random.row(), random.row());
    match random.below(16) {
        0 | 1 => format!("INSERT INTO item VALUES ({one}, {}, {})", random.code(), other % 9),
        2 => {
            let (two, codes) = (random.row(), [random.code(), random.code()]);
            format!("INSERT INTO item VALUES ({one}, {}, 1), ({two}, {}, 2)", codes[0], codes[1])
        }
        3 => format!("INSERT INTO sale VALUES ({one}, {}, 2)", random.item()),
        4 => format!("UPDATE item SET id = {other} WHERE id = {one}"),
        5 => format!("UPDATE item SET code = {} WHERE code = 'code {one}'", random.code()),
        6 => format!("UPDATE item SET part = part + 1 WHERE id BETWEEN {one} AND {one} + 5"),
        7 => format!("UPDATE sale SET item = {} WHERE id = {one}", random.item()),
        8 | 9 => format!("DELETE FROM item WHERE id = {one}"),
        10 => format!("DELETE FROM sale WHERE item = {one}"),
        11 => format!("DELETE FROM sale WHERE id BETWEEN {one} AND {one} + 3 RETURNING id"),
        12 => {
            // So many that they go straight to the files.
            let first = if random.one_in(2) { 10 * ROWS + one * 30_000 } else { ROWS - 10 + one };
            format!(
                "INSERT INTO item SELECT value, NULL, 5 FROM generate_series({first}, {}) AS g (value)",
                first + 20_000 + random.below(10)
            )
        }
        13 => format!("SELECT * FROM item WHERE id = {one}"),
        14 => format!("SELECT id, part FROM item WHERE code = 'code {one}' AND part >= 0"),
        _ => format!("SELECT id FROM sale WHERE item = {one} ORDER BY id"),
    }
}

/// What a statement gives, or how it fails.
fn outcome(connection: &Connection, sql: &str) -> Result<String, String> {
    let result = connection.execute(sql).map_err(|error| error.sqlstate().to_string())?;
    let affected = result.rows_affected();
    let batches = result.record_batches().map_err(|error| error.sqlstate().to_string())?;
    Ok(format!("{affected:?}\n{}", pretty_format_batches(&batches).unwrap()))
}

/// How often indexes were used.
fn uses(connection: &Connection) -> u64 {
    let batches = connection.execute("SHOW INDEXES").unwrap().record_batches().unwrap();
    let used = |batch: &RecordBatch| {
        let uses = batch.column_by_name("uses").unwrap().as_primitive::<UInt64Type>().clone();
        uses.values().iter().sum::<u64>()
    };
    batches.iter().map(used).sum()
}

#[test]
fn keys_are_checked_and_found_by_indexes_as_by_scans() {
    let given = std::env::var("HYPOSTYLE_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    println!("HYPOSTYLE_TEST_SEED={seed}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let connect = |name: &str| {
        let database = Database::open(directory.path().join(name), OpenOptions::default()).unwrap();
        database.connect().unwrap()
    };
    let (indexed, scanned) = (connect("indexed"), connect("scanned"));
    tables(&indexed);
    tables(&scanned);
    scanned.execute("SET automatic_indexes = off").unwrap();
    scanned.execute("DROP INDEX sale_item").unwrap();
    let (mut in_transaction, mut used) = (false, 0);
    for step in 0..STEPS {
        let sql = match (in_transaction, random.below(12)) {
            (false, 0) => "BEGIN".to_string(),
            (false, 1) => "CHECKPOINT".into(),
            (false, 2) if random.one_in(3) => "VACUUM".into(),
            (true, 0 | 1) => "COMMIT".into(),
            (true, 2) => "ROLLBACK".into(),
            _ => statement(&mut random),
        };
        if sql == "VACUUM" {
            // The table has other indexes from now on.
            used += uses(&indexed);
        }
        let (ours, theirs) = (outcome(&indexed, &sql), outcome(&scanned, &sql));
        assert_eq!(ours, theirs, "step {step}: {sql}");
        in_transaction = match sql.as_str() {
            "BEGIN" => true,
            "COMMIT" | "ROLLBACK" => false,
            _ if ours.is_err() && in_transaction => {
                indexed.execute("ROLLBACK").unwrap();
                scanned.execute("ROLLBACK").unwrap();
                false
            }
            _ => in_transaction,
        };
    }
    let all = "SELECT (SELECT sum(id)::VARCHAR || count(code) || min(part) FROM item), count(*), sum(item), sum(n) FROM sale";
    assert_eq!(outcome(&indexed, all), outcome(&scanned, all));
    assert!(used + uses(&indexed) > STEPS / 10, "{used}, {}", uses(&indexed));
    assert_eq!(uses(&scanned), 0);
    assert_eq!(outcome(&indexed, "CHECK DATABASE"), outcome(&scanned, "CHECK DATABASE"));
}

/// What SHOW INDEXES tells of each index: table, kind, columns, name, rows and whether it is stored
/// and declared.
fn listed(connection: &Connection) -> Vec<String> {
    let batches = connection.execute("SHOW INDEXES").unwrap().record_batches().unwrap();
    let wanted = ["table_name", "kind", "columns", "index_name", "rows", "is_stored", "is_declared"];
    let mut lines = Vec::new();
    for batch in &batches {
        let options = FormatOptions::default().with_null("-");
        let columns = wanted.map(|name| batch.column_by_name(name).unwrap());
        let columns = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap());
        lines.extend(
            (0..batch.num_rows())
                .map(|row| columns.each_ref().map(|column| column.value(row).to_string()).join(" ")),
        );
    }
    lines
}

#[test]
fn declared_indexes_are_there_when_the_database_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.hypo");
    let connect = |read_only| {
        let options = OpenOptions { read_only, ..OpenOptions::default() };
        Database::open(&path, options).unwrap().connect().unwrap()
    };
    let connection = connect(false);
    for sql in [
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a INTEGER, b VARCHAR)",
        "INSERT INTO t SELECT value, value % 1000, 'b' || value FROM generate_series(1, 66000) AS g (value)",
        "CREATE INDEX by_a ON t (a)",
        "CREATE ORDER INDEX \"in order\" ON t (b)",
    ] {
        connection.execute(sql).unwrap();
    }
    let declared = ["t key a by_a 66000 true true", "t order b in order 66000 true true"];
    assert_eq!(listed(&connection), declared);
    // The second statement that gives the key has its index made.
    for _ in 0..2 {
        connection.execute("SELECT a FROM t WHERE id = 5").unwrap();
    }
    assert_eq!(listed(&connection), [declared[0], "t key id - 66000 true false", declared[1]]);
    connection.execute("CHECKPOINT").unwrap();
    drop(connection);

    let connection = connect(true);
    let unopened = ["t key a by_a - true true", "t key id - - true false", "t order b in order - true true"];
    assert_eq!(listed(&connection), unopened);
    drop(connection);

    // A damaged one is told, and made again.
    let indexes = path.join("indexes");
    let table = std::fs::read_dir(&indexes).unwrap().next().unwrap().unwrap().path();
    for file in std::fs::read_dir(&table).unwrap() {
        let file = file.unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
    }
    let connection = connect(false);
    let count = |sql: &str| connection.execute(sql).unwrap().row_count().unwrap();
    assert_eq!(count("CHECK DATABASE"), 3);
    assert_eq!(count("CHECK DATABASE"), 0);
    assert_eq!(listed(&connection), declared);
    assert_eq!(count("SELECT * FROM t WHERE a = 3"), 66);

    // They are part of what EXPORT writes; a backup builds them anew.
    let (exported, backup) = (directory.path().join("exported"), directory.path().join("backup.hypo"));
    connection.execute(&format!("EXPORT DATABASE '{}'", exported.display())).unwrap();
    connection.execute(&format!("BACKUP DATABASE TO '{}'", backup.display())).unwrap();
    let imported = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    imported.execute(&format!("IMPORT DATABASE '{}'", exported.display())).unwrap();
    let names = "SELECT indexname, indexdef FROM pg_indexes ORDER BY 1";
    assert_eq!(outcome(&imported, names), outcome(&connection, names));
    let restored = Database::open(&backup, OpenOptions::default()).unwrap().connect().unwrap();
    let unbuilt = ["t key a by_a - false true", "t order b in order - false true"];
    assert_eq!(listed(&restored), unbuilt);
    restored.execute("SELECT id FROM t WHERE a = 3").unwrap();
    assert!(listed(&restored)[0].starts_with("t key a by_a 66000"));

    // Compaction makes other files of the table, with other indexes, which are built at once.
    connection.execute("DELETE FROM t WHERE id > 65900").unwrap();
    connection.execute("VACUUM").unwrap();
    let compacted = ["t key a by_a 65900 true true", "t order b in order 65900 true true"];
    assert_eq!(listed(&connection), compacted);
    assert_eq!(count("SELECT * FROM t WHERE a = 3"), 66);
    connection.execute("DROP INDEX by_a").unwrap();
    assert_eq!(listed(&connection), compacted[1..]);
    connection.execute("DROP TABLE t").unwrap();
    assert!(listed(&connection).is_empty());
}
