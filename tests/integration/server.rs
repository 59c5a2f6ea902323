//! Tests the server and the client of our own protocol, over real sockets.

use crate::served::{DEADLINE, STOP_TIME, Served, Setup, until};
use arrow::array::{
    ArrayRef, AsArray, Int32RunArray, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use hypostyle::{
    AppendOptions, Connection, Database, ErrorKind, OpenOptions, Parameters, QueryResult, ScalarValue,
    StatementDescription,
};
use hypostyle_server::{Addresses, Limits, Role, Server, Users, listen};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub const TYPES: &str = "CREATE TABLE types AS SELECT
    i, CASE WHEN i % 7 <> 0 THEN i * 1000003 END AS big, CAST(i % 100 AS TINYINT) AS tiny, i % 3 = 0 AS flag,
    CASE WHEN i % 5 <> 0 THEN CAST(i AS DOUBLE) / 3 END AS ratio, CAST(i / 100.0 AS DECIMAL(15,2)) AS price,
    CAST(i AS DECIMAL(38,4)) AS wide, DATE '1992-01-01' + CAST(i % 2500 AS INTEGER) AS day,
    CAST(to_timestamp(978307200 + i * 60) AS TIMESTAMP) AS moment,
    'comment ' || (i * 7919 % 100003) AS text, CASE WHEN i % 4 <> 0 THEN 'mode ' || (i % 5) END AS mode,
    CAST('b' || i AS BLOB) AS bytes, [i, i + 1] AS list, NULL AS nothing
    FROM generate_series(1, 50000) AS s(i)";

/// Returns one batch with the types that cross the wire.
fn rows(result: &QueryResult) -> RecordBatch {
    let batches = result.record_batches().unwrap();
    let schema = batches.first().map_or(result.schema(), |batch| batch.schema());
    concat_batches(&schema, &batches).unwrap()
}

pub fn assert_same(one: &RecordBatch, other: &RecordBatch, what: &str) {
    assert_eq!(one.num_rows(), other.num_rows(), "{what}");
    for (index, (own, remote)) in one.columns().iter().zip(other.columns()).enumerate() {
        let own: ArrayRef = if own.data_type() == remote.data_type() {
            own.clone()
        } else {
            cast(own, remote.data_type()).unwrap()
        };
        assert_eq!(&own, remote, "{what}: column {}", one.schema().field(index).name());
    }
}

#[test]
fn results_are_the_same_by_every_way_and_codec() {
    let served = Served::on_disk();
    let embedded = served.database.connect().unwrap();
    embedded.execute(TYPES).unwrap();
    let queries = [
        "SELECT * FROM types",
        "SELECT * FROM types WHERE i % 3 = 1 ORDER BY i",
        "SELECT * FROM types LIMIT 0",
        "SELECT mode, text, count(*) AS n FROM types GROUP BY ALL ORDER BY text, mode",
        "SELECT 1 AS a, NULL AS b, 'x' AS c",
    ];
    let ways: [(&str, Connection); 3] = [
        ("unix", served.connect_unix().unwrap()),
        ("unix without descriptors", served.connect_unix_for_chunks().unwrap()),
        ("tcp", served.connect_tcp().unwrap()),
    ];
    for query in queries {
        let expected = rows(&embedded.execute(query).unwrap());
        for (way, connection) in &ways {
            for codec in ["auto", "none", "light", "lz4", "zstd", "zstd:9"] {
                connection.execute(&format!("SET result_codec = '{codec}'")).unwrap();
                let result = connection.execute(query).unwrap();
                assert_same(&expected, &rows(&result), &format!("{query} over {way}, {codec}"));
            }
        }
    }
    let stored = ways[0].1.execute("SELECT * FROM types").unwrap();
    assert!(stored.statistics().unwrap().mapped, "a stored table comes as descriptors");
    let error = ways[2].1.execute("SET result_codec = 'gzip'").err().unwrap();
    assert!(error.message().contains("gzip"), "{error}");
}

#[test]
fn batches_stream_and_an_unread_result_does_not_block_the_next_statement() {
    let served = Served::in_memory();
    served.database.connect().unwrap().execute(TYPES).unwrap();
    for connection in [served.connect_tcp().unwrap(), served.connect_unix().unwrap()] {
        let first = connection.execute("SELECT i FROM types WHERE i > 0").unwrap();
        let batch = first.next_batch().unwrap().unwrap();
        let second = connection.execute("SELECT count(*) FROM types").unwrap();
        assert_eq!(second.column(0).unwrap().as_primitive::<Int64Type>().value(0), 50_000);
        let mut count = batch.num_rows();
        while let Some(batch) = first.next_batch().unwrap() {
            count += batch.num_rows();
        }
        assert_eq!(count, 50_000);
        // It is dropped unread.
        drop(connection.execute("SELECT * FROM types WHERE i > 0").unwrap());
        assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    }
}

#[test]
fn a_mapping_outlives_the_table_and_the_server() {
    let mut served = Served::on_disk();
    let connection = served.connect_unix().unwrap();
    connection.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 100000) AS s(i)").unwrap();
    let result = connection.execute("SELECT i FROM t").unwrap();
    assert!(result.is_stored());
    let private = result.column_private(0).unwrap();
    connection.execute("DROP TABLE t").unwrap();
    connection.execute("CHECKPOINT").unwrap();
    served.stop();
    served.database.close().unwrap();
    let sum = |array: &ArrayRef| array.as_primitive::<Int64Type>().values().iter().sum::<i64>();
    assert_eq!(sum(&result.column(0).unwrap()), 5_000_050_000);
    assert_eq!(sum(&private), 5_000_050_000);
    let error = connection.execute("SELECT 1").err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Connection | ErrorKind::Closed), "{error:?}");
}

#[test]
fn rows_of_the_log_lie_behind_those_of_the_servers_files() {
    let served = Served::on_disk();
    let connection = served.connect_unix().unwrap();
    let own = served.database.connect().unwrap();
    own.execute(TYPES).unwrap();
    own.execute("CHECKPOINT").unwrap();
    own.execute("INSERT INTO types SELECT * FROM types LIMIT 1000").unwrap();
    let (all, some) = ("SELECT * FROM types", "SELECT * FROM types OFFSET 777");
    for query in [all, some] {
        let (found, expected) = (connection.execute(query).unwrap(), own.execute(query).unwrap());
        assert!(found.is_mapped(), "{query}");
        assert_eq!(found.record_batches().unwrap().len(), 1, "{query}");
        assert_same(&rows(&expected), &rows(&found), query);
        for column in 0..found.columns().len() {
            let (own, private) =
                (expected.column_private(column).unwrap(), found.column_private(column).unwrap());
            private.to_data().validate_full().unwrap();
            assert_eq!(&own, &private, "{query}, column {column}");
            found.verify_column(column, 0..found.row_count().unwrap()).unwrap();
        }
    }
    // The result stays what it was when the rows come into the files, and when they are gone.
    let (before, expected) = (connection.execute(all).unwrap(), rows(&own.execute(all).unwrap()));
    own.execute("CHECKPOINT").unwrap();
    own.execute("DROP TABLE types").unwrap();
    assert_same(&expected, &rows(&before), "after the table is gone");
    // Deleted rows leave pieces, which are no mapping together.
    own.execute(TYPES).unwrap();
    own.execute("CHECKPOINT").unwrap();
    own.execute("DELETE FROM types WHERE i = 20000").unwrap();
    own.execute("INSERT INTO types SELECT * FROM types LIMIT 10").unwrap();
    let found = connection.execute(all).unwrap();
    assert!(!found.is_mapped());
    assert_same(&rows(&own.execute(all).unwrap()), &rows(&found), "with a deleted row");
}

#[test]
fn a_cancelled_statement_leaves_the_session_alive() {
    let served = Served::in_memory();
    served.database.connect().unwrap().execute(TYPES).unwrap();
    for connection in [served.connect_tcp().unwrap(), served.connect_unix().unwrap()] {
        let running = {
            let connection = connection.clone();
            let slow = "SELECT count(*) FROM types a, types b WHERE a.i * b.i % 7 = 3";
            thread::spawn(move || connection.execute(slow).and_then(|result| result.row_count()))
        };
        served.await_statement("types a, types b");
        thread::sleep(Duration::from_millis(100));
        connection.interrupt();
        let started = Instant::now();
        let error = running.join().unwrap().err().unwrap();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Interrupted, "57014"));
        assert!(started.elapsed() < DEADLINE);
        assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    }
}

#[test]
fn statements_are_described_as_embedded() {
    let served = Served::in_memory();
    let own = served.database.connect().unwrap();
    own.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, c DECIMAL(9, 2), d INTEGER[])").unwrap();
    for connection in [served.connect_tcp().unwrap(), served.connect_unix().unwrap()] {
        for sql in [
            "SELECT a, b, c * 2 AS e, d FROM t WHERE a = $1 AND b LIKE $2",
            "INSERT INTO t VALUES ($1, $2, $3)",
            "DELETE FROM t WHERE a = $1 RETURNING b",
            "UPDATE t SET b = $1",
            "UPDATE t AS x SET d = $1 FROM t AS y WHERE x.a = y.a AND y.c < $2 RETURNING x.*, upper(y.b) AS \"U\"",
            "INSERT INTO t AS x VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING x.b, a + 1",
            "DELETE FROM t USING t AS y WHERE t.a = y.a AND y.b = $1 RETURNING t.a, y.d",
            "SELECT $1",
            "SUMMARIZE t",
            "CREATE TABLE u (a INTEGER)",
            "CREATE TABLE u (a INTEGER) PARTITION BY HASH (a) INTO 4 FRAGMENTS",
            "SHOW FRAGMENTS FROM t",
            "SELECT 1 AS one, NULL AS nothing",
        ] {
            let described = connection.describe(sql).unwrap();
            // Whether it is kept is for whoever is beside the definitions.
            let own = StatementDescription { follows_definitions: false, ..own.describe(sql).unwrap() };
            assert_eq!(described, own, "{sql}");
        }
        let error = connection.describe("SELECT x FROM t").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownName, "{error}");
        assert!(own.tables().unwrap().iter().all(|table| table.name != "u"));
        assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    }
}

#[test]
fn parameters_transactions_and_errors_are_as_embedded() {
    let served = Served::in_memory();
    let connection = served.connect_tcp().unwrap();
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)").unwrap();
    let insert = |a: i32, b: Option<&str>| {
        let values = vec![ScalarValue::Int32(Some(a)), ScalarValue::Utf8(b.map(Into::into))];
        connection.execute_with("INSERT INTO t VALUES (?, ?)", Parameters::Positional(values))
    };
    assert_eq!(insert(1, Some("x")).unwrap().rows_affected(), Some(1));
    assert_eq!(insert(2, None).unwrap().rows_affected(), Some(1));
    let error = insert(1, None).err().unwrap();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "23505"));
    let named = vec![("who".to_string(), ScalarValue::Int32(Some(2)))];
    let result = connection.execute_with("SELECT b FROM t WHERE a = $who", Parameters::Named(named)).unwrap();
    assert!(result.column(0).unwrap().is_null(0));

    assert!(!connection.is_in_transaction());
    connection.execute("BEGIN").unwrap();
    assert!(connection.is_in_transaction());
    connection.execute("DELETE FROM t").unwrap();
    assert!(connection.execute("SELECT * FROM missing").is_err());
    assert!(connection.is_transaction_failed());
    connection.execute("ROLLBACK").unwrap();
    assert_eq!(connection.table("t").unwrap().row_count().unwrap(), 2);
    let tables = connection.tables().unwrap();
    assert_eq!((tables[0].name.as_str(), tables[0].row_count), ("t", Some(2)));
    assert_eq!(tables[0].columns.len(), 2);
    // A session that ends rolls back.
    let other = served.connect_tcp().unwrap();
    other.execute("BEGIN").unwrap();
    other.execute("DELETE FROM t").unwrap();
    other.close().unwrap();
    assert_eq!(connection.table("t").unwrap().row_count().unwrap(), 2);
}

fn batches(count: usize, fail_at: Option<usize>) -> Box<dyn arrow::array::RecordBatchReader + Send> {
    let batch = |number: usize| {
        let ids = Int64Array::from_iter_values((0..10_000).map(|row| (number * 10_000 + row) as i64));
        let texts = StringArray::from_iter_values((0..10_000).map(|row| format!("row {row} of {number}")));
        let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("text", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let schema = batch(0).schema();
    let items = (0..count).map(move |number| match fail_at {
        Some(at) if at == number => Err(ArrowError::ComputeError("the source broke".into())),
        _ => Ok(batch(number)),
    });
    Box::new(RecordBatchIterator::new(items, schema))
}

#[test]
fn appends_are_whole_or_nothing() {
    let served = Served::on_disk();
    let create = AppendOptions { create: true, ..AppendOptions::default() };
    for (name, connection) in
        [("tcp", served.connect_tcp().unwrap()), ("unix", served.connect_unix().unwrap())]
    {
        assert_eq!(connection.append(name, batches(100, None), create).unwrap(), 1_000_000);
        let sums = connection.execute(&format!("SELECT sum(id), count(DISTINCT text) FROM {name}")).unwrap();
        assert_eq!(sums.column(0).unwrap().as_primitive::<Int64Type>().value(0), 499_999_500_000);
        let error = connection.append(name, batches(100, Some(60)), create).unwrap_err();
        assert!(error.message().contains("the source broke"), "{error}");
        connection
            .execute(&format!("CREATE TABLE {name}_key (id BIGINT PRIMARY KEY, text VARCHAR)"))
            .unwrap();
        connection.execute(&format!("INSERT INTO {name}_key VALUES (15000, 'there')")).unwrap();
        let keyed = format!("{name}_key");
        let error = connection.append(&keyed, batches(50, None), AppendOptions::default()).unwrap_err();
        assert_eq!(error.sqlstate(), "23505", "{error}");
        let error = connection.append("nowhere", batches(50, None), AppendOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownName);
        assert_eq!(connection.table(name).unwrap().row_count().unwrap(), 1_000_000);
        assert_eq!(connection.table(&keyed).unwrap().row_count().unwrap(), 1);
    }
}

#[test]
fn rows_that_cannot_be_sent_are_refused_and_the_session_goes_on() {
    let served = Served::in_memory();
    let connection = served.connect_tcp().unwrap();
    connection.execute("BEGIN").unwrap();
    connection.execute("CREATE TABLE t (a INTEGER)").unwrap();
    let runs: Int32RunArray = [Some("a"), Some("a"), None].into_iter().collect();
    let rows = RecordBatch::try_from_iter([("a", Arc::new(runs) as ArrayRef)]).unwrap();
    let reader = RecordBatchIterator::new([Ok(rows.clone())], rows.schema());
    let error = connection.append("t", Box::new(reader), AppendOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    connection.execute("ROLLBACK").unwrap();
    assert!(connection.execute("SELECT * FROM t").is_err());
}

#[test]
fn an_append_without_end_can_be_interrupted() {
    let served = Served::in_memory();
    let connection = served.connect_tcp().unwrap();
    connection.execute("CREATE TABLE t (id BIGINT, text VARCHAR)").unwrap();
    let interrupting = connection.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        interrupting.interrupt();
    });
    let error = connection.append("t", batches(1_000_000, None), AppendOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert_eq!(connection.table("t").unwrap().row_count().unwrap(), 0);
}

#[test]
fn wide_tables_are_mapped_too() {
    let served = Served::on_disk();
    let own = served.database.connect().unwrap();
    let columns = (0..300).map(|n| format!("nullif(i % {}, 1) AS c{n}", n + 2));
    let columns = columns.collect::<Vec<_>>().join(", ");
    own.execute(&format!("CREATE TABLE wide AS SELECT {columns} FROM generate_series(1, 70000) AS s(i)"))
        .unwrap();
    own.execute("CHECKPOINT").unwrap();
    let remote = served.connect_unix().unwrap().execute("SELECT * FROM wide").unwrap();
    assert!(remote.is_stored(), "600 files are passed");
    assert_same(&rows(&own.execute("SELECT * FROM wide").unwrap()), &rows(&remote), "600 files");
}

#[test]
fn the_server_asks_for_tables_that_the_client_has() {
    let served = Served::in_memory();
    let connection = served.connect(&format!("hypostyle://{}/?variables=on", served.tcp), true).unwrap();
    let resolver: hypostyle::TableResolver = Arc::new(|name, _| match name {
        "mine" => {
            let reader = batches(3, None);
            let schema = reader.schema();
            Some(Ok(hypostyle::ExternalTable { schema, batches: reader.map(Result::unwrap).collect() }))
        }
        "broken" => Some(Err(hypostyle::Error::new(ErrorKind::InvalidInput, "it is broken"))),
        _ => None,
    });
    connection.set_table_resolver(Some(resolver));
    let result = connection.execute("SELECT count(*), max(id) FROM mine").unwrap();
    assert_eq!(result.column(1).unwrap().as_primitive::<Int64Type>().value(0), 29_999);
    assert!(connection.execute("SELECT * FROM broken").err().unwrap().message().contains("it is broken"));
    assert_eq!(connection.execute("SELECT * FROM nothing").err().unwrap().kind(), ErrorKind::UnknownName);
    // The server may not ask for a definition, nor if nobody has allowed it.
    connection.execute("CREATE TABLE mine (id BIGINT)").unwrap();
    connection.execute("CREATE VIEW v AS SELECT id FROM mine").unwrap();
    connection.execute("DROP TABLE mine").unwrap();
    assert_eq!(connection.execute("SELECT * FROM v").err().unwrap().kind(), ErrorKind::UnknownName);
    let other = served.connect_tcp().unwrap();
    let never: hypostyle::TableResolver =
        Arc::new(|name, _| -> Option<hypostyle::Result<_>> { panic!("{name} was asked for") });
    other.set_table_resolver(Some(never));
    assert_eq!(other.execute("SELECT * FROM mine").err().unwrap().kind(), ErrorKind::UnknownName);
    assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
}

pub fn users() -> Users {
    let lines = [
        ("ada", Role::Admin, "a"),
        ("will", Role::Write, "w"),
        ("rita", Role::Read, "r"),
        ("node", Role::Cluster, "n"),
    ];
    let lines = lines.map(|(name, role, password)| Users::line(name, role, password).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users");
    std::fs::write(&path, lines.join("\n")).unwrap();
    Users::read(&path).unwrap()
}

#[test]
fn roles_say_what_a_user_may_do() {
    let served = Served::new(Setup { on_disk: true, users: Some(users()), ..Setup::default() });
    let connect = |login: &str| served.connect(&format!("hypostyle://{login}@{}/", served.tcp), true);
    let file = served.directory.path().join("secret.csv");
    std::fs::write(&file, "a\n1\n").unwrap();
    let file = file.display();
    let writer = connect("will:w").unwrap();
    writer.execute("CREATE TABLE t (a INTEGER)").unwrap();
    writer.execute("INSERT INTO t VALUES (1)").unwrap();
    writer.execute("CREATE SEQUENCE s").unwrap();

    let reader = connect("rita:r").unwrap();
    assert_eq!(reader.table("t").unwrap().row_count().unwrap(), 1);
    let writing = [
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET a = 3",
        "DELETE FROM t",
        "TRUNCATE t",
        "DROP TABLE t",
        "CREATE TABLE u (a INTEGER)",
        "CREATE TABLE u AS SELECT 1 AS a",
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE SCHEMA x",
        "CREATE SEQUENCE q",
        "SELECT nextval('s')",
        "SELECT setval('s', 7)",
        "ALTER TABLE t ADD COLUMN b INTEGER",
        "COMMENT ON TABLE t IS 'x'",
        "VACUUM",
        "CHECKPOINT",
        "MERGE INTO t USING t AS s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "CALL tpch_generate(sf => 0.001)",
        "INSERT INTO t SELECT * FROM t RETURNING a",
        "BEGIN; INSERT INTO t VALUES (2); COMMIT",
    ];
    let touching_files = [
        format!("SELECT * FROM '{file}'"),
        format!("SELECT * FROM read_csv('{file}')"),
        format!("COPY t FROM '{file}'"),
        format!("COPY t TO '{file}'"),
        format!("ATTACH '{file}.hypo' AS x"),
        format!("BACKUP DATABASE TO '{file}.backup'"),
        format!("EXPORT DATABASE '{file}.export'"),
        format!("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{file}'"),
        format!("EXPLAIN COPY (SELECT 1) TO '{file}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{file}' STORED AS CSV"),
        format!("EXPLAIN ANALYZE VERBOSE COPY t TO '{file}' STORED AS PARQUET"),
        format!("EXPLAIN EXPLAIN ANALYZE COPY t TO '{file}' STORED AS CSV"),
        "SET temp_directory = '/'".into(),
        "SET memory_limit = '1GB'".into(),
        "PRAGMA synchronous = off".into(),
    ];
    for sql in writing {
        let error = reader.execute(sql).and_then(|result| result.row_count()).err();
        let error = error.unwrap_or_else(|| panic!("a reader could {sql}"));
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Denied, "42501"), "{sql}: {error}");
        if reader.is_in_transaction() {
            reader.execute("ROLLBACK").unwrap();
        }
    }
    for connection in [&reader, &writer] {
        for sql in &touching_files {
            let error = connection.execute(sql).and_then(|result| result.row_count()).err();
            let error = error.unwrap_or_else(|| panic!("somebody could {sql}"));
            assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported), "{sql}: {error:?}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(file.to_string()).unwrap(),
        "a\n1\n",
        "nobody has written to the server's file"
    );
    let error = reader.append("t", batches(1, None), AppendOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    // The session's own objects are no change of the database.
    reader.execute("CREATE TEMPORARY TABLE mine AS SELECT * FROM t").unwrap();
    assert_eq!(reader.table("mine").unwrap().row_count().unwrap(), 1);

    let admin = connect("ada:a").unwrap();
    assert_eq!(admin.execute(&format!("SELECT * FROM '{file}'")).unwrap().row_count().unwrap(), 1);
    let sessions = admin.execute("SHOW SESSIONS").unwrap();
    assert_eq!(sessions.row_count().unwrap(), 3);
    assert_eq!(reader.execute("SHOW SESSIONS").unwrap().row_count().unwrap(), 1);
    assert_eq!(reader.execute(&format!("KILL {}", writer.id())).err().unwrap().kind(), ErrorKind::Denied);
    admin.execute(&format!("KILL {}", writer.id())).unwrap();
    let error = writer.execute("SELECT 1").err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Connection), "{error:?}");
}

/// Checks that a user who creates a view cannot read files of the server by it, nor let a user who
/// may read files do so.
#[test]
fn a_view_never_reads_a_file() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let connect =
        |login: &str| served.connect(&format!("hypostyle://{login}@{}/", served.tcp), true).unwrap();
    let file = served.directory.path().join("secret.csv");
    std::fs::write(&file, "a\n1\n").unwrap();
    let file = file.display();
    let writer = connect("will:w");
    writer.execute(&format!("CREATE TABLE \"{file}\" (a INTEGER)")).unwrap();
    writer.execute(&format!("CREATE VIEW trap AS SELECT * FROM \"{file}\"")).unwrap();
    writer.execute("CREATE VIEW outer_trap AS SELECT * FROM trap").unwrap();
    writer.execute(&format!("DROP TABLE \"{file}\"")).unwrap();
    let admin = connect("ada:a");
    for view in ["trap", "outer_trap"] {
        let error = admin.execute(&format!("SELECT * FROM {view}")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::UnknownName, "{error}");
    }
    // A view of an admin's reads it for those alone who may read files.
    let create = format!("CREATE VIEW v AS SELECT * FROM '{file}'");
    assert!(writer.execute(&create).is_err());
    admin.execute(&create).unwrap();
    assert_eq!(admin.execute("SELECT * FROM v").unwrap().row_count().unwrap(), 1);
    assert_eq!(writer.execute("SELECT * FROM v").err().unwrap().kind(), ErrorKind::Denied);
    assert_eq!(admin.execute(&format!("SELECT * FROM '{file}'")).unwrap().row_count().unwrap(), 1);
}

#[test]
fn only_an_admin_looks_like_a_superuser() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    for (login, expected) in [("ada:a", true), ("will:w", false), ("rita:r", false)] {
        let connection = served.connect(&format!("hypostyle://{login}@{}/", served.tcp), true).unwrap();
        let result = connection
            .execute("SELECT rolsuper OR rolcreaterole OR rolbypassrls, current_setting('is_superuser') = 'on' FROM pg_roles")
            .unwrap();
        for column in 0..2 {
            assert_eq!(result.column(column).unwrap().as_boolean().value(0), expected, "{login}");
        }
        let told = connection.execute("SELECT usesuper OR usecreatedb OR usebypassrls FROM pg_user").unwrap();
        assert_eq!(told.column(0).unwrap().as_boolean().value(0), expected, "{login}");
    }
}

#[test]
fn what_is_told_of_rights_is_what_a_user_may_do() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let connect =
        |login: &str| served.connect(&format!("hypostyle://{login}@{}/", served.tcp), true).unwrap();
    connect("ada:a").execute("CREATE TABLE t (a INTEGER)").unwrap();
    for (login, may_write, is_admin) in
        [("ada:a", true, true), ("will:w", true, false), ("rita:r", false, false)]
    {
        let connection = connect(login);
        connection.execute("CREATE TEMPORARY TABLE own (a INTEGER)").unwrap();
        for (told, expected) in [
            ("has_table_privilege('t', 'SELECT')", true),
            ("has_table_privilege(current_user, 't', 'INSERT')", may_write),
            ("has_table_privilege('own', 'INSERT')", true),
            ("has_table_privilege('pg_class', 'UPDATE')", false),
            ("has_column_privilege('t', 'a', 'UPDATE')", may_write),
            ("has_any_column_privilege('t', 'UPDATE')", may_write),
            ("has_schema_privilege('main', 'CREATE')", may_write),
            ("has_schema_privilege('main', 'USAGE')", true),
            ("has_database_privilege(current_database(), 'CREATE')", may_write),
            ("has_parameter_privilege('work_mem', 'SET')", is_admin),
            ("pg_has_role('pg_write_all_data', 'MEMBER')", may_write),
            ("(acldefault('r', 10))[1] LIKE '%=arwdDxt/%'", may_write),
            ("pg_has_role('pg_read_server_files', 'MEMBER')", is_admin),
            (
                "(SELECT count(*) = 7 FROM information_schema.table_privileges WHERE table_name = 't')",
                may_write,
            ),
            (
                "(SELECT count(*) = 4 FROM information_schema.column_privileges WHERE table_name = 't')",
                may_write,
            ),
        ] {
            let result = connection.execute(&format!("SELECT {told}")).unwrap();
            assert_eq!(result.column(0).unwrap().as_boolean().value(0), expected, "{login}: {told}");
        }
        assert_eq!(connection.execute("INSERT INTO t VALUES (1)").is_ok(), may_write, "{login}");
    }
}

#[test]
fn an_import_runs_only_what_an_export_writes() {
    let served = Served::new(Setup { users: Some(users()), on_disk: true, ..Setup::default() });
    let connect =
        |login: &str| served.connect(&format!("hypostyle://{login}@{}/", served.tcp), true).unwrap();
    let directory = served.directory.path().join("received");
    std::fs::create_dir(&directory).unwrap();
    let import = format!("IMPORT DATABASE '{}'", directory.display());
    assert_eq!(connect("will:w").execute(&import).err().unwrap().kind(), ErrorKind::Denied);
    let admin = connect("ada:a");
    for evil in ["DROP TABLE precious", "COPY precious TO '/tmp/x.csv'", "ATTACH '/tmp/x' AS x", "KILL 1"] {
        std::fs::write(directory.join("schema.sql"), format!("CREATE TABLE t (a INTEGER); {evil};")).unwrap();
        std::fs::write(directory.join("load.sql"), "").unwrap();
        let error = admin.execute(&import).err().unwrap();
        assert!(error.message().contains("EXPORT DATABASE writes"), "{error}");
        assert!(admin.table("t").is_err(), "all of it, or nothing");
    }
}

#[test]
fn who_guesses_passwords_waits_and_nobody_else_does() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let guess = || served.connect(&format!("hypostyle://rita:wrong@{}/", served.tcp), true).err().unwrap();
    let begin = Instant::now();
    let guesses: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| (0..8).map(|_| guess()).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let answered = guesses.iter().filter(|error| error.sqlstate() == "28P01").count();
    assert!(guesses.iter().all(|error| ["28P01", "53300"].contains(&error.sqlstate())), "{guesses:?}");
    assert!(answered < 32, "{answered} guesses in {:?}", begin.elapsed());
    // Another user tries it, and from another address.
    served.connect(&format!("hypostyle://ada:a@{}/", served.tcp), true).unwrap();
    served.connect(&format!("hypostyle+unix://rita:r@{}", served.unix.display()), true).unwrap();
}

#[test]
fn nobody_gets_in_without_the_password() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let refused = |login: &str| {
        let error = served.connect(&format!("hypostyle://{login}{}/", served.tcp), true).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Denied, "{login}: {error}");
        error.sqlstate().to_string()
    };
    assert_eq!(refused("rita:wrong@"), "28P01");
    assert_eq!(refused("nobody:r@"), "28P01");
    assert_eq!(refused("rita@"), "28P01");
    assert_eq!(refused(""), "28000");
    let network = Addresses { tcp: Some("0.0.0.0:0".parse().unwrap()), ..Addresses::default() };
    let open = Server::new(served.database.clone(), None, Limits::default(), None).unwrap();
    assert_eq!(listen(&open, &network).err().unwrap().kind(), ErrorKind::Denied);
}

/// Returns an authority, and the certificate and key of a client that it has signed.
pub fn client_certificate() -> (String, String, String) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(authority, key);
    let own = rcgen::KeyPair::generate().unwrap();
    let client = rcgen::CertificateParams::new(vec!["client".into()]).unwrap();
    let signed = client.signed_by(&own, &issuer).unwrap();
    (certificate.pem(), signed.pem(), own.serialize_pem())
}

#[test]
fn clients_show_certificates_where_a_server_wants_to_see_them() {
    let (authority, own, key) = client_certificate();
    let served = Served::new(Setup {
        certificate: Some(certificate()),
        client_authority: Some(authority),
        users: Some(users()),
        ..Setup::default()
    });
    let path = |name: &str| served.directory.path().join(name).display().to_string();
    std::fs::write(path("own.crt"), own).unwrap();
    std::fs::write(path("own.key"), key).unwrap();
    let connect = |options: &str| {
        let address = format!(
            "hypostyle://rita:r@127.0.0.1:{}/?tls_ca={}{options}",
            served.tcp.port(),
            path("server.crt")
        );
        served.connect(&address, true).and_then(|connection| connection.execute("SELECT 1")?.row_count())
    };
    assert_eq!(connect(&format!("&tls_cert={}&tls_key={}", path("own.crt"), path("own.key"))).unwrap(), 1);
    assert!(connect("").is_err());
    // The server's own certificate is signed by another authority.
    assert!(connect(&format!("&tls_cert={}&tls_key={}", path("server.crt"), path("server.key"))).is_err());
}

/// Returns a certificate for this machine, and its key.
pub fn certificate() -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    (certified.cert.pem(), certified.signing_key.serialize_pem())
}

#[test]
fn a_client_of_other_versions_is_told_which_are_spoken() {
    let served = Served::in_memory();
    for (oldest, newest) in [(2u16, 9u16), (9, 2), (0, 0)] {
        let mut socket = TcpStream::connect(served.tcp).unwrap();
        socket.write_all(b"HYPO").unwrap();
        socket.write_all(&[oldest.to_le_bytes(), newest.to_le_bytes()].concat()).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("0A000"), "{text:?}");
        assert!(text.contains(&format!("the client speaks versions {oldest} to {newest}")), "{text:?}");
    }
    assert!(served.connect_tcp().is_ok());
}

#[test]
fn tls_is_spoken_and_demanded_where_there_is_a_certificate() {
    let served =
        Served::new(Setup { certificate: Some(certificate()), users: Some(users()), ..Setup::default() });
    let ca = served.directory.path().join("server.crt");
    let address = |options: &str| format!("hypostyle://rita:r@127.0.0.1:{}/?{options}", served.tcp.port());
    let connection = served.connect(&address(&format!("tls=on&tls_ca={}", ca.display())), true).unwrap();
    let result = connection.execute("SELECT i FROM generate_series(1, 1000000) AS s(i)").unwrap();
    assert_eq!(result.row_count().unwrap(), 1_000_000);
    let error = served.connect(&address("tls=on"), true).err().unwrap();
    assert!(error.message().contains("TLS"), "{error}");
    let error = served.connect(&address("tls=off"), true).err().unwrap();
    assert!(error.message().contains("wants TLS"), "{error}");
    // This is a server without a certificate.
    let plain = Served::in_memory();
    assert!(plain.connect(&format!("hypostyle://{}/?tls=on", plain.tcp), true).is_err());
    assert!(plain.connect_tcp().is_ok());
}

pub fn http_get(server: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The bytes that a relay passes on before it cuts a connection.
#[derive(Clone, Copy)]
struct Cut {
    to_client: usize,
    to_server: usize,
}

const WHOLE: Cut = Cut { to_client: usize::MAX, to_server: usize::MAX };

/// Passes connections on, up to the limits of `cuts`, and later ones to their end.
fn relay(server: SocketAddr, cuts: Vec<Cut>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for cut in cuts.into_iter().chain(std::iter::repeat(WHOLE)) {
            let Ok((client, _)) = listener.accept() else { return };
            let Ok(upstream) = TcpStream::connect(server) else { return };
            let (from_client, to_server) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            thread::spawn(move || pass(from_client, to_server, cut.to_server));
            thread::spawn(move || pass(upstream, client, cut.to_client));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut bytes: usize) {
    let mut buffer = [0; 4096];
    while bytes > 0 {
        let Ok(length @ 1..) = from.read(&mut buffer[..bytes.min(4096)]) else { break };
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
        bytes -= length;
    }
    let _closed = to.shutdown(Shutdown::Both);
    let _closed = from.shutdown(Shutdown::Both);
}

#[test]
fn a_connection_cut_anywhere_is_an_error_and_never_a_short_result() {
    let limits = Limits { resume_time: Duration::ZERO, ..Limits::default() };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    served.database.connect().unwrap().execute(TYPES).unwrap();
    let query = "SELECT i, text FROM types WHERE i <= 300 ORDER BY i";
    let run = |address: SocketAddr| -> hypostyle::Result<u64> {
        let connection = served.connect(&format!("hypostyle://{address}/"), true)?;
        connection.execute("SET result_codec = 'none'")?;
        connection.execute(query)?.row_count()
    };
    assert_eq!(run(served.tcp).unwrap(), 300);
    let (mut whole, mut cut) = (0, 0);
    for bytes in (0..400).chain((400..12_000).step_by(37)) {
        match run(relay(served.tcp, vec![Cut { to_client: bytes, ..WHOLE }])) {
            Ok(rows) => {
                assert_eq!(rows, 300, "cut after {bytes} bytes");
                whole += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Connection, "cut after {bytes} bytes: {error}");
                cut += 1;
            }
        }
    }
    assert!(cut > 400 && whole > 0, "{cut} cut, {whole} whole");
    assert_eq!(run(served.tcp).unwrap(), 300);
}

/// Runs a session's work. Every part of it would show if something came twice or not at all.
fn work(connection: &Connection) -> hypostyle::Result<()> {
    connection.execute("SET result_codec = 'none'")?;
    connection.execute("BEGIN")?;
    connection.execute("INSERT INTO done VALUES (1)")?;
    let result = connection.execute("SELECT i, text FROM types WHERE i <= 300 ORDER BY i")?;
    assert_eq!(result.row_count()?, 300);
    assert_eq!(connection.append("appended", batches(2, None), AppendOptions::default())?, 20_000);
    connection.execute("COMMIT")?;
    Ok(())
}

#[test]
fn a_session_goes_on_over_a_new_connection_wherever_the_old_one_is_cut() {
    let served = Served::in_memory();
    let places = (400..1400).step_by(23).chain((1400..12_000).step_by(499));
    check_cut_sessions(&served, &|relay| format!("hypostyle://{relay}/"), places, 20);
}

#[test]
fn a_session_of_a_user_goes_on_over_tls_wherever_it_is_cut() {
    let served =
        Served::new(Setup { certificate: Some(certificate()), users: Some(users()), ..Setup::default() });
    let ca = served.directory.path().join("server.crt");
    let address = |relay: SocketAddr| {
        format!("hypostyle://will:w@127.0.0.1:{}/?tls=on&tls_ca={}", relay.port(), ca.display())
    };
    check_cut_sessions(&served, &address, (3000..12_000).step_by(457), 5);
}

/// Cuts connections after some bytes once the handshake is over; those to the server after
/// `to_server` times as many.
fn check_cut_sessions(
    served: &Served,
    address: &dyn Fn(SocketAddr) -> String,
    places: impl Iterator<Item = usize>,
    to_server: usize,
) {
    let own = served.database.connect().unwrap();
    own.execute(TYPES).unwrap();
    own.execute("CREATE TABLE done (n INTEGER)").unwrap();
    own.execute("CREATE TABLE appended (id BIGINT, text VARCHAR)").unwrap();
    let number = |sql: &str| rows(&own.execute(sql).unwrap()).column(0).as_primitive::<Int64Type>().value(0);
    let cuts = places
        .flat_map(|bytes| {
            let to_client = Cut { to_client: bytes, ..WHOLE };
            let to_server = Cut { to_server: bytes * to_server, ..WHOLE };
            // It is cut again while it is being resumed, and soon after.
            [
                vec![to_client],
                vec![to_server],
                vec![to_client, Cut { to_client: bytes / 4, ..WHOLE }, to_server],
            ]
        })
        .collect::<Vec<_>>();
    let sessions = cuts.len() as i64;
    for cut in cuts {
        let connection = served.connect(&address(relay(served.tcp, cut)), true).unwrap();
        work(&connection).unwrap();
    }
    assert_eq!(number("SELECT count(*) FROM done"), sessions);
    assert_eq!(number("SELECT count(*) FROM appended"), 20_000 * sessions);
    let resumed = metric(served, "sessions_resumed_total");
    assert!(resumed > sessions, "{resumed} of {sessions} sessions were resumed");
}

fn metric(served: &Served, name: &str) -> i64 {
    let metrics = http_get(served.http, "/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&format!("hypostyle_{name} ")));
    value.unwrap().parse().unwrap()
}

#[test]
fn a_result_comes_over_several_connections_wherever_one_of_them_is_cut() {
    let served = Served::in_memory();
    let query = "SELECT value AS n, value * 2 AS m FROM generate_series(1, 1000000) AS s(value) ORDER BY n";
    let check = |address: SocketAddr| {
        let connection = served.connect(&format!("hypostyle://{address}/?streams=4"), true).unwrap();
        connection.execute("SET result_codec = 'none'").unwrap();
        for _ in 0..2 {
            let rows = rows(&connection.execute(query).unwrap());
            let (n, m) =
                (rows.column(0).as_primitive::<Int64Type>(), rows.column(1).as_primitive::<Int64Type>());
            assert_eq!(rows.num_rows(), 1_000_000);
            assert!(
                (0..1_000_000).all(|row| n.value(row) == row as i64 + 1 && m.value(row) == 2 * n.value(row))
            );
        }
    };
    check(served.tcp);
    assert_eq!((metric(&served, "streams_total"), metric(&served, "sessions_resumed_total")), (3, 0));
    for bytes in [600, 100_000, 1_000_000, 3_000_000] {
        let before = metric(&served, "sessions_resumed_total");
        // The first connection stays whole: the resumed ones were others.
        let cut = Cut { to_client: bytes, ..WHOLE };
        check(relay(served.tcp, vec![WHOLE, cut, cut, cut, WHOLE, cut, WHOLE, WHOLE, cut]));
        assert!(metric(&served, "sessions_resumed_total") > before, "{bytes}");
    }
}

#[test]
fn nobody_takes_up_a_session_without_its_key_or_after_its_time() {
    let limits = Limits { resume_time: Duration::from_millis(300), ..Limits::default() };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let other = served.connect_tcp().unwrap();
    // They come in the place of the session's connection, and beside it.
    for stream in [0, 1] {
        let wrong = hypostyle_wire::Hello {
            capabilities: hypostyle_wire::Capabilities::RESUME,
            codecs: 1,
            frame_bytes_max: 1 << 20,
            user: String::new(),
            client: "test".into(),
            mechanism: String::new(),
            initial: Vec::new(),
            session: 1,
            key: vec![0; 16],
            stream,
            origin: String::new(),
        };
        let mut socket = TcpStream::connect(served.tcp).unwrap();
        socket.write_all(&[b"HYPO\x01\x00\x01\x00".as_slice(), &wrong.frame()].concat()).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        assert!(answer.windows(5).any(|word| word == b"08003"), "{answer:?}");
    }
    assert_eq!(other.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    assert_eq!(metric(&served, "streams_total"), 0);

    // It is cut, and unreachable for longer than the session is kept.
    let nothing = Cut { to_client: 0, to_server: 0 };
    let cuts = [vec![Cut { to_client: 2000, ..WHOLE }], vec![nothing; 8]].concat();
    let connection = served.connect(&format!("hypostyle://{}/", relay(served.tcp, cuts)), true).unwrap();
    connection.execute("BEGIN").unwrap();
    connection.execute("CREATE TABLE t (a INTEGER)").unwrap();
    let error = connection
        .execute("SELECT i, random() FROM generate_series(1, 5000) AS s(i)")
        .and_then(|result| result.row_count());
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert!(error.message().contains("what it had open is rolled back"), "{error}");
    assert!(served.connect_tcp().unwrap().execute("SELECT * FROM t").is_err());
}

#[test]
fn hostile_bytes_end_their_connection_and_nothing_else() {
    let served = Served::in_memory();
    let hello = b"HYPO\x01\x00\x01\x00";
    let inputs: [(&str, Vec<u8>); 7] = [
        ("nothing", Vec::new()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("TLS without a certificate", vec![0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]),
        ("another version", b"HYPO\x09\x00\x0a\x00".to_vec()),
        ("an endless frame", [&hello[..], &[0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0]].concat()),
        ("an unknown frame", [&hello[..], &[0, 0, 0, 0, 99, 0, 0, 0]].concat()),
        ("a frame before Hello", [&hello[..], &[4, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0]].concat()),
    ];
    for (what, bytes) in &inputs {
        let mut stream = TcpStream::connect(served.tcp).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        stream.write_all(bytes).unwrap();
        if what == &"nothing" {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        assert!(read.is_ok() || read.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset, "{what}");
    }
    let error = served.connect_tcp().unwrap().execute("SELECT 1").map(drop);
    assert!(error.is_ok());
}

#[test]
fn sixty_four_clients_some_of_them_stalled() {
    let served = Served::in_memory();
    served.database.connect().unwrap().execute(TYPES).unwrap();
    let connections: Vec<Connection> = (0..64)
        .map(|number| {
            if number % 2 == 0 { served.connect_tcp() } else { served.connect_unix_for_chunks() }.unwrap()
        })
        .collect();
    // Every fourth client asks and does not read.
    let stalled: Vec<QueryResult> = connections
        .iter()
        .step_by(4)
        .map(|connection| {
            connection.execute("SELECT a.* FROM types a, range(20) AS r(n) WHERE a.i > 0").unwrap()
        })
        .collect();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (number, connection) in connections.iter().enumerate().filter(|(number, _)| number % 4 != 0) {
            let done = &done;
            scope.spawn(move || {
                for _ in 0..3 {
                    let sql = format!("SELECT sum(i), count(*) FROM types WHERE i % 64 = {number}");
                    let result = connection.execute(&sql).unwrap();
                    let expected: i64 = (1..=50_000).filter(|i| i % 64 == number as i64).sum();
                    assert_eq!(result.column(0).unwrap().as_primitive::<Int64Type>().value(0), expected);
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 48);
    assert_eq!(stalled[0].row_count().unwrap(), 1_000_000);
}

#[test]
fn limits_hold() {
    let limits = Limits {
        clients: 2,
        statement_time: Some(Duration::from_millis(300)),
        idle_time: Some(Duration::from_secs(2)),
        ..Limits::default()
    };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let first = served.connect_tcp().unwrap();
    first.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 50000) AS s(i)").unwrap();
    let second = served.connect_unix().unwrap();
    let error = served.connect_tcp().err().unwrap();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Busy, "53300"));
    let slow = "SELECT count(*) FROM t a, t b WHERE a.i * b.i % 7 = 3";
    let error = first.execute(slow).and_then(|result| result.row_count()).err().unwrap();
    assert!(error.message().contains("longer than the 0.3 s"), "{error}");
    until("idle sessions stay", || served.sessions() == 0);
    for connection in [first, second] {
        let error = connection.execute("SELECT 1").err().unwrap();
        assert!(error.message().contains("idle"), "{error}");
    }
    assert!(served.connect_tcp().is_ok(), "places are given back");
}

#[test]
fn what_runs_when_a_server_stops_may_end() {
    let limits = Limits { stop_time: Duration::from_secs(60), ..Limits::default() };
    let mut served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let connection = served.connect_tcp().unwrap();
    let running = thread::spawn(move || {
        let slow = "SELECT count(*) FROM generate_series(1, 20000) AS a(i), generate_series(1, 20000) AS b(i) WHERE a.i * b.i = 7";
        connection.execute(slow).and_then(|result| result.row_count())
    });
    served.await_statement("AS b(i)");
    served.stop();
    assert_eq!(running.join().unwrap().unwrap(), 1);
}

#[test]
fn kill_ends_a_session_that_is_idle_or_sends() {
    let served = Served::on_disk();
    let admin = served.connect_tcp().unwrap();
    admin.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 3000000) AS s(i)").unwrap();
    let sessions = || admin.execute("SHOW SESSIONS").unwrap().row_count().unwrap();
    let wait_for = |count: u64| until("a session stays", || sessions() == count);
    let idle = served.connect_tcp().unwrap();
    idle.execute("BEGIN").unwrap();
    idle.execute("DELETE FROM t").unwrap();
    admin.execute(&format!("KILL {}", idle.id())).unwrap();
    wait_for(1);
    for error in [
        idle.execute("COMMIT").err().unwrap(),
        idle.append("t", batches(1, None), AppendOptions::default()).err().unwrap(),
        idle.describe("SELECT 1").err().unwrap(),
    ] {
        assert!([ErrorKind::Closed, ErrorKind::Connection].contains(&error.kind()), "{error}");
    }
    // It is far more than is granted: the session waits for its client.
    let deaf = served.connect_unix_for_chunks().unwrap();
    let unread = deaf.execute("SELECT a.i, b.i FROM t a JOIN range(20) AS b(i) ON a.i > b.i").unwrap();
    thread::sleep(Duration::from_millis(500));
    admin.execute(&format!("KILL QUERY {}", deaf.id())).unwrap();
    let error = unread.row_count().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert_eq!(deaf.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    let unread = deaf.execute("SELECT a.i, b.i FROM t a JOIN range(20) AS b(i) ON a.i > b.i").unwrap();
    thread::sleep(Duration::from_millis(500));
    admin.execute(&format!("KILL {}", deaf.id())).unwrap();
    wait_for(1);
    assert!(unread.row_count().is_err());
    assert_eq!(admin.execute("SELECT count(*) FROM t").unwrap().row_count().unwrap(), 1);
}

#[test]
fn kill_ends_a_session_that_never_pauses() {
    let served = Served::in_memory();
    let admin = served.connect_tcp().unwrap();
    let busy = served.connect_tcp().unwrap();
    let (killed, goes_on) = (busy.id(), Arc::new(AtomicBool::new(true)));
    let still = goes_on.clone();
    let client = thread::spawn(move || {
        while still.load(Ordering::Relaxed) {
            // It does not care for errors.
            let _of_the_dead = busy.execute("SELECT 1");
        }
    });
    thread::sleep(Duration::from_millis(300));
    admin.execute(&format!("KILL {killed}")).unwrap();
    until("a session stays", || admin.execute("SHOW SESSIONS").unwrap().row_count().unwrap() == 1);
    goes_on.store(false, Ordering::Relaxed);
    client.join().unwrap();
}

#[test]
fn a_killed_embedded_session_gives_its_transaction_up() {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    let (one, other) = (database.connect().unwrap(), database.connect().unwrap());
    one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)").unwrap();
    one.execute("BEGIN").unwrap();
    one.execute("INSERT INTO t VALUES (1)").unwrap();
    other.execute(&format!("KILL {}", one.id())).unwrap();
    assert!(!one.is_in_transaction());
    assert_eq!(one.execute("COMMIT").err().unwrap().sqlstate(), "57P01");
    assert_eq!(one.table("t").err().unwrap().sqlstate(), "57P01");
    assert_eq!(other.table("t").unwrap().row_count().unwrap(), 0);
}

#[test]
fn clients_and_other_nodes_have_places_of_their_own() {
    let limits = Limits { clients: 1, clients_of_peer: Some(1), ..Limits::default() };
    let served = Served::new(Setup { users: Some(users()), limits: Some(limits), ..Setup::default() });
    let address = |who: &str| format!("hypostyle://{who}@{}/", served.tcp);
    let node = served.connect(&address("node:n"), true).unwrap();
    let client = served.connect(&address("rita:r"), true).unwrap();
    assert_eq!(served.sessions(), 2);
    for who in ["node:n", "rita:r"] {
        assert_eq!(served.connect(&address(who), true).err().unwrap().sqlstate(), "53300", "{who}");
    }
    drop((node, client));
    served.await_nobody();
    assert!(served.connect(&address("rita:r"), true).is_ok(), "places are given back");
}

#[test]
fn a_session_resumes_though_all_places_are_taken() {
    let limits = Limits { clients: 1, ..Limits::default() };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let address = relay(served.tcp, vec![Cut { to_client: 100_000, to_server: usize::MAX }]);
    let connection = served.connect(&format!("hypostyle://{address}/"), true).unwrap();
    let result = connection.execute("SELECT random() FROM generate_series(1, 2000000)").unwrap();
    assert_eq!(result.row_count().unwrap(), 2_000_000);
    assert_eq!(metric(&served, "sessions_resumed_total"), 1);
}

#[test]
fn a_reader_cannot_take_the_machine() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let reader = served.connect(&format!("hypostyle://rita:r@{}/", served.tcp), true).unwrap();
    for sql in [
        "SET datafusion.runtime.memory_limit = '9T'",
        "SET datafusion.runtime.temp_directory = '/tmp/x'",
        "SET \"datafusion\".\"runtime\".\"memory_limit\" = '9T'",
        "RESET datafusion.runtime.memory_limit",
        "SET datafusion.execution.batch_size = 1000000000000",
        "SET datafusion.execution.target_partitions = 1000000",
        "SET batch_size = 1000000000000",
        "PRAGMA batch_size = 1000000000000",
    ] {
        assert!(reader.execute(sql).is_err(), "{sql}");
    }
    reader.execute("SET batch_size = 100").unwrap();
    assert_eq!(reader.execute("SELECT * FROM generate_series(1, 1000)").unwrap().row_count().unwrap(), 1000);
}

#[test]
fn metrics_and_health_are_answered() {
    let served = Served::in_memory();
    served.connect_tcp().unwrap().execute("SELECT 1").unwrap();
    let get = |path: &str| http_get(served.http, path);
    assert!(get("/health").ends_with("ok\n"));
    assert!(get("/metrics").contains("hypostyle_statements_total 1"));
    assert!(get("/else").starts_with("HTTP/1.1 404"));
    for path in ["/ready", "/in-sync"] {
        assert!(get(path).starts_with("HTTP/1.1 200"), "{path}");
    }
}

#[test]
fn a_server_that_drains_lets_no_clients_in_and_ends_none_in_the_middle() {
    let served = Served::in_memory();
    let (idle, busy) = (served.connect_tcp().unwrap(), served.connect_tcp().unwrap());
    idle.execute("CREATE TABLE t (k INTEGER)").unwrap();
    busy.execute("BEGIN").unwrap();
    busy.execute("INSERT INTO t VALUES (1)").unwrap();
    served.drain();
    let refused = served.connect_tcp().and_then(|connection| connection.execute("SELECT 1")).err().unwrap();
    assert_eq!(refused.sqlstate(), "57P03", "{refused}");
    assert!(http_get(served.http, "/health").starts_with("HTTP/1.1 200"));
    for path in ["/ready", "/in-sync"] {
        assert!(http_get(served.http, path).starts_with("HTTP/1.1 503"), "{path}");
    }
    // A transaction goes on to its end, and its client is not let go before.
    thread::sleep(Duration::from_secs(1));
    assert!(idle.execute("SELECT 1").is_err());
    busy.execute("INSERT INTO t VALUES (2)").unwrap();
    busy.execute("COMMIT").unwrap();
    until("clients stay", || served.sessions() == 0);
    let kept = served.database.connect().unwrap().execute("SELECT k FROM t").unwrap();
    assert_eq!(kept.row_count().unwrap(), 2);
}

#[test]
fn a_server_that_stops_ends_what_runs_and_says_so() {
    let mut served = Served::in_memory();
    let connection = served.connect_tcp().unwrap();
    connection.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 100000) AS s(i)").unwrap();
    let running = thread::spawn(move || {
        connection
            .execute("SELECT count(*) FROM t a, t b WHERE a.i * b.i % 7 = 3")
            .and_then(|result| result.row_count())
    });
    served.await_statement("FROM t a, t b");
    thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    served.stop();
    let took = started.elapsed();
    assert!(took >= STOP_TIME && took < STOP_TIME + DEADLINE, "{took:?}");
    let error = running.join().unwrap().err().unwrap();
    assert!(error.message().contains("stopping"), "{error}");
}

#[test]
fn a_server_that_stops_does_not_wait_for_clients_that_never_pause() {
    let mut served = Served::in_memory();
    let clients =
        [false, true].map(|in_transaction| {
            let connection = served.connect_tcp().unwrap();
            if in_transaction {
                connection.execute("BEGIN").unwrap();
            }
            thread::spawn(move || {
                while connection.execute("SELECT 1").and_then(|result| result.row_count()).is_ok() {}
            })
        });
    thread::sleep(Duration::from_millis(300));
    served.stop();
    until("a session goes on", || served.sessions() == 0);
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// Checks two databases in one process, each behind its own server.
#[test]
fn a_server_serves_what_other_connections_have_committed() {
    let served = Served::on_disk();
    let path = served.directory.path().join("t.hypo");
    let other = Database::open(path, OpenOptions::default()).unwrap().connect().unwrap();
    let remote = served.connect_unix().unwrap();
    other.execute("CREATE TABLE t (a INTEGER)").unwrap();
    remote.execute("INSERT INTO t VALUES (1)").unwrap();
    other.execute("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(remote.table("t").unwrap().row_count().unwrap(), 2);
    assert_eq!(other.table("t").unwrap().row_count().unwrap(), 2);
}
