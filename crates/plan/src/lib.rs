//! Rewrites logical plans: what is the same in another form, and cheaper.
//!
//! The crate knows neither storage nor the text of statements nor how these run. A statement's first plan is
//! that of the crate `bind`.

#![forbid(unsafe_code)]

pub mod common_subplan;
mod composite_keys;
pub mod computed_keys;
pub mod computed_once;
pub mod dependencies;
pub mod eager_aggregates;
mod empty_unions;
mod estimates;
mod explained;
pub mod filters;
pub mod join_keys;
pub mod join_order;
mod kept_errors;
mod logical_node;
pub mod null_keys;
pub mod null_rejection;
mod outer_references;
pub mod physical_planner;
pub mod portable;
pub mod repeated_keys;
pub mod rules;
mod single_value;
pub mod subquery_form;
mod subquery_guards;
pub mod subquery_shape;
mod union_aggregates;
pub mod unnest;
pub mod unordered;
