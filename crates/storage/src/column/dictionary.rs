//! The distinct strings of a dictionary-encoded column, and the codes of new rows.

use super::files::GenerationFiles;
use crate::names::Role;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type};
use arrow_array::{Array, ArrayRef, Int32Array, LargeStringArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use hashbrown::HashTable;
use hypostyle_format::{Encoding, NodeEntry};
use hypostyle_types::{Error, Result};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Distinct values past which a column becomes plain, whatever its rows.
const DISTINCT_MAX: usize = 1 << 20;

/// Rows a distinct value must stand for, on average, for a dictionary to pay.
const ROWS_PER_DISTINCT: u64 = 8;

/// Fewer rows than this say nothing about a column.
const SAMPLE_ROWS_MIN: u64 = 64;

/// Code of a row that is NULL.
const NULL_CODE: i32 = -1;

/// Whether this many distinct values among this many rows are few.
pub(crate) fn pays(distinct: usize, rows: u64) -> bool {
    distinct <= DISTINCT_MAX && rows >= SAMPLE_ROWS_MIN && distinct as u64 * ROWS_PER_DISTINCT <= rows
}

/// The narrowest encoding whose codes number this many values.
pub(crate) fn encoding_for(distinct: usize) -> Encoding {
    match distinct {
        0..=0x80 => Encoding::DictionaryI8,
        0x81..=0x8000 => Encoding::DictionaryI16,
        _ => Encoding::DictionaryI32,
    }
}

/// Strings numbered in order of first appearance.
pub(crate) struct Dictionary {
    codes: HashTable<i32>,
    offsets: Vec<i64>,
    heap: Vec<u8>,
}

impl Dictionary {
    pub fn new() -> Self {
        Self { codes: HashTable::new(), offsets: vec![0], heap: Vec::new() }
    }

    pub fn of(values: &LargeStringArray) -> Self {
        let mut dictionary = Self::new();
        values.iter().flatten().for_each(|value| {
            dictionary.code(value.as_bytes());
        });
        dictionary
    }

    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn value(&self, code: i32) -> &[u8] {
        let code = code as usize;
        &self.heap[self.offsets[code] as usize..self.offsets[code + 1] as usize]
    }

    /// The code of a value, a new one if it is new.
    fn code(&mut self, value: &[u8]) -> i32 {
        let Self { codes, offsets, heap } = self;
        let at = |code: i32| &heap[offsets[code as usize] as usize..offsets[code as usize + 1] as usize];
        let hash = xxh3_64(value);
        if let Some(code) = codes.find(hash, |code| at(*code) == value) {
            return *code;
        }
        let code = (offsets.len() - 1) as i32;
        codes.insert_unique(hash, code, |code| xxh3_64(at(*code)));
        heap.extend_from_slice(value);
        offsets.push(heap.len() as i64);
        code
    }

    /// Codes of strings, or of a dictionary array of strings; NULL is −1 and marked so.
    pub fn encode(&mut self, array: &ArrayRef) -> Result<Int32Array> {
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let values = cast(dictionary.values(), &DataType::LargeUtf8).map_err(internal)?;
            let keys = cast(dictionary.keys(), &DataType::Int32).map_err(internal)?;
            let (values, keys) =
                (values.as_string::<i64>(), keys.as_primitive::<arrow_array::types::Int32Type>());
            let mut translated: Vec<Option<i32>> = vec![None; values.len()];
            let codes = keys.iter().map(|key| {
                let key =
                    usize::try_from(key?).ok().filter(|key| *key < values.len() && values.is_valid(*key))?;
                Some(*translated[key].get_or_insert_with(|| self.code(values.value(key).as_bytes())))
            });
            return Ok(codes.collect());
        }
        let strings = array.as_string::<i64>();
        let mut codes = Vec::with_capacity(strings.len());
        let mut last: (&[u8], i32) = (&[], NULL_CODE);
        for index in 0..strings.len() {
            codes.push(if strings.is_null(index) {
                NULL_CODE
            } else {
                let value = strings.value(index).as_bytes();
                if last.1 == NULL_CODE || last.0 != value {
                    last = (value, self.code(value));
                }
                last.1
            });
        }
        Ok(Int32Array::new(codes.into(), strings.nulls().cloned()))
    }

    /// Writes the values past the ones already committed and fills in the node's entry.
    pub fn write(&self, files: &GenerationFiles, committed: &NodeEntry, entry: &mut NodeEntry) -> Result<()> {
        let roles = [Role::DictionaryOffsets, Role::DictionaryHeap];
        let mut hash = Xxh3Default::new();
        let (from_offset, from_byte) =
            (committed.dictionary_length as usize, committed.dictionary_heap_bytes as usize);
        let offset_bytes: Vec<u8> = self.offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        hash.update(&offset_bytes);
        hash.update(&self.heap);
        if committed.length == 0 || self.len() > from_offset {
            let [offsets, heap] = roles
                .map(|role| if committed.length == 0 { files.create(0, role) } else { files.open(0, role) });
            let (offsets, heap) = (offsets?, heap?);
            offsets.write_at(from_offset as u64 * 8, &offset_bytes[from_offset * 8..])?;
            heap.write_at(from_byte as u64, &self.heap[from_byte..])?;
            offsets.sync()?;
            heap.sync()?;
        }
        entry.dictionary_length = self.len() as u64;
        entry.dictionary_heap_bytes = self.heap.len() as u64;
        entry.dictionary_checksum = hash.digest();
        Ok(())
    }
}

/// Codes at the width of an encoding.
pub(crate) fn narrow(codes: &Int32Array, encoding: Encoding) -> ArrayRef {
    match encoding {
        Encoding::DictionaryI8 => std::sync::Arc::new(codes.unary::<_, Int8Type>(|code| code as i8)),
        Encoding::DictionaryI16 => std::sync::Arc::new(codes.unary::<_, Int16Type>(|code| code as i16)),
        _ => std::sync::Arc::new(codes.unary::<_, Int32Type>(|code| code)),
    }
}

fn internal(error: arrow_schema::ArrowError) -> Error {
    Error::internal(format!("cannot read a dictionary: {error}"))
}
