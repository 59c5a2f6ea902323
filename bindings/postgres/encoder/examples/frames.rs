//! Decodes a result of the extension for its tests: frames come in on standard input, lines of JSON go out.
//!
//! The first line has the columns, each with its name and type. A line for each row follows, and at the
//! end one with what `Done` says and with the kinds and lengths of the frames. Values are shown as they are
//! carried: days and microseconds as numbers, floats as the bits, bytes in hexadecimal.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType, UInt32Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use hypostyle_types::{Error, LogicalType, Result};
use hypostyle_wire::{
    Done, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, FrameType, ResultHeader, StreamDecoder,
};
use serde_json::{Value, json};
use std::io::{Read, Write};

fn hexadecimal(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! number {
        ($type:ty) => {
            array.as_primitive::<$type>().value(row).into()
        };
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::Date32 => number!(Date32Type),
        DataType::Time64(_) => number!(Time64MicrosecondType),
        DataType::Timestamp(..) => number!(TimestampMicrosecondType),
        DataType::Float32 => hexadecimal(&array.as_primitive::<Float32Type>().value(row).to_be_bytes()),
        DataType::Float64 => hexadecimal(&array.as_primitive::<Float64Type>().value(row).to_be_bytes()),
        DataType::Decimal32(..) => array.as_primitive::<Decimal32Type>().value_as_string(row).into(),
        DataType::Decimal64(..) => array.as_primitive::<Decimal64Type>().value_as_string(row).into(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row).into(),
        DataType::Decimal256(..) => array.as_primitive::<Decimal256Type>().value_as_string(row).into(),
        DataType::Interval(_) => {
            let interval = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            json!([interval.months, interval.days, interval.nanoseconds])
        }
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into(),
        DataType::LargeBinary => hexadecimal(array.as_binary::<i64>().value(row)),
        DataType::FixedSizeBinary(_) => hexadecimal(array.as_fixed_size_binary().value(row)),
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>().value(row);
            (0..list.len()).map(|index| value(&list, index)).collect::<Vec<_>>().into()
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|member| value(member, row)).collect::<Vec<_>>().into()
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            value(dictionary.values(), dictionary.normalized_keys()[row])
        }
        other => format!("{other}").into(),
    }
}

/// Takes a frame from the bytes.
fn next<'a>(bytes: &mut &'a [u8]) -> Result<(FrameType, &'a [u8])> {
    let short = || Error::protocol("the stream was cut short");
    let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or_else(short)?;
    let header = FrameHeader::decode(header, FRAME_BYTES_MAX.max(1 << 30))?;
    let (body, rest) = rest.split_at_checked(header.length as usize).ok_or_else(short)?;
    *bytes = rest;
    Ok((header.frame_type, body))
}

fn decode(mut bytes: &[u8], out: &mut impl Write) -> Result<()> {
    let mut print = |line: Value| writeln!(out, "{line}").map_err(|error| Error::from_io(&error, "writing"));
    let (frame_type, body) = next(&mut bytes)?;
    if frame_type != FrameType::Result {
        return Err(Error::protocol("the first frame is no Result"));
    }
    let header = ResultHeader::decode(body)?;
    let columns = header.schema.fields().iter().map(|field| {
        let logical_type = LogicalType::from_arrow(field)?;
        let dictionary = matches!(field.data_type(), DataType::Dictionary(..));
        let encoded = if dictionary { " DICTIONARY" } else { "" };
        Ok(json!([field.name(), format!("{logical_type}{encoded}")]))
    });
    print(json!(columns.collect::<Result<Vec<_>>>()?))?;
    let mut decoder = StreamDecoder::new(header.query, header.schema.clone());
    let mut frames = Vec::new();
    let done = loop {
        let (frame_type, body) = next(&mut bytes)?;
        frames.push(json!([format!("{frame_type:?}"), body.len()]));
        match frame_type {
            FrameType::Dictionary => decoder.dictionary(Buffer::from(body))?,
            FrameType::Chunk => {
                let batch = decoder.chunk(Buffer::from(body))?.decode()?;
                for row in 0..batch.num_rows() {
                    print(
                        batch.columns().iter().map(|column| value(column, row)).collect::<Vec<_>>().into(),
                    )?;
                }
            }
            FrameType::Done => break Done::decode(body)?,
            other => return Err(Error::protocol(format!("a {other:?} frame is none of a result"))),
        }
    };
    if !bytes.is_empty() {
        return Err(Error::protocol("bytes follow the last frame"));
    }
    decoder.end(done.rows, done.checksum)?;
    let chosen = done.chosen.iter().map(|one| json!([one.column, one.encoding, one.compression, one.chunks]));
    print(json!({
        "rows": done.rows,
        "affected": done.affected,
        "in_transaction": done.transaction == hypostyle_wire::Transaction::Open,
        "raw": done.raw,
        "sent": done.sent,
        "chosen": chosen.collect::<Vec<_>>(),
        "frames": frames,
    }))
}

fn main() {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    let decoded = read
        .map_err(|error| Error::from_io(&error, "reading"))
        .and_then(|_| decode(&bytes, &mut std::io::BufWriter::new(std::io::stdout().lock())));
    if let Err(error) = decoded {
        eprintln!("{error:?}");
        std::process::exit(1);
    }
}
