//! The other side of a join: its rows, and how they are found by a key.

use super::chunk::Chunk;
use super::evaluate::{Evaluator, Value, Values};
use super::execution::Execution;
use super::flow::{Expression, Flow, Join, TableSource, Universe};
use super::held;
use super::index::unique_keys;
use super::number::{Numbers, integers, known_places};
use super::ready::{Link, Lists, ReadyFlow, Wanted};
use super::reference::{Reference, Referred, is_short, join_index};
use super::run::{collect, places};
use super::stop::{Stop, Stopped, stored};
use super::table::value_type;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::expressions::Column;
use hypostyle_position::join::{JoinBuilder, JoinTable};
use hypostyle_position::{Bits, Column as KernelColumn, NO_POSITION, Rows, Selection};
use hypostyle_storage::{TableJoin, TableKeys};
use hypostyle_types::ColumnId;
use std::sync::Arc;
use std::time::Instant;

/// An array by key may have this many entries for each row, or this many in all.
const DENSE_ENTRIES: u128 = 4;
const DENSE_ENTRIES_MIN: u128 = 1 << 18;

/// Bits by key may be this many for each row.
const DENSE_BITS: u128 = 1 << 10;

/// The most numbers between the least and the greatest key for which there is a bit.
const KEY_BITS_MAX: u64 = 1 << 28;

/// Rows of tables that are too small for an index.
const INDEXED_ROWS_MIN: u64 = 1 << 13;

/// The rows that are put into a hash table, and those that are verified, before it is asked again whether
/// the statement goes on.
const PUSHED_ROWS: usize = 1 << 18;
const VERIFIED_ROWS: usize = 1 << 22;

/// A side with fewer rows is collected before the rows that flow are known.
const LARGE_ROWS: u64 = 1 << 18;

/// How a row is found by its key.
pub(super) enum Lookup {
    /// The index of the table's key finds it.
    Keys(TableKeys),
    /// The index of the rows that rows refer to has it, by the position of the row that flows. If
    /// only some rows were collected, the places of these stand at their positions.
    Followed {
        index: TableJoin,
        places: Option<Vec<u32>>,
    },
    /// An array over all numbers from a lowest key on has it; each key has one row. A bit for each number
    /// says whether there is a row, so that most of the other side's rows need not look into the
    /// array. Where keys lie further apart the array has an entry for each bit that is set, and its
    /// rank is the place of the entry.
    Dense {
        low: i64,
        rows: Vec<u32>,
        known: Bits,
        ranks: Option<Vec<u32>>,
    },
    Hash(JoinTable),
}

/// Where a slot's position is found by a row of the side.
#[derive(Debug)]
pub(super) enum Place {
    /// The row is the position.
    Same,
    List(Vec<u32>),
}

/// A bit for each number from a lowest one on, set where one of the keys has it.
struct Likely {
    /// The place of the key.
    key: usize,
    low: i64,
    known: Bits,
}

impl Likely {
    /// Makes the bits of that key which has the fewest numbers between the least and the greatest.
    fn of(keys: &[Value<'_>], grow: &impl Fn(usize) -> Stopped<()>) -> Stopped<Option<Self>> {
        let mut best: Option<(usize, u64)> = None;
        for (place, key) in keys.iter().enumerate() {
            let (array, rows) = key.parts();
            let numbers = integers(array, rows).unwrap_or_default();
            if let (Some(low), Some(high)) = (numbers.iter().min(), numbers.iter().max()) {
                let span = high.abs_diff(*low);
                // The more of the numbers there are, the fewer rows are refused.
                let share = span / numbers.len() as u64;
                if span < KEY_BITS_MAX && best.is_none_or(|(_, known)| share > known) {
                    best = Some((place, share));
                }
            }
        }
        let Some((place, _)) = best else { return Ok(None) };
        let bits = key_bits(&keys[place], grow)?;
        Ok(bits.map(|(low, known)| Self { key: place, low, known }))
    }
}

/// The collected rows of a join's side.
pub(super) struct Built {
    pub lookup: Lookup,
    pub slots: Vec<(usize, Place)>,
    /// What most rows of the other side are refused by before they look into a hash table.
    likely: Option<Likely>,
    /// The share of the table's rows that have passed.
    pub share: f64,
    /// The joins among the side's tables that have found at most one row for each key.
    pub links: Vec<Link>,
    /// The types of the keys that were collected.
    pub key_types: Vec<DataType>,
    /// Keys are read in the type of plans, because they are stored in different types.
    seen: bool,
    /// Holds the memory of the rows.
    _reservation: MemoryReservation,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.lookup_name())
    }
}

/// Returns the type in which an expression's value is stored.
fn stored_type(execution: &Execution, expression: &Expression) -> Stopped<DataType> {
    match expression.downcast_ref::<Column>() {
        Some(column) => match execution.columns.get(column.index()) {
            Ok(open) => Ok(open.stored.data_type().clone()),
            // An input, whose rows are not there yet, is collected in the types of plans.
            Err(_) => expression.data_type(&execution.columns.universe.schema()).map_err(Stop::expression),
        },
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
    /// Collects the rows of a join's side, or returns those that another pipeline has collected.
    pub async fn of(execution: &Arc<Execution>, join: &Join) -> Stopped<Arc<Self>> {
        let seen = differ(execution, &join.keys)?;
        let followed = match seen || join.nulls_equal {
            true => None,
            false => join_index(execution, join)?,
        };
        match (&execution.shared, &followed) {
            (Some(shared), None) => {
                let make = || Self::make(execution, join, seen, None, None);
                shared.side(&execution.columns.universe, join, seen, make).await
            }
            // An index of rows that refer to others is of the table whose rows flow.
            _ => Self::make(execution, join, seen, followed, None).await.map(Arc::new),
        }
    }

    /// Collects those rows of a join's side that have one of some keys. Where an index finds the rows of
    /// all keys, it does.
    pub async fn of_wanted(execution: &Arc<Execution>, join: &Join, wanted: Wanted) -> Stopped<Arc<Self>> {
        let seen = differ(execution, &join.keys)?;
        if !seen && (join_index(execution, join)?.is_some() || key_index(execution, join)?.is_some()) {
            return Self::of(execution, join).await;
        }
        Self::make(execution, join, seen, None, Some(wanted)).await.map(Arc::new)
    }

    async fn make(
        execution: &Arc<Execution>,
        join: &Join,
        seen: bool,
        followed: Option<Referred>,
        wanted: Option<Wanted>,
    ) -> Stopped<Self> {
        let flow = &join.build;
        let ready = Arc::new(ReadyFlow::make(execution, flow, wanted).await?);
        if !seen
            && !join.nulls_equal
            && ready.passes_all()
            && let Some(keys) = key_index(execution, join)?
        {
            let lookup = match followed {
                Some(Referred { index, .. }) => Lookup::Followed { index, places: None },
                None => Lookup::Keys(keys),
            };
            verify(execution, &[flow.slot])?;
            return Ok(Self {
                likely: None,
                links: Vec::new(),
                key_types: Vec::new(),
                lookup,
                slots: vec![(flow.slot, Place::Same)],
                share: 1.0,
                seen,
                _reservation: execution.reservation("PosJoinExec"),
            });
        }
        let lists = collect(execution, &ready, &flow.row_slots()).await?;
        let of = table_rows(execution, flow);
        let share = if of == 0 { 1.0 } else { lists.rows as f64 / of as f64 };
        let followed = match followed {
            Some(referred) => Self::followed(execution, referred, lists)?,
            None => Err(lists),
        };
        let mut built = match followed {
            Ok(built) => built,
            Err(lists) => {
                let keys = join.keys.iter().map(|(_, build)| build);
                Self::of_rows(execution, keys, lists, seen, join.nulls_equal)?
            }
        };
        built.share = share;
        built.links = ready.links().to_vec();
        Ok(built)
    }

    /// Makes the lookup of collected rows by the index of rows that refer to them. Gives the rows back if
    /// one of the table was collected several times.
    fn followed(
        execution: &Execution,
        Referred { index, slot, rows }: Referred,
        lists: Lists,
    ) -> Stopped<Result<Self, Lists>> {
        verify(execution, &lists.lists.iter().map(|(slot, _)| *slot).collect::<Vec<_>>())?;
        held::grow(&lists.reservation, rows * 4)?;
        let mut places = vec![NO_POSITION; rows];
        let own = lists.lists.iter().find(|(of, _)| *of == slot);
        for (place, position) in (0..).zip(own.iter().flat_map(|(_, list)| list)) {
            match places.get_mut(*position as usize) {
                Some(entry) if *entry == NO_POSITION => *entry = place,
                _ => {
                    lists.reservation.shrink(rows * 4);
                    return Ok(Err(lists));
                }
            }
        }
        let Lists { lists, reservation, .. } = lists;
        Ok(Ok(Self {
            lookup: Lookup::Followed { index, places: Some(places) },
            slots: lists.into_iter().map(|(slot, list)| (slot, Place::List(list))).collect(),
            likely: None,
            share: 1.0,
            links: Vec::new(),
            key_types: Vec::new(),
            seen: false,
            _reservation: reservation,
        }))
    }

    /// Makes what tells whether there is a row with some keys, which are read in the type of plans.
    pub fn of_keys(execution: &Arc<Execution>, keys: &[&Expression], mut lists: Lists) -> Stopped<Self> {
        if let [key] = keys
            && let Some(places) = first_of_each(execution, key, &lists)?
        {
            lists.keep(&places);
        }
        Self::of_rows(execution, keys.iter().copied(), lists, true, false)
    }

    /// Makes the lookup of collected rows by their keys.
    pub fn of_rows<'a>(
        execution: &Arc<Execution>,
        keys: impl Iterator<Item = &'a Expression>,
        lists: Lists,
        seen: bool,
        nulls_equal: bool,
    ) -> Stopped<Self> {
        let Lists { rows, .. } = lists;
        let begun = Instant::now();
        let grow = |bytes: usize| held::grow(&lists.reservation, bytes);
        verify(execution, &lists.lists.iter().map(|(slot, _)| *slot).collect::<Vec<_>>())?;
        let chunk = lists.chunk(execution.universe().sources.len());
        let numbers = Numbers::default();
        let mut values = Values::new(&execution.columns, &numbers, &chunk);
        let evaluators = evaluators(keys, execution.universe(), seen)?;
        let keys = evaluators.iter().map(|key| values.get(key)).collect::<Stopped<Vec<_>>>()?;
        let dense = match keys.as_slice() {
            [key] if !nulls_equal => dense(key, rows, &grow)?,
            _ => None,
        };
        let lookup = match dense {
            Some(dense) => dense,
            None => Lookup::Hash(hash_table(execution, &keys, rows, nulls_equal, &grow)?),
        };
        let likely = match &lookup {
            Lookup::Hash(_) if !nulls_equal => Likely::of(&keys, &grow)?,
            _ => None,
        };
        let key_types = keys.iter().map(|key| key.data_type().clone()).collect();
        let Lists { lists, reservation, .. } = lists;
        let slots = lists.into_iter().map(|(slot, list)| (slot, Place::List(list))).collect();
        let links = Vec::new();
        execution.measurements.once("build", rows, begun.elapsed());
        Ok(Self { lookup, slots, likely, share: 1.0, links, key_types, seen, _reservation: reservation })
    }

    /// Returns what EXPLAIN ANALYZE calls the way in which rows are found.
    pub fn lookup_name(&self) -> &'static str {
        match self.lookup {
            Lookup::Keys(_) => "key index",
            Lookup::Followed { .. } => "join index",
            Lookup::Dense { ranks: None, .. } => "array",
            Lookup::Dense { ranks: Some(_), .. } => "ranks",
            Lookup::Hash(_) => "hash table",
        }
    }

    /// Tells whether each key has one row at most.
    pub fn is_unique(&self) -> bool {
        match &self.lookup {
            Lookup::Keys(_) | Lookup::Followed { .. } | Lookup::Dense { .. } => true,
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
            Lookup::Keys(_) | Lookup::Followed { .. } | Lookup::Dense { .. } => 1,
        }
    }

    /// Makes keys of another pipeline ready; `None` where they are of other types.
    pub fn fitting(&self, keys: &[Expression], universe: &Universe) -> Stopped<Option<Vec<Evaluator>>> {
        let schema = universe.schema();
        let fits = |(key, known): (&Expression, &DataType)| {
            key.data_type(&schema).is_ok_and(|data_type| data_type == *known)
        };
        match self.seen && keys.len() == self.key_types.len() && keys.iter().zip(&self.key_types).all(fits) {
            true => Ok(Some(self.keys(keys.iter(), universe)?)),
            false => Ok(None),
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
            Lookup::Followed { index, places } => {
                let Some(Value::Rows(_, rows)) = keys.first() else {
                    return Err(Stop::Unfit("rows without positions are followed".into()));
                };
                let mut partners = follow(index, *rows)?;
                if let Some(places) = places {
                    let place = |row: u32| places.get(row as usize).copied().unwrap_or(NO_POSITION);
                    partners.iter_mut().for_each(|partner| *partner = place(*partner));
                }
                Ok(partners)
            }
            Lookup::Dense { rows: by_key, .. } => {
                let (places, entries) = self.entries(keys)?;
                let mut partners = vec![NO_POSITION; rows];
                for (place, entry) in places.iter().zip(&entries) {
                    partners[*place as usize] = by_key[*entry as usize];
                }
                Ok(partners)
            }
            Lookup::Hash(table) => {
                let columns: Vec<_> = keys.iter().map(Value::column).collect();
                Ok(table.probe(&columns)?.first_partners())
            }
        }
    }

    /// Returns the places of rows whose key is in the array, and the entries of these keys.
    fn entries(&self, keys: &[Value<'_>]) -> Stopped<(Vec<u32>, Vec<u32>)> {
        let (Lookup::Dense { low, known, ranks, .. }, [key]) = (&self.lookup, keys) else {
            return Err(Stop::Unfit("an array has one key".into()));
        };
        let (array, rows) = key.parts();
        let found = known_places(array, rows, *low, known);
        let (places, mut entries) = found.ok_or_else(|| Stop::Unfit("a key is no integer".into()))?;
        if let Some(ranks) = ranks {
            entries.iter_mut().for_each(|entry| *entry = known.rank(ranks, *entry));
        }
        Ok((places, entries))
    }

    /// Returns the places of rows that have a partner, and one partner of each.
    pub fn pairs(&self, keys: &[Value<'_>], rows: usize) -> Stopped<(Vec<u32>, Vec<u32>)> {
        if let Lookup::Dense { rows: by_key, .. } = &self.lookup {
            let (places, mut entries) = self.entries(keys)?;
            entries.iter_mut().for_each(|entry| *entry = by_key[*entry as usize]);
            return Ok((places, entries));
        }
        if let (Lookup::Hash(table), Some(Likely { key, low, known })) = (&self.lookup, &self.likely)
            && let Some(key) = keys.get(*key)
        {
            let (array, rows) = key.parts();
            let Some((mut places, _)) = known_places(array, rows, *low, known) else {
                return Err(Stop::Unfit("a key is no integer".into()));
            };
            let lists: Vec<Vec<u32>> = keys.iter().map(|key| key.parts().1.pick(&places)).collect();
            let mut columns = Vec::with_capacity(keys.len());
            for (key, list) in keys.iter().zip(&lists) {
                let (array, rows) = (key.parts().0.as_ref(), Rows::List(list));
                columns.push(hypostyle_position::Column { array, rows });
            }
            let mut partners = table.probe(&columns)?.first_partners();
            let mut found = partners.iter();
            places.retain(|_| found.next().is_some_and(|partner| *partner != NO_POSITION));
            partners.retain(|partner| *partner != NO_POSITION);
            return Ok((places, partners));
        }
        let mut partners = self.partners(keys, rows)?;
        let places = places(&partners, true);
        if places.len() < partners.len() {
            partners = places.iter().map(|place| partners[*place as usize]).collect();
        }
        Ok((places, partners))
    }

    /// Adds the positions of partners to a chunk.
    pub fn put(&self, chunk: &mut Chunk, partners: &[u32]) {
        for (slot, place) in &self.slots {
            let positions = match place {
                Place::Same => partners.to_vec(),
                Place::List(list) => partners
                    .iter()
                    .map(|row| list.get(*row as usize).copied().unwrap_or(NO_POSITION))
                    .collect(),
            };
            chunk.put(*slot, Selection::List(positions));
        }
    }
}

/// Returns the positions that some rows refer to.
fn follow(index: &TableJoin, rows: Rows<'_>) -> Stopped<Vec<u32>> {
    match (index.all(), rows) {
        (Some(all), Rows::Range(start, end)) if end as usize <= all.len() => {
            Ok(all[start as usize..end as usize].to_vec())
        }
        (_, Rows::List(list)) => stored(index.follow(list)),
        (_, range) => stored(index.follow(&range.iter().collect::<Vec<_>>())),
    }
}

/// Makes the table of the rows of some keys, which it names by their places.
pub(super) fn hash_table(
    execution: &Execution,
    keys: &[Value<'_>],
    rows: usize,
    nulls_equal: bool,
    grow: &impl Fn(usize) -> Stopped<()>,
) -> Stopped<JoinTable> {
    let types: Vec<DataType> = keys.iter().map(|key| value_type(key.data_type()).clone()).collect();
    let mut builder = JoinBuilder::new(&types, nulls_equal)?;
    grow(builder.bytes_for(rows))?;
    builder.reserve(rows);
    let columns: Vec<_> = keys.iter().map(Value::column).collect();
    for start in (0..rows).step_by(PUSHED_ROWS) {
        execution.check()?;
        let places = start..rows.min(start + PUSHED_ROWS);
        let range = Rows::Range(places.start as u32, places.end as u32);
        let mut parts = Vec::with_capacity(columns.len());
        for KernelColumn { array, rows } in &columns {
            parts.push(KernelColumn { array: *array, rows: rows.part(places.clone()) });
        }
        builder.push(&parts, range)?;
    }
    execution.check()?;
    Ok(builder.finish())
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

/// Verifies the rows of slots that may pass, which are read in any order, of all open columns.
pub(super) fn verify(execution: &Execution, slots: &[usize]) -> Stopped<()> {
    for slot in slots {
        let Some(source) = execution.universe().table(*slot) else { continue };
        for column in execution.columns.of_slot(*slot) {
            for range in &source.ranges {
                for start in range.clone().step_by(VERIFIED_ROWS) {
                    execution.check()?;
                    column.verify(start..range.end.min(start + VERIFIED_ROWS as u64))?;
                }
            }
        }
    }
    Ok(())
}

fn table_rows(execution: &Execution, flow: &Flow) -> u64 {
    execution.universe().table(flow.slot).map_or(0, |source| source.table.rows())
}

/// Returns a bit for each number between the least and the greatest key, set where there is a key.
pub(super) fn key_bits(
    key: &Value<'_>,
    grow: &impl Fn(usize) -> Stopped<()>,
) -> Stopped<Option<(i64, Bits)>> {
    let (array, rows) = key.parts();
    let Some(numbers) = integers(array, rows) else { return Ok(None) };
    let (Some(low), Some(high)) = (numbers.iter().min(), numbers.iter().max()) else { return Ok(None) };
    let span = high.abs_diff(*low);
    if span >= KEY_BITS_MAX {
        return Ok(None);
    }
    grow(Bits::bytes_for(span as usize + 1))?;
    let mut bits = Bits::new(span as usize + 1);
    let places: Vec<u32> = numbers.iter().map(|number| number.abs_diff(*low) as u32).collect();
    bits.set(Rows::List(&places))?;
    Ok(Some((*low, bits)))
}

/// Returns the place of the first row of each key, where the keys are integers that lie close together.
fn first_of_each(execution: &Execution, key: &Expression, lists: &Lists) -> Stopped<Option<Vec<u32>>> {
    let chunk = lists.chunk(execution.universe().sources.len());
    let numbers = Numbers::default();
    let mut values = Values::new(&execution.columns, &numbers, &chunk);
    let evaluator = Evaluator::seen(key, execution.universe())?;
    let value = values.get(&evaluator)?;
    let (array, rows) = value.parts();
    let Some(numbers) = integers(array, rows) else { return Ok(None) };
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let is_valid = |row: u32| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row as usize));
    let keyed = || (0_u32..).zip(rows.iter()).zip(&numbers).filter(|((_, row), _)| is_valid(*row));
    let (low, high) =
        keyed().fold((i64::MAX, i64::MIN), |(low, high), (_, number)| (low.min(*number), high.max(*number)));
    if low > high {
        return Ok(Some(Vec::new()));
    }
    let span = high.abs_diff(low);
    if span >= KEY_BITS_MAX {
        return Ok(None);
    }
    let mut seen = vec![0_u64; span as usize / 64 + 1];
    held::grow(&lists.reservation, seen.len() * 8)?;
    let mut places = Vec::new();
    for ((place, _), number) in keyed() {
        let bit = number.abs_diff(low);
        let word = &mut seen[(bit / 64) as usize];
        if *word >> (bit % 64) & 1 == 0 {
            *word |= 1 << (bit % 64);
            places.push(place);
        }
    }
    lists.reservation.shrink(seen.len() * 8);
    Ok(Some(places))
}

/// Returns an array by key, where the keys are integers that lie close together and each has one
/// row.
fn dense(key: &Value<'_>, rows: usize, grow: &impl Fn(usize) -> Stopped<()>) -> Stopped<Option<Lookup>> {
    let column = key.column();
    let (array, _) = key.parts();
    let Some(numbers) = integers(array, column.rows) else { return Ok(None) };
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let keyed = || {
        let is_valid = |row: u32| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row as usize));
        let of_rows = (0_u32..).zip(column.rows.iter()).zip(&numbers);
        of_rows.filter(move |((_, row), _)| is_valid(*row)).map(|((place, _), number)| (place, *number))
    };
    let bounds = keyed().fold(None, |bounds, (_, number)| {
        let (low, high) = bounds.unwrap_or((number, number));
        Some((number.min(low), number.max(high)))
    });
    let Some((low, high)) = bounds else { return Ok(None) };
    let entries = (i128::from(high) - i128::from(low)) as u128 + 1;
    let has_array = entries <= (rows as u128 * DENSE_ENTRIES).max(DENSE_ENTRIES_MIN);
    if !has_array && entries > rows as u128 * DENSE_BITS || entries > 1 << 30 {
        return Ok(None);
    }
    let entries = entries as usize;
    grow(Bits::bytes_for(entries))?;
    let mut known = Bits::new(entries);
    let entry = |number: i64| number.wrapping_sub(low) as u32;
    let set: Vec<u32> = keyed().map(|(_, number)| entry(number)).collect();
    known.set(Rows::List(&set))?;
    if known.count() < set.len() {
        return Ok(None);
    }
    let ranks = match has_array {
        true => None,
        false => {
            grow(entries.div_ceil(u64::BITS as usize) * size_of::<u32>())?;
            Some(known.ranks())
        }
    };
    let length = if has_array { entries } else { set.len() };
    grow(length * size_of::<u32>())?;
    let mut by_key = vec![NO_POSITION; length];
    for ((place, _), entry) in keyed().zip(set) {
        let entry = ranks.as_ref().map_or(entry, |ranks| known.rank(ranks, entry));
        by_key[entry as usize] = place;
    }
    Ok(Some(Lookup::Dense { low, rows: by_key, known, ranks }))
}

/// Returns the table and the columns of a key of a join's side that an index may be about.
pub(super) fn indexed_key<'a>(
    universe: &'a Universe,
    join: &Join,
) -> Option<(&'a TableSource, Vec<ColumnId>)> {
    let source = universe.table(join.build.slot)?;
    // What blocks' bounds have left out would be found again.
    let is_whole =
        source.ranges.iter().map(|range| range.end - range.start).sum::<u64>() == source.table.positions();
    if source.table.positions() < INDEXED_ROWS_MIN || !is_whole || !join.build.is_plain() || join.nulls_equal
    {
        return None;
    }
    let mut columns: Vec<ColumnId> = Vec::with_capacity(join.keys.len());
    for (_, build) in &join.keys {
        let column = build.downcast_ref::<Column>()?;
        let column = universe.columns.get(column.index()).filter(|column| column.slot == join.build.slot)?;
        columns.push(source.table.columns().get(column.column)?.entry().id);
    }
    Some((source, columns))
}

/// Returns the index of the keys of a join's side, all of whose rows it is about. Where there is
/// none it is wished for, and made at the second wish.
fn key_index(execution: &Execution, join: &Join) -> Stopped<Option<TableKeys>> {
    let Some((source, columns)) = indexed_key(&execution.columns.universe, join) else { return Ok(None) };
    unique_keys(execution, source, &columns)
}

/// Returns the rows of the table that a join's side begins with, if it is large and no index finds its
/// rows.
pub(super) fn large_side(execution: &Execution, join: &Join) -> Stopped<Option<u64>> {
    let universe = execution.universe();
    let rows = table_rows(execution, &join.build);
    if rows < LARGE_ROWS || join.nulls_equal || join.restricted.is_some() {
        return Ok(None);
    }
    let is_followed = match Reference::of(universe, &join.keys) {
        Some(reference) if !is_short(universe, &join.keys) => reference.is_indexed()?,
        _ => false,
    };
    Ok((!is_followed && !has_key_index(execution, join)?).then_some(rows))
}

/// Tells whether there is the index of the keys of a join's side.
fn has_key_index(execution: &Execution, join: &Join) -> Stopped<bool> {
    let Some((source, columns)) = indexed_key(&execution.columns.universe, join) else { return Ok(false) };
    let index = stored(source.snapshot.key_index(&source.table, &columns))?;
    Ok(index.is_some_and(|index| index.is_unique()))
}
