//! Tests that run in a process of their own, because they look at, or are held to, the memory of
//! the process.

use std::path::Path;
use std::process::Command;

/// Runs an ignored test of this binary, named with its module, in a process of its own, which must
/// not fail or be killed.
pub fn run(test: &str) {
    run_in(Path::new("."), test);
}

/// Runs an ignored test as [`run`] does, in a directory.
pub fn run_in(directory: &Path, test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .current_dir(directory)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("1 passed"), "{text}");
}
