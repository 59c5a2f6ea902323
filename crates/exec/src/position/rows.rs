//! The rows of a flow, materialized.

use super::chunk::Chunk;
use super::evaluate::{Evaluator, Values};
use super::execution::Execution;
use super::flow::{Expression, Flow, Universe};
use super::number::Numbers;
use super::ready::ReadyFlow;
use super::run::Worker;
use super::sink::Pipeline;
use super::stop::{Stop, Stopped};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The batches of each worker that wait for whoever reads them.
const WAITING: usize = 2;

/// The rows of a tree of joins.
#[derive(Clone, Debug)]
pub(super) struct Materialized {
    pub universe: Arc<Universe>,
    pub flow: Flow,
    pub outputs: Vec<Expression>,
    pub schema: SchemaRef,
}

impl Pipeline for Materialized {
    fn universe(&self) -> &Arc<Universe> {
        &self.universe
    }

    fn over(&self, universe: Arc<Universe>) -> Option<Arc<dyn Pipeline>> {
        Some(Arc::new(Self { universe, ..self.clone() }))
    }

    fn flow(&self) -> &Flow {
        &self.flow
    }

    fn outputs(&self) -> Vec<Expression> {
        self.outputs.clone()
    }

    fn run<'a>(
        &'a self,
        execution: &'a Arc<Execution>,
        flow: &'a Arc<ReadyFlow>,
    ) -> BoxFuture<'a, Stopped<SendableRecordBatchStream>> {
        Box::pin(async move {
            if flow.is_expanding() {
                return Err(Stop::Unfit("rows have many partners".into()));
            }
            for slot in self.flow.row_slots() {
                if slot != self.flow.slot || !self.flow.marks.is_empty() {
                    super::build::verify(execution, &[slot])?;
                }
            }
            let outputs = self.outputs.iter().map(|output| Evaluator::seen(output, &self.universe));
            let outputs: Arc<[Evaluator]> = outputs.collect::<Stopped<Vec<_>>>()?.into();
            // What cannot be made ready is found out before the first row goes out.
            let steps = flow.measured(execution, "read columns");
            Worker::new(execution, flow, &steps)?;
            let workers = execution.threads.min(flow.morsels().len()).max(1);
            let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), workers * WAITING);
            let cursor = Arc::new(AtomicUsize::new(0));
            for _ in 0..workers {
                let (execution, flow, steps) = (execution.clone(), flow.clone(), steps.clone());
                let (cursor, outputs, schema) = (cursor.clone(), outputs.clone(), self.schema.clone());
                let sender = builder.tx();
                builder.spawn(async move {
                    let reservation = execution.reservation("PosRowsExec");
                    let worker = Worker::new(&execution, &flow, &steps).map_err(error)?;
                    while let Some(morsel) = flow.morsels().get(cursor.fetch_add(1, Ordering::Relaxed)) {
                        let mut batches = Vec::new();
                        let mut push = |chunk: &Chunk| {
                            execution.check()?;
                            let before = batches.len();
                            materialize(&execution, &outputs, &schema, chunk, &mut batches)?;
                            let new = batches[before..].iter().map(RecordBatch::get_array_memory_size);
                            reservation.try_grow(new.sum()).map_err(Stop::Error)
                        };
                        worker.morsel(morsel.clone(), &mut push).map_err(error)?;
                        for batch in batches {
                            if sender.send(Ok(batch)).await.is_err() {
                                return Ok(());
                            }
                        }
                        reservation.free();
                        tokio::task::yield_now().await;
                    }
                    Ok(())
                });
            }
            Ok(builder.build())
        })
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs: Vec<String> = self.outputs.iter().map(ToString::to_string).collect();
        write!(f, "columns=[{}]", outputs.join(", "))
    }
}

/// Reads the values of a chunk, in as many batches as their bytes need.
fn materialize(
    execution: &Execution,
    outputs: &[Evaluator],
    schema: &SchemaRef,
    chunk: &Chunk,
    batches: &mut Vec<RecordBatch>,
) -> Stopped<()> {
    let numbers = Numbers::default();
    let mut values = Values::new(&execution.columns, &numbers, chunk);
    let columns = outputs.iter().map(|output| values.get(output)?.array()).collect::<Stopped<Vec<_>>>();
    match columns {
        Err(Stop::Wide) => {
            let half = chunk.rows / 2;
            materialize(execution, outputs, schema, &chunk.part(0, half), batches)?;
            materialize(execution, outputs, schema, &chunk.part(half, chunk.rows), batches)
        }
        columns => {
            let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
            let batch = RecordBatch::try_new_with_options(schema.clone(), columns?, &options);
            batches.push(batch.map_err(Stop::arrow)?);
            Ok(())
        }
    }
}

/// Returns the error of what stops a pipeline whose first rows have gone out.
pub(super) fn error(stop: Stop) -> DataFusionError {
    match stop {
        Stop::Error(error) => error,
        Stop::Unfit(reason) => DataFusionError::Execution(reason),
        Stop::Wide => DataFusionError::ResourcesExhausted("the values of a row are too long".into()),
    }
}
