//! Prints an HTML table.

use super::format::{Settings, Start, Writer};
use super::value::{Values, is_number};
use crate::failure::Outcome;
use hypostyle::ColumnDescription;
use hypostyle::arrow::array::RecordBatch;
use std::io::Write;
use std::time::Duration;

pub struct HtmlWriter {
    null: String,
    numbers: Vec<bool>,
    start: Start,
}

impl HtmlWriter {
    pub fn new(settings: &Settings, columns: &[ColumnDescription]) -> Self {
        let mut start = String::from("<table>\n");
        if settings.headers {
            start.push_str("<tr>");
            for column in columns {
                start.push_str("<th>");
                push_escaped(&column.name, &mut start);
                start.push_str("</th>");
            }
            start.push_str("</tr>\n");
        }
        let numbers = columns.iter().map(|column| is_number(&column.logical_type.arrow_type())).collect();
        Self { null: settings.null_or("NULL").into(), numbers, start: Start(Some(start)) }
    }
}

impl Writer for HtmlWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        self.start.write(out)?;
        let columns = Values::of_batch(batch)?;
        let (mut line, mut text) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            line.push_str("<tr>");
            for (column, is_number) in columns.iter().zip(&self.numbers) {
                text.clear();
                match column.is_null(row) {
                    true => text.push_str(&self.null),
                    false => column.write(row, &mut text)?,
                }
                line.push_str(if *is_number { "<td align=\"right\">" } else { "<td>" });
                push_escaped(&text, &mut line);
                line.push_str("</td>");
            }
            line.push_str("</tr>\n");
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write, _elapsed: Duration) -> Outcome {
        self.start.write(out)?;
        Ok(out.write_all(b"</table>\n")?)
    }
}

fn push_escaped(text: &str, line: &mut String) {
    for character in text.chars() {
        match character {
            '&' => line.push_str("&amp;"),
            '<' => line.push_str("&lt;"),
            '>' => line.push_str("&gt;"),
            '"' => line.push_str("&quot;"),
            '\n' => line.push_str("<br>"),
            other => line.push(other),
        }
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
    fn values_cannot_become_markup() {
        let batch = example::batch(vec![
            (
                Field::new("<b>", DataType::Utf8, true),
                Arc::new(StringArray::from(vec!["a & \"b\"\n</table>"])),
            ),
            (Field::new("n", DataType::Int32, true), Arc::new(Int32Array::from(vec![None]))),
        ]);
        let mut writer = HtmlWriter::new(&Settings::default(), &example::columns(&batch));
        let mut out = Vec::new();
        writer.batch(&mut out, &batch).unwrap();
        writer.end(&mut out, Duration::ZERO).unwrap();
        let expected = "<table>\n<tr><th>&lt;b&gt;</th><th>n</th></tr>\n\
                        <tr><td>a &amp; &quot;b&quot;<br>&lt;/table&gt;</td><td align=\"right\">NULL</td></tr>\n</table>\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
