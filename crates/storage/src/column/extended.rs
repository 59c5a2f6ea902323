//! Columns with rows behind those of their files: those of the log.

use super::ColumnData;
use super::layout::Buffers;
use crate::names::Role;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, UInt64Array, make_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use arrow_select::take::take;
use hypostyle_types::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

impl ColumnData {
    /// Returns all rows as one array, with others behind them. Whole pages of the files are shared:
    /// only the other rows and bitmaps take memory. Returns `None` where values have parts of their
    /// own, as lists have, where the files have no rows, and where a dictionary's codes do not suffice
    /// for new values.
    ///
    /// # Errors
    /// `Corrupt` when a file is shorter than the catalog promises.
    pub fn array_with(&self, behind: &ArrayRef) -> Result<Option<ArrayRef>> {
        let stored = self.array()?;
        let ([shape], [entry]) = (self.layout(), self.entry().generation.nodes.as_slice()) else {
            return Ok(None);
        };
        if stored.is_empty() {
            return Ok(None);
        }
        let (behind, values) = match stored.as_any_dictionary_opt() {
            Some(dictionary) => match coded(dictionary.keys(), dictionary.values(), behind)? {
                Some((codes, values)) => (codes, Some(values)),
                None => return Ok(None),
            },
            None => (cast(behind, stored.data_type()).map_err(internal)?, None),
        };
        let behind = behind.to_data();
        let rows = stored.len() + behind.len();
        let mut builder = ArrayDataBuilder::new(stored.data_type().clone()).len(rows);
        if stored.nulls().is_some() || behind.nulls().is_some() {
            let parts = [(stored.nulls(), stored.len()), (behind.nulls(), behind.len())];
            let parts = parts.into_iter().map(|(nulls, rows)| nulls.map(NullBuffer::inner).ok_or(rows));
            builder = builder.nulls(Some(NullBuffer::new(joined(parts))));
        }
        let (length, mapped) = (entry.length, |role, bytes, more: &[u8]| self.map_with(role, bytes, more));
        match &shape.buffers {
            Buffers::Fixed { width, .. } => {
                let more = fixed(&behind, *width);
                builder = builder.add_buffer(mapped(Role::Values, length * *width as u64, more)?);
            }
            Buffers::Bitmap => {
                let bits = |data: &ArrayData| {
                    BooleanBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
                };
                let bits = [bits(&stored.to_data()), bits(&behind)];
                builder = builder.add_buffer(joined(bits.iter().map(Ok)).into_inner());
            }
            Buffers::Variable => {
                let offsets = behind.buffers()[0].typed_data::<i64>();
                let own = &offsets[behind.offset()..=behind.offset() + behind.len()];
                let (first, last) = (own[0], own[behind.len()]);
                let heap = &behind.buffers()[1][first as usize..last as usize];
                let shift = entry.heap_bytes as i64 - first;
                let offsets: Vec<i64> = own[1..].iter().map(|offset| offset + shift).collect();
                let offsets = Buffer::from_vec(offsets);
                builder = builder
                    .add_buffer(mapped(Role::Offsets, (length + 1) * 8, &offsets)?)
                    .add_buffer(mapped(Role::Heap, entry.heap_bytes, heap)?);
            }
            Buffers::None | Buffers::Offsets { .. } => return Ok(None),
        }
        if let Some(values) = values {
            builder = builder.add_child_data(values.to_data());
        }
        // SAFETY: the files' part is what `read_node` makes an array of. Behind it lies a valid array of
        // the same type: offsets go on from the last one, and codes number values of the dictionary.
        Ok(Some(make_array(unsafe { builder.build_unchecked() })))
    }

    fn map_with(&self, role: Role, length: u64, behind: &[u8]) -> Result<Buffer> {
        if length == 0 {
            return Ok(Buffer::from(behind.to_vec()));
        }
        let mapping = self.files.open(0, role)?.map_with(length, &[behind])?;
        Ok(Buffer::from(bytes::Bytes::from_owner(mapping)))
    }
}

/// Returns the bytes of an array's values of one width.
fn fixed(data: &ArrayData, width: usize) -> &[u8] {
    &data.buffers()[0][data.offset() * width..(data.offset() + data.len()) * width]
}

/// Returns bits one behind the other; as many as a number says are set.
fn joined<'a>(parts: impl Iterator<Item = std::result::Result<&'a BooleanBuffer, usize>>) -> BooleanBuffer {
    let mut joined = BooleanBufferBuilder::new(0);
    for part in parts {
        match part {
            Ok(bits) => joined.append_buffer(bits),
            Err(set) => joined.append_n(set, true),
        }
    }
    joined.finish()
}

/// Returns the codes of values as an array of the type of a dictionary's codes, and the dictionary
/// with the values that it did not have. Returns `None` where the codes do not suffice.
fn coded(keys: &dyn Array, values: &ArrayRef, behind: &ArrayRef) -> Result<Option<(ArrayRef, ArrayRef)>> {
    let behind = cast(behind, values.data_type()).map_err(internal)?;
    let known = texts(values)?;
    let mut codes: HashMap<&[u8], i64> =
        known.iter().zip(0..).filter_map(|(text, code)| Some(((*text)?, code))).collect();
    let (mut new, mut next) = (Vec::new(), values.len() as i64);
    let mut of_rows = Vec::with_capacity(behind.len());
    for (row, text) in texts(&behind)?.into_iter().enumerate() {
        of_rows.push(text.map(|text| {
            *codes.entry(text).or_insert_with(|| {
                new.push(row as u64);
                next += 1;
                next - 1
            })
        }));
    }
    let most = match keys.data_type() {
        DataType::Int8 => i64::from(i8::MAX),
        DataType::Int16 => i64::from(i16::MAX),
        _ => i64::from(i32::MAX),
    };
    if next - 1 > most {
        return Ok(None);
    }
    let of_rows: ArrayRef = Arc::new(Int64Array::from(of_rows));
    let of_rows = cast(&of_rows, keys.data_type()).map_err(internal)?;
    if new.is_empty() {
        return Ok(Some((of_rows, values.clone())));
    }
    let new = take(&behind, &UInt64Array::from(new), None).map_err(internal)?;
    let values = concat(&[values.as_ref(), new.as_ref()]).map_err(internal)?;
    Ok(Some((of_rows, values)))
}

/// Returns the bytes of texts or byte strings.
fn texts(array: &ArrayRef) -> Result<Vec<Option<&[u8]>>> {
    match array.data_type() {
        DataType::LargeUtf8 => {
            Ok(array.as_string::<i64>().iter().map(|text| text.map(str::as_bytes)).collect())
        }
        DataType::LargeBinary => Ok(array.as_binary::<i64>().iter().collect()),
        other => Err(Error::internal(format!("a dictionary has values of type {other}"))),
    }
}

fn internal(error: ArrowError) -> Error {
    Error::internal(format!("rows of the log do not fit their column: {error}"))
}
