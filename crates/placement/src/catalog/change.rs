//! The changes of a catalog. Each is a function from one catalog to the next, which compares what
//! the caller has seen with what is there.

use super::entry::{
    Additions, Catalog, Column, Counter, Fragment, Layout, Node, NodeState, Owner, Replica, Table,
};
use super::publish::{Copied, Found, Publication, check_found, conflict, copied, publish};
use crate::id::{Epoch, FragmentId, Life, NodeId, StatementId, Term, Token};
use crate::partition::{Kind, Partitioning};
use crate::rules::Rules;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A table that is to be created.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTable {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// The statement that makes the table, without rows, in a node's own database.
    pub definition: String,
    /// The distribution of its rows.
    pub partitioning: Partitioning,
    /// The replicas of each fragment.
    pub replicas: u32,
    /// The other tables that its foreign keys refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refers: Vec<Referred>,
    /// What is said of the sequence that it stands for, if it does.
    #[serde(default, skip_serializing_if = "Additions::is_empty")]
    pub additions: Box<Additions>,
}

/// A table that a foreign key refers to, as it was when somebody has read its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Referred {
    /// The table.
    pub table: TableId,
    /// The epoch in which it was altered the last time.
    pub altered: Epoch,
}

impl NewTable {
    /// Returns a table without a definition.
    pub fn new(schema: &str, name: &str, partitioning: Partitioning, replicas: u32) -> Self {
        let (schema, name, definition) = (schema.into(), name.into(), String::new());
        let (refers, additions) = (Vec::new(), Box::default());
        Self { schema, name, definition, partitioning, replicas, refers, additions }
    }

    /// Returns the table with the statement that makes it.
    pub fn defined_by(mut self, definition: String) -> Self {
        self.definition = definition;
        self
    }

    /// Returns the table with foreign keys to others.
    pub fn referring_to(mut self, refers: Vec<Referred>) -> Self {
        self.refers = refers;
        self
    }

    /// Returns the table with what its definition does not say.
    pub fn with_additions(mut self, additions: Additions) -> Self {
        self.additions = Box::new(additions);
        self
    }
}

/// What ALTER TABLE makes of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Altered {
    /// The table.
    pub table: TableId,
    /// The epoch of the alteration before, as it was seen.
    pub since: Epoch,
    /// Its new name.
    pub name: String,
    /// The statement that makes the table with its new columns.
    pub definition: String,
    /// What that does not say.
    #[serde(default, skip_serializing_if = "Additions::is_empty")]
    pub additions: Box<Additions>,
    /// The distribution of its rows, with the places that the columns of the key have now.
    pub partitioning: Partitioning,
    /// The columns. Those that stay have their numbers and their order, and new ones are behind them.
    pub columns: Vec<Column>,
    /// How many rows each fragment had ever had when somebody has looked at all of them, whether they fit. An
    /// earlier release does not know this, and refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<u64>>,
    /// The other tables that its foreign keys refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refers: Vec<Referred>,
    /// The other tables that were seen to refer to it, which are defined by its names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub referring: Vec<TableId>,
    /// What was found in other tables when somebody has looked whether the rows fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Found>,
}

/// A change of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Adds a node, which has no replica yet.
    AddNode(Node),
    /// Says that a node is found at another address. If that was another node's, they exchange theirs: that
    /// one is not there any more.
    MoveNode {
        /// The node.
        node: NodeId,
        /// Its address.
        address: String,
    },
    /// Gives a node another state. The replicas of a lost one leave the in-sync sets, but for the
    /// last ones.
    SetNodeState {
        /// The node.
        node: NodeId,
        /// Its new state.
        state: NodeState,
    },
    /// Removes a node and the replicas that it still has.
    RemoveNode {
        /// The node.
        node: NodeId,
        /// Allows replicas to be forgotten that are in sync, even the last one of a fragment, which
        /// is lost then.
        force: bool,
    },
    /// Adds a table. Its replicas are in sync, because it has no rows.
    CreateTable {
        /// The table.
        table: NewTable,
        /// The nodes of each fragment, the preferred one first.
        nodes: Vec<Vec<NodeId>>,
    },
    /// Gives a table other columns, or another name.
    AlterTable(Altered),
    /// Removes a table.
    DropTable(TableId),
    /// Adds a replica that has no rows yet.
    AddReplica(FragmentId, NodeId),
    /// Begins a new life of a replica: it is out of sync and can be caught up.
    RestartReplica(FragmentId, NodeId),
    /// Removes a replica that is not the last one in sync.
    DropReplica(FragmentId, NodeId),
    /// Makes a replica the preferred one of its fragment.
    Prefer(FragmentId, NodeId),
    /// Makes a writer of a table: the next token is its.
    Begin {
        /// The table.
        table: TableId,
        /// The statement, if it is one whose result is kept.
        statement: Option<StatementId>,
    },
    /// Publishes an append.
    Publish(Publication),
    /// Publishes appends to several tables: all, or none.
    PublishAll(Vec<Publication>),
    /// Publishes what a replica has copied.
    Copied(Copied),
    /// Takes values of a column that counts, which nobody gets again.
    Count {
        /// The table.
        table: TableId,
        /// The number of the column.
        column: u32,
        /// The last value before them, if it is said.
        after: Option<u64>,
        /// How many are taken.
        count: u64,
    },
    /// Says which column a sequence goes with. An earlier release does not know this.
    Own {
        /// The table that stands for the sequence.
        sequence: TableId,
        /// The column; `None` if it goes with none any more.
        owner: Option<Owner>,
    },
    /// Makes a node the coordinator.
    Promote {
        /// The node.
        coordinator: NodeId,
        /// Its term, higher than all before.
        term: Term,
    },
}

impl Change {
    /// Says whether the nodes are others afterwards, of which a majority stores catalogs.
    pub(crate) fn changes_nodes(&self) -> bool {
        matches!(self, Self::AddNode(_) | Self::RemoveNode { .. })
    }
}

fn missing(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::UnknownName, format!("there is no {what}")).with_sqlstate("42704")
}

impl Catalog {
    /// Returns the catalog after a change.
    ///
    /// # Errors
    /// `Conflict` if the change was planned for another state; `UnknownName`, `AlreadyExists`,
    /// `InvalidInput` or `Constraint` if it does not fit.
    pub fn apply(&self, change: &Change) -> Result<Self> {
        match change {
            Change::Publish(publication) => {
                check_found(self, publication)?;
                return publish(self, publication, Rules::ALL);
            }
            Change::PublishAll(publications) => {
                // What they do themselves is not in the way.
                publications.iter().try_for_each(|publication| check_found(self, publication))?;
                let mut next = self.clone();
                for publication in publications {
                    next = publish(&next, publication, Rules::ALL)?;
                }
                return Ok(next);
            }
            Change::Copied(rows) => return copied(self, rows),
            _ => {}
        }
        let mut next = self.following()?;
        match change {
            Change::AddNode(node) => next.nodes.push(node.clone()),
            Change::MoveNode { node, address } => next.move_node(*node, address)?,
            Change::SetNodeState { node, state } => next.set_state(*node, *state)?,
            Change::RemoveNode { node, force } => next.remove_node(*node, *force)?,
            Change::CreateTable { table, nodes } => next.create_table(table, nodes)?,
            Change::AlterTable(altered) => next.alter_table(altered)?,
            Change::DropTable(table) => {
                let id = next.table_mut(*table)?.id;
                next.check_unreferred(id)?;
                let goes = |owner: Owner| owner.table == id;
                next.tables.retain(|table| table.id != id && !table.additions.owner.is_some_and(goes));
            }
            Change::AddReplica(fragment, node) => next.add_replica(*fragment, *node)?,
            Change::RestartReplica(fragment, node) => next.restart_replica(*fragment, *node)?,
            Change::DropReplica(fragment, node) => next.drop_replica(*fragment, *node)?,
            Change::Prefer(fragment, node) => next.prefer(*fragment, *node)?,
            Change::Begin { table, statement } => next.begin(*table, *statement)?,
            Change::Count { table, column, after, count } => {
                next.count(*table, *column, *after, *count)?;
            }
            Change::Own { sequence, owner } => next.own(*sequence, *owner)?,
            Change::Promote { coordinator, term } => next.promote(*coordinator, *term)?,
            Change::Publish(_) | Change::PublishAll(_) | Change::Copied(_) => {}
        }
        next.check()?;
        Ok(next)
    }

    /// Returns the catalog after a change that was planned for one epoch.
    ///
    /// # Errors
    /// `Conflict` if this is another epoch; those of [`Catalog::apply`].
    pub fn apply_at(&self, epoch: Epoch, change: &Change) -> Result<Self> {
        if self.epoch != epoch {
            return Err(conflict(format!(
                "the cluster's catalog has changed: this is epoch {}, and the change was planned for epoch {epoch}",
                self.epoch
            )));
        }
        self.apply(change)
    }

    /// Returns a copy for the next epoch.
    pub(super) fn following(&self) -> Result<Self> {
        let end = || Error::new(ErrorKind::Internal, "the cluster's catalog has no further epoch");
        Ok(Self { epoch: self.epoch.next().ok_or_else(end)?, ..self.clone() })
    }

    pub(super) fn table_mut(&mut self, id: TableId) -> Result<&mut Table> {
        self.tables
            .iter_mut()
            .find(|table| table.id == id)
            .ok_or_else(|| missing(format_args!("table {id}")).with_sqlstate("42P01"))
    }

    pub(super) fn fragment_mut(&mut self, id: FragmentId) -> Result<&mut Fragment> {
        let number = usize::try_from(id.number).unwrap_or(usize::MAX);
        self.table_mut(id.table)?.fragments.get_mut(number).ok_or_else(|| missing(id))
    }

    /// Returns the life of a replica that begins with this epoch.
    pub(super) fn life(&self) -> Life {
        Life(self.epoch.0)
    }

    fn node_mut(&mut self, id: NodeId) -> Result<&mut Node> {
        let node = self.nodes.iter_mut().find(|node| node.id == id);
        node.ok_or_else(|| missing(format_args!("node {id}")))
    }

    fn move_node(&mut self, id: NodeId, address: &str) -> Result<()> {
        let before = std::mem::replace(&mut self.node_mut(id)?.address, address.into());
        let has_it = |other: &&mut Node| other.id != id && other.address == address;
        if let Some(other) = self.nodes.iter_mut().find(has_it) {
            other.address = before;
        }
        Ok(())
    }

    fn set_state(&mut self, id: NodeId, state: NodeState) -> Result<()> {
        self.node_mut(id)?.state = state;
        if state != NodeState::Lost {
            return Ok(());
        }
        let lost: Vec<NodeId> = self.nodes.iter().map(|n| n.id).filter(|&n| self.is_lost(n)).collect();
        for fragment in self.tables.iter_mut().flat_map(|table| &mut table.fragments) {
            let has_other = fragment.in_sync().any(|replica| !lost.contains(&replica.node));
            for replica in fragment.replicas.iter_mut().filter(|replica| replica.node == id && has_other) {
                replica.in_sync = false;
            }
        }
        Ok(())
    }

    fn remove_node(&mut self, id: NodeId, force: bool) -> Result<()> {
        let name = self.node(id).ok_or_else(|| missing(format_args!("node {id}")))?.name.clone();
        if id == self.coordinator {
            return Err(Error::new(
                ErrorKind::Constraint,
                format!("node \"{name}\" is the coordinator: PROMOTE another one first"),
            )
            .with_sqlstate("55006"));
        }
        for table in &mut self.tables {
            for (number, fragment) in table.fragments.iter_mut().enumerate() {
                let is_used = fragment.replica(id).is_some_and(|replica| replica.in_sync);
                let is_last = is_used && fragment.in_sync().count() == 1;
                if is_used && !force {
                    let which = if is_last { "the last replica" } else { "a replica" };
                    let loss = if is_last { ", which loses its rows" } else { "" };
                    return Err(Error::new(
                        ErrorKind::Constraint,
                        format!(
                            "node \"{name}\" has {which} in sync of fragment {number} of table \"{}\": \
                             DRAIN the node before, or say FORCE{loss}",
                            table.name
                        ),
                    )
                    .with_sqlstate("55006"));
                }
                fragment.lost |= is_last;
                fragment.replicas.retain(|replica| replica.node != id);
            }
        }
        self.nodes.retain(|node| node.id != id);
        Ok(())
    }

    /// Returns the numbers of tables that foreign keys refer to, if they are as they were seen.
    fn referred(&self, refers: &[Referred]) -> Result<Vec<TableId>> {
        let is_as_seen = |referred: &&Referred| {
            self.table(referred.table).is_some_and(|table| table.layout.altered == referred.altered)
        };
        if let Some(other) = refers.iter().find(|referred| !is_as_seen(referred)) {
            let what = "that a foreign key refers to was altered or dropped meanwhile";
            return Err(conflict(format!("table {} {what}", other.table)));
        }
        let tables: BTreeSet<TableId> = refers.iter().map(|referred| referred.table).collect();
        Ok(tables.into_iter().collect())
    }

    fn check_unreferred(&self, id: TableId) -> Result<()> {
        let Some(other) = self.referring(id).next() else { return Ok(()) };
        let message =
            format!("a foreign key of table \"{}\" refers to the table: drop that first", other.name);
        Err(Error::new(ErrorKind::Constraint, message).with_sqlstate("2BP01"))
    }

    fn create_table(&mut self, table: &NewTable, nodes: &[Vec<NodeId>]) -> Result<()> {
        let (life, refers) = (self.life(), self.referred(&table.refers)?);
        let replica = |&node: &NodeId| Replica { node, life, positions: 0, rows: 0, in_sync: true };
        if let Some(node) = nodes.iter().flatten().find(|&&node| self.is_lost(node)) {
            return Err(Error::invalid_input(format!("node {node} is lost or unknown")));
        }
        if let Some(owner) = table.additions.owner {
            self.check_owner(self.next_table_id, owner)?;
        }
        let last = table.additions.start.map_or(0, |start| start.saturating_sub(1));
        let first = (last > 0).then_some(Counter { column: 0, last, since: self.epoch });
        self.tables.push(Table {
            id: self.next_table_id,
            schema: table.schema.clone(),
            name: table.name.clone(),
            definition: table.definition.clone(),
            additions: table.additions.as_ref().clone(),
            layout: Layout::default(),
            partitioning: table.partitioning.clone(),
            replicas: table.replicas,
            token: Token::default(),
            refers,
            fragments: nodes
                .iter()
                .map(|nodes| Fragment {
                    rows: 0,
                    deleted: 0,
                    replicas: nodes.iter().map(replica).collect(),
                    lost: false,
                })
                .collect(),
            finished: Vec::new(),
            counters: first.into_iter().collect(),
        });
        self.next_table_id = self.next_table_id.next();
        Ok(())
    }

    fn alter_table(&mut self, altered: &Altered) -> Result<()> {
        let (epoch, refers) = (self.epoch, self.referred(&altered.refers)?);
        altered.found.iter().try_for_each(|found| found.check(self, None))?;
        if !self.referring(altered.table).map(|other| other.id).eq(altered.referring.iter().copied()) {
            return Err(conflict("other tables refer to the table by now"));
        }
        let table = self.table_mut(altered.table)?;
        if table.layout.altered != altered.since {
            return Err(conflict(format!("table \"{}\" was altered meanwhile", table.name)));
        }
        // Rows that are gone since have fitted, too.
        if let Some(rows) = &altered.rows
            && !rows.iter().copied().eq(table.fragments.iter().map(Fragment::rows_ever))
        {
            return Err(conflict(format!("rows were added to table \"{}\" meanwhile", table.name)));
        }
        let kinds = |partitioning: &Partitioning| -> Vec<Kind> {
            partitioning.columns().iter().map(|column| column.kind).collect()
        };
        let is_alike = kinds(&table.partitioning) == kinds(&altered.partitioning)
            && table.partitioning.fragments() == altered.partitioning.fragments();
        if !is_alike {
            return Err(Error::invalid_input("ALTER TABLE does not change how rows are distributed"));
        }
        let next = altered.columns.iter().map(|column| column.number.saturating_add(1)).max();
        table.layout = Layout {
            altered: epoch,
            columns: altered.columns.clone(),
            next: next.unwrap_or(0).max(table.layout.next),
        };
        table.counters.retain(|counter| altered.columns.iter().any(|column| column.number == counter.column));
        table.name.clone_from(&altered.name);
        table.definition.clone_from(&altered.definition);
        table.additions.clone_from(altered.additions.as_ref());
        table.partitioning = altered.partitioning.clone();
        table.refers = refers;
        self.keep_owned(altered);
        Ok(())
    }

    /// Drops the sequences that go with columns which an altered table has no more. One of another type has
    /// another number.
    fn keep_owned(&mut self, altered: &Altered) {
        let now = |number: u32| {
            let column = altered.columns.iter().find(|column| column.is(number));
            column.map(|column| column.number)
        };
        self.tables.retain_mut(|table| {
            let Some(owner) = table.additions.owner.as_mut().filter(|owner| owner.table == altered.table)
            else {
                return true;
            };
            let number = now(owner.column);
            owner.column = number.unwrap_or(owner.column);
            number.is_some()
        });
    }

    fn own(&mut self, sequence: TableId, owner: Option<Owner>) -> Result<()> {
        if let Some(owner) = owner {
            self.check_owner(sequence, owner)?;
        }
        self.table_mut(sequence)?.additions.owner = owner;
        Ok(())
    }

    /// Checks that there is the column which a sequence is to go with.
    fn check_owner(&self, sequence: TableId, owner: Owner) -> Result<()> {
        let has_it = |table: &Table| {
            let columns = &table.layout.columns;
            columns.is_empty() || columns.iter().any(|column| column.number == owner.column)
        };
        match owner.table != sequence && self.table(owner.table).is_some_and(has_it) {
            true => Ok(()),
            false => Err(conflict("the column that the sequence is to go with was dropped meanwhile")),
        }
    }

    fn add_replica(&mut self, id: FragmentId, node: NodeId) -> Result<()> {
        let life = self.life();
        if self.node(node).is_none_or(|node| node.state != NodeState::Active) {
            return Err(conflict(format!("node {node} is not active")));
        }
        let fragment = self.fragment_mut(id)?;
        fragment.replicas.push(Replica { node, life, positions: 0, rows: 0, in_sync: false });
        Ok(())
    }

    fn restart_replica(&mut self, id: FragmentId, node: NodeId) -> Result<()> {
        let life = self.life();
        let fragment = self.fragment_mut(id)?;
        let replica = fragment.replicas.iter_mut().find(|replica| replica.node == node);
        let replica = replica.ok_or_else(|| missing(format_args!("replica on node {node} of {id}")))?;
        (replica.life, replica.in_sync) = (life, false);
        keep_one_in_sync(fragment, id)
    }

    fn drop_replica(&mut self, id: FragmentId, node: NodeId) -> Result<()> {
        let fragment = self.fragment_mut(id)?;
        if fragment.replica(node).is_none() {
            return Err(missing(format_args!("replica on node {node} of {id}")));
        }
        fragment.replicas.retain(|replica| replica.node != node);
        keep_one_in_sync(fragment, id)
    }

    fn prefer(&mut self, id: FragmentId, node: NodeId) -> Result<()> {
        let fragment = self.fragment_mut(id)?;
        let place = fragment.replicas.iter().position(|replica| replica.node == node);
        let place = place.ok_or_else(|| missing(format_args!("replica on node {node} of {id}")))?;
        fragment.replicas.get_mut(..=place).unwrap_or_default().rotate_right(1);
        Ok(())
    }

    fn begin(&mut self, id: TableId, statement: Option<StatementId>) -> Result<()> {
        let table = self.table_mut(id)?;
        if statement.is_some_and(|statement| table.finished(statement).is_some()) {
            return Err(conflict("the statement is published already: its result is in the catalog"));
        }
        let end =
            || Error::new(ErrorKind::Internal, format!("table \"{}\" has no further token", table.name));
        table.token = table.token.next().ok_or_else(end)?;
        Ok(())
    }

    pub(super) fn count(&mut self, id: TableId, column: u32, after: Option<u64>, count: u64) -> Result<()> {
        let since = self.epoch;
        let table = self.table_mut(id)?;
        if table.counter(column).is_none() {
            table.counters.push(Counter { column, last: 0, since });
        }
        for counter in table.counters.iter_mut().filter(|counter| counter.column == column) {
            if let Some(last) = after {
                (counter.last, counter.since) = (last, since);
            }
            let end = || Error::invalid_input("a column has no more values to count with");
            counter.last = counter.last.checked_add(count).ok_or_else(end)?;
        }
        Ok(())
    }

    fn promote(&mut self, coordinator: NodeId, term: Term) -> Result<()> {
        if term <= self.term {
            return Err(conflict(format!("term {term} is not higher than term {}", self.term)));
        }
        (self.term, self.coordinator) = (term, coordinator);
        if let Some(node) = self.nodes.iter_mut().find(|node| node.id == coordinator) {
            // Whoever promotes itself is there.
            if node.state == NodeState::Lost {
                node.state = NodeState::Active;
            }
        }
        Ok(())
    }
}

fn keep_one_in_sync(fragment: &Fragment, id: FragmentId) -> Result<()> {
    if fragment.in_sync().next().is_none() {
        return Err(Error::new(ErrorKind::Constraint, format!("this is the last replica in sync of {id}"))
            .with_sqlstate("55006"));
    }
    Ok(())
}
