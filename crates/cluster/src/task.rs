//! Runs a part of a query on a node: decodes its plan, puts the node's own rows in the place of scans
//! of fragments, and optimizes it as any plan of this node.

use crate::change;
use crate::codec;
use crate::coordinate::start_thread;
use crate::message::{Piece, Task};
use crate::node::Node;
use crate::peers::not_here;
use crate::state;
use crate::table::FragmentScanExec;
use arrow::datatypes::FieldRef;
use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::DefaultPhysicalPlanner;
use hypostyle_error::column_name::POSITION;
use hypostyle_error::external;
use hypostyle_exec::position::{Mode, PartsExec};
use hypostyle_exec::scan::{ScanExec, StoredTable};
use hypostyle_expr::setting::{Choice, Setting};
use hypostyle_placement::FragmentId;
use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::partition::Partitioning;
use hypostyle_storage::{DeclaredIndex, IndexSpec, Snapshot, TableData, convert};
use hypostyle_sync::Mutex;
use hypostyle_types::{BLOCK_ROWS, ColumnId, Error};
use roaring::RoaringTreemap;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Returns the settings of a session that decide about rows, or about how they are computed.
pub fn settings(options: &ConfigOptions) -> Vec<(String, String)> {
    let time_zone = options.execution.time_zone.clone();
    let time_zone = time_zone.map(|zone| ("datafusion.execution.time_zone".into(), zone));
    let pipelines = Setting::<Mode>::of(options);
    let pipelines = pipelines.map(|mode| (format!("{}.{}", Mode::PREFIX, Mode::NAME), mode.to_string()));
    time_zone.into_iter().chain(pipelines).collect()
}

/// Plans a task on this node and begins to run it. `state` is of a session of this node, for this
/// task alone.
///
/// # Errors
/// `Conflict` if the node does not know the tables; those of the plan.
pub fn run(node: &Arc<Node>, task: &Task, mut state: SessionState) -> Result<SendableRecordBatchStream> {
    for (name, value) in &task.settings {
        state.config_mut().options_mut().set(name, value)?;
    }
    let context = state.task_ctx();
    let own = node.known_catalog().and_then(|catalog| Own::of(node, catalog)).map_err(external)?;
    let planner = Planner { own, task, state: &state, context: &context };
    let plan = match planner.of_all_parts()? {
        Some(plan) => plan,
        None => planner.of_each_part()?,
    };
    execute_stream(plan, context)
}

/// The rows of a fragment, and the snapshot that they are of.
type Rows = (Arc<Snapshot>, Arc<TableData>);

/// What a task reads on this node: all of it in one snapshot, whose tables have indexes together.
struct Own<'a> {
    node: &'a Arc<Node>,
    catalog: Arc<Catalog>,
    snapshot: Arc<Snapshot>,
    /// The rows of replicated tables, which all parts read.
    replicated: Mutex<BTreeMap<FragmentId, Rows>>,
}

impl<'a> Own<'a> {
    fn of(node: &'a Arc<Node>, catalog: Arc<Catalog>) -> hypostyle_types::Result<Self> {
        Ok(Self { node, catalog, snapshot: node.database().snapshot()?, replicated: Mutex::default() })
    }

    fn rows(&self, piece: Piece) -> hypostyle_types::Result<Rows> {
        let table = self.catalog.table(piece.fragment.table);
        if table.is_none_or(|table| table.partitioning != Partitioning::Replicated) {
            return self.node.fragment(&self.snapshot, piece);
        }
        let mut replicated = self.replicated.lock();
        if let Some(found) = replicated.get(&piece.fragment) {
            return Ok(found.clone());
        }
        let found = self.node.fragment(&self.snapshot, piece)?;
        replicated.insert(piece.fragment, found.clone());
        Ok(found)
    }

    fn scan(
        &self,
        scan: &FragmentScanExec,
        piece: Piece,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (snapshot, data) = self.rows(piece).map_err(external)?;
        check_columns(scan, &data).map_err(external)?;
        let table = match scan.has_places() {
            true => StoredTable::with_positions(data.clone(), snapshot, 0),
            false => StoredTable::new(data.clone(), snapshot, HashMap::new()),
        };
        let found = match scan.rows.as_ref().filter(|_| scan.has_places()) {
            Some(places) => Some(positions_of(&data, places, piece)),
            None => self.positions_of_key(scan, piece, &table).transpose(),
        };
        let projection = scan.projection.clone();
        let rows = match found.transpose().map_err(external)? {
            Some(positions) => scan_at(&table, projection, &positions),
            None => {
                let partitions = options.execution.target_partitions;
                table.scan_where(projection, scan.predicate.as_ref(), partitions)
            }
        };
        match scan.has_places() {
            true => with_places(rows, piece.fragment.number, &data, options),
            false => Ok(rows),
        }
    }

    /// Returns the positions of the rows that a scan wants, if it wants those with one value of a key of its
    /// table, or of the columns of an index that was declared, and an index of the fragment finds them. One
    /// that is wished for often enough is built meanwhile.
    fn positions_of_key(
        &self,
        scan: &FragmentScanExec,
        piece: Piece,
        table: &StoredTable,
    ) -> hypostyle_types::Result<Option<RoaringTreemap>> {
        let (snapshot, data) = (table.snapshot(), table.data());
        let Some(predicate) = scan.predicate.as_ref().filter(|_| data.rows_in_files() >= INDEXED_ROWS_MIN)
        else {
            return Ok(None);
        };
        let values = values_of_columns(predicate);
        let made = self.node.made_in(snapshot, piece.fragment.table, piece.altered)?;
        let (Some(shell), Some(rows)) = (made.shell(snapshot), state::fragment(snapshot, piece.fragment))
        else {
            return Ok(None);
        };
        let entry = shell.entry();
        // The columns of the fragment are in the places of those of the table.
        let stored = |id: &ColumnId| {
            let place = entry.columns.iter().position(|column| column.id == *id)?;
            let (_, value) = values.iter().find(|(of, _)| *of == place)?;
            let column = rows.columns().get(place)?.entry();
            let value = convert(&value.to_array().ok()?, &column.name, &column.logical_type, 0).ok()?;
            Some((column.id, value))
        };
        let keys = entry.constraints.iter().filter_map(|constraint| constraint.rule.key());
        let declared = entry.indexes.iter().filter(|index| index.kind == DeclaredIndex::Key);
        let mut keys = keys.chain(declared.map(|index| index.columns.as_slice()));
        let found = keys.find_map(|key| key.iter().map(stored).collect::<Option<Vec<_>>>());
        let Some((columns, key)) = found.map(|found| found.into_iter().unzip::<_, _, Vec<_>, Vec<_>>())
        else {
            return Ok(None);
        };
        let spec = IndexSpec::key(rows.entry().id, &columns);
        if snapshot.wish_index(&spec) {
            let (snapshot, spec) = (snapshot.clone(), IndexSpec::key(spec.table, &columns));
            start_thread("hypostyle-index", move || {
                if let Err(error) = snapshot.build_index(&spec, || Ok(())) {
                    tracing::warn!(%error, "an index of a fragment is not built");
                }
            })?;
        }
        let index = snapshot.key_index(data, &columns)?.filter(|index| index.accepts(&key));
        let Some(index) = index else { return Ok(None) };
        let positions: RoaringTreemap = index.find_all(&key)?.into_iter().map(u64::from).collect();
        Ok((positions.len() <= FOUND_ROWS_MAX).then_some(positions))
    }
}

/// A fragment with fewer rows in its files is read sooner than an index of it is built.
const INDEXED_ROWS_MIN: u64 = BLOCK_ROWS;

/// More rows of one key than these are read by a scan.
const FOUND_ROWS_MAX: u64 = 8192;

/// Returns the places of columns that a predicate says the values of, with these.
fn values_of_columns(predicate: &Arc<dyn PhysicalExpr>) -> Vec<(usize, &ScalarValue)> {
    split_conjunction(predicate).into_iter().filter_map(value_of_column).collect()
}

fn value_of_column(part: &Arc<dyn PhysicalExpr>) -> Option<(usize, &ScalarValue)> {
    let binary = part.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Eq)?;
    let column = binary.left().downcast_ref::<Column>()?;
    let value = binary.right().downcast_ref::<Literal>()?.value();
    (!value.is_null()).then_some((column.index(), value))
}

/// Returns the positions of the rows at some places: of those that are in a fragment.
fn positions_of(
    data: &TableData,
    places: &RoaringTreemap,
    piece: Piece,
) -> hypostyle_types::Result<RoaringTreemap> {
    let places = change::by_fragment(places).remove(&piece.fragment.number).unwrap_or_default();
    let positions = change::positions_at(data, &places);
    match positions.len() < places.len() {
        true => Err(not_here(format!("this node lacks rows of fragment {} that were found", piece.fragment))),
        false => Ok(positions),
    }
}

/// Returns a scan of the rows at some positions.
fn scan_at(
    table: &StoredTable,
    projection: Vec<usize>,
    positions: &RoaringTreemap,
) -> Arc<dyn ExecutionPlan> {
    let (data, snapshot) = (table.data().clone(), table.snapshot().clone());
    let ranges = positions.iter().map(|position| position..position + 1).collect();
    Arc::new(ScanExec::new(data, snapshot, &table.schema(), projection, ranges, 1))
}

/// Checks that a scan is of the columns that a table has.
///
/// # Errors
/// `Conflict` (55000): whoever has planned it knows others.
fn check_columns(scan: &FragmentScanExec, table: &TableData) -> hypostyle_types::Result<()> {
    let planned = scan.table_schema.fields().iter().map(|field| field.name());
    let planned = planned.filter(|name| *name != POSITION);
    match planned.eq(table.columns().iter().map(|column| &column.entry().name)) {
        true => Ok(()),
        false => Err(not_here(format!("table {} has other columns on this node", scan.table))),
    }
}

/// Returns a scan with the places of rows instead of their positions.
fn with_places(
    scan: Arc<dyn ExecutionPlan>,
    fragment: u32,
    table: &Arc<TableData>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let function = Arc::new(change::places(fragment, table));
    let schema = scan.schema();
    let item = |(place, field): (usize, &FieldRef)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), place));
        let expr: Arc<dyn PhysicalExpr> = match field.name() == POSITION {
            true => Arc::new(ScalarFunctionExpr::new(
                function.name(),
                function.clone(),
                vec![column],
                field.clone(),
                Arc::new(options.clone()),
            )),
            false => column,
        };
        (expr, field.name().clone())
    };
    let items = schema.fields().iter().enumerate().map(item);
    Ok(Arc::new(ProjectionExec::try_new(items.collect::<Vec<_>>(), scan)?))
}

/// Makes the plan of a task.
struct Planner<'a> {
    own: Own<'a>,
    task: &'a Task,
    state: &'a SessionState,
    context: &'a TaskContext,
}

impl Planner<'_> {
    /// Returns one plan that runs over one part after the other; `None` where it can only be run by
    /// operators that put the rows of all parts together.
    fn of_all_parts(&self) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mode = Setting::<Mode>::of(self.state.config_options()).copied().unwrap_or(Mode::Off);
        if self.task.parts.len() < 2 || mode != Mode::On {
            return Ok(None);
        }
        let are_alike = Cell::new(true);
        let plan = self.plan(&|scan| {
            // One that each node has all rows of.
            let is_replicated = self.task.replicated.iter().any(|piece| piece.fragment.table == scan.table);
            let parts = self.task.parts.iter().take(if is_replicated { 1 } else { usize::MAX });
            let parts = parts.map(|part| self.scan(scan, part)).collect::<Result<Vec<_>>>()?;
            let first = parts.first().cloned().ok_or_else(|| external(unknown(scan)))?;
            if parts.len() == 1 {
                return Ok(first);
            }
            Ok(match PartsExec::try_new(parts) {
                Some(parts) => Arc::new(parts),
                None => {
                    are_alike.set(false);
                    first
                }
            })
        })?;
        Ok(if are_alike.get() && !PartsExec::is_in(&plan)? { Some(plan) } else { None })
    }

    /// Returns a plan for each part, and all of them together.
    fn of_each_part(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let parts = self.task.parts.iter();
        let mut plans =
            parts.map(|part| self.plan(&|scan| self.scan(scan, part))).collect::<Result<Vec<_>>>()?;
        match plans.len() {
            1 => plans.pop().ok_or_else(|| DataFusionError::Internal("a task without parts".into())),
            _ => UnionExec::try_new(plans),
        }
    }

    fn plan(&self, resolve: codec::Resolve<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = codec::decode(&self.task.plan, self.context, resolve)?;
        DefaultPhysicalPlanner::default().optimize_physical_plan(plan, self.state, |_, _| {})
    }

    /// Returns the scan of a table's fragment in a part, or of a replicated table.
    fn scan(&self, scan: &FragmentScanExec, part: &[Piece]) -> Result<Arc<dyn ExecutionPlan>> {
        let mut pieces = part.iter().chain(&self.task.replicated);
        let piece = pieces.find(|piece| piece.fragment.table == scan.table);
        let piece = piece.ok_or_else(|| external(unknown(scan)))?;
        self.own.scan(scan, *piece, self.state.config_options())
    }
}

fn unknown(scan: &FragmentScanExec) -> Error {
    not_here(format!("this node has no rows of table {} that are up to date", scan.table))
}

/// Returns the scan of a replicated table's rows on this node.
///
/// # Errors
/// `Conflict` if the node has none.
pub(crate) fn local_scan(
    node: &Arc<Node>,
    catalog: &Arc<Catalog>,
    scan: &FragmentScanExec,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let own = Own::of(node, catalog.clone()).map_err(external)?;
    let fragment = FragmentId { table: scan.table, number: 0 };
    let replica = own.catalog.replica(fragment, node.id()).filter(|replica| replica.in_sync);
    let found = catalog.table(scan.table).zip(replica).ok_or_else(|| external(unknown(scan)))?;
    own.scan(scan, Piece::of(found.0, fragment, found.1), options)
}
