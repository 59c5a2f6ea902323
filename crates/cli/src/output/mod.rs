//! Printing a result in one of the formats.
//!
//! Every format is a [`Writer`] that gets the result in parts, so none holds more than it prints.
//! The machine formats hold nothing; the box keeps the first and last rows.

mod cells;
mod csv;
mod format;
mod html;
mod insert;
mod json;
mod line;
mod markdown;
mod plan;
pub mod pretty;
mod quick;
mod separated;
pub mod value;

pub use format::{Format, Settings, Writer};

use crate::failure::Outcome;
use crate::sink::Sink;
use hypostyle::arrow::array::RecordBatch;
use hypostyle::arrow::compute::cast;
use hypostyle::arrow::datatypes::{DataType, Schema};
use hypostyle::arrow::error::ArrowError;
use hypostyle::{ColumnDescription, Error, QueryResult, Result};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use value::Values;

/// Returns the writer of the format in the settings.
pub fn writer(settings: &Settings, sink: &Sink, result: &QueryResult) -> Box<dyn Writer> {
    columns_writer(settings, sink, result.columns())
}

pub fn columns_writer(settings: &Settings, sink: &Sink, columns: &[ColumnDescription]) -> Box<dyn Writer> {
    match settings.format {
        Format::Box | Format::Table if plan::is_plan(columns) => Box::new(plan::PlanWriter),
        Format::Box | Format::Table => {
            Box::new(pretty::BoxWriter::new(settings, pretty::Screen::of(settings, sink), columns))
        }
        Format::Csv => Box::new(csv::CsvWriter::new(settings, columns)),
        Format::Tabs => Box::new(separated::SeparatedWriter::tabs(settings, columns)),
        Format::List => Box::new(separated::SeparatedWriter::list(settings, columns)),
        Format::Ascii => Box::new(separated::SeparatedWriter::ascii(settings, columns)),
        Format::Html => Box::new(html::HtmlWriter::new(settings, columns)),
        Format::Insert => Box::new(insert::InsertWriter::new(settings, columns)),
        Format::Json => Box::new(json::JsonWriter::array()),
        Format::Jsonl => Box::new(json::JsonWriter::lines()),
        Format::Markdown => Box::new(markdown::MarkdownWriter::new(settings, columns)),
        Format::Line => Box::new(line::LineWriter::new(settings, columns)),
    }
}

/// Returns rows with points in time in a time zone.
///
/// # Errors
/// `InvalidInput` for a zone that this program does not know.
pub fn in_zone(batch: RecordBatch, zone: &Arc<str>) -> Result<RecordBatch> {
    let here = |data_type: &DataType| match data_type {
        DataType::Timestamp(unit, Some(other)) if other != zone => {
            Some(DataType::Timestamp(*unit, Some(Arc::clone(zone))))
        }
        _ => None,
    };
    if batch.columns().iter().all(|column| here(column.data_type()).is_none()) {
        return Ok(batch);
    }
    let wrong = |error: ArrowError| Error::invalid_input(format!("the time zone \"{zone}\": {error}"));
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        match here(column.data_type()) {
            Some(data_type) => {
                columns.push(cast(column, &data_type).map_err(wrong)?);
                fields.push(field.as_ref().clone().with_data_type(data_type));
            }
            None => {
                columns.push(Arc::clone(column));
                fields.push(field.as_ref().clone());
            }
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(wrong)
}

/// Returns the text in the last column of the first row.
pub fn first_text(batch: &RecordBatch) -> Option<String> {
    let last = batch.num_columns().checked_sub(1)?;
    let values = Values::text(batch.schema_ref().field(last), batch.column(last).as_ref()).ok()?;
    let mut text = String::new();
    (batch.num_rows() > 0 && !values.is_null(0)).then(|| values.write(0, &mut text).ok())??;
    Some(text)
}

/// Splits a batch into parts that are small enough to react to Ctrl-C between them. A stored result
/// is one batch, however many rows it has.
pub fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    const PIECE_VALUES: usize = 1 << 17;
    const PIECE_ROWS: usize = 8192;
    let rows = (PIECE_VALUES / batch.num_columns().max(1)).clamp(64, PIECE_ROWS);
    (0..batch.num_rows()).step_by(rows).map(move |from| batch.slice(from, rows.min(batch.num_rows() - from)))
}

/// Writes the message of a statement without a result set.
pub fn write_count(
    settings: &Settings,
    out: &mut dyn Write,
    rows: Option<u64>,
    elapsed: Duration,
) -> Outcome {
    if settings.footer && settings.format.is_for_people() {
        let done =
            rows.map_or_else(|| "Done".into(), |rows| format!("{} affected", pretty::count(rows, "row")));
        writeln!(out, "{done} ({})", pretty::milliseconds(elapsed))?;
    }
    Ok(())
}

/// One column of every type, with a value, a NULL and another value, for the formats' tests.
#[cfg(test)]
pub mod example {
    use hypostyle::arrow::array::*;
    use hypostyle::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
    use hypostyle::arrow::datatypes::*;
    use hypostyle::{ColumnDescription, LogicalType};
    use std::collections::HashMap;
    use std::sync::Arc;

    pub fn columns(batch: &RecordBatch) -> Vec<ColumnDescription> {
        let describe = |field: &FieldRef| ColumnDescription {
            name: field.name().clone(),
            logical_type: LogicalType::from_arrow(field).unwrap(),
            nullable: true,
        };
        batch.schema().fields().iter().map(describe).collect()
    }

    pub fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    }

    /// Returns columns, each with its printed form as plain text and as JSON.
    pub fn every_type() -> Vec<(Field, ArrayRef, &'static str, &'static str)> {
        let mut all = Vec::new();
        let mut add = |name: &str, array: ArrayRef, text, json| {
            all.push((Field::new(name, array.data_type().clone(), true), array, text, json));
        };
        add("bool", Arc::new(BooleanArray::from(vec![Some(true), None])), "true", "true");
        add("i8", Arc::new(Int8Array::from(vec![Some(-8), None])), "-8", "-8");
        add(
            "u64",
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])),
            "18446744073709551615",
            "18446744073709551615",
        );
        add("f32", Arc::new(Float32Array::from(vec![Some(0.1), None])), "0.1", "0.1");
        add("f64", Arc::new(Float64Array::from(vec![Some(f64::NAN), None])), "NaN", "null");
        let decimal32 =
            Decimal32Array::from(vec![Some(-12345), None]).with_precision_and_scale(9, 2).unwrap();
        add("d32", Arc::new(decimal32), "-123.45", "-123.45");
        let decimal64 = Decimal64Array::from(vec![Some(5), None]).with_precision_and_scale(15, 2).unwrap();
        add("d64", Arc::new(decimal64), "0.05", "0.05");
        let decimal128 = Decimal128Array::from(vec![Some(i128::from(i64::MAX)), None])
            .with_precision_and_scale(38, 0)
            .unwrap();
        add("d128", Arc::new(decimal128), "9223372036854775807", "9223372036854775807");
        let decimal256 = Decimal256Array::from(vec![Some(i256::from_i128(7)), None])
            .with_precision_and_scale(76, 1)
            .unwrap();
        add("d256", Arc::new(decimal256), "0.7", "0.7");
        add("date", Arc::new(Date32Array::from(vec![Some(1), None])), "1970-01-02", "\"1970-01-02\"");
        add(
            "time",
            Arc::new(Time64MicrosecondArray::from(vec![Some(1_500_000), None])),
            "00:00:01.500",
            "\"00:00:01.500\"",
        );
        add(
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(1_000_000), None])),
            "1970-01-01 00:00:01",
            "\"1970-01-01T00:00:01\"",
        );
        add(
            "ns",
            Arc::new(TimestampNanosecondArray::from(vec![Some(1), None])),
            "1970-01-01 00:00:00.000000001",
            "\"1970-01-01T00:00:00.000000001\"",
        );
        let zoned = TimestampSecondArray::from(vec![Some(0), None]).with_timezone("Europe/Rome");
        add("tz", Arc::new(zoned), "1970-01-01 01:00:00+01:00", "\"1970-01-01T01:00:00+01:00\"");
        add(
            "duration",
            Arc::new(DurationMillisecondArray::from(vec![Some(1500), None])),
            "00:00:01.5",
            "\"PT1.5S\"",
        );
        let interval = IntervalMonthDayNano::new(1, 2, 3_000_000_000);
        add(
            "interval",
            Arc::new(IntervalMonthDayNanoArray::from(vec![Some(interval), None])),
            "1 mon 2 days 00:00:03",
            "\"1 mon 2 days 00:00:03\"",
        );
        add("utf8", Arc::new(StringArray::from(vec![Some("a\"b"), None])), "a\"b", "\"a\\\"b\"");
        add("large", Arc::new(LargeStringArray::from(vec![Some("é"), None])), "é", "\"é\"");
        add("view", Arc::new(StringViewArray::from(vec![Some("v"), None])), "v", "\"v\"");
        let heap = Arc::new(LargeStringArray::from(vec!["low"]));
        let codes =
            Int8Array::new(ScalarBuffer::from(vec![0, -1]), Some(NullBuffer::from(vec![true, false])));
        add("dictionary", Arc::new(DictionaryArray::new(codes, heap)), "low", "\"low\"");
        let blob = Arc::new(LargeBinaryArray::from(vec![Some(&[0_u8, 255][..]), None]));
        add("blob", blob, "\\x00ff", "\"\\\\x00ff\"");
        let view = Arc::new(BinaryViewArray::from(vec![Some(&[1_u8][..]), None]));
        add("blob_view", view, "\\x01", "\"\\\\x01\"");
        add("null", Arc::new(NullArray::new(2)), "NULL", "null");

        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let offsets = OffsetBuffer::new(vec![0_i64, 2, 2].into());
        let nulls = Some(NullBuffer::from(vec![true, false]));
        let elements = Arc::new(Int32Array::from(vec![Some(1), None]));
        add(
            "list",
            Arc::new(LargeListArray::new(item.clone(), offsets, elements, nulls.clone())),
            "[1,null]",
            "[1,null]",
        );
        let fixed = FixedSizeListArray::new(item, 1, Arc::new(Int32Array::from(vec![4, 0])), nulls.clone());
        add("array", Arc::new(fixed), "[4]", "[4]");

        let uuid_field = extension(Field::new("id", DataType::FixedSizeBinary(16), true), "arrow.uuid");
        let json_field = extension(Field::new("doc", DataType::LargeUtf8, true), "arrow.json");
        let uuids: ArrayRef = Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some([0xAB_u8; 16]), None].into_iter(), 16)
                .unwrap(),
        );
        let documents: ArrayRef = Arc::new(LargeStringArray::from(vec![Some("{\"k\":\n1}"), None]));
        let members = StructArray::new(
            vec![uuid_field.clone(), json_field.clone()].into(),
            vec![uuids.clone(), documents.clone()],
            nulls,
        );
        add(
            "struct",
            Arc::new(members),
            "{\"id\":\"abababab-abab-abab-abab-abababababab\",\"doc\":{\"k\": 1}}",
            "{\"id\":\"abababab-abab-abab-abab-abababababab\",\"doc\":{\"k\": 1}}",
        );
        let mut map = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
        map.keys().append_value(7);
        map.values().append_null();
        map.append(true).unwrap();
        map.append(false).unwrap();
        add("map", Arc::new(map.finish()), "{\"7\":null}", "{\"7\":null}");

        all.push((
            uuid_field.with_name("uuid"),
            uuids,
            "abababab-abab-abab-abab-abababababab",
            "\"abababab-abab-abab-abab-abababababab\"",
        ));
        all.push((json_field.with_name("json"), documents, "{\"k\":\n1}", "{\"k\": 1}"));
        all
    }

    fn extension(field: Field, name: &str) -> Field {
        field.with_metadata(HashMap::from([("ARROW:extension:name".into(), name.into())]))
    }
}
