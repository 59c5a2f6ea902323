//! Binds statements: from a syntax tree, whose names mean nothing yet, to a logical plan of the columns and
//! functions that they are.
//!
//! The way of a statement, which `steps` has:
//!
//! | step | where |
//! |---|---|
//! | queries are bound, with scopes of our own, a file for each clause (docs/decisions/0037) | `query` |
//! | – expressions by DataFusion's planner: columns stand for names and subqueries | `query::expression` |
//! | – with calls by another name of a function | `expression::aliased_calls` |
//! | – with JSON's operators without names | `expression::json_alias` |
//! | – COLUMNS(…) is written out | `select::named_columns` |
//! | – functions in FROM are named by their calls | `from::function_tables` |
//! | – structures in UNION get their common type | `set_operation::union_structures` |
//! | – EXCEPT ALL and INTERSECT ALL count | `set_operation::multiset` |
//! | – LIMIT of a percentage or a subquery counts | `order::percent_limit` |
//! | the rows of an INSERT become those of its table | `insert` |
//! | what is no query is DataFusion's to plan, also around one: EXPLAIN, PREPARE | `planner` |
//! | tables of WITH that would double a plan are computed once | `with::repeated_tables` |
//! | UUIDs and JSON are said again | `expression::logical_types` |
//! | plans that are too large are refused | `with::expansion` |
//! | subqueries that use what is around them in other ways are refused | `subquery::levels` |
//!
//! When parameters have their values, [`in_own_forms`] takes the steps that look at these, too:
//! `subquery::quantified`, `subquery::scalar_subquery`, `values::values_subquery` and
//! `from::join_condition`.
//!
//! An expression of a definition, as a default, is bound over the columns of its table ([`bind_expression`]).
//!
//! What is rewritten in each expression of a plan, whatever statement it is from, and the types that values
//! get, are rules of the analyzer, in the crate `plan`. This crate knows neither storage nor how statements
//! run.

#![forbid(unsafe_code)]

pub mod expression;
pub mod from;
pub mod group;
mod insert;
pub mod order;
mod planner;
pub mod query;
pub mod select;
pub mod set_operation;
mod steps;
pub mod subquery;
pub mod values;
pub mod with;

pub use planner::bind_expression;
pub use steps::{bind_statement, in_own_forms};
