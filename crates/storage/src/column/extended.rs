//! Columns with rows behind those of their files: those of the log.

use super::ColumnData;
use super::layout::{Buffers, Node};
use crate::names::Role;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, UInt64Array, make_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use arrow_select::take::take;
use hypostyle_format::NodeEntry;
use hypostyle_types::{Error, Result, to_usize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

impl ColumnData {
    /// Returns all rows as one array, with others behind them. Whole pages of the files are shared:
    /// only the other rows take memory. Under their NULLs lies what lies there in the files.
    /// Returns `None` where the files have no rows, and where a dictionary's codes do not suffice for
    /// new values.
    ///
    /// # Errors
    /// `Corrupt` when a file is shorter than the catalog promises.
    pub fn array_with(&self, behind: &ArrayRef) -> Result<Option<ArrayRef>> {
        self.extended(behind, false)
    }

    /// Returns [`Self::array_with`] over mappings and memory of its own: the caller may write into its
    /// buffers and nobody else sees it.
    ///
    /// # Errors
    /// `Corrupt` when a file is shorter than the catalog promises.
    pub fn private_array_with(&self, behind: &ArrayRef) -> Result<Option<ArrayRef>> {
        self.extended(behind, true)
    }

    fn extended(&self, behind: &ArrayRef, is_private: bool) -> Result<Option<ArrayRef>> {
        let stored = if is_private { self.private_array()? } else { self.array()? };
        if stored.is_empty() {
            return Ok(None);
        }
        let (behind, values) = match stored.as_any_dictionary_opt() {
            Some(dictionary) => {
                self.verify_dictionary_once()?;
                match coded(dictionary.keys(), dictionary.values(), behind)? {
                    Some((codes, values)) => (codes, Some(values)),
                    None => return Ok(None),
                }
            }
            None => (cast(behind, stored.data_type()).map_err(internal)?, None),
        };
        let nodes = Nodes { column: self, layout: self.layout(), is_private };
        let mut builder = nodes.extended(0, &behind)?;
        if let Some(values) = values {
            builder = builder.add_child_data(values.to_data());
        }
        // SAFETY: the files' part is what `read_node` makes an array of. Behind it lies a valid array of
        // the same type: offsets go on from the last one, and codes number values of the dictionary.
        Ok(Some(make_array(unsafe { builder.build_unchecked() })))
    }
}

/// The nodes of a column whose elements others are put behind.
struct Nodes<'a> {
    column: &'a ColumnData,
    layout: &'a [Node],
    is_private: bool,
}

impl Nodes<'_> {
    fn entry(&self, node: usize) -> &NodeEntry {
        &self.column.entry().generation.nodes[node]
    }

    /// Returns the elements of a node, with others behind them. Of a dictionary they are the codes.
    fn extended(&self, node: usize, behind: &ArrayRef) -> Result<ArrayDataBuilder> {
        let (shape, entry) = (&self.layout[node], self.entry(node));
        let (length, more) = (entry.length, behind.to_data());
        let rows = to_usize(length) + behind.len();
        let mut builder = ArrayDataBuilder::new(shape.data_type.clone()).len(rows);
        if entry.validity || behind.null_count() > 0 {
            builder = builder.nulls(Some(self.nulls(node, behind)?));
        }
        match &shape.buffers {
            Buffers::None => {}
            Buffers::Fixed { width, missing } => {
                let values = with_missing(&more, behind.nulls(), missing);
                builder =
                    builder.add_buffer(self.mapped(node, Role::Values, length * *width as u64, &values)?);
            }
            Buffers::Bitmap => {
                let bits = BooleanBuffer::new(more.buffers()[0].clone(), more.offset(), more.len());
                let bits = behind.nulls().map_or_else(|| bits.clone(), |nulls| &bits & nulls.inner());
                builder = builder.add_buffer(self.bits(node, Role::Values, &bits)?);
            }
            Buffers::Variable => {
                let offsets = more.buffers()[0].typed_data::<i64>();
                let own = &offsets[more.offset()..=more.offset() + more.len()];
                let heap = &more.buffers()[1][own[0] as usize..own[more.len()] as usize];
                builder = builder
                    .add_buffer(self.offsets::<i64>(node, own, entry.heap_bytes as i64)?)
                    .add_buffer(self.mapped(node, Role::Heap, entry.heap_bytes, heap)?);
            }
            Buffers::Offsets { width } => {
                let base = shape.children.first().map_or(0, |child| self.entry(*child).length);
                let (start, end) = (more.offset(), more.offset() + more.len());
                let offsets = match width {
                    8 => {
                        let own = &more.buffers()[0].typed_data::<i64>()[start..=end];
                        self.offsets(node, own, base as i64)?
                    }
                    _ => {
                        let own = &more.buffers()[0].typed_data::<i32>()[start..=end];
                        self.offsets(node, own, i32::try_from(base).map_err(|_| too_many())?)?
                    }
                };
                builder = builder.add_buffer(offsets);
            }
        }
        for (child, array) in shape.children.iter().zip(children(behind)) {
            let child = self.extended(*child, &array)?;
            // SAFETY: as of the whole array.
            builder = builder.add_child_data(unsafe { child.build_unchecked() });
        }
        Ok(builder)
    }

    /// Returns which elements are valid.
    fn nulls(&self, node: usize, behind: &ArrayRef) -> Result<NullBuffer> {
        let entry = self.entry(node);
        let rows = to_usize(entry.length) + behind.len();
        let more =
            behind.nulls().map_or_else(|| BooleanBuffer::new_set(behind.len()), |bits| bits.inner().clone());
        let bits = match entry.validity {
            true => self.bits(node, Role::Validity, &more)?,
            false => {
                let mut bits = BooleanBufferBuilder::new(rows);
                bits.append_n(to_usize(entry.length), true);
                bits.append_buffer(&more);
                bits.finish().into_inner()
            }
        };
        let nulls = to_usize(entry.nulls) + behind.null_count();
        // SAFETY: those of the files are as many as the writer has counted, as in `read_node`.
        Ok(unsafe { NullBuffer::new_unchecked(BooleanBuffer::new(bits, 0, rows), nulls) })
    }

    /// Returns a bitmap of the files with other bits behind it.
    fn bits(&self, node: usize, role: Role, behind: &BooleanBuffer) -> Result<Buffer> {
        let length = self.entry(node).length;
        let (whole, begun) = (length / 8, to_usize(length % 8));
        let mut bits = BooleanBufferBuilder::new(begun + behind.len());
        if begun > 0 {
            let mut last = [0];
            self.column.files.open(node, role)?.read_at(whole, &mut last)?;
            bits.append_packed_range(0..begun, &last);
        }
        bits.append_buffer(behind);
        self.mapped(node, role, whole, bits.finish().values())
    }

    /// Returns the ends of elements behind those of the files, whose last one is `base`.
    fn offsets<T: Offset>(&self, node: usize, own: &[T], base: T) -> Result<Buffer> {
        let length = self.entry(node).length;
        // A node of no elements may have no file.
        let begin = (length == 0).then(|| Some(T::default()));
        let ends = own[1..].iter().map(|offset| offset.moved(own[0], base));
        let ends: Vec<T> = begin.into_iter().chain(ends).collect::<Option<_>>().ok_or_else(too_many)?;
        let before = if length == 0 { 0 } else { (length + 1) * size_of::<T>() as u64 };
        self.mapped(node, Role::Offsets, before, &Buffer::from_vec(ends))
    }

    fn mapped(&self, node: usize, role: Role, length: u64, behind: &[u8]) -> Result<Buffer> {
        if length == 0 {
            return Ok(Buffer::from_slice_ref(behind));
        }
        let file = self.column.files.open(node, role)?;
        let mapping = match self.is_private {
            true => file.map_private_with(length, &[behind])?,
            false => file.map_with(length, &[behind])?,
        };
        Ok(Buffer::from(bytes::Bytes::from_owner(mapping)))
    }
}

/// An offset of lists or texts.
trait Offset: arrow_buffer::ArrowNativeType {
    /// The offset when those from `first` on begin at `base`; `None` where it is too large.
    fn moved(self, first: Self, base: Self) -> Option<Self>;
}

impl Offset for i64 {
    fn moved(self, first: Self, base: Self) -> Option<Self> {
        (self - first).checked_add(base)
    }
}

impl Offset for i32 {
    fn moved(self, first: Self, base: Self) -> Option<Self> {
        (self - first).checked_add(base)
    }
}

/// Returns the arrays that an array's own elements have parts in.
fn children(array: &ArrayRef) -> Vec<ArrayRef> {
    match array.data_type() {
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            let (start, end) = (offsets[0] as usize, offsets[list.len()] as usize);
            vec![list.values().slice(start, end - start)]
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let (start, end) = (offsets[0] as usize, offsets[map.len()] as usize);
            vec![Arc::new(map.entries().slice(start, end - start))]
        }
        DataType::FixedSizeList(_, length) => {
            let list = array.as_fixed_size_list();
            let start = list.value_offset(0) as usize;
            vec![list.values().slice(start, list.len() * *length as usize)]
        }
        DataType::Struct(_) => array.as_struct().columns().to_vec(),
        _ => Vec::new(),
    }
}

/// Returns the bytes of an array's values of one width, with the same ones under each NULL.
fn with_missing<'a>(data: &'a ArrayData, nulls: Option<&NullBuffer>, missing: &[u8]) -> Cow<'a, [u8]> {
    let width = missing.len();
    let values = &data.buffers()[0][data.offset() * width..(data.offset() + data.len()) * width];
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Cow::Borrowed(values) };
    let mut filled = values.to_vec();
    for null in (!nulls.inner()).set_indices() {
        filled[null * width..(null + 1) * width].copy_from_slice(missing);
    }
    Cow::Owned(filled)
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

fn too_many() -> Error {
    Error::invalid_input("a MAP column has more entries in all its rows than its offsets count")
}
