//! BACKUP, EXPORT and IMPORT DATABASE through SQL.

use hypostyle::{Connection, Database, ErrorKind, OpenOptions, Poll, PollHook, Progress};
use std::sync::{Arc, Mutex};

pub(crate) fn rows(connection: &Connection, sql: &str) -> String {
    let batches = connection.execute(sql).unwrap().record_batches().unwrap();
    arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
}

/// Returns a database with every kind of object that is exported.
fn filled() -> Connection {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection
        .execute(
            "CREATE SCHEMA other;
             CREATE TABLE parent (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL DEFAULT 'nobody; really');
             CREATE TABLE other.\"Child\" (a BIGINT, p INTEGER REFERENCES parent, d DECIMAL(15,2), t TIMESTAMP, u UUID,
                j JSON, l INTEGER[], s STRUCT(x DOUBLE, y DATE), b BLOB, tz TIMESTAMPTZ, CHECK (a > 0));
             COMMENT ON TABLE parent IS 'it''s a comment';
             COMMENT ON COLUMN parent.name IS 'one; or \"two\"';
             COMMENT ON SCHEMA other IS 'the other''s';
             INSERT INTO parent VALUES (1, 'one'), (2, 'two');
             INSERT INTO other.\"Child\" SELECT value, 1 + value % 2, 1.25, '2020-01-01 12:00:00',
                '00000000-0000-0000-0000-000000000007', '{\"a\": 1}', [1, NULL], NULL AS s, NULL AS b, '2020-01-01 12:00:00+02'
                FROM generate_series(1, 1000) AS g (value);
             DELETE FROM other.\"Child\" WHERE a = 500;
             CREATE VIEW v AS SELECT p, count(*) AS n FROM other.\"Child\" GROUP BY p;
             COMMENT ON VIEW v IS 'of a view';
             CREATE SEQUENCE other.\"Count\" INCREMENT 5 CYCLE MAXVALUE 1000;
             COMMENT ON SEQUENCE other.\"Count\" IS 'of a sequence';
             CREATE TABLE made (s SERIAL, i BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 100), twice BIGINT AS (a * 2), a BIGINT,
                n BIGINT DEFAULT nextval('other.\"Count\"'));
             INSERT INTO made (a) VALUES (1), (2), (3)",
        )
        .unwrap();
    connection
}

const QUERIES: [&str; 7] = [
    "SELECT * FROM parent ORDER BY id",
    "SELECT * FROM other.\"Child\" ORDER BY a",
    "SELECT * FROM v ORDER BY p",
    "SELECT * FROM made ORDER BY a",
    "SELECT * FROM information_schema.sequences ORDER BY sequence_name",
    "SELECT table_name, column_name, column_type, is_nullable, column_default, identity_generation, generation_expression FROM information_schema.columns ORDER BY 1, 2",
    "SELECT objsubid, description FROM pg_catalog.pg_description ORDER BY 2",
];

fn check(connection: &Connection, original: &Connection) {
    for sql in QUERIES {
        assert_eq!(rows(connection, sql), rows(original, sql), "{sql}");
    }
    assert!(rows(connection, QUERIES[6]).contains("of a sequence"));
    check_constraints(connection);
}

fn check_constraints(connection: &Connection) {
    let error = connection.execute("INSERT INTO other.\"Child\" (a, p) VALUES (1, 9)").err().unwrap();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "23503"));
    let error = connection.execute("INSERT INTO parent VALUES (1, 'again')").err().unwrap();
    assert_eq!(error.sqlstate(), "23505");
}

#[test]
fn a_backup_opens_as_a_database() {
    let original = filled();
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("it's a backup");
    let sql = format!("BACKUP DATABASE TO '{}'", target.to_str().unwrap().replace('\'', "''"));
    for _ in 0..2 {
        original.execute(&sql).unwrap();
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        for query in QUERIES {
            let backup = Database::open(&target, options.clone()).unwrap().connect().unwrap();
            assert_eq!(rows(&backup, query), rows(&original, query), "{query}");
        }
        original.execute("INSERT INTO other.\"Child\" (a, p) VALUES (2000, 2)").unwrap();
    }
    check_constraints(&Database::open(&target, OpenOptions::default()).unwrap().connect().unwrap());
    let error = filled().execute(&sql).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(filled().execute("BACKUP DATABASE").err().unwrap().kind(), ErrorKind::Syntax);
}

#[test]
fn an_export_is_imported_whole_or_not_at_all() {
    let original = filled();
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("export");
    original.execute(&format!("EXPORT DATABASE '{}'", target.display())).unwrap();
    assert_eq!(
        original.execute(&format!("EXPORT DATABASE '{}'", target.display())).err().unwrap().kind(),
        ErrorKind::InvalidInput
    );
    // The directory may be moved.
    let moved = directory.path().join("moved");
    std::fs::rename(&target, &moved).unwrap();
    let import = format!("IMPORT DATABASE '{}'", moved.display());
    let copy =
        Database::open(directory.path().join("copy"), OpenOptions::default()).unwrap().connect().unwrap();
    copy.execute(&import).unwrap();
    check(&copy, &original);
    let next = "INSERT INTO made (a) VALUES (4) RETURNING *";
    assert_eq!(rows(&copy, next), rows(&original, next));
    assert_eq!(copy.execute("INSERT INTO made (i) VALUES (1)").err().unwrap().sqlstate(), "428C9");
    assert_eq!(copy.execute(&import).err().unwrap().kind(), ErrorKind::AlreadyExists);
    check(&copy, &original);

    std::fs::remove_file(moved.join("other.Child.parquet")).unwrap();
    let empty = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    assert_eq!(empty.execute(&import).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(empty.tables().unwrap().len(), 0);
    assert!(!empty.is_in_transaction());
}

#[test]
fn every_table_is_exported_to_a_file_of_its_own_in_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (target, outside) = (directory.path().join("export"), directory.path().join("outside"));
    let schema = outside.display();
    let names = [
        format!("\"{schema}\".t"),
        "\"..\".\"/x\"".into(),
        "a.\"b.c\"".into(),
        "\"a.b\".c".into(),
        "a.\"B.C\"".into(),
        "a.\"x FROM 'y\"".into(),
        "a.\"two \"\"words\"\"; -- \"".into(),
        "main.plain".into(),
    ];
    let original = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    for schema in [&*format!("\"{schema}\""), "\"..\"", "a", "\"a.b\""] {
        original.execute(&format!("CREATE SCHEMA {schema}")).unwrap();
    }
    for (number, name) in names.iter().enumerate() {
        original.execute(&format!("CREATE TABLE {name} AS SELECT {number} AS n")).unwrap();
    }
    original.execute(&format!("EXPORT DATABASE '{}'", target.display())).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), names.len() + 2);
    assert!(target.join("main.plain.parquet").exists());

    let copy = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    copy.execute(&format!("IMPORT DATABASE '{}'", target.display())).unwrap();
    for name in &names {
        let sql = format!("SELECT * FROM {name}");
        assert_eq!(rows(&copy, &sql), rows(&original, &sql), "{name}");
    }
}

#[test]
fn views_are_imported_in_any_order_and_broken_ones_stay_broken() {
    let original = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    original
        .execute(
            "CREATE TABLE t (a BIGINT);
             CREATE TABLE gone (a BIGINT);
             INSERT INTO t VALUES (1), (2);
             CREATE VIEW v1 AS SELECT a FROM t;
             CREATE VIEW v2 AS SELECT sum(a) AS s FROM v1;
             CREATE VIEW v3 AS SELECT s + 1 AS s FROM v2;
             CREATE VIEW broken AS SELECT a FROM gone;
             CREATE VIEW of_broken AS SELECT a FROM broken;
             CREATE OR REPLACE VIEW v2 AS SELECT sum(a) AS s FROM v1 WHERE a > 1;
             CREATE OR REPLACE VIEW v1 AS SELECT a + 10 AS a FROM t;
             DROP TABLE gone",
        )
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("export");
    original.execute(&format!("EXPORT DATABASE '{}'", target.display())).unwrap();
    let copy = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    copy.execute(&format!("IMPORT DATABASE '{}'", target.display())).unwrap();
    let views = "SELECT table_name, definition FROM information_schema.views ORDER BY 1";
    for sql in ["SELECT * FROM v1 ORDER BY a", "SELECT * FROM v2", "SELECT * FROM v3", views] {
        assert_eq!(rows(&copy, sql), rows(&original, sql), "{sql}");
    }
    for connection in [&original, &copy] {
        assert!(connection.execute("SELECT * FROM of_broken").is_err());
        connection.execute("CREATE TABLE gone AS SELECT 7 AS a").unwrap();
        assert!(rows(connection, "SELECT * FROM of_broken").contains("| 7 |"));
    }
}

#[test]
fn a_backup_tells_how_far_it_is_and_can_be_interrupted() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection
        .execute("CREATE TABLE t AS SELECT value AS a, value * 2 AS b FROM generate_series(1, 1000000) AS g (value)")
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("backup");
    let sql = format!("BACKUP DATABASE TO '{}'", target.display());
    // It copies two pieces, and not the third.
    let interrupt = || -> PollHook {
        Arc::new(|progress: &Progress| match progress.rows_done > 8 << 20 {
            true => Poll::Interrupt,
            false => Poll::Continue,
        })
    };
    connection.set_poll(Some(interrupt()));
    assert_eq!(connection.execute(&sql).err().unwrap().kind(), ErrorKind::Interrupted);
    let read_only = || OpenOptions { read_only: true, ..OpenOptions::default() };
    assert_eq!(Database::open(&target, read_only()).err().unwrap().kind(), ErrorKind::InvalidInput);

    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    connection.set_poll(Some(Arc::new(move |progress: &Progress| {
        seen.lock().unwrap().push((progress.rows_done, progress.rows_total));
        Poll::Continue
    })));
    connection.execute(&sql).unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    let bytes = told.last().unwrap().0;
    assert!(bytes >= 16_000_000, "{told:?}");
    assert!(told.len() >= 4 && told.is_sorted(), "{told:?}");
    assert_eq!(told.last().unwrap().1, Some(bytes));

    // The old backup stays, and the connection remains usable.
    connection.execute("INSERT INTO t SELECT a + 1000000, b FROM t").unwrap();
    connection.set_poll(Some(interrupt()));
    assert_eq!(connection.execute(&sql).err().unwrap().kind(), ErrorKind::Interrupted);
    let count = "SELECT count(*) FROM t";
    let rows_in_backup = || {
        let backup = Database::open(&target, read_only()).unwrap().connect().unwrap();
        rows(&backup, count)
    };
    assert!(rows_in_backup().contains("| 1000000 "), "{}", rows_in_backup());
    connection.set_poll(None);
    connection.execute(&sql).unwrap();
    assert_eq!(rows_in_backup(), rows(&connection, count));
}
