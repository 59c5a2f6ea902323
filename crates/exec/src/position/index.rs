//! Indexes that a flow uses besides those of keys: rows that have a value or lie between two, rows
//! that refer to few rows of another table, the row that each row refers to, and runs of rows that
//! cannot pass.
//!
//! Indexes are made when a query has wished for one twice (docs/decisions/0015). What they find is
//! looked at as any other row: conditions and joins decide, an index only leaves rows out.

use super::build::{Built, Place};
use super::condition::{self, Places};
use super::execution::Execution;
use super::flow::{Expression, Flow, Join, Kind, Mark, Step, TableSource, Universe};
use super::held;
use super::measure::Name;
use super::ready::Lists;
use super::reference::{Reference, reverse_index};
use super::stop::{Stopped, stored};
use arrow::array::{Array, ArrayRef};
use datafusion::physical_expr::expressions::Column;
use hypostyle_position::NO_POSITION;
use hypostyle_position::condition::{Comparison, Condition};
use hypostyle_storage::{DeclaredIndex, IndexKind, IndexSpec, TableData, TableKeys};
use hypostyle_types::ColumnId;
use std::ops::Bound;
use std::sync::Arc;

/// A table with fewer rows is read sooner than some of its rows are found.
pub(super) const ROWS_MIN: u64 = 1 << 16;

/// Rows are found by an index, and not read in order, if they are at most one of so many.
const FOUND_SHARE: u64 = 32;

/// Rows that refer to others may be so many times as many.
const REFERRING_SHARE: usize = 2;

/// Rows of a table to which so few others refer are found without an index.
pub(super) const REFERRED_ROWS_MIN: u64 = 1 << 13;

/// Rows that an index has found.
pub(super) struct Found {
    pub lists: Lists,
    pub name: Name,
    /// The join among those of the flow whose partners are found, too.
    pub join: Option<usize>,
}

/// A comparison of a table's column with constants.
pub(super) struct Compared {
    pub column: ColumnId,
    pub test: Test,
}

pub(super) enum Test {
    Constant(Comparison, ArrayRef),
    OneOf(ArrayRef),
}

/// Returns the slot and the columns of keys that are columns of one stored table.
pub(super) fn columns_of<'a>(
    universe: &Universe,
    keys: impl Iterator<Item = &'a Expression>,
) -> Option<(usize, Vec<ColumnId>)> {
    let mut found: Option<usize> = None;
    let mut ids = Vec::new();
    for key in keys {
        let column = universe.columns.get(key.downcast_ref::<Column>()?.index())?;
        if *found.get_or_insert(column.slot) != column.slot {
            return None;
        }
        ids.push(universe.table(column.slot)?.table.columns().get(column.column)?.entry().id);
    }
    Some((found?, ids))
}

/// Returns the stored table of a flow, if an index over it may be worth its time.
pub(super) fn large_table<'a>(universe: &'a Universe, flow: &Flow) -> Option<&'a TableSource> {
    universe.table(flow.slot).filter(|source| source.table.positions() >= ROWS_MIN)
}

/// Wishes for an index, and builds it when that was done before. Tells whether it has been built.
pub(super) fn wish(execution: &Execution, source: &TableSource, spec: &IndexSpec) -> Stopped<bool> {
    if !source.snapshot.wish_index(spec) {
        return Ok(false);
    }
    let proceed = || match &execution.meter {
        Some(meter) => meter.check(),
        None => Ok(()),
    };
    // What a pipeline looks up has one row for each key; what somebody has declared is built anyway.
    stored(source.snapshot.build_unique_index(spec, proceed))
}

/// Returns the index of columns of a table, if each of their keys has one row. Where there is none it is
/// wished for, and made at the second wish.
pub(super) fn unique_keys(
    execution: &Execution,
    source: &TableSource,
    columns: &[ColumnId],
) -> Stopped<Option<TableKeys>> {
    let spec = IndexSpec::key(source.table.entry().id, columns);
    let mut found = stored(source.snapshot.key_index(&source.table, columns))?;
    if found.is_none() && wish(execution, source, &spec)? {
        found = stored(source.snapshot.key_index(&source.table, columns))?;
    }
    Ok(found.filter(TableKeys::is_unique))
}

/// Returns the conditions of a flow's steps that compare columns of its table with constants, if it is
/// large.
pub(super) fn comparisons(execution: &Execution, flow: &Flow, steps: &[&Step]) -> Stopped<Vec<Compared>> {
    let universe = execution.universe();
    let mut found = Vec::new();
    let Some(source) = large_table(universe, flow) else { return Ok(found) };
    for step in steps {
        let Step::Filter(expression) = step else { continue };
        if universe.slots_of(expression) != [flow.slot] || universe.outer.contains(&flow.slot) {
            continue;
        }
        let mut places = Places::default();
        if let Some(condition) = condition::of_expression(expression, &execution.columns, &mut places)? {
            let column = |place: usize| {
                let column = universe.columns.get(*places.numbers.get(place)?)?;
                Some(source.table.columns().get(column.column)?.entry().id)
            };
            compared(condition, &column, &mut found);
        }
    }
    Ok(found)
}

/// Adds the comparisons that must all hold for a condition.
fn compared(condition: Condition, column: &impl Fn(usize) -> Option<ColumnId>, found: &mut Vec<Compared>) {
    let (place, test) = match condition {
        Condition::All(conditions) => {
            conditions.into_iter().for_each(|condition| compared(condition, column, found));
            return;
        }
        Condition::Compare { column, comparison, constant } if constant.null_count() == 0 => {
            (column, Test::Constant(comparison, constant))
        }
        Condition::In { column, constants, negated: false } => (column, Test::OneOf(constants)),
        _ => return,
    };
    found.extend(column(place).map(|column| Compared { column, test }));
}

/// Returns the columns of the indexes of one kind that the definition of a table asks for.
pub(super) fn declared(table: &TableData, kind: DeclaredIndex) -> impl Iterator<Item = &[ColumnId]> {
    let indexes = table.entry().indexes.iter().filter(move |index| index.kind == kind);
    indexes.map(|index| index.columns.as_slice())
}

/// Returns the keys of a table that may have an index.
pub(super) fn keys_of(table: &TableData) -> impl Iterator<Item = &[ColumnId]> {
    let keys = table.entry().constraints.iter().filter_map(|constraint| constraint.rule.key());
    keys.chain(declared(table, DeclaredIndex::Key))
}

/// Returns the rows that have the values of a key, or lie between two values in an order, if these
/// are few.
fn by_value(
    execution: &Execution,
    source: &TableSource,
    tests: &[Compared],
) -> Stopped<Option<(Vec<u32>, String)>> {
    let entry = source.table.entry();
    let equal = |column: &ColumnId| {
        tests.iter().find_map(|test| match &test.test {
            Test::Constant(Comparison::Equal, value) if test.column == *column => Some(value.clone()),
            _ => None,
        })
    };
    for key in keys_of(&source.table) {
        let Some(values) = key.iter().map(equal).collect::<Option<Vec<_>>>() else { continue };
        wish(execution, source, &IndexSpec::key(entry.id, key))?;
        let index = stored(source.snapshot.key_index(&source.table, key))?;
        if let Some(index) = index.filter(|index| index.accepts(&values)) {
            let name = format!("{} by key index ({})", entry.name, index.describe());
            return Ok(Some((stored(index.find_all(&values))?, name)));
        }
    }
    for column in declared(&source.table, DeclaredIndex::Order).flatten() {
        let Some((low, high)) = bounds(tests, *column) else { continue };
        let spec = IndexSpec { table: entry.id, columns: vec![*column], kind: IndexKind::Order };
        wish(execution, source, &spec)?;
        let Some(index) = stored(source.snapshot.order_index(&source.table, *column))? else { continue };
        let (low, high) = (low.as_ref(), high.as_ref());
        if index.count(low, high).is_ok_and(|count| is_few(count, source.table.positions())) {
            let name = format!("{} by order index ({})", entry.name, index.describe());
            let mut rows = stored(index.range(low, high))?;
            rows.sort_unstable();
            return Ok(Some((rows, name)));
        }
    }
    Ok(None)
}

/// Returns the bounds that comparisons set to a column; `None` where they set none.
fn bounds(tests: &[Compared], column: ColumnId) -> Option<(Bound<ArrayRef>, Bound<ArrayRef>)> {
    let (mut low, mut high) = (Bound::Unbounded, Bound::Unbounded);
    for test in tests.iter().filter(|test| test.column == column) {
        let Test::Constant(comparison, value) = &test.test else { continue };
        let included = Bound::Included(value.clone());
        match comparison {
            Comparison::Equal => (low, high) = (included.clone(), included),
            Comparison::Greater => low = Bound::Excluded(value.clone()),
            Comparison::GreaterOrEqual => low = included,
            Comparison::Less => high = Bound::Excluded(value.clone()),
            Comparison::LessOrEqual => high = included,
            Comparison::NotEqual => {}
        }
    }
    (!matches!((&low, &high), (Bound::Unbounded, Bound::Unbounded))).then_some((low, high))
}

pub(super) fn is_few(rows: usize, of: u64) -> bool {
    rows as u64 * FOUND_SHARE <= of
}

/// Returns the rows of a flow's table that may pass its steps, if an index finds them and they are
/// few.
pub(super) fn find(
    execution: &Execution,
    flow: &Flow,
    tests: &[Compared],
    joins: &[(&Join, Arc<Built>)],
) -> Stopped<Option<Found>> {
    let Some(source) = large_table(execution.universe(), flow) else { return Ok(None) };
    let found = match by_value(execution, source, tests)? {
        Some((rows, name)) => Some(Found::of(execution, flow.slot, rows, name)),
        None => by_reference(execution, flow, source, joins)?,
    };
    let Some(mut found) = found else { return Ok(None) };
    let may_pass = |row: u32| source.ranges.iter().any(|range| range.contains(&u64::from(row)));
    let rows = found.lists.lists.first().map(|(_, rows)| rows.as_slice()).unwrap_or_default();
    let places = (0_u32..).zip(rows).filter(|(_, row)| may_pass(**row)).map(|(place, _)| place);
    let places: Vec<u32> = places.collect();
    if places.len() < rows.len() {
        found.lists.keep(&places);
    }
    found.lists.hold_and_verify(execution, flow.slot)?;
    Ok(Some(found))
}

impl Found {
    fn of(execution: &Execution, slot: usize, rows: Vec<u32>, name: String) -> Self {
        let reservation = execution.reservation("PosJoinExec");
        let lists = Lists { rows: rows.len(), lists: vec![(slot, rows)], reservation };
        Self { lists, name: Name::Index(name), join: None }
    }
}

impl Lists {
    /// Accounts for the memory of rows that an index has found, and checks their blocks.
    fn hold_and_verify(&self, execution: &Execution, slot: usize) -> Stopped<()> {
        held::hold(&self.reservation, self.rows * 4 * self.lists.len())?;
        let own = self.lists.iter().find(|(of, _)| *of == slot);
        let Some((_, rows)) = own else { return Ok(()) };
        execution.columns.of_slot(slot).try_for_each(|column| column.verify_at(rows))
    }
}

/// Returns the rows that refer to the rows of a join's other side, with these, if they are few.
fn by_reference(
    execution: &Execution,
    flow: &Flow,
    source: &TableSource,
    joins: &[(&Join, Arc<Built>)],
) -> Stopped<Option<Found>> {
    let sides = joins.iter().enumerate();
    let sides = sides.filter_map(|(place, (join, built))| {
        Some((place, *join, built, built.referred(execution.universe(), join)?))
    });
    let Some((place, join, built, referred)) = sides.min_by_key(|(.., referred)| referred.len()) else {
        return Ok(None);
    };
    let table = execution.universe().name(flow.slot);
    let (places, rows, name) = match referred {
        [] => (Vec::new(), Vec::new(), format!("no row of {table} has a partner")),
        referred => {
            let Some(index) = reverse_index(execution, flow.slot, &join.keys, referred.len())? else {
                return Ok(None);
            };
            let (places, rows) = stored(index.expand(referred))?;
            (places, rows, format!("{table} by reverse index ({})", index.describe()))
        }
    };
    if !is_few(rows.len() / REFERRING_SHARE, source.table.positions()) {
        return Ok(None);
    }
    let mut found = Found { join: Some(place), ..Found::of(execution, flow.slot, rows, name) };
    if join.kind == Kind::Inner {
        for (slot, of_slot) in &built.slots {
            let Place::List(list) = of_slot else { return Ok(None) };
            let positions = places.iter().map(|place| list[*place as usize]).collect();
            found.lists.lists.push((*slot, positions));
        }
    }
    Ok(Some(found))
}

/// Returns the rows of a mark's other side that refer to some of the rows that were collected of a flow,
/// if these are few: no others find one of them.
pub(super) fn referring(
    execution: &Execution,
    mark: &Mark,
    flow: &Flow,
    lists: &Lists,
) -> Stopped<Option<Found>> {
    if large_table(execution.universe(), &mark.other).is_none() {
        return Ok(None);
    }
    let keys: Vec<_> = mark.keys.iter().map(|(own, other)| (other.clone(), own.clone())).collect();
    if let Some(found) = referring_by(execution, &mark.other, &keys, lists)? {
        return Ok(Some(found));
    }
    // A key equals that of a row which it was joined with, and may refer to this one.
    for join in flow.joins().filter(|join| join.kind == Kind::Inner && !join.nulls_equal) {
        let joined = |own: &Expression| join.keys.iter().find(|(probe, _)| probe == own);
        let keys = mark.keys.iter().map(|(own, other)| Some((other.clone(), joined(own)?.1.clone())));
        let Some(keys) = keys.collect::<Option<Vec<_>>>() else { continue };
        if let Some(found) = referring_by(execution, &mark.other, &keys, lists)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the rows of a flow's table that refer to some of the collected rows by these keys.
fn referring_by(
    execution: &Execution,
    flow: &Flow,
    keys: &[(Expression, Expression)],
    lists: &Lists,
) -> Stopped<Option<Found>> {
    let Some(reference) = Reference::of(execution.universe(), keys) else { return Ok(None) };
    let Some((_, rows)) = lists.lists.iter().find(|(slot, _)| *slot == reference.referred_slot) else {
        return Ok(None);
    };
    let mut referred: Vec<u32> = rows.iter().copied().filter(|row| *row != NO_POSITION).collect();
    referred.sort_unstable();
    referred.dedup();
    let Some(index) = reverse_index(execution, flow.slot, keys, referred.len())? else { return Ok(None) };
    let (_, rows) = stored(index.expand(&referred))?;
    let name = format!("{} by reverse index ({})", execution.universe().name(flow.slot), index.describe());
    let found = Found::of(execution, flow.slot, rows, name);
    found.lists.hold_and_verify(execution, flow.slot)?;
    Ok(Some(found))
}

impl Built {
    /// Returns the positions of the collected rows in the table of a join's key, each once. That table is
    /// not always the first one of the other side.
    fn referred<'a>(&'a self, universe: &Universe, join: &Join) -> Option<&'a [u32]> {
        if !matches!(join.kind, Kind::Inner | Kind::Semi)
            || !join.conditions.is_empty()
            || join.nulls_equal
            || !self.is_unique()
        {
            return None;
        }
        let (of_key, _) = columns_of(universe, join.keys.iter().map(|(_, key)| key))?;
        if universe.outer.contains(&of_key) {
            return None;
        }
        let (_, place) = self.slots.iter().find(|(slot, _)| *slot == of_key)?;
        match place {
            Place::List(list) => Some(list),
            Place::Same => None,
        }
    }
}
