//! Physical operators: scans over stored columns, what cuts, orders and sends rows, and the memory
//! and temporary files that they take.
//!
//! Nothing here knows SQL text, sessions or names.

#![forbid(unsafe_code)]

pub mod counters;
pub mod in_order;
pub mod memory;
pub mod pieces;
pub mod pushdown;
pub mod scan;
pub mod spill;
pub mod transfer;
pub mod yielding;
