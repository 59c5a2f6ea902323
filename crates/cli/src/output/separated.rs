//! Prints plain columns between separators: tabs, lists, and the ASCII separators.

use super::format::{Settings, Start, Writer};
use super::value::Values;
use crate::failure::Outcome;
use hypostyle::ColumnDescription;
use hypostyle::arrow::array::RecordBatch;
use std::io::Write;
use std::time::Duration;

const UNIT_SEPARATOR: &str = "\u{1f}";
const RECORD_SEPARATOR: &str = "\u{1e}";

pub struct SeparatedWriter {
    null: String,
    between: String,
    end_of_row: &'static str,
    /// Says whether tabs, line ends and backslashes are written as `\t`, `\n`, `\r` and `\\`.
    escapes: bool,
    header: Start,
}

impl SeparatedWriter {
    /// Returns the writer of PostgreSQL's text format.
    pub fn tabs(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        Self::new(settings, columns, "\t", "\n", true)
    }

    pub fn list(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        Self::new(settings, columns, &settings.separator, "\n", false)
    }

    pub fn ascii(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        Self::new(settings, columns, UNIT_SEPARATOR, RECORD_SEPARATOR, false)
    }

    fn new(
        settings: &Settings,
        columns: &[ColumnDescription],
        between: &str,
        end_of_row: &'static str,
        escapes: bool,
    ) -> Self {
        let null = settings.null_or(if escapes { "\\N" } else { "NULL" }).to_string();
        let mut writer = Self { null, between: between.into(), end_of_row, escapes, header: Start(None) };
        if settings.headers {
            let mut header = String::new();
            for (index, column) in columns.iter().enumerate() {
                writer.push(index, &column.name, &mut header);
            }
            header.push_str(end_of_row);
            writer.header = Start(Some(header));
        }
        writer
    }

    fn push(&self, index: usize, text: &str, line: &mut String) {
        if index > 0 {
            line.push_str(&self.between);
        }
        if !self.escapes {
            line.push_str(text);
            return;
        }
        for character in text.chars() {
            match character {
                '\\' => line.push_str("\\\\"),
                '\t' => line.push_str("\\t"),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                other => line.push(other),
            }
        }
    }
}

impl Writer for SeparatedWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        self.header.write(out)?;
        let columns = Values::of_batch(batch)?;
        let (mut line, mut text) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            for (index, column) in columns.iter().enumerate() {
                if column.is_null(row) {
                    if index > 0 {
                        line.push_str(&self.between);
                    }
                    line.push_str(&self.null);
                } else {
                    text.clear();
                    column.write(row, &mut text)?;
                    self.push(index, &text, &mut line);
                }
            }
            line.push_str(self.end_of_row);
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write, _elapsed: Duration) -> Outcome {
        self.header.write(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::example;
    use hypostyle::arrow::array::{Int32Array, StringArray};
    use hypostyle::arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    #[test]
    fn every_mode_has_its_separators() {
        let texts = StringArray::from(vec![Some("a\tb\\"), Some("c\nd"), None]);
        let batch = example::batch(vec![
            (Field::new("t", DataType::Utf8, true), Arc::new(texts)),
            (Field::new("n", DataType::Int32, true), Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ]);
        let columns = example::columns(&batch);
        let settings = Settings { separator: "; ".into(), ..Settings::default() };
        for (mut writer, expected) in [
            (SeparatedWriter::tabs(&settings, &columns), "t\tn\na\\tb\\\\\t1\nc\\nd\t2\n\\N\t3\n"),
            (SeparatedWriter::list(&settings, &columns), "t; n\na\tb\\; 1\nc\nd; 2\nNULL; 3\n"),
            (
                SeparatedWriter::ascii(&settings, &columns),
                "t\u{1f}n\u{1e}a\tb\\\u{1f}1\u{1e}c\nd\u{1f}2\u{1e}NULL\u{1f}3\u{1e}",
            ),
        ] {
            let mut out = Vec::new();
            writer.batch(&mut out, &batch).unwrap();
            writer.end(&mut out, Duration::ZERO).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
