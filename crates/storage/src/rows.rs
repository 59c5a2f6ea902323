//! The rows of a table that its column files do not tell: those that only the log has, and those
//! that are deleted (format.md §5, §6).

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow_ipc::{MetadataVersion, root_as_message};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use hypostyle_format::{DeletedEntry, TableEntry};
use hypostyle_types::{Error, Result, Version, to_usize};
use roaring::RoaringTreemap;
use std::collections::HashMap;
use std::io::Cursor;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use xxhash_rust::xxh3::xxh3_64;

/// Batches of the log that become one.
const JOINED_BATCHES: usize = 4;

/// Rows behind those of the column files, in order. Batches grow towards the front, so that many
/// small commits make few of them; some are joined at a time, so that a row is copied few times.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    batches: Arc<Vec<RecordBatch>>,
    rows: u64,
}

impl Tail {
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.rows == other.rows && (self.rows == 0 || Arc::ptr_eq(&self.batches, &other.batches))
    }

    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows += batch.num_rows() as u64;
        let batches = Arc::make_mut(&mut self.batches);
        batches.push(batch);
        while let Some(first) = batches.len().checked_sub(JOINED_BATCHES)
            && let joined @ [before, .., last] = &batches[first..]
            && before.num_rows() < 2 * last.num_rows()
        {
            let joined = concat_batches(&before.schema(), joined)
                .map_err(|error| Error::internal(format!("cannot join rows of the log: {error}")))?;
            batches.truncate(first);
            batches.push(joined);
        }
        Ok(())
    }

    /// Adds all rows of another one as they are. A transaction's own rows come behind the others in each
    /// snapshot of it, one after each statement: joining them there would copy all of them each time.
    pub(crate) fn append(&mut self, own: &Self) {
        if self.rows == 0 {
            self.clone_from(own);
        } else if own.rows > 0 {
            self.rows += own.rows;
            Arc::make_mut(&mut self.batches).extend_from_slice(&own.batches);
        }
    }

    /// Returns the rows without the first ones.
    pub(crate) fn skip(&self, mut rows: u64) -> Self {
        let mut kept = Vec::new();
        for batch in self.batches.iter() {
            let skipped = to_usize(rows).min(batch.num_rows());
            rows -= skipped as u64;
            if skipped < batch.num_rows() {
                kept.push(batch.slice(skipped, batch.num_rows() - skipped));
            }
        }
        let rows = kept.iter().map(|batch| batch.num_rows() as u64).sum();
        Self { batches: Arc::new(kept), rows }
    }
}

/// What one version knows of a table's rows beyond its column files.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub tail: Tail,
    /// Positions of the deleted rows.
    pub deleted: Arc<RoaringTreemap>,
    /// The file that has exactly `deleted`.
    pub(crate) deleted_file: Option<DeletedEntry>,
    /// The last version that changed the table's definition, or the position of rows in its files.
    pub(crate) moved: Version,
    /// How rows in the log have changed their positions.
    pub(crate) shifts: Shifts,
    /// The files have rows of a transaction that may still be rolled back, and their bytes be overwritten.
    pub(crate) uncommitted: Option<Uncommitted>,
}

/// Shifts that are remembered: a transaction that began before more of them is in conflict.
const SHIFTS_KNOWN: usize = 16;

/// How rows of the log have changed their positions: many rows came into the files before them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shifts {
    /// The last version of which nothing is known, as of those before it.
    forgotten: Version,
    known: Vec<Shift>,
}

/// The rows from a position on were moved behind others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shift {
    version: Version,
    first: u64,
    by: u64,
}

impl Shifts {
    pub fn push(&mut self, shift: Shift) {
        if self.known.len() == SHIFTS_KNOWN {
            self.forgotten = self.known.remove(0).version;
        }
        self.known.push(shift);
    }

    /// Forgets what has happened up to a version.
    pub fn forget(&mut self, version: Version) {
        self.known.retain(|shift| shift.version > version);
        self.forgotten = self.forgotten.max(version);
    }

    /// Takes in what has happened later.
    pub fn extend(&mut self, later: &Self) {
        self.forget(later.forgotten);
        later.known.iter().for_each(|shift| self.push(*shift));
    }

    /// What has happened after a version, in order; `None` when that is not known.
    pub fn since(&self, version: Version) -> Option<&[Shift]> {
        let first = self.known.partition_point(|shift| shift.version <= version);
        (self.forgotten <= version).then(|| &self.known[first..])
    }
}

impl Shift {
    pub fn new(version: Version, first: u64, by: u64) -> Self {
        Self { version, first, by }
    }

    /// Where the rows at some positions are after it.
    pub fn moved(&self, positions: &RoaringTreemap) -> RoaringTreemap {
        let to = |position| if position < self.first { position } else { position + self.by };
        positions.iter().map(to).collect()
    }

    /// Where runs of rows are after it.
    pub fn moved_runs(&self, runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let halves = runs.into_iter().flat_map(|run| {
            let middle = self.first.clamp(run.start, run.end);
            [run.start..middle, middle + self.by..run.end + self.by]
        });
        halves.filter(|run| !run.is_empty()).collect()
    }
}

/// Rows in column files whose transaction is not over; shared by all who see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uncommitted {
    rolled_back: Arc<AtomicBool>,
}

impl Uncommitted {
    pub fn roll_back(&self) {
        self.rolled_back.store(true, Ordering::Release);
    }

    pub fn is_rolled_back(&self) -> bool {
        self.rolled_back.load(Ordering::Acquire)
    }

    /// Those who see the rows, as long as there are any beside this one.
    pub fn others(&self) -> Option<Weak<AtomicBool>> {
        (Arc::strong_count(&self.rolled_back) > 1).then(|| Arc::downgrade(&self.rolled_back))
    }
}

impl PartialEq for Uncommitted {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rolled_back, &other.rolled_back)
    }
}

impl Rows {
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.tail.same(&other.tail)
            && Arc::ptr_eq(&self.deleted, &other.deleted)
            && self.moved == other.moved
            && self.shifts == other.shifts
            && self.uncommitted == other.uncommitted
    }

    /// Deletes rows that exist and are not deleted.
    pub(crate) fn delete(&mut self, positions: &RoaringTreemap, end: u64) -> Result<()> {
        if positions.max().is_some_and(|last| last >= end) || !self.deleted.is_disjoint(positions) {
            return Err(Error::corrupt("the log deletes a row that is not there"));
        }
        *Arc::make_mut(&mut self.deleted) |= positions;
        self.deleted_file = None;
        Ok(())
    }

    /// The files have grown from `before` rows to `after`, the first of which were `absorbed`.
    pub(crate) fn grow(&mut self, before: u64, after: u64, absorbed: u64, version: Version) -> Result<()> {
        let new = after.checked_sub(before).and_then(|grown| grown.checked_sub(absorbed));
        let Some(new) = new.filter(|_| absorbed <= self.tail.rows()) else {
            return Err(Error::corrupt("an append takes more rows from the log than it has"));
        };
        if absorbed > 0 {
            self.tail = self.tail.skip(absorbed);
        }
        if new > 0 && self.tail.rows() > 0 {
            let shift = Shift::new(version, before + absorbed, new);
            self.shifts.push(shift);
            if self.deleted.max().is_some_and(|last| last >= shift.first) {
                self.deleted = Arc::new(shift.moved(&self.deleted));
                self.deleted_file = None;
            }
        }
        Ok(())
    }
}

/// The types of a table's rows in the log: strings are plain, whatever the files' encoding. Rows
/// that are there tell them, too: a change of the definition moves them to the files.
pub(crate) fn row_schema(table: &TableEntry, tail: Option<&Tail>) -> SchemaRef {
    if let Some(batch) = tail.and_then(|tail| tail.batches().first()) {
        return batch.schema();
    }
    let field = |column: &hypostyle_format::ColumnEntry| {
        Field::new(column.id.to_string(), column.logical_type.arrow_type(), true)
    };
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

fn ipc_error(error: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("rows of the log: {error}"))
}

/// Rows as one record batch message of the Arrow IPC format.
pub(crate) fn encode_rows(batch: &RecordBatch) -> Result<Vec<u8>> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).map_err(ipc_error)?;
    let mut tracker = DictionaryTracker::new(true);
    let (_, message) = IpcDataGenerator::default()
        .encode(batch, &mut tracker, &options, &mut IpcWriteContext::default())
        .map_err(ipc_error)?;
    let mut bytes = Vec::new();
    write_message(&mut bytes, message, &options).map_err(ipc_error)?;
    pad(&mut bytes, &batch.schema())?;
    Ok(bytes)
}

/// Adds zeros where values take no bytes, as structures without fields do: who reads a message believes no
/// length that it has no bytes for.
fn pad(bytes: &mut Vec<u8>, schema: &Schema) -> Result<()> {
    let mut types = Vec::new();
    schema.fields().iter().for_each(|field| push_types(field.data_type(), &mut types));
    if !types.into_iter().any(takes_no_bytes) {
        return Ok(());
    }
    let (metadata, _) = metadata_and_body(bytes).ok_or_else(no_message)?;
    let message = root_as_message(metadata).map_err(ipc_error)?;
    let nodes = message.header_as_record_batch().and_then(|header| header.nodes()).ok_or_else(no_message)?;
    let longest = nodes.iter().filter_map(|node| usize::try_from(node.length()).ok()).max().unwrap_or(0);
    let needed = 8 + metadata.len() + longest.div_ceil(8);
    if bytes.len() < needed {
        bytes.resize(needed, 0);
    }
    Ok(())
}

/// Says whether a type has values, but no bytes for them.
fn takes_no_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.is_empty(),
        DataType::FixedSizeList(_, length) | DataType::FixedSizeBinary(length) => *length == 0,
        _ => false,
    }
}

fn no_message() -> Error {
    ipc_error("not a record batch message")
}

/// Returns the two parts of a message.
fn metadata_and_body(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|word| <[u8; 4]>::try_from(word).ok());
    if word(0) != Some([0xFF; 4]) {
        return None;
    }
    let metadata_bytes = u32::from_le_bytes(word(4)?) as usize;
    bytes[8..].split_at_checked(metadata_bytes)
}

/// # Errors
/// `Corrupt` when the bytes are not one message with rows of that schema.
pub(crate) fn decode_rows(bytes: &[u8], schema: &SchemaRef, rows: u64) -> Result<RecordBatch> {
    let (metadata, body) = metadata_and_body(bytes).ok_or_else(no_message)?;
    let message = root_as_message(metadata).map_err(ipc_error)?;
    let header = message.header_as_record_batch().ok_or_else(no_message)?;
    if !lies_within(&header, schema, body.len()) {
        return Err(no_message());
    }
    let buffer = Buffer::from(body);
    let batch = read_record_batch(&buffer, header, schema.clone(), &HashMap::new(), None, &message.version())
        .map_err(ipc_error)?;
    if batch.num_rows() as u64 != rows {
        return Err(ipc_error("a record batch of another length"));
    }
    Ok(batch)
}

/// What reading the arrays takes for granted: buffers that are in the message, and lengths that fit
/// it. All else is validated with the arrays.
fn lies_within(header: &arrow_ipc::RecordBatch<'_>, schema: &Schema, body: usize) -> bool {
    let (Some(nodes), Some(buffers)) = (header.nodes(), header.buffers()) else { return false };
    let bytes = |buffer: &arrow_ipc::Buffer| {
        let (start, length) =
            (usize::try_from(buffer.offset()).ok()?, usize::try_from(buffer.length()).ok()?);
        start.checked_add(length).filter(|end| *end <= body).map(|_| length)
    };
    let mut types = Vec::new();
    schema.fields().iter().for_each(|field| push_types(field.data_type(), &mut types));
    let buffer = |index| if index < buffers.len() { bytes(buffers.get(index)) } else { None };
    let mut first = 0;
    let sound = types.into_iter().zip(nodes).all(|(data_type, node)| {
        let (count, offset_bytes) = buffers_of(data_type);
        let (validity, offsets) = (buffer(first), buffer(first + 1));
        first += count;
        let (length, nulls) = (node.length(), node.null_count());
        let fits = |bytes: usize| u64::try_from(length).is_ok_and(|length| length <= 8 * bytes as u64);
        fits(body)
            && (0..=length).contains(&nulls)
            && (nulls == 0 || validity.is_some_and(fits))
            && offset_bytes.is_none_or(|width| offsets.is_some_and(|bytes| bytes.is_multiple_of(width)))
    });
    let plain = header.compression().is_none() && header.variadicBufferCounts().is_none();
    sound && plain && buffers.iter().all(|buffer| bytes(buffer).is_some())
}

/// A type, and those of its children, in the order of their nodes.
fn push_types<'a>(data_type: &'a DataType, types: &mut Vec<&'a DataType>) {
    types.push(data_type);
    match data_type {
        DataType::LargeList(child) | DataType::Map(child, _) | DataType::FixedSizeList(child, _) => {
            push_types(child.data_type(), types);
        }
        DataType::Struct(children) => {
            children.iter().for_each(|child| push_types(child.data_type(), types));
        }
        _ => {}
    }
}

/// How many buffers a node has in a message; the first is its validity, and the second may be
/// offsets of so many bytes.
fn buffers_of(data_type: &DataType) -> (usize, Option<usize>) {
    match data_type {
        DataType::LargeUtf8 | DataType::LargeBinary => (3, Some(8)),
        DataType::LargeList(_) => (2, Some(8)),
        DataType::Map(..) => (2, Some(4)),
        DataType::Struct(_) | DataType::FixedSizeList(..) => (1, None),
        _ => (2, None),
    }
}

pub(crate) fn positions_before(positions: &RoaringTreemap, end: u64) -> RoaringTreemap {
    let mut before = positions.clone();
    before.remove_range(end..);
    before
}

pub(crate) fn encode_positions(positions: &RoaringTreemap) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(positions.serialized_size());
    positions
        .serialize_into(&mut bytes)
        .map_err(|error| Error::internal(format!("cannot encode positions: {error}")))?;
    Ok(bytes)
}

/// # Errors
/// `Corrupt` when the bytes are not a bitmap of that many positions.
pub(crate) fn decode_positions(bytes: &[u8], rows: u64) -> Result<RoaringTreemap> {
    let damaged = |error: String| Error::corrupt(format!("positions of deleted rows: {error}"));
    let mut cursor = Cursor::new(bytes);
    let positions =
        RoaringTreemap::deserialize_from(&mut cursor).map_err(|error| damaged(error.to_string()))?;
    if cursor.position() != bytes.len() as u64 || positions.len() != rows {
        return Err(damaged("not as many as there must be".into()));
    }
    Ok(positions)
}

/// The content of a `deleted-<version>` file.
pub(crate) fn encode_deleted_file(positions: &RoaringTreemap) -> Result<Vec<u8>> {
    let mut bytes = encode_positions(positions)?;
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    Ok(bytes)
}

pub(crate) fn decode_deleted_file(bytes: &[u8], rows: u64) -> Result<RoaringTreemap> {
    let checked = bytes.split_last_chunk::<8>();
    match checked {
        Some((bytes, checksum)) if xxh3_64(bytes) == u64::from_le_bytes(*checksum) => {
            decode_positions(bytes, rows)
        }
        _ => Err(Error::corrupt("the file of deleted rows is damaged: its checksum does not match")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int32Builder, LargeListBuilder, LargeStringBuilder, MapBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::*;
    use arrow_buffer::{NullBuffer, OffsetBuffer};
    use arrow_schema::Fields;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn batch(values: std::ops::Range<i64>) -> RecordBatch {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        RecordBatch::try_from_iter([("0", array)]).unwrap()
    }

    fn values(tail: &Tail) -> Vec<i64> {
        let column =
            |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].typed_data::<i64>().to_vec();
        tail.batches()
            .iter()
            .flat_map(|batch| {
                let start = batch.column(0).to_data().offset();
                column(batch)[start..start + batch.num_rows()].to_vec()
            })
            .collect()
    }

    #[test]
    fn many_small_batches_become_few_large_ones_in_order() {
        let mut tail = Tail::default();
        for value in 0..1000 {
            tail.push(batch(value..value + 1)).unwrap();
        }
        assert_eq!(values(&tail), (0..1000).collect::<Vec<_>>());
        assert!(tail.batches().len() <= 15, "{} batches", tail.batches().len());
        assert_eq!(values(&tail.skip(513)), (513..1000).collect::<Vec<_>>());
        assert_eq!(tail.skip(1000).rows(), 0);
    }

    #[test]
    fn own_rows_come_behind_others_as_they_are() {
        let (mut before, mut own) = (Tail::default(), Tail::default());
        for value in 0..3 {
            before.push(batch(value..value + 1)).unwrap();
        }
        own.push(batch(3..1000)).unwrap();
        let mut alone = Tail::default();
        alone.append(&own);
        assert!(alone.same(&own));
        let mut both = before.clone();
        both.append(&own);
        assert_eq!((both.rows(), both.batches().len(), before.rows()), (1000, 4, 3));
        assert_eq!(values(&both), (0..1000).collect::<Vec<_>>());
        assert_eq!(both.batches()[3].column(0).to_data().buffers()[0].as_ptr(), own_pointer(&own));
        let same = both.clone();
        both.append(&Tail::default());
        assert!(both.same(&same));
    }

    fn own_pointer(tail: &Tail) -> *const u8 {
        tail.batches()[0].column(0).to_data().buffers()[0].as_ptr()
    }

    #[test]
    fn rows_and_positions_come_back_and_damaged_ones_do_not() {
        let rows = batch(3..9);
        let bytes = encode_rows(&rows).unwrap();
        assert_eq!(decode_rows(&bytes, &rows.schema(), 6).unwrap(), rows);
        assert!(decode_rows(&bytes, &rows.schema(), 7).is_err());
        for length in 0..bytes.len() - 48 {
            assert!(decode_rows(&bytes[..length], &rows.schema(), 6).is_err(), "{length}");
        }
        let positions: RoaringTreemap = [1, 5, 1 << 40].into_iter().collect();
        let mut bytes = encode_deleted_file(&positions).unwrap();
        assert_eq!(decode_deleted_file(&bytes, 3).unwrap(), positions);
        assert!(decode_deleted_file(&bytes, 2).is_err());
        bytes[3] ^= 1;
        assert!(decode_deleted_file(&bytes, 3).is_err());
    }

    #[test]
    fn rows_of_the_log_are_what_their_types_say() {
        let offsets = |last| OffsetBuffer::<i64>::new(vec![0, 1, last].into());
        let flawed: [ArrayRef; 2] = [
            // SAFETY: it is only encoded here, and nobody reads the text.
            Arc::new(unsafe { LargeStringArray::new_unchecked(offsets(3), b"a\xff\xff".into(), None) }),
            // SAFETY: as above; a character is in two rows.
            Arc::new(unsafe {
                LargeStringArray::new_unchecked(offsets(2), "\u{e9}".as_bytes().into(), None)
            }),
        ];
        let sound: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        for array in flawed {
            let rows = RecordBatch::try_from_iter([("a", array), ("b", sound.clone())]).unwrap();
            let bytes = encode_rows(&rows).unwrap();
            let error = decode_rows(&bytes, &rows.schema(), 2).unwrap_err();
            assert_eq!(error.kind(), hypostyle_types::ErrorKind::Corrupt, "{error}");
        }
    }

    #[test]
    fn values_without_bytes_are_rows_of_the_log() {
        let structs =
            |rows| StructArray::try_new_with_length(Fields::empty(), Vec::new(), None, rows).unwrap();
        let member = Arc::new(Field::new("item", DataType::Struct(Fields::empty()), true));
        let offsets = OffsetBuffer::<i64>::from_lengths([1000]);
        let list = LargeListArray::new(member, offsets, Arc::new(structs(1000)), None);
        let blobs = FixedSizeBinaryArray::try_new_with_len(0, Buffer::default(), None, 3).unwrap();
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let none = Arc::new(Int32Array::from(Vec::<i32>::new()));
        let lists = FixedSizeListArray::try_new_with_length(item, 0, none, None, 3).unwrap();
        let arrays: [ArrayRef; 4] = [Arc::new(structs(3)), Arc::new(list), Arc::new(blobs), Arc::new(lists)];
        for array in arrays {
            let (of, count) = (array.data_type().clone(), array.len());
            let rows = RecordBatch::try_from_iter([("a", array)]).unwrap();
            let bytes = encode_rows(&rows).unwrap();
            assert_eq!(decode_rows(&bytes, &rows.schema(), count as u64).unwrap(), rows, "{of}");
        }
    }

    /// Rows of each layout that a message may have.
    fn layouts() -> RecordBatch {
        let flags = BooleanArray::from(vec![Some(true), None, Some(false)]);
        let texts = LargeStringArray::from(vec![Some("a"), None, Some("äöü")]);
        let ids = FixedSizeBinaryArray::try_from_iter([[1; 16], [2; 16], [3; 16]].iter()).unwrap();
        let mut lists = LargeListBuilder::new(Int32Builder::new());
        let mut maps = MapBuilder::new(None, LargeStringBuilder::new(), Int32Builder::new());
        for row in 0..3 {
            lists.append_value([Some(row), None]);
            maps.keys().append_value("k");
            maps.values().append_value(row);
            maps.append(row != 1).unwrap();
        }
        let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
            [Some([Some(1), None]), None, Some([Some(2), Some(3)])],
            2,
        );
        let member = Arc::new(Field::new("a", DataType::Boolean, true));
        let validity = NullBuffer::from(vec![true, false, true]);
        let structs =
            StructArray::new(vec![member].into(), vec![Arc::new(flags.clone()) as ArrayRef], Some(validity));
        let arrays: [ArrayRef; 8] = [
            Arc::new(flags),
            Arc::new(texts),
            Arc::new(ids),
            Arc::new(lists.finish()),
            Arc::new(maps.finish()),
            Arc::new(pairs),
            Arc::new(structs),
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
        ];
        RecordBatch::try_from_iter(
            arrays.into_iter().enumerate().map(|(name, array)| (name.to_string(), array)),
        )
        .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn no_attached_bytes_panic(changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..8_usize), 1..4)) {
            let rows = layouts();
            let sound = encode_rows(&rows).unwrap();
            prop_assert_eq!(&decode_rows(&sound, &rows.schema(), 3).unwrap(), &rows);
            let mut bytes = sound;
            for (place, byte, run) in changes {
                let start = place.index(bytes.len());
                let end = bytes.len().min(start + run);
                bytes[start..end].fill(byte);
            }
            if let Ok(read) = decode_rows(&bytes, &rows.schema(), 3) {
                // What was taken for sound can be read.
                let _text = format!("{read:?}");
                concat_batches(&rows.schema(), [&read, &rows]).unwrap();
            }
            let _positions = decode_positions(&bytes, 3);
        }
    }

    #[test]
    fn new_rows_in_the_files_move_what_only_the_log_has() {
        let mut rows = Rows::default();
        rows.tail.push(batch(0..10)).unwrap();
        rows.delete(&[100, 104].into_iter().collect(), 110).unwrap();
        assert!(rows.delete(&[104].into_iter().collect(), 110).is_err());
        assert!(rows.delete(&[110].into_iter().collect(), 110).is_err());
        // 100 rows in the files; 3 of the log and 7 new ones join them.
        rows.grow(100, 110, 3, Version(9)).unwrap();
        assert_eq!(rows.deleted.iter().collect::<Vec<_>>(), [100, 111]);
        assert_eq!(rows.tail.rows(), 7);
        assert_eq!(rows.shifts.since(Version(9)), Some([].as_slice()));
        let [shift] = rows.shifts.since(Version(8)).unwrap() else { panic!("{:?}", rows.shifts) };
        let moved = shift.moved(&[0, 102, 103, 109].into_iter().collect());
        assert_eq!(moved.iter().collect::<Vec<_>>(), [0, 102, 110, 116]);
        let all = std::iter::once(0..110).collect();
        assert_eq!(shift.moved_runs(all), [0..103, 110..117]);
        assert!(rows.grow(110, 120, 8, Version(10)).is_err());
    }

    #[test]
    fn only_the_last_shifts_are_known() {
        let shift = |version: u64| Shift::new(Version(version), 10 * version, version);
        let mut shifts = Shifts::default();
        for version in 1..=SHIFTS_KNOWN as u64 + 2 {
            shifts.push(shift(version));
        }
        assert_eq!(shifts.since(Version(1)), None);
        assert_eq!(shifts.since(Version(2)).unwrap().len(), SHIFTS_KNOWN);
        let mut before = Shifts::default();
        before.push(shift(1));
        before.push(shift(2));
        let mut later = Shifts::default();
        later.push(shift(5));
        before.extend(&later);
        assert_eq!(before.since(Version(1)), Some([shift(2), shift(5)].as_slice()));
        later.forget(Version(4));
        before.extend(&later);
        assert_eq!((before.since(Version(3)), later.since(Version(5))), (None, Some([].as_slice())));
    }
}
