//! The last step of a sort or of window functions: values are read of the rows that go out, in
//! pieces that tasks make ahead of the one that is read.

use super::chunk::Chunk;
use super::execution::Execution;
use super::rows::error;
use super::stop::{Stop, Stopped};
use super::table::{as_type, check_copied};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_expr::sizes::bytes_of;
use hypostyle_position::gather::{gather, gather_or_null};
use hypostyle_position::{NO_POSITION, Rows};
use std::ops::Range;
use std::sync::Arc;

/// A column of the result.
#[derive(Clone, Debug)]
pub(super) enum Output {
    /// A column of a table.
    Column(usize),
    /// A value for each row, by its place.
    Values(ArrayRef),
    /// The value at another place, where there is one, and else a constant.
    Picked { from: Box<Output>, places: Arc<Vec<u32>>, default: ScalarValue },
}

/// Rows that go out.
pub(super) struct Emission {
    pub name: &'static str,
    pub execution: Arc<Execution>,
    /// The rows, by their places.
    pub chunk: Chunk,
    /// The places in the order in which rows go out; `None` where that is their own.
    pub order: Option<Vec<u32>>,
    pub outputs: Vec<Output>,
    pub schema: SchemaRef,
    /// Hold the memory of all this.
    pub reservations: Vec<MemoryReservation>,
}

impl Emission {
    /// Returns the rows in batches.
    pub fn stream(mut self) -> Stopped<SendableRecordBatchStream> {
        let held = std::mem::take(&mut self.reservations);
        let rows = self.order.as_ref().map_or(self.chunk.rows, Vec::len);
        let batch = self.execution.context.session_config().batch_size().max(1);
        let schema = self.schema.clone();
        if rows <= batch {
            let (batches, reservation) = self.piece(0..rows)?;
            let batches = stream::iter(batches).map(move |batch| {
                let _held = (&held, &reservation);
                Ok(batch)
            });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)));
        }
        let ahead = self.execution.threads.max(1) * 2;
        let this = Arc::new(self);
        let starts = (0..rows).step_by(batch);
        let pieces = stream::iter(starts).map(move |start| {
            let this = this.clone();
            async move {
                let range = start..(start + batch).min(rows);
                let task = SpawnedTask::spawn(async move { this.piece(range).map_err(error) });
                task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
            }
        });
        let batches = pieces.buffered(ahead).map_ok(move |(batches, reservation)| {
            let _held = &held;
            stream::iter(batches).map(move |batch| {
                let _held = &reservation;
                Ok(batch)
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten())))
    }

    /// Reads the values of some rows, in as many batches as their bytes need.
    fn piece(&self, range: Range<usize>) -> Stopped<(Vec<RecordBatch>, MemoryReservation)> {
        let mut batches = Vec::new();
        self.read(range, &mut batches)?;
        // They are there, whether there is room for them or not.
        let reservation = self.execution.reservation(self.name);
        // Slices of stored columns take none, but are counted, too.
        let columns = batches.iter().flat_map(RecordBatch::columns);
        let bytes: u64 = columns.map(|column| bytes_of(column.as_ref(), 0..column.len())).sum();
        reservation.grow(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok((batches, reservation))
    }

    fn read(&self, range: Range<usize>, batches: &mut Vec<RecordBatch>) -> Stopped<()> {
        self.execution.check()?;
        let (chunk, places) = match &self.order {
            Some(order) => (self.chunk.at(&order[range.clone()]), Rows::List(&order[range.clone()])),
            None => {
                (self.chunk.part(range.start, range.end), Rows::Range(range.start as u32, range.end as u32))
            }
        };
        let types = self.schema.fields().iter().map(|field| field.data_type());
        let columns = self.outputs.iter().zip(types);
        let columns = columns.map(|(output, data_type)| self.values(output, data_type, &chunk, places));
        match columns.collect::<Stopped<Vec<_>>>() {
            Err(Stop::Wide) if range.len() > 1 => {
                let half = range.start + range.len() / 2;
                self.read(range.start..half, batches)?;
                self.read(half..range.end, batches)
            }
            columns => {
                let options = RecordBatchOptions::new().with_row_count(Some(range.len()));
                let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options);
                batches.push(batch.map_err(Stop::arrow)?);
                Ok(())
            }
        }
    }

    /// Returns the values of a column of the result for rows at some places.
    fn values(
        &self,
        output: &Output,
        data_type: &DataType,
        chunk: &Chunk,
        places: Rows<'_>,
    ) -> Stopped<ArrayRef> {
        let columns = &self.execution.columns;
        let values = match output {
            Output::Column(number) => {
                columns.get(*number)?.read_late(chunk.positions(columns.slot(*number)))?
            }
            Output::Values(array) => {
                if let Rows::List(list) = places {
                    check_copied(array, list)?;
                }
                gather(array, places)?
            }
            Output::Picked { from, places: picked, default } => {
                let picked: Vec<u32> = places.iter().map(|place| picked[place as usize]).collect();
                let found = self.picked(from, &picked)?;
                let found = as_type(&found, data_type)?;
                return with_default(found, &picked, default);
            }
        };
        as_type(&values, data_type)
    }

    /// Returns the values at some places, and NULL for `NO_POSITION`.
    fn picked(&self, from: &Output, picked: &[u32]) -> Stopped<ArrayRef> {
        match from {
            Output::Column(number) => {
                let rows = self.chunk.positions(self.execution.columns.slot(*number));
                let position = |place: &u32| match (*place, rows) {
                    (NO_POSITION, _) => NO_POSITION,
                    (place, Rows::Range(start, _)) => start + place,
                    (place, Rows::List(list)) => list[place as usize],
                };
                let positions: Vec<u32> = picked.iter().map(position).collect();
                self.execution.columns.get(*number)?.read(Rows::List(&positions))
            }
            Output::Values(array) => {
                check_copied(array, picked)?;
                Ok(gather_or_null(array, picked)?)
            }
            Output::Picked { .. } => Err(Stop::Unfit("values are picked twice".into())),
        }
    }
}

/// Puts a constant in the places of rows for which there was no other row.
fn with_default(found: ArrayRef, picked: &[u32], default: &ScalarValue) -> Stopped<ArrayRef> {
    if default.is_null() || !picked.contains(&NO_POSITION) {
        return Ok(found);
    }
    let has_none: BooleanArray = picked.iter().map(|place| Some(*place == NO_POSITION)).collect();
    let default = default.cast_to(found.data_type()).and_then(|default| default.to_scalar());
    zip(&has_none, &default.map_err(Stop::expression)?, &found).map_err(Stop::arrow)
}
