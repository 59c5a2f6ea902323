//! Files whose descriptors are closed and opened again as needed. A table has at least as many
//! files as columns, and a process may have far fewer open.
//!
//! Closing a file loses no error of the disk: Linux reports an error that nobody has seen to the
//! next process that opens the file.

use crate::directory::{Access, Directory, Identity};
use rustix::process::{Resource, getrlimit};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The number of descriptors that one store keeps for such files. With fewer files than this, none
/// is closed before its end.
const DESCRIPTORS_MAX: usize = 256;

/// The same where a process may have few open files: half of them are for everything else.
const SHARE_OF_LIMIT: u64 = 2;

/// The number of descriptors that a store keeps with any limit.
const DESCRIPTORS_MIN: usize = 8;

/// Returns the number of descriptors to keep.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |limit| limit / SHARE_OF_LIMIT);
    usize::try_from(limit).unwrap_or(usize::MAX).clamp(DESCRIPTORS_MIN, DESCRIPTORS_MAX)
}

/// The files that are open now, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<VecDeque<Weak<Pooled>>>);

/// A file of a directory that is opened when it is needed.
#[derive(Debug)]
pub(crate) struct Pooled {
    directory: Arc<Directory>,
    pool: Arc<Pool>,
    name: String,
    access: Access,
    identity: Identity,
    open: Mutex<Option<Arc<fs::File>>>,
}

impl Pooled {
    pub fn new(
        directory: &Arc<Directory>,
        pool: &Arc<Pool>,
        name: &str,
        access: Access,
        file: fs::File,
    ) -> io::Result<Arc<Self>> {
        let pooled = Arc::new(Self {
            directory: directory.clone(),
            pool: pool.clone(),
            name: name.to_string(),
            access,
            identity: Identity::of(&file)?,
            open: Mutex::new(Some(Arc::new(file))),
        });
        pool.add(&pooled);
        Ok(pooled)
    }

    /// # Errors
    /// An error when the file has to be opened again, and another file has its name.
    pub fn open(self: &Arc<Self>) -> io::Result<Arc<fs::File>> {
        let file = {
            let mut open = lock(&self.open);
            if let Some(file) = open.as_ref() {
                return Ok(file.clone());
            }
            let file = self.directory.open_file(&self.name, self.access)?;
            if Identity::of(&file)? != self.identity {
                let why = "another file was put in its place while it was in use";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            open.insert(Arc::new(file)).clone()
        };
        // The lock of this file is not held here, because others are closed now.
        self.pool.add(self);
        Ok(file)
    }
}

impl Pool {
    fn add(&self, file: &Arc<Pooled>) {
        let mut closed = Vec::new();
        {
            let mut files = lock(&self.0);
            files.push_back(Arc::downgrade(file));
            let kept = descriptors();
            while files.len() > kept {
                closed.extend(files.pop_front());
            }
        }
        for file in closed.iter().filter_map(Weak::upgrade) {
            // Whoever works with the file keeps it open for that long.
            lock(&file.open).take();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The content is whole after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use hypostyle_types::ErrorKind;

    #[test]
    fn many_files_share_few_descriptors() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false, None).unwrap();
        let Store::Directory(disk) = &store else { unreachable!() };
        let names: Vec<String> = (0..DESCRIPTORS_MAX * 2).map(|number| number.to_string()).collect();
        let files: Vec<_> = names.iter().map(|name| store.create_pooled(name).unwrap()).collect();
        let open = || {
            let place = directory.path().to_str().unwrap();
            let links =
                fs::read_dir("/proc/self/fd").unwrap().map(|entry| fs::read_link(entry.unwrap().path()));
            links
                .filter(|link| link.as_ref().is_ok_and(|link| link.to_str().unwrap().starts_with(place)))
                .count()
        };
        for round in 0..3 {
            for (number, file) in files.iter().enumerate() {
                file.write_at(round, &[number as u8]).unwrap();
            }
            // The additional one is that of the directory.
            assert!(open() <= DESCRIPTORS_MAX + 1, "{} are open", open());
        }
        for (number, file) in files.iter().enumerate() {
            file.sync().unwrap();
            assert_eq!(file.read_all().unwrap(), [number as u8; 3]);
        }
        drop(files);
        assert_eq!(open(), 1);
        assert!(lock(&disk.pool().0).len() <= DESCRIPTORS_MAX);
    }

    #[test]
    fn a_file_that_was_replaced_is_not_taken_for_the_one_that_was_open() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false, None).unwrap();
        let [kept, replaced, gone] =
            ["kept", "replaced", "gone"].map(|name| store.create_pooled(name).unwrap());
        let others: Vec<_> =
            (0..DESCRIPTORS_MAX).map(|number| store.create_pooled(&number.to_string()).unwrap()).collect();
        // File systems have times in steps of some milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        store.create("replaced").unwrap();
        store.remove("gone").unwrap();
        kept.write_at(0, b"still").unwrap();
        assert_eq!(replaced.write_at(0, b"lost").unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(gone.write_at(0, b"lost").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(store.open("replaced").unwrap().length().unwrap(), 0);
        drop(others);
    }
}
