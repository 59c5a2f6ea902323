//! SQL text as a syntax tree in the dialect that is planned.
//!
//! [`split`] cuts a text into statements, [`kind`] says by the words of one what it does, and
//! [`Statement::parse`] reads it. The statements that DataFusion's parser lacks are productions of
//! [`statement`]. Of all others [`gate`] refuses those that are too complex, and [`parse`] reads one
//! in the first dialect that knows it and rewrites it, pass by pass, into forms that DataFusion
//! plans. The crate knows neither catalogs nor plans nor sessions.

#![forbid(unsafe_code)]

pub mod array_subquery;
mod asof_join;
pub mod build;
pub mod call;
pub mod calls;
mod catalog_functions;
pub mod chains;
pub mod clauses;
pub mod cluster;
pub mod collation;
pub mod common_table;
mod cursor;
pub mod defined_macros;
pub mod definitions;
pub mod derived_names;
pub mod doubles;
mod escapes;
mod expansion;
pub mod exported;
mod field_access;
pub mod forms;
mod frame_exclusion;
pub mod gate;
pub mod grouping;
pub mod identifier;
pub mod identity_options;
pub mod in_list;
mod inner_queries;
pub mod insert_clauses;
pub mod insert_function;
pub mod interval_text;
pub mod json_path;
pub mod kind;
pub mod lexer;
mod like_lists;
pub mod lists;
pub mod literal;
pub mod macros;
pub mod merge_actions;
pub mod names;
mod number_pattern;
mod numbers;
mod only;
pub mod operators;
pub mod overlaps;
pub mod parse;
pub mod phrases;
pub mod pivot;
mod pivot_words;
pub mod placeholders;
pub mod plain;
mod positional_join;
pub mod printable;
pub mod qualifiers;
mod reading;
pub mod references;
mod refused;
pub mod relations;
pub mod renamed_column;
mod replaced_tokens;
pub mod row_values;
pub mod samples;
mod search_cycle;
pub mod selected;
pub mod set_orders;
pub mod split;
pub mod statement;
mod structure_values;
mod table_as;
pub mod text_list;
mod text_value;
mod time_literal;
mod tokenized;
pub mod twin_keys;
pub mod type_brackets;
pub mod type_tree;
pub mod walk;
pub mod watched_dialect;
pub mod windows;
pub mod wire_names;
pub mod wire_rows;
mod with_names;

pub use statement::Statement;
