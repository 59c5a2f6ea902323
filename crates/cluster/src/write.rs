//! Rows of statements, and of other replicas, reach the fragments of this node: those of one request in
//! one transaction.

use crate::change;
use crate::message::{Piece, Request};
use crate::node::Node;
use crate::rows::RowReader;
use crate::state;
use arrow::array::{RecordBatch, RecordBatchIterator, UInt64Array};
use arrow::error::ArrowError;
use futures::executor::block_on_stream;
use hypostyle_placement::append::{self, Decision, ReplicaState, Source, Write};
use hypostyle_placement::{Epoch, FragmentId};
use hypostyle_storage::{Budget, Snapshot, TableData, Transaction};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most tables that a transaction makes: each of them has a lock, which is an open file, until its end.
const TABLES_AT_ONCE: usize = 128;

/// When the rows of a fragment have more bytes than this, the transaction closes its files before it
/// writes to the next one.
const FILES_KEPT_BYTES: usize = 64 << 10;

impl Node {
    /// Appends the rows of requests to fragments of one table, where it may, in one transaction. The rows
    /// come in the order of the requests; if they have only some columns, they are those that are deleted,
    /// with other values.
    ///
    /// # Errors
    /// `Connection` (08P01) for other rows than were announced; those of the database. Then nothing was
    /// appended.
    pub(crate) fn append_to_fragments(
        &self,
        requests: &[append::Request],
        altered: Epoch,
        columns: Option<&[usize]>,
        rows: Option<RowReader>,
    ) -> Result<Vec<append::Reply>> {
        let Some(first) = requests.first() else { return Ok(Vec::new()) };
        let table = first.fragment.table;
        // Rows may come slowly: meanwhile others write to other fragments. The order is one for all, so
        // that no two wait for each other.
        let locks: BTreeMap<FragmentId, Arc<Mutex<()>>> = {
            let mut writers = self.writers.lock();
            requests.iter().map(|of| (of.fragment, writers.entry(of.fragment).or_default().clone())).collect()
        };
        if locks.len() != requests.len() || locks.keys().any(|fragment| fragment.table != table) {
            return Err(wrong("a request to append names a fragment twice, or several tables".into()));
        }
        let _mine: Vec<_> = locks.values().map(|lock| lock.lock()).collect();
        self.drop_earlier_lives(requests)?;
        let decisions = self.decide(requests)?;
        let writes = || {
            decisions.iter().zip(requests).filter_map(|(decision, request)| match decision {
                Decision::Write(write) => Some((request, write)),
                Decision::Answer(_) => None,
            })
        };
        if writes().next().is_none() {
            return Ok(decisions.into_iter().map(reply_of).collect());
        }
        self.ensure_tables(&writes().map(|(request, _)| *request).collect::<Vec<_>>(), altered)?;
        let mut transaction = self.database().begin(self.threads())?.of_statements();
        self.made_in(&transaction.base().clone(), table, altered)?;
        let mut arriving = Arriving {
            rows: self.rows_of(requests, altered, rows)?,
            rest: None,
            have_places: requests.iter().any(|request| request.deletes > 0),
        };
        let mut states = BTreeMap::new();
        for (decision, request) in decisions.iter().zip(requests) {
            match decision {
                Decision::Answer(_) => arriving.skip(request)?,
                Decision::Write(write) => {
                    let columns = columns.map(<[usize]>::to_vec);
                    self.write_rows(&mut transaction, request.fragment, write, &mut arriving, columns)?;
                    states.insert(state::replica(request.fragment), write.next);
                }
            }
        }
        arriving.end()?;
        self.stored.store_all(&mut transaction, &states)?;
        let after = transaction.commit()?;
        for (request, write) in writes() {
            let found = state::fragment(&after, request.fragment).map(|table| table.positions());
            if found != Some(write.next.positions) {
                return Err(Error::internal(format!(
                    "{} has {found:?} positions after an append that makes {}",
                    request.fragment, write.next.positions
                )));
            }
        }
        Ok(decisions.into_iter().map(reply_of).collect())
    }

    /// Drops what the node has of fragments whose replicas begin anew: none of it is published any more, and
    /// it would stay in front of the new rows. A replica of no positions has a later life only where the
    /// catalog has forgotten what it had.
    fn drop_earlier_lives(&self, requests: &[append::Request]) -> Result<()> {
        let term = self.promised();
        let anew = || requests.iter().filter(|request| request.base == 0 && request.term >= term);
        let names: BTreeSet<String> = anew().map(|request| state::replica(request.fragment)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let known = self.stored.load_all::<ReplicaState>(&*self.database().snapshot()?, &names)?;
        let is_earlier = |request: &&append::Request| {
            let replica = known.get(&state::replica(request.fragment));
            replica.is_some_and(|replica| replica.life < request.life && replica.positions > 0)
        };
        let earlier: BTreeSet<FragmentId> =
            anew().filter(is_earlier).map(|request| request.fragment).collect();
        if earlier.is_empty() { Ok(()) } else { self.drop_fragments(&earlier) }
    }

    /// Decides what becomes of each request, by what is stored of its replica.
    fn decide(&self, requests: &[append::Request]) -> Result<Vec<Decision>> {
        let term = self.promised();
        let names = requests.iter().map(|request| state::replica(request.fragment)).collect();
        let known = self.stored.load_all::<ReplicaState>(&*self.database().snapshot()?, &names)?;
        let decide = |request: &append::Request| {
            let replica = known.get(&state::replica(request.fragment)).copied().unwrap_or_default();
            replica.receive(request, term)
        };
        Ok(requests.iter().map(decide).collect())
    }

    /// Makes the tables that are missing of what some requests write to. Without rows they change nothing.
    fn ensure_tables(&self, requests: &[append::Request], altered: Epoch) -> Result<()> {
        // Most often there are none, and nobody waits for a catalog that is being stored.
        if missing(&*self.database().unpinned_snapshot()?, requests).is_empty() {
            return Ok(());
        }
        let _one = self.writing.lock();
        let missing = missing(&*self.database().unpinned_snapshot()?, requests);
        for some in missing.chunks(TABLES_AT_ONCE) {
            let mut transaction = self.database().begin(self.threads())?.of_statements();
            let base = transaction.base().clone();
            state::ensure_schema(&mut transaction)?;
            for (request, is_of_deletions) in some {
                let fragment = request.fragment;
                if *is_of_deletions {
                    state::make_deletions(&mut transaction, fragment)?;
                    continue;
                }
                let made = self.made_in(&base, fragment.table, altered)?;
                let like = made.shell(&base).ok_or_else(|| {
                    Error::internal(format!("node \"{}\" has not made table {}", self.name(), fragment.table))
                })?;
                state::make_fragment(&mut transaction, fragment, like, request.life)?;
            }
            transaction.commit()?;
        }
        Ok(())
    }

    /// Returns where the rows of requests come from: the statement, with which they travel, or another
    /// replica.
    fn rows_of(
        &self,
        requests: &[append::Request],
        altered: Epoch,
        sent: Option<RowReader>,
    ) -> Result<Option<RowReader>> {
        let is_copied = |request: &append::Request| matches!(request.source, Source::Replica { .. });
        let [request] = requests else {
            return match requests.iter().any(is_copied) {
                true => Err(wrong("rows of several fragments are copied by one request".into())),
                false => Ok(sent),
            };
        };
        let Source::Replica { node, life, first, positions } = request.source else { return Ok(sent) };
        let rows = first.saturating_add(request.rows);
        let piece = Piece { fragment: request.fragment, positions, rows, life, altered };
        let catalog = self.known_catalog()?;
        let member = catalog.node(node).ok_or_else(|| crate::coordinate::gone(node))?;
        let rows = self.call(member, Request::Read { piece, first }, None)?.rows()?;
        let schema = rows.schema();
        let rows = block_on_stream(rows)
            .map(|batch| batch.map_err(|error| ArrowError::ExternalError(Box::new(error))));
        Ok(Some(Box::new(RecordBatchIterator::new(rows, schema))))
    }

    /// Writes the rows of one request in a transaction.
    fn write_rows(
        &self,
        transaction: &mut Transaction,
        fragment: FragmentId,
        write: &Write,
        arriving: &mut Arriving,
        columns: Option<Vec<usize>>,
    ) -> Result<()> {
        let base = transaction.base().clone();
        let dropped =
            || Error::new(ErrorKind::Conflict, format!("the rows of {fragment} were dropped meanwhile"));
        let table = state::fragment(&base, fragment).ok_or_else(dropped)?;
        let id = table.entry().id;
        // What the catalog knows of the fragment.
        let published = state::seen(&base, &table, fragment, write.base)?;
        if !write.delete.is_empty() {
            let mut positions = RoaringTreemap::new();
            positions.insert_range(write.delete.clone());
            // Some may be deleted already: a statement before this one has failed, too.
            positions -= table.deleted();
            transaction.delete(id, &positions)?;
        }
        state::forget_deletions(transaction, fragment, write.base)?;
        let mut updated = columns.map(|columns| Updated::new(published.clone(), columns, self.threads()));
        let places = arriving.append(transaction, id, (write.rows, write.deletes), updated.as_mut())?;
        let mut deleted = change::positions_at(&published, &places);
        if deleted.len() != write.deletes {
            return Err(wrong(format!(
                "a statement deletes {} rows of {fragment}, and {} of them are there",
                write.deletes,
                deleted.len()
            )));
        }
        if let (true, Some(any)) = (write.is_filled, deleted.min()) {
            // The readers that see no deleted row do not see this one either.
            deleted.insert(change::fill(transaction, &published, any)?);
        }
        if write.deletes > 0 {
            state::note_deletions(transaction, fragment, write.next.positions, &deleted)?;
        }
        Ok(())
    }
}

/// Returns the requests for which a table is missing of what they write to: that of a fragment, or, if true,
/// that of its deletions.
fn missing<'a>(base: &Snapshot, requests: &'a [append::Request]) -> Vec<(&'a append::Request, bool)> {
    let fragments = requests.iter().map(|of| (state::fragment_table(of.fragment), (of, false)));
    let deletions = requests.iter().filter(|of| of.deletes > 0);
    let deletions = deletions.map(|of| (state::deletions_table(of.fragment), (of, true)));
    let mut missing: BTreeMap<String, _> = fragments.chain(deletions).collect();
    for table in base.catalog().tables.iter().filter(|table| table.schema == state::SCHEMA) {
        missing.remove(&table.name);
    }
    missing.into_values().collect()
}

fn reply_of(decision: Decision) -> append::Reply {
    match decision {
        Decision::Answer(reply) => reply,
        Decision::Write(write) => write.reply,
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Connection, message).with_sqlstate("08P01")
}

/// Appends the rows of a statement of another node to a table in a transaction, and returns the places of
/// those that it deletes.
pub(crate) fn stage(
    transaction: &mut Transaction,
    id: TableId,
    rows: Option<RowReader>,
    have_places: bool,
) -> Result<RoaringTreemap> {
    let mut arriving = Arriving { rows, rest: None, have_places };
    let mut places = RoaringTreemap::new();
    while let Some(batch) = arriving.next(u64::MAX)? {
        match change::part_of(&batch, have_places)? {
            change::Part::Places(more) => places.extend(more),
            change::Part::Rows(batch) => transaction.append(id, &batch)?,
        }
    }
    Ok(places)
}

/// Appends the rows of a statement of another node to several tables in a transaction, each with so many
/// columns, and returns the places of those that it deletes of each.
pub(crate) fn stage_tables(
    transaction: &mut Transaction,
    tables: &[(TableId, usize)],
    rows: Option<RowReader>,
) -> Result<Vec<RoaringTreemap>> {
    let widths: Vec<usize> = tables.iter().map(|(_, columns)| *columns).collect();
    let mut arriving = Arriving { rows, rest: None, have_places: true };
    let mut places = vec![RoaringTreemap::new(); tables.len()];
    while let Some(batch) = arriving.next(u64::MAX)? {
        if batch.num_rows() == 0 {
            continue;
        }
        let (number, part) = change::part_of_tables(&batch, &widths)?;
        match (part, places.get_mut(number), tables.get(number)) {
            (change::Part::Places(more), Some(places), _) => places.extend(more),
            (change::Part::Rows(batch), _, Some((id, _))) => transaction.append(*id, &batch)?,
            _ => {
                return Err(wrong(format!(
                    "a statement came with rows of table {number} of {}",
                    tables.len()
                )));
            }
        }
    }
    Ok(places)
}

/// Returns the places of the rows that a statement of another node updates, and their new values.
pub(crate) fn read_values(
    rows: Option<RowReader>,
    memory: &dyn Budget,
) -> Result<(RoaringTreemap, Vec<RecordBatch>)> {
    let mut arriving = Arriving { rows, rest: None, have_places: true };
    let (mut places, mut values) = (RoaringTreemap::new(), Vec::new());
    while let Some(batch) = arriving.next(u64::MAX)? {
        match change::part_of(&batch, true)? {
            change::Part::Places(more) => places.extend(more),
            change::Part::Rows(batch) => {
                memory.take(batch.get_array_memory_size() as u64)?;
                values.push(batch);
            }
        }
    }
    Ok((places, values))
}

/// Rows of a fragment that get new values in some columns.
struct Updated {
    table: Arc<TableData>,
    columns: Vec<usize>,
    threads: usize,
    /// The positions of the rows, in their order, once their places are known.
    positions: Option<Vec<u64>>,
    /// How many of them have their values.
    done: usize,
}

impl Updated {
    fn new(table: Arc<TableData>, columns: Vec<usize>, threads: usize) -> Self {
        Self { table, columns, threads, positions: None, done: 0 }
    }

    /// Returns whole rows: the next ones of those at some places, with new values.
    fn complete(&mut self, places: &RoaringTreemap, values: &RecordBatch) -> Result<RecordBatch> {
        let others = || wrong("a statement came with other values than of the rows that it updates".into());
        let table = &self.table;
        let positions =
            self.positions.get_or_insert_with(|| change::positions_at(table, places).iter().collect());
        let next = self.done.saturating_add(values.num_rows());
        let own = positions.get(self.done..next).ok_or_else(others)?;
        let before = state::batch_at(table, &UInt64Array::from(own.to_vec()), self.threads)?;
        self.done = next;
        if self.columns.len() != values.num_columns() {
            return Err(others());
        }
        let mut columns = before.columns().to_vec();
        for (place, values) in self.columns.iter().zip(values.columns()) {
            columns.get_mut(*place).ok_or_else(others)?.clone_from(values);
        }
        let schema = before.schema();
        let names = schema.fields().iter().map(|field| field.name());
        RecordBatch::try_from_iter_with_nullable(
            names.zip(columns).map(|(name, values)| (name, values, true)),
        )
        .map_err(|error| wrong(format!("a statement came with values of other columns: {error}")))
    }
}

/// The rows of several requests on their way, one after the other.
struct Arriving {
    rows: Option<RowReader>,
    /// What has come and is not taken yet.
    rest: Option<RecordBatch>,
    /// Places of deleted rows come, too, in a column of their own.
    have_places: bool,
}

impl Arriving {
    /// Returns the next rows, at most so many; `None` if there are no more.
    fn next(&mut self, most: u64) -> Result<Option<RecordBatch>> {
        let mut batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.rows.as_mut().and_then(Iterator::next) {
                Some(batch) => batch.map_err(|error| {
                    Error::new(ErrorKind::Connection, format!("rows of a statement: {error}"))
                })?,
                None => return Ok(None),
            },
        };
        let (count, all) = (usize::try_from(most).unwrap_or(usize::MAX), batch.num_rows());
        if count < all {
            self.rest = Some(batch.slice(count, all - count));
            batch = batch.slice(0, count);
        }
        Ok(Some(batch))
    }

    /// Appends the rows of one request to a table, and returns the places of those that it deletes.
    fn append(
        &mut self,
        transaction: &mut Transaction,
        id: TableId,
        (rows, deletes): (u64, u64),
        mut updated: Option<&mut Updated>,
    ) -> Result<RoaringTreemap> {
        let (mut rows_left, mut places_left) = (rows, deletes);
        let (mut places, mut bytes) = (RoaringTreemap::new(), 0_usize);
        while (rows_left, places_left) != (0, 0) {
            let most = if places_left > 0 { places_left } else { rows_left };
            let other = || {
                wrong(format!(
                    "a statement of {rows} new rows and {deletes} deleted ones came with others: {rows_left} and \
                     {places_left} are missing"
                ))
            };
            let Some(batch) = self.next(most)? else { return Err(other()) };
            match change::part_of(&batch, self.have_places)? {
                change::Part::Places(more) => {
                    places_left = places_left.checked_sub(more.len() as u64).ok_or_else(other)?;
                    places.extend(more);
                }
                change::Part::Rows(batch) => {
                    rows_left = rows_left.checked_sub(batch.num_rows() as u64).ok_or_else(other)?;
                    let batch = match &mut updated {
                        Some(updated) => updated.complete(&places, &batch)?,
                        None => batch,
                    };
                    bytes = bytes.saturating_add(batch.get_array_memory_size());
                    transaction.append(id, &batch)?;
                }
            }
        }
        if bytes > FILES_KEPT_BYTES {
            transaction.close_files()?;
        }
        Ok(places)
    }

    /// Leaves out what comes for a request that is refused, or was written before.
    fn skip(&mut self, request: &append::Request) -> Result<()> {
        let mut left = request.rows.saturating_add(request.deletes);
        while left > 0 {
            let Some(batch) = self.next(left)? else { break };
            left = left.saturating_sub(batch.num_rows() as u64);
        }
        Ok(())
    }

    /// Checks that no more rows come than were announced.
    fn end(&mut self) -> Result<()> {
        while let Some(batch) = self.next(1)? {
            if batch.num_rows() > 0 {
                return Err(wrong("a statement came with more rows than were announced".into()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::ArrayRef;
    use hypostyle_storage::{Database, NewColumn};
    use hypostyle_types::LogicalType;

    fn batch(values: std::ops::Range<u64>) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(UInt64Array::from_iter_values(values)) as ArrayRef)])
            .unwrap()
    }

    fn arriving(batches: Vec<RecordBatch>) -> Arriving {
        let schema = batches[0].schema();
        let rows = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        Arriving { rows: Some(Box::new(rows)), rest: None, have_places: false }
    }

    #[test]
    fn rows_of_several_requests_are_told_apart_by_their_numbers() {
        let database = Database::in_memory().unwrap();
        let mut transaction = database.begin(1).unwrap().of_statements();
        let mut make = |name| {
            let column = NewColumn::new("a", LogicalType::UBigInt, true);
            transaction.create_table("main", name, vec![column]).unwrap()
        };
        let (one, other) = (make("one"), make("other"));
        let places = |of: &[u64]| of.iter().copied().collect::<RoaringTreemap>();
        let of_fragment = |rows: Vec<RecordBatch>, deleted: &[u64]| change::OfFragment {
            rows: Box::new(rows.into_iter().map(Ok)),
            deleted: places(deleted),
        };
        let fragments = vec![
            of_fragment(vec![batch(0..3), batch(3..4)], &[7, 9]),
            of_fragment(Vec::new(), &[1]),
            of_fragment(vec![batch(4..6)], &[]),
        ];
        let sent = change::to_send(&batch(0..1).schema(), fragments);
        let mut rows = Arriving { rows: Some(sent), rest: None, have_places: true };
        assert_eq!(rows.append(&mut transaction, one, (4, 2), None).unwrap(), places(&[7, 9]));
        assert_eq!(rows.append(&mut transaction, other, (0, 1), None).unwrap(), places(&[1]));
        assert_eq!(rows.append(&mut transaction, other, (2, 0), None).unwrap(), places(&[]));
        rows.end().unwrap();
        let snapshot = transaction.snapshot().unwrap();
        let count = |id| snapshot.table_by_id(id).unwrap().positions();
        assert_eq!((count(one), count(other)), (4, 2));
        // One batch may have the rows of several.
        let mut rows = arriving(vec![batch(0..5), batch(5..7)]);
        rows.append(&mut transaction, one, (2, 0), None).unwrap();
        rows.append(&mut transaction, other, (4, 0), None).unwrap();
        let error = rows.end().unwrap_err();
        assert!(error.message().contains("more rows"), "{error}");
        let mut rows = arriving(vec![batch(0..5)]);
        let error = rows.append(&mut transaction, one, (6, 0), None).unwrap_err();
        assert_eq!(error.sqlstate(), "08P01", "{error}");
    }
}
