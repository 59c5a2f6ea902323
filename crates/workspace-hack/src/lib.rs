//! Nothing: this package exists for its features.

#![forbid(unsafe_code)]
