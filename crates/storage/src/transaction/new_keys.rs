//! Says whether the keys of new rows are new.

use super::Transaction;
use super::conflict::live;
use super::keys::{Form, keys_of};
use crate::known_keys::{KnownKeys, ROWS_MAX, places};
use crate::table::TableData;
use arrow_array::UInt64Array;
use hypostyle_types::{BLOCK_ROWS, ColumnId, Result};
use roaring::RoaringTreemap;

impl KnownKeys {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::transaction::NewColumn;
    use arrow_array::{Int32Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use hypostyle_types::{LogicalType, TableId};
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
