//! Pipelines as they are planned: a tree of joins becomes a *flow*, the rows of one table that go
//! through filters and joins.
//!
//! A join's smaller side is a flow of its own, whose rows are collected. A condition, and a join
//! whose keys lie on such a side, are moved into it: so a filter on a far table reduces the tables
//! between before the large one is read (exact predicate transfer, RPT+, VLDB 2026).
//!
//! All columns of all tables have numbers, so that expressions need not be changed when steps move.

use super::modest::is_small;
use super::parts::PartsExec;
use crate::scan::{PlainScan, ScanExec, engine_field};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use hypostyle_position::NO_POSITION;
use hypostyle_storage::{Snapshot, TableData};
use std::ops::Range;
use std::sync::Arc;

/// Left joins whose other side has more than so many times the rows are left to operators, which make
/// a table of the smaller side and not of the larger one.
const LEFT_JOIN_ROWS: u64 = 4;

/// A union flows, and is not collected, if it has so many times the rows of the other side.
const INPUT_ROWS: u64 = 4;

/// A side of a join is reduced by rows of another table if it has so many times as many.
const REDUCED_ROWS: u64 = 8;

/// An expression over the numbered columns.
pub(super) type Expression = Arc<dyn PhysicalExpr>;

/// Where the rows of a slot come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Table(TableSource),
    /// Another operator, by its place among the inputs, whose rows are collected.
    Input {
        input: usize,
        schema: SchemaRef,
    },
    /// The truth values, of which a mark join gives each row one: FALSE is row 0, and TRUE is row 1.
    Truths,
}

/// A stored table.
#[derive(Clone, Debug)]
pub(super) struct TableSource {
    pub table: Arc<TableData>,
    pub snapshot: Arc<Snapshot>,
    /// The rows that may pass.
    pub ranges: Vec<Range<u64>>,
    /// Other parts of the table, over which the pipeline runs afterwards.
    pub others: Vec<TableSource>,
}

/// A column of a slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SlotColumn {
    pub slot: usize,
    /// Its place in the table.
    pub column: usize,
    pub field: FieldRef,
}

/// The tables of a pipeline and their columns, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Universe {
    pub sources: Vec<Source>,
    pub columns: Vec<SlotColumn>,
    /// The operators whose rows are collected.
    pub inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// The slots in which a row may have no position, because an outer join found no partner.
    pub outer: Vec<usize>,
}

/// The rows of a table that pass all steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flow {
    /// The slot of the table whose rows are read.
    pub slot: usize,
    pub steps: Vec<Step>,
    /// What marks rows that have passed all steps: only some of them remain.
    pub marks: Vec<Mark>,
    /// The rows of the table, a guess for an input.
    pub rows: u64,
}

/// A semi or anti join whose other side is the larger one: the rows that have passed are collected,
/// and those that a row of the other side finds are marked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    /// Marked rows remain, or those that are not marked.
    pub anti: bool,
    pub other: Flow,
    /// The keys of the collected rows, and those of the other side.
    pub keys: Vec<(Expression, Expression)>,
    /// NULL equals NULL.
    pub nulls_equal: bool,
    /// What else must hold for both rows.
    pub conditions: Vec<Expression>,
    /// Tells an aggregate on the other side which groups are wanted.
    pub restricted: Option<Restricted>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Filter(Expression),
    Join(Join),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Join {
    pub kind: Kind,
    /// The side whose rows are collected.
    pub build: Flow,
    /// The keys of the rows that flow, and those of the rows that are collected.
    pub keys: Vec<(Expression, Expression)>,
    /// NULL equals NULL.
    pub nulls_equal: bool,
    /// What else must hold for both rows, in other joins than inner ones.
    pub conditions: Vec<Expression>,
    /// Tells an aggregate on the other side which groups are wanted.
    pub restricted: Option<Restricted>,
}

/// Which keys an aggregate can be asked for. The keys themselves belong to one run of the pipeline
/// that asks: the plan may run several times at once.
#[derive(Debug)]
pub(super) struct Restriction {
    /// The places of the keys among those of the groups.
    pub keys: Vec<usize>,
    /// The rows of the aggregate's largest table.
    pub rows: u64,
}

/// A restriction, and which keys of the join it is about.
#[derive(Clone, Debug)]
pub(super) struct Restricted {
    pub restriction: Arc<Restriction>,
    /// The places of the keys among those of the join.
    pub places: Vec<usize>,
}

impl PartialEq for Restricted {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.restriction, &other.restriction) && self.places == other.places
    }
}

/// What becomes of a row that flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It goes on once with each partner.
    Inner,
    /// It goes on once with each partner, or without one.
    Left,
    /// It goes on if it has a partner.
    Semi,
    /// It goes on if it has none.
    Anti,
    /// It goes on, and has in a slot of truth values whether it has a partner.
    Mark(usize),
}

impl Kind {
    /// Returns what EXPLAIN calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inner => "join",
            Self::Left => "left join",
            Self::Semi => "semi join",
            Self::Anti => "anti join",
            Self::Mark(_) => "mark join",
        }
    }
}

/// A flow, and the columns of the operator that it stands for.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub flow: Flow,
    pub outputs: Vec<Expression>,
}

/// Returns what a scan reads, and how many rows; `None` for what pipelines do not read.
fn source_of(scan: &ScanExec) -> Option<(TableSource, u64)> {
    let PlainScan { table, snapshot, ranges, .. } = scan.plain()?;
    // Positions are 32-bit numbers. Bytes that may be overwritten are copied by the scan.
    if table.positions() >= u64::from(NO_POSITION) || table.is_uncommitted() {
        return None;
    }
    let rows = ranges.iter().map(|range| range.end - range.start).sum();
    let (table, snapshot, others) = (table.clone(), snapshot.clone(), Vec::new());
    Some((TableSource { table, snapshot, ranges, others }, rows))
}

impl Universe {
    /// Returns the fields of all columns.
    pub fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>())
    }

    /// Returns the slots of the columns that an expression reads.
    pub fn slots_of(&self, expression: &Expression) -> Vec<usize> {
        let mut slots: Vec<usize> = collect_columns(expression)
            .iter()
            .filter_map(|column| self.columns.get(column.index()))
            .map(|column| column.slot)
            .collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Returns the stored table of a slot, if it is one.
    pub fn table(&self, slot: usize) -> Option<&TableSource> {
        match self.sources.get(slot) {
            Some(Source::Table(source)) => Some(source),
            _ => None,
        }
    }

    /// Returns the name of a slot's table.
    pub fn name(&self, slot: usize) -> &str {
        match self.sources.get(slot) {
            Some(Source::Table(source)) => &source.table.entry().name,
            Some(Source::Truths) => "mark",
            _ => "input",
        }
    }

    /// Adds a table or input, and returns its slot and the numbers of its columns.
    fn add(&mut self, source: Source, fields: Vec<(usize, FieldRef)>) -> (usize, Vec<Expression>) {
        let slot = self.sources.len();
        self.sources.push(source);
        let expressions = fields
            .into_iter()
            .map(|(column, field)| {
                let expression: Expression = Arc::new(Column::new(field.name(), self.columns.len()));
                self.columns.push(SlotColumn { slot, column, field });
                expression
            })
            .collect();
        (slot, expressions)
    }

    /// Makes a flow of an operator's subtree; `None` where its first operator is not understood.
    pub fn compile(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Compiled>> {
        if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            return Ok(self.compile_scan(scan));
        }
        if let Some(parts) = plan.downcast_ref::<PartsExec>() {
            return Ok(self.compile_parts(parts));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return self.compile_filter(filter);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let Some(Compiled { flow, outputs }) = self.compile(projection.input())? else { return Ok(None) };
            if projection.expr().iter().any(|item| is_volatile(&item.expr)) {
                return Ok(None);
            }
            let items = projection.expr().iter().map(|item| substitute(&item.expr, &outputs));
            let outputs = items.collect::<Result<Vec<_>>>()?;
            // Projections that use a column twice, one above the other, double it each time.
            if !outputs.iter().all(|output| is_small(output, &mut 0)) {
                return Ok(None);
            }
            return Ok(Some(Compiled { flow, outputs }));
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return self.compile_join(join);
        }
        Ok(None)
    }

    fn compile_scan(&mut self, scan: &ScanExec) -> Option<Compiled> {
        let (source, rows) = source_of(scan)?;
        let (table, projection) = (source.table.clone(), scan.plain()?.projection);
        let fields = projection
            .iter()
            .map(|index| {
                let column = table.columns().get(*index)?;
                Some((*index, Arc::new(engine_field(&table, column))))
            })
            .collect::<Option<Vec<_>>>()?;
        let (slot, outputs) = self.add(Source::Table(source), fields);
        Some(Compiled { flow: Flow::new(slot, rows), outputs })
    }

    /// Compiles the parts of a table: they are one table, which is another one in each run.
    fn compile_parts(&mut self, parts: &PartsExec) -> Option<Compiled> {
        let mut scans = parts.scans();
        let mut compiled = self.compile_scan(scans.next()?)?;
        let others = scans.map(source_of).collect::<Option<Vec<_>>>()?;
        let rows = others.iter().map(|(_, rows)| rows).sum::<u64>();
        compiled.flow.rows = compiled.flow.rows.saturating_add(rows);
        match self.sources.get_mut(compiled.flow.slot) {
            Some(Source::Table(source)) => source.others = others.into_iter().map(|(part, _)| part).collect(),
            _ => return None,
        }
        Some(compiled)
    }

    /// Returns how many runs a pipeline makes, each over other parts of its tables; `None` if these do
    /// not belong together, or if it would collect its inputs in each run.
    pub fn runs(&self) -> Option<usize> {
        let mut runs = self.sources.iter().filter_map(|source| match source {
            Source::Table(source) if !source.others.is_empty() => Some(1 + source.others.len()),
            _ => None,
        });
        let Some(first) = runs.next() else { return Some(1) };
        (self.inputs.is_empty() && runs.all(|other| other == first)).then_some(first)
    }

    /// Returns the tables of one run.
    pub fn of_run(&self, run: usize) -> Self {
        let part = |source: &Source| match source {
            Source::Table(table) => {
                let own = run.checked_sub(1).and_then(|place| table.others.get(place)).unwrap_or(table);
                Source::Table(TableSource { others: Vec::new(), ..own.clone() })
            }
            other @ (Source::Input { .. } | Source::Truths) => other.clone(),
        };
        Self { sources: self.sources.iter().map(part).collect(), ..self.clone() }
    }

    fn compile_filter(&mut self, filter: &FilterExec) -> Result<Option<Compiled>> {
        if filter.fetch().is_some() || is_volatile(filter.predicate()) {
            return Ok(None);
        }
        let Some(Compiled { mut flow, outputs }) = self.compile(filter.input())? else { return Ok(None) };
        for condition in split_conjunction(filter.predicate()) {
            let condition = substitute(condition, &outputs)?;
            self.push(&mut flow, Step::Filter(condition));
        }
        Ok(Some(Compiled { flow, outputs: projected(outputs, filter.projection().as_deref()) }))
    }

    /// Compiles a side of a join; what is not understood becomes an input.
    pub fn compile_side(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Compiled> {
        let before = self.clone();
        if let Some(compiled) = self.compile(plan)? {
            return Ok(compiled);
        }
        *self = before;
        let schema = plan.schema();
        let fields = schema.fields().iter().cloned().enumerate().collect();
        let source = Source::Input { input: self.inputs.len(), schema: schema.clone() };
        self.inputs.push(plan.clone());
        let (slot, outputs) = self.add(source, fields);
        Ok(Compiled { flow: Flow::new(slot, 0), outputs })
    }

    pub fn is_input(&self, flow: &Flow) -> bool {
        matches!(self.sources.get(flow.slot), Some(Source::Input { .. }))
    }

    fn compile_join(&mut self, join: &HashJoinExec) -> Result<Option<Compiled>> {
        use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right};
        let Some(mut kind) = kind_of(join) else { return Ok(None) };
        let left = self.compile_side(join.left())?;
        let right = self.compile_side(join.right())?;
        if *join.join_type() == Inner && self.is_small_beside_union(join, &left, &right)? {
            return Ok(None);
        }
        let left_flows = match join.join_type() {
            Inner if self.is_input(&left.flow) => false,
            Inner if self.is_input(&right.flow) => true,
            Inner => left.flow.rows > right.flow.rows,
            Left | LeftSemi | LeftAnti | LeftMark => true,
            _ => false,
        };
        if matches!(kind, Kind::Left | Kind::Mark(_)) {
            let (own, other) = if left_flows { (&left.flow, &right.flow) } else { (&right.flow, &left.flow) };
            if other.rows / LEFT_JOIN_ROWS > own.rows {
                return Ok(None);
            }
        }
        let driver = if left_flows { &left.flow } else { &right.flow };
        if self.is_input(driver) {
            return Ok(None);
        }
        let keys = self.keys_of(join, &left, &right, left_flows)?;
        let nulls_equal = join.null_equality() == NullEquality::NullEqualsNull;
        let of_partner = if left_flows { &right.outputs } else { &left.outputs };
        if kind == Kind::Left && !of_partner.iter().all(is_null_without_columns) {
            return Ok(None);
        }
        let residual = conditions_of(join, &left.outputs, &right.outputs)?;
        let mut outputs = match join.join_type() {
            Inner | Left | Right => left.outputs.into_iter().chain(right.outputs).collect(),
            LeftSemi | LeftAnti | LeftMark => left.outputs,
            _ => right.outputs,
        };
        if let Kind::Mark(slot) = &mut kind {
            let field = Arc::new(Field::new("mark", DataType::Boolean, false));
            let (of_marks, mark) = self.add(Source::Truths, vec![(0, field)]);
            *slot = of_marks;
            outputs.extend(mark);
        }
        let (mut flow, build) = if left_flows { (left.flow, right.flow) } else { (right.flow, left.flow) };
        if kind == Kind::Left {
            self.make_nullable(&build);
        }
        let (filters, conditions) = match kind {
            Kind::Inner => (residual, Vec::new()),
            _ => (Vec::new(), residual),
        };
        let join_step = Join { kind, build, keys, nulls_equal, conditions, restricted: None };
        self.push_reducers(&mut flow, &join_step);
        self.push(&mut flow, Step::Join(join_step));
        for condition in filters {
            self.push(&mut flow, Step::Filter(condition));
        }
        Ok(Some(Compiled { flow, outputs: projected(outputs, join.projection.as_deref()) }))
    }

    /// Tells whether a join's one side is a union of many more rows than the other one has: an operator
    /// has these flow, where a pipeline would collect them.
    fn is_small_beside_union(&self, join: &HashJoinExec, left: &Compiled, right: &Compiled) -> Result<bool> {
        let (input, flow) = match (self.is_input(&left.flow), self.is_input(&right.flow)) {
            (true, false) => (join.left(), &right.flow),
            (false, true) => (join.right(), &left.flow),
            _ => return Ok(false),
        };
        if !is_of_union(input) {
            return Ok(false);
        }
        let rows = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?.num_rows;
        Ok(rows.get_value().is_some_and(|rows| *rows as u64 / INPUT_ROWS > flow.rows))
    }

    /// Returns the keys of a join, of the rows that flow and of those that are collected.
    fn keys_of(
        &self,
        join: &HashJoinExec,
        left: &Compiled,
        right: &Compiled,
        left_flows: bool,
    ) -> Result<Vec<(Expression, Expression)>> {
        let build = if left_flows { &right.flow } else { &left.flow };
        let mut keys = Vec::with_capacity(join.on().len());
        for (of_left, of_right) in join.on() {
            let (of_left, of_right) =
                (substitute(of_left, &left.outputs)?, substitute(of_right, &right.outputs)?);
            let (own, other) = if left_flows { (of_left, of_right) } else { (of_right, of_left) };
            let other = self.of_own_table(build, &other).unwrap_or(other);
            keys.push((own, other));
        }
        // An index serves a key whatever order a query names its columns in.
        keys.sort_by_key(|(_, key)| key.downcast_ref::<Column>().map_or(usize::MAX, Column::index));
        let own = if left_flows { &left.flow } else { &right.flow };
        Ok(self.independent(keys, own, build))
    }

    /// Leaves keys out that others imply, because the rows of a side have been joined by them: queries
    /// write `a.x = b.x AND b.x = c.x AND a.x = c.x`.
    fn independent(
        &self,
        keys: Vec<(Expression, Expression)>,
        flow: &Flow,
        build: &Flow,
    ) -> Vec<(Expression, Expression)> {
        let mut kept: Vec<(Expression, Expression)> = Vec::with_capacity(keys.len());
        for key in keys {
            let same = kept.iter_mut().find(|(own, other)| {
                &key.1 == other && self.equates(flow, &key.0, own)
                    || &key.0 == own && self.equates(build, &key.1, other)
            });
            match same {
                None => kept.push(key),
                // Indexes are of a flow's own table.
                Some(same) if key.1.eq(&same.1) && self.slots_of(&key.0) == [flow.slot] => *same = key,
                Some(_) => {}
            }
        }
        kept
    }

    /// Tells whether two columns are equal in all rows of a flow, because its tables are joined by them.
    fn equates(&self, flow: &Flow, one: &Expression, other: &Expression) -> bool {
        let data_type = |column: &Expression| {
            let column = self.columns.get(column.downcast_ref::<Column>()?.index())?;
            Some(column.field.data_type()).filter(|data_type| is_integer_or_text(data_type))
        };
        let mut pairs = Vec::new();
        flow.pairs(&mut pairs);
        pairs.retain(|(one, other)| data_type(one).is_some() && data_type(one) == data_type(other));
        let mut equal = vec![one];
        let mut next = 0;
        while let Some(column) = equal.get(next).copied() {
            for (one, other) in &pairs {
                for (from, to) in [(*one, *other), (*other, *one)] {
                    if from == column && !equal.contains(&to) {
                        equal.push(to);
                    }
                }
            }
            next += 1;
        }
        equal.contains(&other)
    }

    /// Returns the column of a flow's own table that equals a column of another one in all of its rows,
    /// because they are joined by these columns.
    fn of_own_table(&self, flow: &Flow, key: &Expression) -> Option<Expression> {
        let field = |column: &Expression| {
            let column = self.columns.get(column.downcast_ref::<Column>()?.index())?;
            Some((column.slot, column.field.data_type()))
        };
        let (slot, data_type) = field(key)?;
        if slot == flow.slot || !is_integer_or_text(data_type) {
            return None;
        }
        let joins = flow.steps.iter().filter_map(|step| match step {
            Step::Join(join) if join.kind == Kind::Inner && !join.nulls_equal => Some(join),
            _ => None,
        });
        let mut pairs = joins.flat_map(|join| &join.keys);
        let (own, _) = pairs.find(|(own, other)| {
            other == key && field(own).is_some_and(|(slot, own)| slot == flow.slot && own == data_type)
        })?;
        Some(own.clone())
    }

    /// Columns of the other side of an outer join are NULL in rows without a partner.
    fn make_nullable(&mut self, flow: &Flow) {
        let slots = flow.slots();
        self.outer.extend(&slots);
        for column in self.columns.iter_mut().filter(|column| slots.contains(&column.slot)) {
            let field: Field = super::table::nullable(&column.field);
            column.field = Arc::new(field);
        }
    }

    /// Adds a step to a flow, or to the side of one of its joins that has all columns of the step.
    fn push(&self, flow: &mut Flow, step: Step) {
        let needed = step.needs(self);
        match flow.steps.iter_mut().find_map(|before| before.side_with(&needed)) {
            Some(side) => self.push(side, step),
            None => flow.add(step),
        }
    }

    /// Leaves rows out of the sides of a flow's joins that another join with several keys would leave out
    /// by one of these: such a join cannot be moved into a side, as it needs others, too.
    fn push_reducers(&self, flow: &mut Flow, join: &Join) {
        let Join { kind: Kind::Inner, build, keys, nulls_equal, .. } = join else { return };
        if keys.len() < 2 || build.is_plain() || build.slots().iter().any(|slot| self.table(*slot).is_none())
        {
            return;
        }
        let needed = Step::Join(join.clone()).needs(self);
        if flow.steps.iter_mut().any(|step| step.side_with(&needed).is_some()) {
            return;
        }
        for (own, other) in keys {
            let needed = self.slots_of(own);
            let side = flow.steps.iter_mut().find_map(|step| step.side_with(&needed));
            let Some(side) = side.filter(|side| build.rows <= side.rows / REDUCED_ROWS) else { continue };
            if own.is::<Column>() && other.is::<Column>() {
                let reducer = Join {
                    kind: Kind::Semi,
                    build: build.clone(),
                    keys: vec![(own.clone(), other.clone())],
                    nulls_equal: *nulls_equal,
                    conditions: Vec::new(),
                    restricted: None,
                };
                self.push(side, Step::Join(reducer));
            }
        }
    }
}

/// Slots, of which there are few.
struct Slots(Vec<usize>);

impl Slots {
    fn is_superset_of(&self, needed: &[usize]) -> bool {
        needed.iter().all(|slot| self.0.contains(slot))
    }
}

impl Flow {
    fn new(slot: usize, rows: u64) -> Self {
        Self { slot, steps: Vec::new(), marks: Vec::new(), rows }
    }

    /// Adds a step. A semi or anti join with more rows than flow is one whose rows mark these.
    fn add(&mut self, step: Step) {
        match step {
            Step::Join(Join {
                kind: kind @ (Kind::Semi | Kind::Anti),
                build,
                keys,
                nulls_equal,
                conditions,
                ..
            }) if build.rows >= self.rows => {
                let (anti, other) = (kind == Kind::Anti, build);
                self.marks.push(Mark { anti, other, keys, nulls_equal, conditions, restricted: None });
            }
            step => self.steps.push(step),
        }
    }

    /// Returns the joins among its steps.
    pub fn joins(&self) -> impl Iterator<Item = &Join> {
        self.steps.iter().filter_map(|step| match step {
            Step::Join(join) => Some(join),
            Step::Filter(_) => None,
        })
    }

    /// Adds the keys by which its tables are joined: they are equal in all rows.
    fn pairs<'a>(&'a self, pairs: &mut Vec<(&'a Expression, &'a Expression)>) {
        for join in self.joins().filter(|join| join.kind == Kind::Inner && !join.nulls_equal) {
            pairs.extend(join.keys.iter().map(|(own, other)| (own, other)));
            join.build.pairs(pairs);
        }
    }

    /// Tells whether the flow is all rows that are read of its table.
    pub fn is_plain(&self) -> bool {
        self.steps.is_empty() && self.marks.is_empty()
    }

    /// Returns the slots of all tables.
    pub fn slots(&self) -> Vec<usize> {
        let mut slots = vec![self.slot];
        slots.extend(self.marks.iter().flat_map(|mark| mark.other.slots()));
        for step in &self.steps {
            if let Step::Join(join) = step {
                slots.extend(join.build.slots());
                if let Kind::Mark(slot) = join.kind {
                    slots.push(slot);
                }
            }
        }
        slots
    }

    /// Calls a function with each expression of the flow and of the sides of its joins.
    pub fn visit(&self, see: &mut impl FnMut(&Expression)) {
        for step in &self.steps {
            match step {
                Step::Filter(condition) => see(condition),
                Step::Join(join) => {
                    for (probe, build) in &join.keys {
                        see(probe);
                        see(build);
                    }
                    join.conditions.iter().for_each(&mut *see);
                    join.build.visit(see);
                }
            }
        }
        for mark in &self.marks {
            for (own, other) in &mark.keys {
                see(own);
                see(other);
            }
            mark.conditions.iter().for_each(&mut *see);
            mark.other.visit(see);
        }
    }

    /// Tells whether no expression of the flow can fail, whatever rows it sees.
    pub fn is_infallible(&self, schema: &Schema) -> bool {
        let mut infallible = true;
        self.visit(&mut |expression| infallible = infallible && is_infallible(expression, schema));
        infallible
    }

    /// Returns the slots in which rows have positions when they have passed all steps.
    pub fn row_slots(&self) -> Vec<usize> {
        let mut slots = vec![self.slot];
        slots.extend(self.steps.iter().flat_map(Step::row_slots));
        slots
    }

    fn slots_of_rows(&self) -> Slots {
        Slots(self.row_slots())
    }
}

impl Step {
    /// Returns the side of an inner join, if its rows have positions in all of some slots.
    fn side_with(&mut self, needed: &[usize]) -> Option<&mut Flow> {
        match self {
            Step::Join(Join { kind: Kind::Inner, build, .. })
                if !needed.is_empty() && build.slots_of_rows().is_superset_of(needed) =>
            {
                Some(build)
            }
            _ => None,
        }
    }

    /// Returns the slots in which rows have positions after the step, and had none before.
    pub fn row_slots(&self) -> Vec<usize> {
        match self {
            Step::Join(Join { kind: Kind::Inner | Kind::Left, build, .. }) => build.row_slots(),
            Step::Join(Join { kind: Kind::Mark(slot), .. }) => vec![*slot],
            _ => Vec::new(),
        }
    }

    /// Returns the slots that rows must have before the step.
    pub fn needs(&self, universe: &Universe) -> Vec<usize> {
        let mut slots = match self {
            Step::Filter(condition) => universe.slots_of(condition),
            Step::Join(join) => {
                let of_build = join.build.slots();
                let own = join.keys.iter().map(|(probe, _)| probe).chain(&join.conditions);
                own.flat_map(|part| universe.slots_of(part)).filter(|slot| !of_build.contains(slot)).collect()
            }
        };
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

/// Tells whether rows are those of a union, filtered and joined with others.
fn is_of_union(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let passes_on = plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>();
    plan.is::<UnionExec>()
        || plan.is::<InterleaveExec>()
        || passes_on && plan.children().into_iter().any(is_of_union)
}

/// Tells whether an expression is NULL where its columns are: what the other side of an outer join
/// gives is computed behind the join, where rows without a partner have no values of that side.
fn is_null_without_columns(expression: &Expression) -> bool {
    if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        let op = binary.op();
        let is_strict = op.is_numerical_operators()
            || matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq)
            || matches!(op, Operator::Gt | Operator::GtEq);
        return is_strict && [binary.left(), binary.right()].into_iter().any(is_null_without_columns);
    }
    match (expression.downcast_ref::<CastExpr>(), expression.downcast_ref::<NotExpr>()) {
        (Some(cast), _) => is_null_without_columns(cast.expr()),
        (_, Some(not)) => is_null_without_columns(not.arg()),
        _ => expression.is::<Column>(),
    }
}

/// Tells whether an expression is made of comparisons, truths and wider numbers alone.
pub(super) fn is_infallible(expression: &Expression, schema: &Schema) -> bool {
    let own = if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        binary.op().supports_propagation()
            || matches!(binary.op(), Operator::And | Operator::Or | Operator::NotEq)
    } else if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        cast.expr()
            .data_type(schema)
            .is_ok_and(|from| cast.is_bigger_cast(&from) || has_room(&from, cast.cast_type()))
    } else {
        expression.is::<Column>()
            || expression.is::<Literal>()
            || expression.is::<InListExpr>()
            || expression.is::<IsNullExpr>()
            || expression.is::<IsNotNullExpr>()
            || expression.is::<NotExpr>()
            || expression.is::<LikeExpr>()
    };
    own && expression.children().into_iter().all(|part| is_infallible(part, schema))
}

/// Tells whether equal values of a type are the same in every way.
fn is_integer_or_text(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Date32 | DataType::Utf8 | DataType::Utf8View)
}

/// Tells whether all numbers of a type are some of another one.
fn has_room(from: &DataType, to: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Int8 | DataType::UInt8 => Some((3, 0)),
        DataType::Int16 | DataType::UInt16 => Some((5, 0)),
        DataType::Int32 | DataType::UInt32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) => Some((i16::from(*precision), i16::from(*scale))),
        _ => None,
    };
    match (digits(from), to) {
        (Some(_), DataType::Float64) => true,
        (Some((precision, scale)), DataType::Decimal128(digits, behind)) => {
            let behind = i16::from(*behind);
            behind >= scale && i16::from(*digits) - behind >= precision - scale
        }
        _ => false,
    }
}

/// Returns what becomes of the rows that flow into a join; `None` where a pipeline has no such join.
fn kind_of(join: &HashJoinExec) -> Option<Kind> {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let keys = join.on().iter().flat_map(|(left, right)| [left, right]);
    let mut expressions = keys.chain(join.filter().map(|filter| filter.expression()));
    if join.null_aware || join.fetch().is_some() || expressions.any(is_volatile) {
        return None;
    }
    match join.join_type() {
        Inner => Some(Kind::Inner),
        Left | Right => Some(Kind::Left),
        LeftSemi | RightSemi => Some(Kind::Semi),
        LeftAnti | RightAnti => Some(Kind::Anti),
        // Its slot is known when both sides are.
        LeftMark | RightMark => Some(Kind::Mark(usize::MAX)),
        _ => None,
    }
}

/// Returns what else must hold for both rows of a join.
fn conditions_of(join: &HashJoinExec, left: &[Expression], right: &[Expression]) -> Result<Vec<Expression>> {
    let Some(filter) = join.filter() else { return Ok(Vec::new()) };
    let columns: Vec<Expression> = filter
        .column_indices()
        .iter()
        .map(|place| match place.side {
            JoinSide::Right => right[place.index].clone(),
            _ => left[place.index].clone(),
        })
        .collect();
    split_conjunction(filter.expression())
        .into_iter()
        .map(|condition| substitute(condition, &columns))
        .collect()
}

/// Returns an expression over an operator's columns with what these are put in their places.
pub(super) fn substitute(expression: &Expression, columns: &[Expression]) -> Result<Expression> {
    expression
        .clone()
        .transform_up(|part| match part.downcast_ref::<Column>() {
            Some(column) => match columns.get(column.index()) {
                Some(replaced) => Ok(Transformed::yes(replaced.clone())),
                None => datafusion::common::internal_err!("column {column} is not there"),
            },
            None => Ok(Transformed::no(part)),
        })
        .data()
}

fn projected(columns: Vec<Expression>, projection: Option<&[usize]>) -> Vec<Expression> {
    match projection {
        Some(places) => places.iter().filter_map(|place| columns.get(*place).cloned()).collect(),
        None => columns,
    }
}
