//! A flat name space of files: a directory on disk or memfds.

use crate::File;
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, MemfdFlags};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where a database keeps its files.
#[derive(Debug)]
pub enum Store {
    Directory {
        path: PathBuf,
        read_only: bool,
    },
    /// Each file is a memfd; unlinking drops it, mappings live on.
    Memory(Mutex<HashMap<String, File>>),
}

/// A lock on the whole store, held until dropped or until the process dies.
#[derive(Debug)]
pub struct Lock {
    _file: fs::File,
}

impl Store {
    pub fn memory() -> Self {
        Self::Memory(Mutex::new(HashMap::new()))
    }

    pub fn directory(path: impl Into<PathBuf>, read_only: bool) -> Self {
        Self::Directory { path: path.into(), read_only }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Directory { path, .. } => Some(path),
            Self::Memory(_) => None,
        }
    }

    /// Creates an empty file; an abandoned one of that name is unlinked first.
    pub fn create(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory { path, .. } => {
                let path = path.join(name);
                let doing = || format!("cannot create \"{}\"", path.display());
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(Error::from_io(&error, doing()));
                    }
                    _ => {}
                }
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .open(&path)
                    .map_err(|error| Error::from_io(&error, doing()))?;
                Ok(File::new(file, &path.to_string_lossy()))
            }
            Self::Memory(files) => {
                let descriptor = rustix::fs::memfd_create("hypostyle", MemfdFlags::CLOEXEC)
                    .map_err(|error| Error::from_io(&error.into(), "cannot create a memory file"))?;
                let file = File::new(fs::File::from(descriptor), name);
                lock(files).insert(name.to_string(), file.clone());
                Ok(file)
            }
        }
    }

    /// Opens an existing file, for writing too unless the store is read-only.
    pub fn open(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory { path, read_only } => {
                let path = path.join(name);
                let file = OpenOptions::new().read(true).write(!read_only).open(&path).map_err(|error| {
                    Error::from_io(&error, format_args!("cannot open \"{}\"", path.display()))
                })?;
                Ok(File::new(file, &path.to_string_lossy()))
            }
            Self::Memory(files) => lock(files)
                .get(name)
                .cloned()
                .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no file \"{name}\" in memory"))),
        }
    }

    /// Unlinks a file; its space is given back when the last descriptor and mapping are gone.
    pub fn remove(&self, name: &str) -> Result<()> {
        match self {
            Self::Directory { path, .. } => {
                let path = path.join(name);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(Error::from_io(&error, format_args!("cannot remove \"{}\"", path.display())))
                    }
                    _ => Ok(()),
                }
            }
            Self::Memory(files) => {
                lock(files).remove(name);
                Ok(())
            }
        }
    }

    /// Makes `bytes` the content of `name`, atomically and durably.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let temporary = format!("{name}.new");
        let file = self.create(&temporary)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        match self {
            Self::Directory { path, .. } => {
                let (from, to) = (path.join(&temporary), path.join(name));
                fs::rename(&from, &to).map_err(|error| {
                    Error::from_io(&error, format_args!("cannot rename \"{}\"", from.display()))
                })?;
                self.sync_directory("")
            }
            Self::Memory(files) => {
                let mut files = lock(files);
                files.remove(&temporary);
                files.insert(name.to_string(), file);
                Ok(())
            }
        }
    }

    /// The names of the files in a directory of the store (`""` is its root).
    pub fn list(&self, directory: &str) -> Result<Vec<String>> {
        match self {
            Self::Directory { path, .. } => {
                let path = path.join(directory);
                let doing = || format!("cannot list \"{}\"", path.display());
                let mut names = Vec::new();
                for entry in fs::read_dir(&path).map_err(|error| Error::from_io(&error, doing()))? {
                    let entry = entry.map_err(|error| Error::from_io(&error, doing()))?;
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
                Ok(names)
            }
            Self::Memory(files) => {
                let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
                let names = lock(files)
                    .keys()
                    .filter_map(|name| name.strip_prefix(&prefix))
                    .filter(|rest| !rest.contains('/'))
                    .map(str::to_string)
                    .collect();
                Ok(names)
            }
        }
    }

    pub fn create_directory(&self, name: &str) -> Result<()> {
        if let Self::Directory { path, .. } = self {
            let path = path.join(name);
            fs::create_dir_all(&path).map_err(|error| {
                Error::from_io(&error, format_args!("cannot create the directory \"{}\"", path.display()))
            })?;
        }
        Ok(())
    }

    /// Removes a directory and all files in it.
    pub fn remove_directory(&self, name: &str) -> Result<()> {
        match self {
            Self::Directory { path, .. } => {
                let path = path.join(name);
                match fs::remove_dir_all(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(Error::from_io(&error, format_args!("cannot remove \"{}\"", path.display())))
                    }
                    _ => Ok(()),
                }
            }
            Self::Memory(files) => {
                let prefix = format!("{name}/");
                lock(files).retain(|file, _| !file.starts_with(&prefix));
                Ok(())
            }
        }
    }

    /// Makes creations, renames and removals in a directory durable.
    pub fn sync_directory(&self, name: &str) -> Result<()> {
        if let Self::Directory { path, .. } = self {
            let path = path.join(name);
            fs::File::open(&path).and_then(|directory| directory.sync_all()).map_err(|error| {
                Error::from_io(&error, format_args!("cannot sync the directory \"{}\"", path.display()))
            })?;
        }
        Ok(())
    }

    /// Takes the lock of `name`: shared or exclusive. It dies with its owner (`flock`, never `fcntl`,
    /// whose locks vanish when any descriptor of the file closes).
    ///
    /// # Errors
    /// `Busy` when another process, or another handle of this one, holds it.
    pub fn lock(&self, name: &str, exclusive: bool) -> Result<Option<Lock>> {
        let Self::Directory { path, .. } = self else { return Ok(None) };
        let file = fs::File::open(path.join(name)).map_err(|error| {
            Error::from_io(&error, format_args!("cannot open \"{}\"", path.join(name).display()))
        })?;
        let operation = if exclusive {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "\"{}\" is open {}; close it there first{}",
                    path.display(),
                    if exclusive { "elsewhere" } else { "for writing elsewhere" },
                    if exclusive { ", or open it with read_only where that is enough" } else { "" }
                ),
            )),
            Err(error) => {
                Err(Error::from_io(&error.into(), format_args!("cannot lock \"{}\"", path.display())))
            }
        }
    }
}

fn lock(files: &Mutex<HashMap<String, File>>) -> std::sync::MutexGuard<'_, HashMap<String, File>> {
    // The map is whole after any panic: each operation on it is one call.
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores() -> (tempfile::TempDir, [Store; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = Store::directory(directory.path(), false);
        (directory, [on_disk, Store::memory()])
    }

    #[test]
    fn a_private_mapping_is_writable_only_for_its_owner_and_outlives_the_file() {
        let (_directory, stores) = stores();
        for store in stores {
            let file = store.create("a").unwrap();
            file.write_at(0, b"hello").unwrap();
            let (shared, private) = (file.map(5).unwrap(), file.map_private(5).unwrap());
            drop(file);
            store.remove("a").unwrap();
            assert_eq!(store.open("a").unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(shared.as_ref(), b"hello");
            assert_eq!(private.as_ref(), b"hello");
        }
    }

    #[test]
    fn a_mapping_longer_than_its_file_is_refused() {
        let (_directory, stores) = stores();
        for store in stores {
            let file = store.create("a").unwrap();
            file.write_at(0, b"1234").unwrap();
            assert_eq!(file.map(5).unwrap_err().kind(), ErrorKind::Corrupt);
            assert_eq!(file.map_private(5).unwrap_err().kind(), ErrorKind::Corrupt);
            assert!(file.map(0).unwrap().as_ref().is_empty());
        }
    }

    #[test]
    fn replace_leaves_the_new_content_only() {
        let (_directory, stores) = stores();
        for store in stores {
            store.replace("a", b"one").unwrap();
            store.replace("a", b"two!").unwrap();
            assert_eq!(store.open("a").unwrap().read_all().unwrap(), b"two!");
            assert_eq!(store.list("").unwrap(), ["a"]);
        }
    }

    #[test]
    fn an_exclusive_lock_keeps_others_out_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false);
        store.create("L").unwrap();
        let held = store.lock("L", true).unwrap();
        assert_eq!(store.lock("L", false).unwrap_err().kind(), ErrorKind::Busy);
        drop(held);
        let _first = store.lock("L", false).unwrap();
        let _second = store.lock("L", false).unwrap();
        assert_eq!(store.lock("L", true).unwrap_err().kind(), ErrorKind::Busy);
    }
}
