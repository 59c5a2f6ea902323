//! Nothing: this package exists for its one integration test binary, `integration/main.rs`.

#![forbid(unsafe_code)]
