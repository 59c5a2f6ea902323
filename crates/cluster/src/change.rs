//! What a statement changes in a table of the cluster: rows that it deletes, by their places, and rows
//! that it appends. An update does both.
//!
//! A row's place is the number of its fragment and, in its lower 40 bits, the number of rows before it
//! there which are not deleted. So it is the same on all replicas, whatever else they have.

use crate::rows::RowReader;
use crate::state::batches;
use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchIterator, UInt32Array, UInt64Array, new_null_array,
};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt32Type, UInt64Type};
use arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use hypostyle_placement::catalog::{Catalog, Found, Fragment, Restarted};
use hypostyle_placement::{Epoch, FragmentId};
use hypostyle_storage::{Budget, TableData, Transaction};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The bits of a place that say which row of its fragment it is.
const ROW_BITS: u32 = 40;

/// The bit of the place of a row that is not published: its transaction has appended it, and the others are
/// its position there.
pub const OWN: u64 = 1 << 63;

/// The name of the places of deleted rows, where they travel.
const PLACE: &str = "__deleted";

/// The name of the numbers of tables, where several travel.
const TABLE: &str = "__table";

/// The places that travel in one batch.
const PLACES: usize = 64 * 1024;

/// The rows that a statement appends.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// They are there.
    Batches(&'a [RecordBatch]),
    /// All rows of a table that are not deleted. They are read as often as they are sent.
    Table(&'a Arc<TableData>),
    /// The rows that it deletes, with other values.
    Values(&'a Values),
}

/// New values of rows that a statement deletes. They stay in their fragments, and the nodes that have them
/// keep their values in all other columns.
#[derive(Clone, Debug)]
pub struct Values {
    /// The places of the columns that have new values.
    pub columns: Vec<usize>,
    /// These values, in the order of the places of the rows.
    pub rows: Vec<RecordBatch>,
}

/// What a statement does to a table of the cluster.
#[derive(Clone, Copy)]
pub struct Changes<'a> {
    /// The rows that it appends.
    pub rows: Rows<'a>,
    /// The places of the rows that it deletes.
    pub deleted: &'a RoaringTreemap,
    /// How the table was when these were found.
    pub seen: &'a Seen,
    /// What gives memory for what is kept of them until the nodes have them.
    pub memory: &'a dyn Budget,
}

/// What a statement has seen of the table that it changes: if it differs from what is there when the
/// statement is published, the statement is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The epoch in which the table was altered the last time.
    pub(crate) altered: Epoch,
    /// How many rows were ever deleted of the fragments of which the statement deletes some.
    deletions: BTreeMap<u32, u64>,
    /// How many rows each fragment has ever had, if none has a key of the new rows. An earlier release does
    /// not know this, and refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    free: Option<Vec<u64>>,
    /// What it has found in tables that foreign keys connect with this one. An earlier release does not
    /// know this, and refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) found: Vec<Found>,
    /// How many replicas of each fragment have to have what the statement changes, if one is not enough. An
    /// earlier release does not know this, and refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) synced: Option<u32>,
    /// The columns that the statement has count anew, once it is published. An earlier release does not know
    /// this, and refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) restarts: Vec<Restarted>,
}

/// What a statement has looked for in a table, for a foreign key of the one that it changes, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Looked {
    /// The table.
    pub table: TableId,
    /// What it has looked for.
    pub what: Wanted,
    /// Whether rows that the foreign key connects are in fragments of equal numbers.
    pub together: bool,
}

/// What a statement looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// Keys that its new rows refer to: none of them may go.
    Keys,
    /// Rows that refer to keys which it takes away: none may come.
    References,
}

/// Returns what a statement that changes a table has found in others, as a catalog says it, and which tables
/// it knows to refer to this one.
pub fn found(catalog: &Catalog, table: TableId, looked: impl IntoIterator<Item = Looked>) -> Vec<Found> {
    let mut found: BTreeMap<TableId, Found> =
        catalog.referring(table).map(|other| (other.id, Found::nothing(other.id))).collect();
    for Looked { table: id, what, together } in looked {
        let fragments = catalog.table(id).map(|table| table.fragments.iter());
        let fragments = fragments.into_iter().flatten();
        let of_table = found.entry(id).or_insert_with(|| Found::nothing(id));
        let is_first = of_table.rows.is_empty() && of_table.deleted.is_empty();
        of_table.together = together && (is_first || of_table.together);
        match what {
            Wanted::Keys => of_table.deleted = fragments.map(|fragment| fragment.deleted).collect(),
            Wanted::References => of_table.rows = fragments.map(Fragment::rows_ever).collect(),
        }
    }
    found.into_values().collect()
}

/// Returns what a transaction has found that has locked rows of fragments of some tables, as a catalog says
/// it: none of these fragments may lose rows. Of a table without fragments here, none may: all are named.
pub fn locked(catalog: &Catalog, rows: &BTreeMap<TableId, Option<BTreeSet<u32>>>) -> Vec<Found> {
    let of_table = |(id, locked): (&TableId, &Option<BTreeSet<u32>>)| {
        let table = catalog.table(*id)?;
        let deleted = table.fragments.iter().map(|fragment| fragment.deleted).collect();
        let all = || (0..).zip(&table.fragments).map(|(number, _)| number).collect();
        let fragments: Vec<u32> = locked.as_ref().map_or_else(all, |locked| locked.iter().copied().collect());
        Some(Found { deleted, fragments, ..Found::nothing(*id) })
    };
    rows.iter().filter_map(of_table).collect()
}

/// Returns the fragments of rows that a transaction has found: those that it has appended itself are in none.
pub fn fragments_of(places: RoaringTreemap) -> BTreeSet<u32> {
    by_fragment(&own_and_published(places).1).into_keys().collect()
}

impl Seen {
    /// Returns what a catalog says of a table, for a statement that deletes rows at some places.
    ///
    /// # Errors
    /// `Conflict` if the catalog has no such table.
    pub fn of(catalog: &Catalog, table: TableId, deleted: &RoaringTreemap) -> Result<Self> {
        let gone = || Error::new(ErrorKind::Conflict, "the table was dropped meanwhile");
        let altered = catalog.table(table).ok_or_else(gone)?.layout.altered;
        let deletions = by_fragment(deleted).into_keys().filter_map(|number| {
            let fragment = catalog.fragment(FragmentId { table, number })?;
            Some((number, fragment.deleted))
        });
        let deletions = deletions.collect();
        let (found, restarts) = (Vec::new(), Vec::new());
        Ok(Self { altered, deletions, free: None, found, synced: None, restarts })
    }

    /// Says how many replicas of each fragment have to have what the statement changes.
    #[must_use]
    pub fn wanting_replicas(self, least: u32) -> Self {
        Self { synced: Some(least).filter(|least| *least > 1), ..self }
    }

    /// Has columns count anew when the statement is published.
    #[must_use]
    pub fn restarting(self, restarts: Vec<Restarted>) -> Self {
        Self { restarts, ..self }
    }

    /// Returns what a statement has seen that has also looked into tables which foreign keys connect with
    /// this one.
    #[must_use]
    pub fn with_found(self, found: Vec<Found>) -> Self {
        Self { found, ..self }
    }

    /// Returns what a statement has seen that has found no row with a key of its new ones, either.
    #[must_use]
    pub fn with_free_keys(self, catalog: &Catalog, table: TableId) -> Self {
        let fragments = catalog.table(table).map(|table| table.fragments.iter());
        Self { free: Some(fragments.into_iter().flatten().map(Fragment::rows_ever).collect()), ..self }
    }

    /// Returns what a statement has seen that was published before. If the coordinator does not know it any
    /// more, it adds no row: nobody has looked for its keys.
    #[must_use]
    pub fn of_known_statement(self) -> Self {
        Self { free: Some(Vec::new()), ..self }
    }

    /// Returns how many rows a fragment had ever had when no key of the new rows was found there; `None` if
    /// nobody has looked for keys.
    pub(crate) fn free(&self, fragment: u32) -> Option<u64> {
        let free = self.free.as_ref()?;
        let of_fragment = usize::try_from(fragment).ok().and_then(|number| free.get(number));
        Some(of_fragment.copied().unwrap_or(u64::MAX))
    }

    /// Returns how many rows were ever deleted of a fragment; a number that no fragment has, if the statement
    /// has not seen it.
    pub(crate) fn deletions(&self, fragment: u32) -> u64 {
        self.deletions.get(&fragment).copied().unwrap_or(u64::MAX)
    }
}

/// Gives as much memory as is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Unlimited;

impl Budget for Unlimited {
    fn take(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Sorts places by their fragments. Within one, they are those of rows.
pub fn by_fragment(places: &RoaringTreemap) -> BTreeMap<u32, RoaringTreemap> {
    let mut fragments = BTreeMap::<u32, RoaringTreemap>::new();
    for place in places {
        let number = u32::try_from(place >> ROW_BITS).unwrap_or(u32::MAX);
        fragments.entry(number).or_default().insert(place & ((1 << ROW_BITS) - 1));
    }
    fragments
}

/// Divides places into the positions of rows that the transaction itself has appended, and the places of
/// published ones.
pub fn own_and_published(mut places: RoaringTreemap) -> (RoaringTreemap, RoaringTreemap) {
    let mut own = places.iter();
    own.advance_to(OWN);
    let own: RoaringTreemap = own.map(|place| place & !OWN).collect();
    places.remove_range(OWN..);
    (own, places)
}

/// Returns the places of all rows of a fragment.
pub fn all_of(fragment: u32, rows: u64) -> std::ops::Range<u64> {
    let first = u64::from(fragment) << ROW_BITS;
    first..first.saturating_add(rows)
}

/// Returns a function of positions that gives the places of these rows of a fragment.
pub fn places(fragment: u32, table: &Arc<TableData>) -> ScalarUDF {
    let (first, table) = (all_of(fragment, 0).start, table.clone());
    let of = move |arguments: &[ColumnarValue]| -> PlanResult<ColumnarValue> {
        let [ColumnarValue::Array(positions)] = arguments else {
            return Err(DataFusionError::Internal("places are of positions".into()));
        };
        let rows = rows_before(table.deleted(), positions.as_primitive::<UInt64Type>().values());
        let places = rows.into_iter().map(|rows| first + rows);
        Ok(ColumnarValue::Array(Arc::new(UInt64Array::from_iter_values(places))))
    };
    create_udf("place", vec![DataType::UInt64], DataType::UInt64, Volatility::Immutable, Arc::new(of))
}

/// Returns how many rows that are not deleted are before each position. Positions in order, as a scan
/// gives them, cost little.
fn rows_before(deleted: &RoaringTreemap, positions: &[u64]) -> Vec<u64> {
    let from = |position: u64| {
        let mut following = deleted.iter();
        following.advance_to(position);
        (position.checked_sub(1).map_or(0, |last| deleted.rank(last)), following.peekable())
    };
    let mut known = positions.first().copied().unwrap_or(0);
    let (mut before, mut following) = from(known);
    let rows = |position: &u64| {
        if *position < known {
            (before, following) = from(*position);
        }
        known = *position;
        while following.next_if(|deleted| deleted < position).is_some() {
            before += 1;
        }
        position - before
    };
    positions.iter().map(rows).collect()
}

/// Returns the positions of the rows at some places of a fragment, as far as there are such rows.
pub fn positions_at(table: &TableData, places: &RoaringTreemap) -> RoaringTreemap {
    let mut deleted = table.deleted().iter().peekable();
    let (mut positions, mut before) = (RoaringTreemap::new(), 0);
    // There is no row at a place behind all positions. Another node may say one that no sum has room for.
    for place in places.iter().take_while(|place| *place < table.positions()) {
        while deleted.next_if(|deleted| *deleted <= place + before).is_some() {
            before += 1;
        }
        if place + before < table.positions() {
            positions.insert(place + before);
        }
    }
    positions
}

/// A part of what travels to a replica.
pub enum Part {
    /// The places of rows that are deleted.
    Places(Vec<u64>),
    /// New rows.
    Rows(RecordBatch),
}

/// Batches of rows on their way to other nodes.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// What is sent to a fragment: new rows, and the places of those that are deleted.
pub struct OfFragment {
    /// The new rows.
    pub rows: Batches,
    /// The places of deleted rows.
    pub deleted: RoaringTreemap,
}

/// Returns what is sent to several fragments, one after the other: of each the places of deleted rows before
/// new rows, which have a schema. If no row is deleted, there is no column of places.
pub fn to_send(schema: &SchemaRef, fragments: Vec<OfFragment>) -> RowReader {
    let failed = |error: Error| ArrowError::ExternalError(Box::new(error));
    if fragments.iter().all(|of| of.deleted.is_empty()) {
        let rows = fragments.into_iter().flat_map(|of| of.rows).map(move |rows| rows.map_err(failed));
        return Box::new(RecordBatchIterator::new(rows, schema.clone()));
    }
    let with_places = WithPlaces::of(schema);
    let schema = with_places.schema.clone();
    let batches = fragments.into_iter().flat_map(move |OfFragment { rows, deleted }| {
        let (of_places, of_rows) = (with_places.clone(), with_places.clone());
        let places: Vec<u64> = deleted.iter().collect();
        let places: Vec<Vec<u64>> = places.chunks(PLACES).map(<[u64]>::to_vec).collect();
        let places = places.into_iter().map(move |places| of_places.of_places(places));
        places.chain(rows.map(move |rows| of_rows.of_rows(&rows?)))
    });
    let batches = batches.map(move |batch: Result<RecordBatch>| batch.map_err(failed));
    Box::new(RecordBatchIterator::new(batches, schema))
}

/// What is sent of one of several tables.
pub struct OfTable {
    /// The schema of its new rows; that of none has no columns.
    pub schema: SchemaRef,
    /// Its new rows, and the places of deleted ones.
    pub changes: OfFragment,
}

/// Returns what is sent of several tables, one after the other. A batch has the columns of all of them, of
/// which only those of its table have values, the places of deleted rows, and the number of its table.
pub fn to_send_of_tables(tables: Vec<OfTable>) -> RowReader {
    let mut columns: Vec<FieldRef> = Vec::new();
    let mut firsts = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        firsts.push(columns.len());
        columns.extend(table.schema.fields().iter().map(|field| {
            let name = format!("{number}.{}", field.name());
            Arc::new(field.as_ref().clone().with_name(name).with_nullable(true))
        }));
    }
    let mut fields = columns.clone();
    fields.push(Arc::new(Field::new(PLACE, DataType::UInt64, true)));
    fields.push(Arc::new(Field::new(TABLE, DataType::UInt32, false)));
    let of_tables = Arc::new(OfTables { columns, firsts, schema: Arc::new(Schema::new(fields)) });
    let schema = of_tables.schema.clone();
    let batches = tables.into_iter().enumerate().flat_map(move |(number, OfTable { changes, .. })| {
        let (of_places, of_rows) = (of_tables.clone(), of_tables.clone());
        let places: Vec<u64> = changes.deleted.iter().collect();
        let places: Vec<Vec<u64>> = places.chunks(PLACES).map(<[u64]>::to_vec).collect();
        let places = places.into_iter().map(move |places| of_places.batch(number, None, Some(places)));
        places.chain(changes.rows.map(move |rows| of_rows.batch(number, Some(rows?), None)))
    });
    let failed = |error: Error| ArrowError::ExternalError(Box::new(error));
    Box::new(RecordBatchIterator::new(batches.map(move |batch| batch.map_err(failed)), schema))
}

/// The columns of several tables, one for places, and one for the numbers of tables.
struct OfTables {
    columns: Vec<FieldRef>,
    /// The first column of each table.
    firsts: Vec<usize>,
    schema: SchemaRef,
}

impl OfTables {
    fn batch(
        &self,
        table: usize,
        rows: Option<RecordBatch>,
        places: Option<Vec<u64>>,
    ) -> Result<RecordBatch> {
        let failed =
            |why: String| Error::internal(format!("cannot arrange what a transaction changes: {why}"));
        let count = rows.as_ref().map_or(0, RecordBatch::num_rows) + places.as_ref().map_or(0, Vec::len);
        let first = self.firsts.get(table).copied().unwrap_or_default();
        let own = rows.as_ref().map(RecordBatch::columns).unwrap_or_default();
        let value = |(place, field): (usize, &FieldRef)| {
            let own = place.checked_sub(first).and_then(|place| own.get(place));
            own.cloned().unwrap_or_else(|| new_null_array(field.data_type(), count))
        };
        let mut values: Vec<ArrayRef> = self.columns.iter().enumerate().map(value).collect();
        values.push(Arc::new(match places {
            Some(places) => UInt64Array::from(places),
            None => UInt64Array::new_null(count),
        }));
        let table = u32::try_from(table).map_err(|error| failed(error.to_string()))?;
        values.push(Arc::new(UInt32Array::from_value(table, count)));
        RecordBatch::try_new(self.schema.clone(), values).map_err(|error| failed(error.to_string()))
    }
}

/// Returns the number of the table that a batch of several tables is of, and what it has; `widths` are the
/// numbers of their columns.
///
/// # Errors
/// `Connection` (08P01) for a batch of another form.
pub fn part_of_tables(batch: &RecordBatch, widths: &[usize]) -> Result<(usize, Part)> {
    let wrong = || {
        Error::new(ErrorKind::Connection, "a transaction came with rows of no table of it")
            .with_sqlstate("08P01")
    };
    // Another node has said them.
    let columns = widths.iter().try_fold(0_usize, |sum, width| sum.checked_add(*width)).ok_or_else(wrong)?;
    let is_named = |place: usize, name: &str| batch.schema_ref().field(place).name() == name;
    let has_all = batch.num_columns().checked_sub(2) == Some(columns);
    if !has_all || !is_named(columns, PLACE) || !is_named(columns + 1, TABLE) {
        return Err(wrong());
    }
    let tables = batch.column(columns + 1).as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
    let table = tables.values().first().copied().ok_or_else(wrong)?;
    if tables.null_count() > 0 || tables.values().iter().any(|other| *other != table) {
        return Err(wrong());
    }
    let table = usize::try_from(table).map_err(|_| wrong())?;
    let (width, first) = (*widths.get(table).ok_or_else(wrong)?, widths.iter().take(table).sum::<usize>());
    let mut wanted: Vec<usize> = (first..first + width).collect();
    wanted.push(columns);
    let own = batch.project(&wanted).map_err(|_| wrong())?;
    part_of(&own, true).map(|part| (table, part))
}

/// The columns of rows, and one for places.
#[derive(Clone)]
struct WithPlaces {
    columns: Vec<FieldRef>,
    schema: SchemaRef,
}

impl WithPlaces {
    fn of(rows: &SchemaRef) -> Self {
        let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
        let columns: Vec<FieldRef> = rows.fields().iter().map(nullable).collect();
        let mut fields = columns.clone();
        fields.push(Arc::new(Field::new(PLACE, DataType::UInt64, true)));
        Self { columns, schema: Arc::new(Schema::new(fields)) }
    }

    fn of_places(&self, places: Vec<u64>) -> Result<RecordBatch> {
        let none = self.columns.iter().map(|field| new_null_array(field.data_type(), places.len()));
        self.batch(none.collect(), UInt64Array::from(places))
    }

    fn of_rows(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        self.batch(rows.columns().to_vec(), UInt64Array::new_null(rows.num_rows()))
    }

    fn batch(&self, mut values: Vec<ArrayRef>, places: UInt64Array) -> Result<RecordBatch> {
        values.push(Arc::new(places));
        RecordBatch::try_new(self.schema.clone(), values)
            .map_err(|error| Error::internal(format!("cannot arrange what a statement changes: {error}")))
    }
}

/// Returns what a batch that was sent has.
///
/// # Errors
/// `Connection` (08P01) for a batch that has no places where they were announced, or both.
pub fn part_of(batch: &RecordBatch, has_places: bool) -> Result<Part> {
    if !has_places {
        return Ok(Part::Rows(batch.clone()));
    }
    let wrong = || {
        Error::new(ErrorKind::Connection, "a statement came without the places of deleted rows")
            .with_sqlstate("08P01")
    };
    let last = batch.num_columns().checked_sub(1).ok_or_else(wrong)?;
    let is_named = batch.schema().field(last).name() == PLACE;
    let places =
        batch.column(last).as_primitive_opt::<UInt64Type>().filter(|_| is_named).ok_or_else(wrong)?;
    if places.null_count() == 0 {
        return Ok(Part::Places(places.values().to_vec()));
    }
    if places.null_count() < places.len() {
        return Err(wrong());
    }
    let columns: Vec<usize> = (0..last).collect();
    batch.project(&columns).map(Part::Rows).map_err(|_| wrong())
}

/// Appends a copy of a row, so that a table has one position more, and returns that.
///
/// # Errors
/// Those of the transaction.
pub fn fill(transaction: &mut Transaction, table: &Arc<TableData>, position: u64) -> Result<u64> {
    let id = table.entry().id;
    let row = batches(table.clone(), position..position + 1, 1).next();
    let row = row.ok_or_else(|| Error::internal("a row that is not there"))??;
    let own = transaction.base().table_by_id(id).map_or(0, |table| table.positions());
    transaction.append(id, &row).map(|()| own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_storage::{Database, NewColumn};
    use hypostyle_types::LogicalType;

    /// Returns how many rows are before a position, counted one by one.
    fn counted(deleted: &RoaringTreemap, position: u64) -> u64 {
        (0..position).filter(|other| !deleted.contains(*other)).count() as u64
    }

    #[test]
    fn rows_are_counted_without_deleted_ones() {
        let deleted: RoaringTreemap =
            (0..500).filter(|position| position % 7 < 3 || *position > 490).collect();
        for positions in [vec![], vec![0, 1, 2, 3, 6, 7, 100, 101, 480], vec![9, 3, 3, 400, 5], vec![499]] {
            let expected: Vec<u64> = positions.iter().map(|position| counted(&deleted, *position)).collect();
            assert_eq!(rows_before(&deleted, &positions), expected, "{positions:?}");
        }
    }

    #[test]
    fn places_are_of_a_fragment() {
        let places = RoaringTreemap::from_iter([3, (1 << 40) | 7, (1 << 40) | 8, (4095 << 40) | 5]);
        let found = by_fragment(&places);
        let of = |rows: &[u64]| rows.iter().copied().collect::<RoaringTreemap>();
        assert_eq!(found, BTreeMap::from([(0, of(&[3])), (1, of(&[7, 8])), (4095, of(&[5]))]));
        assert_eq!(all_of(1, 9), (1 << 40)..(1 << 40) + 9);
    }

    #[test]
    fn places_of_own_rows_are_told_apart() {
        let of = |places: &[u64]| places.iter().copied().collect::<RoaringTreemap>();
        let places = of(&[0, 7, (4095 << ROW_BITS) | 5, OWN, OWN | 3]);
        assert_eq!(own_and_published(places), (of(&[0, 3]), of(&[0, 7, (4095 << ROW_BITS) | 5])));
        assert_eq!(own_and_published(of(&[])), (of(&[]), of(&[])));
    }

    #[test]
    fn at_places_behind_all_rows_there_is_none() {
        let database = Database::in_memory().unwrap();
        let mut transaction = database.begin(1).unwrap().of_statements();
        let column = NewColumn::new("a", LogicalType::UBigInt, true);
        let id = transaction.create_table("main", "t", vec![column]).unwrap();
        let values: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..10));
        transaction.append(id, &RecordBatch::try_from_iter([("a", values)]).unwrap()).unwrap();
        transaction.commit().unwrap();
        // Rows that their own transaction deletes are never there.
        let mut transaction = database.begin(1).unwrap().of_statements();
        transaction.delete(id, &RoaringTreemap::from_iter([0, 1, 4])).unwrap();
        let snapshot = transaction.commit().unwrap();
        let table = snapshot.table_by_id(id).unwrap();
        let at = |places: &[u64]| positions_at(table, &places.iter().copied().collect());
        assert_eq!(at(&[0, 2, 6]), RoaringTreemap::from_iter([2, 5, 9]));
        assert_eq!(at(&[1, 7, 9, 10, u64::MAX]), RoaringTreemap::from_iter([3]));
        assert!(at(&[u64::MAX - 1, u64::MAX]).is_empty());
    }

    #[test]
    fn places_travel_before_rows() {
        let rows = RecordBatch::try_from_iter([("a", Arc::new(UInt64Array::from(vec![1, 2])) as ArrayRef)]);
        let rows = rows.unwrap();
        let deleted: RoaringTreemap = (0..PLACES as u64 + 2).collect();
        let parts = |rows: Vec<RecordBatch>, deleted: &RoaringTreemap| -> Vec<Part> {
            let schema = rows.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
            let (rows, places): (Batches, _) = (Box::new(rows.into_iter().map(Ok)), deleted.clone());
            let sent = to_send(&schema, vec![OfFragment { rows, deleted: places }]);
            sent.map(|batch| part_of(&batch.unwrap(), !deleted.is_empty()).unwrap()).collect()
        };
        match parts(vec![rows.clone()], &deleted).as_slice() {
            [Part::Places(one), Part::Places(other), Part::Rows(last)] => {
                assert_eq!((one.len(), other.as_slice()), (PLACES, &[PLACES as u64, PLACES as u64 + 1][..]));
                assert_eq!(last.column(0), rows.column(0));
            }
            other => panic!("{} parts", other.len()),
        }
        assert!(
            matches!(parts(Vec::new(), &RoaringTreemap::from_iter([4])).as_slice(), [Part::Places(one)] if one == &[4])
        );
        assert!(matches!(parts(vec![rows.clone()], &RoaringTreemap::new()).as_slice(), [Part::Rows(_)]));
        assert!(part_of(&rows, true).is_err(), "there are no places");
    }

    #[test]
    fn a_statement_that_is_not_known_any_more_adds_no_row() {
        let (altered, deletions) = (Epoch(1), BTreeMap::new());
        let seen =
            Seen { altered, deletions, free: None, found: Vec::new(), synced: None, restarts: Vec::new() };
        assert_eq!(seen.free(0), None);
        let known = seen.of_known_statement();
        // No fragment has ever had so many rows.
        assert_eq!((known.free(0), known.free(7)), (Some(u64::MAX), Some(u64::MAX)));
    }

    #[test]
    fn several_tables_travel_together() {
        let of = |name: &str, values: Vec<u64>| {
            RecordBatch::try_from_iter([(name, Arc::new(UInt64Array::from(values)) as ArrayRef)]).unwrap()
        };
        let (one, other) = (of("a", vec![1, 2]), of("a", vec![3]));
        let sent = |rows: Vec<RecordBatch>, places: &[u64]| OfTable {
            schema: rows.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema),
            changes: OfFragment {
                rows: Box::new(rows.into_iter().map(Ok)),
                deleted: places.iter().copied().collect(),
            },
        };
        let tables =
            vec![sent(vec![one.clone()], &[7, 8]), sent(Vec::new(), &[9]), sent(vec![other.clone()], &[])];
        let widths = [1, 0, 1];
        let batches: Vec<RecordBatch> = to_send_of_tables(tables).map(|batch| batch.unwrap()).collect();
        let parts: Vec<(usize, Part)> =
            batches.iter().map(|batch| part_of_tables(batch, &widths).unwrap()).collect();
        match parts.as_slice() {
            [
                (0, Part::Places(first)),
                (0, Part::Rows(rows)),
                (1, Part::Places(second)),
                (2, Part::Rows(last)),
            ] => {
                assert_eq!((first.as_slice(), second.as_slice()), (&[7, 8][..], &[9][..]));
                assert_eq!((rows.column(0), last.column(0)), (one.column(0), other.column(0)));
            }
            others => panic!("{} parts", others.len()),
        }
        for widths in [&[1, 0][..], &[2, 0, 1], &[], &[usize::MAX, 3], &[usize::MAX - 1, 0]] {
            assert_eq!(part_of_tables(&batches[0], widths).err().unwrap().sqlstate(), "08P01", "{widths:?}");
        }
        assert!(part_of_tables(&one, &[]).is_err());
    }
}
