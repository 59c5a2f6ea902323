//! The tests of the crate in one program, which is linked once.

#[path = "../common/mod.rs"]
mod common;

mod append;
mod catalog;
mod cluster;
mod layout;
mod partition;
