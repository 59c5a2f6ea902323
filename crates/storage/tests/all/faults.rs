//! A disk that fails: errors at each operation of a workload, one by one. A failed call says so,
//! leaves nothing behind, and takes nothing that was acknowledged with it.

use crate::common::history::*;
use crate::common::{self, append_to_log, batch, copy_directory, create_in_log};
use arrow_array::{ArrayRef, Int64Array};
use hypostyle_io::{Observer, Operation};
use hypostyle_storage::{Database, OpenMode, StorageOptions, Synchronous};
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const IO: i32 = 5;
const PERMISSION_DENIED: i32 = 13;
const NO_SPACE: i32 = 28;
const READ_ONLY: i32 = 30;

fn kind_of(errno: i32) -> ErrorKind {
    match errno {
        NO_SPACE => ErrorKind::DiskFull,
        READ_ONLY | PERMISSION_DENIED => ErrorKind::ReadOnly,
        _ => ErrorKind::Io,
    }
}

/// Fails the operation of one number; or all from there on.
#[derive(Debug)]
struct FailAt {
    operation: usize,
    for_ever: bool,
    errno: i32,
    done: AtomicUsize,
}

impl FailAt {
    fn new(operation: usize, for_ever: bool, errno: i32) -> Arc<Self> {
        Arc::new(Self { operation, for_ever, errno, done: AtomicUsize::new(0) })
    }

    fn has_failed(&self) -> bool {
        self.done.load(Ordering::Relaxed) > self.operation
    }
}

impl Observer for FailAt {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        if number < self.operation || number > self.operation && !self.for_ever {
            return Ok(());
        }
        // A write of several sectors may fail when a part is done.
        if let Operation::Write { file, offset, bytes } = operation
            && bytes.len() > 512
        {
            // Its file may have been renamed.
            let part = &bytes[..bytes.len() * 3 / 4];
            let _result =
                fs::OpenOptions::new().write(true).open(file).map(|file| file.write_all_at(part, offset));
        }
        if let Operation::Copy { from, file, offset, length } = operation {
            let mut part = vec![0; length as usize * 3 / 4];
            fs::File::open(from)?.read_exact_at(&mut part, offset)?;
            fs::OpenOptions::new().write(true).open(file)?.write_all_at(&part, offset)?;
        }
        Err(io::Error::from_raw_os_error(self.errno))
    }
}

fn open_observed(path: &Path, observer: Arc<dyn Observer>) -> Result<Arc<Database>> {
    Database::open(path, StorageOptions { observer: Some(observer), ..OpenMode::ReadWrite.into() })
}

/// A little of everything; `None` is a checkpoint.
fn workload() -> Vec<Option<Change>> {
    let (t, u) = (|| "t".to_string(), || "u".to_string());
    let values = (2 * 10_000..2 * 10_000 + 3).chain([10_000]).collect();
    vec![
        Some(beginning()),
        Some(insert(1, 2)),
        Some(insert(2, MANY)),
        Some(Change {
            id: 3,
            steps: vec![Step::Create { table: u() }, Step::Insert { table: u(), values: 0..MANY }],
        }),
        None,
        Some(Change { id: 4, steps: vec![Step::Delete { table: t(), values }] }),
        Some(insert(5, 3)),
        None,
        Some(Change { id: 6, steps: vec![Step::Delete { table: u(), values: vec![7] }] }),
        None,
        Some(Change { id: 7, steps: vec![Step::Drop { table: u() }] }),
        Some(insert(8, 1)),
    ]
}

/// Whether a database holds what the commits in its journal make; their numbers.
fn check(database: &Database, what: &str) -> BTreeSet<i64> {
    let (journal, tables) = read(&database.snapshot().unwrap());
    let (before, scenarios) = alterations();
    let changes: Vec<Change> =
        workload().into_iter().chain(before).chain(scenarios.into_iter().flatten()).flatten().collect();
    let mut expected = Tables::new();
    for id in &journal {
        let change = changes.iter().find(|change| change.id == *id);
        apply(&mut expected, &change.cloned().unwrap_or_else(|| insert(*id, MANY)));
    }
    assert!(tables == expected, "{what}: the rows are not those of {journal:?}");
    journal.into_iter().collect()
}

/// Runs a workload on a disk that fails, with a database that is there or that it makes; false when
/// it came to its end before that.
fn run(faults: &Arc<FailAt>, prepared: Option<&Path>, workload: &[Option<Change>], what: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let mut acknowledged = BTreeSet::new();
    if let Some(prepared) = prepared {
        copy_directory(prepared, &path);
        acknowledged.extend(alterations().0.iter().flatten().map(|change| change.id));
    }
    let mut attempted = acknowledged.clone();
    let judge = |error: &Error| {
        assert!(faults.has_failed(), "{what}: {error}");
        assert_eq!(error.kind(), kind_of(faults.errno), "{what}: {error}");
    };
    let mut database = open_observed(&path, faults.clone());
    if let Err(error) = &database
        && !faults.for_ever
    {
        judge(error);
        database = open_observed(&path, faults.clone());
        assert!(database.is_ok(), "{what}: {database:?}");
    }
    let mut refused = false;
    let mut attempt = |database: &Arc<Database>, step: &Option<Change>| match step {
        None => database.checkpoint().map(drop),
        Some(change) => {
            attempted.insert(change.id);
            commit(database, change).map(|()| acknowledged.insert(change.id)).map(drop)
        }
    };
    for step in workload {
        let Ok(database) = &database else { break };
        let Err(error) = attempt(database, step) else { continue };
        judge(&error);
        if faults.for_ever {
            break;
        }
        if let Err(error) = attempt(database, step) {
            assert!(error.message().contains("earlier commit"), "{what}, again: {error}");
            refused = true;
            break;
        }
    }
    drop(database);

    // As after a restart of the machine: nobody knows what was published.
    let restarted = directory.path().join("restarted");
    if path.join("HYPOSTYLE").exists() {
        copy_directory(&path, &restarted);
        let _missing = fs::remove_file(restarted.join("shared"));
        let found = check(&common::open(&restarted), what);
        assert!(acknowledged.is_subset(&found), "{what}: {acknowledged:?}, but {found:?}");
        assert!(found.is_subset(&attempted), "{what}: {found:?}");
    }
    let database = common::open(&path);
    let found = check(&database, what);
    assert!(acknowledged.is_subset(&found), "{what}: {acknowledged:?}, but {found:?}");
    if faults.for_ever {
        assert!(found.is_subset(&attempted), "{what}: {found:?}");
    } else {
        assert_eq!(found, acknowledged, "{what}: what failed is visible");
        assert!(!refused || faults.has_failed());
    }
    assert_nothing_is_left_behind(&path, &database.snapshot().unwrap());
    if found.contains(&0) && faults.operation.is_multiple_of(4) {
        commit(&database, &insert(9, MANY)).unwrap();
        assert!(database.checkpoint().unwrap());
        assert_eq!(check(&database, what).len(), found.len() + 1);
    }
    faults.has_failed()
}

fn fail_everywhere(for_ever: bool, errno: i32) {
    let mut operation = 0;
    while run(
        &FailAt::new(operation, for_ever, errno),
        None,
        &workload(),
        &format!("errno {errno} at operation {operation}"),
    ) {
        operation += 1;
    }
    assert!(operation > 100, "only {operation} operations");
}

#[test]
fn an_error_at_any_operation_is_told_and_loses_nothing() {
    fail_everywhere(false, IO);
}

#[test]
fn a_disk_that_is_full_from_any_operation_on_loses_nothing() {
    fail_everywhere(true, NO_SPACE);
}

/// Fails each operation of what alters and compacts tables.
fn fail_alterations(for_ever: bool, errno: i32) {
    let directory = tempfile::tempdir().unwrap();
    let prepared = directory.path().join("prepared");
    let (before, scenarios) = alterations();
    let database = common::open(&prepared);
    for step in before {
        match step {
            None => assert!(database.checkpoint().unwrap()),
            Some(change) => commit(&database, &change).unwrap(),
        }
    }
    drop(database);
    let mut operations = 0;
    for (number, workload) in scenarios.iter().enumerate() {
        let mut operation = 0;
        while run(
            &FailAt::new(operation, for_ever, errno),
            Some(&prepared),
            workload,
            &format!("alteration {number}, errno {errno} at operation {operation}"),
        ) {
            operation += 1;
        }
        operations += operation;
    }
    println!("{operations} operations");
    assert!(operations > 50 * scenarios.len(), "only {operations} operations");
}

#[test]
fn an_error_at_any_operation_of_a_compaction_or_an_alteration_is_told_and_loses_nothing() {
    fail_alterations(false, IO);
}

#[test]
fn a_disk_that_is_full_from_any_operation_of_a_compaction_or_an_alteration_on_loses_nothing() {
    fail_alterations(true, NO_SPACE);
}

/// While it is told to, no file can be made, nor get longer.
#[derive(Debug, Default)]
struct Full(AtomicBool);

impl Observer for Full {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let needs_space = match operation {
            Operation::Create { .. } | Operation::CreateDirectory { .. } | Operation::Copy { .. } => true,
            // One that was renamed has its length.
            Operation::Write { file, offset, bytes } => {
                fs::metadata(file).is_ok_and(|known| known.len() < offset + bytes.len() as u64)
            }
            _ => false,
        };
        match needs_space && self.0.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(NO_SPACE)),
            false => Ok(()),
        }
    }
}

#[test]
fn rows_and_tables_can_be_removed_on_a_full_disk() {
    for after_checkpoint in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let disk = Arc::new(Full::default());
        let database = open_observed(&path, disk.clone()).unwrap();
        let rows = |rows| batch(vec![("id", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]);
        let kept = create_in_log(&database, "kept", &[rows(100)]).unwrap();
        let dropped = create_in_log(&database, "dropped", &[rows(100_000)]).unwrap();
        if after_checkpoint {
            assert!(database.checkpoint().unwrap());
        }
        disk.0.store(true, Ordering::Relaxed);
        // What adds something stops before the log is full.
        let refused = (0..100_000).find_map(|_| append_to_log(&database, kept, &rows(10)).err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::DiskFull);
        let known = database.snapshot().unwrap().table("main", "kept").unwrap().rows();
        for position in 0..50 {
            let mut writer = database.begin(1).unwrap();
            writer.delete(kept, &[position].into_iter().collect()).unwrap();
            writer.commit().unwrap();
        }
        let mut writer = database.begin(1).unwrap();
        writer.drop_table(dropped).unwrap();
        writer.commit().unwrap();
        assert!(!path.join(format!("columns/{dropped}")).exists(), "the files are gone at once");
        assert_eq!(append_to_log(&database, kept, &rows(10)).unwrap_err().kind(), ErrorKind::DiskFull);
        disk.0.store(false, Ordering::Relaxed);
        append_to_log(&database, kept, &rows(10)).unwrap();
        drop(database);
        let database = common::open(&path);
        assert_eq!(database.snapshot().unwrap().table("main", "kept").unwrap().rows(), known - 50 + 10);
    }
}

/// Fails the syncs of the log while it is told to, after others have had time to wait for it.
#[derive(Debug, Default)]
struct FailSyncOfLog {
    on: AtomicBool,
    failed: AtomicUsize,
}

impl Observer for FailSyncOfLog {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let Operation::Sync { file } = operation else { return Ok(()) };
        if file.contains("/log-") && self.on.swap(false, Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::from_raw_os_error(IO));
        }
        Ok(())
    }
}

#[test]
fn after_a_failed_sync_of_the_log_nobody_commits_until_all_have_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let observer = Arc::new(FailSyncOfLog::default());
    let one = open_observed(&path, observer.clone()).unwrap();
    let other = common::open(&path);
    commit(&one, &beginning()).unwrap();
    commit(&other, &insert(1, 2)).unwrap();
    let before = check(&one, "before");
    observer.on.store(true, Ordering::Relaxed);
    // All that wait for the sync fail with it, and so does a checkpoint that comes then.
    std::thread::scope(|scope| {
        let commits = [2, 5, 8].map(|id| {
            let one = &one;
            scope.spawn(move || commit(one, &insert(id, 1)).unwrap_err().kind())
        });
        let kinds = commits.map(|commit| commit.join().unwrap());
        assert_eq!(kinds, [ErrorKind::Io; 3]);
    });
    assert_eq!(observer.failed.load(Ordering::Relaxed), 1);
    let third = common::open(&path);
    for database in [&one, &other, &third] {
        assert_eq!(commit(database, &insert(2, 1)).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(database.checkpoint().unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(check(database, "after"), before);
    }
    drop((one, other, third));
    let database = common::open(&path);
    assert_eq!(check(&database, "reopened"), before);
    commit(&database, &insert(2, MANY)).unwrap();
}

#[test]
fn a_checkpoint_does_not_wait_for_a_commit_whose_sync_fails() {
    let directory = tempfile::tempdir().unwrap();
    let observer = Arc::new(FailSyncOfLog::default());
    let database = open_observed(&directory.path().join("d"), observer.clone()).unwrap();
    commit(&database, &beginning()).unwrap();
    observer.on.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| commit(&database, &insert(1, 1)));
        std::thread::sleep(Duration::from_millis(50));
        // It makes the commit durable itself, whose sync fails only then.
        let _checkpoint = database.checkpoint();
        assert_eq!(commit.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
    });
    assert_eq!(commit(&database, &insert(2, 1)).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_commit_that_need_not_be_durable_shows_none_that_may_still_fail() {
    for handles in [1, 2] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let observer = Arc::new(FailSyncOfLog::default());
        let durable = open_observed(&path, observer.clone()).unwrap();
        let quick = if handles == 1 { durable.clone() } else { common::open(&path) };
        commit(&durable, &beginning()).unwrap();
        let before = check(&durable, "before");
        observer.on.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| commit(&durable, &insert(1, 1)));
            std::thread::sleep(Duration::from_millis(50));
            quick.set_synchronous(Synchronous::Off);
            let behind = scope.spawn(|| commit(&quick, &insert(2, 1)));
            let meanwhile = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(25));
                check(&quick, "meanwhile")
            });
            assert_eq!(meanwhile.join().unwrap(), before);
            assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(behind.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
        });
        for database in [&durable, &quick] {
            assert_eq!(check(database, "after"), before);
        }
        drop((durable, quick));
        assert_eq!(check(&common::open(&path), "reopened"), before);
    }
}

#[test]
fn a_commit_that_need_not_be_durable_waits_for_no_value_of_a_sequence() {
    let directory = tempfile::tempdir().unwrap();
    let observer = Arc::new(CountSyncs::default());
    let database = open_observed(&directory.path().join("d"), observer.clone()).unwrap();
    commit(&database, &beginning()).unwrap();
    database.set_synchronous(Synchronous::Off);
    observer.count.store(0, Ordering::Relaxed);
    // Each takes a value of a sequence.
    for id in [1, 5, 8] {
        commit(&database, &insert(id, 1)).unwrap();
    }
    assert_eq!(observer.count.load(Ordering::Relaxed), 0);
    assert_eq!(read(&database.snapshot().unwrap()).0, [0, 1, 5, 8]);
}

#[test]
fn a_slow_sync_serves_most_of_those_who_commit() {
    const THREADS: usize = 8;
    const EACH: usize = 20;
    let directory = tempfile::tempdir().unwrap();
    let observer = Arc::new(CountSyncs { time: Duration::from_millis(5), ..CountSyncs::default() });
    let database = open_observed(&directory.path().join("d"), observer.clone()).unwrap();
    commit(&database, &beginning()).unwrap();
    observer.count.store(0, Ordering::Relaxed);
    thread::scope(|scope| {
        for first in (0..THREADS).map(|thread| 100 + thread * EACH) {
            let database = &database;
            scope.spawn(move || {
                for id in first..first + EACH {
                    commit(database, &insert(id as i64, 1)).unwrap();
                }
            });
        }
    });
    assert_eq!(read(&database.snapshot().unwrap()).0.len(), 1 + THREADS * EACH);
    // Half of them wait for each sync if the other half have theirs just then; nearly all do, since
    // it waits for them.
    let (syncs, commits) = (observer.count.load(Ordering::Relaxed), THREADS * EACH);
    assert!(syncs * 5 <= commits, "{syncs} syncs of {commits} commits");
}

/// Each sync takes some time more.
#[derive(Debug, Default)]
struct CountSyncs {
    count: AtomicUsize,
    time: Duration,
}

impl Observer for CountSyncs {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        if matches!(operation, Operation::Sync { .. }) {
            self.count.fetch_add(1, Ordering::Relaxed);
            thread::sleep(self.time);
        }
        Ok(())
    }
}

#[test]
fn a_disk_that_cannot_be_written_is_for_reading() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = common::open(&path);
    commit(&database, &beginning()).unwrap();
    commit(&database, &insert(9, MANY)).unwrap();
    drop(database);
    for shared in [true, false] {
        if !shared {
            fs::remove_file(path.join("shared")).unwrap();
        }
        let observer = FailAt::new(0, true, READ_ONLY);
        let options = StorageOptions { observer: Some(observer.clone()), ..OpenMode::ReadOnly.into() };
        let reader = Database::open(&path, options).unwrap();
        assert_eq!(check(&reader, "read-only").len(), 2);
        assert_eq!(commit(&reader, &insert(2, 1)).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(reader.checkpoint().unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(open_observed(&path, observer).unwrap_err().kind(), ErrorKind::ReadOnly);
    }
    let denied = FailAt::new(0, true, PERMISSION_DENIED);
    assert_eq!(open_observed(&path, denied).unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_reader_that_cannot_write_keeps_the_files_that_it_reads() {
    for errno in [READ_ONLY, PERMISSION_DENIED, NO_SPACE] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let writer = common::open(&path);
        commit(&writer, &beginning()).unwrap();
        commit(&writer, &insert(9, MANY)).unwrap();
        assert!(writer.checkpoint().unwrap());
        let options =
            StorageOptions { observer: Some(FailAt::new(0, true, errno)), ..OpenMode::ReadOnly.into() };
        let reader = Database::open(&path, options).unwrap();
        let snapshot = reader.snapshot().unwrap();
        let mut transaction = writer.begin(1).unwrap();
        let id = transaction.catalog().table("main", "t").unwrap().id;
        transaction.drop_table(id).unwrap();
        transaction.commit().unwrap();
        // Nor does a writer that opens the database take the table's files for leftovers.
        drop(writer);
        drop(common::open(&path));
        assert_eq!(read(&snapshot).0, [0, 9], "errno {errno}");
        assert!(read(&reader.snapshot().unwrap()).1.is_empty());
        drop((snapshot, reader));
        drop(common::open(&path));
        assert!(!path.join(format!("columns/{id}")).exists());
    }
}

/// Fails the sync of the database's directory, once a checkpoint is renamed.
#[derive(Debug, Default)]
struct FailAfterRename {
    renamed: AtomicBool,
}

impl Observer for FailAfterRename {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        match operation {
            Operation::Rename { to, .. } if to.contains("/catalog-") => {
                self.renamed.store(true, Ordering::Relaxed);
            }
            Operation::SyncDirectory { .. } if self.renamed.load(Ordering::Relaxed) => {
                return Err(io::Error::from_raw_os_error(IO));
            }
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn a_checkpoint_that_nobody_was_told_of_hides_no_later_commit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = common::open(&path);
    commit(&database, &beginning()).unwrap();
    drop(database);
    let database = open_observed(&path, Arc::new(FailAfterRename::default())).unwrap();
    assert_eq!(database.checkpoint().unwrap_err().kind(), ErrorKind::Io);
    commit(&database, &insert(9, 1)).unwrap();
    // A power failure.
    let restarted = directory.path().join("restarted");
    copy_directory(&path, &restarted);
    fs::remove_file(restarted.join("shared")).unwrap();
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let database = Database::open(&restarted, mode).unwrap();
        assert_eq!(read(&database.snapshot().unwrap()).0, [0, 9]);
    }
}

/// `shared` is never synced: a file system that is lost and mounted anew may have an old one,
/// without a restart of the machine.
#[test]
fn an_old_shared_hides_no_commit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = common::open(&path);
    commit(&database, &beginning()).unwrap();
    commit(&database, &insert(1, 1)).unwrap();
    let old = fs::read(path.join("shared")).unwrap();
    commit(&database, &insert(2, 1)).unwrap();
    commit(&database, &insert(3, MANY)).unwrap();
    drop(database);
    fs::write(path.join("shared"), old).unwrap();
    assert_eq!(read(&common::open(&path).snapshot().unwrap()).0, [0, 1, 2, 3]);
}

#[test]
fn a_log_that_lost_durable_commits_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = common::open(&path);
    commit(&database, &beginning()).unwrap();
    let log = path.join("log-00000000000000000000");
    let end = |log: &[u8]| log.iter().rposition(|byte| *byte != 0).unwrap();
    let first = end(&fs::read(&log).unwrap());
    commit(&database, &insert(1, 1)).unwrap();
    drop(database);
    let sound = fs::read(&log).unwrap();
    let last = end(&sound);
    let mut damages = vec![Vec::new(), sound[..first].to_vec(), sound[..last].to_vec(), vec![0; sound.len()]];
    for place in [first / 2, first + 16, last] {
        let mut flipped = sound.clone();
        flipped[place] ^= 1;
        damages.push(flipped);
    }
    for damaged in damages {
        fs::write(&log, &damaged).unwrap();
        for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
            let error = Database::open(&path, mode).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
        // Nothing was written there.
        assert_eq!(fs::read(&log).unwrap(), damaged);
    }
    fs::write(&log, sound).unwrap();
    assert_eq!(read(&common::open(&path).snapshot().unwrap()).0, [0, 1]);
}

#[test]
fn a_database_that_breaks_leaves_another_in_the_process_alone() {
    let directory = tempfile::tempdir().unwrap();
    let [sound, damaged, failing] = ["sound", "damaged", "failing"].map(|name| directory.path().join(name));
    let observer = Arc::new(FailSyncOfLog::default());
    let sound = common::open(&sound);
    let failing = open_observed(&failing, observer.clone()).unwrap();
    // Numbers that the workload has not.
    commit(&sound, &beginning()).unwrap();
    let mut journal = vec![0];
    let mut goes_on = || {
        let before = sound.snapshot().unwrap();
        let id = 20 + journal.len() as i64;
        commit(&sound, &insert(id, MANY)).unwrap();
        assert!(sound.checkpoint().unwrap());
        assert_eq!(read(&before).0, journal);
        journal.push(id);
        assert_eq!(check(&sound, "the other").len(), journal.len());
    };
    goes_on();

    let opened = common::open(&damaged);
    commit(&opened, &beginning()).unwrap();
    commit(&opened, &insert(2, MANY)).unwrap();
    assert!(opened.checkpoint().unwrap());
    let table = opened.snapshot().unwrap().table("main", "t").unwrap().entry().id;
    let column = damaged.join(format!("columns/{table}/0-0-0.values"));
    fs::OpenOptions::new().write(true).open(&column).unwrap().write_all_at(b"damage", 800).unwrap();
    goes_on();
    assert!(!opened.snapshot().unwrap().check(|_| true).is_empty());
    fs::remove_file(&column).unwrap();
    assert!(
        common::open(&damaged).snapshot().unwrap().table("main", "t").unwrap().columns()[0].array().is_err()
    );
    goes_on();

    commit(&failing, &beginning()).unwrap();
    observer.on.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| commit(&failing, &insert(1, 2)).unwrap_err().kind());
        goes_on();
        assert_eq!(commit.join().unwrap(), ErrorKind::Io);
    });
    goes_on();
    assert_eq!(commit(&failing, &insert(2, 2)).unwrap_err().kind(), ErrorKind::Io);
    drop((opened, failing));
    goes_on();
}

/// The column files that were written since they were synced.
#[derive(Debug, Default)]
struct Unsynced(Mutex<BTreeSet<String>>);

impl Observer for Unsynced {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        match operation {
            Operation::Write { file, .. } if file.contains("/columns/") => drop(files.insert(file.into())),
            Operation::Sync { file } => drop(files.remove(file)),
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn what_was_written_while_nothing_was_synced_is_synced_before_a_durable_commit() {
    let directory = tempfile::tempdir().unwrap();
    let observer = Arc::new(Unsynced::default());
    let database = open_observed(&directory.path().join("d"), observer.clone()).unwrap();
    commit(&database, &beginning()).unwrap();
    let unsynced = || observer.0.lock().unwrap().len();
    assert_eq!(unsynced(), 0);
    for (id, last) in [(20, Synchronous::Off), (21, Synchronous::Normal), (22, Synchronous::Full)] {
        database.set_synchronous(Synchronous::Off);
        let mut transaction = database.begin(1).unwrap().of_statements();
        for step in &insert(id, MANY).steps {
            take_step(&mut transaction, &database.snapshot().unwrap(), step).unwrap();
        }
        transaction.savepoint().unwrap();
        assert!(unsynced() > 0);
        database.set_synchronous(last);
        transaction.commit().unwrap();
        assert_eq!(unsynced() > 0, last == Synchronous::Off);
    }
}

#[test]
fn what_stands_in_for_other_files_is_synced_before_they_go() {
    let directory = tempfile::tempdir().unwrap();
    let observer = Arc::new(Unsynced::default());
    let database = open_observed(&directory.path().join("d"), observer.clone()).unwrap();
    commit(&database, &beginning()).unwrap();
    commit(&database, &insert(1, MANY)).unwrap();
    commit(
        &database,
        &Change { id: 2, steps: vec![Step::Delete { table: "t".into(), values: vec![10_000] }] },
    )
    .unwrap();
    database.set_synchronous(Synchronous::Off);
    let table = database.snapshot().unwrap().table("main", "t").unwrap().entry().id;
    let mut compaction = database.begin(1).unwrap();
    assert_eq!(compaction.compact(table, |_, _| Ok(())).unwrap(), 1);
    assert!(!observer.0.lock().unwrap().is_empty());
    compaction.commit().unwrap();
    let unsynced = observer.0.lock().unwrap().clone();
    assert!(unsynced.is_empty(), "{unsynced:?}");
}

/// What there is before a backup.
struct Stages {
    _directory: tempfile::TempDir,
    source: PathBuf,
    target: PathBuf,
    /// The commits of what is in the target, if there is something, and of the source.
    before: Option<BTreeSet<i64>>,
    after: BTreeSet<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scenario {
    First,
    Second,
    /// The older backup is of commits that the source has lost.
    AfterRestore,
}

impl Stages {
    fn new(scenario: Scenario) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [source, target] = ["source", "target"].map(|name| directory.path().join(name));
        let commit = |database: &Arc<Database>, change: &Change| {
            commit(database, change).unwrap();
            assert!(database.checkpoint().unwrap());
        };
        let mut before = None;
        let database = common::open(&source);
        commit(&database, &beginning());
        commit(&database, &insert(20, MANY));
        if scenario != Scenario::First {
            database.backup(&target, |_| true).unwrap();
            let first = directory.path().join("first");
            copy_directory(&target, &first);
            if scenario == Scenario::AfterRestore {
                commit(&database, &insert(21, MANY));
                commit(&database, &insert(22, MANY));
                database.backup(&target, |_| true).unwrap();
            }
            before = Some(check(&database, "before"));
            drop(database);
            fs::remove_dir_all(&source).unwrap();
            copy_directory(&first, &source);
        }
        let database = common::open(&source);
        commit(&database, &insert(23, MANY));
        commit(&database, &insert(2, MANY));
        let delete = workload().into_iter().flatten().find(|change| change.id == 4);
        commit(&database, &delete.unwrap());
        common::history::commit(&database, &insert(5, 3)).unwrap();
        let after = check(&database, "after");
        Self { _directory: directory, source, target, before, after }
    }
}

/// Backs up on a disk that fails; false when it came to its end before that.
fn back_up(stages: &Stages, faults: &Arc<FailAt>, what: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| directory.path().join(name));
    copy_directory(&stages.source, &source);
    if stages.before.is_some() {
        copy_directory(&stages.target, &target);
    }
    let result =
        open_observed(&source, faults.clone()).and_then(|database| database.backup(&target, |_| true));
    if let Err(error) = &result {
        assert!(faults.has_failed(), "{what}: {error}");
        assert_eq!(error.kind(), kind_of(faults.errno), "{what}: {error}");
    }
    let found = match Database::open(&target, OpenMode::ReadOnly) {
        Ok(backup) => Some(check(&backup, what)),
        Err(error) => {
            assert!(
                [ErrorKind::InvalidInput, ErrorKind::NotFound].contains(&error.kind()),
                "{what}: {error}"
            );
            None
        }
    };
    match result {
        Ok(_) => assert_eq!(found.as_ref(), Some(&stages.after), "{what}"),
        Err(_) => {
            assert!(found == stages.before || found.as_ref() == Some(&stages.after), "{what}: {found:?}")
        }
    }
    // The next one to write to it finds the same, or that it is not a database yet.
    let written = directory.path().join("written");
    if target.exists() {
        copy_directory(&target, &written);
        match (Database::open(&written, OpenMode::ReadWrite), &found) {
            (Ok(database), Some(found)) => assert_eq!(check(&database, what), *found, "{what}"),
            // Nothing was there, so that it is a new database.
            (Ok(_), None) => assert!(!target.join("backup").exists(), "{what}"),
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}"),
            (Err(error), Some(_)) => panic!("{what}: {error}"),
        }
    }
    let database = common::open(&source);
    database.backup(&target, |_| true).unwrap();
    assert_eq!(check(&Database::open(&target, OpenMode::ReadOnly).unwrap(), what), stages.after, "{what}");
    faults.has_failed()
}

fn fail_a_backup_everywhere(scenario: Scenario) {
    let stages = Stages::new(scenario);
    for (for_ever, errno) in [(false, IO), (true, NO_SPACE)] {
        let mut operation = 0;
        while back_up(
            &stages,
            &FailAt::new(operation, for_ever, errno),
            &format!("{scenario:?}, errno {errno} at operation {operation}"),
        ) {
            operation += 1;
        }
        assert!(operation > 50, "only {operation} operations");
    }
}

#[test]
fn an_error_at_any_operation_of_a_first_backup_leaves_none() {
    fail_a_backup_everywhere(Scenario::First);
}

#[test]
fn an_error_at_any_operation_of_a_second_backup_leaves_the_one_before() {
    fail_a_backup_everywhere(Scenario::Second);
}

#[test]
fn an_error_at_any_operation_of_a_backup_after_a_restore_leaves_the_one_before() {
    fail_a_backup_everywhere(Scenario::AfterRestore);
}
