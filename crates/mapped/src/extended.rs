//! Columns with rows behind those of their files.

use crate::{BufferFile, Buffers, NodeFiles};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, UInt64Array, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use arrow_select::take::take;
use hypostyle_types::{Error, Result, to_usize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::slice::Iter;
use std::sync::Arc;

/// Returns the rows of a column's files as one array, with others behind them. Whole pages of the files are
/// shared: only the other rows take memory. Under their NULLs lies what lies there in files. A private array
/// is over mappings and memory of its own: who has it may write into its buffers, and nobody else sees it.
///
/// The nodes are those of the type, parents before children. `values` are those of a dictionary, which were
/// verified. The caller has seen that the last offsets of the files are what they have to be.
///
/// Returns `None` where the files have no rows, and where a dictionary's codes do not suffice for new values.
///
/// # Errors
/// `Corrupt` when a file is shorter than it has to be; `Internal` when the other rows have another type, or
/// the nodes are not those of the type.
pub fn extended(
    data_type: &DataType,
    nodes: &[NodeFiles],
    values: Option<&ArrayRef>,
    behind: &ArrayRef,
    is_private: bool,
) -> Result<Option<ArrayRef>> {
    if nodes.first().is_none_or(|node| node.elements == 0) {
        return Ok(None);
    }
    let (behind, values) = match (data_type, values) {
        (DataType::Dictionary(key, _), Some(values)) => match coded(key, values, behind)? {
            Some((codes, values)) => (codes, Some(values)),
            None => return Ok(None),
        },
        _ => (cast(behind, data_type).map_err(no_fit)?, None),
    };
    let mut builder = Extender { is_private }.extended(data_type, &mut nodes.iter(), &behind)?;
    if let Some(values) = values {
        builder = builder.add_child_data(values.to_data());
    }
    // SAFETY: the files' part is what an array over their mappings is made of (the caller's promise). Behind
    // it lies a valid array of the same type: offsets go on from the last one, and codes number values of the
    // dictionary.
    Ok(Some(make_array(unsafe { builder.build_unchecked() })))
}

/// Puts elements behind those of files.
struct Extender {
    is_private: bool,
}

impl Extender {
    /// Returns the elements of the next node, with others behind them. Of a dictionary they are the codes.
    fn extended(
        &self,
        data_type: &DataType,
        nodes: &mut Iter<'_, NodeFiles>,
        behind: &ArrayRef,
    ) -> Result<ArrayDataBuilder> {
        let (Some(node), Some(shape)) = (nodes.next(), Buffers::of_type(data_type)) else {
            return Err(no_nodes(data_type));
        };
        let file = |number: usize| node.buffers.get(number).ok_or_else(|| no_nodes(data_type));
        let (length, more) = (node.elements, behind.to_data());
        let mut builder = ArrayDataBuilder::new(data_type.clone()).len(to_usize(length) + behind.len());
        if node.validity.is_some() || behind.null_count() > 0 {
            builder = builder.nulls(Some(self.nulls(node, behind)?));
        }
        match &shape {
            Buffers::None => {}
            Buffers::Fixed { width, missing } => {
                let values = with_missing(&more, behind.nulls(), missing);
                builder = builder.add_buffer(self.mapped(file(0)?, length * *width as u64, &values)?);
            }
            Buffers::Bitmap => {
                let bits = BooleanBuffer::new(more.buffers()[0].clone(), more.offset(), more.len());
                let bits = behind.nulls().map_or_else(|| bits.clone(), |nulls| &bits & nulls.inner());
                builder = builder.add_buffer(self.bits(file(0)?, length, &bits)?);
            }
            Buffers::Variable => {
                let own = offsets::<i64>(&more);
                let heap = &more.buffers()[1][own[0] as usize..own[more.len()] as usize];
                let (ends, bytes) = (file(0)?, file(1)?);
                builder = builder
                    .add_buffer(self.offsets(ends, length, own, bytes.length as i64)?)
                    .add_buffer(self.mapped(bytes, bytes.length, heap)?);
            }
            Buffers::Offsets { width } => {
                let base = nodes.as_slice().first().map_or(0, |child| child.elements);
                let ends = match width {
                    8 => self.offsets(file(0)?, length, offsets::<i64>(&more), base as i64)?,
                    _ => {
                        let base = i32::try_from(base).map_err(|_| too_many())?;
                        self.offsets(file(0)?, length, offsets::<i32>(&more), base)?
                    }
                };
                builder = builder.add_buffer(ends);
            }
        }
        for (child, array) in children(behind) {
            let child = self.extended(&child, nodes, &array)?;
            // SAFETY: as of the whole array.
            builder = builder.add_child_data(unsafe { child.build_unchecked() });
        }
        Ok(builder)
    }

    /// Returns which elements are valid.
    fn nulls(&self, node: &NodeFiles, behind: &ArrayRef) -> Result<NullBuffer> {
        let rows = to_usize(node.elements) + behind.len();
        let more =
            behind.nulls().map_or_else(|| BooleanBuffer::new_set(behind.len()), |bits| bits.inner().clone());
        let bits = match &node.validity {
            Some(file) => self.bits(file, node.elements, &more)?,
            None => {
                let mut bits = BooleanBufferBuilder::new(rows);
                bits.append_n(to_usize(node.elements), true);
                bits.append_buffer(&more);
                bits.finish().into_inner()
            }
        };
        let nulls = to_usize(node.nulls) + behind.null_count();
        // SAFETY: those of the files are as many as their writer has counted. A wrong count misleads, but
        // reads no foreign memory.
        Ok(unsafe { NullBuffer::new_unchecked(BooleanBuffer::new(bits, 0, rows), nulls) })
    }

    /// Returns the first bits of a file with others behind them. What the file has behind these is not shown.
    fn bits(&self, file: &BufferFile, length: u64, behind: &BooleanBuffer) -> Result<Buffer> {
        let (whole, begun) = (length / 8, to_usize(length % 8));
        let mut bits = BooleanBufferBuilder::new(begun + behind.len());
        if let (Some(file), true) = (&file.file, begun > 0) {
            let mut last = [0];
            file.read_at(whole, &mut last)?;
            bits.append_packed_range(0..begun, &last);
        }
        bits.append_buffer(behind);
        self.mapped(file, whole, bits.finish().values())
    }

    /// Returns the ends of elements behind those of the files, whose last one is `base`.
    fn offsets<T: Offset>(&self, file: &BufferFile, length: u64, own: &[T], base: T) -> Result<Buffer> {
        // A node of no elements may have no file.
        let begin = (length == 0).then(|| Some(T::default()));
        let ends = own[1..].iter().map(|offset| offset.moved(own[0], base));
        let ends: Vec<T> = begin.into_iter().chain(ends).collect::<Option<_>>().ok_or_else(too_many)?;
        let before = if length == 0 { 0 } else { (length + 1) * size_of::<T>() as u64 };
        self.mapped(file, before, &Buffer::from_vec(ends))
    }

    fn mapped(&self, file: &BufferFile, length: u64, behind: &[u8]) -> Result<Buffer> {
        let Some(file) = file.file.as_ref().filter(|_| length > 0) else {
            return Ok(Buffer::from_slice_ref(behind));
        };
        let mapping = match self.is_private {
            true => file.map_private_with(length, &[behind])?,
            false => file.map_with(length, &[behind])?,
        };
        Ok(Buffer::from(bytes::Bytes::from_owner(mapping)))
    }
}

/// An offset of lists or texts.
trait Offset: ArrowNativeType {
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

/// Returns the offsets of an array's elements, one more than there are.
fn offsets<T: Offset>(data: &ArrayData) -> &[T] {
    &data.buffers()[0].typed_data::<T>()[data.offset()..=data.offset() + data.len()]
}

/// Returns the arrays that an array's own elements have parts in, with their types.
fn children(array: &ArrayRef) -> Vec<(DataType, ArrayRef)> {
    let arrays = match array.data_type() {
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
            vec![Arc::new(map.entries().slice(start, end - start)) as ArrayRef]
        }
        DataType::FixedSizeList(_, length) => {
            let list = array.as_fixed_size_list();
            let start = list.value_offset(0) as usize;
            vec![list.values().slice(start, list.len() * *length as usize)]
        }
        DataType::Struct(_) => array.as_struct().columns().to_vec(),
        _ => Vec::new(),
    };
    arrays.into_iter().map(|array| (array.data_type().clone(), array)).collect()
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
fn coded(key: &DataType, values: &ArrayRef, behind: &ArrayRef) -> Result<Option<(ArrayRef, ArrayRef)>> {
    let behind = cast(behind, values.data_type()).map_err(no_fit)?;
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
    let most = match key {
        DataType::Int8 => i64::from(i8::MAX),
        DataType::Int16 => i64::from(i16::MAX),
        _ => i64::from(i32::MAX),
    };
    if next - 1 > most {
        return Ok(None);
    }
    let of_rows: ArrayRef = Arc::new(Int64Array::from(of_rows));
    let of_rows = cast(&of_rows, key).map_err(no_fit)?;
    if new.is_empty() {
        return Ok(Some((of_rows, values.clone())));
    }
    let new = take(&behind, &UInt64Array::from(new), None).map_err(no_fit)?;
    let values = concat(&[values.as_ref(), new.as_ref()]).map_err(no_fit)?;
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

fn no_fit(error: ArrowError) -> Error {
    Error::internal(format!("rows do not fit the column that they are put behind: {error}"))
}

fn no_nodes(data_type: &DataType) -> Error {
    Error::internal(format!("a {data_type} array has not the files of its type"))
}

fn too_many() -> Error {
    Error::invalid_input("a MAP column has more entries in all its rows than its offsets count")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DictionaryFiles;
    use arrow_array::types::{Int8Type, Int32Type};
    use arrow_array::{
        BooleanArray, DictionaryArray, FixedSizeListArray, Float64Array, LargeListArray, LargeStringArray,
        StructArray,
    };
    use arrow_schema::Field;
    use hypostyle_io::File;

    /// Returns a memory file of some bytes, and more behind them that are nobody's yet.
    fn file(bytes: &[u8]) -> BufferFile {
        let descriptor = File::sealed(File::unsealed().unwrap(), &[bytes, &[0xAA; 9]]).unwrap();
        let file = (!bytes.is_empty()).then(|| File::from_descriptor(descriptor, "a buffer"));
        BufferFile { file, length: bytes.len() as u64 }
    }

    /// Returns bits as a file has them: what is behind them in the last byte is nobody's.
    fn bits(bits: &BooleanBuffer) -> BufferFile {
        let mut bytes = bits.sliced().to_vec();
        if let (Some(last), rest @ 1..) = (bytes.last_mut(), bits.len() % 8) {
            *last |= !((1 << rest) - 1);
        }
        bytes.truncate(bits.len().div_ceil(8));
        file(&bytes)
    }

    /// Writes an array's buffers, those of its children behind them.
    fn written(array: &ArrayRef, to: &mut Vec<NodeFiles>) {
        let data = array.to_data();
        assert_eq!(data.offset(), 0);
        let count = data.len();
        let buffers = match Buffers::of_type(data.data_type()).unwrap() {
            Buffers::None => Vec::new(),
            Buffers::Fixed { width, .. } => vec![file(&data.buffers()[0][..count * width])],
            Buffers::Bitmap => vec![bits(&BooleanBuffer::new(data.buffers()[0].clone(), 0, count))],
            Buffers::Variable => {
                vec![file(&data.buffers()[0][..(count + 1) * 8]), file(&data.buffers()[1])]
            }
            Buffers::Offsets { width } => vec![file(&data.buffers()[0][..(count + 1) * width])],
        };
        let dictionary = array.as_any_dictionary_opt().map(|dictionary| {
            let values = dictionary.values().to_data();
            let offsets = file(&values.buffers()[0][..(values.len() + 1) * 8]);
            DictionaryFiles { values: values.len() as u64, offsets, heap: file(&values.buffers()[1]) }
        });
        let validity = data.nulls().map(|nulls| bits(nulls.inner()));
        let (elements, nulls) = (count as u64, data.null_count() as u64);
        to.push(NodeFiles { elements, nulls, validity, buffers, dictionary });
        children(array).iter().for_each(|(_, child)| written(child, to));
    }

    /// Returns arrays of some types, each with rows that others are put behind, and those others.
    fn samples() -> Vec<(ArrayRef, ArrayRef)> {
        let doubles = |count: usize| {
            let value = |row: usize| (!row.is_multiple_of(3)).then_some(row as f64);
            Arc::new((0..count).map(value).collect::<Float64Array>()) as ArrayRef
        };
        let whole = |count: i32| Arc::new(arrow_array::Int32Array::from_iter_values(0..count)) as ArrayRef;
        let texts = |words: &[Option<&str>]| Arc::new(LargeStringArray::from(words.to_vec())) as ArrayRef;
        let flags = |count: usize| {
            Arc::new((0..count).map(|row| (row % 5 != 0).then_some(row % 2 == 0)).collect::<BooleanArray>())
                as ArrayRef
        };
        let lists = |rows: &[Option<Vec<Option<i32>>>]| {
            Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows.to_vec())) as ArrayRef
        };
        let structs = |count: usize| {
            let field =
                |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
            let (x, y) = (doubles(count), flags(count));
            Arc::new(StructArray::from(vec![(field("x", &x), x), (field("y", &y), y)])) as ArrayRef
        };
        let pairs = |count: usize| {
            let element = Arc::new(Field::new("item", DataType::Float64, true));
            Arc::new(FixedSizeListArray::new(element, 2, doubles(2 * count), None)) as ArrayRef
        };
        let codes = |words: &[Option<&str>]| {
            let codes: DictionaryArray<Int8Type> = words.iter().copied().collect();
            let values = cast(codes.values(), &DataType::LargeUtf8).unwrap();
            Arc::new(codes.with_values(values)) as ArrayRef
        };
        let many: Vec<String> = (0..200).map(|word| format!("w{word}")).collect();
        let most: Vec<_> = many.iter().take(120).map(|word| Some(word.as_str())).collect();
        vec![
            (doubles(1001), doubles(7)),
            (whole(1000), whole(3)),
            // NULLs only behind the files' rows, and only before them.
            (whole(1003), Arc::new(arrow_array::Int32Array::from(vec![None, Some(2)]))),
            (doubles(9), Arc::new(Float64Array::from(vec![1.0, 2.0]))),
            (flags(13), flags(11)),
            (flags(16), flags(1)),
            (texts(&[Some("a"), None, Some("ccc")]), texts(&[Some(""), Some("d"), None]).slice(1, 2)),
            (lists(&[Some(vec![Some(1), None]), None, Some(vec![])]), lists(&[None, Some(vec![Some(5)])])),
            // A child that has no elements yet.
            (lists(&[Some(vec![]), None]), lists(&[Some(vec![Some(5), Some(6)]), None])),
            (structs(21), structs(5).slice(1, 3)),
            (pairs(5), pairs(3).slice(1, 2)),
            (codes(&[Some("a"), None, Some("b"), Some("a")]), texts(&[Some("b"), Some("new"), None])),
            (codes(&most), codes(&[Some("w5"), Some("x")])),
        ]
    }

    #[test]
    fn rows_lie_behind_those_of_the_files() {
        for (stored, behind) in samples() {
            let mut nodes = Vec::new();
            written(&stored, &mut nodes);
            let values = stored.as_any_dictionary_opt().map(|dictionary| dictionary.values());
            let plain = |array: &ArrayRef| match array.as_any_dictionary_opt() {
                Some(dictionary) => cast(array, dictionary.values().data_type()).unwrap(),
                None => array.clone(),
            };
            let expected = concat(&[plain(&stored).as_ref(), plain(&behind).as_ref()]).unwrap();
            for is_private in [false, true] {
                let found =
                    extended(stored.data_type(), &nodes, values, &behind, is_private).unwrap().unwrap();
                found.to_data().validate_full().unwrap();
                assert_eq!(found.data_type(), stored.data_type());
                assert_eq!(&plain(&found), &expected, "{}", stored.data_type());
            }
        }
    }

    #[test]
    fn what_lies_under_a_null_is_what_files_have() {
        let stored: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        let mut nodes = Vec::new();
        written(&stored, &mut nodes);
        let behind: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(2.0)]));
        let found = extended(&DataType::Float64, &nodes, None, &behind, false).unwrap().unwrap();
        let found = found.as_primitive::<arrow_array::types::Float64Type>();
        assert_eq!(found.values()[1].to_bits(), 0x7FF8_0000_0000_07A2);
    }

    #[test]
    fn codes_that_do_not_suffice_extend_nothing() {
        let words: Vec<String> = (0..128).map(|word| format!("w{word}")).collect();
        let codes: DictionaryArray<Int8Type> = words.iter().map(|word| Some(word.as_str())).collect();
        let values = cast(codes.values(), &DataType::LargeUtf8).unwrap();
        let stored: ArrayRef = Arc::new(codes.with_values(values.clone()));
        let mut nodes = Vec::new();
        written(&stored, &mut nodes);
        let one = |word: &str| Arc::new(LargeStringArray::from(vec![word])) as ArrayRef;
        let behind = |word| extended(stored.data_type(), &nodes, Some(&values), &one(word), false).unwrap();
        assert!(behind("w7").is_some());
        assert!(behind("other").is_none());
        let none = NodeFiles { elements: 0, nulls: 0, validity: None, buffers: Vec::new(), dictionary: None };
        assert!(extended(&DataType::Int32, &[none], None, &one("1"), false).unwrap().is_none());
    }
}
