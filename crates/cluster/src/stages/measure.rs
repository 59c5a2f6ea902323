//! What the tasks of a query's stages measure: each counts what it gives, and tells it when all of its rows
//! are taken, as the last word of the call that holds it. So the node that was asked knows it for EXPLAIN
//! ANALYZE, and the connection of the call is free for the next request.

use super::rows;
use crate::message::{self, TaskName};
use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::MetricsSet;
use hypostyle_error::external;
use hypostyle_placement::NodeId;
use hypostyle_sync::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// What a task has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskMeasure {
    /// The rows that it has given.
    pub rows: u64,
    /// How many of these went to other nodes.
    pub sent_rows: u64,
    /// The bytes of these, before frames are compressed.
    pub sent_bytes: u64,
    /// The bytes that its operators have spilled.
    pub spilled_bytes: u64,
}

impl TaskMeasure {
    /// Returns it as it travels.
    ///
    /// # Errors
    /// `Internal`, which no measure leads to.
    pub fn packed(self) -> Result<RecordBatch> {
        rows::value(&message::encode(&self).map_err(external)?)
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
        let Self { rows, sent_rows, sent_bytes, spilled_bytes } = self;
        write!(f, "rows={rows} sent_rows={sent_rows} sent_bytes={sent_bytes}")?;
        match spilled_bytes {
            0 => Ok(()),
            bytes => write!(f, " spilled_bytes={bytes}"),
        }
    }
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
    pub fn measure(&self, spilled_bytes: u64) -> TaskMeasure {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TaskMeasure {
            rows: of(&self.rows),
            sent_rows: of(&self.sent_rows),
            sent_bytes: of(&self.sent_bytes),
            spilled_bytes,
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

    /// Returns what all tasks have told; `None` if there were none.
    pub fn total(&self) -> Option<TaskMeasure> {
        let known = self.known.lock();
        let told = known.values().filter_map(|(_, told)| *told);
        let all = told.fold(TaskMeasure::default(), |all, one| TaskMeasure {
            rows: all.rows + one.rows,
            sent_rows: all.sent_rows + one.sent_rows,
            sent_bytes: all.sent_bytes + one.sent_bytes,
            spilled_bytes: all.spilled_bytes + one.spilled_bytes,
        });
        (!known.is_empty()).then_some(all)
    }

    /// Returns what each task has told, a text for each stage.
    pub fn texts(&self, name: &dyn Fn(NodeId) -> String) -> Vec<String> {
        let mut stages = BTreeMap::<usize, Vec<String>>::new();
        for ((stage, _), (node, told)) in self.known.lock().iter() {
            let told = told.map_or_else(|| "ended early".to_string(), |measure| measure.to_string());
            stages.entry(*stage).or_default().push(format!("{}: {told}", name(*node)));
        }
        stages.into_iter().map(|(stage, tasks)| format!("stage {stage}=[{}]", tasks.join("; "))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use uuid::Uuid;

    #[test]
    fn measures_travel() {
        let measure = TaskMeasure { rows: 7, sent_rows: 5, sent_bytes: 900, spilled_bytes: 0 };
        assert_eq!(TaskMeasure::unpacked(&measure.packed().unwrap()).unwrap(), measure);
        assert_eq!(measure.to_string(), "rows=7 sent_rows=5 sent_bytes=900");
        let spilled = TaskMeasure { spilled_bytes: 3, ..measure };
        assert_eq!(spilled.to_string(), "rows=7 sent_rows=5 sent_bytes=900 spilled_bytes=3");
        TaskMeasure::unpacked(&rows::value(b"no measure").unwrap()).unwrap_err();
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
