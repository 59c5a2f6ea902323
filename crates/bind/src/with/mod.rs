//! WITH: which of its queries are computed once, and how large a plan may become of them.

pub(crate) mod common_table;
pub(crate) mod expansion;
pub(crate) mod repeated_tables;
