//! Rows as lines of text: CSV and JSON.
//!
//! CSV tells NULL from an empty text and from a text that looks like NULL, as PostgreSQL does:
//! texts that would not read back as they are stand in quotes.

use crate::option::WriteOptions;
use crate::path::FileFormat;
use arrow::array::{
    Array, ArrayRef, AsArray, LargeStringArray, RecordBatch, StringBuilder, StructArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hypostyle_expr::cast::{cast as cast_as_sql, has_far_years, texts_of_far_years};
use hypostyle_expr::json::texts;
use hypostyle_types::LogicalType;
use std::fmt::Write;
use std::sync::Arc;

type Result<T, E = ArrowError> = std::result::Result<T, E>;

/// Turns batches into lines.
#[derive(Debug)]
pub struct Lines {
    format: FileFormat,
    options: WriteOptions,
    schema: SchemaRef,
    /// The session's time zone, in which points in time are written.
    zone: Arc<str>,
    /// The columns whose texts stand in quotes, whatever they are.
    quoted: Vec<bool>,
}

impl Lines {
    pub fn new(format: FileFormat, options: &WriteOptions, schema: SchemaRef, zone: Arc<str>) -> Self {
        let quoted = schema.fields().iter().map(|field| options.is_quoted(field.name())).collect();
        Self { format, options: options.clone(), schema, zone, quoted }
    }

    /// Returns what comes before the rows.
    pub fn start(&self) -> Vec<u8> {
        let mut line = String::new();
        if self.format == FileFormat::Csv && self.options.header {
            for (index, field) in self.schema.fields().iter().enumerate() {
                if index > 0 {
                    line.push(char::from(self.options.delimiter));
                }
                self.push_text(field.name(), &mut line);
            }
            line.push('\n');
        }
        line.into_bytes()
    }

    /// Returns the lines of some rows.
    ///
    /// # Errors
    /// When a type has no form in this format.
    pub fn of(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        match self.format {
            FileFormat::Json => self.json(batch),
            _ => self.csv(batch),
        }
    }

    fn csv(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let texts = batch.columns().iter().zip(self.schema.fields());
        let texts: Vec<ArrayRef> =
            texts.map(|(values, field)| self.csv_values(values, field)).collect::<Result<_>>()?;
        let (date, timestamp) =
            (self.options.date_format.as_deref(), self.options.timestamp_format.as_deref());
        let style = FormatOptions::new()
            .with_date_format(date)
            // A blank replaces ISO 8601's T, as SQL writes timestamps.
            .with_timestamp_format(Some(timestamp.unwrap_or("%Y-%m-%d %H:%M:%S%.f")))
            .with_timestamp_tz_format(timestamp);
        let columns: Vec<Values<'_>> =
            texts.iter().map(|values| Values::new(values, &style)).collect::<Result<_>>()?;
        let mut lines = String::with_capacity(batch.num_rows() * columns.len() * 8);
        let mut value = String::new();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    lines.push(char::from(self.options.delimiter));
                }
                match column.text(row, &mut value)? {
                    Some(text) if self.quoted[index] => self.push_quoted(text, &mut lines),
                    Some(text) => self.push_text(text, &mut lines),
                    None => lines.push_str(&self.options.null_text),
                }
            }
            lines.push('\n');
        }
        Ok(lines.into_bytes())
    }

    /// Returns values in a type that Arrow prints as SQL does.
    fn csv_values(&self, values: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
        let text = Field::new(field.name(), DataType::Utf8View, true);
        match values.data_type() {
            DataType::Timestamp(_, Some(_)) => {
                let here = self.in_zone(values)?;
                // PostgreSQL's form, unless another is asked for.
                if self.options.timestamp_format.is_some() {
                    Ok(here)
                } else {
                    cast_as_sql(&here, &text, false)
                }
            }
            DataType::Timestamp(..) if self.options.timestamp_format.is_none() => usual_years(values),
            DataType::Date32 if self.options.date_format.is_none() => usual_years(values),
            DataType::Interval(_) => cast_as_sql(values, &text, false),
            // An array of NULLs has no bits for them.
            DataType::Null => Ok(new_null_array(text.data_type(), values.len())),
            data_type if data_type.is_nested() => self.json_texts(values, field),
            DataType::Dictionary(_, inner) => {
                let plain = cast(values, inner)?;
                self.csv_values(&plain, field)
            }
            _ => bytes_as_text(uuids_as_text(values, field)?),
        }
    }

    /// Returns points in time in the session's zone.
    fn in_zone(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match values.data_type() {
            DataType::Timestamp(unit, Some(_)) => {
                cast(values, &DataType::Timestamp(*unit, Some(Arc::clone(&self.zone))))
            }
            _ => Ok(Arc::clone(values)),
        }
    }

    fn json(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(values, field)| self.json_values(values, field));
        let (columns, fields): (Vec<ArrayRef>, Vec<Field>) =
            columns.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let schema = Arc::new(Schema::new(fields));
        let rows =
            StructArray::try_new_with_length(schema.fields().clone(), columns, None, batch.num_rows())?;
        let whole: FieldRef = Arc::new(Field::new("rows", rows.data_type().clone(), false));
        let options =
            EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(JsonAsItIs));
        let mut encoder = make_encoder(&whole, &rows, &options)?;
        let mut lines = Vec::with_capacity(batch.num_rows() * self.schema.fields().len() * 16);
        for row in 0..rows.len() {
            encoder.encode(row, &mut lines);
            lines.push(b'\n');
        }
        Ok(lines)
    }

    /// Returns values as `to_json` does.
    fn json_texts(&self, values: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
        let texts = texts(values, field, &self.zone);
        Ok(Arc::new(texts.map_err(|error| ArrowError::ExternalError(Box::new(error)))?))
    }

    /// Returns values in a type that Arrow writes as JSON, and its field. JSON, what is nested, and numbers
    /// that JSON lacks, and times of years that Arrow writes in another form, are written as `to_json` does.
    fn json_values(&self, values: &ArrayRef, field: &FieldRef) -> Result<(ArrayRef, Field)> {
        let written = match values.data_type() {
            data_type
                if data_type.is_nested()
                    || is_json(field)
                    || has_other_numbers(values)
                    || has_far_years(values) =>
            {
                let texts = self.json_texts(values, field)?;
                let json = LogicalType::Json.arrow_field(field.name(), true);
                return Ok((texts, json.with_data_type(DataType::LargeUtf8)));
            }
            DataType::Timestamp(_, Some(_)) => self.in_zone(values)?,
            DataType::Interval(_) => {
                cast_as_sql(values, &Field::new(field.name(), DataType::Utf8View, true), false)?
            }
            _ => bytes_as_text(uuids_as_text(values, field)?)?,
        };
        let field = Field::new(field.name(), written.data_type().clone(), true);
        Ok((written, field))
    }

    /// Appends a text, in quotes where it would be taken for something else.
    fn push_text(&self, text: &str, line: &mut String) {
        let WriteOptions { delimiter, quote, escape, null_text, .. } = &self.options;
        let escape = escape.unwrap_or(*quote);
        let has_meaning = |byte: u8| {
            byte == *delimiter || byte == *quote || byte == escape || matches!(byte, b'\n' | b'\r')
        };
        // Blanks at the ends, comments and marks mean something to readers.
        let is_plain = !text.is_empty()
            && text != null_text
            && !text.starts_with([' ', '#', '\u{FEFF}'])
            && !text.ends_with(' ')
            && !text.bytes().any(has_meaning);
        match is_plain {
            true => line.push_str(text),
            false => self.push_quoted(text, line),
        }
    }

    fn push_quoted(&self, text: &str, line: &mut String) {
        let quote = char::from(self.options.quote);
        let escape = self.options.escape.map_or(quote, char::from);
        line.push(quote);
        for character in text.chars() {
            if character == quote || character == escape {
                line.push(escape);
            }
            line.push(character);
        }
        line.push(quote);
    }
}

/// Returns bytes as PostgreSQL and `to_json` write them, hexadecimal digits behind `\x`, and others as they
/// are.
fn bytes_as_text(values: ArrayRef) -> Result<ArrayRef> {
    if !values.data_type().is_binary() {
        return Ok(values);
    }
    let bytes = cast(&values, &DataType::LargeBinary)?;
    let text = |bytes: &[u8]| -> Result<String> {
        let mut text = String::with_capacity(2 + 2 * bytes.len());
        text.push_str("\\x");
        for byte in bytes {
            write!(text, "{byte:02x}").map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        }
        Ok(text)
    };
    let texts = bytes.as_binary::<i64>().iter().map(|bytes| bytes.map(text).transpose());
    Ok(Arc::new(texts.collect::<Result<LargeStringArray>>()?))
}

fn is_json(field: &Field) -> bool {
    LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Json)
}

/// Writes columns of JSON without quotes around it.
#[derive(Debug)]
struct JsonAsItIs;

impl EncoderFactory for JsonAsItIs {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>> {
        let Some(texts) = array.as_string_opt::<i64>().filter(|_| is_json(field)) else { return Ok(None) };
        Ok(Some(NullableEncoder::new(Box::new(AsItIs(texts)), texts.nulls().cloned())))
    }
}

struct AsItIs<'a>(&'a LargeStringArray);

impl Encoder for AsItIs<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.value(row).as_bytes());
    }
}

/// The values of a column as texts.
enum Values<'a> {
    Text(&'a arrow::array::StringViewArray),
    Plain(&'a arrow::array::StringArray),
    Large(&'a arrow::array::LargeStringArray),
    Other(&'a dyn Array, ArrayFormatter<'a>),
}

impl<'a> Values<'a> {
    fn new(values: &'a ArrayRef, style: &FormatOptions<'a>) -> Result<Self> {
        Ok(match values.data_type() {
            DataType::Utf8View => Self::Text(values.as_string_view()),
            DataType::Utf8 => Self::Plain(values.as_string()),
            DataType::LargeUtf8 => Self::Large(values.as_string()),
            _ => Self::Other(values.as_ref(), ArrayFormatter::try_new(values.as_ref(), style)?),
        })
    }

    /// Returns the text of a row, which may be put into `space`; `None` for NULL.
    fn text<'t>(&'t self, row: usize, space: &'t mut String) -> Result<Option<&'t str>> {
        Ok(match self {
            Self::Text(values) => values.is_valid(row).then(|| values.value(row)),
            Self::Plain(values) => values.is_valid(row).then(|| values.value(row)),
            Self::Large(values) => values.is_valid(row).then(|| values.value(row)),
            Self::Other(values, _) if values.is_null(row) => None,
            Self::Other(_, formatter) => {
                space.clear();
                write!(space, "{}", formatter.value(row))
                    .map_err(|_| ArrowError::CsvError("a value that has no text".into()))?;
                Some(space.as_str())
            }
        })
    }
}

/// Returns dates and points in time as they are, or their texts if Arrow writes some of them in another form.
fn usual_years(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(texts_of_far_years(values)?.map_or_else(|| Arc::clone(values), |texts| Arc::new(texts) as ArrayRef))
}

fn uuids_as_text(values: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let is_uuid = LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Uuid);
    if !is_uuid || !matches!(values.data_type(), DataType::FixedSizeBinary(_)) {
        return Ok(Arc::clone(values));
    }
    let mut builder = StringBuilder::with_capacity(values.len(), values.len() * 36);
    for value in values.as_fixed_size_binary() {
        let uuid = value.and_then(|bytes| uuid::Uuid::from_slice(bytes).ok());
        builder.append_option(uuid.map(|uuid| uuid.hyphenated().to_string()));
    }
    Ok(Arc::new(builder.finish()))
}

/// Says whether there are floating-point numbers among values that are none of JSON's.
fn has_other_numbers(values: &ArrayRef) -> bool {
    match values.data_type() {
        DataType::Float64 => values.as_primitive::<Float64Type>().iter().flatten().any(|of| !of.is_finite()),
        DataType::Float32 => values.as_primitive::<Float32Type>().iter().flatten().any(|of| !of.is_finite()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{FixedSizeBinaryArray, Float32Array, Float64Array};

    #[test]
    fn numbers_that_json_lacks_are_written_as_texts() {
        let doubles = Float64Array::from(vec![Some(1.5), Some(f64::NAN), None, Some(f64::NEG_INFINITY)]);
        let floats = Float32Array::from(vec![Some(f32::INFINITY), Some(0.5), Some(f32::NAN), None]);
        let schema = Arc::new(Schema::new(vec![
            Field::new("d", DataType::Float64, true),
            Field::new("f", DataType::Float32, true),
        ]));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(doubles), Arc::new(floats)]).unwrap();
        let options = WriteOptions::parse("x.json", FileFormat::Json, &[]).unwrap();
        let lines = Lines::new(FileFormat::Json, &options, schema, "UTC".into()).of(&batch).unwrap();
        let expected = [
            r#"{"d":1.5,"f":"Infinity"}"#,
            r#"{"d":"NaN","f":0.5}"#,
            r#"{"d":null,"f":"NaN"}"#,
            r#"{"d":"-Infinity","f":null}"#,
        ];
        assert_eq!(String::from_utf8(lines).unwrap().lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn values_within_others_are_in_csv_what_they_are_in_json() {
        let json = LogicalType::Json.arrow_field("j", true).with_data_type(DataType::LargeUtf8);
        let fields = vec![
            Arc::new(json),
            Arc::new(LogicalType::Uuid.arrow_field("u", true)),
            Arc::new(Field::new("d", DataType::Float64, true)),
        ];
        let uuid = [7_u8; 16];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(LargeStringArray::from(vec![r#"{"a": [1]}"#])),
            Arc::new(FixedSizeBinaryArray::try_from_iter([uuid].into_iter()).unwrap()),
            Arc::new(Float64Array::from(vec![f64::NAN])),
        ];
        let rows: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, None));
        let schema = Arc::new(Schema::new(vec![Field::new("s", rows.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![rows]).unwrap();
        let pairs = [("header".to_string(), datafusion::common::ScalarValue::from(false))];
        let options = WriteOptions::parse("x.csv", FileFormat::Csv, &pairs).unwrap();
        let lines = Lines::new(FileFormat::Csv, &options, schema, "UTC".into()).of(&batch).unwrap();
        let expected = r#"{"j":{"a":[1]},"u":"07070707-0707-0707-0707-070707070707","d":"NaN"}"#;
        let expected = format!("\"{}\"\n", expected.replace('"', "\"\""));
        assert_eq!(String::from_utf8(lines).unwrap(), expected);
    }

    #[test]
    fn columns_stand_in_quotes_where_that_is_asked_for() {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::LargeUtf8, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let column = |texts: [Option<&str>; 2]| Arc::new(LargeStringArray::from(texts.to_vec())) as ArrayRef;
        let columns = vec![column([Some("x"), None]), column([Some("y\"z"), Some("")])];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        for (names, expected) in [
            ("*", "\"x\",\"y\"\"z\"\n,\"\"\n"),
            ("A", "\"x\",\"y\"\"z\"\n,\"\"\n"),
            ("b", "x,\"y\"\"z\"\n,\"\"\n"),
        ] {
            let pairs = [("force_quote".to_string(), datafusion::common::ScalarValue::from(names))];
            let options = WriteOptions::parse("x.csv", FileFormat::Csv, &pairs).unwrap();
            assert!(options.check_columns(&["a", "b"]).is_ok());
            assert!(options.check_columns(&["c"]).is_err() || names == "*");
            let lines = Lines::new(FileFormat::Csv, &options, schema.clone(), "UTC".into());
            assert_eq!(String::from_utf8(lines.of(&batch).unwrap()).unwrap(), expected, "{names}");
            assert_eq!(lines.start(), b"a,b\n");
        }
    }

    #[test]
    fn texts_that_would_be_taken_for_something_else_stand_in_quotes() {
        let lines = |options: &[(&str, &str)]| {
            let pairs: Vec<crate::Pair> = options
                .iter()
                .map(|(name, value)| (name.to_string(), datafusion::common::ScalarValue::from(*value)))
                .collect();
            let options = WriteOptions::parse("x.csv", FileFormat::Csv, &pairs).unwrap();
            Lines::new(FileFormat::Csv, &options, Arc::new(Schema::empty()), "UTC".into())
        };
        let pushed = |lines: &Lines, text: &str| {
            let mut line = String::new();
            lines.push_text(text, &mut line);
            line
        };
        let usual = lines(&[]);
        for (text, written) in [
            ("a b", "a b"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("a\nb", "\"a\nb\""),
            (" a", "\" a\""),
            ("#a", "\"#a\""),
            ("a\\b", "a\\b"),
        ] {
            assert_eq!(pushed(&usual, text), written);
        }
        let other = lines(&[("escape", "\\"), ("null", "NA"), ("delim", ";")]);
        for (text, written) in [
            ("NA", "\"NA\""),
            ("a\\b", "\"a\\\\b\""),
            ("a\"b", "\"a\\\"b\""),
            ("a,b", "a,b"),
            ("a;b", "\"a;b\""),
        ] {
            assert_eq!(pushed(&other, text), written);
        }
    }
}
