//! Batches of all types, and the way there and back.
#![allow(dead_code)]

use arrow_array::builder::{
    FixedSizeBinaryBuilder, FixedSizeListBuilder, Float32Builder, Int32Builder, LargeListBuilder,
    ListBuilder, MapBuilder, StringBuilder,
};
use arrow_array::types::{Int8Type, Int16Type, Int32Type, UInt32Type};
use arrow_array::*;
use arrow_buffer::{Buffer, IntervalMonthDayNano, NullBuffer, i256};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use hypostyle_types::{LogicalType, Result};
use hypostyle_wire::{
    COMPRESSIONS, Codec, Encoded, EncodedFrame, FrameType, OnLink, StreamDecoder, StreamEncoder,
    canonical_schema,
};
use std::sync::Arc;
use std::time::Duration;

pub const CODECS: [Codec; 6] =
    [Codec::Auto, Codec::None, Codec::Light, Codec::Lz4, Codec::Zstd(1), Codec::Zstd(9)];

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Integers that look like those of some column: random, narrow, sorted, repeated, few, multiples, constant.
pub fn integers(random: &mut Random, rows: usize) -> Vec<i64> {
    let (kind, scale) = (random.below(8), random.below(1000) as i64 + 2);
    let start = random.next() as i64 >> random.below(60);
    let few: Vec<i64> = (0..5).map(|_| random.next() as i64).collect();
    let mut last = start;
    (0..rows)
        .map(|_| match kind {
            0 => random.next() as i64,
            1 => start.wrapping_add(random.below(1000) as i64),
            2 => {
                last = last.wrapping_add(random.below(30) as i64);
                last
            }
            3 => {
                if random.below(20) == 0 {
                    last = random.next() as i64;
                }
                last
            }
            4 => few[random.below(5) as usize],
            5 => start.wrapping_add((random.below(5000) as i64 - 2000).wrapping_mul(scale)),
            6 => start,
            _ => (random.next() as i64) >> random.below(64),
        })
        .collect()
}

pub fn strings(random: &mut Random, rows: usize) -> Vec<String> {
    const WORDS: [&str; 9] =
        ["", "a", "carefully", "Grüße", "日本", "final deposits ", "sleep", "quick", "x y z"];
    let (kind, most) = (random.below(4), random.below(8) + 1);
    let few: Vec<String> = (0..7).map(|index| format!("value number {index}")).collect();
    (0..rows)
        .map(|row| match kind {
            0 => few[random.below(7) as usize].clone(),
            1 => (0..random.below(most)).map(|_| WORDS[random.below(9) as usize]).collect(),
            2 => format!("{:x}", random.next()),
            _ => few[row / 50 % 7].clone(),
        })
        .collect()
}

pub fn floats(random: &mut Random, rows: usize) -> Vec<f64> {
    let kind = random.below(4);
    (0..rows)
        .map(|_| match kind {
            0 => f64::from_bits(random.next()),
            1 => random.below(1_000_000) as f64 / 100.0,
            2 if random.below(50) == 0 => [f64::NAN, -0.0, f64::INFINITY, 1e300][random.below(4) as usize],
            2 => random.below(100_000) as f64 / 1000.0 - 7.0,
            _ => random.below(10) as f64,
        })
        .collect()
}

fn nulls(random: &mut Random, rows: usize, with: bool) -> Option<NullBuffer> {
    let kind = if with { random.below(4) } else { 3 };
    match kind {
        0 => Some((0..rows).map(|_| random.below(10) != 0).collect()),
        1 => Some(NullBuffer::new_null(rows)),
        2 => Some((0..rows).map(|_| random.below(2) != 0).collect()),
        _ => None,
    }
}

/// One column of each type, and of each way in which Arrow has it.
pub fn columns(seed: u64, rows: usize, with_nulls: bool) -> Vec<(Field, ArrayRef)> {
    let mut random = Random(seed);
    let random = &mut random;
    let mut found: Vec<(Field, ArrayRef)> = Vec::new();
    let mut add = |name: &str, array: ArrayRef| {
        found.push((Field::new(name, array.data_type().clone(), true), array));
    };
    macro_rules! numbers {
        ($($array:ident $name:literal $type:ty $(, $with:ident $($argument:expr),*)?;)*) => {$({
            let values: Vec<$type> = integers(random, rows).into_iter().map(|value| value as $type).collect();
            let array = $array::new(values.into(), nulls(random, rows, with_nulls))$(.$with($($argument),*))?;
            add($name, Arc::new(array));
        })*};
    }
    numbers! {
        Int8Array "i8" i8; Int16Array "i16" i16; Int32Array "i32" i32; Int64Array "i64" i64;
        UInt8Array "u8" u8; UInt16Array "u16" u16; UInt32Array "u32" u32; UInt64Array "u64" u64;
        Date32Array "date" i32; Time64MicrosecondArray "time" i64;
        TimestampSecondArray "seconds" i64; TimestampMillisecondArray "milliseconds" i64;
        TimestampMicrosecondArray "microseconds" i64; TimestampNanosecondArray "nanoseconds" i64;
        TimestampMicrosecondArray "zoned" i64, with_timezone "Europe/Berlin";
        DurationMicrosecondArray "duration" i64;
    }
    let bounded = |values: Vec<i64>, most: i64| values.into_iter().map(move |value| value % most);
    let values = bounded(integers(random, rows), 999_999).map(|value| value as i32).collect::<Vec<_>>();
    let decimal = Decimal32Array::new(values.into(), nulls(random, rows, with_nulls));
    add("decimal 4", Arc::new(decimal.with_precision_and_scale(6, 2).unwrap()));
    let values = bounded(integers(random, rows), 999_999_999).collect::<Vec<_>>();
    let decimal = Decimal64Array::new(values.into(), nulls(random, rows, with_nulls));
    add("decimal 8", Arc::new(decimal.with_precision_and_scale(15, 2).unwrap()));
    for (name, factor) in [("decimal 16", 1i128), ("decimal 16 wide", 1 << 50)] {
        let values =
            integers(random, rows).into_iter().map(|value| i128::from(value) * factor).collect::<Vec<_>>();
        let decimal = Decimal128Array::new(values.into(), nulls(random, rows, with_nulls));
        add(name, Arc::new(decimal.with_precision_and_scale(38, 4).unwrap()));
    }
    let values =
        integers(random, rows).into_iter().map(|value| i256::from_i128(value.into())).collect::<Vec<_>>();
    let decimal = Decimal256Array::new(values.into(), nulls(random, rows, with_nulls));
    add("decimal 32", Arc::new(decimal.with_precision_and_scale(76, 4).unwrap()));
    let values = floats(random, rows);
    add("f64", Arc::new(Float64Array::new(values.into(), nulls(random, rows, with_nulls))));
    let values = floats(random, rows).into_iter().map(|value| value as f32).collect::<Vec<_>>();
    add("f32", Arc::new(Float32Array::new(values.into(), nulls(random, rows, with_nulls))));
    let bits = (0..rows).map(|_| random.below(3) == 0).collect::<Vec<_>>();
    add("bool", Arc::new(BooleanArray::new(bits.into(), nulls(random, rows, with_nulls))));
    let intervals = integers(random, rows)
        .into_iter()
        .map(|value| IntervalMonthDayNano::new(value as i32 % 12, value as i32 % 31, value))
        .collect::<Vec<_>>();
    add(
        "interval",
        Arc::new(IntervalMonthDayNanoArray::new(intervals.into(), nulls(random, rows, with_nulls))),
    );
    for (name, width) in [("uuid", 16), ("fixed", 3)] {
        let mut builder = FixedSizeBinaryBuilder::new(width);
        for _ in 0..rows {
            if with_nulls && random.below(5) == 0 {
                builder.append_null();
            } else {
                let bytes = [random.next().to_le_bytes(), random.next().to_le_bytes()].concat();
                builder.append_value(&bytes[..width as usize]).unwrap();
            }
        }
        let array: ArrayRef = Arc::new(builder.finish());
        add(name, array);
    }
    macro_rules! texts {
        ($($array:ident $name:literal;)*) => {$({
            let mask = nulls(random, rows, with_nulls);
            let values = strings(random, rows);
            let values = values.iter().enumerate().map(|(row, value)| {
                mask.as_ref().is_none_or(|mask| mask.is_valid(row)).then_some(value)
            });
            add($name, Arc::new(values.collect::<$array>()));
        })*};
    }
    texts! { StringArray "text short"; LargeStringArray "text"; StringViewArray "text view"; LargeStringArray "json"; }
    texts! { BinaryArray "blob short"; LargeBinaryArray "blob"; BinaryViewArray "blob view"; }
    macro_rules! dictionaries {
        ($($key:ident $name:literal;)*) => {$({
            let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..9).map(|index| format!("word {index}"))));
            let mask = nulls(random, rows, with_nulls);
            let keys = (0..rows).map(|row| {
                let code = random.below(9);
                mask.as_ref().is_none_or(|mask| mask.is_valid(row)).then_some(code as _)
            });
            let keys: PrimitiveArray<$key> = keys.collect();
            add($name, Arc::new(DictionaryArray::<$key>::try_new(keys, values).unwrap()));
        })*};
    }
    dictionaries! { Int8Type "codes 1"; Int16Type "codes 2"; Int32Type "codes 4"; UInt32Type "codes unsigned"; }
    let (mut short, mut long) =
        (ListBuilder::new(StringBuilder::new()), LargeListBuilder::new(Int32Builder::new()));
    let mut arrays = FixedSizeListBuilder::new(Float32Builder::new(), 3);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..rows {
        let valid = !with_nulls || random.below(4) != 0;
        for _ in 0..random.below(4) {
            short.values().append_option(valid.then(|| format!("item {row}")));
            long.values().append_value(random.below(100) as i32);
            map.keys().append_value(format!("{row}"));
            map.values().append_option(valid.then_some(7));
        }
        for _ in 0..3 {
            arrays.values().append_value(random.below(8) as f32);
        }
        short.append(valid);
        long.append(valid);
        arrays.append(valid);
        map.append(valid).unwrap();
    }
    add("list short", Arc::new(short.finish()));
    add("list", Arc::new(long.finish()));
    add("array", Arc::new(arrays.finish()));
    add("map", Arc::new(map.finish()));
    let inner: Vec<(Field, ArrayRef)> = vec![
        (Field::new("x", DataType::Int64, true), Arc::new(Int64Array::from(integers(random, rows)))),
        (Field::new("y", DataType::Utf8, true), Arc::new(StringArray::from(strings(random, rows)))),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) = inner.into_iter().unzip();
    add("struct", Arc::new(StructArray::new(fields.into(), arrays, nulls(random, rows, with_nulls))));
    add("null", Arc::new(NullArray::new(rows)));
    for (field, _) in &mut found {
        let logical = match field.name().as_str() {
            "json" => LogicalType::Json,
            "uuid" => LogicalType::Uuid,
            _ => continue,
        };
        *field = logical.mark(field.clone());
    }
    found
}

pub fn batch_of(columns: Vec<(Field, ArrayRef)>, rows: usize) -> RecordBatch {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).unwrap()
}

pub fn batch(seed: u64, rows: usize, with_nulls: bool) -> RecordBatch {
    batch_of(columns(seed, rows, with_nulls), rows)
}

/// What a batch must come back as.
pub fn expected(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| arrow_cast::cast(column, field.data_type()).unwrap());
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect(), &options).unwrap()
}

pub fn body(frame: &EncodedFrame) -> Buffer {
    let mut body = frame.head.clone();
    frame.payload.iter().for_each(|piece| body.extend_from_slice(piece));
    body.into()
}

pub fn payload(frame: &EncodedFrame) -> Buffer {
    frame.payload.iter().flat_map(|piece| piece.iter().copied()).collect::<Vec<u8>>().into()
}

pub fn encoder(schema: &SchemaRef, codec: Codec) -> StreamEncoder {
    StreamEncoder::new(7, schema.clone(), COMPRESSIONS, codec, 2)
}

pub fn encode(batch: &RecordBatch, codec: Codec) -> (SchemaRef, Encoded) {
    let schema = canonical_schema(&batch.schema()).unwrap();
    let encoded = encoder(&schema, codec).plan(batch.clone()).unwrap().encode().unwrap();
    (schema, encoded)
}

/// Gives all dictionaries and the chunk to a decoder.
pub fn decode_frames(decoder: &mut StreamDecoder, encoded: &Encoded) -> Result<RecordBatch> {
    for frame in &encoded.frames {
        match frame.frame_type {
            FrameType::Dictionary => decoder.dictionary(body(frame))?,
            _ => return decoder.chunk(body(frame))?.decode(),
        }
    }
    unreachable!("the last frame is a chunk")
}

pub fn sent(encoder: &mut StreamEncoder, encoded: &Encoded) {
    let bytes = encoded.body_bytes() as u64;
    encoder.sent(encoded, Some(OnLink::full(bytes, Duration::from_micros(100))));
}

/// The encodings of [`made_for_each`], in order. The first is what another differs from.
pub const ENCODINGS: [u8; 11] = [2, 0, 2, 3, 4, 5, 6, 7, 8, 9, 7];

/// Columns for each of which one encoding is best. Golden files have them, so that they do not change.
pub fn made_for_each(rows: usize) -> RecordBatch {
    let rows = rows as i64;
    let base: ArrayRef =
        Arc::new(Date32Array::from_iter_values((0..rows).map(|row| (row * 7919 % 2500) as i32)));
    let mut columns = vec![(Field::new("base", DataType::Date32, true), base)];
    for encoding in &ENCODINGS[1..10] {
        let array = made_for(*encoding, rows);
        columns.push((Field::new(format!("encoding {encoding}"), array.data_type().clone(), true), array));
    }
    let words = ["", "AIR", "TRUCK", "DELIVER IN PERSON", "Grüße aus der längeren Ferne, die nicht kurz ist"];
    let words = (0..rows).map(|row| words[(row * row % 7 % 5) as usize]);
    let words: ArrayRef = Arc::new(LargeStringArray::from_iter_values(words));
    columns.push((Field::new("words", DataType::LargeUtf8, true), words));
    batch_of(columns, rows as usize)
}

/// A column for which one encoding is best.
fn made_for(encoding: u8, rows: i64) -> ArrayRef {
    let mut random = Random(5);
    let mut below = |limit: u64| random.below(limit) as i64;
    match encoding {
        0 => Arc::new(Int64Array::from_iter_values((0..rows).map(|_| below(u64::MAX)))),
        2 => Arc::new(Int64Array::from_iter_values((0..rows).map(|_| -70_000 + 1000 * below(5000)))),
        3 => {
            let mut last = i64::MAX - 5000;
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| {
                last = last.wrapping_add(below(9));
                last
            })))
        }
        4 => Arc::new(UInt16Array::from(vec![u16::MAX; rows as usize])),
        5 => Arc::new(Int64Array::from_iter_values((0..rows).map(|row| (row / 40 * 7919) % 1009))),
        6 => Arc::new(Date32Array::from_iter_values(
            (0..rows).map(|row| (row * 7919 % 2500 + below(20)) as i32),
        )),
        7 => Arc::new(Int64Array::from_iter_values((0..rows).map(|_| (below(6) * 7_777_777_777) ^ 0x5555))),
        8 => Arc::new(Float64Array::from_iter_values((0..rows).map(|row| match row % 100 {
            7 => f64::NAN,
            _ => below(100_000) as f64 / 100.0,
        }))),
        _ => Arc::new(LargeStringArray::from_iter_values(
            (0..rows).map(|_| format!("carefully final {} deposits {}", below(1000), below(100_000))),
        )),
    }
}
