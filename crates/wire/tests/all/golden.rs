//! Frames that earlier releases sent stay readable: `tests/golden/protocol-v1` has some.
//!
//! What must be in them is told here by the rules that made them. To make the files of a new version of the
//! protocol (never those of an old one again):
//! `cargo test -p hypostyle-wire --test all write_golden_files -- --ignored`

use crate::common::*;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema};
use hypostyle_types::{Error, ErrorKind};
use hypostyle_wire::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/protocol-v1").join(name)
}

/// Streams: a file's name, and what is in it.
fn streams() -> Vec<(String, RecordBatch, Codec)> {
    let mut found = Vec::new();
    for codec in [Codec::None, Codec::Light, Codec::Lz4, Codec::Zstd(1)] {
        found.push((format!("types-{codec}"), batch(11, 20, true), codec));
        found.push((format!("encodings-{codec}"), made_for_each(1100), codec));
    }
    found
}

/// `Result`, two chunks with their dictionaries, `End`.
fn stream(batch: &RecordBatch, codec: Codec) -> Vec<u8> {
    let schema = canonical_schema(&batch.schema()).unwrap();
    let rows = Some(2 * batch.num_rows() as u64);
    let mut bytes =
        ResultHeader { query: 7, is_query: true, rows, bytes: None, schema: schema.clone() }.frame();
    let mut encoder = encoder(&schema, codec);
    for _ in 0..2 {
        let encoded = encoder.plan(batch.clone()).unwrap().encode().unwrap();
        sent(&mut encoder, &encoded);
        for frame in &encoded.frames {
            let length = frame.body_bytes() as u32;
            bytes.extend(FrameHeader { length, frame_type: frame.frame_type, descriptors: 0 }.encode());
            bytes.extend_from_slice(&body(frame));
        }
    }
    let end = encoder.end();
    bytes.extend(End { query: 7, rows: end.rows, checksum: end.checksum }.frame());
    bytes
}

/// The frames of a file.
fn frames(bytes: &[u8]) -> Vec<(FrameType, Buffer)> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some((header, behind)) = rest.split_first_chunk() {
        let header = FrameHeader::decode(header, FRAME_BYTES_MAX).unwrap();
        let (body, behind) = behind.split_at(header.length as usize);
        found.push((header.frame_type, Buffer::from(body)));
        rest = behind;
    }
    assert!(rest.is_empty());
    found
}

#[test]
fn streams_of_version_1_are_read() {
    for (name, batch, _) in streams() {
        let mut frames = frames(&fs::read(golden(&name)).unwrap()).into_iter();
        let (_, first) = frames.next().unwrap();
        let header = ResultHeader::decode(&first).unwrap();
        let expected = expected(&batch, &canonical_schema(&batch.schema()).unwrap());
        assert_eq!(header.schema, expected.schema());
        let mut decoder = StreamDecoder::new(7, header.schema);
        let mut chunks = 0;
        for (frame_type, body) in frames {
            match frame_type {
                FrameType::Dictionary => decoder.dictionary(body).unwrap(),
                FrameType::Chunk => {
                    assert_eq!(decoder.chunk(body).unwrap().decode().unwrap(), expected, "{name}");
                    chunks += 1;
                }
                FrameType::End => {
                    let end = End::decode(&body).unwrap();
                    decoder.end(end.rows, end.checksum).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(chunks, 2);
    }
}

/// One of each message that has more than a number.
fn messages() -> Vec<Vec<u8>> {
    let row = batch(3, 1, false);
    let schema = canonical_schema(&row.schema()).unwrap();
    let (head, payload) = encode_row(&row).unwrap();
    let names = row.schema().fields().iter().map(|field| field.name().clone()).collect();
    let table = TableEntry {
        schema: "main".into(),
        name: "t".into(),
        is_view: false,
        rows: Some(5),
        columns: schema.clone(),
    };
    let hello = Hello {
        capabilities: Capabilities::DESCRIPTORS.with(Capabilities::RESUME),
        codecs: COMPRESSIONS,
        frame_bytes_max: FRAME_BYTES_MAX,
        user: "ada".into(),
        client: "golden 1".into(),
        mechanism: "SCRAM-SHA-256".into(),
        initial: b"n,,n=ada,r=x".to_vec(),
        session: 0,
        key: Vec::new(),
        stream: 0,
        origin: "127.0.0.1:40000".into(),
    };
    let welcome = Welcome {
        version: 1,
        capabilities: Capabilities::RESUME,
        frame_bytes_max: FRAME_BYTES_MAX,
        server: "golden 1".into(),
        session: 9,
        key: vec![7; 16],
        role: Role::Write,
        last: b"v=x".to_vec(),
    };
    let query = Query {
        query: 1,
        kind: QueryKind::Sql,
        descriptors: true,
        progress: true,
        chunk_bytes: CHUNK_BYTES,
        credit: 16 << 20,
        text: "SELECT $a".into(),
        parameters: Some(Parameters { names, schema: schema.clone(), head, payload }),
    };
    let done = Done {
        query: 1,
        rows: 2,
        checksum: 3,
        affected: Some(4),
        transaction: Transaction::Open,
        times: Times { execute: Duration::from_micros(5), ..Times::default() },
        raw: 6,
        sent: 7,
        chosen: vec![Chosen { column: 8, encoding: 9, compression: 2, chunks: 10 }],
    };
    let description =
        Description { query: 1, gives: Gives::Rows, parameters: schema.clone(), columns: schema.clone() };
    let failure = Failure {
        query: 1,
        error: Error::new(ErrorKind::Conflict, "another was first").with_sqlstate("40001"),
        fatal: false,
        transaction: Transaction::Failed,
    };
    vec![
        hello.frame(),
        welcome.frame(),
        query.frame(),
        Append { query: 2, create: true, by_name: false, table: "t".into(), schema: schema.clone() }.frame(),
        Answer::Table { query: 1, schema }.frame(),
        Answer::Unreadable { query: 1, why: "no".into() }.frame(),
        Credit { query: 1, bytes: 2 }.frame(),
        Received(2).frame(),
        Elsewhere { stream: 1, bytes: 2 }.frame(),
        Describe { query: 1, text: "SELECT $1".into() }.frame(),
        description.frame(),
        Progress { query: 1, done: 2, total: None, elapsed: Duration::from_micros(3) }.frame(),
        done.frame(),
        failure.frame(),
        TableEntry::list_frame(1, &[table]),
    ]
}

#[test]
fn messages_of_version_1_are_read() {
    let bytes = fs::read(golden("messages")).unwrap();
    let mut rest = bytes.as_slice();
    // What is written today is what was written then, and what is read is what was written.
    for message in messages() {
        let (here, behind) = rest.split_at(message.len());
        assert_eq!(here, message);
        rest = behind;
    }
    assert!(rest.is_empty());
    for (frame_type, body) in frames(&bytes) {
        let again = match frame_type {
            FrameType::Hello => Hello::decode(&body).unwrap().frame(),
            FrameType::Welcome => Welcome::decode(&body).unwrap().frame(),
            FrameType::Query => Query::decode(&body).unwrap().frame(),
            FrameType::Append => Append::decode(&body).unwrap().frame(),
            FrameType::Answer => Answer::decode(&body).unwrap().frame(),
            FrameType::Credit => Credit::decode(&body).unwrap().frame(),
            FrameType::Received => Received::decode(&body).unwrap().frame(),
            FrameType::Elsewhere => Elsewhere::decode(&body).unwrap().frame(),
            FrameType::Describe => Describe::decode(&body).unwrap().frame(),
            FrameType::Description => Description::decode(&body).unwrap().frame(),
            FrameType::Progress => Progress::decode(&body).unwrap().frame(),
            FrameType::Done => Done::decode(&body).unwrap().frame(),
            FrameType::Error => Failure::decode(&body).unwrap().frame(),
            FrameType::Tables => {
                let (query, tables) = TableEntry::decode_list(&body).unwrap();
                TableEntry::list_frame(query, &tables)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(&again[FRAME_HEADER_BYTES..], body.as_slice());
    }
}

/// Messages of capability 32.
fn calls() -> Vec<Vec<u8>> {
    let schema = canonical_schema(&batch(3, 1, false).schema()).unwrap();
    let call = Call { query: 1, credit: 16 << 20, chunk_bytes: 0, request: b"request".to_vec(), rows: None };
    vec![
        call.frame(),
        Call { query: 2, rows: Some(schema), ..call }.frame(),
        Reply { query: 1, reply: b"reply".to_vec() }.frame(),
    ]
}

#[test]
fn calls_of_version_1_are_read() {
    let bytes = fs::read(golden("calls")).unwrap();
    assert_eq!(bytes, calls().concat());
    let again = frames(&bytes).into_iter().map(|(frame_type, body)| match frame_type {
        FrameType::Call => Call::decode(&body).unwrap().frame(),
        FrameType::Reply => Reply::decode(&body).unwrap().frame(),
        other => panic!("{other:?}"),
    });
    assert_eq!(again.collect::<Vec<_>>(), calls());
}

#[test]
#[ignore = "writes the files that the other tests read; only for what is new in the protocol"]
fn write_golden_files() {
    fs::create_dir_all(golden("")).unwrap();
    // What is there is never written again.
    let write = |name: &str, bytes: Vec<u8>| {
        if !golden(name).exists() {
            fs::write(golden(name), bytes).unwrap();
        }
    };
    for (name, batch, codec) in streams() {
        write(&name, stream(&batch, codec));
    }
    write("messages", messages().concat());
    write("calls", calls().concat());
}

#[test]
#[ignore = "writes seeds for fuzzing"]
fn write_fuzz_seeds() {
    let directory = PathBuf::from(std::env::var_os("HYPOSTYLE_FUZZ_SEEDS").expect("where to"));
    for codec in CODECS {
        for batch in [batch(11, 20, true), batch(5, 150, false), made_for_each(200)] {
            for column in 0..batch.num_columns() {
                // A column that differs from the first needs that.
                let columns: &[usize] = if column == 0 { &[0] } else { &[0, column] };
                let some = batch.project(columns).unwrap();
                let (schema, encoded) = encode(&some, codec);
                let (header, length) =
                    ChunkHeader::decode(&encoded.frames[encoded.frames.len() - 1].head).unwrap();
                assert_eq!(length, encoded.frames[encoded.frames.len() - 1].head.len());
                let mut writer = Writer::default();
                write_schema(&mut writer, &schema);
                writer.u16(header.rows as u16).u8(0).bytes(&header.head);
                writer.raw(&payload(&encoded.frames[encoded.frames.len() - 1]));
                let name = format!("{codec}-{}-{}", batch.num_rows(), batch.schema().field(column).name());
                fs::write(directory.join("chunk").join(name.replace(' ', "-")), writer.finish()).unwrap();
            }
        }
    }
    // The number of its target's case before each body.
    let messages = [messages(), calls()].concat().concat();
    for (index, (frame_type, body)) in frames(&messages).into_iter().enumerate() {
        let case = match frame_type {
            FrameType::Hello | FrameType::Welcome => 0,
            FrameType::Query => 1,
            FrameType::Append | FrameType::Answer | FrameType::Describe | FrameType::Description => 2,
            FrameType::Call | FrameType::Reply => 3,
            FrameType::Done | FrameType::Error => 4,
            FrameType::Tables => 6,
            _ => 5,
        };
        let seed = [&[case], body.as_slice()].concat();
        fs::write(directory.join("message").join(format!("golden-{index}-{frame_type:?}")), seed).unwrap();
    }
    // Two rows of text with a NULL, of an array and of a dictionary, in files of zeros.
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let codes = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8));
    let schema = Schema::new(vec![
        Field::new("a", DataType::LargeUtf8, true),
        Field::new("b", DataType::FixedSizeList(item, 3), true),
        Field::new("c", codes, true),
    ]);
    let region = |length, descriptor| Region { length, descriptor };
    let node = |elements, buffers| FileNode { elements, nulls: 0, validity: None, buffers, dictionary: None };
    let nodes = [
        FileNode { nulls: 2, validity: Some(region(1, 0)), ..node(2, vec![region(24, 1), region(0, 0)]) },
        node(2, vec![]),
        node(6, vec![region(24, 1)]),
        FileNode { dictionary: Some((1, region(16, 1), region(0, 0))), ..node(2, vec![region(2, 1)]) },
    ];
    let mut seed = Writer::default();
    write_schema(&mut seed, &schema);
    seed.u64(2).u64(0).list([1, 24].iter(), |to, length| _ = to.u16(*length));
    seed.raw(&write_file_nodes(nodes.iter()));
    fs::write(directory.join("files").join("columns"), seed.finish()).unwrap();
}
