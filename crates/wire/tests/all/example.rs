//! The example of docs/protocol.md §12 is what the code writes. To write it into the document:
//! `cargo test -p hypostyle-wire --test all write_example -- --ignored`

use crate::common::{body, decode_frames, sent};
use arrow_array::{ArrayRef, Int32Array, LargeStringArray, RecordBatch};
use hypostyle_wire::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes on a line.
const LINE: usize = 16;

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md")
}

/// A frame: its name, its bytes, and what so many of them are.
struct Frame {
    name: &'static str,
    bytes: Vec<u8>,
    parts: Vec<(usize, &'static str)>,
}

fn rows() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(100_000_000), None]));
    let b: ArrayRef = Arc::new(LargeStringArray::from(vec!["OK", "DPFKG"]));
    RecordBatch::try_from_iter_with_nullable([("a", a, true), ("b", b, true)]).unwrap()
}

fn frames() -> Vec<Frame> {
    const QUERY: u32 = 1;
    let batch = rows();
    let schema = canonical_schema(&batch.schema()).unwrap();
    let query = Query {
        query: QUERY,
        kind: QueryKind::Sql,
        descriptors: false,
        progress: false,
        chunk_bytes: 0,
        credit: 16 << 20,
        text: "SELECT a, b FROM t".into(),
        parameters: None,
    };
    let result =
        ResultHeader { query: QUERY, is_query: true, rows: Some(2), bytes: Some(19), schema: schema.clone() };
    let mut stream = StreamEncoder::new(QUERY, schema.clone(), COMPRESSIONS, Codec::None, 1);
    let encoded = stream.plan(batch.clone()).unwrap().encode().unwrap();
    sent(&mut stream, &encoded);
    let [chunk] = encoded.frames.as_slice() else { panic!("there is no dictionary") };
    let mut decoder = StreamDecoder::new(QUERY, schema);
    assert_eq!(decode_frames(&mut decoder, &encoded).unwrap(), batch);
    let length = chunk.body_bytes() as u32;
    let mut chunk_bytes =
        FrameHeader { length, frame_type: FrameType::Chunk, descriptors: 0 }.encode().to_vec();
    chunk_bytes.extend_from_slice(&body(chunk));
    let end = stream.end();
    let done = Done {
        query: QUERY,
        rows: end.rows,
        checksum: end.checksum,
        affected: None,
        transaction: Transaction::None,
        times: Times {
            execute: Duration::from_micros(250),
            encode: Duration::from_micros(8),
            ..Times::default()
        },
        raw: end.raw,
        sent: end.sent,
        chosen: end.chosen,
    };
    vec![
        Frame {
            name: "Query, from the client",
            bytes: query.frame(),
            parts: vec![
                (8, "length of the body, type 3, no flags, no descriptors"),
                (4, "query 1"),
                (2, "SQL text; no flags"),
                (4, "chunk_bytes: as the server likes"),
                (8, "credit: 16 MiB"),
                (22, "text: 18 bytes, SELECT a, b FROM t"),
                (5, "no parameters, no names"),
            ],
        },
        Frame {
            name: "Result, from the server",
            bytes: result.frame(),
            parts: vec![
                (8, "length, type 35"),
                (5, "query 1; rows come"),
                (16, "2 rows, about 19 bytes"),
                (4, "2 columns:"),
                (7, "a, may have NULLs, type 4 INTEGER"),
                (7, "b, may have NULLs, type 13 VARCHAR"),
            ],
        },
        Frame {
            name: "Chunk, from the server",
            bytes: chunk_bytes,
            parts: vec![
                (8, "length, type 37"),
                (5, "query 1; the payload is in the frame"),
                (12, "chunk 0, 2 rows"),
                (8, "checksum of the payload"),
                (4, "length of the head"),
                (2, "a: plain, with a mask;"),
                (5, "its mask: not compressed, 1 byte"),
                (5, "its values: not compressed, 8 bytes"),
                (2, "b: plain, no NULLs;"),
                (7, "its lengths: plain, no NULLs, not compressed, 8 bytes"),
                (5, "its bytes: not compressed, 7 of them"),
                (9, "the head's padding"),
                (16, "the mask: only the first is there; padding"),
                (16, "100 000 000, and anything under the NULL; padding"),
                (16, "the lengths 2 and 5; padding"),
                (7, "OKDPFKG"),
            ],
        },
        Frame {
            name: "Done, from the server",
            bytes: done.frame(),
            parts: vec![
                (8, "length, type 38"),
                (4, "query 1"),
                (16, "2 rows, checksum of the stream"),
                (9, "affected rows have no meaning; no transaction"),
                (32, "microseconds: 250 until the first row, 8 encoding, 0, 0"),
                (16, "bytes before and after codecs"),
                (4, "2 choices:"),
                (14, "column 0: plain, no compression, 1 chunk"),
                (14, "column 1: the same"),
            ],
        },
    ]
}

/// The lines of the document.
fn render() -> String {
    let mut text = String::from("```text\n");
    for (index, frame) in frames().iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        writeln!(text, "# {}", frame.name).unwrap();
        let mut rest = frame.bytes.as_slice();
        for (length, what) in &frame.parts {
            let (part, behind) = rest.split_at(*length);
            rest = behind;
            for (line, bytes) in part.chunks(LINE).enumerate() {
                let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let what = if line == 0 { format!("  # {what}") } else { String::new() };
                writeln!(text, "{}", format!("{:<47}{what}", hex.join(" ")).trim_end()).unwrap();
            }
        }
        assert!(rest.is_empty(), "{}: {} bytes are not told of", frame.name, rest.len());
    }
    text.push_str("```\n");
    text
}

/// What stands between the table of §12 and §13.
fn place(document: &str) -> std::ops::Range<usize> {
    let section = document.find("## 12. Example").unwrap();
    let last_row = section + document[section..].find("| NULL | DPFKG |").unwrap();
    let start = last_row + document[last_row..].find("\n\n").unwrap() + 2;
    start..start + document[start..].find("\n## 13").unwrap()
}

#[test]
fn the_example_in_the_document_is_what_the_code_writes() {
    let document = std::fs::read_to_string(document()).unwrap();
    let example = &document[place(&document)];
    let hex = example
        .lines()
        .filter(|line| !line.starts_with("```"))
        .flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    let bytes: Vec<u8> = hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let written: Vec<u8> = frames().into_iter().flat_map(|frame| frame.bytes).collect();
    assert_eq!(bytes, written);
    assert!(example.contains(&render()), "the comments are not those of this test");
}

#[test]
#[ignore = "writes into docs/protocol.md"]
fn write_example() {
    let mut text = std::fs::read_to_string(document()).unwrap();
    let place = place(&text);
    text.replace_range(place, &render());
    std::fs::write(document(), text).unwrap();
}
