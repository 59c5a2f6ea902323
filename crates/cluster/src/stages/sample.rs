//! Tells whether nodes share rows out alike. A join finds only rows that have come to the same task: if two
//! nodes hashed equal keys otherwise, which another release or another kind of machine may do, rows would be
//! missing without a word.

use arrow::array::{
    ArrayRef, AsArray, Float64Array, Int64Array, LargeStringArray, RecordBatch, StringViewArray,
};
use arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use std::sync::Arc;

/// So many rows are shared out among so many partitions, which no number of tasks divides.
const ROWS: i64 = 64;
const PARTITIONS: usize = 61;

/// Returns a number that is the same on nodes which share rows out alike.
///
/// # Errors
/// Those of DataFusion.
pub(super) fn of_this_node() -> Result<u64> {
    let rows = rows()?;
    let mut sample = 0_u64;
    for key in 0..rows.num_columns() {
        let second = (key + 1) % rows.num_columns();
        let keys = [key, second].map(|place| column(&rows, place));
        let mut partitioner = BatchPartitioner::new_hash_partitioner(keys.into(), PARTITIONS, Time::new())?;
        let mut found = vec![0_u64; rows.num_rows()];
        for part in partitioner.partition_iter(rows.clone())? {
            let (partition, part) = part?;
            for row in part.column(0).as_primitive::<Int64Type>().values() {
                let row = usize::try_from(*row).unwrap_or(usize::MAX);
                if let Some(found) = found.get_mut(row) {
                    *found = partition as u64;
                }
            }
        }
        let mixed = |sample: u64, partition: u64| sample.wrapping_mul(0x0100_0000_01b3) ^ partition;
        sample = found.into_iter().fold(sample, mixed);
    }
    Ok(sample)
}

fn column(rows: &RecordBatch, place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(rows.schema().field(place).name(), place))
}

/// Keys of the kinds that are hashed in ways of their own: short and long texts, floats, and NULLs.
fn rows() -> Result<RecordBatch> {
    let numbers: Vec<i64> = (0..ROWS).collect();
    let texts: Vec<String> = (0..numbers.len()).map(|place| "key ".repeat(1 + place % 9)).collect();
    let some = |number: &i64| (number % 7 != 0).then_some(number % 11);
    let floats = numbers.iter().map(|number| *number as f64 / 4.0 - 8.0);
    let columns: [(&str, ArrayRef); 5] = [
        ("number", Arc::new(Int64Array::from(numbers.clone()))),
        ("view", Arc::new(StringViewArray::from_iter_values(&texts))),
        ("text", Arc::new(LargeStringArray::from_iter_values(&texts))),
        ("float", Arc::new(Float64Array::from_iter_values(floats))),
        ("null", Arc::new(numbers.iter().map(some).collect::<Int64Array>())),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_shares_rows_out_as_it_did() {
        let sample = of_this_node().unwrap();
        assert_ne!(sample, 0);
        assert_eq!(of_this_node().unwrap(), sample);
    }
}
