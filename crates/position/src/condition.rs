//! Conditions on the columns of one table.
//!
//! A [`Condition`] is what SQL says; a [`Filter`] is the condition made ready for the columns of one
//! fragment of a table. Conditions are three-valued. NOT is pushed to the leaves when a condition is
//! made ([`Condition::not`]), and there it has a counterpart that is true exactly where the leaf is
//! false. So each leaf needs to say only where it is true, and a byte is enough for a row.

use crate::value::{Bytes, Value, Values, Word, fixed};
use crate::value::{Comparator, check_comparable, comparator, nulls, wide_words};
use crate::{Error, Result, Rows, Selection, selection};
use arrow_array::cast::AsArray;
use arrow_array::{AnyDictionaryArray, Array, ArrayRef, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use std::cmp::Ordering;

const KERNEL: &str = "condition";

/// Sets of numbers that span no more than this have a bit for each of the numbers between.
const SPAN_MAX: u128 = 1 << 20;

/// How two values are compared; the order is PostgreSQL's, that of strings is that of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the comparison that holds where this one does not.
    pub fn not(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// Returns whether values that are so ordered fulfil the comparison.
    #[inline]
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A condition. Columns are named by their place among those that the filter is made for.
#[derive(Clone, Debug)]
pub enum Condition {
    /// A column is compared with the first row of an array of its type; NULL is true for no row.
    Compare {
        /// The place of the column.
        column: usize,
        /// How it is compared.
        comparison: Comparison,
        /// An array of one row.
        constant: ArrayRef,
    },
    /// Two columns are compared.
    CompareColumns {
        /// The place of the first column.
        left: usize,
        /// How they are compared.
        comparison: Comparison,
        /// The place of the second column.
        right: usize,
    },
    /// A column equals one of some constants, or with `negated` none. A NULL among them is as in SQL.
    In {
        /// The place of the column.
        column: usize,
        /// An array of the column's type.
        constants: ArrayRef,
        /// Whether the constants are those that the column must not equal.
        negated: bool,
    },
    /// A column is NULL, or with `negated` not NULL.
    Null {
        /// The place of the column, which may be of any type.
        column: usize,
        /// Whether NULL is what the column must not be.
        negated: bool,
    },
    /// All of the conditions are true; without any this is true.
    All(Vec<Condition>),
    /// One of the conditions is true; without any this is false.
    Any(Vec<Condition>),
}

impl Condition {
    /// Returns the condition that is true where this one is false, and NULL where it is NULL.
    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Self {
        let each = |conditions: Vec<Self>| conditions.into_iter().map(Self::not).collect();
        match self {
            Self::Compare { column, comparison, constant } => {
                Self::Compare { column, comparison: comparison.not(), constant }
            }
            Self::CompareColumns { left, comparison, right } => {
                Self::CompareColumns { left, comparison: comparison.not(), right }
            }
            Self::In { column, constants, negated } => Self::In { column, constants, negated: !negated },
            Self::Null { column, negated } => Self::Null { column, negated: !negated },
            Self::All(conditions) => Self::Any(each(conditions)),
            Self::Any(conditions) => Self::All(each(conditions)),
        }
    }

    fn columns(&self, found: &mut Vec<usize>) {
        match self {
            Self::Compare { column, .. } | Self::In { column, .. } | Self::Null { column, .. } => {
                found.push(*column);
            }
            Self::CompareColumns { left, right, .. } => found.extend([*left, *right]),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.columns(found));
            }
        }
    }

    /// Returns the only column that the condition is about.
    fn only_column(&self) -> Option<usize> {
        let mut found = Vec::new();
        self.columns(&mut found);
        found.dedup();
        match found[..] {
            [column] => Some(column),
            _ => None,
        }
    }
}

/// A condition over the columns of one fragment, which many threads may ask at once.
pub struct Filter<'a> {
    /// All of them must be true; those that are costly for each row come last.
    tests: Vec<Box<dyn Test + 'a>>,
    rows: usize,
}

impl<'a> Filter<'a> {
    /// Makes a condition ready: decides it for each value of dictionaries, and unites ranges of a column.
    /// Columns that the condition names must have one number of rows.
    pub fn new(condition: &Condition, columns: &'a [ArrayRef]) -> Result<Self> {
        let mut named = Vec::new();
        condition.columns(&mut named);
        let mut rows = None;
        for column in named {
            let array =
                columns.get(column).ok_or(Error::Inputs { kernel: KERNEL, reason: "a column is missing" })?;
            if rows.is_some_and(|rows| rows != array.len()) {
                return Err(Error::Inputs {
                    kernel: KERNEL,
                    reason: "the columns have different numbers of rows",
                });
            }
            rows = Some(array.len());
        }
        let rows = rows.unwrap_or(usize::MAX);
        let mut tests = Vec::new();
        compile_all(&[condition], columns, &mut tests)?;
        tests.sort_by_key(|test| test.is_costly());
        Ok(Self { tests, rows })
    }

    /// Returns the rows for which the condition is true, in their order.
    pub fn select(&self, rows: Rows<'_>) -> Result<Selection> {
        rows.check(self.rows)?;
        let (cheap, costly) = self.tests.split_at(self.tests.partition_point(|test| !test.is_costly()));
        let selection = select(cheap, rows);
        Ok(match costly {
            [] => selection,
            _ => select(costly, selection.rows()),
        })
    }

    /// Unsets the bytes of a mask at rows for which the condition is not true. A mask has a byte, 0 or 1,
    /// for each row.
    pub fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) -> Result<()> {
        rows.check(self.rows)?;
        if mask.len() != rows.len() {
            return Err(Error::Inputs { kernel: KERNEL, reason: "the mask has not one byte for each row" });
        }
        self.tests.iter().for_each(|test| test.mask(rows, mask));
        Ok(())
    }
}

fn select(tests: &[Box<dyn Test + '_>], rows: Rows<'_>) -> Selection {
    if tests.is_empty() {
        return rows.into();
    }
    let mut mask = vec![1; rows.len()];
    tests.iter().for_each(|test| test.mask(rows, &mut mask));
    selection::select(&mask, rows)
}

/// A leaf that is ready for one column, or a disjunction.
trait Test: Send + Sync {
    /// Unsets the bytes of rows for which the test is not true.
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]);

    /// Returns whether to ask only about rows that have passed all else.
    fn is_costly(&self) -> bool {
        false
    }
}

type Tests<'a> = Vec<Box<dyn Test + 'a>>;

/// The words between two others; of several ranges of one column their intersection.
#[derive(Clone, Copy)]
struct Bounds {
    column: usize,
    low: u128,
    high: u128,
}

fn compile_all<'a>(conditions: &[&Condition], columns: &'a [ArrayRef], tests: &mut Tests<'a>) -> Result<()> {
    let mut ranges: Vec<Bounds> = Vec::new();
    let mut rest: Vec<&Condition> = conditions.to_vec();
    rest.reverse();
    while let Some(condition) = rest.pop() {
        if let Some(dictionary) =
            condition.only_column().and_then(|column| columns[column].as_any_dictionary_opt())
        {
            tests.push(Box::new(ByCode::new(condition, columns.len(), dictionary)?));
            continue;
        }
        match condition {
            Condition::All(conditions) => rest.extend(conditions.iter().rev()),
            Condition::Any(conditions) => tests.push(disjunction(conditions, columns)?),
            Condition::Compare { column, comparison, constant } => {
                match compare(*column, *comparison, constant, columns)? {
                    Compared::Test(test) => tests.push(test),
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
                tests.push(pair(&columns[*left], *comparison, &columns[*right])?);
            }
            Condition::In { column, constants, negated } => {
                tests.push(member(&columns[*column], constants, *negated)?);
            }
            Condition::Null { column, negated } => {
                if let Some(test) = valid(&columns[*column], !negated) {
                    tests.push(test);
                }
            }
        }
    }
    for range in ranges {
        tests.push(inside(&columns[range.column], range.low, range.high, false)?);
    }
    Ok(())
}

fn disjunction<'a>(conditions: &[Condition], columns: &'a [ArrayRef]) -> Result<Box<dyn Test + 'a>> {
    let branches = conditions.iter().map(|condition| {
        let mut tests = Vec::new();
        compile_all(&[condition], columns, &mut tests)?;
        Ok(tests)
    });
    Ok(Box::new(Any(branches.collect::<Result<_>>()?)))
}

/// One of the conjunctions is true.
struct Any<'a>(Vec<Tests<'a>>);

impl Test for Any<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let mut any = vec![0; mask.len()];
        let mut branch = vec![0; mask.len()];
        for tests in &self.0 {
            branch.fill(1);
            tests.iter().for_each(|test| test.mask(rows, &mut branch));
            any.iter_mut().zip(&branch).for_each(|(any, branch)| *any |= branch);
        }
        mask.iter_mut().zip(&any).for_each(|(byte, any)| *byte &= any);
    }

    fn is_costly(&self) -> bool {
        self.0.iter().flatten().any(|test| test.is_costly())
    }
}

/// No row passes.
struct Never;

impl Test for Never {
    fn mask(&self, _: Rows<'_>, mask: &mut [u8]) {
        mask.fill(0);
    }
}

/// The conjunction of tests that always go together, as that of a value with the one for NULL.
struct Both<'a>(Box<dyn Test + 'a>, Box<dyn Test + 'a>);

impl Test for Both<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        self.0.mask(rows, mask);
        self.1.mask(rows, mask);
    }

    fn is_costly(&self) -> bool {
        self.0.is_costly() || self.1.is_costly()
    }
}

fn with_valid<'a>(test: Box<dyn Test + 'a>, array: &'a ArrayRef) -> Box<dyn Test + 'a> {
    match valid(array, false) {
        Some(valid) => Box::new(Both(test, valid)),
        None => test,
    }
}

enum Compared<'a> {
    Test(Box<dyn Test + 'a>),
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
        return Ok(Compared::Test(Box::new(Never)));
    }
    match Values::of(KERNEL, array)? {
        Values::Boolean(bits) => {
            let constant = wide_words(KERNEL, constant)?.is_some_and(|words| words[0] != 0);
            let passes = [false, true].map(|value| u8::from(comparison.holds(value.cmp(&constant))));
            return Ok(Compared::Test(with_valid(Box::new(Truth { bits, passes }), array)));
        }
        Values::Bytes(bytes) => {
            let Values::Bytes(constant) = Values::of(KERNEL, constant)? else {
                return Err(Error::Inputs { kernel: KERNEL, reason: "a constant is a dictionary" });
            };
            let test = Text { bytes, comparison, constant: constant.get(0).into() };
            return Ok(Compared::Test(with_valid(Box::new(test), array)));
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
        Comparison::NotEqual => Compared::Test(inside(array, word, word, true)?),
        Comparison::LessOrEqual => range(0, word),
        Comparison::GreaterOrEqual => range(word, u128::MAX),
        // Nothing is less than the least word, or greater than the greatest.
        Comparison::Less => word.checked_sub(1).map_or(range(1, 0), |high| range(0, high)),
        Comparison::Greater => word.checked_add(1).map_or(range(1, 0), |low| range(low, u128::MAX)),
    })
}

/// Tests whether words lie between two others, or `outside` of them.
fn inside(array: &ArrayRef, low: u128, high: u128, outside: bool) -> Result<Box<dyn Test + '_>> {
    fn typed<'a, T: Value>(values: &'a [T], low: u128, high: u128, outside: bool) -> Box<dyn Test + 'a> {
        let high = high.min(T::Word::MAX.wide());
        match low > high {
            true => Box::new(Never),
            false => {
                let low = T::Word::narrow(low);
                Box::new(Inside { values, low, span: T::Word::narrow(high).minus(low), outside })
            }
        }
    }
    let test = fixed!(Values::of(KERNEL, array)?, values => typed(values, low, high, outside), _ => {
        return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() });
    });
    Ok(with_valid(test, array))
}

/// Combines the bytes of a mask with a test of each row's value.
#[inline(always)]
fn apply<T: Copy>(values: &[T], rows: Rows<'_>, mask: &mut [u8], test: impl Fn(T) -> bool) {
    match rows {
        Rows::Range(start, end) => {
            for (byte, value) in mask.iter_mut().zip(&values[start as usize..end as usize]) {
                *byte &= u8::from(test(*value));
            }
        }
        Rows::List(positions) => {
            for (byte, position) in mask.iter_mut().zip(positions) {
                *byte &= u8::from(test(values[*position as usize]));
            }
        }
    }
}

/// Combines the bytes of a mask with a test of each position.
#[inline(always)]
fn apply_position(rows: Rows<'_>, mask: &mut [u8], test: impl Fn(usize) -> bool) {
    for (byte, position) in mask.iter_mut().zip(rows.iter()) {
        *byte &= u8::from(*byte != 0 && test(position as usize));
    }
}

/// The word lies within a span from a low one, or outside of it.
struct Inside<'a, T: Value> {
    values: &'a [T],
    low: T::Word,
    span: T::Word,
    outside: bool,
}

impl<T: Value> Test for Inside<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let (low, span) = (self.low, self.span);
        match self.outside {
            false => apply(self.values, rows, mask, |value| value.word().minus(low) <= span),
            true => apply(self.values, rows, mask, |value| value.word().minus(low) > span),
        }
    }
}

/// A boolean passes, by its value.
struct Truth<'a> {
    bits: &'a BooleanBuffer,
    passes: [u8; 2],
}

impl Test for Truth<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        for (byte, position) in mask.iter_mut().zip(rows.iter()) {
            *byte &= self.passes[usize::from(self.bits.value(position as usize))];
        }
    }
}

/// A string is ordered before, after or as a constant.
struct Text<'a> {
    bytes: Bytes<'a>,
    comparison: Comparison,
    constant: Box<[u8]>,
}

impl Test for Text<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let order = |position| self.bytes.get(position).cmp(&self.constant);
        let equal = |position| *self.bytes.get(position) == *self.constant;
        match self.comparison {
            Comparison::Equal => apply_position(rows, mask, equal),
            Comparison::NotEqual => apply_position(rows, mask, |position| !equal(position)),
            comparison => apply_position(rows, mask, |position| comparison.holds(order(position))),
        }
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// Tests whether a column is NULL, or not; `None` where no row fails.
fn valid(array: &ArrayRef, is_null: bool) -> Option<Box<dyn Test + '_>> {
    match nulls(array) {
        Some(nulls) => Some(Box::new(Valid { nulls, is_null })),
        None if is_null => Some(Box::new(Never)),
        None => None,
    }
}

/// A row is NULL, or not.
struct Valid<'a> {
    nulls: &'a NullBuffer,
    is_null: bool,
}

impl Test for Valid<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        match rows {
            Rows::Range(start, end) => {
                let bits = self.nulls.inner().slice(start as usize, (end - start) as usize);
                let flip = if self.is_null { u64::MAX } else { 0 };
                for (bytes, word) in mask.chunks_mut(64).zip(bits.bit_chunks().iter_padded()) {
                    let word = word ^ flip;
                    bytes.iter_mut().enumerate().for_each(|(bit, byte)| *byte &= (word >> bit & 1) as u8);
                }
            }
            Rows::List(_) => {
                apply_position(rows, mask, |position| self.nulls.is_null(position) == self.is_null)
            }
        }
    }
}

/// Tests whether a value is among some constants.
fn member<'a>(array: &'a ArrayRef, constants: &ArrayRef, negated: bool) -> Result<Box<dyn Test + 'a>> {
    check_comparable(array.data_type(), constants.data_type())?;
    if constants.is_empty() {
        // Nothing is in an empty set, not even a NULL: one conjunction of no tests, or none at all.
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
    let test: Box<dyn Test> = fixed!(Values::of(KERNEL, array)?, values => numbers(values, &sorted, negated), other => {
        match other {
            Values::Boolean(bits) => {
                let passes = [0, 1].map(|word| u8::from(sorted.contains(&word) != negated));
                Box::new(Truth { bits, passes })
            }
            _ => return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }),
        }
    });
    Ok(with_valid(test, array))
}

fn numbers<'a, T: Value>(values: &'a [T], sorted: &[u128], negated: bool) -> Box<dyn Test + 'a> {
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

/// A number is one of some that are far apart.
struct Member<'a, T: Value> {
    values: &'a [T],
    sorted: Vec<T::Word>,
    negated: bool,
}

impl<T: Value> Test for Member<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        apply(self.values, rows, mask, |value| {
            self.sorted.binary_search(&value.word()).is_ok() != self.negated
        });
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A number is one of some that have a bitmap.
struct NearMember<'a, T: Value> {
    values: &'a [T],
    low: T::Word,
    bits: Vec<u64>,
    negated: bool,
}

impl<T: Value> Test for NearMember<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let span = self.bits.len() as u128 * 64;
        apply(self.values, rows, mask, |value| {
            let place = value.word().minus(self.low).wide();
            let set = place < span && self.bits[place as usize / 64] >> (place % 64) & 1 != 0;
            set != self.negated
        });
    }
}

/// A string is one of some.
struct TextMember<'a> {
    bytes: Bytes<'a>,
    sorted: Vec<Box<[u8]>>,
    negated: bool,
}

impl Test for TextMember<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        apply_position(rows, mask, |position| {
            let bytes = self.bytes.get(position);
            self.sorted.binary_search_by(|one| one.as_ref().cmp(bytes)).is_ok() != self.negated
        });
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// Tests how the values of two columns are ordered.
fn pair<'a>(left: &'a ArrayRef, comparison: Comparison, right: &'a ArrayRef) -> Result<Box<dyn Test + 'a>> {
    fn typed<'a, T: Value>(
        left: &'a [T],
        comparison: Comparison,
        right: &Values<'a>,
    ) -> Option<Box<dyn Test + 'a>> {
        Some(Box::new(Pair { left, comparison, right: T::slice(right)? }))
    }
    check_comparable(left.data_type(), right.data_type())?;
    let other = Values::of(KERNEL, right)?;
    let numbers = fixed!(Values::of(KERNEL, left)?, values => typed(values, comparison, &other), _ => None);
    match numbers {
        Some(test) => Ok(with_valid(with_valid(test, left), right)),
        None => Ok(Box::new(AnyPair {
            order: comparator(KERNEL, left, right)?,
            comparison,
            nulls: NullBuffer::union(left.logical_nulls().as_ref(), right.logical_nulls().as_ref()),
        })),
    }
}

/// The numbers of two columns are ordered so.
struct Pair<'a, T: Value> {
    left: &'a [T],
    comparison: Comparison,
    right: &'a [T],
}

impl<T: Value> Pair<'_, T> {
    #[inline(always)]
    fn apply(&self, rows: Rows<'_>, mask: &mut [u8], test: impl Fn(T::Word, T::Word) -> bool) {
        match rows {
            Rows::Range(start, end) => {
                let range = start as usize..end as usize;
                let pairs = self.left[range.clone()].iter().zip(&self.right[range]);
                for (byte, (left, right)) in mask.iter_mut().zip(pairs) {
                    *byte &= u8::from(test(left.word(), right.word()));
                }
            }
            Rows::List(positions) => {
                for (byte, position) in mask.iter_mut().zip(positions) {
                    let position = *position as usize;
                    *byte &= u8::from(test(self.left[position].word(), self.right[position].word()));
                }
            }
        }
    }
}

impl<T: Value> Test for Pair<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        match self.comparison {
            Comparison::Equal => self.apply(rows, mask, |left, right| left == right),
            Comparison::NotEqual => self.apply(rows, mask, |left, right| left != right),
            Comparison::Less => self.apply(rows, mask, |left, right| left < right),
            Comparison::LessOrEqual => self.apply(rows, mask, |left, right| left <= right),
            Comparison::Greater => self.apply(rows, mask, |left, right| left > right),
            Comparison::GreaterOrEqual => self.apply(rows, mask, |left, right| left >= right),
        }
    }
}

/// The strings, booleans or dictionary values of two columns are ordered so.
struct AnyPair<'a> {
    order: Comparator<'a>,
    comparison: Comparison,
    nulls: Option<NullBuffer>,
}

impl Test for AnyPair<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        apply_position(rows, mask, |row| {
            self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && self.comparison.holds((self.order)(row, row))
        });
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A condition that is about one dictionary column, decided once for each of its values.
struct ByCode<'a> {
    keys: Values<'a>,
    nulls: Option<&'a NullBuffer>,
    /// A byte for each code.
    passes: Vec<u8>,
    null_passes: bool,
}

impl<'a> ByCode<'a> {
    fn new(condition: &Condition, columns: usize, dictionary: &'a dyn AnyDictionaryArray) -> Result<Self> {
        let decide = |values: ArrayRef| -> Result<Vec<u8>> {
            let mut mask = vec![1; values.len()];
            let rows = Rows::all(&values)?;
            // All columns, because the only one that the condition is about may be any of them.
            Filter::new(condition, &vec![values.clone(); columns])?.mask(rows, &mut mask)?;
            Ok(mask)
        };
        let values = dictionary.values();
        let null = decide(new_null_array(values.data_type(), 1))?;
        let mut passes = decide(values.clone())?;
        // For codes of eight bits, whose every value has a byte then.
        passes.resize(passes.len().max(256), 0);
        let keys = Values::of(KERNEL, dictionary.keys())?;
        Ok(Self { keys, nulls: nulls(dictionary.keys()), passes, null_passes: null == [1] })
    }

    fn look_up(&self, rows: Rows<'_>, mask: &mut [u8]) {
        macro_rules! by_place {
            ($keys:expr) => {
                apply($keys, rows, mask, |code| self.passes.get(code as usize).is_some_and(|byte| *byte != 0))
            };
        }
        match (&self.keys, self.passes.first_chunk::<256>()) {
            (Values::I8(keys), Some(passes)) => {
                apply(keys, rows, mask, |code| passes[usize::from(code as u8)] != 0);
            }
            (Values::U8(keys), Some(passes)) => {
                apply(keys, rows, mask, |code| passes[usize::from(code)] != 0);
            }
            (Values::I16(keys), _) => by_place!(keys),
            (Values::I32(keys), _) => by_place!(keys),
            (Values::I64(keys), _) => by_place!(keys),
            (Values::U16(keys), _) => by_place!(keys),
            (Values::U32(keys), _) => by_place!(keys),
            (Values::U64(keys), _) => by_place!(keys),
            // Arrow's dictionaries have no other codes.
            _ => mask.fill(0),
        }
    }
}

impl Test for ByCode<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let Some(nulls) = self.nulls else {
            return self.look_up(rows, mask);
        };
        let valid = Valid { nulls, is_null: false };
        if self.null_passes {
            let mut known = mask.to_vec();
            self.look_up(rows, &mut known);
            valid.mask(rows, &mut known);
            Valid { nulls, is_null: true }.mask(rows, mask);
            mask.iter_mut().zip(&known).for_each(|(byte, known)| *byte |= known);
        } else {
            self.look_up(rows, mask);
            valid.mask(rows, mask);
        }
    }
}

#[cfg(test)]
mod tests;
