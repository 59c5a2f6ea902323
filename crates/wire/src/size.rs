//! How long rows are before codecs, about, and how many of them make a chunk (protocol.md §10.4).

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is encoded is the program's own, and has fewer than 2^32 rows"
)]

use crate::word::BLOCK;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;

/// How many rows of a batch from `start` on have about `chunk_bytes` before compression; at least one.
pub fn rows_that_fit(batch: &RecordBatch, start: usize, chunk_bytes: usize) -> usize {
    let bytes =
        |rows: usize| batch.columns().iter().map(|column| bytes_of_rows(column, start, rows)).sum::<usize>();
    let mut most = batch.num_rows() - start;
    // From below, so that what it costs is in proportion to the chunk and not to the batch.
    let mut rows = most.min(BLOCK);
    loop {
        let length = bytes(rows).max(1);
        // Rows that follow are taken to be as long as these.
        let fitting = (rows as f64 * chunk_bytes as f64 / length as f64) as usize;
        if length <= chunk_bytes {
            let more = fitting.min(rows * 8).min(most);
            if more <= rows + rows / 4 {
                return if more == most && bytes(most) <= chunk_bytes { most } else { whole_blocks(rows) };
            }
            rows = more;
        } else if rows == 1 || length <= chunk_bytes + chunk_bytes / 8 {
            return whole_blocks(rows);
        } else {
            most = rows - 1;
            rows = fitting.clamp(1, most);
        }
    }
}

/// Whole blocks pack better than a cut one.
fn whole_blocks(rows: usize) -> usize {
    if rows > BLOCK { rows / BLOCK * BLOCK } else { rows }
}

/// Bytes of a column before codecs.
pub(crate) fn bytes_of(array: &ArrayRef) -> usize {
    bytes_of_rows(array, 0, array.len())
}

/// Returns about how many bytes some rows have.
fn bytes_of_rows(array: &ArrayRef, start: usize, rows: usize) -> usize {
    fn spanned<O: OffsetSizeTrait>(offsets: &[O], start: usize, rows: usize) -> (usize, usize) {
        (offsets[start].as_usize(), (offsets[start + rows] - offsets[start]).as_usize())
    }
    let text = |bytes: usize| bytes + rows * size_of::<u32>();
    let inner =
        |values: &ArrayRef, (first, length)| rows * size_of::<u32>() + bytes_of_rows(values, first, length);
    match array.data_type() {
        DataType::Utf8 => text(spanned(array.as_string::<i32>().value_offsets(), start, rows).1),
        DataType::LargeUtf8 => text(spanned(array.as_string::<i64>().value_offsets(), start, rows).1),
        DataType::Binary => text(spanned(array.as_binary::<i32>().value_offsets(), start, rows).1),
        DataType::LargeBinary => text(spanned(array.as_binary::<i64>().value_offsets(), start, rows).1),
        DataType::Utf8View => text(view_bytes(array.as_string_view().views(), start, rows)),
        DataType::BinaryView => text(view_bytes(array.as_binary_view().views(), start, rows)),
        DataType::List(_) => inner(
            array.as_list::<i32>().values(),
            spanned(array.as_list::<i32>().value_offsets(), start, rows),
        ),
        DataType::LargeList(_) => inner(
            array.as_list::<i64>().values(),
            spanned(array.as_list::<i64>().value_offsets(), start, rows),
        ),
        DataType::Map(..) => {
            let span = spanned(array.as_map().value_offsets(), start, rows);
            let entries = array.as_map().entries();
            rows * size_of::<u32>()
                + entries.columns().iter().map(|column| bytes_of_rows(column, span.0, span.1)).sum::<usize>()
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| bytes_of_rows(column, start, rows)).sum()
        }
        DataType::FixedSizeList(_, length) => {
            let length = length.unsigned_abs() as usize;
            let list = array.as_fixed_size_list();
            bytes_of_rows(list.values(), list.value_offset(start) as usize, rows * length)
        }
        DataType::Boolean => rows.div_ceil(8),
        DataType::Null => 0,
        DataType::Dictionary(code, _) => rows * code.primitive_width().unwrap_or(4),
        DataType::FixedSizeBinary(bytes) => rows * bytes.unsigned_abs() as usize,
        other => rows * other.primitive_width().unwrap_or(16),
    }
}

fn view_bytes(views: &[u128], start: usize, rows: usize) -> usize {
    views[start..start + rows].iter().map(|view| *view as u32 as usize).sum()
}
