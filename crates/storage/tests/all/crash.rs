//! A process that is killed, or runs out of disk, at any moment: what it had acknowledged is there,
//! what it had not is not, and the database opens.
//!
//! The test binary runs itself as the process that dies.

use crate::common::{assert_same, assert_undamaged, batch, column, columns_of, open};
use arrow_array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use hypostyle_storage::{Database, OpenMode, Snapshot};
use hypostyle_types::ErrorKind;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tells the child where its database is.
const DIRECTORY: &str = "HYPOSTYLE_TEST_CRASH_DIRECTORY";
const SEED: &str = "HYPOSTYLE_TEST_SEED";
/// Kills in a run of a test, with one writer, and beside one who has the database open.
const KILLS: usize = 40;
const KILLS_BESIDE: usize = 15;

/// How many rows are appended to a table that has `rows`: the history follows from the row count alone.
fn next_append(rows: u64) -> u64 {
    1 + rows.wrapping_mul(7919) % 3001
}

fn content(first: u64, rows: u64) -> RecordBatch {
    let numbers = || first..first + rows;
    let integers: Int64Array = numbers().map(|row| (row % 5 != 3).then_some(row as i64)).collect();
    let texts: LargeStringArray = numbers().map(|row| Some(format!("row {row}"))).collect();
    let kinds: LargeStringArray =
        numbers().map(|row| (row % 7 != 2).then(|| format!("kind {}", row % 11))).collect();
    batch(vec![("n", Arc::new(integers) as ArrayRef), ("text", Arc::new(texts)), ("kind", Arc::new(kinds))])
}

/// The table that each commit makes anew, named after the row count it found.
fn marker(rows: u64) -> String {
    format!("after_{rows}")
}

/// One transaction: rows into `t`, and a marker table in the place of the one before.
fn commit_next(database: &Arc<Database>) -> hypostyle_types::Result<u64> {
    let snapshot = database.snapshot().unwrap();
    let found = snapshot.table("main", "t").map(|table| (table.entry().id, table.rows()));
    let mut writer = database.begin(2)?;
    let rows = found.map_or(0, |(_, rows)| rows);
    let piece = content(rows, next_append(rows));
    let id = match found {
        Some((id, _)) => id,
        None => writer.create_table("main", "t", columns_of(&piece))?,
    };
    writer.append(id, &piece)?;
    for table in snapshot.tables().filter(|table| table.entry().name.starts_with("after_")) {
        writer.drop_table(table.entry().id)?;
    }
    let id = writer.create_table("main", &marker(rows), columns_of(&piece))?;
    writer.append(id, &content(rows, 3))?;
    writer.commit()?;
    Ok(rows + next_append(rows))
}

/// The process that dies: commits for ever, and says after each commit how many rows there are.
#[test]
#[ignore = "run by the other tests as the process that dies"]
fn child_that_commits() {
    let Some(path) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let database = open(&path);
    loop {
        match commit_next(&database) {
            Ok(rows) => println!("committed {rows}"),
            Err(error) => {
                println!("failed {:?} {}", error.kind(), error.message());
                return;
            }
        }
        std::io::stdout().flush().unwrap();
    }
}

/// The process that is killed while it reads.
#[test]
#[ignore = "run by the other tests as the process that dies"]
fn child_that_reads() {
    let Some(path) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let database = Database::open(&path, OpenMode::ReadOnly).unwrap();
    let snapshot = database.snapshot().unwrap();
    println!("reading {}", snapshot.table("main", "t").unwrap().rows());
    std::thread::sleep(Duration::from_secs(600));
    drop(snapshot);
}

fn child(path: &Path, test: &str, shell_prefix: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{shell_prefix} exec \"$0\" \"$@\"")])
        .arg(program)
        .args(["--exact", &format!("crash::{test}"), "--ignored", "--nocapture"])
        .env(DIRECTORY, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Everything in the database is what a history of whole commits up to some commit makes.
fn check_history(snapshot: &Snapshot) -> u64 {
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
    let Some(table) = snapshot.table("main", "t") else {
        assert_eq!(snapshot.tables().count(), 0);
        return 0;
    };
    let (mut rows, mut before) = (0, 0);
    while rows < table.rows() {
        before = rows;
        rows += next_append(rows);
    }
    assert_eq!(table.rows(), rows, "a commit is there in part");
    let expected = content(0, rows);
    for (index, field) in expected.schema().fields().iter().enumerate() {
        assert_same(&column(snapshot, "t", index), expected.column(index), field.name());
    }
    let names: Vec<&str> = snapshot.tables().map(|table| table.entry().name.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let expected = content(before, 3);
    for (index, field) in expected.schema().fields().iter().enumerate() {
        assert_same(&column(snapshot, &marker(before), index), expected.column(index), field.name());
    }
    rows
}

/// How long the column files of each table are; tables' numbers and generations tell of their past.
fn column_files(path: &Path) -> Vec<Vec<u64>> {
    let length = |file: std::io::Result<fs::DirEntry>| file.unwrap().metadata().unwrap().len();
    let lengths = |table: std::io::Result<fs::DirEntry>| {
        let mut lengths: Vec<u64> = fs::read_dir(table.unwrap().path()).unwrap().map(length).collect();
        lengths.sort();
        lengths
    };
    let mut tables: Vec<_> = fs::read_dir(path.join("columns")).unwrap().map(lengths).collect();
    tables.sort();
    tables
}

/// The files that a database with this history has when nobody was killed while making it.
fn files_of_a_calm_life(rows: u64) -> Vec<Vec<u64>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calm.hypo");
    let database = open(&path);
    while database.snapshot().unwrap().table("main", "t").map_or(0, |table| table.rows()) < rows {
        commit_next(&database).unwrap();
    }
    drop(database);
    drop(open(&path));
    column_files(&path)
}

/// A small generator of pseudo-random numbers (xorshift64*), so that a seed repeats a run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }
}

/// The seed of this run, told so that it can be repeated.
fn seed() -> u64 {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1,
    };
    println!("{SEED}={seed}");
    seed
}

/// `HYPOSTYLE_TEST_ROUNDS` multiplies what is done.
fn times(count: usize) -> usize {
    count * std::env::var("HYPOSTYLE_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap())
}

#[test]
fn a_killed_writer_loses_nothing_and_leaves_nothing() {
    let mut random = Random(seed());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed.hypo");
    let (mut rows, mut kills_in_commit) = (0, 0);
    let rounds = times(KILLS);
    for round in 0..rounds {
        let mut child = child(&path, "child_that_commits", "");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let deadline = Instant::now() + Duration::from_micros(20_000 + random.below(120_000));
        let killer = {
            let id = child.id().to_string();
            std::thread::spawn(move || {
                std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
                Command::new("kill").args(["-KILL", &id]).status().unwrap();
            })
        };
        let mut acknowledged = rows;
        while let Some(Ok(line)) = lines.next() {
            if let Some(rows) = line.strip_prefix("committed ") {
                acknowledged = rows.parse().unwrap();
            }
            assert!(!line.starts_with("failed"), "round {round}: {line}");
        }
        killer.join().unwrap();
        child.wait().unwrap();
        let database = open(&path);
        let found = check_history(&database.snapshot().unwrap());
        assert!(found >= acknowledged, "round {round}: {acknowledged} rows acknowledged, {found} found");
        assert!(
            found <= acknowledged + next_append(acknowledged),
            "round {round}: {found} rows found after {acknowledged} acknowledged"
        );
        kills_in_commit += usize::from(found > acknowledged);
        rows = found;
        if rows > 200_000 {
            drop(database);
            assert_eq!(column_files(&path), files_of_a_calm_life(rows), "files are left behind");
            fs::remove_dir_all(&path).unwrap();
            rows = 0;
        }
    }
    println!(
        "{rows} rows; {kills_in_commit} of {rounds} kills fell between a commit and its acknowledgement"
    );
    drop(open(&path));
    if rows > 0 {
        assert_eq!(column_files(&path), files_of_a_calm_life(rows), "files are left behind");
    }
}

#[test]
fn a_killed_writer_leaves_nothing_although_the_database_stays_open() {
    let mut random = Random(seed());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed.hypo");
    drop(open(&path));
    let reader = Database::open(&path, OpenMode::ReadOnly).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..times(KILLS_BESIDE) {
        let mut child = child(&path, "child_that_commits", "");
        std::thread::sleep(Duration::from_micros(20_000 + random.below(80_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let tables = fs::read_dir(path.join("columns")).unwrap();
        seen.extend(tables.map(|table| table.unwrap().file_name()));
        let rows = check_history(&reader.snapshot().unwrap());
        let database = open(&path);
        assert!(database.checkpoint().unwrap());
        let snapshot = database.snapshot().unwrap();
        assert!(check_history(&snapshot) >= rows);
        assert_eq!(fs::read_dir(path.join("columns")).unwrap().count(), snapshot.tables().count());
    }
    println!("{} directories of tables", seen.len());
}

#[test]
fn a_full_disk_stops_an_append_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full.hypo");
    // No file may grow beyond 256 KiB; the signal for it is ignored, so that writes fail instead.
    let mut child = child(&path, "child_that_commits", "trap '' XFSZ; ulimit -f 512;");
    let lines: Vec<String> =
        BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap()).collect();
    child.wait().unwrap();
    let acknowledged: u64 = lines
        .iter()
        .filter_map(|line| line.strip_prefix("committed ")?.parse().ok())
        .next_back()
        .expect("nothing was committed before the disk was full");
    let failure = lines.iter().find(|line| line.starts_with("failed ")).expect("the disk was never full");
    assert!(failure.starts_with(&format!("failed {:?}", ErrorKind::DiskFull)), "{failure}");

    let reader = Database::open(&path, OpenMode::ReadOnly).unwrap();
    assert_eq!(check_history(&reader.snapshot().unwrap()), acknowledged);
    drop(reader);
    // With space again, the database goes on.
    let database = open(&path);
    let rows = commit_next(&database).unwrap();
    assert_eq!(check_history(&database.snapshot().unwrap()), rows);
    drop(database);
    drop(open(&path));
    assert_eq!(column_files(&path), files_of_a_calm_life(rows), "files are left behind");
}

#[test]
fn a_killed_reader_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("read.hypo");
    let database = open(&path);
    while database.snapshot().unwrap().table("main", "t").is_none_or(|table| table.rows() < 5000) {
        commit_next(&database).unwrap();
    }
    assert!(database.checkpoint().unwrap());
    let id = database.snapshot().unwrap().table("main", "t").unwrap().entry().id;
    let vacuum = || {
        let mut transaction = database.begin(1).unwrap();
        let first = transaction.base().table_by_id(id).unwrap().deleted().len();
        transaction.delete(id, &(first..first + 10).collect()).unwrap();
        transaction.commit().unwrap();
        let mut transaction = database.begin(1).unwrap();
        assert_eq!(transaction.compact(id, |_, _| Ok(())).unwrap(), 10);
        transaction.commit().unwrap();
    };
    let generations = || {
        let files = fs::read_dir(path.join(format!("columns/{id}"))).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| Some(name.rsplit_once('-')?.0.to_string())).collect::<BTreeSet<_>>()
    };
    let readers = || fs::read_dir(path.join("readers")).unwrap().count();
    let before = generations();

    let mut child = child(&path, "child_that_reads", "");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("reading ")));
    vacuum();
    assert_eq!((generations().len(), readers()), (2 * before.len(), 2));
    child.kill().unwrap();
    child.wait().unwrap();
    vacuum();
    assert_eq!((generations().len(), readers()), (before.len(), 1));
    assert!(generations().is_disjoint(&before));
    assert_undamaged(&database.snapshot().unwrap());
}
