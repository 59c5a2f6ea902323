//! What was detected of JSON files, so that a file is not read through for each statement about it.

use crate::input::Input;
use crate::option::{JsonLayout, ReadOptions};
use arrow::datatypes::Field;
use hypostyle_sync::Mutex;
use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The files that a session remembers.
const FILES_MAX: usize = 32;

/// Columns of a file that is remembered.
const COLUMNS_MAX: usize = 1_000;

/// A file that was changed so short a time ago may change again without another time of its change.
const SETTLED: Duration = Duration::from_secs(2);

/// The files that a session has looked at.
#[derive(Debug, Default)]
pub struct KnownFiles(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    state: State,
    layout: JsonLayout,
    fields: Vec<Field>,
}

/// What tells the content of a file, and how it was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    path: PathBuf,
    length: u64,
    inode: (u64, u64),
    modified: SystemTime,
    changed: (i64, i64),
    options: String,
}

impl State {
    /// Returns that of a file as it is; `None` where it does not tell its content.
    pub fn of(file: &Input, options: &ReadOptions) -> Option<Self> {
        let path = file.path();
        let found = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        Self::of_settled(path, &found, options, SystemTime::now())
    }

    fn of_settled(path: &Path, found: &Metadata, options: &ReadOptions, now: SystemTime) -> Option<Self> {
        let modified = found.modified().ok()?;
        let is_settled = now.duration_since(modified).is_ok_and(|age| age > SETTLED);
        let ReadOptions { layout, sample_rows, compression, encoding, .. } = options;
        is_settled.then(|| Self {
            path: path.to_path_buf(),
            length: found.len(),
            inode: (found.dev(), found.ino()),
            modified,
            changed: (found.ctime(), found.ctime_nsec()),
            options: format!("{layout:?} {sample_rows:?} {compression:?} {encoding:?}"),
        })
    }
}

impl KnownFiles {
    /// Returns what was detected of a file in that state.
    pub fn get(&self, state: &State) -> Option<(JsonLayout, Vec<Field>)> {
        let known = self.0.lock();
        let entry = known.iter().find(|entry| entry.state == *state)?;
        Some((entry.layout, entry.fields.clone()))
    }

    /// Remembers what was detected of a file, which was in the same state before and after it was read.
    pub fn keep(&self, state: State, layout: JsonLayout, fields: &[Field]) {
        if fields.len() > COLUMNS_MAX {
            return;
        }
        let mut known = self.0.lock();
        known.retain(|entry| entry.state.path != state.path || entry.state.options != state.options);
        known.truncate(FILES_MAX - 1);
        known.push_front(Entry { state, layout, fields: fields.to_vec() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;
    use arrow::datatypes::DataType;

    #[test]
    fn a_file_is_known_until_it_changes() {
        let directory = TestDirectory::new("known");
        let path = directory.write("a.json", "{\"a\":1}");
        let options = ReadOptions::default();
        let state = |options: &ReadOptions, age: u64| {
            let now = SystemTime::now() + Duration::from_secs(age);
            State::of_settled(Path::new(&path), &std::fs::metadata(&path).unwrap(), options, now)
        };
        assert_eq!(state(&options, 0), None);
        let known = KnownFiles::default();
        let fields = [Field::new("a", DataType::Int64, true)];
        known.keep(state(&options, 9).unwrap(), JsonLayout::Lines, &fields);
        assert_eq!(known.get(&state(&options, 10).unwrap()), Some((JsonLayout::Lines, fields.to_vec())));
        let others = ReadOptions { sample_rows: Some(1), ..ReadOptions::default() };
        assert_eq!(known.get(&state(&others, 10).unwrap()), None);
        directory.write("a.json", "{\"other\":1}");
        assert_eq!(known.get(&state(&options, 10).unwrap()), None);
        for number in 0..2 * FILES_MAX {
            let state = State { path: number.to_string().into(), ..state(&options, 10).unwrap() };
            known.keep(state, JsonLayout::Lines, &fields);
        }
        assert_eq!(known.0.lock().len(), FILES_MAX);
    }
}
