//! Has the coordinator publish what a statement of another node changes.
//!
//! The node that is asked computes the statement: its session has the role, the settings, the parameters and
//! the temporary tables. What comes of it travels: new rows, the places of deleted ones, and how the table
//! was when they were found ([`Seen`]). The coordinator does with them what it does with those of its own
//! sessions.
//!
//! **A statement is sent once.** Before it is, the coordinator says what it has published, so that a
//! connection that was broken is noticed, and so is a coordinator that is another one by now. After that,
//! only a coordinator that refuses because it is none (25006) is followed by another one: it has published
//! nothing. If no answer comes, nobody knows whether the statement was published (08007), and it is not sent
//! again: the catalog knows the last statements of a table only, so that a second copy could be published,
//! too. The user decides; with a `statement_id`, the same statement may be run again on any node.

use crate::change::{self, Changes, OfFragment, OfTable, Rows, Seen, Values};
use crate::coordinate::{no_majority, unknown};
use crate::message::{OneOfTables, Reply, Request};
use crate::node::Node;
use crate::peers::{Answer, RowReader, unexpected};
use crate::state;
use crate::write;
use arrow::array::{RecordBatch, RecordBatchIterator};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use hypostyle_placement::catalog::{Catalog, Change, Node as Member, Table};
use hypostyle_placement::{Epoch, StatementId};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a reader waits for a state that this node does not know, and how often it is asked for.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// How often a change is sent to a coordinator that says that it is none by now.
pub(crate) const ATTEMPTS: usize = 3;

impl Node {
    /// Appends rows to tables of the cluster and deletes others: all, or none. A statement that is repeated
    /// has the result of the first time. A node that does not coordinate has the one do it that does.
    ///
    /// # Errors
    /// Those of the append; `Conflict` (40001) if rows were deleted since these were found; `Connection`
    /// (08007) if nobody knows whether it was published, and 57P03 if it was not.
    pub fn write_all(&self, statement: StatementId, tables: &[(TableId, Changes<'_>)]) -> Result<u64> {
        let here = || self.write_here(statement, tables);
        match tables {
            [] => Ok(0),
            [(table, changes @ Changes { rows: Rows::Values(values), .. })] => {
                self.have_published(here, || {
                    let (seen, columns) = (changes.seen.clone(), values.columns.clone());
                    let request = Request::WriteValues { table: *table, statement, seen, columns };
                    Ok((request, rows_of(changes)?))
                })
            }
            [(table, changes)] => self.have_published(here, || {
                let (deletes, seen) = (!changes.deleted.is_empty(), changes.seen.clone());
                Ok((Request::Write { table: *table, statement, seen, deletes }, rows_of(changes)?))
            }),
            _ => self.have_published(here, || {
                let (mut told, mut sent) = (Vec::new(), Vec::new());
                for (table, changes) in tables {
                    let (schema, rows) = read(changes)?;
                    let (seen, columns) = (changes.seen.clone(), schema.fields().len());
                    told.push(OneOfTables { table: *table, seen, columns });
                    let deleted = changes.deleted.clone();
                    sent.push(OfTable { schema, changes: OfFragment { rows, deleted } });
                }
                let request = Request::WriteAll { statement, tables: told };
                Ok((request, Some(change::to_send_of_tables(sent))))
            }),
        }
    }

    /// Creates, alters or drops a table of the cluster. A node that does not coordinate has the one do it
    /// that does.
    ///
    /// # Errors
    /// Those of the change; as [`Self::write`].
    pub fn define(&self, change: Change) -> Result<()> {
        let here = || self.define_here(change.clone()).map(|_| 0);
        let request = || Ok((Request::Define(Box::new(change.clone())), Some(no_rows())));
        self.have_published(here, request).map(drop)
    }

    /// Returns the state of the catalog that has whatever this node has written and read.
    pub fn epoch(&self) -> Epoch {
        let known = self.catalog().map_or(Epoch(0), |catalog| catalog.epoch);
        known.max(*self.written.lock())
    }

    /// Waits until this node reads a state of the catalog, or a later one. As long as its process runs, it
    /// reads no earlier one again.
    ///
    /// # Errors
    /// `Connection` (57P03) if it has not come to know it after some time.
    pub fn wait_for(&self, epoch: Epoch) -> Result<()> {
        let (end, mut failed) = (Instant::now() + PATIENCE, None);
        loop {
            let known = self.known_catalog()?.epoch;
            if known >= epoch {
                return Ok(());
            }
            if Instant::now() >= end {
                let why = failed.map_or_else(String::new, |error| format!(" ({error})"));
                return Err(Error::new(
                    ErrorKind::Connection,
                    format!(
                        "node \"{}\" reads epoch {known}, and epoch {epoch} is waited for{why}",
                        self.name()
                    ),
                )
                .with_sqlstate("57P03"));
            }
            failed = self.catch_up().and_then(|_| self.learn()).err();
            thread::sleep(PAUSE);
        }
    }

    fn define_here(&self, change: Change) -> Result<Arc<Catalog>> {
        match change {
            Change::AlterTable(altered) => self.alter(altered),
            other => self.change(other),
        }
    }

    /// Takes over what the coordinator has published, if this node does not coordinate, and returns it.
    ///
    /// # Errors
    /// `Connection` (57P03) if the coordinator cannot be reached.
    pub fn catch_up(&self) -> Result<Arc<Catalog>> {
        if !self.coordinates() {
            self.reach_coordinator()?;
        }
        self.known_catalog()
    }

    /// Publishes something, or has the coordinator do that and takes it over, so that whoever reads here next
    /// sees it.
    fn have_published(
        &self,
        here: impl FnOnce() -> Result<u64>,
        request: impl Fn() -> Result<(Request, Option<RowReader>)>,
    ) -> Result<u64> {
        if self.coordinates() {
            match here() {
                // Another one does, and has not told this one yet: nothing is published.
                Err(error) if error.sqlstate() == "25006" => self.learn()?,
                other => return other,
            }
        }
        for attempt in 1.. {
            let coordinator = self.reach_coordinator()?;
            let (request, rows) = request()?;
            match self.call(&coordinator, request, rows).and_then(Answer::reply) {
                Ok(Reply::Published { rows, epoch }) => {
                    self.see(&coordinator, epoch);
                    return Ok(rows);
                }
                // It has done something, and says nothing of it.
                Ok(_) => return Err(unknown()),
                // It coordinates no more, and has published nothing.
                Err(error) if error.sqlstate() == "25006" && attempt < ATTEMPTS => {
                    tracing::debug!(%error, "a statement goes to another coordinator");
                    self.learn()?;
                }
                Err(error) if is_without_answer(&error) => {
                    tracing::warn!(%error, node = coordinator.name, "a statement has come to no answer");
                    return Err(unknown());
                }
                Err(error) => return Err(error),
            }
        }
        Err(no_majority())
    }

    /// Takes over what the coordinator has published, as of some state of the catalog. If that cannot be, the
    /// next reader has the node ask a majority.
    pub(crate) fn see(&self, coordinator: &Member, epoch: Epoch) {
        let mut written = self.written.lock();
        *written = epoch.max(*written);
        drop(written);
        if self.catalog().is_none_or(|known| known.epoch < epoch)
            && let Err(error) = self.take_from(coordinator)
        {
            tracing::warn!(%error, "a statement is published, and not known here yet");
            self.doubt();
        }
    }

    /// Takes over what a node knows to be published.
    fn take_from(&self, member: &Member) -> Result<()> {
        let after = self.known_catalog()?.epoch;
        match self.call(member, Request::Catalog { after }, None)?.reply()? {
            Reply::Catalog(Some(published)) => self.show_published(*published),
            Reply::Catalog(None) => Ok(()),
            _ => Err(unexpected("a message")),
        }
    }

    /// Returns the coordinator, once this node has taken over what it has published.
    pub(crate) fn reach_coordinator(&self) -> Result<Member> {
        for _ in 0..ATTEMPTS {
            let known = self.known_catalog()?;
            if known.coordinator == self.id() {
                let message = "this node coordinates the cluster by now: run the statement again";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            let member = known.node(known.coordinator).cloned();
            let member = member.ok_or_else(|| crate::coordinate::gone(known.coordinator))?;
            if let Err(error) = self.take_from(&member) {
                // Somebody else may coordinate by now.
                let learned = self.learn();
                if learned.is_err() || self.known_catalog()?.coordinator == member.id {
                    return Err(away(&member, &error));
                }
            }
            if self.known_catalog()?.coordinator == member.id {
                return Ok(member);
            }
        }
        Err(no_majority())
    }

    /// Publishes what a statement of another node changes.
    pub(crate) fn write_for_another(
        &self,
        (table, statement): (TableId, StatementId),
        seen: &Seen,
        deletes: bool,
        rows: Option<RowReader>,
    ) -> Result<Reply> {
        self.check_coordinates()?;
        // Rows are kept where those of this node's own statements are: beside the table without rows, in a
        // transaction that never commits. Of many, only the positions are in memory.
        let mut transaction = self.database().begin(self.threads())?.of_statements();
        let base = transaction.base().clone();
        let made = self.made_in(&base, table, seen.altered)?;
        let gone = || Error::new(ErrorKind::Conflict, "the table was dropped meanwhile");
        let id = made.shell(&base).ok_or_else(gone)?.entry().id;
        let deleted = write::stage(&mut transaction, id, rows, deletes)?;
        let staged = transaction.snapshot()?.table_by_id(id).cloned().ok_or_else(gone)?;
        let memory = self.host()?.memory()?;
        let changes = Changes { rows: Rows::Table(&staged), deleted: &deleted, seen, memory: &*memory };
        let rows = self.write_here(statement, &[(table, changes)])?;
        Ok(Reply::Published { rows, epoch: self.known_catalog()?.epoch })
    }

    /// Publishes the values that a statement of another node gives rows in some columns.
    pub(crate) fn write_values_for_another(
        &self,
        (table, statement): (TableId, StatementId),
        seen: &Seen,
        columns: Vec<usize>,
        rows: Option<RowReader>,
    ) -> Result<Reply> {
        self.check_coordinates()?;
        let memory = self.host()?.memory()?;
        let (deleted, rows) = write::read_values(rows, &*memory)?;
        let values = Values { columns, rows };
        let changes = Changes { rows: Rows::Values(&values), deleted: &deleted, seen, memory: &*memory };
        let rows = self.write_here(statement, &[(table, changes)])?;
        Ok(Reply::Published { rows, epoch: self.known_catalog()?.epoch })
    }

    /// Publishes what a statement of another node changes in several tables.
    pub(crate) fn write_all_for_another(
        &self,
        statement: StatementId,
        tables: &[OneOfTables],
        rows: Option<RowReader>,
    ) -> Result<Reply> {
        self.check_coordinates()?;
        let mut transaction = self.database().begin(self.threads())?.of_statements();
        let base = transaction.base().clone();
        let gone = || Error::new(ErrorKind::Conflict, "a table was dropped meanwhile");
        let mut shells = Vec::new();
        for OneOfTables { table, seen, columns } in tables {
            let made = self.made_in(&base, *table, seen.altered)?;
            shells.push((made.shell(&base).ok_or_else(gone)?.entry().id, *columns));
        }
        let deleted = write::stage_tables(&mut transaction, &shells, rows)?;
        let snapshot = transaction.snapshot()?;
        let staged = shells.iter().map(|(id, _)| snapshot.table_by_id(*id).cloned().ok_or_else(gone));
        let staged = staged.collect::<Result<Vec<_>>>()?;
        let memory = self.host()?.memory()?;
        let changes = tables.iter().zip(staged.iter().zip(&deleted)).map(|(of, (staged, deleted))| {
            (of.table, Changes { rows: Rows::Table(staged), deleted, seen: &of.seen, memory: &*memory })
        });
        let rows = self.write_here(statement, &changes.collect::<Vec<_>>())?;
        Ok(Reply::Published { rows, epoch: self.known_catalog()?.epoch })
    }

    /// Publishes a change of a table's definition that another node asks for.
    pub(crate) fn define_for_another(&self, change: Change) -> Result<Reply> {
        self.check_coordinates()?;
        let is_of_tables = matches!(
            change,
            Change::CreateTable { .. } | Change::AlterTable(_) | Change::DropTable(_) | Change::Own { .. }
        );
        if !is_of_tables {
            return Err(Error::new(ErrorKind::Denied, "another node may only ask for changes of tables"));
        }
        Ok(Reply::Published { rows: 0, epoch: self.define_here(change)?.epoch })
    }
}

/// Says whether two catalogs have the same rows and columns of a table.
pub fn has_same_rows(one: Option<&Table>, other: Option<&Table>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    let rows = |table: &Table| -> Vec<(u64, u64)> {
        table.fragments.iter().map(|fragment| (fragment.rows, fragment.deleted)).collect()
    };
    one.layout.altered == other.layout.altered && rows(one) == rows(other)
}

/// Says whether it is not known what became of a request that was sent.
pub(crate) fn is_without_answer(error: &Error) -> bool {
    error.is_unreachable()
        || matches!(error.kind(), ErrorKind::Closed | ErrorKind::Interrupted)
        || matches!(error.sqlstate(), "08006" | "57P01")
}

fn away(coordinator: &Member, error: &Error) -> Error {
    let Member { name, address, .. } = coordinator;
    Error::new(
        ErrorKind::Connection,
        format!("node \"{name}\" at {address}, which coordinates the cluster, is not there: nothing was changed ({error})"),
    )
    .with_sqlstate("57P03")
}

/// Returns rows that say nothing. A request with rows is sent once, also if the connection turns out to be
/// broken ([`crate::peers::Peers::call`]): it may have arrived.
fn no_rows() -> RowReader {
    let schema = Arc::new(Schema::new(vec![Field::new("nothing", DataType::UInt64, true)]));
    Box::new(RecordBatchIterator::new(std::iter::empty(), schema))
}

/// Returns the rows that a statement appends, and their schema, which has no columns if there are none.
fn read(changes: &Changes<'_>) -> Result<(SchemaRef, change::Batches)> {
    Ok(match changes.rows {
        Rows::Table(table) if table.rows() > 0 => {
            let schema = state::batch_at(table, &state::positions_of(table, 0..1), 1)?.schema();
            // One thread: the connection is slower than the reading.
            (schema, Box::new(state::batches(table.clone(), 0..table.positions(), 1)))
        }
        Rows::Batches(batches @ [first, ..]) => {
            let (schema, batches) = (first.schema(), batches.to_vec());
            (schema, Box::new(batches.into_iter().map(Ok)))
        }
        Rows::Values(Values { rows: batches, .. }) => {
            let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
            (schema, Box::new(batches.clone().into_iter().map(Ok)))
        }
        Rows::Table(_) | Rows::Batches(_) => (Arc::new(Schema::empty()), Box::new(std::iter::empty())),
    })
}

/// Returns what a statement appends and deletes, as it travels.
fn rows_of(changes: &Changes<'_>) -> Result<Option<RowReader>> {
    let (schema, rows) = read(changes)?;
    if schema.fields().is_empty() && changes.deleted.is_empty() {
        return Ok(Some(no_rows()));
    }
    Ok(Some(change::to_send(&schema, vec![OfFragment { rows, deleted: changes.deleted.clone() }])))
}
