//! Functions in plans that are sent to other nodes of a cluster ([`hypostyle_expr::portable`]).

use super::Session;
use super::advisory::AdvisoryFunction;
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use hypostyle_cluster::travel::{Journeys, Travels};
use hypostyle_error::from_datafusion;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::portable::{Entry, Functions, Table};
use hypostyle_expr::registry;
use hypostyle_files::uuid_column::Converter;
use hypostyle_types::Result;
use std::sync::Arc;

/// The types of functions of this crate.
static TABLE: Table = Table {
    scalars: &[
        Entry::refused::<AdvisoryFunction>("it is about the sessions of one engine"),
        Entry::refused::<Converter>("files are written by the node of the statement"),
    ],
    ..Table::EMPTY
};

/// The tables of the crates above the one that encodes functions.
const TABLES: [&Table; 3] = [&hypostyle_plan::portable::TABLE, &hypostyle_catalog::portable::TABLE, &TABLE];

/// Returns the functions that plans of a session, or for one, may call, by its settings; those that
/// are decoded take the memory of its statements.
///
/// # Errors
/// `Internal` if DataFusion takes a function of ours no more.
pub(crate) fn functions(config: &ConfigOptions, meter: &Arc<Meter>) -> Result<Functions> {
    registry::functions(config, meter, &TABLES).map_err(from_datafusion)
}

impl Session {
    /// Has each plan of this session sent to another one, as nodes send theirs, and runs what arrives
    /// there in its place: tests see by this what can be sent.
    ///
    /// # Errors
    /// `Internal` if DataFusion takes a function of ours no more.
    pub fn send_plans(&self, to: &Self, journeys: &Arc<Journeys>) -> Result<()> {
        let functions = |session: &Self| {
            let state = session.context.state_ref();
            let functions = functions(state.read().config_options(), &session.meter).map(Arc::new)?;
            state.write().config_mut().set_extension(functions.clone());
            Ok(functions)
        };
        functions(to)?;
        let travels = Travels::new(functions(self)?, to.context.state(), journeys.clone());
        let state = self.context.state_ref();
        let mut state = state.write();
        let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = vec![Arc::new(travels)];
        rules.extend(state.physical_optimizers().iter().cloned());
        let builder = SessionStateBuilder::new_from_existing(state.clone());
        *state = builder.with_physical_optimizer_rules(rules).build();
        *self.spare_state.lock() = None;
        Ok(())
    }
}
