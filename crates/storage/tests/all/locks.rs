//! Waits for the locks of other processes end, by their time or when somebody says so, and name who
//! has the lock. Tables have more files than a process may have open. Who comes while another opens
//! the database keeps what he reads.

use crate::common::{
    self, append_to_log, assert_undamaged, batch, copy_directory, create, create_in_log, open,
};
use arrow_array::{ArrayRef, LargeStringArray, RecordBatch};
use hypostyle_io::{Observer, Operation};
use hypostyle_storage::{Database, OpenMode, Patience, Snapshot, StorageOptions};
use hypostyle_types::{Error, ErrorKind, Result};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Tell the child what to lock, or where its database is.
const LOCKED: &str = "HYPOSTYLE_TEST_LOCKED";
const DIRECTORY: &str = "HYPOSTYLE_TEST_DIRECTORY";

/// Text columns of a table that has more files than its process may have open.
const COLUMNS: usize = 400;

fn texts(first: usize, rows: usize) -> RecordBatch {
    let texts: LargeStringArray = (first..first + rows).map(|row| Some(format!("text {row}"))).collect();
    batch(vec![("text", Arc::new(texts) as ArrayRef)])
}

fn rows(snapshot: &Snapshot) -> usize {
    common::column(snapshot, "t", 0).len()
}

#[test]
#[ignore = "run by the other tests as the process that has a lock"]
fn child_that_locks() {
    let Some(path) = std::env::var_os(LOCKED) else { return };
    let file = fs::File::open(path).unwrap();
    file.lock().unwrap();
    println!("locked");
    std::thread::sleep(Duration::from_secs(600));
}

/// A process that has a lock until it is dropped.
struct Holder(Child);

impl Holder {
    fn of(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "locks::child_that_locks", "--ignored", "--nocapture"])
            .env(LOCKED, path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(io::Result::ok).any(|line| line.ends_with("locked")));
        Self(child)
    }

    fn check(&self, error: &Error) {
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Busy, "55P03"), "{error}");
        let process = format!("process {} (", self.0.id());
        assert!(error.message().contains(&process), "{error}");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn impatient() -> Patience {
    Patience::of(Some(Duration::from_millis(100)))
}

fn open_impatiently(path: &Path) -> Result<Arc<Database>> {
    Database::open(path, StorageOptions { patience: Some(impatient()), ..OpenMode::ReadWrite.into() })
}

#[test]
fn opening_does_not_wait_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    fs::create_dir(&path).unwrap();
    // One that is about to be made, and one that is there.
    for locked in [path.clone(), path.join("shared")] {
        let holder = Holder::of(&locked);
        holder.check(&open_impatiently(&path).unwrap_err());
        drop(holder);
        open_impatiently(&path).unwrap();
    }
}

#[test]
fn a_commit_that_gets_no_lock_has_not_happened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[texts(0, 3)]).unwrap();
    let holder = Holder::of(&path.join("shared"));
    let patient = impatient().hold();
    // Threads that wait for each other wait no longer than for the lock.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _patient = impatient().hold();
                holder.check(&append_to_log(&database, id, &texts(3, 1)).unwrap_err());
            });
        }
    });
    holder.check(&create_in_log(&database, "u", &[texts(0, 1)]).unwrap_err());
    holder.check(&database.checkpoint().unwrap_err());
    assert_eq!(rows(&database.snapshot().unwrap()), 3);
    drop(patient);
    let asked = Mutex::new(0);
    let patient = Patience::default()
        .unless(move || {
            *asked.lock().unwrap() += 1;
            match *asked.lock().unwrap() {
                1 | 2 => Ok(()),
                _ => Err(Error::new(ErrorKind::Interrupted, "enough")),
            }
        })
        .hold();
    let error = append_to_log(&database, id, &texts(3, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    drop((holder, patient));
    append_to_log(&database, id, &texts(3, 2)).unwrap();
    assert_eq!(rows(&database.snapshot().unwrap()), 5);
    drop(database);
    assert_eq!(rows(&open(&path).snapshot().unwrap()), 5);
}

#[test]
fn a_commit_whose_sync_waits_for_ever_says_that_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (database, other) = (open(&path), open(&path));
    let id = create(&database, "t", &[texts(0, 3)]).unwrap();
    let mut late = other.begin(1).unwrap();
    late.delete(id, &[0_u64].into_iter().collect()).unwrap();
    let holder = Holder::of(&path.join("HYPOSTYLE"));
    let patient = impatient().unless(|| Err(Error::new(ErrorKind::Interrupted, "too late"))).hold();
    let mut transaction = database.begin(1).unwrap();
    transaction.append(id, &texts(3, 2)).unwrap();
    transaction.delete(id, &[0_u64].into_iter().collect()).unwrap();
    let error = transaction.commit().unwrap_err();
    holder.check(&error);
    assert!(error.message().contains("the commit is written"), "{error}");
    // Who is in conflict with it has written nothing, and goes on when the lock is free.
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
    drop((holder, patient));
    create_in_log(&other, "u", &[texts(0, 1)]).unwrap();
    drop(other);
    // This process does not know any more what others see.
    let error = append_to_log(&database, id, &texts(4, 1)).unwrap_err();
    assert!(error.message().contains("open it again"), "{error}");
    drop(database);
    let database = open(&path);
    assert_eq!(rows(&database.snapshot().unwrap()), 4);
    append_to_log(&database, id, &texts(4, 1)).unwrap();
    assert_eq!(rows(&database.snapshot().unwrap()), 5);
}

/// A table of text columns of which each has its files.
#[test]
#[ignore = "run by another test as a process with few descriptors"]
fn child_with_many_columns() {
    let Some(path) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let names: Vec<String> = (0..COLUMNS).map(|column| format!("c{column}")).collect();
    let piece = |first: usize, rows: usize| {
        let column = |column| -> ArrayRef {
            let rows =
                (first..first + rows).map(|row| (row % 3 != 1).then(|| format!("text {column} {row}")));
            Arc::new(rows.collect::<LargeStringArray>())
        };
        batch(names.iter().enumerate().map(|(index, name)| (name.as_str(), column(index))).collect())
    };
    let check = |database: &Database, rows: usize| {
        let snapshot = database.snapshot().unwrap();
        assert_undamaged(&snapshot);
        let expected = piece(0, rows);
        for (index, name) in names.iter().enumerate() {
            common::assert_same(&common::column(&snapshot, "t", index), expected.column(index), name);
        }
    };
    let database = open(&path);
    let id = create(&database, "t", &[piece(0, 10), piece(10, 10)]).unwrap();
    common::append(&database, id, &piece(20, 5)).unwrap();
    check(&database, 25);
    let mut transaction = database.begin(2).unwrap();
    transaction.append(id, &piece(25, 2000)).unwrap();
    drop(transaction);
    drop(database);
    check(&open(&path), 25);
    println!("done");
}

#[test]
fn a_table_has_more_files_than_a_process_may_have_open() {
    let directory = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 320; exec \"$0\" \"$@\""])
        .arg(program)
        .args(["--exact", "locks::child_with_many_columns", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory.path().join("d"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("done"), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Has a reader come just before `shared` is written.
#[derive(Debug, Default)]
struct Visitor(Mutex<Option<Arc<Snapshot>>>);

impl Observer for Visitor {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let mut seen = self.0.lock().unwrap();
        if let Operation::Write { file, .. } = operation
            && let Some(path) = file.strip_suffix("/shared")
            && seen.is_none()
        {
            *seen = Some(Database::open(Path::new(path), OpenMode::ReadOnly).unwrap().snapshot().unwrap());
        }
        Ok(())
    }
}

#[test]
fn a_reader_keeps_the_table_that_a_commit_of_a_dead_process_drops() {
    let directory = tempfile::tempdir().unwrap();
    let (original, path) = (directory.path().join("o"), directory.path().join("d"));
    let database = open(&original);
    let id = create(&database, "t", &[texts(0, 30)]).unwrap();
    drop(database);
    copy_directory(&original, &path);
    let database = open(&original);
    let mut transaction = database.begin(1).unwrap();
    transaction.drop_table(id).unwrap();
    transaction.commit().unwrap();
    drop(database);
    // The process died after it had written the commit, and before it published it.
    for entry in fs::read_dir(&original).unwrap() {
        let name = entry.unwrap().file_name();
        if name.to_str().unwrap().starts_with("log-") {
            fs::copy(original.join(&name), path.join(&name)).unwrap();
        }
    }
    let visitor = Arc::new(Visitor::default());
    let options = StorageOptions { observer: Some(visitor.clone()), ..OpenMode::ReadWrite.into() };
    let writer = Database::open(&path, options).unwrap();
    assert!(writer.snapshot().unwrap().table("main", "t").is_none());
    let seen = visitor.0.lock().unwrap().take().unwrap();
    assert_undamaged(&seen);
    assert_eq!(rows(&seen), 30);
    drop(seen);
    create_in_log(&writer, "u", &[texts(0, 1)]).unwrap();
    assert!(writer.checkpoint().unwrap());
    assert!(!path.join(format!("columns/{id}")).exists());
}
