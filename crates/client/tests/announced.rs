//! Servers that announce more than they send: a client takes memory only for bytes that have come.
//! In this process an allocation that is larger than an honest server needs ends the process.

mod common;

use common::*;
use hypostyle_types::Result;
use hypostyle_wire::{
    COMPRESSIONS, Capabilities, ChunkHeader, Codec, FRAME_BYTES_MAX, FrameHeader, FrameType, Place, Query,
    ResultHeader, StreamEncoder, Writer,
};
use std::alloc::{GlobalAlloc, Layout, System};

/// The largest allowed allocation: less than one announced body, or than the possible rows of one
/// chunk.
const GREATEST_ALLOWED: usize = 32 << 20;

struct Modest;

// SAFETY: an allocation that is not refused is left to the system's allocator, and a refusal is
// null.
unsafe impl GlobalAlloc for Modest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > GREATEST_ALLOWED {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > GREATEST_ALLOWED {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Modest = Modest;

/// Sends to a client that may have closed the connection.
fn send(peer: &mut Peer, bytes: &[u8]) {
    let _gone = peer.0.send(bytes, &mut || Ok(()));
}

/// A number that is larger than the number of frame types.
const FRAME_TYPES: u8 = 48;

/// Sends the header of a long body and a few bytes of it.
fn send_beginning(peer: &mut Peer, frame_type: u8, length: u32) {
    let mut header = FrameHeader { length, frame_type: FrameType::Chunk, descriptors: 0 }.encode();
    header[4] = frame_type;
    send(peer, &[&header[..], &[0; 64]].concat());
}

/// Returns the result of a query to a server that answers in a given way and then leaves.
fn ask(listener: Listener, answer: impl FnOnce(&mut Peer, u32) + Send + 'static) -> Result<u64> {
    let (address, server) = listener.serve(|listener| {
        let mut peer = listener.accept().welcome(Capabilities::DESCRIPTORS.with(Capabilities::PROGRESS));
        let query = Query::decode(&peer.receive(FrameType::Query).body).unwrap().query;
        answer(&mut peer, query);
    });
    let connection = connect(&address).unwrap();
    let result = connection.execute("SELECT 1", None, &[]).and_then(|result| result.row_count());
    drop(connection);
    server.join().unwrap();
    result
}

#[test]
fn the_length_of_a_body_is_not_believed() {
    for frame_type in 0..FRAME_TYPES {
        for length in [FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, u32::MAX] {
            for has_begun in [false, true] {
                let answer = move |peer: &mut Peer, query| {
                    if has_begun {
                        peer.begin_rows(query);
                    }
                    send_beginning(peer, frame_type, length);
                };
                ask(Listener::unix(), answer).expect_err("half a result");
            }
            let (address, server) = Listener::tcp().serve(move |listener| {
                let mut peer = listener.accept();
                peer.hello();
                send_beginning(&mut peer, frame_type, length);
            });
            connect(&address).map(drop).expect_err("half a welcome");
            server.join().unwrap();
        }
    }
}

#[test]
fn the_rows_of_a_result_are_not_believed() {
    for many in [1 << 32, 1 << 62, u64::MAX - 1] {
        for (rows, bytes) in [(Some(many), None), (None, Some(many)), (Some(many), Some(many))] {
            let answer = move |peer: &mut Peer, query| {
                let (schema, _) = self::rows();
                peer.send(
                    &ResultHeader { query, is_query: true, rows, bytes, schema: schema.clone() }.frame(),
                );
                let mut encoder = StreamEncoder::new(query, schema, COMPRESSIONS, Codec::None, 1);
                peer.chunk(&mut encoder);
                peer.end_rows(query, &encoder);
            };
            // A smaller number may be an error, but it is no reason to take memory.
            let _fewer = ask(Listener::unix(), answer);
        }
    }
}

#[test]
fn the_rows_of_a_chunk_are_not_believed() {
    for place in [Place::Frame, Place::MemoryFile, Place::Columns, Place::Pieces] {
        for rows in [1 << 22, 1 << 30, u64::from(u32::MAX)] {
            for skip in [0, 1 << 40, u64::MAX] {
                let answer = move |peer: &mut Peer, query| {
                    peer.header(query, None);
                    let head = vec![0; 16];
                    let mut body = Writer::default();
                    ChunkHeader { query, place, number: 0, rows, checksum: 0, skip, head }.write(&mut body);
                    let (length, frame_type) = (body.length() as u32, FrameType::Chunk);
                    let header = FrameHeader { length, frame_type, descriptors: 0 }.encode();
                    send(peer, &[&header[..], &body.finish()].concat());
                };
                ask(Listener::unix(), answer).expect_err("a chunk without rows");
            }
        }
    }
}
