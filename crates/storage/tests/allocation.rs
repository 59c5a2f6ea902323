//! Memory that is refused: the n-th allocation of a workload fails, for n = 1, 2, 3, …
//!
//! A refused allocation ends the process, unless its size came from a file: then it is an error. Either way nothing
//! that was acknowledged is lost, and the database opens and is sound. The test binary runs itself as the process
//! that ends.

mod common;

use common::history::*;
use hypostyle_storage::{Database, OpenMode};
use hypostyle_types::{ErrorKind, Result};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
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

/// Refuses memory when told to, and remembers the greatest piece that was asked for.
struct Refusing;

static IS_ARMED: AtomicBool = AtomicBool::new(false);
static IS_FOR_EVER: AtomicBool = AtomicBool::new(false);
static FAILS: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
static GREATEST: AtomicUsize = AtomicUsize::new(0);

impl Refusing {
    fn refuses(size: usize) -> bool {
        GREATEST.fetch_max(size, Ordering::Relaxed);
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
