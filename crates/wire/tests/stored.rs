//! A result that is the files of stored columns (protocol.md §10.5, place 2).

mod common;

use arrow_array::cast::AsArray;
use arrow_array::types::Int16Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, LargeStringArray, RecordBatch, StructArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use hypostyle_types::Result;
use hypostyle_wire::*;
use std::sync::Arc;

/// Files, each with something before what is meant.
#[derive(Default)]
struct Files(Vec<Buffer>);

impl Files {
    fn add(&mut self, bytes: &[u8]) -> FileSlice {
        let descriptor = self.0.len() as u16;
        self.0.push([&[7; 64], bytes].concat().into());
        FileSlice { descriptor, offset: 64, length: bytes.len() as u64 }
    }

    fn mask(&mut self, array: &dyn Array) -> Option<FileSlice> {
        array.nulls().map(|nulls| self.add(&nulls.inner().sliced()[..array.len().div_ceil(8)]))
    }
}

fn rows() -> RecordBatch {
    let numbers: ArrayRef =
        Arc::new(Int32Array::from_iter((0..100).map(|row| (row % 7 != 0).then_some(row))));
    let texts: ArrayRef =
        Arc::new(LargeStringArray::from_iter_values((0..100).map(|row| format!("text {row}"))));
    let words: ArrayRef = Arc::new(LargeStringArray::from(vec!["x", "y"]));
    let codes = (0..100).map(|row| (row % 3 != 0).then_some(row % 2)).collect();
    let codes: ArrayRef = Arc::new(DictionaryArray::<Int16Type>::try_new(codes, words).unwrap());
    let members: ArrayRef = Arc::new(StructArray::from(vec![(
        Arc::new(Field::new("n", DataType::Int32, true)),
        numbers.clone(),
    )]));
    RecordBatch::try_from_iter_with_nullable([
        ("numbers", numbers, true),
        ("texts", texts, true),
        ("codes", codes, true),
        ("members", members, true),
    ])
    .unwrap()
}

fn store(batch: &RecordBatch) -> (Vec<u8>, Files) {
    let (mut head, mut files) = (FilesHead::default(), Files::default());
    let numbers = batch.column(0).as_primitive::<arrow_array::types::Int32Type>();
    let (mask, values) = (files.mask(numbers), files.add(numbers.values().inner()));
    head.values(mask, values);
    let texts = batch.column(1).as_string::<i64>();
    head.text(None, files.add(texts.offsets().inner().inner()), files.add(texts.values()));
    let codes = batch.column(2).as_dictionary::<Int16Type>();
    let words = codes.values().as_string::<i64>();
    head.dictionary(2).text(None, files.add(words.offsets().inner().inner()), files.add(words.values()));
    let marked: Vec<u8> = codes.keys().iter().flat_map(|code| code.unwrap_or(-1).to_le_bytes()).collect();
    head.values(files.mask(codes), files.add(&marked));
    head.parent(None).values(mask, values);
    (head.finish(), files)
}

fn read(schema: &SchemaRef, head: &[u8], skip: u64, rows: u64, files: &[Buffer]) -> Result<RecordBatch> {
    let header = ChunkHeader {
        query: 7,
        place: Place::Columns,
        number: 0,
        rows,
        checksum: 0,
        skip,
        head: head.to_vec(),
    };
    let mut writer = Writer::default();
    header.write(&mut writer);
    let (header, _) = ChunkHeader::decode(&writer.finish()).unwrap();
    let mut decoder = StreamDecoder::new(7, schema.clone());
    let batch = decoder.stored_chunk(&header, files)?;
    assert_eq!((decoder.rows(), decoder.next()), (rows, 1));
    Ok(batch)
}

#[test]
fn stored_columns_are_taken_as_they_lie() {
    let batch = rows();
    let (head, files) = store(&batch);
    for skip in [0, 13, 100] {
        let found = read(&batch.schema(), &head, skip, 100 - skip, &files.0).unwrap();
        assert_eq!(found, batch.slice(skip as usize, 100 - skip as usize));
    }
    let found = read(&batch.schema(), &head, 0, 100, &files.0).unwrap();
    let texts = found.column(1).as_string::<i64>();
    assert_eq!(texts.values().as_ptr(), files.0[3].slice(64).as_ptr(), "nothing is copied");
}

#[test]
fn files_that_are_not_what_the_head_says_are_refused() {
    let batch = rows();
    let (head, files) = store(&batch);
    let schema = batch.schema();
    assert!(read(&schema, &head, 0, 99, &files.0).is_err());
    assert!(read(&schema, &head, u64::MAX, 2, &files.0).is_err());
    assert!(read(&schema, &head, 0, 100, &files.0[..files.0.len() - 1]).is_err());
    for length in 0..head.len() {
        assert!(read(&schema, &head[..length], 0, 100, &files.0).is_err());
    }
    for position in 0..head.len() {
        for flip in [1, 0x40, 0xff] {
            let mut changed = head.clone();
            changed[position] ^= flip;
            if let Err(error) = read(&schema, &changed, 0, 100, &files.0) {
                assert_eq!(error.sqlstate(), "08P01");
            }
        }
    }
    let constant = [&[4u8, 0][..], &7i64.to_le_bytes()].concat();
    let one = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    assert!(read(&one, &constant, 0, 1, &[]).unwrap_err().message().contains("encoding 4"));
}
