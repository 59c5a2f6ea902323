//! The rows of a flow in an order, or the first few of them. Rows are ordered by their keys, which
//! alone are read for all rows, and the other columns are read in the order of the result.

use super::chunk::Chunk;
use super::condition::is_kernel_type;
use super::emission::{Emission, Output};
use super::execution::Execution;
use super::first::late_output;
use super::flow::{Expression, Flow, Universe};
use super::gathered::Gathered;
use super::held;
use super::number::integers;
use super::ready::ReadyFlow;
use super::run::{Sink, run_pieces};
use super::sink::Pipeline;
use super::stop::{Stop, Stopped};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::sort_expr::LexOrdering;
use futures::future::BoxFuture;
use hypostyle_position::order::{Found, SortKey, Top};
use hypostyle_position::{Rows, Selection};
use hypostyle_sync::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rows that are looked at between two looks at whether the statement is to end.
const PIECE_ROWS: usize = 1 << 16;

/// The bytes that the order of a row takes while it is found, and those for each key.
const ROW_BYTES: usize = 40;
const KEY_BYTES: usize = 8;

/// A sort, or with a limit the first rows of an order.
#[derive(Debug)]
pub(super) struct Sorted {
    pub universe: Arc<Universe>,
    pub flow: Flow,
    pub keys: Vec<(Expression, SortOptions)>,
    pub limit: Option<usize>,
    pub outputs: Vec<Expression>,
    /// The order, over the columns of the result.
    pub order: LexOrdering,
    pub schema: SchemaRef,
}

impl Sorted {
    pub fn name(&self) -> &'static str {
        if self.limit.is_some() { "PosTopKExec" } else { "PosSortExec" }
    }

    /// Returns the first rows if all keys are columns of the only table: workers keep those that they
    /// have seen, and no positions of others.
    async fn first_of_table(
        &self,
        execution: &Arc<Execution>,
        flow: &Arc<ReadyFlow>,
        limit: usize,
    ) -> Stopped<Option<Chunk>> {
        if self.flow.row_slots().len() > 1 {
            return Ok(None);
        }
        let mut keys = Vec::with_capacity(self.keys.len());
        for (key, options) in &self.keys {
            let Some(column) = key.downcast_ref::<Column>() else { return Ok(None) };
            let array = execution.columns.get(column.index())?.stored.clone();
            keys.push(repeated_key(array, *options)?);
        }
        let keys: Arc<[SortKey]> = keys.into();
        let pieces = Arc::new(self.pieces(execution, flow)?);
        let make = || {
            let (keys, pieces) = (keys.clone(), pieces.clone());
            Ok(First { slot: flow.slot, keys, limit, found: Found::default(), pieces })
        };
        let workers = run_pieces(execution, flow, pieces.rows.clone(), self.name(), make).await?;
        let mut top = Top::new(&keys, limit)?;
        for worker in workers {
            top.merge(worker.found)?;
        }
        let positions = Selection::List(top.finish()?);
        Ok(Some(Chunk::new(execution.universe().sources.len(), flow.slot, positions)))
    }

    /// Returns the pieces of the table, each of which lies in one block. Those whose rows come first by
    /// the bounds of their blocks are the first.
    fn pieces(&self, execution: &Execution, flow: &ReadyFlow) -> Stopped<Pieces> {
        let mut pieces: Vec<(i128, Range<u32>)> =
            flow.morsels().iter().map(|piece| (i128::MIN, piece.clone())).collect();
        if let Some((key, options)) = self.keys.first()
            && let Some(column) = key.downcast_ref::<Column>()
            && flow.rows.is_none()
        {
            let column = execution.columns.get(column.index())?;
            for (best, piece) in &mut pieces {
                match column.bounds_at(piece.start) {
                    // A row that is NULL may come before all others.
                    Some((.., true)) if options.nulls_first => {}
                    Some((_, high, _)) if options.descending => *best = high.saturating_neg(),
                    Some((low, ..)) => *best = low,
                    None => {}
                }
            }
            pieces.sort_by_key(|(best, _)| *best);
        }
        let (bests, rows): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        Ok(Pieces { rows: rows.into(), bests, last: Mutex::new(i128::MAX) })
    }

    /// Returns all rows of the flow, and the places of those that go out, in order.
    async fn ordered(
        &self,
        execution: &Arc<Execution>,
        flow: &Arc<ReadyFlow>,
        computed: &[Expression],
    ) -> Stopped<(Gathered, Vec<u32>, MemoryReservation)> {
        let keys = self.keys.iter().map(|(key, _)| key);
        let expressions: Vec<Expression> = keys.chain(computed).cloned().collect();
        let slots = self.flow.row_slots();
        let rows = Gathered::make(execution, flow, &slots, &expressions, self.name()).await?;
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(place, (_, options))| sort_key(rows.array(execution, place)?, *options));
        let keys = keys.collect::<Stopped<Vec<_>>>()?;
        let count = rows.rows();
        let reservation = execution.reservation(self.name());
        held::hold(&reservation, count * (ROW_BYTES + KEY_BYTES * keys.len()))?;
        let limit = self.limit;
        let order = execution.blocking(move |execution| {
            let all = Rows::Range(0, count as u32);
            if let Some(limit) = limit.filter(|limit| *limit < count / 4) {
                let mut top = Top::new(&keys, limit)?;
                for start in (0..count).step_by(PIECE_ROWS) {
                    execution.check()?;
                    top.push(all.part(start..count.min(start + PIECE_ROWS)))?;
                }
                return Ok(top.finish()?);
            }
            let mut places = execution.sorted(&keys, all)?;
            places.truncate(limit.unwrap_or(count));
            Ok(places)
        });
        let order = order.await?;
        held::hold(&reservation, order.capacity() * size_of::<u32>())?;
        Ok((rows, order, reservation))
    }
}

/// Returns a key by which kernels sort.
pub(super) fn sort_key(array: ArrayRef, options: SortOptions) -> Stopped<SortKey> {
    match is_kernel_type(array.data_type()) {
        true => Ok(SortKey { array, descending: options.descending, nulls_first: options.nulls_first }),
        false => Err(Stop::Unfit(format!("keys of type {}", array.data_type()))),
    }
}

/// Returns a key that kernels look at again for each chunk of rows. Which rows of a dictionary are NULL
/// is found out each time, which takes long where that is said by its values.
pub(super) fn repeated_key(array: ArrayRef, options: SortOptions) -> Stopped<SortKey> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) if dictionary.values().null_count() > 0 => {
            Err(Stop::Unfit("a dictionary has NULL among its values".into()))
        }
        _ => sort_key(array, options),
    }
}

/// Pieces of a table's rows in the order in which they are looked at.
struct Pieces {
    rows: Arc<[Range<u32>]>,
    /// The number that a row of each piece has at least; negative ones for a descending order.
    bests: Vec<i128>,
    /// The number of the last row that is among the first ones of some worker.
    last: Mutex<i128>,
}

impl Pieces {
    /// Takes the first key of the last row that is among the first ones.
    fn found(&self, key: &SortKey, last: u32) {
        let number = key.array.is_valid(last as usize).then(|| integers(&key.array, Rows::List(&[last])));
        if let Some([number]) = number.flatten().as_deref() {
            let number = i128::from(*number);
            let number = if key.descending { -number } else { number };
            let mut last = self.last.lock();
            *last = number.min(*last);
        }
    }
}

/// The first rows that a worker has seen.
struct First {
    slot: usize,
    keys: Arc<[SortKey]>,
    limit: usize,
    found: Found,
    pieces: Arc<Pieces>,
}

impl Sink for First {
    const NAME: &'static str = "first rows";

    fn push(&mut self, _: &Execution, chunk: &Chunk) -> Stopped<()> {
        let mut top = Top::resume(&self.keys, self.limit, std::mem::take(&mut self.found))?;
        top.push(chunk.positions(self.slot))?;
        self.found = top.pause();
        if let (Some(key), Some(last)) = (self.keys.first(), self.found.last()) {
            self.pieces.found(key, last);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.found.bytes()
    }

    fn skips(&self, piece: usize) -> bool {
        self.pieces.bests.get(piece).is_some_and(|best| *best > *self.pieces.last.lock())
    }
}

impl Pipeline for Sorted {
    fn universe(&self) -> &Arc<Universe> {
        &self.universe
    }

    fn flow(&self) -> &Flow {
        &self.flow
    }

    fn outputs(&self) -> Vec<Expression> {
        let keys = self.keys.iter().map(|(key, _)| key.clone());
        let outputs = self.outputs.iter().filter(|_| self.limit.is_none());
        keys.chain(outputs.cloned()).collect()
    }

    fn late(&self) -> Vec<Expression> {
        self.outputs.iter().filter(|_| self.limit.is_some()).cloned().collect()
    }

    fn order(&self) -> Option<&LexOrdering> {
        Some(&self.order)
    }

    fn is_cut(&self) -> bool {
        self.limit.is_some()
    }

    fn run<'a>(
        &'a self,
        execution: &'a Arc<Execution>,
        flow: &'a Arc<ReadyFlow>,
    ) -> BoxFuture<'a, Stopped<SendableRecordBatchStream>> {
        Box::pin(async move {
            let is_computed = |output: &&Expression| !output.is::<Column>();
            let computed: Vec<Expression> = self.outputs.iter().filter(is_computed).cloned().collect();
            let emission = |chunk, order, outputs, reservations| Emission {
                name: self.name(),
                execution: execution.clone(),
                chunk,
                order,
                outputs,
                schema: self.schema.clone(),
                reservations,
            };
            let Some(limit) = self.limit else {
                let (rows, order, reservation) = self.ordered(execution, flow, &computed).await?;
                let mut computed = self.keys.len()..;
                let outputs = self.outputs.iter().map(|output| match output.downcast_ref::<Column>() {
                    Some(column) => Ok(Output::Column(column.index())),
                    None => Ok(Output::Values(rows.array(execution, computed.next().unwrap_or(usize::MAX))?)),
                });
                let outputs = outputs.collect::<Stopped<Vec<_>>>()?;
                let (chunk, gathered) = rows.into_parts();
                return emission(chunk, Some(order), outputs, vec![reservation, gathered]).stream();
            };
            let chunk = match self.first_of_table(execution, flow, limit).await? {
                Some(chunk) => chunk,
                None => {
                    let (rows, order, _) = self.ordered(execution, flow, &[]).await?;
                    rows.chunk.at(&order)
                }
            };
            let outputs = self.outputs.iter().map(|output| late_output(output, execution, &chunk));
            let outputs = outputs.collect::<Stopped<Vec<_>>>()?;
            emission(chunk, None, outputs, Vec::new()).stream()
        })
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys=[")?;
        write_keys(f, &self.keys)?;
        f.write_str("]")?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        let outputs: Vec<String> = self.outputs.iter().map(ToString::to_string).collect();
        write!(f, ", columns=[{}]", outputs.join(", "))
    }
}

/// Writes by what rows are ordered.
pub(super) fn write_keys(f: &mut fmt::Formatter<'_>, keys: &[(Expression, SortOptions)]) -> fmt::Result {
    for (place, (key, options)) in keys.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        write!(f, "{comma}{key} {options}")?;
    }
    Ok(())
}
