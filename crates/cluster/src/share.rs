//! The rows of a statement, shared out among the fragments of its table, and how they are sent.
//!
//! Few rows are copied for their fragments, once. Of many rows only the positions are kept, in bitmaps, and
//! whoever sends them reads them again: from the column files to which the statement has written them.

use crate::change::{self, Batches, Changes, OfFragment, Rows, Seen};
use crate::rows::RowReader;
use crate::state;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Schema, SchemaRef};
use hypostyle_placement::Epoch;
use hypostyle_placement::append::{self, Part};
use hypostyle_placement::catalog::Table;
use hypostyle_placement::partition::KeyColumn;
use hypostyle_storage::{Budget, TableData};
use hypostyle_types::{Error, Result};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

/// Rows with more bytes are not copied.
const COPIED_BYTES_MAX: u64 = 32 << 20;

/// The rows by which the width of others is estimated.
const SAMPLE_ROWS: usize = 1024;

/// The rows that are read at a time.
const READ_ROWS: usize = 64 * 1024;

/// The batches that each thread shares out among the fragments before more are read.
const BATCHES_AT_ONCE: usize = 4;

/// The most bytes that are sent to several fragments of a node by one request.
const GROUP_BYTES: u64 = 16 << 20;

/// What a statement sends, by the numbers of fragments.
pub(crate) struct Sent {
    schema: SchemaRef,
    rows: BTreeMap<u32, Share>,
    deleted: BTreeMap<u32, RoaringTreemap>,
    /// The places of the columns that have values, unless all have.
    pub(crate) columns: Option<Vec<usize>>,
    /// The epoch in which the table was altered the last time.
    pub(crate) altered: Epoch,
}

/// The rows of one fragment.
enum Share {
    Copied(Vec<RecordBatch>),
    Found { table: Arc<TableData>, positions: RoaringTreemap, row_bytes: u64 },
}

impl Share {
    fn rows(&self) -> u64 {
        match self {
            Self::Copied(batches) => batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            Self::Found { positions, .. } => positions.len(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Copied(batches) => batches.iter().map(bytes_of).sum(),
            Self::Found { positions, row_bytes, .. } => positions.len().saturating_mul(*row_bytes),
        }
    }

    fn read(&self) -> Batches {
        match self {
            Self::Copied(batches) => Box::new(batches.clone().into_iter().map(Ok)),
            Self::Found { table, positions, .. } => Box::new(read_at(table.clone(), positions.clone())),
        }
    }
}

impl Sent {
    /// Shares out what a statement changes in a table.
    ///
    /// # Errors
    /// `OutOfMemory` (53200) if there is no room for it; `Constraint` (23514) for a row that no fragment has.
    pub(crate) fn share_out(table: &Table, changes: &Changes<'_>) -> Result<Self> {
        let mut schema = Arc::new(Schema::empty());
        let rows = match changes.rows {
            Rows::Batches(batches) => copied(table, batches.iter().cloned().map(Ok), changes.memory)?,
            Rows::Values(values) => of_places(changes.deleted, &values.rows)?,
            Rows::Table(rows) if rows.rows() == 0 => BTreeMap::new(),
            Rows::Table(rows) => {
                let sample = state::batch_at(rows, &sample_of(rows), 1)?;
                schema = sample.schema();
                let row_bytes = bytes_of(&sample).div_ceil((sample.num_rows() as u64).max(1)).max(1);
                match rows.rows().saturating_mul(row_bytes) > COPIED_BYTES_MAX {
                    true => found(table, rows, row_bytes, changes.memory)?,
                    false => {
                        let threads = hypostyle_sync::cores();
                        let batches = state::batches(rows.clone(), 0..rows.positions(), threads);
                        copied(table, batches, changes.memory)?
                    }
                }
            }
        };
        let first = rows.values().find_map(|share| match share {
            Share::Copied(batches) => batches.first(),
            Share::Found { .. } => None,
        });
        let schema = first.map_or(schema, RecordBatch::schema);
        let deleted = change::by_fragment(changes.deleted);
        let columns = match changes.rows {
            Rows::Values(values) => Some(values.columns.clone()),
            Rows::Batches(_) | Rows::Table(_) => None,
        };
        Ok(Self { schema, rows, deleted, columns, altered: table.layout.altered })
    }

    /// Returns what becomes of each fragment of a table, as the statement has seen it.
    pub(crate) fn parts(&self, seen: &Seen) -> BTreeMap<u32, Part> {
        let mut parts = BTreeMap::<u32, Part>::new();
        for (number, share) in &self.rows {
            let part = parts.entry(*number).or_default();
            (part.rows, part.free) = (share.rows(), seen.free(*number));
        }
        for (number, places) in &self.deleted {
            let part = parts.entry(*number).or_default();
            part.deletes = places.len();
            part.seen = seen.deletions(*number);
        }
        parts
    }

    /// Returns what is sent for some requests, in their order.
    pub(crate) fn reader(&self, requests: &[append::Request]) -> RowReader {
        let of_fragment = |request: &append::Request| {
            let number = request.fragment.number;
            let none = || -> Batches { Box::new(iter::empty()) };
            OfFragment {
                rows: self.rows.get(&number).map_or_else(none, Share::read),
                deleted: self.deleted.get(&number).cloned().unwrap_or_default(),
            }
        };
        change::to_send(&self.schema, requests.iter().map(of_fragment).collect())
    }

    /// Divides the requests to a node into those that travel together.
    pub(crate) fn grouped(&self, requests: Vec<append::Request>) -> VecDeque<Vec<append::Request>> {
        let (mut groups, mut group, mut bytes) = (VecDeque::new(), Vec::new(), 0_u64);
        for request in requests {
            let more = self.bytes_of(request.fragment.number);
            if !group.is_empty() && bytes.saturating_add(more) > GROUP_BYTES {
                groups.push_back(std::mem::take(&mut group));
                bytes = 0;
            }
            group.push(request);
            bytes = bytes.saturating_add(more);
        }
        groups.push_back(group);
        groups
    }

    /// Returns the bytes of what is sent to a fragment.
    fn bytes_of(&self, fragment: u32) -> u64 {
        let rows = self.rows.get(&fragment).map_or(0, Share::bytes);
        let places = self.deleted.get(&fragment).map_or(0, RoaringTreemap::len);
        rows.saturating_add(places.saturating_mul(8))
    }
}

/// Returns the bytes of a batch's rows, which may be a part of those of a file.
fn bytes_of(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().map_or(0, |bytes| bytes as u64)).sum()
}

/// Returns the rows of a table at some positions, read as they are asked for.
fn read_at(
    table: Arc<TableData>,
    positions: RoaringTreemap,
) -> impl Iterator<Item = Result<RecordBatch>> + Send + 'static {
    let mut next = 0;
    iter::from_fn(move || {
        let mut following = positions.iter();
        following.advance_to(next);
        let some: Vec<u64> = following.take(READ_ROWS).collect();
        next = some.last()?.checked_add(1)?;
        Some(state::batch_at(&table, &UInt64Array::from(some), 1))
    })
}

/// Returns the positions of the first rows of a table: a transaction may have deleted many of its own.
fn sample_of(rows: &TableData) -> UInt64Array {
    let deleted = rows.deleted();
    (0..rows.positions()).filter(|position| !deleted.contains(*position)).take(SAMPLE_ROWS).collect()
}

/// Finds the positions of each fragment's rows, by the columns of the partition key alone.
fn found(
    table: &Table,
    rows: &Arc<TableData>,
    row_bytes: u64,
    memory: &dyn Budget,
) -> Result<BTreeMap<u32, Share>> {
    let columns = table.partitioning.columns().iter();
    let columns: Vec<usize> = columns.map(|column| column.column.0 as usize).collect();
    if columns.iter().any(|column| *column >= rows.columns().len()) {
        return Err(no_key());
    }
    let threads = hypostyle_sync::cores();
    let bits = u64::from(table.partitioning.fragments().min(16));
    let (mut start, mut of_fragments) = (table.rows_ever(), BTreeMap::<u32, RoaringTreemap>::new());
    for first in (0..rows.positions()).step_by(READ_ROWS) {
        let end = rows.positions().min(first + READ_ROWS as u64);
        let positions = state::positions_of(rows, first..end);
        if positions.is_empty() {
            continue;
        }
        // A bitmap of each fragment has a bit for each row, or two bytes for each of its own.
        memory.take((positions.len() as u64 * bits).div_ceil(8))?;
        let keys = rows.rows_at(&columns, &positions, threads)?;
        let numbers = table.partitioning.fragments_of(&keys, positions.len(), start)?;
        for (position, number) in positions.values().iter().zip(numbers) {
            of_fragments.entry(number).or_default().insert(*position);
        }
        start += positions.len() as u64;
    }
    let share = |positions| Share::Found { table: rows.clone(), positions, row_bytes };
    Ok(of_fragments.into_iter().map(|(number, positions)| (number, share(positions))).collect())
}

/// Shares values out among the fragments of the rows that they are of, in the order of their places.
fn of_places(places: &RoaringTreemap, rows: &[RecordBatch]) -> Result<BTreeMap<u32, Share>> {
    let others = || Error::internal("as many rows get new values as others are updated");
    let mut rest: VecDeque<RecordBatch> = rows.iter().filter(|batch| batch.num_rows() > 0).cloned().collect();
    let mut shares = BTreeMap::new();
    for (number, places) in change::by_fragment(places) {
        let (mut left, mut own) = (places.len(), Vec::new());
        while left > 0 {
            let batch = rest.pop_front().ok_or_else(others)?;
            let (rows, wanted) = (batch.num_rows(), usize::try_from(left).unwrap_or(usize::MAX));
            let count = rows.min(wanted);
            own.push(batch.slice(0, count));
            if count < rows {
                rest.push_front(batch.slice(count, rows - count));
            }
            left -= count as u64;
        }
        shares.insert(number, Share::Copied(own));
    }
    if rest.is_empty() { Ok(shares) } else { Err(others()) }
}

fn no_key() -> Error {
    Error::internal("rows without the columns of the partition key")
}

/// Batches by the numbers of fragments.
type Shares = BTreeMap<u32, Vec<RecordBatch>>;

/// Shares rows out among the fragments of a table, on as many threads as there are processors. It takes a
/// few batches at a time, so that rows are not there twice.
fn copied(
    table: &Table,
    mut rows: impl Iterator<Item = Result<RecordBatch>>,
    memory: &dyn Budget,
) -> Result<BTreeMap<u32, Share>> {
    let threads = hypostyle_sync::cores();
    let (mut start, mut all) = (table.rows_ever(), Shares::new());
    loop {
        let batches = rows.by_ref().take(threads * BATCHES_AT_ONCE).collect::<Result<Vec<_>>>()?;
        if batches.is_empty() {
            return Ok(all.into_iter().map(|(number, batches)| (number, Share::Copied(batches))).collect());
        }
        let mut numbered = Vec::with_capacity(batches.len());
        for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
            // They are kept until the nodes have them.
            memory.take(bytes_of(&batch))?;
            let count = batch.num_rows() as u64;
            numbered.push((start, batch));
            start += count;
        }
        for part in share_out_batches(table, &numbered, threads)? {
            for (number, batches) in part {
                all.entry(number).or_default().extend(batches);
            }
        }
    }
}

/// Shares batches out, each with the number of the rows before it. What comes of those that follow each
/// other follows each other.
fn share_out_batches(table: &Table, batches: &[(u64, RecordBatch)], threads: usize) -> Result<Vec<Shares>> {
    let parts = batches.chunks(batches.len().div_ceil(threads).max(1));
    if parts.len() <= 1 {
        return share_out_part(table, batches).map(|part| vec![part]);
    }
    thread::scope(|scope| {
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || share_out_part(table, part))).collect();
        let ended = parts.into_iter().map(ScopedJoinHandle::join);
        let ended = ended.map(|part| part.unwrap_or_else(|_| Err(Error::internal("a thread has ended"))));
        ended.collect()
    })
}

fn share_out_part(table: &Table, batches: &[(u64, RecordBatch)]) -> Result<Shares> {
    let mut parts = Shares::new();
    for (start, batch) in batches {
        let key = |column: &KeyColumn| batch.columns().get(column.column.0 as usize).cloned();
        let keys: Option<Vec<ArrayRef>> = table.partitioning.columns().iter().map(key).collect();
        let numbers = table.partitioning.fragments_of(&keys.ok_or_else(no_key)?, batch.num_rows(), *start)?;
        let mut rows = BTreeMap::<u32, Vec<u32>>::new();
        for (row, number) in (0u32..).zip(numbers) {
            rows.entry(number).or_default().push(row);
        }
        for (number, rows) in rows {
            let part = match rows.len() == batch.num_rows() {
                true => batch.clone(),
                false => take_record_batch(batch, &UInt32Array::from(rows))
                    .map_err(|error| Error::internal(format!("cannot share rows out: {error}")))?,
            };
            parts.entry(number).or_default().push(part);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Unlimited;
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use hypostyle_placement::NodeId;
    use hypostyle_placement::catalog::{Catalog, Change, NewTable, Node, NodeState};
    use hypostyle_placement::partition::{Kind, Partitioning};
    use hypostyle_storage::{Database, NewColumn};
    use hypostyle_types::{ColumnId, ErrorKind, LogicalType};
    use uuid::Uuid;

    const NODE: NodeId = NodeId(Uuid::from_u128(1));

    fn catalog(partitioning: Partitioning) -> Catalog {
        let (name, address) = ("n1".to_string(), "h1:1".to_string());
        let node = Node { id: NODE, name, address, state: NodeState::Active };
        let catalog = Catalog::new(Uuid::from_u128(9), node).unwrap();
        let nodes = vec![vec![NODE]; partitioning.fragments() as usize];
        let table = NewTable::new("main", "t", partitioning, 1);
        catalog.apply(&Change::CreateTable { table, nodes }).unwrap()
    }

    /// Makes a table of numbers, some of which are deleted.
    fn table(count: u64) -> (Arc<Database>, Arc<TableData>) {
        let database = Database::in_memory().unwrap();
        let mut transaction = database.begin(1).unwrap().of_statements();
        let column = NewColumn::new("a", LogicalType::UBigInt, true);
        let id = transaction.create_table("main", "t", vec![column]).unwrap();
        let values: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..count));
        transaction.append(id, &RecordBatch::try_from_iter([("a", values)]).unwrap()).unwrap();
        transaction.delete(id, &(0..count).filter(|value| value % 10 == 3).collect()).unwrap();
        let snapshot = transaction.commit().unwrap();
        let table = snapshot.table_by_id(id).unwrap().clone();
        (database, table)
    }

    /// Returns the values that are sent to each fragment.
    fn values(shares: BTreeMap<u32, Share>) -> BTreeMap<u32, Vec<u64>> {
        let read = |share: &Share| -> Vec<u64> {
            let batches = share.read().map(Result::unwrap);
            batches.flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec()).collect()
        };
        shares.iter().map(|(number, share)| (*number, read(share))).collect()
    }

    #[test]
    fn rows_that_are_read_again_are_those_that_are_copied() {
        let (_database, rows) = table(150_000);
        let column = KeyColumn { column: ColumnId(0), kind: Kind::Exact };
        for partitioning in [
            Partitioning::Hash { columns: vec![column], fragments: 5 },
            Partitioning::RoundRobin { fragments: 3 },
            Partitioning::Replicated,
        ] {
            let catalog = catalog(partitioning);
            let entry = catalog.tables.first().unwrap();
            let batches = state::batches(rows.clone(), 0..rows.positions(), 1);
            let copied = values(copied(entry, batches, &Unlimited).unwrap());
            assert_eq!(copied.values().map(Vec::len).sum::<usize>(), 135_000);
            assert_eq!(values(found(entry, &rows, 8, &Unlimited).unwrap()), copied);
        }
    }

    #[test]
    fn the_width_of_rows_is_estimated_by_some_that_are_there() {
        let (database, rows) = table(2000);
        let (id, mut transaction) = (rows.entry().id, database.begin(1).unwrap().of_statements());
        transaction.delete(id, &(0..1500).filter(|value| value % 10 != 3).collect()).unwrap();
        let snapshot = transaction.commit().unwrap();
        assert_eq!(sample_of(snapshot.table_by_id(id).unwrap()).len(), 450);
    }

    #[test]
    fn values_go_where_the_rows_are_that_they_are_of() {
        let all = |numbers: std::ops::Range<u64>| -> RecordBatch {
            let values: ArrayRef = Arc::new(UInt64Array::from_iter_values(numbers));
            RecordBatch::try_from_iter([("a", values)]).unwrap()
        };
        let places: RoaringTreemap =
            [(0, 3), (2, 1), (7, 4)].into_iter().flat_map(|(of, rows)| change::all_of(of, rows)).collect();
        let shares = of_places(&places, &[all(0..2), all(2..2), all(2..7), all(7..8)]).unwrap();
        let expected = [(0, vec![0, 1, 2]), (2, vec![3]), (7, vec![4, 5, 6, 7])];
        assert_eq!(values(shares), BTreeMap::from(expected));
        assert!(of_places(&places, &[all(0..7)]).is_err());
        assert!(of_places(&places, &[all(0..9)]).is_err());
    }

    #[derive(Debug)]
    struct Limit;

    impl Budget for Limit {
        fn take(&self, bytes: u64) -> Result<()> {
            match bytes > 10_000 {
                true => Err(Error::new(ErrorKind::OutOfMemory, "too many")),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn there_has_to_be_room_for_what_is_kept() {
        let (_database, rows) = table(150_000);
        let catalog = catalog(Partitioning::RoundRobin { fragments: 1 });
        let entry = catalog.tables.first().unwrap();
        let batches = state::batches(rows.clone(), 0..rows.positions(), 1);
        let error = copied(entry, batches, &Limit).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(found(entry, &rows, 8, &Limit).is_ok(), "a bit for each row");
    }
}
