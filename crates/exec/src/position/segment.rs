//! Segments of a table's rows that have no group in common.
//!
//! Where rows lie in the order of a key, or about so, all rows of a group are in one segment. Each
//! segment then has a table of groups of its own, which stays in the cache, and nothing has to be put
//! together in the end. The bounds that are kept for each block tell where segments end.

use super::evaluate::Columns;
use super::flow::Expression;
use super::stop::{Stop, Stopped};
use super::table::TableColumn;
use crate::scan::{End, scalar};
use arrow::array::{Array, ArrayRef};
use arrow::compute::kernels::cmp::eq;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::Column;
use hypostyle_position::Rows;
use hypostyle_storage::Bound;
use hypostyle_types::BLOCK_ROWS;
use std::cmp::Ordering;
use std::ops::Range;

/// The segments for each thread, at least: otherwise one thread may work while others have no more.
const SEGMENTS_PER_THREAD: usize = 4;

/// Rows of a table that have no group in common with others.
#[derive(Debug)]
pub(super) struct Segment {
    /// The rows in pieces, of which some may be left out.
    pub pieces: Vec<Range<u32>>,
    /// The least and the greatest value of the key, or what lies beyond these.
    pub bounds: ArrayRef,
}

/// All segments of a table, in the order of a key.
#[derive(Debug)]
pub(super) struct Segments {
    /// The column that is the key.
    pub number: usize,
    pub segments: Vec<Segment>,
}

impl Segments {
    /// Returns the segments of a slot's rows by one of some keys, for so many threads; `None` where rows
    /// are in no such order, or where they are too few.
    pub fn of(
        keys: &[Expression],
        columns: &Columns,
        slot: usize,
        morsels: &[Range<u32>],
        threads: usize,
    ) -> Stopped<Option<Self>> {
        let wanted = threads * SEGMENTS_PER_THREAD;
        if morsels.len() < wanted {
            return Ok(None);
        }
        for number in keys.iter().filter_map(|key| Some(key.downcast_ref::<Column>()?.index())) {
            if columns.slot(number) != slot || columns.is_outer(number) {
                continue;
            }
            let Some(blocks) = Block::all(columns.get(number)?)? else { continue };
            let parts = apart(columns.get(number)?, blocks)?;
            let Some(segments) = in_segments(morsels, &parts)? else { continue };
            if segments.len() >= wanted {
                return Ok(Some(Self { number, segments }));
            }
        }
        Ok(None)
    }
}

/// Rows whose values lie between two bounds.
#[derive(Clone, Debug)]
struct Block {
    rows: Range<u32>,
    low: ScalarValue,
    high: ScalarValue,
}

impl Block {
    /// Returns the blocks of a column, and its rows in the log as one more; `None` where the bounds of one
    /// are not known, or where it has a NULL.
    fn all(column: &TableColumn) -> Stopped<Option<Vec<Self>>> {
        let (data_type, rows) = (column.stored.data_type(), column.stored.len() as u32);
        let Some(in_files) = column.rows_in_files() else { return Ok(None) };
        let mut blocks = Vec::new();
        for start in (0..in_files).step_by(BLOCK_ROWS as usize) {
            let Some((low, high, false)) = column.bounds_at(start) else { return Ok(None) };
            let bound = |value, end| scalar(&Bound::Integer(value), data_type, end);
            let (Some(low), Some(high)) = (bound(low, End::Minimum), bound(high, End::Maximum)) else {
                return Ok(None);
            };
            let end = in_files.min(start.saturating_add(BLOCK_ROWS as u32));
            blocks.push(Self { rows: start..end, low, high });
        }
        if rows > in_files {
            if column.stored.slice(in_files as usize, (rows - in_files) as usize).null_count() > 0 {
                return Ok(None);
            }
            let behind = Rows::Range(in_files, rows);
            let (low, high) = (column.extreme(behind, true)?, column.extreme(behind, false)?);
            blocks.push(Self { rows: in_files..rows, low, high });
        }
        Ok(Some(blocks))
    }

    fn extend(&mut self, other: &Self) {
        self.rows.end = other.rows.end;
        if other.low < self.low {
            self.low = other.low.clone();
        }
        if other.high > self.high {
            self.high = other.high.clone();
        }
    }
}

/// Puts blocks together to such as have no value in common.
fn apart(column: &TableColumn, blocks: Vec<Block>) -> Stopped<Vec<Block>> {
    // The least value of each block and of those behind it.
    let mut least: Vec<ScalarValue> = blocks.iter().map(|block| block.low.clone()).collect();
    for place in (1..least.len()).rev() {
        if least[place] < least[place - 1] {
            least[place - 1] = least[place].clone();
        }
    }
    let mut parts: Vec<Block> = Vec::new();
    for (mut block, least) in blocks.into_iter().zip(least) {
        let Some(last) = parts.last_mut() else {
            parts.push(block);
            continue;
        };
        let cut = match last.high.partial_cmp(&least) {
            Some(Ordering::Less) => Some(block.rows.start),
            Some(Ordering::Equal) => behind(column, &block.rows, &last.high)?,
            _ => None,
        };
        match cut {
            Some(cut) => {
                last.rows.end = cut;
                block.rows.start = cut;
                parts.push(block);
            }
            None => last.extend(&block),
        }
    }
    Ok(parts)
}

/// Returns the first of some rows that does not have a value, if no other one behind it has the value.
fn behind(column: &TableColumn, rows: &Range<u32>, value: &ScalarValue) -> Stopped<Option<u32>> {
    column.verify(rows.start.into()..rows.end.into())?;
    let values = column.stored.slice(rows.start as usize, rows.len());
    let value = value.to_scalar().map_err(Stop::expression)?;
    let same = eq(&values, &value).map_err(Stop::arrow)?;
    let count = same.true_count();
    let is_prefix = same.slice(0, count).true_count() == count;
    Ok((is_prefix && count < rows.len()).then_some(rows.start + count as u32))
}

/// Shares pieces of rows out to parts of the table; `None` where a row is in none.
fn in_segments(pieces: &[Range<u32>], parts: &[Block]) -> Stopped<Option<Vec<Segment>>> {
    let mut shares: Vec<Vec<Range<u32>>> = vec![Vec::new(); parts.len()];
    for piece in pieces {
        let mut start = piece.start;
        while start < piece.end {
            let place = parts.partition_point(|part| part.rows.end <= start);
            let (Some(part), Some(share)) = (parts.get(place), shares.get_mut(place)) else {
                return Ok(None);
            };
            let end = piece.end.min(part.rows.end);
            share.push(start..end);
            start = end;
        }
    }
    let mut segments = Vec::new();
    for (pieces, part) in shares.into_iter().zip(parts).filter(|(pieces, _)| !pieces.is_empty()) {
        let bounds = ScalarValue::iter_to_array([part.low.clone(), part.high.clone()]);
        segments.push(Segment { pieces, bounds: bounds.map_err(Stop::expression)? });
    }
    Ok(Some(segments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::record_batch::RecordBatch;
    use std::sync::Arc;

    fn column(values: Vec<i32>) -> TableColumn {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int32, false)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int32Array::from(values))]).unwrap();
        TableColumn::of_rows(&[batch], &schema, 0).unwrap()
    }

    /// Returns blocks of three rows each.
    fn blocks(values: &[i32]) -> Vec<Block> {
        let chunks = values.chunks(3).enumerate();
        let block = |(place, values): (usize, &[i32])| Block {
            rows: 3 * place as u32..(3 * place + values.len()) as u32,
            low: ScalarValue::from(*values.iter().min().unwrap()),
            high: ScalarValue::from(*values.iter().max().unwrap()),
        };
        chunks.map(block).collect()
    }

    fn cuts(values: &[i32]) -> Vec<u32> {
        let parts = apart(&column(values.to_vec()), blocks(values)).unwrap();
        let mut seen = std::collections::HashSet::new();
        for part in &parts {
            let own: std::collections::HashSet<i32> =
                part.rows.clone().map(|row| values[row as usize]).collect();
            assert!(own.iter().all(|value| seen.insert(*value)), "{values:?}: {parts:?}");
            let bounds = part.low.clone()..=part.high.clone();
            assert!(own.iter().all(|value| bounds.contains(&ScalarValue::from(*value))), "{parts:?}");
        }
        assert!(parts.windows(2).all(|pair| pair[0].rows.end == pair[1].rows.start));
        parts.iter().map(|part| part.rows.end).collect()
    }

    #[test]
    fn parts_have_no_value_in_common() {
        assert_eq!(cuts(&[1, 2, 3, 4, 5, 6]), [3, 6]);
        // In no order within a block.
        assert_eq!(cuts(&[3, 1, 2, 6, 4, 5]), [3, 6]);
        // A value goes on at the beginning of the next block.
        assert_eq!(cuts(&[1, 2, 3, 3, 5, 6, 7]), [4, 6, 7]);
        assert_eq!(cuts(&[1, 2, 3, 3, 5, 3, 7, 8]), [6, 8]);
        // It is all of the next block.
        assert_eq!(cuts(&[1, 2, 3, 3, 3, 3, 3, 8]), [7, 8]);
        // A later block has a value from before.
        assert_eq!(cuts(&[1, 2, 3, 4, 5, 6, 7, 2, 9]), [9]);
        assert_eq!(cuts(&[9, 8, 7, 3, 2, 1]), [6]);
    }

    #[test]
    fn pieces_are_cut_where_segments_end() {
        let parts = blocks(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let segments = in_segments(&[0..2, 4..8], &parts).unwrap().unwrap();
        let pieces = segments.iter().flat_map(|segment| &segment.pieces);
        let pieces: Vec<(u32, u32)> = pieces.map(|piece| (piece.start, piece.end)).collect();
        assert_eq!((segments.len(), pieces), (3, vec![(0, 2), (4, 6), (6, 8)]));
        assert_eq!(*segments[2].bounds, Int32Array::from(vec![7, 9]));
        assert!(in_segments(&[0..2, 8..12], &parts).unwrap().is_none());
    }
}
