//! The directory of a store on disk. Nothing outside it is reached through it: every name is
//! resolved below the directory that was opened at first, without symbolic links, and only regular
//! files are opened.

use hypostyle_types::{Error, ErrorKind};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mode of new files: they belong to their user alone.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory with this bit is shared with its group on purpose.
const SET_GROUP_ID: u32 = 0o2000;

const GROUP: u32 = 0o070;
const GROUP_READS_AND_WRITES: u32 = 0o060;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// How often an operation is tried again that a rename elsewhere has disturbed.
const ATTEMPTS: usize = 16;

/// An open directory, even if another directory has its name by now.
#[derive(Debug)]
pub(crate) struct Directory {
    held: OwnedFd,
    file_mode: u32,
    directory_mode: u32,
    /// Says that the kernel is older than 5.6, or that a sandbox does not know the call.
    no_openat2: AtomicBool,
}

/// Identifies the file behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
    /// The time of creation, because file systems reuse the number of a deleted file.
    born: Option<(i64, u32)>,
}

impl Identity {
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        // No other time is asked for: see `File::is_removed`.
        let found = look_at(file, StatxFlags::INO | StatxFlags::BTIME)?;
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Ok(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: has_birth.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
        })
    }

    /// Returns the numbers as `/proc/locks` has them: device and inode, and the inode alone.
    pub fn in_proc(self) -> (String, String) {
        let (major, minor) = self.device;
        (format!("{major:02x}:{minor:02x}:{}", self.inode), format!(":{}", self.inode))
    }
}

/// The purpose of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Directory {
    /// Opens the directory of a path. The path may lead through symbolic links, because it is the
    /// caller's own.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = rustix::fs::open(path, flags, Mode::empty())?;
        let mode = u32::from(look_at(&held, StatxFlags::MODE)?.stx_mode);
        let shared = if mode & SET_GROUP_ID != 0 { mode & GROUP } else { 0 };
        Ok(Self {
            held,
            file_mode: FILE_MODE | shared & GROUP_READS_AND_WRITES,
            directory_mode: DIRECTORY_MODE | shared,
            no_openat2: AtomicBool::new(false),
        })
    }

    /// Creates the directory of a path. The directory that it is in has to be there: a name that is
    /// misspelt, or a disk that is not mounted, is no place for a new database.
    pub fn create(path: &Path) -> io::Result<()> {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Err(Errno::EXIST) if path.is_dir() => Ok(()),
            made => made.map_err(Into::into),
        }
    }

    /// Says who besides its owner may replace files in the directory.
    pub fn is_writable_by(&self) -> io::Result<Option<&'static str>> {
        let mode = u32::from(look_at(&self.held, StatxFlags::MODE)?.stx_mode);
        Ok(match mode {
            mode if mode & OTHERS_WRITE != 0 => Some("everybody"),
            mode if mode & GROUP_WRITES != 0 && mode & SET_GROUP_ID == 0 => Some("its group"),
            _ => None,
        })
    }

    pub fn file_system(&self) -> io::Result<u32> {
        Ok(rustix::fs::fstatfs(&self.held)?.f_type as u32)
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// `InvalidData` when it is not a regular file, or when it is opened for writing and has other
    /// names.
    pub fn open_file(&self, name: &str, access: Access) -> io::Result<fs::File> {
        // Other kinds of files are not opened at all: opening them may have an effect, or block.
        let mask = StatxFlags::TYPE | StatxFlags::NLINK;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        check_file(&rustix::fs::statx(&self.held, name, flags, mask)?, access)?;
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        let file = self.open_beneath(name, flags, Mode::empty())?;
        check_file(&look_at(&file, mask)?, access)?;
        Ok(file.into())
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    pub fn create_file(&self, name: &str) -> io::Result<fs::File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(self.file_mode);
        let file = self.open_beneath(name, flags, mode)?;
        if self.file_mode != FILE_MODE {
            rustix::fs::fchmod(&file, mode)?;
        }
        Ok(file.into())
    }

    /// Opens a regular file or a directory for locking it.
    pub fn open_for_lock(&self, name: &str) -> io::Result<fs::File> {
        match self.kind(name)? {
            FileType::Directory => self.open_directory(name).map(Into::into),
            _ => self.open_file(name, Access::Read),
        }
    }

    /// Returns the kind of file that has a name now; links are not followed.
    fn kind(&self, name: &str) -> io::Result<FileType> {
        if name.is_empty() {
            return Ok(FileType::Directory);
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        Ok(kind_of(&rustix::fs::statx(&self.held, name, flags, StatxFlags::TYPE)?))
    }

    /// Identifies the file that has a name now.
    pub fn identity(&self, name: &str) -> io::Result<Identity> {
        if name.is_empty() {
            return Identity::of(&self.held);
        }
        Identity::of(self.open_beneath(name, OFlags::PATH, Mode::empty())?)
    }

    /// Lists the names in a directory (`""` is the held one).
    pub fn list(&self, name: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.open_directory(name)?)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Unlinks a file; directories are refused.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        let (within, last) = self.place(name)?;
        Ok(rustix::fs::unlinkat(within.descriptor(self), last, AtFlags::empty())?)
    }

    /// Unlinks the files of a directory that `is_ours` accepts, and the directory if nothing else
    /// is in it. Does not enter directories in it.
    pub fn remove_directory(&self, name: &str, is_ours: &dyn Fn(&str) -> bool) -> io::Result<()> {
        let directory = self.open_directory(name)?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let is_removed = entry.file_name().to_str().is_ok_and(is_ours);
            match is_removed.then(|| rustix::fs::unlinkat(&directory, entry.file_name(), AtFlags::empty())) {
                // A directory in it is not ours, whatever its name.
                None | Some(Ok(()) | Err(Errno::NOENT | Errno::ISDIR)) => {}
                Some(Err(error)) => return Err(error.into()),
            }
        }
        let (within, last) = self.place(name)?;
        match rustix::fs::unlinkat(within.descriptor(self), last, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_within, from), (to_within, to)) = (self.place(from)?, self.place(to)?);
        let (from_within, to_within) = (from_within.descriptor(self), to_within.descriptor(self));
        Ok(rustix::fs::renameat(from_within, from, to_within, to)?)
    }

    /// # Errors
    /// `AlreadyExists` when the name is taken.
    pub fn create_directory(&self, name: &str) -> io::Result<()> {
        let (within, last) = self.place(name)?;
        let mode = Mode::from_raw_mode(self.directory_mode);
        rustix::fs::mkdirat(within.descriptor(self), last, mode)?;
        if self.directory_mode != DIRECTORY_MODE {
            let mode = Mode::from_raw_mode(self.directory_mode | SET_GROUP_ID);
            rustix::fs::fchmod(self.open_directory(name)?, mode)?;
        }
        Ok(())
    }

    pub fn sync(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open_directory(name)?)?)
    }

    /// Makes the directory's own name durable.
    pub fn sync_above(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = rustix::fs::openat(&self.held, c"..", flags, Mode::empty())?;
        Ok(rustix::fs::fsync(above)?)
    }

    fn open_directory(&self, name: &str) -> io::Result<OwnedFd> {
        let name = if name.is_empty() { "." } else { name };
        self.open_beneath(name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// Returns the directory that contains a name, and the name within it.
    fn place<'a>(&self, name: &'a str) -> io::Result<(Place, &'a str)> {
        match name.rsplit_once('/') {
            None => Ok((Place::Held, name)),
            Some((within, last)) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                Ok((Place::Within(self.open_beneath(within, flags, Mode::empty())?), last))
            }
        }
    }

    fn open_beneath(&self, name: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        // With O_PATH the kernel accepts no other flags.
        let flags = match flags.contains(OFlags::PATH) {
            true => flags & !(OFlags::NONBLOCK | OFlags::NOCTTY),
            false => flags,
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let mut opened = Err(Errno::NOSYS);
        if !self.no_openat2.load(Ordering::Relaxed) {
            for _ in 0..ATTEMPTS {
                opened = rustix::fs::openat2(&self.held, name, flags, mode, resolve);
                if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
                    break;
                }
            }
        }
        match opened {
            Err(Errno::NOSYS) => {
                self.no_openat2.store(true, Ordering::Relaxed);
                opened = self.open_by_parts(name, flags, mode);
            }
            // Some sandboxes give this error for calls that they do not know.
            Err(Errno::PERM) => opened = self.open_by_parts(name, flags, mode),
            _ => {}
        }
        match opened {
            Ok(file) if flags.contains(OFlags::PATH) => {
                // Without O_DIRECTORY this may be a link itself.
                match kind_of(&look_at(&file, StatxFlags::TYPE)?) {
                    FileType::Symlink => Err(is_a_link()),
                    _ => Ok(file),
                }
            }
            Err(Errno::LOOP) => Err(is_a_link()),
            // With O_DIRECTORY a link gives this error, too.
            Err(Errno::NOTDIR) if self.leads_through_a_link(name) => Err(is_a_link()),
            Err(Errno::NOTDIR) => Err(refused("it is, or is in, no directory, where a database has one")),
            opened => opened.map_err(Into::into),
        }
    }

    fn leads_through_a_link(&self, name: &str) -> bool {
        let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
        ends.into_iter().any(|end| self.kind(&name[..end]).is_ok_and(|kind| kind == FileType::Symlink))
    }

    /// Does in several calls what `openat2` does in one.
    fn open_by_parts(&self, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let mut parts = name.split('/').peekable();
        let mut within: Option<OwnedFd> = None;
        while let Some(part) = parts.next() {
            if part == ".." || part.is_empty() {
                return Err(Errno::XDEV);
            }
            let is_last = parts.peek().is_none();
            let (flags, mode) = match is_last {
                true => (flags, mode),
                false => {
                    (OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
                }
            };
            let before = within.as_ref().unwrap_or(&self.held);
            within = Some(rustix::fs::openat(before, part, flags, mode)?);
        }
        within.ok_or(Errno::NOENT)
    }
}

/// The directory that contains a name.
enum Place {
    Held,
    Within(OwnedFd),
}

impl Place {
    fn descriptor<'a>(&'a self, directory: &'a Directory) -> BorrowedFd<'a> {
        match self {
            Self::Held => directory.held.as_fd(),
            Self::Within(within) => within.as_fd(),
        }
    }
}

fn look_at(file: impl AsFd, mask: StatxFlags) -> io::Result<Statx> {
    Ok(rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, mask)?)
}

fn kind_of(found: &Statx) -> FileType {
    FileType::from_raw_mode(found.stx_mode.into())
}

fn check_file(found: &Statx, access: Access) -> io::Result<()> {
    let kind = match kind_of(found) {
        FileType::RegularFile if access == Access::Write && found.stx_nlink > 1 => {
            return Err(refused(
                "it has another name (a hard link), under which its bytes would change, too: put a copy in its place",
            ));
        }
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => return Err(is_a_link()),
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "no regular file",
    };
    Err(refused(&format!("it is {kind}, where a database has a file")))
}

fn is_a_link() -> io::Error {
    refused("it is, or is in, a symbolic link, of which a database has none: they lead out of it")
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Returns the error for an operation on a name in a directory. A file that is refused cannot be
/// part of a database.
pub(crate) fn error_of(error: &io::Error, doing: impl std::fmt::Display) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => Error::corrupt(format!("{doing}: {error}")),
        _ => Error::from_io(error, doing),
    }
}

/// Returns [`error_of`]'s error, except that a missing permission to write makes the database
/// read-only.
pub(crate) fn write_error(error: &io::Error, doing: impl std::fmt::Display) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(ErrorKind::ReadOnly, format!("{doing}: {error}")),
        _ => error_of(error, doing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// Opens a directory twice: with `openat2`, and without it.
    fn both(path: &Path) -> [Directory; 2] {
        let (one, other) = (Directory::open(path).unwrap(), Directory::open(path).unwrap());
        other.no_openat2.store(true, Ordering::Relaxed);
        [one, other]
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let outer = tempfile::tempdir().unwrap();
        let (inside, outside) = (outer.path().join("in"), outer.path().join("out"));
        fs::create_dir_all(inside.join("d")).unwrap();
        fs::create_dir_all(outside.join("d")).unwrap();
        fs::write(outside.join("f"), "secret").unwrap();
        fs::write(inside.join("f"), "own").unwrap();
        symlink(&outside, inside.join("away")).unwrap();
        symlink("../out/f", inside.join("f-away")).unwrap();
        symlink("f", inside.join("f-here")).unwrap();
        symlink("d", inside.join("d-here")).unwrap();
        symlink("nowhere", inside.join("dangling")).unwrap();
        for directory in both(&inside) {
            for name in ["away", "f-away", "f-here", "dangling", "away/f", "d-here/f"] {
                for access in [Access::Read, Access::Write] {
                    let error = directory.open_file(name, access).unwrap_err();
                    let is_missing = name == "d-here/f" && error.kind() == io::ErrorKind::NotFound;
                    assert!(error.kind() == io::ErrorKind::InvalidData || is_missing, "{name}: {error}");
                }
                assert!(directory.open_for_lock(name).is_err(), "{name}");
                assert!(directory.list(name).is_err(), "{name}");
                assert!(directory.identity(name).is_err(), "{name}");
                assert!(directory.sync(name).is_err(), "{name}");
                assert!(directory.create_file(name).is_err(), "{name}");
                assert!(directory.remove_directory(name, &|_| true).is_err(), "{name}");
            }
            for name in ["../out/f", "/etc/passwd", "d/../../out/f"] {
                assert!(directory.open_beneath(name, OFlags::RDONLY, Mode::empty()).is_err(), "{name}");
            }
            for name in ["away/f", "away/new", "../out/f"] {
                assert!(directory.create_file(name).is_err(), "{name}");
                assert!(directory.remove_file(name).is_err() || !name.starts_with("away"), "{name}");
                assert!(directory.create_directory(name).is_err(), "{name}");
                assert!(directory.rename("f", name).is_err(), "{name}");
            }
            assert_eq!(fs::read(outside.join("f")).unwrap(), b"secret");
            assert_eq!(fs::read(inside.join("f")).unwrap(), b"own");
            // Links themselves can be removed.
            symlink("../out/f", inside.join("link")).unwrap();
            directory.remove_file("link").unwrap();
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    }

    #[test]
    fn what_is_made_is_private_unless_the_directory_is_a_groups() {
        let outer = tempfile::tempdir().unwrap();
        let missing = Directory::create(&outer.path().join("new/private")).err();
        assert_eq!(missing.map(|error| error.kind()), Some(std::io::ErrorKind::NotFound));
        let path = outer.path().join("private");
        Directory::create(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        for shared in [0o755, 0o777, 0o2770, 0o2750] {
            fs::set_permissions(&path, fs::Permissions::from_mode(shared)).unwrap();
            let directory = Directory::open(&path).unwrap();
            directory.create_file("f").unwrap();
            directory.create_directory("d").unwrap();
            let (file, within) = match shared {
                0o2770 => (0o660, 0o2770),
                0o2750 => (0o640, 0o2750),
                _ => (0o600, 0o700),
            };
            assert_eq!((mode(&path.join("f")), mode(&path.join("d"))), (file, within), "{shared:o}");
            let who = directory.is_writable_by().unwrap();
            assert_eq!(who, (shared == 0o777).then_some("everybody"));
            directory.remove_file("f").unwrap();
            directory.remove_directory("d", &|_| true).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(Directory::open(&path).unwrap().is_writable_by().unwrap(), Some("its group"));
    }

    #[test]
    fn a_directory_loses_what_is_ours_and_no_more() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("d");
        fs::create_dir_all(path.join("ours-directory")).unwrap();
        for name in ["ours-1", "ours-2", "theirs"] {
            fs::write(path.join(name), "").unwrap();
        }
        for directory in both(outer.path()) {
            directory.remove_directory("d", &|name| name.starts_with("ours")).unwrap();
            assert_eq!(directory.list("d").unwrap().len(), 2);
        }
        fs::remove_file(path.join("theirs")).unwrap();
        fs::remove_dir(path.join("ours-directory")).unwrap();
        fs::write(path.join("ours-3"), "").unwrap();
        Directory::open(outer.path()).unwrap().remove_directory("d", &|_| true).unwrap();
        assert!(!path.exists());
    }
}
