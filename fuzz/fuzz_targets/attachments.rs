//! Opens a golden database with other bytes attached to a commit, or in a file of deleted rows, and
//! with right checksums. It opens and is read, checked and checkpointed, or gives an error.
#![no_main]

use hypostyle_format::{Change, Commit, LogReader};
use hypostyle_storage::{Database, OpenMode};
use hypostyle_types::Version;
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/format-v1-transactions");
const CHECKPOINT: Version = Version(9);
const DELETED: &str = "columns/1/deleted-00000000000000000009";

/// The attached bytes, and the number of rows that they are said to have.
struct Attachment<'a> {
    bytes: &'a mut Vec<u8>,
    rows: Option<&'a mut u64>,
}

impl Attachment<'_> {
    fn change(self, input: &Input<'_>) {
        let start = usize::from(input.offset) % (self.bytes.len() + 1);
        let end = self.bytes.len().min(start + input.bytes.len());
        self.bytes[start..end].copy_from_slice(&input.bytes[..end - start]);
        if input.cut {
            self.bytes.truncate(end);
        }
        if let (Some(rows), Some(other)) = (self.rows, input.rows) {
            *rows = other;
        }
    }
}

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    which: u8,
    offset: u16,
    cut: bool,
    /// Says whether a writer opens it, too. Most of the time would be spent on copying files for
    /// it.
    writes: Option<bool>,
    rows: Option<u64>,
    bytes: &'a [u8],
}

fn golden_commits(log: &[u8]) -> Vec<Commit> {
    let mut reader = LogReader::new(log, CHECKPOINT);
    std::iter::from_fn(|| reader.next_commit().unwrap()).collect()
}

/// Changes one of the attachments of a log, or the file of deleted rows.
fn change(commits: &mut [Commit], deleted: &mut Vec<u8>, input: &Input<'_>) {
    let mut attachments = Vec::new();
    for commit in commits.iter_mut() {
        let changes = commit.changes.iter_mut().filter_map(|change| match change {
            Change::Insert { rows, .. } | Change::Delete { rows, .. } => Some(rows),
            _ => None,
        });
        let pairs = commit.attachments.iter_mut().zip(changes);
        attachments.extend(pairs.map(|(bytes, rows)| Attachment { bytes, rows: Some(rows) }));
    }
    attachments.push(Attachment { bytes: deleted, rows: None });
    let which = usize::from(input.which) % attachments.len();
    attachments.swap_remove(which).change(input);
    for commit in commits {
        let mut lengths = commit.attachments.iter().map(|bytes| bytes.len() as u64);
        for change in &mut commit.changes {
            if let Change::Insert { bytes, .. } | Change::Delete { bytes, .. } = change {
                *bytes = lengths.next().unwrap();
            }
        }
    }
}

fn place_all(from: &Path, to: &Path, place: fn(&Path, &Path)) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { place_all(&path, &target, place) } else { place(&path, &target) }
    }
}

fn read(database: &Database) {
    let Ok(snapshot) = database.snapshot() else { return };
    for table in snapshot.tables() {
        let columns: Vec<usize> = (0..table.columns().len()).collect();
        // Offsets that point outside would fail here.
        let _rows = table.gather(&columns, 0..table.rows(), 1);
    }
    snapshot.check(|_| true);
}

fuzz_target!(|input: Input<'_>| {
    let golden = Path::new(GOLDEN);
    let log_name = format!("log-{:020}", CHECKPOINT.0);
    let mut commits = golden_commits(&fs::read(golden.join(&log_name)).unwrap());
    let mut deleted = fs::read(golden.join(DELETED)).unwrap();
    deleted.truncate(deleted.len() - 8);
    change(&mut commits, &mut deleted, &input);
    deleted.extend(xxh3_64(&deleted).to_le_bytes());
    let (mut log, mut version) = (Vec::new(), CHECKPOINT);
    for commit in commits {
        version = version.next();
        log.extend(commit.encode(version).unwrap());
    }
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str, place: fn(&Path, &Path)| {
        let path = directory.path().join(name);
        place_all(golden, &path, place);
        for (file, content) in [(log_name.as_str(), &log), (DELETED, &deleted)] {
            fs::remove_file(path.join(file)).unwrap();
            fs::write(path.join(file), content).unwrap();
        }
        path
    };
    // Nothing is written there.
    let path = make("linked", |from, to| symlink(from, to).unwrap());
    let Ok(database) = Database::open(&path, OpenMode::ReadOnly) else { return };
    read(&database);
    if input.writes != Some(true) {
        return;
    }
    let path = make("copied", |from, to| assert_ne!(fs::copy(from, to).unwrap(), u64::MAX));
    let Ok(database) = Database::open(&path, OpenMode::ReadWrite) else { return };
    let _done = database.checkpoint();
    read(&database);
});
