//! Least and greatest values.
//!
//! A state is the least word so far; words of greatest values are inverted. The greatest word
//! stands for "none yet", and only if a value has just that word, a byte for each id tells the two
//! apart. −0.0 is less than 0.0 here, so that the result does not depend on the order of rows.

use super::{Fold, Ids, KERNEL, NO_COLUMN, Seen, check, same_kind};
use crate::gather::gather_or_null;
use crate::rows::for_each;
use crate::value::{Value, Values, Word, array_of_bytes, array_of_words, codes, fixed, nulls, value_type};
use crate::{Column, Error, Result, Rows};
use arrow_array::{ArrayRef, new_empty_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

/// Makes a fold that finds the least value of a type; NULL where there is none.
pub fn minimum(data_type: &DataType) -> Result<Box<dyn Fold>> {
    extreme(data_type, false)
}

/// Makes a fold that finds the greatest value of a type; NULL where there is none.
pub fn maximum(data_type: &DataType) -> Result<Box<dyn Fold>> {
    extreme(data_type, true)
}

/// Returns what inverts the words of greatest values, and leaves others as they are.
fn flip<T: Value>(greatest: bool) -> T::Word {
    if greatest { T::Word::MAX } else { T::Word::narrow(0) }
}

fn extreme(data_type: &DataType, greatest: bool) -> Result<Box<dyn Fold>> {
    fn typed<T: Value>(_sample: &[T], data_type: &DataType, greatest: bool) -> Box<dyn Fold> {
        let data_type = data_type.clone();
        Box::new(Extreme::<T> {
            best: Vec::new(),
            edges: Seen(Vec::new()),
            flip: flip::<T>(greatest),
            data_type,
        })
    }
    let data_type = value_type(data_type);
    let sample = new_empty_array(data_type);
    Ok(
        fixed!(Values::of(KERNEL, &sample)?, sample => typed(sample, data_type, greatest), other => match other {
            Values::Boolean(_) => typed::<u8>(&[], data_type, greatest),
            _ => Box::new(TextExtreme { best: Vec::new(), greatest, data_type: data_type.clone() }),
        }),
    )
}

/// The least or greatest values of fixed width.
struct Extreme<T: Value> {
    best: Vec<T::Word>,
    /// The ids that have had a value whose word stands for "none yet"; empty until there is one.
    edges: Seen,
    flip: T::Word,
    data_type: DataType,
}

impl<T: Value> Extreme<T> {
    fn mark(&mut self, id: usize) {
        self.edges.grow(self.best.len());
        self.edges.0[id] = 1;
    }

    fn fold_one(&mut self, id: usize, word: T::Word) {
        let best = &mut self.best[id];
        *best = word.min(*best);
        if word == T::Word::MAX {
            self.mark(id);
        }
    }

    fn fold_nullable(&mut self, ids: Ids<'_>, values: &[T], rows: Rows<'_>, nulls: &NullBuffer) {
        for (id, row) in ids.iter().zip(rows.iter()) {
            if nulls.is_valid(row as usize) {
                self.fold_one(id as usize, values[row as usize].exact().xor(self.flip));
            }
        }
    }

    fn fold_values(&mut self, ids: Ids<'_>, values: &[T], rows: Rows<'_>) {
        let flip = self.flip;
        let none = T::Word::MAX;
        let mut edge = false;
        match ids {
            Ids::One { rows: 0, .. } => {}
            Ids::One { id, .. } => {
                let mut least = none;
                for_each(values, rows, |_, value| {
                    let word = value.exact().xor(flip);
                    edge |= word == none;
                    least = word.min(least);
                });
                let best = &mut self.best[id as usize];
                *best = least.min(*best);
            }
            Ids::Each(ids) => for_each(values, rows, |place, value| {
                let word = value.exact().xor(flip);
                edge |= word == none;
                let best = &mut self.best[ids[place] as usize];
                *best = word.min(*best);
            }),
        }
        if edge {
            for (id, row) in ids.iter().zip(rows.iter()) {
                if values[row as usize].exact().xor(flip) == none {
                    self.mark(id as usize);
                }
            }
        }
    }
}

impl<T: Value> Fold for Extreme<T> {
    fn grow(&mut self, groups: usize) {
        self.best.resize(groups.max(self.best.len()), T::Word::MAX);
        if !self.edges.0.is_empty() {
            self.edges.grow(self.best.len());
        }
    }

    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()> {
        check(ids, column, self.best.len())?;
        let Column { array, rows } = column.ok_or(NO_COLUMN)?;
        check_type(&self.data_type, array.data_type())?;
        let values = Values::of(KERNEL, array)?;
        match (T::slice(&values), nulls(array)) {
            (Some(values), None) => self.fold_values(ids, values, rows),
            (Some(values), Some(nulls)) => self.fold_nullable(ids, values, rows, nulls),
            (None, nulls) => match values {
                Values::Boolean(bits) => {
                    for (id, row) in ids.iter().zip(rows.iter()) {
                        if nulls.is_none_or(|nulls| nulls.is_valid(row as usize)) {
                            let word = T::Word::narrow(bits.value(row as usize).into());
                            self.fold_one(id as usize, word.xor(self.flip));
                        }
                    }
                }
                Values::Dictionary(dictionary) => {
                    let plain = gather_or_null(dictionary.values(), &codes(KERNEL, dictionary, rows)?)?;
                    return self.fold(ids, Some(Column::all(&plain)?));
                }
                _ => {
                    return Err(Error::UnsupportedType {
                        kernel: KERNEL,
                        data_type: array.data_type().clone(),
                    });
                }
            },
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()> {
        let other = same_kind::<Self>(other, ids, |other| other.best.len())?;
        check_same(self.flip == other.flip, &self.data_type, &other.data_type)?;
        ids.check(self.best.len())?;
        for (place, id) in ids.iter().enumerate() {
            let best = &mut self.best[id as usize];
            *best = other.best[place].min(*best);
            if other.edges.0.get(place) == Some(&1) {
                self.mark(id as usize);
            }
        }
        Ok(())
    }

    fn finish(&self) -> Result<ArrayRef> {
        let known = |id: usize| self.best[id] != T::Word::MAX || self.edges.0.get(id) == Some(&1);
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(self.best.len(), known));
        let words = self.best.iter().map(|word| word.xor(self.flip).wide());
        array_of_words(KERNEL, &self.data_type, words, Some(nulls).filter(|nulls| nulls.null_count() > 0))
    }

    fn bytes(&self) -> usize {
        self.best.capacity() * size_of::<T::Word>() + self.edges.bytes()
    }
}

/// Fails unless a column's values lie in memory as those of the fold do.
fn check_type(expected: &DataType, found: &DataType) -> Result<()> {
    match value_type(found) == expected {
        true => Ok(()),
        false => Err(Error::TypeMismatch { left: found.clone(), right: expected.clone() }),
    }
}

/// Fails unless the states of two folds mean the same.
fn check_same(same_direction: bool, left: &DataType, right: &DataType) -> Result<()> {
    check_type(left, right)?;
    match same_direction {
        true => Ok(()),
        false => Err(Error::Inputs { kernel: KERNEL, reason: "minima cannot be merged with maxima" }),
    }
}

/// The least or greatest strings, of columns of strings or of dictionaries.
struct TextExtreme {
    best: Vec<Option<Box<[u8]>>>,
    greatest: bool,
    data_type: DataType,
}

impl TextExtreme {
    fn fold_one(&mut self, id: usize, bytes: &[u8]) {
        let best = &mut self.best[id];
        let better = best.as_ref().is_none_or(|best| match self.greatest {
            true => bytes > best.as_ref(),
            false => bytes < best.as_ref(),
        });
        if better {
            *best = Some(bytes.into());
        }
    }
}

impl Fold for TextExtreme {
    fn grow(&mut self, groups: usize) {
        self.best.resize(groups.max(self.best.len()), None);
    }

    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()> {
        check(ids, column, self.best.len())?;
        let Column { array, rows } = column.ok_or(NO_COLUMN)?;
        check_type(&self.data_type, array.data_type())?;
        match Values::of(KERNEL, array)? {
            Values::Bytes(bytes) => {
                let nulls = nulls(array);
                for (id, row) in ids.iter().zip(rows.iter()) {
                    if nulls.is_none_or(|nulls| nulls.is_valid(row as usize)) {
                        self.fold_one(id as usize, bytes.get(row as usize));
                    }
                }
            }
            Values::Dictionary(dictionary) => {
                let Values::Bytes(bytes) = Values::of(KERNEL, dictionary.values())? else {
                    return Err(Error::UnsupportedType {
                        kernel: KERNEL,
                        data_type: array.data_type().clone(),
                    });
                };
                for (id, code) in ids.iter().zip(codes(KERNEL, dictionary, rows)?) {
                    if code != u32::MAX {
                        self.fold_one(id as usize, bytes.get(code as usize));
                    }
                }
            }
            _ => return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }),
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()> {
        let other = same_kind::<Self>(other, ids, |other| other.best.len())?;
        check_same(self.greatest == other.greatest, &self.data_type, &other.data_type)?;
        ids.check(self.best.len())?;
        for (place, id) in ids.iter().enumerate() {
            if let Some(bytes) = &other.best[place] {
                self.fold_one(id as usize, bytes);
            }
        }
        Ok(())
    }

    fn finish(&self) -> Result<ArrayRef> {
        array_of_bytes(KERNEL, &self.data_type, self.best.iter().map(Option::as_deref))
    }

    fn bytes(&self) -> usize {
        let heap: usize = self.best.iter().flatten().map(|bytes| bytes.len()).sum();
        self.best.capacity() * size_of::<Option<Box<[u8]>>>() + heap
    }
}
