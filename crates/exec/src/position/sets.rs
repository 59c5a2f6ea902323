//! GROUPING SETS, ROLLUP and CUBE: the groups of all keys are computed once, and their states are
//! combined into those of each set.

use super::aggregate::{Aggregates, Partials};
use super::condition::is_kernel_type;
use super::stop::{Stop, Stopped};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::SchemaRef;
use hypostyle_position::group::{Groups, HashGroups};
use hypostyle_position::{Column, Rows};
use std::sync::Arc;

/// The groups of all keys.
pub(super) struct Finest<'a> {
    /// The keys of the groups that have a row, in the types of the plan.
    pub keys: Vec<ArrayRef>,
    /// The ids of these groups.
    pub rows: &'a [u32],
    /// A number that all ids are less than.
    pub groups: usize,
    pub states: Partials,
}

/// Returns the groups of each set. A set says of each key whether it is left out, and so NULL.
///
/// The columns are the keys, then the number of the set as DataFusion's `__grouping_id` has it, then
/// the results.
pub(super) fn coarsened(
    go_on: impl Fn() -> Stopped<()>,
    finest: &Finest<'_>,
    aggregates: &Aggregates,
    sets: &[Vec<bool>],
    schema: &SchemaRef,
) -> Stopped<Vec<RecordBatch>> {
    if finest.rows.is_empty() {
        // The set without keys has a row even then.
        return Err(Stop::Unfit("grouping sets of no rows".into()));
    }
    let keys = finest.keys.iter().map(Key::new).collect::<Stopped<Vec<_>>>()?;
    let mut batches = Vec::with_capacity(sets.len());
    for (place, set) in sets.iter().enumerate() {
        go_on()?;
        let before = sets[..place].iter().filter(|other| *other == set).count();
        batches.push(of_set(finest, &keys, aggregates, set, grouping_id(set, before)?, schema)?);
    }
    Ok(batches)
}

/// The values of a key as each set tells them apart.
struct Key {
    array: ArrayRef,
    /// The values that the array's numbers stand for, where it has numbers instead of texts: a text is
    /// hashed once, not for each set.
    values: Option<ArrayRef>,
}

impl Key {
    fn new(key: &ArrayRef) -> Stopped<Self> {
        if !is_kernel_type(key.data_type()) {
            return Err(Stop::Unfit(format!("keys of type {}", key.data_type())));
        }
        if key.data_type().is_primitive() {
            return Ok(Self { array: key.clone(), values: None });
        }
        let mut groups = HashGroups::new(&[(key.data_type().clone(), key.null_count() > 0)])?;
        let mut numbers = Vec::new();
        groups.ids(&[Column::all(key.as_ref())?], &mut numbers)?;
        let values = groups.keys(Rows::Range(0, groups.len() as u32))?.pop();
        Ok(Self { array: Arc::new(UInt32Array::from(numbers)), values })
    }

    /// Returns the values that were told apart.
    fn decoded(&self, array: ArrayRef) -> Stopped<ArrayRef> {
        match &self.values {
            Some(values) => take(values, &array, None).map_err(Stop::arrow),
            None => Ok(array),
        }
    }
}

/// Returns the number of a set: a bit for each key that is left out, and above them how many equal
/// sets come before.
fn grouping_id(set: &[bool], before: usize) -> Stopped<u64> {
    let bits = set.iter().fold(0_u64, |bits, left_out| bits << 1 | u64::from(*left_out));
    let before = (before as u64).checked_shl(set.len() as u32).filter(|_| set.len() < 64 || before == 0);
    Ok(bits | before.ok_or_else(|| Stop::Unfit("too many grouping sets".into()))?)
}

fn of_set(
    finest: &Finest<'_>,
    all: &[Key],
    aggregates: &Aggregates,
    set: &[bool],
    grouping_id: u64,
    schema: &SchemaRef,
) -> Stopped<RecordBatch> {
    let kept: Vec<&Key> =
        all.iter().zip(set).filter(|(_, left_out)| !**left_out).map(|(key, _)| key).collect();
    let types: Vec<_> =
        kept.iter().map(|key| (key.array.data_type().clone(), key.array.null_count() > 0)).collect();
    let mut ids = vec![0; finest.rows.len()];
    let mut keys = Vec::new();
    let mut count = 1;
    if !types.is_empty() {
        let mut groups = HashGroups::new(&types)?;
        let columns =
            kept.iter().map(|key| Column::all(key.array.as_ref())).collect::<Result<Vec<_>, _>>()?;
        groups.ids(&columns, &mut ids)?;
        count = groups.len();
        let found = groups.keys(Rows::Range(0, count as u32))?;
        keys = kept.iter().zip(found).map(|(key, found)| key.decoded(found)).collect::<Stopped<_>>()?;
    }
    // Folds of groups without a row have had nothing, and change nothing. Accumulators have no such groups.
    let mut of_finest = vec![0; finest.groups];
    for (row, id) in finest.rows.iter().zip(&ids) {
        of_finest[*row as usize] = *id;
    }
    let mut states = aggregates.states(false)?;
    states.grow(count);
    states.merge(&finest.states, &of_finest)?;
    let mut keys = keys.into_iter();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (field, left_out) in schema.fields().iter().zip(set) {
        columns.push(match left_out {
            true => new_null_array(field.data_type(), count),
            false => keys.next().ok_or_else(|| Stop::Unfit("a key is missing".into()))?,
        });
    }
    let number: ArrayRef = Arc::new(UInt64Array::from(vec![grouping_id; count]));
    columns.push(cast(&number, schema.field(set.len()).data_type()).map_err(Stop::arrow)?);
    columns.extend(states.finish(aggregates)?);
    RecordBatch::try_new(schema.clone(), columns).map_err(Stop::arrow)
}
