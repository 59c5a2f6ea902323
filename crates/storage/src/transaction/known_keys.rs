//! The keys of a table's rows as numbers, kept from one check of a constraint to the next: a statement that
//! adds a row does not read those that were there before.
//!
//! They only show that a key is new. Where they do not, a query decides: different keys may, very rarely,
//! have the same number, and rows that are no more leave theirs behind. Those that the transaction has deleted
//! are among them, because they may come back.

use super::Transaction;
use super::conflict::live;
use super::keys::{Form, keys_of};
use crate::snapshot::Snapshot;
use crate::table::TableData;
use arrow_array::UInt64Array;
use hashbrown::{HashMap, HashSet};
use hypostyle_types::{BLOCK_ROWS, ColumnId, Error, Generation, Result, TableId, Version};
use roaring::RoaringTreemap;
use std::ops::Range;

/// The keys of more rows than this are not kept.
const ROWS_MAX: u64 = 1 << 22;

/// All keys that a database keeps between transactions.
const KEPT_MAX: usize = 1 << 20;

/// A table, and columns that no two rows have the same values of.
pub(super) type KeyOf = (TableId, Vec<ColumnId>);

/// Numbers of the keys of the rows from one position to another.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    rows: Range<u64>,
    /// Of the columns: another one has other rows.
    generations: Vec<Generation>,
    /// The last version that is known to have these rows.
    version: Version,
    numbers: HashSet<u64>,
    /// A new row's was among them, which rows may have left that are no more.
    is_repeated: bool,
    /// Rows whose keys were read.
    #[cfg(test)]
    read: u64,
}

/// Keys that were known at the end of a transaction, for the next one.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys(HashMap<KeyOf, KnownKeys>);

impl KnownKeys {
    fn new(table: &TableData, key: &[ColumnId], first: u64, version: Version) -> Result<Self> {
        Ok(Self {
            rows: first..first,
            generations: generations(table, key)?,
            version,
            numbers: HashSet::new(),
            is_repeated: false,
            #[cfg(test)]
            read: 0,
        })
    }

    /// Tells whether they are of the rows of a table from a position on, as far as they go.
    fn are_from(&self, first: u64, table: &TableData, key: &[ColumnId]) -> Result<bool> {
        let are_of_rows = self.rows.start <= first && first <= self.rows.end;
        let are_few = self.numbers.len() as u64 <= ROWS_MAX;
        Ok(are_of_rows && are_few && self.generations == generations(table, key)?)
    }

    /// Adds those of the rows up to a position that were not gone before the transaction. Tells whether all
    /// of them are new.
    fn extend(
        &mut self,
        (table, gone): (&TableData, &RoaringTreemap),
        key: &[ColumnId],
        end: u64,
        proceed: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let forms = vec![Form::Same; key.len()];
        let places = places(table, key)?;
        let mut are_new = true;
        while self.rows.end < end {
            proceed()?;
            let piece = self.rows.end..end.min(self.rows.end + BLOCK_ROWS);
            let positions = UInt64Array::from_iter_values(live(piece.clone(), gone));
            if !positions.is_empty() {
                let columns = table.rows_at(&places, &positions, 1)?;
                for number in keys_of(&columns, &forms) {
                    are_new &= self.numbers.insert(number);
                }
            }
            #[cfg(test)]
            {
                self.read += positions.len() as u64;
            }
            self.rows.end = piece.end;
        }
        Ok(are_new)
    }

    /// Forgets how many rows there were behind a position.
    fn end_at(&mut self, position: u64) {
        self.rows.end = self.rows.end.min(position);
    }
}

impl KeptKeys {
    /// Returns those of rows that are where they were in a snapshot, too.
    fn take(&mut self, key: &KeyOf, snapshot: &Snapshot) -> Option<KnownKeys> {
        let known = self.0.get(key)?;
        if known.version > snapshot.version() {
            // A later transaction may want them.
            return None;
        }
        let known = self.0.remove(key)?;
        let table = snapshot.table_by_id(key.0)?;
        let rows = table.beyond_files();
        let is_same = rows.moved <= known.version
            && rows.shifts.since(known.version).is_some_and(<[_]>::is_empty)
            && known.rows.end <= table.positions();
        is_same.then_some(known)
    }

    fn put(&mut self, key: KeyOf, known: KnownKeys) {
        let all: usize = self.0.values().map(|other| other.numbers.len()).sum();
        if all + known.numbers.len() > KEPT_MAX {
            self.0.clear();
        }
        if known.numbers.len() <= KEPT_MAX {
            self.0.insert(key, known);
        }
    }
}

impl Transaction {
    /// Tells whether no row of a table from `first` on, as this transaction sees it, has the key of another
    /// one from `compared` on. False where that is not known.
    ///
    /// # Errors
    /// `Corrupt` when rows are damaged; those of `proceed`, which is asked now and then whether to go on.
    pub fn shows_new_keys(
        &mut self,
        table: &TableData,
        key: &[ColumnId],
        compared: u64,
        first: u64,
        proceed: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        if table.positions().saturating_sub(compared) > ROWS_MAX {
            return Ok(false);
        }
        let of = (table.entry().id, key.to_vec());
        let known = self.known_keys.remove(&of);
        let known = known.or_else(|| self.database.kept_keys().lock().take(&of, &self.base));
        let mut known = match known {
            Some(known) if known.are_from(compared, table, key)? => known,
            _ => KnownKeys::new(table, key, compared, self.base.version())?,
        };
        let (base, none) = (self.base.clone(), RoaringTreemap::new());
        let rows = (table, base.table_by_id(of.0).map_or(&none, |before| before.deleted()));
        known.extend(rows, key, first, proceed)?;
        let are_new = known.extend(rows, key, table.positions(), proceed)?;
        known.is_repeated |= !are_new;
        self.known_keys.insert(of, known);
        Ok(are_new)
    }

    /// Forgets the keys of rows that are no more, after a rollback.
    pub(super) fn forget_keys(&mut self) {
        let mut known = std::mem::take(&mut self.known_keys);
        for ((table, _), known) in &mut known {
            let before = self.base.table_by_id(*table).map_or(0, |base| base.positions());
            known.end_at(before + self.own_rows(*table));
        }
        self.known_keys = known;
    }

    /// Leaves the keys of the rows that were there before it to the next transaction, unless some are
    /// perhaps of rows that are no more. Those of its own rows are among them: it is committed.
    pub(super) fn leave_keys(&mut self) {
        for (key, mut known) in std::mem::take(&mut self.known_keys) {
            if let Some(before) = self.base.table_by_id(key.0)
                && known.rows.start == 0
                && !known.is_repeated
            {
                known.end_at(before.positions());
                known.version = self.base.version();
                self.database.kept_keys().lock().put(key, known);
            }
        }
    }
}

fn generations(table: &TableData, key: &[ColumnId]) -> Result<Vec<Generation>> {
    let places = places(table, key)?.into_iter();
    Ok(places.map(|place| table.entry().columns[place].generation.number).collect())
}

fn places(table: &TableData, key: &[ColumnId]) -> Result<Vec<usize>> {
    let columns = &table.entry().columns;
    let place = |id: &ColumnId| columns.iter().position(|column| column.id == *id);
    let places: Option<Vec<usize>> = key.iter().map(place).collect();
    places.ok_or_else(|| Error::internal("a key of a column that its table has not"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::transaction::NewColumn;
    use arrow_array::{Int32Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use hypostyle_types::LogicalType;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::sync::Arc;

    const A: ColumnId = ColumnId(0);

    fn with_table() -> (Arc<Database>, TableId) {
        let database = Database::in_memory().unwrap();
        let mut transaction = database.begin(1).unwrap();
        let column = NewColumn::new("a", LogicalType::Integer, true);
        let id = transaction.create_table("main", "t", vec![column]).unwrap();
        transaction.commit().unwrap();
        (database, id)
    }

    fn begin(database: &Arc<Database>) -> Transaction {
        database.begin(1).unwrap().of_statements()
    }

    /// Appends rows as a statement does, and tells whether their keys are shown to be new.
    fn append(transaction: &mut Transaction, id: TableId, values: &[i32]) -> bool {
        let field = Field::new("a", DataType::Int32, true);
        let rows: Arc<Int32Array> = Arc::new(values.to_vec().into());
        let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![rows]).unwrap();
        transaction.append(id, &rows).unwrap();
        let first = transaction.take_changed()[&id].first_new.unwrap();
        let snapshot = transaction.snapshot().unwrap();
        let table = snapshot.table_by_id(id).unwrap();
        transaction.shows_new_keys(table, &[A], 0, first, &|| Ok(())).unwrap()
    }

    fn read(transaction: &Transaction, id: TableId) -> u64 {
        transaction.known_keys[&(id, vec![A])].read
    }

    #[test]
    fn each_row_is_read_once_however_many_statements_follow() {
        let (database, id) = with_table();
        let mut transaction = begin(&database);
        // The rows go from memory to the files on the way.
        for statement in 0..1000 {
            let values: Vec<i32> = (100 * statement..100 * (statement + 1)).collect();
            assert!(append(&mut transaction, id, &values));
        }
        assert!(transaction.staged.tables[&id].in_files.is_some());
        assert_eq!(read(&transaction, id), 100_000);
        transaction.commit().unwrap();
        // Once more: another transaction might have come before.
        let mut before = 200_000;
        for statement in 1..=100 {
            let mut transaction = begin(&database);
            assert!(append(&mut transaction, id, &[-statement]));
            let after = read(&transaction, id);
            assert!(after - before <= 2, "{statement}: {before} {after}");
            before = after;
            transaction.commit().unwrap();
        }
    }

    #[test]
    fn rows_that_moved_or_changed_their_values_are_read_anew() {
        let (database, id) = with_table();
        let mut transaction = begin(&database);
        assert!(append(&mut transaction, id, &[1, 2, 3]));
        transaction.commit().unwrap();
        let mut transaction = begin(&database);
        assert!(append(&mut transaction, id, &[4]));
        transaction.delete(id, &RoaringTreemap::from([0])).unwrap();
        transaction.commit().unwrap();
        let mut compacting = begin(&database);
        compacting.compact(id, |_, _| Ok(())).unwrap();
        compacting.commit().unwrap();
        let mut transaction = begin(&database);
        assert!(append(&mut transaction, id, &[1]));
        assert!(!append(&mut transaction, id, &[4]));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append(Vec<i32>),
        Delete(Index),
        Save,
        RollBack,
        Commit,
        Abandon,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => proptest::collection::vec(0..12, 1..3).prop_map(Step::Append),
            3 => any::<Index>().prop_map(Step::Delete),
            1 => Just(Step::Save),
            2 => Just(Step::RollBack),
            1 => Just(Step::Commit),
            1 => Just(Step::Abandon),
        ]
    }

    proptest! {
        #[test]
        fn a_key_is_never_shown_to_be_new_that_a_row_has(
            steps in proptest::collection::vec(step(), 0..40),
        ) {
            let (database, id) = with_table();
            let mut transaction = begin(&database);
            // By position, with those that were there before the transaction.
            let (mut rows, mut before): (Vec<Option<i32>>, Vec<Option<i32>>) = Default::default();
            let mut saved = (transaction.savepoint().unwrap(), rows.clone());
            let mut is_plain = true;
            for step in steps {
                match step {
                    Step::Append(values) => {
                        let start = transaction.savepoint().unwrap();
                        let is_shown = append(&mut transaction, id, &values);
                        let is_new = values.iter().enumerate().all(|(place, value)| {
                            !rows.contains(&Some(*value)) && !values[..place].contains(value)
                        });
                        prop_assert!(is_new || !is_shown, "{:?} {:?}", rows, values);
                        prop_assert!(is_shown || !is_new || !is_plain, "{:?} {:?}", rows, values);
                        match is_new {
                            true => rows.extend(values.into_iter().map(Some)),
                            false => {
                                transaction.roll_back_to(&start);
                                is_plain = false;
                            }
                        }
                    }
                    Step::Delete(row) if !rows.is_empty() => {
                        let row = row.index(rows.len());
                        transaction.delete(id, &RoaringTreemap::from([row as u64])).unwrap();
                        rows[row] = None;
                        is_plain = false;
                    }
                    Step::Delete(_) => {}
                    Step::Save => saved = (transaction.savepoint().unwrap(), rows.clone()),
                    Step::RollBack => {
                        transaction.roll_back_to(&saved.0);
                        rows = saved.1.clone();
                        is_plain = false;
                    }
                    Step::Commit | Step::Abandon => {
                        match step {
                            Step::Commit => {
                                transaction.commit().unwrap();
                                // Own rows that were deleted get no position.
                                let own = rows.split_off(before.len());
                                rows.extend(own.into_iter().filter(Option::is_some));
                                before = rows.clone();
                            }
                            _ => rows = before.clone(),
                        }
                        transaction = begin(&database);
                        saved = (transaction.savepoint().unwrap(), rows.clone());
                    }
                }
            }
        }
    }
}
