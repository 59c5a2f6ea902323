//! Keys of one or several columns, packed into words of 64 or 128 bits.
//!
//! Each column gets as many bits as its type has, and one more if its NULLs are keys. Strings, and
//! what has more than 128 bits, are interned, that is numbered in order of appearance; a number
//! takes 32 bits. Where columns together have more than 128 bits, the first of them are packed and
//! numbered on their own, as many as go together, and their number stands for them. Many columns
//! are first divided into four parts, each of which has numbers. So any number of columns fits, in
//! time that is proportional to it.

mod intern;
mod set;
pub(crate) mod table;

use crate::gather::gather_or_null;
use crate::rows::{common_rows, for_each};
use crate::value::{Value, Values, Word, array_of_words, check_comparable, codes, fixed, nulls, value_type};
use crate::{Column, Error, Result, Rows};
use arrow_array::{ArrayRef, new_empty_array};
use arrow_schema::DataType;
use intern::Interner;
pub(crate) use set::KeySet;
use table::Key;

/// The number of a string that was never interned.
const MISSING: u32 = u32::MAX;
/// The bits of the number of a string, or of several columns of a key.
const NUMBER_BITS: u32 = 32;
/// The most columns whose numbers stand for each other in a chain.
const CHAINED_MAX: usize = 64;
/// The parts of more columns: their numbers go together.
const PARTS: usize = (u128::BITS / NUMBER_BITS) as usize;

/// The type of a key's column, and what becomes of its NULLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyType {
    pub data_type: DataType,
    /// Whether NULL is a key as others are. Otherwise what a row with NULL gives is not defined.
    pub with_null: bool,
}

/// How a column is packed.
enum Part {
    /// Several columns, which have a number.
    Several(Box<KeySet>),
    /// The words of values of fixed width; above them a bit for NULL.
    Word { data_type: DataType, bits: u32, with_null: bool },
    /// The numbers of strings, or of the bytes of words; 0 is NULL.
    Interned { data_type: DataType, interner: Interner },
}

impl Part {
    fn new(kernel: &'static str, key: &KeyType) -> Result<Self> {
        let data_type = value_type(&key.data_type).clone();
        let sample = new_empty_array(&data_type);
        fn bits<T: Value>(_sample: &[T]) -> u32 {
            T::BITS
        }
        let bits = fixed!(Values::of(kernel, &sample)?, sample => bits(sample), other => match other {
            Values::Boolean(_) => 1,
            _ => u32::MAX,
        });
        Ok(match bits.saturating_add(key.with_null.into()) > u128::BITS {
            true => Part::Interned { data_type, interner: Interner::new() },
            false => Part::Word { data_type, bits, with_null: key.with_null },
        })
    }

    fn bits(&self) -> u32 {
        match self {
            Part::Word { bits, with_null, .. } => bits + u32::from(*with_null),
            Part::Several(_) | Part::Interned { .. } => NUMBER_BITS,
        }
    }

    fn columns(&self) -> usize {
        match self {
            Part::Several(set) => set.columns(),
            _ => 1,
        }
    }
}

/// Packs columns into keys, and unpacks them.
pub(crate) struct Packer {
    kernel: &'static str,
    types: Vec<KeyType>,
    parts: Vec<Part>,
}

impl Packer {
    pub fn new(kernel: &'static str, types: &[KeyType]) -> Result<Self> {
        let mut parts: Vec<Part> = Vec::new();
        if types.len() > CHAINED_MAX {
            for types in types.chunks(types.len().div_ceil(PARTS)) {
                parts.push(Part::Several(Box::new(KeySet::new(kernel, types)?)));
            }
            return Ok(Self { kernel, types: types.to_vec(), parts });
        }
        for (column, key) in types.iter().enumerate() {
            let part = Part::new(kernel, key)?;
            if parts.iter().map(Part::bits).sum::<u32>() + part.bits() > u128::BITS {
                let first = Self { kernel, types: types[..column].to_vec(), parts };
                parts = vec![Part::Several(Box::new(KeySet::of(first)))];
            }
            if parts.iter().map(Part::bits).sum::<u32>() + part.bits() > u128::BITS {
                let interner = Interner::new();
                parts.push(Part::Interned { data_type: value_type(&key.data_type).clone(), interner });
            } else {
                parts.push(part);
            }
        }
        Ok(Self { kernel, types: types.to_vec(), parts })
    }

    pub fn bits(&self) -> u32 {
        self.parts.iter().map(Part::bits).sum()
    }

    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// Tells whether keys are numbers in order of appearance.
    pub fn is_numbered(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Several(_) | Part::Interned { .. }])
    }

    /// Returns the bytes that interned strings take.
    pub fn bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Several(set) => set.bytes(),
                Part::Interned { interner, .. } => interner.bytes(),
                Part::Word { .. } => 0,
            })
            .sum()
    }

    fn check(&self, columns: &[Column<'_>]) -> Result<usize> {
        if columns.len() != self.types.len() {
            return Err(Error::Inputs {
                kernel: self.kernel,
                reason: "there is not one column for each key",
            });
        }
        for (column, key) in columns.iter().zip(&self.types) {
            check_comparable(column.array.data_type(), &key.data_type)?;
        }
        common_rows(self.kernel, columns)
    }

    /// Packs the rows of columns, and numbers what is new. Strings of columns that stay are not copied.
    pub fn pack<K: Key>(&mut self, columns: &[Column<'_>], stays: &[bool]) -> Result<Vec<K>> {
        let mut keys = vec![K::default(); self.check(columns)?];
        let mut first = 0;
        for part in &mut self.parts {
            let places = first..first + part.columns();
            first = places.end;
            let (own, stays) = (&columns[places.clone()], &stays[places]);
            match part {
                Part::Several(set) => {
                    let mut numbers = Vec::new();
                    set.insert_staying(own, stays, &mut numbers)?;
                    push_numbers(&mut keys, &numbers);
                }
                Part::Word { bits, with_null, .. } => {
                    push(self.kernel, &mut keys, own[0], *bits, *with_null)?
                }
                Part::Interned { interner, .. } => {
                    push_numbers(&mut keys, &interner.insert(self.kernel, own[0], stays[0])?);
                }
            }
        }
        Ok(keys)
    }

    /// Packs the rows of columns; rows with what has no number are marked as missing.
    pub fn pack_known<K: Key>(&self, columns: &[Column<'_>]) -> Result<(Vec<K>, Option<Vec<bool>>)> {
        let mut keys = vec![K::default(); self.check(columns)?];
        let mut missing: Option<Vec<bool>> = None;
        let mut rest = columns;
        for part in &self.parts {
            let (own, others) = rest.split_at(part.columns());
            rest = others;
            let numbers = match part {
                Part::Several(set) => {
                    let mut numbers = Vec::new();
                    set.find(own, &mut numbers)?;
                    numbers
                }
                Part::Word { bits, with_null, .. } => {
                    push(self.kernel, &mut keys, own[0], *bits, *with_null)?;
                    continue;
                }
                Part::Interned { interner, .. } => interner.find(self.kernel, own[0])?,
            };
            let missing = missing.get_or_insert_with(|| vec![false; keys.len()]);
            for (missing, number) in missing.iter_mut().zip(&numbers) {
                *missing |= *number == MISSING;
            }
            push_numbers(&mut keys, &numbers);
        }
        Ok((keys, missing))
    }

    /// Returns the columns of some keys.
    pub fn unpack<K: Key>(&self, mut keys: Vec<K>) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for part in self.parts.iter().rev() {
            let bits = part.bits();
            let mask = if bits == u128::BITS { u128::MAX } else { (1 << bits) - 1 };
            let words = keys.iter().map(|key| key.wide() & mask);
            match part {
                Part::Several(set) => {
                    let numbers: Vec<u32> = words.map(|word| word as u32).collect();
                    columns.extend(set.keys(Rows::List(&numbers))?.into_iter().rev());
                }
                Part::Word { data_type, bits, with_null: true } => {
                    let valid = keys.iter().map(|key| key.wide() >> bits & 1 == 0).collect::<Vec<_>>();
                    let valid = Some(arrow_buffer::NullBuffer::from(valid));
                    columns.push(array_of_words(self.kernel, data_type, words, valid)?);
                }
                Part::Word { data_type, .. } => {
                    columns.push(array_of_words(self.kernel, data_type, words, None)?);
                }
                Part::Interned { data_type, interner } => {
                    columns.push(interner.array(self.kernel, data_type, words.map(|word| word as u32))?);
                }
            }
            keys.iter_mut().for_each(|key| *key = key.right(bits));
        }
        columns.reverse();
        Ok(columns)
    }
}

/// Shifts keys up and puts numbers below.
fn push_numbers<K: Key>(keys: &mut [K], numbers: &[u32]) {
    for (key, number) in keys.iter_mut().zip(numbers) {
        *key = key.left(NUMBER_BITS).or(K::narrow((*number).into()));
    }
}

/// Shifts keys up and puts the words of a column below, with a bit for NULL above those.
fn push<K: Key>(
    kernel: &'static str,
    keys: &mut [K],
    column: Column<'_>,
    bits: u32,
    with_null: bool,
) -> Result<()> {
    fn words<K: Key, T: Value>(keys: &mut [K], values: &[T], rows: Rows<'_>, bits: u32) {
        for_each(values, rows, |place, value| {
            keys[place] = keys[place].left(bits).or(K::narrow(value.word().wide()));
        });
    }
    let shift = bits + u32::from(with_null);
    let Column { array, rows } = column;
    fixed!(Values::of(kernel, array)?, values => words(keys, values, rows, shift), other => match other {
        Values::Boolean(values) => {
            for (key, row) in keys.iter_mut().zip(rows.iter()) {
                *key = key.left(shift).or(K::narrow(values.value(row as usize).into()));
            }
        }
        Values::Dictionary(dictionary) => {
            let plain = gather_or_null(dictionary.values(), &codes(kernel, dictionary, rows)?)?;
            return push(kernel, keys, Column::all(&plain)?, bits, with_null);
        }
        _ => {
            return Err(Error::UnsupportedType { kernel, data_type: array.data_type().clone() });
        }
    });
    if let Some(nulls) = nulls(array).filter(|_| with_null) {
        for (key, row) in keys.iter_mut().zip(rows.iter()) {
            if nulls.is_null(row as usize) {
                // What lies under a NULL is not part of the key.
                *key = key.right(shift).left(shift).or(K::narrow(1 << bits));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
