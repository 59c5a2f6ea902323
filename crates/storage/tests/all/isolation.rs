//! Snapshot isolation, judged by a checker: threads and processes run random transactions on one
//! table, with a primary key and references or without, and write down what they read and wrote.
//!
//! The decisions follow from the seed; how the transactions overlap does not. The test binary runs
//! itself as the other processes.

mod checker;
use crate::common::{Random, SEED, batch, columns_of, open, rows_of, seed, seeds};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use checker::{Outcome, Row, Step, check};
use hypostyle_storage::{
    ConstraintEntry, ConstraintRule, Database, ReferentialAction, Savepoint, Snapshot, Synchronous,
    Transaction,
};
use hypostyle_types::{ColumnId, ErrorKind, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Tells a child where it works, and which of the processes it is.
const DIRECTORY: &str = "HYPOSTYLE_TEST_ISOLATION_DIRECTORY";
const PROCESS: &str = "HYPOSTYLE_TEST_ISOLATION_PROCESS";

const PROCESSES: u64 = 3;
const THREADS: u64 = 2;
const TRANSACTIONS: u64 = 200;

/// Rows with smaller keys are counters, which are never deleted.
const COUNTERS: u64 = 8;

/// Keys behind those of the counters that several workers try to give, where keys are declared.
const COMMON_KEYS: u64 = 12;

/// The ids of a worker's rows start at this many times its number.
const IDS_OF_WORKER: u64 = 1 << 32;

/// What a row carries besides: nothing much, a lot for the log, or so much that it goes to the column files.
fn payload_bytes(id: u64) -> usize {
    match id % 64 {
        7 => 300_000,
        19 | 38 => 40_000,
        _ => 10,
    }
}

fn rows(rows: &[Row]) -> RecordBatch {
    let column = |value: fn(&Row) -> u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| value(row) as i64)))
    };
    let payloads = rows.iter().map(|row| Some("x".repeat(payload_bytes(row.id))));
    let payloads = Arc::new(LargeStringArray::from_iter(payloads));
    batch(vec![
        ("key", column(|row| row.key)),
        ("id", column(|row| row.id)),
        ("count", column(|row| row.count)),
        ("refers", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.refers.map(|key| key as i64))))),
        ("payload", payloads),
    ])
}

/// The rows of the table, with their positions.
fn read(snapshot: &Snapshot) -> BTreeMap<Row, u64> {
    let table = snapshot.table("main", "t").unwrap();
    let numbers = |index| rows_of(table, index).as_primitive::<Int64Type>().values().to_vec();
    let [keys, ids, counts] = [0, 1, 2].map(numbers);
    let (references, payloads) = (rows_of(table, 3), rows_of(table, 4));
    let references = references.as_primitive::<Int64Type>();
    let positions = (0..table.positions()).filter(|position| !table.deleted().contains(*position));
    let mut found = BTreeMap::new();
    for (index, position) in positions.enumerate() {
        let refers = references.is_valid(index).then(|| references.value(index) as u64);
        let row = Row { key: keys[index] as u64, id: ids[index] as u64, count: counts[index] as u64, refers };
        let payload = payloads.as_string::<i64>().value_length(index) as usize;
        assert_eq!(payload, payload_bytes(row.id), "another row's payload: {row:?}");
        assert!(found.insert(row, position).is_none(), "twice: {row:?}");
    }
    assert_eq!(found.len(), keys.len());
    found
}

/// Lets workers of all processes know what has been acknowledged: the length of a worker's file is the
/// newest version that it knows of. A length is told at once or not at all.
struct Acknowledged {
    directory: PathBuf,
    own: File,
}

impl Acknowledged {
    fn new(directory: &Path, worker: u64) -> Self {
        let directory = directory.join("acknowledged");
        fs::create_dir_all(&directory).unwrap();
        let own = File::create(directory.join(worker.to_string())).unwrap();
        Self { directory, own }
    }

    fn tell(&self, version: u64) {
        self.own.set_len(version).unwrap();
    }

    fn newest(&self) -> u64 {
        let length = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().metadata().unwrap().len();
        fs::read_dir(&self.directory).unwrap().map(length).max().unwrap()
    }
}

struct Worker {
    database: Arc<Database>,
    table: TableId,
    is_constrained: bool,
    acknowledged: Acknowledged,
    random: Random,
    next_id: u64,
}

/// A running transaction, and what is written down of it.
struct Running {
    transaction: Transaction,
    record: checker::Transaction,
    savepoint: Option<(Savepoint, usize, u64)>,
}

impl Running {
    fn read(&mut self) -> BTreeMap<Row, u64> {
        let found = read(&self.transaction.snapshot().unwrap());
        self.record.steps.push(Step::Read(found.keys().copied().collect()));
        found
    }

    fn insert(&mut self, table: TableId, row: Row) {
        self.transaction.append(table, &rows(&[row])).unwrap();
        self.record.steps.push(Step::Insert(row));
    }

    fn delete(&mut self, table: TableId, row: Row, position: u64) {
        assert_eq!(self.transaction.delete(table, &[position].into_iter().collect()).unwrap(), 1);
        self.record.steps.push(Step::Delete(row));
    }
}

impl Worker {
    fn new(database: &Arc<Database>, directory: &Path, seed: u64, number: u64) -> Self {
        let snapshot = database.snapshot().unwrap();
        let table = snapshot.table("main", "t").unwrap().entry();
        Self {
            database: database.clone(),
            table: table.id,
            is_constrained: !table.constraints.is_empty(),
            acknowledged: Acknowledged::new(directory, number),
            random: Random::new(seed, number),
            next_id: number * IDS_OF_WORKER,
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn run_transaction(&mut self) -> checker::Transaction {
        let acknowledged = self.acknowledged.newest();
        let transaction = self.database.begin(1).unwrap().of_statements();
        let record = checker::Transaction {
            acknowledged,
            begin: transaction.base().version().0,
            steps: Vec::new(),
            increments: 0,
            outcome: Outcome::Abandoned,
        };
        let mut running = Running { transaction, record, savepoint: None };
        running.read();
        for _ in 0..self.random.below(5) {
            self.step(&mut running);
            std::thread::sleep(Duration::from_micros(self.random.below(1000)));
        }
        running.read();
        let Running { transaction, mut record, .. } = running;
        if !transaction.is_empty() && !self.random.one_in(8) {
            record.outcome = match transaction.commit() {
                Ok(snapshot) => Outcome::Committed(snapshot.version().0),
                Err(error) if error.message().contains(" moved") => Outcome::Moved,
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    Outcome::Conflict(self.database.snapshot().unwrap().version().0)
                }
                Err(error) => panic!("{error}"),
            };
        }
        if let Outcome::Committed(version) = record.outcome {
            self.acknowledged.tell(version);
        }
        record
    }

    fn step(&mut self, running: &mut Running) {
        match self.random.below(if self.is_constrained { 18 } else { 12 }) {
            0..6 => {
                let key = self.random.below(COUNTERS);
                let found = running.read();
                let (old, position) = found.into_iter().find(|(row, _)| row.key == key).unwrap();
                running.delete(self.table, old, position);
                running.insert(self.table, Row { id: self.new_id(), count: old.count + 1, ..old });
                running.record.increments += 1;
            }
            6..8 => {
                let id = self.new_id();
                running.insert(self.table, Row { key: id, id, count: 0, refers: None });
            }
            8 | 12 | 13 => {
                let found = running.read();
                let referred: BTreeSet<u64> = found.keys().filter_map(|row| row.refers).collect();
                let may_go = |row: &Row| row.key >= COUNTERS && !referred.contains(&row.key);
                let rows: Vec<_> = found.into_iter().filter(|(row, _)| may_go(row)).collect();
                if !rows.is_empty() {
                    let (row, position) = rows[self.random.below(rows.len() as u64) as usize];
                    running.delete(self.table, row, position);
                }
            }
            9 => {
                let savepoint = running.transaction.savepoint().unwrap();
                running.savepoint = Some((savepoint, running.record.steps.len(), running.record.increments));
            }
            10 => {
                if let Some((savepoint, to, increments)) = running.savepoint.take() {
                    running.transaction.roll_back_to(&savepoint);
                    running.record.steps.push(Step::RollBack { to });
                    running.record.increments = increments;
                }
            }
            11 => drop(running.read()),
            14 | 15 => {
                let key = COUNTERS + self.random.below(COMMON_KEYS);
                if running.read().keys().all(|row| row.key != key) {
                    running.insert(self.table, Row { key, id: self.new_id(), count: 0, refers: None });
                }
            }
            _ => {
                let found: Vec<Row> = running.read().into_keys().collect();
                let referred = found[self.random.below(found.len() as u64) as usize].key;
                let id = self.new_id();
                running.insert(self.table, Row { key: id, id, count: 0, refers: Some(referred) });
            }
        }
    }

    /// Runs transactions, and writes down their history.
    fn run(mut self, directory: &Path) {
        let number = self.next_id / IDS_OF_WORKER;
        let mut history = BufWriter::new(File::create(directory.join(format!("history-{number}"))).unwrap());
        for _ in 0..TRANSACTIONS {
            if self.random.one_in(40) {
                // False when another is writing the table's files.
                let _done = self.database.checkpoint().unwrap();
            }
            let record = self.run_transaction();
            serde_json::to_writer(&mut history, &record).unwrap();
            history.write_all(b"\n").unwrap();
        }
        history.flush().unwrap();
    }
}

/// A key, and what refers to it.
fn constraints(table: TableId) -> Vec<ConstraintEntry> {
    let (key, refers) = (vec![ColumnId(0)], vec![ColumnId(3)]);
    let (on_delete, on_update) = (ReferentialAction::NoAction, ReferentialAction::NoAction);
    let primary = ConstraintRule::PrimaryKey { columns: key.clone() };
    let foreign = ConstraintRule::ForeignKey { columns: refers, table, referred: key, on_delete, on_update };
    let named = |(name, rule): (&str, _)| ConstraintEntry::new(name, rule);
    [("t_pkey", primary), ("t_refers_fkey", foreign)].map(named).into()
}

/// Makes the table; the first transaction of the history.
fn begin_history(database: &Arc<Database>, is_constrained: bool) -> checker::Transaction {
    let counters: Vec<Row> = (0..COUNTERS).map(|key| Row { key, id: key, count: 0, refers: None }).collect();
    let mut transaction = database.begin(1).unwrap();
    let id = transaction.create_table("main", "t", columns_of(&rows(&counters))).unwrap();
    if is_constrained {
        let declare = |table: &mut hypostyle_storage::TableEntry| {
            table.constraints = constraints(id);
            Ok(())
        };
        transaction.alter_table(id, declare).unwrap();
    }
    transaction.append(id, &rows(&counters)).unwrap();
    let version = transaction.commit().unwrap().version().0;
    checker::Transaction {
        acknowledged: 0,
        begin: 0,
        steps: counters.into_iter().map(Step::Insert).collect(),
        increments: 0,
        outcome: Outcome::Committed(version),
    }
}

/// Reads the workers' histories, and a last time from the database, and has them judged.
fn end_history(first: checker::Transaction, directory: &Path, database: &Arc<Database>) {
    let mut history = vec![first];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("history-") {
            let text = fs::read_to_string(path).unwrap();
            history
                .extend(text.lines().map(|line| serde_json::from_str::<checker::Transaction>(line).unwrap()));
        }
    }
    let newest = history.iter().map(|transaction| match transaction.outcome {
        Outcome::Committed(version) => version,
        _ => 0,
    });
    let snapshot = database.snapshot().unwrap();
    history.push(checker::Transaction {
        acknowledged: newest.max().unwrap(),
        begin: snapshot.version().0,
        steps: vec![Step::Read(read(&snapshot).into_keys().collect())],
        increments: 0,
        outcome: Outcome::Abandoned,
    });
    let is_constrained = !snapshot.table("main", "t").unwrap().entry().constraints.is_empty();
    if let Err(anomaly) = check(&history, is_constrained) {
        panic!("{anomaly}");
    }
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
    let count = |of: fn(&Outcome) -> bool| history.iter().filter(|one| of(&one.outcome)).count();
    let conflicts = count(|outcome| matches!(outcome, Outcome::Conflict(_)));
    let moved = count(|outcome| *outcome == Outcome::Moved);
    let commits = count(|outcome| matches!(outcome, Outcome::Committed(_)));
    println!("{} transactions, {commits} commits, {conflicts} conflicts, {moved} moved", history.len());
    assert!(conflicts > 0 && commits > history.len() / 4, "too little happened");
    // Only who misses several checkpoints of others does not know where rows went.
    assert!(
        moved == 0 || directory.join("database").exists() && moved < conflicts,
        "rows were lost sight of"
    );
}

/// Returns each seed without constraints, and with them.
fn both(seeds: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, bool)> {
    seeds.flat_map(|seed| [(seed, false), (seed, true)])
}

#[test]
fn threads_of_one_database_in_memory() {
    for (seed, is_constrained) in both(seeds()) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::in_memory().unwrap();
        let first = begin_history(&database, is_constrained);
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let worker = Worker::new(&database, directory.path(), seed, number);
                let directory = directory.path();
                scope.spawn(move || worker.run(directory));
            }
        });
        end_history(first, directory.path(), &database);
    }
}

#[test]
fn threads_of_many_processes() {
    for (seed, is_constrained) in both(seeds()) {
        let directory = tempfile::tempdir().unwrap();
        let database = open(&directory.path().join("database"));
        let first = begin_history(&database, is_constrained);
        let children: Vec<_> = (0..PROCESSES)
            .map(|process| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "isolation::process_of_workers", "--ignored", "--nocapture"])
                    .env(DIRECTORY, directory.path())
                    .env(PROCESS, process.to_string())
                    .env(SEED, seed.to_string())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "a process failed");
        }
        end_history(first, directory.path(), &database);
    }
}

#[test]
#[ignore = "run by threads_of_many_processes as one of the processes"]
fn process_of_workers() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let process: u64 = std::env::var(PROCESS).unwrap().parse().unwrap();
    let seed = seed();
    let path = directory.join("database");
    let shared = open(&path);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            // In some processes the threads share a handle, in some they have their own.
            let database = if process.is_multiple_of(2) { shared.clone() } else { open(&path) };
            if process == 2 {
                database.set_synchronous(Synchronous::Normal);
            }
            let worker = Worker::new(&database, &directory, seed, 1 + process * THREADS + thread);
            let directory = &directory;
            scope.spawn(move || worker.run(directory));
        }
    });
}
