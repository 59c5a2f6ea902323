//! Files whose descriptors come and go: a table has as many files as it has columns, and more, a process may have far fewer open.
//!
//! Closing a file loses no error of the disk: Linux tells who opens it later of those that nobody has been told of.

use crate::directory::{Access, Directory, Identity};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Descriptors that one store keeps for such files; with less than this many files none is ever closed before its end.
const DESCRIPTORS_MAX: usize = 256;

/// The files that are open at the moment, oldest first.
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
    /// When the file has to be opened again, and another has its name.
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
        // Not with the lock of this file: others are closed now.
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
            while files.len() > DESCRIPTORS_MAX {
                closed.extend(files.pop_front());
            }
        }
        for file in closed.iter().filter_map(Weak::upgrade) {
            // Who is at work with it keeps it for that long.
            lock(&file.open).take();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in it is whole after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
