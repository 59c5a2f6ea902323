//! A process that may open no more files. The test is alone, because the limit is that of the
//! process.

mod common;

use common::*;
use hypostyle_wire::{Capabilities, FrameType, Query};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;

#[test]
fn a_process_without_descriptors_asks_for_none() {
    let (address, server) = Listener::unix().serve(|listener| {
        let mut peer = listener.accept().welcome(Capabilities::DESCRIPTORS);
        [(); 3].map(|()| {
            let query = Query::decode(&peer.receive(FrameType::Query).body).unwrap();
            peer.done(query.query);
            query.descriptors
        })
    });
    let connection = connect(&address).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    connection.execute("SELECT 1", None, &[]).unwrap();
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    connection.execute("SELECT 1", None, &[]).unwrap();
    drop(all);
    connection.execute("SELECT 1", None, &[]).unwrap();
    assert_eq!(server.join().unwrap(), [true, false, true]);
}
