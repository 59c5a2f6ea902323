//! Keys of rows as words that are ordered as the rows are.

use super::{KERNEL, SortKey};
use crate::gather::gather_or_null;
use crate::key::table::Key;
use crate::rows::for_each;
use crate::share::{filled, share};
use crate::value::{Bytes, Value, Values, Word, codes, comparator, fixed};
use crate::{Error, Result, Rows, Work};
use arrow_array::{AnyDictionaryArray, Array, ArrayRef};
use arrow_buffer::NullBuffer;
use std::cmp::Ordering;

/// The most bits of a field; one more is left for NULL.
const FIELD_BITS: u32 = 63;

/// The words of one key, a word for each row, without gaps at either end. They are made where they are
/// wanted.
pub(super) struct Field<'a> {
    make: Box<Make<'a>>,
    bits: u32,
    /// Whether equal words mean equal values.
    exact: bool,
}

/// Makes the words of the rows at some places.
type Make<'a> = dyn Fn(Rows<'_>, &mut [u64]) + Sync + 'a;

/// Fewer rows are not shared out to threads.
const SHARED_MIN: usize = 1 << 16;

/// Cuts rows into as many parts as there are threads for.
fn parts(rows: Rows<'_>, threads: usize) -> Vec<Rows<'_>> {
    let count = if rows.len() < SHARED_MIN { 1 } else { threads.max(1) };
    let size = rows.len().div_ceil(count).max(1);
    let starts = (0..rows.len().max(1)).step_by(size);
    starts.map(|start| rows.part(start..rows.len().min(start + size))).collect()
}

impl<'a> Field<'a> {
    /// Makes the field of a key on several threads.
    pub fn new(key: &'a SortKey, rows: Rows<'a>, work: &Work<'_>) -> Result<Self> {
        (work.go_on)()?;
        let (array, threads) = (&key.array, work.threads);
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        fixed!(Values::of(KERNEL, array)?, values => Self::of(values, rows, nulls, key, threads), other => match other {
            Values::Boolean(bits) => {
                let bytes: Vec<u8> = rows.iter().map(|row| bits.value(row as usize).into()).collect();
                Self::of_dense(bytes, rows, nulls.as_ref(), key, threads)
            }
            Values::Bytes(bytes) => Self::of_bytes(bytes, rows, nulls.as_ref(), key, work),
            Values::Dictionary(dictionary) => Self::of_codes(dictionary, rows, nulls.as_ref(), key, work),
            _ => Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }),
        })
    }

    /// Makes a field of values that lie in the order of the rows.
    fn of_dense<T: Value>(
        values: Vec<T>,
        rows: Rows<'_>,
        nulls: Option<&NullBuffer>,
        key: &SortKey,
        threads: usize,
    ) -> Result<Self> {
        let nulls = nulls
            .map(|nulls| rows.iter().map(|row| nulls.is_valid(row as usize)).collect::<Vec<_>>())
            .map(NullBuffer::from);
        let all = Rows::Range(0, values.len() as u32);
        Self::of(values, all, nulls, key, threads)
    }

    fn of<T: Value>(
        values: impl AsRef<[T]> + Sync + 'a,
        rows: Rows<'a>,
        nulls: Option<NullBuffer>,
        key: &SortKey,
        threads: usize,
    ) -> Result<Self> {
        let none = (T::Word::MAX, T::Word::narrow(0));
        let bounds =
            share(parts(rows, threads), threads, |rows| Ok(bounds(values.as_ref(), rows, nulls.as_ref())))?;
        let (low, high) =
            bounds.into_iter().fold(none, |one, other| (one.0.min(other.0), one.1.max(other.1)));
        if low > high {
            // There are only NULLs.
            return Ok(Self { make: Box::new(|_, words| words.fill(0)), bits: 0, exact: true });
        }
        let span = high.minus(low);
        let cut = (u128::BITS - span.wide().leading_zeros()).saturating_sub(FIELD_BITS);
        let first = u64::from(nulls.is_some() && key.nulls_first);
        let base = if key.descending { high } else { low };
        let mut last = (span.wide() >> cut) as u64 + first;
        let null = if key.nulls_first { 0 } else { last + 1 };
        if nulls.is_some() {
            last = last.max(null);
        }
        let descending = key.descending;
        let of_rows = move |rows: Rows<'_>, words: &mut [u64]| {
            for_each(values.as_ref(), rows, |place, value| {
                let word = value.word();
                let distance = if descending { base.minus(word) } else { word.minus(base) };
                // Under a NULL there may be anything, which is replaced below.
                words[place] = ((distance.wide() >> cut) as u64).wrapping_add(first);
            });
            if let Some(nulls) = &nulls {
                for (word, row) in words.iter_mut().zip(rows.iter()) {
                    if nulls.is_null(row as usize) {
                        *word = null;
                    }
                }
            }
        };
        let make = move |places: Rows<'_>, words: &mut [u64]| match places {
            Rows::Range(start, end) => of_rows(rows.part(start as usize..end as usize), words),
            Rows::List(places) => of_rows(Rows::List(&rows.pick(places)), words),
        };
        Ok(Self { make: Box::new(make), bits: u64::BITS - last.leading_zeros(), exact: cut == 0 })
    }

    /// Makes a field of the first eight bytes of strings after those that all have in common.
    fn of_bytes(
        bytes: Bytes<'_>,
        rows: Rows<'a>,
        nulls: Option<&NullBuffer>,
        key: &SortKey,
        work: &Work<'_>,
    ) -> Result<Self> {
        let threads = work.threads;
        let is_valid = |row: &u32| nulls.is_none_or(|nulls| nulls.is_valid(*row as usize));
        let common = share(parts(rows, threads), threads, |rows| {
            Ok(beginning(rows.iter().filter(is_valid).map(|row| bytes.get(row as usize))))
        })?;
        let common = beginning(common.into_iter().flatten()).unwrap_or_default();
        let word = |row: u32| {
            let rest = if is_valid(&row) { &bytes.get(row as usize)[common.len()..] } else { &[] };
            match rest.first_chunk() {
                Some(bytes) => u64::from_be_bytes(*bytes),
                None => {
                    let mut bytes = [0; 8];
                    bytes[..rest.len()].copy_from_slice(rest);
                    u64::from_be_bytes(bytes)
                }
            }
        };
        let words = filled(rows.len(), work, |places, words: &mut [u64]| {
            words.iter_mut().zip(rows.part(places).iter()).for_each(|(place, row)| *place = word(row));
            Ok(())
        })?;
        Ok(Self { exact: false, ..Self::of_dense(words, rows, nulls, key, threads)? })
    }

    /// Makes a field of the ranks of a dictionary's values; if it has more of these than there are
    /// rows, of the rows' own values.
    fn of_codes(
        dictionary: &dyn AnyDictionaryArray,
        rows: Rows<'a>,
        nulls: Option<&NullBuffer>,
        key: &SortKey,
        work: &Work<'_>,
    ) -> Result<Self> {
        let codes = codes(KERNEL, dictionary, rows)?;
        let values = dictionary.values();
        if values.len() > rows.len() {
            let array = gather_or_null(values, &codes)?;
            let (all, own) = (Rows::all(&array)?, SortKey { array, ..key.clone() });
            let Field { make, bits, exact } = Field::new(&own, all, work)?;
            let mut words = vec![0; codes.len()];
            make(all, &mut words);
            let make = move |places: Rows<'_>, to: &mut [u64]| {
                for_each(&words, places, |place, word| to[place] = word);
            };
            return Ok(Self { make: Box::new(make), bits, exact });
        }
        let ranks = ranks(values)?;
        let ranks: Vec<u32> =
            codes.iter().map(|code| ranks.get(*code as usize).copied().unwrap_or(0)).collect();
        Self::of_dense(ranks, rows, nulls, key, work.threads)
    }
}

/// Returns the least and the greatest word of values that are not NULL; the least is greater if there
/// are none.
fn bounds<T: Value>(values: &[T], rows: Rows<'_>, nulls: Option<&NullBuffer>) -> (T::Word, T::Word) {
    let (mut low, mut high) = (T::Word::MAX, T::Word::narrow(0));
    match nulls {
        None => for_each(values, rows, |_, value| {
            let word = value.word();
            (low, high) = (low.min(word), high.max(word));
        }),
        Some(nulls) => {
            for row in rows.iter().filter(|row| nulls.is_valid(*row as usize)) {
                let word = values[row as usize].word();
                (low, high) = (low.min(word), high.max(word));
            }
        }
    }
    (low, high)
}

/// Returns the bytes with which all strings begin; `None` if there are no strings.
fn beginning<'a>(mut strings: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let mut common = strings.next()?;
    for string in strings {
        if !string.starts_with(common) {
            let equal = common.iter().zip(string).take_while(|(one, other)| one == other).count();
            common = &common[..equal];
        }
    }
    Some(common)
}

/// Returns the rank of each value among the values of a dictionary; equal ones have one rank.
fn ranks(values: &ArrayRef) -> Result<Vec<u32>> {
    let compare = comparator(KERNEL, values, values)?;
    let mut order: Vec<u32> = (0..values.len() as u32).filter(|row| values.is_valid(*row as usize)).collect();
    order.sort_unstable_by(|one, other| compare(*one as usize, *other as usize));
    let mut ranks = vec![0; values.len()];
    let mut rank = 0;
    for (place, row) in order.iter().enumerate() {
        if place > 0 && compare(order[place - 1] as usize, *row as usize) == Ordering::Less {
            rank += 1;
        }
        ranks[*row as usize] = rank;
    }
    Ok(ranks)
}

/// The keys of rows, above the rows' places.
pub(super) struct Packed {
    pub words: Words,
    /// The bits of places, and those of places and keys together.
    pub bits: (u32, u32),
    /// Whether equal keys mean equal values.
    pub exact: bool,
}

pub(super) enum Words {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
}

/// How many rows tell how often keys are equal that are cut.
const SAMPLE_ROWS: usize = 1 << 14;

/// Fewer rows are sorted in no time, whatever their words; tests have few.
const CUT_ROWS_MIN: usize = if cfg!(test) { 32 } else { 1 << 17 };

impl Packed {
    pub fn new(fields: &[Field<'_>], rows: usize, work: &Work<'_>) -> Result<Self> {
        let of_places = usize::BITS - rows.saturating_sub(1).leading_zeros();
        let narrow = Layout::new(fields, of_places, u64::BITS);
        if narrow.is_whole || rows >= CUT_ROWS_MIN && narrow.tells_rows_apart(rows) {
            let words = Words::Narrow(narrow.words(rows, work)?);
            return Ok(Self { words, bits: (of_places, narrow.bits), exact: narrow.exact });
        }
        let wide = Layout::new(fields, of_places, u128::BITS);
        let words = Words::Wide(wide.words(rows, work)?);
        Ok(Self { words, bits: (of_places, wide.bits), exact: wide.exact })
    }
}

/// What of each field goes into a word of some width: as much as there is room for.
struct Layout<'a> {
    /// The fields, how many of their bits, and how many bits are cut off.
    parts: Vec<(&'a Field<'a>, u32, u32)>,
    of_places: u32,
    /// The bits of all.
    bits: u32,
    exact: bool,
    /// Nothing is left out of what fields have.
    is_whole: bool,
}

impl<'a> Layout<'a> {
    fn new(fields: &'a [Field<'a>], of_places: u32, width: u32) -> Self {
        let mut layout = Self { parts: Vec::new(), of_places, bits: of_places, exact: true, is_whole: true };
        for field in fields {
            // What comes behind a field decides nothing where its equal words may be different values.
            if !layout.exact {
                break;
            }
            let cut = (layout.bits + field.bits).saturating_sub(width);
            layout.is_whole &= cut == 0;
            if cut > 0 && cut == field.bits {
                layout.exact = false;
                break;
            }
            layout.exact = field.exact && cut == 0;
            layout.bits += field.bits - cut;
            layout.parts.push((field, field.bits - cut, cut));
        }
        layout
    }

    /// Tells whether it is seldom that keys are equal which are not whole, so that these rows may be
    /// compared. Pairs of rows are counted among some that are picked at random.
    fn tells_rows_apart(&self, rows: usize) -> bool {
        let mut random = 1_u64;
        let mut places: Vec<u32> = Vec::with_capacity(SAMPLE_ROWS);
        for _ in 0..SAMPLE_ROWS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            places.push(((u128::from(random) * rows as u128) >> u64::BITS) as u32);
        }
        places.sort_unstable();
        places.dedup();
        let mut keys = vec![0_u64; places.len()];
        self.pack(Rows::List(&places), &mut keys);
        keys.sort_unstable();
        let pairs: usize =
            keys.chunk_by(|one, other| one == other).map(|equal| equal.len() * (equal.len() - 1) / 2).sum();
        // With one other row for every fourth row there are so many pairs.
        pairs * 8 * rows <= places.len() * places.len()
    }

    /// Makes the keys of the rows at some places, without these.
    fn pack<K: Key>(&self, places: Rows<'_>, keys: &mut [K]) {
        let mut words = vec![0; keys.len()];
        for (field, bits, cut) in &self.parts {
            (field.make)(places, &mut words);
            for (key, word) in keys.iter_mut().zip(&words) {
                *key = key.left(*bits).or(K::narrow((word >> cut).into()));
            }
        }
    }

    fn words<K: Key + Send>(&self, rows: usize, work: &Work<'_>) -> Result<Vec<K>> {
        filled(rows, work, |places, words: &mut [K]| {
            self.pack(Rows::Range(places.start as u32, places.end as u32), words);
            for (word, place) in words.iter_mut().zip(places) {
                *word = word.left(self.of_places).or(K::narrow(place as u128));
            }
            Ok(())
        })
    }
}
