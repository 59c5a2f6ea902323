//! The first row of each partition in an order: a filter of row numbers, for which no rows need be
//! sorted.

use super::chunk::Chunk;
use super::emission::{Emission, Output};
use super::evaluate::{Evaluator, Values};
use super::execution::Execution;
use super::flow::{Expression, Flow, Universe};
use super::group::{GroupIds, Grouping};
use super::held;
use super::number::Numbers;
use super::ready::ReadyFlow;
use super::run::{Sink, run};
use super::sink::Pipeline;
use super::sort::{repeated_key, write_keys};
use super::stop::{Stop, Stopped};
use super::window::WindowColumn;
use arrow::array::{ArrayRef, Int64Array};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::expressions::Column;
use futures::future::BoxFuture;
use hypostyle_position::order::{Firsts, SortKey};
use hypostyle_position::{NO_POSITION, Selection};
use std::fmt;
use std::sync::Arc;

const NAME: &str = "PosWindowExec";

/// The rows of one table whose number in their partition is 1.
#[derive(Debug)]
pub(super) struct FirstRows {
    pub universe: Arc<Universe>,
    pub flow: Flow,
    pub partition_by: Vec<Expression>,
    /// Columns of the table.
    pub order_by: Vec<(Expression, SortOptions)>,
    /// The columns of the result; the only function is the number.
    pub columns: Vec<WindowColumn>,
    pub schema: SchemaRef,
}

/// What workers share.
struct Shared {
    partition_by: Vec<Expression>,
    grouping: Grouping,
    keys: Vec<SortKey>,
}

/// The first rows that a worker has seen.
struct Finding {
    shared: Arc<Shared>,
    slot: usize,
    ids: GroupIds,
    firsts: Firsts,
}

impl Finding {
    fn new(shared: &Arc<Shared>, execution: &Execution, slot: usize) -> Stopped<Self> {
        let ids = shared.grouping.groups(&shared.partition_by, &execution.columns, None)?;
        Ok(Self { shared: shared.clone(), slot, ids, firsts: Firsts::default() })
    }
}

impl Sink for Finding {
    const NAME: &'static str = "first rows of partitions";

    fn push(&mut self, execution: &Execution, chunk: &Chunk) -> Stopped<()> {
        let Self { shared, slot, ids, firsts } = self;
        ids.number(&shared.grouping, &execution.columns, chunk, |ids, groups| {
            firsts.grow(groups);
            Ok(firsts.push(&shared.keys, chunk.positions(*slot), ids)?)
        })
    }

    fn bytes(&self) -> usize {
        self.ids.bytes() + self.firsts.bytes()
    }
}

impl FirstRows {
    /// Returns the positions of the first rows, in the order of the table.
    async fn positions(&self, execution: &Arc<Execution>, flow: &Arc<ReadyFlow>) -> Stopped<Vec<u32>> {
        let columns = &execution.columns;
        let keys = self.order_by.iter().map(|(key, options)| {
            let column = key.downcast_ref::<Column>();
            let column = column.ok_or_else(|| Stop::Unfit("a key is no column".into()))?;
            repeated_key(columns.get(column.index())?.stored.clone(), *options)
        });
        let shared = Arc::new(Shared {
            partition_by: self.partition_by.clone(),
            keys: keys.collect::<Stopped<_>>()?,
            grouping: Grouping::new(&self.partition_by, columns, flow)?,
        });
        let workers = run(execution, flow, NAME, || Finding::new(&shared, execution, flow.slot)).await?;
        let reservation = execution.reservation(NAME);
        let mut workers = workers.into_iter();
        let mut all = workers.next().ok_or_else(|| Stop::Unfit("there is no worker".into()))?;
        for worker in workers {
            execution.check()?;
            let ids = all.ids.merge(&worker.ids)?;
            all.firsts.grow(all.ids.len());
            all.firsts.merge(&shared.keys, &worker.firsts, &ids)?;
            held::hold(&reservation, all.bytes())?;
        }
        if all.firsts.tied() {
            execution.uncertain.lock().extend(self.uncertain());
        }
        let mut positions = all.firsts.rows().to_vec();
        positions.retain(|position| *position != NO_POSITION);
        positions.sort_unstable();
        Ok(positions)
    }

    /// Returns the columns that may differ between rows whose keys are equal.
    fn uncertain(&self) -> Vec<usize> {
        let is_key = |expression: &Expression| {
            self.partition_by.contains(expression) || self.order_by.iter().any(|(key, _)| key == expression)
        };
        let columns = self.columns.iter().enumerate();
        let columns = columns.filter(|(_, column)| match column {
            WindowColumn::Row(expression) => !is_key(expression),
            WindowColumn::Function(_) => false,
        });
        columns.map(|(place, _)| place).collect()
    }

    fn row_columns(&self) -> impl Iterator<Item = &Expression> {
        self.columns.iter().filter_map(|column| match column {
            WindowColumn::Row(expression) => Some(expression),
            WindowColumn::Function(_) => None,
        })
    }
}

impl Pipeline for FirstRows {
    fn universe(&self) -> &Arc<Universe> {
        &self.universe
    }

    fn flow(&self) -> &Flow {
        &self.flow
    }

    fn outputs(&self) -> Vec<Expression> {
        self.partition_by.iter().chain(self.order_by.iter().map(|(key, _)| key)).cloned().collect()
    }

    fn late(&self) -> Vec<Expression> {
        self.row_columns().cloned().collect()
    }

    fn run<'a>(
        &'a self,
        execution: &'a Arc<Execution>,
        flow: &'a Arc<ReadyFlow>,
    ) -> BoxFuture<'a, Stopped<SendableRecordBatchStream>> {
        Box::pin(async move {
            let positions = self.positions(execution, flow).await?;
            let reservation = execution.reservation(NAME);
            held::hold(&reservation, positions.len() * size_of::<u64>())?;
            let slots = self.universe.sources.len();
            let chunk = Chunk::new(slots, flow.slot, Selection::List(positions));
            let outputs = self.columns.iter().map(|column| match column {
                WindowColumn::Function(_) => {
                    let numbers: ArrayRef = Arc::new(Int64Array::from_value(1, chunk.rows));
                    Ok(Output::Values(numbers))
                }
                WindowColumn::Row(expression) => late_output(expression, execution, &chunk),
            });
            let outputs = outputs.collect::<Stopped<Vec<_>>>()?;
            let emission = Emission {
                name: NAME,
                execution: execution.clone(),
                chunk,
                order: None,
                outputs,
                schema: self.schema.clone(),
                reservations: vec![reservation],
            };
            emission.stream()
        })
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition_by: Vec<String> = self.partition_by.iter().map(ToString::to_string).collect();
        write!(f, "functions=[row_number() = 1], partition=[{}], order=[", partition_by.join(", "))?;
        write_keys(f, &self.order_by)?;
        f.write_str("]")
    }
}

/// Returns what an expression gives for the rows of the result alone.
pub(super) fn late_output(expression: &Expression, execution: &Execution, chunk: &Chunk) -> Stopped<Output> {
    if let Some(column) = expression.downcast_ref::<Column>() {
        return Ok(Output::Column(column.index()));
    }
    let evaluator = Evaluator::seen(expression, execution.universe())?;
    execution.columns.verify_late(&evaluator, chunk)?;
    let numbers = Numbers::default();
    let values = Values::new(&execution.columns, &numbers, chunk).get(&evaluator)?.array()?;
    Ok(Output::Values(values))
}
