//! Finds test files without a `mod` line, which would silently never run.

#[test]
fn every_file_has_its_mod_line() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/integration");
    let root = std::fs::read_to_string(format!("{directory}/main.rs")).unwrap();
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") {
            assert!(root.contains(&format!("mod {module};")), "main.rs lacks `mod {module};`");
            files += 1;
        }
    }
    assert!(files > 0);
}
