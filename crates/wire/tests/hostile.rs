//! Bytes that cannot be are errors or other values: no panic, and no more memory than was allowed.

mod common;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, LargeStringArray, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use common::*;
use hypostyle_types::Result;
use hypostyle_wire::{
    ChunkHeader, Codec, ColumnBuilder, DictionaryHeader, FrameType, Place, Query, QueryKind, Reader,
    StreamDecoder, TableEntry, Writer, canonical_schema, decode_row, encode_row, read_schema,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Remembers the greatest piece of memory that was asked for, and how much was held at most.
struct Watched;

static GREATEST: AtomicUsize = AtomicUsize::new(0);
static HELD: AtomicUsize = AtomicUsize::new(0);
static HELD_MOST: AtomicUsize = AtomicUsize::new(0);

impl Watched {
    fn hold(size: usize) {
        GREATEST.fetch_max(size, Ordering::Relaxed);
        let held = HELD.fetch_add(size, Ordering::Relaxed) + size;
        HELD_MOST.fetch_max(held, Ordering::Relaxed);
    }
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::hold(layout.size());
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::hold(size);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// What nothing here needs, and a lying length would.
const GREATEST_ALLOWED: usize = 64 << 20;

/// The bytes that all tests hold together, which run at once.
const HELD_ALLOWED: usize = 256 << 20;

fn assert_modest() {
    let greatest = GREATEST.load(Ordering::Relaxed);
    assert!(greatest < GREATEST_ALLOWED, "{greatest} bytes were asked for at once");
    let held = HELD_MOST.load(Ordering::Relaxed);
    assert!(held < HELD_ALLOWED, "{held} bytes were held");
}

/// A chunk, taken apart.
struct Parts {
    schema: SchemaRef,
    dictionaries: Vec<Buffer>,
    header: ChunkHeader,
    payload: Vec<u8>,
}

fn parts(batch: &RecordBatch, codec: Codec) -> Parts {
    let (schema, encoded) = encode(batch, codec);
    let (chunk, dictionaries) = encoded.frames.split_last().unwrap();
    assert_eq!(chunk.frame_type, FrameType::Chunk);
    let (header, _) = ChunkHeader::decode(&body(chunk)).unwrap();
    Parts {
        schema,
        dictionaries: dictionaries.iter().map(body).collect(),
        header,
        payload: payload(chunk).to_vec(),
    }
}

impl Parts {
    fn decoder(&self) -> StreamDecoder {
        let mut decoder = StreamDecoder::new(7, self.schema.clone()).with_limit(GREATEST_ALLOWED / 4);
        for dictionary in &self.dictionaries {
            decoder.dictionary(dictionary.clone()).unwrap();
        }
        decoder
    }

    /// Returns a frame's body with the checksum of the payload, whatever it is.
    fn body(&self, head: &[u8], payload: &[u8]) -> Buffer {
        let header = ChunkHeader { head: head.to_vec(), checksum: xxh3_64(payload), ..self.header.clone() };
        let mut writer = Writer::default();
        header.write(&mut writer);
        writer.raw(payload);
        writer.finish().into()
    }

    /// Decodes a body in both ways, which must agree.
    fn decode(&self, body: Buffer) -> Result<RecordBatch> {
        let batch = self.decoder().chunk(body.clone()).and_then(|chunk| chunk.decode());
        let mut builders: Vec<_> =
            self.schema.fields().iter().map(|field| ColumnBuilder::new(field)).collect();
        let appended = self.decoder().chunk(body).and_then(|chunk| {
            let rows = chunk.rows();
            chunk.decode_into(&mut builders)?;
            let columns = builders.into_iter().map(ColumnBuilder::finish).collect::<Result<Vec<_>>>()?;
            assert!(columns.iter().all(|column| column.len() == rows));
            Ok(columns)
        });
        assert_eq!(batch.is_ok(), appended.is_ok(), "{batch:?} {appended:?}");
        if let (Ok(batch), Ok(columns)) = (&batch, appended) {
            for (one, other) in batch.columns().iter().zip(columns) {
                assert_eq!(one.to_data(), other.to_data());
            }
        }
        batch
    }
}

fn batches() -> Vec<(RecordBatch, Codec)> {
    let mut found = Vec::new();
    for (index, codec) in CODECS.into_iter().enumerate() {
        found.push((batch(index as u64, 24, index % 2 == 0), codec));
    }
    // Long enough for every encoding.
    for seed in 0..4 {
        let columns = columns(seed, 1100, seed == 0).into_iter();
        let some = columns.filter(|(field, _)| {
            ["i32", "i64", "u8", "f64", "text", "codes 2"].contains(&field.name().as_str())
        });
        found.push((batch_of(some.collect(), 1100), if seed < 2 { Codec::Light } else { Codec::Zstd(1) }));
    }
    found
}

#[test]
fn every_cut_of_a_chunk_is_refused() {
    for (batch, codec) in batches() {
        let parts = parts(&batch, codec);
        let (head, payload) = (&parts.header.head, &parts.payload);
        assert_eq!(parts.decode(parts.body(head, payload)).unwrap().num_rows(), batch.num_rows());
        // The last bytes of a head are padding.
        for length in 0..head.len() - 15 {
            let error = parts.decode(parts.body(&head[..length], payload)).unwrap_err();
            assert_eq!(error.sqlstate(), "08P01", "{error}");
        }
        let step = payload.len() / 500 + 1;
        for length in (0..payload.len()).step_by(step) {
            let error = parts.decode(parts.body(head, &payload[..length])).unwrap_err();
            assert_eq!(error.sqlstate(), "08P01", "{error}");
        }
        let whole = parts.body(head, payload);
        for length in (0..whole.len()).step_by(whole.len() / 300 + 1) {
            assert!(parts.decode(whole.slice_with_length(0, length)).is_err());
        }
    }
    assert_modest();
}

#[test]
fn flipped_bytes_are_errors_or_other_values() {
    let mut random = Random(1);
    for (batch, codec) in batches() {
        let parts = parts(&batch, codec);
        let (head, payload) = (&parts.header.head, &parts.payload);
        for position in 0..head.len() {
            for flip in [1, 0x80, 0xff, random.next() as u8 | 1] {
                let mut changed = head.clone();
                changed[position] ^= flip;
                if let Err(error) = parts.decode(parts.body(&changed, payload)) {
                    assert_eq!(error.sqlstate(), "08P01", "{error}");
                }
            }
        }
        for _ in 0..500 {
            let mut changed = payload.clone();
            if changed.is_empty() {
                break;
            }
            let position = random.below(changed.len() as u64) as usize;
            changed[position] ^= random.next() as u8 | 1;
            if let Err(error) = parts.decode(parts.body(head, &changed)) {
                assert_eq!(error.sqlstate(), "08P01", "{error}");
            }
        }
    }
    assert_modest();
}

#[test]
fn a_damaged_payload_is_seen() {
    let parts = parts(&batch(3, 100, true), Codec::Light);
    let mut body = parts.body(&parts.header.head, &parts.payload).to_vec();
    *body.last_mut().unwrap() ^= 1;
    let error = parts.decode(body.into()).unwrap_err();
    assert!(error.message().contains("checksum"), "{error}");
}

fn head(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    write(&mut writer);
    writer.finish()
}

/// A chunk of one column.
fn forged(data_type: DataType, rows: u64, head: Vec<u8>, payload: &[u8]) -> Result<RecordBatch> {
    let parts = Parts {
        schema: Arc::new(Schema::new(vec![Field::new("a", data_type, true)])),
        dictionaries: Vec::new(),
        header: ChunkHeader {
            query: 7,
            place: Place::Frame,
            number: 0,
            rows,
            checksum: 0,
            skip: 0,
            head: head.clone(),
        },
        payload: Vec::new(),
    };
    parts.decode(parts.body(&head, payload))
}

#[test]
fn lying_lengths_take_no_memory() {
    let many = i32::MAX as u64;
    let float_array =
        DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float64, true)), i32::MAX);
    let list = DataType::LargeList(Arc::new(Field::new("item", DataType::Int8, true)));
    let cases: Vec<(&str, DataType, u64, Vec<u8>)> = vec![
        ("constant", DataType::Int64, many, head(|to| _ = to.u8(4).u8(0).i64(7))),
        ("blocks without width", DataType::Int8, many, head(|to| _ = to.u8(2).u8(0).i64(1).u8(0).u32(0))),
        ("all null", DataType::LargeUtf8, many, head(|to| _ = to.u8(0).u8(2))),
        ("all null arrays", float_array, 1, head(|to| _ = to.u8(0).u8(2))),
        ("runs", DataType::Int32, 10, head(|to| _ = to.u8(5).u8(0).u32(u32::MAX).u8(4).u8(0).i64(1))),
        ("dictionary", DataType::Int32, 10, head(|to| _ = to.u8(7).u8(0).u32(u32::MAX).u8(4).u8(0).i64(1))),
        ("zstd", DataType::Int64, many, head(|to| _ = to.u8(0).u8(0).u8(2).u32(u32::MAX).u32(0))),
        ("lz4", DataType::Int64, 1 << 28, head(|to| _ = to.u8(0).u8(0).u8(1).u32(1 << 31).u32(0))),
        (
            "long strings",
            DataType::LargeUtf8,
            4,
            head(|to| {
                to.u8(0).u8(0).u8(4).u8(0).i64(1 << 30);
                to.u8(1).u32(u32::MAX).u32(0);
            }),
        ),
        (
            "long lists",
            list,
            4,
            head(|to| {
                to.u8(0).u8(0).u8(4).u8(0).i64(1 << 30);
                to.u8(4).u8(0).i64(1);
            }),
        ),
        (
            "symbols",
            DataType::LargeUtf8,
            4,
            head(|to| {
                to.u8(9).u8(0).u8(0).u8(0).u32(0).u8(0).u32(0).u8(4).u8(0).i64(1 << 30).u8(0).u32(0);
            }),
        ),
    ];
    for (name, data_type, rows, head) in cases {
        let error = forged(data_type, rows, head, &[]).expect_err(name);
        assert_eq!(error.sqlstate(), "08P01", "{name}: {error}");
    }
    assert_modest();
}

#[test]
fn a_few_bytes_are_not_believed_to_be_much() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    let header = |rows| ChunkHeader {
        query: 7,
        place: Place::Frame,
        number: 0,
        rows,
        checksum: xxh3_64(&[]),
        skip: 0,
        head: head(|to| _ = to.u8(4).u8(0).i64(7)),
    };
    let body = |rows| -> Buffer { head(|to| header(rows).write(to)).into() };
    let decode = |rows| StreamDecoder::new(7, schema.clone()).chunk(body(rows)).unwrap().decode();
    assert_eq!(decode(1 << 20).unwrap().num_rows(), 1 << 20);
    let error = decode((256 << 20) / 8 + 1).unwrap_err();
    assert_eq!(error.sqlstate(), "08P01", "{error}");
    let words = Arc::new(Schema::new(vec![Field::new(
        "a",
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8)),
        true,
    )]));
    let dictionary = DictionaryHeader {
        query: 7,
        column: 0,
        number: 0,
        values: (1 << 26) + 1,
        checksum: xxh3_64(&[]),
        head: head(|to| _ = to.u8(0).u8(0).u8(4).u8(0).i64(0).u8(0).u32(0)),
    };
    let error = StreamDecoder::new(7, words).dictionary(head(|to| dictionary.write(to)).into()).unwrap_err();
    assert_eq!(error.sqlstate(), "08P01", "{error}");
    assert_modest();
}

/// A body with so many fields, of columns or of one struct.
fn fields(count: u32, in_struct: bool) -> Vec<u8> {
    head(|to| {
        if in_struct {
            to.u32(1).text("").u8(1).u8(26);
        }
        to.u32(count);
        (0..count).for_each(|_| _ = to.text("").u8(1).u8(1));
    })
}

#[test]
fn many_fields_take_no_memory() {
    for in_struct in [false, true] {
        // Fields that are there, and those that are only said to be.
        let mut few = fields(10, in_struct);
        let at = if in_struct { 10 } else { 0 };
        few[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        for fields in [fields(1 << 21, in_struct), few] {
            let error = read_schema(&mut Reader::new(&fields)).unwrap_err();
            assert_eq!(error.sqlstate(), "08P01", "{error}");
            let query = Query {
                query: 1,
                kind: QueryKind::Sql,
                descriptors: false,
                progress: false,
                chunk_bytes: 0,
                credit: 0,
                text: String::new(),
                parameters: None,
            };
            let frame = query.frame();
            // One kind of parameters, no names, the schema, empty head and payload.
            let body = [&frame[8..frame.len() - 5], &[1, 0, 0, 0, 0], &fields, &[0; 8]].concat();
            assert_eq!(Query::decode(&body).unwrap_err().sqlstate(), "08P01");
        }
    }
    let tables = |columns: u32| {
        head(|to| {
            to.u32(1).u32(100);
            for _ in 0..100 {
                to.text("").text("t").u8(0).u64(0).u32(columns);
                (0..columns).for_each(|_| _ = to.text("").u8(1).u8(1));
            }
        })
    };
    assert_eq!(TableEntry::decode_list(&tables(100)).unwrap().1.len(), 100);
    let error = TableEntry::decode_list(&tables(11_000)).unwrap_err();
    assert_eq!(error.sqlstate(), "54000", "the connection goes on: {error}");
    assert_modest();
}

#[test]
fn endless_nesting_is_refused() {
    let runs = head(|to| {
        for _ in 0..10_000 {
            to.u8(5).u8(0).u32(1);
        }
    });
    assert!(forged(DataType::Int32, 1, runs, &[]).unwrap_err().message().contains("nested"));
}

#[test]
fn differences_are_of_earlier_columns_only() {
    for column in [0, 1, u32::MAX] {
        let head = head(|to| _ = to.u8(6).u8(0).u32(column).u8(4).u8(0).i64(1));
        assert!(forged(DataType::Int32, 1, head, &[]).unwrap_err().message().contains("differ"));
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let head = head(|to| _ = to.u8(0).u8(0).u8(4).u8(0).i64(1).u8(0).u32(2));
    // Each half of a character is wrong, though both together are right.
    assert!(forged(DataType::LargeUtf8, 2, head.clone(), "ü".as_bytes()).is_err());
    assert!(forged(DataType::LargeUtf8, 2, head.clone(), b"a\xff").is_err());
    assert_eq!(forged(DataType::LargeUtf8, 2, head, b"ab").unwrap().num_rows(), 2);
}

#[test]
fn chunks_come_in_order_and_whole() {
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let schema = canonical_schema(&batch.schema()).unwrap();
    let mut encoder = encoder(&schema, Codec::Auto);
    let chunks: Vec<_> = (0..3).map(|_| encoder.plan(batch.clone()).unwrap().encode().unwrap()).collect();
    // Told in another order than they were sent in, they make the same checksum.
    chunks.iter().rev().for_each(|chunk| sent(&mut encoder, chunk));
    let end = encoder.end();
    let mut decoder = StreamDecoder::new(7, schema.clone());
    decode_frames(&mut decoder, &chunks[0]).unwrap();
    for wrong in [0, 2] {
        let error = decode_frames(&mut decoder, &chunks[wrong]).unwrap_err();
        assert!(error.message().contains(&format!("chunk {wrong}")), "{error}");
    }
    decode_frames(&mut decoder, &chunks[1]).unwrap();
    assert_eq!((decoder.next(), decoder.rows()), (2, 200));
    assert!(decoder.end(end.rows, end.checksum).unwrap_err().message().contains("200 rows came where 300"));
    decode_frames(&mut decoder, &chunks[2]).unwrap();
    decoder.end(end.rows, end.checksum).unwrap();
    let mut other = StreamDecoder::new(8, schema);
    assert!(decode_frames(&mut other, &chunks[0]).is_err());
}

fn words(values: &ArrayRef, codes: Vec<Option<i32>>) -> RecordBatch {
    let array = DictionaryArray::<Int32Type>::try_new(codes.into(), values.clone()).unwrap();
    RecordBatch::try_from_iter([("a", Arc::new(array) as ArrayRef)]).unwrap()
}

#[test]
fn dictionaries_are_sent_once_and_may_change() {
    let one: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
    let other: ArrayRef = Arc::new(LargeStringArray::from(vec!["z", "ä"]));
    let batches = [
        words(&one, vec![Some(0), None, Some(2)]),
        words(&one, vec![Some(1), Some(1)]),
        words(&other, vec![Some(1), None]),
        words(&other, vec![None, None]),
    ];
    let schema = canonical_schema(&batches[0].schema()).unwrap();
    let mut encoder = encoder(&schema, Codec::Auto);
    let mut decoder = StreamDecoder::new(7, schema.clone());
    let mut builder = [ColumnBuilder::new(schema.field(0))];
    for (batch, frames) in batches.iter().zip([2, 1, 2, 1]) {
        let encoded = encoder.plan(batch.clone()).unwrap().encode().unwrap();
        sent(&mut encoder, &encoded);
        assert_eq!(encoded.frames.len(), frames);
        let (chunk, dictionaries) = encoded.frames.split_last().unwrap();
        for dictionary in dictionaries {
            decoder.dictionary(body(dictionary)).unwrap();
        }
        decoder.chunk(body(chunk)).unwrap().decode_into(&mut builder).unwrap();
    }
    let end = encoder.end();
    decoder.end(end.rows, end.checksum).unwrap();
    let [builder] = builder;
    let column = builder.finish().unwrap();
    assert_eq!(column.as_dictionary::<Int32Type>().keys().values(), &[0, -1, 2, 1, 1, 3, -1, -1, -1]);
    assert_eq!(column.as_any_dictionary().values().len(), 4, "z is in both");
    let column = arrow_cast::cast(&column, &DataType::Utf8).unwrap();
    let expected = StringArray::from(vec![
        Some("x"),
        None,
        Some("z"),
        Some("y"),
        Some("y"),
        Some("ä"),
        None,
        None,
        None,
    ]);
    assert_eq!(column.to_data(), expected.to_data());
}

#[test]
fn of_a_large_dictionary_only_what_is_used_is_sent_until_it_pays() {
    let values: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..5000).map(|index| format!("value {index}"))));
    let batch = words(&values, (0..1000).map(|row| (row % 9 != 0).then_some(row * 3 % 70 * 50)).collect());
    let schema = canonical_schema(&batch.schema()).unwrap();
    let mut encoder = encoder(&schema, Codec::Light);
    let mut decoder = StreamDecoder::new(7, schema.clone());
    let mut builder = [ColumnBuilder::new(schema.field(0))];
    let mut sizes = Vec::new();
    for _ in 0..4 {
        let encoded = encoder.plan(batch.clone()).unwrap().encode().unwrap();
        sent(&mut encoder, &encoded);
        let (chunk, dictionaries) = encoded.frames.split_last().unwrap();
        for dictionary in dictionaries {
            decoder.dictionary(body(dictionary)).unwrap();
        }
        sizes
            .push(DictionaryHeader::decode(&body(&encoded.frames[0])).map_or(0, |(header, _)| header.values));
        decoder.chunk(body(chunk)).unwrap().decode_into(&mut builder).unwrap();
    }
    assert_eq!(sizes[..3], [70, 70, 5000]);
    let [builder] = builder;
    let column = builder.finish().unwrap();
    let expected = arrow_select::concat::concat(&[batch.column(0).as_ref(); 4]).unwrap();
    let text = |array: &ArrayRef| arrow_cast::cast(array, &DataType::Utf8).unwrap();
    assert_eq!(&text(&column), &text(&expected));
    let mut other = common::encoder(&schema, Codec::Light);
    other.expect_rows(4000);
    let encoded = other.plan(batch).unwrap().encode().unwrap();
    assert_eq!(DictionaryHeader::decode(&body(&encoded.frames[0])).unwrap().0.values, 5000);
}

#[test]
fn nulls_among_the_values_of_a_dictionary_become_nulls() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("y")]));
    let batch = words(&values, vec![Some(2), Some(1), None, Some(0)]);
    let (schema, encoded) = encode(&batch, Codec::Auto);
    let decoded = decode_frames(&mut StreamDecoder::new(7, schema), &encoded).unwrap();
    let text = arrow_cast::cast(decoded.column(0), &DataType::Utf8).unwrap();
    let expected: ArrayRef = Arc::new(StringArray::from(vec![Some("y"), None, None, Some("x")]));
    assert_eq!(&text, &expected);
}

#[test]
fn codes_become_wider_when_dictionaries_together_need_it() {
    let code = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![Field::new("a", code.clone(), true)]));
    let canonical = canonical_schema(&schema).unwrap();
    let mut encoder = encoder(&canonical, Codec::Light);
    let mut decoder = StreamDecoder::new(7, canonical.clone());
    let mut builder = [ColumnBuilder::new(canonical.field(0))];
    let all: Vec<String> = (0..200).map(|index| format!("value {index}")).collect();
    for half in all.chunks(100) {
        let text: ArrayRef = Arc::new(StringArray::from(half.to_vec()));
        let batch =
            RecordBatch::try_new(schema.clone(), vec![arrow_cast::cast(&text, &code).unwrap()]).unwrap();
        let encoded = encoder.plan(batch).unwrap().encode().unwrap();
        decoder.dictionary(body(&encoded.frames[0])).unwrap();
        decoder.chunk(body(&encoded.frames[1])).unwrap().decode_into(&mut builder).unwrap();
    }
    let [builder] = builder;
    let column = builder.finish().unwrap();
    assert_eq!(column.as_dictionary::<Int32Type>().values().len(), 200);
    let expected: ArrayRef = Arc::new(StringArray::from(all));
    assert_eq!(&arrow_cast::cast(&column, &DataType::Utf8).unwrap(), &expected);
}

#[test]
fn a_chunk_needs_the_last_dictionary() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
    let (schema, encoded) = encode(&words(&values, vec![Some(0), None]), Codec::Light);
    let [dictionary, chunk] = encoded.frames.as_slice() else { panic!("{}", encoded.frames.len()) };
    let mut decoder = StreamDecoder::new(7, schema.clone());
    assert!(decoder.chunk(body(chunk)).unwrap().decode().unwrap_err().message().contains("dictionary 0"));
    let parts = Parts {
        schema: schema.clone(),
        dictionaries: vec![body(dictionary)],
        header: ChunkHeader::decode(&body(chunk)).unwrap().0,
        payload: payload(chunk).to_vec(),
    };
    assert!(parts.decode(body(chunk)).is_ok());
    // Code 3 is none of three values, and the code of a NULL is −1.
    for codes in [[3i32, -1], [-1, -1], [0, 0]] {
        let mut payload = parts.payload.clone();
        let at = payload.len() - 8;
        payload[at..].copy_from_slice(&codes.map(i32::to_le_bytes).concat());
        assert!(parts.decode(parts.body(&parts.header.head, &payload)).is_err(), "{codes:?}");
    }
    let whole = body(dictionary);
    for length in 0..whole.len() {
        assert!(
            StreamDecoder::new(7, schema.clone()).dictionary(whole.slice_with_length(0, length)).is_err()
        );
    }
}

#[test]
fn rows_of_parameters_are_checked_as_chunks_are() {
    let batch = batch(5, 1, false);
    let schema = canonical_schema(&batch.schema()).unwrap();
    let (head, payload) = encode_row(&batch).unwrap();
    for length in 0..head.len() {
        assert!(decode_row(schema.clone(), &head[..length], &payload).is_err());
    }
    for length in 0..payload.len() {
        assert!(decode_row(schema.clone(), &head, &payload[..length]).is_err());
    }
}
