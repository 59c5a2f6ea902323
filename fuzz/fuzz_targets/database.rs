//! A golden database with bytes of one file overwritten: it opens, or says why not; every column is
//! read, or says why not; and a scrub ends.
#![no_main]

use hypostyle_storage::{Database, OpenMode};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::{Path, PathBuf};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/format-v1");

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
    found.sort();
}

fuzz_target!(|input: (u8, u16, bool, &[u8])| {
    let (which, offset, cut, bytes) = input;
    let golden = Path::new(GOLDEN);
    let mut found = Vec::new();
    files(golden, &mut found);
    let copy = tempfile::tempdir().unwrap();
    for (index, file) in found.iter().enumerate() {
        let target = copy.path().join("d").join(file.strip_prefix(golden).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let mut content = fs::read(file).unwrap();
        if index == usize::from(which) % found.len() {
            let start = usize::from(offset) % (content.len() + 1);
            let end = content.len().min(start + bytes.len());
            content[start..end].copy_from_slice(&bytes[..end - start]);
            if cut {
                content.truncate(end);
            }
        }
        fs::write(target, content).unwrap();
    }
    let Ok(database) = Database::open(&copy.path().join("d"), OpenMode::ReadWrite) else { return };
    let snapshot = database.snapshot();
    for table in snapshot.tables() {
        for column in table.columns() {
            let _synopses = column.synopses();
            if column.verify_rows(0..table.rows()).is_ok()
                && let Ok(array) = column.array()
            {
                // Offsets and codes that point outside their heaps would be felt here.
                let _text = format!("{array:?}");
            }
        }
    }
    snapshot.check(|_| true);
});
