//! A database within a program: a table from Arrow, a transaction, and a result without a copy.
//!
//! `cargo run --release -p hypostyle --example embedded`

use hypostyle::arrow::array::{AsArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray};
use hypostyle::arrow::datatypes::Float64Type;
use hypostyle::{AppendOptions, Database, ErrorKind, OpenOptions, Result};
use std::sync::Arc;

pub fn main() -> Result<()> {
    // `Database::open("shop.hypo", …)` keeps it in a directory.
    let database = Database::in_memory(OpenOptions::default())?;
    let connection = database.connect()?;

    let cities = StringArray::from(vec!["Rome", "Oslo", "Rome"]);
    let amounts = Float64Array::from(vec![12.5, 7.0, 30.0]);
    let batch =
        RecordBatch::try_from_iter([("city", Arc::new(cities) as _), ("amount", Arc::new(amounts) as _)])
            .expect("columns of one length");
    let schema = batch.schema();
    let reader = Box::new(RecordBatchIterator::new([Ok(batch)], schema));
    connection.append("sales", reader, AppendOptions { create: true, ..AppendOptions::default() })?;

    // A transaction takes effect as a whole or not at all.
    connection.execute("BEGIN")?;
    connection.execute("UPDATE sales SET amount = amount * 2 WHERE city = 'Oslo'")?;
    connection.execute("COMMIT")?;

    let result =
        connection.execute("SELECT city, sum(amount) AS amount FROM sales GROUP BY city ORDER BY city")?;
    let sums: Vec<f64> = result
        .record_batches()?
        .iter()
        .flat_map(|batch| batch.column(1).as_primitive::<Float64Type>().values().to_vec())
        .collect();
    assert_eq!(sums, [14.0, 42.5]);

    // A whole stored table is a mapping of its columns: nothing is computed or copied.
    let whole = connection.execute("SELECT * FROM sales")?;
    assert_eq!(whole.row_count()?, 3);

    let mistake = connection.execute("SELECT amont FROM sales").err().expect("no such column");
    assert_eq!(mistake.kind(), ErrorKind::UnknownName);
    println!("sums: {sums:?}; a mistake: {mistake}");
    Ok(())
}
