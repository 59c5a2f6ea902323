//! Tables with keys and references: two transactions that overlap in time are in conflict exactly if
//! they have changed the same row, or if both together would break a constraint.

use crate::common::{Random, append_to_log, batch, columns_of, open, rows_of, seeds};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, LargeStringArray, RecordBatch};
use hypostyle_storage::{
    ConstraintEntry, ConstraintRule, Database, ReferentialAction, Snapshot, Transaction,
};
use hypostyle_types::{ColumnId, ErrorKind, TableId};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ROUNDS: u64 = 150;

/// No seed needs so many rounds to have enough conflicts.
const MOST_ROUNDS: u64 = 20 * ROUNDS;

/// How many commits, and how many conflicts, a run must have had.
const ENOUGH: u64 = 10;

const KEYS: u64 = 6;

/// A row that goes to the column files, in front of what only the log has.
const LONG_ROW_BYTES: usize = 300_000;

/// A key, and the parent that is referred to.
type Child = (Option<i64>, Option<u64>);

/// The rows of both tables, by a number that no other row ever had.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    parents: BTreeMap<i64, u64>,
    children: BTreeMap<i64, Child>,
}

fn is_free<T: Ord + Copy>(keys: impl Iterator<Item = T>) -> bool {
    let mut known = BTreeSet::new();
    let mut keys = keys;
    keys.all(|key| known.insert(key))
}

impl State {
    fn is_valid(&self) -> bool {
        let parents: BTreeSet<u64> = self.parents.values().copied().collect();
        is_free(self.parents.values().copied())
            && is_free(self.children.values().filter_map(|(key, _)| *key))
            && self
                .children
                .values()
                .filter_map(|(_, parent)| *parent)
                .all(|parent| parents.contains(&parent))
    }

    /// What two states have both become of one.
    fn merged(base: &Self, one: &Self, other: &Self) -> Self {
        fn rows<T: Clone>(
            base: &BTreeMap<i64, T>,
            one: &BTreeMap<i64, T>,
            other: &BTreeMap<i64, T>,
        ) -> BTreeMap<i64, T> {
            let all = one.iter().chain(other).filter(|(number, _)| {
                !base.contains_key(number) || one.contains_key(number) && other.contains_key(number)
            });
            all.map(|(number, row)| (*number, row.clone())).collect()
        }
        Self {
            parents: rows(&base.parents, &one.parents, &other.parents),
            children: rows(&base.children, &one.children, &other.children),
        }
    }

    /// The numbers of the rows that are no more.
    fn gone(&self, now: &Self) -> BTreeSet<i64> {
        let parents = self.parents.keys().filter(|number| !now.parents.contains_key(number));
        parents
            .chain(self.children.keys().filter(|number| !now.children.contains_key(number)))
            .copied()
            .collect()
    }
}

fn text(key: Option<u64>) -> Option<String> {
    key.map(|key| format!("key {key}"))
}

fn parents(rows: &[(i64, u64)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(LargeStringArray::from_iter(rows.iter().map(|(_, key)| text(Some(*key)))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(number, _)| *number)));
    batch(vec![("k", keys), ("number", numbers)])
}

fn children(rows: &[(i64, Child)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|(_, (key, _))| *key)));
    let parents = rows.iter().map(|(_, (_, parent))| text(*parent));
    let parents: ArrayRef = Arc::new(LargeStringArray::from_iter(parents));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(number, _)| *number)));
    let long = rows.iter().map(|(number, _)| (*number < 0).then(|| "x".repeat(LONG_ROW_BYTES)));
    let long: ArrayRef = Arc::new(LargeStringArray::from_iter(long));
    batch(vec![("id", keys), ("parent", parents), ("long", long), ("number", numbers)])
}

fn constraint(name: &str, rule: ConstraintRule) -> ConstraintEntry {
    ConstraintEntry::new(name, rule)
}

fn reference(columns: Vec<ColumnId>, table: TableId, referred: Vec<ColumnId>) -> ConstraintRule {
    let (on_delete, on_update) = (ReferentialAction::NoAction, ReferentialAction::NoAction);
    ConstraintRule::ForeignKey { columns, table, referred, on_delete, on_update }
}

fn declare(transaction: &mut Transaction, id: TableId, name: &str, rule: ConstraintRule) {
    let declared = constraint(name, rule);
    let push = |table: &mut hypostyle_storage::TableEntry| {
        table.constraints.push(declared);
        Ok(())
    };
    transaction.alter_table(id, push).unwrap();
}

#[derive(Clone, Copy)]
struct Tables {
    parent: TableId,
    child: TableId,
}

fn create(database: &Arc<Database>) -> Tables {
    let mut transaction = database.begin(1).unwrap();
    let parent = transaction.create_table("main", "parent", columns_of(&parents(&[]))).unwrap();
    declare(
        &mut transaction,
        parent,
        "parent_key",
        ConstraintRule::PrimaryKey { columns: vec![ColumnId(0)] },
    );
    let child = transaction.create_table("main", "child", columns_of(&children(&[]))).unwrap();
    declare(&mut transaction, child, "child_key", ConstraintRule::Unique { columns: vec![ColumnId(0)] });
    declare(&mut transaction, child, "child_parent", reference(vec![ColumnId(1)], parent, vec![ColumnId(0)]));
    transaction.commit().unwrap();
    Tables { parent, child }
}

fn key_of(text: &str) -> u64 {
    text.strip_prefix("key ").unwrap().parse().unwrap()
}

/// The rows of both tables, and where each is; without the long ones.
fn read(snapshot: &Snapshot) -> (State, BTreeMap<i64, u64>) {
    let (mut state, mut places) = (State::default(), BTreeMap::new());
    for name in ["parent", "child"] {
        let table = snapshot.table("main", name).unwrap();
        let numbers = rows_of(table, table.columns().len() - 1);
        let positions = (0..table.positions()).filter(|position| !table.deleted().contains(*position));
        let columns: Vec<ArrayRef> = (0..2).map(|index| rows_of(table, index)).collect();
        for (row, position) in positions.enumerate() {
            let number = numbers.as_primitive::<Int64Type>().value(row);
            let text =
                |array: &ArrayRef| array.is_valid(row).then(|| key_of(array.as_string::<i64>().value(row)));
            if number < 0 {
                continue;
            }
            assert!(places.insert(number, position).is_none(), "row {number} is there twice");
            if name == "parent" {
                state.parents.insert(number, text(&columns[0]).unwrap());
            } else {
                let ids = columns[0].as_primitive::<Int64Type>();
                let id = ids.is_valid(row).then(|| ids.value(row));
                state.children.insert(number, (id, text(&columns[1])));
            }
        }
    }
    (state, places)
}

struct Writer<'a> {
    random: &'a mut Random,
    next: &'a mut i64,
    tables: Tables,
}

impl Writer<'_> {
    fn number(&mut self) -> i64 {
        *self.next += 1;
        *self.next
    }

    fn one_of<T: Clone>(&mut self, rows: &BTreeMap<i64, T>) -> Option<(i64, T)> {
        if rows.is_empty() {
            return None;
        }
        let place = self.random.below(rows.len() as u64) as usize;
        rows.iter().nth(place).map(|(number, row)| (*number, row.clone()))
    }

    /// Makes some changes that no constraint forbids, as far as the transaction sees; what it sees then.
    fn change(&mut self, transaction: &mut Transaction) -> State {
        for _ in 0..1 + self.random.below(4) {
            let (before, places) = read(&transaction.snapshot().unwrap());
            let mut after = before.clone();
            match self.random.below(8) {
                0 => drop(after.parents.insert(self.number(), self.random.below(KEYS))),
                1 | 2 => {
                    if let Some((number, key)) = self.one_of(&before.parents) {
                        after.parents.remove(&number);
                        match self.random.below(4) {
                            0 => {}
                            1 => drop(after.parents.insert(self.number(), self.random.below(KEYS))),
                            _ => drop(after.parents.insert(self.number(), key)),
                        }
                    }
                }
                3 | 4 => {
                    let id = (!self.random.one_in(3)).then(|| self.random.below(KEYS) as i64);
                    let parent = (!self.random.one_in(4)).then(|| self.random.below(KEYS));
                    after.children.insert(self.number(), (id, parent));
                }
                _ => {
                    if let Some((number, row)) = self.one_of(&before.children) {
                        after.children.remove(&number);
                        if !self.random.one_in(3) {
                            after.children.insert(self.number(), row);
                        }
                    }
                }
            }
            if after.is_valid() {
                self.stage(transaction, &before, &after, &places);
            }
        }
        read(&transaction.snapshot().unwrap()).0
    }

    fn stage(
        &self,
        transaction: &mut Transaction,
        before: &State,
        after: &State,
        places: &BTreeMap<i64, u64>,
    ) {
        let gone = before.gone(after);
        let positions = |of: &dyn Fn(&i64) -> bool| -> RoaringTreemap {
            gone.iter().filter(|number| of(number)).map(|number| places[number]).collect()
        };
        let of_parents = positions(&|number| before.parents.contains_key(number));
        let of_children = positions(&|number| before.children.contains_key(number));
        transaction.delete(self.tables.parent, &of_parents).unwrap();
        transaction.delete(self.tables.child, &of_children).unwrap();
        let new = after.parents.iter().filter(|(number, _)| !before.parents.contains_key(number));
        let new: Vec<_> = new.map(|(number, key)| (*number, *key)).collect();
        transaction.append(self.tables.parent, &parents(&new)).unwrap();
        let new = after.children.iter().filter(|(number, _)| !before.children.contains_key(number));
        let new: Vec<_> = new.map(|(number, row)| (*number, *row)).collect();
        transaction.append(self.tables.child, &children(&new)).unwrap();
    }
}

#[test]
fn a_conflict_is_what_both_have_changed_or_what_breaks_a_constraint() {
    for seed in seeds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let handles = [open(&path), open(&path)];
        let tables = create(&handles[0]);
        let (mut random, mut next) = (Random::new(seed, 0), 0);
        let (mut conflicts, mut commits) = (0, 0);
        for round in 0..MOST_ROUNDS {
            if round >= ROUNDS && conflicts > ENOUGH && commits > ENOUGH {
                break;
            }
            let which = [random.below(2) as usize, random.below(2) as usize];
            let begin = || which.map(|handle| handles[handle].begin(1).unwrap().of_statements());
            let [mut one, mut other] = begin();
            let mut loading = random.one_in(5).then(|| {
                let mut loading = handles[0].begin(1).unwrap();
                loading.append(tables.child, &children(&[(-1, (None, None))])).unwrap();
                loading
            });
            let base = read(one.base()).0;
            assert_eq!(base, read(other.base()).0);
            let mut writer = Writer { random: &mut random, next: &mut next, tables };
            let (first, second) = (writer.change(&mut one), writer.change(&mut other));
            let expected = State::merged(&base, &first, &second);
            let same_row = !base.gone(&first).is_disjoint(&base.gone(&second));
            one.commit().unwrap();
            if let Some(loading) = loading.take() {
                loading.commit().unwrap();
            }
            if random.one_in(8) {
                assert!(handles[random.below(2) as usize].checkpoint().unwrap());
            }
            let committed = other.commit();
            let found = read(&handles[0].snapshot().unwrap()).0;
            match committed {
                Ok(_) => {
                    assert!(!same_row && expected.is_valid(), "round {round}: {base:?} {first:?} {second:?}");
                    assert_eq!(found, expected, "round {round}");
                    commits += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    let message = error.message();
                    assert!(
                        same_row || !expected.is_valid(),
                        "round {round}: {message}: {base:?} {first:?} {second:?}"
                    );
                    assert_eq!(found, first, "round {round}");
                    conflicts += 1;
                }
            }
            assert!(found.is_valid());
        }
        println!("{commits} commits, {conflicts} conflicts");
        assert!(conflicts > ENOUGH && commits > ENOUGH, "too little happened");
    }
}

/// What the second of two transactions says, of which each appends to one table.
fn second_of(
    database: &Arc<Database>,
    first: impl FnOnce(&mut Transaction),
    second: impl FnOnce(&mut Transaction),
) -> Result<(), String> {
    let (mut one, mut other) = (database.begin(1).unwrap(), database.begin(1).unwrap());
    first(&mut one);
    second(&mut other);
    one.commit().unwrap();
    other.commit().map(drop).map_err(|error| error.message().to_string())
}

#[test]
fn conflicts_name_the_table_and_the_constraint() {
    let database = Database::in_memory().unwrap();
    let tables = create(&database);
    append_to_log(&database, tables.parent, &parents(&[(1, 1), (2, 2)])).unwrap();
    let parent = |key| {
        move |transaction: &mut Transaction| {
            transaction.append(tables.parent, &parents(&[(10 + key as i64, key)])).unwrap();
        }
    };
    let child = |id, key| {
        move |transaction: &mut Transaction| {
            transaction.append(tables.child, &children(&[(20, (id, Some(key)))])).unwrap();
        }
    };
    let remove = |position| {
        move |transaction: &mut Transaction| {
            transaction.delete(tables.parent, &[position].into_iter().collect()).unwrap();
        }
    };
    let message = second_of(&database, parent(5), parent(5)).unwrap_err();
    assert!(message.contains("\"parent\"") && message.contains("\"parent_key\""), "{message}");
    let message = second_of(&database, remove(0), child(None, 1)).unwrap_err();
    assert!(message.contains("\"parent\"") && message.contains("\"child_parent\""), "{message}");
    let message = second_of(&database, child(Some(1), 2), remove(1)).unwrap_err();
    assert!(message.contains("\"child\"") && message.contains("\"child_parent\""), "{message}");
    assert_eq!(second_of(&database, child(None, 2), child(None, 2)), Ok(()));
    assert_eq!(second_of(&database, parent(6), parent(7)), Ok(()));
}

#[test]
fn many_rows_are_compared_by_their_keys_too() {
    let database = Database::in_memory().unwrap();
    let tables = create(&database);
    let many = |first: i64| {
        move |transaction: &mut Transaction| {
            let rows: Vec<_> = (first..first + 20_000).map(|key| (key, key as u64)).collect();
            transaction.append(tables.parent, &parents(&rows)).unwrap();
        }
    };
    let few = |key: i64| {
        move |transaction: &mut Transaction| {
            transaction.append(tables.parent, &parents(&[(key, key as u64)])).unwrap();
        }
    };
    assert_eq!(second_of(&database, many(0), few(50_000)), Ok(()));
    assert_eq!(second_of(&database, few(60_000), many(100_000)), Ok(()));
    assert!(second_of(&database, many(200_000), few(219_999)).is_err());
    assert!(second_of(&database, few(319_999), many(300_000)).is_err());
    assert_eq!(second_of(&database, many(400_000), many(500_000)), Ok(()));
    assert!(second_of(&database, many(600_000), many(610_000)).is_err());
    assert_eq!(database.snapshot().unwrap().table_by_id(tables.parent).unwrap().rows(), 120_003);
}

#[test]
fn keys_are_equal_as_in_sql() {
    let database = Database::in_memory().unwrap();
    let floats = |values: Vec<Option<f64>>| {
        let array: ArrayRef = Arc::new(Float64Array::from(values));
        batch(vec![("k", array)])
    };
    let integers = |value: i32| {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        batch(vec![("k", array)])
    };
    let long = |value: i64| {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        batch(vec![("k", array)])
    };
    let mut transaction = database.begin(1).unwrap();
    let key = || ConstraintRule::Unique { columns: vec![ColumnId(0)] };
    let float = transaction.create_table("main", "f", columns_of(&floats(Vec::new()))).unwrap();
    declare(&mut transaction, float, "f_key", key());
    let wide = transaction.create_table("main", "l", columns_of(&long(0))).unwrap();
    declare(&mut transaction, wide, "l_key", key());
    let narrow = transaction.create_table("main", "i", columns_of(&integers(0))).unwrap();
    declare(&mut transaction, narrow, "i_l", reference(vec![ColumnId(0)], wide, vec![ColumnId(0)]));
    transaction.append(wide, &long(7)).unwrap();
    transaction.append(wide, &long(8)).unwrap();
    transaction.commit().unwrap();
    let give = |value: Option<f64>| {
        let rows = floats(vec![value]);
        move |transaction: &mut Transaction| transaction.append(float, &rows).unwrap()
    };
    assert!(second_of(&database, give(Some(0.0)), give(Some(-0.0))).is_err());
    assert!(second_of(&database, give(Some(f64::NAN)), give(Some(-f64::NAN))).is_err());
    assert_eq!(second_of(&database, give(None), give(None)), Ok(()));
    assert_eq!(second_of(&database, give(Some(1.0)), give(Some(2.0))), Ok(()));
    // An INTEGER refers to a BIGINT.
    let refer = |value: i32| {
        let rows = integers(value);
        move |transaction: &mut Transaction| transaction.append(narrow, &rows).unwrap()
    };
    let remove = |position: u64| {
        move |transaction: &mut Transaction| {
            transaction.delete(wide, &[position].into_iter().collect()).unwrap();
        }
    };
    assert_eq!(second_of(&database, refer(8), remove(0)), Ok(()));
    assert!(second_of(&database, refer(8), remove(1)).is_err());
}
