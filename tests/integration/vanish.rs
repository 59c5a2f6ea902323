//! Clients that vanish at any moment, in any way, leave nothing behind, and unrequested frames have
//! no effect.

use crate::served::{Served, Setup, until};
use arrow::datatypes::{DataType, Field, Schema};
use hypostyle_server::Limits;
use hypostyle_wire::{
    Append, Cancel, Capabilities, Credit, FRAME_BYTES_MAX, FrameHeader, FrameType, Hello, Query, QueryKind,
};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The seed repeats a run; the number of rounds makes it longer.
const SEED: &str = "HYPOSTYLE_TEST_SEED";
const ROUNDS: &str = "HYPOSTYLE_TEST_ROUNDS";

/// A statement that runs until it is ended.
const ENDLESS: &str =
    "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x > 0) SELECT count(*) FROM n";

/// A result that is far larger than all buffers.
const BIG: &str = "SELECT random() AS x FROM generate_series(1, 100000000)";

/// The way in which a client goes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The socket is closed, as the system does for a killed process.
    Closed,
    Reset,
    /// The client sends no more and receives nothing, but stays.
    HalfClosed,
}

const WAYS: [Way; 3] = [Way::Closed, Way::Reset, Way::HalfClosed];

/// Drops a socket. A returned socket is still open.
fn leave(socket: TcpStream, way: Way) -> Option<TcpStream> {
    match way {
        Way::Closed => {}
        Way::Reset => SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap(),
        Way::HalfClosed => {
            // A socket that has been disconnected already cannot be shut down.
            let _cut = socket.shutdown(Shutdown::Write);
            return Some(socket);
        }
    }
    drop(socket);
    None
}

/// Sends as much as the socket takes within a moment.
fn send(socket: &mut TcpStream, bytes: &[u8]) {
    socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let _full_or_cut = socket.write_all(bytes);
}

fn frame(frame_type: FrameType, body: &[u8]) -> Vec<u8> {
    [&FrameHeader { length: body.len() as u32, frame_type, descriptors: 0 }.encode(), body].concat()
}

fn query(number: u32, text: &str, credit: u64) -> Vec<u8> {
    Query {
        query: number,
        kind: QueryKind::Sql,
        descriptors: false,
        progress: true,
        chunk_bytes: 0,
        credit,
        text: text.into(),
        parameters: None,
    }
    .frame()
}

fn append(number: u32) -> Vec<u8> {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
    Append { query: number, create: false, by_name: false, table: "t".into(), schema }.frame()
}

fn hello() -> Vec<u8> {
    let hello = Hello {
        capabilities: Capabilities::PROGRESS,
        codecs: 1,
        frame_bytes_max: FRAME_BYTES_MAX,
        user: "ada".into(),
        client: "vanishes".into(),
        mechanism: String::new(),
        initial: Vec::new(),
        session: 0,
        key: Vec::new(),
        stream: 0,
        origin: String::new(),
    };
    [b"HYPO\x01\x00\x01\x00".as_slice(), &hello.frame()].concat()
}

/// Returns the bytes that a client of our own protocol has sent when it goes, each behind the first
/// bytes.
fn own_moments() -> Vec<(&'static str, Vec<u8>)> {
    let all = |parts: &[Vec<u8>]| [&[hello()], parts].concat().concat();
    vec![
        ("silent", Vec::new()),
        ("in the preface", b"HYPO\x01".to_vec()),
        ("in the hello", hello()[..20].to_vec()),
        ("idle", hello()),
        ("in a frame", all(&[query(1, ENDLESS, 1)[..9].to_vec()])),
        ("running", all(&[query(1, ENDLESS, 1 << 30)])),
        ("running, requests sent ahead", all(&[query(1, ENDLESS, 1), query(2, ENDLESS, 1).repeat(64)])),
        ("running, a large one sent ahead", all(&[query(1, ENDLESS, 1), query(2, &" ".repeat(32 << 20), 1)])),
        (
            "running, credit without end",
            all(&[query(1, ENDLESS, 1), Credit { query: 1, bytes: 1 }.frame().repeat(200_000)]),
        ),
        ("running, empty frames", all(&[query(1, ENDLESS, 1), frame(FrameType::Chunk, &[]).repeat(2000)])),
        ("without credit", all(&[query(1, BIG, 1)])),
        ("taking nothing", all(&[query(1, BIG, 1 << 40)])),
        (
            "taking nothing, sending",
            all(&[query(1, BIG, 1 << 40), Cancel(9).frame(FrameType::Cancel).repeat(500_000)]),
        ),
        ("in an append", all(&[append(1)])),
        ("in a transaction", all(&[query(1, "BEGIN", 1), query(2, "INSERT INTO t VALUES (1)", 1)])),
        (
            "in a transaction, running",
            all(&[query(1, "BEGIN; INSERT INTO t VALUES (1)", 1), query(2, ENDLESS, 1)]),
        ),
    ]
}

fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [vec![kind], packet(body)].concat()
}

fn text(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), &[0]].concat())
}

fn startup() -> Vec<u8> {
    packet(&[&196_608_u32.to_be_bytes()[..], b"user\0ada\0\0"].concat())
}

/// Returns the same for PostgreSQL's protocol.
fn postgres_moments() -> Vec<(&'static str, Vec<u8>)> {
    let all = |parts: &[Vec<u8>]| [&[startup()], parts].concat().concat();
    vec![
        ("silent", Vec::new()),
        ("in the startup", startup()[..9].to_vec()),
        ("idle", startup()),
        ("in a message", all(&[text(ENDLESS)[..9].to_vec()])),
        ("running", all(&[text(ENDLESS)])),
        ("running, pipelined", all(&[text(ENDLESS).repeat(50)])),
        ("running, many pipelined", all(&[text(ENDLESS), message(b'S', &[]).repeat(100_000)])),
        ("running, a large one pipelined", all(&[text(ENDLESS), text(&" ".repeat(32 << 20))])),
        ("taking nothing", all(&[text(BIG)])),
        ("taking nothing, pipelined", all(&[text(BIG).repeat(100)])),
        ("in COPY", all(&[text("COPY t FROM STDIN"), message(b'd', b"1\n2\n").repeat(100)])),
        ("in COPY, in a row", all(&[text("COPY t FROM STDIN"), message(b'd', b"1\n2")[..7].to_vec()])),
        ("in a transaction", all(&[text("BEGIN"), text("INSERT INTO t VALUES (1)")])),
        ("in a transaction, running", all(&[text("BEGIN"), text("INSERT INTO t VALUES (1)"), text(ENDLESS)])),
    ]
}

fn serve() -> Served {
    let served = Served::on_disk();
    served.database.connect().unwrap().execute("CREATE TABLE t (a INTEGER)").unwrap();
    served
}

/// Checks that no client is there, no statement runs, nothing was written, and the server serves.
fn assert_clean(served: &Served, what: &str) {
    until(&format!("something is left of a client that has gone: {what}"), || {
        served.sessions() == 0 && served.sockets() == 0
    });
    let own = served.database.connect().unwrap();
    until(&format!("a session is left: {what}"), || {
        own.execute("SHOW SESSIONS").unwrap().row_count().unwrap() == 1
    });
    assert_eq!(own.table("t").unwrap().row_count().unwrap(), 0, "{what}");
    assert_eq!(served.connect_tcp().unwrap().execute("SELECT 1").unwrap().row_count().unwrap(), 1);
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    let served = serve();
    let own = own_moments().into_iter().map(|moment| (served.tcp, moment));
    let postgres = postgres_moments().into_iter().map(|moment| (served.postgres, moment));
    for (address, (what, said)) in own.chain(postgres) {
        let mut open = Vec::new();
        for way in WAYS {
            let mut socket = TcpStream::connect(address).unwrap();
            send(&mut socket, &said);
            thread::sleep(Duration::from_millis(100));
            open.extend(leave(socket, way));
        }
        // Clients that have only ended their side are gone, too.
        until(&format!("a session is left: {what}, {address}"), || served.sessions() == 0);
        drop(open);
        assert_clean(&served, what);
    }
}

/// Gives numbers that look random (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
/// generators").
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

#[test]
fn clients_that_vanish_at_random_leave_nothing_behind() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let first: u64 = number(SEED).unwrap_or(now);
    let served = serve();
    for seed in (first..).take(number(ROUNDS).unwrap_or(1) as usize) {
        println!("{SEED}={seed}");
        let mut random = Random(seed);
        let mut clients = Vec::new();
        for _ in 0..24 {
            let (address, moments) = match random.below(2) {
                0 => (served.tcp, own_moments()),
                _ => (served.postgres, postgres_moments()),
            };
            let (_, mut said) = moments[random.below(moments.len())].clone();
            // The bytes are cut at any place.
            if random.below(2) == 0 {
                said.truncate(random.below(said.len().min(4096) + 1));
            }
            let (way, pause) = (WAYS[random.below(3)], random.below(300));
            clients.push(thread::spawn(move || {
                let mut socket = TcpStream::connect(address).unwrap();
                send(&mut socket, &said);
                thread::sleep(Duration::from_millis(pause as u64));
                drop(leave(socket, way));
            }));
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_clean(&served, &format!("{SEED}={seed}"));
    }
}

/// Returns the answer to a client that sends a frame while its statement runs.
fn answer_to(served: &Served, said: &[u8]) -> String {
    let mut socket = TcpStream::connect(served.tcp).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    send(&mut socket, &[hello(), query(1, ENDLESS, 1)].concat());
    thread::sleep(Duration::from_millis(100));
    send(&mut socket, said);
    let mut answer = Vec::new();
    // A connection that is reset has been ended, too.
    let _ended = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn who_sends_what_nobody_has_asked_for_is_cut_off() {
    let served = serve();
    let begin = Instant::now();
    for said in [
        frame(FrameType::Chunk, &[]),
        frame(FrameType::Chunk, &[0; 1 << 20]),
        frame(FrameType::Dictionary, &[1, 0, 0, 0]),
        frame(FrameType::End, &[1, 0, 0, 0]),
        frame(FrameType::Answer, &[1, 0, 0, 0, 0]),
        frame(FrameType::Response, &[]),
        query(2, "SELECT 1", 1).repeat(100),
        query(2, &" ".repeat(2 << 20), 1).repeat(2),
    ] {
        let answer = answer_to(&served, &said);
        assert!(answer.contains("08P01"), "{answer:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(60));
    // Requests that were sent ahead within bounds are answered.
    let mut socket = TcpStream::connect(served.tcp).unwrap();
    send(
        &mut socket,
        &[hello(), query(1, "SELECT 1", 1 << 20), query(2, "SELECT 'second'", 1 << 20)].concat(),
    );
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    while !answer.windows(6).any(|part| part == b"second") {
        let mut part = [0; 4096];
        let length = socket.read(&mut part).unwrap();
        assert!(length > 0, "{:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..length]);
    }
    drop(socket);
    assert_clean(&served, "");
}

#[test]
fn silent_clients_keep_nobody_out() {
    let served = serve();
    for address in [served.tcp, served.postgres] {
        // The silent are let go after 3 s. On a busy machine others may take as long by themselves.
        let is_quick = |_| time_beside_silent_clients(&served, address) < Duration::from_secs(2);
        assert!((0..5).any(is_quick), "silent clients are waited for");
    }
    assert_clean(&served, "silent");
}

/// Returns the time that two clients take to be answered while others say nothing.
fn time_beside_silent_clients(served: &Served, address: SocketAddr) -> Duration {
    let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
    let begin = Instant::now();
    // They come from the same address.
    assert_eq!(served.connect_tcp().unwrap().execute("SELECT 1").unwrap().row_count().unwrap(), 1);
    let mut socket = TcpStream::connect(served.postgres).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    send(&mut socket, &startup());
    socket.read_exact(&mut [0; 9]).unwrap();
    let time = begin.elapsed();
    drop(socket);
    // The server closes them although they stay.
    until("silent clients are waited for", || served.sockets() == 0);
    drop(silent);
    time
}

#[test]
fn an_idle_transaction_is_ended_and_rolled_back() {
    let limits = Limits { idle_transaction_time: Some(Duration::from_millis(300)), ..Limits::default() };
    let served = Served::new(Setup { limits: Some(limits), ..Setup::default() });
    let own = served.database.connect().unwrap();
    own.execute("CREATE TABLE t (a INTEGER)").unwrap();
    let connection = served.connect_tcp().unwrap();
    connection.execute("BEGIN").unwrap();
    connection.execute("INSERT INTO t VALUES (1)").unwrap();
    until("the transaction stays open", || served.sessions() == 0);
    let error = connection.execute("SELECT 1").err().unwrap();
    assert_eq!(error.sqlstate(), "25P03", "{error}");
    let mut socket = TcpStream::connect(served.postgres).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    send(&mut socket, &[startup(), text("BEGIN"), text("INSERT INTO t VALUES (1)")].concat());
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("25P03"));
    assert_eq!(own.table("t").unwrap().row_count().unwrap(), 0);
    // A session may set the timeout itself, and one without a transaction is not affected.
    let served = serve();
    let idle = served.connect_tcp().unwrap();
    let mut socket = TcpStream::connect(served.postgres).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    send(
        &mut socket,
        &[startup(), text("SET idle_in_transaction_session_timeout = '300ms'"), text("BEGIN")].concat(),
    );
    socket.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("25P03"));
    assert_eq!(idle.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
}
