//! Apache DataFusion over in-memory Arrow: the same tables and the same build of DataFusion as
//! ours, planned and run by DataFusion alone.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::context::{SessionConfig, SessionContext};
use tokio::runtime::Runtime;

/// The rows of a batch: DataFusion's own default, for which its operators are tuned.
const BATCH_ROWS: usize = 8192;

/// The column types that DataFusion is given.
#[derive(Clone, Copy)]
pub enum ColumnTypes {
    /// The types that DataFusion itself reads from Parquet: strings as `Utf8View`, decimals as
    /// `Decimal128`.
    Natural,
    /// The types that Hypostyle stores: dictionaries, `LargeUtf8`, the narrowest decimals.
    Stored,
}

/// A DataFusion session with its own threads and a copy of the tables.
pub struct DataFusionPeer {
    context: SessionContext,
    runtime: Runtime,
    threads: usize,
    types: ColumnTypes,
}

impl DataFusionPeer {
    pub fn new(threads: usize, types: ColumnTypes) -> Result<Self> {
        let config = SessionConfig::new().with_target_partitions(threads);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        Ok(Self { context: SessionContext::new_with_config(config), runtime, threads, types })
    }

    /// Loads one table, distributed over as many partitions as there are threads.
    pub fn load(&self, name: &str, schema: &Schema, batches: &[RecordBatch]) -> Result<()> {
        let schema = self.schema(schema);
        let batches = batches
            .iter()
            .flat_map(slices)
            .map(|slice| convert(&slice, &schema))
            .collect::<Result<Vec<_>>>()?;
        let per_partition = batches.len().div_ceil(self.threads).max(1);
        let mut partitions: Vec<Vec<RecordBatch>> =
            batches.chunks(per_partition).map(<[RecordBatch]>::to_vec).collect();
        partitions.resize_with(self.threads, Vec::new);
        self.context.register_table(name, Arc::new(MemTable::try_new(schema, partitions)?))?;
        Ok(())
    }

    /// Runs a query to its end and returns its number of rows.
    pub fn run(&self, sql: &str) -> Result<u64> {
        let batches = self.runtime.block_on(async { self.context.sql(sql).await?.collect().await })?;
        Ok(batches.iter().map(|batch| batch.num_rows() as u64).sum())
    }

    fn schema(&self, stored: &Schema) -> SchemaRef {
        let field = |field: &Arc<Field>| match self.types {
            ColumnTypes::Natural => Field::new(field.name(), natural(field.data_type()), field.is_nullable()),
            ColumnTypes::Stored => Field::new(field.name(), field.data_type().clone(), field.is_nullable()),
        };
        Arc::new(Schema::new(stored.fields().iter().map(field).collect::<Vec<_>>()))
    }
}

fn natural(stored: &DataType) -> DataType {
    match stored {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) => natural(values),
        other => other.clone(),
    }
}

fn slices(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).map(move |start| batch.slice(start, BATCH_ROWS.min(rows - start)))
}

fn convert(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| cast(column, field.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
