//! Decides whether a query runs in stages, and checks these: one that another node might compute otherwise is
//! left as it is.

use super::broadcast::{collected_by_all, with_small_sides};
use super::channel::{Channels, Nodes};
use super::exec::StagesExec;
use super::head::bounded;
use super::leaf::Leaves;
use super::route::Routes;
use super::setting::InStages;
use super::worth::{Cost, in_stages as cost_in_stages, without_stages};
use crate::codec;
use crate::converter::refusal;
use crate::distribute::unoptimized::Unoptimized;
use crate::distribute::{Gathers, with_replicated_parts};
use crate::gather::GatherExec;
use crate::node::Node;
use crate::table::FragmentScanExec;
use crate::task::settings;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::format::ExplainFormat;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Explain, Expr, LogicalPlan, LogicalPlanBuilder, PlanType, StringifiedPlan};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions, displayable,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    BroadcastExec, DistributedExec, DistributedExt, DistributedLeafExec, NetworkBoundaryExt,
    NetworkBroadcastExec, NetworkShuffleExec, SessionStateBuilderExt,
};
use hypostyle_exec::optimizer::rules_of_shared_plans;
use hypostyle_expr::setting::Setting;
use hypostyle_placement::NodeId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The partitions of each task, at most: each has a connection to each task that it takes rows from.
pub(super) const PARTITIONS_MAX: usize = 4;

/// Tasks of one partition would share nothing out.
const PARTITIONS_MIN: usize = 2;

/// Returns the plan of a query whose logical plan is `distributed`, in stages where that is possible and
/// wanted; else as it is. An EXPLAIN is that of its query.
///
/// # Errors
/// Those of DataFusion, for an EXPLAIN.
pub async fn in_stages(
    distributed: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wanted = Setting::<InStages>::of(state.config_options()).copied().unwrap_or(InStages::Off);
    if wanted == InStages::Off {
        return Ok(physical);
    }
    match distributed {
        LogicalPlan::Explain(explain) => explained(explain, physical, wanted, state).await,
        LogicalPlan::Analyze(analyze) => {
            let Some(input) = physical.downcast_ref::<AnalyzeExec>().map(|analyze| analyze.input().clone())
            else {
                return Ok(physical);
            };
            match staged(&analyze.input, &input, wanted, state).await {
                Ok(staged) => physical.replace_children(
                    vec![StagesExec::measured(staged)],
                    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
                ),
                Err(_) => Ok(physical),
            }
        }
        LogicalPlan::Copy(copy) => written(copy, physical, wanted, state).await,
        LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => Ok(physical),
        query => Ok(staged(query, &physical, wanted, state).await.unwrap_or(physical)),
    }
}

/// Returns an EXPLAIN that shows the stages of its query, or why there are none, where these are text.
async fn explained(
    explain: &Explain,
    shown: Arc<dyn ExecutionPlan>,
    wanted: InStages,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(texts) = shown.downcast_ref::<ExplainExec>() else { return Ok(shown) };
    if !matches!(explain.explain_format, ExplainFormat::Indent) {
        return Ok(shown);
    }
    let Ok(gathered) = state.query_planner().create_physical_plan(&explain.plan, state).await else {
        return Ok(shown);
    };
    let staged = match staged(&explain.plan, &gathered, wanted, state).await {
        Err(Without::OneNode) => return Ok(shown),
        other => other,
    };
    let text_of = |plan: &StringifiedPlan| match &staged {
        Ok(staged) => displayable(staged.as_ref()).indent(explain.verbose).to_string(),
        Err(because) => format!("{}without stages: {because}\n", plan.plan),
    };
    let plans = texts.stringified_plans().iter().map(|plan| match plan.plan_type {
        PlanType::FinalPhysicalPlan => StringifiedPlan::new(PlanType::FinalPhysicalPlan, text_of(plan)),
        _ => plan.clone(),
    });
    Ok(Arc::new(ExplainExec::new(shown.schema(), plans.collect(), texts.verbose())))
}

/// Returns what writes the rows of a query into a file, with the query in stages.
async fn written(
    copy: &CopyTo,
    sink: Arc<dyn ExecutionPlan>,
    wanted: InStages,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !sink.is::<DataSinkExec>() {
        return Ok(sink);
    }
    let Ok(gathered) = state.query_planner().create_physical_plan(&copy.input, state).await else {
        return Ok(sink);
    };
    match staged(&copy.input, &gathered, wanted, state).await {
        Ok(staged) => sink
            .replace_children(vec![staged], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)),
        Err(_) => Ok(sink),
    }
}

/// Why a query runs without stages.
enum Without {
    /// Fewer than two nodes have rows of it.
    OneNode,
    /// None of its rows have to meet others.
    NothingMeets,
    /// It costs so much, which is little.
    Little(Cost),
    /// It costs so much, and more in stages, or hardly less.
    Cheaper { without: Cost, in_stages: Cost },
    /// It cannot run so.
    Refused(DataFusionError),
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneNode => f.write_str("one node has its rows"),
            Self::NothingMeets => f.write_str("no rows of several nodes have to meet"),
            Self::Little(cost) => write!(f, "it needs only about {cost} of this node"),
            Self::Cheaper { without, in_stages } => {
                write!(f, "it needs about {without} of this node, and {in_stages} of each one in stages")
            }
            Self::Refused(error) => f.write_str(&error.strip_backtrace().replace('\n', " ")),
        }
    }
}

/// Returns a query in stages, or why it runs without them: it cannot run so, or is sooner done without.
async fn staged(
    distributed: &LogicalPlan,
    gathered: &Arc<dyn ExecutionPlan>,
    wanted: InStages,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>, Without> {
    let (node, nodes) = asked(gathered).ok_or(Without::OneNode)?;
    if nodes.len() < 2 {
        return Err(Without::OneNode);
    }
    let without = without_stages(gathered);
    if wanted == InStages::Auto && !without.is_much() {
        return Err(Without::Little(without));
    }
    let stages = match planned(distributed, gathered, (&node, nodes.as_slice()), state).await {
        Ok(stages) => stages.ok_or(Without::NothingMeets)?,
        Err(error) => {
            tracing::debug!(%error, "a query does not run in stages");
            return Err(Without::Refused(error));
        }
    };
    let in_stages = cost_in_stages(&stages);
    if wanted == InStages::Auto && !in_stages.is_worth(without) {
        return Err(Without::Cheaper { without, in_stages });
    }
    let costs = format!("expected={in_stages} of each node, {without} of this one without stages");
    Ok(Arc::new(StagesExec::new(stages, gathered.clone(), node, Arc::new(nodes), costs)))
}

/// Returns the node that was asked for a query, and those that have rows of it.
fn asked(gathered: &Arc<dyn ExecutionPlan>) -> Option<(Arc<Node>, Vec<NodeId>)> {
    let (mut own, mut nodes) = (None, BTreeSet::new());
    let found = gathered.apply(|node| {
        if let Some(gather) = node.downcast_ref::<GatherExec>() {
            own = Some(gather.node().clone());
            nodes.extend(gather.asked());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.ok()?;
    Some((own?, nodes.into_iter().collect()))
}

/// Returns the stages of a query; `None` if no rows of it have to be shared out anew.
///
/// # Errors
/// Those of planning, and `NotImplemented` for what cannot run in stages.
async fn planned(
    distributed: &LogicalPlan,
    gathered: &Arc<dyn ExecutionPlan>,
    (node, nodes): (&Arc<Node>, &[NodeId]),
    state: &SessionState,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if is_volatile(distributed)? {
        return Err(refusal("a query with volatile functions"));
    }
    let (distributed, nodes) = (&with_replicated_parts(distributed)?, Arc::new(nodes.to_vec()));
    let made = match made(distributed, (node, &nodes), state, Sides::SmallToAll).await {
        Ok(None) => made(distributed, (node, &nodes), state, Sides::ByKeys).await?,
        Err(error) => {
            tracing::debug!(%error, "small sides of joins do not go to all nodes");
            made(distributed, (node, &nodes), state, Sides::ByKeys).await?
        }
        Ok(some) => some,
    };
    let Some(stages) = made else { return Ok(None) };
    let told = |plan: &Arc<dyn ExecutionPlan>| -> Vec<_> {
        let schema = plan.schema();
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    if told(&stages) != told(gathered) {
        return Err(refusal("a query with other columns in stages"));
    }
    bounded(stages, state.config_options()).map(Some)
}

/// Where the sides of joins go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sides {
    /// Small ones go to all tasks; the others stay, if the rest of the query lets them.
    SmallToAll,
    /// Both are shared out by their keys.
    ByKeys,
}

/// Returns a query in stages that are checked; `None` if no rows of it have to be shared out anew, or no join
/// has a small side where these are to go to all tasks.
///
/// # Errors
/// Those of planning, and `NotImplemented` for what cannot run in stages.
async fn made(
    distributed: &LogicalPlan,
    (node, nodes): (&Arc<Node>, &Arc<Vec<NodeId>>),
    state: &SessionState,
    sides: Sides,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    for partitions in [PARTITIONS_MAX, PARTITIONS_MIN] {
        let channels = Channels::new(node, settings(state.config_options()), None);
        let mut config = configured(state.config().clone(), nodes, channels, partitions)?;
        config.set_distributed_broadcast_joins(sides == Sides::SmallToAll)?;
        let Some(plan) = whole(distributed, &config, state, (nodes.len(), sides)).await? else {
            return Ok(None);
        };
        let Some(stages) = split(plan, config, state).await? else { return Ok(None) };
        if places(&stages) > node.given_max() {
            continue;
        }
        for input in stages.children() {
            check(input, 1)?;
            check_travels(input, state)?;
        }
        return Ok(Some(stages));
    }
    Err(refusal("a query of so many stages"))
}

/// Returns how many partitions each node gives rows to, if it has a task of each stage.
fn places(node: &Arc<dyn ExecutionPlan>) -> usize {
    let stage = node.as_network_boundary().and_then(|boundary| boundary.input_stage().local_plan());
    let own = stage.map_or(0, |plan| plan.output_partitioning().partition_count());
    own + node.children().into_iter().map(places).sum::<usize>()
}

/// Says whether some expression of a query has another value each time.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut is_volatile = false;
    plan.apply_with_subqueries(|node| {
        is_volatile |= node.expressions().iter().any(Expr::is_volatile);
        Ok(if is_volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_volatile)
}

/// Sets a session up for a query in stages, whose tasks have so many partitions at most.
///
/// # Errors
/// Those of the settings.
pub(super) fn configured(
    mut config: SessionConfig,
    nodes: &Arc<Vec<NodeId>>,
    channels: Channels,
    most: usize,
) -> Result<SessionConfig> {
    let options = config.options_mut();
    let partitions = options.execution.target_partitions;
    options.execution.target_partitions = partitions.clamp(PARTITIONS_MIN, most);
    options.execution.collect_statistics = false;
    let optimizer = &mut options.optimizer;
    // A side of a join that one task collects would have to be copied to all, which `broadcast` decides.
    optimizer.hash_join_single_partition_threshold = 0;
    optimizer.hash_join_single_partition_threshold_rows = 0;
    optimizer.prefer_existing_union = true;
    optimizer.enable_round_robin_repartition = false;
    optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    // What a side of a join finds out while it runs stays on its node.
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    config.set_distributed_worker_resolver(Nodes(nodes.clone()));
    config.set_distributed_channel_resolver(channels);
    config.set_distributed_desired_task_count_handler(Leaves);
    config.set_distributed_scale_up_leaf_node_handler(Leaves);
    config.set_distributed_route_tasks_handler(Routes(nodes.clone()));
    config.set_distributed_children_isolator_unions(false)?;
    config.set_distributed_broadcast_joins(false)?;
    config.set_distributed_metrics_collection(false)?;
    Ok(config)
}

/// Returns the plan of a query as one node would run it whose tables are the parts; `None` if small sides of
/// its joins are to go to all tasks, and there are none.
async fn whole(
    distributed: &LogicalPlan,
    config: &SessionConfig,
    state: &SessionState,
    (nodes, sides): (usize, Sides),
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut own = state.clone();
    own.config_mut().clone_from(config);
    let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Gathers)]);
    let mut plan = planner.create_physical_plan(distributed, &Unoptimized::new(&own)).await?;
    if sides == Sides::SmallToAll {
        let collecting = with_small_sides(plan, nodes)?;
        if !collecting.transformed {
            return Ok(None);
        }
        plan = collecting.data;
    }
    let options = own.config_options();
    rules_of_shared_plans().iter().try_fold(plan, |plan, rule| rule.optimize(plan, options)).map(Some)
}

/// Returns a plan in stages; `None` if no rows of it have to be shared out anew.
async fn split(
    plan: Arc<dyn ExecutionPlan>,
    config: SessionConfig,
    state: &SessionState,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let session = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(state.runtime_env().clone())
        .with_query_planner(Arc::new(Planned(plan)))
        .with_distributed_planner()
        .build();
    let nothing = LogicalPlanBuilder::empty(false).build()?;
    let stages = session.query_planner().create_physical_plan(&nothing, &session).await?;
    let is_shared_out =
        |node: &Arc<dyn ExecutionPlan>| node.is::<NetworkShuffleExec>() || node.is::<NetworkBroadcastExec>();
    let are_shared_out = stages.exists(|node| Ok(is_shared_out(node)))?;
    Ok(Some(stages).filter(|stages| stages.is::<DistributedExec>() && are_shared_out))
}

/// Gives the library a plan that is there.
#[derive(Debug)]
struct Planned(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Planned {
    async fn create_physical_plan(&self, _: &LogicalPlan, _: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.0.clone())
    }
}

/// Checks that operators give the same rows if each of some tasks runs them over its own rows: those that
/// belong together come to one task, because the plan has more than one partition wherever it needs them
/// to be shared out.
fn check(node: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<()> {
    if let Some(boundary) = node.as_network_boundary() {
        let stage = boundary.input_stage();
        let (is_by_key, is_to_all) = (node.is::<NetworkShuffleExec>(), node.is::<NetworkBroadcastExec>());
        if tasks > 1 && !is_by_key && !is_to_all {
            return Err(refusal("a stage of several tasks of which each needs all rows"));
        }
        if tasks > 1 && is_by_key && node.output_partitioning().partition_count() < 2 {
            return Err(refusal("a stage of several tasks with one partition"));
        }
        // Rows of several tasks come in any order.
        if is_by_key && node.output_ordering().is_some() {
            return Err(refusal("rows that keep their order while they are shared out"));
        }
        let below = stage.local_plan().ok_or_else(|| refusal("a stage that runs already"))?;
        return check(below, stage.task_count());
    }
    if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
        let is_one = leaf.original().output_partitioning().partition_count() < 2;
        return match leaf.variants().len() == tasks && !(is_one && tasks > 1) {
            true => Ok(()),
            false => Err(refusal("a table that is read by other tasks than those of its stage")),
        };
    }
    // Other tables are of this node, and rules of their own hold for the rows of files and data frames.
    if node.children().is_empty() {
        return Err(refusal(&format!("{}, which no tasks read", node.name())));
    }
    if tasks > 1
        && let Some(join) = node.downcast_ref::<HashJoinExec>()
        && *join.partition_mode() == PartitionMode::CollectLeft
    {
        let rows = collected_by_all(join).ok_or_else(|| refusal("a join that collects rows of one task"))?;
        check(rows, tasks)?;
        return check(join.right(), tasks);
    }
    if tasks > 1 && !may_be_shared_out(node) {
        return Err(refusal(node.name()));
    }
    if let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
        let is_shared_out = match repartition.partitioning() {
            Partitioning::RoundRobinBatch(_) => true,
            Partitioning::Hash(keys, _) => keys.iter().all(|key| key.is::<Column>()),
            // There would be no boundary: each task would have ranges of its own rows.
            _ => false,
        };
        if !is_shared_out {
            return Err(refusal("rows that are shared out by anything but columns"));
        }
    }
    node.children().into_iter().try_for_each(|input| check(input, tasks))
}

/// Says whether an operator computes the rows of a partition, or of a key, from nothing but these.
fn may_be_shared_out(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return *join.partition_mode() == PartitionMode::Partitioned && !join.null_aware;
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return match aggregate.mode() {
            AggregateMode::Partial => true,
            AggregateMode::FinalPartitioned | AggregateMode::SinglePartitioned => {
                !aggregate.group_expr().is_empty()
            }
            _ => false,
        };
    }
    node.is::<ProjectionExec>()
        || node.is::<FilterExec>()
        || node.is::<CooperativeExec>()
        || node.is::<RepartitionExec>()
        || node.is::<BroadcastExec>()
        || node.is::<SortExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<UnionExec>()
        || node.is::<UnnestExec>()
        || node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>()
}

/// Checks that what other nodes get of a plan is what it says.
fn check_travels(head: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<()> {
    let (functions, context) = (codec::functions(state.config())?, state.task_ctx());
    let no_scan = |_: &FragmentScanExec| -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("a task of a stage reads tables in parts".into()))
    };
    let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    for plan in sent_below(head) {
        // The leaves are those of one task.
        let of_task = |node: Arc<dyn ExecutionPlan>| {
            let part = node.downcast_ref::<DistributedLeafExec>().and_then(|leaf| leaf.variants().first());
            Ok(part.cloned().map_or_else(|| Transformed::no(node.clone()), Transformed::yes))
        };
        let sent = plan.transform_up(of_task).data()?;
        let arrived = codec::decode(&codec::encode(sent.clone(), &functions)?, &context, &no_scan)?;
        if text(&sent) != text(&arrived) {
            let (sent, arrived) = (text(&sent), text(&arrived));
            tracing::debug!(sent, arrived, "a stage arrives as another one");
            return Err(refusal("a stage that arrives as another one"));
        }
    }
    Ok(())
}

/// Returns the plans of the stages that give rows to a part of a plan, with those below them.
fn sent_below(node: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    if let Some(boundary) = node.as_network_boundary() {
        return boundary.input_stage().local_plan().into_iter().cloned().collect();
    }
    node.children().into_iter().flat_map(sent_below).collect()
}
