//! The order of inner joins. A tree of inner joins of three relations or more is put into the order
//! with the least estimated cost, unless the order as written costs about as much
//! (docs/decisions/0019). DataFusion keeps the order of the text.
//!
//! | module | does |
//! |---|---|
//! | `tree` | takes a tree of joins apart, into relations and conditions |
//! | `estimate` | estimates the rows of plans |
//! | `enumerate` | finds the cheapest order of a graph |

mod enumerate;
mod estimate;
mod tree;

pub use estimate::{ColumnMeasure, Measures, groups_counted, rows as rows_of};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Explain, LogicalPlan};
use enumerate::{Costs, Set, Tree, best_order, cost};
use hypostyle_expr::setting::{Choice, Setting};
use hypostyle_expr::wanted::check_wanted;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tree::{Joins, is_tree};

/// The share of the cost as written that another order may have at most: estimates are not exact.
const COST_SHARE_MAX: f64 = 0.8;

/// The cost of a row that is put into a hash table, beside that of one that is looked up or made.
const BUILT: f64 = 2.0;

/// The setting of a session.
#[derive(Clone, Debug)]
pub struct JoinOrder {
    /// Joins are put in order; else they stay as they are written.
    pub is_estimated: bool,
}

impl Default for JoinOrder {
    fn default() -> Self {
        Self { is_estimated: true }
    }
}

impl fmt::Display for JoinOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_estimated { "estimated" } else { "written" })
    }
}

impl FromStr for JoinOrder {
    type Err = hypostyle_types::Error;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "estimated" => Ok(Self { is_estimated: true }),
            "written" => Ok(Self { is_estimated: false }),
            _ => Err(hypostyle_types::Error::invalid_input(format!(
                "join_order is estimated or written, not '{text}'"
            ))),
        }
    }
}

impl Choice for JoinOrder {
    const PREFIX: &'static str = "hypostyle_joins";
    const NAME: &'static str = "join_order";
    const DESCRIPTION: &'static str = "The order of inner joins: estimated or written";
}

/// Returns an optimized plan, or an EXPLAIN of one, with its joins in the order that the session's
/// settings say.
///
/// # Errors
/// `Interrupted` where nobody waits for the plan any more.
pub fn in_order(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let setting = Setting::<JoinOrder>::of(state.config_options());
    let measures = state.config().get_extension::<Measures>();
    let (Some(JoinOrder { is_estimated: true }), Some(measures)) = (setting, measures) else {
        return Ok(plan);
    };
    match plan {
        LogicalPlan::Explain(explain) if explain.logical_optimization_succeeded => {
            let inner = ordered(Arc::unwrap_or_clone(explain.plan), &measures)?;
            Ok(LogicalPlan::Explain(Explain { plan: Arc::new(inner), ..explain }))
        }
        query => ordered(query, &measures),
    }
}

fn ordered(plan: LogicalPlan, measures: &Measures) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| {
        if !is_tree(&node) {
            return Ok(Transformed::no(node));
        }
        check_wanted()?;
        let Some(mut joins) = Joins::take_apart(&node) else { return Ok(Transformed::no(node)) };
        let Some(order) = better_order(&joins, measures) else {
            return Ok(Transformed::new(relations_ordered(node, measures)?, true, TreeNodeRecursion::Jump));
        };
        for relation in &mut joins.relations {
            *relation = ordered(relation.clone(), measures)?;
        }
        Ok(match joins.rebuilt(&order, node.schema()) {
            Ok(plan) => Transformed::new(plan, true, TreeNodeRecursion::Jump),
            // What cannot be built in another order stays as it is.
            Err(_) => Transformed::no(node),
        })
    })
    .data()
}

/// Returns a tree of joins that keeps its order, with its relations in order.
fn relations_ordered(node: LogicalPlan, measures: &Measures) -> Result<LogicalPlan> {
    let below = |input: LogicalPlan| match is_tree(&input) {
        true => relations_ordered(input, measures),
        false => ordered(input, measures),
    };
    node.map_children(|input| below(input).map(Transformed::yes)).data()
}

/// Returns the cheapest order; `None` where it is not much better than the one that is written.
fn better_order(joins: &Joins, measures: &Measures) -> Option<Tree> {
    let mut model = Model { joins, estimates: joins.estimates(measures), rows: HashMap::new() };
    let best = best_order(&joins.neighbours(), &mut model)?;
    let (found, written) = (cost(&best, &mut model), cost(&joins.written, &mut model));
    (found < COST_SHARE_MAX * written).then(|| smaller_first(best, &mut model))
}

/// Puts the side with fewer rows to the left, where a hash table is made of it.
fn smaller_first(tree: Tree, model: &mut Model<'_>) -> Tree {
    let Tree::Join(left, right) = tree else { return tree };
    let (left, right) = (smaller_first(*left, model), smaller_first(*right, model));
    match model.rows(right.set()) < model.rows(left.set()) {
        true => Tree::join(right, left),
        false => Tree::join(left, right),
    }
}

struct Model<'a> {
    joins: &'a Joins,
    estimates: tree::Estimates,
    rows: HashMap<Set, f64>,
}

impl Costs for Model<'_> {
    fn rows(&mut self, set: Set) -> f64 {
        let (joins, estimates) = (self.joins, &self.estimates);
        *self.rows.entry(set).or_insert_with(|| joins.rows(set, estimates))
    }

    fn join(&mut self, left: Set, right: Set) -> f64 {
        let (one, other, made) = (self.rows(left), self.rows(right), self.rows(left | right));
        match self.joins.has_keys(left, right) {
            true => BUILT * one.min(other) + one.max(other) + made,
            // Each row of one is compared with each of the other.
            false => one * other + made,
        }
    }
}
