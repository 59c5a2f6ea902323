//! Tables that are not what their column files are, put into column files in memory.
//!
//! A result must have the same types and be as free to write into, whether its rows lie in files, wait in the
//! log or have deleted ones between them.

use crate::column::{ColumnData, ColumnWriter, GenerationFiles};
use crate::parallel::{PARALLEL_CELLS_MIN, in_parallel};
use crate::table::TableData;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow_schema::ArrowError;
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use arrow_select::take::take;
use hypostyle_format::ColumnEntry;
use hypostyle_io::Store;
use hypostyle_sync::Mutex;
use hypostyle_types::{ColumnId, Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Positions that are looked at together.
const PIECE_ROWS: u64 = 128 * 1024;

/// A run of positions, in the files or in one batch of the tail, and which of them are wanted.
struct Piece {
    positions: Range<u64>,
    /// `None`: all of them.
    kept: Option<BooleanArray>,
}

/// Where the rows at some positions lie.
struct Places {
    /// Rows of the files, then those of each batch of the tail.
    rows: Vec<UInt64Array>,
    /// Where each position's row is, of those in the order of `rows`; `None` when that is the order
    /// that is wanted.
    order: Option<UInt64Array>,
}

impl TableData {
    /// Some columns, by their places, of the rows at some positions, in the order of these, as plain arrays.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged; `Internal` for a position past the end.
    pub fn rows_at(
        &self,
        columns: &[usize],
        positions: &UInt64Array,
        threads: usize,
    ) -> Result<Vec<ArrayRef>> {
        let places = self.places(positions)?;
        let threads = if positions.len() * columns.len() < PARALLEL_CELLS_MIN { 1 } else { threads };
        let gathered = Mutex::new(vec![None; columns.len()]);
        in_parallel(columns.iter().enumerate().collect(), threads, |(place, index)| {
            let column = self.column_at(*index, &places)?;
            gathered.lock()[place] = Some(column);
            Ok(())
        })?;
        Ok(gathered.into_inner().into_iter().flatten().collect())
    }

    fn places(&self, positions: &UInt64Array) -> Result<Places> {
        let mut starts = vec![0, self.rows_in_files()];
        for batch in self.beyond_files().tail.batches() {
            starts.push(starts[starts.len() - 1] + batch.num_rows() as u64);
        }
        let mut rows: Vec<Vec<u64>> = vec![Vec::new(); starts.len() - 1];
        let mut found = Vec::with_capacity(positions.len());
        for position in positions.values() {
            if *position >= self.positions() {
                return Err(Error::internal("a row past the end of its table is read"));
            }
            let source = starts.partition_point(|start| start <= position) - 1;
            found.push((source, rows[source].len() as u64));
            rows[source].push(position - starts[source]);
        }
        let mut first = vec![0; rows.len()];
        for source in 1..rows.len() {
            first[source] = first[source - 1] + rows[source - 1].len() as u64;
        }
        let order: Vec<u64> = found.into_iter().map(|(source, row)| first[source] + row).collect();
        let as_wanted = order.is_sorted();
        Ok(Places {
            rows: rows.into_iter().map(UInt64Array::from).collect(),
            order: (!as_wanted).then(|| order.into()),
        })
    }

    fn column_at(&self, index: usize, places: &Places) -> Result<ArrayRef> {
        let column = &self.columns()[index];
        let (in_files, in_tail) = places.rows.split_at(1);
        let tail = self.beyond_files().tail.batches().iter().map(|batch| batch.column(index).clone());
        let mut pieces: Vec<(ArrayRef, &UInt64Array)> =
            tail.zip(in_tail).filter(|(_, rows)| !rows.is_empty()).collect();
        if pieces.is_empty() || !in_files[0].is_empty() {
            runs(in_files[0].values()).try_for_each(|rows| column.verify_rows(rows))?;
            pieces.insert(0, (column.array()?, &in_files[0]));
        }
        let gather = || -> Result<ArrayRef, ArrowError> {
            let pieces = pieces.iter().map(|(stored, rows)| plain_rows(stored, rows));
            let pieces = pieces.collect::<Result<Vec<_>, _>>()?;
            let joined = match pieces.as_slice() {
                [only] => only.clone(),
                several => concat(&several.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?,
            };
            match &places.order {
                Some(order) => take(&joined, order, None),
                None => Ok(joined),
            }
        };
        gather().map_err(|error| Error::internal(format!("cannot gather rows: {error}")))
    }

    /// Some columns, by their places, of the rows `rows` of those that are not deleted, in order,
    /// as columns of a table in memory.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged; `OutOfMemory`.
    pub fn gather(
        &self,
        columns: &[usize],
        rows: Range<u64>,
        threads: usize,
    ) -> Result<Vec<Arc<ColumnData>>> {
        let pieces = self.pieces(rows);
        let store = Arc::new(Store::memory());
        let gathered = Mutex::new(vec![None; columns.len()]);
        in_parallel(columns.iter().enumerate().collect(), threads, |(place, index)| {
            let column = self.gather_column(&store, place as u32, *index, &pieces)?;
            gathered.lock()[place] = Some(Arc::new(column));
            Ok(())
        })?;
        Ok(gathered.into_inner().into_iter().flatten().collect())
    }

    fn pieces(&self, rows: Range<u64>) -> Vec<Piece> {
        let mut runs: Vec<Range<u64>> = (0..self.rows_in_files())
            .step_by(PIECE_ROWS as usize)
            .map(|start| start..self.rows_in_files().min(start + PIECE_ROWS))
            .collect();
        let mut start = self.rows_in_files();
        for batch in self.beyond_files().tail.batches() {
            runs.push(start..start + batch.num_rows() as u64);
            start += batch.num_rows() as u64;
        }
        let mut pieces = Vec::new();
        let mut live = 0;
        for positions in runs {
            let deleted = self.deleted().range_cardinality(positions.clone());
            let here = live..live + (positions.end - positions.start) - deleted;
            live = here.end;
            let wanted = rows.start.max(here.start)..rows.end.min(here.end);
            if wanted.is_empty() {
                continue;
            }
            if deleted == 0 {
                let offset = |row: u64| positions.start + (row - here.start);
                pieces.push(Piece { positions: offset(wanted.start)..offset(wanted.end), kept: None });
                continue;
            }
            let mut row = here.start;
            let keep = |position: u64| {
                let is_live = !self.deleted().contains(position);
                let kept = is_live && wanted.contains(&row);
                row += u64::from(is_live);
                Some(kept)
            };
            let kept = positions.clone().map(keep).collect();
            pieces.push(Piece { positions, kept: Some(kept) });
        }
        pieces
    }

    fn gather_column(
        &self,
        store: &Arc<Store>,
        place: u32,
        index: usize,
        pieces: &[Piece],
    ) -> Result<ColumnData> {
        let source = &self.columns()[index];
        let files = GenerationFiles::new(
            store.clone(),
            self.entry().id,
            ColumnId(place),
            source.entry().generation.number,
        );
        let mut writer = ColumnWriter::like(source, files.clone())?;
        for piece in pieces {
            let array = self.stored_rows(index, &piece.positions)?;
            let array = match &piece.kept {
                None => array,
                Some(kept) => filter(&array, kept)
                    .map_err(|error| Error::internal(format!("cannot gather rows: {error}")))?,
            };
            writer.append(&array)?;
        }
        let entry = ColumnEntry { generation: writer.finish()?, ..source.entry().clone() };
        // An encoding that had to be changed has moved to files of another generation.
        let files = GenerationFiles::new(store.clone(), files.table, files.column, entry.generation.number);
        Ok(ColumnData::new(entry, files))
    }

    /// A run of rows that lies in the files or in one batch of the tail.
    fn stored_rows(&self, index: usize, positions: &Range<u64>) -> Result<ArrayRef> {
        let count = (positions.end - positions.start) as usize;
        if positions.start < self.rows_in_files() {
            let column = &self.columns()[index];
            column.verify_rows(positions.clone())?;
            return Ok(column.array()?.slice(positions.start as usize, count));
        }
        let mut start = self.rows_in_files();
        for batch in self.beyond_files().tail.batches() {
            let end = start + batch.num_rows() as u64;
            if positions.start < end {
                return Ok(batch.column(index).slice((positions.start - start) as usize, count));
            }
            start = end;
        }
        Err(Error::internal("a row past the end of its table is gathered"))
    }
}

/// Runs of rows that follow each other.
fn runs(rows: &[u64]) -> impl Iterator<Item = Range<u64>> {
    rows.chunk_by(|one, next| one + 1 == *next).map(|run| run[0]..run[0] + run.len() as u64)
}

/// Some rows of a stored array, without its dictionary.
fn plain_rows(stored: &ArrayRef, rows: &UInt64Array) -> Result<ArrayRef, ArrowError> {
    match stored.as_any_dictionary_opt() {
        Some(dictionary) => take(dictionary.values(), &take(dictionary.keys(), rows, None)?, None),
        None => take(stored, rows, None),
    }
}
