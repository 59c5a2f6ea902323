//! The operator that reads a table of another system's database: one query for each range of its
//! pages, all in one snapshot.

use crate::column::{digits, quoted_name};
use crate::connections::Lease;
use crate::reading::Reading;
use crate::relation::{Range, Relation};
use crate::server::Wanted;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{Statistics, project_schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use hypostyle_error::external;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::nan::one;
use hypostyle_expr::said::in_plans;
use hypostyle_expr::{no_expressions, no_inputs};
use hypostyle_files::uuid_column::as_text;
use hypostyle_types::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Batches that wait for whoever reads them.
const BATCHES_WAITING: usize = 2;

/// Reads some columns of the rows that fulfil some conditions, by one connection for each partition.
pub struct ForeignScanExec {
    reading: Arc<Reading>,
    /// The query for all pages.
    query: String,
    /// The query of each partition.
    queries: Vec<String>,
    /// The connections that the partitions have.
    lease: Arc<Lease>,
    /// The rows that are expected.
    rows: Precision<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for ForeignScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignScanExec")
            .field("reading", &self.reading)
            .field("queries", &self.queries)
            .finish_non_exhaustive()
    }
}

impl ForeignScanExec {
    /// Makes a scan of the columns at some places, with a partition for each connection of the lease.
    ///
    /// # Errors
    /// For columns that the table does not have.
    pub fn try_new(
        reading: Arc<Reading>,
        relation: &Relation,
        columns: &[usize],
        conditions: &[String],
        limit: Option<usize>,
        lease: Lease,
    ) -> Result<Self> {
        let schema = project_schema(&relation.schema, Some(&columns))?;
        let query = |range: Range| select(&relation.name, &schema, conditions, range, limit);
        let ranges = relation.ranges(lease.count());
        let queries: Vec<String> = ranges.into_iter().map(query).collect();
        let all = query((None, None));
        let rows = relation.rows.filter(|_| conditions.is_empty());
        let rows = match (rows, limit) {
            (Some(rows), Some(limit)) => Precision::Inexact(rows.min(limit)),
            (Some(rows), None) => Precision::Inexact(rows),
            (None, _) => Precision::Absent,
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(queries.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            reading,
            query: all,
            queries,
            lease: Arc::new(lease),
            rows,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// Returns a query for the rows of some pages that fulfil all conditions.
fn select(
    table: &str,
    schema: &SchemaRef,
    conditions: &[String],
    (from, to): Range,
    limit: Option<usize>,
) -> String {
    let columns: Vec<String> = schema.fields().iter().map(|field| quoted_name(field.name())).collect();
    // COPY wants a column.
    let columns = if columns.is_empty() { "1".into() } else { columns.join(", ") };
    let bound = |operator: &str, page: u64| format!("ctid {operator} '({page},0)'::pg_catalog.tid");
    let bounds = [from.map(|page| bound(">=", page)), to.map(|page| bound("<", page))];
    let conditions = conditions.iter().map(|condition| format!("({condition})"));
    let conditions: Vec<String> = bounds.into_iter().flatten().chain(conditions).collect();
    let mut sql = format!("SELECT {columns} FROM {table}");
    if !conditions.is_empty() {
        sql += &format!(" WHERE {}", conditions.join(" AND "));
    }
    if let Some(limit) = limit {
        sql += &format!(" LIMIT {limit}");
    }
    sql
}

impl DisplayAs for ForeignScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (database, partitions) = (self.reading.database().name(), self.queries.len());
        write!(f, "ForeignScanExec: database={database}, partitions={partitions}, query={}", self.query)
    }
}

impl ExecutionPlan for ForeignScanExec {
    fn name(&self) -> &'static str {
        "ForeignScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    no_inputs!();

    no_expressions!();

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = match (self.rows, args.partition()) {
            (Precision::Inexact(rows), Some(_)) => Precision::Inexact(rows / self.queries.len().max(1)),
            (rows, _) => rows,
        };
        Ok(Arc::new(statistics))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(sql) = self.queries.get(partition).cloned() else {
            return Err(DataFusionError::Internal(format!("a scan has no partition {partition}")));
        };
        let mut builder = RecordBatchReceiverStream::builder(self.schema(), BATCHES_WAITING);
        // It is dropped with the rows: then the query is cancelled on the server.
        let reader = Arc::new(());
        let waits = Arc::downgrade(&reader);
        let meter = context.session_config().get_extension::<Meter>();
        let wanted: Wanted = Arc::new(move || {
            let is_interrupted = |meter: &Arc<Meter>| meter.interrupted.load(Ordering::Acquire);
            waits.strong_count() > 0 && !meter.as_ref().is_some_and(is_interrupted)
        });
        let fetch =
            Fetch { reading: self.reading.clone(), _lease: self.lease.clone(), sql, schema: self.schema() };
        let (sender, rows_max) = (builder.tx(), context.session_config().batch_size().max(1));
        builder.spawn_blocking(move || {
            let sent = fetch.run(&wanted, &mut |batch: RecordBatch| {
                let rows = batch.num_rows();
                let pieces = (0..rows).step_by(rows_max);
                let mut pieces = pieces.map(|at| batch.slice(at, rows_max.min(rows - at)));
                pieces.all(|piece| sender.blocking_send(Ok(piece)).is_ok())
            });
            sent.map_err(external)
        });
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = builder.build().inspect(move |batch| {
            let _kept = &reader;
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The query of one partition.
struct Fetch {
    reading: Arc<Reading>,
    /// Its connection is one of these.
    _lease: Arc<Lease>,
    sql: String,
    schema: SchemaRef,
}

impl Fetch {
    /// Runs the query, and passes its batches on for as long as they are taken.
    fn run(&self, wanted: &Wanted, take: &mut dyn FnMut(RecordBatch) -> bool) -> hypostyle_types::Result<()> {
        let database = self.reading.database();
        let of_server = |error| database.of_server(error);
        let connection = self.reading.connection(wanted)?;
        let mut rows = connection.query(&self.sql, wanted).map_err(of_server)?;
        while let Some(batch) = rows.next().map_err(of_server)? {
            if !take(fit(&batch, &self.schema)?) {
                // The server is told soon, and what has come until then is of no use. The connection
                // is closed.
                while let Ok(Some(_)) = rows.next() {}
                return Ok(());
            }
        }
        drop(rows);
        database.give_back(connection);
        Ok(())
    }
}

/// Returns rows of the server as plans have them.
fn fit(batch: &RecordBatch, schema: &SchemaRef) -> hypostyle_types::Result<RecordBatch> {
    let changed = || Error::protocol("the columns of the rows are not those that the server has told");
    // A query for no columns has one.
    if batch.num_columns() != schema.fields().len().max(1) {
        return Err(changed());
    }
    let column = |(field, column): (&FieldRef, &ArrayRef)| match (column.data_type(), field.data_type()) {
        (of, wanted) if of == wanted => Ok(one(column.clone())),
        (of, _) if in_plans(&field.as_ref().clone().with_data_type(of.clone())) == **field => {
            as_text(column, field).map_err(|_| changed())
        }
        (of @ (DataType::Decimal32(..) | DataType::Decimal64(..)), wanted @ DataType::Decimal128(..))
            if digits(of) == digits(wanted) =>
        {
            cast(column, wanted).map_err(|_| changed())
        }
        (DataType::Dictionary(..), wanted @ DataType::Utf8View) => {
            cast(column, wanted).map_err(|_| changed())
        }
        _ => Err(changed()),
    };
    let columns = schema.fields().iter().zip(batch.columns()).map(column);
    let columns = columns.collect::<hypostyle_types::Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|_| changed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Decimal32Array, DictionaryArray, Int32Array};
    use arrow::datatypes::{Decimal128Type, Field, Int32Type, Schema};

    fn schema(names: &[&str]) -> SchemaRef {
        let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Int32, true)).collect();
        Arc::new(Schema::new(fields))
    }

    #[test]
    fn queries_have_columns_conditions_pages_and_a_limit() {
        let conditions = ["\"b\"".to_string(), "\"a\" IS NULL OR \"b\"".to_string()];
        assert_eq!(
            select("\"s\".\"t\"", &schema(&["a", "b\"c"]), &conditions, (Some(10), Some(20)), Some(5)),
            "SELECT \"a\", \"b\"\"c\" FROM \"s\".\"t\" WHERE ctid >= '(10,0)'::pg_catalog.tid AND \
             ctid < '(20,0)'::pg_catalog.tid AND (\"b\") AND (\"a\" IS NULL OR \"b\") LIMIT 5"
        );
        assert_eq!(select("t", &schema(&[]), &[], (None, None), None), "SELECT 1 FROM t");
    }

    #[test]
    fn rows_of_no_columns_are_counted_and_others_must_be_those_of_the_table() {
        let rows =
            RecordBatch::try_new(schema(&["c"]), vec![Arc::new(Int32Array::from(vec![1, 1]))]).unwrap();
        assert_eq!(fit(&rows, &schema(&[])).unwrap().num_rows(), 2);
        assert_eq!(fit(&rows, &schema(&["a"])).unwrap().num_columns(), 1);
        assert!(fit(&rows, &schema(&["a", "b"])).is_err());
        let other = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        assert!(fit(&rows, &Arc::new(other)).is_err());
    }

    #[test]
    fn narrow_decimals_and_labels_become_what_plans_have() {
        let prices = Decimal32Array::from(vec![Some(1250), None]).with_precision_and_scale(9, 2).unwrap();
        let labels: DictionaryArray<Int32Type> = [Some("sad"), None].into_iter().collect();
        let columns: [(&str, ArrayRef); 2] = [("p", Arc::new(prices)), ("l", Arc::new(labels))];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let of = |price: DataType| {
            let fields = [Field::new("p", price, true), Field::new("l", DataType::Utf8View, true)];
            Arc::new(Schema::new(fields.to_vec()))
        };
        let fitted = fit(&rows, &of(DataType::Decimal128(9, 2))).unwrap();
        assert_eq!(fitted.column(0).as_primitive::<Decimal128Type>().value(0), 1250);
        assert_eq!(fitted.column(1).as_string_view().iter().collect::<Vec<_>>(), [Some("sad"), None]);
        assert_eq!(fitted.column(0).null_count(), 1);
        assert!(fit(&rows, &of(DataType::Decimal128(9, 3))).is_err());
    }
}
