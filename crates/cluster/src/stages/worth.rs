//! Estimates what a query costs without stages, where the rows of other nodes come to the one that was asked,
//! and in stages: the time of the node that has most to do.
//!
//! The unit is a nanosecond of one core. The constants are those of the nodes of `bench/shuffles.py`, as
//! docs/decisions/0030 says; what counts is how they relate. Rows that are joined, grouped or sorted weigh
//! several times as much as those that are only sent; rows between tasks travel as they are in memory, and
//! all others with columns in few bits.

use crate::gather::{GatherExec, Given, row_bytes};
use datafusion::common::JoinType;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode, SortMergeJoinExec,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DistributedLeafExec, NetworkBoundary, NetworkBoundaryExt, NetworkBroadcastExec, NetworkCoalesceExec,
};
use std::fmt;
use std::sync::Arc;

/// What a row, and a byte of it, costs that comes from another node to the one that was asked.
const RECEIVED: f64 = 15.0;
const RECEIVED_BYTE: f64 = 0.3;

/// What they cost that go from one task to another one.
const MOVED: f64 = 20.0;
const MOVED_BYTE: f64 = 2.5;

/// What a row costs that is read where it is.
const READ: f64 = 20.0;

/// What a row of a join costs that is put into a table of hashes, and one that is looked up there: if it is
/// in the caches of a core, and if it is not.
const BUILT: (f64, f64) = (25.0, 100.0);
const PROBED: (f64, f64) = (15.0, 60.0);
const CACHED_ROWS: f64 = 100_000.0;

/// What a row costs that is added to one of many groups, and a byte of it; before rows are shared out, where
/// there may be few; and to one result.
const GROUPED: f64 = 110.0;
const GROUPED_BYTE: f64 = 0.5;
const GROUPED_BEFORE: f64 = 40.0;
const ADDED: f64 = 10.0;

/// What a row costs that is sorted, and one that a window function is computed for.
const SORTED: f64 = 100.0;
const WINDOWED: f64 = 60.0;

/// What a pair of rows costs that are compared, where there are no keys.
const COMPARED: f64 = 1.0;

/// What it costs to plan a query in stages, to begin a stage, and for each partition that one of its tasks
/// gives rows to, and that takes rows.
const PLANNED: f64 = 15e6;
const BEGUN: f64 = 3e6;
const CONNECTED: f64 = 0.5e6;

/// The share of rows that pass a condition above a part, and that are left where a task groups its rows of
/// which nothing is known.
const PASSING: f64 = 1.0 / 3.0;
const GROUPS: f64 = 0.1;

/// The rows of what nothing is known of, as of a table of the node that was asked.
const UNKNOWN: f64 = 1000.0;

/// A query that costs less without stages is not planned in stages.
const MIN: f64 = 40e6;

/// The share of the costs without stages that those in stages may have: estimates are not exact.
const SHARE_MAX: f64 = 0.9;

/// What a query is expected to cost.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Cost(f64);

impl Cost {
    /// Says whether a query that costs so much without stages can be worth these.
    pub fn is_much(self) -> bool {
        self.0 >= MIN
    }

    /// Says whether a query is sooner done in stages, with these costs, than without.
    pub fn is_worth(self, without: Self) -> bool {
        self.0 <= SHARE_MAX * without.0
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} ms", self.0 / 1e6)
    }
}

/// Returns the costs of a query without stages.
pub(super) fn without_stages(plan: &Arc<dyn ExecutionPlan>) -> Cost {
    Cost(Model { given: &given }.of(plan, 1.0).time)
}

/// Returns the costs of a query in stages.
pub(super) fn in_stages(plan: &Arc<dyn ExecutionPlan>) -> Cost {
    Cost(PLANNED + Model { given: &given }.of(plan, 1.0).time)
}

/// Returns the rows of a part.
fn given(plan: &Arc<dyn ExecutionPlan>) -> Option<Given> {
    plan.downcast_ref::<GatherExec>().map(GatherExec::given)
}

/// What is expected of an operator, with all below it.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// The rows of all tasks together.
    rows: f64,
    /// The rows of the largest table below it.
    of_tables: f64,
    /// Each row is a group of its node.
    is_grouped: bool,
    /// The time of the node that has most to do.
    time: f64,
}

struct Model<'a> {
    /// Returns the rows of a leaf that is a part.
    given: &'a dyn Fn(&Arc<dyn ExecutionPlan>) -> Option<Given>,
}

impl Model<'_> {
    /// Returns the work of a plan that so many tasks share.
    fn of(&self, plan: &Arc<dyn ExecutionPlan>, tasks: f64) -> Work {
        if let Some(boundary) = plan.as_network_boundary() {
            return self.moved(plan, boundary, tasks);
        }
        if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
            let given = (self.given)(leaf.original());
            return given.map_or_else(unknown, |given| read(given, given.rows / tasks * READ));
        }
        if let Some(given) = (self.given)(plan) {
            let (own, of_row) = (given.rows - given.of_others, RECEIVED + RECEIVED_BYTE * bytes(plan));
            return read(given, own * READ + given.of_others * of_row);
        }
        let inputs: Vec<Work> = plan.children().into_iter().map(|input| self.of(input, tasks)).collect();
        match inputs.as_slice() {
            [] => unknown(),
            [input] => of_one(plan, *input, tasks),
            [left, right] => of_two(plan, (*left, *right), tasks),
            more => together(more),
        }
    }

    /// Returns the work of the stages that give rows to some tasks, and of these to take them.
    fn moved(&self, plan: &Arc<dyn ExecutionPlan>, boundary: &dyn NetworkBoundary, tasks: f64) -> Work {
        let stage = boundary.input_stage();
        let Some(below) = stage.local_plan() else { return unknown() };
        let givers = stage.task_count().max(1) as f64;
        let input = self.of(below, givers);
        let rows_of_one = if plan.is::<NetworkBroadcastExec>() {
            input.rows * (tasks / givers).max(1.0)
        } else if plan.is::<NetworkCoalesceExec>() {
            input.rows / tasks
        } else {
            input.rows / tasks.min(givers)
        };
        let partitions = below.output_partitioning().partition_count() as f64;
        let moved = rows_of_one * (MOVED + MOVED_BYTE * bytes(plan));
        Work { time: input.time + moved + BEGUN + CONNECTED * partitions, ..input }
    }
}

fn bytes(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    row_bytes(&plan.schema()) as f64
}

fn unknown() -> Work {
    Work { rows: UNKNOWN, of_tables: UNKNOWN, is_grouped: false, time: 0.0 }
}

fn read(given: Given, time: f64) -> Work {
    Work { rows: given.rows, of_tables: given.of_tables, is_grouped: given.is_grouped, time }
}

/// Returns the work of an operator over the rows of another one.
fn of_one(plan: &Arc<dyn ExecutionPlan>, input: Work, tasks: f64) -> Work {
    let first = plan.fetch().map_or(f64::INFINITY, |rows| rows as f64 * tasks);
    let of_row = |cost: f64| input.time + input.rows / tasks * cost;
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return grouped(aggregate, input, bytes(plan), tasks);
    }
    if plan.is::<SortExec>() {
        return Work { rows: input.rows.min(first), time: of_row(SORTED), ..input };
    }
    if plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() {
        return Work { time: of_row(WINDOWED), ..input };
    }
    let passing = if plan.is::<FilterExec>() { PASSING } else { 1.0 };
    Work { rows: (input.rows * passing).min(first), ..input }
}

fn grouped(aggregate: &AggregateExec, input: Work, bytes: f64, tasks: f64) -> Work {
    let of_task = input.rows / tasks;
    let is_before = *aggregate.mode() == AggregateMode::Partial;
    if aggregate.group_expr().is_empty() {
        return Work {
            rows: if is_before { tasks } else { 1.0 },
            time: input.time + of_task * ADDED,
            ..input
        };
    }
    if is_before {
        let rows = if input.is_grouped { input.rows } else { input.rows * GROUPS };
        return Work { rows, is_grouped: true, time: input.time + of_task * GROUPED_BEFORE, ..input };
    }
    let time = input.time + of_task * (GROUPED + GROUPED_BYTE * bytes);
    Work { time, is_grouped: true, ..input }
}

/// Returns the work of an operator over the rows of two others.
fn of_two(plan: &Arc<dyn ExecutionPlan>, (left, right): (Work, Work), tasks: f64) -> Work {
    let both = together(&[left, right]);
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let is_collected = *join.partition_mode() == PartitionMode::CollectLeft;
        let built = if is_collected { left.rows } else { left.rows / tasks };
        let time = both.time + hashed(built, right.rows / tasks);
        return Work { rows: joined(*join.join_type(), left, right), time, ..both };
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let time = both.time + both.rows / tasks * PROBED.1;
        return Work { rows: joined(join.join_type(), left, right), time, ..both };
    }
    if plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>() {
        let pairs = left.rows * right.rows;
        return Work { rows: pairs, time: both.time + pairs / tasks * COMPARED, ..both };
    }
    both
}

/// Returns the costs of a join by a table of hashes.
fn hashed(built: f64, probed: f64) -> f64 {
    match built <= CACHED_ROWS {
        true => built * BUILT.0 + probed * PROBED.0,
        false => built * BUILT.1 + probed * PROBED.1,
    }
}

/// Returns how many rows a join gives: one side is expected to have keys that the other one refers to, of
/// which conditions have left a share.
fn joined(kind: JoinType, left: Work, right: Work) -> f64 {
    let inner = left.rows * right.rows / left.of_tables.min(right.of_tables).max(1.0);
    let found = |rows: f64, other: Work| rows * (other.rows / other.of_tables.max(1.0)).min(1.0);
    match kind {
        JoinType::Inner => inner,
        JoinType::Left => inner.max(left.rows),
        JoinType::Right => inner.max(right.rows),
        JoinType::Full => inner.max(left.rows).max(right.rows),
        JoinType::LeftSemi => found(left.rows, right),
        JoinType::RightSemi => found(right.rows, left),
        JoinType::LeftAnti | JoinType::LeftMark => left.rows,
        JoinType::RightAnti | JoinType::RightMark => right.rows,
    }
}

fn together(inputs: &[Work]) -> Work {
    let sum = |of: fn(&Work) -> f64| inputs.iter().map(of).sum::<f64>();
    let of_tables = inputs.iter().map(|input| input.of_tables).fold(0.0, f64::max);
    Work { rows: sum(|input| input.rows), of_tables, is_grouped: false, time: sum(|input| input.time) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_expr::{Partitioning, PhysicalExpr};
    use datafusion::physical_plan::aggregates::PhysicalGroupBy;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::joins::HashJoinExecBuilder;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion_distributed::{BroadcastExec, NetworkShuffleExec};

    type Plan = Arc<dyn ExecutionPlan>;

    /// Tables by the names of their first columns: their rows, those that pass, and whether they are grouped.
    const TABLES: [(&str, f64, f64, bool); 4] = [
        ("small", 4_000.0, 4_000.0, false),
        ("large", 4e6, 4e6, false),
        ("groups", 4e6, 4e6, true),
        ("coloured", 800_000.0, 80_000.0, false),
    ];

    /// Returns what nodes give of a table, of which the one that was asked has a part.
    fn given_of(plan: &Plan, nodes: f64) -> Option<Given> {
        let schema = plan.schema();
        let (_, of_tables, rows, is_grouped) =
            *TABLES.iter().find(|(name, ..)| plan.is::<EmptyExec>() && schema.field(0).name() == name)?;
        Some(Given { rows, of_others: rows * (nodes - 1.0) / nodes, of_tables, is_grouped })
    }

    fn cost(plan: &Plan, nodes: usize) -> f64 {
        let given = |plan: &Plan| given_of(plan, nodes as f64);
        Model { given: &given }.of(plan, 1.0).time
    }

    /// Returns a table, with so many columns of eight bytes.
    fn table(name: &str, columns: usize) -> Plan {
        let others = (1..columns).map(|place| format!("c{place}"));
        let fields = [name.to_string()].into_iter().chain(others);
        let fields: Vec<Field> = fields.map(|name| Field::new(name, DataType::Int64, true)).collect();
        Arc::new(EmptyExec::new(Arc::new(Schema::new(fields))))
    }

    fn key(plan: &Plan) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(plan.schema().field(0).name(), 0))
    }

    fn leaf(plan: &Plan, nodes: usize) -> Plan {
        let variants = vec![plan.clone(); nodes];
        Arc::new(DistributedLeafExec::try_new(plan.clone(), variants).unwrap())
    }

    /// Shares rows of so many nodes out among their tasks of four partitions.
    fn shuffled(plan: Plan, nodes: usize) -> Plan {
        let by = Partitioning::Hash(vec![key(&plan)], 4 * nodes);
        let shared = Arc::new(RepartitionExec::try_new(plan, by).unwrap());
        Arc::new(NetworkShuffleExec::try_new(shared, nodes).unwrap())
    }

    fn to_all(plan: Plan, nodes: usize) -> Plan {
        let given = Arc::new(BroadcastExec::new(plan, nodes));
        let taken = Arc::new(NetworkBroadcastExec::try_new(given, nodes).unwrap());
        Arc::new(CoalescePartitionsExec::new(taken))
    }

    /// Brings rows to the node that was asked, whatever their number is.
    fn counted(plan: Plan, nodes: usize) -> Plan {
        let count = |plan: Plan, mode: AggregateMode| -> Plan {
            let schema = plan.schema();
            let none = PhysicalGroupBy::default();
            Arc::new(AggregateExec::try_new(mode, none, vec![], vec![], plan, schema).unwrap())
        };
        let part = count(plan, AggregateMode::Partial);
        let brought = Arc::new(NetworkCoalesceExec::try_new(part, nodes, 1).unwrap());
        count(Arc::new(CoalescePartitionsExec::new(brought)), AggregateMode::Final)
    }

    fn join(left: Plan, right: Plan, mode: PartitionMode) -> Plan {
        let on = vec![(key(&left), key(&right))];
        let join = HashJoinExecBuilder::new(left, right, on, JoinType::Inner).with_partition_mode(mode);
        Arc::new(join.build().unwrap())
    }

    fn grouped_by_key(plan: Plan, mode: AggregateMode) -> Plan {
        let schema = plan.schema();
        let name = schema.field(0).name().clone();
        let by = PhysicalGroupBy::new_single(vec![(key(&plan), name)]);
        Arc::new(AggregateExec::try_new(mode, by, vec![], vec![], plan, schema).unwrap())
    }

    fn is_worth(stages: &Plan, without: &Plan, nodes: usize) -> bool {
        let without = Cost(cost(without, nodes));
        without.is_much() && Cost(PLANNED + cost(stages, nodes)).is_worth(without)
    }

    #[test]
    fn many_groups_are_worth_stages_and_few_rows_are_not() {
        for nodes in [4, 8] {
            let grouped = |table: Plan, in_stages: bool| {
                let before = grouped_by_key(table, AggregateMode::Partial);
                let shared = if in_stages { shuffled(before, nodes) } else { before };
                grouped_by_key(shared, AggregateMode::FinalPartitioned)
            };
            // 48 MB come to the node that is asked, which are fewer than it takes by themselves.
            let groups = table("groups", 2);
            let stages = counted(grouped(leaf(&groups, nodes), true), nodes);
            let without = grouped(groups, false);
            assert!(is_worth(&stages, &without, nodes), "{nodes}");
            assert!(cost(&without, nodes) > 2.0 * (PLANNED + cost(&stages, nodes)), "{nodes}");
            let small = table("small", 2);
            let stages = counted(grouped(leaf(&small, nodes), true), nodes);
            assert!(!is_worth(&stages, &grouped(small, false), nodes), "{nodes}");
        }
    }

    #[test]
    fn large_joins_are_worth_stages_and_more_so_with_a_small_side() {
        let (nodes, partitioned) = (4, PartitionMode::Partitioned);
        let large = || table("large", 2);
        let without = join(large(), large(), partitioned);
        let both = || shuffled(leaf(&large(), nodes), nodes);
        let stages = counted(join(both(), both(), partitioned), nodes);
        assert!(is_worth(&stages, &without, nodes));
        // TPC-H 9: wide rows are sooner sent as columns in few bits than shared out as they are in memory,
        // but need not be where the other side goes to all nodes.
        let (coloured, wide) = (|| table("coloured", 9), || table("large", 9));
        let without = join(coloured(), wide(), partitioned);
        let by_keys = join(
            shuffled(leaf(&coloured(), nodes), nodes),
            shuffled(leaf(&wide(), nodes), nodes),
            partitioned,
        );
        assert!(!is_worth(&counted(by_keys, nodes), &without, nodes));
        let sent = to_all(leaf(&coloured(), nodes), nodes);
        let to_all = join(sent, leaf(&wide(), nodes), PartitionMode::CollectLeft);
        assert!(is_worth(&counted(to_all, nodes), &without, nodes));
    }

    #[test]
    fn rows_that_all_come_to_the_node_that_was_asked_are_not_worth_stages() {
        let nodes = 4;
        let wide = || shuffled(leaf(&table("large", 9), nodes), nodes);
        let joined =
            join(shuffled(leaf(&table("coloured", 2), nodes), nodes), wide(), PartitionMode::Partitioned);
        let stages: Plan = Arc::new(NetworkCoalesceExec::try_new(joined, nodes, 1).unwrap());
        let without = join(table("coloured", 2), table("large", 9), PartitionMode::Partitioned);
        assert!(!is_worth(&stages, &without, nodes));
    }

    #[test]
    fn joins_have_the_rows_that_conditions_leave() {
        let work = |rows: f64, of_tables: f64| Work { rows, of_tables, is_grouped: false, time: 0.0 };
        let (parts, lines) = (work(80e3, 800e3), work(6e6, 6e6));
        for (kind, rows) in [
            (JoinType::Inner, 600e3),
            (JoinType::Right, 6e6),
            (JoinType::RightSemi, 600e3),
            (JoinType::LeftSemi, 80e3),
            (JoinType::LeftAnti, 80e3),
        ] {
            assert!((joined(kind, parts, lines) - rows).abs() < 1.0, "{kind}: {rows}");
        }
    }

    #[test]
    fn costs_are_shown_in_milliseconds() {
        assert_eq!(Cost(12.4e6).to_string(), "12 ms");
    }
}
