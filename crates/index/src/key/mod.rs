//! Finding the position of a key's row.
//!
//! | kind | for keys that | bytes |
//! |---|---|---|
//! | affine | are their position plus a number | 0 |
//! | rank | ascend strictly, over a domain of at most 32 × rows | 16 for 64 of the domain |
//! | dense | are in a domain of at most 8 × rows | 4 for each of the domain |
//! | hash | are strings, decimals of 128 bits, several columns, or all else | about 9 a row |
//!
//! A key whose row was updated has several positions, of which a snapshot sees at most one. The
//! index has the newest, and a chain of those before it. Rows with a NULL in their key are not in
//! it.

mod dense;
mod extension;
mod hash;
mod lookup;
mod previous;
mod rank;

use crate::NO_ROW;
use crate::column::{BATCH_ROWS, Column, KeyType, Word, Words, types_of, with_words};
use arrow_array::ArrayRef;
use arrow_buffer::{Buffer, NullBuffer};
use hypostyle_types::{Error, Result};

pub use extension::KeyExtension;
pub use lookup::KeyLookup;

use dense::Dense;
use hash::Hashed;
use previous::Previous;
use rank::Rank;

/// The longest domain of a dense index, as a multiple of its rows.
const DENSE_DOMAIN: u64 = 8;

/// The longest domain of a rank index, as a multiple of its rows.
const RANK_DOMAIN: u64 = 32;

/// The numbers of kinds in a file.
pub(crate) const AFFINE: u32 = 1;
pub(crate) const RANK: u32 = 2;
pub(crate) const DENSE: u32 = 3;
pub(crate) const HASH: u32 = 4;

/// An index from the keys of a table's first rows to their positions.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyIndex {
    types: Vec<KeyType>,
    rows: u32,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// The key of the first row; each other is one more than the one before.
    Affine(i64),
    Rank(Rank),
    Dense(Dense),
    Hash(Hashed),
}

/// What one pass over a column of words shows.
struct Shape {
    /// None is NULL, and each is greater than the one before.
    ascends: bool,
    least: i64,
    greatest: i64,
}

impl KeyIndex {
    /// Builds the index of the key that the columns make, choosing its kind by their values. The
    /// seed makes the hashes of a hash index ones that nobody who chooses keys can know.
    ///
    /// `None` when no index can have such keys: a column's type has none, the columns are not of
    /// one length, or the rows are more than 32 bits can count.
    pub fn build(columns: &[ArrayRef], seed: u64) -> Option<Self> {
        Self::build_unless(columns, seed, &mut || Ok(())).ok().flatten()
    }

    /// [`Self::build`], which asks now and then whether to go on.
    ///
    /// # Errors
    /// Those of `proceed`.
    pub fn build_unless(
        columns: &[ArrayRef],
        seed: u64,
        proceed: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Self>> {
        let Some((columns, rows)) = key_columns(columns) else { return Ok(None) };
        let of_column = match columns.as_slice() {
            [column] => Kind::of_column(column),
            _ => None,
        };
        let kind = match of_column {
            Some(kind) => kind,
            None => Kind::Hash(Hashed::build(&columns, seed, proceed)?),
        };
        Ok(Some(Self { types: types_of(&columns), rows, kind }))
    }

    /// Builds a hash index whatever the values.
    #[doc(hidden)]
    pub fn build_hash(columns: &[ArrayRef], seed: u64) -> Option<Self> {
        let (columns, rows) = key_columns(columns)?;
        let hashed = Hashed::build(&columns, seed, &mut || Ok(())).ok()?;
        Some(Self { types: types_of(&columns), rows, kind: Kind::Hash(hashed) })
    }

    /// Returns the types of the key's columns.
    pub fn types(&self) -> &[KeyType] {
        &self.types
    }

    /// Returns how many rows the index covers.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the name of its kind.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Affine(_) => "affine",
            Kind::Rank(_) => "rank",
            Kind::Dense(_) => "dense",
            Kind::Hash(_) => "hash",
        }
    }

    /// Returns the bytes of its arrays.
    pub fn bytes(&self) -> u64 {
        self.arrays().iter().map(|array| array.len() as u64).sum()
    }

    /// Returns the seed of its hashes; `None` where it has none.
    pub fn seed(&self) -> Option<u64> {
        match &self.kind {
            Kind::Hash(hashed) => Some(hashed.seed()),
            Kind::Affine(_) | Kind::Rank(_) | Kind::Dense(_) => None,
        }
    }

    /// Tells whether no two rows, deleted ones included, have the same key.
    pub fn is_unique(&self) -> bool {
        self.previous().is_none_or(Previous::is_empty)
    }

    /// Writes the newest position of each key from row `first` on; [`NO_ROW`] for one that the index
    /// has not. What is written where a key is NULL has no meaning. The columns `indexed` are those
    /// that the index was built over.
    fn find(&self, indexed: &[Column], keys: &[Column], first: usize, found: &mut [u32]) {
        let word_keys = || keys.first().and_then(Column::words);
        match &self.kind {
            Kind::Hash(hashed) => hashed.find(indexed, keys, first, found),
            // All other kinds are of one column of words, and keys have the types of the index.
            Kind::Affine(start) => with_keys(word_keys(), first, found, |key| {
                let position = key.wrapping_sub(*start) as u64;
                if position < u64::from(self.rows) { position as u32 } else { NO_ROW }
            }),
            Kind::Rank(rank) => with_keys(word_keys(), first, found, |key| rank.find(key)),
            Kind::Dense(dense) => with_keys(word_keys(), first, found, |key| dense.find(key)),
        }
    }

    fn previous(&self) -> Option<&Previous> {
        match &self.kind {
            Kind::Affine(_) | Kind::Rank(_) => None,
            Kind::Dense(dense) => Some(&dense.previous),
            Kind::Hash(hashed) => Some(&hashed.previous),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        match self.kind {
            Kind::Affine(_) => AFFINE,
            Kind::Rank(_) => RANK,
            Kind::Dense(_) => DENSE,
            Kind::Hash(_) => HASH,
        }
    }

    pub(crate) fn parameter(&self) -> u64 {
        match &self.kind {
            Kind::Affine(first) => *first as u64,
            Kind::Rank(rank) => rank.least() as u64,
            Kind::Dense(dense) => dense.least() as u64,
            Kind::Hash(hashed) => hashed.seed(),
        }
    }

    pub(crate) fn arrays(&self) -> Vec<Buffer> {
        match &self.kind {
            Kind::Affine(_) => Vec::new(),
            Kind::Rank(rank) => vec![rank.array()],
            Kind::Dense(dense) => dense.arrays(),
            Kind::Hash(hashed) => hashed.arrays(),
        }
    }

    /// # Errors
    /// `Corrupt` when the arrays cannot be those of an index of this kind.
    pub(crate) fn decode(
        number: u32,
        types: Vec<KeyType>,
        rows: u32,
        parameter: u64,
        arrays: &[Buffer],
    ) -> Result<Self> {
        let is_word = |key_type: &KeyType| {
            !matches!(key_type, KeyType::WideDecimal(_) | KeyType::Text | KeyType::Bytes)
        };
        let fits = types.iter().all(|key_type| key_type.is_key())
            && (number == HASH || (types.len() == 1 && types.iter().all(is_word)));
        if !fits {
            return Err(Error::corrupt("a key index of types that it cannot have"));
        }
        let least = parameter as i64;
        let kind = match number {
            AFFINE if arrays.is_empty() => Kind::Affine(least),
            RANK => Kind::Rank(Rank::decode(least, rows, arrays)?),
            DENSE => Kind::Dense(Dense::decode(least, rows, arrays)?),
            HASH => Kind::Hash(Hashed::decode(parameter, rows, arrays)?),
            _ => return Err(Error::corrupt("a key index with other arrays than its kind has")),
        };
        Ok(Self { types, rows, kind })
    }
}

/// Takes the columns of a key, and counts their rows; `None` when no index can have such keys.
fn key_columns(columns: &[ArrayRef]) -> Option<(Vec<Column>, u32)> {
    let columns = Column::all(columns)?;
    let rows = u32::try_from(columns.first()?.rows()).ok().filter(|rows| *rows < NO_ROW)?;
    columns.iter().all(|column| column.key_type().is_key()).then_some((columns, rows))
}

impl Kind {
    /// Builds one of the kinds for a column of words; `None` when a hash index is smaller.
    fn of_column(column: &Column) -> Option<Self> {
        let words = column.words()?;
        let (rows, nulls) = (column.rows(), column.nulls());
        let shape = with_words!(words, values => Shape::of(values, nulls))?;
        let domain = shape.domain();
        if shape.is_affine(rows) {
            return Some(Self::Affine(shape.least));
        }
        if shape.ascends && domain.is_some_and(|domain| domain / RANK_DOMAIN <= rows as u64) {
            return Some(Self::Rank(with_words!(words, values => Rank::build(values, domain? as usize))));
        }
        let domain = domain.filter(|domain| domain / DENSE_DOMAIN <= rows as u64)? as usize;
        Some(Self::Dense(with_words!(words, values => Dense::build(values, nulls, shape.least, domain))))
    }
}

impl Shape {
    /// Looks at the keys that are not NULL; `None` when all are.
    fn of<T: Word>(values: &[T], nulls: Option<&NullBuffer>) -> Option<Self> {
        let (first, last) = (values.first()?.word(), values.last()?.word());
        if nulls.is_none() && ascends(values) {
            return Some(Self { ascends: true, least: first, greatest: last });
        }
        let is_valid = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
        let mut keys = (0..values.len()).filter(is_valid).map(|row| values[row].word());
        let first = keys.next()?;
        let (least, greatest) =
            keys.fold((first, first), |(least, greatest), key| (key.min(least), key.max(greatest)));
        Some(Self { ascends: false, least, greatest })
    }

    /// Tells whether each of so many keys is one more than the one before.
    fn is_affine(&self, rows: usize) -> bool {
        self.ascends && self.domain() == Some(rows as u64)
    }

    /// Returns the count of values from the least to the greatest; `None` when an array cannot have
    /// as many.
    fn domain(&self) -> Option<u64> {
        let last = (self.greatest as u64).wrapping_sub(self.least as u64);
        last.checked_add(1).filter(|domain| usize::try_from(*domain).is_ok())
    }
}

/// Tells whether each value is greater than the one before.
fn ascends<T: Word>(values: &[T]) -> bool {
    (0..values.len()).step_by(BATCH_ROWS).all(|first| {
        let batch = &values[first..values.len().min(first + BATCH_ROWS + 1)];
        // No way out within a batch, so that many are compared at once.
        batch.iter().zip(&batch[1..]).fold(true, |so_far, (one, next)| so_far & (one.word() < next.word()))
    })
}

/// Writes what a function finds for each key from row `first` on.
fn with_keys(keys: Option<&Words>, first: usize, found: &mut [u32], find: impl Fn(i64) -> u32) {
    let Some(keys) = keys else { return found.fill(NO_ROW) };
    with_words!(keys, values => {
        for (slot, key) in found.iter_mut().zip(&values[first..]) {
            *slot = find(key.word());
        }
    });
}
