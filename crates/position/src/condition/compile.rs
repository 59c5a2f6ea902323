//! Makes conditions ready for columns.

use super::leaf::{
    Any, AnyPair, Both, ByCode, Inside, Leaf, Leaves, Member, NearMember, Never, Pair, Text, TextMember,
    Truth, Valid,
};
use super::like::Like;
use super::{Comparison, Condition, KERNEL, Pattern};
use crate::value::{Value, Values, Word, check_comparable, comparator, fixed, nulls, wide_words};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

/// Sets of numbers that span no more than this have a bit for each of the numbers between.
const SPAN_MAX: u128 = 1 << 20;

/// The words between two others; of several ranges of one column their intersection.
#[derive(Clone, Copy)]
struct Bounds {
    column: usize,
    low: u128,
    high: u128,
}

pub(super) fn compile_all<'a>(
    conditions: &[&Condition],
    columns: &'a [ArrayRef],
    leaves: &mut Leaves<'a>,
) -> Result<()> {
    let mut ranges: Vec<Bounds> = Vec::new();
    let mut rest: Vec<&Condition> = conditions.to_vec();
    rest.reverse();
    while let Some(condition) = rest.pop() {
        if let Some(dictionary) =
            condition.only_column().and_then(|column| columns[column].as_any_dictionary_opt())
        {
            leaves.push(Box::new(ByCode::new(condition, columns.len(), dictionary)?));
            continue;
        }
        match condition {
            Condition::All(conditions) => rest.extend(conditions.iter().rev()),
            Condition::Any(conditions) => leaves.push(disjunction(conditions, columns)?),
            Condition::Compare { column, comparison, constant } => {
                match compare(*column, *comparison, constant, columns)? {
                    Compared::Leaf(leaf) => leaves.push(leaf),
                    Compared::Range(bounds) => {
                        match ranges.iter_mut().find(|range| range.column == *column) {
                            Some(range) => {
                                range.low = range.low.max(bounds.low);
                                range.high = range.high.min(bounds.high);
                            }
                            None => ranges.push(bounds),
                        }
                    }
                }
            }
            Condition::CompareColumns { left, comparison, right } => {
                leaves.push(pair(&columns[*left], *comparison, &columns[*right])?);
            }
            Condition::In { column, constants, negated } => {
                leaves.push(member(&columns[*column], constants, *negated)?);
            }
            Condition::Like { column, pattern, negated } => {
                leaves.push(like(&columns[*column], pattern, *negated)?);
            }
            Condition::Null { column, negated } => {
                if let Some(leaf) = valid(&columns[*column], !negated) {
                    leaves.push(leaf);
                }
            }
        }
    }
    for range in ranges {
        leaves.push(inside(&columns[range.column], range.low, range.high, false)?);
    }
    Ok(())
}

fn disjunction<'a>(conditions: &[Condition], columns: &'a [ArrayRef]) -> Result<Box<dyn Leaf + 'a>> {
    let branches = conditions.iter().map(|condition| {
        let mut leaves = Vec::new();
        compile_all(&[condition], columns, &mut leaves)?;
        Ok(leaves)
    });
    Ok(Box::new(Any(branches.collect::<Result<_>>()?)))
}

fn with_valid<'a>(leaf: Box<dyn Leaf + 'a>, array: &'a ArrayRef) -> Box<dyn Leaf + 'a> {
    match valid(array, false) {
        Some(valid) => Box::new(Both(leaf, valid)),
        None => leaf,
    }
}

enum Compared<'a> {
    Leaf(Box<dyn Leaf + 'a>),
    Range(Bounds),
}

fn compare<'a>(
    column: usize,
    comparison: Comparison,
    constant: &ArrayRef,
    columns: &'a [ArrayRef],
) -> Result<Compared<'a>> {
    let array = &columns[column];
    check_comparable(array.data_type(), constant.data_type())?;
    if constant.len() != 1 {
        return Err(Error::Inputs { kernel: KERNEL, reason: "a constant has not one row" });
    }
    if constant.is_null(0) {
        return Ok(Compared::Leaf(Box::new(Never)));
    }
    match Values::of(KERNEL, array)? {
        Values::Boolean(bits) => {
            let constant = wide_words(KERNEL, constant)?.is_some_and(|words| words[0] != 0);
            let passes = [false, true].map(|value| u8::from(comparison.holds(value.cmp(&constant))));
            return Ok(Compared::Leaf(with_valid(Box::new(Truth { bits, passes }), array)));
        }
        Values::Bytes(bytes) => {
            let Values::Bytes(constant) = Values::of(KERNEL, constant)? else {
                return Err(Error::Inputs { kernel: KERNEL, reason: "a constant is a dictionary" });
            };
            let leaf = Text { bytes, comparison, constant: constant.get(0).into() };
            return Ok(Compared::Leaf(with_valid(Box::new(leaf), array)));
        }
        _ => {}
    }
    let Some(words) = wide_words(KERNEL, constant)? else {
        return Err(Error::Inputs { kernel: KERNEL, reason: "a constant is a dictionary" });
    };
    let word = words[0];
    let range = |low, high| Compared::Range(Bounds { column, low, high });
    Ok(match comparison {
        Comparison::Equal => range(word, word),
        Comparison::NotEqual => Compared::Leaf(inside(array, word, word, true)?),
        Comparison::LessOrEqual => range(0, word),
        Comparison::GreaterOrEqual => range(word, u128::MAX),
        // Nothing is less than the least word, or greater than the greatest.
        Comparison::Less => word.checked_sub(1).map_or(range(1, 0), |high| range(0, high)),
        Comparison::Greater => word.checked_add(1).map_or(range(1, 0), |low| range(low, u128::MAX)),
    })
}

/// Tests whether words lie between two others, or `outside` of them.
fn inside(array: &ArrayRef, low: u128, high: u128, outside: bool) -> Result<Box<dyn Leaf + '_>> {
    fn typed<'a, T: Value>(values: &'a [T], low: u128, high: u128, outside: bool) -> Box<dyn Leaf + 'a> {
        let high = high.min(T::Word::MAX.wide());
        match low > high {
            true => Box::new(Never),
            false => {
                let low = T::Word::narrow(low);
                Box::new(Inside { values, low, span: T::Word::narrow(high).minus(low), outside })
            }
        }
    }
    let leaf = fixed!(Values::of(KERNEL, array)?, values => typed(values, low, high, outside), _ => {
        return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() });
    });
    Ok(with_valid(leaf, array))
}

/// Tests whether a column is NULL, or not; `None` where no row fails.
fn valid(array: &ArrayRef, is_null: bool) -> Option<Box<dyn Leaf + '_>> {
    match nulls(array) {
        Some(nulls) => Some(Box::new(Valid { nulls, is_null })),
        None if is_null => Some(Box::new(Never)),
        None => None,
    }
}

/// Tests whether a text is like a pattern.
fn like<'a>(array: &'a ArrayRef, pattern: &Pattern, negated: bool) -> Result<Box<dyn Leaf + 'a>> {
    let is_text = matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match Values::of(KERNEL, array)? {
        Values::Bytes(bytes) if is_text => {
            Ok(with_valid(Box::new(Like { bytes, pattern: pattern.clone(), negated }), array))
        }
        _ => Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }),
    }
}

/// Tests whether a value is among some constants.
fn member<'a>(array: &'a ArrayRef, constants: &ArrayRef, negated: bool) -> Result<Box<dyn Leaf + 'a>> {
    check_comparable(array.data_type(), constants.data_type())?;
    if constants.is_empty() {
        // Nothing is in an empty set, not even a NULL: one conjunction of no leaves, or none at
        // all.
        return Ok(Box::new(Any(if negated { vec![Vec::new()] } else { Vec::new() })));
    }
    if negated && nulls(constants).is_some() {
        return Ok(Box::new(Never));
    }
    let known = |row: &usize| constants.is_valid(*row);
    let rows = (0..constants.len()).filter(known);
    if let (Values::Bytes(bytes), Values::Bytes(constants)) =
        (Values::of(KERNEL, array)?, Values::of(KERNEL, constants)?)
    {
        let mut sorted: Vec<Box<[u8]>> = rows.map(|row| constants.get(row).into()).collect();
        sorted.sort_unstable();
        return Ok(with_valid(Box::new(TextMember { bytes, sorted, negated }), array));
    }
    let Some(words) = wide_words(KERNEL, constants)? else {
        return Err(Error::Inputs { kernel: KERNEL, reason: "constants are a dictionary" });
    };
    let mut sorted: Vec<u128> = rows.map(|row| words[row]).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let leaf: Box<dyn Leaf> = fixed!(Values::of(KERNEL, array)?, values => numbers(values, &sorted, negated), other => {
        match other {
            Values::Boolean(bits) => {
                let passes = [0, 1].map(|word| u8::from(sorted.contains(&word) != negated));
                Box::new(Truth { bits, passes })
            }
            _ => return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }),
        }
    });
    Ok(with_valid(leaf, array))
}

fn numbers<'a, T: Value>(values: &'a [T], sorted: &[u128], negated: bool) -> Box<dyn Leaf + 'a> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return Box::new(Never);
    };
    if last - first >= SPAN_MAX {
        let sorted = sorted.iter().map(|word| T::Word::narrow(*word)).collect();
        return Box::new(Member { values, sorted, negated });
    }
    let mut bits = vec![0_u64; (last - first) as usize / 64 + 1];
    for word in sorted {
        let place = (word - first) as usize;
        bits[place / 64] |= 1 << (place % 64);
    }
    Box::new(NearMember { values, low: T::Word::narrow(*first), bits, negated })
}

/// Tests how the values of two columns are ordered.
fn pair<'a>(left: &'a ArrayRef, comparison: Comparison, right: &'a ArrayRef) -> Result<Box<dyn Leaf + 'a>> {
    fn typed<'a, T: Value>(
        left: &'a [T],
        comparison: Comparison,
        right: &Values<'a>,
    ) -> Option<Box<dyn Leaf + 'a>> {
        Some(Box::new(Pair { left, comparison, right: T::slice(right)? }))
    }
    check_comparable(left.data_type(), right.data_type())?;
    let other = Values::of(KERNEL, right)?;
    let numbers = fixed!(Values::of(KERNEL, left)?, values => typed(values, comparison, &other), _ => None);
    match numbers {
        Some(leaf) => Ok(with_valid(with_valid(leaf, left), right)),
        None => Ok(Box::new(AnyPair {
            order: comparator(KERNEL, left, right)?,
            comparison,
            nulls: NullBuffer::union(left.logical_nulls().as_ref(), right.logical_nulls().as_ref()),
        })),
    }
}
