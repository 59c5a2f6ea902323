//! Names for what functions in FROM give. DataFusion calls all results of a function `f()`, and takes two plans
//! that scan tables of one name for the same: of `SELECT (SELECT count(*) FROM read_csv('a.csv')), (SELECT
//! count(*) FROM read_csv('b.csv'))` it computed the first subquery alone. Here they are called by the call.

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Ident, TableFactor};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The name of no partition. A call that has it comes here for the second time, and is left to the planner.
const MARK: &str = "named by its call";

/// Calls with longer texts have a part of them, and a number, in the name.
const NAME_BYTES_MAX: usize = 200;

/// Plans calls of functions in FROM.
#[derive(Debug)]
pub struct NamedByCall;

impl RelationPlanner for NamedByCall {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { args: Some(_), alias, partitions, .. } = &mut relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        if partitions.iter().any(|partition| partition.value == MARK) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let alias = alias.take();
        let name = name_of(&relation.to_string());
        if let TableFactor::Table { partitions, .. } = &mut relation {
            partitions.push(Ident::new(MARK));
        }
        let plan = match context.plan(relation)? {
            LogicalPlan::TableScan(scan) => {
                LogicalPlanBuilder::scan(TableReference::bare(name), scan.source, None)?.build()?
            }
            other => other,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

fn name_of(call: &str) -> String {
    if call.len() <= NAME_BYTES_MAX {
        return call.to_string();
    }
    let mut hasher = DefaultHasher::new();
    call.hash(&mut hasher);
    let shown: String = call.chars().take(NAME_BYTES_MAX / 2).collect();
    format!("{shown}… {:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_calls_have_short_names_of_their_own() {
        assert_eq!(name_of("f(1)"), "f(1)");
        let long = |end: &str| name_of(&format!("f('{}{end}')", "ä".repeat(1000)));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").len() < 2 * NAME_BYTES_MAX);
    }
}
