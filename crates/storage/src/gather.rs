//! Tables that are not what their column files are, put into column files in memory.
//!
//! A result must have the same types and be as free to write into, whether its rows lie in files, wait in the
//! log or have deleted ones between them.

use crate::column::{ColumnData, ColumnWriter, GenerationFiles};
use crate::table::TableData;
use crate::transaction::in_parallel;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::filter::filter;
use hypostyle_format::ColumnEntry;
use hypostyle_io::Store;
use hypostyle_types::{ColumnId, Error, Result};
use parking_lot::Mutex;
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

impl TableData {
    /// Some columns, by their places, of the rows `rows` of those that are not deleted, in order, as columns of a
    /// table in memory.
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
