//! A history of commits, and the state that it leads to.
//!
//! Each commit leaves its number in the table `journal`, so that a database tells which commits it
//! has, and in which order they were made; and beside it a value of a sequence, which no other may get.

use super::{batch, columns_of, rows_of};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use hypostyle_storage::{Database, SequenceEntry, SequenceState, Snapshot, Transaction};
use hypostyle_types::{ErrorKind, Result, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// So many rows go to the column files, not to the log.
pub const MANY: i64 = 1150;

#[derive(Clone, Debug)]
pub enum Step {
    Create { table: String },
    Insert { table: String, values: Range<i64> },
    Delete { table: String, values: Vec<i64> },
    Drop { table: String },
}

/// What one transaction does.
#[derive(Clone, Debug)]
pub struct Change {
    pub id: i64,
    pub steps: Vec<Step>,
}

/// The first commit of every history.
pub fn beginning() -> Change {
    Change { id: 0, steps: vec![Step::Create { table: "t".into() }] }
}

/// The values of each table but the journal.
pub type Tables = BTreeMap<String, BTreeSet<i64>>;

pub fn apply(tables: &mut Tables, change: &Change) {
    for step in &change.steps {
        match step.clone() {
            Step::Create { table } => drop(tables.insert(table, BTreeSet::new())),
            Step::Insert { table, values } => tables.get_mut(&table).unwrap().extend(values),
            Step::Delete { table, values } => {
                tables.get_mut(&table).unwrap().retain(|value| !values.contains(value));
            }
            Step::Drop { table } => drop(tables.remove(&table)),
        }
    }
}

const TICKETS: &str = "tickets";

/// A number of a commit, and its ticket.
fn journal_rows(rows: &[(i64, i64)]) -> RecordBatch {
    let numbers = |of: fn(&(i64, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    batch(vec![("id", numbers(|row| row.0)), ("ticket", numbers(|row| row.1))])
}

pub fn sequence(name: &str) -> SequenceEntry {
    SequenceEntry {
        schema: "main".into(),
        name: name.into(),
        increment: 1,
        min: 1,
        max: i64::MAX,
        start: 1,
        cycle: false,
        owner: None,
        comment: None,
        state: SequenceState { last: 1, is_called: false },
    }
}

/// Long enough that few rows are many bytes.
fn text_of(value: i64) -> Option<String> {
    (value % 7 != 0).then(|| format!("{value:>240}"))
}

fn kind_of(value: i64) -> String {
    format!("kind {}", value % 11)
}

/// Rows of which each value tells the rest: one column with many distinct texts and NULLs, and one with few.
fn content(values: Range<i64>) -> RecordBatch {
    let texts: LargeStringArray = values.clone().map(text_of).collect();
    let kinds: LargeStringArray = values.clone().map(|value| Some(kind_of(value))).collect();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    batch(vec![("n", numbers), ("text", Arc::new(texts)), ("kind", Arc::new(kinds))])
}

/// Makes a change, again if others were first.
pub fn commit(database: &Arc<Database>, change: &Change) -> Result<()> {
    loop {
        match try_commit(database, change) {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            result => return result,
        }
    }
}

fn try_commit(database: &Arc<Database>, change: &Change) -> Result<()> {
    let mut transaction = database.begin(2)?;
    let base = transaction.base().clone();
    let journal = match base.table("main", "journal") {
        Some(journal) => journal.entry().id,
        None => {
            transaction.create_sequence(sequence(TICKETS))?;
            transaction.create_table("main", "journal", columns_of(&journal_rows(&[])))?
        }
    };
    let ticket = database.next_values(&*transaction.snapshot()?, "main", TICKETS, 1)?[0];
    transaction.append(journal, &journal_rows(&[(change.id, ticket)]))?;
    for step in &change.steps {
        take_step(&mut transaction, &base, step)?;
    }
    transaction.commit().map(drop)
}

pub fn take_step(transaction: &mut Transaction, base: &Snapshot, step: &Step) -> Result<()> {
    let id = |transaction: &Transaction, table: &str| -> TableId {
        transaction.catalog().table("main", table).unwrap().id
    };
    match step {
        Step::Create { table } => {
            transaction.create_table("main", table, columns_of(&content(0..0))).map(drop)
        }
        Step::Insert { table, values } => {
            transaction.append(id(transaction, table), &content(values.clone()))
        }
        Step::Delete { table, values } => {
            let data = base.table("main", table).unwrap();
            let in_files = data.columns()[0].array()?;
            let in_log = data.beyond_files().tail.batches().iter().map(|batch| batch.column(0).clone());
            let all: Vec<ArrayRef> = std::iter::once(in_files).chain(in_log).collect();
            let all = all.iter().flat_map(|array| array.as_primitive::<Int64Type>().values().iter());
            let wanted = |(position, value): (u64, &i64)| {
                (values.contains(value) && !data.deleted().contains(position)).then_some(position)
            };
            let positions = (0..).zip(all).filter_map(wanted).collect();
            transaction.delete(id(transaction, table), &positions).map(drop)
        }
        Step::Drop { table } => transaction.drop_table(id(transaction, table)),
    }
}

/// The commits that a snapshot has, in order, and its tables. All that can be checked about it is checked.
pub fn read(snapshot: &Snapshot) -> (Vec<i64>, Tables) {
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
    let mut journal = Vec::new();
    let mut tables = Tables::new();
    for table in snapshot.tables() {
        let first = rows_of(table, 0);
        let values = first.as_primitive::<Int64Type>().values();
        if table.entry().name == "journal" {
            journal = values.to_vec();
            let tickets: BTreeSet<i64> =
                rows_of(table, 1).as_primitive::<Int64Type>().values().iter().copied().collect();
            assert_eq!(tickets.len(), journal.len(), "a value of a sequence was given out twice");
            let state = snapshot.catalog().sequence("main", TICKETS).unwrap().state;
            assert!(state.is_called && tickets.last().is_none_or(|last| *last <= state.last));
            continue;
        }
        let (text, kind) = (rows_of(table, 1), rows_of(table, 2));
        let (text, kind) = (text.as_string::<i64>(), kind.as_string::<i64>());
        for ((value, text), kind) in values.iter().zip(text).zip(kind) {
            assert_eq!(text, text_of(*value).as_deref());
            assert_eq!(kind, Some(kind_of(*value).as_str()));
        }
        let set: BTreeSet<i64> = values.iter().copied().collect();
        assert_eq!(set.len(), values.len(), "a row of \"{}\" is there twice", table.entry().name);
        tables.insert(table.entry().name.clone(), set);
    }
    (journal, tables)
}

/// A small generator of pseudo-random numbers (xorshift64*), so that a seed repeats a run.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8) % limit
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The seed of this run, told so that it can be repeated.
pub fn seed() -> u64 {
    const SEED: &str = "HYPOSTYLE_TEST_SEED";
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1,
    };
    println!("{SEED}={seed}");
    seed
}
