//! Runs the Rust program in examples/. The tests of the Python package run the Python ones.

#[path = "../../examples/embedded.rs"]
mod embedded;

#[test]
fn the_embedded_example_runs() {
    embedded::main().unwrap();
}
