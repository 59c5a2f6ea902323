//! All rows of a flow, collected by their positions, and the values of expressions for them.

use super::build::verify;
use super::chunk::Chunk;
use super::evaluate::{Evaluator, Values};
use super::execution::Execution;
use super::flow::Expression;
use super::held;
use super::number::Numbers;
use super::ready::ReadyFlow;
use super::run::{Sink, run};
use super::stop::{Stop, Stopped};
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::expressions::Column;
use hypostyle_position::{NO_POSITION, Rows, Selection};
use std::sync::Arc;

/// The rows of a flow, in the order of its table. A row's *place* is its number among them.
#[derive(Debug)]
pub(super) struct Gathered {
    pub chunk: Chunk,
    values: Vec<Of>,
    reservation: MemoryReservation,
}

/// Where the values of an expression are.
#[derive(Debug)]
enum Of {
    /// They are in a column, and read where they are wanted.
    Column(usize),
    /// They are in an array that has one for each row.
    Computed(ArrayRef),
}

/// What a worker has of the rows that it saw together.
struct Piece {
    /// The position of the first row in the flow's table.
    first: u32,
    lists: Vec<Vec<u32>>,
    values: Vec<ArrayRef>,
}

struct Collecting {
    slot: usize,
    /// The slots whose positions are kept.
    slots: Arc<[usize]>,
    evaluators: Arc<[Evaluator]>,
    pieces: Vec<Piece>,
    bytes: usize,
}

impl Sink for Collecting {
    const NAME: &'static str = "collect";

    fn push(&mut self, execution: &Execution, chunk: &Chunk) -> Stopped<()> {
        let numbers = Numbers::default();
        let mut values = Values::new(&execution.columns, &numbers, chunk);
        let values = self.evaluators.iter().map(|evaluator| values.get(evaluator)?.array());
        let values = values.collect::<Stopped<Vec<_>>>()?;
        let first = chunk.positions(self.slot).iter().next().unwrap_or(0);
        let lists: Vec<Vec<u32>> =
            self.slots.iter().map(|slot| chunk.positions(*slot).iter().collect()).collect();
        // They are put together in the end.
        let of_values: usize = values.iter().map(|values| values.get_array_memory_size()).sum();
        self.bytes += 2 * (of_values + lists.len() * chunk.rows * size_of::<u32>());
        self.pieces.push(Piece { first, lists, values });
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Gathered {
    /// Collects the rows of a flow, by their positions in some slots, and computes what expressions
    /// give for them that are not mere columns.
    pub async fn make(
        execution: &Arc<Execution>,
        flow: &Arc<ReadyFlow>,
        slots: &[usize],
        expressions: &[Expression],
        name: &str,
    ) -> Stopped<Self> {
        verify(execution, slots)?;
        let is_computed = |expression: &&Expression| !expression.is::<Column>();
        let evaluators = expressions
            .iter()
            .filter(is_computed)
            .map(|expression| Evaluator::seen(expression, execution.universe()))
            .collect::<Stopped<Arc<[_]>>>()?;
        let reservation = execution.reservation(name);
        let all = flow.all_rows();
        let count = execution.universe().sources.len();
        let (chunk, computed) = match all {
            Some(range) if evaluators.is_empty() => (Chunk::new(count, flow.slot, range), Vec::new()),
            _ => {
                let kept: Arc<[usize]> = if all.is_some() { Arc::default() } else { slots.into() };
                let make = || {
                    Ok(Collecting {
                        slot: flow.slot,
                        slots: kept.clone(),
                        evaluators: evaluators.clone(),
                        pieces: Vec::new(),
                        bytes: 0,
                    })
                };
                let mut workers = run(execution, flow, name, make).await?;
                held::hold(&reservation, workers.iter().map(Sink::bytes).sum())?;
                let pieces = workers.iter_mut().flat_map(|worker| std::mem::take(&mut worker.pieces));
                let (lists, computed) = together(pieces.collect(), kept.len(), &evaluators, execution)?;
                let chunk = match all {
                    Some(range) => Chunk::new(count, flow.slot, range),
                    None => chunk_of(&kept, lists, count)?,
                };
                (chunk, computed)
            }
        };
        let mut computed = computed.into_iter();
        let values = expressions.iter().filter_map(|expression| match expression.downcast_ref::<Column>() {
            Some(column) => Some(Of::Column(column.index())),
            None => computed.next().map(Of::Computed),
        });
        Ok(Self { chunk, values: values.collect(), reservation })
    }

    /// Returns the rows, and what holds the memory of their values.
    pub fn into_parts(self) -> (Chunk, MemoryReservation) {
        (self.chunk, self.reservation)
    }

    /// Returns how many rows there are.
    pub fn rows(&self) -> usize {
        self.chunk.rows
    }

    /// Returns the column that an expression is.
    pub fn column(&self, expression: usize) -> Option<usize> {
        match self.values.get(expression) {
            Some(Of::Column(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns the values of an expression, those of a column as they are stored, in an array that has
    /// one for each row.
    pub fn array(&self, execution: &Execution, expression: usize) -> Stopped<ArrayRef> {
        match self.values.get(expression) {
            Some(Of::Column(number)) => {
                let rows = self.chunk.positions(execution.columns.slot(*number));
                let column = execution.columns.get(*number)?;
                if matches!(rows, Rows::List(_)) {
                    held::grow(&self.reservation, column.bytes_of(rows))?;
                }
                column.gather(rows)
            }
            Some(Of::Computed(values)) => Ok(values.clone()),
            None => Err(Stop::Unfit("an expression was not gathered".into())),
        }
    }
}

/// Puts the positions and the values of all pieces together, in the order of the table.
fn together(
    mut pieces: Vec<Piece>,
    slots: usize,
    evaluators: &[Evaluator],
    execution: &Execution,
) -> Stopped<(Vec<Vec<u32>>, Vec<ArrayRef>)> {
    pieces.sort_by_key(|piece| piece.first);
    let list = |slot: usize| pieces.iter().flat_map(|piece| piece.lists[slot].iter().copied()).collect();
    let lists = (0..slots).map(list).collect();
    let mut computed = Vec::with_capacity(evaluators.len());
    for (place, evaluator) in evaluators.iter().enumerate() {
        execution.check()?;
        let parts: Vec<&dyn Array> = pieces.iter().map(|piece| piece.values[place].as_ref()).collect();
        computed.push(match parts.is_empty() {
            true => evaluator.of_no_rows()?,
            false => concat(&parts).map_err(Stop::arrow)?,
        });
    }
    Ok((lists, computed))
}

/// Returns the rows that have some positions in each slot.
fn chunk_of(slots: &[usize], lists: Vec<Vec<u32>>, count: usize) -> Stopped<Chunk> {
    let rows = lists.first().map_or(0, Vec::len);
    if rows >= NO_POSITION as usize {
        return Err(Stop::Unfit("too many rows are collected".into()));
    }
    let mut chunk = Chunk::new(count, usize::MAX, Selection::Range(0, rows as u32));
    for (slot, list) in slots.iter().zip(lists) {
        chunk.put(*slot, Selection::List(list));
    }
    Ok(chunk)
}
