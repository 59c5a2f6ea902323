//! Compares the rows of a pipeline with those of the operators that it stands for.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_expr_common::sort_expr::LexOrdering;

/// Sums of floating-point numbers depend on the order of rows: they may differ by this share.
const TOLERANCE: f64 = 1e-9;

/// What a pipeline says of its result.
#[derive(Default)]
pub(super) struct Given<'a> {
    /// The order of the rows.
    pub order: Option<&'a LexOrdering>,
    /// Whether the rows may be others whose keys are the same.
    pub is_cut: bool,
    /// The columns that depend on how rows are ordered whose keys are equal.
    pub uncertain: &'a [usize],
}

/// Fails unless two results have the same rows, in any order, and where they have one, the same order.
pub(super) fn compare(
    found: &[RecordBatch],
    expected: &[RecordBatch],
    given: &Given<'_>,
    of: &str,
) -> Result<()> {
    let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if count(found) != count(expected) {
        return internal_err!(
            "a position pipeline gives {} rows, and operators {}: {of}",
            count(found),
            count(expected)
        );
    }
    let (Some(one), Some(_)) = (found.first(), expected.first()) else { return Ok(()) };
    let schema = one.schema();
    if let Some(order) = given.order {
        compare_order(found, expected, order, of)?;
        if given.is_cut {
            return Ok(());
        }
    }
    let found = concat_batches(&schema, found)?;
    let columns = |batch: &RecordBatch| batch.columns().to_vec();
    let expected: Vec<Vec<ArrayRef>> = expected.iter().map(columns).collect();
    let mut joined = Vec::with_capacity(found.num_columns());
    for column in 0..found.num_columns() {
        let parts: Vec<&dyn Array> = expected.iter().map(|columns| columns[column].as_ref()).collect();
        joined.push(arrow::compute::concat(&parts)?);
    }
    let certain = |columns: &[ArrayRef]| {
        let columns = columns.iter().enumerate();
        let columns = columns.filter(|(place, _)| !given.uncertain.contains(place));
        rows(&columns.map(|(_, column)| column.clone()).collect::<Vec<_>>())
    };
    let (mut left, mut right) = (certain(found.columns())?, certain(&joined)?);
    left.sort();
    right.sort();
    for (one, other) in left.iter().zip(&right) {
        if !one.is_like(other) {
            return internal_err!("a position pipeline gives the row {one:?}, and operators {other:?}: {of}");
        }
    }
    Ok(())
}

/// Fails unless the rows of two results have the same keys in the same order.
fn compare_order(
    found: &[RecordBatch],
    expected: &[RecordBatch],
    order: &LexOrdering,
    of: &str,
) -> Result<()> {
    let keys = |batches: &[RecordBatch]| -> Result<Vec<Row>> {
        let mut all = Vec::new();
        for batch in batches {
            let keys = order.iter().map(|key| key.expr.evaluate(batch)?.into_array(batch.num_rows()));
            all.extend(rows(&keys.collect::<Result<Vec<_>>>()?)?);
        }
        Ok(all)
    };
    for (place, (one, other)) in keys(found)?.iter().zip(&keys(expected)?).enumerate() {
        if !one.is_like(other) {
            return internal_err!(
                "a position pipeline has the keys {one:?} in row {place}, and operators {other:?}: {of}"
            );
        }
    }
    Ok(())
}

/// A row: its texts, by which rows are sorted, and its floating-point numbers.
#[derive(Debug)]
struct Row {
    texts: Vec<String>,
    numbers: Vec<f64>,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let numbers = self.numbers.iter().zip(&other.numbers).map(|(one, other)| one.total_cmp(other));
        self.texts.cmp(&other.texts).then(numbers.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then))
    }
}

impl Row {
    fn is_like(&self, other: &Self) -> bool {
        let close = |(one, other): (&f64, &f64)| {
            one == other
                || (one - other).abs() <= TOLERANCE * one.abs().max(other.abs())
                || one.is_nan() && other.is_nan()
        };
        self.texts == other.texts && self.numbers.iter().zip(&other.numbers).all(close)
    }
}

fn rows(columns: &[ArrayRef]) -> Result<Vec<Row>> {
    let options = arrow::util::display::FormatOptions::new().with_null("NULL");
    let count = columns.first().map_or(0, |column| column.len());
    let mut rows: Vec<Row> = (0..count).map(|_| Row { texts: Vec::new(), numbers: Vec::new() }).collect();
    for column in columns {
        let number = |row: usize| match column.data_type() {
            DataType::Float64 => Some(column.as_primitive::<Float64Type>().value(row)),
            DataType::Float32 => Some(f64::from(column.as_primitive::<Float32Type>().value(row))),
            _ => None,
        };
        let formatter = arrow::util::display::ArrayFormatter::try_new(column.as_ref(), &options)?;
        for (row, place) in rows.iter_mut().zip(0..) {
            match number(place).filter(|_| column.is_valid(place)) {
                Some(number) => row.numbers.push(number),
                None => row.texts.push(formatter.value(place).to_string()),
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array};
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    fn batch(keys: Vec<Option<i64>>, sums: Vec<f64>) -> RecordBatch {
        let fields = [Field::new("k", DataType::Int64, true), Field::new("s", DataType::Float64, true)];
        let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(keys)), Arc::new(Float64Array::from(sums))];
        RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns.to_vec()).unwrap()
    }

    #[test]
    fn rows_are_compared_in_any_order_and_sums_almost() {
        let found = [batch(vec![Some(1), None], vec![0.3, 5.0])];
        let same = [batch(vec![None], vec![5.0]), batch(vec![Some(1)], vec![0.1 + 0.2])];
        compare(&found, &same, &Given::default(), "a test").unwrap();
        // NaN has a place in the order, too.
        let numbers = |numbers: Vec<f64>| batch(vec![None; numbers.len()], numbers);
        let found = [numbers(vec![f64::NAN, -2.5, 0.1, 7.0])];
        compare(&found, &[numbers(vec![7.0, 0.1, f64::NAN, -2.5])], &Given::default(), "a test").unwrap();
        let found = [batch(vec![Some(1), None], vec![0.3, 5.0])];
        for other in [
            batch(vec![Some(1), None], vec![0.3001, 5.0]),
            batch(vec![Some(1), Some(0)], vec![0.3, 5.0]),
            batch(vec![Some(1)], vec![0.3]),
            batch(vec![Some(1), None], vec![f64::NAN, 5.0]),
        ] {
            compare(&found, &[other], &Given::default(), "a test").unwrap_err();
        }
    }

    #[test]
    fn rows_of_an_order_are_compared_in_it() {
        use datafusion::physical_expr::expressions::col;
        use datafusion::physical_expr_common::sort_expr::PhysicalSortExpr;
        let found = [batch(vec![Some(1), Some(1), None], vec![0.5, 2.0, 1.0])];
        let key = PhysicalSortExpr::new_default(col("k", &found[0].schema()).unwrap());
        let order = LexOrdering::new([key]).unwrap();
        let given = |is_cut| Given { order: Some(&order), is_cut, uncertain: &[] };
        // Rows whose keys are equal may come in another order, but must be the same.
        let other_order = [batch(vec![Some(1), Some(1)], vec![2.0, 0.5]), batch(vec![None], vec![1.0])];
        compare(&found, &other_order, &given(false), "a test").unwrap();
        let other_keys = [batch(vec![Some(1), None, Some(1)], vec![0.5, 1.0, 2.0])];
        compare(&found, &other_keys, &given(false), "a test").unwrap_err();
        // Of the first rows only the keys are certain.
        let other_rows = [batch(vec![Some(1), Some(1), None], vec![0.5, 7.0, 1.0])];
        compare(&found, &other_rows, &given(false), "a test").unwrap_err();
        compare(&found, &other_rows, &given(true), "a test").unwrap();
    }

    #[test]
    fn columns_that_are_not_certain_are_left_out() {
        let (found, other) = ([batch(vec![Some(1)], vec![0.5])], [batch(vec![Some(1)], vec![2.0])]);
        let given = |uncertain| Given { order: None, is_cut: false, uncertain };
        compare(&found, &other, &given(&[1]), "a test").unwrap();
        compare(&found, &other, &given(&[0]), "a test").unwrap_err();
    }
}
