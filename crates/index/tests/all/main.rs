//! The tests of the crate in one program, which is linked once.

#[path = "../common/mod.rs"]
mod common;

mod bytes;
mod keys;
mod rows;
