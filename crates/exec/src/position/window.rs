//! Window functions over the rows of a flow. What a function gives is computed for sorted positions. Rows
//! stay in their order, in which it is read in the end, unless nothing else of the rows goes out.

use super::aggregate::{Aggregates, PlannedAggregate, average, widest};
use super::emission::{Emission, Output};
use super::execution::Execution;
use super::flow::{Expression, Flow, Universe};
use super::function::{Aggregate, Frame, Function, Pick};
use super::gathered::Gathered;
use super::group::Grouping;
use super::held;
use super::ready::ReadyFlow;
use super::sink::Pipeline;
use super::sort::{sort_key, write_keys};
use super::stop::{Stop, Stopped};
use arrow::array::{ArrayRef, Float64Array, Int64Array, new_empty_array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::expressions::Column;
use futures::future::BoxFuture;
use hypostyle_position::Rows;
use hypostyle_position::fold::Ids;
use hypostyle_position::window::{self, Frames, Runs};
use std::fmt;
use std::sync::Arc;

const NAME: &str = "PosWindowExec";

/// Rows whose values are computed together.
const PIECE_ROWS: usize = 1 << 13;

/// The bytes that a row takes while its order is found, those for each key, and those for what each
/// function gives.
const ROW_BYTES: usize = 64;
const KEY_BYTES: usize = 8;
const FUNCTION_BYTES: usize = 48;

/// Window functions that have one window.
#[derive(Clone, Debug)]
pub(super) struct Windowed {
    pub universe: Arc<Universe>,
    pub flow: Flow,
    pub partition_by: Vec<Expression>,
    pub order_by: Vec<(Expression, SortOptions)>,
    pub functions: Vec<Function>,
    /// The columns of the result.
    pub columns: Vec<WindowColumn>,
    pub schema: SchemaRef,
}

/// A column of the result.
#[derive(Clone, Debug)]
pub(super) enum WindowColumn {
    /// An expression over the rows.
    Row(Expression),
    /// What the function at this place gives.
    Function(usize),
}

/// What all functions of a window share.
struct Sorted {
    /// The places of rows, in order.
    places: Vec<u32>,
    partitions: Runs,
    peers: Runs,
    /// The number of each row in the order; `None` where rows go out in that order.
    numbers: Option<Arc<Vec<u32>>>,
}

impl Sorted {
    /// Returns what brings values of sorted rows to their places.
    fn values(&self, values: ArrayRef) -> Output {
        match &self.numbers {
            None => Output::Values(values),
            Some(numbers) => Output::Picked {
                from: Box::new(Output::Values(values)),
                places: numbers.clone(),
                default: ScalarValue::Null,
            },
        }
    }

    fn integers(&self, values: Vec<u64>) -> Output {
        let values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
        self.values(Arc::new(Int64Array::from(values)))
    }

    /// Returns the places of what sorted rows pick, in the order in which rows go out.
    fn picked(&self, execution: &Execution, picked: Vec<u32>) -> Stopped<Vec<u32>> {
        match self.numbers {
            None => Ok(picked),
            Some(_) => execution.shared_out(|work| window::scattered(&picked, &self.places, work)),
        }
    }

    fn floats(&self, values: Vec<f64>) -> Output {
        self.values(Arc::new(Float64Array::from(values)))
    }
}

/// Where the expressions of a window are among those that are gathered.
struct Gathering {
    expressions: Vec<Expression>,
}

impl Gathering {
    fn add(&mut self, expression: &Expression) {
        if !self.expressions.contains(expression) {
            self.expressions.push(expression.clone());
        }
    }

    fn place(&self, expression: &Expression) -> Stopped<usize> {
        let place = self.expressions.iter().position(|known| known == expression);
        place.ok_or_else(|| Stop::Unfit("an expression was not gathered".into()))
    }
}

impl Windowed {
    /// Tells whether each function is an aggregate of whole partitions, which needs no order.
    fn is_unordered(&self) -> bool {
        self.functions.iter().all(|function| matches!(function, Function::Whole(_)))
    }

    /// Tells whether nothing goes out but what functions give of sorted rows.
    fn goes_out_sorted(&self) -> bool {
        self.row_columns().next().is_none()
            && !self.functions.iter().any(|function| matches!(function, Function::Whole(_)))
    }

    /// Returns the expressions whose values are computed for all rows: keys, arguments and columns of
    /// the result.
    fn gathering(&self) -> Gathering {
        let mut gathering = Gathering { expressions: Vec::new() };
        if !self.is_unordered() {
            self.keys().for_each(|(key, _)| gathering.add(&key));
        }
        let values = self.functions.iter().filter_map(Function::value);
        values.chain(self.row_columns()).for_each(|expression| gathering.add(expression));
        gathering
    }

    fn row_columns(&self) -> impl Iterator<Item = &Expression> {
        self.columns.iter().filter_map(|column| match column {
            WindowColumn::Row(expression) => Some(expression),
            WindowColumn::Function(_) => None,
        })
    }

    fn keys(&self) -> impl Iterator<Item = (Expression, SortOptions)> {
        let options = SortOptions { descending: false, nulls_first: false };
        let partition_by = self.partition_by.iter().map(move |key| (key.clone(), options));
        partition_by.chain(self.order_by.iter().cloned())
    }

    /// Sorts the rows by partition and order.
    fn sorted(&self, execution: &Execution, rows: &Gathered, gathering: &Gathering) -> Stopped<Sorted> {
        let keys = self
            .keys()
            .map(|(key, options)| sort_key(rows.array(execution, gathering.place(&key)?)?, options));
        let keys = keys.collect::<Stopped<Vec<_>>>()?;
        let all = Rows::Range(0, rows.rows() as u32);
        let places = execution.sorted(&keys, all)?;
        let arrays: Vec<ArrayRef> = keys.into_iter().map(|key| key.array).collect();
        let (of_partitions, of_order) = arrays.split_at(self.partition_by.len());
        let partitions = execution.shared_out(|work| Runs::new(of_partitions, &places, None, work))?;
        let peers = execution.shared_out(|work| Runs::new(of_order, &places, Some(&partitions), work))?;
        let numbers = match self.goes_out_sorted() || places.iter().copied().eq(0..places.len() as u32) {
            true => None,
            false => {
                let numbers: Vec<u32> = (0..places.len() as u32).collect();
                let numbers = execution.shared_out(|work| window::scattered(&numbers, &places, work))?;
                Some(Arc::new(numbers))
            }
        };
        Ok(Sorted { places, partitions, peers, numbers })
    }

    /// Says which columns depend on the order of rows whose keys are equal.
    fn tell_uncertain(&self, execution: &Execution) {
        let is_uncertain = |column: &WindowColumn| match column {
            WindowColumn::Function(number) => self.functions[*number].tells_peers_apart(),
            WindowColumn::Row(_) => false,
        };
        let columns = self.columns.iter().enumerate().filter(|(_, column)| is_uncertain(column));
        execution.uncertain.lock().extend(columns.map(|(place, _)| place));
    }

    /// Returns the columns of all functions.
    fn compute(&self, execution: &Execution, rows: &Gathered, flow: &ReadyFlow) -> Stopped<Vec<Output>> {
        let gathering = self.gathering();
        let mut outputs: Vec<Option<Output>> = self.functions.iter().map(|_| None).collect();
        let ids = if self.is_unordered() {
            self.tell_uncertain(execution);
            self.group_ids(execution, rows, flow)?
        } else {
            let sorted = self.sorted(execution, rows, &gathering)?;
            if sorted.peers.len() < rows.rows() {
                self.tell_uncertain(execution);
            }
            let mut frames: Vec<(Frame, Frames)> = Vec::new();
            for (output, function) in outputs.iter_mut().zip(&self.functions) {
                execution.check()?;
                if let Some(frame) = function.frame()
                    && frames.iter().all(|(known, _)| *known != frame)
                {
                    let (partitions, peers) = (&sorted.partitions, &sorted.peers);
                    let found = execution
                        .shared_out(|work| Frames::new(partitions, peers, frame.start, frame.end, work))?;
                    frames.push((frame, found));
                }
                let frame = function.frame();
                let frame = frames.iter().find(|(known, _)| Some(*known) == frame).map(|(_, frame)| frame);
                *output = self.of_sorted(execution, rows, &sorted, function, frame, &gathering)?;
            }
            match outputs.iter().all(Option::is_some) {
                true => (Vec::new(), 0),
                false => {
                    let ids = execution.shared_out(|work| {
                        window::scattered(&sorted.partitions.ids(work)?, &sorted.places, work)
                    })?;
                    (ids, sorted.partitions.len())
                }
            }
        };
        let mut whole = self.whole(execution, rows, ids)?.into_iter();
        let outputs = outputs.into_iter().map(|output| output.or_else(|| whole.next()));
        let outputs: Option<Vec<Output>> = outputs.collect();
        outputs.ok_or_else(no_result)
    }

    /// Returns what a function gives for sorted rows; `None` for aggregates of whole partitions.
    fn of_sorted(
        &self,
        execution: &Execution,
        rows: &Gathered,
        sorted: &Sorted,
        function: &Function,
        frames: Option<&Frames>,
        gathering: &Gathering,
    ) -> Stopped<Option<Output>> {
        let Sorted { places, partitions, peers, .. } = sorted;
        let picked = |value: &Expression, picked: Vec<u32>, default: &ScalarValue| {
            let place = gathering.place(value)?;
            let from = match rows.column(place) {
                Some(number) => Output::Column(number),
                None => Output::Values(rows.array(execution, place)?),
            };
            let places = Arc::new(sorted.picked(execution, picked)?);
            Ok::<_, Stop>(Output::Picked { from: Box::new(from), places, default: default.clone() })
        };
        let no_frames = || Stop::Unfit("a window function has no frames".into());
        Ok(Some(match function {
            Function::RowNumber => sorted.integers(window::row_number(partitions)),
            Function::Rank => {
                sorted.integers(execution.shared_out(|work| window::rank(partitions, peers, work))?)
            }
            Function::DenseRank => {
                sorted.integers(execution.shared_out(|work| window::dense_rank(partitions, peers, work))?)
            }
            Function::PercentRank => {
                sorted.floats(execution.shared_out(|work| window::percent_rank(partitions, peers, work))?)
            }
            Function::CumeDist => {
                sorted.floats(execution.shared_out(|work| window::cume_dist(partitions, peers, work))?)
            }
            Function::Ntile(buckets) => sorted.integers(window::ntile(partitions, *buckets)),
            Function::Shift { value, offset, default } => {
                picked(value, window::lag(places, partitions, *offset)?, default)?
            }
            Function::Pick { value, pick, .. } => {
                let frames = frames.ok_or_else(no_frames)?;
                let found = match pick {
                    Pick::FromFirst(number) => frames.from_first(places, *number)?,
                    Pick::Last => frames.last(places)?,
                };
                picked(value, found, &ScalarValue::Null)?
            }
            Function::Framed { aggregate: of @ (Aggregate::Least | Aggregate::Greatest), value, .. } => {
                let array = rows.array(execution, gathering.place(value)?)?;
                let frames = frames.ok_or_else(no_frames)?;
                let found = frames.extreme(&array, places, *of == Aggregate::Greatest)?;
                picked(value, found, &ScalarValue::Null)?
            }
            Function::Framed { aggregate: Aggregate::Rows, .. } => {
                let sizes = frames.ok_or_else(no_frames)?.sizes();
                sorted.values(Arc::new(Int64Array::from(sizes)))
            }
            Function::Framed { aggregate, value, .. } => {
                let array = rows.array(execution, gathering.place(value)?)?;
                let seen = value.data_type(&self.universe.schema()).map_err(Stop::expression)?;
                let frames = frames.ok_or_else(no_frames)?;
                sorted.values(added(execution, *aggregate, (&array, &seen), frames, sorted)?)
            }
            Function::Whole(_) => return Ok(None),
        }))
    }

    /// Gives each row the number of its partition without sorting, and returns how many there are.
    fn group_ids(
        &self,
        execution: &Execution,
        rows: &Gathered,
        flow: &ReadyFlow,
    ) -> Stopped<(Vec<u32>, usize)> {
        if self.partition_by.is_empty() {
            return Ok((vec![0; rows.rows()], 1));
        }
        let columns = &execution.columns;
        let grouping = Grouping::new(&self.partition_by, columns, flow)?;
        let mut groups = grouping.groups(&self.partition_by, columns, None)?;
        let mut all = Vec::with_capacity(rows.rows());
        for start in (0..rows.rows()).step_by(PIECE_ROWS) {
            execution.check()?;
            let piece = rows.chunk.part(start, (start + PIECE_ROWS).min(rows.rows()));
            groups.number(&grouping, columns, &piece, |ids, _| {
                all.extend(ids.iter());
                Ok(())
            })?;
        }
        Ok((all, groups.len()))
    }

    /// Returns the columns of aggregates of whole partitions.
    fn whole(
        &self,
        execution: &Execution,
        rows: &Gathered,
        (ids, partitions): (Vec<u32>, usize),
    ) -> Stopped<Vec<Output>> {
        let planned: Vec<PlannedAggregate> = self
            .functions
            .iter()
            .filter_map(|function| match function {
                Function::Whole(planned) => Some(planned.as_ref().clone()),
                _ => None,
            })
            .collect();
        if planned.is_empty() {
            return Ok(Vec::new());
        }
        let aggregates = Aggregates::new(&planned, &execution.columns, true, &|_| None)?;
        let mut states = aggregates.states(true)?;
        let reservation = execution.reservation(NAME);
        states.grow(partitions);
        for start in (0..rows.rows()).step_by(PIECE_ROWS) {
            execution.check()?;
            let end = (start + PIECE_ROWS).min(rows.rows());
            let piece = rows.chunk.part(start, end);
            states.fold(&aggregates, &execution.columns, &piece, Ids::Each(&ids[start..end]))?;
            held::hold(&reservation, states.bytes() * 2)?;
        }
        let places = Arc::new(ids);
        let output = |values| Output::Picked {
            from: Box::new(Output::Values(values)),
            places: places.clone(),
            default: ScalarValue::Null,
        };
        match rows.rows() {
            0 => Ok(planned
                .iter()
                .map(|of| Output::Values(new_empty_array(of.function.field().data_type())))
                .collect()),
            _ => Ok(states.finish(&aggregates)?.into_iter().map(output).collect()),
        }
    }

    /// Computes the functions, and holds the memory of what they give.
    async fn computed(
        &self,
        execution: &Arc<Execution>,
        flow: &Arc<ReadyFlow>,
        rows: Gathered,
    ) -> Stopped<(Gathered, Vec<Output>, MemoryReservation)> {
        let reservation = execution.reservation(NAME);
        let keys = self.partition_by.len() + self.order_by.len();
        let of_row = ROW_BYTES + KEY_BYTES * keys + FUNCTION_BYTES * self.functions.len();
        held::hold(&reservation, rows.rows() * of_row)?;
        let (this, flow) = (self.clone(), flow.clone());
        let work = move |execution: &Execution| {
            let outputs = this.compute(execution, &rows, &flow)?;
            Ok((rows, outputs))
        };
        let (rows, outputs) = execution.blocking(work).await?;
        held::hold(&reservation, rows.rows() * FUNCTION_BYTES * self.functions.len())?;
        Ok((rows, outputs, reservation))
    }
}

fn no_result() -> Stop {
    Stop::Unfit("a window function has no result".into())
}

/// Returns a count, a sum or an average of each frame.
fn added(
    execution: &Execution,
    aggregate: Aggregate,
    (array, seen): (&ArrayRef, &DataType),
    frames: &Frames,
    Sorted { places, partitions, .. }: &Sorted,
) -> Stopped<ArrayRef> {
    let count = || -> Stopped<ArrayRef> { Ok(Arc::new(Int64Array::from(frames.count(array, places)?))) };
    let sum = || -> Stopped<ArrayRef> {
        let to = match seen {
            DataType::Decimal128(..) | DataType::Float64 => widest(seen),
            of if of.is_unsigned_integer() => DataType::UInt64,
            _ => DataType::Int64,
        };
        execution.shared_out(|work| frames.sum(array, places, partitions, &to, work))
    };
    match aggregate {
        Aggregate::Count => count(),
        Aggregate::Average => {
            let scale = match seen {
                DataType::Decimal128(_, scale) => Some(*scale),
                _ => None,
            };
            Ok(average(&sum()?, &count()?, scale))
        }
        _ => sum(),
    }
}

impl Pipeline for Windowed {
    fn universe(&self) -> &Arc<Universe> {
        &self.universe
    }

    fn flow(&self) -> &Flow {
        &self.flow
    }

    fn outputs(&self) -> Vec<Expression> {
        let keys = self.keys().map(|(key, _)| key);
        let functions = self.functions.iter().flat_map(Function::expressions);
        keys.chain(functions).chain(self.row_columns().cloned()).collect()
    }

    fn run<'a>(
        &'a self,
        execution: &'a Arc<Execution>,
        flow: &'a Arc<ReadyFlow>,
    ) -> BoxFuture<'a, Stopped<SendableRecordBatchStream>> {
        Box::pin(async move {
            let gathering = self.gathering();
            let slots = self.flow.row_slots();
            let rows = Gathered::make(execution, flow, &slots, &gathering.expressions, NAME).await?;
            let (rows, functions, reservation) = self.computed(execution, flow, rows).await?;
            let outputs = self.columns.iter().map(|column| match column {
                WindowColumn::Function(number) => functions.get(*number).cloned().ok_or_else(no_result),
                WindowColumn::Row(expression) => match expression.downcast_ref::<Column>() {
                    Some(column) => Ok(Output::Column(column.index())),
                    None => Ok(Output::Values(rows.array(execution, gathering.place(expression)?)?)),
                },
            });
            let outputs = outputs.collect::<Stopped<Vec<_>>>()?;
            let (chunk, gathered) = rows.into_parts();
            let emission = Emission {
                name: NAME,
                execution: execution.clone(),
                chunk,
                order: None,
                outputs,
                schema: self.schema.clone(),
                reservations: vec![reservation, gathered],
            };
            emission.stream()
        })
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions: Vec<String> = self.functions.iter().map(ToString::to_string).collect();
        let partition_by: Vec<String> = self.partition_by.iter().map(ToString::to_string).collect();
        write!(f, "functions=[{}], partition=[{}], order=[", functions.join(", "), partition_by.join(", "))?;
        write_keys(f, &self.order_by)?;
        f.write_str("]")
    }
}
