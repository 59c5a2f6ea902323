//! Tests what a client does when its server is hostile, busy, stopped or gone.

use crate::common::*;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema};
use hypostyle_client::{AppendOptions, Table};
use hypostyle_types::{Error, ErrorKind};
use hypostyle_wire::{Answer, Append, Ask, Cancel, Capabilities, Credit, FrameType, Query, ResultHeader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const NOTHING: Capabilities = Capabilities(0);

/// Reads the next query and returns its number.
fn query(peer: &mut Peer) -> u32 {
    Query::decode(&peer.receive(FrameType::Query).body).unwrap().query
}

fn cancel(peer: &mut Peer) -> u32 {
    Cancel::decode(&peer.receive(FrameType::Cancel).body).unwrap().0
}

#[test]
fn a_second_interrupt_ends_the_wait_for_a_server_that_is_stopped() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let number = query(&mut peer);
        assert_eq!(cancel(&mut peer), number);
        peer.rest()
    });
    let connection = connect(&address).unwrap();
    let interrupting = {
        let connection = connection.clone();
        thread::spawn(move || {
            // The second one comes too early to count as another one.
            for pause in [300, 100, 1200] {
                thread::sleep(Duration::from_millis(pause));
                connection.interrupt();
            }
        })
    };
    let begin = Instant::now();
    let error = connection.execute("SELECT 1", None, &[]).map(drop).unwrap_err();
    interrupting.join().unwrap();
    assert!((1..5).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.message().contains("interrupt"), "{error}");
    assert_eq!(server.join().unwrap(), [FrameType::Bye]);
    assert!(connection.tables().unwrap_err().message().contains("connect again"));
}

#[test]
fn a_server_that_is_silent_after_an_interrupt_is_given_up() {
    let (address, server) = Listener::tcp().serve(|listener| {
        let mut peer = listener.accept().welcome(Capabilities::RESUME);
        let number = query(&mut peer);
        assert_eq!(cancel(&mut peer), number);
        peer.rest()
    });
    let connection = connect(&address).unwrap();
    // Some hooks repeat it: that is one interrupt.
    connection.set_hook(Some(Arc::new(|_| false)));
    let begin = Instant::now();
    let error = connection.execute("SELECT 1", None, &[]).map(drop).unwrap_err();
    assert!((8..15).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert_eq!(server.join().unwrap(), [FrameType::Bye]);
}

#[test]
fn a_server_that_answers_an_interrupt_in_time_is_kept() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let number = query(&mut peer);
        cancel(&mut peer);
        thread::sleep(Duration::from_millis(500));
        peer.fail(number, "57014", false);
        let number = query(&mut peer);
        peer.done(number);
    });
    let connection = connect(&address).unwrap();
    connection.set_hook(Some(Arc::new(|_| false)));
    let error = connection.execute("SELECT 1", None, &[]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    connection.set_hook(None);
    connection.execute("SELECT 1", None, &[]).unwrap();
    server.join().unwrap();
}

#[test]
fn an_append_to_a_server_that_is_stopped_can_be_interrupted() {
    let over = Arc::new(AtomicBool::new(false));
    let (address, server) = {
        let over = over.clone();
        Listener::unix().serve(move |listener| {
            let mut peer = listener.accept().welcome(NOTHING);
            let query = Append::decode(&peer.receive(FrameType::Append).body).unwrap().query;
            peer.send(&Credit { query, bytes: 1 << 40 }.frame());
            while !over.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(10));
            }
        })
    };
    let connection = connect(&address).unwrap();
    let interrupting = {
        let connection = connection.clone();
        thread::spawn(move || {
            for _ in 0..2 {
                thread::sleep(Duration::from_millis(500));
                connection.interrupt();
            }
        })
    };
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1 << 20).map(|row| row * row)));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let schema = batch.schema();
    let data = RecordBatchIterator::new((0..100).map(move |_| Ok(batch.clone())), schema);
    let begin = Instant::now();
    let error =
        connection.append("t", Box::new(data), AppendOptions { create: false, by_name: false }).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(8));
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    over.store(true, Ordering::Release);
    interrupting.join().unwrap();
    server.join().unwrap();
}

#[test]
fn what_this_process_cannot_take_fails_a_result_and_not_the_connection() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome(Capabilities::DESCRIPTORS);
        for _ in 0..3 {
            let number = query(&mut peer);
            let schema = rows().0;
            peer.send(
                &ResultHeader { query: number, is_query: true, rows: None, bytes: None, schema }.frame(),
            );
            (0..3).for_each(|chunk| peer.missing_file(number, chunk));
            assert_eq!(cancel(&mut peer), number);
            peer.fail(number, "57014", false);
            let number = query(&mut peer);
            peer.done(number);
        }
    });
    let connection = connect(&address).unwrap();
    for _ in 0..3 {
        let error = connection.execute("SELECT 1", None, &[]).map(drop).unwrap_err();
        assert_eq!(error.sqlstate(), "53000", "{error}");
        connection.execute("SELECT 1", None, &[]).unwrap();
    }
    server.join().unwrap();
}

#[test]
fn a_result_that_fails_while_it_is_read_leaves_the_connection() {
    let (told, begun) = channel();
    let (address, server) = Listener::unix().serve(move |listener| {
        let mut peer = listener.accept().welcome(Capabilities::DESCRIPTORS);
        let number = query(&mut peer);
        peer.begin_rows(number);
        begun.recv().unwrap();
        peer.missing_file(number, 1);
        peer.missing_file(number, 2);
        assert_eq!(cancel(&mut peer), number);
        peer.fail(number, "57014", false);
        let number = query(&mut peer);
        peer.done(number);
    });
    let connection = connect(&address).unwrap();
    let result = connection.execute("SELECT 1", None, &[]).unwrap();
    told.send(()).unwrap();
    assert_eq!(result.materialize().unwrap_err().sqlstate(), "53000");
    // The program still has the result.
    connection.execute("SELECT 1", None, &[]).unwrap();
    assert_eq!(result.materialize().unwrap_err().sqlstate(), "53000");
    server.join().unwrap();
}

#[test]
fn whoever_leaves_says_goodbye() {
    for closes in [true, false] {
        for listener in [Listener::tcp(), Listener::unix()] {
            let (address, server) = listener.serve(move |listener| {
                let mut peer = listener.accept().welcome(Capabilities::RESUME);
                let number = query(&mut peer);
                peer.begin_rows(number);
                peer.rest()
            });
            let connection = connect(&address).unwrap();
            let result = connection.execute("SELECT 1", None, &[]).unwrap();
            if closes {
                connection.close();
                assert!(connection.tables().is_err());
                drop(result);
            } else {
                drop((connection, result));
            }
            let heard = server.join().unwrap();
            assert_eq!(heard.last(), Some(&FrameType::Bye), "{heard:?}");
        }
    }
}

#[test]
fn a_password_that_the_server_does_not_ask_for_is_an_error() {
    let (address, server) = Listener::unix().serve(|listener| {
        let heard = listener.accept().welcome(NOTHING).rest();
        listener.accept().welcome(NOTHING).rest();
        heard
    });
    let error = connect(&format!("{address}?password=secret")).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Denied, "28000"));
    assert!(error.message().contains("no users") && !error.message().contains("secret"), "{error}");
    connect(&address).unwrap();
    assert_eq!(server.join().unwrap(), [], "nothing was said to it");
}

#[test]
fn a_session_waits_for_a_place_at_its_server() {
    let (address, server) = Listener::tcp().serve(|listener| {
        let mut peer = listener.accept().welcome(Capabilities::RESUME);
        let frame = peer.receive(FrameType::Query);
        let number = Query::decode(&frame.body).unwrap().query;
        drop(peer);
        for _ in 0..3 {
            listener.accept().fail(0, "53300", true);
        }
        let mut peer = listener.accept().welcome(Capabilities::RESUME);
        assert_eq!(peer.go_on(frame.body.len() as u64 + 8), 0);
        peer.done(number);
        peer.rest()
    });
    let connection = connect(&address).unwrap();
    connection.execute("SELECT 1", None, &[]).unwrap();
    drop(connection);
    assert_eq!(server.join().unwrap(), [FrameType::Bye]);
}

#[test]
fn a_server_that_dies_is_an_error_and_no_wait() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let number = query(&mut peer);
        peer.begin_rows(number);
    });
    let connection = connect(&address).unwrap();
    let result = connection.execute("SELECT 1", None, &[]);
    let error: Error = result.and_then(|result| result.materialize()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert!(connection.execute("SELECT 1", None, &[]).is_err());
    server.join().unwrap();
}

/// Returns the frames that a server gets when it asks for names during a statement.
fn asked(address_options: &str, tcp: bool, sql: &'static str, names: &'static [&'static str]) -> Vec<String> {
    let listener = if tcp { Listener::tcp() } else { Listener::unix() };
    let (address, server) = listener.serve(move |listener| {
        let mut peer = listener.accept().welcome_with(|offered| offered);
        let number = query(&mut peer);
        let mut answers = Vec::new();
        for name in names {
            peer.send(&Ask { query: number, name: (*name).into() }.frame());
            let Ok(frame) = peer.next() else {
                answers.push("closed".into());
                return answers;
            };
            assert_eq!(frame.frame_type, FrameType::Answer);
            answers.push(match Answer::decode(&frame.body).unwrap() {
                Answer::Nothing { .. } => "nothing".into(),
                Answer::Unreadable { why, .. } => why,
                Answer::Table { schema, .. } => {
                    peer.receive(FrameType::End);
                    schema.field(0).name().clone()
                }
            });
        }
        peer.done(number);
        peer.rest();
        answers
    });
    let connection = connect(&format!("{address}{address_options}")).unwrap();
    connection.set_resolver(Some(Arc::new(|name| {
        let field = Field::new(format!("secret of {name}"), DataType::Int64, true);
        Some(Ok(Table { schema: Arc::new(Schema::new(vec![field])), batches: Vec::new() }))
    })));
    let _failed_where_the_server_may_not_ask = connection.execute(sql, None, &[]);
    connection.close();
    server.join().unwrap()
}

#[test]
fn a_server_gets_nothing_of_the_program_but_what_the_statement_names() {
    let sql = "SELECT x.password, 'token' FROM frame x -- hidden";
    let names = &["secret_frame", "token", "hidden", "password", "frame", "Frame", "\"frame\"", ""];
    let given = [
        "nothing",
        "nothing",
        "nothing",
        "nothing",
        "secret of frame",
        "secret of Frame",
        "nothing",
        "nothing",
    ];
    assert_eq!(asked("?variables=on", true, sql, names), given);
    assert_eq!(asked("", false, sql, names), given);
    // A server that nobody has allowed to ask is disconnected.
    assert_eq!(asked("", true, sql, names), ["closed"]);
    assert_eq!(asked("?variables=off", false, sql, names), ["closed"]);
    // A name is not given without limit.
    let times = asked("", false, "SELECT * FROM frame", &["frame"; 100]);
    assert!(times.iter().filter(|answer| *answer != "nothing").count() < 50, "{times:?}");
}

#[test]
fn a_server_that_claims_what_was_not_offered_is_left() {
    for claimed in [Capabilities::DESCRIPTORS, Capabilities::RESOLVE, Capabilities(1 << 20)] {
        let (address, server) = Listener::tcp()
            .serve(move |listener| listener.accept().welcome_with(|offered| offered.with(claimed)).rest());
        assert_eq!(connect(&address).map(drop).unwrap_err().sqlstate(), "08P01", "{claimed:?}");
        assert_eq!(server.join().unwrap(), []);
    }
}
