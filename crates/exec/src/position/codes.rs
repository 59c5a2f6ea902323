//! Keys of joined tables, told apart once for each row of their table.
//!
//! Many rows of a flow have one row of a joined table. Where they are grouped by that table's columns, a
//! row of it gets a code when it is first met: texts are hashed and expressions are evaluated once for
//! each of its rows, and rows of the flow are grouped by codes. Equal keys have one code.

use super::chunk::Chunk;
use super::evaluate::{Columns, Evaluator, Value, Values};
use super::number::Numbers;
use super::stop::{Stop, Stopped};
use arrow::array::{ArrayRef, AsArray, UInt32Array, make_array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use hypostyle_position::group::{Groups, HashGroups};
use hypostyle_position::{Column, NO_POSITION, Rows, Selection};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the rows of a slot's table, if a flow may have several rows for each.
pub(super) type MetOften<'a> = &'a dyn Fn(usize) -> Option<usize>;

/// A key whose values tell groups apart.
#[derive(Clone, Debug)]
pub(super) struct KeyValue {
    pub evaluator: Evaluator,
    /// The codes of a dictionary, which stand for its values.
    pub codes: Option<ArrayRef>,
    pub key_type: (DataType, bool),
}

impl KeyValue {
    /// Returns the values of rows as they are told apart.
    pub fn of<'a>(&'a self, values: &mut Values<'a>) -> Stopped<Value<'a>> {
        Ok(match (values.get(&self.evaluator)?, &self.codes) {
            (Value::Rows(_, rows), Some(codes)) => Value::Rows(codes, rows),
            (Value::Own(array), Some(_)) => Value::Own(codes_of(&array)?),
            (value, None) => value,
        })
    }

    /// Tells whether reading the key of a row takes much longer than reading a number.
    pub fn is_costly(&self) -> bool {
        let (data_type, _) = &self.key_type;
        !matches!(self.evaluator, Evaluator::Column(_)) || self.codes.is_none() && !data_type.is_primitive()
    }

    /// Returns the values that were told apart.
    pub fn decoded(&self, value: ArrayRef, columns: &Columns) -> Stopped<ArrayRef> {
        let (Some(_), Evaluator::Column(number)) = (&self.codes, &self.evaluator) else { return Ok(value) };
        let dictionary = columns.get(*number)?.stored.as_any_dictionary_opt().ok_or_else(no_dictionary)?;
        take(dictionary.values(), &value, None).map_err(Stop::arrow)
    }
}

fn codes_of(array: &ArrayRef) -> Stopped<ArrayRef> {
    let dictionary = array.as_any_dictionary_opt().ok_or_else(no_dictionary)?;
    Ok(make_array(dictionary.keys().to_data()))
}

fn no_dictionary() -> Stop {
    Stop::Unfit("a dictionary is missing".into())
}

/// The codes of the rows of a table, which all workers give.
pub(super) struct RowCodes {
    slot: usize,
    keys: Vec<KeyValue>,
    /// The code of each row, and behind them that of rows without a partner; `NO_POSITION` of those that
    /// have not been met.
    codes: Vec<AtomicU32>,
    groups: Mutex<HashGroups>,
}

impl fmt::Debug for RowCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCodes").field("slot", &self.slot).field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl RowCodes {
    /// Makes codes for the rows of a slot's table, of which there are so many.
    pub fn new(slot: usize, positions: usize, keys: Vec<KeyValue>) -> Stopped<Self> {
        let types: Vec<(DataType, bool)> = keys.iter().map(|key| key.key_type.clone()).collect();
        let codes = (0..=positions).map(|_| AtomicU32::new(NO_POSITION)).collect();
        Ok(Self { slot, keys, codes, groups: Mutex::new(HashGroups::new(&types)?) })
    }

    /// Returns the codes of a chunk's rows.
    pub fn of(&self, columns: &Columns, chunk: &Chunk) -> Stopped<ArrayRef> {
        let positions = chunk.positions(self.slot);
        let mut codes = Vec::with_capacity(positions.len());
        let mut unmet = Vec::new();
        for position in positions.iter() {
            let code = self.code(position)?.load(Ordering::Relaxed);
            if code == NO_POSITION {
                unmet.push(position);
            }
            codes.push(code);
        }
        if !unmet.is_empty() {
            self.meet(columns, unmet)?;
            for (position, code) in positions.iter().zip(&mut codes) {
                *code = self.code(position)?.load(Ordering::Relaxed);
            }
        }
        Ok(Arc::new(UInt32Array::from(codes)))
    }

    fn code(&self, position: u32) -> Stopped<&AtomicU32> {
        let place = (position as usize).min(self.codes.len() - 1);
        match position == NO_POSITION || place == position as usize && place + 1 < self.codes.len() {
            true => Ok(&self.codes[place]),
            false => Err(Stop::Unfit("a row is not of the table".into())),
        }
    }

    /// Gives rows of the table their codes.
    fn meet(&self, columns: &Columns, mut positions: Vec<u32>) -> Stopped<()> {
        positions.sort_unstable();
        positions.dedup();
        let slots = columns.universe.sources.len();
        let chunk = Chunk::new(slots, self.slot, Selection::List(positions));
        let numbers = Numbers::default();
        let mut values = Values::new(columns, &numbers, &chunk);
        let keys = self.keys.iter().map(|key| key.of(&mut values)).collect::<Stopped<Vec<_>>>()?;
        let key_columns: Vec<Column<'_>> = keys.iter().map(Value::column).collect();
        let mut ids = Vec::new();
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).ids(&key_columns, &mut ids)?;
        for (position, id) in chunk.positions(self.slot).iter().zip(ids) {
            self.code(position)?.store(id, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the keys that some codes stand for.
    pub fn values(&self, codes: &ArrayRef, columns: &Columns) -> Stopped<Vec<ArrayRef>> {
        let codes = codes.as_primitive::<arrow::datatypes::UInt32Type>();
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let values = groups.keys(Rows::List(codes.values()))?;
        self.keys.iter().zip(values).map(|(key, value)| key.decoded(value, columns)).collect()
    }

    /// Returns a byte for each code of a condition, 1 where it is true.
    pub fn truths(&self, columns: &Columns) -> Stopped<Vec<u8>> {
        let known = self.groups.lock().unwrap_or_else(PoisonError::into_inner).len() as u32;
        let codes: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..known));
        let truths = self.values(&codes, columns)?.pop();
        let truths = truths.as_ref().and_then(|truths| truths.as_boolean_opt());
        let truths = truths.ok_or_else(|| Stop::Unfit("a condition is not BOOLEAN".into()))?;
        Ok(truths.iter().map(|is_true| u8::from(is_true == Some(true))).collect())
    }

    pub fn bytes(&self) -> usize {
        self.codes.len() * 4 + self.groups.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }
}
