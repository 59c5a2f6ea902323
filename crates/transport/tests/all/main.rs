//! The tests of the crate in one program, which is linked once.

mod channel;
mod frames;
