//! What a node has stored of catalogs, in its own database: its promise, and the catalogs as changes of each
//! other. Each message of a coordinator adds rows to a table, as large as what differs. When the changes
//! have become larger than a whole catalog, the table is made anew with that.

use crate::state::{self, SCHEMA};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};
use hypostyle_placement::catalog::{Catalog, Difference};
use hypostyle_placement::term::{Place, Stored, Voter};
use hypostyle_placement::{Epoch, NodeId, Term};
use hypostyle_storage::{NewColumn, Snapshot, TableData, Transaction};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The table of the rows.
pub const TABLE: &str = "catalog";

/// Its columns: the number of the row, what it has, the place of the catalog that it makes, and JSON.
static COLUMNS: [(&str, LogicalType); 5] = [
    ("number", LogicalType::UBigInt),
    ("kind", LogicalType::Varchar),
    ("term", LogicalType::UBigInt),
    ("epoch", LogicalType::UBigInt),
    ("value", LogicalType::Varchar),
];

/// The version of the rows that this release writes.
const FORMAT: u32 = 1;

/// The name under which earlier releases have stored all of this, as one value.
const VOTER: &str = "voter";

/// The table is made anew when the changes have more bytes than the last whole catalog, and than this.
const CHANGES_BYTES_MIN: usize = 256 << 10;

/// What a row has. The last promise counts.
const PROMISE: &str = "promise";
const WHOLE: &str = "whole";
const CHANGE: &str = "change";

/// What a node has promised, and which catalogs it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    format: u32,
    promised: Term,
    owner: Option<NodeId>,
    stored: Option<Place>,
    readable: Option<Place>,
}

impl Promise {
    fn of(voter: &Voter<Catalog>) -> Self {
        Self {
            format: FORMAT,
            promised: voter.promised,
            owner: voter.owner,
            stored: voter.stored.as_ref().map(Stored::place),
            readable: voter.readable.as_ref().map(Stored::place),
        }
    }
}

/// What makes a catalog of another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    base: Place,
    difference: Difference,
}

/// What stands in the place of what earlier releases have stored, so that these refuse the database.
#[derive(Serialize)]
struct Moved {
    format: u32,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    kind: &'static str,
    place: Place,
    value: String,
}

/// What the table has, as far as one has to know to add to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Whether there is a table.
    exists: bool,
    /// The number of the next row.
    next: u64,
    /// The catalogs that the rows make.
    places: BTreeSet<Place>,
    /// The bytes of the first whole catalog, and of all rows since.
    whole: usize,
    changes: usize,
}

impl History {
    /// Writes in a transaction what a node has stored, after `before`, which it had stored. Returns the
    /// history with it, which is true when the transaction is committed.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn write(
        &self,
        transaction: &mut Transaction,
        before: Option<&Voter<Catalog>>,
        now: &Voter<Catalog>,
    ) -> Result<Self> {
        let (mut next, mut rows) = (self.clone(), Vec::new());
        if !self.exists || self.changes > self.whole.max(CHANGES_BYTES_MIN) {
            self.make_table(transaction)?;
            next = Self { exists: true, ..Self::default() };
            next.add_catalogs(None, now, &mut rows)?;
            next.whole = rows.iter().map(|row| row.value.len()).sum();
        } else {
            next.add_catalogs(before, now, &mut rows)?;
            next.changes += rows.iter().map(|row| row.value.len()).sum::<usize>();
        }
        let promise = to_json(&Promise::of(now))?;
        next.changes += promise.len();
        rows.push(Row { kind: PROMISE, place: (now.promised, Epoch(0)), value: promise });
        let id = transaction.catalog().table(SCHEMA, TABLE).map(|table| table.id);
        let id = id.ok_or_else(|| Error::internal("the table of catalogs is gone"))?;
        transaction.append(id, &next.batch(&rows)?)?;
        next.next += rows.len() as u64;
        Ok(next)
    }

    /// Adds the rows of catalogs that the table does not make yet, as changes of others if it makes these.
    fn add_catalogs(
        &mut self,
        before: Option<&Voter<Catalog>>,
        now: &Voter<Catalog>,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let bases: Vec<&Stored<Catalog>> = before.into_iter().chain([now]).flat_map(catalogs).collect();
        for stored in catalogs(now) {
            let place = stored.place();
            if !self.places.insert(place) {
                continue;
            }
            let made = bases.iter().filter(|base| base.place() != place).find_map(|base| {
                let is_there = self.places.contains(&base.place());
                let difference = is_there.then(|| Difference::between(&base.content, &stored.content))??;
                Some(Made { base: base.place(), difference })
            });
            let (kind, value) = match made {
                Some(made) => (CHANGE, to_json(&made)?),
                None => (WHOLE, to_json(&stored.content)?),
            };
            rows.push(Row { kind, place, value });
        }
        Ok(())
    }

    /// Makes the table, in the place of the one before.
    fn make_table(&self, transaction: &mut Transaction) -> Result<()> {
        state::ensure_schema(transaction)?;
        if self.exists
            && let Some(id) = transaction.catalog().table(SCHEMA, TABLE).map(|table| table.id)
        {
            transaction.drop_table(id)?;
        }
        let columns = COLUMNS.iter();
        let columns = columns.map(|(name, logical_type)| NewColumn::new(*name, logical_type.clone(), false));
        transaction.create_table(SCHEMA, TABLE, columns.collect())?;
        match self.exists {
            true => Ok(()),
            false => state::store(transaction, VOTER, &Moved { format: FORMAT }),
        }
    }

    fn batch(&self, rows: &[Row]) -> Result<RecordBatch> {
        let numbers = (self.next..).take(rows.len());
        let columns: [ArrayRef; 5] = [
            Arc::new(UInt64Array::from_iter_values(numbers)),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.kind))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.place.0.0))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.place.1.0))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.value.as_str()))),
        ];
        let named = COLUMNS.iter().zip(columns).map(|((name, _), values)| (*name, values));
        RecordBatch::try_from_iter(named)
            .map_err(|error| Error::internal(format!("cannot store what is known of catalogs: {error}")))
    }
}

/// Returns the catalogs that a node has.
fn catalogs(voter: &Voter<Catalog>) -> impl Iterator<Item = &Stored<Catalog>> {
    voter.stored.iter().chain(&voter.readable)
}

/// Says whether a table is that of the catalogs. An earlier release let statements make others of its name.
pub fn is_of_catalogs(table: &TableData) -> bool {
    let columns = table.entry().columns.iter().map(|column| (column.name.as_str(), &column.logical_type));
    columns.eq(COLUMNS.iter().map(|(name, logical_type)| (*name, logical_type)))
}

/// Returns what a node has stored, and what the table has.
///
/// # Errors
/// `Corrupt` for what cannot be read; `Version` if a later release has written it.
pub fn load(snapshot: &Snapshot) -> Result<(Option<Voter<Catalog>>, History)> {
    match rows(snapshot)? {
        Some(rows) => read(&rows).map(|(voter, history)| (Some(voter), history)),
        None => Ok((state::load(snapshot, VOTER)?, History::default())),
    }
}

/// Returns what a node has stored, by the rows of the table.
fn read(rows: &[StoredRow]) -> Result<(Voter<Catalog>, History)> {
    let mut history = History { exists: true, ..History::default() };
    let mut catalogs = BTreeMap::<Place, &StoredRow>::new();
    let mut promise = None;
    for (at, row) in rows.iter().enumerate() {
        history.next = row.number.saturating_add(1);
        match row.kind.as_str() {
            PROMISE => promise = Some(row),
            WHOLE | CHANGE => {
                history.places.insert(row.place);
                catalogs.insert(row.place, row);
            }
            other => return Err(corrupt(format_args!("a row of kind '{}'", other.escape_debug()))),
        }
        match at {
            0 => history.whole = row.value.len(),
            _ => history.changes = history.changes.saturating_add(row.value.len()),
        }
    }
    let promise = promise_of(promise.ok_or_else(|| corrupt("there is no promise"))?)?;
    let find = |place: Option<Place>| place.map(|place| catalog(&catalogs, place)).transpose();
    let voter = Voter {
        promised: promise.promised,
        owner: promise.owner,
        stored: find(promise.stored)?,
        readable: find(promise.readable)?,
    };
    Ok((voter, history))
}

/// Returns the place of the published catalog that a node knows, as a snapshot has it.
///
/// # Errors
/// Those of [`load`].
pub fn readable(snapshot: &Snapshot) -> Result<Option<Place>> {
    let Some(rows) = rows(snapshot)? else {
        let voter: Option<Voter<Catalog>> = state::load(snapshot, VOTER)?;
        return Ok(voter.and_then(|voter| voter.readable).map(|stored| stored.place()));
    };
    let promise =
        rows.iter().rfind(|row| row.kind == PROMISE).ok_or_else(|| corrupt("there is no promise"))?;
    Ok(promise_of(promise)?.readable)
}

/// A row as it was stored.
#[derive(Debug, PartialEq, Eq)]
struct StoredRow {
    number: u64,
    kind: String,
    place: Place,
    value: String,
}

/// Returns the rows of the table in their order; `None` if there is no table.
fn rows(snapshot: &Snapshot) -> Result<Option<Vec<StoredRow>>> {
    let Some(table) = snapshot.table(SCHEMA, TABLE).filter(|table| is_of_catalogs(table)) else {
        return Ok(None);
    };
    let positions = state::positions_of(table, 0..table.positions());
    let columns = table.rows_at(&[0, 1, 2, 3, 4], &positions, 1)?;
    let [numbers, kinds, terms, epochs, values] = columns.as_slice() else {
        return Err(Error::internal("rows of five columns"));
    };
    let [numbers, terms, epochs] = [numbers, terms, epochs].map(|values| values.as_primitive::<UInt64Type>());
    let (kinds, values) = (text(kinds)?, text(values)?);
    let mut rows: Vec<StoredRow> = (0..numbers.len())
        .map(|row| StoredRow {
            number: numbers.value(row),
            kind: kinds.value(row).to_string(),
            place: (Term(terms.value(row)), Epoch(epochs.value(row))),
            value: values.value(row).to_string(),
        })
        .collect();
    rows.sort_by_key(|row| row.number);
    Ok(Some(rows))
}

fn text(values: &ArrayRef) -> Result<StringArray> {
    let text = arrow::compute::cast(values, &DataType::Utf8).map_err(corrupt)?;
    Ok(text.as_string::<i32>().clone())
}

/// Makes the catalog of a place.
fn catalog(rows: &BTreeMap<Place, &StoredRow>, place: Place) -> Result<Stored<Catalog>> {
    let (mut changes, mut at) = (Vec::new(), place);
    let whole: Catalog = loop {
        let (term, epoch) = at;
        let missing = || corrupt(format_args!("the catalog of epoch {epoch} in term {term} is missing"));
        let row = rows.get(&at).ok_or_else(missing)?;
        if row.kind == WHOLE {
            break from_json(&row.value)?;
        }
        let made: Made = from_json(&row.value)?;
        at = made.base;
        changes.push(made.difference);
        if changes.len() > rows.len() {
            return Err(corrupt("changes of catalogs go in a circle"));
        }
    };
    let content = changes.iter().rev().try_fold(whole, Catalog::with)?;
    content.check().map_err(|error| corrupt(error.message()))?;
    let (term, epoch) = place;
    match content.epoch == epoch {
        true => Ok(Stored { term, epoch, content }),
        false => Err(corrupt(format_args!("the catalog of epoch {epoch} says that it is {}", content.epoch))),
    }
}

fn promise_of(row: &StoredRow) -> Result<Promise> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = from_json(&row.value)?;
    if format != FORMAT {
        return Err(Error::new(
            ErrorKind::Version,
            format!(
                "what the node has stored of the cluster's catalog has format {format}, and this release reads \
                 format {FORMAT}: upgrade this node"
            ),
        ));
    }
    from_json(&row.value)
}

fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("what the node has stored of the cluster's catalog: {what}"))
}

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::internal(format!("cannot write what is stored of the catalog: {error}")))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_placement::catalog::{Appended, Change, NewTable, Node, NodeState, Publication, Written};
    use hypostyle_placement::partition::Partitioning;
    use hypostyle_placement::term::Ask;
    use hypostyle_placement::{Life, StatementId, Token};
    use hypostyle_storage::Database;
    use hypostyle_types::TableId;
    use uuid::Uuid;

    const OWNER: NodeId = NodeId(Uuid::from_u128(1));

    fn voter() -> Voter<Catalog> {
        Voter { owner: Some(OWNER), ..Voter::new(Term(1), first()) }
    }

    fn begin() -> Change {
        Change::Begin { table: TableId(1), statement: None }
    }

    fn first() -> Catalog {
        with_fragments(64)
    }

    fn with_fragments(fragments: u32) -> Catalog {
        let (name, address) = ("n1".to_string(), "h1:1".to_string());
        let node = Node { id: OWNER, name, address, state: NodeState::Active };
        let catalog = Catalog::new(Uuid::from_u128(9), node).unwrap();
        let table = NewTable::new("main", "t", Partitioning::RoundRobin { fragments }, 1);
        let nodes = vec![vec![OWNER]; fragments as usize];
        catalog.apply(&Change::CreateTable { table, nodes }).unwrap()
    }

    /// A node's database, and what it has stored.
    struct Disk {
        database: Arc<Database>,
        voter: Option<Voter<Catalog>>,
        history: History,
    }

    impl Disk {
        fn new() -> Self {
            Self { database: Database::in_memory().unwrap(), voter: None, history: History::default() }
        }

        fn write(&mut self, voter: Voter<Catalog>) {
            let mut transaction = self.database.begin(1).unwrap().of_statements();
            let next = self.history.write(&mut transaction, self.voter.as_ref(), &voter).unwrap();
            transaction.commit().unwrap();
            (self.voter, self.history) = (Some(voter), next);
        }

        /// Stores the catalog that a change makes, and has it published.
        fn change(&mut self, change: &Change) {
            let mut voter = self.voter.clone().unwrap();
            let content = voter.stored.as_ref().unwrap().content.apply(change).unwrap();
            let (term, epoch) = (content.term, content.epoch);
            let stored = Stored { term, epoch, content };
            voter.receive(&Ask::Store { owner: OWNER, stored });
            self.write(voter.clone());
            voter.receive(&Ask::Publish { term, epoch });
            self.write(voter);
        }

        fn check(&self) {
            let snapshot = self.database.snapshot().unwrap();
            let (voter, history) = load(&snapshot).unwrap();
            assert_eq!(voter, self.voter);
            assert_eq!((history.next, &history.places), (self.history.next, &self.history.places));
            let place = self.voter.as_ref().and_then(|voter| voter.readable.as_ref()).map(Stored::place);
            assert_eq!(readable(&snapshot).unwrap(), place);
        }

        fn rows(&self) -> u64 {
            let snapshot = self.database.snapshot().unwrap();
            snapshot.table(SCHEMA, TABLE).map_or(0, |table| table.rows())
        }
    }

    #[test]
    fn what_was_stored_comes_back() {
        let mut disk = Disk::new();
        disk.check();
        disk.write(voter());
        disk.check();
        for _ in 0..20 {
            disk.change(&begin());
            disk.check();
        }
        // Stored, but not published: by another coordinator, which has not got further.
        let mut voter = disk.voter.clone().unwrap();
        let base = voter.stored.as_ref().unwrap().content.clone();
        let content = base.apply(&Change::Promote { coordinator: OWNER, term: Term(9) }).unwrap();
        voter.receive(&Ask::Promise { term: Term(9), owner: OWNER, known: None });
        disk.write(voter.clone());
        disk.check();
        voter.receive(&Ask::Store {
            owner: OWNER,
            stored: Stored { term: Term(9), epoch: content.epoch, content },
        });
        disk.write(voter.clone());
        disk.check();
        assert_ne!(voter.stored, voter.readable);
        // Somebody without any catalog has promised something.
        let mut other = Disk::new();
        other.write(Voter { promised: Term(3), owner: Some(OWNER), stored: None, readable: None });
        other.check();
    }

    #[test]
    fn that_a_catalog_is_published_may_be_stored_later() {
        let mut disk = Disk::new();
        disk.write(voter());
        for _ in 0..3 {
            let mut voter = disk.voter.clone().unwrap();
            let content = voter.stored.as_ref().unwrap().content.apply(&begin()).unwrap();
            let (term, epoch) = (content.term, content.epoch);
            voter.receive(&Ask::Store { owner: OWNER, stored: Stored { term, epoch, content } });
            disk.write(voter.clone());
            disk.check();
            voter.receive(&Ask::Publish { term, epoch });
            // Readers have it, and the disk does not say so.
            disk.voter = Some(voter);
        }
        let voter = disk.voter.clone().unwrap();
        assert_eq!(voter.stored, voter.readable);
        disk.write(voter);
        disk.check();
    }

    #[test]
    fn a_change_is_stored_as_large_as_it_is_until_a_whole_catalog_is_smaller() {
        let mut disk = Disk::new();
        disk.write(voter());
        let whole = disk.history.whole;
        assert!(whole > 5_000, "{whole}");
        let before = disk.history.changes;
        disk.change(&begin());
        let added = disk.history.changes - before;
        assert!(added < 1500, "{added} bytes for one change");
        let (mut most, mut is_anew) = (0, false);
        while !is_anew {
            let rows = disk.rows();
            disk.change(&begin());
            is_anew = disk.rows() < rows;
            most = most.max(disk.history.changes);
        }
        assert!(most < 2 * CHANGES_BYTES_MIN, "{most}");
        disk.check();
    }

    #[test]
    fn what_an_earlier_release_has_stored_is_taken_over() {
        let mut disk = Disk::new();
        let voter = voter();
        let mut transaction = disk.database.begin(1).unwrap().of_statements();
        state::store(&mut transaction, VOTER, &voter).unwrap();
        transaction.commit().unwrap();
        disk.voter = Some(voter);
        disk.check();
        disk.change(&begin());
        disk.check();
        // The earlier release does not take what is left there for a node without a cluster.
        let snapshot = disk.database.snapshot().unwrap();
        let error = state::load::<Voter<Catalog>>(&snapshot, VOTER).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    /// Returns the rows of the golden file of format 1.
    fn golden() -> Vec<StoredRow> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/cluster-v1/catalog.tsv");
        let lines = std::fs::read_to_string(path).unwrap();
        let row = |line: &str| {
            let [number, kind, term, epoch, value] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("five values: {line}")
            };
            let number_in = |text: &str| text.parse::<u64>().unwrap();
            StoredRow {
                number: number_in(number),
                kind: kind.into(),
                place: (Term(number_in(term)), Epoch(number_in(epoch))),
                value: value.into(),
            }
        };
        lines.lines().map(row).collect()
    }

    #[test]
    fn rows_of_the_first_format_stay_readable() {
        let begun = with_fragments(2).apply(&begin()).unwrap();
        let publication = Publication {
            table: TableId(1),
            token: Token(1),
            statement: StatementId(Uuid::from_u128(7)),
            fragments: vec![Appended {
                number: 0,
                rows: 5,
                deletes: 0,
                replicas: vec![Written { node: OWNER, life: Life(2), base: 0, positions: Some(5) }],
            }],
            found: Vec::new(),
            restarts: Vec::new(),
        };
        let publish = Change::Publish(publication);
        let published = begun.apply(&publish).unwrap();
        let (found, history) = read(&golden()).unwrap();
        let stored = Stored { term: Term(1), epoch: Epoch(4), content: published };
        assert_eq!(found.stored, Some(stored.clone()));
        assert_eq!(found.readable, Some(stored));
        assert_eq!((found.promised, found.owner, history.next), (Term(1), Some(OWNER), 8));
        // This release still writes it.
        let mut disk = Disk::new();
        disk.write(Voter { owner: Some(OWNER), ..Voter::new(Term(1), with_fragments(2)) });
        disk.change(&begin());
        disk.change(&publish);
        assert_eq!(rows(&disk.database.snapshot().unwrap()).unwrap().unwrap(), golden());
    }

    #[test]
    fn rows_that_contradict_each_other_are_refused() {
        let place = |epoch| (Term(1), Epoch(epoch));
        let row = |kind: &str, place, value: String| StoredRow { number: 0, kind: kind.into(), place, value };
        let (before, after) = (first(), first().apply(&begin()).unwrap());
        let change = |base| {
            let difference = Difference::between(&before, &after).unwrap();
            to_json(&Made { base, difference }).unwrap()
        };
        let whole = row(WHOLE, place(2), to_json(&before).unwrap());
        let made = row(CHANGE, place(3), change(place(2)));
        let found = |rows: &[&StoredRow], epoch| {
            catalog(&rows.iter().map(|row| (row.place, *row)).collect(), place(epoch))
        };
        assert_eq!(found(&[&whole, &made], 3).unwrap().content, after);
        let circle = row(CHANGE, place(3), change(place(3)));
        let renamed = row(WHOLE, place(4), to_json(&before).unwrap());
        let cut = row(WHOLE, place(2), "{\"format\":1".into());
        for (rows, epoch, what) in [
            (vec![&made], 3, "missing"),
            (vec![&circle], 3, "circle"),
            (vec![&renamed], 4, "says that it is 2"),
            (vec![&cut, &made], 3, "EOF"),
        ] {
            let error = found(&rows, epoch).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.message().contains(what), "{error}");
        }
        let later = row(PROMISE, place(0), "{\"format\":2,\"more\":[]}".into());
        assert_eq!(promise_of(&later).unwrap_err().kind(), ErrorKind::Version);
    }
}
