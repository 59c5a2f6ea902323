//! Columns that grow chunk by chunk in the buffers in which they stay.
//!
//! Integers and strings, of which results mostly are, are decoded to where they will lie; other types are
//! kept as arrays and put together in the end.

use crate::decode::decode_masked;
use crate::dictionary::concatenate;
use crate::encode::integer_type;
use crate::error::refused;
use crate::integers::{EarlierColumns, decode_integers, no_earlier_column};
use crate::source::{Mask, Source};
use crate::text_decode::{Decoded, Lengths, decode_text};
use crate::values::Values;
use crate::word::Word;
use arrow_array::{
    Array, ArrayRef, LargeBinaryArray, LargeStringArray, make_array, new_empty_array, new_null_array,
};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{DataType, Field};
use hypostyle_types::{Error, Result};

/// A column that grows: final contiguous Arrow buffers, reserved at once when the sizes are known.
#[derive(Debug)]
pub struct ColumnBuilder {
    data_type: DataType,
    nulls: NullBufferBuilder,
    values: Values,
}

impl ColumnBuilder {
    pub fn new(field: &Field) -> Self {
        let values = match (field.data_type(), integer_type(field.data_type())) {
            (_, Some((1, _))) => Values::One(Vec::new()),
            (_, Some((2, _))) => Values::Two(Vec::new()),
            (_, Some((4, _))) => Values::Four(Vec::new()),
            (_, Some(_)) => Values::Eight(Vec::new()),
            (DataType::LargeUtf8 | DataType::LargeBinary, _) => {
                Values::Text { offsets: vec![0], bytes: Vec::new() }
            }
            _ => Values::Pieces(Vec::new()),
        };
        Self { data_type: field.data_type().clone(), nulls: NullBufferBuilder::new(0), values }
    }

    /// Makes room for more rows, and for `bytes` of their strings.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        match &mut self.values {
            Values::One(values) => values.reserve_exact(rows),
            Values::Two(values) => values.reserve_exact(rows),
            Values::Four(values) => values.reserve_exact(rows),
            Values::Eight(values) => values.reserve_exact(rows),
            Values::Text { offsets, bytes: text } => {
                offsets.reserve_exact(rows);
                text.reserve_exact(bytes);
            }
            Values::Pieces(_) => {}
        }
    }

    /// Rows that it has.
    pub fn rows(&self) -> usize {
        match &self.values {
            Values::Pieces(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
            _ => self.nulls.len(),
        }
    }

    /// Whether a NULL has come.
    pub(crate) fn has_nulls(&self) -> bool {
        match &self.values {
            Values::Pieces(pieces) => pieces.last().is_some_and(|piece| piece.null_count() > 0),
            _ => self.nulls.as_slice().is_some(),
        }
    }

    /// Reads `count` more elements of an array that is not a dictionary's.
    pub(crate) fn append(&mut self, source: &mut Source<'_>, count: usize, earlier: &[Self]) -> Result<()> {
        let earlier = BuiltColumns(earlier);
        if let Values::Pieces(_) = self.values {
            let array = crate::decode::decode(source, &self.data_type, count, &earlier)?;
            return self.append_array(array);
        }
        let (encoding, mask) = source.array(count)?;
        source.claim(count, self.values.width())?;
        match &mask {
            Mask::None => self.nulls.append_n_non_nulls(count),
            Mask::Some(nulls) => self.nulls.append_buffer(nulls),
            Mask::All => {
                self.nulls.append_n_nulls(count);
                self.append_defaults(count);
                return Ok(());
            }
        }
        match &mut self.values {
            Values::One(values) => decode_integers(source, encoding, count, &earlier, values),
            Values::Two(values) => decode_integers(source, encoding, count, &earlier, values),
            Values::Four(values) => decode_integers(source, encoding, count, &earlier, values),
            Values::Eight(values) => decode_integers(source, encoding, count, &earlier, values),
            Values::Text { offsets, bytes } => append_text(source, encoding, count, offsets, bytes),
            Values::Pieces(_) => {
                decode_masked(source, &self.data_type, count, encoding, None, &earlier).map(drop)
            }
        }
    }

    fn append_defaults(&mut self, count: usize) {
        match &mut self.values {
            Values::One(values) => values.resize(values.len() + count, 0),
            Values::Two(values) => values.resize(values.len() + count, 0),
            Values::Four(values) => values.resize(values.len() + count, 0),
            Values::Eight(values) => values.resize(values.len() + count, 0),
            Values::Text { offsets, bytes } => offsets.resize(offsets.len() + count, bytes.len() as i64),
            Values::Pieces(pieces) => pieces.push(new_null_array(&self.data_type, count)),
        }
    }

    /// Takes an array of the column's type as it is.
    pub(crate) fn append_array(&mut self, array: ArrayRef) -> Result<()> {
        match &mut self.values {
            Values::Pieces(pieces) => {
                pieces.push(array);
                Ok(())
            }
            _ => Err(Error::internal(format!("an array of {} is not decoded in place", self.data_type))),
        }
    }

    /// The column. Codes of several dictionaries may have become wider than the field says: the
    /// array's type counts.
    ///
    /// # Errors
    /// When strings that came are not UTF-8.
    pub fn finish(mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        let (rows, buffer) = match self.values {
            Values::One(values) => (values.len(), values.into()),
            Values::Two(values) => (values.len(), values.into()),
            Values::Four(values) => (values.len(), values.into()),
            Values::Eight(values) => (values.len(), values.into()),
            Values::Text { offsets, bytes } => {
                let offsets = OffsetBuffer::new(offsets.into());
                return Ok(if self.data_type == DataType::LargeUtf8 {
                    std::sync::Arc::new(
                        LargeStringArray::try_new(offsets, bytes.into(), nulls).map_err(refused)?,
                    )
                } else {
                    std::sync::Arc::new(
                        LargeBinaryArray::try_new(offsets, bytes.into(), nulls).map_err(refused)?,
                    )
                });
            }
            Values::Pieces(pieces) => {
                if let (DataType::Dictionary(key, _), [_, ..]) = (&self.data_type, pieces.as_slice()) {
                    return concatenate(key, &pieces);
                }
                let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                return match pieces.as_slice() {
                    [] => Ok(new_empty_array(&self.data_type)),
                    pieces => arrow_select::concat::concat(pieces).map_err(refused),
                };
            }
        };
        let data = ArrayDataBuilder::new(self.data_type).len(rows).nulls(nulls).add_buffer(buffer);
        Ok(make_array(data.build().map_err(refused)?))
    }
}

fn append_text(
    source: &mut Source<'_>,
    encoding: u8,
    count: usize,
    offsets: &mut Vec<i64>,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let decoded: Decoded = decode_text(source, encoding, count)?;
    let mut end = bytes.len() as i64;
    match decoded.lengths {
        Lengths::Lengths(lengths) => offsets.extend(lengths.into_iter().map(|length| {
            end += i64::from(length);
            end
        })),
        Lengths::Offsets(decoded) => offsets.extend(decoded[1..].iter().map(|offset| end + offset)),
    }
    bytes.extend_from_slice(&decoded.bytes);
    Ok(())
}

/// Columns that have the chunk's rows already.
struct BuiltColumns<'a>(&'a [ColumnBuilder]);

impl EarlierColumns for BuiltColumns<'_> {
    fn add<T: Word>(&self, column: u32, out: &mut [T]) -> Result<()> {
        let builder = self.0.get(column as usize).ok_or_else(|| no_earlier_column(column))?;
        let words = T::words_of(&builder.values).ok_or_else(|| no_earlier_column(column))?;
        let start = words.len().checked_sub(out.len()).ok_or_else(|| no_earlier_column(column))?;
        out.iter_mut().zip(&words[start..]).for_each(|(out, value)| *out = out.plus(*value));
        Ok(())
    }
}
