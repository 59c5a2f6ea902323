//! UNION within a recursive query, which gives each row once. DataFusion tells new rows by the
//! numbers of their groups, which do not rise where hashes collide, and loses some; and it takes
//! values for different that are equal, as 30 days and 1 month.

use crate::node_rule::node_rule;
use crate::passing::{Passing, passing};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use hypostyle_expr::value_keys::comparable;
use hypostyle_sync::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// Has both parts of a recursive UNION pass on new rows only, instead of the query itself.
#[derive(Debug)]
pub struct NewRows;

node_rule!(NewRows: "NewRows", with_new_rows);

/// Puts what passes on new rows over the parts of a recursive query.
fn with_new_rows(
    plan: Arc<dyn ExecutionPlan>,
    _: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(query) = plan.downcast_ref::<RecursiveQueryExec>().filter(|query| query.is_distinct()) else {
        return Ok(Transformed::no(plan));
    };
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let new_of =
        |part: &Arc<dyn ExecutionPlan>, is_first: bool| passing(part, New { seen: seen.clone(), is_first });
    let first = new_of(query.static_term(), true);
    let further = new_of(query.recursive_term(), false);
    let name = query.name().to_string();
    let query = RecursiveQueryExec::try_new(name, plan.schema(), first, further, false)?;
    Ok(Transformed::yes(Arc::new(query)))
}

/// The rows that a recursive query has given so far.
#[derive(Debug, Default)]
struct Seen {
    rows: HashSet<Box<[u8]>>,
    memory: Option<MemoryReservation>,
}

/// Passes on rows that neither this part of a recursive query nor the other one has given.
#[derive(Clone, Debug)]
struct New {
    seen: Arc<Mutex<Seen>>,
    /// Says whether the query begins with this part.
    is_first: bool,
}

impl Passing for New {
    const NAME: &'static str = "NewRowsExec";

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if self.is_first {
            let memory = MemoryConsumer::new(Self::NAME).register(context.memory_pool());
            *self.seen.lock() = Seen { rows: HashSet::new(), memory: Some(memory) };
        }
        let input = input.execute(partition, context)?;
        let (schema, seen) = (input.schema(), self.seen.clone());
        let new = input.map(move |batch| seen.lock().new_of(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, new)))
    }
}

impl Seen {
    fn new_of(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().map(comparable).collect::<Result<Vec<ArrayRef>>>()?;
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
        let mut bytes = 0;
        let is_new: BooleanArray = (rows.iter())
            .map(|row| {
                let is_new = !self.rows.contains(row.data()) && self.rows.insert(row.data().into());
                bytes += if is_new { row.data().len() + ROW_BYTES } else { 0 };
                Some(is_new)
            })
            .collect();
        if let Some(memory) = &self.memory {
            memory.try_grow(bytes)?;
        }
        Ok(filter_record_batch(batch, &is_new)?)
    }
}

/// What a row takes in the set besides its bytes.
const ROW_BYTES: usize = 2 * size_of::<Box<[u8]>>();
