//! JSON files: one value per line, one array, or values one after another.

mod fit;
mod keys;
mod shape;

use crate::chunk::{BATCH_ROWS, Chunks, Fault, Purpose, Scan, TextFormat, VALUES_AT_ONCE, VALUES_MAX};
use crate::convert::{carrier, has_early_years, of_carrier, of_detected, type_name};
use crate::input::{Input, check_text};
use crate::nested::{leaves, parts};
use crate::option::{JsonLayout, ReadOptions};
use crate::raw::{
    Members, Nesting, Place, Raw, are_beyond, has_ends, may_have_wide_integers, with_wide_numbers,
};
use crate::reject::{Advice, Rejects, shown};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use fit::Fit;
use hypostyle_types::{Error, Result};
use keys::{Checked, Known};
use serde::de::{DeserializeSeed, IgnoredAny};
use shape::{KEYS_MAX, Seen, Shape, TOO_MANY};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that the layout is told from.
const HEAD_BYTES: u64 = 1 << 20;

/// Values that nothing is read into at once: one record may have a list of very many empty objects.
const VALUES_REFUSED: usize = 1 << 27;

const TOO_MUCH: &str = "becomes more values than are read at once";

/// The levels of a value, as many as the parser of JSON texts takes.
const DEPTH_MAX: usize = 128;

const TOO_DEEP: &str = "nested deeper than 128 levels";

const LONE_COMMA: &str = "has a comma beside which a value of the JSON array is missing";

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The options for reading the files of one table.
#[derive(Clone, Debug)]
pub struct JsonFormat {
    pub layout: JsonLayout,
    /// The members wanted and the types to read them as.
    pub schema: SchemaRef,
    /// The keys that there may be, where the columns were detected.
    pub detected: Option<Arc<Detected>>,
    /// The columns whose types were detected: where those are of whole numbers, others are an error.
    pub of_detected_type: Arc<HashSet<String>>,
    /// Members of structures have the names of fields, but for their case, or are an error.
    pub is_fitted: bool,
}

impl JsonFormat {
    /// Returns the format of files whose columns have given types.
    pub fn of(layout: JsonLayout, schema: SchemaRef, is_fitted: bool) -> Self {
        Self { layout, schema, detected: None, of_detected_type: Arc::default(), is_fitted }
    }
}

/// What detection has found.
#[derive(Debug)]
pub struct Detected {
    keys: Known,
    /// The columns of a table in which all types are the detected ones.
    columns: Option<usize>,
}

impl Detected {
    /// Returns what the columns of a table say, some of which have types that options give.
    pub fn of(schema: &Schema, options: &ReadOptions) -> Self {
        let given = |name: &str| options.types_by_name.iter().any(|(known, _)| known == name);
        let all = options.types_by_name.is_empty() && options.types_by_position.is_empty();
        Self { keys: Known::of_table(schema, given), columns: all.then_some(schema.fields().len()) }
    }
}

/// The state of a file while it is read.
pub struct JsonState {
    /// The array's closing bracket has been read.
    closed: bool,
    /// What has been read of it last.
    last: Last,
}

/// A part of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Bracket,
    Comma,
    Value,
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
        Ok((JsonState { closed: false, last: Last::Bracket }, offset))
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
            if outside && array {
                state.last = match bytes[index] {
                    b',' if state.last != Last::Value => return Scan { end, open: Some(LONE_COMMA) },
                    b']' if state.last == Last::Comma => return Scan { end, open: Some(LONE_COMMA) },
                    b',' => Last::Comma,
                    byte if byte == b']' || byte.is_ascii_whitespace() => state.last,
                    _ => Last::Value,
                };
            }
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
        let columns = self.schema.fields().len();
        let has_all = self.detected.as_ref().is_some_and(|detected| detected.columns == Some(columns));
        // With all columns, the decoder itself finds keys that there are no columns for.
        let detected = self.detected.as_ref().filter(|_| !has_all && columns > 0);
        let keys = detected.map(|detected| &detected.keys);
        if self.is_too_much(records) {
            return Err(ArrowError::JsonError(TOO_MUCH.into()));
        }
        let records = &*self.fitted(records)?;
        let decoded = self.as_decoded(records, keys)?;
        let batches = match self.decode(&decoded, has_all, true) {
            Err(_) if has_early_years(&decoded) => self.decode(&decoded, has_all, false)?,
            batches => batches?,
        };
        let mut columns = batches.iter().flat_map(|batch| batch.columns());
        if columns.any(|values| has_ends(values)) && self.has_number_beyond(records) {
            return Err(ArrowError::JsonError("a number that its type has not".into()));
        }
        Ok(batches)
    }

    fn records(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        if self.layout == JsonLayout::Lines { lines(bytes) } else { values(bytes) }
    }

    fn records_at_once(&self, bytes: &[u8]) -> Option<usize> {
        let most = VALUES_AT_ONCE / leaves(self.schema.fields());
        (objects(bytes) > most).then_some(most)
    }

    fn explain(&self, record: &[u8], error: &ArrowError) -> Fault {
        let whole = shown(String::from_utf8_lossy(record).trim());
        let value = match Raw::of(record) {
            Ok(value) => value,
            Err(error) => {
                return Fault { column: None, value: whole, reason: format!("is not valid JSON: {error}") };
            }
        };
        if depth(record) > DEPTH_MAX {
            return Fault { column: None, value: whole, reason: format!("is {TOO_DEEP}") };
        }
        if self.is_too_much(record) {
            return Fault { column: None, value: whole, reason: TOO_MUCH.into() };
        }
        let Some(members) = Members::of(value) else {
            return Fault { column: None, value: whole, reason: "is not a JSON object".into() };
        };
        let unknown = self.detected.as_ref().and_then(|detected| detected.keys.unknown(record));
        if let Some(key) = unknown {
            let reason = format!(
                "has the key \"{}\", which none of the rows has that the columns were detected from; \
                 sample_size => -1 detects them from all rows of the file, union_by_name => true from all files",
                shown(&key)
            );
            return Fault { column: None, value: whole, reason };
        }
        if self.is_fitted
            && let Err(name) = Fit::of_columns(self.schema.fields()).write(value, &mut String::new())
        {
            let reason = format!("has \"{}\", which is no field of its structure", shown(&name));
            return Fault { column: None, value: whole, reason };
        }
        for (index, field) in self.schema.fields().iter().enumerate() {
            let schema = Arc::new(Schema::new(vec![Arc::clone(field)]));
            let alone = Self { schema, detected: None, ..self.clone() };
            if alone.parse(record).is_err() {
                let value = members.get(field.name()).map_or_else(String::new, |value| shown(value.get()));
                let reason = format!("cannot read {value} as {}", type_name(field));
                return Fault { column: Some((index + 1, field.name().clone())), value, reason };
            }
        }
        Fault { column: None, value: whole, reason: format!("cannot be read: {error}") }
    }
}

impl JsonFormat {
    /// Says whether the elements of lists and maps may become more values than are read at once. NULL becomes
    /// as many as an object does.
    fn is_too_much(&self, records: &[u8]) -> bool {
        let within = leaves_within_lists(self.schema.fields());
        let may_be_too_much = |elements: usize| elements.saturating_mul(within) > VALUES_REFUSED;
        // The shortest element is an object, and has two bytes.
        may_be_too_much(records.len() / 2) && may_be_too_much(objects(records) + nulls(records))
    }

    /// Returns the records with the names that the fields of structures have, where they are fitted.
    ///
    /// # Errors
    /// `JsonError` for a member that is no field.
    fn fitted<'a>(&self, records: &'a [u8]) -> Result<Cow<'a, [u8]>, ArrowError> {
        let fit = if self.is_fitted { Fit::of_columns(self.schema.fields()) } else { Fit::Any };
        if fit.is_any() {
            return Ok(Cow::Borrowed(records));
        }
        let mut fitted = String::with_capacity(records.len());
        for range in values(records) {
            // What is no JSON is left to the decoder, which takes some of it, such as tabs within texts.
            let Ok(value) = Raw::of_json(&records[range]) else { return Ok(Cow::Borrowed(records)) };
            fit.write(value, &mut fitted)
                .map_err(|name| ArrowError::JsonError(format!("the field {name}")))?;
            fitted.push('\n');
        }
        Ok(Cow::Owned(fitted.into_bytes()))
    }

    /// Returns the same records with the values for JSON columns as strings, which is how Arrow reads them,
    /// after a check of their depth, and of their keys if these are known. Each record is parsed once.
    ///
    /// # Errors
    /// `JsonError` for a record that is too deep or has an unknown key, and for one that is no JSON where it
    /// would be rewritten.
    fn as_decoded<'a>(&self, records: &'a [u8], keys: Option<&Known>) -> Result<Cow<'a, [u8]>, ArrowError> {
        let place = Place::of_members(self.schema.fields());
        let is_rewritten = !matches!(place, Place::Nowhere);
        let (values, depth) = match keys.is_some() || is_rewritten {
            true => values_and_depth(records),
            false => (Vec::new(), depth(records)),
        };
        if depth > DEPTH_MAX {
            return Err(ArrowError::JsonError(TOO_DEEP.into()));
        }
        let mut rewritten = String::with_capacity(if is_rewritten { records.len() } else { 0 });
        for value in values {
            let value = &records[value];
            let is_json = match keys.map(|keys| keys.check(value)) {
                Some(Checked::Unknown(key)) => return Err(ArrowError::JsonError(format!("the key {key}"))),
                checked => matches!(checked, Some(Checked::Json)),
            };
            if is_rewritten {
                let value = if is_json { Raw::of_json(value) } else { Raw::of(value) };
                value
                    .and_then(|value| place.write(value, &mut rewritten))
                    .map_err(|error| ArrowError::JsonError(error.to_string()))?;
                rewritten.push('\n');
            }
        }
        Ok(if is_rewritten { Cow::Owned(rewritten.into_bytes()) } else { Cow::Borrowed(records) })
    }

    fn decode(
        &self,
        mut records: &[u8],
        has_all: bool,
        reads_times: bool,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let leaves = leaves(self.schema.fields());
        let carriers = self.schema.fields().iter();
        let carriers = carriers.map(|field| carrier(field, reads_times).with_nullable(true));
        let mut decoder = ReaderBuilder::new(Arc::new(Schema::new(carriers.collect::<Vec<_>>())))
            .with_coerce_primitive(true)
            .with_strict_mode(has_all)
            .with_batch_size(BATCH_ROWS.min(VALUES_MAX / leaves).max(1))
            .build_decoder()?;
        let (mut batches, mut values) = (Vec::new(), 0);
        loop {
            let used = decoder.decode(records)?;
            records = &records[used..];
            match decoder.flush()? {
                // A line may have several objects.
                Some(batch) if values + leaves * batch.num_rows() > VALUES_REFUSED => {
                    return Err(ArrowError::JsonError(TOO_MUCH.into()));
                }
                Some(batch) => {
                    values += leaves * batch.num_rows();
                    batches.push(self.convert(&batch)?);
                }
                None if used == 0 => return Ok(batches),
                None => {}
            }
        }
    }

    /// Says whether a record has a number that the type of its column has not.
    fn has_number_beyond(&self, records: &[u8]) -> bool {
        values(records).into_iter().any(|value| {
            Raw::of(&records[value]).is_ok_and(|record| are_beyond(record, self.schema.fields()))
        })
    }

    fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| match self.of_detected_type.contains(field.name()) {
            true => of_detected(column, field),
            false => of_carrier(column, field),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns.collect::<Result<_, _>>()?,
            &options,
        )
    }
}

/// Returns how many of the [`leaves`] are within lists and maps, of which a record may have any number of
/// elements.
fn leaves_within_lists(fields: &[FieldRef]) -> usize {
    let within = |field: &FieldRef| match field.data_type() {
        DataType::Struct(fields) => leaves_within_lists(fields),
        of @ (DataType::List(_) | DataType::LargeList(_) | DataType::Map(..)) => leaves(parts(of)),
        _ => 0,
    };
    fields.iter().map(within).sum()
}

/// Returns how many objects there are at most.
fn objects(records: &[u8]) -> usize {
    records.iter().filter(|byte| **byte == b'{').count()
}

/// Returns how many times there is `null` at most.
fn nulls(records: &[u8]) -> usize {
    records.windows(4).filter(|part| *part == b"null").count()
}

/// Returns the levels of the deepest value. The decoder calls itself for each of them, and has no room on
/// its stack for any number.
fn depth(records: &[u8]) -> usize {
    let (mut nesting, mut deepest) = (Nesting::default(), 0);
    for byte in records {
        nesting.step(*byte);
        deepest = deepest.max(nesting.depth);
    }
    deepest
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
    values_and_depth(bytes).0
}

/// Returns [`values`], and the levels of the deepest one.
fn values_and_depth(bytes: &[u8]) -> (Vec<Range<usize>>, usize) {
    let (mut nesting, mut deepest) = (Nesting::default(), 0);
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
        deepest = deepest.max(nesting.depth);
        if !outside && nesting.outside() {
            values.extend(start.take().map(|start| start..index + 1));
        }
    }
    values.extend(start.map(|start| start..bytes.len()));
    (values, deepest)
}

/// Tells the layout from the first bytes of a file.
///
/// # Errors
/// Those of reading it.
pub fn detect_layout(file: &Input, options: &ReadOptions) -> Result<JsonLayout> {
    if let Some(layout) = options.layout {
        return Ok(layout);
    }
    let mut head = Vec::new();
    let mut reader = file.sample(options)?.take(HEAD_BYTES);
    reader.read_to_end(&mut head).map_err(|error| Input::damaged(file.path(), &error))?;
    check_text(file.path(), &head)?;
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
    if head.trim_ascii_start().first() == Some(&b'[') {
        return Ok(JsonLayout::Array);
    }
    let first = lines(head).into_iter().next().map(|line| &head[line]);
    let is_value = first.is_some_and(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok());
    // A file of values over several lines starts with a line that is no value, but begins one.
    let opens = first.is_some_and(|line| matches!(line.trim_ascii(), b"{" | [b'{', .., b',' | b'{' | b'[']));
    // So does one of several objects on one line.
    let has_several = !is_value && first.is_some_and(has_several_objects);
    Ok(if is_value || !(opens || has_several) { JsonLayout::Lines } else { JsonLayout::Values })
}

/// Whether a line starts with an object, and another one begins behind it.
fn has_several_objects(line: &[u8]) -> bool {
    let parts = values(line);
    let [first, second, ..] = parts.as_slice() else { return false };
    line[first.start] == b'{'
        && line[second.start] == b'{'
        && serde_json::from_slice::<IgnoredAny>(&line[first.clone()]).is_ok()
}

/// Returns the members of a file's objects, in order of appearance, and their types.
///
/// # Errors
/// `InvalidInput` when there is no object, or too many keys; those of reading the file.
pub fn detect_schema(file: &Input, layout: JsonLayout, options: &ReadOptions) -> Result<Vec<Field>> {
    let format = Arc::new(JsonFormat::of(layout, Arc::new(Schema::empty()), false));
    let lenient = ReadOptions { ignore_errors: true, ..ReadOptions::default() };
    let rejects = Arc::new(Rejects::new(&lenient, Advice::None));
    let (mut shape, mut keys, mut rows) = (Shape::Null, 0, 0);
    let mut first_fault: Option<String> = None;
    'file: for chunk in
        Chunks::new(Arc::clone(&format), rejects, vec![file.clone()], options, Purpose::Sample)
    {
        let chunk = chunk?;
        for record in format.records(&chunk.bytes) {
            if options.sample_rows.is_some_and(|limit| rows >= limit) {
                break 'file;
            }
            rows += 1;
            let record = chunk.bytes[record].trim_ascii();
            // The reader reports what is no JSON, if there is an object.
            if let Some(fault) = no_object(record) {
                first_fault.get_or_insert(fault);
                continue;
            }
            let is_too_many = |error: &serde_json::Error| error.to_string().starts_with(TOO_MANY);
            let mut take = |record: &[u8]| {
                let seen = Seen { shape: &mut shape, keys: &mut keys };
                seen.deserialize(&mut serde_json::Deserializer::from_slice(record))
            };
            let has_wide = may_have_wide_integers(record);
            let mut taken = if has_wide { take(&with_wide_numbers(record)) } else { take(record) };
            if !has_wide && taken.as_ref().is_err_and(|error| !is_too_many(error)) {
                taken = take(&with_wide_numbers(record));
            }
            if taken.is_err_and(|error| is_too_many(&error)) {
                return Err(Error::invalid_input(format!(
                    "\"{}\" has more than {KEYS_MAX} different keys; name those wanted with columns => \
                     {{'name': 'TYPE'}}, JSON for objects of any keys",
                    file.path().display()
                )));
            }
        }
    }
    shape.columns().ok_or_else(|| {
        let why = first_fault.map_or(String::new(), |fault| format!(": {fault}"));
        Error::invalid_input(format!("\"{}\" has no JSON object{why}", file.path().display()))
    })
}

/// Returns why a value is no row.
fn no_object(record: &[u8]) -> Option<String> {
    match serde_json::from_slice::<IgnoredAny>(record) {
        Err(error) => {
            Some(format!("'{}' is not valid JSON: {error}", shown(&String::from_utf8_lossy(record))))
        }
        Ok(_) if record.first() != Some(&b'{') => Some("values that are no objects are no rows".into()),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;
    use hypostyle_types::LogicalType;

    fn detected(contents: &str) -> (JsonLayout, String) {
        let directory = TestDirectory::new("json");
        let path = directory.write("x.json", contents);
        let file = Input::of(vec![path.into()], &ReadOptions::default()).unwrap().remove(0);
        let options = ReadOptions::default();
        let layout = detect_layout(&file, &options).unwrap();
        let fields = detect_schema(&file, layout, &options).unwrap();
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
        let on_one_line = "{\"n\":1} {\"n\":2}{\"n\":3}\n{\"n\":4}\n";
        assert_eq!(detected(on_one_line), (JsonLayout::Values, "n Int64".into()));
    }

    #[test]
    fn whole_numbers_keep_their_digits() {
        let types = |values: &str| detected(values).1;
        let nines = "9".repeat(38);
        for number in ["9223372036854775808", "-9223372036854775809", "18446744073709551616", nines.as_str()]
        {
            assert_eq!(types(&format!("{{\"a\":{number}}}\n{{\"a\":1}}")), "a Decimal128(38, 0)", "{number}");
        }
        assert_eq!(types("{\"a\":-9223372036854775808}"), "a Int64");
        assert_eq!(types(&format!("{{\"a\":1}}\n{{\"a\":-{}}}", "9".repeat(39))), "a Utf8View");
        assert_eq!(types("{\"a\":123456789012345678901,\"b\":1e400}"), "a Decimal128(38, 0), b Utf8View");
        assert_eq!(types("{\"a\":123456789012345678901.5}"), "a Float64");
        assert!(types("{\"a\":[123456789012345678901]}").contains("Decimal128(38, 0)"));
    }

    #[test]
    fn values_are_told_apart_and_brackets_in_strings_are_text() {
        let text = b"{\"a\":\"}\\\"{\"} {\"b\":[{}]}\n 12 {\"c\":1}";
        let found: Vec<&[u8]> = values(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found[0], b"{\"a\":\"}\\\"{\"}");
        assert_eq!(found[1..], [&b"{\"b\":[{}]}"[..], b"12", b"{\"c\":1}"]);
        assert_eq!((values_and_depth(text).1, depth(text)), (3, 3));
    }

    #[test]
    fn few_records_are_read_at_once_where_there_are_many_columns() {
        let number = |name: usize| Field::new(name.to_string(), DataType::Int64, true);
        let of = |fields: Vec<Field>| JsonFormat::of(JsonLayout::Lines, Arc::new(Schema::new(fields)), false);
        let empty = "{}\n".repeat(10_000).into_bytes();
        assert_eq!(of(vec![number(1)]).records_at_once(&empty), None);
        let many: Vec<Field> = (0..2_000).map(number).collect();
        assert_eq!(of(many.clone()).records_at_once(&empty), Some(2_097));
        let structure = DataType::Struct(many.into());
        let within = of(vec![number(1), Field::new("s", structure.clone(), true)]);
        assert_eq!(within.records_at_once(&empty), Some(2_096));
        // Batches have as many rows as they have room for.
        let batches = within.parse(&empty[..3 * 2_000]).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [524, 524, 524, 428]);
        // A list has elements that nobody sees before they are read.
        let list =
            of(vec![Field::new("l", DataType::List(Arc::new(Field::new("item", structure, true))), true)]);
        let record = |elements: usize| format!("{{\"l\":[{}{{}}]}}", "{},".repeat(elements)).into_bytes();
        assert!(list.parse(&record(2)).is_ok());
        let error = list.parse(&record(100_000)).unwrap_err();
        assert!(error.to_string().contains(TOO_MUCH), "{error}");
        assert_eq!(list.explain(&record(100_000), &error).reason, TOO_MUCH);
        let nulls = |elements: usize| format!("{{\"l\":[{}null]}}", "null,".repeat(elements)).into_bytes();
        assert!(list.parse(&nulls(2)).is_ok());
        assert!(list.parse(&nulls(100_000)).unwrap_err().to_string().contains(TOO_MUCH));
    }

    #[test]
    fn structures_are_fitted_whatever_stands_beside_them() {
        let structure = DataType::Struct(vec![Field::new("a", DataType::Int64, true)].into());
        let schema = Arc::new(Schema::new(vec![Field::new("s", structure, true)]));
        let format = JsonFormat::of(JsonLayout::Lines, schema, true);
        // A tab in a text is no JSON, but is read.
        let beside = "{\"s\": {\"A\": 1}, \"t\": \"x\ty\"}\n";
        let batches = format.parse(format!("{beside}{{\"s\": {{\"A\": 2}}}}\n").as_bytes()).unwrap();
        assert_eq!(crate::tests::rows(&batches), "{a: 1} {a: 2}");
        for wrong in ["{\"s\": {\"b\": 2}}\n", "{\"s\": {A: 2}}\n"] {
            assert!(format.parse(format!("{beside}{wrong}").as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn records_are_checked_and_rewritten_at_once() {
        let fields = vec![
            LogicalType::Json.arrow_field("j", true),
            Field::new("n", DataType::Int64, true),
            Field::new("d", DataType::Float64, true),
        ];
        let schema = Arc::new(Schema::new(fields));
        let format = JsonFormat::of(JsonLayout::Lines, schema.clone(), false);
        let keys = Known::of_table(&schema, |_| false);
        let read = |records: &str, keys| {
            let read = format.as_decoded(records.as_bytes(), keys);
            read.map(|read| String::from_utf8(read.into_owned()).unwrap()).map_err(|error| error.to_string())
        };
        let records = "{\"j\":[1, 2],\"n\":1}{\"n\":2}\n{\"j\":\"x\",\"d\":1e400}\n";
        let rewritten = "{\"j\":\"[1,2]\",\"n\":1}\n{\"n\":2}\n{\"j\":\"\\\"x\\\"\",\"d\":1e400}\n";
        for keys in [None, Some(&keys)] {
            assert_eq!(read(records, keys).unwrap(), rewritten);
            for damaged in ["{\"j\":1", "{\"j\":1}}", "{\"j\":1},", "{\"j\":01}", "1,2"] {
                assert!(read(damaged, keys).is_err(), "{damaged}");
            }
            let deep = format!("{{\"j\":{}{}}}", "[".repeat(128), "]".repeat(128));
            assert!(read(&deep, keys).unwrap_err().contains(TOO_DEEP));
        }
        let unknown = "{\"n\":1}\n{\"n\":1,\"x\":2}\n";
        assert!(read(unknown, Some(&keys)).unwrap_err().contains("the key x"));
        assert_eq!(read(unknown, None).unwrap(), unknown);
    }
}
