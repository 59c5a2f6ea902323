//! Sizes and speeds of TPC-H's lineitem, column by column and as a whole:
//! `cargo test --release -p hypostyle-wire --test all measure:: -- --ignored --nocapture`. The rows are in
//! `$HYPOSTYLE_LINEITEM`, a CSV file without a header, or where the benches keep them.

use crate::common::*;
use arrow_array::{
    ArrayRef, Date32Array, Decimal64Array, Int32Array, Int64Array, LargeStringArray, RecordBatch,
};
use arrow_schema::Schema;
use hypostyle_types::calendar::days_of;
use hypostyle_wire::{Codec, ColumnBuilder, FrameType, OnLink, StreamDecoder, canonical_schema};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHUNK_ROWS: usize = 8192;

/// One column of the file, as text.
fn fields() -> Vec<Vec<String>> {
    let path = std::env::var("HYPOSTYLE_LINEITEM").unwrap_or_else(|_| {
        format!("{}/.cache/hypostyle/data/tpch-sf0.1/lineitem.csv", std::env::var("HOME").unwrap())
    });
    let mut columns = vec![Vec::new(); 16];
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let mut parts = line.splitn(16, ',');
        for column in &mut columns {
            column.push(parts.next().unwrap().trim_matches('"').to_string());
        }
    }
    columns
}

fn days(date: &str) -> i32 {
    let parts: Vec<u32> = date.split('-').map(|part| part.parse().unwrap()).collect();
    days_of(parts[0].into(), parts[1], parts[2].into()) as i32
}

fn lineitem() -> RecordBatch {
    const NAMES: [&str; 16] = [
        "orderkey",
        "partkey",
        "suppkey",
        "linenumber",
        "quantity",
        "extendedprice",
        "discount",
        "tax",
        "returnflag",
        "linestatus",
        "shipdate",
        "commitdate",
        "receiptdate",
        "shipinstruct",
        "shipmode",
        "comment",
    ];
    let columns = NAMES.into_iter().zip(fields()).enumerate().map(|(index, (name, texts))| {
        let array: ArrayRef = match index {
            0..3 => Arc::new(Int64Array::from_iter_values(texts.iter().map(|text| text.parse().unwrap()))),
            3 => Arc::new(Int32Array::from_iter_values(texts.iter().map(|text| text.parse().unwrap()))),
            4..8 => {
                let cents = texts.iter().map(|text| text.replace('.', "").parse().unwrap());
                Arc::new(Decimal64Array::from_iter_values(cents).with_precision_and_scale(15, 2).unwrap())
            }
            10..13 => Arc::new(Date32Array::from_iter_values(texts.iter().map(|text| days(text)))),
            _ => Arc::new(LargeStringArray::from_iter_values(texts)),
        };
        (name, array)
    });
    RecordBatch::try_from_iter(columns).unwrap()
}

struct Measured {
    bytes: usize,
    raw: u64,
    encode: Duration,
    decode: Duration,
    chosen: String,
}

/// Sends a batch over a link of so many bytes a second, which only exists in the numbers.
fn measure(batch: &RecordBatch, codec: Codec, link: f64) -> Measured {
    let schema = canonical_schema(&batch.schema()).unwrap();
    let mut encoder = encoder(&schema, codec);
    let mut decoder = StreamDecoder::new(7, schema.clone());
    let mut builders: Vec<ColumnBuilder> =
        schema.fields().iter().map(|field| ColumnBuilder::new(field)).collect();
    builders.iter_mut().for_each(|builder| builder.reserve(batch.num_rows(), 30 * batch.num_rows()));
    let (mut encode, mut decode, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    for start in (0..batch.num_rows()).step_by(CHUNK_ROWS) {
        let chunk = batch.slice(start, CHUNK_ROWS.min(batch.num_rows() - start));
        let begin = Instant::now();
        let encoded = encoder.plan(chunk).unwrap().encode().unwrap();
        encode += begin.elapsed();
        let time = Duration::from_secs_f64(encoded.body_bytes() as f64 / link);
        encoder.sent(&encoded, Some(OnLink::full(encoded.body_bytes() as u64, time)));
        bytes += encoded.body_bytes();
        for frame in &encoded.frames {
            let body = body(frame);
            let begin = Instant::now();
            match frame.frame_type {
                FrameType::Dictionary => decoder.dictionary(body).unwrap(),
                _ => decoder.chunk(body).unwrap().decode_into(&mut builders).unwrap(),
            }
            decode += begin.elapsed();
        }
    }
    let begin = Instant::now();
    for (builder, column) in builders.into_iter().zip(batch.columns()) {
        assert_eq!(&builder.finish().unwrap(), column);
    }
    let _compare = begin.elapsed();
    let end = encoder.end();
    decoder.end(end.rows, end.checksum).unwrap();
    let chosen: Vec<String> = end
        .chosen
        .iter()
        .map(|chosen| {
            format!("{}:{}/{}x{}", chosen.column, chosen.encoding, chosen.compression, chosen.chunks)
        })
        .collect();
    Measured { bytes, raw: end.raw, encode, decode, chosen: chosen.join(" ") }
}

#[test]
#[ignore = "measures"]
fn lineitem_by_codec() {
    let batch = lineitem();
    let rows = batch.num_rows() as f64;
    let report = |name: &str, measured: &Measured| {
        let speed = |time: Duration| measured.raw as f64 / time.as_secs_f64() / 1e9;
        println!(
            "{name:32} {:8.3} B/row  encode {:6.2} GB/s  decode {:6.2} GB/s",
            measured.bytes as f64 / rows,
            speed(measured.encode),
            speed(measured.decode),
        );
    };
    let codecs = [Codec::None, Codec::Light, Codec::Lz4, Codec::Zstd(1), Codec::Zstd(3), Codec::Zstd(9)];
    for codec in codecs {
        report(&format!("all {codec}"), &measure(&batch, codec, 1e9));
    }
    for (index, field) in batch.schema().fields().iter().enumerate() {
        let column = RecordBatch::try_new(
            Arc::new(Schema::new(vec![field.clone()])),
            vec![batch.column(index).clone()],
        );
        for codec in [Codec::Light, Codec::Zstd(1), Codec::Zstd(9)] {
            let measured = measure(column.as_ref().unwrap(), codec, 1e9);
            report(&format!("{} {codec}", field.name()), &measured);
            println!("    {}", measured.chosen);
        }
    }
}

#[test]
#[ignore = "measures"]
fn lineitem_by_link() {
    let batch = lineitem();
    // Ten times over: what is learned must pay.
    let batches = vec![&batch; 4];
    let batch = arrow_select::concat::concat_batches(&batch.schema(), batches).unwrap();
    for (name, link) in [
        ("10 Mbit/s", 1.25e6),
        ("100 Mbit/s", 12.5e6),
        ("1 Gbit/s", 125e6),
        ("10 Gbit/s", 1.25e9),
        ("loopback", 5e9),
    ] {
        for codec in [Codec::Auto, Codec::None, Codec::Light, Codec::Zstd(1), Codec::Zstd(9)] {
            if codec == Codec::Zstd(9) && link > 2e7 {
                continue;
            }
            let measured = measure(&batch, codec, link);
            let (encode, send) = (measured.encode.as_secs_f64() / 2.0, measured.bytes as f64 / link);
            println!(
                "{name:10} {codec:7} {:7.3} B/row  encode on 2 {encode:6.2} s  send {send:7.2} s  longer {:7.2} s  decode {:5.2} s",
                measured.bytes as f64 / batch.num_rows() as f64,
                encode.max(send),
                measured.decode.as_secs_f64(),
            );
            if codec == Codec::Auto {
                println!("    {}", measured.chosen);
            }
        }
    }
}
