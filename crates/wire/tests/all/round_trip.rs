//! Batches come back as they were, whatever their types and however they were encoded (protocol.md §10, §11).

use crate::common::*;
use arrow_array::{ArrayRef, Date32Array, Date64Array, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use hypostyle_types::ErrorKind;
use hypostyle_wire::{
    ChunkHeader, Codec, ColumnBuilder, DecodeJob, EncodeJob, Encoded, FrameType, StreamDecoder,
    StreamEncoder, canonical_schema, decode_row, encode_row, rows_that_fit,
};
use proptest::prelude::*;
use std::sync::Arc;

/// Checks a batch in all ways that there are.
fn check(batch: &RecordBatch, codec: Codec) {
    let schema = canonical_schema(&batch.schema()).unwrap();
    let expected = expected(batch, &schema);
    let mut encoder = encoder(&schema, codec);
    let mut decoder = StreamDecoder::new(7, schema.clone());
    let mut builders: Vec<ColumnBuilder> =
        schema.fields().iter().map(|field| ColumnBuilder::new(field)).collect();
    builders.iter_mut().for_each(|builder| builder.reserve(batch.num_rows(), 10));
    for number in 0..2 {
        let encoded = encoder.plan(batch.clone()).unwrap().encode().unwrap();
        sent(&mut encoder, &encoded);
        assert_eq!((encoded.number, encoded.rows), (number, batch.num_rows() as u64));
        for frame in &encoded.frames {
            assert_eq!((frame.body_bytes() - frame.payload_bytes()) % 16, 0);
            if frame.frame_type == FrameType::Dictionary {
                decoder.dictionary(body(frame)).unwrap();
                continue;
            }
            // Once from where it is aligned, once from where it is not.
            let shifted = arrow_buffer::Buffer::from([&[0], body(frame).as_slice()].concat()).slice(1);
            let mut other = StreamDecoder::new(7, schema.clone());
            let chunk = decoder.chunk(body(frame)).unwrap();
            assert_eq!(chunk.rows(), batch.num_rows());
            assert_eq!(chunk.decode().unwrap(), expected);
            let dictionaries = encoded.frames.len() > 1 || number > 0;
            if number == 0 {
                for frame in &encoded.frames[..encoded.frames.len() - 1] {
                    other.dictionary(body(frame)).unwrap();
                }
                let chunk = other.chunk(shifted).unwrap();
                chunk.decode_into(&mut builders).unwrap();
            } else {
                assert!(dictionaries);
            }
        }
    }
    let end = encoder.end();
    assert_eq!(decoder.next(), 2);
    decoder.end(end.rows, end.checksum).unwrap();
    assert_eq!(decoder.end(end.rows + 1, end.checksum).unwrap_err().sqlstate(), "08P01");
    assert_eq!(decoder.end(end.rows, end.checksum ^ 1).unwrap_err().sqlstate(), "08P01");
    for (builder, column) in builders.into_iter().zip(expected.columns()) {
        assert_eq!(builder.rows(), batch.num_rows());
        assert_eq!(&builder.finish().unwrap(), column);
    }
    check_in_memory(batch, &expected);
}

fn check_in_memory(batch: &RecordBatch, expected: &RecordBatch) {
    let schema = expected.schema();
    let encoded = encoder(&schema, Codec::Auto).plan(batch.clone()).unwrap().encode_for_memory().unwrap();
    let mut decoder = StreamDecoder::new(7, schema);
    for frame in &encoded.frames {
        if frame.frame_type == FrameType::Dictionary {
            decoder.dictionary(body(frame)).unwrap();
            continue;
        }
        let (header, length) = ChunkHeader::decode(&frame.head).unwrap();
        assert_eq!(length, frame.head.len());
        assert_eq!(&decoder.mapped_chunk(header, payload(frame)).unwrap().decode().unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn all_types_come_back(
        seed in any::<u64>(),
        rows in prop_oneof![0usize..4, 10usize..100, 900usize..1200, 2000usize..5000],
        with_nulls in any::<bool>(),
        codec in prop::sample::select(CODECS.to_vec()),
        cut in 0usize..20,
    ) {
        let batch = batch(seed, rows + cut, with_nulls);
        check(&batch.slice(cut, rows), codec);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn joined_chunks_are_one_batch(
        seed in any::<u64>(),
        rows in 0usize..3000,
        chunks in 1usize..6,
        with_nulls in any::<bool>(),
        codec in prop::sample::select(CODECS.to_vec()),
    ) {
        let batch = batch(seed, rows, with_nulls);
        let schema = canonical_schema(&batch.schema()).unwrap();
        let mut encoder = encoder(&schema, codec);
        let mut decoder = StreamDecoder::new(7, schema.clone());
        let (mut jobs, mut received): (Vec<DecodeJob>, Vec<RecordBatch>) = (Vec::new(), Vec::new());
        for chunk in 0..chunks {
            let (start, end) = (rows * chunk / chunks, rows * (chunk + 1) / chunks);
            let encoded = encoder.plan(batch.slice(start, end - start)).unwrap().encode().unwrap();
            sent(&mut encoder, &encoded);
            for frame in &encoded.frames {
                if frame.frame_type == FrameType::Dictionary {
                    decoder.dictionary(body(frame)).unwrap();
                    continue;
                }
                let job = decoder.chunk(body(frame)).unwrap();
                // Codes of another dictionary are of another batch.
                if jobs.last().is_some_and(|last| !last.joins(&job)) {
                    received.push(DecodeJob::decode_joined(std::mem::take(&mut jobs)).unwrap());
                }
                jobs.push(job);
            }
        }
        received.push(DecodeJob::decode_joined(jobs).unwrap());
        let expected = expected(&batch, &schema);
        let mut start = 0;
        for received in received {
            prop_assert_eq!(&received, &expected.slice(start, received.num_rows()));
            start += received.num_rows();
        }
        prop_assert_eq!(start, rows);
    }
}

#[test]
fn no_chunks_are_no_batch() {
    assert_eq!(DecodeJob::decode_joined(Vec::new()).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_row_of_parameters_comes_back() {
    for seed in 0..20 {
        let batch = batch(seed, 1, seed % 2 == 0);
        let schema = canonical_schema(&batch.schema()).unwrap();
        let (head, payload) = encode_row(&batch).unwrap();
        let row = decode_row(schema, &head, &payload).unwrap();
        let expected = expected(&batch, &row.schema());
        assert_eq!(row, expected);
    }
    let schema = Arc::new(Schema::empty());
    assert_eq!(decode_row(schema, &[], &[]).unwrap().num_rows(), 1);
}

#[test]
fn jobs_may_be_done_by_any_thread() {
    fn is_send<T: Send + 'static>() {}
    is_send::<EncodeJob>();
    is_send::<Encoded>();
    is_send::<DecodeJob>();
    is_send::<StreamEncoder>();
    is_send::<StreamDecoder>();
    is_send::<ColumnBuilder>();
}

#[test]
fn a_result_may_have_no_columns() {
    check(&batch_of(Vec::new(), 5), Codec::Auto);
}

#[test]
fn columns_that_may_not_have_nulls_are_refused_with_one() {
    let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let (_, encoded) = encode(&batch, Codec::Light);
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
    let mut decoder = StreamDecoder::new(7, schema.clone());
    assert_eq!(decode_frames(&mut decoder, &encoded).unwrap_err().sqlstate(), "08P01");
    let mut builders = [ColumnBuilder::new(schema.field(0))];
    let chunk = StreamDecoder::new(7, schema).chunk(body(&encoded.frames[0])).unwrap();
    assert_eq!(chunk.decode_into(&mut builders).unwrap_err().sqlstate(), "08P01");
}

#[test]
fn a_column_differs_from_what_is_sent_and_not_from_what_was_cast_to_it() {
    let days = || (0..2000i64).map(|row| row * 7919 % 2500);
    let long: ArrayRef = Arc::new(Date64Array::from_iter_values(days().map(|day| day * 86_400_000)));
    let short: ArrayRef = Arc::new(Date32Array::from_iter_values(days().map(|day| day as i32 + 3)));
    check(&RecordBatch::try_from_iter([("a", long), ("b", short)]).unwrap(), Codec::Light);
}

#[test]
fn chunks_have_as_many_rows_as_fit() {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100_000));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..100_000).map(|number| format!("{number:08}"))));
    let batch = RecordBatch::try_from_iter([("a", numbers), ("b", texts)]).unwrap();
    assert_eq!(rows_that_fit(&batch, 0, 16 * 5000), 4096);
    assert_eq!(rows_that_fit(&batch, 90_000, 16 * 500), 500);
    assert_eq!(rows_that_fit(&batch, 99_999, 1), 1);
    assert_eq!(rows_that_fit(&batch, 0, 0), 1);
    assert_eq!(rows_that_fit(&batch, 0, 1 << 30), 100_000);
}
