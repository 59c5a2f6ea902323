//! Expressions: calls and operators as DataFusion knows them, and what is known of values beyond their types.

pub(crate) mod aliased_calls;
pub mod json_alias;
pub mod logical_types;
