//! Opens a hostile database: bytes of its column files are overwritten, and sealed again with right
//! checksums. It comes from elsewhere, so columns that are handed out, in whatever way, are valid
//! for their types; everything else is refused.
#![no_main]

#[path = "../../crates/storage/tests/common/hostile.rs"]
#[allow(dead_code)]
mod hostile;

use arrow_array::Array;
use hypostyle_storage::{Database, OpenMode};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/format-v1");

/// The golden database with all rows in column files, and the names of these files.
static SOUND: LazyLock<(tempfile::TempDir, Vec<PathBuf>)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    copy(Path::new(GOLDEN), directory.path());
    let database = Database::open(directory.path(), OpenMode::ReadWrite).unwrap();
    database.checkpoint().unwrap();
    drop(database);
    fs::remove_file(directory.path().join("shared")).unwrap();
    let mut names = Vec::new();
    for table in fs::read_dir(directory.path().join("columns")).unwrap() {
        for file in fs::read_dir(table.unwrap().path()).unwrap() {
            names.push(file.unwrap().path().strip_prefix(directory.path()).unwrap().to_path_buf());
        }
    }
    names.sort();
    (directory, names)
});

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A file, an offset in it, a number of bytes, and the bytes that are written there.
type Overwritten = (u8, u32, u8, [u8; 8]);

fuzz_target!(|input: (Vec<Overwritten>, bool, bool)| {
    let (changes, sealed, nulls_counted) = input;
    let (sound, names) = &*SOUND;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    copy(sound.path(), &path);
    for (name, place, length, bytes) in changes.into_iter().take(4) {
        let file = path.join(&names[usize::from(name) % names.len()]);
        let file = fs::OpenOptions::new().write(true).open(file).unwrap();
        let size = file.metadata().unwrap().len();
        let place = u64::from(place) % size.max(1);
        let length = usize::from(length % 8 + 1).min((size - place) as usize);
        file.write_all_at(&bytes[..length], place).unwrap();
    }
    if sealed {
        hostile::seal(&path, nulls_counted);
    }
    let Ok(database) = Database::open(&path, OpenMode::ReadOnly) else { return };
    assert!(!database.is_own());
    let Ok(snapshot) = database.snapshot() else { return };
    for column in snapshot.tables().flat_map(|table| table.columns()) {
        let _synopses = column.synopses();
        let all = 0..column.rows();
        if snapshot.hand_out(column, all, || Ok(())).is_err() {
            continue;
        }
        for array in [column.array().unwrap(), column.private_array().unwrap()] {
            array.to_data().validate_full().unwrap();
            let _text = format!("{array:?}");
        }
        column.files().unwrap();
    }
    snapshot.check(|_| true);
});
