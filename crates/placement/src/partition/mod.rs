//! Which fragment a row belongs to, and which fragments can have the rows that a query wants.

mod array;
mod hash;
mod prune;
mod range;
mod scheme;
mod value;

pub use array::values_of;
pub use hash::{fragment_of_hash, hash_columns, hash_row};
pub use prune::{CONSTANTS_MAX, Condition, Limit};
pub use scheme::{FRAGMENTS_MAX, KEY_COLUMNS_MAX, KeyColumn, Partitioning};
pub use value::{Datum, Kind, Value};
