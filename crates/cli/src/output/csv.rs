//! Prints CSV (RFC 4180, line ends `\n`).
//!
//! Arrow's CSV writer takes no nested types, and prints NULL and the empty string alike. Here the
//! empty string is quoted, so that both can be read back.

use super::format::{Settings, Start, Writer};
use super::value::Values;
use crate::failure::Outcome;
use hypostyle::ColumnDescription;
use hypostyle::arrow::array::RecordBatch;
use std::io::Write;
use std::time::Duration;

pub struct CsvWriter {
    null: String,
    header: Start,
}

impl CsvWriter {
    pub fn new(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        let null = settings.null_or("").to_string();
        let header = settings.headers.then(|| {
            let mut line = String::new();
            for (index, column) in columns.iter().enumerate() {
                push_separator(index, &mut line);
                push_field(&column.name, &null, &mut line);
            }
            line.push('\n');
            line
        });
        Self { null, header: Start(header) }
    }
}

impl Writer for CsvWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        self.header.write(out)?;
        let columns = Values::of_batch(batch)?;
        let (mut line, mut text) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            for (index, column) in columns.iter().enumerate() {
                push_separator(index, &mut line);
                if column.is_null(row) {
                    line.push_str(&self.null);
                } else {
                    text.clear();
                    column.write(row, &mut text)?;
                    push_field(&text, &self.null, &mut line);
                }
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write, _elapsed: Duration) -> Outcome {
        self.header.write(out)
    }
}

fn push_separator(index: usize, line: &mut String) {
    if index > 0 {
        line.push(',');
    }
}

/// Appends a field, with quotes if it would be read differently without them.
fn push_field(text: &str, null: &str, line: &mut String) {
    if text == null || text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::example;
    use hypostyle::arrow::array::{ArrayRef, Int32Array, StringArray};
    use hypostyle::arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    fn print(settings: &Settings, batch: &RecordBatch) -> String {
        let mut writer = CsvWriter::new(settings, &example::columns(batch));
        let mut out = Vec::new();
        writer.batch(&mut out, batch).unwrap();
        writer.end(&mut out, Duration::ZERO).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn null_and_the_empty_string_differ() {
        let text: ArrayRef =
            Arc::new(StringArray::from(vec![Some(""), None, Some("a,\"b\"\nc"), Some("NA")]));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), None]));
        let batch = example::batch(vec![
            (Field::new("t,x", DataType::Utf8, true), text),
            (Field::new("n", DataType::Int32, true), numbers),
        ]);
        assert_eq!(print(&Settings::default(), &batch), "\"t,x\",n\n\"\",1\n,\n\"a,\"\"b\"\"\nc\",3\nNA,\n");
        let settings = Settings { headers: false, null: Some("NA".into()), ..Settings::default() };
        assert_eq!(print(&settings, &batch), "\"\",1\nNA,NA\n\"a,\"\"b\"\"\nc\",3\n\"NA\",NA\n");
    }

    #[test]
    fn every_type_is_one_field() {
        for (field, array, text, _) in example::every_type() {
            let batch = example::batch(vec![(field, array)]);
            let settings = Settings { headers: false, null: Some("NULL".into()), ..Settings::default() };
            let quoted = if text.contains(['"', ',', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.into()
            };
            assert_eq!(print(&settings, &batch), format!("{quoted}\nNULL\n"));
        }
    }

    #[test]
    fn a_result_without_rows_still_has_its_header() {
        let batch = example::batch(vec![(
            Field::new("n", DataType::Int32, true),
            Arc::new(Int32Array::from(vec![1])),
        )]);
        assert_eq!(print(&Settings::default(), &batch.slice(0, 0)), "n\n");
    }
}
