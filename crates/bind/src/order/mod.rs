//! ORDER BY, LIMIT and OFFSET.

pub(crate) mod hidden_keys;
pub(crate) mod order_by_all;
pub(crate) mod order_keys;
pub(crate) mod percent_limit;
