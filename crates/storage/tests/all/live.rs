//! Tables with deleted rows and rows in the log, as they are handed out: the rows that an ordinary
//! reader sees, most of them where they lie.

use crate::common::{
    self, Random, append_to_log, assert_same, assert_undamaged, create, create_in_log, every_type, open,
    rows_of,
};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use hypostyle_storage::{Database, TableData};
use hypostyle_types::TableId;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn databases() -> (tempfile::TempDir, [Arc<Database>; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let databases = [Database::in_memory().unwrap(), open(&directory.path().join("d"))];
    (directory, databases)
}

fn table(database: &Arc<Database>) -> Arc<TableData> {
    database.snapshot().unwrap().table("main", "t").unwrap().clone()
}

fn delete(database: &Arc<Database>, id: TableId, positions: impl IntoIterator<Item = u64>) {
    let deleted = table(database).deleted().clone();
    let positions = positions.into_iter().filter(|position| !deleted.contains(*position)).collect();
    let mut transaction = database.begin(2).unwrap();
    transaction.delete(id, &positions).unwrap();
    transaction.commit().unwrap();
}

/// Rows `first..first + rows` of three columns: numbers with NULLs, few texts, and many.
fn plain(first: usize, rows: usize) -> RecordBatch {
    let numbers: Int64Array = (first..first + rows).map(|row| (row % 7 != 3).then_some(row as i64)).collect();
    let few: LargeStringArray = (first..first + rows).map(|row| Some(format!("kind {}", row % 9))).collect();
    let many: LargeStringArray = (first..first + rows).map(|row| Some(format!("text {row}"))).collect();
    common::batch(vec![("n", Arc::new(numbers)), ("few", Arc::new(few)), ("many", Arc::new(many))])
}

/// Compares some rows of all columns, in pieces and in one, with what a reader sees.
fn compare(table: &TableData, rows: Range<u64>) {
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let pieces = table.live_pieces(&columns, &rows, 2).unwrap();
    let count: usize = pieces.iter().map(|(rows, _)| rows).sum();
    assert_eq!(count as u64, rows.end - rows.start);
    for index in columns {
        let field = table.live_field(index).unwrap();
        let expected = rows_of(table, index).slice(rows.start as usize, count);
        let private = table.live_private(index, &rows).unwrap();
        assert_eq!(private.data_type(), field.data_type(), "{}", field.name());
        assert_same(&private, &expected, field.name());
        let arrays: Vec<&dyn Array> = pieces.iter().map(|(_, arrays)| arrays[index].as_ref()).collect();
        assert!(arrays.iter().all(|array| array.data_type() == field.data_type()), "{}", field.name());
        if !arrays.is_empty() {
            assert_same(&concat(&arrays).unwrap(), &expected, field.name());
        }
    }
}

/// Rows of each type in files and in the log, some of which are deleted.
#[test]
fn all_types_are_handed_out_with_rows_in_the_log_and_without_deleted_ones() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create(&database, "t", &[every_type(0, 20_000, true)]).unwrap();
        append_to_log(&database, id, &every_type(20_000, 50, false)).unwrap();
        append_to_log(&database, id, &every_type(20_050, 60, true)).unwrap();
        compare(&table(&database), 0..20_110);
        delete(&database, id, [0, 5_000, 5_001, 5_003, 5_900, 19_999, 20_049, 20_060, 20_109]);
        let table = table(&database);
        for rows in [0..table.rows(), 0..0, 0..1, 4_990..5_010, 19_990..20_060, 20_100..20_101] {
            compare(&table, rows);
        }
        for index in 0..table.columns().len() {
            table.live_private(index, &(0..table.rows())).unwrap().to_data().validate_full().unwrap();
        }
    }
}

#[test]
fn what_is_handed_out_lies_in_the_mapping_unless_many_rows_are_deleted() {
    let database = Database::in_memory().unwrap();
    let id = create(&database, "t", &[plain(0, 200_000)]).unwrap();
    append_to_log(&database, id, &plain(200_000, 10)).unwrap();
    delete(&database, id, [10, 100_000, 100_500, 200_003]);
    let before = table(&database);
    let pieces = before.live_pieces(&[0], &(0..before.rows()), 1).unwrap();
    let whole = before.whole_column(0).unwrap().unwrap();
    let address = |array: &ArrayRef| array.as_primitive::<Int64Type>().values().as_ptr() as usize;
    let (start, end) = (address(&whole), address(&whole) + 8 * whole.len());
    let lies = pieces.iter().map(|piece| (start..end).contains(&address(&piece.1[0]))).collect::<Vec<_>>();
    assert_eq!(lies, vec![true; 5]);
    // Rows between many deleted ones are copied, once.
    delete(&database, id, (50_000..60_000).step_by(100));
    let first = table(&database);
    let pieces = first.live_pieces(&[0, 2], &(0..first.rows()), 2).unwrap();
    let again = first.live_pieces(&[0], &(0..first.rows()), 2).unwrap();
    let copied = |piece: &(usize, Vec<ArrayRef>)| piece.0 > 5_000 && piece.0 < 10_000;
    let (one, other) = (pieces.iter().find(|piece| copied(piece)), again.iter().find(|piece| copied(piece)));
    assert_eq!(address(&one.unwrap().1[0]), address(&other.unwrap().1[0]));
    // A later state has the same copies, and rows that were deleted elsewhere are gone.
    append_to_log(&database, id, &plain(0, 3)).unwrap();
    delete(&database, id, [150_000]);
    let later = table(&database);
    let pieces = later.live_pieces(&[0], &(0..later.rows()), 2).unwrap();
    assert_eq!(
        address(&pieces.iter().find(|piece| copied(piece)).unwrap().1[0]),
        address(&one.unwrap().1[0])
    );
    compare(&later, 0..later.rows());
    // One that has lost a row of them has not.
    delete(&database, id, [55_555]);
    let last = table(&database);
    let pieces = last.live_pieces(&[0], &(0..last.rows()), 2).unwrap();
    assert_ne!(
        address(&pieces.iter().find(|piece| copied(piece)).unwrap().1[0]),
        address(&one.unwrap().1[0])
    );
    compare(&last, 0..last.rows());
    compare(&first, 0..first.rows());
}

#[test]
fn many_deleted_rows_make_no_more_pieces_than_consumers_bear() {
    let database = Database::in_memory().unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4_000_000));
    let id = create(&database, "t", &[common::batch(vec![("n", numbers)])]).unwrap();
    let pieces = |table: &TableData| table.live_pieces(&[0], &(0..table.rows()), 2).unwrap().len();
    delete(&database, id, (0..4_000_000).step_by(4_000));
    assert_eq!(pieces(&table(&database)), 1_000);
    delete(&database, id, (0..4_000_000).step_by(1_100));
    let table = table(&database);
    assert!(pieces(&table) <= 2048, "{} pieces", pieces(&table));
    compare(&table, 0..table.rows());
}

#[test]
fn a_dictionary_that_does_not_suffice_for_the_log_is_gathered() {
    let texts = |first: usize, rows: usize, distinct: usize| {
        let texts: LargeStringArray =
            (first..first + rows).map(|row| Some(format!("v{}", row % distinct))).collect();
        let numbers = Int64Array::from_iter_values((first..first + rows).map(|row| row as i64));
        common::batch(vec![("s", Arc::new(texts)), ("n", Arc::new(numbers))])
    };
    let database = Database::in_memory().unwrap();
    let id = create(&database, "t", &[texts(0, 10_000, 120)]).unwrap();
    append_to_log(&database, id, &texts(10_000, 300, 200)).unwrap();
    delete(&database, id, [7, 5_000, 10_100]);
    let table = table(&database);
    let DataType::Dictionary(key, _) = table.live_field(0).unwrap().data_type().clone() else { panic!() };
    assert_eq!(*key, DataType::Int16);
    compare(&table, 0..table.rows());
    compare(&table, 4_990..10_050);
}

#[test]
fn whoever_writes_into_his_column_changes_nothing_else() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create(&database, "t", &[plain(0, 100_000)]).unwrap();
        append_to_log(&database, id, &plain(100_000, 10)).unwrap();
        for deletes in [false, true] {
            if deletes {
                delete(&database, id, [50_000, 100_004]);
            }
            let table = table(&database);
            let rows = 0..table.rows();
            // The first array with deleted rows between is a copy, and the others are of one that stays.
            for index in [0, 1, 2, 0, 1, 2, 0, 1, 2] {
                let own = table.live_private(index, &rows).unwrap();
                for buffer in own.to_data().buffers() {
                    // SAFETY: the buffer belongs to this test alone, as is claimed.
                    unsafe { std::ptr::write_bytes(buffer.as_ptr().cast_mut(), 0, buffer.len()) };
                }
            }
            compare(&table, rows);
        }
    }
}

#[test]
fn an_array_that_is_asked_for_again_is_a_mapping_although_rows_are_deleted() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create(&database, "t", &[every_type(0, 20_000, true)]).unwrap();
        append_to_log(&database, id, &every_type(20_000, 50, false)).unwrap();
        delete(&database, id, [0, 7_000, 19_999, 20_010]);
        let table = table(&database);
        for index in 0..table.columns().len() {
            let expected = rows_of(&table, index);
            for rows in [0..table.rows(), 0..table.rows(), 6_990..20_020, 3..4] {
                let own = table.live_private(index, &rows).unwrap();
                let (start, count) = (rows.start as usize, (rows.end - rows.start) as usize);
                assert_same(&own, &expected.slice(start, count), "asked again");
            }
        }
    }
}

/// Random changes; what was handed out of any state stays what it was.
#[test]
fn what_was_handed_out_stays_whatever_is_done_to_the_table() {
    for seed in common::seeds() {
        let mut random = Random::new(seed, 1);
        let (_directory, databases) = databases();
        for database in databases {
            let id = create_in_log(&database, "t", &[plain(0, 100)]).unwrap();
            let (mut held, mut next) = (Vec::new(), 100);
            for _ in 0..30 {
                match random.below(6) {
                    0 | 1 => {
                        let rows = if random.one_in(6) { 70_000 } else { 1 + random.below(50) as usize };
                        append_to_log(&database, id, &plain(next, rows)).unwrap();
                        next += rows;
                    }
                    2 => drop(database.checkpoint().unwrap()),
                    3 => {
                        let mut compaction = database.begin(2).unwrap();
                        compaction.compact(id, |_, _| Ok(())).unwrap();
                        compaction.commit().unwrap();
                    }
                    _ => {
                        let end = table(&database).positions();
                        let count = if random.one_in(3) { end / 80 } else { 1 + random.below(3) };
                        let positions: Vec<u64> = (0..count).map(|_| random.below(end)).collect();
                        delete(&database, id, positions);
                    }
                }
                let snapshot = database.snapshot().unwrap();
                let table = snapshot.table("main", "t").unwrap().clone();
                if !table.is_handed_out() || table.rows() == 0 {
                    continue;
                }
                let first = random.below(table.rows());
                let rows = first..first + random.below(table.rows() - first);
                compare(&table, rows);
                let columns = [0, 1, 2];
                let pieces = table.live_pieces(&columns, &(0..table.rows()), 2).unwrap();
                let privates = columns.map(|index| table.live_private(index, &(0..table.rows())).unwrap());
                let expected = columns.map(|index| rows_of(&table, index));
                held.push((snapshot, pieces, privates, expected));
                if held.len() > 6 {
                    held.remove(random.below(6) as usize);
                }
            }
            let mut drops = database.begin(1).unwrap();
            drops.drop_table(id).unwrap();
            drops.commit().unwrap();
            for (snapshot, pieces, privates, expected) in held {
                drop(snapshot);
                for index in 0..3 {
                    let arrays: Vec<&dyn Array> =
                        pieces.iter().map(|(_, arrays)| arrays[index].as_ref()).collect();
                    assert_same(&concat(&arrays).unwrap(), &expected[index], "pieces");
                    assert_same(&privates[index], &expected[index], "private");
                }
            }
        }
    }
}

/// Waits until a table is in its files, and says whether it is.
fn comes_back(database: &Arc<Database>) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if table(database).is_in_files() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_table_that_nobody_changes_comes_back_to_its_files() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create(&database, "t", &[plain(0, 20_000)]).unwrap();
        database.set_upkeep(Some(Duration::from_millis(20)));
        append_to_log(&database, id, &plain(20_000, 10)).unwrap();
        let held = database.snapshot().unwrap();
        assert!(comes_back(&database));
        delete(&database, id, (0..20_000).step_by(10));
        let (before, expected) = (table(&database), rows_of(&table(&database), 2));
        assert!(comes_back(&database));
        assert_same(&rows_of(&table(&database), 2), &expected, "compacted");
        compare(&before, 0..before.rows());
        compare(held.table("main", "t").unwrap(), 0..20_010);
        // Few deleted rows stay where they are.
        delete(&database, id, [5]);
        std::thread::sleep(Duration::from_millis(200));
        assert!(!table(&database).deleted().is_empty());
        database.close();
        assert!(database.begin(1).is_err());
        assert_undamaged(&database.snapshot().unwrap());
    }
}

/// Returns the bytes of a table's files, some of which upkeep may remove meanwhile.
fn bytes_on_disk(database: &Database, id: TableId) -> u64 {
    let directory = database.path().unwrap().join(format!("columns/{id}"));
    let length = |file: std::io::Result<std::fs::DirEntry>| match file.unwrap().metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => panic!("{error}"),
    };
    std::fs::read_dir(directory).unwrap().map(length).sum()
}

#[test]
fn rows_that_were_looked_at_when_they_were_rolled_back_are_removed_without_another_transaction() {
    let (_directory, [_, database]) = databases();
    let id = create(&database, "t", &[plain(0, 20_000)]).unwrap();
    let before = bytes_on_disk(&database, id);
    database.set_upkeep(Some(Duration::from_millis(20)));
    let mut transaction = database.begin(2).unwrap();
    for _ in 0..10 {
        transaction.append(id, &plain(20_000, 100_000)).unwrap();
    }
    let looked_at = transaction.snapshot().unwrap();
    drop(transaction);
    assert!(bytes_on_disk(&database, id) > before, "rows were cut while somebody looked at them");
    drop(looked_at);
    let begun = Instant::now();
    while bytes_on_disk(&database, id) > before {
        assert!(begun.elapsed() < Duration::from_secs(60), "rolled-back rows stay in the files");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(table(&database).rows(), 20_000);
}

#[test]
fn no_transaction_is_in_conflict_with_the_upkeep() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create(&database, "t", &[plain(0, 50_000)]).unwrap();
        database.set_upkeep(Some(Duration::from_millis(1)));
        let mut open = database.begin(1).unwrap();
        delete(&database, id, (0..50_000).step_by(5));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!table(&database).is_in_files(), "it was compacted under an open transaction");
        open.delete(id, &[7].into_iter().collect()).unwrap();
        open.commit().unwrap();
        for round in 0..200 {
            let mut transaction = database.begin(1).unwrap();
            let position = round % table(&database).positions();
            let deleted = transaction.base().table("main", "t").unwrap().deleted().clone();
            if !deleted.contains(position) {
                transaction.delete(id, &[position].into_iter().collect()).unwrap();
            }
            transaction.append(id, &plain(50_000, 3)).unwrap();
            transaction.commit().unwrap();
            if round % 10 == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let end = table(&database).positions();
        delete(&database, id, (0..end).step_by(5));
        let expected = table(&database).rows();
        assert!(comes_back(&database));
        assert_eq!(table(&database).rows(), expected);
        let weak = Arc::downgrade(&database);
        drop(database);
        let begun = Instant::now();
        while weak.upgrade().is_some() {
            assert!(begun.elapsed() < Duration::from_secs(60), "its thread keeps it");
        }
    }
}
