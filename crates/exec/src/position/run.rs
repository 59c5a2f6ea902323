//! Runs flows: workers take morsels of a table's rows and pass them through the steps.

use super::build::{Built, Lookup};
use super::chunk::Chunk;
use super::evaluate::{Evaluator, Values};
use super::execution::Execution;
use super::flow::Kind;
use super::held;
use super::measure::{Steps, Stopwatch};
use super::number::Numbers;
use super::ready::{Action, Lists, ReadyFlow};
use super::stop::{Stop, Stopped};
use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use hypostyle_position::condition::Filter;
use hypostyle_position::join::Pairs;
use hypostyle_position::selection;
use hypostyle_position::{NO_POSITION, Rows, Selection};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The rows of which values are computed together: what they need stays in the cache.
pub(super) const CHUNK_ROWS: usize = 1 << 13;

/// The rows that pass a flow are estimated by so many runs of so many rows.
const SAMPLES: usize = 16;
const SAMPLE_ROWS: u32 = 1 << 12;

/// What takes the rows that have passed a flow.
pub(super) trait Sink: Send + 'static {
    /// What EXPLAIN ANALYZE calls what becomes of the rows.
    const NAME: &'static str;

    fn push(&mut self, execution: &Execution, chunk: &Chunk) -> Stopped<()>;

    /// Returns the bytes that it holds.
    fn bytes(&self) -> usize;

    /// Tells whether no row of a piece is wanted any more, by its place among those that are run.
    fn skips(&self, _piece: usize) -> bool {
        false
    }
}

/// Passes all rows of a flow through it, and returns what each worker has made of them.
pub(super) async fn run<S: Sink>(
    execution: &Arc<Execution>,
    flow: &Arc<ReadyFlow>,
    name: &str,
    make: impl Fn() -> Stopped<S>,
) -> Stopped<Vec<S>> {
    run_pieces(execution, flow, flow.morsels.clone().into(), name, make).await
}

/// The same with the pieces of rows in an order of their own.
pub(super) async fn run_pieces<S: Sink>(
    execution: &Arc<Execution>,
    flow: &Arc<ReadyFlow>,
    pieces: Arc<[Range<u32>]>,
    name: &str,
    make: impl Fn() -> Stopped<S>,
) -> Stopped<Vec<S>> {
    let steps = flow.measured(execution, S::NAME);
    let pieces = Pieces { pieces, next: Arc::default() };
    let workers = execution.threads.min(flow.morsels.len()).max(1);
    if workers == 1 {
        let reservation = execution.reservation(name);
        let worker = work(execution.clone(), flow.clone(), steps, pieces, make()?, reservation);
        let sinks = vec![worker.await?];
        flow.imprints.wish(execution, flow.slot)?;
        return Ok(sinks);
    }
    let mut tasks = Vec::with_capacity(workers);
    for _ in 0..workers {
        let (execution, flow, steps) = (execution.clone(), flow.clone(), steps.clone());
        let reservation = execution.reservation(name);
        tasks.push(SpawnedTask::spawn(work(execution, flow, steps, pieces.clone(), make()?, reservation)));
    }
    let mut sinks = Vec::with_capacity(workers);
    for task in tasks {
        sinks.push(joined(task).await?);
    }
    flow.imprints.wish(execution, flow.slot)?;
    Ok(sinks)
}

/// Makes rows of segments of a flow's rows, of each apart.
pub(super) trait Apart: Send + Sync + 'static {
    type Sink: Sink;
    /// What EXPLAIN ANALYZE calls what becomes of the rows.
    const NAME: &'static str;

    /// Returns the pieces of rows of a segment; `None` behind the last one.
    fn pieces(&self, segment: usize) -> Option<&[Range<u32>]>;

    /// Makes what takes the rows of a segment.
    fn sink(&self, execution: &Execution, segment: usize) -> Stopped<Self::Sink>;

    fn finish(&self, execution: &Execution, sink: Self::Sink) -> Stopped<RecordBatch>;
}

/// Passes all rows of a flow through it, segment by segment, and returns the rows that are made of them
/// with what holds their memory.
pub(super) async fn run_apart<A: Apart>(
    execution: &Arc<Execution>,
    flow: &Arc<ReadyFlow>,
    name: &str,
    apart: &Arc<A>,
) -> Stopped<Vec<(Vec<RecordBatch>, MemoryReservation)>> {
    let steps = flow.measured(execution, A::NAME);
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::with_capacity(execution.threads);
    for _ in 0..execution.threads {
        let (execution, flow, steps) = (execution.clone(), flow.clone(), steps.clone());
        let (apart, next) = (apart.clone(), next.clone());
        let reservation = execution.reservation(name);
        tasks.push(SpawnedTask::spawn(work_apart(execution, flow, steps, apart, next, reservation)));
    }
    let mut made = Vec::with_capacity(tasks.len());
    for task in tasks {
        made.push(joined(task).await?);
    }
    flow.imprints.wish(execution, flow.slot)?;
    Ok(made)
}

async fn work_apart<A: Apart>(
    execution: Arc<Execution>,
    flow: Arc<ReadyFlow>,
    steps: Arc<Steps>,
    apart: Arc<A>,
    next: Arc<AtomicUsize>,
    reservation: MemoryReservation,
) -> Stopped<(Vec<RecordBatch>, MemoryReservation)> {
    let worker = Worker::new(&execution, &flow, &steps)?;
    let (mut batches, mut held) = (Vec::new(), 0);
    loop {
        let segment = next.fetch_add(1, Ordering::Relaxed);
        let Some(pieces) = apart.pieces(segment) else { break };
        let mut sink = apart.sink(&execution, segment)?;
        for piece in pieces {
            execution.check()?;
            worker.morsel(piece.clone(), &mut |chunk| {
                execution.check()?;
                sink.push(&execution, chunk)?;
                // What is made of them takes as much again, at most.
                held::hold(&reservation, held + sink.bytes() * 2)
            })?;
        }
        let batch = apart.finish(&execution, sink)?;
        held += batch.get_array_memory_size();
        held::hold(&reservation, held)?;
        batches.push(batch);
        tokio::task::yield_now().await;
    }
    drop(worker);
    Ok((batches, reservation))
}

/// Returns what a task has given.
pub(super) async fn joined<T: Send + 'static>(task: SpawnedTask<Stopped<T>>) -> Stopped<T> {
    let given = task.join_unwind().await;
    given.map_err(|error| Stop::Error(DataFusionError::ExecutionJoin(Box::new(error))))?
}

/// Collects positions.
struct Collect(Vec<(usize, Vec<u32>)>);

impl Sink for Collect {
    const NAME: &'static str = "collect";

    fn push(&mut self, _: &Execution, chunk: &Chunk) -> Stopped<()> {
        for (slot, positions) in &mut self.0 {
            positions.extend(chunk.positions(*slot).iter());
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(_, positions)| positions.capacity() * 4).sum()
    }
}

/// Collects the positions, in some slots, of all rows that pass a flow.
pub(super) async fn collect(
    execution: &Arc<Execution>,
    flow: &Arc<ReadyFlow>,
    slots: &[usize],
) -> Stopped<Lists> {
    let make = || Ok(Collect(slots.iter().map(|slot| (*slot, Vec::new())).collect()));
    let parts = run(execution, flow, "PosJoinExec", make).await?;
    let mut lists: Vec<(usize, Vec<u32>)> = slots.iter().map(|slot| (*slot, Vec::new())).collect();
    for Collect(part) in parts {
        for ((_, list), (_, positions)) in lists.iter_mut().zip(part) {
            match list.is_empty() {
                true => *list = positions,
                false => list.extend(positions),
            }
        }
    }
    let rows = lists.first().map_or(0, |(_, list)| list.len());
    if rows >= NO_POSITION as usize {
        return Err(Stop::Unfit("too many rows are collected".into()));
    }
    let reservation = execution.reservation("PosJoinExec");
    held::hold(&reservation, rows * 4 * lists.len())?;
    Ok(Lists { lists, rows, reservation })
}

/// Estimates how many rows pass a flow, by some of them.
pub(super) async fn estimate(execution: &Arc<Execution>, flow: &Arc<ReadyFlow>) -> Stopped<u64> {
    let most = flow.most_rows();
    if flow.passes_all() {
        return Ok(most);
    }
    let pieces = samples(flow.morsels());
    let read: u64 = pieces.iter().map(|piece| u64::from(piece.end - piece.start)).sum();
    let counts = run_pieces(execution, flow, pieces.into(), "PosJoinExec", || Ok(Count(0))).await?;
    let passed: u64 = counts.iter().map(|Count(rows)| rows).sum();
    // Rows that no sample has met are taken for one of all.
    let passed = u128::from(passed.max(1)) * u128::from(most) / u128::from(read.max(1));
    Ok(u64::try_from(passed).unwrap_or(u64::MAX))
}

/// Returns the beginnings of some pieces of rows, evenly spread.
fn samples(morsels: &[Range<u32>]) -> Vec<Range<u32>> {
    let every = morsels.len().div_ceil(SAMPLES).max(1);
    let beginning = |rows: &Range<u32>| rows.start..rows.end.min(rows.start.saturating_add(SAMPLE_ROWS));
    morsels.iter().step_by(every).map(beginning).collect()
}

/// Counts rows.
struct Count(u64);

impl Sink for Count {
    const NAME: &'static str = "sample";

    fn push(&mut self, _: &Execution, chunk: &Chunk) -> Stopped<()> {
        self.0 += chunk.rows as u64;
        Ok(())
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// The pieces of rows, of which each worker takes the next one.
#[derive(Clone)]
struct Pieces {
    pieces: Arc<[Range<u32>]>,
    next: Arc<AtomicUsize>,
}

impl Pieces {
    fn next(&self) -> Option<(usize, &Range<u32>)> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        Some((place, self.pieces.get(place)?))
    }
}

async fn work<S: Sink>(
    execution: Arc<Execution>,
    flow: Arc<ReadyFlow>,
    steps: Arc<Steps>,
    pieces: Pieces,
    mut sink: S,
    reservation: MemoryReservation,
) -> Stopped<S> {
    let worker = Worker::new(&execution, &flow, &steps)?;
    while let Some((place, morsel)) = pieces.next() {
        execution.check()?;
        if sink.skips(place) {
            continue;
        }
        worker.morsel(morsel.clone(), &mut |chunk| {
            execution.check()?;
            sink.push(&execution, chunk)?;
            held::hold(&reservation, sink.bytes())
        })?;
        tokio::task::yield_now().await;
    }
    drop(worker);
    Ok(sink)
}

/// A join in which conditions must hold for both rows.
struct Conditional<'a> {
    keys: &'a [Evaluator],
    built: &'a Built,
    conditions: &'a [Evaluator],
}

/// The steps of a flow as one worker uses them.
pub(super) struct Worker<'a> {
    execution: &'a Execution,
    flow: &'a ReadyFlow,
    filter: Option<Filter<'a>>,
    /// The conditions of steps, by their places.
    filters: Vec<Option<Filter<'a>>>,
    numbers: Numbers,
    stopwatch: Stopwatch,
}

impl<'a> Worker<'a> {
    pub fn new(execution: &'a Execution, flow: &'a ReadyFlow, steps: &Arc<Steps>) -> Stopped<Self> {
        let filter = match &flow.condition {
            Some((condition, columns)) => Some(Filter::new(condition, columns)?),
            None => None,
        };
        let filters = flow
            .steps
            .iter()
            .map(|step| match &step.action {
                Action::Condition { condition, columns, .. } => Ok(Some(Filter::new(condition, columns)?)),
                _ => Ok(None),
            })
            .collect::<Stopped<_>>()?;
        let stopwatch = Stopwatch::new(steps);
        Ok(Self { execution, flow, filter, filters, numbers: Numbers::default(), stopwatch })
    }

    /// Passes the rows of a morsel through the steps.
    pub fn morsel(&self, morsel: Range<u32>, sink: &mut dyn FnMut(&Chunk) -> Stopped<()>) -> Stopped<()> {
        let passed = self.pass(morsel, sink);
        self.stopwatch.stop();
        passed
    }

    fn pass(&self, morsel: Range<u32>, sink: &mut dyn FnMut(&Chunk) -> Stopped<()>) -> Stopped<()> {
        self.stopwatch.enter(0);
        let slots = self.execution.universe().sources.len();
        if let Some(lists) = &self.flow.rows {
            self.stopwatch.count(morsel.len());
            let mut start = morsel.start as usize;
            while start < morsel.end as usize {
                let end = (start + CHUNK_ROWS).min(morsel.end as usize);
                let mut chunk = Chunk::new(slots, usize::MAX, Selection::Range(start as u32, end as u32));
                for (slot, list) in &lists.lists {
                    chunk.put(*slot, Selection::List(list[start..end].to_vec()));
                }
                self.advance(0, chunk, sink)?;
                start = end;
            }
            return Ok(());
        }
        let columns = &self.execution.columns;
        for column in columns.of_slot(self.flow.slot) {
            column.verify(morsel.start.into()..morsel.end.into())?;
        }
        let rows = Rows::Range(morsel.start, morsel.end);
        let mut selection: Selection = match &self.filter {
            Some(filter) => filter.select(rows)?,
            None => rows.into(),
        };
        self.flow.imprints.count(&morsel, &selection);
        if let Some(live) = &self.flow.live {
            selection = live.select(selection.rows());
        }
        self.stopwatch.count(selection.len());
        let mut start = 0;
        while start < selection.len() {
            let end = (start + CHUNK_ROWS).min(selection.len());
            let part = selection.rows().part(start..end).into();
            self.advance(0, Chunk::new(slots, self.flow.slot, part), sink)?;
            start = end;
        }
        Ok(())
    }

    /// Passes a chunk through the steps from one on.
    fn advance(
        &self,
        mut place: usize,
        mut chunk: Chunk,
        sink: &mut dyn FnMut(&Chunk) -> Stopped<()>,
    ) -> Stopped<()> {
        while let Some(step) = self.flow.steps.get(place) {
            if chunk.rows == 0 {
                return Ok(());
            }
            self.stopwatch.enter(1 + place);
            match &step.action {
                Action::Condition { slot, .. } => {
                    let mut mask = vec![1; chunk.rows];
                    if let Some(Some(filter)) = self.filters.get(place) {
                        filter.mask(chunk.positions(*slot), &mut mask)?;
                    }
                    chunk = kept(chunk, &mask);
                }
                Action::Filter(evaluator) => {
                    let mask = self.values(&chunk).truths(evaluator)?;
                    chunk = kept(chunk, &mask);
                }
                Action::Join { kind, keys, built, conditions } if !conditions.is_empty() => {
                    let join = Conditional { keys, built, conditions };
                    if *kind == Kind::Left {
                        return self.join_left_where(place, &join, &chunk, sink);
                    }
                    let has = self.partners_where(&join, &chunk, |_| Ok(()))?;
                    if let Kind::Mark(slot) = kind {
                        let marks = has.iter().map(|has| u32::from(*has)).collect();
                        chunk.put(*slot, Selection::List(marks));
                    } else {
                        let mask: Vec<u8> =
                            has.iter().map(|has| u8::from(*has == (*kind == Kind::Semi))).collect();
                        chunk = kept(chunk, &mask);
                    }
                }
                Action::Join { kind, keys, built, .. } => {
                    if self.join(place, *kind, keys, built, &mut chunk, sink)? {
                        return Ok(());
                    }
                }
            }
            self.stopwatch.count(chunk.rows);
            place += 1;
        }
        if chunk.rows == 0 {
            return Ok(());
        }
        self.stopwatch.enter_last();
        self.stopwatch.count(chunk.rows);
        sink(&chunk)
    }

    fn values<'c>(&'c self, chunk: &'c Chunk) -> Values<'c> {
        Values::new(&self.execution.columns, &self.numbers, chunk)
    }

    /// Gives a function the rows of a chunk with each partner for which all conditions hold, and tells
    /// which rows have one.
    fn partners_where(
        &self,
        join: &Conditional<'_>,
        chunk: &Chunk,
        mut function: impl FnMut(Chunk) -> Stopped<()>,
    ) -> Stopped<Vec<bool>> {
        let mut has = vec![false; chunk.rows];
        let mut see = |places: &[u32], partners: &[u32]| -> Stopped<()> {
            self.execution.check()?;
            let mut both = chunk.at(places);
            join.built.put(&mut both, partners);
            let mut mask = vec![1; both.rows];
            let mut values = self.values(&both);
            for condition in join.conditions {
                let truths = values.truths(condition)?;
                mask.iter_mut().zip(truths).for_each(|(mask, is_true)| *mask &= is_true);
            }
            drop(values);
            for (place, is_true) in places.iter().zip(&mask) {
                has[*place as usize] |= *is_true != 0;
            }
            function(kept(both, &mask))
        };
        let mut values = self.values(chunk);
        let keys = join.keys.iter().map(|key| values.get(key)).collect::<Stopped<Vec<_>>>()?;
        match &join.built.lookup {
            Lookup::Hash(table) if !table.is_unique() => {
                let columns: Vec<_> = keys.iter().map(|key| key.column()).collect();
                let mut probe = table.probe(&columns)?;
                let mut pairs = Pairs::default();
                loop {
                    let more = probe.next_pairs(false, CHUNK_ROWS, &mut pairs);
                    see(&pairs.places, &pairs.partners)?;
                    if !more {
                        break;
                    }
                }
            }
            _ => {
                let (places, partners) = join.built.pairs(&keys, chunk.rows)?;
                see(&places, &partners)?;
            }
        }
        Ok(has)
    }

    /// Passes on the rows of a chunk with each partner for which all conditions hold, and once without a
    /// partner where there is none.
    fn join_left_where(
        &self,
        place: usize,
        join: &Conditional<'_>,
        chunk: &Chunk,
        sink: &mut dyn FnMut(&Chunk) -> Stopped<()>,
    ) -> Stopped<()> {
        let mut pass = |part: Chunk| {
            self.stopwatch.count(part.rows);
            self.advance(place + 1, part, sink)?;
            self.stopwatch.enter(1 + place);
            Ok(())
        };
        let has = self.partners_where(join, chunk, &mut pass)?;
        let alone: Vec<u32> = (0..).zip(&has).filter(|(_, has)| !**has).map(|(place, _)| place).collect();
        let mut rest = chunk.at(&alone);
        join.built.put(&mut rest, &vec![NO_POSITION; alone.len()]);
        pass(rest)
    }

    /// Joins a chunk, and tells whether its rows have been passed on, because they may have become
    /// more.
    fn join(
        &self,
        place: usize,
        kind: Kind,
        keys: &[Evaluator],
        built: &Built,
        chunk: &mut Chunk,
        sink: &mut dyn FnMut(&Chunk) -> Stopped<()>,
    ) -> Stopped<bool> {
        let joined = {
            let mut values = self.values(chunk);
            let keys = keys.iter().map(|key| values.get(key)).collect::<Stopped<Vec<_>>>()?;
            if let (Lookup::Hash(table), Kind::Inner | Kind::Left) = (&built.lookup, kind)
                && !table.is_unique()
            {
                let columns: Vec<_> = keys.iter().map(|key| key.column()).collect();
                let mut probe = table.probe(&columns)?;
                let mut pairs = Pairs::default();
                loop {
                    let more = probe.next_pairs(kind == Kind::Left, CHUNK_ROWS, &mut pairs);
                    if !pairs.places.is_empty() {
                        self.execution.check()?;
                        let mut part = chunk.at(&pairs.places);
                        built.put(&mut part, &pairs.partners);
                        self.stopwatch.count(part.rows);
                        self.advance(place + 1, part, sink)?;
                        self.stopwatch.enter(1 + place);
                    }
                    if !more {
                        return Ok(true);
                    }
                }
            }
            match kind {
                Kind::Left => {
                    let partners = built.partners(&keys, chunk.rows)?;
                    built.put(chunk, &partners);
                    return Ok(false);
                }
                Kind::Inner => {
                    let (places, partners) = built.pairs(&keys, chunk.rows)?;
                    if places.len() == chunk.rows {
                        built.put(chunk, &partners);
                        return Ok(false);
                    }
                    let mut part = chunk.at(&places);
                    built.put(&mut part, &partners);
                    part
                }
                Kind::Mark(slot) => {
                    let (places, _) = built.pairs(&keys, chunk.rows)?;
                    let marks = marks(&places, chunk.rows);
                    chunk.put(slot, marks);
                    return Ok(false);
                }
                Kind::Semi | Kind::Anti => {
                    let found = match kind {
                        Kind::Semi => built.pairs(&keys, chunk.rows)?.0,
                        _ => places(&built.partners(&keys, chunk.rows)?, false),
                    };
                    if found.len() == chunk.rows {
                        return Ok(false);
                    }
                    chunk.at(&found)
                }
            }
        };
        *chunk = joined;
        Ok(false)
    }
}

/// Returns the positions of the truth values of rows, which are TRUE at some places.
fn marks(places: &[u32], rows: usize) -> Selection {
    let mut marks = vec![0; rows];
    places.iter().for_each(|place| marks[*place as usize] = 1);
    Selection::List(marks)
}

/// Returns the places of rows that have a partner, or of those that have none.
pub(super) fn places(partners: &[u32], with: bool) -> Vec<u32> {
    // Each row writes its place, and one that is left out lets the next row overwrite it.
    let mut places = vec![0; partners.len() + 1];
    let mut next = 0;
    for (place, partner) in partners.iter().enumerate() {
        places[next] = place as u32;
        next += usize::from((*partner != NO_POSITION) == with);
    }
    places.truncate(next);
    places
}

fn kept(chunk: Chunk, mask: &[u8]) -> Chunk {
    match selection::select(mask, Rows::Range(0, chunk.rows as u32)) {
        Selection::Range(0, end) if end as usize == chunk.rows => chunk,
        Selection::Range(start, end) => chunk.part(start as usize, end as usize),
        Selection::List(places) => chunk.at(&places),
    }
}
