//! Common table expressions that read each other more than once. Each reference stands in the plan
//! with all that it reads, so that a chain of them doubles with every level: a plan that would become
//! too large has each of them computed once instead.

use crate::with::common_table::reads_step;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, SubqueryAlias};
use hypostyle_plan::computed_once::computed_apart;
use std::collections::HashMap;
use std::sync::Arc;

/// Nodes of a plan that is written out; a larger one is planned in tens of milliseconds.
const NODES_MAX: u64 = 2_000;

/// Returns a plan in which tables that are named more than once are computed once, if it is too
/// large without. Equal tables are one: they share their input.
///
/// # Errors
/// Those of DataFusion.
pub fn computed_once_if_large(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut sizes = Sizes::default();
    if sizes.count(&plan)? <= NODES_MAX {
        return Ok(plan);
    }
    Once { state, sizes, made: HashMap::new() }.rewritten(plan)
}

/// The address of a table's input, by which references to it are known.
type Input = *const LogicalPlan;

/// What the parts of a plan would be, written out.
#[derive(Default)]
struct Sizes {
    nodes: HashMap<Input, u64>,
    references: HashMap<Input, usize>,
    /// Names of recursive queries.
    steps: Vec<String>,
}

impl Sizes {
    /// Returns the number of nodes; each input is visited once.
    fn count(&mut self, plan: &LogicalPlan) -> Result<u64> {
        if let LogicalPlan::SubqueryAlias(alias) = plan {
            let input = Arc::as_ptr(&alias.input);
            *self.references.entry(input).or_default() += 1;
            if let Some(nodes) = self.nodes.get(&input) {
                return Ok(nodes.saturating_add(1));
            }
            let nodes = self.count(&alias.input)?;
            self.nodes.insert(input, nodes);
            return Ok(nodes.saturating_add(1));
        }
        if let LogicalPlan::RecursiveQuery(query) = plan {
            self.steps.push(query.name.clone());
        }
        let mut total = 1_u64;
        plan.apply_subqueries(|subquery| {
            total = total.saturating_add(self.count(subquery)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        for input in plan.inputs() {
            total = total.saturating_add(self.count(input)?);
        }
        Ok(total)
    }
}

struct Once<'a> {
    state: &'a SessionState,
    sizes: Sizes,
    /// Inputs that have been rewritten. Each is kept as it was, too, so that its address stays its own.
    made: HashMap<Input, (Arc<LogicalPlan>, Arc<LogicalPlan>)>,
}

impl Once<'_> {
    fn rewritten(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if let LogicalPlan::SubqueryAlias(alias) = plan {
            let input = self.input(&alias.input)?;
            return SubqueryAlias::try_new(input, alias.alias).map(LogicalPlan::SubqueryAlias);
        }
        let plan = plan.map_subqueries(|subquery| self.rewritten(subquery).map(Transformed::yes)).data()?;
        plan.map_children(|input| self.rewritten(input).map(Transformed::yes)).data()
    }

    fn input(&mut self, written: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        let key = Arc::as_ptr(written);
        if let Some((_, made)) = self.made.get(&key) {
            return Ok(made.clone());
        }
        let plan = self.rewritten(written.as_ref().clone())?;
        let is_repeated = self.sizes.references.get(&key).is_some_and(|references| *references > 1);
        let is_table = matches!(plan, LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_));
        let plan = match is_repeated && !is_table && !reads_step(&plan, &self.sizes.steps) {
            true => computed_apart(self.state, plan)?,
            false => plan,
        };
        let made = Arc::new(plan);
        self.made.insert(key, (written.clone(), made.clone()));
        Ok(made)
    }
}
