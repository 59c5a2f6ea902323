//! A flat name space of files: a directory on disk or memfds.

use crate::File;
use crate::observer::{Observed, Observer, Operation, tell};
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;
use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Where a database keeps its files.
#[derive(Debug)]
pub enum Store {
    Directory {
        path: PathBuf,
        /// The directory that was there at first; another may have taken its name since.
        held: OnceLock<Directory>,
        read_only: bool,
        observer: Observed,
    },
    /// Each file is a memfd; unlinking drops it, mappings live on.
    Memory(Mutex<HashMap<String, File>>, Arc<MemoryLocks>),
}

/// An open directory, and a path to it that renaming it does not change.
#[derive(Debug)]
pub struct Directory {
    _open: fs::File,
    path: PathBuf,
}

impl Directory {
    /// `None` where there is no directory, or no `/proc`.
    fn of(path: &Path) -> Option<Self> {
        let open = fs::File::open(path).ok()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        path.is_dir().then_some(Self { _open: open, path })
    }
}

/// The locks of a store in memory, by name.
type MemoryLocks = Mutex<HashSet<String>>;

/// A file whose exclusive lock is taken again and again, by one thread of the process at a time.
#[derive(Debug)]
pub struct LockFile(fs::File);

/// The lock of a [`LockFile`], held until dropped or until the process dies.
#[derive(Debug)]
pub struct LockFileGuard<'a>(&'a LockFile);

impl LockFile {
    /// Waits for the lock.
    pub fn lock(&self) -> Result<LockFileGuard<'_>> {
        self.flock(FlockOperation::LockExclusive).map(|_| LockFileGuard(self))
    }

    /// `None` when someone has the lock.
    pub fn try_lock(&self) -> Result<Option<LockFileGuard<'_>>> {
        let locked = self.flock(FlockOperation::NonBlockingLockExclusive)?;
        Ok(locked.then_some(LockFileGuard(self)))
    }

    /// Waits until nobody has the lock. All that wait so wake at once, and not one after the other.
    pub fn wait(&self) -> Result<()> {
        self.flock(FlockOperation::LockShared).map(|_| drop(LockFileGuard(self)))
    }

    fn flock(&self, operation: FlockOperation) -> Result<bool> {
        loop {
            match rustix::fs::flock(&self.0, operation) {
                Ok(()) => return Ok(true),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::from_io(&error.into(), "cannot take a lock")),
            }
        }
    }
}

impl Drop for LockFileGuard<'_> {
    fn drop(&mut self) {
        // Fails only for a descriptor that is none.
        let _unlocked = rustix::fs::flock(&self.0.0, FlockOperation::Unlock);
    }
}

/// A lock of a file or directory, held until dropped or until the process dies.
#[derive(Debug)]
pub struct Lock(Held);

#[derive(Debug)]
enum Held {
    /// Closing the descriptor ends the `flock`.
    File {
        _file: fs::File,
    },
    Memory(Arc<MemoryLocks>, String),
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Held::Memory(locks, name) = &self.0 {
            lock(locks).remove(name);
        }
    }
}

impl Store {
    pub fn memory() -> Self {
        Self::Memory(Mutex::new(HashMap::new()), Arc::default())
    }

    pub fn directory(path: impl Into<PathBuf>, read_only: bool) -> Self {
        Self::Directory { path: path.into(), held: OnceLock::new(), read_only, observer: None }
    }

    /// Lets a test watch what happens on disk.
    pub fn observed(mut self, by: Option<Arc<dyn Observer>>) -> Self {
        if let Self::Directory { observer, .. } = &mut self {
            *observer = by;
        }
        self
    }

    /// Who watches this store.
    pub fn observer(&self) -> Option<Arc<dyn Observer>> {
        match self {
            Self::Directory { observer, .. } => observer.clone(),
            Self::Memory(..) => None,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Directory { path, .. } => Some(path),
            Self::Memory(..) => None,
        }
    }

    /// Bytes of the files that are kept in memory.
    ///
    /// # Errors
    /// Those of asking how much memory a file takes.
    pub fn memory_bytes(&self) -> Result<u64> {
        match self {
            Self::Directory { .. } => Ok(0),
            Self::Memory(files, _) => lock(files).values().map(File::allocated).sum(),
        }
    }

    /// Where a file is for system calls: in the same directory as all others, whatever has its name by now.
    fn at(&self, name: &str) -> PathBuf {
        let Self::Directory { path, held, .. } = self else { return name.into() };
        if held.get().is_none()
            && let Some(directory) = Directory::of(path)
        {
            // Another thread may have been faster.
            let _set = held.set(directory);
        }
        held.get().map_or(path, |held| &held.path).join(name)
    }

    /// Creates an empty file; an abandoned one of that name is unlinked first.
    pub fn create(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory { path, observer, .. } => {
                let (path, at) = (path.join(name), self.at(name));
                let create = || {
                    tell(observer, Operation::Create { file: &path.to_string_lossy() })?;
                    match fs::remove_file(&at) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                    OpenOptions::new().read(true).write(true).create_new(true).open(&at)
                };
                let file = create().map_err(|error| {
                    write_error(&error, format_args!("cannot create \"{}\"", path.display()))
                })?;
                Ok(File::new(file, &path.to_string_lossy(), observer))
            }
            Self::Memory(files, _) => {
                let file = File::in_memory()
                    .map_err(|error| Error::from_io(&error, "cannot create a memory file"))?;
                let file = File::new(file, name, &None);
                lock(files).insert(name.to_string(), file.clone());
                Ok(file)
            }
        }
    }

    /// Opens an existing file, for writing too unless the store is read-only.
    pub fn open(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory { path, read_only, observer, .. } => {
                let (path, at) = (path.join(name), self.at(name));
                let file = OpenOptions::new().read(true).write(!read_only).open(at).map_err(|error| {
                    Error::from_io(&error, format_args!("cannot open \"{}\"", path.display()))
                })?;
                Ok(File::new(file, &path.to_string_lossy(), observer))
            }
            Self::Memory(files, _) => lock(files)
                .get(name)
                .cloned()
                .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no file \"{name}\" in memory"))),
        }
    }

    /// Unlinks a file; its space is given back when the last descriptor and mapping are gone.
    pub fn remove(&self, name: &str) -> Result<()> {
        match self {
            Self::Directory { path, observer, .. } => {
                let path = path.join(name);
                let operation = Operation::Remove { file: &path.to_string_lossy() };
                match tell(observer, operation).and_then(|()| fs::remove_file(self.at(name))) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(Error::from_io(&error, format_args!("cannot remove \"{}\"", path.display())))
                    }
                    _ => Ok(()),
                }
            }
            Self::Memory(files, _) => {
                lock(files).remove(name);
                Ok(())
            }
        }
    }

    /// Gives a file another name, in the place of a file that has it; not durable by itself.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        match self {
            Self::Directory { path, observer, .. } => {
                let at = (self.at(from), self.at(to));
                let (from, to) = (path.join(from), path.join(to));
                let operation =
                    Operation::Rename { from: &from.to_string_lossy(), to: &to.to_string_lossy() };
                tell(observer, operation).and_then(|()| fs::rename(&at.0, &at.1)).map_err(|error| {
                    Error::from_io(&error, format_args!("cannot rename \"{}\"", from.display()))
                })
            }
            Self::Memory(files, _) => {
                let mut files = lock(files);
                let file = files.remove(from);
                files.extend(file.map(|file| (to.to_string(), file)));
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
        self.rename(&temporary, name)?;
        self.sync_directory("")
    }

    /// The names of the files in a directory of the store (`""` is its root).
    pub fn list(&self, directory: &str) -> Result<Vec<String>> {
        match self {
            Self::Directory { path, .. } => {
                let path = path.join(directory);
                let doing = || format!("cannot list \"{}\"", path.display());
                let mut names = Vec::new();
                for entry in
                    fs::read_dir(self.at(directory)).map_err(|error| Error::from_io(&error, doing()))?
                {
                    let entry = entry.map_err(|error| Error::from_io(&error, doing()))?;
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
                Ok(names)
            }
            Self::Memory(files, _) => {
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
        if let Self::Directory { path, observer, .. } = self {
            let path = path.join(name);
            let operation = Operation::CreateDirectory { directory: &path.to_string_lossy() };
            tell(observer, operation).and_then(|()| fs::create_dir_all(self.at(name))).map_err(|error| {
                write_error(&error, format_args!("cannot create the directory \"{}\"", path.display()))
            })?;
        }
        Ok(())
    }

    /// Removes a directory and all files in it.
    pub fn remove_directory(&self, name: &str) -> Result<()> {
        match self {
            Self::Directory { path, observer, .. } => {
                let path = path.join(name);
                let operation = Operation::RemoveDirectory { directory: &path.to_string_lossy() };
                match tell(observer, operation).and_then(|()| fs::remove_dir_all(self.at(name))) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(Error::from_io(&error, format_args!("cannot remove \"{}\"", path.display())))
                    }
                    _ => Ok(()),
                }
            }
            Self::Memory(files, _) => {
                let prefix = format!("{name}/");
                lock(files).retain(|file, _| !file.starts_with(&prefix));
                Ok(())
            }
        }
    }

    /// Makes creations, renames and removals in a directory durable.
    pub fn sync_directory(&self, name: &str) -> Result<()> {
        if let Self::Directory { path, observer, .. } = self {
            let path = path.join(name);
            let operation = Operation::SyncDirectory { directory: &path.to_string_lossy() };
            let sync = || fs::File::open(self.at(name))?.sync_all();
            tell(observer, operation).and_then(|()| sync()).map_err(|error| {
                Error::from_io(&error, format_args!("cannot sync the directory \"{}\"", path.display()))
            })?;
        }
        Ok(())
    }

    /// A file to be locked; `None` for a store in memory, which no other process has.
    pub fn lock_file(&self, name: &str) -> Result<Option<LockFile>> {
        match self {
            Self::Directory { .. } => Ok(Some(LockFile(self.open_for_lock(name)?))),
            Self::Memory(..) => Ok(None),
        }
    }

    /// Takes the exclusive lock of what has a name now, a file or directory; `None` when someone has it. It dies with
    /// its owner (`flock`, never `fcntl`, whose locks vanish when any descriptor of the file closes).
    pub fn try_lock(&self, name: &str) -> Result<Option<Lock>> {
        match self {
            Self::Directory { .. } => loop {
                let file = self.open_for_lock(name)?;
                match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) if self.is_named(&file, name)? => {
                        return Ok(Some(Lock(Held::File { _file: file })));
                    }
                    // It was removed before it was locked.
                    Ok(()) => {}
                    Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                    Err(error) => return Err(lock_error(error, name)),
                }
            },
            Self::Memory(_, locks) => {
                let free = lock(locks).insert(name.to_string());
                Ok(free.then(|| Lock(Held::Memory(locks.clone(), name.to_string()))))
            }
        }
    }

    fn is_named(&self, file: &fs::File, name: &str) -> Result<bool> {
        let path = self.at(name);
        let found = fs::metadata(&path).and_then(|named| Ok((named, file.metadata()?)));
        match found {
            Ok((named, locked)) => Ok((named.dev(), named.ino()) == (locked.dev(), locked.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::from_io(&error, format_args!("cannot look at \"{}\"", path.display()))),
        }
    }

    /// Waits for a shared lock of a file or directory, which keeps others from [`Self::try_lock`]. Who may only read
    /// can take it, too. `None` for a store in memory, which no other process has.
    pub fn lock_shared(&self, name: &str) -> Result<Option<Lock>> {
        let Self::Directory { .. } = self else { return Ok(None) };
        let file = self.open_for_lock(name)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockShared) {
                Ok(()) => return Ok(Some(Lock(Held::File { _file: file }))),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(lock_error(error, name)),
            }
        }
    }

    fn open_for_lock(&self, name: &str) -> Result<fs::File> {
        let path = self.path().unwrap_or(Path::new("")).join(name);
        fs::File::open(self.at(name))
            .map_err(|error| Error::from_io(&error, format_args!("cannot open \"{}\"", path.display())))
    }

    /// Opens a file for reading and writing, and makes an empty one where there is none.
    pub fn open_or_create(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory { path, observer, .. } => {
                let (path, at) = (path.join(name), self.at(name));
                let mut options = OpenOptions::new();
                options.read(true).write(true);
                let file = options.open(&at).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => {
                        tell(observer, Operation::Create { file: &path.to_string_lossy() })?;
                        // Another process may have been faster.
                        options.create(true).truncate(false).open(&at)
                    }
                    _ => Err(error),
                });
                let file = file.map_err(|error| {
                    write_error(&error, format_args!("cannot open \"{}\" for writing", path.display()))
                })?;
                Ok(File::new(file, &path.to_string_lossy(), observer))
            }
            Self::Memory(files, _) => {
                let found = lock(files).get(name).cloned();
                found.map_or_else(|| self.create(name), Ok)
            }
        }
    }

    /// Creates a directory; false when there is one of that name.
    ///
    /// A store in memory has no directories, and says that there was none.
    pub fn create_new_directory(&self, name: &str) -> Result<bool> {
        let Self::Directory { path, observer, .. } = self else { return Ok(true) };
        let path = path.join(name);
        let operation = Operation::CreateDirectory { directory: &path.to_string_lossy() };
        match tell(observer, operation).and_then(|()| fs::create_dir(self.at(name))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::from_io(
                &error,
                format_args!("cannot create the directory \"{}\"", path.display()),
            )),
        }
    }

    /// Whether the store is on a network file system, whose locks and mappings cannot be relied on; its name.
    pub fn network_file_system(&self) -> Option<&'static str> {
        network_name(rustix::fs::statfs(self.path()?).ok()?.f_type as u32)
    }
}

/// The name of a network file system, by its magic number of statfs(2).
fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0xFF53_4D42 => "CIFS",
        0xFE53_4D42 | 0x517B => "SMB",
        0x0102_1997 => "9P",
        0x00C3_6400 => "Ceph",
        0x6573_5546 => "FUSE",
        0x0BD0_0BD0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x5346_414F => "AFS",
        0x1983_0326 => "BeeGFS",
        0x786F_4256 => "a folder of VirtualBox",
        _ => return None,
    })
}

/// Who may not write has a database for reading.
fn write_error(error: &io::Error, doing: impl std::fmt::Display) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(ErrorKind::ReadOnly, format!("{doing}: {error}")),
        _ => Error::from_io(error, doing),
    }
}

fn lock_error(error: rustix::io::Errno, name: &str) -> Error {
    Error::from_io(&error.into(), format_args!("cannot lock \"{name}\""))
}

/// A number that changes with every restart of the machine.
pub fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut id = [0; 16];
    let digits = text.bytes().filter_map(|byte| char::from(byte).to_digit(16));
    for (position, digit) in digits.take(32).enumerate() {
        id[position / 2] = id[position / 2] << 4 | digit as u8;
    }
    id
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in it is whole after any panic: each operation on it is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn stores() -> (tempfile::TempDir, [Store; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = Store::directory(directory.path(), false);
        (directory, [on_disk, Store::memory()])
    }

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for (magic, name) in
            [(0x6969, "NFS"), (0xFE53_4D42, "SMB"), (0x0102_1997, "9P"), (0x6573_5546, "FUSE")]
        {
            assert_eq!(network_name(magic), Some(name));
        }
        // ext4, XFS, Btrfs, tmpfs, overlay.
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630] {
            assert_eq!(network_name(local), None);
        }
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

    /// Fails when it is told of what it does not want.
    #[derive(Debug)]
    struct NoRename(Mutex<Vec<String>>);

    impl Observer for NoRename {
        fn before(&self, operation: Operation<'_>) -> io::Result<()> {
            lock(&self.0).push(format!("{operation:?}"));
            match operation {
                Operation::Rename { .. } => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn an_observer_is_told_of_operations_and_stops_them() {
        let directory = tempfile::tempdir().unwrap();
        let observer = Arc::new(NoRename(Mutex::default()));
        let store = Store::directory(directory.path(), false).observed(Some(observer.clone()));
        assert_eq!(store.replace("a", b"one").unwrap_err().kind(), ErrorKind::DiskFull);
        assert_eq!(store.list("").unwrap(), ["a.new"]);
        let path = directory.path().join("a").display().to_string();
        let told = lock(&observer.0);
        assert_eq!(told[0], format!("Create {{ file: \"{path}.new\" }}"));
        assert_eq!(told[3], format!("Rename {{ from: \"{path}.new\", to: \"{path}\" }}"));
        assert_eq!(told.len(), 4, "{told:?}");
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
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let (_directory, stores) = stores();
        for store in stores {
            store.create("L").unwrap();
            let held = store.try_lock("L").unwrap().unwrap();
            assert!(store.try_lock("L").unwrap().is_none());
            drop(held);
            assert!(store.try_lock("L").unwrap().is_some());
        }
    }

    #[test]
    fn a_lock_is_of_what_has_the_name_and_not_of_what_had_it() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Ok(Some(_lock)) = store.try_lock("d") {
                        store.remove_directory("d").unwrap();
                    }
                }
            });
            let mut locked = 0;
            let mut kept = true;
            while locked < 3000 && kept {
                store.create_new_directory("d").unwrap();
                if let Ok(Some(_lock)) = store.try_lock("d") {
                    locked += 1;
                    kept = directory.path().join("d").exists();
                }
            }
            done.store(true, Ordering::Relaxed);
            assert!(kept, "it was removed although it is locked");
        });
    }

    #[test]
    fn a_shared_lock_keeps_out_who_wants_an_exclusive_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), true);
        let held = [store.lock_shared("").unwrap().unwrap(), store.lock_shared("").unwrap().unwrap()];
        assert!(store.try_lock("").unwrap().is_none());
        drop(held);
        assert!(store.try_lock("").unwrap().is_some());
        assert!(Store::memory().lock_shared("").unwrap().is_none());
    }

    #[test]
    fn a_lock_file_waits_for_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false);
        store.create("L").unwrap();
        let (one, other) = (store.lock_file("L").unwrap().unwrap(), store.lock_file("L").unwrap().unwrap());
        let held = one.lock().unwrap();
        assert!(store.try_lock("L").unwrap().is_none());
        assert!(other.try_lock().unwrap().is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| other.wait().is_ok() && other.lock().is_ok());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn directories_can_be_locked_and_are_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false);
        assert!(store.create_new_directory("d").unwrap());
        assert!(!store.create_new_directory("d").unwrap());
        let _held = store.try_lock("d").unwrap().unwrap();
        assert!(store.try_lock("d").unwrap().is_none());
        assert_eq!(store.network_file_system(), None);
        assert_ne!(boot_id(), [0; 16]);
    }
}
