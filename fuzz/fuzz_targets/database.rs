//! Opens a golden database with bytes of one file overwritten. It opens or gives an error, every
//! column is read or gives an error, and a check ends. A log or a catalog may be sealed again with
//! the checksums of its new bytes, so that the code behind them is reached, too.
#![no_main]

use hypostyle_format::{FRAME_HEADER_BYTES, FrameKind, encode_frame};
use hypostyle_storage::{Database, OpenMode};
use hypostyle_types::Version;
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

/// Puts the payloads of `changed` into frames with right checksums; `sound` tells where they lie.
fn seal(sound: &[u8], changed: &[u8]) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(sound[at..at + 8].try_into().unwrap());
    let (mut sealed, mut start) = (Vec::new(), 0);
    while start < sound.len() {
        let kind = if sound[start + 4] == 1 { FrameKind::Checkpoint } else { FrameKind::Commit };
        let payload = start + FRAME_HEADER_BYTES;
        let end = payload + word(start + 8) as usize;
        let frame = encode_frame(kind, Version(word(start + 16)), &changed[payload..end]).unwrap();
        start += frame.len();
        sealed.extend(frame);
    }
    sealed
}

fuzz_target!(|input: (u8, u16, bool, bool, &[u8])| {
    let (which, offset, cut, resealed, bytes) = input;
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
            let name = file.file_name().unwrap().to_string_lossy();
            if resealed && (name.starts_with("log-") || name.starts_with("catalog-")) {
                content = seal(&fs::read(file).unwrap(), &content);
            } else if cut {
                content.truncate(end);
            }
        }
        fs::write(target, content).unwrap();
    }
    let Ok(database) = Database::open(&copy.path().join("d"), OpenMode::ReadWrite) else { return };
    let Ok(snapshot) = database.snapshot() else { return };
    for table in snapshot.tables() {
        for column in table.columns() {
            let _synopses = column.synopses();
            if column.verify_rows(0..table.rows_in_files()).is_ok()
                && let Ok(array) = column.array()
            {
                // Offsets and codes that point outside their heaps would fail here.
                let _text = format!("{array:?}");
            }
        }
    }
    snapshot.check(|_| true);
});
