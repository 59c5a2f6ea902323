//! UNION, INTERSECT and EXCEPT.

pub(crate) mod key_names;
pub(crate) mod multiset;
pub mod union_structures;
