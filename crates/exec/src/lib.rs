//! Physical operators: scans over stored columns, operators that cut, order and send rows, and
//! their memory and temporary files.
//!
//! The crate knows neither SQL text nor sessions nor names.

#![forbid(unsafe_code)]

pub mod claims;
pub mod counters;
pub mod join_filter;
mod lambda_places;
pub mod memory;
pub mod new_rows;
mod node_rule;
pub mod one_nan;
pub mod optimizer;
pub mod passing;
pub mod pieces;
pub mod position;
pub mod pushdown;
mod sanity;
pub mod scan;
pub mod slices;
pub mod spill;
pub mod total;
pub mod transfer;
pub mod yielding;
