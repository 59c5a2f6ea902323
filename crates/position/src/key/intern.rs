//! Distinct strings, numbered in order of appearance.

use super::MISSING;
use crate::value::{Bytes, Values, array_of_bytes, array_of_words, codes, nulls, wide_words};
use crate::{Column, Error, Result, Rows};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Stands for NULL; the first string has the next number.
const NULL: u32 = 0;

/// Where a string is.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    length: u32,
    is_kept: bool,
}

/// Strings and their numbers. The hash has a seed of its own, so that nobody can choose strings
/// that collide.
pub(super) struct Interner {
    /// The hash and the number of each string: the table grows without a look at the strings, and most
    /// strings that differ are told apart by their hashes.
    numbers: HashTable<(u64, u32)>,
    /// Where each string is; that of NULL is empty.
    places: Vec<Place>,
    /// The strings that are copied, one after the other.
    heap: Vec<u8>,
    /// The heap of a column that stays: its strings are not copied.
    kept: Option<Buffer>,
    /// The number of the empty string: often it is that of most rows.
    empty: Option<u32>,
    seed: u64,
    /// The values of the dictionary that came last, and the numbers of those that rows have had.
    dictionary: Option<(ArrayRef, Vec<u32>)>,
}

impl Interner {
    pub fn new() -> Self {
        Self {
            numbers: HashTable::new(),
            places: vec![Place { start: 0, length: 0, is_kept: false }],
            heap: Vec::new(),
            kept: None,
            empty: None,
            seed: RandomState::new().hash_one(0),
            dictionary: None,
        }
    }

    pub fn bytes(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, |(_, numbers)| numbers.capacity() * 4);
        let places = self.places.capacity() * size_of::<Place>();
        self.numbers.allocation_size() + places + self.heap.capacity() + dictionary
    }

    fn string(&self, number: u32) -> &[u8] {
        let Place { start, length, is_kept } = self.places[number as usize];
        let heap = if is_kept { self.kept.as_deref().unwrap_or_default() } else { &self.heap };
        &heap[start..start + length as usize]
    }

    /// Returns the number of a string. A new one is copied, unless it is said where it is kept.
    fn number(&mut self, string: &[u8], kept: Option<usize>) -> Result<u32> {
        if let Some(number) = self.empty.filter(|_| string.is_empty()) {
            return Ok(number);
        }
        let hash = xxh3_64_with_seed(string, self.seed);
        if let Some(number) = self.find_hashed(hash, string) {
            return Ok(number);
        }
        let number = u32::try_from(self.places.len()).ok().filter(|number| *number != MISSING);
        let number = number.ok_or(Error::TooMany("the distinct strings of a key"))?;
        let length = u32::try_from(string.len()).map_err(|_| Error::TooMany("the bytes of a key"))?;
        let start = kept.unwrap_or(self.heap.len());
        self.places.push(Place { start, length, is_kept: kept.is_some() });
        if kept.is_none() {
            self.heap.extend_from_slice(string);
        }
        self.numbers.insert_unique(hash, (hash, number), |(hash, _)| *hash);
        if string.is_empty() {
            self.empty = Some(number);
        }
        Ok(number)
    }

    /// Holds the heap of a column, unless it holds that of another one; tells whether it does.
    fn keep(&mut self, array: &dyn Array) -> bool {
        let heap = match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().values(),
            DataType::LargeUtf8 => array.as_string::<i64>().values(),
            DataType::Binary => array.as_binary::<i32>().values(),
            DataType::LargeBinary => array.as_binary::<i64>().values(),
            _ => return false,
        };
        self.kept.get_or_insert_with(|| heap.clone()).ptr_eq(heap)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, string: &[u8]) -> Option<u32> {
        let is_same = |(known, number): &(u64, u32)| *known == hash && self.string(*number) == string;
        self.numbers.find(hash, is_same).map(|(_, number)| *number)
    }

    fn known_number(&self, string: &[u8]) -> u32 {
        let hash = xxh3_64_with_seed(string, self.seed);
        self.find_hashed(hash, string).unwrap_or(MISSING)
    }

    /// Returns the number of each row's string; new ones get the next numbers. A column that stays is
    /// held, so that its strings need not be copied.
    pub fn insert(&mut self, kernel: &'static str, column: Column<'_>, stays: bool) -> Result<Vec<u32>> {
        let Values::Dictionary(dictionary) = Values::of(kernel, column.array)? else {
            let is_kept = stays && self.keep(column.array);
            return each(kernel, column, |string, start| self.number(string, start.filter(|_| is_kept)));
        };
        let values = dictionary.values();
        let mut numbers = match self.dictionary.take() {
            Some((last, numbers)) if Arc::ptr_eq(&last, values) => numbers,
            _ => vec![MISSING; values.len()],
        };
        let codes = codes(kernel, dictionary, column.rows)?;
        let strings = Strings::of(kernel, values)?;
        let mut found = codes;
        for code in &mut found {
            *code = match numbers.get_mut(*code as usize) {
                None => NULL,
                Some(number) => {
                    if *number == MISSING {
                        *number = strings.with(*code as usize, |string| self.number(string, None))?;
                    }
                    *number
                }
            };
        }
        self.dictionary = Some((values.clone(), numbers));
        Ok(found)
    }

    /// Returns the number of each row's string, and that of missing ones.
    pub fn find(&self, kernel: &'static str, column: Column<'_>) -> Result<Vec<u32>> {
        let Values::Dictionary(dictionary) = Values::of(kernel, column.array)? else {
            return each(kernel, column, |string, _| Ok(self.known_number(string)));
        };
        let values = dictionary.values();
        let strings = Strings::of(kernel, values)?;
        let mut numbers: Vec<Option<u32>> = vec![None; values.len()];
        let codes = codes(kernel, dictionary, column.rows)?;
        let number = |code: u32| match numbers.get_mut(code as usize) {
            None => NULL,
            Some(number) => {
                *number.get_or_insert_with(|| strings.with(code as usize, |string| self.known_number(string)))
            }
        };
        Ok(codes.into_iter().map(number).collect())
    }

    /// Returns the strings, or the values of fixed width, of some numbers.
    pub fn array(
        &self,
        kernel: &'static str,
        data_type: &DataType,
        numbers: impl Iterator<Item = u32> + Clone,
    ) -> Result<ArrayRef> {
        let string = |number| (number != NULL).then(|| self.string(number));
        match data_type.primitive_width() {
            None => array_of_bytes(kernel, data_type, numbers.map(string)),
            Some(_) => {
                let valid = NullBuffer::from_iter(numbers.clone().map(|number| number != NULL));
                let words = numbers.map(|number| {
                    let bytes = string(number).and_then(|bytes| bytes.first_chunk());
                    bytes.map_or(0, |bytes| u128::from_le_bytes(*bytes))
                });
                array_of_words(kernel, data_type, words, Some(valid))
            }
        }
    }
}

/// Returns the number of each row's string; NULL's own where there is none. The function is also
/// called with where the string begins in the column's heap, if it lies in one.
fn each(
    kernel: &'static str,
    column: Column<'_>,
    mut number: impl FnMut(&[u8], Option<usize>) -> Result<u32>,
) -> Result<Vec<u32>> {
    let nulls = nulls(column.array);
    // Only the rows' own words are made, for those columns whose values are interned as words.
    let (array, rows) = match Values::of(kernel, column.array)? {
        Values::Bytes(_) => (None, column.rows),
        _ => {
            let array = crate::gather::gather(column.array, column.rows)?;
            let rows = Rows::all(&array)?;
            (Some(array), rows)
        }
    };
    let strings = Strings::of(kernel, array.as_deref().unwrap_or(column.array))?;
    if let (Strings::Bytes(bytes), Rows::List(list)) = (&strings, rows) {
        load(bytes, list);
    }
    let numbers = column.rows.iter().zip(rows.iter()).map(|(row, place)| {
        match nulls.is_some_and(|nulls| nulls.is_null(row as usize)) {
            true => Ok(NULL),
            false => {
                let start = strings.start(place as usize);
                strings.with(place as usize, |string| number(string, start))
            }
        }
    });
    numbers.collect()
}

/// Has the strings of some rows loaded into the cache: the processor loads several at a time, where it
/// would wait for each one that is hashed.
fn load(bytes: &Bytes<'_>, rows: &[u32]) {
    let ends = rows.iter().map(|row| match bytes.get(*row as usize) {
        [first, .., last] => first ^ last,
        _ => 0,
    });
    std::hint::black_box(ends.fold(0, |all, ends| all ^ ends));
}

/// The values of a column as strings of bytes.
enum Strings<'a> {
    Bytes(Bytes<'a>),
    Words(Vec<u128>),
}

impl<'a> Strings<'a> {
    fn of(kernel: &'static str, array: &'a dyn Array) -> Result<Self> {
        match (Values::of(kernel, array)?, wide_words(kernel, array)?) {
            (Values::Bytes(bytes), _) => Ok(Self::Bytes(bytes)),
            (_, Some(words)) => Ok(Self::Words(words)),
            _ => Err(Error::UnsupportedType { kernel, data_type: array.data_type().clone() }),
        }
    }

    /// Returns where a string begins in the heap of its column, if that has one.
    fn start(&self, row: usize) -> Option<usize> {
        match self {
            Self::Bytes(Bytes::Small(offsets, _)) => Some(offsets[row] as usize),
            Self::Bytes(Bytes::Large(offsets, _)) => Some(offsets[row] as usize),
            _ => None,
        }
    }

    fn with<T>(&self, row: usize, function: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Bytes(bytes) => function(bytes.get(row)),
            Self::Words(words) => function(&words[row].to_le_bytes()),
        }
    }
}
