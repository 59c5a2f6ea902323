//! The Rust program in examples/ runs; the Python ones are run by the Python package's tests.

#[path = "../../examples/embedded.rs"]
mod embedded;

#[test]
fn the_embedded_example_runs() {
    embedded::main().unwrap();
}
