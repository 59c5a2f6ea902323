//! Rows of a table that are handed out where they lie, although others of the table are deleted or
//! only in the log (docs/decisions/0024).
//!
//! Rows of the log extend the mappings of the column files ([`TableData::whole_column`]). Rows
//! between deleted ones are slices of that. Where the slices would be too short, rows are copied, those
//! of a few blocks at a time, and a later state of the table keeps the copies that are still right.

use crate::column::ColumnData;
use crate::parallel::in_parallel;
use crate::table::TableData;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::transform::{Capacities, MutableArrayData};
use arrow_schema::{ArrowError, DataType, Field};
use hypostyle_sync::Mutex;
use hypostyle_types::{BLOCK_ROWS, ColumnId, Error, Generation, Result, Version};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Runs of fewer rows are copied together: one array costs its consumers as much as copying so
/// many values.
const SLICE_ROWS_MIN: u64 = 1024;

/// The pieces that any table may be handed out in, and the rows for each of them beyond that.
const PIECES_MAX: u64 = 2048;
const PIECE_ROWS_MIN: u64 = 16 * 1024;

/// Copies of more bytes of a table are not kept for those who ask later.
const KEPT_BYTES_MAX: u64 = 1 << 30;

/// Only who asks for at least this part of the rows as one array has all of them gathered, or waits
/// for that.
const GATHERED_SHARE: u64 = 4;

/// What a table has at hand for those to whom its rows are handed out.
#[derive(Debug, Default)]
pub(crate) struct Live {
    layout: OnceLock<Arc<Layout>>,
    /// That of an earlier state, whose copies may still be right.
    before: Mutex<Option<Arc<Layout>>>,
    /// Columns without deleted rows, in memory: those of which the log's rows cannot be put behind the
    /// files, and those that were asked for as one array more than once.
    gathered: Mutex<HashMap<usize, Arc<Gathered>>>,
    kept: Kept,
}

/// One column without deleted rows, once it is wanted. Whoever else wants it waits until it is there: it
/// would read and keep the same rows again, and be ready no earlier. Nobody holds a lock of anything
/// else meanwhile.
#[derive(Debug, Default)]
struct Gathered {
    column: Mutex<Option<Arc<ColumnData>>>,
    was_copied: AtomicBool,
}

/// The rows that are not deleted, in pieces.
#[derive(Debug)]
struct Layout {
    /// The files that the positions are of.
    files: Files,
    pieces: Vec<Piece>,
    /// How many rows are copied.
    copied: u64,
    kept: Kept,
}

/// The columns of which something is kept, with its bytes: those that are asked for, and only while they
/// have no more than [`KEPT_BYTES_MAX`] together.
#[derive(Debug, Default)]
struct Kept(Mutex<HashMap<usize, u64>>);

/// What tells whether the same positions have the same rows.
#[derive(Debug, PartialEq)]
struct Files {
    columns: Vec<(ColumnId, Generation)>,
    moved: Version,
    /// Rows behind these may have moved.
    rows: u64,
}

/// Rows that are handed out one behind the other: first some that lie in the column files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LivePlace {
    /// The position of the first of them.
    pub start: u64,
    pub rows: u64,
    /// How many come behind them that lie elsewhere.
    pub others: u64,
}

/// How many rows are handed out together, and one array of each column.
pub type LivePiece = (usize, Vec<ArrayRef>);

/// Rows that follow each other.
#[derive(Clone, Debug)]
struct Piece {
    /// How many rows come before it that are not deleted.
    first: u64,
    rows: u64,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// The rows behind a position.
    Lying(u64),
    Copied(Arc<Copied>),
}

/// Short runs of rows that are copied together.
#[derive(Debug)]
struct Copied {
    runs: Vec<Range<u64>>,
    columns: Vec<OnceLock<ArrayRef>>,
}

impl Live {
    /// Returns what a later state of the table takes over.
    pub fn handed_on(&self) -> Self {
        let before = self.layout.get().cloned().or_else(|| self.before.lock().clone());
        Self { before: Mutex::new(before), ..Self::default() }
    }
}

impl Layout {
    fn new(table: &TableData, before: Option<&Self>) -> Self {
        let runs = live_runs(table);
        let most = PIECES_MAX.max(table.positions() / PIECE_ROWS_MIN);
        let mut shortest = SLICE_ROWS_MIN;
        let mut groups = grouped(&runs, shortest);
        while groups.len() as u64 > most {
            shortest *= 2;
            groups = grouped(&runs, shortest);
        }
        let entry = table.entry();
        let columns = entry.columns.iter().map(|column| (column.id, column.generation.number)).collect();
        let files = Files { columns, moved: table.beyond_files().moved, rows: entry.rows };
        let rows_of = |group: &[Range<u64>]| group.iter().map(|run| run.end - run.start).sum::<u64>();
        let copied = groups.iter().filter(|group| group.len() > 1).map(|group| rows_of(group)).sum();
        let same = before.filter(|before| before.files.agree_with(&files));
        let (known, kept) = same.and_then(|before| before.handed_on(table, copied)).unwrap_or_default();
        let (mut pieces, mut first) = (Vec::with_capacity(groups.len()), 0);
        for group in groups {
            let rows = rows_of(group);
            let place = match group {
                [run] => Place::Lying(run.start),
                runs => {
                    let same = known.get(&runs[0].start).filter(|same| same.runs == runs);
                    Place::Copied(same.map_or_else(|| Copied::new(runs, table), |same| Arc::clone(same)))
                }
            };
            pieces.push(Piece { first, rows, place });
            first += rows;
        }
        Self { files, pieces, copied, kept }
    }

    /// Says whether copies of a column are kept.
    fn keeps(&self, table: &TableData, index: usize) -> bool {
        self.kept.has_room(index, bytes_of(table, index, self.copied))
    }

    /// Returns the copies of rows of the files, by their first positions, and the columns that they are of;
    /// `None` where these take too much room when so many rows are copied.
    fn handed_on(&self, table: &TableData, copied: u64) -> Option<(HashMap<u64, &Arc<Copied>>, Kept)> {
        let kept = Kept::default();
        let has_room = |index: usize| kept.has_room(index, bytes_of(table, index, copied));
        if !self.kept.columns().into_iter().all(has_room) {
            return None;
        }
        let copies = self.pieces.iter().filter_map(|piece| match &piece.place {
            Place::Copied(copied) => Some(copied),
            Place::Lying(_) => None,
        });
        let copies = copies
            .filter(|copied| copied.runs.last().is_some_and(|run| run.end <= self.files.rows))
            .map(|copied| (copied.runs[0].start, copied));
        Some((copies.collect(), kept))
    }

    /// Returns the pieces that have some of the rows that are not deleted, with the rows of each.
    fn pieces(&self, rows: &Range<u64>) -> impl Iterator<Item = (&Piece, Range<u64>)> {
        let rows = rows.clone();
        let begin = self.pieces.partition_point(|piece| piece.first + piece.rows <= rows.start);
        let pieces = self.pieces[begin..].iter().take_while(move |piece| piece.first < rows.end);
        pieces.map(move |piece| {
            let (start, end) = (rows.start.max(piece.first), rows.end.min(piece.first + piece.rows));
            (piece, start - piece.first..end - piece.first)
        })
    }
}

impl Files {
    /// Says whether rows that both have are at the same positions.
    fn agree_with(&self, other: &Self) -> bool {
        (&self.columns, self.moved) == (&other.columns, other.moved)
    }
}

impl Kept {
    /// Says whether a column is one of them, or may become one with so many bytes, which it then does.
    fn has_room(&self, index: usize, bytes: u64) -> bool {
        let mut kept = self.0.lock();
        if kept.contains_key(&index) {
            return true;
        }
        let all = kept.values().fold(bytes, |all, bytes| all.saturating_add(*bytes));
        let fits = all <= KEPT_BYTES_MAX;
        if fits {
            kept.insert(index, bytes);
        }
        fits
    }

    /// Counts a column that is kept in any case.
    fn count(&self, index: usize, bytes: u64) {
        self.0.lock().insert(index, bytes);
    }

    fn columns(&self) -> Vec<usize> {
        self.0.lock().keys().copied().collect()
    }
}

impl Copied {
    fn new(runs: &[Range<u64>], table: &TableData) -> Arc<Self> {
        let columns = table.columns().iter().map(|_| OnceLock::new()).collect();
        Arc::new(Self { runs: runs.to_vec(), columns })
    }
}

impl Piece {
    /// Returns where some of its rows lie, in order.
    fn runs(&self, rows: Range<u64>) -> Vec<Range<u64>> {
        let (mut runs, mut first) = (Vec::new(), 0);
        let copied = match &self.place {
            Place::Copied(copied) => copied,
            Place::Lying(position) => {
                runs.push(position + rows.start..position + rows.end);
                return runs;
            }
        };
        for run in &copied.runs {
            let length = run.end - run.start;
            let (start, end) = (rows.start.max(first), rows.end.min(first + length));
            if start < end {
                runs.push(run.start + start - first..run.start + end - first);
            }
            first += length;
        }
        runs
    }
}

impl TableData {
    /// Says whether its rows can be handed out where they lie, those of the log behind those of the
    /// files. A table without rows in files is small, and rows that may be rolled back must be copied.
    pub fn is_handed_out(&self) -> bool {
        self.rows_in_files() > 0 && !self.is_uncommitted()
    }

    /// Returns the field of a column that is handed out.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged.
    pub fn live_field(&self, index: usize) -> Result<Field> {
        if self.beyond_files().tail.rows() > 0 && self.whole_column(index)?.is_none() {
            return Ok(self.gathered(index)?.field());
        }
        Ok(self.columns()[index].field())
    }

    /// Returns the rows `rows` of those that are not deleted, piece by piece and in order. What is
    /// copied was verified; for the rest [`Snapshot::hand_out`] is asked.
    ///
    /// [`Snapshot::hand_out`]: crate::Snapshot::hand_out
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged.
    pub fn live_pieces(
        &self,
        columns: &[usize],
        rows: &Range<u64>,
        threads: usize,
    ) -> Result<Vec<LivePiece>> {
        let layout = self.layout();
        let whole = columns.iter().map(|index| self.whole_column(*index)).collect::<Result<Vec<_>>>()?;
        let pieces: Vec<_> = layout.pieces(rows).collect();
        let is_copied = pieces.iter().any(|(piece, _)| matches!(piece.place, Place::Copied(_)));
        let keeps =
            |whole: &Option<ArrayRef>, index| is_copied && whole.is_some() && layout.keeps(self, index);
        let keeps: Vec<bool> = whole.iter().zip(columns).map(|(whole, index)| keeps(whole, *index)).collect();
        let copies = Mutex::new(HashMap::new());
        let mut work = Vec::new();
        for (number, (piece, _)) in pieces.iter().enumerate() {
            if let Place::Copied(copied) = &piece.place {
                for ((whole, index), keeps) in whole.iter().zip(columns).zip(&keeps) {
                    if let Some(whole) = whole
                        && copied.columns[*index].get().is_none()
                    {
                        work.push((number, copied, whole, *index, *keeps));
                    }
                }
            }
        }
        in_parallel(work, threads, |(number, copied, whole, index, keeps)| {
            let copy = self.copied(index, whole, &copied.runs)?;
            match keeps {
                true => drop(copied.columns[index].set(copy)),
                false => drop(copies.lock().insert((number, index), copy)),
            }
            Ok(())
        })?;
        let copies = copies.into_inner();
        let array = |number: usize, place: usize| -> Result<ArrayRef> {
            let ((piece, rows), index) = (&pieces[number], columns[place]);
            let (start, count) = (rows.start as usize, (rows.end - rows.start) as usize);
            match (&whole[place], &piece.place) {
                (None, _) => {
                    let gathered = self.gathered(index)?.array()?;
                    Ok(gathered.slice(piece.first as usize + start, count))
                }
                (Some(whole), Place::Lying(position)) => Ok(whole.slice(*position as usize + start, count)),
                (Some(_), Place::Copied(copied)) => {
                    let copy = copied.columns[index].get().or_else(|| copies.get(&(number, index)));
                    let copy = copy.ok_or_else(|| Error::internal("a copy of rows was not made"))?;
                    Ok(copy.slice(start, count))
                }
            }
        };
        let arrays = |number: usize| -> Result<LivePiece> {
            let rows = &pieces[number].1;
            let arrays = (0..columns.len()).map(|place| array(number, place)).collect::<Result<_>>()?;
            Ok(((rows.end - rows.start) as usize, arrays))
        };
        (0..pieces.len()).map(arrays).collect()
    }

    /// Returns where the rows `rows` of those that are not deleted lie.
    pub fn live_places(&self, rows: &Range<u64>) -> Vec<LivePlace> {
        let mut places: Vec<LivePlace> = Vec::new();
        for (piece, rows) in self.layout().pieces(rows) {
            let count = rows.end - rows.start;
            match (self.in_files(piece, &rows), places.last_mut()) {
                (0, Some(last)) => last.others += count,
                (in_files, _) => {
                    let start = piece.runs(rows).first().map_or(0, |run| run.start);
                    let start = if in_files == 0 { 0 } else { start };
                    places.push(LivePlace { start, rows: in_files, others: count - in_files });
                }
            }
        }
        places
    }

    /// Returns those rows of [`Self::live_pieces`] that do not lie in the files; `None` where a column
    /// does not lie in its files at all.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged.
    pub fn live_others(
        &self,
        columns: &[usize],
        rows: &Range<u64>,
        threads: usize,
    ) -> Result<Option<Vec<LivePiece>>> {
        for index in columns {
            if self.whole_column(*index)?.is_none() {
                return Ok(None);
            }
        }
        let pieces = self.live_pieces(columns, rows, threads)?;
        let others = self.layout().pieces(rows).zip(pieces).map(|((piece, rows), (count, arrays))| {
            let skipped = self.in_files(piece, &rows) as usize;
            let arrays = arrays.into_iter().map(|array| array.slice(skipped, count - skipped)).collect();
            (count - skipped, arrays)
        });
        Ok(Some(others.filter(|(count, _)| *count > 0).collect()))
    }

    /// Returns how many of the first rows of a piece lie in the files.
    fn in_files(&self, piece: &Piece, rows: &Range<u64>) -> u64 {
        match &piece.place {
            Place::Lying(position) => {
                let files = self.rows_in_files();
                (position + rows.end).min(files).saturating_sub(position + rows.start)
            }
            Place::Copied(_) => 0,
        }
    }

    /// Returns the rows `rows` of those that are not deleted as one array of a column over memory and
    /// mappings of its own: the caller may write into its buffers and nobody else sees it. Without
    /// deleted rows among them it is a mapping. With some it is a copy for the first who asks, and for
    /// the next a mapping of a copy that stays as long as the table is what it is, if they want many rows.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged.
    pub fn live_private(&self, index: usize, rows: &Range<u64>) -> Result<ArrayRef> {
        let column = &self.columns()[index];
        let Some(whole) = self.whole_column(index)? else {
            let count = (rows.end - rows.start) as usize;
            return Ok(self.gathered(index)?.private_array()?.slice(rows.start as usize, count));
        };
        let runs: Vec<_> = self.layout().pieces(rows).flat_map(|(piece, rows)| piece.runs(rows)).collect();
        match runs.as_slice() {
            [run] => {
                let mapped = match self.beyond_files().tail.rows() {
                    0 => Some(column.private_array()?),
                    _ => column.private_array_with(&self.tail_column(index)?)?,
                };
                let mapped = mapped.ok_or_else(|| Error::internal("a column cannot be extended twice"))?;
                Ok(mapped.slice(run.start as usize, (run.end - run.start) as usize))
            }
            runs => {
                // A few rows are copied sooner than all are gathered.
                let are_many = rows.end - rows.start >= self.rows() / GATHERED_SHARE;
                if are_many && self.stays_gathered(index) {
                    let kept = self.gathered(index)?.private_array()?;
                    if kept.data_type() == whole.data_type() {
                        return Ok(kept.slice(rows.start as usize, (rows.end - rows.start) as usize));
                    }
                }
                with_own_values(&self.copied(index, &whole, runs)?)
            }
        }
    }

    /// Says whether a column is to stay in memory without its deleted rows: one that is asked for again, if
    /// there is room for it.
    fn stays_gathered(&self, index: usize) -> bool {
        self.slot(index).was_copied.swap(true, Ordering::Relaxed)
            && self.live.kept.has_room(index, self.columns()[index].bytes())
    }

    /// Returns the positions from the first to the last of some rows that are not deleted.
    pub fn live_positions(&self, rows: &Range<u64>) -> Range<u64> {
        let mut pieces = self.layout().pieces(rows);
        let Some((first, of_first)) = pieces.next() else { return 0..0 };
        let (last, of_last) = pieces.last().unwrap_or((first, of_first.clone()));
        let start = first.runs(of_first).first().map_or(0, |run| run.start);
        start..last.runs(of_last).last().map_or(start, |run| run.end)
    }

    /// Checks rows of the files among those at some positions ([`ColumnData::verify_rows`]).
    ///
    /// # Errors
    /// `Corrupt` naming the column and the block.
    pub fn verify_positions(&self, index: usize, positions: &Range<u64>) -> Result<()> {
        let end = positions.end.min(self.rows_in_files());
        match positions.start < end {
            true => self.columns()[index].verify_rows(positions.start..end),
            false => Ok(()),
        }
    }

    fn layout(&self) -> &Arc<Layout> {
        self.live.layout.get_or_init(|| {
            let before = self.live.before.lock().take();
            Arc::new(Layout::new(self, before.as_deref()))
        })
    }

    /// Returns a column without its deleted rows, in memory.
    fn gathered(&self, index: usize) -> Result<Arc<ColumnData>> {
        let slot = self.slot(index);
        let mut known = slot.column.lock();
        if let Some(known) = known.as_ref() {
            return Ok(known.clone());
        }
        let column = self.gather(&[index], 0..self.rows(), 1)?.pop();
        let column = column.ok_or_else(|| Error::internal("a column was not gathered"))?;
        self.live.kept.count(index, column.bytes());
        *known = Some(column.clone());
        Ok(column)
    }

    fn slot(&self, index: usize) -> Arc<Gathered> {
        self.live.gathered.lock().entry(index).or_default().clone()
    }

    /// Returns a copy of some runs of rows of a column, which are verified before.
    fn copied(&self, index: usize, whole: &ArrayRef, runs: &[Range<u64>]) -> Result<ArrayRef> {
        if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
            self.verify_positions(index, &(first.start..last.end))?;
        }
        let data = whole.to_data();
        let rows = runs.iter().map(|run| (run.end - run.start) as usize).sum();
        let capacities = match data.data_type() {
            DataType::LargeUtf8 | DataType::LargeBinary => {
                let offsets = data.buffers()[0].typed_data::<i64>();
                let at = |position: u64| offsets[data.offset() + position as usize];
                let bytes: i64 = runs.iter().map(|run| at(run.end) - at(run.start)).sum();
                Capacities::Binary(rows, Some(bytes as usize))
            }
            _ => Capacities::Array(rows),
        };
        let mut copy = MutableArrayData::with_capacities(vec![&data], false, capacities);
        for run in runs {
            copy.try_extend(0, run.start as usize, run.end as usize).map_err(cannot_copy)?;
        }
        Ok(make_array(copy.freeze()))
    }
}

/// Returns the bytes of so many rows of a column.
fn bytes_of(table: &TableData, index: usize, rows: u64) -> u64 {
    let bytes = u128::from(table.columns()[index].bytes()) * u128::from(rows);
    u64::try_from(bytes / u128::from(table.entry().rows.max(1))).unwrap_or(u64::MAX)
}

fn cannot_copy(error: ArrowError) -> Error {
    Error::internal(format!("cannot copy rows: {error}"))
}

/// Returns an array whose dictionary, if it has one, is its own.
fn with_own_values(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(array.clone()) };
    let values = dictionary.values().to_data();
    let mut own = MutableArrayData::new(vec![&values], false, values.len());
    own.try_extend(0, 0, values.len()).map_err(cannot_copy)?;
    Ok(dictionary.with_values(make_array(own.freeze())))
}

/// Returns the runs of positions that are not deleted.
fn live_runs(table: &TableData) -> Vec<Range<u64>> {
    let (mut runs, mut start) = (Vec::new(), 0);
    for deleted in table.deleted() {
        if start < deleted {
            runs.push(start..deleted);
        }
        start = deleted + 1;
    }
    if start < table.positions() {
        runs.push(start..table.positions());
    }
    runs
}

/// Returns the runs, those one by one that have `shortest` rows at least, and shorter ones together
/// that begin in one block.
fn grouped(runs: &[Range<u64>], shortest: u64) -> Vec<&[Range<u64>]> {
    let is_long = |run: &Range<u64>| run.end - run.start >= shortest;
    let together = |one: &Range<u64>, next: &Range<u64>| {
        !is_long(one) && !is_long(next) && one.start / BLOCK_ROWS == next.start / BLOCK_ROWS
    };
    runs.chunk_by(together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, NewColumn};
    use arrow_array::{Int32Array, RecordBatch};
    use arrow_schema::Schema;
    use hypostyle_types::LogicalType;

    #[test]
    fn only_who_asks_for_many_rows_again_has_them_kept() {
        let database = Database::in_memory().unwrap();
        let mut transaction = database.begin(1).unwrap();
        let column = NewColumn::new("a", LogicalType::Integer, true);
        let id = transaction.create_table("main", "t", vec![column]).unwrap();
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
        let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..20_000));
        transaction.append(id, &RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap()).unwrap();
        transaction.commit().unwrap();
        assert!(database.checkpoint().unwrap());
        let mut transaction = database.begin(1).unwrap();
        transaction.delete(id, &[5, 10_000].into_iter().collect()).unwrap();
        transaction.commit().unwrap();
        let snapshot = database.snapshot().unwrap();
        let table = snapshot.table_by_id(id).unwrap();
        let kept_after = |rows: Range<u64>| {
            table.live_private(0, &rows).unwrap();
            table.live.kept.columns()
        };
        for rows in [0..10, 0..10, 0..10, 0..19_998] {
            assert!(kept_after(rows).is_empty());
        }
        assert_eq!(kept_after(1..19_000), [0]);
    }

    #[test]
    fn only_what_is_kept_takes_room() {
        const HALF: u64 = KEPT_BYTES_MAX / 2;
        let kept = Kept::default();
        assert!(!kept.has_room(0, KEPT_BYTES_MAX + 1));
        assert!(kept.has_room(1, HALF));
        assert!(kept.has_room(1, HALF), "it is kept already");
        assert!(!kept.has_room(2, HALF + 1));
        assert!(kept.has_room(3, HALF));
        assert!(!kept.has_room(4, 1));
        assert!(kept.has_room(5, 0));
        kept.count(4, u64::MAX);
        assert!(kept.has_room(4, 1), "it is kept in any case");
        assert!(!kept.has_room(6, 1));
        let mut columns = kept.columns();
        columns.sort_unstable();
        assert_eq!(columns, [1, 3, 4, 5]);
    }
}
