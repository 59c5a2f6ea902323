//! This package exists only for its one integration test binary, `integration/main.rs`.
