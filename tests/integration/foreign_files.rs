//! Parquet and Arrow files of other programs, many of them damaged on purpose: each gives rows or a
//! clear error, within the memory limit.
//!
//! The files are those of two public projects, which are not part of this one. They are looked for
//! in `../shared/corpora` beside the project, or where `HYPOSTYLE_CORPORA` says; without them,
//! nothing is tested here.

use hypostyle::{Connection, Database, Error, ErrorKind, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LIMIT: u64 = 512 << 20;

/// A statement may take so much for a moment: docs/decisions/0012.
const PEAK: u64 = 2 * LIMIT;

fn corpora() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora");
    let named = std::env::var_os("HYPOSTYLE_CORPORA").map(PathBuf::from);
    named.into_iter().chain([beside]).find(|path| path.is_dir())
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => files(&entry, found),
            false => found.push(entry),
        }
    }
}

/// Returns the function that reads a file, by its name and its place.
fn function(path: &Path) -> Option<&'static str> {
    let text = path.to_str()?;
    match () {
        () if text.contains("arrow-ipc") => Some("read_arrow"),
        () if text.contains("/parquet/") || text.ends_with(".parquet") => Some("read_parquet"),
        () => None,
    }
}

fn run(connection: &Connection, sql: &str) -> Result<u64, Error> {
    let result = connection.execute(sql)?;
    let mut rows = 0;
    while let Some(batch) = result.next_batch()? {
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

#[test]
fn files_of_others_give_rows_or_a_clear_error_within_the_memory_limit() {
    let Some(corpora) = corpora() else { return };
    let mut found = Vec::new();
    files(&corpora, &mut found);
    found.sort();
    let options = OpenOptions { memory_limit: Some(LIMIT), threads: Some(2), ..OpenOptions::default() };
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    let (peak, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watch = std::thread::spawn({
        let (peak, over) = (Arc::clone(&peak), Arc::clone(&over));
        move || {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(hypostyle_memory::total().unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let mut wrong = Vec::new();
    for path in &found {
        let (Some(function), Some(name)) = (function(path), path.to_str()) else { continue };
        for select in ["SELECT * FROM", "SELECT count(*) FROM"] {
            let sql = format!("{select} {function}('{}')", name.replace('\'', "''"));
            let before = hypostyle_memory::total().unwrap_or(0);
            peak.store(0, Ordering::Relaxed);
            if let Err(error) = run(&connection, &sql)
                && (error.kind() == ErrorKind::Internal || error.message().contains("panicked"))
            {
                wrong.push(format!("{sql}: {error}"));
            }
            let taken = peak.load(Ordering::Relaxed).saturating_sub(before);
            if taken > PEAK {
                wrong.push(format!("{sql} took {taken} bytes"));
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    watch.join().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
