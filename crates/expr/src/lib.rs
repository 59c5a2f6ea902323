//! The meaning of values, casts, operators, functions and aggregates: SQL's rules where
//! DataFusion's differ, and the functions of PostgreSQL and DuckDB that DataFusion lacks.
//!
//! The crate knows neither storage nor snapshots nor statements.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod amplifier;
pub mod any_equal;
pub mod arithmetic;
pub mod builtin;
pub mod cast;
pub mod chain;
pub mod common_type;
pub mod comparison;
pub mod extreme;
pub mod field;
pub mod function;
pub mod interval;
pub mod interval_average;
pub mod interval_part;
pub mod json_path;
pub mod lag_default;
pub mod meter;
pub mod nan;
pub mod operand;
pub mod operator;
pub mod overlaps;
pub mod pattern;
pub mod portable;
pub mod ranking;
pub mod registry;
mod room;
pub mod rounding;
pub mod set_operation;
pub mod setting;
pub mod shifted_sums;
pub mod sizes;
pub mod sliding_bool;
pub mod sliding_numbers;
pub mod text_function;
pub mod time_difference;
pub mod time_part;
mod time_text;
pub mod time_zone;
pub mod truth;
pub mod types;
pub mod value_keys;
pub mod walk;
pub mod wanted;
pub mod wrapped;
