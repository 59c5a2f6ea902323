//! Tests the progress that a client reports for its statement.

use crate::common::*;
use arrow_array::RecordBatchIterator;
use hypostyle_client::{AppendOptions, Connection, Progress};
use hypostyle_types::ErrorKind;
use hypostyle_wire as wire;
use hypostyle_wire::{Append, Capabilities, Credit, Done, FrameType, Query};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const NOTHING: Capabilities = Capabilities(0);

/// Reads the next query and returns its number. The client wants progress.
fn query(peer: &mut Peer) -> u32 {
    let query = Query::decode(&peer.receive(FrameType::Query).body).unwrap();
    assert!(query.progress);
    query.query
}

fn tell(peer: &mut Peer, query: u32, done: u64, total: Option<u64>) {
    peer.send(&wire::Progress { query, done, total, elapsed: Duration::from_secs(1) }.frame());
}

/// Returns the progress once some rows are done.
fn once(connection: &Connection, rows: u64) -> Progress {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let progress = connection.progress();
        if let Some(progress) = progress.filter(|progress| progress.rows_done == rows) {
            return progress;
        }
        assert!(Instant::now() < deadline, "{rows} rows were never done, but {progress:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn assert_ended_well(progress: Progress, rows: u64) {
    assert_eq!((progress.rows_done, progress.rows_total), (rows, Some(rows)));
    assert_eq!((progress.fraction(), progress.remaining), (Some(1.0), Some(Duration::ZERO)));
    assert!(!progress.is_running);
}

#[test]
fn rows_that_were_announced_are_counted_as_they_come() {
    let (step, steps) = channel();
    let (address, server) = Listener::unix().serve(move |listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let number = query(&mut peer);
        tell(&mut peer, number, 250, Some(1000));
        tell(&mut peer, number + 1, 999, Some(1000));
        steps.recv().unwrap();
        let mut encoder = peer.header(number, Some(3000));
        for _ in 0..3 {
            peer.chunk(&mut encoder);
            steps.recv().unwrap();
        }
        peer.end_rows(number, &encoder);
    });
    let connection = connect(&address).unwrap();
    assert_eq!(connection.progress(), None);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connection.execute("SELECT 1", None, &[])?.materialize());
        let progress = once(&connection, 250);
        assert_eq!((progress.rows_total, progress.fraction()), (Some(1000), Some(0.25)));
        assert!(progress.is_running && !progress.is_transfer && progress.remaining.is_some());
        step.send(()).unwrap();
        for chunk in 1..=3 {
            let progress = once(&connection, 1000 * chunk);
            assert_eq!(progress.rows_total, Some(3000));
            assert!(progress.is_running && progress.is_transfer && progress.remaining.is_some());
            assert!(progress.remaining.unwrap() > Duration::ZERO || chunk == 3);
            step.send(()).unwrap();
        }
        waiting.join().unwrap().unwrap();
    });
    let progress = connection.progress().unwrap();
    assert_ended_well(progress, 3000);
    thread::sleep(Duration::from_millis(2));
    assert_eq!(connection.progress(), Some(progress), "time goes on after the end");
    server.join().unwrap();
}

#[test]
fn a_result_that_is_sent_while_it_is_computed_is_as_far_as_its_computation() {
    let (step, steps) = channel();
    let (address, server) = Listener::unix().serve(move |listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let number = query(&mut peer);
        let mut encoder = peer.header(number, None);
        peer.chunk(&mut encoder);
        steps.recv().unwrap();
        tell(&mut peer, number, 7, Some(100));
        peer.chunk(&mut encoder);
        steps.recv().unwrap();
        tell(&mut peer, number, 100, Some(100));
        peer.chunk(&mut encoder);
        steps.recv().unwrap();
        peer.end_rows(number, &encoder);
    });
    let connection = connect(&address).unwrap();
    let result = connection.execute("SELECT 1", None, &[]).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| result.materialize());
        let progress = once(&connection, 1000);
        assert!(progress.is_transfer && progress.rows_total.is_none() && progress.remaining.is_none());
        step.send(()).unwrap();
        let progress = once(&connection, 7);
        assert!(!progress.is_transfer && progress.remaining.is_some());
        assert_eq!(progress.rows_total, Some(100));
        step.send(()).unwrap();
        // Nobody knows how many rows will come when all have been processed.
        let progress = once(&connection, 3000);
        assert!(progress.is_transfer && progress.rows_total.is_none() && progress.remaining.is_none());
        step.send(()).unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_ended_well(connection.progress().unwrap(), 3000);
    server.join().unwrap();
}

#[test]
fn what_fails_or_is_let_go_does_not_run_any_more() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let number = query(&mut peer);
        tell(&mut peer, number, 5, Some(10));
        peer.fail(number, "57014", false);
        let number = query(&mut peer);
        let mut encoder = peer.header(number, Some(2000));
        peer.chunk(&mut encoder);
        peer.rest()
    });
    let connection = connect(&address).unwrap();
    let error = connection.execute("SELECT 1", None, &[]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let progress = connection.progress().unwrap();
    assert_eq!((progress.rows_done, progress.rows_total, progress.remaining), (5, Some(10), None));
    assert!(!progress.is_running);

    let result = connection.execute("SELECT 1", None, &[]).unwrap();
    assert!(connection.progress().unwrap().is_running);
    drop(result);
    let progress = connection.progress().unwrap();
    assert_eq!((progress.rows_done, progress.rows_total, progress.remaining), (1000, Some(2000), None));
    assert!(!progress.is_running);
    connection.close();
    server.join().unwrap();
}

#[test]
fn numbers_that_a_server_makes_up_are_no_time() {
    let (step, steps) = channel();
    let (address, server) = Listener::unix().serve(move |listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let number = query(&mut peer);
        tell(&mut peer, number, 1, Some(u64::MAX - 1));
        steps.recv().unwrap();
        peer.done(number);
    });
    let connection = connect(&address).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connection.execute("SELECT 1", None, &[]).map(drop));
        once(&connection, 1);
        // This part of a second, times the remaining rows, is more than a duration holds.
        thread::sleep(Duration::from_millis(1100));
        assert_eq!(connection.progress().unwrap().remaining, None);
        step.send(()).unwrap();
        waiting.join().unwrap().unwrap();
    });
    server.join().unwrap();
}

#[test]
fn rows_of_an_append_are_counted_as_they_go() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome(NOTHING);
        let query = Append::decode(&peer.receive(FrameType::Append).body).unwrap().query;
        peer.send(&Credit { query, bytes: 1 << 20 }.frame());
        while peer.next().unwrap().frame_type != FrameType::End {}
        peer.send(&Done { query, affected: Some(2000), ..Done::default() }.frame());
    });
    let connection = connect(&address).unwrap();
    let (schema, batch) = rows();
    let seen = {
        let connection = connection.clone();
        move |chunk| {
            assert_eq!(connection.progress().unwrap().rows_done, 1000 * chunk);
            Ok(batch.clone())
        }
    };
    let data = RecordBatchIterator::new((0..2u64).map(seen), schema);
    let rows = connection.append("t", Box::new(data), AppendOptions { create: false, by_name: false });
    assert_eq!(rows.unwrap(), 2000);
    assert_ended_well(connection.progress().unwrap(), 2000);
    server.join().unwrap();
}
