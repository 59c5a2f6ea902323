//! One node of a cluster: what it has stored, and its answers to the others.

use crate::change;
use crate::coordinate::Couriers;
use crate::message::{Piece, Reply, Request, Task};
use crate::peers::{Answer, Peers, RowReader, not_here};
use crate::repair::Health;
use crate::state::{self, VOTER};
pub use crate::state::{SCHEMA, batches};
use arrow::array::RecordBatchIterator;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::executor::block_on_stream;
use futures::stream;
use hypostyle_placement::append::{self, Decision, ReplicaState, Source, Write};
use hypostyle_placement::catalog::{Catalog, Table};
use hypostyle_placement::term::{Answer as TermAnswer, Ask, Coordinator, Voter};
use hypostyle_placement::{Epoch, FragmentId, NodeId, Term};
use hypostyle_sql::identifier::quoted;
use hypostyle_storage::{Database, Snapshot, TableData, Transaction};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use parking_lot::{Mutex, RwLock};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use uuid::Uuid;

/// The name of what identifies a node, in what it has stored.
const IDENTITY: &str = "node";

/// The name of the tables of the cluster that a node has made in its database.
const MADE: &str = "tables";

/// What only the engine around a node can do.
pub trait Host: Send + Sync {
    /// Runs a statement that defines something in the node's own database.
    ///
    /// # Errors
    /// Those of the statement.
    fn define(&self, sql: &str) -> Result<()>;

    /// Runs a part of a query.
    ///
    /// # Errors
    /// Those of the plan.
    fn run(&self, node: &Arc<Node>, task: Task) -> Result<SendableRecordBatchStream>;
}

/// A node, for as long as its database is open.
pub struct Node {
    this: Weak<Self>,
    id: NodeId,
    name: String,
    address: String,
    database: Arc<Database>,
    threads: usize,
    pub(crate) peers: Arc<dyn Peers>,
    host: OnceLock<Weak<dyn Host>>,
    voter: Mutex<Option<Voter<Catalog>>>,
    /// The catalog that queries are planned with.
    readable: RwLock<Option<Arc<Catalog>>>,
    pub(crate) coordinator: Mutex<Option<Coordinator>>,
    /// When a change has found no majority the last time.
    pub(crate) alone: Mutex<Option<Instant>>,
    /// Locked by who makes the database fit a catalog.
    fitting: Mutex<()>,
    /// Locked by who writes to what the node has of the cluster, but for rows.
    writing: Mutex<()>,
    /// Locked by who writes rows of a fragment.
    writers: Mutex<BTreeMap<FragmentId, Arc<Mutex<()>>>>,
    pub(crate) couriers: Couriers,
    /// Locked by who copies rows from node to node, on the node that coordinates.
    pub(crate) copying: Mutex<()>,
    /// How the nodes were the last time, on the node that coordinates.
    pub(crate) health: Mutex<BTreeMap<NodeId, Health>>,
    /// Locked by the one writer of a table, on the node that coordinates.
    turns: Mutex<BTreeMap<TableId, Arc<Mutex<()>>>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Node {
    /// Makes a database a node, or goes on with what it has stored as one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open(
        name: &str,
        address: &str,
        database: Arc<Database>,
        threads: usize,
        peers: Arc<dyn Peers>,
    ) -> Result<Arc<Self>> {
        let snapshot = database.snapshot()?;
        let id = match state::load(&snapshot, IDENTITY)? {
            Some(id) => id,
            None => {
                let id = NodeId(Uuid::new_v4());
                let mut transaction = database.begin(threads)?.of_statements();
                state::store(&mut transaction, IDENTITY, &id)?;
                transaction.commit()?;
                id
            }
        };
        let voter: Option<Voter<Catalog>> = state::load(&snapshot, VOTER)?;
        Ok(Arc::new_cyclic(|this| Self {
            this: this.clone(),
            id,
            name: name.into(),
            address: address.into(),
            database,
            threads,
            peers,
            host: OnceLock::new(),
            voter: Mutex::new(voter),
            readable: RwLock::new(None),
            coordinator: Mutex::new(None),
            alone: Mutex::new(None),
            fitting: Mutex::new(()),
            writing: Mutex::new(()),
            writers: Mutex::default(),
            couriers: Couriers::default(),
            copying: Mutex::new(()),
            health: Mutex::default(),
            turns: Mutex::default(),
        }))
    }

    /// Gives the node the engine that it is in, once, and takes over what it knows of its cluster: it
    /// may have ended before it had made all tables.
    ///
    /// # Errors
    /// Those of making tables.
    pub fn bind(&self, host: Weak<dyn Host>) -> Result<()> {
        let _already = self.host.set(host);
        let known = self.voter.lock().as_ref().and_then(|voter| voter.readable.clone());
        known.map_or(Ok(()), |stored| self.take(Arc::new(stored.content)))
    }

    pub(crate) fn host(&self) -> Result<Arc<dyn Host>> {
        self.host.get().and_then(Weak::upgrade).ok_or_else(|| {
            Error::new(ErrorKind::Closed, "the database of this node is closed").with_sqlstate("57P01")
        })
    }

    pub(crate) fn shared(&self) -> Result<Arc<Self>> {
        self.this.upgrade().ok_or_else(|| Error::internal("a node that is gone"))
    }

    /// The node's number, which it has for ever.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where other nodes find it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The database of the node.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The threads that the node works with.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the published catalog that this node knows; `None` for a node that is not part of a
    /// cluster yet.
    pub fn catalog(&self) -> Option<Arc<Catalog>> {
        self.readable.read().clone()
    }

    /// Returns the catalog.
    ///
    /// # Errors
    /// `Unsupported` if the node is not part of a cluster yet.
    pub fn known_catalog(&self) -> Result<Arc<Catalog>> {
        self.catalog().ok_or_else(|| {
            Error::unsupported(format!(
                "node \"{}\" is not part of a cluster yet: ALTER CLUSTER ADD NODE on its coordinator",
                self.name
            ))
        })
    }

    /// Returns the lock of a table's writers: a writer that begins ends those before it.
    pub(crate) fn turn(&self, table: TableId) -> Arc<Mutex<()>> {
        self.turns.lock().entry(table).or_default().clone()
    }

    /// Answers another node, or this one.
    ///
    /// # Errors
    /// Those of what is asked.
    pub fn serve(&self, request: Request, rows: Option<RowReader>) -> Result<Answer> {
        Ok(match request {
            Request::Identify => Answer::Reply(Reply::Identity {
                node: self.id,
                cluster: self.catalog().map(|catalog| catalog.cluster),
                epoch: self.catalog().map_or(Epoch(0), |catalog| catalog.epoch),
                term: self.catalog().map_or(Term(0), |catalog| catalog.term),
            }),
            Request::Ask(ask) => Answer::Reply(Reply::Answer(self.vote(&ask)?.map(Box::new))),
            Request::Append(request) => Answer::Reply(Reply::Appended(self.append_fragment(&request, rows)?)),
            Request::Read { piece, first } => Answer::Rows(self.read(piece, first)?),
            Request::Run(task) => Answer::Rows(self.host()?.run(&self.shared()?, *task)?),
        })
    }

    /// Makes this node one that coordinates a cluster of its own, unless it is in one.
    ///
    /// # Errors
    /// Those of storing it.
    pub fn found_cluster(&self) -> Result<()> {
        let mut voter = self.voter.lock();
        if voter.is_some() {
            return Ok(());
        }
        let own = hypostyle_placement::catalog::Node {
            id: self.id,
            name: self.name.clone(),
            address: self.address.clone(),
            state: hypostyle_placement::catalog::NodeState::Active,
        };
        let catalog = Catalog::new(Uuid::new_v4(), own)?;
        let new = Voter::new(Term(1), catalog.clone());
        self.store_voter(&new)?;
        *voter = Some(new);
        *self.readable.write() = Some(Arc::new(catalog));
        Ok(())
    }

    fn store_voter(&self, voter: &Voter<Catalog>) -> Result<()> {
        let _one = self.writing.lock();
        let mut transaction = self.database.begin(self.threads)?.of_statements();
        state::store(&mut transaction, VOTER, voter)?;
        transaction.commit().map(|_| ())
    }

    /// Changes what the node has stored of catalogs, durably.
    pub(crate) fn with_voter<R>(&self, change: impl FnOnce(&mut Voter<Catalog>) -> Result<R>) -> Result<R> {
        let mut voter = self.voter.lock();
        let none = || Voter { promised: Term(0), owner: None, stored: None, readable: None };
        let mut next = voter.clone().unwrap_or_else(none);
        let result = change(&mut next)?;
        if voter.as_ref() != Some(&next) {
            self.store_voter(&next)?;
            *voter = Some(next);
        }
        Ok(result)
    }

    /// Takes a coordinator's message.
    fn vote(&self, ask: &Ask<Catalog>) -> Result<Option<TermAnswer<Catalog>>> {
        self.check_cluster(ask)?;
        let (answer, readable) = self.with_voter(|voter| {
            let answer = voter.receive(ask);
            Ok((answer, voter.readable.clone()))
        })?;
        if let Some(readable) = readable {
            self.take(Arc::new(readable.content))?;
        }
        Ok(answer)
    }

    /// Refuses the coordinator of another cluster.
    fn check_cluster(&self, ask: &Ask<Catalog>) -> Result<()> {
        if let (Ask::Store { stored, .. }, Some(own)) = (ask, self.catalog())
            && stored.content.cluster != own.cluster
        {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("node \"{}\" is part of another cluster already", self.name),
            ));
        }
        Ok(())
    }

    /// Takes a published catalog over: makes the tables that are new, drops those that are gone, and
    /// shows queries the rest.
    fn take(&self, catalog: Arc<Catalog>) -> Result<()> {
        let _one = self.fitting.lock();
        if self.readable.read().as_ref().is_some_and(|known| known.epoch >= catalog.epoch) {
            return Ok(());
        }
        self.fit(&catalog)?;
        *self.readable.write() = Some(catalog);
        Ok(())
    }

    /// Makes the database fit a catalog. Whatever it has begun and not ended, because the node has
    /// ended meanwhile, it does again.
    fn fit(&self, catalog: &Catalog) -> Result<()> {
        let snapshot = self.database.snapshot()?;
        let mut made: BTreeMap<TableId, String> = state::load(&snapshot, MADE)?.unwrap_or_default();
        let gone = made.iter().filter(|(id, _)| catalog.table(**id).is_none());
        let (gone, names): (Vec<TableId>, Vec<String>) = gone.map(|(id, name)| (*id, name.clone())).unzip();
        if !gone.is_empty() {
            self.drop_fragments(&gone)?;
            for name in names {
                self.host()?.define(&format!("DROP TABLE IF EXISTS {name}"))?;
            }
            made.retain(|id, _| !gone.contains(id));
            self.store_made(&made)?;
        }
        for table in &catalog.tables {
            let is_noted = made.contains_key(&table.id);
            if is_noted && snapshot.table(&table.schema, &table.name).is_some() {
                continue;
            }
            // A table of the same name that is not of the cluster is nobody's to replace.
            if !is_noted && self.database.snapshot()?.table(&table.schema, &table.name).is_some() {
                return Err(self.has_already(table));
            }
            made.insert(table.id, full_name(table));
            self.store_made(&made)?;
            self.host()?.define(&table.definition)?;
        }
        Ok(())
    }

    fn has_already(&self, table: &Table) -> Error {
        Error::new(
            ErrorKind::AlreadyExists,
            format!(
                "node \"{}\" has a table {} of its own, which the cluster has, too: rename or drop it",
                self.name,
                full_name(table)
            ),
        )
    }

    fn store_made(&self, made: &BTreeMap<TableId, String>) -> Result<()> {
        let _one = self.writing.lock();
        let mut transaction = self.database.begin(self.threads)?.of_statements();
        state::store(&mut transaction, MADE, made)?;
        transaction.commit().map(|_| ())
    }

    /// Drops the rows of tables that are gone.
    fn drop_fragments(&self, gone: &[TableId]) -> Result<()> {
        let kept = self.own_fragments()?;
        kept.into_iter().filter(|id| gone.contains(&id.table)).try_for_each(|id| self.drop_fragment(id))
    }

    /// Returns the fragments that this node has rows of.
    pub(crate) fn own_fragments(&self) -> Result<Vec<FragmentId>> {
        let snapshot = self.database.unpinned_snapshot()?;
        let kept = snapshot.catalog().tables.iter().filter(|table| table.schema == state::SCHEMA);
        Ok(kept.filter_map(|table| state::fragment_of(&table.name)).collect())
    }

    /// Drops the rows of a fragment.
    pub(crate) fn drop_fragment(&self, id: FragmentId) -> Result<()> {
        let _one = self.writing.lock();
        let mut transaction = self.database.begin(self.threads)?.of_statements();
        state::drop_fragment(&mut transaction, id)?;
        transaction.commit().map(|_| ())
    }

    /// Returns the rows of a fragment that a reader sees: those of a snapshot, if it has them already.
    /// Only tables of one snapshot have indexes together.
    ///
    /// # Errors
    /// `Conflict` (55000) if the node has others than were published: it has lost some, or its replica
    /// was dropped since and made again.
    pub fn fragment(
        &self,
        snapshot: &Arc<Snapshot>,
        piece: Piece,
        like: &Arc<TableData>,
    ) -> Result<(Arc<Snapshot>, Arc<TableData>)> {
        if let Ok(found) = self.fragment_in(snapshot, piece, like) {
            return Ok((snapshot.clone(), found));
        }
        let snapshot = self.database.snapshot()?;
        let found = self.fragment_in(&snapshot, piece, like)?;
        Ok((snapshot, found))
    }

    fn fragment_in(
        &self,
        snapshot: &Snapshot,
        piece: Piece,
        like: &Arc<TableData>,
    ) -> Result<Arc<TableData>> {
        let Piece { fragment, positions, rows } = piece;
        let Some(table) = state::fragment(snapshot, fragment) else {
            // It has never had rows.
            return match positions {
                0 => Ok(like.with_views()),
                _ => Err(self.lacks(piece, 0, 0)),
            };
        };
        let there = table.positions();
        let first = state::seen(snapshot, &table, fragment, positions)?;
        // Those behind the positions count as deleted.
        let found = there.saturating_sub(first.deleted().len());
        match there >= positions && found == rows {
            true => Ok(first.with_views()),
            false => Err(self.lacks(piece, there, found)),
        }
    }

    fn lacks(&self, piece: Piece, positions: u64, rows: u64) -> Error {
        not_here(format!(
            "node \"{}\" has {rows} rows in {positions} positions of fragment {}, but {} in {} were published",
            self.name, piece.fragment, piece.rows, piece.positions
        ))
    }

    /// Appends the rows of a request to a fragment, if it may.
    fn append_fragment(&self, request: &append::Request, rows: Option<RowReader>) -> Result<append::Reply> {
        let catalog = self.known_catalog()?;
        let table = catalog.table(request.fragment.table).ok_or_else(|| {
            not_here(format!("node \"{}\" has no table {}", self.name, request.fragment.table))
        })?;
        let term = self.voter.lock().as_ref().map_or(Term(0), |voter| voter.promised);
        // Rows may come slowly: meanwhile others write to other fragments.
        let fragment = self.writers.lock().entry(request.fragment).or_default().clone();
        let _one = fragment.lock();
        let snapshot = self.database.snapshot()?;
        let name = state::replica(request.fragment);
        let replica: ReplicaState = state::load(&snapshot, &name)?.unwrap_or_default();
        let write = match replica.receive(request, term) {
            Decision::Answer(reply) => return Ok(reply),
            Decision::Write(write) => write,
        };
        let like = snapshot.table(&table.schema, &table.name).ok_or_else(|| {
            Error::internal(format!("node \"{}\" has not made table \"{}\"", self.name, table.name))
        })?;
        let id = self.ensure_fragment(request.fragment, like)?;
        let mut transaction = self.database.begin(self.threads)?.of_statements();
        let rows = match request.source {
            Source::Statement(_) => rows,
            Source::Replica { node, first, positions } => {
                let piece =
                    Piece { fragment: request.fragment, positions, rows: first.saturating_add(request.rows) };
                self.copied(&catalog, node, piece, first).map(Some)?
            }
        };
        self.write_rows(&mut transaction, (id, request.fragment), &write, rows)?;
        state::store(&mut transaction, &name, &write.next)?;
        let after = transaction.commit()?;
        let found = after.table_by_id(id).map(|table| table.positions());
        if found != Some(write.next.positions) {
            return Err(Error::internal(format!(
                "fragment {} has {found:?} positions after an append that makes {}",
                request.fragment, write.next.positions
            )));
        }
        Ok(write.reply)
    }

    /// Returns the table of a fragment, which is made if it is missing.
    fn ensure_fragment(&self, fragment: FragmentId, like: &TableData) -> Result<TableId> {
        let _one = self.writing.lock();
        let mut transaction = self.database.begin(self.threads)?.of_statements();
        let id = state::ensure_fragment(&mut transaction, fragment, like)?;
        transaction.commit()?;
        Ok(id)
    }

    /// Returns the rows that a replica of another node has.
    fn copied(&self, catalog: &Catalog, from: NodeId, piece: Piece, first: u64) -> Result<RowReader> {
        let member = catalog.node(from).ok_or_else(|| crate::coordinate::gone(from))?;
        let rows = self.peers.call(member, &Request::Read { piece, first }, None)?.rows()?;
        let schema = rows.schema();
        let rows = block_on_stream(rows)
            .map(|batch| batch.map_err(|error| ArrowError::ExternalError(Box::new(error))));
        Ok(Box::new(RecordBatchIterator::new(rows, schema)))
    }

    /// Returns the rows of a replica.
    fn read(&self, piece: Piece, first: u64) -> Result<SendableRecordBatchStream> {
        let catalog = self.known_catalog()?;
        let snapshot = self.database.snapshot()?;
        let (_, table) = crate::task::rows_of(&self.shared()?, &catalog, &snapshot, piece)?;
        let fields = table.columns().iter();
        let fields = fields.map(|column| column.entry().logical_type.arrow_field(&column.entry().name, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let first_position = nth_row(&table, first);
        let rows = state::batches(table, first_position..piece.positions, self.threads);
        let rows = rows.map(|batch| batch.map_err(hypostyle_error::external));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(rows))))
    }

    fn write_rows(
        &self,
        transaction: &mut Transaction,
        (id, fragment): (TableId, FragmentId),
        write: &Write,
        rows: Option<RowReader>,
    ) -> Result<()> {
        // What the catalog knows of the fragment.
        let base = transaction.base().clone();
        let published = base.table_by_id(id).map(|table| state::seen(&base, table, fragment, write.base));
        let published = published.transpose()?;
        if !write.delete.is_empty() {
            let mut positions = RoaringTreemap::new();
            positions.insert_range(write.delete.clone());
            // Some may be deleted already: a statement before this one has failed, too.
            if let Some(table) = base.table_by_id(id) {
                positions -= table.deleted();
            }
            transaction.delete(id, &positions)?;
        }
        state::forget_deletions(transaction, fragment, write.base)?;
        let (mut count, mut places) = (0, RoaringTreemap::new());
        for batch in rows.into_iter().flatten() {
            let batch = batch.map_err(|error| {
                Error::new(ErrorKind::Connection, format!("rows of a statement: {error}"))
            })?;
            match change::part_of(&batch, write.deletes > 0)? {
                change::Part::Places(more) => places.extend(more),
                change::Part::Rows(rows) => {
                    count += rows.num_rows() as u64;
                    transaction.append(id, &rows)?;
                }
            }
        }
        let mut deleted =
            published.as_ref().map(|table| change::positions_at(table, &places)).unwrap_or_default();
        if count != write.rows || deleted.len() != write.deletes {
            return Err(Error::new(
                ErrorKind::Connection,
                format!(
                    "a statement of {} new rows and {} deleted ones came with {count} and {}",
                    write.rows,
                    write.deletes,
                    deleted.len()
                ),
            )
            .with_sqlstate("08P01"));
        }
        if let (true, Some(table), Some(any)) = (write.is_filled, &published, deleted.min()) {
            // The readers that see no deleted row do not see this one either.
            deleted.insert(change::fill(transaction, table, any)?);
        }
        if write.deletes > 0 {
            state::note_deletions(transaction, fragment, write.next.positions, &deleted)?;
        }
        Ok(())
    }
}

/// Returns the quoted name of a table.
fn full_name(table: &Table) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.name))
}

/// Returns the position of a row that is counted without deleted ones.
fn nth_row(table: &TableData, mut row: u64) -> u64 {
    for deleted in table.deleted() {
        if deleted > row {
            break;
        }
        row += 1;
    }
    row
}
