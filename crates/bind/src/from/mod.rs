//! FROM: what functions in it are called, and subqueries in its conditions.

pub(crate) mod function_tables;
pub(crate) mod join_condition;
