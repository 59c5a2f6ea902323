//! Common table expressions whose rows are computed once, wherever and however often a query reads
//! them. These are the ones that would have other rows each time, because of random() or nextval(),
//! and those that are AS MATERIALIZED. DataFusion replaces each reference by the query.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, SubqueryAlias};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CteAsMaterialized, Query, Visitor};
use hypostyle_expr::walk::{any_node, has_expression};
use hypostyle_plan::computed_once::read_often;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::walk;
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Returns the common table expressions of a statement, each with whether it is AS MATERIALIZED.
pub fn table_expressions(statement: &DfStatement) -> Vec<(String, bool)> {
    let mut found = TableExpressions(Vec::new());
    let _done = match statement {
        DfStatement::Statement(statement) => walk(statement, &mut found),
        DfStatement::Explain(explain) => return table_expressions(&explain.statement),
        _ => return Vec::new(),
    };
    found.0
}

struct TableExpressions(Vec<(String, bool)>);

impl Visitor for TableExpressions {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let expressions = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(expressions.map(|expression| {
            let is_materialized = matches!(expression.materialized, Some(CteAsMaterialized::Materialized));
            (fold(&expression.alias.name), is_materialized)
        }));
        ControlFlow::Continue(())
    }
}

/// Returns the plan in which those of the expressions are computed once that have to be.
///
/// # Errors
/// Those of DataFusion.
pub fn computed_once(plan: LogicalPlan, expressions: &[(String, bool)]) -> Result<LogicalPlan> {
    // The references of a plan are compared with each other only where it matters: the parts of one that
    // reads much are many, and large.
    let is_volatile =
        |plan: &LogicalPlan| any_node(plan, |node| has_expression(node, Expr::is_volatile_node));
    if !expressions.iter().any(|(_, is_materialized)| *is_materialized)
        && (expressions.is_empty() || !is_volatile(&plan))
    {
        return Ok(plan);
    }
    let mut references: Vec<SubqueryAlias> = Vec::new();
    if !expressions.is_empty() {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::SubqueryAlias(alias) = node
                && expressions.iter().any(|(name, _)| name == alias.alias.table())
            {
                references.push(alias.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let mut shared: Vec<SubqueryAlias> = Vec::new();
    while let Some(alias) = references.pop() {
        let is_materialized =
            expressions.iter().any(|(name, materialized)| *materialized && name == alias.alias.table());
        let is_known = shared.contains(&alias);
        if !is_known && (is_materialized || is_volatile(&alias.input) && references.contains(&alias)) {
            shared.push(alias);
        }
    }
    let steps = steps_of(&plan);
    shared.retain(|alias| !reads_step(&alias.input, &steps));
    if shared.is_empty() {
        return Ok(plan);
    }
    // All references to a table have one node, and so the same rows.
    let node = |alias: SubqueryAlias| {
        let input = read_often(alias.input.as_ref().clone());
        (alias, Arc::new(input))
    };
    let shared: Vec<(SubqueryAlias, Arc<LogicalPlan>)> = shared.into_iter().map(node).collect();
    plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::SubqueryAlias(alias) = &node else { return Ok(Transformed::no(node)) };
        let Some((_, input)) = shared.iter().find(|(known, _)| known == alias) else {
            return Ok(Transformed::no(node));
        };
        let alias = SubqueryAlias::try_new(input.clone(), alias.alias.clone())?;
        Ok(Transformed::yes(LogicalPlan::SubqueryAlias(alias)))
    })
    .data()
}

/// Returns the names of the recursive queries in a plan.
fn steps_of(plan: &LogicalPlan) -> Vec<String> {
    let mut names = Vec::new();
    let _never_fails = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(query) = node {
            names.push(query.name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    names
}

/// Says whether a plan within a recursive query reads its last step, and so has other rows in each.
pub fn reads_step(plan: &LogicalPlan, steps: &[String]) -> bool {
    let own = steps_of(plan);
    let is_step = |name: &str| steps.iter().any(|step| step == name) && !own.iter().any(|own| own == name);
    any_node(plan, |node| step_of(node).is_some_and(|name| is_step(&name)))
}

/// Returns the name of the recursive query whose last step a plan is. Names of tables tell it not: another
/// table may have the same one, and what quotes keep is folded there.
pub fn step_of(plan: &LogicalPlan) -> Option<String> {
    let LogicalPlan::TableScan(scan) = plan else { return None };
    let table = source_as_provider(&scan.source).ok()?;
    let step = (table.as_ref() as &dyn Any).downcast_ref::<CteWorkTable>()?;
    Some(step.name().to_string())
}
