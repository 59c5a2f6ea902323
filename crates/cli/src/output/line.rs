//! Prints one `name = value` per line, with a blank line between rows, for wide rows.

use super::format::{Settings, Writer};
use super::value::Values;
use crate::failure::Outcome;
use hypostyle::ColumnDescription;
use hypostyle::arrow::array::RecordBatch;
use std::io::Write;
use std::time::Duration;

pub struct LineWriter {
    null: String,
    names: Vec<String>,
    headers: bool,
    has_rows: bool,
}

impl LineWriter {
    pub fn new(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        let width = columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0);
        Self {
            null: settings.null_or("NULL").into(),
            names: columns.iter().map(|column| format!("{:>width$}", column.name)).collect(),
            headers: settings.headers,
            has_rows: false,
        }
    }
}

impl Writer for LineWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        let columns = Values::of_batch(batch)?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            if std::mem::replace(&mut self.has_rows, true) {
                writeln!(out)?;
            }
            for (column, name) in columns.iter().zip(&self.names) {
                text.clear();
                match column.is_null(row) {
                    true => text.push_str(&self.null),
                    false => column.write(row, &mut text)?,
                }
                match self.headers {
                    true => writeln!(out, "{name} = {text}")?,
                    false => writeln!(out, "{text}")?,
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut dyn Write, _elapsed: Duration) -> Outcome {
        Ok(())
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
    fn names_line_up_and_rows_are_apart() {
        let batch = example::batch(vec![
            (Field::new("name", DataType::Utf8, true), Arc::new(StringArray::from(vec![Some("a"), None]))),
            (Field::new("n", DataType::Int32, true), Arc::new(Int32Array::from(vec![1, 2]))),
        ]);
        let mut writer = LineWriter::new(&Settings::default(), &example::columns(&batch));
        let mut out = Vec::new();
        writer.batch(&mut out, &batch).unwrap();
        let expected = "name = a\n   n = 1\n\nname = NULL\n   n = 2\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
