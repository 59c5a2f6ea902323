//! UNION, INTERSECT and EXCEPT.

pub(crate) mod multiset;
pub mod union_structures;
