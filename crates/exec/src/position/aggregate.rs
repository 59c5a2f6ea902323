//! Aggregates over the rows of a flow: folds over the ids of their groups.

use super::chunk::Chunk;
use super::codes::MetOften;
use super::condition::is_kernel_type;
use super::evaluate::{Columns, Evaluator, Values};
use super::filtered::{Chosen, Filter, Passed, or_zero};
use super::flow::{Expression, Universe};
use super::number::Numbers;
use super::stop::{Stop, Stopped};
use super::table::as_type;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use hypostyle_expr::arithmetic::nearest_quotient;
use hypostyle_position::NO_POSITION;
use hypostyle_position::fold::{self, Fold, Ids, fold_column};
use std::sync::Arc;

/// The digits of a sum of decimals while it is divided.
const SUM_DIGITS: u8 = 38;

/// An aggregate of a plan, over numbered columns.
#[derive(Clone, Debug)]
pub(super) struct PlannedAggregate {
    pub function: Arc<AggregateFunctionExpr>,
    pub arguments: Vec<Expression>,
    pub filter: Option<Expression>,
}

/// What states are kept for: of equal ones there is one.
#[derive(Clone, Debug, PartialEq)]
struct Method {
    kind: Kind,
    /// The place of the filter that rows pass.
    filter: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Rows,
    Count(Evaluator),
    Sum {
        value: Evaluator,
        from: DataType,
        to: DataType,
        nullable: bool,
    },
    Extreme {
        value: Evaluator,
        of: DataType,
        greatest: bool,
    },
    /// The accumulator of the aggregate at this place does the work, also that of its filter.
    Accumulator {
        place: usize,
        arguments: Vec<Evaluator>,
        filter: Option<Evaluator>,
    },
}

/// How an aggregate's result is made of states.
#[derive(Clone, Debug)]
enum Outcome {
    State(usize),
    /// A sum over the rows that have passed, to which others add 0: there are such if there are more
    /// rows than have passed.
    OrZero {
        sum: usize,
        rows: usize,
        passed: usize,
    },
    /// A sum divided by a count; decimals have a scale.
    Average {
        sum: usize,
        count: usize,
        scale: Option<i8>,
    },
}

/// The aggregates of a pipeline, and the arithmetic that they share.
#[derive(Debug)]
pub(super) struct Aggregates {
    planned: Vec<PlannedAggregate>,
    methods: Vec<Method>,
    filters: Vec<(Expression, Filter)>,
    outcomes: Vec<Outcome>,
    pub numbers: Numbers,
}

/// The states of one method.
enum State {
    Fold(Box<dyn Fold>),
    Accumulator(Box<dyn GroupsAccumulator>),
}

/// States that are combined into others.
pub(super) struct Partials {
    states: Vec<Partial>,
    /// The ids of the groups of accumulators, where these are not all ids.
    ids: Option<Vec<u32>>,
}

enum Partial {
    Fold(Box<dyn Fold>),
    /// What an accumulator gives others of its kind.
    Arrays(Vec<ArrayRef>),
}

/// The states of all aggregates, in one worker.
pub(super) struct States {
    states: Vec<State>,
    groups: usize,
    places: Option<Places>,
}

/// The groups that have had a row, where not all ids have one. An accumulator takes it that each of its
/// groups has had a row: where no value was NULL, it takes each for one that has had a value.
#[derive(Default)]
struct Places {
    /// The number of each id among the groups of accumulators, or `NO_POSITION`.
    numbers: Vec<u32>,
    ids: Vec<u32>,
}

impl Places {
    /// Returns the number of a group, which is the next one if it has had no row.
    fn number(&mut self, id: u32) -> usize {
        let place = id as usize;
        if place >= self.numbers.len() {
            self.numbers.resize(place + 1, NO_POSITION);
        }
        if self.numbers[place] == NO_POSITION {
            self.numbers[place] = self.ids.len() as u32;
            self.ids.push(id);
        }
        self.numbers[place] as usize
    }

    /// Returns results of groups with a row as those of all ids; others have NULL.
    fn spread(&self, results: &ArrayRef, groups: usize) -> Stopped<ArrayRef> {
        if self.ids.is_empty() {
            return Ok(new_null_array(results.data_type(), groups));
        }
        let number = |id: usize| self.numbers.get(id).copied().filter(|number| *number != NO_POSITION);
        let numbers: UInt32Array = (0..groups).map(number).collect();
        take(results, &numbers, None).map_err(Stop::arrow)
    }

    fn bytes(&self) -> usize {
        (self.numbers.capacity() + self.ids.capacity()) * size_of::<u32>()
    }
}

impl PlannedAggregate {
    /// Tells whether an aggregate can be computed group by group, in any order of rows.
    pub fn is_supported(&self) -> bool {
        let function = &self.function;
        function.order_bys().is_empty()
            && !function.order_sensitivity().hard_requires()
            && !function.order_sensitivity().is_beneficial()
            && (self.is_plain() && self.filter.is_none() || function.groups_accumulator_supported())
    }

    /// Tells whether nothing but the argument matters, and which rows pass.
    fn is_plain(&self) -> bool {
        !self.function.is_distinct() && self.arguments.len() == 1
    }
}

impl Aggregates {
    /// Finds out how to compute aggregates; without groups each has a result even of no rows.
    pub fn new(
        planned: &[PlannedAggregate],
        columns: &Columns,
        has_groups: bool,
        met_often: MetOften<'_>,
    ) -> Stopped<Self> {
        let mut found = Self {
            planned: planned.to_vec(),
            methods: Vec::new(),
            filters: Vec::new(),
            outcomes: Vec::new(),
            numbers: Numbers::default(),
        };
        for place in 0..planned.len() {
            let outcome = found.outcome(place, columns, has_groups, met_often)?;
            found.outcomes.push(outcome);
        }
        Ok(found)
    }

    /// Makes states without groups, of which it is told whether there may be ids without a row.
    pub fn states(&self, is_sparse: bool) -> Stopped<States> {
        let mut states = Vec::with_capacity(self.methods.len());
        for method in &self.methods {
            states.push(match &method.kind {
                Kind::Rows | Kind::Count(_) => State::Fold(fold::count()),
                Kind::Sum { from, to, nullable, .. } => State::Fold(fold::sum(from, to, *nullable)?),
                Kind::Extreme { of, greatest: true, .. } => State::Fold(fold::maximum(of)?),
                Kind::Extreme { of, .. } => State::Fold(fold::minimum(of)?),
                Kind::Accumulator { place, .. } => {
                    let created = self.planned[*place].function.create_groups_accumulator();
                    State::Accumulator(created.map_err(Stop::expression)?)
                }
            });
        }
        let has_accumulator = states.iter().any(|state| matches!(state, State::Accumulator(_)));
        Ok(States { states, groups: 0, places: (is_sparse && has_accumulator).then(Places::default) })
    }

    fn state(&mut self, kind: Kind, filter: Option<usize>) -> usize {
        let method = Method { kind, filter };
        match self.methods.iter().position(|known| *known == method) {
            Some(place) => place,
            None => {
                self.methods.push(method);
                self.methods.len() - 1
            }
        }
    }

    /// Returns the place of a filter.
    fn filter(
        &mut self,
        condition: &Expression,
        columns: &Columns,
        met_often: MetOften<'_>,
    ) -> Stopped<usize> {
        if let Some(place) = self.filters.iter().position(|(known, _)| known == condition) {
            return Ok(place);
        }
        self.filters.push((condition.clone(), Filter::new(condition, columns, met_often)?));
        Ok(self.filters.len() - 1)
    }

    fn outcome(
        &mut self,
        place: usize,
        columns: &Columns,
        has_groups: bool,
        met_often: MetOften<'_>,
    ) -> Stopped<Outcome> {
        let aggregate = self.planned[place].clone();
        let universe = &columns.universe;
        if let ([argument], true) = (aggregate.arguments.as_slice(), aggregate.is_plain()) {
            let (mut argument, mut filter, mut or_zero) = (argument.clone(), aggregate.filter.clone(), false);
            if filter.is_none()
                && let Some(chosen) = Chosen::of(&argument, &universe.schema())
                && (!chosen.or_zero || aggregate.function.fun().name() == "sum")
            {
                (argument, filter, or_zero) = (chosen.value, Some(chosen.condition), chosen.or_zero);
            }
            let of = OfArgument { function: &aggregate.function, argument: &argument, has_groups, or_zero };
            let filters = self.filters.len();
            let filter = filter.map(|filter| self.filter(&filter, columns, met_often)).transpose()?;
            if let Some(outcome) = self.folded(&of, columns, filter)? {
                return Ok(outcome);
            }
            // The accumulator has a filter of its own.
            self.filters.truncate(filters);
        }
        if !aggregate.function.groups_accumulator_supported() {
            return Err(Stop::Unfit(format!("{} has no states of groups", aggregate.function.name())));
        }
        let seen = |expression: &Expression| Evaluator::seen(expression, universe);
        let arguments = aggregate.arguments.iter().map(seen).collect::<Stopped<_>>()?;
        let filter = aggregate.filter.as_ref().map(seen).transpose()?;
        Ok(Outcome::State(self.state(Kind::Accumulator { place, arguments, filter }, None)))
    }

    /// Returns how folds give the result; `None` where they do not.
    fn folded(
        &mut self,
        aggregate: &OfArgument<'_>,
        columns: &Columns,
        filter: Option<usize>,
    ) -> Stopped<Option<Outcome>> {
        let OfArgument { function, argument, has_groups, or_zero } = *aggregate;
        let universe = &columns.universe;
        let result = function.field().data_type().clone();
        let of = argument.data_type(&universe.schema()).map_err(Stop::expression)?;
        let may_be_null = argument.nullable(&universe.schema()).unwrap_or(true);
        let nullable = !has_groups || may_be_null || filter.is_some();
        let count = |evaluator: &Evaluator| match may_be_null {
            true => Kind::Count(evaluator.clone()),
            false => Kind::Rows,
        };
        Ok(Some(match function.fun().name() {
            "count" if !may_be_null => Outcome::State(self.state(Kind::Rows, filter)),
            "count" => {
                let (value, _) = stored(argument, columns, None)?;
                Outcome::State(self.state(Kind::Count(value), filter))
            }
            "sum" if is_sum(&of, &result) => {
                let (value, from) = stored(argument, columns, Some(&mut self.numbers))?;
                let sum = self.state(Kind::Sum { value, from, to: widest(&result), nullable }, filter);
                match or_zero {
                    true => {
                        let (rows, passed) = (self.state(Kind::Rows, None), self.state(Kind::Rows, filter));
                        Outcome::OrZero { sum, rows, passed }
                    }
                    false => Outcome::State(sum),
                }
            }
            "avg" if is_average(&of, &result) => {
                let scale = match of {
                    DataType::Decimal128(_, scale) => Some(scale),
                    _ => None,
                };
                let (value, from) = stored(argument, columns, Some(&mut self.numbers))?;
                let count = self.state(count(&value), filter);
                let sum = self.state(Kind::Sum { value, from, to: widest(&of), nullable }, filter);
                Outcome::Average { sum, count, scale }
            }
            "min" | "max" => {
                let (value, of) = stored(argument, columns, None)?;
                if !is_kernel_type(&of) {
                    return Ok(None);
                }
                let greatest = function.fun().name() == "max";
                Outcome::State(self.state(Kind::Extreme { value, of, greatest }, filter))
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the bytes of what all workers share.
    pub fn bytes(&self) -> usize {
        self.filters.iter().map(|(_, filter)| filter.bytes()).sum()
    }
}

/// An aggregate of one argument.
struct OfArgument<'a> {
    function: &'a AggregateFunctionExpr,
    argument: &'a Expression,
    has_groups: bool,
    /// Whether rows that do not pass add 0.
    or_zero: bool,
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..))
}

/// Returns the type in which a sum is kept, so that those of one value are one.
pub(super) fn widest(result: &DataType) -> DataType {
    match result {
        DataType::Decimal128(_, scale) => DataType::Decimal128(SUM_DIGITS, *scale),
        other => other.clone(),
    }
}

/// Tells whether an average is a sum that kernels add up, divided by a count.
pub(super) fn is_average(of: &DataType, result: &DataType) -> bool {
    *result == DataType::Float64 && (is_decimal(of) || *of == DataType::Float64)
}

/// Tells whether sums are of a type that kernels add up to their results'.
pub(super) fn is_sum(of: &DataType, result: &DataType) -> bool {
    match (of, result) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from == to,
        (DataType::Float64, DataType::Float64) => true,
        (of, DataType::Int64) => of.is_signed_integer(),
        (of, DataType::UInt64) => of.is_unsigned_integer(),
        _ => false,
    }
}

/// Makes an expression ready as it is stored, and returns its type.
fn stored(
    expression: &Expression,
    columns: &Columns,
    numbers: Option<&mut Numbers>,
) -> Stopped<(Evaluator, DataType)> {
    let universe: &Universe = &columns.universe;
    let evaluator = Evaluator::new(expression, universe, numbers)?;
    let data_type = match expression.downcast_ref::<Column>() {
        Some(column) => columns.get(column.index())?.stored.data_type().clone(),
        None => expression.data_type(&universe.schema()).map_err(Stop::expression)?,
    };
    Ok((evaluator, data_type))
}

impl States {
    /// Makes room for groups.
    pub fn grow(&mut self, groups: usize) {
        if groups <= self.groups {
            return;
        }
        self.groups = groups;
        for state in &mut self.states {
            match state {
                State::Fold(fold) => fold.grow(groups),
                State::Accumulator(_) => {}
            }
        }
    }

    pub fn bytes(&self) -> usize {
        let of_states = self.states.iter().map(|state| match state {
            State::Fold(fold) => fold.bytes(),
            State::Accumulator(accumulator) => accumulator.size(),
        });
        of_states.sum::<usize>() + self.places.as_ref().map_or(0, Places::bytes)
    }

    /// Returns the groups of accumulators that some ids are, and how many there are.
    fn indices(&mut self, ids: impl Iterator<Item = u32>) -> (Vec<usize>, usize) {
        match &mut self.places {
            Some(places) => {
                let indices = ids.map(|id| places.number(id)).collect();
                (indices, places.ids.len())
            }
            None => (ids.map(|id| id as usize).collect(), self.groups),
        }
    }

    fn has_accumulator(&self) -> bool {
        self.states.iter().any(|state| matches!(state, State::Accumulator(_)))
    }

    /// Combines the rows of a chunk into the states of their groups.
    pub fn fold(
        &mut self,
        aggregates: &Aggregates,
        columns: &Columns,
        chunk: &Chunk,
        ids: Ids<'_>,
    ) -> Stopped<()> {
        let mut values = Values::new(columns, &aggregates.numbers, chunk);
        let mut passed: Vec<Option<Passed>> = aggregates.filters.iter().map(|_| None).collect();
        let (indices, groups) = match self.has_accumulator() {
            true => self.indices(ids.iter()),
            false => (Vec::new(), 0),
        };
        for (state, method) in self.states.iter_mut().zip(&aggregates.methods) {
            match (state, &method.kind, method.filter) {
                (State::Fold(fold), kind, Some(filter)) => {
                    let passed = match &mut passed[filter] {
                        Some(passed) => passed,
                        unknown => {
                            let (_, filter) = &aggregates.filters[filter];
                            unknown.insert(Passed::new(filter, columns, chunk, ids)?)
                        }
                    };
                    let mut values = Values::new(columns, &aggregates.numbers, &passed.chunk);
                    push(fold.as_mut(), kind, &mut values, passed.ids())?;
                }
                (State::Fold(fold), kind, None) => push(fold.as_mut(), kind, &mut values, ids)?,
                (State::Accumulator(accumulator), Kind::Accumulator { arguments, filter, .. }, _) => {
                    let arrays = arguments
                        .iter()
                        .map(|argument| values.get(argument)?.array())
                        .collect::<Stopped<Vec<ArrayRef>>>()?;
                    let filter = filter.as_ref().map(|filter| values.get(filter)?.array()).transpose()?;
                    let filter: Option<&BooleanArray> = filter.as_ref().map(|filter| filter.as_boolean());
                    accumulator.update_batch(&arrays, &indices, filter, groups).map_err(Stop::expression)?;
                }
                _ => return Err(Stop::Unfit("an aggregate has the states of another".into())),
            }
        }
        Ok(())
    }

    /// Returns the states as they are combined into those of other groups.
    pub fn into_partial(self) -> Stopped<Partials> {
        let partial = |state| match state {
            State::Fold(fold) => Ok(Partial::Fold(fold)),
            State::Accumulator(mut accumulator) => {
                Ok(Partial::Arrays(accumulator.state(EmitTo::All).map_err(Stop::expression)?))
            }
        };
        let states = self.states.into_iter().map(partial).collect::<Stopped<_>>()?;
        Ok(Partials { states, ids: self.places.map(|places| places.ids) })
    }

    /// Combines other states, in the order of their ids, into those of other groups.
    pub fn merge(&mut self, others: &Partials, ids: &[u32]) -> Stopped<()> {
        let (indices, groups) = match (&others.ids, self.has_accumulator()) {
            (_, false) => (Vec::new(), 0),
            (Some(with_row), true) => self.indices(with_row.iter().map(|id| ids[*id as usize])),
            (None, true) => self.indices(ids.iter().copied()),
        };
        for (state, other) in self.states.iter_mut().zip(&others.states) {
            match (state, other) {
                (State::Fold(fold), Partial::Fold(other)) => fold.merge(other.as_ref(), Ids::Each(ids))?,
                (State::Accumulator(accumulator), Partial::Arrays(states)) => {
                    if indices.is_empty() {
                        continue;
                    }
                    match states.first().map_or(0, |states| states.len()) {
                        // A function that was asked of no row has no states.
                        0 => continue,
                        known if known != indices.len() => {
                            return Err(Stop::Unfit("an accumulator lacks states".into()));
                        }
                        _ => {}
                    }
                    accumulator.merge_batch(states, &indices, groups).map_err(Stop::expression)?;
                }
                _ => return Err(Stop::Unfit("states of different aggregates".into())),
            }
        }
        Ok(())
    }

    /// Returns the results of all groups, in the types of the plan.
    pub fn finish(self, aggregates: &Aggregates) -> Stopped<Vec<ArrayRef>> {
        let mut found = Vec::with_capacity(self.states.len());
        for state in self.states {
            found.push(match state {
                State::Fold(fold) => fold.finish()?,
                State::Accumulator(mut accumulator) => {
                    let results = accumulator.evaluate(EmitTo::All).map_err(Stop::expression)?;
                    let known = self.places.as_ref().map_or(self.groups, |places| places.ids.len());
                    if results.len() != known {
                        return Err(Stop::Unfit("an accumulator was asked of no row".into()));
                    }
                    match &self.places {
                        Some(places) => places.spread(&results, self.groups)?,
                        None => results,
                    }
                }
            });
        }
        let mut results = Vec::with_capacity(aggregates.outcomes.len());
        for (outcome, planned) in aggregates.outcomes.iter().zip(&aggregates.planned) {
            let result = match outcome {
                Outcome::State(place) => found[*place].clone(),
                Outcome::OrZero { sum, rows, passed } => {
                    or_zero(&found[*sum], &found[*rows], &found[*passed])?
                }
                Outcome::Average { sum, count, scale } => average(&found[*sum], &found[*count], *scale),
            };
            results.push(as_type(&result, planned.function.field().data_type())?);
        }
        Ok(results)
    }
}

/// Combines rows into the states of a fold.
fn push(fold: &mut dyn Fold, kind: &Kind, values: &mut Values<'_>, ids: Ids<'_>) -> Stopped<()> {
    match kind {
        Kind::Rows => Ok(fold.fold(ids, None)?),
        Kind::Count(value) | Kind::Sum { value, .. } | Kind::Extreme { value, .. } => {
            let value = values.get(value)?;
            Ok(fold_column(fold, ids, value.column())?)
        }
        Kind::Accumulator { .. } => Err(Stop::Unfit("an aggregate has the states of another".into())),
    }
}

pub(super) fn average(sums: &ArrayRef, counts: &ArrayRef, scale: Option<i8>) -> ArrayRef {
    let counts = counts.as_primitive::<Int64Type>();
    let average = |group: usize| -> Option<f64> {
        let count = counts.value(group);
        if count == 0 {
            return None;
        }
        match scale {
            Some(scale) => {
                let sum = sums.as_primitive_opt::<Decimal128Type>()?.value(group);
                Some(nearest_quotient((sum, scale), (i128::from(count), 0)))
            }
            None => Some(sums.as_primitive_opt::<Float64Type>()?.value(group) / count as f64),
        }
    };
    Arc::new((0..counts.len()).map(average).collect::<Float64Array>())
}
