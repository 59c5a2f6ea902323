//! Names for what functions in FROM give. DataFusion calls all results of a function `f()`, and takes two
//! plans that scan tables of one name for the same: of `SELECT (SELECT count(*) FROM read_csv('a.csv')),
//! (SELECT count(*) FROM read_csv('b.csv'))` it computed the first subquery alone. Here they are called by
//! the call.

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Ident, TableAlias, TableFactor};
use hypostyle_sql::build;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The alias of no call. One that has it comes here for the second time, and is left to the planner.
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
        let Some(alias) = alias_of(&mut relation) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let alias = alias.take();
        if alias.as_ref().is_some_and(|alias| alias.name.value == MARK) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let call = relation.to_string();
        let name = name_of(call.strip_prefix("LATERAL ").unwrap_or(&call));
        if let Some(marked) = alias_of(&mut relation) {
            *marked = Some(build::called(Ident::new(MARK), Vec::new()));
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

/// Returns the alias of a call, if it is one.
fn alias_of(relation: &mut TableFactor) -> Option<&mut Option<TableAlias>> {
    match relation {
        TableFactor::Table { args: Some(_), alias, .. } | TableFactor::Function { alias, .. } => Some(alias),
        _ => None,
    }
}

/// Returns the name of what a call gives, which is short.
pub fn name_of(call: &str) -> String {
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
