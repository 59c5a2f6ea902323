//! The meaning of values, casts, operators, functions and aggregates: SQL's rules where
//! DataFusion's differ, and the functions of PostgreSQL and DuckDB that DataFusion lacks.
//!
//! The crate knows neither storage nor snapshots nor statements.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod amplifier;
pub mod any_equal;
mod arguments;
pub mod arithmetic;
pub mod at_once;
pub mod builtin;
mod byte_text;
mod calendar;
pub mod cast;
mod cast_target;
pub mod chain;
pub mod common_type;
pub mod comparison;
mod date_part;
mod described;
mod distinct_sum;
pub mod extract;
pub mod extreme;
pub mod field;
pub mod float_extreme;
pub mod function;
pub mod interval;
pub mod interval_part;
pub mod json;
pub mod json_operators;
pub mod lag_default;
pub mod list_sets;
mod matching;
pub mod meter;
mod moments;
pub mod nan;
pub mod nested_type;
pub mod operand;
pub mod operator;
pub mod overlaps;
mod pattern;
mod percentile;
pub mod portable;
pub mod ranking;
pub mod registry;
mod regular;
mod room;
pub mod rounding;
mod row_numbers;
pub mod said;
mod searching;
pub mod set_operation;
pub mod setting;
pub mod shifted_sums;
pub mod sizes;
mod sliding_bits;
pub mod sliding_bool;
pub mod sliding_numbers;
mod sliding_texts;
pub mod structures;
pub mod text_function;
pub mod text_operand;
pub mod time_difference;
pub mod time_part;
mod time_percentile;
mod time_read;
mod time_sums;
mod time_text;
pub mod time_zone;
pub mod truth;
pub mod typed;
pub mod types;
pub mod value_keys;
pub mod walk;
pub mod wanted;
mod wide_sum;
pub mod window_frame;
pub mod work;
pub mod wrapped;
mod year_part;
mod zone_name;

pub use zone_name::{NamedZone, named_zones};
