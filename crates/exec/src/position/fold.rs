//! The aggregate over a flow.

use super::aggregate::{Aggregates, PlannedAggregate, States};
use super::chunk::Chunk;
use super::condition::is_kernel_type;
use super::execution::Execution;
use super::flow::{Expression, Flow, Universe};
use super::group::{GroupIds, Grouping};
use super::held;
use super::number::Numbers;
use super::ready::ReadyFlow;
use super::run::{Apart, CHUNK_ROWS, Sink, joined, run, run_apart};
use super::segment::Segments;
use super::sets::{self, Finest};
use super::share::{Choice, Noted, Parts, Way};
use super::sink::Pipeline;
use super::sort::sort_key;
use super::stop::{Stop, Stopped};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::BoxFuture;
use hypostyle_position::Rows;
use hypostyle_position::order::first_with_ties;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What is computed of the rows of a flow, group by group.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    pub universe: Arc<Universe>,
    pub flow: Flow,
    pub keys: Vec<Expression>,
    pub aggregates: Vec<PlannedAggregate>,
    /// GROUPING SETS, ROLLUP or CUBE; none for a plain GROUP BY.
    pub sets: Vec<Vec<bool>>,
    /// Which groups alone are wanted.
    pub first: Option<FirstGroups>,
    pub schema: SchemaRef,
}

/// The first groups in the order of some aggregates, and those that are equal to the last one of them.
/// Others have no keys read.
#[derive(Clone, Debug)]
pub(super) struct FirstGroups {
    /// The places of the aggregates.
    pub order_by: Vec<(usize, SortOptions)>,
    pub limit: usize,
}

impl FirstGroups {
    /// Returns those of some groups that may be among the first, by the results of the aggregates.
    fn of(&self, groups: Vec<u32>, results: &[ArrayRef]) -> Stopped<Vec<u32>> {
        let keys = self.order_by.iter().map_while(|(place, options)| {
            let array = results.get(*place)?;
            is_kernel_type(array.data_type()).then(|| sort_key(array.clone(), *options))
        });
        let keys = keys.collect::<Stopped<Vec<_>>>()?;
        match keys.is_empty() {
            true => Ok(groups),
            false => Ok(first_with_ties(&keys, self.limit, Rows::List(&groups))?),
        }
    }
}

/// What workers share.
struct Shared {
    keys: Vec<Expression>,
    grouping: Grouping,
    aggregates: Aggregates,
    schema: SchemaRef,
    sets: Vec<Vec<bool>>,
    first: Option<FirstGroups>,
    choice: Choice,
    /// The tables whose rows pass, and the rows of the largest one.
    slots: Vec<usize>,
    rows: u64,
    threads: usize,
}

/// Groups and their states.
struct Table {
    ids: GroupIds,
    states: States,
}

impl Table {
    /// Makes groups without rows, of which it may be known between which values of a column they lie.
    fn new(shared: &Shared, execution: &Execution, within: Option<(usize, &ArrayRef)>) -> Stopped<Self> {
        let ids = shared.grouping.groups(&shared.keys, &execution.columns, within)?;
        Ok(Self { ids, states: shared.aggregates.states(shared.grouping.is_sparse())? })
    }

    fn push(&mut self, shared: &Shared, execution: &Execution, chunk: &Chunk) -> Stopped<()> {
        let Self { ids, states } = self;
        ids.number(&shared.grouping, &execution.columns, chunk, |ids, groups| {
            states.grow(groups);
            states.fold(&shared.aggregates, &execution.columns, chunk, ids)
        })
    }

    fn merge(&mut self, mut other: Self) -> Stopped<()> {
        other.states.grow(other.ids.len());
        let ids = self.ids.merge(&other.ids)?;
        self.states.grow(self.ids.len());
        self.states.merge(&other.states.into_partial()?, &ids)
    }

    fn bytes(&self) -> usize {
        self.ids.bytes() + self.states.bytes()
    }

    /// Returns the keys and results of the groups.
    fn finish(self, shared: &Shared, execution: &Execution) -> Stopped<RecordBatch> {
        let Self { ids, mut states } = self;
        states.grow(ids.len());
        let results = states.finish(&shared.aggregates)?;
        let mut rows = ids.present()?;
        if let Some(first) = &shared.first {
            rows = first.of(rows, &results)?;
        }
        let rows = UInt32Array::from(rows);
        let mut columns = ids.keys(&rows, &shared.grouping, &execution.columns, &shared.types())?;
        let whole = rows.len() == ids.len();
        for result in results {
            let result: ArrayRef = match whole {
                true => result,
                false => take(&result, &rows, None).map_err(Stop::arrow)?,
            };
            columns.push(result);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(shared.schema.clone(), columns, &options).map_err(Stop::arrow)
    }
}

/// What a worker has made of its rows.
enum Made {
    /// A table, and the rows that are in it, for as long as they may be shared out yet.
    Table(Table, Option<Noted>),
    Parts(Parts),
}

struct Folding {
    shared: Arc<Shared>,
    made: Made,
}

impl Folding {
    fn new(shared: &Arc<Shared>, execution: &Execution) -> Stopped<Self> {
        // Another worker may have chosen already.
        let made = match shared.choice.way() {
            Way::Open => Made::Table(Table::new(shared, execution, None)?, Some(Noted::new(&shared.slots))),
            Way::Table => Made::Table(Table::new(shared, execution, None)?, None),
            Way::Parts => Made::Parts(Parts::new(&shared.slots, shared.rows)),
        };
        Ok(Self { shared: shared.clone(), made })
    }

    /// Goes the way that has been chosen for all workers.
    fn follow(&mut self, execution: &Execution) -> Stopped<()> {
        let Made::Table(_, noted @ Some(_)) = &mut self.made else { return Ok(()) };
        match self.shared.choice.way() {
            Way::Open => {}
            Way::Table => *noted = None,
            Way::Parts => {
                let mut parts = Parts::new(&self.shared.slots, self.shared.rows);
                let slots = execution.universe().sources.len();
                for chunk in noted.take().iter().flat_map(|noted| noted.chunks(slots, CHUNK_ROWS)) {
                    self.shared.share_out(execution, &chunk, &mut parts)?;
                }
                self.made = Made::Parts(parts);
            }
        }
        Ok(())
    }
}

impl Shared {
    fn types(&self) -> Vec<DataType> {
        self.schema.fields().iter().map(|field| field.data_type().clone()).collect()
    }

    /// Returns segments of a flow's rows that have no group in common, if there may be many groups.
    fn segments(&self, execution: &Execution, flow: &ReadyFlow) -> Stopped<Option<Segments>> {
        match self.sets.is_empty() && self.grouping.may_be_many() && flow.rows.is_none() {
            true => {
                let columns = &execution.columns;
                Segments::of(&self.keys, columns, flow.slot, &flow.morsels, execution.threads)
            }
            false => Ok(None),
        }
    }

    fn share_out(&self, execution: &Execution, chunk: &Chunk, parts: &mut Parts) -> Stopped<()> {
        let numbers = Numbers::default();
        parts.push(chunk, &self.grouping.keys(&execution.columns, chunk, &numbers)?)
    }
}

impl Sink for Folding {
    const NAME: &'static str = "aggregate";

    fn push(&mut self, execution: &Execution, chunk: &Chunk) -> Stopped<()> {
        self.follow(execution)?;
        let shared = &self.shared;
        match &mut self.made {
            Made::Parts(parts) => shared.share_out(execution, chunk, parts),
            Made::Table(table, noted) => {
                table.push(shared, execution, chunk)?;
                if let Some(noted) = noted {
                    noted.push(chunk);
                    shared.choice.choose(table.ids.len(), noted.rows);
                }
                Ok(())
            }
        }
    }

    fn bytes(&self) -> usize {
        let own = match &self.made {
            Made::Table(table, noted) => table.bytes() + noted.as_ref().map_or(0, Noted::bytes),
            Made::Parts(parts) => parts.bytes(),
        };
        let common = self.shared.grouping.bytes() + self.shared.aggregates.bytes();
        own + common / self.shared.threads.max(1)
    }
}

/// Groups of segments of the rows that have none in common.
struct FoldedApart {
    shared: Arc<Shared>,
    segments: Segments,
}

impl FoldedApart {
    /// Returns the groups of all segments, with what holds their memory.
    async fn run(
        self,
        execution: &Arc<Execution>,
        flow: &Arc<ReadyFlow>,
    ) -> Stopped<(Vec<RecordBatch>, MemoryReservation)> {
        let reservation = execution.reservation("PosFoldExec");
        let mut batches = Vec::new();
        for (made, own) in run_apart(execution, flow, "PosFoldExec", &Arc::new(self)).await? {
            batches.extend(made);
            held::grow(&reservation, own.size())?;
        }
        Ok((batches, reservation))
    }
}

impl Apart for FoldedApart {
    type Sink = Folding;
    const NAME: &'static str = "aggregate segments";

    fn pieces(&self, segment: usize) -> Option<&[Range<u32>]> {
        Some(&self.segments.segments.get(segment)?.pieces)
    }

    fn sink(&self, execution: &Execution, segment: usize) -> Stopped<Folding> {
        let Segments { number, segments } = &self.segments;
        let within = segments.get(segment).map(|segment| (*number, &segment.bounds));
        let table = Table::new(&self.shared, execution, within)?;
        Ok(Folding { shared: self.shared.clone(), made: Made::Table(table, None) })
    }

    fn finish(&self, execution: &Execution, sink: Folding) -> Stopped<RecordBatch> {
        match sink.made {
            Made::Table(table, _) => table.finish(&self.shared, execution),
            Made::Parts(_) => Err(Stop::Unfit("a worker has shared rows out".into())),
        }
    }
}

impl Pipeline for Folded {
    fn universe(&self) -> &Arc<Universe> {
        &self.universe
    }

    fn over(&self, universe: Arc<Universe>) -> Option<Arc<dyn Pipeline>> {
        self.first.is_none().then(|| Arc::new(Self { universe, ..self.clone() }) as Arc<dyn Pipeline>)
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
            let columns = &execution.columns;
            let met_often = |slot: usize| flow.positions_met_often(slot, columns);
            let aggregates = Aggregates::new(&self.aggregates, columns, !self.keys.is_empty(), &met_often)?;
            let may_share = grouping.is_hashed() && self.sets.is_empty();
            let way = if may_share { Way::Open } else { Way::Table };
            let shared = Arc::new(Shared {
                keys: self.keys.clone(),
                grouping,
                aggregates,
                schema: self.schema.clone(),
                sets: self.sets.clone(),
                first: self.first.clone(),
                choice: Choice::new(way),
                slots: self.flow.row_slots(),
                rows: self.flow.rows,
                threads: execution.threads,
            });
            if let Some(segments) = shared.segments(execution, flow)? {
                let (batches, reservation) = FoldedApart { shared, segments }.run(execution, flow).await?;
                return Ok(held::in_pieces(self.schema.clone(), batches, reservation, &execution.context));
            }
            let workers = run(execution, flow, "PosFoldExec", || Folding::new(&shared, execution)).await?;
            let begun = Instant::now();
            let reservation = execution.reservation("PosFoldExec");
            let batches = match shared.choice.way() {
                Way::Parts => by_parts(execution, &shared, workers, &reservation).await?,
                _ => together(execution, &shared, workers, &reservation)?,
            };
            let rows = batches.iter().map(RecordBatch::num_rows).sum();
            execution.measurements.once("merge groups", rows, begun.elapsed());
            Ok(held::in_pieces(self.schema.clone(), batches, reservation, &execution.context))
        })
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let aggregates: Vec<&str> =
            self.aggregates.iter().map(|aggregate| aggregate.function.name()).collect();
        write!(f, "gby=[{}]", keys.join(", "))?;
        if !self.sets.is_empty() {
            let set = |set: &Vec<bool>| {
                let kept = keys.iter().zip(set).filter(|(_, left_out)| !**left_out);
                format!("({})", kept.map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", "))
            };
            write!(f, ", sets=[{}]", self.sets.iter().map(set).collect::<Vec<_>>().join(", "))?;
        }
        write!(f, ", aggr=[{}]", aggregates.join(", "))?;
        if let Some(FirstGroups { order_by, limit }) = &self.first {
            let keys = order_by
                .iter()
                .filter_map(|(place, options)| Some(format!("{} {options}", aggregates.get(*place)?)));
            write!(f, ", first={limit} by [{}]", keys.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

/// Puts the tables of all workers together.
fn together(
    execution: &Execution,
    shared: &Shared,
    workers: Vec<Folding>,
    reservation: &MemoryReservation,
) -> Stopped<Vec<RecordBatch>> {
    let mut all: Option<Table> = None;
    for Folding { made, .. } in workers {
        let Made::Table(table, _) = made else {
            return Err(Stop::Unfit("a worker has shared rows out".into()));
        };
        execution.check()?;
        match &mut all {
            None => all = Some(table),
            Some(all) => all.merge(table)?,
        }
        held::hold(reservation, all.as_ref().map_or(0, Table::bytes))?;
    }
    let all = all.ok_or_else(|| Stop::Unfit("there is no worker".into()))?;
    // The results are as large as the states, at most.
    held::hold(reservation, all.bytes() * (1 + shared.sets.len().max(1)))?;
    match shared.sets.is_empty() {
        true => Ok(vec![all.finish(shared, execution)?]),
        false => {
            let Table { ids, mut states } = all;
            states.grow(ids.len());
            let rows = UInt32Array::from(ids.present()?);
            let keys = ids.keys(&rows, &shared.grouping, &execution.columns, &shared.types())?;
            let finest =
                Finest { keys, rows: rows.values(), groups: ids.len(), states: states.into_partial()? };
            sets::coarsened(|| execution.check(), &finest, &shared.aggregates, &shared.sets, &shared.schema)
        }
    }
}

/// Makes a table of each part of the rows.
async fn by_parts(
    execution: &Arc<Execution>,
    shared: &Arc<Shared>,
    workers: Vec<Folding>,
    reservation: &MemoryReservation,
) -> Stopped<Vec<RecordBatch>> {
    let mut of_workers = Vec::with_capacity(workers.len());
    for mut worker in workers {
        worker.follow(execution)?;
        let Made::Parts(parts) = worker.made else {
            return Err(Stop::Unfit("a worker has not shared its rows out".into()));
        };
        held::grow(reservation, parts.bytes())?;
        of_workers.push(parts);
    }
    let of_workers = Arc::new(of_workers);
    let cursor = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::with_capacity(execution.threads);
    for _ in 0..execution.threads {
        let (execution, shared) = (execution.clone(), shared.clone());
        let (of_workers, cursor) = (of_workers.clone(), cursor.clone());
        let own = execution.reservation("PosFoldExec");
        tasks.push(SpawnedTask::spawn(async move {
            let mut batches = Vec::new();
            let count = of_workers.first().map_or(0, |parts| parts.parts.len());
            loop {
                let part = cursor.fetch_add(1, Ordering::Relaxed);
                if part >= count {
                    return Ok((batches, own));
                }
                let before = own.size();
                let mut table = Table::new(&shared, &execution, None)?;
                for noted in of_workers.iter().filter_map(|parts| parts.parts.get(part)) {
                    for chunk in noted.chunks(execution.universe().sources.len(), CHUNK_ROWS) {
                        execution.check()?;
                        table.push(&shared, &execution, &chunk)?;
                        held::hold(&own, before + table.bytes() * 2)?;
                    }
                }
                let batch = table.finish(&shared, &execution)?;
                held::hold(&own, before + batch.get_array_memory_size())?;
                batches.push(batch);
                tokio::task::yield_now().await;
            }
        }));
    }
    let mut batches = Vec::new();
    for task in tasks {
        let (of_task, own): (Vec<RecordBatch>, MemoryReservation) = joined(task).await?;
        batches.extend(of_task);
        held::grow(reservation, own.size())?;
    }
    Ok(batches)
}
