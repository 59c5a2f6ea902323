//! A history of commits, and the state that it leads to.
//!
//! Each commit leaves its number in the table `journal`, so that a database tells which commits it
//! has, and in which order they were made; and beside it a value of a sequence, which no other may get.

use super::{batch, columns_of, rows_of};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use arrow_cast::cast;
use arrow_schema::DataType;
use hypostyle_storage::{
    Database, NewColumn, SequenceEntry, SequenceState, Snapshot, TableData, TableEntry, Transaction,
};
use hypostyle_types::{ErrorKind, LogicalType, Result, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// So many rows go to the column files, not to the log.
pub const MANY: i64 = 1150;

#[derive(Clone, Debug)]
pub enum Step {
    Create {
        table: String,
    },
    Insert {
        table: String,
        values: Range<i64>,
    },
    Delete {
        table: String,
        values: Vec<i64>,
    },
    Drop {
        table: String,
    },
    /// Writes the rows that are left into new files, as VACUUM does.
    Compact {
        table: String,
    },
    /// Adds the column `more`, or drops it.
    Widen {
        table: String,
    },
    /// Makes the numbers INTEGER, or BIGINT again.
    Convert {
        table: String,
    },
    Rename {
        table: String,
        to: String,
    },
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

/// Rows into `t`: few, which stay in the log, or [`MANY`].
pub fn insert(id: i64, rows: i64) -> Change {
    let values = id * 10_000..id * 10_000 + rows;
    Change { id, steps: vec![Step::Insert { table: "t".into(), values }] }
}

/// A table as its definitions left it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// It has the column `more`.
    is_wide: bool,
    /// The numbers are INTEGER, not BIGINT.
    is_narrow: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub shape: Shape,
    pub values: BTreeSet<i64>,
}

impl Table {
    /// One that nobody has altered.
    pub fn of(values: BTreeSet<i64>) -> Self {
        Self { shape: Shape::default(), values }
    }
}

/// Each table but the journal.
pub type Tables = BTreeMap<String, Table>;

pub fn apply(tables: &mut Tables, change: &Change) {
    for step in &change.steps {
        match step.clone() {
            Step::Create { table } => drop(tables.insert(table, Table::default())),
            Step::Insert { table, values } => tables.get_mut(&table).unwrap().values.extend(values),
            Step::Delete { table, values } => {
                tables.get_mut(&table).unwrap().values.retain(|value| !values.contains(value));
            }
            Step::Drop { table } => drop(tables.remove(&table)),
            Step::Compact { .. } => {}
            Step::Widen { table } => tables.get_mut(&table).unwrap().shape.is_wide ^= true,
            Step::Convert { table } => tables.get_mut(&table).unwrap().shape.is_narrow ^= true,
            Step::Rename { table, to } => {
                let renamed = tables.remove(&table).unwrap();
                tables.insert(to, renamed);
            }
        }
    }
}

/// A database with holes in its files and in its log, and what may then be done to its tables: each
/// takes files or rows out of use that were the only copy of something. `None` is a checkpoint.
pub fn alterations() -> (Vec<Option<Change>>, Vec<Vec<Option<Change>>>) {
    let (t, u, v) = (|| "t".to_string(), || "u".to_string(), || "v".to_string());
    let few = |id: i64, table: String| Step::Insert { table, values: id * 10_000..id * 10_000 + 3 };
    let change = |id, steps| Some(Change { id, steps });
    let many_and_wide = vec![
        Step::Create { table: u() },
        Step::Insert { table: u(), values: 0..MANY },
        Step::Widen { table: u() },
    ];
    let before = vec![
        Some(beginning()),
        Some(insert(1, 2)),
        Some(insert(2, MANY)),
        change(10, many_and_wide),
        None,
        change(11, vec![Step::Delete { table: t(), values: (20_000..20_003).chain([10_000]).collect() }]),
        change(12, vec![few(12, t())]),
        change(
            13,
            vec![
                Step::Delete { table: t(), values: vec![120_001] },
                Step::Delete { table: u(), values: vec![7] },
            ],
        ),
    ];
    let scenarios = [
        (14, vec![Step::Compact { table: t() }, Step::Compact { table: u() }]),
        (15, vec![few(15, t()), Step::Widen { table: t() }]),
        (16, vec![Step::Widen { table: u() }]),
        (17, vec![Step::Convert { table: t() }, few(17, t())]),
        (18, vec![few(18, u()), Step::Rename { table: u(), to: v() }]),
        (
            19,
            vec![
                Step::Convert { table: u() },
                Step::Insert { table: u(), values: 190_000..190_000 + MANY },
                Step::Widen { table: u() },
                Step::Rename { table: u(), to: v() },
            ],
        ),
    ];
    (before, scenarios.into_iter().map(|(id, steps)| vec![change(id, steps), None]).collect())
}

/// Thinks up what one writer commits: to the table that all share, and to tables of its own.
pub struct Author {
    own: Vec<(String, Vec<i64>)>,
    next: i64,
}

impl Author {
    /// The values of different numbers are different.
    pub fn new(number: i64) -> Self {
        Self { own: vec![("t".into(), Vec::new())], next: number * 1_000_000 }
    }

    fn values(&mut self, count: i64) -> Range<i64> {
        self.next += count;
        self.next - count..self.next
    }

    pub fn change(&mut self, id: i64, random: &mut Random) -> Change {
        let rows = if random.once_in(3) { MANY } else { 1 + random.below(5) as i64 };
        let index = random.below(self.own.len() as u64) as usize;
        let table = self.own[index].0.clone();
        let steps = match random.below(12) {
            0 | 1 => {
                let (table, values) = (format!("u{id}"), self.values(rows));
                self.own.push((table.clone(), values.clone().collect()));
                vec![Step::Create { table: table.clone() }, Step::Insert { table, values }]
            }
            2 if index > 0 => {
                self.own.remove(index);
                vec![Step::Drop { table }]
            }
            3 | 4 if !self.own[index].1.is_empty() => {
                let values = &mut self.own[index].1;
                let at = random.below(values.len() as u64) as usize;
                let end = values.len().min(at + 3);
                vec![Step::Delete { table, values: values.drain(at..end).collect() }]
            }
            5 => vec![Step::Compact { table }],
            6 => vec![Step::Widen { table }],
            7 => vec![Step::Convert { table }],
            8 if index > 0 => {
                let to = format!("v{id}");
                self.own[index].0.clone_from(&to);
                vec![Step::Rename { table, to }]
            }
            altered => {
                let values = self.values(rows);
                self.own[index].1.extend(values.clone());
                let insert = Step::Insert { table: table.clone(), values };
                if altered == 9 { vec![insert, Step::Widen { table }] } else { vec![insert] }
            }
        };
        Change { id, steps }
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

const MORE: &str = "more";

fn more_of(value: i64) -> Option<String> {
    (value % 5 != 0).then(|| format!("more {value}"))
}

fn number_type(shape: Shape) -> LogicalType {
    if shape.is_narrow { LogicalType::Integer } else { LogicalType::BigInt }
}

/// Rows of which each value tells the rest: one column with many distinct texts and NULLs, and one with few.
fn content(values: Range<i64>, shape: Shape) -> RecordBatch {
    let texts: LargeStringArray = values.clone().map(text_of).collect();
    let kinds: LargeStringArray = values.clone().map(|value| Some(kind_of(value))).collect();
    let numbers = cast(&Int64Array::from_iter_values(values.clone()), &number_type(shape).arrow_type());
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("n", numbers.unwrap()), ("text", Arc::new(texts)), ("kind", Arc::new(kinds))];
    if shape.is_wide {
        columns.push((MORE, Arc::new(values.map(more_of).collect::<LargeStringArray>())));
    }
    batch(columns)
}

/// The numbers of a column, whatever their type is at the time.
fn numbers_of(array: &ArrayRef) -> Int64Array {
    cast(array, &DataType::Int64).unwrap().as_primitive().clone()
}

/// The shape that a definition makes.
fn shape_of(entry: &TableEntry) -> Shape {
    let names: Vec<&str> = entry.columns.iter().map(|column| column.name.as_str()).collect();
    let shape = Shape {
        is_wide: names.contains(&MORE),
        is_narrow: entry.columns[0].logical_type == LogicalType::Integer,
    };
    assert_eq!(names[..3], ["n", "text", "kind"]);
    assert_eq!(names.len(), if shape.is_wide { 4 } else { 3 });
    assert_eq!(entry.columns[0].logical_type, number_type(shape));
    shape
}

/// Makes a change, again if others were first.
pub fn commit(database: &Arc<Database>, change: &Change) -> Result<()> {
    loop {
        match try_commit(database, change) {
            // Who is altering the table needs a little.
            Err(error) if error.kind() == ErrorKind::Conflict => thread::sleep(Duration::from_millis(1)),
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
    let of = |transaction: &Transaction, table: &str| -> (TableId, Shape) {
        let entry = transaction.catalog().table("main", table).unwrap();
        (entry.id, shape_of(entry))
    };
    match step {
        Step::Create { table } => {
            let columns = columns_of(&content(0..0, Shape::default()));
            transaction.create_table("main", table, columns).map(drop)
        }
        Step::Insert { table, values } => {
            let (id, shape) = of(transaction, table);
            transaction.append(id, &content(values.clone(), shape))
        }
        Step::Delete { table, values } => {
            let data = base.table("main", table).unwrap();
            let in_files = data.columns()[0].array()?;
            let in_log = data.beyond_files().tail.batches().iter().map(|batch| batch.column(0).clone());
            let all: Vec<Int64Array> =
                std::iter::once(in_files).chain(in_log).map(|array| numbers_of(&array)).collect();
            let all = all.iter().flat_map(|numbers| numbers.values().iter());
            let wanted = |(position, value): (u64, &i64)| {
                (values.contains(value) && !data.deleted().contains(position)).then_some(position)
            };
            let positions = (0..).zip(all).filter_map(wanted).collect();
            transaction.delete(of(transaction, table).0, &positions).map(drop)
        }
        Step::Drop { table } => transaction.drop_table(of(transaction, table).0),
        Step::Compact { table } => transaction.compact(of(transaction, table).0, |_, _| Ok(())).map(drop),
        Step::Widen { table } => match of(transaction, table) {
            (id, Shape { is_wide: true, .. }) => transaction.alter_table(id, |entry| {
                entry.columns.retain(|column| column.name != MORE);
                Ok(())
            }),
            (id, _) => {
                let column = NewColumn::new(MORE, LogicalType::Varchar, true);
                transaction.add_column(id, column, true, |rows| {
                    let numbers = numbers_of(rows.column(0));
                    let more = numbers.values().iter().map(|value| more_of(*value));
                    Ok(Arc::new(more.collect::<LargeStringArray>()))
                })
            }
        },
        Step::Convert { table } => {
            let (id, shape) = of(transaction, table);
            let new = number_type(Shape { is_narrow: !shape.is_narrow, ..shape });
            let arrow_type = new.arrow_type();
            transaction.convert_column(id, "n", new, |piece| Ok(cast(piece, &arrow_type).unwrap()))
        }
        Step::Rename { table, to } => transaction.alter_table(of(transaction, table).0, |entry| {
            entry.name.clone_from(to);
            Ok(())
        }),
    }
}

/// The commits that a snapshot has, in order, and its tables. All that can be checked about it is checked.
pub fn read(snapshot: &Snapshot) -> (Vec<i64>, Tables) {
    let (journal, tables, damaged) = read_sound(snapshot);
    assert!(damaged.is_empty(), "damaged: {damaged:?}");
    (journal, tables)
}

/// The same of a snapshot whose tables may be damaged: those are told apart, and can be told by who
/// reads them.
pub fn read_sound(snapshot: &Snapshot) -> (Vec<i64>, Tables, BTreeSet<String>) {
    let mut damaged = BTreeSet::new();
    for damage in snapshot.check(|_| true) {
        assert!(!damage.column.is_empty() && damage.table != "journal", "{damage:?}");
        assert_eq!(damage.error.kind(), ErrorKind::Corrupt, "{damage:?}");
        let column = snapshot.table("main", &damage.table).unwrap().column(&damage.column).unwrap();
        let read = column.verify_rows(0..column.rows()).and_then(|()| column.array());
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "{damage:?}");
        damaged.insert(damage.table);
    }
    let mut journal = Vec::new();
    let mut tables = Tables::new();
    for table in snapshot.tables().filter(|table| !damaged.contains(&table.entry().name)) {
        if table.entry().name == "journal" {
            journal = numbers_of(&rows_of(table, 0)).values().to_vec();
            let tickets: BTreeSet<i64> =
                rows_of(table, 1).as_primitive::<Int64Type>().values().iter().copied().collect();
            assert_eq!(tickets.len(), journal.len(), "a value of a sequence was given out twice");
            let state = snapshot.catalog().sequence("main", TICKETS).unwrap().state;
            assert!(state.is_called && tickets.last().is_none_or(|last| *last <= state.last));
            continue;
        }
        tables.insert(table.entry().name.clone(), read_table(table));
    }
    (journal, tables, damaged)
}

fn read_table(table: &TableData) -> Table {
    let shape = shape_of(table.entry());
    let numbers = numbers_of(&rows_of(table, 0));
    let values = numbers.values();
    type OfValue = fn(i64) -> Option<String>;
    let kind: OfValue = |value| Some(kind_of(value));
    let texts: [(usize, OfValue); 3] = [(1, text_of), (2, kind), (3, more_of)];
    for (index, expected) in texts.into_iter().take(table.columns().len() - 1) {
        let column = rows_of(table, index);
        assert_eq!(column.len(), values.len());
        for (value, found) in values.iter().zip(column.as_string::<i64>()) {
            assert_eq!(found, expected(*value).as_deref());
        }
    }
    let set: BTreeSet<i64> = values.iter().copied().collect();
    assert_eq!(set.len(), values.len(), "a row of \"{}\" is there twice", table.entry().name);
    Table { shape, values: set }
}

/// Whether a database that only this process has open has files of the tables that it has, and of no others.
pub fn assert_nothing_is_left_behind(path: &Path, snapshot: &Snapshot) {
    let names = |path: &Path| -> BTreeSet<String> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let columns = path.join("columns");
    for directory in names(&columns) {
        let table = snapshot.tables().find(|table| table.entry().id.to_string() == directory);
        let table = table.unwrap_or_else(|| panic!("the table {directory} is left behind"));
        for name in names(&columns.join(&directory)) {
            let known = |column: &&hypostyle_storage::ColumnEntry| {
                name.starts_with(&format!("{}-{}-", column.id, column.generation.number))
            };
            let deleted = table.entry().deleted.map(|file| format!("deleted-{:020}", file.version.0));
            let is_known =
                table.entry().columns.iter().any(|column| known(&column)) || deleted == Some(name.clone());
            assert!(is_known, "{name} of table {directory} is left behind");
        }
    }
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
