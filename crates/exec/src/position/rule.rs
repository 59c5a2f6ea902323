//! Puts pipelines into a plan.

use super::Mode;
use super::aggregate::PlannedAggregate;
use super::flow::{Expression, Flow, Universe, substitute};
use super::fold::{FirstGroups, Folded};
use super::indexed::may_find;
use super::modest::are_modest;
use super::pipeline::PipelineExec;
use super::rows::Materialized;
use super::window_rule::{above, window_of};
use arrow::compute::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use hypostyle_expr::setting::Setting;
use std::sync::Arc;

/// Puts a pipeline in the place of each aggregate over scans, filters, projections and joins.
#[derive(Debug)]
pub struct Positions {
    /// Returns the rules that make operators ready to run, where pipelines leave the work to them.
    pub rules: Rules,
}

/// Returns some rules, in the order in which they run.
pub type Rules = fn() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

impl PhysicalOptimizerRule for Positions {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match Setting::<Mode>::of(options).copied().unwrap_or(Mode::Off) {
            Mode::Off => Ok(plan),
            mode => self.rewrite(&plan, mode, false),
        }
    }

    fn name(&self) -> &'static str {
        "Positions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl Positions {
    /// Puts pipelines into a plan, of whose rows only the first ones may be wanted.
    fn rewrite(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        mode: Mode,
        is_limited: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
            && let Some(folded) = self.fold(aggregate, mode)?
        {
            return Ok(Arc::new(PipelineExec::new(
                "PosFoldExec",
                Arc::new(folded),
                plan.clone(),
                self,
                mode,
            )));
        }
        let is_of_rows = plan.is::<HashJoinExec>() || plan.downcast_ref::<FilterExec>().is_some_and(may_find);
        if is_of_rows && let Some(rows) = self.rows(plan, mode)? {
            return Ok(Arc::new(PipelineExec::new("PosRowsExec", Arc::new(rows), plan.clone(), self, mode)));
        }
        if let Some(sort) = plan.downcast_ref::<SortExec>()
            && let Some(found) = self.sort(sort, plan, mode)?
        {
            return Ok(found);
        }
        if let Some(sort) = plan.downcast_ref::<SortExec>()
            && let Some(found) = self.first_groups(sort, plan, mode)?
        {
            return Ok(found);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>()
            && let Some(found) = self.first_rows(filter, plan, mode)?
        {
            return Ok(found);
        }
        if let Some(window) = window_of(plan)
            && let Some(found) = self.window(&window, mode, is_limited)?
        {
            return Ok(found);
        }
        // A limit ends the search for distinct values early, and the numbering of rows.
        let is_limit = plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>();
        let is_limited = is_limit || is_limited && plan.is::<ProjectionExec>();
        let children = plan.children();
        let mut changed = false;
        let mut rewritten = Vec::with_capacity(children.len());
        for child in children {
            let is_distinct = child
                .downcast_ref::<AggregateExec>()
                .is_some_and(|aggregate| aggregate.aggr_expr().is_empty());
            let new = match is_limit && is_distinct {
                true => child.clone(),
                false => self.rewrite(child, mode, is_limited)?,
            };
            changed |= !Arc::ptr_eq(child, &new);
            rewritten.push(new);
        }
        match changed {
            true => plan
                .clone()
                .replace_children(rewritten, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)),
            false => Ok(plan.clone()),
        }
    }

    /// Returns the pipeline of a tree of joins, in which nothing can fail after the first rows have gone
    /// out.
    fn rows(&self, plan: &Arc<dyn ExecutionPlan>, mode: Mode) -> Result<Option<Materialized>> {
        let mut universe = Universe::default();
        let Some(mut compiled) = universe.compile(plan)? else { return Ok(None) };
        let schema = universe.schema();
        if universe.runs().is_none()
            || !are_modest(&compiled.flow, &compiled.outputs, &schema)
            || !compiled.flow.is_infallible(&schema)
            || !compiled.outputs.iter().all(|item| item.is::<Column>())
        {
            return Ok(None);
        }
        self.rewrite_inputs(&mut universe, &mut compiled.flow, mode)?;
        let (universe, outputs) = (Arc::new(universe), compiled.outputs);
        Ok(Some(Materialized { universe, flow: compiled.flow, outputs, schema: plan.schema() }))
    }

    /// Puts pipelines into the inputs of another one.
    pub(super) fn rewrite_inputs(&self, universe: &mut Universe, flow: &mut Flow, mode: Mode) -> Result<()> {
        for input in &mut universe.inputs {
            *input = self.rewrite(input, mode, false)?;
        }
        universe.restrict(flow)
    }

    /// Has an aggregate below a sort read the keys of those groups only that may be among the first.
    fn first_groups(
        &self,
        sort: &SortExec,
        plan: &Arc<dyn ExecutionPlan>,
        mode: Mode,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // The operators that a pipeline stands for give all groups, which a verification would miss.
        let (Some(limit), Mode::On) = (sort.fetch(), mode) else { return Ok(None) };
        let column = |expression: &Expression| expression.downcast_ref::<Column>().map(Column::index);
        let mut order_by: Vec<(usize, SortOptions)> =
            sort.expr().iter().map_while(|key| Some((column(&key.expr)?, key.options))).collect();
        let mut above_it = vec![plan];
        let mut node = sort.input();
        while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let through = |(place, options): &(usize, SortOptions)| {
                Some((column(&projection.expr().get(*place)?.expr)?, *options))
            };
            order_by = order_by.iter().map_while(through).collect();
            above_it.push(node);
            node = projection.input();
        }
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
        let keys = aggregate.group_expr().expr().len();
        order_by = order_by.iter().map_while(|(place, by)| Some((place.checked_sub(keys)?, *by))).collect();
        if order_by.is_empty() || keys == 0 || !aggregate.group_expr().is_single() {
            return Ok(None);
        }
        let Some(folded) = self.fold(aggregate, mode)? else { return Ok(None) };
        if folded.universe.runs() != Some(1) {
            return Ok(None);
        }
        let folded = Folded { first: Some(FirstGroups { order_by, limit }), ..folded };
        let mut found: Arc<dyn ExecutionPlan> =
            Arc::new(PipelineExec::new("PosFoldExec", Arc::new(folded), node.clone(), self, mode));
        for plan in above_it.into_iter().rev() {
            found = above(plan, found)?;
        }
        Ok(Some(found))
    }

    fn fold(&self, aggregate: &AggregateExec, mode: Mode) -> Result<Option<Folded>> {
        let Some(first) = first_step(aggregate) else { return Ok(None) };
        let group_by = first.group_expr();
        if aggregate.limit_options().is_some() {
            return Ok(None);
        }
        let sets = match group_by.is_single() {
            true => Vec::new(),
            false => group_by.groups().to_vec(),
        };
        let mut universe = Universe::default();
        let Some(mut compiled) = universe.compile(first.input())? else { return Ok(None) };
        if universe.runs().is_none() {
            return Ok(None);
        }
        let mut keys = Vec::with_capacity(group_by.expr().len());
        for (key, _) in group_by.expr() {
            if is_volatile(key) {
                return Ok(None);
            }
            keys.push(substitute(key, &compiled.outputs)?);
        }
        let mut aggregates = Vec::with_capacity(first.aggr_expr().len());
        for (function, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
            if filter.as_ref().is_some_and(is_volatile) {
                return Ok(None);
            }
            let mut arguments = Vec::new();
            for argument in function.expressions() {
                if is_volatile(&argument) {
                    return Ok(None);
                }
                arguments.push(substitute(&argument, &compiled.outputs)?);
            }
            let filter = filter.as_ref().map(|filter| substitute(filter, &compiled.outputs)).transpose()?;
            let planned = PlannedAggregate { function: function.clone(), arguments, filter };
            if !planned.is_supported() {
                return Ok(None);
            }
            aggregates.push(planned);
        }
        let arguments = aggregates
            .iter()
            .flat_map(|aggregate| aggregate.arguments.iter().chain(&aggregate.filter))
            .cloned();
        let evaluated: Vec<Expression> = keys.iter().cloned().chain(arguments).collect();
        if !are_modest(&compiled.flow, &evaluated, &universe.schema()) {
            return Ok(None);
        }
        self.rewrite_inputs(&mut universe, &mut compiled.flow, mode)?;
        Ok(Some(Folded {
            first: None,
            universe: Arc::new(universe),
            flow: compiled.flow,
            keys,
            aggregates,
            sets,
            schema: aggregate.schema(),
        }))
    }
}

/// Returns the aggregate that reads rows, of one that may be in two steps.
fn first_step(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    match aggregate.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(aggregate),
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let partial = aggregate.input().downcast_ref::<AggregateExec>()?;
            (*partial.mode() == AggregateMode::Partial).then_some(partial)
        }
        _ => None,
    }
}
