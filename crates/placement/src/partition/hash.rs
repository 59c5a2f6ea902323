//! The hash of a row's key (docs/cluster.md, "How rows are placed"). It is part of what the disks
//! hold: a changed hash would look for rows on nodes that do not have them.

use super::array::{Visitor, read};
use super::value::{Datum, Kind};
use arrow_array::{Array, ArrayRef};
use hypostyle_types::{Error, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Hashes a value into the hash of the columns before it.
fn hash_value(datum: Datum<'_>, before: u64) -> u64 {
    let hash = |tag: u64, bytes: &[u8]| xxh3_64_with_seed(bytes, before.wrapping_add(tag));
    match datum {
        Datum::Null => hash(0, &[]),
        Datum::Integer(number) => hash(1, &number.to_le_bytes()),
        Datum::Exact(unscaled, scale) => {
            let mut bytes = [0; 33];
            bytes[..32].copy_from_slice(&unscaled.to_le_bytes());
            bytes[32] = scale;
            hash(2, &bytes)
        }
        Datum::Float(number) => hash(3, &number.to_bits().to_le_bytes()),
        Datum::Boolean(truth) => hash(4, &[truth.into()]),
        Datum::Date(days) => hash(5, &days.to_le_bytes()),
        Datum::Time(nanoseconds) => hash(6, &nanoseconds.to_le_bytes()),
        Datum::Timestamp(nanoseconds) => hash(7, &nanoseconds.to_le_bytes()),
        Datum::Instant(nanoseconds) => hash(8, &nanoseconds.to_le_bytes()),
        Datum::Duration(nanoseconds) => hash(9, &nanoseconds.to_le_bytes()),
        Datum::Text(text) => hash(10, text.as_bytes()),
        Datum::Bytes(bytes) => hash(11, bytes),
        Datum::Uuid(number) => hash(12, &number.to_be_bytes()),
    }
}

/// Returns the hash of one row's key.
pub fn hash_row(key: &[Datum<'_>]) -> u64 {
    key.iter().fold(0, |before, &datum| hash_value(datum, before))
}

/// Returns the number of the fragment that rows of a hash belong to: the hashes are cut into as
/// many ranges of the same length. `fragments` is not 0.
#[expect(clippy::cast_possible_truncation, reason = "the product is less than fragments · 2^64")]
pub fn fragment_of_hash(hash: u64, fragments: u32) -> u32 {
    ((u128::from(hash) * u128::from(fragments)) >> 64) as u32
}

struct Hashes<'a>(&'a mut [u64]);

impl Visitor for Hashes<'_> {
    fn visit<'a>(&mut self, _: usize, at: impl Fn(usize) -> Result<Datum<'a>>) -> Result<()> {
        for (row, hash) in self.0.iter_mut().enumerate() {
            *hash = hash_value(at(row)?, *hash);
        }
        Ok(())
    }
}

/// Returns the hash of each row's key.
///
/// # Errors
/// `InvalidInput` if the columns have different lengths or one has a text that is no UUID,
/// `Unsupported` if an array cannot have values of its kind.
pub fn hash_columns(columns: &[(ArrayRef, Kind)], rows: usize) -> Result<Vec<u64>> {
    let mut hashes = vec![0; rows];
    for (column, kind) in columns {
        if column.len() != rows {
            return Err(Error::invalid_input(format!(
                "a key column has {} rows, and the table has {rows}",
                column.len()
            )));
        }
        read(column, *kind, &mut Hashes(&mut hashes))?;
    }
    Ok(hashes)
}
