//! Nothing outside of a database directory is reached through it, whatever stands in the place of
//! its files (format.md §1).

use crate::common::{append, append_to_log, batch, copy_directory, create, create_in_log, open, rows_of};
use arrow_array::{ArrayRef, Int8Array, LargeStringArray, RecordBatch};
use hypostyle_storage::{Database, OpenMode, Snapshot, Synchronous};
use hypostyle_types::{BLOCK_ROWS, Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Nothing here takes so long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Cases are tried so many at a time: most of the time they wait for the disk.
const THREADS: usize = 8;

/// A reader's name that no process has.
const READER: &str = "readers/1-00112233445566778899aabbccddeeff";

/// What is put in the place of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    LinkToFile,
    LinkToDirectory,
    LinkToNothing,
    Directory,
    File,
    Pipe,
    Socket,
    Zero,
    Full,
    HardLink,
}

const KINDS: [Kind; 10] = [
    Kind::LinkToFile,
    Kind::LinkToDirectory,
    Kind::LinkToNothing,
    Kind::Directory,
    Kind::File,
    Kind::Pipe,
    Kind::Socket,
    Kind::Zero,
    Kind::Full,
    Kind::HardLink,
];

fn numbers(rows: usize) -> RecordBatch {
    let values: Int8Array = (0..rows).map(|row| (row % 5 != 3).then_some(row as i8)).collect();
    batch(vec![("n", Arc::new(values) as ArrayRef)])
}

fn texts(rows: usize) -> RecordBatch {
    let texts: LargeStringArray = (0..rows).map(|row| Some(format!("text {row}"))).collect();
    let kinds: LargeStringArray = (0..rows).map(|row| Some(format!("kind {}", row % 3))).collect();
    batch(vec![("text", Arc::new(texts) as ArrayRef), ("kind", Arc::new(kinds))])
}

/// A database with every kind of file, and what unfinished work leaves.
fn make(path: &Path, backup: &Path) {
    let database = open(path);
    let id = create(&database, "numbers", &[numbers(BLOCK_ROWS as usize + 9)]).unwrap();
    create(&database, "texts", &[texts(4000)]).unwrap();
    let mut transaction = database.begin(1).unwrap();
    transaction.delete(id, &[3_u64, 5].into_iter().collect()).unwrap();
    transaction.commit().unwrap();
    assert!(database.checkpoint().unwrap());
    append_to_log(&database, id, &numbers(2)).unwrap();
    database.backup(backup, |_| true).unwrap();
    drop(database);
    for path in [path, backup] {
        let version = fs::read_dir(path).unwrap().find_map(|entry| {
            entry.unwrap().file_name().to_str()?.strip_prefix("catalog-").map(str::to_string)
        });
        let version = version.unwrap();
        fs::create_dir_all(path.join("readers")).unwrap();
        fs::create_dir(path.join("columns/99")).unwrap();
        for name in [
            "HYPOSTYLE.new",
            "backup.new",
            "catalog-00000000000000000000",
            "log-00000000000000000000",
            &format!("catalog-{version}.new"),
            READER,
            &format!("{READER}.new"),
            "columns/1/0-99-0.values",
            &format!("columns/1/deleted-{version}.new"),
            "columns/99/0-0-0.values",
        ] {
            fs::write(path.join(name), "left").unwrap();
        }
    }
}

/// All names in a directory, relative to it.
fn names(path: &Path, within: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path.join(within)).unwrap() {
        let entry = entry.unwrap();
        let name = within.join(entry.file_name());
        found.push(name.clone());
        if entry.file_type().unwrap().is_dir() {
            names(path, &name, found);
        }
    }
}

/// What of a directory nobody may change.
fn state(path: &Path) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
    let mut found = Vec::new();
    names(path, Path::new(""), &mut found);
    let of = |name: PathBuf| {
        let at = path.join(&name);
        let metadata = fs::symlink_metadata(&at).unwrap();
        let content = if metadata.is_file() { fs::read(&at).unwrap() } else { Vec::new() };
        (name, (metadata.mode(), metadata.ino(), content))
    };
    found.into_iter().map(of).collect()
}

/// Puts something in the place of a name. What it leads to is in `outside`, and the same as what
/// was there. False where it cannot be made here.
fn put(kind: Kind, place: &Path, outside: &Path) -> bool {
    let before = outside.join("before");
    fs::rename(place, &before).unwrap();
    let (is_file, file) = (before.is_file(), outside.join("file"));
    match is_file {
        true => drop(fs::copy(&before, &file).unwrap()),
        false => fs::write(&file, [7; 4096]).unwrap(),
    }
    let directory = outside.join("directory");
    match is_file {
        true => fs::create_dir_all(directory.join("1/2")).unwrap(),
        false => copy_directory(&before, &directory),
    }
    fs::write(directory.join("0-0-0.values"), "outside").unwrap();
    fs::create_dir_all(directory.join("98/own")).unwrap();
    fs::write(directory.join("98/0-0-0.values"), "outside").unwrap();
    match is_file {
        true => fs::remove_file(&before).unwrap(),
        false => fs::remove_dir_all(&before).unwrap(),
    }
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program).arg(place).args(arguments).status();
        status.is_ok_and(|status| status.success())
    };
    match kind {
        Kind::LinkToFile => symlink(&file, place).unwrap(),
        Kind::LinkToDirectory => symlink(&directory, place).unwrap(),
        Kind::LinkToNothing => symlink(outside.join("new"), place).unwrap(),
        Kind::Directory => {
            fs::create_dir(place).unwrap();
            fs::write(place.join("mine"), "mine").unwrap();
        }
        Kind::File => fs::write(place, "a file").unwrap(),
        Kind::Pipe => assert!(run("mkfifo", &[])),
        // Its address may be too long.
        Kind::Socket => return UnixListener::bind(place).is_ok(),
        // Who is not root cannot make devices.
        Kind::Zero => return run("mknod", &["c", "1", "5"]),
        Kind::Full => return run("mknod", &["c", "1", "7"]),
        Kind::HardLink => fs::hard_link(&file, place).unwrap(),
    }
    true
}

/// Reads everything.
fn read(snapshot: &Snapshot) -> Result<()> {
    for table in snapshot.tables() {
        for index in 0..table.columns().len() {
            table.columns()[index].array()?;
            rows_of(table, index);
        }
    }
    snapshot.check(|_| true).into_iter().next().map_or(Ok(()), |damage| Err(damage.error))
}

/// Opens, reads, writes, compacts and drops; what went wrong.
fn use_all(path: &Path, target: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut note = |result: Result<()>| errors.extend(result.err());
    let reading = || read(&*Database::open(path, OpenMode::ReadOnly)?.snapshot()?);
    let writing = || -> Result<()> {
        let database = Database::open(path, OpenMode::ReadWrite)?;
        database.set_synchronous(Synchronous::Off);
        let snapshot = database.snapshot()?;
        let mut results = vec![read(&snapshot), database.backup(target, |_| true).map(|_| ())];
        let tables: Vec<_> =
            snapshot.tables().map(|table| (table.entry().id, table.entry().name.clone())).collect();
        drop(snapshot);
        for (id, name) in tables {
            let rows = if name == "numbers" { numbers(7) } else { texts(7) };
            results.push(append_to_log(&database, id, &rows));
            results.push(database.checkpoint().map(|_| ()));
            let delete = || {
                let mut transaction = database.begin(1)?;
                transaction.delete(id, &[1_u64].into_iter().collect())?;
                transaction.commit().map(|_| ())
            };
            results.push(delete());
            results.push(database.checkpoint().map(|_| ()));
            let drop_it = || {
                let mut transaction = database.begin(1)?;
                transaction.drop_table(id)?;
                transaction.commit().map(|_| ())
            };
            results.push(drop_it());
        }
        results.push(create_in_log(&database, "new", &[texts(3)]).map(|_| ()));
        results.push(database.checkpoint().map(|_| ()));
        results.into_iter().collect()
    };
    note(reading());
    note(writing());
    note(writing());
    errors
}

/// Whether a database needs what has this name, and its kind.
fn is_needed(name: &str) -> bool {
    let left = name.ends_with(".new") || name.contains("99") || name.contains("-00000000000000000000");
    !left && !name.starts_with("readers") && !["backup", "origin"].contains(&name)
}

#[test]
fn whatever_is_in_the_place_of_a_file_leads_nowhere() {
    let base = tempfile::tempdir().unwrap();
    let (original, backup) = (base.path().join("o"), base.path().join("b"));
    make(&original, &backup);
    // Whoever has it open makes files and removes them, which must not happen while the other one is copied.
    let open = base.path().join("s");
    copy_directory(&original, &open);
    let mut cases: Vec<(&Path, PathBuf)> = Vec::new();
    for from in [&original, &backup] {
        let mut found = Vec::new();
        names(from, Path::new(""), &mut found);
        cases.extend(found.into_iter().map(|name| (from.as_path(), name)));
    }
    let roles: BTreeSet<_> = cases.iter().filter_map(|(_, name)| name.extension()).collect();
    for role in ["values", "validity", "offsets", "heap", "blocks", "dictionary_offsets", "dictionary_heap"] {
        assert!(roles.contains(std::ffi::OsStr::new(role)), "no file has the role {role}");
    }
    let (tried, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let try_all_of = |from: &Path, name: &Path| {
        for kind in KINDS {
            let work = tempfile::tempdir().unwrap();
            let (path, outside) = (work.path().join("d"), work.path().join("outside"));
            copy_directory(from, &path);
            fs::create_dir(&outside).unwrap();
            let is_file = path.join(name).is_file();
            if is_file == (kind == Kind::File) || !put(kind, &path.join(name), &outside) {
                continue;
            }
            let before = state(&outside);
            let (sender, receiver) = channel();
            let (target, is_backup) = (work.path().join("t"), from == backup);
            std::thread::spawn({
                let (path, open) = (path.clone(), open.clone());
                move || {
                    let mut errors = Vec::new();
                    // Into a backup another may be made.
                    if is_backup {
                        let source = Database::open(&open, OpenMode::ReadOnly).unwrap();
                        errors.extend(source.backup(&path, |_| true).err());
                    }
                    errors.extend(use_all(&path, &target));
                    sender.send(errors)
                }
            });
            let case = format!("{kind:?} in the place of {}", name.display());
            let errors =
                receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{case}: it hangs or panics"));
            assert_eq!(state(&outside), before, "{case}: {errors:?}");
            let is_read = kind == Kind::HardLink;
            let name = name.to_str().unwrap();
            assert!(!errors.is_empty() || is_read || is_backup || !is_needed(name), "{case}: nobody noticed");
            tried.fetch_add(1, Ordering::Relaxed);
            refused.fetch_add(usize::from(!errors.is_empty()), Ordering::Relaxed);
        }
    };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((from, name)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_all_of(from, name);
                }
            });
        }
    });
    let (tried, refused) = (tried.into_inner(), refused.into_inner());
    println!("{tried} cases, {refused} refused");
    assert!(tried > 300 && refused > 150, "{tried} cases, {refused} refused");
}

#[test]
fn errors_say_what_stands_in_the_place_of_a_file() {
    let base = tempfile::tempdir().unwrap();
    let (original, backup) = (base.path().join("o"), base.path().join("b"));
    make(&original, &backup);
    for (name, kind, told) in [
        ("columns", Kind::LinkToDirectory, "symbolic link"),
        ("HYPOSTYLE", Kind::LinkToFile, "symbolic link"),
        ("HYPOSTYLE", Kind::Pipe, "a pipe"),
        ("HYPOSTYLE", Kind::Directory, "a directory"),
        ("shared", Kind::HardLink, "hard link"),
        ("readers", Kind::LinkToDirectory, "symbolic link"),
        ("readers", Kind::LinkToNothing, "symbolic link"),
    ] {
        let work = tempfile::tempdir().unwrap();
        let (path, outside) = (work.path().join("d"), work.path().join("outside"));
        copy_directory(&original, &path);
        fs::create_dir(&outside).unwrap();
        assert!(put(kind, &path.join(name), &outside));
        let error = Database::open(&path, OpenMode::ReadWrite).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains(told) && error.message().contains(name), "{error}");
    }
}

#[test]
fn a_database_is_read_although_its_files_have_other_names() {
    let base = tempfile::tempdir().unwrap();
    let (path, backup) = (base.path().join("o"), base.path().join("b"));
    make(&path, &backup);
    let mut found = Vec::new();
    names(&path, Path::new(""), &mut found);
    for (number, name) in found.iter().enumerate().filter(|(_, name)| path.join(name).is_file()) {
        fs::hard_link(path.join(name), base.path().join(number.to_string())).unwrap();
    }
    read(&Database::open(&path, OpenMode::ReadOnly).unwrap().snapshot().unwrap()).unwrap();
    let error = Database::open(&path, OpenMode::ReadWrite).unwrap_err();
    assert!(error.message().contains("hard link"), "{error}");
}

#[test]
fn the_path_to_a_database_may_have_links() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir_all(base.path().join("real")).unwrap();
    symlink("real", base.path().join("link")).unwrap();
    let database = open(&base.path().join("link/d"));
    create(&database, "texts", &[texts(3)]).unwrap();
    symlink("real/d", base.path().join("d")).unwrap();
    read(&open(&base.path().join("d")).snapshot().unwrap()).unwrap();
    database.backup(&base.path().join("link/b"), |_| true).unwrap();
    assert!(base.path().join("real/b/HYPOSTYLE").is_file());
}

#[test]
fn what_has_no_name_of_the_format_stays() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("d");
    let database = open(&path);
    let id = create(&database, "texts", &[texts(3)]).unwrap();
    let other = create(&database, "others", &[texts(3)]).unwrap();
    drop(database);
    let foreign = [
        "notes.txt",
        "mine.new",
        "catalog-5",
        "catalog-5.new",
        "log-x",
        "columns/notes",
        "columns/07/0-0-0.values",
        "columns/1x/0-0-0.values",
        &format!("columns/{id}/notes"),
        &format!("columns/{id}/0-9-0.mine"),
        &format!("columns/{id}/directory/file"),
        "columns/77/notes",
        "columns/77/directory/0-0-0.values",
        "readers/notes",
        "readers/1-2",
    ];
    for name in foreign {
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    for name in [&format!("columns/{id}/0-9-0.values"), "columns/77/0-0-0.values"] {
        fs::write(path.join(name), "left").unwrap();
    }
    let check = |path: &Path| {
        for name in foreign {
            assert_eq!(fs::read_to_string(path.join(name)).ok().as_deref(), Some(name), "{name}");
        }
    };
    let database = open(&path);
    check(&path);
    assert!(!path.join(format!("columns/{id}/0-9-0.values")).exists());
    assert!(!path.join("columns/77/0-0-0.values").exists());
    append(&database, id, &texts(5)).unwrap();
    for table in [id, other] {
        let mut transaction = database.begin(1).unwrap();
        transaction.drop_table(table).unwrap();
        transaction.commit().unwrap();
    }
    assert!(database.checkpoint().unwrap());
    drop(database);
    read(&open(&path).snapshot().unwrap()).unwrap();
    check(&path);
    assert_eq!(fs::read_dir(path.join(format!("columns/{id}"))).unwrap().count(), 3);
    assert!(!path.join(format!("columns/{other}")).exists());
    // Nor does a backup take away what is not its own.
    let target = base.path().join("b");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("notes.new"), "mine").unwrap();
    let error = open(&path).backup(&target, |_| true).unwrap_err();
    assert!(error.message().contains("not empty"), "{error}");
    assert_eq!(fs::read(target.join("notes.new")).unwrap(), b"mine");
}

#[test]
fn a_database_is_its_users_alone() {
    let base = tempfile::tempdir().unwrap();
    let (path, backup) = (base.path().join("o"), base.path().join("b"));
    let database = open(&path);
    create(&database, "numbers", &[numbers(BLOCK_ROWS as usize + 9)]).unwrap();
    create(&database, "texts", &[texts(40)]).unwrap();
    let _snapshot = database.snapshot().unwrap();
    database.backup(&backup, |_| true).unwrap();
    for path in [path, backup] {
        let mut found = vec![PathBuf::new()];
        names(&path, Path::new(""), &mut found);
        assert!(found.len() > 10);
        for name in found {
            let metadata = fs::symlink_metadata(path.join(&name)).unwrap();
            let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(metadata.permissions().mode() & 0o7777, expected, "{}", name.display());
            assert!(!metadata.file_type().is_fifo());
        }
    }
}
