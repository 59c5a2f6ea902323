//! Arithmetic of integers and decimals in 64 bits.
//!
//! The greatest magnitude of each operand is known from the rows of the chunk, so that what might
//! overflow is found out before it is computed, and is left to the expression itself: the result
//! is the same, or its error.

use super::flow::{Expression, Universe};
use super::table::TableColumn;
use arrow::array::{Array, ArrayRef, AsArray, Decimal64Array, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema,
    TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use hypostyle_expr::arithmetic::operator_of;
use hypostyle_position::{Bits, NO_POSITION, Rows, Selection, selection};
use std::sync::Arc;

/// The digits of a decimal of 64 bits.
const DIGITS_MAX: i8 = 18;

/// A step of an expression, whose operands are other steps.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Column(usize),
    Constant(i64),
    Combine(Combination, usize, usize),
    /// A number times a power of ten.
    Scale(usize, i64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Combination {
    Add,
    Subtract,
    Multiply,
}

/// What a step gives: an integer, or a decimal with a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind {
    is_decimal: bool,
    scale: i8,
    /// The greatest magnitude of the type.
    limit: u64,
}

/// The steps of many expressions, each of which is computed once for a chunk.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    nodes: Vec<(Node, Kind)>,
}

/// The values of a step for the rows of a chunk; zeros lie under NULLs.
#[derive(Clone, Debug)]
pub(super) struct Register {
    values: Values,
    magnitude: u64,
    nulls: Option<NullBuffer>,
}

#[derive(Clone, Debug)]
enum Values {
    One(i64),
    Each(Arc<Vec<i64>>),
}

/// Returns what a type's numbers are; `None` for others.
fn kind_of(data_type: &DataType) -> Option<Kind> {
    let integer = |limit: u64| Some(Kind { is_decimal: false, scale: 0, limit });
    match data_type {
        DataType::Int8 => integer(i8::MAX as u64),
        DataType::Int16 => integer(i16::MAX as u64),
        DataType::Int32 => integer(i32::MAX as u64),
        DataType::Int64 => integer(i64::MAX as u64),
        DataType::Decimal128(_, scale) if (0..=DIGITS_MAX).contains(scale) => {
            Some(Kind { is_decimal: true, scale: *scale, limit: i64::MAX as u64 })
        }
        _ => None,
    }
}

/// Returns the greatest number of so many digits that 64 bits hold.
fn digits_limit(digits: u8) -> u64 {
    10_i64.checked_pow(digits.into()).map_or(i64::MAX as u64, |power| power as u64 - 1)
}

impl Numbers {
    /// Adds an expression, and returns its last step; `None` where it has other steps than these.
    pub fn compile(&mut self, expression: &Expression, universe: &Universe) -> Option<usize> {
        let schema = universe.schema();
        // A column or a constant alone is not worth it.
        if expression.is::<Column>() || expression.is::<Literal>() {
            return None;
        }
        let before = self.nodes.len();
        let root = self.node(expression, &schema);
        if root.is_none() {
            self.nodes.truncate(before);
        }
        root.filter(|_| {
            let data_type = expression.data_type(&schema);
            matches!(data_type, Ok(DataType::Int64 | DataType::Decimal128(..)))
        })
    }

    fn add(&mut self, node: Node, kind: Kind) -> usize {
        match self.nodes.iter().position(|known| *known == (node.clone(), kind)) {
            Some(place) => place,
            None => {
                self.nodes.push((node, kind));
                self.nodes.len() - 1
            }
        }
    }

    fn node(&mut self, expression: &Expression, schema: &Schema) -> Option<usize> {
        let kind = kind_of(&expression.data_type(schema).ok()?)?;
        if let Some(column) = expression.downcast_ref::<Column>() {
            return Some(self.add(Node::Column(column.index()), kind));
        }
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            let value = match literal.value() {
                ScalarValue::Int8(value) => value.map(i64::from)?,
                ScalarValue::Int16(value) => value.map(i64::from)?,
                ScalarValue::Int32(value) => value.map(i64::from)?,
                ScalarValue::Int64(value) => (*value)?,
                ScalarValue::Decimal128(value, ..) => i64::try_from((*value)?).ok()?,
                _ => return None,
            };
            return Some(self.add(Node::Constant(value), kind));
        }
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            let of = self.node(cast.expr(), schema)?;
            // A cast refuses numbers with more digits than its type has; arithmetic does not.
            let limit = match cast.cast_type() {
                DataType::Decimal128(precision, _) => digits_limit(*precision),
                _ => kind.limit,
            };
            return self.scaled(of, Kind { limit, ..kind });
        }
        let (operator, left, right) = match expression.downcast_ref::<BinaryExpr>() {
            Some(binary) => (*binary.op(), binary.left(), binary.right()),
            None => {
                let call = expression.downcast_ref::<ScalarFunctionExpr>()?;
                let [left, right] = call.args() else { return None };
                (operator_of(call.fun())?, left, right)
            }
        };
        let (mut left, mut right) = (self.node(left, schema)?, self.node(right, schema)?);
        let scale_of = |numbers: &Self, node: usize| numbers.nodes[node].1.scale;
        let combination = match operator {
            Operator::Plus => Combination::Add,
            Operator::Minus => Combination::Subtract,
            Operator::Multiply => Combination::Multiply,
            _ => return None,
        };
        if combination == Combination::Multiply {
            if scale_of(self, left) + scale_of(self, right) != kind.scale {
                return None;
            }
        } else {
            left = self.scaled(left, kind)?;
            right = self.scaled(right, kind)?;
        }
        Some(self.add(Node::Combine(combination, left, right), kind))
    }

    /// Returns a step that gives another one's number with as many or more digits behind the point.
    fn scaled(&mut self, of: usize, kind: Kind) -> Option<usize> {
        let from = self.nodes[of].1.scale;
        let digits = u32::try_from(kind.scale - from).ok()?;
        Some(self.add(Node::Scale(of, 10_i64.checked_pow(digits)?), kind))
    }

    /// Returns registers for one chunk.
    pub fn registers(&self) -> Vec<Option<Register>> {
        vec![None; self.nodes.len()]
    }

    /// Returns the result of a step as an array; `None` where it may overflow.
    pub fn evaluate<'a>(
        &self,
        root: usize,
        registers: &mut [Option<Register>],
        column: &impl Fn(usize) -> Option<(&'a TableColumn, Rows<'a>)>,
        rows: usize,
    ) -> Option<ArrayRef> {
        let register = self.register(root, registers, column)?;
        let values = match register.values {
            Values::One(value) => vec![value; rows].into(),
            Values::Each(values) => arrow::buffer::ScalarBuffer::from(values.to_vec()),
        };
        let kind = self.nodes[root].1;
        match kind.is_decimal {
            false => Some(Arc::new(Int64Array::new(values, register.nulls))),
            true => {
                let decimals = Decimal64Array::new(values, register.nulls);
                Some(Arc::new(decimals.with_precision_and_scale(DIGITS_MAX as u8, kind.scale).ok()?))
            }
        }
    }

    fn register<'a>(
        &self,
        place: usize,
        registers: &mut [Option<Register>],
        column: &impl Fn(usize) -> Option<(&'a TableColumn, Rows<'a>)>,
    ) -> Option<Register> {
        if let Some(register) = registers.get(place)? {
            return Some(register.clone());
        }
        let (node, kind) = self.nodes.get(place)?;
        let register = match node {
            Node::Column(number) => {
                let (array, rows) = column(*number)?;
                read(&array.stored, rows)?
            }
            Node::Constant(value) => {
                Register { values: Values::One(*value), magnitude: value.unsigned_abs(), nulls: None }
            }
            Node::Scale(of, factor) => {
                let of = self.register(*of, registers, column)?;
                let factor =
                    Register { values: Values::One(*factor), magnitude: factor.unsigned_abs(), nulls: None };
                if factor.magnitude == 1 { of } else { combine(Combination::Multiply, &of, &factor)? }
            }
            Node::Combine(combination, left, right) => {
                let left = self.register(*left, registers, column)?;
                let right = self.register(*right, registers, column)?;
                combine(*combination, &left, &right)?
            }
        };
        if register.magnitude > kind.limit {
            return None;
        }
        registers[place] = Some(register.clone());
        Some(register)
    }
}

/// Combines two registers; `None` where a result may not fit.
fn combine(combination: Combination, left: &Register, right: &Register) -> Option<Register> {
    let magnitude = match combination {
        Combination::Multiply => left.magnitude.checked_mul(right.magnitude)?,
        _ => left.magnitude.checked_add(right.magnitude)?,
    };
    i64::try_from(magnitude).ok()?;
    // Nothing wraps: no magnitude is greater than that of the result.
    let values = match combination {
        Combination::Add => apply(&left.values, &right.values, i64::wrapping_add),
        Combination::Subtract => apply(&left.values, &right.values, i64::wrapping_sub),
        Combination::Multiply => apply(&left.values, &right.values, i64::wrapping_mul),
    };
    Some(Register { values, magnitude, nulls: NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref()) })
}

fn apply(left: &Values, right: &Values, function: impl Fn(i64, i64) -> i64) -> Values {
    let each = |values: Vec<i64>| Values::Each(Arc::new(values));
    match (left, right) {
        (Values::One(left), Values::One(right)) => Values::One(function(*left, *right)),
        (Values::One(left), Values::Each(right)) => {
            each(right.iter().map(|right| function(*left, *right)).collect())
        }
        (Values::Each(left), Values::One(right)) => {
            each(left.iter().map(|left| function(*left, *right)).collect())
        }
        (Values::Each(left), Values::Each(right)) => {
            each(left.iter().zip(right.iter()).map(|(left, right)| function(*left, *right)).collect())
        }
    }
}

/// Reads rows of a column of integers or decimals; `None` for other types.
fn read(array: &ArrayRef, rows: Rows<'_>) -> Option<Register> {
    let mut values = integers(array, rows)?;
    let mut nulls = None;
    if let Some(of_array) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        let valid = |row: u32| row != NO_POSITION && of_array.is_valid(row as usize);
        let own = NullBuffer::from_iter(rows.iter().map(valid));
        if own.null_count() > 0 {
            for (place, value) in values.iter_mut().enumerate() {
                if own.is_null(place) {
                    *value = 0;
                }
            }
            nulls = Some(own);
        }
    }
    let magnitude = values.iter().fold(0, |most: u64, value| most.max(value.unsigned_abs()));
    Some(Register { values: Values::Each(Arc::new(values)), magnitude, nulls })
}

/// Runs the body for the values of a column of integers of at most 64 bits.
macro_rules! of_integers {
    ($array:expr, $values:ident => $body:expr, else $other:expr) => {{
        macro_rules! slice {
            ($type:ty) => {{
                let $values = $array.as_primitive::<$type>().values();
                $body
            }};
        }
        match $array.data_type() {
            DataType::Int8 => slice!(Int8Type),
            DataType::Int16 => slice!(Int16Type),
            DataType::Int32 => slice!(Int32Type),
            DataType::Int64 => slice!(Int64Type),
            DataType::UInt8 => slice!(UInt8Type),
            DataType::UInt16 => slice!(UInt16Type),
            DataType::UInt32 => slice!(UInt32Type),
            DataType::Date32 => slice!(Date32Type),
            DataType::Decimal32(..) => slice!(Decimal32Type),
            DataType::Decimal64(..) => slice!(Decimal64Type),
            DataType::Timestamp(TimeUnit::Microsecond, _) => slice!(TimestampMicrosecondType),
            _ => $other,
        }
    }};
}

/// Returns the numbers of some rows; `None` for types that are no integers of 64 bits. Under NULLs
/// lies anything.
pub(super) fn integers(array: &ArrayRef, rows: Rows<'_>) -> Option<Vec<i64>> {
    fn picked<T: Copy + Into<i64>>(values: &[T], rows: Rows<'_>) -> Option<Vec<i64>> {
        rows.check(values.len()).ok()?;
        Some(match rows {
            Rows::Range(start, end) => {
                values[start as usize..end as usize].iter().map(|value| (*value).into()).collect()
            }
            Rows::List(list) => list.iter().map(|row| values[*row as usize].into()).collect(),
        })
    }
    of_integers!(array, values => picked(values, rows), else None)
}

/// Returns the places of rows whose number, less the lowest one, has a bit that is set, and that
/// difference for each of them; `None` for types that are no integers of 64 bits.
pub(super) fn known_places(
    array: &ArrayRef,
    rows: Rows<'_>,
    low: i64,
    known: &Bits,
) -> Option<(Vec<u32>, Vec<u32>)> {
    fn find<T: Copy + Into<i64>>(
        values: &[T],
        rows: Rows<'_>,
        low: i64,
        known: &Bits,
    ) -> Option<(Vec<u32>, Vec<u32>)> {
        rows.check(values.len()).ok()?;
        let entry = |value: &T| (*value).into().wrapping_sub(low) as u64;
        let is_known = |value: &T| {
            let entry = entry(value);
            u8::from(entry < known.rows() as u64 && known.test(entry as u32))
        };
        let mask: Vec<u8> = match rows {
            Rows::Range(start, end) => values[start as usize..end as usize].iter().map(is_known).collect(),
            Rows::List(list) => list.iter().map(|row| is_known(&values[*row as usize])).collect(),
        };
        let places = match selection::select(&mask, Rows::Range(0, rows.len() as u32)) {
            Selection::List(places) => places,
            Selection::Range(start, end) => (start..end).collect(),
        };
        let entries = places.iter().map(|place| entry(&values[rows.at(*place) as usize]) as u32).collect();
        Some((places, entries))
    }
    let (mut places, mut entries) = of_integers!(array, values => find(values, rows, low, known), else None)?;
    if let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        let valid: Vec<bool> = places.iter().map(|place| nulls.is_valid(rows.at(*place) as usize)).collect();
        let keep = |values: &mut Vec<u32>| {
            let mut valid = valid.iter();
            values.retain(|_| valid.next().copied().unwrap_or(false));
        };
        keep(&mut places);
        keep(&mut entries);
    }
    Some((places, entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;

    fn one(value: i64) -> Register {
        Register { values: Values::One(value), magnitude: value.unsigned_abs(), nulls: None }
    }

    #[test]
    fn what_may_overflow_is_not_computed() {
        let most = one(i64::MAX);
        assert!(combine(Combination::Add, &most, &one(1)).is_none());
        assert!(combine(Combination::Subtract, &one(-2), &most).is_none());
        assert!(combine(Combination::Multiply, &one(i64::MAX / 2), &one(3)).is_none());
        let product = combine(Combination::Multiply, &one(-4), &one(5)).unwrap();
        assert!(matches!(product.values, Values::One(-20)));
        assert_eq!(product.magnitude, 20);
        let least = one(i64::MIN);
        assert!(combine(Combination::Add, &least, &one(0)).is_none(), "its magnitude is no i64");
    }

    #[test]
    fn casts_have_their_types_digits() {
        assert_eq!(
            (digits_limit(1), digits_limit(5), digits_limit(18)),
            (9, 99_999, 999_999_999_999_999_999)
        );
        assert_eq!(digits_limit(38), i64::MAX as u64);
    }

    #[test]
    fn zeros_lie_under_nulls() {
        let array: ArrayRef = Arc::new(Int32Array::new(
            vec![7, i32::MIN, -9].into(),
            Some(NullBuffer::from(vec![true, false, true])),
        ));
        let register = read(&array, Rows::List(&[2, 1, 0])).unwrap();
        let Values::Each(values) = &register.values else { panic!("rows have values each") };
        assert_eq!((values.as_slice(), register.magnitude), ([-9, 0, 7].as_slice(), 9));
        assert!(register.nulls.unwrap().is_null(1));
        let whole = read(&array, Rows::Range(0, 1)).unwrap();
        assert!(whole.nulls.is_none());
    }

    #[test]
    fn places_of_known_numbers_are_found() {
        let array: ArrayRef = Arc::new(Int32Array::new(
            vec![3, 4, 5, -2_000_000_000, 5].into(),
            Some(NullBuffer::from(vec![true, true, true, true, false])),
        ));
        let mut known = Bits::new(3);
        known.set(Rows::List(&[0, 2])).unwrap();
        let (places, entries) = known_places(&array, Rows::Range(0, 5), 3, &known).unwrap();
        assert_eq!((places, entries), (vec![0, 2], vec![0, 2]));
        let (places, entries) = known_places(&array, Rows::List(&[4, 2, 0]), 3, &known).unwrap();
        assert_eq!((places, entries), (vec![1, 2], vec![2, 0]));
    }
}
