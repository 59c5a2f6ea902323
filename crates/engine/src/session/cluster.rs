//! The node of a cluster that a database is: what it has its engine do, and how statements reach
//! tables of the cluster.

use super::outcome::DONE;
use super::run::{ClusterChanges, Run};
use super::transaction::Explicit;
use super::{CallAnswer, Calls, Engine, Outcome, Session, take_environment};
use arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, BoxStream};
use hypostyle_catalog::scope::{Name, OWN_DATABASE, Scope};
use hypostyle_cluster::change::{self, Changes, Rows, Seen};
use hypostyle_cluster::forward::has_same_rows;
use hypostyle_cluster::message::{self, StageTask, Task, TaskRows};
use hypostyle_cluster::node::{Host, Node, References, SCHEMA as NODE_SCHEMA};
use hypostyle_cluster::peers::Answer;
use hypostyle_cluster::stages::Stages;
use hypostyle_cluster::task;
use hypostyle_error::from_datafusion;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::work::Work;
use hypostyle_placement::Epoch;
use hypostyle_placement::catalog::{Additions, Altered, Catalog, Change, Table};
use hypostyle_sql::kind::Kind;
use hypostyle_storage::{
    Budget, Catalog as Definitions, Database, SequenceEntry, TableData, TableEntry, Transaction, ViewEntry,
};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Identity, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

/// The node that an engine's database is.
pub(crate) struct ClusterNode {
    pub node: Arc<Node>,
    /// What works for it. That has a session, which keeps the engine: so whoever has the database open keeps
    /// it, and other sessions, while the engine and the node know it weakly.
    pub host: Weak<dyn Host>,
}

struct EngineHost {
    engine: Weak<Engine>,
    session: OnceLock<Arc<Session>>,
    /// The memory and disk that the session has.
    environment: Mutex<Option<Arc<RuntimeEnv>>>,
    /// The tasks of queries' stages that the node runs.
    stages: Arc<Stages>,
}

impl ClusterNode {
    /// Gives a node its engine, and returns what works for it as well.
    ///
    /// # Errors
    /// Those of making tables.
    pub fn new(engine: &Arc<Engine>, node: Arc<Node>) -> Result<(Self, Arc<dyn Host>)> {
        // A program may answer calls itself.
        let _already = engine.set_calls(Arc::new(NodeCalls(node.clone())));
        let host: Arc<dyn Host> = Arc::new(EngineHost {
            engine: Arc::downgrade(engine),
            session: OnceLock::new(),
            environment: Mutex::default(),
            stages: Arc::default(),
        });
        let known = Arc::downgrade(&host);
        node.bind(known.clone())?;
        Ok((Self { node, host: known }, host))
    }
}

impl EngineHost {
    /// Returns the session, with the limits that hold now: it stays open for as long as the node does.
    fn session(&self) -> Result<&Arc<Session>> {
        let session = self.begun()?;
        let now = session.engine.shared_environment();
        let mut known = self.environment.lock();
        if known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &now)) {
            take_environment(&session.engine, &session.context, &session.spare_state);
            *known = Some(now);
        }
        Ok(session)
    }

    fn begun(&self) -> Result<&Arc<Session>> {
        if let Some(session) = self.session.get() {
            return Ok(session);
        }
        let engine = self.engine.upgrade().ok_or_else(|| Error::internal("a node without its engine"))?;
        let session = Session::begun(engine, Identity::default(), true)?;
        Ok(self.session.get_or_init(|| session))
    }
}

impl Host for EngineHost {
    fn make_table(
        &self,
        transaction: &mut Transaction,
        name: (&str, &str),
        definition: &str,
        additions: &Additions,
    ) -> Result<References> {
        let session = self.session()?.clone();
        let made = session.definer().make_distributed(transaction, name, definition, additions)?;
        Ok(Box::new(move |transaction: &mut Transaction| {
            session.definer().complete_distributed(transaction, &made)
        }))
    }

    fn run(&self, node: &Arc<Node>, task: Task) -> Result<SendableRecordBatchStream> {
        let session = self.session()?;
        // Operators begin to work on the engine's threads.
        let workers = session.engine.runtime.handle()?;
        let _context = workers.enter();
        let meter = Meter::new(&session.engine.ledger);
        let mut state = session.context.state();
        state.config_mut().set_extension(meter.clone());
        // Threads that compute end when the rows are dropped.
        Work::rows(&meter, || task::run(node, &task, state)).map_err(from_datafusion)
    }

    fn begin(&self, node: &Arc<Node>, task: StageTask) -> Result<SendableRecordBatchStream> {
        let session = self.session()?;
        let mut state = session.context.state();
        state.config_mut().set_extension(Meter::new(&session.engine.ledger));
        Ok(self.stages.held(node, task, state))
    }

    fn rows(&self, asked: TaskRows) -> Result<SendableRecordBatchStream> {
        Ok(self.stages.sent(asked))
    }

    fn own_rows(&self, asked: TaskRows) -> BoxStream<'static, datafusion::error::Result<RecordBatch>> {
        self.stages.taken(asked)
    }

    fn memory(&self) -> Result<Box<dyn Budget>> {
        Ok(Box::new(self.session()?.hold("rows of a statement of another node", 0)?))
    }
}

/// Answers the calls of other nodes.
struct NodeCalls(Arc<Node>);

impl Calls for NodeCalls {
    fn call(
        &self,
        _: &Session,
        request: &[u8],
        rows: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer> {
        let asked = message::decode_addressed(request)?;
        Ok(match self.0.answer(asked, rows)? {
            Answer::Reply(reply) => {
                let bytes = message::encode(&reply)?;
                match bytes.len() > message::MESSAGE_BYTES_MAX {
                    true => CallAnswer::Rows(in_rows(&bytes)?),
                    false => CallAnswer::Reply(bytes),
                }
            }
            Answer::Rows(stream) => CallAnswer::Rows(Outcome::Stream { schema: stream.schema(), stream }),
        })
    }
}

/// Returns a long reply as rows.
fn in_rows(bytes: &[u8]) -> Result<Outcome> {
    let rows = message::to_rows(bytes)?;
    let schema = rows.schema();
    let rows = stream::iter(rows.map(|batch| batch.map_err(DataFusionError::from)));
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), rows));
    Ok(Outcome::Stream { schema, stream })
}

/// What a transaction has done to a cluster's tables.
#[derive(Default)]
struct OfCluster {
    /// Rows were appended or deleted.
    written: Vec<TableId>,
    dropped: Vec<TableId>,
    altered: Vec<TableId>,
    /// Tables that are no more of the cluster were written to, too.
    others: bool,
}

impl OfCluster {
    fn is_nothing(&self) -> bool {
        self.written.is_empty() && self.dropped.is_empty() && self.altered.is_empty()
    }

    /// Returns how many tables of the cluster are defined.
    ///
    /// # Errors
    /// `Unsupported` for more than one, and for other changes beside it, which are not published at once.
    fn defined(&self) -> Result<usize> {
        let defined = self.dropped.len() + self.altered.len();
        if self.others || defined > 1 || (defined > 0 && !self.written.is_empty()) {
            return Err(Error::unsupported(
                "a statement defines one table of the cluster, or changes rows of such tables, and no others",
            ));
        }
        Ok(defined)
    }
}

/// Waits until the node reads a state of the cluster, by its number or the latest one: then all
/// statements that follow see what was written by then. A database that is no node has written nothing
/// elsewhere.
///
/// # Errors
/// `Connection` (57P03) if the node has not come to know it after some time; `Unsupported` in a
/// transaction, which reads the state of its beginning.
pub(crate) fn wait_for_cluster(
    node: Option<&Arc<Node>>,
    is_in_transaction: bool,
    epoch: &str,
) -> Result<Outcome> {
    let wrong =
        |_| Error::invalid_input(format!("cluster_epoch is the number of a state, or latest, not '{epoch}'"));
    let epoch: Option<u64> = match epoch.eq_ignore_ascii_case("latest") {
        true => None,
        false => Some(epoch.parse().map_err(wrong)?),
    };
    let Some(node) = node.filter(|_| epoch != Some(0)) else { return Ok(DONE) };
    if is_in_transaction {
        return Err(Error::unsupported(
            "a transaction reads the state of its beginning: SET cluster_epoch before BEGIN",
        ));
    }
    match epoch {
        Some(epoch) => node.wait_for(Epoch(epoch)),
        None => node.read_latest(),
    }
    .map(|()| DONE)
}

impl Session {
    pub(crate) fn in_cluster(&self) -> InCluster<'_> {
        InCluster {
            scope: &self.scope,
            run: &self.run,
            database: &self.engine.database,
            node: self.engine.node(),
            is_of_node: self.is_of_node,
        }
    }

    /// Gives a statement that begins the name that the client has set for it. One that publishes nothing
    /// leaves it to the next: programs read settings, or try the connection, between two statements of their
    /// user, and of a transaction it is COMMIT that publishes.
    pub(crate) fn name_statement(&self, sql: &str, is_of_transaction: bool) {
        let name = self.next_name.lock().take_if(|_| may_publish(sql, is_of_transaction));
        self.run.lock().identify(name, is_of_transaction);
    }

    /// Publishes what a transaction has done to tables of the cluster, in place of committing it;
    /// false if it has done nothing to them.
    ///
    /// # Errors
    /// Those of the cluster; `Unsupported` for what a cluster cannot do.
    pub(crate) fn publish(&self, transaction: &mut Transaction) -> Result<bool> {
        self.in_cluster().refuse_node_tables(transaction)?;
        let Some((node, catalog)) = self.in_cluster().cluster() else { return Ok(false) };
        let ClusterChanges { mut deleted, values, free_keys, looked, locked, mut restarts, has_looked } =
            std::mem::take(&mut self.run.lock().cluster);
        let done = self.in_cluster().of_cluster(transaction, &catalog, &deleted);
        if done.is_nothing() {
            // Whoever publishes something learns from a majority whether it still coordinates.
            let seen = self.scope.catalog_of_cluster().filter(|_| has_looked);
            return seen.map_or(Ok(()), |seen| node.confirm(seen.term)).map(|()| false);
        }
        let defined = done.defined()?;
        let seen = self.scope.catalog_of_cluster().unwrap_or(catalog);
        for id in done.dropped {
            self.definer().check_owned(transaction.catalog(), &seen, |owner| owner.table == id)?;
            node.define(Change::DropTable(id))?;
        }
        let found = |id: TableId| {
            let looked = looked.iter().filter(move |(table, _)| *table == id);
            change::found(&seen, id, looked.map(|(_, looked)| *looked))
        };
        for id in done.altered {
            let altered = self.definer().altered(transaction, &seen, id, free_keys.contains(&id))?;
            node.define(Change::AlterTable(Altered { found: found(id), ..altered }))?;
        }
        let mut of_locks = change::locked(&seen, &locked);
        // What is kept of rows until the nodes have them.
        let memory = self.hold("rows for other nodes", 0)?;
        let mut written = Vec::new();
        for id in done.written {
            let deleted = deleted.remove(&id).unwrap_or_default();
            let rows = rows_of(transaction, &seen, id)?;
            let restarted = restarts.remove(&id).unwrap_or_default();
            if rows.rows() == 0 && deleted.is_empty() && restarted.is_empty() {
                // What it has appended, it has deleted.
                continue;
            }
            let least = self.synced_replicas.load(Ordering::Relaxed);
            // All of the transaction is refused if rows are others that are locked.
            let mut found = found(id);
            found.append(&mut of_locks);
            let of_table = Seen::of(&seen, id, &deleted)?.with_found(found).wanting_replicas(least);
            let of_table = of_table.restarting(restarted);
            let of_table = match free_keys.contains(&id) {
                // Nobody has looked for its keys.
                true if self.in_cluster().is_sent_again(id) => of_table.of_known_statement(),
                true => of_table.with_free_keys(&seen, id),
                false => of_table,
            };
            written.push((id, rows, deleted, of_table));
        }
        if written.is_empty() && defined == 0 {
            return node.confirm(seen.term).map(|()| true);
        }
        let changes = written.iter().map(|(id, rows, deleted, seen)| {
            let rows = values.get(id).map_or(Rows::Table(rows), |(values, _)| Rows::Values(values));
            (*id, Changes { rows, deleted, seen, memory: &memory })
        });
        let name = self.run.lock().published_name();
        let published = node.write_all(name, &changes.collect::<Vec<_>>());
        self.sends_whole_rows.store(!values.is_empty() && published.is_err(), Ordering::Relaxed);
        match published {
            // A node of an earlier release does not know values of some columns.
            Err(error) if !values.is_empty() && error.sqlstate() == "08P01" => {
                Err(Error::new(ErrorKind::Conflict, error.message()))
            }
            other => other.map(|_| true),
        }
    }

    /// Forgets the name of the next statement: what it was set for is given up.
    pub(crate) fn forget_name(&self) {
        *self.next_name.lock() = None;
    }

    /// Returns how many rows a table of the session's database has: one of the cluster has those of all
    /// nodes.
    pub fn row_count(&self, table: &TableData) -> u64 {
        self.in_cluster().row_count(table)
    }
}

impl InCluster<'_> {
    /// Runs what changes or checks an open transaction; what it has done to tables of the cluster is that of
    /// the statement meanwhile.
    pub(crate) fn with_changes_of<T>(
        &self,
        explicit: &mut Explicit,
        work: impl FnOnce(&mut Explicit) -> Result<T>,
    ) -> Result<T> {
        self.run.lock().cluster = std::mem::take(&mut explicit.cluster);
        let result = work(explicit);
        explicit.cluster = std::mem::take(&mut self.run.lock().cluster);
        result
    }
}

/// What a statement has to do with tables of the cluster: what it has found and changed in them, and what it
/// knows of their nodes.
#[derive(Clone, Copy)]
pub(crate) struct InCluster<'a> {
    pub scope: &'a Arc<Scope>,
    /// The statement.
    pub run: &'a Mutex<Run>,
    /// The database that may be a node of the cluster.
    pub database: &'a Arc<Database>,
    pub node: Option<&'a Arc<Node>>,
    /// The statement is one of the node's own, which changes nothing but its database.
    pub is_of_node: bool,
}

impl InCluster<'_> {
    /// Returns the places of the rows that the open transaction deletes of tables of the cluster.
    pub(crate) fn deleted_in_cluster(&self) -> BTreeMap<TableId, RoaringTreemap> {
        self.run.lock().cluster.deleted.clone()
    }

    /// Checks what a statement of the open transaction has done to tables of the cluster, and has the next
    /// ones see it. All of it is published when the transaction commits.
    ///
    /// # Errors
    /// `Unsupported` for what cannot be published at once.
    pub(crate) fn check_cluster_changes(&self, transaction: &Transaction) -> Result<()> {
        self.refuse_node_tables(transaction)?;
        let Some((_, catalog)) = self.cluster() else { return Ok(()) };
        let run = self.run.lock();
        let deleted = &run.cluster.deleted;
        let done = self.of_cluster(transaction, &catalog, deleted);
        if done.is_nothing() {
            return Ok(());
        }
        if !done.altered.is_empty() || !done.dropped.is_empty() {
            return Err(Error::unsupported(
                "tables of the cluster are not altered or dropped between BEGIN and COMMIT",
            ));
        }
        if done.others {
            return Err(Error::unsupported(
                "a transaction changes tables of the cluster, or other tables, not both: COMMIT before",
            ));
        }
        self.scope.note_deleted(deleted);
        Ok(())
    }

    /// Forgets which rows of tables of the cluster are deleted: the transaction is over.
    pub(crate) fn forget_cluster_changes(&self) {
        self.run.lock().cluster = ClusterChanges::default();
        self.scope.note_deleted(&BTreeMap::new());
    }

    /// Says whether the running statement, which the client has named, was published before: then its rows
    /// are there, and it changes nothing. A statement of a transaction is not published by its own name.
    pub(crate) fn is_sent_again(&self, table: TableId) -> bool {
        let Some(name) = self.run.lock().repeated_name() else { return false };
        let catalog = self.scope.catalog_of_cluster();
        let table = catalog.as_ref().and_then(|catalog| catalog.table(table));
        table.is_some_and(|table| table.finished(name).is_some())
    }

    /// Has the open transaction delete these rows of tables of the cluster, and no others.
    pub(crate) fn set_deleted_in_cluster(&self, deleted: BTreeMap<TableId, RoaringTreemap>) {
        self.scope.note_deleted(&deleted);
        self.run.lock().cluster.deleted = deleted;
    }

    /// Returns the table of the cluster that a table of a transaction is.
    pub(crate) fn cluster_table_of(&self, transaction: &Transaction, id: TableId) -> Option<TableId> {
        if !Arc::ptr_eq(transaction.database(), self.database) {
            return None;
        }
        // By the name that others know.
        let before = transaction.base().catalog().table_by_id(id);
        let entry = before.or_else(|| transaction.catalog().table_by_id(id))?;
        let name = Name::new(OWN_DATABASE, &entry.schema, &entry.name);
        self.scope.cluster_table(&name).map(|(_, _, id)| id)
    }

    /// Checks that a statement that looks for rows to change has not looked at a state of the table that was
    /// over when it began. A node that does not coordinate may be behind, and find no rows where there are
    /// some: what the coordinator has published counts. A statement of a transaction reads the state of its
    /// beginning, however old that is; if its rows are others since, COMMIT fails.
    ///
    /// # Errors
    /// `Conflict` if the node was behind, and has caught up: the statement is run again. `Connection` (57P03)
    /// if the coordinator cannot be reached.
    pub(crate) fn check_found(&self, table: TableId) -> Result<()> {
        self.run.lock().cluster.has_looked = true;
        let Some((node, _)) = self.cluster().filter(|(node, _)| !node.coordinates()) else { return Ok(()) };
        let Some(seen) = self.scope.catalog_of_cluster() else { return Ok(()) };
        if self.run.lock().may_read(seen.epoch) {
            return Ok(());
        }
        let published = node.catch_up()?;
        self.run.lock().note_told(published.epoch);
        match has_same_rows(published.table(table), seen.table(table)) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "rows of the table have changed while node \"{}\" read it: run the statement again",
                    node.name()
                ),
            )),
        }
    }

    /// Deletes all rows of a table of the cluster, and returns their number. If its columns count anew, that
    /// is published with it.
    ///
    /// # Errors
    /// `UnknownName` if it was dropped; those of [`Session::counted_anew`].
    pub(crate) fn truncate_in_cluster(
        &self,
        writer: &mut Transaction,
        id: TableId,
        restarts: bool,
    ) -> Result<u64> {
        let (catalog, of_cluster) = (self.scope.catalog_of_cluster(), self.cluster_table_of(writer, id));
        let table = catalog.as_ref().zip(of_cluster).and_then(|(catalog, id)| catalog.table(id));
        let table = table.ok_or_else(|| Error::new(ErrorKind::UnknownName, "the table was dropped"))?;
        self.check_found(table.id)?;
        let definition = writer.catalog().table_by_id(id).filter(|_| restarts);
        let counted = definition.zip(catalog.as_ref());
        let counted = counted.map(|(definition, catalog)| Session::counted_anew(catalog, table, definition));
        let restarted = counted.transpose()?;
        let mut places = RoaringTreemap::new();
        for (id, fragment) in table.numbered() {
            places.insert_range(change::all_of(id.number, fragment.rows));
        }
        let mut count = places.len() - self.run.lock().cluster.deleted_of(table.id).len();
        self.run.lock().cluster.delete(table.id, places);
        if let Some(restarted) = restarted {
            self.run.lock().cluster.restart(table.id, restarted);
        }
        let own = writer.snapshot()?.table_by_id(id).map_or(0, |own| own.positions());
        if own > 0 {
            let mut all = RoaringTreemap::new();
            all.insert_range(0..own);
            count += writer.delete(id, &all)?;
        }
        Ok(count)
    }

    /// Returns the node that this database is, and what it knows of its cluster; not for the node's
    /// own session.
    pub(crate) fn cluster(&self) -> Option<(Arc<Node>, Arc<Catalog>)> {
        let node = self.node.filter(|_| !self.is_of_node)?;
        Some((node.clone(), node.catalog()?))
    }

    /// Returns how many rows a table of the database has: one of the cluster has those of all nodes.
    pub fn row_count(&self, table: &TableData) -> u64 {
        let entry = table.entry();
        let cluster = self.cluster();
        let found = cluster.as_ref().and_then(|(_, catalog)| catalog.table_named(&entry.schema, &entry.name));
        found.map_or_else(|| table.rows(), Table::rows)
    }

    fn of_cluster(
        &self,
        transaction: &Transaction,
        catalog: &Catalog,
        deleted: &BTreeMap<TableId, RoaringTreemap>,
    ) -> OfCluster {
        let mut done = OfCluster::default();
        if !Arc::ptr_eq(transaction.database(), self.database) {
            return done;
        }
        let (before, after) = (transaction.base().catalog(), transaction.catalog());
        let written = transaction.written();
        let mut known = Vec::new();
        for table in &catalog.tables {
            let Some(own) = before.table(&table.schema, &table.name) else { continue };
            known.push(own.id);
            match after.table_by_id(own.id) {
                None => done.dropped.push(table.id),
                Some(now) if !is_same_definition(own, now) => done.altered.push(table.id),
                Some(_) if written.contains(&own.id) || deleted.contains_key(&table.id) => {
                    done.written.push(table.id);
                }
                Some(_) => {}
            }
        }
        let defines = !done.dropped.is_empty() || !done.altered.is_empty();
        done.others = written.iter().any(|id| !known.contains(id))
            || (defines && defines_others(before, after, &known))
            || (!defines && !done.written.is_empty() && !transaction.defines_nothing());
        done
    }

    /// Refuses changes of what a database keeps of the cluster that it is, or was, a node of, and whatever
    /// is new beside that: readers find rows by their positions, and replicas have names of their own.
    fn refuse_node_tables(&self, transaction: &Transaction) -> Result<()> {
        let (before, after) = (transaction.base().catalog(), transaction.catalog());
        let is_node = before.has_schema(NODE_SCHEMA) || self.node.is_some();
        if self.is_of_node || !is_node {
            return Ok(());
        }
        if has_others_of_node(before, after) {
            return Err(of_node());
        }
        if let Some(sequence) = changed_sequence(before, after) {
            return Err(Error::unsupported(format!(
                "sequence \"{}\" of the cluster is dropped by DROP SEQUENCE, not with its schema, and has no comment: \
                 other nodes would not learn of it",
                sequence.name
            )));
        }
        let written = transaction.written();
        let is_stranger = |table: &TableEntry| {
            let found = self.node.and_then(|node| node.strangers().ok());
            found.is_some_and(|strangers| strangers.contains(&table.name))
        };
        let is_changed = |table: &TableEntry| match after.table_by_id(table.id) {
            None => !is_stranger(table),
            Some(now) => !is_same_definition(table, now) || written.contains(&table.id),
        };
        let mut kept = before.tables.iter().filter(|table| table.schema == NODE_SCHEMA);
        if kept.any(|table| is_changed(table)) { Err(of_node()) } else { Ok(()) }
    }
}

/// Says whether other things than tables that are there are in what a node keeps of its cluster, or more of
/// these.
fn has_others_of_node(before: &Definitions, after: &Definitions) -> bool {
    let schema = |of: &Definitions| of.schemas.iter().find(|schema| schema.name == NODE_SCHEMA).cloned();
    let tables = |of: &Definitions| of.tables.iter().filter(|table| table.schema == NODE_SCHEMA).count();
    let views = |of: &Definitions| -> Vec<ViewEntry> {
        of.views.iter().filter(|view| view.schema == NODE_SCHEMA).cloned().collect()
    };
    let sequences = |of: &Definitions| -> Vec<SequenceEntry> {
        of.sequences.iter().filter(|sequence| sequence.schema == NODE_SCHEMA).cloned().collect()
    };
    schema(before) != schema(after)
        || tables(before) < tables(after)
        || views(after).iter().any(|view| !views(before).contains(view))
        || sequences(after).iter().any(|sequence| !sequences(before).contains(sequence))
}

/// Returns a sequence of the cluster, which all nodes have, that a statement of one of them drops or comments
/// on.
fn changed_sequence<'a>(before: &'a Definitions, after: &Definitions) -> Option<&'a SequenceEntry> {
    let is_of_cluster = |sequence: &&SequenceEntry| {
        let owner = sequence.owner.and_then(|owner| before.table_by_id(owner.table));
        sequence.schema != NODE_SCHEMA && owner.is_some_and(|table| table.schema == NODE_SCHEMA)
    };
    let is_changed = |sequence: &&SequenceEntry| {
        let now = after.sequence(&sequence.schema, &sequence.name);
        now.is_none_or(|now| now.comment != sequence.comment)
    };
    before.sequences.iter().filter(is_of_cluster).find(is_changed)
}

/// Returns the error for changes of what a node keeps of its cluster.
pub(crate) fn of_node() -> Error {
    Error::new(
        ErrorKind::Denied,
        format!("schema \"{NODE_SCHEMA}\" has what a node keeps of its cluster: statements cannot change it"),
    )
}

/// Says whether a transaction has defined something else than some tables: that would be lost, because
/// these are published in its place.
fn defines_others(before: &Definitions, after: &Definitions, known: &[TableId]) -> bool {
    let others = |of: &Definitions| -> Vec<Arc<TableEntry>> {
        of.tables.iter().filter(|table| !known.contains(&table.id)).cloned().collect()
    };
    let (was, is) = (others(before), others(after));
    was.len() != is.len()
        || was.iter().zip(&is).any(|(one, other)| one.id != other.id || !is_same_definition(one, other))
        || before.views.len() != after.views.len()
        || before.schemas.len() != after.schemas.len()
}

fn is_same_definition(one: &TableEntry, other: &TableEntry) -> bool {
    let are_same = one.columns.len() == other.columns.len()
        && one.columns.iter().zip(&other.columns).all(|(one, other)| {
            (one.id, &one.name, &one.logical_type, one.nullable, one.identity)
                == (other.id, &other.name, &other.logical_type, other.nullable, other.identity)
                && (&one.default, &one.generated, &one.comment)
                    == (&other.default, &other.generated, &other.comment)
        });
    are_same
        && (&one.schema, &one.name, &one.constraints, &one.indexes, &one.comment)
            == (&other.schema, &other.name, &other.constraints, &other.indexes, &other.comment)
}

/// Says whether a statement begins as one that publishes something, by itself or of its transaction.
fn may_publish(sql: &str, is_of_transaction: bool) -> bool {
    let kind = Kind::read(sql);
    if is_of_transaction { kind.commits() } else { !kind.publishes_nothing() }
}

/// Returns the rows that a transaction has appended to a table that has no others.
fn rows_of(transaction: &mut Transaction, catalog: &Catalog, id: TableId) -> Result<Arc<TableData>> {
    let snapshot = transaction.snapshot()?;
    let table = catalog.table(id).and_then(|table| snapshot.table(&table.schema, &table.name));
    table.cloned().ok_or_else(|| Error::internal("an append to a table that is gone"))
}
