//! Random operations on a database, and on a model of it that is too simple to be wrong.
//!
//! A table of the model is the sorted numbers in it; the other columns of a row follow from its number.

use crate::common::{Random, batch, columns_of, open, rows_of, seeds};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use hypostyle_storage::{Database, OpenMode, Savepoint, Snapshot, TableData, TableEntry, Transaction};
use hypostyle_types::{ErrorKind, TableId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TRANSACTIONS: u64 = 80;
const WRITERS: usize = 2;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A table that has more rows is dropped or loses many of them.
const ROWS_MAX: usize = 60_000;

type Model = BTreeMap<&'static str, Vec<i64>>;

fn text(number: i64) -> Option<String> {
    (number % 5 != 3).then(|| format!("text of {number}"))
}

/// Few are different, so that the column becomes a dictionary.
fn kind(number: i64) -> Option<String> {
    (number % 7 != 2).then(|| format!("kind {}", number % 300))
}

fn rows(numbers: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let strings = |of: fn(i64) -> Option<String>| -> ArrayRef {
        Arc::new(LargeStringArray::from_iter(numbers.clone().map(of)))
    };
    let integers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone()));
    batch(vec![("n", integers), ("text", strings(text)), ("kind", strings(kind))])
}

/// The numbers of a table in the order of its rows, whose other columns are as they must be.
fn numbers(table: &TableData) -> Vec<i64> {
    let numbers = rows_of(table, 0).as_primitive::<Int64Type>().values().to_vec();
    for (index, of) in [(1, text as fn(i64) -> Option<String>), (2, kind)] {
        let column = rows_of(table, index);
        assert_eq!(column.len(), numbers.len());
        for (found, number) in column.as_string::<i64>().iter().zip(&numbers) {
            assert_eq!(found, of(*number).as_deref(), "row {number} of {}", table.entry().name);
        }
    }
    assert_eq!(table.rows(), numbers.len() as u64);
    numbers
}

#[track_caller]
fn assert_agrees(snapshot: &Snapshot, model: &Model) {
    let names: Vec<&str> = snapshot.tables().map(|table| table.entry().name.as_str()).collect();
    assert_eq!(names.len(), model.len(), "{names:?}");
    for (name, expected) in model {
        let mut found = numbers(snapshot.table("main", name).unwrap());
        found.sort();
        assert!(found == *expected, "table {name}: {} rows instead of {}", found.len(), expected.len());
    }
}

/// A database with several handles, and what must be in it.
struct World {
    path: PathBuf,
    writers: Vec<Arc<Database>>,
    reader: Arc<Database>,
    model: Model,
    /// Snapshots of some moments, which must stay as they were.
    held: Vec<(Arc<Snapshot>, Model)>,
    random: Random,
    next_number: i64,
}

/// A transaction, and what must be seen in it.
struct Running {
    transaction: Transaction,
    model: Model,
    savepoints: Vec<(Savepoint, Model)>,
    /// Names that tables were renamed from; a transaction cannot use them again.
    vacated: Vec<&'static str>,
    /// A checkpoint was made while the transaction was open.
    disturbed: bool,
}

impl Running {
    fn id(&self, name: &str) -> TableId {
        self.transaction.catalog().table("main", name).unwrap().id
    }

    fn append(&mut self, name: &'static str, first: i64, count: i64) {
        // In two pieces: of a statement that appends many rows, the later ones go straight to the files.
        for part in [first..first + count / 2, first + count / 2..first + count] {
            self.transaction.append(self.id(name), &rows(part.clone())).unwrap();
            self.model.get_mut(name).unwrap().extend(part);
        }
    }

    fn delete(&mut self, name: &'static str, random: &mut Random) {
        let snapshot = self.transaction.snapshot().unwrap();
        let table = snapshot.table("main", name).unwrap();
        let numbers = numbers(table);
        let positions = (0..table.positions()).filter(|position| !table.deleted().contains(*position));
        let all: Vec<(u64, i64)> = positions.zip(numbers).collect();
        let rows = all.len() as u64;
        let chosen: Vec<(u64, i64)> = match random.below(if rows > ROWS_MAX as u64 { 2 } else { 6 }) {
            0 => all,
            1 => all.into_iter().filter(|_| !random.one_in(4)).collect(),
            2 => {
                let first = random.below(rows + 1) as usize;
                all[first..].iter().take(random.below(1000) as usize).copied().collect()
            }
            _ => (0..random.below(5))
                .filter_map(|_| all.get(random.below(rows.max(1)) as usize))
                .copied()
                .collect(),
        };
        let positions = chosen.iter().map(|(position, _)| *position).collect();
        let mut deleted: Vec<i64> = chosen.iter().map(|(_, number)| *number).collect();
        deleted.sort();
        deleted.dedup();
        let count = self.transaction.delete(table.entry().id, &positions).unwrap();
        assert_eq!(count, deleted.len() as u64);
        self.model.get_mut(name).unwrap().retain(|number| deleted.binary_search(number).is_err());
    }
}

impl World {
    fn new(path: &Path, seed: u64) -> Self {
        let writers = (0..WRITERS).map(|_| open(path)).collect();
        Self {
            path: path.to_path_buf(),
            writers,
            reader: Database::open(path, OpenMode::ReadOnly).unwrap(),
            model: Model::new(),
            held: Vec::new(),
            random: Random::new(seed, 0),
            next_number: 0,
        }
    }

    fn writer(&mut self) -> usize {
        self.random.below(WRITERS as u64) as usize
    }

    fn run_transaction(&mut self) {
        let writer = self.writer();
        let transaction = self.writers[writer].begin(1 + writer).unwrap().of_statements();
        let mut running = Running {
            transaction,
            model: self.model.clone(),
            savepoints: Vec::new(),
            vacated: Vec::new(),
            disturbed: false,
        };
        for _ in 0..self.random.below(7) {
            self.step(&mut running);
            if self.random.one_in(3) {
                assert_agrees(&running.transaction.snapshot().unwrap(), &running.model);
            }
        }
        if !self.random.one_in(5) {
            match running.transaction.commit() {
                Ok(_) => self.model = running.model,
                // What a checkpoint has moved may count as changed.
                Err(error) if running.disturbed => {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn step(&mut self, running: &mut Running) {
        let name = NAMES[self.random.below(NAMES.len() as u64) as usize];
        if running.vacated.contains(&name) {
            return;
        }
        let Some(before) = running.model.get(name).map(Vec::len) else {
            running.transaction.create_table("main", name, columns_of(&rows(0..1))).unwrap();
            running.model.insert(name, Vec::new());
            return;
        };
        match self.random.below(16) {
            0 => {
                let id = running.id(name);
                running.transaction.drop_table(id).unwrap();
                running.model.remove(name);
            }
            1..3 if before < ROWS_MAX => {
                let count = 8_000 + self.random.below(12_000) as i64;
                running.append(name, self.next_number, count);
                self.next_number += count;
            }
            3..9 if before < ROWS_MAX => {
                let count = 1 + self.random.below(9) as i64;
                running.append(name, self.next_number, count);
                self.next_number += count;
            }
            9 => {
                let savepoint = running.transaction.savepoint().unwrap();
                running.savepoints.push((savepoint, running.model.clone()));
            }
            10 if !running.savepoints.is_empty() => {
                let index = self.random.below(running.savepoints.len() as u64) as usize;
                running.savepoints.truncate(index + 1);
                let (savepoint, model) = &running.savepoints[index];
                running.transaction.roll_back_to(savepoint);
                running.model = model.clone();
            }
            11 if !running.disturbed => {
                let free = NAMES
                    .into_iter()
                    .find(|other| !running.model.contains_key(other) && !running.vacated.contains(other));
                if let Some(other) = free {
                    let rename = |table: &mut TableEntry| {
                        table.name = other.into();
                        Ok(())
                    };
                    let id = running.id(name);
                    running.transaction.alter_table(id, rename).unwrap();
                    running.vacated.push(name);
                    let rows = running.model.remove(name).unwrap();
                    running.model.insert(other, rows);
                }
            }
            // Others do this while the transaction is open. False when it writes the files of a table.
            12 => {
                self.checkpoint();
                running.disturbed = true;
            }
            _ => running.delete(name, &mut self.random),
        }
    }

    fn checkpoint(&mut self) -> bool {
        let writer = self.writer();
        self.writers[writer].checkpoint().unwrap()
    }

    fn compact(&mut self) {
        let writer = self.writer();
        let mut transaction = self.writers[writer].begin(2).unwrap();
        let tables: Vec<Arc<TableData>> = transaction.base().tables().cloned().collect();
        for table in tables {
            transaction.compact(table.entry().id, |_, _| Ok(())).unwrap();
        }
        let snapshot = transaction.commit().unwrap();
        assert!(snapshot.tables().all(|table| table.is_in_files()));
    }

    fn between_transactions(&mut self) {
        match self.random.below(12) {
            0 => assert!(self.checkpoint()),
            1 => {
                let snapshot = self.reader.snapshot().unwrap();
                self.held.push((snapshot, self.model.clone()));
            }
            2 => self.held.clear(),
            3 => {
                let writer = self.writer();
                self.writers[writer] = open(&self.path);
            }
            4 => self.reader = Database::open(&self.path, OpenMode::ReadOnly).unwrap(),
            5 => self.compact(),
            6 if self.random.one_in(3) => {
                // Nobody has it open: the first who opens it removes what was left behind.
                self.held.clear();
                self.writers.clear();
                self.reader = Database::in_memory().unwrap();
                *self = Self {
                    random: self.random.clone(),
                    model: std::mem::take(&mut self.model),
                    next_number: self.next_number,
                    ..Self::new(&self.path.clone(), 0)
                };
            }
            _ => {}
        }
    }
}

#[test]
fn a_database_agrees_with_a_simple_model() {
    for seed in seeds() {
        let directory = tempfile::tempdir().unwrap();
        let mut world = World::new(&directory.path().join("database"), seed);
        for _ in 0..TRANSACTIONS {
            world.run_transaction();
            for database in world.writers.iter().chain([&world.reader]) {
                assert_agrees(&database.snapshot().unwrap(), &world.model);
            }
            world.between_transactions();
            for (snapshot, model) in &world.held {
                assert_agrees(snapshot, model);
            }
        }
        let damages = world.reader.snapshot().unwrap().check(|_| true);
        assert!(damages.is_empty(), "{damages:?}");
    }
}
