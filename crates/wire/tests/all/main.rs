//! The tests of the crate in one program, which is linked once. Apart from it is `hostile`, which limits what
//! the process allocates.

#[path = "../common/mod.rs"]
mod common;

mod example;
mod golden;
mod measure;
mod round_trip;
