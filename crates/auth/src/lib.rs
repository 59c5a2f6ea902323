//! How users prove who they are: SCRAM-SHA-256, and what a server keeps of a password.

#![forbid(unsafe_code)]
// Messages come from outside: whatever they are is an error at worst.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

pub mod scram;
