//! Prints JSON: one array of objects, or one object per line (JSON Lines).

use super::format::Writer;
use super::value::Values;
use crate::failure::Outcome;
use hypostyle::arrow::array::RecordBatch;
use hypostyle::{Error, Result};
use std::io::Write;
use std::time::Duration;

pub struct JsonWriter {
    before_first: &'static str,
    between: &'static str,
    after_last: &'static str,
    of_none: &'static str,
    has_rows: bool,
}

impl JsonWriter {
    pub fn array() -> Self {
        Self { before_first: "[\n", between: ",\n", after_last: "\n]\n", of_none: "[]\n", has_rows: false }
    }

    pub fn lines() -> Self {
        Self { before_first: "", between: "\n", after_last: "\n", of_none: "", has_rows: false }
    }
}

impl Writer for JsonWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        let schema = batch.schema_ref();
        let columns = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| {
                let key = serde_json::to_string(field.name())
                    .map_err(|error| Error::internal(error.to_string()))?;
                Ok((key, Values::json(field, array.as_ref())?))
            })
            .collect::<Result<Vec<_>>>()?;
        let mut line = String::new();
        for row in 0..batch.num_rows() {
            line.clear();
            line.push_str(if self.has_rows { self.between } else { self.before_first });
            self.has_rows = true;
            line.push('{');
            for (index, (key, values)) in columns.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                line.push_str(key);
                line.push(':');
                match values.is_null(row) {
                    true => line.push_str("null"),
                    false => values.write(row, &mut line)?,
                }
            }
            line.push('}');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write, _elapsed: Duration) -> Outcome {
        let end = if self.has_rows { self.after_last } else { self.of_none };
        Ok(out.write_all(end.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::example;
    use crate::output::pieces;

    fn print(mut writer: JsonWriter, batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        for batch in batches {
            writer.batch(&mut out, batch).unwrap();
        }
        writer.end(&mut out, Duration::ZERO).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_of_every_type_is_one_valid_object() {
        let columns = example::every_type();
        let expected: Vec<String> =
            columns.iter().map(|(field, _, _, json)| format!("\"{}\":{json}", field.name())).collect();
        let batch = example::batch(columns.into_iter().map(|(field, array, _, _)| (field, array)).collect());
        let text = print(JsonWriter::lines(), &[batch.slice(0, 1), batch.slice(1, 1)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("{{{}}}", expected.join(",")));
        let nulls: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
        assert!(nulls.as_object().unwrap().values().all(serde_json::Value::is_null));

        let array: serde_json::Value = serde_json::from_str(&print(JsonWriter::array(), &[batch])).unwrap();
        assert_eq!(array.as_array().unwrap().len(), 2);
    }

    #[test]
    fn no_rows_are_an_empty_array_or_no_line() {
        assert_eq!(print(JsonWriter::array(), &[]), "[]\n");
        assert_eq!(print(JsonWriter::lines(), &[]), "");
    }

    #[test]
    fn pieces_hold_every_row_once() {
        let numbers = hypostyle::arrow::array::Int32Array::from_iter_values(0..20_000);
        let field =
            hypostyle::arrow::datatypes::Field::new("n", hypostyle::arrow::datatypes::DataType::Int32, false);
        let batch = example::batch(vec![(field, std::sync::Arc::new(numbers))]);
        let text = print(JsonWriter::lines(), &pieces(&batch).collect::<Vec<_>>());
        let expected: String = (0..20_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        assert_eq!(text, expected);
    }
}
