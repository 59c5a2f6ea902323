//! Memory that is refused: the n-th allocation of a workload fails, for n = 1, 2, 3, …
//!
//! A refused allocation ends the process, and then nothing that was acknowledged is lost, and the
//! database opens and is sound. What takes its size from a file must not end the process: it is an
//! error. The test binary runs itself as the process that ends.

mod common;

use common::copy_directory;
use common::history::*;
use hypostyle_format::{Catalog, Commit, LogReader, SHARED_BYTES, Shared};
use hypostyle_storage::{Database, OpenMode};
use hypostyle_types::{ErrorKind, Result};
use serde_json::Value;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Tells the child where its database is, and which allocation fails: none is 0.
const DIRECTORY: &str = "HYPOSTYLE_TEST_ALLOCATION_DIRECTORY";
const FAILING: &str = "HYPOSTYLE_TEST_ALLOCATION_FAILING";
/// Whether all that follow fail, too.
const FOR_EVER: &str = "HYPOSTYLE_TEST_ALLOCATION_FOR_EVER";
/// How many allocations of the workload fail in `make test`, and in a round of `make test-long`.
const SAMPLED: u64 = 100;
/// Asks for all of them, which takes most of an hour.
const ALL: &str = "HYPOSTYLE_TEST_ALLOCATIONS";

const ABORT: i32 = 6;

/// More than a directory of some kilobytes needs, whatever numbers are written in it.
const GREATEST_ALLOWED: usize = 64 << 20;
/// The length that a file without blocks may have on any file system.
const ENDLESS: u64 = 1 << 40;
const NUMBERS: [u64; 4] = [u32::MAX as u64, 1 << 40, 1 << 62, u64::MAX];
const ROWS: u64 = 300;
/// One column of each layout.
const COLUMNS: [&str; 7] = ["i32", "bool", "text", "few", "list", "struct", "array"];

/// Refuses memory when told to: one piece, or all that are too large.
struct Refusing;

static IS_ARMED: AtomicBool = AtomicBool::new(false);
static IS_FOR_EVER: AtomicBool = AtomicBool::new(false);
static FAILS: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
static GREATEST: AtomicUsize = AtomicUsize::new(usize::MAX);

impl Refusing {
    fn refuses(size: usize) -> bool {
        if size > GREATEST.load(Ordering::Relaxed) {
            return true;
        }
        if !IS_ARMED.load(Ordering::Relaxed) {
            return false;
        }
        let (number, fails) = (DONE.fetch_add(1, Ordering::Relaxed) + 1, FAILS.load(Ordering::Relaxed));
        number == fails || fails > 0 && number > fails && IS_FOR_EVER.load(Ordering::Relaxed)
    }
}

// SAFETY: what is not refused is left to the system's allocator, and null is what a refusal is.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if Self::refuses(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

/// Rows in the log and in files, deletions, definitions, compactions; `None` is a checkpoint.
fn workload() -> Vec<Option<Change>> {
    let (before, scenarios) = alterations();
    let of_all: [usize; 3] = [0, 3, 5];
    let altered = of_all.into_iter().flat_map(|number| scenarios[number].clone());
    before.into_iter().chain(altered).chain([Some(insert(8, 3))]).collect()
}

/// Runs the workload on a new database, then recovers it, reads it and backs it up.
fn work(path: &Path) -> Result<()> {
    let database = Database::open(path, OpenMode::ReadWrite)?;
    for step in workload() {
        match step {
            None => drop(database.checkpoint()?),
            Some(change) => {
                commit(&database, &change)?;
                println!("acknowledged {}", change.id);
            }
        }
    }
    drop(database);
    let database = Database::open(path, OpenMode::ReadWrite)?;
    let snapshot = database.snapshot()?;
    for column in snapshot.tables().flat_map(|table| table.columns()) {
        column.array()?;
    }
    if let Some(damage) = snapshot.check(|_| true).pop() {
        return Err(damage.error);
    }
    database.backup(&path.with_extension("backup"), |_| true).map(drop)
}

/// The process that gets no memory.
#[test]
#[ignore = "run by the other tests as the process that ends"]
fn child_that_works() {
    let Some(path) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    println!("begins");
    FAILS.store(number_of(FAILING).unwrap(), Ordering::Relaxed);
    IS_FOR_EVER.store(std::env::var_os(FOR_EVER).is_some(), Ordering::Relaxed);
    IS_ARMED.store(true, Ordering::Relaxed);
    let result = work(&path);
    IS_ARMED.store(false, Ordering::Relaxed);
    match result {
        Ok(()) => println!("allocations {}", DONE.load(Ordering::Relaxed)),
        Err(error) => println!("refused {:?} {}", error.kind(), error.message()),
    }
}

/// What a child said, and whether it aborted.
struct Ending {
    lines: Vec<String>,
    has_aborted: bool,
}

impl Ending {
    fn of(path: &Path, fails: u64, for_ever: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_that_works", "--ignored", "--nocapture"]);
        command.env(DIRECTORY, path).env(FAILING, fails.to_string()).stderr(Stdio::piped());
        if for_ever {
            command.env(FOR_EVER, "1");
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let has_aborted = output.status.signal() == Some(ABORT);
        assert!(has_aborted || output.status.success(), "allocation {fails}: {}: {said}", output.status);
        assert!(!said.contains("panicked"), "allocation {fails}: {said}");
        let lines = String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect();
        Self { lines, has_aborted }
    }

    fn after(&self, word: &str) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '))
    }
}

/// The commits in a database, which holds what these make and nothing else.
fn found(database: &Arc<Database>, what: &str) -> BTreeSet<i64> {
    let (journal, tables) = read(&database.snapshot().unwrap());
    let changes: Vec<Change> = workload().into_iter().flatten().collect();
    let mut expected = Tables::new();
    for id in &journal {
        apply(&mut expected, changes.iter().find(|change| change.id == *id).unwrap());
    }
    assert!(tables == expected, "{what}: the rows are not those of {journal:?}");
    journal.into_iter().collect()
}

/// Whether the process came to its end although an allocation was refused.
fn refuse(fails: u64, for_ever: bool) -> bool {
    let what = format!("allocation {fails}{}", if for_ever { " and all that follow" } else { "" });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let ending = Ending::of(&path, fails, for_ever);
    for refusal in ending.after("refused") {
        assert!(refusal.starts_with(&format!("{:?}", ErrorKind::OutOfMemory)), "{what}: {refusal}");
    }
    let acknowledged: BTreeSet<i64> = ending.after("acknowledged").map(|id| id.parse().unwrap()).collect();
    let order: Vec<i64> = workload().into_iter().flatten().map(|change| change.id).collect();
    let attempted: BTreeSet<i64> = order.iter().take(acknowledged.len() + 1).copied().collect();

    let database = common::open(&path);
    let there = found(&database, &what);
    assert!(acknowledged.is_subset(&there), "{what}: {acknowledged:?}, but {there:?}");
    assert!(there.is_subset(&attempted), "{what}: {there:?} after {acknowledged:?}");
    assert_nothing_is_left_behind(&path, &database.snapshot().unwrap());
    let backup = path.with_extension("backup");
    if backup.join("HYPOSTYLE").exists() {
        let backup = Database::open(&backup, OpenMode::ReadOnly).unwrap();
        assert_eq!(found(&backup, &what), there);
    }
    // It goes on, too.
    if there.contains(&0) && !there.contains(&8) {
        commit(&database, &insert(8, 3)).unwrap();
        assert!(database.checkpoint().unwrap());
        assert_eq!(found(&database, &what).len(), there.len() + 1);
    }
    !ending.has_aborted
}

/// The allocations that fail: all, or so many evenly spread ones that begin at a random place.
fn chosen(allocations: u64) -> impl Iterator<Item = u64> {
    let wanted = match std::env::var_os(ALL) {
        Some(_) => allocations,
        None => SAMPLED * number_of("HYPOSTYLE_TEST_ROUNDS").unwrap_or(1),
    };
    let step = (allocations / wanted).max(1);
    (1 + seed() % step..=allocations).step_by(step as usize)
}

#[test]
fn a_refused_allocation_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let calm = Ending::of(&directory.path().join("calm"), 0, false);
    let allocations: u64 = calm.after("allocations").next().unwrap().parse().unwrap();
    assert!(allocations > 1000, "only {allocations} allocations");
    let chosen = Mutex::new(chosen(allocations).enumerate());
    let (runs, survived) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = chosen.lock().unwrap().next();
                    let Some((run, fails)) = next else { break };
                    survived.fetch_add(refuse(fails, run % 2 == 1).into(), Ordering::Relaxed);
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (runs, survived) = (runs.into_inner(), survived.into_inner());
    println!("{runs} of {allocations} allocations were refused; {survived} times the process went on");
    assert!(survived < runs, "no allocation was refused");
}

/// The files of a database, as paths within it.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let name = PathBuf::from(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files_of(&entry.path()).into_iter().map(|file| name.join(file))),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

/// Each JSON text that differs from this one in a single number.
fn forged(value: &Value) -> Vec<Value> {
    let within = |replaced: &dyn Fn(Value) -> Value, part: &Value| -> Vec<Value> {
        forged(part).into_iter().map(replaced).collect()
    };
    match value {
        Value::Number(_) => NUMBERS.into_iter().map(Value::from).collect(),
        Value::Array(items) => (0..items.len())
            .flat_map(|index| {
                let replaced = |part: Value| {
                    let mut items = items.clone();
                    items[index] = part;
                    Value::Array(items)
                };
                within(&replaced, &items[index])
            })
            .collect(),
        Value::Object(members) => members
            .keys()
            .flat_map(|key| {
                let replaced = |part: Value| {
                    let mut members = members.clone();
                    members.insert(key.clone(), part);
                    Value::Object(members)
                };
                within(&replaced, &members[key])
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The same JSON text with one number in the place of another, wherever it is.
fn replaced(value: &Value, number: u64, other: u64) -> Value {
    match value {
        Value::Number(found) if found.as_u64() == Some(number) => other.into(),
        Value::Array(items) => items.iter().map(|item| replaced(item, number, other)).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, member)| (key.clone(), replaced(member, number, other))).collect()
        }
        _ => value.clone(),
    }
}

/// What a database says of itself in `shared`, with one number that cannot be.
fn forged_shared(bytes: &[u8]) -> Vec<[u8; SHARED_BYTES]> {
    let known = Shared::decode(bytes).unwrap();
    let one = |number: u64| {
        [
            Shared { written: number, ..known },
            Shared { published: number, ..known },
            Shared { synced: number, ..known },
            Shared { written: number, published: number, synced: number, sync_failed: true, ..known },
        ]
    };
    NUMBERS.into_iter().chain([ENDLESS]).flat_map(one).map(|shared| shared.encode()).collect()
}

/// Opens a database that somebody has made up, and does with it what an owner would.
fn use_it(path: &Path) {
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let Ok(database) = Database::open(path, mode) else { continue };
        let Ok(snapshot) = database.snapshot() else { continue };
        for column in snapshot.tables().flat_map(|table| table.columns()) {
            let _result = column.verify_rows(0..column.rows().min(10_000));
            let _result = column.array();
        }
        let _damages = snapshot.check(|_| true);
        let _result = match mode {
            OpenMode::ReadOnly => database.backup(&path.with_extension("backup"), |_| true).map(drop),
            OpenMode::ReadWrite => database.checkpoint().map(drop),
        };
    }
}

/// A database with something of everything: rows in files and in the log, and deleted ones of both.
fn original(path: &Path) {
    let rows = |first: usize, count: usize| {
        let all = common::every_type(first, count, true);
        let wanted = COLUMNS.map(|name| all.schema().index_of(name).unwrap());
        all.project(&wanted).unwrap()
    };
    let database = common::open(path);
    let id = common::create(&database, "t", &[rows(0, ROWS as usize)]).unwrap();
    let delete = |rows: Range<u64>| {
        let mut transaction = database.begin(1).unwrap();
        transaction.delete(id, &rows.collect()).unwrap();
        transaction.commit().unwrap();
    };
    delete(3..9);
    assert!(database.checkpoint().unwrap());
    common::append_to_log(&database, id, &rows(ROWS as usize, 5)).unwrap();
    delete(ROWS..ROWS + 2);
}

/// The process that is given databases whose numbers are lies.
#[test]
#[ignore = "run by the other tests as the process that ends"]
fn child_that_believes() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    GREATEST.store(GREATEST_ALLOWED, Ordering::Relaxed);
    let (sound, path) = (directory.join("sound"), directory.join("d"));
    original(&sound);
    let mut lies = 0;
    let mut lie = |what: &str, change: &dyn Fn(&Path)| {
        println!("{what}");
        copy_directory(&sound, &path);
        change(&path);
        use_it(&path);
        fs::remove_dir_all(&path).unwrap();
        let _missing = fs::remove_dir_all(path.with_extension("backup"));
        lies += 1;
    };
    lie("nothing", &|path| assert!(Database::open(path, OpenMode::ReadOnly).is_ok()));
    for file in files_of(&sound).into_iter().filter(|file| !file.starts_with("columns")) {
        lie(&format!("the length of {}", file.display()), &|path| lengthen(&path.join(&file)));
        let without_shared = |path: &Path| {
            lengthen(&path.join(&file));
            let _missing = fs::remove_file(path.join("shared"));
        };
        lie(&format!("the length of {}, after a restart", file.display()), &without_shared);
    }
    for file in files_of(&sound).into_iter().filter(|file| file.starts_with("columns")) {
        lie(&format!("the length of {}", file.display()), &|path| lengthen(&path.join(&file)));
    }
    for shared in forged_shared(&fs::read(sound.join("shared")).unwrap()) {
        lie("shared", &|path| fs::write(path.join("shared"), shared).unwrap());
    }
    let catalog = files_of(&sound).into_iter().rfind(|file| starts_with(file, "catalog-")).unwrap();
    let known = Catalog::decode_checkpoint(&fs::read(sound.join(&catalog)).unwrap()).unwrap();
    let told = serde_json::to_value(&known).unwrap();
    // Also lies that agree with each other.
    let agreeing = NUMBERS.into_iter().map(|number| replaced(&told, ROWS, number));
    for forged in forged(&told).into_iter().chain(agreeing) {
        let Ok(forged) = serde_json::from_value::<Catalog>(forged) else { continue };
        let Ok(bytes) = forged.encode_checkpoint() else { continue };
        lie("the catalog", &|path| fs::write(path.join(&catalog), &bytes).unwrap());
    }
    let log = files_of(&sound).into_iter().rfind(|file| starts_with(file, "log-")).unwrap();
    let bytes = fs::read(sound.join(&log)).unwrap();
    let mut reader = LogReader::new(&bytes, known.version);
    let commits: Vec<Commit> = std::iter::from_fn(|| reader.next_commit().unwrap()).collect();
    for (number, commit) in commits.iter().enumerate() {
        for forged in forged(&serde_json::to_value(commit).unwrap()) {
            let Ok(forged) = serde_json::from_value::<Commit>(forged) else { continue };
            let forged = Commit { attachments: commit.attachments.clone(), ..forged };
            let mut version = known.version;
            let frames = commits.iter().enumerate().map(|(place, commit)| {
                version = version.next();
                let commit = if place == number { &forged } else { commit };
                commit.encode(version).unwrap()
            });
            let log_bytes = frames.collect::<Vec<_>>().concat();
            lie("the log", &|path| {
                fs::write(path.join(&log), &log_bytes).unwrap();
                fs::remove_file(path.join("shared")).unwrap();
            });
        }
    }
    println!("lies {lies}");
}

fn lengthen(file: &Path) {
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(ENDLESS).unwrap();
}

fn starts_with(file: &Path, prefix: &str) -> bool {
    file.to_str().is_some_and(|name| name.starts_with(prefix))
}

#[test]
fn no_number_in_a_directory_takes_memory_that_it_has_no_bytes_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_that_believes", "--ignored", "--nocapture"]);
    let output = command.env(DIRECTORY, directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    assert!(
        output.status.success(),
        "{}, at {last}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let lies = said.lines().find_map(|line| line.strip_prefix("lies ")).unwrap();
    println!("{lies} lies");
    assert!(lies.parse::<u64>().unwrap() > 150, "only {lies} lies");
}
