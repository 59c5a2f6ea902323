//! VALUES, also those of an INSERT.

pub mod nullable_values;
pub(crate) mod values_subquery;
