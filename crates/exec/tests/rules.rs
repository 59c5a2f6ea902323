//! The order in which rules run. This test is apart from others because it reaches every rule: among the
//! unit tests, the whole crate would be compiled a second time for it.

use hypostyle_exec::optimizer::rules;

/// DataFusion's rules are replaced by their names, and ours have places by those: another release may have
/// others.
#[test]
fn rules_run_in_this_order() {
    let rules = rules();
    let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
    let expected = [
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
