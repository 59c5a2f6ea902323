//! The operator that has the nodes of a cluster run a part of a plan, each over the fragments that it
//! has, and collects their rows. PosDB calls it UnionAll over ReceivePos (Chernishev et al., 2018).

use crate::codec;
use crate::groups;
use crate::message::{Piece, Request, Task};
use crate::node::Node;
use crate::peers::{Answer, is_behind, is_elsewhere};
use crate::prune;
use crate::table::FragmentScanExec;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, displayable};
use datafusion::prelude::SessionConfig;
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_error::{external, from_datafusion};
use hypostyle_expr::cast::cast;
use hypostyle_expr::{no_expressions, no_inputs};
use hypostyle_placement::catalog::{Catalog, Fragment, Replica, Table};
use hypostyle_placement::partition::Partitioning as Scheme;
use hypostyle_placement::{FragmentId, NodeId};
use hypostyle_types::{Error, ErrorKind, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often fragments are read elsewhere when their node cannot be reached or lacks them.
const ATTEMPTS_MAX: usize = 3;

/// How long a node is waited for that is behind, if no other one has its fragments, and how often it is
/// asked.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// Where fewer bytes are grouped, nobody asks how many groups they may have.
const GROUPED_BYTES_MIN: f64 = (16 << 20) as f64;

/// The share of rows that is expected to pass conditions of which nothing is estimated, and the least share.
const PASSING: f64 = 0.2;
const PASSING_MIN: f64 = 0.01;

/// The name of the measure of how often nodes were asked.
pub(crate) const ATTEMPTS: &str = "attempts";

/// Where the fragments are that a part of a plan reads.
#[derive(Clone, Debug)]
pub struct Placing {
    pub(crate) node: Arc<Node>,
    pub(crate) catalog: Arc<Catalog>,
    /// The partitioned tables. Those of equal numbers of several tables are read together.
    pub(crate) tables: Vec<TableId>,
    /// Which of several replicas is read, where it is not the preferred one: a part of 2^32.
    turn: u32,
}

/// The fragments that one node reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub node: NodeId,
    pub fragments: Vec<u32>,
}

impl Placing {
    /// Names the tables that a part reads.
    pub fn new(node: Arc<Node>, catalog: Arc<Catalog>, tables: Vec<TableId>) -> Self {
        let turn = node.next_turn();
        Self { node, catalog, tables, turn }
    }

    fn entries(&self) -> Vec<&Table> {
        self.tables.iter().filter_map(|id| self.catalog.table(*id)).collect()
    }

    /// Shares fragments out among the nodes that have them, without some nodes. If the preferred ones are all
    /// that there are, they share the work already, and keep in memory what they read. Otherwise the replicas
    /// of each fragment are read in turn, by one query after the other; a single one that this node has is
    /// read here.
    ///
    /// # Errors
    /// `Io` (58030) naming a fragment that no node has.
    pub(crate) fn share(
        &self,
        fragments: &[u32],
        without: &BTreeSet<NodeId>,
    ) -> hypostyle_types::Result<Vec<Share>> {
        let entries = self.entries();
        let holders: Vec<Vec<NodeId>> =
            fragments.iter().map(|number| holders(&entries, *number, without)).collect();
        let preferred: BTreeSet<NodeId> = holders.iter().filter_map(|nodes| nodes.first().copied()).collect();
        let all_work = holders.iter().flatten().all(|node| preferred.contains(node));
        let (own, turn) = (self.node.id(), if all_work { 0 } else { self.turn });
        let mut shares = BTreeMap::<NodeId, Vec<u32>>::new();
        for (number, nodes) in fragments.iter().zip(&holders) {
            let node = match nodes.contains(&own) && fragments.len() == 1 {
                true => Some(own),
                false => nodes.get(part_of(nodes.len(), turn)).copied(),
            };
            let node = node.ok_or_else(|| self.nobody(*number, without))?;
            shares.entry(node).or_default().push(*number);
        }
        Ok(shares.into_iter().map(|(node, fragments)| Share { node, fragments }).collect())
    }

    /// Returns the fragments that can have rows which a plan reads, and one if there are none.
    fn wanted(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<u32>> {
        let entries = self.entries();
        let needed = (0..).zip(prune::needed(plan, &entries)?);
        let found: Vec<u32> = needed.filter(|(_, is)| *is).map(|(number, _)| number).collect();
        Ok(if found.is_empty() { vec![self.any_fragment(&entries)] } else { found })
    }

    /// Returns a fragment that this node has, or else another one that is not lost.
    fn any_fragment(&self, entries: &[&Table]) -> u32 {
        let count = entries.first().map_or(0, |table| table.fragments.len());
        let mut any = None;
        for number in (0..).take(count) {
            let holders = holders(entries, number, &BTreeSet::new());
            if holders.contains(&self.node.id()) {
                return number;
            }
            any = any.or_else(|| (!holders.is_empty()).then_some(number));
        }
        any.unwrap_or(0)
    }

    /// Says whether no node has a fragment's replica any more that the catalog names: those that are there
    /// now have the rows of later statements, too.
    fn are_moved(&self, fragments: &[u32]) -> bool {
        let Some(now) = self.node.catalog() else { return false };
        let is_moved = |(id, then): (FragmentId, &Fragment)| {
            let is_kept =
                |replica: &Replica| now.replica(id, replica.node).is_some_and(|own| own.life == replica.life);
            fragments.contains(&id.number) && !then.in_sync().any(is_kept)
        };
        let tables = self.entries().into_iter().filter(|table| now.table(table.id).is_some());
        tables.flat_map(Table::numbered).any(is_moved)
    }

    /// Returns the error of a snapshot whose rows are on no node any more.
    fn too_old(&self, last: &Error) -> Error {
        let message = format!(
            "the snapshot of epoch {} is too old: rows of {} were moved to other nodes since, and have changed there; \
             run the transaction again ({})",
            self.catalog.epoch,
            self.table_names(),
            last.message()
        );
        Error::new(ErrorKind::Conflict, message).with_sqlstate("40001")
    }

    /// Returns how many rows other nodes send if each fragment gives its first ones.
    pub(crate) fn rows_sent(&self, first: u64) -> u64 {
        let entries = self.entries();
        let numbered = entries.first().into_iter().flat_map(|table| table.numbered());
        let with_rows = numbered.filter(|(_, fragment)| fragment.rows > 0);
        let with_rows: Vec<u32> = with_rows.map(|(id, _)| id.number).collect();
        let shares = self.share(&with_rows, &BTreeSet::new()).unwrap_or_default();
        let others = shares.iter().filter(|share| share.node != self.node.id());
        let fragments = others.flat_map(|share| &share.fragments);
        let rows = fragments.filter_map(|number| entries.first()?.fragment(*number));
        rows.map(|fragment| fragment.rows.min(first)).sum()
    }

    /// Returns the names of the tables.
    pub(crate) fn table_names(&self) -> String {
        self.entries().iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn nobody(&self, number: u32, without: &BTreeSet<NodeId>) -> Error {
        let table = self.entries().first().map_or("?", |table| table.name.as_str());
        let lost: Vec<String> = without.iter().map(|id| self.catalog.node_name(*id)).collect();
        let lost =
            if lost.is_empty() { String::new() } else { format!(" (asked in vain: {})", lost.join(", ")) };
        let message = format!("no node that is there has fragment {number} of table \"{table}\"{lost}");
        Error::new(ErrorKind::Io, message).with_sqlstate("58030")
    }

    /// Returns what a node reads of its replicas for one share.
    fn task(
        &self,
        plan: &[u8],
        settings: &[(String, String)],
        share: &Share,
    ) -> hypostyle_types::Result<Task> {
        let entries = self.entries();
        let piece = |table: &Table, number: u32| {
            let replica = table.fragment(number).and_then(|fragment| fragment.replica(share.node));
            let fragment = FragmentId { table: table.id, number };
            replica
                .filter(|replica| replica.in_sync)
                .map(|replica| Piece::of(table, fragment, replica))
                .ok_or_else(|| self.nobody(number, &BTreeSet::new()))
        };
        let part = |number: &u32| entries.iter().map(|table| piece(table, *number)).collect();
        let parts = share.fragments.iter().map(part).collect::<hypostyle_types::Result<_>>()?;
        let is_replicated = |table: &&Table| table.partitioning == Scheme::Replicated;
        // A replica that is behind is left out: a part that reads it fails, and is run elsewhere.
        let replicated =
            self.catalog.tables.iter().filter(is_replicated).filter_map(|table| piece(table, 0).ok());
        Ok(Task {
            plan: plan.to_vec(),
            epoch: self.catalog.epoch,
            parts,
            replicated: replicated.collect(),
            settings: settings.to_vec(),
        })
    }
}

/// Returns a part of 2^32 of some number, rounded down.
fn part_of(count: usize, turn: u32) -> usize {
    let part = (count as u64 * u64::from(turn)) >> 32;
    usize::try_from(part).unwrap_or(0)
}

/// Returns the nodes that have a fragment of all tables, the preferred one first.
fn holders(tables: &[&Table], number: u32, without: &BTreeSet<NodeId>) -> Vec<NodeId> {
    let fragments: Option<Vec<&Fragment>> = tables.iter().map(|table| table.fragment(number)).collect();
    let fragments = fragments.unwrap_or_default();
    let has = |node: &NodeId| {
        let is_there = |fragment: &&Fragment| {
            !fragment.lost && fragment.replica(*node).is_some_and(|replica| replica.in_sync)
        };
        !without.contains(node) && fragments.iter().all(is_there)
    };
    let nodes = fragments.first().into_iter().flat_map(|fragment| &fragment.replicas);
    nodes.map(|replica| replica.node).filter(has).collect()
}

/// What the planner estimates of a part, for all nodes together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// The rows that pass its conditions, before they are grouped.
    pub rows: f64,
    /// The groups of its uppermost aggregate, where the values of the columns are counted.
    pub groups: Option<f64>,
}

/// The rows that nodes are expected to give of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Given {
    /// Those of all nodes.
    pub rows: f64,
    /// Those of other nodes than the one that was asked.
    pub of_others: f64,
    /// Those that its tables have, whatever conditions and groups leave of them.
    pub of_tables: f64,
    /// Each of them is a group of its node.
    pub is_grouped: bool,
}

/// Has nodes run a plan, and collects their rows: one partition for each node.
#[derive(Clone)]
pub struct GatherExec {
    /// What the nodes run: a plan before DataFusion's physical rules.
    plan: Arc<dyn ExecutionPlan>,
    /// What was estimated of it, if it was.
    expected: Option<Expected>,
    bytes: Arc<Vec<u8>>,
    placing: Placing,
    shares: Vec<Share>,
    settings: Arc<Vec<(String, String)>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for GatherExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatherExec")
            .field("plan", &self.plan)
            .field("shares", &self.shares)
            .finish_non_exhaustive()
    }
}

impl GatherExec {
    /// Makes the operator.
    ///
    /// # Errors
    /// `NotImplemented` if the plan cannot travel; `Io` (58030) if no node has a fragment.
    pub fn try_new(plan: Arc<dyn ExecutionPlan>, placing: Placing, config: &SessionConfig) -> Result<Self> {
        let fragments = placing.wanted(&plan)?;
        Self::over(plan, placing, &fragments, config)
    }

    /// Makes the operator for some fragments.
    pub(crate) fn over(
        plan: Arc<dyn ExecutionPlan>,
        placing: Placing,
        fragments: &[u32],
        config: &SessionConfig,
    ) -> Result<Self> {
        let bytes = codec::encode(plan.clone(), &codec::functions(config)?)?;
        let shares = placing.share(fragments, &BTreeSet::new()).map_err(external)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(shares.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let settings = crate::task::settings(config.options());
        Ok(Self {
            plan,
            expected: None,
            bytes: Arc::new(bytes),
            placing,
            shares,
            settings: Arc::new(settings),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Makes the operator for nothing but a scan. A predicate that cannot travel is left out: it is
    /// applied again above.
    pub(crate) fn of_scan(
        scan: FragmentScanExec,
        placing: Placing,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let whole: Arc<dyn ExecutionPlan> = Arc::new(scan.clone());
        let fragments = placing.wanted(&whole)?;
        match Self::over(whole, placing.clone(), &fragments, config) {
            Err(error) if is_refusal(&error) => {
                let scan = scan.of_all_rows();
                Ok(Arc::new(Self::over(Arc::new(scan), placing, &fragments, config)?))
            }
            other => Ok(Arc::new(other?)),
        }
    }

    /// Returns what each node runs, in the order of the partitions.
    ///
    /// # Errors
    /// `Io` (58030) if a node has no replica of a fragment that it should read.
    pub(crate) fn tasks(&self) -> hypostyle_types::Result<Vec<(NodeId, Task)>> {
        let task = |share: &Share| Ok((share.node, self.placing.task(&self.bytes, &self.settings, share)?));
        self.shares.iter().map(task).collect()
    }

    /// Returns the node that the operator is on.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.placing.node
    }

    /// Returns the nodes that are asked.
    pub(crate) fn asked(&self) -> impl Iterator<Item = NodeId> {
        self.shares.iter().map(|share| share.node)
    }

    /// Returns the operator with what was estimated of its part.
    #[must_use]
    pub(crate) fn expecting(self, expected: Option<Expected>) -> Self {
        Self { expected, ..self }
    }

    /// Estimates the rows that nodes give.
    pub(crate) fn given(&self) -> Given {
        let own = self.placing.node.id();
        let given = self.given_by_nodes();
        let others = given.iter().filter(|(node, _)| *node != own);
        Given {
            rows: given.iter().map(|(_, rows)| rows).sum(),
            of_others: others.map(|(_, rows)| rows).sum(),
            of_tables: self.rows_of_tables() as f64,
            is_grouped: self.has(|node| node.is::<AggregateExec>()),
        }
    }

    /// Estimates how many bytes all nodes have.
    pub(crate) fn bytes_expected(&self) -> f64 {
        self.given_by_nodes().iter().map(|(_, rows)| rows).sum::<f64>() * self.row_bytes() as f64
    }

    /// Returns how many bytes all nodes would have if all rows of the largest table passed all conditions,
    /// but for long texts; `None` if each row may become several.
    pub(crate) fn bytes_of_tables(&self) -> Option<f64> {
        let may_be_more = |node: &Arc<dyn ExecutionPlan>| {
            node.is::<UnnestExec>() || node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>()
        };
        (!self.has(may_be_more)).then(|| self.rows_of_tables() as f64 * self.row_bytes() as f64)
    }

    /// Says whether there is such an operator in the part.
    fn has(&self, is: impl Fn(&Arc<dyn ExecutionPlan>) -> bool) -> bool {
        self.plan.exists(|node| Ok(is(node))).unwrap_or(true)
    }

    fn rows_of_tables(&self) -> u64 {
        self.shares.iter().map(|share| self.rows_of(share)).sum()
    }

    /// Returns how many rows a node reads.
    fn rows_of(&self, share: &Share) -> u64 {
        let entries = self.placing.entries();
        let rows_of = |number: &u32| {
            let rows = entries.iter().filter_map(|table| table.fragment(*number));
            rows.map(|fragment| fragment.rows).max().unwrap_or(0)
        };
        share.fragments.iter().map(rows_of).sum()
    }

    /// Estimates the rows that each node gives: those that pass its conditions, or a tenth of them where
    /// there are groups and this node does not know how many there can be.
    fn given_by_nodes(&self) -> Vec<(NodeId, f64)> {
        let first = self.plan.fetch().map_or(f64::INFINITY, |rows| rows as f64);
        let passing = self.share_of_passing();
        let passed = |share: &Share| {
            let rows = self.rows_of(share) as f64 * passing;
            (share.node, rows.min(first * share.fragments.len() as f64))
        };
        let passed: Vec<(NodeId, f64)> = self.shares.iter().map(passed).collect();
        if !self.has(|node| node.is::<AggregateExec>()) {
            return passed;
        }
        let all: f64 = passed.iter().map(|(_, rows)| rows).sum();
        let known = match all * (self.row_bytes() as f64) < GROUPED_BYTES_MIN {
            true => None,
            false => self.groups().or(self.expected.and_then(|expected| expected.groups)),
        };
        let grouped = |rows: f64| known.map_or(rows / 10.0, |groups| rows.min(groups));
        passed.into_iter().map(|(node, rows)| (node, grouped(rows))).collect()
    }

    /// Estimates how many rows come of each row of the largest table. Of values that nobody has counted, the
    /// planner takes conditions for those of a key, so that they leave too few.
    fn share_of_passing(&self) -> f64 {
        let is_filtered = self.has(|node| node.is::<FilterExec>());
        match (self.expected, self.rows_of_tables() as f64) {
            (Some(expected), all) if all > 0.0 => {
                let least = if is_filtered { PASSING_MIN } else { 0.0 };
                (expected.rows / all).max(least)
            }
            _ if is_filtered => PASSING,
            _ => 1.0,
        }
    }

    /// Returns how many groups there are at most, by the fragments that this node has.
    fn groups(&self) -> Option<f64> {
        let own = self.shares.iter().find(|share| share.node == self.placing.node.id())?;
        groups::groups(&self.plan, &self.placing.node, &own.fragments).map(|groups| groups as f64)
    }

    /// Estimates the bytes of a row.
    fn row_bytes(&self) -> u64 {
        row_bytes(&self.schema())
    }

    fn start(&self, share: &Share, wanted: Weak<()>) -> hypostyle_types::Result<SendableRecordBatchStream> {
        let task = self.placing.task(&self.bytes, &self.settings, share)?;
        let (node, request) = (&self.placing.node, Request::Run(Box::new(task)));
        if share.node == node.id() {
            return node.serve(request, None).and_then(Answer::rows);
        }
        let member =
            self.placing.catalog.node(share.node).ok_or_else(|| crate::coordinate::gone(share.node))?;
        node.peers.call_while(member, &node.addressed(member, request)?, wanted).and_then(Answer::rows)
    }

    /// Says whether a node that was asked for a share lacks its rows, and so do all others, because they
    /// were moved.
    fn is_too_old(&self, share: &Share, failed: &BTreeSet<NodeId>, error: &DataFusionError) -> bool {
        let without = failed.iter().copied().chain([share.node]).collect();
        of_node(error).is_some_and(is_behind)
            && self.placing.share(&share.fragments, &without).is_err()
            && self.placing.are_moved(&share.fragments)
    }

    /// Starts a share and waits for its first row; where a node cannot be reached, others that have
    /// its fragments take them over.
    async fn rows(self, share: Share) -> Result<SendableRecordBatchStream> {
        let (mut waiting, mut failed, mut started) = (vec![share], BTreeSet::new(), Vec::new());
        let since = Instant::now();
        // Dropped with the rows: a query that is cancelled ends on all nodes.
        let wanted = Arc::new(());
        let attempts = MetricBuilder::new(&self.metrics).global_counter(ATTEMPTS);
        while let Some(share) = waiting.pop() {
            attempts.add(1);
            let (own, of, as_long_as) = (self.clone(), share.clone(), Arc::downgrade(&wanted));
            let first = match self.placing.node.id() == share.node {
                true => own.start(&of, as_long_as),
                false => tokio::task::spawn_blocking(move || own.start(&of, as_long_as)).await.map_err(
                    |error| DataFusionError::Execution(format!("a request to a node ended: {error}")),
                )?,
            };
            let first = match first {
                Ok(mut rows) => match rows.next().await {
                    Some(Err(error)) if of_node(&error).is_some_and(is_elsewhere) => Err(error),
                    first => Ok(stream::iter(first).chain(rows)),
                },
                Err(error) if is_elsewhere(&error) => Err(external(error)),
                Err(error) => return Err(external(error)),
            };
            match first {
                Ok(rows) => started.push(rows),
                Err(error) if self.is_too_old(&share, &failed, &error) => {
                    return Err(external(self.placing.too_old(&from_datafusion(error))));
                }
                Err(error) if failed.len() + 1 >= ATTEMPTS_MAX => return Err(error),
                Err(error) => {
                    failed.insert(share.node);
                    match self.placing.share(&share.fragments, &failed) {
                        Ok(others) => waiting.extend(others),
                        // It may be about to alter its rows, or to catch up.
                        Err(_) if of_node(&error).is_some_and(is_behind) && since.elapsed() < PATIENCE => {
                            failed.remove(&share.node);
                            tokio::time::sleep(PAUSE).await;
                            waiting.push(share);
                        }
                        Err(nobody) => {
                            return Err(external(because(&nobody, &from_datafusion(error))));
                        }
                    }
                }
            }
        }
        let schema = self.plan.schema();
        let rows = stream::iter(started).flatten();
        let rows = rows.map(move |batch| {
            let _as_long_as = &wanted;
            as_planned(batch?, &schema)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.plan.schema(), rows)))
    }
}

/// Estimates the bytes of a row.
pub(crate) fn row_bytes(schema: &SchemaRef) -> u64 {
    schema.fields().iter().map(width).sum()
}

/// Estimates the bytes of a value.
fn width(field: &FieldRef) -> u64 {
    const OF_TEXT: u64 = 24;
    match field.data_type() {
        DataType::Boolean => 1,
        other => other.primitive_width().map_or(OF_TEXT, |bytes| bytes as u64),
    }
}

/// Says why nobody has some fragments: what the last node has answered that should have them.
fn because(nobody: &Error, last: &Error) -> Error {
    let message = format!("{}: {}", nobody.message(), last.message());
    Error::new(nobody.kind(), message).with_sqlstate(nobody.sqlstate())
}

/// Returns rows in the types of the plan: on the wire some have those of results.
pub(crate) fn as_planned(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let of_field = |(values, field): (&ArrayRef, &FieldRef)| match values.data_type() == field.data_type() {
        true => Ok(values.clone()),
        false => cast(values, field, false),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(of_field);
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Returns the text of a plan in one line.
pub(crate) fn in_one_line(plan: &str) -> String {
    plan.lines().map(str::trim).collect::<Vec<_>>().join(" <- ")
}

/// Says whether an error is that something cannot be sent.
pub(crate) fn is_refusal(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::NotImplemented(_) => true,
        DataFusionError::External(error) => {
            error.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::Unsupported)
        }
        _ => false,
    }
}

/// Returns what a node has answered, if an error of a stream is that.
pub(crate) fn of_node(error: &DataFusionError) -> Option<&Error> {
    match error.find_root() {
        DataFusionError::External(error) => error.downcast_ref(),
        _ => None,
    }
}

impl DisplayAs for GatherExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let catalog = &self.placing.catalog;
        let share = |share: &Share| {
            let fragments: Vec<String> = share.fragments.iter().map(u32::to_string).collect();
            format!("{}: {}", catalog.node_name(share.node), fragments.join(" "))
        };
        let shares: Vec<String> = self.shares.iter().map(share).collect();
        let of = self.placing.table_names();
        write!(f, "GatherExec: fragments of {of}=[{}], epoch={}", shares.join("; "), catalog.epoch)?;
        write!(f, ", plan bytes={}, runs=[", self.bytes.len())?;
        write!(f, "{}]", in_one_line(&displayable(self.plan.as_ref()).indent(false).to_string()))
    }
}

impl ExecutionPlan for GatherExec {
    fn name(&self) -> &'static str {
        "GatherExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    no_inputs!();

    no_expressions!();

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let share = self.shares.get(partition).cloned();
        let share = share.ok_or_else(|| DataFusionError::Internal(format!("no share {partition}")))?;
        let measured = BaselineMetrics::new(&self.metrics, partition);
        let rows = stream::once(self.clone().rows(share)).try_flatten();
        let rows = rows.inspect_ok(move |batch| {
            let _counted = batch.record_output(&measured);
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.plan.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Returns a plan that runs here what cannot travel: only scans run where their rows are.
///
/// # Errors
/// Those of [`GatherExec::try_new`].
pub(crate) fn scans_apart(
    plan: Arc<dyn ExecutionPlan>,
    placing: &Placing,
    config: &SessionConfig,
) -> Result<Arc<dyn ExecutionPlan>> {
    codec::resolved(plan, &|scan: &FragmentScanExec| {
        let is_replicated =
            placing.catalog.table(scan.table).is_some_and(|table| table.partitioning == Scheme::Replicated);
        let own = placing.catalog.replica(FragmentId { table: scan.table, number: 0 }, placing.node.id());
        if is_replicated && own.is_some_and(|own| own.in_sync) {
            return crate::task::local_scan(&placing.node, &placing.catalog, scan, config.options());
        }
        let own = Placing { tables: vec![scan.table], ..placing.clone() };
        GatherExec::of_scan(scan.clone(), own, config)
    })
}
