//! PostgreSQL's types: their numbers and names, the types of ours that they show, and values of Arrow
//! arrays in their text and binary forms.

#![forbid(unsafe_code)]

pub mod calendar;
mod column;
mod document;
mod encode;
mod style;
pub mod types;

pub use column::Column;
pub use encode::Cells;
pub use style::{IntervalStyle, Style};
