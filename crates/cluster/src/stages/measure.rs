//! What the tasks of a query's stages measure: each counts what it gives, and tells it when all of its rows
//! are taken, as the last word of the call that holds it. So the node that was asked knows it for EXPLAIN
//! ANALYZE, and the connection of the call is free for the next request.

use super::rows;
use crate::message::{self, TaskName};
use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion_distributed::NetworkBoundaryExt;
use hypostyle_error::external;
use hypostyle_placement::NodeId;
use hypostyle_sync::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// What a task has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskMeasure {
    /// The rows that it has given.
    pub rows: u64,
    /// How many of these went to other nodes.
    pub sent_rows: u64,
    /// The bytes of these, before frames are compressed.
    pub sent_bytes: u64,
    /// The bytes that its operators have spilled.
    pub spilled_bytes: u64,
    /// What its operators have done, each in front of those that it reads. A node of an earlier release tells
    /// nothing of them.
    #[serde(default)]
    pub operators: Vec<OperatorMeasure>,
}

impl TaskMeasure {
    /// Returns it as it travels.
    ///
    /// # Errors
    /// `Internal`, which no measure leads to.
    pub fn packed(&self) -> Result<RecordBatch> {
        rows::value(message::encode(self).map_err(external)?)
    }

    /// Returns what has come.
    ///
    /// # Errors
    /// For what is no measure.
    pub fn unpacked(packed: &RecordBatch) -> Result<Self> {
        message::decode(&rows::first_value(packed)?).map_err(external)
    }
}

impl fmt::Display for TaskMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, sent_rows, sent_bytes, spilled_bytes, operators: _ } = self;
        write!(f, "rows={rows} sent_rows={sent_rows} sent_bytes={sent_bytes}")?;
        match spilled_bytes {
            0 => Ok(()),
            bytes => write!(f, " spilled_bytes={bytes}"),
        }
    }
}

/// What an operator of a task has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OperatorMeasure {
    operator: Operator,
    /// The rows that it has given, if it counts them.
    output_rows: Option<u64>,
    /// The nanoseconds that it has computed, if it measures them.
    elapsed_compute: Option<u64>,
}

/// An operator of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Operator {
    /// How many others are above it.
    depth: usize,
    name: String,
}

impl OperatorMeasure {
    /// Adds what the same operator of another task has done.
    fn add(&mut self, other: &Self) {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.output_rows = sum(self.output_rows, other.output_rows);
        self.elapsed_compute = sum(self.elapsed_compute, other.elapsed_compute);
    }
}

impl fmt::Display for OperatorMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.operator.name)?;
        if let Some(rows) = self.output_rows {
            write!(f, " output_rows={rows}")?;
        }
        match self.elapsed_compute {
            Some(time) => write!(f, " elapsed_compute={:?}", Duration::from_nanos(time)),
            None => Ok(()),
        }
    }
}

/// Returns the operators of a task in the order in which they are measured. What is below the rows of another
/// stage is not of the task.
pub(super) fn operators_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<Operator> {
    fn note(plan: &Arc<dyn ExecutionPlan>, depth: usize, found: &mut Vec<Operator>) {
        found.push(Operator { depth, name: plan.name().to_string() });
        if !plan.is_network_boundary() {
            plan.children().into_iter().for_each(|input| note(input, depth + 1, found));
        }
    }
    let mut found = Vec::new();
    note(plan, 0, &mut found);
    found
}

/// Returns what operators have measured. What shares out the rows of a task may be above them: it is no part.
pub(super) fn measured(operators: &[Operator], metrics: &[MetricsSet]) -> Vec<OperatorMeasure> {
    let Some(above) = metrics.len().checked_sub(operators.len()) else { return Vec::new() };
    let measures = operators.iter().zip(metrics.iter().skip(above));
    let measure = |(operator, metrics): (&Operator, &MetricsSet)| OperatorMeasure {
        operator: operator.clone(),
        output_rows: metrics.output_rows().map(|rows| rows as u64),
        elapsed_compute: metrics.elapsed_compute().map(|time| time as u64),
    };
    measures.map(measure).collect()
}

/// Returns the operators of a task as a text: each with those that it reads behind it, in brackets.
fn tree(operators: &[OperatorMeasure]) -> String {
    let (mut text, mut above) = (String::new(), Vec::<usize>::new());
    for measure in operators {
        let depth = measure.operator.depth;
        match above.last().copied() {
            Some(last) if depth > last => text.push_str(" ("),
            Some(_) => {
                while above.pop().is_some_and(|last| last > depth) {
                    text.push(')');
                }
                text.push_str(", ");
            }
            None => {}
        }
        above.push(depth);
        text.push_str(&measure.to_string());
    }
    text.push_str(&")".repeat(above.len().saturating_sub(1)));
    text
}

/// Returns the bytes that some operators have spilled.
pub(super) fn spilled(operators: &[MetricsSet]) -> u64 {
    operators.iter().filter_map(MetricsSet::spilled_bytes).map(|bytes| bytes as u64).sum()
}

/// Counts what a task gives, and those who take it.
#[derive(Default)]
pub(super) struct Taken {
    /// The partitions whose rows are not taken yet, once one of them was asked for.
    left: Mutex<Option<usize>>,
    /// Told when there are none left.
    all: Notify,
    rows: AtomicU64,
    sent_rows: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Taken {
    /// Counts one who takes the rows of one of some partitions, until what is returned is dropped.
    pub fn one_of(self: &Arc<Self>, partitions: usize) -> Taker {
        self.left.lock().get_or_insert(partitions);
        Taker(self.clone())
    }

    /// Waits until all rows are taken, or nobody wants the others any more.
    pub async fn all(&self) {
        self.all.notified().await;
    }

    /// Counts rows that are given.
    pub fn give(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts rows that go to another node, which are given as well.
    pub fn send(&self, rows: usize, packed: &[RecordBatch]) {
        self.sent_rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.sent_bytes.fetch_add(rows::bytes(packed) as u64, Ordering::Relaxed);
    }

    /// Returns what was counted.
    pub fn measure(&self, operators: Vec<OperatorMeasure>, spilled_bytes: u64) -> TaskMeasure {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TaskMeasure {
            rows: of(&self.rows),
            sent_rows: of(&self.sent_rows),
            sent_bytes: of(&self.sent_bytes),
            spilled_bytes,
            operators,
        }
    }
}

/// One who takes the rows of a partition, until this is dropped.
pub(super) struct Taker(Arc<Taken>);

impl Drop for Taker {
    fn drop(&mut self) {
        let mut left = self.0.left.lock();
        let now = left.map(|left| left.saturating_sub(1));
        *left = now;
        drop(left);
        if now == Some(0) {
            self.0.all.notify_one();
        }
    }
}

/// The number of a stage, and that of a task in it.
type StageAndTask = (usize, usize);

/// The tasks of a query, as the node knows them that was asked for it.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// The node of each task, and what it has told.
    known: Mutex<BTreeMap<StageAndTask, (NodeId, Option<TaskMeasure>)>>,
    /// The partitions of the last stages whose rows are not all read.
    unread: AtomicUsize,
}

impl Tasks {
    /// Forgets what an earlier run has measured.
    pub fn begin(&self) {
        self.known.lock().clear();
        self.unread.store(0, Ordering::Release);
    }

    /// Notes where a task runs.
    pub fn run(&self, task: TaskName, node: NodeId) {
        self.known.lock().insert((task.stage, task.task), (node, None));
    }

    /// Notes what a task has told.
    pub fn tell(&self, task: TaskName, measure: TaskMeasure) {
        if let Some((_, told)) = self.known.lock().get_mut(&(task.stage, task.task)) {
            *told = Some(measure);
        }
    }

    /// Notes that rows of a partition are read, up to [`Self::have_read`].
    pub fn read(&self) {
        self.unread.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that all rows of a partition have come.
    pub fn have_read(&self) {
        self.unread.fetch_sub(1, Ordering::AcqRel);
    }

    /// Says whether all rows have come: then all tasks end by themselves.
    pub fn are_read(&self) -> bool {
        self.unread.load(Ordering::Acquire) == 0
    }

    /// Returns what all tasks have told, without their operators; `None` if there were none.
    pub fn total(&self) -> Option<TaskMeasure> {
        let known = self.known.lock();
        let told = known.values().filter_map(|(_, told)| told.as_ref());
        let all = told.fold(TaskMeasure::default(), |all, one| TaskMeasure {
            rows: all.rows.saturating_add(one.rows),
            sent_rows: all.sent_rows.saturating_add(one.sent_rows),
            sent_bytes: all.sent_bytes.saturating_add(one.sent_bytes),
            spilled_bytes: all.spilled_bytes.saturating_add(one.spilled_bytes),
            operators: Vec::new(),
        });
        (!known.is_empty()).then_some(all)
    }

    /// Returns what each task has told, and what their operators have done together, a text for each stage.
    pub fn texts(&self, name: &dyn Fn(NodeId) -> String) -> Vec<String> {
        let mut stages = BTreeMap::<usize, OfStage>::new();
        for ((stage, _), (node, told)) in self.known.lock().iter() {
            let of_stage = stages.entry(*stage).or_default();
            match told {
                Some(told) => {
                    of_stage.tasks.push(format!("{}: {told}", name(*node)));
                    of_stage.add(&told.operators);
                }
                None => of_stage.tasks.push(format!("{}: ended early", name(*node))),
            }
        }
        stages.into_iter().map(|(stage, told)| format!("stage {stage}={told}")).collect()
    }
}

/// What the tasks of a stage have told.
#[derive(Default)]
struct OfStage {
    /// The texts of the tasks.
    tasks: Vec<String>,
    /// What their operators have done together. A task may have others than the rest, because each node puts
    /// those into its plan that keep it within its memory.
    plans: Vec<Vec<OperatorMeasure>>,
}

impl OfStage {
    /// Adds what the operators of one more task have done.
    fn add(&mut self, operators: &[OperatorMeasure]) {
        match self.plans.iter_mut().find(|plan| are_alike(plan, operators)) {
            Some(plan) => plan.iter_mut().zip(operators).for_each(|(all, one)| all.add(one)),
            None if operators.is_empty() => {}
            None => self.plans.push(operators.to_vec()),
        }
    }
}

/// Says whether two tasks have the same operators.
fn are_alike(one: &[OperatorMeasure], other: &[OperatorMeasure]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.operator == other.operator)
}

impl fmt::Display for OfStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.tasks.join("; "))?;
        self.plans.iter().try_for_each(|plan| write!(f, " operators=[{}]", tree(plan)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::joins::CrossJoinExec;
    use futures::FutureExt;
    use uuid::Uuid;

    #[test]
    fn measures_travel() {
        let operators = vec![done(0, "SortExec", Some(7))];
        let measure = TaskMeasure { rows: 7, sent_rows: 5, sent_bytes: 900, spilled_bytes: 0, operators };
        assert_eq!(TaskMeasure::unpacked(&measure.packed().unwrap()).unwrap(), measure);
        assert_eq!(measure.to_string(), "rows=7 sent_rows=5 sent_bytes=900");
        let spilled = TaskMeasure { spilled_bytes: 3, ..measure };
        assert_eq!(spilled.to_string(), "rows=7 sent_rows=5 sent_bytes=900 spilled_bytes=3");
        TaskMeasure::unpacked(&rows::value(b"no measure".to_vec()).unwrap()).unwrap_err();
        // An earlier release tells nothing of operators.
        let before = br#"{"rows":1,"sent_rows":0,"sent_bytes":0,"spilled_bytes":0}"#;
        let before = rows::value(before.to_vec()).unwrap();
        assert_eq!(
            TaskMeasure::unpacked(&before).unwrap(),
            TaskMeasure { rows: 1, ..TaskMeasure::default() }
        );
    }

    fn done(depth: usize, name: &str, output_rows: Option<u64>) -> OperatorMeasure {
        let operator = Operator { depth, name: name.to_string() };
        OperatorMeasure { operator, output_rows, elapsed_compute: output_rows.map(|rows| rows * 1000) }
    }

    #[test]
    fn operators_of_a_stage_are_added_up() {
        let plan = |rows: u64| {
            vec![
                done(0, "FilterExec", Some(rows)),
                done(1, "HashJoinExec", Some(2 * rows)),
                done(2, "NetworkShuffleExec", None),
                done(2, "ProjectionExec", Some(3)),
                done(3, "PartExec", Some(4)),
            ]
        };
        let mut stage = OfStage::default();
        stage.tasks.push("n1: rows=1".to_string());
        stage.add(&[]);
        stage.add(&plan(1));
        stage.add(&plan(2));
        stage.add(&[done(0, "PartExec", None)]);
        assert_eq!(
            stage.to_string(),
            "[n1: rows=1] operators=[FilterExec output_rows=3 elapsed_compute=3µs (HashJoinExec output_rows=6 \
             elapsed_compute=6µs (NetworkShuffleExec, ProjectionExec output_rows=6 elapsed_compute=6µs (PartExec \
             output_rows=8 elapsed_compute=8µs)))] operators=[PartExec]"
        );
        // What another node makes up breaks nothing.
        let made_up = [done(usize::MAX, "a", None), done(3, "b", None), done(usize::MAX, "c", None)];
        assert_eq!(tree(&made_up), "a), b (c)");
    }

    #[test]
    fn measures_are_those_of_the_operators_below_what_shares_rows_out() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let empty = || -> Arc<dyn ExecutionPlan> { Arc::new(EmptyExec::new(schema.clone())) };
        let plan: Arc<dyn ExecutionPlan> = Arc::new(CrossJoinExec::new(empty(), empty()));
        let operators = operators_of(&plan);
        let of = |count: usize| measured(&operators, &vec![MetricsSet::new(); count]);
        for count in [3, 4] {
            assert_eq!(tree(&of(count)), "CrossJoinExec (EmptyExec, EmptyExec)", "{count}");
        }
        assert!(of(2).is_empty());
    }

    #[test]
    fn a_task_has_ended_when_all_partitions_are_taken() {
        let taken = Arc::new(Taken::default());
        assert!(taken.all().now_or_never().is_none());
        let (one, other) = (taken.one_of(2), taken.one_of(2));
        drop(one);
        assert!(taken.all().now_or_never().is_none());
        drop(other);
        assert!(taken.all().now_or_never().is_some());
    }

    #[test]
    fn texts_name_the_node_of_each_task() {
        let (tasks, node) = (Tasks::default(), NodeId(Uuid::from_u128(1)));
        assert!(tasks.total().is_none() && tasks.are_read());
        let named = |stage: usize, task: usize| TaskName { query: Uuid::nil(), stage, task };
        for (stage, task) in [(1, 0), (1, 1), (2, 0)] {
            tasks.run(named(stage, task), node);
        }
        tasks.tell(named(1, 1), TaskMeasure { rows: 3, ..TaskMeasure::default() });
        assert_eq!(
            tasks.texts(&|_| "n1".to_string()),
            ["stage 1=[n1: ended early; n1: rows=3 sent_rows=0 sent_bytes=0]", "stage 2=[n1: ended early]"]
        );
        assert_eq!(tasks.total().map(|all| all.rows), Some(3));
        tasks.read();
        assert!(!tasks.are_read());
        tasks.have_read();
        assert!(tasks.are_read());
        tasks.begin();
        assert!(tasks.total().is_none());
    }
}
