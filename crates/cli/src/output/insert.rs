//! Prints INSERT statements, one for each row. Running them gives the same rows.

use super::format::{Settings, Writer};
use super::value::{Values, is_number};
use crate::failure::Outcome;
use crate::token::quote_name;
use hypostyle::arrow::array::RecordBatch;
use hypostyle::{ColumnDescription, LogicalType};
use std::io::Write;
use std::time::Duration;

pub struct InsertWriter {
    before: String,
    /// The columns whose values need no quotes.
    plain: Vec<bool>,
}

impl InsertWriter {
    pub fn new(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        let table: Vec<String> = settings.insert_table.split('.').map(quote_name).collect();
        let names: Vec<String> = columns.iter().map(|column| quote_name(&column.name)).collect();
        let plain = |column: &ColumnDescription| {
            column.logical_type == LogicalType::Boolean || is_number(&column.logical_type.arrow_type())
        };
        Self {
            before: format!("INSERT INTO {} ({}) VALUES (", table.join("."), names.join(", ")),
            plain: columns.iter().map(plain).collect(),
        }
    }
}

impl Writer for InsertWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        let columns = Values::of_batch(batch)?;
        let (mut line, mut text) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            line.push_str(&self.before);
            for (index, (column, plain)) in columns.iter().zip(&self.plain).enumerate() {
                if index > 0 {
                    line.push_str(", ");
                }
                if column.is_null(row) {
                    line.push_str("NULL");
                    continue;
                }
                text.clear();
                column.write(row, &mut text)?;
                // Infinity and NaN are no literals.
                if *plain && !text.ends_with(['f', 'N']) {
                    line.push_str(&text);
                } else {
                    line.push('\'');
                    line.push_str(&text.replace('\'', "''"));
                    line.push('\'');
                }
            }
            line.push_str(");\n");
            out.write_all(line.as_bytes())?;
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
    use hypostyle::arrow::array::{BooleanArray, Float64Array, StringArray};
    use hypostyle::arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    #[test]
    fn values_are_literals() {
        let batch = example::batch(vec![
            (Field::new("a b", DataType::Utf8, true), Arc::new(StringArray::from(vec![Some("it's"), None]))),
            (
                Field::new("f", DataType::Float64, true),
                Arc::new(Float64Array::from(vec![1.5, f64::INFINITY])),
            ),
            (Field::new("t", DataType::Boolean, true), Arc::new(BooleanArray::from(vec![true, false]))),
        ]);
        let settings = Settings { insert_table: "raw.Order".into(), ..Settings::default() };
        let mut writer = InsertWriter::new(&settings, &example::columns(&batch));
        let mut out = Vec::new();
        writer.batch(&mut out, &batch).unwrap();
        let expected = "INSERT INTO raw.\"Order\" (\"a b\", f, t) VALUES ('it''s', 1.5, true);\n\
                        INSERT INTO raw.\"Order\" (\"a b\", f, t) VALUES (NULL, 'inf', false);\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
