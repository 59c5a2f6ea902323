//! Identifiers, logical types, limits and errors, which the other crates share.
//!
//! This crate does no I/O and knows neither files nor SQL.

#![forbid(unsafe_code)]

pub mod calendar;

mod error;
mod excerpt;
mod id;
mod identity;
mod interval;
mod logical_type;
mod recurring_year;
mod suggest;
mod time_text;
mod value;

pub use error::{Error, ErrorKind, Mark, Result};
pub use excerpt::excerpt;
pub use id::{ColumnId, Generation, NodeIndex, TableId, Version};
pub use identity::{Identity, Privileges};
pub use interval::IntervalText;
pub use logical_type::{DECIMAL_PRECISION_MAX, LogicalType, StructField, TimeUnit};
pub use recurring_year::recurring;
pub use suggest::{did_you_mean, nearest};
pub use time_text::{ClockText, DateText, MomentText};
pub use value::{DAY_MICROSECONDS, check_json_text, parse_uuid};

/// The rows in one sealed block, the unit of checksums and synopses (format.md §4).
pub const BLOCK_ROWS: u64 = 65_536;

/// The largest number of columns of a table.
pub const TABLE_COLUMNS_MAX: usize = 16_384;

/// The bytes of the longest table, column, schema or view name.
pub const NAME_BYTES_MAX: usize = 255;

// Column files are mapped whole.
const _: () = assert!(usize::BITS == 64, "Hypostyle needs addresses of 64 bits");

/// Returns a number of a file or message as one that can be a length in memory.
#[expect(clippy::cast_possible_truncation, reason = "the assertion above: both have 64 bits")]
pub const fn to_usize(number: u64) -> usize {
    number as usize
}
