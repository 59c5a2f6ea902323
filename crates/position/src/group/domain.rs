//! Groups of keys whose domains are small.

use super::{Groups, HashGroups, KERNEL};
use crate::gather::gather;
use crate::rows::{common_rows, for_each};
use crate::value::{Value, Values, Word, array_of_words, fixed, wide_words};
use crate::{Column, Error, NO_POSITION, Result, Rows};
use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use std::sync::Arc;

/// The values that a key can have: all between two numbers or dates, or those of a dictionary. A
/// domain of a nullable key has NULL behind the others.
pub struct Domain {
    values: ArrayRef,
    source: Source,
    nullable: bool,
    /// The keys, each once, and which of them each value of the domain has; `None` where all
    /// differ.
    decided: Option<(ArrayRef, Vec<u32>)>,
}

/// How the value of a row is found in the domain.
enum Source {
    /// The values from a low word on, in the order of their words.
    Words { low: u128 },
    /// The values of dictionaries. Each has a place in the domain of its own; others are looked up.
    Dictionary { values: ArrayRef, set: HashGroups },
}

impl Domain {
    /// Makes the domain of the numbers, dates or booleans between the two rows of an array, which
    /// are the least and the greatest value of a column. Fails if there are more than
    /// `DomainGroups::GROUPS_MAX`.
    pub fn between(bounds: &ArrayRef, nullable: bool) -> Result<Self> {
        let unsupported = || Error::UnsupportedType { kernel: KERNEL, data_type: bounds.data_type().clone() };
        if matches!(bounds.data_type(), DataType::Float32 | DataType::Float64) {
            return Err(unsupported());
        }
        let words = wide_words(KERNEL, bounds)?.ok_or_else(unsupported)?;
        let (&[low, high], 0) = (&words[..], bounds.null_count()) else {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there are not two bounds" });
        };
        if low > high || high - low >= DomainGroups::GROUPS_MAX as u128 {
            return Err(Error::TooMany("the values of a domain"));
        }
        let values = array_of_words(KERNEL, bounds.data_type(), low..=high, None)?;
        Ok(Self {
            values: with_null(values, nullable)?,
            source: Source::Words { low },
            nullable,
            decided: None,
        })
    }

    /// Makes the domain of a dictionary's values, for columns of this dictionary and of others
    /// whose values are all among its own.
    pub fn of_dictionary(values: &ArrayRef, nullable: bool) -> Result<Self> {
        let mut set = HashGroups::new(&[(values.data_type().clone(), false)])?;
        let mut ids = Vec::new();
        let valid: Vec<u32> = (0..values.len() as u32).filter(|row| values.is_valid(*row as usize)).collect();
        set.ids(&[Column::new(values, Rows::List(&valid))?], &mut ids)?;
        let distinct = set.keys(Rows::Range(0, set.len() as u32))?.remove(0);
        let source = Source::Dictionary { values: values.clone(), set };
        Ok(Self { values: with_null(distinct, nullable)?, source, nullable, decided: None })
    }

    /// Returns the values of the domain, of which an expression can be decided.
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// Makes the results of an expression the keys: a result for each of the
    /// [values](Self::values).
    pub fn decided(mut self, results: &ArrayRef) -> Result<Self> {
        if results.len() != self.values.len() {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one result for each value" });
        }
        let mut set = HashGroups::new(&[(results.data_type().clone(), true)])?;
        let mut ids = Vec::new();
        set.ids(&[Column::all(results)?], &mut ids)?;
        let keys = set.keys(Rows::Range(0, set.len() as u32))?.remove(0);
        self.decided = Some((keys, ids));
        Ok(self)
    }

    fn keys(&self) -> &ArrayRef {
        self.decided.as_ref().map_or(&self.values, |(keys, _)| keys)
    }

    /// Returns the number of a value's key, times a stride.
    fn key(&self, place: usize, stride: u32) -> u32 {
        self.decided.as_ref().map_or(place as u32, |(_, keys)| keys[place]) * stride
    }

    /// Adds the number of each row's key, times a stride, to its id.
    fn add(&self, column: Column<'_>, stride: u32, ids: &mut [u32]) -> Result<()> {
        let Column { array, rows } = column;
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let before = nulls.as_ref().map(|_| ids.to_vec());
        let outside = match &self.source {
            Source::Words { low } => self.add_words(column, *low, stride, nulls.as_ref(), ids)?,
            Source::Dictionary { .. } => self.add_codes(column, stride, nulls.as_ref(), ids)?,
        };
        if let (Some(nulls), Some(before)) = (nulls, before) {
            let null = self.nullable.then(|| self.key(self.values.len() - 1, stride));
            for ((id, before), row) in ids.iter_mut().zip(before).zip(rows.iter()) {
                if nulls.is_null(row as usize) {
                    *id = before + null.ok_or(Error::OutsideDomain)?;
                }
            }
        }
        match outside {
            true => Err(Error::OutsideDomain),
            false => Ok(()),
        }
    }

    /// Adds keys by the distance of words from the lowest. Returns whether a value was not in the
    /// domain.
    fn add_words(
        &self,
        column: Column<'_>,
        low: u128,
        stride: u32,
        nulls: Option<&NullBuffer>,
        ids: &mut [u32],
    ) -> Result<bool> {
        let Column { array, rows } = column;
        if array.data_type() != self.values.data_type() {
            let (left, right) = (array.data_type().clone(), self.values.data_type().clone());
            return Err(Error::TypeMismatch { left, right });
        }
        let known = self.values.len() - usize::from(self.nullable);
        let keys: Option<Vec<u32>> =
            self.decided.as_ref().map(|_| (0..known).map(|place| self.key(place, stride)).collect());
        let span = known as u32 - 1;
        Ok(fixed!(Values::of(KERNEL, array)?, values => {
            add_distances(values, rows, low, span, keys.as_deref(), stride, nulls, ids)
        }, other => match other {
            Values::Boolean(bits) => {
                let bytes: Vec<u8> = rows.iter().map(|row| bits.value(row as usize).into()).collect();
                let nulls = nulls.map(|nulls| NullBuffer::from_iter(rows.iter().map(|row| nulls.is_valid(row as usize))));
                let rows = Rows::Range(0, bytes.len() as u32);
                add_distances(&bytes, rows, low, span, keys.as_deref(), stride, nulls.as_ref(), ids)
            }
            _ => return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }),
        }))
    }

    /// Adds keys by code. Returns whether a value was not in the domain.
    fn add_codes(
        &self,
        column: Column<'_>,
        stride: u32,
        nulls: Option<&NullBuffer>,
        ids: &mut [u32],
    ) -> Result<bool> {
        let Column { array, rows } = column;
        let Values::Dictionary(dictionary) = Values::of(KERNEL, array)? else {
            return Err(Error::TypeMismatch {
                left: array.data_type().clone(),
                right: self.values.data_type().clone(),
            });
        };
        let table = self.table(dictionary.values(), stride)?;
        macro_rules! by_code {
            ($keys:expr) => {
                add_by_code($keys, |code| code as usize, rows, &table, nulls, ids)
            };
        }
        Ok(match Values::of(KERNEL, dictionary.keys())? {
            Values::I8(keys) => by_code!(keys),
            Values::I16(keys) => by_code!(keys),
            Values::I32(keys) => by_code!(keys),
            Values::I64(keys) => by_code!(keys),
            Values::U8(keys) => by_code!(keys),
            Values::U16(keys) => by_code!(keys),
            Values::U32(keys) => by_code!(keys),
            Values::U64(keys) => by_code!(keys),
            _ => return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }),
        })
    }

    /// Returns the key of each code of a dictionary, times a stride; [`NO_POSITION`] is outside.
    fn table(&self, values: &ArrayRef, stride: u32) -> Result<Vec<u32>> {
        let Source::Dictionary { values: own, set } = &self.source else {
            return Err(Error::OutsideDomain);
        };
        let mut places = Vec::new();
        // A dictionary may have a value twice, so that even its own codes are looked up.
        match Arc::ptr_eq(own, values) && set.len() == own.len() {
            true => places.extend(0..own.len() as u32),
            false => set.find(&[Column::all(values)?], &mut places)?,
        }
        let key = |place: u32| if place == NO_POSITION { place } else { self.key(place as usize, stride) };
        Ok(places.into_iter().map(key).collect())
    }
}

/// Returns values with a NULL behind them.
fn with_null(values: ArrayRef, nullable: bool) -> Result<ArrayRef> {
    match nullable {
        true => Ok(concat(&[&values, &new_null_array(values.data_type(), 1)])?),
        false => Ok(values),
    }
}

#[allow(clippy::too_many_arguments)]
fn add_distances<T: Value>(
    values: &[T],
    rows: Rows<'_>,
    low: u128,
    span: u32,
    keys: Option<&[u32]>,
    stride: u32,
    nulls: Option<&NullBuffer>,
    ids: &mut [u32],
) -> bool {
    let low = T::Word::narrow(low);
    let limit = T::Word::narrow(span.into());
    let distance = |value: T| value.word().minus(low);
    let mut outside = false;
    match keys {
        None => for_each(values, rows, |place, value| {
            let distance = distance(value);
            outside |= distance > limit;
            // What is outside gets any id, and then an error.
            ids[place] = ids[place].wrapping_add((distance.wide() as u32).wrapping_mul(stride));
        }),
        Some(keys) => for_each(values, rows, |place, value| {
            let distance = distance(value);
            outside |= distance > limit;
            ids[place] = ids[place].wrapping_add(keys[distance.min(limit).wide() as usize]);
        }),
    }
    let is_outside = |row: u32| {
        let valid = nulls.is_none_or(|nulls| nulls.is_valid(row as usize));
        valid && distance(values[row as usize]) > limit
    };
    // Under a NULL there may be anything.
    outside && (nulls.is_none() || rows.iter().any(is_outside))
}

fn add_by_code<T: Copy>(
    codes: &[T],
    place: impl Fn(T) -> usize,
    rows: Rows<'_>,
    table: &[u32],
    nulls: Option<&NullBuffer>,
    ids: &mut [u32],
) -> bool {
    let key = |code: T| table.get(place(code)).copied().unwrap_or(NO_POSITION);
    let mut outside = false;
    for_each(codes, rows, |place, code| {
        let key = key(code);
        outside |= key == NO_POSITION;
        ids[place] = ids[place].wrapping_add(key);
    });
    let is_outside = |row: u32| {
        let valid = nulls.is_none_or(|nulls| nulls.is_valid(row as usize));
        valid && key(codes[row as usize]) == NO_POSITION
    };
    outside && (nulls.is_none() || rows.iter().any(is_outside))
}

/// Groups of keys whose domains, multiplied, are small: an id is a place in an array.
///
/// Takes a few instructions for each row and key. A value outside of its domain is an error: then
/// the statistics that the domain was made from were not exact.
pub struct DomainGroups {
    domains: Vec<Domain>,
    groups: usize,
}

impl DomainGroups {
    /// The most groups that there are.
    pub const GROUPS_MAX: usize = 1 << 16;

    /// Makes groups of keys, or fails if there would be more than [`GROUPS_MAX`](Self::GROUPS_MAX).
    pub fn new(domains: Vec<Domain>) -> Result<Self> {
        let mut groups: usize = 1;
        for domain in &domains {
            groups = groups.saturating_mul(domain.keys().len());
        }
        match groups <= Self::GROUPS_MAX {
            true => Ok(Self { domains, groups }),
            false => Err(Error::TooMany("the groups of domains")),
        }
    }
}

impl Groups for DomainGroups {
    fn ids(&mut self, keys: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()> {
        let rows = common_rows(KERNEL, keys)?;
        if keys.len() != self.domains.len() {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one column for each domain" });
        }
        ids.clear();
        ids.resize(rows, 0);
        let mut stride = 1;
        for (domain, column) in self.domains.iter().zip(keys) {
            domain.add(*column, stride, ids)?;
            stride *= domain.keys().len() as u32;
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.groups
    }

    fn keys(&self, ids: Rows<'_>) -> Result<Vec<ArrayRef>> {
        ids.check(self.groups)?;
        let mut rest: Vec<u32> = ids.iter().collect();
        let mut keys = Vec::with_capacity(self.domains.len());
        for domain in &self.domains {
            let size = domain.keys().len() as u32;
            let places: Vec<u32> = rest.iter().map(|id| id % size).collect();
            rest.iter_mut().for_each(|id| *id /= size);
            keys.push(gather(domain.keys(), Rows::List(&places))?);
        }
        Ok(keys)
    }

    fn bytes(&self) -> usize {
        let keys = |domain: &Domain| domain.decided.as_ref().map_or(0, |(_, keys)| keys.len() * 4);
        self.domains.iter().map(|domain| domain.values.get_array_memory_size() + keys(domain)).sum()
    }
}
