//! Plans a statement's syntax, and rewrites logical plans.
//!
//! The crate knows neither storage nor how statements run.

#![forbid(unsafe_code)]

pub mod alias_columns;
mod aliased_calls;
mod captured_names;
pub mod common_subplan;
pub mod common_table;
mod composite_keys;
pub mod computed_keys;
pub mod declared;
pub mod dependencies;
pub mod eager_aggregates;
mod empty_unions;
mod estimates;
pub mod expansion;
pub mod filters;
pub mod function_tables;
pub mod group_keys;
mod hidden_keys;
pub mod join_condition;
mod join_constraint;
pub mod join_keys;
pub mod join_order;
pub mod json_alias;
pub mod later_form;
pub mod lateral;
pub mod levels;
pub mod logical_types;
mod missing_tables;
pub mod multiset;
pub mod name_repair;
pub mod named_columns;
pub mod natural_join;
pub mod null_keys;
pub mod null_rejection;
pub mod nullable_values;
pub mod order_keys;
mod outer_aggregates;
pub mod percent_limit;
pub mod planning;
pub mod portable;
pub mod quantified;
pub mod repeated_keys;
mod repeated_tables;
pub mod rules;
pub mod scalar_subquery;
pub mod subquery_shape;
pub mod surroundings;
mod union_aggregates;
pub mod union_structures;
pub mod unnest;
pub mod values_subquery;
mod whole_rows;
mod wide_select;
