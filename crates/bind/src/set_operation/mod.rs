//! UNION, INTERSECT and EXCEPT.

pub(crate) mod multiset;
pub(crate) mod union_structures;
