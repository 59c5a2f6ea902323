//! Flows that are ready to run: the other sides of their joins are collected, and their steps are in
//! order.

use super::build::{Built, large_side};
use super::chunk::Chunk;
use super::condition;
use super::evaluate::{Columns, Evaluator};
use super::execution::Execution;
use super::flow::{Expression, Flow, Join, Kind, Mark, Restricted, Source, Step, Universe};
use super::held;
use super::imprint::Imprints;
use super::index::{self, Compared, Found};
use super::mark;
use super::measure::{Name, Steps};
use super::run::{collect, estimate};
use super::stop::{Stop, Stopped};
use arrow::array::ArrayRef;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::BoxFuture;
use hypostyle_position::condition::Condition;
use hypostyle_position::{Bits, NO_POSITION, Rows, Selection};
use std::ops::Range;
use std::sync::Arc;

/// A joined table's rows are met often if a flow has so many rows for each.
const MEETINGS: u64 = 2;

/// The rows that a worker takes at a time.
const MORSEL_ROWS: u64 = 1 << 16;

/// Groups are wanted by their keys if these are at most one of so many of the aggregate's rows.
const WANTED_SHARE: u64 = 8;

/// Rows are few beside a large side of a join if they are at most one of so many of its.
const FEW_SHARE: u64 = 8;

/// What EXPLAIN ANALYZE calls rows that are no longer a table's.
const COLLECTED: Name = Name::Fixed("collected rows");

/// The partners of each key, on average, above which rows are left to operators.
const PARTNERS_MAX: usize = 64;

/// A flow whose other sides have been collected.
#[derive(Debug)]
pub(super) struct ReadyFlow {
    /// What EXPLAIN ANALYZE calls the reading of its rows.
    name: Name,
    pub slot: usize,
    /// Rows that have been collected, by their positions in several tables; `None` where they are
    /// the table's own.
    pub rows: Option<Lists>,
    /// The rows of the table, or of the lists, in pieces for the workers.
    pub morsels: Vec<Range<u32>>,
    /// Rows that are not deleted; `None` where none is.
    pub live: Option<Bits>,
    /// The first condition, over columns of the table.
    pub condition: Option<Decided>,
    /// The imprints that the condition lacks.
    pub imprints: Imprints,
    pub steps: Vec<ReadyStep>,
    pub links: Vec<Link>,
}

/// A condition, and the columns that it is about.
type Decided = (Condition, Vec<ArrayRef>);

/// A join that has found at most one row for each key.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The keys of the probed and of the collected side.
    pub keys: Vec<(Expression, Expression)>,
    /// Says whether rows of the probed side stay where nothing is found: they have no key of the
    /// other side.
    pub is_left: bool,
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

/// A join and its other side.
pub(super) type Side<'a> = (&'a Join, Arc<Built>);

/// The keys that a join asks for, and the expressions that give them in the rows that are asked.
#[derive(Clone)]
pub(super) struct Wanted {
    pub keys: Vec<Expression>,
    pub built: Arc<Built>,
}

impl Wanted {
    /// Asks the side of a join for the keys of some rows.
    pub fn of_rows(
        execution: &Arc<Execution>,
        keys: &[(Expression, Expression)],
        lists: &Lists,
    ) -> Stopped<Self> {
        let built = asked(execution, keys.iter().map(|(probe, _)| probe), lists)?;
        Ok(Self { keys: keys.iter().map(|(_, build)| build.clone()).collect(), built: Arc::new(built) })
    }

    /// Returns the step that only rows with such keys pass; `None` where the keys are of other types.
    fn step(self, universe: &Universe) -> Stopped<Option<Waiting>> {
        let Self { keys, built } = self;
        let Some(evaluators) = built.fitting(&keys, universe)? else { return Ok(None) };
        let needs = keys.iter().flat_map(|key| universe.slots_of(key)).collect();
        let (kind, conditions) = (Kind::Semi, Vec::new());
        let action = Action::Join { kind, keys: evaluators, built, conditions };
        let step = ReadyStep { name: Name::Fixed("wanted keys"), action };
        Ok(Some(Waiting { needs, order: 0.5, step }))
    }
}

/// Returns the steps that come before some joins, and these joins with what depends on them.
fn split<'a>(
    universe: &Universe,
    steps: &[&'a Step],
    mut is_late: impl FnMut(&Step) -> Stopped<bool>,
) -> Stopped<(Vec<&'a Step>, Vec<&'a Step>)> {
    let mut late: Vec<usize> = Vec::new();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for step in steps {
        if step.needs(universe).iter().any(|slot| late.contains(slot)) || is_late(step)? {
            late.extend(step.row_slots());
            last.push(*step);
        } else {
            first.push(*step);
        }
    }
    Ok((first, last))
}

/// Collects the other sides of joins that are not among the known ones.
async fn sides_of<'a>(
    execution: &Arc<Execution>,
    steps: &[&'a Step],
    known: &[Side<'a>],
) -> Stopped<Vec<Side<'a>>> {
    let mut sides = Vec::new();
    for step in steps {
        let Step::Join(join) = step else { continue };
        let built = match known.iter().find(|(other, _)| std::ptr::eq(*other, join)) {
            Some((_, built)) => built.clone(),
            None => Built::of(execution, join).await?,
        };
        sides.push((join, built));
    }
    Ok(sides)
}

/// Collects the other sides of joins, of large ones only the rows that some rows are joined with.
async fn wanted_sides<'a>(
    execution: &Arc<Execution>,
    steps: &[&'a Step],
    lists: &Lists,
) -> Stopped<Vec<Side<'a>>> {
    let has_list = |slot: &usize| lists.lists.iter().any(|(known, _)| known == slot);
    let mut sides = Vec::new();
    for step in steps {
        let Step::Join(join) = step else { continue };
        let mut asking = join.keys.iter().flat_map(|(key, _)| execution.universe().slots_of(key));
        let built = match asking.all(|slot| has_list(&slot)) && large_side(execution, join)?.is_some() {
            true => Built::of_wanted(execution, join, Wanted::of_rows(execution, &join.keys, lists)?).await?,
            false => Built::of(execution, join).await?,
        };
        sides.push((join, built));
    }
    Ok(sides)
}

/// Tells an aggregate which groups are wanted, if these are few beside its rows.
pub(super) fn restrict(
    execution: &Arc<Execution>,
    keys: &[(Expression, Expression)],
    restricted: &Restricted,
    lists: &Lists,
) -> Stopped<()> {
    let Restricted { restriction, places } = restricted;
    if lists.rows as u64 * WANTED_SHARE > restriction.rows {
        return Ok(());
    }
    let built = asked(execution, places.iter().map(|place| &keys[*place].0), lists)?;
    execution.want(restriction, Arc::new(built));
    Ok(())
}

/// Returns the keys of some rows, to ask others for them.
fn asked<'a>(
    execution: &Arc<Execution>,
    keys: impl Iterator<Item = &'a Expression>,
    lists: &Lists,
) -> Stopped<Built> {
    let reservation = execution.reservation("PosJoinExec");
    let copy = Lists { lists: lists.lists.clone(), rows: lists.rows, reservation };
    held::hold(&copy.reservation, lists.rows * 4 * lists.lists.len())?;
    Built::of_keys(execution, &keys.collect::<Vec<_>>(), copy)
}

/// A step that is ready to run.
#[derive(Debug)]
pub(super) struct ReadyStep {
    pub name: Name,
    pub action: Action,
}

/// What a step does with rows.
#[derive(Debug)]
pub(super) enum Action {
    Filter(Evaluator),
    Condition { slot: usize, condition: Condition, columns: Vec<ArrayRef> },
    Join { kind: Kind, keys: Vec<Evaluator>, built: Arc<Built>, conditions: Vec<Evaluator> },
}

/// The conditions of a flow's own table, which are decided before anything else.
#[derive(Default)]
struct Own {
    conditions: Vec<Condition>,
    places: condition::Places,
    expressions: Vec<Expression>,
}

impl Own {
    /// Returns the conditions as one, with the columns that it is about, and their expressions.
    fn ready(self, execution: &Execution) -> Stopped<(Option<Decided>, Vec<Expression>)> {
        if self.conditions.is_empty() {
            return Ok((None, Vec::new()));
        }
        let columns = arrays(execution, &self.places.numbers, false)?;
        Ok((Some((Condition::All(self.conditions), columns)), self.expressions))
    }
}

/// The rows that a flow begins with.
enum Begin {
    /// Those of its table.
    Table,
    /// Those of its table that an index has found.
    Found(Found),
    /// Rows that are collected.
    Collected(Lists),
}

impl Begin {
    /// Has an index find the rows of a table, if they are few. Returns the conditions that others may
    /// use, too.
    fn with_indexes(
        self,
        execution: &Execution,
        flow: &Flow,
        steps: &[&Step],
        joins: &[(&Join, Arc<Built>)],
    ) -> Stopped<(Self, Vec<Compared>)> {
        if !matches!(self, Self::Table) {
            return Ok((self, Vec::new()));
        }
        let tests = index::comparisons(execution, flow, steps)?;
        let found = index::find(execution, flow, &tests, joins)?;
        Ok((found.map_or(self, Self::Found), tests))
    }
}

/// A step that has no place yet.
struct Waiting {
    /// The slots that rows must have before.
    needs: Vec<usize>,
    /// Steps with less come first.
    order: f64,
    step: ReadyStep,
}

/// Makes a condition ready; `None` where it became one of the table's own. The rows of a slot that an
/// index has found are verified.
fn ready_filter(
    execution: &Execution,
    expression: &Expression,
    own_slot: Option<usize>,
    found_slot: Option<usize>,
    own: &mut Own,
) -> Stopped<Option<Action>> {
    let universe = execution.universe();
    let slots = universe.slots_of(expression);
    if let [slot] = slots[..]
        && !universe.outer.contains(&slot)
    {
        if own_slot == Some(slot) {
            let found = condition::of_expression(expression, &execution.columns, &mut own.places)?;
            if let Some(condition) = found {
                own.conditions.push(condition);
                own.expressions.push(expression.clone());
                return Ok(None);
            }
        } else {
            let mut places = condition::Places::default();
            let found = condition::of_expression(expression, &execution.columns, &mut places)?;
            if let Some(condition) = found {
                let columns = arrays(execution, &places.numbers, found_slot != Some(slot))?;
                return Ok(Some(Action::Condition { slot, condition, columns }));
            }
        }
    }
    Ok(Some(Action::Filter(Evaluator::seen(expression, universe)?)))
}

/// Makes a join ready whose other side is there.
fn ready_join(execution: &Execution, join: &Join, built: Arc<Built>, needs: Vec<usize>) -> Stopped<Waiting> {
    let universe = execution.universe();
    let order = match join.kind {
        Kind::Inner if !built.is_unique() => 2.0,
        Kind::Left => 3.0,
        Kind::Anti => 1.0,
        Kind::Mark(_) => 1.5,
        Kind::Inner | Kind::Semi => built.share,
    };
    let keys = built.keys(join.keys.iter().map(|(probe, _)| probe), universe)?;
    let conditions = join.conditions.iter().map(|condition| Evaluator::seen(condition, universe));
    let conditions = conditions.collect::<Stopped<_>>()?;
    let (table, by) = (universe.name(join.build.slot).to_string(), built.lookup_name());
    let name = Name::Join { kind: join.kind, table, by };
    let step = ReadyStep { name, action: Action::Join { kind: join.kind, keys, built, conditions } };
    Ok(Waiting { needs, order, step })
}

/// Returns what a join tells of the keys that depend on others.
fn links_of(join: &Join, built: &Built) -> Vec<Link> {
    // A row without a partner that fulfils all conditions has none.
    if !join.conditions.is_empty() {
        return Vec::new();
    }
    // What keys within the other side tell of each other does not hold for rows without a partner.
    let mut links = match join.kind {
        Kind::Inner => built.links.clone(),
        Kind::Left => Vec::new(),
        Kind::Semi | Kind::Anti | Kind::Mark(_) => return Vec::new(),
    };
    if built.is_unique() {
        let slots = built.slots.iter().map(|(slot, _)| *slot).collect();
        links.push(Link { keys: join.keys.clone(), is_left: join.kind == Kind::Left, slots });
    }
    links
}

/// Puts steps into an order in which each has the slots that it needs.
fn in_order(mut waiting: Vec<Waiting>, mut known: Vec<usize>) -> Stopped<Vec<ReadyStep>> {
    let mut steps = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let next = waiting
            .iter()
            .enumerate()
            .filter(|(_, step)| step.needs.iter().all(|slot| known.contains(slot)))
            .min_by(|(_, one), (_, other)| one.order.total_cmp(&other.order))
            .map(|(place, _)| place);
        let Some(next) = next else {
            return Err(Stop::Unfit("a step's columns are not there".into()));
        };
        let Waiting { step, .. } = waiting.remove(next);
        match &step.action {
            Action::Join { kind: Kind::Inner | Kind::Left, built, .. } => {
                known.extend(built.slots.iter().map(|(slot, _)| *slot));
            }
            Action::Join { kind: Kind::Mark(slot), .. } => known.push(*slot),
            _ => {}
        }
        steps.push(step);
    }
    Ok(steps)
}

impl ReadyFlow {
    /// Collects the other sides of a flow's joins, and puts its steps into an order: what refuses
    /// most rows comes first.
    pub fn make<'a>(
        execution: &'a Arc<Execution>,
        flow: &'a Flow,
        wanted: Option<Wanted>,
    ) -> BoxFuture<'a, Stopped<Self>> {
        Self::make_of(execution, flow, None, wanted)
    }

    /// The same of the rows that an index has found.
    pub fn make_of<'a>(
        execution: &'a Arc<Execution>,
        flow: &'a Flow,
        found: Option<Found>,
        wanted: Option<Wanted>,
    ) -> BoxFuture<'a, Stopped<Self>> {
        Box::pin(async move {
            execution.collect_input(flow.slot).await?;
            let universe = execution.universe();
            let all: Vec<&Step> = flow.steps.iter().collect();
            // Joins with aggregates that are told which groups are wanted come last.
            let is_restricted = |step: &Step| matches!(step, Step::Join(Join { restricted: Some(_), .. }));
            let (first, last) = split(universe, &all, |step| Ok(is_restricted(step)))?;
            let mut slots = vec![flow.slot];
            slots.extend(first.iter().flat_map(|step| step.row_slots()));
            let mut ready = Self::with_large_sides(execution, flow, first, found, wanted).await?;
            if !last.is_empty() {
                let before = Arc::new(ready);
                let lists = collect(execution, &before, &slots).await?;
                for step in &last {
                    if let Step::Join(Join { keys, restricted: Some(restricted), .. }) = step {
                        restrict(execution, keys, restricted, &lists)?;
                    }
                }
                let sides = sides_of(execution, &last, &[]).await?;
                let begin = Begin::Collected(lists);
                ready = Self::of_steps(execution, flow, &last, sides, begin, None)?;
                ready.links.extend(before.links.iter().cloned());
            }
            match flow.marks.as_slice() {
                [] => Ok(ready),
                marks => ready.marked(execution, flow, marks).await,
            }
        })
    }

    /// Makes steps ready of which some are joins with large sides. Where few rows pass the others, they are
    /// collected, and the sides are told whose keys are wanted.
    async fn with_large_sides<'a>(
        execution: &'a Arc<Execution>,
        flow: &'a Flow,
        steps: Vec<&'a Step>,
        found: Option<Found>,
        wanted: Option<Wanted>,
    ) -> Stopped<Self> {
        let universe = execution.universe();
        let mut largest = 0;
        let (small, late) = split(universe, &steps, |step| {
            let Step::Join(join) = step else { return Ok(false) };
            let rows = large_side(execution, join)?;
            largest = largest.max(rows.unwrap_or(0));
            Ok(rows.is_some())
        })?;
        if late.is_empty() || found.is_some() {
            let sides = sides_of(execution, &steps, &[]).await?;
            let begin = found.map_or(Begin::Table, Begin::Found);
            return Self::of_steps(execution, flow, &steps, sides, begin, wanted);
        }
        let known = sides_of(execution, &small, &[]).await?;
        let ready = Self::of_steps(execution, flow, &small, known.clone(), Begin::Table, wanted.clone())?;
        let ready = Arc::new(ready);
        if estimate(execution, &ready).await? > largest / FEW_SHARE {
            let sides = sides_of(execution, &steps, &known).await?;
            return Self::of_steps(execution, flow, &steps, sides, Begin::Table, wanted);
        }
        let mut slots = vec![flow.slot];
        slots.extend(small.iter().flat_map(|step| step.row_slots()));
        let lists = collect(execution, &ready, &slots).await?;
        let sides = wanted_sides(execution, &late, &lists).await?;
        let mut last = Self::of_steps(execution, flow, &late, sides, Begin::Collected(lists), None)?;
        last.links.extend(ready.links.iter().cloned());
        Ok(last)
    }

    /// Makes some of a flow's steps ready, for the rows of its table or rows that are there.
    fn of_steps(
        execution: &Arc<Execution>,
        flow: &Flow,
        steps: &[&Step],
        joins: Vec<Side<'_>>,
        begin: Begin,
        wanted: Option<Wanted>,
    ) -> Stopped<Self> {
        let universe = execution.universe();
        let links = joins.iter().flat_map(|(join, built)| links_of(join, built)).collect();
        let (begin, tests) = begin.with_indexes(execution, flow, steps, &joins)?;
        let (rows, found) = match begin {
            Begin::Table => (None, None),
            Begin::Collected(lists) => (Some(lists), None),
            Begin::Found(Found { lists, name, join }) => (Some(lists), Some((name, join))),
        };
        let mut waiting = Vec::new();
        let mut own = Own::default();
        waiting.extend(wanted.map(|wanted| wanted.step(universe)).transpose()?.flatten());
        let own_slot = rows.is_none().then_some(flow.slot);
        let found_slot = found.as_ref().map(|_| flow.slot);
        for step in steps {
            let Step::Filter(condition) = step else { continue };
            if let Some(action) = ready_filter(execution, condition, own_slot, found_slot, &mut own)? {
                let needs = step.needs(universe);
                let step = ReadyStep { name: Name::Where(condition.clone()), action };
                waiting.push(Waiting { needs, order: 0.0, step });
            }
        }
        let joined = found.as_ref().and_then(|(_, join)| *join);
        let needs = steps.iter().filter(|step| matches!(step, Step::Join(_)));
        let needs: Vec<Vec<usize>> = needs.map(|step| step.needs(universe)).collect();
        for (place, ((join, built), needs)) in joins.into_iter().zip(needs).enumerate() {
            if joined != Some(place) {
                waiting.push(ready_join(execution, join, built, needs)?);
            }
        }
        let mut known = vec![flow.slot];
        if let Some(rows) = &rows {
            known.extend(rows.lists.iter().map(|(slot, _)| *slot));
        }
        let steps = in_order(waiting, known)?;
        let (condition, expressions) = own.ready(execution)?;
        let mut imprints = Imprints::default();
        let (morsels, live) = match &rows {
            Some(rows) => (rows.morsels(), None),
            None => {
                let (mut morsels, live) = rows_of(execution, flow.slot)?;
                imprints = Imprints::leave_out(execution, flow, &tests, &mut morsels);
                (morsels, live)
            }
        };
        let name = match (&rows, found) {
            (_, Some((name, _))) => name,
            (Some(_), None) => COLLECTED,
            (None, None) => Name::Table(universe.name(flow.slot).to_string(), expressions),
        };
        Ok(Self { name, slot: flow.slot, rows, morsels, live, condition, imprints, steps, links })
    }

    /// Collects the rows, and leaves those that the other sides of semi and anti joins leave.
    async fn marked(self, execution: &Arc<Execution>, flow: &Flow, marks: &[Mark]) -> Stopped<Self> {
        let ready = Arc::new(self);
        let mut lists = collect(execution, &ready, &flow.row_slots()).await?;
        for mark in marks {
            if lists.rows > 0 {
                let places = mark::remaining(execution, mark, flow, &lists).await?;
                lists.keep(&places);
            }
        }
        let morsels = lists.morsels();
        let links = Arc::into_inner(ready).map(|ready| ready.links).unwrap_or_default();
        Ok(Self {
            name: COLLECTED,
            slot: flow.slot,
            rows: Some(lists),
            morsels,
            live: None,
            condition: None,
            imprints: Imprints::default(),
            steps: Vec::new(),
            links,
        })
    }

    /// Begins to measure the steps, of which the last one is what becomes of the rows.
    pub fn measured(&self, execution: &Execution, last: &'static str) -> Arc<Steps> {
        let steps = self.steps.iter().map(|step| &step.name);
        let names = [&self.name].into_iter().chain(steps).cloned();
        execution.measurements.flow(names.chain([Name::Fixed(last)]))
    }

    /// Returns the rows in pieces for workers.
    pub fn morsels(&self) -> &[Range<u32>] {
        &self.morsels
    }

    /// Tells whether a row may have very many partners.
    pub fn is_expanding(&self) -> bool {
        self.steps.iter().any(|step| match &step.action {
            Action::Join { kind: Kind::Inner | Kind::Left, built, .. } => {
                built.partners_mean() > PARTNERS_MAX
            }
            _ => false,
        })
    }

    /// Returns all rows of the table, if all pass and none was deleted.
    pub fn all_rows(&self) -> Option<Selection> {
        if !self.passes_all() || self.live.is_some() {
            return None;
        }
        let is_gapless = self.morsels.windows(2).all(|pair| pair[0].end == pair[1].start);
        match (self.morsels.first(), self.morsels.last()) {
            (Some(first), Some(last)) => is_gapless.then_some(Selection::Range(first.start, last.end)),
            _ => Some(Selection::Range(0, 0)),
        }
    }

    /// Returns the joins that have found at most one row for each key.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the most rows that the flow begins with.
    pub fn most_rows(&self) -> u64 {
        self.morsels.iter().map(|rows| u64::from(rows.end - rows.start)).sum()
    }

    /// Returns the rows of a joined table, if the flow may have several rows for each.
    pub fn positions_met_often(&self, slot: usize, columns: &Columns) -> Option<usize> {
        if self.rows.is_none() && slot == self.slot {
            return None;
        }
        let positions = columns.any_of_slot(slot).ok()?.stored.len();
        (positions as u64 * MEETINGS <= self.most_rows()).then_some(positions)
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
            let rows = execution.collected_rows(*input);
            if rows >= NO_POSITION as usize {
                return Err(Stop::Unfit("too many rows".into()));
            }
            cut(0..rows as u64)?;
            Ok((morsels, None))
        }
        Some(Source::Truths) | None => Err(Stop::Unfit("a table is missing".into())),
    }
}
