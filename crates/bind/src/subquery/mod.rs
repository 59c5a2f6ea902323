//! Subqueries in expressions. Correlated ones become joins in `plan::unnest`.

pub(crate) mod levels;
pub(crate) mod quantified;
pub(crate) mod scalar_subquery;
