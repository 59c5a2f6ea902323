//! The aggregate over a flow.

use super::aggregate::{Aggregates, PlannedAggregate, States};
use super::chunk::Chunk;
use super::execution::Execution;
use super::flow::{Expression, Flow, Universe};
use super::group::{GroupIds, Grouping};
use super::pipeline::{self, Pipeline};
use super::ready::ReadyFlow;
use super::run::{Sink, run};
use super::stop::{Stop, Stopped};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// What is computed of the rows of a flow, group by group.
#[derive(Debug)]
pub(super) struct Folded {
    pub universe: Arc<Universe>,
    pub flow: Flow,
    pub keys: Vec<Expression>,
    pub aggregates: Vec<PlannedAggregate>,
    pub schema: SchemaRef,
}

/// What workers share.
struct Shared {
    grouping: Grouping,
    aggregates: Aggregates,
}

struct Folding {
    shared: Arc<Shared>,
    ids: GroupIds,
    states: States,
}

impl Sink for Folding {
    const NAME: &'static str = "aggregate";

    fn push(&mut self, execution: &Execution, chunk: &Chunk) -> Stopped<()> {
        let Self { shared, ids, states } = self;
        ids.number(&shared.grouping, &execution.columns, chunk, |ids, groups| {
            states.grow(groups);
            states.fold(&shared.aggregates, &execution.columns, chunk, ids)
        })
    }

    fn bytes(&self) -> usize {
        self.ids.bytes() + self.states.bytes()
    }
}

impl Pipeline for Folded {
    fn universe(&self) -> &Arc<Universe> {
        &self.universe
    }

    fn flow(&self) -> &Flow {
        &self.flow
    }

    fn keys(&self) -> &[Expression] {
        &self.keys
    }

    fn outputs(&self) -> Vec<Expression> {
        let aggregates = self.aggregates.iter().flat_map(|aggregate| {
            aggregate.arguments.iter().chain(&aggregate.filter).cloned().collect::<Vec<_>>()
        });
        self.keys.iter().cloned().chain(aggregates).collect()
    }

    fn run<'a>(
        &'a self,
        execution: &'a Arc<Execution>,
        flow: &'a Arc<ReadyFlow>,
    ) -> BoxFuture<'a, Stopped<SendableRecordBatchStream>> {
        Box::pin(async move {
            let grouping = Grouping::new(&self.keys, &execution.columns, flow)?;
            let aggregates = Aggregates::new(&self.aggregates, &execution.columns, !self.keys.is_empty())?;
            let shared = Arc::new(Shared { grouping, aggregates });
            let make = || {
                Ok(Folding {
                    shared: shared.clone(),
                    ids: shared.grouping.groups(&self.keys, &execution.columns)?,
                    states: shared.aggregates.states()?,
                })
            };
            let mut workers = run(execution, flow, "PosFoldExec", make).await?.into_iter();
            let begun = Instant::now();
            let mut all = workers.next().ok_or_else(|| Stop::Unfit("there is no worker".into()))?;
            all.states.grow(all.ids.len());
            let reservation = execution.reservation("PosFoldExec");
            for worker in workers {
                let Folding { ids: others, states: mut other, .. } = worker;
                other.grow(others.len());
                let ids = all.ids.merge(&others)?;
                all.states.grow(all.ids.len());
                all.states.merge(other, &ids)?;
                pipeline::hold(&reservation, all.bytes())?;
            }
            // The results are as large as the states, at most.
            pipeline::hold(&reservation, all.bytes() * 2)?;
            let Folding { ids, states, .. } = all;
            let types: Vec<DataType> =
                self.schema.fields().iter().map(|field| field.data_type().clone()).collect();
            let (rows, mut columns) = ids.finish(&shared.grouping, &execution.columns, &types)?;
            let whole = rows.len() == ids.len();
            for result in states.finish(&shared.aggregates)? {
                let result: ArrayRef = match whole {
                    true => result,
                    false => take(&result, &rows, None).map_err(Stop::arrow)?,
                };
                columns.push(result);
            }
            execution.measurements.once("merge groups".into(), rows.len(), begun.elapsed());
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
                .map_err(Stop::arrow)?;
            Ok(pipeline::in_pieces(batch, reservation, &execution.context))
        })
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let aggregates: Vec<&str> =
            self.aggregates.iter().map(|aggregate| aggregate.function.name()).collect();
        write!(f, "gby=[{}], aggr=[{}]", keys.join(", "), aggregates.join(", "))
    }
}
