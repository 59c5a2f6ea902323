//! Tests calls between the nodes of a cluster, with a node that does what a request says.

use crate::served::{Served, Setup, until};
use crate::server::users;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use hypostyle::client::{Address, Options};
use hypostyle::node::{self, Calls, Outcome, Session};
use hypostyle::{
    CallAnswer, Connection, Error, ErrorKind, Identity, OpenOptions, Parameters, QueryResult, Result,
};
use hypostyle_auth::scram;
use hypostyle_server::Limits;
use hypostyle_wire as wire;
use hypostyle_wire::{
    CALL_BYTES_MAX, Call, Capabilities, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Failure, FrameHeader, FrameType,
    Hello, Note, Query, QueryKind, Welcome,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The limit of silence in these tests: three pulses.
const SILENCE: Duration = Duration::from_secs(3);

/// What rows that are read too late have ended with.
static LATE: OnceLock<Option<Error>> = OnceLock::new();

type Data = Box<dyn RecordBatchReader + Send>;

/// A node of which every request is a word and a number.
struct Node;

impl Calls for Node {
    fn call(&self, session: &Session, request: &[u8], rows: Option<Data>) -> Result<node::CallAnswer> {
        let text = String::from_utf8_lossy(request);
        let (word, number) = text.split_once(' ').unwrap_or((&text, "0"));
        let number: u64 = number.parse().unwrap();
        match word {
            "echo" => Ok(node::CallAnswer::Reply(request.to_vec())),
            "bytes" => Ok(node::CallAnswer::Reply(vec![7; number as usize])),
            "fail" => {
                Err(Error::new(ErrorKind::Conflict, "another was first").with_sqlstate("40001").unreachable())
            }
            "late" => late(rows.unwrap()),
            "panic" => panic!("of the test"),
            "again" => again(rows.unwrap()),
            "sum" => sum(session, rows.unwrap()),
            "generate" => generate(session, number),
            "done" => Ok(node::CallAnswer::Rows(Outcome::Done { rows_affected: Some(number) })),
            "work" => wait(number, || session.check_interrupt()),
            "block" => wait(number, || Ok(())),
            other => Err(Error::invalid_input(format!("no node knows \"{other}\""))),
        }
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    match error {
        arrow::error::ArrowError::ExternalError(inner) => *inner.downcast::<Error>().unwrap(),
        other => Error::internal(other.to_string()),
    }
}

/// Gives the rows back.
fn again(rows: Data) -> Result<node::CallAnswer> {
    let schema = rows.schema();
    let batches = rows.collect::<std::result::Result<_, _>>().map_err(failed)?;
    Ok(node::CallAnswer::Rows(Outcome::Batches { schema, batches, rows_affected: None }))
}

/// Reads what no longer comes when the answer is given.
fn late(mut rows: Data) -> Result<node::CallAnswer> {
    let first = rows.next().unwrap().map_err(failed)?;
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        let _error = LATE.set(rows.find_map(std::result::Result::err).map(failed));
    });
    Ok(node::CallAnswer::Rows(Outcome::Batches {
        schema: first.schema(),
        batches: vec![first],
        rows_affected: None,
    }))
}

fn sum(session: &Session, rows: Data) -> Result<node::CallAnswer> {
    let mut sum = 0;
    for batch in rows {
        session.check_interrupt()?;
        let batch = batch.map_err(failed)?;
        sum += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
    }
    Ok(node::CallAnswer::Reply(sum.to_string().into_bytes()))
}

/// Computes rows while they are sent.
fn generate(session: &Session, rows: u64) -> Result<node::CallAnswer> {
    let own = Session::new(session.engine().clone(), Identity::default())?;
    let query = format!("SELECT x, 'text ' || x AS t FROM generate_series(1, {rows}) AS g(x)");
    own.execute(&query, &Parameters::None).map(node::CallAnswer::Rows)
}

fn wait(milliseconds: u64, look: impl Fn() -> Result<()>) -> Result<node::CallAnswer> {
    let deadline = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < deadline {
        look()?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(node::CallAnswer::Reply(b"waited".to_vec()))
}

fn bytes(answer: Result<CallAnswer>) -> Result<Vec<u8>> {
    match answer? {
        CallAnswer::Reply(reply) => Ok(reply),
        CallAnswer::Rows(_) => panic!("rows came"),
    }
}

fn result(answer: Result<CallAnswer>) -> Result<QueryResult> {
    match answer? {
        CallAnswer::Reply(reply) => panic!("{} bytes came", reply.len()),
        CallAnswer::Rows(result) => Ok(result),
    }
}

fn whole(result: &QueryResult) -> RecordBatch {
    concat_batches(&result.schema(), &result.record_batches().unwrap()).unwrap()
}

fn reader(batches: Vec<RecordBatch>) -> Option<Data> {
    let schema = batches[0].schema();
    Some(Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)))
}

/// Returns rows of one number each, `batches` times a hundred thousand.
fn numbers(batches: usize) -> Option<Data> {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100_000).map(|row| row * row % 1009)));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let schema = batch.schema();
    Some(Box::new(RecordBatchIterator::new((0..batches).map(move |_| Ok(batch.clone())), schema)))
}

/// Serves a node, whose database has users.
fn served(limits: Option<Limits>) -> Served {
    let served = Served::new(Setup { users: Some(users()), limits, ..Setup::default() });
    served.database.set_calls(Arc::new(Node)).unwrap();
    served
}

fn connect(served: &Served, login: &str) -> Connection {
    served.connect(&format!("hypostyle://{login}@{}/", served.tcp), true).unwrap()
}

fn connect_silent(address: &str) -> Result<Connection> {
    let options = Options { silence: Some(SILENCE), ..Options::default() };
    Connection::to_server(&Address::parse(address)?, options)
}

/// Returns the ways to call a node. One is within its process.
fn ways(served: &Served) -> [(&'static str, Connection); 4] {
    let unix = |descriptors| {
        served.connect(&format!("hypostyle+unix://node:n@{}", served.unix.display()), descriptors).unwrap()
    };
    [
        ("embedded", served.database.connect().unwrap()),
        ("tcp", connect(served, "node:n")),
        ("unix", unix(true)),
        ("unix without descriptors", unix(false)),
    ]
}

#[test]
fn a_call_gives_bytes_rows_or_an_error() {
    let served = served(None);
    for (way, connection) in ways(&served) {
        assert_eq!(bytes(connection.call(b"echo 5", None)).unwrap(), b"echo 5", "{way}");
        let longest = bytes(connection.call(format!("bytes {CALL_BYTES_MAX}").as_bytes(), None)).unwrap();
        assert!(longest.len() == CALL_BYTES_MAX && longest.iter().all(|byte| *byte == 7), "{way}");
        let done = result(connection.call(b"done 3", None)).unwrap();
        assert_eq!((done.is_query(), done.rows_affected()), (false, Some(3)), "{way}");
        let error = bytes(connection.call(b"fail", None)).unwrap_err();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Conflict, "40001"), "{way}");
        assert_eq!(error.message(), "another was first", "{way}");
        assert_eq!(error.is_unreachable(), way == "embedded", "{way}: a peer says nothing of itself");
        let error = bytes(connection.call(b"panic", None)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{way}: {error}");
        assert_eq!(bytes(connection.call(b"echo 6", None)).unwrap(), b"echo 6", "{way}");
        if way != "embedded" {
            let request = format!("bytes {}", CALL_BYTES_MAX + 1);
            let error = bytes(connection.call(request.as_bytes(), None)).unwrap_err();
            assert_eq!(error.sqlstate(), "54000", "{way}: {error}");
            assert_eq!(bytes(connection.call(b"echo 7", None)).unwrap(), b"echo 7", "{way}");
        }
    }
}

#[test]
fn rows_of_all_types_go_up_and_come_down() {
    let served = served(None);
    let embedded = served.database.connect().unwrap();
    embedded.execute(crate::server::TYPES).unwrap();
    let more = "SELECT 'f47ac10b-58cc-4372-a567-0e02b2c3d479'::UUID AS u, INTERVAL '1 month 2 days' AS v,
        TIME '12:34:56' AS t, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS z, named_struct('a', 1, 'b', 'x') AS s,
        '{\"a\": 1}'::JSON AS j, 1.5::FLOAT AS f";
    for query in ["SELECT * FROM types", "SELECT * FROM types LIMIT 0", more] {
        let sent = embedded.execute(query).unwrap();
        for (way, connection) in ways(&served) {
            let batches = match sent.row_count().unwrap() {
                0 => vec![RecordBatch::new_empty(sent.schema())],
                _ => sent.record_batches().unwrap(),
            };
            let got = result(connection.call(b"again", reader(batches))).unwrap();
            assert_eq!(got.columns(), sent.columns(), "{way}: {query}");
            crate::server::assert_same(&whole(&sent), &whole(&got), &format!("{way}: {query}"));
        }
    }
}

#[test]
fn many_rows_go_up_and_come_down_as_they_are_wanted() {
    let served = served(None);
    for (way, connection) in ways(&served) {
        let expected = (0..100_000_i64).map(|row| row * row % 1009).sum::<i64>() * 60;
        let sum = bytes(connection.call(b"sum", numbers(60))).unwrap();
        assert_eq!(sum, expected.to_string().into_bytes(), "{way}");
        let rows = result(connection.call(b"generate 3000000", None)).unwrap();
        let (mut count, mut sum) = (0, 0);
        while let Some(batch) = rows.next_batch().unwrap() {
            count += batch.num_rows();
            sum += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
        }
        assert_eq!((count, sum), (3_000_000, 3_000_000 * 3_000_001 / 2), "{way}");
        // Nobody reads the rest of these.
        drop(result(connection.call(b"generate 3000000", None)).unwrap());
        assert_eq!(bytes(connection.call(b"echo 1", None)).unwrap(), b"echo 1", "{way}");
    }
}

#[test]
fn an_answer_ends_rows_that_are_not_wanted() {
    let served = served(None);
    for (way, connection) in ways(&served) {
        for _ in 0..3 {
            assert_eq!(bytes(connection.call(b"echo 1", numbers(200))).unwrap(), b"echo 1", "{way}");
            let error = bytes(connection.call(b"fail", numbers(200))).unwrap_err();
            assert_eq!(error.sqlstate(), "40001", "{way}: {error}");
            let rows = result(connection.call(b"generate 1000", numbers(200))).unwrap();
            assert_eq!(rows.row_count().unwrap(), 1000, "{way}");
        }
    }
}

#[test]
fn rows_that_are_read_after_the_answer_are_an_error() {
    let served = served(None);
    let connection = connect(&served, "node:n");
    let rows = result(connection.call(b"late", numbers(2000))).unwrap();
    assert!(rows.row_count().unwrap() > 0);
    // A session that is idle lets nobody else look at its socket.
    thread::sleep(Duration::from_millis(400));
    assert_eq!(bytes(connection.call(b"echo 1", numbers(1))).unwrap(), b"echo 1");
    until("the rows are waited for", || LATE.get().is_some());
    let error = LATE.get().unwrap().clone().unwrap();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
}

#[test]
fn a_call_that_is_cancelled_ends_and_leaves_the_session() {
    let served = served(None);
    for (way, connection) in ways(&served) {
        // In its node, among the rows that go up, and among those that come down.
        for request in ["work 20000", "sum", "generate 1000000000000"] {
            let interrupting = connection.clone();
            let interrupter = thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                interrupting.interrupt();
            });
            let begin = Instant::now();
            let rows = if request == "sum" { numbers(usize::MAX) } else { None };
            let error = match connection.call(request.as_bytes(), rows) {
                Err(error) => error,
                Ok(CallAnswer::Reply(reply)) => panic!("{way}: {reply:?}"),
                Ok(CallAnswer::Rows(rows)) => loop {
                    match rows.next_batch() {
                        Ok(batch) => assert!(batch.is_some(), "{way}"),
                        Err(error) => break error,
                    }
                },
            };
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{way}, {request}: {error}");
            assert!(begin.elapsed() < Duration::from_secs(10), "{way}, {request}");
            interrupter.join().unwrap();
            assert_eq!(bytes(connection.call(b"echo 1", None)).unwrap(), b"echo 1", "{way}");
        }
    }
}

#[test]
fn a_call_is_a_statement_of_its_session() {
    let short = Limits { statement_time: Some(Duration::from_millis(300)), ..Limits::default() };
    let limited = served(Some(short));
    let connection = connect(&limited, "node:n");
    let error = bytes(connection.call(b"work 20000", None)).unwrap_err();
    assert!(error.kind() == ErrorKind::Interrupted && error.message().contains("longer"), "{error}");
    let served = served(None);
    let admin = connect(&served, "ada:a");
    let calls = || {
        let shown = whole(&admin.execute("SHOW SESSIONS").unwrap());
        let text = |name| shown.column_by_name(name).unwrap().as_string::<i64>();
        let sessions = text("state").iter().zip(text("statement"));
        sessions.filter(|session| *session == (Some("active"), Some("call of 10 bytes"))).count()
    };
    let caller = connect(&served, "node:n");
    let number = caller.id();
    let call = thread::spawn(move || bytes(caller.call(b"work 20000", None)).unwrap_err());
    until("the call is not shown", || calls() == 1);
    admin.execute(&format!("KILL {number}")).unwrap();
    let error = call.join().unwrap();
    assert_eq!(error.sqlstate(), "57P01", "{error}");
    // A caller that leaves ends its call.
    let gone = connect(&served, "node:n");
    let leaving = gone.clone();
    let call = thread::spawn(move || bytes(gone.call(b"work 20000", None)).map(drop));
    until("the call is not shown", || calls() == 1);
    leaving.close().unwrap();
    call.join().unwrap().unwrap_err();
    until("the call goes on", || calls() == 0);
}

#[test]
fn a_node_at_work_is_heard_and_a_longer_silence_is_none() {
    let served = served(None);
    let connection = connect_silent(&format!("hypostyle://node:n@{}/", served.tcp)).unwrap();
    for request in ["work 7000", "block 7000"] {
        assert_eq!(bytes(connection.call(request.as_bytes(), None)).unwrap(), b"waited", "{request}");
        // Nothing is said between calls.
        thread::sleep(SILENCE + Duration::from_millis(500));
    }
}

#[test]
fn a_database_that_is_no_node_says_so() {
    let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
    for (way, connection) in ways(&served) {
        let error = bytes(connection.call(b"echo 1", numbers(1))).unwrap_err();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Unsupported, "0A000"), "{way}");
        assert!(error.message().contains("not part of a cluster"), "{way}: {error}");
    }
    served.database.set_calls(Arc::new(Node)).unwrap();
    let error = served.database.set_calls(Arc::new(Node)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
}

#[test]
fn only_nodes_call_and_they_run_no_statements() {
    let served = served(None);
    for login in ["ada:a", "will:w", "rita:r"] {
        let connection = connect(&served, login);
        let error = bytes(connection.call(b"echo 1", None)).unwrap_err();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Denied, "42501"), "{login}");
        assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    }
    let connection = connect(&served, "node:n");
    let denied = |error: Error| assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Denied, "42501"));
    denied(connection.execute("SELECT 1").map(drop).unwrap_err());
    denied(connection.table("t").map(drop).unwrap_err());
    denied(connection.tables().map(drop).unwrap_err());
    denied(connection.describe("SELECT 1").map(drop).unwrap_err());
    let options = hypostyle::AppendOptions { create: true, by_name: false };
    denied(connection.append("t", numbers(50).unwrap(), options).map(drop).unwrap_err());
    assert_eq!(bytes(connection.call(b"echo 1", None)).unwrap(), b"echo 1");
}

/// A client that says what it likes.
struct Raw(TcpStream);

impl Raw {
    /// Logs in with these capabilities, and returns the last frame of the login.
    fn log_in(
        served: &Served,
        login: (&str, &str),
        capabilities: Capabilities,
    ) -> (Self, FrameType, Vec<u8>) {
        let exchange = scram::Client::new(login.0, login.1, "nonce", None);
        let hello = Hello {
            capabilities,
            codecs: 1,
            frame_bytes_max: FRAME_BYTES_MAX,
            user: login.0.into(),
            client: "raw".into(),
            mechanism: exchange.mechanism().into(),
            initial: exchange.first(),
            session: 0,
            key: Vec::new(),
            stream: 0,
            origin: String::new(),
        };
        let mut raw = Self(TcpStream::connect(served.tcp).unwrap());
        raw.send(&[b"HYPO\x01\x00\x01\x00".as_slice(), &hello.frame()].concat());
        let (_, challenge) = raw.receive();
        let (proof, _) = exchange.proof(&Note::decode(&challenge).unwrap().0).unwrap();
        raw.send(&Note(proof).frame(FrameType::Response));
        let (frame_type, body) = raw.receive();
        (raw, frame_type, body)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn receive(&mut self) -> (FrameType, Vec<u8>) {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.0.read_exact(&mut header).unwrap();
        let header = FrameHeader::decode(&header, FRAME_BYTES_MAX).unwrap();
        let mut body = vec![0; header.length as usize];
        self.0.read_exact(&mut body).unwrap();
        (header.frame_type, body)
    }

    /// Returns the SQLSTATE of the error that answers a frame.
    fn refusal(&mut self, frame: &[u8]) -> String {
        self.send(frame);
        let (frame_type, body) = self.receive();
        assert_eq!(frame_type, FrameType::Error);
        let failure = Failure::decode(&body).unwrap();
        assert!(!failure.fatal, "{}", failure.error);
        failure.error.sqlstate().into()
    }
}

fn query(number: u32) -> Vec<u8> {
    Query {
        query: number,
        kind: QueryKind::Sql,
        descriptors: false,
        progress: false,
        chunk_bytes: 0,
        credit: 1 << 20,
        text: "SELECT 1".into(),
        parameters: None,
    }
    .frame()
}

#[test]
fn a_frame_that_does_not_go_on_ends_the_connection() {
    let limits = Limits { message_time: Duration::from_millis(600), ..Limits::default() };
    let served = served(Some(limits));
    let whole = query(1);
    let connect = || Raw::log_in(&served, ("ada", "a"), Capabilities(!Capabilities::RESUME.0)).0;
    let mut idle = connect();
    for length in [1, 7, 8, whole.len() - 1] {
        let mut half = connect();
        half.send(&whole[..length]);
        half.0.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let ended = half.0.read_to_end(&mut Vec::new());
        assert!(
            ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset,
            "{length}"
        );
    }
    let mut slow = connect();
    for byte in &whole {
        slow.send(&[*byte]);
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(slow.receive().0, FrameType::Result);
    idle.send(&whole);
    assert_eq!(idle.receive().0, FrameType::Result);
}

#[test]
fn a_client_that_knows_no_calls_gets_none() {
    let served = served(None);
    let all = Capabilities(u32::MAX);
    let without = Capabilities(!Capabilities::CLUSTER.0);
    let (_, frame_type, body) = Raw::log_in(&served, ("node", "n"), without);
    assert_eq!(frame_type, FrameType::Error);
    let failure = Failure::decode(&body).unwrap();
    assert_eq!((failure.error.sqlstate(), failure.fatal), ("42501", true), "{}", failure.error);

    let call = |query| Call { query, credit: 1, chunk_bytes: 0, request: b"echo 1".to_vec(), rows: None };
    let with_rows = |query| Call { rows: Some(Arc::new(arrow::datatypes::Schema::empty())), ..call(query) };
    for capabilities in [all, without] {
        let (mut raw, frame_type, body) = Raw::log_in(&served, ("ada", "a"), capabilities);
        assert_eq!(frame_type, FrameType::Welcome);
        let welcome = Welcome::decode(&body).unwrap();
        assert!(!welcome.capabilities.has(Capabilities::CLUSTER));
        assert_eq!(raw.refusal(&call(1).frame()), "42501");
        assert_eq!(raw.refusal(&with_rows(2).frame()), "42501");
        raw.send(&query(3));
        assert_eq!(raw.receive().0, FrameType::Result);
    }
    let (mut raw, frame_type, body) = Raw::log_in(&served, ("node", "n"), all);
    assert_eq!(frame_type, FrameType::Welcome);
    let welcome = Welcome::decode(&body).unwrap();
    assert!(welcome.capabilities.has(Capabilities::CLUSTER) && welcome.role == wire::Role::Cluster);
    assert_eq!(raw.refusal(&query(1)), "42501");
    raw.send(&call(2).frame());
    let (frame_type, body) = raw.receive();
    assert_eq!(frame_type, FrameType::Reply);
    assert_eq!(wire::Reply::decode(&body).unwrap().reply, b"echo 1");
    // Rows that were not announced end the connection.
    raw.send(&Call { request: b"work 20000".to_vec(), ..call(3) }.frame());
    raw.send(&FrameHeader { length: 0, frame_type: FrameType::Chunk, descriptors: 0 }.encode());
    let failure = loop {
        let (frame_type, body) = raw.receive();
        if frame_type == FrameType::Error {
            break Failure::decode(&body).unwrap();
        }
    };
    assert_eq!((failure.error.sqlstate(), failure.fatal), ("08P01", true), "{}", failure.error);
}

#[test]
#[ignore = "run by other tests, which end it"]
fn serve_until_killed() {
    let served = served(None);
    println!("address={}", served.tcp);
    thread::sleep(Duration::from_secs(60));
}

/// A node in a process of its own.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "calls::serve_until_killed", "--ignored", "--nocapture", "--test-threads=1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.map_while(std::result::Result::ok).find_map(|line| {
            line.split_once("address=").map(|(_, address)| format!("hypostyle://node:n@{address}/"))
        });
        Self { child, address: address.unwrap() }
    }

    fn signal(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[test]
fn a_node_that_is_stopped_or_killed_is_unreachable() {
    for signal in ["STOP", "KILL"] {
        // In its node, and among the rows that come down and go up.
        for request in ["work 20000", "generate 1000000000000", "sum"] {
            let process = Process::start();
            let connection = connect_silent(&process.address).unwrap();
            assert_eq!(bytes(connection.call(b"echo 1", None)).unwrap(), b"echo 1");
            let begin = Instant::now();
            let error = thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(300));
                    process.signal(signal);
                });
                let rows = if request == "sum" { numbers(usize::MAX) } else { None };
                match connection.call(request.as_bytes(), rows) {
                    Err(error) => error,
                    Ok(CallAnswer::Reply(reply)) => panic!("{reply:?}"),
                    Ok(CallAnswer::Rows(rows)) => loop {
                        match rows.next_batch() {
                            Ok(batch) => assert!(batch.is_some()),
                            Err(error) => break error,
                        }
                    },
                }
            });
            let elapsed = begin.elapsed();
            assert!(elapsed < 5 * SILENCE, "{signal}, {request}: {elapsed:?}");
            assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Connection, "08006"), "{error}");
            assert!(error.is_unreachable(), "{signal}, {request}: {error}");
        }
    }
}

#[test]
fn calls_go_through_tls() {
    let certificate = Some(crate::server::certificate());
    let served = Served::new(Setup { certificate, users: Some(users()), ..Setup::default() });
    served.database.set_calls(Arc::new(Node)).unwrap();
    let authority = served.directory.path().join("server.crt");
    let port = served.tcp.port();
    let address = format!("hypostyle://node:n@127.0.0.1:{port}/?tls=on&tls_ca={}", authority.display());
    let connection = connect_silent(&address).unwrap();
    assert_eq!(bytes(connection.call(b"echo 1", None)).unwrap(), b"echo 1");
    let rows = result(connection.call(b"generate 1000000", numbers(1))).unwrap();
    assert_eq!(rows.row_count().unwrap(), 1_000_000);
}

#[test]
fn a_database_closes_although_a_node_is_set() {
    let database = hypostyle::Database::in_memory(OpenOptions::default()).unwrap();
    database.set_calls(Arc::new(Node)).unwrap();
    let connection = database.connect().unwrap();
    database.close().unwrap();
    let error = bytes(connection.call(b"echo 1", None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}
