//! From Arrow arrays to what Python's libraries hold: objects, NumPy memory, Polars' layouts.

pub mod buffer;
pub mod calendar;
pub mod numpy;
pub mod object;
pub mod parallel;
pub mod string_dtype;
pub mod widen;
