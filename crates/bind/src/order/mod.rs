//! LIMIT and OFFSET.

pub(crate) mod percent_limit;
