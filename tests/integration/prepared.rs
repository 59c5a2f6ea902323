//! Statements that a client of PostgreSQL's protocol has prepared, and definitions that change
//! before it runs them again: columns never come under names or types that they were not described
//! with. And cursors that outlive their transaction, or do not.

use crate::pgwire::{Client, Message, message, shown, texts};
use crate::served::Served;

impl Client {
    /// Prepares a statement under a name and has it described.
    fn prepare(&mut self, name: &str, sql: &str, types: &[u32]) -> Vec<Message> {
        let mut parse = texts(&[name, sql]);
        parse.extend((types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| parse.extend(oid.to_be_bytes()));
        let mut describe = vec![b'S'];
        describe.extend(texts(&[name]));
        let sent = [message(b'P', &parse), message(b'D', &describe), message(b'S', &[])];
        self.send(&sent.concat());
        self.until_ready()
    }

    /// Runs a prepared statement with values as text.
    pub fn run(&mut self, name: &str, values: &[&str]) -> Vec<Message> {
        let mut bind = texts(&["", name]);
        bind.extend(0_u16.to_be_bytes());
        bind.extend((values.len() as u16).to_be_bytes());
        for value in values {
            bind.extend((value.len() as u32).to_be_bytes());
            bind.extend(value.bytes());
        }
        bind.extend(0_u16.to_be_bytes());
        let mut execute = texts(&[""]);
        execute.extend(0_u32.to_be_bytes());
        self.send(&[message(b'B', &bind), message(b'E', &execute), message(b'S', &[])].concat());
        self.until_ready()
    }

    /// Prepares a statement with types of its parameters, and runs it.
    pub fn run_with(&mut self, sql: &str, types: &[u32], values: &[&str]) -> String {
        let prepared = shown(&self.prepare("", sql, types));
        if prepared.contains('E') {
            return prepared;
        }
        shown(&self.run("", values))
    }
}

const CHANGES: [(&str, &str); 5] = [
    ("add", "ALTER TABLE t ADD COLUMN extra INT"),
    ("drop", "ALTER TABLE t DROP COLUMN qty"),
    ("rename", "ALTER TABLE t RENAME COLUMN qty TO pieces"),
    ("reorder", "CREATE OR REPLACE TABLE t (qty INT, price INT); INSERT INTO t VALUES (3, 100)"),
    ("retype", "ALTER TABLE t ALTER COLUMN qty TYPE VARCHAR"),
];

/// The statements, and what each gives after each of the changes.
const STATEMENTS: [(&str, &str, [&str; 5]); 4] = [
    ("SELECT * FROM t", "2 (100,3) SELECT 1 I", ["E0A000 I"; 5]),
    (
        "SELECT price, qty FROM t",
        "2 (100,3) SELECT 1 I",
        ["2 (100,3) SELECT 1 I", "E42703 I", "E42703 I", "2 (100,3) SELECT 1 I", "E0A000 I"],
    ),
    ("SELECT price FROM t WHERE price > 1", "2 (100) SELECT 1 I", ["2 (100) SELECT 1 I"; 5]),
    ("UPDATE t SET price = price RETURNING *", "2 (100,3) UPDATE 1 I", ["E0A000 I"; 5]),
];

#[test]
fn columns_never_differ_from_what_was_described() {
    for (sql, before, after) in STATEMENTS {
        for ((change, ddl), after) in CHANGES.into_iter().zip(after) {
            let served = Served::in_memory();
            let (mut client, mut other) = (Client::new(&served), Client::new(&served));
            other.query("CREATE TABLE t (price INT, qty INT); INSERT INTO t VALUES (100, 3)");
            assert!(shown(&client.prepare("s", sql, &[])).contains('T'), "{sql}");
            assert_eq!(shown(&client.run("s", &[])), before, "{sql}");
            // Other rows and other tables change nothing.
            other.query("CREATE TABLE u (a INT); INSERT INTO u VALUES (1)");
            assert_eq!(shown(&client.run("s", &[])), before, "{sql}");
            let changed = shown(&other.query(ddl));
            let is_error = |part: &str| part.len() == 6 && part.starts_with('E');
            assert!(!changed.split(' ').any(is_error), "{ddl}: {changed}");
            for _ in 0..2 {
                assert_eq!(shown(&client.run("s", &[])), after, "{sql} after {change}");
            }
            if after == "E0A000 I" {
                let told: Vec<u8> = client.run("s", &[]).into_iter().flat_map(|(_, body)| body).collect();
                let told = String::from_utf8_lossy(&told).to_string();
                assert!(told.contains("cached plan must not change result type"), "{told}");
                assert!(told.contains("RevalidateCachedQuery"), "{told}");
                // Nothing was written, and the statement can be prepared again.
                assert!(shown(&client.prepare("again", sql, &[])).contains('T'), "{sql} after {change}");
                assert!(shown(&client.run("again", &[])).contains('('), "{sql} after {change}");
            }
        }
    }
}

#[test]
fn columns_that_are_made_of_values_are_looked_at_each_time() {
    const PIVOT: &str = "PIVOT t ON c USING max(x)";
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    client.query("CREATE TABLE t (c VARCHAR, x INT); INSERT INTO t VALUES ('a', 1)");
    client.prepare("one", PIVOT, &[]);
    for _ in 0..2 {
        assert_eq!(shown(&client.run("one", &[])), "2 (1) SELECT 1 I");
    }
    client.query("INSERT INTO t VALUES ('b', 2)");
    assert_eq!(shown(&client.run("one", &[])), "E0A000 I");
    client.prepare("two", PIVOT, &[]);
    assert_eq!(shown(&client.run("two", &[])), "2 (1,2) SELECT 1 I");
    // As many, of other names.
    client.query("UPDATE t SET c = 'z' WHERE c = 'b'");
    assert_eq!(shown(&client.run("two", &[])), "E0A000 I");
    // The values that there are would be those of a parameter.
    let of_parameter = "PIVOT (SELECT * FROM t WHERE x > $1) ON c USING max(x)";
    assert!(client.run_with(of_parameter, &[23], &["0"]).contains("E0A000"));
}

#[test]
fn a_path_that_changes_is_noticed_too() {
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    client.query(
        "CREATE SCHEMA s; CREATE TABLE t (a INT); CREATE TABLE s.t (b INT); INSERT INTO s.t VALUES (2)",
    );
    client.prepare("p", "SELECT * FROM t", &[]);
    assert_eq!(shown(&client.run("p", &[])), "2 SELECT 0 I");
    client.query("SET search_path TO s, public");
    assert_eq!(shown(&client.run("p", &[])), "E0A000 I");
    client.query("SET search_path TO public, s");
    assert_eq!(shown(&client.run("p", &[])), "2 SELECT 0 I");
}

#[test]
fn cursors_with_hold_are_those_of_transactions_that_were_committed() {
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    client.query("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 11");
    assert_eq!(shown(&client.query("ROLLBACK")), "ROLLBACK I");
    assert_eq!(shown(&client.query("FETCH FROM c")), "E34000 I");
    client.query("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT * FROM generate_series(1, 3)");
    client.query("COMMIT");
    assert_eq!(shown(&client.query("FETCH FROM c")), "T (1) FETCH 1 I");
    client.query("BEGIN");
    client.query("ROLLBACK");
    assert_eq!(shown(&client.query("FETCH FROM c")), "T (2) FETCH 1 I");
    // An error in the text that declares it rolls it back, too.
    client.query("DECLARE d CURSOR WITH HOLD FOR SELECT 1; SELECT nothing");
    client.query("BEGIN; DECLARE e CURSOR WITH HOLD FOR SELECT 1; SELECT nothing");
    client.query("COMMIT");
    assert_eq!(shown(&client.query("FETCH FROM e")), "E34000 I");
}

#[test]
fn styles_are_those_of_the_session() {
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    let interval = "SELECT INTERVAL '1 year 2 months 3 days 04:05:06.5'";
    for (style, text) in [
        ("postgres", "1 year 2 mons 3 days 04:05:06.5"),
        ("postgres_verbose", "@ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs"),
        ("iso_8601", "P1Y2M3DT4H5M6.5S"),
        ("sql_standard", "+1-2 +3 +4:05:06.5"),
    ] {
        client.query(&format!("SET IntervalStyle = '{style}'"));
        assert_eq!(shown(&client.query(interval)), format!("T ({text}) SELECT 1 I"), "{style}");
    }
    client.query("SET bytea_output = 'escape'");
    assert_eq!(shown(&client.query(r"SELECT '\x41005c'::bytea")), r"T (A\000\\) SELECT 1 I");
    client.query("RESET bytea_output");
    assert_eq!(shown(&client.query(r"SELECT '\x4100'::bytea")), r"T (\x4100) SELECT 1 I");
    assert_eq!(shown(&client.query("SET IntervalStyle = 'none'")), "E22023 I");
}

#[test]
fn what_is_empty_is_no_error() {
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    for sql in ["", ";", " ; ; ", "-- nothing", "/* nothing */ ;"] {
        assert_eq!(shown(&client.query(sql)), "I I", "{sql:?}");
        assert_eq!(client.run_with(sql, &[], &[]), "2 I I", "{sql:?}");
    }
    assert_eq!(shown(&client.query("; SELECT 1;;")), "T (1) SELECT 1 I");
    let connection = served.connect_tcp().unwrap();
    for sql in ["", ";", "-- nothing", "/* nothing */ ;"] {
        assert!(!connection.execute(sql).unwrap().is_query(), "{sql:?}");
    }
}

#[test]
fn extensions_are_told_of_in_a_notice() {
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    for name in ["citext", "hstore", "pgcrypto", "\"uuid-ossp\"", "plpgsql", "pg_trgm", "btree_gist"] {
        let answer = shown(&client.query(&format!("CREATE EXTENSION IF NOT EXISTS {name}")));
        assert_eq!(answer, "N00000 CREATE EXTENSION I");
    }
    assert_eq!(shown(&client.query("CREATE EXTENSION postgis")), "E0A000 I");
}

#[test]
fn materialized_views_have_the_tags_of_postgresql() {
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    for (sql, answer) in [
        ("CREATE MATERIALIZED VIEW m AS SELECT 1 AS a UNION ALL SELECT 2", "SELECT 2 I"),
        ("CREATE MATERIALIZED VIEW n AS SELECT 1 AS a WITH NO DATA", "CREATE MATERIALIZED VIEW I"),
        ("REFRESH MATERIALIZED VIEW n", "REFRESH MATERIALIZED VIEW I"),
        ("DROP MATERIALIZED VIEW n", "DROP MATERIALIZED VIEW I"),
        ("INSERT INTO m VALUES (3)", "E42809 I"),
    ] {
        assert_eq!(shown(&client.query(sql)), answer);
    }
    assert_eq!(client.run_with("REFRESH MATERIALIZED VIEW m", &[], &[]), "2 REFRESH MATERIALIZED VIEW I");
}
