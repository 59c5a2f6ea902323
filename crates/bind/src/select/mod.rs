//! The items of SELECT: which columns they stand for, and how many there may be.

pub mod declared;
pub(crate) mod named_columns;
pub(crate) mod wide_select;
