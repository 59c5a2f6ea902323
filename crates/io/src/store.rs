//! A flat name space of files: a directory on disk or memfds.

use crate::File;
use crate::directory::{Access, Directory, Identity, error_of, write_error};
use crate::lock::{Waiting, try_flock, wait_for};
use crate::observer::{Observed, Observer, Operation, tell};
use crate::pool::{Pool, Pooled};
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a database keeps its files.
#[derive(Debug)]
pub enum Store {
    Directory(OnDisk),
    /// Each file is a memfd. Unlinking drops it; mappings live on.
    Memory(Mutex<HashMap<String, File>>, Arc<MemoryLocks>),
}

/// A directory on disk: the one that was opened, even if another has its name by now.
#[derive(Debug)]
pub struct OnDisk {
    /// The path, for messages and for opening the directory anew.
    path: PathBuf,
    directory: Arc<Directory>,
    pool: Arc<Pool>,
    read_only: bool,
    observer: Observed,
}

/// The locks of a store in memory, by name.
type MemoryLocks = Mutex<HashSet<String>>;

/// A file whose exclusive lock is taken repeatedly, by one thread of the process at a time.
#[derive(Debug)]
pub struct LockFile {
    file: fs::File,
    name: String,
}

/// The lock of a [`LockFile`], held until dropped or until the process dies.
#[derive(Debug)]
pub struct LockFileGuard<'a>(&'a LockFile);

impl LockFile {
    /// Waits for the lock.
    ///
    /// # Errors
    /// `Busy` when the wait has been too long, with the name of the process that has the lock; or
    /// the error of the question that has ended it.
    pub fn lock(&self, waiting: &mut Waiting) -> Result<LockFileGuard<'_>> {
        wait_for(&self.file, FlockOperation::NonBlockingLockExclusive, &self.name, waiting)?;
        Ok(LockFileGuard(self))
    }

    /// Tries to take the lock. Returns `None` when another process has it.
    pub fn try_lock(&self) -> Result<Option<LockFileGuard<'_>>> {
        let locked = try_flock(&self.file, FlockOperation::NonBlockingLockExclusive, &self.name)?;
        Ok(locked.then_some(LockFileGuard(self)))
    }

    /// Waits until nobody has the lock.
    ///
    /// # Errors
    /// The errors of [`Self::lock`].
    pub fn wait(&self, waiting: &mut Waiting) -> Result<()> {
        wait_for(&self.file, FlockOperation::NonBlockingLockShared, &self.name, waiting)?;
        drop(LockFileGuard(self));
        Ok(())
    }

    /// Names the process that has the lock, as far as the system tells, for messages.
    pub fn holder(&self) -> String {
        crate::lock::holder_of(&self.file)
    }
}

impl Drop for LockFileGuard<'_> {
    fn drop(&mut self) {
        // This fails only for an invalid descriptor.
        let _unlocked = rustix::fs::flock(&self.0.file, FlockOperation::Unlock);
    }
}

/// A lock of a file or directory, held until dropped or until the process dies.
#[derive(Debug)]
pub struct Lock(Held);

#[derive(Debug)]
enum Held {
    File { file: fs::File, process: u32 },
    Memory(Arc<MemoryLocks>, String),
}

impl Held {
    fn of_file(file: fs::File) -> Self {
        Self::File { file, process: std::process::id() }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        match &self.0 {
            // A program that is being started has all descriptors for a moment, so closing this one
            // does not end the `flock` yet. A child of fork() must not end the lock of its parent.
            Held::File { file, process } if *process == std::process::id() => {
                // This fails only for an invalid descriptor.
                let _unlocked = rustix::fs::flock(file, FlockOperation::Unlock);
            }
            Held::File { .. } => {}
            Held::Memory(locks, name) => {
                lock(locks).remove(name);
            }
        }
    }
}

impl OnDisk {
    /// Returns the name of a file or directory in messages and for observers.
    fn shown(&self, name: &str) -> String {
        self.path.join(name).to_string_lossy().into_owned()
    }

    #[cfg(test)]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn access(&self) -> Access {
        if self.read_only { Access::Read } else { Access::Write }
    }

    fn create(&self, name: &str) -> Result<fs::File> {
        let path = self.shown(name);
        let create = || {
            tell(&self.observer, Operation::Create { file: &path })?;
            match self.directory.remove_file(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.directory.create_file(name)
        };
        create().map_err(|error| write_error(&error, format_args!("cannot create \"{path}\"")))
    }

    fn open(&self, name: &str) -> Result<fs::File> {
        self.directory
            .open_file(name, self.access())
            .map_err(|error| error_of(&error, format_args!("cannot open \"{}\"", self.shown(name))))
    }

    fn open_or_create(&self, name: &str) -> Result<fs::File> {
        let path = self.shown(name);
        let open = || self.directory.open_file(name, Access::Write);
        let create = || {
            tell(&self.observer, Operation::Create { file: &path })?;
            match self.directory.create_file(name) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open(),
                created => created,
            }
        };
        let file = open().or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => create(),
            _ => Err(error),
        });
        file.map_err(|error| write_error(&error, format_args!("cannot open \"{path}\" for writing")))
    }

    /// Wraps a file that keeps its descriptor.
    fn kept(&self, name: &str, file: fs::File) -> File {
        File::new(file, &self.shown(name), &self.observer)
    }

    /// Wraps a file whose descriptor may be closed and opened again.
    fn pooled(&self, name: &str, access: Access, file: fs::File) -> Result<File> {
        let path = self.shown(name);
        match Pooled::new(&self.directory, &self.pool, name, access, file) {
            Ok(file) => Ok(File::pooled(file, &path, &self.observer)),
            Err(error) => Err(error_of(&error, format_args!("cannot open \"{path}\""))),
        }
    }

    fn open_for_lock(&self, name: &str) -> Result<fs::File> {
        self.directory
            .open_for_lock(name)
            .map_err(|error| error_of(&error, format_args!("cannot open \"{}\"", self.shown(name))))
    }

    fn try_lock(&self, name: &str) -> Result<Option<Lock>> {
        loop {
            let file = self.open_for_lock(name)?;
            if !try_flock(&file, FlockOperation::NonBlockingLockExclusive, &self.shown(name))? {
                return Ok(None);
            }
            if self.is_named(&file, name)? {
                return Ok(Some(Lock(Held::of_file(file))));
            }
            // The file was removed before it was locked.
        }
    }

    fn is_named(&self, file: &fs::File, name: &str) -> Result<bool> {
        let found = self.directory.identity(name).and_then(|named| Ok(named == Identity::of(file)?));
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found
                .map_err(|error| error_of(&error, format_args!("cannot look at \"{}\"", self.shown(name)))),
        }
    }
}

impl Store {
    pub fn memory() -> Self {
        Self::Memory(Mutex::new(HashMap::new()), Arc::default())
    }

    /// Opens an existing directory. Its path may lead through symbolic links, but the names in it
    /// may not. Tests let an observer watch the operations on disk.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn directory(
        path: impl Into<PathBuf>,
        read_only: bool,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self> {
        let path = path.into();
        let directory = Directory::open(&path).map_err(|error| {
            Error::from_io(&error, format_args!("cannot open the directory \"{}\"", path.display()))
        })?;
        let (directory, pool) = (Arc::new(directory), Arc::default());
        Ok(Self::Directory(OnDisk { path, directory, pool, read_only, observer }))
    }

    /// Opens a directory as [`Self::directory`] does, for writing. Creates it if it is
    /// missing.
    ///
    /// # Errors
    /// `NotFound` without the directory that it would be in; `ReadOnly`, `DiskFull`, `Io`.
    pub fn new_directory(path: impl Into<PathBuf>, observer: Option<Arc<dyn Observer>>) -> Result<Self> {
        let path = path.into();
        let operation = Operation::CreateDirectory { directory: &path.to_string_lossy() };
        tell(&observer, operation).and_then(|()| Directory::create(&path)).map_err(|error| {
            let above = path.parent().filter(|above| error.kind() == io::ErrorKind::NotFound && !above.exists());
            match above {
                Some(above) => Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "there is no directory \"{}\", in which the database \"{}\" would be made; make it first",
                        above.display(),
                        path.display()
                    ),
                ),
                None => write_error(&error, format_args!("cannot create the directory \"{}\"", path.display())),
            }
        })?;
        Self::directory(path, false, observer)
    }

    /// Returns the observer of this store.
    pub fn observer(&self) -> Option<Arc<dyn Observer>> {
        match self {
            Self::Directory(disk) => disk.observer.clone(),
            Self::Memory(..) => None,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Directory(disk) => Some(&disk.path),
            Self::Memory(..) => None,
        }
    }

    /// Says who besides its owner may replace the files of the directory.
    ///
    /// # Errors
    /// The errors of asking for its mode.
    pub fn is_writable_by(&self) -> Result<Option<&'static str>> {
        let Self::Directory(disk) = self else { return Ok(None) };
        disk.directory
            .is_writable_by()
            .map_err(|error| error_of(&error, format_args!("cannot look at \"{}\"", disk.path.display())))
    }

    /// Returns the bytes of the files that are kept in memory.
    ///
    /// # Errors
    /// The errors of asking how much memory a file takes.
    pub fn memory_bytes(&self) -> Result<u64> {
        match self {
            Self::Directory(_) => Ok(0),
            Self::Memory(files, _) => lock(files).values().map(File::allocated).sum(),
        }
    }

    /// Creates an empty file. An abandoned file of that name is unlinked first.
    pub fn create(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory(disk) => Ok(disk.kept(name, disk.create(name)?)),
            Self::Memory(files, _) => {
                let file = File::in_memory()
                    .map_err(|error| Error::from_io(&error, "cannot create a memory file"))?;
                let file = File::new(file, name, &None);
                lock(files).insert(name.to_string(), file.clone());
                Ok(file)
            }
        }
    }

    /// Creates a file as [`Self::create`] does, for one of many files that are in use at the same
    /// time. They share a number of descriptors.
    pub fn create_pooled(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory(disk) => disk.pooled(name, Access::Write, disk.create(name)?),
            Self::Memory(..) => self.create(name),
        }
    }

    /// Opens an existing file, also for writing unless the store is read-only.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` for a file that is not regular, or that is opened for writing and has
    /// another name; `Io`.
    pub fn open(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory(disk) => Ok(disk.kept(name, disk.open(name)?)),
            Self::Memory(files, _) => lock(files)
                .get(name)
                .cloned()
                .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no file \"{name}\" in memory"))),
        }
    }

    /// Opens a file as [`Self::open`] does, for one of many files that are in use at the same time.
    /// They share a number of descriptors.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
    pub fn open_pooled(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory(disk) => disk.pooled(name, disk.access(), disk.open(name)?),
            Self::Memory(..) => self.open(name),
        }
    }

    /// Unlinks a file. Its space is freed when the last descriptor and mapping are gone.
    pub fn remove(&self, name: &str) -> Result<()> {
        match self {
            Self::Directory(disk) => {
                let path = disk.shown(name);
                let operation = Operation::Remove { file: &path };
                match tell(&disk.observer, operation).and_then(|()| disk.directory.remove_file(name)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(error_of(&error, format_args!("cannot remove \"{path}\"")))
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

    /// Renames a file, and replaces a file that has the new name. The rename is not durable by
    /// itself.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        match self {
            Self::Directory(disk) => {
                let (shown_from, shown_to) = (disk.shown(from), disk.shown(to));
                let operation = Operation::Rename { from: &shown_from, to: &shown_to };
                tell(&disk.observer, operation)
                    .and_then(|()| disk.directory.rename(from, to))
                    .map_err(|error| error_of(&error, format_args!("cannot rename \"{shown_from}\"")))
            }
            Self::Memory(files, _) => {
                let mut files = lock(files);
                let file = files.remove(from);
                files.extend(file.map(|file| (to.to_string(), file)));
                Ok(())
            }
        }
    }

    /// Replaces the content of `name` by `bytes`, atomically and durably.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let temporary = format!("{name}.new");
        let file = self.create(&temporary)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        self.rename(&temporary, name)?;
        self.sync_directory("")
    }

    /// Lists the names of the files in a directory of the store (`""` is its root).
    pub fn list(&self, directory: &str) -> Result<Vec<String>> {
        match self {
            Self::Directory(disk) => disk
                .directory
                .list(directory)
                .map_err(|error| error_of(&error, format_args!("cannot list \"{}\"", disk.shown(directory)))),
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

    /// Creates a directory, unless there is one.
    pub fn create_directory(&self, name: &str) -> Result<()> {
        self.create_new_directory(name).map(|_is_new| ())
    }

    /// Removes the files of a directory whose names `is_ours` accepts, and the directory if it has
    /// no others.
    pub fn remove_directory(&self, name: &str, is_ours: impl Fn(&str) -> bool) -> Result<()> {
        match self {
            Self::Directory(disk) => {
                let path = disk.shown(name);
                let operation = Operation::RemoveDirectory { directory: &path };
                let remove = || disk.directory.remove_directory(name, &is_ours);
                match tell(&disk.observer, operation).and_then(|()| remove()) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(error_of(&error, format_args!("cannot remove \"{path}\"")))
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
        self.sync_by(name, |directory| directory.sync(name))
    }

    /// Makes the directory's own name durable, which is an entry of its parent.
    pub fn sync_above(&self) -> Result<()> {
        self.sync_by("..", Directory::sync_above)
    }

    fn sync_by(&self, name: &str, sync: impl Fn(&Directory) -> io::Result<()>) -> Result<()> {
        let Self::Directory(disk) = self else { return Ok(()) };
        let path = disk.shown(name);
        let operation = Operation::SyncDirectory { directory: &path };
        tell(&disk.observer, operation)
            .and_then(|()| sync(&disk.directory))
            .map_err(|error| error_of(&error, format_args!("cannot sync the directory \"{path}\"")))
    }

    /// Opens a file to lock it. Returns `None` for a store in memory, which no other process has.
    pub fn lock_file(&self, name: &str) -> Result<Option<LockFile>> {
        match self {
            Self::Directory(disk) => {
                Ok(Some(LockFile { file: disk.open_for_lock(name)?, name: disk.shown(name) }))
            }
            Self::Memory(..) => Ok(None),
        }
    }

    /// Takes the exclusive lock of the file or directory that has a name now. Returns `None` when
    /// another process has it. The lock dies with its owner (`flock`, never `fcntl`, whose locks
    /// vanish when any descriptor of the file closes).
    pub fn try_lock(&self, name: &str) -> Result<Option<Lock>> {
        match self {
            Self::Directory(disk) => disk.try_lock(name),
            Self::Memory(_, locks) => {
                let free = lock(locks).insert(name.to_string());
                Ok(free.then(|| Lock(Held::Memory(locks.clone(), name.to_string()))))
            }
        }
    }

    /// Waits for a shared lock of a file or directory, which keeps others from [`Self::try_lock`].
    /// Read permission is enough. Returns `None` for a store in memory, which no other process has.
    ///
    /// # Errors
    /// The errors of [`LockFile::lock`].
    pub fn lock_shared(&self, name: &str) -> Result<Option<Lock>> {
        let Self::Directory(disk) = self else { return Ok(None) };
        let file = disk.open_for_lock(name)?;
        let operation = FlockOperation::NonBlockingLockShared;
        wait_for(&file, operation, &disk.shown(name), &mut Waiting::begin())?;
        Ok(Some(Lock(Held::of_file(file))))
    }

    /// Opens a file for reading and writing, and creates an empty one if it is missing.
    pub fn open_or_create(&self, name: &str) -> Result<File> {
        match self {
            Self::Directory(disk) => Ok(disk.kept(name, disk.open_or_create(name)?)),
            Self::Memory(files, _) => {
                let found = lock(files).get(name).cloned();
                found.map_or_else(|| self.create(name), Ok)
            }
        }
    }

    /// Creates a directory. Returns false when the name is taken.
    ///
    /// A store in memory has no directories, and says that there was none.
    pub fn create_new_directory(&self, name: &str) -> Result<bool> {
        let Self::Directory(disk) = self else { return Ok(true) };
        let path = disk.shown(name);
        let operation = Operation::CreateDirectory { directory: &path };
        match tell(&disk.observer, operation).and_then(|()| disk.directory.create_directory(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(write_error(&error, format_args!("cannot create the directory \"{path}\""))),
        }
    }

    /// Returns the name of the network file system that the store is on, whose locks and mappings
    /// cannot be relied on.
    pub fn network_file_system(&self) -> Option<&'static str> {
        let Self::Directory(disk) = self else { return None };
        network_name(disk.directory.file_system().ok()?)
    }
}

/// Returns the name of a network file system, by its magic number of statfs(2).
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

/// Returns a number that changes with every restart of the machine.
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
    // The content is whole after any panic: each operation on it is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn stores() -> (tempfile::TempDir, [Store; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = Store::directory(directory.path(), false, None).unwrap();
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
    fn a_mapping_lies_where_the_caller_has_reserved_pages_and_changes_no_file() {
        let (_directory, stores) = stores();
        let page = rustix::param::page_size();
        for store in stores {
            let file = store.create("a").unwrap();
            file.write_at(0, b"hello").unwrap();
            let mut reserved = memmap2::MmapMut::map_anon(2 * page).unwrap();
            reserved.fill(7);
            let second = reserved.as_mut_ptr().wrapping_add(page);
            // SAFETY: the pages are those of `reserved`, which lives on.
            unsafe { file.map_private_at(5, second.cast()) }.unwrap();
            assert_eq!(&reserved[page - 1..page + 5], b"\x07hello");
            reserved[page] = b'j';
            assert_eq!(file.map(5).unwrap().as_ref(), b"hello");
            // SAFETY: they are refused before anything is mapped.
            unsafe {
                let within = file.map_private_at(5, second.wrapping_add(8).cast());
                assert_eq!(within.unwrap_err().kind(), ErrorKind::InvalidInput);
                assert_eq!(file.map_private_at(6, second.cast()).unwrap_err().kind(), ErrorKind::Corrupt);
            }
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

    /// Fails on an operation that it does not expect.
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
        let store = Store::directory(directory.path(), false, Some(observer.clone())).unwrap();
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
    fn a_lock_ends_though_a_program_that_is_being_started_has_its_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false, None).unwrap();
        store.create("L").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
            let all_free = (0..5000).all(|_| store.try_lock("L").unwrap().is_some());
            done.store(true, Ordering::Relaxed);
            assert!(all_free, "a lock that was dropped is still there");
        });
    }

    #[test]
    fn a_lock_is_of_what_has_the_name_and_not_of_what_had_it() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false, None).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Ok(Some(_lock)) = store.try_lock("d") {
                        store.remove_directory("d", |_| true).unwrap();
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
        let store = Store::directory(directory.path(), true, None).unwrap();
        let held = [store.lock_shared("").unwrap().unwrap(), store.lock_shared("").unwrap().unwrap()];
        assert!(store.try_lock("").unwrap().is_none());
        drop(held);
        assert!(store.try_lock("").unwrap().is_some());
        assert!(Store::memory().lock_shared("").unwrap().is_none());
    }

    #[test]
    fn a_lock_file_waits_for_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false, None).unwrap();
        store.create("L").unwrap();
        let (one, other) = (store.lock_file("L").unwrap().unwrap(), store.lock_file("L").unwrap().unwrap());
        let held = one.lock(&mut Waiting::begin()).unwrap();
        assert!(store.try_lock("L").unwrap().is_none());
        assert!(other.try_lock().unwrap().is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                other.wait(&mut Waiting::begin()).is_ok() && other.lock(&mut Waiting::begin()).is_ok()
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn directories_can_be_locked_and_are_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::directory(directory.path(), false, None).unwrap();
        assert!(store.create_new_directory("d").unwrap());
        assert!(!store.create_new_directory("d").unwrap());
        let _held = store.try_lock("d").unwrap().unwrap();
        assert!(store.try_lock("d").unwrap().is_none());
        assert_eq!(store.network_file_system(), None);
        assert_ne!(boot_id(), [0; 16]);
    }
}
