//! Tests PostgreSQL's protocol against a server in this process, with handwritten messages: those
//! that a client may send, and those that it must not.

use crate::served::{DEADLINE, STOP_TIME, Served, Setup, until};
use crate::server::users;
use hypostyle_auth::scram::Client as Scram;
use hypostyle_server::Limits;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const LONG: &str =
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a + b = 3";

fn serve() -> Served {
    let limits = Limits { clients: 10, stop_time: STOP_TIME, ..Limits::default() };
    Served::new(Setup { limits: Some(limits), ..Setup::default() })
}

pub struct Client {
    socket: TcpStream,
    key: Vec<u8>,
}

pub type Message = (u8, Vec<u8>);

fn packet(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 + 4).to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(packet(body));
    bytes
}

/// Returns texts, each with its terminating zero.
pub fn texts(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.bytes().chain([0])).collect()
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

impl Client {
    pub fn new(served: &Served) -> Self {
        let mut client = Self { socket: connect(served.postgres), key: Vec::new() };
        let mut startup = 196_608_u32.to_be_bytes().to_vec();
        startup.extend(texts(&["user", "ada", "application_name", "test", ""]));
        client.send(&packet(&startup));
        let greeting = client.until_ready();
        assert_eq!(greeting[0], (b'R', vec![0, 0, 0, 0]));
        client.key = greeting.into_iter().find(|(kind, _)| *kind == b'K').unwrap().1;
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    fn next(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.socket.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    fn until(&mut self, last: u8) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next() {
            let kind = message.0;
            messages.push(message);
            if kind == last {
                return messages;
            }
        }
        panic!("the connection ended after {messages:?}");
    }

    pub fn until_ready(&mut self) -> Vec<Message> {
        self.until(b'Z')
    }

    pub fn query(&mut self, sql: &str) -> Vec<Message> {
        self.begin(sql);
        self.until_ready()
    }

    /// Has what runs interrupted, over a connection of its own.
    fn cancel(&self, served: &Served) {
        let mut cancel = 80_877_102_u32.to_be_bytes().to_vec();
        cancel.extend_from_slice(&self.key);
        connect(served.postgres).write_all(&packet(&cancel)).unwrap();
    }

    /// Sends a query without waiting.
    pub fn begin(&mut self, sql: &str) {
        self.send(&message(b'Q', &texts(&[sql])));
    }
}

/// Returns a short form of the answer: kinds, with tags, SQLSTATEs, rows and states.
pub fn shown(messages: &[Message]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
    let parts = messages.iter().map(|(kind, body)| match kind {
        b'C' => text(body),
        b'Z' => text(body),
        b'E' | b'N' => {
            let code = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C')).unwrap();
            format!("{}{}", char::from(*kind), text(&code[1..]))
        }
        b'D' => {
            let mut rest = &body[2..];
            let mut values = Vec::new();
            while !rest.is_empty() {
                let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
                rest = &rest[4..];
                let Ok(length) = usize::try_from(length) else {
                    values.push("NULL".to_string());
                    continue;
                };
                values.push(text(&rest[..length]));
                rest = &rest[length..];
            }
            format!("({})", values.join(","))
        }
        other => char::from(*other).to_string(),
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_message_that_does_not_go_on_ends_the_session_and_a_slow_one_does_not() {
    let limits = Limits { message_time: Duration::from_millis(600), ..Limits::default() };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let mut idle = Client::new(&served);
    idle.query("CREATE TABLE t (a TEXT)");
    let whole = message(b'Q', &texts(&["SELECT 1"]));
    // A kind alone, half a length, half a body.
    for length in [1, 3, 9] {
        let mut half = Client::new(&served);
        half.send(&whole[..length]);
        let told = half.next().unwrap();
        assert_eq!(shown(&[told]), "E08006", "{length}");
        assert!(half.next().is_none(), "{length}");
    }
    // Each byte begins the time anew, and rows of a COPY may be far from each other.
    let mut slow = Client::new(&served);
    slow.begin("COPY t FROM STDIN");
    slow.until(b'G');
    for byte in message(b'd', b"x\n") {
        slow.send(&[byte]);
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::sleep(Duration::from_millis(1500));
    slow.send(&message(b'c', &[]));
    assert_eq!(shown(&slow.until_ready()), "COPY 1 I");
    assert_eq!(shown(&idle.query("SELECT count(*) FROM t")), "T (1) SELECT 1 I");
}

#[test]
fn a_text_of_several_statements_is_one_transaction() {
    let running = serve();
    let mut client = Client::new(&running);
    let answer = client.query("CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, NULL); SELECT * FROM t ORDER BY a");
    assert_eq!(shown(&answer), "CREATE TABLE INSERT 0 2 T (1,x) (2,NULL) SELECT 2 I");
    assert_eq!(shown(&client.query("DELETE FROM t; SELECT nothing")), "DELETE 2 E42703 I");
    assert_eq!(shown(&client.query("SELECT count(*) FROM t")), "T (2) SELECT 1 I");
    assert_eq!(shown(&client.query("")), "I I");
    assert_eq!(shown(&client.query("BEGIN; DELETE FROM t WHERE a = 1")), "BEGIN DELETE 1 T");
    assert_eq!(shown(&client.query("SELEC")), "E42601 E");
    assert_eq!(shown(&client.query("SELECT 1")), "E25P02 E");
    assert_eq!(shown(&client.query("COMMIT")), "ROLLBACK I");
    assert_eq!(shown(&client.query("COMMIT")), "N25P01 COMMIT I");
    assert_eq!(shown(&client.query("UPDATE t SET b = 'y' RETURNING a")), "T (1) (2) UPDATE 2 I");
}

#[test]
fn prepared_statements_take_values_and_give_rows_in_parts() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 5)");
    let parse = [texts(&["s", "SELECT a FROM t WHERE a > $1 ORDER BY a"]), vec![0, 0]].concat();
    let bind = [texts(&["", "s"]), vec![0, 0, 0, 1, 0, 0, 0, 1, b'1', 0, 0]].concat();
    let execute = |rows: u8| message(b'E', &[0, 0, 0, 0, rows]);
    client.send(&message(b'P', &parse));
    client.send(&message(b'D', &texts(&["Ss"])));
    client.send(&message(b'S', &[]));
    let described = client.until_ready();
    assert_eq!(shown(&described), "1 t T I");
    // It is INT8, the type of the column that it is compared with.
    assert_eq!(described[1].1, [0, 1, 0, 0, 0, 20]);
    client.query("BEGIN");
    for part in [message(b'B', &bind), execute(2), execute(2), execute(2), message(b'S', &[])] {
        client.send(&part);
    }
    assert_eq!(shown(&client.until_ready()), "2 (2) (3) s (4) (5) s SELECT 0 T");
    client.query("COMMIT");
    // After an error, everything up to Sync is skipped.
    client.send(&message(b'P', &[texts(&["", "SELECT 1 +"]), vec![0, 0]].concat()));
    client.send(&message(b'D', &texts(&["S"])));
    client.send(&message(b'B', &bind));
    client.send(&message(b'S', &[]));
    assert_eq!(shown(&client.until_ready()), "E42601 I");
    client.send(&message(b'B', &[texts(&["", "missing"]), vec![0, 0, 0, 0, 0, 0]].concat()));
    client.send(&message(b'S', &[]));
    assert_eq!(shown(&client.until_ready()), "E26000 I");
}

#[test]
fn what_is_no_statement_is_refused_when_it_is_prepared() {
    let running = serve();
    let mut client = Client::new(&running);
    for (sql, answer) in [
        ("SELEC", "E42601 I"),
        ("SELECT 1 +", "E42601 I"),
        ("DECLARE c CURSOR FOR SELECT (", "E42601 I"),
        // What its names mean is asked when it is described or runs.
        ("SELECT * FROM missing", "1 I"),
        ("SELECT $1", "1 I"),
        ("", "1 I"),
    ] {
        client.send(&message(b'P', &[texts(&["", sql]), vec![0, 0]].concat()));
        client.send(&message(b'S', &[]));
        assert_eq!(shown(&client.until_ready()), answer, "{sql}");
    }
}

#[test]
fn statements_have_one_name_whoever_prepares_them() {
    let running = serve();
    let mut client = Client::new(&running);
    let parse = |name: &str, sql: &str, types: &[u8]| {
        let parse = message(b'P', &[texts(&[name, sql]), types.to_vec()].concat());
        [parse, message(b'S', &[])].concat()
    };
    client.send(&parse("wp", "SELECT $1 + 1", &[0, 1, 0, 0, 0, 20]));
    assert_eq!(shown(&client.until_ready()), "1 I");
    for _ in 0..2 {
        assert_eq!(shown(&client.query("EXECUTE wp(6)")), "T (7) SELECT 1 I");
    }
    assert_eq!(shown(&client.query("PREPARE wp AS SELECT 1")), "E42P05 I");
    assert_eq!(shown(&client.query("DEALLOCATE wp")), "DEALLOCATE I");
    assert_eq!(shown(&client.query("EXECUTE wp(6)")), "E26000 I");
    assert_eq!(shown(&client.query("PREPARE wp AS SELECT 2")), "PREPARE I");
    client.send(&parse("wp", "SELECT 3", &[0, 0]));
    assert_eq!(shown(&client.until_ready()), "E42P05 I");
    // A message forgets what a statement has prepared, too.
    client.send(&[message(b'C', &texts(&["Swp"])), parse("wp", "SELECT 3", &[0, 0])].concat());
    assert_eq!(shown(&client.until_ready()), "3 1 I");
    assert_eq!(shown(&client.query("EXECUTE wp")), "T (3) SELECT 1 I");
    client.query("DEALLOCATE ALL");
    assert_eq!(shown(&client.query("EXECUTE wp")), "E26000 I");
}

#[test]
fn messages_bind_what_prepare_has_named() {
    let running = serve();
    let mut client = Client::new(&running);
    let bound = |name: &str, values: &[u8]| {
        let bind = [texts(&["", name]), vec![0, 0], values.to_vec(), vec![0, 0]].concat();
        [message(b'B', &bind), message(b'E', &[0; 5]), message(b'S', &[])].concat()
    };
    assert_eq!(shown(&client.query("PREPARE q (int, text) AS SELECT $1 + 1, $2")), "PREPARE I");
    client.send(&[message(b'D', &texts(&["Sq"])), message(b'S', &[])].concat());
    let described = client.until_ready();
    assert_eq!(shown(&described), "t T I");
    assert_eq!(described[0].1, [0, 2, 0, 0, 0, 23, 0, 0, 0, 25]);
    let two = [0, 2, 0, 0, 0, 1, b'6', 0, 0, 0, 1, b'x'];
    for _ in 0..2 {
        client.send(&bound("q", &two));
        assert_eq!(shown(&client.until_ready()), "2 (7,x) SELECT 1 I");
    }
    assert_eq!(shown(&client.query("EXECUTE q(6, 'x')")), "T (7,x) SELECT 1 I");
    assert_eq!(shown(&client.query("PREPARE q AS SELECT 1")), "E42P05 I");
    client.query("CREATE TABLE t (a INT)");
    client.query("PREPARE i AS INSERT INTO t VALUES ($1)");
    client.send(&bound("i", &[0, 1, 0, 0, 0, 1, b'7']));
    assert_eq!(shown(&client.until_ready()), "2 INSERT 0 1 I");
    assert_eq!(shown(&client.query("DEALLOCATE q")), "DEALLOCATE I");
    client.send(&bound("q", &two));
    assert_eq!(shown(&client.until_ready()), "E26000 I");
}

#[test]
fn portals_are_checked_when_they_are_bound() {
    let running = serve();
    let mut client = Client::new(&running);
    let parse = message(b'P', &[texts(&["s", "SELECT $1::INT, 2"]), vec![0, 0]].concat());
    client.send(&[parse, message(b'S', &[])].concat());
    assert_eq!(shown(&client.until_ready()), "1 I");
    let bind = |portal: &str, format: u8, of_columns: &[u8]| {
        let value = [vec![0, 1, 0, format, 0, 1, 0, 0, 0, 1, b'7'], of_columns.to_vec()].concat();
        message(b'B', &[texts(&[portal, "s"]), value].concat())
    };
    let (sync, execute) = (message(b'S', &[]), message(b'E', &[b"p\0".to_vec(), vec![0; 4]].concat()));
    for (parts, answer) in [
        (vec![bind("p", 2, &[0, 0])], "E22023 I"),
        (vec![bind("p", 0, &[0, 1, 0, 9])], "E22023 I"),
        (vec![bind("p", 0, &[0, 3, 0, 0, 0, 0, 0, 0])], "E08P01 I"),
        (vec![bind("p", 0, &[0, 2, 0, 0, 0, 0]), bind("p", 0, &[0, 0])], "2 E42P03 I"),
        (vec![bind("", 0, &[0, 0]), bind("", 0, &[0, 0])], "2 2 I"),
        // At its end, a query has no more rows.
        (vec![bind("p", 0, &[0, 0]), execute.clone(), execute], "2 (7,2) SELECT 1 SELECT 0 I"),
    ] {
        client.send(&[parts.concat(), sync.clone()].concat());
        assert_eq!(shown(&client.until_ready()), answer);
    }
}

#[test]
fn values_beyond_the_parameters_need_types() {
    let running = serve();
    let mut client = Client::new(&running);
    let bind = [texts(&["", ""]), vec![0, 0, 0, 2, 0, 0, 0, 1, b'7', 0, 0, 0, 1, b'8', 0, 0]].concat();
    let types = [vec![0, 2], 23_u32.to_be_bytes().to_vec(), 23_u32.to_be_bytes().to_vec()].concat();
    // The client's types are parameters, too.
    for (types, answer) in [(types, "1 2 (7) SELECT 1 I"), (vec![0, 0], "1 E08P01 I")] {
        client.send(&message(b'P', &[texts(&["", "SELECT $1::INT"]), types].concat()));
        client.send(&message(b'B', &bind));
        client.send(&[message(b'E', &[0; 5]), message(b'S', &[])].concat());
        assert_eq!(shown(&client.until_ready()), answer);
    }
}

#[test]
fn a_query_text_behind_an_error_is_passed_over_up_to_sync() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT)");
    let missing = message(b'B', &[texts(&["", "missing"]), vec![0; 6]].concat());
    let insert = message(b'Q', &texts(&["INSERT INTO t VALUES (1)"]));
    client.send(&[missing, insert.clone(), insert, message(b'S', &[])].concat());
    assert_eq!(shown(&client.until_ready()), "E26000 I");
    assert_eq!(shown(&client.query("SELECT count(*) FROM t")), "T (0) SELECT 1 I");
    // An error of a query text has nothing passed over.
    client.send(&[message(b'Q', &texts(&["SELEC"])), message(b'Q', &texts(&["SELECT 1"]))].concat());
    assert_eq!(shown(&client.until_ready()), "E42601 I");
    assert_eq!(shown(&client.until_ready()), "T (1) SELECT 1 I");
}

#[test]
fn columns_of_a_transaction_that_was_rolled_back_are_not_told_any_more() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    let parse = |name: &str| message(b'P', &[texts(&[name, "SELECT * FROM t"]), vec![0, 0]].concat());
    let describe = |name: &str| message(b'D', &texts(&[&format!("S{name}")]));
    let run = |name: &str| {
        let bind = message(b'B', &[texts(&["", name]), vec![0; 6]].concat());
        [bind, message(b'E', &[0; 5]), message(b'S', &[])].concat()
    };
    let sync = message(b'S', &[]);
    for (change, within) in [
        ("ALTER TABLE t ADD COLUMN b INT DEFAULT 7", "2 (1,7) SELECT 1 T"),
        ("ALTER TABLE t ALTER COLUMN a TYPE VARCHAR", "2 (1) SELECT 1 T"),
        ("ALTER TABLE t RENAME COLUMN a TO c", "2 (1) SELECT 1 T"),
    ] {
        client.send(&[parse("before"), describe("before"), sync.clone()].concat());
        let described = client.until_ready();
        assert_eq!(shown(&described), "1 t T I");
        client.query(&format!("BEGIN; {change}"));
        client.send(&[parse("within"), describe("within"), run("within")].concat());
        let altered = client.until_ready();
        assert_eq!(shown(&altered), format!("1 t T {within}"));
        assert_ne!(altered[2], described[2], "{change}");
        // Its columns are others now, until the transaction is gone.
        client.send(&run("before"));
        assert_eq!(shown(&client.until_ready()), "E0A000 E", "{change}");
        client.query("ROLLBACK");
        client.send(&run("within"));
        assert_eq!(shown(&client.until_ready()), "E0A000 I", "{change}");
        client.send(&run("before"));
        assert_eq!(shown(&client.until_ready()), "2 (1) SELECT 1 I", "{change}");
        client.send(&[describe("before"), sync.clone()].concat());
        assert_eq!(client.until_ready()[1], described[2], "{change}");
        client.query("DEALLOCATE ALL");
    }
}

#[test]
fn what_is_written_up_to_a_sync_is_one_transaction() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT)");
    let run = |sql: &str| {
        let parse = message(b'P', &[texts(&["", sql]), vec![0, 0]].concat());
        let bind = message(b'B', &[0, 0, 0, 0, 0, 0, 0, 0]);
        [parse, bind, message(b'E', &[0, 0, 0, 0, 0])].concat()
    };
    client.send(&[run("INSERT INTO t VALUES (1)"), run("SELECT 1/0"), message(b'S', &[])].concat());
    assert!(shown(&client.until_ready()).ends_with(" I"));
    assert_eq!(shown(&client.query("SELECT count(*) FROM t")), "T (0) SELECT 1 I");
    client.send(
        &[run("INSERT INTO t VALUES (1)"), run("INSERT INTO t VALUES (2)"), message(b'S', &[])].concat(),
    );
    assert_eq!(shown(&client.until_ready()), "1 2 INSERT 0 1 1 2 INSERT 0 1 I");
    assert_eq!(shown(&client.query("SELECT count(*) FROM t")), "T (2) SELECT 1 I");
}

#[test]
fn indexes_are_declared_and_listed() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT)");
    let made = client.query("CREATE ORDER INDEX i ON t (a); CREATE INDEX j ON t USING btree (a)");
    assert_eq!(shown(&made), "CREATE INDEX CREATE INDEX I");
    for part in [
        message(b'P', &[texts(&["", "CREATE ORDER INDEX k ON t (a)"]), vec![0, 0]].concat()),
        message(b'D', &texts(&["S"])),
        message(b'B', &[0, 0, 0, 0, 0, 0, 0, 0]),
        message(b'E', &[0, 0, 0, 0, 0]),
        message(b'S', &[]),
    ] {
        client.send(&part);
    }
    assert_eq!(shown(&client.until_ready()), "1 t n 2 CREATE INDEX I");
    let listed = shown(&client.query("SHOW INDEXES"));
    assert!(listed.contains(",main,t,key,a,j,NULL,"), "{listed}");
    assert!(listed.contains(",main,t,order,a,i, k,NULL,"), "{listed}");
    assert_eq!(shown(&client.query("DROP INDEX i, j, k")), "DROP INDEX I");
}

#[test]
fn copy_goes_both_ways() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR, c DOUBLE)");
    client.send(&message(b'Q', &texts(&["COPY t FROM STDIN"])));
    assert_eq!(client.next().unwrap().0, b'G');
    // A row may come in pieces.
    client.send(&message(b'd', b"1\tx\\ty\t1.5\n2\t"));
    client.send(&message(b'd', b"\\N\t\\N\n"));
    client.send(&message(b'c', b""));
    assert_eq!(shown(&client.until_ready()), "COPY 2 I");
    client.send(&message(b'Q', &texts(&["COPY t (a, b) FROM STDIN CSV"])));
    client.send(&message(b'd', b"3,\"a\nb\"\n1,again\n"));
    client.send(&message(b'c', b""));
    let refused = shown(&client.until_ready());
    assert_eq!(refused, "G E23505 I");
    // Who gives up is told so, and not that somebody has cancelled the statement.
    client.send(&message(b'Q', &texts(&["COPY t FROM STDIN"])));
    client.send(&message(b'd', b"4\tx\t1.5\n"));
    client.send(&message(b'f', &texts(&["on purpose"])));
    let given_up = client.until_ready();
    assert_eq!(shown(&given_up), "G E57014 I");
    let (_, error) = given_up.iter().find(|(kind, _)| *kind == b'E').unwrap();
    let said = b"COPY from stdin failed: on purpose";
    assert!(error.windows(said.len()).any(|part| part == said));
    let copied = client.query("COPY (SELECT * FROM t ORDER BY a) TO STDOUT");
    let lines: Vec<u8> =
        copied.iter().filter(|(kind, _)| *kind == b'd').flat_map(|(_, line)| line.clone()).collect();
    assert_eq!(String::from_utf8(lines).unwrap(), "1\tx\\ty\t1.5\n2\t\\N\t\\N\n");
    assert_eq!(shown(&client.query("COPY t (a, a) FROM STDIN")), "E42701 I");
    // What takes no rows is refused before they are asked for.
    client.query("CREATE VIEW seen AS SELECT * FROM t");
    client.query("CREATE MATERIALIZED VIEW kept AS SELECT * FROM t");
    assert_eq!(shown(&client.query("COPY seen FROM STDIN")), "E42809 I");
    assert_eq!(shown(&client.query("COPY kept FROM STDIN")), "E42809 I");
    client.query("BEGIN READ ONLY");
    assert_eq!(shown(&client.query("COPY t FROM STDIN")), "E25006 E");
    client.query("ROLLBACK");
    // The bytes that one COPY writes in the binary format can be read by another.
    let binary = client.query("COPY t TO STDOUT (FORMAT binary)");
    client.query("CREATE TABLE u (a INT, b VARCHAR, c DOUBLE)");
    client.send(&message(b'Q', &texts(&["COPY u FROM STDIN (FORMAT binary)"])));
    for (kind, data) in &binary {
        if *kind == b'd' {
            client.send(&message(b'd', data));
        }
    }
    client.send(&message(b'c', b""));
    assert_eq!(shown(&client.until_ready()), "G COPY 2 I");
    assert_eq!(shown(&client.query("SELECT * FROM u ORDER BY a")), "T (1,x\ty,1.5) (2,NULL,NULL) SELECT 2 I");
    // No text has a zero, however it is written.
    for row in [&b"4\ta\0b\t1.5\n"[..], b"4\t\\x00\t1.5\n", b"4\t\\000\t1.5\n"] {
        client.begin("COPY t FROM STDIN");
        client.send(&[message(b'd', row), message(b'c', b"")].concat());
        assert_eq!(shown(&client.until_ready()), "G E22021 I", "{row:?}");
    }
    // One that the database has, whose texts may, is sent as long as it is.
    let zero = "SELECT 'a' || chr(0) || 'b' AS a, length('a' || chr(0) || 'b') AS n";
    assert_eq!(shown(&client.query(zero)), "T (a\0b,3) SELECT 1 I");
    assert_eq!(shown(&client.query(&format!("COPY ({zero}) TO STDOUT"))), "H d c COPY 1 I");
    // A row that says that it has other fields is refused before they come.
    let beginning = [b"PGCOPY\n\xff\r\n\0".as_slice(), &[0_u8; 8]].concat();
    for fields in [-2_i16, 0, 2, 30_000] {
        client.begin("COPY u FROM STDIN (FORMAT binary)");
        client.send(&message(b'd', &[beginning.as_slice(), &fields.to_be_bytes()].concat()));
        assert_eq!(shown(&client.until_ready()), "G E22P04 I", "{fields}");
    }
}

#[test]
fn values_within_others_are_written_as_postgresql_writes_them_and_read_again() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("SET timezone = 'Asia/Kolkata'");
    client.query(
        "CREATE TABLE t (l DATE[], s STRUCT(d DATE, t TIMESTAMP, z TIMESTAMPTZ, j JSON, f DOUBLE, u UUID), \
         m MAP(VARCHAR, DATE), n DATE[][])",
    );
    let inserted = client.query(
        "INSERT INTO t VALUES ([DATE '10000-01-01', DATE '0044-03-15 BC', NULL], {'d': DATE '0044-03-15 BC', \
         't': TIMESTAMP '10000-01-01 10:20:30.5', 'z': TIMESTAMPTZ '10000-01-01 00:00:00+00', \
         'j': '{\"a\": [1]}'::JSON, 'f': 'NaN'::DOUBLE, 'u': '07070707-0707-0707-0707-070707070707'::UUID}, \
         MAP {'k': DATE '10000-01-01'}, [[DATE '10000-01-01'], NULL])",
    );
    assert_eq!(shown(&inserted), "INSERT 0 1 I");
    let row = concat!(
        r#"T ({10000-01-01,"0044-03-15 BC",NULL},{"d":"0044-03-15 BC","t":"10000-01-01T10:20:30.5","#,
        r#""z":"10000-01-01T05:30:00+05:30","j":{"a": [1]},"f":"NaN","#,
        r#""u":"07070707-0707-0707-0707-070707070707"},{"k":"10000-01-01"},[["10000-01-01"],null]) SELECT 1 I"#
    );
    assert_eq!(shown(&client.query("SELECT * FROM t")), row);
    let copied = client.query("COPY t TO STDOUT");
    client.query("CREATE TABLE u AS SELECT * FROM t LIMIT 0");
    client.send(&message(b'Q', &texts(&["COPY u FROM STDIN"])));
    for (kind, line) in &copied {
        if *kind == b'd' {
            client.send(&message(b'd', line));
        }
    }
    client.send(&message(b'c', b""));
    assert_eq!(shown(&client.until_ready()), "G COPY 1 I");
    assert_eq!(shown(&client.query("SELECT * FROM u")), row);
}

#[test]
fn parameters_may_be_structures() {
    let running = serve();
    let mut client = Client::new(&running);
    let columns = "s STRUCT(a INT, b VARCHAR), l STRUCT(a INT, d DATE)[], m MAP(VARCHAR, INT), n INT[][]";
    client.query(&format!("CREATE TABLE t ({columns})"));
    let parse = [texts(&["s", "INSERT INTO t VALUES ($1, $2, $3, $4)"]), vec![0, 0]].concat();
    client.send(&[message(b'P', &parse), message(b'D', &texts(&["Ss"])), message(b'S', &[])].concat());
    let described = client.until_ready();
    assert_eq!(shown(&described), "1 t n I");
    let json = [0, 0, 0, 114];
    assert_eq!(described[1].1, [vec![0, 4], json.repeat(4)].concat());
    let rows = [
        [
            Some(r#"{"b": "x", "a": 1}"#),
            Some(r#"[{"a": 2, "d": "2024-02-29"}, null]"#),
            Some(r#"{"k": 7}"#),
            Some("[[1, 2], null]"),
        ],
        [None; 4],
    ];
    for row in rows {
        let values = row.iter().flat_map(|value| match value {
            None => (-1_i32).to_be_bytes().to_vec(),
            Some(text) => [(text.len() as i32).to_be_bytes().as_slice(), text.as_bytes()].concat(),
        });
        let values: Vec<u8> = values.collect();
        let bind = [texts(&["", "s"]), vec![0, 0, 0, 4], values, vec![0, 0]].concat();
        client.send(&[message(b'B', &bind), message(b'E', &[0; 5]), message(b'S', &[])].concat());
        assert_eq!(shown(&client.until_ready()), "2 INSERT 0 1 I");
    }
    let inserted = r#"({"a":1,"b":"x"},[{"a":2,"d":"2024-02-29"},null],{"k":7},[[1,2],null])"#;
    let expected = format!("T {inserted} (NULL,NULL,NULL,NULL) SELECT 2 I");
    assert_eq!(shown(&client.query("SELECT * FROM t ORDER BY s IS NULL")), expected);
    let values = [[0, 0, 0, 5].as_slice(), b"(1,x)", &[255; 12]].concat();
    let bind = [texts(&["", "s"]), vec![0, 0, 0, 4], values, vec![0, 0]].concat();
    client.send(&[message(b'B', &bind), message(b'S', &[])].concat());
    assert_eq!(shown(&client.until_ready()), "E22P02 I");
}

#[test]
fn a_cancel_request_interrupts_the_statement() {
    let running = serve();
    let mut client = Client::new(&running);
    client.send(&message(b'Q', &texts(&[LONG])));
    running.await_statement(LONG);
    std::thread::sleep(Duration::from_millis(100));
    client.cancel(&running);
    let started = Instant::now();
    assert_eq!(shown(&client.until_ready()).trim_start_matches("T "), "E57014 I");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(shown(&client.query("SELECT 1")), "T (1) SELECT 1 I");
}

#[test]
fn a_copy_that_waits_for_its_client_is_cancelled() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT)");
    client.begin("COPY t FROM STDIN");
    assert_eq!(client.next().unwrap().0, b'G');
    client.send(&message(b'd', b"1\n"));
    std::thread::sleep(Duration::from_millis(200));
    client.cancel(&running);
    assert_eq!(shown(&client.until_ready()), "E57014 I");
    // What was on the way is passed over.
    client.send(&[message(b'd', b"2\n"), message(b'c', b"")].concat());
    assert_eq!(shown(&client.query("SELECT count(*) FROM t")), "T (0) SELECT 1 I");
}

#[test]
fn who_first_says_all_and_then_listens_is_answered() {
    const QUERIES: usize = 100;
    let running = serve();
    let mut client = Client::new(&running);
    // Neither side of the connection holds so much by itself.
    let padding = " ".repeat(100_000);
    let query = message(b'Q', &texts(&[&format!("SELECT repeat('x', 100000){padding}")]));
    for _ in 0..QUERIES {
        client.send(&query);
    }
    for _ in 0..QUERIES {
        let answer = client.until_ready();
        assert_eq!(answer.iter().map(|(kind, _)| char::from(*kind)).collect::<String>(), "TDCZ");
        assert_eq!(answer[1].1.len(), 2 + 4 + 100_000);
    }
    assert_eq!(shown(&client.query("SELECT 1")), "T (1) SELECT 1 I");
}

#[test]
fn the_end_of_a_client_is_seen_behind_what_it_has_sent_ahead() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT)");
    client.begin(LONG);
    client.begin(&format!("INSERT INTO t VALUES (1){}", " ".repeat(8 << 20)));
    client.begin("INSERT INTO t VALUES (2)");
    drop(client);
    running.await_nobody();
    let mut other = Client::new(&running);
    assert_eq!(shown(&other.query("SELECT count(*) FROM t")), "T (0) SELECT 1 I");
}

#[test]
fn a_portal_waits_while_another_statement_runs() {
    let running = serve();
    let mut client = Client::new(&running);
    let bind = |portal: &str, sql: &str| {
        let parse = message(b'P', &[texts(&["", sql]), vec![0, 0]].concat());
        [parse, message(b'B', &[texts(&[portal, ""]), vec![0; 6]].concat())].concat()
    };
    let execute = |portal: &str, rows: u8| message(b'E', &[texts(&[portal]), vec![0, 0, 0, rows]].concat());
    let messages = [
        bind("p", "SELECT value FROM generate_series(1, 5) ORDER BY value"),
        execute("p", 2),
        bind("", "SELECT 'other'"),
        execute("", 0),
        execute("p", 2),
        message(b'S', &[]),
    ];
    client.query("BEGIN");
    client.send(&messages.concat());
    assert_eq!(shown(&client.until_ready()), "1 2 (1) (2) s 1 2 (other) SELECT 1 (3) (4) s T");
    client.send(&[execute("p", 0), message(b'S', &[])].concat());
    assert_eq!(shown(&client.until_ready()), "(5) SELECT 1 T");
}

/// Prepares a statement without a name, and returns how it is described: the types of its parameters,
/// and the columns with theirs.
fn described(client: &mut Client, sql: &str) -> String {
    let parse = message(b'P', &[texts(&["", sql]), vec![0, 0]].concat());
    client.send(&[parse, message(b'D', b"S\0"), message(b'S', b"")].concat());
    let answer = client.until_ready();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let mut parts = Vec::new();
    for (kind, body) in &answer {
        match kind {
            b't' => {
                let types = body[2..].chunks(4).map(|oid| number(oid).to_string()).collect::<Vec<_>>();
                parts.push(format!("({})", types.join(",")));
            }
            b'T' => {
                let mut rest = &body[2..];
                while !rest.is_empty() {
                    let end = rest.iter().position(|byte| *byte == 0).unwrap();
                    let oid = number(&rest[end + 7..end + 11]);
                    parts.push(format!("{}:{oid}", String::from_utf8_lossy(&rest[..end])));
                    rest = &rest[end + 19..];
                }
            }
            b'E' => parts.push(shown(&[(*kind, body.clone())])),
            _ => {}
        }
    }
    parts.join(" ")
}

#[test]
fn a_text_that_is_prepared_again_is_described_as_definitions_are_now() {
    let running = serve();
    let (mut client, mut other) = (Client::new(&running), Client::new(&running));
    client.query("CREATE TABLE t (a INT, b INT); CREATE SCHEMA s; CREATE TABLE s.t (x BIGINT)");
    let sql = "SELECT * FROM t WHERE a = $1";
    for _ in 0..3 {
        assert_eq!(described(&mut client, sql), "(23) a:23 b:23");
    }
    assert_eq!(shown(&other.query("ALTER TABLE t ALTER COLUMN a TYPE BIGINT")), "ALTER TABLE I");
    assert_eq!(described(&mut client, sql), "(20) a:20 b:23");
    assert_eq!(shown(&other.query("ALTER TABLE t ADD COLUMN c INT")), "ALTER TABLE I");
    assert_eq!(described(&mut client, sql), "(20) a:20 b:23 c:23");
    // What a transaction has defined and taken back is gone, too.
    for (change, within) in [
        ("ALTER TABLE t DROP COLUMN c", "(20) a:20 b:23"),
        ("ALTER TABLE t ALTER COLUMN b TYPE BIGINT", "(20) a:20 b:20 c:23"),
        ("ALTER TABLE t ADD COLUMN d INT DEFAULT 1", "(20) a:20 b:23 c:23 d:23"),
    ] {
        client.query("BEGIN");
        assert_eq!(described(&mut client, sql), "(20) a:20 b:23 c:23");
        assert_eq!(shown(&client.query(change)), "ALTER TABLE T");
        assert_eq!(described(&mut client, sql), within, "{change}");
        client.query("ROLLBACK");
        assert_eq!(described(&mut client, sql), "(20) a:20 b:23 c:23", "{change}");
    }
    // A statement whose columns stay as they were goes on. Who prepares it anew has another parameter.
    let column = "SELECT b FROM t WHERE a = $1";
    assert_eq!(described(&mut client, column), "(20) b:23");
    assert_eq!(shown(&other.query("ALTER TABLE t ALTER COLUMN a TYPE INT")), "ALTER TABLE I");
    let bind = message(b'B', &[0, 0, 0, 0, 0, 1, 0, 0, 0, 1, b'1', 0, 0]);
    client.send(&[bind, message(b'S', b"")].concat());
    assert_eq!(shown(&client.until_ready()), "2 I");
    assert_eq!(described(&mut client, column), "(23) b:23");
    let all = "SELECT * FROM t";
    assert_eq!(described(&mut client, all), "() a:23 b:23 c:23");
    client.query("SET search_path = 's'");
    assert_eq!(described(&mut client, all), "() x:20");
    client.query("SET search_path = 'main'");
    assert_eq!(described(&mut client, all), "() a:23 b:23 c:23");
    // What a query sets is so for the next message, before any Sync.
    for (path, columns) in [("s", "() x:20"), ("main", "() a:23 b:23 c:23")] {
        let set = format!("SELECT set_config('search_path', '{path}', false)");
        let parse = message(b'P', &[texts(&["", &set]), vec![0, 0]].concat());
        client.send(&[parse, message(b'B', &[0; 8]), message(b'E', &[0; 5])].concat());
        assert_eq!(described(&mut client, all), columns, "{path}");
    }
    assert_eq!(shown(&other.query("DROP TABLE t")), "DROP TABLE I");
    assert_eq!(described(&mut client, all), "E42P01");
}

#[test]
fn what_a_client_prepares_and_binds_takes_memory_of_its_session() {
    const BYTES: usize = 8 << 20;
    let running = serve();
    let mut client = Client::new(&running);
    client.query("SET memory_limit = '100MB'");
    let sql = format!("SELECT 1{}", " ".repeat(BYTES));
    let prepare = |client: &mut Client, name: &str, sql: &str| {
        let parse = message(b'P', &[texts(&[name, sql]), vec![0, 0]].concat());
        client.send(&[parse, message(b'S', b"")].concat());
        shown(&client.until_ready())
    };
    let mut answers = (0..20).map(|number| prepare(&mut client, &format!("s{number}"), &sql));
    assert_eq!(answers.find(|answer| answer != "1 I").as_deref(), Some("E53200 I"));
    assert_eq!(shown(&client.query("DEALLOCATE ALL")), "DEALLOCATE ALL I");
    assert_eq!(prepare(&mut client, "again", &sql), "1 I");
    assert_eq!(prepare(&mut client, "v", "SELECT length($1::TEXT)"), "1 I");
    let value = [(BYTES as u32).to_be_bytes().to_vec(), vec![b'x'; BYTES]].concat();
    let bind = |client: &mut Client, portal: &str| {
        let body = [texts(&[portal, "v"]), vec![0, 0, 0, 1], value.clone(), vec![0, 0]].concat();
        client.send(&[message(b'B', &body), message(b'S', b"")].concat());
        shown(&client.until_ready())
    };
    client.query("BEGIN");
    let mut answers = (0..20).map(|number| bind(&mut client, &format!("p{number}")));
    assert_eq!(answers.find(|answer| answer != "2 T").as_deref(), Some("E53200 E"));
    client.query("ROLLBACK; BEGIN");
    assert_eq!(bind(&mut client, "again"), "2 T");
}

#[test]
fn open_cursors_take_memory_of_their_session() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("SET memory_limit = '4MB'");
    let declare = |client: &mut Client, number: usize| {
        let of = "SELECT x FROM generate_series(1, 1000000) AS g (x)";
        shown(&client.query(&format!("DECLARE c{number} CURSOR FOR {of}")))
    };
    client.query("BEGIN");
    let mut answers = (0..200).map(|number| declare(&mut client, number));
    assert_eq!(answers.find(|answer| answer != "DECLARE CURSOR T").as_deref(), Some("E53200 E"));
    client.query("ROLLBACK; BEGIN");
    assert_eq!(declare(&mut client, 0), "DECLARE CURSOR T");
}

#[test]
fn a_long_row_of_copy_takes_memory_of_its_session() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a VARCHAR)");
    client.query("SET memory_limit = '100MB'");
    let part = message(b'd', &vec![b'x'; 1 << 20]);
    client.begin("COPY t FROM STDIN");
    for _ in 0..90 {
        client.send(&part);
    }
    client.send(&message(b'c', b""));
    assert_eq!(shown(&client.until_ready()), "G E53200 I");
    // It is given back, and rows that are short take none.
    let lines = message(b'd', &"x\n".repeat(1 << 16).into_bytes());
    client.begin("COPY t FROM STDIN");
    for _ in 0..5 {
        client.send(&lines);
    }
    client.send(&message(b'c', b""));
    assert_eq!(shown(&client.until_ready()), format!("G COPY {} I", 5 << 16));
}

#[test]
fn many_sessions_are_served_beside_each_other() {
    const CLIENTS: usize = 100;
    let served = Served::in_memory();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::new(&served)).collect();
    for round in 0..3 {
        for client in &mut clients {
            client.begin(&format!("SELECT {round}"));
        }
        for client in &mut clients {
            assert_eq!(shown(&client.until_ready()), format!("T ({round}) SELECT 1 I"));
        }
    }
    drop(clients);
    served.await_nobody();
}

#[test]
fn nothing_of_a_session_is_left_once_all_is_discarded() {
    let running = serve();
    let (mut client, mut other) = (Client::new(&running), Client::new(&running));
    client.query("CREATE TEMP TABLE own (a INT); CREATE TEMP MACRO twice(x) AS x * 2");
    assert!(shown(&client.query("SELECT pg_advisory_lock(7)")).ends_with("SELECT 1 I"));
    assert_eq!(shown(&other.query("SELECT pg_try_advisory_lock(7)")), "T (f) SELECT 1 I");
    assert_eq!(shown(&client.query("SELECT twice(a) FROM own")), "T SELECT 0 I");
    // Settings that it takes back are told.
    let discarded = shown(&client.query("DISCARD ALL"));
    assert!(discarded.starts_with("DISCARD ALL"), "{discarded}");
    assert_eq!(shown(&other.query("SELECT pg_try_advisory_lock(7)")), "T (t) SELECT 1 I");
    assert_eq!(shown(&client.query("SELECT a FROM own")), "E42P01 I");
    assert_eq!(shown(&client.query("SELECT twice(1)")), "E42883 I");
    // There may be tables of that name again.
    client.query("CREATE TEMP TABLE own (b INT); INSERT INTO own VALUES (1)");
    assert_eq!(shown(&client.query("SELECT b FROM own")), "T (1) SELECT 1 I");
    assert_eq!(shown(&client.query("DISCARD TEMP")), "DISCARD TEMP I");
    assert_eq!(shown(&client.query("SELECT b FROM own")), "E42P01 I");
}

#[test]
fn settings_are_kept_and_told() {
    let running = serve();
    let mut client = Client::new(&running);
    assert_eq!(shown(&client.query("SHOW application_name")), "T (test) SHOW I");
    assert_eq!(shown(&client.query("SET TIME ZONE 'Europe/Berlin'")), "SET S I");
    assert_eq!(
        shown(&client.query("SELECT TIMESTAMPTZ '2024-07-01 00:00:00+00'")),
        "T (2024-07-01 02:00:00+02) SELECT 1 I"
    );
    assert_eq!(shown(&client.query("SET client_encoding = 'LATIN1'")), "E22023 I");
    assert_eq!(shown(&client.query("SELECT current_setting('TimeZone')")), "T (Europe/Berlin) SELECT 1 I");
    // The engine's own way has the same effect.
    assert_eq!(shown(&client.query("PRAGMA timezone = 'Asia/Tokyo'")), "SELECT 0 S I");
    assert_eq!(
        shown(&client.query("SELECT TIMESTAMPTZ '2024-07-01 00:00:00+00'")),
        "T (2024-07-01 09:00:00+09) SELECT 1 I"
    );
    client.query("SET datafusion.execution.batch_size = 1000");
    let answer = client.query("SHOW datafusion.execution.batch_size");
    assert_eq!(answer[0].1[..2], [0, 1]);
    assert_eq!(shown(&answer), "T (1000) SHOW I");
    client.query("RESET datafusion.execution.batch_size");
    assert_eq!(
        shown(&client.query("RESET ALL; DISCARD ALL; DEALLOCATE ALL")),
        "RESET S S DISCARD ALL DEALLOCATE ALL I"
    );
    for (name, value) in
        [("stages", "on"), ("position_pipelines", "off"), ("batch_size", "1000"), ("synced_replicas", "2")]
    {
        let answer = client.query(&format!("SHOW {name}"));
        assert!(answer[0].1.starts_with(&[&[0, 1][..], name.as_bytes(), &[0]].concat()), "{name}");
        let before = shown(&answer);
        assert_eq!(
            shown(&client.query(&format!("BEGIN; SET LOCAL {name} = '{value}'"))),
            "BEGIN SET T",
            "{name}"
        );
        assert_eq!(shown(&client.query(&format!("SHOW {name}"))), format!("T ({value}) SHOW T"));
        assert_eq!(shown(&client.query("COMMIT")), "COMMIT I");
        assert_eq!(shown(&client.query(&format!("SHOW {name}"))), before);
        assert_eq!(shown(&client.query(&format!("SET {name} = '{value}'"))), "SET I", "{name}");
        assert_eq!(shown(&client.query(&format!("SHOW {name}"))), format!("T ({value}) SHOW I"));
        assert_eq!(shown(&client.query(&format!("RESET {name}"))), "RESET I", "{name}");
        assert_eq!(shown(&client.query(&format!("SHOW {name}"))), before);
    }
}

#[test]
fn what_a_text_sets_for_its_transaction_holds_up_to_its_end() {
    let running = serve();
    let mut client = Client::new(&running);
    let text =
        "SET LOCAL statement_timeout = '5s'; SHOW statement_timeout; SET LOCAL my.own = 'x'; SHOW my.own";
    assert_eq!(shown(&client.query(text)), "SET T (5s) SHOW SET T (x) SHOW I");
    assert_eq!(shown(&client.query("SHOW statement_timeout")), "T (0) SHOW I");
    client.query("CREATE TABLE t (a INT)");
    let read_only = client.query("SET TRANSACTION READ ONLY; INSERT INTO t VALUES (1)");
    assert_eq!(shown(&read_only), "SET E25006 I");
    // Alone, it has nothing to hold for.
    let alone = client.query("SET LOCAL statement_timeout = '5s'");
    assert_eq!(shown(&alone), "N25P01 SET I");
}

#[test]
fn a_schema_of_the_search_path_may_be_made_later() {
    let running = serve();
    let (mut client, mut other) = (Client::new(&running), Client::new(&running));
    client.query("SET search_path = later, main");
    assert_eq!(shown(&client.query("SELECT current_schema()")), "T (main) SELECT 1 I");
    other.query("CREATE SCHEMA later; CREATE TABLE later.t (a INT)");
    assert_eq!(shown(&client.query("SELECT * FROM t")), "T SELECT 0 I");
    assert_eq!(shown(&client.query("SELECT current_schema()")), "T (later) SELECT 1 I");
}

#[test]
fn a_search_path_may_name_no_schema_that_there_is() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("CREATE TABLE t (a INT)");
    assert_eq!(shown(&client.query("SET search_path TO nosuch")), "SET I");
    for (sql, answer) in [
        ("SHOW search_path", "T (nosuch) SHOW I"),
        ("SELECT current_schema(), current_schemas(false)", "T (NULL,{}) SELECT 1 I"),
        ("SELECT * FROM t", "E42P01 I"),
        ("SELECT * FROM main.t", "T SELECT 0 I"),
        ("CREATE TABLE u (a INT)", "E3F000 I"),
        ("CREATE TABLE u AS SELECT 1 AS a", "E3F000 I"),
        ("CREATE VIEW u AS SELECT 1 AS a", "E3F000 I"),
        ("CREATE SEQUENCE u", "E3F000 I"),
        ("CREATE TEMP TABLE u (a INT)", "CREATE TABLE I"),
        ("DROP TABLE u", "DROP TABLE I"),
        ("CREATE SCHEMA nosuch", "CREATE SCHEMA I"),
        ("CREATE TABLE u (a INT)", "CREATE TABLE I"),
        ("SELECT * FROM nosuch.u", "T SELECT 0 I"),
        ("DROP TABLE u", "DROP TABLE I"),
        ("DROP SCHEMA nosuch", "DROP SCHEMA I"),
        ("CREATE TABLE u (a INT)", "E3F000 I"),
        ("RESET search_path", "RESET I"),
        ("SELECT * FROM t", "T SELECT 0 I"),
    ] {
        assert_eq!(shown(&client.query(sql)), answer, "{sql}");
    }
}

#[test]
fn garbage_ends_a_connection_and_nothing_else() {
    let running = serve();
    let startups: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x04",
        b"\xff\xff\xff\xff\0\0",
        b"\0\0\0\x08\0\x02\0\0",
        b"\0\0\0\x0c\0\x03\0\0user",
        b"\0\0\0\x09\0\x03\0\0\0",
    ];
    for bytes in startups {
        let mut socket = connect(running.postgres);
        socket.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A connection that is reset is ended, too.
        let _ended = socket.read_to_end(&mut answer);
        assert!(answer.len() < 1000, "{bytes:?}");
    }
    // Who begins a startup is told what is wrong with it.
    let startups: [(&[u8], &str); 4] = [
        (b"\0\0\0\x08\0\x02\0\0", "E0A000"),
        (b"\0\0\0\x0e\0\x04\0\0user\0\0", "E0A000"),
        (b"\0\0\0\x0c\0\x03\0\0user", "E08P01"),
        (b"\0\0\0\x0d\0\x03\0\0user\0", "E08P01"),
    ];
    for (bytes, answer) in startups {
        let mut client = Client { socket: connect(running.postgres), key: Vec::new() };
        client.send(bytes);
        assert_eq!(shown(&client.until(b'E')), answer, "{bytes:?}");
        assert!(client.next().is_none(), "{bytes:?}");
    }
    // A newer version of the protocol is served as the one that the server has.
    let mut client = Client { socket: connect(running.postgres), key: Vec::new() };
    let mut startup = (3_u32 << 16 | 2).to_be_bytes().to_vec();
    startup.extend(texts(&["user", "ada", "_pq_.x", "y", ""]));
    client.send(&packet(&startup));
    let greeting = client.until_ready();
    assert_eq!(greeting[0], (b'v', [&[0, 0, 0, 0, 0, 0, 0, 1][..], b"_pq_.x\0"].concat()));
    assert_eq!(greeting[1], (b'R', vec![0, 0, 0, 0]));
    let messages: [&[u8]; 4] = [b"Q\0\0\0\x03", b"Q\xff\xff\xff\xff", b"S\0\0\0\x06ab", b"\x01\0\0\0\x04"];
    for bytes in messages {
        let mut client = Client::new(&running);
        client.send(bytes);
        let (kind, body) = client.next().unwrap();
        assert_eq!(kind, b'E', "{bytes:?}");
        assert!(body.windows(5).any(|part| part == b"08P01"), "{bytes:?}");
        assert!(client.next().is_none(), "{bytes:?}");
    }
    // No encryption is offered; the server understands what follows the refusal.
    let mut socket = connect(running.postgres);
    socket.write_all(&packet(&80_877_103_u32.to_be_bytes())).unwrap();
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
    assert_eq!(shown(&Client::new(&running).query("SELECT 1")), "T (1) SELECT 1 I");
}

#[test]
fn a_message_with_a_wrong_body_does_not_end_the_connection() {
    let running = serve();
    let mut client = Client::new(&running);
    client.query("BEGIN; CREATE TABLE t (a INT)");
    client.send(&message(b'Q', b"SELECT '\xff'\0"));
    assert_eq!(shown(&client.until_ready()), "E22021 E");
    assert_eq!(shown(&client.query("ROLLBACK")), "ROLLBACK I");
    for wrong in [message(b'Q', b"SELECT 1"), message(b'Q', b"SELECT 1\0SELECT 2\0")] {
        client.send(&wrong);
        assert_eq!(shown(&client.until_ready()), "E08P01 I");
    }
    client.send(&message(b'F', &[0; 10]));
    assert_eq!(shown(&client.until_ready()), "E0A000 I");
    let wrong: [(u8, &[u8]); 4] =
        [(b'B', b"\0\0\x7f\xff\0\0"), (b'P', b"\0\0\xff\xff"), (b'D', b"X\0"), (b'E', b"\0\0")];
    for (kind, body) in wrong {
        client.send(&[message(kind, body), message(b'H', b""), message(b'S', b"")].concat());
        assert_eq!(shown(&client.until_ready()), "E08P01 I");
    }
    assert_eq!(shown(&client.query("SELECT 1")), "T (1) SELECT 1 I");
}

fn startup() -> Vec<u8> {
    let mut startup = 196_608_u32.to_be_bytes().to_vec();
    startup.extend(texts(&["user", "ada", ""]));
    packet(&startup)
}

#[test]
fn one_client_too_many_is_told_so() {
    let limits = Limits { clients: 2, ..Limits::default() };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let mut first = Client::new(&served);
    let second = Client::new(&served);
    let mut third = Client { socket: connect(served.postgres), key: Vec::new() };
    third.send(&startup());
    assert_eq!(shown(&third.until(b'E')), "E53300");
    assert!(third.next().is_none(), "and let go");
    drop(second);
    until("no place is given back", || served.connect_tcp().is_ok());
    assert_eq!(shown(&first.query("SELECT 1")), "T (1) SELECT 1 I");
}

#[test]
fn one_address_may_have_so_many_clients() {
    let limits = Limits { clients_of_peer: Some(1), ..Limits::default() };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let first = Client::new(&served);
    assert_eq!(served.connect_tcp().err().unwrap().sqlstate(), "53300");
    // This is another peer.
    let local = served.connect_unix().unwrap();
    assert_eq!(served.connect_unix().err().unwrap().sqlstate(), "53300");
    assert_eq!(local.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    drop((first, local));
    served.await_nobody();
    served.connect_tcp().unwrap();
}

#[test]
fn a_session_that_is_killed_ends_whatever_it_does() {
    let served = serve();
    let other = served.connect_tcp().unwrap();
    other.execute("CREATE TABLE t (a INTEGER)").unwrap();
    let mut idle = Client::new(&served);
    idle.query("BEGIN");
    idle.query("INSERT INTO t VALUES (1)");
    let mut deaf = Client::new(&served);
    // It is far more than the sockets hold, and nobody reads.
    deaf.send(&message(b'Q', &texts(&["SELECT repeat('x', 100000) FROM generate_series(1, 2000)"])));
    std::thread::sleep(Duration::from_millis(500));
    let own = other.id();
    for id in 1..=own + 2 {
        if id != own {
            // Numbers that no session has any more are errors.
            let _gone = other.execute(&format!("KILL {id}"));
        }
    }
    assert_eq!(shown(&idle.until(b'E')), "E57P01");
    assert!(idle.next().is_none());
    until("the deaf one is still there", || {
        other.execute("SHOW SESSIONS").unwrap().row_count().unwrap() == 1
    });
    assert_eq!(other.execute("SELECT * FROM t").unwrap().row_count().unwrap(), 0);
}

#[test]
fn a_client_that_never_pauses_is_killed_whatever_it_does() {
    let served = serve();
    let other = served.connect_tcp().unwrap();
    let (mut slow, mut quick) = (Client::new(&served), Client::new(&served));
    // It takes its rows without a pause, but takes minutes for all of them.
    slow.begin("SELECT repeat('x', 100000) FROM generate_series(1, 2000)");
    let slow = std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while slow.socket.read(&mut bytes).is_ok_and(|length| length > 0) {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    // Each of its statements is an error when the session is dead, and the next one is there already.
    let quick = std::thread::spawn(move || {
        let request = message(b'Q', &texts(&["SELECT 1"]));
        let ahead = request.repeat(50);
        while quick.socket.write_all(&ahead).is_ok() {
            let answered = (0..50).all(|_| {
                while let Some((kind, _)) = quick.next() {
                    if kind == b'Z' {
                        return true;
                    }
                }
                false
            });
            if !answered {
                break;
            }
        }
    });
    std::thread::sleep(Duration::from_millis(500));
    let own = other.id();
    for id in (1..=own + 3).filter(|id| *id != own) {
        let _gone = other.execute(&format!("KILL {id}"));
    }
    until("one of them is still there", || other.execute("SHOW SESSIONS").unwrap().row_count().unwrap() == 1);
    slow.join().unwrap();
    quick.join().unwrap();
}

#[test]
fn a_server_that_stops_lets_statements_end_and_tells_who_is_idle() {
    let mut served = serve();
    let mut idle = Client::new(&served);
    let mut busy = Client::new(&served);
    busy.send(&message(b'Q', &texts(&[LONG])));
    served.await_statement(LONG);
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    served.stop();
    let took = started.elapsed();
    assert!(took >= STOP_TIME && took < STOP_TIME + DEADLINE, "{took:?}");
    assert_eq!(shown(&idle.until(b'E')), "E57P01");
    assert_eq!(shown(&busy.until(b'E')), "T E57014");
}

#[test]
fn a_server_that_stops_does_not_wait_for_clients_that_never_pause() {
    let mut served = serve();
    let whole = message(b'Q', &texts(&["SELECT 1"]));
    // Requests that belong together, without an end.
    let parts = [
        message(b'P', &[texts(&["", "SELECT 1"]), vec![0, 0]].concat()),
        message(b'B', &[0; 8]),
        message(b'E', &[0; 5]),
        message(b'H', &[]),
    ]
    .concat();
    let several = message(b'Q', &texts(&["SELECT 1;".repeat(1000).as_str()]));
    let clients = [("", &whole, b'Z'), ("BEGIN", &whole, b'Z'), ("", &several, b'Z'), ("", &parts, b'C')];
    let clients = clients.map(|(first, request, last)| {
        let (mut client, request) = (Client::new(&served), request.clone());
        client.query(first);
        std::thread::spawn(move || {
            while client.socket.write_all(&request).is_ok() {
                while let Some((kind, _)) = client.next() {
                    if kind == last {
                        break;
                    }
                }
            }
        })
    });
    std::thread::sleep(Duration::from_millis(300));
    served.stop();
    until("a session goes on", || served.sessions() == 0);
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn copy_that_waits_for_its_client_can_be_ended() {
    let mut served = serve();
    let begun = |served: &Served| {
        let mut client = Client::new(served);
        client.query("CREATE TABLE IF NOT EXISTS t (a INT)");
        client.begin("COPY t FROM STDIN");
        assert_eq!(client.next().unwrap().0, b'G');
        client.send(&message(b'd', b"1\n"));
        client
    };
    let mut client = begun(&served);
    std::thread::sleep(Duration::from_millis(300));
    client.cancel(&served);
    assert_eq!(shown(&client.until_ready()), "E57014 I");
    // What it still sends is passed over.
    client.send(&[message(b'd', b"2\n"), message(b'c', b"")].concat());
    assert_eq!(shown(&client.query("SELECT count(*) FROM t")), "T (0) SELECT 1 I");
    client.query("SET statement_timeout = 300");
    client.begin("COPY t FROM STDIN");
    assert_eq!(shown(&client.until_ready()), "G E57014 I");
    client.send(&message(b'c', b""));
    client.begin("COPY t FROM STDIN");
    assert_eq!(client.next().unwrap().0, b'G');
    // One that goes on sending is ended, too.
    let ended = (0..1000).find(|_| {
        std::thread::sleep(Duration::from_millis(20));
        client.send(&message(b'd', b"1\n"));
        client.socket.set_nonblocking(true).unwrap();
        let has_come = client.socket.peek(&mut [0]).is_ok();
        client.socket.set_nonblocking(false).unwrap();
        has_come
    });
    assert!(ended.is_some());
    assert_eq!(shown(&client.until_ready()), "E57014 I");
    let mut killed = begun(&served);
    let other = served.connect_tcp().unwrap();
    for id in 1..other.id() {
        let _gone = other.execute(&format!("KILL {id}"));
    }
    assert_eq!(shown(&killed.until(b'E')), "E57P01");
    drop(other);
    let mut last = begun(&served);
    served.stop();
    assert_eq!(shown(&last.until(b'E')), "E57P01");
}

#[test]
fn copy_goes_on_while_its_server_drains_or_stops() {
    let limits = Limits { stop_time: DEADLINE, ..Limits::default() };
    let mut served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let [mut first, mut second] = [(); 2].map(|()| Client::new(&served));
    first.query("CREATE TABLE t (a INT)");
    for client in [&mut first, &mut second] {
        client.begin("COPY t FROM STDIN");
        assert_eq!(client.next().unwrap().0, b'G');
        client.send(&message(b'd', b"1\n"));
    }
    let rest = [message(b'd', b"2\n"), message(b'c', b"")].concat();
    served.drain();
    std::thread::sleep(Duration::from_millis(500));
    first.send(&rest);
    assert_eq!(shown(&first.until_ready()), "COPY 2 I");
    assert_eq!(shown(&first.until(b'E')), "E57P01");
    let stops = std::thread::spawn(move || served.stop());
    std::thread::sleep(Duration::from_millis(500));
    second.send(&rest);
    assert_eq!(shown(&second.until_ready()), "COPY 2 I");
    assert_eq!(shown(&second.until(b'E')), "E57P01");
    stops.join().unwrap();
}

#[test]
fn who_has_not_been_let_in_may_not_say_much() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let mut client = Client { socket: connect(served.postgres), key: Vec::new() };
    client.send(&startup());
    assert_eq!(client.until(b'R')[0].1[..4], 10_u32.to_be_bytes());
    let mut endless = vec![b'Q'];
    endless.extend(200_000_000_u32.to_be_bytes());
    client.send(&endless);
    let answer = client.until(b'E');
    assert_eq!(shown(&answer), "E08P01");
    assert!(client.next().is_none());
}

#[test]
fn a_node_of_a_cluster_is_not_let_in() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let mut client = Client { socket: connect(served.postgres), key: Vec::new() };
    let mut startup = 196_608_u32.to_be_bytes().to_vec();
    startup.extend(texts(&["user", "node", ""]));
    client.send(&packet(&startup));
    assert_eq!(client.until(b'R')[0].1[..4], 10_u32.to_be_bytes());
    let exchange = Scram::new("node", "n", "nonce", None);
    let mut first = texts(&[exchange.mechanism()]);
    first.extend((exchange.first().len() as u32).to_be_bytes());
    first.extend(exchange.first());
    client.send(&message(b'p', &first));
    let challenge = client.until(b'R').remove(0).1;
    client.send(&message(b'p', &exchange.proof(&challenge[4..]).unwrap().0));
    // The password is right.
    assert_eq!(shown(&client.until(b'E')), "R E42501");
    assert!(client.next().is_none());
}

#[test]
fn long_statements_end_in_an_answer() {
    let served = serve();
    let mut client = Client::new(&served);
    let sum = vec!["1"; 50_000].join(" + ");
    let minuses = "- ".repeat(500_000);
    for sql in [
        format!("SELECT {sum}"),
        format!("SELECT {}1{}", "(".repeat(50_000), ")".repeat(50_000)),
        format!("SET timezone = {minuses}1"),
        format!("SELECT {minuses}1"),
        format!("COPY t FROM STDIN (NULL {minuses}1)"),
        format!("SELECT 1 WHERE {}", vec!["a"; 50_000].join(" AND ")),
    ] {
        client.query(&sql);
    }
    assert_eq!(shown(&client.query("SELECT 1")), "T (1) SELECT 1 I");
    for connection in [served.connect_tcp().unwrap(), served.database.connect().unwrap()] {
        let _answer = connection.execute(&format!("SELECT {sum}")).and_then(|result| result.row_count());
        assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    }
}
