//! The order in which rules run. These tests reach every rule: among the unit tests of their crates, they
//! would have these compiled a second time as a whole.

use hypostyle_exec::optimizer::rules;
use hypostyle_expr::meter::Meter;
use hypostyle_plan::rules::{analyzer_rules, optimizer_rules};
use std::sync::Arc;

/// DataFusion's rules have places by their names, and ours by those: another release may have others.
#[test]
fn logical_rules_run_in_this_order() {
    let meter = Meter::new(&Arc::default());
    let analyzing = analyzer_rules(&meter);
    let analyzing: Vec<&str> = analyzing.iter().map(|rule| rule.name()).collect();
    let expected = [
        "resolve_grouping_function",
        "rewrites_as_written",
        "type_coercion",
        "in_session_zone",
        "kept_errors",
        "rewrites_as_coerced",
        "left_first",
        "rewrites_of_nodes",
        "bound_functions",
    ];
    assert_eq!(analyzing, expected);
    let optimizing = optimizer_rules();
    let optimizing: Vec<&str> = optimizing.iter().map(|rule| rule.name()).collect();
    let expected = [
        "rewrite_set_comparison",
        "optimize_unions",
        "unions_to_filter",
        "simplify_expressions",
        "replace_distinct_aggregate",
        "eliminate_join",
        "decorrelate_predicate_subquery",
        "scalar_subquery_to_join",
        "decorrelate_lateral_join",
        "extract_equijoin_predicate",
        "null_keys",
        "eliminate_duplicated_expr",
        "eliminate_filter",
        "composite_keys",
        "eliminate_cross_join",
        "eliminate_limit",
        "propagate_empty_relation",
        "filter_null_join_keys",
        "eliminate_outer_join",
        "null_rejection",
        "push_down_limit",
        "push_down_filter",
        "single_distinct_aggregation_to_group_by",
        "eliminate_group_by_constant",
        "shifted_sums",
        "common_sub_expression_eliminate",
        "extract_leaf_expressions",
        "push_down_leaf_projections",
        "optimize_projections",
        "both_zeros",
        "join_keys",
        "eager_aggregates",
        "union_aggregates",
        "repeated_keys",
    ];
    assert_eq!(optimizing, expected);
}

/// DataFusion's rules are replaced by their names, and ours have places by those: another release may have
/// others.
#[test]
fn physical_rules_run_in_this_order() {
    let rules = rules();
    let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
    let expected = [
        "LambdaPlaces",
        "OutputRequirements",
        "aggregate_statistics",
        "Positions",
        "join_selection",
        "KeepOrders",
        "Constants",
        "LimitedDistinctAggregation",
        "FilterPushdown",
        "WindowTopN",
        "EnsureRequirements",
        "CombinePartialFinalAggregate",
        "OptimizeAggregateOrder",
        "ProjectionPushdown",
        "OutputRequirements",
        "LimitAggregation",
        "LimitPushPastWindows",
        "HashJoinBuffering",
        "LimitPushdown",
        "TopKRepartition",
        "ProjectionPushdown",
        "PushdownSort",
        "EnsureCooperative",
        "FilterPushdown(Post)",
        "Orders",
        "sanity",
        "InOrder",
        "InPieces",
        "Slices",
        "OneNan",
        "JoinFilters",
        "Yielding",
        "NewRows",
    ];
    assert_eq!(names, expected);
}
