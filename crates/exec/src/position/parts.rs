//! The scans of several parts of a table, which pipelines run over one after the other.

use crate::scan::ScanExec;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use hypostyle_expr::{no_expressions, no_inputs};
use std::fmt;
use std::sync::Arc;

/// Stands for the scans of a table's parts in a plan that may be run over each part by itself: its rows
/// are those of all of them together. Parts of several tables at the same place belong together.
///
/// Only pipelines read it. A plan in which one is left has to be made for each part.
#[derive(Clone, Debug)]
pub struct PartsExec {
    scans: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl PartsExec {
    /// Makes the operator of scans with the same columns; `None` for others, and for none.
    pub fn try_new(scans: Vec<Arc<dyn ExecutionPlan>>) -> Option<Self> {
        let schema = scans.first()?.schema();
        let are_alike = scans.iter().all(|scan| scan.is::<ScanExec>() && scan.schema() == schema);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        are_alike.then(|| Self { scans, properties: Arc::new(properties) })
    }

    /// Says whether one is left in a plan.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub fn is_in(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
        plan.exists(|node| Ok(node.is::<Self>()))
    }

    /// Returns a plan that operators can run.
    pub(super) fn replaced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<Self>() {
            Some(parts) => Ok(Transformed::yes(UnionExec::try_new(parts.scans.clone())?)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    pub(super) fn scans(&self) -> impl Iterator<Item = &ScanExec> {
        self.scans.iter().filter_map(|scan| scan.downcast_ref::<ScanExec>())
    }
}

impl DisplayAs for PartsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartsExec: {} scans", self.scans.len())
    }
}

impl ExecutionPlan for PartsExec {
    fn name(&self) -> &'static str {
        "PartsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    no_inputs!();

    no_expressions!();

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("only pipelines read several parts of a table")
    }
}
