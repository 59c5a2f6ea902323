//! The physical optimizer rules, in the order in which they run.

use crate::claims::{Constants, Orders};
use crate::join_filter::JoinFilters;
use crate::lambda_places::LambdaPlaces;
use crate::new_rows::NewRows;
use crate::one_nan::OneNan;
use crate::pieces::InPieces;
use crate::position::Positions;
use crate::pushdown::{GuardedStay, WhereNamesDiffer};
use crate::sanity::Sanity;
use crate::scan::in_order::InOrder;
use crate::scan::kept_order::KeepOrders;
use crate::slices::Slices;
use crate::yielding::Yielding;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use std::sync::Arc;

/// The rules of DataFusion, with pushdown of filters where names tell columns from each other and of what
/// nothing guards, and ours behind them: they put operators into a plan that nothing moves any more.
pub fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = rules_without_positions();
    // Behind the rule that answers aggregates by statistics, and before those that share rows out.
    let place = rules.iter().position(|rule| rule.name() == "join_selection").unwrap_or(0);
    rules.insert(place, Arc::new(Positions { rules: rules_without_positions }));
    rules
}

/// Returns the rules of a plan in which no pipeline is to stand for operators.
pub fn rules_without_positions() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let own: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 7] = [
        Arc::new(InOrder),
        Arc::new(InPieces),
        Arc::new(Slices),
        Arc::new(OneNan),
        Arc::new(JoinFilters),
        Arc::new(Yielding),
        Arc::new(NewRows),
    ];
    let mut rules = rules_of_shared_plans();
    rules.extend(own);
    rules
}

/// Returns those of a plan that nodes of a cluster share: of our operators, there are none in it.
pub fn rules_of_shared_plans() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = PhysicalOptimizer::new()
        .rules
        .into_iter()
        .map(|rule| -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
            match rule.name() {
                name if name.starts_with("FilterPushdown") => Arc::new(WhereNamesDiffer(rule)),
                "ProjectionPushdown" => Arc::new(GuardedStay(rule)),
                "SanityCheckPlan" => Arc::new(Sanity),
                _ => rule,
            }
        })
        .collect();
    let place = |rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>], name| {
        rules.iter().position(|rule| rule.name() == name)
    };
    let selected = place(&rules, "join_selection").map_or(0, |place| place + 1);
    rules.insert(selected, Arc::new(Constants));
    rules.insert(selected, Arc::new(KeepOrders));
    let checked = place(&rules, Sanity.name()).unwrap_or(rules.len());
    rules.insert(checked, Arc::new(Orders));
    rules.insert(0, Arc::new(LambdaPlaces));
    rules
}

/// Returns those that a node has for its part of such a plan, once it is there: the operators that keep it
/// within its memory, and end it when nobody wants its rows.
pub fn rules_of_received_plans() -> [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 4] {
    [Arc::new(InPieces), Arc::new(Slices), Arc::new(JoinFilters), Arc::new(Yielding)]
}

#[cfg(test)]
mod tests {
    use super::rules;
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    /// Their places are told by the names of DataFusion's rules, which another version may change.
    #[test]
    fn ours_are_among_the_rules_of_datafusion_where_they_should_be() {
        let rules = rules();
        let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let at = |name: &str| {
            let place = names.iter().position(|known| *known == name);
            place.unwrap_or_else(|| panic!("no rule {name} among {names:?}"))
        };
        let selection = at("join_selection");
        assert_eq!(at("Positions") + 1, selection);
        assert_eq!((at("KeepOrders"), at("Constants")), (selection + 1, selection + 2));
        assert_eq!(at("Orders") + 1, at("sanity"));
        let of_datafusion = PhysicalOptimizer::new().rules;
        let count =
            |begins: &str| of_datafusion.iter().filter(|rule| rule.name().starts_with(begins)).count();
        assert_eq!((count("FilterPushdown"), count("SanityCheckPlan")), (2, 1));
        assert!(count("ProjectionPushdown") > 0);
    }
}
