//! Prints a GitHub table. Rows are written as they come, so columns are not padded to one width.

use super::format::{Settings, Start, Writer};
use super::value::{Values, is_number};
use crate::failure::Outcome;
use hypostyle::ColumnDescription;
use hypostyle::arrow::array::RecordBatch;
use std::io::Write;
use std::time::Duration;

pub struct MarkdownWriter {
    null: String,
    header: Start,
}

impl MarkdownWriter {
    pub fn new(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        let mut header = String::new();
        for column in columns {
            push_cell(&column.name, &mut header);
        }
        header.push_str("|\n");
        for column in columns {
            header.push_str(if is_number(&column.logical_type.arrow_type()) { "| ---: " } else { "| --- " });
        }
        header.push_str("|\n");
        Self { null: settings.null_or("NULL").into(), header: Start(Some(header)) }
    }
}

impl Writer for MarkdownWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        self.header.write(out)?;
        let columns = Values::of_batch(batch)?;
        let (mut line, mut text) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            for column in &columns {
                text.clear();
                match column.is_null(row) {
                    true => text.push_str(&self.null),
                    false => column.write(row, &mut text)?,
                }
                push_cell(&text, &mut line);
            }
            line.push_str("|\n");
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write, _elapsed: Duration) -> Outcome {
        self.header.write(out)
    }
}

/// Appends a cell, and escapes characters that would end it or its line.
fn push_cell(text: &str, line: &mut String) {
    line.push_str("| ");
    line.push_str(
        &text.replace('\\', "\\\\").replace('|', "\\|").replace("\r\n", "<br>").replace('\n', "<br>"),
    );
    line.push(' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::example;
    use hypostyle::arrow::array::{Int32Array, StringArray};
    use hypostyle::arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    #[test]
    fn cells_cannot_break_the_table() {
        let batch = example::batch(vec![
            (
                Field::new("a|b", DataType::Utf8, true),
                Arc::new(StringArray::from(vec![Some("x|y\nz"), None])),
            ),
            (Field::new("n", DataType::Int32, true), Arc::new(Int32Array::from(vec![1, 2]))),
        ]);
        let mut writer = MarkdownWriter::new(&Settings::default(), &example::columns(&batch));
        let mut out = Vec::new();
        writer.batch(&mut out, &batch).unwrap();
        writer.end(&mut out, Duration::ZERO).unwrap();
        let expected = "| a\\|b | n |\n| --- | ---: |\n| x\\|y<br>z | 1 |\n| NULL | 2 |\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
