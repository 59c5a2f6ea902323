//! Plans that travel within one process, so that tests see what can be sent: each plan of a session is
//! encoded as for a node, and what another session decodes runs in its place.

use crate::codec;
use crate::gather::is_refusal;
use crate::table::FragmentScanExec;
use crate::task::settings;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use hypostyle_error::from_datafusion;
use hypostyle_expr::portable::Functions;
use hypostyle_sync::Mutex;
use hypostyle_types::TableId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The operator whose rows several places of a plan have, `SharedExec` in [`hypostyle_plan`].
const COMPUTED_ONCE: &str = "ComputedOnceExec";

/// The operator that keeps the error of a subquery, which is computed where the statement is.
const KEPT_ERROR: &str = "KeptErrorExec";

/// What became of the plans of some sessions.
#[derive(Debug, Default)]
pub struct Journeys(Mutex<Counts>);

/// How often something happened, by what it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Plans that have arrived.
    pub arrived: usize,
    /// The operators of these.
    pub operators: BTreeMap<String, usize>,
    /// The operators that stay, while what is above them travels, and what is below by itself.
    pub sources: BTreeMap<String, usize>,
    /// Why whole plans stay.
    pub stayed: BTreeMap<String, usize>,
}

impl Journeys {
    /// Returns what was counted until now.
    pub fn counts(&self) -> Counts {
        self.0.lock().clone()
    }
}

/// The rule that has a plan travel before other rules see it: a node sends plans that are not
/// optimized, and whoever gets one does that.
pub struct Travels {
    functions: Arc<Functions>,
    receiver: SessionState,
    journeys: Arc<Journeys>,
}

impl fmt::Debug for Travels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Travels").finish_non_exhaustive()
    }
}

impl Travels {
    /// Makes the rule for a session that sends these functions to another session.
    pub fn new(functions: Arc<Functions>, receiver: SessionState, journeys: Arc<Journeys>) -> Self {
        Self { functions, receiver, journeys }
    }

    /// Returns the plan with something that can be sent in the place of each source that cannot.
    fn with_sources(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<(Arc<dyn ExecutionPlan>, Sources)> {
        let mut sources = Sources::default();
        let replaced = |node: Arc<dyn ExecutionPlan>| {
            let source = match node.children().as_slice() {
                [] => match codec::encode(node.clone(), &self.functions) {
                    Ok(_) => return Ok(Transformed::no(node)),
                    Err(error) if is_refusal(&error) => node,
                    Err(error) => return Err(error),
                },
                // Other operators that have its rows are not sent with it.
                [input] if node.name() == COMPUTED_ONCE && !reads_subqueries(input)? => {
                    let input = self.journey(Arc::clone(input), &sources, options)?;
                    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                    node.replace_children(vec![input], changed)?
                }
                [input] if node.name() == KEPT_ERROR && !reads_subqueries(input)? => {
                    codec::resolved(node.clone(), &|scan: &FragmentScanExec| sources.of(scan))?
                }
                _ => return Ok(Transformed::no(node)),
            };
            let columns = (0..source.schema().fields().len()).collect();
            let id = TableId(sources.0.len() as u64);
            let scan = FragmentScanExec::try_new(id, source.schema(), columns, None)?;
            sources.0.push(source);
            Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>))
        };
        let plan = plan.transform_up(replaced).data()?;
        Ok((plan, sources))
    }

    /// Sends a plan over some sources, and returns what arrives; the plan itself if it stays.
    fn journey(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        sources: &Sources,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let resolve = |scan: &FragmentScanExec| sources.of(scan);
        let bytes = match codec::encode(plan.clone(), &self.functions) {
            Ok(bytes) => bytes,
            Err(error) if is_refusal(&error) => {
                let why = from_datafusion(error).message().to_string();
                *self.journeys.0.lock().stayed.entry(why).or_default() += 1;
                return codec::resolved(plan, &resolve);
            }
            Err(error) => return Err(error),
        };
        let mut receiver = self.receiver.clone();
        for (name, value) in settings(options) {
            receiver.config_mut().options_mut().set(&name, &value)?;
        }
        let arrived = codec::decode(&bytes, &receiver.task_ctx(), &resolve)?;
        let mut counts = self.journeys.0.lock();
        counts.arrived += 1;
        plan.apply(|node| {
            *counts.operators.entry(node.name().into()).or_default() += 1;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(arrived)
    }
}

/// Says whether expressions of a plan read scalar subqueries, which an operator above it computes.
fn reads_subqueries(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        let mut reads = false;
        node.apply_expressions(&mut |expr| {
            reads |= expr.exists(|part| Ok(part.is::<ScalarSubqueryExpr>()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(reads)
    })
}

/// The sources of a plan, by the numbers of the tables that stand for them.
#[derive(Default)]
struct Sources(Vec<Arc<dyn ExecutionPlan>>);

impl Sources {
    fn of(&self, scan: &FragmentScanExec) -> Result<Arc<dyn ExecutionPlan>> {
        let source = usize::try_from(scan.table.0).ok().and_then(|number| self.0.get(number)).cloned();
        source.ok_or_else(|| DataFusionError::Internal(format!("a plan has no source {}", scan.table)))
    }
}

impl PhysicalOptimizerRule for Travels {
    fn name(&self) -> &'static str {
        "travels"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (plan, sources) = self.with_sources(plan, options)?;
        for source in &sources.0 {
            *self.journeys.0.lock().sources.entry(source.name().into()).or_default() += 1;
        }
        self.journey(plan, &sources, options)
    }
}
