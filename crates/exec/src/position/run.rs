//! Runs flows: workers take morsels of a table's rows and pass them through the steps.

use super::build::{Built, Lookup};
use super::chunk::Chunk;
use super::condition;
use super::evaluate::{Columns, Evaluator, Values};
use super::flow::{Expression, Flow, Join, Kind, Mark, Source, Step, Universe};
use super::mark;
use super::number::Numbers;
use super::pipeline;
use super::restrict::Restricted;
use super::stop::{Stop, Stopped, storage};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use hypostyle_error::external;
use hypostyle_expr::meter::Meter;
use hypostyle_position::condition::{Condition, Filter};
use hypostyle_position::join::Pairs;
use hypostyle_position::selection;
use hypostyle_position::{Bits, NO_POSITION, Rows, Selection};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The rows that a worker takes at a time.
const MORSEL_ROWS: u64 = 1 << 16;

/// The rows of which values are computed together: what they need stays in the cache.
const CHUNK_ROWS: usize = 1 << 13;

/// Groups are wanted by their keys if these are at most one of so many of the aggregate's rows.
const WANTED_SHARE: u64 = 8;

/// The partners of each key, on average, above which rows are left to operators.
const PARTNERS_MAX: usize = 64;

/// What all flows of a pipeline share while it runs.
pub(super) struct Execution {
    pub columns: Columns,
    pub context: Arc<TaskContext>,
    pub threads: usize,
    /// The operators whose rows are collected.
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// How many rows of an input have been collected, and what holds their memory.
    collected: Vec<OnceLock<(usize, MemoryReservation)>>,
    pub meter: Option<Arc<Meter>>,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Execution({} threads)", self.threads)
    }
}

impl Execution {
    /// Opens the columns that flows and expressions read, of inputs that have been collected.
    pub fn new(
        universe: &Arc<Universe>,
        flow: &Flow,
        outputs: &[Expression],
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        context: &Arc<TaskContext>,
    ) -> Stopped<Self> {
        let mut needed = vec![false; universe.columns.len()];
        let mut need = |expression: &Expression| {
            for column in datafusion::physical_expr::utils::collect_columns(expression) {
                if let Some(needed) = needed.get_mut(column.index()) {
                    *needed = true;
                }
            }
        };
        outputs.iter().for_each(&mut need);
        visit(flow, &mut need);
        Ok(Self {
            columns: Columns::open(universe, needed)?,
            context: context.clone(),
            threads: context.session_config().target_partitions(),
            collected: inputs.iter().map(|_| OnceLock::new()).collect(),
            inputs,
            meter: context.session_config().get_extension::<Meter>(),
        })
    }

    /// Collects the rows of a slot that is an input, unless that is done.
    async fn collect_input(&self, slot: usize) -> Stopped<()> {
        let Some(Source::Input { input, schema }) = self.universe().sources.get(slot) else { return Ok(()) };
        let (Some(plan), Some(collected)) = (self.inputs.get(*input), self.collected.get(*input)) else {
            return Err(Stop::Unfit("an input is missing".into()));
        };
        if collected.get().is_none() {
            let (batches, reservation) = pipeline::collect(plan, &self.context).await?;
            self.columns.open_rows(slot, schema, &batches)?;
            let rows = batches.iter().map(RecordBatch::num_rows).sum();
            collected.get_or_init(|| (rows, reservation));
        }
        Ok(())
    }

    pub fn pool(&self) -> Arc<dyn MemoryPool> {
        self.context.memory_pool().clone()
    }

    pub fn reservation(&self, name: &str) -> MemoryReservation {
        MemoryConsumer::new(name).register(&self.pool())
    }

    pub fn universe(&self) -> &Universe {
        &self.columns.universe
    }

    pub fn check(&self) -> Stopped<()> {
        match &self.meter {
            Some(meter) => meter.check().map_err(|error| Stop::Error(external(error))),
            None => Ok(()),
        }
    }
}

fn visit(flow: &Flow, need: &mut impl FnMut(&Expression)) {
    for step in &flow.steps {
        match step {
            Step::Filter(condition) => need(condition),
            Step::Join(join) => {
                for (probe, build) in &join.keys {
                    need(probe);
                    need(build);
                }
                visit(&join.build, need);
            }
        }
    }
    for mark in &flow.marks {
        for (own, other) in &mark.keys {
            need(own);
            need(other);
        }
        mark.conditions.iter().for_each(&mut *need);
        visit(&mark.other, need);
    }
}

/// What takes the rows that have passed a flow.
pub(super) trait Sink: Send + 'static {
    fn push(&mut self, execution: &Execution, chunk: &Chunk) -> Stopped<()>;

    /// Returns the bytes that it holds.
    fn bytes(&self) -> usize;
}

/// A flow whose other sides have been collected.
#[derive(Debug)]
pub(super) struct ReadyFlow {
    slot: usize,
    /// Rows that have been collected, by their positions in several tables; `None` where they are
    /// the table's own.
    rows: Option<Lists>,
    /// The rows of the table, or of the lists, in pieces for the workers.
    morsels: Vec<Range<u32>>,
    /// Rows that are not deleted; `None` where none is.
    live: Option<Bits>,
    /// The first condition, over columns of the table.
    condition: Option<(Condition, Vec<ArrayRef>)>,
    steps: Vec<ReadyStep>,
    links: Vec<Link>,
}

/// A join that has found at most one row for each key.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The keys of both sides.
    pub keys: Vec<(Expression, Expression)>,
    /// The slots whose positions depend on the key.
    pub slots: Vec<usize>,
}

/// Positions of rows in several tables, by slot.
#[derive(Debug)]
pub(super) struct Lists {
    pub lists: Vec<(usize, Vec<u32>)>,
    pub rows: usize,
    /// Holds their memory.
    pub reservation: MemoryReservation,
}

impl Lists {
    /// Returns the rows as one chunk.
    pub fn chunk(&self, slots: usize) -> Chunk {
        let mut chunk = Chunk::new(slots, usize::MAX, Selection::Range(0, self.rows as u32));
        for (slot, list) in &self.lists {
            chunk.put(*slot, Selection::List(list.clone()));
        }
        chunk
    }

    /// Returns the rows in pieces for workers.
    fn morsels(&self) -> Vec<Range<u32>> {
        let starts = (0..self.rows as u64).step_by(MORSEL_ROWS as usize);
        let end = |start: u64| (start + MORSEL_ROWS).min(self.rows as u64) as u32;
        starts.map(|start| start as u32..end(start)).collect()
    }

    /// Keeps the rows at some places.
    pub fn keep(&mut self, places: &[u32]) {
        for (_, list) in &mut self.lists {
            *list = places.iter().map(|place| list[*place as usize]).collect();
        }
        self.rows = places.len();
    }
}

/// The keys that a join asks an aggregate for, and the expressions that give them there.
pub(super) struct Wanted {
    pub keys: Vec<Expression>,
    pub built: Arc<Built>,
}

/// Returns the steps that come before joins with aggregates that are told which groups are wanted,
/// and these joins with what depends on them.
fn split<'a>(universe: &Universe, flow: &'a Flow) -> (Vec<&'a Step>, Vec<&'a Step>) {
    let mut late: Vec<usize> = Vec::new();
    let is_restricted = |step: &Step| matches!(step, Step::Join(Join { restricted: Some(_), .. }));
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for step in &flow.steps {
        if is_restricted(step) || step.needs(universe).iter().any(|slot| late.contains(slot)) {
            late.extend(step.row_slots());
            last.push(step);
        } else {
            first.push(step);
        }
    }
    (first, last)
}

/// Tells an aggregate which groups are wanted, if these are few beside its rows.
pub(super) fn restrict(
    execution: &Arc<Execution>,
    keys: &[(Expression, Expression)],
    restricted: &Restricted,
    lists: &Lists,
) -> Stopped<()> {
    let Restricted { restriction, places } = restricted;
    restriction.set(None);
    if lists.rows as u64 * WANTED_SHARE > restriction.rows {
        return Ok(());
    }
    let wanted: Vec<&Expression> = places.iter().map(|place| &keys[*place].0).collect();
    let reservation = execution.reservation("PosJoinExec");
    let copy = Lists { lists: lists.lists.clone(), rows: lists.rows, reservation };
    pipeline::hold(&copy.reservation, lists.rows * 4 * lists.lists.len())?;
    let built = Built::of_rows(execution, wanted.into_iter(), copy, true)?;
    restriction.set(Some(Arc::new(built)));
    Ok(())
}

#[derive(Debug)]
pub(super) enum ReadyStep {
    Filter(Evaluator),
    Condition { slot: usize, condition: Condition, columns: Vec<ArrayRef> },
    Join { kind: Kind, keys: Vec<Evaluator>, built: Arc<Built> },
}

impl ReadyFlow {
    /// Collects the other sides of a flow's joins, and puts its steps into an order: what refuses
    /// most rows comes first.
    pub fn make<'a>(
        execution: &'a Arc<Execution>,
        flow: &'a Flow,
        wanted: Option<Wanted>,
    ) -> BoxFuture<'a, Stopped<Self>> {
        Box::pin(async move {
            execution.collect_input(flow.slot).await?;
            // Joins with aggregates that are told which groups are wanted come last.
            let (first, last): (Vec<&Step>, Vec<&Step>) = split(execution.universe(), flow);
            let mut ready = Self::of_steps(execution, flow, &first, None, wanted).await?;
            if !last.is_empty() {
                let mut slots = vec![flow.slot];
                slots.extend(first.iter().flat_map(|step| step.row_slots()));
                let before = Arc::new(ready);
                let lists = collect(execution, &before, &slots).await?;
                for step in &last {
                    if let Step::Join(Join { keys, restricted: Some(restricted), .. }) = step {
                        restrict(execution, keys, restricted, &lists)?;
                    }
                }
                let links = before.links.clone();
                ready = Self::of_steps(execution, flow, &last, Some(lists), None).await?;
                ready.links.extend(links);
            }
            match flow.marks.as_slice() {
                [] => Ok(ready),
                marks => ready.marked(execution, flow, marks).await,
            }
        })
    }

    /// Makes some of a flow's steps ready, for the rows of its table or rows that are collected.
    fn of_steps<'a>(
        execution: &'a Arc<Execution>,
        flow: &'a Flow,
        steps: &'a [&'a Step],
        rows: Option<Lists>,
        wanted: Option<Wanted>,
    ) -> BoxFuture<'a, Stopped<Self>> {
        Box::pin(async move {
            let mut waiting = Vec::new();
            let mut links = Vec::new();
            let mut own = Vec::new();
            if let Some(Wanted { keys, built }) = wanted
                && let Some(evaluators) = built.fitting(&keys, execution.universe())?
            {
                let mut needs: Vec<usize> =
                    keys.iter().flat_map(|key| execution.universe().slots_of(key)).collect();
                needs.dedup();
                waiting.push((needs, 0.5, ReadyStep::Join { kind: Kind::Semi, keys: evaluators, built }));
            }
            for step in steps {
                match step {
                    Step::Filter(condition) => {
                        let slots = execution.universe().slots_of(condition);
                        let is_kernels = slots.len() == 1 && !execution.universe().outer.contains(&slots[0]);
                        let mut places = condition::Places::default();
                        let found = match is_kernels {
                            true => condition::of_expression(condition, &execution.columns, &mut places)?,
                            false => None,
                        };
                        match found {
                            Some(_) if slots[0] == flow.slot && rows.is_none() => own.push(condition.clone()),
                            Some(found) => waiting.push((
                                step.needs(execution.universe()),
                                0.0,
                                ReadyStep::Condition {
                                    slot: slots[0],
                                    condition: found,
                                    columns: arrays(execution, &places.numbers, true)?,
                                },
                            )),
                            None => waiting.push((
                                step.needs(execution.universe()),
                                0.0,
                                ReadyStep::Filter(Evaluator::seen(condition, execution.universe())?),
                            )),
                        }
                    }
                    Step::Join(join) => {
                        let built = Arc::new(Built::make(execution, join).await?);
                        let keys =
                            built.keys(join.keys.iter().map(|(probe, _)| probe), execution.universe())?;
                        let order = match join.kind {
                            Kind::Inner if !built.is_unique() => 2.0,
                            Kind::Left => 3.0,
                            Kind::Anti => 1.0,
                            _ => built.share,
                        };
                        let step_needs = step.needs(execution.universe());
                        if matches!(join.kind, Kind::Inner | Kind::Left) {
                            links.extend(built.links.iter().cloned());
                        }
                        if built.is_unique() && matches!(join.kind, Kind::Inner | Kind::Left) {
                            let slots = built.slots.iter().map(|(slot, _)| *slot).collect();
                            links.push(Link { keys: join.keys.clone(), slots });
                        }
                        let ready = ReadyStep::Join { kind: join.kind, keys, built };
                        waiting.push((step_needs, order, ready));
                    }
                }
            }
            let mut known = vec![flow.slot];
            if let Some(rows) = &rows {
                known.extend(rows.lists.iter().map(|(slot, _)| *slot));
            }
            let mut steps = Vec::with_capacity(waiting.len());
            while !waiting.is_empty() {
                let next = waiting
                    .iter()
                    .enumerate()
                    .filter(|(_, (needs, _, _))| needs.iter().all(|slot| known.contains(slot)))
                    .min_by(|(_, (_, one, _)), (_, (_, other, _))| one.total_cmp(other))
                    .map(|(place, _)| place);
                let Some(next) = next else {
                    return Err(Stop::Unfit("a step's columns are not there".into()));
                };
                let (_, _, step) = waiting.remove(next);
                if let ReadyStep::Join { kind: Kind::Inner | Kind::Left, built, .. } = &step {
                    known.extend(built.slots.iter().map(|(slot, _)| *slot));
                }
                steps.push(step);
            }
            let mut places = condition::Places::default();
            let mut conditions = Vec::new();
            for condition in &own {
                conditions.extend(condition::of_expression(condition, &execution.columns, &mut places)?);
            }
            let condition = match conditions.is_empty() {
                true => None,
                false => Some((Condition::All(conditions), arrays(execution, &places.numbers, false)?)),
            };
            let (morsels, live) = match &rows {
                Some(rows) => (rows.morsels(), None),
                None => rows_of(execution, flow.slot)?,
            };
            Ok(Self { slot: flow.slot, rows, morsels, live, condition, steps, links })
        })
    }

    /// Collects the rows, and leaves those that the other sides of semi and anti joins leave.
    async fn marked(self, execution: &Arc<Execution>, flow: &Flow, marks: &[Mark]) -> Stopped<Self> {
        let ready = Arc::new(self);
        let mut lists = collect(execution, &ready, &flow.row_slots()).await?;
        for mark in marks {
            if lists.rows > 0 {
                let places = mark::remaining(execution, mark, &lists).await?;
                lists.keep(&places);
            }
        }
        let morsels = lists.morsels();
        let links = Arc::into_inner(ready).map(|ready| ready.links).unwrap_or_default();
        Ok(Self {
            slot: flow.slot,
            rows: Some(lists),
            morsels,
            live: None,
            condition: None,
            steps: Vec::new(),
            links,
        })
    }

    /// Returns the rows in pieces for workers.
    pub fn morsels(&self) -> &[Range<u32>] {
        &self.morsels
    }

    /// Tells whether a row may have very many partners.
    pub fn is_expanding(&self) -> bool {
        self.steps.iter().any(|step| match step {
            ReadyStep::Join { kind: Kind::Inner | Kind::Left, built, .. } => {
                built.partners_mean() > PARTNERS_MAX
            }
            _ => false,
        })
    }

    /// Returns the joins that have found at most one row for each key.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Tells whether all rows of the table pass.
    pub fn passes_all(&self) -> bool {
        self.rows.is_none() && self.condition.is_none() && self.steps.is_empty()
    }
}

/// Returns the arrays of columns, all of whose rows are verified unless they are verified as they
/// are read.
fn arrays(execution: &Execution, numbers: &[usize], verify: bool) -> Stopped<Vec<ArrayRef>> {
    numbers
        .iter()
        .map(|number| {
            let column = execution.columns.get(*number)?;
            if verify {
                column.verify_all()?;
            }
            Ok(column.stored.clone())
        })
        .collect()
}

/// Returns the rows of a slot in morsels, and which of them are not deleted.
fn rows_of(execution: &Execution, slot: usize) -> Stopped<(Vec<Range<u32>>, Option<Bits>)> {
    let mut morsels = Vec::new();
    let mut cut = |range: Range<u64>| -> Stopped<()> {
        let mut start = range.start;
        while start < range.end {
            // Blocks of morsels begin at multiples, so that no two workers verify one.
            let end = ((start / MORSEL_ROWS + 1) * MORSEL_ROWS).min(range.end);
            let position = |row: u64| u32::try_from(row).map_err(|_| Stop::Unfit("too many rows".into()));
            morsels.push(position(start)?..position(end)?);
            start = end;
        }
        Ok(())
    };
    match execution.universe().sources.get(slot) {
        Some(Source::Table(source)) => {
            for range in &source.ranges {
                cut(range.clone())?;
            }
            let deleted = source.table.deleted();
            if deleted.is_empty() {
                return Ok((morsels, None));
            }
            let rows = source.table.positions() as usize;
            let mut gone = Bits::new(rows);
            let positions: Vec<u32> = deleted.iter().filter_map(|row| u32::try_from(row).ok()).collect();
            gone.set(Rows::List(&positions))?;
            gone.not();
            Ok((morsels, Some(gone)))
        }
        Some(Source::Input { input, .. }) => {
            let rows = execution.collected[*input].get().map_or(0, |(rows, _)| *rows);
            if rows >= NO_POSITION as usize {
                return Err(Stop::Unfit("too many rows".into()));
            }
            cut(0..rows as u64)?;
            Ok((morsels, None))
        }
        None => Err(Stop::Unfit("a table is missing".into())),
    }
}

/// Passes all rows of a flow through it, and returns what each worker has made of them.
pub(super) async fn run<S: Sink>(
    execution: &Arc<Execution>,
    flow: &Arc<ReadyFlow>,
    name: &str,
    make: impl Fn() -> Stopped<S>,
) -> Stopped<Vec<S>> {
    let cursor = Arc::new(AtomicUsize::new(0));
    let workers = execution.threads.min(flow.morsels.len()).max(1);
    if workers == 1 {
        let reservation = execution.reservation(name);
        return Ok(vec![work(execution.clone(), flow.clone(), cursor, make()?, reservation).await?]);
    }
    let mut tasks = Vec::with_capacity(workers);
    for _ in 0..workers {
        let worker =
            work(execution.clone(), flow.clone(), cursor.clone(), make()?, execution.reservation(name));
        tasks.push(SpawnedTask::spawn(worker));
    }
    let mut sinks = Vec::with_capacity(workers);
    for task in tasks {
        let joined = task.join_unwind().await;
        sinks.push(joined.map_err(|error| {
            Stop::Error(datafusion::error::DataFusionError::ExecutionJoin(Box::new(error)))
        })??);
    }
    Ok(sinks)
}

/// Collects positions.
struct Collect(Vec<(usize, Vec<u32>)>);

impl Sink for Collect {
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
    pipeline::hold(&reservation, rows * 4 * lists.len())?;
    Ok(Lists { lists, rows, reservation })
}

async fn work<S: Sink>(
    execution: Arc<Execution>,
    flow: Arc<ReadyFlow>,
    cursor: Arc<AtomicUsize>,
    mut sink: S,
    reservation: MemoryReservation,
) -> Stopped<S> {
    let worker = Worker::new(&execution, &flow)?;
    while let Some(morsel) = flow.morsels.get(cursor.fetch_add(1, Ordering::Relaxed)) {
        execution.check()?;
        worker.morsel(morsel.clone(), &mut |chunk| {
            execution.check()?;
            sink.push(&execution, chunk)?;
            pipeline::hold(&reservation, sink.bytes())
        })?;
        tokio::task::yield_now().await;
    }
    drop(worker);
    Ok(sink)
}

/// The steps of a flow as one worker uses them.
pub(super) struct Worker<'a> {
    execution: &'a Execution,
    flow: &'a ReadyFlow,
    filter: Option<Filter<'a>>,
    /// The conditions of steps, by their places.
    filters: Vec<Option<Filter<'a>>>,
    numbers: Numbers,
}

impl<'a> Worker<'a> {
    pub fn new(execution: &'a Execution, flow: &'a ReadyFlow) -> Stopped<Self> {
        let filter = match &flow.condition {
            Some((condition, columns)) => Some(Filter::new(condition, columns)?),
            None => None,
        };
        let filters = flow
            .steps
            .iter()
            .map(|step| match step {
                ReadyStep::Condition { condition, columns, .. } => Ok(Some(Filter::new(condition, columns)?)),
                _ => Ok(None),
            })
            .collect::<Stopped<_>>()?;
        Ok(Self { execution, flow, filter, filters, numbers: Numbers::default() })
    }

    /// Passes the rows of a morsel through the steps.
    pub fn morsel(&self, morsel: Range<u32>, sink: &mut dyn FnMut(&Chunk) -> Stopped<()>) -> Stopped<()> {
        let slots = self.execution.universe().sources.len();
        if let Some(lists) = &self.flow.rows {
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
        if let Some(live) = &self.flow.live {
            selection = live.select(selection.rows());
        }
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
            match step {
                ReadyStep::Condition { slot, .. } => {
                    let mut mask = vec![1; chunk.rows];
                    if let Some(Some(filter)) = self.filters.get(place) {
                        filter.mask(chunk.positions(*slot), &mut mask)?;
                    }
                    chunk = kept(chunk, &mask);
                }
                ReadyStep::Filter(evaluator) => {
                    let verdicts = self.values(&chunk).get(evaluator)?.array()?;
                    let Some(verdicts) = verdicts.as_boolean_opt() else {
                        return Err(Stop::Unfit("a condition is not BOOLEAN".into()));
                    };
                    let passes = |row: usize| u8::from(verdicts.is_valid(row) && verdicts.value(row));
                    let mask: Vec<u8> = (0..verdicts.len()).map(passes).collect();
                    chunk = kept(chunk, &mask);
                }
                ReadyStep::Join { kind, keys, built } => {
                    if self.join(place, *kind, keys, built, &mut chunk, sink)? {
                        return Ok(());
                    }
                }
            }
            place += 1;
        }
        match chunk.rows {
            0 => Ok(()),
            _ => sink(&chunk),
        }
    }

    fn values<'c>(&'c self, chunk: &'c Chunk) -> Values<'c> {
        Values::new(&self.execution.columns, &self.numbers, chunk)
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
                        self.advance(place + 1, part, sink)?;
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
                Kind::Semi => {
                    let (places, _) = built.pairs(&keys, chunk.rows)?;
                    if places.len() == chunk.rows {
                        return Ok(false);
                    }
                    chunk.at(&places)
                }
                Kind::Anti => {
                    let places = places(&built.partners(&keys, chunk.rows)?, false);
                    if places.len() == chunk.rows {
                        return Ok(false);
                    }
                    chunk.at(&places)
                }
            }
        };
        *chunk = joined;
        Ok(false)
    }
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

/// Passes on an error of stored data: kept here for what reads indexes.
pub(super) fn stored<T>(result: hypostyle_types::Result<T>) -> Stopped<T> {
    result.map_err(storage)
}
