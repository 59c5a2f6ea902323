//! Prints the result of EXPLAIN as indented text, and not in a box.

use super::format::Writer;
use super::value::Values;
use crate::failure::Outcome;
use hypostyle::ColumnDescription;
use hypostyle::arrow::array::RecordBatch;
use std::io::Write;
use std::time::Duration;

/// The columns of EXPLAIN and of EXPLAIN ANALYZE.
const COLUMNS: [&str; 2] = ["plan_type", "plan"];

pub fn is_plan(columns: &[ColumnDescription]) -> bool {
    columns.iter().map(|column| column.name.as_str()).eq(COLUMNS)
}

pub struct PlanWriter;

impl Writer for PlanWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        let text =
            |column: usize| Values::text(batch.schema_ref().field(column), batch.column(column).as_ref());
        let (types, plans) = (text(0)?, text(1)?);
        for row in 0..batch.num_rows() {
            let mut lines = String::new();
            types.write(row, &mut lines)?;
            lines.push('\n');
            plans.write(row, &mut lines)?;
            writeln!(out, "{}\n", lines.trim_end())?;
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
    use hypostyle::arrow::array::StringArray;
    use hypostyle::arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    #[test]
    fn line_breaks_are_kept() {
        let column = |name: &str, text: &str| {
            (Field::new(name, DataType::Utf8, true), Arc::new(StringArray::from(vec![text])) as _)
        };
        let batch =
            example::batch(vec![column("plan_type", "physical_plan"), column("plan", "Sort\n  Scan\n")]);
        assert!(is_plan(&example::columns(&batch)));
        let mut out = Vec::new();
        PlanWriter.batch(&mut out, &batch).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "physical_plan\nSort\n  Scan\n\n");
    }
}
