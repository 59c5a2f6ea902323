//! What happens to the expressions of every plan, besides what DataFusion does: once before the types are coerced, once
//! after that and before constants are folded.

use crate::amplifier::BoundFunctions;
use crate::meter::Meter;
use crate::planner::check_wanted;
use crate::walk::map_expressions;
use crate::{
    aggregate, arithmetic, cast, comparison, dependencies, field, filters, interval, interval_part,
    null_keys, operand, ranking, repeated, shift, shifted, time_zone, truth, value_keys,
};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Analyzer, AnalyzerRule, ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// What may become of an expression over columns of a schema.
type Rewrite = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

const AS_WRITTEN: &[Rewrite] = &[
    operand::alone,
    arithmetic::divided,
    truth::beside_texts,
    comparison::with_uuids,
    comparison::in_wider_type,
    comparison::joined_bytes,
    interval::with_intervals,
    interval::windows_by_length,
    interval::parts_of_durations,
    interval_part::parts_of_intervals,
    comparison::similar,
    repeated::within,
];

const AS_COERCED: &[Rewrite] = &[
    field::of_structures,
    arithmetic::checked,
    arithmetic::negated,
    cast::as_in_sql,
    value_keys::equal_by_keys,
    value_keys::first_by_key,
    field::steps_within,
    interval::by_length,
    ranking::place_in_window,
    aggregate::of_ordered,
    comparison::equal_zeros,
];

/// The analyzer rules of DataFusion with ours in their places.
pub(crate) fn analyzer_rules(meter: &Arc<Meter>) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    let coercion = rules.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(rules.len());
    rules.insert(coercion, Arc::new(Rewrites { name: "rewrites_as_written", rewrites: AS_WRITTEN }));
    rules.push(Arc::new(time_zone::InSessionZone));
    rules.push(Arc::new(Rewrites { name: "rewrites_as_coerced", rewrites: AS_COERCED }));
    rules.push(Arc::new(BoundFunctions(meter.clone())));
    rules.into_iter().map(|rule| Arc::new(WatchedAnalyzer(rule)) as _).collect()
}

/// The optimizer rules of DataFusion with ours in their places.
pub(crate) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let extraction = rules.iter().position(|rule| rule.name() == "extract_equijoin_predicate");
    rules.insert(extraction.map_or(0, |place| place + 1), Arc::new(null_keys::NullKeys));
    rules.push(Arc::new(comparison::BothZeros));
    let common = rules.iter().position(|rule| rule.name() == "common_sub_expression_eliminate");
    rules.insert(common.unwrap_or(rules.len()), Arc::new(shifted::ShiftedSums));
    rules.into_iter().map(watched).collect()
}

fn watched(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    match rule.name() {
        "push_down_filter" => Arc::new(Watched(Arc::new(filters::WhereRowsStay::default()))),
        _ => Arc::new(Watched(rule)),
    }
}

/// A rule that ends where nobody waits for the plan any more: before each node that it is asked for.
#[derive(Debug)]
struct Watched(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Watched {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_wanted()?;
        self.0.rewrite(plan, config)
    }
}

/// The physical rules, each of which ends before it begins where nobody waits for the plan any more.
pub(crate) fn watched_physical(
    rules: impl IntoIterator<Item = Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(WatchedPhysical(rule)) as _).collect()
}

#[derive(Debug)]
struct WatchedPhysical(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for WatchedPhysical {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_wanted()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_wanted()?;
        self.0.optimize_with_context(plan, context)
    }
}

/// An analyzer rule that ends before it begins where nobody waits for the plan any more.
#[derive(Debug)]
struct WatchedAnalyzer(Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for WatchedAnalyzer {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check_wanted()?;
        self.0.analyze(plan, config)
    }
}

#[derive(Debug)]
struct Rewrites {
    name: &'static str,
    rewrites: &'static [Rewrite],
}

impl AnalyzerRule for Rewrites {
    fn name(&self) -> &str {
        self.name
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let (mut changed, mut keys) = (false, 0);
        let plan = plan.transform_up_with_subqueries(|plan| {
            check_wanted()?;
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                let source = scan.source.schema();
                schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source)?);
            }
            let plan = map_expressions(plan, |expression| self.rewrite(expression, &schema))?;
            let plan = plan.transform_data(interval::sorted_by_length)?;
            let plan = plan.transform_data(comparison::sorted_with_equal_zeros)?;
            let plan = plan.transform_data(shift::with_defaults)?;
            let plan = plan.transform_data(repeated::distinct_on)?;
            let plan = plan.transform_data(|plan| value_keys::by_keys(plan, &mut keys))?;
            let plan = plan.transform_data(|plan| dependencies::with_own_keys(plan, &mut keys))?;
            changed |= plan.transformed;
            // A type that changed below changes the types above, whether or not anything changes here.
            if changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
        })?;
        Ok(plan.data)
    }
}

impl Rewrites {
    fn rewrite(&self, expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let mut rewritten = Transformed::no(expression);
        for rewrite in self.rewrites {
            let next = rewrite(rewritten.data, schema)?;
            rewritten = Transformed::new_transformed(next.data, rewritten.transformed || next.transformed);
        }
        Ok(rewritten)
    }
}
