//! The logical rules: DataFusion's, with ours among them, and the rewrites that two of ours are lists of.
//! `tests/integration/rules.rs` holds the whole order.
//!
//! What the analyzer runs, once each (those without a word are DataFusion's):
//!
//! | rule | what it does |
//! |---|---|
//! | `resolve_grouping_function` | |
//! | `rewrites_as_written` | node by node, from below: `AS_WRITTEN`, then `OF_NODES`, by types as written |
//! | `type_coercion` | |
//! | `in_session_zone` | casts between times with a zone and without: by now all of them are there |
//! | `kept_errors` | subqueries whose errors are of rows, before CASE is looked at for what may fail |
//! | `rewrites_as_coerced` | node by node, from below: `AS_COERCED`, then `OF_NODES`, by the final types |
//! | `left_first` | AND and OR whose left side guards the right one: once, for it makes conditions of it |
//! | `rewrites_of_nodes` | nodes for which others take their place, once each |
//! | `bound_functions` | functions that rules have put into plans count memory: last, behind all of these |
//!
//! Where ours are among the rules of the optimizer, which runs them several times over:
//!
//! | rule | place | why there |
//! |---|---|---|
//! | `null_keys` | behind `extract_equijoin_predicate` | others add keys, whose NULLs would be equal |
//! | `composite_keys` | before `eliminate_cross_join` | that one forgets keys of several tables |
//! | `null_rejection` | behind `eliminate_outer_join` | finds by joins what that one finds by conditions |
//! | `shifted_sums` | before `common_sub_expression_eliminate` | sums become one before parts get columns |
//! | `both_zeros` | behind all of DataFusion's | they make lists of comparisons |
//! | `join_keys` | behind those | they make keys |
//! | `eager_aggregates`, `union_aggregates` | behind those | they move filters, and find keys |
//! | `repeated_keys` | the last | keys turn out to come again when expressions are simplified |
//!
//! Three of DataFusion's rules run within ones of ours: `simplify_expressions` (`list_sets`),
//! `push_down_filter` (`filters`), `propagate_empty_relation` (`empty_unions`). Each rule ends where nobody
//! waits for the plan.

use crate::{
    composite_keys, computed_keys, dependencies, eager_aggregates, empty_unions, filters, join_keys,
    kept_errors, null_keys, null_rejection, repeated_keys, union_aggregates,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DFSchemaRef, JoinConstraint};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Analyzer, AnalyzerRule, ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use hypostyle_expr::amplifier::BoundFunctions;
use hypostyle_expr::around_rule;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::walk::{map_expressions, schema_below};
use hypostyle_expr::wanted::check_wanted;
use hypostyle_expr::{
    aggregate, arithmetic, builtin, cast, common_type, comparison, extreme, field, float_extreme, interval,
    interval_part, json, lag_default, list_sets, nan, operand, overlaps, ranking, rounding, set_operation,
    shifted_sums, structures, text_function, time_difference, time_part, time_zone, truth, value_keys,
    window_frame,
};
use std::sync::Arc;

/// A rewrite of an expression over columns of a schema.
type Rewrite = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// A rewrite of a node whose expressions have been rewritten.
type NodeRewrite = fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>;

const AS_WRITTEN: &[Rewrite] = &[
    cast::of_dimensions,
    text_function::with_whole_pattern,
    text_function::formatted_values,
    operand::alone,
    overlaps::with_ends,
    structures::alike,
    common_type::with_doubles,
    arithmetic::divided,
    rounding::of_exact,
    aggregate::middles_of_reals,
    aggregate::of_nulls,
    truth::beside_texts,
    json::order::compared,
    comparison::with_uuids,
    comparison::in_wider_type,
    comparison::joined_bytes,
    time_difference::in_plan,
    interval::with_intervals,
    window_frame::of_values,
    interval::windows_by_length,
    value_keys::windows_in_order,
    interval::parts_of_durations,
    interval_part::parts_of_intervals,
    time_part::of_points,
    time_part::width_of_bins,
    comparison::similar,
    repeated_keys::shorten_aggregate_orders,
    repeated_keys::constants_of_window,
    cast::of_compared,
    cast::joined_as_texts,
    common_type::of_nullif,
];

const AS_COERCED: &[Rewrite] = &[
    field::of_structures,
    arithmetic::checked,
    arithmetic::negated,
    time_difference::of_dates,
    json::cast_by_meaning,
    cast::as_in_sql,
    value_keys::equal_by_keys,
    value_keys::first_by_key,
    field::steps_within,
    interval::by_length,
    ranking::place_in_window,
    aggregate::of_ordered,
    aggregate::without_order,
    builtin::by_order,
    comparison::equal_zeros,
    comparison::any_text,
    extreme::by_keys,
    nan::where_compared,
    float_extreme::in_plan,
    value_keys::in_order,
    truth::guarded,
];

/// These run behind each of the two lists, for both may change the types of what a node compares or sorts.
const OF_NODES: &[NodeRewrite] = &[
    cast::values_of_dimensions,
    by_conditions,
    set_operation::with_texts,
    set_operation::in_common_types,
    common_type::of_relations,
    structures::of_relations,
    interval::sorted_by_length,
    value_keys::sorted,
    comparison::sorted_with_equal_zeros,
    nan::in_rows,
    lag_default::with_defaults,
    repeated_keys::windows_once,
    repeated_keys::distinct_on,
    value_keys::distinct_on,
];

/// Returns the analyzer rules of DataFusion with ours in their places.
pub fn analyzer_rules(meter: &Arc<Meter>) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    let coercion = rules.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(rules.len());
    rules.insert(coercion, Arc::new(Rewrites { name: "rewrites_as_written", rewrites: AS_WRITTEN }));
    rules.push(Arc::new(time_zone::InSessionZone));
    rules.push(Arc::new(KeptErrors));
    rules.push(Arc::new(Rewrites { name: "rewrites_as_coerced", rewrites: AS_COERCED }));
    rules.push(Arc::new(LeftFirst));
    rules.push(Arc::new(Nodes));
    rules.push(Arc::new(BoundFunctions(meter.clone())));
    rules.into_iter().map(|rule| Arc::new(WatchedAnalyzer(rule)) as _).collect()
}

/// Returns the optimizer rules of DataFusion with ours in their places.
pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let extraction = rules.iter().position(|rule| rule.name() == "extract_equijoin_predicate");
    rules.insert(extraction.map_or(0, |place| place + 1), Arc::new(null_keys::NullKeys));
    let cross = rules.iter().position(|rule| rule.name() == "eliminate_cross_join");
    rules.insert(cross.unwrap_or(rules.len()), Arc::new(composite_keys::CompositeKeys));
    let outer = rules.iter().position(|rule| rule.name() == "eliminate_outer_join");
    rules.insert(outer.map_or(rules.len(), |place| place + 1), Arc::new(null_rejection::NullRejection));
    rules.push(Arc::new(comparison::BothZeros));
    rules.push(Arc::new(join_keys::JoinKeys));
    rules.push(Arc::new(eager_aggregates::EagerAggregates));
    rules.push(Arc::new(union_aggregates::UnionAggregates));
    rules.push(Arc::new(repeated_keys::RepeatedKeys));
    let common = rules.iter().position(|rule| rule.name() == "common_sub_expression_eliminate");
    rules.insert(common.unwrap_or(rules.len()), Arc::new(shifted_sums::ShiftedSums));
    rules.into_iter().map(watched).collect()
}

fn watched(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    match rule.name() {
        "simplify_expressions" => Arc::new(Watched(Arc::new(list_sets::ListsStay(rule)))),
        "push_down_filter" => Arc::new(Watched(Arc::new(filters::WhereRowsStay::default()))),
        "propagate_empty_relation" => Arc::new(Watched(Arc::new(empty_unions::NamesStay::default()))),
        _ => Arc::new(Watched(rule)),
    }
}

/// A rule that ends where nobody waits for the plan any more: before each node that it is asked
/// for.
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

/// Returns the physical rules, each of which ends before it begins where nobody waits for the plan
/// any more.
pub fn watched_physical(
    rules: impl IntoIterator<Item = Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(WatchedPhysical(rule)) as _).collect()
}

#[derive(Debug)]
struct WatchedPhysical(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for WatchedPhysical {
    around_rule!();

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

/// The rewrite of subqueries whose errors are those of the rows that get to them: before that of CASE, which
/// looks at what may fail.
#[derive(Debug)]
struct KeptErrors;

impl AnalyzerRule for KeptErrors {
    fn name(&self) -> &'static str {
        "kept_errors"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            check_wanted()?;
            kept_errors::kept(plan)
        })?;
        Ok(plan.data)
    }
}

/// The rewrite of ANDs and ORs whose left sides guard the right ones: once, for it makes them of conditions.
#[derive(Debug)]
struct LeftFirst;

impl AnalyzerRule for LeftFirst {
    fn name(&self) -> &'static str {
        "left_first"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            check_wanted()?;
            truth::left_first(plan)
        })?;
        Ok(plan.data)
    }
}

/// The rewrites of nodes for which others take their place: once, when the types are known.
#[derive(Debug)]
struct Nodes;

impl AnalyzerRule for Nodes {
    fn name(&self) -> &'static str {
        "rewrites_of_nodes"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let (mut keys, mut extremes) = (0, 0);
        let plan = plan.transform_down_with_subqueries(|plan| {
            check_wanted()?;
            computed_keys::compute_below(plan, &mut keys)
        })?;
        let plan = plan.data.transform_up_with_subqueries(|plan| {
            value_keys::extremes_of_windows(plan, &mut extremes)?.transform_data(nan::made_of_rows)
        })?;
        Ok(plan.data)
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
            let schema = schema_of_expressions(&plan)?;
            let mut plan = map_expressions(plan, |expression| self.rewrite(expression, &schema))?;
            for rewrite in OF_NODES {
                plan = plan.transform_data(*rewrite)?;
            }
            let plan = plan.transform_data(|plan| value_keys::by_keys(plan, &mut keys))?;
            let plan = plan.transform_data(|plan| dependencies::with_own_keys(plan, &mut keys))?;
            changed |= plan.transformed;
            // A type that changed below changes the types above, whether or not anything changes
            // here.
            if changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
        })?;
        Ok(plan.data)
    }
}

/// Returns the schema that a node's expressions are over: those of a scan, if it has any, are over the whole
/// table.
fn schema_of_expressions(node: &LogicalPlan) -> Result<DFSchemaRef> {
    match node {
        LogicalPlan::TableScan(scan) if !scan.filters.is_empty() => {
            let source = scan.source.schema();
            Ok(Arc::new(DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source)?))
        }
        node => Ok(schema_below(node)),
    }
}

/// Makes a join by USING whose keys have become computed values one by conditions: DataFusion expects
/// columns of the former. What its columns mean has been found out before.
fn by_conditions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_column = |key: &Expr| key.get_as_join_column().is_some();
    Ok(match plan {
        LogicalPlan::Join(mut join)
            if join.join_constraint == JoinConstraint::Using
                && !join.on.iter().all(|(left, right)| is_column(left) && is_column(right)) =>
        {
            join.join_constraint = JoinConstraint::On;
            Transformed::yes(LogicalPlan::Join(join))
        }
        other => Transformed::no(other),
    })
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

#[cfg(test)]
mod tests {
    use super::optimizer_rules;
    use datafusion::optimizer::{Analyzer, Optimizer};

    /// Their places are told by the names of DataFusion's rules, which another version may change.
    #[test]
    fn ours_are_among_the_rules_of_datafusion_where_they_should_be() {
        let rules = optimizer_rules();
        let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let at = |name: &str| {
            let place = names.iter().position(|known| *known == name);
            place.unwrap_or_else(|| panic!("no rule {name} among {names:?}"))
        };
        for (first, next) in [
            ("extract_equijoin_predicate", "null_keys"),
            ("composite_keys", "eliminate_cross_join"),
            ("eliminate_outer_join", "null_rejection"),
            ("shifted_sums", "common_sub_expression_eliminate"),
        ] {
            assert_eq!(at(first) + 1, at(next), "{first}");
        }
        assert!(Optimizer::new().rules.iter().any(|rule| rule.name() == "push_down_filter"));
        assert!(Analyzer::new().rules.iter().any(|rule| rule.name() == "type_coercion"));
    }
}
