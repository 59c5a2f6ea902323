//! Plans that travel to another session as they do to a node, for tests.

use super::Session;
use super::portable::functions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use hypostyle_cluster::travel::{Journeys, Travels};
use hypostyle_types::Result;
use std::sync::Arc;

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
