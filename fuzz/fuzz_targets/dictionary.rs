//! Decodes a dictionary of any values and a chunk of any codes, with right checksums.
#![no_main]

use arrow_array::Array;
use arrow_schema::{DataType, Field, Schema};
use hypostyle_wire::{ChunkHeader, ColumnBuilder, DictionaryHeader, Place, StreamDecoder, Writer};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const LIMIT: usize = 64 << 20;

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    code_bytes: u8,
    is_text: bool,
    /// The head, the payload, and the announced number of values or rows.
    dictionaries: [(&'a [u8], &'a [u8], u16); 2],
    chunks: [(&'a [u8], &'a [u8], u16); 2],
}

fuzz_target!(|input: Input<'_>| {
    let code = [DataType::Int8, DataType::Int16, DataType::Int32][usize::from(input.code_bytes) % 3].clone();
    let values = if input.is_text { DataType::LargeUtf8 } else { DataType::LargeBinary };
    let field = Field::new("a", DataType::Dictionary(Box::new(code), Box::new(values)), true);
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let mut decoder = StreamDecoder::new(1, schema).with_limit(LIMIT);
    let mut columns = [ColumnBuilder::new(&field)];
    let mut rows = 0;
    for (number, (dictionary, chunk)) in input.dictionaries.into_iter().zip(input.chunks).enumerate() {
        let (head, payload, values) = dictionary;
        let header = DictionaryHeader {
            query: 1,
            column: 0,
            number: number as u32,
            values: values.into(),
            checksum: xxh3_64(payload),
            head: head.to_vec(),
        };
        let mut writer = Writer::default();
        header.write(&mut writer);
        writer.raw(payload);
        if decoder.dictionary(writer.finish().into()).is_err() {
            return;
        }
        let (head, payload, chunk_rows) = chunk;
        let header = ChunkHeader {
            query: 1,
            place: Place::Frame,
            number: number as u64,
            rows: chunk_rows.into(),
            checksum: xxh3_64(payload),
            skip: 0,
            head: [&(number as u32).to_le_bytes(), head].concat(),
        };
        let mut writer = Writer::default();
        header.write(&mut writer);
        writer.raw(payload);
        let Ok(()) = decoder.chunk(writer.finish().into()).unwrap().decode_into(&mut columns) else { return };
        rows += usize::from(chunk_rows);
    }
    let [column] = columns;
    let column = column.finish().unwrap();
    assert_eq!(column.len(), rows);
    column.to_data().validate_full().unwrap();
});
