//! Wrong SQL and wrong data give a clear error of the right class, and nothing is lost.

use crate::backup::rows;
use hypostyle::{Database, ErrorKind, Identity, OpenOptions, Privileges};

#[test]
fn who_may_not_name_files_is_not_told_of_any() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("told"), OpenOptions::default()).unwrap();
    let identity = Identity { privileges: Privileges::WRITE, ..Identity::default() };
    let place = directory.path().display().to_string();
    let sql = "SHOW DATABASES";
    assert!(rows(&database.connect().unwrap(), sql).contains(&place));
    assert!(!rows(&database.connect_as(identity).unwrap(), sql).contains(&place));
}

#[test]
fn errors_have_their_class_and_say_what_to_do() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection
        .execute("CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_orderdate DATE, small TINYINT)")
        .unwrap();
    for (sql, kind, part) in [
        ("SELEC 1", ErrorKind::Syntax, "SELEC"),
        ("SELECT * FROM order_s", ErrorKind::UnknownName, "did you mean \"orders\"?"),
        ("SELECT o_date FROM orders", ErrorKind::UnknownName, "o_orderdate"),
        ("SELECT nonsense(1)", ErrorKind::UnknownName, "nonsense"),
        ("CREATE TABLE orders (a INT)", ErrorKind::AlreadyExists, "\"orders\" already exists"),
        ("INSERT INTO orders VALUES (NULL, DATE '2020-01-01', 1)", ErrorKind::Constraint, "NOT NULL"),
        ("INSERT INTO orders VALUES (1, DATE '2020-01-01', 300)", ErrorKind::InvalidInput, "300"),
        ("INSERT INTO orders VALUES (1, 'yesterday', 3)", ErrorKind::InvalidInput, "yesterday"),
        ("DROP TABLE order_s", ErrorKind::UnknownName, "orders"),
        ("SELECT 1/0", ErrorKind::InvalidInput, "zero"),
        ("CREATE TABLE k (a INT COLLATE de)", ErrorKind::Unsupported, "COLLATE"),
        ("CREATE TABLE k (a FROBNITZ)", ErrorKind::Unsupported, "FROBNITZ"),
        ("CREATE TABLE k (a INT, a INT)", ErrorKind::AlreadyExists, "two columns"),
        ("DELETE FROM orders ORDER BY o_orderkey LIMIT 1", ErrorKind::Unsupported, "LIMIT"),
        ("COMMIT", ErrorKind::TransactionState, "no transaction is open"),
        ("SET thread = 3", ErrorKind::UnknownName, "did you mean \"threads\"?"),
        ("COPY orders FROM 'missing.csv'", ErrorKind::NotFound, "missing.csv"),
        ("SELECT * FROM 'missing.parquet'", ErrorKind::NotFound, "missing.parquet"),
        ("SELECT * FROM orders WHERE o_orderkey = $1", ErrorKind::InvalidInput, "$1"),
    ] {
        let error = match connection.execute(sql).and_then(|result| result.row_count()) {
            Ok(rows) => panic!("{sql} gave {rows} rows"),
            Err(error) => error,
        };
        assert_eq!(error.kind(), kind, "{sql}: {error:?}");
        assert!(error.message().contains(part), "{sql}: {error}");
        assert_eq!(error.sqlstate().len(), 5);
    }
    assert_eq!(connection.execute("SELECT * FROM orders").unwrap().row_count().unwrap(), 0);
}

#[test]
fn a_memory_limit_is_kept_by_spilling_or_by_an_error() {
    let options = OpenOptions { memory_limit: Some(20_000_000), ..OpenOptions::default() };
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    connection.execute("CREATE TABLE t AS SELECT value AS a, 'text number ' || value AS s FROM generate_series(1, 500000) g(value)").unwrap();
    let sorted = connection.execute("SELECT count(*) FROM (SELECT s, row_number() OVER (ORDER BY s) FROM t)");
    match sorted.and_then(|result| result.row_count()) {
        Ok(rows) => assert_eq!(rows, 1),
        Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}"),
    }
    let joined = connection
        .execute("SELECT count(*) FROM t a JOIN t b ON a.s = b.s")
        .and_then(|result| result.row_count());
    match joined {
        Ok(rows) => assert_eq!(rows, 1),
        Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}"),
    }
    assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
}

#[test]
fn a_statement_gets_no_more_than_its_part_of_the_memory() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection
        .execute("CREATE TABLE t AS SELECT value AS a, 'text number ' || value AS s FROM generate_series(1, 300000) g(value)")
        .unwrap();
    let join = "SELECT count(*) FROM t a JOIN t b ON a.s = b.s AND a.a <> b.a + 1 FULL JOIN t c ON c.s = a.s";
    let run = || connection.execute(join).and_then(|result| result.row_count());
    connection.execute("SET query_memory_limit = '1MB'").unwrap();
    let error = run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.message().contains("raise query_memory_limit"), "{error}");
    connection.execute("SET query_memory_limit = 'none'").unwrap();
    assert_eq!(run().unwrap(), 1);
}

#[test]
fn a_database_survives_reopening_after_a_failed_statement() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.hypo");
    let database = Database::open(&path, OpenOptions::default()).unwrap();
    let connection = database.connect().unwrap();
    connection.execute("CREATE TABLE t (a TINYINT); INSERT INTO t VALUES (1), (2)").unwrap();
    connection.execute("INSERT INTO t SELECT value FROM generate_series(1, 100000) g(value)").err().unwrap();
    let second = Database::open(&path, OpenOptions::default()).unwrap().connect().unwrap();
    assert_eq!(second.execute("SELECT * FROM t").unwrap().row_count().unwrap(), 2);
    drop((connection, database));
    let connection = Database::open(&path, OpenOptions { read_only: true, ..OpenOptions::default() })
        .unwrap()
        .connect()
        .unwrap();
    assert_eq!(connection.execute("SELECT * FROM t").unwrap().row_count().unwrap(), 2);
    let error = connection.execute("INSERT INTO t VALUES (3)").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert_eq!(connection.execute("CHECK DATABASE").unwrap().row_count().unwrap(), 0);
}

#[test]
fn damaged_values_are_an_error_to_whoever_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged.hypo");
    let open = || Database::open(&path, OpenOptions::default()).unwrap().connect().unwrap();
    open()
        .execute(
            "CREATE TABLE t AS SELECT value AS n, 'kind ' || (value % 3) AS k, [value, 1] AS l \
             FROM generate_series(1, 1000) AS g (value); CHECKPOINT",
        )
        .unwrap();
    let files: Vec<_> =
        std::fs::read_dir(path.join("columns/1")).unwrap().map(|file| file.unwrap().path()).collect();
    let mut damaged = 0;
    for file in files {
        let sound = std::fs::read(&file).unwrap();
        if sound.len() < 16 {
            continue;
        }
        let mut bytes = sound.clone();
        bytes[9] ^= 0x40;
        std::fs::write(&file, bytes).unwrap();
        let connection = open();
        // It is read as it lies, copied, and computed with.
        let stored = connection.execute("SELECT * FROM t").unwrap();
        let corrupt = [
            stored.verify_rows(0..1000).map_err(|error| error.kind()).err(),
            connection.execute("CREATE TABLE copy AS SELECT * FROM t").map_err(|error| error.kind()).err(),
            connection
                .execute("SELECT n, k, l FROM t WHERE n >= 0 AND k <> '' AND l[2] = 1")
                .and_then(|result| result.row_count())
                .map_err(|error| error.kind())
                .err(),
        ];
        assert_eq!(corrupt, [Some(ErrorKind::Corrupt); 3], "{}", file.display());
        damaged += 1;
        std::fs::write(&file, sound).unwrap();
    }
    assert!(damaged >= 5, "only {damaged} files were damaged");
    assert_eq!(open().execute("SELECT * FROM t").unwrap().row_count().unwrap(), 1000);
}

/// Checks that a short statement cannot nest deeper than the stack of a small thread allows.
#[test]
fn statements_find_room_on_small_stacks() {
    let run = || {
        let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        connection.execute("CREATE TABLE t AS SELECT 1 AS a").unwrap();
        let nested = [vec!["a"; 200].join(" + "), format!("{}a{}", "-(".repeat(10), ")".repeat(10))];
        for (expression, value) in nested.iter().zip([200, 1]) {
            let expression = expression.replace(' ', "");
            for sql in [
                format!("SELECT a FROM t WHERE a = 1 AND {expression} = {value}"),
                format!("UPDATE t SET a = {expression} - {value} + 1 WHERE a = 1 RETURNING a"),
                format!("SELECT 1 WHERE {} = {value}", expression.replace('a', "1")),
            ] {
                assert!(sql.len() <= 512, "{}", sql.len());
                assert_eq!(connection.execute(&sql).unwrap().row_count().unwrap(), 1, "{sql}");
            }
        }
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap().join().unwrap();
}
