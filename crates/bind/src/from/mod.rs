//! FROM: the relations of a query, their names and columns, and how they are joined.

pub(crate) mod alias_columns;
pub(crate) mod captured_names;
pub mod function_tables;
pub(crate) mod join_condition;
pub(crate) mod lateral;
pub(crate) mod missing_tables;
pub(crate) mod natural_join;
pub(crate) mod whole_rows;
