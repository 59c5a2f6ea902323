//! What happens to the expressions of every plan, besides what DataFusion does: once before the types are coerced, once
//! after that and before constants are folded.

use crate::amplifier::BoundFunctions;
use crate::meter::Meter;
use crate::planner::check_wanted;
use crate::walk::map_expressions;
use crate::{
    aggregate, arithmetic, cast, comparison, dependencies, field, interval, interval_part, null_keys,
    operand, ranking, time_zone, value_keys,
};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// What may become of an expression over columns of a schema.
type Rewrite = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

const AS_WRITTEN: &[Rewrite] = &[
    operand::alone,
    arithmetic::divided,
    comparison::with_uuids,
    comparison::in_wider_type,
    comparison::joined_bytes,
    interval::with_intervals,
    interval::parts_of_durations,
    interval_part::parts_of_intervals,
    comparison::similar,
];

const AS_COERCED: &[Rewrite] = &[
    field::of_structures,
    arithmetic::checked,
    arithmetic::negated,
    cast::as_in_sql,
    value_keys::equal_by_keys,
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
    rules
}

/// The optimizer rules of DataFusion with ours in their places.
pub(crate) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let extraction = rules.iter().position(|rule| rule.name() == "extract_equijoin_predicate");
    rules.insert(extraction.map_or(0, |place| place + 1), Arc::new(null_keys::NullKeys));
    rules.push(Arc::new(comparison::BothZeros));
    for place in (0..=rules.len()).rev().step_by(WANTED_EVERY) {
        rules.insert(place, Arc::new(Wanted));
    }
    rules
}

/// Rules of the optimizer between two looks whether the plan is still wanted.
const WANTED_EVERY: usize = 4;

/// Ends the optimizing of a plan that nobody waits for any more.
#[derive(Debug)]
struct Wanted;

impl OptimizerRule for Wanted {
    fn name(&self) -> &str {
        "wanted"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_wanted()?;
        Ok(Transformed::no(plan))
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
