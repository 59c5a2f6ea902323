//! Binds statements: from a syntax tree, whose names mean nothing yet, to a logical plan of the columns and
//! functions that they are.
//!
//! DataFusion's planner, `SqlToRel`, is one of the steps. What it lacks, or takes in another way than SQL
//! does, becomes another tree before it, when the columns of relations are known, or another plan behind it.
//! The order of the steps, which `steps` has:
//!
//! | step | where | asks relations for their columns |
//! |---|---|---|
//! | names of columns that queries in FROM and WITH do not name | `sql::derived_names` | |
//! | NATURAL JOIN becomes USING | `from::natural_join` | yes |
//! | what SELECT says of columns that are not named is written out | `select::named_columns` | yes |
//! | ORDER BY ALL of such columns | `order::order_by_all` | yes |
//! | keys of set operations that no column of the result has are refused | `set_operation::key_names` | yes |
//! | relations get names that tell them from columns | `from::captured_names` | yes |
//! | keys of ORDER BY are computed beside the items | `order::order_keys` | yes |
//! | keys of GROUP BY that others decide are completed | `group::group_keys` | yes |
//! | aggregates of the query around are computed there | `group::outer_aggregates` | |
//! | calls by another name of a function | `expression::aliased_calls` | |
//! | chains of USING are written out | `sql::join_using` | |
//! | DataFusion's planner, of lists that may be wide by way of DISTINCT ON | `select::wide_select` | |
//! | – with functions in FROM named by their calls | `from::function_tables` | |
//! | – with structures in FROM in their common type | `set_operation::union_structures` | |
//! | – with JSON's operators without names | `expression::json_alias` | |
//! | casts that were apart, together, where names depend on them | `sql::cast_operand` | |
//! | texts in a UNION have the type of the other branches | `set_operation::union_structures` | |
//! | columns that a wrong relation has captured are refused | `from::captured_names` | |
//! | columns that only one side of a UNION has are refused | `order::hidden_keys` | |
//! | tables of WITH that would double a plan are computed once | `with::repeated_tables` | |
//! | EXCEPT ALL and INTERSECT ALL count | `set_operation::multiset` | |
//! | LIMIT of a percentage or a subquery counts | `order::percent_limit` | |
//! | UUIDs and JSON are said again | `expression::logical_types` | |
//! | plans that are too large are refused | `with::expansion` | |
//! | subqueries that use what is around them in other ways are refused | `subquery::levels` | |
//! | LATERAL becomes a node | `from::lateral` | |
//! | tables of WITH are computed once | `with::common_table` | |
//! | keys of GROUP BY that the plan needs are completed, and it is checked | `group::group_keys` | yes |
//!
//! One walk tells which statements ask at all ([`asks_for_columns`]).
//!
//! If the planner refuses a statement, and its error is about the text, `name_repair` writes the name that
//! was refused in another way, and the steps from the calls by another name on are taken again.
//!
//! When parameters have their values, [`in_own_forms`] takes the steps that look at these, too:
//! `subquery::quantified`, `subquery::scalar_subquery`, `values::values_subquery` and
//! `from::join_condition`.
//!
//! What is rewritten in each expression of a plan, whatever statement it is from, and the types that values
//! get, are rules of the analyzer, in the crate `plan`. This crate knows neither storage nor how statements
//! run.

#![forbid(unsafe_code)]

mod asking;
pub mod expression;
pub mod from;
pub mod group;
mod name_repair;
pub mod order;
pub mod scope;
pub mod select;
pub mod set_operation;
mod steps;
pub mod subquery;
pub mod values;
pub mod with;

pub use asking::asks_for_columns;
pub use steps::{bind_expression, bind_statement, in_own_forms};
