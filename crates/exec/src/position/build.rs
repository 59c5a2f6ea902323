//! The other side of a join: its rows, and how they are found by a key.

use super::chunk::Chunk;
use super::evaluate::{Evaluator, Value, Values};
use super::flow::{Expression, Flow, Join, Source, Universe};
use super::number::{Numbers, integers};
use super::run::{Execution, Lists, ReadyFlow, collect, stored};
use super::stop::{Stop, Stopped};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::expressions::Column;
use hypostyle_position::join::{JoinBuilder, JoinTable};
use hypostyle_position::{NO_POSITION, Rows, Selection};
use hypostyle_storage::{IndexSpec, TableKeys};
use hypostyle_types::ColumnId;
use std::sync::Arc;

/// An array by key may have this many entries for each row, or this many in all.
const DENSE_ENTRIES: u128 = 64;
const DENSE_ENTRIES_MIN: u128 = 1 << 16;

/// Rows of tables that are too small for an index.
const INDEXED_ROWS_MIN: u64 = 1 << 16;

/// How a row is found by its key.
pub(super) enum Lookup {
    /// By the index of the table's key.
    Keys(TableKeys),
    /// In an array over all numbers from a lowest key on; each key has one row.
    Dense { low: i64, rows: Vec<u32> },
    Hash(JoinTable),
}

/// Where a slot's position is found by a row of the side.
#[derive(Debug)]
pub(super) enum Place {
    /// The row is the position.
    Same,
    List(Vec<u32>),
}

/// The collected rows of a join's side.
pub(super) struct Built {
    pub lookup: Lookup,
    pub slots: Vec<(usize, Place)>,
    /// The share of the table's rows that have passed.
    pub share: f64,
    /// Keys are read in the type of plans, because they are stored in different types.
    seen: bool,
    /// Holds the memory of the rows.
    _reservation: MemoryReservation,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.lookup {
            Lookup::Keys(_) => "key index",
            Lookup::Dense { .. } => "array",
            Lookup::Hash(_) => "hash table",
        })
    }
}

/// Returns the type in which an expression's value is stored.
fn stored_type(execution: &Execution, expression: &Expression) -> Stopped<DataType> {
    match expression.downcast_ref::<Column>() {
        Some(column) => Ok(execution.columns.get(column.index())?.stored.data_type().clone()),
        None => expression.data_type(&execution.columns.universe.schema()).map_err(Stop::expression),
    }
}

/// Tells whether keys are stored in different types on both sides of a join.
pub(super) fn differ(execution: &Execution, keys: &[(Expression, Expression)]) -> Stopped<bool> {
    let mut differ = false;
    for (one, other) in keys {
        let (one, other) = (stored_type(execution, one)?, stored_type(execution, other)?);
        differ |= value_type(&one) != value_type(&other);
    }
    Ok(differ)
}

impl Built {
    /// Collects the rows of a join's side.
    pub async fn make(execution: &Arc<Execution>, join: &Join) -> Stopped<Self> {
        let seen = differ(execution, &join.keys)?;
        let flow = &join.build;
        let ready = Arc::new(ReadyFlow::make(execution, flow).await?);
        if !seen
            && ready.passes_all()
            && let Some(keys) = key_index(execution, join)?
        {
            verify(execution, &[flow.slot])?;
            return Ok(Self {
                lookup: Lookup::Keys(keys),
                slots: vec![(flow.slot, Place::Same)],
                share: 1.0,
                seen,
                _reservation: execution.reservation("PosJoinExec"),
            });
        }
        let lists = collect(execution, &ready, &flow.row_slots()).await?;
        Self::index(execution, join, lists, seen)
    }

    fn index(execution: &Arc<Execution>, join: &Join, lists: Lists, seen: bool) -> Stopped<Self> {
        let Lists { rows, .. } = lists;
        let grow = |bytes: usize| {
            lists.reservation.try_grow(bytes).map_err(|_| Stop::Unfit("memory does not suffice".into()))
        };
        verify(execution, &lists.lists.iter().map(|(slot, _)| *slot).collect::<Vec<_>>())?;
        let chunk = lists.chunk(execution.universe().sources.len());
        let numbers = Numbers::default();
        let mut values = Values::new(&execution.columns, &numbers, &chunk);
        let evaluators = evaluators(join.keys.iter().map(|(_, build)| build), execution.universe(), seen)?;
        let keys = evaluators.iter().map(|key| values.get(key)).collect::<Stopped<Vec<_>>>()?;
        let dense = match keys.as_slice() {
            [key] => dense(key, rows, &grow)?,
            _ => None,
        };
        let lookup = match dense {
            Some(dense) => dense,
            None => Lookup::Hash(hash_table(&keys, rows, &grow)?),
        };
        let of = table_rows(execution, &join.build);
        let share = if of == 0 { 1.0 } else { rows as f64 / of as f64 };
        let Lists { lists, reservation, .. } = lists;
        let slots = lists.into_iter().map(|(slot, list)| (slot, Place::List(list))).collect();
        Ok(Self { lookup, slots, share, seen, _reservation: reservation })
    }

    /// Tells whether each key has one row at most.
    pub fn is_unique(&self) -> bool {
        match &self.lookup {
            Lookup::Keys(_) | Lookup::Dense { .. } => true,
            Lookup::Hash(table) => table.is_unique(),
        }
    }

    /// Returns how many rows a key has on average.
    pub fn partners_mean(&self) -> usize {
        match &self.lookup {
            Lookup::Hash(table) => {
                let rows = self.slots.first().map_or(0, |(_, place)| match place {
                    Place::Same => 0,
                    Place::List(list) => list.len(),
                });
                rows / table.keys().max(1)
            }
            Lookup::Keys(_) | Lookup::Dense { .. } => 1,
        }
    }

    /// Makes the keys of the other side ready.
    pub fn keys<'a>(
        &self,
        keys: impl Iterator<Item = &'a Expression>,
        universe: &Universe,
    ) -> Stopped<Vec<Evaluator>> {
        evaluators(keys, universe, self.seen)
    }

    /// Returns the partner of each row, the first one where there are several, or `NO_POSITION`.
    pub fn partners(&self, keys: &[Value<'_>], rows: usize) -> Stopped<Vec<u32>> {
        match &self.lookup {
            Lookup::Keys(index) => {
                let arrays = keys.iter().map(Value::array).collect::<Stopped<Vec<ArrayRef>>>()?;
                stored(index.find(&arrays))
            }
            Lookup::Dense { low, rows: by_key } => {
                let [key] = keys else { return Err(Stop::Unfit("an array has one key".into())) };
                let column = key.column();
                let array = match key {
                    Value::Rows(array, _) => (*array).clone(),
                    Value::Own(array) => array.clone(),
                };
                let Some(numbers) = integers(&array, column.rows) else {
                    return Err(Stop::Unfit("a key is no integer".into()));
                };
                let partner = |number: &i64| {
                    let place = number.wrapping_sub(*low) as u64;
                    usize::try_from(place).ok().and_then(|place| by_key.get(place)).copied().unwrap_or(NO_POSITION)
                };
                let mut partners: Vec<u32> = numbers.iter().map(partner).collect();
                if let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                    for (partner, row) in partners.iter_mut().zip(column.rows.iter()) {
                        if nulls.is_null(row as usize) {
                            *partner = NO_POSITION;
                        }
                    }
                }
                debug_assert_eq!(partners.len(), rows);
                Ok(partners)
            }
            Lookup::Hash(table) => {
                let columns: Vec<_> = keys.iter().map(Value::column).collect();
                Ok(table.probe(&columns)?.first_partners())
            }
        }
    }

    /// Adds the positions of partners to a chunk.
    pub fn put(&self, chunk: &mut Chunk, partners: &[u32]) {
        for (slot, place) in &self.slots {
            let positions = match place {
                Place::Same => partners.to_vec(),
                Place::List(list) => {
                    partners.iter().map(|row| list.get(*row as usize).copied().unwrap_or(NO_POSITION)).collect()
                }
            };
            chunk.put(*slot, Selection::List(positions));
        }
    }
}

/// Makes the table of the rows of some keys, which it names by their places.
pub(super) fn hash_table(
    keys: &[Value<'_>],
    rows: usize,
    grow: &impl Fn(usize) -> Stopped<()>,
) -> Stopped<JoinTable> {
    let types: Vec<DataType> = keys.iter().map(|key| value_type(key.data_type()).clone()).collect();
    let mut builder = JoinBuilder::new(&types)?;
    grow(builder.bytes_for(rows))?;
    builder.reserve(rows);
    let columns: Vec<_> = keys.iter().map(Value::column).collect();
    builder.push(&columns, Rows::Range(0, rows as u32))?;
    Ok(builder.finish())
}

fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

pub(super) fn evaluators<'a>(
    keys: impl Iterator<Item = &'a Expression>,
    universe: &Universe,
    seen: bool,
) -> Stopped<Vec<Evaluator>> {
    keys.map(|key| match seen {
        true => Evaluator::seen(key, universe),
        false => Evaluator::new(key, universe, None),
    })
    .collect()
}

/// Verifies all open columns of slots, whose rows are read in any order.
pub(super) fn verify(execution: &Execution, slots: &[usize]) -> Stopped<()> {
    for slot in slots {
        for column in execution.columns.of_slot(*slot) {
            column.verify_all()?;
        }
    }
    Ok(())
}

fn table_rows(execution: &Execution, flow: &Flow) -> u64 {
    match execution.columns.universe.sources.get(flow.slot) {
        Some(Source::Table(source)) => source.table.rows(),
        _ => 0,
    }
}

/// Returns an array by key, where the keys are integers that lie close together and each has one
/// row.
fn dense(key: &Value<'_>, rows: usize, grow: &impl Fn(usize) -> Stopped<()>) -> Stopped<Option<Lookup>> {
    let column = key.column();
    let array = match key {
        Value::Rows(array, _) => (*array).clone(),
        Value::Own(array) => array.clone(),
    };
    let Some(numbers) = integers(&array, column.rows) else { return Ok(None) };
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let valid: Option<Vec<bool>> =
        nulls.map(|nulls| column.rows.iter().map(|row| nulls.is_valid(row as usize)).collect());
    let is_valid = |place: usize| valid.as_ref().is_none_or(|valid| valid[place]);
    let bounds = numbers.iter().enumerate().filter(|(place, _)| is_valid(*place)).fold(None, |bounds, (_, number)| {
        let (low, high) = bounds.unwrap_or((*number, *number));
        Some((low.min(*number), high.max(*number)))
    });
    let Some((low, high)) = bounds else { return Ok(None) };
    let entries = (i128::from(high) - i128::from(low)) as u128 + 1;
    if entries > (rows as u128 * DENSE_ENTRIES).max(DENSE_ENTRIES_MIN) || entries > 1 << 30 {
        return Ok(None);
    }
    grow(entries as usize * 4)?;
    let mut by_key = vec![NO_POSITION; entries as usize];
    for (place, number) in numbers.iter().enumerate() {
        if !is_valid(place) {
            continue;
        }
        let entry = &mut by_key[number.wrapping_sub(low) as usize];
        if *entry != NO_POSITION {
            return Ok(None);
        }
        *entry = place as u32;
    }
    Ok(Some(Lookup::Dense { low, rows: by_key }))
}

/// Returns the index of the keys of a join's side, all of whose rows it is about. Where there is
/// none it is wished for, and made at the second wish.
fn key_index(execution: &Execution, join: &Join) -> Stopped<Option<TableKeys>> {
    let universe = &execution.columns.universe;
    let Some(Source::Table(source)) = universe.sources.get(join.build.slot) else { return Ok(None) };
    // What blocks' bounds have left out would be found again.
    let is_whole = source.ranges.iter().map(|range| range.end - range.start).sum::<u64>()
        == source.table.positions();
    if source.table.positions() < INDEXED_ROWS_MIN || !is_whole {
        return Ok(None);
    }
    let mut columns: Vec<ColumnId> = Vec::with_capacity(join.keys.len());
    for (_, build) in &join.keys {
        let Some(column) = build.downcast_ref::<Column>().and_then(|column| universe.columns.get(column.index()))
        else {
            return Ok(None);
        };
        match source.table.columns().get(column.column) {
            Some(data) if column.slot == join.build.slot => columns.push(data.entry().id),
            _ => return Ok(None),
        }
    }
    let table = source.table.entry().id;
    let found = |keys: TableKeys| keys.is_unique().then_some(keys);
    if let Some(keys) = stored(source.snapshot.key_index(table, &columns))? {
        return Ok(found(keys));
    }
    let spec = IndexSpec::key(table, &columns);
    if !source.snapshot.wish_index(&spec) {
        return Ok(None);
    }
    let proceed = || match &execution.meter {
        Some(meter) => meter.check(),
        None => Ok(()),
    };
    if !stored(source.snapshot.build_index(&spec, proceed))? {
        return Ok(None);
    }
    Ok(stored(source.snapshot.key_index(table, &columns))?.and_then(found))
}
