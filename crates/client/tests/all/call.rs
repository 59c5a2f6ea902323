//! Tests calls of a node that answers, fails, is silent or is gone.

use crate::common::*;
use arrow_array::{RecordBatchIterator, RecordBatchReader};
use arrow_schema::ArrowError;
use hypostyle_client::{Address, CallAnswer, Connection, Options, QueryResult};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{
    CALL_BYTES_MAX, Call, Cancel, Capabilities, Credit, End, FrameType, Reply, StreamDecoder,
};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// The limit of silence in these tests.
const SILENCE: Duration = Duration::from_secs(1);

type Data = Box<dyn RecordBatchReader + Send>;

fn connect_with(address: &str, silence: Option<Duration>) -> Result<Connection> {
    let options = Options { silence, ..Options::default() };
    Connection::open(&Address::parse(address).unwrap(), options)
}

/// Reads the next call.
fn next_call(peer: &mut Peer) -> Call {
    Call::decode(&peer.receive(FrameType::Call).body).unwrap()
}

fn reply(peer: &mut Peer, query: u32, reply: &[u8]) {
    peer.send(&Reply { query, reply: reply.to_vec() }.frame());
}

fn grant(peer: &mut Peer, query: u32, bytes: u64) {
    peer.send(&Credit { query, bytes }.frame());
}

fn bytes(answer: Result<CallAnswer>) -> Result<Vec<u8>> {
    match answer? {
        CallAnswer::Reply(reply) => Ok(reply),
        CallAnswer::Rows(_) => panic!("rows came"),
    }
}

fn result(answer: Result<CallAnswer>) -> Result<QueryResult> {
    match answer? {
        CallAnswer::Reply(reply) => panic!("{reply:?} came"),
        CallAnswer::Rows(result) => Ok(result),
    }
}

/// Returns rows to send, `count` times a thousand.
fn data(count: usize) -> Option<Data> {
    let (schema, batch) = rows();
    Some(Box::new(RecordBatchIterator::new((0..count).map(move |_| Ok(batch.clone())), schema)))
}

fn assert_unreachable(error: &Error) {
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Connection, "08006"), "{error}");
    assert!(error.is_unreachable(), "{error}");
}

#[test]
fn a_call_is_answered_by_bytes_rows_nothing_or_an_error() {
    for listener in [Listener::unix(), Listener::tcp()] {
        let (address, server) = listener.serve(|listener| {
            let mut peer = listener.accept().welcome_node();
            let Call { query, request, rows, .. } = next_call(&mut peer);
            assert_eq!((request.as_slice(), rows), (&b"one"[..], None));
            reply(&mut peer, query, b"two");
            let query = next_call(&mut peer).query;
            let mut encoder = peer.header(query, None);
            (0..3).for_each(|_| peer.chunk(&mut encoder));
            peer.end_rows(query, &encoder);
            let query = next_call(&mut peer).query;
            peer.done(query);
            let query = next_call(&mut peer).query;
            peer.fail(query, "40001", false);
            peer.rest()
        });
        let connection = connect_with(&address, None).unwrap();
        assert_eq!(bytes(connection.call(b"one", None)).unwrap(), b"two");
        assert_eq!(result(connection.call(b"", None)).unwrap().row_count().unwrap(), 3000);
        assert!(!result(connection.call(b"", None)).unwrap().is_query());
        let error = bytes(connection.call(b"", None)).unwrap_err();
        assert_eq!((error.sqlstate(), error.is_unreachable()), ("40001", false), "{error}");
        drop(connection);
        assert_eq!(server.join().unwrap(), [FrameType::Bye]);
    }
}

#[test]
fn rows_follow_a_request_within_the_credit() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome_node();
        let Call { query, rows, .. } = next_call(&mut peer);
        let mut decoder = StreamDecoder::new(query, rows.unwrap());
        let (mut count, mut due) = (0, 1);
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(10));
            assert!(peer.0.try_receive().unwrap().is_none(), "more than the credit allows");
            // One byte above what was paid lets one more chunk through.
            grant(&mut peer, query, due);
            let chunk = peer.receive(FrameType::Chunk).body;
            due = chunk.len() as u64;
            count += decoder.chunk(chunk).unwrap().decode().unwrap().num_rows();
        }
        // The end costs nothing.
        let end = End::decode(&peer.receive(FrameType::End).body).unwrap();
        decoder.end(end.rows, end.checksum).unwrap();
        reply(&mut peer, query, count.to_string().as_bytes());
    });
    let connection = connect_with(&address, None).unwrap();
    assert_eq!(bytes(connection.call(b"", data(5))).unwrap(), b"5000");
    server.join().unwrap();
}

#[test]
fn an_early_answer_ends_the_rows() {
    for with_rows in [false, true] {
        let (address, server) = Listener::unix().serve(move |listener| {
            let mut peer = listener.accept().welcome_node();
            let query = next_call(&mut peer).query;
            grant(&mut peer, query, 1);
            peer.receive(FrameType::Chunk);
            match with_rows {
                true => {
                    let mut encoder = peer.header(query, None);
                    peer.chunk(&mut encoder);
                    peer.end_rows(query, &encoder);
                }
                false => reply(&mut peer, query, b"enough"),
            }
            // Neither more rows nor their end.
            let query = next_call(&mut peer).query;
            reply(&mut peer, query, b"next");
        });
        let connection = connect_with(&address, None).unwrap();
        // Without end: only the answer ends it.
        let answer = connection.call(b"", data(usize::MAX));
        match with_rows {
            true => assert_eq!(result(answer).unwrap().row_count().unwrap(), 1000),
            false => assert_eq!(bytes(answer).unwrap(), b"enough"),
        }
        assert_eq!(bytes(connection.call(b"", None)).unwrap(), b"next");
        server.join().unwrap();
    }
}

#[test]
fn rows_that_cannot_be_read_cancel_the_call() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome_node();
        let query = next_call(&mut peer).query;
        grant(&mut peer, query, 1 << 30);
        let cancelled = loop {
            let frame = peer.next().unwrap();
            if frame.frame_type == FrameType::Cancel {
                break Cancel::decode(&frame.body).unwrap().0;
            }
        };
        assert_eq!(cancelled, query);
        // It was too late.
        reply(&mut peer, query, b"done");
        let query = next_call(&mut peer).query;
        reply(&mut peer, query, b"next");
    });
    let connection = connect_with(&address, None).unwrap();
    let (schema, batch) = rows();
    let own = Error::new(ErrorKind::Corrupt, "of the program");
    let batches = [Ok(batch.clone()), Ok(batch), Err(ArrowError::ExternalError(Box::new(own)))];
    let failing = Box::new(RecordBatchIterator::new(batches, schema));
    let error = bytes(connection.call(b"", Some(failing))).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Corrupt, "of the program"));
    assert_eq!(bytes(connection.call(b"", None)).unwrap(), b"next");
    server.join().unwrap();
}

#[test]
fn a_call_that_is_interrupted_is_cancelled() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome_node();
        let query = next_call(&mut peer).query;
        let cancelled = Cancel::decode(&peer.receive(FrameType::Cancel).body).unwrap().0;
        assert_eq!(cancelled, query);
        peer.fail(query, "57014", false);
        let query = next_call(&mut peer).query;
        reply(&mut peer, query, b"next");
    });
    let connection = connect_with(&address, Some(10 * SILENCE)).unwrap();
    let interrupting = connection.clone();
    let interrupter = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        interrupting.interrupt();
    });
    let error = bytes(connection.call(b"", None)).unwrap_err();
    assert_eq!((error.kind(), error.is_unreachable()), (ErrorKind::Interrupted, false), "{error}");
    interrupter.join().unwrap();
    assert_eq!(bytes(connection.call(b"", None)).unwrap(), b"next");
    server.join().unwrap();
}

#[test]
fn a_request_that_is_too_long_is_not_sent() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome_node();
        let Call { query, request, .. } = next_call(&mut peer);
        reply(&mut peer, query, &request);
    });
    let connection = connect_with(&address, None).unwrap();
    let error = bytes(connection.call(&vec![1; CALL_BYTES_MAX + 1], None)).unwrap_err();
    assert_eq!(error.sqlstate(), "54000", "{error}");
    let longest = vec![2; CALL_BYTES_MAX];
    assert!(bytes(connection.call(&longest, None)).unwrap() == longest);
    server.join().unwrap();
}

#[test]
fn a_server_that_has_not_granted_calls_is_not_called() {
    let (address, server) = Listener::unix().serve(|listener| {
        let offered = |offered: Capabilities| offered.both(Capabilities::PROGRESS);
        listener.accept().welcome_with(offered).rest()
    });
    let connection = connect_with(&address, None).unwrap();
    let error = bytes(connection.call(b"", data(1))).unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Denied, "42501"));
    assert!(error.message().contains("role admin"), "{error}");
    drop(connection);
    assert_eq!(server.join().unwrap(), [FrameType::Bye]);
}

#[test]
fn a_node_that_is_silent_is_unreachable() {
    // Before its answer, among its rows, and in the middle of a frame.
    for part in 0..3 {
        let (over, is_over) = channel::<()>();
        let (address, server) = Listener::tcp().serve(move |listener| {
            let mut peer = listener.accept().welcome_node();
            let query = next_call(&mut peer).query;
            match part {
                0 => {}
                1 => peer.begin_rows(query),
                _ => peer.send(&Reply { query, reply: vec![0; 1000] }.frame()[..500]),
            }
            assert!(is_over.recv().is_err());
        });
        let connection = connect_with(&address, Some(SILENCE)).unwrap();
        let begin = Instant::now();
        let answer = connection.call(b"", None);
        let error = match part {
            1 => result(answer).unwrap().row_count().unwrap_err(),
            _ => bytes(answer).unwrap_err(),
        };
        assert!((1..20).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
        assert_unreachable(&error);
        assert_unreachable(&bytes(connection.call(b"", None)).unwrap_err());
        drop(over);
        server.join().unwrap();
    }
}

#[test]
fn a_node_that_takes_nothing_is_unreachable() {
    let (over, is_over) = channel::<()>();
    let (address, server) = Listener::tcp().serve(move |listener| {
        let mut peer = listener.accept().welcome_node();
        let query = next_call(&mut peer).query;
        grant(&mut peer, query, 1 << 60);
        assert!(is_over.recv().is_err());
    });
    let connection = connect_with(&address, Some(SILENCE)).unwrap();
    assert_unreachable(&bytes(connection.call(b"", data(usize::MAX))).unwrap_err());
    drop(over);
    server.join().unwrap();
}

#[test]
fn a_node_that_tells_its_progress_is_waited_for() {
    let (address, server) = Listener::tcp().serve(|listener| {
        let mut peer = listener.accept().welcome_node();
        let query = next_call(&mut peer).query;
        for done in 0..24 {
            thread::sleep(SILENCE / 10);
            peer.send(&wire::Progress { query, done, total: None, elapsed: SILENCE }.frame());
        }
        reply(&mut peer, query, b"late");
    });
    let connection = connect_with(&address, Some(SILENCE)).unwrap();
    // The time before a call is no silence.
    thread::sleep(2 * SILENCE);
    let begin = Instant::now();
    assert_eq!(bytes(connection.call(b"", None)).unwrap(), b"late");
    assert!(begin.elapsed() > 2 * SILENCE);
    server.join().unwrap();
}

#[test]
fn a_node_that_is_gone_is_unreachable_at_once() {
    for listener in [Listener::tcp(), Listener::unix()] {
        let (address, server) = listener.serve(|listener| {
            let peer = listener.accept();
            let mut peer = peer.welcome_node();
            next_call(&mut peer);
        });
        let connection = connect_with(&address, Some(10 * SILENCE)).unwrap();
        let begin = Instant::now();
        assert_unreachable(&bytes(connection.call(b"", None)).unwrap_err());
        assert!(begin.elapsed() < 8 * SILENCE, "{:?}", begin.elapsed());
        server.join().unwrap();
    }
}

#[test]
fn what_a_node_says_of_another_is_not_about_itself() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome_node();
        let query = next_call(&mut peer).query;
        let error = Error::new(ErrorKind::Connection, "the third node is silent").unreachable();
        let transaction = wire::Transaction::None;
        peer.send(&wire::Failure { query, error, fatal: false, transaction }.frame());
        let query = next_call(&mut peer).query;
        reply(&mut peer, query, b"next");
    });
    let connection = connect_with(&address, Some(10 * SILENCE)).unwrap();
    let error = bytes(connection.call(b"", None)).unwrap_err();
    assert_eq!((error.sqlstate(), error.is_unreachable()), ("08006", false), "{error}");
    assert_eq!(bytes(connection.call(b"", None)).unwrap(), b"next");
    server.join().unwrap();
}

#[test]
fn the_time_to_connect_is_limited() {
    // The kernel accepts the connection, and nobody else does.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::parse(&format!("hypostyle://{}/", listener.local_addr().unwrap())).unwrap();
    let options = Options { connect_time: Duration::from_millis(300), ..Options::default() };
    let begin = Instant::now();
    let error = Connection::open(&address, options.clone()).map(drop).unwrap_err();
    assert!((0.3..5.0).contains(&begin.elapsed().as_secs_f64()), "{:?}", begin.elapsed());
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Connection, "08001"), "{error}");
    assert!(error.is_unreachable(), "{error}");
    drop(listener);
    let error = Connection::open(&address, options).map(drop).unwrap_err();
    assert!(error.is_unreachable() && error.sqlstate() == "08004", "{error}");
}
