//! The tests of the client in one program, which is linked once. Apart from it are those that need a process
//! of their own: `announced` counts what is allocated, `descriptors` limits what may be open.

#[path = "../common/mod.rs"]
mod common;

mod call;
mod peer;
mod progress;
