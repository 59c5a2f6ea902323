//! Decodes a chunk of any schema with any head and payload and a right checksum. The result is an
//! error or rows, and the same whether they are decoded to a batch or to columns. Rows are the same
//! after a round trip.
#![no_main]

use arrow_array::Array;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use hypostyle_types::Error;
use hypostyle_wire::{
    COMPRESSIONS, ChunkHeader, Codec, ColumnBuilder, FrameType, Place, Reader, StreamDecoder, StreamEncoder,
    Writer, read_schema,
};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64;

/// The bytes of memory that a chunk may have; well below libFuzzer's limit.
const LIMIT: usize = 64 << 20;

/// An input; the tests of `wire` write the seeds.
struct Input<'a> {
    schema: SchemaRef,
    rows: u16,
    in_memory: bool,
    head: &'a [u8],
    payload: &'a [u8],
}

fn parse(bytes: &[u8]) -> Result<Input<'_>, Error> {
    let mut reader = Reader::new(bytes);
    Ok(Input {
        schema: read_schema(&mut reader)?,
        rows: reader.u16()?,
        in_memory: reader.flag()?,
        head: reader.bytes()?,
        payload: reader.rest(),
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(Input { schema, rows, in_memory, head, payload }) = parse(bytes) else { return };
    let place = if in_memory { Place::MemoryFile } else { Place::Frame };
    let checksum = if in_memory { 0 } else { xxh3_64(payload) };
    let header =
        ChunkHeader { query: 1, place, number: 0, rows: rows.into(), checksum, skip: 0, head: head.to_vec() };
    let mut writer = Writer::default();
    header.write(&mut writer);
    writer.raw(payload);
    let body = writer.finish();
    let job = || {
        let mut decoder = StreamDecoder::new(1, schema.clone()).with_limit(LIMIT);
        match in_memory {
            true => decoder.mapped_chunk(header.clone(), Buffer::from(payload)).unwrap(),
            false => decoder.chunk(Buffer::from(body.as_slice())).unwrap(),
        }
    };
    let batch = job().decode();
    let mut columns: Vec<_> = schema.fields().iter().map(|field| ColumnBuilder::new(field)).collect();
    let appended = job().decode_into(&mut columns);
    let appended =
        appended.and_then(|()| columns.into_iter().map(ColumnBuilder::finish).collect::<Result<Vec<_>, _>>());
    let (batch, columns) = match (batch, appended) {
        (Ok(batch), Ok(columns)) => (batch, columns),
        (Err(_), Err(_)) => return,
        // The two ways allocate memory differently.
        (Err(error), _) | (_, Err(error)) => {
            assert!(error.message().contains("more than a chunk may have"), "{error}");
            return;
        }
    };
    for (one, other) in batch.columns().iter().zip(&columns) {
        assert_eq!(one.to_data(), other.to_data());
    }
    for codec in [Codec::None, Codec::Light, Codec::Zstd(1)] {
        let mut encoder = StreamEncoder::new(1, schema.clone(), COMPRESSIONS, codec, 1);
        let encoded = encoder.plan(batch.clone()).unwrap().encode().unwrap();
        let mut decoder = StreamDecoder::new(1, schema.clone());
        for frame in encoded.frames {
            let mut body = frame.head;
            frame.payload.iter().for_each(|piece| body.extend_from_slice(piece));
            if frame.frame_type == FrameType::Chunk {
                let again = decoder.chunk(body.into()).unwrap().decode().unwrap();
                for (one, other) in batch.columns().iter().zip(again.columns()) {
                    assert_eq!(one.to_data(), other.to_data());
                }
            } else {
                decoder.dictionary(body.into()).unwrap();
            }
        }
    }
});
