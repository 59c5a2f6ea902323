//! Finds the parts of a logical plan that run where the rows are.
//!
//! A part may run on the nodes if its rows over the whole table are those over each fragment together:
//! filters and projections, joins with tables that each node has, joins of tables that are partitioned
//! alike, and aggregates of groups that are in one fragment each. Other aggregates are computed of each
//! fragment and combined, and so are the first rows in an order, of which wide columns may be fetched
//! last. Above a part is a [`Gather`]; what is above that runs on the node that was asked, or in
//! stages on all of them (`stages`; docs/cluster.md).

mod late;
mod part;
mod split;
pub(crate) mod unoptimized;

use crate::codec;
use crate::converter::refusal;
use crate::gather::{Expected, GatherExec, Placing, in_one_line, is_refusal, scans_apart};
use crate::node::Node;
use crate::table::{Fragments, PartitionedTable};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use hypostyle_exec::scan::StoredTable;
use hypostyle_placement::catalog::Catalog;
use hypostyle_types::TableId;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use unoptimized::Unoptimized;

/// Returns an optimized plan whose parts over partitioned tables run on the nodes that have them; `None`
/// for one that reads no such table.
///
/// # Errors
/// Those of DataFusion.
pub fn distribute(plan: &LogicalPlan, state: &SessionState) -> Result<Option<LogicalPlan>> {
    let Some((node, catalog)) = cluster_of(plan)? else { return Ok(None) };
    let functions = codec::functions(state.config())?;
    split::Splitter { node, catalog, functions, state }.whole(plan.clone()).map(Some)
}

/// Says whether a plan reads partitioned tables.
///
/// # Errors
/// Those of DataFusion.
pub(crate) fn reads_nodes(plan: &LogicalPlan) -> Result<bool> {
    Ok(cluster_of(plan)?.is_some())
}

/// Returns the tables whose fragments of equal numbers can be read apart, so that the rows of an optimized
/// plan over each number are all of its rows together; `None` if some of it runs over the rows of all.
///
/// # Errors
/// Those of DataFusion.
pub(crate) fn parted(plan: &LogicalPlan, state: &SessionState) -> Result<Option<Vec<TableId>>> {
    let Some((node, catalog)) = cluster_of(plan)? else { return Ok(None) };
    let functions = codec::functions(state.config())?;
    split::Splitter { node, catalog, functions, state }.parted(plan.clone())
}

/// Returns a distributed plan of which replicated tables are parts, too: one node reads each of them.
///
/// # Errors
/// `NotImplemented` for other tables than those of the cluster.
pub(crate) fn with_replicated_parts(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let mut cluster = None;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Extension(extension) = node
            && let Some(gather) = extension.node.as_any().downcast_ref::<Gather>()
        {
            cluster = Some((gather.node.clone(), gather.catalog.clone()));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let part = |plan: LogicalPlan| {
        let LogicalPlan::TableScan(scan) = &plan else { return Ok(Transformed::no(plan)) };
        let provider = source_as_provider(&scan.source)?;
        if provider.downcast_ref::<PartitionedTable>().is_some() {
            return Ok(Transformed::no(plan));
        }
        let replicated = provider.downcast_ref::<StoredTable>().and_then(StoredTable::replicated);
        match (replicated, &cluster) {
            (Some(id), Some((node, catalog))) => {
                Gather::of(plan, vec![id], false, None, (node, catalog)).map(Transformed::yes)
            }
            _ => Err(refusal(&format!("table {}, which is not of the cluster,", scan.table_name))),
        }
    };
    plan.clone().transform_up_with_subqueries(part).data()
}

/// Returns the cluster that a plan reads partitioned tables of.
fn cluster_of(plan: &LogicalPlan) -> Result<Option<(Arc<Node>, Arc<Catalog>)>> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<PartitionedTable>()
        {
            found = Some((table.node.clone(), table.catalog.clone()));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// A part of a plan that runs on the nodes which have the fragments of some tables.
#[derive(Clone, Debug)]
pub struct Gather {
    plan: LogicalPlan,
    tables: Vec<TableId>,
    node: Arc<Node>,
    catalog: Arc<Catalog>,
    /// The plan is an aggregate: the nodes compute its state over their fragments, and who asks
    /// makes results of all states.
    is_partial: bool,
    /// What is estimated of its rows.
    expected: Option<Expected>,
}

impl Gather {
    fn identity(&self) -> (&LogicalPlan, &[TableId], *const Catalog, bool) {
        (&self.plan, &self.tables, Arc::as_ptr(&self.catalog), self.is_partial)
    }

    /// Makes the node of a plan for a part, whose scans name tables of the cluster.
    fn of(
        plan: LogicalPlan,
        tables: Vec<TableId>,
        is_partial: bool,
        expected: Option<Expected>,
        (node, catalog): (&Arc<Node>, &Arc<Catalog>),
    ) -> Result<LogicalPlan> {
        let plan = with_fragments(plan)?;
        let (node, catalog) = (node.clone(), catalog.clone());
        let gather = Self { plan, tables, node, catalog, is_partial, expected };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(gather) }))
    }
}

/// Puts what stands for fragments in the place of tables that a node would find in its own database.
fn with_fragments(plan: LogicalPlan) -> Result<LogicalPlan> {
    let replaced = |node: LogicalPlan| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let provider = source_as_provider(&scan.source)?;
        let replicated = || provider.downcast_ref::<StoredTable>().and_then(StoredTable::replicated);
        let fragments = match provider.downcast_ref::<PartitionedTable>() {
            Some(table) => Some(table.fragments()),
            None => replicated().map(|id| Fragments::new(id, provider.schema())),
        };
        let Some(fragments) = fragments else { return Ok(Transformed::no(LogicalPlan::TableScan(scan))) };
        scan.source = provider_as_source(Arc::new(fragments));
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    };
    plan.transform_up(replaced).data()
}

impl PartialEq for Gather {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Gather {}

impl Hash for Gather {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Gather {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.plan.partial_cmp(&other.plan)
    }
}

impl UserDefinedLogicalNodeCore for Gather {
    fn name(&self) -> &str {
        "Gather"
    }

    // The part is planned by itself: no rule sees into it any more.
    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.plan.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gather: [{}]", in_one_line(&self.plan.display_indent().to_string()))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.is_empty() {
            true => Ok(self.clone()),
            false => Err(DataFusionError::Internal("a part that runs on nodes has no input".into())),
        }
    }
}

/// Plans [`Gather`], and the fetch of columns above it.
pub struct Gathers;

#[async_trait]
impl ExtensionPlanner for Gathers {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(fetch) = node.as_any().downcast_ref::<late::Fetch>() {
            return fetch.planned(inputs).map(Some);
        }
        let Some(gather) = node.as_any().downcast_ref::<Gather>() else { return Ok(None) };
        let state = session
            .as_any()
            .downcast_ref::<SessionState>()
            .ok_or_else(|| DataFusionError::Internal("a plan of a cluster needs a session".into()))?;
        // Each node optimizes the part for itself.
        let plan = planner.create_physical_plan(&gather.plan, &Unoptimized::new(state)).await?;
        let placing = Placing::new(gather.node.clone(), gather.catalog.clone(), gather.tables.clone());
        let config = state.config();
        let gathered = |part: Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
            match GatherExec::try_new(part.clone(), placing.clone(), config) {
                Ok(part) => Ok(Arc::new(part.expecting(gather.expected))),
                Err(error) if is_refusal(&error) => scans_apart(part, &placing, config),
                Err(error) => Err(error),
            }
        };
        match gather.is_partial {
            true => of_states(plan, &gathered).map(Some),
            false => gathered(plan).map(Some),
        }
    }
}

/// Gathers the states of an aggregate, below what makes results of them.
fn of_states(
    plan: Arc<dyn ExecutionPlan>,
    gathered: &dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_state = plan
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| *aggregate.mode() == AggregateMode::Partial);
    if is_state {
        return gathered(plan);
    }
    match plan.children().as_slice() {
        [input] => {
            let input = of_states(Arc::clone(input), gathered)?;
            plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
        }
        _ => Err(DataFusionError::Internal("an aggregate without a state".into())),
    }
}
