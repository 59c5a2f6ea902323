//! GROUP BY and aggregates: what may stand beside them, and of which query they are.

pub mod group_keys;
pub(crate) mod outer_aggregates;
