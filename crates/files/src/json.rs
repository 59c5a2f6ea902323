//! JSON files: one value per line, one array, or values one after another.

use crate::chunk::{BATCH_ROWS, Chunks, Fault, Scan, TextFormat};
use crate::convert::{from_text, json_reads, type_name};
use crate::csv::Guess;
use crate::option::{JsonLayout, ReadOptions};
use crate::path::open;
use crate::reject::{Rejects, shown};
use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use hypostyle_types::{Error, LogicalType, Result};
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that the layout is told from.
const HEAD_BYTES: u64 = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The options for reading the files of one table.
#[derive(Clone, Debug)]
pub struct JsonFormat {
    pub layout: JsonLayout,
    /// The members wanted and the types to read them as.
    pub schema: SchemaRef,
}

/// The state of a file while it is read.
pub struct JsonState {
    /// The array's closing bracket has been read.
    closed: bool,
}

impl TextFormat for JsonFormat {
    type State = JsonState;

    fn begin(&self, path: &Path, start: &[u8]) -> Result<(JsonState, usize)> {
        let mut offset = if start.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        if self.layout == JsonLayout::Array {
            let first = start[offset..].iter().position(|byte| !byte.is_ascii_whitespace());
            match first {
                Some(first) if start[offset + first] == b'[' => offset += first + 1,
                _ => {
                    return Err(Error::invalid_input(format!(
                        "{}: expected a JSON array, which starts with '['",
                        path.display()
                    )));
                }
            }
        }
        Ok((JsonState { closed: false }, offset))
    }

    fn scan(&self, state: &mut JsonState, bytes: &mut [u8]) -> Scan {
        if self.layout == JsonLayout::Lines {
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            return Scan { end, open: None };
        }
        let array = self.layout == JsonLayout::Array;
        let (mut nesting, mut end) = (Nesting::default(), 0);
        for index in 0..bytes.len() {
            if state.closed {
                if bytes[index..].iter().all(u8::is_ascii_whitespace) {
                    break;
                }
                return Scan { end, open: Some("has text after the end of the JSON array") };
            }
            let outside = nesting.outside();
            nesting.step(bytes[index]);
            if outside && array && matches!(bytes[index], b',' | b']') {
                state.closed = bytes[index] == b']';
                nesting = Nesting::default();
                bytes[index] = b' ';
                end = index + 1;
            } else if !outside && nesting.outside() {
                end = index + 1;
            }
        }
        let open = match (nesting.outside(), array && !state.closed) {
            (false, _) => Some("starts a JSON value that is never closed"),
            (true, true) => Some("ends before the ']' of the JSON array"),
            _ => None,
        };
        let end = if open.is_none() && state.closed { bytes.len() } else { end };
        Scan { end, open }
    }

    fn parse(&self, records: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        let records = self.with_json_as_text(records)?;
        let mut records = records.as_ref();
        let carriers = self.schema.fields().iter().map(|field| {
            let field = field.as_ref().clone().with_nullable(true);
            if json_reads(&field) { field } else { field.with_data_type(DataType::Utf8) }
        });
        let mut decoder = ReaderBuilder::new(Arc::new(Schema::new(carriers.collect::<Vec<_>>())))
            .with_coerce_primitive(true)
            .with_batch_size(BATCH_ROWS)
            .build_decoder()?;
        let mut batches = Vec::new();
        loop {
            let used = decoder.decode(records)?;
            records = &records[used..];
            match decoder.flush()? {
                Some(batch) => batches.push(self.convert(&batch)?),
                None if used == 0 => return Ok(batches),
                None => {}
            }
        }
    }

    fn records(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        if self.layout == JsonLayout::Lines { lines(bytes) } else { values(bytes) }
    }

    fn explain(&self, record: &[u8], error: &ArrowError) -> Fault {
        let whole = shown(String::from_utf8_lossy(record).trim());
        let value = match serde_json::from_slice::<Value>(record) {
            Ok(value) => value,
            Err(error) => {
                return Fault { column: None, value: whole, reason: format!("is not valid JSON: {error}") };
            }
        };
        let Value::Object(members) = value else {
            return Fault { column: None, value: whole, reason: "is not a JSON object".into() };
        };
        for (index, field) in self.schema.fields().iter().enumerate() {
            let alone = Self { schema: Arc::new(Schema::new(vec![Arc::clone(field)])), ..self.clone() };
            if alone.parse(record).is_err() {
                let value =
                    members.get(field.name()).map_or_else(String::new, |value| shown(&value.to_string()));
                let reason = format!("cannot read {value} as {}", type_name(field));
                return Fault { column: Some((index + 1, field.name().clone())), value, reason };
            }
        }
        Fault { column: None, value: whole, reason: format!("cannot be read: {error}") }
    }
}

impl JsonFormat {
    /// Returns the same records with the members for JSON columns as strings, which is how Arrow
    /// reads them.
    fn with_json_as_text<'a>(&self, records: &'a [u8]) -> Result<Cow<'a, [u8]>, ArrowError> {
        let json: Vec<&str> = (self.schema.fields().iter())
            .filter(|field| LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Json))
            .map(|field| field.name().as_str())
            .collect();
        if json.is_empty() {
            return Ok(Cow::Borrowed(records));
        }
        let mut rewritten = Vec::with_capacity(records.len());
        for value in serde_json::Deserializer::from_slice(records).into_iter::<Value>() {
            let mut value = value.map_err(|error| ArrowError::JsonError(error.to_string()))?;
            // A string that holds JSON is how exports write such a column.
            let holds_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
            for name in &json {
                let Some(member) = value.get_mut(*name) else { continue };
                if !member.is_null() && !member.as_str().is_some_and(holds_json) {
                    *member = Value::String(member.to_string());
                }
            }
            rewritten.extend_from_slice(value.to_string().as_bytes());
            rewritten.push(b'\n');
        }
        Ok(Cow::Owned(rewritten))
    }

    fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            if json_reads(field) { Ok(Arc::clone(column)) } else { from_text(column.as_string(), field) }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns.collect::<Result<_, _>>()?,
            &options,
        )
    }
}

/// The depth of a position in brackets and strings.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    fn outside(&self) -> bool {
        self.depth == 0 && !self.in_string
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

fn lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if !line.trim_ascii().is_empty() {
            lines.push(start..start + line.len());
        }
        start += line.len();
    }
    lines
}

/// Returns values that stand one after another; outside brackets and strings, white space separates
/// them.
fn values(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut nesting = Nesting::default();
    let mut start = None;
    let mut values = Vec::new();
    for (index, byte) in bytes.iter().enumerate() {
        let outside = nesting.outside();
        if outside && byte.is_ascii_whitespace() {
            values.extend(start.take().map(|start| start..index));
            continue;
        }
        start.get_or_insert(index);
        nesting.step(*byte);
        if !outside && nesting.outside() {
            values.extend(start.take().map(|start| start..index + 1));
        }
    }
    values.extend(start.map(|start| start..bytes.len()));
    values
}

/// Tells the layout from the first bytes of a file.
///
/// # Errors
/// Those of reading it.
pub fn detect_layout(path: &Path, options: &ReadOptions) -> Result<JsonLayout> {
    if let Some(layout) = options.layout {
        return Ok(layout);
    }
    let mut head = Vec::new();
    open(path, options.compression)?.take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| {
        Error::invalid_input(format!(
            "\"{}\" is damaged or not compressed as its name says: {error}",
            path.display()
        ))
    })?;
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
    if head.trim_ascii_start().first() == Some(&b'[') {
        return Ok(JsonLayout::Array);
    }
    let first = lines(head).into_iter().next().map(|line| &head[line]);
    let is_value = first.is_some_and(|line| serde_json::from_slice::<Value>(line).is_ok());
    // A file of values over several lines starts with a line that is no value, but begins one.
    let opens = first.is_some_and(|line| matches!(line.trim_ascii(), b"{" | [b'{', .., b',' | b'{' | b'[']));
    Ok(if is_value || !opens { JsonLayout::Lines } else { JsonLayout::Values })
}

/// Returns the members of the first file's objects, in order of appearance, and their types.
///
/// # Errors
/// `InvalidInput` when there is no object; those of reading the file.
pub fn detect_schema(path: &Path, layout: JsonLayout, options: &ReadOptions) -> Result<Vec<Field>> {
    let format = Arc::new(JsonFormat { layout, schema: Arc::new(Schema::empty()) });
    let lenient = ReadOptions { ignore_errors: true, ..ReadOptions::default() };
    let rejects = Arc::new(Rejects::new(&lenient, ""));
    let mut seen = DataType::Null;
    let mut rows = 0;
    'file: for chunk in
        Chunks::new(Arc::clone(&format), rejects, vec![path.to_path_buf()], options.compression)
    {
        let chunk = chunk?;
        for record in format.records(&chunk.bytes) {
            if options.sample_rows.is_some_and(|limit| rows >= limit) {
                break 'file;
            }
            rows += 1;
            let record = &chunk.bytes[record];
            if let Ok(value @ Value::Object(_)) = serde_json::from_slice::<Value>(record) {
                seen = merge(seen, type_of(&value, &String::from_utf8_lossy(record)));
            }
        }
    }
    match readable(seen) {
        DataType::Struct(fields) => Ok(fields.iter().map(|field| field.as_ref().clone()).collect()),
        _ => Err(Error::invalid_input(format!("\"{}\" has no JSON object", path.display()))),
    }
}

fn type_of(value: &Value, text: &str) -> DataType {
    match value {
        Value::Null => DataType::Null,
        Value::Bool(_) => DataType::Boolean,
        Value::Number(number) if number.is_i64() => DataType::Int64,
        Value::Number(_) => DataType::Float64,
        Value::String(string) => match Guess::of(string).data_type() {
            moment @ (DataType::Date32 | DataType::Timestamp(_, _)) => moment,
            _ => DataType::Utf8View,
        },
        Value::Array(elements) => {
            let element = elements.iter().map(|element| type_of(element, text)).fold(DataType::Null, merge);
            DataType::List(Arc::new(Field::new("item", element, true)))
        }
        Value::Object(members) => {
            let mut fields: Vec<Field> =
                members.iter().map(|(name, value)| Field::new(name, type_of(value, text), true)).collect();
            // The parsed object has lost the order of its members; the text still has it.
            fields.sort_by_key(|field| text.find(&format!("\"{}\"", field.name())));
            DataType::Struct(fields.into())
        }
    }
}

/// Returns the type that holds the values of both.
fn merge(left: DataType, right: DataType) -> DataType {
    use DataType::{Date32, Float64, Int64, List, Null, Struct, Timestamp, Utf8View};
    match (left, right) {
        (left, right) if left == right => left,
        (Null, other) | (other, Null) => other,
        (Int64, Float64) | (Float64, Int64) => Float64,
        (Date32, moment @ Timestamp(_, _)) | (moment @ Timestamp(_, _), Date32) => moment,
        (Timestamp(_, _), Timestamp(unit, _)) => Timestamp(unit, Some(Arc::from("UTC"))),
        (List(left), List(right)) => {
            let element = merge(left.data_type().clone(), right.data_type().clone());
            List(Arc::new(Field::new("item", element, true)))
        }
        (Struct(left), Struct(right)) => {
            let mut fields: Vec<Field> = left.iter().map(|field| field.as_ref().clone()).collect();
            for field in &right {
                match fields.iter_mut().find(|known| known.name() == field.name()) {
                    Some(known) => {
                        let both = merge(known.data_type().clone(), field.data_type().clone());
                        known.set_data_type(both);
                    }
                    None => fields.push(field.as_ref().clone()),
                }
            }
            Struct(fields.into())
        }
        _ => Utf8View,
    }
}

/// Puts text where a type is still open: only NULLs, empty arrays and objects were seen.
fn readable(data_type: DataType) -> DataType {
    match data_type {
        DataType::Null => DataType::Utf8View,
        DataType::List(element) => {
            let element = readable(element.data_type().clone());
            DataType::List(Arc::new(Field::new("item", element, true)))
        }
        DataType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|field| Field::new(field.name(), readable(field.data_type().clone()), true));
            DataType::Struct(fields.collect::<Fields>())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    fn detected(contents: &str) -> (JsonLayout, String) {
        let directory = TestDirectory::new("json");
        let path = directory.write("x.json", contents);
        let (path, options) = (Path::new(&path), ReadOptions::default());
        let layout = detect_layout(path, &options).unwrap();
        let fields = detect_schema(path, layout, &options).unwrap();
        let fields = fields.iter().map(|field| format!("{} {}", field.name(), field.data_type()));
        (layout, fields.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn layout_and_types_are_detected() {
        let lines = "{\"z\":1,\"a\":\"x\"}\n{\"z\":2.5,\"b\":[1,2]}\n";
        assert_eq!(detected(lines).0, JsonLayout::Lines);
        assert!(detected(lines).1.starts_with("z Float64, a Utf8View, b List("));
        let array = " [\n {\"d\": \"2024-01-01\", \"t\": true},\n {\"d\": null}\n]\n";
        assert_eq!(detected(array), (JsonLayout::Array, "d Date32, t Boolean".into()));
        let values = "{\n \"n\": 1\n}\n{\n \"n\": null\n}\n";
        assert_eq!(detected(values), (JsonLayout::Values, "n Int64".into()));
    }

    #[test]
    fn values_are_told_apart_and_brackets_in_strings_are_text() {
        let text = b"{\"a\":\"}\\\"{\"} {\"b\":[{}]}\n 12 {\"c\":1}";
        let found: Vec<&[u8]> = values(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found[0], b"{\"a\":\"}\\\"{\"}");
        assert_eq!(found[1..], [&b"{\"b\":[{}]}"[..], b"12", b"{\"c\":1}"]);
    }
}
