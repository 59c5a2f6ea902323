//! Integer arrays (protocol.md §11.2): values, codes and lengths.
//!
//! The encoder goes over all elements for the exact size of what is cheap to measure, over some of them for
//! the rest, and takes the smallest.

use crate::blocks::{Blocks, bounds, decode_blocks};
use crate::sink::Sink;
use crate::source::{Mask, Source};
use crate::word::{Word, words};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

pub(crate) const PLAIN: u8 = 0;
pub(crate) const FRAME_OF_REFERENCE: u8 = 2;
pub(crate) const DELTA: u8 = 3;
pub(crate) const CONSTANT: u8 = 4;
pub(crate) const RUNS: u8 = 5;
pub(crate) const DIFFERENCE: u8 = 6;
pub(crate) const DICTIONARY: u8 = 7;

/// Elements of a sample.
const SAMPLE: usize = 256;

/// The step between elements of short arrays that are enough of a sample to compare columns.
const SAMPLE_STEP_MIN: usize = 16;

/// What a sample tells at first is looked for in so many times fewer elements.
const COARSER: usize = 4;

/// Distinct integers that a dictionary may have.
const DICTIONARY_MAX: usize = 4096;

/// Arrays shorter than this are plain, or constant.
const ENCODE_MIN: usize = 16;

/// An earlier column of the chunk, which may be subtracted.
pub(crate) struct Earlier<T: Word> {
    pub column: u32,
    pub values: ScalarBuffer<T>,
}

enum Shape<T: Word> {
    Plain,
    Blocks(Blocks<T>),
    Constant(T),
    Runs { values: Vec<T>, lengths: Vec<u32> },
    Difference { column: u32, left: Vec<T> },
    Dictionary { values: Vec<T>, codes: Vec<u32> },
}

/// Writes an array. `nulls` are neither none nor all; `earlier` gives columns of the same width
/// without NULLs.
pub(crate) fn encode_integers<T: Word>(
    sink: &mut Sink,
    values: &ScalarBuffer<T>,
    signed: bool,
    nulls: Option<&NullBuffer>,
    earlier: impl FnOnce() -> Vec<Earlier<T>>,
) -> Result<u8> {
    match encode_narrower(sink, values, signed, nulls, earlier)? {
        Some(encoding) => Ok(encoding),
        None => {
            sink.array(PLAIN, nulls)?;
            sink.buffer(values.inner().clone())?;
            Ok(PLAIN)
        }
    }
}

/// Writes an array that is part of an encoding: packed, constant or plain, so that encodings end somewhere.
pub(crate) fn encode_inner<T: Word>(sink: &mut Sink, values: Vec<T>, signed: bool) -> Result<()> {
    let shape =
        if sink.settings.light { choose_inner(&values, signed, sink.settings.rounded) } else { Shape::Plain };
    match shape {
        Shape::Blocks(blocks) => write_blocks(sink, &blocks, &values, signed, None).map(drop),
        Shape::Constant(value) => {
            sink.array(CONSTANT, None)?;
            sink.head.i64(value.extended(signed));
            Ok(())
        }
        _ => {
            sink.array(PLAIN, None)?;
            sink.buffer(values.into())
        }
    }
}

fn write_blocks<T: Word>(
    sink: &mut Sink,
    blocks: &Blocks<T>,
    values: &[T],
    signed: bool,
    nulls: Option<&NullBuffer>,
) -> Result<u8> {
    let encoding = if blocks.is_delta() { DELTA } else { FRAME_OF_REFERENCE };
    sink.array(encoding, nulls)?;
    sink.head.i64(blocks.scale());
    sink.packed(blocks.pack(values, signed))?;
    Ok(encoding)
}

/// Writes an array unless it is best plain, and its encoding.
#[expect(clippy::cast_possible_truncation, reason = "chunks have fewer than 2^32 rows")]
pub(crate) fn encode_narrower<T: Word>(
    sink: &mut Sink,
    values: &ScalarBuffer<T>,
    signed: bool,
    nulls: Option<&NullBuffer>,
    earlier: impl FnOnce() -> Vec<Earlier<T>>,
) -> Result<Option<u8>> {
    if !sink.settings.light {
        return Ok(None);
    }
    let encoding = match choose(values, signed, sink.settings.rounded, earlier) {
        Shape::Plain => return Ok(None),
        Shape::Blocks(blocks) => write_blocks(sink, &blocks, values, signed, nulls)?,
        Shape::Constant(value) => {
            sink.array(CONSTANT, nulls)?;
            sink.head.i64(value.extended(signed));
            CONSTANT
        }
        Shape::Runs { values, lengths } => {
            sink.array(RUNS, nulls)?;
            sink.head.u32(lengths.len() as u32);
            encode_inner(sink, values, signed)?;
            encode_inner(sink, lengths, false)?;
            RUNS
        }
        Shape::Difference { column, left } => {
            sink.array(DIFFERENCE, nulls)?;
            sink.head.u32(column);
            encode_inner(sink, left, true)?;
            DIFFERENCE
        }
        Shape::Dictionary { values, codes } => {
            sink.array(DICTIONARY, nulls)?;
            sink.head.u32(values.len() as u32);
            encode_inner(sink, values, signed)?;
            encode_inner(sink, codes, false)?;
            DICTIONARY
        }
    };
    Ok(Some(encoding))
}

/// The first element where nothing follows that differs, or where there is too little to pack.
fn simple<T: Word>(values: &[T]) -> Option<Shape<T>> {
    let Some(first) = values.first() else { return Some(Shape::Plain) };
    if values.iter().all(|value| value == first) {
        return Some(Shape::Constant(*first));
    }
    (values.len() < ENCODE_MIN).then_some(Shape::Plain)
}

fn choose_blocks<T: Word>(values: &[T], signed: bool, rounded: bool) -> Blocks<T> {
    let sign = if signed { T::SIGN } else { T::from_u64(0) };
    let blocks = Blocks::of_values(values, sign, rounded);
    // Differences of what is packed into few bits are hardly narrower, and slower.
    if blocks.width() > 4 {
        let differences = Blocks::of_differences(values, rounded);
        if differences.bytes() + values.len() / 16 < blocks.bytes() {
            return differences;
        }
    }
    blocks
}

fn blocks_or_plain<T: Word>(blocks: Blocks<T>, values: &[T]) -> Shape<T> {
    let plain = size_of_val(values);
    if blocks.bytes() < plain - plain / 16 { Shape::Blocks(blocks) } else { Shape::Plain }
}

fn choose_inner<T: Word>(values: &[T], signed: bool, rounded: bool) -> Shape<T> {
    simple(values).unwrap_or_else(|| blocks_or_plain(choose_blocks(values, signed, rounded), values))
}

fn choose<T: Word>(
    values: &[T],
    signed: bool,
    rounded: bool,
    earlier: impl FnOnce() -> Vec<Earlier<T>>,
) -> Shape<T> {
    if let Some(shape) = simple(values) {
        return shape;
    }
    let blocks = choose_blocks(values, signed, rounded);
    let mut bytes = blocks.bytes().min(size_of_val(values));
    let changes = values.windows(2).map(|pair| usize::from(pair[0] != pair[1])).sum::<usize>();
    let runs = changes + 1;
    if runs * 3 < values.len() {
        // Runs are about as wide as what they repeat; their lengths seldom need more than a byte.
        let runs_bytes = (runs.div_ceil(1024) * 128 * (blocks.width() + 5)).min(runs * (T::BYTES + 4));
        if runs_bytes < bytes {
            return to_runs(values, runs);
        }
    }
    // Differences of narrow columns gain too little, and looking for them costs more than they do.
    let is_narrow = T::BYTES < size_of::<u32>() || bytes < values.len() / 2;
    let earlier = if is_narrow { Vec::new() } else { earlier() };
    if let Some((column, left, left_bytes)) = best_difference(values, &earlier, bytes) {
        bytes = left_bytes;
        if blocks.bytes() > bytes {
            return Shape::Difference { column, left };
        }
    }
    if blocks.width() >= 5
        && let Some((found, codes)) = to_dictionary(values, blocks.width())
    {
        let code_bits = usize::BITS - (found.len() - 1).leading_zeros();
        if found.len() * T::BYTES + values.len().div_ceil(1024) * 128 * code_bits as usize + 32 < bytes {
            return Shape::Dictionary { values: found, codes };
        }
    }
    blocks_or_plain(blocks, values)
}

/// How long runs are is hard to foresee for a branch, so there is none.
#[expect(clippy::cast_possible_truncation, reason = "chunks have fewer than 2^32 rows")]
fn to_runs<T: Word>(values: &[T], runs: usize) -> Shape<T> {
    let (mut found, mut ends) = (vec![values[0]; runs], vec![0u32; runs]);
    let (mut run, mut before) = (0, values[0]);
    for (index, value) in values.iter().enumerate() {
        run += usize::from(*value != before);
        found[run] = *value;
        ends[run] = index as u32 + 1;
        before = *value;
    }
    let mut start = 0;
    for end in &mut ends {
        (start, *end) = (*end, *end - start);
    }
    Shape::Runs { values: found, lengths: ends }
}

/// What is left of the earlier column that leaves least, and its size, where that is clearly below `bytes`.
fn best_difference<T: Word>(
    values: &[T],
    earlier: &[Earlier<T>],
    bytes: usize,
) -> Option<(u32, Vec<T>, usize)> {
    let worth_it = |found: usize| found + found / 16 < bytes;
    // A sample is never wider than a larger one.
    let best_of = |step: usize| {
        let width_of = |earlier: &Earlier<T>| {
            let pairs = values.iter().zip(earlier.values.iter()).step_by(step);
            let (low, high) = bounds(pairs.map(|(value, earlier)| value.minus(*earlier)), T::SIGN);
            high.minus(low).width()
        };
        let widths = earlier.iter().map(|earlier| (width_of(earlier), earlier));
        let best = widths.min_by_key(|(width, _)| *width);
        best.filter(|(width, _)| worth_it(values.len().div_ceil(1024) * 128 * width))
    };
    let step = (values.len() / SAMPLE).max(SAMPLE_STEP_MIN);
    best_of(step * COARSER)?;
    let (_, best) = best_of(step)?;
    let left: Vec<T> =
        values.iter().zip(best.values.iter()).map(|(value, earlier)| value.minus(*earlier)).collect();
    let found = Blocks::of_values(&left, T::SIGN, false).bytes();
    worth_it(found).then_some((best.column, left, found))
}

/// The distinct values and their codes, unless there are too many to make codes of less than `width` bits.
fn to_dictionary<T: Word>(values: &[T], width: usize) -> Option<(Vec<T>, Vec<u32>)> {
    let most = (values.len() / 8).min(DICTIONARY_MAX).min(1 << (width - 1).min(16));
    let step = (values.len() / SAMPLE).max(1);
    let mut sample = Table::new(most.min(SAMPLE / 2));
    if values.iter().step_by(step).any(|value| sample.code(*value).is_none()) {
        return None;
    }
    let mut table = Table::new(most);
    let codes = values.iter().map(|value| table.code(*value)).collect::<Option<Vec<u32>>>()?;
    Some((table.values, codes))
}

/// Gives codes to integers, in the order in which they come.
struct Table<T> {
    /// Codes, 0 where there is none, else one more.
    slots: Vec<u32>,
    values: Vec<T>,
    most: usize,
}

impl<T: Word> Table<T> {
    fn new(most: usize) -> Self {
        Self { slots: vec![0; (most * 2).next_power_of_two().max(2)], values: Vec::new(), most }
    }

    #[expect(clippy::cast_possible_truncation, reason = "chunks have fewer than 2^32 rows")]
    fn code(&mut self, value: T) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = (value.pattern().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            match self.slots[slot] {
                0 if self.values.len() == self.most => return None,
                0 => {
                    self.values.push(value);
                    self.slots[slot] = self.values.len() as u32;
                    return Some(self.slots[slot] - 1);
                }
                code if self.values[code as usize - 1] == value => return Some(code - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

/// The earlier columns of a chunk that is being decoded.
pub(crate) trait EarlierColumns {
    /// Adds the last `out.len()` elements of a column.
    ///
    /// # Errors
    /// When it is no earlier column of integers that are as wide.
    fn add<T: Word>(&self, column: u32, out: &mut [T]) -> Result<()>;
}

/// There are none.
pub(crate) struct NoColumns;

impl EarlierColumns for NoColumns {
    fn add<T: Word>(&self, column: u32, _out: &mut [T]) -> Result<()> {
        Err(no_earlier_column(column))
    }
}

pub(crate) fn no_earlier_column(column: u32) -> Error {
    Error::protocol(format!("column {column} is none that something can differ from"))
}

/// Appends the elements of an array whose encoding and mask have been read, and whose bytes were claimed.
pub(crate) fn decode_integers<T: Word>(
    source: &mut Source<'_>,
    encoding: u8,
    count: usize,
    earlier: &impl EarlierColumns,
    out: &mut Vec<T>,
) -> Result<()> {
    match encoding {
        PLAIN => {
            let buffer = source.buffer(count * T::BYTES)?;
            out.extend_from_slice(&words::<T>(buffer));
        }
        FRAME_OF_REFERENCE | DELTA => decode_blocks(source, encoding == DELTA, count, out)?,
        CONSTANT => {
            let value = T::from_u64(source.head().i64()? as u64);
            out.resize(out.len() + count, value);
        }
        RUNS => decode_runs(source, count, out)?,
        DIFFERENCE => {
            let column = source.head().u32()?;
            let start = out.len();
            decode_inner(source, count, out)?;
            earlier.add(column, &mut out[start..])?;
        }
        DICTIONARY => {
            let values: Vec<T> = decode_counted(source, "distinct values", count)?;
            let codes: Vec<u32> = decode_nested(source, count)?;
            check_codes(&codes, values.len())?;
            out.extend(codes.iter().map(|code| values[*code as usize]));
        }
        other => return Err(Error::protocol(format!("there is no encoding {other} of integers"))),
    }
    Ok(())
}

fn decode_runs<T: Word>(source: &mut Source<'_>, count: usize, out: &mut Vec<T>) -> Result<()> {
    let values: Vec<T> = decode_counted(source, "runs", count)?;
    let lengths: Vec<u32> = decode_nested(source, values.len())?;
    if lengths.iter().map(|length| u64::from(*length)).sum::<u64>() != count as u64 {
        return Err(Error::protocol(format!("the runs of {count} elements have another number")));
    }
    out.reserve(count);
    for (value, length) in values.into_iter().zip(lengths) {
        out.resize(out.len() + length as usize, value);
    }
    Ok(())
}

pub(crate) fn check_codes(codes: &[u32], values: usize) -> Result<()> {
    match codes.iter().max() {
        Some(code) if *code as usize >= values => {
            Err(Error::protocol(format!("code {code} is not of a dictionary of {values} values")))
        }
        _ => Ok(()),
    }
}

/// A `u32` and an array of so many elements, which cannot be more than `most`.
fn decode_counted<T: Word>(source: &mut Source<'_>, what: &str, most: usize) -> Result<Vec<T>> {
    let count = source.head().u32()? as usize;
    if count > most {
        return Err(Error::protocol(format!("{count} {what} cannot be in {most} elements")));
    }
    decode_nested(source, count)
}

/// An array that belongs to another.
pub(crate) fn decode_nested<T: Word>(source: &mut Source<'_>, count: usize) -> Result<Vec<T>> {
    source.claim(count, T::BYTES)?;
    let mut out = Vec::new();
    decode_inner(source, count, &mut out)?;
    Ok(out)
}

fn decode_inner<T: Word>(source: &mut Source<'_>, count: usize, out: &mut Vec<T>) -> Result<()> {
    source.within(|source| {
        let (encoding, mask) = source.array(count)?;
        if !matches!(mask, Mask::None) {
            return Err(Error::protocol("an array that belongs to another has NULLs"));
        }
        decode_integers(source, encoding, count, &NoColumns, out)
    })
}

/// An array's words, in place where that is possible.
pub(crate) fn decode_array<T: Word>(
    source: &mut Source<'_>,
    encoding: u8,
    count: usize,
    earlier: &impl EarlierColumns,
) -> Result<Buffer> {
    if encoding == PLAIN {
        return Ok(words::<T>(source.buffer(count * T::BYTES)?).into_inner());
    }
    source.claim(count, T::BYTES)?;
    let mut out: Vec<T> = Vec::with_capacity(count);
    decode_integers(source, encoding, count, earlier, &mut out)?;
    Ok(out.into())
}
